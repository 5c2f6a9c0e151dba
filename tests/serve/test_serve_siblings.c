/* test_serve_siblings.c - groups of one name with different transforms (siblings): is each job's
 * stream bit-identical to that of a loader alone, and is each item read and decoded once for all
 * groups? */
#include "sanitizer.h"
#include "serve/serve_fixture.h"
#include "serve/serve_stream.h"

#include "base/clock.h"
#include "loader/loader_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_SAMPLES = 90, N_CLASSES = 3, BATCHES_MAX = 64, JOBS_MAX = 3, SIDE = 32 };

enum { JPEG_FILES, PLI_JPEG, PLI, PNG, MIXED, LARGE, SETS };
static pst_dataset *sets[SETS];

/* Packs a folder with images in this form, and opens the data set. */
static pst_dataset *pack(const char *folder, const char *name, enum pst_form form)
{
    const struct pst_pack_options options = {
        .struct_size = sizeof options, .forms = &form, .n_forms = 1, .pli_of_lossy = true};
    struct pst_pack_report report;
    struct pst_error err;
    char from[128], to[128];
    pst_dataset *dataset;
    snprintf(from, sizeof from, "%s/%s", directory, folder);
    snprintf(to, sizeof to, "%s/%s", directory, name);
    assert_ok(pst_pack(from, to, &options, &report, sizeof report, &err));
    assert_ok(pst_dataset_open(to, NULL, &dataset, &err));
    return dataset;
}

/* Writes images of noise that are so large that reading parts of them pays. */
static void write_large(void)
{
    enum { N = 6, HEIGHT = 500, WIDTH = 700 };
    static uint8_t pixels[HEIGHT * WIDTH * 3];
    char path[128];
    snprintf(path, sizeof path, "%s/large", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0, noise = 1; i < N; i++) {
        for (size_t k = 0; k < sizeof pixels; k++)
            pixels[k] = (uint8_t)((noise = noise * 1664525 + 1013904223) >> 24);
        size_t nbytes;
        uint8_t *png = encode_png(pixels, HEIGHT, WIDTH, 3, &nbytes);
        snprintf(path, sizeof path, "%s/large/%u.png", directory, i);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(png, 1, nbytes, file), nbytes);
        assert_int_equal(fclose(file), 0);
        free(png);
    }
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    sets[JPEG_FILES] = open_made_folder(directory, "files", N_CLASSES, N_SAMPLES / N_CLASSES);
    sets[PLI_JPEG] = pack("files", "pli-jpeg.pst", PST_FORM_PLI_JPEG);
    sets[PLI] = pack("files", "pli.pst", PST_FORM_PLI);
    write_large();
    sets[LARGE] = pack("large", "large.pst", PST_FORM_PLI);
    sets[PNG] = open_made(directory, "png.pst",
                          &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_PNG});
    sets[MIXED] = open_made(
        directory, "mixed.pst",
        &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_MIXED, .all_fields = true});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < SETS; i++)
        pst_dataset_close(&sets[i]);
    remove_tree(directory);
    return 0;
}

/* ThreadSanitizer does not notice that a ring of io_uring is unmapped. It takes a later ring at the
 * same address for the same memory, and reports a race. */
#define STORAGE (TEST_TSAN ? PST_STORAGE_THREADS : PST_STORAGE_AUTO)

enum difference { COLOURS, CROPS, KINDS_OF_CROP, DIFFERENCES };
static struct augmented kept[JOBS_MAX];

/* Returns the options of job j, whose transforms differ from those of the other jobs in one
 * respect. */
static struct pst_loader_options options_of(enum difference difference, uint32_t j)
{
    struct pst_loader_options options = augmented_options(&kept[j], SIDE, SIDE);
    struct pst_op *chain = kept[j].chain;
    options.n_fields = 1;
    options.batch_size = 7 + j;
    options.storage = STORAGE;
    options.socket = fixture.socket;
    options.share_wait_seconds = 60;
    if (difference == COLOURS)
        chain[2].brightness[1] = 1.1f + 0.2f * (float)j;
    if (difference == CROPS) {
        chain[0].scale[0] = 0.1f + 0.2f * (float)j;
        chain[0].scale[1] = 0.4f + 0.2f * (float)j;
    }
    if (difference == KINDS_OF_CROP && j == 0) {
        pst_op_init(&chain[0], sizeof chain[0], PST_OP_RESIZE);
        chain[0].height = chain[0].width = SIDE + 4;
        pst_op_init(&chain[1], sizeof chain[1], PST_OP_CENTER_CROP);
        chain[1].height = chain[1].width = SIDE;
    }
    if (difference == KINDS_OF_CROP && j == 2)
        chain[0].scale[0] = 0.5f;
    return options;
}

static pst_loader *open_job(pst_dataset *dataset, struct pst_loader_options options)
{
    options.share = "search";
    pst_loader *loader = open_loader(dataset, &options);
    if (!stats_of(loader).is_sharing)
        fail_msg("not shared: %s", stats_of(loader).share_reason);
    return loader;
}

/* Returns the counters of the service for the group and its siblings. */
static struct pst_loader_stats counts_of(pst_dataset *dataset, struct pst_loader_options options)
{
    pst_loader *loader = open_job(dataset, options);
    struct pst_loader_stats stats = stats_of(loader);
    pst_loader_close(&loader);
    return stats;
}

static uint64_t want[JOBS_MAX][BATCHES_MAX];

struct jobs {
    pst_dataset *dataset;
    uint32_t n;
    struct pst_loader_options options[JOBS_MAX];
    pst_loader *loaders[JOBS_MAX];
    size_t n_batches[JOBS_MAX], n_done[JOBS_MAX];
};

static void open_jobs(struct jobs *jobs)
{
    for (uint32_t j = 0; j < jobs->n; j++)
        jobs->loaders[j] = open_job(jobs->dataset, jobs->options[j]);
}

static void begin(struct jobs *jobs, uint64_t epoch)
{
    struct pst_error err;
    for (uint32_t j = 0; j < jobs->n; j++) {
        jobs->n_batches[j] = drain_alone(jobs->dataset, jobs->options[j], epoch, want[j]);
        jobs->n_done[j] = 0;
        assert_ok(pst_loader_begin(jobs->loaders[j], epoch, &err));
    }
}

/* Takes batches from the jobs by turns until job `until` has n of them, or until all jobs have
 * all. */
static void take(struct jobs *jobs, uint32_t until, size_t n)
{
    bool more = true;
    while (more && jobs->n_done[until] < n) {
        more = false;
        for (uint32_t j = 0; j < jobs->n; j++) {
            pst_batch *batch;
            struct pst_error err;
            if (!jobs->loaders[j] || jobs->n_done[j] == jobs->n_batches[j])
                continue;
            assert_ok(pst_loader_next(jobs->loaders[j], &batch, &err));
            assert_true(hash_batch(batch) == want[j][jobs->n_done[j]++]);
            pst_batch_release(batch);
            more = true;
        }
    }
}

static void close_jobs(struct jobs *jobs)
{
    for (uint32_t j = 0; j < jobs->n; j++)
        pst_loader_close(&jobs->loaders[j]);
}

/* Checks that storage was read once for all epochs, as there is a host cache. In the first epoch an
 * item comes from a read by a sibling or, later, from the cache. */
static void assert_once(const struct jobs *jobs, const struct pst_loader_stats *stats,
                        uint64_t n_items, uint64_t n_images)
{
    assert_int_equal(stats->share_given_up, 0);
    assert_int_equal(stats->share_read, N_SAMPLES);
    assert_int_equal(stats->share_read + stats->share_read_shared + stats->share_cached,
                     jobs->n * n_items);
    assert_int_equal(stats->share_decoded, n_images);
    assert_int_equal(stats->share_decoded_shared, (jobs->n - 1) * n_images);
    assert_int_equal(stats->share_decoded_apart, 0);
}

/* Jobs advance in step: although their crops differ, all items are read and decoded once. */
static void siblings_read_and_decode_once(void **state)
{
    (void)state;
    for (int set = 0; set < MIXED; set++)
        for (int difference = 0; difference < DIFFERENCES; difference++) {
            serve_fixture_open(NULL);
            uint32_t n = 2 + (uint32_t)(set + difference) % 2, n_epochs = 2;
            struct jobs jobs = {.dataset = sets[set], .n = n};
            for (uint32_t j = 0; j < n; j++)
                jobs.options[j] = options_of((enum difference)difference, j);
            open_jobs(&jobs);
            for (uint64_t epoch = 0; epoch < n_epochs; epoch++) {
                begin(&jobs, epoch);
                take(&jobs, 0, SIZE_MAX);
            }
            struct pst_loader_stats stats = counts_of(jobs.dataset, jobs.options[0]);
            uint64_t all = n_epochs * N_SAMPLES;
            assert_once(&jobs, &stats, all, all);
            close_jobs(&jobs);
            serve_fixture_close(NULL);
        }
}

/* All fields, with an image and a mask that share their geometry, and samples that are drawn
 * repeatedly. */
static void all_fields_are_shared(void **state)
{
    (void)state;
    struct jobs jobs = {.dataset = sets[MIXED], .n = 2};
    double weights[N_SAMPLES];
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        weights[i] = 1 + i % 3;
    for (uint32_t j = 0; j < jobs.n; j++) {
        jobs.options[j] = options_of(COLOURS, j);
        jobs.options[j].n_fields = 2;
        jobs.options[j].weights = weights;
    }
    open_jobs(&jobs);
    begin(&jobs, 4);
    take(&jobs, 0, SIZE_MAX);
    struct pst_loader_stats stats = counts_of(jobs.dataset, jobs.options[0]);
    /* A sample that is drawn again is in the cache or is still being read. */
    assert_true(stats.share_read <= stats.share_read_shared + stats.share_cached);
    assert_int_equal(stats.share_decoded, 2 * N_SAMPLES);
    assert_int_equal(stats.share_decoded_shared, 2 * N_SAMPLES);
    close_jobs(&jobs);
}

/* Jobs that need another kind of pixels decode separately, from bytes that are read once. */
static void other_pixels_are_decoded_apart(void **state)
{
    (void)state;
    struct jobs jobs = {.dataset = sets[PNG], .n = 2};
    for (uint32_t j = 0; j < jobs.n; j++)
        jobs.options[j] = options_of(COLOURS, j);
    kept[1].outputs[0].channels = 1;
    open_jobs(&jobs);
    begin(&jobs, 0);
    take(&jobs, 0, SIZE_MAX);
    struct pst_loader_stats stats = counts_of(jobs.dataset, jobs.options[0]);
    assert_int_equal(stats.share_read, N_SAMPLES);
    assert_int_equal(stats.share_read_shared + stats.share_cached, N_SAMPLES);
    assert_int_equal(stats.share_decoded, 2 * N_SAMPLES);
    assert_int_equal(stats.share_decoded_shared, 0);
    assert_true(stats.share_decoded_apart >= N_SAMPLES / 2);
    close_jobs(&jobs);
}

/* A group ends in the middle of an epoch, and another one is slow: the others go on,
 * bit-identically. */
static void groups_end_and_stand_still(void **state)
{
    (void)state;
    for (size_t end = 0; end < 12; end += 3) {
        struct jobs jobs = {.dataset = sets[PLI_JPEG], .n = 3};
        for (uint32_t j = 0; j < jobs.n; j++)
            jobs.options[j] = options_of(CROPS, j);
        open_jobs(&jobs);
        begin(&jobs, 0);
        take(&jobs, 0, end);
        pst_loader_close(&jobs.loaders[1]);
        jobs.n_done[1] = jobs.n_batches[1] = 0;
        pst_loader *slow = jobs.loaders[2];
        jobs.loaders[2] = NULL; /* this job pauses while the first one runs two epochs */
        uint64_t first[BATCHES_MAX];
        memcpy(first, want[2], sizeof first);
        take(&jobs, 0, SIZE_MAX);
        struct pst_error err;
        jobs.n_batches[0] = drain_alone(jobs.dataset, jobs.options[0], 1, want[0]);
        jobs.n_done[0] = 0;
        assert_ok(pst_loader_begin(jobs.loaders[0], 1, &err));
        take(&jobs, 0, SIZE_MAX);
        memcpy(want[2], first, sizeof first);
        jobs.loaders[2] = slow;
        take(&jobs, 2, SIZE_MAX);
        assert_int_equal(jobs.n_done[2], jobs.n_batches[2]);
        close_jobs(&jobs);
    }
}

/* Each group treats a bad sample as it would alone. */
static void bad_samples_are_as_alone(void **state)
{
    (void)state;
    char path[128];
    struct make_options made = {.n_samples = N_SAMPLES, .images = MAKE_PNG};
    pst_dataset *spoiled = open_made(directory, "spoiled.pst", &made);
    struct pst_error err;
    for (uint64_t sample = 11; sample < N_SAMPLES; sample += 30)
        spoil_sample(spoiled, sample, "image");
    pst_dataset_close(&spoiled);
    snprintf(path, sizeof path, "%s/spoiled.pst", directory);
    assert_ok(pst_dataset_open(path, NULL, &spoiled, &err));
    struct jobs jobs = {.dataset = spoiled, .n = 2};
    for (uint32_t j = 0; j < jobs.n; j++) {
        jobs.options[j] = options_of(CROPS, j);
        jobs.options[j].on_error = PST_ON_ERROR_SKIP;
    }
    open_jobs(&jobs);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        begin(&jobs, epoch);
        take(&jobs, 0, SIZE_MAX);
        for (uint32_t j = 0; j < jobs.n; j++)
            assert_int_equal(pst_loader_n_quarantined(jobs.loaders[j]), 3);
    }
    close_jobs(&jobs);
    pst_dataset_close(&spoiled);
}

struct late {
    pthread_t thread;
    pst_loader *loader;
    uint64_t epoch, hashes[BATCHES_MAX];
    size_t n;
};

static void *begin_late(void *arg)
{
    struct late *late = arg;
    late->n = run_epoch(late->loader, late->epoch, late->hashes);
    return NULL;
}

/* Waits until a job of this name has requested a batch of the epoch. */
static void wait_for_epoch(pst_dataset *dataset, struct pst_loader_options options, uint64_t epoch)
{
    int64_t deadline = psti_clock_ns() + (int64_t)60 * 1000000000;
    while (counts_of(dataset, options).share_epoch != epoch && psti_clock_ns() < deadline)
        ;
    assert_int_equal(counts_of(dataset, options).share_epoch, epoch);
}

/* A group that joins late and begins with the next epoch waits for its sibling to arrive there, or
 * to end. */
static void a_late_group_can_begin_with_the_next_epoch(void **state)
{
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        struct jobs jobs = {.dataset = sets[JPEG_FILES], .n = 1};
        static struct late late;
        uint64_t expected[BATCHES_MAX];
        jobs.options[0] = options_of(CROPS, 0);
        open_jobs(&jobs);
        begin(&jobs, 4);
        take(&jobs, 0, jobs.n_batches[0] / 2);
        const struct pst_loader_options options = options_of(CROPS, 1);
        late.loader = open_job(jobs.dataset, options);
        late.epoch = stats_of(late.loader).share_epoch + 1;
        assert_int_equal(late.epoch, 5);
        size_t n = drain_alone(jobs.dataset, options, late.epoch, expected);
        assert_int_equal(pthread_create(&late.thread, NULL, begin_late, &late), 0);
        wait_for_epoch(jobs.dataset, options, late.epoch);
        if (!ends) {
            take(&jobs, 0, jobs.n_batches[0] - 1);
            assert_int_equal(counts_of(jobs.dataset, options).share_samples, 0);
            take(&jobs, 0, SIZE_MAX);
            begin(&jobs, 5);
            take(&jobs, 0, SIZE_MAX);
        }
        if (ends)
            close_jobs(&jobs);
        pthread_join(late.thread, NULL);
        assert_int_equal(late.n, n);
        assert_memory_equal(late.hashes, expected, n * sizeof *expected);
        struct pst_loader_stats stats = counts_of(jobs.dataset, options);
        if (!ends) {
            assert_int_equal(stats.share_decoded, 2 * N_SAMPLES);
            assert_int_equal(stats.share_decoded_shared, N_SAMPLES);
        }
        pst_loader_close(&late.loader);
        close_jobs(&jobs);
        serve_fixture_close(NULL);
        serve_fixture_open(NULL);
    }
}

/* A group waits for a sibling that has stopped for five seconds at most. */
static void a_sibling_that_stands_still_is_not_awaited(void **state)
{
    (void)state;
    struct jobs jobs = {.dataset = sets[PNG], .n = 1};
    uint64_t expected[BATCHES_MAX], got[BATCHES_MAX];
    jobs.options[0] = options_of(COLOURS, 0);
    open_jobs(&jobs);
    begin(&jobs, 0);
    take(&jobs, 0, jobs.n_batches[0] / 2);
    const struct pst_loader_options options = options_of(COLOURS, 1);
    pst_loader *loader = open_job(jobs.dataset, options);
    size_t n = drain_alone(jobs.dataset, options, 1, expected);
    assert_int_equal(run_epoch(loader, 1, got), n);
    assert_memory_equal(got, expected, n * sizeof *got);
    assert_int_equal(stats_of(loader).n_shared, n);
    pst_loader_close(&loader);
    take(&jobs, 0, SIZE_MAX);
    close_jobs(&jobs);
}

struct runner {
    pthread_t thread;
    struct pst_loader_options options;
    uint64_t hashes[3][BATCHES_MAX];
    size_t n[3];
};

static void *run_job(void *arg)
{
    struct runner *runner = arg;
    pst_loader *loader = open_job(sets[JPEG_FILES], runner->options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        runner->n[epoch] = run_epoch(loader, epoch, runner->hashes[epoch]);
    }
    pst_loader_close(&loader);
    return NULL;
}

/* Groups run at the same time, and start and end at any moment. */
static void groups_race(void **state)
{
    (void)state;
    static struct runner runners[JOBS_MAX];
    for (uint32_t j = 0; j < JOBS_MAX; j++) {
        runners[j].options = options_of(KINDS_OF_CROP, j);
        assert_int_equal(pthread_create(&runners[j].thread, NULL, run_job, &runners[j]), 0);
    }
    for (uint32_t j = 0; j < JOBS_MAX; j++)
        pthread_join(runners[j].thread, NULL);
    for (uint32_t j = 0; j < JOBS_MAX; j++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            size_t n = drain_alone(sets[JPEG_FILES], runners[j].options, epoch, want[0]);
            assert_int_equal(runners[j].n[epoch], n);
            assert_memory_equal(runners[j].hashes[epoch], want[0], n * sizeof want[0][0]);
        }
}

/* Loaders and a shelf (the memory for decoded samples that siblings share), without a service. */
struct bare {
    struct psti_arena arena;
    pst_loader *loader;
};

static void open_bare(struct bare *bare, struct psti_shelf *shelf, pst_dataset *dataset,
                      struct pst_loader_options options)
{
    struct pst_error err;
    options.batch_size = 8;
    assert_ok(psti_serve_arena_open(&bare->arena, (uint64_t)64 << 20, &err));
    struct psti_loader_slots slots = psti_serve_arena_slots(&bare->arena);
    slots.shelf = shelf;
    assert_ok(psti_loader_open_in(dataset, &options, &slots, &bare->loader, &err));
}

static void close_bare(struct bare *bare)
{
    pst_loader_close(&bare->loader);
    psti_serve_arena_close(&bare->arena);
}

static void drain_bare(struct bare *bare, pst_dataset *dataset, struct pst_loader_options options,
                       uint64_t epoch)
{
    uint64_t got[BATCHES_MAX];
    options.batch_size = 8;
    size_t n = run_epoch(bare->loader, epoch, got);
    assert_int_equal(drain_alone(dataset, options, epoch, want[0]), n);
    assert_memory_equal(got, want[0], n * sizeof got[0]);
}

/* A full shelf drops its oldest samples, and keeps nothing for a loader that is far behind. When
 * all loaders have gone it is empty. */
static void a_full_shelf_gives_up(void **state)
{
    (void)state;
    for (uint64_t limit = 0; limit <= (uint64_t)1 << 30; limit = limit ? limit * 64 : 1 << 18) {
        struct psti_shelf *shelf;
        struct psti_shelf_counts counts;
        struct pst_error err;
        struct bare a = {0}, b = {0};
        assert_ok(psti_loader_shelf_open(&shelf, &err));
        psti_loader_shelf_limit(shelf, limit);
        const struct pst_loader_options first = options_of(CROPS, 0), second = options_of(CROPS, 1);
        open_bare(&a, shelf, sets[JPEG_FILES], first);
        open_bare(&b, shelf, sets[JPEG_FILES], second);
        /* all of the epoch, before the other loader begins */
        drain_bare(&a, sets[JPEG_FILES], first, 0);
        psti_loader_shelf_counts(shelf, &counts);
        assert_true(counts.nbytes_kept <= limit);
        assert_int_equal(counts.n_decoded, N_SAMPLES);
        assert_int_equal(counts.n_given_up > 0, limit == 1 << 18);
        drain_bare(&b, sets[JPEG_FILES], second, 0);
        psti_loader_shelf_counts(shelf, &counts);
        assert_int_equal(counts.n_decoded + counts.n_decoded_shared, 2 * N_SAMPLES);
        assert_int_equal(counts.n_read + counts.n_read_shared, 2 * N_SAMPLES);
        if (limit > 1 << 24) {
            assert_int_equal(counts.n_decoded, N_SAMPLES);
            assert_int_equal(counts.n_read, N_SAMPLES);
            assert_int_equal(counts.nbytes_read_shared, counts.nbytes_read);
        }
        close_bare(&a);
        close_bare(&b);
        psti_loader_shelf_counts(shelf, &counts);
        assert_int_equal(counts.nbytes_kept, 0);
        psti_loader_shelf_close(&shelf);
    }
}

/* Small parts of large images are read by each loader itself, larger parts once for all. */
static void parts_of_large_images(void **state)
{
    (void)state;
    for (int small_first = 0; small_first < 2; small_first++) {
        struct psti_shelf *shelf;
        struct psti_shelf_counts counts;
        struct pst_error err;
        struct bare bare[2] = {{.loader = NULL}};
        struct pst_loader_options options[2];
        assert_ok(psti_loader_shelf_open(&shelf, &err));
        for (uint32_t j = 0; j < 2; j++) {
            bool small = (j == 0) == (small_first == 1);
            options[j] = options_of(COLOURS, j);
            kept[j].chain[0].scale[0] = small ? 0.02f : 0.4f;
            kept[j].chain[0].scale[1] = small ? 0.05f : 0.6f;
            open_bare(&bare[j], shelf, sets[LARGE], options[j]);
        }
        for (uint64_t epoch = 0; epoch < 4; epoch++)
            for (uint32_t j = 0; j < 2; j++)
                drain_bare(&bare[j], sets[LARGE], options[j], epoch);
        uint64_t n = pst_dataset_count(sets[LARGE]) * 4;
        psti_loader_shelf_counts(shelf, &counts);
        uint64_t n_partial =
            stats_of(bare[0].loader).n_partial_reads + stats_of(bare[1].loader).n_partial_reads;
        assert_int_equal(counts.n_decoded + counts.n_decoded_shared, 2 * n);
        assert_int_equal(counts.n_decoded, small_first ? 2 * n : n);
        assert_int_equal(n_partial > 0, small_first);
        close_bare(&bare[0]);
        close_bare(&bare[1]);
        psti_loader_shelf_close(&shelf);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, serve_fixture_open, serve_fixture_close)

/* With the argument "long": the tests that wait for seconds. */
int main(int argc, char **argv)
{
    const struct CMUnitTest long_tests[] = {TEST(a_sibling_that_stands_still_is_not_awaited)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siblings_read_and_decode_once),
        TEST(all_fields_are_shared),
        TEST(other_pixels_are_decoded_apart),
        TEST(groups_end_and_stand_still),
        TEST(bad_samples_are_as_alone),
        TEST(a_late_group_can_begin_with_the_next_epoch),
        TEST(groups_race),
        TEST(a_full_shelf_gives_up),
        TEST(parts_of_large_images),
    };
    alarm(600);
    if (argc > 1 && strcmp(argv[1], "long") == 0)
        return cmocka_run_group_tests(long_tests, set_up, tear_down);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
