/* Tests the kernels that write planes as pixels (emission). Every CPU level writes the same pixels
 * as plain C, for all shapes, layouts and depths, and no byte outside of the wanted part. */
#include "test.h"

#include "base/bits.h"
#include "pli/pli_levels.h"

#include <string.h>

enum { ROW = 160, PLANE = 64 * ROW, ROOM = 80 * 64 * 8 };

static struct pli_level levels[PLI_LEVELS_MAX];
static uint32_t n_levels;

struct fixture {
    uint8_t planes[4][2 * PLANE];
    _Alignas(16) uint8_t out[PLI_LEVELS_MAX][ROOM + 64];
};

static struct fixture fixture;

static void fill(uint64_t seed)
{
    uint8_t *bytes = &fixture.planes[0][0];
    for (size_t i = 0; i < sizeof fixture.planes; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(seed >> 40);
    }
}

enum layout { INTERLEAVED, PLANAR, SPREAD, N_LAYOUTS };

static struct pst_pixels pixels_for(uint8_t *at, enum layout layout, uint32_t height,
                                    uint32_t width, uint8_t channels, uint8_t bits)
{
    int64_t sample = bits / 8;
    struct pst_pixels pixels = {.data = at,
                                .height = height,
                                .width = width,
                                .channels = channels,
                                .bits = bits,
                                .channel_nbytes = sample,
                                .pixel_nbytes = sample * channels};
    if (layout == PLANAR) {
        pixels.pixel_nbytes = sample;
        pixels.row_nbytes = sample * width + 2;
        pixels.channel_nbytes = pixels.row_nbytes * height;
    } else if (layout == SPREAD) {
        pixels.pixel_nbytes = sample * (channels + 1);
        pixels.row_nbytes = pixels.pixel_nbytes * width;
    } else {
        pixels.row_nbytes = pixels.pixel_nbytes * width + (width & 1 ? 6 : 0);
    }
    return pixels;
}

static void check(const struct psti_pli_unit *as, const struct psti_pli_part *part,
                  enum layout layout)
{
    uint8_t channels = part->channel < 0 ? as->channels : 1;
    struct psti_pli_planes planes = {.base = fixture.planes[0],
                                     .plane_step = sizeof fixture.planes[0],
                                     .band_step = (size_t)32 * ROW,
                                     .row_step = ROW};
    for (uint32_t level = 0; level < n_levels; level++) {
        struct psti_pli_unit unit = *as;
        unit.kernels = levels[level].kernels;
        memset(fixture.out[level], 0x5A, sizeof fixture.out[level]);
        struct pst_pixels pixels = pixels_for(fixture.out[level] + 2 * (part->x & 15), layout,
                                              part->height, part->width, channels, as->bits);
        struct psti_pli_part here = *part;
        here.pixels = &pixels;
        psti_pli_emit_planes(&unit, &planes, &here);
        assert_memory_equal(fixture.out[level], fixture.out[0], sizeof fixture.out[0]);
    }
}

static void test_levels_agree(void **state)
{
    (void)state;
    fill(3);
    for (uint8_t channels = 1; channels <= 4; channels++)
        for (uint8_t bits = 8; bits <= 16; bits += 8)
            for (int k = 0; k < (channels >= 3 ? 4 : 2); k++)
                for (int layout = 0; layout < N_LAYOUTS; layout++)
                    for (uint32_t width = 1; width <= 64; width++)
                        for (int channel = -1; channel < channels; channel++) {
                            struct psti_pli_unit unit = {.height = 64,
                                                         .width = 64,
                                                         .channels = channels,
                                                         .bits = bits,
                                                         .transform = k >> 1,
                                                         .max_error = k & 1};
                            uint32_t x = (64 - width) / 2;
                            struct psti_pli_part part = {
                                .y = 29, .x = x, .height = 5, .width = width, .channel = channel};
                            check(&unit, &part, (enum layout)layout);
                        }
}

/* Compares 16-bit RGB with the definition, because plain C has no kernel for it. */
static void check_rgb16(const struct psti_pli_emit_kernels *kernels, bool green)
{
    enum { GUARD = 32, PIXEL = 6, NBYTES = GUARD + 64 * PIXEL + GUARD };
    for (uint32_t n = 1; n <= 64; n++) {
        uint8_t out[NBYTES], expected[NBYTES];
        size_t at = GUARD + n % 16;
        const uint8_t *p[3];
        for (int c = 0; c < 3; c++)
            p[c] = fixture.planes[c] + 7 * n + (size_t)c;
        memset(out, 0x5A, sizeof out);
        memset(expected, 0x5A, sizeof expected);
        for (size_t x = 0; x < n; x++)
            for (size_t c = 0; c < 3; c++) {
                size_t from = !green ? c : c == 1 ? 0 : c == 0 ? 1 : 2;
                uint32_t v = psti_load_u16(p[from] + 2 * x);
                if (green && from != 0)
                    v += psti_load_u16(p[0] + 2 * x) + 32768u;
                psti_store_u16(expected + at + PIXEL * x + 2 * c, (uint16_t)v);
            }
        kernels->rgb_u16(p[0], p[1], p[2], green, out + at, n);
        assert_memory_equal(out, expected, sizeof out);
    }
}

static void check_rows(const struct psti_pli_emit_kernels *kernels)
{
    enum { HEIGHT = 5, STEP = 64 * 3 + 7, GUARD = 64, NBYTES = GUARD + HEIGHT * STEP + GUARD };
    static uint8_t out[NBYTES], expected[NBYTES];
    const uint8_t *p[3];
    if (!kernels->green_rgb_u8_rows)
        return;
    for (size_t at = 0; at < GUARD; at++) {
        for (size_t c = 0; c < 3; c++)
            p[c] = fixture.planes[c] + at + c;
        memset(out, 0x5A, sizeof out);
        memset(expected, 0x5A, sizeof expected);
        for (size_t y = 0; y < HEIGHT; y++)
            psti_pli_emit_kernels_c.green_rgb_u8(p[0] + 64 * y, p[1] + 64 * y, p[2] + 64 * y,
                                                 expected + at + STEP * y, 64);
        kernels->green_rgb_u8_rows(p[0], p[1], p[2], 64, HEIGHT, out + at, STEP);
        assert_memory_equal(out, expected, sizeof out);
    }
}

/* Checks that the kernels of one level write the same bytes as those of plain C. */
static void check_kernels(const struct psti_pli_emit_kernels *kernels)
{
    enum { GUARD = 32, LARGEST = 64 * 4 };
    const struct psti_pli_emit_kernels *tables[2] = {&psti_pli_emit_kernels_c, kernels};
    static uint8_t out[2][4][GUARD + LARGEST + GUARD];
    for (uint32_t n = 1; n <= 64; n++) {
        const uint8_t *p[4];
        for (int c = 0; c < 4; c++)
            p[c] = fixture.planes[c] + 7 * n + (size_t)c;
        memset(out, 0x5A, sizeof out);
        for (int k = 0; k < 2; k++) {
            size_t at = GUARD + n % 16;
            tables[k]->green_rgb_u8(p[0], p[1], p[2], out[k][0] + at, n);
            tables[k]->green_rgba_u8(p[0], p[1], p[2], p[3], out[k][1] + at, n);
            tables[k]->green_one_u8(p[0], p[1], out[k][2] + at, n);
            tables[k]->plain_rgb_u8(p[0], p[1], p[2], out[k][3] + at, n);
        }
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
    check_rows(kernels);
    if (!kernels->rgb_u16) /* NEON has no such kernel */
        return;
    check_rgb16(kernels, false);
    check_rgb16(kernels, true);
}

static void test_kernels_agree(void **state)
{
    (void)state;
    fill(5);
    for (uint32_t level = 1; level < n_levels; level++)
        check_kernels(levels[level].kernels->emit);
}

/* Compares plain C with the definition. */
static void test_colours(void **state)
{
    (void)state;
    fill(4);
    struct psti_pli_unit unit = {
        .height = 64, .width = 64, .channels = 4, .bits = 8, .transform = PSTI_PLI_SUBTRACT_GREEN};
    struct psti_pli_part part = {.height = 64, .width = 64, .channel = -1};
    check(&unit, &part, INTERLEAVED);
    for (uint32_t y = 0; y < 64; y++)
        for (uint32_t x = 0; x < 64; x++) {
            const uint8_t *px = &fixture.out[0][(y * 64 + x) * 4];
            size_t at = y * ROW + x;
            uint8_t g = fixture.planes[0][at];
            assert_int_equal(px[0], (uint8_t)(fixture.planes[1][at] + g + 128));
            assert_int_equal(px[1], g);
            assert_int_equal(px[2], (uint8_t)(fixture.planes[2][at] + g + 128));
            assert_int_equal(px[3], fixture.planes[3][at]);
        }
}

int main(void)
{
    n_levels = pli_levels(levels);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_agree),
        cmocka_unit_test(test_kernels_agree),
        cmocka_unit_test(test_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
