/* containers_parquet_runs.h - the two ways in which Parquet packs small whole numbers: runs of
 * levels and of places in a dictionary, and differences (DELTA_BINARY_PACKED).
 *
 * Both read from bytes in memory that outlive them, and trust none. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_RUNS_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runs of one number, and groups of 8 numbers whose bits lie behind each other. */
struct psti_parquet_runs {
    const uint8_t *at, *end;
    uint32_t width;        /* bits of a number, at most 32 */
    uint64_t n_left;       /* numbers of this run */
    uint32_t number;       /* of a run of one number */
    bool is_packed;        /* this run is of groups */
    const uint8_t *packed; /* the groups */
    uint64_t i_packed;     /* the next number of them */
};

/* width: at most 32. */
void psti_containers_runs_begin(struct psti_parquet_runs *runs, const uint8_t *bytes, size_t nbytes,
                                uint32_t width);
/* False: the bytes end, or are none of such numbers. */
bool psti_containers_runs_next(struct psti_parquet_runs *runs, uint32_t *number);

/* Blocks of differences between numbers. */
struct psti_parquet_deltas {
    const uint8_t *at, *end;
    uint64_t n_left;       /* numbers that follow */
    bool is_first;         /* none was given yet */
    uint64_t number;       /* the last one; its bits */
    uint64_t least;        /* difference of the block */
    uint32_t n_minis;      /* mini blocks of a block */
    uint32_t mini_n;       /* differences of a mini block */
    const uint8_t *widths; /* of the mini blocks of this block */
    uint32_t i_mini;       /* the next one */
    const uint8_t *packed; /* of this mini block */
    uint32_t width, n_packed, i_packed;
};

/* False: the bytes do not begin such numbers. deltas->n_left is how many there are. */
bool psti_containers_deltas_begin(struct psti_parquet_deltas *deltas, const uint8_t *bytes,
                                  size_t nbytes);
/* Gives the next number modulo 2^64. deltas->at lies behind all bytes of the numbers once the last
 * one was given. False: as psti_containers_runs_next. */
bool psti_containers_deltas_next(struct psti_parquet_deltas *deltas, int64_t *number);

#endif
