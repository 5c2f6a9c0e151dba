/* test_loader_fleet.c - tests loaders that use a fleet of servers: batches equal those without a
 * fleet, whatever the servers do; all ranks together read each item once, and nothing from the
 * second epoch on if the servers' memory holds the data set; no item is held twice on this host.
 *
 * With the argument "slow", servers are killed and stopped at 200 random moments. */
#include "../decode/decode_make.h"
#include "cache/cache_fixture.h"
#include "fleet/fleet_fixture.h"
#include "loader/loader_fixture.h"

#include "base/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 96, BATCH = 8, N_BATCHES = N / BATCH, SERVERS = 3, MIB = 1 << 20 };

static struct server servers[SERVERS];
static unsigned n_faults = 6;

static const char *at(const char *name)
{
    static char paths[16][128];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, 128, "%s/%s", directory, name);
    return path;
}

static void start_servers(unsigned megabytes)
{
    static const char *const names[SERVERS] = {"a.sock", "b.sock", "c.sock"};
    for (int i = 0; i < SERVERS; i++)
        start_server(&servers[i], at(names[i]), megabytes, (char *)NULL);
}

static void end_servers(void)
{
    for (int i = 0; i < SERVERS; i++)
        end_server(&servers[i], SIGKILL);
}

/* Starts empty servers for every test. */
static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    start_servers(64);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    end_servers();
    remove_tree(directory);
    return 0;
}

static pst_fleet *open_ours(double timeout_seconds)
{
    char list[1024];
    return open_fleet(list_of(servers, SERVERS, list), timeout_seconds, 16384);
}

static struct pst_loader_options plain(uint32_t workers, pst_fleet *fleet, pst_cache *cache)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .num_workers = workers,
                                       .fleet = fleet,
                                       .cache = cache};
}

/* Makes a data set unlike all others, because the fleet would still hold the items of an equal
 * one. */
static pst_dataset *make(const char *name, enum make_images images, bool folder)
{
    static uint32_t n_made;
    const struct make_options made = {.n_samples = N, .images = images, .edition = ++n_made};
    return folder ? open_made_folder(directory, name, 4, N / 4) : open_made(directory, name, &made);
}

/* Hashes the batches that a loader without a fleet delivers in an epoch. */
static void wanted_of(pst_dataset *dataset, struct pst_loader_options options, uint64_t epoch,
                      uint64_t *hashes)
{
    options.fleet = NULL;
    options.cache = NULL;
    options.cache_form = PST_CACHE_FORM_STORED;
    drain_alone(dataset, options, epoch, hashes);
}

/* Runs an epoch and compares its batches. Returns the number of reads from storage. */
static uint64_t run(pst_loader *loader, pst_dataset *dataset,
                    const struct pst_loader_options *options, uint64_t epoch)
{
    uint64_t hashes[2 * N_BATCHES], wanted[2 * N_BATCHES], before = stats_of(loader).n_reads;
    wanted_of(dataset, *options, epoch, wanted);
    size_t n = run_epoch(loader, epoch, hashes);
    assert_int_equal(n, pst_dataset_count(dataset) / BATCH /
                            (options->world_size ? options->world_size : 1));
    assert_memory_equal(hashes, wanted, n * sizeof *hashes);
    return stats_of(loader).n_reads - before;
}

/* Runs two ranks, each with a client of its own for the same servers, like two processes. */
static void check_ranks(pst_dataset *dataset, uint32_t workers)
{
    pst_fleet *fleets[2] = {open_ours(30), open_ours(30)};
    struct pst_loader_options options[2];
    pst_loader *loaders[2];
    for (uint32_t r = 0; r < 2; r++) {
        options[r] = plain(workers, fleets[r], NULL);
        options[r].rank = r;
        options[r].world_size = 2;
        loaders[r] = open_loader(dataset, &options[r]);
    }
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        for (int r = 0; r < 2; r++)
            assert_int_equal(run(loaders[r], dataset, &options[r], epoch), epoch ? 0 : N / 2);
    for (int r = 0; r < 2; r++) {
        struct pst_loader_stats stats = stats_of(loaders[r]);
        const struct pst_tier_stats *fleet = &stats.tiers[PST_TIER_FLEET];
        const struct pst_tier_stats *storage = &stats.tiers[PST_TIER_STORAGE];
        assert_int_equal(fleet->n_hits, N);
        assert_int_equal(storage->n_hits, N / 2);
        assert_int_equal(storage->nbytes, stats.nbytes_read);
        assert_true(fleet->nbytes > 0 && fleet->mean_ns > 0 && fleet->bytes_per_second > 0);
        assert_true(storage->mean_ns > 0 && storage->p99_ns > 0 && storage->bytes_per_second > 0);
        assert_int_equal(stats.tiers[PST_TIER_MEMORY].n_hits, 0);
        for (int kind = PST_FALLBACK_FLEET_SERVER; kind <= PST_FALLBACK_FLEET_BUSY; kind++)
            assert_int_equal(stats.fallbacks[kind], 0);
        pst_loader_close(&loaders[r]);
        struct pst_fleet_stats use = fleet_use(fleets[r]);
        assert_int_equal(use.n_added, N / 2);
        assert_int_equal(use.n_hits, N);
        pst_fleet_close(&fleets[r]);
    }
}

static void test_ranks_read_once(void **state)
{
    (void)state;
    static const char *const names[] = {"one", "two", "three", "four"};
    int n = 0;
    for (uint32_t workers = 0; workers < 4; workers += workers ? 2 : 1) {
        pst_dataset *dataset = make(names[n], MAKE_MIXED, n % 2);
        check_ranks(dataset, workers);
        pst_dataset_close(&dataset);
        n++;
    }
}

/* Servers on this host hold all items, so a cache in the process stays empty. */
static void test_nothing_twice(void **state)
{
    (void)state;
    pst_dataset *dataset = make("data", MAKE_RAW_SAME, false);
    pst_fleet *fleet = open_ours(30);
    pst_cache *cache = open_cache(16 * MIB);
    struct pst_loader_options options = plain(2, fleet, cache);
    pst_loader *loader = open_loader(dataset, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        assert_int_equal(run(loader, dataset, &options, epoch), epoch ? 0 : N);
    assert_int_equal(stats_of(loader).n_cache_items, 0);
    /* the cache holds only its table and no reservation */
    assert_int_equal(use_of(cache).nbytes_used, N * 8);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    pst_fleet_close(&fleet);
    pst_dataset_close(&dataset);
}

/* Items that belong to a dead server are kept in the cache, and nowhere else. */
static void test_cache_has_the_rest(void **state)
{
    (void)state;
    pst_dataset *dataset = make("data", MAKE_RAW_SAME, false);
    end_server(&servers[1], SIGKILL);
    pst_fleet *fleet = open_ours(30);
    pst_cache *cache = open_cache(16 * MIB);
    struct pst_loader_options options = plain(3, fleet, cache);
    pst_loader *loader = open_loader(dataset, &options);
    assert_int_equal(run(loader, dataset, &options, 0), N);
    struct pst_fleet_stats use = fleet_use(fleet);
    struct pst_loader_stats stats = stats_of(loader);
    assert_int_equal(use.n_servers_up, 2);
    assert_in_range(use.n_added, N / 3, N - 1);
    assert_int_equal(stats.n_cache_items, N - use.n_added);
    assert_int_equal(stats.fallbacks[PST_FALLBACK_FLEET_SERVER], N - use.n_added);
    for (uint64_t epoch = 1; epoch < 3; epoch++)
        assert_int_equal(run(loader, dataset, &options, epoch), 0);
    stats = stats_of(loader);
    assert_int_equal(stats.tiers[PST_TIER_MEMORY].n_hits, 2 * (N - use.n_added));
    assert_int_equal(stats.tiers[PST_TIER_FLEET].n_hits, 2 * use.n_added);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    pst_fleet_close(&fleet);
    pst_dataset_close(&dataset);
}

/* The servers are too small for the data set. Items that they refuse are read again, or kept by a
 * cache. A refusal is not counted as an error of a server. */
static void test_full_servers(void **state)
{
    (void)state;
    enum { SIDE = 360, N_BIG = 96 };
    const struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    const struct pst_writer_options made = {.struct_size = sizeof made};
    pst_writer *writer;
    pst_dataset *dataset;
    struct pst_error err;
    assert_ok(pst_writer_open(at("big"), &field, 1, &made, &writer, &err));
    uint8_t *pixels = malloc((size_t)SIDE * SIDE * 3);
    for (uint32_t i = 0; i < N_BIG; i++) {
        char name[16];
        make_pixels(i, SIDE, SIDE, pixels);
        const struct pst_value value = {.form = PST_FORM_RAW,
                                        .bytes = pixels,
                                        .nbytes = (size_t)SIDE * SIDE * 3,
                                        .height = SIDE,
                                        .width = SIDE,
                                        .channels = 3,
                                        .bits = 8};
        const struct pst_value *const values[] = {&value};
        snprintf(name, sizeof name, "%u", i);
        add_sample(writer, name, values);
    }
    free(pixels);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    assert_ok(pst_dataset_open(at("big"), NULL, &dataset, &err));
    end_servers();
    start_servers(4);
    pst_fleet *fleet = open_ours(30);
    struct pst_loader_options options = plain(2, fleet, NULL);
    pst_loader *loader = open_loader(dataset, &options);
    assert_int_equal(run(loader, dataset, &options, 0), N_BIG);
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_true(use.n_added > 5 && use.n_added < N_BIG - 20 && use.n_full > 0);
    assert_int_equal(use.n_lost, 0);
    for (uint64_t epoch = 1; epoch < 3; epoch++)
        assert_int_equal(run(loader, dataset, &options, epoch),
                         N_BIG - (use = fleet_use(fleet)).n_added);
    assert_true(stats_of(loader).fallbacks[PST_FALLBACK_FLEET_FULL] > 0);
    pst_loader_close(&loader);
    pst_cache *cache = open_cache(128 * MIB);
    options.cache = cache;
    loader = open_loader(dataset, &options);
    (void)run(loader, dataset, &options, 3);
    assert_int_equal(run(loader, dataset, &options, 4), 0);
    use = fleet_use(fleet);
    assert_int_equal(stats_of(loader).n_cache_items + use.n_added, N_BIG);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    pst_fleet_close(&fleet);
    pst_dataset_close(&dataset);
}

static const struct pst_field_output image = {.name = "image"};

/* Makes and opens a folder of JPEGs. */
static pst_dataset *open_jpegs(void)
{
    pst_dataset *dataset = NULL;
    struct pst_error err;
    assert_int_equal(mkdir(at("jpegs"), 0700), 0);
    for (uint32_t i = 0; i < N; i++) {
        const struct jpeg_spec spec = {.height = 97,
                                       .width = 131 + i % 7,
                                       .colours = COLOURS_YCC,
                                       .h = 2,
                                       .v = 2,
                                       .quality = 90};
        char path[200];
        struct bytes jpeg = make_jpeg(&spec, i);
        snprintf(path, sizeof path, "%s/%02u.jpg", at("jpegs"), i);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(jpeg.data, 1, jpeg.nbytes, file), jpeg.nbytes);
        fclose(file);
        bytes_free(&jpeg);
    }
    assert_ok(pst_dataset_open(at("jpegs"), NULL, &dataset, &err));
    return dataset;
}

static struct pst_loader_options images_only(uint32_t workers, pst_fleet *fleet)
{
    struct pst_loader_options options = plain(workers, fleet, NULL);
    options.only_listed = true;
    options.fields = &image;
    options.n_fields = 1;
    options.field_nbytes = sizeof image;
    options.op_nbytes = sizeof(struct pst_op);
    return options;
}

/* JPEGs are re-coded for the fleet. A loader that delivers stored bytes never gets re-coded
 * ones. */
static void test_recoded(void **state)
{
    (void)state;
    pst_dataset *dataset = open_jpegs();
    pst_fleet *fleet = open_ours(30);
    struct pst_loader_options options = images_only(2, fleet);
    options.cache_form = PST_CACHE_FORM_PLI_JPEG;
    pst_loader *loader = open_loader(dataset, &options);
    assert_int_equal(run(loader, dataset, &options, 0), N);
    uint64_t n_bytes_stored = stats_of(loader).nbytes_read;
    assert_int_equal(run(loader, dataset, &options, 1), 0);
    struct pst_loader_stats stats = stats_of(loader);
    assert_true(stats.n_cache_recoded > 0);
    assert_int_equal(stats.tiers[PST_TIER_FLEET].nbytes, n_bytes_stored - stats.nbytes_cache_saved);
    pst_loader_close(&loader);
    options.cache_form = PST_CACHE_FORM_STORED;
    loader = open_loader(dataset, &options);
    assert_int_equal(run(loader, dataset, &options, 2), N);
    assert_int_equal(run(loader, dataset, &options, 3), 0);
    pst_loader_close(&loader);
    pst_fleet_close(&fleet);
    pst_dataset_close(&dataset);
}

/* A fleet holds two data sets, and then one that was written again at the same path. */
static void test_other_data(void **state)
{
    (void)state;
    pst_fleet *fleet = open_ours(30);
    struct pst_loader_options options = plain(2, fleet, NULL);
    for (int i = 0; i < 3; i++) {
        pst_dataset *dataset =
            make(i == 1 ? "second" : "first", i ? MAKE_PNG : MAKE_RAW_SAME, false);
        pst_loader *loader = open_loader(dataset, &options);
        assert_int_equal(run(loader, dataset, &options, 0), N);
        assert_int_equal(run(loader, dataset, &options, 1), 0);
        pst_loader_close(&loader);
        pst_dataset_close(&dataset);
        if (i == 0)
            remove_tree(at("first"));
    }
    pst_fleet_close(&fleet);
}

/* Opens two data sets, and a mixture of them whose first source is the second one. */
static pst_dataset *open_both(pst_dataset *sets[2])
{
    struct pst_error err;
    pst_dataset *mixture;
    sets[0] = make("one", MAKE_MIXED, false);
    sets[1] = make("two", MAKE_PNG, false);
    const struct pst_mixture_source sources[] = {{.dataset = sets[1]}, {.dataset = sets[0]}};
    assert_ok(pst_dataset_open_many(sources, 2, NULL, &mixture, &err));
    return mixture;
}

/* Opens a loader for some epochs from `epoch` on and compares the reads of the first epoch with the
 * expected number. The later epochs must read nothing. */
static void check_reads(pst_dataset *dataset, const struct pst_loader_options *options,
                        uint64_t epoch, uint64_t n_reads)
{
    pst_loader *loader = open_loader(dataset, options);
    assert_int_equal(run(loader, dataset, options, epoch), n_reads);
    assert_int_equal(run(loader, dataset, options, epoch + 1), 0);
    pst_loader_close(&loader);
}

/* The fleet stores the items of a mixture as items of its data sets. So a loader finds what another
 * one stored, whether either has the mixture or one data set alone. */
static void test_mixture(void **state)
{
    (void)state;
    pst_dataset *sets[2], *mixture = open_both(sets);
    pst_fleet *fleet = open_ours(30);
    struct pst_loader_options options = plain(2, fleet, NULL);
    check_reads(sets[0], &options, 0, N);
    check_reads(mixture, &options, 1, N);
    check_reads(sets[1], &options, 2, 0);
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_int_equal(use.n_added, 2 * N);
    assert_int_equal(use.n_present + use.n_bad_values, 0);
    pst_fleet_close(&fleet);
    pst_dataset_close(&mixture);
    for (int i = 0; i < 2; i++)
        pst_dataset_close(&sets[i]);
}

/* A cache beside the fleet keeps the items of a dead server, as items of their own data sets. */
static void test_mixture_beside_a_cache(void **state)
{
    (void)state;
    pst_dataset *sets[2], *mixture = open_both(sets);
    end_server(&servers[1], SIGKILL);
    pst_fleet *fleet = open_ours(30);
    pst_cache *cache = open_cache(64 * MIB);
    struct pst_loader_options options = plain(3, fleet, cache);
    pst_loader *loader = open_loader(mixture, &options);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        assert_int_equal(run(loader, mixture, &options, epoch), epoch ? 0 : 2 * N);
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_in_range(use.n_added, N / 3, 2 * N - 1);
    assert_int_equal(stats_of(loader).n_cache_items, 2 * N - use.n_added);
    for (int i = 0; i < 2; i++)
        check_reads(sets[i], &options, 3, 0);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    pst_fleet_close(&fleet);
    pst_dataset_close(&mixture);
    for (int i = 0; i < 2; i++)
        pst_dataset_close(&sets[i]);
}

/* Runs epochs until one reads nothing from storage: the client has found the server again, which
 * holds all items. On a busy machine this may take several epochs. */
static void run_until_found(pst_loader *loader, pst_dataset *dataset,
                            const struct pst_loader_options *options, uint64_t *epoch)
{
    int64_t end = psti_clock_ns() + (int64_t)60 * 1000000000;
    while (run(loader, dataset, options, (*epoch)++) != 0)
        assert_true(psti_clock_ns() < end);
}

/* The batches are right whatever a server answers. */
static void test_lies(void **state)
{
    (void)state;
    pst_dataset *dataset = make("data", MAKE_MIXED, false);
    struct liar *liar = start_liar(at("liar.sock"));
    pst_fleet *fleet = open_fleet(at("liar.sock"), 2, 4096);
    struct pst_loader_options options = plain(2, fleet, NULL);
    pst_loader *loader = open_loader(dataset, &options);
    uint64_t epoch = 0;
    await_servers(fleet, 1);
    assert_int_equal(run(loader, dataset, &options, epoch++), N);
    for (int lie = LIE_NONE + 1; lie < N_LIES; lie++) {
        set_lie(liar, (enum lie)lie);
        uint64_t n_read = run(loader, dataset, &options, epoch++);
        if (lie < N_SURE_LIES)
            assert_int_equal(n_read, N);
        set_lie(liar, LIE_NONE);
        run_until_found(loader, dataset, &options, &epoch);
    }
    struct pst_loader_stats stats = stats_of(loader);
    assert_true(stats.fallbacks[PST_FALLBACK_FLEET_VALUE] > 0);
    assert_true(stats.fallbacks[PST_FALLBACK_FLEET_SERVER] > 0);
    pst_loader_close(&loader);
    pst_fleet_close(&fleet);
    pst_dataset_close(&dataset);
    end_liar(liar);
}

/* A server returns values with a valid header but other bytes. Files of a folder and re-coded
 * images have no checksum to detect this. If such bytes cannot be decoded, the item is read from
 * storage, and the sample is not bad. */
static void test_forged(void **state)
{
    (void)state;
    pst_dataset *dataset = open_jpegs();
    for (uint32_t i = 0; i < 4; i++) {
        struct liar *liar = start_liar(at("liar.sock"));
        pst_fleet *fleet = open_fleet(at("liar.sock"), 30, 16384);
        struct pst_loader_options options = images_only(i % 2 ? 2 : 0, fleet);
        options.cache_form = i / 2 ? PST_CACHE_FORM_PLI_JPEG : PST_CACHE_FORM_STORED;
        pst_loader *loader = open_loader(dataset, &options);
        uint64_t epoch = 0;
        await_servers(fleet, 1);
        assert_int_equal(run(loader, dataset, &options, epoch++), N);
        run_until_found(loader, dataset, &options, &epoch);
        set_lie(liar, LIE_FORGED);
        assert_int_equal(run(loader, dataset, &options, epoch++), N);
        assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_FLEET_VALUE], N);
        /* the client cannot detect the forgery */
        assert_int_equal(fleet_use(fleet).n_bad_values, 0);
        pst_loader_close(&loader);
        pst_fleet_close(&fleet);
        end_liar(liar);
    }
    pst_dataset_close(&dataset);
}

/* Servers are killed, stopped and started again while epochs run. */
static void test_faults(void **state)
{
    (void)state;
    pst_dataset *dataset = make("data", MAKE_MIXED, false);
    pst_fleet *fleet = open_ours(0.1);
    pst_cache *cache = open_cache(2 * MIB);
    uint64_t wanted[8][N_BATCHES], hashes[N_BATCHES], random = 88172645463325252u;
    struct pst_loader_options options = plain(2, fleet, NULL);
    for (uint64_t epoch = 0; epoch < 8; epoch++)
        wanted_of(dataset, options, epoch, wanted[epoch]);
    pst_loader *loaders[2] = {open_loader(dataset, &options), NULL};
    options.cache = cache;
    loaders[1] = open_loader(dataset, &options);
    for (unsigned i = 0; i < n_faults; i++) {
        pst_loader *loader = loaders[i % 2];
        struct pst_error err;
        pst_batch *batch;
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        struct server *server = &servers[random % SERVERS];
        unsigned when = random >> 8 & (N_BATCHES - 1), kind = random >> 16 & 3;
        useconds_t pause = random >> 24 & 2047;
        assert_ok(pst_loader_begin(loader, i % 8, &err));
        for (unsigned n = 0; n < N_BATCHES; n++) {
            if (n == when) {
                usleep(pause);
                signal_server(server, kind ? SIGKILL : SIGSTOP);
            }
            if (n == (when + 4) % N_BATCHES && kind == 0)
                signal_server(server, SIGCONT);
            assert_ok(pst_loader_next(loader, &batch, &err));
            hashes[n] = hash_batch(batch);
            pst_batch_release(batch);
        }
        assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
        assert_memory_equal(hashes, wanted[i % 8], sizeof hashes);
        signal_server(server, SIGCONT);
        if (kind)
            end_server(server, SIGKILL);
        /* With kind 1 a server stays away for the whole epoch, even if others came back. */
        for (int k = 0; k < SERVERS; k++)
            if (servers[k].pid == 0 && (kind != 1 || &servers[k] != server))
                start_server(&servers[k], servers[k].path, 64, (char *)NULL);
    }
    pst_loader_close(&loaders[0]);
    pst_loader_close(&loaders[1]);
    pst_cache_close(&cache);
    pst_fleet_close(&fleet);
    pst_dataset_close(&dataset);
}

static void test_options(void **state)
{
    (void)state;
    pst_dataset *dataset = make("data", MAKE_RAW_SAME, false);
    pst_fleet *fleet = open_ours(30);
    struct pst_loader_options options = plain(0, fleet, NULL);
    struct pst_error err;
    pst_loader *loader;
    options.storage = PST_STORAGE_MEMORY;
    assert_int_equal(pst_loader_open(dataset, &options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "fleet"));
    for (uint32_t i = 0; i <= PST_TIER_STORAGE; i++)
        assert_true(pst_tier_name(i)[0]);
    assert_string_equal(pst_tier_name(PST_TIER_FLEET), "fleet");
    assert_null(pst_tier_name(PST_TIER_STORAGE + 1));
    pst_fleet_close(&fleet);
    pst_dataset_close(&dataset);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranks_read_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cache_has_the_rest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_servers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_recoded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mixture, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mixture_beside_a_cache, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_faults, set_up, tear_down)};
    const struct CMUnitTest slow[] = {
        cmocka_unit_test_setup_teardown(test_faults, set_up, tear_down)};
    if (!fleet_is_here())
        return 77;
    if (argc > 1 && strcmp(argv[1], "slow") == 0) {
        n_faults = 200;
        return cmocka_run_group_tests(slow, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
