/* pli_wave_format.c - converts between the model block of PLI's wave mode and frequencies, and
 * between pairs and tokens (docs/format-pli.md, sections 5.4 and 5.8).
 *
 * A block holds a bit for each of the 16 contexts. If the bit is set, a number of entries and that
 * many codes of weights, which are powers of 2^(1/5), follow. The frequencies are computed from
 * these in integers only, which gives the same result in every decoder. The functions are pure;
 * parsing trusts no byte. */
#include "pli/format/pli_wave_format.h"

#include "base/fail.h"

#include <string.h>

#define ROOM "format"

const uint16_t psti_pli_wave_weights[64] = {
    0,   1,   1,   1,    2,    2,    2,    2,    3,    3,    3,    4,    5,    5,    6,    7,
    8,   9,   11,  12,   14,   16,   18,   21,   24,   28,   32,   37,   42,   49,   56,   64,
    74,  84,  97,  111,  128,  147,  169,  194,  223,  256,  294,  338,  388,  446,  512,  588,
    676, 776, 891, 1024, 1176, 1351, 1552, 1783, 2048, 2353, 2702, 3104, 3566, 4096, 4705, 5405};

const uint8_t psti_pli_wave_first_bits[PSTI_PLI_N_TOKENS_8] = {0, 2, 3, 4, 4, 5, 5, 6,
                                                               6, 7, 7, 6, 5, 7, 6, 8};
const uint8_t psti_pli_wave_second_bits[PSTI_PLI_N_TOKENS_8] = {0, 0, 0, 0, 0, 0, 0, 0,
                                                                0, 0, 0, 4, 4, 5, 5, 8};
const uint8_t psti_pli_wave_bases[PSTI_PLI_N_TOKENS_8] = {0,  0,  1,  3, 7,  11, 19, 27,
                                                          43, 59, 91, 7, 15, 15, 31, 0};
const uint8_t psti_pli_wave_activities[PSTI_PLI_N_TOKENS_8] = {0,  1,  2,  3,  4,  6,  7,  8,
                                                               10, 12, 15, 21, 25, 43, 45, 46};
const uint8_t psti_pli_wave_tokens_of[16] = {0, 1, 2, 3, 4, 11, 5, 6, 7, 12, 8, 13, 9, 14, 15, 10};
const uint8_t psti_pli_wave_first_bits_of[16] = {0, 2, 3, 4, 4, 6, 5, 5, 6, 5, 6, 7, 7, 6, 8, 7};
const uint8_t psti_pli_wave_second_bits_of[16] = {0, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 5, 0, 5, 8, 0};
const uint8_t psti_pli_wave_bases_of[16] = {0,  0,  1,  3,  7,  7,  11, 19,
                                            27, 15, 43, 15, 59, 31, 0,  91};
/* clang-format off */
const uint8_t psti_pli_wave_points_a[128] = {
    1, 2, 1, 3, 2, 1, 4, 3, 2, 1, 5, 4, 3, 2, 1, 6, 5, 4, 3, 2, 1, 7, 6, 5, 4, 3, 2, 1, 8, 7, 6,
    5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 11, 10, 9, 8, 7, 6,
    5, 4, 3, 2, 1, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2,
    1, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3,
    2, 1, 16, 15, 14, 13, 12, 11, 10, 9};
const uint8_t psti_pli_wave_points_b[128] = {
    0, 0, 1, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2,
    3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6,
    7, 8, 9, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
    14, 0, 1, 2, 3, 4, 5, 6, 7};
/* clang-format on */

/* Rotates (a, b) by -t right angles, the inverse of the rotation in psti_pli_wave_find_pair. */
static void turn_back(uint32_t t, int32_t *a, int32_t *b)
{
    int32_t x = *a, y = *b;
    *a = t == 0 ? x : t == 1 ? y : t == 2 ? -x : -y;
    *b = t == 0 ? y : t == 1 ? -x : t == 2 ? -y : x;
}

struct psti_pli_wave_coded_pair psti_pli_wave_code_pair(int32_t x, int32_t y)
{
    struct psti_pli_wave_coded_pair c = {PSTI_PLI_WAVE_ANY_PAIR, (uint8_t)x, (uint8_t)y};
    /* The number of right angles by which the point (a, b), a > 0 and b >= 0, was rotated to (x,
     * y). */
    uint32_t t = x > 0 && y >= 0 ? 0 : y > 0 ? 1 : x < 0 ? 2 : 3;
    int32_t a = x, b = y;
    turn_back(t, &a, &b);
    int32_t d = a + b, q = d * (d - 1) / 2 + b;
    if (x == 0 && y == 0)
        return (struct psti_pli_wave_coded_pair){0, 0, 0};
    if (q < psti_pli_wave_bases[10] + 32) {
        c.token = 1;
        while (c.token < 10 && q >= psti_pli_wave_bases[c.token + 1])
            c.token++;
        c.first = (uint8_t)(t | (uint32_t)(q - psti_pli_wave_bases[c.token]) << 2);
        return c.second = 0, c;
    }
    if (d > 63)
        return c;
    const int32_t half = d < 32 ? 16 : 32; /* u is half .. 2 * half - 1 */
    int32_t u = d;
    c.token = d < 32 ? 11 : 13;
    /* the point belongs to the other side of the square: rotate by one more right angle */
    if (b - a > half) {
        t = (t + 1) & 3;
        const int32_t old = a;
        a = b;
        b = -old;
        u = a + b;
    }
    if (a - b >= half) {
        if (u < half)
            return c.token = PSTI_PLI_WAVE_ANY_PAIR, c;
        c.token++;
    }
    c.first = (uint8_t)(t | (uint32_t)(b - (u >> 1) + psti_pli_wave_bases[c.token]) << 2);
    c.second = (uint8_t)(u - half);
    return c;
}

struct psti_pli_wave_pair psti_pli_wave_find_pair(struct psti_pli_wave_coded_pair c)
{
    uint32_t i = c.first >> 2, a, b;
    if (c.token == 0)
        return (struct psti_pli_wave_pair){0, 0};
    if (c.token == PSTI_PLI_WAVE_ANY_PAIR)
        return (struct psti_pli_wave_pair){c.first, c.second};
    if (c.token < PSTI_PLI_WAVE_FIRST_SQUARE) {
        a = psti_pli_wave_points_a[psti_pli_wave_bases[c.token] + i];
        b = psti_pli_wave_points_b[psti_pli_wave_bases[c.token] + i];
    } else {
        uint32_t u = (16u << psti_pli_wave_second_bits[c.token] >> 4) + c.second;
        b = (u >> 1) - psti_pli_wave_bases[c.token] + i;
        a = u - b;
    }
    const uint32_t x[4] = {a, 0 - b, 0 - a, b}, y[4] = {b, a, 0 - b, 0 - a};
    return (struct psti_pli_wave_pair){(uint8_t)x[c.first & 3], (uint8_t)y[c.first & 3]};
}

bool psti_pli_expand_table(const uint8_t *q, uint32_t n, uint32_t n_tokens, uint32_t prob_bits,
                           uint16_t *freqs)
{
    uint32_t sum = 0, given = 0, largest = 0;
    memset(freqs, 0, n_tokens * sizeof *freqs);
    for (uint32_t i = 0; i < n; i++)
        sum += psti_pli_wave_weights[q[i]];
    if (sum == 0)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t weight = psti_pli_wave_weights[q[i]];
        uint32_t f = (weight << prob_bits) / sum;
        f = weight > 0 && f == 0 ? 1 : f;
        freqs[i] = (uint16_t)f;
        given += f;
        largest = f > freqs[largest] ? i : largest;
    }
    /* Rounding some frequencies up to 1 may have made the sum too large. The largest frequency is
     * lowered to correct it. */
    int32_t rest = (int32_t)freqs[largest] + (1 << prob_bits) - (int32_t)given;
    freqs[largest] = (uint16_t)rest;
    return rest >= 1;
}

/* Completes an image's own table of 8 bits: token 0 and at least one other token get an entry above
 * 0, so every frequency less 1 fits a byte. Returns the number of entries. */
static uint32_t complete_own_u8(const struct psti_pli_wave_own *own, uint8_t *q)
{
    uint32_t n = own->n;
    bool alone = true;
    memcpy(q, own->q, n);
    q[0] = q[0] > 0 ? q[0] : 1;
    for (uint32_t i = 1; i < n; i++)
        alone = alone && q[i] == 0;
    if (alone) {
        q[1] = 1;
        n = n > 2 ? n : 2;
    }
    return n;
}

bool psti_pli_wave_expand(const struct psti_pli_wave_own *own, uint32_t bits, uint16_t *freqs)
{
    uint8_t q[PSTI_PLI_N_TOKENS];
    memset(freqs, 0, PSTI_PLI_N_TOKENS * sizeof *freqs);
    if (own->n == 0)
        return false;
    if (bits == 16)
        return psti_pli_expand_table(own->q, own->n, PSTI_PLI_N_TOKENS, PSTI_PLI_PROB_BITS, freqs);
    return psti_pli_expand_table(q, complete_own_u8(own, q), PSTI_PLI_N_TOKENS_8,
                                 PSTI_PLI_PROB_BITS_8, freqs);
}

uint32_t psti_pli_take_bits(struct psti_pli_bits *b, uint32_t n)
{
    const size_t first = b->at >> 3, left = first < b->nbytes ? b->nbytes - first : 0;
    uint32_t v = 0;
    for (uint32_t i = 0; i < 3 && i < left; i++)
        v |= (uint32_t)b->bytes[first + i] << (8 * i);
    v = v >> (b->at & 7) & ((1u << n) - 1);
    b->at += n;
    return v;
}

enum pst_status psti_pli_wave_parse_model(const uint8_t *block, size_t nbytes, uint32_t bits,
                                          struct psti_pli_wave_freqs *out, struct pst_error *err)
{
    memcpy(out->f, psti_pli_wave_freqs[bits == 16], sizeof out->f);
    if (!block)
        return PST_OK;
    struct psti_pli_bits b = {block, nbytes, 0};
    for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
        struct psti_pli_wave_own own;
        if (!psti_pli_take_bits(&b, 1))
            continue;
        own.n = (uint8_t)psti_pli_take_bits(&b, PSTI_PLI_TABLE_ENTRY_BITS);
        if (own.n < 1 || own.n > psti_pli_wave_n_tokens(bits))
            return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave table %u has %u entries", c,
                             own.n);
        for (uint32_t i = 0; i < own.n; i++)
            own.q[i] = (uint8_t)psti_pli_take_bits(&b, PSTI_PLI_TABLE_ENTRY_BITS);
        if (!psti_pli_wave_expand(&own, bits, out->f[c]))
            return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave table %u is not a distribution",
                             c);
    }
    if ((b.at + 7) / 8 != nbytes)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave tables take %zu bytes instead of %zu",
                         (b.at + 7) / 8, nbytes);
    return PST_OK;
}

static size_t put(uint8_t *block, size_t at, uint32_t v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, at++)
        if ((v >> i) & 1)
            block[at >> 3] |= (uint8_t)(1u << (at & 7));
    return at;
}

size_t psti_pli_put_table(uint8_t *block, size_t at, const uint8_t *q, uint32_t n)
{
    at = put(block, at, n > 0, 1);
    if (n == 0)
        return at;
    at = put(block, at, n, PSTI_PLI_TABLE_ENTRY_BITS);
    for (uint32_t i = 0; i < n; i++)
        at = put(block, at, q[i], PSTI_PLI_TABLE_ENTRY_BITS);
    return at;
}

size_t psti_pli_wave_print_model(const struct psti_pli_wave_own *own, uint8_t *block)
{
    size_t at = 0;
    memset(block, 0, PSTI_PLI_WAVE_MODEL_MAX_NBYTES);
    for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++)
        at = psti_pli_put_table(block, at, own[c].q, own[c].n);
    return (at + 7) / 8;
}
