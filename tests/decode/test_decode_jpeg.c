/* test_decode_jpeg.c - JPEG: pixels equal libjpeg's own, for whole images and regions, for every
 * kind of file. */
#include "decode_fixture.h"

#include <stdlib.h>

static const struct {
    uint8_t h, v;
} samplings[] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {1, 4}, {2, 4}};
#define N_SAMPLINGS (sizeof samplings / sizeof samplings[0])

enum regions { REGIONS_ALL, REGIONS_EDGES, REGIONS_SOME };

/* Compares regions that begin and end at every position on one axis, with random ranges on the
 * other. */
static bool strips_equal(const struct bytes *file, const struct pst_image_info *info,
                         const uint8_t *expected, uint64_t *state)
{
    for (uint32_t y = 0; y < info->height; y++)
        for (uint32_t n = 1; n <= info->height - y; n++) {
            struct psti_rect r = {y, random_below(state, info->width), n, 1};
            r.width = 1 + random_below(state, info->width - r.x);
            if (!region_equals(decoder, file, info, NULL, &r, expected))
                return false;
        }
    for (uint32_t x = 0; x < info->width; x++)
        for (uint32_t n = 1; n <= info->width - x; n++) {
            struct psti_rect r = {random_below(state, info->height), x, 1, n};
            r.height = 1 + random_below(state, info->height - r.y);
            if (!region_equals(decoder, file, info, NULL, &r, expected))
                return false;
        }
    return true;
}

static void check_file(const struct jpeg_spec *spec, enum regions regions, uint64_t seed)
{
    struct pst_image_info info;
    struct pst_error err;
    uint32_t height, width, channels;
    struct bytes file = make_jpeg(spec, seed);
    uint8_t *expected = plain_jpeg(&file, &height, &width, &channels);
    assert_ok(psti_decode_probe(decoder, file.data, file.nbytes, PST_FORM_NONE, NULL, &info, &err));
    assert_int_equal(info.form, PST_FORM_JPEG);
    assert_int_equal(info.height, height);
    assert_int_equal(info.width, width);
    assert_int_equal(info.channels, channels);
    assert_int_equal(info.progressive, spec->progressive);
    bool equal = region_equals(decoder, &file, &info, NULL, NULL, expected);
    if (equal && regions == REGIONS_EDGES)
        equal = strips_equal(&file, &info, expected, &seed);
    for (int i = 0; equal && regions == REGIONS_SOME && i < 12; i++) {
        struct psti_rect r = random_region(&seed, height, width);
        equal = region_equals(decoder, &file, &info, NULL, &r, expected);
    }
    for (uint32_t y = 0; equal && regions == REGIONS_ALL && y < height; y++)
        for (uint32_t x = 0; equal && x < width; x++)
            for (uint32_t h = 1; equal && h <= height - y; h++)
                for (uint32_t w = 1; equal && w <= width - x; w++) {
                    struct psti_rect r = {y, x, h, w};
                    equal = region_equals(decoder, &file, &info, NULL, &r, expected);
                }
    if (!equal)
        fail_msg("%ux%u colours %d sampling %ux%u progressive %d scans %d restart %u", width,
                 height, spec->colours, spec->h, spec->v, spec->progressive, spec->many_scans,
                 spec->restart);
    free(expected);
    bytes_free(&file);
}

static void test_every_size_whole(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SAMPLINGS; s++)
        for (uint32_t height = 1; height <= 35; height += 3)
            for (uint32_t width = 1; width <= 35; width += 5)
                for (int progressive = 0; progressive < 2; progressive++) {
                    struct jpeg_spec spec = {.height = height,
                                             .width = width,
                                             .colours = COLOURS_YCC,
                                             .h = samplings[s].h,
                                             .v = samplings[s].v,
                                             .quality = 90,
                                             .progressive = progressive};
                    check_file(&spec, REGIONS_SOME, s * 10000 + height * 100 + width);
                }
}

/* The pictures have several rows of MCUs, so that some can be skipped. */
static void test_every_edge(void **state)
{
    static const struct {
        uint32_t height, width;
    } sizes[] = {{83, 21}, {64, 32}, {49, 70}, {33, 17}};
    (void)state;
    for (size_t s = 0; s < N_SAMPLINGS; s++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct jpeg_spec spec = {.height = sizes[i].height,
                                     .width = sizes[i].width,
                                     .colours = COLOURS_YCC,
                                     .h = samplings[s].h,
                                     .v = samplings[s].v,
                                     .quality = 80};
            check_file(&spec, REGIONS_EDGES, s + i);
        }
}

static void test_every_region_of_small_ones(void **state)
{
    (void)state;
    for (size_t s = 1; s < 4; s++) {
        struct jpeg_spec spec = {.height = 19,
                                 .width = 18,
                                 .colours = COLOURS_YCC,
                                 .h = samplings[s].h,
                                 .v = samplings[s].v,
                                 .quality = 95};
        check_file(&spec, REGIONS_ALL, s);
    }
}

static void test_every_kind(void **state)
{
    (void)state;
    for (int colours = COLOURS_GRAY; colours <= COLOURS_YCCK; colours++)
        for (size_t s = 0; s < N_SAMPLINGS; s++)
            for (int kind = 0; kind < 16; kind++) {
                struct jpeg_spec spec = {.height = 75,
                                         .width = 91,
                                         .colours = (enum jpeg_colours)colours,
                                         .h = samplings[s].h,
                                         .v = samplings[s].v,
                                         .quality = kind & 1 ? 100 : 40,
                                         .progressive = (kind & 6) == 2,
                                         .many_scans = (kind & 6) == 4,
                                         .arithmetic = (kind & 6) == 6,
                                         .restart = kind & 8 ? 3 : 0};
                if (colours >= COLOURS_CMYK && samplings[s].h * samplings[s].v * 2 + 2 > 10)
                    continue; /* an MCU would have more blocks than JPEG allows */
                check_file(&spec, REGIONS_SOME, (uint64_t)kind * 100 + s);
            }
}

static void test_channels(void **state)
{
    (void)state;
    for (int colours = COLOURS_GRAY; colours <= COLOURS_YCCK; colours++) {
        struct jpeg_spec spec = {.height = 40,
                                 .width = 51,
                                 .colours = (enum jpeg_colours)colours,
                                 .h = 2,
                                 .v = 2,
                                 .quality = 90};
        struct pst_image_info info;
        struct pst_error err;
        uint32_t height, width, channels;
        struct bytes file = make_jpeg(&spec, 5);
        uint8_t *plain = plain_jpeg(&file, &height, &width, &channels);
        uint8_t *expected = malloc((size_t)height * width * 8);
        size_t n = (size_t)height * width;
        for (uint8_t wanted = 1; wanted <= 4; wanted += wanted == 1 ? 2 : 1)
            for (uint8_t bits = 8; bits <= 16; bits += 8) {
                struct pst_decode_options options = {
                    .struct_size = sizeof options, .channels = wanted, .bits = bits};
                for (size_t i = 0; i < n; i++)
                    for (uint32_t c = 0; c < wanted; c++) {
                        const uint8_t *p = plain + i * channels;
                        uint32_t r = p[0], g = p[channels > 1 ? 1 : 0], b = p[channels > 1 ? 2 : 0];
                        uint32_t v = c == 3 ? 255 : c == 0 ? r : c == 1 ? g : b;
                        if (wanted == 1)
                            v = channels == 1 ? r
                                              : (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
                        if (bits == 8)
                            expected[i * wanted + c] = (uint8_t)v;
                        else
                            ((uint16_t *)expected)[i * wanted + c] = (uint16_t)(v * 257);
                    }
                assert_ok(psti_decode_probe(decoder, file.data, file.nbytes, PST_FORM_JPEG,
                                            &options, &info, &err));
                const struct psti_rect r = {7, 9, 20, 31};
                assert_true(region_equals(decoder, &file, &info, &options, NULL, expected));
                assert_true(region_equals(decoder, &file, &info, &options, &r, expected));
            }
        free(plain);
        free(expected);
        bytes_free(&file);
    }
}

/* A JPEG without DHT must not be decoded with the Huffman tables of the image before it. */
static void test_no_tables_left_over(void **state)
{
    struct jpeg_spec odd = {
        .height = 32, .width = 32, .colours = COLOURS_YCC, .quality = 3, .progressive = true};
    struct jpeg_spec plain = {.height = 32, .width = 32, .colours = COLOURS_YCC, .quality = 90};
    struct bytes before = make_jpeg(&odd, 1), file = make_jpeg(&plain, 2);
    struct pst_image_info info;
    struct pst_error err;
    uint8_t alone[32 * 32 * 3], after[32 * 32 * 3];
    (void)state;
    /* turns DQT into a comment, so that the file lacks its quantisation tables */
    for (size_t i = 0; i + 1 < file.nbytes; i++)
        if (file.data[i] == 0xFF && file.data[i + 1] == 0xDB)
            file.data[i + 1] = 0xFE;
    enum pst_status status_alone = pst_image_decode(file.data, file.nbytes, PST_FORM_JPEG, NULL,
                                                    alone, sizeof alone, 96, &err);
    assert_int_equal(status_alone, PST_ERROR_CORRUPT);
    const struct psti_rect whole = {0, 0, 32, 32};
    assert_ok(
        psti_decode_probe(decoder, before.data, before.nbytes, PST_FORM_JPEG, NULL, &info, &err));
    assert_ok(psti_decode_region(decoder, before.data, before.nbytes, &info, NULL, &whole, after,
                                 96, &err));
    assert_ok(psti_decode_probe(decoder, file.data, file.nbytes, PST_FORM_JPEG, NULL, &info, &err));
    assert_int_equal(
        psti_decode_region(decoder, file.data, file.nbytes, &info, NULL, &whole, after, 96, &err),
        PST_ERROR_CORRUPT);
    assert_string_equal(err.codec, "jpeg");
    bytes_free(&before);
    bytes_free(&file);
    (void)state;
}

static void test_fallbacks_are_counted(void **state)
{
    const struct psti_rect r = {3, 3, 20, 20};
    struct psti_decode_stats stats;
    struct psti_decoder *own = NULL;
    struct pst_error err;
    (void)state;
    assert_ok(psti_decode_open(&own, &err));
    for (int progressive = 0; progressive < 2; progressive++) {
        struct jpeg_spec spec = {.height = 40,
                                 .width = 40,
                                 .colours = COLOURS_YCC,
                                 .h = 2,
                                 .v = 2,
                                 .quality = 90,
                                 .progressive = progressive};
        struct bytes file = make_jpeg(&spec, 3);
        struct pst_image_info info;
        uint8_t pixels[20 * 60];
        assert_ok(psti_decode_probe(own, file.data, file.nbytes, PST_FORM_JPEG, NULL, &info, &err));
        assert_ok(
            psti_decode_region(own, file.data, file.nbytes, &info, NULL, &r, pixels, 60, &err));
        psti_decode_stats(own, &stats);
        assert_int_equal(stats.n_region_fallback, progressive);
        assert_int_equal(stats.nbytes_out, (progressive + 1) * sizeof pixels);
        assert_true(stats.scratch_nbytes > 0);
        bytes_free(&file);
    }
    psti_decode_close(&own);
}

/* libjpeg skips segments with the invalid lengths 0 and 1, and so does the probe. */
static void test_lengths_below_two(void **state)
{
    static const uint8_t odd[] = {0xFF, 0xE5, 0, 0, 0xFF, 0xFE, 0, 1, 0xFF, 0xE1, 0, 0};
    const struct jpeg_spec spec = {
        .height = 40, .width = 30, .colours = COLOURS_YCC, .quality = 90};
    struct bytes file = make_jpeg(&spec, 4);
    struct bytes longer = {malloc(file.nbytes + sizeof odd), file.nbytes + sizeof odd};
    uint32_t height, width, channels;
    struct pst_image_info info;
    struct pst_error err;
    (void)state;
    memcpy(longer.data, file.data, 2);
    memcpy(longer.data + 2, odd, sizeof odd);
    memcpy(longer.data + 2 + sizeof odd, file.data + 2, file.nbytes - 2);
    uint8_t *expected = plain_jpeg(&file, &height, &width, &channels);
    assert_ok(
        psti_decode_probe(decoder, longer.data, longer.nbytes, PST_FORM_NONE, NULL, &info, &err));
    assert_int_equal(info.height, height);
    assert_int_equal(info.width, width);
    assert_true(region_equals(decoder, &longer, &info, NULL, NULL, expected));
    free(expected);
    bytes_free(&longer);
    bytes_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_whole),
        cmocka_unit_test(test_every_edge),
        cmocka_unit_test(test_every_region_of_small_ones),
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_no_tables_left_over),
        cmocka_unit_test(test_fallbacks_are_counted),
        cmocka_unit_test(test_lengths_below_two),
    };
    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
