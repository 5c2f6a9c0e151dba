/* test_containers_walk.c - does the walk group the members of a tar into samples by their names? */
#include "test.h"

#include "tar_helper.h"

#include "base/fault.h"
#include "containers/containers_walk.h"

#include <penstock/penstock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Records the samples that it takes: "key[suffix suffix]key[suffix]". */
struct taker {
    char log[65536];
    uint32_t n_wanted;            /* number of first bytes that it wants of each member */
    const struct tar *tar;        /* if not NULL, heads and offsets are compared with this tar */
    uint64_t n_samples, fails_at; /* number of the sample that it refuses; 0: none */
};

static uint32_t wants(void *context, const char *suffix, uint64_t decoded_nbytes)
{
    (void)decoded_nbytes;
    assert_true(strlen(suffix) > 0);
    return ((struct taker *)context)->n_wanted;
}

static void check_part(const struct taker *taker, const struct psti_part *part)
{
    uint64_t n = taker->n_wanted;
    if (n > PSTI_HEAD_MAX)
        n = PSTI_HEAD_MAX;
    if (n > part->decoded_nbytes)
        n = part->decoded_nbytes;
    assert_int_equal(part->n_head, n);
    if (taker->tar == NULL)
        return;
    assert_int_equal(part->coding, PSTI_CODING_STORED);
    assert_int_equal(part->decoded_nbytes, part->nbytes);
    assert_true(part->offset + part->nbytes <= taker->tar->nbytes);
    assert_true(part->header + PSTI_TAR_BLOCK <= part->offset);
    if (n > 0)
        assert_memory_equal(part->head, taker->tar->bytes + part->offset, n);
}

static enum pst_status take(void *context, const struct psti_sample *sample, struct pst_error *err)
{
    struct taker *taker = context;
    if (++taker->n_samples == taker->fails_at) {
        pst_error_clear(err);
        snprintf(err->text, sizeof err->text, "not this one");
        return PST_ERROR_CANCELLED;
    }
    size_t n = strlen(taker->log);
    assert_true(sample->n_parts >= 1);
    n += (size_t)snprintf(taker->log + n, sizeof taker->log - n, "%s[", sample->key);
    for (uint32_t i = 0; i < sample->n_parts; i++) {
        check_part(taker, &sample->parts[i]);
        n += (size_t)snprintf(taker->log + n, sizeof taker->log - n, "%s%s", i == 0 ? "" : " ",
                              sample->parts[i].suffix);
    }
    snprintf(taker->log + n, sizeof taker->log - n, "]");
    return PST_OK;
}

static enum pst_status walk(const struct tar *tar, struct taker *taker,
                            struct psti_walk_counts *counts, struct pst_error *err)
{
    struct tar_memory memory = {.bytes = tar->bytes, .given = tar->nbytes};
    struct psti_walk_source source = tar_source(&memory, tar->nbytes);
    struct psti_sample_taker how = {.wants = wants, .take = take, .context = taker};
    taker->log[0] = '\0';
    taker->n_samples = 0;
    return psti_containers_walk(&source, PSTI_CONTAINER_TAR, &how, counts, err);
}

static void assert_samples(const struct tar *tar, const char *want)
{
    struct taker *taker = calloc(1, sizeof *taker);
    struct psti_walk_counts counts;
    struct pst_error err;
    assert_non_null(taker);
    taker->tar = tar;
    taker->n_wanted = 3;
    assert_ok(walk(tar, taker, &counts, &err));
    assert_string_equal(taker->log, want);
    assert_int_equal(counts.n_samples, taker->n_samples);
    free(taker);
}

static struct pst_error assert_fails(const struct tar *tar, enum pst_status status,
                                     const char *text)
{
    struct taker *taker = calloc(1, sizeof *taker);
    struct psti_walk_counts counts;
    struct pst_error err;
    assert_non_null(taker);
    assert_int_equal(walk(tar, taker, &counts, &err), status);
    if (strstr(err.text, text) == NULL)
        print_error("'%s' is not in '%s'\n", text, err.text);
    assert_non_null(strstr(err.text, text));
    assert_string_equal(err.file, "a.tar");
    assert_int_equal(taker->n_samples, 0);
    free(taker);
    return err;
}

static void names_are_split_at_the_first_dot_of_the_base_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *want; /* NULL: the member is skipped */
    } names[] = {
        {"000017.jpg", "000017[jpg]"},
        {"a/000017.seg.png", "a/000017[seg.png]"},
        {"a.b/c.d/000017.JPG", "a.b/c.d/000017[jpg]"},
        {"A/Key.SEG.Png", "A/Key[seg.png]"},
        {"./train/1.jpg", "train/1[jpg]"},
        {"././1.jpg", "1[jpg]"},
        {"a/./1.jpg", "a/./1[jpg]"},
        {"1..jpg", "1[.jpg]"},
        {"with space.a b", "with space[a b]"},
        {"d\xc3\xa9j\xc3\xa0.\xc3\x89.jpg", "d\xc3\xa9j\xc3\xa0[\xc3\x89.jpg]"},
        {"__key__.jpg", "__key__[jpg]"},
        {"__a.jpg", "__a[jpg]"},
        {"a__.b__", "a__[b__]"},
        {"___.jpg", "___[jpg]"},
        /* Paths that leave the folder do no harm as names. */
        {"../../etc/passwd.txt", "../../etc/passwd[txt]"},
        {"/etc/passwd.txt", "/etc/passwd[txt]"},
        /* Skipped: no dot, a hidden file, nothing after the dot, an empty name. */
        {"README", NULL},
        {"a.b/README", NULL},
        {".hidden.jpg", NULL},
        {"a/.hidden.jpg", NULL},
        {"a/._1.jpg", NULL},
        {"a/..jpg", NULL},
        {"1.", NULL},
        {"a/1.", NULL},
        {"./.jpg", NULL},
        {"./", NULL},
        {"..", NULL},
        /* Metadata. */
        {"__meta__", NULL},
        {"____", NULL},
        {"__meta.json__", NULL},
        {"__a__/1.jpg", NULL},
        {"b/__a__/1.jpg", NULL},
        {"b/__a.b__/c/1.jpg", NULL},
        {"./__a__/1.jpg", NULL},
        /* These names are illegal for samples. */
        {"a\nb.jpg", NULL},
        {"\xff.jpg", NULL},
        {"\xed\xa0\x80.jpg", NULL},
        {"a\x7f.jpg", NULL},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tar tar = {0};
        struct taker *taker = calloc(1, sizeof *taker);
        struct psti_walk_counts counts;
        struct pst_error err;
        assert_non_null(taker);
        tar_file(&tar, names[i].name, "text", 4);
        assert_ok(walk(&tar, taker, &counts, &err));
        assert_string_equal(taker->log, names[i].want == NULL ? "" : names[i].want);
        assert_int_equal(counts.n_members, 1);
        assert_int_equal(counts.n_samples, names[i].want != NULL);
        assert_int_equal(counts.n_passed, names[i].want == NULL);
        free(taker);
        tar_free(&tar);
    }
}

static void members_of_a_sample_may_lie_apart(void **state)
{
    (void)state;
    static const char *const names[] = {"b.jpg", "a.jpg",   "c.jpg",  "a.cls",
                                        "c.cls", "x/a.jpg", "b.json", "b.cls"};
    struct tar tar = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        tar_file(&tar, names[i], names[i], strlen(names[i]));
    assert_samples(&tar, "b[jpg json cls]a[jpg cls]c[jpg cls]x/a[jpg]");
    tar_free(&tar);
    assert_fails(&tar, PST_ERROR_CORRUPT, "empty");
    tar_zeros(&tar, 1024);
    assert_samples(&tar, "");
    tar_free(&tar);
}

/* With many samples the tables grow several times. */
static void many_samples_keep_their_order_and_their_members(void **state)
{
    (void)state;
    enum { N = 3000 };
    struct tar tar = {0};
    char name[64];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "k/%d.jpg", i * 7919 % N);
        tar_file(&tar, name, name, strlen(name));
    }
    for (int i = N; i-- > 0;) {
        snprintf(name, sizeof name, "k/%d.txt", i);
        tar_file(&tar, name, name, strlen(name));
    }
    char *want = calloc(N, 64);
    assert_non_null(want);
    for (int i = 0, n = 0; i < N; i++)
        n += snprintf(want + n, 64, "k/%d[jpg txt]", i * 7919 % N);
    assert_samples(&tar, want);
    free(want);
    tar_free(&tar);
}

static void a_suffix_that_comes_twice_is_an_error_with_both_places(void **state)
{
    (void)state;
    static const char *const again[] = {"s/1.jpg", "./s/1.jpg", "s/1.JPG"};
    for (size_t i = 0; i < sizeof again / sizeof *again; i++) {
        struct tar tar = {0};
        tar_file(&tar, "s/1.jpg", "one", 3);
        tar_file(&tar, "s/2.jpg", "two", 3);
        tar_file(&tar, again[i], "three", 5);
        struct pst_error err = assert_fails(
            &tar, PST_ERROR_CORRUPT, "the sample 's/1' has 'jpg' twice: at the offsets 0 and 2048");
        assert_int_equal(err.offset, 2048);
        tar_free(&tar);
    }
}

static void heads_are_the_first_bytes(void **state)
{
    (void)state;
    static const uint32_t wanted[] = {0, 1, 7, 8, 9, 4096, 5000, UINT32_MAX};
    static const uint64_t sizes[] = {0, 1, 7, 8, 4096, 4097, 70000};
    struct tar tar = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.bin", i);
        tar_member(&tar, &(struct tar_header){.name = name, .nbytes = sizes[i]}, (uint8_t)(i * 50));
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct taker *taker = calloc(1, sizeof *taker);
        struct psti_walk_counts counts;
        struct pst_error err;
        assert_non_null(taker);
        taker->tar = &tar;
        taker->n_wanted = wanted[i];
        assert_ok(walk(&tar, taker, &counts, &err));
        assert_int_equal(taker->n_samples, sizeof sizes / sizeof *sizes);
        free(taker);
    }
    tar_free(&tar);
}

static void what_is_no_file_is_counted(void **state)
{
    (void)state;
    static const char kinds[] = "0125346V";
    struct tar tar = {0};
    for (size_t i = 0; kinds[i] != '\0'; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.jpg", i);
        tar_member(&tar, &(struct tar_header){.name = name, .kind = (uint8_t)kinds[i]}, 0);
    }
    tar_file(&tar, "README", "", 0);
    struct taker *taker = calloc(1, sizeof *taker);
    struct psti_walk_counts counts;
    struct pst_error err;
    assert_non_null(taker);
    assert_ok(walk(&tar, taker, &counts, &err));
    assert_string_equal(taker->log, "0[jpg]");
    assert_int_equal(counts.n_members, 9);
    assert_int_equal(counts.n_samples, 1);
    assert_int_equal(counts.n_passed, 1);
    assert_int_equal(counts.n_links, 2);
    assert_int_equal(counts.n_others, 4);
    free(taker);
    tar_free(&tar);
}

/* Eight members of 1,536 bytes, two for each sample. */
static void a_tar_that_ends_early_names_its_last_whole_sample(void **state)
{
    (void)state;
    enum { N_MEMBERS = 8, MEMBER_NBYTES = 1536 };
    static uint8_t content[700];
    struct tar tar = {0};
    char name[64];
    for (int i = 0; i < N_MEMBERS; i++) {
        snprintf(name, sizeof name, "k%d.%s", i / 2, i % 2 == 0 ? "jpg" : "cls");
        tar_file(&tar, name, content, sizeof content);
    }
    assert_int_equal(tar.nbytes, N_MEMBERS * MEMBER_NBYTES);
    for (size_t n = PSTI_TAR_BLOCK; n < tar.nbytes; n += PSTI_TAR_BLOCK) {
        struct tar cut = {.bytes = tar.bytes, .nbytes = n};
        int n_whole = (int)(n / MEMBER_NBYTES), sample = (n_whole - 1) / 2;
        if (n % MEMBER_NBYTES == 0) {
            struct taker *taker = calloc(1, sizeof *taker);
            struct psti_walk_counts counts;
            struct pst_error err;
            assert_non_null(taker);
            assert_ok(walk(&cut, taker, &counts, &err));
            assert_int_equal(taker->n_samples, sample + 1);
            free(taker);
            continue;
        }
        snprintf(name, sizeof name, "whole for certain is 'k%d'", sample - 1);
        struct pst_error err = assert_fails(&cut, PST_ERROR_TRUNCATED,
                                            n_whole == 0  ? "within its first member"
                                            : sample == 0 ? "no sample before is whole"
                                                          : name);
        snprintf(name, sizeof name, "'k%d.%s'", sample, n_whole % 2 == 1 ? "jpg" : "cls");
        if (n_whole > 0)
            assert_non_null(strstr(err.text, name));
    }
    tar_free(&tar);
}

static void an_error_of_the_taker_ends_the_walk_and_names_the_file(void **state)
{
    (void)state;
    struct tar tar = {0};
    for (int i = 0; i < 4; i++)
        tar_file(&tar, (const char *[]){"0.jpg", "1.jpg", "2.jpg", "3.jpg"}[i], "", 0);
    struct taker *taker = calloc(1, sizeof *taker);
    struct psti_walk_counts counts;
    struct pst_error err;
    assert_non_null(taker);
    taker->fails_at = 3;
    assert_int_equal(walk(&tar, taker, &counts, &err), PST_ERROR_CANCELLED);
    assert_string_equal(taker->log, "0[jpg]1[jpg]");
    assert_string_equal(err.text, "not this one");
    assert_string_equal(err.file, "a.tar");
    free(taker);
    tar_free(&tar);
}

static void a_sample_has_a_greatest_number_of_members(void **state)
{
    (void)state;
    struct tar tar = {0};
    char name[32];
    for (int i = 0; i < PSTI_SAMPLE_PARTS_MAX; i++) {
        snprintf(name, sizeof name, "v.%d.jpg", i);
        tar_file(&tar, name, "", 0);
    }
    struct taker *taker = calloc(1, sizeof *taker);
    struct psti_walk_counts counts;
    struct pst_error err;
    assert_non_null(taker);
    assert_ok(walk(&tar, taker, &counts, &err));
    assert_int_equal(taker->n_samples, 1);
    free(taker);
    tar_file(&tar, "v.more.jpg", "", 0);
    assert_fails(&tar, PST_ERROR_LIMIT, "more than 1024 members");
    tar_free(&tar);
}

static void other_kinds_have_no_walk(void **state)
{
    (void)state;
    struct tar_memory memory = {0};
    struct psti_walk_source source = tar_source(&memory, 0);
    struct psti_walk_counts counts;
    struct pst_error err;
    assert_int_equal(psti_containers_walk(&source, PSTI_CONTAINER_NONE,
                                          &(struct psti_sample_taker){0}, &counts, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_string_equal(err.file, "a.tar");
}

/* Tests of the grouping alone, as other kinds of containers use it. ---------------------------- */

static enum pst_status read_letters(void *context, const struct psti_walk_member *member,
                                    uint32_t n, const uint8_t **bytes, struct pst_error *err)
{
    (void)context;
    if (member->check == 13)
        return (void)snprintf(err->text, sizeof err->text, "unlucky"), PST_ERROR_IO;
    assert_true(n >= 1 && n <= member->decoded_nbytes);
    *bytes = (const uint8_t *)"abcdefghijklmnopqrstuvwxyz";
    return PST_OK;
}

static enum pst_status take_coded(void *context, const struct psti_sample *sample,
                                  struct pst_error *err)
{
    (void)err;
    struct psti_part *parts = context;
    memcpy(parts, sample->parts, sample->n_parts * sizeof *parts);
    return PST_OK;
}

static uint32_t wants_nine(void *context, const char *suffix, uint64_t decoded_nbytes)
{
    (void)context, (void)decoded_nbytes;
    return strcmp(suffix, "none") == 0 ? 0 : 9;
}

static void what_a_member_says_is_kept(void **state)
{
    (void)state;
    struct psti_walk_member members[] = {
        {.name = "a.stored",
         .header = 100,
         .offset = 130,
         .nbytes = 5,
         .decoded_nbytes = 5,
         .mtime = -7,
         .check = 0xffffffff},
        {.name = "a.coded",
         .header = 200,
         .offset = 260,
         .nbytes = 3,
         .decoded_nbytes = 40,
         .coding = PSTI_CODING_DEFLATE,
         .mtime = INT64_MAX,
         .check = 1},
        {.name = "a.none",
         .header = UINT64_C(1) << 47,
         .offset = (UINT64_C(1) << 48) - 1,
         .nbytes = (UINT64_C(1) << 40) - 1,
         .decoded_nbytes = UINT64_MAX,
         .coding = PSTI_CODING_DEFLATE,
         .mtime = INT64_MIN},
    };
    struct psti_part parts[3] = {0};
    struct psti_sample_taker taker = {.wants = wants_nine, .take = take_coded, .context = parts};
    struct psti_head_reader reader = {.read = read_letters};
    struct psti_member_group *group = NULL;
    struct psti_walk_counts counts;
    struct pst_error err;
    assert_ok(psti_containers_group_open("a.zip", &taker, &reader, &group, &err));
    for (int i = 0; i < 3; i++)
        assert_ok(psti_containers_group_add(group, &members[i], &err));
    assert_ok(psti_containers_group_finish(group, &counts, &err));
    for (int i = 0; i < 3; i++) {
        assert_string_equal(parts[i].suffix, members[i].name + 2);
        assert_true(parts[i].offset == members[i].offset && parts[i].nbytes == members[i].nbytes);
        assert_true(parts[i].decoded_nbytes == members[i].decoded_nbytes);
        assert_true(parts[i].coding == members[i].coding);
        assert_true(parts[i].mtime == members[i].mtime && parts[i].check == members[i].check);
    }
    assert_int_equal(parts[0].header, 100);
    assert_int_equal(parts[1].header, 200);
    assert_int_equal(parts[0].n_head, 5);
    assert_memory_equal(parts[0].head, "abcde", 5);
    assert_int_equal(parts[1].n_head, 9);
    assert_memory_equal(parts[1].head, "abcdefghi", 9);
    assert_int_equal(parts[2].n_head, 0);
    psti_containers_group_close(&group);
    assert_null(group);
    psti_containers_group_close(&group);
}

static void what_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    static char longest[5000];
    memset(longest, 'n', sizeof longest - 1);
    longest[1] = '.';
    const struct {
        struct psti_walk_member member;
        enum pst_status status;
    } wrong[] = {
        {{.name = "a.jpg", .nbytes = UINT64_C(1) << 40}, PST_ERROR_LIMIT},
        {{.name = "a.jpg", .offset = UINT64_C(1) << 48}, PST_ERROR_LIMIT},
        {{.name = longest}, PST_ERROR_LIMIT},
        {{.name = "a.jpg", .nbytes = 1, .decoded_nbytes = 1, .check = 13}, PST_ERROR_IO},
    };
    struct psti_sample_taker taker = {.wants = wants_nine, .take = take_coded};
    struct psti_head_reader reader = {.read = read_letters};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct psti_member_group *group = NULL;
        struct pst_error err;
        assert_ok(psti_containers_group_open("a.zip", &taker, &reader, &group, &err));
        assert_int_equal(psti_containers_group_add(group, &wrong[i].member, &err), wrong[i].status);
        psti_containers_group_close(&group);
    }
}

/* A member and its sample take few bytes besides their names. The lists that grow have at most a
 * fifth more memory than they need. */
static void a_member_takes_few_bytes(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct pst_memory_stats before, after;
    struct psti_sample_taker taker = {.wants = wants_nine, .take = take_coded};
    struct psti_head_reader reader = {.read = read_letters};
    struct psti_member_group *group = NULL;
    struct pst_error err;
    char name[32];
    uint64_t names_nbytes = 0;
    pst_memory_stats(&before, sizeof before);
    assert_ok(psti_containers_group_open("a.tar", &taker, &reader, &group, &err));
    for (int i = 0; i < N; i++) {
        int n = snprintf(name, sizeof name, "train/%08d.%s", i / 2, i % 2 == 0 ? "none" : "jpg");
        names_nbytes += i % 2 == 0 ? (uint64_t)n - 4 : 0; /* a key and its NUL */
        struct psti_walk_member member = {.name = name, .header = 1000, .offset = 1512};
        assert_ok(psti_containers_group_add(group, &member, &err));
    }
    pst_memory_stats(&after, sizeof after);
    uint64_t nbytes = after.live_nbytes - before.live_nbytes - names_nbytes;
    print_message("%.1f bytes a member beside the names\n", (double)nbytes / N);
    assert_true(nbytes < 64 * (uint64_t)N);
    psti_containers_group_close(&group);
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(after.live_nbytes, before.live_nbytes);
}

static void memory_may_be_lacking_anywhere(void **state)
{
    (void)state;
#ifdef PST_FAULTS
    struct tar tar = {0};
    char name[32];
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "%d.%d.jpg", i / 2, i % 97);
        tar_file(&tar, name, name, strlen(name));
    }
    struct taker *taker = calloc(1, sizeof *taker);
    struct psti_walk_counts counts;
    struct pst_error err;
    assert_non_null(taker);
    taker->n_wanted = 8;
    enum pst_status status = PST_ERROR_MEMORY;
    struct pst_memory_stats before, after;
    pst_memory_stats(&before, sizeof before);
    uint64_t n = 0;
    while (status != PST_OK) {
        psti_fault_arm(PSTI_FAULT_ALLOC, ++n, false);
        status = walk(&tar, taker, &counts, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        if (status != PST_OK)
            assert_int_equal(status, PST_ERROR_MEMORY);
        pst_memory_stats(&after, sizeof after);
        assert_int_equal(after.live_nbytes, before.live_nbytes);
    }
    assert_true(n > 15);
    free(taker);
    tar_free(&tar);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_split_at_the_first_dot_of_the_base_name),
        cmocka_unit_test(members_of_a_sample_may_lie_apart),
        cmocka_unit_test(many_samples_keep_their_order_and_their_members),
        cmocka_unit_test(a_suffix_that_comes_twice_is_an_error_with_both_places),
        cmocka_unit_test(heads_are_the_first_bytes),
        cmocka_unit_test(what_is_no_file_is_counted),
        cmocka_unit_test(a_tar_that_ends_early_names_its_last_whole_sample),
        cmocka_unit_test(an_error_of_the_taker_ends_the_walk_and_names_the_file),
        cmocka_unit_test(a_sample_has_a_greatest_number_of_members),
        cmocka_unit_test(other_kinds_have_no_walk),
        cmocka_unit_test(what_a_member_says_is_kept),
        cmocka_unit_test(what_cannot_be_kept_is_refused),
        cmocka_unit_test(a_member_takes_few_bytes),
        cmocka_unit_test(memory_may_be_lacking_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
