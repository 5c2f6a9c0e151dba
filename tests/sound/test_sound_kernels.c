/* test_sound_kernels.c - compares FFTs and resampling with their definitions in double, and every
 * CPU level with plain C, bit-identically. */
#include "test.h"

#include "base/alloc.h"
#include "base/numbers/logarithm.h"
#include "base/machine/cpu.h"
#include "base/philox.h"
#include "sound/sound_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

static void fill(float *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t r[4];
        psti_random4(seed, 0, PSTI_RANDOM_AUGMENT, i, 0, 0, r);
        x[i] = 2 * psti_uniform01(r[0]) - 1;
    }
}

/* Returns the spectrogram of n_frames frames, computed with the kernels of one CPU level. The
 * caller frees it. */
static float *frames_by(const struct psti_sound_kernels *kernels, const float *wave, uint32_t n_fft,
                        uint32_t hop, uint64_t n_frames, uint32_t power)
{
    float *window = malloc(n_fft * sizeof *window);
    float *out = malloc((n_fft / 2 + 1) * n_frames * sizeof *out);
    void *fft = psti_alloc_aligned(64, kernels->fft_nbytes(n_fft));
    float *scratch = psti_alloc_aligned(64, kernels->frames_floats(n_fft) * sizeof *scratch);
    kernels->fft_init(n_fft, fft);
    for (uint32_t i = 0; i < n_fft; i++)
        window[i] = 0.25f + (float)i / (float)n_fft;
    const struct psti_sound_frames frames = {.fft = fft,
                                             .wave = wave,
                                             .window = window,
                                             .n_fft = n_fft,
                                             .hop = hop,
                                             .end = n_fft,
                                             .power = power,
                                             .n_frames = n_frames,
                                             .scratch = scratch,
                                             .out = out};
    kernels->frames(&frames);
    psti_free(fft);
    psti_free(scratch);
    free(window);
    return out;
}

/* Computes |sum of x w exp(-i ...)|^2 for one frame and bin. */
static double bin_by_definition(const float *frame, uint32_t n_fft, uint32_t bin)
{
    double re = 0, im = 0;
    for (uint32_t i = 0; i < n_fft; i++) {
        double v = frame[i] * (0.25 + (double)i / n_fft);
        double angle = 2 * PI * (double)((uint64_t)bin * i % n_fft) / n_fft;
        re += v * cos(angle);
        im -= v * sin(angle);
    }
    return re * re + im * im;
}

static void check_size(uint32_t n_fft)
{
    enum { FRAMES = 11, HOP = 5 };
    size_t n = n_fft + HOP * FRAMES;
    float *wave = malloc(n * sizeof *wave);
    fill(wave, n, n_fft);
    float *power = frames_by(&psti_sound_kernels_c, wave, n_fft, HOP, FRAMES, 2);
    float *magnitude = frames_by(&psti_sound_kernels_c, wave, n_fft, HOP, FRAMES, 1);
    const struct psti_sound_kernels *best = psti_sound_kernels_for(psti_cpu_features());
    float *other = frames_by(best, wave, n_fft, HOP, FRAMES, 2);
    size_t n_values = (n_fft / 2 + 1) * (size_t)FRAMES;
    assert_memory_equal(power, other, n_values * sizeof *power);
    for (uint32_t k = 0; k <= n_fft / 2; k += 1 + n_fft / 40)
        for (uint32_t t = 0; t < FRAMES; t += 5) {
            double wanted = bin_by_definition(wave + (size_t)t * HOP, n_fft, k);
            double found = power[k * (size_t)FRAMES + t], scale = (double)n_fft;
            assert_true(fabs(found - wanted) <= 1e-5 * (wanted + scale));
            assert_true(fabs(magnitude[k * (size_t)FRAMES + t] - sqrt(wanted)) <=
                        1e-5 * sqrt(scale) * 10);
        }
    free(wave);
    free(power);
    free(magnitude);
    free(other);
}

static void sizes_of_ffts(void **state)
{
    static const uint32_t sizes[] = {2,   3,   4,   5,   6,   7,   8,   9,    10,   12,   13,  15,
                                     16,  25,  26,  32,  49,  64,  77,  100,  121,  169,  225, 256,
                                     320, 375, 400, 441, 480, 512, 640, 1000, 1024, 1200, 2048};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_size(sizes[i]);
}

/* Computes torchaudio's sum over its whole kernel, for one output. */
static double resampled_by_definition(const float *x, int64_t n, uint32_t from, uint32_t to,
                                      int64_t place)
{
    double base = (from < to ? from : to) * 0.99, sum = 0;
    int64_t width = (int64_t)ceil(6 * from / base), first = place / to * from - width;
    for (int64_t k = 0; k < 2 * width + from; k++) {
        double t = (-(double)(place % to) / to + (double)(k - width) / from) * base;
        t = t < -6 ? -6 : t > 6 ? 6 : t;
        double window = cos(t * PI / 12) * cos(t * PI / 12);
        double sinc = t == 0 ? 1 : sin(t * PI) / (t * PI);
        if (first + k >= 0 && first + k < n)
            sum += x[first + k] * sinc * window * base / from;
    }
    return sum;
}

static void resamplers(void **state)
{
    static const uint32_t rates[][2] = {{44100, 8000}, {8000, 44100}, {48000, 44100}, {2, 1},
                                        {1, 2},        {3, 2},        {16000, 16001}, {100, 3}};
    enum { N = 2000, MARGIN = 1024 };
    (void)state;
    struct pst_error err;
    struct pst_audio_op op;
    pst_audio_op_init(&op, sizeof op, PST_AUDIO_OP_RESAMPLE);
    const struct psti_sound_kernels *best = psti_sound_kernels_for(psti_cpu_features());
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        static float x[N + 2 * MARGIN], out[2][6 * N];
        struct psti_sound_filter filter;
        assert_true(psti_sound_filter_plan(rates[i][0], rates[i][1], &op, &filter));
        assert_true(filter.taps + filter.reach < MARGIN);
        assert_ok(psti_sound_filter_make(&filter, &err));
        memset(x, 0, sizeof x);
        fill(x + MARGIN, N, i);
        size_t n = (size_t)N * filter.n_new / filter.n_old;
        psti_sound_kernels_c.resample(&filter, x + MARGIN, 0, 0, n, out[0]);
        best->resample(&filter, x + MARGIN, 0, 0, n, out[1]);
        assert_memory_equal(out[0], out[1], n * sizeof out[0][0]);
        for (size_t j = 0; j < n; j += 1 + n / 300)
            assert_true(fabs(out[0][j] - resampled_by_definition(x + MARGIN, N, filter.n_old,
                                                                 filter.n_new, (int64_t)j)) < 3e-6);
        /* Outputs from the middle on, of a source that begins in the middle. */
        size_t half = n / 2 > 3 ? n / 2 - 3 : 0;
        psti_sound_kernels_c.resample(&filter, x + MARGIN + 7, 7, half, n - half, out[1]);
        assert_memory_equal(out[0] + half, out[1], (n - half) * sizeof out[0][0]);
        psti_sound_filter_free(&filter);
    }
}

/* Returns factor * log(x) as the kernels define it. */
static float log_by_definition(float x, double factor)
{
    if (!(x > 0) || isinf(x))
        return x == 0 ? -INFINITY : x > 0 ? x : NAN;
    return (float)(psti_logarithm(x) * factor);
}

/* NaNs have several bit patterns. */
static void assert_same_number(float a, float b)
{
    assert_true(memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)));
}

/* Subnormal, negative and infinite numbers, NaN, and numbers of every size; all lengths of the last
 * vector. */
static void logarithms(void **state)
{
    enum { N = 3000 };
    static float values[N], own[N], other[N];
    const struct psti_sound_kernels *best = psti_sound_kernels_for(psti_cpu_features());
    (void)state;
    fill(values, N, 5);
    for (int i = 0; i < N; i++)
        values[i] = ldexpf(values[i] + 1, i % 300 - 160);
    const float odd[] = {0, -0.0f, -1, 1, INFINITY, -INFINITY, NAN, 0x1p-149f, 0x1p-126f, 10, 100};
    memcpy(values, odd, sizeof odd);
    for (size_t n = 1; n < N; n += n < 40 ? 1 : 977) {
        for (int way = 0; way < 3; way++) {
            const double factor = way == 0 ? 1 : PSTI_LOG10_OF_E;
            const float amin = 1e-10f;
            float largest[2] = {0, 0};
            memcpy(own, values, sizeof own);
            memcpy(other, values, sizeof other);
            if (way < 2) {
                psti_sound_kernels_c.logs(own, n, 0, factor);
                best->logs(other, n, 0, factor);
            } else {
                largest[0] = psti_sound_kernels_c.decibels(own, n, amin, 20, -3);
                largest[1] = best->decibels(other, n, amin, 20, -3);
            }
            assert_same_number(largest[0], largest[1]);
            for (size_t i = 0; i < N; i++) {
                float x = values[i] > amin || way < 2 ? values[i] : amin;
                float wanted = i < n ? log_by_definition(x, factor) : values[i];
                wanted = way == 2 && i < n ? 20 * wanted + 3 : wanted;
                assert_same_number(own[i], wanted);
                assert_same_number(other[i], wanted);
            }
        }
    }
    float ten = 10;
    best->logs(&ten, 1, 0, PSTI_LOG10_OF_E);
    assert_true(ten == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_of_ffts),
                                       cmocka_unit_test(resamplers), cmocka_unit_test(logarithms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
