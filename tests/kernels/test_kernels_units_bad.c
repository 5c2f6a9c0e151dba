/* test_kernels_units_bad.c - decodes hostile units with the GPU kernels: flipped bits, overwritten,
 * truncated or lengthened, with correct checksums, several images in a launch. The kernels reject
 * exactly the units that the CPU's decoder rejects, and name the same one. If both accept, the
 * pixels are the same. Nothing outside of an upload, scratch or picture is touched. */
#include "sanitizer.h"
#include "units_helper.h"

#include "base/hash.h"
#include "golden/make_pli_picture.h"

/* Fewer rounds with a sanitizer, which makes each round several times slower. */
enum { ROUNDS = TEST_ASAN ? 2 : 8 };
enum { PATH_NBYTES = 4096, BATCH = 24 };

static const char *folder;

/* Recomputes the index entries and the header for the changed units. */
static void sign(uint8_t *bytes, const struct psti_pli_header *h)
{
    uint64_t offset = psti_pli_head_nbytes(h);
    uint32_t n = psti_pli_unit_rows(h) * psti_pli_unit_columns(h);
    for (uint32_t u = 0; u < n; u++) {
        struct psti_pli_entry entry = psti_pli_parse_entry(bytes, h, u);
        entry.checksum = (uint32_t)psti_hash64(bytes + offset, entry.nbytes);
        psti_pli_print_entry(bytes, h, u, entry);
        offset += entry.nbytes;
    }
    psti_pli_print_header(h, bytes);
}

/* Makes unit `which` shorter or longer. Returns the new length of the file. */
static size_t resize(uint8_t *bytes, size_t nbytes, const struct psti_pli_header *h, uint32_t which,
                     int32_t by)
{
    uint64_t offset = psti_pli_head_nbytes(h);
    for (uint32_t u = 0; u < which; u++)
        offset += psti_pli_parse_entry(bytes, h, u).nbytes;
    struct psti_pli_entry entry = psti_pli_parse_entry(bytes, h, which);
    if (by < 0 && entry.nbytes <= (uint32_t)-by)
        return nbytes;
    uint64_t end = offset + entry.nbytes;
    memmove(bytes + (int64_t)end + by, bytes + end, nbytes - end);
    for (int32_t i = 0; i < by; i++)
        bytes[end + (uint64_t)i] = (uint8_t)(i * 37);
    entry.nbytes = (uint32_t)((int64_t)entry.nbytes + by);
    psti_pli_print_entry(bytes, h, which, entry);
    return (size_t)((int64_t)nbytes + by);
}

/* Damages one unit of a copy of a file. */
static size_t damage(uint8_t *bytes, size_t nbytes, const struct psti_pli_header *h,
                     struct test_random *random)
{
    uint32_t n = psti_pli_unit_rows(h) * psti_pli_unit_columns(h);
    uint32_t which = test_below(random, n), kind = test_below(random, 6);
    uint64_t offset = psti_pli_head_nbytes(h);
    for (uint32_t u = 0; u < which; u++)
        offset += psti_pli_parse_entry(bytes, h, u).nbytes;
    uint32_t unit_nbytes = psti_pli_parse_entry(bytes, h, which).nbytes;
    uint32_t head = unit_nbytes < 24 ? unit_nbytes : 24;
    if (unit_nbytes < 2)
        return nbytes;
    switch (kind) {
    case 0:
    case 1: { /* flips a bit near the front, after the mode */
        uint32_t bit = 8 + test_below(random, 8 * head - 8);
        bytes[offset + bit / 8] ^= (uint8_t)(1u << bit % 8);
        break;
    }
    case 2: /* replaces a byte near the front */
        bytes[offset + 1 + test_below(random, head - 1)] = (uint8_t)test_below(random, 256);
        break;
    case 3: { /* flips a bit anywhere */
        uint32_t bit = 8 + test_below(random, 8 * unit_nbytes - 8);
        bytes[offset + bit / 8] ^= (uint8_t)(1u << bit % 8);
        break;
    }
    case 4: /* the mode */
        bytes[offset] = (uint8_t)test_below(random, 7);
        break;
    default:
        nbytes = resize(bytes, nbytes, h, which, (int32_t)test_below(random, 12) - 7);
        break;
    }
    return nbytes;
}

/* Decodes batches of copies of a golden file, some of them damaged. */
static void check_file(const char *name, uint32_t *n_fine, uint32_t *n_bad)
{
    char path[PATH_NBYTES];
    size_t nbytes;
    struct pst_error err;
    struct psti_pli_header h;
    struct units_case *cases = calloc(BATCH, sizeof *cases);
    snprintf(path, sizeof path, "%s/%s.pli", folder, name);
    uint8_t *bytes = picture_read_file(path, &nbytes), *copies[BATCH];
    assert_non_null(bytes);
    struct test_random random = {.seed = nbytes};
    assert_ok(psti_pli_parse_header(bytes, nbytes, &h, &err));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < BATCH; i++) {
            size_t n = nbytes;
            copies[i] = malloc(nbytes + 64);
            memcpy(copies[i], bytes, nbytes);
            for (uint32_t k = 0; k < i % 3; k++)
                n = damage(copies[i], n, &h, &random);
            sign(copies[i], &h);
            cases[i] = (struct units_case){
                .bytes = copies[i], .nbytes = n, .region = {0, 0, h.height, h.width}};
        }
        uint32_t fine = units_check(cases, BATCH);
        *n_fine += fine;
        *n_bad += BATCH - fine;
        for (uint32_t i = 0; i < BATCH; i++)
            free(copies[i]);
    }
    free(cases);
    free(bytes);
}

static void check_files(const char *const *names, size_t n)
{
    uint32_t n_fine = 0, n_bad = 0;
    for (size_t i = 0; i < n; i++)
        check_file(names[i], &n_fine, &n_bad);
    assert_true(n_fine > n * ROUNDS * BATCH / 3);
    assert_true(n_bad > n * ROUNDS * BATCH / 10);
}

static void test_packed(void **state)
{
    static const char *const names[] = {"fast-gray8",   "fast-rgb8",   "fast-rgba8",
                                        "fast-graya16", "fast-rgb16",  "fast-extremes8",
                                        "fast-near1",   "fast-effort1"};
    (void)state;
    check_files(names, sizeof names / sizeof names[0]);
}

static void test_lz(void **state)
{
    static const char *const names[] = {"small-screen", "small-screen-rgba", "small-labels16",
                                        "fast-mixed",   "dense-near-screen", "lz-one-color"};
    (void)state;
    check_files(names, sizeof names / sizeof names[0]);
}

static void test_plain(void **state)
{
    static const char *const names[] = {"raw-noise8", "raw-noise16", "small-flat"};
    uint32_t n_fine = 0, n_bad = 0;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        check_file(names[i], &n_fine, &n_bad);
    assert_true(n_fine > 0 && n_bad > 0);
}

static void test_wave(void **state)
{
    static const char *const names[] = {"small-rgb8", "dense-rgba8", "small-gray16", "dense-rgb16"};
    (void)state;
    check_files(names, sizeof names / sizeof names[0]);
}

/* The host's plan refuses invalid heads with the CPU decoder's messages. */
static void test_heads(void **state)
{
    char path[PATH_NBYTES];
    size_t nbytes;
    struct pst_error err, cpu;
    struct psti_gpu_units_plan plan;
    struct pst_pli_range ranges[4];
    const struct pst_pli_region outside = {0, 0, 10000, 1};
    (void)state;
    snprintf(path, sizeof path, "%s/fast-rgb8.pli", folder);
    uint8_t *bytes = picture_read_file(path, &nbytes);
    assert_non_null(bytes);
    for (size_t n = 0; n < nbytes; n += 1 + n / 8) {
        size_t count;
        enum pst_status status = pst_pli_ranges(bytes, n, NULL, ranges, 4, &count, &cpu);
        enum pst_status got = psti_gpu_units_plan(bytes, n, NULL, NULL, true, &plan, &err);
        assert_int_equal(got, status == PST_OK ? PST_ERROR_TRUNCATED : status);
        if (status != PST_OK)
            assert_string_equal(err.text, cpu.text);
    }
    assert_int_equal(psti_gpu_units_plan(bytes, nbytes, NULL, &outside, true, &plan, &err),
                     PST_ERROR_ARGUMENT);
    bytes[nbytes - 1] ^= 1;
    assert_int_equal(psti_gpu_units_plan(bytes, nbytes, NULL, NULL, true, &plan, &err),
                     PST_ERROR_CHECKSUM);
    assert_ok(psti_gpu_units_plan(bytes, nbytes, NULL, NULL, false, &plan, &err));
    free(bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),  cmocka_unit_test(test_plain), cmocka_unit_test(test_lz),
        cmocka_unit_test(test_packed), cmocka_unit_test(test_wave),
    };
    if (argc != 2)
        return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
