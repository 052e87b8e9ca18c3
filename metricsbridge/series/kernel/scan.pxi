"""JSON as bytes, one token after the other: the words that every reader of the kernel is written in.

A position is a pointer into a body. Python ends every ``bytes`` with a zero byte, and no token holds one: whoever steps
over a byte has seen that it is not zero, so no position passes the end. Who looks at eight bytes at once has asked
``holds_eight`` before. What a function takes as it should be is what RFC 8259 allows; where it gives NULL, the bytes are
malformed, or so unusual that the slower decoder shall look at them.
"""

cdef enum:
    ESCAPED = 1  # a string holds a backslash
    WIDE = 2  # a byte of a string is no ASCII: whether it is UTF-8 must be looked at
    DEEPEST = 64  # so far values that are passed over are followed


cdef struct Text:
    # A string of the document, between its quotes.
    Position at
    Py_ssize_t size
    int marks


cdef struct Key:
    # What a member that is looked for is called; not owned. Up to seven bytes, with the quote behind them, are ``eight``
    # under ``mask``; more have no mask.
    const char* at
    Py_ssize_t size
    uint64_t eight
    uint64_t mask


cdef inline Position blank(Position p) noexcept nogil:
    """Step over white space."""
    while p[0] <= 32 and (p[0] == 32 or p[0] == 10 or p[0] == 13 or p[0] == 9):
        p += 1
    return p


cdef inline bint is_hex(unsigned char byte) noexcept nogil:
    return is_digit(byte) or <unsigned char>((byte | 32) - 97) < 6


cdef inline bint is_key(Text text, Key key) noexcept nogil:
    """Tell whether a string without escapes is this one."""
    return text.size == key.size and memcmp(text.at, key.at, key.size) == 0


cdef inline Position escape(Position p) noexcept nogil:
    """Step over an escape, from its backslash; halves of surrogate pairs are left to the slower decoder."""
    cdef int i
    p += 1
    if p[0] == 117:  # u
        for i in range(1, 5):
            if not is_hex(p[i]):
                return NULL
        if (p[1] | 32) == 100 and p[2] >= 56:  # from d800 on, and letters in either case: at most dfff
            return NULL
        return p + 5
    if p[0] in (34, 92, 47, 98, 102, 110, 114, 116):  # one of "\/bfnrt
        return p + 1
    return NULL


cdef inline uint64_t zeros(uint64_t chunk) noexcept nogil:
    """Mark the first byte that is zero, and perhaps some behind it."""
    return (chunk - <uint64_t>0x0101010101010101) & ~chunk & <uint64_t>0x8080808080808080


cdef inline Position letters(Position p, Position end) noexcept nogil:
    """Step over what stands in a string for itself, as far as it comes in eights."""
    cdef uint64_t chunk, others
    while mb_holds_eight(p, end):
        chunk = mb_eight(p)
        others = (
            zeros(chunk ^ <uint64_t>0x2222222222222222) | zeros(chunk ^ <uint64_t>0x5C5C5C5C5C5C5C5C)
            | ((chunk - <uint64_t>0x2020202020202020) & ~chunk | chunk) & <uint64_t>0x8080808080808080
        )
        if others != 0:
            return p + (mb_trailing_zeros(others) >> 3)
        p += 8
    return p


cdef inline Position string(Position p, Position end, Text* text) noexcept nogil:
    """Step over a string, from its opening quote."""
    text.at = p + 1
    text.size = 0
    text.marks = 0
    if p[0] != 34:
        return NULL
    p = letters(p + 1, end)
    while p[0] != 34:
        if p[0] < 32:
            return NULL
        if p[0] == 92:
            text.marks |= ESCAPED
            p = escape(p)
            if p == NULL:
                return NULL
            continue
        if p[0] >= 128:
            text.marks |= WIDE
        p += 1
    text.size = p - text.at
    return p + 1


cdef inline Position word(Position p, const char* wanted) noexcept nogil:
    """Step over a literal: true, false, null."""
    while wanted[0] != 0:
        if p[0] != <unsigned char>wanted[0]:
            return NULL
        p += 1
        wanted += 1
    return p


cdef inline Position scalar(Position p, Position end, int* marks) noexcept nogil:
    """Step over a value that is neither an array nor an object."""
    cdef Text text
    cdef Number number
    if p[0] == 34:
        p = string(p, end, &text)
        if p != NULL:
            marks[0] |= text.marks
        return p
    if p[0] == 116:
        return word(p, "true")
    if p[0] == 102:
        return word(p, "false")
    if p[0] == 110:
        return word(p, "null")
    p = digits(p, end, &number)
    # What may be too large for a float64 is left to the slower decoder.
    return p if p != NULL and number.exact and number.exponent < 280 else NULL


cdef inline Position passed_over(Position p, Position end, int* marks) noexcept nogil:
    """Step over any value."""
    cdef unsigned char closing[DEEPEST]
    cdef int depth = 0
    cdef Text text
    while True:
        p = blank(p)
        if p[0] == 123 or p[0] == 91:  # { [
            if depth == DEEPEST:
                return NULL
            closing[depth] = p[0] + 2
            depth += 1
            p = blank(p + 1)
            if p[0] == closing[depth - 1]:
                p += 1
                depth -= 1
            elif closing[depth - 1] == 125:
                p = member(p, end, &text)
                if p == NULL:
                    return NULL
                marks[0] |= text.marks
                continue
            else:
                continue
        else:
            p = scalar(p, end, marks)
            if p == NULL:
                return NULL
        while depth:  # behind a value
            p = blank(p)
            if p[0] == 44:
                p = blank(p + 1)
                if closing[depth - 1] == 125:
                    p = member(p, end, &text)
                    if p == NULL:
                        return NULL
                    marks[0] |= text.marks
                break
            if p[0] != closing[depth - 1]:
                return NULL
            p += 1
            depth -= 1
        if depth == 0:
            return p


cdef inline Position into(Position p, unsigned char opening) noexcept nogil:
    """Step over a bracket that opens, to what comes first: perhaps the one that closes."""
    return blank(p + 1) if p[0] == opening else NULL


cdef inline Position behind(Position p, unsigned char closing) noexcept nogil:
    """Step over what stands behind a value: to the bracket that closes, or over a comma to the next one; NULL stays."""
    if p == NULL:
        return NULL
    p = blank(p)
    if p[0] == closing:
        return p
    if p[0] != 44:
        return NULL
    p = blank(p + 1)
    return p if p[0] != closing else NULL


cdef inline Position member(Position p, Position end, Text* name) noexcept nogil:
    """Step over the name of a member and the colon behind it, to its value."""
    p = string(p, end, name)
    if p == NULL:
        return NULL
    p = blank(p)
    return blank(p + 1) if p[0] == 58 else NULL


cdef inline Position ahead(Position p, Position end, Key key) noexcept nogil:
    """Step over this member's name and the colon, to its value; NULL where it is not plainly there."""
    if key.mask and mb_holds_eight(p + 1, end) and p[0] == 34 and mb_eight(p + 1) & key.mask == key.eight:
        p += key.size + 2
        if p[0] != 58:
            p = blank(p)
            if p[0] != 58:
                return NULL
        return blank(p + 1)
    return NULL
