/* test_serve_faults.c - runs the service in a process of its own, with clients that are killed or
 * stopped, or that send random data: no process hangs, and batches equal those of a loader without
 * a service. With the argument "long" each fault comes 200 times at random moments, otherwise a few
 * times. */
#include "base/test_input.h"
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

#include "base/clock.h"
#include "share/share_cache_wire.h"
#include "share/share_link.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 64, BATCH = 8, N_BATCHES = N / BATCH, MIB = 1 << 20 };

/* The linker puts it in the place of psti_share_connect. It sums how long this process is ready to
 * wait for greetings. */
static atomic_int_fast64_t waited_ns;
enum pst_status __real_psti_share_connect(const char *path, enum psti_session_kind session,
                                          int64_t wait_ns, const struct psti_share_stop *stop,
                                          int *fd, struct psti_hello *theirs,
                                          struct pst_error *err);
enum pst_status __wrap_psti_share_connect(const char *path, enum psti_session_kind session,
                                          int64_t wait_ns, const struct psti_share_stop *stop,
                                          int *fd, struct psti_hello *theirs,
                                          struct pst_error *err);
enum pst_status __wrap_psti_share_connect(const char *path, enum psti_session_kind session,
                                          int64_t wait_ns, const struct psti_share_stop *stop,
                                          int *fd, struct psti_hello *theirs, struct pst_error *err)
{
    atomic_fetch_add(&waited_ns, wait_ns);
    return __real_psti_share_connect(path, session, wait_ns, stop, fd, theirs, err);
}

static struct test_random chance = {.seed = 22};
static unsigned n_rounds = 4;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    serve_fixture_place(&fixture);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_tree(directory);
    serve_fixture_clear(&fixture);
    return 0;
}

static void nap(uint32_t us) { psti_clock_sleep_until(psti_clock_ns() + (int64_t)us * 1000); }

static struct pst_loader_options plain(pst_cache *cache)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .storage = SERVE_STORAGE,
                                       .num_workers = 2,
                                       .cache = cache};
}

static pst_dataset *open_images(void)
{
    static int n_made;
    char name[32];
    snprintf(name, sizeof name, "set-%d", n_made++);
    return open_made(directory, name, &(struct make_options){.n_samples = N, .images = MAKE_MIXED});
}

/* Hashes the batches of epoch 0 of a loader without a service. */
static void find_wanted(pst_dataset *dataset, uint64_t wanted[N_BATCHES])
{
    const struct pst_loader_options options = plain(NULL);
    assert_int_equal(drain_alone(dataset, options, 0, wanted), N_BATCHES);
}

static void a_killed_service_changes_no_batch(void **state)
{
    uint64_t wanted[N_BATCHES], hashes[N_BATCHES];
    (void)state;
    pst_dataset *dataset = open_images();
    find_wanted(dataset, wanted);
    for (unsigned round = 0; round < n_rounds; round++) {
        pid_t service = serve_fixture_fork(&fixture, NULL);
        pst_cache *cache = serve_fixture_open_host();
        const struct pst_loader_options options = plain(cache);
        pst_loader *loader = open_loader(dataset, &options);
        begin_epoch(loader, 0);
        nap(test_below(&chance, 3000));
        serve_fixture_kill(service, SIGKILL);
        assert_int_equal(drain_epoch(loader, NULL, hashes), N_BATCHES);
        assert_memory_equal(hashes, wanted, sizeof hashes);
        pst_loader_close(&loader);
        pst_cache_close(&cache);
    }
    pst_dataset_close(&dataset);
}

/* A stopped service costs a loader one deadline. When the service continues, the loader finds it
 * again. */
static void a_stopped_service_costs_one_deadline(void **state)
{
    uint64_t wanted[N_BATCHES], hashes[N_BATCHES];
    (void)state;
    pst_dataset *dataset = open_images();
    find_wanted(dataset, wanted);
    pid_t service = serve_fixture_fork(&fixture, NULL);
    pst_cache *cache = serve_fixture_open_host();
    const struct pst_loader_options options = plain(cache);
    pst_loader *loader = open_loader(dataset, &options);
    assert_int_equal(kill(service, SIGSTOP), 0);
    assert_int_equal(run_epoch(loader, 0, hashes), N_BATCHES);
    assert_memory_equal(hashes, wanted, sizeof hashes);
    assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_HOST], N);
    assert_int_equal(kill(service, SIGCONT), 0);
    assert_int_equal(run_epoch(loader, 0, hashes), N_BATCHES);
    assert_memory_equal(hashes, wanted, sizeof hashes);
    assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_HOST], N);
    /* The service had read everything that it was asked for before it was stopped. */
    assert_int_equal(stats_of(loader).n_cache_fetched + stats_of(loader).n_cache_hits, N);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    serve_fixture_kill(service, SIGKILL);
    pst_dataset_close(&dataset);
}

/* Who made the handle has found that the service is silent. Opening a loader with it does not wait
 * for the whole deadline again. */
static void a_silent_service_is_waited_for_once(void **state)
{
    uint64_t wanted[N_BATCHES], hashes[N_BATCHES];
    struct pst_error err;
    const struct pst_cache_host_options later = {
        .struct_size = sizeof later, .socket = fixture.socket, .later = true};
    pst_cache *cache = NULL;
    (void)state;
    pst_dataset *dataset = open_images();
    find_wanted(dataset, wanted);
    pid_t service = serve_fixture_fork(&fixture, NULL);
    assert_int_equal(kill(service, SIGSTOP), 0);
    assert_ok(pst_cache_open_host(&later, &cache, &err));
    atomic_store(&waited_ns, 0);
    const struct pst_loader_options options = plain(cache);
    pst_loader *loader = open_loader(dataset, &options);
    assert_int_equal(run_epoch(loader, 0, hashes), N_BATCHES);
    assert_memory_equal(hashes, wanted, sizeof hashes);
    assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_HOST], N);
    assert_in_range(atomic_load(&waited_ns), 2, 2 * PSTI_LINK_GREET_NS); /* open, and begin */
    assert_int_equal(kill(service, SIGCONT), 0);
    assert_int_equal(run_epoch(loader, 0, hashes), N_BATCHES);
    assert_memory_equal(hashes, wanted, sizeof hashes);
    assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_HOST], N);
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    serve_fixture_kill(service, SIGKILL);
    pst_dataset_close(&dataset);
}

/* Takes batches, possibly in a thread of its own, and compares them with the expected ones. */
struct taking {
    pst_loader *loader;
    const uint64_t *wanted;
    size_t n;
    bool good;
};

static void *take(void *arg)
{
    struct taking *taking = arg;
    pst_batch *batch;
    taking->good = true;
    for (size_t i = 0; i < taking->n && taking->good; i++) {
        taking->good = pst_loader_next(taking->loader, &batch, NULL) == PST_OK;
        if (!taking->good)
            break;
        taking->good = hash_batch(batch) == taking->wanted[i];
        pst_batch_release(batch);
    }
    return NULL;
}

/* All loaders take the rest of their epochs at the same time. */
static void take_rest(struct taking *all, size_t n, const uint64_t *wanted)
{
    pthread_t threads[16];
    for (size_t i = 0; i < n; i++) {
        size_t n_taken = all[i].n;
        all[i].wanted = wanted + n_taken;
        all[i].n = N_BATCHES - n_taken;
        assert_int_equal(pthread_create(&threads[i], NULL, take, &all[i]), 0);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        assert_true(all[i].good);
    }
}

/* The service is stopped at another moment of each loader's epoch. All loaders wait at the same
 * time. */
static void loaders_outlive_a_stopped_service(void **state)
{
    enum { N_LOADERS = 10 };
    uint64_t wanted[N_BATCHES];
    struct taking all[N_LOADERS];
    (void)state;
    pst_dataset *dataset = open_images();
    find_wanted(dataset, wanted);
    for (unsigned round = 0; round < n_rounds / N_LOADERS; round++) {
        pid_t service = serve_fixture_fork(&fixture, NULL);
        pst_cache *cache = serve_fixture_open_host();
        struct pst_loader_options options = plain(cache);
        options.prefetch = 1;
        for (int i = 0; i < N_LOADERS; i++) {
            all[i] = (struct taking){.loader = open_loader(dataset, &options),
                                     .wanted = wanted,
                                     .n = test_below(&chance, N_BATCHES)};
            begin_epoch(all[i].loader, 0);
            take(&all[i]);
            assert_true(all[i].good);
        }
        assert_int_equal(kill(service, SIGSTOP), 0);
        int64_t start = psti_clock_ns();
        take_rest(all, N_LOADERS, wanted);
        assert_true(psti_clock_ns() - start < (int64_t)60000000000);
        assert_int_equal(kill(service, SIGCONT), 0);
        for (int i = 0; i < N_LOADERS; i++) {
            uint64_t n_fell_back = stats_of(all[i].loader).fallbacks[PST_FALLBACK_HOST];
            all[i].n = 0;
            begin_epoch(all[i].loader, 0);
            take_rest(&all[i], 1, wanted);
            assert_int_equal(stats_of(all[i].loader).fallbacks[PST_FALLBACK_HOST], n_fell_back);
            pst_loader_close(&all[i].loader);
        }
        pst_cache_close(&cache);
        serve_fixture_kill(service, SIGKILL);
    }
    pst_dataset_close(&dataset);
}

/* Runs epochs without end in a client that will be killed. */
static void load_for_ever(const char *path)
{
    const struct pst_cache_host_options host = {.struct_size = sizeof host,
                                                .socket = fixture.socket};
    pst_dataset *dataset;
    pst_cache *cache;
    pst_loader *loader;
    pst_batch *batch;
    if (pst_dataset_open(path, NULL, &dataset, NULL) != PST_OK ||
        pst_cache_open_host(&host, &cache, NULL) != PST_OK)
        _exit(1);
    const struct pst_loader_options options = plain(cache);
    if (pst_loader_open(dataset, &options, &loader, NULL) != PST_OK)
        _exit(1);
    for (uint64_t epoch = 0; pst_loader_begin(loader, epoch, NULL) == PST_OK; epoch++)
        while (pst_loader_next(loader, &batch, NULL) == PST_OK)
            pst_batch_release(batch);
    _exit(1);
}

/* Clients are killed, some after they were stopped. The service releases what they held, and serves
 * other clients. */
static void killed_clients_leave_nothing(void **state)
{
    uint64_t wanted[N_BATCHES], hashes[N_BATCHES];
    char path[256];
    (void)state;
    pst_dataset *dataset = open_images();
    snprintf(path, sizeof path, "%s", pst_dataset_path(dataset));
    find_wanted(dataset, wanted);
    pid_t service = serve_fixture_fork(&fixture, NULL);
    for (unsigned round = 0; round < n_rounds; round++) {
        pid_t clients[3];
        for (int i = 0; i < 3; i++)
            if ((clients[i] = fork()) == 0)
                load_for_ever(path);
        nap(1000 + test_below(&chance, 20000));
        assert_int_equal(kill(clients[2], SIGSTOP), 0);
        for (int i = 0; i < 2; i++)
            serve_fixture_kill(clients[i], SIGKILL);
        pst_cache *cache = serve_fixture_open_host();
        const struct pst_loader_options options = plain(cache);
        pst_loader *loader = open_loader(dataset, &options);
        assert_int_equal(run_epoch(loader, 0, hashes), N_BATCHES);
        assert_memory_equal(hashes, wanted, sizeof hashes);
        assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_HOST], 0);
        pst_loader_close(&loader);
        pst_cache_close(&cache);
        serve_fixture_kill(clients[2], SIGKILL);
        serve_fixture_await_no_sessions(&fixture);
    }
    serve_fixture_kill(service, SIGKILL);
    pst_dataset_close(&dataset);
}

/* Opens a session of each kind and forks a child with copies of the sockets. Reports the child's
 * process id, then closes its loaders or waits to be killed. */
static void load_and_fork(const char *path, int report, bool closes)
{
    const struct pst_cache_host_options host = {.struct_size = sizeof host,
                                                .socket = fixture.socket};
    pst_dataset *dataset;
    pst_cache *cache;
    pst_loader *loaders[2];
    pst_batch *batch;
    if (pst_dataset_open(path, NULL, &dataset, NULL) != PST_OK ||
        pst_cache_open_host(&host, &cache, NULL) != PST_OK)
        _exit(1);
    for (int i = 0; i < 2; i++) {
        struct pst_loader_options options = plain(i ? NULL : cache);
        options.share = i ? "forks" : NULL;
        options.socket = i ? fixture.socket : NULL;
        if (pst_loader_open(dataset, &options, &loaders[i], NULL) != PST_OK ||
            pst_loader_begin(loaders[i], 0, NULL) != PST_OK ||
            pst_loader_next(loaders[i], &batch, NULL) != PST_OK)
            _exit(1);
        pst_batch_release(batch);
    }
    pid_t child = fork();
    while (child == 0)
        pause();
    for (int i = 0; i < 2 && closes; i++)
        pst_loader_close(&loaders[i]);
    (void)!write(report, &child, sizeof child);
    for (;;)
        pause();
}

/* A session ends with its loader or with the process that opened it, even if a forked child still
 * has copies of the sockets. */
static void a_forked_child_keeps_no_session(void **state)
{
    char path[256];
    (void)state;
    if (TEST_SANITIZED) {
        puts("sanitizers do not stand a fork beside threads");
        skip();
    }
    pst_dataset *dataset = open_images();
    snprintf(path, sizeof path, "%s", pst_dataset_path(dataset));
    pid_t service = serve_fixture_fork(&fixture, NULL);
    for (unsigned round = 0; round < n_rounds; round++) {
        int report[2];
        pid_t child;
        bool closes = round % 2;
        assert_int_equal(pipe(report), 0);
        pid_t parent = fork();
        if (parent == 0)
            load_and_fork(path, report[1], closes);
        close(report[1]);
        assert_int_equal(read(report[0], &child, sizeof child), sizeof child);
        close(report[0]);
        if (closes)
            serve_fixture_await_no_sessions(&fixture);
        else
            assert_int_equal(serve_fixture_status(&fixture).n_sessions, 3);
        serve_fixture_kill(parent, SIGKILL);
        serve_fixture_await_no_sessions(&fixture);
        assert_int_equal(kill(child, SIGKILL), 0);
    }
    serve_fixture_kill(service, SIGKILL);
    pst_dataset_close(&dataset);
}

/* Begins a session of this kind correctly. Returns the socket. */
static int greet(enum psti_session_kind kind)
{
    int fd;
    struct pst_error err;
    assert_ok(
        psti_share_connect(fixture.socket, kind, (int64_t)60000000000, NULL, &fd, NULL, &err));
    return fd;
}

/* Sends a message of a random kind, with a random or almost correct body and any descriptors. */
static void send_anything(int fd, pst_dataset *dataset)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    static const uint16_t kinds[] = {1, 2, 3, 4, 5, 16, 17, 18, 19, 20, 32, 33, 37, 48, 79, 999};
    struct psti_wire_out out = psti_share_begin(bytes);
    int fds[PSTI_MESSAGE_FDS];
    uint32_t n_fds = test_below(&chance, 4) ? 0 : test_below(&chance, 4);
    for (uint32_t i = 0; i < n_fds; i++)
        fds[i] = open(test_below(&chance, 2) ? "/dev/null" : pst_dataset_path(dataset), O_RDONLY);
    uint32_t n = test_below(&chance, 300);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)(test_below(&chance, 3) ? 0 : test_below(&chance, 256));
        psti_share_put_bytes(&out, &byte, 1);
    }
    size_t nbytes = psti_share_finish(
        &out, (enum psti_message_kind)kinds[test_below(&chance, sizeof kinds / sizeof *kinds)],
        test_below(&chance, 5), n_fds);
    for (uint32_t i = test_below(&chance, 3); i > 0; i--) /* bytes of the head may be wrong, too */
        bytes[test_below(&chance, (uint32_t)nbytes)] ^= (uint8_t)(1u << test_below(&chance, 8));
    (void)!psti_share_send(fd, bytes, nbytes, fds, n_fds, psti_clock_ns() + 1000000000, NULL);
    for (uint32_t i = 0; i < n_fds; i++)
        close(fds[i]);
}

/* Sends the correct message that opens the data set, with some bits flipped. */
static void open_with_lies(int fd, pst_dataset *dataset)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    struct psti_share_set set = {.dataset = dataset};
    uint32_t items[PST_MAX_FIELDS], n_fds;
    int fds[PSTI_SHARE_DATASET_FDS];
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_cache_shape(dataset, &set.shape, items);
    assert_int_equal(psti_share_put_cache_open(&out, &set, 0, fds, &n_fds, NULL), PST_OK);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_CACHE_OPEN, 1, n_fds);
    for (uint32_t i = test_below(&chance, 4); i > 0; i--)
        bytes[24 + test_below(&chance, (uint32_t)nbytes - 24)] ^=
            (uint8_t)(1u << test_below(&chance, 8));
    (void)!psti_share_send(fd, bytes, nbytes, fds, n_fds, psti_clock_ns() + 1000000000, NULL);
    for (uint32_t i = 0; i < n_fds; i++)
        close(fds[i]);
}

static void hostile_clients_harm_nobody(void **state)
{
    uint64_t wanted[N_BATCHES], hashes[N_BATCHES];
    (void)state;
    pst_dataset *dataset = open_images();
    find_wanted(dataset, wanted);
    pid_t service = serve_fixture_fork(&fixture, NULL);
    pst_cache *cache = serve_fixture_open_host();
    const struct pst_loader_options options = plain(cache);
    pst_loader *loader = open_loader(dataset, &options);
    for (unsigned round = 0; round < n_rounds; round++) {
        begin_epoch(loader, 0);
        for (int client = 0; client < 30; client++) {
            int fd =
                test_below(&chance, 4) == 0
                    ? serve_fixture_connect(&fixture)
                    : greet(test_below(&chance, 2) ? PSTI_SESSION_CACHE : PSTI_SESSION_CONTROL);
            if (test_below(&chance, 2))
                open_with_lies(fd, dataset);
            for (uint32_t i = test_below(&chance, 6); i > 0; i--)
                send_anything(fd, dataset);
            close(fd);
        }
        assert_int_equal(drain_epoch(loader, NULL, hashes), N_BATCHES);
        assert_memory_equal(hashes, wanted, sizeof hashes);
    }
    assert_int_equal(stats_of(loader).fallbacks[PST_FALLBACK_HOST], 0);
    assert_int_equal(stats_of(loader).n_cache_items, N);
    assert_int_equal(waitpid(service, NULL, WNOHANG), 0); /* it lives */
    pst_loader_close(&loader);
    pst_cache_close(&cache);
    serve_fixture_kill(service, SIGKILL);
    pst_dataset_close(&dataset);
}

/* A client that requests much and never reads the answers is dropped. Other clients are still
 * served. */
static void a_client_that_does_not_receive_is_dropped(void **state)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    (void)state;
    pid_t service = serve_fixture_fork(&fixture, NULL);
    int fd = greet(PSTI_SESSION_CONTROL);
    struct psti_wire_out out = psti_share_begin(bytes);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_STATUS, 1, 0);
    enum pst_status status = PST_OK;
    int64_t deadline = psti_clock_ns() + (int64_t)60000000000;
    while (status == PST_OK && psti_clock_ns() < deadline)
        status = psti_share_send(fd, bytes, nbytes, NULL, 0, deadline, NULL);
    assert_int_equal(status, PST_END);
    close(fd);
    assert_int_equal(serve_fixture_status(&fixture).n_sessions, 1);
    serve_fixture_kill(service, SIGKILL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_service_changes_no_batch),
        cmocka_unit_test(a_silent_service_is_waited_for_once),
        cmocka_unit_test(killed_clients_leave_nothing),
        cmocka_unit_test(a_forked_child_keeps_no_session),
        cmocka_unit_test(hostile_clients_harm_nobody),
        cmocka_unit_test(a_client_that_does_not_receive_is_dropped),
    };
    const struct CMUnitTest slow[] = {
        cmocka_unit_test(a_killed_service_changes_no_batch),
        cmocka_unit_test(a_stopped_service_costs_one_deadline),
        cmocka_unit_test(loaders_outlive_a_stopped_service),
        cmocka_unit_test(killed_clients_leave_nothing),
        cmocka_unit_test(a_forked_child_keeps_no_session),
        cmocka_unit_test(hostile_clients_harm_nobody),
    };
    if (argc > 1 && strcmp(argv[1], "long") == 0) {
        n_rounds = 200;
        return cmocka_run_group_tests(slow, set_up, tear_down);
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
