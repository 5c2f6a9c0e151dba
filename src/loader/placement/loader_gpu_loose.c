/* loader_gpu_loose.c - rows of pixels that differ in size, in batches on a GPU.
 *
 * Each image's size is known when its row is placed, before it is decoded. When all rows are made,
 * they get their places in memory of the slot, one behind another, and the kernels write them
 * there. That memory grows to the largest batch so far. The rows are delivered as they lie there
 * ("list", "offsets"), or a last kernel copies them to a padded array behind them. If rows are made
 * again, others may have to move, because another sample may have replaced one.
 *
 * The thread that submits a batch runs this. It waits for the caller's streams if the memory
 * grows. */
#include "loader/placement/loader_gpu.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <inttypes.h>
#include <string.h>

/* Sums up expected rows of all fields. A padded row takes its memory twice. */
static uint64_t expected_nbytes(const struct psti_loader_gpu *gpu, uint32_t n_rows)
{
    uint64_t nbytes = 0;
    for (uint32_t i = 0; i < gpu->n_loose; i++) {
        uint32_t part = gpu->loose_parts[i];
        nbytes += (gpu->pads[part] ? 2 : 1) * psti_gpu_field_row_nbytes(gpu->fields[part]);
    }
    return nbytes * n_rows;
}

enum pst_status psti_loader_gpu_loose_open(struct psti_loader_gpu *gpu,
                                           struct psti_loader_gpu_loose *loose, uint32_t n_rows,
                                           struct pst_error *err)
{
    uint64_t most = atomic_load(&gpu->loose_nbytes), nbytes = expected_nbytes(gpu, n_rows);
    if (gpu->n_loose == 0)
        return PST_OK;
    loose->fields = psti_calloc(gpu->n_loose, sizeof *loose->fields);
    loose->large = psti_calloc(gpu->n_loose, sizeof *loose->large);
    loose->offsets = psti_calloc((size_t)gpu->n_loose * n_rows, sizeof *loose->offsets);
    if (!loose->fields || !loose->large || !loose->offsets)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a batch on a GPU");
    return psti_loader_gpu_arena_reserve(gpu, &loose->arena, nbytes > most ? nbytes : most, err);
}

void psti_loader_gpu_loose_close(struct psti_loader_gpu *gpu, struct psti_loader_gpu_loose *loose)
{
    psti_loader_gpu_arena_free(gpu, &loose->arena);
    psti_free(loose->fields);
    psti_free(loose->large);
    psti_free(loose->offsets);
    *loose = (struct psti_loader_gpu_loose){0};
}

static void free_large(struct psti_loader_gpu *gpu, struct psti_loader_gpu_large *large)
{
    if (!large->memory)
        return;
    psti_device_free_pinned(gpu->device, large->memory, large->nbytes);
    psti_batch_pool_uncharge(large->pool, large->nbytes);
    *large = (struct psti_loader_gpu_large){0};
}

void psti_loader_gpu_loose_note(struct psti_loader_gpu *gpu, const struct psti_image *image,
                                uint32_t i_part)
{
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(image->batch);
    struct psti_loader_gpu_large *large = &slot->loose.large[gpu->loose_numbers[i_part]];
    const struct psti_draw *draw = image->draw;
    int64_t channels = image->plan->channels;
    bool chw = image->plan->layout == PST_LAYOUT_CHW;
    const int64_t shape[3] = {chw ? channels : draw->out_height,
                              chw ? draw->out_height : draw->out_width,
                              chw ? draw->out_width : channels};
    psti_batch_note_row(image->batch, image->i_plan, image->row, shape);
    if (large->memory && large->row == image->row) /* of a sample that this one replaces */
        free_large(gpu, large);
}

/* Rows that fit in no block
 * ------------------------------------------------------------------------------------------------
 */

enum pst_status psti_loader_gpu_loose_large(struct psti_loader_worker *worker,
                                            struct psti_loader_gpu_slot *slot, uint32_t i_part,
                                            uint32_t row, size_t nbytes, void **data,
                                            struct pst_error *err)
{
    const pst_loader *loader = worker->loader;
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_loader_gpu_large *large = &slot->loose.large[gpu->loose_numbers[i_part]];
    free_large(gpu, large);
    worker->starved = !psti_batch_pool_charge(loader->pool, nbytes, false);
    if (worker->starved)
        return psti_fail(err, PST_ERROR_LIMIT, "loader",
                         "host_memory (%" PRIu64 " bytes) leaves no %zu bytes for a row",
                         loader->options.host_memory, nbytes);
    *large = (struct psti_loader_gpu_large){.pool = loader->pool, .nbytes = nbytes, .row = row};
    enum pst_status status = psti_device_alloc_pinned(gpu->device, nbytes, &large->memory, err);
    if (status != PST_OK)
        psti_batch_pool_uncharge(loader->pool, nbytes);
    *data = large->memory;
    return status;
}

void psti_loader_gpu_loose_end_round(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot)
{
    for (uint32_t i = 0; i < gpu->n_loose; i++)
        free_large(gpu, &slot->loose.large[i]);
}

/* Places
 * ------------------------------------------------------------------------------------------------
 */

/* FATE_STAY: the rows that are in the memory already have their places there. FATE_MOVE: at least
 * one of them has another place now. */
enum fate { FATE_NONE_THERE, FATE_STAY, FATE_MOVE };

static enum fate fate_of_rows(const struct psti_loader_gpu *gpu,
                              const struct psti_loader_gpu_loose *state)
{
    enum fate fate = FATE_NONE_THERE;
    uint32_t size[2];
    for (uint32_t i = 0; i < gpu->n_loose; i++) {
        const struct psti_loose *loose = &state->fields[i];
        for (uint32_t row = 0; row < loose->n_rows; row++) {
            uintptr_t at = (uintptr_t)psti_batch_row_data(loose->batch, loose->i_field, row);
            if (at == 0 || !psti_batch_loose_size(loose, row, size))
                continue;
            if (at != state->arena.memory + loose->offsets[row])
                return FATE_MOVE;
            fate = FATE_STAY;
        }
    }
    return fate;
}

/* Copies the rows that are there to their places in new memory. */
static enum pst_status copy_rows(struct psti_loader_gpu *gpu,
                                 const struct psti_loader_gpu_loose *state, uint64_t to,
                                 struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < gpu->n_loose; i++) {
        const struct psti_gpu_field *field = gpu->fields[gpu->loose_parts[i]];
        const struct psti_loose *loose = &state->fields[i];
        for (uint32_t row = 0; status == PST_OK && row < loose->n_rows; row++) {
            uintptr_t at = (uintptr_t)psti_batch_row_data(loose->batch, loose->i_field, row);
            uint32_t size[2];
            if (at && psti_batch_loose_size(loose, row, size))
                status = psti_device_stream_copy(gpu->stream, to + loose->offsets[row], at,
                                                 psti_gpu_field_size_nbytes(field, size), err);
        }
    }
    return status;
}

/* Moves the rows to new memory of nbytes. No stream of the caller reads the old one, because the
 * loader's stream has waited for them when the rows were made first. */
static enum pst_status move_rows(struct psti_loader_gpu *gpu, struct psti_loader_gpu_loose *state,
                                 size_t nbytes, struct pst_error *err)
{
    struct psti_loader_gpu_arena fresh = {0};
    enum pst_status status = psti_loader_gpu_arena_reserve(gpu, &fresh, nbytes, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_lock(&gpu->stream_lock);
    status = copy_rows(gpu, state, fresh.memory, err);
    enum pst_status synced = psti_device_stream_sync(gpu->stream, status == PST_OK ? err : NULL);
    pthread_mutex_unlock(&gpu->stream_lock);
    status = status == PST_OK ? synced : status;
    if (status != PST_OK) {
        psti_loader_gpu_arena_free(gpu, &fresh);
        return status;
    }
    psti_loader_gpu_arena_free(gpu, &state->arena);
    state->arena = fresh;
    return PST_OK;
}

/* Makes the memory large enough for the placed rows. */
static enum pst_status reserve(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot,
                               size_t nbytes, struct pst_error *err)
{
    struct psti_loader_gpu_loose *state = &slot->loose;
    enum fate fate = fate_of_rows(gpu, state);
    if (nbytes <= state->arena.nbytes && fate != FATE_MOVE)
        return PST_OK;
    if (fate != FATE_NONE_THERE)
        return move_rows(gpu, state, nbytes, err);
    enum pst_status status = psti_loader_gpu_settle(slot, err);
    if (status == PST_OK)
        status = psti_loader_gpu_arena_reserve(gpu, &state->arena, nbytes, err);
    return status;
}

/* Notes the size of the largest batch, which new slots get at once. */
static void note_most(struct psti_loader_gpu *gpu, uint64_t nbytes)
{
    uint64_t most = atomic_load(&gpu->loose_nbytes);
    while (most < nbytes && !atomic_compare_exchange_weak(&gpu->loose_nbytes, &most, nbytes))
        ;
}

/* Notes whether the last batch has found memory, for `refused` in loader_gpu.c. The error that the
 * GPU has no memory is one of "device", so that the loader knows it. */
static enum pst_status note_refusal(struct psti_loader_gpu *gpu, enum pst_status status,
                                    const struct pst_error *cause, struct pst_error *err)
{
    bool refused = status == PST_ERROR_LIMIT || status == PST_ERROR_MEMORY;
    pthread_mutex_lock(gpu->lock);
    gpu->loose_refusal = refused ? PST_ERROR_LIMIT : PST_OK;
    if (refused)
        gpu->loose_err = *cause;
    pthread_mutex_unlock(gpu->lock);
    if (refused)
        return psti_fail(err, PST_ERROR_LIMIT, "device",
                         "the GPU has no memory for the rows of a batch: %.300s", cause->text);
    if (status != PST_OK && err)
        *err = *cause;
    return status;
}

_Static_assert(sizeof(struct psti_gpu_pad) == PSTI_LOADER_NOTE_NBYTES, "notes hold pads");

/* Describes the rows of a field that are padded, among the slot's numbers. */
static void write_pads(const struct psti_gpu_field *field, const struct psti_loose *loose,
                       uint64_t memory)
{
    uint32_t size[2], to_size[2], n = 0;
    uint64_t at;
    struct psti_gpu_pad *pads = psti_batch_loose_notes(loose->batch, loose->i_field, &at);
    psti_batch_loose_padded_size(loose, to_size);
    for (uint32_t row = 0; row < loose->n_rows; row++) {
        if (!psti_batch_loose_size(loose, row, size))
            continue;
        psti_gpu_pad_set(field, size, memory + loose->offsets[row], to_size,
                         memory + loose->start + n * loose->padded_row_nbytes, &pads[n]);
        n++;
    }
}

/* Tells the batch and the block where the rows lie. */
static void tell_block(const struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot)
{
    uint64_t memory = slot->loose.arena.memory;
    for (uint32_t i = 0; i < gpu->n_loose; i++) {
        uint32_t part = gpu->loose_parts[i];
        struct psti_loose *loose = &slot->loose.fields[i];
        for (uint32_t row = 0; row < loose->n_rows; row++)
            psti_gpu_block_set_out(slot->block, part, row, memory + loose->offsets[row]);
        psti_batch_loose_set(loose, memory);
        if (gpu->pads[part])
            write_pads(gpu->fields[part], loose, memory);
    }
}

enum pst_status psti_loader_gpu_loose_place(struct psti_loader_gpu *gpu, pst_batch *batch,
                                            uint32_t n_rows, const uint8_t *bad,
                                            struct pst_error *err)
{
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    struct psti_loader_gpu_loose *state = &slot->loose;
    struct pst_error cause;
    size_t total = 0;
    if (gpu->n_loose == 0)
        return PST_OK;
    for (uint32_t i = 0; i < gpu->n_loose; i++) {
        struct psti_loose *loose = &state->fields[i];
        *loose = (struct psti_loose){.batch = batch,
                                     .i_field = gpu->plan_fields[gpu->loose_parts[i]],
                                     .n_rows = n_rows,
                                     .bad = bad,
                                     .offsets = state->offsets + (size_t)i * slot->n_rows_max};
        if (!psti_batch_loose_place(loose, &total))
            return psti_fail(err, PST_ERROR_LIMIT, "loader", "the rows of a batch are too large");
    }
    enum pst_status status = note_refusal(gpu, reserve(gpu, slot, total, &cause), &cause, err);
    if (status != PST_OK)
        return status;
    if (slot->n_rows_max <= gpu->batch_size)
        note_most(gpu, total);
    tell_block(gpu, slot);
    return PST_OK;
}

/* Work on the GPU
 * ------------------------------------------------------------------------------------------------
 */

static enum pst_status launch_pads(struct psti_loader_gpu *gpu, uint32_t part,
                                   const struct psti_loose *loose, struct pst_error *err)
{
    struct psti_gpu_launch launch;
    struct psti_gpu_pad_args args;
    uint64_t at;
    const struct psti_gpu_pad *pads = psti_batch_loose_notes(loose->batch, loose->i_field, &at);
    if (loose->n == 0)
        return PST_OK;
    if (!psti_gpu_pad_launch(gpu->fields[part], pads, loose->n, at, gpu->fills[part], &args,
                             &launch))
        return psti_fail(err, PST_ERROR_LIMIT, "loader",
                         "a batch of %u padded rows is too large for a launch", loose->n);
    return psti_device_stream_launch(gpu->stream, launch.kernel, launch.n_blocks, launch.n_warps,
                                     launch.shared_nbytes, launch.args, launch.args_nbytes, err);
}

enum pst_status psti_loader_gpu_loose_submit(struct psti_loader_gpu *gpu, pst_batch *batch,
                                             bool complete, struct pst_error *err)
{
    const struct psti_loader_gpu_loose *state = &psti_loader_gpu_slot_of(batch)->loose;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < gpu->n_loose; i++) {
        uint32_t part = gpu->loose_parts[i];
        const struct psti_loader_gpu_large *large = &state->large[i];
        const struct psti_loose *loose = &state->fields[i];
        uint32_t size[2];
        if (status == PST_OK && large->memory && psti_batch_loose_size(loose, large->row, size))
            status = psti_device_stream_upload(gpu->stream,
                                               state->arena.memory + loose->offsets[large->row],
                                               large->memory, large->nbytes, err);
        if (status == PST_OK && complete && gpu->pads[part])
            status = launch_pads(gpu, part, loose, err);
    }
    return status;
}
