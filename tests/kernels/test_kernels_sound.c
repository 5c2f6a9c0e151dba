/* test_kernels_sound.c - the CPU build of the GPU kernels makes features of sound, for random
 * chains, sizes and draws. The rows are bit-identical to those of the CPU. */
#include "base/test_input.h"
#include "kernels/kernels_exec.h"
#include "sanitizer.h"

#include "gpu/work/gpu_block.h"
#include "sound/sound_features.h"

#include <math.h>

/* Fewer rounds with a sanitizer, which makes each round several times slower. */
enum { SLOWER = TEST_ASAN ? 6 : 1, ROWS = 3, RATE = 16000, MAX_OPS = 9 };

/* A field of sound, and what was run of it. */
struct sounds {
    struct pst_audio_op ops[MAX_OPS];
    size_t n_ops;
    enum pst_dtype dtype;
    uint32_t channels;
    bool is_loud; /* samples beyond full scale, of which numbers overflow */
    struct psti_sound_chain *chain;
    struct psti_gpu_field *field;
    struct psti_sound_run *run;
    int64_t shape[3];
};

/* Counts over all rounds. */
static uint32_t n_run, n_steps[8], n_channels[3], n_f16, n_radix[14], n_nan;

static uint32_t one_of(struct test_random *random, const uint32_t *list, uint32_t n)
{
    return list[test_below(random, n)];
}

static struct pst_audio_op op_of(enum pst_audio_op_kind kind)
{
    struct pst_audio_op op;
    pst_audio_op_init(&op, sizeof op, kind);
    return op;
}

static struct pst_audio_op random_spectrogram(struct test_random *random)
{
    static const uint32_t sizes[] = {2,   3,   4,   5,   6,   7,    8,    9,    11,
                                     13,  16,  22,  26,  30,  49,   64,   77,   121,
                                     125, 128, 169, 210, 256, 338,  360,  400,  441,
                                     480, 500, 512, 539, 600, 1000, 1024, 1029, 2048};
    struct pst_audio_op op = op_of(PST_AUDIO_OP_SPECTROGRAM);
    op.n_fft = one_of(random, sizes, sizeof sizes / sizeof *sizes);
    if (test_below(random, 3) == 0)
        op.win_length = 1 + test_below(random, op.n_fft);
    op.hop_length = 1 + test_below(random, 60 + op.n_fft / 2);
    op.power = 1 + test_below(random, 2);
    op.pad = test_below(random, 3) == 0 ? test_below(random, 40) : 0;
    op.no_center = test_below(random, 3) == 0;
    op.window = (enum pst_audio_window)test_below(random, 4);
    op.pad_mode = (enum pst_audio_pad_mode)test_below(random, 3);
    op.normalized = (enum pst_audio_normalized)test_below(random, 3);
    return op;
}

static struct pst_audio_op random_feature(struct test_random *random)
{
    static const enum pst_audio_op_kind kinds[] = {
        PST_AUDIO_OP_DECIBEL, PST_AUDIO_OP_DECIBEL,   PST_AUDIO_OP_LOG,
        PST_AUDIO_OP_DCT,     PST_AUDIO_OP_TIME_MASK, PST_AUDIO_OP_FREQUENCY_MASK};
    struct pst_audio_op op = op_of(kinds[test_below(random, 6)]);
    op.multiplier = test_below(random, 2) != 0 ? 10 : 20;
    op.amin = test_below(random, 3) == 0 ? 1e-40f : 1e-10f;
    op.ref = test_below(random, 3) == 0 ? 0.3f : 1;
    op.top_db = test_below(random, 3) == 0 ? -1 : (float)test_below(random, 100);
    op.offset = test_below(random, 3) == 0 ? 0 : 1e-6f;
    op.n_mfcc = 1 + test_below(random, 20);
    op.no_ortho = test_below(random, 2);
    op.mask_max = 1 + test_below(random, 20);
    op.value = (float)test_below(random, 5) - 2;
    return op;
}

static void choose_ops(struct test_random *random, struct sounds *s)
{
    s->n_ops = 0;
    struct pst_audio_op clip = op_of(PST_AUDIO_OP_RANDOM_CLIP);
    clip.n_samples = 1 + test_below(random, 3000);
    s->ops[s->n_ops++] = clip;
    if (test_below(random, 2) != 0) {
        s->ops[s->n_ops] = op_of(PST_AUDIO_OP_GAIN);
        s->ops[s->n_ops++].range[1] = 6;
    }
    s->ops[s->n_ops++] = random_spectrogram(random);
    if (test_below(random, 2) != 0) {
        struct pst_audio_op mel = op_of(PST_AUDIO_OP_MEL);
        mel.rate = RATE;
        mel.n_mels = 1 + test_below(random, 90);
        mel.mel_scale = (enum pst_audio_mel_scale)test_below(random, 2);
        mel.mel_norm = (enum pst_audio_mel_norm)test_below(random, 2);
        s->ops[s->n_ops++] = mel;
    }
    while (s->n_ops < MAX_OPS && test_below(random, 4) != 0)
        s->ops[s->n_ops++] = random_feature(random);
    s->dtype = test_below(random, 3) == 0 ? PST_DTYPE_F16 : PST_DTYPE_F32;
    s->channels = 1 + test_below(random, 2);
    s->is_loud = test_below(random, 8) == 0;
}

/* Writes a row's source to the run: noise, silence, or numbers of very different size. */
static void write_source(struct test_random *random, const struct sounds *s, size_t n, float *to)
{
    uint32_t kind = test_below(random, 4);
    for (size_t i = 0; i < n; i++) {
        float v = (float)test_below(random, 20001) / 10000.0f - 1;
        v = kind == 0 ? 0 : kind == 1 ? ldexpf(v, -(int)test_below(random, 60)) : v;
        to[i] = s->is_loud ? ldexpf(v, 90) : v;
    }
}

/* Makes a row by the CPU, and its waveforms for the GPU. */
static void make_row(struct test_random *random, const struct sounds *s,
                     struct psti_gpu_block *block, uint32_t row, void *expected)
{
    struct psti_sound_draw draw;
    struct pst_error err;
    const struct psti_sound_key key = {.seed = random->seed, .sample = random->n++};
    const struct psti_sound_part source = {
        .rate = RATE, .channels = s->channels, .length = 500 + test_below(random, 3000)};
    float *waves, *copy;
    assert_ok(psti_sound_chain_draw(s->chain, &key, &source, &draw, &err));
    size_t n = (size_t)draw.source.n * source.channels;
    float *to = psti_sound_run_begin(s->run, s->chain, &draw, &err);
    assert_non_null(to);
    copy = malloc((n + 1) * sizeof *copy);
    write_source(random, s, n, copy);
    memcpy(to, copy, n * sizeof *to);
    assert_ok(psti_sound_run_end(s->run, s->chain, &draw, expected, &err));
    to = psti_sound_run_begin(s->run, s->chain, &draw, &err);
    memcpy(to, copy, n * sizeof *to);
    assert_ok(psti_gpu_block_waves(block, 0, row, &draw, &waves, NULL, &err));
    psti_sound_run_waves(s->run, s->chain, &draw, waves);
    psti_gpu_block_done(block, 0, row);
    free(copy);
}

static void count_round(const struct sounds *s, const void *expected, size_t n)
{
    const struct psti_gpu_sound *sound = s->field->sound;
    n_run++;
    n_steps[sound->n_steps < 7 ? sound->n_steps : 7]++;
    n_channels[s->channels]++;
    n_f16 += s->dtype == PST_DTYPE_F16;
    for (uint32_t i = 0; i < sound->steps[0].n_radices; i++)
        n_radix[sound->steps[0].radices[i]]++;
    for (size_t i = 0; i < n && s->dtype == PST_DTYPE_F32; i++)
        n_nan += isnan(((const float *)expected)[i]) != 0;
}

/* Runs rows in both ways, with one of them not wanted and places turned around. */
static void compare(struct test_random *random, const struct sounds *s)
{
    const struct psti_gpu_field *field = s->field;
    const struct psti_gpu_item_size item = {.form = PST_FORM_RAW};
    struct psti_gpu_block_size size;
    struct psti_gpu_block *block;
    struct psti_gpu_work work;
    struct pst_error err;
    struct exec exec;
    size_t nbytes = psti_gpu_field_row_nbytes(field);
    psti_gpu_block_size(&field, &item, 1, ROWS, &size);
    exec_open(&exec, &size);
    exec_add_tables(&exec, &field, 1);
    assert_ok(psti_gpu_block_open(&field, 1, ROWS, &exec.memory, &block, &err));
    unsigned char *expected = malloc(ROWS * nbytes), *found = exec_alloc_out(ROWS * nbytes);
    memset(found, 0x3c, ROWS * nbytes);
    for (uint32_t r = 0; r < ROWS; r++)
        make_row(random, s, block, r, expected + r * nbytes);
    const uint32_t left_out = test_below(random, ROWS + 1);
    uint32_t places[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        places[r] = r == left_out ? PSTI_GPU_NOWHERE : ROWS - 1 - r;
    const uint64_t out = (uintptr_t)found;
    assert_ok(psti_gpu_block_work(block, &out, places, &work, &err));
    assert_int_equal(work.n_launches, field->sound->n_steps);
    assert_int_equal(work.statuses_nbytes, 0);
    exec_run(&exec, &work);
    for (uint32_t r = 0; r < ROWS; r++) {
        const unsigned char *row = found + (ROWS - 1 - r) * nbytes;
        if (r != left_out)
            assert_memory_equal(row, expected + r * nbytes, nbytes);
        for (size_t i = 0; r == left_out && i < nbytes; i++)
            assert_int_equal(row[i], 0x3c);
    }
    count_round(s, expected, ROWS * nbytes / sizeof(float));
    psti_gpu_block_close(&block);
    exec_close(&exec);
    exec_free_out(found, ROWS * nbytes);
    free(expected);
}

/* Compiles the chain and finds its shape. Returns false if a sound is too short for it. */
static bool open_sounds(struct sounds *s)
{
    struct psti_sound_draw draw;
    struct pst_error err;
    const struct psti_sound_key key = {.seed = 1};
    const struct psti_sound_part source = {.rate = RATE, .channels = s->channels, .length = 900};
    if (psti_sound_chain_open(s->ops, s->n_ops, s->dtype, &s->chain, &err) != PST_OK)
        return false;
    if (psti_sound_chain_draw(s->chain, &key, &source, &draw, &err) != PST_OK) {
        psti_sound_chain_close(&s->chain);
        return false;
    }
    memcpy(s->shape, draw.shape, sizeof s->shape);
    assert_ok(psti_gpu_field_open_sound(s->chain, s->shape, &s->field, &err));
    return true;
}

static void close_sounds(struct sounds *s)
{
    psti_gpu_field_close(&s->field);
    psti_sound_chain_close(&s->chain);
}

static void random_chains(void **state)
{
    struct test_random random = {41, 0};
    struct sounds s = {.n_ops = 0};
    struct pst_error err;
    (void)state;
    assert_ok(psti_sound_run_open(&s.run, &err));
    for (int i = 0; i < 900 / SLOWER; i++) {
        choose_ops(&random, &s);
        if (!open_sounds(&s))
            continue;
        assert_null(psti_gpu_field_refusal(s.field));
        if (s.shape[0] * s.shape[1] * s.shape[2] < 1 << 16)
            compare(&random, &s);
        close_sounds(&s);
    }
    psti_sound_run_close(&s.run);
    print_message("%u chains: %u of 1 step, %u of 2, %u of 3, %u of 4; %u stereo, %u halves\n",
                  n_run, n_steps[1], n_steps[2], n_steps[3], n_steps[4], n_channels[2], n_f16);
    assert_true(n_run > 500 / SLOWER && n_f16 > 50 / SLOWER && n_nan > 0);
    assert_true(n_steps[1] > 0 && n_steps[2] > 0 && n_steps[3] > 0 && n_steps[4] > 0);
    static const uint32_t radices[] = {2, 3, 4, 5, 7, 11, 13};
    for (size_t i = 0; i < sizeof radices / sizeof *radices; i++)
        assert_true(n_radix[radices[i]] > 0);
}

static void open_sized(struct sounds *s, uint32_t n_fft)
{
    s->ops[0] = op_of(PST_AUDIO_OP_CENTER_CLIP);
    s->ops[0].n_samples = 40000;
    s->ops[1] = op_of(PST_AUDIO_OP_SPECTROGRAM);
    s->ops[1].n_fft = n_fft;
    s->n_ops = 2;
    s->dtype = PST_DTYPE_F32;
    s->channels = 1;
    assert_true(open_sounds(s));
}

/* Adds one row to a block of one row, and returns the result. */
static enum pst_status add_row(const struct sounds *s)
{
    const struct psti_gpu_item_size item = {.form = PST_FORM_RAW};
    const struct psti_gpu_field *field = s->field;
    const struct psti_sound_key key = {.seed = 1};
    const struct psti_sound_part source = {.rate = RATE, .channels = 1, .length = 40000};
    struct psti_gpu_block_size size;
    struct psti_gpu_block *block;
    struct psti_sound_draw draw;
    struct pst_error err;
    struct exec exec;
    float *waves;
    psti_gpu_block_size(&field, &item, 1, 1, &size);
    exec_open(&exec, &size);
    assert_ok(psti_gpu_block_open(&field, 1, 1, &exec.memory, &block, &err));
    assert_ok(psti_sound_chain_draw(s->chain, &key, &source, &draw, &err));
    enum pst_status status = psti_gpu_block_waves(block, 0, 0, &draw, &waves, NULL, &err);
    psti_gpu_block_close(&block);
    exec_close(&exec);
    return status;
}

/* The largest frames that fit into shared memory, and frames that do not. */
static void large_frames(void **state)
{
    struct test_random random = {43, 0};
    struct sounds s = {.n_ops = 0};
    struct pst_error err;
    (void)state;
    assert_ok(psti_sound_run_open(&s.run, &err));
    static const uint32_t fit[] = {16384, 8125}, too_large[] = {32768, 8281, 65536};
    for (int i = 0; i < 2; i++) {
        open_sized(&s, fit[i]);
        assert_null(psti_gpu_field_refusal(s.field));
        compare(&random, &s);
        close_sounds(&s);
    }
    for (int i = 0; i < 3; i++) {
        open_sized(&s, too_large[i]);
        assert_non_null(strstr(psti_gpu_field_refusal(s.field), "shared memory"));
        assert_int_equal(add_row(&s), PST_ERROR_UNSUPPORTED);
        close_sounds(&s);
    }
    psti_sound_run_close(&s.run);
}

/* A chain is refused if it makes no features, or features whose length is not fixed. A row whose
 * shape is not the field's is refused. */
static void refusals(void **state)
{
    struct sounds s = {.n_ops = 1, .channels = 1, .dtype = PST_DTYPE_F32};
    struct psti_gpu_field *field;
    struct pst_error err;
    const int64_t shape[3] = {1, 201, 5};
    (void)state;
    s.ops[0] = op_of(PST_AUDIO_OP_CENTER_CLIP);
    s.ops[0].n_samples = 900;
    assert_ok(psti_sound_chain_open(s.ops, 1, s.dtype, &s.chain, &err));
    assert_int_equal(psti_gpu_field_open_sound(s.chain, shape, &field, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_null(field);
    psti_sound_chain_close(&s.chain);
    s.ops[0] = op_of(PST_AUDIO_OP_SPECTROGRAM);
    assert_ok(psti_sound_chain_open(s.ops, 1, s.dtype, &s.chain, &err));
    assert_int_equal(psti_gpu_field_open_sound(s.chain, shape, &field, &err),
                     PST_ERROR_UNSUPPORTED);
    psti_sound_chain_close(&s.chain);
    open_sized(&s, 400);
    psti_gpu_field_close(&s.field);
    s.shape[2]++;
    assert_ok(psti_gpu_field_open_sound(s.chain, s.shape, &s.field, &err));
    assert_int_equal(add_row(&s), PST_ERROR_UNSUPPORTED);
    close_sounds(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_chains),
                                       cmocka_unit_test(large_frames), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, exec_end);
}
