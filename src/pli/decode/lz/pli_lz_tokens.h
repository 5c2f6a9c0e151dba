/* pli_lz_tokens.h - declarations that the files of the lz mode share: tables, states, and the loops
 * that decode words to tokens and samples. */
#ifndef PST_PLI_LZ_TOKENS_H
#define PST_PLI_LZ_TOKENS_H

#include "pli/decode/lz/pli_lz_copy.h"
#include "pli/format/pli_lz_format.h"

/* Sizes and shifts of decoding tables. A table has an entry for each state modulo the sum of
 * frequencies. An entry holds the symbol, the symbol's frequency << 8, and << 20 the entry's place
 * among the symbol's entries. So a step needs only one look-up. */
enum {
    PSTI_LZ_TABLE_AT_ONCE = 8, /* entries that are written at once when a table is made */
    PSTI_LZ_SEQUENCE_SUM = 1 << PSTI_PLI_LZ_SEQUENCE_BITS,
    PSTI_LZ_PIXEL_SUM = 1 << PSTI_PLI_LZ_PIXEL_BITS,
    PSTI_LZ_SEQUENCE_TABLE_NBYTES = 4 * (PSTI_LZ_SEQUENCE_SUM + PSTI_LZ_TABLE_AT_ONCE),
    PSTI_LZ_PIXEL_TABLE_NBYTES = 4 * (PSTI_LZ_PIXEL_SUM + PSTI_LZ_TABLE_AT_ONCE),
    PSTI_LZ_FREQ_SHIFT = 8,
    PSTI_LZ_FREQ_MASK = 0xfff,
    PSTI_LZ_PLACE_SHIFT = 20,
    PSTI_LZ_STATE_LOW = 1 << 16, /* the least value of a state; states are below 2^32 */
    PSTI_LZ_LANES_MAX = 1 << PSTI_PLI_LZ_LANES_LOG2_MAX
};

/* The states of the lanes, and the words that refill them. Loops work on a local copy, because the
 * compiler then knows that their stores do not change it. */
struct psti_lz_lanes {
    uint32_t x[PSTI_LZ_LANES_MAX];
    uint32_t n;
    const uint8_t *words, *end;
};

/* The decoding tables of sequences, by context; tables of runs are by ending. `memory` and all
 * tables are in one scratch, at distances that are multiples of an entry. */
enum { PSTI_LZ_N_ENDINGS = 6 };
struct psti_lz_sequence_tables {
    const uint8_t *memory;
    const uint8_t *run[PSTI_LZ_N_ENDINGS];
    const uint8_t *offset[PSTI_PLI_LZ_OFFSET_CONTEXTS];
    const uint8_t *length[PSTI_PLI_LZ_LENGTH_CONTEXTS];
};

/* How n symbols, sequences or pixels are shared among lanes (docs/format-pli.md, 6.2). In step t
 * lane l decodes number l * per_lane + t, if it is one of the first `active` lanes. */
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

/* Where n decoded pixels are stored: the first `split` in `colours`, after which 4 bytes may be
 * overwritten, the others in `out`. tables[b] is the table of byte b of a pixel. */
struct psti_lz_pixels_to {
    const uint8_t *tables[8];
    uint32_t pixel_nbytes, n, split;
    bool add_green; /* true if byte 1 (green) is added to bytes 0 and 2 */
    uint8_t *colours, *out;
};

/* The kernels of one CPU level. The first three do the first steps of the functions
 * psti_pli_lz_decode_..., as long as many words are left and, with NEON, all lanes are active. They
 * return the number of steps that they did; the functions do the remaining steps. All three are
 * NULL in plain C. lanes->n is 8, 16 or 32. */
struct psti_lz_kernels {
    /* `endings` has the ending of each lane's last sequence; the kernel updates it. */
    uint32_t (*sequences)(struct psti_lz_lanes *lanes, const struct psti_lz_sequence_tables *tables,
                          struct psti_pli_lz_share share, uint32_t *tokens, uint8_t *endings);
    uint32_t (*symbols)(struct psti_lz_lanes *lanes, const uint8_t *table,
                        struct psti_pli_lz_share share, uint8_t *out);
    uint32_t (*pixels)(struct psti_lz_lanes *lanes, const struct psti_lz_pixels_to *to,
                       struct psti_pli_lz_share share);
    /* Executes all sequences, which makes the pixels. */
    psti_lz_execute *execute;
};
extern const struct psti_lz_kernels psti_lz_kernels_c, psti_lz_kernels_avx2, psti_lz_kernels_neon;

/* Decodes the tokens of n sequences as run | offset << 8 | length << 16. Each step writes lanes->n
 * of them. */
void psti_pli_lz_decode_sequences(const struct psti_lz_kernels *kernels,
                                  struct psti_lz_lanes *lanes,
                                  const struct psti_lz_sequence_tables *tables, uint32_t n,
                                  uint32_t *tokens);
/* Decodes n symbols of one table, in order. */
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
/* Returns whether the table has only one symbol, as the table of alpha often has. Such a symbol
 * does not change states. */
static inline bool psti_pli_lz_is_single(const uint8_t *table)
{
    return (psti_load_u32(table) >> PSTI_LZ_FREQ_SHIFT & PSTI_LZ_FREQ_MASK) == PSTI_LZ_PIXEL_SUM;
}

#endif
