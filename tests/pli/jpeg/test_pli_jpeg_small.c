/* test_pli_jpeg_small.c - tests JPEGs kept as PLI that are decoded at a half, a quarter and an
 * eighth of their size. Samples are the inverse DCT of the lowest frequencies. Regions have the
 * same pixels as the whole. All pixels are near the average of the full picture's pixels. */
#include "pixels.h"
#include "pli/jpeg/pli_jpeg_image.h"

#include "base/real_files.h"
#include "pli/pli.h"

#include <math.h>
#include <stdlib.h>

struct image {
    struct pli_jpeg_image of;
    void *scratch;
    size_t scratch_nbytes;
};

static bool image_open(struct bytes file, struct image *image)
{
    *image = (struct image){.scratch = NULL};
    if (!pli_jpeg_image_open(file, 0, &image->of))
        return false;
    image->scratch_nbytes = pst_pli_scratch_nbytes(&image->of.info, sizeof image->of.info);
    image->scratch = aligned_alloc(64, (image->scratch_nbytes + 63) / 64 * 64);
    assert_non_null(image->scratch);
    return true;
}

static void image_close(struct image *image)
{
    pli_jpeg_image_close(&image->of);
    free(image->scratch);
}

/* Decodes a region of the small image, (H,W,C). NULL: the whole image. */
static uint8_t *small_of(const struct image *image, uint32_t scale,
                         const struct pst_pli_region *region)
{
    struct pst_error err;
    uint32_t height = psti_pli_jpeg_scaled(image->of.info.height, scale);
    uint32_t width = psti_pli_jpeg_scaled(image->of.info.width, scale);
    if (region) {
        height = region->height;
        width = region->width;
    }
    uint8_t *data = malloc((size_t)height * width * image->of.info.channels);
    assert_non_null(data);
    struct pst_pixels pixels = test_pixels(data, height, width, image->of.info.channels, 8);
    assert_ok(psti_pli_jpeg_decode_scaled(NULL, image->of.pli.data, image->of.pli.nbytes, scale,
                                          region, &pixels, image->scratch, image->scratch_nbytes,
                                          NULL, NULL, &err));
    return data;
}

static double cosine(uint32_t x, uint32_t u, uint32_t n)
{
    return (u == 0 ? sqrt(0.5) : 1) * cos((2.0 * x + 1) * u * acos(-1.0) / (2.0 * n));
}

/* Computes sample (y, x) of component c in floating point. */
static double exact_sample(const struct image *image, uint32_t c, uint32_t scale, uint32_t y,
                           uint32_t x)
{
    const struct psti_jpeg_frame *frame = &image->of.content.frame;
    const struct psti_jpeg_component *component = &frame->components[c];
    uint32_t n = 8u >> scale;
    const int16_t *block =
        image->of.content.coefs[c] + ((size_t)(y / n) * component->columns + x / n) * 64;
    double sum = 0;
    for (uint32_t k = 0; k < 64; k++) {
        uint32_t v = psti_jpeg_zigzag[k] / 8, u = psti_jpeg_zigzag[k] % 8;
        if (u < n && v < n)
            sum += cosine(x % n, u, n) * cosine(y % n, v, n) * block[k] *
                   frame->quants[component->quant][k] / 4;
    }
    sum += 128;
    return sum < 0 ? 0 : sum > 255 ? 255 : sum;
}

/* Tests images without colour conversion and upsampling, whose pixels are the samples. */
static void test_samples(void **state)
{
    uint64_t seed = 1;
    (void)state;
    for (uint32_t i = 0; i < 30; i++) {
        const struct jpeg_spec spec = {.height = 1 + random_below(&seed, 150),
                                       .width = 1 + random_below(&seed, 150),
                                       .colours = i % 2 ? COLOURS_GRAY : COLOURS_RGB,
                                       .quality = (uint8_t)(20 + random_below(&seed, 81))};
        uint32_t scale = 1 + i % 3;
        struct image image;
        assert_true(image_open(make_jpeg(&spec, i), &image));
        uint32_t channels = image.of.info.channels;
        uint32_t height = psti_pli_jpeg_scaled(spec.height, scale);
        uint32_t width = psti_pli_jpeg_scaled(spec.width, scale);
        uint8_t *pixels = small_of(&image, scale, NULL);
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++)
                for (uint32_t c = 0; c < channels; c++) {
                    double exact = exact_sample(&image, c, scale, y, x);
                    double got = pixels[((size_t)y * width + x) * channels + c];
                    /* The tolerance is half a level plus the rounding error after the columns. */
                    if (fabs(got - exact) > 0.6)
                        fail_msg("%ux%u, scale %u: sample %u,%u,%u is %g instead of %g",
                                 spec.height, spec.width, scale, y, x, c, got, exact);
                }
        free(pixels);
        image_close(&image);
    }
}

static const uint8_t samplings[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2},
                                       {4, 1}, {4, 2}, {1, 4}, {2, 4}};
#define N_SAMPLINGS (sizeof samplings / sizeof samplings[0])

static void test_regions(void **state)
{
    uint64_t seed = 2;
    (void)state;
    for (uint32_t i = 0; i < 8 * N_SAMPLINGS; i++) {
        const struct jpeg_spec spec = {.height = 1 + random_below(&seed, 400),
                                       .width = 1 + random_below(&seed, 400),
                                       .colours = COLOURS_YCC,
                                       .h = samplings[i % N_SAMPLINGS][0],
                                       .v = samplings[i % N_SAMPLINGS][1],
                                       .quality = (uint8_t)(20 + random_below(&seed, 81))};
        struct image image;
        assert_true(image_open(make_jpeg(&spec, i), &image));
        for (uint32_t scale = 1; scale <= 3; scale++) {
            uint32_t height = psti_pli_jpeg_scaled(spec.height, scale);
            uint32_t width = psti_pli_jpeg_scaled(spec.width, scale);
            uint8_t *whole = small_of(&image, scale, NULL);
            for (uint32_t k = 0; k < 10; k++) {
                struct psti_rect r = random_region(&seed, height, width);
                const struct pst_pli_region region = {r.y, r.x, r.height, r.width};
                uint8_t *part = small_of(&image, scale, &region);
                for (uint32_t y = 0; y < r.height; y++)
                    assert_memory_equal(part + (size_t)y * r.width * 3,
                                        whole + ((size_t)(r.y + y) * width + r.x) * 3,
                                        (size_t)r.width * 3);
                free(part);
            }
            free(whole);
        }
        image_close(&image);
    }
}

/* Returns the sum of squared differences between each small pixel and the average of the full-size
 * pixels that it covers. */
static double squares_of(const struct image *image, const uint8_t *pixels, uint32_t scale,
                         size_t *n)
{
    uint32_t height = image->of.info.height >> scale, width = image->of.info.width >> scale;
    uint32_t channels = image->of.info.channels, edge = 1u << scale;
    size_t small_width = psti_pli_jpeg_scaled(image->of.info.width, scale);
    uint8_t *small = small_of(image, scale, NULL);
    double total = 0;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++) {
                double sum = 0;
                for (uint32_t i = 0; i < edge * edge; i++)
                    sum += pixels[((size_t)(y * edge + i / edge) * image->of.info.width + x * edge +
                                   i % edge) *
                                      channels +
                                  c];
                double d = sum / (edge * edge) - small[(y * small_width + x) * channels + c];
                total += d * d;
                ++*n;
            }
    free(small);
    return total;
}

/* A picture without detail keeps its colour. */
static void test_flat(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_SAMPLINGS; i++) {
        const struct jpeg_spec spec = {.height = 90,
                                       .width = 120,
                                       .colours = COLOURS_YCC,
                                       .h = samplings[i][0],
                                       .v = samplings[i][1],
                                       .quality = 80};
        struct image image;
        assert_true(image_open(make_jpeg(&spec, i), &image));
        for (uint32_t c = 0; c < 3; c++) /* all blocks become equal to the first one, without AC */
            for (size_t k = 0; k < psti_pli_jpeg_n_coefs(&image.of.content.frame, c); k++)
                image.of.content.coefs[c][k] = k % 64 ? 0 : image.of.content.coefs[c][0];
        struct pst_error err;
        const struct psti_jpeg_encode_options options = {.unit_log2 = 6};
        assert_ok(psti_pli_jpeg_encode(
            &image.of.content.frame, (const int16_t *const *)image.of.content.coefs, NULL, &options,
            image.of.pli.data, image.of.pli.nbytes, &image.of.pli.nbytes, &err));
        uint8_t *pixels = malloc(90 * 120 * 3);
        struct pst_pixels whole = test_pixels(pixels, 90, 120, 3, 8);
        assert_ok(pst_pli_decode(image.of.pli.data, image.of.pli.nbytes, NULL, -1, &whole,
                                 image.scratch, image.scratch_nbytes, &err));
        for (uint32_t scale = 1; scale <= 3; scale++) {
            size_t n = 0;
            assert_true(squares_of(&image, pixels, scale, &n) == 0 && n > 0);
        }
        free(pixels);
        image_close(&image);
    }
}

static void test_bad_arguments(void **state)
{
    const struct jpeg_spec spec = {
        .height = 50, .width = 60, .colours = COLOURS_YCC, .quality = 80};
    uint8_t data[25 * 30 * 3];
    struct pst_error err;
    struct image image;
    (void)state;
    assert_true(image_open(make_jpeg(&spec, 1), &image));
    const struct pst_pli_region beyond = {0, 0, 26, 30}, inside = {0, 0, 25, 30};
    struct pst_pixels pixels = test_pixels(data, 25, 30, 3, 8),
                      taller = test_pixels(data, 26, 30, 3, 8);
    const struct {
        uint32_t scale;
        const struct pst_pli_region *region;
        const struct pst_pixels *pixels;
        size_t less;
        enum pst_status status;
    } cases[] = {{1, &inside, &pixels, 0, PST_OK},
                 {1, NULL, &pixels, 0, PST_OK},
                 {0, &inside, &pixels, 0, PST_OK},
                 {4, &inside, &pixels, 0, PST_ERROR_ARGUMENT},
                 {2, &inside, &pixels, 0, PST_ERROR_ARGUMENT},
                 {1, &beyond, &taller, 0, PST_ERROR_ARGUMENT},
                 {1, &inside, &taller, 0, PST_ERROR_ARGUMENT},
                 {1, &inside, &pixels, image.scratch_nbytes, PST_ERROR_ARGUMENT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(psti_pli_jpeg_decode_scaled(
                             NULL, image.of.pli.data, image.of.pli.nbytes, cases[i].scale,
                             cases[i].region, cases[i].pixels, image.scratch,
                             image.scratch_nbytes - cases[i].less, NULL, NULL, &err),
                         cases[i].status);
    for (size_t cut = 0; cut < image.of.pli.nbytes; cut += 31)
        assert_int_equal(psti_pli_jpeg_decode_scaled(NULL, image.of.pli.data, cut, 1, NULL, &pixels,
                                                     image.scratch, image.scratch_nbytes, NULL,
                                                     NULL, &err),
                         PST_ERROR_TRUNCATED);
    image_close(&image);
}

struct differences {
    double squares[4];
    size_t n[4];
};

static bool add_differences(struct real_file *file, void *context)
{
    const struct bytes jpeg = {file->data, file->nbytes};
    struct differences *d = context;
    struct image image;
    bool taken = image_open(jpeg, &image);
    if (taken) {
        uint8_t *pixels = pli_jpeg_pixels(&jpeg);
        for (uint32_t scale = 1; scale <= 3; scale++)
            d->squares[scale] += squares_of(&image, pixels, scale, &d->n[scale]);
        free(pixels);
    }
    image_close(&image);
    return taken;
}

/* Measures on photographs, in decibels, how far small pixels are from the average of the full-size
 * pixels. */
static void test_difference_on_photographs(void **state)
{
    static const double least[4] = {0, 30, 33, 40};
    struct differences d = {0};
    (void)state;
    if (!real_files_root())
        skip();
    real_files("imagenet", real_files_rounds(20), add_differences, &d);
    for (uint32_t scale = 1; scale <= 3; scale++) {
        double psnr = 10 * log10(255.0 * 255.0 / (d.squares[scale] / (double)d.n[scale]));
        print_message("1/%u: %.1f dB\n", 1u << scale, psnr);
        assert_true(psnr >= least[scale]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_flat),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_difference_on_photographs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
