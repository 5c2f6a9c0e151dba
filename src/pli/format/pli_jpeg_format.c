/* pli_jpeg_format.c - PLI's content 2 (docs/format-pli.md, sections 7 and 8): the frame of a JPEG,
 * the places of its blocks, and the model block of tables.
 *
 * Pure functions that turn bytes into values and values into bytes. Parsing trusts no byte, so
 * callers can compute freely with a parsed frame or parsed tables. */
#include "pli/format/pli_jpeg_format.h"

#include "base/bits.h"
#include "base/fail.h"
#include "pli/format/pli_wave_format.h"

#include <string.h>

#define ROOM "format"

enum {
    /* bytes after the quantisation tables in the frame's block (section 7) */
    TAIL_NBYTES = 4 + 8 + 4 + 4
};

const uint8_t psti_jpeg_zigzag[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

const uint8_t psti_jpeg_end_lowest[PSTI_JPEG_N_ENDS] = {0,  1,  2,  3,  4,  6,  8,  10,
                                                        12, 16, 20, 24, 28, 36, 44, 52};
const uint8_t psti_jpeg_end_bits[PSTI_JPEG_N_ENDS] = {0, 0, 0, 0, 1, 1, 1, 1,
                                                      2, 2, 2, 2, 3, 3, 3, 4};
const uint8_t psti_jpeg_ac_lowest[PSTI_JPEG_N_AC_TOKENS] = {0, 1, 2, 3, 5, 9, 17, 33};
const uint8_t psti_jpeg_ac_bits[PSTI_JPEG_N_AC_TOKENS] = {0, 0, 0, 1, 2, 3, 4, 5};
const uint8_t psti_jpeg_ac_weight[PSTI_JPEG_N_AC_TOKENS] = {0, 1, 2, 4, 7, 12, 20, 32};

/* clang-format off */
const uint8_t psti_jpeg_features[64][PSTI_JPEG_N_FEATURES] = {
    {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 0},
    {2, 1, 0, 2, 0, 0}, {3, 2, 2, 1, 0, 0}, {4, 3, 1, 0, 0, 0},
    {5, 4, 5, 0, 1, 0}, {6, 5, 4, 5, 2, 0}, {7, 6, 3, 4, 0, 1},
    {8, 7, 0, 3, 0, 2}, {9, 8, 0, 9, 0, 3}, {10, 9, 9, 8, 0, 4},
    {11, 10, 8, 7, 3, 5}, {12, 11, 7, 6, 4, 0}, {13, 12, 6, 0, 5, 0},
    {14, 13, 14, 0, 6, 0}, {15, 14, 13, 14, 7, 0}, {16, 15, 12, 13, 8, 6},
    {17, 16, 11, 12, 9, 7}, {18, 17, 10, 11, 0, 8}, {19, 18, 0, 10, 0, 9},
    {20, 19, 0, 20, 0, 10}, {21, 20, 20, 19, 0, 11}, {22, 21, 19, 18, 10, 12},
    {23, 22, 18, 17, 11, 13}, {24, 23, 17, 16, 12, 14}, {25, 24, 16, 15, 13, 0},
    {26, 25, 15, 0, 14, 0}, {27, 26, 27, 0, 15, 0}, {28, 27, 26, 27, 16, 0},
    {29, 28, 25, 26, 17, 15}, {30, 29, 24, 25, 18, 16}, {31, 30, 23, 24, 19, 17},
    {32, 31, 22, 23, 20, 18}, {33, 32, 21, 22, 0, 19}, {34, 33, 0, 21, 0, 20},
    {35, 34, 35, 34, 0, 22}, {36, 35, 34, 33, 21, 23}, {37, 36, 33, 32, 22, 24},
    {38, 37, 32, 31, 23, 25}, {39, 38, 31, 30, 24, 26}, {40, 39, 30, 29, 25, 27},
    {41, 40, 29, 28, 26, 0}, {42, 41, 41, 42, 30, 28}, {43, 42, 40, 41, 31, 29},
    {44, 43, 39, 40, 32, 30}, {45, 44, 38, 39, 33, 31}, {46, 45, 37, 38, 34, 32},
    {47, 46, 36, 37, 35, 33}, {48, 47, 48, 47, 36, 38}, {49, 48, 47, 46, 37, 39},
    {50, 49, 46, 45, 38, 40}, {51, 50, 45, 44, 39, 41}, {52, 51, 44, 43, 40, 42},
    {53, 52, 52, 53, 45, 43}, {54, 53, 51, 52, 46, 44}, {55, 54, 50, 51, 47, 45},
    {56, 55, 49, 50, 48, 46}, {57, 56, 57, 56, 49, 51}, {58, 57, 56, 55, 50, 52},
    {59, 58, 55, 54, 51, 53}, {60, 59, 59, 60, 56, 54}, {61, 60, 58, 59, 57, 55},
    {62, 61, 62, 61, 58, 60},
};
/* clang-format on */

/* -- The frame of a JPEG -- */

static bool is_factor(uint32_t v) { return v == 1 || v == 2 || v == 4; }

static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

bool psti_pli_jpeg_frame_measure(struct psti_jpeg_frame *frame)
{
    uint32_t n = frame->n_components;
    if (n != 1 && n != 3)
        return false;
    frame->h = frame->v = 1;
    for (uint32_t i = 0; i < n; i++) {
        const struct psti_jpeg_component *c = &frame->components[i];
        if (!is_factor(c->h) || !is_factor(c->v) || (n == 1 && (c->h != 1 || c->v != 1)))
            return false;
        frame->h = c->h > frame->h ? c->h : frame->h;
        frame->v = c->v > frame->v ? c->v : frame->v;
    }
    uint32_t mcu_columns = divide_up(frame->width, 8u * frame->h);
    uint32_t mcu_rows = divide_up(frame->height, 8u * frame->v);
    for (uint32_t i = 0; i < n; i++) {
        struct psti_jpeg_component *c = &frame->components[i];
        c->columns = c->h * mcu_columns;
        c->rows = c->v * mcu_rows;
        c->width = divide_up(frame->width * c->h, frame->h);
        c->height = divide_up(frame->height * c->v, frame->v);
    }
    return true;
}

bool psti_pli_jpeg_length_is_kept(const struct psti_jpeg_frame *frame)
{
    enum { PER_BYTE = 64, PER_SAMPLE = 4, SPARE = 65536 };
    uint64_t n_samples = (uint64_t)frame->width * frame->height * frame->n_components;
    return frame->jpeg_nbytes <=
           PER_BYTE * (uint64_t)frame->restoration_nbytes + PER_SAMPLE * n_samples + SPARE;
}

/* Returns a mask of the quantisation tables that components use. */
static uint32_t named_quants(const struct psti_jpeg_frame *frame)
{
    uint32_t named = 0;
    for (uint32_t i = 0; i < frame->n_components; i++)
        named |= 1u << frame->components[i].quant;
    return named;
}

static enum pst_status corrupt(struct pst_error *err, const char *what)
{
    return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "the frame of the JPEG %s", what);
}

static enum pst_status parse_quant(struct psti_pli_cursor *c, uint16_t *quant,
                                   struct pst_error *err)
{
    const uint8_t *head = psti_pli_take(c, 1);
    if (!head)
        return corrupt(err, "ends early");
    const uint8_t width = *head; /* read only once, because other threads may change the bytes */
    if (width > 1)
        return corrupt(err, "has values of an unknown width");
    const uint8_t *values = psti_pli_take(c, 64u << width);
    if (!values)
        return corrupt(err, "ends early");
    for (uint32_t k = 0; k < 64; k++) {
        quant[k] = width ? psti_load_u16(values + 2 * (size_t)k) : values[k];
        if (quant[k] == 0)
            return corrupt(err, "quantises by 0");
    }
    return PST_OK;
}

static enum pst_status parse_components(struct psti_pli_cursor *c, struct psti_jpeg_frame *frame,
                                        struct pst_error *err)
{
    const uint8_t *at = psti_pli_take(c, 2u * frame->n_components);
    if (!at)
        return corrupt(err, "ends early");
    for (uint32_t i = 0; i < frame->n_components; i++, at += 2) {
        const uint8_t factors = at[0], quant = at[1];
        frame->components[i] =
            (struct psti_jpeg_component){.h = factors >> 4, .v = factors & 15, .quant = quant};
        if (quant >= PSTI_JPEG_N_QUANTS)
            return corrupt(err, "names a quantisation table beyond 3");
    }
    if (!psti_pli_jpeg_frame_measure(frame))
        return corrupt(err, "has sampling factors that are none");
    return PST_OK;
}

enum pst_status psti_pli_jpeg_parse_frame(const uint8_t *block, size_t nbytes,
                                          const struct psti_pli_header *header,
                                          struct psti_jpeg_frame *frame, struct pst_error *err)
{
    if (!block)
        return corrupt(err, "is not there");
    struct psti_pli_cursor c = {block, block + nbytes};
    *frame = (struct psti_jpeg_frame){.width = header->width,
                                      .height = header->height,
                                      .n_components = header->channels,
                                      .transform = header->transform};
    const uint8_t *start = psti_pli_take(&c, 2);
    if (!start)
        return corrupt(err, "ends early");
    if (start[0] != PSTI_JPEG_MODEL)
        return psti_fail(err, PST_ERROR_VERSION, ROOM,
                         "the JPEG was kept with constants number %u; this library knows up to %d",
                         start[0], PSTI_JPEG_MODEL);
    frame->orientation = start[1];
    if (frame->orientation < 1 || frame->orientation > 8)
        return corrupt(err, "has an orientation that is none");
    enum pst_status status = parse_components(&c, frame, err);
    for (uint32_t i = 0; i < PSTI_JPEG_N_QUANTS && status == PST_OK; i++)
        if (named_quants(frame) >> i & 1)
            status = parse_quant(&c, frame->quants[i], err);
    if (status != PST_OK)
        return status;
    const uint8_t *tail = psti_pli_take(&c, TAIL_NBYTES);
    if (!tail || c.at != c.end)
        return corrupt(err, tail ? "is followed by bytes" : "ends early");
    frame->jpeg_nbytes = psti_load_u32(tail);
    frame->jpeg_checksum = psti_load_u64(tail + 4);
    frame->restoration_nbytes = psti_load_u32(tail + 12);
    frame->restoration_checksum = psti_load_u32(tail + 16);
    if (!psti_pli_jpeg_length_is_kept(frame))
        return corrupt(err, "states a length that the file cannot have");
    return PST_OK;
}

size_t psti_pli_jpeg_print_frame(const struct psti_jpeg_frame *frame, uint8_t *block)
{
    uint8_t *at = block;
    *at++ = PSTI_JPEG_MODEL;
    *at++ = frame->orientation;
    for (uint32_t i = 0; i < frame->n_components; i++) {
        const struct psti_jpeg_component *c = &frame->components[i];
        *at++ = (uint8_t)(c->h << 4 | c->v);
        *at++ = c->quant;
    }
    for (uint32_t i = 0; i < PSTI_JPEG_N_QUANTS; i++) {
        const uint16_t *quant = frame->quants[i];
        uint32_t all = 0;
        if ((named_quants(frame) >> i & 1) == 0)
            continue;
        for (uint32_t k = 0; k < 64; k++)
            all |= quant[k];
        uint32_t wide = all > UINT8_MAX;
        *at++ = (uint8_t)wide;
        for (uint32_t k = 0; k < 64; k++, at += 1 + wide) {
            if (wide)
                psti_store_u16(at, quant[k]);
            else
                *at = (uint8_t)quant[k];
        }
    }
    psti_store_u32(at, frame->jpeg_nbytes);
    psti_store_u64(at + 4, frame->jpeg_checksum);
    psti_store_u32(at + 12, frame->restoration_nbytes);
    psti_store_u32(at + 16, frame->restoration_checksum);
    return (size_t)(at + TAIL_NBYTES - block);
}

/* -- Squares -- */

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

uint32_t psti_pli_jpeg_squares(const struct psti_jpeg_frame *frame, uint32_t unit_log2,
                               uint32_t row, uint32_t column, struct psti_jpeg_square *squares)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < frame->n_components; i++) {
        const struct psti_jpeg_component *c = &frame->components[i];
        uint32_t unit_columns = (1u << (unit_log2 - 3)) * c->h / frame->h;
        uint32_t unit_rows = (1u << (unit_log2 - 3)) * c->v / frame->v;
        uint32_t x0 = column * unit_columns, x1 = least(x0 + unit_columns, c->columns);
        uint32_t y0 = row * unit_rows, y1 = least(y0 + unit_rows, c->rows);
        for (uint32_t y = y0; y < y1; y += 8)
            for (uint32_t x = x0; x < x1; x += 8)
                squares[n++] = (struct psti_jpeg_square){.component = (uint8_t)i,
                                                         .side = frame->transform == 1 && i > 0,
                                                         .columns = (uint8_t)least(8, x1 - x),
                                                         .rows = (uint8_t)least(8, y1 - y),
                                                         .column = x,
                                                         .row = y};
    }
    return n;
}

/* -- Contexts -- */

enum { CONTEXT_GROUP = 32 };

/* Adds g of one feature, times its weight, to the sums of 32 list positions. 16 bits do not
 * overflow: test_pli_jpeg_format adds up the weights. */
static void add_feature(const uint8_t *restrict g, int16_t weight, int16_t *restrict sums)
{
    for (uint32_t l = 0; l < CONTEXT_GROUP; l++)
        sums[l] = (int16_t)(sums[l] + (int16_t)(g[l] * weight));
}

/* Adds a feature like add_feature, for positions of both sides. `weight` is the weight of side 0,
 * `other` that of side 1. `sides` holds 0 or -1. */
static void add_mixed_feature(const uint8_t *restrict g, int16_t weight, int16_t other,
                              const int16_t *restrict sides, int16_t *restrict sums)
{
    const int16_t more = (int16_t)(other - weight);
    for (uint32_t l = 0; l < CONTEXT_GROUP; l++)
        sums[l] = (int16_t)(sums[l] + (int16_t)(g[l] * (int16_t)(weight + (more & sides[l]))));
}

/* Computes the sums of section 8.4 of docs/format-pli.md for 32 list positions, whose blocks all
 * have side `side`. */
static void sum_side(uint32_t k, const uint8_t *const g[PSTI_JPEG_N_FEATURES], uint32_t side,
                     uint32_t base, int16_t *restrict sums)
{
    const int16_t bias = psti_jpeg_biases[side][k];
    for (uint32_t l = 0; l < CONTEXT_GROUP; l++)
        sums[l] = bias;
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES; i++)
        if (psti_jpeg_features[k][i] != 0)
            add_feature(g[i] + base, psti_jpeg_weights[side][k][i], sums);
}

/* Computes the sums of section 8.4 for 32 list positions of any sides. `of` holds 0 or 255 for each
 * side. */
static void sum_sides(uint32_t k, const uint8_t *const g[PSTI_JPEG_N_FEATURES],
                      const uint8_t *restrict of, uint32_t base, int16_t *restrict sums)
{
    const int16_t bias = psti_jpeg_biases[0][k], more = (int16_t)(psti_jpeg_biases[1][k] - bias);
    int16_t sides[CONTEXT_GROUP];
    for (uint32_t l = 0; l < CONTEXT_GROUP; l++) {
        sides[l] = (int16_t)(int8_t)of[l];
        sums[l] = (int16_t)(bias + (more & sides[l]));
    }
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES; i++)
        if (psti_jpeg_features[k][i] != 0)
            add_mixed_feature(g[i] + base, psti_jpeg_weights[0][k][i], psti_jpeg_weights[1][k][i],
                              sides, sums);
}

/* Returns whether all 32 sides are equal. */
static bool is_one_side(const uint8_t *sides)
{
    uint64_t first = sides[0] ? UINT64_MAX : 0, others = 0;
    for (uint32_t l = 0; l < CONTEXT_GROUP; l += 8)
        others |= psti_load_u64(sides + l) ^ first;
    return others == 0;
}

/* Computes `size` of section 8.4 from the sums and adds `distance`, which is 128 times the distance
 * of all positions. */
static void find_x(const int16_t *restrict sums, int16_t distance, uint16_t *restrict indices)
{
    for (uint32_t l = 0; l < CONTEXT_GROUP; l++) {
        int16_t x = (int16_t)(sums[l] >> 1);
        x = x < 0 ? 0 : x;
        x = x > 127 ? 127 : x;
        indices[l] = (uint16_t)(x + distance);
    }
}

/* Adds 128 to the indices of the group's positions before `end`, if `end` lies within the group. */
static void add_distance(uint32_t end, uint32_t base, uint16_t *restrict indices)
{
    if (end >= base + CONTEXT_GROUP)
        return;
    for (uint32_t i = base; i < end; i++)
        indices[i - base] = (uint16_t)(indices[i - base] + 128);
}

/* Most groups have one distance for all positions; in others it is added for each position. */
void psti_pli_jpeg_find_indices(uint32_t k, const uint16_t *n_k,
                                const uint8_t *const g[PSTI_JPEG_N_FEATURES], const uint8_t *sides,
                                uint32_t first, uint32_t n, uint16_t *restrict indices)
{
    const uint32_t far = n_k[k + 7 < 64 ? k + 7 : 64], near = n_k[k + 3 < 64 ? k + 3 : 64];
    const uint32_t next = n_k[k + 1];
    for (uint32_t base = first; base < first + n; base += CONTEXT_GROUP) {
        const uint32_t end = base + CONTEXT_GROUP;
        int16_t sums[CONTEXT_GROUP];
        if (is_one_side(sides + base))
            sum_side(k, g, sides[base] != 0, base, sums);
        else
            sum_sides(k, g, sides + base, base, sums);
        find_x(sums, (int16_t)(128 * ((far >= end) + (near >= end) + (next >= end))), indices);
        add_distance(far, base, indices);
        add_distance(near, base, indices);
        add_distance(next, base, indices);
        indices += CONTEXT_GROUP;
    }
}

void psti_pli_jpeg_fill_contexts(uint8_t contexts[PSTI_JPEG_N_INDICES])
{
    for (uint32_t x = 0, bucket = 0; x < 128; x++) {
        while (bucket < PSTI_JPEG_N_LIMITS && psti_jpeg_limits[bucket] <= x)
            bucket++;
        for (uint32_t d = 0; d < 4; d++)
            contexts[128 * d + x] = (uint8_t)(8 * d + bucket);
    }
}

/* Computes the context by the rule of section 8.2. */
uint32_t psti_pli_jpeg_end_context(const struct psti_jpeg_square *q, const uint8_t *classes,
                                   uint32_t p)
{
    uint32_t x = p & 7, y = p >> 3, across = 0, along = 0;
    if (q->columns > 1)
        across = classes[x > 0 ? p - 1 : p + 1] + classes[x + 1u < q->columns ? p + 1 : p - 1];
    if (q->rows > 1)
        along = classes[y > 0 ? p - 8 : p + 8] + classes[y + 1u < q->rows ? p + 8 : p - 8];
    uint32_t sum = q->columns == 1 ? 2 * along : q->rows == 1 ? 2 * across : across + along;
    uint32_t context = (sum + 2) >> 2;
    return context < PSTI_JPEG_ODD_CONTEXT_MAX ? context : PSTI_JPEG_ODD_CONTEXT_MAX;
}

/* -- Tables -- */

bool psti_pli_jpeg_expand(const struct psti_jpeg_own *own, uint32_t n_tokens, uint16_t *freqs)
{
    return psti_pli_expand_table(own->q, own->n, n_tokens, PSTI_JPEG_PROB_BITS, freqs);
}

/* Returns table `i` of section 8.6 and its number of tokens. */
static uint16_t *find_table(struct psti_jpeg_tables *tables, uint32_t i, uint32_t *n_tokens)
{
    *n_tokens = PSTI_JPEG_N_AC_TOKENS;
    if (i < PSTI_JPEG_N_AC_CONTEXTS)
        return tables->ac[i];
    i -= PSTI_JPEG_N_AC_CONTEXTS;
    *n_tokens = PSTI_JPEG_N_ENDS;
    if (i < 2 * PSTI_JPEG_N_ENDS)
        return tables->ends[i / PSTI_JPEG_N_ENDS][i % PSTI_JPEG_N_ENDS];
    i -= 2 * PSTI_JPEG_N_ENDS;
    *n_tokens = PSTI_JPEG_N_DC_TOKENS;
    return tables->dc[i / PSTI_JPEG_N_ENDS][i % PSTI_JPEG_N_ENDS];
}

enum pst_status psti_pli_jpeg_parse_tables(const uint8_t *block, size_t nbytes,
                                           struct psti_jpeg_tables *out, struct pst_error *err)
{
    *out = psti_jpeg_builtin;
    if (!block)
        return PST_OK;
    struct psti_pli_bits b = {block, nbytes, 0};
    for (uint32_t i = 0; i < PSTI_JPEG_N_TABLES; i++) {
        struct psti_jpeg_own own;
        uint32_t n_tokens;
        uint16_t *freqs = find_table(out, i, &n_tokens);
        if (!psti_pli_take_bits(&b, 1))
            continue;
        own.n = (uint8_t)psti_pli_take_bits(&b, PSTI_PLI_TABLE_ENTRY_BITS);
        if (own.n < 1 || own.n > n_tokens)
            return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                             "table %u of coefficients has %u entries", i, own.n);
        for (uint32_t k = 0; k < own.n; k++)
            own.q[k] = (uint8_t)psti_pli_take_bits(&b, PSTI_PLI_TABLE_ENTRY_BITS);
        if (!psti_pli_jpeg_expand(&own, n_tokens, freqs))
            return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                             "table %u of coefficients is not a distribution", i);
    }
    if ((b.at + 7) / 8 != nbytes)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                         "tables of coefficients take %zu bytes instead of %zu", (b.at + 7) / 8,
                         nbytes);
    return PST_OK;
}

size_t psti_pli_jpeg_print_tables(const struct psti_jpeg_own *own, uint8_t *block)
{
    size_t at = 0;
    memset(block, 0, PSTI_JPEG_TABLES_MAX_NBYTES);
    for (uint32_t i = 0; i < PSTI_JPEG_N_TABLES; i++)
        at = psti_pli_put_table(block, at, own[i].q, own[i].n);
    return (at + 7) / 8;
}
