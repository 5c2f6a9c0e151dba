/* pli_jpeg_encode_int.h - inside the encoder of PLI's JPEG content (docs/format-pli.md, section 8):
 * what finding tokens, choosing tables and writing units share. */
#ifndef PST_PLI_JPEG_ENCODE_INT_H
#define PST_PLI_JPEG_ENCODE_INT_H

#include "base/bits.h"
#include "pli/encode/coefs/pli_jpeg_encode.h"
#include "pli/encode/pli_rans.h"

enum {
    PSTI_JE_LANES = 32,
    PSTI_JE_SQUARE = 64,
    PSTI_JE_PAYLOAD_NBYTES = 64,
    PSTI_JE_EXPONENT_NBYTES = 16,
    /* Tokens of ends and DC: (table << 4 | token) in bits 0..9, tables 0..31 of ends and 32..63 of
     * DC, [side][context]; the lane in bits 10..14. Of AC: context << 3 | token. */
    PSTI_JE_N_SMALL = 1024,
    PSTI_JE_LANE_SHIFT = 10,
    PSTI_JE_DC_TABLES = 32,
    PSTI_JE_N_AC = 256,
    PSTI_JE_RECIPROCAL_SHIFT = 32 + PSTI_JPEG_PROB_BITS
};

/* How often each token occurs in each context. */
struct psti_je_counts {
    uint32_t small[PSTI_JE_N_SMALL], ac[PSTI_JE_N_AC];
};

/* A token as a state takes it. */
struct psti_je_code {
    uint64_t reciprocal;  /* 2^44 / freq rounded up: exact for all states below freq * 2^20 */
    uint32_t last;        /* freq * 2^20 - 1: states above lose a word first */
    uint16_t rest, first; /* 2^12 - freq */
};
struct psti_je_codes {
    struct psti_je_code small[PSTI_JE_N_SMALL], ac[PSTI_JE_N_AC];
    uint64_t quick[PSTI_JE_N_AC]; /* the same for vectors, as pli_rans.h has it; 0 if freq is */
};

/* Bits, the first one lowest. */
struct psti_je_bits {
    uint8_t *at;
    uint64_t waiting;
    uint32_t n_waiting; /* 0..7 */
};
/* n at most 56; the bits above them are 0. Eight bytes behind `at` are written. */
static inline void psti_pli_jpeg_encode_put(struct psti_je_bits *b, uint64_t v, uint32_t n)
{
    b->waiting |= v << b->n_waiting;
    b->n_waiting += n;
    psti_store_u64(b->at, b->waiting);
    b->at += b->n_waiting >> 3;
    b->waiting >>= b->n_waiting & ~7u;
    b->n_waiting &= 7;
}
/* n up to 64; the bits above them are 0. Nine bytes behind `at` are written. */
static inline void psti_pli_jpeg_encode_put_group(struct psti_je_bits *b, uint64_t v, uint32_t n)
{
    uint32_t total = b->n_waiting + n;
    uint64_t word = b->waiting | v << b->n_waiting, beyond = v >> 1 >> (63 - b->n_waiting);
    psti_store_u64(b->at, word);
    b->at[8] = (uint8_t)beyond;
    b->at += total >> 3;
    b->waiting = total < 64 ? word >> (total & 56) : beyond;
    b->n_waiting = total & 7;
}

/* What a unit comes to before its tables are known; parts lie one behind the other in the buffers
 * of the image. */
struct psti_je_unit {
    size_t ac, small;                 /* where its tokens begin: of u8, of u16 */
    size_t raw;                       /* where its raw bits begin */
    uint32_t n_small;                 /* tokens */
    uint32_t raw_nbytes, ends_nbytes; /* of all raw bits; of those that must not be payload */
    uint32_t last;                    /* the largest end */
    uint16_t n_k[65];
};

/* One thread's memory for a unit; `stride` entries to a plane. */
struct psti_je_work {
    uint32_t stride;
    struct psti_jpeg_square squares[PSTI_JPEG_SQUARES_MAX];
    uint32_t n_squares;
    uint8_t classes[PSTI_JPEG_SQUARES_MAX][PSTI_JE_SQUARE];
    uint8_t ends[PSTI_JPEG_SQUARES_MAX][PSTI_JE_SQUARE];
    uint8_t contexts[PSTI_JPEG_N_INDICES];
    uint8_t *sides;         /* [list position] */
    const int16_t **blocks; /* [list position], and 16 of zeros behind the last one */
    int16_t *values;        /* plane k at k * stride */
    uint8_t *tokens, *g;
    uint8_t *raw;        /* of a unit, the most there can be */
    uint16_t *words_end; /* words are written backwards from here */
};

struct psti_je_kernels;

/* pli_jpeg_encode_tokens.c: the end of each block to `ends`, in the order of components and blocks;
 * `*n_tokens` becomes how many AC tokens they have. False if a coefficient is out of range. */
bool psti_pli_jpeg_encode_find_ends(const struct psti_je_kernels *kernels,
                                    const struct psti_jpeg_frame *frame,
                                    const int16_t *const coefs[], uint8_t *ends,
                                    uint64_t *n_tokens);
/* Tokens and raw bits of unit (row, column), counted. `ac` and `small` have room; raw bits are left
 * in work->raw. False if a difference of DC is out of range. */
bool psti_pli_jpeg_encode_tokenise(const struct psti_je_kernels *kernels,
                                   const struct psti_jpeg_frame *frame,
                                   const int16_t *const coefs[], const uint8_t *ends,
                                   uint32_t unit_log2, uint32_t row, uint32_t column,
                                   struct psti_je_work *work, uint8_t *ac, uint16_t *small,
                                   struct psti_je_unit *unit, struct psti_je_counts *counts);

/* What of it exists per CPU level; all write the same. */
struct psti_je_kernels {
    /* psti_pli_jpeg_encode_find_ends() of n blocks. */
    bool (*find_ends)(const int16_t *block, size_t n, uint8_t *ends, uint64_t *n_tokens);
    /* What is left of the 64 of a square: of each the lowest n_bits, bit 0 of all that have one,
     * then bit 1 of those that have more, and so on. The lists are used up. */
    void (*put_left)(struct psti_je_bits *bits, uint16_t *left, uint8_t *n_bits);
    /* Coefficients 1..last of the n_k[k] blocks that have them, last > 0, to values + k * stride,
     * with zeros up to the next multiple of 64. What lies behind is nobody's. */
    void (*to_planes)(const int16_t *const *blocks, const uint16_t *n_k, uint32_t last,
                      int16_t *values, size_t stride);
    /* Tokens of plane k with their contexts; n_k[k] are rounded up to 32. */
    void (*find_codes)(const struct psti_je_work *work, const uint16_t *n_k, uint32_t k,
                       uint8_t *codes);
    /* Tokens and their g of n coefficients, a multiple of 64. */
    void (*find_tokens)(const int16_t *values, uint32_t n, uint8_t *tokens, uint8_t *g);
    /* The raw bits of a group of 64 (8.5), zeros where it has fewer. */
    void (*put_values)(struct psti_je_bits *bits, const int16_t *values, const uint8_t *tokens);
    /* 8 * n_eights AC tokens, the last first, token i into state i % 32; returns where words begin
     * then, of which seven before may have been written. NULL: there is none. */
    uint16_t *(*take_eights)(const uint8_t *tokens, uint32_t n_eights, const uint64_t *codes,
                             uint32_t *states, uint16_t *words);
};
extern const struct psti_je_kernels psti_je_kernels_c, psti_je_kernels_avx2;
/* Parts of the latter in files of their own. */
bool psti_pli_jpeg_encode_find_ends_avx2(const int16_t *block, size_t n, uint8_t *ends,
                                         uint64_t *n_tokens);
void psti_pli_jpeg_encode_to_planes_avx2(const int16_t *const *blocks, const uint16_t *n_k,
                                         uint32_t last, int16_t *values, size_t stride);
void psti_pli_jpeg_encode_find_codes_avx2(const struct psti_je_work *work, const uint16_t *n_k,
                                          uint32_t k, uint8_t *codes);
uint16_t *psti_pli_jpeg_encode_take_eights_avx2(const uint8_t *tokens, uint32_t n_eights,
                                                const uint64_t *codes, uint32_t *states,
                                                uint16_t *words);

/* pli_jpeg_encode_model.c: tables of the image's own where they pay, and the codes of all. Returns
 * the bytes of model block 2, which may be 0. */
size_t psti_pli_jpeg_encode_model(const struct psti_je_counts *counts,
                                  uint8_t block[PSTI_JPEG_TABLES_MAX_NBYTES],
                                  struct psti_je_codes *codes);

/* pli_jpeg_encode_write.c: a unit's bytes; 0 if `capacity` does not do. */
size_t psti_pli_jpeg_encode_write(const struct psti_je_unit *unit, const uint8_t *ac,
                                  const uint16_t *small, const uint8_t *raw,
                                  const struct psti_je_codes *codes,
                                  const struct psti_je_kernels *kernels,
                                  const struct psti_je_work *work, uint8_t *out, size_t capacity);

#endif
