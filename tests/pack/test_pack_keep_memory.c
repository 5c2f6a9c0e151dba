/* test_pack_keep_memory.c - psti_pli_keep_jpeg never has more memory allocated at once than
 * psti_pli_keep_nbytes says, for JPEGs of many kinds and sizes. */
#include "../decode/decode_make.h"

#include "base/alloc.h"
#include "decode/decode.h"
#include "pli/pli.h"

#include <penstock/penstock.h>

#include <stdlib.h>

static size_t live, peak;

static void *count_alloc(void *ctx, size_t alignment, size_t nbytes)
{
    void *memory = NULL;
    (void)ctx;
    if (posix_memalign(&memory, alignment, nbytes) != 0)
        return NULL;
    live += nbytes;
    peak = live > peak ? live : peak;
    return memory;
}

static void count_free(void *ctx, void *memory, size_t nbytes)
{
    (void)ctx;
    live -= nbytes;
    free(memory);
}

static const struct jpeg_spec specs[] = {
    {.height = 1, .width = 1, .colours = COLOURS_GRAY, .h = 1, .v = 1, .quality = 90},
    {.height = 8, .width = 2000, .colours = COLOURS_YCC, .h = 1, .v = 1, .quality = 100},
    {.height = 2000, .width = 8, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 30},
    {.height = 120, .width = 120, .colours = COLOURS_YCC, .h = 1, .v = 1, .quality = 100},
    {.height = 375, .width = 500, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 95},
    {.height = 375, .width = 500, .colours = COLOURS_YCC, .h = 2, .v = 1, .quality = 5},
    {.height = 375, .width = 500, .colours = COLOURS_YCC, .h = 1, .v = 1, .quality = 100},
    {.height = 375, .width = 500, .colours = COLOURS_RGB, .h = 1, .v = 1, .quality = 100},
    {.height = 375, .width = 500, .colours = COLOURS_YCC, .h = 4, .v = 1, .quality = 90},
    {.height = 375,
     .width = 500,
     .colours = COLOURS_YCC,
     .h = 2,
     .v = 2,
     .quality = 90,
     .progressive = true},
    {.height = 1200, .width = 1600, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 100},
    {.height = 1200, .width = 1600, .colours = COLOURS_GRAY, .h = 1, .v = 1, .quality = 98},
};

static enum pst_status known_hash(void *ctx, const void *jpeg, size_t nbytes, uint64_t *checksum,
                                  struct pst_error *err)
{
    (void)jpeg;
    (void)nbytes;
    (void)err;
    *checksum = *(const uint64_t *)ctx;
    return PST_OK;
}

static void check(const struct bytes *jpeg)
{
    static const struct pst_pli_from_jpeg_options options = {.struct_size = sizeof options};
    struct psti_decoder *decoder = NULL;
    struct psti_pli_keep keep = {0};
    uint64_t checksum = 0, most = 0;
    struct pst_error err;
    size_t nbytes, capacity = pst_pli_from_jpeg_bound(jpeg->nbytes);
    void *pli = malloc(capacity);
    assert_non_null(pli);
    assert_ok(psti_decode_open(&decoder, &err));
    assert_ok(psti_decode_hash_jpeg(decoder, jpeg->data, jpeg->nbytes, &checksum, &err));
    psti_decode_close(&decoder);
    assert_int_equal(live, 0);
    peak = 0;
    const struct psti_pli_reference reference = {.hash = known_hash, .ctx = &checksum};
    assert_ok(psti_pli_keep_nbytes(jpeg->data, jpeg->nbytes, &most, &err));
    assert_int_equal(peak, 0);
    assert_ok(psti_pli_keep_jpeg(&keep, &reference, jpeg->data, jpeg->nbytes, &options, pli,
                                 capacity, &nbytes, &err));
    if (peak > most)
        print_error("%zu bytes of memory, and %zu were foretold\n", peak, (size_t)most);
    assert_true(peak <= most);
    psti_pli_keep_free(&keep);
    assert_int_equal(live, 0);
    free(pli);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    const struct pst_allocator allocator = {.alloc = count_alloc, .free = count_free};
    assert_int_equal(pst_set_allocator(&allocator, NULL), PST_OK);
    for (uint32_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct jpeg_spec spec = specs[i];
        for (int smooth = 0; smooth < 2; smooth++) {
            spec.smooth = smooth;
            struct bytes jpeg = make_jpeg(&spec, i);
            check(&jpeg);
            bytes_free(&jpeg);
        }
    }
    assert_int_equal(pst_set_allocator(NULL, NULL), PST_OK);
}

/* The markers of a JPEG are enough to see that it cannot be kept. */
static void refused_ones_are_told(void **state)
{
    (void)state;
    static const struct jpeg_spec spec = {
        .height = 40, .width = 40, .colours = COLOURS_CMYK, .h = 1, .v = 1, .quality = 90};
    struct bytes jpeg = make_jpeg(&spec, 1);
    struct pst_error err;
    uint64_t most = 7;
    assert_int_equal(psti_pli_keep_nbytes(jpeg.data, jpeg.nbytes, &most, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "cannot be kept as PLI"));
    assert_int_not_equal(psti_pli_keep_nbytes(jpeg.data, 3, &most, &err), PST_OK);
    assert_int_equal(most, 7);
    bytes_free(&jpeg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_bounded),
                                       cmocka_unit_test(refused_ones_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
