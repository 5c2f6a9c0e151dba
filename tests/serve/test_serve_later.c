/* test_serve_later.c - the service re-codes items of the host cache while cores of its clients are
 * idle. Batches are bit-identical to those of a loader without a service, whatever was re-coded
 * before; no item is re-coded twice; a reader of old bytes keeps them, in any session; the cache's
 * limit holds, and the saved memory takes further items; clients that are killed, stopped or
 * dropped, or that have lost the service, cause no wrong byte. */
#include "../decode/decode_make.h"
#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

#include "base/clock.h"
#include "base/hash.h"
#include "decode/decode_recode.h"
#include "share/share.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The linker puts it in the place of psti_clock_ns: this process may be ahead of others. */
static atomic_int_fast64_t ahead_ns;
int64_t __real_psti_clock_ns(void);
int64_t __wrap_psti_clock_ns(void);
int64_t __wrap_psti_clock_ns(void) { return __real_psti_clock_ns() + atomic_load(&ahead_ns); }

enum { N = 288, N_REFUSED = N / 16, MIB = 1 << 20, BATCH = 16, N_BATCHES = N / BATCH };
#define SECOND ((int64_t)1000 * 1000 * 1000)

static pst_dataset *folder;
static uint64_t wanted[3][N_BATCHES];

/* Makes a colour JPEG. Every 16th has four components, which pli-jpeg does not take. */
static void make_photograph(uint32_t i)
{
    const bool is_cmyk = i % 16 == 3;
    const struct jpeg_spec spec = {.height = 56 + 2 * (i % 9),
                                   .width = 60 + 3 * (i % 7),
                                   .colours = is_cmyk ? COLOURS_CMYK : COLOURS_YCC,
                                   .h = is_cmyk ? 1 : 2,
                                   .v = is_cmyk ? 1 : (uint8_t)(1 + i % 2),
                                   .quality = (uint8_t)(80 + i % 15)};
    struct bytes jpeg = make_jpeg(&spec, i);
    char path[200];
    snprintf(path, sizeof path, "%s/photographs/%03u.jpg", directory, i);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(jpeg.data, 1, jpeg.nbytes, file), jpeg.nbytes);
    assert_int_equal(fclose(file), 0);
    bytes_free(&jpeg);
}

static struct pst_loader_options options_of(pst_cache *cache, enum pst_cache_recode recode)
{
    static struct pst_op crop;
    static struct pst_field_output field;
    pst_op_init(&crop, sizeof crop, PST_OP_RANDOM_RESIZED_CROP);
    crop.height = crop.width = 40;
    field = (struct pst_field_output){.name = "image", .ops = &crop, .n_ops = 1, .channels = 3};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = BATCH,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 5,
                                       .num_workers = 2,
                                       .fields = &field,
                                       .n_fields = 1,
                                       TEST_ELEMENT_SIZES,
                                       .storage = SERVE_STORAGE,
                                       .cache = cache,
                                       .cache_form = cache ? PST_CACHE_FORM_PLI_JPEG : 0,
                                       .cache_recode = recode};
}

static int set_up(void **state)
{
    (void)state;
    char path[160];
    make_directory(directory);
    snprintf(path, sizeof path, "%s/photographs", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < N; i++)
        make_photograph(i);
    folder = open_there("photographs");
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        assert_int_equal(drain_alone(folder, options_of(NULL, 0), epoch, wanted[epoch]), N_BATCHES);
    serve_fixture_place(&fixture);
    return 0;
}

SERVE_TEAR_DOWN(&folder)

static struct pst_service_options service_of(uint64_t cache_nbytes)
{
    return (struct pst_service_options){.struct_size = sizeof(struct pst_service_options),
                                        .cache_nbytes = cache_nbytes,
                                        .n_threads = 2,
                                        .keep = true};
}

static void start(uint64_t cache_nbytes)
{
    const struct pst_service_options options = service_of(cache_nbytes);
    serve_fixture_start(&fixture, &options);
}

static pst_loader *open_host_loader(enum pst_cache_recode recode)
{
    pst_cache *cache = serve_fixture_open_host();
    const struct pst_loader_options options = options_of(cache, recode);
    pst_loader *loader = open_loader(folder, &options);
    pst_cache_close(&cache);
    return loader;
}

static void check_epoch(pst_loader *loader, uint64_t epoch)
{
    uint64_t hashes[N_BATCHES];
    begin_epoch(loader, epoch);
    assert_int_equal(drain_epoch(loader, NULL, hashes), N_BATCHES);
    assert_memory_equal(hashes, wanted[epoch], sizeof hashes);
}

static struct pst_service_set ask_set(void)
{
    struct pst_service_set set;
    pst_service_report *report;
    struct pst_error err;
    assert_ok(pst_service_report_open(fixture.socket, &report, &err));
    assert_ok(pst_service_report_set(report, 0, &set, sizeof set, &err));
    pst_service_report_close(&report);
    return set;
}

static void nap(void) { psti_clock_sleep_until(psti_clock_ns() + SECOND / 500); }

/* Waits until the service has re-coded all items of this loader's data set and has told the
 * loader. */
static void wait_for_all(const pst_loader *loader)
{
    int64_t deadline = psti_clock_ns() + 60 * SECOND;
    while (stats_of(loader).n_cache_to_recode > 0 || ask_set().n_recoded < N - N_REFUSED) {
        assert_true(psti_clock_ns() < deadline);
        nap();
    }
}

/* Each item is re-coded once, within epochs or between them, whichever client has idle workers. */
static void idle_clients_let_the_service_recode(void **state)
{
    (void)state;
    start(64 * MIB);
    pst_loader *loaders[] = {open_host_loader(PST_CACHE_RECODE_IDLE),
                             open_host_loader(PST_CACHE_RECODE_IDLE)};
    check_epoch(loaders[0], 0);
    check_epoch(loaders[1], 0);
    assert_int_equal(ask_set().n_reads, N);
    for (int i = 0; i < 2; i++)
        check_epoch(loaders[i], 1); /* a mix of re-coded and stored items */
    wait_for_all(loaders[0]);
    for (int i = 0; i < 2; i++)
        check_epoch(loaders[i], 2);
    struct pst_service_set set = ask_set();
    assert_int_equal(set.n_recoded, N - N_REFUSED);
    assert_int_equal(set.n_items, N);
    assert_int_equal(set.n_to_recode, 0);
    assert_int_equal(set.n_reads, N);
    struct pst_loader_stats sum = {0};
    int64_t deadline = psti_clock_ns() + 60 * SECOND;
    do { /* the last answers are still under way */
        sum = (struct pst_loader_stats){0};
        for (int i = 0; i < 2; i++) {
            const struct pst_loader_stats one = stats_of(loaders[i]);
            sum.n_cache_recoded += one.n_cache_recoded;
            sum.n_cache_not_recoded += one.n_cache_not_recoded;
            sum.nbytes_cache_saved += one.nbytes_cache_saved;
            sum.cache_recode_ns += one.cache_recode_ns;
            sum.n_reads += one.n_reads;
        }
        assert_true(psti_clock_ns() < deadline);
    } while (sum.n_cache_recoded + sum.n_cache_not_recoded < N);
    assert_int_equal(sum.n_cache_recoded, N - N_REFUSED);
    assert_int_equal(sum.n_cache_not_recoded, N_REFUSED);
    assert_true(sum.nbytes_cache_saved > 0 && sum.nbytes_cache_saved == set.nbytes_saved);
    assert_true(sum.cache_recode_ns > 0);
    assert_int_equal(sum.n_reads, 0);
    for (int i = 0; i < 2; i++)
        pst_loader_close(&loaders[i]);
    serve_fixture_stop(&fixture);
}

/* The client that causes an item to be read decides when it is re-coded. All clients share the
 * items. */
static void at_once_beside_later(void **state)
{
    (void)state;
    start(64 * MIB);
    pst_loader *idle = open_host_loader(PST_CACHE_RECODE_IDLE),
               *at_once = open_host_loader(PST_CACHE_RECODE_AT_ONCE);
    struct pst_error err;
    pst_batch *batch;
    begin_epoch(idle, 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(pst_loader_next(idle, &batch, &err));
        pst_batch_release(batch);
    }
    check_epoch(at_once, 0);
    check_epoch(idle, 0);
    check_epoch(at_once, 1);
    wait_for_all(idle);
    check_epoch(idle, 2);
    check_epoch(at_once, 2);
    assert_int_equal(ask_set().n_recoded, N - N_REFUSED);
    assert_int_equal(ask_set().n_items, N);
    pst_loader_close(&idle);
    pst_loader_close(&at_once);
    serve_fixture_stop(&fixture);
}

/* Describes the set of items that the loaders use. */
static struct psti_share_set set_of(void)
{
    struct psti_share_set set = {.dataset = folder, .later = true};
    uint32_t items[PST_MAX_FIELDS];
    psti_share_cache_shape(folder, &set.shape, items);
    set.shape.forms = psti_recode_key(PSTI_RECODE_PLI_JPEG,
                                      (uint64_t)1 << pst_dataset_find_field(folder, "image"));
    return set;
}

/* Opens a session of another client and requests all items. None of them is re-coded yet. */
static struct psti_share_cache *open_session(void)
{
    struct psti_share_cache *session = NULL;
    const struct psti_share_set set = set_of();
    struct psti_share_wish wishes[N], *all[N];
    struct pst_error err;
    assert_ok(psti_share_cache_open(fixture.socket, &set, 1, 10 * SECOND, 10 * SECOND, NULL,
                                    &session, &err));
    for (uint64_t i = 0; i < N; i++) {
        wishes[i] =
            (struct psti_share_wish){.number = psti_share_cache_number(session, 0, i, 0)};
        all[i] = &wishes[i];
    }
    assert_true(psti_share_cache_wait(session, all, N, NULL));
    return session;
}

static uint64_t stored_nbytes(uint64_t sample)
{
    struct pst_item item;
    struct pst_error err;
    assert_ok(pst_dataset_item(folder, sample, 0, 0, &item, sizeof item, &err));
    return item.nbytes;
}

struct held {
    struct psti_cache_span span;
    uint64_t hash;
    unsigned reader;
};

/* Holds all items in the cache as a reader. Returns how many of them are as stored. */
static unsigned hold_all(struct psti_share_cache *session, struct held held[N])
{
    unsigned n = 0;
    memset(held, 0, N * sizeof *held);
    for (uint64_t i = 0; i < N; i++) {
        held[i].reader = psti_share_cache_enter(session, 0);
        assert_true(held[i].reader > 0);
        if (psti_share_cache_look(session, 0, i, 0, stored_nbytes(i), &held[i].span) !=
            PSTI_CACHE_HIT) {
            held[i].span.bytes = NULL;
            continue;
        }
        held[i].hash = psti_hash64(held[i].span.bytes, held[i].span.nbytes);
        n += held[i].span.form == PSTI_CACHE_AS_STORED;
    }
    return n;
}

static void check_held(const struct held held[N])
{
    for (uint64_t i = 0; i < N; i++)
        if (held[i].span.bytes)
            assert_true(psti_hash64(held[i].span.bytes, held[i].span.nbytes) == held[i].hash);
}

static void leave_all(struct psti_share_cache *session, const struct held held[N])
{
    for (uint64_t i = 0; i < N; i++)
        psti_share_cache_leave(session, 0, held[i].reader);
}

/* Runs n epochs, in which the loader's workers are idle from time to time. */
static void go_on(pst_loader *loader, int n)
{
    for (int i = 0; i < n; i++) {
        check_epoch(loader, (uint64_t)i % 3);
        for (int k = 0; k < 50; k++)
            nap();
    }
}

/* In a full cache, re-coded items need the memory of the items that they replace. A reader in
 * another session keeps the old bytes. Once it has left, re-coding goes on, and more items fit. */
static void readers_keep_what_they_have(void **state)
{
    (void)state;
    struct held held[N];
    start(MIB);
    struct psti_share_cache *session = open_session();
    uint64_t n_items = ask_set().n_items;
    assert_int_equal(hold_all(session, held), n_items);
    assert_true(n_items > N / 4 && n_items < N);
    pst_loader *loader = open_host_loader(PST_CACHE_RECODE_IDLE);
    go_on(loader, 3);
    check_held(held);
    const struct pst_service_set set = ask_set();
    assert_true(set.n_recoded > 0 && set.n_to_recode > 0); /* re-coding is blocked */
    leave_all(session, held);
    int64_t deadline = psti_clock_ns() + 60 * SECOND;
    while (stats_of(loader).n_cache_to_recode > 0) {
        assert_true(psti_clock_ns() < deadline);
        go_on(loader, 1);
    }
    go_on(loader, 2); /* the saved memory takes further items */
    assert_true(ask_set().n_items > n_items);
    assert_true(serve_fixture_status(&fixture).cache_nbytes_used <= MIB);
    psti_share_cache_close(&session);
    pst_loader_close(&loader);
    serve_fixture_stop(&fixture);
}

/* The limit holds at every moment, an epoch has at least as many hits as there were items, and the
 * saved memory takes further items. */
static void a_full_cache(void **state)
{
    (void)state;
    start(MIB);
    pst_loader *loader = open_host_loader(PST_CACHE_RECODE_IDLE);
    uint64_t n_first = 0, n_last = 0;
    for (uint64_t i = 0; i < 6; i++) {
        struct pst_loader_stats before = stats_of(loader);
        check_epoch(loader, i % 3);
        struct pst_loader_stats after = stats_of(loader);
        assert_true(after.n_cache_hits - before.n_cache_hits >= before.n_cache_items);
        assert_true(serve_fixture_status(&fixture).cache_nbytes_used <= MIB);
        n_first = i == 0 ? ask_set().n_items : n_first;
        for (int k = 0; k < 300 && stats_of(loader).n_cache_to_recode > 0; k++)
            nap();
    }
    n_last = ask_set().n_items;
    assert_true(n_first < N && n_last > n_first);
    pst_loader_close(&loader);
    serve_fixture_stop(&fixture);
}

/* Forks a client that runs epochs until it is killed. */
static pid_t fork_client(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child ends if the test fails */
        pst_dataset *mine = open_there("photographs");
        pst_cache *cache = serve_fixture_open_host();
        const struct pst_loader_options options = options_of(cache, PST_CACHE_RECODE_IDLE);
        pst_loader *loader = open_loader(mine, &options);
        uint64_t hashes[N_BATCHES];
        for (uint64_t epoch = 0;; epoch++)
            run_epoch(loader, epoch % 3, hashes);
    }
    return pid;
}

/* One client is killed while it reads and lets items be re-coded, another is stopped for a while.
 * The third gets its batches, each item is re-coded once, and nothing is left behind. */
static void killed_and_stopped_clients(void **state)
{
    (void)state;
    if (TEST_TSAN)
        skip(); /* TSan: no threads in a child of a process with threads */
    const struct pst_service_options options = service_of(8 * MIB);
    pid_t service = serve_fixture_fork(&fixture, &options);
    pid_t killed = fork_client(), stopped = fork_client();
    pst_loader *loader = open_host_loader(PST_CACHE_RECODE_IDLE);
    check_epoch(loader, 0);
    kill(stopped, SIGSTOP);
    for (int i = 0; i < 3; i++) {
        serve_fixture_kill(killed, SIGKILL);
        check_epoch(loader, (uint64_t)i);
        killed = fork_client();
        check_epoch(loader, (uint64_t)i);
    }
    kill(stopped, SIGCONT);
    wait_for_all(loader);
    check_epoch(loader, 1);
    const struct pst_service_set set = ask_set();
    assert_int_equal(set.n_recoded, N - N_REFUSED);
    assert_int_equal(set.n_reads, N);
    serve_fixture_kill(stopped, SIGKILL);
    serve_fixture_kill(killed, SIGKILL);
    check_epoch(loader, 2);
    pst_loader_close(&loader);
    serve_fixture_await_no_sessions(&fixture);
    serve_fixture_kill(service, SIGKILL);
}

static void note_done(struct psti_share_wish *wish)
{
    atomic_bool *done = wish->user;
    atomic_store(done, true);
}

/* Wishes for an item, and lets the deadline of the wish pass, while the service stands still. */
static void lose_service(struct psti_share_cache *session)
{
    atomic_bool done = false;
    struct psti_share_wish wish = {
        .number = psti_share_cache_number(session, 0, 0, 0), .user = &done, .done = note_done};
    struct psti_share_wish *wishes[] = {&wish};
    psti_share_cache_submit(session, wishes, 1);
    atomic_store(&ahead_ns, PSTI_LINK_WAIT_NS + SECOND);
    while (!atomic_load(&done))
        usleep(2000);
    atomic_store(&ahead_ns, 0);
    assert_int_equal(wish.result, PSTI_CACHE_RESULT_FAILED);
    assert_true(psti_share_cache_is_lost(session));
}

/* The service stands still until a client gives it up, and goes on then. What the client reads
 * stays as it is. When its readers have left, items are re-coded as if it had no session. */
static void lost_clients_hold_nothing_back(void **state)
{
    (void)state;
    struct held held[N];
    if (TEST_TSAN)
        skip(); /* a child of a process with threads may start none */
    const struct pst_service_options options = service_of(MIB);
    pid_t service = serve_fixture_fork(&fixture, &options);
    struct psti_share_cache *session = open_session();
    assert_int_equal(hold_all(session, held), ask_set().n_items);
    assert_int_equal(kill(service, SIGSTOP), 0);
    lose_service(session);
    assert_int_equal(kill(service, SIGCONT), 0);
    pst_loader *loader = open_host_loader(PST_CACHE_RECODE_IDLE);
    go_on(loader, 3);
    check_held(held);
    assert_true(ask_set().n_to_recode > 0); /* a round waits for the readers */
    leave_all(session, held);
    int64_t deadline = psti_clock_ns() + 60 * SECOND;
    while (stats_of(loader).n_cache_to_recode > 0) {
        assert_true(psti_clock_ns() < deadline);
        go_on(loader, 1);
    }
    assert_true(psti_share_cache_is_lost(session));
    assert_true(hold_all(session, held) < ask_set().n_items); /* it sees what was re-coded */
    leave_all(session, held);
    psti_share_cache_close(&session);
    pst_loader_close(&loader);
    serve_fixture_await_no_sessions(&fixture);
    serve_fixture_kill(service, SIGKILL);
}

/* Sends one message that the test has composed. */
static void send_by_hand(int fd, const void *body, size_t nbytes, enum psti_message_kind kind)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_bytes(&out, body, nbytes);
    size_t n = psti_share_finish(&out, kind, 0, 0);
    struct pst_error err;
    assert_ok(psti_share_send(fd, bytes, n, NULL, 0, psti_clock_ns() + 10 * SECOND, &err));
}

/* Opens the set in a session that the test speaks itself. Returns the socket, and in *view the view
 * of the set. */
static int open_by_hand(bool later, struct psti_cache_view **view)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    static struct psti_message message;
    struct psti_share_set set = set_of();
    struct psti_cache_opened opened;
    uint32_t n_fds = 0;
    int fd, fds[PSTI_SHARE_DATASET_FDS];
    struct pst_error err;
    assert_ok(psti_share_connect(fixture.socket, PSTI_SESSION_CACHE, 10 * SECOND, NULL, &fd, NULL,
                                 &err));
    struct psti_wire_out out = psti_share_begin(bytes);
    set.later = later;
    assert_ok(psti_share_put_cache_open(&out, &set, 0, fds, &n_fds, &err));
    size_t n = psti_share_finish(&out, PSTI_MESSAGE_CACHE_OPEN, 1, n_fds);
    assert_ok(psti_share_send(fd, bytes, n, fds, n_fds, psti_clock_ns() + 10 * SECOND, &err));
    while (n_fds > 0)
        close(fds[--n_fds]);
    assert_ok(psti_share_answer(fd, &message, PSTI_MESSAGE_CACHE_OPENED, 10 * SECOND, NULL, &err));
    struct psti_wire_in in = psti_share_message_body(&message);
    assert_ok(psti_share_get_cache_opened(&in, &opened, &err));
    const struct psti_cache_export from = {psti_share_message_take_fd(&message, 0),
                                           psti_share_message_take_fd(&message, 1),
                                           opened.table_nbytes, opened.capacity};
    assert_ok(psti_cache_view_open(&set.shape, &from, view, &err));
    return fd;
}

/* The service ends the session of a client that breaks the protocol while its process lives: the
 * memory that the client has mapped must not change any more. */
static void dropped_clients_keep_what_they_have(void **state)
{
    (void)state;
    struct psti_cache_view *view;
    struct psti_cache_span spans[N];
    uint64_t hashes[N];
    start(MIB);
    struct psti_share_cache *session = open_session();
    int fd = open_by_hand(true, &view);
    for (uint64_t i = 0; i < N; i++) {
        if (psti_cache_view_ask(view, i, 0, stored_nbytes(i), &spans[i]) != PSTI_CACHE_HIT)
            spans[i].nbytes = 0;
        hashes[i] = spans[i].nbytes ? psti_hash64(spans[i].bytes, spans[i].nbytes) : 0;
    }
    pst_loader *loader = open_host_loader(PST_CACHE_RECODE_IDLE);
    go_on(loader, 2);
    assert_true(stats_of(loader).n_cache_to_recode > 0); /* the round has not ended */
    send_by_hand(fd, "short", 5, PSTI_MESSAGE_CACHE_ROUND_ENDED);
    int64_t deadline = psti_clock_ns() + 60 * SECOND;
    while (stats_of(loader).n_cache_to_recode > 0) { /* waits until no more items are re-coded */
        assert_true(psti_clock_ns() < deadline);
        nap();
    }
    uint64_t n_recoded = ask_set().n_recoded;
    assert_true(n_recoded > 0 && n_recoded < N - N_REFUSED);
    go_on(loader, 3);
    assert_int_equal(ask_set().n_recoded, n_recoded);
    for (uint64_t i = 0; i < N; i++)
        if (spans[i].nbytes)
            assert_true(psti_hash64(spans[i].bytes, spans[i].nbytes) == hashes[i]);
    close(fd);
    psti_cache_view_close(&view);
    psti_share_cache_close(&session);
    pst_loader_close(&loader);
    serve_fixture_stop(&fixture);
}

/* Opens the set and sends a message that must end the session. */
static void is_refused(const void *body, size_t nbytes, enum psti_message_kind kind,
                       const char *text)
{
    static struct psti_message message;
    struct psti_cache_view *view;
    struct pst_error err;
    int fd = open_by_hand(false, &view);
    send_by_hand(fd, body, nbytes, kind);
    assert_int_equal(
        psti_share_answer(fd, &message, PSTI_MESSAGE_CACHE_READY, 10 * SECOND, NULL, &err),
        PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, text));
    close(fd);
    psti_cache_view_close(&view);
}

static void messages_that_cannot_be(void **state)
{
    (void)state;
    uint8_t body[PSTI_CACHE_WANT_NBYTES];
    start(MIB);
    memset(body, 0xff, 16); /* requests an item for later re-coding */
    memset(body + 16, 0, 4);
    is_refused(body, sizeof body, PSTI_MESSAGE_CACHE_READ, "not opened for that");
    body[16] = 1; /* requests an item of a set that does not exist */
    is_refused(body, sizeof body, PSTI_MESSAGE_CACHE_READ, "its set 1");
    memset(body, 0, sizeof body);
    is_refused(body, 12, PSTI_MESSAGE_CACHE_ROUND_ENDED, "a round of its set 0");
    body[0] = 63;
    is_refused(body, 12, PSTI_MESSAGE_CACHE_ROUND_ENDED, "a round of its set 63");
    serve_fixture_await_no_sessions(&fixture);
    serve_fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_clients_let_the_service_recode),
        cmocka_unit_test(at_once_beside_later),
        cmocka_unit_test(readers_keep_what_they_have),
        cmocka_unit_test(a_full_cache),
        cmocka_unit_test(killed_and_stopped_clients),
        cmocka_unit_test(lost_clients_hold_nothing_back),
        cmocka_unit_test(dropped_clients_keep_what_they_have),
        cmocka_unit_test(messages_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
