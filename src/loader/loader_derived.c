/* loader_derived.c - plans the arrays of a batch that describe where its pixels and points come
 * from.
 *
 * In: the plan of an image, a mask or their views, and its output options (`wish`). Out: further
 * plan entries and slot layouts, without stored items: matrices and original sizes; for mosaics
 * those of each tile, the tiles' rectangles and samples, the matrix of the operations that follow
 * the mosaic, and the tile of each box and keypoint. Runs once, at open. */
#include "loader/loader_plan.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

bool psti_loader_plan_is_derived(const struct psti_loader_plan_field *plan)
{
    return plan->fill >= PSTI_LOADER_FILL_GEOMETRY;
}

enum pst_status psti_loader_plan_check_name(const struct psti_loader_plan *plan, const char *name,
                                            struct pst_error *err)
{
    if (plan->n_fields == PST_MAX_FIELDS)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "a batch has more than %d arrays",
                         PST_MAX_FIELDS);
    for (uint32_t i = 0; i < plan->n_fields; i++)
        if (strcmp(plan->slots[i].name, name) == 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "two arrays of a batch would be called '%s'", name);
    return PST_OK;
}

/* Suffixes of the arrays' names, by enum psti_loader_fill from GEOMETRY on. */
static const char *const endings[] = {
    "_geometry", "_original_size", "_tiles", "_tile_index", "_mosaic_geometry", "_tile"};

static bool is_matrix(enum psti_loader_fill fill)
{
    return fill == PSTI_LOADER_FILL_GEOMETRY || fill == PSTI_LOADER_FILL_MOSAIC_GEOMETRY;
}

/* Adds a plan entry for an array that is derived from plan field i_from. Its slot has no shape
 * yet. */
static enum pst_status add(struct psti_loader_plan *plan, uint32_t i_from,
                           enum psti_loader_fill fill, struct psti_slot_field **slot,
                           struct pst_error *err)
{
    const struct psti_loader_plan_field *from = &plan->fields[i_from];
    char name[sizeof plan->slots[0].name + 16];
    snprintf(name, sizeof name, "%s%s", plan->slots[i_from].name,
             endings[fill - PSTI_LOADER_FILL_GEOMETRY]);
    if (strlen(name) >= sizeof plan->slots[0].name)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the name '%s' has %zu bytes: 63 are possible", name, strlen(name));
    enum pst_status status = psti_loader_plan_check_name(plan, name, err);
    if (status != PST_OK)
        return status;
    *slot = &plan->slots[plan->n_fields];
    plan->fields[plan->n_fields++] =
        (struct psti_loader_plan_field){.field = from->field,
                                        .fill = fill,
                                        .i_field = from->i_field,
                                        .i_item = -1,
                                        .i_geometry = (int)i_from,
                                        .i_boxes = -1,
                                        .gives_tiles = from->gives_tiles &&
                                                       fill != PSTI_LOADER_FILL_MOSAIC_GEOMETRY};
    **slot = (struct psti_slot_field){.type = PST_FIELD_ARRAY,
                                      .dtype = is_matrix(fill) ? PST_DTYPE_F64 : PST_DTYPE_I64};
    memcpy((*slot)->name, name, strlen(name));
    return PST_OK;
}

/* Adds an array, derived from pixels, whose rows have one shape. `own`: shape of the entry for one
 * view or tile. */
static enum pst_status add_array(struct psti_loader_plan *plan, uint32_t i_pixels,
                                 enum psti_loader_fill fill, const int64_t *own, uint32_t n_own,
                                 struct pst_error *err)
{
    const struct psti_loader_plan_field *pixels = &plan->fields[i_pixels];
    struct psti_slot_field *slot;
    enum pst_status status = add(plan, i_pixels, fill, &slot, err);
    if (status != PST_OK)
        return status;
    slot->has_array = true;
    if (fill == PSTI_LOADER_FILL_GEOMETRY && pixels->has_view_axis)
        slot->shape[slot->ndim++] = pixels->n_views;
    if (plan->fields[plan->n_fields - 1].gives_tiles)
        slot->shape[slot->ndim++] = PST_MOSAIC_TILES;
    for (uint32_t i = 0; i < n_own; i++)
        slot->shape[slot->ndim++] = own[i];
    return PST_OK;
}

/* Refuses output options that the pixels of plan field i_pixels cannot fulfil. */
static enum pst_status check(const struct pst_field_output *wish, bool is_leader,
                             const struct psti_loader_plan *plan, uint32_t i_pixels,
                             struct pst_error *err)
{
    const struct psti_loader_plan_field *pixels = &plan->fields[i_pixels];
    const char *name = plan->slots[i_pixels].name;
    if (wish->gives_tiles && !(wish->gives_geometry && is_leader))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "'%s': gives_tiles is for the image that gives the sample's geometry, and "
                         "goes with gives_geometry",
                         name);
    if (!wish->gives_geometry)
        return PST_OK;
    if (pixels->fill != PSTI_LOADER_FILL_PIXELS)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': gives_geometry is for images and masks that are decoded",
                         pixels->field->name);
    size_t n_ops;
    const struct pst_op *ops = psti_augment_chain_ops(pixels->chain, &n_ops);
    const char *alone = psti_augment_ops_alone(ops, n_ops, true);
    if (alone)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "'%s': %s may move pixels in a way that no matrix says: leave the "
                         "operation out, or the geometry (gives_geometry)",
                         name, alone);
    if (plan->mosaics && is_leader && !wish->gives_tiles)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "'%s': the pixels of a mosaic come from several pictures: its geometry is "
                         "that of each tile (gives_tiles)",
                         name);
    return PST_OK;
}

enum pst_status psti_loader_plan_derive(const struct pst_field_output *wish, bool is_leader,
                                        struct psti_loader_plan *plan, struct pst_error *err)
{
    static const int64_t matrix[] = {3, 3}, size[] = {2}, rectangle[] = {4};
    uint32_t i_pixels = plan->n_fields - 1;
    enum pst_status status = check(wish, is_leader, plan, i_pixels, err);
    if (status != PST_OK || !wish->gives_geometry)
        return status;
    plan->fields[i_pixels].gives_tiles = wish->gives_tiles;
    status = add_array(plan, i_pixels, PSTI_LOADER_FILL_GEOMETRY, matrix, 2, err);
    if (status == PST_OK)
        status = add_array(plan, i_pixels, PSTI_LOADER_FILL_ORIGINAL_SIZE, size, 1, err);
    if (status == PST_OK && wish->gives_tiles)
        status = add_array(plan, i_pixels, PSTI_LOADER_FILL_TILES, rectangle, 1, err);
    if (status == PST_OK && wish->gives_tiles)
        status = add_array(plan, i_pixels, PSTI_LOADER_FILL_TILE_INDEX, NULL, 0, err);
    if (status == PST_OK && wish->gives_tiles)
        status = add_array(plan, i_pixels, PSTI_LOADER_FILL_MOSAIC_GEOMETRY, matrix, 2, err);
    return status;
}

enum pst_status psti_loader_plan_derive_tiles(struct psti_loader_plan *plan, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    uint32_t n = plan->n_fields;
    if (plan->i_leader < 0 || !plan->fields[plan->i_leader].gives_tiles)
        return PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        const struct psti_loader_plan_field *points = &plan->fields[i];
        struct psti_slot_field *slot;
        if (points->fill != PSTI_LOADER_FILL_POINTS)
            continue;
        status = add(plan, i, PSTI_LOADER_FILL_TILE_OF, &slot, err);
        if (status != PST_OK)
            break;
        bool is_boxes = points->field->type == PST_FIELD_BOXES;
        plan->fields[plan->n_fields - 1].i_boxes = is_boxes ? (int)i : points->i_boxes;
        slot->may_differ = true;
        slot->carried = plan->slots[i].carried;
        slot->ragged.kind = plan->slots[i].ragged.kind;
        slot->ragged.multiple = 1;
        slot->ragged.ndim = 1;
        memset(slot->ragged.fill, 0xFF, sizeof slot->ragged.fill); /* -1 */
    }
    return status;
}
