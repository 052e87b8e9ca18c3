"""Lists of samples, each an object with a time and a value: ``metricsbridge.series.samples.SampleLists``."""

cdef struct Samples:
    # What was read of a document.
    Column times
    Column values
    Column names  # a Text for each series
    Column lengths
    Position end
    int marks
    Py_ssize_t first


cdef class SampleListsReader:
    """Reads documents of one schema: the members are those of ``SampleLists``."""

    cdef tuple kept
    cdef Key series, name, samples, time, value

    def __init__(self, *, series, name, samples, time, value):
        self.kept = tuple([name.encode() for name in (series, name, samples, time, value)])
        self.series, self.name, self.samples = key_of(self.kept[0]), key_of(self.kept[1]), key_of(self.kept[2])
        self.time, self.value = key_of(self.kept[3]), key_of(self.kept[4])

    def read(self, bytes body):
        """Give names, lengths, times and values; None to leave it alone."""
        cdef Samples found
        cdef Position p = body
        cdef Py_ssize_t size = len(body)
        cdef Py_ssize_t i
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
            return (
                tuple([text_of((<Text*>found.names.data)[i]) for i in range(found.names.used)]),
                tuple([(<int64_t*>found.lengths.data)[i] for i in range(found.lengths.used)]),
                taken(&found.times, sizeof(int64_t)), taken(&found.values, sizeof(double)),
            )
        except UnicodeDecodeError:
            return None
        finally:
            PyMem_RawFree(found.times.data)
            PyMem_RawFree(found.values.data)
            PyMem_RawFree(found.names.data)
            PyMem_RawFree(found.lengths.data)

    cdef Position document(self, Position p, Samples* found) noexcept nogil:
        cdef Text name
        cdef bint seen = False
        p = blank(p)
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
        return blank(p + 1) if p != NULL else NULL

    cdef Position listed(self, Position p, Samples* found) noexcept nogil:
        """Read the list of series."""
        p = into(p, 91)
        while p != NULL and p[0] != 93:
            p = self.one(p, found)
            p = behind(p, 93)
        return p + 1 if p != NULL else NULL

    cdef Position one(self, Position p, Samples* found) noexcept nogil:
        """Read one series: a name and perhaps samples, in any order."""
        cdef Text key, name = Text(NULL, 0, 0)
        cdef int seen = 0
        cdef Py_ssize_t before = found.times.used
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
            elif is_key(key, self.samples):
                if seen & 2:
                    return NULL
                seen |= 2
                p = word(p, "null") if p[0] == 110 else self.sampled(p, found)
            else:
                p = passed_over(p, found.end, &found.marks)
            p = behind(p, 125)
        if p == NULL or not seen & 1 or not add_text(&found.names, name):
            return NULL
        return p + 1 if add_whole(&found.lengths, found.times.used - before, 16) else NULL

    cdef Position sampled(self, Position p, Samples* found) noexcept nogil:
        """Read a list of samples."""
        cdef int64_t time = 0
        cdef double value = 0
        cdef Position next
        p = into(p, 91)
        while p != NULL and p[0] != 93:
            next = self.usual(p, &time, &value, found.end)
            p = next if next != NULL else self.sample(p, &time, &value, found)
            if p == NULL or not add_whole(&found.times, time, found.first):
                return NULL
            if not add_double(&found.values, value, found.first):
                return NULL
            p = behind(p, 93)
        return p + 1 if p != NULL else NULL

    cdef inline Position usual(self, Position p, int64_t* time, double* value, Position end) noexcept nogil:
        """Read a sample that is a time and a number, in this order, and nothing else; NULL for any other."""
        if p[0] == 123:
            p = ahead(p + 1, end, self.time)
            if p != NULL:
                p = whole(p, end, time)
                if p != NULL and p[0] == 44:
                    p = ahead(blank(p + 1), end, self.value)
                    if p != NULL:
                        p = quantity(p, end, value, NULL)
                        if p != NULL and p[0] == 125:
                            return p + 1
        return NULL

    cdef Position sample(self, Position p, int64_t* time, double* value, Samples* found) noexcept nogil:
        """Read one sample: a time and perhaps a value, in any order."""
        cdef Text key
        cdef int seen = 0
        value[0] = NAN
        p = into(p, 123)
        while p != NULL and p[0] != 125:
            p = member(p, found.end, &key)
            if p == NULL or key.marks & ESCAPED:
                return NULL
            found.marks |= key.marks
            if is_key(key, self.time):
                if seen & 1:
                    return NULL
                seen |= 1
                p = whole(p, found.end, time)
            elif is_key(key, self.value):
                if seen & 2:
                    return NULL
                seen |= 2
                p = word(p, "null") if p[0] == 110 else quantity(p, found.end, value, NULL)
            else:
                p = passed_over(p, found.end, &found.marks)
            p = behind(p, 125)
        return p + 1 if p != NULL and seen & 1 else NULL
