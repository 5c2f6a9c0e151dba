/* pli_lz_format.h - numbers and tables of PLI's lz mode (docs/format-pli.md, section 6). Pure: used
 * by decoder and encoder alike. */
#ifndef PST_PLI_LZ_FORMAT_H
#define PST_PLI_LZ_FORMAT_H

#include "pli/format/pli_head.h"

enum {
    PSTI_PLI_LZ_SEQUENCES_MAX = 16384, /* of one unit */
    PSTI_PLI_LZ_COLOURS_MAX = 255,
    PSTI_PLI_LZ_LANES_LOG2_MAX = 5,
    /* The form byte; below these log2 of lanes. */
    PSTI_PLI_LZ_SUBTRACT_GREEN = 1 << 3,
    PSTI_PLI_LZ_GRAPHICS = 1 << 4, /* which built-in tables */
    PSTI_PLI_LZ_FORM_MAX = 31,

    /* Offset codes: recent offsets, neighbours, then explicit by power of two and a half. */
    PSTI_PLI_LZ_N_RECENT = 3,
    PSTI_PLI_LZ_N_NEAR = 19,
    PSTI_PLI_LZ_EXPLICIT = PSTI_PLI_LZ_N_RECENT + PSTI_PLI_LZ_N_NEAR,
    PSTI_PLI_LZ_N_OFFSETS = PSTI_PLI_LZ_EXPLICIT + 35,

    /* Counts: direct below 16, then by power of two and a half. Lengths go on with edges. */
    PSTI_PLI_LZ_COUNT_DIRECT = 16,
    PSTI_PLI_LZ_N_RUNS = 44,
    PSTI_PLI_LZ_EDGE_SHORT = 4, /* pixels before the edge: 0..3 */
    PSTI_PLI_LZ_EDGE_N = 12,    /* which edge: 1..12 */
    PSTI_PLI_LZ_N_LENGTHS = PSTI_PLI_LZ_N_RUNS + PSTI_PLI_LZ_EDGE_SHORT * PSTI_PLI_LZ_EDGE_N,

    PSTI_PLI_LZ_RUN_CONTEXTS = 2,
    PSTI_PLI_LZ_OFFSET_CONTEXTS = 7,
    PSTI_PLI_LZ_LENGTH_CONTEXTS = 4,
    PSTI_PLI_LZ_N_SEQUENCE_TABLES =
        PSTI_PLI_LZ_RUN_CONTEXTS + PSTI_PLI_LZ_OFFSET_CONTEXTS + PSTI_PLI_LZ_LENGTH_CONTEXTS,
    PSTI_PLI_LZ_N_SAMPLE_TABLES = 4,
    PSTI_PLI_LZ_SEQUENCE_BITS = 10, /* frequencies of sequence tables sum to 1 << 10 */
    PSTI_PLI_LZ_PIXEL_BITS = 11     /* of colour and sample tables */
};

/* How the table of a context is told: 2 bits. */
enum psti_pli_lz_table {
    PSTI_PLI_LZ_TABLE_BUILT_IN = 0,
    PSTI_PLI_LZ_TABLE_OWN = 1,
    PSTI_PLI_LZ_TABLE_SAME = 2 /* as that of the context before */
};

struct psti_pli_lz_near {
    int8_t dy, dx; /* the source is dy rows up and dx columns to the right */
};
extern const struct psti_pli_lz_near psti_pli_lz_near[PSTI_PLI_LZ_N_NEAR];

/* Built-in frequencies: of label maps, of graphics. Each sums to 1024, none is 0. */
struct psti_pli_lz_built_in {
    uint16_t run[PSTI_PLI_LZ_RUN_CONTEXTS][PSTI_PLI_LZ_N_RUNS];
    uint16_t offset[PSTI_PLI_LZ_OFFSET_CONTEXTS][PSTI_PLI_LZ_N_OFFSETS];
    uint16_t length[PSTI_PLI_LZ_LENGTH_CONTEXTS][PSTI_PLI_LZ_N_LENGTHS];
};
extern const struct psti_pli_lz_built_in psti_pli_lz_built_in[2];

/* Class of an offset code: 0 recent, 1 left, 2 above, 3 explicit. */
static inline uint32_t psti_pli_lz_offset_class(uint32_t code)
{
    if (code < PSTI_PLI_LZ_N_RECENT)
        return 0;
    if (code < PSTI_PLI_LZ_N_RECENT + 4)
        return 1;
    return code < PSTI_PLI_LZ_EXPLICIT ? 2 : 3;
}
/* What a sequence leaves to the next of its lane: 0..3 the pixels its length stopped before an
 * edge, 4 a plain length from above or far, 5 a plain length of a recent offset or from the left
 * (also before the first). */
static inline uint32_t psti_pli_lz_ending(uint32_t offset_code, uint32_t length_token)
{
    if (length_token >= PSTI_PLI_LZ_N_RUNS)
        return (length_token - PSTI_PLI_LZ_N_RUNS) / PSTI_PLI_LZ_EDGE_N;
    return psti_pli_lz_offset_class(offset_code) >= 2 ? 4 : 5;
}
enum { PSTI_PLI_LZ_ENDING_FIRST = 5, PSTI_PLI_LZ_OFFSET_AFTER_RUN = 6 };
/* Context of a run: 1 after a plain length. */
static inline uint32_t psti_pli_lz_run_context(uint32_t ending)
{
    return ending >= PSTI_PLI_LZ_EDGE_SHORT;
}

/* Tokens 16..: the count is base + the next `bits` raw bits. */
static inline uint32_t psti_pli_lz_count_bits(uint32_t token)
{
    return token < PSTI_PLI_LZ_COUNT_DIRECT ? 0 : (token - PSTI_PLI_LZ_COUNT_DIRECT) / 2 + 3;
}
static inline uint32_t psti_pli_lz_count_base(uint32_t token)
{
    return token < PSTI_PLI_LZ_COUNT_DIRECT ? token
                                            : (2 + (token & 1)) << psti_pli_lz_count_bits(token);
}
/* Explicit offset codes: offset = base + raw bits; the first are 1, 2, 3, 4..5, 6..7, 8..11. */
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

/* Which sample table codes byte `byte` of a pixel: by channel, or for 16 bits by (first channel or
 * not, low or high byte). */
static inline uint32_t psti_pli_lz_sample_table(uint32_t bits, uint32_t byte)
{
    return bits == 8 ? byte : (byte < 2 ? byte : 2 + (byte & 1));
}

#endif
