/* test_dataset_saved.c - tests saved indexes: where they lie, whose indexes are trusted, that one
 * process makes them, processes that die while making one, and full disks. */
#include "folder_test.h"

#include "base/clock.h"
#include "base/fault.h"
#include "dataset/dataset_saved.h"
#include "format/format_lock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static int setup(void **state)
{
    int failed = folder_setup(state);
    folder_mkdir(state, "data");
    setenv("PENSTOCK_CACHE_DIR", folder_path(state, "cache"), 1);
    return failed;
}

static struct psti_saved *open_saved(void **state, const struct psti_saved_wait *wait)
{
    struct psti_saved *saved;
    struct pst_error err;
    assert_ok(psti_dataset_saved_open(folder_path(state, "data"), "index.pix", wait, &saved, &err));
    return saved;
}

static int find_one(struct psti_saved *saved, char text[64])
{
    const char *path;
    struct stat st;
    for (unsigned i = 0; i < PSTI_SAVED_N_PLACES; i++) {
        int fd = psti_dataset_saved_find(saved, i, &st, &path);
        if (fd < 0)
            continue;
        ssize_t n = read(fd, text, 63);
        close(fd);
        assert_true(n >= 0);
        text[n] = '\0';
        return (int)i;
    }
    return -1;
}

/* Removes the indexes at both places, beside the data and in the cache. */
static void remove_index(struct psti_saved *saved)
{
    const char *path;
    struct stat st;
    for (unsigned i = 0; i < PSTI_SAVED_N_PLACES; i++) {
        int fd = psti_dataset_saved_find(saved, i, &st, &path);
        if (fd >= 0) {
            close(fd);
            assert_int_equal(unlink(path), 0);
        }
    }
}

static void write_index(struct psti_saved *saved, const char *text)
{
    struct pst_error err;
    int fd;
    assert_ok(psti_dataset_saved_create(saved, &fd, &err));
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static unsigned count_files(void **state, const char *folder)
{
    unsigned n = 0;
    DIR *dir = opendir(folder_path(state, folder));
    if (dir == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static enum psti_saved_turn begin(struct psti_saved *saved)
{
    enum psti_saved_turn turn;
    struct pst_error err;
    assert_ok(psti_dataset_saved_begin(saved, &turn, &err));
    return turn;
}

static void make(struct psti_saved *saved, const char *text)
{
    struct pst_error err;
    assert_int_equal(begin(saved), PSTI_SAVED_MAKE);
    write_index(saved, text);
    assert_ok(psti_dataset_saved_publish(saved, &err));
}

static void lies_beside_the_data(void **state)
{
    char text[64];
    struct psti_saved *saved = open_saved(state, NULL);
    assert_int_equal(find_one(saved, text), -1);
    assert_int_equal(access(folder_path(state, "data/.penstock"), F_OK), -1);
    assert_int_equal(begin(saved), PSTI_SAVED_MAKE);
    assert_true(psti_dataset_saved_is_beside(saved));
    assert_int_equal(count_files(state, "data/.penstock"), 1); /* the lock */
    write_index(saved, "one");
    assert_int_equal(find_one(saved, text), -1);
    struct pst_error err;
    assert_ok(psti_dataset_saved_publish(saved, &err));
    assert_int_equal(count_files(state, "data/.penstock"), 1);
    assert_int_equal(find_one(saved, text), 0);
    assert_string_equal(text, "one");
    /* The index no longer fits the data, so it is made again. */
    make(saved, "two");
    assert_int_equal(find_one(saved, text), 0);
    assert_string_equal(text, "two");
    psti_dataset_saved_close(&saved);
    assert_null(saved);
}

static void an_end_leaves_nothing(void **state)
{
    char text[64];
    struct psti_saved *saved = open_saved(state, NULL);
    assert_int_equal(begin(saved), PSTI_SAVED_MAKE);
    write_index(saved, "half");
    psti_dataset_saved_close(&saved);
    assert_int_equal(count_files(state, "data/.penstock"), 0);
    saved = open_saved(state, NULL);
    assert_int_equal(find_one(saved, text), -1);
    psti_dataset_saved_close(&saved);
}

/* Another process makes the index between this process's find and begin. */
static void looks_again(void **state)
{
    char text[64];
    struct psti_saved *late = open_saved(state, NULL), *early = open_saved(state, NULL);
    assert_int_equal(find_one(late, text), -1);
    make(early, "early");
    assert_int_equal(begin(late), PSTI_SAVED_LOOK);
    assert_int_equal(find_one(late, text), 0);
    /* the index was found before and does not fit */
    assert_int_equal(begin(late), PSTI_SAVED_MAKE);
    psti_dataset_saved_close(&late);
    psti_dataset_saved_close(&early);
}

static void index_of_others_does_not_count(void **state)
{
    char text[64];
    struct psti_saved *saved = open_saved(state, NULL);
    make(saved, "mine");
    assert_int_equal(chmod(folder_path(state, "data/.penstock/index.pix"), 0666), 0);
    assert_int_equal(find_one(saved, text), -1);
    assert_int_equal(chmod(folder_path(state, "data/.penstock/index.pix"), 0644), 0);
    assert_int_equal(find_one(saved, text), 0);
    assert_int_equal(chmod(folder_path(state, "data/.penstock"), 0777), 0);
    assert_int_equal(find_one(saved, text), -1);
    make(saved, "cached"); /* a new index is made in the cache, not in that folder */
    assert_int_equal(find_one(saved, text), 1);
    assert_string_equal(text, "cached");
    psti_dataset_saved_close(&saved);
    if (geteuid() != 0)
        return;
    saved = open_saved(state, NULL);
    assert_int_equal(chmod(folder_path(state, "data/.penstock"), 0755), 0);
    assert_int_equal(chown(folder_path(state, "data/.penstock/index.pix"), 4242, 4242), 0);
    assert_int_equal(find_one(saved, text), 1);
    psti_dataset_saved_close(&saved);
    assert_int_equal(chown(folder_path(state, "data"), 4242, 4242), 0);
    saved = open_saved(state, NULL); /* the owner of the data is trusted */
    assert_int_equal(find_one(saved, text), 0);
    assert_string_equal(text, "mine");
    psti_dataset_saved_close(&saved);
}

static void links_are_not_followed(void **state)
{
    char text[64];
    folder_text(state, "elsewhere/index.pix", "lie");
    assert_int_equal(symlink(folder_path(state, "elsewhere"), folder_path(state, "data/.penstock")),
                     0);
    struct psti_saved *saved = open_saved(state, NULL);
    assert_int_equal(find_one(saved, text), -1);
    make(saved, "cached");
    assert_int_equal(find_one(saved, text), 1);
    assert_int_equal(count_files(state, "elsewhere"), 1);
    psti_dataset_saved_close(&saved);
}

/* Runs as a user who may not write beside the data. */
static void run_as_nobody(void **state)
{
    char text[64];
    if (setgid(65534) != 0 || setuid(65534) != 0)
        _exit(77);
    struct psti_saved *saved = open_saved(state, NULL);
    make(saved, "cached");
    bool good = find_one(saved, text) == 1 && strcmp(text, "cached") == 0;
    psti_dataset_saved_close(&saved);
    _exit(good ? 0 : 1);
}

static void a_read_only_folder_uses_the_cache(void **state)
{
    int result;
    if (geteuid() != 0)
        skip();
    folder_mkdir(state, "cache");
    assert_int_equal(chmod(*state, 0755), 0);
    assert_int_equal(chmod(folder_path(state, "data"), 0755), 0);
    assert_int_equal(chmod(folder_path(state, "cache"), 0777), 0);
    pid_t child = fork();
    if (child == 0)
        run_as_nobody(state);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && (WEXITSTATUS(result) == 0 || WEXITSTATUS(result) == 77));
    assert_int_equal(access(folder_path(state, "data/.penstock"), F_OK), -1);
}

static void no_place_is_an_error(void **state)
{
    enum psti_saved_turn turn;
    struct pst_error err;
    folder_text(state, "data/.penstock", "a file in the way");
    folder_text(state, "cache", "another one");
    struct psti_saved *saved = open_saved(state, NULL);
    assert_int_not_equal(psti_dataset_saved_begin(saved, &turn, &err), PST_OK);
    psti_dataset_saved_close(&saved);
}

/* Tests of makers that died
 * -------------------------------------------------------------------------------------------- */

static void a_killed_maker_is_replaced(void **state)
{
    char text[64];
    int result;
    pid_t child = fork();
    if (child == 0) {
        struct psti_saved *saved = open_saved(state, NULL);
        if (begin(saved) == PSTI_SAVED_MAKE)
            write_index(saved, "half");
        _exit(0); /* exits without cleaning up, as if killed */
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(count_files(state, "data/.penstock"), 2);
    struct psti_saved *saved = open_saved(state, NULL);
    assert_int_equal(find_one(saved, text), -1);
    make(saved, "whole");
    assert_int_equal(find_one(saved, text), 0);
    assert_int_equal(count_files(state, "data/.penstock"), 1);
    psti_dataset_saved_close(&saved);
}

static void put_lock(void **state, const struct psti_lock_note *note, time_t age_s)
{
    char text[PSTI_LOCK_NBYTES];
    psti_format_print_lock(note, text);
    const char *path = folder_file(state, "data/.penstock/index.pix.lock", text, sizeof text);
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= age_s;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static const struct psti_lock_note elsewhere = {.host = "node-17",
                                                .boot = "00000000-0000-0000-0000-000000000000",
                                                .space = 1,
                                                .pid = 4711,
                                                .start = 5,
                                                .token = 6,
                                                .n_done = 7,
                                                .n_total = 9};

static void a_lost_host_is_replaced(void **state)
{
    struct psti_saved *saved = open_saved(state, NULL);
    put_lock(state, &elsewhere, 3600);
    assert_int_equal(begin(saved), PSTI_SAVED_MAKE);
    psti_dataset_saved_close(&saved);
    assert_int_equal(count_files(state, "data/.penstock"), 0);
}

/* A maker was killed after creating its lock and before writing to it. Others need not wait two
 * minutes. */
static void an_empty_lock_is_replaced(void **state)
{
    const struct psti_saved_wait wait = {.patience_ns = 300 * MS};
    enum psti_saved_turn turn;
    struct pst_error err;
    struct timespec times[2];
    struct psti_saved *saved = open_saved(state, &wait);
    const char *path = folder_text(state, "data/.penstock/index.pix.lock", "");
    /* The maker may be about to write the lock. */
    assert_int_equal(psti_dataset_saved_begin(saved, &turn, &err), PST_ERROR_BUSY);
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= 15;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(begin(saved), PSTI_SAVED_MAKE);
    psti_dataset_saved_close(&saved);
    assert_int_equal(count_files(state, "data/.penstock"), 0);
}

static void a_silent_maker_is_named(void **state)
{
    const struct psti_saved_wait wait = {.patience_ns = 300 * MS};
    enum psti_saved_turn turn;
    struct pst_error err;
    struct psti_saved *saved = open_saved(state, &wait);
    put_lock(state, &elsewhere, 0);
    assert_int_equal(psti_dataset_saved_begin(saved, &turn, &err), PST_ERROR_BUSY);
    assert_non_null(strstr(err.text, "process 4711 on node-17"));
    assert_non_null(strstr(err.file, "index.pix.lock"));
    folder_text(state, "data/.penstock/index.pix.lock", "no lock's text");
    assert_int_equal(psti_dataset_saved_begin(saved, &turn, &err), PST_ERROR_BUSY);
    assert_non_null(strstr(err.text, "some process"));
    psti_dataset_saved_close(&saved);
    /* the lock of the silent process is left alone */
    assert_int_equal(count_files(state, "data/.penstock"), 1);
}

static int note_progress(void *ctx, const struct pst_progress *progress)
{
    uint64_t *seen = ctx;
    seen[0] = progress->n_done;
    seen[1] = progress->n_total;
    return 1;
}

static void waiting_can_be_cancelled(void **state)
{
    uint64_t seen[2] = {0};
    const struct psti_saved_wait wait = {.progress = note_progress, .ctx = seen};
    enum psti_saved_turn turn;
    struct pst_error err;
    struct psti_saved *saved = open_saved(state, &wait);
    put_lock(state, &elsewhere, 0);
    assert_int_equal(psti_dataset_saved_begin(saved, &turn, &err), PST_ERROR_CANCELLED);
    assert_int_equal(seen[0], 7);
    assert_int_equal(seen[1], 9);
    psti_dataset_saved_close(&saved);
}

static void who_was_taken_over_publishes_nothing(void **state)
{
    char text[64];
    struct pst_error err;
    struct psti_saved *slow = open_saved(state, NULL), *other = open_saved(state, NULL);
    assert_int_equal(begin(slow), PSTI_SAVED_MAKE);
    write_index(slow, "slow");
    assert_int_equal(unlink(folder_path(state, "data/.penstock/index.pix.lock")), 0);
    assert_int_equal(begin(other), PSTI_SAVED_MAKE);
    assert_int_equal(psti_dataset_saved_publish(slow, &err), PST_ERROR_BUSY);
    assert_int_equal(access(folder_path(state, "data/.penstock/index.pix.lock"), F_OK), 0);
    write_index(other, "other");
    assert_ok(psti_dataset_saved_publish(other, &err));
    assert_int_equal(find_one(slow, text), 0);
    assert_string_equal(text, "other");
    psti_dataset_saved_close(&slow);
    psti_dataset_saved_close(&other);
}

/* Tests of many processes at once
 * -------------------------------------------------------------------------------------------- */

enum { N_PROCESSES = 8 };

static void open_as_a_rank(void **state)
{
    char text[64];
    struct pst_error err;
    struct psti_saved *saved = open_saved(state, NULL);
    while (find_one(saved, text) < 0) {
        enum psti_saved_turn turn;
        if (psti_dataset_saved_begin(saved, &turn, &err) != PST_OK)
            _exit(1);
        if (turn == PSTI_SAVED_LOOK)
            continue;
        int made = open(folder_path(state, "made"), O_WRONLY | O_CREAT | O_APPEND, 0666);
        if (write(made, "x", 1) != 1)
            _exit(1);
        close(made);
        psti_clock_sleep_until(psti_clock_ns() + 300 * MS);
        write_index(saved, "shared");
        if (psti_dataset_saved_publish(saved, &err) != PST_OK)
            _exit(1);
    }
    psti_dataset_saved_close(&saved);
    _exit(strcmp(text, "shared") == 0 ? 0 : 1);
}

static void eight_ranks_make_one_index(void **state)
{
    pid_t children[N_PROCESSES];
    struct stat st;
    for (int i = 0; i < N_PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0)
            open_as_a_rank(state);
    }
    for (int i = 0; i < N_PROCESSES; i++) {
        int result;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_int_equal(result, 0);
    }
    assert_int_equal(stat(folder_path(state, "made"), &st), 0);
    assert_int_equal(st.st_size, 1);
    assert_int_equal(count_files(state, "data/.penstock"), 1);
}

/* A disk fails at its n-th change: the index is made there or at the other place, or there is
 * none. */
static void full_disks(void **state)
{
    struct pst_error err;
    enum psti_saved_turn turn;
    bool was_good = false;
    for (uint64_t n = 1; !was_good; n++) {
        char text[64];
        int fd;
        struct psti_saved *saved = open_saved(state, NULL);
        psti_fault_arm(PSTI_FAULT_WRITE, n, false);
        enum pst_status status = psti_dataset_saved_begin(saved, &turn, &err);
        if (status == PST_OK)
            status = psti_dataset_saved_create(saved, &fd, &err);
        if (status == PST_OK) {
            close(fd);
            status = psti_dataset_saved_publish(saved, &err);
        }
        was_good = psti_fault_count(PSTI_FAULT_WRITE) < n;
        psti_fault_arm(PSTI_FAULT_WRITE, 0, false);
        if (status != PST_OK) {
            assert_int_equal(status, PST_ERROR_NO_SPACE);
            assert_true(psti_dataset_saved_elsewhere(saved));
            assert_int_equal(psti_dataset_saved_begin(saved, &turn, &err), PST_OK);
            if (turn == PSTI_SAVED_MAKE)
                assert_false(psti_dataset_saved_is_beside(saved));
        }
        psti_dataset_saved_close(&saved);
        assert_true(count_files(state, "data/.penstock") <= 1);
        saved = open_saved(state, NULL);
        while (find_one(saved, text) >= 0)
            remove_index(saved);
        psti_dataset_saved_close(&saved);
    }
}

/* Tests of the text of a lock
 * -------------------------------------------------------------------------------------------- */

static void lock_text(void **state)
{
    char text[PSTI_LOCK_NBYTES];
    struct psti_lock_note note = elsewhere, back;
    (void)state;
    memcpy(note.host, "a b\n", 5);
    note.token = UINT64_MAX;
    psti_format_print_lock(&note, text);
    assert_true(psti_format_parse_lock(text, sizeof text, &back));
    assert_string_equal(back.host, "a?b?");
    assert_true(back.token == UINT64_MAX && back.pid == 4711 && back.n_total == 9);
    assert_string_equal(back.boot, note.boot);
    for (size_t n = 0; n < 100; n++)
        assert_false(psti_format_parse_lock(text, n, &back));
    text[20] ^= 0x40;
    psti_format_parse_lock(text, sizeof text, &back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lies_beside_the_data, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(an_end_leaves_nothing, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(looks_again, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(index_of_others_does_not_count, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(links_are_not_followed, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_read_only_folder_uses_the_cache, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(no_place_is_an_error, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_killed_maker_is_replaced, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_lost_host_is_replaced, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(an_empty_lock_is_replaced, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_silent_maker_is_named, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(waiting_can_be_cancelled, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(who_was_taken_over_publishes_nothing, setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(eight_ranks_make_one_index, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(full_disks, setup, folder_teardown),
        cmocka_unit_test(lock_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
