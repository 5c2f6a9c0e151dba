/* augment_boxes.c - applies the drawn geometry to coordinates of boxes and keypoints.
 *
 * In: chain, draw, boxes or keypoints on the source picture. Out: the same arrays in pixels of the
 * output. Pure functions, any thread. Each operation but a warp is one affine map per axis, in
 * double. Coordinates are continuous. */
#include "augment/augment_int.h"
#include "augment/augment_sizes.h"

#include <math.h>

/* How an operation maps the coordinates of one axis: to scale * coordinate + offset. `size` is the
 * side in pixels after the operation. */
struct map {
    double scale, offset;
    double size;
};

static void map_add(struct map *map, double scale, double offset)
{
    map->scale *= scale;
    map->offset = map->offset * scale + offset;
}

/* Callbacks for walk(), which calls them for each operation. */
struct visitor {
    void (*maps)(void *ctx, const struct map *x, const struct map *y);
    /* called for a warp of a picture of height x width pixels */
    void (*warp)(void *ctx, const struct psti_warp *warp, uint32_t height, uint32_t width);
    /* called for an operation that removes boxes, before its maps; NULL: such operations are
     * skipped */
    void (*take_out)(void *ctx, const struct pst_op *op, const struct psti_op_sizes *sizes);
    void *ctx;
};

/* Calls the visitor's functions for the first n_ops operations, in order. After the last operation
 * of the chain it calls `maps` once more, with maps that change nothing and have the final size. */
static void walk(const struct psti_chain *chain, const struct psti_draw *draw, uint32_t n_ops,
                 const struct visitor *v)
{
    uint32_t height = psti_augment_draw_low(draw->opaque[PSTI_DRAW_SIZE]);
    uint32_t width = psti_augment_draw_high(draw->opaque[PSTI_DRAW_SIZE]);
    for (uint32_t i = 0; i < n_ops; i++) {
        const uint64_t *words = &draw->opaque[4 * (size_t)i];
        struct psti_op_sizes sizes;
        struct psti_warp warp;
        if (psti_augment_is_left_out(draw, i))
            continue;
        psti_augment_op_sizes(&chain->ops[i], words, height, width, &sizes);
        if (v->take_out != NULL)
            v->take_out(v->ctx, &chain->ops[i], &sizes);
        if (psti_augment_warp_of(&chain->ops[i], words, height, width, &warp))
            v->warp(v->ctx, &warp, height, width);
        struct map x = {1, 0, 0}, y = {1, 0, 0};
        if (sizes.has_pad) {
            map_add(&x, 1, sizes.pad[0]);
            map_add(&y, 1, sizes.pad[1]);
        }
        if (sizes.has_crop) {
            map_add(&x, 1, -(double)sizes.x);
            map_add(&y, 1, -(double)sizes.y);
        }
        if (sizes.has_resize) {
            uint32_t from_height = sizes.has_crop ? sizes.height : height;
            uint32_t from_width = sizes.has_crop ? sizes.width : width;
            map_add(&x, (double)sizes.to_width / from_width, 0);
            map_add(&y, (double)sizes.to_height / from_height, 0);
        }
        if (sizes.has_border) {
            map_add(&x, 1, sizes.border[0]);
            map_add(&y, 1, sizes.border[1]);
        }
        if (sizes.flip_x)
            map_add(&x, -1, width);
        if (sizes.flip_y)
            map_add(&y, -1, height);
        psti_augment_after(&sizes, &height, &width);
        x.size = width;
        y.size = height;
        v->maps(v->ctx, &x, &y);
    }
    struct map x = {1, 0, width}, y = {1, 0, height};
    if (n_ops == chain->n_ops)
        v->maps(v->ctx, &x, &y);
}

struct points {
    float *data;
    size_t n;
};

static float clamp_to(double value, double size)
{
    return (float)(value < 0 ? 0 : value > size ? size : value);
}

/* Maps both ends of an interval, sorts them because a flip swaps them, and clamps them. */
static void map_interval(const struct map *map, float *low, float *high)
{
    double a = *low * map->scale + map->offset, b = *high * map->scale + map->offset;
    *low = clamp_to(map->scale < 0 ? b : a, map->size);
    *high = clamp_to(map->scale < 0 ? a : b, map->size);
}

static void visit_boxes(void *ctx, const struct map *x, const struct map *y)
{
    struct points *boxes = ctx;
    for (size_t i = 0; i < boxes->n; i++) {
        float *box = boxes->data + 4 * i;
        map_interval(x, &box[0], &box[2]);
        map_interval(y, &box[1], &box[3]);
    }
}

static void visit_keypoints(void *ctx, const struct map *x, const struct map *y)
{
    struct points *points = ctx;
    for (size_t i = 0; i < points->n; i++) {
        float *point = points->data + 3 * i;
        double at_x = point[0] * x->scale + x->offset, at_y = point[1] * y->scale + y->offset;
        if (!(at_x >= 0 && at_x <= x->size && at_y >= 0 && at_y <= y->size))
            point[2] = 0;
        point[0] = (float)at_x;
        point[1] = (float)at_y;
    }
}

/* Replaces each box by the smallest upright box around its four warped corners, as torchvision
 * does. */
static void warp_boxes(void *ctx, const struct psti_warp *warp, uint32_t height, uint32_t width)
{
    struct points *boxes = ctx;
    for (size_t i = 0; i < boxes->n; i++) {
        float *box = boxes->data + 4 * i;
        double low[2] = {HUGE_VAL, HUGE_VAL}, high[2] = {-HUGE_VAL, -HUGE_VAL};
        for (int k = 0; k < 4; k++) {
            double at[2] = {box[(k & 1) * 2], box[(k >> 1) * 2 + 1]};
            psti_augment_warp_point(warp, height, width, &at[0], &at[1]);
            for (int d = 0; d < 2; d++) {
                low[d] = fmin(low[d], at[d]);
                high[d] = fmax(high[d], at[d]);
            }
        }
        for (int d = 0; d < 2; d++) {
            double size = d == 0 ? width : height;
            box[d] = clamp_to(low[d], size);
            box[d + 2] = clamp_to(high[d], size);
        }
    }
}

/* Returns whether an operation removes the box from the sample. */
static bool is_taken_out(const struct pst_op *op, const struct psti_op_sizes *sizes,
                         const float box[4])
{
    if (op->kind == PST_OP_RANDOM_IOU_CROP)
        return sizes->has_crop &&
               !psti_augment_iou_holds(box, sizes->y, sizes->x, sizes->height, sizes->width);
    double width = (double)box[2] - box[0], height = (double)box[3] - box[1];
    return op->kind == PST_OP_SANITIZE_BOXES &&
           (width < op->min_size || height < op->min_size || width * height < op->min_area);
}

/* Sets the area of all boxes that the operation removes to 0. They stay in the array, as in
 * torchvision. */
static void take_out_boxes(void *ctx, const struct pst_op *op, const struct psti_op_sizes *sizes)
{
    struct points *boxes = ctx;
    if (op->kind != PST_OP_RANDOM_IOU_CROP && op->kind != PST_OP_SANITIZE_BOXES)
        return;
    for (size_t i = 0; i < boxes->n; i++) {
        float *box = boxes->data + 4 * i;
        if (is_taken_out(op, sizes, box))
            box[0] = box[1] = box[2] = box[3] = 0;
    }
}

static void warp_keypoints(void *ctx, const struct psti_warp *warp, uint32_t height, uint32_t width)
{
    struct points *points = ctx;
    for (size_t i = 0; i < points->n; i++) {
        float *point = points->data + 3 * i;
        double x = point[0], y = point[1];
        psti_augment_warp_point(warp, height, width, &x, &y);
        point[0] = (float)x;
        point[1] = (float)y;
    }
}

void psti_augment_boxes_before(const struct psti_chain *chain, const struct psti_draw *draw,
                               uint32_t n_ops, float *boxes, size_t n)
{
    struct points points = {boxes, n};
    const struct visitor v = {visit_boxes, warp_boxes, take_out_boxes, &points};
    walk(chain, draw, n_ops, &v);
}

void psti_augment_chain_map_boxes(const struct psti_chain *chain, const struct psti_draw *draw,
                                  float *boxes, size_t n)
{
    psti_augment_boxes_before(chain, draw, chain->n_ops, boxes, n);
}

void psti_augment_chain_map_keypoints(const struct psti_chain *chain, const struct psti_draw *draw,
                                      float *keypoints, size_t n)
{
    struct points points = {keypoints, n};
    const struct visitor v = {visit_keypoints, warp_keypoints, NULL, &points};
    walk(chain, draw, chain->n_ops, &v);
}

static void visit_mirror(void *ctx, const struct map *x, const struct map *y)
{
    bool *is_mirrored = ctx;
    *is_mirrored ^= (x->scale < 0) != (y->scale < 0);
}

static void warp_mirror(void *ctx, const struct psti_warp *warp, uint32_t height, uint32_t width)
{
    (void)ctx, (void)warp, (void)height, (void)width; /* no warp mirrors the picture */
}

bool psti_augment_chain_mirrors(const struct psti_chain *chain, const struct psti_draw *draw)
{
    bool is_mirrored = false;
    const struct visitor v = {visit_mirror, warp_mirror, NULL, &is_mirrored};
    walk(chain, draw, chain->n_ops, &v);
    return is_mirrored;
}

static void visit_matrix(void *ctx, const struct map *x, const struct map *y)
{
    double *m = ctx;
    for (int k = 0; k < 3; k++) {
        m[k] = x->scale * m[k] + x->offset * m[6 + k];
        m[3 + k] = y->scale * m[3 + k] + y->offset * m[6 + k];
    }
}

static void warp_matrix(void *ctx, const struct psti_warp *warp, uint32_t height, uint32_t width)
{
    double *m = ctx, inverse[9];
    double half_x = width * 0.5, half_y = height * 0.5;
    psti_augment_warp_inverse(warp, inverse);
    for (int k = 0; k < 3; k++) {
        double x = m[k] - half_x * m[6 + k], y = m[3 + k] - half_y * m[6 + k], w = m[6 + k];
        double below = inverse[6] * x + inverse[7] * y + inverse[8] * w;
        m[k] = inverse[0] * x + inverse[1] * y + inverse[2] * w + half_x * below;
        m[3 + k] = inverse[3] * x + inverse[4] * y + inverse[5] * w + half_y * below;
        m[6 + k] = below;
    }
}

void psti_augment_chain_matrix(const struct psti_chain *chain, const struct psti_draw *draw,
                               double m[9])
{
    const struct visitor v = {visit_matrix, warp_matrix, NULL, m};
    for (int k = 0; k < 9; k++)
        m[k] = k % 4 == 0;
    walk(chain, draw, chain->n_ops, &v);
    for (int k = 0; k < 9 && m[8] != 0; k++)
        m[k] = k < 8 ? m[k] / m[8] : 1;
}

static void visit_scale(void *ctx, const struct map *x, const struct map *y)
{
    double *area = ctx;
    *area *= fabs(x->scale * y->scale);
}

/* Multiplies the area scale by that of a warp. A perspective scales differently everywhere, so its
 * scale at the middle of the picture is used. */
static void warp_scale(void *ctx, const struct psti_warp *warp, uint32_t height, uint32_t width)
{
    double *area = ctx;
    const double *m = warp->m;
    (void)height, (void)width;
    *area /= fabs((m[0] - m[2] * m[6]) * (m[4] - m[5] * m[7]) -
                  (m[1] - m[2] * m[7]) * (m[3] - m[5] * m[6]));
}

double psti_augment_chain_area_scale(const struct psti_chain *chain, const struct psti_draw *draw)
{
    double area = 1;
    const struct visitor v = {visit_scale, warp_scale, NULL, &area};
    walk(chain, draw, chain->n_ops, &v);
    return area;
}
