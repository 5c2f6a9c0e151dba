/* Planes to pixels: every CPU level writes what plain C writes, for all shapes, layouts and depths,
 * and not a byte beside the part asked for. */
#include "test.h"

#include "base/cpu.h"
#include "decode/pli_int.h"

#include <string.h>

enum { ROW = 160, PLANE = 64 * ROW, ROOM = 80 * 64 * 8, N_LEVELS = 3 };

static const uint32_t levels[N_LEVELS] = {0, PSTI_CPU_AVX2,
                                          PSTI_CPU_AVX2 | PSTI_CPU_AVX512 | PSTI_CPU_AVX512_VBMI};

struct fixture {
    uint8_t planes[4][2 * PLANE];
    _Alignas(16) uint8_t out[N_LEVELS][ROOM + 64];
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
    for (int level = 0; level < N_LEVELS; level++) {
        if (levels[level] & ~psti_cpu_detected())
            continue;
        struct psti_pli_unit unit = *as;
        unit.cpu = levels[level];
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

/* Plain C itself, by the definition. */
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_agree),
        cmocka_unit_test(test_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
