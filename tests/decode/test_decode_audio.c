/* test_decode_audio.c - tests audio files in memory: kinds of WAV, any part of them, damaged files,
 * and the behaviour with and without libsndfile. */
#include "test.h"

#include "base/bits.h"
#include "decode/decode_audio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 100, CHANNELS = 3, HEAD = 44, FILE_MAX = HEAD + FRAMES * CHANNELS * 8 + 64 };

struct kind {
    uint32_t tag, bits;
};
static const struct kind kinds[] = {{1, 8}, {1, 16}, {1, 24}, {1, 32}, {3, 32}, {3, 64}};

static double value_at(uint32_t i, uint32_t c) { return 0.9 * sin(0.1 * i + c); }

static void put_value(uint8_t *to, struct kind kind, double v)
{
    int32_t whole = (int32_t)(v * 2147483000);
    float narrow = (float)v;
    if (kind.tag == 3 && kind.bits == 32)
        memcpy(to, &narrow, 4);
    else if (kind.tag == 3)
        memcpy(to, &v, 8);
    else if (kind.bits == 8)
        *to = (uint8_t)((whole >> 24) + 128);
    else
        memcpy(to, (const uint8_t *)&whole + 4 - kind.bits / 8, kind.bits / 8);
}

/* Writes a WAV and returns its length. */
static size_t make_wav(uint8_t *file, struct kind kind, uint32_t n_channels)
{
    uint32_t block = n_channels * kind.bits / 8, nbytes = FRAMES * block;
    memcpy(file, "RIFF....WAVEfmt ", 16);
    psti_store_u32(file + 4, HEAD - 8 + nbytes);
    psti_store_u32(file + 16, 16);
    psti_store_u16(file + 20, (uint16_t)kind.tag);
    psti_store_u16(file + 22, (uint16_t)n_channels);
    psti_store_u32(file + 24, 8000);
    psti_store_u32(file + 28, 8000 * block);
    psti_store_u16(file + 32, (uint16_t)block);
    psti_store_u16(file + 34, (uint16_t)kind.bits);
    memcpy(file + 36, "data", 4);
    psti_store_u32(file + 40, nbytes);
    for (uint32_t i = 0; i < FRAMES; i++)
        for (uint32_t c = 0; c < n_channels; c++)
            put_value(file + HEAD + i * block + c * kind.bits / 8, kind, value_at(i, c));
    return HEAD + nbytes;
}

static void kinds_of_wav(void **state)
{
    (void)state;
    struct pst_error err;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint8_t file[FILE_MAX];
        size_t nbytes = make_wav(file, kinds[k], CHANNELS);
        struct pst_audio_info info;
        float whole[FRAMES * CHANNELS], part[30 * CHANNELS];
        assert_ok(pst_audio_probe(file, nbytes, &info, sizeof info, &err));
        assert_true(info.rate == 8000 && info.channels == CHANNELS && info.n_samples == FRAMES &&
                    info.bits == kinds[k].bits && info.is_float == (kinds[k].tag == 3));
        assert_string_equal(info.codec, "wav");
        assert_ok(pst_audio_decode(file, nbytes, 0, FRAMES, whole, &err));
        double step = kinds[k].tag == 3 ? 1e-6 : pow(2, 2 - (double)kinds[k].bits) + 1e-6;
        for (uint32_t i = 0; i < FRAMES; i++)
            for (uint32_t c = 0; c < CHANNELS; c++)
                assert_true(fabs(whole[i * CHANNELS + c] - value_at(i, c)) < step);
        assert_ok(pst_audio_decode(file, nbytes, 40, 30, part, &err));
        assert_memory_equal(part, whole + 40 * CHANNELS, sizeof part);
        assert_ok(pst_audio_decode(file, nbytes, FRAMES, 0, part, &err));
        assert_int_equal(pst_audio_decode(file, nbytes, FRAMES - 1, 2, part, &err),
                         PST_ERROR_ARGUMENT);
        assert_int_equal(pst_audio_decode(file, nbytes, UINT64_MAX, 2, part, &err),
                         PST_ERROR_ARGUMENT);
    }
}

/* WAV files with other chunks, odd lengths, an extensible format, and missing lengths. */
static void headers_of_wav(void **state)
{
    (void)state;
    struct pst_error err;
    uint8_t file[FILE_MAX], other[FILE_MAX + 200] = {0};
    struct pst_audio_info info;
    size_t nbytes = make_wav(file, kinds[1], 2);
    memcpy(other, file, 12);
    memcpy(other + 12, "LIST\5\0\0\0abcde\0", 14);
    memcpy(other + 26, "fmt \50\0\0\0", 8);
    memcpy(other + 34, file + 20, 16);
    psti_store_u16(other + 34, 0xFFFE);
    psti_store_u16(other + 34 + 24, 1);
    memcpy(other + 74, file + 36, nbytes - 36);
    float a[2 * FRAMES], b[2 * FRAMES];
    assert_ok(pst_audio_decode(file, nbytes, 0, FRAMES, a, &err));
    assert_ok(pst_audio_decode(other, nbytes + 38, 0, FRAMES, b, &err));
    assert_memory_equal(a, b, sizeof a);
    static const struct {
        uint32_t riff, data;
        bool streamed;
    } sizes[] = {{0, 0, true},          {UINT32_MAX, UINT32_MAX, true},
                 {UINT32_MAX, 0, true}, {HEAD - 8, 0, true},
                 {0, UINT32_MAX, true}, {FRAMES * 2 * 2 + HEAD - 8, 0, false}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        psti_store_u32(file + 4, sizes[i].riff);
        psti_store_u32(file + 40, sizes[i].data);
        /* the last sample is incomplete */
        assert_ok(pst_audio_probe(file, nbytes + 1, &info, sizeof info, &err));
        assert_int_equal(info.n_samples, sizes[i].streamed ? FRAMES : 0);
    }
    psti_store_u32(file + 40, 0);
    assert_ok(pst_audio_probe(file, HEAD, &info, sizeof info, &err));
    assert_int_equal(info.n_samples, 0);
}

static enum pst_status probe(const uint8_t *file, size_t nbytes, struct pst_error *err)
{
    struct pst_audio_info info;
    return pst_audio_probe(file, nbytes, &info, sizeof info, err);
}

static void damaged_wav(void **state)
{
    (void)state;
    struct pst_error err;
    uint8_t file[FILE_MAX], good[FILE_MAX];
    size_t nbytes = make_wav(good, kinds[1], 2);
    assert_int_equal(probe(good, 0, &err), PST_ERROR_TRUNCATED);
    for (size_t n = 12; n < nbytes; n++) {
        assert_int_equal(probe(good, n, &err), PST_ERROR_TRUNCATED);
        assert_string_equal(err.codec, "wav");
        assert_string_equal(err.room, "decode");
    }
    static const struct {
        size_t at;
        uint16_t value;
    } wrong[] = {{22, 0}, {22, 2000}, {24, 0}, {32, 3}, {34, 0}, {34, 33}, {16, 10}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(file, good, nbytes);
        psti_store_u16(file + wrong[i].at, wrong[i].value);
        assert_int_equal(probe(file, nbytes, &err), PST_ERROR_CORRUPT);
    }
}

/* A NaN or infinity is an error only if its sample is decoded. */
static void not_finite(void **state)
{
    (void)state;
    struct pst_error err;
    uint8_t file[FILE_MAX];
    float out[FRAMES * CHANNELS], bad[] = {NAN, INFINITY, -INFINITY};
    size_t nbytes = make_wav(file, kinds[4], CHANNELS);
    for (int i = 0; i < 3; i++) {
        memcpy(file + HEAD + (20 * CHANNELS + 1) * 4, &bad[i], 4);
        assert_int_equal(pst_audio_decode(file, nbytes, 0, FRAMES, out, &err), PST_ERROR_CORRUPT);
        assert_non_null(strstr(err.text, "sample 20 of channel 1"));
        assert_ok(pst_audio_decode(file, nbytes, 21, FRAMES - 21, out, &err));
    }
}

/* Only the header and the requested samples are read. */
static void head_alone(void **state)
{
    (void)state;
    struct pst_error err;
    uint8_t file[FILE_MAX];
    size_t nbytes = make_wav(file, kinds[1], 2);
    struct psti_audio audio;
    uint8_t *head = malloc(HEAD);
    memcpy(head, file, HEAD);
    assert_ok(psti_decode_audio_open(
        &audio, &(struct psti_audio_file){.bytes = head, .n_here = HEAD, .nbytes = nbytes}, &err));
    assert_true(audio.info.n_samples == FRAMES && audio.wav.data == HEAD);
    psti_decode_audio_close(&audio);
    free(head);
    assert_int_equal(
        psti_decode_audio_open(
            &audio, &(struct psti_audio_file){.bytes = file, .n_here = 40, .nbytes = nbytes}, &err),
        PST_ERROR_TRUNCATED);
    psti_store_u16(file + 20, 7); /* mu-law, which only libsndfile decodes, from a whole file */
    assert_int_equal(psti_decode_audio_open(
                         &audio,
                         &(struct psti_audio_file){.bytes = file, .n_here = HEAD, .nbytes = nbytes},
                         &err),
                     PST_ERROR_UNSUPPORTED);
}

static void by_sndfile(void **state)
{
    (void)state;
    struct pst_error err;
    char version[256];
    uint8_t file[FILE_MAX], noise[300];
    float out[FRAMES * 2], part[10 * 2];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(i * 37 + 11);
    assert_int_equal(probe(noise, sizeof noise, &err), PST_ERROR_UNSUPPORTED);
    if (!pst_audio_has_sndfile(version, sizeof version)) {
        assert_string_equal(err.room, "libsndfile");
        skip();
    }
    size_t nbytes = make_wav(file, (struct kind){1, 8}, 2);
    psti_store_u16(file + 20, 7);
    assert_ok(pst_audio_decode(file, nbytes, 0, FRAMES, out, &err));
    assert_ok(pst_audio_decode(file, nbytes, 50, 10, part, &err));
    assert_memory_equal(part, out + 50 * 2, sizeof part);
    memcpy(noise, "fLaC", 4);
    assert_int_equal(probe(noise, sizeof noise, &err), PST_ERROR_CORRUPT);
    assert_string_equal(err.codec, "flac");
}

static void without_sndfile(void **state)
{
    (void)state;
    struct pst_error err;
    char reason[256];
    uint8_t noise[300] = "fLaC";
    const char *named = getenv("PENSTOCK_SNDFILE");
    char *before = named ? strdup(named) : NULL;
    setenv("PENSTOCK_SNDFILE", "/nowhere/libsndfile.so", 1);
    assert_false(pst_audio_has_sndfile(reason, sizeof reason));
    assert_non_null(strstr(reason, "libsndfile1"));
    assert_int_equal(probe(noise, sizeof noise, &err), PST_ERROR_UNSUPPORTED);
    assert_string_equal(err.room, "libsndfile"); /* a missing library is no fault of the sample */
    if (before)
        setenv("PENSTOCK_SNDFILE", before, 1);
    else
        unsetenv("PENSTOCK_SNDFILE");
    free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_wav),   cmocka_unit_test(headers_of_wav),
        cmocka_unit_test(damaged_wav),    cmocka_unit_test(not_finite),
        cmocka_unit_test(head_alone),     cmocka_unit_test(by_sndfile),
        cmocka_unit_test(without_sndfile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
