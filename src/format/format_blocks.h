/* format_blocks.h - the layout that all index files share: a header, a payload made of sections,
 * and a table of checksums of the payload's blocks.
 *
 * Sections begin at multiples of PSTI_INDEX_ALIGNMENT. Pure arithmetic with overflow checks. */
#ifndef PST_FORMAT_FORMAT_BLOCKS_H
#define PST_FORMAT_FORMAT_BLOCKS_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stdint.h>

enum {
    PSTI_INDEX_HEADER_NBYTES = 4096,
    PSTI_INDEX_BLOCK_NBYTES = 65536,
    PSTI_INDEX_ALIGNMENT = 64,
};

/* Sizes and offsets of an index file's payload, checksums and end. */
struct psti_index_frame {
    uint64_t blocks_offset; /* end of the payload; the checksums of its blocks, u64 [n_blocks],
                             * begin there */
    uint64_t n_blocks;
    uint64_t blocks_checksum; /* XXH3 of the table of checksums */
    uint64_t file_nbytes;
};

/* Appends a section of n * size bytes: sets *offset to its aligned offset, and *end behind it.
 * Returns false if the new end does not fit in 63 bits. */
bool psti_format_place_section(uint64_t *end, uint64_t n, uint64_t size, uint64_t *offset);
/* Computes the frame of a payload that ends at `end`, except blocks_checksum. Returns false if the
 * file would not fit in 63 bits. */
bool psti_format_frame(uint64_t end, struct psti_index_frame *frame);

/* Returns whether n * size bytes at `offset` lie within the payload and are aligned. */
bool psti_format_section_fits(const struct psti_index_frame *frame, uint64_t offset, uint64_t n,
                              uint64_t size);
/* Returns what is wrong with a frame that was read, or NULL. */
const char *psti_format_frame_problem(const struct psti_index_frame *frame);
/* Compares the file length that the frame states with that of the file. */
enum pst_status psti_format_check_length(const struct psti_index_frame *frame, uint64_t file_nbytes,
                                         struct pst_error *err);

#endif
