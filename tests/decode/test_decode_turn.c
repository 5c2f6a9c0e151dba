/* test_decode_turn.c - the eight orientations, for the rows of every codec and for raw pixels. */
#include "decode_fixture.h"

#include <stdlib.h>

static void check_regions(const struct bytes *file, const struct pst_image_info *info,
                          const struct pst_decode_options *options, const uint8_t *expected,
                          uint64_t seed)
{
    assert_true(region_equals(decoder, file, info, options, NULL, expected));
    for (int i = 0; i < 40; i++) {
        struct psti_rect r = random_region(&seed, info->height, info->width);
        assert_true(region_equals(decoder, file, info, options, &r, expected));
    }
}

static void test_jpeg(void **state)
{
    (void)state;
    for (uint8_t orientation = 0; orientation <= 9; orientation++)
        for (int kind = 0; kind < 4; kind++) {
            struct jpeg_spec spec = {.height = 37,
                                     .width = 58,
                                     .colours = kind & 1 ? COLOURS_GRAY : COLOURS_YCC,
                                     .h = 2,
                                     .v = 2,
                                     .quality = 90,
                                     .orientation = orientation,
                                     .big_endian_exif = kind & 2};
            struct pst_decode_options as_stored = {.struct_size = sizeof as_stored,
                                                   .ignore_orientation = true};
            struct bytes file = make_jpeg(&spec, orientation);
            uint32_t height, width, channels;
            uint8_t *plain = plain_jpeg(&file, &height, &width, &channels);
            uint8_t applied = orientation >= 1 && orientation <= 8 ? orientation : 1;
            uint8_t *expected = turned(plain, height, width, channels, applied);
            struct pst_image_info info;
            struct pst_error err;
            assert_ok(psti_decode_probe(decoder, file.data, file.nbytes, PST_FORM_JPEG, NULL, &info,
                                        &err));
            assert_int_equal(info.orientation, applied);
            assert_int_equal(info.height, applied >= 5 ? 58 : 37);
            assert_int_equal(info.width, applied >= 5 ? 37 : 58);
            check_regions(&file, &info, NULL, expected, orientation);
            assert_ok(psti_decode_probe(decoder, file.data, file.nbytes, PST_FORM_JPEG, &as_stored,
                                        &info, &err));
            assert_int_equal(info.orientation, applied);
            assert_int_equal(info.height, 37);
            check_regions(&file, &info, &as_stored, plain, orientation);
            free(expected);
            free(plain);
            bytes_free(&file);
        }
}

/* Tests raw pixels of many sizes, at even and odd addresses. */
static void test_raw(void **state)
{
    const uint32_t height = 23, width = 41;
    (void)state;
    for (uint8_t orientation = 1; orientation <= 8; orientation++)
        for (uint8_t channels = 1; channels <= 4; channels++)
            for (uint8_t bits = 8; bits <= 16; bits += 8)
                for (size_t shift = 0; shift < 2; shift++) {
                    size_t pixel_nbytes = (size_t)channels * (bits / 8);
                    uint8_t *plain = make_picture(height, width, (uint32_t)pixel_nbytes, channels);
                    uint8_t *expected = turned(plain, height, width, pixel_nbytes, orientation);
                    size_t nbytes = height * width * pixel_nbytes;
                    uint8_t *block = malloc(nbytes + 1);
                    struct bytes file = {block + shift, nbytes};
                    bool swaps = orientation >= 5;
                    struct pst_image_info info = {.form = PST_FORM_RAW,
                                                  .height = swaps ? width : height,
                                                  .width = swaps ? height : width,
                                                  .channels = channels,
                                                  .bits = bits,
                                                  .orientation = orientation};
                    struct pst_error err;
                    memcpy(file.data, plain, nbytes);
                    assert_ok(psti_decode_probe(decoder, file.data, nbytes, PST_FORM_RAW, NULL,
                                                &info, &err));
                    check_regions(&file, &info, NULL, expected, channels);
                    free(block);
                    free(expected);
                    free(plain);
                }
}

static void test_raw_of_wrong_size(void **state)
{
    uint8_t pixels[13] = {0};
    struct pst_image_info info = {
        .form = PST_FORM_RAW, .height = 2, .width = 2, .channels = 3, .bits = 8};
    struct pst_error err;
    (void)state;
    assert_ok(psti_decode_probe(decoder, pixels, 12, PST_FORM_RAW, NULL, &info, &err));
    assert_int_equal(info.orientation, 1);
    assert_int_equal(psti_decode_probe(decoder, pixels, 11, PST_FORM_RAW, NULL, &info, &err),
                     PST_ERROR_TRUNCATED);
    assert_string_equal(err.codec, "raw");
    assert_int_equal(psti_decode_probe(decoder, pixels, 13, PST_FORM_RAW, NULL, &info, &err),
                     PST_ERROR_CORRUPT);
    info.bits = 12;
    assert_int_equal(psti_decode_probe(decoder, pixels, 12, PST_FORM_RAW, NULL, &info, &err),
                     PST_ERROR_ARGUMENT);
    info.bits = 8;
    info.height = 70000;
    assert_int_equal(psti_decode_probe(decoder, pixels, 12, PST_FORM_RAW, NULL, &info, &err),
                     PST_ERROR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jpeg),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_raw_of_wrong_size),
    };
    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
