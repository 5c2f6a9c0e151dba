/* loader_gpu.c - opens and closes the GPU on which slots lie, with the data that all slots share,
 * and defines the table of the placement's operations. */
#include "loader/placement/loader_gpu.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

/* Opens a field, or view number `view` of it. */
static enum pst_status open_part(pst_loader *loader, struct psti_loader_gpu *gpu, uint32_t i_plan,
                                 uint32_t view, struct pst_error *err)
{
    const struct psti_loader_plan_field *plan = &loader->plan.fields[i_plan];
    const struct psti_slot_field *slot = &loader->plan.slots[i_plan];
    const int64_t *shape = slot->shape + plan->has_view_axis;
    uint32_t i = gpu->n_fields;
    bool chw = plan->layout == PST_LAYOUT_CHW;
    uint32_t size[2] = {(uint32_t)shape[chw ? 1 : 0], (uint32_t)shape[chw ? 2 : 1]};
    if (!plan->fixed)
        psti_loader_gpu_expect_size(loader, i_plan, size);
    const struct psti_gpu_field_options options = {
        .chain = plan->chain,
        .decode = plan->decode,
        .output = {.dtype = slot->dtype,
                   .layout = plan->layout,
                   .channels = plan->channels,
                   .bits = plan->bits,
                   .is_mask = plan->field->type == PST_FIELD_MASK},
        .height = size[0],
        .width = size[1],
        .may_differ = !plan->fixed,
        .row_step = plan->n_views};
    enum pst_status status = psti_gpu_field_open(&options, &gpu->fields[i], err);
    if (status != PST_OK)
        return status;
    gpu->plan_fields[i] = i_plan;
    gpu->views[i] = view;
    if (view == 0)
        gpu->fields_of_plan[i_plan] = i;
    gpu->is_loose[i] = !plan->fixed;
    gpu->pads[i] = !plan->fixed && slot->ragged.kind == PST_RAGGED_PADDED;
    memcpy(gpu->fills[i], slot->ragged.fill, sizeof gpu->fills[i]);
    if (gpu->is_loose[i]) {
        gpu->loose_numbers[i] = gpu->n_loose;
        gpu->loose_parts[gpu->n_loose++] = i;
    }
    gpu->n_fields++;
    gpu->recodes[i] = psti_recode_has_field(loader->kept.recode_key, plan->i_field);
    psti_loader_gpu_expect_items(gpu, loader, i);
    return PST_OK;
}

static enum pst_status open_field(pst_loader *loader, struct psti_loader_gpu *gpu, uint32_t i_plan,
                                  struct pst_error *err)
{
    const struct psti_loader_plan_field *plan = &loader->plan.fields[i_plan];
    uint32_t n = plan->n_views ? plan->n_views : 1;
    if (plan->any_channels)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': images on a GPU have one number of channels: set 1, 3 "
                         "or 4 instead of the stored number",
                         plan->field->name);
    if (!plan->fixed && loader->share)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': images that differ in size cannot come to a GPU from a group "
                         "(share): end the field's operations with a Resize to (height, width), a "
                         "Letterbox or a crop, or leave out share",
                         plan->field->name);
    enum pst_status status = PST_OK;
    for (uint32_t view = 0; status == PST_OK && view < n; view++)
        status = open_part(loader, gpu, i_plan, view, err);
    return status;
}

/* Uploads the tables of the codecs and of the fields. They stay on the GPU. */
static enum pst_status upload_constants(struct psti_loader_gpu *gpu, struct pst_error *err)
{
    void *pinned = NULL;
    const struct psti_gpu_field *const *fields = (const struct psti_gpu_field *const *)gpu->fields;
    size_t built_in = psti_gpu_constants_nbytes();
    size_t nbytes = built_in + psti_gpu_tables_nbytes(fields, gpu->n_fields);
    enum pst_status status = psti_device_alloc(gpu->device, nbytes, &gpu->constants, err);
    if (status != PST_OK)
        return status;
    gpu->constants_nbytes = nbytes;
    status = psti_device_alloc_pinned(gpu->device, nbytes, &pinned, err);
    if (status != PST_OK)
        return status;
    psti_gpu_constants_write(pinned);
    psti_gpu_tables_write(fields, gpu->n_fields, (char *)pinned + built_in);
    status = psti_device_stream_upload(gpu->stream, gpu->constants, pinned, nbytes, err);
    enum pst_status synced = psti_device_stream_sync(gpu->stream, status == PST_OK ? err : NULL);
    psti_device_free_pinned(gpu->device, pinned, nbytes);
    return status == PST_OK ? synced : status;
}

static enum pst_status open_scratch(struct psti_loader_gpu *gpu, uint32_t batch_size,
                                    struct pst_error *err)
{
    struct psti_gpu_block_size size;
    psti_loader_gpu_block_size(gpu, batch_size, &size);
    if (size.scratch_nbytes == 0)
        return PST_OK;
    enum pst_status status =
        psti_device_alloc(gpu->device, size.scratch_nbytes, &gpu->scratch, err);
    if (status == PST_OK)
        gpu->scratch_nbytes = size.scratch_nbytes;
    return status;
}

static enum pst_status open_parts(pst_loader *loader, struct psti_loader_gpu *gpu,
                                  struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    const struct psti_device_options device = {.ordinal = (uint32_t)gpu->ordinal,
                                               .device_memory = options->device_memory};
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < loader->plan.n_fields; i++)
        if (loader->plan.fields[i].fill == PSTI_LOADER_FILL_PIXELS)
            status = open_field(loader, gpu, i, err);
        else if (loader->plan.fields[i].gpu_makes)
            status = psti_loader_gpu_open_sound(gpu, loader, i, err);
    if (status == PST_OK)
        status = psti_device_open(&device, &gpu->device, err);
    if (status == PST_OK && gpu->n_fields)
        status = psti_device_load_kernels(gpu->device, psti_gpu_kernel_names(),
                                          (uint32_t)psti_gpu_kernel_count(), err);
    if (status == PST_OK)
        status = psti_device_stream_open(gpu->device, true, &gpu->stream, err);
    if (status == PST_OK && gpu->n_fields)
        status = psti_device_stream_open(gpu->device, true, &gpu->uploads, err);
    if (status == PST_OK && gpu->n_fields)
        status = upload_constants(gpu, err);
    if (status == PST_OK)
        status = open_scratch(gpu, options->batch_size, err);
    return status;
}

/* Frees all memory and closes the GPU. The pool calls it after it freed the last slot. */
static void close_gpu(void *ctx)
{
    struct psti_loader_gpu *gpu = ctx;
    psti_loader_gpu_close_homes(gpu);
    psti_device_stream_close(&gpu->uploads);
    psti_device_stream_close(&gpu->stream);
    if (gpu->scratch)
        psti_device_free(gpu->device, gpu->scratch, gpu->scratch_nbytes);
    if (gpu->constants)
        psti_device_free(gpu->device, gpu->constants, gpu->constants_nbytes);
    for (uint32_t i = 0; i < gpu->n_fields; i++)
        psti_gpu_field_close(&gpu->fields[i]);
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        psti_augment_chain_free(&gpu->chains[i]);
    psti_device_close(&gpu->device);
    pthread_mutex_destroy(&gpu->stream_lock);
    psti_free(gpu);
}

/* The table
 * ------------------------------------------------------------------------------------------------
 */

/* Claims a slot. psti_batch_pool_claim may make a new one (loader_gpu_slot.c), which sets `refusal`
 * and `slot_err`. The lock is held. */
static enum pst_status claim(pst_loader *loader, uint32_t n_rows, pst_batch **batch)
{
    psti_loader_gpu_of(loader)->refusal = PST_OK;
    return psti_batch_pool_claim(loader->pool, n_rows, batch);
}

static bool refused(const pst_loader *loader, const struct psti_batch_pool_stats *stats,
                    struct pst_error *err)
{
    const struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    enum pst_status status = gpu->refusal != PST_OK ? gpu->refusal : gpu->loose_refusal;
    if (status == PST_OK)
        return false;
    if (!err)
        return true;
    char cause[PST_ERROR_TEXT_CAP];
    snprintf(cause, sizeof cause, "%s",
             gpu->refusal != PST_OK ? gpu->slot_err.text : gpu->loose_err.text);
    psti_fail(err, status, "loader",
              "the GPU has no memory for another batch (%u exist, you hold %u): %.300s",
              stats->n_slots, stats->n_held, cause);
    return true;
}

static void fill_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    const struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    struct psti_device_info info;
    psti_device_info(gpu->device, &info);
    stats->device = gpu->ordinal;
    stats->device_memory = loader->options.device_memory;
    stats->device_memory_used = info.device_memory_used;
    stats->device_memory_peak = info.device_memory_peak;
}

static void fill_times(const pst_loader *loader, uint64_t *link_ns, uint64_t *gpu_ns)
{
    const struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    *link_ns = atomic_load_explicit(&gpu->upload_ns, memory_order_relaxed);
    *gpu_ns = atomic_load_explicit(&gpu->work_ns, memory_order_relaxed);
}

/* Takes over the plan's chains. The GPU's fields use them, and the last batch may be released after
 * the plan was freed. */
static void detach(void *own, struct psti_loader_plan *plan)
{
    struct psti_loader_gpu *gpu = own;
    for (uint32_t i = 0; i < gpu->n_fields; i++)
        if (gpu->views[i] == 0 && !plan->fields[gpu->plan_fields[i]].sound) {
            uint32_t i_plan = gpu->plan_fields[i];
            gpu->chains[i_plan] = psti_loader_plan_take_chain(&plan->fields[i_plan]);
        }
}

static const struct psti_placement_ops gpu_ops = {.remakes = true,
                                                  .open_worker = psti_loader_gpu_open_worker,
                                                  .close_worker = psti_loader_gpu_close_worker,
                                                  .claim = claim,
                                                  .refused = refused,
                                                  .begin = psti_loader_gpu_begin,
                                                  .place = psti_loader_gpu_place,
                                                  .done = psti_loader_gpu_done,
                                                  .place_sound = psti_loader_gpu_place_sound,
                                                  .done_sound = psti_loader_gpu_done_sound,
                                                  .submit = psti_loader_gpu_submit,
                                                  .wait = psti_loader_gpu_wait,
                                                  .finish = psti_loader_gpu_finish,
                                                  .carry = psti_loader_gpu_carry,
                                                  .bring = psti_loader_gpu_bring,
                                                  .brings = psti_loader_gpu_brings,
                                                  .forget = psti_loader_gpu_forget,
                                                  .quiesce = psti_loader_gpu_quiesce,
                                                  .stats = fill_stats,
                                                  .times = fill_times,
                                                  .detach = detach};

enum pst_status psti_loader_gpu_open(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    struct psti_loader_gpu *gpu = psti_calloc(1, sizeof *gpu);
    if (!gpu)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a GPU");
    pthread_mutex_init(&gpu->stream_lock, NULL);
    gpu->ordinal = options->device;
    gpu->batch_size = options->batch_size;
    gpu->lock = loader->lock;
    gpu->part = options->decode == PST_DECODE_CPU ? 0
                : options->gpu_part > 0           ? options->gpu_part
                                                  : 1;
    enum pst_status status = open_parts(loader, gpu, err);
    if (status != PST_OK) {
        close_gpu(gpu);
        return status;
    }
    struct psti_slot_gpu hooks;
    psti_loader_gpu_hooks(gpu, close_gpu, &hooks);
    hooks.make_rows = psti_loader_gpu_make_rows;
    hooks.unmake_rows = psti_loader_gpu_unmake_rows;
    psti_batch_pool_set_gpu(loader->pool, &hooks); /* from here on the pool closes the GPU */
    loader->placement = (struct psti_placement){.ops = &gpu_ops, .own = gpu};
    return PST_OK;
}
