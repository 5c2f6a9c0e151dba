/* containers_parquet_runs.h - decoders of Parquet's two packings of small integers: runs (RLE and
 * bit packing) for levels and dictionary indices, and differences (DELTA_BINARY_PACKED).
 *
 * Both read untrusted bytes in memory, which must outlive the decoder. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_RUNS_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decoder of runs: repetitions of one number, and groups of 8 bit-packed numbers. */
struct psti_parquet_runs {
    const uint8_t *at, *end;
    uint32_t width;        /* bits of each number, at most 32 */
    uint64_t n_left;       /* numbers left in the current run */
    uint32_t number;       /* the number that the run repeats */
    bool is_packed;        /* the current run consists of bit-packed groups */
    const uint8_t *packed; /* the groups */
    uint64_t i_packed;     /* index of the next number in the packed groups */
};

/* Begins to decode runs. width: at most 32. */
void psti_containers_runs_begin(struct psti_parquet_runs *runs, const uint8_t *bytes, size_t nbytes,
                                uint32_t width);
/* Returns the next number. False: the bytes end, or are not valid runs. */
bool psti_containers_runs_next(struct psti_parquet_runs *runs, uint32_t *number);

/* Decoder of blocks of differences between numbers. */
struct psti_parquet_deltas {
    const uint8_t *at, *end;
    uint64_t n_left;       /* numbers still to come */
    bool is_first;         /* the next number is the first */
    uint64_t number;       /* bits of the last number */
    uint64_t least;        /* smallest difference of the block, which is added to each */
    uint32_t n_minis;      /* mini blocks in each block */
    uint32_t mini_n;       /* differences in each mini block */
    const uint8_t *widths; /* bit width of each mini block of the current block */
    uint32_t i_mini;       /* index of the next mini block */
    const uint8_t *packed; /* packed differences of the current mini block */
    uint32_t width, n_packed, i_packed;
};

/* Begins to decode differences; deltas->n_left is set to the count of numbers. False: the bytes are
 * no such encoding. */
bool psti_containers_deltas_begin(struct psti_parquet_deltas *deltas, const uint8_t *bytes,
                                  size_t nbytes);
/* Returns the next number modulo 2^64. After the last one, deltas->at points behind all bytes of
 * the encoding. False: the bytes end, or are not valid. */
bool psti_containers_deltas_next(struct psti_parquet_deltas *deltas, int64_t *number);

#endif
