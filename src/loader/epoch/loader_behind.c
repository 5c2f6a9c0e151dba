/* loader_behind.c - operations that follow a mosaic: they move the finished pictures of a batch.
 *
 * In, at open: the operations of a mosaic. In, for each row: a finished picture in the batch's
 * layout, and the row's number. Out: a chain for each field whose pixels the mosaic moves; the
 * moved picture; the matrix for coordinates. The chains are constant after open. Everything else
 * belongs to the thread that has the batch. */
#include "loader/epoch/loader_behind.h"
#include "loader/epoch/loader_mix.h"
#include "loader/loader_handle.h"
#include "loader/loader_plan.h"

#include "base/fail.h"
#include "base/options.h"

#include <string.h>

/* `own` in the keys of these draws. Fields with a geometry of their own have small numbers, so the
 * draws differ. */
#define OWN 0xFFFF

static bool is_planar(const struct psti_loader_plan_field *field)
{
    return field->layout == PST_LAYOUT_CHW;
}

/* At open
 * ------------------------------------------------------------------------------------------------
 */

bool psti_loader_behind_moves(const pst_loader *loader, uint32_t i_field)
{
    const struct psti_loader_plan_field *field = &loader->plan.fields[i_field];
    int i_image = loader->mix.i_field;
    return field->fill == PSTI_LOADER_FILL_PIXELS &&
           ((int)i_field == i_image || (field->follows && field->i_geometry == i_image));
}

void psti_loader_behind_size(const pst_loader *loader, uint32_t *height, uint32_t *width)
{
    uint32_t i_field = (uint32_t)loader->mix.i_field;
    const int64_t *shape = loader->plan.slots[i_field].shape;
    bool planar = loader->plan.fields[i_field].layout == PST_LAYOUT_CHW;
    *height = (uint32_t)shape[planar ? 1 : 0];
    *width = (uint32_t)shape[planar ? 2 : 1];
}

static enum pst_status read_ops(const struct pst_mix *way, struct pst_op ops[PSTI_AUGMENT_MAX_OPS],
                                struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (way->n_ops > PSTI_AUGMENT_MAX_OPS || !way->ops)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "n_ops of a mosaic is %zu; %d are possible, and ops is not NULL",
                         way->n_ops, PSTI_AUGMENT_MAX_OPS);
    for (size_t i = 0; status == PST_OK && i < way->n_ops; i++)
        status = psti_struct_read(&ops[i], sizeof ops[i],
                                  (const char *)way->ops + i * way->op_nbytes, way->op_nbytes,
                                  "op_nbytes of a mosaic", "loader", err);
    return status;
}

/* Refuses operations whose effect masks, boxes, keypoints or matrices of the batch cannot
 * follow. */
static enum pst_status check_follow(const struct psti_loader_plan *plan, const struct pst_op *ops,
                                    size_t n_ops, struct pst_error *err)
{
    const char *needs = psti_augment_ops_need_boxes(ops, n_ops);
    if (needs)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "%s behind a mosaic: it needs the boxes of one sample; put it before, "
                         "into the sample's operations",
                         needs);
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[i];
        bool has_points = field->fill == PSTI_LOADER_FILL_POINTS || field->gives_tiles;
        bool is_mask = field->follows && field->field->type == PST_FIELD_MASK;
        const char *alone =
            has_points || is_mask ? psti_augment_ops_alone(ops, n_ops, has_points) : NULL;
        if (alone)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "%s behind a mosaic moves the image's pixels alone, and '%s' follows "
                             "them: leave the operation out, or the array",
                             alone, plan->slots[i].name);
    }
    return PST_OK;
}

static bool keeps_size(enum pst_op_kind kind)
{
    return !psti_augment_op_is_geometric(kind) || kind == PST_OP_HORIZONTAL_FLIP ||
           kind == PST_OP_VERTICAL_FLIP || kind == PST_OP_AFFINE || kind == PST_OP_PERSPECTIVE ||
           kind == PST_OP_ELASTIC;
}

enum pst_status psti_loader_behind_check(const pst_loader *loader, uint32_t height, uint32_t width,
                                         struct pst_error *err)
{
    const struct psti_chain *chain =
        loader->mix.n_ways ? loader->mix.behind[loader->mix.i_field] : NULL;
    uint32_t h, w;
    size_t n_ops;
    if (!chain)
        return PST_OK;
    if (psti_augment_chain_fixed_size(chain, &h, &w)) {
        if (h == height && w == width)
            return PST_OK;
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the operations behind a mosaic make pictures %ux%u, and the mosaics are "
                         "%ux%u: both must have one size",
                         h, w, height, width);
    }
    const struct pst_op *ops = psti_augment_chain_ops(chain, &n_ops);
    for (size_t i = 0; i < n_ops; i++)
        if (!keeps_size(ops[i].kind))
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "%s behind a mosaic changes the size of the picture: end these "
                             "operations with the size of the mosaics, %ux%u",
                             psti_augment_op_name(ops[i].kind), height, width);
    return PST_OK;
}

static enum pst_status compile(pst_loader *loader, uint32_t i_field, const struct pst_op *ops,
                               size_t n_ops, struct pst_error *err)
{
    const struct psti_loader_plan_field *field = &loader->plan.fields[i_field];
    enum pst_dtype dtype = loader->plan.slots[i_field].dtype;
    bool is_mask = field->field->type == PST_FIELD_MASK;
    struct pst_op own[PSTI_AUGMENT_MAX_OPS];
    struct pst_error cause;
    if (!is_mask && dtype != PST_DTYPE_U8 && dtype != PST_DTYPE_U16)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "operations behind a mosaic take pixels of 8 or 16 bits, and those of "
                         "'%s' are %s: leave Normalize and the dtype out, and normalise the batch",
                         field->field->name, pst_dtype_name(dtype));
    if (i_field != (uint32_t)loader->mix.i_field) {
        n_ops = psti_augment_ops_follow(ops, n_ops, is_mask, own);
        ops = own;
    }
    const struct psti_chain_output output = {.dtype = dtype,
                                             .layout = field->layout,
                                             .channels = field->channels,
                                             .bits = dtype == PST_DTYPE_U8 ? 8 : 16,
                                             .is_mask = is_mask};
    enum pst_status status = psti_augment_chain_compile(
        ops, n_ops, &output, &loader->mix.behind[i_field], &cause);
    return status == PST_OK ? PST_OK
                            : psti_fail(err, status, "loader",
                                        "field '%s', operations behind a mosaic: %.400s",
                                        field->field->name, cause.text);
}

enum pst_status psti_loader_behind_open(pst_loader *loader, const struct pst_mix *way,
                                        struct pst_error *err)
{
    const struct psti_loader_plan *plan = &loader->plan;
    struct pst_op ops[PSTI_AUGMENT_MAX_OPS];
    if (way->n_ops == 0)
        return PST_OK;
    enum pst_status status = read_ops(way, ops, err);
    if (status == PST_OK)
        status = check_follow(plan, ops, way->n_ops, err);
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++)
        if (psti_loader_behind_moves(loader, i))
            status = compile(loader, i, ops, way->n_ops, err);
    return status;
}

void psti_loader_behind_close(pst_loader *loader)
{
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        psti_augment_chain_free(&loader->mix.behind[i]);
}

uint64_t psti_loader_behind_scratch(const pst_loader *loader)
{
    struct psti_scratch_bound bound = {0};
    uint32_t height, width;
    psti_loader_behind_size(loader, &height, &width);
    for (uint32_t i = 0; i < loader->plan.n_fields; i++)
        if (loader->mix.behind[i])
            psti_augment_chain_bound(loader->mix.behind[i], height, width, &bound);
    return psti_augment_bound_nbytes(&bound);
}

/* A batch
 * ------------------------------------------------------------------------------------------------
 */

void psti_loader_behind_begin(struct psti_loader_behind *behind, const pst_loader *loader,
                              struct psti_run *run, uint32_t height, uint32_t width)
{
    *behind = (struct psti_loader_behind){.loader = loader,
                                          .chain = loader->mix.behind[loader->mix.i_field],
                                          .run = run,
                                          .height = height,
                                          .width = width,
                                          .matrix = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                                          .area_scale = 1};
}

/* Takes over the matrix of the draw for coordinates, unless no array of the batch needs it. */
static void take_geometry(struct psti_loader_behind *behind)
{
    size_t n_ops;
    const struct pst_op *ops = psti_augment_chain_ops(behind->chain, &n_ops);
    if (psti_augment_ops_alone(ops, n_ops, true))
        return;
    psti_augment_chain_matrix(behind->chain, &behind->draw, behind->matrix);
    behind->area_scale = psti_augment_chain_area_scale(behind->chain, &behind->draw);
    behind->mirrors = psti_augment_chain_mirrors(behind->chain, &behind->draw);
}

enum pst_status psti_loader_behind_draw(struct psti_loader_behind *behind, uint64_t epoch,
                                        uint64_t position, uint32_t row, struct pst_error *err)
{
    behind->key = (struct psti_draw_key){.seed = behind->loader->options.seed,
                                         .epoch = epoch,
                                         .sample = position,
                                         .draw = row,
                                         .own = OWN};
    enum pst_status status = psti_augment_chain_draw(behind->chain, &behind->key, behind->height,
                                                     behind->width, &behind->draw, err);
    if (status == PST_OK)
        take_geometry(behind);
    return status;
}

/* Pixels
 * ------------------------------------------------------------------------------------------------
 */

size_t psti_loader_behind_line_nbytes(const pst_loader *loader, uint32_t width)
{
    return loader->mix.behind[loader->mix.i_field] ? (size_t)width * 4 * sizeof(uint16_t) : 0;
}

/* Reads the class at one pixel of a mask. Every class fits 16 bits, as masks are stored so. */
static uint16_t class_at(enum pst_dtype dtype, const char *at)
{
    union {
        uint16_t u16;
        int32_t i32;
        int64_t i64;
        float f32;
    } value;
    memcpy(&value, at, pst_dtype_nbytes(dtype));
    switch ((int)dtype) {
    case PST_DTYPE_I32:
        return (uint16_t)value.i32;
    case PST_DTYPE_I64:
        return (uint16_t)value.i64;
    case PST_DTYPE_F32:
        return (uint16_t)value.f32;
    default:
        return value.u16;
    }
}

/* Copies `n` pixels from (y, x) on into `line`, as interleaved samples of 8 or 16 bits. */
static void gather(const struct psti_loader_behind *behind, uint32_t i_field, const char *picture,
                   uint32_t y, uint32_t x, uint32_t n, char *line)
{
    const struct psti_loader_plan *plan = &behind->loader->plan;
    enum pst_dtype dtype = plan->slots[i_field].dtype;
    uint32_t channels = plan->fields[i_field].channels;
    bool planar = is_planar(&plan->fields[i_field]);
    size_t nbytes = pst_dtype_nbytes(dtype), plane = (size_t)behind->height * behind->width;
    size_t step = planar ? nbytes : nbytes * channels;
    for (uint32_t c = 0; c < channels; c++) {
        const char *from = picture + ((size_t)y * behind->width + x) * step +
                           c * (planar ? plane * nbytes : nbytes);
        for (uint32_t i = 0; i < n; i++, from += step) {
            size_t at = (size_t)i * channels + c;
            if (dtype == PST_DTYPE_U8) {
                line[at] = *from;
            } else {
                uint16_t value = class_at(dtype, from);
                memcpy(line + 2 * at, &value, sizeof value);
            }
        }
    }
}

static enum pst_status move_rows(struct psti_loader_behind *behind, uint32_t i_field,
                                 const struct psti_draw *draw, const char *picture, char *line,
                                 char *to, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &behind->loader->plan;
    const struct psti_loader_plan_field *field = &plan->fields[i_field];
    size_t pixel = pst_dtype_nbytes(plan->slots[i_field].dtype) *
                   (is_planar(field) ? 1 : (size_t)field->channels);
    const struct psti_target target = {.data = to, .row_nbytes = behind->width * pixel};
    size_t nbytes = (size_t)draw->region_width * field->channels *
                    (plan->slots[i_field].dtype == PST_DTYPE_U8 ? 1 : 2);
    enum pst_status status = psti_augment_run_begin(
        behind->run, behind->loader->mix.behind[i_field], draw, &target, err);
    for (uint32_t y = 0; status == PST_OK && y < draw->region_height; y++) {
        gather(behind, i_field, picture, draw->region_y + y, draw->region_x, draw->region_width,
               line);
        status = psti_augment_run_rows(behind->run, line, nbytes, y, 1);
        if (status != PST_OK)
            return psti_fail(err, status, "loader", "operations behind a mosaic: rows are lost");
    }
    return status == PST_OK ? psti_augment_run_end(behind->run, err) : status;
}

enum pst_status psti_loader_behind_pixels(struct psti_loader_behind *behind, uint32_t i_field,
                                          const char *picture, char *line, char *to,
                                          struct pst_error *err)
{
    struct psti_draw draw;
    enum pst_status status =
        psti_augment_chain_draw(behind->loader->mix.behind[i_field], &behind->key, behind->height,
                                behind->width, &draw, err);
    if (status == PST_OK && (draw.out_height != behind->height || draw.out_width != behind->width))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the operations behind a mosaic make a picture %ux%u of one of %ux%u",
                         draw.out_height, draw.out_width, behind->height, behind->width);
    return status == PST_OK ? move_rows(behind, i_field, &draw, picture, line, to, err) : status;
}
