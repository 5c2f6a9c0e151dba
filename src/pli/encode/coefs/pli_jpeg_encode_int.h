/* pli_jpeg_encode_int.h - inside the encoder of PLI's JPEG content (docs/format-pli.md, section 8):
 * declarations that finding tokens, choosing tables and writing units share. */
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
    /* A token of ends or DC is (table << 4 | token) in bits 0..9 and the lane in bits 10..14.
     * Tables 0..31 are of ends and tables 32..63 of DC, each [side][context]. A token of AC is
     * context << 3 | token. */
    PSTI_JE_N_SMALL = 1024,
    PSTI_JE_LANE_SHIFT = 10,
    PSTI_JE_DC_TABLES = 32,
    PSTI_JE_N_AC = 256,
    PSTI_JE_RECIPROCAL_SHIFT = 32 + PSTI_JPEG_PROB_BITS
};

/* The number of times that each token occurs in each context. */
struct psti_je_counts {
    uint32_t small[PSTI_JE_N_SMALL], ac[PSTI_JE_N_AC];
};

/* The values with which a state codes a token. */
struct psti_je_code {
    uint64_t reciprocal;  /* 2^44 / freq, rounded up: divides all states below freq * 2^20
                           * exactly */
    uint32_t last;        /* freq * 2^20 - 1: a larger state writes a word first */
    uint16_t rest, first; /* rest: 2^12 - freq; first: sum of the frequencies of earlier tokens */
};
struct psti_je_codes {
    struct psti_je_code small[PSTI_JE_N_SMALL], ac[PSTI_JE_N_AC];
    uint64_t quick[PSTI_JE_N_AC]; /* codes of AC tokens for vectors, in the form of pli_rans.h; 0 if
                                   * freq is 0 */
};

/* A bit stream that is being written, lowest bit of a byte first. */
struct psti_je_bits {
    uint8_t *at;
    uint64_t waiting;
    uint32_t n_waiting; /* number of bits in `waiting`, 0..7 */
};
/* Adds n bits, at most 56. Bits of `v` above them must be 0. Overwrites eight bytes from `at`
 * on. */
static inline void psti_pli_jpeg_encode_put(struct psti_je_bits *b, uint64_t v, uint32_t n)
{
    b->waiting |= v << b->n_waiting;
    b->n_waiting += n;
    psti_store_u64(b->at, b->waiting);
    b->at += b->n_waiting >> 3;
    b->waiting >>= b->n_waiting & ~7u;
    b->n_waiting &= 7;
}
/* Adds n bits, at most 64. Bits of `v` above them must be 0. Overwrites nine bytes from `at` on. */
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

/* A unit before its tables are known. Its tokens and raw bits lie in the buffers of the image, one
 * unit after the other. */
struct psti_je_unit {
    size_t ac, small; /* where the unit's tokens begin in the buffers `ac` (u8) and `small` (u16) */
    size_t raw;       /* where the unit's raw bits begin */
    uint32_t n_small; /* number of the unit's tokens for ends and DC */
    /* Bytes of all raw bits, and bytes of the raw bits of ends, which must not become payload. */
    uint32_t raw_nbytes, ends_nbytes;
    uint32_t last; /* the largest end of the unit's blocks */
    uint16_t n_k[65];
};

/* The memory of one thread for a unit. Each plane has `stride` entries. */
struct psti_je_work {
    uint32_t stride;
    struct psti_jpeg_square squares[PSTI_JPEG_SQUARES_MAX];
    uint32_t n_squares;
    uint8_t classes[PSTI_JPEG_SQUARES_MAX][PSTI_JE_SQUARE];
    uint8_t ends[PSTI_JPEG_SQUARES_MAX][PSTI_JE_SQUARE];
    uint8_t contexts[PSTI_JPEG_N_INDICES];
    uint8_t *sides;         /* side of each block, by list position: 0, or 255 for side 1
                             * (chroma) */
    const int16_t **blocks; /* blocks by list position; 16 blocks of zeros follow the last one */
    int16_t *values;        /* coefficients: plane k is at values + k * stride */
    uint8_t *tokens, *g;
    uint8_t *raw;        /* raw bits of one unit; large enough for any unit */
    uint16_t *words_end; /* end of the memory for words, which are written backwards */
};

struct psti_je_kernels;

/* Stores the end of each block in `ends`, in the order of components and blocks
 * (pli_jpeg_encode_tokens.c). Sets `*n_tokens` to the number of their AC tokens. Returns false if a
 * coefficient is out of range. */
bool psti_pli_jpeg_encode_find_ends(const struct psti_je_kernels *kernels,
                                    const struct psti_jpeg_frame *frame,
                                    const int16_t *const coefs[], uint8_t *ends,
                                    uint64_t *n_tokens);
/* Makes and counts the tokens and raw bits of unit (row, column). `ac` and `small` must have space.
 * The raw bits are left in work->raw. Returns false if a difference of DC is out of range. */
bool psti_pli_jpeg_encode_tokenise(const struct psti_je_kernels *kernels,
                                   const struct psti_jpeg_frame *frame,
                                   const int16_t *const coefs[], const uint8_t *ends,
                                   uint32_t unit_log2, uint32_t row, uint32_t column,
                                   struct psti_je_work *work, uint8_t *ac, uint16_t *small,
                                   struct psti_je_unit *unit, struct psti_je_counts *counts);

/* The functions of one CPU level. All levels write the same bytes. */
struct psti_je_kernels {
    /* Works like psti_pli_jpeg_encode_find_ends(), for n blocks. */
    bool (*find_ends)(const int16_t *block, size_t n, uint8_t *ends, uint64_t *n_tokens);
    /* Writes raw bits of the 64 blocks of a square: bit 0 of each entry of `left` that has at least
     * one bit, then bit 1 of each entry that has more, and so on. `n_bits` says how many of the
     * lowest bits of each entry are raw bits. Both lists are overwritten. */
    void (*put_left)(struct psti_je_bits *bits, uint16_t *left, uint8_t *n_bits);
    /* Copies coefficients 1..last of blocks, last > 0, to planes: coefficient k of the first n_k[k]
     * blocks goes to values + k * stride, followed by zeros up to the next multiple of 64. Entries
     * after these may be overwritten. */
    void (*to_planes)(const int16_t *const *blocks, const uint16_t *n_k, uint32_t last,
                      int16_t *values, size_t stride);
    /* Joins the tokens of plane k with their contexts. Stores codes for n_k[k] blocks, rounded up
     * to 32. */
    void (*find_codes)(const struct psti_je_work *work, const uint16_t *n_k, uint32_t k,
                       uint8_t *codes);
    /* Computes the token of each of n coefficients, and the value g that section 8.4 assigns to the
     * token. n is a multiple of 64. */
    void (*find_tokens)(const int16_t *values, uint32_t n, uint8_t *tokens, uint8_t *g);
    /* Writes the raw bits of a group of 64 list positions (section 8.5). If the group has fewer
     * blocks, the other values are 0. */
    void (*put_values)(struct psti_je_bits *bits, const int16_t *values, const uint8_t *tokens);
    /* Codes 8 * n_eights AC tokens, the last one first, token i into state i % 32. Words are
     * written towards lower addresses. Returns the address of the first word. Up to seven words
     * below that address may be overwritten. NULL if the level has no such function.
     */
    uint16_t *(*take_eights)(const uint8_t *tokens, uint32_t n_eights, const uint64_t *codes,
                             uint32_t *states, uint16_t *words);
};
extern const struct psti_je_kernels psti_je_kernels_c, psti_je_kernels_avx2;
/* Functions of psti_je_kernels_avx2 that are defined in other files. */
bool psti_pli_jpeg_encode_find_ends_avx2(const int16_t *block, size_t n, uint8_t *ends,
                                         uint64_t *n_tokens);
void psti_pli_jpeg_encode_to_planes_avx2(const int16_t *const *blocks, const uint16_t *n_k,
                                         uint32_t last, int16_t *values, size_t stride);
void psti_pli_jpeg_encode_find_codes_avx2(const struct psti_je_work *work, const uint16_t *n_k,
                                          uint32_t k, uint8_t *codes);
uint16_t *psti_pli_jpeg_encode_take_eights_avx2(const uint8_t *tokens, uint32_t n_eights,
                                                const uint64_t *codes, uint32_t *states,
                                                uint16_t *words);

/* Chooses the image's own tables if they take fewer bits, and computes the codes of all tables
 * (pli_jpeg_encode_model.c). Returns the length of model block 2, which may be 0. */
size_t psti_pli_jpeg_encode_model(const struct psti_je_counts *counts,
                                  uint8_t block[PSTI_JPEG_TABLES_MAX_NBYTES],
                                  struct psti_je_codes *codes);

/* Writes a unit's bytes (pli_jpeg_encode_write.c). Returns their number, or 0 if `capacity` is too
 * small. */
size_t psti_pli_jpeg_encode_write(const struct psti_je_unit *unit, const uint8_t *ac,
                                  const uint16_t *small, const uint8_t *raw,
                                  const struct psti_je_codes *codes,
                                  const struct psti_je_kernels *kernels,
                                  const struct psti_je_work *work, uint8_t *out, size_t capacity);

#endif
