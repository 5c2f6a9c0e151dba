/* loader_fill.c - checks the bytes of a row's items and writes the row of the batch.
 *
 * Any worker, for its own row; no function takes the loader's lock. Returned errors name data set,
 * sample, file, offset and codec. Pixels: loader_pixels.c. Sounds: loader_sound.c. */
#include "loader/rows/loader_fill.h"

#include "loader/rows/loader_boxes.h"
#include "loader/loader_fallback.h"
#include "loader/loader_follow.h"
#include "loader/tiers/loader_forms.h"
#include "loader/tiers/loader_noted.h"
#include "loader/tiers/loader_pages.h"
#include "loader/loader_handle.h"
#include "loader/rows/loader_pixels.h"
#include "loader/loader_plan.h"
#include "loader/rows/loader_sound.h"
#include "loader/tiers/loader_tier.h"
#include "loader/loader_worker.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/inflate.h"
#include "base/hash.h"
#include "dataset/dataset.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <string.h>

/* True if the item was checked before. With files in memory, its bytes cannot have changed
 * since. */
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
    struct psti_meter_thread *meter = &worker->meter;
    if (worker != &loader->crew.fetcher && loader->noted.sums && !item->has_checksum) {
        int64_t begun = psti_stall_meter_enter(meter, PSTI_METER_FETCH);
        psti_loader_noted_add(loader, sample, source);
        psti_stall_meter_leave(meter, PSTI_METER_FETCH, begun);
    }
    if (loader->options.no_verify || !item->has_checksum || is_verified(loader, bit))
        return PST_OK;
    if (source->partial) /* the decoder compares the checksums of head and units instead */
        return PST_OK;
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

/* Compares the decompressed bytes with the CRC-32 that their container states. */
static enum pst_status verify_decoded(struct psti_loader_worker *worker,
                                      const struct psti_loader_source *source,
                                      struct pst_error *err)
{
    const struct pst_item *item = &source->item;
    struct psti_meter_thread *meter = &worker->meter;
    if (worker->loader->options.no_verify || !item->has_crc32 || source->partial)
        return PST_OK;
    int64_t since = psti_stall_meter_enter(meter, PSTI_METER_FETCH);
    uint32_t found = psti_crc32(0, source->data, (size_t)item->nbytes);
    psti_stall_meter_leave(meter, PSTI_METER_FETCH, since);
    return found == item->crc32
               ? PST_OK
               : psti_fail(err, PST_ERROR_CHECKSUM, "loader",
                           "the item has CRC-32 %08" PRIx32 ", its file states %08" PRIx32, found,
                           item->crc32);
}

/* Counts an item whose bytes were never compared with a checksum, neither now nor when a cache kept
 * it. */
static void count_unchecked(struct psti_loader_worker *worker, struct psti_loader_source *source)
{
    bool is_stored = source->item.i_file != PST_FILE_NONE && source->stored_nbytes > 0;
    if (source->is_counted)
        return;
    source->is_counted = true;
    worker->n_unchecked += is_stored && (worker->loader->options.no_verify || !source->has_sum);
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

/* Replaces the label numbers of a mixture's source by the mixture's. Values that lie in no file
 * have the mixture's numbers already. */
static enum pst_status map_labels(const pst_loader *loader,
                                  const struct psti_loader_plan_field *plan,
                                  const struct psti_loader_source *source, void *elements,
                                  size_t nbytes, struct pst_error *err)
{
    int64_t n = 0;
    const int64_t *map = psti_dataset_label_map(loader->dataset, source->sample, plan->i_field, &n);
    if (!map || source->item.i_file == PST_FILE_NONE ||
        psti_format_map_labels(plan->field, elements, nbytes, map, n))
        return PST_OK;
    return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                     "field '%s' has a label outside of its %" PRId64 " classes", plan->field->name,
                     n);
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
    return map_labels(worker->loader, plan, source, memory, nbytes, err);
}

/* Swaps left and right keypoints of a mirrored sample. */
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

/* Fills boxes f32 (n,4) or keypoints f32 (n,3), with the geometry of the image's pixels. */
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

static const double identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};

/* Writes the derived array's value for one view, or for the row's only tile. `draw`: the random
 * parameters of the pixels. */
static void fill_derived_one(const struct psti_loader_plan_field *field,
                             const struct psti_chain *chain, const struct psti_draw *draw,
                             int64_t sample, void *memory)
{
    uint32_t height, width;
    double m[9];
    switch (field->fill) {
    case PSTI_LOADER_FILL_GEOMETRY:
        psti_augment_chain_matrix(chain, draw, m);
        memcpy(memory, m, sizeof m);
        return;
    case PSTI_LOADER_FILL_ORIGINAL_SIZE:
        psti_augment_chain_size_after(chain, draw, 0, &height, &width);
        memcpy(memory, (const int64_t[]){height, width}, 2 * sizeof(int64_t));
        return;
    case PSTI_LOADER_FILL_TILES:
        memcpy(memory, (const int64_t[]){0, 0, draw->out_width, draw->out_height},
               4 * sizeof(int64_t));
        return;
    case PSTI_LOADER_FILL_MOSAIC_GEOMETRY:
        memcpy(memory, identity, sizeof identity);
        return;
    default: /* TILE_INDEX */
        memcpy(memory, &sample, sizeof sample);
    }
}

/* Writes the derived array's value for a tile that does not exist. */
static void fill_no_tile(const struct psti_loader_plan_field *field, void *memory, size_t nbytes)
{
    const int64_t none = -1;
    memset(memory, 0, nbytes);
    if (field->fill == PSTI_LOADER_FILL_GEOMETRY)
        memcpy(memory, identity, sizeof identity);
    else if (field->fill == PSTI_LOADER_FILL_TILE_INDEX)
        memcpy(memory, &none, sizeof none);
}

/* Fills a derived array whose rows have one shape. Mosaics are made later, so only tile 0 has
 * values. */
static void fill_derived(const struct psti_loader_worker *worker, pst_batch *batch, uint32_t i_plan,
                         uint32_t row)
{
    const struct psti_loader_plan_field *field = &worker->loader->plan.fields[i_plan];
    const struct psti_loader_plan_field *pixels = &worker->loader->plan.fields[field->i_geometry];
    const struct psti_draw *draws =
        pixels->n_views ? &worker->view_draws[pixels->i_draw] : &worker->draws[field->i_geometry];
    bool of_views = field->fill == PSTI_LOADER_FILL_GEOMETRY && pixels->n_views > 0;
    uint32_t n = field->gives_tiles ? PST_MOSAIC_TILES : of_views ? pixels->n_views : 1;
    char *memory = psti_batch_array_row(batch, i_plan, row);
    size_t offset, row_nbytes;
    psti_batch_place_of(batch, i_plan, &offset, &row_nbytes);
    for (uint32_t v = 0; v < n; v++, memory += row_nbytes / n)
        if (v > 0 && field->gives_tiles)
            fill_no_tile(field, memory, row_nbytes / n);
        else
            fill_derived_one(field, pixels->chain, &draws[v], psti_batch_indices(batch)[row],
                             memory);
}

/* Sets the tile number of each box and keypoint of the row to 0, as mosaics are made later. */
static enum pst_status fill_tile_of(struct psti_loader_worker *worker, pst_batch *batch,
                                    uint32_t row, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[i];
        enum pst_status status;
        if (field->fill != PSTI_LOADER_FILL_TILE_OF)
            continue;
        int64_t n = psti_batch_row_length(batch, (uint32_t)field->i_geometry, row);
        void *memory = psti_batch_new_row(batch, i, row, 1, &n, &status);
        if (!memory)
            return fail_no_room(worker, field, status, err);
        memset(memory, 0, (size_t)n * sizeof(int64_t));
    }
    return PST_OK;
}

/* Copies a value that has no file of its own, from a folder's label file, to the item's buffer. */
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

/* Decompresses the item into the row's block. From then on `item` describes uncompressed bytes.
 * Caches keep the compressed bytes. Only if the item is a part of a compressed page, they keep the
 * decompressed part. */
static enum pst_status decode_item(struct psti_loader_worker *worker,
                                   struct psti_loader_source *source, struct pst_error *err)
{
    struct pst_item *item = &source->item;
    struct psti_meter_thread *meter = &worker->meter;
    const void *bytes = NULL;
    int64_t since = psti_stall_meter_enter(meter, PSTI_METER_FETCH);
    enum pst_status status =
        psti_dataset_item_decode(worker->codings, item, source->data, source->decoded, &bytes, err);
    psti_stall_meter_leave(meter, PSTI_METER_FETCH, since);
    if (status != PST_OK)
        return status;
    psti_loader_pages_keep(worker->loader, item, source->decoded);
    source->coded = psti_dataset_item_is_paged(item) ? NULL : source->data;
    source->data = bytes;
    psti_dataset_item_decoded(item);
    return PST_OK;
}

/* Gets the bytes of an item whose read has ended, and checks them: the stored bytes, or for a part
 * of a page that part. */
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
    if (status == PST_OK && psti_dataset_item_is_paged(&source->item))
        status = decode_item(worker, source, err);
    if (status == PST_OK)
        status = verify(worker, sample, i_item, source, err);
    if (status == PST_OK && source->item.coding != PST_CODING_STORED)
        status = decode_item(worker, source, err);
    if (status == PST_OK)
        status = verify_decoded(worker, source, err);
    if (status == PST_OK)
        count_unchecked(worker, source);
    return status;
}

/* Gets the boxes that the row's random crops depend on, before any field is filled. */
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
        psti_loader_source_name_error(worker->loader, key->sample, source, err);
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

/* Returns when a field is filled: 0 for the image that gives the sample's geometry, 1 for most
 * others, 2 for points and derived arrays, which need the draw. */
static int pass_of(const struct psti_loader_plan *plan, uint32_t i_plan)
{
    const struct psti_loader_plan_field *field = &plan->fields[i_plan];
    bool is_late = field->fill == PSTI_LOADER_FILL_POINTS || psti_loader_plan_is_derived(field);
    return (int)i_plan == plan->i_leader ? 0 : is_late ? 2 : 1;
}

static void keep(struct psti_loader_worker *worker, struct psti_loader_source *sources)
{
    int64_t since = psti_stall_meter_enter(&worker->meter, PSTI_METER_KEEP);
    psti_loader_tiers_keep(worker, sources);
    psti_loader_worker_forget(worker);
    psti_stall_meter_leave(&worker->meter, PSTI_METER_KEEP, since);
}

enum pst_status psti_loader_row_fill(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *given,
                                     struct psti_loader_source *sources, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    struct psti_draw_key own = *given, *key = &own;
    const uint64_t sample = key->sample;
    bool begun = psti_loader_worker_begin_row(worker, batch, sample);
    bool clocked = worker->loader->forms.choice == PST_FORM_CHOICE_MEASURED;
    int64_t start = clocked ? psti_clock_ns() : 0;
    worker->starved = worker->lacks_scratch = false;
    psti_batch_indices(batch)[row] = (int64_t)sample;
    psti_loader_worker_forget(worker);
    enum pst_status status = bring_boxes(worker, key, sources, err);
    for (int pass = 0; pass < 3; pass++)
        for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++) {
            const struct psti_loader_plan_field *field = &plan->fields[i];
            struct psti_loader_source *source = field->i_item >= 0 ? &sources[field->i_item] : NULL;
            if (pass_of(plan, i) != pass || field->filled_before ||
                field->fill == PSTI_LOADER_FILL_TILE_OF)
                continue;
            if (psti_loader_plan_is_derived(field))
                fill_derived(worker, batch, i, row);
            else
                status = source ? fill_item(worker, batch, row, key, i, source, err)
                                : fill_number(worker->loader, batch, i, row, sample, err);
            if (status != PST_OK)
                psti_loader_source_name_error(worker->loader, sample, source, err);
        }
    if (status == PST_OK) {
        status = psti_loader_boxes_drop(worker, batch, row, sources, err);
        if (status == PST_OK)
            status = fill_tile_of(worker, batch, row, err);
        if (status != PST_OK)
            psti_loader_source_name_error(worker->loader, sample, NULL, err);
    }
    if (status == PST_OK && psti_loader_tiers_may_keep(worker->loader))
        keep(worker, sources);
    if (clocked)
        psti_loader_forms_clock(worker->loader, sources, psti_clock_ns() - start);
    psti_loader_worker_settle(worker);
    if (begun)
        psti_stall_meter_row_ends(&worker->meter, 0);
    return status;
}
