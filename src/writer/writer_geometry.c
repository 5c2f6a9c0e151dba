/* writer_geometry.c - checks that a sample's masks, boxes and keypoints fit its image.
 *
 * In: a sample whose values were checked separately, so writer->items has sizes and orientations.
 * Out: PST_OK, or the wrong field and the reason. One thread. A mask must have the size of an image
 * of its sample. Boxes must lie on the sample's image: the field `image`, else the first image
 * field. */
#include "writer/writer_int.h"

#include "base/fail.h"
#include "format/format_geometry.h"

#include <math.h>
#include <string.h>

/* Returns the first variant that the sample has; NULL if it has none. */
static const struct pst_item *present(const pst_writer *writer, uint32_t i_field)
{
    for (uint32_t v = 0; v < writer->fields[i_field].n_variants; v++)
        if (writer->items[i_field][v].form != PST_FORM_NONE)
            return &writer->items[i_field][v];
    return NULL;
}

static struct psti_picture_size size_of(const struct pst_item *item)
{
    return (struct psti_picture_size){
        .height = item->height, .width = item->width, .orientation = item->orientation};
}

/* Returns the field of the sample's leading image, which defines its geometry; -1 if there is none.
 */
static int find_image(const pst_writer *writer)
{
    int first = -1;
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        if (writer->fields[i].type != PST_FIELD_IMAGE)
            continue;
        if (strcmp(writer->fields[i].name, "image") == 0)
            return (int)i;
        if (first < 0)
            first = (int)i;
    }
    return first;
}

static enum pst_status fail_unknown(const struct pst_item *image, struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                     "the image has EXIF orientation %u: say whether this was made for the "
                     "\"upright\" or the \"stored\" picture (made_for)",
                     image->orientation);
}

static enum pst_status check_mask(const pst_writer *writer, uint32_t i_mask, uint32_t i_image,
                                  struct pst_error *err)
{
    const struct pst_item *mask = present(writer, i_mask), *image = present(writer, i_image);
    const struct pst_field *field = &writer->fields[i_mask];
    bool undecided = false;
    for (uint32_t i = 0; mask && i < writer->n_fields; i++) {
        const struct pst_item *other = present(writer, i);
        if (writer->fields[i].type != PST_FIELD_IMAGE || !other)
            continue;
        const struct psti_picture_size picture = size_of(other);
        bool fits;
        uint8_t turn = psti_format_turn_of_mask(
            &picture, mask->orientation > 1 ? PST_MADE_FOR_UPRIGHT : field->made_for, mask->height,
            mask->width, &fits);
        if (fits && turn != 0)
            return PST_OK;
        undecided = undecided || (fits && i == i_image);
    }
    if (!mask || !image)
        return PST_OK;
    if (undecided)
        return fail_unknown(image, err);
    return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                     "the mask has %u x %u pixels, field \"%s\" has %u x %u", mask->width,
                     mask->height, writer->fields[i_image].name, image->width, image->height);
}

/* Checks boxes or keypoints in the caller's memory: f32, perhaps unaligned. */
static enum pst_status check_points(const pst_writer *writer, uint32_t i_field, int i_image,
                                    const struct pst_value *value, struct pst_error *err)
{
    const struct pst_field *field = &writer->fields[i_field];
    const struct pst_item *image = i_image < 0 ? NULL : present(writer, (uint32_t)i_image);
    bool boxes = field->type == PST_FIELD_BOXES;
    size_t row_nbytes = boxes ? 16 : 12, n = value->nbytes / row_nbytes;
    struct psti_picture_size picture = image ? size_of(image) : (struct psti_picture_size){0};
    uint8_t turn = psti_format_turn_of(&picture, field->made_for);
    if (turn == 0 && n > 0)
        return fail_unknown(image, err);
    for (size_t i = 0; i < n; i++) {
        float row[4];
        memcpy(row, (const char *)value->bytes + i * row_nbytes, row_nbytes);
        if (boxes && isfinite(row[0] + row[1] + row[2] + row[3]) && row[0] < row[2] &&
            row[1] < row[3])
            psti_format_turn_boxes(turn, picture.height, picture.width, row, 1);
        const char *problem = boxes ? psti_format_box_problem(row, picture.height, picture.width)
                                    : psti_format_keypoint_problem(row);
        memcpy(row, (const char *)value->bytes + i * row_nbytes, row_nbytes);
        if (problem && boxes)
            return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                             "row %zu, (%g, %g, %g, %g), %s (%u x %u pixels)", i, (double)row[0],
                             (double)row[1], (double)row[2], (double)row[3], problem, picture.width,
                             picture.height);
        if (problem)
            return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "row %zu, (%g, %g, %g), %s", i,
                             (double)row[0], (double)row[1], (double)row[2], problem);
    }
    return PST_OK;
}

enum pst_status psti_writer_check_geometry(const pst_writer *writer,
                                           const struct pst_sample *sample, uint32_t *i_field,
                                           struct pst_error *err)
{
    int i_image = find_image(writer);
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < writer->n_fields; i++) {
        const struct pst_field *field = &writer->fields[i];
        *i_field = i;
        if (field->type == PST_FIELD_MASK && i_image >= 0)
            status = check_mask(writer, i, (uint32_t)i_image, err);
        for (uint32_t v = 0; status == PST_OK && v < field->n_variants; v++)
            if ((field->type == PST_FIELD_BOXES || field->type == PST_FIELD_KEYPOINTS) &&
                writer->items[i][v].form != PST_FORM_NONE)
                status = check_points(writer, i, i_image, &sample->values[i][v], err);
    }
    return status;
}
