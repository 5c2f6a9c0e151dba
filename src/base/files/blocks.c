/* blocks.c - writes a payload in blocks, each with a checksum. A block is filled, then hashed, then
 * handed to the output. */
#include "base/files/blocks.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

enum pst_status psti_blocks_open(struct psti_block_output *out, struct psti_output *file,
                                 size_t header_nbytes, size_t block_nbytes, uint64_t n_blocks,
                                 struct pst_error *err)
{
    *out = (struct psti_block_output){.file = file,
                                      .block_nbytes = block_nbytes,
                                      .n_blocks = n_blocks,
                                      .position = header_nbytes};
    out->block = psti_calloc(1, block_nbytes > header_nbytes ? block_nbytes : header_nbytes);
    out->sums = psti_alloc_array((size_t)n_blocks + 1, sizeof *out->sums);
    if (out->block == NULL || out->sums == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, file->room, "no memory to write the index");
    return psti_output_append(file, out->block, header_nbytes, err);
}

static enum pst_status end_block(struct psti_block_output *out, struct pst_error *err)
{
    if (out->n == 0)
        return PST_OK;
    if (out->i_block == out->n_blocks)
        return psti_fail(err, PST_ERROR_INTERNAL, out->file->room,
                         "the index grew beyond its layout");
    out->sums[out->i_block++] = psti_hash64(out->block, out->n);
    enum pst_status status = psti_output_append(out->file, out->block, out->n, err);
    out->n = 0;
    return status;
}

enum pst_status psti_blocks_put(struct psti_block_output *out, const void *bytes, size_t nbytes,
                                struct pst_error *err)
{
    const uint8_t *from = bytes;
    out->position += nbytes;
    if (out->hash != NULL)
        psti_hash_pair_update(out->hash, bytes, nbytes);
    while (nbytes > 0) {
        size_t room = out->block_nbytes - out->n;
        size_t n = nbytes < room ? nbytes : room;
        memcpy(out->block + out->n, from, n);
        out->n += n;
        from += n;
        nbytes -= n;
        if (out->n == out->block_nbytes) {
            enum pst_status status = end_block(out, err);
            if (status != PST_OK)
                return status;
        }
    }
    return PST_OK;
}

enum pst_status psti_blocks_pad_to(struct psti_block_output *out, uint64_t offset,
                                   struct pst_error *err)
{
    static const uint8_t zeros[64] = {0};
    if (out->position > offset || offset - out->position > sizeof zeros)
        return psti_fail(err, PST_ERROR_INTERNAL, out->file->room,
                         "the index does not follow its layout");
    return psti_blocks_put(out, zeros, (size_t)(offset - out->position), err);
}

enum pst_status psti_blocks_end(struct psti_block_output *out, uint64_t *checksum,
                                struct pst_error *err)
{
    enum pst_status status = end_block(out, err);
    if (status == PST_OK && out->i_block != out->n_blocks)
        status =
            psti_fail(err, PST_ERROR_INTERNAL, out->file->room, "the index has too few blocks");
    size_t nbytes = (size_t)(8 * out->n_blocks);
    if (status == PST_OK)
        status = psti_output_append(out->file, out->sums, nbytes, err);
    if (status == PST_OK)
        status = psti_output_flush(out->file, err);
    if (status == PST_OK)
        *checksum = psti_hash64(out->sums, nbytes);
    return status;
}

void psti_blocks_close(struct psti_block_output *out)
{
    psti_free(out->sums);
    psti_free(out->block);
    out->sums = NULL;
    out->block = NULL;
}
