/* test_containers_zip.c - does the walk find each member of a zip, and refuse zips that are invalid
 * or that could be read in two ways? */
#include "test.h"

#include "zip_helper.h"

#include "base/bits.h"

#include <stdlib.h>
#include <string.h>

struct walk {
    struct zip_memory memory;
    struct psti_walk_source source;
    struct psti_zip_walk walk;
};

static struct walk *begin(const struct zip *zip)
{
    struct walk *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->memory = (struct zip_memory){.bytes = zip->file.bytes, .given = zip->file.nbytes};
    w->source = zip_source(&w->memory, zip->file.nbytes);
    struct pst_error err;
    assert_ok(psti_containers_zip_open(&w->walk, &w->source, &err));
    return w;
}

static void end(struct walk *w)
{
    psti_containers_zip_close(&w->walk);
    free(w);
}

static struct psti_zip_member next(struct walk *w)
{
    struct psti_zip_member member;
    struct pst_error err;
    bool has = false;
    assert_ok(psti_containers_zip_next(&w->walk, &member, &has, &err));
    assert_true(has);
    return member;
}

static void assert_end(struct walk *w)
{
    struct psti_zip_member member;
    struct pst_error err;
    bool has = true;
    for (int i = 0; i < 2; i++) { /* a second call at the end returns the end again */
        assert_ok(psti_containers_zip_next(&w->walk, &member, &has, &err));
        assert_false(has);
    }
}

/* Walks over the first `nbytes` until an error, and returns its status. */
static enum pst_status fails_cut(const struct zip *zip, size_t nbytes, struct pst_error *err)
{
    struct zip_memory memory = {.bytes = zip->file.bytes, .given = nbytes};
    struct psti_walk_source source = zip_source(&memory, nbytes);
    struct psti_zip_walk *walk = calloc(1, sizeof *walk);
    assert_non_null(walk);
    struct psti_zip_member member;
    bool has = true;
    enum pst_status status = psti_containers_zip_open(walk, &source, err);
    while (status == PST_OK && has)
        status = psti_containers_zip_next(walk, &member, &has, err);
    psti_containers_zip_close(walk);
    free(walk);
    return status;
}

static void assert_fails(const struct zip *zip, enum pst_status status, const char *text)
{
    struct pst_error err;
    assert_int_equal(fails_cut(zip, zip->file.nbytes, &err), status);
    if (strstr(err.text, text) == NULL)
        fail_msg("\"%s\" has no \"%s\"", err.text, text);
    assert_string_equal(err.file, "a.zip");
}

static void assert_whole(const struct zip *zip)
{
    struct pst_error err;
    assert_ok(fails_cut(zip, zip->file.nbytes, &err));
}

/* Makes a zip of two members, the second deflated. Tests then change its bytes. */
static struct zip two(void)
{
    struct zip zip = {0};
    zip_member(&zip, &(struct zip_member){.name = "a.txt", .content = "abc", .nbytes = 3});
    zip_member(&zip, &(struct zip_member){.name = "b.txt",
                                          .content = "bbbbbbbbbbbbbbbbbbbbbbbb",
                                          .nbytes = 24,
                                          .is_deflated = true});
    zip_end(&zip, &(struct zip_end){0});
    return zip;
}

/* Changes 16 or 32 bits, walks, expects this error, and frees the zip. */
static void assert_changed_u16(size_t (*place)(const struct zip *), uint16_t value,
                               enum pst_status status, const char *text)
{
    struct zip zip = two();
    psti_store_u16(zip.file.bytes + place(&zip), value);
    assert_fails(&zip, status, text);
    zip_free(&zip);
}

static void assert_changed_u32(size_t (*place)(const struct zip *), uint32_t value,
                               enum pst_status status, const char *text)
{
    struct zip zip = two();
    psti_store_u32(zip.file.bytes + place(&zip), value);
    assert_fails(&zip, status, text);
    zip_free(&zip);
}

static size_t header_flags(const struct zip *zip) { return zip->headers[1] + 6; }
static size_t header_method(const struct zip *zip) { return zip->headers[1] + 8; }
static size_t header_check(const struct zip *zip) { return zip->headers[1] + 14; }
static size_t header_nbytes(const struct zip *zip) { return zip->headers[1] + 18; }
static size_t header_decoded(const struct zip *zip) { return zip->headers[1] + 22; }
static size_t header_n_name(const struct zip *zip) { return zip->headers[1] + 26; }
static size_t header_n_extra(const struct zip *zip) { return zip->headers[1] + 28; }
static size_t header_name(const struct zip *zip) { return zip->headers[1] + 30; }
static size_t entry_magic(const struct zip *zip) { return zip->entries[1]; }
static size_t entry_flags(const struct zip *zip) { return zip->entries[1] + 8; }
static size_t entry_decoded(const struct zip *zip) { return zip->entries[1] + 24; }
static size_t entry_n_name(const struct zip *zip) { return zip->entries[1] + 28; }
static size_t entry_n_comment(const struct zip *zip) { return zip->entries[1] + 32; }
static size_t entry_disk(const struct zip *zip) { return zip->entries[1] + 34; }
static size_t entry_header(const struct zip *zip) { return zip->entries[1] + 42; }
static size_t end_disk(const struct zip *zip) { return zip->end + 4; }
static size_t end_n_here(const struct zip *zip) { return zip->end + 8; }
static size_t end_nbytes(const struct zip *zip) { return zip->end + 12; }
static size_t end_offset(const struct zip *zip) { return zip->end + 16; }

static void places_are_those_of_the_contents(void **state)
{
    (void)state;
    static const uint8_t local_extra[9] = {0x34, 0x12, 5, 0, 1, 2, 3, 4, 5};
    uint8_t content[70000];
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)(i * i >> 7);
    static const size_t sizes[] = {0, 1, 513, sizeof content};
    struct zip zip = {0};
    for (size_t i = 0; i < 8; i++)
        zip_member(&zip, &(struct zip_member){.name = "file.jpg",
                                              .content = content,
                                              .nbytes = sizes[i / 2],
                                              .is_deflated = i % 2,
                                              .has_descriptor = i % 3 == 1,
                                              .is_zip64 = i % 4 >= 2,
                                              .local_extra = local_extra,
                                              .n_local_extra = i % 5 == 0 ? 9 : 0});
    zip_end(&zip, &(struct zip_end){.comment = "a comment"});
    struct walk *w = begin(&zip);
    for (size_t i = 0; i < 8; i++) {
        struct psti_zip_member m = next(w);
        assert_int_equal(m.kind, PSTI_ZIP_FILE);
        assert_int_equal(m.header, zip.headers[i]);
        assert_int_equal(m.decoded_nbytes, sizes[i / 2]);
        assert_int_equal(m.coding, i % 2 ? PSTI_CODING_DEFLATE : PSTI_CODING_STORED);
        if (i % 2 == 0) {
            assert_int_equal(m.nbytes, sizes[i / 2]);
            assert_memory_equal(zip.file.bytes + m.offset, content, m.nbytes);
        }
        const uint8_t *head = NULL;
        struct pst_error err;
        size_t n = sizes[i / 2] < 100 ? sizes[i / 2] : 100;
        assert_ok(psti_containers_zip_head(&w->walk, &m, 100, &head, &err));
        assert_memory_equal(head, content, n);
    }
    assert_end(w);
    end(w);
    zip_free(&zip);
}

static void names_are_given_in_utf8(void **state)
{
    (void)state;
    /* Info-ZIP's Unicode field: a version, the CRC-32 of the name that it replaces, and the UTF-8
     * name. */
    static const uint8_t unicode[12] = {0x75, 0x70, 8, 0, 1, 0, 0, 0, 0, 0xc3, 0xa9, 'x'};
    uint8_t right[12];
    memcpy(right, unicode, sizeof right);
    psti_store_u32(right + 5, 0x3f5dd4e5); /* of "old" */
    struct zip zip = {0};
    zip_member(&zip, &(struct zip_member){.name = "plain.txt"});
    zip_member(&zip, &(struct zip_member){.name = "caf\x82\xe1\xb3"});
    zip_member(&zip, &(struct zip_member){.name = "d\xc3\xa9j\xc3\xa0", .flags = 1 << 11});
    zip_member(&zip, &(struct zip_member){.name = "old", .extra = unicode, .n_extra = 12});
    zip_member(&zip, &(struct zip_member){.name = "old", .extra = right, .n_extra = 12});
    zip_end(&zip, &(struct zip_end){0});
    struct walk *w = begin(&zip);
    assert_string_equal(next(w).name, "plain.txt");
    assert_string_equal(next(w).name, "caf\xc3\xa9\xc3\x9f\xe2\x94\x82");
    assert_string_equal(next(w).name, "d\xc3\xa9j\xc3\xa0");
    assert_string_equal(next(w).name, "old"); /* the field belongs to another name */
    assert_string_equal(next(w).name, "\xc3\xa9x");
    assert_end(w);
    end(w);
    zip_free(&zip);
}

static void wrong_names_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\xc3", "\xa9", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80",
                                        "\xc0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct zip zip = {0};
        zip_member(&zip, &(struct zip_member){.name = wrong[i], .flags = 1 << 11});
        zip_end(&zip, &(struct zip_end){0});
        assert_fails(&zip, PST_ERROR_CORRUPT, "UTF-8");
        zip_free(&zip);
    }
    struct zip zip = {0};
    zip_member(&zip, &(struct zip_member){.name = ""});
    zip_end(&zip, &(struct zip_end){0});
    assert_fails(&zip, PST_ERROR_CORRUPT, "empty");
    zip_free(&zip);
    char longest[PSTI_ZIP_NAME_CAP + 1];
    memset(longest, 'n', PSTI_ZIP_NAME_CAP);
    longest[PSTI_ZIP_NAME_CAP] = '\0';
    zip_member(&zip, &(struct zip_member){.name = longest});
    zip_end(&zip, &(struct zip_end){0});
    assert_fails(&zip, PST_ERROR_LIMIT, "name");
    zip_free(&zip);
    zip = two();
    zip.file.bytes[zip.entries[1] + 46 + 1] = 0;
    assert_fails(&zip, PST_ERROR_CORRUPT, "NUL");
    zip_free(&zip);
}

static void times_are_seconds(void **state)
{
    (void)state;
    static const uint8_t stamp[9] = {0x55, 0x54, 5, 0, 1, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t access[9] = {0x55, 0x54, 5, 0, 2, 9, 9, 9, 9};
    uint16_t date = (2024 - 1980) << 9 | 2 << 5 | 29, time = 23 << 11 | 59 << 5 | 29;
    struct zip zip = {0};
    zip_member(&zip, &(struct zip_member){.name = "dos", .date = date, .time = time});
    zip_member(&zip, &(struct zip_member){.name = "first", .date = 1 << 5 | 1});
    zip_member(&zip, &(struct zip_member){.name = "none", .time = time});
    zip_member(&zip, &(struct zip_member){.name = "unix", .extra = stamp, .n_extra = 9});
    zip_member(&zip, &(struct zip_member){.name = "access", .extra = access, .n_extra = 9});
    zip_end(&zip, &(struct zip_end){0});
    struct walk *w = begin(&zip);
    assert_int_equal(next(w).mtime, 1709251198); /* 2024-02-29 23:59:58 */
    assert_int_equal(next(w).mtime, 315532800);  /* 1980-01-01 */
    assert_int_equal(next(w).mtime, 0);
    assert_int_equal(next(w).mtime, -1);
    assert_int_equal(next(w).mtime, 0);
    end(w);
    zip_free(&zip);
}

static void kinds_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint8_t host;
        uint32_t attributes;
        enum psti_zip_kind want;
    } kinds[] = {{"f", 3, 0100644u << 16, PSTI_ZIP_FILE},  {"f", 3, 0644u << 16, PSTI_ZIP_FILE},
                 {"l", 3, 0120777u << 16, PSTI_ZIP_LINK},  {"l", 19, 0120777u << 16, PSTI_ZIP_LINK},
                 {"d/", 0, 0, PSTI_ZIP_FOLDER},            {"d", 3, 040755u << 16, PSTI_ZIP_FOLDER},
                 {"d", 0, 0x10, PSTI_ZIP_FOLDER},          {"p", 3, 010644u << 16, PSTI_ZIP_OTHER},
                 {"f", 0, 0120777u << 16, PSTI_ZIP_FILE}};
    struct zip zip = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        zip_member(&zip, &(struct zip_member){.name = kinds[i].name,
                                              .host = kinds[i].host,
                                              .attributes = kinds[i].attributes,
                                              .content = "../x",
                                              .nbytes = 4});
    zip_end(&zip, &(struct zip_end){0});
    struct walk *w = begin(&zip);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct psti_zip_member m = next(w);
        assert_int_equal(m.kind, kinds[i].want);
        assert_int_equal(m.nbytes, m.kind == PSTI_ZIP_FILE ? 4 : 0);
    }
    assert_end(w);
    end(w);
    zip_free(&zip);
}

static void other_methods_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        uint16_t method;
        const char *name;
    } methods[] = {{9, "deflate64"}, {12, "bzip2"}, {14, "lzma"}, {93, "zstd"}, {77, "unknown"}};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct zip zip = {0};
        zip_member(&zip, &(struct zip_member){.name = "m.jpg", .method = methods[i].method});
        zip_end(&zip, &(struct zip_end){0});
        assert_fails(&zip, PST_ERROR_UNSUPPORTED, methods[i].name);
        assert_fails(&zip, PST_ERROR_UNSUPPORTED, "'m.jpg'");
        zip_free(&zip);
    }
    assert_changed_u16(entry_flags, 1, PST_ERROR_UNSUPPORTED, "encrypted");
    assert_changed_u16(entry_flags, 1 << 13, PST_ERROR_UNSUPPORTED, "encrypted");
    assert_changed_u16(header_flags, 1, PST_ERROR_CORRUPT, "method");
    assert_changed_u16(entry_disk, 1, PST_ERROR_UNSUPPORTED, "volume");
    assert_changed_u16(end_disk, 1, PST_ERROR_UNSUPPORTED, "volumes");
    assert_changed_u16(end_n_here, 1, PST_ERROR_UNSUPPORTED, "volumes");
}

static void headers_must_agree_with_entries(void **state)
{
    (void)state;
    assert_changed_u16(header_method, 0, PST_ERROR_CORRUPT, "another method");
    assert_changed_u32(header_check, 7, PST_ERROR_CORRUPT, "other sizes");
    assert_changed_u32(header_nbytes, 1, PST_ERROR_CORRUPT, "other sizes");
    assert_changed_u32(header_decoded, 1, PST_ERROR_CORRUPT, "other sizes");
    assert_changed_u32(header_decoded, UINT32_MAX, PST_ERROR_CORRUPT, "other sizes");
    assert_changed_u16(header_n_name, 4, PST_ERROR_CORRUPT, "another name");
    assert_changed_u16(header_name, 'c' | '.' << 8, PST_ERROR_CORRUPT, "another name");
    assert_changed_u16(header_n_extra, 4, PST_ERROR_CORRUPT, "in the zip's directory");
    assert_changed_u16(header_n_extra, UINT16_MAX, PST_ERROR_CORRUPT, "in the directory");
    assert_changed_u32(entry_magic, 1, PST_ERROR_CORRUPT, "no entry");
    assert_changed_u32(entry_decoded, 1000000, PST_ERROR_CORRUPT, "as many bytes");
    assert_changed_u16(entry_n_name, 500, PST_ERROR_CORRUPT, "within an entry");
    assert_changed_u16(entry_n_comment, 1, PST_ERROR_CORRUPT, "within an entry");
    assert_changed_u32(entry_header, 1, PST_ERROR_CORRUPT, "no local header");
    assert_changed_u32(entry_header, 1 << 20, PST_ERROR_CORRUPT, "not before the directory");
    assert_changed_u32(entry_header, UINT32_MAX, PST_ERROR_CORRUPT, "zip64");
    assert_changed_u32(end_nbytes, 1 << 20, PST_ERROR_CORRUPT, "longer than the file");
    assert_changed_u32(end_nbytes, 50, PST_ERROR_CORRUPT, "too short");
    /* A smaller offset of the directory would mean that bytes stand before the zip. */
    assert_changed_u32(end_offset, 1, PST_ERROR_CORRUPT, "not before the directory");
    assert_changed_u32(end_offset, 1 << 20, PST_ERROR_CORRUPT, "not where");
    /* The error names the last complete member. */
    assert_changed_u32(header_check, 7, PST_ERROR_CORRUPT, "member 0 of the zip is the last whole");
}

static void members_must_not_share_bytes(void **state)
{
    (void)state;
    struct zip zip = {0};
    for (int i = 0; i < 3; i++)
        zip_member(&zip, &(struct zip_member){.name = "m", .content = "12345", .nbytes = 5});
    zip_end(&zip, &(struct zip_end){0});
    assert_whole(&zip);
    uint8_t *offsets[3];
    for (int i = 0; i < 3; i++)
        offsets[i] = zip.file.bytes + zip.entries[i] + 42;
    /* Two entries for the same member, adjacent or not, are refused. */
    psti_store_u32(offsets[1], (uint32_t)zip.headers[0]);
    assert_fails(&zip, PST_ERROR_CORRUPT, "share bytes");
    psti_store_u32(offsets[1], (uint32_t)zip.headers[2]);
    assert_fails(&zip, PST_ERROR_CORRUPT, "share bytes");
    /* Members may lie in another order than the directory's. */
    psti_store_u32(offsets[0], (uint32_t)zip.headers[2]);
    psti_store_u32(offsets[1], (uint32_t)zip.headers[0]);
    psti_store_u32(offsets[2], (uint32_t)zip.headers[1]);
    assert_whole(&zip);
    psti_store_u32(offsets[2], (uint32_t)zip.headers[2]);
    assert_fails(&zip, PST_ERROR_CORRUPT, "share bytes");
    zip_free(&zip);
    /* A member within the content of another member is refused. */
    struct zip inner = {0};
    zip_member(&inner, &(struct zip_member){.name = "in", .content = "x", .nbytes = 1});
    zip_member(&zip, &(struct zip_member){.name = "out",
                                          .content = inner.file.bytes,
                                          .nbytes = inner.file.nbytes});
    zip_member(&zip, &(struct zip_member){.name = "in", .content = "x", .nbytes = 1});
    zip_end(&zip, &(struct zip_end){0});
    assert_whole(&zip);
    psti_store_u32(zip.file.bytes + zip.entries[1] + 42, 30 + 3);
    assert_fails(&zip, PST_ERROR_CORRUPT, "share bytes");
    zip_free(&inner);
    zip_free(&zip);
}

static struct zip prefixed(size_t nbytes, bool is_zip64, bool counts_prefix)
{
    struct zip zip = {.base = nbytes};
    for (size_t i = 0; i < nbytes; i++)
        zip_add(&zip.file, "#", 1);
    zip_member(&zip, &(struct zip_member){.name = "m", .content = "12345", .nbytes = 5});
    zip_member(&zip, &(struct zip_member){.name = "n",
                                          .content = "6",
                                          .nbytes = 1,
                                          .is_zip64 = is_zip64 && !counts_prefix});
    zip_end(&zip, &(struct zip_end){.is_zip64 = is_zip64, .counts_prefix = counts_prefix});
    return zip;
}

static void bytes_before_a_zip_are_passed_over(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct zip zip = prefixed(1000, i & 1, i & 2);
        struct walk *w = begin(&zip);
        assert_int_equal(w->walk.base, i & 2 ? 0 : 1000);
        struct psti_zip_member m = next(w);
        assert_memory_equal(zip.file.bytes + m.offset, "12345", 5);
        m = next(w);
        assert_memory_equal(zip.file.bytes + m.offset, "6", 1);
        assert_end(w);
        end(w);
        zip_free(&zip);
    }
}

/* The zip has two directories: its own, and another at the place that the end record states. */
static void a_zip_that_could_be_read_in_two_ways_is_refused(void **state)
{
    (void)state;
    struct zip zip = prefixed(1000, false, false);
    memcpy(zip.file.bytes + zip.first - 1000, "PK\1\2", 4);
    assert_fails(&zip, PST_ERROR_CORRUPT, "two places");
    zip_free(&zip);
    /* The comment contains another end record. */
    zip = two();
    psti_store_u16(zip.file.bytes + zip.end + 20, 22);
    zip_add(&zip.file, "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
    assert_fails(&zip, PST_ERROR_CORRUPT, "two places");
    zip_free(&zip);
    zip = two();
    zip_add(&zip.file, "12345", 5);
    assert_fails(&zip, PST_ERROR_CORRUPT, "5 bytes follow");
    zip_free(&zip);
}

static void counts_must_agree(void **state)
{
    (void)state;
    struct zip zip = two();
    psti_store_u16(zip.file.bytes + zip.end + 8, 1);
    psti_store_u16(zip.file.bytes + zip.end + 10, 1);
    assert_fails(&zip, PST_ERROR_CORRUPT, "has 2 entries, and not 1");
    psti_store_u16(zip.file.bytes + zip.end + 8, 0);
    psti_store_u16(zip.file.bytes + zip.end + 10, 0);
    assert_fails(&zip, PST_ERROR_CORRUPT, "no entries");
    zip_free(&zip);
    zip_end(&zip, &(struct zip_end){0}); /* a zip without members */
    assert_whole(&zip);
    zip_free(&zip);
    zip = prefixed(0, true, false);
    psti_store_u64(zip.file.bytes + zip.end - 20 - 56 + 32, 3);
    assert_fails(&zip, PST_ERROR_UNSUPPORTED, "volumes");
    psti_store_u64(zip.file.bytes + zip.end - 20 - 56 + 32, 2);
    psti_store_u32(zip.file.bytes + zip.end + 16, 5);
    assert_fails(&zip, PST_ERROR_CORRUPT, "contradict");
    psti_store_u32(zip.file.bytes + zip.end + 16, UINT32_MAX);
    psti_store_u64(zip.file.bytes + zip.end - 20 + 8, 5);
    assert_fails(&zip, PST_ERROR_CORRUPT, "not where the end of the zip says");
    psti_store_u64(zip.file.bytes + zip.end - 20 + 8, UINT64_MAX - 3);
    assert_fails(&zip, PST_ERROR_CORRUPT, "not where the locator says");
    zip_free(&zip);
}

static void a_zip_cut_anywhere_is_an_error(void **state)
{
    (void)state;
    struct zip zip = prefixed(0, true, false);
    for (size_t n = 0; n < zip.file.nbytes; n++) {
        struct pst_error err;
        enum pst_status status = fails_cut(&zip, n, &err);
        assert_int_equal(status, n >= 4 ? PST_ERROR_TRUNCATED : PST_ERROR_CORRUPT);
    }
    zip_free(&zip);
    struct zip other = {0};
    zip_add(&other.file, "GIF89a, and then some bytes that are no zip", 43);
    assert_fails(&other, PST_ERROR_CORRUPT, "no zip");
    zip_free(&other);
    /* The file became shorter while it was read. */
    zip = two();
    struct walk *w = begin(&zip);
    w->memory.given = 10;
    w->walk.headers.n = w->walk.entries.n = 0;
    struct psti_zip_member member;
    struct pst_error err;
    bool has = true;
    assert_int_equal(psti_containers_zip_next(&w->walk, &member, &has, &err), PST_ERROR_TRUNCATED);
    end(w);
    zip_free(&zip);
}

static void damaged_contents_have_no_head(void **state)
{
    (void)state;
    struct zip zip = two();
    zip.file.bytes[zip.headers[0] + 30 + 5] ^= 1;
    zip.file.bytes[zip.headers[1] + 30 + 5] ^= 2; /* changes the type of the deflate block */
    struct walk *w = begin(&zip);
    const uint8_t *head = NULL;
    struct pst_error err;
    struct psti_zip_member m = next(w);
    /* a part of a member has no checksum */
    assert_ok(psti_containers_zip_head(&w->walk, &m, 2, &head, &err));
    assert_int_equal(psti_containers_zip_head(&w->walk, &m, 3, &head, &err), PST_ERROR_CHECKSUM);
    assert_string_equal(err.file, "a.zip");
    assert_int_equal(err.offset, m.offset);
    m = next(w);
    assert_int_equal(psti_containers_zip_head(&w->walk, &m, 24, &head, &err), PST_ERROR_CORRUPT);
    assert_int_equal(psti_containers_zip_head(&w->walk, &m, 20, &head, &err), PST_ERROR_CORRUPT);
    assert_string_equal(err.file, "a.zip");
    end(w);
    zip_free(&zip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_those_of_the_contents),
        cmocka_unit_test(names_are_given_in_utf8),
        cmocka_unit_test(wrong_names_are_refused),
        cmocka_unit_test(times_are_seconds),
        cmocka_unit_test(kinds_are_told_apart),
        cmocka_unit_test(other_methods_are_refused_by_name),
        cmocka_unit_test(headers_must_agree_with_entries),
        cmocka_unit_test(members_must_not_share_bytes),
        cmocka_unit_test(bytes_before_a_zip_are_passed_over),
        cmocka_unit_test(a_zip_that_could_be_read_in_two_ways_is_refused),
        cmocka_unit_test(counts_must_agree),
        cmocka_unit_test(a_zip_cut_anywhere_is_an_error),
        cmocka_unit_test(damaged_contents_have_no_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
