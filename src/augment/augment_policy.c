/* augment_policy.c - RandAugment, TrivialAugment, AutoAugment and AugMix: random numbers choose
 * operations for each sample, which become steps.
 *
 * In: an operation and its stream of random numbers. Out: steps; augment_augmix.c runs the steps of
 * AugMix and mixes the results. Pure functions, any thread. Sources: RandAugment (Cubuk et al.,
 * arXiv 1909.13719), TrivialAugment "wide" (Mueller and Hutter, arXiv 2103.10158), AutoAugment with
 * its three published tables (Cubuk et al., arXiv 1805.09501), AugMix (Hendrycks et al., arXiv
 * 1912.02781). Ranges of parameters and the order of choices are those of torchvision. Random
 * numbers are used as follows (tries: see augment_draw.c):
 *
 *     RandAugment        try 0: [0] operation, [1] sign
 *     TrivialAugment     try 0: [0] operation, [1] sign, [2] magnitude
 *     AutoAugment        try 0: [0] pair; try 1 and 2: [0] whether operation 1, 2 runs, [1] sign
 *     AugMix             a sequence of numbers, by struct psti_dice */
#include "augment/augment_int.h"

#include "base/philox.h"

#include <math.h>

enum name {
    IDENTITY,
    SHEAR_X,
    SHEAR_Y,
    TRANSLATE_X,
    TRANSLATE_Y,
    ROTATE,
    BRIGHTNESS,
    COLOR,
    CONTRAST,
    SHARPNESS,
    POSTERIZE,
    SOLARIZE,
    AUTOCONTRAST,
    EQUALIZE,
    INVERT
};

/* The ranges of the operations' parameters: their values at the highest magnitude. */
struct space {
    double shear;              /* shear as a tangent */
    double shift_share, shift; /* translation: share of the side, and pixels */
    double degrees, factor;    /* angle; factors go from 1 - factor to 1 + factor */
    int bits, bits_less;       /* bits that posterize keeps at magnitude 0; fewer at the top */
};
static const struct space usual = {0.3, 150.0 / 331.0, 0, 30, 0.9, 8, 4};
static const struct space wide = {0.99, 0, 32, 135, 0.99, 8, 6};
static const struct space augmix = {0.3, 1.0 / 3.0, 0, 30, 0.9, 4, 4};

/* Rounds to the nearest integer, and a half to the even integer. */
static int round_even(double v) { return (int)rint(v); }

static void set_warp(const struct pst_op *op, struct psti_step *step, const struct psti_affine *map)
{
    step->kind = PSTI_STEP_WARP;
    step->warp.interpolation = op->interpolation;
    psti_augment_warp_affine(&step->warp, map);
}

/* Returns the angle in degrees of a tangent, |tangent| <= 1. Halves the angle twice, then sums the
 * arctangent series. */
static double degrees_of(double tangent)
{
    double t = tangent, sum = 0;
    for (int i = 0; i < 2; i++)
        t = t / (1 + sqrt(1 + t * t));
    for (int n = 27; n >= 1; n -= 2)
        sum = 1.0 / n - sum * t * t;
    return 4 * sum * t * (180 / 3.14159265358979323846);
}

/* Sets the step of a geometric operation. Translations are truncated to whole pixels. Shears keep
 * the top left corner in its place. */
static void set_geometry(const struct pst_op *op, const struct space *space, enum name name,
                         double level, struct psti_step *step)
{
    struct psti_affine map = {.scale = 1};
    bool corner = name == SHEAR_X || name == SHEAR_Y;
    if (corner) {
        map.center_x = step->width * -0.5;
        map.center_y = step->height * -0.5;
    }
    switch (name) {
    case SHEAR_X:
        map.tan_x = space->shear * level;
        break;
    case SHEAR_Y:
        map.degrees_y = degrees_of(space->shear * level);
        break;
    case TRANSLATE_X:
        map.x = trunc((space->shift_share * step->width + space->shift) * level);
        break;
    case TRANSLATE_Y:
        map.y = trunc((space->shift_share * step->height + space->shift) * level);
        break;
    default:
        map.degrees = -space->degrees * level;
        break;
    }
    set_warp(op, step, &map);
}

static void set_factor(struct psti_step *step, enum name name, double factor)
{
    static const float leave[4] = {1, 1, 1, 0};
    step->kind = name == SHARPNESS ? PSTI_STEP_SHARPEN : PSTI_STEP_JITTER;
    memcpy(step->factors, leave, sizeof leave);
    int i = name == BRIGHTNESS ? 0 : name == CONTRAST ? 1 : name == COLOR ? 2 : 0;
    step->factors[i] = (float)factor;
}

/* Sets the step of an operation with magnitude `i` of n. `negative` is used only by operations that
 * have a sign. The caller has set the size of the step. Returns false if the step would change
 * nothing. */
static bool set_step(const struct pst_op *op, const struct space *space, enum name name, uint32_t i,
                     uint32_t n, bool negative, struct psti_step *step)
{
    double part = (double)i / (n - 1), level = negative ? -part : part;
    switch (name) {
    case IDENTITY:
        return false;
    case SHEAR_X:
    case SHEAR_Y:
    case TRANSLATE_X:
    case TRANSLATE_Y:
    case ROTATE:
        set_geometry(op, space, name, level, step);
        return i > 0;
    case BRIGHTNESS:
    case COLOR:
    case CONTRAST:
    case SHARPNESS:
        set_factor(step, name, 1 + space->factor * level);
        return i > 0;
    case POSTERIZE:
        step->kind = PSTI_STEP_POSTERIZE;
        step->order = (uint32_t)(space->bits - round_even(part * space->bits_less));
        return true;
    case SOLARIZE:
        step->kind = PSTI_STEP_SOLARIZE;
        step->factors[0] = (float)(255 * (1 - part));
        return true;
    case AUTOCONTRAST:
        step->kind = PSTI_STEP_AUTOCONTRAST;
        return true;
    case EQUALIZE:
        step->kind = PSTI_STEP_EQUALIZE;
        return true;
    case INVERT:
        step->kind = PSTI_STEP_INVERT;
        return true;
    }
    return false;
}

/* One of the two operations of an AutoAugment pair. It runs with the probability tenths / 10. */
struct rule {
    unsigned char name, tenths, magnitude;
};
enum { N_PAIRS = 25, AUTO_MAGNITUDES = 10 };
static const struct rule auto_pairs[3][N_PAIRS][2] = {
    [PST_AUTO_POLICY_IMAGENET] =
        {
            {{POSTERIZE, 4, 8}, {ROTATE, 6, 9}},  {{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}},
            {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}}, {{POSTERIZE, 6, 7}, {POSTERIZE, 6, 6}},
            {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}, {{EQUALIZE, 4, 0}, {ROTATE, 8, 8}},
            {{SOLARIZE, 6, 3}, {EQUALIZE, 6, 0}}, {{POSTERIZE, 8, 5}, {EQUALIZE, 10, 0}},
            {{ROTATE, 2, 3}, {SOLARIZE, 6, 8}},   {{EQUALIZE, 6, 0}, {POSTERIZE, 4, 6}},
            {{ROTATE, 8, 8}, {COLOR, 4, 0}},      {{ROTATE, 4, 9}, {EQUALIZE, 6, 0}},
            {{EQUALIZE, 0, 0}, {EQUALIZE, 8, 0}}, {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},
            {{COLOR, 6, 4}, {CONTRAST, 10, 8}},   {{ROTATE, 8, 8}, {COLOR, 10, 2}},
            {{COLOR, 8, 8}, {SOLARIZE, 8, 7}},    {{SHARPNESS, 4, 7}, {INVERT, 6, 0}},
            {{SHEAR_X, 6, 5}, {EQUALIZE, 10, 0}}, {{COLOR, 4, 0}, {EQUALIZE, 6, 0}},
            {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}, {{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}},
            {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},  {{COLOR, 6, 4}, {CONTRAST, 10, 8}},
            {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}},
        },
    [PST_AUTO_POLICY_CIFAR10] =
        {
            {{INVERT, 1, 0}, {CONTRAST, 2, 6}},          {{ROTATE, 7, 2}, {TRANSLATE_X, 3, 9}},
            {{SHARPNESS, 8, 1}, {SHARPNESS, 9, 3}},      {{SHEAR_Y, 5, 8}, {TRANSLATE_Y, 7, 9}},
            {{AUTOCONTRAST, 5, 0}, {EQUALIZE, 9, 0}},    {{SHEAR_Y, 2, 7}, {POSTERIZE, 3, 7}},
            {{COLOR, 4, 3}, {BRIGHTNESS, 6, 7}},         {{SHARPNESS, 3, 9}, {BRIGHTNESS, 7, 9}},
            {{EQUALIZE, 6, 0}, {EQUALIZE, 5, 0}},        {{CONTRAST, 6, 7}, {SHARPNESS, 6, 5}},
            {{COLOR, 7, 7}, {TRANSLATE_X, 5, 8}},        {{EQUALIZE, 3, 0}, {AUTOCONTRAST, 4, 0}},
            {{TRANSLATE_Y, 4, 3}, {SHARPNESS, 2, 6}},    {{BRIGHTNESS, 9, 6}, {COLOR, 2, 8}},
            {{SOLARIZE, 5, 2}, {INVERT, 0, 0}},          {{EQUALIZE, 2, 0}, {AUTOCONTRAST, 6, 0}},
            {{EQUALIZE, 2, 0}, {EQUALIZE, 6, 0}},        {{COLOR, 9, 9}, {EQUALIZE, 6, 0}},
            {{AUTOCONTRAST, 8, 0}, {SOLARIZE, 2, 8}},    {{BRIGHTNESS, 1, 3}, {COLOR, 7, 0}},
            {{SOLARIZE, 4, 5}, {AUTOCONTRAST, 9, 0}},    {{TRANSLATE_Y, 9, 9}, {TRANSLATE_Y, 7, 9}},
            {{AUTOCONTRAST, 9, 0}, {SOLARIZE, 8, 3}},    {{EQUALIZE, 8, 0}, {INVERT, 1, 0}},
            {{TRANSLATE_Y, 7, 9}, {AUTOCONTRAST, 9, 0}},
        },
    [PST_AUTO_POLICY_SVHN] =
        {
            {{SHEAR_X, 9, 4}, {INVERT, 2, 0}},       {{SHEAR_Y, 9, 8}, {INVERT, 7, 0}},
            {{EQUALIZE, 6, 0}, {SOLARIZE, 6, 6}},    {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
            {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},      {{SHEAR_X, 9, 4}, {AUTOCONTRAST, 8, 0}},
            {{SHEAR_Y, 9, 8}, {INVERT, 4, 0}},       {{SHEAR_Y, 9, 5}, {SOLARIZE, 2, 6}},
            {{INVERT, 9, 0}, {AUTOCONTRAST, 8, 0}},  {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},
            {{SHEAR_X, 9, 4}, {SOLARIZE, 3, 3}},     {{SHEAR_Y, 8, 8}, {INVERT, 7, 0}},
            {{EQUALIZE, 9, 0}, {TRANSLATE_Y, 6, 6}}, {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
            {{CONTRAST, 3, 3}, {ROTATE, 8, 4}},      {{INVERT, 8, 0}, {TRANSLATE_Y, 0, 2}},
            {{SHEAR_Y, 7, 6}, {SOLARIZE, 4, 8}},     {{INVERT, 6, 0}, {ROTATE, 8, 4}},
            {{SHEAR_Y, 3, 7}, {TRANSLATE_X, 9, 3}},  {{SHEAR_X, 1, 6}, {INVERT, 6, 0}},
            {{SOLARIZE, 7, 2}, {TRANSLATE_Y, 6, 7}}, {{SHEAR_Y, 8, 4}, {INVERT, 8, 0}},
            {{SHEAR_X, 7, 9}, {TRANSLATE_Y, 8, 3}},  {{SHEAR_Y, 8, 5}, {AUTOCONTRAST, 7, 0}},
            {{SHEAR_X, 7, 2}, {INVERT, 1, 0}},
        },
};

/* Returns whether a magnitude is negative. The rule is torchvision's: a random number from 0 to 1
 * is at most 1/2. */
static bool is_negative(uint32_t random) { return random < 0x80000000u; }

static uint32_t auto_steps(const struct pst_op *op, const struct psti_number_stream *stream,
                           struct psti_step steps[PSTI_POLICY_MAX_STEPS])
{
    uint32_t r[4], n = 0;
    psti_augment_numbers(stream, 0, r);
    const struct rule *pair = auto_pairs[op->policy][psti_uniform_below(r[0], N_PAIRS)];
    for (uint32_t k = 0; k < 2; k++) {
        psti_augment_numbers(stream, 1 + k, r);
        if (psti_uniform01(r[0]) * 10 >= pair[k].tenths)
            continue;
        n += set_step(op, &usual, (enum name)pair[k].name, pair[k].magnitude, AUTO_MAGNITUDES,
                      is_negative(r[1]), &steps[n]);
    }
    return n;
}

uint32_t psti_augment_policy_steps(const struct pst_op *op, const struct psti_number_stream *stream,
                                   uint32_t height, uint32_t width, uint32_t i_op,
                                   struct psti_step steps[PSTI_POLICY_MAX_STEPS])
{
    uint32_t r[4];
    for (uint32_t k = 0; k < PSTI_POLICY_MAX_STEPS; k++)
        steps[k] = (struct psti_step){.height = height, .width = width, .i_op = i_op};
    if (op->kind == PST_OP_AUTO_AUGMENT)
        return auto_steps(op, stream, steps);
    if (op->kind == PST_OP_AUGMIX) {
        steps[0].kind = PSTI_STEP_AUGMIX;
        steps[0].stream = *stream;
        return 1;
    }
    bool trivial = op->kind == PST_OP_TRIVIAL_AUGMENT;
    psti_augment_numbers(stream, 0, r);
    enum name name = (enum name)psti_uniform_below(r[0], EQUALIZE + 1);
    uint32_t i = trivial ? psti_uniform_below(r[2], op->n_magnitudes) : op->magnitude;
    return set_step(op, trivial ? &wide : &usual, name, i, op->n_magnitudes, is_negative(r[1]),
                    &steps[0]);
}

bool psti_augment_augmix_step(struct psti_augmix *mix, struct psti_step *step)
{
    static const unsigned char names[] = {
        SHEAR_X,      SHEAR_Y,  TRANSLATE_X, TRANSLATE_Y, ROTATE,   POSTERIZE, SOLARIZE,
        AUTOCONTRAST, EQUALIZE, BRIGHTNESS,  COLOR,       CONTRAST, SHARPNESS};
    const struct pst_op *op = mix->op;
    struct psti_dice *dice = &mix->dice;
    enum name name =
        (enum name)names[psti_uniform_below(psti_augment_dice_roll(dice), op->all_ops ? 13 : 9)];
    uint32_t magnitude = psti_uniform_below(psti_augment_dice_roll(dice), op->magnitude);
    return set_step(op, &augmix, name, magnitude, AUTO_MAGNITUDES,
                    is_negative(psti_augment_dice_roll(dice)), step);
}
