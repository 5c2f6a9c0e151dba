/* test_decode_bad.c - tests bad input and failures: truncated files, flipped bits, decompression
 * bombs, limits, failed allocations. No decode crashes or gives wrong pixels without an error.
 * Every error names the codec. */
#include "decode_make.h"

#include "base/fault.h"

#include <stdlib.h>

#define SIDE_MAX_NBYTES (64 * 64 * 8)

struct subject {
    const char *name;
    struct bytes file;
    struct pst_image_info info;
    uint8_t pixels[SIDE_MAX_NBYTES];
    size_t row_nbytes;
};

/* Copies bytes to heap memory of exactly `nbytes`, so that AddressSanitizer detects any read past
 * them. */
static uint8_t *exact_copy(const uint8_t *from, size_t nbytes)
{
    uint8_t *copy = malloc(nbytes + !nbytes);
    assert_non_null(copy);
    memcpy(copy, from, nbytes);
    return copy;
}

static void init_subject(struct subject *subject, const char *name, struct bytes file)
{
    struct pst_error err;
    uint8_t channels, bits;
    subject->name = name;
    subject->file = file;
    assert_ok(pst_image_probe(file.data, file.nbytes, PST_FORM_NONE, NULL, &subject->info,
                              sizeof subject->info, &err));
    psti_decode_output(&subject->info, NULL, &channels, &bits);
    subject->row_nbytes = (size_t)subject->info.width * channels * (bits / 8);
    assert_ok(pst_image_decode(file.data, file.nbytes, PST_FORM_NONE, NULL, subject->pixels,
                               sizeof subject->pixels, subject->row_nbytes, &err));
}

enum { N_SUBJECTS = 13 };

static void make_subjects(struct subject *subjects)
{
    static const struct jpeg_spec jpegs[] = {
        {.height = 33, .width = 35, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 80},
        {.height = 18, .width = 17, .colours = COLOURS_YCC, .quality = 50, .progressive = true},
        {.height = 24, .width = 20, .colours = COLOURS_GRAY, .quality = 95, .restart = 1},
        {.height = 24, .width = 20, .colours = COLOURS_YCC, .quality = 90, .many_scans = true},
        {.height = 17, .width = 20, .colours = COLOURS_YCCK, .quality = 90, .orientation = 6},
        {.height = 24, .width = 20, .colours = COLOURS_YCC, .quality = 90, .arithmetic = true},
        {.height = 40, .width = 20, .colours = COLOURS_YCC, .quality = 90, .restart = 2},
    };
    static const struct png_spec pngs[] = {
        {.height = 19, .width = 23, .colour_type = 2, .depth = 8},
        {.height = 19, .width = 23, .colour_type = 6, .depth = 16},
        {.height = 19, .width = 23, .colour_type = 3, .depth = 4, .n_palette = 9, .trns = true},
        {.height = 19, .width = 23, .colour_type = 0, .depth = 1, .interlaced = true},
        {.height = 19, .width = 23, .colour_type = 0, .depth = 16, .trns = true},
        {.height = 19, .width = 23, .colour_type = 2, .depth = 8, .interlaced = true, .trns = true},
    };
    for (size_t i = 0; i < 7; i++)
        init_subject(&subjects[i], "jpeg", make_jpeg(&jpegs[i], i));
    for (size_t i = 0; i < 6; i++)
        init_subject(&subjects[7 + i], "png", make_png(&pngs[i], i));
}

static struct subject subjects[N_SUBJECTS];

static int open_subjects(void **state)
{
    (void)state;
    make_subjects(subjects);
    return 0;
}

static int close_subjects(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SUBJECTS; i++)
        bytes_free(&subjects[i].file);
    return 0;
}

static enum pst_status decode(const uint8_t *data, size_t nbytes, const struct subject *subject,
                              uint8_t *pixels, struct pst_error *err)
{
    memset(pixels, 0x5A, SIDE_MAX_NBYTES);
    pst_error_clear(err);
    return pst_image_decode(data, nbytes, PST_FORM_NONE, NULL, pixels, SIDE_MAX_NBYTES,
                            subject->row_nbytes, err);
}

static void test_cut_short_at_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SUBJECTS; i++) {
        const struct subject *subject = &subjects[i];
        uint8_t pixels[SIDE_MAX_NBYTES];
        struct pst_error err;
        for (size_t n = 0; n < subject->file.nbytes; n++) {
            uint8_t *cut = exact_copy(subject->file.data, n);
            enum pst_status status = decode(cut, n, subject, pixels, &err);
            if (status == PST_OK) { /* the missing bytes contain no pixels */
                assert_true(subject->file.nbytes - n <= 16);
                assert_memory_equal(pixels, subject->pixels,
                                    subject->row_nbytes * subject->info.height);
            } else {
                assert_int_equal(status, PST_ERROR_TRUNCATED);
                assert_int_equal(err.status, status);
                assert_string_equal(err.room, "decode");
                assert_true(n < 1 || strcmp(err.codec, subject->name) == 0);
                assert_true(err.offset >= 0 && (size_t)err.offset <= n);
            }
            free(cut);
        }
    }
}

/* Files are truncated within the pixels and end with an EOI marker, like incomplete uploads. */
static void test_cut_and_closed_jpeg(void **state)
{
    static const uint8_t end[] = {0xFF, 0xD9};
    (void)state;
    for (size_t i = 0; i < 7; i++) {
        const struct subject *subject = &subjects[i];
        /* these may stay valid: a progressive file may lack a scan, and zeroes after arithmetic
         * codes are valid codes */
        if (i == 1 || i == 3 || i == 5)
            continue;
        uint8_t pixels[SIDE_MAX_NBYTES];
        struct pst_error err;
        size_t n = subject->file.nbytes * 3 / 4;
        uint8_t *cut = exact_copy(subject->file.data, n + 2);
        memcpy(cut + n, end, 2);
        assert_int_equal(decode(cut, n + 2, subject, pixels, &err), PST_ERROR_CORRUPT);
        assert_string_equal(err.codec, "jpeg");
        free(cut);
    }
}

static void test_flipped_bits(void **state)
{
    uint64_t seed = 11;
    (void)state;
    for (size_t i = 0; i < N_SUBJECTS; i++) {
        const struct subject *subject = &subjects[i];
        uint8_t *file = exact_copy(subject->file.data, subject->file.nbytes);
        uint8_t *pixels = malloc(SIDE_MAX_NBYTES);
        for (int k = 0; k < 1500; k++) {
            size_t at = random_below(&seed, (uint32_t)subject->file.nbytes);
            uint8_t mask = (uint8_t)(1u << random_below(&seed, 8));
            struct pst_error err;
            file[at] ^= mask;
            enum pst_status status = decode(file, subject->file.nbytes, subject, pixels, &err);
            assert_true(status == PST_OK || (err.status == status && err.text[0]));
            /* If the first bytes match no form, the error names no codec. */
            assert_true(status == PST_OK || status == PST_ERROR_UNSUPPORTED || err.codec[0]);
            /* In a PNG checksums cover every byte except the end. */
            if (status == PST_OK && subject->info.form == PST_FORM_PNG)
                assert_memory_equal(pixels, subject->pixels,
                                    subject->row_nbytes * subject->info.height);
            file[at] ^= mask;
        }
        free(pixels);
        free(file);
    }
}

static void test_wrong_magic(void **state)
{
    static const uint8_t gif[] = "GIF89a......", riff[] = "RIFF\4\0\0\0WAVEdata";
    struct pst_image_info info;
    struct pst_error err;
    (void)state;
    assert_int_equal(
        pst_image_probe(gif, sizeof gif, PST_FORM_NONE, NULL, &info, sizeof info, &err),
        PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "47 49 46 38 39 61"));
    assert_string_equal(err.codec, "");
    assert_int_equal(
        pst_image_probe(riff, sizeof riff, PST_FORM_WEBP, NULL, &info, sizeof info, &err),
        PST_ERROR_UNSUPPORTED);
    assert_string_equal(err.codec, "webp");
    const struct subject *jpeg = &subjects[0];
    assert_int_equal(pst_image_probe(jpeg->file.data, jpeg->file.nbytes, PST_FORM_PNG, NULL, &info,
                                     sizeof info, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "FF D8 FF"));
    assert_string_equal(err.codec, "png");
    assert_int_equal(pst_image_probe(gif, 0, PST_FORM_NONE, NULL, &info, sizeof info, &err),
                     PST_ERROR_TRUNCATED);
    assert_int_equal(pst_image_probe(NULL, 0, PST_FORM_JPEG, NULL, &info, sizeof info, &err),
                     PST_ERROR_TRUNCATED);
    assert_string_equal(err.codec, "jpeg");
    assert_int_equal(pst_image_probe(gif, sizeof gif, PST_FORM_RAW, NULL, &info, sizeof info, &err),
                     PST_ERROR_ARGUMENT);
}

static void test_wrong_arguments(void **state)
{
    const struct subject *subject = &subjects[0];
    struct pst_decode_options options = {.struct_size = sizeof options, .channels = 2};
    const struct psti_rect bad[] = {
        {0, 0, 0, 5}, {0, 0, 5, 0}, {0, 1, 5, 35}, {20, 0, 14, 5}, {UINT32_MAX, 0, 1, 1}};
    struct psti_decoder *decoder = NULL;
    struct pst_image_info info;
    struct pst_error err;
    uint8_t pixels[SIDE_MAX_NBYTES];
    (void)state;
    assert_int_equal(pst_image_probe(subject->file.data, subject->file.nbytes, PST_FORM_JPEG,
                                     &options, &info, sizeof info, &err),
                     PST_ERROR_ARGUMENT);
    options.channels = 0;
    options.bits = 12;
    assert_int_equal(pst_image_probe(subject->file.data, subject->file.nbytes, PST_FORM_JPEG,
                                     &options, &info, sizeof info, &err),
                     PST_ERROR_ARGUMENT);
    options.struct_size = 0;
    assert_int_equal(pst_image_probe(subject->file.data, subject->file.nbytes, PST_FORM_JPEG,
                                     &options, &info, sizeof info, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_image_decode(subject->file.data, subject->file.nbytes, PST_FORM_JPEG, NULL,
                                      pixels, subject->row_nbytes * subject->info.height - 1,
                                      subject->row_nbytes, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_image_decode(subject->file.data, subject->file.nbytes, PST_FORM_JPEG, NULL,
                                      pixels, sizeof pixels, subject->row_nbytes - 1, &err),
                     PST_ERROR_ARGUMENT);
    assert_ok(psti_decode_open(&decoder, &err));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(psti_decode_region(decoder, subject->file.data, subject->file.nbytes,
                                            &subject->info, NULL, &bad[i], pixels, 4096, &err),
                         PST_ERROR_ARGUMENT);
    psti_decode_close(&decoder);
    psti_decode_close(&decoder);
}

/* The caller's options may be an older, shorter struct. Members that it lacks count as 0. */
static void test_shorter_options(void **state)
{
    const struct subject *subject = &subjects[4]; /* orientation 6 */
    struct pst_decode_options options = {.struct_size =
                                             offsetof(struct pst_decode_options, max_pixels),
                                         .ignore_orientation = true,
                                         .max_pixels = 1};
    struct pst_image_info info;
    struct pst_error err;
    (void)state;
    assert_ok(pst_image_probe(subject->file.data, subject->file.nbytes, PST_FORM_NONE, &options,
                              &info, sizeof info, &err));
    assert_int_equal(info.height, 17);
    options.struct_size = offsetof(struct pst_decode_options, ignore_orientation);
    assert_ok(pst_image_probe(subject->file.data, subject->file.nbytes, PST_FORM_NONE, &options,
                              &info, sizeof info, &err));
    assert_int_equal(info.height, 20);
}

/* Headers state 65500 x 65500 pixels, or a side longer than allowed. */
static void test_bombs(void **state)
{
    struct pst_decode_options options = {.struct_size = sizeof options, .max_pixels = UINT64_MAX};
    struct psti_decoder *decoder = NULL;
    struct psti_decode_stats stats;
    struct pst_image_info info;
    struct pst_error err;
    (void)state;
    assert_ok(psti_decode_open(&decoder, &err));
    psti_decode_set_scratch_limit(decoder, 4 << 20);
    for (size_t i = 0; i < N_SUBJECTS; i++) {
        uint8_t *file = exact_copy(subjects[i].file.data, subjects[i].file.nbytes);
        uint8_t *size = file + 16; /* offset of the size in a PNG */
        if (subjects[i].info.form == PST_FORM_JPEG) {
            size = file;
            while (size[0] != 0xFF || size[1] < 0xC0 || size[1] > 0xCA || size[1] == 0xC4)
                size++;
            size += 5;
            size[0] = size[2] = 0xFF; /* 65500 */
            size[1] = size[3] = 0xDC;
        } else {
            memcpy(size, "\0\0\xFF\xDC\0\0\xFF\xDC", 8);
        }
        size_t nbytes = subjects[i].file.nbytes;
        assert_int_equal(
            pst_image_probe(file, nbytes, PST_FORM_NONE, NULL, &info, sizeof info, &err),
            PST_ERROR_LIMIT);
        assert_string_equal(err.codec, subjects[i].name);
        assert_ok(pst_image_probe(file, nbytes, PST_FORM_NONE, &options, &info, sizeof info, &err));
        const struct psti_rect corner = {info.height - 1, 0, 1, 1};
        uint8_t pixel[8];
        enum pst_status status = psti_decode_region(decoder, file, nbytes, &info, &options, &corner,
                                                    pixel, sizeof pixel, &err);
        assert_true(status != PST_OK);
        assert_string_equal(err.codec, subjects[i].name);
        if (info.progressive)
            assert_true(status == PST_ERROR_LIMIT || info.form == PST_FORM_PNG);
        psti_decode_stats(decoder, &stats);
        assert_true(stats.scratch_nbytes <= 4 << 20);
        if (info.form == PST_FORM_PNG) {
            memcpy(file + 16, "\0\1\0\0", 4);
            assert_int_equal(
                pst_image_probe(file, nbytes, PST_FORM_NONE, &options, &info, sizeof info, &err),
                PST_ERROR_LIMIT);
        }
        free(file);
    }
    psti_decode_close(&decoder);
}

static void test_max_pixels(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SUBJECTS; i++) {
        const struct subject *subject = &subjects[i];
        struct pst_decode_options options = {.struct_size = sizeof options};
        struct pst_image_info info;
        struct pst_error err;
        options.max_pixels = (uint64_t)subject->info.height * subject->info.width;
        assert_ok(pst_image_probe(subject->file.data, subject->file.nbytes, PST_FORM_NONE, &options,
                                  &info, sizeof info, &err));
        options.max_pixels--;
        assert_int_equal(pst_image_probe(subject->file.data, subject->file.nbytes, PST_FORM_NONE,
                                         &options, &info, sizeof info, &err),
                         PST_ERROR_LIMIT);
    }
}

/* Tries limits from no scratch up to enough. Decoding fails with LIMIT at first, then gives the
 * right pixels. No decoder holds more scratch than its limit. */
static void test_scratch_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SUBJECTS; i++) {
        const struct subject *subject = &subjects[i];
        const struct psti_rect whole = {0, 0, subject->info.height, subject->info.width};
        uint8_t pixels[SIDE_MAX_NBYTES];
        struct psti_decoder *decoder = NULL;
        struct psti_decode_stats stats;
        struct pst_error err;
        assert_ok(psti_decode_open(&decoder, &err));
        enum pst_status status = PST_ERROR_LIMIT;
        uint64_t limit = 0;
        for (; status == PST_ERROR_LIMIT; limit += 1000) {
            assert_true(limit < 4 << 20);
            psti_decode_set_scratch_limit(decoder, limit);
            status =
                psti_decode_region(decoder, subject->file.data, subject->file.nbytes,
                                   &subject->info, NULL, &whole, pixels, subject->row_nbytes, &err);
            assert_true(status != PST_ERROR_LIMIT || strcmp(err.codec, subject->name) == 0);
            psti_decode_stats(decoder, &stats);
            assert_true(stats.scratch_nbytes <= limit);
        }
        assert_ok(status);
        assert_true(limit > 1000);
        assert_memory_equal(pixels, subject->pixels, subject->row_nbytes * subject->info.height);
        psti_decode_close(&decoder);
    }
}

struct stopper {
    uint32_t calls, stop_at;
};

static enum pst_status stop_sink(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                 uint32_t n_rows)
{
    struct stopper *stopper = ctx;
    (void)rows;
    (void)row_nbytes;
    (void)y;
    (void)n_rows;
    return ++stopper->calls == stopper->stop_at ? PST_ERROR_CANCELLED : PST_OK;
}

static void test_sink_stops(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SUBJECTS; i++) {
        const struct subject *subject = &subjects[i];
        const struct psti_rect whole = {0, 0, subject->info.height, subject->info.width};
        struct psti_decoder *decoder = NULL;
        struct pst_error err;
        assert_ok(psti_decode_open(&decoder, &err));
        for (uint32_t stop_at = 1; stop_at <= 2; stop_at++) {
            struct stopper stopper = {0, stop_at};
            assert_int_equal(psti_decode_rows(decoder, subject->file.data, subject->file.nbytes,
                                              &subject->info, NULL, &whole, stop_sink, &stopper,
                                              &err),
                             PST_ERROR_CANCELLED);
            assert_int_equal(stopper.calls, stop_at);
        }
        /* The decoder works again afterwards. */
        assert_true(
            region_equals(decoder, &subject->file, &subject->info, NULL, NULL, subject->pixels));
        psti_decode_close(&decoder);
    }
}

/* One decoder decodes good and bad images by turns. A failed decode has no effect on later ones. */
static void test_good_after_bad(void **state)
{
    struct psti_decoder *decoder = NULL;
    struct pst_error err;
    uint64_t seed = 3;
    (void)state;
    assert_ok(psti_decode_open(&decoder, &err));
    for (int k = 0; k < 300; k++) {
        const struct subject *bad = &subjects[random_below(&seed, N_SUBJECTS)];
        const struct subject *good = &subjects[random_below(&seed, N_SUBJECTS)];
        const struct psti_rect whole = {0, 0, bad->info.height, bad->info.width};
        uint8_t pixels[SIDE_MAX_NBYTES];
        size_t n = random_below(&seed, (uint32_t)bad->file.nbytes - 16);
        assert_true(psti_decode_region(decoder, bad->file.data, n, &bad->info, NULL, &whole, pixels,
                                       bad->row_nbytes, &err) != PST_OK);
        assert_string_equal(err.codec, bad->name);
        assert_true(region_equals(decoder, &good->file, &good->info, NULL, NULL, good->pixels));
    }
    psti_decode_close(&decoder);
}

static void test_palette_index_beyond_palette(void **state)
{
    const struct png_spec spec = {
        .height = 8, .width = 9, .colour_type = 3, .depth = 8, .n_palette = 200};
    struct bytes file = make_png(&spec, 1);
    struct pst_decode_options options = {.struct_size = sizeof options};
    uint8_t pixels[8 * 27];
    struct pst_error err;
    (void)state;
    /* Replaces the PLTE chunk by a palette of one entry, with its length and CRC. The rest of the
     * file moves up. */
    uint8_t *plte = file.data + 33;
    assert_memory_equal(plte + 4, "PLTE", 4);
    static const uint8_t one_entry[] = {0, 0,   0, 3,    'P',  'L',  'T', 'E',
                                        0, 255, 0, 0x34, 0x5E, 0xC0, 0xA8};
    size_t rest = file.nbytes - 33 - 612;
    memmove(plte + sizeof one_entry, plte + 612, rest);
    memcpy(plte, one_entry, sizeof one_entry);
    size_t nbytes = 33 + sizeof one_entry + rest;
    enum pst_status status = pst_image_decode(file.data, nbytes, PST_FORM_PNG, &options, pixels,
                                              sizeof pixels, 27, &err);
    assert_int_equal(status, PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "palette"));
    options.palette_indices = true;
    assert_ok(pst_image_decode(file.data, nbytes, PST_FORM_PNG, &options, pixels, sizeof pixels, 9,
                               &err));
    bytes_free(&file);
}

/* The n-th allocation fails, for n = 1, 2, ... until no allocation fails. */
static void test_no_memory(void **state)
{
    (void)state;
#ifdef PST_FAULTS
    for (size_t i = 0; i < N_SUBJECTS; i++) {
        const struct subject *subject = &subjects[i];
        uint8_t pixels[SIDE_MAX_NBYTES];
        enum pst_status status = PST_ERROR_MEMORY;
        uint64_t n = 1;
        for (; status == PST_ERROR_MEMORY; n++) {
            struct pst_error err;
            psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
            status = decode(subject->file.data, subject->file.nbytes, subject, pixels, &err);
            assert_true(status == PST_OK || strcmp(err.codec, subject->name) == 0);
        }
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        assert_int_equal(status, PST_OK);
        assert_true(n > 2);
        assert_memory_equal(pixels, subject->pixels, subject->row_nbytes * subject->info.height);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_short_at_every_byte),
        cmocka_unit_test(test_cut_and_closed_jpeg),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_wrong_magic),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_shorter_options),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_max_pixels),
        cmocka_unit_test(test_scratch_limit),
        cmocka_unit_test(test_sink_stops),
        cmocka_unit_test(test_good_after_bad),
        cmocka_unit_test(test_palette_index_beyond_palette),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, open_subjects, close_subjects);
}
