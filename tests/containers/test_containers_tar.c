/* test_containers_tar.c - does the walk find each member of a tar, and refuse what is no valid
 * member? */
#include "test.h"

#include "tar_helper.h"

#include <stdlib.h>
#include <string.h>

#define USTAR                                                                                      \
    "ustar\0"                                                                                      \
    "00"
#define GNU "ustar  "
#define V7 "\0\0\0\0\0\0\0\0"

/* A walk over a tar in memory. */
struct walk {
    struct tar_memory memory;
    struct psti_walk_source source;
    struct psti_tar_walk walk;
};

static struct walk *begin(const struct tar *tar)
{
    struct walk *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->memory = (struct tar_memory){.bytes = tar->bytes, .given = tar->nbytes};
    w->source = tar_source(&w->memory, tar->nbytes);
    struct pst_error err;
    assert_ok(psti_containers_tar_open(&w->walk, &w->source, &err));
    return w;
}

static void end(struct walk *w)
{
    psti_containers_tar_close(&w->walk);
    free(w);
}

static struct psti_tar_member next(struct walk *w)
{
    struct psti_tar_member member;
    struct pst_error err;
    bool has = false;
    assert_ok(psti_containers_tar_next(&w->walk, &member, &has, &err));
    assert_true(has);
    return member;
}

static void assert_end(struct walk *w)
{
    struct psti_tar_member member;
    struct pst_error err;
    bool has = true;
    for (int i = 0; i < 2; i++) { /* a second call at the end returns the end again */
        assert_ok(psti_containers_tar_next(&w->walk, &member, &has, &err));
        assert_false(has);
    }
}

/* Walks until an error and returns its status. */
static enum pst_status fails(const struct tar *tar, struct pst_error *err)
{
    struct tar_memory memory = {.bytes = tar->bytes, .given = tar->nbytes};
    struct psti_walk_source source = tar_source(&memory, tar->nbytes);
    struct psti_tar_walk *walk = calloc(1, sizeof *walk);
    assert_non_null(walk);
    struct psti_tar_member member;
    bool has = true;
    enum pst_status status = psti_containers_tar_open(walk, &source, err);
    while (status == PST_OK && has)
        status = psti_containers_tar_next(walk, &member, &has, err);
    psti_containers_tar_close(walk);
    free(walk);
    return status;
}

static void assert_fails(const struct tar *tar, enum pst_status status, const char *text)
{
    struct pst_error err;
    assert_int_equal(fails(tar, &err), status);
    assert_non_null(strstr(err.text, text));
    assert_string_equal(err.file, "a.tar");
}

static void sizes_and_places_are_those_of_the_contents(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 511, 512, 513, 1024, 70000};
    struct tar tar = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        tar_member(
            &tar,
            &(struct tar_header){.name = "file.jpg", .nbytes = sizes[i], .mtime = 17 + (int64_t)i},
            (uint8_t)i);
    tar_zeros(&tar, 1024);
    struct walk *w = begin(&tar);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct psti_tar_member m = next(w);
        assert_int_equal(m.kind, PSTI_TAR_FILE);
        assert_int_equal(m.nbytes, sizes[i]);
        assert_int_equal(m.mtime, 17 + (int64_t)i);
        assert_int_equal(m.offset, m.header + PSTI_TAR_BLOCK);
        for (uint64_t k = 0; k < sizes[i]; k++)
            assert_int_equal(tar.bytes[m.offset + k], (uint8_t)(i + k));
    }
    assert_end(w);
    end(w);
    tar_free(&tar);
}

static void names_are_those_of_each_format(void **state)
{
    (void)state;
    char hundred[101], path[300], records[1024] = "";
    memset(hundred, 'n', 100);
    hundred[100] = '\0';
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    tar_record(records, sizeof records, "comment", "two\nlines = here");
    tar_record(records, sizeof records, "path", "d\xc3\xa9j\xc3\xa0/1.jpg");
    tar_record(records, sizeof records, "mtime", "-7.25");
    struct tar tar = {0};
    tar_member(&tar, &(struct tar_header){.name = hundred, .magic = USTAR}, 0);
    tar_member(&tar, &(struct tar_header){.name = "b.png", .prefix = "a/aa", .magic = USTAR}, 0);
    tar_member(&tar, &(struct tar_header){.name = "c.png", .prefix = "12345", .magic = GNU}, 0);
    tar_member(&tar, &(struct tar_header){.name = "v7.png", .prefix = "x", .magic = V7}, 0);
    tar_text(&tar, 'L', path, true);
    tar_member(&tar, &(struct tar_header){.name = "short", .magic = GNU}, 0);
    tar_text(&tar, 'K', path, true);
    tar_text(&tar, 'L', path, false);
    tar_member(&tar, &(struct tar_header){.name = "short", .kind = '2', .magic = GNU}, 0);
    tar_text(&tar, 'x', records, false);
    tar_member(&tar, &(struct tar_header){.name = "short", .mtime = 5}, 0);
    tar_member(&tar, &(struct tar_header){.name = "after", .mtime = 5}, 0);
    struct walk *w = begin(&tar);
    static const char *const want[] = {"a/aa/b.png", "c.png", "v7.png"};
    assert_string_equal(next(w).name, hundred);
    for (int i = 0; i < 3; i++)
        assert_string_equal(next(w).name, want[i]);
    assert_string_equal(next(w).name, path);
    struct psti_tar_member link = next(w);
    assert_string_equal(link.name, path);
    assert_int_equal(link.kind, PSTI_TAR_LINK);
    struct psti_tar_member pax = next(w);
    assert_string_equal(pax.name, "d\xc3\xa9j\xc3\xa0/1.jpg");
    assert_int_equal(pax.mtime, -7);
    assert_int_equal(pax.offset, pax.header + 3 * PSTI_TAR_BLOCK);
    struct psti_tar_member after = next(w);
    assert_string_equal(after.name, "after"); /* a member's records apply to it alone */
    assert_int_equal(after.mtime, 5);
    assert_end(w);
    end(w);
    tar_free(&tar);
}

/* Records of a pax header 'g' apply to all members that follow, until another one replaces them. A
 * member's own records apply to it alone and take precedence. */
static void global_records_hold_for_all_that_follow(void **state)
{
    (void)state;
    static const struct {
        char kind; /* kind of the pax header before the member; 0: none */
        const char *mtime;
        int64_t want;
    } members[] = {{0, NULL, 5}, {'g', "9", 9}, {0, NULL, 9},   {'x', "-7.25", -7},
                   {0, NULL, 9}, {'g', "11.5", 11}, {0, NULL, 11}};
    struct tar tar = {0};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char records[128] = "";
        if (members[i].kind != 0) {
            tar_record(records, sizeof records, "comment", "of git archive");
            tar_record(records, sizeof records, "mtime", members[i].mtime);
            tar_text(&tar, (uint8_t)members[i].kind, records, false);
        }
        tar_member(&tar, &(struct tar_header){.name = "short", .nbytes = 3, .mtime = 5}, 0);
    }
    struct walk *w = begin(&tar);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        struct psti_tar_member m = next(w);
        assert_string_equal(m.name, "short");
        assert_int_equal(m.nbytes, 3);
        assert_int_equal(m.mtime, members[i].want);
    }
    assert_end(w);
    end(w);
    tar_free(&tar);
}

static void numbers_may_be_large(void **state)
{
    (void)state;
    char records[256] = "";
    tar_record(records, sizeof records, "size", "700");
    struct tar tar = {0};
    tar_member(&tar,
               &(struct tar_header){.name = "a", .nbytes = 600, .mtime = -3, .is_binary = true}, 1);
    tar_text(&tar, 'x', records, false);
    tar_member(&tar, &(struct tar_header){.name = "b", .has_no_contents = true}, 0);
    tar_zeros(&tar, 1024);
    tar_member(&tar,
               &(struct tar_header){.name = "c", .has_signed_sum = true, .mtime = 077777777777}, 0);
    struct walk *w = begin(&tar);
    struct psti_tar_member a = next(w);
    assert_int_equal(a.nbytes, 600);
    assert_int_equal(a.mtime, -3);
    assert_int_equal(next(w).nbytes, 700);
    assert_int_equal(next(w).mtime, 077777777777);
    end(w);
    tar_free(&tar);

    /* Sizes larger than a file may be, and larger than 64 bits. */
    tar_member(&tar,
               &(struct tar_header){.name = "huge",
                                    .nbytes = (uint64_t)INT64_MAX,
                                    .is_binary = true,
                                    .has_no_contents = true},
               0);
    assert_fails(&tar, PST_ERROR_TRUNCATED, "within its first member");
    tar.bytes[124 + 1] = 1;
    tar_seal(tar.bytes, false);
    assert_fails(&tar, PST_ERROR_CORRUPT, "no number");
    tar_free(&tar);
    tar_member(
        &tar,
        &(struct tar_header){
            .name = "less", .nbytes = (uint64_t)-1, .is_binary = true, .has_no_contents = true},
        0);
    assert_fails(&tar, PST_ERROR_CORRUPT, "no number");
    tar_free(&tar);
}

static void signed_checksums_are_taken(void **state)
{
    (void)state;
    struct tar tar = {0};
    tar_member(&tar, &(struct tar_header){.name = "\xc3\xa9.jpg", .has_signed_sum = true}, 0);
    struct walk *w = begin(&tar);
    assert_string_equal(next(w).name, "\xc3\xa9.jpg");
    end(w);
    tar.bytes[0] ^= 1;
    assert_fails(&tar, PST_ERROR_CORRUPT, "no header of a tar");
    tar_free(&tar);
}

static void kinds_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        uint8_t kind;
        enum psti_tar_kind want;
    } kinds[] = {{'0', PSTI_TAR_FILE},   {'7', PSTI_TAR_FILE},  {'1', PSTI_TAR_LINK},
                 {'2', PSTI_TAR_LINK},   {'3', PSTI_TAR_OTHER}, {'4', PSTI_TAR_OTHER},
                 {'5', PSTI_TAR_FOLDER}, {'6', PSTI_TAR_OTHER}, {'V', PSTI_TAR_OTHER}};
    struct tar tar = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        tar_member(&tar, &(struct tar_header){.name = "m", .kind = kinds[i].kind}, 0);
    struct walk *w = begin(&tar);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_int_equal(next(w).kind, kinds[i].want);
    assert_end(w);
    end(w);
    tar_free(&tar);
    tar_member(&tar, &(struct tar_header){.name = "s", .kind = 'S'}, 0);
    assert_fails(&tar, PST_ERROR_UNSUPPORTED, "sparse");
    tar_free(&tar);
    char records[128] = "";
    tar_record(records, sizeof records, "GNU.sparse.major", "1");
    tar_text(&tar, 'x', records, false);
    assert_fails(&tar, PST_ERROR_UNSUPPORTED, "sparse");
    tar_free(&tar);
    tar_member(&tar, &(struct tar_header){.name = "s", .kind = 'M'}, 0);
    assert_fails(&tar, PST_ERROR_UNSUPPORTED, "volumes");
    tar_free(&tar);
}

static void a_hard_link_may_state_a_size(void **state)
{
    (void)state;
    struct tar tar = {0};
    tar_member(
        &tar,
        &(struct tar_header){.name = "bare", .kind = '1', .nbytes = 700, .has_no_contents = true},
        0);
    tar_member(&tar, &(struct tar_header){.name = "full", .kind = '1', .nbytes = 700}, 9);
    tar_member(&tar, &(struct tar_header){.name = "last"}, 0);
    struct walk *w = begin(&tar);
    assert_string_equal(next(w).name, "bare");
    assert_string_equal(next(w).name, "full");
    assert_string_equal(next(w).name, "last");
    assert_end(w);
    end(w);
    tar_free(&tar);
}

static void joined_tars_go_on(void **state)
{
    (void)state;
    static const size_t zeros[] = {512, 1024, 10240, 100000 / 512 * 512};
    struct tar tar = {0};
    for (int i = 0; i < 4; i++) {
        tar_member(&tar, &(struct tar_header){.name = "m", .nbytes = 5}, 0);
        tar_zeros(&tar, zeros[i]);
    }
    struct walk *w = begin(&tar);
    for (int i = 0; i < 4; i++)
        (void)next(w);
    assert_end(w);
    assert_int_equal(w->walk.n_joins, 3);
    end(w);

    /* After the end of a tar any bytes may follow, but not after a single block of zeros. */
    tar_add(&tar, "anything", 8);
    struct pst_error err;
    assert_int_equal(fails(&tar, &err), PST_OK);
    tar_free(&tar);
    tar_member(&tar, &(struct tar_header){.name = "m", .nbytes = 5}, 0);
    tar_zeros(&tar, 512);
    for (int i = 0; i < 64; i++)
        tar_add(&tar, "anything", 8);
    assert_fails(&tar, PST_ERROR_CORRUPT, "the last whole member is 'm'");
    tar_free(&tar);
}

/* Truncates a tar at every byte: the walk gives complete members only, or an error that names the
 * last one. */
static void a_tar_cut_anywhere_gives_whole_members(void **state)
{
    (void)state;
    char records[256] = "";
    tar_record(records, sizeof records, "path", "third.jpg");
    struct tar tar = {0};
    tar_member(&tar, &(struct tar_header){.name = "first.jpg", .nbytes = 600}, 0);
    tar_text(&tar, 'L', "second.jpg", true);
    tar_member(&tar, &(struct tar_header){.name = "2", .nbytes = 100, .magic = GNU}, 0);
    tar_text(&tar, 'x', records, false);
    tar_member(&tar, &(struct tar_header){.name = "3", .nbytes = 512}, 0);
    size_t whole = tar.nbytes;
    tar_zeros(&tar, 1024);
    for (size_t n = 1; n < tar.nbytes; n++) {
        struct tar cut = {.bytes = tar.bytes, .nbytes = n};
        struct pst_error err;
        enum pst_status status = fails(&cut, &err);
        if (status != PST_OK) {
            assert_true(status == PST_ERROR_TRUNCATED || status == PST_ERROR_CORRUPT);
            const char *last = n < 1536          ? ""
                               : n < 1536 + 2048 ? "first.jpg"
                               : n < whole       ? "second.jpg"
                                                 : "third.jpg";
            assert_non_null(strstr(err.text, last));
        }
        assert_int_equal(status == PST_OK,
                         n == 1536 || n == 1536 + 2048 || n == whole || n >= whole + 512);
    }
    tar_free(&tar);
}

static void wrong_records_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *records, *text;
        enum pst_status status;
    } wrong[] = {
        {"9 path=a", "length", PST_ERROR_CORRUPT},
        {"99 path=a\n", "length", PST_ERROR_CORRUPT},
        {"x path=a\n", "length", PST_ERROR_CORRUPT},
        {" path=a\n", "length", PST_ERROR_CORRUPT},
        {"2 path=a\n", "length", PST_ERROR_CORRUPT},
        {"99999999999999999999999999 path=a\n", "length", PST_ERROR_CORRUPT},
        {"8 pathA\n", "no value", PST_ERROR_CORRUPT},
        {"8 path=\n", "empty", PST_ERROR_CORRUPT},
        {"10 size=x\n", "size", PST_ERROR_CORRUPT},
        {"11 size=-1\n", "size", PST_ERROR_CORRUPT},
        {"29 size=99999999999999999999\n", "size", PST_ERROR_CORRUPT},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tar tar = {0};
        tar_text(&tar, 'x', wrong[i].records, false);
        tar_member(&tar, &(struct tar_header){.name = "m"}, 0);
        assert_fails(&tar, wrong[i].status, wrong[i].text);
        tar_free(&tar);
    }
    /* A NUL in a path, and a name that is too long. */
    struct tar tar = {0};
    tar_member(
        &tar, &(struct tar_header){.name = "p", .kind = 'x', .nbytes = 11, .has_no_contents = true},
        0);
    tar_add(&tar, "11 path=a\0\n", 11);
    tar_zeros(&tar, 501);
    assert_fails(&tar, PST_ERROR_CORRUPT, "NUL");
    tar_free(&tar);
    char longest[PSTI_TAR_NAME_CAP + 1];
    memset(longest, 'n', PSTI_TAR_NAME_CAP);
    longest[PSTI_TAR_NAME_CAP] = '\0';
    tar_text(&tar, 'L', longest, true);
    assert_fails(&tar, PST_ERROR_LIMIT, "name");
    tar_free(&tar);
}

static void what_speaks_of_no_member_is_an_error(void **state)
{
    (void)state;
    struct tar tar = {0};
    tar_member(&tar, &(struct tar_header){.name = "m"}, 0);
    tar_text(&tar, 'L', "lost", true);
    tar_zeros(&tar, 1024);
    assert_fails(&tar, PST_ERROR_CORRUPT, "next member");
    tar_free(&tar);
}

static void compressed_tars_are_refused_with_advice(void **state)
{
    (void)state;
    static const struct {
        const char *magic, *advice;
        size_t nbytes;
    } packed[] = {{"\x1f\x8b\x08", "gunzip", 3},
                  {"\x28\xb5\x2f\xfd", "unzstd", 4},
                  {"\xfd"
                   "7zXZ",
                   "unxz", 5},
                  {"BZh9", "bunzip2", 4},
                  {"\x04\x22\x4d\x18", "unlz4", 4}};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        struct tar tar = {0};
        tar_add(&tar, packed[i].magic, packed[i].nbytes);
        tar_zeros(&tar, 2000);
        assert_fails(&tar, PST_ERROR_UNSUPPORTED, packed[i].advice);
        tar_free(&tar);
    }
    struct tar empty = {0};
    assert_fails(&empty, PST_ERROR_CORRUPT, "empty");
    tar_add(&empty, "GIF89a, and then some bytes that are no tar", 43);
    assert_fails(&empty, PST_ERROR_CORRUPT, "within a header");
    tar_zeros(&empty, 1000);
    assert_fails(&empty, PST_ERROR_CORRUPT, "no header of a tar");
    tar_free(&empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_places_are_those_of_the_contents),
        cmocka_unit_test(names_are_those_of_each_format),
        cmocka_unit_test(global_records_hold_for_all_that_follow),
        cmocka_unit_test(numbers_may_be_large),
        cmocka_unit_test(signed_checksums_are_taken),
        cmocka_unit_test(kinds_are_told_apart),
        cmocka_unit_test(a_hard_link_may_state_a_size),
        cmocka_unit_test(joined_tars_go_on),
        cmocka_unit_test(a_tar_cut_anywhere_gives_whole_members),
        cmocka_unit_test(wrong_records_are_refused),
        cmocka_unit_test(what_speaks_of_no_member_is_an_error),
        cmocka_unit_test(compressed_tars_are_refused_with_advice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
