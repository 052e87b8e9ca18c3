"""Arrays of numbers, each under a name: ``metricsbridge.series.decode.NumberArrays``."""

cdef struct Arrays:
    # What was read of a document.
    Column values
    Column doubtful  # one byte a value
    Column names  # a Text for each array, and for each member of an object that is none
    Column lengths  # of each; -1 where it is no array, -2 - n for the n-th and later arrays of one name
    double interval
    bint decimals
    Position end
    int marks
    Py_ssize_t first


cdef class NumberArraysReader:
    """Reads documents of one schema: the members are those of ``NumberArrays``."""

    cdef tuple kept
    cdef Key series, name, values, doubtful, interval
    cdef Key sentinel  # the missing number as it is mostly written
    cdef bint text, has_missing
    cdef double missing

    def __init__(self, *, series, name, values, missing, text, doubtful, interval):
        whole = str(int(missing)) if missing is not None and missing == missing // 1 else ""
        self.kept = tuple([name.encode() for name in (series, name, values, doubtful, interval, whole)])
        self.sentinel = key_of(self.kept[5])
        self.series, self.name, self.values = key_of(self.kept[0]), key_of(self.kept[1]), key_of(self.kept[2])
        self.doubtful, self.interval = key_of(self.kept[3]), key_of(self.kept[4])
        self.text = text
        self.has_missing = missing is not None
        self.missing = missing if missing is not None else 0.0

    def read(self, bytes body):
        """Give names, lengths, values, doubtful marks or None, decimals, interval or None; None to leave it alone."""
        cdef Arrays found
        cdef Position p = body
        cdef Py_ssize_t size = len(body)
        found.values = found.doubtful = found.names = found.lengths = Column(NULL, 0, 0)
        found.interval = NAN
        found.decimals = False
        found.marks = 0
        found.end = p + size
        found.first = size // 5
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
            PyMem_RawFree(found.values.data)
            PyMem_RawFree(found.doubtful.data)
            PyMem_RawFree(found.names.data)
            PyMem_RawFree(found.lengths.data)

    def read_all(self, bodies, bint empty):
        """Give names and lengths of each document, and all values; None to leave them alone, all or none.

        Arrays without any value are there only where they are asked for. Where names and lengths are those of the document before, they are the
        same object. Only for lists of arrays of plain numbers.
        """
        cdef Arrays found
        cdef Column names = Column(NULL, 0, 0), lengths = Column(NULL, 0, 0)  # of the document before
        cdef Position p
        cdef Py_ssize_t size, start
        cdef tuple kept = tuple(bodies)  # what was read points into them
        cdef list shapes = []
        cdef object shape = None
        if self.text or self.name.size == 0 or self.interval.size:
            return None
        found.values = found.doubtful = found.names = found.lengths = names
        found.interval = NAN
        found.decimals = False
        found.first = 0
        for body in kept:
            if type(body) is not bytes:
                return None
            found.first += len(<bytes>body) // 5
        try:
            for body in kept:
                p = <bytes>body
                size = len(<bytes>body)
                found.end = p + size
                found.marks = 0
                found.names.used = found.lengths.used = 0
                start = found.values.used
                if size <= SMALL:
                    p = self.document(p, &found)
                else:
                    with nogil:
                        p = self.document(p, &found)
                if p == NULL or p != found.end or not is_text_throughout(body, found.marks):
                    return None
                if not empty:
                    leave_out_empty(&found, start)
                if shape is None or not same_texts(&found.names, &names) or not same_wholes(&found.lengths, &lengths):
                    found.names, names = names, found.names
                    found.lengths, lengths = lengths, found.lengths
                    shape = (
                        tuple([text_of((<Text*>names.data)[i]) for i in range(names.used)]),
                        tuple([(<int64_t*>lengths.data)[i] for i in range(lengths.used)]),
                    )
                shapes.append(shape)
            return tuple(shapes), taken(&found.values, sizeof(double))
        except UnicodeDecodeError:
            return None
        finally:
            PyMem_RawFree(found.values.data)
            PyMem_RawFree(found.names.data)
            PyMem_RawFree(found.lengths.data)
            PyMem_RawFree(names.data)
            PyMem_RawFree(lengths.data)

    cdef tuple result(self, Arrays* found):
        cdef Text* names = <Text*>found.names.data
        cdef int64_t* lengths = <int64_t*>found.lengths.data
        cdef list texts = [], counts = []
        cdef Py_ssize_t i
        cdef str name = ""
        cdef bint keyed = self.name.size == 0
        cdef set seen = set()
        for i in range(found.names.used):
            if lengths[i] > -2:
                name = text_of(names[i])
                if keyed:
                    if name in seen:
                        return None
                    seen.add(name)
                if lengths[i] == -1:
                    continue
            texts.append(name)
            counts.append(lengths[i] if lengths[i] >= 0 else -2 - lengths[i])
        cdef object doubtful = None
        if self.doubtful.size:
            doubtful = taken(&found.doubtful, 1) if self.text else bytearray(found.values.used)
        return (
            tuple(texts), tuple(counts), taken(&found.values, sizeof(double)), doubtful, found.decimals,
            None if found.interval != found.interval else found.interval,
        )

    cdef Position document(self, Position p, Arrays* found) noexcept nogil:
        cdef Text name
        cdef int seen = 0
        p = blank(p)
        if self.series.size == 0:
            p = self.holder(p, found)
            return blank(p) if p != NULL else NULL
        p = into(p, 123)
        while p != NULL and p[0] != 125:
            p = member(p, found.end, &name)
            if p == NULL or name.marks & ESCAPED:
                return NULL
            found.marks |= name.marks
            if is_key(name, self.series):
                if seen & 1:
                    return NULL
                seen |= 1
                p = self.holder(p, found)
            elif self.interval.size and is_key(name, self.interval):
                if seen & 2:
                    return NULL
                seen |= 2
                p = quoted_quantity(p, found.end, &found.interval)
            else:
                p = passed_over(p, found.end, &found.marks)
            p = behind(p, 125)
        return blank(p + 1) if p != NULL and seen & 1 else NULL

    cdef Position holder(self, Position p, Arrays* found) noexcept nogil:
        """Read what holds the arrays: an object of them, or a list of objects with one each."""
        if self.name.size:
            if p[0] == 110 and self.text:
                return word(p, "null")
            p = into(p, 91)
            while p != NULL and p[0] != 93:
                p = self.entry(p, found)
                p = behind(p, 93)
            return p + 1 if p != NULL else NULL
        return self.members(p, found)

    cdef Position members(self, Position p, Arrays* found) noexcept nogil:
        """Read an object whose members are arrays, or passed over."""
        cdef Text name
        cdef bint timed
        p = into(p, 123)
        while p != NULL and p[0] != 125:
            p = member(p, found.end, &name)
            if p == NULL or (self.interval.size and name.marks & ESCAPED):
                return NULL
            found.marks |= name.marks
            timed = self.interval.size and self.series.size == 0 and is_key(name, self.interval)
            if p[0] == 91 and not timed:
                p = self.arrays(p, name, found)
            else:
                if not add_text(&found.names, name) or not add_whole(&found.lengths, -1, 16):
                    return NULL
                p = quoted_quantity(p, found.end, &found.interval) if timed else passed_over(p, found.end, &found.marks)
            p = behind(p, 125)
        return p + 1 if p != NULL else NULL

    cdef Position entry(self, Position p, Arrays* found) noexcept nogil:
        """Read an object with a name and an array, in any order."""
        cdef Text key, name = Text(NULL, 0, 0)  # until it is read
        cdef int seen = 0
        cdef Py_ssize_t place = found.names.used
        p = into(p, 123)
        while p != NULL and p[0] != 125:
            p = member(p, found.end, &key)
            if p == NULL or key.marks & ESCAPED:
                return NULL
            found.marks |= key.marks
            if is_key(key, self.name):
                if seen & 1:
                    return NULL
                seen |= 1
                p = string(p, found.end, &name)
                found.marks |= name.marks
                if place < found.names.used:
                    (<Text*>found.names.data)[place] = name
            elif is_key(key, self.values):
                if seen & 2:
                    return NULL
                seen |= 2
                if p[0] == 91:
                    p = self.arrays(p, name, found)
                elif self.text:
                    p = word(p, "null")
                    if not add_text(&found.names, name) or not add_whole(&found.lengths, 0, 16):
                        return NULL
                else:
                    return NULL
            else:
                p = passed_over(p, found.end, &found.marks)
            p = behind(p, 125)
        return p + 1 if p != NULL and seen == 3 else NULL

    cdef Position arrays(self, Position p, Text name, Arrays* found) noexcept nogil:
        """Read an array of numbers, or where they stand in strings an array of such arrays."""
        cdef Py_ssize_t before = found.values.used
        cdef Py_ssize_t inner = 0
        cdef Position start = blank(p + 1)
        if not self.text or start[0] != 91:
            if not add_text(&found.names, name):
                return NULL
            p = self.texts(start, found) if self.text else self.numbers(start, found)
            return p if p != NULL and add_whole(&found.lengths, found.values.used - before, 16) else NULL
        p = start
        while p != NULL and p[0] != 93:
            before = found.values.used
            if p[0] == 91:
                p = self.texts(blank(p + 1), found)
            else:
                p = word(p, "null")
            if p == NULL or not add_text(&found.names, name):
                return NULL
            before = found.values.used - before
            if not add_whole(&found.lengths, -2 - before if inner else before, 16):
                return NULL
            inner += 1
            p = behind(p, 93)
        return p + 1 if p != NULL else NULL

    cdef Position numbers(self, Position p, Arrays* found) noexcept nogil:
        """Read the numbers of an array, from the first one on."""
        cdef double value = 0, missing = self.missing
        cdef bint has_missing = self.has_missing
        cdef Column* values = &found.values
        cdef Position start, end = found.end
        cdef bint many = False
        cdef Key sentinel = self.sentinel
        if p[0] == 93:
            return p + 1
        while True:
            if sentinel.size and p[0] == <unsigned char>sentinel.at[0] and begins(p, sentinel):
                value = NAN
                p += sentinel.size
            elif p[0] == 110:
                value = NAN
                p = word(p, "null")
            else:
                start = p
                p = unrounded(start, end, &value) if many else brief(start, end, &value)
                if p == NULL:
                    p = quantity(start, end, &value, NULL)
                many = p - start > MANY
                if has_missing and value == missing:
                    value = NAN
            if p == NULL or not add_double(values, value, found.first):
                return NULL
            if p[0] == 44:
                p += 1
            elif p[0] == 93:
                return p + 1
            else:
                p = blank(p)
                if p[0] == 93:
                    return p + 1
                if p[0] != 44:
                    return NULL
                p += 1
            p = blank(p)

    cdef Position texts(self, Position p, Arrays* found) noexcept nogil:
        """Read the numbers of an array that may stand in strings, from the first one on."""
        cdef double value = 0
        cdef Position start
        cdef bint mark, point = False, many = False
        while p != NULL and p[0] != 93:
            mark = False
            if p[0] == 34:
                start = p + 1
                p = NULL
                if many:
                    p = unrounded(start, found.end, &value)
                    point = True
                if p == NULL:
                    p = quantity(start, found.end, &value, &point)
                if p != NULL:
                    found.decimals |= point
                else:
                    p = no_number(start)
                    value = NAN
                if p == NULL or p[0] != 34:
                    return NULL
                many = p - start > MANY
                if self.doubtful.size:
                    mark = p - start == self.doubtful.size and memcmp(start, self.doubtful.at, p - start) == 0
                p += 1
            elif p[0] == 110:
                value = NAN
                p = word(p, "null")
            else:
                p = quantity(p, found.end, &value, NULL)
            if self.has_missing and value == self.missing:
                value = NAN
            if p == NULL or not add_double(&found.values, value, found.first):
                return NULL
            if self.doubtful.size:
                if found.doubtful.used == found.doubtful.room and not grow(&found.doubtful, 1, found.first):
                    return NULL
                found.doubtful.data[found.doubtful.used] = mark
                found.doubtful.used += 1
            p = behind(p, 93)
        return p + 1 if p != NULL else NULL


cdef inline bint begins(Position p, Key number) noexcept nogil:
    """Tell whether this number, and no longer one, stands there with a comma or the array's end right behind it."""
    cdef Py_ssize_t i
    for i in range(number.size):
        if p[i] != <unsigned char>number.at[i]:
            return False
    return p[number.size] == 44 or p[number.size] == 93


cdef inline Position no_number(Position p) noexcept nogil:
    """Step over the text that stands for no value: none at all, or NaN in letters of either case."""
    if p[0] == 34:
        return p
    if (p[0] | 32) == 110 and (p[1] | 32) == 97 and (p[2] | 32) == 110:
        return p + 3
    return NULL
