"""JSON as bytes, one token after the other: the words that every reader of the kernel is written in.

A position is a pointer into a body. Python ends every ``bytes`` with a zero byte, and no token holds one: whoever steps
over a byte has seen that it is not zero, so no position passes the end. Who looks at eight bytes at once has asked
``holds_eight`` before. What a function takes as it should be is what RFC 8259 allows; where it gives NULL, the bytes are
malformed, or so unusual that the slower decoder shall look at them.
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

    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static inline int mb_holds_eight(const unsigned char *p, const unsigned char *end) { return end - p >= 8; }
    static inline int mb_trailing_zeros(uint64_t a) { return __builtin_ctzll(a); }
    #else /* bytes are then read one by one */
    static inline int mb_holds_eight(const unsigned char *p, const unsigned char *end) { return 0; }
    static inline int mb_trailing_zeros(uint64_t a) { return 0; }
    #endif

    static inline uint64_t mb_eight(const unsigned char *p) {
        uint64_t bytes;
        memcpy(&bytes, p, sizeof bytes);
        return bytes;
    }

    static inline double mb_double(uint64_t bits) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }

    static const double mb_tens[23] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
    };
    static const uint64_t mb_whole_tens[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    """
    uint64_t mb_product(uint64_t a, uint64_t b, uint64_t* high)
    int mb_leading_zeros(uint64_t a)
    double mb_double(uint64_t bits)
    bint mb_holds_eight(const unsigned char* p, const unsigned char* end)
    int mb_trailing_zeros(uint64_t a)
    uint64_t mb_eight(const unsigned char* p)
    const double* mb_tens
    const uint64_t* mb_whole_tens


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
    # What a member that is looked for is called; not owned. Up to seven bytes, with the quote behind them, are ``eight``
    # under ``mask``; more have no mask.
    const char* at
    Py_ssize_t size
    uint64_t eight
    uint64_t mask


cdef struct Number:
    # A number as it is written: (-1)^negative x digits x 10^exponent.
    uint64_t digits
    int64_t exponent
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


cdef inline uint64_t no_digits(uint64_t chunk) noexcept nogil:
    """Mark the bytes that are no digits, of eight from which the bits of "0" are taken: their highest bit is set."""
    return (((chunk & <uint64_t>0x7F7F7F7F7F7F7F7F) + <uint64_t>0x7676767676767676) | chunk) & (
        <uint64_t>0x8080808080808080
    )


cdef inline uint64_t joined(uint64_t chunk) noexcept nogil:
    """Give the number whose eight digits the bytes are: neighbours become two digits, then four, then eight."""
    chunk = chunk * 10 + (chunk >> 8)
    return (
        (chunk & <uint64_t>0x000000FF000000FF) * <uint64_t>0x000F424000000064
        + ((chunk >> 16) & <uint64_t>0x000000FF000000FF) * <uint64_t>0x0000271000000001
    ) >> 32


cdef inline Position eights(Position p, Position end, uint64_t* value) noexcept nogil:
    """Step over digits, of which there may be none, and write them behind those of ``value``: eight bytes at once."""
    cdef uint64_t chunk, others
    cdef int count = 8
    while count == 8 and mb_holds_eight(p, end):
        chunk = mb_eight(p) ^ <uint64_t>0x3030303030303030
        others = no_digits(chunk)
        if others != 0:
            count = mb_trailing_zeros(others) >> 3
            if count == 0:
                return p
            chunk <<= 64 - 8 * count
        value[0] = value[0] * mb_whole_tens[count] + joined(chunk)
        p += count
    while is_digit(p[0]):
        value[0] = value[0] * 10 + (p[0] - 48)
        p += 1
    return p


cdef inline Position run(Position p, Position end, uint64_t* value) noexcept nogil:
    """Step over digits, of which there may be none, and write them behind those of ``value``: most are few."""
    cdef int count
    cdef uint64_t found = value[0], more
    for count in range(3):
        if not is_digit(p[0]):
            break
        found = found * 10 + p[0] - 48
        p += 1
    else:
        if is_digit(p[0]):
            more = found
            p = eights(p, end, &more)
            found = more
    value[0] = found
    return p


cdef inline Position digits(Position p, Position end, Number* number) noexcept nogil:
    """Step over a number, from its sign or first digit, as RFC 8259 writes them."""
    cdef uint64_t value = 0
    cdef int64_t exponent = 0, power = 0
    cdef bint negative = p[0] == 45, point
    cdef Position first
    cdef Py_ssize_t count
    p += negative
    first = p
    p = run(p, end, &value)
    count = p - first
    if count == 0 or (count > 1 and first[0] == 48):
        return NULL
    point = p[0] == 46
    if point:
        p += 1
        first = p
        p = run(p, end, &value)
        if p == first:
            return NULL
        exponent = first - p
        count -= exponent
    number.whole = not point
    if (p[0] | 32) == 101:  # e, E
        p = power_of_ten(p + 1, &power)
        exponent += power
        number.whole = False
    number.digits = value
    number.exponent = exponent
    number.negative = negative
    number.point = point
    number.exact = count <= 19
    return p


cdef Position power_of_ten(Position p, int64_t* power) noexcept nogil:
    """Step over an exponent, from behind its letter."""
    cdef bint below = p[0] == 45
    cdef Position first
    p += below or p[0] == 43
    first = p
    while is_digit(p[0]):
        if power[0] < 100000:
            power[0] = power[0] * 10 + p[0] - 48
        p += 1
    if below:
        power[0] = -power[0]
    return p if p != first else NULL


cdef inline double rounded(const Number* number, const uint64_t* tens, bint* sure) noexcept nogil:
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
    cdef bint known = True
    sure[0] = number.exact
    if number.digits <= (<uint64_t>1 << 53) and -22 <= number.exponent <= 22:
        value = <double>number.digits
        value = value / mb_tens[-number.exponent] if number.exponent < 0 else value * mb_tens[number.exponent]
        # A whole number has no negative zero.
        return -value if number.negative and (number.digits or not number.whole) else value
    if not number.exact or number.exponent < -TENS or number.exponent > TENS:
        sure[0] = False
        return 0.0
    value = of_bits(number.digits, number.exponent, tens, &known)
    sure[0] = known
    return -value if number.negative else value


cdef inline double of_bits(uint64_t digits, int64_t power, const uint64_t* tens, bint* sure) noexcept nogil:
    """Give the float64 nearest to digits x 10^power, from 64 by 128 bits of them."""
    cdef const uint64_t* ten = tens + 2 * (power + TENS)
    cdef int shift = mb_leading_zeros(digits | 1)
    cdef uint64_t high = 0, low, more = 0, mantissa
    cdef int64_t two
    cdef int top
    if digits == 0:
        return 0.0
    low = mb_product(digits << shift, ten[0], &high)
    if (high & 0x1FF) == 0x1FF:  # the lower half of the power may carry into the bits that count
        mb_product(digits << shift, ten[1], &more)
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
    return mb_double(mantissa | <uint64_t>two << 52)


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
