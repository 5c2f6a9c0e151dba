/* test_pli_some.c - decodes whole images and regions with emulated AVX-512, the level that decodes
 * several units at once. (With samples of 16 bits this level uses AVX2.) Pixels, statuses and
 * errors must be those of plain C. */
#include "base/bits.h"
#include "pixels.h"
#include "pli/pli_levels.h"

#include <penstock/pli.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_SIDE = 330 };

struct image {
    uint32_t height, width;
    uint8_t channels, bits;
    uint8_t *samples, *file;
    size_t nbytes;
};

static uint32_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* Makes an image that is smooth in some parts and noisy in others. One channel is constant in a
 * part of it, so units differ in which planes are coded. */
static struct image make_image(uint32_t height, uint32_t width, uint8_t channels, uint8_t bits,
                               enum pst_pli_tier tier, uint64_t seed)
{
    struct image image = {.height = height, .width = width, .channels = channels, .bits = bits};
    struct pst_error err;
    size_t n = 0, bound = pst_pli_encode_bound(height, width, channels, bits);
    image.samples = malloc((size_t)height * width * channels * (bits / 8));
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++) {
                uint32_t noise = next(&seed) % (2 + (x + y) / 40);
                bool flat = c == 1 && x > 100 && x < 240 && y > 50;
                uint32_t v = flat ? 77 : x / 2 + y * (c + 1) / 3 + noise;
                if (bits == 8)
                    image.samples[n++] = (uint8_t)v;
                else
                    psti_store_u16(image.samples + 2 * n++, (uint16_t)(v * 59));
            }
    const struct pst_pixels pixels = test_pixels(image.samples, height, width, channels, bits);
    const struct pst_pli_encode_options options = {
        .struct_size = sizeof options, .tier = tier, .no_checksum = true};
    image.file = malloc(bound);
    assert_int_equal(pst_pli_encode(&pixels, &options, image.file, bound, &image.nbytes, &err),
                     PST_OK);
    return image;
}

static void free_image(struct image *image)
{
    free(image->samples);
    free(image->file);
}

static uint8_t *scratch, *out[2];
static size_t scratch_nbytes;

/* Decodes with plain C and with several units at once, and compares. Returns the status. */
static enum pst_status compare(const struct image *image, const struct pst_pli_region *region)
{
    const struct psti_pli_kernels *kernels[2] = {psti_pli_kernels_of(0), pli_emulated_avx512()};
    struct pst_error errors[2];
    enum pst_status statuses[2];
    size_t nbytes = (size_t)region->height * region->width * image->channels * (image->bits / 8);
    for (int i = 0; i < 2; i++) {
        memset(errors + i, 0, sizeof errors[i]);
        memset(out[i], 0x5a, nbytes);
        const struct pst_pixels pixels =
            test_pixels(out[i], region->height, region->width, image->channels, image->bits);
        statuses[i] = psti_pli_decode_with(kernels[i], image->file, image->nbytes, region, -1,
                                           &pixels, scratch, scratch_nbytes, errors + i);
    }
    assert_int_equal(statuses[1], statuses[0]);
    if (statuses[0] == PST_OK) {
        assert_memory_equal(out[1], out[0], nbytes);
    } else {
        assert_string_equal(errors[1].text, errors[0].text);
        assert_int_equal(errors[1].offset, errors[0].offset);
    }
    return statuses[0];
}

static void test_images(void **state)
{
    static const enum pst_pli_tier tiers[] = {PST_PLI_TIER_FAST, PST_PLI_TIER_SMALL,
                                              PST_PLI_TIER_DENSE};
    uint64_t seed = 5;
    size_t n_failed = 0, n_fine = 0;
    (void)state;
    if (!pli_emulated_avx512())
        skip();
    for (uint32_t i = 0; i < 24; i++) {
        uint32_t height = 64 + next(&seed) % (MAX_SIDE - 64), width = 100 + next(&seed) % 230;
        struct image image = make_image(height, width, (uint8_t)(i % 4 + 1), i < 12 ? 8 : 16,
                                        tiers[i % 3], next(&seed));
        const struct pst_pli_region whole = {0, 0, height, width};
        assert_int_equal(compare(&image, &whole), PST_OK);
        assert_memory_equal(out[1], image.samples,
                            (size_t)height * width * image.channels * (image.bits / 8));
        for (int k = 0; k < 6; k++) {
            struct pst_pli_region r = {.y = next(&seed) % height, .x = next(&seed) % width};
            r.height = 1 + next(&seed) % (height - r.y);
            r.width = 1 + next(&seed) % (width - r.x);
            assert_int_equal(compare(&image, &r), PST_OK);
        }
        for (int k = 0; k < 12; k++) { /* a byte somewhere in the units is damaged */
            size_t at = image.nbytes / 8 + next(&seed) % (image.nbytes - image.nbytes / 8);
            uint8_t flip = (uint8_t)(1 + next(&seed) % 255);
            image.file[at] ^= flip;
            if (compare(&image, &whole) == PST_OK)
                n_fine++;
            else
                n_failed++;
            image.file[at] ^= flip;
        }
        free_image(&image);
    }
    assert_true(n_failed > 20);
    assert_true(n_fine > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_images)};
    struct pst_pli_info info = {.content = PST_PLI_CONTENT_PIXELS,
                                .unit_edge = 64,
                                .height = MAX_SIDE,
                                .width = MAX_SIDE,
                                .channels = 4,
                                .bits = 16};
    scratch_nbytes = pst_pli_scratch_nbytes(&info, sizeof info);
    scratch = aligned_alloc(64, scratch_nbytes);
    out[0] = malloc(MAX_SIDE * MAX_SIDE * 4 * 2);
    out[1] = malloc(MAX_SIDE * MAX_SIDE * 4 * 2);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(scratch);
    free(out[0]);
    free(out[1]);
    return failed;
}
