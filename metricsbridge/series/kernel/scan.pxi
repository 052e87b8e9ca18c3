"""JSON as bytes, one token after the other: the words that every reader of the kernel is written in.

A position is a pointer into a body. Python ends every ``bytes`` with a zero byte, and no token holds one: whoever steps
over a byte has seen that it is not zero, so no position passes the end. What a function takes as it should be is what
RFC 8259 allows; where it gives NULL, the bytes are malformed, or so unusual that the slower decoder shall look at them.
"""

ctypedef const unsigned char* Position

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(_MSC_VER)
    #include <intrin.h>
    static __inline uint64_t mb_product(uint64_t a, uint64_t b, uint64_t *high) { return _umul128(a, b, high); }
    static __inline int mb_leading_zeros(uint64_t a) { return (int)__lzcnt64(a); }
    #else
    static inline uint64_t mb_product(uint64_t a, uint64_t b, uint64_t *high) {
        unsigned __int128 product = (unsigned __int128)a * b;
        *high = (uint64_t)(product >> 64);
        return (uint64_t)product;
    }
    static inline int mb_leading_zeros(uint64_t a) { return __builtin_clzll(a); }
    #endif

    static inline double mb_double(uint64_t bits) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }

    static const double mb_tens[23] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
    };
    """
    uint64_t mb_product(uint64_t a, uint64_t b, uint64_t* high)
    int mb_leading_zeros(uint64_t a)
    double mb_double(uint64_t bits)
    const double* mb_tens


cdef enum:
    ESCAPED = 1  # a string holds a backslash
    WIDE = 2  # a byte of a string is no ASCII: whether it is UTF-8 must be looked at
    DEEPEST = 64  # so far values that are passed over are followed
    TENS = 64  # the powers of ten from -TENS to TENS have an entry in the table


cdef struct Text:
    # A string of the document, between its quotes.
    Position at
    Py_ssize_t size
    int marks


cdef struct Key:
    # What a member that is looked for is called; not owned.
    const char* at
    Py_ssize_t size


cdef struct Number:
    # A number as it is written: (-1)^negative x digits x 10^exponent.
    uint64_t digits
    int64_t exponent
    Position at
    bint negative
    bint point
    bint whole  # neither a point nor an exponent
    bint exact  # digits holds all of them


cdef inline Position blank(Position p) noexcept nogil:
    """Step over white space."""
    while p[0] <= 32 and (p[0] == 32 or p[0] == 10 or p[0] == 13 or p[0] == 9):
        p += 1
    return p


cdef inline bint is_digit(unsigned char byte) noexcept nogil:
    return <unsigned char>(byte - 48) < 10


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


cdef inline Position string(Position p, Text* text) noexcept nogil:
    """Step over a string, from its opening quote."""
    text.at = p + 1
    text.size = 0
    text.marks = 0
    if p[0] != 34:
        return NULL
    p += 1
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


cdef inline Position digits(Position p, Number* number) noexcept nogil:
    """Step over a number, from its sign or first digit, as RFC 8259 writes them."""
    cdef uint64_t value = 0
    cdef Position first
    cdef Py_ssize_t count
    cdef int64_t exponent = 0
    cdef bint below
    number.negative = p[0] == 45
    p += number.negative
    number.at = p
    first = p
    while is_digit(p[0]):
        value = value * 10 + (p[0] - 48)
        p += 1
    count = p - first
    if count == 0 or (count > 1 and first[0] == 48):
        return NULL
    number.point = p[0] == 46
    number.whole = not number.point
    number.exponent = 0
    if number.point:
        p += 1
        first = p
        while is_digit(p[0]):
            value = value * 10 + (p[0] - 48)
            p += 1
        if p == first:
            return NULL
        number.exponent = first - p
        count += p - first
    number.digits = value
    number.exact = count <= 19
    if (p[0] | 32) == 101:  # e, E
        number.whole = False
        p += 1
        below = p[0] == 45
        p += below or p[0] == 43
        first = p
        while is_digit(p[0]):
            if exponent < 100000:
                exponent = exponent * 10 + (p[0] - 48)
            p += 1
        if p == first:
            return NULL
        number.exponent += -exponent if below else exponent
    return p


cdef inline double rounded(Number* number, const uint64_t* tens, bint* sure) noexcept nogil:
    """Give the float64 nearest to a number; ``sure`` is False where that takes longer arithmetic.

    Up to 2^53 and 10^22 one multiplication or division of exact numbers rounds once (Clinger, "How to read floating
    point numbers accurately", 1990). Beyond, 128 bits of the power decide nearly always (Lemire, "Number parsing at a
    gigabyte per second", 2021).

    Args:
        number: As it is written.
        tens: Of each power of five from -TENS to TENS the highest 128 bits, the higher half first.
        sure: Is written.
    """
    cdef double value
    sure[0] = number.exact
    if number.digits <= (<uint64_t>1 << 53) and -22 <= number.exponent <= 22:
        value = <double>number.digits
        value = value / mb_tens[-number.exponent] if number.exponent < 0 else value * mb_tens[number.exponent]
        return -value if number.negative else value
    if not number.exact or number.exponent < -TENS or number.exponent > TENS:
        sure[0] = False
        return 0.0
    return of_bits(number, tens, sure)


cdef inline double of_bits(Number* number, const uint64_t* tens, bint* sure) noexcept nogil:
    """Give the float64 nearest to a number, which is not zero: digits and power as 64 by 128 bits."""
    cdef int64_t power = number.exponent
    cdef const uint64_t* ten = tens + 2 * (power + TENS)
    cdef int shift = mb_leading_zeros(number.digits | 1)
    cdef uint64_t high = 0, low, more, mantissa
    cdef int64_t two
    cdef int top
    if number.digits == 0:
        return -0.0 if number.negative else 0.0
    low = mb_product(number.digits << shift, ten[0], &high)
    if (high & 0x1FF) == 0x1FF:  # the lower half of the power may carry into the bits that count
        mb_product(number.digits << shift, ten[1], &more)
        low += more
        if low < more:
            high += 1
    top = <int>(high >> 63)
    mantissa = high >> (top + 9)
    two = ((217706 * power) >> 16) + 63 + top - shift + 1023
    if two <= 0 or two >= 2046:
        sure[0] = False
        return 0.0
    if low <= 1 and -4 <= power <= 23 and (mantissa & 3) == 1 and (mantissa << (top + 9)) == high:
        mantissa &= ~<uint64_t>1  # halfway exactly: to the even one
    mantissa = (mantissa + (mantissa & 1)) >> 1
    if mantissa >= (<uint64_t>1 << 53):
        mantissa = <uint64_t>1 << 52
        two += 1
    mantissa &= ~(<uint64_t>1 << 52)
    mantissa |= <uint64_t>two << 52
    if number.negative:
        mantissa |= <uint64_t>1 << 63
    return mb_double(mantissa)


cdef inline Position word(Position p, const char* wanted) noexcept nogil:
    """Step over a literal: true, false, null."""
    while wanted[0] != 0:
        if p[0] != <unsigned char>wanted[0]:
            return NULL
        p += 1
        wanted += 1
    return p


cdef inline Position scalar(Position p, int* marks) noexcept nogil:
    """Step over a value that is neither an array nor an object."""
    cdef Text text
    cdef Number number
    if p[0] == 34:
        p = string(p, &text)
        if p != NULL:
            marks[0] |= text.marks
        return p
    if p[0] == 116:
        return word(p, "true")
    if p[0] == 102:
        return word(p, "false")
    if p[0] == 110:
        return word(p, "null")
    p = digits(p, &number)
    # What may be too large for a float64 is left to the slower decoder.
    return p if p != NULL and number.exact and number.exponent < 280 else NULL


cdef inline Position passed_over(Position p, int* marks) noexcept nogil:
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
                p = member(p, &text)
                if p == NULL:
                    return NULL
                marks[0] |= text.marks
                continue
            else:
                continue
        else:
            p = scalar(p, marks)
            if p == NULL:
                return NULL
        while depth:  # behind a value
            p = blank(p)
            if p[0] == 44:
                p = blank(p + 1)
                if closing[depth - 1] == 125:
                    p = member(p, &text)
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


cdef inline Position member(Position p, Text* name) noexcept nogil:
    """Step over the name of a member and the colon behind it, to its value."""
    p = string(p, name)
    if p == NULL:
        return NULL
    p = blank(p)
    return blank(p + 1) if p[0] == 58 else NULL
