/* blocks.h - writes a file whose payload has a checksum for each block, behind a header.
 *
 * The header is written last, because it makes the file valid. One thread. */
#ifndef PST_BASE_BLOCKS_H
#define PST_BASE_BLOCKS_H

#include "base/files/output.h"

struct psti_hash_pair;

struct psti_block_output {
    struct psti_output *file; /* the file, which belongs to the caller */
    uint8_t *block;           /* the block that is being filled */
    size_t n, block_nbytes;
    uint64_t position;           /* position of the next byte in the file */
    struct psti_hash_pair *hash; /* is updated with the bytes that are put; may be NULL */
    uint64_t *sums;              /* XXH3 checksum of each block */
    uint64_t i_block, n_blocks;
};

/* Begins a payload of n_blocks after a header of `header_nbytes`, in an open file that is empty.
 * Zeros are written in the place of the header, which the caller writes over them in the end. */
enum pst_status psti_blocks_open(struct psti_block_output *out, struct psti_output *file,
                                 size_t header_nbytes, size_t block_nbytes, uint64_t n_blocks,
                                 struct pst_error *err);
enum pst_status psti_blocks_put(struct psti_block_output *out, const void *bytes, size_t nbytes,
                                struct pst_error *err);
/* Writes zeros up to `offset`, which must be at most 64 bytes ahead. */
enum pst_status psti_blocks_pad_to(struct psti_block_output *out, uint64_t offset,
                                   struct pst_error *err);
/* Ends the last block and writes the table of checksums. Sets *checksum to the XXH3 of the
 * table. */
enum pst_status psti_blocks_end(struct psti_block_output *out, uint64_t *checksum,
                                struct pst_error *err);
/* Frees the tables. The structure may be all zero. */
void psti_blocks_close(struct psti_block_output *out);

#endif
