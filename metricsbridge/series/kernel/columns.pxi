"""Columns that grow, the strings of a document: what the readers share."""

cdef extern from "Python.h" nogil:
    void* PyMem_RawMalloc(size_t size)
    void* PyMem_RawRealloc(void* data, size_t size)
    void PyMem_RawFree(void* data)

cdef enum:
    MANY = 10  # characters: numbers that are longer have eight decimals or more, mostly
    SMALL = 4096  # bytes: a body up to this is read faster than the GIL is handed over

cdef inline Position quoted_quantity(Position p, Position end, double* value) noexcept nogil:
    """Read a number that may stand in a string, or null, which is NaN."""
    cdef bint quoted = p[0] == 34
    if p[0] == 110:
        value[0] = NAN
        return word(p, "null")
    p = quantity(p + quoted, end, value, NULL, False)
    if quoted and p != NULL and p[0] != 34:
        return NULL
    return p + quoted if p != NULL else p


cdef Key key_of(bytes name) except *:
    """Give a name as the readers compare it; whoever calls keeps it alive.

    Raises:
        ValueError: JSON can't write it as it is.
    """
    if any([byte < 32 or byte in b'"\\' for byte in name]):
        raise ValueError("the name must be escaped in JSON")
    cdef Key key = Key(<const char*>name, len(name), 0, 0)
    if 0 < key.size < 8:
        key.mask = ~<uint64_t>0 >> 8 * (7 - key.size)
        memcpy(&key.eight, key.at, key.size)
        key.eight |= <uint64_t>34 << 8 * key.size
    return key


cdef struct Column:
    # Items of one size, one after the other; ``room`` is how many fit.
    char* data
    Py_ssize_t used
    Py_ssize_t room


cdef bint grow(Column* column, size_t item, Py_ssize_t first) noexcept nogil:
    """Make room for at least one more; False where there is no memory."""
    cdef Py_ssize_t room = column.room * 2 if column.room else first
    cdef char* data
    if room < 16:
        room = 16
    data = <char*>PyMem_RawRealloc(column.data, room * item)
    if data == NULL:
        return False
    column.data = data
    column.room = room
    return True


cdef inline bint add_double(Column* column, double value, Py_ssize_t first) noexcept nogil:
    if column.used == column.room and not grow(column, sizeof(double), first):
        return False
    (<double*>column.data)[column.used] = value
    column.used += 1
    return True


cdef inline bint add_whole(Column* column, int64_t value, Py_ssize_t first) noexcept nogil:
    if column.used == column.room and not grow(column, sizeof(int64_t), first):
        return False
    (<int64_t*>column.data)[column.used] = value
    column.used += 1
    return True


cdef inline bint add_text(Column* column, Text text) noexcept nogil:
    if column.used == column.room and not grow(column, sizeof(Text), 16):
        return False
    (<Text*>column.data)[column.used] = text
    column.used += 1
    return True


cdef class Items:
    """What a column holds, as a buffer for numpy: not copied, and freed with the last array over it."""

    cdef char* data
    cdef Py_ssize_t size

    def __dealloc__(self):
        PyMem_RawFree(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)


cdef Items taken(Column* column, Py_ssize_t item):
    """Take the items out of a column, without what is left of its room."""
    cdef Items items = Items.__new__(Items)
    cdef char* data = column.data
    if column.used < column.room or data == NULL:  # a block that can't shrink stays as it is
        data = <char*>PyMem_RawRealloc(column.data, (column.used if column.used else 1) * item)
    items.data = data if data != NULL else column.data
    items.size = column.used * item
    column.data = NULL
    column.used = column.room = 0
    return items


cdef str text_of(Text text):
    """Give a string of the document.

    Raises:
        UnicodeDecodeError: It is not UTF-8.
    """
    if text.marks & ESCAPED:
        return msgspec.json.decode(b'"%b"' % text.at[:text.size], type=str)
    return PyUnicode_DecodeUTF8(<const char*>text.at, text.size, NULL)


cdef bint is_text_throughout(bytes body, int marks) except -1:
    """Tell whether the bytes are UTF-8."""
    if marks & WIDE:
        try:
            PyUnicode_DecodeUTF8(body, len(body), NULL)
        except UnicodeDecodeError:
            return False
    return True
