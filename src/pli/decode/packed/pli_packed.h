/* pli_packed.h - declarations that the files of the packed mode share: a parsed unit, the scratch
 * in which it is decoded, and the kernels (docs/format-pli.md, section 4). */
#ifndef PST_PLI_PACKED_H
#define PST_PLI_PACKED_H

#include "pli/decode/pli_decode_int.h"
#include "pli/format/pli_packed_format.h"

#include "base/bits.h"

enum { PSTI_PACKED_ROWS = 4 * PSTI_PACKED_EDGE }; /* maximum number of rows of all planes
                                                   * together */

struct psti_packed_plane {
    bool is_constant;
    uint8_t first_width;
    uint8_t predictor[4]; /* numbers of the predictors, one for each 16 rows */
    int8_t tap[2];        /* weights of the residuals of planes 0 and 1 in the prediction */
    uint16_t start;       /* the start sample, or the value of a constant plane */
};

/* The runs of bits that hold the widths of groups (4.3). Run r is bits begin[r] .. begin[r + 1] - 1
 * of `strings`. Run 0 holds the bits of size 1 (M1), run 1 the signs (S), and runs 2.. the bits of
 * size 2.. (M2..). The last run has no ones. */
enum { PSTI_PACKED_MAX_RUNS = 2 + 16 };
struct psti_packed_runs {
    uint32_t n, begin[PSTI_PACKED_MAX_RUNS + 1];
};

struct psti_packed {
    const struct psti_pli_unit *unit; /* the unit as the caller gave it */
    uint32_t height, row_groups, n_planes;
    uint8_t bits;
    struct psti_packed_plane planes[4];
    uint32_t n_coded;       /* number of planes that are not constant */
    const uint8_t *strings; /* the runs of bits, and the data after them */
    size_t strings_nbytes;  /* bytes of runs and data together */
    struct psti_packed_runs runs;
    const uint8_t *data;
    size_t data_nbytes;
};

/* The layout of the caller's scratch. Rows of residuals and of samples are 64 samples apart. Row y
 * of plane p has number 64 p + y. A kernel uses only the members that it needs. */
struct psti_packed_work {
    _Alignas(64) uint8_t widths[PSTI_PACKED_ROWS][PSTI_PACKED_ROW_GROUPS];
    _Alignas(64) uint8_t within[PSTI_PACKED_ROWS][PSTI_PACKED_ROW_GROUPS]; /* offset of the group in
                                                                            * its row */
    _Alignas(64) uint16_t tables[PSTI_PACKED_ROWS][PSTI_PACKED_ROW_GROUPS / 2];
    _Alignas(64) uint64_t offsets[PSTI_PACKED_ROWS]; /* offset of each row in the data */
    /* For kernels that expand a row's bytes: 8 bits for each group, of which as many are 1 as the
     * group has bytes. */
    _Alignas(64) uint64_t places[PSTI_PACKED_ROWS];
    _Alignas(64) uint64_t nbytes[PSTI_PACKED_ROWS]; /* number of bytes of each row */
    _Alignas(64) uint8_t tail[512];                 /* a copy of the last bytes of the data */
    _Alignas(64) uint8_t residuals[4][PSTI_PACKED_EDGE * PSTI_PACKED_EDGE * 2];
    _Alignas(64) uint8_t planes[4][PSTI_PACKED_EDGE * PSTI_PACKED_EDGE * 2 + 128];
};
_Static_assert(sizeof(struct psti_packed_work) <= PSTI_PLI_WORK_NBYTES, "work is too small");

enum psti_packed_verdict { PSTI_PACKED_FINE, PSTI_PACKED_NO_END, PSTI_PACKED_TOO_WIDE };

struct psti_packed_kernels {
    /* Finds the runs of the widths and the data, and fills work->widths and work->offsets. Checks
     * that widths are 0..bits. Sets `*sum` to the sum of all widths. */
    enum psti_packed_verdict (*widths)(struct psti_packed *unit, struct psti_packed_work *work,
                                       uint64_t *sum);
    /* Makes the residuals and samples of coded plane `p`. Earlier planes are done, and the sum of
     * widths is data_nbytes. */
    void (*rebuild)(const struct psti_packed *unit, uint32_t p, struct psti_packed_work *work);
    /* Makes samples of all coded planes from the values that rebuild() has left. NULL: rebuild()
     * makes the samples. */
    void (*finish)(const struct psti_packed *unit, struct psti_packed_work *work);
    /* Does the same as finish() for three coded planes, if psti_pli_is_green_rgb() holds for the
     * part: writes the part's pixels and leaves no samples. May be NULL. */
    void (*finish_rgb)(const struct psti_packed *unit, struct psti_packed_work *work,
                       const struct psti_pli_part *part);
};

extern const struct psti_packed_kernels psti_packed_kernels_c, psti_packed_kernels_avx2;
/* These kernels exist for samples of 8 bits only. */
extern const struct psti_packed_kernels psti_packed_kernels_avx512, psti_packed_kernels_neon;

/* Decodes like psti_pli_packed_decode, with the given kernels. Tests compare the kernels of each
 * level with plain C. */
enum pst_status psti_pli_packed_decode_with(const struct psti_packed_kernels *kernels,
                                            const struct psti_pli_unit *unit, void *work_memory,
                                            const struct psti_pli_part *part,
                                            struct psti_pli_planes *planes, struct pst_error *err);

/* Returns up to 64 bits from bit `position` of n bytes on. Bits after the last byte are 0. */
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
    /* Counts the ones of eight bytes at a time if there are enough bytes after the range: such a
     * load may read up to 8 bytes after the byte of the last bit. */
    if ((end >> 3) + 9 <= unit->strings_nbytes) {
        /* The first bit and the last bit of the range, counted from the start of `bytes`. */
        uint32_t skip = begin & 7, last = skip + bits - 1;
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

/* Finds where the runs and the data begin. Returns false if the runs do not fit. It is inlined into
 * each CPU level's kernel, where counting ones is one instruction. */
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
    if (ones > 0) { /* there are signs only if M1 has ones */
        runs->begin[2] = n + ones;
        runs->n = 2;
        if (runs->begin[2] > total)
            return false;
    }
    /* Runs M2.. follow, up to the first run without ones. |d| <= bits, so M(bits + 1) is the last
     * possible run. */
    while (ones > 0) {
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

/* Returns whether a later plane has a tap that refers to plane `p`. */
static inline bool psti_pli_packed_is_tapped(const struct psti_packed *unit, uint32_t p)
{
    for (uint32_t later = p + 1; p < 2 && later < unit->n_planes; later++)
        if (unit->planes[later].tap[p])
            return true;
    return false;
}

/* The declarations from here on are for kernels that may read more bytes than they need. */

enum {
    PSTI_PACKED_RUNS_MARGIN = 24, /* bytes that may be read after the byte of a run's next bit */
    /* Bytes that may be read from the start of a row: the longest row plus a vector. */
    PSTI_PACKED_ROW_MARGIN = 128 + 16,
    PSTI_PACKED_TAIL = 256 /* number of bytes that are copied to work->tail */
};
_Static_assert(PSTI_PACKED_TAIL + PSTI_PACKED_ROW_MARGIN <=
                   sizeof(((struct psti_packed_work *)0)->tail),
               "tail is too short");

/* Finds the runs and returns the address to read them from, or NULL if they do not fit. Copies the
 * end of the data to work->tail. Kernels count the ones of the runs again. If another thread
 * changes the bytes meanwhile, a kernel may read past a run's end, by at most one bit per group.
 * That many bits are readable. */
static inline __attribute__((always_inline)) const uint8_t *psti_pli_packed_open_runs(
    struct psti_packed *unit, struct psti_packed_work *work)
{
    if (!psti_pli_packed_find_runs(unit))
        return NULL;
    size_t n = unit->data_nbytes;
    if (n >= PSTI_PACKED_TAIL)
        /* With a constant size, the copy compiles to vector moves instead of a call. */
        for (size_t at = 0; at < PSTI_PACKED_TAIL; at += 64)
            memcpy(work->tail + at, unit->data + n - PSTI_PACKED_TAIL + at, 64);
    else
        memcpy(work->tail, unit->data, n);
    /* M1 has a bit for each group. */
    const size_t margin = PSTI_PACKED_RUNS_MARGIN + unit->runs.begin[1] / 8;
    if (unit->data_nbytes >= margin)
        return unit->strings;
    n = unit->strings_nbytes - unit->data_nbytes; /* bytes of at most 18 runs of 2048 bits */
    memcpy(work->residuals, unit->strings, n);
    memset((uint8_t *)work->residuals + n, 0, margin);
    return (const uint8_t *)work->residuals;
}

/* Returns the address of the groups that begin at byte `at` of the data. From there
 * PSTI_PACKED_ROW_MARGIN bytes are readable. */
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
