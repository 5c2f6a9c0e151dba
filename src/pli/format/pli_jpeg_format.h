/* pli_jpeg_format.h - PLI's content 2, the coefficients of a JPEG (docs/format-pli.md, sections 7
 * and 8): frame, geometry, tokens, tables. The functions are pure. Decoder and encoder both use
 * them. */
#ifndef PST_PLI_JPEG_FORMAT_H
#define PST_PLI_JPEG_FORMAT_H

#include "pli/format/pli_head.h"

enum {
    PSTI_JPEG_MODEL = 1, /* number of the built-in constants (sections 7 and 8.7) */
    PSTI_JPEG_COMPONENTS_MAX = 3,
    PSTI_JPEG_N_QUANTS = 4,
    PSTI_JPEG_FRAME_MAX_NBYTES = 2 + 2 * 3 + 4 * 129 + 20,
    PSTI_JPEG_UNIT_LOG2_MAX = PSTI_PLI_JPEG_UNIT_LOG2_MAX,
    PSTI_JPEG_SQUARES_MAX = 48, /* for a unit of 256 pixels, 4:4:4 */
    PSTI_JPEG_PROB_BITS = 12,
    PSTI_JPEG_PROB_SUM = 1 << PSTI_JPEG_PROB_BITS,
    PSTI_JPEG_N_AC_CONTEXTS = 32,
    PSTI_JPEG_N_AC_TOKENS = 8,
    PSTI_JPEG_N_ENDS = 16, /* number of classes of ends (section 8.2), and of contexts of ends and
                            * of DC */
    PSTI_JPEG_N_DC_TOKENS = 14,
    PSTI_JPEG_N_FEATURES = 6,
    PSTI_JPEG_N_LIMITS = 7,
    PSTI_JPEG_AC_MAX = 2048,           /* the largest magnitude (section 8.4) */
    PSTI_JPEG_DC_MAX = 4096,           /* the largest |d| (section 8.3) */
    PSTI_JPEG_TABLES_MAX_NBYTES = 1024 /* length of model block 2 (section 8.6) */
};

struct psti_jpeg_component {
    uint8_t h, v;           /* sampling factors; both are 1 if there is one component */
    uint8_t quant;          /* number of the component's quantisation table in the frame */
    uint32_t columns, rows; /* blocks in whole MCUs; computed from the other values */
    uint32_t width, height; /* samples; computed from the other values */
};

struct psti_jpeg_frame {
    uint32_t width, height; /* pixels, as in the header of the PLI or of the JPEG */
    uint8_t n_components;   /* 1 or 3 */
    uint8_t transform;      /* 1 for YCbCr, 0 for gray or RGB */
    uint8_t orientation;    /* EXIF orientation, 1..8 */
    uint8_t h, v;           /* the largest sampling factors of components */
    struct psti_jpeg_component components[PSTI_JPEG_COMPONENTS_MAX];
    /* values of each table in zigzag order; zeros for tables that no component uses */
    uint16_t quants[PSTI_JPEG_N_QUANTS][64];
    uint32_t jpeg_nbytes;
    uint64_t jpeg_checksum;
    uint32_t restoration_nbytes, restoration_checksum;
};

/* Maps a zigzag number to 8 * row + column. */
extern const uint8_t psti_jpeg_zigzag[64];

/* Computes the values that follow from the others: h, v, and the blocks and samples of components.
 * Returns false if content 2 does not allow the sampling factors (section 7). */
bool psti_pli_jpeg_frame_measure(struct psti_jpeg_frame *frame);
/* Returns whether the JPEG file's length is within the bound of section 7: 64 times the length of
 * the restoration data, plus 4 bytes per sample and 64 KiB. Longer files are not stored as PLI.
 * Without the bound, a few bytes could make a decoder write gigabytes. */
bool psti_pli_jpeg_length_is_kept(const struct psti_jpeg_frame *frame);
/* Reads model block 3 (section 7) into a frame, checks and measures it. */
enum pst_status psti_pli_jpeg_parse_frame(const uint8_t *block, size_t nbytes,
                                          const struct psti_pli_header *header,
                                          struct psti_jpeg_frame *frame, struct pst_error *err);
/* Writes model block 3, at most PSTI_JPEG_FRAME_MAX_NBYTES. Returns its length. */
size_t psti_pli_jpeg_print_frame(const struct psti_jpeg_frame *frame, uint8_t *block);

/* Returns the number of coefficients of a component in memory: rows * columns blocks, row by row,
 * of 64 values each in zigzag order. */
static inline size_t psti_pli_jpeg_n_coefs(const struct psti_jpeg_frame *frame, uint32_t component)
{
    const struct psti_jpeg_component *c = &frame->components[component];
    return (size_t)c->rows * c->columns * 64;
}

/* A square (section 8): up to 8x8 blocks of one component. */
struct psti_jpeg_square {
    uint8_t component, side;
    uint8_t columns, rows; /* number of blocks, 1..8 in each direction */
    uint32_t column, row;  /* place of the square's first block in the component */
};
/* Lists the squares of unit (row, column) in their order. Returns how many there are, at most
 * PSTI_JPEG_SQUARES_MAX. */
uint32_t psti_pli_jpeg_squares(const struct psti_jpeg_frame *frame, uint32_t unit_log2,
                               uint32_t row, uint32_t column, struct psti_jpeg_square *squares);

/* Returns a mask of the blocks in a square: bit 8 * y + x for the block at (y, x).
 * PSTI_JPEG_EVEN has the bits of all 8 x 8 places with an even x + y. */
static inline uint64_t psti_pli_jpeg_blocks(const struct psti_jpeg_square *square)
{
    uint64_t columns = ((1ull << square->columns) - 1) * 0x0101010101010101ull;
    return square->rows == 8 ? columns : columns & ((1ull << (8 * square->rows)) - 1);
}
#define PSTI_JPEG_EVEN 0xaa55aa55aa55aa55ull

/* Contexts of classes (section 8.2): the context of all even blocks, and the highest context of odd
 * blocks. */
enum { PSTI_JPEG_EVEN_CONTEXT = 15, PSTI_JPEG_ODD_CONTEXT_MAX = 14 };
/* Returns the context of the odd block at position p (section 8.2) from the classes of the even
 * blocks around it. */
uint32_t psti_pli_jpeg_end_context(const struct psti_jpeg_square *square, const uint8_t *classes,
                                   uint32_t p);

/* Indexed by token (sections 8.2 to 8.4): the lowest value, the number of raw bits, the weight
 * g. */
extern const uint8_t psti_jpeg_end_lowest[PSTI_JPEG_N_ENDS], psti_jpeg_end_bits[PSTI_JPEG_N_ENDS];
extern const uint8_t psti_jpeg_ac_lowest[PSTI_JPEG_N_AC_TOKENS]; /* 0 1 2 3 5 9 17 33 */
/* 0 0 0 1 2 3 4 5; token 7 has more bits: the number of its octave */
extern const uint8_t psti_jpeg_ac_bits[PSTI_JPEG_N_AC_TOKENS];
extern const uint8_t psti_jpeg_ac_weight[PSTI_JPEG_N_AC_TOKENS]; /* g of section 8.4 */
static inline uint32_t psti_pli_jpeg_dc_token(uint32_t m)
{
    return m < 3 ? m : 33u - (uint32_t)__builtin_clz(m - 1);
}
static inline uint32_t psti_pli_jpeg_dc_lowest(uint32_t t)
{
    return t < 3 ? t : (1u << (t - 2)) + 1;
}
static inline uint32_t psti_pli_jpeg_dc_bits(uint32_t t) { return t < 3 ? 0 : t - 2; }
/* Returns the octave, 0..5, of a magnitude of token 7 (section 8.5). */
static inline uint32_t psti_pli_jpeg_ac_class(uint32_t m)
{
    return 26u - (uint32_t)__builtin_clz(m - 1);
}
static inline uint32_t psti_pli_jpeg_distance(uint32_t end_minus_k)
{
    return end_minus_k == 0 ? 0 : end_minus_k <= 2 ? 1 : end_minus_k <= 6 ? 2 : 3;
}
/* Zigzag numbers of the six earlier coefficients of section 8.4. 0 means that there is none; its
 * token counts as 0. */
extern const uint8_t psti_jpeg_features[64][PSTI_JPEG_N_FEATURES];

/* Trained constants (section 8.7, pli_jpeg_constants.c). */
extern const int8_t psti_jpeg_weights[2][64][PSTI_JPEG_N_FEATURES]; /* [side][k][feature] */
extern const int16_t psti_jpeg_biases[2][64];
extern const uint8_t psti_jpeg_limits[PSTI_JPEG_N_LIMITS]; /* ascending, 1..128 */

/* Computes an index for the AC token of coefficient k in each of n blocks of the list of section
 * 8.4; psti_pli_jpeg_fill_contexts makes the table from index to context. The index of list
 * position first + i is 128 * distance + size, by the formulas of that section, and goes to
 * indices[i].
 *
 * first, n: multiples of 32.
 * g[i]: for each list position the value g of coefficient psti_jpeg_features[k][i]; all zeros for
 *     coefficient 0.
 * sides: for each list position 0 or 255, for a block of a component with side 0 or 1
 * (section 8.1). n_k: n_k[j] is the number of blocks with end >= j, for j up to 64.
 *
 * Encoder and decoder both call this function. */
enum { PSTI_JPEG_N_INDICES = 4 * 128 };
void psti_pli_jpeg_find_indices(uint32_t k, const uint16_t *n_k,
                                const uint8_t *const g[PSTI_JPEG_N_FEATURES], const uint8_t *sides,
                                uint32_t first, uint32_t n, uint16_t *restrict indices);
void psti_pli_jpeg_fill_contexts(uint8_t contexts[PSTI_JPEG_N_INDICES]);

/* The frequencies of all tables (section 8.6). Each table sums to 4096. */
struct psti_jpeg_tables {
    uint16_t ac[PSTI_JPEG_N_AC_CONTEXTS][PSTI_JPEG_N_AC_TOKENS]; /* [8 * distance +
                                                                  * bucket][token] */
    uint16_t ends[2][PSTI_JPEG_N_ENDS][PSTI_JPEG_N_ENDS];        /* [side][context][class] */
    uint16_t dc[2][PSTI_JPEG_N_ENDS][PSTI_JPEG_N_DC_TOKENS];     /* [side][class][token] */
};
extern const struct psti_jpeg_tables psti_jpeg_builtin;
enum { PSTI_JPEG_N_TABLES = 32 + 32 + 32 };
/* Reads model block 2 (section 8.6) into tables. Tables that the block lacks are the built-in ones;
 * if `block` is NULL, all are. */
enum pst_status psti_pli_jpeg_parse_tables(const uint8_t *block, size_t nbytes,
                                           struct psti_jpeg_tables *out, struct pst_error *err);
/* A table in the form of model block 2. n is 0 for the built-in table. q is as in
 * psti_pli_wave_own. */
struct psti_jpeg_own {
    uint8_t n;
    uint8_t q[PSTI_JPEG_N_ENDS];
};
/* Computes the frequencies (sum 4096) of an image's own table with up to `n_tokens` tokens. Returns
 * false if the table is invalid. */
bool psti_pli_jpeg_expand(const struct psti_jpeg_own *own, uint32_t n_tokens, uint16_t *freqs);
/* Writes model block 2, at most PSTI_JPEG_TABLES_MAX_NBYTES, and returns its length. `own` has
 * PSTI_JPEG_N_TABLES tables in the order of section 8.6. */
size_t psti_pli_jpeg_print_tables(const struct psti_jpeg_own *own, uint8_t *block);

/* The preset dictionary of the restoration's raw DEFLATE data (section 10). */
extern const uint8_t psti_jpeg_dictionary[];
extern const size_t psti_jpeg_dictionary_nbytes;

#endif
