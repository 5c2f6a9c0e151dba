/* format_sums.h - the byte layout of a file with checksums of an index's items
 * (docs/format-container.md): those that one process has collected from the items it read.
 *
 * Pure functions, like those of format_dataset.h. Parsers trust no byte. */
#ifndef PST_FORMAT_FORMAT_SUMS_H
#define PST_FORMAT_FORMAT_SUMS_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSTI_SUMS_MAJOR 1
#define PSTI_SUMS_SUFFIX ".sums-" /* such a file has the index's name, this suffix, and a token */

enum {
    PSTI_SUMS_HEADER_NBYTES = 64,
    PSTI_SUMS_END_NBYTES = 8,
    /* Number of samples in one chunk of a column. */
    PSTI_SUMS_CHUNK = 8192,
    PSTI_SUMS_BITS_MAX = PSTI_SUMS_CHUNK / 8,
    PSTI_SUMS_CHUNK_MAX = PSTI_SUMS_BITS_MAX + PSTI_SUMS_CHUNK * 8,
};

struct psti_sums {
    uint8_t key[16]; /* hash of the header of the index that the checksums belong to */
    uint64_t n_samples;
    uint64_t fields; /* bit f is set if field f has a column */
    uint64_t n;      /* number of checksums in all columns */
};

void psti_format_print_sums(const struct psti_sums *sums, uint8_t out[PSTI_SUMS_HEADER_NBYTES]);
/* Parses a header, without checking the rest of the file.
 *
 * May return PST_ERROR_CORRUPT, PST_ERROR_VERSION or PST_ERROR_CHECKSUM. */
enum pst_status psti_format_parse_sums(const uint8_t bytes[PSTI_SUMS_HEADER_NBYTES],
                                       struct psti_sums *sums, struct pst_error *err);
/* Computes the size of the whole file. Returns false if the size overflows. */
bool psti_format_sums_nbytes(const struct psti_sums *sums, uint64_t *nbytes);

/* Returns the bytes of a chunk's bit map for n samples. */
static inline size_t psti_format_sums_bits(size_t n) { return (n + 7) / 8; }
/* Prints a chunk of n <= PSTI_SUMS_CHUNK samples: a bit map of the samples that have a checksum
 * (not 0), then these checksums. Returns the chunk's bytes. */
size_t psti_format_print_sums_chunk(const uint64_t *sums, size_t n,
                                    uint8_t out[PSTI_SUMS_CHUNK_MAX]);
/* Counts the checksums in a chunk of n samples by its bit map. Returns SIZE_MAX if a bit behind the
 * last sample is set. */
size_t psti_format_sums_in_chunk(const uint8_t *bits, size_t n);
/* Parses a chunk after psti_format_sums_in_chunk has counted its bits. Writes sums[n]; samples
 * without a checksum get 0. Returns false if a stored checksum is 0. */
bool psti_format_parse_sums_chunk(const uint8_t *bits, const uint8_t *stored, size_t n,
                                  uint64_t *sums);

#endif
