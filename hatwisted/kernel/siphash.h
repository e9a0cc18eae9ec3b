/* SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF"; one round a word, three at the end, as
Python's own hash of texts has): as long as the key is secret, nobody can choose names that meet in a table. */
#ifndef HATWISTED_SIPHASH_H
#define HATWISTED_SIPHASH_H
#include <stdint.h>

#define SIP_LEFT(word, bits) ((word) << (bits) | (word) >> (64 - (bits)))

#define SIP_ROUND(a, b, c, d) \
    do { \
        a += b; c += d; \
        b = SIP_LEFT(b, 13) ^ a; d = SIP_LEFT(d, 16) ^ c; \
        a = SIP_LEFT(a, 32); \
        c += b; a += d; \
        b = SIP_LEFT(b, 17) ^ c; d = SIP_LEFT(d, 21) ^ a; \
        c = SIP_LEFT(c, 32); \
    } while (0)

static inline uint64_t siphash(const char *text, int64_t size, uint64_t first_key, uint64_t second_key) {
    const unsigned char *at = (const unsigned char *)text, *words_end = at + size - size % 8;
    uint64_t a = first_key ^ 0x736f6d6570736575u, b = second_key ^ 0x646f72616e646f6du;
    uint64_t c = first_key ^ 0x6c7967656e657261u, d = second_key ^ 0x7465646279746573u;
    uint64_t word;
    int number;
    for (; at < words_end; at += 8) {
        word = 0;
        for (number = 0; number < 8; number++)
            word |= (uint64_t)at[number] << 8 * number;
        d ^= word;
        SIP_ROUND(a, b, c, d);
        a ^= word;
    }
    word = (uint64_t)size << 56;
    for (number = 0; number < size % 8; number++)
        word |= (uint64_t)at[number] << 8 * number;
    d ^= word;
    SIP_ROUND(a, b, c, d);
    a ^= word;
    c ^= 0xff;
    for (number = 0; number < 3; number++)
        SIP_ROUND(a, b, c, d);
    return a ^ b ^ c ^ d;
}
#endif
