/* test_l3_kernel.c - the GPU kernel of L3, compiled as C++ for a CPU: it gives the pixels of the
 * CPU's decoder, and accepts or refuses changed bytes alike. */
#include "l3_make.h"

#include "l3/l3.h"
#include "l3/l3_gpu.h"

void l3_decode_tiles(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);
static void launch(uint32_t n_blocks, const struct l3_gpu_args *args)
{
    l3_decode_tiles(n_blocks, L3_GPU_WARPS, 0, args);
}

static struct l3_gpu_tile *tiles_of(const uint8_t *coded, const struct l3_info *info)
{
    struct l3_gpu_tile *tiles = calloc(info->n_tiles, sizeof *tiles);
    uint32_t at = (uint32_t)info->streams;
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t i = 0; i < info->n_tiles; i++) {
            tiles[i].i_tile = i;
            tiles[i].begin[c] = at;
            tiles[i].nbytes[c] = l3_tile_nbytes(coded, info, c, i);
            at += tiles[i].nbytes[c];
        }
    return tiles;
}

/* Returns true if the kernel accepts the bytes; `pixels` then has its pixels. */
static bool run(const uint8_t *coded, const struct l3_info *info, uint8_t *pixels)
{
    uint32_t is_wrong = 0;
    struct l3_gpu_tile *tiles = tiles_of(coded, info);
    const struct l3_gpu_image image = {.coded = (uintptr_t)coded,
                                       .pixels = (uintptr_t)pixels,
                                       .is_wrong = (uintptr_t)&is_wrong,
                                       .width = info->width,
                                       .height = info->height,
                                       .edge = info->edge,
                                       .n_across = info->n_across};
    const struct l3_gpu_args args = {
        .images = (uintptr_t)&image, .tiles = (uintptr_t)tiles, .n_tiles = info->n_tiles};
    launch((info->n_tiles + L3_GPU_WARPS - 1) / L3_GPU_WARPS, &args);
    free(tiles);
    return is_wrong == 0;
}

static void compare(const uint8_t *bytes, size_t nbytes, bool is_known_good)
{
    struct l3_info info;
    struct guarded coded = guarded_make(nbytes, 0);
    memcpy(coded.data, bytes, nbytes);
    if (!l3_read(coded.data, nbytes, &info)) {
        assert_false(is_known_good);
        guarded_free(&coded);
        return;
    }
    const size_t row_nbytes = info.width * 3u, all = row_nbytes * info.height;
    struct guarded expected = guarded_make(all, 0), found = guarded_make(all, 64);
    bool is_good = l3_decode(coded.data, nbytes, expected.data, row_nbytes);
    assert_true(is_good || !is_known_good);
    assert_int_equal(run(coded.data, &info, found.data), is_good);
    if (is_good)
        assert_memory_equal(found.data, expected.data, all);
    guarded_free(&found);
    guarded_free(&expected);
    guarded_free(&coded);
}

static void test_kernel(void **state)
{
    struct test_random random = {.seed = 30};
    (void)state;
    for (int kind = 0; kind < L3_KINDS; kind++)
        for (size_t i = 0; i < L3_N_SIZES; i++)
            for (uint32_t edge = 32; edge <= 64; edge *= 2) {
                const uint32_t height = l3_sizes[i][0], width = l3_sizes[i][1];
                const size_t cap = l3_bound(height, width, edge);
                uint8_t *pixels = malloc((size_t)height * width * 3), *coded = malloc(cap);
                size_t nbytes;
                l3_fill(&random, (enum l3_kind)kind, height, width, pixels);
                assert_true(
                    l3_encode(pixels, width * 3u, height, width, edge, coded, cap, &nbytes));
                compare(coded, nbytes, true);
                for (int round = 0; round < 4; round++) {
                    uint8_t *at = coded + test_below(&random, (uint32_t)nbytes), was = *at;
                    *at = (uint8_t)test_below(&random, 256);
                    compare(coded, nbytes, false);
                    *at = was;
                }
                free(coded);
                free(pixels);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
