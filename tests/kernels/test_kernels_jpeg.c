/* test_kernels_jpeg.c - decodes JPEGs kept as PLI with the CPU build of the GPU kernels and
 * compares with the CPU's decoder in plain C: all samplings, image sizes, unit sizes and kinds of
 * coefficients, own tables, regions, orientations, golden files. Broken units are detected where
 * the decoder detects them. */
#include "jpeg_helper.h"
#include "sanitizer.h"

#include "base/real_files.h"
#include "pli/jpeg/pli_jpeg_make.h"
#include "golden/make_pli_picture.h"
#include "pli/coefs/pli_coefs_encode.h"

#include <penstock/pli.h>

/* Fewer rounds with a sanitizer, which makes each round several times slower. */
enum { SLOWER = TEST_ASAN ? 5 : 1 };

enum { NAME_NBYTES = 100, PATH_NBYTES = 4096 };

static const char *golden;

static struct bytes encode(const struct coefs_image *image, uint8_t unit_log2, bool no_checksum)
{
    struct bytes bytes;
    bytes.data = coefs_encode(image, unit_log2, no_checksum, &bytes.nbytes);
    return bytes;
}

static struct pst_pli_region any_region(uint32_t height, uint32_t width, struct test_random *random)
{
    struct pst_pli_region r;
    r.y = test_below(random, height);
    r.x = test_below(random, width);
    r.height = 1 + test_below(random, height - r.y);
    r.width = 1 + test_below(random, width - r.x);
    return r;
}

/* Decodes the whole image and regions of it in one launch. Returns how many are not corrupt. */
static uint32_t check_regions(const struct bytes *pli, uint32_t height, uint32_t width, uint32_t n)
{
    struct test_random random = {.seed = pli->nbytes + height};
    struct jpeg_case *cases = calloc(n, sizeof *cases);
    for (uint32_t i = 0; i < n; i++) {
        struct pst_pli_region whole = {0, 0, height, width};
        cases[i] = (struct jpeg_case){
            .bytes = pli->data,
            .nbytes = pli->nbytes,
            .region = i > 0 ? any_region(height, width, &random) : whole,
        };
    }
    uint32_t n_fine = jpeg_check(cases, n);
    free(cases);
    return n_fine;
}

/* Sizes 1..70, with coefficients of every kind, some of which overflow 16 bits when dequantised. */
static void test_sizes(void **state)
{
    struct test_random random = {.seed = 1};
    uint64_t seed = 1;
    (void)state;
    for (uint32_t i = 0; i < 140; i += SLOWER) {
        struct coefs_image image;
        uint32_t edge = 1 + i / 2, other = 1 + test_below(&random, 70);
        uint32_t height = i % 2 ? edge : other, width = i % 2 ? other : edge;
        coefs_make(&image, width, height, i % COEFS_N_SAMPLINGS,
                   (enum coefs_kind)(i / COEFS_N_SAMPLINGS % COEFS_N_KINDS), &seed);
        struct bytes pli = encode(&image, (uint8_t)(6 + i % 3), false);
        assert_int_equal(check_regions(&pli, height, width, 4), 4);
        bytes_free(&pli);
        coefs_free(&image);
    }
}

/* Images of several units in both directions. */
static void test_units(void **state)
{
    struct test_random random = {.seed = 2};
    uint64_t seed = 2;
    (void)state;
    for (uint32_t i = 0; i < 3 * COEFS_N_SAMPLINGS; i++) {
        struct coefs_image image;
        uint8_t unit_log2 = (uint8_t)(6 + i / COEFS_N_SAMPLINGS);
        uint32_t edge = 1u << unit_log2;
        uint32_t height = edge + 1 + test_below(&random, edge / 2);
        uint32_t width = edge + 1 + test_below(&random, edge / 2);
        coefs_make(&image, width, height, i % COEFS_N_SAMPLINGS, i % 3 ? COEFS_PHOTO : COEFS_SPARSE,
                   &seed);
        struct bytes pli = encode(&image, unit_log2, false);
        assert_int_equal(check_regions(&pli, height, width, 6), 6);
        bytes_free(&pli);
        coefs_free(&image);
    }
}

/* Makes a PLI of an image with one to three components, whose units have up to 3072 blocks. */
static struct bytes make_one(uint32_t sampling, uint8_t unit_log2, uint32_t *height,
                             uint32_t *width, uint64_t *seed)
{
    struct coefs_image image;
    *height += 40 * unit_log2;
    *width += 30 * unit_log2;
    coefs_make(&image, *width, *height, sampling, COEFS_PHOTO, seed);
    struct bytes pli = encode(&image, unit_log2, false);
    coefs_free(&image);
    return pli;
}

/* Wide and narrow units in one launch: a warp with scratch for wide ones decodes both. */
static void test_mixed(void **state)
{
    enum { N = 8 };
    uint64_t seed = 9;
    (void)state;
    for (uint32_t sampling = 0; sampling < COEFS_N_SAMPLINGS; sampling++) {
        struct bytes plis[2];
        uint32_t height[2] = {20, 10}, width[2] = {30, 40}, n_wide = 0;
        struct test_random random = {.seed = sampling};
        struct jpeg_case cases[N];
        for (uint32_t i = 0; i < 2; i++)
            plis[i] = make_one(sampling, i ? 6 : 8, &height[i], &width[i], &seed);
        for (uint32_t i = 0; i < N; i++)
            cases[i] = (struct jpeg_case){
                .bytes = plis[i % 2].data,
                .nbytes = plis[i % 2].nbytes,
                .region = i < 2 ? (struct pst_pli_region){0, 0, height[i], width[i]}
                                : any_region(height[i % 2], width[i % 2], &random)};
        assert_int_equal(jpeg_check(cases, N), N);
        for (uint32_t i = 0; i < N; i++)
            n_wide += psti_gpu_coefs_wide(cases[i].plan.n_places);
        assert_int_equal(n_wide, N / 2);
        bytes_free(&plis[0]);
        bytes_free(&plis[1]);
    }
}

/* JPEG files that libjpeg makes: several qualities, progressive files, the usual samplings. */
static void test_jpegs(void **state)
{
    static const uint8_t samplings[][3] = {{3, 2, 2}, {3, 1, 1}, {3, 2, 1}, {3, 1, 2}, {1, 1, 1}};
    static const int qualities[] = {3, 30, 75, 90, 97, 100};
    uint64_t seed = 3;
    (void)state;
    for (uint32_t i = 0; i < 30; i++) {
        struct coefs_image image;
        const uint8_t *s = samplings[i % 5];
        coefs_make_jpeg(&image, 100 + 7 * i, 190 - 3 * i, s[0], s[1], s[2], qualities[i % 6],
                        i % 4 == 1, &seed);
        struct bytes pli = encode(&image, (uint8_t)(i % 2 ? 7 : 0), false);
        assert_int_equal(check_regions(&pli, image.frame.height, image.frame.width, 4), 4);
        bytes_free(&pli);
        coefs_free(&image);
    }
}

/* Regions that end next to a unit's border, where samples of the next unit are needed. */
static void test_borders(void **state)
{
    enum { N = SLOWER < 15 ? 24 : 6 };
    struct test_random random = {.seed = 4};
    uint64_t seed = 4;
    (void)state;
    for (uint32_t s = 0; s < COEFS_N_SAMPLINGS; s++) {
        struct coefs_image image;
        struct jpeg_case cases[N];
        coefs_make(&image, 200, 200, s, COEFS_PHOTO, &seed);
        struct bytes pli = encode(&image, 6, false);
        for (uint32_t i = 0; i < N; i++) {
            uint32_t y = 64 * test_below(&random, 3) + test_below(&random, 5);
            uint32_t x = 64 * test_below(&random, 3) + test_below(&random, 5);
            uint32_t height = 1 + test_below(&random, 70), width = 1 + test_below(&random, 70);
            y -= y >= 2 ? 2 : 0;
            x -= x >= 2 ? 2 : 0;
            height = height < 200 - y ? height : 200 - y;
            width = width < 200 - x ? width : 200 - x;
            cases[i] = (struct jpeg_case){
                .bytes = pli.data, .nbytes = pli.nbytes, .region = {y, x, height, width}};
        }
        assert_int_equal(jpeg_check(cases, N), N);
        bytes_free(&pli);
        coefs_free(&image);
    }
}

static void test_orientations(void **state)
{
    enum { HEIGHT = 83, WIDTH = 150 };
    uint64_t seed = 5;
    (void)state;
    for (uint32_t s = 0; s < 4; s++) {
        struct coefs_image image;
        struct jpeg_case cases[9];
        coefs_make(&image, WIDTH, HEIGHT, s, COEFS_PHOTO, &seed);
        struct bytes pli = encode(&image, 6, false);
        size_t n = image.frame.n_components;
        for (uint32_t o = 0; o < 9; o++)
            cases[o] = (struct jpeg_case){.bytes = pli.data,
                                          .nbytes = pli.nbytes,
                                          .region = {0, 0, HEIGHT, WIDTH},
                                          .orientation = (uint8_t)o};
        jpeg_decode(cases, 9);
        for (uint32_t o = 1; o < 9; o++) {
            uint8_t *expected = turned(cases[0].pixels.data, HEIGHT, WIDTH, n, (uint8_t)o);
            assert_memory_equal(cases[o].pixels.data, expected, HEIGHT * WIDTH * n);
            free(expected);
        }
        jpeg_free(cases, 9);
        bytes_free(&pli);
        coefs_free(&image);
    }
}

static void test_golden(void **state)
{
    char path[PATH_NBYTES], line[256], name[NAME_NBYTES];
    uint32_t n = 0, n_tables = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/MANIFEST", golden);
    FILE *manifest = fopen(path, "r");
    assert_non_null(manifest);
    while (fgets(line, sizeof line, manifest)) {
        struct pst_error err;
        struct pst_pli_info info = {0};
        struct psti_gpu_jpeg_plan plan;
        if (sscanf(line, "%99s", name) != 1 || !strstr(name, ".pli"))
            continue;
        snprintf(path, sizeof path, "%s/%s", golden, name);
        struct bytes pli;
        pli.data = picture_read_file(path, &pli.nbytes);
        assert_non_null(pli.data);
        assert_ok(pst_pli_info(pli.data, pli.nbytes, &info, sizeof info, &err));
        assert_ok(psti_gpu_jpeg_plan(pli.data, pli.nbytes, NULL, NULL, true, &plan, &err));
        assert_int_equal(check_regions(&pli, info.height, info.width, 3), 3);
        n_tables += plan.has_tables;
        bytes_free(&pli);
        n++;
    }
    fclose(manifest);
    assert_true(n > 40 && n_tables > 0 && n_tables < n);
}

static bool check_photograph(struct real_file *file, void *context)
{
    const struct bytes bytes = {file->data, file->nbytes};
    struct pli_jpeg jpeg;
    (void)context;
    bool taken = pli_jpeg_read(&bytes, &jpeg);
    if (taken) {
        const struct coefs_image image = {.frame = jpeg.frame,
                                          .coefs = {jpeg.coefs[0], jpeg.coefs[1], jpeg.coefs[2]}};
        struct bytes pli = encode(&image, 0, false);
        assert_int_equal(check_regions(&pli, jpeg.frame.height, jpeg.frame.width, 3), 3);
        bytes_free(&pli);
        pli_jpeg_free(&jpeg);
    }
    free(file->data);
    return taken;
}

/* Real photographs, if the machine has them, encoded, and decoded whole and in parts. */
static void test_real(void **state)
{
    (void)state;
    if (!real_files_root())
        skip();
    real_files("imagenet", real_files_rounds(5), check_photograph, NULL);
}

/* -- Tests of broken bytes -- */

/* Returns a copy whose unit `number` has `nbytes` bytes, with a correct head. */
static struct bytes resize_unit(const struct bytes *pli, uint32_t number, uint32_t nbytes)
{
    struct psti_pli_header h;
    struct pst_error err;
    assert_ok(psti_pli_parse_header(pli->data, pli->nbytes, &h, &err));
    size_t offset = (size_t)psti_pli_head_nbytes(&h);
    for (uint32_t i = 0; i < number; i++)
        offset += psti_pli_parse_entry(pli->data, &h, i).nbytes;
    struct psti_pli_entry entry = psti_pli_parse_entry(pli->data, &h, number);
    size_t kept = entry.nbytes < nbytes ? entry.nbytes : nbytes;
    struct bytes out = {malloc(pli->nbytes - entry.nbytes + nbytes),
                        pli->nbytes - entry.nbytes + nbytes};
    memset(out.data, 0x55, out.nbytes);
    memcpy(out.data, pli->data, offset + kept);
    memcpy(out.data + offset + nbytes, pli->data + offset + entry.nbytes,
           pli->nbytes - offset - entry.nbytes);
    entry.nbytes = nbytes;
    psti_pli_print_entry(out.data, &h, number, entry);
    psti_pli_print_header(&h, out.data);
    return out;
}

static uint32_t unit_nbytes(const struct bytes *pli, uint32_t number)
{
    struct psti_pli_header h;
    struct pst_error err;
    assert_ok(psti_pli_parse_header(pli->data, pli->nbytes, &h, &err));
    return psti_pli_parse_entry(pli->data, &h, number).nbytes;
}

/* Random bytes in units: the kernels accept what the decoder accepts, with the same pixels. They
 * reject what it rejects, and name the same unit. */
static void test_broken_bytes(void **state)
{
    enum { N = 16, ROUNDS = 60 / SLOWER };
    struct test_random random = {.seed = 6};
    uint64_t seed = 6;
    uint32_t n_fine = 0;
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct coefs_image image;
        struct jpeg_case cases[N];
        struct bytes copies[N];
        uint32_t height = 1 + test_below(&random, 90), width = 1 + test_below(&random, 90);
        coefs_make(&image, width, height, round % COEFS_N_SAMPLINGS,
                   round % 3 ? COEFS_PHOTO : (enum coefs_kind)(round / 3 % COEFS_N_KINDS), &seed);
        struct bytes pli = encode(&image, (uint8_t)(6 + round % 2), true);
        struct psti_pli_header h;
        assert_int_equal(psti_pli_parse_header(pli.data, pli.nbytes, &h, NULL), PST_OK);
        uint32_t head = (uint32_t)psti_pli_head_nbytes(&h);
        for (uint32_t i = 0; i < N; i++) {
            copies[i] = (struct bytes){malloc(pli.nbytes), pli.nbytes};
            memcpy(copies[i].data, pli.data, pli.nbytes);
            for (uint32_t k = 0; k < 1 + i / 4; k++) {
                /* Changes the beginning of units, raw bits, or words: the later the change, the
                 * harder to detect. */
                uint32_t at = head + test_below(&random, (uint32_t)pli.nbytes - head);
                copies[i].data[at] ^= (uint8_t)(1u << test_below(&random, 8));
            }
            cases[i] = (struct jpeg_case){.bytes = copies[i].data,
                                          .nbytes = copies[i].nbytes,
                                          .region = {0, 0, height, width}};
        }
        n_fine += jpeg_check(cases, N);
        for (uint32_t i = 0; i < N; i++)
            bytes_free(&copies[i]);
        bytes_free(&pli);
        coefs_free(&image);
    }
    assert_in_range(n_fine, 1, N * ROUNDS - 1);
}

/* Units of any length, and units in which only the mode is valid. */
static void test_broken_units(void **state)
{
    enum { N = 16, ROUNDS = 40 / SLOWER };
    struct test_random random = {.seed = 7};
    uint64_t seed = 7;
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct coefs_image image;
        struct jpeg_case cases[N];
        struct bytes copies[N];
        coefs_make(&image, 100, 70, round % COEFS_N_SAMPLINGS, COEFS_PHOTO, &seed);
        struct bytes pli = encode(&image, 6, true);
        for (uint32_t i = 0; i < N; i++) {
            uint32_t unit = test_below(&random, 4), n = unit_nbytes(&pli, unit);
            uint32_t less = test_below(&random, i % 2 ? 6 : n);
            copies[i] = resize_unit(&pli, unit, i % 4 == 3 ? n + less : n - less);
            if (i % 4 == 2) {
                struct psti_pli_header h;
                assert_int_equal(psti_pli_parse_header(copies[i].data, copies[i].nbytes, &h, NULL),
                                 PST_OK);
                for (size_t k = (size_t)psti_pli_head_nbytes(&h); k < copies[i].nbytes; k++)
                    copies[i].data[k] = (uint8_t)test_below(&random, 256);
                copies[i].data[psti_pli_head_nbytes(&h)] = PSTI_PLI_COEFS;
            }
            cases[i] = (struct jpeg_case){.bytes = copies[i].data,
                                          .nbytes = copies[i].nbytes,
                                          .region = any_region(70, 100, &random)};
        }
        (void)jpeg_check(cases, N);
        for (uint32_t i = 0; i < N; i++)
            bytes_free(&copies[i]);
        bytes_free(&pli);
        coefs_free(&image);
    }
}

/* Files that the host refuses. */
static void test_refused(void **state)
{
    struct psti_gpu_jpeg_plan plan;
    struct coefs_image image;
    struct pst_error err;
    uint64_t seed = 8;
    (void)state;
    coefs_make(&image, 100, 70, 2, COEFS_PHOTO, &seed);
    struct bytes pli = encode(&image, 6, false);
    const struct pst_pli_region outside = {0, 50, 10, 51};
    assert_int_equal(psti_gpu_jpeg_plan(pli.data, pli.nbytes, NULL, &outside, true, &plan, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(psti_gpu_jpeg_plan(pli.data, pli.nbytes - 1, NULL, NULL, true, &plan, &err),
                     PST_ERROR_TRUNCATED);
    assert_string_equal(err.codec, "pli");
    pli.data[pli.nbytes - 1] ^= 1;
    assert_int_equal(psti_gpu_jpeg_plan(pli.data, pli.nbytes, NULL, NULL, true, &plan, &err),
                     PST_ERROR_CHECKSUM);
    assert_ok(psti_gpu_jpeg_plan(pli.data, pli.nbytes, NULL, NULL, false, &plan, &err));
    /* Only the last unit is broken. */
    const struct pst_pli_region first = {0, 0, 60, 60};
    assert_ok(psti_gpu_jpeg_plan(pli.data, pli.nbytes, NULL, &first, true, &plan, &err));
    assert_int_equal(plan.n_units, 1);
    pli.data[5] = PST_PLI_CONTENT_PIXELS;
    pli.data[20] = PST_PLI_TIER_FAST;
    assert_int_equal(psti_gpu_jpeg_plan(pli.data, pli.nbytes, NULL, NULL, true, &plan, &err),
                     PST_ERROR_UNSUPPORTED);
    bytes_free(&pli);
    coefs_free(&image);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),        cmocka_unit_test(test_units),
        cmocka_unit_test(test_mixed),        cmocka_unit_test(test_jpegs),
        cmocka_unit_test(test_borders),      cmocka_unit_test(test_orientations),
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_real),
        cmocka_unit_test(test_broken_bytes), cmocka_unit_test(test_broken_units),
        cmocka_unit_test(test_refused),
    };
    if (argc != 2)
        return 2;
    golden = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
