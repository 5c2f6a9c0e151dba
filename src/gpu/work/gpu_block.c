/* gpu_block.c - the memory of a batch on its way to a GPU.
 *
 * Rows claim parts of it from any thread, under a lock that is held only briefly. A row then writes
 * only to its own part. Memory is freed only by psti_gpu_block_begin. The part that a row gets
 * depends on the order of claims; the GPU's result does not. */
#include "gpu/work/gpu_block.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <string.h>

/* Scratch is claimed for at least this many warps of psti_gpu_coefs, or for all its units if there
 * are fewer units. */
enum { COEFS_WARPS_LEAST = 32 };

static size_t n_all_rows(uint32_t n_fields, uint32_t n_rows) { return (size_t)n_fields * n_rows; }

size_t psti_gpu_block_fixed_nbytes(uint32_t n_fields, uint32_t n_rows)
{
    size_t n_counters = (size_t)n_fields * PSTI_GPU_COUNTERS;
    return psti_round_up((n_all_rows(n_fields, n_rows) + n_counters) * sizeof(uint32_t),
                         PSTI_GPU_ALIGN);
}

size_t psti_gpu_block_slack_nbytes(uint32_t n_fields)
{
    return n_fields * ((size_t)PSTI_GPU_LISTS_MAX * PSTI_GPU_ALIGN +
                       (size_t)PSTI_GPU_PASS_LISTS_MAX * PSTI_GPU_PASS_ALIGN);
}

static enum pst_status check_memory(const struct psti_gpu_memory *memory, size_t least,
                                    struct pst_error *err)
{
    if (((uintptr_t)memory->pinned | memory->upload | memory->scratch | memory->constants) %
            PSTI_GPU_ALIGN !=
        0)
        return psti_fail(err, PST_ERROR_ARGUMENT, PSTI_GPU_ROOM,
                         "memory of a block is not aligned to %d bytes", PSTI_GPU_ALIGN);
    if (memory->upload_nbytes < least)
        return psti_fail(err, PST_ERROR_LIMIT, PSTI_GPU_ROOM,
                         "a block of %zu bytes is too small for its lists of %zu",
                         memory->upload_nbytes, least);
    return PST_OK;
}

enum pst_status psti_gpu_block_open(const struct psti_gpu_field *const *fields, uint32_t n_fields,
                                    uint32_t n_rows_max, const struct psti_gpu_memory *memory,
                                    struct psti_gpu_block **out, struct pst_error *err)
{
    size_t fixed = psti_gpu_block_fixed_nbytes(n_fields, n_rows_max);
    *out = NULL;
    enum pst_status status =
        check_memory(memory, fixed + psti_gpu_block_slack_nbytes(n_fields), err);
    if (status != PST_OK)
        return status;
    struct psti_gpu_block *block = psti_calloc(1, sizeof *block);
    if (!block)
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_GPU_ROOM, "no memory for a block");
    pthread_mutex_init(&block->lock, NULL);
    block->n_fields = n_fields;
    block->n_rows_max = n_rows_max;
    block->memory = *memory;
    block->fixed_nbytes = fixed;
    block->temporary_end = memory->upload_nbytes & ~(size_t)(PSTI_GPU_ALIGN - 1);
    block->fields = psti_alloc_array(n_fields, sizeof *block->fields);
    block->rows = psti_calloc(n_all_rows(n_fields, n_rows_max), sizeof *block->rows);
    block->launches = psti_calloc(n_fields, PSTI_GPU_LAUNCHES_MAX * sizeof *block->launches);
    block->args = psti_calloc(n_fields, PSTI_GPU_LAUNCHES_MAX * sizeof *block->args);
    if (!block->fields || !block->rows || !block->launches || !block->args) {
        psti_gpu_block_close(&block);
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_GPU_ROOM, "no memory for a block");
    }
    memcpy(block->fields, fields, n_fields * sizeof *fields);
    psti_gpu_block_begin(block);
    *out = block;
    return PST_OK;
}

void psti_gpu_block_close(struct psti_gpu_block **block)
{
    if (!block || !*block)
        return;
    pthread_mutex_destroy(&(*block)->lock);
    psti_free((*block)->fields);
    psti_free((*block)->rows);
    psti_free((*block)->launches);
    psti_free((*block)->args);
    psti_free(*block);
    *block = NULL;
}

void psti_gpu_block_begin(struct psti_gpu_block *block)
{
    size_t n = n_all_rows(block->n_fields, block->n_rows_max);
    for (size_t i = 0; i < n; i++)
        block->rows[i].kind = block->rows[i].claimed = PSTI_GPU_ROW_EMPTY;
    memset(block->memory.pinned, 0, block->fixed_nbytes);
    block->upload_used = block->fixed_nbytes;
    block->list_used = psti_gpu_block_slack_nbytes(block->n_fields);
    block->temporary_used = 0;
    block->scratch_used = 0;
    block->coefs_nbytes = 0;
    block->n_coefs = 0;
    block->n_launches = 0;
}

bool psti_gpu_block_claim(struct psti_gpu_block *block, const struct psti_gpu_claim *claim,
                          struct psti_gpu_claimed *claimed)
{
    size_t upload = psti_round_up(claim->upload_nbytes, PSTI_GPU_ALIGN);
    size_t temporary = psti_round_up(claim->temporary_nbytes, PSTI_GPU_ALIGN);
    size_t list = psti_round_up(temporary + claim->list_nbytes, PSTI_GPU_ALIGN);
    size_t scratch = psti_round_up(claim->scratch_nbytes, PSTI_GPU_ALIGN), total = upload;
    pthread_mutex_lock(&block->lock);
    size_t used = block->upload_used + block->list_used + block->temporary_used;
    size_t coefs =
        claim->coefs_nbytes > block->coefs_nbytes ? claim->coefs_nbytes : block->coefs_nbytes;
    uint64_t n_coefs = block->n_coefs + claim->n_coefs;
    size_t of_warps = coefs * (n_coefs < COEFS_WARPS_LEAST ? n_coefs : COEFS_WARPS_LEAST);
    bool fits = psti_add_size(total, list, &total) && psti_add_size(total, temporary, &total) &&
                psti_range_fits(used, total, block->temporary_end) &&
                psti_add_size(scratch, of_warps, &of_warps) &&
                psti_range_fits(block->scratch_used, of_warps, block->memory.scratch_nbytes);
    if (fits) {
        block->coefs_nbytes = coefs;
        block->n_coefs = n_coefs;
        claimed->host = (char *)block->memory.pinned + block->upload_used;
        claimed->gpu = block->memory.upload + block->upload_used;
        claimed->scratch = block->memory.scratch + block->scratch_used;
        block->upload_used += upload;
        block->list_used += list;
        block->temporary_used += temporary;
        block->scratch_used += scratch;
        claimed->temporary =
            (char *)block->memory.pinned + block->temporary_end - block->temporary_used;
    }
    pthread_mutex_unlock(&block->lock);
    return fits;
}

bool psti_gpu_block_failed(const struct psti_gpu_block *block, uint32_t i_field, uint32_t row)
{
    enum psti_gpu_row_kind kind = psti_gpu_row(block, i_field, row)->kind;
    const char *statuses = block->memory.pinned;
    return (kind == PSTI_GPU_ROW_UNITS || kind == PSTI_GPU_ROW_JPEG) &&
           psti_load_u32(statuses + psti_gpu_block_status(block, i_field, row)) != 0;
}
