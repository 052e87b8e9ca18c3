"""Lists of ``[time, value]`` pairs under labels: ``metricsbridge.series.matrices.LabelledLists``."""

cdef struct Labelled:
    # What was read of a document.
    Column times
    Column values
    Column labels  # Texts, name and value of each label in turn
    Column counts  # how many labels a series has
    Column lengths
    Column warnings  # Texts
    Position end
    bint many  # whether the last value was written with many decimals: the next one will be
    int marks
    Py_ssize_t first


cdef class LabelledListsReader:
    """Reads documents of one schema: the members are those of ``LabelledLists``."""

    cdef tuple kept
    cdef Key holder, series, labels, samples, warnings
    cdef bint single
    cdef double blank_from

    def __init__(self, *, holder, series, labels, samples, single, warnings, blank_from):
        self.kept = tuple([name.encode() for name in (holder, series, labels, samples, warnings)])
        self.holder, self.series, self.labels = key_of(self.kept[0]), key_of(self.kept[1]), key_of(self.kept[2])
        self.samples, self.warnings = key_of(self.kept[3]), key_of(self.kept[4])
        self.single = single
        self.blank_from = INFINITY if blank_from is None else blank_from

    def read(self, bytes body):
        """Give labels, lengths, times, values and warnings; None to leave it alone."""
        cdef Labelled found
        cdef Position p = body
        cdef Py_ssize_t size = len(body)
        memset(&found, 0, sizeof(found))
        found.first = size // 32
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
            PyMem_RawFree(found.labels.data)
            PyMem_RawFree(found.counts.data)
            PyMem_RawFree(found.lengths.data)
            PyMem_RawFree(found.warnings.data)

    cdef tuple result(self, Labelled* found):
        cdef Text* texts = <Text*>found.labels.data
        cdef Py_ssize_t i, place = 0
        cdef list labels = []
        cdef dict one
        for i in range(found.counts.used):
            one = {}
            for _ in range((<int64_t*>found.counts.data)[i]):
                one[text_of(texts[place])] = text_of(texts[place + 1])
                place += 2
            labels.append(one)
        return (
            tuple(labels),
            tuple([(<int64_t*>found.lengths.data)[i] for i in range(found.lengths.used)]),
            taken(&found.times, sizeof(int64_t)), taken(&found.values, sizeof(double)),
            tuple([text_of((<Text*>found.warnings.data)[i]) for i in range(found.warnings.used)]),
        )

    cdef Position document(self, Position p, Labelled* found) noexcept nogil:
        cdef Text name
        cdef int seen = 0
        p = blank(p)
        p = into(p, 123)
        while p != NULL and p[0] != 125:
            p = member(p, found.end, &name)
            if p == NULL or name.marks & ESCAPED:
                return NULL
            found.marks |= name.marks
            if is_key(name, self.holder):
                if seen & 1:
                    return NULL
                seen |= 1
                p = word(p, "null") if p[0] == 110 else self.held(p, found)
            elif self.warnings.size and is_key(name, self.warnings):
                if seen & 2:
                    return NULL
                seen |= 2
                p = word(p, "null") if p[0] == 110 else self.warned(p, found)
            else:
                p = passed_over(p, found.end, &found.marks)
            p = behind(p, 125)
        return blank(p + 1) if p != NULL else NULL

    cdef Position warned(self, Position p, Labelled* found) noexcept nogil:
        """Read a list of strings."""
        cdef Text text
        p = into(p, 91)
        while p != NULL and p[0] != 93:
            p = string(p, found.end, &text)
            if p == NULL or not add_text(&found.warnings, text):
                return NULL
            found.marks |= text.marks
            p = behind(p, 93)
        return p + 1 if p != NULL else NULL

    cdef Position held(self, Position p, Labelled* found) noexcept nogil:
        """Read the object that holds the list of series."""
        cdef Text name
        cdef bint seen = False
        p = into(p, 123)
        while p != NULL and p[0] != 125:
            p = member(p, found.end, &name)
            if p == NULL or name.marks & ESCAPED:
                return NULL
            found.marks |= name.marks
            if is_key(name, self.series):
                if seen:
                    return NULL
                seen = True
                p = word(p, "null") if p[0] == 110 else self.listed(p, found)
            else:
                p = passed_over(p, found.end, &found.marks)
            p = behind(p, 125)
        return p + 1 if p != NULL else NULL

    cdef Position listed(self, Position p, Labelled* found) noexcept nogil:
        """Read the list of series."""
        p = into(p, 91)
        while p != NULL and p[0] != 93:
            p = self.one(p, found)
            p = behind(p, 93)
        return p + 1 if p != NULL else NULL

    cdef Position one(self, Position p, Labelled* found) noexcept nogil:
        """Read one series: labels and perhaps pairs, in any order."""
        cdef Text key
        cdef int seen = 0
        cdef Py_ssize_t before = found.times.used
        p = into(p, 123)
        while p != NULL and p[0] != 125:
            p = member(p, found.end, &key)
            if p == NULL or key.marks & ESCAPED:
                return NULL
            found.marks |= key.marks
            if is_key(key, self.labels):
                if seen & 1:
                    return NULL
                seen |= 1
                p = self.labelled(p, found)
            elif is_key(key, self.samples):
                if seen & 2:
                    return NULL
                seen |= 2
                if p[0] == 110:
                    p = word(p, "null")
                else:
                    p = self.pair(p, found) if self.single else self.pairs(p, found)
            else:
                p = passed_over(p, found.end, &found.marks)
            p = behind(p, 125)
        if p == NULL or not seen & 1 or not add_whole(&found.lengths, found.times.used - before, 16):
            return NULL
        return p + 1

    cdef Position labelled(self, Position p, Labelled* found) noexcept nogil:
        """Read an object of strings."""
        cdef Text name, text
        cdef Py_ssize_t count = 0
        p = into(p, 123)
        while p != NULL and p[0] != 125:
            p = member(p, found.end, &name)
            if p != NULL:
                p = string(p, found.end, &text)
            if p == NULL or not add_text(&found.labels, name) or not add_text(&found.labels, text):
                return NULL
            found.marks |= name.marks | text.marks
            count += 1
            p = behind(p, 125)
        return p + 1 if p != NULL and add_whole(&found.counts, count, 16) else NULL

    cdef Position pairs(self, Position p, Labelled* found) noexcept nogil:
        """Read a list of pairs."""
        p = into(p, 91)
        while p != NULL and p[0] != 93:
            p = self.pair(p, found)
            p = behind(p, 93)
        return p + 1 if p != NULL else NULL

    cdef inline Position pair(self, Position p, Labelled* found) noexcept nogil:
        """Read one time in seconds and one value, which may stand in a string."""
        cdef int64_t time = 0
        cdef double value = 0
        cdef Position start
        cdef bint quoted
        if p[0] != 91:
            return NULL
        p = seconds(blank(p + 1), found.end, &time)
        if p == NULL or not add_whole(&found.times, time, found.first):
            return NULL
        p = blank(p)
        if p[0] != 44:
            return NULL
        p = blank(p + 1)
        quoted = p[0] == 34
        if quoted and (p[1] > 57 or p[1] == 43):  # a letter, or a plus
            p = no_quantity(p + 1)
            value = NAN
        else:
            start = p + quoted
            p = unrounded(start, found.end, &value) if found.many else NULL
            if p == NULL:
                p = quantity(start, found.end, &value, NULL)
            found.many = p - start > MANY
            if value >= self.blank_from:
                value = NAN
        if p == NULL or (quoted and p[0] != 34) or not add_double(&found.values, value, found.first):
            return NULL
        p = blank(p + quoted)
        return p + 1 if p[0] == 93 else NULL


cdef inline Position seconds(Position p, Position end, int64_t* milliseconds) noexcept nogil:
    """Read seconds as the nearest whole milliseconds.

    Below 2^51 of them a number with at most three decimals is further than its error from any half.
    """
    cdef Number number
    cdef double value = 0
    cdef Position behind = digits(p, end, &number)
    if behind == NULL:
        return NULL
    if number.exact and -3 <= number.exponent <= 0 and number.digits < (<uint64_t>1 << 41):
        value = <double>number.digits * mb_tens[3 + number.exponent]
        milliseconds[0] = <int64_t>(-value if number.negative else value)
        return behind
    if quantity(p, end, &value, NULL) == NULL:
        return NULL
    value = rint(value * 1000)
    if not -9.2e18 < value < 9.2e18:  # close to the end of int64 the slower decoder decides
        return NULL
    milliseconds[0] = <int64_t>value
    return behind


cdef inline Position no_quantity(Position p) noexcept nogil:
    """Step over the text of what is no quantity: NaN, Inf or Infinity, in letters of either case, with a sign or none."""
    if p[0] == 43 or p[0] == 45:
        p += 1
    if (p[0] | 32) == 110 and (p[1] | 32) == 97 and (p[2] | 32) == 110:
        return p + 3
    if (p[0] | 32) == 105 and (p[1] | 32) == 110 and (p[2] | 32) == 102:
        p += 3
        if (p[0] | 32) == 105:
            return p + 5 if spelled(p, b"inity") else NULL
        return p
    return NULL


cdef inline bint spelled(Position p, const char* wanted) noexcept nogil:
    """Tell whether these letters stand there, in either case."""
    while wanted[0] != 0:
        if (p[0] | 32) != <unsigned char>wanted[0]:
            return False
        p += 1
        wanted += 1
    return True
