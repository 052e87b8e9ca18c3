"""Flat rows: ``metricsbridge.series.samples.Rows``."""

cdef class RowsReader:
    """Reads documents of one schema: the members are those of ``Rows``."""

    cdef tuple kept
    cdef Key time
    cdef Key values[MOST_MEMBERS]
    cdef Key numbered[MOST_MEMBERS]
    cdef Py_ssize_t most_values, most_numbered
    cdef uint64_t sizes  # of the names of values, as bits

    def __init__(self, *, time, values, numbered):
        cdef Py_ssize_t i
        names = [name.encode() for name in values]
        numbers = [name.encode() for name in numbered]
        self.kept = (time.encode(), *names, *numbers)
        self.most_values, self.most_numbered = len(names), len(numbers)
        if max(self.most_values, self.most_numbered) > MOST_MEMBERS:
            raise ValueError(f"more than {MOST_MEMBERS} names")
        self.time = key_of(self.kept[0])
        for i in range(self.most_values):
            self.values[i] = key_of(names[i])
            if self.values[i].size < 64:
                self.sizes |= <uint64_t>1 << self.values[i].size
        for i in range(self.most_numbered):
            self.numbered[i] = key_of(numbers[i])

    def read(self, bytes body):
        """Give keys, lengths, times and values; None to leave it alone."""
        cdef Table found
        cdef Position p = body
        cdef Py_ssize_t size = len(body)
        memset(&found, 0, sizeof(found))
        found.rows = size // 100
        found.end = p + size
        try:
            if size <= SMALL:
                p = self.document(p, &found)
            else:
                with nogil:
                    p = self.document(p, &found)
            if p == NULL or p != found.end or not is_text_throughout(body, found.marks):
                return None
            return self.result(&found)
        except UnicodeDecodeError:
            return None
        finally:
            PyMem_RawFree(found.times.data)
            PyMem_RawFree(found.values.data)
            PyMem_RawFree(found.places.data)
            PyMem_RawFree(found.namings.data)
            PyMem_RawFree(found.groups.data)
            PyMem_RawFree(found.slots)

    cdef tuple result(self, Table* found):
        cdef Group* groups = <Group*>found.groups.data
        cdef Naming* naming
        cdef Py_ssize_t i, j
        cdef list keys = []
        cdef dict key
        for i in range(found.groups.used):
            key = {}
            for j in range(groups[i].count):
                naming = <Naming*>found.namings.data + groups[i].first + j
                text = text_of(naming.value)
                key[text_of(naming.name)] = str(int(text)) if naming.number else text
            keys.append(tuple(sorted(key.items())))
        if len(set(keys)) < len(keys):  # written in several ways: their rows belong together, in their order
            return None
        lengths = tuple([groups[i].rows for i in range(found.groups.used)])
        if not sort_rows(found):
            raise MemoryError
        return tuple(keys), lengths, taken(&found.times, sizeof(int64_t)), taken(&found.values, sizeof(double))

    cdef Position document(self, Position p, Table* found) noexcept nogil:
        cdef Row row
        cdef Py_ssize_t place = -1
        p = blank(p)
        p = into(p, 91)
        while p != NULL and p[0] != 93:
            p = self.row(p, &row, found)
            if p == NULL:
                return NULL
            place = place_of(&row, place, found)
            if place < 0 or not add_whole(&found.places, place, found.rows):
                return NULL
            (<Group*>found.groups.data)[place].rows += 1
            if not add_whole(&found.times, row.time, found.rows) or not add_double(&found.values, row.value, found.rows):
                return NULL
            p = behind(p, 93)
        return blank(p + 1) if p != NULL else NULL

    cdef Position row(self, Position p, Row* row, Table* found) noexcept nogil:
        """Read one row: a time, perhaps values, and what names its series, in any order."""
        cdef Text key
        cdef uint64_t seen = 0
        cdef bint quoted, timed = False
        cdef Py_ssize_t rank
        cdef double value = 0
        row.value = NAN
        row.rank = MOST_MEMBERS
        row.count = row.passed = 0
        p = into(p, 123)
        while p != NULL and p[0] != 125:
            p = member(p, found.end, &key)
            if p == NULL or key.marks & ESCAPED:
                return NULL
            found.marks |= key.marks
            rank = self.rank_of(key)
            if is_key(key, self.time):
                if timed or rank >= 0:
                    return NULL
                timed = True
                quoted = p[0] == 34
                p = whole(p + quoted, found.end, &row.time)
                if quoted and p != NULL:
                    p = p + 1 if p[0] == 34 else NULL
            elif rank >= 0:
                if seen >> rank & 1:
                    return NULL
                seen |= <uint64_t>1 << rank
                p = quoted_quantity(p, found.end, &value)
                if rank < row.rank:
                    row.rank = rank
                    row.value = value
            elif p[0] == 34 or is_digit(p[0]) or p[0] == 45:
                p = self.naming(p, key, row, found)
            else:
                p = passed_over(p, found.end, &found.marks)
                if not passed(row, key):
                    return NULL
            p = behind(p, 125)
        return p + 1 if p != NULL and timed and is_plain(row) else NULL

    cdef Position naming(self, Position p, Text key, Row* row, Table* found) noexcept nogil:
        """Read a string, or a whole number, that may name the row's series."""
        cdef Text value
        cdef Number number
        cdef bint text = p[0] == 34
        if text:
            p = string(p, found.end, &value)
            found.marks |= value.marks
        else:
            value.at = p
            value.marks = 0
            p = digits(p, found.end, &number)
            if p == NULL or not number.exact or number.exponent > 280:
                return NULL
            value.size = p - value.at
            if not number.whole or not self.is_numbered(key):
                # What the lower case of other letters is, Unicode says.
                return p if not key.marks & WIDE and passed(row, key) else NULL
            if value.size > 18:  # perhaps none that fits into int64
                return NULL
        if row.count == MOST_MEMBERS:
            return NULL
        row.namings[row.count] = Naming(key, value, not text)
        row.count += 1
        return p

    cdef Py_ssize_t rank_of(self, Text key) noexcept nogil:
        """Give the place of a name among those of the value; -1 where it is none."""
        cdef Py_ssize_t i
        if key.size < 64 and not self.sizes >> key.size & 1:
            return -1
        for i in range(self.most_values):
            if is_key(key, self.values[i]):
                return i
        return -1

    cdef bint is_numbered(self, Text key) noexcept nogil:
        cdef Py_ssize_t i, j
        for i in range(self.most_numbered):
            if self.numbered[i].size == key.size:
                for j in range(key.size):
                    if lower(key.at[j]) != <unsigned char>self.numbered[i].at[j]:
                        break
                else:
                    return True
        return False


cdef inline bint passed(Row* row, Text name) noexcept nogil:
    """Note a member that is passed over; False where there are too many."""
    if row.passed == MOST_MEMBERS:
        return False
    row.others[row.passed] = name
    row.passed += 1
    return True


cdef inline bint is_plain(Row* row) noexcept nogil:
    """Tell whether no member that names the series is overruled by another one of its name."""
    cdef Py_ssize_t i, j
    for i in range(row.passed):
        for j in range(row.count):
            if (
                row.others[i].size == row.namings[j].name.size
                and memcmp(row.others[i].at, row.namings[j].name.at, row.others[i].size) == 0
            ):
                return False
    return True


cdef inline unsigned char lower(unsigned char byte) noexcept nogil:
    return byte | 32 if 65 <= byte <= 90 else byte
