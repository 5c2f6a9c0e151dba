/* sound_effects.c - noise, decibels, logarithms and half precision, all in place.
 *
 * One thread for each run; pure functions of their arguments. Normal numbers for noise come from
 * the C library, so their last bits may differ between machines. */
#include "sound/sound_int.h"

#include "base/bits.h"
#include "base/numbers/logarithm.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

#define CHANNEL_TRIES ((uint32_t)1 << 26)

/* Makes four normal numbers of mean 0 and variance 1 from four random words. */
static void normal4(const uint32_t r[4], float out[4])
{
    for (int i = 0; i < 4; i += 2) {
        float radius = sqrtf(-2 * logf(1 - psti_uniform01(r[i]))); /* never log(0) */
        float angle = 6.28318530717958648f * psti_uniform01(r[i + 1]);
        out[i] = radius * cosf(angle);
        out[i + 1] = radius * sinf(angle);
    }
}

static void noise4(const struct psti_sound_draw *draw, uint32_t number, uint32_t channel, size_t k,
                   float out[4])
{
    uint32_t r[4];
    psti_sound_numbers(draw, number, 1 + channel * CHANNEL_TRIES + (uint32_t)k, r);
    normal4(r, out);
}

void psti_sound_add_noise(const struct psti_sound_op *op, const struct psti_sound_draw *draw,
                          const struct psti_sound_step *step, uint32_t channel, float *plane)
{
    size_t n = (size_t)step->out.n;
    double signal = 0, noise = 0;
    float four[4];
    for (size_t i = 0; i < n; i++)
        signal += (double)plane[i] * plane[i];
    for (size_t i = 0; i < n; i += 4) {
        noise4(draw, op->number, channel, i / 4, four);
        for (size_t k = 0; k < 4 && i + k < n; k++)
            noise += (double)four[k] * four[k];
    }
    if (!(signal > 0) || !(noise > 0))
        return;
    float scale = (float)sqrt(signal / noise / pow(10, step->value / 10));
    for (size_t i = 0; i < n; i += 4) {
        noise4(draw, op->number, channel, i / 4, four);
        for (size_t k = 0; k < 4 && i + k < n; k++)
            plane[i + k] += scale * four[k];
    }
}

void psti_sound_to_decibel(const struct psti_sound_kernels *kernels, const struct pst_audio_op *op,
                           float *values, size_t n)
{
    float largest = kernels->decibels(values, n, op->amin, op->multiplier, psti_sound_offset(op));
    if (!(op->top_db >= 0))
        return;
    float least = psti_sound_least(op, largest);
    for (size_t i = 0; i < n; i++)
        values[i] = values[i] > least ? values[i] : least;
}

float psti_sound_offset(const struct pst_audio_op *op)
{
    float ref = op->ref > op->amin ? op->ref : op->amin;
    psti_sound_kernels_c.logs(&ref, 1, 0, PSTI_LOG10_OF_E);
    return op->multiplier * ref;
}

/* + 0 turns -0 into 0: which zero is the largest number depends on the order of comparisons. */
float psti_sound_least(const struct pst_audio_op *op, float largest)
{
    return largest - op->top_db + 0.0f;
}

/* Rounds to the nearest half-precision number, ties to even. */
static uint16_t f16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x47800000) /* magnitudes from 65536 on, infinity and NaN */
        return (uint16_t)(sign | 0x7c00 | (magnitude > 0x7f800000 ? 0x0200 : 0));
    if (magnitude < 0x38800000) { /* magnitudes below 2^-14 become multiples of 2^-24 */
        float scaled = 0;
        memcpy(&scaled, &magnitude, sizeof scaled);
        scaled += 0.5f; /* the sum's last bit is 2^-24, so the addition rounds */
        memcpy(&magnitude, &scaled, sizeof magnitude);
        return (uint16_t)(sign | (magnitude - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
}

void psti_sound_to_f16(const float *from, size_t n, void *to)
{
    for (size_t i = 0; i < n; i++)
        psti_store_u16((char *)to + 2 * i, f16_of(from[i]));
}
