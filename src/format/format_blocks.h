/* format_blocks.h - the frame that index files share: a header, sections of a payload, and a table
 * of checksums of the payload's blocks.
 *
 * Sections begin at multiples of PSTI_INDEX_ALIGNMENT. Pure arithmetic, which cannot overflow. */
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

/* The end of an index file. */
struct psti_index_frame {
    uint64_t blocks_offset; /* end of the payload; the checksums, u64 [n_blocks], begin there */
    uint64_t n_blocks;
    uint64_t blocks_checksum; /* XXH3 of the table of checksums */
    uint64_t file_nbytes;
};

/* Places a section of n * size bytes at *end, aligned. Returns false if the new end does not fit in
 * 63 bits. */
bool psti_format_place_section(uint64_t *end, uint64_t n, uint64_t size, uint64_t *offset);
/* Computes the frame of a payload that ends at `end`, all but the checksum. Returns false if the
 * file would not fit in 63 bits. */
bool psti_format_frame(uint64_t end, struct psti_index_frame *frame);

/* Returns whether n * size bytes at `offset` lie in the payload and are aligned. */
bool psti_format_section_fits(const struct psti_index_frame *frame, uint64_t offset, uint64_t n,
                              uint64_t size);
/* Returns what is wrong with a frame that was read, or NULL. */
const char *psti_format_frame_problem(const struct psti_index_frame *frame);
/* Compares the length that the frame states with that of the file. */
enum pst_status psti_format_check_length(const struct psti_index_frame *frame, uint64_t file_nbytes,
                                         struct pst_error *err);

#endif
