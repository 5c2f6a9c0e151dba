/* loader_boxes.c - drops boxes of which the operations left too little, and the rows of other
 * fields that belong to those boxes.
 *
 * In: a filled row, with the boxes as they were stored and as they were moved. Out: the same row
 * with the remaining boxes in their order. Random operations that depend on boxes also get them
 * from this file, before the row is filled. Fields declared to have a row for each box
 * (pst_field_output.per_box_of) keep the same rows; keypoints may have a fixed number of rows for
 * each box, say 17, in the order of the boxes. Any worker, for its own row; no locks.
 *
 * The rule is that of torchvision's SanitizeBoundingBoxes: a box is kept if its area on the
 * delivered picture is at least min_area pixels^2, and at least min_visibility of the area that it
 * would have if it were not clipped. */
#include "loader/rows/loader_boxes.h"
#include "loader/loader_follow.h"
#include "loader/loader_handle.h"
#include "loader/loader_plan.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <string.h>

/* Number of samples that are examined for fields that seem to have a row for each box. */
#define SAMPLES_LOOKED_AT 64

static double area_of(const float box[4])
{
    return ((double)box[2] - box[0]) * ((double)box[3] - box[1]);
}

static float within(float value, uint32_t size)
{
    return value<0 ? 0 : value>(float) size ? (float)size : value;
}

/* Clips a box to the picture. */
static void clip(const struct psti_picture_size *picture, float box[4])
{
    box[0] = within(box[0], picture->width);
    box[1] = within(box[1], picture->height);
    box[2] = within(box[2], picture->width);
    box[3] = within(box[3], picture->height);
}

/* True if box i is kept. `stored` is the box in the data set, `moved` the delivered one. */
static bool is_kept(const struct psti_loader_worker *worker,
                    const struct psti_loader_plan_field *field, const char *stored,
                    const float *moved, size_t i)
{
    const struct psti_loader_plan_field *image = &worker->loader->plan.fields[field->i_geometry];
    const struct psti_picture_size *leader = &worker->leader;
    float box[4];
    double area = area_of(moved + 4 * i);
    memcpy(box, stored + i * sizeof box, sizeof box);
    psti_format_turn_boxes(psti_format_turn_of(leader, field->made_for), leader->height,
                           leader->width, box, 1);
    clip(leader, box);
    double whole = area_of(box) *
                   psti_augment_chain_area_scale(image->chain, &worker->draws[field->i_geometry]);
    return area >= field->min_area && area >= field->min_visibility * whole;
}

/* One field of a sample, whose rows belong to boxes. */
struct column {
    uint32_t i_plan;
    char *data;
    size_t row_nbytes; /* bytes of all rows that belong to one box */
    size_t n_each;     /* number of rows for each box */
};

/* Finds the field of boxes and the fields that belong to it. Fails if a field has another number of
 * rows than it needs. */
static enum pst_status find_columns(struct psti_loader_worker *worker, pst_batch *batch,
                                    uint32_t row, uint32_t i_boxes,
                                    const struct psti_loader_source *sources, size_t n,
                                    struct column columns[PST_MAX_FIELDS], uint32_t *n_columns,
                                    struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    *n_columns = 0;
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        if ((i != i_boxes && plan->fields[i].i_boxes != (int)i_boxes) ||
            psti_loader_plan_is_derived(&plan->fields[i]))
            continue;
        const struct pst_item *item = &sources[plan->fields[i].i_item].item;
        uint64_t n_rows = i == i_boxes                                      ? n
                          : plan->fields[i].fill == PSTI_LOADER_FILL_POINTS ? item->nbytes / 12
                          : item->ndim > 0                                  ? item->shape[0]
                                                                            : UINT64_MAX;
        size_t n_each = 1;
        if (plan->fields[i].fill == PSTI_LOADER_FILL_POINTS && i != i_boxes && n > 0 &&
            n_rows % n == 0 && n_rows > 0)
            n_each = (size_t)(n_rows / n);
        if (n_rows != n * n_each)
            return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                             "field '%s' does not have a row for each of the %zu boxes of field "
                             "'%s'",
                             plan->fields[i].field->name, n, plan->fields[i_boxes].field->name);
        columns[(*n_columns)++] = (struct column){i, psti_batch_row_data(batch, i, row),
                                                  n ? (size_t)(item->nbytes / n) : 0, n_each};
    }
    return PST_OK;
}

static enum pst_status drop(struct psti_loader_worker *worker, pst_batch *batch, uint32_t row,
                            uint32_t i_boxes, const struct psti_loader_source *sources,
                            struct pst_error *err)
{
    const struct psti_loader_plan_field *field = &worker->loader->plan.fields[i_boxes];
    const struct psti_loader_source *source = &sources[field->i_item];
    struct column columns[PST_MAX_FIELDS];
    size_t n = (size_t)(source->item.nbytes / (4 * sizeof(float))), n_kept = 0;
    uint32_t n_columns;
    enum pst_status status =
        find_columns(worker, batch, row, i_boxes, sources, n, columns, &n_columns, err);
    if (status != PST_OK)
        return status;
    const float *moved = psti_batch_row_data(batch, i_boxes, row);
    for (size_t i = 0; i < n; i++) {
        if (!is_kept(worker, field, source->data, moved, i))
            continue;
        for (uint32_t c = 0; c < n_columns && i != n_kept; c++)
            memcpy(columns[c].data + n_kept * columns[c].row_nbytes,
                   columns[c].data + i * columns[c].row_nbytes, columns[c].row_nbytes);
        n_kept++;
    }
    for (uint32_t c = 0; c < n_columns && n_kept < n; c++)
        psti_batch_shorten_row(batch, columns[c].i_plan, row,
                               (int64_t)(n_kept * columns[c].n_each));
    worker->n_boxes_dropped += n - n_kept;
    return PST_OK;
}

enum pst_status psti_loader_boxes_drop(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint32_t row, const struct psti_loader_source *sources,
                                       struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++)
        if (plan->fields[i].drops)
            status = drop(worker, batch, row, i, sources, err);
    return status;
}

/* Boxes for a draw
 * ------------------------------------------------------------------------------------------------
 */

/* Allocates memory for the boxes and a copy of them, which the worker keeps for later rows. */
static enum pst_status reserve(struct psti_loader_worker *worker, size_t nbytes)
{
    struct psti_pool *pool = worker->loader->pool;
    size_t total = psti_round_up(2 * nbytes + 1, 4096);
    if (2 * nbytes < worker->boxes_nbytes)
        return PST_OK;
    worker->starved = !psti_batch_pool_charge(pool, total, false);
    if (worker->starved)
        return PST_ERROR_LIMIT;
    float *memory = psti_alloc(total);
    psti_batch_pool_uncharge(pool, memory ? worker->boxes_nbytes : total);
    if (!memory)
        return PST_ERROR_MEMORY;
    psti_free(worker->boxes_memory);
    worker->boxes_memory = memory;
    worker->boxes_nbytes = total;
    return PST_OK;
}

enum pst_status psti_loader_boxes_take(struct psti_loader_worker *worker, const void *boxes,
                                       uint64_t nbytes, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    const char *name = plan->fields[plan->i_crop_boxes].field->name;
    if (nbytes % (4 * sizeof(float)))
        return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                         "field '%s': %" PRIu64 " bytes are not a whole number of boxes", name,
                         nbytes);
    enum pst_status status = reserve(worker, (size_t)nbytes);
    if (status != PST_OK)
        return psti_fail(err, status, "loader",
                         "no memory for %" PRIu64 " bytes of boxes of field '%s'", nbytes, name);
    worker->boxes = (struct psti_draw_boxes){
        .boxes = worker->boxes_memory,
        .scratch = worker->boxes_memory + nbytes / sizeof(float),
        .n = (size_t)(nbytes / (4 * sizeof(float))),
    };
    if (nbytes > 0)
        memcpy(worker->boxes_memory, boxes, (size_t)nbytes);
    return PST_OK;
}

enum pst_status psti_loader_boxes_follow(struct psti_loader_worker *worker, struct pst_error *err)
{
    return psti_loader_follow_points(worker, (uint32_t)worker->loader->plan.i_crop_boxes,
                                     worker->boxes_memory, worker->boxes.n, err);
}

/* At open
 * ------------------------------------------------------------------------------------------------
 */

static bool may_have_rows(const struct psti_loader_plan_field *field)
{
    return field->field->type == PST_FIELD_KEYPOINTS || field->field->type == PST_FIELD_JSON ||
           (field->field->type == PST_FIELD_ARRAY && field->field->ndim == 0);
}

/* True if the JSON value is a list. Only its first byte is read. */
static bool is_list(pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                    const struct pst_item *item)
{
    char first = 0;
    return item->nbytes > 0 &&
           pst_dataset_read(dataset, sample, i_field, 0, 0, 1, &first, NULL) == PST_OK &&
           first == '[';
}

/* True if in each of the first samples `field` has as many rows as `boxes` (of keypoints a fixed
 * multiple), and at least one sample has boxes. */
static bool seems_per_box(pst_dataset *dataset, const struct psti_loader_plan_field *boxes,
                          const struct psti_loader_plan_field *field)
{
    uint64_t n = pst_dataset_count(dataset), n_rows = 0, n_each = 0, most = 0;
    for (uint64_t sample = 0; sample < n && sample < SAMPLES_LOOKED_AT; sample++) {
        struct pst_item a, b;
        if (pst_dataset_item(dataset, sample, boxes->i_field, 0, &a, sizeof a, NULL) != PST_OK ||
            pst_dataset_item(dataset, sample, field->i_field, 0, &b, sizeof b, NULL) != PST_OK)
            return false;
        psti_dataset_item_decoded(&a);
        psti_dataset_item_decoded(&b);
        uint64_t n_boxes = a.nbytes / 16;
        uint64_t n_points = b.nbytes / 12;
        if (n_each == 0 && n_boxes > 0 && field->field->type == PST_FIELD_KEYPOINTS)
            n_each = n_points / n_boxes; /* keypoint rows for each box */
        most = n_boxes > most ? n_boxes : most;
        bool same = field->field->type == PST_FIELD_KEYPOINTS
                        ? n_points == n_boxes * n_each && (n_boxes == 0 || n_each > 0)
                    : field->field->type == PST_FIELD_JSON
                        ? is_list(dataset, sample, field->i_field, &b)
                        : b.ndim > 0 && b.shape[0] == n_boxes;
        if (!same)
            return false;
        n_rows += n_boxes;
    }
    return n_rows > 0 && (n_each <= 1 || most > 1); /* one box with several points is no evidence */
}

/* True if operations drop boxes of that field, or mosaics join them with boxes of other rows. */
static bool needs_rows(const struct psti_loader_plan *plan, uint32_t i_boxes)
{
    return plan->fields[i_boxes].drops ||
           (plan->mosaics && plan->fields[i_boxes].field->type == PST_FIELD_BOXES);
}

enum pst_status psti_loader_boxes_check(pst_dataset *dataset, const struct psti_loader_plan *plan,
                                        struct pst_error *err)
{
    for (uint32_t b = 0; b < plan->n_fields; b++)
        for (uint32_t i = 0; needs_rows(plan, b) && i < plan->n_fields; i++) {
            const struct psti_loader_plan_field *boxes = &plan->fields[b],
                                                *field = &plan->fields[i];
            if (i != b && !field->says_boxes && may_have_rows(field) &&
                seems_per_box(dataset, boxes, field))
                return psti_fail(
                    err, PST_ERROR_ARGUMENT, "loader",
                    "boxes of field '%s' that the operations leave too little of are dropped%s, "
                    "and field '%s' seems to have a row for each box: say that it has (per_box) or "
                    "has not, or keep all boxes (keep_boxes)%s",
                    boxes->field->name, plan->mosaics ? ", mosaics join them" : "",
                    field->field->name,
                    field->field->type == PST_FIELD_JSON
                        ? "; rows of JSON cannot be dropped: store an array"
                        : "");
        }
    return PST_OK;
}
