/* test_decode_png_roads.c - compares the two ways to decode a PNG, with libdeflate and with libpng,
 * for every type, depth, filter and width, chunks of any size, irregular files that libpng accepts
 * or refuses, and any damage with corrected checksums. Both ways must give the same pixels and
 * errors. */
#include "png_make.h"

#include "decode/decode_int.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct psti_decoder *fast, *judge; /* `fast` may use libdeflate, `judge` only libpng */

static int open_decoders(void **state)
{
    struct pst_error err;
    (void)state;
    assert_ok(psti_decode_open(&fast, &err));
    assert_ok(psti_decode_open(&judge, &err));
    judge->libpng_only = true;
    return 0;
}

static int close_decoders(void **state)
{
    (void)state;
    assert_int_equal(judge->n_png_whole, 0);
    psti_decode_close(&fast);
    psti_decode_close(&judge);
    return 0;
}

static const struct {
    int colour_type, depth;
} kinds[] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
             {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

/* Decodes one region (NULL: the whole image) of a file in both ways. Status, pixels and error text
 * must be the same. Returns the status. *whole tells whether libdeflate decoded the file. */
static enum pst_status both(const uint8_t *data, size_t nbytes, const struct psti_rect *region,
                            bool *whole)
{
    struct pst_image_info info;
    struct pst_error err, judge_err;
    pst_error_clear(&err);
    enum pst_status status =
        pst_image_probe(data, nbytes, PST_FORM_PNG, NULL, &info, sizeof info, &err);
    *whole = false;
    if (status != PST_OK)
        return status;
    const struct psti_rect all = {0, 0, info.height, info.width};
    const struct psti_rect *r = region ? region : &all;
    size_t row_nbytes = (size_t)r->width * info.channels * (info.bits / 8);
    uint8_t *pixels = malloc(row_nbytes * r->height), *expected = malloc(row_nbytes * r->height);
    assert_true(pixels && expected);
    uint64_t n_whole = fast->n_png_whole;
    pst_error_clear(&judge_err);
    status =
        psti_decode_region(judge, data, nbytes, &info, NULL, r, expected, row_nbytes, &judge_err);
    enum pst_status fast_status =
        psti_decode_region(fast, data, nbytes, &info, NULL, r, pixels, row_nbytes, &err);
    *whole = fast->n_png_whole != n_whole;
    if (fast_status != status || strcmp(err.text, judge_err.text) != 0)
        fail_msg("%s \"%s\", and libpng says %s \"%s\"", pst_status_name(fast_status), err.text,
                 pst_status_name(status), judge_err.text);
    assert_int_equal(err.offset, judge_err.offset);
    if (status == PST_OK)
        assert_memory_equal(pixels, expected, row_nbytes * r->height);
    free(pixels);
    free(expected);
    return status;
}

static enum pst_status both_whole(const struct bytes *file, bool *whole)
{
    return both(file->data, file->nbytes, NULL, whole);
}

static void test_every_kind_filter_and_width(void **state)
{
    uint64_t seed = 5;
    (void)state;
    for (size_t kind = 0; kind < N_KINDS; kind++)
        for (int filter = 0; filter <= FILTER_MIXED; filter++)
            for (uint32_t width = 1; width <= 70; width++) {
                uint32_t height = 1 + width % 9 + (width % 10 == 0 ? 30 : 0);
                struct png_parts parts = make_parts(height, width, kinds[kind].colour_type,
                                                    kinds[kind].depth, filter, seed);
                struct bytes file = make_file(&parts, 1 + width * 5);
                bool whole;
                assert_int_equal(both_whole(&file, &whole), PST_OK);
                assert_true(whole);
                for (int i = 0; i < 3; i++) {
                    struct psti_rect r = random_region(&seed, height, width);
                    assert_int_equal(both(file.data, file.nbytes, &r, &whole), PST_OK);
                    assert_int_equal(whole, (r.y + r.height) * 3 > height);
                }
                bytes_free(&file);
                parts_free(&parts);
            }
}

/* A stream in chunks of 1 byte, with empty ones between them, decodes like one chunk. */
static void test_chunks_of_any_size(void **state)
{
    (void)state;
    for (size_t nbytes = 1; nbytes < 6; nbytes++) {
        struct png_parts parts = make_parts(40, 33, 2, 8, FILTER_MIXED, nbytes);
        struct bytes file = {NULL, 0};
        bool whole;
        add_head(&file, &parts);
        for (size_t at = 0; at < parts.stream.nbytes; at += nbytes) {
            size_t left = parts.stream.nbytes - at;
            if (at % 3 == 0)
                add_chunk(&file, "IDAT", NULL, 0);
            add_chunk(&file, "IDAT", parts.stream.data + at, left < nbytes ? left : nbytes);
        }
        add_chunk(&file, "IEND", NULL, 0);
        assert_int_equal(both_whole(&file, &whole), PST_OK);
        assert_true(whole);
        bytes_free(&file);
        parts_free(&parts);
    }
}

/* An irregular file: chunks before or after the stream, too many or too few rows, or wrong
 * checksums. */
struct oddity {
    const char *name, *before, *behind; /* names of chunks; NULL: none */
    size_t n_before, n_behind;          /* bytes of data in these chunks */
    int cut_rows;                       /* rows fewer (negative: more) than IHDR states */
    bool wrong_adler, own_chunk, spare_bytes, no_end, wrong_crc_before, wrong_crc_behind;
    int colour_type;
    enum pst_status status;
    bool whole; /* whether libdeflate decodes the file */
};

static const struct oddity oddities[] = {
    {.name = "nothing odd", .colour_type = 2, .whole = true},
    {.name = "text", .before = "tEXt", .n_before = 9, .colour_type = 2, .whole = true},
    {.name = "unknown", .before = "abCd", .n_before = 9, .colour_type = 2, .whole = true},
    {.name = "text behind", .behind = "tEXt", .n_behind = 5, .colour_type = 2, .whole = true},
    {.name = "broken text behind",
     .behind = "tEXt",
     .wrong_crc_behind = true,
     .colour_type = 2,
     .whole = true},
    {.name = "broken IDAT behind",
     .behind = "IDAT",
     .n_behind = 5,
     .wrong_crc_behind = true,
     .colour_type = 2,
     .whole = true},
    {.name = "spare IDAT", .behind = "IDAT", .n_behind = 50, .colour_type = 2, .whole = true},
    {.name = "no IEND", .no_end = true, .colour_type = 2, .whole = true},
    {.name = "spare bytes", .spare_bytes = true, .colour_type = 2, .whole = true},
    {.name = "suggested palette", .before = "PLTE", .n_before = 12, .colour_type = 2},
    {.name = "odd suggestion", .before = "PLTE", .n_before = 13, .colour_type = 6},
    {.name = "palette of gray", .before = "PLTE", .n_before = 12, .colour_type = 0},
    {.name = "transparency beside alpha", .before = "tRNS", .n_before = 6, .colour_type = 6},
    {.name = "wrong Adler-32", .wrong_adler = true, .colour_type = 2, .status = PST_ERROR_CORRUPT},
    {.name = "wrong Adler-32 behind all pixels",
     .wrong_adler = true,
     .own_chunk = true,
     .colour_type = 2},
    {.name = "Adler-32 in its own chunk", .own_chunk = true, .colour_type = 2, .whole = true},
    {.name = "a row too many", .cut_rows = -1, .colour_type = 2},
    {.name = "large text", .before = "tEXt", .n_before = (8 << 20) + 1, .colour_type = 2},
    {.name = "a row too few", .cut_rows = 1, .colour_type = 2, .status = PST_ERROR_CORRUPT},
    {.name = "broken text",
     .before = "tEXt",
     .n_before = 3,
     .wrong_crc_before = true,
     .colour_type = 2,
     .status = PST_ERROR_CORRUPT},
    {.name = "unknown and critical",
     .before = "ABCD",
     .colour_type = 2,
     .status = PST_ERROR_CORRUPT},
    {.name = "not a name", .before = "a1cd", .colour_type = 2, .status = PST_ERROR_CORRUPT},
    {.name = "second IHDR",
     .before = "IHDR",
     .n_before = 13,
     .colour_type = 2,
     .status = PST_ERROR_CORRUPT},
};

static struct bytes make_odd(const struct oddity *odd)
{
    struct png_parts parts = make_parts(25, 31, odd->colour_type, 8, FILTER_MIXED, 3);
    struct bytes file = {NULL, 0};
    uint8_t *junk = calloc(1, odd->n_before + odd->n_behind + 1);
    assert_non_null(junk);
    if (odd->cut_rows > 0) {
        parts.rows.nbytes -= parts.row_nbytes + 1;
    } else if (odd->cut_rows < 0) {
        uint8_t *row = calloc(1, parts.row_nbytes + 1); /* filter 0 */
        add_bytes(&parts.rows, row, parts.row_nbytes + 1);
        free(row);
    }
    parts_deflate(&parts, 15);
    if (odd->wrong_adler)
        parts.stream.data[parts.stream.nbytes - 1] ^= 1;
    if (odd->spare_bytes)
        add_bytes(&parts.stream, "spare bytes", 11);
    add_head(&file, &parts);
    if (odd->before)
        add_chunk(&file, odd->before, junk, odd->n_before);
    file.data[file.nbytes - 1] ^= odd->wrong_crc_before;
    if (odd->own_chunk)
        parts.stream.nbytes -= 4;
    add_stream(&file, &parts, 700);
    if (odd->own_chunk)
        add_chunk(&file, "IDAT", parts.stream.data + parts.stream.nbytes, 4);
    if (odd->behind) {
        add_chunk(&file, odd->behind, junk, odd->n_behind);
        file.data[file.nbytes - 1] ^= odd->wrong_crc_behind;
    }
    if (!odd->no_end)
        add_chunk(&file, "IEND", NULL, 0);
    free(junk);
    parts_free(&parts);
    return file;
}

static void test_what_libpng_forgives(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof oddities / sizeof oddities[0]; i++) {
        struct bytes file = make_odd(&oddities[i]);
        bool whole;
        enum pst_status status = both_whole(&file, &whole);
        if (status != oddities[i].status || whole != oddities[i].whole)
            fail_msg("%s: %s, %d", oddities[i].name, pst_status_name(status), whole);
        bytes_free(&file);
    }
}

/* The file has an error within the pixels. It does not matter for a region before it. */
static void test_errors_within_the_pixels(void **state)
{
    struct png_parts parts = make_parts(200, 60, 6, 8, FILTER_MIXED, 8);
    struct bytes file = make_file(&parts, 500), text = {NULL, 0};
    const struct psti_rect half = {90, 3, 20, 40};
    size_t last, n = 0;
    bool whole;
    (void)state;
    for (size_t at = 0; at < parts.stream.nbytes; at += 500)
        n++;
    assert_true(n > 20);
    /* A wrong checksum. */
    last = find_chunk(&file, "IDAT", (int)n - 1);
    file.data[last + 8] ^= 1;
    assert_int_equal(both_whole(&file, &whole), PST_ERROR_CORRUPT);
    assert_int_equal(both(file.data, file.nbytes, &half, &whole), PST_OK);
    assert_false(whole);
    file.data[last + 8] ^= 1;
    /* The file ends within the last checksum or before it. */
    size_t end = find_chunk(&file, "IEND", 0);
    assert_int_equal(both(file.data, end, NULL, &whole), PST_OK);
    for (size_t cut = 1; cut < 600; cut += 13) {
        assert_int_equal(both(file.data, end - cut, NULL, &whole), PST_ERROR_TRUNCATED);
        assert_int_equal(both(file.data, end - cut, &half, &whole), PST_OK);
    }
    /* Another chunk stands between the IDATs. */
    add_bytes(&text, file.data, last);
    add_chunk(&text, "tEXt", "between", 7);
    add_bytes(&text, file.data + last, file.nbytes - last);
    assert_int_equal(both_whole(&text, &whole), PST_ERROR_CORRUPT);
    bytes_free(&text);
    bytes_free(&file);
    /* A row has a filter that does not exist. */
    parts.rows.data[150 * (parts.row_nbytes + 1)] = 5;
    parts_deflate(&parts, 15);
    file = make_file(&parts, 500);
    assert_int_equal(both_whole(&file, &whole), PST_ERROR_CORRUPT);
    assert_int_equal(both(file.data, file.nbytes, &half, &whole), PST_OK);
    assert_true(whole);
    bytes_free(&file);
    parts_free(&parts);
}

/* libpng decodes streams whose window is smaller than the pixels, even if distances in the stream
 * exceed the window. */
static void test_windows(void **state)
{
    (void)state;
    for (int bits = 9; bits <= 15; bits++)
        for (int lie = 0; lie < 2; lie++) {
            struct png_parts parts = make_parts(50, 40, 2, 8, 0, 2);
            bool whole;
            parts_deflate(&parts, lie ? 15 : bits);
            uint8_t *head = parts.stream.data;
            head[0] = (uint8_t)((bits - 8) << 4 | 8);
            head[1] = (uint8_t)(head[1] & 0xE0);
            head[1] = (uint8_t)(head[1] + 31 - (head[0] * 256 + head[1]) % 31);
            struct bytes file = make_file(&parts, 4000);
            enum pst_status status = both_whole(&file, &whole);
            assert_true(lie || status == PST_OK);
            assert_int_equal(whole, parts.rows.nbytes <= 1u << bits);
            bytes_free(&file);
            parts_free(&parts);
        }
}

/* Bits are flipped within chunks, and the checksums corrected. libdeflate accepts only files that
 * libpng accepts, and both give the same pixels. */
static void test_damage_under_right_checksums(void **state)
{
    uint64_t seed = 17;
    int n_ok = 0, n_bad = 0;
    (void)state;
    for (size_t kind = 0; kind < N_KINDS; kind++)
        for (int k = 0; k < 400; k++) {
            struct png_parts parts =
                make_parts(1 + random_below(&seed, 12), 1 + random_below(&seed, 20),
                           kinds[kind].colour_type, kinds[kind].depth, FILTER_MIXED, seed);
            struct bytes file = make_file(&parts, 1 + random_below(&seed, 400));
            size_t first = find_chunk(&file, "IDAT", 0);
            bool whole;
            for (uint32_t i = 0; i < 1 + random_below(&seed, 3); i++) {
                size_t at = first + random_below(&seed, (uint32_t)(file.nbytes - first));
                file.data[at] ^= (uint8_t)(1u << random_below(&seed, 8));
            }
            fix_checksums(file.data, file.nbytes);
            enum pst_status status = both_whole(&file, &whole);
            struct psti_rect r = random_region(&seed, parts.height, parts.width);
            both(file.data, file.nbytes, &r, &whole);
            n_ok += status == PST_OK;
            n_bad += status != PST_OK;
            bytes_free(&file);
            parts_free(&parts);
        }
    assert_true(n_ok > 100 && n_bad > 1000);
}

/* The file ends where an unreadable page begins. The file's own memory is write-protected. */
static void test_nothing_beyond_the_file(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = 16 * page;
    uint64_t seed = 1;
    (void)state;
    uint8_t *pages =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + room, page, PROT_NONE), 0);
    for (int k = 0; k < 300; k++) {
        size_t kind = (size_t)k % N_KINDS;
        struct png_parts parts =
            make_parts(1 + random_below(&seed, 40), 1 + random_below(&seed, 60),
                       kinds[kind].colour_type, kinds[kind].depth, FILTER_MIXED, seed);
        struct bytes file = make_file(&parts, k % 2 ? 1 << 20 : 100);
        size_t n = find_chunk(&file, "IEND", 0);
        bool whole;
        n = k % 3 ? n : n - random_below(&seed, (uint32_t)n / 2);
        assert_true(n <= room);
        memcpy(pages + room - n, file.data, n);
        assert_int_equal(mprotect(pages, room, PROT_READ), 0);
        enum pst_status status = both(pages + room - n, n, NULL, &whole);
        assert_int_equal(status == PST_OK, n == find_chunk(&file, "IEND", 0));
        assert_int_equal(mprotect(pages, room, PROT_READ | PROT_WRITE), 0);
        bytes_free(&file);
        parts_free(&parts);
    }
    munmap(pages, room + page);
}

/* With a limit below scratch_wanted the decoder uses libpng. With that limit it uses libdeflate and
 * does not exceed it. */
static void test_scratch_wanted(void **state)
{
    struct png_parts parts = make_parts(900, 700, 2, 8, FILTER_MIXED, 8);
    struct bytes file = make_file(&parts, 8192);
    struct psti_decoder *decoder = NULL;
    struct psti_decode_stats stats;
    struct pst_image_info info;
    struct pst_error err;
    uint32_t channels, bits;
    uint8_t *expected = plain_png(&file, &channels, &bits);
    (void)state;
    assert_ok(
        pst_image_probe(file.data, file.nbytes, PST_FORM_PNG, NULL, &info, sizeof info, &err));
    for (int colours = 0; colours < 2; colours++) {
        struct pst_decode_options options = {.struct_size = sizeof options,
                                             .channels = colours ? 3 : 0};
        assert_ok(psti_decode_open(&decoder, &err));
        psti_decode_set_scratch_limit(decoder, 512 << 10);
        assert_true(region_equals(decoder, &file, &info, &options, NULL, expected));
        psti_decode_stats(decoder, &stats);
        assert_int_equal(decoder->n_png_whole, 0);
        assert_true(stats.scratch_nbytes <= 512 << 10);
        assert_true(stats.scratch_wanted > 900 * 2101 && stats.scratch_wanted < 4 << 20);
        uint64_t wanted = stats.scratch_wanted;
        psti_decode_set_scratch_limit(decoder, wanted - 1);
        assert_true(region_equals(decoder, &file, &info, &options, NULL, expected));
        assert_int_equal(decoder->n_png_whole, 0);
        psti_decode_set_scratch_limit(decoder, wanted);
        assert_true(region_equals(decoder, &file, &info, &options, NULL, expected));
        assert_int_equal(decoder->n_png_whole, 1);
        psti_decode_stats(decoder, &stats);
        assert_int_equal(stats.scratch_wanted, 0);
        assert_true(stats.scratch_nbytes <= wanted);
        psti_decode_close(&decoder);
    }
    free(expected);
    bytes_free(&file);
    parts_free(&parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_filter_and_width),
        cmocka_unit_test(test_chunks_of_any_size),
        cmocka_unit_test(test_what_libpng_forgives),
        cmocka_unit_test(test_errors_within_the_pixels),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_damage_under_right_checksums),
        cmocka_unit_test(test_nothing_beyond_the_file),
        cmocka_unit_test(test_scratch_wanted),
    };
    return cmocka_run_group_tests(tests, open_decoders, close_decoders);
}
