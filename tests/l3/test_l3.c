/* test_l3.c PHOTOGRAPH... - the L3 codec that benchmarks use: pixels are restored, the bytes
 * follow the layout, and truncated or changed bytes are refused or decoded without leaving their
 * memory. */
#include "l3_make.h"

#include "l3/l3.h"

#include <penstock/image.h>

#include <stdio.h>

static int n_photographs;
static char **photographs;

/* Encodes, and returns the bytes in memory that ends at a guard page. */
static struct guarded coded_of(const uint8_t *pixels, size_t row_nbytes, uint32_t height,
                               uint32_t width, uint32_t edge, size_t *nbytes)
{
    const size_t cap = l3_bound(height, width, edge);
    struct guarded room = guarded_make(cap, 0);
    assert_true(l3_encode(pixels, row_nbytes, height, width, edge, room.data, cap, nbytes));
    assert_true(*nbytes <= cap);
    struct guarded coded = guarded_make(*nbytes, 0);
    memcpy(coded.data, room.data, *nbytes);
    guarded_free(&room);
    return coded;
}

static void comes_back(const uint8_t *pixels, uint32_t height, uint32_t width, uint32_t edge,
                       size_t *nbytes)
{
    const size_t row_nbytes = (size_t)width * 3, gap = 5;
    struct l3_info info;
    struct guarded coded = coded_of(pixels, row_nbytes, height, width, edge, nbytes);
    struct guarded out = guarded_make(height * (row_nbytes + gap) - gap, 64);
    assert_true(l3_read(coded.data, *nbytes, &info));
    assert_int_equal(info.width, width);
    assert_int_equal(info.height, height);
    assert_int_equal(info.edge, edge);
    assert_true(l3_decode(coded.data, *nbytes, out.data, row_nbytes + gap));
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *row = out.data + y * (row_nbytes + gap);
        assert_memory_equal(row, pixels + y * row_nbytes, row_nbytes);
        for (size_t i = 0; i < gap && y + 1 < height; i++)
            assert_int_equal(row[row_nbytes + i], 0xa5);
    }
    guarded_free(&out);
    guarded_free(&coded);
}

static void test_pixels_come_back(void **state)
{
    struct test_random random = {.seed = 27};
    size_t nbytes;
    (void)state;
    for (int kind = 0; kind < L3_KINDS; kind++)
        for (size_t i = 0; i < L3_N_SIZES; i++) {
            const uint32_t height = l3_sizes[i][0], width = l3_sizes[i][1];
            uint8_t *pixels = malloc((size_t)height * width * 3);
            l3_fill(&random, (enum l3_kind)kind, height, width, pixels);
            comes_back(pixels, height, width, 32, &nbytes);
            comes_back(pixels, height, width, 64, &nbytes);
            free(pixels);
        }
}

static void test_photographs_come_back(void **state)
{
    const struct pst_decode_options options = {
        .struct_size = sizeof options, .channels = 3, .bits = 8};
    struct pst_image_info info;
    struct pst_error err;
    (void)state;
    assert_true(n_photographs > 0);
    for (int i = 0; i < n_photographs; i++) {
        FILE *file = fopen(photographs[i], "rb");
        assert_non_null(file);
        unsigned char *bytes = malloc(4u << 20);
        size_t nbytes = fread(bytes, 1, 4u << 20, file);
        fclose(file);
        assert_ok(
            pst_image_probe(bytes, nbytes, PST_FORM_NONE, &options, &info, sizeof info, &err));
        const size_t row_nbytes = (size_t)info.width * 3, all = row_nbytes * info.height;
        uint8_t *pixels = malloc(all);
        assert_ok(
            pst_image_decode(bytes, nbytes, info.form, &options, pixels, all, row_nbytes, &err));
        for (uint32_t edge = 32; edge <= 64; edge *= 2) {
            comes_back(pixels, info.height, info.width, edge, &nbytes);
            assert_true(nbytes < all);
        }
        free(pixels);
        free(bytes);
    }
}

/* 8 samples of R that rise by 1 from 10; G and B are always 7. The bytes were computed by hand from
 * the layout. */
static void test_bytes_of_the_layout(void **state)
{
    static const uint8_t expected[] = {'L',  'L',  'L',  '.',  8,    0,    0, 0,    1,
                                       0,    0,    0,    32,            /* header */
                                       5,    0,    2,    0,    2,    0, /* sizes of the tiles */
                                       0xa3, 0x80, 0x68, 0xac, 0x0f, 0x70, 0, 0x70, 0};
    const size_t cap = l3_bound(1, 8, 32);
    uint8_t pixels[24], *room = malloc(cap);
    size_t nbytes;
    (void)state;
    for (uint32_t x = 0; x < 8; x++) {
        pixels[3 * x] = (uint8_t)(10 + x);
        pixels[3 * x + 1] = pixels[3 * x + 2] = 7;
    }
    assert_true(l3_encode(pixels, 24, 1, 8, 32, room, cap, &nbytes));
    assert_int_equal(nbytes, sizeof expected);
    assert_memory_equal(room, expected, sizeof expected);
    free(room);
}

static void test_sizes_are_refused(void **state)
{
    const uint8_t pixels[3] = {1, 2, 3};
    uint8_t out[8192];
    size_t nbytes;
    (void)state;
    assert_int_equal(l3_bound(0, 1, 64), 0);
    assert_int_equal(l3_bound(1, L3_SIDE_MAX_PX + 1, 64), 0);
    assert_false(l3_encode(pixels, 3, 1, 1, 16, out, sizeof out, &nbytes));
    assert_false(l3_encode(pixels, 3, 0, 1, 32, out, sizeof out, &nbytes));
    assert_false(l3_encode(pixels, 3, 1, 1, 32, out, l3_bound(1, 1, 32) - 1, &nbytes));
    assert_true(l3_encode(pixels, 3, 1, 1, 32, out, l3_bound(1, 1, 32), &nbytes));
}

/* Decodes a copy that ends at a guard page into pixels that end at a guard page. Returns whether it
 * was accepted. */
static bool takes(const uint8_t *bytes, size_t nbytes, uint32_t height, uint32_t width)
{
    struct guarded coded = guarded_make(nbytes, 0), out = guarded_make(height * width * 3u, 64);
    struct l3_info info;
    if (nbytes)
        memcpy(coded.data, bytes, nbytes);
    bool is_read = l3_read(coded.data, nbytes, &info);
    /* A caller allocates memory of the size that the header states. */
    bool taken = is_read && info.width == width && info.height == height &&
                 l3_decode(coded.data, nbytes, out.data, width * 3u);
    guarded_free(&out);
    guarded_free(&coded);
    return taken;
}

static void test_bad_bytes(void **state)
{
    struct test_random random = {.seed = 28};
    const uint32_t height = 37, width = 69;
    uint8_t pixels[37 * 69 * 3];
    size_t nbytes;
    (void)state;
    l3_fill(&random, L3_SMOOTH, height, width, pixels);
    struct guarded coded = coded_of(pixels, width * 3u, height, width, 32, &nbytes);
    uint8_t *bytes = malloc(nbytes + 1);
    memcpy(bytes, coded.data, nbytes);
    bytes[nbytes] = 0;
    for (size_t n = 0; n < nbytes; n++)
        assert_false(takes(bytes, n, height, width));
    assert_false(takes(bytes, nbytes + 1, height, width));
    assert_true(takes(bytes, nbytes, height, width));
    uint32_t n_taken = 0;
    const size_t tables_end = 13 + 6 * 3 * 2;
    for (size_t i = 0; i < nbytes; i++) {
        const uint8_t was = bytes[i];
        bytes[i] = (uint8_t)(was ^ (1u << test_below(&random, 8)));
        bool taken = takes(bytes, nbytes, height, width);
        assert_false(taken && i < tables_end);
        n_taken += taken;
        bytes[i] = was;
    }
    assert_true(n_taken > 0); /* L3 has no checksum, so changed deltas give other pixels */
    /* Changes the first record of the first tile to invalid widths, and to one that exceeds the
     * tile. */
    for (uint8_t n = 9; n < 16; n++) {
        const uint8_t was = bytes[tables_end];
        bytes[tables_end] = (uint8_t)((was & 0xf0) | n);
        assert_false(takes(bytes, nbytes, height, width));
        bytes[tables_end] = was;
    }
    /* Moves a byte from the second tile to the first: both sizes are wrong, but their sum is
     * right. */
    bytes[13]++;
    bytes[15]--;
    assert_false(takes(bytes, nbytes, height, width));
    free(bytes);
    guarded_free(&coded);
}

static void test_random_bytes(void **state)
{
    struct test_random random = {.seed = 29};
    uint8_t bytes[13 + 6 + 600];
    (void)state;
    for (int round = 0; round < 3000; round++) {
        const uint8_t head[13] = {'L', 'L', 'L', '.', 20, 0, 0, 0, 15, 0, 0, 0, 64};
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)(test_below(&random, 256) & (i % 3 ? 0xf3 : 0xff));
        memcpy(bytes, head, sizeof head);
        for (uint32_t c = 0; c < 3; c++) {
            bytes[13 + 2 * c] = 200;
            bytes[14 + 2 * c] = 0;
        }
        takes(bytes, sizeof bytes, 15, 20);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pixels_come_back),    cmocka_unit_test(test_photographs_come_back),
        cmocka_unit_test(test_bytes_of_the_layout), cmocka_unit_test(test_sizes_are_refused),
        cmocka_unit_test(test_bad_bytes),           cmocka_unit_test(test_random_bytes)};
    n_photographs = argc - 1;
    photographs = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
