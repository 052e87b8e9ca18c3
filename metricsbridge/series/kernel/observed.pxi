"""Which series have a value at all: ``metricsbridge.series.columns`` and the readers of many documents."""


cdef inline bint has_value(const double* values, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        if values[i] == values[i]:
            return True
    return False


def observed(const int64_t[::1] offsets, const double[::1] values, unsigned char[::1] out):
    """Write for each series whether it has a value.

    Args:
        offsets: int64[S + 1]; series ``i`` holds the values ``offsets[i]:offsets[i + 1]``.
        values: float64[N].
        out: bool[S].

    Raises:
        ValueError: The columns do not fit each other.
    """
    cdef Py_ssize_t row
    cdef double none = 0
    cdef const double* value = &values[0] if values.shape[0] else &none
    if offsets.shape[0] != out.shape[0] + 1 or offsets[0] != 0 or offsets[out.shape[0]] != values.shape[0]:
        raise ValueError("the columns do not fit each other")
    for row in range(out.shape[0]):
        if offsets[row] > offsets[row + 1]:
            raise ValueError("offsets must not fall")
    with nogil:
        for row in range(out.shape[0]):
            out[row] = has_value(value + offsets[row], offsets[row + 1] - offsets[row])


cdef void leave_out_empty(Arrays* found, Py_ssize_t start) noexcept nogil:
    """Leave out the arrays without any value of the document whose values begin there."""
    cdef Text* names = <Text*>found.names.data
    cdef int64_t* lengths = <int64_t*>found.lengths.data
    cdef double* values = <double*>found.values.data
    cdef Py_ssize_t i, count, kept = 0, filled = start
    for i in range(found.names.used):
        count = lengths[i]
        if count and has_value(values + start, count):
            if filled != start:
                memmove(values + filled, values + start, count * sizeof(double))
            names[kept], lengths[kept] = names[i], count
            kept += 1
            filled += count
        start += count
    found.names.used = found.lengths.used = kept
    found.values.used = filled


cdef bint same_texts(Column* left, Column* right) noexcept nogil:
    """Tell whether two columns hold the same strings, written alike."""
    cdef Text* texts = <Text*>left.data
    cdef Text* others = <Text*>right.data
    cdef Py_ssize_t i
    if left.used != right.used:
        return False
    for i in range(left.used):
        if texts[i].size != others[i].size or memcmp(texts[i].at, others[i].at, texts[i].size) != 0:
            return False
    return True


cdef bint same_wholes(Column* left, Column* right) noexcept nogil:
    """Tell whether two columns hold the same whole numbers."""
    return left.used == right.used and (
        left.used == 0 or memcmp(left.data, right.data, left.used * sizeof(int64_t)) == 0
    )
