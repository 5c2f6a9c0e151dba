/* test_sound_features.c - compares spectrograms, mel bands, decibels, logarithms and cosine
 * transforms with their definitions in double; half precision for every number; chains that are
 * refused; memory. */
#include "test.h"

#include "base/fault.h"
#include "sound/sound.h"

#include <penstock/penstock.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846
enum { RATE = 8000, LENGTH = 400 };

static struct pst_audio_op op_of(enum pst_audio_op_kind kind)
{
    struct pst_audio_op op;
    pst_audio_op_init(&op, sizeof op, kind);
    return op;
}

/* Runs a chain on interleaved samples, with the run `scratch`. */
static enum pst_status run_in(struct psti_sound_run *scratch, const struct pst_audio_op *ops,
                              size_t n_ops, enum pst_dtype dtype, struct psti_sound_part source,
                              const float *in, struct psti_sound_draw *draw, void *out,
                              struct pst_error *err)
{
    struct psti_sound_chain *chain;
    const struct psti_sound_key key = {.seed = 1};
    enum pst_status status = psti_sound_chain_open(ops, n_ops, dtype, &chain, err);
    if (status != PST_OK)
        return status;
    status = psti_sound_chain_draw(chain, &key, &source, draw, err);
    if (status == PST_OK) {
        float *to = psti_sound_run_begin(scratch, chain, draw, err);
        status = to ? PST_OK : err->status;
        if (to) {
            memcpy(to, in + draw->source.first * source.channels,
                   (size_t)draw->source.n * source.channels * sizeof *to);
            status = psti_sound_run_end(scratch, chain, draw, out, err);
        }
    }
    psti_sound_chain_close(&chain);
    return status;
}

static enum pst_status run(const struct pst_audio_op *ops, size_t n_ops, enum pst_dtype dtype,
                           uint32_t channels, uint64_t length, const float *in,
                           struct psti_sound_draw *draw, void *out, struct pst_error *err)
{
    struct psti_sound_run *scratch;
    const struct psti_sound_part source = {.rate = RATE, .channels = channels, .length = length};
    enum pst_status status = psti_sound_run_open(&scratch, err);
    if (status == PST_OK)
        status = run_in(scratch, ops, n_ops, dtype, source, in, draw, out, err);
    psti_sound_run_close(&scratch);
    return status;
}

static void make_sound(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(0.4 * sin(0.21 * (double)i) + 0.3 * cos(1.3 * (double)i + 1));
}

/* Returns the padded signal at `i`, where 0 is the first sample of `pad` zeros. */
static double padded_at(const float *x, int64_t n, const struct pst_audio_op *o, int64_t i)
{
    int64_t whole = n + 2 * (int64_t)o->pad;
    if (i < 0 || i >= whole) {
        if (o->pad_mode == PST_AUDIO_PAD_CONSTANT)
            return 0;
        if (o->pad_mode == PST_AUDIO_PAD_REPLICATE)
            i = i < 0 ? 0 : whole - 1;
        else
            i = i < 0 ? -i : 2 * whole - 2 - i;
    }
    i -= o->pad;
    return i < 0 || i >= n ? 0 : x[i];
}

static double window_at(const struct pst_audio_op *o, uint32_t i)
{
    double t = 2 * PI * i / o->win_length;
    switch (o->window) {
    case PST_AUDIO_WINDOW_HANN:
        return 0.5 - 0.5 * cos(t);
    case PST_AUDIO_WINDOW_HAMMING:
        return 0.54 - 0.46 * cos(t);
    case PST_AUDIO_WINDOW_BLACKMAN:
        return 0.42 - 0.5 * cos(t) + 0.08 * cos(2 * t);
    default:
        return 1;
    }
}

/* Returns one value of a spectrogram, computed by the sum that defines it. */
static double bin_of(const float *x, int64_t n, const struct pst_audio_op *o, uint32_t k,
                     uint64_t frame)
{
    int64_t start = (int64_t)(frame * o->hop_length) - (o->no_center ? 0 : o->n_fft / 2);
    uint32_t left = (o->n_fft - o->win_length) / 2;
    double re = 0, im = 0, squares = 0;
    for (uint32_t i = 0; i < o->win_length; i++) {
        double w = window_at(o, i), v = w * padded_at(x, n, o, start + left + i);
        double angle = 2 * PI * ((uint64_t)k * (left + i) % o->n_fft) / o->n_fft;
        re += v * cos(angle);
        im -= v * sin(angle);
        squares += w * w;
    }
    double factor = o->normalized == PST_AUDIO_NORMALIZED_WINDOW         ? 1 / squares
                    : o->normalized == PST_AUDIO_NORMALIZED_FRAME_LENGTH ? 1.0 / o->n_fft
                                                                         : 1;
    double power = (re * re + im * im) * factor;
    return o->power == 2 ? power : sqrt(power);
}

/* Tries each window, padding and factor, with frames that begin at their places or are centred
 * there. */
static void spectrograms(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_sound_draw draw;
    static float x[LENGTH], out[16 * 256];
    make_sound(x, LENGTH);
    for (int i = 0; i < 4 * 3 * 3 * 2 * 2; i++) {
        struct pst_audio_op o = op_of(PST_AUDIO_OP_SPECTROGRAM);
        o.n_fft = 24;
        o.win_length = i % 5 ? 19 : 24;
        o.hop_length = 7;
        o.pad = i % 3 ? 5 : 0;
        o.window = (enum pst_audio_window)(i % 4);
        o.pad_mode = (enum pst_audio_pad_mode)(i / 4 % 3);
        o.normalized = (enum pst_audio_normalized)(i / 12 % 3);
        o.no_center = i / 36 % 2;
        o.power = 1 + (uint32_t)(i / 72 % 2);
        assert_ok(run(&o, 1, PST_DTYPE_F32, 1, LENGTH, x, &draw, out, &err));
        uint64_t n = LENGTH + 2 * o.pad, frames = (n - (o.no_center ? o.n_fft : 0)) / 7 + 1;
        assert_true(draw.ndim == 3 && draw.shape[1] == 13 && draw.shape[2] == (int64_t)frames);
        for (uint32_t k = 0; k < 13; k++)
            for (uint64_t t = 0; t < frames; t++)
                assert_true(fabs(out[k * frames + t] - bin_of(x, LENGTH, &o, k, t)) < 2e-5 * 24);
    }
}

static double mel_of(double hz, enum pst_audio_mel_scale scale)
{
    if (scale == PST_AUDIO_MEL_HTK)
        return 2595 * log10(1 + hz / 700);
    return hz < 1000 ? hz * 3 / 200 : 15 + 27 * log(hz / 1000) / log(6.4);
}

/* Returns the weight of a frequency in band m: a triangle over three edges that are evenly spaced
 * in mel. */
static double weight_of(const struct pst_audio_op *o, uint32_t m, double hz)
{
    double low = mel_of(o->f_min, o->mel_scale), high = mel_of(o->f_max, o->mel_scale);
    double edges[3];
    for (uint32_t i = 0; i < 3; i++) {
        double wanted = low + (high - low) * (m + i) / (o->n_mels + 1), a = 0, b = o->rate;
        for (int n = 0; n < 60; n++) /* the scale rises, so bisection finds the frequency */
            *(mel_of((a + b) / 2, o->mel_scale) < wanted ? &a : &b) = (a + b) / 2;
        edges[i] = a;
    }
    double up = (hz - edges[0]) / (edges[1] - edges[0]);
    double down = (edges[2] - hz) / (edges[2] - edges[1]);
    double least = up < down ? up : down;
    return (least > 0 ? least : 0) *
           (o->mel_norm == PST_AUDIO_MEL_NORM_SLANEY ? 2 / (edges[2] - edges[0]) : 1);
}

static void mel_bands(void **state)
{
    enum { N_FFT = 200, BINS = 101, BANDS = 20 };
    (void)state;
    struct pst_error err;
    struct psti_sound_draw draw;
    static float x[2 * LENGTH], bins[2 * BINS * 16], out[2 * BANDS * 16];
    make_sound(x, 2 * LENGTH);
    for (int i = 0; i < 4; i++) {
        struct pst_audio_op ops[2] = {op_of(PST_AUDIO_OP_SPECTROGRAM), op_of(PST_AUDIO_OP_MEL)};
        struct pst_audio_op *mel = &ops[1];
        ops[0].n_fft = N_FFT;
        mel->rate = RATE;
        mel->n_mels = BANDS;
        mel->f_min = 60;
        mel->f_max = 3500;
        mel->mel_scale = (enum pst_audio_mel_scale)(i % 2);
        mel->mel_norm = (enum pst_audio_mel_norm)(i / 2);
        assert_ok(run(ops, 1, PST_DTYPE_F32, 2, LENGTH, x, &draw, bins, &err));
        assert_ok(run(ops, 2, PST_DTYPE_F32, 2, LENGTH, x, &draw, out, &err));
        size_t frames = (size_t)draw.shape[2];
        assert_true(draw.shape[0] == 2 && draw.shape[1] == BANDS && frames == 5);
        for (size_t c = 0; c < 2; c++)
            for (uint32_t m = 0; m < BANDS; m++)
                for (size_t t = 0; t < frames; t++) {
                    double sum = 0, most = 0;
                    for (uint32_t k = 0; k < BINS; k++) {
                        double v = bins[(c * BINS + k) * frames + t];
                        sum += v * weight_of(mel, m, (double)k * RATE / N_FFT);
                        most = v > most ? v : most;
                    }
                    double got = out[(c * BANDS + m) * frames + t];
                    assert_true(fabs(got - sum) <= 1e-4 * (sum + 1e-3 * most));
                }
    }
}

/* Compares decibels, logarithms and cosine transforms with those computed from the spectrogram
 * alone. */
static void scales_and_cosines(void **state)
{
    enum { BINS = 13, FRAMES = 34, KEPT = 6 };
    (void)state;
    struct pst_error err;
    struct psti_sound_draw draw;
    static float x[LENGTH], plain[BINS * FRAMES], out[BINS * FRAMES];
    make_sound(x, LENGTH);
    struct pst_audio_op ops[3] = {op_of(PST_AUDIO_OP_SPECTROGRAM)};
    ops[0].n_fft = 24;
    assert_ok(run(ops, 1, PST_DTYPE_F32, 1, LENGTH, x, &draw, plain, &err));
    assert_true(draw.shape[1] == BINS && draw.shape[2] == FRAMES);
    double largest = 0;
    for (int i = 0; i < BINS * FRAMES; i++)
        largest = plain[i] > largest ? plain[i] : largest;
    for (int limited = 0; limited < 2; limited++) {
        ops[1] = op_of(PST_AUDIO_OP_DECIBEL);
        ops[1].ref = 2;
        ops[1].amin = 0.01f;
        ops[1].top_db = limited ? 15 : -1;
        assert_ok(run(ops, 2, PST_DTYPE_F32, 1, LENGTH, x, &draw, out, &err));
        unsigned n_limited = 0;
        for (int i = 0; i < BINS * FRAMES; i++) {
            double v = 10 * log10(plain[i] > 0.01f ? plain[i] : 0.01f) - 10 * log10(2);
            double least = 10 * log10(largest) - 10 * log10(2) - 15;
            n_limited += limited && v < least;
            assert_true(fabs(out[i] - (limited && v < least ? least : v)) < 1e-4);
        }
        assert_int_equal(n_limited > 0, limited);
    }
    ops[1] = op_of(PST_AUDIO_OP_LOG);
    ops[1].offset = 0.5f;
    assert_ok(run(ops, 2, PST_DTYPE_F32, 1, LENGTH, x, &draw, out, &err));
    for (int i = 0; i < BINS * FRAMES; i++)
        assert_true(fabs(out[i] - log(plain[i] + 0.5)) < 1e-5);
    for (int plainly = 0; plainly < 2; plainly++) {
        ops[1] = op_of(PST_AUDIO_OP_DCT);
        ops[1].n_mfcc = KEPT;
        ops[1].no_ortho = plainly;
        assert_ok(run(ops, 2, PST_DTYPE_F32, 1, LENGTH, x, &draw, out, &err));
        assert_true(draw.shape[1] == KEPT && draw.shape[2] == FRAMES);
        for (int j = 0; j < KEPT; j++)
            for (int t = 0; t < FRAMES; t++) {
                double sum = 0;
                for (int k = 0; k < BINS; k++)
                    sum += plain[k * FRAMES + t] * cos(PI / BINS * (k + 0.5) * j);
                sum *= plainly ? 2 : sqrt((j ? 2.0 : 1.0) / BINS);
                assert_true(fabs(out[j * FRAMES + t] - sum) < 1e-4 * (1 + fabs(sum)));
            }
    }
}

/* Tests the mean of 1, 2 and 3 channels: as the first operation, and after operations that it
 * cannot be moved before. */
static void means_of_channels(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_sound_draw draw;
    static float x[3 * LENGTH], out[LENGTH];
    make_sound(x, 3 * LENGTH);
    struct pst_audio_op ops[2] = {op_of(PST_AUDIO_OP_GAIN), op_of(PST_AUDIO_OP_MONO)};
    ops[0].range[0] = ops[0].range[1] = 20;
    for (uint32_t channels = 1; channels <= 3; channels++)
        for (size_t first = 0; first < 2; first++) {
            assert_ok(
                run(ops + first, 2 - first, PST_DTYPE_F32, channels, LENGTH, x, &draw, out, &err));
            assert_true(draw.shape[0] == 1 && draw.shape[1] == LENGTH);
            for (size_t i = 0; i < LENGTH; i++) {
                double sum = 0;
                for (uint32_t c = 0; c < channels; c++)
                    sum += x[i * channels + c];
                double wanted = sum / channels * (first ? 1 : 10);
                assert_true(fabs(out[i] - wanted) < 1e-5);
            }
        }
}

/* Returns the value of a finite half-precision number without its sign. */
static double value_of_half(uint32_t half)
{
    uint32_t exponent = half >> 10, fraction = half & 0x3ff;
    return exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, (int)exponent - 25);
}

/* Every half-precision number stays as it is, a number between two becomes the nearer one, and one
 * in the middle rounds to even. */
static void half_precision(void **state)
{
    enum { FINITE = 0x7c00, EACH = 4 };
    (void)state;
    struct pst_error err;
    struct psti_sound_draw draw;
    float *in = malloc(2 * EACH * FINITE * sizeof *in);
    uint16_t *out = malloc(2 * EACH * FINITE * sizeof *out);
    for (uint32_t half = 0; half < FINITE; half++) {
        double low = value_of_half(half), middle = (low + value_of_half(half + 1)) / 2;
        const float four[EACH] = {(float)low, (float)middle, nextafterf((float)middle, 0),
                                  nextafterf((float)middle, INFINITY)};
        for (int i = 0; i < EACH; i++) {
            in[half * EACH + i] = four[i];
            in[(FINITE + half) * EACH + i] = -four[i];
        }
    }
    assert_ok(run(NULL, 0, PST_DTYPE_F16, 1, 2 * EACH * FINITE, in, &draw, out, &err));
    for (uint32_t i = 0; i < 2 * FINITE; i++) {
        uint32_t half = i % FINITE, sign = i < FINITE ? 0 : 0x8000;
        assert_int_equal(out[i * EACH], sign | half);
        assert_int_equal(out[i * EACH + 1], sign | (half + (half & 1)));
        assert_int_equal(out[i * EACH + 2], sign | half);
        /* Above the largest finite half comes infinity. */
        assert_int_equal(out[i * EACH + 3], sign | (half + 1));
    }
    const float odd[] = {INFINITY, -INFINITY, NAN, 1e30f, 1e-30f, -1e-30f};
    static const uint16_t wanted[] = {0x7c00, 0xfc00, 0x7e00, 0x7c00, 0, 0x8000};
    assert_ok(run(NULL, 0, PST_DTYPE_F16, 1, 6, odd, &draw, out, &err));
    for (int i = 0; i < 6; i++)
        assert_int_equal(i == 2 ? out[i] & 0x7fff : out[i], wanted[i]);
    free(in);
    free(out);
}

static void assert_refused(const struct pst_audio_op *ops, size_t n_ops, const char *says)
{
    struct pst_error err;
    struct psti_sound_chain *chain;
    assert_int_equal(psti_sound_chain_open(ops, n_ops, PST_DTYPE_F32, &chain, &err),
                     PST_ERROR_ARGUMENT);
    assert_null(chain);
    if (strstr(err.text, says) == NULL)
        fail_msg("\"%s\" is not in: %s", says, err.text);
}

/* Sets one member beyond its range and expects a refusal. */
#define REFUSED(kind_, member, value_, says)                                                       \
    do {                                                                                           \
        struct pst_audio_op op_ = op_of(kind_);                                                    \
        op_.n_samples = 10;                                                                        \
        op_.rate = 8000;                                                                           \
        op_.member = (value_);                                                                     \
        assert_refused(&op_, 1, says);                                                             \
    } while (0)

static void members_beyond_their_ranges(void **state)
{
    (void)state;
    REFUSED(PST_AUDIO_OP_RESAMPLE, rate, 0, "Resample");
    REFUSED(PST_AUDIO_OP_RESAMPLE, rate, 10000001, "rate is");
    REFUSED(PST_AUDIO_OP_RESAMPLE, filter_width, 0, "filter_width");
    REFUSED(PST_AUDIO_OP_RESAMPLE, filter_width, 129, "filter_width");
    REFUSED(PST_AUDIO_OP_RESAMPLE, rolloff, 0, "rolloff");
    REFUSED(PST_AUDIO_OP_RESAMPLE, rolloff, 1.01f, "rolloff");
    REFUSED(PST_AUDIO_OP_RESAMPLE, rolloff, NAN, "rolloff");
    REFUSED(PST_AUDIO_OP_RANDOM_CLIP, n_samples, (uint32_t)INT32_MAX + 1, "n_samples");
    REFUSED(PST_AUDIO_OP_CENTER_CLIP, if_short, 3, "if_short");
    REFUSED(PST_AUDIO_OP_PAD_TO, n_samples, 0, "PadTo");
    REFUSED(PST_AUDIO_OP_GAIN, range[0], 1, "does not fall");
    REFUSED(PST_AUDIO_OP_GAIN, range[0], -201, "decibels");
    REFUSED(PST_AUDIO_OP_ADD_NOISE, range[1], 201, "decibels");
    REFUSED(PST_AUDIO_OP_ADD_NOISE, range[1], NAN, "decibels");
    REFUSED(PST_AUDIO_OP_ADD_NOISE, p, 1.5f, "p is 0 to 1");
    REFUSED(PST_AUDIO_OP_GAIN, p, NAN, "p is 0 to 1");
    REFUSED(PST_AUDIO_OP_TIME_MASK, mask_max, (uint32_t)INT32_MAX + 1, "mask_max");
    REFUSED(PST_AUDIO_OP_TIME_MASK, p, -0.5f, "p is 0 to 1");
    REFUSED(PST_AUDIO_OP_FREQUENCY_MASK, value, INFINITY, "finite");
    REFUSED(PST_AUDIO_OP_SPECTROGRAM, n_fft, 1, "n_fft");
    REFUSED(PST_AUDIO_OP_SPECTROGRAM, n_fft, 65537, "n_fft");
    REFUSED(PST_AUDIO_OP_SPECTROGRAM, n_fft, 17 * 16, "prime factor");
    REFUSED(PST_AUDIO_OP_SPECTROGRAM, win_length, 401, "win_length");
    /* hop_length is half of it by default, which is 0 */
    REFUSED(PST_AUDIO_OP_SPECTROGRAM, win_length, 1, "hop_length");
    REFUSED(PST_AUDIO_OP_SPECTROGRAM, power, 3, "power");
    REFUSED(PST_AUDIO_OP_SPECTROGRAM, window, 4, "not known");
    REFUSED(PST_AUDIO_OP_SPECTROGRAM, pad_mode, 3, "not known");
    REFUSED(PST_AUDIO_OP_SPECTROGRAM, normalized, 3, "not known");
    REFUSED(PST_AUDIO_OP_SPECTROGRAM, pad, 65537, "pad");
    REFUSED(PST_AUDIO_OP_MEL, rate, 1, "rate");
    REFUSED(PST_AUDIO_OP_MEL, n_mels, 0, "n_mels");
    REFUSED(PST_AUDIO_OP_MEL, n_mels, 4097, "n_mels");
    REFUSED(PST_AUDIO_OP_MEL, f_min, -1, "f_min");
    /* half of the sample rate, so no f_max can lie above it */
    REFUSED(PST_AUDIO_OP_MEL, f_min, 4000, "f_max above it");
    REFUSED(PST_AUDIO_OP_MEL, f_max, INFINITY, "f_min");
    REFUSED(PST_AUDIO_OP_MEL, f_max, NAN, "f_min");
    REFUSED(PST_AUDIO_OP_MEL, mel_scale, 2, "not known");
    REFUSED(PST_AUDIO_OP_MEL, mel_norm, 2, "not known");
    REFUSED(PST_AUDIO_OP_DECIBEL, amin, 0, "amin");
    REFUSED(PST_AUDIO_OP_DECIBEL, ref, NAN, "ref");
    REFUSED(PST_AUDIO_OP_DECIBEL, multiplier, INFINITY, "multiplier");
    REFUSED(PST_AUDIO_OP_LOG, offset, -1, "offset");
    REFUSED(PST_AUDIO_OP_LOG, offset, NAN, "offset");
}

static void operations_at_wrong_places(void **state)
{
    (void)state;
    struct pst_audio_op ops[PST_AUDIO_MAX_OPS + 1];
    for (size_t i = 0; i < PST_AUDIO_MAX_OPS + 1; i++)
        ops[i] = op_of(PST_AUDIO_OP_MONO);
    assert_refused(ops, PST_AUDIO_MAX_OPS + 1, "at most 32");
    ops[0] = op_of(PST_AUDIO_OP_SPECTROGRAM);
    assert_refused(ops, 2, "operation 1 (Mono): it is for waveforms");
    ops[1] = op_of(PST_AUDIO_OP_LOG);
    ops[2] = op_of(PST_AUDIO_OP_MEL);
    ops[2].rate = RATE;
    assert_refused(ops, 3, "right behind the spectrogram");
    ops[2] = op_of(PST_AUDIO_OP_DCT);
    ops[2].n_mfcc = 202; /* more than the spectrogram's 201 bins */
    assert_refused(ops, 3, "no more than there are bins");
    ops[2].n_mfcc = 0;
    assert_refused(ops, 3, "n_mfcc is at least 1");
    static const enum pst_audio_op_kind lonely[] = {PST_AUDIO_OP_FREQUENCY_MASK, PST_AUDIO_OP_MEL,
                                                    PST_AUDIO_OP_DECIBEL, PST_AUDIO_OP_LOG,
                                                    PST_AUDIO_OP_DCT};
    for (size_t i = 0; i < sizeof lonely / sizeof *lonely; i++) {
        ops[0] = op_of(lonely[i]);
        ops[0].rate = RATE;
        assert_refused(ops, 1, "it is for spectrograms");
    }
}

/* Sounds to which a chain cannot be applied are refused, and nothing is allocated for them. */
static void sounds_beyond_the_limits(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_sound_chain *chain;
    struct psti_sound_draw draw;
    const struct psti_sound_key key = {.seed = 1};
    static const struct {
        uint32_t rate, channels;
        uint64_t length;
    } sources[] = {{0, 1, 10},
                   {RATE, 0, 10},
                   {RATE, 1, (uint64_t)INT32_MAX + 1},
                   {RATE, 1, UINT64_MAX},
                   {RATE, 1u << 31, 10},
                   {RATE, 3, INT32_MAX}};
    assert_ok(psti_sound_chain_open(NULL, 0, PST_DTYPE_F32, &chain, &err));
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const struct psti_sound_part source = {
            .rate = sources[i].rate, .channels = sources[i].channels, .length = sources[i].length};
        assert_int_equal(psti_sound_chain_draw(chain, &key, &source, &draw, &err),
                         PST_ERROR_UNSUPPORTED);
        assert_string_equal(err.room, "sound");
    }
    psti_sound_chain_close(&chain);
    struct pst_audio_op up = op_of(PST_AUDIO_OP_RESAMPLE);
    up.rate = 80000;
    assert_ok(psti_sound_chain_open(&up, 1, PST_DTYPE_F32, &chain, &err));
    const struct psti_sound_part source = {.rate = 8, .channels = 1, .length = INT32_MAX / 9999};
    assert_int_equal(psti_sound_chain_draw(chain, &key, &source, &draw, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "Resample"));
    psti_sound_chain_close(&chain);
}

/* Tests more resampling ratios than a run can keep filters for. Each result equals that of a
 * separate run, and the bytes that the run reports are those that it holds. */
static void many_ratios_in_one_run(void **state)
{
    enum { RATES = 11 };
    (void)state;
    struct pst_error err;
    struct psti_sound_draw draw;
    struct psti_sound_run *scratch;
    struct pst_memory_stats before, after;
    static float x[LENGTH], wanted[LENGTH], out[LENGTH];
    make_sound(x, LENGTH);
    struct pst_audio_op op = op_of(PST_AUDIO_OP_RESAMPLE);
    op.rate = 4000;
    assert_ok(psti_sound_run_open(&scratch, &err));
    pst_memory_stats(&before, sizeof before);
    for (uint32_t i = 0; i < 3 * RATES; i++) {
        const struct psti_sound_part source = {
            .rate = 8000 + 10 * (i * 4 % RATES), .channels = 1, .length = LENGTH};
        assert_ok(run_in(scratch, &op, 1, PST_DTYPE_F32, source, x, &draw, out, &err));
        struct psti_sound_run *own;
        assert_ok(psti_sound_run_open(&own, &err));
        assert_ok(run_in(own, &op, 1, PST_DTYPE_F32, source, x, &draw, wanted, &err));
        psti_sound_run_close(&own);
        assert_memory_equal(out, wanted, (size_t)draw.shape[1] * sizeof *out);
        pst_memory_stats(&after, sizeof after);
        uint64_t held = after.live_nbytes - before.live_nbytes;
        assert_true(held >= psti_sound_run_nbytes(scratch));
        assert_true(held < psti_sound_run_nbytes(scratch) + 4096); /* headers of allocations */
    }
    psti_sound_run_close(&scratch);
}

#ifdef PST_FAULTS
static void every_failed_allocation_is_clean(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_sound_draw draw;
    struct pst_memory_stats before, after;
    static float x[LENGTH], out[64 * LENGTH];
    make_sound(x, LENGTH);
    struct pst_audio_op ops[4] = {op_of(PST_AUDIO_OP_RESAMPLE), op_of(PST_AUDIO_OP_SPECTROGRAM),
                                  op_of(PST_AUDIO_OP_MEL), op_of(PST_AUDIO_OP_DCT)};
    ops[0].rate = ops[2].rate = 16000;
    pst_memory_stats(&before, sizeof before);
    enum pst_status status = PST_ERROR_MEMORY;
    uint64_t n = 0;
    while (status != PST_OK) {
        psti_fault_arm(PSTI_FAULT_ALLOC, ++n, false);
        status = run(ops, 4, PST_DTYPE_F32, 1, LENGTH, x, &draw, out, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        if (status != PST_OK) {
            assert_int_equal(status, PST_ERROR_MEMORY);
            assert_int_equal(err.status, status);
        }
        pst_memory_stats(&after, sizeof after);
        assert_int_equal(after.live_nbytes, before.live_nbytes);
        assert_true(n < 100);
    }
    assert_true(n > 12); /* chain, window, FFT, two of the bands, cosines, run, 5 buffers, filter */
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spectrograms),
        cmocka_unit_test(mel_bands),
        cmocka_unit_test(scales_and_cosines),
        cmocka_unit_test(means_of_channels),
        cmocka_unit_test(half_precision),
        cmocka_unit_test(members_beyond_their_ranges),
        cmocka_unit_test(operations_at_wrong_places),
        cmocka_unit_test(sounds_beyond_the_limits),
        cmocka_unit_test(many_ratios_in_one_run),
#ifdef PST_FAULTS
        cmocka_unit_test(every_failed_allocation_is_clean),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
