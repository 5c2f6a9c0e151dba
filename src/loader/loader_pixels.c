/* loader_pixels.c - decodes one stored image into its row of the slot, in one pass; and a worker's
 * decoder and scratch.
 *
 * In: the encoded bytes. Out: pixels in the slot, cropped, resized and converted while they are
 * decoded. A worker's scratch grows to the needs of its images: from the budget as long as that
 * lasts, then from the reserve, one worker at a time, to be given back after the row. So an image's
 * size alone decides if it can be decoded, not the load of the moment. Scratch that only makes a
 * decoder faster comes from the budget, never from the reserve. */
#include "loader/loader_pixels.h"

#include "loader/loader_counters.h"
#include "loader/loader_handle.h"
#include "loader/loader_plan.h"
#include "loader/loader_row.h"
#include "loader/loader_shelf.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <string.h>

/* All workers together get 1 / EXTRA_PART of host_memory for faster decoding. */
#define EXTRA_PART 8
#define EXTRA_STEP_NBYTES ((uint64_t)1 << 20)

/* Limits a decoder to at most scratch_max on every worker. Otherwise an image might decode on one
 * worker and fail on another. */
static void limit_decoder(const struct psti_loader_worker *worker, uint64_t grant)
{
    uint64_t limit = grant + worker->extra, max = worker->loader->scratch_max;
    psti_decode_set_scratch_limit(worker->decoder, limit < max ? limit : max);
}

static enum pst_status open_tools(struct psti_loader_worker *worker, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    memset(&worker->seen, 0, sizeof worker->seen);
    psti_decode_close(&worker->decoder);
    psti_augment_run_close(&worker->run);
    status = psti_decode_open(&worker->decoder, err);
    if (status == PST_OK)
        status = psti_augment_run_open(&worker->run, err);
    if (status != PST_OK)
        return status;
    limit_decoder(worker, worker->grant);
    psti_augment_run_set_scratch_limit(worker->run, worker->grant);
    return PST_OK;
}

/* Allocates all scratch that was charged now, so that it does not matter when a worker meets which
 * image. Pages that no image needs are not touched. */
static void hold_grant(const struct psti_loader_worker *worker)
{
    uint64_t decoder = worker->grant + worker->extra, max = worker->loader->scratch_max;
    limit_decoder(worker, worker->grant);
    psti_augment_run_set_scratch_limit(worker->run, worker->grant);
    psti_decode_hold(worker->decoder, decoder < max ? decoder : max);
    psti_augment_run_hold(worker->run, worker->grant);
}

static void raise_to(atomic_uint_fast64_t *mark, uint64_t value)
{
    uint64_t now = atomic_load(mark);
    while (now < value && !atomic_compare_exchange_weak(mark, &now, value))
        ;
}

bool psti_loader_worker_lags(const struct psti_loader_worker *worker)
{
    const pst_loader *loader = worker->loader;
    return atomic_load(&loader->grant_max) > worker->seen_grant ||
           atomic_load(&loader->wanted_max) > worker->seen_wanted;
}

/* A large grant is not taken by all workers. Each grows when it meets a large image then. */
void psti_loader_worker_catch_up(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    uint64_t most = loader->options.host_memory / EXTRA_PART / loader->n_workers;
    uint64_t grant = worker->seen_grant = atomic_load(&loader->grant_max);
    uint64_t wanted = worker->seen_wanted = atomic_load(&loader->wanted_max);
    uint64_t had = worker->grant + worker->extra;
    if (worker->has_reserve || !worker->decoder || !worker->run)
        return;
    if (grant > worker->grant && 2 * grant <= most &&
        psti_batch_pool_charge(loader->pool, 2 * (grant - worker->grant), false))
        worker->grant = grant;
    uint64_t have = worker->grant + worker->extra;
    if (wanted > have && wanted <= most &&
        psti_batch_pool_charge(loader->pool, wanted - have, false))
        worker->extra += wanted - have;
    if (worker->grant + worker->extra > had)
        hold_grant(worker);
}

/* Empties the scratch. Earlier images leave nothing in it, so they do not decide if an image fits.
 */
static bool empty_tools(struct psti_loader_worker *worker)
{
    psti_loader_worker_count(worker, 0);
    worker->emptied = open_tools(worker, NULL) == PST_OK;
    return worker->emptied;
}

uint32_t psti_loader_worker_tid(const struct psti_loader_worker *worker)
{
    const pst_loader *loader = worker->loader;
    if (worker == &loader->fetcher || worker == &loader->repairer)
        return loader->n_workers + 1 + (worker == &loader->repairer);
    return loader->options.num_workers ? (uint32_t)(worker - loader->workers) + 1 : 0;
}

enum pst_status psti_loader_worker_open(struct psti_loader_worker *worker, pst_loader *loader,
                                        struct pst_error *err)
{
    const struct psti_loader_plan *plan = &loader->plan;
    *worker = (struct psti_loader_worker){.loader = loader,
                                          .owes = worker == loader->workers &&
                                                  loader->options.num_workers == 0,
                                          .meter = worker->meter,
                                          .has_clocks = worker->has_clocks};
    if (!psti_batch_pool_charge(loader->pool, PSTI_LOADER_WORKER_NBYTES, false) &&
        !psti_batch_pool_charge(loader->pool, PSTI_LOADER_WORKER_NBYTES, true))
        return psti_fail(err, PST_ERROR_LIMIT, "loader",
                         "host_memory (%llu bytes) leaves no scratch for another decoder",
                         (unsigned long long)loader->options.host_memory);
    worker->grant = PSTI_LOADER_GRANT_MIN_NBYTES;
    if (!worker->has_clocks)
        psti_stall_meter_thread_init(&worker->meter, loader->trace, psti_loader_worker_tid(worker));
    worker->has_clocks = true;
    worker->draws = psti_calloc(plan->n_fields + 1, sizeof *worker->draws);
    worker->view_draws = psti_calloc(plan->n_views + 1, sizeof *worker->view_draws);
    worker->sources = psti_calloc(plan->n_items + 1, sizeof *worker->sources);
    worker->reads = psti_calloc(plan->n_reads + 1, sizeof *worker->reads);
    if (loader->training)
        worker->pictures = psti_calloc(plan->n_items + 1, sizeof *worker->pictures);
    if (loader->options.fleet)
        worker->requests = psti_calloc(plan->n_items + 1, sizeof *worker->requests);
    if (pst_dataset_is_folder(loader->dataset))
        worker->paths = psti_alloc_array(plan->n_items + 1, PSTI_PATH_NBYTES);
    enum pst_status status = PST_OK;
    if (!worker->draws || !worker->view_draws || !worker->sources || !worker->reads ||
        (loader->options.fleet && !worker->requests) || (loader->training && !worker->pictures) ||
        (pst_dataset_is_folder(loader->dataset) && !worker->paths))
        status = psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a worker");
    if (status == PST_OK)
        status = open_tools(worker, err);
    if (status == PST_OK)
        hold_grant(worker);
    if (status == PST_OK)
        status = loader->placement.ops->open_worker(worker, err);
    if (status != PST_OK)
        psti_loader_worker_close(worker);
    return status;
}

void psti_loader_worker_close(struct psti_loader_worker *worker)
{
    if (!worker->loader)
        return;
    worker->loader->placement.ops->close_worker(worker);
    psti_decode_close(&worker->decoder);
    psti_augment_run_close(&worker->run);
    psti_sound_run_close(&worker->sound);
    psti_free(worker->draws);
    psti_free(worker->view_draws);
    psti_free(worker->picture);
    psti_free(worker->sources);
    psti_free(worker->reads);
    psti_free(worker->requests);
    psti_loader_recode_forget(worker);
    psti_free(worker->pictures);
    psti_free(worker->paths);
    psti_free(worker->buffer);
    psti_free(worker->boxes_memory);
    psti_batch_pool_uncharge(worker->loader->pool, PSTI_LOADER_DECODER_NBYTES + 2 * worker->grant +
                                                       worker->extra + worker->buffer_nbytes +
                                                       worker->sound_nbytes + worker->boxes_nbytes +
                                                       worker->picture_nbytes);
    *worker = (struct psti_loader_worker){.meter = worker->meter, .has_clocks = worker->has_clocks};
}

bool psti_loader_worker_grow(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    uint64_t limit = 2 * worker->grant, max = loader->scratch_max;
    if (worker->grown || worker->grant >= max)
        return !worker->emptied && empty_tools(worker);
    if (limit > max)
        limit = max;
    if (psti_batch_pool_charge(loader->pool, 2 * (limit - worker->grant), false)) {
        worker->grant = limit;
        raise_to(&loader->grant_max, limit);
        hold_grant(worker);
        return true;
    } else {
        if (!worker->has_reserve) {
            pthread_mutex_lock(&loader->reserve_lock);
            worker->has_reserve = true;
        }
        limit = max;
        uint64_t more = 2 * (max - worker->grant);
        if (!psti_batch_pool_charge(loader->pool, more, true))
            return false;
        worker->reserve_nbytes += more;
        worker->grown = true;
        psti_loader_fell_back(loader, PST_FALLBACK_RESERVE, 1);
        if (!empty_tools(worker))
            return false;
    }
    limit_decoder(worker, limit);
    psti_augment_run_set_scratch_limit(worker->run, limit);
    return true;
}

/* Called after an image. Reserves the scratch that would have decoded it faster, for the next one.
 */
static void grow_extra(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    uint64_t most = loader->options.host_memory / EXTRA_PART / loader->n_workers;
    uint64_t have = worker->grant + worker->extra;
    struct psti_decode_stats stats;
    psti_decode_stats(worker->decoder, &stats);
    if (worker->grown || stats.scratch_wanted <= have || stats.scratch_wanted > most ||
        stats.scratch_wanted > loader->scratch_max)
        return;
    uint64_t more = stats.scratch_wanted - have;
    more = (more + EXTRA_STEP_NBYTES - 1) / EXTRA_STEP_NBYTES * EXTRA_STEP_NBYTES;
    if (more > loader->scratch_max - have)
        more = loader->scratch_max - have;
    if (!psti_batch_pool_charge(loader->pool, more, false))
        return;
    worker->extra += more;
    raise_to(&loader->wanted_max, worker->grant + worker->extra);
    hold_grant(worker);
}

void psti_loader_worker_settle(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    if (!worker->has_reserve)
        return;
    psti_free(worker->reserve_buffer);
    worker->reserve_buffer = NULL;
    if (worker->grown) {
        psti_loader_worker_count(worker, 0);
        psti_decode_close(&worker->decoder);
        psti_augment_run_close(&worker->run);
    }
    psti_batch_pool_uncharge(loader->pool, worker->reserve_nbytes);
    worker->reserve_nbytes = 0;
    worker->grown = false;
    worker->has_reserve = false;
    pthread_mutex_unlock(&loader->reserve_lock);
}

void psti_loader_worker_count(struct psti_loader_worker *worker, int64_t start_ns)
{
    struct psti_decode_stats now;
    if (start_ns)
        worker->decode_ns += (uint64_t)(psti_clock_ns() - start_ns);
    if (!worker->decoder)
        return;
    psti_decode_stats(worker->decoder, &now);
    worker->nbytes_decoded += now.nbytes_out - worker->seen.nbytes_out;
    worker->n_region_fallback += now.n_region_fallback - worker->seen.n_region_fallback;
    worker->n_libpng += now.n_libpng - worker->seen.n_libpng;
    worker->n_units += now.n_units - worker->seen.n_units;
    worker->n_units_whole += now.n_units_whole - worker->seen.n_units_whole;
    worker->seen = now;
}

void psti_loader_worker_read_here(struct psti_loader_worker *worker, int64_t start_ns,
                                  bool within_row)
{
    uint64_t ns = (uint64_t)(psti_clock_ns() - start_ns);
    worker->read_here_ns += ns;
    worker->decode_ns -= within_row ? ns : 0; /* may be less than 0 until the row is counted */
}

void psti_loader_worker_merge(struct psti_loader_worker *worker)
{
    struct pst_loader_stats *stats = &worker->loader->stats;
    const struct psti_placed *placed = &worker->placed;
    stats->read_ns += worker->read_here_ns;
    stats->worker_read_wait_ns += worker->read_here_ns;
    psti_stall_meter_add(&worker->meter.read_ns, worker->read_here_ns);
    worker->read_here_ns = 0;
    stats->decode_ns += worker->decode_ns;
    psti_stall_meter_add(&worker->meter.busy_ns, worker->decode_ns);
    stats->nbytes_decoded += worker->nbytes_decoded;
    stats->n_fallback_region += worker->n_region_fallback;
    psti_loader_fell_back(worker->loader, PST_FALLBACK_LIBPNG, worker->n_libpng);
    stats->n_units_decoded += worker->n_units;
    stats->n_units_whole += worker->n_units_whole;
    stats->n_partial_reads += worker->n_partial;
    stats->n_scaled += worker->n_scaled;
    stats->n_boxes_dropped += worker->n_boxes_dropped;
    stats->n_cpu_samples += worker->n_cpu;
    stats->n_gpu_samples += placed->n_gpu;
    stats->n_gpu_fallback += placed->n_gpu_fallback;
    stats->n_gpu_again += placed->n_gpu_again;
    stats->nbytes_upload += placed->nbytes_upload;
    if (placed->n_gpu_fallback)
        memcpy(stats->gpu_fallback_reason, placed->gpu_reason, sizeof placed->gpu_reason);
    worker->placed = (struct psti_placed){0};
    worker->n_cpu = worker->decode_ns = worker->nbytes_decoded = worker->n_region_fallback = 0;
    worker->n_units = worker->n_units_whole = worker->n_partial = worker->n_scaled = 0;
    worker->n_libpng = worker->n_boxes_dropped = 0;
}

/* The bytes are a picture at the training size. The row is one of the whole image. */
static enum pst_status widen(struct psti_image *image, struct pst_error *err)
{
    const struct psti_training_picture *picture = &image->source->picture;
    struct pst_image_info *info = &image->info;
    image->kept = *info;
    if (info->height != picture->height || info->width != picture->width ||
        info->channels != picture->channels || info->bits != picture->bits)
        return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                         "field '%s': the cache has a picture of another size than it says",
                         image->plan->field->name);
    info->height = picture->whole_height;
    info->width = picture->whole_width;
    info->orientation = picture->orientation;
    return PST_OK;
}

/* Reads the image's kind from its header, or for raw pixels from the index, and finds the chain for
 * such pixels. */
static enum pst_status probe(struct psti_image *image, struct pst_error *err)
{
    const struct psti_loader_plan_field *plan = image->plan;
    const struct pst_item *item = &image->source->item;
    struct pst_image_info *info = &image->info;
    if (item->form == PST_FORM_RAW)
        *info = psti_loader_source_raw_info(image->source);
    image->pli = image->source->pli;
    /* A picture at the training size is upright: `widen` gives it what its whole image has. */
    bool is_whole = image->source->picture.n_ops == 0;
    const struct pst_decode_options options =
        psti_decode_options_for(&plan->decode, is_whole ? item->orientation : 0);
    enum pst_status status = psti_decode_probe_pli(image->source->data, item->nbytes, item->form,
                                                   &options, info, &image->pli, err);
    if (status != PST_OK)
        return status;
    uint8_t channels, bits;
    psti_decode_output(info, &plan->decode, &channels, &bits);
    image->chain = psti_loader_plan_chain(plan, channels, bits);
    if (image->chain)
        return image->source->picture.n_ops ? widen(image, err) : PST_OK;
    if (plan->field->type == PST_FIELD_MASK && channels > 1)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "loader",
                         "field '%s': a mask has one channel, this one has %u: convert colours to "
                         "the numbers of classes (docs/guide/masks-in-colours.md)",
                         plan->field->name, channels);
    return psti_fail(err, PST_ERROR_UNSUPPORTED, "loader",
                     "field '%s' has %u channels of %u bits here, which do not suit its dtype and "
                     "operations (as %u of %u bits do)",
                     plan->field->name, channels, bits, plan->channels, plan->bits);
}

/* True if scaled_decode has an effect on the image. It has none on a JPEG, so it has none on a JPEG
 * that the cache re-coded: a batch does not depend on what the cache holds. */
static bool may_scale(const pst_loader *loader, const struct psti_loader_source *source,
                      const struct pst_image_info *info)
{
    return loader->placement.ops->scales && info->form == PST_FORM_PLI_JPEG && !source->is_recoded;
}

enum pst_status psti_loader_row_draw(const pst_loader *loader,
                                     const struct psti_loader_plan_field *plan,
                                     const struct psti_loader_source *source,
                                     const struct psti_draw_key *key,
                                     const struct pst_image_info *info, struct psti_draw *draw,
                                     struct pst_error *err)
{
    struct psti_draw_key field_key = *key;
    field_key.own = plan->own;
    enum pst_status status =
        psti_augment_chain_draw(plan->chain, &field_key, info->height, info->width, draw, err);
    if (status == PST_OK && plan->scaled_decode && may_scale(loader, source, info)) {
        bool at_top, at_left;
        psti_decode_ends(info, &plan->decode, &at_top, &at_left);
        psti_augment_chain_scale(plan->chain, draw, at_top, at_left);
    }
    if (status == PST_OK && source->picture.n_ops)
        psti_augment_chain_skip(plan->chain, draw, source->picture.n_ops);
    return status;
}

static struct psti_rect region_of(const struct psti_draw *draw)
{
    return (struct psti_rect){draw->region_y, draw->region_x, draw->region_height,
                              draw->region_width};
}

/* The header as probe parsed it. NULL: it was not parsed. */
static const struct psti_pli_header *pli_of(const struct psti_image *image)
{
    enum pst_form form = image->info.form;
    return form == PST_FORM_PLI || form == PST_FORM_PLI_JPEG ? &image->pli : NULL;
}

/* psti_augment_run_rows, of an image in which augmenting is told apart from decoding. */
static enum pst_status timed_rows(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                  uint32_t n_rows)
{
    struct psti_loader_worker *worker = ctx;
    int64_t since = psti_stall_meter_enter_augment(&worker->meter);
    enum pst_status status = psti_augment_run_rows(worker->run, rows, row_nbytes, y, n_rows);
    psti_stall_meter_leave_augment(&worker->meter, since);
    return status;
}

/* The row's part of pixels that are decoded already. */
static enum pst_status take_rows(const struct psti_image *image, psti_row_sink sink, void *ctx)
{
    const struct psti_shelf_picture *picture = image->shared;
    const struct psti_rect region = region_of(image->draw);
    const char *pixels = picture->pixels;
    pixels += (region.y - picture->rect.y) * picture->row_nbytes;
    pixels += (region.x - picture->rect.x) * picture->pixel_nbytes;
    return sink(ctx, pixels, picture->row_nbytes, 0, region.height);
}

/* Decodes the finished row. */
static enum pst_status decode_row(struct psti_loader_worker *worker, const struct psti_image *image,
                                  void *row, struct pst_error *err)
{
    const struct psti_loader_plan_field *plan = image->plan;
    const struct psti_loader_source *source = image->source;
    const struct psti_draw *draw = image->draw;
    const struct psti_rect region = region_of(draw);
    size_t element = pst_dtype_nbytes(worker->loader->plan.slots[image->i_plan].dtype);
    size_t channels =
        plan->layout == PST_LAYOUT_CHW ? 1 : psti_augment_chain_channels(image->chain);
    const struct psti_target target = {.data = row,
                                       .row_nbytes = draw->out_width * element * channels};
    int64_t since = psti_stall_meter_enter_augment(&worker->meter);
    enum pst_status status = psti_augment_run_begin(worker->run, image->chain, draw, &target, err);
    psti_stall_meter_leave_augment(&worker->meter, since);
    const psti_row_sink sink = since ? timed_rows : psti_augment_run_rows;
    void *ctx = since ? (void *)worker : worker->run;
    if (status == PST_OK && image->shared)
        status = take_rows(image, sink, ctx);
    else if (status == PST_OK)
        status = psti_decode_rows_scaled(worker->decoder, source->data, source->item.nbytes,
                                         &image->kept, pli_of(image), &plan->decode,
                                         draw->scale_log2, &region, sink, ctx, err);
    since = psti_stall_meter_enter_augment(&worker->meter);
    if (status == PST_OK)
        status = psti_augment_run_end(worker->run, err);
    psti_stall_meter_leave_augment(&worker->meter, since);
    return status;
}

/* Rows of the region, packed. */
struct picture {
    char *pixels;
    size_t row_nbytes;
};

static enum pst_status copy_rows(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                 uint32_t n_rows)
{
    const struct picture *picture = ctx;
    const char *from = rows;
    char *to = picture->pixels + y * picture->row_nbytes;
    for (uint32_t i = 0; i < n_rows; i++, from += row_nbytes, to += picture->row_nbytes)
        memcpy(to, from, picture->row_nbytes);
    return PST_OK;
}

/* Decodes the pixels of the region without further operations. */
static enum pst_status decode_picture(struct psti_loader_worker *worker,
                                      const struct psti_image *image, void *pixels,
                                      struct pst_error *err)
{
    const struct psti_loader_plan_field *plan = image->plan;
    const struct psti_rect region = region_of(image->draw);
    struct picture picture = {.pixels = pixels,
                              .row_nbytes = (size_t)region.width * plan->channels *
                                            (plan->bits == 16 ? 2 : 1)};
    return psti_decode_rows_scaled(worker->decoder, image->source->data, image->source->item.nbytes,
                                   &image->kept, pli_of(image), &plan->decode, 0, &region,
                                   copy_rows, &picture, err);
}

enum pst_status psti_loader_pixels_decode_shared(struct psti_loader_worker *worker,
                                                 const struct psti_image *image,
                                                 const struct psti_shelf_picture *shared)
{
    struct picture picture = {.pixels = shared->pixels, .row_nbytes = shared->row_nbytes};
    enum pst_status status;
    worker->emptied = false;
    do
        status = psti_decode_rows_scaled(worker->decoder, image->source->data,
                                         image->source->item.nbytes, &image->kept, pli_of(image),
                                         &image->plan->decode, shared->scale_log2, &shared->rect,
                                         copy_rows, &picture, NULL);
    while (status == PST_ERROR_LIMIT && psti_loader_worker_grow(worker));
    if (worker->decoder)
        grow_extra(worker);
    return status;
}

/* Takes the pixels from the loader's shelf, or decodes them to it. If that is not possible, the row
 * is decoded as without a shelf. */
static enum pst_status share(struct psti_loader_worker *worker, struct psti_image *image,
                             const struct psti_draw_key *key, struct pst_error *err)
{
    struct psti_shelf_picture *picture;
    switch (psti_loader_shelf_picture(worker, image, key, &picture)) {
    case PSTI_SHELF_ALONE:
        break;
    case PSTI_SHELF_TAKE:
        image->shared = picture;
        break;
    case PSTI_SHELF_MAKE:
        if (psti_loader_pixels_decode_shared(worker, image, picture) == PST_OK)
            image->shared = picture;
        psti_loader_shelf_made(worker->loader, picture, image->shared != NULL);
    }
    return worker->decoder && worker->run ? PST_OK : open_tools(worker, err);
}

/* True if a draw made from the index holds for the image itself. A draw depends on the image's
 * size; its scale also depends on form and orientation. */
static bool holds(const struct psti_loader_source *source, const struct pst_image_info *info)
{
    const struct pst_image_info *by = &source->drawn_for;
    return source->is_drawn && by->height == info->height && by->width == info->width &&
           (source->draw.scale_log2 == 0 ||
            (by->form == info->form && by->orientation == info->orientation));
}

/* Takes the draw that was made before the image was read, or makes one now. */
static enum pst_status take_draw(struct psti_loader_worker *worker, const struct psti_draw_key *key,
                                 const struct psti_image *image, struct psti_draw *draw,
                                 struct pst_error *err)
{
    const struct psti_loader_source *source = image->source;
    enum pst_status status = PST_OK;
    if (holds(source, &image->info))
        *draw = source->draw;
    else
        status =
            psti_loader_row_draw(worker->loader, image->plan, source, key, &image->info, draw, err);
    if (status != PST_OK || !source->partial)
        return status;
    /* Only the units of source->stored are in memory, so the decoder must need no others. The
     * image's own head gives its size. But its orientation may come from the image that it follows,
     * and the index may state another one for that. */
    const struct psti_rect region = region_of(draw);
    const struct psti_rect stored =
        psti_decode_stored(&image->info, &image->plan->decode, draw->scale_log2, &region);
    if (memcmp(&stored, &source->stored, sizeof stored) == 0)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                     "field '%s' has another orientation than the index states for its image",
                     image->plan->field->name);
}

/* Aligns the image with the leading one. Only a whole image can be turned for that: whoever keeps a
 * mask at the training size has seen that it is not. */
static enum pst_status follow(struct psti_loader_worker *worker, struct psti_image *image,
                              struct pst_error *err)
{
    bool is_small = image->source->picture.n_ops > 0;
    uint8_t orientation = image->info.orientation;
    enum pst_status status = psti_loader_follow_image(worker, image->i_plan, &image->info, err);
    if (status == PST_OK && is_small && image->info.orientation != orientation)
        return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                         "field '%s': the cache has a mask that must be turned",
                         image->plan->field->name);
    if (!is_small)
        image->kept = image->info;
    return status;
}

enum pst_status psti_loader_pixels_open(struct psti_loader_worker *worker, struct psti_image *image,
                                        struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (psti_loader_worker_lags(worker))
        psti_loader_worker_catch_up(worker);
    if (!worker->decoder || !worker->run) /* closed to give back scratch of the reserve */
        status = open_tools(worker, err);
    if (status == PST_OK)
        status = probe(image, err);
    if (status == PST_OK)
        status = follow(worker, image, err);
    if (status == PST_OK && worker->loader->plan.i_crop_boxes >= 0 &&
        (int)image->i_plan == worker->loader->plan.i_leader)
        status = psti_loader_boxes_follow(worker, err);
    return status;
}

/* Reads header, geometry and random parameters: all of `image` but the place of its pixels. */
static enum pst_status open_image(struct psti_loader_worker *worker,
                                  const struct psti_draw_key *key, struct psti_image *image,
                                  struct pst_error *err)
{
    struct psti_draw *draw = &worker->draws[image->i_plan];
    image->draw = draw;
    enum pst_status status = psti_loader_pixels_open(worker, image, err);
    return status == PST_OK ? take_draw(worker, key, image, draw, err) : status;
}

/* True if the row is the stored bytes. probe has compared their number with the image's size.
 * `place` gave the row that size, because there are no operations. */
static bool is_copy(const struct psti_image *image, const struct psti_place *place)
{
    const struct psti_loader_plan_field *plan = image->plan;
    return place->kind == PSTI_LOADER_PLACE_ROW && plan->identity &&
           image->info.form == PST_FORM_RAW &&
           psti_loader_plan_chain(plan, image->info.channels, image->info.bits) == image->chain &&
           image->info.orientation <= 1;
}

enum pst_status psti_loader_pixels_decode(struct psti_loader_worker *worker,
                                          const struct psti_image *image,
                                          const struct psti_place *place, struct pst_error *err)
{
    enum pst_status status;
    worker->emptied = false;
    do
        status = place->kind == PSTI_LOADER_PLACE_PICTURE
                     ? decode_picture(worker, image, place->data, err)
                     : decode_row(worker, image, place->data, err);
    while (status == PST_ERROR_LIMIT && psti_loader_worker_grow(worker));
    worker->lacks_scratch = status == PST_ERROR_LIMIT;
    if (!worker->decoder || !worker->run)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a decoder");
    if (!image->shared)
        grow_extra(worker);
    return status;
}

/* Counts an image that was decoded here, or failed. */
static void count(struct psti_loader_worker *worker, const struct psti_image *image, bool good)
{
    pst_loader *loader = worker->loader;
    if (image->plan->scaled_decode && !may_scale(loader, image->source, &image->info))
        psti_loader_fell_back(loader, PST_FALLBACK_SCALED, good);
    worker->n_cpu += good;
    if (good && loader->shelf && !image->shared)
        psti_loader_shelf_decoded(worker->loader);
    worker->n_partial += good && image->source->partial;
    worker->n_scaled += good && image->draw->scale_log2 > 0;
}

void psti_loader_pixels_name_error(const struct psti_loader_source *source, struct pst_error *err)
{
    if (err && !err->codec[0] && source->item.form != PST_FORM_NONE)
        psti_error_set_codec(err, pst_form_name(source->item.form));
    /* A decoder counts offsets from the start of its bytes. They mean nothing to the user if the
     * loader re-coded the image. */
    if (err && err->offset >= 0)
        err->offset = (int64_t)source->item.offset + (source->is_recoded ? 0 : err->offset);
}

enum pst_status psti_loader_row_pixels(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint32_t i_plan, uint32_t row,
                                       const struct psti_draw_key *key,
                                       const struct psti_loader_source *source,
                                       struct pst_error *err)
{
    const struct psti_placement_ops *ops = worker->loader->placement.ops;
    struct psti_loader_source smaller;
    if (psti_loader_recode_ahead(worker, &worker->loader->plan.fields[i_plan], source, &smaller))
        source = &smaller;
    struct psti_image image = {.batch = batch,
                               .i_plan = i_plan,
                               .row = row,
                               .plan = &worker->loader->plan.fields[i_plan],
                               .source = source};
    struct psti_place place = {.kind = PSTI_LOADER_PLACE_NOWHERE};
    enum pst_status status = open_image(worker, key, &image, err);
    if (status == PST_OK)
        status = ops->place(worker, &image, &place, err);
    if (worker->starved || (status == PST_OK && place.kind == PSTI_LOADER_PLACE_NOWHERE))
        return status;
    if (status == PST_OK && is_copy(&image, &place)) {
        memcpy(place.data, source->data, source->item.nbytes);
        worker->nbytes_decoded += source->item.nbytes;
        worker->n_cpu++;
        ops->done(worker, &image);
        return PST_OK;
    }
    if (status == PST_OK && source->shelved && place.kind == PSTI_LOADER_PLACE_ROW)
        status = share(worker, &image, key, err);
    if (status == PST_OK)
        status = psti_loader_pixels_decode(worker, &image, &place, err);
    if (status == PST_OK)
        ops->done(worker, &image);
    count(worker, &image, status == PST_OK);
    if (status != PST_OK)
        psti_loader_pixels_name_error(source, err);
    return status;
}
