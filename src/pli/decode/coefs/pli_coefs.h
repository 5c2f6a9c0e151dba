/* pli_coefs.h - inside the PLI decoder: a unit of coefficients (docs/format-pli.md, section 8),
 * bytes -> planes of coefficients in the order of the list. Kernels in plain C, the judge, and per
 * CPU level. No state; everything in the caller's scratch; the bytes are hostile. */
#ifndef PST_PLI_COEFS_H
#define PST_PLI_COEFS_H

#include "pli/format/pli_jpeg_format.h"

/* A unit, decoded. List position i is block order[i] = 64 * square + position. */
struct psti_pli_coefs {
    uint32_t n_squares;
    struct psti_jpeg_square squares[PSTI_JPEG_SQUARES_MAX];
    uint32_t n;       /* blocks in the list */
    bool kept;        /* the list has the wanted blocks and no others */
    uint32_t last;    /* the largest end, 0..63 */
    uint16_t n_k[65]; /* blocks with an end >= k: their part of plane k; n_k[0] = n, n_k[64] = 0 */
    const uint16_t *order; /* [n] */
    /* Plane k, quantised, at planes + k * stride, aligned to 64. Entries from n_k[k] up to the next
     * multiple of 64 are 0; what lies behind must not be read. Planes above `last` (or above the
     * last one asked for) are garbage. */
    const int16_t *planes;
    size_t stride;
};

/* The tables of an image in the form that a CPU level wants: made once per decode, in memory of
 * psti_pli_coefs_tables_nbytes(), aligned to 64. `block`: model block 2 or NULL. */
struct psti_pli_coefs_tables;
size_t psti_pli_coefs_tables_nbytes(void);
struct psti_coefs_level;
enum pst_status psti_pli_coefs_prepare(const struct psti_coefs_level *level, const uint8_t *block,
                                       size_t nbytes, struct psti_pli_coefs_tables *tables,
                                       struct pst_error *err);

/* The squares and the number of blocks of unit (row, column): the rest of *out is for the decoder.
 */
void psti_pli_coefs_open(const struct psti_jpeg_frame *frame, uint32_t unit_log2, uint32_t row,
                         uint32_t column, struct psti_pli_coefs *out);

/* Decodes a unit that was opened; `bytes` begin behind the mode byte. Planes above `k_last` (63:
 * all) are not wanted: what serves them alone need not be decoded or checked. `wanted` has a bit
 * for each position of each square (NULL: all): a level may leave the other blocks out, and sets
 * out->kept. `work`: of psti_pli_coefs_work_nbytes(), aligned to 64; `out` points into it. Offsets
 * in errors are relative to `bytes`. */
size_t psti_pli_coefs_work_nbytes(uint32_t unit_log2, uint32_t n_components);
enum pst_status psti_pli_coefs_decode(const struct psti_pli_coefs_tables *tables,
                                      const uint8_t *bytes, size_t nbytes, uint32_t k_last,
                                      const uint64_t *wanted, void *work,
                                      struct psti_pli_coefs *out, struct pst_error *err);

#endif
