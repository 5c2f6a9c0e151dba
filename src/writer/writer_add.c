/* writer_add.c - checks the values of one sample before any of them is written.
 *
 * In: the caller's values, which are untrusted. Out: writer->items, complete except for shard and
 * offset. One thread. A sample that fails here changes nothing, so the writer can continue. Errors
 * name sample and field. */
#include "writer/writer_int.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/options.h"
#include "base/hash.h"
#include "pli/pli.h"
#include "pli/format/pli_head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SHOWN_CAP = 164 };

/* Makes a name safe for messages: valid UTF-8, cut between characters. */
static void shown_name(const char *name, char out[NAME_SHOWN_CAP])
{
    size_t n = name != NULL ? strnlen(name, PSTI_NAME_LIMIT) : 0;
    size_t keep = n < 160 ? n : 160;
    while (keep < n && keep > 0 && ((uint8_t)name[keep] & 0xC0) == 0x80)
        keep--;
    if (name == NULL || !psti_format_is_utf8(name, keep))
        snprintf(out, NAME_SHOWN_CAP, "?");
    else
        snprintf(out, NAME_SHOWN_CAP, "%.*s%s", (int)keep, name, keep < n ? "..." : "");
}

/* Puts sample and field in front of an error's text, and keeps codec and offset. */
static enum pst_status name_culprit(const struct pst_sample *sample, const struct pst_field *field,
                                    enum pst_status status, struct pst_error *err)
{
    char name[NAME_SHOWN_CAP], cause[PST_ERROR_TEXT_CAP];
    if (err == NULL)
        return status;
    shown_name(sample->name, name);
    memcpy(cause, err->text, sizeof cause);
    if (field != NULL)
        snprintf(err->text, sizeof err->text, "sample \"%s\", field \"%s\": %.200s", name,
                 field->name, cause);
    else
        snprintf(err->text, sizeof err->text, "sample \"%s\": %.200s", name, cause);
    return status;
}

static enum pst_status check_shape(const struct pst_field *field, const struct pst_value *value,
                                   struct pst_item *item, struct pst_error *err)
{
    uint64_t nbytes = pst_dtype_nbytes(field->dtype);
    item->ndim = value->ndim;
    if (item->ndim > PST_MAX_NDIM)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "the array has %u dimensions, more than %d", item->ndim, PST_MAX_NDIM);
    memcpy(item->shape, value->shape, 4 * (size_t)item->ndim);
    if (field->ndim != 0 && item->ndim == 0) {
        /* The schema fixes the whole shape, so the value need not state it. */
        item->ndim = field->ndim;
        memcpy(item->shape, field->shape, sizeof item->shape);
    }
    if (field->ndim != 0 && (item->ndim != field->ndim ||
                             memcmp(item->shape, field->shape, 4 * (size_t)field->ndim) != 0))
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "the array's shape is not the one that the schema fixes");
    for (int i = 0; i < item->ndim; i++)
        if (!psti_mul_u64(nbytes, item->shape[i], &nbytes))
            return psti_fail(err, PST_ERROR_LIMIT, "writer", "the array's shape is too large");
    if (nbytes != value->nbytes)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "the array has %zu bytes, its shape and dtype need %" PRIu64,
                         value->nbytes, nbytes);
    return PST_OK;
}

/* Checks boxes (n, 4) or keypoints (n, 3) of f32. n follows from the value's length. */
static enum pst_status check_rows(const struct pst_value *value, uint32_t n_columns,
                                  struct pst_item *item, struct pst_error *err)
{
    size_t row = (size_t)n_columns * 4;
    if (value->nbytes % row != 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "%zu bytes are no multiple of %zu",
                         value->nbytes, row);
    if (value->nbytes / row > UINT32_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "writer", "there are more than 2^32 - 1 rows");
    item->ndim = 2;
    item->shape[0] = (uint32_t)(value->nbytes / row);
    item->shape[1] = n_columns;
    return PST_OK;
}

static enum pst_status probe(pst_writer *writer, const struct pst_field *field,
                             const struct pst_value *value, struct pst_image_info *info,
                             struct pst_error *err)
{
    const struct pst_decode_options options = {.struct_size = sizeof options,
                                               .palette_indices = field->type == PST_FIELD_MASK,
                                               .orientation = value->orientation};
    if (writer->decoder == NULL) {
        enum pst_status status = psti_decode_open(&writer->decoder, err);
        if (status != PST_OK)
            return status;
    }
    info->form = value->form;
    info->height = value->height;
    info->width = value->width;
    info->channels = value->channels;
    info->bits = value->bits;
    return psti_decode_probe(writer->decoder, value->bytes, value->nbytes, value->form, &options,
                             info, err);
}

/* Takes the pixel checksum from the PLI's head, because readers of parts rely on the index having
 * the same one. It must equal the caller's, if given. For a JPEG kept as PLI, also takes the length
 * of the JPEG file. */
static enum pst_status check_pli(const struct pst_value *value, struct pst_item *item,
                                 struct pst_error *err)
{
    struct psti_pli_header header;
    enum pst_status status = psti_pli_parse_header(value->bytes, value->nbytes, &header, err);
    if (status != PST_OK)
        return status;
    if (item->has_pixel_checksum && item->pixel_checksum != header.pixel_checksum)
        return psti_fail(err, PST_ERROR_CORRUPT, "writer",
                         "the PLI states pixel checksum %016" PRIx64
                         ", its pixels have %016" PRIx64,
                         header.pixel_checksum, item->pixel_checksum);
    item->has_pixel_checksum = true;
    item->pixel_checksum = header.pixel_checksum;
    if (value->form == PST_FORM_PLI_JPEG) {
        struct psti_jpeg_frame frame;
        status = psti_pli_jpeg_frame(value->bytes, value->nbytes, &frame, err);
        item->jpeg_nbytes = status == PST_OK ? frame.jpeg_nbytes : 0;
    }
    return status;
}

static enum pst_status check_image(pst_writer *writer, const struct pst_field *field,
                                   const struct pst_value *value, struct pst_item *item,
                                   struct pst_error *err)
{
    struct pst_image_info info = {.form = value->form};
    if (value->form != PST_FORM_RAW && value->form != PST_FORM_JPEG &&
        value->form != PST_FORM_PNG && value->form != PST_FORM_WEBP &&
        value->form != PST_FORM_PLI && value->form != PST_FORM_PLI_JPEG)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "an image is jpeg, png, webp, pli, pli-jpeg or raw, this is form %d",
                         (int)value->form);
    if (value->nbytes == 0)
        return psti_fail(err, PST_ERROR_TRUNCATED, "writer", "the image has no bytes");
    enum pst_status status = probe(writer, field, value, &info, err);
    if (status != PST_OK)
        return status;
    if (field->type == PST_FIELD_MASK && info.channels != 1)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "a mask has one channel, this one has %u: convert colours to the "
                         "numbers of classes (docs/guide/masks-in-colours.md)",
                         info.channels);
    item->height = info.height;
    item->width = info.width;
    item->channels = info.channels;
    item->bits = info.bits;
    item->orientation = info.orientation != 0 ? info.orientation : 1;
    item->has_pixel_checksum = value->has_pixel_checksum;
    item->pixel_checksum = value->has_pixel_checksum ? value->pixel_checksum : 0;
    bool is_pli = value->form == PST_FORM_PLI || value->form == PST_FORM_PLI_JPEG;
    item->was_pli = is_pli && value->was_pli;
    return is_pli ? check_pli(value, item, err) : PST_OK;
}

static enum pst_status check_number(const struct pst_field *field, const struct pst_value *value,
                                    struct pst_error *err)
{
    int64_t label;
    if (value->nbytes != 8)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "a number has 8 bytes, this has %zu",
                         value->nbytes);
    memcpy(&label, value->bytes, 8);
    if (field->n_classes > 0 && (label < 0 || label >= field->n_classes))
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "label %" PRId64 " is outside of 0..%" PRId64, label,
                         field->n_classes - 1);
    return PST_OK;
}

static enum pst_status check_array(const struct pst_field *field, const struct pst_value *value,
                                   struct pst_item *item, struct pst_error *err)
{
    int64_t label;
    enum pst_status status = check_shape(field, value, item, err);
    if (status != PST_OK || field->n_classes == 0)
        return status;
    uint64_t i = psti_format_find_stranger(field, value->bytes, value->nbytes, &label);
    if (i < value->nbytes / pst_dtype_nbytes(field->dtype))
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "element %" PRIu64 ", label %" PRId64 ", is outside of 0..%" PRId64, i,
                         label, field->n_classes - 1);
    return PST_OK;
}

static enum pst_status check_value(pst_writer *writer, const struct pst_field *field,
                                   const struct pst_value *value, struct pst_item *item,
                                   struct pst_error *err)
{
    if (value->bytes == NULL && value->nbytes != 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "the value's bytes are NULL");
    if (!psti_format_has_items(field->type))
        return check_number(field, value, err);
    item->nbytes = value->nbytes;
    item->has_checksum = true;
    if (psti_format_is_image(field->type)) {
        item->form = value->form;
        enum pst_status status = check_image(writer, field, value, item, err);
        if (status != PST_OK)
            return status;
        item->checksum = psti_hash64(value->bytes, value->nbytes);
        if (value->form == PST_FORM_RAW && !item->has_pixel_checksum) {
            item->has_pixel_checksum = true;
            item->pixel_checksum = item->checksum;
        }
        return PST_OK;
    }
    if (value->form != PST_FORM_NONE && value->form != PST_FORM_BYTES)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "only images and masks have a form");
    const char *problem;
    item->form = PST_FORM_BYTES;
    item->checksum = psti_hash64(value->bytes != NULL ? value->bytes : "", value->nbytes);
    switch (field->type) {
    case PST_FIELD_BOXES:
        return check_rows(value, 4, item, err);
    case PST_FIELD_KEYPOINTS:
        return check_rows(value, 3, item, err);
    case PST_FIELD_ARRAY:
        return check_array(field, value, item, err);
    case PST_FIELD_TEXT:
    case PST_FIELD_JSON:
        problem = psti_format_text_problem(field->type, value->bytes, value->nbytes);
        return problem == NULL
                   ? PST_OK
                   : psti_fail(err, PST_ERROR_ARGUMENT, "writer", "the %s %s",
                               field->type == PST_FIELD_JSON ? "JSON" : "text", problem);
    default:
        return PST_OK;
    }
}

/* True if a variant is absent. An absent image has form NONE, other absent values have no bytes. A
 * variant may be absent only if the field has several. */
static bool is_absent(const struct pst_field *field, const struct pst_value *value)
{
    return value->form == PST_FORM_NONE && value->bytes == NULL && value->nbytes == 0 &&
           (psti_format_is_image(field->type) || field->n_variants > 1);
}

static enum pst_status check_field(pst_writer *writer, uint32_t i_field,
                                   const struct pst_value *values, uint64_t *nbytes,
                                   struct pst_error *err)
{
    const struct pst_field *field = &writer->fields[i_field];
    uint32_t n_present = 0;
    if (values == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "there is no value");
    for (uint32_t v = 0; v < field->n_variants; v++) {
        struct pst_item *item = &writer->items[i_field][v];
        memset(item, 0, sizeof *item);
        if (is_absent(field, &values[v]))
            continue;
        enum pst_status status = check_value(writer, field, &values[v], item, err);
        if (status != PST_OK)
            return status;
        if (field->type == PST_FIELD_KEYPOINTS)
            status = psti_writer_check_points(writer, i_field, item, err);
        if (status != PST_OK)
            return status;
        n_present++;
        /* Upper bound: record header, most alignment before the item, most padding after it. */
        uint64_t most = PSTI_RECORD_NBYTES + 64 + 8;
        if (psti_format_has_items(field->type) &&
            (!psti_add_u64(most, values[v].nbytes, &most) || !psti_add_u64(*nbytes, most, nbytes) ||
             *nbytes > INT64_MAX / 2))
            return psti_fail(err, PST_ERROR_LIMIT, "writer", "the value is too large");
    }
    if (n_present == 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "the value is absent in every variant");
    return PST_OK;
}

enum pst_status psti_writer_take_sample(pst_writer *writer, const struct pst_sample *given,
                                        struct pst_sample *sample, struct pst_error *err)
{
    enum pst_status status = psti_options_copy(sample, sizeof *sample, given, "writer", err);
    if (status != PST_OK || sample->values == NULL)
        return status;
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        const char *from = (const char *)sample->values[i];
        for (uint32_t v = 0; from != NULL && v < writer->fields[i].n_variants; v++) {
            status = psti_struct_read(&writer->values[i][v], sizeof writer->values[i][v],
                                      from + v * sample->value_nbytes, sample->value_nbytes,
                                      "value_nbytes", "writer", err);
            if (status != PST_OK)
                return status;
        }
        writer->lists[i] = from == NULL ? NULL : writer->values[i];
    }
    sample->values = writer->lists;
    sample->value_nbytes = sizeof(struct pst_value);
    return PST_OK;
}

enum pst_status psti_writer_check_sample(pst_writer *writer, const struct pst_sample *sample,
                                         uint64_t *nbytes, struct pst_error *err)
{
    *nbytes = 0;
    if (sample->name == NULL || sample->values == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "a sample's name or values are NULL");
    size_t name_nbytes = strnlen(sample->name, PSTI_NAME_LIMIT);
    const char *problem = psti_format_name_problem(sample->name, name_nbytes);
    if (problem != NULL)
        return name_culprit(sample, NULL,
                            psti_fail(err, PST_ERROR_ARGUMENT, "writer", "its name %s", problem),
                            err);
    if (psti_writer_names_has(&writer->names, sample->name, name_nbytes))
        return name_culprit(sample, NULL,
                            psti_fail(err, PST_ERROR_EXISTS, "writer",
                                      "the data set has a sample of that name already"),
                            err);
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        enum pst_status status = check_field(writer, i, sample->values[i], nbytes, err);
        if (status != PST_OK)
            return name_culprit(sample, &writer->fields[i], status, err);
    }
    uint32_t i_culprit = 0;
    enum pst_status status = psti_writer_check_geometry(writer, sample, &i_culprit, err);
    if (status != PST_OK)
        return name_culprit(sample, &writer->fields[i_culprit], status, err);
    return PST_OK;
}

void psti_writer_count_item(pst_writer *writer, uint32_t i_field, const struct pst_item *item)
{
    if (item->form == PST_FORM_NONE)
        return;
    if (item->nbytes > writer->max_item_nbytes[i_field])
        writer->max_item_nbytes[i_field] = item->nbytes;
    uint64_t pixels;
    if (psti_format_is_image(writer->fields[i_field].type) &&
        psti_mul_u64(item->height, item->width, &pixels) &&
        psti_mul_u64(pixels, (uint64_t)item->channels * (item->bits / 8), &pixels) &&
        pixels > writer->max_pixels_nbytes[i_field])
        writer->max_pixels_nbytes[i_field] = pixels;
}
