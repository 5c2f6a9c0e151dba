/* test_writer_links.c - an attacker has prepared the directory: a writer never changes the targets
 * of its links. The same holds for hard links: a snapshot made of them must not change. */
#include "writer/writer_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_FIRST = 14, N_SECOND = 22 };

static const char precious[] = "what somebody wants to keep";

struct place {
    char *directory;
    char set[512], victim[600];
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    place->directory = fixture_directory();
    snprintf(place->set, sizeof place->set, "%s/set", place->directory);
    snprintf(place->victim, sizeof place->victim, "%s/victim", place->directory);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    fixture_remove(place->directory);
    free(place);
    return 0;
}

static void in_set(const struct place *place, const char *name, char path[700])
{
    snprintf(path, 700, "%s/%s", place->set, name);
}

/* Makes a link `name` in the data set to the victim file, which exists only if `exists`. */
static void put_link(const struct place *place, const char *name, bool exists)
{
    char path[700];
    in_set(place, name, path);
    unlink(place->victim);
    if (exists)
        fixture_write_file(place->victim, precious, sizeof precious);
    unlink(path);
    assert_int_equal(symlink(place->victim, path), 0);
}

static void check_victim(const struct place *place, bool exists)
{
    size_t nbytes;
    if (!exists) {
        assert_int_equal(access(place->victim, F_OK), -1);
        return;
    }
    uint8_t *bytes = fixture_read_file(place->victim, &nbytes);
    assert_int_equal(nbytes, sizeof precious);
    assert_memory_equal(bytes, precious, nbytes);
    free(bytes);
}

/* Adds samples 0..n-1 and commits, without finishing. */
static void begin(const char *path, enum pst_writer_mode mode, uint64_t n)
{
    struct pst_error err = {0};
    struct pst_writer_options options = fixture_options(mode);
    pst_writer *writer;
    assert_ok(pst_writer_open(path, fixture_fields, FIX_N_FIELDS, &options, &writer, &err));
    assert_ok(pst_writer_set_class_names(writer, FIX_LABEL, fixture_classes, 5, &err));
    for (uint64_t i = pst_writer_count(writer); i < n; i++)
        assert_ok(fixture_add(writer, i, &err));
    pst_writer_close(&writer);
}

/* A link in place of a temporary file is replaced, and one in place of the lock file is refused. In
 * both cases nothing is written elsewhere. */
static void names_that_a_new_set_takes(void **state)
{
    static const char *const names[] = {"index.pst.tmp", "journal.pst.tmp", "writer.lock"};
    const struct place *place = *state;
    struct pst_error err = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int exists = 0; exists < 2; exists++) {
            bool is_lock = strcmp(names[i], "writer.lock") == 0;
            struct stat st;
            char index[700];
            fixture_empty(place->directory);
            assert_int_equal(mkdir(place->set, 0777), 0);
            put_link(place, names[i], exists);
            enum pst_status status = fixture_live(place->set, PST_WRITER_CREATE, N_FIRST, &err);
            check_victim(place, exists);
            assert_int_equal(status, is_lock ? PST_ERROR_IO : PST_OK);
            if (is_lock) {
                assert_non_null(strstr(err.text, "symbolic link"));
                continue;
            }
            in_set(place, "index.pst", index);
            assert_true(lstat(index, &st) == 0 && S_ISREG(st.st_mode));
            fixture_check(place->set, N_FIRST);
        }
}

static void names_that_an_append_takes(void **state)
{
    static const char *const names[] = {"index.pst.tmp", "journal.pst.tmp", "shard-000002.pst"};
    const struct place *place = *state;
    struct pst_error err = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int exists = 0; exists < 2; exists++) {
            struct stat st;
            char path[700];
            fixture_empty(place->directory);
            assert_ok(fixture_live(place->set, PST_WRITER_CREATE, N_FIRST, &err));
            in_set(place, names[i], path);
            assert_int_equal(access(path, F_OK), -1);
            put_link(place, names[i], exists);
            assert_ok(fixture_live(place->set, PST_WRITER_APPEND, N_SECOND, &err));
            check_victim(place, exists);
            assert_true(lstat(path, &st) != 0 || S_ISREG(st.st_mode));
            fixture_check(place->set, N_SECOND);
        }
}

/* Files of the data set are moved away and replaced by links to them. The writer does not write to
 * the targets. */
static void files_that_are_links(void **state)
{
    static const char *const names[] = {"shard-000000.pst", "journal.pst"};
    const struct place *place = *state;
    struct pst_error err = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[700];
        size_t n_before, n_after;
        fixture_empty(place->directory);
        begin(place->set, PST_WRITER_CREATE, 3);
        in_set(place, names[i], path);
        assert_int_equal(rename(path, place->victim), 0);
        assert_int_equal(symlink(place->victim, path), 0);
        uint8_t *before = fixture_read_file(place->victim, &n_before);
        assert_int_equal(fixture_live(place->set, PST_WRITER_RESUME, N_FIRST, &err), PST_ERROR_IO);
        assert_non_null(strstr(err.text, "symbolic link"));
        assert_non_null(strstr(err.file, names[i]));
        uint8_t *after = fixture_read_file(place->victim, &n_after);
        assert_int_equal(n_before, n_after);
        assert_memory_equal(before, after, n_after);
        free(before);
        free(after);
    }
}

/* A FIFO in place of a file is refused at once, without waiting. */
static void no_plain_files(void **state)
{
    static const char *const names[] = {"shard-000000.pst", "journal.pst", "writer.lock"};
    const struct place *place = *state;
    struct pst_error err = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[700];
        fixture_empty(place->directory);
        begin(place->set, PST_WRITER_CREATE, 3);
        in_set(place, names[i], path);
        unlink(path);
        assert_int_equal(mkfifo(path, 0666), 0);
        assert_int_equal(fixture_live(place->set, PST_WRITER_RESUME, N_FIRST, &err), PST_ERROR_IO);
        assert_non_null(strstr(err.file, names[i]));
    }
}

/* A loss of power may leave some of the shards that were never committed. */
static void stray_shards(void **state)
{
    static const char *const names[] = {"shard-000007.pst", "shard-1000000.pst"};
    static const char *const others[] = {"shard-7.pst", "shard-000007.pst.old"};
    const struct place *place = *state;
    struct pst_error err = {0};
    char path[700];
    begin(place->set, PST_WRITER_CREATE, 3);
    for (int i = 0; i < 2; i++) {
        in_set(place, names[i], path);
        fixture_write_file(path, precious, sizeof precious);
        in_set(place, others[i], path);
        fixture_write_file(path, precious, sizeof precious);
    }
    assert_ok(fixture_live(place->set, PST_WRITER_RESUME, N_FIRST, &err));
    for (int i = 0; i < 2; i++) {
        in_set(place, names[i], path);
        assert_int_equal(access(path, F_OK), -1);
        in_set(place, others[i], path);
        assert_int_equal(access(path, F_OK), 0);
    }
    fixture_check(place->set, N_FIRST);
}

/* Links all files of the data set into "snapshot", as cp -al does. */
static void take_snapshot(const struct place *place, char snapshot[600])
{
    char command[1300];
    snprintf(snapshot, 600, "%s/snapshot", place->directory);
    snprintf(command, sizeof command, "cp -al '%s' '%s'", place->set, snapshot);
    assert_int_equal(system(command), 0);
}

static void snapshots_of_hard_links(void **state)
{
    const struct place *place = *state;
    struct pst_error err = {0};
    char snapshot[600], shard[700], name[40];
    assert_ok(fixture_live(place->set, PST_WRITER_CREATE, N_FIRST, &err));
    take_snapshot(place, snapshot);
    assert_ok(fixture_live(place->set, PST_WRITER_APPEND, N_SECOND, &err));
    fixture_check(place->set, N_SECOND);
    fixture_check(snapshot, N_FIRST);
    for (int i = 0;; i++) { /* files in both directories are unchanged in the snapshot */
        struct stat ours, theirs;
        snprintf(name, sizeof name, "../snapshot/shard-%06d.pst", i);
        in_set(place, name, shard);
        if (stat(shard, &theirs) != 0)
            break;
        in_set(place, name + strlen("../snapshot/"), shard);
        assert_int_equal(stat(shard, &ours), 0);
        assert_int_equal(ours.st_ino, theirs.st_ino);
    }
    /* An unfinished data set must not share its journal. */
    fixture_empty(snapshot);
    rmdir(snapshot);
    begin(place->set, PST_WRITER_APPEND, N_SECOND + 2);
    take_snapshot(place, snapshot);
    assert_int_equal(fixture_live(place->set, PST_WRITER_RESUME, N_SECOND + 4, &err), PST_ERROR_IO);
    assert_non_null(strstr(err.text, "hard link"));
    assert_non_null(strstr(err.file, "journal.pst"));
}

/* The path that the caller gives may be a link. */
static void the_set_by_a_link(void **state)
{
    const struct place *place = *state;
    struct pst_error err = {0};
    char real[600];
    snprintf(real, sizeof real, "%s/real", place->directory);
    assert_int_equal(mkdir(real, 0777), 0);
    assert_int_equal(symlink(real, place->set), 0);
    assert_ok(fixture_live(place->set, PST_WRITER_CREATE, N_FIRST, &err));
    assert_ok(fixture_live(place->set, PST_WRITER_APPEND, N_SECOND, &err));
    fixture_check(real, N_SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_that_a_new_set_takes, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_an_append_takes, setup, teardown),
        cmocka_unit_test_setup_teardown(files_that_are_links, setup, teardown),
        cmocka_unit_test_setup_teardown(no_plain_files, setup, teardown),
        cmocka_unit_test_setup_teardown(stray_shards, setup, teardown),
        cmocka_unit_test_setup_teardown(snapshots_of_hard_links, setup, teardown),
        cmocka_unit_test_setup_teardown(the_set_by_a_link, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
