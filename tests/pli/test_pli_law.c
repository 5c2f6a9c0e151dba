/* test_pli_law.c - tests the checks of whole files that docs/format-pli.md, section 11, demands: of
 * bytes past the end, of a model that no unit uses, and of the checksum of the pixels. The files
 * are forged, with corrected checksums. */
#include "pixels.h"
#include "test.h"

#include "decode/decode_make.h"
#include "fuzz/fuzz_pli.h"

#include <penstock/pli.h>

enum { EDGE = 100, NBYTES_MAX = 1 << 20 };

struct image {
    uint8_t channels, bits;
    bool checksums;
    uint8_t *samples, *bytes; /* `bytes` have unused space after them */
    size_t total, nbytes;
};

static struct image make_image(uint8_t channels, uint8_t bits, enum pst_pli_tier tier,
                               bool checksums, bool noise)
{
    struct image image = {.channels = channels, .bits = bits, .checksums = checksums};
    struct pst_error err;
    const struct pst_pli_encode_options options = {
        .struct_size = sizeof options, .tier = tier, .no_checksum = !checksums};
    image.total = (size_t)EDGE * EDGE * channels * (bits / 8u);
    image.samples = make_picture(EDGE, EDGE, channels * (bits / 8u), 3);
    uint64_t seed = 1;
    for (size_t i = 0; noise && i < image.total; i++)
        image.samples[i] = (uint8_t)next_random(&seed);
    const struct pst_pixels pixels = test_pixels(image.samples, EDGE, EDGE, channels, bits);
    image.bytes = calloc(1, NBYTES_MAX);
    assert_ok(pst_pli_encode(&pixels, &options, image.bytes, NBYTES_MAX, &image.nbytes, &err));
    return image;
}

static void free_image(struct image *image)
{
    free(image->samples);
    free(image->bytes);
}

static enum pst_status decode(const struct image *image, const struct pst_pli_region *region,
                              uint8_t *out, struct pst_error *err)
{
    struct pst_pli_info info = {0};
    enum pst_status status = pst_pli_info(image->bytes, image->nbytes, &info, sizeof info, err);
    if (status != PST_OK)
        return status;
    size_t scratch_nbytes = psti_round_up(pst_pli_scratch_nbytes(&info, sizeof info), 64);
    void *scratch = aligned_alloc(64, scratch_nbytes);
    const struct pst_pixels pixels =
        test_pixels(out, region ? region->height : EDGE, region ? region->width : EDGE,
                    image->channels, image->bits);
    status = pst_pli_decode(image->bytes, image->nbytes, region, -1, &pixels, scratch,
                            scratch_nbytes, err);
    free(scratch);
    return status;
}

static const struct pst_pli_region corner = {0, 0, 9, 9};

static void nothing_stands_behind_the_last_unit(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct image image =
            make_image(3, 8, (enum pst_pli_tier)(PST_PLI_TIER_FAST + i), true, false);
        struct pst_error err;
        uint8_t *out = malloc(image.total);
        assert_ok(decode(&image, NULL, out, &err));
        assert_memory_equal(out, image.samples, image.total);
        image.nbytes++;
        assert_int_equal(decode(&image, NULL, out, &err), PST_ERROR_CORRUPT);
        assert_non_null(strstr(err.text, "1 bytes stand behind the end of the PLI"));
        assert_int_equal(decode(&image, &corner, out, &err), PST_ERROR_CORRUPT);
        /* the last unit is truncated; regions that do not touch it can be decoded */
        image.nbytes -= 2;
        assert_int_equal(decode(&image, NULL, out, &err), PST_ERROR_TRUNCATED);
        assert_ok(decode(&image, &corner, out, &err));
        free(out);
        free_image(&image);
    }
}

/* Makes `block` the model of an image of raw units, which needs none, and decodes the image. */
static enum pst_status decode_with_model(const uint8_t *block, size_t nbytes)
{
    struct image image = make_image(3, 8, PST_PLI_TIER_FAST, true, true);
    struct pst_pli_info info = {0};
    struct pst_error err;
    uint8_t *out = malloc(image.total);
    assert_ok(pst_pli_info(image.bytes, image.nbytes, &info, sizeof info, &err));
    assert_int_equal(info.n_units[PSTI_PLI_RAW], 4);
    assert_int_equal(psti_load_u32(image.bytes + 16), 0);
    memmove(image.bytes + 40 + nbytes, image.bytes + 40, image.nbytes - 40);
    memcpy(image.bytes + 40, block, nbytes);
    psti_store_u32(image.bytes + 16, (uint32_t)nbytes);
    image.nbytes += nbytes;
    fuzz_pli_set_checksum(image.bytes, image.nbytes);
    enum pst_status status = decode(&image, NULL, out, &err);
    if (status == PST_OK)
        assert_memory_equal(out, image.samples, image.total);
    free(out);
    free_image(&image);
    return status;
}

static void a_model_is_sound_though_no_unit_needs_it(void **state)
{
    static const uint8_t built_in[] = {1, 0, 2, 0, 0, 0};  /* 16 zero bits */
    static const uint8_t longer[] = {1, 0, 3, 0, 0, 0, 0}; /* one byte follows its bits */
    static const uint8_t unknown[] = {9, 0, 0, 0}, flag[] = {1, 1, 2, 0, 0, 0};
    static const uint8_t of_jpegs[] = {2, 0, 0, 0}, short_one[] = {1, 0};
    static const uint8_t beyond[] = {1, 0, 9, 0, 0, 0};
    static const uint8_t no_tokens[] = {1, 0, 3, 0, 1, 0, 0}; /* n is 0 */
    (void)state;
    assert_int_equal(decode_with_model(built_in, sizeof built_in), PST_OK);
    assert_int_equal(decode_with_model(longer, sizeof longer), PST_ERROR_CORRUPT);
    assert_int_equal(decode_with_model(unknown, sizeof unknown), PST_ERROR_CORRUPT);
    assert_int_equal(decode_with_model(flag, sizeof flag), PST_ERROR_CORRUPT);
    assert_int_equal(decode_with_model(of_jpegs, sizeof of_jpegs), PST_ERROR_CORRUPT);
    assert_int_equal(decode_with_model(short_one, sizeof short_one), PST_ERROR_CORRUPT);
    assert_int_equal(decode_with_model(beyond, sizeof beyond), PST_ERROR_CORRUPT);
    assert_int_equal(decode_with_model(no_tokens, sizeof no_tokens), PST_ERROR_CORRUPT);
}

static enum pst_status drop_band(void *ctx, uint32_t y, uint32_t n_rows)
{
    *(uint32_t *)ctx += n_rows;
    (void)y;
    return PST_OK;
}

static enum pst_status decode_bands(const struct image *image, struct pst_error *err)
{
    struct pst_pli_info info = {0};
    uint32_t n_rows = 0;
    assert_int_equal(pst_pli_info(image->bytes, image->nbytes, &info, sizeof info, err), PST_OK);
    size_t scratch_nbytes = psti_round_up(pst_pli_scratch_nbytes(&info, sizeof info), 64);
    void *scratch = aligned_alloc(64, scratch_nbytes);
    uint8_t *band = malloc(image->total);
    const struct pst_pixels pixels = test_pixels(
        band, info.unit_edge < EDGE ? info.unit_edge : EDGE, EDGE, image->channels, image->bits);
    enum pst_status status =
        psti_pli_decode_bands(NULL, image->bytes, image->nbytes, NULL, &pixels, scratch,
                              scratch_nbytes, drop_band, &n_rows, err);
    assert_int_equal(n_rows, EDGE);
    free(band);
    free(scratch);
    return status;
}

/* Checks planar pixels whose rows are stored from the bottom up. */
static enum pst_status check_planar(const struct image *image, struct pst_error *err)
{
    const size_t sample = image->bits / 8u, row = EDGE * sample, plane = EDGE * row;
    uint8_t *out = malloc(image->total);
    for (size_t y = 0; y < EDGE; y++)
        for (size_t x = 0; x < EDGE; x++)
            for (size_t c = 0; c < image->channels; c++)
                memcpy(out + c * plane + (EDGE - 1 - y) * row + x * sample,
                       image->samples + ((y * EDGE + x) * image->channels + c) * sample, sample);
    const struct pst_pixels pixels = {.data = out + (EDGE - 1) * row,
                                      .height = EDGE,
                                      .width = EDGE,
                                      .channels = image->channels,
                                      .bits = image->bits,
                                      .row_nbytes = -(int64_t)row,
                                      .pixel_nbytes = (int64_t)sample,
                                      .channel_nbytes = (int64_t)plane};
    enum pst_status status = pst_pli_check_pixels(image->bytes, image->nbytes, &pixels, err);
    free(out);
    return status;
}

/* A sample of the last raw unit is changed. If units have no checksums, only the pixel checksum
 * detects this. */
static void whole_images_are_compared_where_units_have_no_checksums(void **state)
{
    (void)state;
    for (uint8_t bits = 8; bits <= 16; bits += 8) {
        struct image image = make_image(3, bits, PST_PLI_TIER_FAST, false, true);
        struct pst_error err;
        uint8_t *out = malloc(image.total);
        const struct pst_pixels pixels = test_pixels(out, EDGE, EDGE, 3, bits);
        assert_ok(decode(&image, NULL, out, &err));
        assert_ok(decode_bands(&image, &err));
        assert_ok(pst_pli_check_pixels(image.bytes, image.nbytes, &pixels, &err));
        assert_ok(check_planar(&image, &err));
        image.bytes[image.nbytes - 1] ^= 1;
        assert_int_equal(decode(&image, NULL, out, &err), PST_ERROR_CHECKSUM);
        assert_non_null(strstr(err.text, "the checksum of the decoded pixels does not match"));
        assert_int_equal(decode_bands(&image, &err), PST_ERROR_CHECKSUM);
        assert_int_equal(pst_pli_check_pixels(image.bytes, image.nbytes, &pixels, &err),
                         PST_ERROR_CHECKSUM);
        assert_ok(decode(&image, &corner, out, &err));
        image.samples[0] ^= 1;
        assert_int_equal(check_planar(&image, &err), PST_ERROR_CHECKSUM);
        const struct pst_pixels small = test_pixels(out, EDGE, EDGE - 1, 3, bits);
        assert_int_equal(pst_pli_check_pixels(image.bytes, image.nbytes, &small, &err),
                         PST_ERROR_ARGUMENT);
        free(out);
        free_image(&image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_stands_behind_the_last_unit),
        cmocka_unit_test(a_model_is_sound_though_no_unit_needs_it),
        cmocka_unit_test(whole_images_are_compared_where_units_have_no_checksums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
