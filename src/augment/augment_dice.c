/* augment_dice.c - random numbers one after another, uniform, normal and of the gamma distribution.
 *
 * In: a stream. Out: numbers, which are the same on every machine. A struct psti_dice belongs to
 * one thread. */
#include "augment/augment_int.h"

#include <math.h>

uint32_t psti_augment_dice_roll(struct psti_dice *dice)
{
    if (dice->left == 0) {
        psti_augment_numbers(&dice->stream, dice->try++, dice->r);
        dice->left = 4;
    }
    return dice->r[--dice->left];
}

/* Within 0 to 1, neither of both. */
static double roll_open(struct psti_dice *dice)
{
    return ((double)psti_augment_dice_roll(dice) + 0.5) * 0x1p-32;
}

/* By Box and Muller. */
static double roll_normal(struct psti_dice *dice)
{
    double sine, cosine, radius = sqrt(-2 * psti_augment_log(roll_open(dice)));
    psti_augment_sincos(360 * roll_open(dice), &sine, &cosine);
    return radius * cosine;
}

/* A number of the gamma distribution, by Marsaglia and Tsang (2000). It gives up after many tries,
 * which happens less often than once in 2^100 samples. */
double psti_augment_dice_gamma(struct psti_dice *dice, double shape)
{
    double boost = 1;
    if (shape < 1) {
        boost = psti_augment_exp(psti_augment_log(roll_open(dice)) / shape);
        shape += 1;
    }
    double d = shape - 1.0 / 3.0, c = 1 / sqrt(9 * d), v = 1;
    for (int i = 0; i < 64; i++) {
        double x = roll_normal(dice), base = 1 + c * x;
        v = base * base * base;
        double u = roll_open(dice);
        if (base > 0 && psti_augment_log(u) < 0.5 * x * x + d - d * v + d * psti_augment_log(v))
            break;
        v = 1;
    }
    return d * v * boost;
}
