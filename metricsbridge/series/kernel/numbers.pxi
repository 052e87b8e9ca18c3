"""Numbers, from their characters to the float64 or the int64 nearest to them."""

cdef enum:
    TENS = 64  # the powers of ten from -TENS to TENS have an entry in the table


cdef struct Number:
    # A number as it is written: (-1)^negative x digits x 10^exponent.
    uint64_t digits
    int64_t exponent
    bint negative
    bint point
    bint whole  # neither a point nor an exponent
    bint exact  # digits holds all of them


cdef inline bint is_digit(unsigned char byte) noexcept nogil:
    return <unsigned char>(byte - 48) < 10


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


cdef Position eights(Position p, Position end, uint64_t* value) noexcept nogil:
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
        value[0] = value[0] * 10 + p[0] - 48
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
    sure[0] = number.exact
    if number.digits <= (<uint64_t>1 << 53) and -22 <= number.exponent <= 22:
        value = <double>number.digits
        value = value / mb_tens[-number.exponent] if number.exponent < 0 else value * mb_tens[number.exponent]
        # A whole number has no negative zero.
        return -value if number.negative and (number.digits or not number.whole) else value
    if not number.exact or number.exponent < -TENS or number.exponent > TENS:
        sure[0] = False
        return 0.0
    value = of_bits(number.digits, number.exponent, tens, True)
    return -value if number.negative else value


cdef inline double of_bits(uint64_t digits, int64_t power, const uint64_t* tens, const bint middles) noexcept nogil:
    """Give the float64 nearest to digits x 10^power, which is far from the largest and the smallest ones.

    Args:
        digits: Any.
        power: From -TENS to TENS.
        tens: As above.
        middles: Whether it may lie exactly between two of them, which takes a power from -4 to 23.
    """
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
    if middles and low <= 1 and -4 <= power <= 23 and (mantissa & 3) == 1 and (mantissa << (top + 9)) == high:
        mantissa &= ~<uint64_t>1  # halfway exactly: to the even one
    mantissa = (mantissa + (mantissa & 1)) >> 1
    # What rounding carries beyond the bits of the mantissa belongs to the exponent.
    return mb_double(mantissa - (<uint64_t>1 << 52) + (<uint64_t>two << 52))


cdef uint64_t _TENS[2 * (2 * TENS + 1)]


def _fill_tens():
    """Write the highest 128 bits of each power of five.

    From 5^-27 to 5^-1 they are rounded up: a number with such a power may lie in the middle between two floats, and must
    not seem to lie below. All others are cut off.
    """
    for power in range(-TENS, TENS + 1):
        if power < 0:
            bits = (5**-power - 1).bit_length()
            top = (1 << bits + 127) // 5**-power + 1 if power >= -27 else (1 << 2 * bits + 128) // 5**-power
        else:
            top = 5**power << 128
        top >>= top.bit_length() - 128
        _TENS[2 * (power + TENS)] = top >> 64
        _TENS[2 * (power + TENS) + 1] = top & 0xFFFFFFFFFFFFFFFF


_fill_tens()


cdef double longer(Position at, Py_ssize_t size, bint* refused) noexcept with gil:
    """Give the float64 nearest to a number of any length; ``refused`` where there is none."""
    try:
        value = float(at[:size])
        refused[0] = isinf(value)
        return value
    except Exception:
        refused[0] = True
        return 0.0


cdef inline Position quantity(Position p, Position end, double* value, bint* point) noexcept nogil:
    """Read a number as the float64 nearest to it; ``point`` is written where it is given."""
    cdef Number number
    cdef Position behind = digits(p, end, &number)
    cdef bint sure = False, refused = False
    if behind == NULL:
        return NULL
    value[0] = rounded(&number, _TENS, &sure)
    if not sure:
        value[0] = longer(p, behind - p, &refused)
    if point != NULL:
        point[0] = number.point
    if refused:
        return NULL
    return behind


cdef inline Position brief(Position p, Position end, double* value) noexcept nogil:
    """Read a number that fits into seven characters and has neither sign nor exponent; NULL for others.

    Eight bytes are looked at as one: the places of the point and of what follows the number are reckoned, not found by
    steps, of which a processor could not guess how many there are.
    """
    cdef uint64_t chunk, others, before
    cdef int first, last
    if not mb_holds_eight(p, end):
        return NULL
    chunk = mb_eight(p) ^ <uint64_t>0x3030303030303030
    others = no_digits(chunk)
    if others == 0:
        return NULL
    first = mb_trailing_zeros(others) >> 3
    last = first
    if p[first] == 46:  # leave the point out
        others &= others - 1
        if others == 0:
            return NULL
        last = mb_trailing_zeros(others) >> 3
        before = (<uint64_t>1 << 8 * first) - 1
        chunk = (chunk & before) | (chunk >> 8 & ~before)
        if last == first + 1:
            return NULL
        value[0] = <double>joined(chunk << (72 - 8 * last)) / mb_tens[last - first - 1]
    elif first:
        value[0] = <double>joined(chunk << (64 - 8 * first))
    if first == 0 or (p[0] == 48 and first > 1) or (p[last] | 32) == 101:
        return NULL
    return p + last


cdef inline Position unrounded(Position p, Position end, double* value) noexcept nogil:
    """Read a number of at most three digits and 8 to 15 decimals, as values are that nobody rounded; NULL for others."""
    cdef bint negative = p[0] == 45
    cdef Position first = p + negative
    cdef uint64_t found, chunk, others
    cdef int count
    p = first
    if not mb_holds_eight(p + 13, end) or not is_digit(p[0]):
        return NULL
    found = <uint64_t>p[0] - 48
    p += 1
    for count in range(2):
        if is_digit(p[0]):
            found = found * 10 + p[0] - 48
            p += 1
    if p[0] != 46 or (first[0] == 48 and p != first + 1):
        return NULL
    chunk = mb_eight(p + 1) ^ <uint64_t>0x3030303030303030
    if no_digits(chunk) != 0:
        return NULL
    found = found * 100000000 + joined(chunk)
    chunk = mb_eight(p + 9) ^ <uint64_t>0x3030303030303030
    others = no_digits(chunk)
    if others == 0:
        return NULL
    count = mb_trailing_zeros(others) >> 3
    if count:
        found = found * mb_whole_tens[count] + joined(chunk << (64 - 8 * count))
    p += 9 + count
    if (p[0] | 32) == 101:
        return NULL
    if found <= (<uint64_t>1 << 53):
        value[0] = <double>found / mb_tens[8 + count]
    else:
        value[0] = of_bits(found, -8 - count, _TENS, False)
    if negative:
        value[0] = -value[0]
    return p


cdef inline Position whole(Position p, Position end, int64_t* value) noexcept nogil:
    """Read a number that is written as a whole one, of at most 18 digits."""
    cdef uint64_t found = 0
    cdef bint negative = p[0] == 45
    cdef Position first = p + negative
    p = eights(first, end, &found)
    if p == first or p - first > 18 or (first[0] == 48 and p - first > 1) or p[0] == 46 or (p[0] | 32) == 101:
        return NULL
    value[0] = -<int64_t>found if negative else <int64_t>found
    return p
