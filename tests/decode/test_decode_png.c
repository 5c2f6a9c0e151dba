/* test_decode_png.c - PNG: every colour type, depth and interlacing, compared with libpng's own
 * conversions. */
#include "decode_fixture.h"

#include <stdlib.h>

#include <png.h>

static const struct {
    int colour_type, depth;
    uint32_t n_palette;
} kinds[] = {
    {PNG_COLOR_TYPE_GRAY, 1, 0},        {PNG_COLOR_TYPE_GRAY, 2, 0},
    {PNG_COLOR_TYPE_GRAY, 4, 0},        {PNG_COLOR_TYPE_GRAY, 8, 0},
    {PNG_COLOR_TYPE_GRAY, 16, 0},       {PNG_COLOR_TYPE_RGB, 8, 0},
    {PNG_COLOR_TYPE_RGB, 16, 0},        {PNG_COLOR_TYPE_PALETTE, 1, 2},
    {PNG_COLOR_TYPE_PALETTE, 2, 3},     {PNG_COLOR_TYPE_PALETTE, 4, 13},
    {PNG_COLOR_TYPE_PALETTE, 8, 200},   {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 0},
    {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 0}, {PNG_COLOR_TYPE_RGB_ALPHA, 8, 0},
    {PNG_COLOR_TYPE_RGB_ALPHA, 16, 0},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

static struct png_spec spec_of(size_t kind, uint32_t height, uint32_t width, bool interlaced,
                               bool trns)
{
    return (struct png_spec){.height = height,
                             .width = width,
                             .colour_type = kinds[kind].colour_type,
                             .depth = kinds[kind].depth,
                             .interlaced = interlaced,
                             .trns = trns && !(kinds[kind].colour_type & PNG_COLOR_MASK_ALPHA),
                             .n_palette = kinds[kind].n_palette};
}

static void check_file(const struct png_spec *spec, int n_regions, uint64_t seed)
{
    struct pst_image_info info;
    struct pst_error err;
    uint32_t channels, bits;
    struct bytes file = make_png(spec, seed);
    uint8_t *expected = plain_png(&file, &channels, &bits);
    assert_ok(psti_decode_probe(decoder, file.data, file.nbytes, PST_FORM_NONE, NULL, &info, &err));
    assert_int_equal(info.form, PST_FORM_PNG);
    assert_int_equal(info.height, spec->height);
    assert_int_equal(info.width, spec->width);
    assert_int_equal(info.channels, channels);
    assert_int_equal(info.bits, bits);
    assert_int_equal(info.palette, spec->colour_type == PNG_COLOR_TYPE_PALETTE);
    assert_int_equal(info.progressive, spec->interlaced);
    bool equal = region_equals(decoder, &file, &info, NULL, NULL, expected);
    for (int i = 0; equal && i < n_regions; i++) {
        struct psti_rect r = random_region(&seed, spec->height, spec->width);
        equal = region_equals(decoder, &file, &info, NULL, &r, expected);
    }
    if (!equal)
        fail_msg("colour type %d depth %d interlaced %d trns %d", spec->colour_type, spec->depth,
                 spec->interlaced, spec->trns);
    free(expected);
    bytes_free(&file);
}

static void test_every_kind(void **state)
{
    static const uint32_t sides[] = {1, 2, 3, 5, 8, 9, 17, 40};
    (void)state;
    for (size_t kind = 0; kind < N_KINDS; kind++)
        for (int flags = 0; flags < 4; flags++)
            for (size_t y = 0; y < sizeof sides / sizeof sides[0]; y++)
                for (size_t x = 0; x < sizeof sides / sizeof sides[0]; x++) {
                    struct png_spec spec = spec_of(kind, sides[y], sides[x], flags & 1, flags & 2);
                    check_file(&spec, 4, kind * 100 + y * 10 + x);
                }
}

/* Larger pictures have several IDAT chunks and several bands. */
static void test_larger_ones(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < N_KINDS; kind++)
        for (int interlaced = 0; interlaced < 2; interlaced++) {
            struct png_spec spec = spec_of(kind, 133, 219, interlaced, kind % 2);
            check_file(&spec, 12, kind);
        }
}

static void test_palette_indices(void **state)
{
    (void)state;
    for (size_t kind = 7; kind <= 10; kind++)
        for (int flags = 0; flags < 4; flags++) {
            struct png_spec spec = spec_of(kind, 21, 37, flags & 1, flags & 2);
            struct bytes file = make_png(&spec, kind);
            /* The options `channels` and `bits` do not apply to palette indices, because these are
             * class numbers. */
            struct pst_decode_options options = {
                .struct_size = sizeof options, .palette_indices = true, .channels = 3, .bits = 16};
            struct pst_image_info info;
            struct pst_error err;
            uint32_t channels, bits;
            uint8_t *colours = plain_png(&file, &channels, &bits), indices[21 * 37];
            const struct psti_rect whole = {0, 0, 21, 37}, r = {4, 5, 13, 21};
            assert_ok(psti_decode_probe(decoder, file.data, file.nbytes, PST_FORM_PNG, &options,
                                        &info, &err));
            assert_int_equal(info.channels, 1);
            assert_int_equal(info.bits, 8);
            assert_true(info.palette);
            assert_ok(psti_decode_region(decoder, file.data, file.nbytes, &info, &options, &whole,
                                         indices, 37, &err));
            for (size_t i = 0; i < sizeof indices; i++) { /* the palette of make_png() */
                assert_true(indices[i] < spec.n_palette);
                assert_int_equal(colours[i * channels], (uint8_t)(indices[i] * 3));
                assert_int_equal(colours[i * channels + 1], 255 - indices[i]);
            }
            assert_true(region_equals(decoder, &file, &info, &options, &r, indices));
            free(colours);
            bytes_free(&file);
        }
}

static uint32_t luma(uint32_t r, uint32_t g, uint32_t b)
{
    return (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
}

/* Computes sample `c` of a pixel converted from `n` to the wanted channels, by the rules in
 * image.h. */
static uint32_t wanted_sample(const uint32_t *p, uint32_t n, uint32_t wanted, uint32_t c,
                              uint32_t opaque)
{
    bool gray = n <= 2;
    if (wanted == 1)
        return gray ? p[0] : luma(p[0], p[1], p[2]);
    if (c == 3)
        return n == 2 ? p[1] : n == 4 ? p[3] : opaque;
    return gray ? p[0] : p[c];
}

static void check_conversion(const struct bytes *file, const uint8_t *plain, uint32_t n_in,
                             uint32_t bits_in, const struct pst_decode_options *options)
{
    const uint32_t n = 33 * 700;
    struct pst_image_info info;
    struct pst_error err;
    uint32_t n_out = options->channels ? options->channels : n_in;
    uint32_t bits_out = options->bits ? options->bits : bits_in;
    uint16_t *expected = malloc((size_t)n * n_out * 2);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < n_out; c++) {
            uint32_t p[4] = {0}, v;
            for (uint32_t k = 0; k < n_in; k++)
                p[k] = bits_in == 8 ? plain[i * n_in + k] : ((const uint16_t *)plain)[i * n_in + k];
            v = options->channels ? wanted_sample(p, n_in, n_out, c, bits_in == 8 ? 255 : 65535)
                                  : p[c];
            if (bits_in < bits_out)
                v *= 257;
            else if (bits_in > bits_out)
                v = (v * 255 + 32895) >> 16;
            if (bits_out == 8)
                ((uint8_t *)expected)[i * n_out + c] = (uint8_t)v;
            else
                expected[i * n_out + c] = (uint16_t)v;
        }
    const struct psti_rect r = {3, 11, 29, 613};
    assert_ok(
        psti_decode_probe(decoder, file->data, file->nbytes, PST_FORM_PNG, options, &info, &err));
    assert_true(region_equals(decoder, file, &info, options, NULL, (uint8_t *)expected));
    assert_true(region_equals(decoder, file, &info, options, &r, (uint8_t *)expected));
    free(expected);
}

/* Rows are longer than the group of pixels that a conversion handles at a time. */
static void test_channels_and_bits(void **state)
{
    static const uint8_t channels[] = {0, 1, 3, 4}, depths[] = {0, 8, 16};
    (void)state;
    for (size_t kind = 0; kind < N_KINDS; kind++) {
        struct png_spec spec = spec_of(kind, 33, 700, false, false);
        struct bytes file = make_png(&spec, kind);
        uint32_t n_in, bits_in;
        uint8_t *plain = plain_png(&file, &n_in, &bits_in);
        for (size_t c = 0; c < 4; c++)
            for (size_t b = 0; b < 3; b++) {
                struct pst_decode_options options = {
                    .struct_size = sizeof options, .channels = channels[c], .bits = depths[b]};
                check_conversion(&file, plain, n_in, bits_in, &options);
            }
        free(plain);
        bytes_free(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_larger_ones),
        cmocka_unit_test(test_palette_indices),
        cmocka_unit_test(test_channels_and_bits),
    };
    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
