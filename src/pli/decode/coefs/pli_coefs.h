/* pli_coefs.h - inside the PLI decoder: decodes the bytes of a unit of coefficients
 * (docs/format-pli.md, section 8) to planes of coefficients in the order of the list.
 *
 * There are kernels in plain C, which are the reference implementation, and kernels per CPU level.
 * The functions keep no state. Everything is in the caller's scratch. The bytes are hostile. */
#ifndef PST_PLI_COEFS_H
#define PST_PLI_COEFS_H

#include "pli/format/pli_jpeg_format.h"

/* A decoded unit. The block at list position i has number order[i] = 64 * square + position. */
struct psti_pli_coefs {
    uint32_t n_squares;
    struct psti_jpeg_square squares[PSTI_JPEG_SQUARES_MAX];
    uint32_t n;    /* number of blocks in the list */
    bool kept;     /* true if the list has only the wanted blocks */
    uint32_t last; /* the largest end of a block (number of its last nonzero coefficient), 0..63 */
    /* n_k[k] is the number of blocks with an end >= k. These are the first blocks of plane k.
     * n_k[0] = n, n_k[64] = 0. */
    uint16_t n_k[65];
    const uint16_t *order; /* n entries */
    /* The quantised coefficients k of the list's blocks are at planes + k * stride, aligned to 64.
     * Entries from n_k[k] up to the next multiple of 64 are 0; nothing past them may be read.
     * Planes above `last`, or above the caller's `k_last`, hold garbage. */
    const int16_t *planes;
    size_t stride;
};

/* Holds the tables of an image in the form that a CPU level needs. They are made once per decode,
 * in memory of psti_pli_coefs_tables_nbytes(), aligned to 64. `block`: the file's model block of
 * kind 2, which holds tables; NULL: the built-in tables. */
struct psti_pli_coefs_tables;
size_t psti_pli_coefs_tables_nbytes(void);
struct psti_coefs_level;
enum pst_status psti_pli_coefs_prepare(const struct psti_coefs_level *level, const uint8_t *block,
                                       size_t nbytes, struct psti_pli_coefs_tables *tables,
                                       struct pst_error *err);

/* Sets the squares and the number of blocks of unit (row, column). The decoder sets the rest of
 * *out. */
void psti_pli_coefs_open(const struct psti_jpeg_frame *frame, uint32_t unit_log2, uint32_t row,
                         uint32_t column, struct psti_pli_coefs *out);

/* A unit that was opened is decoded by three calls. `work` is of psti_pli_coefs_work_nbytes(),
 * aligned to 64, and holds the unit between the calls; `out` points into it and must not move.
 *
 * psti_pli_coefs_begin() decodes what precedes the AC tokens. `bytes` begin after the mode byte and
 * must stay readable. The caller does not need planes above `k_last` (63: it needs all), so parts
 * of the unit that only belong to such planes need not be decoded or checked. Offsets in errors are
 * relative to `bytes`. */
size_t psti_pli_coefs_work_nbytes(uint32_t unit_log2, uint32_t n_components);
enum pst_status psti_pli_coefs_begin(const struct psti_pli_coefs_tables *tables,
                                     const uint8_t *bytes, size_t nbytes, uint32_t k_last,
                                     void *work, struct psti_pli_coefs *out, struct pst_error *err);
/* Decodes the AC tokens of one unit, or of two units of the same image. Two take less time together
 * than one after the other. Faults are found by the next call. */
void psti_pli_coefs_read(void *const works[], uint32_t n_units);
/* Decodes the rest. `wanted` has a bit for each position of each square (NULL: all are wanted). A
 * level may leave out the other blocks, and then sets out->kept. */
enum pst_status psti_pli_coefs_finish(void *work, const uint64_t *wanted, struct pst_error *err);

#endif
