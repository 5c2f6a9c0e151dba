/* loader_pixels.c - decodes one stored image into its row of the slot, in one pass.
 *
 * In: the encoded bytes. Out: pixels in the slot, cropped, resized and converted while they are
 * decoded. */
#include "loader/rows/loader_pixels.h"

#include "loader/rows/loader_boxes.h"
#include "loader/loader_fallback.h"
#include "loader/loader_draw.h"
#include "loader/loader_follow.h"
#include "loader/loader_handle.h"
#include "loader/loader_plan.h"
#include "loader/tiers/loader_recode.h"
#include "loader/tiers/loader_shelf.h"
#include "loader/loader_worker.h"

#include "base/fail.h"

#include <string.h>

/* Handles bytes that are a picture at the training size: image->info then describes the whole
 * image, which the row's operations refer to, and image->kept the bytes. */
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

/* Reads the image's properties from its header, or for raw pixels from the index, and finds the
 * chain for such pixels. */
static enum pst_status probe(struct psti_image *image, struct pst_error *err)
{
    const struct psti_loader_plan_field *plan = image->plan;
    const struct pst_item *item = &image->source->item;
    struct pst_image_info *info = &image->info;
    if (item->form == PST_FORM_RAW)
        *info = psti_loader_source_raw_info(image->source);
    image->pli = image->source->pli;
    /* A picture at the training size is upright already; `widen` restores the orientation of the
     * whole image. */
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

static struct psti_rect region_of(const struct psti_draw *draw)
{
    return (struct psti_rect){draw->region_y, draw->region_x, draw->region_height,
                              draw->region_width};
}

/* Returns the header that `probe` parsed; NULL: the form is not PLI, so none was parsed. */
static const struct psti_pli_header *pli_of(const struct psti_image *image)
{
    enum pst_form form = image->info.form;
    return form == PST_FORM_PLI || form == PST_FORM_PLI_JPEG ? &image->pli : NULL;
}

/* Calls psti_augment_run_rows and clocks it, so that the times of augmenting and decoding are known
 * separately. */
static enum pst_status timed_rows(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                  uint32_t n_rows)
{
    struct psti_loader_worker *worker = ctx;
    int64_t since = psti_stall_meter_enter_augment(&worker->meter);
    enum pst_status status = psti_augment_run_rows(worker->run, rows, row_nbytes, y, n_rows);
    psti_stall_meter_leave_augment(&worker->meter, since);
    return status;
}

/* Passes on the row's region of pixels that another loader has decoded. */
static enum pst_status take_rows(const struct psti_image *image, psti_row_sink sink, void *ctx)
{
    const struct psti_shelf_picture *picture = image->shared;
    const struct psti_rect region = region_of(image->draw);
    const char *pixels = picture->pixels;
    pixels += (region.y - picture->rect.y) * picture->row_nbytes;
    pixels += (region.x - picture->rect.x) * picture->pixel_nbytes;
    return sink(ctx, pixels, picture->row_nbytes, 0, region.height);
}

/* Decodes an image and applies its operations, which write the finished row. */
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

/* Decodes the pixels of the region and applies no operations. */
static enum pst_status decode_picture(struct psti_loader_worker *worker,
                                      const struct psti_image *image, void *pixels,
                                      struct pst_error *err)
{
    const struct psti_loader_plan_field *plan = image->plan;
    const struct psti_rect region = region_of(image->draw);
    const size_t row_nbytes = (size_t)region.width * plan->channels * (plan->bits == 16 ? 2 : 1);
    struct psti_decode_target target = {pixels, row_nbytes, row_nbytes};
    if (image->shared)
        return take_rows(image, psti_decode_copy_rows, &target);
    return psti_decode_rows_scaled(worker->decoder, image->source->data, image->source->item.nbytes,
                                   &image->kept, pli_of(image), &plan->decode, 0, &region,
                                   psti_decode_copy_rows, &target, err);
}

enum pst_status psti_loader_pixels_decode_shared(struct psti_loader_worker *worker,
                                                 const struct psti_image *image,
                                                 const struct psti_shelf_picture *shared)
{
    struct psti_decode_target target = {shared->pixels, shared->row_nbytes, shared->row_nbytes};
    enum pst_status status;
    worker->emptied = false;
    do
        status = psti_decode_rows_scaled(worker->decoder, image->source->data,
                                         image->source->item.nbytes, &image->kept, pli_of(image),
                                         &image->plan->decode, shared->scale_log2, &shared->rect,
                                         psti_decode_copy_rows, &target, NULL);
    while (status == PST_ERROR_LIMIT && psti_loader_worker_grow(worker));
    if (worker->decoder)
        psti_loader_worker_grow_extra(worker);
    return status;
}

/* Takes the image's pixels from the loader's shelf, or decodes them for the shelf. If neither is
 * possible, the row is decoded for this loader alone. */
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
    return psti_loader_worker_ready(worker, err);
}

/* True if a draw that was made from the index is valid for the image itself. A draw depends on the
 * image's size; its scale also depends on form and orientation. */
static bool holds(const struct psti_loader_source *source, const struct pst_image_info *info)
{
    const struct pst_image_info *by = &source->drawn_for;
    return source->is_drawn && by->height == info->height && by->width == info->width &&
           (source->draw.scale_log2 == 0 ||
            (by->form == info->form && by->orientation == info->orientation));
}

/* Uses the draw that was made before the image was read, or makes one now. */
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
            psti_loader_draw(worker->loader, image->plan, source, key, &image->info, draw, err);
    if (status != PST_OK || !source->partial)
        return status;
    /* Only the units of source->stored are in memory, so the decoder must need no others. The size
     * is checked by the image's own head. But the orientation may come from the image that this one
     * follows, and the index may state another orientation for that image. */
    const struct psti_rect region = region_of(draw);
    const struct psti_rect stored =
        psti_decode_stored(&image->info, &image->plan->decode, draw->scale_log2, &region);
    if (memcmp(&stored, &source->stored, sizeof stored) == 0)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                     "field '%s' has another orientation than the index states for its image",
                     image->plan->field->name);
}

/* Aligns the image with the leading one. Only a whole image can be rotated for that. A mask kept at
 * the training size needs no rotation, because that was checked before it was kept. */
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
    if (psti_loader_worker_lags(worker))
        psti_loader_worker_catch_up(worker);
    enum pst_status status = psti_loader_worker_ready(worker, err);
    if (status == PST_OK)
        status = probe(image, err);
    if (status == PST_OK)
        status = follow(worker, image, err);
    if (status == PST_OK && worker->loader->plan.i_crop_boxes >= 0 &&
        (int)image->i_plan == worker->loader->plan.i_leader)
        status = psti_loader_boxes_follow(worker, err);
    return status;
}

/* Reads the header, and sets geometry and random parameters: everything in `image` except where its
 * pixels go. */
static enum pst_status open_image(struct psti_loader_worker *worker,
                                  const struct psti_draw_key *key, struct psti_image *image,
                                  struct pst_error *err)
{
    struct psti_draw *draw = &worker->draws[image->i_plan];
    image->draw = draw;
    enum pst_status status = psti_loader_pixels_open(worker, image, err);
    return status == PST_OK ? take_draw(worker, key, image, draw, err) : status;
}

/* True if the row's pixels are the stored bytes. `probe` has checked that their number fits the
 * image's size, and `place` made the row of that size, because there are no operations. */
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
        psti_loader_worker_grow_extra(worker);
    return status;
}

/* Counts an image that was decoded in this thread, or failed. */
static void count(struct psti_loader_worker *worker, const struct psti_image *image, bool good)
{
    pst_loader *loader = worker->loader;
    if (image->plan->scaled_decode &&
        !psti_loader_draw_may_scale(loader, image->source, &image->info))
        psti_loader_fell_back(loader, PST_FALLBACK_SCALED, good);
    worker->n_cpu += good;
    if (good && loader->tiers.shelf && !image->shared)
        psti_loader_shelf_decoded(worker->loader);
    worker->n_partial += good && image->source->partial;
    worker->n_scaled += good && image->draw->scale_log2 > 0;
}

void psti_loader_pixels_name_error(const struct psti_loader_source *source, struct pst_error *err)
{
    if (err && !err->codec[0] && source->item.form != PST_FORM_NONE)
        psti_error_set_codec(err, pst_form_name(source->item.form));
    /* A decoder counts offsets from the start of its bytes. If the loader re-coded the image, such
     * an offset means nothing in the user's file. */
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
