/* augment_geometry.c - tells which operations of a chain move pixels, and whether two chains move
 * them in the same way.
 *
 * In: operations that the caller gives, not yet checked. Out: answers, and the operations for a
 * field whose geometry follows another field. Pure functions, any thread. */
#include "augment/augment_int.h"

#include <string.h>

static bool is_group(enum pst_op_kind kind)
{
    return kind == PST_OP_RANDOM_APPLY || kind == PST_OP_RANDOM_CHOICE;
}

bool psti_augment_is_geometric_at(const struct pst_op *ops, size_t n_ops, size_t i)
{
    if (!is_group(ops[i].kind))
        return psti_augment_op_is_geometric(ops[i].kind);
    for (size_t k = 1; k <= ops[i].n_inner && i + k < n_ops; k++) {
        if (psti_augment_op_is_geometric(ops[i + k].kind))
            return true;
    }
    return false;
}

const char *psti_augment_ops_alone(const struct pst_op *ops, size_t n_ops, bool has_points)
{
    for (size_t i = 0; i < n_ops; i++) {
        if (psti_augment_op_is_policy(ops[i].kind) || (has_points && ops[i].kind == PST_OP_ELASTIC))
            return psti_augment_op_name(ops[i].kind);
    }
    return NULL;
}

const char *psti_augment_ops_need_boxes(const struct pst_op *ops, size_t n_ops)
{
    for (size_t i = 0; i < n_ops; i++) {
        if (ops[i].kind == PST_OP_RANDOM_IOU_CROP)
            return psti_augment_op_name(ops[i].kind);
    }
    return NULL;
}

static bool same_pad(const struct pst_op *a, const struct pst_op *b)
{
    return memcmp(a->pad, b->pad, sizeof a->pad) == 0 && a->pad_mode == b->pad_mode;
}

static bool same_range(const float a[2], const float b[2]) { return a[0] == b[0] && a[1] == b[1]; }

static bool same_affine(const struct pst_op *a, const struct pst_op *b)
{
    bool same_center =
        a->has_center == b->has_center && (!a->has_center || same_range(a->center, b->center));
    return same_center && same_range(a->degrees, b->degrees) &&
           same_range(a->translate, b->translate) && same_range(a->scale, b->scale) &&
           same_range(a->shear, b->shear) && same_range(a->shear + 2, b->shear + 2);
}

static bool same_iou_crop(const struct pst_op *a, const struct pst_op *b)
{
    return same_range(a->scale, b->scale) && same_range(a->ratio, b->ratio) &&
           a->trials == b->trials && a->n_overlaps == b->n_overlaps &&
           a->n_overlaps <= PST_MAX_OVERLAPS &&
           memcmp(a->overlaps, b->overlaps, a->n_overlaps * sizeof a->overlaps[0]) == 0;
}

static bool same_sizes(const struct pst_op *a, const struct pst_op *b)
{
    return a->n_sizes == b->n_sizes && a->n_sizes <= PST_MAX_SIZES && a->max_size == b->max_size &&
           memcmp(a->sizes, b->sizes, a->n_sizes * sizeof a->sizes[0]) == 0;
}

/* Returns whether two operations move the pixels of a picture to the same places, and remove the
 * same boxes before a later IoU crop. Compares the kinds and the parameters that the kind uses. The
 * operations may be unchecked. */
static bool moves_alike(const struct pst_op *a, const struct pst_op *b)
{
    bool same_size = a->height == b->height && a->width == b->width;
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case PST_OP_RESIZE:
        return same_size;
    case PST_OP_CENTER_CROP:
        return same_size && a->pad_mode == b->pad_mode;
    case PST_OP_RANDOM_CROP:
        return same_size && same_pad(a, b) && a->pad_if_needed == b->pad_if_needed;
    case PST_OP_RANDOM_RESIZED_CROP:
        return same_size && same_range(a->scale, b->scale) && same_range(a->ratio, b->ratio);
    case PST_OP_HORIZONTAL_FLIP:
    case PST_OP_VERTICAL_FLIP:
        return a->p == b->p;
    case PST_OP_PAD:
        return same_pad(a, b);
    case PST_OP_RANDOM_IOU_CROP:
        return same_iou_crop(a, b);
    case PST_OP_RANDOM_ZOOM_OUT:
        return same_range(a->scale, b->scale) && a->p == b->p;
    case PST_OP_LETTERBOX:
        return same_size && a->no_scale_up == b->no_scale_up;
    case PST_OP_SCALE_JITTER:
        return same_size && same_range(a->scale, b->scale);
    case PST_OP_RANDOM_SHORTEST_SIZE:
        return same_sizes(a, b);
    case PST_OP_RANDOM_RESIZE:
        return a->sizes[0] == b->sizes[0] && a->sizes[1] == b->sizes[1];
    case PST_OP_SANITIZE_BOXES:
        return a->min_size == b->min_size && a->min_area == b->min_area;
    case PST_OP_AFFINE:
        return same_affine(a, b);
    case PST_OP_PERSPECTIVE:
        return a->p == b->p && a->distortion == b->distortion;
    case PST_OP_ELASTIC:
        return same_range(a->alpha, b->alpha) && same_range(a->sigma, b->sigma);
    case PST_OP_RANDOM_APPLY:
        return a->n_inner == b->n_inner && a->p == b->p;
    case PST_OP_RANDOM_CHOICE:
        return a->n_inner == b->n_inner && a->n_inner <= PST_MAX_INNER &&
               memcmp(a->weights, b->weights, a->n_inner * sizeof a->weights[0]) == 0;
    default:
        return true;
    }
}

enum pst_interpolation psti_augment_op_mask_interpolation(const struct pst_op *op)
{
    return psti_augment_is_nearest(op->interpolation) ? op->interpolation
                                                      : PST_INTERPOLATION_NEAREST;
}

/* Copies an operation of the followed chain to `out`, changed as the following field needs it. */
static void follow(const struct pst_op *op, bool is_mask, struct pst_op *out)
{
    *out = *op;
    if (!is_mask)
        return;
    out->interpolation = psti_augment_op_mask_interpolation(op);
    out->no_blend = false;
    for (int c = 0; c < 4; c++)
        out->fill[c] = op->mask_fill;
}

/* Returns whether operation i is a SanitizeBoxes before an IoU crop. Such an operation affects the
 * geometry, because the crop's draw depends on the boxes that are left. */
static bool steers_crop(const struct pst_op *ops, size_t n_ops, size_t i)
{
    return ops[i].kind == PST_OP_SANITIZE_BOXES &&
           psti_augment_ops_need_boxes(ops + i, n_ops - i) != NULL;
}

/* A group (RandomApply or RandomChoice) keeps its number of operations: inner operations that move
 * nothing become Identity. */
size_t psti_augment_ops_follow(const struct pst_op *ops, size_t n_ops, bool is_mask,
                               struct pst_op out[PSTI_AUGMENT_MAX_OPS])
{
    size_t n = 0, left_in_group = 0;
    for (size_t i = 0; i < n_ops && n < PSTI_AUGMENT_MAX_OPS; i++) {
        bool is_geometric = psti_augment_is_geometric_at(ops, n_ops, i);
        bool is_inner = left_in_group > 0;
        left_in_group -= is_inner;
        bool stays = (is_mask && ops[i].kind == PST_OP_MAP_LABELS) || steers_crop(ops, n_ops, i);
        if (!is_geometric && !is_inner && !stays)
            continue;
        follow(&ops[i], is_mask, &out[n]);
        if (!is_geometric && !stays)
            out[n].kind = PST_OP_IDENTITY;
        if (is_group(ops[i].kind))
            left_in_group = ops[i].n_inner;
        n++;
    }
    return n;
}

/* Returns the index of the first operation from index i on that affects the geometry, or n if there
 * is none. */
static size_t next_geometric(const struct pst_op *ops, size_t n, size_t i)
{
    while (i < n && !psti_augment_is_geometric_at(ops, n, i) && !steers_crop(ops, n, i))
        i++;
    return i;
}

bool psti_augment_ops_move_alike(const struct pst_op *a, size_t n_a, const struct pst_op *b,
                                 size_t n_b, size_t *i_a, size_t *i_b)
{
    *i_a = next_geometric(a, n_a, 0);
    *i_b = next_geometric(b, n_b, 0);
    while (*i_a < n_a && *i_b < n_b && moves_alike(&a[*i_a], &b[*i_b])) {
        *i_a = next_geometric(a, n_a, *i_a + 1);
        *i_b = next_geometric(b, n_b, *i_b + 1);
    }
    return *i_a == n_a && *i_b == n_b;
}
