/* pack_prepare.c - turns one sample of the source into the values that the writer stores.
 *
 * It runs in a worker, with its own decoder and slot. It reads all bytes, so the source's checksums
 * are compared. An image is decoded if the plan wants raw pixels or PLI, if it is lossless and its
 * pixel checksum is unknown, or if all images are to be verified. Only PLI is encoded. A JPEG stays
 * a JPEG if it cannot become a PLI of its coefficients or would not become smaller; the slot then
 * has the reason. */
#include "pack/pack_int.h"
#include "verify/verify.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"
#include "dataset/dataset.h"
#include "decode/decode_audio.h"
#include "format/format_dataset.h"
#include "pli/pli.h"

#include <string.h>

#define BLOB_PIXELS PST_MAX_VARIANTS
#define BLOB_PLI (PST_MAX_VARIANTS + 1)
#define BLOB_JPEG (PST_MAX_VARIANTS + 2)
#define BLOB_KEEP_NBYTES ((size_t)4 << 20)

struct original;

/* The state of the work on one sample. */
struct work {
    const struct psti_pack_plan *plan;
    struct psti_decoder *decoder;
    struct psti_pli_keep *jpeg;
    struct psti_pack_slot *slot;
    uint32_t i_field, i_source;
    struct pst_decode_options options;
    struct pst_item item;             /* the item read last, for error messages */
    const struct original *pixels_of; /* the image whose pixels are in BLOB_PIXELS, or NULL */
    bool has_other_forms;             /* the image is stored in several forms */
};

/* An image or mask of the source whose bytes were read and whose header was parsed. */
struct original {
    const void *bytes;
    size_t nbytes;
    struct pst_item item;
    struct pst_image_info info;
};

enum pst_status psti_pack_slot_init(struct psti_pack_slot *slot, uint32_t n_fields,
                                    struct pst_error *err)
{
    slot->values = psti_calloc((size_t)n_fields * PST_MAX_VARIANTS, sizeof *slot->values);
    slot->lists = psti_calloc(n_fields, sizeof *slot->lists);
    slot->blobs = psti_calloc((size_t)n_fields * PSTI_PACK_BLOBS, sizeof *slot->blobs);
    slot->ints = psti_calloc(n_fields, sizeof *slot->ints);
    slot->floats = psti_calloc(n_fields, sizeof *slot->floats);
    if (slot->values == NULL || slot->lists == NULL || slot->blobs == NULL || slot->ints == NULL ||
        slot->floats == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for %u fields", n_fields);
    for (uint32_t i = 0; i < n_fields; i++)
        slot->lists[i] = slot->values + (size_t)i * PST_MAX_VARIANTS;
    return PST_OK;
}

void psti_pack_slot_free(struct psti_pack_slot *slot, uint32_t n_fields)
{
    if (slot->blobs != NULL)
        for (size_t i = 0; i < (size_t)n_fields * PSTI_PACK_BLOBS; i++)
            psti_buffer_free(&slot->blobs[i]);
    psti_free(slot->blobs);
    psti_free(slot->values);
    psti_free(slot->lists);
    psti_free(slot->ints);
    psti_free(slot->floats);
}

void psti_pack_slot_trim(struct psti_pack_slot *slot, uint32_t n_fields)
{
    for (size_t i = 0; i < (size_t)n_fields * PSTI_PACK_BLOBS; i++) {
        if (slot->blobs[i].capacity > BLOB_KEEP_NBYTES) {
            psti_buffer_free(&slot->blobs[i]);
        }
    }
}

static struct psti_buffer *blob_of(struct work *work, uint32_t i)
{
    return &work->slot->blobs[(size_t)work->i_field * PSTI_PACK_BLOBS + i];
}

/* Reads variant v of the source into its buffer. If the sample lacks it, item.form is NONE and
 * `bytes` is NULL. */
static enum pst_status read_item(struct work *work, uint32_t v, struct original *original)
{
    struct psti_pack_slot *slot = work->slot;
    struct pst_error *err = &slot->err;
    pst_dataset *source = work->plan->source;
    memset(original, 0, sizeof *original);
    enum pst_status status = pst_dataset_item(source, slot->sample, work->i_source, v,
                                              &original->item, sizeof original->item, err);
    if (status != PST_OK)
        return status;
    psti_dataset_item_decoded(&original->item);
    work->item = original->item;
    if (original->item.i_file == PST_FILE_NONE && original->item.form == PST_FORM_NONE)
        return PST_OK;
    if (original->item.form == PST_FORM_NONE && pst_dataset_is_packed(source))
        return PST_OK;
    struct psti_buffer *blob = blob_of(work, v);
    status = psti_buffer_reserve(blob, original->item.nbytes, "pack", "of an item", err);
    if (status == PST_OK)
        status = pst_dataset_read(source, slot->sample, work->i_source, v, 0, original->item.nbytes,
                                  blob->bytes, err);
    original->bytes = blob->bytes;
    original->nbytes = (size_t)original->item.nbytes;
    slot->nbytes_in += original->nbytes;
    return status;
}

/* Reads an image or mask like read_item, and parses its header. bytes is NULL if the variant is
 * absent. */
static enum pst_status read_image(struct work *work, uint32_t v, struct original *original)
{
    enum pst_status status = read_item(work, v, original);
    if (status != PST_OK || original->bytes == NULL)
        return status;
    struct pst_item *item = &original->item;
    struct pst_image_info *info = &original->info;
    if (item->form == PST_FORM_RAW) {
        info->form = item->form;
        info->height = item->height;
        info->width = item->width;
        info->channels = item->channels;
        info->bits = item->bits;
        info->orientation = 1;
    }
    const struct pst_decode_options options =
        psti_decode_options_for(&work->options, item->orientation);
    status = psti_decode_probe(work->decoder, original->bytes, original->nbytes, item->form,
                               &options, info, &work->slot->err);
    if (status == PST_OK)
        work->item.form = item->form = info->form;
    return status;
}

/* Stores the bytes of the image unchanged. */
static enum pst_status store_original(struct work *work, const struct original *original,
                                      struct pst_value *value)
{
    struct pst_error *err = &work->slot->err;
    const struct pst_image_info *info = &original->info;
    const struct pst_item *item = &original->item;
    value->bytes = original->bytes;
    value->nbytes = original->nbytes;
    value->form = info->form;
    if (info->form == PST_FORM_RAW) {
        value->height = info->height;
        value->width = info->width;
        value->channels = info->channels;
        value->bits = info->bits;
    }
    value->orientation = item->orientation;
    value->has_pixel_checksum = item->has_pixel_checksum;
    value->pixel_checksum = item->pixel_checksum;
    value->was_pli = item->was_pli || !pst_dataset_is_packed(work->plan->source);
    bool has_sum = info->form == PST_FORM_PLI_JPEG ||
                   psti_verify_is_lossless(info->form, original->bytes, original->nbytes);
    /* A loader may replace one form by another only if it knows that their pixels are equal, so a
     * JPEG beside other forms gets a checksum. */
    has_sum |= work->has_other_forms && info->form == PST_FORM_JPEG;
    if (!work->plan->verify_pixels && (!has_sum || item->has_pixel_checksum))
        return PST_OK;
    uint64_t hash;
    enum pst_status status = psti_decode_hash_pixels(
        work->decoder, original->bytes, original->nbytes, info, &work->options, &hash, err);
    if (status != PST_OK || !has_sum)
        return status;
    if (item->has_pixel_checksum && item->pixel_checksum != hash)
        return psti_fail(err, PST_ERROR_CHECKSUM, "pack",
                         "the decoded pixels do not match their checksum");
    value->has_pixel_checksum = true;
    value->pixel_checksum = hash;
    return PST_OK;
}

/* Finds the pixels of the image as stored. They are its own bytes, or are decoded into a buffer
 * that the field's other forms share. */
static enum pst_status find_pixels(struct work *work, const struct original *original,
                                   struct pst_pixels *pixels, size_t *nbytes)
{
    struct pst_error *err = &work->slot->err;
    const struct pst_image_info *info = &original->info;
    struct psti_rect whole = {0, 0, info->height, info->width};
    struct psti_buffer *blob = blob_of(work, BLOB_PIXELS);
    size_t row_nbytes;
    if (!psti_decode_pixels_nbytes(info, &work->options, &row_nbytes, nbytes))
        return psti_fail(err, PST_ERROR_LIMIT, "pack", "%ux%u pixels are too many", info->width,
                         info->height);
    *pixels = (struct pst_pixels){.height = info->height, .width = info->width};
    psti_decode_output(info, &work->options, &pixels->channels, &pixels->bits);
    pixels->channel_nbytes = pixels->bits / 8;
    pixels->pixel_nbytes = pixels->channels * pixels->channel_nbytes;
    pixels->row_nbytes = (int64_t)row_nbytes;
    if (info->form == PST_FORM_RAW) {
        /* Only the encoder reads these pixels. A blob's alignment suits any dtype. */
        pixels->data = (void *)(uintptr_t)original->bytes;
        return PST_OK;
    }
    pixels->data = blob->bytes;
    if (work->pixels_of == original)
        return PST_OK;
    enum pst_status status = psti_buffer_reserve(blob, *nbytes, "pack", "of an item", err);
    if (status == PST_OK)
        status = psti_decode_region(work->decoder, original->bytes, original->nbytes, info,
                                    &work->options, &whole, blob->bytes, row_nbytes, err);
    work->pixels_of = status == PST_OK ? original : NULL;
    pixels->data = blob->bytes;
    return status;
}

/* Compares the new pixels with the checksum of the original's pixels, if that is known and belongs
 * to the same picture. */
static enum pst_status check_pixels(struct work *work, const struct original *original,
                                    const struct pst_value *value)
{
    if (!original->item.has_pixel_checksum || original->info.orientation != 1 ||
        value->pixel_checksum == original->item.pixel_checksum)
        return PST_OK;
    return psti_fail(&work->slot->err, PST_ERROR_CHECKSUM, "pack",
                     "the decoded pixels do not match their checksum");
}

/* Stores the image as raw pixels. */
static enum pst_status store_raw(struct work *work, const struct original *original,
                                 struct pst_value *value)
{
    struct pst_pixels pixels;
    size_t nbytes;
    if (original->info.form == PST_FORM_RAW)
        return store_original(work, original, value);
    enum pst_status status = find_pixels(work, original, &pixels, &nbytes);
    if (status != PST_OK)
        return status;
    value->channels = pixels.channels;
    value->bits = pixels.bits;
    value->bytes = pixels.data;
    value->nbytes = nbytes;
    value->form = PST_FORM_RAW;
    value->height = pixels.height;
    value->width = pixels.width;
    value->has_pixel_checksum = true;
    value->pixel_checksum = psti_hash64(pixels.data, nbytes);
    return check_pixels(work, original, value);
}

/* Stores the image as PLI. */
static enum pst_status store_pli(struct work *work, const struct original *original,
                                 const struct psti_pack_pli *wanted, struct pst_value *value)
{
    struct pst_error *err = &work->slot->err;
    struct psti_pack_pli held;
    struct pst_pixels pixels;
    size_t nbytes;
    if (original->info.form == PST_FORM_PLI &&
        psti_pack_pli_read(original->bytes, original->nbytes, &held) &&
        psti_pack_pli_fits(&held, wanted))
        return store_original(work, original, value);
    if (wanted->max_error == 0 && !work->plan->pli_of_lossy &&
        !psti_verify_is_lossless(original->info.form, original->bytes, original->nbytes))
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "pack",
                         "the image is lossy already (%s) and would become larger as pli: keep the "
                         "original, ask for a max_error, or say that lossy images are meant too",
                         pst_form_name(original->info.form));
    enum pst_status status = find_pixels(work, original, &pixels, &nbytes);
    if (status == PST_OK)
        status = psti_pack_pli_encode(wanted, work->decoder, &pixels, blob_of(work, BLOB_PLI),
                                      value, err);
    return status == PST_OK && wanted->max_error == 0 ? check_pixels(work, original, value)
                                                      : status;
}

/* Stores a JPEG as a PLI of its coefficients. Other images, and JPEGs that cannot be kept so or
 * would not become smaller, are stored unchanged. */
static enum pst_status store_pli_jpeg(struct work *work, const struct original *original,
                                      struct pst_value *value)
{
    static const struct pst_pli_from_jpeg_options options = {.struct_size = sizeof options};
    struct psti_pack_slot *slot = work->slot;
    struct psti_buffer *blob = blob_of(work, BLOB_JPEG);
    struct pst_error why;
    if (original->info.form != PST_FORM_JPEG)
        return store_original(work, original, value);
    pst_error_clear(&why);
    enum pst_status status =
        psti_buffer_reserve(blob, original->nbytes, "pack", "of an item", &slot->err);
    if (status != PST_OK)
        return status;
    /* A PLI that is as long as the JPEG would save only decoding time, so the simpler JPEG is kept.
     */
    const struct psti_pli_reference reference = psti_decode_jpeg_reference(work->decoder);
    status = psti_pli_keep_jpeg(work->jpeg, &reference, original->bytes, original->nbytes, &options,
                                blob->bytes, original->nbytes - 1, &value->nbytes, &why);
    if (status == PST_OK) {
        value->bytes = blob->bytes;
        value->form = PST_FORM_PLI_JPEG;
        value->orientation = original->item.orientation;
        slot->n_pli_jpeg++;
        slot->jpeg_nbytes += original->nbytes;
        slot->pli_jpeg_nbytes += value->nbytes;
        return PST_OK;
    }
    if (!psti_pli_keep_stays(status)) {
        slot->err = why;
        return status;
    }
    if (slot->n_kept_jpeg++ == 0) {
        slot->why_kept = why;
        psti_verify_locate(&slot->why_kept, work->plan->source, slot->sample, &work->item);
    }
    slot->kept_jpeg_nbytes += original->nbytes;
    value->nbytes = 0;
    return store_original(work, original, value);
}

/* Stores the JPEG file that is restored from its PLI. */
static enum pst_status store_jpeg_of_pli(struct work *work, const struct original *original,
                                         struct pst_value *value)
{
    struct pst_error *err = &work->slot->err;
    struct psti_buffer *blob = blob_of(work, BLOB_JPEG);
    struct psti_jpeg_frame frame;
    enum pst_status status = psti_pli_jpeg_frame(original->bytes, original->nbytes, &frame, err);
    if (status == PST_OK)
        status = psti_buffer_reserve(blob, frame.jpeg_nbytes, "pack", "of an item", err);
    if (status == PST_OK)
        status = psti_pli_keep_restore(work->jpeg, original->bytes, original->nbytes, blob->bytes,
                                       blob->capacity, &value->nbytes, err);
    if (status != PST_OK)
        return status;
    value->bytes = blob->bytes;
    value->form = PST_FORM_JPEG;
    value->orientation = original->item.orientation;
    work->slot->n_restored_jpeg++;
    work->slot->restored_pli_jpeg_nbytes += original->nbytes;
    work->slot->restored_jpeg_nbytes += value->nbytes;
    return PST_OK;
}

static enum pst_status no_such_form(struct work *work, const struct original *original,
                                    enum pst_form form)
{
    return psti_fail(
        &work->slot->err, PST_ERROR_UNSUPPORTED, "pack",
        "the image is %s and cannot be packed as %s: only original (its own file), raw, pli and "
        "pli-jpeg are possible",
        pst_form_name(original->info.form), pst_form_name(form));
}

static enum pst_status store_pli_as(struct work *work, const struct original *original,
                                    const struct psti_pack_forms *forms, uint32_t k,
                                    struct pst_value *values)
{
    enum pst_field_type type = work->plan->fields[work->i_field].type;
    const struct psti_pack_pli wanted = psti_pack_pli_of(work->plan, type, forms, k);
    return store_pli(work, original, &wanted, &values[k]);
}

/* Makes the variants that the plan asks for from those of the source. */
static enum pst_status store_forms(struct work *work, const struct psti_pack_forms *forms,
                                   struct pst_value *values)
{
    const struct psti_pack_plan *plan = work->plan;
    struct original originals[PST_MAX_VARIANTS];
    struct pst_item items[PST_MAX_VARIANTS];
    uint32_t n_source = pst_dataset_field(plan->source, work->i_source)->n_variants, lossless = 0;
    bool is_folder = !pst_dataset_is_packed(plan->source);
    enum pst_status status = PST_OK;
    for (uint32_t v = 0; status == PST_OK && v < n_source; v++) {
        struct original *original = &originals[v];
        status = read_image(work, v, original);
        items[v] = original->item;
        if (status == PST_OK && original->bytes != NULL &&
            psti_verify_is_lossless(original->info.form, original->bytes, original->nbytes))
            lossless |= 1u << v;
    }
    work->pixels_of = NULL;
    work->has_other_forms = forms->n > 1;
    for (uint32_t k = 0; status == PST_OK && k < forms->n; k++) {
        enum pst_form form = forms->forms[k];
        uint32_t i_from = psti_pack_choose(items, n_source, lossless, form);
        if (i_from == n_source)
            return PST_OK;
        const struct original *from = &originals[i_from];
        work->item = from->item;
        work->slot->n_not_original +=
            form == PST_FORM_NONE && !is_folder && !pst_item_is_original(&from->item);
        if (form == PST_FORM_RAW)
            status = store_raw(work, from, &values[k]);
        else if (form == PST_FORM_PLI)
            status = store_pli_as(work, from, forms, k, values);
        else if (form == PST_FORM_PLI_JPEG)
            status = store_pli_jpeg(work, from, &values[k]);
        else if ((form == PST_FORM_JPEG && from->info.form == PST_FORM_PLI_JPEG) ||
                 (form == PST_FORM_NONE && !is_folder && pst_item_was_jpeg(&from->item)))
            status = store_jpeg_of_pli(work, from, &values[k]);
        else if (form != PST_FORM_NONE && from->info.form != form)
            status = no_such_form(work, from, form);
        else
            status = store_original(work, from, &values[k]);
    }
    return status;
}

/* Stores a JPEG, as PLI if possible. Other variants of the image may be such JPEGs, too. */
static enum pst_status store_jpeg_variant(struct work *work, uint32_t v,
                                          const struct original *original, struct pst_value *value)
{
    enum pst_status status = store_pli_jpeg(work, original, value);
    if (status == PST_OK && value->form == PST_FORM_PLI_JPEG) {
        /* Swaps buffers: that of this variant's JPEG becomes the output of the next conversion. */
        struct psti_buffer *made = blob_of(work, BLOB_JPEG), *read = blob_of(work, v);
        struct psti_buffer jpeg = *read;
        *read = *made;
        *made = jpeg;
    }
    return status;
}

/* Replaces the labels of an array by the numbers that their classes have in the destination. */
static enum pst_status map_labels(struct work *work, uint32_t v, size_t nbytes)
{
    const struct pst_field *field = pst_dataset_field(work->plan->source, work->i_source);
    const int64_t *map = work->plan->class_map[work->i_field];
    if (map == NULL ||
        psti_format_map_labels(field, blob_of(work, v)->bytes, nbytes, map, field->n_classes))
        return PST_OK;
    return psti_fail(&work->slot->err, PST_ERROR_CORRUPT, "pack",
                     "a label of field %s is outside 0..%lld, or its new number does not fit in %s",
                     field->name, (long long)field->n_classes - 1, pst_dtype_name(field->dtype));
}

/* Stores every variant unchanged, except JPEGs if the plan turns them into PLI. */
static enum pst_status store_variants(struct work *work, struct pst_value *values)
{
    enum pst_field_type type = work->plan->fields[work->i_field].type;
    bool is_image = type == PST_FIELD_IMAGE || type == PST_FIELD_MASK;
    uint32_t n = pst_dataset_field(work->plan->source, work->i_source)->n_variants;
    struct pst_item items[PST_MAX_VARIANTS];
    enum pst_status status = PST_OK;
    for (uint32_t v = 0; status == PST_OK && v < n; v++)
        status = pst_dataset_item(work->plan->source, work->slot->sample, work->i_source, v,
                                  &items[v], sizeof items[v], &work->slot->err);
    bool takes_jpegs = status == PST_OK && psti_pack_plan_takes_jpegs(work->plan, type, items, n);
    for (uint32_t v = 0; status == PST_OK && v < n; v++) {
        struct original original;
        status = is_image ? read_image(work, v, &original) : read_item(work, v, &original);
        if (status != PST_OK || original.bytes == NULL)
            continue;
        if (is_image) {
            status = takes_jpegs && original.info.form == PST_FORM_JPEG
                         ? store_jpeg_variant(work, v, &original, &values[v])
                         : store_original(work, &original, &values[v]);
            continue;
        }
        status = map_labels(work, v, original.nbytes);
        if (status == PST_OK && type == PST_FIELD_AUDIO && work->plan->verify_pixels)
            status = psti_decode_audio_check(original.bytes, original.nbytes, &work->slot->err);
        values[v].bytes = original.bytes;
        values[v].nbytes = original.nbytes;
        values[v].form = original.item.form;
        values[v].ndim = original.item.ndim;
        memcpy(values[v].shape, original.item.shape, sizeof values[v].shape);
    }
    return status;
}

static enum pst_status store_int(struct work *work, struct pst_value *value)
{
    struct psti_pack_slot *slot = work->slot;
    int64_t *number = &slot->ints[work->i_field];
    const int64_t *map = work->plan->class_map[work->i_field];
    enum pst_status status =
        pst_dataset_int(work->plan->source, slot->sample, work->i_source, number, &slot->err);
    if (status != PST_OK)
        return status;
    if (map != NULL) {
        int64_t n = pst_dataset_field(work->plan->source, work->i_source)->n_classes;
        if (*number < 0 || *number >= n)
            return psti_fail(&slot->err, PST_ERROR_CORRUPT, "pack", "label %lld is outside 0..%lld",
                             (long long)*number, (long long)n - 1);
        *number = map[*number];
    }
    value->bytes = number;
    value->nbytes = sizeof *number;
    return PST_OK;
}

static enum pst_status store_float(struct work *work, struct pst_value *value)
{
    struct psti_pack_slot *slot = work->slot;
    double *number = &slot->floats[work->i_field];
    value->bytes = number;
    value->nbytes = sizeof *number;
    return pst_dataset_float(work->plan->source, slot->sample, work->i_source, number, &slot->err);
}

void psti_pack_prepare(const struct psti_pack_plan *plan, struct psti_decoder *decoder,
                       struct psti_pli_keep *jpeg, struct psti_run *run,
                       struct psti_pack_slot *slot)
{
    struct work work = {.plan = plan, .decoder = decoder, .jpeg = jpeg, .slot = slot};
    struct psti_pack_resize resize = {.plan = plan,
                                      .side = psti_pack_plan_side(plan, slot->sample),
                                      .decoder = decoder,
                                      .run = run,
                                      .slot = slot};
    enum pst_status status = PST_OK;
    pst_error_clear(&slot->err);
    slot->nbytes_in = slot->nbytes_out = 0;
    slot->n_pli_jpeg = slot->jpeg_nbytes = slot->pli_jpeg_nbytes = 0;
    slot->n_kept_jpeg = slot->kept_jpeg_nbytes = 0;
    slot->n_restored_jpeg = slot->restored_pli_jpeg_nbytes = slot->restored_jpeg_nbytes = 0;
    slot->n_not_original = 0;
    slot->is_resized = false;
    memset(slot->values, 0, (size_t)plan->n_fields * PST_MAX_VARIANTS * sizeof *slot->values);
    if (resize.side > 0)
        status = psti_pack_resize_begin(&resize);
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++) {
        struct pst_value *values = slot->values + (size_t)i * PST_MAX_VARIANTS;
        bool is_done = false;
        work.i_field = i;
        work.i_source = plan->source_field[i];
        work.item = (struct pst_item){.i_file = PST_FILE_NONE};
        psti_verify_decode_options(plan->fields[i].type, &work.options);
        const struct psti_pack_forms *forms = psti_pack_plan_forms(plan, i, slot->sample);
        if (resize.side > 0)
            status = psti_pack_resize_field(&resize, i, values, &is_done);
        if (status != PST_OK || is_done)
            work.item = resize.item;
        else if (plan->fields[i].type == PST_FIELD_INT)
            status = store_int(&work, values);
        else if (plan->fields[i].type == PST_FIELD_FLOAT)
            status = store_float(&work, values);
        else if (forms != NULL)
            status = store_forms(&work, forms, values);
        else
            status = store_variants(&work, values);
        for (uint32_t v = 0; v < PST_MAX_VARIANTS; v++)
            slot->nbytes_out += values[v].nbytes;
    }
    if (status != PST_OK)
        psti_verify_locate(&slot->err, plan->source, slot->sample, &work.item);
    slot->status = status;
}
