/* sound_filters.c - makes the tables of a chain: resamplers, windows, mel bands, cosines.
 *
 * In: checked operations. Out: tables, computed in double and stored as floats. Definitions are
 * those of torchaudio (functional.resample with sinc_interp_hann, melscale_fbanks, create_dct) and
 * torch (hann_window, hamming_window, blackman_window, periodic). Any thread. */
#include "sound/sound_int.h"

#include "base/alloc.h"
#include "base/bits.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

static uint32_t common_factor(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Returns half the length of the impulse response, in samples of the source. */
static double half_length(const struct psti_sound_filter *filter)
{
    uint32_t lower = filter->n_old < filter->n_new ? filter->n_old : filter->n_new;
    return filter->width * (double)filter->n_old / (lower * (double)filter->rolloff);
}

bool psti_sound_filter_plan(uint32_t old_rate, uint32_t new_rate, const struct pst_audio_op *op,
                            struct psti_sound_filter *filter)
{
    uint32_t factor = common_factor(old_rate, new_rate);
    *filter = (struct psti_sound_filter){.n_old = old_rate / factor,
                                         .n_new = new_rate / factor,
                                         .width = op->filter_width,
                                         .rolloff = op->rolloff};
    double half = half_length(filter);
    if (half > 1e6)
        return false;
    filter->reach = (uint32_t)half + 2;
    filter->taps = (uint32_t)psti_round_up((size_t)(2 * half) + 1, PSTI_SOUND_LANES);
    return psti_sound_filter_nbytes(filter) <= PSTI_SOUND_TABLE_NBYTES_MAX;
}

size_t psti_sound_filter_nbytes(const struct psti_sound_filter *filter)
{
    return (size_t)filter->n_new *
           (sizeof *filter->starts + filter->taps * sizeof *filter->weights);
}

enum pst_status psti_sound_filter_make(struct psti_sound_filter *filter, struct pst_error *err)
{
    uint32_t lower = filter->n_old < filter->n_new ? filter->n_old : filter->n_new;
    double base = lower * (double)filter->rolloff, half = half_length(filter);
    filter->starts = psti_calloc(filter->n_new, sizeof *filter->starts);
    filter->weights = psti_calloc((size_t)filter->n_new * filter->taps, sizeof *filter->weights);
    if (!filter->starts || !filter->weights) {
        psti_sound_filter_free(filter);
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_ROOM, "no memory for a resampler");
    }
    for (uint32_t p = 0; p < filter->n_new; p++) {
        double place = (double)p * filter->n_old / filter->n_new;
        int32_t start = filter->starts[p] = (int32_t)ceil(place - half);
        float *weights = filter->weights + (size_t)p * filter->taps;
        for (uint32_t k = 0; k < filter->taps && start + (double)k <= place + half; k++) {
            double t = ((start + (double)k) / filter->n_old - (double)p / filter->n_new) * base;
            t = t < -(double)filter->width ? -(double)filter->width : t;
            t = t > filter->width ? filter->width : t;
            double window = cos(t * PI / filter->width / 2), x = t * PI;
            weights[k] =
                (float)((x == 0 ? 1 : sin(x) / x) * window * window * base / filter->n_old);
        }
    }
    return PST_OK;
}

void psti_sound_filter_free(struct psti_sound_filter *filter)
{
    psti_free(filter->starts);
    psti_free(filter->weights);
    memset(filter, 0, sizeof *filter);
}

static double window_at(enum pst_audio_window window, double turns)
{
    switch (window) {
    case PST_AUDIO_WINDOW_HANN:
        return 0.5 - 0.5 * cos(2 * PI * turns);
    case PST_AUDIO_WINDOW_HAMMING:
        return 0.54 - 0.46 * cos(2 * PI * turns);
    case PST_AUDIO_WINDOW_BLACKMAN:
        return 0.42 - 0.5 * cos(2 * PI * turns) + 0.08 * cos(4 * PI * turns);
    default:
        return 1;
    }
}

enum pst_status psti_sound_make_window(struct psti_sound_op *op, struct pst_error *err)
{
    const struct pst_audio_op *o = &op->op;
    uint32_t left = (o->n_fft - o->win_length) / 2;
    double squares = 0, factor = 1;
    op->window = psti_calloc(o->n_fft, sizeof *op->window);
    if (!op->window)
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_ROOM, "no memory for a window");
    for (uint32_t i = 0; i < o->win_length; i++) {
        double v = window_at(o->window, (double)i / o->win_length);
        squares += v * v;
    }
    if (o->normalized == PST_AUDIO_NORMALIZED_WINDOW)
        factor = 1 / sqrt(squares);
    else if (o->normalized == PST_AUDIO_NORMALIZED_FRAME_LENGTH)
        factor = 1 / sqrt((double)o->n_fft);
    for (uint32_t i = 0; i < o->win_length; i++)
        op->window[left + i] = (float)(factor * window_at(o->window, (double)i / o->win_length));
    return PST_OK;
}

static double to_mel(double hz, enum pst_audio_mel_scale scale)
{
    if (scale == PST_AUDIO_MEL_HTK)
        return 2595 * log10(1 + hz / 700);
    return hz >= 1000 ? 15 + log(hz / 1000) / (log(6.4) / 27) : hz * 3 / 200;
}

static double to_hz(double mel, enum pst_audio_mel_scale scale)
{
    if (scale == PST_AUDIO_MEL_HTK)
        return 700 * (pow(10, mel / 2595) - 1);
    return mel >= 15 ? 1000 * exp(log(6.4) / 27 * (mel - 15)) : mel * 200 / 3;
}

/* Returns torch.linspace(low, high, n)[i] in float32. */
static float spaced(float low, float high, uint32_t n, uint32_t i)
{
    float step = (high - low) / (float)(n - 1);
    return i < n / 2 ? low + step * (float)i : high - step * (float)(n - 1 - i);
}

/* Returns the weight of a bin at `hz` in the triangle that rises from edges[0] to edges[1] and
 * falls to edges[2]. */
static float triangle(float hz, const float edges[3])
{
    if (!(edges[0] < edges[1] && edges[1] < edges[2]))
        return 0; /* the triangle is narrower than float precision */
    float up = (hz - edges[0]) / (edges[1] - edges[0]);
    float down = (edges[2] - hz) / (edges[2] - edges[1]);
    float least = up < down ? up : down;
    return least > 0 ? least : 0;
}

/* Everything is computed in float32 and in torchaudio's order: where a triangle barely touches a
 * bin, rounding determines the bin's weight, and a logarithm would make the difference visible. */
enum pst_status psti_sound_make_bands(struct psti_sound_op *op, uint32_t n_bins,
                                      struct pst_error *err)
{
    const struct pst_audio_op *o = &op->op;
    struct psti_sound_bands *bands = &op->bands;
    float low = (float)to_mel(o->f_min, o->mel_scale), high = (float)to_mel(o->f_max, o->mel_scale);
    float top = (float)(o->rate / 2); /* half the rate in whole hertz, as in torchaudio */
    bands->n_bands = o->n_mels;
    bands->bands = psti_calloc(o->n_mels, sizeof *bands->bands);
    bands->weights = psti_calloc((size_t)n_bins * 2 + o->n_mels, sizeof *bands->weights);
    if (!bands->bands || !bands->weights)
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_ROOM, "no memory for mel bands");
    uint32_t n_weights = 0;
    for (uint32_t m = 0; m < o->n_mels; m++) {
        float edges[3];
        for (uint32_t i = 0; i < 3; i++)
            edges[i] = (float)to_hz(spaced(low, high, o->n_mels + 2, m + i), o->mel_scale);
        float factor = o->mel_norm == PST_AUDIO_MEL_NORM_SLANEY ? 2 / (edges[2] - edges[0]) : 1;
        struct psti_sound_band *band = &bands->bands[m];
        band->at = n_weights;
        for (uint32_t k = 0; k < n_bins; k++) {
            float weight = triangle(spaced(0, top, n_bins, k), edges);
            if (weight <= 0 || n_weights == 2 * n_bins + o->n_mels)
                continue;
            band->begin = band->end == 0 ? k : band->begin;
            band->end = k + 1;
            bands->weights[n_weights++] = weight * factor;
        }
    }
    return PST_OK;
}

enum pst_status psti_sound_make_dct(struct psti_sound_op *op, uint32_t n_bins,
                                    struct pst_error *err)
{
    const struct pst_audio_op *o = &op->op;
    op->dct = psti_calloc((size_t)o->n_mfcc * n_bins, sizeof *op->dct);
    if (!op->dct)
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_ROOM, "no memory for cosines");
    for (uint32_t j = 0; j < o->n_mfcc; j++) {
        double factor = o->no_ortho ? 2 : sqrt((j == 0 ? 1.0 : 2.0) / n_bins);
        for (uint32_t i = 0; i < n_bins; i++)
            op->dct[(size_t)j * n_bins + i] = (float)(factor * cos(PI / n_bins * (i + 0.5) * j));
    }
    return PST_OK;
}

void psti_sound_free_op(struct psti_sound_op *op)
{
    psti_free(op->window);
    psti_free(op->fft);
    psti_free(op->bands.bands);
    psti_free(op->bands.weights);
    psti_free(op->dct);
}
