/* loader_gpu_slot.c - slots on a GPU: their memory, and the caller's streams that read them.
 *
 * A slot's memory is allocated as a whole when the slot is made, in pinned memory and on the GPU,
 * within both budgets. Rows that may differ in shape have memory of their own, which grows
 * (loader_gpu_carry.c). The caller's streams that read a batch are noted. When the last holder
 * releases the batch, an event is recorded on each of these streams. The loader's stream waits for
 * the events before it writes the slot again, so no thread waits. */
#include "loader/placement/loader_gpu.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"

#include <inttypes.h>
#include <string.h>

#define GPU_ALIGNMENT 256
#define PAGE_NBYTES 4096
#define STREAM_LEGACY 1
#define STREAM_OF_THREAD 2

/* Returns the bytes of host memory that a slot takes in addition to the numbers (values of fields
 * without pixels). */
static uint64_t slot_nbytes(void *ctx, uint32_t n_rows)
{
    const struct psti_loader_gpu *gpu = ctx;
    struct psti_gpu_block_size size;
    psti_loader_gpu_block_size(gpu, n_rows, &size);
    return psti_round_up(size.upload_nbytes, PAGE_NBYTES) + sizeof(struct psti_loader_gpu_slot) +
           (uint64_t)n_rows * (2 * sizeof(uint8_t) + sizeof(uint32_t)) +
           gpu->n_loose * (sizeof(struct psti_loose) + sizeof(struct psti_loader_gpu_large) +
                           (uint64_t)n_rows * sizeof(size_t));
}

static void free_slot(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot)
{
    if (slot->submitted) /* wait, because the GPU uses the memory until then; an error means that
                            the GPU is lost */
        (void)psti_device_event_sync(slot->done, NULL);
    for (uint32_t i = 0; i < slot->n_readers; i++) {
        if (slot->readers_pending)
            (void)psti_device_event_sync(slot->readers[i].event, NULL);
    }
    for (uint32_t i = 0; i < slot->reader_cap; i++)
        psti_device_event_close(&slot->readers[i].event);
    psti_free(slot->readers);
    psti_gpu_block_close(&slot->block);
    psti_device_event_close(&slot->uploading);
    psti_device_event_close(&slot->uploaded);
    psti_device_event_close(&slot->begun);
    psti_device_event_close(&slot->done);
    if (slot->memory)
        psti_device_free(gpu->device, slot->memory, slot->memory_nbytes);
    if (slot->pinned)
        psti_device_free_pinned(gpu->device, slot->pinned, slot->pinned_nbytes);
    psti_free(slot->again);
    psti_free(slot->todo);
    psti_free(slot->places);
    psti_loader_gpu_loose_close(gpu, &slot->loose);
    psti_free(slot);
}

static enum pst_status open_block(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot,
                                  uint64_t array_nbytes, size_t upload_nbytes,
                                  struct pst_error *err)
{
    if (gpu->n_fields == 0)
        return PST_OK;
    struct psti_device_info info;
    psti_device_info(gpu->device, &info);
    const struct psti_gpu_memory memory = {.pinned = slot->pinned,
                                           .upload = slot->memory + array_nbytes,
                                           .upload_nbytes = upload_nbytes,
                                           .scratch = gpu->scratch,
                                           .scratch_nbytes = gpu->scratch_nbytes,
                                           .constants = gpu->constants,
                                           .n_processors = info.n_processors,
                                           .shared_nbytes_max = info.shared_nbytes_max};
    return psti_gpu_block_open((const struct psti_gpu_field *const *)gpu->fields, gpu->n_fields,
                               slot->n_rows_max, &memory, &slot->block, err);
}

static enum pst_status fill_slot(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot,
                                 size_t numbers_nbytes, size_t array_nbytes, struct pst_error *err)
{
    struct psti_gpu_block_size size;
    psti_loader_gpu_block_size(gpu, slot->n_rows_max, &size);
    size_t upload_nbytes = psti_round_up(size.upload_nbytes, PAGE_NBYTES);
    array_nbytes = psti_round_up(array_nbytes, GPU_ALIGNMENT);
    uint64_t nbytes = array_nbytes + upload_nbytes;
    slot->numbers_nbytes = numbers_nbytes;
    slot->again = psti_calloc(slot->n_rows_max, sizeof *slot->again);
    slot->todo = psti_calloc(slot->n_rows_max, sizeof *slot->todo);
    slot->places = psti_calloc(slot->n_rows_max, sizeof *slot->places);
    if (!slot->again || !slot->todo || !slot->places)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a batch on a GPU");
    struct psti_event **const events[] = {&slot->done, &slot->uploading, &slot->uploaded,
                                          &slot->begun};
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < sizeof events / sizeof events[0]; i++)
        status = psti_device_event_open(gpu->device, events[i], err);
    if (status == PST_OK)
        status = psti_loader_gpu_loose_open(gpu, &slot->loose, slot->n_rows_max, err);
    if (status == PST_OK)
        status = psti_device_alloc(gpu->device, nbytes, &slot->memory, err);
    if (status != PST_OK)
        return status;
    slot->memory_nbytes = nbytes;
    status =
        psti_device_alloc_pinned(gpu->device, upload_nbytes + numbers_nbytes, &slot->pinned, err);
    if (status != PST_OK)
        return status;
    slot->pinned_nbytes = upload_nbytes + numbers_nbytes;
    memset((char *)slot->pinned + upload_nbytes, 0, numbers_nbytes);
    return open_block(gpu, slot, array_nbytes, upload_nbytes, err);
}

static enum pst_status make(void *ctx, uint32_t n_rows, size_t numbers_nbytes, size_t array_nbytes,
                            struct psti_slot_part *part)
{
    struct psti_loader_gpu *gpu = ctx;
    if (gpu->n_slots > 0 && gpu->n_slots == gpu->refused_at && gpu->slot_err.status) {
        gpu->refusal = gpu->slot_err.status; /* the refusal stays valid until a slot is freed */
        return gpu->refusal;
    }
    struct psti_loader_gpu_slot *slot = psti_calloc(1, sizeof *slot);
    if (!slot)
        return PST_ERROR_MEMORY;
    slot->n_rows_max = n_rows;
    enum pst_status status = fill_slot(gpu, slot, numbers_nbytes, array_nbytes, &gpu->slot_err);
    if (status != PST_OK) {
        gpu->refused_at = gpu->n_slots;
        gpu->refusal = gpu->slot_err.status = status;
        free_slot(gpu, slot);
        return status;
    }
    gpu->n_slots++;
    *part = (struct psti_slot_part){.numbers = (char *)slot->pinned +
                                               (slot->pinned_nbytes - numbers_nbytes),
                                    .array = slot->memory,
                                    .own = slot};
    return PST_OK;
}

static void unmake(void *ctx, struct psti_slot_part *part)
{
    struct psti_loader_gpu *gpu = ctx;
    free_slot(gpu, part->own);
    gpu->n_slots--;
    gpu->refused_at = 0;
}

/* Notes that `stream` reads the slot, and creates an event for it. */
static enum pst_status add_reader(struct psti_loader_gpu *gpu, struct psti_loader_gpu_slot *slot,
                                  uint64_t stream, struct pst_error *err)
{
    if (slot->n_readers == slot->reader_cap) {
        uint32_t cap = slot->reader_cap ? 2 * slot->reader_cap : 2;
        struct psti_loader_gpu_reader *grown = psti_realloc(slot->readers, cap * sizeof *grown);
        if (!grown)
            return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory to note a stream");
        memset(grown + slot->reader_cap, 0, (cap - slot->reader_cap) * sizeof *grown);
        slot->readers = grown;
        slot->reader_cap = cap;
    }
    struct psti_loader_gpu_reader *reader = &slot->readers[slot->n_readers];
    enum pst_status status = PST_OK;
    if (!reader->event)
        status = psti_device_event_open(gpu->device, &reader->event, err);
    if (status != PST_OK)
        return status;
    reader->stream = stream;
    slot->n_readers++;
    return PST_OK;
}

static enum pst_status await(void *ctx, struct psti_slot_part *part, uint64_t stream,
                             struct pst_error *err)
{
    struct psti_loader_gpu_slot *slot = part->own;
    enum pst_status status = PST_OK;
    bool known = false;
    for (uint32_t i = 0; i < slot->n_readers && !known; i++)
        known = slot->readers[i].stream == stream;
    /* This is called for each row of a list. A known stream waits already, but STREAM_OF_THREAD is
     * one handle for a stream of each thread. */
    if (known && stream != STREAM_OF_THREAD)
        return PST_OK;
    if (!known)
        status = add_reader(ctx, slot, stream, err);
    if (status == PST_OK)
        status = psti_device_event_await_foreign(slot->done, stream, err);
    return status;
}

/* Called when a batch is released: records an event on each stream that read it. All per-thread
 * default streams have the same handle, and the thread that releases the batch may be another one
 * than the reader. The legacy default stream waits for all of them, so their event is recorded
 * there. */
static bool released(void *ctx, struct psti_slot_part *part)
{
    struct psti_loader_gpu_slot *slot = part->own;
    (void)ctx;
    for (uint32_t i = 0; i < slot->n_readers; i++) {
        uint64_t stream = slot->readers[i].stream;
        if (stream == 0 || stream == STREAM_OF_THREAD)
            stream = STREAM_LEGACY;
        if (psti_device_event_record_foreign(slot->readers[i].event, stream, NULL) != PST_OK) {
            slot->n_readers = i;
            slot->readers_pending = true;
            return false;
        }
    }
    slot->readers_pending = true;
    return true;
}

enum pst_status psti_loader_gpu_await_readers(struct psti_loader_gpu *gpu,
                                              struct psti_loader_gpu_slot *slot,
                                              struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (!slot->readers_pending)
        return PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < slot->n_readers; i++)
        status = psti_device_event_await(slot->readers[i].event, gpu->stream, err);
    if (status != PST_OK)
        return status;
    slot->n_readers = 0;
    slot->readers_pending = false;
    return PST_OK;
}

void psti_loader_gpu_hooks(struct psti_loader_gpu *gpu, void (*close)(void *ctx),
                           struct psti_slot_gpu *hooks)
{
    *hooks = (struct psti_slot_gpu){.ctx = gpu,
                                    .device = gpu->ordinal,
                                    .nbytes = slot_nbytes,
                                    .make = make,
                                    .unmake = unmake,
                                    .await = await,
                                    .released = released,
                                    .close = close};
}
