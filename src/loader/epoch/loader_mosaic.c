/* loader_mosaic.c - mosaics: each row of a batch becomes four rows of it that meet in a point.
 *
 * In: a batch whose rows are there, with images and masks of one size. Out: the same batch; boxes,
 * keypoints and what belongs to them moved, clipped and dropped by the rule of loader_boxes.c;
 * what the batch says of the tiles. Operations behind mosaics (loader_behind.c) then move each row,
 * also one that became none: it has one tile. One thread has the batch. Images and what is said of
 * them are copied to a workspace of the loader (loader_workspaces.c) first, because each row is
 * read by several. */
#include "loader/loader_handle.h"
#include "loader/epoch/loader_behind.h"
#include "loader/epoch/loader_job.h"
#include "loader/epoch/loader_mix.h"
#include "loader/epoch/loader_workspaces.h"
#include "loader/loader_plan.h"

#include "base/checked.h"
#include "base/fail.h"

#include <string.h>

/* The value of a field in one row before the batch was changed. */
struct seen {
    const char *data;
    uint32_t ndim;
    int64_t shape[PST_MAX_NDIM];
    size_t row_nbytes; /* bytes of one entry along the first axis */
};

struct mosaic {
    const pst_loader *loader;
    struct psti_loader_job *job;
    uint32_t n_rows, height, width;
    const char *copies[PST_MAX_FIELDS]; /* copies of pixels and of arrays that describe tiles;
                                           else NULL */
    size_t row_nbytes[PST_MAX_FIELDS];
    struct seen *seen; /* [n_fields][n_rows]; set for fields whose rows are moved */
    struct psti_loader_behind *behind;
    char *picture, *line; /* buffers for a finished picture and one line of it, if operations
                             follow the mosaic */
    const struct psti_mosaic *drawn;
    uint32_t row, n_tiles;
};

/* A tile: its edges in the mosaic, and the offset that its coordinates get. */
struct tile {
    float left, top, right, bottom, dx, dy;
};

static struct tile tile_at(const struct mosaic *mosaic, uint32_t q)
{
    float x = (float)mosaic->drawn->x, y = (float)mosaic->drawn->y;
    float width = (float)mosaic->width, height = (float)mosaic->height;
    bool right = q & 1, below = q & 2;
    return (struct tile){.left = right ? x : 0,
                            .right = right ? width : x,
                            .top = below ? y : 0,
                            .bottom = below ? height : y,
                            .dx = right ? x : x - width,
                            .dy = below ? y : y - height};
}

/* Images and masks
 * ------------------------------------------------------------------------------------------------
 */

/* Copies the tiles that make up one row of a field to `to`. */
static void place_tiles(const struct mosaic *mosaic, uint32_t i_field, char *to)
{
    const struct psti_loader_plan *plan = &mosaic->loader->plan;
    const struct psti_slot_field *slot = &plan->slots[i_field];
    bool planar = plan->fields[i_field].layout == PST_LAYOUT_CHW;
    size_t pixel = pst_dtype_nbytes(slot->dtype) * (planar ? 1 : (size_t)slot->shape[2]);
    uint32_t n_planes = planar ? (uint32_t)slot->shape[0] : 1, x = mosaic->drawn->x,
             y = mosaic->drawn->y;
    size_t line = pixel * mosaic->width, plane = line * mosaic->height;
    const char *from[4];
    for (uint32_t q = 0; q < 4; q++)
        from[q] = mosaic->copies[i_field] + mosaic->drawn->rows[q] * mosaic->row_nbytes[i_field];
    for (uint32_t p = 0; p < n_planes; p++, to += plane)
        for (uint32_t i = 0; i < mosaic->height; i++) {
            uint32_t q = i < y ? 0 : 2, at = i < y ? i + mosaic->height - y : i - y;
            size_t source = p * plane + at * line, left = x * pixel;
            memcpy(to + i * line, from[q] + source + line - left, left);
            memcpy(to + i * line + left, from[q + 1] + source, line - left);
        }
}

static enum pst_status place_pixels(const struct mosaic *mosaic, uint32_t i_field,
                                    struct pst_error *err)
{
    char *to = psti_batch_array_row(mosaic->job->batch, i_field, mosaic->row);
    place_tiles(mosaic, i_field, mosaic->behind->chain ? mosaic->picture : to);
    if (!mosaic->behind->chain)
        return PST_OK;
    return psti_loader_behind_pixels(mosaic->behind, i_field, mosaic->picture, mosaic->line, to,
                                     err);
}

/* The arrays that describe the tiles of each row
 * ------------------------------------------------------------------------------------------------
 */

/* True for arrays that have an element for each tile. Before the mosaic is made, tile 0 of a row
 * describes the row itself. */
static bool is_of_tiles(const struct psti_loader_plan_field *field)
{
    return field->gives_tiles && psti_loader_plan_is_derived(field);
}

/* Extends m, which maps a stored picture to its row. Afterwards m maps it to its tile in the mosaic
 * and on through the operations that follow the mosaic. */
static void follow_tile(const struct mosaic *mosaic, const struct tile *tile, double m[9])
{
    double on[9];
    for (int k = 0; k < 3; k++) {
        on[k] = m[k] + (double)tile->dx * m[6 + k];
        on[3 + k] = m[3 + k] + (double)tile->dy * m[6 + k];
        on[6 + k] = m[6 + k];
    }
    if (!mosaic->behind->chain) {
        memcpy(m, on, sizeof on);
        return;
    }
    for (int i = 0; i < 3; i++) {
        const double *by = mosaic->behind->matrix + 3 * i;
        for (int k = 0; k < 3; k++)
            m[3 * i + k] = by[0] * on[k] + by[1] * on[3 + k] + by[2] * on[6 + k];
    }
    double scale = m[8];
    for (int k = 0; scale != 0 && k < 9; k++)
        m[k] /= scale;
}

/* Fills an array that describes tiles: copies the description of each tile's row, and adds where
 * the tile lies. */
static void place_said(const struct mosaic *mosaic, uint32_t i_field)
{
    size_t row_nbytes = mosaic->row_nbytes[i_field], nbytes = row_nbytes / PST_MOSAIC_TILES;
    char *to = psti_batch_array_row(mosaic->job->batch, i_field, mosaic->row);
    for (uint32_t q = 0; q < mosaic->n_tiles; q++, to += nbytes) {
        struct tile tile = tile_at(mosaic, q);
        const int64_t rectangle[4] = {(int64_t)tile.left, (int64_t)tile.top, (int64_t)tile.right,
                                      (int64_t)tile.bottom};
        double m[9];
        memcpy(to, mosaic->copies[i_field] + mosaic->drawn->rows[q] * row_nbytes, nbytes);
        switch (mosaic->loader->plan.fields[i_field].fill) {
        case PSTI_LOADER_FILL_TILES:
            memcpy(to, rectangle, sizeof rectangle);
            break;
        case PSTI_LOADER_FILL_GEOMETRY:
            memcpy(m, to, sizeof m);
            follow_tile(mosaic, &tile, m);
            memcpy(to, m, sizeof m);
            break;
        default: /* sizes and sample numbers are copied from the tile's row unchanged */
            break;
        }
    }
}

/* Boxes and what belongs to them
 * ------------------------------------------------------------------------------------------------
 */

static const struct seen *seen_of(const struct mosaic *mosaic, uint32_t i_field, uint32_t q)
{
    return &mosaic->seen[i_field * mosaic->n_rows + mosaic->drawn->rows[q]];
}

static float within(float value, float low, float high)
{
    return value < low ? low : value > high ? high : value;
}

static double area_of(const float box[4])
{
    return ((double)box[2] - box[0]) * ((double)box[3] - box[1]);
}

/* Moves a box into its tile of the mosaic. False: too little of the box is left. */
static bool place_box(const struct mosaic *mosaic, const struct psti_loader_plan_field *field,
                      const struct tile *tile, const char *from, char *to)
{
    const struct psti_loader_behind *behind = mosaic->behind;
    float box[4];
    memcpy(box, from, sizeof box);
    double whole = area_of(box) * behind->area_scale;
    box[0] = within(box[0] + tile->dx, tile->left, tile->right);
    box[1] = within(box[1] + tile->dy, tile->top, tile->bottom);
    box[2] = within(box[2] + tile->dx, tile->left, tile->right);
    box[3] = within(box[3] + tile->dy, tile->top, tile->bottom);
    if (behind->chain)
        psti_augment_chain_map_boxes(behind->chain, &behind->draw, box, 1);
    double area = area_of(box);
    memcpy(to, box, sizeof box);
    return field->keeps_boxes || (area >= field->min_area && area >= field->min_visibility * whole);
}

/* Moves a keypoint into its tile. A keypoint outside of its tile becomes invisible. */
static void place_point(const struct psti_loader_behind *behind, const struct tile *tile,
                        const char *from, char *to)
{
    float point[3];
    memcpy(point, from, sizeof point);
    point[0] += tile->dx;
    point[1] += tile->dy;
    if (!(point[0] >= tile->left && point[0] < tile->right && point[1] >= tile->top &&
          point[1] < tile->bottom))
        point[2] = 0;
    if (behind->chain)
        psti_augment_chain_map_keypoints(behind->chain, &behind->draw, point, 1);
    memcpy(to, point, sizeof point);
}

static enum pst_status fail_rows(const struct mosaic *mosaic, uint32_t i_field, const char *why,
                                 struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                     "field '%s' of four samples cannot make a mosaic: %s",
                     mosaic->loader->plan.fields[i_field].field->name, why);
}

/* Allocates the field's row of the mosaic, with as many entries as the rows of all four tiles
 * together. *to: its memory. n: number of boxes of each tile, which must have each_box entries
 * each; NULL: any number of entries. */
static enum pst_status make_row(const struct mosaic *mosaic, uint32_t i_field, const int64_t *n,
                                int64_t each_box, char **to, struct pst_error *err)
{
    const struct seen *like = seen_of(mosaic, i_field, 0);
    const struct psti_loader_plan_field *field = &mosaic->loader->plan.fields[i_field];
    int64_t shape[PST_MAX_NDIM], total = 0;
    size_t row_nbytes = field->field->type == PST_FIELD_BOXES ? 16 : 12; /* box: 4 floats; point:
                                                                            3 floats */
    enum pst_status status;
    for (uint32_t q = 0; q < mosaic->n_tiles; q++) {
        const struct seen *seen = seen_of(mosaic, i_field, q);
        if (seen->ndim == 0 || (n && seen->shape[0] != n[q] * each_box))
            return fail_rows(mosaic, i_field, "it does not have a row for each box", err);
        if (seen->shape[0] == 0)
            continue;
        if (field->fill == PSTI_LOADER_FILL_POINTS &&
            (seen->ndim != 2 || seen->row_nbytes != row_nbytes))
            return fail_rows(mosaic, i_field, "a row is not 4 numbers of a box, 3 of a point", err);
        if (total &&
            (seen->ndim != like->ndim || memcmp(&seen->shape[1], &like->shape[1],
                                                (like->ndim - 1) * sizeof like->shape[0]) != 0))
            return fail_rows(mosaic, i_field, "their rows differ in shape", err);
        like = seen;
        total += seen->shape[0];
    }
    memcpy(shape, like->shape, sizeof shape);
    shape[0] = total;
    *to = psti_batch_new_row(mosaic->job->batch, i_field, mosaic->row, like->ndim, shape, &status);
    if (*to)
        return PST_OK;
    return psti_fail(err, status, "loader", "no memory for the boxes of a mosaic");
}

struct column {
    uint32_t i_field;
    int64_t each_box; /* entries that belong to one box */
    char *to;
};

/* Returns how many entries of the field belong to one box: of keypoints there may be several.
 * make_row checks this number for all four tiles. */
static int64_t rows_of_a_box(const struct mosaic *mosaic, uint32_t i_field, uint32_t i_boxes,
                             const int64_t n[4])
{
    const struct psti_loader_plan_field *field = &mosaic->loader->plan.fields[i_field];
    bool is_points = field->fill == PSTI_LOADER_FILL_POINTS;
    if (i_field == i_boxes || !(is_points || field->fill == PSTI_LOADER_FILL_TILE_OF))
        return 1;
    for (uint32_t q = 0; q < mosaic->n_tiles; q++)
        if (n[q] > 0 && seen_of(mosaic, i_field, q)->shape[0] >= n[q])
            return seen_of(mosaic, i_field, q)->shape[0] / n[q];
    return 1;
}

/* Allocates the mosaic's rows of a field of boxes and of the fields that belong to it. */
static enum pst_status make_columns(const struct mosaic *mosaic, uint32_t i_boxes,
                                    const int64_t n[4], struct column columns[PST_MAX_FIELDS],
                                    uint32_t *n_columns, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &mosaic->loader->plan;
    enum pst_status status = PST_OK;
    *n_columns = 0;
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++) {
        if (i != i_boxes && plan->fields[i].i_boxes != (int)i_boxes)
            continue;
        struct column *column = &columns[(*n_columns)++];
        column->i_field = i;
        column->each_box = rows_of_a_box(mosaic, i, i_boxes, n);
        status = make_row(mosaic, i, n, column->each_box, &column->to, err);
    }
    return status;
}

/* True for keypoints whose left and right must be exchanged, because the row is mirrored. */
static bool swaps(const struct mosaic *mosaic, uint32_t i_field)
{
    const struct psti_loader_plan_field *field = &mosaic->loader->plan.fields[i_field];
    return mosaic->behind->mirrors && field->fill == PSTI_LOADER_FILL_POINTS &&
           field->field->type == PST_FIELD_KEYPOINTS;
}

/* For a mirrored row: checks that left and right keypoints are known, and counts the row if they
 * are not. */
static enum pst_status check_pairs(const struct mosaic *mosaic, uint32_t i_field,
                                   struct pst_error *err)
{
    const struct psti_loader_plan_field *field = &mosaic->loader->plan.fields[i_field];
    bool is_unpaired = false;
    for (uint32_t q = 0; q < mosaic->n_tiles; q++) {
        const struct seen *seen = seen_of(mosaic, i_field, q);
        uint64_t n = seen->ndim ? (uint64_t)seen->shape[0] : 0;
        const char *problem = psti_format_points_problem(&field->pairs, n);
        is_unpaired |= n > 0 && !field->says_pairs;
        if (field->pairs.n > 0 && problem)
            return fail_rows(mosaic, i_field, problem, err);
    }
    mosaic->job->n_unpaired += is_unpaired;
    return PST_OK;
}

/* Writes entry i of a field of points, or the tile number of that point. */
static void place_one(const struct mosaic *mosaic, uint32_t i_field, uint32_t q, int64_t i,
                      char *to)
{
    const struct seen *seen = seen_of(mosaic, i_field, q);
    const int64_t number = q;
    if (mosaic->loader->plan.fields[i_field].fill == PSTI_LOADER_FILL_TILE_OF) {
        memcpy(to, &number, sizeof number);
        return;
    }
    if (swaps(mosaic, i_field))
        i = (int64_t)psti_format_paired_with(&mosaic->loader->plan.fields[i_field].pairs,
                                             (size_t)i);
    struct tile tile = tile_at(mosaic, q);
    place_point(mosaic->behind, &tile, seen->data + (size_t)i * seen->row_nbytes, to);
}

static bool is_one_by_one(const struct psti_loader_plan_field *field)
{
    return field->fill == PSTI_LOADER_FILL_POINTS || field->fill == PSTI_LOADER_FILL_TILE_OF;
}

/* Copies the entries of box i of tile q to the entries of box n_kept of the mosaic. */
static void place_rows(const struct mosaic *mosaic, const struct column *column, uint32_t q,
                       int64_t i, int64_t n_kept)
{
    const struct seen *seen = seen_of(mosaic, column->i_field, q);
    size_t nbytes = seen->row_nbytes * (size_t)column->each_box;
    char *to = column->to + (size_t)n_kept * nbytes;
    if (!is_one_by_one(&mosaic->loader->plan.fields[column->i_field]))
        memcpy(to, seen->data + (size_t)i * nbytes, nbytes);
    else
        for (int64_t k = 0; k < column->each_box; k++, to += seen->row_nbytes)
            place_one(mosaic, column->i_field, q, i * column->each_box + k, to);
}

static enum pst_status place_boxes(const struct mosaic *mosaic, uint32_t i_boxes,
                                   struct pst_error *err)
{
    const struct psti_loader_plan *plan = &mosaic->loader->plan;
    struct column columns[PST_MAX_FIELDS];
    uint32_t n_columns;
    int64_t n[4] = {0}, n_kept = 0, total = 0;
    for (uint32_t q = 0; q < mosaic->n_tiles; q++)
        total += n[q] = seen_of(mosaic, i_boxes, q)->shape[0];
    enum pst_status status = make_columns(mosaic, i_boxes, n, columns, &n_columns, err);
    for (uint32_t q = 0; status == PST_OK && q < mosaic->n_tiles; q++) {
        struct tile tile = tile_at(mosaic, q);
        const char *boxes = seen_of(mosaic, i_boxes, q)->data;
        for (int64_t i = 0; i < n[q]; i++) {
            char box[4 * sizeof(float)];
            if (!place_box(mosaic, &plan->fields[i_boxes], &tile, boxes + i * 16, box))
                continue;
            for (uint32_t c = 0; c < n_columns; c++)
                if (columns[c].i_field == i_boxes)
                    memcpy(columns[c].to + n_kept * (int64_t)sizeof box, box, sizeof box);
                else
                    place_rows(mosaic, &columns[c], q, i, n_kept);
            n_kept++;
        }
    }
    for (uint32_t c = 0; status == PST_OK && c < n_columns && n_kept < total; c++)
        psti_batch_shorten_row(mosaic->job->batch, columns[c].i_field, mosaic->row,
                               n_kept * columns[c].each_box);
    mosaic->job->n_boxes_dropped += (uint64_t)(total - n_kept);
    return status;
}

/* Writes keypoints that belong to no boxes, and their tile numbers: all entries of all four
 * tiles. */
static enum pst_status place_points(const struct mosaic *mosaic, uint32_t i_field,
                                    struct pst_error *err)
{
    char *to = NULL;
    enum pst_status status = make_row(mosaic, i_field, NULL, 1, &to, err);
    for (uint32_t q = 0; status == PST_OK && q < mosaic->n_tiles; q++) {
        const struct seen *seen = seen_of(mosaic, i_field, q);
        for (int64_t i = 0; i < seen->shape[0]; i++, to += seen->row_nbytes)
            place_one(mosaic, i_field, q, i, to);
    }
    return status;
}

/* The batch
 * ------------------------------------------------------------------------------------------------
 */

static bool has_rows(const struct psti_loader_plan_field *field)
{
    return is_one_by_one(field) || field->i_boxes >= 0;
}

/* Gives the bytes of a row of each field that is copied, 0 of the others. Returns the bytes of a
 * finished picture and of a line of it, which operations behind mosaics take. */
static size_t find_rows(const pst_loader *loader, uint32_t width, size_t *line,
                        size_t row_nbytes[PST_MAX_FIELDS])
{
    const struct psti_loader_plan *plan = &loader->plan;
    size_t offset, nbytes, picture = 0;
    *line = psti_loader_behind_line_nbytes(loader, width);
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        bool is_copied = psti_loader_behind_moves(loader, i) || is_of_tiles(&plan->fields[i]);
        row_nbytes[i] = 0;
        if (!is_copied || !psti_batch_pool_place_of(loader->pool, i, &offset, &nbytes))
            continue;
        row_nbytes[i] = nbytes;
        picture = nbytes > picture ? nbytes : picture;
    }
    return *line ? picture : 0;
}

/* Computes the bytes of copies of a batch, and of a picture. False: too many. */
static bool find_block(const pst_loader *loader, size_t *nbytes)
{
    size_t row_nbytes[PST_MAX_FIELDS], line, row = sizeof(struct seen) * loader->plan.n_fields;
    uint32_t height, width;
    psti_loader_behind_size(loader, &height, &width);
    size_t picture = find_rows(loader, width, &line, row_nbytes);
    for (uint32_t i = 0; i < loader->plan.n_fields; i++)
        if (!psti_add_size(row, row_nbytes[i], &row))
            return false;
    return psti_mul_size(row, loader->options.batch_size, nbytes) &&
           psti_add_size(*nbytes, picture, nbytes) && psti_add_size(*nbytes, line, nbytes) &&
           *nbytes < SIZE_MAX / 4;
}

uint64_t psti_loader_mosaic_nbytes(const pst_loader *loader, size_t *block)
{
    *block = 0;
    if (!loader->plan.mosaics)
        return 0;
    if (!find_block(loader, block))
        return UINT64_MAX;
    return *block + psti_loader_behind_scratch(loader);
}

/* Notes where the rows are, and copies the pixels and what is said of tiles to the block. */
static enum pst_status look(struct mosaic *mosaic, char *block, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &mosaic->loader->plan;
    pst_batch *batch = mosaic->job->batch;
    size_t line, picture = find_rows(mosaic->loader, mosaic->width, &line, mosaic->row_nbytes);
    mosaic->seen = (struct seen *)(void *)block;
    block += sizeof(struct seen) * plan->n_fields * mosaic->n_rows;
    mosaic->line = block;
    mosaic->picture = block + line;
    block += line + picture;
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        size_t nbytes = mosaic->row_nbytes[i] * mosaic->n_rows;
        if (nbytes) {
            mosaic->copies[i] = memcpy(block, psti_batch_array_row(batch, i, 0), nbytes);
            block += nbytes;
        }
        for (uint32_t row = 0; has_rows(&plan->fields[i]) && row < mosaic->n_rows; row++) {
            struct seen *seen = &mosaic->seen[i * mosaic->n_rows + row];
            struct pst_tensor tensor;
            if (pst_batch_row(batch, i, row, &tensor, sizeof tensor, err) != PST_OK)
                return PST_ERROR_ARGUMENT;
            *seen = (struct seen){.data = tensor.data, .ndim = tensor.ndim};
            memcpy(seen->shape, tensor.shape, sizeof seen->shape);
            seen->row_nbytes = tensor.ndim ? (size_t)tensor.strides[0] : 0;
        }
    }
    return PST_OK;
}

static enum pst_status place_row(const struct mosaic *mosaic, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &mosaic->loader->plan;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++)
        if (swaps(mosaic, i))
            status = check_pairs(mosaic, i, err);
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[i];
        bool is_boxes = field->fill == PSTI_LOADER_FILL_POINTS &&
                        field->field->type == PST_FIELD_BOXES;
        if (mosaic->copies[i] && is_of_tiles(field))
            place_said(mosaic, i);
        else if (mosaic->copies[i])
            status = place_pixels(mosaic, i, err);
        else if (field->fill == PSTI_LOADER_FILL_MOSAIC_GEOMETRY)
            memcpy(psti_batch_array_row(mosaic->job->batch, i, mosaic->row),
                   mosaic->behind->matrix, sizeof mosaic->behind->matrix);
        else if (is_boxes)
            status = place_boxes(mosaic, i, err);
        else if (is_one_by_one(field) && field->i_boxes < 0)
            status = place_points(mosaic, i, err);
    }
    return status;
}

/* Draws the mosaic of a row and the operations that follow it. False: the row stays as it is. */
static bool draw_row(struct mosaic *mosaic, struct psti_mosaic *drawn, enum pst_status *status,
                     struct pst_error *err)
{
    const struct psti_loader_job *job = mosaic->job;
    psti_augment_mosaic_draw(&mosaic->loader->mix.ways[0], mosaic->loader->options.seed, job->epoch,
                             job->positions[0], mosaic->row, mosaic->n_rows, mosaic->height,
                             mosaic->width, drawn);
    mosaic->n_tiles = drawn->is_applied ? PST_MOSAIC_TILES : 1;
    if (!mosaic->behind->chain)
        return drawn->is_applied;
    if (!drawn->is_applied) /* a row that is no mosaic has one tile, the whole picture */
        *drawn = (struct psti_mosaic){
            .y = mosaic->height, .x = mosaic->width, .rows = {mosaic->row}};
    *status = psti_loader_behind_draw(mosaic->behind, job->epoch, job->positions[0], mosaic->row,
                                      err);
    return *status == PST_OK;
}

enum pst_status psti_loader_mosaic(const pst_loader *loader, struct psti_loader_job *job,
                                   struct pst_error *err)
{
    struct psti_loader_behind behind;
    struct psti_mosaic drawn;
    struct mosaic mosaic = {.loader = loader,
                            .job = job,
                            .n_rows = pst_batch_count(job->batch),
                            .behind = &behind,
                            .drawn = &drawn};
    if (mosaic.n_rows == 0)
        return PST_OK;
    struct psti_loader_workspace *workspace = psti_loader_workspace_take(loader);
    psti_loader_behind_size(loader, &mosaic.height, &mosaic.width);
    psti_loader_behind_begin(&behind, loader, workspace->run, mosaic.height, mosaic.width);
    enum pst_status status = look(&mosaic, workspace->block, err);
    for (; status == PST_OK && mosaic.row < mosaic.n_rows; mosaic.row++)
        if (draw_row(&mosaic, &drawn, &status, err))
            status = place_row(&mosaic, err);
    psti_loader_workspace_give(loader, workspace);
    return status;
}

enum pst_status psti_loader_mosaic_open(pst_loader *loader, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &loader->plan;
    uint32_t i_image = (uint32_t)loader->mix.i_field;
    if (loader->options.placement == PST_PLACEMENT_DEVICE)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "mosaics are made in host memory, not where batches lie on a GPU");
    if (plan->i_leader != loader->mix.i_field)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "mosaics are of the image that gives the sample's geometry, not of '%s'",
                         plan->fields[i_image].field->name);
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        const struct psti_slot_field *slot = &plan->slots[i], *image = &plan->slots[i_image];
        if (!psti_loader_behind_moves(loader, i) || i == i_image)
            continue;
        uint32_t at = plan->fields[i].layout == PST_LAYOUT_CHW,
                 image_at = plan->fields[i_image].layout == PST_LAYOUT_CHW;
        if (!plan->fields[i].fixed || slot->shape[at] != image->shape[image_at] ||
            slot->shape[at + 1] != image->shape[image_at + 1])
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "field '%s' follows a mosaic, and has another size than '%s'",
                             plan->fields[i].field->name, plan->fields[i_image].field->name);
    }
    enum pst_status status = psti_loader_behind_open(loader, &loader->mix.ways[0], err);
    loader->mix.ways[0].ops = NULL; /* the caller's */
    uint32_t height, width;
    psti_loader_behind_size(loader, &height, &width);
    return status == PST_OK ? psti_loader_behind_check(loader, height, width, err) : status;
}
