/* format_blocks.c - computes the offsets of sections and blocks of index files, and checks offsets
 * that were read. */
#include "format/format_blocks.h"

#include "base/checked.h"
#include "base/fail.h"

#include <inttypes.h>

bool psti_format_place_section(uint64_t *end, uint64_t n, uint64_t size, uint64_t *offset)
{
    uint64_t nbytes, sum;
    if (!psti_mul_u64(n, size, &nbytes) || !psti_add_u64(nbytes, PSTI_INDEX_ALIGNMENT - 1, &nbytes))
        return false;
    nbytes &= ~(uint64_t)(PSTI_INDEX_ALIGNMENT - 1);
    *offset = *end;
    if (!psti_add_u64(*end, nbytes, &sum) || sum > INT64_MAX)
        return false;
    *end = sum;
    return true;
}

static uint64_t n_blocks_of(uint64_t payload)
{
    return payload / PSTI_INDEX_BLOCK_NBYTES + (payload % PSTI_INDEX_BLOCK_NBYTES != 0 ? 1 : 0);
}

bool psti_format_frame(uint64_t end, struct psti_index_frame *frame)
{
    frame->blocks_offset = end;
    frame->n_blocks = n_blocks_of(end - PSTI_INDEX_HEADER_NBYTES);
    frame->file_nbytes = end + 8 * frame->n_blocks;
    return frame->file_nbytes <= INT64_MAX;
}

bool psti_format_section_fits(const struct psti_index_frame *frame, uint64_t offset, uint64_t n,
                              uint64_t size)
{
    uint64_t nbytes;
    return offset % PSTI_INDEX_ALIGNMENT == 0 && offset >= PSTI_INDEX_HEADER_NBYTES &&
           psti_mul_u64(n, size, &nbytes) && psti_range_fits(offset, nbytes, frame->blocks_offset);
}

const char *psti_format_frame_problem(const struct psti_index_frame *frame)
{
    if (frame->blocks_offset < PSTI_INDEX_HEADER_NBYTES || frame->blocks_offset > INT64_MAX)
        return "the index's header puts the block table outside of the file";
    uint64_t payload = frame->blocks_offset - PSTI_INDEX_HEADER_NBYTES;
    uint64_t n_blocks = n_blocks_of(payload);
    if (payload % PSTI_INDEX_ALIGNMENT != 0 || n_blocks != frame->n_blocks ||
        frame->file_nbytes != frame->blocks_offset + 8 * n_blocks)
        return "the index's header contradicts itself on its length";
    return NULL;
}

enum pst_status psti_format_check_length(const struct psti_index_frame *frame, uint64_t file_nbytes,
                                         struct pst_error *err)
{
    if (file_nbytes < frame->file_nbytes)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, "format", NULL, (int64_t)file_nbytes,
                            "the index ends after %" PRIu64 " bytes, it was written with %" PRIu64,
                            file_nbytes, frame->file_nbytes);
    if (file_nbytes > frame->file_nbytes)
        return psti_fail_at(err, PST_ERROR_CORRUPT, "format", NULL, (int64_t)frame->file_nbytes,
                            "the index is longer than it was written");
    return PST_OK;
}
