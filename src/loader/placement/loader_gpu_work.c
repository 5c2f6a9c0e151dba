/* loader_gpu_work.c - turns a batch whose rows are all made into arrays on the GPU.
 *
 * There are two stages, so that no worker waits for the GPU. The thread that finishes the last row
 * submits one upload of the block, one upload of the numbers, one of rows that may differ in shape,
 * a few launches and the download of statuses. The caller's thread waits for them before it
 * delivers the batch; mostly they are done by then. It then makes rows again that found no space in
 * the block or whose bytes were corrupt, in rounds, applies on_error, and moves rows up to close
 * the gaps of rows that are left out.
 *
 * No memory is allocated here, except for such rows (loader_gpu_carry.c). Threads wait only for
 * events of the loader's own streams. */
#include "loader/placement/loader_gpu.h"

#include "base/clock.h"
#include "base/fail.h"

#include <string.h>

/* nanoseconds between two queries of whether an event has happened */
#define LOOK_NS 20000

/* Returns how many of the rank's first `turn` rows the GPU makes. The difference between two values
 * is the GPU's share of a batch. Rounding errors never add up to a whole row. */
static uint64_t rows_before(const struct psti_loader_gpu *gpu, uint64_t turn)
{
    return (uint64_t)(gpu->part * (double)turn);
}

void psti_loader_gpu_begin(pst_loader *loader, pst_batch *batch, uint64_t first, uint32_t n_rows)
{
    const struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    if (slot->block)
        psti_gpu_block_begin(slot->block);
    slot->n_gpu_rows = (uint32_t)(rows_before(gpu, first + n_rows) - rows_before(gpu, first));
    memset(slot->again, 0, slot->n_rows_max);
    slot->is_packed = slot->is_carried = false;
}

/* Uploads the block on the stream for uploads; the launches wait for it. The upload itself need not
 * wait: the thread that filled the block has waited for the work that read its previous contents,
 * and no stream of the caller reads it. */
static enum pst_status submit_upload(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot,
                                     uint64_t to, size_t nbytes, struct pst_error *err)
{
    enum pst_status status = psti_device_event_record(slot->uploading, gpu->uploads, err);
    if (status == PST_OK)
        status = psti_device_stream_upload(gpu->uploads, to, slot->pinned, nbytes, err);
    if (status == PST_OK)
        status = psti_device_event_record(slot->uploaded, gpu->uploads, err);
    if (status == PST_OK)
        status = psti_device_event_await(slot->uploaded, gpu->stream, err);
    return status;
}

/* Submits the block's upload, the launches, and the download of statuses. */
static enum pst_status submit_block(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot,
                                    const uint64_t *outs, const uint32_t *places,
                                    struct pst_error *err)
{
    struct psti_gpu_work work;
    enum pst_status status = psti_gpu_block_work(slot->block, outs, places, &work, err);
    if (status != PST_OK)
        return status;
    uint64_t upload =
        slot->memory + slot->memory_nbytes -
        (slot->pinned_nbytes - slot->numbers_nbytes); /* address of the block's memory on the GPU */
    if (status == PST_OK && work.upload_nbytes)
        status = submit_upload(gpu, slot, upload, work.upload_nbytes, err);
    slot->has_launches = work.upload_nbytes && work.n_launches;
    if (status == PST_OK && slot->has_launches)
        status = psti_device_event_record(slot->begun, gpu->stream, err);
    for (uint32_t i = 0; status == PST_OK && i < work.n_launches; i++) {
        const struct psti_gpu_launch *launch = &work.launches[i];
        status = psti_device_stream_launch(gpu->stream, launch->kernel, launch->n_blocks,
                                           launch->n_warps, launch->shared_nbytes, launch->args,
                                           launch->args_nbytes, err);
    }
    if (status == PST_OK && work.statuses_nbytes)
        status =
            psti_device_stream_download(gpu->stream, (char *)slot->pinned + work.statuses_offset,
                                        upload + work.statuses_offset, work.statuses_nbytes, err);
    return status;
}

static enum pst_status submit_numbers(struct psti_loader_gpu *gpu,
                                      const struct psti_loader_gpu_slot *slot,
                                      struct pst_error *err)
{
    const char *numbers = (char *)slot->pinned + (slot->pinned_nbytes - slot->numbers_nbytes);
    return psti_device_stream_upload(gpu->stream, slot->memory, numbers, slot->numbers_nbytes, err);
}

/* Waits for all work on both streams. The stream's lock must be held. */
static void sync_streams(struct psti_loader_gpu *gpu)
{
    if (gpu->uploads)
        (void)psti_device_stream_sync(gpu->uploads, NULL);
    (void)psti_device_stream_sync(gpu->stream, NULL);
}

/* Records the event that ends the batch's work. After a failure it waits for the streams instead,
 * because part of the work may be under way. The stream's lock must be held. */
static enum pst_status end_work(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot,
                                enum pst_status status, struct pst_error *err)
{
    if (status == PST_OK)
        status = psti_device_event_record(slot->done, gpu->stream, err);
    slot->submitted = status == PST_OK;
    slot->is_carried = slot->is_carried && slot->submitted;
    if (status != PST_OK)
        sync_streams(gpu);
    return status;
}

/* Submits the work of the rows that have a place. `complete`: these are all rows that the batch
 * still lacks. The GPU may find some of them corrupt. Rows with bad[row] != 0 are left out (NULL:
 * none). */
static enum pst_status submit_all(struct psti_loader_gpu *gpu, pst_batch *batch, uint32_t n_rows,
                                  const uint8_t *bad, bool complete, struct pst_error *err)
{
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    uint64_t outs[PSTI_LOADER_GPU_PARTS_MAX];
    for (uint32_t i = 0; i < gpu->n_fields; i++) {
        size_t offset, row_nbytes;
        (void)psti_batch_place_of(batch, gpu->plan_fields[i], &offset, &row_nbytes);
        outs[i] = slot->memory + offset + gpu->views[i] * psti_gpu_field_row_nbytes(gpu->fields[i]);
    }
    slot->has_launches = false;
    enum pst_status status = psti_loader_gpu_loose_place(gpu, batch, n_rows, bad, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_lock(&gpu->stream_lock);
    status = psti_loader_gpu_await_readers(gpu, slot, err);
    if (status == PST_OK && slot->block)
        status = submit_block(gpu, slot, outs, slot->places, err);
    if (status == PST_OK)
        status = submit_numbers(gpu, slot, err);
    if (status == PST_OK && slot->is_packed)
        status = psti_loader_gpu_submit_rows(gpu, slot, err);
    if (status == PST_OK)
        status = psti_loader_gpu_loose_submit(gpu, batch, complete, err);
    status = end_work(gpu, slot, status, err);
    pthread_mutex_unlock(&gpu->stream_lock);
    return status;
}

/* Packs the rows that may differ in shape, so that the batch's work uploads them, too. If that
 * fails, nothing is reported: psti_loader_gpu_carry tries again later, and reports the error. */
static void pack_early(pst_batch *batch)
{
    struct pst_error ignored;
    (void)psti_loader_gpu_pack_rows(batch, &ignored);
}

enum pst_status psti_loader_gpu_submit(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                                       const uint8_t *bad, bool failed, bool *whole,
                                       struct pst_error *err)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    (void)failed; /* not used: a row before the failed one may turn out to be bad, and the lowest
                     row counts */
    bool complete = true;
    *whole = false;
    if (!bad && !failed) {
        psti_batch_finish(batch, n_rows, NULL);
        pack_early(batch);
    }
    for (uint32_t row = 0; row < n_rows; row++) {
        bool is_bad = bad && bad[row];
        complete &= is_bad || !slot->again[row];
        slot->places[row] = is_bad || slot->again[row] ? PSTI_GPU_NOWHERE : row;
    }
    return submit_all(gpu, batch, n_rows, bad, complete, err);
}

enum pst_status psti_loader_gpu_submit_parts(struct psti_loader_gpu *gpu, pst_batch *batch,
                                             const struct psti_brought *parts, uint32_t n_parts,
                                             struct pst_error *err)
{
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    slot->has_launches = false;
    for (uint32_t row = 0; row < slot->n_rows_max; row++)
        slot->places[row] = PSTI_GPU_NOWHERE;
    pack_early(batch);
    pthread_mutex_lock(&gpu->stream_lock);
    enum pst_status status = psti_loader_gpu_await_readers(gpu, slot, err);
    for (uint32_t i = 0; status == PST_OK && i < n_parts; i++) {
        size_t offset, row_nbytes;
        (void)psti_batch_place_of(batch, parts[i].i_plan, &offset, &row_nbytes);
        status = psti_device_stream_upload(gpu->stream,
                                           slot->memory + offset + parts[i].row * row_nbytes,
                                           parts[i].rows, parts[i].nbytes, err);
    }
    if (status == PST_OK)
        status = submit_numbers(gpu, slot, err);
    if (status == PST_OK && slot->is_packed)
        status = psti_loader_gpu_submit_rows(gpu, slot, err);
    status = end_work(gpu, slot, status, err);
    pthread_mutex_unlock(&gpu->stream_lock);
    return status;
}

/* Adds the GPU times of a batch's finished work to the loader's sums. */
static void add_times(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot)
{
    if (!slot->has_launches)
        return;
    slot->has_launches = false;
    atomic_fetch_add_explicit(&gpu->upload_ns,
                              psti_device_event_elapsed_ns(slot->uploading, slot->uploaded),
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&gpu->work_ns, psti_device_event_elapsed_ns(slot->begun, slot->done),
                              memory_order_relaxed);
}

enum pst_status psti_loader_gpu_wait(pst_loader *loader, pst_batch *batch, int64_t deadline,
                                     struct pst_error *err)
{
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    /* The thread that closed the batch wrote `submitted` under the lock, before it made the job
     * WHOLE. */
    while (slot->submitted) {
        bool done = false;
        enum pst_status status = psti_device_event_is_done(slot->done, &done, err);
        if (status != PST_OK)
            return status;
        slot->submitted = !done;
        if (done) {
            add_times(psti_loader_gpu_of(loader), slot);
            break;
        }
        int64_t now = psti_clock_ns();
        if (now >= deadline)
            return psti_fail(err, PST_ERROR_BUSY, "loader", "the batch is not whole yet");
        psti_clock_sleep_until(now + LOOK_NS < deadline ? now + LOOK_NS : deadline);
    }
    return PST_OK;
}

void psti_loader_gpu_quiesce(pst_loader *loader, pst_batch *batch)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    if (slot->submitted && psti_device_event_sync(slot->done, NULL) != PST_OK) {
        pthread_mutex_lock(&gpu->stream_lock);
        sync_streams(gpu);
        pthread_mutex_unlock(&gpu->stream_lock);
    }
    slot->submitted = false;
}

static bool is_left_out(const struct psti_remake *remake, uint32_t row)
{
    return remake->bad && remake->bad[row];
}

/* Marks in slot->todo the rows that the last round left: those that the GPU found corrupt, and
 * those without space. Returns how many rows must be made. */
static uint32_t collect(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot,
                        const struct psti_remake *remake)
{
    uint32_t n = 0;
    for (uint32_t row = 0; row < remake->n_wanted; row++) {
        bool failed = false;
        if (is_left_out(remake, row)) { /* one of its images may have found no space before */
            slot->todo[row] = slot->again[row] = PSTI_LOADER_GPU_AGAIN_NO;
            continue;
        }
        for (uint32_t i = 0; i < gpu->n_fields && slot->places[row] != PSTI_GPU_NOWHERE; i++)
            failed |= psti_gpu_block_failed(slot->block, i, row);
        if (failed)
            slot->todo[row] = PSTI_LOADER_GPU_AGAIN_FAILED;
        else if (slot->todo[row] == PSTI_LOADER_GPU_AGAIN_NO)
            slot->todo[row] = slot->again[row];
        slot->again[row] = PSTI_LOADER_GPU_AGAIN_NO;
        n += slot->todo[row] != PSTI_LOADER_GPU_AGAIN_NO;
    }
    return n;
}

/* Makes one row again. is_first: it is the first row in the block. *fits: it found space there, or
 * is left out. */
static enum pst_status make_again(struct psti_remake *remake, uint32_t row, bool is_first,
                                  bool *fits, struct pst_error *err)
{
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(remake->batch);
    struct psti_loader_gpu_worker *own = remake->worker->placement;
    own->host_only = slot->todo[row] == PSTI_LOADER_GPU_AGAIN_FAILED;
    own->is_first = is_first;
    slot->again[row] = PSTI_LOADER_GPU_AGAIN_NO;
    enum pst_status status = remake->make(remake, row, err);
    own->host_only = own->is_first = false;
    *fits = slot->again[row] == PSTI_LOADER_GPU_AGAIN_NO || is_left_out(remake, row);
    return status;
}

/* Makes as many of the remaining rows as the block holds. */
static enum pst_status make_round(pst_loader *loader, struct psti_remake *remake,
                                  struct pst_error *err)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(remake->batch);
    enum pst_status status = PST_OK;
    bool fits = true, any = false;
    slot->is_packed = slot->is_carried = false;
    psti_gpu_block_begin(slot->block);
    for (uint32_t row = 0; row < remake->n_rows; row++)
        slot->places[row] = PSTI_GPU_NOWHERE;
    for (uint32_t row = 0; status == PST_OK && fits && row < remake->n_wanted; row++) {
        if (!slot->todo[row])
            continue;
        status = make_again(remake, row, !any, &fits, err);
        if (remake->starved)
            return PST_OK; /* the memory of slots is used up; the loader tries again later */
        if (!fits)
            break;
        any = true;
        slot->todo[row] = PSTI_LOADER_GPU_AGAIN_NO;
        if (!is_left_out(remake, row))
            slot->places[row] = row;
    }
    if (status == PST_OK && !any)
        status = psti_fail(err, PST_ERROR_LIMIT, "loader",
                           "a row does not fit into a batch's memory on the GPU");
    bool complete = true;
    for (uint32_t row = 0; row < remake->n_wanted; row++)
        complete &= slot->todo[row] == PSTI_LOADER_GPU_AGAIN_NO;
    if (status == PST_OK)
        status = submit_all(gpu, remake->batch, remake->n_rows, remake->bad, complete, err);
    if (status == PST_OK)
        status = psti_loader_gpu_wait(loader, remake->batch, INT64_MAX, err);
    return status;
}

/* Moves rows up to the places of rows that are left out, on the GPU and in host memory. */
static enum pst_status close_up(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                                const uint8_t *bad, struct pst_error *err)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    enum pst_status status = PST_OK;
    slot->has_launches = false;
    pthread_mutex_lock(&gpu->stream_lock);
    for (uint32_t i = 0; i < gpu->n_fields; i++) {
        size_t offset, row_nbytes;
        uint64_t place = 0;
        if (gpu->views[i] > 0) /* a row of the array has all views, and is moved as a whole */
            continue;
        if (gpu->is_loose[i]) /* their places have no gaps */
            continue;
        (void)psti_batch_place_of(batch, gpu->plan_fields[i], &offset, &row_nbytes);
        uint64_t array = slot->memory + offset;
        for (uint32_t row = 0; status == PST_OK && row < n_rows; row++) {
            if (bad[row])
                continue;
            if (place != row)
                status = psti_device_stream_copy(gpu->stream, array + place * row_nbytes,
                                                 array + row * row_nbytes, row_nbytes, err);
            place++;
        }
    }
    if (status == PST_OK)
        status = submit_numbers(gpu, slot, err);
    status = end_work(gpu, slot, status, err);
    pthread_mutex_unlock(&gpu->stream_lock);
    return status == PST_OK ? psti_loader_gpu_wait(loader, batch, INT64_MAX, err) : status;
}

enum pst_status psti_loader_gpu_finish(pst_loader *loader, struct psti_remake *remake,
                                       struct pst_error *err)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(remake->batch);
    enum pst_status status = PST_OK;
    memset(slot->todo, 0, slot->n_rows_max);
    while (status == PST_OK && slot->block && !remake->starved && collect(gpu, slot, remake) > 0) {
        status = make_round(loader, remake, err);
        psti_loader_gpu_loose_end_round(gpu, slot);
    }
    if (status != PST_OK || remake->failed || remake->starved || slot->is_carried)
        return status; /* carried: since the submit, no row was made again or left out */
    psti_batch_finish(remake->batch, remake->n_rows, remake->bad);
    return remake->bad ? close_up(loader, remake->batch, remake->n_rows, remake->bad, err) : PST_OK;
}

/* Notes that the GPU's memory has no space for the rows, for `refused` in loader_gpu.c. Returns the
 * status with which the loader frees memory and tries again. */
static enum pst_status refuse_rows(pst_loader *loader, const struct pst_error *cause)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    pthread_mutex_lock(loader->lock);
    gpu->refusal = cause->status;
    gpu->slot_err = *cause;
    pthread_mutex_unlock(loader->lock);
    return PST_ERROR_LIMIT;
}

static enum pst_status submit_carried(struct psti_loader_gpu *gpu,
                                      struct psti_loader_gpu_slot *slot, struct pst_error *err)
{
    slot->has_launches = false;
    pthread_mutex_lock(&gpu->stream_lock);
    enum pst_status status = psti_loader_gpu_await_readers(gpu, slot, err);
    if (status == PST_OK)
        status = psti_loader_gpu_submit_rows(gpu, slot, err);
    status = end_work(gpu, slot, status, err);
    pthread_mutex_unlock(&gpu->stream_lock);
    return status;
}

enum pst_status psti_loader_gpu_carry(pst_loader *loader, pst_batch *batch, struct pst_error *err)
{
    struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_loader_gpu_slot *slot = psti_loader_gpu_slot_of(batch);
    struct pst_error cause;
    if (slot->is_carried)
        return PST_OK;
    slot->lacks_rows = false;
    enum pst_status status = psti_loader_gpu_pack_rows(batch, &cause);
    if (status != PST_OK && err)
        *err = cause;
    if (status != PST_OK)
        return slot->lacks_rows ? refuse_rows(loader, &cause) : status;
    status = submit_carried(gpu, slot, err);
    return status == PST_OK ? psti_loader_gpu_wait(loader, batch, INT64_MAX, err) : status;
}
