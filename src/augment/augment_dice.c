/* augment_dice.c - the random numbers of an operation: the four numbers of a try, or a sequence of
 * uniform, normal or gamma-distributed numbers.
 *
 * In: a stream, defined in augment_draw.c. Out: numbers, which are the same on every machine. A
 * struct psti_dice (the state of a sequence) belongs to one thread. */
#include "augment/augment_int.h"

#include "base/numbers/logarithm.h"
#include "base/philox.h"

#include <math.h>

enum { OWN_SHIFT = 8 };

void psti_augment_numbers(const struct psti_number_stream *stream, uint32_t try, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)stream->sample, (uint32_t)(stream->sample >> 32),
                                 stream->number, try};
    psti_philox4x32_10(counter, stream->key, out);
}

struct psti_number_stream psti_augment_stream(const struct psti_chain *chain,
                                              const struct psti_draw *draw, uint32_t i_op)
{
    uint64_t key = draw->opaque[PSTI_DRAW_KEY];
    return (struct psti_number_stream){
        .key = {psti_augment_draw_low(key), psti_augment_draw_high(key)},
        .sample = draw->opaque[PSTI_DRAW_SAMPLE],
        .number = chain->numbers[i_op] | (uint32_t)draw->opaque[PSTI_DRAW_OWN] << OWN_SHIFT,
    };
}

uint32_t psti_augment_dice_roll(struct psti_dice *dice)
{
    if (dice->left == 0) {
        psti_augment_numbers(&dice->stream, dice->try++, dice->r);
        dice->left = 4;
    }
    return dice->r[--dice->left];
}

/* Returns a uniform random number above 0 and below 1. */
static double roll_open(struct psti_dice *dice)
{
    return ((double)psti_augment_dice_roll(dice) + 0.5) * 0x1p-32;
}

/* Returns a normally distributed random number (Box-Muller method). */
static double roll_normal(struct psti_dice *dice)
{
    double sine, cosine, radius = sqrt(-2 * psti_logarithm(roll_open(dice)));
    psti_augment_sincos(360 * roll_open(dice), &sine, &cosine);
    return radius * cosine;
}

/* Returns a gamma-distributed random number, by the method of Marsaglia and Tsang (2000). The
 * method gives up after many tries, which happens less often than once in 2^100 samples. */
double psti_augment_dice_gamma(struct psti_dice *dice, double shape)
{
    double boost = 1;
    if (shape < 1) {
        boost = psti_augment_exp(psti_logarithm(roll_open(dice)) / shape);
        shape += 1;
    }
    double d = shape - 1.0 / 3.0, c = 1 / sqrt(9 * d), v = 1;
    for (int i = 0; i < 64; i++) {
        double x = roll_normal(dice), base = 1 + c * x;
        v = base * base * base;
        double u = roll_open(dice);
        if (base > 0 && psti_logarithm(u) < 0.5 * x * x + d - d * v + d * psti_logarithm(v))
            break;
        v = 1;
    }
    return d * v * boost;
}
