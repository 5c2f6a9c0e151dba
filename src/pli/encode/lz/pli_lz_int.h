/* pli_lz_int.h - the parts of the encoder of lz units: parse (pli_lz_parse.c), tables and states
 * (pli_lz_entropy.c), the unit (pli_lz_encode.c). */
#ifndef PST_PLI_LZ_INT_H
#define PST_PLI_LZ_INT_H

#include "pli/format/pli_lz_format.h"

/* A sequence: literals, then a copy of earlier pixels. All numbers are in pixels. */
struct psti_lz_sequence {
    uint32_t run, offset, length;
    uint8_t run_token, offset_code, length_token;
};

/* These functions return the token of a count, and the code of an explicit offset, which is at
 * least 1. */
static inline uint32_t psti_pli_lz_count_token(uint32_t count)
{
    if (count < PSTI_PLI_LZ_COUNT_DIRECT)
        return count;
    uint32_t log2 = 31 - (uint32_t)__builtin_clz(count);
    return PSTI_PLI_LZ_COUNT_DIRECT + 2 * (log2 - 4) + ((count >> (log2 - 1)) & 1);
}
static inline uint32_t psti_pli_lz_explicit_code(uint32_t offset)
{
    if (offset == 1)
        return PSTI_PLI_LZ_EXPLICIT;
    uint32_t log2 = 31 - (uint32_t)__builtin_clz(offset);
    return PSTI_PLI_LZ_EXPLICIT + 2 * log2 - 1 + ((offset >> (log2 - 1)) & 1);
}

/* Costs of tokens in 1/64 bit, excluding raw bits. */
enum { PSTI_LZ_BIT = 64, PSTI_LZ_NEVER = 40 * PSTI_LZ_BIT };
struct psti_lz_prices {
    /* indexed by token only, because the context (the end of a run) is not known in advance */
    uint16_t run[PSTI_PLI_LZ_N_RUNS];
    uint16_t offset[PSTI_PLI_LZ_OFFSET_CONTEXTS][PSTI_PLI_LZ_N_OFFSETS];
    uint16_t length[PSTI_PLI_LZ_LENGTH_CONTEXTS][PSTI_PLI_LZ_N_LENGTHS];
    uint32_t literal;
};

/* The number of times that each token occurs in each context. */
struct psti_lz_counts {
    uint32_t run[PSTI_PLI_LZ_RUN_CONTEXTS][PSTI_PLI_LZ_N_RUNS];
    uint32_t offset[PSTI_PLI_LZ_OFFSET_CONTEXTS][PSTI_PLI_LZ_N_OFFSETS];
    uint32_t length[PSTI_PLI_LZ_LENGTH_CONTEXTS][PSTI_PLI_LZ_N_LENGTHS];
};

/* A unit as the parser sees it. Equal ids mean equal pixels. The caller owns all arrays. */
struct psti_lz_pixels {
    uint32_t *ids; /* n entries, and 16 more that may be read */
    /* n entries: how many pixels up to and including this one differ from the pixel before them */
    uint32_t *edges;
    /* n + 4 entries: distance to the next pixel that differs from the one before it; 4 if that is
     * more than 3 */
    uint8_t *to_edge;
    uint32_t *chain;            /* n entries: the last pixel before this one with the same hash */
    uint32_t *heads;            /* 1 << PSTI_LZ_HASH_BITS entries: the last pixel of each hash */
    struct psti_lz_node *nodes; /* PSTI_LZ_N_NODES entries */
    uint32_t n, width;
};
enum { PSTI_LZ_HASH_BITS = 15, PSTI_LZ_N_NODES = 2049 };

struct psti_lz_node {
    uint32_t price, offset;
    uint32_t recent[PSTI_PLI_LZ_N_RECENT];
    uint16_t from, length; /* a length of 0 means a literal */
    uint32_t run;
    uint8_t code, ending;
};

struct psti_lz_effort {
    uint32_t depth;   /* number of pixels with the same hash that are tried */
    uint32_t nice;    /* a copy of at least this length is taken at once */
    uint32_t shorter; /* up to this length, copies are also tried at every shorter length */
    uint32_t sparse;  /* inside long copies, one of so many pixels is added to the hash table */
    uint32_t passes;
};

void psti_pli_lz_prepare(const struct psti_lz_pixels *pixels);
/* Finds the sequences of the unit, at most PSTI_PLI_LZ_SEQUENCES_MAX. Returns their number. Pixels
 * after the last sequence are literals. */
uint32_t psti_pli_lz_parse(const struct psti_lz_pixels *pixels, const struct psti_lz_effort *effort,
                           const struct psti_lz_prices *prices, struct psti_lz_sequence *sequences);

/* These functions compute costs from built-in tables, or from counts. */
void psti_pli_lz_price_built_in(const struct psti_pli_lz_built_in *built_in,
                                struct psti_lz_prices *prices);
void psti_pli_lz_price_counts(const struct psti_lz_counts *counts, struct psti_lz_prices *prices);

/* Writes bits LSB-first to `out`. Bytes that do not fit are counted, but not written. */
struct psti_lz_writer {
    uint8_t *out;
    size_t capacity, nbytes; /* if nbytes > capacity, not all bytes fitted */
    uint64_t ahead;
    uint32_t n;
};
void psti_pli_lz_put_bits(struct psti_lz_writer *w, uint32_t value, uint32_t count);
void psti_pli_lz_flush_bits(struct psti_lz_writer *w);

/* Returns c log2 c: the bits that c equal symbols save. */
uint64_t psti_pli_lz_information(uint32_t count);

/* A symbol in the form in which states code it. */
struct psti_lz_symbol {
    uint16_t freq, start;
    uint8_t lane, log2;
};
struct psti_lz_table {
    uint16_t freq[256], start[256];
};

/* Chooses tables for `n_contexts` contexts of `n_symbols` symbols with the given counts (n_symbols
 * for each context). Describes them in `w` and fills `tables`. */
void psti_pli_lz_choose_tables(const uint32_t *counts, uint32_t n_contexts, uint32_t n_symbols,
                               uint32_t log2, const uint16_t *built_in, uint32_t built_in_step,
                               struct psti_lz_writer *w, struct psti_lz_table *tables);

/* Codes the symbols, which are in the order of decoding. Writes the states (4 bytes each) to
 * `states` and the words to `words`. Returns the number of bytes of words, or SIZE_MAX if they do
 * not fit. */
size_t psti_pli_lz_put_states(const struct psti_lz_symbol *symbols, size_t n, uint32_t n_lanes,
                              uint8_t *states, uint8_t *words, size_t capacity);

#endif
