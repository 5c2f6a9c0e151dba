/* pli_packed.h - inside the packed mode: a unit as parsed, where it is decoded, and what its
 * kernels share. */
#ifndef PST_DECODE_PLI_PACKED_H
#define PST_DECODE_PLI_PACKED_H

#include "decode/pli_int.h"
#include "format/format_pli_packed.h"

#include "base/bits.h"

enum { PSTI_PACKED_ROWS = 4 * PSTI_PACKED_EDGE }; /* of all planes, at most */

struct psti_packed_plane {
    bool is_constant;
    uint8_t first_width;
    uint8_t predictor[4]; /* of 16 rows each */
    int8_t tap[2];        /* of the residuals of planes 0 and 1 */
    uint16_t start;       /* start sample, or the constant */
    uint32_t first_row;   /* of the plane, among the rows of all coded planes */
};

/* The runs of bits that the widths are stored in: run r is bits begin[r] .. begin[r + 1] - 1 of
 * `strings`. Run 0 is M1, 1 is S, 2.. are M2..; the last one has no ones. */
enum { PSTI_PACKED_MAX_RUNS = 2 + 16 };
struct psti_packed_runs {
    uint32_t n, begin[PSTI_PACKED_MAX_RUNS + 1];
};

struct psti_packed {
    uint32_t height, row_groups, n_planes;
    uint8_t bits;
    struct psti_packed_plane planes[4];
    uint32_t n_rows;        /* of the coded planes */
    const uint8_t *strings; /* runs of bits, then the data */
    size_t strings_nbytes;  /* of both */
    struct psti_packed_runs runs;
    const uint8_t *data;
    size_t data_nbytes;
};

/* In the caller's work. Rows of residuals and of samples are 64 samples apart. */
struct psti_packed_work {
    _Alignas(64) uint8_t widths[PSTI_PACKED_ROWS + 8][PSTI_PACKED_ROW_GROUPS];
    _Alignas(64) uint32_t offsets[PSTI_PACKED_ROWS + 8]; /* of rows, in the data */
    _Alignas(64) uint8_t tail[1024];                     /* a copy of the data's end */
    _Alignas(64) uint8_t residuals[4][PSTI_PACKED_EDGE * PSTI_PACKED_EDGE * 2];
    _Alignas(64) uint8_t planes[4][PSTI_PACKED_EDGE * PSTI_PACKED_EDGE * 2 + 128];
};
_Static_assert(sizeof(struct psti_packed_work) <= PSTI_PLI_WORK_NBYTES, "work is too small");

struct psti_packed_kernels {
    /* Fills work->widths (8 a row, 0 where there is no group) from the runs and work->offsets;
     * false if a width is not 0..bits. Sets `*sum` to the sum of all widths. */
    bool (*widths)(const struct psti_packed *unit, struct psti_packed_work *work, uint32_t *sum);
    /* Residuals and samples of coded plane `p`; earlier planes are done; the sum of widths is
     * data_nbytes. */
    void (*rebuild)(const struct psti_packed *unit, uint32_t p, struct psti_packed_work *work);
};

extern const struct psti_packed_kernels psti_packed_kernels_c;

/* The 64 bits from bit `position` of n bytes on, as far as there are any. */
static inline uint64_t psti_packed_bits_at(const uint8_t *bytes, size_t nbytes, uint32_t position)
{
    size_t at = position >> 3;
    uint64_t v = 0;
    if (at + 8 <= nbytes)
        v = psti_load_u64(bytes + at);
    else if (at < nbytes)
        memcpy(&v, bytes + at, nbytes - at);
    return v >> (position & 7);
}

#endif
