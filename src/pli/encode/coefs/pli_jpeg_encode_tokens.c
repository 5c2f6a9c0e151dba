/* pli_jpeg_encode_tokens.c - turns the coefficients of a unit into tokens, their contexts, and raw
 * bits (docs/format-pli.md, 8.2 to 8.5), in the order in which a decoder needs them.
 *
 * Blocks are sorted by their ends and copied to planes, as in the decoder. So the decoder's
 * function can find contexts, and loops over neighbours in the list find tokens. Nothing is
 * allocated. The unit's size limits the length of the output. */
#include "pli/encode/coefs/pli_jpeg_encode_int.h"

#include <string.h>

enum { LANES = PSTI_JE_LANES, SQUARE = PSTI_JE_SQUARE, BLOCKS_BEHIND = 16 };

/* -- Bits -- */

static void put_end(struct psti_je_bits *b)
{
    b->at += b->n_waiting > 0;
    b->waiting = b->n_waiting = 0;
}

/* Writes, for each magnitude, its difference to the lowest magnitude of its token: bit 0 of each
 * entry in the list, then bit 1 of each entry with more bits, and so on. `left` has the differences
 * and `n_bits` their numbers of bits, by list number. Both lists are overwritten. */
static void put_planes(struct psti_je_bits *b, uint32_t n, uint16_t *left, uint8_t *n_bits)
{
    while (n > 0) {
        uint64_t plane = 0;
        uint32_t more = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint16_t v = left[i];
            uint8_t bits = n_bits[i];
            plane |= (uint64_t)(v & 1) << i;
            left[more] = (uint16_t)(v >> 1);
            n_bits[more] = (uint8_t)(bits - 1);
            more += bits > 1;
        }
        psti_pli_jpeg_encode_put_group(b, plane, n);
        n = more;
    }
}

static void put_left(struct psti_je_bits *b, uint16_t *left, uint8_t *n_bits)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < SQUARE; p++) {
        left[n] = left[p];
        n_bits[n] = n_bits[p];
        n += n_bits[p] > 0;
    }
    put_planes(b, n, left, n_bits);
}

/* -- Ends -- */

/* Returns the number of a block's last coefficient that is not 0, or 0. */
static uint32_t find_end(const int16_t *block)
{
    uint32_t k = 60;
    while (k > 0 && psti_load_u64(block + k) == 0)
        k -= 4;
    uint64_t last = psti_load_u64(block + k);
    return last == 0 ? 0 : k + (63u - (uint32_t)__builtin_clzll(last)) / 16;
}

/* Returns whether all coefficients except DC are in range. It first ORs all magnitudes, which
 * compilers vectorise. Nearly always that decides. */
static bool in_range(const int16_t *block)
{
    int16_t bits = 0;
    for (uint32_t k = 0; k < 64; k++)
        bits |= (int16_t)(block[k] ^ (block[k] >> 15));
    if (bits < PSTI_JPEG_AC_MAX)
        return true;
    for (uint32_t k = 1; k < 64; k++)
        if (block[k] < -PSTI_JPEG_AC_MAX || block[k] > PSTI_JPEG_AC_MAX)
            return false;
    return true;
}

static bool find_ends(const int16_t *block, size_t n, uint8_t *ends, uint64_t *n_tokens)
{
    bool good = true;
    for (size_t i = 0; i < n; i++, block += 64) {
        ends[i] = (uint8_t)find_end(block);
        good = good && in_range(block);
        *n_tokens += ends[i];
    }
    return good;
}

bool psti_pli_jpeg_encode_find_ends(const struct psti_je_kernels *kernels,
                                    const struct psti_jpeg_frame *frame,
                                    const int16_t *const coefs[], uint8_t *ends, uint64_t *n_tokens)
{
    bool good = true;
    *n_tokens = 0;
    for (uint32_t c = 0; c < frame->n_components; c++) {
        size_t n = psti_pli_jpeg_n_coefs(frame, c) / 64;
        good = kernels->find_ends(coefs[c], n, ends, n_tokens) && good;
        ends += n;
    }
    return good;
}

static uint8_t class_of(uint32_t end)
{
    static const uint8_t classes[64] = {
        0,  1,  2,  3,  4,  4,  5,  5,  6,  6,  7,  7,  8,  8,  8,  8,  9,  9,  9,  9,  10, 10,
        10, 10, 11, 11, 11, 11, 12, 12, 12, 12, 12, 12, 12, 12, 13, 13, 13, 13, 13, 13, 13, 13,
        14, 14, 14, 14, 14, 14, 14, 14, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15};
    return classes[end];
}

/* Where the next token of ends or DC is stored, and the counts of such tokens. */
struct small_tokens {
    uint16_t *at;
    uint32_t *counts;
};

static void put_small(struct small_tokens *t, uint32_t table, uint32_t token, uint32_t lane)
{
    uint32_t code = table << 4 | token;
    t->counts[code]++;
    *t->at++ = (uint16_t)(lane << PSTI_JE_LANE_SHIFT | code);
}

/* Copies the ends of a square's blocks and finds their classes. Prefetches the cache lines of their
 * DC, which are far apart. */
static void load_square(const struct psti_jpeg_square *q, const int16_t *coefs, const uint8_t *ends,
                        uint32_t columns, uint8_t *own_ends, uint8_t *classes)
{
    memset(own_ends, 0, SQUARE);
    for (uint32_t y = 0; y < q->rows; y++) {
        size_t at = (size_t)(q->row + y) * columns + q->column;
        memcpy(own_ends + 8 * y, ends + at, q->columns);
        for (uint32_t x = 0; x < q->columns; x++)
            __builtin_prefetch(coefs + 64 * (at + x));
    }
    for (uint32_t p = 0; p < SQUARE; p++)
        classes[p] = class_of(own_ends[p]);
}

static void put_ends(struct psti_je_work *work, const struct psti_je_kernels *kernels,
                     struct small_tokens *tokens, struct psti_je_bits *bits)
{
    for (uint32_t s = 0; s < work->n_squares; s++) {
        const struct psti_jpeg_square *q = &work->squares[s];
        const uint8_t *classes = work->classes[s];
        uint64_t blocks = psti_pli_jpeg_blocks(q);
        uint32_t tables = q->side * (uint32_t)PSTI_JPEG_N_ENDS;
        for (uint64_t left = blocks & PSTI_JPEG_EVEN; left != 0; left &= left - 1) {
            uint32_t p = (uint32_t)__builtin_ctzll(left);
            put_small(tokens, tables + PSTI_JPEG_EVEN_CONTEXT, classes[p], p >> 1);
        }
        for (uint64_t left = blocks & ~PSTI_JPEG_EVEN; left != 0; left &= left - 1) {
            uint32_t p = (uint32_t)__builtin_ctzll(left);
            put_small(tokens, tables + psti_pli_jpeg_end_context(q, classes, p), classes[p],
                      p >> 1);
        }
    }
    for (uint32_t s = 0; s < work->n_squares; s++) {
        uint16_t left[SQUARE];
        uint8_t n_bits[SQUARE];
        for (uint32_t p = 0; p < SQUARE; p++) {
            uint8_t class = work->classes[s][p];
            left[p] = (uint16_t)(work->ends[s][p] - psti_jpeg_end_lowest[class]);
            n_bits[p] = psti_jpeg_end_bits[class];
        }
        kernels->put_left(bits, left, n_bits);
    }
}

/* -- DC -- */

static bool put_dc_square(const struct psti_jpeg_square *q, const int16_t *coefs, uint32_t columns,
                          const uint8_t *classes, const struct psti_je_kernels *kernels,
                          struct small_tokens *tokens, struct psti_je_bits *bits)
{
    uint16_t left[SQUARE] = {0};
    uint8_t n_bits[SQUARE] = {0};
    uint64_t signs = 0;
    uint32_t n_signs = 0;
    for (uint64_t mask = psti_pli_jpeg_blocks(q); mask != 0; mask &= mask - 1) {
        uint32_t p = (uint32_t)__builtin_ctzll(mask), x = p & 7, y = p >> 3;
        size_t at = (size_t)(q->row + y) * columns + q->column + x;
        int16_t before = x > 0 ? coefs[64 * (at - 1)] : y > 0 ? coefs[64 * (at - columns)] : 0;
        int16_t d = (int16_t)(coefs[64 * at] - before);
        uint32_t m = (uint32_t)(d < 0 ? -d : d);
        if (m > PSTI_JPEG_DC_MAX)
            return false;
        uint32_t token = psti_pli_jpeg_dc_token(m);
        uint32_t table = PSTI_JE_DC_TABLES + q->side * (uint32_t)PSTI_JPEG_N_ENDS + classes[p];
        put_small(tokens, table, token, p % LANES);
        signs |= (uint64_t)(d < 0) << n_signs;
        n_signs += m > 0;
        left[p] = (uint16_t)(m - psti_pli_jpeg_dc_lowest(token));
        n_bits[p] = (uint8_t)psti_pli_jpeg_dc_bits(token);
    }
    psti_pli_jpeg_encode_put_group(bits, signs, n_signs);
    kernels->put_left(bits, left, n_bits);
    return true;
}

/* -- AC -- */

/* Makes the list of blocks (section 8.4). */
static void sort(const struct psti_jpeg_frame *frame, const int16_t *const coefs[],
                 struct psti_je_work *work, struct psti_je_unit *unit)
{
    static const int16_t no_block[64];
    uint32_t next[64] = {0};
    for (uint32_t s = 0; s < work->n_squares; s++)
        for (uint64_t left = psti_pli_jpeg_blocks(&work->squares[s]); left != 0; left &= left - 1)
            next[work->ends[s][__builtin_ctzll(left)]]++;
    unit->n_k[64] = 0;
    unit->last = 0;
    for (uint32_t k = 64; k-- > 0;) {
        unit->n_k[k] = (uint16_t)(unit->n_k[k + 1] + next[k]);
        unit->last = unit->last == 0 && next[k] > 0 ? k : unit->last;
        next[k] = unit->n_k[k + 1];
    }
    for (uint32_t s = 0; s < work->n_squares; s++) {
        const struct psti_jpeg_square *q = &work->squares[s];
        size_t columns = frame->components[q->component].columns;
        const int16_t *first = coefs[q->component] + 64 * (q->row * columns + q->column);
        for (uint64_t left = psti_pli_jpeg_blocks(q); left != 0; left &= left - 1) {
            uint32_t p = (uint32_t)__builtin_ctzll(left), i = next[work->ends[s][p]]++;
            work->blocks[i] = first + 64 * ((p >> 3) * columns + (p & 7));
            work->sides[i] = q->side ? 255 : 0;
        }
    }
    for (uint32_t i = 0; i < BLOCKS_BEHIND; i++)
        work->blocks[unit->n_k[0] + i] = no_block;
    memset(work->sides + unit->n_k[0], 0, psti_round_up(unit->n_k[0], SQUARE) - unit->n_k[0]);
}

static void to_planes(const int16_t *const *blocks, const uint16_t *n_k, uint32_t last,
                      int16_t *values, size_t stride)
{
    uint32_t end = last;
    for (uint32_t i = 0; i < n_k[1]; i++) {
        while (n_k[end] <= i)
            end--;
        for (uint32_t k = 1; k <= end; k++)
            values[k * stride + i] = blocks[i][k];
    }
    for (uint32_t k = 1; k <= last; k++)
        memset(values + k * stride + n_k[k], 0,
               (psti_round_up(n_k[k], SQUARE) - n_k[k]) * sizeof *values);
}

/* Finds tokens: counts how many limits a magnitude exceeds, which compilers vectorise. */
static void find_tokens(const int16_t *values, uint32_t n, uint8_t *restrict tokens,
                        uint8_t *restrict g)
{
    for (uint32_t base = 0; base < n; base += LANES)
        for (uint32_t l = 0; l < LANES; l++) {
            int16_t v = values[base + l], m = (int16_t)(v < 0 ? -v : v);
            int16_t a = m > 1, b = m > 2, c = m > 4, d = m > 8, e = m > 16, f = m > 32;
            int16_t some = m > 0;
            tokens[base + l] = (uint8_t)(some + a + b + c + d + e + f);
            g[base + l] = (uint8_t)(some + a + 2 * b + 3 * c + 5 * d + 8 * e + 12 * f);
        }
}

static void put_values(struct psti_je_bits *bits, const int16_t *values, const uint8_t *tokens)
{
    uint16_t left[SQUARE];
    uint8_t n_bits[SQUARE];
    uint8_t classes[SQUARE];
    uint64_t signs = 0;
    uint32_t n_signs = 0, n_left = 0, n_classes = 0;
    for (uint32_t l = 0; l < SQUARE; l++) {
        int16_t v = values[l];
        uint32_t token = tokens[l];
        signs |= (uint64_t)(v < 0) << n_signs;
        n_signs += token > 0;
        if (token < 3)
            continue;
        uint32_t m = (uint32_t)(v < 0 ? -v : v), class = token == 7 ? psti_pli_jpeg_ac_class(m) : 0;
        classes[n_classes] = (uint8_t) class;
        n_classes += token == 7;
        left[n_left] =
            (uint16_t)(token == 7 ? m - 1 - (32u << class) : m - psti_jpeg_ac_lowest[token]);
        n_bits[n_left++] = (uint8_t)(psti_jpeg_ac_bits[token] + class);
    }
    psti_pli_jpeg_encode_put_group(bits, signs, n_signs);
    for (uint32_t i = 0; i < 5 && n_classes > 0; i++) {
        uint64_t plane = 0;
        uint32_t more = 0;
        for (uint32_t j = 0; j < n_classes; j++) {
            plane |= (uint64_t)(classes[j] > i) << j;
            classes[more] = classes[j];
            more += classes[j] > i;
        }
        psti_pli_jpeg_encode_put_group(bits, plane, n_classes);
        n_classes = more;
    }
    put_planes(bits, n_left, left, n_bits);
}

static void find_codes(const struct psti_je_work *work, const uint16_t *n_k, uint32_t k,
                       uint8_t *codes)
{
    const uint8_t *earlier[PSTI_JPEG_N_FEATURES], *tokens = work->tokens + k * work->stride;
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES; i++)
        earlier[i] = work->g + psti_jpeg_features[k][i] * work->stride;
    for (uint32_t base = 0; base < n_k[k]; base += LANES) {
        uint16_t indices[LANES];
        psti_pli_jpeg_find_indices(k, n_k, earlier, work->sides, base, LANES, indices);
        for (uint32_t i = 0; i < LANES; i++)
            codes[base + i] =
                (uint8_t)((uint32_t)work->contexts[indices[i]] << 3 | tokens[base + i]);
    }
}

const struct psti_je_kernels psti_je_kernels_c = {
    .find_ends = find_ends,
    .put_left = put_left,
    .to_planes = to_planes,
    .find_codes = find_codes,
    .find_tokens = find_tokens,
    .put_values = put_values,
};

/* Counts tokens in several tables in turn, because neighbouring tokens are often equal and would
 * wait for the same counter. */
static void count(const uint8_t *codes, size_t n, uint32_t *counts)
{
    enum { N_SETS = 4 };
    uint32_t sets[N_SETS][PSTI_JE_N_AC] = {{0}};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t eight = psti_load_u64(codes + i);
        for (uint32_t k = 0; k < 8; k++)
            sets[k % N_SETS][eight >> 8 * k & 255]++;
    }
    for (; i < n; i++)
        sets[0][codes[i]]++;
    for (i = 0; i < PSTI_JE_N_AC; i++)
        counts[i] += sets[0][i] + sets[1][i] + sets[2][i] + sets[3][i];
}

static void put_ac(struct psti_je_work *work, const struct psti_je_unit *unit,
                   const struct psti_je_kernels *kernels, uint8_t *ac,
                   struct psti_je_counts *counts)
{
    uint8_t *codes = ac;
    if (unit->last == 0)
        return;
    kernels->to_planes(work->blocks, unit->n_k, unit->last, work->values, work->stride);
    memset(work->g, 0, psti_round_up(unit->n_k[0], SQUARE));
    for (uint32_t k = 1; k <= unit->last; k++) {
        size_t at = (size_t)k * work->stride;
        kernels->find_tokens(work->values + at, (uint32_t)psti_round_up(unit->n_k[k], SQUARE),
                             work->tokens + at, work->g + at);
        kernels->find_codes(work, unit->n_k, k, codes);
        codes += unit->n_k[k];
    }
    count(ac, (size_t)(codes - ac), counts->ac);
}

bool psti_pli_jpeg_encode_tokenise(const struct psti_je_kernels *kernels,
                                   const struct psti_jpeg_frame *frame,
                                   const int16_t *const coefs[], const uint8_t *ends,
                                   uint32_t unit_log2, uint32_t row, uint32_t column,
                                   struct psti_je_work *work, uint8_t *ac, uint16_t *small,
                                   struct psti_je_unit *unit, struct psti_je_counts *counts)
{
    struct small_tokens tokens = {small, counts->small};
    struct psti_je_bits bits = {.at = work->raw};
    /* number of each component's first block in `ends` */
    size_t first[PSTI_JPEG_COMPONENTS_MAX] = {0};
    for (uint32_t c = 1; c < frame->n_components; c++)
        first[c] = first[c - 1] + psti_pli_jpeg_n_coefs(frame, c - 1) / 64;
    work->n_squares = psti_pli_jpeg_squares(frame, unit_log2, row, column, work->squares);
    for (uint32_t s = 0; s < work->n_squares; s++) {
        const struct psti_jpeg_square *q = &work->squares[s];
        load_square(q, coefs[q->component], ends + first[q->component],
                    frame->components[q->component].columns, work->ends[s], work->classes[s]);
    }
    put_ends(work, kernels, &tokens, &bits);
    unit->ends_nbytes = (uint32_t)(bits.at - work->raw) + (bits.n_waiting > 0);
    for (uint32_t s = 0; s < work->n_squares; s++) {
        const struct psti_jpeg_square *q = &work->squares[s];
        if (!put_dc_square(q, coefs[q->component], frame->components[q->component].columns,
                           work->classes[s], kernels, &tokens, &bits))
            return false;
    }
    sort(frame, coefs, work, unit);
    put_ac(work, unit, kernels, ac, counts);
    for (uint32_t k = 1; k <= unit->last; k++)
        for (uint32_t base = 0; base < unit->n_k[k]; base += SQUARE) {
            size_t at = (size_t)k * work->stride + base;
            kernels->put_values(&bits, work->values + at, work->tokens + at);
        }
    put_end(&bits);
    unit->raw_nbytes = (uint32_t)(bits.at - work->raw);
    unit->n_small = (uint32_t)(tokens.at - small);
    return true;
}
