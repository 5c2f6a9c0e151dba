/* test_pli_jpeg_idct.c - tests the inverse DCT. Every CPU level gives libjpeg-turbo's own samples,
 * for whole units and for any subset of their blocks, and writes no other samples. */
#include "pli/jpeg/pli_jpeg_make.h"

#include "pli/coefs/pli_kept.h"
#include "pli/pli_levels.h"

#include <stdlib.h>

static struct pli_level levels[PLI_LEVELS_MAX];
static uint32_t n_levels;

static void *work;

static int make_work(void **state)
{
    (void)state;
    work = aligned_alloc(64, PSTI_PLI_JPEG_IDCT_NBYTES);
    memset(work, 0x77, PSTI_PLI_JPEG_IDCT_NBYTES);
    return work ? 0 : -1;
}

static int free_work(void **state)
{
    (void)state;
    free(work);
    return 0;
}

static void quants_of(const struct psti_jpeg_frame *frame, struct psti_pli_jpeg_quants *quants)
{
    memset(quants, 0, sizeof *quants);
    for (int c = 0; c < frame->n_components; c++)
        for (int k = 0; k < 64; k++)
            quants->twice[c][k] = frame->quants[frame->components[c].quant][k] * 0x10001u;
}

/* Memory that holds the components one above the other, in rows as wide as the widest component. */
struct canvas {
    size_t stride, tops[PSTI_JPEG_COMPONENTS_MAX], nbytes;
    uint8_t *samples;
};

static struct canvas canvas_for(const struct psti_jpeg_frame *frame)
{
    struct canvas canvas = {0};
    for (int c = 0; c < frame->n_components; c++)
        if (canvas.stride < frame->components[c].columns * 8u)
            canvas.stride = frame->components[c].columns * 8u;
    for (int c = 0; c < frame->n_components; c++) {
        canvas.tops[c] = canvas.nbytes;
        canvas.nbytes += canvas.stride * frame->components[c].rows * 8;
    }
    canvas.samples = malloc(canvas.nbytes);
    assert_non_null(canvas.samples);
    return canvas;
}

static ptrdiff_t place_of(const struct canvas *canvas, const struct psti_jpeg_square *square,
                          uint32_t position)
{
    size_t row = square->row + (position >> 3), column = square->column + (position & 7);
    return (ptrdiff_t)(canvas->tops[square->component] + row * 8 * canvas->stride + column * 8);
}

/* Runs one CPU level. If its coefficient decoder keeps only the wanted blocks, it gets a list of
 * these blocks. */
static void run_level(size_t i, const struct psti_pli_jpeg_blocks *blocks)
{
    const struct psti_pli_kernels *kernels = levels[i].kernels;
    psti_pli_jpeg_idct *run = blocks->edge == 4 ? kernels->jpeg_idct_half : kernels->jpeg_idct;
    struct psti_pli_jpeg_blocks some = *blocks;
    struct psti_pli_coefs kept;
    if (blocks->all || !kernels->coefs->keep) {
        run(blocks, work);
        return;
    }
    void *memory = pli_keep(blocks->coefs, blocks->wanted, 63, &kept);
    some.coefs = &kept;
    some.all = true;
    if (kept.n > 0)
        run(&some, work);
    free(memory);
}

/* Compares samples block by block, because only some blocks are wanted. */
static void compare(const struct pli_jpeg *jpeg, const struct pli_jpeg_unit *unit,
                    const struct psti_pli_jpeg_blocks *blocks, const struct canvas *canvas,
                    const char *level)
{
    for (uint32_t i = 0; i < unit->coefs.n; i++) {
        const struct psti_jpeg_square *square = &unit->coefs.squares[unit->order[i] >> 6];
        const struct psti_jpeg_component *component = &jpeg->frame.components[square->component];
        uint32_t position = unit->order[i] & 63;
        size_t row = square->row + (position >> 3), column = square->column + (position & 7);
        const uint8_t *from =
            jpeg->samples[square->component] + (row * component->columns * 8 + column) * 8;
        const uint8_t *got = canvas->samples + place_of(canvas, square, position);
        bool wanted = (blocks->wanted[unit->order[i] >> 6] >> position & 1) != 0;
        /* libjpeg does not transform blocks that lie completely outside of the image. */
        if (wanted && (row * 8 >= component->height || column * 8 >= component->width))
            continue;
        for (uint32_t y = 0; y < 8; y++)
            for (uint32_t x = 0; x < 8; x++) {
                uint8_t sample = got[y * canvas->stride + x];
                uint8_t expected = wanted ? from[y * component->columns * 8 + x] : 0xA5;
                if (sample != expected)
                    fail_msg("%s: component %u, block %zu,%zu, sample %u,%u: %u instead of %u",
                             level, square->component, row, column, y, x, sample, expected);
            }
    }
}

static void check_unit(const struct pli_jpeg *jpeg, const struct pli_jpeg_unit *unit,
                       struct canvas *canvas, uint64_t *seed)
{
    struct psti_pli_jpeg_quants quants;
    struct psti_pli_jpeg_blocks blocks = {.coefs = &unit->coefs,
                                          .quants = &quants,
                                          .samples = canvas->samples,
                                          .stride = canvas->stride,
                                          .edge = 8};
    quants_of(&jpeg->frame, &quants);
    for (uint32_t s = 0; s < unit->coefs.n_squares; s++)
        blocks.at[s] = place_of(canvas, &unit->coefs.squares[s], 0);
    for (int part = 0; part < 6; part++) {
        blocks.all = part == 0;
        for (uint32_t s = 0; s < unit->coefs.n_squares; s++) {
            uint64_t bits = UINT64_MAX;
            for (int k = 1; k < part && k < 5; k++)
                bits &= next_random(seed);
            blocks.wanted[s] = part == 5 && random_below(seed, 2) ? 0 : bits;
        }
        for (size_t i = 0; i < n_levels; i++) {
            memset(canvas->samples, 0xA5, canvas->nbytes);
            run_level(i, &blocks);
            compare(jpeg, unit, &blocks, canvas, levels[i].name);
        }
    }
}

static void check_file(const struct bytes *file, uint64_t *seed)
{
    struct pli_jpeg jpeg;
    assert_true(pli_jpeg_read(file, &jpeg));
    struct canvas canvas = canvas_for(&jpeg.frame);
    for (uint32_t unit_log2 = 6; unit_log2 <= PSTI_JPEG_UNIT_LOG2_MAX; unit_log2++) {
        uint32_t edge = 1u << unit_log2;
        for (uint32_t row = 0; row * edge < jpeg.frame.height; row++)
            for (uint32_t column = 0; column * edge < jpeg.frame.width; column++) {
                struct pli_jpeg_unit unit;
                pli_jpeg_unit_make(&jpeg, unit_log2, row, column, &unit);
                check_unit(&jpeg, &unit, &canvas, seed);
                pli_jpeg_unit_free(&unit);
            }
    }
    free(canvas.samples);
    pli_jpeg_free(&jpeg);
}

static void test_qualities_and_samplings(void **state)
{
    static const uint8_t samplings[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}};
    static const uint8_t qualities[] = {1, 5, 30, 60, 80, 90, 95, 100};
    uint64_t seed = 1;
    (void)state;
    for (size_t s = 0; s < sizeof samplings / sizeof samplings[0]; s++)
        for (size_t q = 0; q < sizeof qualities; q++) {
            const struct jpeg_spec spec = {.height = 40 + random_below(&seed, 60),
                                           .width = 100 + random_below(&seed, 60),
                                           .colours = q % 4 == 3 ? COLOURS_RGB : COLOURS_YCC,
                                           .h = samplings[s][0],
                                           .v = samplings[s][1],
                                           .quality = qualities[q],
                                           .progressive = q % 2};
            struct bytes file = make_jpeg(&spec, seed);
            check_file(&file, &seed);
            bytes_free(&file);
        }
}

static void test_gray(void **state)
{
    uint64_t seed = 2;
    (void)state;
    for (uint32_t edge = 1; edge < 70; edge += 4) {
        const struct jpeg_spec spec = {
            .height = edge, .width = 71 - edge, .colours = COLOURS_GRAY, .quality = 75};
        struct bytes file = make_jpeg(&spec, edge);
        check_file(&file, &seed);
        bytes_free(&file);
    }
}

/* All levels agree on the largest coefficients, which do not occur in pictures. */
static void test_levels_on_noise(void **state)
{
    uint64_t seed = 4;
    (void)state;
    const struct jpeg_spec spec = {
        .height = 64, .width = 64, .colours = COLOURS_YCC, .quality = 50};
    struct bytes file = make_jpeg(&spec, 1);
    struct pli_jpeg jpeg;
    assert_true(pli_jpeg_read(&file, &jpeg));
    struct canvas canvas = canvas_for(&jpeg.frame);
    uint8_t *first = malloc(canvas.nbytes);
    for (uint32_t round = 0; round < 300; round++) {
        struct pli_jpeg_unit unit;
        struct psti_pli_jpeg_quants quants;
        uint32_t dense = 1 + random_below(&seed, 16), reach = random_below(&seed, 64);
        for (uint32_t c = 0; c < 3; c++) {
            for (size_t i = 0; i < psti_pli_jpeg_n_coefs(&jpeg.frame, c); i++) {
                bool any = i % 64 <= reach && random_below(&seed, dense) == 0;
                int16_t extreme = (int16_t)(random_below(&seed, 2) ? INT16_MAX : INT16_MIN);
                int16_t value = (int16_t)next_random(&seed);
                jpeg.coefs[c][i] = !any ? 0 : round % 3 == 0 ? extreme : value;
            }
            for (uint32_t k = 0; k < 64; k++)
                quants.twice[c][k] =
                    (round % 3 ? 1 + random_below(&seed, round % 3 == 1 ? 3 : 65535) : 1) *
                    0x10001u;
        }
        pli_jpeg_unit_make(&jpeg, 6, 0, 0, &unit);
        struct psti_pli_jpeg_blocks blocks = {.coefs = &unit.coefs,
                                              .quants = &quants,
                                              .samples = canvas.samples,
                                              .stride = canvas.stride,
                                              .edge = random_below(&seed, 3) ? 8 : 4,
                                              .all = round % 2};
        for (uint32_t s = 0; s < unit.coefs.n_squares; s++) {
            blocks.at[s] = place_of(&canvas, &unit.coefs.squares[s], 0);
            blocks.wanted[s] = blocks.all ? UINT64_MAX : next_random(&seed);
        }
        for (size_t i = 0; i < n_levels; i++) {
            memset(canvas.samples, 0xA5, canvas.nbytes);
            run_level(i, &blocks);
            if (i == 0)
                memcpy(first, canvas.samples, canvas.nbytes);
            assert_memory_equal(first, canvas.samples, canvas.nbytes);
        }
        pli_jpeg_unit_free(&unit);
    }
    free(first);
    free(canvas.samples);
    pli_jpeg_free(&jpeg);
    bytes_free(&file);
}

int main(void)
{
    n_levels = pli_levels(levels);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_qualities_and_samplings, make_work, free_work),
        cmocka_unit_test_setup_teardown(test_gray, make_work, free_work),
        cmocka_unit_test_setup_teardown(test_levels_on_noise, make_work, free_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
