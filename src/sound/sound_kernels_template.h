/* sound_kernels_template.h - the inner loops over vectors of eight floats, which the compiler
 * splits as the CPU needs. The including file defines NAME and LEVEL, and sets the CPU level. The
 * FFT is KISS FFT (third_party/kissfft) with such a vector as its number type, so one call
 * transforms eight frames. A real FFT of an even size is a complex FFT of half that size plus a
 * last step. */
#include "sound/sound_int.h"

#include "base/numbers/logarithm.h"

#include <math.h>
#include <string.h>

typedef float lanes8 __attribute__((vector_size(32)));

#define ALL(x) ((lanes8){x, x, x, x, x, x, x, x})

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wsign-compare"
#endif

/* KISS FFT's functions get a different name at each level. A constant is a vector with one number
 * in all lanes. */
#define kiss_fft_alloc LEVEL(psti_sound_fft_alloc)
#define kiss_fft LEVEL(psti_sound_fft)
#define kiss_fft_stride LEVEL(psti_sound_fft_stride)
#define kiss_fft_cleanup LEVEL(psti_sound_fft_cleanup)
#define kiss_fft_next_fast_size LEVEL(psti_sound_fft_next_fast_size)
#define kiss_fft_scalar lanes8
#define KISS_FFT_USE_ALLOCA
#include <kissfft/_kiss_fft_guts.h>
#undef KISS_FFT_COS
#undef KISS_FFT_SIN
#undef HALF_OF
#define KISS_FFT_COS(phase) ALL((float)cos(phase))
#define KISS_FFT_SIN(phase) ALL((float)sin(phase))
#define HALF_OF(x) ((x)*ALL(0.5f))
#include <kissfft/kiss_fft.c>

/* The tables are those of the complex FFT and, for an even n, the [n / 4] factors of the real FFT's
 * last step. */
static size_t cfg_nbytes(uint32_t n)
{
    size_t nbytes = 0;
    (void)kiss_fft_alloc((int)(n % 2 ? n : n / 2), 0, NULL, &nbytes);
    return (nbytes + 63) & ~(size_t)63;
}

static size_t fft_nbytes(uint32_t n)
{
    return cfg_nbytes(n) + (n % 2 ? 0 : (n / 4) * sizeof(kiss_fft_cpx));
}

static void fft_init(uint32_t n, void *tables)
{
    size_t nbytes = cfg_nbytes(n);
    (void)kiss_fft_alloc((int)(n % 2 ? n : n / 2), 0, tables, &nbytes);
    kiss_fft_cpx *last = (kiss_fft_cpx *)(void *)((char *)tables + cfg_nbytes(n));
    for (uint32_t i = 0; n % 2 == 0 && i < n / 4; i++)
        kf_cexp(&last[i], -3.14159265358979323846 * ((i + 1) / (n / 2.0) + 0.5));
}

static uint32_t fft_radices(const void *tables, uint32_t *radices)
{
    const struct kiss_fft_state *fft = tables;
    uint32_t n = 0;
    do
        radices[n] = (uint32_t)fft->factors[2 * n];
    while (fft->factors[2 * n++ + 1] > 1);
    return n;
}

static void fft_twiddles(const void *tables, uint32_t n, float *stages, float *last)
{
    const struct kiss_fft_state *fft = tables;
    const kiss_fft_cpx *of_last =
        (const kiss_fft_cpx *)(const void *)((const char *)tables + cfg_nbytes(n));
    for (int i = 0; i < fft->nfft; i++) {
        stages[2 * i] = fft->twiddles[i].r[0];
        stages[2 * i + 1] = fft->twiddles[i].i[0];
    }
    for (uint32_t i = 0; n % 2 == 0 && i < n / 4; i++) {
        last[2 * i] = of_last[i].r[0];
        last[2 * i + 1] = of_last[i].i[0];
    }
}

static size_t frames_floats(uint32_t n_fft)
{
    return (4 * (size_t)n_fft + n_fft / 2 + 1) * PSTI_SOUND_LANES;
}

/* Loads eight frames from frame t on, multiplied by the window, sample by sample. If there are
 * fewer frames, the last frame is repeated. */
static void gather(const struct psti_sound_frames *s, uint64_t t, lanes8 *in)
{
    const float *from[PSTI_SOUND_LANES];
    uint32_t step = s->n_fft % 2 ? 2 : 1; /* an FFT of odd size uses the complex FFT */
    for (uint32_t lane = 0; lane < PSTI_SOUND_LANES; lane++)
        from[lane] = s->wave + (t + lane < s->n_frames ? t + lane : s->n_frames - 1) * s->hop;
    for (uint32_t k = s->first; k < s->end; k++) {
        lanes8 v = {from[0][k], from[1][k], from[2][k], from[3][k],
                    from[4][k], from[5][k], from[6][k], from[7][k]};
        in[(size_t)k * step] = v * ALL(s->window[k]);
    }
}

static inline void measure(const kiss_fft_cpx *bin, uint32_t power, lanes8 *out)
{
    lanes8 v = bin->r * bin->r + bin->i * bin->i;
    for (int lane = 0; power == 1 && lane < PSTI_SOUND_LANES; lane++)
        v[lane] = sqrtf(v[lane]);
    *out = v;
}

/* Computes the bins of a real FFT of even size n from `z`, the result of a complex FFT of half that
 * size. */
static void measure_even(const kiss_fft_cpx *z, const kiss_fft_cpx *last, uint32_t n,
                         uint32_t power, lanes8 *out)
{
    uint32_t half = n / 2;
    kiss_fft_cpx bin = {z[0].r + z[0].i, ALL(0)};
    measure(&bin, power, &out[0]);
    bin.r = z[0].r - z[0].i;
    measure(&bin, power, &out[half]);
    for (uint32_t k = 1; k <= half / 2; k++) {
        kiss_fft_cpx a = z[k], b = {z[half - k].r, -z[half - k].i}, sum, difference, turned;
        C_ADD(sum, a, b);
        C_SUB(difference, a, b);
        C_MUL(turned, difference, last[k - 1]);
        bin.r = HALF_OF(sum.r + turned.r);
        bin.i = HALF_OF(sum.i + turned.i);
        measure(&bin, power, &out[k]);
        bin.r = HALF_OF(sum.r - turned.r);
        bin.i = HALF_OF(turned.i - sum.i);
        measure(&bin, power, &out[half - k]);
    }
}

static void store(const struct psti_sound_frames *s, const lanes8 *bins, uint64_t t)
{
    uint64_t left = s->n_frames - t;
    size_t nbytes = (left < PSTI_SOUND_LANES ? (size_t)left : PSTI_SOUND_LANES) * sizeof(float);
    uint32_t n_bins = s->n_fft / 2 + 1;
    for (uint32_t k = 0; !s->bands && k < n_bins; k++)
        memcpy(s->out + k * s->n_frames + t, &bins[k], nbytes);
    for (uint32_t m = 0; s->bands && m < s->n_bands; m++) {
        const struct psti_sound_band *band = &s->bands[m];
        const float *weights = s->band_weights + band->at;
        lanes8 sum = ALL(0);
        for (uint32_t k = band->begin; k < band->end; k++)
            sum += bins[k] * ALL(weights[k - band->begin]);
        memcpy(s->out + m * s->n_frames + t, &sum, nbytes);
    }
}

static void frames(const struct psti_sound_frames *s)
{
    uint32_t n = s->n_fft, n_complex = n % 2 ? n : n / 2;
    lanes8 *in = (lanes8 *)(void *)s->scratch, *out = in + 2 * (size_t)n,
           *bins = out + 2 * (size_t)n;
    const kiss_fft_cpx *last =
        (const kiss_fft_cpx *)(const void *)((const char *)s->fft + cfg_nbytes(n));
    memset(in, 0, 2 * (size_t)n * sizeof *in);
    for (uint64_t t = 0; t < s->n_frames; t += PSTI_SOUND_LANES) {
        kiss_fft_cpx *z = (kiss_fft_cpx *)(void *)out;
        gather(s, t, in);
        kiss_fft((kiss_fft_cfg)(uintptr_t)s->fft, (const kiss_fft_cpx *)(const void *)in, z);
        if (n % 2 == 0)
            measure_even(z, last, n, s->power, bins);
        for (uint32_t k = 0; n % 2 && k <= n_complex / 2; k++)
            measure(&z[k], s->power, &bins[k]);
        store(s, bins, t);
    }
}

static void resample(const struct psti_sound_filter *filter, const float *x, int64_t x_first,
                     uint64_t first, size_t n, float *out)
{
    uint32_t phase = (uint32_t)(first % filter->n_new), taps = filter->taps;
    const float *at = x + ((int64_t)(first / filter->n_new * filter->n_old) - x_first);
    for (size_t i = 0; i < n; i++) {
        const float *from = at + filter->starts[phase];
        const float *weights = filter->weights + (size_t)phase * taps;
        lanes8 sum = ALL(0);
        for (uint32_t k = 0; k < taps; k += PSTI_SOUND_LANES) {
            lanes8 v, w;
            memcpy(&v, from + k, sizeof v);
            memcpy(&w, weights + k, sizeof w);
            sum += v * w;
        }
        out[i] = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
        if (++phase == filter->n_new) {
            phase = 0;
            at += filter->n_old;
        }
    }
}

static void product(const float *matrix, uint32_t n_rows, uint32_t n_columns, const float *in,
                    size_t n_frames, float *out)
{
    memset(out, 0, n_rows * n_frames * sizeof *out);
    for (uint32_t j = 0; j < n_rows; j++, matrix += n_columns, out += n_frames)
        for (uint32_t i = 0; i < n_columns; i++)
            for (size_t t = 0; t < n_frames; t++)
                out[t] += matrix[i] * in[i * n_frames + t];
}

typedef double doubles8 __attribute__((vector_size(64)));
typedef int32_t integers8 __attribute__((vector_size(32)));

#define ALL_DOUBLES(x) ((doubles8){x, x, x, x, x, x, x, x})

/* Takes a where the mask's bits are set, else b. */
#define EITHER(mask, a, b) ((lanes8)(((mask) & (integers8)(a)) | (~(mask) & (integers8)(b))))

/* Replaces x by factor * log(x), with the operations of psti_logarithm(). */
__attribute__((always_inline)) static inline void log8(lanes8 *x, double factor)
{
    static const double terms[PSTI_LOG_N_TERMS] = PSTI_LOG_TERMS;
    integers8 is_tiny = *x < ALL(0x1p-126f); /* such numbers are multiplied by 2^32 first */
    integers8 bits = (integers8)EITHER(is_tiny, *x * ALL(0x1p32f), *x);
    integers8 k = (bits >> 23) - 127 - (is_tiny & 32);
    lanes8 fraction = (lanes8)((bits & 0x7fffff) | 0x3f800000);
    integers8 is_large = fraction > ALL((float)PSTI_LOG_SQRT2);
    fraction = EITHER(is_large, fraction * ALL(0.5f), fraction);
    doubles8 power = __builtin_convertvector(k - is_large, doubles8);
    doubles8 m = __builtin_convertvector(fraction, doubles8);
    doubles8 s = (m - 1) / (m + 1), z = s * s, sum = ALL_DOUBLES(0);
#pragma GCC unroll 12 /* in a loop, gcc keeps so wide a sum in memory */
    for (int i = 0; i < PSTI_LOG_N_TERMS; i++)
        sum = sum * z + terms[i];
    doubles8 log = power * PSTI_LN2_HIGH + (2 * s * sum + power * PSTI_LN2_LOW);
    lanes8 result = __builtin_convertvector(log * factor, lanes8);
    result = EITHER(*x < ALL(INFINITY), result, *x);
    result = EITHER(*x > ALL(0), result, ALL(NAN));
    *x = EITHER(*x == ALL(0), ALL(-INFINITY), result);
}

/* Loads up to eight values. The first one stands for those that are missing. */
static inline void load_some(const float *values, size_t n, lanes8 *v)
{
    *v = ALL(values[0]);
    if (n >= PSTI_SOUND_LANES)
        memcpy(v, values, sizeof *v);
    else
        memcpy(v, values, n * sizeof *values);
}

static inline void store_some(float *values, size_t n, const lanes8 *v)
{
    if (n >= PSTI_SOUND_LANES)
        memcpy(values, v, sizeof *v);
    else
        memcpy(values, v, n * sizeof *values);
}

static void logs(float *values, size_t n, float offset, double factor)
{
    lanes8 v;
    for (size_t i = 0; i < n; i += PSTI_SOUND_LANES) {
        load_some(values + i, n - i, &v);
        v += ALL(offset);
        log8(&v, factor);
        store_some(values + i, n - i, &v);
    }
}

static float decibels(float *values, size_t n, float amin, float multiplier, float offset)
{
    lanes8 v, largest = ALL(-INFINITY);
    for (size_t i = 0; i < n; i += PSTI_SOUND_LANES) {
        load_some(values + i, n - i, &v);
        v = EITHER(v > ALL(amin), v, ALL(amin));
        log8(&v, PSTI_LOG10_OF_E);
        v = ALL(multiplier) * v - ALL(offset);
        store_some(values + i, n - i, &v);
        largest = EITHER(v > largest, v, largest);
    }
    for (int lane = 1; lane < PSTI_SOUND_LANES; lane++)
        largest[0] = largest[lane] > largest[0] ? largest[lane] : largest[0];
    return largest[0];
}

static void settle(float *values, size_t n)
{
    lanes8 v;
    for (size_t i = 0; i < n; i += PSTI_SOUND_LANES) {
        load_some(values + i, n - i, &v);
        v = EITHER(v == v, v, ALL(NAN));
        store_some(values + i, n - i, &v);
    }
}

const struct psti_sound_kernels LEVEL(psti_sound_kernels) = {
    .name = NAME,
    .fft_nbytes = fft_nbytes,
    .fft_init = fft_init,
    .fft_radices = fft_radices,
    .fft_twiddles = fft_twiddles,
    .frames_floats = frames_floats,
    .frames = frames,
    .resample = resample,
    .product = product,
    .logs = logs,
    .decibels = decibels,
    .settle = settle,
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
