/* loader_follow.c - aligns masks, further images, boxes and keypoints with the sample's leading
 * image.
 *
 * In: a row whose leading image was probed (worker->leader), and a field that follows it. Out: the
 * EXIF orientation to apply to the field, or an error that names both sizes. Any worker may call
 * for its own row; no locks. */
#include "loader/loader_follow.h"
#include "loader/loader_handle.h"
#include "loader/loader_plan.h"
#include "loader/loader_worker.h"

#include "base/fail.h"
#include "format/format_geometry.h"

static enum pst_status fail_unknown(const struct psti_loader_worker *worker,
                                    const struct psti_loader_plan_field *field,
                                    struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                     "field '%s' has EXIF orientation %u here: say whether field '%s' was made "
                     "for the \"upright\" or the \"stored\" picture (made_for)",
                     plan->fields[field->i_geometry].field->name, worker->leader.orientation,
                     field->field->name);
}

static enum pst_status fail_size(const struct psti_loader_worker *worker,
                                 const struct psti_loader_plan_field *field,
                                 const struct pst_image_info *info, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                     "field '%s' has %u x %u pixels, field '%s', whose geometry it shares, has "
                     "%u x %u",
                     field->field->name, info->width, info->height,
                     plan->fields[field->i_geometry].field->name, worker->leader.width,
                     worker->leader.height);
}

static void swap_sides(struct pst_image_info *info)
{
    uint32_t height = info->height;
    info->height = info->width;
    info->width = height;
}

enum pst_status psti_loader_follow_image(struct psti_loader_worker *worker, uint32_t i_plan,
                                         struct pst_image_info *info, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    const struct psti_loader_plan_field *field = &plan->fields[i_plan];
    bool is_mask = field->field->type == PST_FIELD_MASK, fits;
    enum pst_made_for made_for = field->made_for;
    if (is_mask && info->orientation > 1) { /* the mask file has an EXIF orientation of its own */
        made_for = field->shows_stored ? PST_MADE_FOR_STORED : PST_MADE_FOR_UPRIGHT;
        if (field->shows_stored && info->orientation >= 5)
            swap_sides(info);
        info->orientation = field->shows_stored ? 1 : info->orientation;
    }
    if ((int)i_plan == plan->i_leader)
        worker->leader = (struct psti_picture_size){info->height, info->width, info->orientation,
                                                    field->shows_stored};
    if (!field->follows)
        return PST_OK;
    if (!is_mask) {
        fits = info->height == worker->leader.height && info->width == worker->leader.width;
        return fits || !field->moves ? PST_OK : fail_size(worker, field, info, err);
    }
    uint8_t turn =
        psti_format_turn_of_mask(&worker->leader, made_for, info->height, info->width, &fits);
    if (!fits)
        return fail_size(worker, field, info, err);
    if (turn == 0)
        return fail_unknown(worker, field, err);
    if (turn > 1 && info->orientation > 1)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "loader",
                         "field '%s' has an EXIF orientation of its own, and its image another",
                         field->field->name);
    if (turn > 1)
        info->orientation = turn;
    if (turn >= 5)
        swap_sides(info);
    return PST_OK;
}

enum pst_status psti_loader_follow_points(struct psti_loader_worker *worker, uint32_t i_plan,
                                          float *points, size_t n, struct pst_error *err)
{
    const struct psti_loader_plan_field *field = &worker->loader->plan.fields[i_plan];
    const struct psti_picture_size *leader = &worker->leader;
    bool boxes = field->field->type == PST_FIELD_BOXES;
    uint8_t turn = psti_format_turn_of(leader, field->made_for);
    if (n == 0)
        return PST_OK;
    if (turn == 0)
        return fail_unknown(worker, field, err);
    for (size_t i = 0; i < n; i++) {
        const float *row = points + i * (boxes ? 4 : 3);
        const char *problem =
            boxes ? psti_format_box_problem(row, 0, 0) : psti_format_keypoint_problem(row);
        if (problem)
            return psti_fail(err, PST_ERROR_CORRUPT, "loader", "field '%s': row %zu %s",
                             field->field->name, i, problem);
    }
    if (!boxes) {
        psti_format_turn_keypoints(turn, leader->height, leader->width, points, n);
        return PST_OK;
    }
    psti_format_turn_boxes(turn, leader->height, leader->width, points, n);
    for (size_t i = 0; i < n; i++) {
        const float *box = points + 4 * i;
        const char *problem = psti_format_box_problem(box, leader->height, leader->width);
        if (problem)
            return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                             "field '%s': row %zu, (%g, %g, %g, %g), %s, which has %u x %u pixels",
                             field->field->name, i, (double)box[0], (double)box[1], (double)box[2],
                             (double)box[3], problem, leader->width, leader->height);
    }
    return PST_OK;
}
