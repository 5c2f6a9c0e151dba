/* test_decode_jpeg_roads.c - compares the two ways to decode a JPEG, by the reader and the kernels
 * of PLI and by libjpeg-turbo's decoder, for every kind of file, region and level, and any damage.
 * Both ways must give the same pixels and errors. */
#include "decode_make.h"

#include "base/machine/cpu.h"
#include "decode/decode_int.h"

#include <stdlib.h>
#include <unistd.h>

static struct psti_decoder *fast, *judge; /* `judge` has only libjpeg-turbo's decoder */

static int open_decoders(void **state)
{
    struct pst_error err;
    (void)state;
    assert_ok(psti_decode_open(&fast, &err));
    assert_ok(psti_decode_open(&judge, &err));
    judge->libjpeg_only = true;
    return 0;
}

static int close_decoders(void **state)
{
    (void)state;
    assert_int_equal(judge->n_jpeg_direct, 0);
    psti_decode_close(&fast);
    psti_decode_close(&judge);
    return 0;
}

/* Makes `fast` take the kernels of a level, plain C included. Returns false after the last level.
 */
static bool choose_level(uint32_t i)
{
    const uint32_t cpu = psti_cpu_features();
    const uint32_t levels[] = {0, cpu & (PSTI_CPU_AVX2 | PSTI_CPU_NEON), cpu};
    if (i >= sizeof levels / sizeof levels[0])
        return false;
    fast->libjpeg_only = false;
    fast->cpu = levels[i];
    return true;
}

/* Decodes one region (NULL: the whole picture) in both ways. Status, pixels and error must be the
 * same. Returns the status. *direct tells whether libjpeg's decoder was not needed. */
static enum pst_status both(const struct bytes *file, const struct psti_rect *region, bool *direct)
{
    struct pst_image_info info;
    struct pst_error err, judge_err;
    pst_error_clear(&err);
    *direct = false;
    enum pst_status status =
        pst_image_probe(file->data, file->nbytes, PST_FORM_JPEG, NULL, &info, sizeof info, &err);
    if (status != PST_OK)
        return status;
    const struct psti_rect all = {0, 0, info.height, info.width};
    const struct psti_rect r = region ? *region : all;
    if ((uint64_t)info.height * info.width > 1000000 || r.y + r.height > info.height ||
        r.x + r.width > info.width)
        return PST_ERROR_ARGUMENT; /* damage has changed the size */
    size_t row_nbytes = (size_t)r.width * info.channels;
    uint8_t *pixels = malloc(row_nbytes * r.height), *expected = malloc(row_nbytes * r.height);
    assert_true(pixels && expected);
    uint64_t n_direct = fast->n_jpeg_direct;
    pst_error_clear(&judge_err);
    status = psti_decode_region(judge, file->data, file->nbytes, &info, NULL, &r, expected,
                                row_nbytes, &judge_err);
    enum pst_status fast_status = psti_decode_region(fast, file->data, file->nbytes, &info, NULL,
                                                     &r, pixels, row_nbytes, &err);
    *direct = fast->n_jpeg_direct != n_direct;
    if (fast_status != status || strcmp(err.text, judge_err.text) != 0 ||
        err.offset != judge_err.offset)
        fail_msg(
            "%s \"%s\" at %lld, and libjpeg says %s \"%s\" at %lld; region %u %u %u %u of %u %u",
            pst_status_name(fast_status), err.text, (long long)err.offset, pst_status_name(status),
            judge_err.text, (long long)judge_err.offset, r.y, r.x, r.height, r.width, info.height,
            info.width);
    if (status == PST_OK)
        assert_memory_equal(pixels, expected, row_nbytes * r.height);
    free(pixels);
    free(expected);
    return status;
}

static const struct {
    enum jpeg_colours colours;
    uint8_t h, v;
    bool direct;
} kinds[] = {
    {COLOURS_GRAY, 1, 1, true},  {COLOURS_YCC, 1, 1, true},  {COLOURS_YCC, 2, 1, true},
    {COLOURS_YCC, 2, 2, true},   {COLOURS_RGB, 1, 1, true},  {COLOURS_GRAY, 2, 1, true},
    {COLOURS_GRAY, 2, 2, false}, {COLOURS_YCC, 1, 2, false}, {COLOURS_YCC, 4, 1, false},
    {COLOURS_YCCK, 1, 1, false},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])
enum { N_DIRECT_KINDS = 6, KIND_420 = 3 };

static struct jpeg_spec spec_of(size_t kind, uint32_t height, uint32_t width)
{
    return (struct jpeg_spec){.height = height,
                              .width = width,
                              .colours = kinds[kind].colours,
                              .h = kinds[kind].h,
                              .v = kinds[kind].v,
                              .quality = 85};
}

/* Widths up to several times the blocks that lie in the planes at once. */
static void test_every_kind_and_width(void **state)
{
    uint64_t seed = 1;
    (void)state;
    for (size_t kind = 0; kind < N_KINDS; kind++)
        for (uint32_t width = 1; width < 2000; width += width < 70 ? 1 : 97) {
            struct jpeg_spec spec = spec_of(kind, 1 + random_below(&seed, 70), width);
            spec.quality = (uint8_t)(30 + random_below(&seed, 71));
            spec.own_codes = width % 2;
            spec.smooth = width % 5 > 0;
            spec.restart = width % 3 == 0 ? (uint16_t)(1 + random_below(&seed, 9)) : 0;
            struct bytes file = make_jpeg(&spec, seed);
            for (uint32_t level = 0; choose_level(level); level++)
                for (int i = 0; i < 4; i++) {
                    struct psti_rect r = random_region(&seed, spec.height, width);
                    bool direct;
                    assert_int_equal(both(&file, i ? &r : NULL, &direct), PST_OK);
                    if (spec.smooth) /* others may have coefficients that kernels differ in */
                        assert_int_equal(direct, kinds[kind].direct);
                }
            bytes_free(&file);
        }
}

static void test_other_files_are_left_to_libjpeg(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct jpeg_spec spec = spec_of(KIND_420, 60, 70);
        spec.progressive = i == 0;
        spec.arithmetic = i == 1;
        spec.many_scans = i == 2;
        struct bytes file = make_jpeg(&spec, 3);
        bool direct;
        choose_level(2);
        assert_int_equal(both(&file, NULL, &direct), PST_OK);
        assert_false(direct);
        bytes_free(&file);
    }
}

/* Returns the offset of the first byte of the segment `marker`, behind its length. */
static size_t find_segment(const struct bytes *file, uint8_t marker)
{
    size_t at = 2;
    while (file->data[at + 1] != marker)
        at += 2 + ((size_t)file->data[at + 2] << 8 | file->data[at + 3]);
    return at + 4;
}

/* Quantisation values of 255 make samples far beyond 8 bits, which each kernel clamps or wraps in
 * its own way. */
static void test_large_coefficients(void **state)
{
    uint64_t seed = 9;
    int n_direct = 0, n_not = 0;
    (void)state;
    for (size_t kind = 0; kind < N_DIRECT_KINDS; kind++)
        for (int k = 0; k < 40; k++) {
            struct jpeg_spec spec = spec_of(kind, 48, 64);
            spec.smooth = k % 4 < 2;
            struct bytes file = make_jpeg(&spec, (uint64_t)k);
            uint8_t *quants = file.data + find_segment(&file, 0xDB) + 1;
            for (int i = 0; i < 64; i++)
                quants[i] = (uint8_t)(1 + random_below(&seed, k % 2 ? 255 : 20));
            for (uint32_t level = 0; choose_level(level); level++) {
                bool direct;
                assert_int_equal(both(&file, NULL, &direct), PST_OK);
                n_direct += direct;
                n_not += !direct;
            }
            bytes_free(&file);
        }
    assert_true(n_direct > 100);
    assert_true(n_not > 100);
}

/* Bits are flipped, and bytes removed or added, in the scan's data or anywhere in the file. */
static void test_damage(void **state)
{
    uint64_t seed = 17;
    int n_ok = 0, n_bad = 0, n_direct = 0;
    (void)state;
    for (size_t kind = 0; kind < N_DIRECT_KINDS; kind++)
        for (int k = 0; k < 600; k++) {
            struct jpeg_spec spec =
                spec_of(kind, 1 + random_below(&seed, 90), 1 + random_below(&seed, 120));
            spec.restart = k % 4 == 0 ? (uint16_t)(1 + random_below(&seed, 9)) : 0;
            spec.own_codes = k % 3 == 0;
            struct bytes file = make_jpeg(&spec, seed);
            size_t from = k % 8 == 7 ? 2 : find_segment(&file, 0xDA) + 10;
            if (from + 1 >= file.nbytes) /* the scan has no more bytes */
                from = 2;
            size_t at = from + random_below(&seed, (uint32_t)(file.nbytes - from));
            switch (k % 5) {
            case 0: /* cut */
                file.nbytes = at;
                break;
            case 1: /* a byte fewer */
                memmove(file.data + at, file.data + at + 1, file.nbytes - at - 1);
                file.nbytes--;
                break;
            case 2: /* a marker, fill bytes, or a stuffed byte */
                file.data[at] = 0xFF;
                if (at + 1 < file.nbytes && k % 2)
                    file.data[at + 1] = (uint8_t)(random_below(&seed, 2) ? 0xFF : 0xD0 + k % 8);
                break;
            default:
                file.data[at] ^= (uint8_t)(1u << random_below(&seed, 8));
            }
            for (uint32_t level = 0; choose_level(level); level++)
                for (int i = 0; i < 3; i++) {
                    struct psti_rect r = random_region(&seed, spec.height, spec.width);
                    bool direct;
                    enum pst_status status = both(&file, i ? &r : NULL, &direct);
                    n_ok += status == PST_OK;
                    n_bad += status != PST_OK;
                    n_direct += direct;
                }
            bytes_free(&file);
        }
    assert_true(n_ok > 1000);
    assert_true(n_bad > 1000);
    assert_true(n_direct > 1000);
}

/* A decoder keeps the tables of codes from file to file. */
static void test_codes_of_the_file_before(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        struct jpeg_spec spec = spec_of(1 + i % KIND_420, 40 + i, 50);
        spec.own_codes = i % 3 != 0;
        struct bytes file = make_jpeg(&spec, i);
        const struct psti_rect r = {20, 10, 17, 31};
        bool direct;
        choose_level(2);
        assert_int_equal(both(&file, i % 2 ? &r : NULL, &direct), PST_OK);
        assert_true(direct);
        bytes_free(&file);
    }
}

/* Decodes the whole picture with a new decoder and this limit of scratch. */
static enum pst_status decode_within(const struct bytes *file, uint64_t limit, bool libjpeg_only,
                                     uint64_t *wanted, uint64_t *n_direct)
{
    struct psti_decoder *decoder = NULL;
    struct pst_image_info info;
    struct psti_decode_stats stats;
    struct pst_error err;
    assert_ok(psti_decode_open(&decoder, &err));
    decoder->libjpeg_only |= libjpeg_only;
    psti_decode_set_scratch_limit(decoder, limit);
    assert_ok(
        pst_image_probe(file->data, file->nbytes, PST_FORM_JPEG, NULL, &info, sizeof info, &err));
    const struct psti_rect whole = {0, 0, info.height, info.width};
    const size_t row_nbytes = (size_t)info.width * info.channels;
    uint8_t *pixels = malloc(row_nbytes * info.height);
    assert_non_null(pixels);
    enum pst_status status = psti_decode_region(decoder, file->data, file->nbytes, &info, NULL,
                                                &whole, pixels, row_nbytes, &err);
    psti_decode_stats(decoder, &stats);
    assert_true(stats.scratch_nbytes <= limit);
    *wanted = stats.scratch_wanted;
    *n_direct = decoder->n_jpeg_direct;
    free(pixels);
    psti_decode_close(&decoder);
    return status;
}

/* A limit of scratch with which libjpeg decodes a file is enough, whether its coefficients are
 * usual ones or must be left to libjpeg. The limit that the decoder then wants is enough for the
 * faster way. */
static void test_scratch_of_both_ways(void **state)
{
    (void)state;
    for (uint32_t width = 50; width < 9000; width *= 3)
        for (int large = 0; large < 2; large++) {
            struct jpeg_spec spec = spec_of(KIND_420, 40, width);
            uint64_t limit = 4096, wanted, n_direct;
            spec.smooth = !large;
            struct bytes file = make_jpeg(&spec, width);
            if (large)
                memset(file.data + find_segment(&file, 0xDB) + 1, 255, 64);
            while (decode_within(&file, limit, true, &wanted, &n_direct) != PST_OK)
                limit += 4096;
            assert_int_equal(decode_within(&file, limit, false, &wanted, &n_direct), PST_OK);
            if (wanted > 0) {
                assert_int_equal(n_direct, 0);
                assert_int_equal(decode_within(&file, wanted, false, &wanted, &n_direct), PST_OK);
                assert_int_equal(wanted, 0);
                if (!large)
                    assert_int_equal(n_direct, 1);
            }
            bytes_free(&file);
        }
}

/* A decoder's first file, of which a row of MCUs is skipped only because libjpeg looks ahead. */
static void test_first_file_looks_ahead(void **state)
{
    const struct jpeg_spec spec = {40, 30, COLOURS_YCC, 2, 2, 85, .smooth = true};
    struct bytes file = make_jpeg(&spec, 5);
    const struct psti_rect r = {0, 0, 15, 30};
    struct psti_decoder *other = fast;
    struct pst_error err;
    bool direct;
    (void)state;
    assert_ok(psti_decode_open(&fast, &err));
    choose_level(2);
    alarm(60); /* without tables for skipping the decode never ends */
    assert_int_equal(both(&file, &r, &direct), PST_OK);
    alarm(0);
    assert_true(direct);
    psti_decode_close(&fast);
    fast = other;
    bytes_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_file_looks_ahead),
        cmocka_unit_test(test_every_kind_and_width),
        cmocka_unit_test(test_other_files_are_left_to_libjpeg),
        cmocka_unit_test(test_large_coefficients),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_codes_of_the_file_before),
        cmocka_unit_test(test_scratch_of_both_ways),
    };
    return cmocka_run_group_tests(tests, open_decoders, close_decoders);
}
