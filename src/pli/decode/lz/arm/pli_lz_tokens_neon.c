/* pli_lz_tokens_neon.c - decodes words to tokens and samples of an lz unit with NEON, 8 lanes at
 * once.
 *
 * Symbols and their frequencies are looked up through general registers, one lane after the other.
 * Vectors of four compute the new states and give words to the states that need them. The loops run
 * while every lane has a symbol to decode and many words are left. Plain C does the rest. A symbol
 * takes 9 instructions, and 4 more if each lane has its own table, which is half of plain C's
 * number. The number of instructions limits the speed, not their latency. */
#include "pli/decode/lz/pli_lz_tokens.h"

#include "pli/decode/lz/pli_lz_copy.h"
#include "pli/decode/arm/pli_refill_neon.h"

#if defined(PSTI_NEON)

enum { LANES = 8, EIGHTS_MAX = PSTI_LZ_LANES_MAX / LANES };

/* Returns byte i of eight bytes. There is a byte for each lane; lane 0's is the lowest. */
#define BYTE_OF(bytes, i) (uint8_t)((bytes) >> (8 * (i)))

/* The states of eight lanes. */
struct eight {
    uint32x4_t x[2];
};

/* Returns the number of steps in which all lanes are active. */
static uint32_t full_steps(struct psti_pli_lz_share share, uint32_t n_lanes)
{
    uint32_t others = (n_lanes - 1) * share.per_lane; /* symbols of each lane except the last one */
    return share.n > others ? share.n - others : 0;
}

PSTI_NEON_INLINE struct eight load_eight(const uint32_t *x)
{
    return (struct eight){{vld1q_u32(x), vld1q_u32(x + 4)}};
}
PSTI_NEON_INLINE void store_eight(uint32_t *x, struct eight v)
{
    vst1q_u32(x, v.x[0]);
    vst1q_u32(x + 4, v.x[1]);
}

/* Sets *entry to the table's entry for `place`. Returns the entry's symbol. */
PSTI_NEON_INLINE uint64_t look_up(const uint8_t *table, uint32_t place, uint32_t *entry)
{
    *entry = psti_load_u32(table + 4 * (size_t)place);
    return *entry & 255;
}

/* Decodes the next symbols of 8 states, each with its own table. Reads 24 bytes of words. */
PSTI_NEON_INLINE uint64_t next_symbols(struct eight *states, const uint8_t *const tables[LANES],
                                       const uint32_t log2, const uint8_t **words)
{
    const uint8x8_t bits = vcreate_u8(0x0804020108040201);
    uint64_t symbols = 0;
    uint32x4_t low[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        uint32x4_t place = vandq_u32(states->x[i], vdupq_n_u32((1u << log2) - 1));
        uint64_t first = vgetq_lane_u64(vreinterpretq_u64_u32(place), 0);
        uint64_t second = vgetq_lane_u64(vreinterpretq_u64_u32(place), 1);
        const uint8_t *const *table = tables + 4 * i;
        uint32_t entry[4];
        uint64_t s0 = look_up(table[0], (uint32_t)first, entry);
        uint64_t s1 = look_up(table[1], (uint32_t)(first >> 32), entry + 1);
        uint64_t s2 = look_up(table[2], (uint32_t)second, entry + 2);
        uint64_t s3 = look_up(table[3], (uint32_t)(second >> 32), entry + 3);
        symbols |= (s0 | s1 << 8 | s2 << 16 | s3 << 24) << (32 * i);
        uint32x2_t of_first = {entry[0], entry[1]}, of_second = {entry[2], entry[3]};
        uint32x4_t all = vcombine_u32(of_first, of_second);
        uint32x4_t freqs =
            vandq_u32(vshrq_n_u32(all, PSTI_LZ_FREQ_SHIFT), vdupq_n_u32(PSTI_LZ_FREQ_MASK));
        states->x[i] = vmlaq_u32(vshrq_n_u32(all, PSTI_LZ_PLACE_SHIFT), freqs,
                                 vshlq_u32(states->x[i], vdupq_n_s32(-(int)log2)));
        low[i] = vcltq_u32(states->x[i], vdupq_n_u32(PSTI_LZ_STATE_LOW));
    }
    uint16x8_t both = vuzp1q_u16(vreinterpretq_u16_u32(low[0]), vreinterpretq_u16_u32(low[1]));
    uint8x8_t which = vand_u8(vmovn_u16(both), bits);
    which = vpadd_u8(which, which);
    which = vpadd_u8(which, which); /* one byte for each four lanes */
    uint32_t masks = vget_lane_u32(vreinterpret_u32_u8(which), 0);
    uint32_t counts = vget_lane_u32(vreinterpret_u32_u8(vcnt_u8(which)), 0);
    states->x[0] = psti_pli_refill_four(states->x[0], *words, masks);
    *words += 2 * (size_t)(uint8_t)counts;
    states->x[1] = psti_pli_refill_four(states->x[1], *words, masks >> 8);
    *words += 2 * (size_t)(uint8_t)(counts >> 8);
    return symbols;
}

/* Finds the table of each lane by the lane's context. */
PSTI_NEON_INLINE void choose(const uint8_t *const *tables, uint64_t contexts,
                             const uint8_t *chosen[LANES])
{
#pragma GCC unroll 8
    for (uint32_t i = 0; i < LANES; i++)
        chosen[i] = tables[BYTE_OF(contexts, i)];
}

PSTI_NEON_INLINE uint64_t bytes_of(uint8x8_t v) { return vget_lane_u64(vreinterpret_u64_u8(v), 0); }

/* Returns 255 where v > limit, else 0. */
PSTI_NEON_INLINE uint8x8_t above(uint8x8_t v, uint8_t limit)
{
    return vcgt_u8(v, vdup_n_u8(limit));
}

/* Returns the classes of offset codes, like psti_pli_lz_offset_class. */
PSTI_NEON_INLINE uint8x8_t classes_of(uint8x8_t codes)
{
    uint8x8_t sum =
        vadd_u8(above(codes, PSTI_PLI_LZ_N_RECENT - 1), above(codes, PSTI_PLI_LZ_N_RECENT + 3));
    return vsub_u8(vdup_n_u8(0), vadd_u8(sum, above(codes, PSTI_PLI_LZ_EXPLICIT - 1)));
}

/* Returns the endings of sequences, like psti_pli_lz_ending. */
PSTI_NEON_INLINE uint8x8_t endings_of(uint8x8_t codes, uint8x8_t lengths)
{
    enum { N = PSTI_PLI_LZ_N_RUNS - 1, STEP = PSTI_PLI_LZ_EDGE_N };
    uint8x8_t edge = vadd_u8(above(lengths, N + STEP), above(lengths, N + 2 * STEP));
    edge = vsub_u8(vdup_n_u8(0), vadd_u8(edge, above(lengths, N + 3 * STEP)));
    uint8x8_t plain =
        vadd_u8(vdup_n_u8(PSTI_PLI_LZ_ENDING_FIRST), above(codes, PSTI_PLI_LZ_N_RECENT + 3));
    return vbsl_u8(above(lengths, N), edge, plain);
}

/* Stores tokens as run | offset << 8 | length << 16. */
PSTI_NEON_INLINE void store_tokens(uint32_t *tokens, uint8x8_t runs, uint8x8_t codes,
                                   uint8x8_t lengths)
{
    uint16x8_t low = vorrq_u16(vmovl_u8(runs), vshlq_n_u16(vmovl_u8(codes), 8)),
               high = vmovl_u8(lengths);
    vst1q_u32(tokens, vreinterpretq_u32_u16(vzip1q_u16(low, high)));
    vst1q_u32(tokens + 4, vreinterpretq_u32_u16(vzip2q_u16(low, high)));
}

PSTI_NEON_INLINE uint32_t sequences(struct psti_lz_lanes *lanes,
                                    const struct psti_lz_sequence_tables *tables, uint32_t steps,
                                    uint32_t *tokens, uint8_t *given_endings,
                                    const uint32_t n_eights)
{
    enum { LOG2 = PSTI_PLI_LZ_SEQUENCE_BITS };
    const uint8_t *words = lanes->words, *chosen[LANES];
    struct eight x[EIGHTS_MAX];
    uint64_t endings[EIGHTS_MAX], runs[EIGHTS_MAX], codes[EIGHTS_MAX];
    uint32_t t = 0;
    for (uint32_t v = 0; v < n_eights; v++) {
        x[v] = load_eight(lanes->x + LANES * v);
        endings[v] = psti_load_u64(given_endings + LANES * v);
    }
    for (; t < steps && (size_t)(lanes->end - words) >= 2 * 3 * LANES * n_eights + 16; t++) {
        for (uint32_t v = 0; v < n_eights; v++) {
            choose(tables->run, endings[v], chosen);
            runs[v] = next_symbols(x + v, chosen, LOG2, &words);
        }
        for (uint32_t v = 0; v < n_eights; v++) {
            uint8x8_t after_run = vdup_n_u8(PSTI_PLI_LZ_OFFSET_AFTER_RUN);
            uint8x8_t context =
                vbsl_u8(above(vcreate_u8(runs[v]), 0), after_run, vcreate_u8(endings[v]));
            choose(tables->offset, bytes_of(context), chosen);
            codes[v] = next_symbols(x + v, chosen, LOG2, &words);
        }
        for (uint32_t v = 0; v < n_eights; v++) {
            uint8x8_t code = vcreate_u8(codes[v]);
            choose(tables->length, bytes_of(classes_of(code)), chosen);
            uint8x8_t length = vcreate_u8(next_symbols(x + v, chosen, LOG2, &words));
            endings[v] = bytes_of(endings_of(code, length));
            store_tokens(tokens + LANES * v, vcreate_u8(runs[v]), code, length);
        }
        tokens += (size_t)LANES * n_eights;
    }
    for (uint32_t v = 0; v < n_eights; v++) {
        store_eight(lanes->x + LANES * v, x[v]);
        psti_store_u64(given_endings + LANES * v, endings[v]);
    }
    lanes->words = words;
    return t;
}

static uint32_t decode_sequences(struct psti_lz_lanes *lanes,
                                 const struct psti_lz_sequence_tables *tables,
                                 struct psti_pli_lz_share share, uint32_t *tokens, uint8_t *endings)
{
    uint32_t steps = full_steps(share, lanes->n);
    if (lanes->n == LANES)
        return sequences(lanes, tables, steps, tokens, endings, 1);
    if (lanes->n == 2 * LANES)
        return sequences(lanes, tables, steps, tokens, endings, 2);
    return sequences(lanes, tables, steps, tokens, endings, 4);
}

/* Decodes the next symbols of lanes l .. l + 7, which all use one table. */
PSTI_NEON_INLINE uint64_t symbols_of(struct psti_lz_lanes *lanes, uint32_t l, const uint8_t *table,
                                     const uint8_t **words)
{
    const uint8_t *const tables[LANES] = {table, table, table, table, table, table, table, table};
    struct eight x = load_eight(lanes->x + l);
    uint64_t symbols = next_symbols(&x, tables, PSTI_PLI_LZ_PIXEL_BITS, words);
    store_eight(lanes->x + l, x);
    return symbols;
}

static uint32_t decode_symbols(struct psti_lz_lanes *lanes, const uint8_t *table,
                               struct psti_pli_lz_share share, uint8_t *out)
{
    uint32_t steps = full_steps(share, lanes->n), t = 0;
    const uint8_t *words = lanes->words;
    for (; t < steps && (size_t)(lanes->end - words) >= 2 * lanes->n + 16; t++) {
        for (uint32_t l = 0; l < lanes->n; l += LANES) {
            uint64_t symbols = symbols_of(lanes, l, table, &words);
#pragma GCC unroll 8
            for (uint32_t i = 0; i < LANES; i++)
                out[(l + i) * share.per_lane + t] = BYTE_OF(symbols, i);
        }
    }
    lanes->words = words;
    return t;
}

/* Transposes 8 x 8 bytes by interleaving rows i and i + 4 three times. */
PSTI_NEON_INLINE void turn_8x8(const uint64_t in[8], uint64_t out[8])
{
    uint8x8_t a[8], b[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        a[i] = vcreate_u8(in[i]);
#pragma GCC unroll 3
    for (int turn = 0; turn < 3; turn++) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            b[2 * i] = vzip1_u8(a[i], a[i + 4]);
            b[2 * i + 1] = vzip2_u8(a[i], a[i + 4]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            a[i] = b[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        out[i] = bytes_of(a[i]);
}

static uint32_t decode_pixels(struct psti_lz_lanes *lanes, const struct psti_lz_pixels_to *to,
                              struct psti_pli_lz_share share)
{
    uint32_t steps = full_steps(share, lanes->n), t = 0, P = to->pixel_nbytes;
    const uint8_t *words = lanes->words;
    bool single[8] = {false};
    for (uint32_t b = 0; b < P; b++)
        single[b] = psti_pli_lz_is_single(to->tables[b]);
    for (; t < steps && (size_t)(lanes->end - words) >= 2 * P * lanes->n + 16; t++) {
        uint64_t bytes[EIGHTS_MAX][8] = {0}; /* for each byte of a pixel, a row of 8 lanes */
        for (uint32_t b = 0; b < P; b++)
            for (uint32_t l = 0; l < lanes->n; l += LANES)
                bytes[l / LANES][b] = single[b] ? 0x0101010101010101 * to->tables[b][0]
                                                : symbols_of(lanes, l, to->tables[b], &words);
        for (uint32_t l = 0; l < lanes->n; l += LANES) {
            uint64_t pixels[LANES];
            turn_8x8(bytes[l / LANES], pixels);
#pragma GCC unroll 8
            for (uint32_t i = 0; i < LANES; i++) {
                uint8_t *at = psti_pli_lz_pixel_at(to, (l + i) * share.per_lane + t);
                psti_pli_lz_move_pixel(at, (const uint8_t *)(pixels + i), P);
                if (to->add_green)
                    psti_pli_lz_add_green(at);
            }
        }
    }
    lanes->words = words;
    return t;
}

const struct psti_lz_kernels psti_lz_kernels_neon = {
    .sequences = decode_sequences,
    .symbols = decode_symbols,
    .pixels = decode_pixels,
    .execute = psti_pli_lz_execute_neon,
};
#endif
