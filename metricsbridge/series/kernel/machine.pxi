"""What C has and Cython has not: products of 128 bits, leading zeros, eight bytes as one number."""

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
