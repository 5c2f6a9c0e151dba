/* blocks.h - writes a file that has a header, and a payload with a checksum for each block.
 *
 * The header is written last, because it makes the file valid. One thread. */
#ifndef PST_BASE_BLOCKS_H
#define PST_BASE_BLOCKS_H

#include "base/files/output.h"

struct psti_hash_pair;

struct psti_block_output {
    struct psti_output *file; /* the output file, owned by the caller */
    uint8_t *block;           /* the block that is being filled */
    size_t n, block_nbytes;
    uint64_t position;           /* offset in the file of the next byte */
    struct psti_hash_pair *hash; /* updated with all bytes that are put; may be NULL */
    uint64_t *sums;              /* XXH3-64 checksum of each block */
    uint64_t i_block, n_blocks;
};

/* Begins a payload of n_blocks after a header of `header_nbytes`, in an open and empty file. Writes
 * zeros in place of the header; the caller overwrites them at the end. */
enum pst_status psti_blocks_open(struct psti_block_output *out, struct psti_output *file,
                                 size_t header_nbytes, size_t block_nbytes, uint64_t n_blocks,
                                 struct pst_error *err);
enum pst_status psti_blocks_put(struct psti_block_output *out, const void *bytes, size_t nbytes,
                                struct pst_error *err);
/* Writes zeros up to offset `offset`, at most 64 bytes. */
enum pst_status psti_blocks_pad_to(struct psti_block_output *out, uint64_t offset,
                                   struct pst_error *err);
/* Ends the last block and writes the table of checksums. Sets *checksum to the XXH3-64 of this
 * table. */
enum pst_status psti_blocks_end(struct psti_block_output *out, uint64_t *checksum,
                                struct pst_error *err);
/* Frees the tables. The struct may be all zero. */
void psti_blocks_close(struct psti_block_output *out);

#endif
