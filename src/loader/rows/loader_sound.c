/* loader_sound.c - audio fields: plans their rows, chooses the bytes to read, and decodes them.
 *
 * In: the bytes of an audio file, or the head of a WAV and the part that its clip needs. Out:
 * floats in the row of the slot, or waveforms for a GPU that makes the row. A draw depends on the
 * sound's length, which the header states, so a WAV of which little is needed is read in two
 * rounds. For other formats, the worker reads blocks when the decoder needs them. A stored checksum
 * covers all bytes, so if it is to be compared, all bytes are read. Workers call this for their own
 * rows; no locks. */
#include "loader/rows/loader_sound.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "dataset/dataset.h"
#include "decode/decode_audio.h"
#include "loader/loader_handle.h"
#include "loader/loader_worker.h"
#include "sound/sound_features.h"

#include <string.h>

/* Bytes read in the first round. They hold the headers of nearly every WAV. */
#define HEAD_NBYTES 4096
/* Files smaller than this are read completely. */
#define SPARSE_MIN_NBYTES ((uint64_t)256 << 10)
#define BLOCK_NBYTES 4096
/* Minimum number of bytes of a block that is read for the decoder, and maximum number of blocks of
 * a file. */
#define BRING_NBYTES ((uint64_t)64 << 10)
#define BRING_BLOCKS 512
/* The first file of a data set is read to learn its channels, unless it is longer than this. */
#define PROBE_NBYTES_MAX ((uint64_t)64 << 20)

static struct psti_sound_part part_of(const struct psti_audio *audio)
{
    return (struct psti_sound_part){.rate = audio->info.rate,
                                    .channels = audio->info.channels,
                                    .length = audio->info.n_samples};
}

/* Opens the first sample's sound, as an example of the others. False: that is not possible. */
static bool probe_first(pst_dataset *dataset, const struct psti_loader_plan_field *plan,
                        struct psti_sound_part *part)
{
    struct pst_item item;
    struct psti_audio audio;
    bool found = false;
    if (pst_dataset_count(dataset) == 0 ||
        pst_dataset_item(dataset, 0, plan->i_field, 0, &item, sizeof item, NULL) != PST_OK)
        return false;
    psti_dataset_item_decoded(&item);
    if (item.nbytes == 0 || item.nbytes > PROBE_NBYTES_MAX)
        return false;
    uint64_t n_here = item.nbytes < HEAD_NBYTES ? item.nbytes : HEAD_NBYTES;
    uint8_t *bytes = psti_alloc((size_t)item.nbytes);
    for (int round = 0; bytes && !found && round < 2; round++, n_here = item.nbytes) {
        if (pst_dataset_read(dataset, 0, plan->i_field, 0, 0, n_here, bytes, NULL) != PST_OK ||
            psti_decode_audio_open(&audio,
                                   &(struct psti_audio_file){.bytes = bytes,
                                                             .n_here = (size_t)n_here,
                                                             .nbytes = item.nbytes},
                                   NULL) != PST_OK)
            continue;
        *part = part_of(&audio);
        psti_decode_audio_close(&audio);
        found = true;
    }
    psti_free(bytes);
    return found;
}

/* True if batches lie on a GPU, and the options let it prepare rows, not only hold them. */
static bool makes_features(const struct pst_loader_options *options)
{
    return options->placement == PST_PLACEMENT_DEVICE && options->decode != PST_DECODE_CPU;
}

enum pst_status psti_loader_sound_plan(pst_dataset *dataset,
                                       const struct pst_loader_options *options,
                                       const struct pst_field_output *wish,
                                       struct psti_loader_plan_field *plan,
                                       struct psti_slot_field *slot, struct pst_error *err)
{
    enum pst_dtype dtype = wish->dtype ? wish->dtype : PST_DTYPE_F32;
    struct psti_sound_part part;
    struct psti_sound_draw draw;
    plan->fill = PSTI_LOADER_FILL_SOUND;
    enum pst_status status =
        psti_sound_chain_open(wish->audio_ops, wish->n_audio_ops, dtype, &plan->sound, err);
    if (status != PST_OK)
        return status;
    slot->dtype = dtype;
    slot->ndim = psti_sound_chain_shape(plan->sound, slot->shape);
    plan->fixed = true;
    for (uint32_t i = 0; i < slot->ndim; i++)
        plan->fixed = plan->fixed && slot->shape[i] > 0;
    slot->has_array = plan->fixed;
    slot->may_differ = !plan->fixed;
    plan->gpu_makes = plan->fixed && slot->ndim == 3 && makes_features(options);
    slot->gpu_makes = plan->gpu_makes;
    /* On a GPU, all arrays are uploaded, so rows that are put together have none. */
    if (plan->fixed ||
        (options->placement == PST_PLACEMENT_DEVICE && wish->ragged != PST_RAGGED_LIST) ||
        slot->shape[slot->ndim - 1] == 0 || !probe_first(dataset, plan, &part))
        return PST_OK;
    /* The length is fixed. Rows are expected to have as many channels as the first sample. */
    const struct psti_sound_key key = {.own = 1};
    if (psti_sound_chain_draw(plan->sound, &key, &part, &draw, NULL) == PST_OK) {
        memcpy(slot->shape, draw.shape, sizeof draw.shape);
        slot->has_array = true;
    }
    return PST_OK;
}

static enum pst_status draw_of(const struct psti_loader_plan_field *field,
                               const struct psti_draw_key *key, const struct psti_sound_part *part,
                               struct psti_sound_draw *draw, struct pst_error *err)
{
    const struct psti_sound_key sound = {.seed = key->seed,
                                         .epoch = key->epoch,
                                         .sample = key->sample,
                                         .draw = key->draw,
                                         .view = key->view,
                                         .own = field->i_field + 1};
    return psti_sound_chain_draw(field->sound, &sound, part, draw, err);
}

void psti_loader_sound_consider(const pst_loader *loader, const struct psti_draw_key *key,
                                const struct psti_loader_plan_field *field,
                                struct psti_loader_source *source)
{
    const struct pst_item *item = &source->item;
    int64_t shape[3];
    uint32_t ndim = psti_sound_chain_shape(field->sound, shape);
    if (shape[ndim - 1] == 0 || item->nbytes < SPARSE_MIN_NBYTES || loader->tiers.shelf ||
        (item->has_checksum && !loader->options.no_verify) || (!source->file && !source->path))
        return;
    source->sparse = true;
    source->n_here = (size_t)(HEAD_NBYTES + BLOCK_NBYTES - item->offset % BLOCK_NBYTES);
    source->sound_key = *key;
}

struct pst_pli_range psti_loader_sound_range(const pst_loader *loader,
                                             const struct psti_loader_plan_field *field,
                                             struct psti_loader_source *source)
{
    struct psti_audio audio;
    struct psti_sound_draw draw;
    uint64_t nbytes = source->item.nbytes, base = source->item.offset;
    struct pst_pli_range range = {source->n_here, nbytes - source->n_here};
    const struct psti_audio_file file = {source->data, source->n_here, nbytes, NULL, NULL};
    source->partial = source->on_demand = !psti_decode_is_wav(source->data, source->n_here);
    (void)loader;
    if (source->on_demand)
        return (struct pst_pli_range){0, 0};
    if (psti_decode_audio_open(&audio, &file, NULL) != PST_OK)
        return range;
    const struct psti_sound_part part = part_of(&audio);
    if (draw_of(field, &source->sound_key, &part, &draw, NULL) == PST_OK) {
        uint64_t block = (uint64_t)audio.wav.sample_nbytes * audio.wav.channels;
        uint64_t first = audio.wav.data + draw.source.first * block;
        uint64_t end = first + draw.source.n * block;
        /* Whole blocks of the file are read, because O_DIRECT requires that. */
        first = (base + first) / BLOCK_NBYTES * BLOCK_NBYTES;
        first = first > base + source->n_here ? first - base : source->n_here;
        end = (base + end + BLOCK_NBYTES - 1) / BLOCK_NBYTES * BLOCK_NBYTES - base;
        end = end < nbytes ? end : nbytes;
        if (nbytes - source->n_here - (end > first ? end - first : 0) >= nbytes / 4) {
            range.offset = first;
            range.nbytes = end > first ? end - first : 0;
            source->partial = true;
        }
    }
    psti_decode_audio_close(&audio);
    return range;
}

/* Reads bytes of a sound when its decoder needs them, in blocks that follow the head. */
struct bringer {
    struct psti_loader_worker *worker;
    const struct psti_loader_source *source;
    uint64_t block;
    uint64_t here[BRING_BLOCKS / 64]; /* a bit for each block that is in memory */
    enum pst_status status;
    struct pst_error err;
};

static bool is_here(const struct bringer *bringer, uint64_t i)
{
    return bringer->here[i / 64] >> i % 64 & 1;
}

/* Reads blocks i to `last`. */
static bool bring_blocks(struct bringer *bringer, uint64_t i, uint64_t last)
{
    const struct psti_loader_source *source = bringer->source;
    uint64_t first = source->n_here + i * bringer->block;
    uint64_t end = source->n_here + (last + 1) * bringer->block;
    end = end < source->item.nbytes ? end : source->item.nbytes;
    char *bytes = (char *)source->buffer + ((const char *)source->data - (char *)source->buffer);
    struct psti_read read = {.file = source->file,
                             .path = source->path,
                             .stamp = source->stamp,
                             .file_nbytes = source->path ? source->item.nbytes : 0,
                             .offset = source->item.offset + first,
                             .nbytes = (size_t)(end - first),
                             .buffer = bytes + first};
    int64_t start = psti_clock_ns();
    bringer->status = psti_loader_worker_run_read(bringer->worker, &read);
    psti_loader_worker_read_here(bringer->worker, start, true);
    if (bringer->status != PST_OK) {
        bringer->err = read.error;
        return false;
    }
    if (read.data != read.buffer)
        memmove(read.buffer, read.data, read.nbytes);
    for (; i <= last; i++)
        bringer->here[i / 64] |= (uint64_t)1 << i % 64;
    return true;
}

static bool bring(void *ctx, uint64_t first, uint64_t n)
{
    struct bringer *bringer = ctx;
    uint64_t head = bringer->source->n_here, end = first + n;
    if (end <= head)
        return true;
    uint64_t i = first > head ? (first - head) / bringer->block : 0;
    uint64_t last = (end - 1 - head) / bringer->block;
    for (; bringer->status == PST_OK && i <= last; i++) {
        uint64_t from = i;
        if (is_here(bringer, i))
            continue;
        while (i < last && !is_here(bringer, i + 1))
            i++;
        if (!bring_blocks(bringer, from, i))
            return false;
    }
    return bringer->status == PST_OK;
}

/* Charges the memory that the run still lacks for this draw. */
static enum pst_status charge(struct psti_loader_worker *worker,
                              const struct psti_sound_chain *chain,
                              const struct psti_sound_draw *draw, struct pst_error *err)
{
    size_t lacks = psti_sound_run_lacks(worker->sound, chain, draw);
    if (lacks == 0)
        return PST_OK;
    if (psti_batch_pool_charge(worker->loader->pool, lacks, false)) {
        worker->sound_nbytes += lacks;
        return PST_OK;
    }
    worker->starved = true;
    return psti_fail(err, PST_ERROR_LIMIT, "loader",
                     "host_memory (%llu bytes) leaves no %zu bytes to decode a sound",
                     (unsigned long long)worker->loader->options.host_memory, lacks);
}

/* Releases the charge for memory that the run freed when it replaced a filter. */
static void settle_charge(struct psti_loader_worker *worker)
{
    size_t has = psti_sound_run_nbytes(worker->sound);
    if (has < worker->sound_nbytes) {
        psti_batch_pool_uncharge(worker->loader->pool, worker->sound_nbytes - has);
        worker->sound_nbytes = has;
    }
}

static enum pst_status no_room(struct psti_loader_worker *worker, enum pst_status status,
                               const char *name, struct pst_error *err)
{
    worker->starved = status == PST_ERROR_LIMIT;
    return psti_fail(err, status, "loader", "no memory for a row of field '%s'", name);
}

/* Finds where the row goes: its waveforms for a GPU, or the finished row. */
static enum pst_status find_place(struct psti_loader_worker *worker, pst_batch *batch,
                                  uint32_t i_plan, uint32_t row, const struct psti_sound_draw *draw,
                                  struct psti_place *place, struct pst_error *err)
{
    const struct psti_loader_plan_field *field = &worker->loader->plan.fields[i_plan];
    enum pst_status status = PST_OK;
    if (field->gpu_makes)
        return worker->loader->placement.ops->place_sound(worker, batch, i_plan, row, draw, place,
                                                          err);
    place->kind = PSTI_LOADER_PLACE_ROW;
    place->data = field->fixed
                      ? psti_batch_array_row(batch, i_plan, row)
                      : psti_batch_new_row(batch, i_plan, row, draw->ndim, draw->shape, &status);
    return place->data ? PST_OK : no_room(worker, status, field->field->name, err);
}

/* Applies the operations to the sound that the worker has decoded: all of them, or those before the
 * features that a GPU makes. */
static enum pst_status run_chain(struct psti_loader_worker *worker, pst_batch *batch,
                                 uint32_t i_plan, uint32_t row, const struct psti_sound_draw *draw,
                                 const struct psti_place *place, struct pst_error *err)
{
    const struct psti_loader_plan_field *field = &worker->loader->plan.fields[i_plan];
    enum pst_status status = PST_OK;
    int64_t since = psti_stall_meter_enter_augment(&worker->meter);
    if (place->kind == PSTI_LOADER_PLACE_WAVES)
        psti_sound_run_waves(worker->sound, field->sound, draw, place->data);
    else
        status = psti_sound_run_end(worker->sound, field->sound, draw, place->data, err);
    psti_stall_meter_leave_augment(&worker->meter, since);
    if (status == PST_OK && field->gpu_makes)
        worker->loader->placement.ops->done_sound(worker, batch, i_plan, row);
    return status;
}

static enum pst_status decode(struct psti_loader_worker *worker, struct psti_audio *audio,
                              pst_batch *batch, uint32_t i_plan, uint32_t row,
                              const struct psti_draw_key *key, struct pst_error *err)
{
    const struct psti_loader_plan_field *field = &worker->loader->plan.fields[i_plan];
    const struct psti_sound_part part = part_of(audio);
    struct psti_sound_draw draw;
    enum pst_status status = draw_of(field, key, &part, &draw, err);
    if (status == PST_OK)
        status = charge(worker, field->sound, &draw, err);
    if (status != PST_OK)
        return status;
    float *source = psti_sound_run_begin(worker->sound, field->sound, &draw, err);
    settle_charge(worker);
    if (!source)
        return PST_ERROR_MEMORY;
    status = psti_decode_audio_read(audio, draw.source.first, (size_t)draw.source.n, source, err);
    if (status != PST_OK)
        return status;
    struct psti_place place = {.kind = PSTI_LOADER_PLACE_NOWHERE};
    status = find_place(worker, batch, i_plan, row, &draw, &place, err);
    if (status != PST_OK || place.kind == PSTI_LOADER_PLACE_NOWHERE)
        return status;
    status = run_chain(worker, batch, i_plan, row, &draw, &place, err);
    size_t n = 1;
    for (uint32_t i = 0; i < draw.ndim; i++)
        n *= (size_t)draw.shape[i];
    worker->nbytes_decoded += n * pst_dtype_nbytes(psti_sound_chain_dtype(field->sound));
    return status;
}

enum pst_status psti_loader_row_sound(struct psti_loader_worker *worker, pst_batch *batch,
                                      uint32_t i_plan, uint32_t row,
                                      const struct psti_draw_key *key,
                                      const struct psti_loader_source *source,
                                      struct pst_error *err)
{
    struct psti_audio audio;
    uint64_t nbytes = source->item.nbytes;
    enum pst_status status = PST_OK;
    if (!worker->sound)
        status = psti_sound_run_open(&worker->sound, err);
    if (status != PST_OK)
        return status;
    struct bringer bringer = {.worker = worker, .source = source, .block = BRING_NBYTES};
    while (bringer.block * BRING_BLOCKS < nbytes)
        bringer.block *= 2;
    const struct psti_audio_file file = {.bytes = source->data,
                                         .n_here =
                                             source->partial ? source->n_here : (size_t)nbytes,
                                         .nbytes = nbytes,
                                         .bring = source->on_demand ? bring : NULL,
                                         .ctx = &bringer};
    status = psti_decode_audio_open(&audio, &file, err);
    if (status == PST_OK) {
        status = decode(worker, &audio, batch, i_plan, row, key, err);
        if (status != PST_OK && err && !err->codec[0])
            psti_error_set_codec(err, audio.info.codec);
        psti_decode_audio_close(&audio);
    }
    if (status != PST_OK &&
        bringer.status != PST_OK) { /* use the read's error, as the decoder only reports missing
                                       bytes */
        status = bringer.status;
        if (err)
            *err = bringer.err;
        return status;
    }
    worker->n_partial += status == PST_OK && source->partial;
    if (status != PST_OK && err && err->offset >= 0)
        err->offset += (int64_t)source->item.offset;
    return status;
}
