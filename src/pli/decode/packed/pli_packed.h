/* pli_packed.h - inside the packed mode: a unit as parsed, where it is decoded, and what its
 * kernels share. */
#ifndef PST_PLI_PACKED_H
#define PST_PLI_PACKED_H

#include "pli/decode/pli_decode_int.h"
#include "pli/format/pli_packed_format.h"

#include "base/bits.h"

enum { PSTI_PACKED_ROWS = 4 * PSTI_PACKED_EDGE }; /* of all planes, at most */

struct psti_packed_plane {
    bool is_constant;
    uint8_t first_width;
    uint8_t predictor[4]; /* of 16 rows each */
    int8_t tap[2];        /* of the residuals of planes 0 and 1 */
    uint16_t start;       /* start sample, or the constant */
};

/* The runs of bits that the widths are stored in: run r is bits begin[r] .. begin[r + 1] - 1 of
 * `strings`. Run 0 is M1, 1 is S, 2.. are M2..; the last one has no ones. */
enum { PSTI_PACKED_MAX_RUNS = 2 + 16 };
struct psti_packed_runs {
    uint32_t n, begin[PSTI_PACKED_MAX_RUNS + 1];
};

struct psti_packed {
    const struct psti_pli_unit *unit; /* as given */
    uint32_t height, row_groups, n_planes;
    uint8_t bits;
    struct psti_packed_plane planes[4];
    uint32_t n_coded;       /* planes that are not constant */
    const uint8_t *strings; /* runs of bits, then the data */
    size_t strings_nbytes;  /* of both */
    struct psti_packed_runs runs;
    const uint8_t *data;
    size_t data_nbytes;
};

/* In the caller's work. Rows of residuals and of samples are 64 samples apart. Row y of plane p has
 * number 64 p + y; a kernel uses what it needs. */
struct psti_packed_work {
    _Alignas(64) uint8_t widths[PSTI_PACKED_ROWS][PSTI_PACKED_ROW_GROUPS];
    _Alignas(
        64) uint8_t within[PSTI_PACKED_ROWS][PSTI_PACKED_ROW_GROUPS]; /* groups, in their row */
    _Alignas(64) uint16_t tables[PSTI_PACKED_ROWS][PSTI_PACKED_ROW_GROUPS / 2];
    _Alignas(64) uint64_t offsets[PSTI_PACKED_ROWS]; /* of rows, in the data */
    _Alignas(64) uint64_t places[PSTI_PACKED_ROWS];  /* where rows' bytes go, 8 bits a group */
    _Alignas(64) uint64_t nbytes[PSTI_PACKED_ROWS];  /* of rows */
    _Alignas(64) uint8_t tail[512];                  /* a copy of the data's end */
    _Alignas(64) uint8_t residuals[4][PSTI_PACKED_EDGE * PSTI_PACKED_EDGE * 2];
    _Alignas(64) uint8_t planes[4][PSTI_PACKED_EDGE * PSTI_PACKED_EDGE * 2 + 128];
};
_Static_assert(sizeof(struct psti_packed_work) <= PSTI_PLI_WORK_NBYTES, "work is too small");

enum psti_packed_verdict { PSTI_PACKED_FINE, PSTI_PACKED_NO_END, PSTI_PACKED_TOO_WIDE };

struct psti_packed_kernels {
    /* Finds the widths' runs and the data, and fills work->widths and work->offsets. Widths are
     * 0..bits; `*sum` is the sum of all. */
    enum psti_packed_verdict (*widths)(struct psti_packed *unit, struct psti_packed_work *work,
                                       uint64_t *sum);
    /* Residuals and samples of coded plane `p`; earlier planes are done; the sum of widths is
     * data_nbytes. */
    void (*rebuild)(const struct psti_packed *unit, uint32_t p, struct psti_packed_work *work);
    /* NULL, or what makes samples of all coded planes of what rebuild() has left there. */
    void (*finish)(const struct psti_packed *unit, struct psti_packed_work *work);
    /* NULL, or the same for three coded planes of which psti_pli_is_green_rgb() part of the pixels
     * is wanted: writes them, and leaves no samples. */
    void (*finish_rgb)(const struct psti_packed *unit, struct psti_packed_work *work,
                       const struct psti_pli_part *part);
};

extern const struct psti_packed_kernels psti_packed_kernels_c, psti_packed_kernels_avx2;
/* 8 bits only. */
extern const struct psti_packed_kernels psti_packed_kernels_avx512, psti_packed_kernels_neon;

/* psti_pli_packed_decode with the kernels given: tests hold each to plain C. */
enum pst_status psti_pli_packed_decode_with(const struct psti_packed_kernels *kernels,
                                            const struct psti_pli_unit *unit, void *work_memory,
                                            const struct psti_pli_part *part,
                                            struct psti_pli_planes *planes, struct pst_error *err);

/* The 64 bits from bit `position` of n bytes on, as far as there are any. */
static inline uint64_t psti_pli_packed_bits_at(const uint8_t *bytes, size_t nbytes,
                                               uint32_t position)
{
    size_t at = position >> 3;
    uint64_t v = 0;
    if (at + 8 <= nbytes)
        v = psti_load_u64(bytes + at);
    else if (at < nbytes)
        memcpy(&v, bytes + at, nbytes - at);
    return v >> (position & 7);
}

static inline __attribute__((always_inline)) uint32_t psti_pli_packed_count_ones(
    const struct psti_packed *unit, uint32_t begin, uint32_t end)
{
    const uint8_t *bytes = unit->strings + (begin >> 3);
    uint32_t n = 0, bits = end - begin;
    if (begin >= end)
        return 0;
    /* Whole words, where they are there. */
    if ((end >> 3) + 9 <= unit->strings_nbytes) {
        uint32_t skip = begin & 7, last = skip + bits - 1; /* bits of `bytes` */
        uint64_t v = psti_load_u64(bytes) >> skip << skip;
        for (; last >= 64; last -= 64, bytes += 8, v = psti_load_u64(bytes))
            n += (uint32_t)__builtin_popcountll(v);
        return n + (uint32_t)__builtin_popcountll(v << (63 - last));
    }
    while (begin < end) {
        uint32_t step = end - begin < 56 ? end - begin : 56;
        uint64_t v = psti_pli_packed_bits_at(unit->strings, unit->strings_nbytes, begin);
        n += (uint32_t)__builtin_popcountll(v & ((UINT64_C(1) << step) - 1));
        begin += step;
    }
    return n;
}

/* Finds where runs and data begin; false if the runs do not fit. Inlined into each CPU level's
 * kernel, where counting ones is an instruction. */
static inline __attribute__((always_inline)) bool psti_pli_packed_find_runs(
    struct psti_packed *unit)
{
    struct psti_packed_runs *runs = &unit->runs;
    uint64_t total = (uint64_t)unit->strings_nbytes * 8;
    uint32_t n = unit->n_coded * unit->height * unit->row_groups;
    *runs = (struct psti_packed_runs){.n = 1, .begin = {0, n}};
    if (n > total)
        return false;
    uint32_t ones = psti_pli_packed_count_ones(unit, 0, n);
    if (ones > 0) { /* S, as long as M1 has ones */
        runs->begin[2] = n + ones;
        runs->n = 2;
        if (runs->begin[2] > total)
            return false;
    }
    while (ones > 0) { /* M2.., the last without ones; |d| <= bits, so there are M2..M(bits + 1) */
        if (runs->n > unit->bits + 1u)
            return false;
        uint32_t begin = runs->begin[runs->n], end = begin + ones;
        if (end > total)
            return false;
        runs->begin[++runs->n] = end;
        ones = psti_pli_packed_count_ones(unit, begin, end);
    }
    size_t nbytes = (runs->begin[runs->n] + 7) / 8;
    unit->data = unit->strings + nbytes;
    unit->data_nbytes = unit->strings_nbytes - nbytes;
    return true;
}

/* Whether a later plane has a tap of plane `p`. */
static inline bool psti_pli_packed_is_tapped(const struct psti_packed *unit, uint32_t p)
{
    for (uint32_t later = p + 1; p < 2 && later < unit->n_planes; later++)
        if (unit->planes[later].tap[p])
            return true;
    return false;
}

/* What follows is for kernels that read more bytes than they need. */

enum {
    PSTI_PACKED_RUNS_MARGIN = 24,      /* read behind a run's cursor */
    PSTI_PACKED_ROW_MARGIN = 128 + 16, /* from a row's start: the longest row, and a vector */
    PSTI_PACKED_TAIL = 256             /* bytes copied to work->tail */
};
_Static_assert(PSTI_PACKED_TAIL + PSTI_PACKED_ROW_MARGIN <=
                   sizeof(((struct psti_packed_work *)0)->tail),
               "tail is too short");

/* 64 bits from bit `at` on; reads 9 bytes. */
static inline __attribute__((always_inline)) uint64_t psti_pli_packed_bits64(const uint8_t *bytes,
                                                                             uint32_t at)
{
    uint64_t low = psti_load_u64(bytes + (at >> 3)), high = bytes[(at >> 3) + 8];
    return low >> (at & 7) | high << 1 << (63 - (at & 7));
}

/* Finds the runs and returns where to read them; NULL if they do not fit. Copies the data's end to
 * work->tail. Kernels count the ones of the runs again. If somebody writes to the bytes meanwhile,
 * a cursor may pass its run's end, by a bit per group at most: so much more is readable. */
static inline __attribute__((always_inline)) const uint8_t *psti_pli_packed_open_runs(
    struct psti_packed *unit, struct psti_packed_work *work)
{
    if (!psti_pli_packed_find_runs(unit))
        return NULL;
    size_t n = unit->data_nbytes;
    if (n >= PSTI_PACKED_TAIL)
        for (size_t at = 0; at < PSTI_PACKED_TAIL; at += 64) /* as vectors, without a call */
            memcpy(work->tail + at, unit->data + n - PSTI_PACKED_TAIL + at, 64);
    else
        memcpy(work->tail, unit->data, n);
    const size_t margin = PSTI_PACKED_RUNS_MARGIN + unit->runs.begin[1] / 8; /* M1: all groups */
    if (unit->data_nbytes >= margin)
        return unit->strings;
    n = unit->strings_nbytes - unit->data_nbytes; /* at most 18 runs of 2048 bits */
    memcpy(work->residuals, unit->strings, n);
    memset((uint8_t *)work->residuals + n, 0, margin);
    return (const uint8_t *)work->residuals;
}

/* Where groups that begin at byte `at` are, with ROW_MARGIN bytes readable. */
static inline __attribute__((always_inline)) const uint8_t *psti_pli_packed_data_at(
    const struct psti_packed *unit, const struct psti_packed_work *work, size_t at)
{
    size_t n = unit->data_nbytes;
    if (__builtin_expect(at + PSTI_PACKED_ROW_MARGIN <= n, 1))
        return unit->data + at;
    return work->tail + (at - (n < PSTI_PACKED_TAIL ? 0 : n - PSTI_PACKED_TAIL));
}
static inline __attribute__((always_inline)) const uint8_t *psti_pli_packed_row_data(
    const struct psti_packed *unit, const struct psti_packed_work *work, size_t row)
{
    return psti_pli_packed_data_at(unit, work, work->offsets[row]);
}

#endif
