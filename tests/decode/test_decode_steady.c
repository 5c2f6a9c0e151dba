/* test_decode_steady.c - after some images of a kind, decoding allocates no memory, neither from
 * the library's allocator nor directly from malloc, which codec libraries might call. */
#include "decode_make.h"

#include "sanitizer.h"

#include <penstock/penstock.h>

#include <stdatomic.h>
#include <stdlib.h>

static atomic_ulong n_malloc;

/* These replace malloc and its relatives in the whole program, including shared libraries.
 * Sanitizers have their own malloc. */
#if !TEST_SANITIZED
#define COUNTS_MALLOC 1
extern void *__libc_malloc(size_t nbytes);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t nbytes);
__attribute__((visibility("default"))) void *malloc(size_t nbytes)
{
    atomic_fetch_add(&n_malloc, 1);
    return __libc_malloc(nbytes);
}
__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
    atomic_fetch_add(&n_malloc, 1);
    return __libc_calloc(n, size);
}
__attribute__((visibility("default"))) void *realloc(void *memory, size_t nbytes)
{
    atomic_fetch_add(&n_malloc, 1);
    return __libc_realloc(memory, nbytes);
}
#else
#define COUNTS_MALLOC 0
#endif

static enum pst_status sum_sink(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                uint32_t n_rows)
{
    (void)row_nbytes;
    *(uint64_t *)ctx += *(const uint8_t *)rows + y + n_rows;
    return PST_OK;
}

enum { N_FILES = 24 };

static void decode_all(struct psti_decoder *decoder, const struct bytes *files, uint64_t *sum)
{
    uint64_t seed = 4; /* the regions are the same every time */
    for (int i = 0; i < N_FILES; i++) {
        struct pst_decode_options options = {.struct_size = sizeof options,
                                             .channels = i % 2 ? 3 : 0};
        enum pst_form form = i == N_FILES - 1 ? PST_FORM_RAW : PST_FORM_NONE;
        struct pst_image_info info = {
            .form = form, .height = 100, .width = 100, .channels = 3, .bits = 8, .orientation = 6};
        struct pst_error err;
        assert_ok(psti_decode_probe(decoder, files[i].data, files[i].nbytes, form, &options, &info,
                                    &err));
        struct psti_rect r = random_region(&seed, info.height, info.width);
        if (i % 3 == 0)
            r = (struct psti_rect){0, 0, info.height, info.width};
        assert_ok(psti_decode_rows(decoder, files[i].data, files[i].nbytes, &info, &options, &r,
                                   sum_sink, sum, &err));
    }
}

static void test_no_allocation_in_the_steady_state(void **state)
{
    struct bytes files[N_FILES];
    struct psti_decoder *decoder = NULL;
    struct pst_memory_stats before, after;
    struct pst_error err;
    uint64_t sum = 0;
    (void)state;
    for (int i = 0; i < N_FILES - 1; i++) {
        uint32_t height = 20 + 41 * (uint32_t)i, width = 900 - 31 * (uint32_t)i;
        if (i % 3 == 2)
            files[i] = make_png(&(struct png_spec){.height = height,
                                                   .width = width,
                                                   .colour_type = i % 2 ? 2 : 3,
                                                   .depth = 8,
                                                   .n_palette = 77,
                                                   .interlaced = i % 4 == 0},
                                1);
        else
            files[i] = make_jpeg(&(struct jpeg_spec){.height = height,
                                                     .width = width,
                                                     .colours = (enum jpeg_colours)(i % 5),
                                                     .h = 2,
                                                     .v = 1,
                                                     .quality = 80,
                                                     .progressive = i % 4 == 1,
                                                     .orientation = (uint8_t)(1 + i % 8)},
                                 1);
    }
    files[N_FILES - 1] = (struct bytes){make_picture(100, 100, 3, 1), 30000};
    assert_ok(psti_decode_open(&decoder, &err));
    for (int i = 0; i < 3; i++)
        decode_all(decoder, files, &sum);
    pst_memory_stats(&before, sizeof before);
    unsigned long n_before = atomic_load(&n_malloc);
    for (int i = 0; i < 3; i++)
        decode_all(decoder, files, &sum);
    unsigned long n_after = atomic_load(&n_malloc);
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(after.n_alloc, before.n_alloc);
    assert_int_equal(n_after, n_before);
    if (COUNTS_MALLOC) /* proves that the counting works */
        assert_true(n_before > 100);
    psti_decode_close(&decoder);
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(after.live_nbytes, 0);
    for (int i = 0; i < N_FILES; i++)
        bytes_free(&files[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_allocation_in_the_steady_state)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
