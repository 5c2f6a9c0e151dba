/* format_sums.h - the byte layout of a part of the sums of an index, as docs/format-container.md
 * states it: the sums that one process noted of the items that it read.
 *
 * Pure functions, as those of format_dataset.h. Nothing in bytes that were read is trusted. */
#ifndef PST_FORMAT_FORMAT_SUMS_H
#define PST_FORMAT_FORMAT_SUMS_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSTI_SUMS_MAJOR 1
#define PSTI_SUMS_SUFFIX ".sums-" /* suffix of the index's name; a token follows it */

enum {
    PSTI_SUMS_HEADER_NBYTES = 64,
    PSTI_SUMS_END_NBYTES = 8,
    /* The number of samples of a column that one chunk holds. */
    PSTI_SUMS_CHUNK = 8192,
    PSTI_SUMS_BITS_MAX = PSTI_SUMS_CHUNK / 8,
    PSTI_SUMS_CHUNK_MAX = PSTI_SUMS_BITS_MAX + PSTI_SUMS_CHUNK * 8,
};

struct psti_sums {
    uint8_t key[16]; /* hash of the header of the index that the sums belong to */
    uint64_t n_samples;
    uint64_t fields; /* bit f is set if field f has a column */
    uint64_t n;      /* number of sums in all columns */
};

void psti_format_print_sums(const struct psti_sums *sums, uint8_t out[PSTI_SUMS_HEADER_NBYTES]);
/* Parses a header, and checks nothing else.
 *
 * May return PST_ERROR_CORRUPT, PST_ERROR_VERSION or PST_ERROR_CHECKSUM. */
enum pst_status psti_format_parse_sums(const uint8_t bytes[PSTI_SUMS_HEADER_NBYTES],
                                       struct psti_sums *sums, struct pst_error *err);
/* Computes the size of the whole file. Returns false if a file cannot have that size. */
bool psti_format_sums_nbytes(const struct psti_sums *sums, uint64_t *nbytes);

/* Returns the bytes of the bits of a chunk of n samples. */
static inline size_t psti_format_sums_bits(size_t n) { return (n + 7) / 8; }
/* Prints a chunk of n <= PSTI_SUMS_CHUNK samples: a bit for each sample, and the sums of those that
 * have one (are not 0). Returns the chunk's bytes. */
size_t psti_format_print_sums_chunk(const uint64_t *sums, size_t n,
                                    uint8_t out[PSTI_SUMS_CHUNK_MAX]);
/* Returns the number of sums in a chunk of n samples, by its bits, or SIZE_MAX if a bit after the
 * last sample is set. */
size_t psti_format_sums_in_chunk(const uint8_t *bits, size_t n);
/* Parses a chunk whose bits psti_format_sums_in_chunk has counted, to sums[n]; samples without a
 * sum get 0. Returns false if a stored sum is 0. */
bool psti_format_parse_sums_chunk(const uint8_t *bits, const uint8_t *stored, size_t n,
                                  uint64_t *sums);

#endif
