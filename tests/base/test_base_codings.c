/* test_base_codings.c - is data of every coding, made by other software, decoded exactly, and is
 * invalid data refused without a byte written behind the output? */
#include "test.h"

#include "base/bits.h"
#include "base/codings/codings.h"
#include "base/fault.h"
#include "base/hash.h"

#include <penstock/penstock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RAW_MAX = 1 << 20, GUARD = 0xA5 };

static struct psti_codings *codings;
static struct pst_error err;

static int open_codings(void **state)
{
    (void)state;
    return psti_codings_open(&codings, 0, "test", NULL) != PST_OK;
}

static int close_codings(void **state)
{
    (void)state;
    psti_codings_close(&codings);
    psti_codings_close(&codings); /* NULL is allowed */
    return codings != NULL;
}

/* Decodes to memory of exactly n_out bytes, so that a sanitizer detects an extra byte; without a
 * sanitizer guard bytes do. */
static enum pst_status decode(enum pst_coding coding, const void *in, size_t n_in, size_t n_out,
                              uint8_t **out)
{
    uint8_t *copy = malloc(n_in > 0 ? n_in : 1);
    *out = malloc(n_out > 0 ? n_out : 1);
    assert_true(copy != NULL && *out != NULL);
    memcpy(copy, in, n_in);
    enum pst_status status = psti_codings_decode(codings, coding, copy, n_in, *out, n_out, &err);
    free(copy);
    return status;
}

static void gives(enum pst_coding coding, const void *in, size_t n_in, const void *want, size_t n)
{
    uint8_t *out;
    assert_ok(decode(coding, in, n_in, n, &out));
    if (n > 0)
        assert_memory_equal(out, want, n);
    free(out);
}

static void fails(enum pst_coding coding, const void *in, size_t n_in, size_t n_out,
                  const char *text)
{
    uint8_t *out;
    enum pst_status status = decode(coding, in, n_in, n_out, &out);
    free(out);
    if (status != PST_ERROR_CORRUPT || strstr(err.text, text) == NULL)
        print_error("%s: '%s' is not in '%s'\n", pst_status_name(status), text, err.text);
    assert_int_equal(status, PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, text));
}

#define SNAPPY(bytes, want) gives(PST_CODING_SNAPPY, bytes, sizeof bytes - 1, want, sizeof want - 1)
#define NO_SNAPPY(bytes, n, text) fails(PST_CODING_SNAPPY, bytes, sizeof bytes - 1, n, text)

static void snappy_elements(void **state)
{
    (void)state;
    SNAPPY("\x00", "");
    SNAPPY("\x03\x08"
           "abc",
           "abc");
    SNAPPY("\x03\xf0\x02"
           "abc",
           "abc"); /* a literal with a length of 1 byte */
    SNAPPY("\x03\xf4\x02\x00"
           "abc",
           "abc"); /* lengths of 2, 3 and 4 bytes */
    SNAPPY("\x03\xf8\x02\x00\x00"
           "abc",
           "abc");
    SNAPPY("\x03\xfc\x02\x00\x00\x00"
           "abc",
           "abc");
    SNAPPY("\x83\x00\x08"
           "abc",
           "abc"); /* a longer encoding of the length 3 */
    SNAPPY("\x08\x0c"
           "abcd\x01\x04",
           "abcdabcd"); /* copy 4 bytes from 4 back */
    SNAPPY("\x09\x00"
           "a\x11\x01",
           "aaaaaaaaa"); /* copy 8 bytes from 1 back: they overlap */
    SNAPPY("\x07\x0c"
           "abcd\x0a\x03\x00",
           "abcdbcd"); /* copy 3 bytes from 3 back, with a 2-byte offset */
    SNAPPY("\x07\x0c"
           "abcd\x0b\x03\x00\x00\x00",
           "abcdbcd"); /* by 4 */
}

static void snappy_damage(void **state)
{
    (void)state;
    NO_SNAPPY("", 0, "no length");
    NO_SNAPPY("\x80", 0, "no length");
    NO_SNAPPY("\xff\xff\xff\xff\x7f\x00", 1, "no length");
    NO_SNAPPY("\xff\xff\xff\xff\xff\x01", 1, "no length");
    NO_SNAPPY("\x04\x08"
              "abc",
              3, "another length");
    NO_SNAPPY("\x03\x08"
              "ab",
              3, "end early");
    NO_SNAPPY("\x04\x08"
              "abc",
              4, "end early");
    NO_SNAPPY("\x02\x08"
              "abc",
              2, "more than is stated");
    NO_SNAPPY("\x03\xf0", 3, "end early");
    NO_SNAPPY("\x03\xfc\xff\xff\xff\xff", 3, "more than is stated");
    /* a copy, although nothing was written before it */
    NO_SNAPPY("\x04\x01\x00", 4, "before their beginning");
    NO_SNAPPY("\x05\x00"
              "a\x01\x00",
              5, "before their beginning"); /* 0 back */
    NO_SNAPPY("\x05\x00"
              "a\x01\x02",
              5, "before their beginning");
    NO_SNAPPY("\x04\x00"
              "a\x01\x01",
              4, "more than is stated");
    NO_SNAPPY("\x05\x00"
              "a\x01",
              5, "end early");
    NO_SNAPPY("\x05\x00"
              "a\x02\x01",
              5, "end early");
    NO_SNAPPY("\x05\x00"
              "a\x03\x01\x00\x00",
              5, "end early");
    NO_SNAPPY("\x05\x00"
              "a\x0f\xff\xff\xff\xff",
              5, "before their beginning");
}

/* Copies of all lengths and distances up to a limit, compared with bytes copied one by one. */
static void snappy_copies_of_all_lengths(void **state)
{
    (void)state;
    enum { HEAD = 40 };
    for (size_t back = 1; back <= HEAD; back++)
        for (size_t n = 1; n <= 64; n++)
            for (size_t tail = 0; tail <= 20; tail += 20) {
                uint8_t in[256], want[256];
                size_t at = 0, total = HEAD + n + tail;
                in[at++] = (uint8_t)((total & 127) | (total > 127 ? 128 : 0));
                if (total > 127)
                    in[at++] = (uint8_t)(total >> 7);
                in[at++] = (HEAD - 1) << 2;
                for (size_t k = 0; k < HEAD; k++)
                    want[k] = in[at++] = (uint8_t)(k * 7 + 1);
                in[at++] = (uint8_t)((n - 1) << 2 | 2);
                in[at++] = (uint8_t)back;
                in[at++] = 0;
                for (size_t k = 0; k < n; k++)
                    want[HEAD + k] = want[HEAD + k - back];
                if (tail > 0)
                    in[at++] = (uint8_t)((tail - 1) << 2);
                for (size_t k = 0; k < tail; k++)
                    want[HEAD + n + k] = in[at++] = (uint8_t)(200 + k);
                gives(PST_CODING_SNAPPY, in, at, want, total);
            }
}

/* Pieces ------------------------------------------------------------------------ */

#define M "\x0a\x23\xd7\xce"
#define JOINED(bytes, want) gives(PST_CODING_PIECES, bytes, sizeof bytes - 1, want, sizeof want - 1)
#define NOT_JOINED(bytes, n, text) fails(PST_CODING_PIECES, bytes, sizeof bytes - 1, n, text)

static void pieces_are_joined(void **state)
{
    (void)state;
    JOINED(M "\x00\x00\x00\x00", "");
    JOINED(M "\x04\x00\x00\x00"
             "abcd",
           "abcd");
    JOINED(M "\x05\x00\x00\x00"
             "abcde\0\0\0",
           "abcde");
    JOINED(M "\x04\x00\x00\x20"
             "abcd" M "\x01\x00\x00\x60"
             "e\0\0\0",
           "abcd" M "e");
    JOINED(M "\x00\x00\x00\x20" M "\x00\x00\x00\x40" M "\x00\x00\x00\x60", M M);
    JOINED(M "\x04\x00\x00\x20"
             "abcd" M "\x04\x00\x00\x40"
             "efgh" M "\x02\x00\x00\x60"
             "ij\0\0",
           "abcd" M "efgh" M "ij");
    /* The item is the end of the record. */
    JOINED(M "\x04\x00\x00\x00"
             "abcd",
           "bcd");
    JOINED(M "\x04\x00\x00\x00"
             "abcd",
           "");
    JOINED(M "\x04\x00\x00\x20"
             "abcd" M "\x02\x00\x00\x60"
             "ef\0\0",
           "d" M "ef");
    JOINED(M "\x04\x00\x00\x20"
             "abcd" M "\x02\x00\x00\x60"
             "ef\0\0",
           "\xce"
           "ef");
    JOINED(M "\x04\x00\x00\x20"
             "abcd" M "\x02\x00\x00\x60"
             "ef\0\0",
           "f");
}

static void pieces_that_are_wrong(void **state)
{
    (void)state;
    NOT_JOINED("", 0, "no parts");
    NOT_JOINED(M "\x04\x00\x00", 4, "within a header");
    NOT_JOINED("\x0a\x23\xd7\xcf\x00\x00\x00\x00", 0, "does not begin with");
    NOT_JOINED(M "\x05\x00\x00\x00"
                 "abcde\0\0",
               5, "ends early");
    NOT_JOINED(M "\xff\xff\xff\x1f", 5, "ends early");
    NOT_JOINED(M "\x04\x00\x00\x00"
                 "abcd",
               5, "less than is stated");
    NOT_JOINED(M "\x04\x00\x00\x20"
                 "abcd",
               4, "the last part of the record is missing");
    NOT_JOINED(M "\x04\x00\x00\x40"
                 "abcd",
               4, "not in order");
    NOT_JOINED(M "\x04\x00\x00\x60"
                 "abcd",
               4, "not in order");
    NOT_JOINED(M "\x04\x00\x00\x80"
                 "abcd",
               4, "not in order");
    NOT_JOINED(M "\x00\x00\x00\x20" M "\x00\x00\x00\x20", 4, "not in order");
    NOT_JOINED(M "\x00\x00\x00\x20" M "\x00\x00\x00\x00", 4, "not in order");
    NOT_JOINED(M "\x00\x00\x00\x00" M "\x00\x00\x00\x00", 0, "more follows");
    NOT_JOINED(M "\x00\x00\x00\x20" M "\x00\x00\x00\x60", 5, "less than is stated");
}

/* Tests of LZ4, with blocks that a fake function decodes ---------------------------- */

static int n_before_seen;

/* Decodes to as many "b" as the first byte says. */
static int fake_block(const char *in, char *out, int n_in, int n_room, const char *before,
                      int n_before)
{
    assert_true(before + n_before == out);
    n_before_seen = n_before;
    if (n_in < 1 || in[0] < 0 || in[0] > n_room)
        return -1;
    memset(out, 'b', (size_t)in[0]);
    return in[0];
}

static size_t put_u32(uint8_t *at, uint32_t value)
{
    psti_store_u32(at, value);
    return 4;
}

/* Makes a frame with a stored block "abc" and a block that gives "bb". Returns its length. */
static size_t make_frame(uint8_t *frame, uint8_t flags)
{
    size_t n = put_u32(frame, 0x184D2204), head = n;
    frame[n++] = flags;
    frame[n++] = 0x40;
    if (flags & 8) {
        psti_store_u64(frame + n, 5);
        n += 8;
    }
    if (flags & 1)
        n += put_u32(frame + n, 1);
    frame[n] = (uint8_t)(psti_hash32(frame + head, n - head) >> 8);
    n++;
    n += put_u32(frame + n, 3 | UINT32_C(1) << 31);
    memcpy(frame + n, "abc", 3);
    n += 3;
    if (flags & 16)
        n += put_u32(frame + n, psti_hash32("abc", 3));
    n += put_u32(frame + n, 1);
    frame[n++] = 2;
    if (flags & 16)
        n += put_u32(frame + n, psti_hash32("\2", 1));
    n += put_u32(frame + n, 0);
    if (flags & 4)
        n += put_u32(frame + n, psti_hash32("abcbb", 5));
    return n;
}

static const char *lz4(const uint8_t *in, size_t n_in, size_t n_out, const char *want)
{
    uint8_t *copy = malloc(n_in > 0 ? n_in : 1), *out = malloc(n_out > 0 ? n_out : 1);
    assert_true(copy != NULL && out != NULL);
    memcpy(copy, in, n_in);
    const char *problem = psti_lz4_decode(fake_block, copy, n_in, out, n_out);
    if (problem == NULL && want != NULL)
        assert_memory_equal(out, want, n_out);
    free(copy);
    free(out);
    return problem;
}

static void lz4_frames(void **state)
{
    (void)state;
    uint8_t frame[256];
    /* All combinations of flags: independent blocks, block checksums, size, content checksum. */
    for (int bits = 0; bits < 16; bits++) {
        uint8_t flags = (uint8_t)(0x40 | bits << 2);
        size_t n = make_frame(frame, flags);
        assert_null(lz4(frame, n, 5, "abcbb"));
        assert_int_equal(n_before_seen, flags & 0x20 ? 0 : 3);
        assert_string_equal(lz4(frame, n, 4, NULL),
                            "the LZ4 frames are damaged, or hold more than is stated");
        assert_string_equal(lz4(frame, n, 6, NULL), "the LZ4 frames hold less than is stated");
        for (size_t cut = 1; cut < n; cut++)
            assert_non_null(lz4(frame, cut, 5, NULL));
        if (bits == 15) /* if all blocks have checksums, any changed byte is detected */
            for (size_t at = 0; at < n; at++) {
                frame[at] ^= 0x10;
                assert_non_null(lz4(frame, n, 5, NULL));
                frame[at] ^= 0x10;
            }
    }
    /* Two frames, with a skippable frame between them and at both ends. */
    uint8_t several[600];
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        n += put_u32(several + n, 0x184D2A50 + 7 * (uint32_t)i);
        n += put_u32(several + n, 3);
        memcpy(several + n, "xyz", 3);
        n += 3;
        n += make_frame(several + n, 0x64);
    }
    assert_null(lz4(several, n, 10, "abcbbabcbb"));
    assert_null(lz4(several, 0, 0, NULL));
    n += put_u32(several + n, 0x184D2A5F);
    n += put_u32(several + n, 0);
    assert_null(lz4(several, n, 10, "abcbbabcbb"));
    assert_non_null(lz4(several, n - 1, 10, NULL));
    psti_store_u32(several + n - 4, UINT32_MAX);
    assert_non_null(lz4(several, n, 10, NULL));
}

static void lz4_headers_that_are_refused(void **state)
{
    (void)state;
    uint8_t frame[256];
    static const struct {
        uint8_t flags, block;
        const char *text;
    } bad[] = {{0x00, 0x40, "no known version"}, {0x80, 0x40, "no known version"},
               {0x42, 0x40, "no known version"}, {0x41, 0x40, "a dictionary"},
               {0x40, 0x30, "no known version"}, {0x40, 0x41, "no known version"},
               {0x40, 0xC0, "no known version"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n = make_frame(frame, bad[i].flags);
        frame[5] = bad[i].block;
        const char *problem = lz4(frame, n, 5, NULL);
        assert_non_null(problem);
        assert_non_null(strstr(problem, bad[i].text));
    }
    size_t n = make_frame(frame, 0x60);
    psti_store_u32(frame + 7, (1 << 16) + 1); /* a block longer than the frame allows */
    assert_non_null(lz4(frame, n, 5, NULL));
    assert_string_equal(lz4((const uint8_t *)"12345678", 8, 5, NULL),
                        "the LZ4 bytes begin with no frame");
}

/* Files that other software made -------------------------------------------------- */

static uint8_t *read_golden(const char *name, size_t *n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", PST_CODINGS, name);
    uint8_t *bytes = malloc(RAW_MAX);
    FILE *file = fopen(path, "rb");
    assert_true(bytes != NULL);
    *n = file != NULL ? fread(bytes, 1, RAW_MAX, file) : 0;
    if (file == NULL)
        print_error("%s is missing\n", path);
    else
        (void)fclose(file);
    return bytes;
}

static void files_of_other_software(void **state)
{
    (void)state;
    static const char *const raws[] = {"empty", "one", "text", "mixed", "zeros"};
    static const struct {
        const char *end;
        enum pst_coding coding;
    } ends[] = {{"snappy", PST_CODING_SNAPPY}, {"zst", PST_CODING_ZSTD}, {"lz4", PST_CODING_LZ4}};
    for (size_t k = 0; k < 3; k++) {
        struct psti_codings *own = NULL;
        if (psti_codings_open(&own, psti_codings_of(ends[k].coding), "test", &err) != PST_OK) {
            assert_int_equal(err.status, PST_ERROR_UNSUPPORTED);
            print_message("left out: %s\n", err.text);
            continue;
        }
        psti_codings_close(&own);
        for (size_t i = 0; i < 5; i++) {
            char name[64];
            size_t n_raw, n_coded;
            snprintf(name, sizeof name, "%s.raw", raws[i]);
            uint8_t *raw = read_golden(name, &n_raw);
            snprintf(name, sizeof name, "%s.%s", raws[i], ends[k].end);
            uint8_t *coded = read_golden(name, &n_coded), *out;
            assert_true(n_coded > 0);
            gives(ends[k].coding, coded, n_coded, raw, n_raw);
            assert_int_equal(decode(ends[k].coding, coded, n_coded, n_raw + 1, &out),
                             PST_ERROR_CORRUPT);
            free(out);
            for (size_t cut = 1; cut < n_coded; cut += 1 + n_coded / 50) {
                assert_int_equal(decode(ends[k].coding, coded, n_coded - cut, n_raw, &out),
                                 n_raw == 0 && n_coded == cut ? PST_OK : PST_ERROR_CORRUPT);
                free(out);
            }
            if (n_raw > 0) {
                assert_int_equal(decode(ends[k].coding, coded, n_coded, n_raw - 1, &out),
                                 PST_ERROR_CORRUPT);
                free(out);
            }
            free(raw);
            free(coded);
        }
    }
}

static void a_missing_library_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *library, *package;
        enum pst_coding coding;
    } libraries[] = {{"PENSTOCK_LIBZSTD", "libzstd", "libzstd1", PST_CODING_ZSTD},
                     {"PENSTOCK_LIBLZ4", "liblz4", "liblz4-1", PST_CODING_LZ4}};
    for (size_t i = 0; i < 2; i++) {
        struct psti_codings *own = NULL;
        uint8_t out[1];
        setenv(libraries[i].variable, "/nowhere/lib.so", 1);
        assert_int_equal(
            psti_codings_open(&own, psti_codings_of(libraries[i].coding), "test", &err),
            PST_ERROR_UNSUPPORTED);
        assert_null(own);
        assert_ok(psti_codings_open(&own, 0, "test", &err));
        assert_int_equal(psti_codings_decode(own, libraries[i].coding, "x", 1, out, 1, &err),
                         PST_ERROR_UNSUPPORTED);
        psti_codings_close(&own);
        assert_string_equal(err.room, libraries[i].library);
        assert_non_null(strstr(err.text, libraries[i].package));
        assert_non_null(strstr(err.text, "/nowhere/lib.so"));
        /* The environment variable names another library. */
        setenv(libraries[i].variable, "libm.so.6", 1);
        assert_int_equal(
            psti_codings_open(&own, psti_codings_of(libraries[i].coding), "test", &err),
            PST_ERROR_UNSUPPORTED);
        assert_non_null(strstr(err.text, "lacks the function"));
        unsetenv(libraries[i].variable);
    }
}

static void unknown_codings_are_refused(void **state)
{
    (void)state;
    uint8_t out[1];
    for (int coding = 0; coding < 9; coding += coding == 0 ? 6 : 1)
        assert_int_equal(
            psti_codings_decode(codings, (enum pst_coding)coding, "x", 1, out, 1, &err),
            PST_ERROR_UNSUPPORTED);
}

static void memory_may_be_lacking_anywhere(void **state)
{
    (void)state;
#ifdef PST_FAULTS
    const uint32_t set = psti_codings_of(PST_CODING_DEFLATE) | psti_codings_of(PST_CODING_SNAPPY) |
                         psti_codings_of(PST_CODING_PIECES);
    struct pst_memory_stats before, after;
    pst_memory_stats(&before, sizeof before);
    uint64_t n = 0;
    for (enum pst_status status = PST_ERROR_MEMORY; status != PST_OK;) {
        struct psti_codings *own = NULL;
        psti_fault_arm(PSTI_FAULT_ALLOC, ++n, false);
        status = psti_codings_open(&own, set, "test", &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        if (status != PST_OK)
            assert_int_equal(status, PST_ERROR_MEMORY);
        psti_codings_close(&own);
        pst_memory_stats(&after, sizeof after);
        assert_int_equal(after.live_nbytes, before.live_nbytes);
    }
    assert_true(n > 3);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snappy_elements),
        cmocka_unit_test(snappy_damage),
        cmocka_unit_test(snappy_copies_of_all_lengths),
        cmocka_unit_test(pieces_are_joined),
        cmocka_unit_test(pieces_that_are_wrong),
        cmocka_unit_test(lz4_frames),
        cmocka_unit_test(lz4_headers_that_are_refused),
        cmocka_unit_test(files_of_other_software),
        cmocka_unit_test(a_missing_library_is_named),
        cmocka_unit_test(unknown_codings_are_refused),
        cmocka_unit_test(memory_may_be_lacking_anywhere),
    };
    return cmocka_run_group_tests(tests, open_codings, close_codings);
}
