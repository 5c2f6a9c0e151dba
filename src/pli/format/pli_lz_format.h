/* pli_lz_format.h - numbers and tables of PLI's lz mode (docs/format-pli.md, section 6). The
 * functions are pure. Decoder and encoder both use them. */
#ifndef PST_PLI_LZ_FORMAT_H
#define PST_PLI_LZ_FORMAT_H

#include "pli/format/pli_head.h"

enum {
    PSTI_PLI_LZ_SEQUENCES_MAX = 16384, /* maximum number of sequences of a unit (section 6.1) */
    PSTI_PLI_LZ_COLOURS_MAX = 255,
    PSTI_PLI_LZ_LANES_LOG2_MAX = 5,
    /* Bits of the form byte (section 6.1). Its bits 0..2 are log2 of the number of lanes. */
    PSTI_PLI_LZ_SUBTRACT_GREEN = 1 << 3,
    PSTI_PLI_LZ_GRAPHICS = 1 << 4, /* if set, built-in tables for graphics are used; else those for
                                    * labels */
    PSTI_PLI_LZ_FORM_MAX = 31,

    /* Offset codes (section 6.4): first recent offsets, then offsets of neighbours, then explicit
     * offsets in two classes for each power of two. */
    PSTI_PLI_LZ_N_RECENT = 3,
    PSTI_PLI_LZ_N_NEAR = 19,
    PSTI_PLI_LZ_EXPLICIT = PSTI_PLI_LZ_N_RECENT + PSTI_PLI_LZ_N_NEAR,
    PSTI_PLI_LZ_N_OFFSETS = PSTI_PLI_LZ_EXPLICIT + 35,

    /* Counts (section 6.4): a token below 16 is the count itself; later tokens are two classes for
     * each power of two. Lengths have more tokens, for copies that end at edges. */
    PSTI_PLI_LZ_COUNT_DIRECT = 16,
    PSTI_PLI_LZ_N_RUNS = 44,
    PSTI_PLI_LZ_EDGE_SHORT = 4, /* number of values of `back` (pixels before the edge): 0..3 */
    PSTI_PLI_LZ_EDGE_N = 12,    /* number of edges that can be named: 1..12 */
    PSTI_PLI_LZ_N_LENGTHS = PSTI_PLI_LZ_N_RUNS + PSTI_PLI_LZ_EDGE_SHORT * PSTI_PLI_LZ_EDGE_N,

    PSTI_PLI_LZ_RUN_CONTEXTS = 2,
    PSTI_PLI_LZ_OFFSET_CONTEXTS = 7,
    PSTI_PLI_LZ_LENGTH_CONTEXTS = 4,
    PSTI_PLI_LZ_N_SEQUENCE_TABLES =
        PSTI_PLI_LZ_RUN_CONTEXTS + PSTI_PLI_LZ_OFFSET_CONTEXTS + PSTI_PLI_LZ_LENGTH_CONTEXTS,
    PSTI_PLI_LZ_N_SAMPLE_TABLES = 4,
    PSTI_PLI_LZ_SEQUENCE_BITS = 10, /* sequence tables sum to 1 << 10 (section 6.2) */
    PSTI_PLI_LZ_PIXEL_BITS = 11     /* index and sample tables sum to 1 << 11 (section 6.2) */
};

/* How a unit gives the table of a context (section 6.3), in 2 bits. */
enum psti_pli_lz_table {
    PSTI_PLI_LZ_TABLE_BUILT_IN = 0,
    PSTI_PLI_LZ_TABLE_OWN = 1,
    PSTI_PLI_LZ_TABLE_SAME = 2 /* the table of the context before is used */
};

struct psti_pli_lz_near {
    int8_t dy, dx; /* the source lies dy rows above and dx columns to the right */
};
extern const struct psti_pli_lz_near psti_pli_lz_near[PSTI_PLI_LZ_N_NEAR];

/* Built-in frequencies (section 6.3): [0] of label maps, [1] of graphics. Each table sums to 1024
 * and has no 0. */
struct psti_pli_lz_built_in {
    uint16_t run[PSTI_PLI_LZ_RUN_CONTEXTS][PSTI_PLI_LZ_N_RUNS];
    uint16_t offset[PSTI_PLI_LZ_OFFSET_CONTEXTS][PSTI_PLI_LZ_N_OFFSETS];
    uint16_t length[PSTI_PLI_LZ_LENGTH_CONTEXTS][PSTI_PLI_LZ_N_LENGTHS];
};
extern const struct psti_pli_lz_built_in psti_pli_lz_built_in[2];

/* Returns the class of an offset code: 0 recent, 1 left, 2 above, 3 explicit. The class is the
 * context of the length (section 6.4). */
static inline uint32_t psti_pli_lz_offset_class(uint32_t code)
{
    if (code < PSTI_PLI_LZ_N_RECENT)
        return 0;
    if (code < PSTI_PLI_LZ_N_RECENT + 4)
        return 1;
    return code < PSTI_PLI_LZ_EXPLICIT ? 2 : 3;
}
/* Returns the ending of a sequence (section 6.4), which determines the contexts of the lane's next
 * sequence. 0..3: an edge length, which stops so many pixels before the edge. 4: a plain length
 * with an offset from above or an explicit offset. 5: a plain length with a recent offset or one
 * from the left. 5 is also the ending before the first sequence. */
static inline uint32_t psti_pli_lz_ending(uint32_t offset_code, uint32_t length_token)
{
    if (length_token >= PSTI_PLI_LZ_N_RUNS)
        return (length_token - PSTI_PLI_LZ_N_RUNS) / PSTI_PLI_LZ_EDGE_N;
    return psti_pli_lz_offset_class(offset_code) >= 2 ? 4 : 5;
}
enum { PSTI_PLI_LZ_ENDING_FIRST = 5, PSTI_PLI_LZ_OFFSET_AFTER_RUN = 6 };
/* Returns the context of a run (section 6.4): 1 after a plain length, else 0. */
static inline uint32_t psti_pli_lz_run_context(uint32_t ending)
{
    return ending >= PSTI_PLI_LZ_EDGE_SHORT;
}

/* These functions return the raw bits and the base of a count's token (section 6.4). From token 16
 * on the count is the base plus the value of the raw bits. */
static inline uint32_t psti_pli_lz_count_bits(uint32_t token)
{
    return token < PSTI_PLI_LZ_COUNT_DIRECT ? 0 : (token - PSTI_PLI_LZ_COUNT_DIRECT) / 2 + 3;
}
static inline uint32_t psti_pli_lz_count_base(uint32_t token)
{
    return token < PSTI_PLI_LZ_COUNT_DIRECT ? token
                                            : (2 + (token & 1)) << psti_pli_lz_count_bits(token);
}
/* These functions return the raw bits and the base of an explicit offset code. The offset is the
 * base plus the value of the raw bits. The first codes mean 1, 2, 3, 4..5, 6..7, 8..11. */
static inline uint32_t psti_pli_lz_explicit_bits(uint32_t code)
{
    uint32_t k = code - PSTI_PLI_LZ_EXPLICIT;
    return k == 0 ? 0 : (k - 1) / 2;
}
static inline uint32_t psti_pli_lz_explicit_base(uint32_t code)
{
    uint32_t k = code - PSTI_PLI_LZ_EXPLICIT;
    return k == 0 ? 1 : (2 + ((k - 1) & 1)) << psti_pli_lz_explicit_bits(code);
}

/* Returns the number of the sample table that codes byte `byte` of a pixel (section 6.5). With 8
 * bits it is the channel. With 16 bits it depends on whether the channel is the first one and on
 * whether the byte is the low or the high one. */
static inline uint32_t psti_pli_lz_sample_table(uint32_t bits, uint32_t byte)
{
    return bits == 8 ? byte : (byte < 2 ? byte : 2 + (byte & 1));
}

#endif
