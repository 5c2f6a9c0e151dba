/* test_base_inflate.c - are deflated bytes inflated exactly, and is all else refused? */
#include "test.h"

#include "base/inflate.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

static uint8_t *deflated(const void *bytes, size_t nbytes, int level, int strategy, size_t *n)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, level, Z_DEFLATED, -MAX_WBITS, 8, strategy), Z_OK);
    size_t capacity = deflateBound(&stream, nbytes) + 64;
    uint8_t *out = malloc(capacity);
    assert_non_null(out);
    stream.next_in = (Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)nbytes;
    stream.next_out = out;
    stream.avail_out = (uInt)capacity;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *n = stream.total_out;
    assert_int_equal(deflateEnd(&stream), Z_OK);
    return out;
}

/* Makes bytes of which a part can be compressed. */
static uint8_t *made(size_t nbytes)
{
    uint8_t *bytes = malloc(nbytes + 1);
    assert_non_null(bytes);
    uint32_t seed = 1;
    for (size_t i = 0; i < nbytes; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = i % 1000 < 300 ? (uint8_t)(seed >> 24) : (uint8_t)(i / 7);
    }
    return bytes;
}

static struct psti_inflater *inflater;

static int open_inflater(void **state)
{
    (void)state;
    return psti_inflate_open(&inflater, "test", NULL) != PST_OK;
}

static int close_inflater(void **state)
{
    (void)state;
    psti_inflate_close(&inflater);
    psti_inflate_close(&inflater); /* NULL is allowed */
    return inflater != NULL;
}

static void exactly_what_was_deflated_comes_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 1000, 65535, 65536, 1000000};
    struct pst_error err;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int level = 0; level <= 9; level += 3)
            for (int strategy = 0; strategy <= Z_FIXED; strategy += Z_FIXED) {
                size_t n = 0, n_head = 0, nbytes = sizes[i];
                uint8_t *bytes = made(nbytes), *out = malloc(nbytes + 8);
                uint8_t *in = deflated(bytes, nbytes, level, strategy, &n);
                assert_non_null(out);
                memset(out, 0x5a, nbytes + 8);
                assert_ok(psti_inflate_raw(inflater, in, n, nbytes > 0 ? out : NULL, nbytes, &err));
                assert_memory_equal(out, bytes, nbytes);
                assert_memory_equal(out + nbytes, "\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a", 8);
                memset(out, 0, nbytes);
                assert_ok(psti_inflate_head(inflater, in, n, out, nbytes / 3, &n_head, &err));
                assert_int_equal(n_head, nbytes / 3);
                assert_memory_equal(out, bytes, n_head);
                free(in);
                free(out);
                free(bytes);
            }
}

static void other_sizes_and_bytes_behind_are_refused(void **state)
{
    (void)state;
    enum { NBYTES = 5000 };
    size_t n = 0;
    uint8_t *bytes = made(NBYTES), out[NBYTES + 1];
    uint8_t *in = deflated(bytes, NBYTES, 6, Z_DEFAULT_STRATEGY, &n);
    struct pst_error err;
    assert_int_equal(psti_inflate_raw(inflater, in, n, out, NBYTES + 1, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "fewer than the 5001"));
    assert_int_equal(psti_inflate_raw(inflater, in, n, out, NBYTES - 1, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "more than the 4999"));
    assert_int_equal(psti_inflate_raw(inflater, in, n, NULL, 0, &err), PST_ERROR_CORRUPT);
    assert_string_equal(err.room, "test");
    in = realloc(in, n + 3);
    assert_non_null(in);
    memset(in + n, 0, 3);
    assert_int_equal(psti_inflate_raw(inflater, in, n + 3, out, NBYTES, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "3 bytes follow"));
    assert_ok(psti_inflate_raw(inflater, in, n, out, NBYTES, NULL));
    free(in);
    free(bytes);
}

static void data_cut_anywhere_are_refused(void **state)
{
    (void)state;
    enum { NBYTES = 3000 };
    size_t n = 0, n_head = 0;
    uint8_t *bytes = made(NBYTES), out[NBYTES];
    struct pst_error err;
    for (int level = 0; level <= 6; level += 6) {
        uint8_t *in = deflated(bytes, NBYTES, level, Z_DEFAULT_STRATEGY, &n);
        for (size_t cut = 0; cut < n; cut++) {
            uint8_t *part = malloc(cut > 0 ? cut : 1);
            assert_non_null(part);
            memcpy(part, in, cut);
            assert_int_equal(psti_inflate_raw(inflater, part, cut, out, NBYTES, &err),
                             PST_ERROR_CORRUPT);
            assert_ok(psti_inflate_head(inflater, part, cut, out, NBYTES, &n_head, &err));
            assert_true(n_head <= NBYTES);
            assert_memory_equal(out, bytes, n_head);
            free(part);
        }
        free(in);
    }
    assert_int_equal(psti_inflate_head(inflater, "\x07", 1, out, NBYTES, &n_head, &err),
                     PST_ERROR_CORRUPT); /* there is no such block type */
    free(bytes);
}

static void checksums_are_those_of_zlib(void **state)
{
    (void)state;
    uint8_t *bytes = made(10000);
    assert_int_equal(psti_crc32(0, NULL, 0), 0);
    assert_int_equal(psti_crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(psti_crc32(psti_crc32(0, bytes, 77), bytes + 77, 9923),
                     crc32(0, bytes, 10000));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_what_was_deflated_comes_back),
        cmocka_unit_test(other_sizes_and_bytes_behind_are_refused),
        cmocka_unit_test(data_cut_anywhere_are_refused),
        cmocka_unit_test(checksums_are_those_of_zlib),
    };
    return cmocka_run_group_tests(tests, open_inflater, close_inflater);
}
