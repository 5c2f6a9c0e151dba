/* test_serve_cache.c - tests loaders with the host cache: batches are those of a loader without it,
 * storage is read once for all loaders, hits are exactly the cached items, a loader replaces a lost
 * service by reading itself, and the status of the service is true. */
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

#include "base/clock.h"
#include "base/fault.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 64, MIB = 1 << 20, BATCH = 8, N_BATCHES = N / BATCH };

static void start(uint64_t cache_nbytes)
{
    const struct pst_service_options options = {
        .struct_size = sizeof options, .cache_nbytes = cache_nbytes, .n_threads = 2, .keep = true};
    serve_fixture_place(&fixture);
    serve_fixture_start(&fixture, &options);
}

static void stop(void)
{
    serve_fixture_stop(&fixture);
    serve_fixture_clear(&fixture);
}

static pst_dataset *open_images(const char *name, bool folder, enum make_images images)
{
    const struct make_options made = {.n_samples = N, .images = images, .all_fields = !folder};
    return folder ? open_made_folder(directory, name, 4, N / 4) : open_made(directory, name, &made);
}

static struct pst_loader_options plain(uint32_t workers, pst_cache *cache)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .num_workers = workers,
                                       .cache = cache};
}

static struct pst_service_status ask_status(void)
{
    struct pst_service_status status;
    pst_service_report *report;
    struct pst_error err;
    assert_ok(pst_service_report_open(fixture.socket, &report, &err));
    pst_service_report_status(report, &status, sizeof status);
    pst_service_report_close(&report);
    return status;
}

/* Runs three loaders side by side. Each gives the same batches as a loader without a service, and
 * the service reads each item once. */
static void check_loaders(pst_dataset *dataset, uint32_t workers)
{
    enum { N_LOADERS = 3 };
    uint64_t wanted[N], hashes[N];
    struct pst_loader_options options = plain(workers, NULL);
    pst_loader *alone = open_loader(dataset, &options), *loaders[N_LOADERS];
    start(64 * MIB);
    pst_cache *cache = serve_fixture_open_host();
    options.cache = cache;
    for (int i = 0; i < N_LOADERS; i++)
        loaders[i] = open_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        size_t n = run_epoch(alone, epoch, wanted);
        for (int i = 0; i < N_LOADERS; i++)
            begin_epoch(loaders[i], epoch); /* loaders with workers run at the same time */
        for (int i = 0; i < N_LOADERS; i++) {
            assert_int_equal(drain_epoch(loaders[i], NULL, hashes), n);
            assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        }
    }
    uint64_t n_hits = 0, n_misses = 0, n_fetched = 0, nbytes_fetched = 0;
    struct pst_loader_stats lone = stats_of(alone);
    for (int i = 0; i < N_LOADERS; i++) {
        struct pst_loader_stats now = stats_of(loaders[i]);
        n_hits += now.n_cache_hits;
        n_misses += now.n_cache_misses;
        n_fetched += now.n_cache_fetched;
        nbytes_fetched += now.nbytes_cache_fetched;
        assert_int_equal(now.n_reads, 0); /* the loaders themselves read nothing */
        assert_int_equal(now.cache_nbytes, 64 * MIB);
        assert_int_equal(now.n_cache_items, lone.n_reads / 3);
    }
    struct pst_service_status status = ask_status();
    assert_int_equal(n_misses, lone.n_reads / 3);
    assert_int_equal(n_fetched, n_misses);
    assert_int_equal(n_hits, N_LOADERS * lone.n_reads - n_misses);
    assert_int_equal(status.n_reads, n_misses);
    assert_int_equal(status.nbytes_read, nbytes_fetched);
    /* as much as one loader reads in one epoch */
    assert_int_equal(nbytes_fetched, lone.nbytes_read / 3);
    assert_int_equal(status.n_items, n_misses);
    for (int i = 0; i < N_LOADERS; i++)
        pst_loader_close(&loaders[i]);
    pst_loader_close(&alone);
    pst_cache_close(&cache);
    stop();
}

static void nothing_is_read_twice(void **state)
{
    (void)state;
    for (int folder = 0; folder < 2; folder++) {
        pst_dataset *dataset = open_images(folder ? "folder" : "packed", folder, MAKE_MIXED);
        for (uint32_t workers = 0; workers <= 4; workers += workers ? 3 : 1)
            check_loaders(dataset, workers);
        pst_dataset_close(&dataset);
    }
}

/* Two ranks read different samples of the same data set in each epoch. */
static void ranks_share_the_cache(void **state)
{
    enum { WORLD = 4 };
    uint64_t hashes[N], wanted[N];
    struct pst_error err;
    (void)state;
    pst_dataset *dataset = open_images("ranks", false, MAKE_JPEG);
    start(64 * MIB);
    pst_cache *cache = serve_fixture_open_host();
    pst_loader *ranks[WORLD], *alone[WORLD];
    for (uint32_t r = 0; r < WORLD; r++) {
        struct pst_loader_options options = plain(2, cache);
        options.batch_size = 4;
        options.rank = r;
        options.world_size = WORLD;
        ranks[r] = open_loader(dataset, &options);
        options.cache = NULL;
        alone[r] = open_loader(dataset, &options);
    }
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint64_t before = ask_status().n_reads;
        for (uint32_t r = 0; r < WORLD; r++)
            begin_epoch(ranks[r], epoch);
        for (uint32_t r = 0; r < WORLD; r++) {
            size_t n = run_epoch(alone[r], epoch, wanted);
            assert_int_equal(drain_epoch(ranks[r], NULL, hashes), n);
            assert_memory_equal(hashes, wanted, n * sizeof *hashes);
        }
        if (epoch > 0)
            assert_int_equal(ask_status().n_reads, before);
    }
    for (uint32_t r = 0; r < WORLD; r++) {
        pst_loader_close(&ranks[r]);
        pst_loader_close(&alone[r]);
    }
    (void)err;
    pst_cache_close(&cache);
    stop();
    pst_dataset_close(&dataset);
}

/* The cache is too small: reads hit exactly the cached items, and the loader reads the others
 * itself. */
static void hits_are_what_is_kept(void **state)
{
    uint64_t hashes[N], wanted[N];
    (void)state;
    const struct make_options made = {.n_samples = 12 * N, .images = MAKE_MIXED};
    pst_dataset *dataset = open_made(directory, "large", &made);
    for (uint32_t workers = 0; workers < 3; workers += 2) {
        start(MIB);
        pst_cache *cache = serve_fixture_open_host();
        struct pst_loader_options options = plain(workers, NULL);
        options.batch_size = 32;
        pst_loader *alone = open_loader(dataset, &options);
        options.cache = cache;
        pst_loader *loader = open_loader(dataset, &options);
        struct pst_loader_stats before = stats_of(loader);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            begin_epoch(alone, epoch);
            begin_epoch(loader, epoch);
            size_t n = drain_epoch(alone, NULL, wanted);
            assert_int_equal(drain_epoch(loader, NULL, hashes), n);
            assert_memory_equal(hashes, wanted, n * sizeof *hashes);
            struct pst_loader_stats now = stats_of(loader);
            assert_true(now.n_cache_items > 0 && now.n_cache_items < 12 * N);
            if (epoch > 0) {
                assert_int_equal(now.n_cache_hits - before.n_cache_hits, before.n_cache_items);
                assert_int_equal(now.n_reads - before.n_reads, 12 * N - before.n_cache_items);
                assert_int_equal(now.n_cache_items, before.n_cache_items);
            } else {
                assert_int_equal(now.n_cache_fetched, now.n_cache_items);
                assert_int_equal(now.n_reads, 12 * N - now.n_cache_items);
            }
            before = now;
        }
        assert_int_equal(before.fallbacks[PST_FALLBACK_HOST], 0);
        struct pst_service_status status = ask_status();
        assert_true(status.cache_nbytes_used <= MIB);
        pst_loader_close(&loader);
        pst_loader_close(&alone);
        pst_cache_close(&cache);
        stop();
    }
    pst_dataset_close(&dataset);
}

/* The service ends in the middle of an epoch. Another one is found at a later epoch. */
static void a_lost_service_costs_nothing_but_reads(void **state)
{
    (void)state;
    pst_dataset *dataset = open_images("lost", false, MAKE_MIXED);
    for (uint32_t workers = 0; workers < 3; workers += 2) {
        uint64_t wanted[3][N], hashes[N];
        struct pst_loader_options options = plain(workers, NULL);
        options.prefetch = 2;
        pst_loader *alone = open_loader(dataset, &options);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            assert_int_equal(run_epoch(alone, epoch, wanted[epoch]), N_BATCHES);
        }
        start(64 * MIB);
        options.cache = serve_fixture_open_host();
        pst_loader *loader = open_loader(dataset, &options);
        begin_epoch(loader, 0);
        for (int i = 0; i < 3; i++) {
            pst_batch *batch;
            struct pst_error err;
            assert_ok(pst_loader_next(loader, &batch, &err));
            assert_int_equal(hash_batch(batch), wanted[0][i]);
            pst_batch_release(batch);
        }
        serve_fixture_stop(&fixture);
        assert_int_equal(drain_epoch(loader, NULL, hashes), N_BATCHES - 3);
        assert_memory_equal(hashes, wanted[0] + 3, (N_BATCHES - 3) * sizeof *hashes);
        struct pst_loader_stats lost = stats_of(loader);
        assert_true(lost.fallbacks[PST_FALLBACK_HOST] > 0);
        begin_epoch(loader, 1); /* still without */
        assert_int_equal(drain_epoch(loader, NULL, hashes), N_BATCHES);
        assert_memory_equal(hashes, wanted[1], sizeof wanted[1][0] * N_BATCHES);
        struct pst_loader_stats without = stats_of(loader);
        /* the memory that the loader has mapped stays usable */
        assert_true(without.n_cache_hits > lost.n_cache_hits);
        serve_fixture_start(&fixture, NULL);
        assert_int_equal(run_epoch(loader, 2, hashes), N_BATCHES);
        assert_memory_equal(hashes, wanted[2], sizeof wanted[2][0] * N_BATCHES);
        struct pst_loader_stats again = stats_of(loader);
        assert_int_equal(again.fallbacks[PST_FALLBACK_HOST], without.fallbacks[PST_FALLBACK_HOST]);
        assert_int_equal(again.n_reads, without.n_reads);
        assert_true(again.n_cache_fetched > without.n_cache_fetched);
        pst_loader_close(&loader);
        pst_loader_close(&alone);
        pst_cache_close(&options.cache);
        stop();
    }
    pst_dataset_close(&dataset);
}

static void jpegs_are_kept_as_pli(void **state)
{
    uint64_t hashes[N], wanted[N];
    (void)state;
    pst_dataset *dataset = open_images("jpegs", true, MAKE_JPEG);
    struct pst_loader_options options = plain(2, NULL);
    pst_loader *alone = open_loader(dataset, &options);
    start(64 * MIB);
    options.cache = serve_fixture_open_host();
    options.cache_form = PST_CACHE_FORM_PLI_JPEG;
    pst_loader *loader = open_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        begin_epoch(alone, epoch);
        begin_epoch(loader, epoch);
        size_t n = drain_epoch(alone, NULL, wanted);
        assert_int_equal(drain_epoch(loader, NULL, hashes), n);
        assert_memory_equal(hashes, wanted, n * sizeof *hashes);
    }
    pst_service_report *report;
    struct pst_service_set set;
    struct pst_error err;
    assert_ok(pst_service_report_open(fixture.socket, &report, &err));
    assert_ok(pst_service_report_set(report, 0, &set, sizeof set, &err));
    assert_true(set.forms != 0);
    assert_true(set.n_recoded > 0 && set.n_recoded <= set.n_items);
    pst_service_report_close(&report);
    pst_loader_close(&loader);
    pst_loader_close(&alone);
    pst_cache_close(&options.cache);
    stop();
    pst_dataset_close(&dataset);
}

/* The service resizes pictures to the training size as the loader's chain demands. Masks that
 * follow an image keep their size. A loader whose chain begins differently uses another set of
 * items. */
static void pictures_at_the_training_size(void **state)
{
    struct augmented kept;
    uint64_t wanted[2][N], hashes[N];
    (void)state;
    pst_dataset *dataset = open_images("training", false, MAKE_MIXED);
    struct pst_loader_options options = augmented_options(&kept, 20, 20);
    struct pst_op ops[] = {kept.chain[0], kept.chain[0], kept.chain[1], kept.chain[2],
                           kept.chain[3]};
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RESIZE);
    ops[0].height = 24;
    kept.outputs[0].ops = ops;
    kept.outputs[0].n_ops = 5;
    kept.outputs[1].n_ops = 0;
    options.batch_size = BATCH;
    pst_loader *alone = open_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(run_epoch(alone, epoch, wanted[epoch]), N_BATCHES);
    }
    start(64 * MIB);
    options.cache = serve_fixture_open_host();
    options.cache_resolution = PST_CACHE_RESOLUTION_TRAINING;
    for (int first = 0; first < 2; first++) {
        options.cache_form = first ? PST_CACHE_FORM_RAW : PST_CACHE_FORM_STORED;
        pst_loader *loaders[] = {open_loader(dataset, &options), open_loader(dataset, &options)};
        for (int i = 0; i < 4; i++) {
            begin_epoch(loaders[i % 2], (uint64_t)i / 2);
            assert_int_equal(drain_epoch(loaders[i % 2], NULL, hashes), N_BATCHES);
            assert_memory_equal(hashes, wanted[i / 2], sizeof hashes[0] * N_BATCHES);
        }
        struct pst_loader_stats stats = stats_of(loaders[1]);
        assert_int_equal(stats.n_reads, 0);
        assert_int_equal(stats_of(loaders[0]).n_cache_recoded, first ? 2 * N : N);
        assert_true(stats.n_cache_training_hits > 0);
        assert_true(stats.n_cache_training_hits <= 2 * N); /* images, in two epochs */
        pst_loader_close(&loaders[0]);
        pst_loader_close(&loaders[1]);
    }
    pst_loader_close(&alone);
    pst_cache_close(&options.cache);
    stop();
    pst_dataset_close(&dataset);
}

/* Items that the service re-codes are counted by the loaders that caused it, as if they had
 * re-coded the items themselves. */
static void recoding_is_counted(void **state)
{
    uint64_t hashes[N];
    struct pst_error err;
    (void)state;
    pst_dataset *dataset = open_images("counted", false, MAKE_MIXED);
    static const enum pst_cache_form forms[] = {PST_CACHE_FORM_PLI_JPEG, PST_CACHE_FORM_PLI};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct pst_loader_options options = plain(2, NULL);
        const struct pst_cache_options own = {.struct_size = sizeof own, .nbytes = 64 * MIB};
        assert_ok(pst_cache_open(&own, &options.cache, &err));
        options.cache_form = forms[i];
        pst_cache *private = options.cache;
        pst_loader *alone = open_loader(dataset, &options), *loaders[2];
        run_epoch(alone, 0, hashes);
        struct pst_loader_stats wanted = stats_of(alone), sum = {0};
        assert_true(wanted.n_cache_recoded > 0);
        start(64 * MIB);
        options.cache = serve_fixture_open_host();
        for (int k = 0; k < 2; k++)
            loaders[k] = open_loader(dataset, &options);
        for (int k = 0; k < 2; k++)
            begin_epoch(loaders[k], (uint64_t)k);
        for (int k = 0; k < 2; k++) {
            drain_epoch(loaders[k], NULL, hashes);
            struct pst_loader_stats one = stats_of(loaders[k]);
            sum.n_cache_recoded += one.n_cache_recoded;
            sum.nbytes_cache_saved += one.nbytes_cache_saved;
            sum.n_cache_not_recoded += one.n_cache_not_recoded;
            assert_int_equal(one.n_cache_not_recoded, one.fallbacks[PST_FALLBACK_CACHE_FORM]);
            pst_loader_close(&loaders[k]);
        }
        assert_int_equal(sum.n_cache_recoded, wanted.n_cache_recoded);
        assert_int_equal(sum.nbytes_cache_saved, wanted.nbytes_cache_saved);
        assert_int_equal(sum.n_cache_not_recoded, wanted.n_cache_not_recoded);
        pst_loader_close(&alone);
        pst_cache_close(&options.cache);
        pst_cache_close(&private);
        stop();
    }
    pst_dataset_close(&dataset);
}

/* Opens a loader that must be refused. Returns the status. */
static enum pst_status refuse(pst_dataset *dataset, pst_cache *cache, struct pst_error *err)
{
    const struct pst_loader_options options = plain(1, cache);
    pst_loader *loader = NULL;
    enum pst_status status = pst_loader_open(dataset, &options, &loader, err);
    assert_true(status != PST_OK);
    assert_null(loader);
    return status;
}

static void data_sets_that_changed_are_refused(void **state)
{
    char path[256];
    struct pst_error err;
    (void)state;
    pst_dataset *dataset = open_images("changing", true, MAKE_JPEG);
    start(64 * MIB);
    pst_cache *cache = serve_fixture_open_host();
    struct pst_item item;
    assert_ok(pst_dataset_item(dataset, 5, 0, 0, &item, sizeof item, &err));
    assert_ok(pst_dataset_file_path(dataset, item.i_file, path, sizeof path, &err));
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
    assert_int_equal(refuse(dataset, cache, &err), PST_ERROR_STATE);
    assert_non_null(strstr(err.text, "changed"));
    assert_string_equal(err.dataset, pst_dataset_path(dataset));
    assert_int_equal(ask_status().n_sets, 0);
    pst_cache_close(&cache);
    stop();
    pst_dataset_close(&dataset);
}

/* A data set in use is never evicted. Data sets without loaders are evicted as a whole, the oldest
 * first. */
static void sets_give_way_whole(void **state)
{
    uint64_t hashes[N];
    struct pst_error err;
    (void)state;
    const struct make_options made = {.n_samples = 4 * N, .images = MAKE_MIXED};
    pst_dataset *first = open_made(directory, "first", &made);
    const struct make_options longer = {.n_samples = 4 * N + 1, .images = MAKE_MIXED};
    /* the same data set would be shared */
    pst_dataset *second = open_made(directory, "second", &longer);
    start(MIB);
    struct pst_loader_options options = plain(2, serve_fixture_open_host());
    options.batch_size = 32;
    pst_loader *loader = open_loader(first, &options);
    run_epoch(loader, 0, hashes);
    uint64_t n_first = stats_of(loader).n_cache_items;
    pst_loader *other = open_loader(second, &options);
    run_epoch(other, 0, hashes);
    assert_true(stats_of(other).n_cache_items < n_first / 4);
    assert_int_equal(stats_of(loader).n_cache_items, n_first);
    /* the first data set may now be evicted; the second loader learns of it */
    pst_loader_close(&loader);
    int64_t deadline = psti_clock_ns() + (int64_t)60000000000;
    do {
        run_epoch(other, 1, hashes);
    } while (stats_of(other).n_cache_items < n_first / 2 && psti_clock_ns() < deadline);
    assert_true(stats_of(other).n_cache_items >= n_first / 2);
    assert_int_equal(ask_status().n_sets, 1);
    pst_loader_close(&other);
    uint64_t nbytes = 0;
    deadline = psti_clock_ns() + (int64_t)60000000000;
    while (nbytes == 0 && psti_clock_ns() < deadline) /* until the service has seen the end */
        assert_ok(pst_service_clear(fixture.socket, &nbytes, &err));
    assert_true(nbytes > MIB / 2);
    assert_int_equal(ask_status().cache_nbytes_used, 0);
    assert_int_equal(ask_status().n_sets, 0);
    pst_cache_close(&options.cache);
    stop();
    pst_dataset_close(&first);
    pst_dataset_close(&second);
}

/* If a data set's table does not fit, it is refused, and the error names the data sets that hold
 * the memory. */
static void a_refusal_says_who_holds_what(void **state)
{
    uint64_t hashes[N];
    struct pst_error err;
    (void)state;
    const struct make_options made = {.n_samples = 4 * N, .images = MAKE_MIXED};
    pst_dataset *held = open_made(directory, "held", &made), *large;
    char path[128];
    snprintf(path, sizeof path, "%s/numbers", directory);
    const struct pst_field field = {.name = "text", .type = PST_FIELD_TEXT, .n_variants = 1};
    const struct pst_writer_options writer_options = {.struct_size = sizeof writer_options};
    pst_writer *writer;
    assert_ok(pst_writer_open(path, &field, 1, &writer_options, &writer, &err));
    for (uint32_t i = 0; i < 140000; i++) {
        char name[16];
        const struct pst_value text = {.bytes = "t", .nbytes = 1};
        snprintf(name, sizeof name, "%u", i);
        add_sample(writer, name, (const struct pst_value *[]){&text});
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(path, NULL, &large, &err));
    start(MIB);
    struct pst_loader_options options = plain(1, serve_fixture_open_host());
    options.batch_size = 32;
    pst_loader *loader = open_loader(held, &options);
    run_epoch(loader, 0, hashes);
    const struct pst_cache_host_options strict = {
        .struct_size = sizeof strict, .socket = fixture.socket, .strict = true};
    pst_cache *must;
    assert_ok(pst_cache_open_host(&strict, &must, &err));
    assert_int_equal(refuse(large, must, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "held"));
    assert_non_null(strstr(err.text, "1 loader"));
    pst_cache_close(&must);
    /* A loader that can do without the cache runs on, and reports why it does not use it. */
    struct pst_loader_options all = plain(1, options.cache);
    all.batch_size = 10000;
    pst_loader *other = open_loader(large, &all);
    assert_int_equal(run_epoch(other, 0, hashes), 14);
    assert_non_null(strstr(stats_of(other).host_reason, "1 loader"));
    assert_int_equal(stats_of(other).fallbacks[PST_FALLBACK_HOST], 140000);
    pst_loader_close(&other);
    pst_loader_close(&loader);
    pst_cache_close(&options.cache);
    stop();
    pst_dataset_close(&held);
    pst_dataset_close(&large);
}

static void a_report_is_true(void **state)
{
    uint64_t hashes[N];
    struct pst_service_set set;
    struct pst_service_session session;
    struct pst_service_status status;
    pst_service_report *report;
    struct pst_error err;
    (void)state;
    pst_dataset *dataset = open_images("report", true, MAKE_JPEG);
    start(64 * MIB);
    struct pst_loader_options options = plain(2, serve_fixture_open_host());
    pst_loader *loader = open_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        run_epoch(loader, epoch, hashes);
    }
    int64_t deadline = psti_clock_ns() + (int64_t)60000000000;
    do { /* the client reports its counts once a second */
        assert_ok(pst_service_report_open(fixture.socket, &report, &err));
        pst_service_report_status(report, &status, sizeof status);
        assert_int_equal(status.n_sessions, 2); /* sessions: the loader's, and the one that asks */
        assert_ok(pst_service_report_session(report, 0, &session, sizeof session, &err));
        if (strcmp(session.kind, "cache") != 0)
            assert_ok(pst_service_report_session(report, 1, &session, sizeof session, &err));
        assert_ok(pst_service_report_set(report, 0, &set, sizeof set, &err));
        assert_int_equal(pst_service_report_set(report, 1, &set, sizeof set, &err),
                         PST_ERROR_ARGUMENT);
        assert_int_equal(pst_service_report_session(report, 2, &session, sizeof session, &err),
                         PST_ERROR_ARGUMENT);
        pst_service_report_close(&report);
    } while (session.n_hits < N && psti_clock_ns() < deadline);
    assert_string_equal(session.kind, "cache");
    assert_string_equal(session.dataset, pst_dataset_path(dataset));
    assert_int_equal(session.pid, getpid());
    assert_int_equal(session.n_hits, N);
    assert_int_equal(session.n_fetched, N);
    assert_int_equal(session.n_missed, 0);
    assert_string_equal(set.path, pst_dataset_path(dataset));
    assert_int_equal(set.n_samples, N);
    assert_int_equal(set.n_items, N);
    assert_int_equal(set.n_loaders, 1);
    assert_int_equal(status.pid, getpid());
    assert_int_equal(status.n_items, N);
    assert_int_equal(status.n_threads, 2);
    assert_true(status.keep && status.cache_nbytes == 64 * MIB);
    struct pst_cache_stats stats;
    pst_cache_stats(options.cache, &stats, sizeof stats);
    assert_int_equal(stats.n_items, N);
    assert_int_equal(stats.nbytes, 64 * MIB);
    pst_loader_close(&loader);
    pst_cache_close(&options.cache);
    stop();
    pst_dataset_close(&dataset);
}

static void a_saved_host_cache_is_warm(void **state)
{
    uint64_t hashes[N];
    char path[128];
    struct pst_cache_file_report report;
    struct pst_error err;
    (void)state;
    snprintf(path, sizeof path, "%s/saved", directory);
    pst_dataset *dataset = open_images("saved-set", false, MAKE_MIXED);
    uint64_t n_items = 0;
    for (int round = 0; round < 2; round++) {
        start(64 * MIB);
        struct pst_loader_options options = plain(2, serve_fixture_open_host());
        if (round == 1) {
            assert_ok(pst_cache_load(options.cache, path, &report, sizeof report, &err));
            assert_int_equal(report.n_items, n_items);
        }
        pst_loader *loader = open_loader(dataset, &options);
        run_epoch(loader, 0, hashes);
        struct pst_loader_stats stats = stats_of(loader);
        assert_true(round == 1 ? stats.n_cache_misses == 0 : stats.n_cache_hits == 0);
        n_items = stats.n_cache_items;
        pst_loader_close(&loader);
        if (round == 0) { /* data sets without loaders are saved, too */
            assert_ok(pst_cache_save(options.cache, path, &report, sizeof report, &err));
            assert_int_equal(report.n_items, n_items);
            assert_int_equal(
                pst_cache_load(options.cache, "/no/such/file", &report, sizeof report, &err),
                PST_ERROR_NOT_FOUND);
        }
        pst_cache_close(&options.cache);
        stop();
    }
    pst_dataset_close(&dataset);
}

static void no_service_is_said_clearly(void **state)
{
    const struct pst_cache_host_options options = {.struct_size = sizeof options,
                                                   .socket = "/tmp/no-such-place/host.sock"};
    const struct pst_cache_host_options starts = {.struct_size = sizeof starts,
                                                  .socket = "/tmp/no-such-place/host.sock",
                                                  .program = "/no/such/program"};
    pst_cache *cache;
    pst_service_report *report;
    struct pst_error err;
    (void)state;
    assert_int_equal(pst_cache_open_host(&options, &cache, &err), PST_ERROR_NOT_FOUND);
    assert_non_null(strstr(err.text, "penstock serve"));
    assert_int_equal(pst_cache_open_host(&starts, &cache, &err), PST_ERROR_NOT_FOUND);
    assert_string_equal(err.file, "/no/such/program");
    assert_null(cache);
    assert_int_equal(pst_service_report_open(options.socket, &report, &err), PST_ERROR_NOT_FOUND);
    assert_int_equal(pst_service_end(options.socket, &err), PST_ERROR_NOT_FOUND);
    assert_int_equal(pst_service_clear(options.socket, NULL, &err), PST_ERROR_NOT_FOUND);
}

static void a_service_can_be_ended(void **state)
{
    struct pst_error err;
    (void)state;
    start(MIB);
    assert_ok(pst_service_end(fixture.socket, &err));
    pthread_join(fixture.thread, NULL);
    assert_int_equal(fixture.ended, PST_OK);
    pst_service_close(&fixture.service);
    serve_fixture_clear(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_read_twice),
        cmocka_unit_test(ranks_share_the_cache),
        cmocka_unit_test(hits_are_what_is_kept),
        cmocka_unit_test(a_lost_service_costs_nothing_but_reads),
        cmocka_unit_test(jpegs_are_kept_as_pli),
        cmocka_unit_test(pictures_at_the_training_size),
        cmocka_unit_test(recoding_is_counted),
        cmocka_unit_test(data_sets_that_changed_are_refused),
        cmocka_unit_test(sets_give_way_whole),
        cmocka_unit_test(a_refusal_says_who_holds_what),
        cmocka_unit_test(a_report_is_true),
        cmocka_unit_test(a_saved_host_cache_is_warm),
        cmocka_unit_test(no_service_is_said_clearly),
        cmocka_unit_test(a_service_can_be_ended),
    };
    return cmocka_run_group_tests(tests, directory_set_up, directory_tear_down);
}
