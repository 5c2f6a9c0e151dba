/* loader_gpu_size.c - estimates how large the items of a field on a GPU are, and so the block of a
 * slot.
 *
 * The sizes of stored images are estimated once, from some items spread over the data set. The
 * estimate affects only the size of a slot's block, never the result. If images are larger, fewer
 * fit, and rows without space are made in another round. */
#include "loader/placement/loader_gpu.h"

#include "loader/tiers/loader_forms.h"

#include "base/bits.h"
#include "dataset/dataset.h"

#include <math.h>

#define PROBES_MAX 256
#define FILES_MAX 16 /* maximum number of files of a folder whose headers are read */
#define MARGIN                                                                                     \
    1.25 /* factor for estimated sizes; a small one is enough, because the sizes in a              \
            batch average out */
#define ROW_ALIGNMENT 256
#define UNKNOWN_EDGE 256 /* height and width of rows if no sample tells them */

/* True for forms that a GPU decodes. */
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

/* Fills in an item of a folder from its file's header, because the index knows only its length. */
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

/* Changes `item` to the form that the cache will keep it in, if it re-codes items of this field. */
static void expect_recoded(const pst_loader *loader, const struct psti_loader_plan_field *plan,
                           struct pst_item *item)
{
    enum psti_recode_form form = psti_recode_form(loader->kept.recode_key);
    if (!psti_recode_has_field(loader->kept.recode_key, plan->i_field))
        return;
    if (form == PSTI_RECODE_RAW) {
        item->form = PST_FORM_RAW;
        item->coding = PST_CODING_STORED;
        item->nbytes = (uint64_t)item->height * item->width * item->channels * (item->bits / 8);
    } else if (item->form == PST_FORM_JPEG) {
        item->form = PST_FORM_PLI_JPEG;
    } else if (form != PSTI_RECODE_PLI_JPEG && item->form != PST_FORM_PLI_JPEG) {
        item->form = PST_FORM_PLI;
    }
}

void psti_loader_gpu_expect_size(const pst_loader *loader, uint32_t i_plan, uint32_t size[2])
{
    const struct psti_loader_plan_field *plan = &loader->plan.fields[i_plan];
    uint64_t count = pst_dataset_count(loader->dataset), n = 0;
    uint64_t n_probes = !pst_dataset_is_packed(loader->dataset) ? FILES_MAX : PROBES_MAX;
    double pixels = 0;
    n_probes = count < n_probes ? count : n_probes;
    for (uint64_t i = 0; i < n_probes; i++) {
        struct pst_item item;
        struct psti_draw draw;
        uint64_t sample = psti_divide_u128((unsigned __int128)count * i, n_probes);
        const struct psti_draw_key key = {.seed = loader->options.seed, .sample = sample};
        if (!psti_loader_forms_item(loader, i_plan, i, sample, &item) &&
            !find_item(loader, plan, sample, &item))
            continue;
        look_at_file(loader, plan, sample, &item);
        if (!item.height || !item.width ||
            psti_augment_chain_draw(plan->chain, &key, item.height, item.width, &draw, NULL) !=
                PST_OK)
            continue;
        pixels += (double)draw.out_height * draw.out_width;
        n++;
    }
    double edge = n > 0 ? sqrt(MARGIN * pixels / (double)n) : UNKNOWN_EDGE;
    size[0] = size[1] = (uint32_t)(edge < 65535 ? edge + 1 : 65535);
}

void psti_loader_gpu_expect_items(struct psti_loader_gpu *gpu, const pst_loader *loader,
                                  uint32_t i_field)
{
    const struct psti_loader_plan_field *plan = &loader->plan.fields[gpu->plan_fields[i_field]];
    struct psti_gpu_item_size *size = &gpu->items[i_field];
    if (gpu->views[i_field] > 0) { /* all views of a field are of the same items */
        *size = gpu->items[i_field - 1];
        gpu->decodes[i_field] = gpu->decodes[i_field - 1];
        return;
    }
    uint64_t count = pst_dataset_count(loader->dataset), n = 0;
    uint64_t n_probes = !pst_dataset_is_packed(loader->dataset) ? FILES_MAX : PROBES_MAX;
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
        nbytes += (double)psti_dataset_item_nbytes(&item);
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
    const struct psti_gpu_field *fields[PSTI_LOADER_GPU_PARTS_MAX];
    struct psti_gpu_item_size items[PSTI_LOADER_GPU_PARTS_MAX];
    uint32_t n = 0, n_gpu_rows = (uint32_t)(gpu->part * n_rows);
    uint64_t finished = 0;
    n_gpu_rows -= n_gpu_rows > 0 && gpu->part < 1; /* the fewest GPU rows of any batch, which
                                                      rounding may make one less */
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
    /* A block has a fixed part for each field. Fields that the GPU does not decode count as the
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
