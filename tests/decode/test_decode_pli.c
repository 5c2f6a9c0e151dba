/* test_decode_pli.c - tests PLI as the form of an image: recognised by its first bytes, decoded
 * whole and in regions, and converted like any other form. Only the units of the region are read,
 * decoded and counted. */
#include "pixels.h"
#include "decode_fixture.h"

#include <penstock/pli.h>

#include <stdlib.h>

/* Makes a picture of u8 or u16 (H,W,C). With 16 bits the high byte is the sample of the 8-bit
 * picture, and the low byte another of its samples. */
static uint8_t *make_samples(uint32_t height, uint32_t width, uint32_t channels, uint32_t bits)
{
    uint8_t *picture = make_picture(height, width, channels, height * 100 + width + bits);
    if (bits == 8)
        return picture;
    size_t n = (size_t)height * width * channels;
    uint16_t *wide = malloc(n * 2);
    for (size_t i = 0; i < n; i++)
        wide[i] = (uint16_t)(picture[i] << 8 | picture[(i * 7 + 3) % n]);
    free(picture);
    return (uint8_t *)wide;
}

static struct bytes make_pli(uint8_t *samples, uint32_t height, uint32_t width, uint8_t channels,
                             uint8_t bits, uint32_t max_error)
{
    struct pst_error err;
    const struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                   .max_error = max_error};
    const struct pst_pixels pixels = test_pixels(samples, height, width, channels, bits);
    size_t bound = pst_pli_encode_bound(height, width, channels, bits);
    struct bytes room = {malloc(bound), 0};
    assert_ok(pst_pli_encode(&pixels, &options, room.data, bound, &room.nbytes, &err));
    /* exact size, so that a sanitizer detects over-reads */
    struct bytes file = {malloc(room.nbytes), room.nbytes};
    memcpy(file.data, room.data, room.nbytes);
    free(room.data);
    return file;
}

static void probe(const struct bytes *file, struct pst_image_info *info)
{
    struct pst_error err;
    assert_ok(
        psti_decode_probe(decoder, file->data, file->nbytes, PST_FORM_NONE, NULL, info, &err));
}

static void test_whole_and_regions(void **state)
{
    static const struct {
        uint32_t height, width;
    } sizes[] = {{1, 1}, {3, 200}, {64, 64}, {65, 63}, {130, 191}, {257, 300}};
    uint64_t seed = 1;
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint8_t channels = 1; channels <= 4; channels++)
            for (uint8_t bits = 8; bits <= 16; bits += 8) {
                uint32_t height = sizes[i].height, width = sizes[i].width;
                struct pst_image_info info;
                uint8_t *samples = make_samples(height, width, channels, bits);
                struct bytes file = make_pli(samples, height, width, channels, bits, 0);
                probe(&file, &info);
                assert_int_equal(info.form, PST_FORM_PLI);
                assert_int_equal(info.height, height);
                assert_int_equal(info.width, width);
                assert_int_equal(info.channels, channels);
                assert_int_equal(info.bits, bits);
                assert_int_equal(info.orientation, 1);
                assert_true(region_equals(decoder, &file, &info, NULL, NULL, samples));
                for (int k = 0; k < 8; k++) {
                    struct psti_rect r = random_region(&seed, height, width);
                    assert_true(region_equals(decoder, &file, &info, NULL, &r, samples));
                }
                bytes_free(&file);
                free(samples);
            }
}

/* Label maps may have larger units, so their rows of units are several hundred pixels high. */
static void test_label_maps(void **state)
{
    enum { HEIGHT = 1100, WIDTH = 1300 };
    uint64_t seed = 5;
    (void)state;
    for (uint8_t bits = 8; bits <= 16; bits += 8) {
        struct pst_image_info info;
        uint8_t *samples = malloc((size_t)HEIGHT * WIDTH * (bits / 8));
        for (uint32_t y = 0, i = 0; y < HEIGHT; y++)
            for (uint32_t x = 0; x < WIDTH; x++, i++) {
                uint32_t label = (y + 40) / 170 * 7 + (x + y / 3) / 210;
                if (bits == 8)
                    samples[i] = (uint8_t)label;
                else
                    ((uint16_t *)(void *)samples)[i] = (uint16_t)(label * 300);
            }
        struct bytes file = make_pli(samples, HEIGHT, WIDTH, 1, bits, 0);
        assert_true(file.nbytes < HEIGHT * WIDTH / 8);
        probe(&file, &info);
        assert_true(region_equals(decoder, &file, &info, NULL, NULL, samples));
        for (int k = 0; k < 20; k++) {
            struct psti_rect rect = random_region(&seed, HEIGHT, WIDTH);
            assert_true(region_equals(decoder, &file, &info, NULL, &rect, samples));
        }
        bytes_free(&file);
        free(samples);
    }
}

/* The conversions are the same as those of raw pixels. */
static void test_conversions(void **state)
{
    enum { HEIGHT = 100, WIDTH = 150 };
    static const uint8_t wanted[] = {0, 1, 3, 4};
    (void)state;
    for (uint8_t channels = 1; channels <= 4; channels++)
        for (uint8_t bits = 8; bits <= 16; bits += 8)
            for (size_t w = 0; w < sizeof wanted; w++)
                for (uint8_t wanted_bits = 0; wanted_bits <= 16; wanted_bits += 8) {
                    const struct pst_decode_options options = {
                        .struct_size = sizeof options, .channels = wanted[w], .bits = wanted_bits};
                    struct pst_image_info info, raw = {.form = PST_FORM_RAW,
                                                       .height = HEIGHT,
                                                       .width = WIDTH,
                                                       .channels = channels,
                                                       .bits = bits,
                                                       .orientation = 1};
                    const struct psti_rect whole = {0, 0, HEIGHT, WIDTH}, part = {50, 33, 40, 99};
                    struct pst_error err;
                    uint8_t out_channels, out_bits;
                    uint8_t *samples = make_samples(HEIGHT, WIDTH, channels, bits);
                    struct bytes file = make_pli(samples, HEIGHT, WIDTH, channels, bits, 0);
                    probe(&file, &info);
                    psti_decode_output(&info, &options, &out_channels, &out_bits);
                    size_t row_nbytes = (size_t)WIDTH * out_channels * (out_bits / 8);
                    uint8_t *expected = malloc(row_nbytes * HEIGHT);
                    assert_ok(psti_decode_region(
                        decoder, samples, (size_t)HEIGHT * WIDTH * channels * (bits / 8), &raw,
                        &options, &whole, expected, row_nbytes, &err));
                    assert_true(region_equals(decoder, &file, &info, &options, NULL, expected));
                    assert_true(region_equals(decoder, &file, &info, &options, &part, expected));
                    free(expected);
                    bytes_free(&file);
                    free(samples);
                }
}

/* Only the units of a region are counted and read: here all other units are overwritten. */
static void test_only_units_of_the_region(void **state)
{
    enum { HEIGHT = 300, WIDTH = 400 };
    struct psti_decode_stats before, after;
    struct pst_pli_info head = {0};
    struct pst_image_info info;
    struct pst_error err;
    uint8_t *samples = make_samples(HEIGHT, WIDTH, 3, 8);
    struct bytes file = make_pli(samples, HEIGHT, WIDTH, 3, 8, 0);
    (void)state;
    assert_ok(pst_pli_info(file.data, file.nbytes, &head, sizeof head, &err));
    probe(&file, &info);
    const struct psti_rect rect = {70, 130, 100, 60};
    const struct pst_pli_region region = {rect.y, rect.x, rect.height, rect.width};
    struct pst_pli_range ranges[16];
    size_t n;
    assert_ok(pst_pli_ranges(file.data, file.nbytes, &region, ranges, 16, &n, &err));
    assert_in_range(n, 1, 16);
    struct bytes sparse = {malloc(file.nbytes), file.nbytes};
    memset(sparse.data, 0xEE, sparse.nbytes);
    memcpy(sparse.data, file.data, (size_t)head.head_nbytes);
    for (size_t i = 0; i < n; i++)
        memcpy(sparse.data + ranges[i].offset, file.data + ranges[i].offset,
               (size_t)ranges[i].nbytes);
    psti_decode_stats(decoder, &before);
    assert_true(region_equals(decoder, &sparse, &info, NULL, &rect, samples));
    psti_decode_stats(decoder, &after);
    uint32_t edge = head.unit_edge;
    uint64_t touched =
        (uint64_t)((169 / edge) - (70 / edge) + 1) * ((189 / edge) - (130 / edge) + 1);
    uint64_t whole = (uint64_t)head.unit_rows * head.unit_columns;
    assert_true(touched < whole);
    assert_int_equal(after.n_units - before.n_units, touched);
    assert_int_equal(after.n_units_whole - before.n_units_whole, whole);
    bytes_free(&sparse);
    bytes_free(&file);
    free(samples);
}

/* Errors name the codec and the place, and failed decodes count no units. */
static void test_bad(void **state)
{
    enum { HEIGHT = 200, WIDTH = 200 };
    struct pst_image_info info;
    struct pst_error err;
    struct psti_decode_stats before, after;
    uint8_t *samples = make_samples(HEIGHT, WIDTH, 3, 8), *pixels = malloc(HEIGHT * WIDTH * 3);
    struct bytes file = make_pli(samples, HEIGHT, WIDTH, 3, 8, 0);
    const struct psti_rect whole = {0, 0, HEIGHT, WIDTH};
    (void)state;
    probe(&file, &info);
    psti_decode_stats(decoder, &before);
    for (size_t cut = 0; cut < file.nbytes; cut += cut < 64 ? 1 : file.nbytes / 50) {
        enum pst_status status = psti_decode_region(decoder, file.data, cut, &info, NULL, &whole,
                                                    pixels, WIDTH * 3, &err);
        assert_int_equal(status, PST_ERROR_TRUNCATED);
        assert_string_equal(err.codec, "pli");
    }
    size_t at = file.nbytes - 20;
    file.data[at] ^= 1;
    assert_int_equal(psti_decode_region(decoder, file.data, file.nbytes, &info, NULL, &whole,
                                        pixels, WIDTH * 3, &err),
                     PST_ERROR_CHECKSUM);
    assert_string_equal(err.codec, "pli");
    assert_in_range(err.offset, 1, at);
    file.data[at] ^= 1;
    file.data[60] ^= 1; /* changes a byte of the head */
    assert_int_equal(psti_decode_region(decoder, file.data, file.nbytes, &info, NULL, &whole,
                                        pixels, WIDTH * 3, &err),
                     PST_ERROR_CHECKSUM);
    psti_decode_stats(decoder, &after);
    assert_int_equal(after.n_units, before.n_units);
    file.data[4] = 9; /* a later version */
    assert_int_equal(
        psti_decode_probe(decoder, file.data, file.nbytes, PST_FORM_PLI, NULL, &info, &err),
        PST_ERROR_VERSION);
    assert_string_equal(err.codec, "pli");
    bytes_free(&file);
    free(samples);
    free(pixels);
}

static enum pst_status count_rows(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                  uint32_t n_rows)
{
    uint32_t *n = ctx;
    (void)rows;
    (void)row_nbytes;
    assert_int_equal(y, *n);
    *n += n_rows;
    return PST_OK;
}

/* A decode uses the header that was parsed by the probe. If the header's bytes have changed since,
 * the head checksum fails. */
static void test_header_is_parsed_once(void **state)
{
    uint8_t *samples = make_samples(70, 90, 3, 8);
    struct bytes file = make_pli(samples, 70, 90, 3, 8, 0);
    const struct pst_decode_options options = {.struct_size = sizeof options};
    const struct psti_rect whole = {0, 0, 70, 90};
    struct pst_image_info info;
    struct psti_pli_header pli = {0};
    struct pst_error err;
    uint32_t n = 0;
    (void)state;
    assert_ok(
        psti_decode_probe_pli(file.data, file.nbytes, PST_FORM_NONE, &options, &info, &pli, &err));
    assert_ok(psti_decode_rows_scaled(decoder, file.data, file.nbytes, &info, &pli, &options, 0,
                                      &whole, count_rows, &n, &err));
    assert_int_equal(n, 70);
    file.data[4] = 9; /* a later version */
    assert_int_equal(psti_decode_rows_scaled(decoder, file.data, file.nbytes, &info, NULL, &options,
                                             0, &whole, count_rows, &n, &err),
                     PST_ERROR_VERSION);
    assert_int_equal(psti_decode_rows_scaled(decoder, file.data, file.nbytes, &info, &pli, &options,
                                             0, &whole, count_rows, &n, &err),
                     PST_ERROR_CHECKSUM);
    assert_int_equal(n, 70);
    bytes_free(&file);
    free(samples);
}

static void test_near_lossless(void **state)
{
    uint8_t *samples = make_samples(70, 70, 1, 8);
    struct bytes near = make_pli(samples, 70, 70, 1, 8, 3);
    uint8_t pixels[70 * 70];
    struct pst_error err;
    (void)state;
    assert_ok(pst_image_decode(near.data, near.nbytes, PST_FORM_NONE, NULL, pixels, sizeof pixels,
                               70, &err));
    for (size_t i = 0; i < sizeof pixels; i++)
        assert_in_range(pixels[i] + 3 - samples[i], 0, 6);
    bytes_free(&near);
    free(samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_and_regions, open_decoder, close_decoder),
        cmocka_unit_test_setup_teardown(test_label_maps, open_decoder, close_decoder),
        cmocka_unit_test_setup_teardown(test_conversions, open_decoder, close_decoder),
        cmocka_unit_test_setup_teardown(test_only_units_of_the_region, open_decoder, close_decoder),
        cmocka_unit_test_setup_teardown(test_bad, open_decoder, close_decoder),
        cmocka_unit_test_setup_teardown(test_header_is_parsed_once, open_decoder, close_decoder),
        cmocka_unit_test_setup_teardown(test_near_lossless, open_decoder, close_decoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
