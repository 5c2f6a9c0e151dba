/* view_transforms.c - reads a file of operations as penstock.transforms writes it: a list of
 * objects with the member "op" and the arguments of the Python class, or an object of such lists by
 * field. Types, names and sizes are checked here, ranges by the library, which says them better.
 * docs/cli.md describes the file. */
#include "json_read.h"
#include "view.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_NBYTES_MAX = 1 << 16, SIDE_MAX = 65535 };

struct reader {
    const char *op_name;
    struct view_transforms *all; /* has the memory of tables */
    struct pst_error *err;
};

static bool fail(const struct reader *r, const struct json_node *at, const char *format, ...)
    PST_PRINTF(3, 4);
static bool fail(const struct reader *r, const struct json_node *at, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cli_error(r->err, PST_ERROR_ARGUMENT, "line %u, column %u: %s%s%s", at->line, at->column,
              r->op_name == NULL ? "" : r->op_name, r->op_name == NULL ? "" : ": ", text);
    return false;
}

/* Reads one number, or a list of `low` to `high` of them. */
static bool take_numbers(const struct reader *r, const struct json_node *value, uint32_t low,
                         uint32_t high, double out[4], uint32_t *n)
{
    const struct json_node *node = value->kind == JSON_LIST ? value->first : value;
    uint32_t given = value->kind == JSON_LIST ? value->n : 1;
    if (given < low || given > high)
        return fail(r, value, "%s has %u to %u numbers, not %u", value->key, low, high, given);
    for (*n = 0; *n < given; node = node->next) {
        if (node->kind != JSON_NUMBER)
            return fail(r, node, "%s is %s: a number is expected", value->key,
                        json_kind_name(node->kind));
        out[(*n)++] = node->number;
    }
    return true;
}

static bool take_pixels(const struct reader *r, const struct json_node *value, double low,
                        uint32_t n_max, uint32_t out[4], uint32_t *n)
{
    double numbers[4];
    if (!take_numbers(r, value, 1, n_max, numbers, n))
        return false;
    for (uint32_t i = 0; i < *n; i++) {
        if (!(numbers[i] >= low && numbers[i] <= SIDE_MAX) ||
            numbers[i] != (double)(uint32_t)numbers[i])
            return fail(r, value, "%s is a whole number of pixels, %.0f to %d, not %g", value->key,
                        low, SIDE_MAX, numbers[i]);
        out[i] = (uint32_t)numbers[i];
    }
    return true;
}

static bool take_size(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    uint32_t sides[4] = {0}, n = 0;
    if (!take_pixels(r, value, 1, 2, sides, &n))
        return false;
    op->height = sides[0];
    op->width = n == 2 ? sides[1] : op->kind == PST_OP_RESIZE ? 0 : sides[0];
    return true;
}

static bool take_padding(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    uint32_t n;
    if (value->kind == JSON_NULL)
        return true;
    if (!take_pixels(r, value, 0, 4, op->pad, &n))
        return false;
    if (n == 3)
        return fail(r, value, "padding has 1, 2 or 4 numbers, not 3");
    for (uint32_t i = n; i < 4; i++) /* left and top stand for right and bottom */
        op->pad[i] = op->pad[i - n];
    return true;
}

static bool take_choice(const struct reader *r, const struct json_node *value,
                        const char *const *names, uint32_t *place)
{
    char all[128] = "";
    const char *text = value->kind == JSON_TEXT ? value->text : "";
    for (*place = 0; names[*place] != NULL; (*place)++) {
        if (strcmp(text, names[*place]) == 0)
            return true;
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *place ? ", " : "",
                 names[*place]);
    }
    const char *near = cli_nearest(text, names, sizeof *names);
    return fail(r, value, "%s is one of %s%s%s%s", value->key, all,
                near == NULL ? "" : "; did you mean ", near == NULL ? "" : near,
                near == NULL ? "" : "?");
}

static bool take_interpolation(const struct reader *r, struct pst_op *op,
                               const struct json_node *value)
{
    static const char *const names[] = {"nearest", "bilinear", "bicubic", "nearest-exact", NULL};
    uint32_t place = 0;
    if (!take_choice(r, value, names, &place))
        return false;
    op->interpolation = (enum pst_interpolation)(place + 1);
    return true;
}

static bool take_pad_mode(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    static const char *const names[] = {"constant", "edge", "reflect", "symmetric", NULL};
    uint32_t place = 0;
    if (!take_choice(r, value, names, &place))
        return false;
    op->pad_mode = (enum pst_pad_mode)place;
    return true;
}

static bool take_flag(const struct reader *r, const struct json_node *value, bool *flag)
{
    if (value->kind != JSON_BOOL)
        return fail(r, value, "%s is true or false, not %s", value->key,
                    json_kind_name(value->kind));
    *flag = value->number != 0;
    return true;
}

static bool take_antialias(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    bool antialias = true;
    if (!take_flag(r, value, &antialias))
        return false;
    op->no_antialias = !antialias;
    return true;
}

static bool take_pad_if_needed(const struct reader *r, struct pst_op *op,
                               const struct json_node *value)
{
    return take_flag(r, value, &op->pad_if_needed);
}

static bool take_fill(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    double numbers[4] = {0};
    uint32_t n = 0;
    if (!take_numbers(r, value, 1, 4, numbers, &n))
        return false;
    for (uint32_t i = 0; i < 4; i++)
        op->fill[i] = i < n ? (float)numbers[i] : value->kind == JSON_LIST ? 0 : (float)numbers[0];
    return true;
}

static bool take_float(const struct reader *r, const struct json_node *value, float *out)
{
    if (value->kind != JSON_NUMBER)
        return fail(r, value, "%s is %s: a number is expected", value->key,
                    json_kind_name(value->kind));
    *out = (float)value->number;
    return true;
}

static bool take_mask_fill(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_float(r, value, &op->mask_fill);
}

static bool take_p(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_float(r, value, &op->p);
}

static bool take_range(const struct reader *r, const struct json_node *value, float range[2])
{
    double numbers[4];
    uint32_t n;
    if (!take_numbers(r, value, 2, 2, numbers, &n))
        return false;
    range[0] = (float)numbers[0];
    range[1] = (float)numbers[1];
    return true;
}

static bool take_scale(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_range(r, value, op->scale);
}

static bool take_ratio(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_range(r, value, op->ratio);
}

/* Reads a jitter: one number x is centre - x to centre + x; factors do not fall below 0. */
static bool take_jitter(const struct reader *r, const struct json_node *value, float centre,
                        float range[2])
{
    float x = 0;
    if (value->kind == JSON_LIST)
        return take_range(r, value, range);
    if (!take_float(r, value, &x))
        return false;
    if (x < 0)
        return fail(r, value, "%s must not be negative, not %g", value->key, (double)x);
    range[0] = centre > 0 && x > centre ? 0 : centre - x;
    range[1] = centre + x;
    return true;
}

static bool take_factor(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    float *range = value->key[0] == 'b'   ? op->brightness
                   : value->key[0] == 'c' ? op->contrast
                                          : op->saturation;
    return take_jitter(r, value, 1, range);
}

static bool take_hue(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_jitter(r, value, 0, op->hue);
}

/* Reads a range of angles: one number x is -x to x. */
static bool take_angles(const struct reader *r, const struct json_node *value, float range[2])
{
    return take_jitter(r, value, 0, range);
}

/* RandomRotation turns the other way than RandomAffine. */
static bool take_turn(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    float range[2];
    if (!take_angles(r, value, range))
        return false;
    op->degrees[0] = -range[1];
    op->degrees[1] = -range[0];
    return true;
}

static bool take_degrees(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_angles(r, value, op->degrees);
}

static bool take_translate(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return value->kind == JSON_NULL || take_range(r, value, op->translate);
}

static bool take_factors(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return value->kind == JSON_NULL || take_range(r, value, op->scale);
}

static bool take_shear(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    double numbers[4];
    uint32_t n;
    if (value->kind == JSON_NULL)
        return true;
    if (value->kind != JSON_LIST || value->n != 4)
        return take_angles(r, value, op->shear);
    if (!take_numbers(r, value, 4, 4, numbers, &n))
        return false;
    for (uint32_t i = 0; i < 4; i++)
        op->shear[i] = (float)numbers[i];
    return true;
}

static bool take_center(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    op->has_center = value->kind != JSON_NULL;
    return !op->has_center || take_range(r, value, op->center);
}

/* The fill of a warp; null: pixels outside count as 0 and edges are not blended. */
static bool take_warp_fill(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    op->no_blend = value->kind == JSON_NULL;
    return op->no_blend || take_fill(r, op, value);
}

static bool take_sigma(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    double numbers[4];
    uint32_t n;
    if (!take_numbers(r, value, 1, 2, numbers, &n))
        return false;
    op->sigma[0] = (float)numbers[0];
    op->sigma[1] = (float)numbers[n - 1];
    return true;
}

static bool take_alpha(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    double numbers[4];
    uint32_t n;
    if (!take_numbers(r, value, 1, 2, numbers, &n))
        return false;
    op->alpha[0] = (float)numbers[0];
    op->alpha[1] = (float)numbers[n - 1];
    return true;
}

static bool take_whole(const struct reader *r, const struct json_node *value, double low,
                       double high, uint32_t *out)
{
    double number = value->number;
    if (value->kind != JSON_NUMBER || !(number >= low && number <= high) ||
        number != (double)(int64_t)number)
        return fail(r, value, "%s is a whole number from %g to %g", value->key, low, high);
    *out = number < 0 ? 0 : (uint32_t)number;
    return true;
}

static bool take_bits(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    uint32_t bits = 0;
    if (!take_whole(r, value, 0, 16, &bits))
        return false;
    op->bits = (uint8_t)bits;
    return true;
}

static bool take_threshold(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_float(r, value, &op->threshold);
}

static bool take_sharpness(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_float(r, value, &op->factor);
}

static bool take_distortion(const struct reader *r, struct pst_op *op,
                            const struct json_node *value)
{
    return take_float(r, value, &op->distortion);
}

static bool take_value(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    if (value->kind != JSON_TEXT)
        return take_fill(r, op, value);
    op->noise = strcmp(value->text, "random") == 0;
    return op->noise || fail(r, value, "value is numbers or \"random\"");
}

static bool take_magnitude(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_whole(r, value, 0, 999, &op->magnitude);
}

static bool take_bins(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_whole(r, value, 2, 1000, &op->n_magnitudes);
}

static bool take_width(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_whole(r, value, 1, 8, &op->mixture_width);
}

static bool take_depth(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_whole(r, value, -1, 8, &op->chain_depth);
}

static bool take_all_ops(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_flag(r, value, &op->all_ops);
}

static bool take_policy(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    static const char *const names[] = {"imagenet", "cifar10", "svhn", NULL};
    uint32_t place = 0;
    if (!take_choice(r, value, names, &place))
        return false;
    op->policy = (enum pst_auto_policy)place;
    return true;
}

/* RandAugment's num_ops: the operation is repeated when it has been read. */
static bool take_num_ops(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    (void)op;
    uint32_t n = 0;
    return take_whole(r, value, 1, 10, &n);
}

/* The weights of a RandomChoice are its argument p; null: all alike. */
static bool take_weights(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    uint32_t i = 0;
    if (value->kind == JSON_NULL)
        return true;
    if (value->kind != JSON_LIST || value->n > PST_MAX_INNER)
        return fail(r, value, "p is a list of at most %d numbers", PST_MAX_INNER);
    for (const struct json_node *node = value->first; node != NULL; node = node->next) {
        if (node->kind != JSON_NUMBER)
            return fail(r, node, "p is %s: a number is expected", json_kind_name(node->kind));
        op->weights[i++] = (float)node->number;
    }
    op->n_inner = i;
    return true;
}

/* The operations of a group are read after it (take_inner). */
static bool take_transforms(const struct reader *r, struct pst_op *op,
                            const struct json_node *value)
{
    (void)op;
    return value->kind == JSON_LIST || fail(r, value, "transforms is a list of operations, not %s",
                                            json_kind_name(value->kind));
}

/* A sheet shows gray images in three channels either way. */
static bool take_channels(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    (void)op;
    if (value->kind != JSON_NUMBER || (value->number != 1 && value->number != 3))
        return fail(r, value, "num_output_channels is 1 or 3");
    return true;
}

static bool take_per_channel(const struct reader *r, struct pst_op *op,
                             const struct json_node *value)
{
    bool is_mean = strcmp(value->key, "mean") == 0;
    double numbers[4];
    uint32_t n;
    (void)op; /* the operation is checked, not applied */
    if (!take_numbers(r, value, 1, 4, numbers, &n))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (is_mean ? !(numbers[i] >= 0 && numbers[i] <= 1) : !(numbers[i] > 0 && numbers[i] <= 10))
            return fail(r, value,
                        "%s must be %s, as pixels are scaled to 0..1: divide numbers for 0..255 by "
                        "255",
                        value->key, is_mean ? "within 0..1" : "above 0, to 10");
    return true;
}

/* Numbers of any amount up to n_max, each within low to high. Returns how many; 0 after an error.
 */
static uint32_t take_list(const struct reader *r, const struct json_node *value, double low,
                          double high, uint32_t n_max, double *out)
{
    const struct json_node *node = value->kind == JSON_LIST ? value->first : value;
    uint32_t given = value->kind == JSON_LIST ? value->n : 1, n = 0;
    if (given < 1 || given > n_max) {
        fail(r, value, "%s has 1 to %u numbers, not %u", value->key, n_max, given);
        return 0;
    }
    for (; n < given; node = node->next) {
        if (node->kind != JSON_NUMBER || !(node->number >= low && node->number <= high)) {
            fail(r, node, "%s is numbers from %g to %g", value->key, low, high);
            return 0;
        }
        out[n++] = node->number;
    }
    return n;
}

static bool take_overlaps(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    double numbers[PST_MAX_OVERLAPS];
    if (value->kind == JSON_NULL)
        return true;
    op->n_overlaps = take_list(r, value, 0, 1e6, PST_MAX_OVERLAPS, numbers);
    for (uint32_t i = 0; i < op->n_overlaps; i++)
        op->overlaps[i] = (float)numbers[i];
    return op->n_overlaps > 0;
}

static bool take_trials(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_whole(r, value, 1, 1000, &op->trials);
}

/* One end of a range, by its argument's name. */
static bool take_end(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    float *range = strstr(value->key, "aspect") != NULL ? op->ratio : op->scale;
    return take_float(r, value, &range[value->key[1] == 'a']);
}

/* (width, height), as torchvision reads it. */
static bool take_target(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    uint32_t sides[4] = {0}, n = 0;
    if (!take_pixels(r, value, 1, 2, sides, &n))
        return false;
    op->width = sides[0];
    op->height = sides[n - 1];
    return true;
}

static bool take_sizes(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    double numbers[PST_MAX_SIZES];
    op->n_sizes = take_list(r, value, 1, SIDE_MAX, PST_MAX_SIZES, numbers);
    for (uint32_t i = 0; i < op->n_sizes; i++)
        op->sizes[i] = (uint32_t)numbers[i];
    return op->n_sizes > 0;
}

static bool take_max_size(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return value->kind == JSON_NULL || take_whole(r, value, 1, SIDE_MAX, &op->max_size);
}

static bool take_low(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_whole(r, value, 1, SIDE_MAX, &op->sizes[0]);
}

static bool take_high(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    return take_whole(r, value, 1, SIDE_MAX, &op->sizes[1]);
}

static bool take_scale_up(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    bool scale_up = true;
    if (!take_flag(r, value, &scale_up))
        return false;
    op->no_scale_up = !scale_up;
    return true;
}

static bool take_least_size(const struct reader *r, struct pst_op *op,
                            const struct json_node *value)
{
    return take_float(r, value, &op->min_size);
}

static bool take_least_area(const struct reader *r, struct pst_op *op,
                            const struct json_node *value)
{
    return take_float(r, value, &op->min_area);
}

static bool take_other(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    uint32_t label = 255;
    op->keep_others = value->kind == JSON_NULL;
    if (!op->keep_others && !take_whole(r, value, 0, 65535, &label))
        return false;
    op->other_label = (uint16_t)label;
    return true;
}

/* The table of MapLabels is read after its argument `other` (fill_table). */
static bool take_table(const struct reader *r, struct pst_op *op, const struct json_node *value)
{
    (void)op;
    return value->kind == JSON_LIST || fail(r, value, "table is a list of classes or of pairs");
}

/* Reads entry i of the table, a class or a pair of them. */
static bool take_entry(const struct reader *r, const struct json_node *node, uint32_t i,
                       uint32_t pair[2])
{
    double numbers[2];
    pair[0] = i;
    if (node->kind != JSON_LIST)
        return take_whole(r, node, 0, 65535, &pair[1]);
    if (take_list(r, node, 0, 65535, 2, numbers) != 2)
        return fail(r, node, "table is a list of classes or of pairs");
    pair[0] = (uint32_t)numbers[0];
    pair[1] = (uint32_t)numbers[1];
    return true;
}

static bool fill_table(const struct reader *r, const struct json_node *table, struct pst_op *op)
{
    uint32_t pair[2], i = 0;
    uint16_t *labels = r->all->labels[r->all->n_tables];
    if (r->all->n_tables == VIEW_TABLES_MAX)
        return fail(r, table, "more than %d tables of classes", VIEW_TABLES_MAX);
    r->all->n_tables++;
    for (const struct json_node *node = table->first; node != NULL; node = node->next, i++) {
        if (!take_entry(r, node, i, pair))
            return false;
        for (; op->n_labels <= pair[0]; op->n_labels++)
            labels[op->n_labels] = op->keep_others ? (uint16_t)op->n_labels : op->other_label;
        labels[pair[0]] = (uint16_t)pair[1];
    }
    op->labels = labels;
    return true;
}

struct argument {
    const char *name;
    bool (*take)(const struct reader *r, struct pst_op *op, const struct json_node *value);
    bool needed;
};
struct operation {
    const char *name;
    enum pst_op_kind kind;
    struct argument arguments[9]; /* a NULL name ends them */
};
#define SIZE                                                                                       \
    {                                                                                              \
        "size", take_size, true                                                                    \
    }
#define FILTER                                                                                     \
    {"interpolation", take_interpolation, false}, { "antialias", take_antialias, false }
#define BORDER                                                                                     \
    {"fill", take_fill, false}, {"padding_mode", take_pad_mode, false},                            \
    {                                                                                              \
        "mask_fill", take_mask_fill, false                                                         \
    }
#define WARP                                                                                       \
    {"interpolation", take_interpolation, false}, {"fill", take_warp_fill, false},                 \
    {                                                                                              \
        "mask_fill", take_mask_fill, false                                                         \
    }
#define CHANCE                                                                                     \
    {                                                                                              \
        "p", take_p, false                                                                         \
    }
#define FILLS                                                                                      \
    {"fill", take_fill, false}, { "mask_fill", take_mask_fill, false }
#define POLICY                                                                                     \
    {"interpolation", take_interpolation, false}, { "fill", take_warp_fill, false }
/* The classes of penstock.transforms, with their arguments. */
static const struct operation operations[] = {
    {"Resize", PST_OP_RESIZE, {SIZE, FILTER}},
    {"CenterCrop", PST_OP_CENTER_CROP, {SIZE, {"mask_fill", take_mask_fill, false}}},
    {"RandomCrop",
     PST_OP_RANDOM_CROP,
     {SIZE,
      {"padding", take_padding, false},
      {"pad_if_needed", take_pad_if_needed, false},
      BORDER}},
    {"RandomResizedCrop",
     PST_OP_RANDOM_RESIZED_CROP,
     {SIZE, {"scale", take_scale, false}, {"ratio", take_ratio, false}, FILTER}},
    {"RandomHorizontalFlip", PST_OP_HORIZONTAL_FLIP, {{"p", take_p, false}}},
    {"RandomVerticalFlip", PST_OP_VERTICAL_FLIP, {{"p", take_p, false}}},
    {"Pad", PST_OP_PAD, {{"padding", take_padding, true}, BORDER}},
    {"ColorJitter",
     PST_OP_COLOR_JITTER,
     {{"brightness", take_factor, false},
      {"contrast", take_factor, false},
      {"saturation", take_factor, false},
      {"hue", take_hue, false}}},
    {"Grayscale", PST_OP_GRAYSCALE, {{"num_output_channels", take_channels, false}}},
    {"RandomGrayscale", PST_OP_GRAYSCALE, {{"p", take_p, false}}},
    {"Normalize",
     PST_OP_NORMALIZE,
     {{"mean", take_per_channel, true}, {"std", take_per_channel, true}}},
    {"Identity", PST_OP_IDENTITY, {{NULL, NULL, false}}},
    {"RandomApply", PST_OP_RANDOM_APPLY, {{"transforms", take_transforms, true}, CHANCE}},
    {"RandomChoice",
     PST_OP_RANDOM_CHOICE,
     {{"transforms", take_transforms, true}, {"p", take_weights, false}}},
    {"RandomInvert", PST_OP_INVERT, {CHANCE}},
    {"RandomPosterize", PST_OP_POSTERIZE, {{"bits", take_bits, true}, CHANCE}},
    {"RandomSolarize", PST_OP_SOLARIZE, {{"threshold", take_threshold, true}, CHANCE}},
    {"RandomAutocontrast", PST_OP_AUTOCONTRAST, {CHANCE}},
    {"RandomEqualize", PST_OP_EQUALIZE, {CHANCE}},
    {"RandomAdjustSharpness",
     PST_OP_SHARPNESS,
     {{"sharpness_factor", take_sharpness, true}, CHANCE}},
    {"GaussianBlur",
     PST_OP_GAUSSIAN_BLUR,
     {{"kernel_size", take_size, true}, {"sigma", take_sigma, false}}},
    {"RandomRotation",
     PST_OP_AFFINE,
     {{"degrees", take_turn, true}, {"center", take_center, false}, WARP}},
    {"RandomAffine",
     PST_OP_AFFINE,
     {{"degrees", take_degrees, true},
      {"translate", take_translate, false},
      {"scale", take_factors, false},
      {"shear", take_shear, false},
      {"center", take_center, false},
      WARP}},
    {"RandomPerspective",
     PST_OP_PERSPECTIVE,
     {{"distortion_scale", take_distortion, false}, CHANCE, WARP}},
    {"ElasticTransform",
     PST_OP_ELASTIC,
     {{"alpha", take_alpha, false}, {"sigma", take_sigma, false}, WARP}},
    {"RandomErasing",
     PST_OP_ERASING,
     {CHANCE,
      {"scale", take_scale, false},
      {"ratio", take_ratio, false},
      {"value", take_value, false}}},
    {"RandAugment",
     PST_OP_RAND_AUGMENT,
     {{"num_ops", take_num_ops, false},
      {"magnitude", take_magnitude, false},
      {"num_magnitude_bins", take_bins, false},
      POLICY}},
    {"TrivialAugmentWide",
     PST_OP_TRIVIAL_AUGMENT,
     {{"num_magnitude_bins", take_bins, false}, POLICY}},
    {"AutoAugment", PST_OP_AUTO_AUGMENT, {{"policy", take_policy, false}, POLICY}},
    {"AugMix",
     PST_OP_AUGMIX,
     {{"severity", take_magnitude, false},
      {"mixture_width", take_width, false},
      {"chain_depth", take_depth, false},
      {"alpha", take_alpha, false},
      {"all_ops", take_all_ops, false},
      POLICY}},
    {"RandomIoUCrop",
     PST_OP_RANDOM_IOU_CROP,
     {{"min_scale", take_end, false},
      {"max_scale", take_end, false},
      {"min_aspect_ratio", take_end, false},
      {"max_aspect_ratio", take_end, false},
      {"sampler_options", take_overlaps, false},
      {"trials", take_trials, false}}},
    {"RandomZoomOut", PST_OP_RANDOM_ZOOM_OUT, {FILLS, {"side_range", take_scale, false}, CHANCE}},
    {"Letterbox", PST_OP_LETTERBOX, {SIZE, FILLS, {"scale_up", take_scale_up, false}, FILTER}},
    {"ScaleJitter",
     PST_OP_SCALE_JITTER,
     {{"target_size", take_target, true}, {"scale_range", take_scale, false}, FILTER}},
    {"RandomShortestSize",
     PST_OP_RANDOM_SHORTEST_SIZE,
     {{"min_size", take_sizes, true}, {"max_size", take_max_size, false}, FILTER}},
    {"RandomResize",
     PST_OP_RANDOM_RESIZE,
     {{"min_size", take_low, true}, {"max_size", take_high, true}, FILTER}},
    {"RandomScaleCrop",
     PST_OP_SCALE_JITTER,
     {SIZE, {"scale_range", take_scale, false}, FILLS, FILTER}},
    {"MapLabels", PST_OP_MAP_LABELS, {{"table", take_table, true}, {"other", take_other, false}}},
    {"SanitizeBoxes",
     PST_OP_SANITIZE_BOXES,
     {{"min_size", take_least_size, false}, {"min_area", take_least_area, false}}},
    {NULL, 0, {{NULL, NULL, false}}},
};

static const struct operation *find_operation(const struct reader *r, const struct json_node *node)
{
    const struct json_node *name = json_member(node, "op");
    if (name == NULL || name->kind != JSON_TEXT) {
        fail(r, node, "an operation is an object like {\"op\": \"CenterCrop\", \"size\": 224}");
        return NULL;
    }
    for (const struct operation *op = operations; op->name != NULL; op++)
        if (strcmp(op->name, name->text) == 0)
            return op;
    const char *near = cli_nearest(name->text, &operations[0].name, sizeof operations[0]);
    fail(r, name, "no operation \"%s\"%s%s%s", name->text, near == NULL ? "" : ": did you mean ",
         near == NULL ? "" : near, near == NULL ? "" : "?");
    return NULL;
}

static bool take_argument(const struct reader *r, const struct operation *operation,
                          struct pst_op *op, const struct json_node *value)
{
    for (const struct argument *a = operation->arguments; a->name != NULL; a++)
        if (strcmp(a->name, value->key) == 0)
            return a->take(r, op, value);
    const char *near =
        cli_nearest(value->key, &operation->arguments[0].name, sizeof operation->arguments[0]);
    return fail(r, value, "no argument \"%s\"%s%s%s", value->key,
                near == NULL ? "" : ": did you mean ", near == NULL ? "" : near,
                near == NULL ? "" : "?");
}

static struct pst_op *add_operation(const struct reader *r, const struct json_node *node,
                                    struct view_chain *chain)
{
    if (chain->n_ops < VIEW_OPS_MAX)
        return &chain->ops[chain->n_ops++];
    fail(r, node, "more than %d operations", VIEW_OPS_MAX);
    return NULL;
}

/* RandomScaleCrop is two operations of the library, of which the second is a RandomCrop. */
static bool is_scale_crop(const struct operation *operation)
{
    return strcmp(operation->name, "RandomScaleCrop") == 0;
}

/* Moves the size and the fills of a RandomScaleCrop to a crop of its own. */
static bool split(const struct reader *r, const struct json_node *node, struct view_chain *chain)
{
    struct pst_op *crop = add_operation(r, node, chain);
    if (crop == NULL)
        return false;
    struct pst_op *jitter = crop - 1;
    pst_op_init(crop, sizeof *crop, PST_OP_RANDOM_CROP);
    crop->height = jitter->height;
    crop->width = jitter->width;
    crop->pad_if_needed = true;
    crop->mask_fill = jitter->mask_fill;
    memcpy(crop->fill, jitter->fill, sizeof crop->fill);
    jitter->height = jitter->width = 0;
    return true;
}

/* Sets what differs from the defaults of the library's operation. */
static void set_defaults(const struct operation *operation, struct pst_op *op)
{
    op->p = strcmp(operation->name, "RandomGrayscale") == 0 ? 0.1f : op->p;
    op->no_blend = op->kind >= PST_OP_RAND_AUGMENT;
    if (is_scale_crop(operation)) {
        op->scale[0] = 0.5f;
        op->mask_fill = 255;
    }
    if (op->kind == PST_OP_AUGMIX)
        op->interpolation = PST_INTERPOLATION_BILINEAR;
    if (op->kind == PST_OP_TRIVIAL_AUGMENT)
        op->magnitude = 0;
}

static bool take_arguments(struct reader *r, const struct json_node *node,
                           const struct operation *operation, struct pst_op *op)
{
    for (const struct argument *a = operation->arguments; a->name != NULL; a++)
        if (a->needed && json_member(node, a->name) == NULL)
            return fail(r, node, "the argument \"%s\" is missing", a->name);
    for (const struct json_node *value = node->first; value != NULL; value = value->next)
        if (strcmp(value->key, "op") != 0 && !take_argument(r, operation, op, value))
            return false;
    return true;
}

/* An operation that stands for none to come. */
static bool may_end(const struct view_chain *chain, const struct operation *operation)
{
    return !chain->erases && (!chain->normalizes || operation->kind == PST_OP_ERASING);
}

static bool take_operation(struct reader *r, const struct json_node *node, bool is_inner,
                           struct view_chain *chain);

/* Reads the inner operations of the group at place `at`. */
static bool take_inner(struct reader *r, const struct json_node *node, size_t at,
                       struct view_chain *chain)
{
    const struct json_node *list = json_member(node, "transforms");
    for (const struct json_node *inner = list->first; inner != NULL; inner = inner->next)
        if (!take_operation(r, inner, true, chain))
            return false;
    size_t n = chain->n_ops - at - 1;
    r->op_name = NULL;
    if (n < 1 || n > PST_MAX_INNER)
        return fail(r, node, "1 to %d operations, not %zu", PST_MAX_INNER, n);
    struct pst_op *group = &chain->ops[at];
    if (group->kind == PST_OP_RANDOM_CHOICE && json_member(node, "p") != NULL &&
        json_member(node, "p")->kind == JSON_LIST && group->n_inner != n)
        return fail(r, node, "p has one number for each operation");
    group->n_inner = (uint32_t)n;
    return true;
}

static bool is_group(const struct operation *operation)
{
    return operation->kind == PST_OP_RANDOM_APPLY || operation->kind == PST_OP_RANDOM_CHOICE;
}

static bool repeat(const struct reader *r, const struct json_node *node, struct view_chain *chain)
{
    const struct json_node *given = json_member(node, "num_ops");
    uint32_t n = given == NULL ? 2 : (uint32_t)given->number;
    for (uint32_t i = 1; i < n; i++) {
        struct pst_op *op = add_operation(r, node, chain);
        if (op == NULL)
            return false;
        *op = op[-1];
    }
    return true;
}

static bool take_operation(struct reader *r, const struct json_node *node, bool is_inner,
                           struct view_chain *chain)
{
    r->op_name = NULL;
    const struct operation *operation = find_operation(r, node);
    if (operation == NULL)
        return false;
    r->op_name = operation->name;
    if (!may_end(chain, operation))
        return fail(r, node, "Normalize must be the last operation, but for RandomErasing");
    bool ends = operation->kind == PST_OP_NORMALIZE || operation->kind == PST_OP_ERASING;
    if (is_inner && (ends || is_group(operation)))
        return fail(r, node, "it cannot be within a group");
    struct pst_op read, *op = &read;
    if (operation->kind != PST_OP_NORMALIZE && (op = add_operation(r, node, chain)) == NULL)
        return false;
    size_t at = chain->n_ops - 1;
    pst_op_init(op, sizeof *op, operation->kind);
    set_defaults(operation, op);
    if (!take_arguments(r, node, operation, op))
        return false;
    chain->normalizes = chain->normalizes || operation->kind == PST_OP_NORMALIZE;
    chain->erases = operation->kind == PST_OP_ERASING;
    if (operation->kind == PST_OP_RAND_AUGMENT)
        return repeat(r, node, chain);
    if (is_scale_crop(operation))
        return split(r, node, chain);
    if (operation->kind == PST_OP_MAP_LABELS)
        return fill_table(r, json_member(node, "table"), op);
    return !is_group(operation) || take_inner(r, node, at, chain);
}

static bool take_chain(struct reader *r, const struct json_node *list, struct view_chain *chain)
{
    r->op_name = NULL;
    if (list->kind != JSON_LIST)
        return fail(r, list, "a list of operations is expected, not %s",
                    json_kind_name(list->kind));
    if (list->key != NULL &&
        (size_t)snprintf(chain->field, sizeof chain->field, "%s", list->key) >= sizeof chain->field)
        return fail(r, list, "\"%s\" is longer than a field's name", list->key);
    for (const struct json_node *node = list->first; node != NULL; node = node->next)
        if (!take_operation(r, node, false, chain))
            return false;
    return true;
}

static bool take_all(struct reader *r, const struct json_node *root, struct view_transforms *all)
{
    if (root->kind != JSON_OBJECT) {
        all->n_chains = 1;
        return take_chain(r, root, &all->chains[0]);
    }
    if (json_member(root, "op") != NULL)
        return fail(r, root, "a list of operations is expected: put the operation into [ ]");
    for (const struct json_node *list = root->first; list != NULL; list = list->next) {
        if (all->n_chains == PST_MAX_FIELDS)
            return fail(r, list, "more than %d fields", PST_MAX_FIELDS);
        if (!take_chain(r, list, &all->chains[all->n_chains++]))
            return false;
    }
    return true;
}

enum pst_status view_transforms_parse(char *text, size_t nbytes, struct view_transforms *all,
                                      struct pst_error *err)
{
    struct reader r = {.all = all, .err = err};
    struct json_node *nodes = calloc(JSON_NODES(nbytes), sizeof *nodes);
    if (nodes == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory for the operations");
    enum pst_status status = json_read(text, nbytes, nodes, err);
    if (status == PST_OK && !take_all(&r, &nodes[0], all))
        status = err->status;
    free(nodes);
    return status;
}

enum pst_status view_transforms_read(const char *path, struct view_transforms **out,
                                     struct pst_error *err)
{
    void *text = NULL;
    size_t nbytes;
    *out = calloc(1, sizeof **out);
    enum pst_status status =
        *out == NULL ? cli_error(err, PST_ERROR_MEMORY, "out of memory for the operations")
                     : cli_read_file(path, &text, &nbytes, err);
    if (status == PST_OK && nbytes > FILE_NBYTES_MAX)
        status =
            cli_error(err, PST_ERROR_ARGUMENT, "%zu bytes: a file of operations has at most %d",
                      nbytes, FILE_NBYTES_MAX);
    if (status == PST_OK)
        status = view_transforms_parse(text, nbytes, *out, err);
    if (status != PST_OK) {
        free(*out);
        *out = NULL;
        snprintf(err->file, sizeof err->file, "%s", path);
    }
    free(text);
    return status;
}
