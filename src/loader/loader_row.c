/* loader_row.c - one row: finds its items, reads them, checks them, writes the slot.
 *
 * Any worker runs these functions on rows of its own; none takes the loader's lock. Errors leave
 * here with data set, sample, file, offset and codec. Pixels: loader_pixels.c. */
#include "loader/loader_counters.h"
#include "loader/loader_files.h"
#include "loader/loader_forms.h"
#include "loader/loader_handle.h"
#include "loader/loader_plan.h"
#include "loader/loader_row.h"
#include "loader/loader_shelf.h"
#include "loader/loader_sound.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/hash.h"
#include "dataset/dataset.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <string.h>

void psti_loader_row_name_error(const pst_loader *loader, uint64_t sample,
                                const struct psti_loader_source *source, struct pst_error *err)
{
    if (!err)
        return;
    err->sample = (int64_t)sample;
    if (!err->dataset[0])
        psti_error_set_dataset(err, pst_dataset_path(loader->dataset));
    if (!source)
        return;
    enum pst_form form = source->item.form;
    if (!err->codec[0] && form != PST_FORM_NONE && form != PST_FORM_BYTES)
        psti_error_set_codec(err, pst_form_name(form));
    if (source->item.i_file == PST_FILE_NONE)
        return;
    char path[PSTI_PATH_NBYTES];
    if (!err->file[0] && pst_dataset_file_path(loader->dataset, source->item.i_file, path,
                                               sizeof path, NULL) == PST_OK)
        psti_error_set_file(err, path);
    if (err->offset < 0)
        err->offset = (int64_t)source->item.offset;
}

/* Chooses the first allowed variant that this sample has. */
static enum pst_status choose_variant(pst_loader *loader, uint64_t sample,
                                      const struct psti_loader_plan_field *plan,
                                      struct psti_loader_source *source, struct pst_error *err)
{
    for (uint32_t v = 0; v < plan->field->n_variants; v++) {
        if (!(plan->variant_mask & (1u << v)))
            continue;
        enum pst_status status = pst_dataset_item(loader->dataset, sample, plan->i_field, v,
                                                  &source->item, sizeof source->item, err);
        if (status != PST_OK || (psti_loader_plan_item_is_there(loader->dataset, &source->item) &&
                                 psti_loader_plan_allows_form(plan, source->item.form))) {
            source->variant = v;
            source->i_form = PSTI_LOADER_NO_FORM;
            return status;
        }
    }
    return psti_fail(err, PST_ERROR_NOT_FOUND, "loader",
                     "field '%s' of this sample is stored in none of the forms allowed",
                     plan->field->name);
}

/* Finds the file of an item, and its bytes if they are in memory. */
static enum pst_status find_bytes(pst_loader *loader, struct psti_loader_source *source, char *path,
                                  struct pst_error *err)
{
    const struct pst_item *item = &source->item;
    if (item->nbytes == 0) {
        source->data = "";
        return PST_OK;
    }
    if (item->i_file == PST_FILE_NONE)
        return PST_OK; /* copied when there is a buffer */
    if (!loader->files.n && pst_dataset_is_folder(loader->dataset)) {
        source->path = path;
        source->place = psti_dataset_file_place(loader->dataset, item->i_file);
        source->stamp = psti_dataset_file_stamp(loader->dataset, item->i_file);
        return pst_dataset_file_path(loader->dataset, item->i_file, path, PSTI_PATH_NBYTES, err);
    }
    enum pst_status status = psti_loader_files_acquire(loader, item->i_file, &source->file, err);
    if (status != PST_OK)
        return status;
    if (!psti_range_fits(item->offset, item->nbytes, psti_storage_file_nbytes(source->file)))
        return psti_fail(err, PST_ERROR_TRUNCATED, "loader",
                         "the item ends at byte %" PRIu64 " of a file of %" PRIu64 " bytes",
                         item->offset + item->nbytes, psti_storage_file_nbytes(source->file));
    source->data = psti_storage_file_span(source->file, item->offset, item->nbytes);
    return PST_OK;
}

size_t psti_loader_row_buffer_nbytes(const pst_loader *loader,
                                     const struct psti_loader_source *source)
{
    return psti_round_up(psti_storage_buffer_nbytes(loader->storage, source->item.nbytes),
                         psti_storage_buffer_alignment(loader->storage));
}

/* A mask that may be rotated with its image is read whole. Only the image's row knows how it is
 * rotated. */
static bool is_turned_mask(const struct psti_loader_plan *plan,
                           const struct psti_loader_source *sources, uint32_t i_plan)
{
    const struct psti_loader_plan_field *field = &plan->fields[i_plan];
    return field->follows && field->field->type == PST_FIELD_MASK &&
           sources[plan->fields[field->i_geometry].i_item].item.orientation > 1;
}

struct psti_draw_key psti_loader_row_key(const pst_loader *loader, uint64_t epoch, uint64_t sample,
                                         uint64_t draw)
{
    return (struct psti_draw_key){
        .seed = loader->options.seed, .epoch = epoch, .sample = sample, .draw = draw};
}

enum pst_status psti_loader_row_locate(pst_loader *loader, const struct psti_draw_key *key,
                                       uint64_t turn, struct psti_loader_source *sources,
                                       char *paths, size_t *nbytes, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &loader->plan;
    const uint64_t sample = key->sample;
    enum pst_status status = PST_OK;
    uint32_t i;
    *nbytes = 0;
    memset(sources, 0, plan->n_items * sizeof *sources);
    for (i = 0; status == PST_OK && i < plan->n_items; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[plan->fields_of_items[i]];
        char *path = paths ? paths + (size_t)i * PSTI_PATH_NBYTES : NULL;
        status = choose_variant(loader, sample, field, &sources[i], err);
        if (status != PST_OK) {
            psti_loader_row_name_error(loader, sample, NULL, err);
            break;
        }
        sources[i].sample = sample;
        if (loader->forms.n && plan->fields_of_items[i] == loader->forms.i_plan)
            psti_loader_forms_choose(loader, turn, &sources[i]);
        psti_loader_cache_ask(loader, field, &sources[i]);
        if (!sources[i].is_cached)
            status = find_bytes(loader, &sources[i], path, err);
        if (status == PST_OK && !sources[i].data && !sources[i].is_asked)
            psti_loader_fleet_consider(loader, field, &sources[i]);
        if (status == PST_OK && !sources[i].data) {
            uint64_t left = loader->block_nbytes_max - *nbytes;
            if (sources[i].item.nbytes > left ||
                psti_loader_row_buffer_nbytes(loader, &sources[i]) > left)
                status =
                    psti_fail(err, PST_ERROR_LIMIT, "loader",
                              "field '%s' takes %" PRIu64 " bytes, and host_memory leaves "
                              "%" PRIu64 " for the items of a sample",
                              field->field->name, sources[i].item.nbytes, loader->block_nbytes_max);
            else
                *nbytes += psti_loader_row_buffer_nbytes(loader, &sources[i]);
        }
        if (status != PST_OK)
            psti_loader_row_name_error(loader, sample, &sources[i], err);
    }
    for (i = 0; status == PST_OK && i < plan->n_items; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[plan->fields_of_items[i]];
        if (sources[i].data || sources[i].is_wanted || sources[i].is_asked || sources[i].ask_fleet)
            continue;
        if (field->fill == PSTI_LOADER_FILL_SOUND)
            psti_loader_sound_consider(loader, key, field, &sources[i]);
        else if (!is_turned_mask(plan, sources, plan->fields_of_items[i]))
            psti_loader_ranges_consider(loader, key, field, &sources[i]);
    }
    if (status != PST_OK)
        psti_loader_row_release(loader, sources);
    return status;
}

bool psti_loader_row_copies(const pst_loader *loader, const struct psti_loader_source *sources)
{
    const struct psti_loader_plan *plan = &loader->plan;
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[plan->fields_of_items[i]];
        if (field->fill == PSTI_LOADER_FILL_SOUND ||
            (field->fill == PSTI_LOADER_FILL_PIXELS &&
             !(field->identity && sources[i].item.form == PST_FORM_RAW)))
            return false;
    }
    return true;
}

uint32_t psti_loader_row_reads(pst_loader *loader, struct psti_loader_source *sources, void *block,
                               struct psti_read *reads)
{
    char *at = block;
    uint32_t n = 0;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &sources[i];
        if (source->data || source->waits_shelf)
            continue;
        if (!source->reads_shelf) {
            source->buffer = at;
            at += psti_loader_row_buffer_nbytes(loader, source);
        }
        if (source->item.i_file == PST_FILE_NONE || source->is_asked)
            continue;
        struct psti_read *read = &reads[n++];
        source->read = read;
        read->file = source->file;
        read->path = source->path;
        read->place = source->place;
        read->stamp = source->stamp;
        read->offset = source->item.offset;
        read->nbytes = source->sparse ? source->n_here : source->item.nbytes;
        read->file_nbytes = source->sparse && source->path ? source->item.nbytes : 0;
        read->buffer = source->buffer;
        read->drop = source->is_wanted || source->ask_fleet; /* memory is not spent twice */
        read->data = NULL;
        read->status = PST_OK;
    }
    return n;
}

enum pst_status psti_loader_row_take_read(const pst_loader *loader, uint64_t sample,
                                          struct psti_loader_source *source,
                                          const struct psti_read *read, struct pst_error *err)
{
    if (read->status == PST_OK) {
        source->data = read->data;
        return PST_OK;
    }
    if (err)
        *err = read->error;
    psti_loader_row_name_error(loader, sample, source, err);
    return read->status;
}

enum pst_status psti_loader_row_take_reads(pst_loader *loader, uint64_t sample,
                                           struct psti_loader_source *sources,
                                           const struct psti_read *reads, struct pst_error *err)
{
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        if (!sources[i].buffer || sources[i].item.i_file == PST_FILE_NONE || sources[i].is_asked)
            continue;
        enum pst_status status =
            psti_loader_row_take_read(loader, sample, &sources[i], reads++, err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

void psti_loader_row_release(pst_loader *loader, struct psti_loader_source *sources)
{
    psti_loader_cache_give_up(loader, sources);
    if (loader->shelf)
        psti_loader_shelf_release(loader, sources);
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        psti_loader_files_release(loader, sources[i].item.i_file, sources[i].file);
        sources[i].file = NULL;
    }
}

/* True if the item was checked already and has been in memory since. */
static bool is_verified(const pst_loader *loader, uint64_t bit)
{
    return loader->verified &&
           (atomic_load_explicit(&loader->verified[bit / 8], memory_order_relaxed) &
            (1u << bit % 8));
}

static enum pst_status verify(struct psti_loader_worker *worker, uint64_t sample, uint32_t i_item,
                              const struct psti_loader_source *source, struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    const struct pst_item *item = &source->item;
    uint64_t bit = (sample * loader->plan.n_items + i_item) * PST_MAX_VARIANTS + source->variant;
    if (loader->options.no_verify || !item->has_checksum || is_verified(loader, bit))
        return PST_OK;
    if (source->partial) /* the decoder compares the checksums of head and units */
        return PST_OK;
    struct psti_meter_thread *meter = &worker->meter;
    int64_t since = psti_stall_meter_enter(meter, PSTI_METER_FETCH);
    uint64_t found = psti_hash64(source->data, item->nbytes);
    psti_stall_meter_leave(meter, PSTI_METER_FETCH, since);
    if (found != item->checksum)
        return psti_fail(err, PST_ERROR_CHECKSUM, "loader",
                         "the stored bytes have checksum %016" PRIx64 ", not %016" PRIx64, found,
                         item->checksum);
    if (loader->verified)
        atomic_fetch_or_explicit(&loader->verified[bit / 8], (unsigned char)(1u << bit % 8),
                                 memory_order_relaxed);
    return PST_OK;
}

static enum pst_status fail_no_room(struct psti_loader_worker *worker,
                                    const struct psti_loader_plan_field *plan,
                                    enum pst_status status, struct pst_error *err)
{
    worker->starved = status == PST_ERROR_LIMIT;
    return psti_fail(err, status, "loader", "no memory for a row of field '%s'", plan->field->name);
}

static enum pst_status fill_bytes(struct psti_loader_worker *worker, pst_batch *batch,
                                  uint32_t i_plan, uint32_t row,
                                  const struct psti_loader_source *source, struct pst_error *err)
{
    enum pst_status status;
    int64_t shape[1] = {(int64_t)source->item.nbytes};
    void *memory = psti_batch_new_row(batch, i_plan, row, 1, shape, &status);
    if (!memory)
        return fail_no_room(worker, &worker->loader->plan.fields[i_plan], status, err);
    memcpy(memory, source->data, source->item.nbytes);
    const struct pst_field *field = worker->loader->plan.fields[i_plan].field;
    const char *problem =
        psti_format_text_problem(field->type, memory, (size_t)source->item.nbytes);
    if (problem)
        return psti_fail(err, PST_ERROR_CORRUPT, "loader", "the %s of field '%s' %s",
                         field->type == PST_FIELD_JSON ? "JSON" : "text", field->name, problem);
    return PST_OK;
}

static enum pst_status fill_array(struct psti_loader_worker *worker, pst_batch *batch,
                                  uint32_t i_plan, uint32_t row,
                                  const struct psti_loader_source *source, struct pst_error *err)
{
    const struct psti_loader_plan_field *plan = &worker->loader->plan.fields[i_plan];
    const struct pst_item *item = &source->item;
    size_t nbytes = pst_dtype_nbytes(plan->field->dtype);
    int64_t shape[PST_MAX_NDIM];
    bool fits = item->ndim <= PST_MAX_NDIM;
    for (uint32_t i = 0; fits && i < item->ndim; i++) {
        shape[i] = item->shape[i];
        fits = psti_mul_size(nbytes, item->shape[i], &nbytes);
    }
    if (!fits || nbytes != item->nbytes ||
        (plan->field->ndim &&
         (plan->field->ndim != item->ndim ||
          memcmp(plan->field->shape, item->shape, item->ndim * sizeof item->shape[0]) != 0)))
        return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                         "field '%s': %" PRIu64 " bytes do not have the shape that is recorded",
                         plan->field->name, item->nbytes);
    enum pst_status status = PST_OK;
    void *memory = plan->field->ndim
                       ? psti_batch_array_row(batch, i_plan, row)
                       : psti_batch_new_row(batch, i_plan, row, item->ndim, shape, &status);
    if (!memory)
        return fail_no_room(worker, plan, status, err);
    memcpy(memory, source->data, nbytes);
    return PST_OK;
}

/* Swaps left and right keypoints of a sample that was mirrored. */
static enum pst_status swap_pairs(struct psti_loader_worker *worker,
                                  const struct psti_loader_plan_field *field, float *points,
                                  size_t n, struct pst_error *err)
{
    const char *problem = psti_format_points_problem(&field->pairs, n);
    if (!field->says_pairs && n > 0)
        psti_loader_fell_back(worker->loader, PST_FALLBACK_PAIRS, 1);
    if (field->pairs.n == 0)
        return PST_OK;
    if (problem)
        return psti_fail(err, PST_ERROR_CORRUPT, "loader", "field '%s': its %zu keypoints %s",
                         field->field->name, n, problem);
    psti_format_swap_pairs(&field->pairs, points, n);
    return PST_OK;
}

/* Fills boxes f32 (n,4) or keypoints f32 (n,3), moved as the image's pixels were. */
static enum pst_status fill_points(struct psti_loader_worker *worker, pst_batch *batch,
                                   uint32_t i_plan, uint32_t row,
                                   const struct psti_loader_source *source, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    const struct psti_loader_plan_field *field = &plan->fields[i_plan];
    bool boxes = field->field->type == PST_FIELD_BOXES;
    size_t point_nbytes = (boxes ? 4 : 3) * sizeof(float);
    enum pst_status status;
    if (source->item.nbytes % point_nbytes)
        return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                         "field '%s': %" PRIu64 " bytes are not a whole number of %s",
                         field->field->name, source->item.nbytes, boxes ? "boxes" : "keypoints");
    int64_t shape[2] = {(int64_t)(source->item.nbytes / point_nbytes), boxes ? 4 : 3};
    float *points = psti_batch_new_row(batch, i_plan, row, 2, shape, &status);
    if (!points)
        return fail_no_room(worker, field, status, err);
    memcpy(points, source->data, source->item.nbytes);
    if (field->i_geometry < 0)
        return PST_OK;
    status = psti_loader_follow_points(worker, i_plan, points, (size_t)shape[0], err);
    if (status != PST_OK)
        return status;
    const struct psti_chain *chain = plan->fields[field->i_geometry].chain;
    const struct psti_draw *draw = &worker->draws[field->i_geometry];
    if (boxes) {
        psti_augment_chain_map_boxes(chain, draw, points, (size_t)shape[0]);
        return PST_OK;
    }
    psti_augment_chain_map_keypoints(chain, draw, points, (size_t)shape[0]);
    return psti_augment_chain_mirrors(chain, draw)
               ? swap_pairs(worker, field, points, (size_t)shape[0], err)
               : PST_OK;
}

static enum pst_status fill_number(pst_loader *loader, pst_batch *batch, uint32_t i_plan,
                                   uint32_t row, uint64_t sample, struct pst_error *err)
{
    const struct psti_loader_plan_field *field = &loader->plan.fields[i_plan];
    void *memory = psti_batch_array_row(batch, i_plan, row);
    int64_t integer;
    double real;
    enum pst_status status;
    if (field->fill == PSTI_LOADER_FILL_INT) {
        status = pst_dataset_int(loader->dataset, sample, field->i_field, &integer, err);
        if (status == PST_OK)
            memcpy(memory, &integer, sizeof integer);
    } else {
        status = pst_dataset_float(loader->dataset, sample, field->i_field, &real, err);
        float narrow = status == PST_OK ? (float)real : 0;
        memcpy(memory, &narrow, sizeof narrow);
    }
    return status;
}

/* Copies a value that is in no file of its own, from a folder's label file, to the item's buffer.
 */
static enum pst_status copy_fileless(pst_loader *loader, uint64_t sample,
                                     const struct psti_loader_plan_field *field,
                                     struct psti_loader_source *source, struct pst_error *err)
{
    source->data = source->buffer;
    return pst_dataset_read(loader->dataset, sample, field->i_field, source->variant, 0,
                            source->item.nbytes, source->buffer, err);
}

static enum pst_status fill_pixels(struct psti_loader_worker *worker, pst_batch *batch,
                                   uint32_t i_plan, uint32_t row, const struct psti_draw_key *key,
                                   const struct psti_loader_source *source, struct pst_error *err)
{
    int64_t since = psti_stall_meter_enter(&worker->meter, PSTI_METER_PIXELS);
    enum pst_status status =
        worker->loader->plan.fields[i_plan].n_views
            ? psti_loader_row_views(worker, batch, i_plan, row, key, source, err)
            : psti_loader_row_pixels(worker, batch, i_plan, row, key, source, err);
    psti_stall_meter_leave(&worker->meter, PSTI_METER_PIXELS, since);
    return status;
}

static enum pst_status fill_sound(struct psti_loader_worker *worker, pst_batch *batch,
                                  uint32_t i_plan, uint32_t row, const struct psti_draw_key *key,
                                  const struct psti_loader_source *source, struct pst_error *err)
{
    int64_t since = psti_stall_meter_enter(&worker->meter, PSTI_METER_PIXELS);
    enum pst_status status = psti_loader_row_sound(worker, batch, i_plan, row, key, source, err);
    psti_stall_meter_leave(&worker->meter, PSTI_METER_PIXELS, since);
    return status;
}

/* Brings the item's bytes, which were read, and checks them. */
static enum pst_status bring_item(struct psti_loader_worker *worker, uint64_t sample,
                                  uint32_t i_item, struct psti_loader_source *source,
                                  struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    const struct psti_loader_plan_field *field =
        &loader->plan.fields[loader->plan.fields_of_items[i_item]];
    enum pst_status status = PST_OK;
    if (!source->data)
        status = copy_fileless(loader, sample, field, source, err);
    return status == PST_OK ? verify(worker, sample, i_item, source, err) : status;
}

/* Takes the boxes on which the row's draws depend, before any field is filled. */
static enum pst_status bring_boxes(struct psti_loader_worker *worker, struct psti_draw_key *key,
                                   struct psti_loader_source *sources, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    if (plan->i_crop_boxes < 0)
        return PST_OK;
    uint32_t i_item = (uint32_t)plan->fields[plan->i_crop_boxes].i_item;
    struct psti_loader_source *source = &sources[i_item];
    enum pst_status status = bring_item(worker, key->sample, i_item, source, err);
    if (status == PST_OK)
        status = psti_loader_boxes_take(worker, source->data, source->item.nbytes, err);
    if (status != PST_OK)
        psti_loader_row_name_error(worker->loader, key->sample, source, err);
    key->boxes = &worker->boxes;
    return status;
}

static enum pst_status fill_item(struct psti_loader_worker *worker, pst_batch *batch, uint32_t row,
                                 const struct psti_draw_key *key, uint32_t i_plan,
                                 struct psti_loader_source *source, struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    const struct psti_loader_plan_field *field = &loader->plan.fields[i_plan];
    enum pst_status status = bring_item(worker, key->sample, (uint32_t)field->i_item, source, err);
    if (status != PST_OK)
        return status;
    switch (field->fill) {
    case PSTI_LOADER_FILL_PIXELS:
        return fill_pixels(worker, batch, i_plan, row, key, source, err);
    case PSTI_LOADER_FILL_SOUND:
        return fill_sound(worker, batch, i_plan, row, key, source, err);
    case PSTI_LOADER_FILL_POINTS:
        return fill_points(worker, batch, i_plan, row, source, err);
    case PSTI_LOADER_FILL_ARRAY:
        return fill_array(worker, batch, i_plan, row, source, err);
    default:
        return fill_bytes(worker, batch, i_plan, row, source, err);
    }
}

/* Order in which fields are filled: first the image that gives the sample's geometry, then all
 * others, then points, which need the geometry drawn for it. */
static int pass_of(const struct psti_loader_plan *plan, uint32_t i_plan)
{
    return (int)i_plan == plan->i_leader                          ? 0
           : plan->fields[i_plan].fill == PSTI_LOADER_FILL_POINTS ? 2
                                                                  : 1;
}

static void keep(struct psti_loader_worker *worker, struct psti_loader_source *sources)
{
    int64_t since = psti_stall_meter_enter(&worker->meter, PSTI_METER_KEEP);
    psti_loader_cache_keep(worker, sources);
    psti_loader_recode_forget(worker);
    psti_stall_meter_leave(&worker->meter, PSTI_METER_KEEP, since);
}

static bool begin_row(struct psti_loader_worker *worker, const pst_batch *batch, uint64_t sample)
{
    uint64_t epoch, step;
    pst_batch_place(batch, &epoch, &step);
    return psti_stall_meter_row_begins(&worker->meter, sample, step);
}

enum pst_status psti_loader_row_fill(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *given,
                                     struct psti_loader_source *sources, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    struct psti_draw_key own = *given, *key = &own;
    const uint64_t sample = key->sample;
    bool begun = begin_row(worker, batch, sample);
    bool clocked = worker->loader->forms.choice == PST_FORM_CHOICE_MEASURED;
    int64_t start = clocked ? psti_clock_ns() : 0;
    worker->starved = worker->lacks_scratch = false;
    psti_batch_indices(batch)[row] = (int64_t)sample;
    psti_loader_recode_forget(worker);
    enum pst_status status = bring_boxes(worker, key, sources, err);
    for (int pass = 0; pass < 3; pass++)
        for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++) {
            const struct psti_loader_plan_field *field = &plan->fields[i];
            struct psti_loader_source *source = field->i_item >= 0 ? &sources[field->i_item] : NULL;
            if (pass_of(plan, i) != pass || field->filled_before)
                continue;
            status = source ? fill_item(worker, batch, row, key, i, source, err)
                            : fill_number(worker->loader, batch, i, row, sample, err);
            if (status != PST_OK)
                psti_loader_row_name_error(worker->loader, sample, source, err);
        }
    if (status == PST_OK) {
        status = psti_loader_boxes_drop(worker, batch, row, sources, err);
        if (status != PST_OK)
            psti_loader_row_name_error(worker->loader, sample, NULL, err);
    }
    if (status == PST_OK && (worker->loader->cache || worker->loader->fleet))
        keep(worker, sources);
    if (clocked)
        psti_loader_forms_clock(worker->loader, sources, psti_clock_ns() - start);
    psti_loader_worker_settle(worker);
    if (begun)
        psti_stall_meter_row_ends(&worker->meter, 0);
    return status;
}

/* A buffer of this thread's own. It is kept, or comes from the reserve for this row only. */
static void *own_buffer(struct psti_loader_worker *worker, size_t nbytes)
{
    pst_loader *loader = worker->loader;
    size_t alignment = psti_storage_buffer_alignment(loader->storage);
    if (nbytes <= worker->buffer_nbytes)
        return worker->buffer;
    alignment = alignment < PSTI_CACHE_LINE ? PSTI_CACHE_LINE : alignment;
    size_t total = psti_round_up(nbytes + nbytes / 8, 4096);
    /* It is large enough for the largest row at once, if that is not much. */
    if (total < loader->block_nbytes_max &&
        loader->block_nbytes_max <= loader->options.host_memory / 8 / loader->n_workers)
        total = psti_round_up((size_t)loader->block_nbytes_max, 4096);
    if (psti_batch_pool_charge(loader->pool, total, false)) {
        void *memory = psti_alloc_aligned(alignment, total);
        psti_batch_pool_uncharge(loader->pool, memory ? worker->buffer_nbytes : total);
        if (memory) {
            psti_free(worker->buffer);
            worker->buffer = memory;
            worker->buffer_nbytes = total;
        }
        return memory;
    }
    if (!worker->has_reserve) {
        pthread_mutex_lock(&loader->reserve_lock);
        worker->has_reserve = true;
    }
    if (!psti_batch_pool_charge(loader->pool, nbytes,
                                true)) /* the reserve is as large as any row */
        return NULL;
    psti_loader_fell_back(loader, PST_FALLBACK_RESERVE, 1);
    worker->reserve_nbytes += nbytes;
    worker->reserve_buffer = psti_alloc_aligned(alignment, nbytes);
    return worker->reserve_buffer;
}

enum pst_status psti_loader_row_run_read(struct psti_loader_worker *worker, struct psti_read *read)
{
    struct psti_storage *storage = worker->loader->storage;
    struct psti_latency *tier = &worker->loader->tiers[PST_TIER_STORAGE];
    int64_t start = psti_clock_ns(), owed = worker->owed_ns;
    psti_latency_begin(tier, 1);
    enum pst_status status = worker->owes ? psti_storage_read_owing(storage, read, &worker->owed_ns)
                                          : psti_storage_read(storage, read);
    psti_latency_end(tier, status == PST_OK, read->nbytes,
                     psti_clock_ns() - start + worker->owed_ns - owed);
    return status;
}

/* Reads in this thread, one item after the other, until one fails. */
static void run_reads(struct psti_loader_worker *worker, uint32_t n)
{
    enum pst_status status = PST_OK;
    int64_t start = psti_clock_ns();
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        if (!worker->reads[i].data) /* else the fleet gave it */
            status = psti_loader_row_run_read(worker, &worker->reads[i]);
    psti_loader_worker_read_here(worker, start, true);
}

/* Waits for items that the host service reads. Reads those that do not come. */
static enum pst_status await_wishes(struct psti_loader_worker *worker, uint64_t sample,
                                    struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    struct psti_share_wish *wishes[PST_MAX_FIELDS];
    uint32_t n = psti_loader_host_wishes(loader, worker->sources, wishes);
    if (n == 0)
        return PST_OK;
    const struct psti_share_stop stop = {loader->interrupt, loader->interrupt_ctx};
    bool is_stopped = !psti_share_cache_wait(loader->host, wishes, n, &stop);
    for (uint32_t i = 0; is_stopped && i < n; i++)
        wishes[i]->result = PSTI_CACHE_RESULT_FAILED;
    n = psti_loader_host_resolve(loader, worker->sources, worker->reads);
    run_reads(worker, n);
    return psti_loader_host_take(loader, sample, worker->sources, worker->reads, err);
}

static enum pst_status read_here(struct psti_loader_worker *worker, uint64_t sample, size_t nbytes,
                                 struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    void *block = own_buffer(worker, nbytes);
    if (!block)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory to read %zu bytes", nbytes);
    uint32_t n = psti_loader_row_reads(loader, worker->sources, block, worker->reads);
    if (loader->fleet)
        psti_loader_fleet_ask_here(worker);
    run_reads(worker, n);
    enum pst_status status =
        psti_loader_row_take_reads(loader, sample, worker->sources, worker->reads, err);
    return status == PST_OK ? await_wishes(worker, sample, err) : status;
}

/* Does the second round of a two-round read. */
static enum pst_status read_more_here(struct psti_loader_worker *worker, uint64_t sample,
                                      struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    uint32_t n = psti_loader_ranges_reads(loader, worker->sources, worker->reads);
    run_reads(worker, n);
    return psti_loader_ranges_take(loader, sample, worker->sources, worker->reads, err);
}

static enum pst_status locate_here(struct psti_loader_worker *worker,
                                   const struct psti_draw_key *key, uint64_t turn, size_t *nbytes,
                                   struct pst_error *err)
{
    int64_t since = psti_stall_meter_enter(&worker->meter, PSTI_METER_FETCH);
    enum pst_status status = psti_loader_row_locate(worker->loader, key, turn, worker->sources,
                                                    worker->paths, nbytes, err);
    psti_stall_meter_leave(&worker->meter, PSTI_METER_FETCH, since);
    return status;
}

/* Tries once to make the row. *suspect: that failed, and bytes that the fleet gave may be the
 * cause. */
static enum pst_status make_once(struct psti_loader_worker *worker, pst_batch *batch, uint32_t row,
                                 const struct psti_draw_key *key, uint64_t turn, bool asks_fleet,
                                 bool *suspect, struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    const uint64_t sample = key->sample, read_ns = worker->read_here_ns;
    size_t nbytes;
    bool begun = begin_row(worker, batch, sample);
    worker->starved = worker->lacks_scratch = *suspect = false;
    enum pst_status status = locate_here(worker, key, turn, &nbytes, err);
    if (status == PST_OK) {
        for (uint32_t i = 0; !asks_fleet && i < loader->plan.n_items; i++)
            worker->sources[i].ask_fleet = false;
        status = nbytes ? read_here(worker, sample, nbytes, err) : PST_OK;
        if (status == PST_OK && psti_loader_ranges_any(loader, worker->sources))
            status = read_more_here(worker, sample, err);
        if (status == PST_OK) {
            status = psti_loader_row_fill(worker, batch, row, key, worker->sources, err);
            *suspect = psti_loader_fleet_is_suspect(worker, worker->sources, status);
        }
        psti_loader_worker_settle(worker);
        psti_loader_row_release(loader, worker->sources);
    }
    if (begun)
        psti_stall_meter_row_ends(&worker->meter, worker->read_here_ns - read_ns);
    return status;
}

enum pst_status psti_loader_row_make(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *key, uint64_t turn,
                                     struct pst_error *err)
{
    bool suspect;
    enum pst_status status = make_once(worker, batch, row, key, turn, true, &suspect, err);
    return suspect ? psti_loader_row_make_without_fleet(worker, batch, row, key, turn, err)
                   : status;
}

enum pst_status psti_loader_row_make_without_fleet(struct psti_loader_worker *worker,
                                                   pst_batch *batch, uint32_t row,
                                                   const struct psti_draw_key *key, uint64_t turn,
                                                   struct pst_error *err)
{
    bool suspect;
    enum pst_status status = make_once(worker, batch, row, key, turn, false, &suspect, err);
    psti_loader_fell_back(worker->loader, PST_FALLBACK_FLEET_VALUE, status == PST_OK);
    return status;
}
