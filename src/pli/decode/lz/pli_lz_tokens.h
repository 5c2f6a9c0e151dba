/* pli_lz_tokens.h - tables, states and the loops that turn words into tokens and samples, shared by
 * the lz mode's files. */
#ifndef PST_PLI_LZ_TOKENS_H
#define PST_PLI_LZ_TOKENS_H

#include "pli/decode/lz/pli_lz_copy.h"
#include "pli/format/pli_lz_format.h"

/* A table: for each state modulo the sum the symbol, its frequency << 8 and, << 20, the place among
 * those of that symbol. One look-up is all that a step waits for. */
enum {
    PSTI_LZ_TABLE_AT_ONCE = 8, /* making a table writes that many entries at once */
    PSTI_LZ_SEQUENCE_SUM = 1 << PSTI_PLI_LZ_SEQUENCE_BITS,
    PSTI_LZ_PIXEL_SUM = 1 << PSTI_PLI_LZ_PIXEL_BITS,
    PSTI_LZ_SEQUENCE_TABLE_NBYTES = 4 * (PSTI_LZ_SEQUENCE_SUM + PSTI_LZ_TABLE_AT_ONCE),
    PSTI_LZ_PIXEL_TABLE_NBYTES = 4 * (PSTI_LZ_PIXEL_SUM + PSTI_LZ_TABLE_AT_ONCE),
    PSTI_LZ_FREQ_SHIFT = 8,
    PSTI_LZ_FREQ_MASK = 0xfff,
    PSTI_LZ_PLACE_SHIFT = 20,
    PSTI_LZ_STATE_LOW = 1 << 16, /* states are below 2^32 and at least this */
    PSTI_LZ_LANES_MAX = 1 << PSTI_PLI_LZ_LANES_LOG2_MAX
};

/* The states and the words that refill them. Loops work on a copy of their own, which nothing that
 * they write can alias. */
struct psti_lz_lanes {
    uint32_t x[PSTI_LZ_LANES_MAX];
    uint32_t n;
    const uint8_t *words, *end;
};

/* By context; runs by ending. All of one scratch with `memory`, some entries from it. */
enum { PSTI_LZ_N_ENDINGS = 6 };
struct psti_lz_sequence_tables {
    const uint8_t *memory;
    const uint8_t *run[PSTI_LZ_N_ENDINGS];
    const uint8_t *offset[PSTI_PLI_LZ_OFFSET_CONTEXTS];
    const uint8_t *length[PSTI_PLI_LZ_LENGTH_CONTEXTS];
};

/* How n things are shared among lanes: thing t of lane l is number l * per_lane + t. In step t the
 * first `active` lanes have one. */
struct psti_pli_lz_share {
    uint32_t n, per_lane;
};
static inline struct psti_pli_lz_share psti_pli_lz_share(uint32_t n, uint32_t lanes)
{
    return (struct psti_pli_lz_share){n, (n + lanes - 1) / lanes};
}
static inline uint32_t psti_pli_lz_active(struct psti_pli_lz_share s, uint32_t t)
{
    return (s.n - t + s.per_lane - 1) / s.per_lane;
}

/* n pixels: the first `split` to `colours`, behind which 4 bytes may be overwritten, the others to
 * `out`. tables[b]: of byte b. */
struct psti_lz_pixels_to {
    const uint8_t *tables[8];
    uint32_t pixel_nbytes, n, split;
    bool add_green; /* byte 1 to bytes 0 and 2 */
    uint8_t *colours, *out;
};

/* The kernels of one CPU level. Three of them do only the first steps of what the functions below
 * do, as long as words are plenty (NEON: and all lanes are active), and return how many steps they
 * did; all three are NULL in plain C. lanes->n is 8, 16 or 32. */
struct psti_lz_kernels {
    /* `endings`: of all lanes, in and out. */
    uint32_t (*sequences)(struct psti_lz_lanes *lanes, const struct psti_lz_sequence_tables *tables,
                          struct psti_pli_lz_share share, uint32_t *tokens, uint8_t *endings);
    uint32_t (*symbols)(struct psti_lz_lanes *lanes, const uint8_t *table,
                        struct psti_pli_lz_share share, uint8_t *out);
    uint32_t (*pixels)(struct psti_lz_lanes *lanes, const struct psti_lz_pixels_to *to,
                       struct psti_pli_lz_share share);
    /* All sequences -> pixels. */
    psti_lz_execute *execute;
};
extern const struct psti_lz_kernels psti_lz_kernels_c, psti_lz_kernels_avx2, psti_lz_kernels_neon;

/* Tokens of n sequences: run | offset << 8 | length << 16, step after step, lanes->n of them in
 * each. */
void psti_pli_lz_decode_sequences(const struct psti_lz_kernels *kernels,
                                  struct psti_lz_lanes *lanes,
                                  const struct psti_lz_sequence_tables *tables, uint32_t n,
                                  uint32_t *tokens);
/* n symbols of one table, in order. */
void psti_pli_lz_decode_symbols(const struct psti_lz_kernels *kernels, struct psti_lz_lanes *lanes,
                                const uint8_t *table, uint32_t n, uint8_t *out);
void psti_pli_lz_decode_pixels(const struct psti_lz_kernels *kernels, struct psti_lz_lanes *lanes,
                               const struct psti_lz_pixels_to *to);

static inline uint8_t *psti_pli_lz_pixel_at(const struct psti_lz_pixels_to *to, uint32_t i)
{
    return i < to->split ? to->colours + (size_t)i * to->pixel_nbytes
                         : to->out + (size_t)(i - to->split) * to->pixel_nbytes;
}
static inline void psti_pli_lz_add_green(uint8_t *pixel)
{
    pixel[0] = (uint8_t)(pixel[0] + pixel[1]);
    pixel[2] = (uint8_t)(pixel[2] + pixel[1]);
}
/* Whether the table has one symbol only, as alpha's often has: states stay as they are. */
static inline bool psti_pli_lz_is_single(const uint8_t *table)
{
    return (psti_load_u32(table) >> PSTI_LZ_FREQ_SHIFT & PSTI_LZ_FREQ_MASK) == PSTI_LZ_PIXEL_SUM;
}

#endif
