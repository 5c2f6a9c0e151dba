/* loader_gpu.c - opens and closes the GPU that slots lie on, with the data that all slots share.
 *
 * The sizes of stored images are estimated once, from some items spread over the data set. The
 * estimate decides the size of a slot's block, never the result. Larger images leave less space,
 * and rows without space come in another round. */
#include "loader/placement/loader_gpu.h"

#include "loader/loader_forms.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PROBES_MAX 256
#define FILES_MAX 16 /* files of a folder whose headers are read */
#define MARGIN 1.25  /* sizes are multiplied by it; the sum over a batch stays near the mean */
#define ROW_ALIGNMENT 256

/* True for forms that are decoded on a GPU. */
static bool is_gpu_form(enum pst_form form)
{
    return form == PST_FORM_RAW || form == PST_FORM_PLI || form == PST_FORM_PLI_JPEG;
}

static bool find_item(const pst_loader *loader, const struct psti_loader_plan_field *plan,
                      uint64_t sample, struct pst_item *item)
{
    for (uint32_t v = 0; v < plan->field->n_variants; v++)
        if ((plan->variant_mask & (1u << v)) &&
            pst_dataset_item(loader->dataset, sample, plan->i_field, v, item, sizeof *item, NULL) ==
                PST_OK &&
            psti_loader_plan_item_is_there(loader->dataset, item))
            return true;
    return false;
}

/* Looks at a file of a folder, of which only the length is known. */
static void look_at_file(const pst_loader *loader, const struct psti_loader_plan_field *plan,
                         uint64_t sample, struct pst_item *item)
{
    struct pst_image_info info = {0};
    if (item->form != PST_FORM_NONE)
        return;
    if (psti_loader_plan_probe_file(loader->dataset, plan, sample, &info)) {
        item->form = info.form;
        item->height = info.height;
        item->width = info.width;
        item->channels = info.channels;
        item->bits = info.bits;
    }
}

/* The cache brings such an item in another form, once it has it. */
static void expect_recoded(const pst_loader *loader, const struct psti_loader_plan_field *plan,
                           struct pst_item *item)
{
    enum psti_recode_form form = psti_recode_form(loader->recode_key);
    if (!psti_recode_has_field(loader->recode_key, plan->i_field))
        return;
    if (form == PSTI_RECODE_RAW) {
        item->form = PST_FORM_RAW;
        item->nbytes = (uint64_t)item->height * item->width * item->channels * (item->bits / 8);
    } else if (item->form == PST_FORM_JPEG) {
        item->form = PST_FORM_PLI_JPEG;
    } else if (form != PSTI_RECODE_PLI_JPEG && item->form != PST_FORM_PLI_JPEG) {
        item->form = PST_FORM_PLI;
    }
}

/* Sets the expected item of a field: the mean of some items that the GPU decodes. */
static void expect_items(struct psti_loader_gpu *gpu, const pst_loader *loader, uint32_t i_field)
{
    const struct psti_loader_plan_field *plan = &loader->plan.fields[gpu->plan_fields[i_field]];
    struct psti_gpu_item_size *size = &gpu->items[i_field];
    uint64_t count = pst_dataset_count(loader->dataset), n = 0;
    uint64_t n_probes = pst_dataset_is_folder(loader->dataset) ? FILES_MAX : PROBES_MAX;
    n_probes = count < n_probes ? count : n_probes;
    double nbytes = 0, pixels = 0;
    for (uint64_t i = 0; i < n_probes; i++) {
        struct pst_item item;
        uint64_t sample = psti_divide_u128((unsigned __int128)count * i, n_probes);
        if (!psti_loader_forms_item(loader, gpu->plan_fields[i_field], i, sample, &item) &&
            !find_item(loader, plan, sample, &item))
            continue;
        look_at_file(loader, plan, sample, &item);
        expect_recoded(loader, plan, &item);
        if (!is_gpu_form(item.form) || !item.height || !item.width)
            continue;
        *size = (struct psti_gpu_item_size){
            .form = item.form, .channels = item.channels, .bits = item.bits};
        nbytes += (double)item.nbytes;
        pixels += (double)item.height * item.width;
        n++;
    }
    gpu->decodes[i_field] = n > 0;
    if (n == 0)
        return;
    double edge = sqrt(MARGIN * pixels / (double)n);
    size->nbytes = (size_t)(MARGIN * nbytes / (double)n) + 1;
    size->height = size->width = (uint32_t)(edge < 65535 ? edge + 1 : 65535);
}

void psti_loader_gpu_block_size(const struct psti_loader_gpu *gpu, uint32_t n_rows,
                                struct psti_gpu_block_size *size)
{
    const struct psti_gpu_field *fields[PST_MAX_FIELDS];
    struct psti_gpu_item_size items[PST_MAX_FIELDS];
    uint32_t n = 0, n_gpu_rows = (uint32_t)(gpu->part * n_rows);
    uint64_t finished = 0;
    n_gpu_rows -= n_gpu_rows > 0 && gpu->part < 1; /* the fewest of any batch, also when rounded */
    for (uint32_t i = 0; i < gpu->n_fields; i++) {
        uint64_t row = psti_gpu_field_row_nbytes(gpu->fields[i]) + ROW_ALIGNMENT;
        finished += row * (gpu->decodes[i] && !gpu->recodes[i] ? n_rows - n_gpu_rows : n_rows);
        if (!gpu->decodes[i])
            continue;
        fields[n] = gpu->fields[i];
        items[n++] = gpu->items[i];
    }
    *size = (struct psti_gpu_block_size){0, 0};
    if (gpu->n_fields == 0)
        return;
    /* A block has fixed parts for all fields. A field that the GPU does not decode counts as the
     * smallest kind of item. */
    for (uint32_t i = 0; i < gpu->n_fields; i++)
        if (!gpu->decodes[i]) {
            fields[n] = gpu->fields[i];
            items[n++] = (struct psti_gpu_item_size){.form = PST_FORM_RAW,
                                                     .nbytes = 1,
                                                     .height = 1,
                                                     .width = 1,
                                                     .channels = 1,
                                                     .bits = 8};
        }
    psti_gpu_block_size(fields, items, n, n_rows, size);
    size->upload_nbytes += finished;
}

static enum pst_status open_field(pst_loader *loader, struct psti_loader_gpu *gpu, uint32_t i_plan,
                                  struct pst_error *err)
{
    const struct psti_loader_plan_field *plan = &loader->plan.fields[i_plan];
    const struct psti_slot_field *slot = &loader->plan.slots[i_plan];
    uint32_t i = gpu->n_fields;
    if (plan->any_channels)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': images on a GPU have one number of channels: set 1, 3 "
                         "or 4 instead of the stored number",
                         plan->field->name);
    if (!plan->fixed)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': images on a GPU have one size: end its operations with a "
                         "Resize to (height, width), a Letterbox or a crop, or leave it in host "
                         "memory (no device)",
                         plan->field->name);
    bool chw = plan->layout == PST_LAYOUT_CHW;
    const struct psti_gpu_field_options options = {
        .chain = plan->chain,
        .decode = plan->decode,
        .output = {.dtype = slot->dtype,
                   .layout = plan->layout,
                   .channels = plan->channels,
                   .bits = plan->bits,
                   .is_mask = plan->field->type == PST_FIELD_MASK},
        .height = (uint32_t)slot->shape[chw ? 1 : 0],
        .width = (uint32_t)slot->shape[chw ? 2 : 1]};
    enum pst_status status = psti_gpu_field_open(&options, &gpu->fields[i], err);
    if (status != PST_OK)
        return status;
    gpu->plan_fields[i] = i_plan;
    gpu->fields_of_plan[i_plan] = i;
    gpu->n_fields++;
    gpu->recodes[i] = psti_recode_has_field(loader->recode_key, plan->i_field);
    expect_items(gpu, loader, i);
    return PST_OK;
}

/* Uploads the codecs' tables, which stay on the GPU. */
static enum pst_status upload_constants(struct psti_loader_gpu *gpu, struct pst_error *err)
{
    void *pinned = NULL;
    size_t nbytes = psti_gpu_constants_nbytes();
    enum pst_status status = psti_device_alloc(gpu->device, nbytes, &gpu->constants, err);
    if (status != PST_OK)
        return status;
    gpu->constants_nbytes = nbytes;
    status = psti_device_alloc_pinned(gpu->device, nbytes, &pinned, err);
    if (status != PST_OK)
        return status;
    psti_gpu_constants_write(pinned);
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

void psti_loader_gpu_close(struct psti_loader_gpu **gpu_ptr)
{
    struct psti_loader_gpu *gpu = *gpu_ptr;
    if (!gpu)
        return;
    *gpu_ptr = NULL;
    psti_loader_gpu_close_homes(gpu);
    psti_device_stream_close(&gpu->uploads);
    psti_device_stream_close(&gpu->stream);
    if (gpu->scratch)
        psti_device_free(gpu->device, gpu->scratch, gpu->scratch_nbytes);
    if (gpu->constants)
        psti_device_free(gpu->device, gpu->constants, gpu->constants_nbytes);
    for (uint32_t i = 0; i < gpu->n_fields; i++) {
        psti_gpu_field_close(&gpu->fields[i]);
        psti_augment_chain_free(&gpu->chains[i]);
    }
    psti_device_close(&gpu->device);
    pthread_mutex_destroy(&gpu->stream_lock);
    psti_free(gpu);
}

/* The table
 * ------------------------------------------------------------------------------------------------
 */

/* The pool's make (loader_gpu_slot.c) writes `refusal` and `slot_err` within psti_batch_pool_claim.
 * The lock is held in both places. */
static enum pst_status claim(pst_loader *loader, uint32_t n_rows, pst_batch **batch)
{
    psti_loader_gpu_of(loader)->refusal = PST_OK;
    return psti_batch_pool_claim(loader->pool, n_rows, batch);
}

static bool refused(const pst_loader *loader, const struct psti_batch_pool_stats *stats,
                    struct pst_error *err)
{
    const struct psti_loader_gpu *gpu = psti_loader_gpu_of(loader);
    if (gpu->refusal == PST_OK)
        return false;
    if (!err)
        return true;
    char cause[PST_ERROR_TEXT_CAP];
    snprintf(cause, sizeof cause, "%s", gpu->slot_err.text);
    psti_fail(err, gpu->refusal, "loader",
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

/* The GPU's fields point to the plan's chains, and the last batch may be released after the plan is
 * gone. So the GPU takes the chains over. */
static void detach(void *own, struct psti_loader_plan *plan)
{
    struct psti_loader_gpu *gpu = own;
    for (uint32_t i = 0; i < gpu->n_fields; i++)
        gpu->chains[i] = psti_loader_plan_take_chain(&plan->fields[gpu->plan_fields[i]]);
}

static const struct psti_placement_ops gpu_ops = {.remakes = true,
                                                  .open_worker = psti_loader_gpu_open_worker,
                                                  .close_worker = psti_loader_gpu_close_worker,
                                                  .claim = claim,
                                                  .refused = refused,
                                                  .begin = psti_loader_gpu_begin,
                                                  .place = psti_loader_gpu_place,
                                                  .done = psti_loader_gpu_done,
                                                  .submit = psti_loader_gpu_submit,
                                                  .wait = psti_loader_gpu_wait,
                                                  .finish = psti_loader_gpu_finish,
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
    gpu->part = options->decode == PST_DECODE_CPU ? 0
                : options->gpu_part > 0           ? options->gpu_part
                                                  : 1;
    enum pst_status status = open_parts(loader, gpu, err);
    if (status != PST_OK) {
        psti_loader_gpu_close(&gpu);
        return status;
    }
    struct psti_slot_gpu hooks;
    psti_loader_gpu_hooks(gpu, &hooks);
    psti_batch_pool_set_gpu(loader->pool, &hooks); /* the pool closes the GPU from here on */
    loader->placement = (struct psti_placement){.ops = &gpu_ops, .own = gpu};
    return PST_OK;
}
