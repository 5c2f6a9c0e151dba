/* test_decode_webp.c - WebP: whole images equal those of libwebp's simple functions, and regions
 * equal the whole. */
#include "decode_fixture.h"

#include "decode/decode_int.h"

#include <stdlib.h>

#ifdef PST_HAVE_WEBP
#include <webp/decode.h>
#include <webp/encode.h>

/* Encodes a picture as WebP. `filter` is 0 for the simple filter, 1 for the strong one. */
static struct bytes make_webp(uint32_t height, uint32_t width, uint32_t channels, bool lossless,
                              int filter, float quality)
{
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriter writer;
    uint8_t *pixels = make_picture(height, width, channels, height * 100 + width);
    assert_true(WebPConfigInit(&config) && WebPPictureInit(&picture));
    config.lossless = lossless;
    config.quality = quality;
    config.filter_type = filter;
    config.filter_strength = 60;
    config.method = 2;
    config.exact = 1;
    picture.use_argb = lossless;
    picture.width = (int)width;
    picture.height = (int)height;
    WebPMemoryWriterInit(&writer);
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    assert_true(channels == 4 ? WebPPictureImportRGBA(&picture, pixels, (int)width * 4)
                              : WebPPictureImportRGB(&picture, pixels, (int)width * 3));
    assert_true(WebPEncode(&config, &picture));
    WebPPictureFree(&picture);
    struct bytes file = {malloc(writer.size), writer.size};
    memcpy(file.data, writer.mem, writer.size);
    WebPMemoryWriterClear(&writer);
    free(pixels);
    return file;
}

static void check_file(const struct bytes *file, uint32_t height, uint32_t width, bool lossless,
                       int n_regions)
{
    struct pst_image_info info;
    struct pst_error err;
    int w, h;
    uint64_t seed = height * 1000 + width;
    assert_ok(
        psti_decode_probe(decoder, file->data, file->nbytes, PST_FORM_NONE, NULL, &info, &err));
    assert_int_equal(info.form, PST_FORM_WEBP);
    assert_int_equal(info.height, height);
    assert_int_equal(info.width, width);
    assert_int_equal(psti_decode_webp_is_lossless(file->data, file->nbytes), lossless);
    uint8_t *expected = info.channels == 4 ? WebPDecodeRGBA(file->data, file->nbytes, &w, &h)
                                           : WebPDecodeRGB(file->data, file->nbytes, &w, &h);
    assert_non_null(expected);
    assert_true(region_equals(decoder, file, &info, NULL, NULL, expected));
    for (int i = 0; i < n_regions; i++) {
        struct psti_rect r = random_region(&seed, height, width);
        assert_true(region_equals(decoder, file, &info, NULL, &r, expected));
    }
    WebPFree(expected);
}

static void test_lossy_and_lossless(void **state)
{
    static const struct {
        uint32_t height, width;
    } sizes[] = {{1, 1}, {2, 3}, {17, 16}, {33, 50}, {75, 91}, {130, 67}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t channels = 3; channels <= 4; channels++)
            for (int kind = 0; kind < 4; kind++) {
                bool lossless = kind == 3;
                struct bytes file = make_webp(sizes[i].height, sizes[i].width, channels, lossless,
                                              kind & 1, kind == 2 ? 100 : 30);
                check_file(&file, sizes[i].height, sizes[i].width, lossless, 60);
                bytes_free(&file);
            }
}

/* Wraps a bare file of one VP8 or VP8L chunk into a VP8X container with an EXIF chunk. */
static struct bytes with_exif(const struct bytes *file, uint32_t height, uint32_t width,
                              uint8_t orientation)
{
    static const uint8_t exif[] = {'E', 'X', 'I', 'F', 26, 0, 0,    0, 'I', 'I', 42, 0,
                                   8,   0,   0,   0,   1,  0, 0x12, 1, 3,   0,   1,  0,
                                   0,   0,   0,   0,   0,  0, 0,    0, 0,   0};
    struct bytes out = {calloc(1, file->nbytes + 18 + sizeof exif),
                        file->nbytes + 18 + sizeof exif};
    uint8_t vp8x[18] = {'V', 'P', '8', 'X', 10, 0, 0, 0, 8, 0, 0, 0};
    vp8x[12] = (uint8_t)(width - 1);
    vp8x[15] = (uint8_t)(height - 1);
    memcpy(out.data, file->data, 12);
    memcpy(out.data + 12, vp8x, sizeof vp8x);
    memcpy(out.data + 30, file->data + 12, file->nbytes - 12);
    memcpy(out.data + 18 + file->nbytes, exif, sizeof exif);
    out.data[18 + file->nbytes + 26] = orientation;
    uint32_t riff = (uint32_t)out.nbytes - 8;
    memcpy(out.data + 4, &riff, 4);
    return out;
}

static void test_orientation(void **state)
{
    const uint32_t height = 34, width = 51;
    (void)state;
    struct bytes bare = make_webp(height, width, 3, true, 0, 50);
    int w, h;
    uint8_t *plain = WebPDecodeRGB(bare.data, bare.nbytes, &w, &h);
    for (uint8_t orientation = 1; orientation <= 8; orientation++) {
        struct bytes file = with_exif(&bare, height, width, orientation);
        struct pst_image_info info;
        struct pst_error err;
        uint8_t *expected = turned(plain, height, width, 3, orientation);
        assert_ok(
            psti_decode_probe(decoder, file.data, file.nbytes, PST_FORM_WEBP, NULL, &info, &err));
        assert_int_equal(info.orientation, orientation);
        assert_int_equal(info.height, orientation >= 5 ? width : height);
        assert_true(region_equals(decoder, &file, &info, NULL, NULL, expected));
        free(expected);
        bytes_free(&file);
    }
    WebPFree(plain);
    bytes_free(&bare);
}

static void test_cut_short_and_flipped(void **state)
{
    (void)state;
    for (int lossless = 0; lossless < 2; lossless++) {
        struct bytes file = make_webp(20, 23, 4, lossless, 1, 50);
        uint8_t pixels[20 * 23 * 4];
        struct pst_error err;
        uint64_t seed = 7;
        for (size_t n = 0; n < file.nbytes; n++) {
            uint8_t *cut = malloc(n + !n);
            memcpy(cut, file.data, n);
            enum pst_status status =
                pst_image_decode(cut, n, PST_FORM_WEBP, NULL, pixels, sizeof pixels, 92, &err);
            assert_int_equal(status, PST_ERROR_TRUNCATED);
            assert_string_equal(err.codec, "webp");
            free(cut);
        }
        for (int i = 0; i < 2000; i++) {
            size_t at = random_below(&seed, (uint32_t)file.nbytes);
            uint8_t was = file.data[at];
            file.data[at] ^= (uint8_t)(1u << random_below(&seed, 8));
            enum pst_status status = pst_image_decode(file.data, file.nbytes, PST_FORM_NONE, NULL,
                                                      pixels, sizeof pixels, 92, &err);
            assert_true(status == PST_OK || status == PST_ERROR_UNSUPPORTED || err.codec[0]);
            file.data[at] = was;
        }
        bytes_free(&file);
    }
}

static void test_animated_is_refused(void **state)
{
    struct bytes bare = make_webp(16, 16, 3, true, 0, 50), file = with_exif(&bare, 16, 16, 1);
    struct pst_image_info info;
    struct pst_error err;
    (void)state;
    file.data[20] |= 2;
    assert_int_equal(
        pst_image_probe(file.data, file.nbytes, PST_FORM_NONE, NULL, &info, sizeof info, &err),
        PST_ERROR_UNSUPPORTED);
    assert_string_equal(err.codec, "webp");
    bytes_free(&file);
    bytes_free(&bare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lossy_and_lossless),
        cmocka_unit_test(test_orientation),
        cmocka_unit_test(test_cut_short_and_flipped),
        cmocka_unit_test(test_animated_is_refused),
    };
    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
#else
int main(void) { return 77; }
#endif
