/* augment_compile.c - checks the operations and compiles them to an immutable chain.
 *
 * Other files compute what depends on the sample: random numbers (augment_draw.c) and geometry
 * (augment_plan.c). Many threads read a chain at once. It never changes after compilation. */
#include "augment/augment_int.h"
#include "augment/augment_sizes.h"

#include "base/alloc.h"
#include "base/machine/cpu.h"
#include "base/fail.h"
#include "base/numbers/logarithm.h"
#include "base/options.h"

#include <math.h>
#include <string.h>

/* Returns whether nearest is the default interpolation of an operation. It is for policies and
 * warps, as in torchvision. */
static bool is_nearest_by_default(enum pst_op_kind kind)
{
    return kind == PST_OP_AFFINE || psti_augment_op_is_policy(kind);
}

/* Sets the default parameters of operations for object detection. */
static void init_detection(struct pst_op *op)
{
    static const float overlaps[] = {0, 0.1f, 0.3f, 0.5f, 0.7f, 0.9f, 1};
    op->trials = 40;
    op->n_overlaps = sizeof overlaps / sizeof overlaps[0];
    memcpy(op->overlaps, overlaps, sizeof overlaps);
    op->other_label = 255;
    op->min_size = op->min_area = 1;
    if (op->kind == PST_OP_RANDOM_IOU_CROP) {
        op->scale[0] = 0.3f;
        op->ratio[0] = 0.5f;
        op->ratio[1] = 2;
    } else if (op->kind == PST_OP_RANDOM_ZOOM_OUT) {
        op->scale[0] = 1;
        op->scale[1] = 4;
    } else if (op->kind == PST_OP_LETTERBOX) {
        for (int c = 0; c < 4; c++)
            op->fill[c] = 114;
    } else if (op->kind == PST_OP_SCALE_JITTER) {
        op->scale[0] = 0.1f;
        op->scale[1] = 2;
    }
}

void pst_op_init(struct pst_op *op, size_t op_nbytes, enum pst_op_kind kind)
{
    struct pst_op full = {.kind = kind,
                          .interpolation = PST_INTERPOLATION_BILINEAR,
                          .pad_mode = PST_PAD_CONSTANT,
                          .p = kind == PST_OP_GRAYSCALE ? 1.0f : 0.5f,
                          .scale = {0.08f, 1.0f},
                          .ratio = {3.0f / 4.0f, 4.0f / 3.0f},
                          .brightness = {1, 1},
                          .contrast = {1, 1},
                          .saturation = {1, 1},
                          .std = {1, 1, 1, 1},
                          .all_ops = true,
                          .bits = 8,
                          .n_inner = 1,
                          .threshold = 128,
                          .factor = 1,
                          .sigma = {0.1f, 2.0f},
                          .distortion = 0.5f,
                          .alpha = {1, 1},
                          .magnitude = kind == PST_OP_AUGMIX ? 3 : 9,
                          .n_magnitudes = 31,
                          .mixture_width = 3};
    if (is_nearest_by_default(kind))
        full.interpolation = PST_INTERPOLATION_NEAREST;
    if (kind == PST_OP_AFFINE)
        full.scale[0] = 1;
    if (kind == PST_OP_ELASTIC) {
        full.alpha[0] = full.alpha[1] = 50;
        full.sigma[0] = full.sigma[1] = 5;
    }
    if (kind == PST_OP_ERASING) {
        full.scale[0] = 0.02f;
        full.scale[1] = 0.33f;
        full.ratio[0] = 0.3f;
        full.ratio[1] = 3.3f;
    }
    for (int i = 0; i < PST_MAX_INNER; i++)
        full.weights[i] = 1;
    init_detection(&full);
    psti_struct_write(op, op_nbytes, &full, sizeof full);
}

/* Returns what is wrong with the operation's size, or NULL. */
static const char *check_size(const struct pst_op *op, bool width_may_be_0)
{
    if (op->height == 0 || (op->width == 0 && !width_may_be_0))
        return "height and width must be at least 1";
    if (op->height > PSTI_AUGMENT_MAX_SIDE || op->width > PSTI_AUGMENT_MAX_SIDE)
        return "a side is larger than 1048576 pixels";
    return NULL;
}

static const char *check_interpolation(const struct pst_op *op, bool is_mask)
{
    if (op->interpolation < PST_INTERPOLATION_NEAREST ||
        op->interpolation > PST_INTERPOLATION_NEAREST_EXACT)
        return "unknown interpolation";
    if (is_mask && !psti_augment_is_nearest(op->interpolation))
        return "masks can only be interpolated by nearest or nearest-exact";
    return NULL;
}

static const char *check_pad(const struct pst_op *op)
{
    if (op->pad_mode < PST_PAD_CONSTANT || op->pad_mode > PST_PAD_SYMMETRIC)
        return "unknown pad_mode";
    for (int i = 0; i < 4; i++) {
        if (op->pad[i] > PSTI_AUGMENT_MAX_SIDE / 4)
            return "a pad is larger than 262144 pixels";
    }
    for (int i = 0; i < 4; i++) {
        if (!isfinite(op->fill[i]))
            return "fill must be a finite number";
    }
    return NULL;
}

static bool is_range(const float range[2], float low, float high)
{
    return range[0] >= low && range[0] <= range[1] && range[1] <= high;
}

static const char *check_random_resized_crop(const struct pst_op *op, bool is_mask)
{
    const char *wrong = check_size(op, false);
    if (wrong == NULL)
        wrong = check_interpolation(op, is_mask);
    if (wrong == NULL && !(op->scale[0] > 0 && is_range(op->scale, 0, 1e6f)))
        wrong = "scale must be 0 < low <= high";
    if (wrong == NULL && !is_range(op->ratio, 1e-6f, 1e6f))
        wrong = "ratio must be 0 < low <= high";
    return wrong;
}

static const char *check_color_jitter(const struct pst_op *op)
{
    if (!is_range(op->brightness, 0, 1e6f) || !is_range(op->contrast, 0, 1e6f) ||
        !is_range(op->saturation, 0, 1e6f))
        return "brightness, contrast and saturation must be 0 <= low <= high";
    if (!is_range(op->hue, -0.5f, 0.5f))
        return "hue must be -0.5 <= low <= high <= 0.5";
    return NULL;
}

static const char *check_normalize(const struct pst_op *op, const struct psti_chain_output *output)
{
    if (op->n_channels != 0 && op->n_channels != output->channels)
        return "mean and std have another number of channels than the pixels";
    for (int i = 0; i < output->channels; i++) {
        if (!(op->mean[i] >= 0 && op->mean[i] <= 1))
            return "mean must be within 0..1, as pixels are scaled to 0..1: divide means of 0..255 "
                   "by 255";
        if (!(op->std[i] >= 1e-30f && op->std[i] <= 10))
            return "std must be above 0, to 10, as pixels are scaled to 0..1: divide stds of "
                   "0..255 "
                   "by 255";
    }
    if (output->dtype == PST_DTYPE_U8 || output->dtype == PST_DTYPE_U16)
        return "normalised pixels need a floating-point dtype";
    return NULL;
}

static const char *check_p(const struct pst_op *op)
{
    return op->p >= 0 && op->p <= 1 ? NULL : "p must be within 0..1";
}

static const char *check_fill(const struct pst_op *op)
{
    for (int i = 0; i < 4; i++) {
        if (!isfinite(op->fill[i]))
            return "fill must be a finite number";
    }
    return NULL;
}

/* Returns what is wrong with a warp, or NULL. Warps use nearest or bilinear interpolation only. */
static const char *check_warp(const struct pst_op *op, bool is_mask)
{
    if (op->interpolation != PST_INTERPOLATION_NEAREST &&
        (op->interpolation != PST_INTERPOLATION_BILINEAR || is_mask))
        return is_mask ? "masks can only be interpolated by nearest"
                       : "interpolation must be nearest or bilinear";
    return check_fill(op);
}

static const char *check_affine(const struct pst_op *op, bool is_mask)
{
    if (!is_range(op->degrees, -1e5f, 1e5f))
        return "degrees must be -100000 <= low <= high <= 100000";
    if (!is_range(op->shear, -89, 89) || !is_range(op->shear + 2, -89, 89))
        return "shear must be -89 <= low <= high <= 89 degrees";
    if (!is_range(op->scale, 1e-3f, 1e3f))
        return "scale must be 0.001 <= low <= high <= 1000";
    if (!(op->translate[0] >= 0 && op->translate[0] <= 1 && op->translate[1] >= 0 &&
          op->translate[1] <= 1))
        return "translate must be within 0..1, shares of the sides";
    if (op->has_center && !(isfinite(op->center[0]) && isfinite(op->center[1])))
        return "center must be finite numbers";
    return check_warp(op, is_mask);
}

static const char *check_elastic(const struct pst_op *op, bool is_mask)
{
    for (int i = 0; i < 2; i++) {
        if (!(fabsf(op->alpha[i]) <= 1e6f))
            return "alpha must be within -1000000..1000000";
        if (!(op->sigma[i] >= 0 && 8 * op->sigma[i] + 1 < PSTI_BLUR_MAX_TAPS))
            return "sigma must be within 0..31";
    }
    return check_warp(op, is_mask);
}

static const char *check_blur(const struct pst_op *op)
{
    if (op->height % 2 == 0 || op->width % 2 == 0 || op->height > PSTI_BLUR_MAX_TAPS ||
        op->width > PSTI_BLUR_MAX_TAPS)
        return "height and width must be odd numbers of taps, 1 to 255";
    return op->sigma[0] > 0 && is_range(op->sigma, 0, 1e3f) ? NULL
                                                            : "sigma must be 0 < low <= high";
}

static const char *check_erasing(const struct pst_op *op)
{
    const char *wrong = check_p(op);
    if (wrong == NULL && !is_range(op->scale, 0, 1))
        wrong = "scale must be 0 <= low <= high <= 1";
    if (wrong == NULL && !is_range(op->ratio, 1e-6f, 1e6f))
        wrong = "ratio must be 0 < low <= high";
    return wrong != NULL ? wrong : check_fill(op);
}

static const char *check_policy(const struct pst_op *op)
{
    if (op->n_magnitudes < 2 || op->n_magnitudes > 1000)
        return "n_magnitudes must be 2..1000";
    if (op->magnitude >= op->n_magnitudes)
        return "magnitude must be below n_magnitudes";
    if (op->policy < PST_AUTO_POLICY_IMAGENET || op->policy > PST_AUTO_POLICY_SVHN)
        return "unknown policy";
    if (op->kind == PST_OP_AUGMIX && !(op->magnitude >= 1 && op->magnitude <= 10))
        return "severity must be 1..10";
    if (op->kind == PST_OP_AUGMIX && !(op->mixture_width >= 1 && op->mixture_width <= 8))
        return "mixture_width must be 1..8";
    if (op->kind == PST_OP_AUGMIX && op->chain_depth > 8)
        return "chain_depth must be 0..8";
    if (op->kind == PST_OP_AUGMIX && !(op->alpha[0] > 0 && op->alpha[0] <= 1e6f))
        return "alpha must be above 0";
    return check_warp(op, false);
}

static const char *check_group(const struct pst_op *op)
{
    float sum = 0;
    if (op->n_inner < 1 || op->n_inner > PST_MAX_INNER)
        return "n_inner must be 1..14";
    for (uint32_t i = 0; i < op->n_inner; i++) {
        if (!(op->weights[i] >= 0 && op->weights[i] <= 1e6f))
            return "weights must be 0 or more";
        sum += op->weights[i];
    }
    return sum > 0 ? check_p(op) : "weights must not all be 0";
}

/* Returns whether the operation keeps the size of an image, so it may be an inner operation of
 * RandomApply or RandomChoice. */
static bool may_be_inner(enum pst_op_kind kind)
{
    return kind == PST_OP_HORIZONTAL_FLIP || kind == PST_OP_VERTICAL_FLIP ||
           kind == PST_OP_COLOR_JITTER || kind == PST_OP_GRAYSCALE || kind == PST_OP_IDENTITY ||
           (kind >= PST_OP_INVERT && kind <= PST_OP_AUGMIX && kind != PST_OP_ERASING);
}

/* Returns whether operations of that kind apply to images only, not to masks: they change colours,
 * or erase pixels. */
static bool is_for_images(enum pst_op_kind kind)
{
    return kind == PST_OP_COLOR_JITTER || kind == PST_OP_GRAYSCALE || kind == PST_OP_NORMALIZE ||
           (kind >= PST_OP_INVERT && kind <= PST_OP_GAUSSIAN_BLUR) || kind >= PST_OP_ERASING;
}

static const char *check_color(const struct pst_op *op, const struct psti_chain_output *output)
{
    if (op->kind == PST_OP_POSTERIZE && op->bits > output->bits)
        return "bits must be within the bits of the samples";
    if (op->kind == PST_OP_SOLARIZE && !(op->threshold >= 0 && op->threshold <= 255))
        return "threshold must be within 0..255";
    if (op->kind == PST_OP_SHARPNESS && !(op->factor >= 0 && op->factor <= 1e6f))
        return "factor must be 0 or more";
    return check_p(op);
}

static const char *check_labels(const struct pst_op *op, const struct psti_chain_output *output)
{
    if (output->is_mask && output->channels != 1)
        return "a mask has one channel";
    return psti_augment_labels_problem(op, output->is_mask ? output->bits : 16);
}

static const char *check_sanitize(const struct pst_op *op)
{
    bool good =
        op->min_size >= 0 && isfinite(op->min_size) && op->min_area >= 0 && isfinite(op->min_area);
    return good ? NULL : "min_size and min_area must be 0 or more";
}

/* Returns what is wrong with an operation that draws a size, or NULL. Checks its own parameters and
 * those that it has in common with Resize. */
static const char *check_scales(const struct pst_op *op, bool is_mask)
{
    const char *wrong = psti_augment_scales_problem(op);
    return wrong != NULL || op->kind == PST_OP_RANDOM_ZOOM_OUT ? wrong
                                                               : check_interpolation(op, is_mask);
}

static const char *check_op(const struct pst_op *op, const struct psti_chain_output *output)
{
    const char *wrong = NULL;
    bool is_mask = output->is_mask;
    if (is_mask && is_for_images(op->kind))
        return "not possible on a mask";
    switch (op->kind) {
    case PST_OP_RESIZE:
        wrong = check_size(op, true);
        return wrong != NULL ? wrong : check_interpolation(op, is_mask);
    case PST_OP_CENTER_CROP:
    case PST_OP_RANDOM_CROP:
        wrong = check_size(op, false);
        return wrong != NULL ? wrong : check_pad(op);
    case PST_OP_RANDOM_RESIZED_CROP:
        return check_random_resized_crop(op, is_mask);
    case PST_OP_PAD:
        return check_pad(op);
    case PST_OP_HORIZONTAL_FLIP:
    case PST_OP_VERTICAL_FLIP:
    case PST_OP_GRAYSCALE:
    case PST_OP_INVERT:
    case PST_OP_POSTERIZE:
    case PST_OP_SOLARIZE:
    case PST_OP_AUTOCONTRAST:
    case PST_OP_EQUALIZE:
    case PST_OP_SHARPNESS:
        return check_color(op, output);
    case PST_OP_COLOR_JITTER:
        return check_color_jitter(op);
    case PST_OP_NORMALIZE:
        return check_normalize(op, output);
    case PST_OP_GAUSSIAN_BLUR:
        return check_blur(op);
    case PST_OP_AFFINE:
        return check_affine(op, is_mask);
    case PST_OP_PERSPECTIVE:
        wrong = op->distortion >= 0 && op->distortion <= 1 ? check_p(op)
                                                           : "distortion must be within 0..1";
        return wrong != NULL ? wrong : check_warp(op, is_mask);
    case PST_OP_ELASTIC:
        return check_elastic(op, is_mask);
    case PST_OP_ERASING:
        return check_erasing(op);
    case PST_OP_RAND_AUGMENT:
    case PST_OP_TRIVIAL_AUGMENT:
    case PST_OP_AUTO_AUGMENT:
    case PST_OP_AUGMIX:
        return check_policy(op);
    case PST_OP_RANDOM_APPLY:
    case PST_OP_RANDOM_CHOICE:
        return check_group(op);
    case PST_OP_RANDOM_IOU_CROP:
        return psti_augment_iou_problem(op);
    case PST_OP_RANDOM_ZOOM_OUT:
    case PST_OP_LETTERBOX:
    case PST_OP_SCALE_JITTER:
    case PST_OP_RANDOM_SHORTEST_SIZE:
    case PST_OP_RANDOM_RESIZE:
        return check_scales(op, is_mask);
    case PST_OP_MAP_LABELS:
        return check_labels(op, output);
    case PST_OP_SANITIZE_BOXES:
        return check_sanitize(op);
    case PST_OP_IDENTITY:
        return NULL;
    }
    return "unknown operation";
}

/* Returns what is wrong with the position of operation i in the chain, or NULL. */
static const char *check_place(const struct pst_op *ops, size_t n_ops, size_t i)
{
    bool erases_after = i + 2 == n_ops && ops[i + 1].kind == PST_OP_ERASING;
    if (ops[i].kind == PST_OP_NORMALIZE && i + 1 != n_ops && !erases_after)
        return "must be the last operation, but for RandomErasing";
    if (ops[i].kind == PST_OP_ERASING && i + 1 != n_ops)
        return "must be the last operation";
    if (ops[i].kind != PST_OP_RANDOM_APPLY && ops[i].kind != PST_OP_RANDOM_CHOICE)
        return NULL;
    for (uint32_t k = 1; k <= ops[i].n_inner; k++) {
        if (i + k >= n_ops)
            return "fewer operations follow than n_inner";
        if (!may_be_inner(ops[i + k].kind))
            return "its inner operations must keep the size of the image";
    }
    return NULL;
}

static enum pst_status check_ops(const struct pst_op *ops, size_t n_ops,
                                 const struct psti_chain_output *output, struct pst_error *err)
{
    if (n_ops > PSTI_AUGMENT_MAX_OPS) {
        return psti_fail(err, PST_ERROR_ARGUMENT, "augment",
                         "%zu operations; a chain holds at most %d", n_ops, PSTI_AUGMENT_MAX_OPS);
    }
    for (size_t i = 0; i < n_ops; i++) {
        const char *wrong = check_op(&ops[i], output);
        if (wrong == NULL)
            wrong = check_place(ops, n_ops, i);
        if (wrong != NULL) {
            return psti_fail(err, PST_ERROR_ARGUMENT, "augment", "operation %zu (%s): %s", i,
                             psti_augment_op_name(ops[i].kind), wrong);
        }
    }
    return PST_OK;
}

static enum pst_status check_output(const struct psti_chain_output *output, struct pst_error *err)
{
    if (output->channels < 1 || output->channels > 4)
        return psti_fail(err, PST_ERROR_ARGUMENT, "augment", "%u channels; 1 to 4 are possible",
                         output->channels);
    if (output->bits != 8 && output->bits != 16)
        return psti_fail(err, PST_ERROR_ARGUMENT, "augment", "%u bits; 8 or 16 are possible",
                         output->bits);
    if (output->layout != PST_LAYOUT_HWC && output->layout != PST_LAYOUT_CHW)
        return psti_fail(err, PST_ERROR_ARGUMENT, "augment", "unknown layout %d",
                         (int)output->layout);
    switch ((int)output->dtype) {
    case 0:
    case PST_DTYPE_U16:
    case PST_DTYPE_F32:
        return PST_OK;
    case PST_DTYPE_U8:
        if (output->is_mask && output->bits == 16)
            break; /* different labels could become the same number: an error */
        return PST_OK;
    case PST_DTYPE_I32:
    case PST_DTYPE_I64:
        if (!output->is_mask || output->channels != 1)
            break;
        return PST_OK;
    case PST_DTYPE_F16:
    case PST_DTYPE_BF16:
        /* F16 and BF16 hold labels above 2048 or 256 inexactly */
        if (output->is_mask)
            break;
        return PST_OK;
    default:
        break;
    }
    return psti_fail(err, PST_ERROR_ARGUMENT, "augment", "%s of %u bits cannot be delivered as %s",
                     output->is_mask ? "a mask" : "an image", output->bits,
                     pst_dtype_name(output->dtype));
}

/* Returns the Normalize operation of the chain, or NULL. */
static const struct pst_op *find_normalize(const struct psti_chain *chain)
{
    for (uint32_t i = chain->n_ops; i > 0; i--) {
        if (chain->ops[i - 1].kind == PST_OP_NORMALIZE)
            return &chain->ops[i - 1];
    }
    return NULL;
}

/* Sets the scale and offset for the conversion to floats. Masks keep their numbers. Images become
 * 0..1 and, if the chain says so, are normalised. */
static void set_scale(struct psti_chain *chain)
{
    float most = chain->output.bits == 8 ? 255.0f : 65535.0f;
    const struct pst_op *op = find_normalize(chain);
    for (uint32_t i = 0; i < PSTI_PATTERN; i++) {
        uint32_t c = i % chain->output.channels;
        chain->scale[i] = chain->output.is_mask ? 1.0f : 1.0f / most;
        chain->offset[i] = 0;
        if (op != NULL) {
            chain->scale[i] = (float)(1.0 / ((double)most * op->std[c]));
            chain->offset[i] = (float)(-(double)op->mean[c] / op->std[c]);
        }
    }
    for (uint32_t c = 0; c < chain->output.channels; c++) {
        for (uint32_t i = 0; i < PSTI_PATTERN; i++) {
            chain->plane_scale[c][i] = chain->scale[c];
            chain->plane_offset[c][i] = chain->offset[c];
        }
    }
}

/* Gives each operation the number from which its random numbers are derived (augment_draw.c).
 * MapLabels and SanitizeBoxes draw nothing and get no number. */
static void number_ops(struct psti_chain *chain)
{
    uint32_t n_geometric = 0, n_others = 0;
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        enum pst_op_kind kind = chain->ops[i].kind;
        bool is_geometric = psti_augment_is_geometric_at(chain->ops, chain->n_ops, i);
        chain->numbers[i] = is_geometric ? n_geometric : PSTI_NOT_GEOMETRIC | n_others;
        n_geometric += is_geometric;
        n_others += !is_geometric && kind != PST_OP_MAP_LABELS && kind != PST_OP_SANITIZE_BOXES;
    }
}

static bool resized_side_known(const struct pst_op *op) { return op->width != 0; }

/* Returns whether the output size of such an operation depends on the draw. */
static bool draws_size(enum pst_op_kind kind)
{
    return kind == PST_OP_RANDOM_IOU_CROP || kind == PST_OP_RANDOM_ZOOM_OUT ||
           kind == PST_OP_SCALE_JITTER || kind == PST_OP_RANDOM_SHORTEST_SIZE ||
           kind == PST_OP_RANDOM_RESIZE;
}

/* Computes the sizes after each operation, as far as they do not depend on the sample. */
static void find_fixed_size(struct psti_chain *chain)
{
    bool known = false;
    uint32_t height = 0, width = 0;
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        const struct pst_op *op = &chain->ops[i];
        if (op->kind == PST_OP_PAD && known) {
            height += op->pad[1] + op->pad[3];
            width += op->pad[0] + op->pad[2];
        } else if (op->kind == PST_OP_RESIZE && !resized_side_known(op)) {
            known = known && psti_augment_resize_size(op, height, width, &height, &width);
        } else if (op->kind == PST_OP_RESIZE || op->kind == PST_OP_CENTER_CROP ||
                   op->kind == PST_OP_RANDOM_CROP || op->kind == PST_OP_RANDOM_RESIZED_CROP ||
                   op->kind == PST_OP_LETTERBOX) {
            known = true;
            height = op->height;
            width = op->width;
        } else if (draws_size(op->kind)) {
            known = false;
        }
    }
    chain->fixed = known;
    chain->fixed_height = height;
    chain->fixed_width = width;
}

static size_t count_labels(const struct pst_op *ops, size_t n_ops)
{
    size_t n = 0;
    for (size_t i = 0; i < n_ops; i++)
        n += ops[i].kind == PST_OP_MAP_LABELS;
    return n;
}

/* Builds the tables of MapLabels in `memory`, each of `nbytes` bytes (0: the pixels are no mask).
 * After this the chain no longer points to the caller's tables. */
static void build_labels(struct psti_chain *chain, size_t nbytes, unsigned char *memory,
                         uint32_t bits)
{
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        if (chain->ops[i].kind == PST_OP_MAP_LABELS && nbytes > 0) {
            psti_augment_labels_build(&chain->ops[i], bits, memory);
            chain->labels[i] = memory;
            memory += nbytes;
        }
        chain->ops[i].labels = NULL;
    }
}

enum pst_status psti_augment_compile(const struct pst_op *ops, size_t n_ops,
                                     const struct psti_chain_output *output, uint32_t features,
                                     bool unfused, struct psti_chain **out, struct pst_error *err)
{
    *out = NULL;
    enum pst_status status = check_output(output, err);
    if (status == PST_OK)
        status = check_ops(ops, n_ops, output, err);
    if (status != PST_OK)
        return status;
    size_t labels_nbytes = output->is_mask ? psti_augment_labels_nbytes(output->bits) : 0;
    struct psti_chain *chain =
        psti_calloc(1, sizeof *chain + count_labels(ops, n_ops) * labels_nbytes);
    if (chain == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "augment", "no memory for a chain");
    if (n_ops > 0)
        memcpy(chain->ops, ops, n_ops * sizeof *ops);
    chain->n_ops = (uint32_t)n_ops;
    build_labels(chain, labels_nbytes, (unsigned char *)(chain + 1), output->bits);
    chain->output = *output;
    chain->unfused = unfused;
    chain->kernels = psti_augment_ops_for(features);
    chain->normalizes = find_normalize(chain) != NULL;
    number_ops(chain);
    if ((int)output->dtype == 0) {
        chain->output.dtype = output->bits == 8 ? PST_DTYPE_U8 : PST_DTYPE_U16;
        if (chain->normalizes)
            chain->output.dtype = PST_DTYPE_F32;
    }
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        if (ops[i].kind == PST_OP_LETTERBOX || ops[i].kind == PST_OP_RANDOM_ZOOM_OUT)
            chain->ops[i].pad_mode = PST_PAD_CONSTANT; /* these operations have no pad_mode */
        if (ops[i].kind == PST_OP_RANDOM_RESIZED_CROP) {
            chain->log_ratio[i][0] = psti_logarithm(ops[i].ratio[0]);
            chain->log_ratio[i][1] = psti_logarithm(ops[i].ratio[1]);
        }
    }
    set_scale(chain);
    find_fixed_size(chain);
    *out = chain;
    return PST_OK;
}

enum pst_status psti_augment_chain_compile(const struct pst_op *ops, size_t n_ops,
                                           const struct psti_chain_output *output,
                                           struct psti_chain **out, struct pst_error *err)
{
    return psti_augment_compile(ops, n_ops, output, psti_cpu_features(), false, out, err);
}

size_t psti_augment_ops_fixed(const struct pst_op *ops, size_t n_ops)
{
    size_t n = 0;
    while (n < n_ops && (ops[n].kind == PST_OP_RESIZE || ops[n].kind == PST_OP_CENTER_CROP ||
                         ops[n].kind == PST_OP_PAD || ops[n].kind == PST_OP_LETTERBOX))
        n++;
    return n;
}

size_t psti_augment_ops_sized(const struct pst_op *ops, size_t n_ops)
{
    for (size_t i = n_ops; i-- > 0;)
        switch (ops[i].kind) {
        case PST_OP_RESIZE:
            if (ops[i].width == 0)
                break; /* only the shorter side is given, so the output size depends on the image */
            return i;
        case PST_OP_CENTER_CROP:
        case PST_OP_RANDOM_CROP:
        case PST_OP_RANDOM_RESIZED_CROP:
        case PST_OP_LETTERBOX:
            return i;
        default:
            break;
        }
    return n_ops;
}

void psti_augment_chain_free(struct psti_chain **chain)
{
    if (chain == NULL)
        return;
    psti_free(*chain);
    *chain = NULL;
}

bool psti_augment_chain_fixed_size(const struct psti_chain *chain, uint32_t *height,
                                   uint32_t *width)
{
    if (chain->fixed) {
        *height = chain->fixed_height;
        *width = chain->fixed_width;
    }
    return chain->fixed;
}

const struct pst_op *psti_augment_chain_ops(const struct psti_chain *chain, size_t *n_ops)
{
    *n_ops = chain->n_ops;
    return chain->ops;
}

enum pst_dtype psti_augment_chain_dtype(const struct psti_chain *chain)
{
    return chain->output.dtype;
}

uint8_t psti_augment_chain_channels(const struct psti_chain *chain)
{
    return chain->output.channels;
}
