/* test_serve_hostile.c - hostile clients open sessions in the group of a correct job: they send
 * altered copies of recorded messages and wrong descriptors, request what does not exist, and never
 * give extents back. The correct job gets the same batches as alone, and the service keeps nothing
 * of the others. With the argument "long": 200 rounds. */
#include "base/test_input.h"
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

#include "base/clock.h"
#include "base/files/sealed.h"
#include "share/share.h"
#include "share/share_cache_wire.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 96, BATCH = 6, N_BATCHES = N / BATCH, N_HOSTILE = 6 };
#define MINUTE ((int64_t)60 * 1000 * 1000 * 1000)

static unsigned n_rounds = 3;
static struct test_random chance = {.seed = 22};
static pst_dataset *dataset;
static struct augmented kept;
static uint64_t wanted[2][N_BATCHES];
/* the message with which a correct job joins, and its descriptors */
static struct psti_message good;
static struct psti_message received;
static uint8_t bytes[PSTI_MESSAGE_NBYTES];

static struct pst_loader_options options_of(const char *socket)
{
    struct pst_loader_options options = augmented_options(&kept, 48, 48);
    options.n_fields = 1;
    options.storage = SERVE_STORAGE;
    options.batch_size = BATCH;
    options.socket = socket;
    options.share = socket ? "group" : NULL;
    return options;
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    serve_fixture_place(&fixture);
    dataset = open_made(directory, "set.pst",
                        &(struct make_options){.n_samples = N, .images = MAKE_RAW_SAME});
    for (uint64_t epoch = 0; epoch < 2; epoch++)
        assert_int_equal(drain_alone(dataset, options_of(NULL), epoch, wanted[epoch]), N_BATCHES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psti_share_message_close(&good);
    pst_dataset_close(&dataset);
    serve_fixture_clear(&fixture);
    remove_tree(directory);
    return 0;
}

static void *join_recorder(void *socket)
{
    const struct pst_loader_options options = options_of(socket);
    pst_loader *loader;
    if (pst_loader_open(dataset, &options, &loader, NULL) == PST_OK)
        pst_loader_close(&loader);
    return NULL;
}

/* Acts as the service until a job has sent its message for joining, and records it. */
static void record_good(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct psti_hello hello = {.protocol = PSTI_HOST_PROTOCOL, .session = (uint32_t)getpid()};
    struct pst_error err;
    pthread_t thread;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/record.sock", fixture.directory);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, join_recorder, address.sun_path), 0);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    assert_ok(psti_share_receive(fd, &good, psti_clock_ns() + MINUTE, &err));
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_hello(&out, &hello);
    size_t n = psti_share_finish(&out, PSTI_MESSAGE_WELCOME, good.head.id, 0);
    assert_ok(psti_share_send(fd, bytes, n, NULL, 0, psti_clock_ns() + MINUTE, &err));
    assert_ok(psti_share_receive(fd, &good, psti_clock_ns() + MINUTE, &err));
    assert_int_equal(good.head.kind, PSTI_STREAM_OPEN);
    close(fd);
    close(listener);
    assert_int_equal(unlink(address.sun_path), 0);
    pthread_join(thread, NULL);
}

static void flip_bits(uint8_t *at, size_t nbytes, uint32_t n)
{
    for (; n > 0 && nbytes > 0; n--)
        at[test_below(&chance, (uint32_t)nbytes)] ^= (uint8_t)(1u << test_below(&chance, 8));
}

/* Returns the options of a correct job with some bits changed, in sealed memory. */
static int forge_options(void)
{
    static uint8_t copy[65536];
    int fd;
    ssize_t n = pread(good.fds[0], copy, sizeof copy, 0);
    assert_true(n > 0);
    flip_bits(copy, (size_t)n, test_below(&chance, 4));
    assert_int_equal(psti_sealed_blob_make("forged", copy, (size_t)n, &fd, NULL), PST_OK);
    return fd;
}

/* Returns a descriptor of a random kind. */
static int any_fd(void)
{
    int pair[2];
    switch (test_below(&chance, 7)) {
    case 0:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 1:
        return open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    case 2:
        return (int)syscall(SYS_memfd_create, "unsealed", 1u);
    case 3:
        return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    case 4:
        return forge_options();
    case 5:
        return open(pst_dataset_path(dataset), O_RDONLY | O_CLOEXEC);
    default:
        assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
        close(pair[1]);
        return pair[0];
    }
}

static void send_it(int fd, size_t nbytes, const int *fds, uint32_t n_fds)
{
    (void)!psti_share_send(fd, bytes, nbytes, fds, n_fds, psti_clock_ns() + MINUTE, NULL);
}

/* Joins with the recorded message, or with one that is slightly altered. */
static void join(int fd)
{
    int fds[PSTI_MESSAGE_FDS];
    uint32_t n_fds = good.n_fds;
    size_t nbytes = good.head.nbytes;
    memcpy(bytes, good.bytes, nbytes);
    for (uint32_t i = 0; i < n_fds; i++)
        fds[i] = fcntl(good.fds[i], F_DUPFD_CLOEXEC, 0);
    switch (test_below(&chance, 9)) {
    case 0:
        flip_bits(bytes + PSTI_MESSAGE_HEAD_NBYTES, nbytes - PSTI_MESSAGE_HEAD_NBYTES,
                  1 + test_below(&chance, 3));
        break;
    case 1:
        close(fds[0]);
        fds[0] = forge_options();
        break;
    case 2: {
        uint32_t i = test_below(&chance, n_fds);
        close(fds[i]);
        fds[i] = any_fd();
        break;
    }
    case 3:
        if (test_below(&chance, 3) == 0)
            nbytes -= test_below(&chance, (uint32_t)nbytes - PSTI_MESSAGE_HEAD_NBYTES);
        break;
    default: /* the message as recorded */
        break;
    }
    send_it(fd, nbytes, fds, n_fds);
    for (uint32_t i = 0; i < n_fds; i++)
        close(fds[i]);
}

static uint64_t any_number(uint64_t usual)
{
    switch (test_below(&chance, 8)) {
    case 0:
        return UINT64_MAX - test_below(&chance, 3);
    case 1:
        return (uint64_t)1 << test_below(&chance, 64);
    default:
        return test_below(&chance, (uint32_t)usual + 1);
    }
}

/* Requests a batch, or gives back extents that it does not have. */
static void want(int fd)
{
    static struct psti_stream_want message;
    bool gives = test_below(&chance, 3) == 0;
    message = (struct psti_stream_want){.epoch = any_number(2),
                                        .first = test_below(&chance, N),
                                        .end = N,
                                        .step_rows = (uint32_t)any_number(2 * BATCH),
                                        .leaves = gives ? test_below(&chance, 2) : 0,
                                        .n_given = test_below(&chance, 5)};
    message.n_rows = 1 + test_below(&chance, N - (uint32_t)message.first);
    if (test_below(&chance, 6) == 0) { /* numbers outside of the valid range */
        message.first = any_number(N);
        message.end = any_number(N);
        message.n_rows = (uint32_t)any_number(N);
    }
    for (uint32_t i = 0; i < message.n_given; i++)
        message.given[i] = any_number(60);
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_want(&out, &message);
    int kind = gives ? PSTI_STREAM_GIVE : PSTI_STREAM_WANT;
    size_t nbytes =
        psti_share_finish(&out, (enum psti_message_kind)kind, test_below(&chance, 9), 0);
    if (test_below(&chance, 8) == 0)
        flip_bits(bytes, nbytes, 1 + test_below(&chance, 2));
    send_it(fd, nbytes, NULL, 0);
}

/* Sends a message of a random kind, with a body of mostly zeros and any descriptors. */
static void send_anything(int fd)
{
    struct psti_wire_out out = psti_share_begin(bytes);
    int fds[4];
    uint32_t n_fds = test_below(&chance, 4);
    for (uint32_t i = test_below(&chance, 200); i > 0; i--) {
        uint8_t byte = (uint8_t)(test_below(&chance, 3) ? 0 : test_below(&chance, 256));
        psti_share_put_bytes(&out, &byte, 1);
    }
    for (uint32_t i = 0; i < n_fds; i++)
        fds[i] = any_fd();
    size_t nbytes = psti_share_finish(
        &out, (enum psti_message_kind)(PSTI_STREAM_OPEN + test_below(&chance, 8)), 1, n_fds);
    send_it(fd, nbytes, fds, n_fds);
    for (uint32_t i = 0; i < n_fds; i++)
        close(fds[i]);
}

/* Does one random thing in one of the sessions, which may have ended. */
static void act(int *sockets)
{
    int *fd = &sockets[test_below(&chance, N_HOSTILE)];
    if (*fd < 0) {
        if (psti_share_connect(fixture.socket, PSTI_SESSION_STREAM, MINUTE, NULL, fd, NULL, NULL) ==
            PST_OK)
            join(*fd);
        return;
    }
    uint32_t what = test_below(&chance, 10);
    if (what < 6) {
        want(*fd);
    } else if (what < 8) {
        if (psti_share_receive(*fd, &received, psti_clock_ns(), NULL) == PST_OK)
            psti_share_message_close(&received); /* keeps the extents that it received */
    } else if (what == 8) {
        send_anything(*fd);
    } else {
        close(*fd);
        *fd = -1;
    }
}

/* Runs epochs of a correct job, with hostile sessions beside it. */
static void run_honest(pst_loader *loader, int *sockets)
{
    pst_batch *batch;
    struct pst_error err;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        assert_ok(pst_loader_begin(loader, epoch, &err));
        for (size_t i = 0; i < N_BATCHES; i++) {
            for (uint32_t n = sockets ? test_below(&chance, 20) : 0; n > 0; n--)
                act(sockets);
            assert_ok(pst_loader_next(loader, &batch, &err));
            assert_true(hash_batch(batch) == wanted[epoch][i]);
            pst_batch_release(batch);
        }
        assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
    }
}

/* Returns how many files the service has open after the session that asked for its status has
 * ended. */
static unsigned least_fds(pid_t service)
{
    unsigned least = serve_fixture_count_fds(service);
    for (int i = 0; i < 100; i++) {
        psti_clock_sleep_until(psti_clock_ns() + 1000000);
        unsigned now = serve_fixture_count_fds(service);
        least = now < least ? now : least;
    }
    return least;
}

static void hostile_jobs_harm_nobody(void **state)
{
    (void)state;
    record_good();
    const struct pst_loader_options options = options_of(fixture.socket);
    pid_t service = serve_fixture_fork(&fixture, NULL);
    /* The first loader keeps its data set in the host cache. */
    pst_loader *first = open_loader(dataset, &options);
    run_honest(first, NULL);
    pst_loader_close(&first);
    serve_fixture_await_no_sessions(&fixture);
    unsigned n_fds = least_fds(service);
    for (unsigned round = 0; round < n_rounds; round++) {
        int sockets[N_HOSTILE] = {-1, -1, -1, -1, -1, -1};
        pst_loader *loader = open_loader(dataset, &options);
        assert_true(stats_of(loader).is_sharing);
        run_honest(loader, sockets);
        for (int i = 0; i < N_HOSTILE; i++)
            close(sockets[i]);
        pst_loader_close(&loader);
        serve_fixture_await_no_sessions(&fixture);
        /* the session of this question must end, too */
        int64_t deadline = psti_clock_ns() + MINUTE;
        while (serve_fixture_count_fds(service) > n_fds && psti_clock_ns() < deadline)
            psti_clock_sleep_until(psti_clock_ns() + 1000000);
        assert_int_equal(serve_fixture_count_fds(service), n_fds);
    }
    pst_loader *loader = open_loader(dataset, &options);
    run_honest(loader, NULL);
    assert_int_equal(stats_of(loader).n_shared, 2 * N_BATCHES);
    pst_loader_close(&loader);
    assert_int_equal(waitpid(service, NULL, WNOHANG), 0); /* it lives */
    serve_fixture_kill(service, SIGKILL);
    serve_fixture_check_files(&fixture, 0);
}

/* A job stops in the middle of an epoch that is larger than the window. Another job begins with the
 * next epoch, for which it would wait if the first job went on. */
static void a_job_that_stands_still_stops_nobody(void **state)
{
    enum { N_MANY = 800 };
    static uint64_t many[N_MANY / BATCH + 1], hashes[N_MANY / BATCH + 1];
    struct pst_error err;
    pst_batch *batch;
    (void)state;
    pst_dataset *set =
        open_made(directory, "many.pst",
                  &(struct make_options){.n_samples = N_MANY, .images = MAKE_RAW_SAME});
    struct pst_loader_options options = options_of(NULL);
    size_t n = drain_alone(set, options, 1, many);
    serve_fixture_start(&fixture, NULL);
    options = options_of(fixture.socket);
    pst_loader *still = open_loader(set, &options);
    assert_ok(pst_loader_begin(still, 0, &err));
    assert_ok(pst_loader_next(still, &batch, &err));
    pst_batch_release(batch);
    assert_int_equal(stats_of(still).n_shared, 1);
    pst_loader *other = open_loader(set, &options);
    assert_int_equal(run_epoch(other, 1, hashes), n);
    assert_memory_equal(hashes, many, n * sizeof *hashes);
    assert_true(stats_of(other).n_shared > 0);
    pst_loader_close(&other);
    pst_loader_close(&still);
    serve_fixture_stop(&fixture);
    pst_dataset_close(&set);
}

/* Resumes at batch `from` of epoch 0, and checks the rest of the epoch. */
static void check_rest(pst_loader *loader, size_t from, const uint64_t *hashes, size_t n)
{
    struct pst_error err;
    pst_batch *batch;
    struct pst_loader_state place;
    pst_loader_state(loader, &place);
    place.epoch = 0;
    place.position = from * BATCH;
    assert_ok(pst_loader_resume(loader, &place, &err));
    for (size_t i = from; i < n; i++) {
        assert_ok(pst_loader_next_timed(loader, MINUTE, &batch, &err));
        assert_true(hash_batch(batch) == hashes[i]);
        pst_batch_release(batch);
    }
    assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
}

/* A job is paused after its first batch, and the window is full of samples that it still needs.
 * Other jobs resume ahead of it, within the window and beyond: each gets its batches. */
static void a_job_ahead_of_a_paused_one_gets_its_batches(void **state)
{
    enum { N_MANY = 1200, N_LATE = 9 };
    static const size_t ahead[N_LATE] = {30, 42, 44, 47, 50, 55, 60, 64, 90};
    static uint64_t hashes[N_MANY / BATCH + 1];
    struct pst_error err;
    pst_batch *batch;
    (void)state;
    pst_dataset *set =
        open_made(directory, "ahead.pst",
                  &(struct make_options){.n_samples = N_MANY, .images = MAKE_RAW_SAME});
    struct pst_loader_options options = options_of(NULL);
    size_t n = drain_alone(set, options, 0, hashes);
    serve_fixture_start(&fixture, NULL);
    options = options_of(fixture.socket);
    pst_loader *paused = open_loader(set, &options);
    for (size_t i = 0; i < N_LATE; i += n_rounds < 200 ? 4 : 1) {
        assert_ok(pst_loader_begin(paused, 0, &err));
        assert_ok(pst_loader_next(paused, &batch, &err));
        assert_true(hash_batch(batch) == hashes[0]);
        pst_batch_release(batch);
        pst_loader *late = open_loader(set, &options);
        check_rest(late, ahead[i], hashes, n);
        assert_int_equal(stats_of(late).n_shared, n - ahead[i]);
        pst_loader_close(&late);
    }
    assert_int_equal(drain_epoch(paused, NULL, hashes), n - 1);
    pst_loader_close(&paused);
    serve_fixture_stop(&fixture);
    pst_dataset_close(&set);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_jobs_harm_nobody),
        cmocka_unit_test(a_job_that_stands_still_stops_nobody),
        cmocka_unit_test(a_job_ahead_of_a_paused_one_gets_its_batches),
    };
    bool is_long = argc > 1 && strcmp(argv[1], "long") == 0;
    if (is_long)
        n_rounds = 200;
    alarm(is_long ? 900 : 120);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
