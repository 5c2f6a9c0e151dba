/* test_sound_chain.c - chains: parts of a sound give what the whole gives, draws depend only on
 * their key, rules for short sounds, refusals, and memory that does not grow. */
#include "test.h"

#include "sound/sound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 44100, CHANNELS = 2, LENGTH = 30011 };

static struct pst_audio_op op_of(enum pst_audio_op_kind kind)
{
    struct pst_audio_op op;
    pst_audio_op_init(&op, sizeof op, kind);
    return op;
}

static struct pst_audio_op resample_to(uint32_t rate)
{
    struct pst_audio_op op = op_of(PST_AUDIO_OP_RESAMPLE);
    op.rate = rate;
    return op;
}

static struct pst_audio_op clip_of(enum pst_audio_op_kind kind, uint32_t n,
                                   enum pst_audio_short if_short)
{
    struct pst_audio_op op = op_of(kind);
    op.n_samples = n;
    op.if_short = if_short;
    return op;
}

static float sound_at(uint64_t i, uint32_t c)
{
    return (float)(0.5 * sin(0.01 * (double)i * (1 + c)) + 0.2 * sin(0.9 * (double)i));
}

/* Runs a chain for one sample. `out` must be large enough for the result. Returns the status; *draw
 * describes the result. */
static enum pst_status run(const struct pst_audio_op *ops, size_t n_ops, uint64_t sample,
                           uint64_t length, struct psti_sound_draw *draw, float *out,
                           struct pst_error *err)
{
    struct psti_sound_chain *chain;
    struct psti_sound_run *scratch;
    const struct psti_sound_key key = {.seed = 5, .epoch = 2, .sample = sample, .own = 3};
    const struct psti_sound_part source = {.rate = RATE, .channels = CHANNELS, .length = length};
    enum pst_status status = psti_sound_chain_open(ops, n_ops, PST_DTYPE_F32, &chain, err);
    if (status != PST_OK)
        return status;
    assert_int_equal(psti_sound_run_open(&scratch, err), PST_OK);
    status = psti_sound_chain_draw(chain, &key, &source, draw, err);
    if (status == PST_OK) {
        size_t lacks = psti_sound_run_lacks(scratch, chain, draw);
        float *in = psti_sound_run_begin(scratch, chain, draw, err);
        assert_non_null(in);
        assert_true(psti_sound_run_nbytes(scratch) <= lacks);
        assert_int_equal(psti_sound_run_lacks(scratch, chain, draw), 0);
        for (uint64_t i = 0; i < draw->source.n; i++)
            for (uint32_t c = 0; c < CHANNELS; c++)
                in[i * CHANNELS + c] = sound_at(draw->source.first + i, c);
        status = psti_sound_run_end(scratch, chain, draw, out, err);
    }
    psti_sound_run_close(&scratch);
    psti_sound_chain_close(&chain);
    return status;
}

/* A clip after a resampler needs only a part of the source, and equals that part of the resampled
 * whole. */
static void parts(void **state)
{
    enum { CLIP = 700 };
    (void)state;
    struct pst_error err;
    static const uint32_t rates[] = {8000, 16000, 48000, 44100};
    float *whole = malloc(2 * LENGTH * CHANNELS * sizeof *whole);
    float *clip = malloc(CLIP * CHANNELS * sizeof *clip);
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
        for (int mono = 0; mono < 2; mono++)
            for (uint64_t sample = 0; sample < 20; sample++) {
                struct pst_audio_op ops[3] = {resample_to(rates[r])};
                size_t n = 1;
                struct psti_sound_draw draw, all;
                if (mono)
                    ops[n++] = op_of(PST_AUDIO_OP_MONO);
                assert_ok(run(ops, n, sample, LENGTH, &all, whole, &err));
                ops[n++] = clip_of(PST_AUDIO_OP_RANDOM_CLIP, CLIP, PST_AUDIO_SHORT_ERROR);
                assert_ok(run(ops, n, sample, LENGTH, &draw, clip, &err));
                assert_true(draw.source.n < LENGTH / 2);
                assert_int_equal(draw.shape[0], mono ? 1 : CHANNELS);
                assert_int_equal(draw.shape[1], CLIP);
                for (int64_t c = 0; c < draw.shape[0]; c++)
                    assert_memory_equal(clip + c * CLIP,
                                        whole + c * all.shape[1] + draw.steps[n - 1].start,
                                        CLIP * sizeof *clip);
            }
    free(whole);
    free(clip);
}

static void short_sounds(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_sound_draw draw;
    float out[2 * CHANNELS * 50];
    for (int kind = PST_AUDIO_OP_RANDOM_CLIP; kind <= PST_AUDIO_OP_CENTER_CLIP; kind++)
        for (int rule = 0; rule < 3; rule++) {
            struct pst_audio_op op = clip_of(kind, 50, (enum pst_audio_short)rule);
            enum pst_status status = run(&op, 1, 1, 20, &draw, out, &err);
            if (rule == PST_AUDIO_SHORT_ERROR) {
                assert_int_equal(status, PST_ERROR_UNSUPPORTED);
                assert_string_equal(err.room, "sound");
                continue;
            }
            assert_int_equal(status, PST_OK);
            for (int i = 0; i < 50; i++)
                assert_true(out[i] == (i < 20 ? sound_at((uint64_t)i, 0)
                                       : rule == PST_AUDIO_SHORT_REPEAT
                                           ? sound_at((uint64_t)i % 20, 0)
                                           : 0));
            assert_int_equal(run(&op, 1, 1, 0, &draw, out, &err), PST_OK); /* 0 samples */
            assert_true(out[0] == 0 && out[2 * 50 - 1] == 0);
        }
    struct pst_audio_op pad = clip_of(PST_AUDIO_OP_PAD_TO, 30, PST_AUDIO_SHORT_PAD);
    assert_ok(run(&pad, 1, 1, 20, &draw, out, &err));
    assert_true(draw.shape[1] == 30 && out[19] == sound_at(19, 0) && out[20] == 0);
    assert_ok(run(&pad, 1, 1, 40, &draw, out, &err));
    assert_true(draw.shape[1] == 40 && out[39] == sound_at(39, 0));
}

/* Random numbers depend only on the key, and a gain does not move a clip. */
static void draws(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_sound_draw a, b;
    float out[2][CHANNELS * 100];
    struct pst_audio_op gain = op_of(PST_AUDIO_OP_GAIN), noise = op_of(PST_AUDIO_OP_ADD_NOISE);
    gain.range[0] = -20;
    gain.range[1] = 20;
    noise.range[0] = noise.range[1] = 10;
    const struct pst_audio_op clip = clip_of(PST_AUDIO_OP_RANDOM_CLIP, 100, PST_AUDIO_SHORT_PAD);
    const struct pst_audio_op both[3] = {gain, clip, noise};
    uint64_t places = 0;
    for (uint64_t sample = 0; sample < 50; sample++) {
        assert_ok(run(&clip, 1, sample, LENGTH, &a, out[0], &err));
        assert_ok(run(both, 2, sample, LENGTH, &b, out[1], &err));
        assert_true(a.steps[0].start == b.steps[1].start);
        double factor = pow(10, b.steps[0].value / 20);
        assert_true(b.steps[0].value >= -20 && b.steps[0].value <= 20);
        for (int i = 0; i < 100; i++)
            assert_true(fabs(out[1][i] - factor * out[0][i]) < 1e-5 * factor);
        places += a.steps[0].start > LENGTH / 2;
        assert_ok(run(both, 3, sample, LENGTH, &a, out[0], &err));
        assert_ok(run(both, 3, sample, LENGTH, &b, out[1], &err));
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
    assert_true(places > 5 && places < 45);
}

/* The noise has the signal-to-noise ratio that the operation asks for and mean 0, and differs
 * between samples and channels. */
static void noises(void **state)
{
    enum { N = 20000 };
    (void)state;
    struct pst_error err;
    struct psti_sound_draw draw;
    struct pst_audio_op noise = op_of(PST_AUDIO_OP_ADD_NOISE);
    noise.range[0] = noise.range[1] = 6;
    float *out = malloc(CHANNELS * N * sizeof *out), *other = malloc(CHANNELS * N * sizeof *out);
    assert_ok(run(&noise, 1, 0, N, &draw, out, &err));
    assert_ok(run(&noise, 1, 1, N, &draw, other, &err));
    double signal = 0, power = 0, sum = 0, fourth = 0, across = 0;
    for (uint64_t i = 0; i < N; i++) {
        double s = sound_at(i, 0), n = out[i] - s, m = other[i] - s;
        signal += s * s;
        power += n * n;
        sum += n;
        fourth += n * n * n * n;
        across += n * m + n * (out[N + i] - (double)sound_at(i, 1));
    }
    assert_true(fabs(10 * log10(signal / power) - 6) < 1e-3);
    assert_true(fabs(sum / N) < 0.02 * sqrt(power / N) * 2);
    /* the kurtosis of normally distributed numbers */
    assert_true(fabs(fourth / N / (power / N) / (power / N) - 3) < 0.2);
    assert_true(fabs(across / power) < 0.05);
    free(out);
    free(other);
}

static void masks(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_sound_draw draw;
    struct pst_audio_op ops[3] = {op_of(PST_AUDIO_OP_SPECTROGRAM), op_of(PST_AUDIO_OP_TIME_MASK),
                                  op_of(PST_AUDIO_OP_FREQUENCY_MASK)};
    ops[0].n_fft = 64;
    ops[1].mask_max = 20;
    ops[1].value = -1;
    ops[2].mask_max = 10;
    ops[2].value = -2;
    float *out = malloc(CHANNELS * 33 * 70 * sizeof *out);
    uint64_t longest = 0;
    for (uint64_t sample = 0; sample < 60; sample++) {
        assert_ok(run(ops, 3, sample, 2000, &draw, out, &err));
        assert_int_equal(draw.shape[2], 63);
        const struct psti_sound_step *t = &draw.steps[1], *f = &draw.steps[2];
        longest = t->end - t->start > longest ? t->end - t->start : longest;
        for (uint64_t k = 0; k < 33; k++)
            for (uint64_t i = 0; i < 63; i++) {
                float v = out[k * 63 + i];
                bool by_f = k >= f->start && k < f->end, by_t = i >= t->start && i < t->end;
                assert_true(by_f ? v == -2 : by_t ? v == -1 : v >= 0);
            }
    }
    assert_true(longest >= 15 && longest < 20);
    free(out);
}

static void refusals(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_sound_chain *chain;
    struct psti_sound_draw draw;
    float out[8];
    struct pst_audio_op mel[2] = {op_of(PST_AUDIO_OP_SPECTROGRAM), op_of(PST_AUDIO_OP_MEL)};
    mel[1].rate = 16000;
    assert_int_equal(run(mel, 2, 0, LENGTH, &draw, out, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "44100"));
    assert_int_equal(run(mel, 1, 0, 100, &draw, out, &err), PST_ERROR_UNSUPPORTED);
    assert_int_equal(psti_sound_chain_open(mel + 1, 1, PST_DTYPE_F32, &chain, &err),
                     PST_ERROR_ARGUMENT);
    struct pst_audio_op bad[] = {op_of((enum pst_audio_op_kind)99), op_of(PST_AUDIO_OP_RESAMPLE),
                                 op_of(PST_AUDIO_OP_RANDOM_CLIP),   op_of(PST_AUDIO_OP_SPECTROGRAM),
                                 op_of(PST_AUDIO_OP_GAIN),          op_of(PST_AUDIO_OP_DECIBEL)};
    bad[3].n_fft = 17 * 4;
    bad[4].range[0] = NAN;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(psti_sound_chain_open(&bad[i], 1, PST_DTYPE_F32, &chain, &err),
                         PST_ERROR_ARGUMENT);
        assert_null(chain);
        assert_non_null(strstr(err.text, "operation 0"));
    }
    assert_int_equal(psti_sound_chain_open(mel, 1, PST_DTYPE_U8, &chain, &err), PST_ERROR_ARGUMENT);
    struct pst_audio_op twice[2] = {mel[0], mel[0]};
    assert_int_equal(psti_sound_chain_open(twice, 2, PST_DTYPE_F32, &chain, &err),
                     PST_ERROR_ARGUMENT);
    /* the rate is a prime, so the table would be too large */
    struct pst_audio_op odd = resample_to(9999991);
    assert_int_equal(run(&odd, 1, 0, LENGTH, &draw, out, &err), PST_ERROR_UNSUPPORTED);
}

/* Checks the dimensions that a chain states before it gets a sample. */
static void shapes(void **state)
{
    (void)state;
    struct pst_error err;
    struct psti_sound_chain *chain;
    int64_t shape[3];
    struct pst_audio_op ops[4] = {op_of(PST_AUDIO_OP_MONO), resample_to(16000),
                                  clip_of(PST_AUDIO_OP_CENTER_CLIP, 16000, PST_AUDIO_SHORT_PAD),
                                  op_of(PST_AUDIO_OP_SPECTROGRAM)};
    assert_ok(psti_sound_chain_open(ops, 4, PST_DTYPE_F16, &chain, &err));
    assert_int_equal(psti_sound_chain_shape(chain, shape), 3);
    assert_true(shape[0] == 1 && shape[1] == 201 && shape[2] == 81);
    psti_sound_chain_close(&chain);
    assert_ok(psti_sound_chain_open(ops + 1, 2, PST_DTYPE_F32, &chain, &err));
    assert_int_equal(psti_sound_chain_shape(chain, shape), 2);
    assert_true(shape[0] == 0 && shape[1] == 16000);
    psti_sound_chain_close(&chain);
    assert_ok(psti_sound_chain_open(NULL, 0, PST_DTYPE_F32, &chain, &err));
    assert_int_equal(psti_sound_chain_shape(chain, shape), 2);
    assert_true(shape[0] == 0 && shape[1] == 0);
    psti_sound_chain_close(&chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts), cmocka_unit_test(short_sounds),
                                       cmocka_unit_test(draws), cmocka_unit_test(noises),
                                       cmocka_unit_test(masks), cmocka_unit_test(refusals),
                                       cmocka_unit_test(shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
