/* test_images_host.c - images in the host cache: several processes share one copy, each file is
 * read once for all, pixels equal those of a handle without a cache, and losing the service only
 * costs reads. */
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"
#include "base/clock.h"
#include "sanitizer.h"

#include <penstock/images.h>
#include <penstock/service.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 24, MIB = 1 << 20, N_CHILDREN = 3 };

static pst_dataset *folder;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    folder = open_made_folder(directory, "folder", 4, N / 4);
    return 0;
}

TEAR_DOWN(&folder)

static void start_there(void)
{
    const struct pst_service_options options = {
        .struct_size = sizeof options, .cache_nbytes = 64 * MIB, .n_threads = 2, .keep = true};
    serve_fixture_start(&fixture, &options);
}

static void start(void)
{
    serve_fixture_place(&fixture);
    start_there();
}

static pst_images *open_images(pst_cache *cache, enum pst_cache_form form)
{
    const struct pst_images_options options = {
        .struct_size = sizeof options, .cache = cache, .cache_form = form, .channels = 3};
    struct pst_error err;
    pst_images *images = NULL;
    assert_ok(pst_images_open(folder, &options, &images, &err));
    return images;
}

/* Returns false if an image differs from that of a handle without a cache. */
static bool are_right(pst_images *images, pst_images *plain)
{
    bool good = true;
    for (uint64_t i = 0; good && i < N; i++) {
        struct pst_pixels got, want;
        struct pst_error err;
        if (pst_images_get(images, i, &got, &err) != PST_OK ||
            pst_images_get(plain, i, &want, &err) != PST_OK)
            return false;
        good = got.height == want.height && got.width == want.width &&
               memcmp(got.data, want.data, (size_t)got.row_nbytes * got.height) == 0;
        pst_images_release(got.data);
        pst_images_release(want.data);
    }
    return good;
}

static struct pst_images_stats use_of(pst_images *images)
{
    struct pst_images_stats stats;
    pst_images_stats(images, &stats, sizeof stats);
    return stats;
}

static uint64_t count_reads(void)
{
    struct pst_service_status status;
    pst_service_report *report;
    struct pst_error err;
    assert_ok(pst_service_report_open(fixture.socket, &report, &err));
    pst_service_report_status(report, &status, sizeof status);
    pst_service_report_close(&report);
    return status.n_reads;
}

static pid_t begin_child(pst_images *images, pst_images *plain)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    bool good = are_right(images, plain) && are_right(images, plain);
    struct pst_images_stats stats = use_of(images);
    good = good && stats.n_misses == 0 && !stats.is_forked && stats.n_cache_items == N;
    _exit(good ? 0 : 1);
}

static void one_copy_for_all(void **state)
{
    (void)state;
    if (TEST_SANITIZED)
        skip(); /* in a multi-threaded process allocator locks may be held during a fork */
    for (int form = PST_CACHE_FORM_STORED; form <= PST_CACHE_FORM_RAW; form += 2) {
        start();
        pst_cache *cache = serve_fixture_open_host();
        pst_images *images = open_images(cache, (enum pst_cache_form)form);
        pst_images *plain = open_images(NULL, PST_CACHE_FORM_STORED);
        pid_t children[N_CHILDREN];
        for (int i = 0; i < N_CHILDREN; i++)
            children[i] = begin_child(images, plain);
        for (int i = 0; i < N_CHILDREN; i++) {
            int status = -1;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_int_equal(status, 0);
        }
        assert_int_equal(count_reads(), N);
        assert_true(are_right(images, plain));
        struct pst_images_stats stats = use_of(images);
        assert_int_equal(stats.n_hits, N);
        assert_int_equal(stats.n_misses, 0);
        assert_int_equal(stats.n_fetched, 0);
        assert_int_equal(stats.cache_nbytes, 64 * MIB);
        assert_int_equal(count_reads(), N);
        pst_images_close(&images);
        pst_images_close(&plain);
        pst_cache_close(&cache);
        serve_fixture_stop(&fixture);
        serve_fixture_clear(&fixture);
    }
}

/* The service opens a list of files by the names that the client sends. */
static void a_list_of_files(void **state)
{
    (void)state;
    enum { N_FILES = 5 };
    char names[N_FILES][PST_NAME_CAP];
    const char *files[N_FILES];
    struct pst_dataset_options options = {
        .struct_size = sizeof options, .files = files, .n_files = N_FILES};
    struct pst_images_options how = {
        .struct_size = sizeof how, .cache_form = PST_CACHE_FORM_PLI, .channels = 3};
    struct pst_error err;
    pst_dataset *list = NULL;
    pst_images *images = NULL;
    for (int i = 0; i < N_FILES; i++) {
        assert_ok(pst_dataset_sample_name(folder, (uint64_t)(3 * i + 2), names[i], &err));
        files[i] = names[i];
    }
    assert_ok(pst_dataset_open(pst_dataset_path(folder), &options, &list, &err));
    memset(names, 'x', sizeof names); /* the names were copied at opening */
    start();
    how.cache = serve_fixture_open_host();
    pst_images *plain = open_images(NULL, PST_CACHE_FORM_STORED);
    assert_ok(pst_images_open(list, &how, &images, &err));
    for (uint64_t i = 0; i < N_FILES; i++) {
        struct pst_pixels got, want;
        assert_ok(pst_images_get(images, i, &got, &err));
        assert_ok(pst_images_get(plain, 3 * i + 2, &want, &err));
        assert_memory_equal(got.data, want.data, (size_t)got.row_nbytes * got.height);
        assert_int_equal(got.height, want.height);
        pst_images_release(got.data);
        pst_images_release(want.data);
    }
    assert_int_equal(use_of(images).n_fetched, N_FILES);
    assert_int_equal(use_of(images).n_misses, 0);
    pst_images_close(&images);
    pst_images_close(&plain);
    pst_cache_close(&how.cache);
    pst_dataset_close(&list);
    serve_fixture_stop(&fixture);
    serve_fixture_clear(&fixture);
}

static void a_lost_service_costs_reads(void **state)
{
    (void)state;
    start();
    pst_cache *cache = serve_fixture_open_host();
    pst_images *images = open_images(cache, PST_CACHE_FORM_PLI);
    pst_images *plain = open_images(NULL, PST_CACHE_FORM_STORED);
    struct pst_error err;
    bool kept = false;
    assert_ok(pst_images_load(images, 0, &kept, &err));
    assert_true(kept);
    assert_int_equal(use_of(images).n_fetched, 1);
    serve_fixture_stop(&fixture);
    assert_true(are_right(images, plain));
    /* items that were mapped before are still hits */
    assert_int_equal(use_of(images).n_misses, N - 1);
    assert_int_equal(use_of(images).n_lost, N - 1);
    assert_int_equal(use_of(images).n_refused, 0);
    pst_images_close(&images);
    pst_images_close(&plain);
    pst_cache_close(&cache);
    serve_fixture_clear(&fixture);
}

/* A thread that requests all images until it is stopped. */
struct user {
    pst_images *images, *plain;
    atomic_bool stops, is_wrong;
    pthread_t thread;
};

static void *use_images(void *arg)
{
    struct user *user = arg;
    while (!atomic_load(&user->stops))
        if (!are_right(user->images, user->plain))
            atomic_store(&user->is_wrong, true);
    return NULL;
}

/* The service ends twice and is replaced each time, while threads request images. */
static void a_lost_service_is_found_again(void **state)
{
    (void)state;
    enum { N_USERS = 2, N_LOSSES = 2 };
    struct user users[N_USERS] = {0};
    int64_t end = psti_clock_ns() + (int64_t)60 * 1000 * 1000 * 1000;
    start();
    pst_cache *cache = serve_fixture_open_host();
    pst_images *images = open_images(cache, PST_CACHE_FORM_PLI);
    pst_images *plain = open_images(NULL, PST_CACHE_FORM_STORED);
    for (int i = 0; i < N_USERS; i++) {
        users[i].images = images;
        users[i].plain = plain;
        assert_int_equal(pthread_create(&users[i].thread, NULL, use_images, &users[i]), 0);
    }
    for (uint64_t losses = 1; losses <= N_LOSSES; losses++) {
        serve_fixture_stop(&fixture);
        start_there();
        while (use_of(images).n_renewed < losses && psti_clock_ns() < end)
            usleep(10000);
        assert_int_equal(use_of(images).n_renewed, losses);
        while (use_of(images).n_cache_items < N && psti_clock_ns() < end)
            usleep(10000);
        assert_int_equal(use_of(images).n_cache_items, N);
    }
    for (int i = 0; i < N_USERS; i++) {
        atomic_store(&users[i].stops, true);
        pthread_join(users[i].thread, NULL);
        assert_false(atomic_load(&users[i].is_wrong));
    }
    assert_int_equal(count_reads(), N);
    uint64_t misses = use_of(images).n_misses;
    assert_true(are_right(images, plain));
    assert_int_equal(use_of(images).n_misses, misses);
    pst_images_close(&images);
    pst_images_close(&plain);
    pst_cache_close(&cache);
    serve_fixture_stop(&fixture);
    serve_fixture_clear(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_copy_for_all),
        cmocka_unit_test(a_list_of_files),
        cmocka_unit_test(a_lost_service_costs_reads),
        cmocka_unit_test(a_lost_service_is_found_again),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
