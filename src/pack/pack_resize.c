/* pack_resize.c - stores the images of a sample after a Resize of their shorter side.
 *
 * In: a sample of the source. Out: its images, masks, boxes and keypoints as the loader's own
 * Resize makes them: images bilinear and antialiased, masks nearest. The stored images are upright.
 * A loader whose chain begins with the same Resize leaves them unchanged, and so delivers the same
 * pixels as from the whole image, as long as it delivers the image's own channels and bits:
 * conversions to other bits or to gray do not commute with a resize. A sample whose first image is
 * not larger stays as it is. Runs in a worker, with its own decoder, run and slot. */
#include "pack/pack_int.h"

#include "augment/augment.h"
#include "base/fail.h"
#include "base/hash.h"
#include "dataset/dataset.h"
#include "format/format_geometry.h"
#include "verify/verify.h"

#include <string.h>

/* An image or mask of the source whose bytes were read and whose header was parsed. */
struct image {
    const void *bytes;
    size_t nbytes;
    struct pst_item item;
    struct pst_image_info info; /* upright */
    struct pst_decode_options options;
};

static struct psti_buffer *blob_of(const struct psti_pack_resize *work, uint32_t i)
{
    return &work->slot->blobs[(size_t)work->i_field * PSTI_PACK_BLOBS + i];
}

/* Reads variant v of the source's field into a buffer. item->form is NONE if the sample lacks it.
 */
static enum pst_status read_item(struct psti_pack_resize *work, uint32_t v, struct pst_item *item)
{
    struct psti_pack_slot *slot = work->slot;
    pst_dataset *source = work->plan->source;
    uint32_t i_source = work->plan->source_field[work->i_field];
    struct psti_buffer *blob = blob_of(work, v);
    enum pst_status status =
        pst_dataset_item(source, slot->sample, i_source, v, item, sizeof *item, &slot->err);
    if (status == PST_OK)
        psti_dataset_item_decoded(item);
    work->item = *item;
    if (status == PST_OK)
        status = psti_buffer_reserve(blob, item->nbytes, "pack", "of an item", &slot->err);
    if (status == PST_OK && item->nbytes > 0)
        status = pst_dataset_read(source, slot->sample, i_source, v, 0, item->nbytes, blob->bytes,
                                  &slot->err);
    slot->nbytes_in += item->nbytes;
    return status;
}

/* Reads the first variant that the sample has. image->bytes is NULL if it has none. */
static enum pst_status read_image(struct psti_pack_resize *work, struct image *image)
{
    const struct psti_pack_plan *plan = work->plan;
    enum pst_field_type type = plan->fields[work->i_field].type;
    uint32_t i_source = plan->source_field[work->i_field];
    bool is_folder = !pst_dataset_is_packed(plan->source);
    memset(image, 0, sizeof *image);
    psti_verify_decode_options(type, &image->options);
    image->options.ignore_orientation = false;
    for (uint32_t v = 0; v < pst_dataset_field(plan->source, i_source)->n_variants; v++) {
        enum pst_status status = read_item(work, v, &image->item);
        if (status != PST_OK)
            return status;
        if (image->item.form == PST_FORM_NONE &&
            (!is_folder || image->item.i_file == PST_FILE_NONE))
            continue;
        image->bytes = blob_of(work, v)->bytes;
        image->nbytes = (size_t)image->item.nbytes;
        if (image->item.form == PST_FORM_RAW)
            image->info = psti_dataset_raw_info(&image->item);
        image->options.orientation = image->item.orientation;
        return psti_decode_probe(work->decoder, image->bytes, image->nbytes, image->item.form,
                                 &image->options, &image->info, &work->slot->err);
    }
    return PST_OK;
}

/* Compiles the Resize for this kind of pixels, and computes it for the image's size. */
static enum pst_status compile(const struct psti_pack_resize *work, bool is_mask, uint8_t channels,
                               uint8_t bits, uint32_t height, uint32_t width,
                               struct psti_chain **chain, struct psti_draw *draw)
{
    static const struct psti_draw_key none;
    struct pst_op op, follows[PSTI_AUGMENT_MAX_OPS];
    pst_op_init(&op, sizeof op, PST_OP_RESIZE);
    op.height = work->side;
    (void)psti_augment_ops_follow(&op, 1, is_mask, follows);
    const struct psti_chain_output output = {.dtype = bits == 16 ? PST_DTYPE_U16 : PST_DTYPE_U8,
                                             .layout = PST_LAYOUT_HWC,
                                             .channels = channels,
                                             .bits = bits,
                                             .is_mask = is_mask};
    enum pst_status status =
        psti_augment_chain_compile(follows, 1, &output, chain, &work->slot->err);
    return status == PST_OK
               ? psti_augment_chain_draw(*chain, &none, height, width, draw, &work->slot->err)
               : status;
}

/* Decodes the image and resizes it on the way, into a buffer. */
static enum pst_status make_pixels(struct psti_pack_resize *work, const struct image *image,
                                   bool is_mask, struct pst_pixels *pixels)
{
    struct pst_error *err = &work->slot->err;
    struct psti_buffer *blob = blob_of(work, PST_MAX_VARIANTS);
    struct psti_chain *chain = NULL;
    struct psti_draw draw;
    uint8_t channels, bits;
    psti_decode_output(&image->info, &image->options, &channels, &bits);
    enum pst_status status = compile(work, is_mask, channels, bits, image->info.height,
                                     image->info.width, &chain, &draw);
    if (status == PST_OK)
        status = psti_buffer_reserve(blob, psti_augment_chain_output_nbytes(chain, &draw), "pack",
                                     "of an item", err);
    if (status == PST_OK) {
        *pixels = (struct pst_pixels){.data = blob->bytes,
                                      .height = draw.out_height,
                                      .width = draw.out_width,
                                      .channels = channels,
                                      .bits = bits,
                                      .row_nbytes = (int64_t)draw.out_width * channels * bits / 8,
                                      .pixel_nbytes = channels * (bits / 8),
                                      .channel_nbytes = bits / 8};
        const struct psti_target target = {blob->bytes, (size_t)pixels->row_nbytes};
        const struct psti_rect region = {draw.region_y, draw.region_x, draw.region_height,
                                         draw.region_width};
        status = psti_augment_run_begin(work->run, chain, &draw, &target, err);
        if (status == PST_OK)
            status =
                psti_decode_rows(work->decoder, image->bytes, image->nbytes, &image->info,
                                 &image->options, &region, psti_augment_run_rows, work->run, err);
        if (status == PST_OK)
            status = psti_augment_run_end(work->run, err);
    }
    psti_augment_chain_free(&chain);
    return status;
}

static void store_raw(const struct pst_pixels *pixels, struct pst_value *value)
{
    value->bytes = pixels->data;
    value->nbytes = (size_t)pixels->row_nbytes * pixels->height;
    value->form = PST_FORM_RAW;
    value->height = pixels->height;
    value->width = pixels->width;
    value->channels = pixels->channels;
    value->bits = pixels->bits;
    value->has_pixel_checksum = true;
    value->pixel_checksum = psti_hash64(value->bytes, value->nbytes);
}

/* Stores the pixels in the field's forms: as raw pixels if these are wanted or were stored, and
 * once as PLI for all other forms. */
static enum pst_status store_forms(struct psti_pack_resize *work, const struct pst_pixels *pixels,
                                   struct pst_value *values)
{
    const struct psti_pack_plan *plan = work->plan;
    struct psti_pack_slot *slot = work->slot;
    enum pst_field_type type = plan->fields[work->i_field].type;
    const struct psti_pack_forms *wanted = psti_pack_plan_forms(plan, work->i_field, slot->sample);
    struct psti_pack_forms forms = {.n = 0};
    uint32_t i_source = plan->source_field[work->i_field];
    uint32_t n_source = pst_dataset_field(plan->source, i_source)->n_variants;
    bool has_pli = false;
    if (wanted)
        forms = *wanted;
    for (uint32_t v = 0; !wanted && v < n_source; v++) {
        struct pst_item item;
        enum pst_status status = pst_dataset_item(plan->source, slot->sample, i_source, v, &item,
                                                  sizeof item, &slot->err);
        if (status != PST_OK)
            return status;
        forms.forms[forms.n++] = item.form;
    }
    for (uint32_t k = 0; k < forms.n; k++) {
        if (forms.forms[k] == PST_FORM_RAW) {
            store_raw(pixels, &values[k]);
            continue;
        }
        if (has_pli)
            continue;
        has_pli = true;
        const struct psti_pack_pli pli = psti_pack_pli_of(plan, type, &forms, k);
        enum pst_status status =
            psti_pack_pli_encode(&pli, work->decoder, pixels, blob_of(work, PST_MAX_VARIANTS + 1),
                                 &values[k], &slot->err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

static enum pst_status store_image(struct psti_pack_resize *work, struct image *image,
                                   struct pst_value *values)
{
    struct pst_pixels pixels;
    bool is_mask = work->plan->fields[work->i_field].type == PST_FIELD_MASK;
    enum pst_status status = make_pixels(work, image, is_mask, &pixels);
    return status == PST_OK ? store_forms(work, &pixels, values) : status;
}

static enum pst_status fail_turn(const struct psti_pack_resize *work)
{
    return psti_fail(&work->slot->err, PST_ERROR_ARGUMENT, "pack",
                     "the image has EXIF orientation %u, and is stored upright: say whether field "
                     "%s was made for the upright or the stored picture (made_for)",
                     work->leader.orientation, work->plan->fields[work->i_field].name);
}

/* Rotates the size in the mask's header as its image is rotated. */
static enum pst_status turn_mask(const struct psti_pack_resize *work, struct image *mask)
{
    struct pst_image_info *info = &mask->info;
    bool turns_itself = info->orientation > 1, fits;
    enum pst_made_for made_for =
        turns_itself ? PST_MADE_FOR_UPRIGHT : work->plan->fields[work->i_field].made_for;
    uint8_t turn =
        psti_format_turn_of_mask(&work->leader, made_for, info->height, info->width, &fits);
    if (!fits || (turn > 1 && turns_itself))
        return psti_fail(&work->slot->err, PST_ERROR_ARGUMENT, "pack",
                         "field %s has %u x %u pixels, its image %u x %u",
                         work->plan->fields[work->i_field].name, info->width, info->height,
                         work->leader.width, work->leader.height);
    if (turn == 0)
        return fail_turn(work);
    if (turn > 1)
        info->orientation = turn;
    if (turn >= 5) {
        uint32_t height = info->height;
        info->height = info->width;
        info->width = height;
    }
    return PST_OK;
}

/* Stores the boxes or keypoints, moved to the resized picture. */
static enum pst_status store_points(struct psti_pack_resize *work, struct pst_value *value)
{
    struct pst_item item;
    struct psti_chain *chain = NULL;
    struct psti_draw draw;
    const struct pst_field *field = &work->plan->fields[work->i_field];
    bool boxes = field->type == PST_FIELD_BOXES;
    uint8_t turn = psti_format_turn_of(&work->leader, field->made_for);
    enum pst_status status = read_item(work, 0, &item);
    if (status == PST_OK && turn == 0 && item.nbytes > 0)
        status = fail_turn(work);
    if (status == PST_OK)
        status = compile(work, false, 3, 8, work->leader.height, work->leader.width, &chain, &draw);
    if (status == PST_OK) {
        float *points = blob_of(work, 0)->bytes;
        size_t n = (size_t)item.nbytes / ((boxes ? 4 : 3) * sizeof *points);
        if (boxes) {
            psti_format_turn_boxes(turn, work->leader.height, work->leader.width, points, n);
            psti_augment_chain_map_boxes(chain, &draw, points, n);
        } else {
            psti_format_turn_keypoints(turn, work->leader.height, work->leader.width, points, n);
            psti_augment_chain_map_keypoints(chain, &draw, points, n);
        }
        value->bytes = points;
        value->nbytes = (size_t)item.nbytes;
        value->form = item.form;
        value->ndim = item.ndim;
        memcpy(value->shape, item.shape, sizeof value->shape);
    }
    psti_augment_chain_free(&chain);
    return status;
}

static bool is_larger(const struct psti_pack_resize *work, const struct pst_image_info *info)
{
    return info->height > work->side && info->width > work->side;
}

enum pst_status psti_pack_resize_begin(struct psti_pack_resize *work)
{
    const struct psti_pack_plan *plan = work->plan;
    uint64_t nbytes_in = work->slot->nbytes_in;
    struct image image;
    for (work->i_field = 0; work->i_field < plan->n_fields; work->i_field++)
        if (plan->fields[work->i_field].type == PST_FIELD_IMAGE)
            break;
    if (work->i_field == plan->n_fields)
        return PST_OK;
    enum pst_status status = read_image(work, &image);
    work->slot->nbytes_in = nbytes_in; /* the caller reads the sample again and counts the bytes */
    if (status != PST_OK || image.bytes == NULL)
        return status;
    work->is_larger = is_larger(work, &image.info);
    work->leader = (struct psti_picture_size){image.info.height, image.info.width,
                                              image.info.orientation, false};
    work->slot->is_resized = work->is_larger;
    return PST_OK;
}

enum pst_status psti_pack_resize_field(struct psti_pack_resize *work, uint32_t i_field,
                                       struct pst_value *values, bool *done)
{
    enum pst_field_type type = work->plan->fields[i_field].type;
    uint64_t nbytes_in = work->slot->nbytes_in;
    struct image image;
    work->i_field = i_field;
    *done = work->is_larger && psti_format_lies_on_image(type);
    if (*done && type != PST_FIELD_MASK)
        return store_points(work, values);
    if (type != PST_FIELD_IMAGE && !*done)
        return PST_OK;
    enum pst_status status = read_image(work, &image);
    if (status == PST_OK && type == PST_FIELD_IMAGE)
        *done = image.bytes != NULL && is_larger(work, &image.info);
    if (status == PST_OK && !*done)
        work->slot->nbytes_in = nbytes_in;
    if (status != PST_OK || !*done || image.bytes == NULL)
        return status;
    if (type == PST_FIELD_MASK)
        status = turn_mask(work, &image);
    return status == PST_OK ? store_image(work, &image, values) : status;
}
