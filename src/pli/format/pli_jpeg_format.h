/* pli_jpeg_format.h - PLI's content 2, the coefficients of a JPEG (docs/format-pli.md, sections 7
 * and 8): frame, geometry, tokens, tables. Pure: used by decoder and encoder alike. */
#ifndef PST_PLI_JPEG_FORMAT_H
#define PST_PLI_JPEG_FORMAT_H

#include "pli/format/pli_head.h"

enum {
    PSTI_JPEG_MODEL = 1, /* number of the built-in constants */
    PSTI_JPEG_COMPONENTS_MAX = 3,
    PSTI_JPEG_N_QUANTS = 4,
    PSTI_JPEG_FRAME_MAX_NBYTES = 2 + 2 * 3 + 4 * 129 + 20,
    PSTI_JPEG_UNIT_LOG2_MAX = PSTI_PLI_JPEG_UNIT_LOG2_MAX,
    PSTI_JPEG_SQUARES_MAX = 48, /* of a unit: 256 pixels, 4:4:4 */
    PSTI_JPEG_PROB_BITS = 12,
    PSTI_JPEG_PROB_SUM = 1 << PSTI_JPEG_PROB_BITS,
    PSTI_JPEG_N_AC_CONTEXTS = 32,
    PSTI_JPEG_N_AC_TOKENS = 8,
    PSTI_JPEG_N_ENDS = 16, /* classes of ends of blocks; contexts of ends and dc, too */
    PSTI_JPEG_N_DC_TOKENS = 14,
    PSTI_JPEG_N_FEATURES = 6,
    PSTI_JPEG_N_LIMITS = 7,
    PSTI_JPEG_AC_MAX = 2048,           /* magnitudes */
    PSTI_JPEG_DC_MAX = 4096,           /* of differences */
    PSTI_JPEG_TABLES_MAX_NBYTES = 1024 /* of model block 2 */
};

struct psti_jpeg_component {
    uint8_t h, v;           /* sampling factors; 1, 1 of a single component */
    uint8_t quant;          /* which of the frame's tables */
    uint32_t columns, rows; /* blocks, whole MCUs: follows from the rest */
    uint32_t width, height; /* samples: follows from the rest */
};

struct psti_jpeg_frame {
    uint32_t width, height; /* pixels; from the PLI's header or the JPEG's */
    uint8_t n_components;   /* 1 or 3 */
    uint8_t transform;      /* 1: YCbCr, else gray or RGB */
    uint8_t orientation;    /* EXIF 1..8 */
    uint8_t h, v;           /* the largest sampling factors */
    struct psti_jpeg_component components[PSTI_JPEG_COMPONENTS_MAX];
    uint16_t quants[PSTI_JPEG_N_QUANTS][64]; /* zigzag order; zeros where none is used */
    uint32_t jpeg_nbytes;
    uint64_t jpeg_checksum;
    uint32_t restoration_nbytes, restoration_checksum;
};

/* Zigzag number -> 8 * row + column. */
extern const uint8_t psti_jpeg_zigzag[64];

/* Fills in what follows from the rest: h, v, and blocks and samples of components. False if the
 * sampling factors are none that content 2 takes. */
bool psti_pli_jpeg_frame_measure(struct psti_jpeg_frame *frame);
/* Whether the file may be so long: at most 64 times what is stored of it besides coefficients, 4
 * bytes per sample and 64 KiB. Files beyond that are not kept, so that a decoder never makes
 * gigabytes of a few bytes. */
bool psti_pli_jpeg_length_is_kept(const struct psti_jpeg_frame *frame);
/* Model block 3 -> frame, checked and measured. */
enum pst_status psti_pli_jpeg_parse_frame(const uint8_t *block, size_t nbytes,
                                          const struct psti_pli_header *header,
                                          struct psti_jpeg_frame *frame, struct pst_error *err);
/* Writes at most PSTI_JPEG_FRAME_MAX_NBYTES; returns how many. */
size_t psti_pli_jpeg_print_frame(const struct psti_jpeg_frame *frame, uint8_t *block);

/* Coefficients in memory: of component c, rows * columns blocks row by row, 64 values each in
 * zigzag order. */
static inline size_t psti_pli_jpeg_n_coefs(const struct psti_jpeg_frame *frame, uint32_t component)
{
    const struct psti_jpeg_component *c = &frame->components[component];
    return (size_t)c->rows * c->columns * 64;
}

/* Up to 8x8 blocks of one component. */
struct psti_jpeg_square {
    uint8_t component, side;
    uint8_t columns, rows; /* 1..8 */
    uint32_t column, row;  /* of its first block, in the component */
};
/* The squares of unit (row, column) in their order; returns how many, at most
 * PSTI_JPEG_SQUARES_MAX. */
uint32_t psti_pli_jpeg_squares(const struct psti_jpeg_frame *frame, uint32_t unit_log2,
                               uint32_t row, uint32_t column, struct psti_jpeg_square *squares);

/* Blocks of a square as bits, 8 * y + x; and those places of 8 x 8 whose x + y is even. */
static inline uint64_t psti_pli_jpeg_blocks(const struct psti_jpeg_square *square)
{
    uint64_t columns = ((1ull << square->columns) - 1) * 0x0101010101010101ull;
    return square->rows == 8 ? columns : columns & ((1ull << (8 * square->rows)) - 1);
}
#define PSTI_JPEG_EVEN 0xaa55aa55aa55aa55ull

/* Contexts of classes (8.2): of even blocks, and the highest of odd ones. */
enum { PSTI_JPEG_EVEN_CONTEXT = 15, PSTI_JPEG_ODD_CONTEXT_MAX = 14 };
/* Of the odd block at position p, from the classes of the even ones around it. */
uint32_t psti_pli_jpeg_end_context(const struct psti_jpeg_square *square, const uint8_t *classes,
                                   uint32_t p);

/* Tokens. */
extern const uint8_t psti_jpeg_end_lowest[PSTI_JPEG_N_ENDS], psti_jpeg_end_bits[PSTI_JPEG_N_ENDS];
extern const uint8_t psti_jpeg_ac_lowest[PSTI_JPEG_N_AC_TOKENS]; /* 0 1 2 3 5 9 17 33 */
extern const uint8_t psti_jpeg_ac_bits[PSTI_JPEG_N_AC_TOKENS];   /* 0 0 0 1 2 3 4 5 + class */
extern const uint8_t psti_jpeg_ac_weight[PSTI_JPEG_N_AC_TOKENS]; /* g */
static inline uint32_t psti_pli_jpeg_dc_token(uint32_t m)
{
    return m < 3 ? m : 33u - (uint32_t)__builtin_clz(m - 1);
}
static inline uint32_t psti_pli_jpeg_dc_lowest(uint32_t t)
{
    return t < 3 ? t : (1u << (t - 2)) + 1;
}
static inline uint32_t psti_pli_jpeg_dc_bits(uint32_t t) { return t < 3 ? 0 : t - 2; }
/* Class 0..5 of a magnitude of token 7. */
static inline uint32_t psti_pli_jpeg_ac_class(uint32_t m)
{
    return 26u - (uint32_t)__builtin_clz(m - 1);
}
static inline uint32_t psti_pli_jpeg_distance(uint32_t end_minus_k)
{
    return end_minus_k == 0 ? 0 : end_minus_k <= 2 ? 1 : end_minus_k <= 6 ? 2 : 3;
}
/* The zigzag numbers of the six earlier coefficients; 0 where there is none. Their tokens count as
 * 0 then. */
extern const uint8_t psti_jpeg_features[64][PSTI_JPEG_N_FEATURES];

/* Trained constants (pli_jpeg_model.c). */
extern const int8_t psti_jpeg_weights[2][64][PSTI_JPEG_N_FEATURES]; /* [side][k][feature] */
extern const int16_t psti_jpeg_biases[2][64];
extern const uint8_t psti_jpeg_limits[PSTI_JPEG_N_LIMITS]; /* ascending, 1..128 */

/* Contexts of AC tokens (8.4) of plane k: 128 * D + x of list positions first .. first + n - 1 to
 * indices[0..], from which a table says the context. first and n are multiples of 32; g[i] is the
 * plane of g of the coefficient psti_jpeg_features[k][i] (plane 0: zeros), sides[] 0 or 255, n_k[]
 * how many blocks have an end >= k, up to n_k[64]. The one place where the formula stands. */
enum { PSTI_JPEG_N_INDICES = 4 * 128 };
void psti_pli_jpeg_find_indices(uint32_t k, const uint16_t *n_k,
                                const uint8_t *const g[PSTI_JPEG_N_FEATURES], const uint8_t *sides,
                                uint32_t first, uint32_t n, uint16_t *restrict indices);
void psti_pli_jpeg_fill_contexts(uint8_t contexts[PSTI_JPEG_N_INDICES]);

/* Frequencies; each table has the sum 4096. */
struct psti_jpeg_tables {
    uint16_t ac[PSTI_JPEG_N_AC_CONTEXTS][PSTI_JPEG_N_AC_TOKENS]; /* [8 * D + b] */
    uint16_t ends[2][PSTI_JPEG_N_ENDS][PSTI_JPEG_N_ENDS];        /* [side][context][class] */
    uint16_t dc[2][PSTI_JPEG_N_ENDS][PSTI_JPEG_N_DC_TOKENS];     /* [side][class][token] */
};
extern const struct psti_jpeg_tables psti_jpeg_builtin;
enum { PSTI_JPEG_N_TABLES = 32 + 32 + 32 };
/* Model block 2 -> tables: built-in ones where `block` (NULL: no block) has none. */
enum pst_status psti_pli_jpeg_parse_tables(const uint8_t *block, size_t nbytes,
                                           struct psti_jpeg_tables *out, struct pst_error *err);
/* A table as the block holds it; n 0: built in. q as psti_pli_wave_own. */
struct psti_jpeg_own {
    uint8_t n;
    uint8_t q[PSTI_JPEG_N_ENDS];
};
/* Frequencies (sum 4096) of an own table of up to `n_tokens`; false if it is none. */
bool psti_pli_jpeg_expand(const struct psti_jpeg_own *own, uint32_t n_tokens, uint16_t *freqs);
/* `own`: [PSTI_JPEG_N_TABLES] in the order of section 8.6. At most PSTI_JPEG_TABLES_MAX_NBYTES. */
size_t psti_pli_jpeg_print_tables(const struct psti_jpeg_own *own, uint8_t *block);

/* raw DEFLATE dictionary of the restoration (section 10). */
extern const uint8_t psti_jpeg_dictionary[];
extern const size_t psti_jpeg_dictionary_nbytes;

#endif
