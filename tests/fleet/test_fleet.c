/* test_fleet.c - items come back from servers as they were offered, whole or in parts, and from no
 * other data set; lists of servers are read; servers that refuse, die, stop or lie cost misses and
 * at most the timeout, and are found again. */
#include "fleet/fleet_fixture.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "fleet/fleet.h"
#include "fleet/fleet_int.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 200, MIB = 1 << 20 };

static char directory[] = "/tmp/pst-fleet-XXXXXX";

static const char *at(const char *name)
{
    static char paths[16][128];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, 128, "%s/%s", directory, name);
    return path;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const struct psti_cache_shape shape = {{1, 2, 3}, N, 2, 0};

static struct psti_fleet_set *open_set(pst_fleet *fleet, const struct psti_cache_shape *of)
{
    struct psti_fleet_set *set = NULL;
    struct pst_error err;
    assert_ok(psti_fleet_set_open(fleet, of, 8 * MIB, &set, &err));
    return set;
}

/* Length and bytes of a sample's item. */
static uint64_t length_of(uint64_t sample) { return 1 + sample * 97 % 5000; }

static void make(uint64_t sample, uint64_t nbytes, uint8_t *bytes)
{
    for (uint64_t i = 0; i < nbytes; i++)
        bytes[i] = (uint8_t)((sample + 1) * 131 + i * 7 + (i >> 8));
}

static atomic_uint n_outcomes[PSTI_FLEET_LOST + 1];

static void note(const struct psti_fleet_offer *offer, enum psti_fleet_outcome outcome)
{
    uint8_t *wanted = malloc(offer->nbytes);
    make(offer->sample, offer->nbytes, wanted);
    assert_true(offer->user == n_outcomes);
    assert_true(!offer->bytes || memcmp(offer->bytes, wanted, offer->nbytes) == 0);
    free(wanted);
    atomic_fetch_add(&n_outcomes[outcome], 1);
}

static enum psti_fleet_taken offer(struct psti_fleet_set *set, uint64_t sample, uint64_t nbytes,
                                   uint8_t form)
{
    uint8_t *bytes = malloc(nbytes);
    make(sample, nbytes, bytes);
    const struct psti_fleet_offer offered = {.sample = sample,
                                             .i_item = 1,
                                             .stored_nbytes = nbytes,
                                             .bytes = bytes,
                                             .nbytes = nbytes,
                                             .form = form,
                                             .done = note,
                                             .user = n_outcomes};
    enum psti_fleet_taken taken = psti_fleet_offer(set, &offered);
    memset(bytes, 0, nbytes); /* it was copied */
    free(bytes);
    return taken;
}

static void settle(struct psti_fleet_set *set)
{
    assert_true(psti_fleet_settle(set, psti_clock_ns() + (int64_t)60 * 1000000000));
}

/* Asks for n samples from `first` on, whose items have `nbytes` bytes (0: length_of). Counts the
 * answers, and compares the bytes of hits. Returns the longest time. */
static void ask(struct psti_fleet_set *set, uint64_t first, uint32_t n, uint64_t nbytes,
                uint8_t form, unsigned answers[3])
{
    struct psti_fleet_get *gets = calloc(n, sizeof *gets), **list = calloc(n, sizeof *list);
    memset(answers, 0, 3 * sizeof *answers);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t length = nbytes ? nbytes : length_of(first + i);
        gets[i] = (struct psti_fleet_get){.sample = first + i,
                                          .i_item = 1,
                                          .nbytes = length + (form ? 10 : 0),
                                          .buffer = malloc(length + 10)};
        list[i] = &gets[i];
    }
    psti_fleet_ask_and_wait(set, list, n);
    for (uint32_t i = 0; i < n; i++) {
        answers[gets[i].answer]++;
        if (gets[i].answer == PSTI_FLEET_HIT) {
            uint64_t length = nbytes ? nbytes : length_of(first + i);
            uint8_t *wanted = malloc(length);
            make(first + i, length, wanted);
            assert_int_equal(gets[i].got_nbytes, length);
            assert_int_equal(gets[i].form, form);
            assert_memory_equal(gets[i].buffer, wanted, length);
            free(wanted);
        }
        free(gets[i].buffer);
    }
    free(gets);
    free(list);
}

/* Asks for samples 0 to n - 1 until all have that answer. With a short timeout a machine that is
 * busy may be late at first. */
static void ask_until(struct psti_fleet_set *set, uint32_t n, enum psti_fleet_answer answer)
{
    int64_t end = psti_clock_ns() + (int64_t)60 * 1000000000;
    unsigned answers[3];
    do {
        assert_true(psti_clock_ns() < end);
        psti_fleet_retry(set);
        ask(set, 0, n, 0, 0, answers);
    } while (answers[answer] != n);
}

static void test_lists(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "@/nowhere", "a:0",  "a:70000", ":1",   "a b a",
                                      "x=", "=a",        "[::1", "[::1]x",  "a:1x", "a,a:11211"};
    struct psti_fleet_address *list;
    struct pst_error err;
    uint32_t n;
    assert_ok(psti_fleet_servers_read(" b:2,a\n/run/m.sock # c\n[::1]:5 z=q:1", &list, &n, &err));
    assert_int_equal(n, 5);
    assert_string_equal(list[0].name, "/run/m.sock");
    assert_int_equal(list[0].port, 0);
    assert_string_equal(list[1].name, "::1:5");
    assert_string_equal(list[1].host, "::1");
    assert_string_equal(list[2].name, "a:11211");
    assert_string_equal(list[3].name, "b:2");
    assert_string_equal(list[4].name, "z");
    assert_string_equal(list[4].host, "q");
    psti_free(list);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_not_equal(psti_fleet_servers_read(bad[i], &list, &n, &err), PST_OK);
        assert_null(list);
        assert_true(err.text[0]);
    }
    const char *path = at("list");
    char text[160];
    write_text(path, "# servers\none:1\ntwo:2\n");
    snprintf(text, sizeof text, "@%s", path);
    assert_ok(psti_fleet_servers_read(text, &list, &n, &err));
    assert_int_equal(n, 2);
    psti_free(list);
}

static void test_library(void **state)
{
    (void)state;
    struct pst_error err;
    pst_fleet *fleet;
    const struct pst_fleet_options options = {.struct_size = sizeof options, .servers = "a"};
    assert_true(psti_fleet_library_is_new("1.1.4") && psti_fleet_library_is_new("1.2.0"));
    assert_false(psti_fleet_library_is_new("1.1.3") || psti_fleet_library_is_new("1.0.18") ||
                 psti_fleet_library_is_new(NULL) || psti_fleet_library_is_new("x"));
    setenv("PENSTOCK_LIBMEMCACHED", "/nowhere/libmemcached.so", 1);
    assert_int_equal(pst_fleet_open(&options, &fleet, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "libmemcached11"));
    assert_null(fleet);
    setenv("PENSTOCK_LIBMEMCACHED", "libc.so.6", 1);
    assert_int_equal(pst_fleet_open(&options, &fleet, &err), PST_ERROR_UNSUPPORTED);
    unsetenv("PENSTOCK_LIBMEMCACHED");
    unsetenv("PENSTOCK_FLEET");
    assert_int_equal(pst_fleet_open(NULL, &fleet, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "PENSTOCK_FLEET"));
}

/* Three servers share the items about equally, and one less moves only its own. */
static void test_choice(void **state)
{
    (void)state;
    enum { KEYS = 30000 };
    struct psti_fleet_server servers[3] = {{.hash = 11}, {.hash = 22}, {.hash = 33}};
    struct psti_fleet_server *list[3] = {&servers[0], &servers[1], &servers[2]};
    pst_fleet three = {.n_servers = 3, .servers = list}, two = {.n_servers = 2, .servers = list};
    unsigned n[3] = {0};
    for (uint64_t key = 0; key < KEYS; key++) {
        uint32_t chosen = psti_fleet_choose(&three, key);
        n[chosen]++;
        if (chosen < 2)
            assert_int_equal(psti_fleet_choose(&two, key), chosen);
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(n[i], KEYS / 3 - KEYS / 50, KEYS / 3 + KEYS / 50);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct server servers[3] = {0};
    char list[1024];
    unsigned answers[3];
    for (int i = 0; i < 3; i++)
        start_server(&servers[i], at(i == 0 ? "a" : i == 1 ? "b" : "c"), 64, (char *)NULL);
    pst_fleet *fleet = open_fleet(list_of(servers, 3, list), 10, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    ask(set, 0, N, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_MISS], N);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(offer(set, i, length_of(i), 0), PSTI_FLEET_TAKEN);
    settle(set);
    ask(set, 0, N, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], N);
    /* Who adds it again finds it there. */
    assert_int_equal(offer(set, 0, length_of(0), 0), PSTI_FLEET_TAKEN);
    settle(set);
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_int_equal(use.n_added, N);
    assert_int_equal(use.n_present, 1);
    assert_int_equal(use.n_hits, N);
    assert_int_equal(use.n_misses, N);
    assert_int_equal(use.n_servers_up, 3);
    assert_true(use.mean_ns > 0 && use.p99_ns >= use.mean_ns / 2 && use.bytes_per_second > 0);
    /* Another version of the data set, another form of its items, another size of parts: nothing
     * of the first one is seen. */
    struct psti_cache_shape other = shape;
    other.identity[15] = 1;
    struct psti_fleet_set *changed = open_set(fleet, &other);
    ask(changed, 0, N, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_MISS], N);
    psti_fleet_set_close(&changed);
    other = shape;
    other.forms = 1;
    changed = open_set(fleet, &other);
    ask(changed, 0, N, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_MISS], N);
    psti_fleet_set_close(&changed);
    psti_fleet_set_close(&set);
    struct pst_fleet_server server;
    struct pst_error err;
    uint64_t n_hits = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(pst_fleet_server(fleet, i, &server, sizeof server, &err));
        assert_true(server.is_up && server.is_local && server.n_hits > N / 6);
        n_hits += server.n_hits;
    }
    assert_int_equal(n_hits, N);
    assert_int_equal(pst_fleet_server(fleet, 3, &server, sizeof server, &err), PST_ERROR_ARGUMENT);
    pst_fleet_close(&fleet);
    for (int i = 0; i < 3; i++)
        end_server(&servers[i], SIGTERM);
}

/* Items of many parts, in the data set's form and in another one, which has fewer parts. */
static void test_parts(void **state)
{
    (void)state;
    enum { BIG = 1000000 };
    struct server server = {0};
    unsigned answers[3];
    start_server(&server, at("p"), 64, (char *)NULL);
    pst_fleet *fleet = open_fleet(server.path, 10, 4096);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(offer(set, i, BIG, 0), PSTI_FLEET_TAKEN);
    assert_int_equal(offer(set, 5, 3840, 0), PSTI_FLEET_TAKEN); /* one part, whole */
    assert_int_equal(offer(set, 6, 3841, 0), PSTI_FLEET_TAKEN);
    settle(set);
    ask(set, 0, 5, BIG, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 5);
    ask(set, 5, 1, 3840, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 1);
    ask(set, 6, 1, 3841, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 1);
    assert_int_equal(offer(set, 7, 7000, 8), PSTI_FLEET_TAKEN);
    settle(set);
    ask(set, 7, 1, 7000, 8, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 1);
    ask(set, 7, 1, 7000, 0, answers); /* it is not of that form, so not the item */
    assert_int_equal(answers[PSTI_FLEET_DECLINED], 1);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGTERM);
}

/* A full server refuses, keeps what it has, and is soon asked less. No refusal is an error. */
static void test_full(void **state)
{
    (void)state;
    enum { BIG = 100000, MANY = 190 };
    struct server server = {0};
    unsigned answers[3], n_taken = 0;
    start_server(&server, at("f"), 8, (char *)NULL);
    pst_fleet *fleet = open_fleet(server.path, 10, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    memset(n_outcomes, 0, sizeof n_outcomes);
    for (uint64_t i = 0; i < MANY; i++) {
        n_taken += offer(set, i, BIG, 0) == PSTI_FLEET_TAKEN;
        settle(set);
    }
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_in_range(use.n_added, 20, 90);
    assert_int_equal(use.n_full, MANY - use.n_added);
    assert_int_equal(atomic_load(&n_outcomes[PSTI_FLEET_ADDED]), use.n_added);
    assert_int_equal(atomic_load(&n_outcomes[PSTI_FLEET_FULL]), n_taken - use.n_added);
    assert_true(n_taken < MANY / 2 + use.n_added);
    assert_int_equal(use.n_lost, 0);
    ask(set, 0, MANY, BIG, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], use.n_added);
    assert_int_equal(answers[PSTI_FLEET_DECLINED], 0);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGTERM);
}

static void test_login(void **state)
{
    (void)state;
    struct server server = {0};
    struct pst_error err;
    unsigned answers[3];
    char path[128], wrong[128];
    snprintf(path, sizeof path, "%s/users", directory);
    snprintf(wrong, sizeof wrong, "%s/wrong", directory);
    write_text(path, "me:secret\n");
    write_text(wrong, "me:other\n");
    start_server(&server, at("l"), 64, "-Y", path, (char *)NULL);
    struct pst_fleet_options options = {.struct_size = sizeof options,
                                        .servers = server.path,
                                        .timeout_seconds = 10,
                                        .auth_file = path};
    pst_fleet *fleet;
    assert_ok(pst_fleet_open(&options, &fleet, &err));
    struct psti_fleet_set *set = open_set(fleet, &shape);
    await_servers(fleet, 1);
    assert_int_equal(offer(set, 3, length_of(3), 0), PSTI_FLEET_TAKEN);
    settle(set);
    ask(set, 3, 1, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 1);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    for (int i = 0; i < 2; i++) { /* a wrong password, and none */
        options.auth_file = i ? NULL : wrong;
        assert_ok(pst_fleet_open(&options, &fleet, &err));
        set = open_set(fleet, &shape);
        ask(set, 3, 1, 0, 0, answers);
        assert_int_equal(answers[PSTI_FLEET_DECLINED], 1);
        struct pst_fleet_server seen;
        assert_ok(pst_fleet_server(fleet, 0, &seen, sizeof seen, &err));
        assert_true(!seen.is_up && seen.error[0]);
        psti_fleet_set_close(&set);
        pst_fleet_close(&fleet);
    }
    options.auth_file = at("nowhere");
    assert_int_equal(pst_fleet_open(&options, &fleet, &err), PST_ERROR_NOT_FOUND);
    end_server(&server, SIGTERM);
}

struct sasl_callback {
    unsigned long id;
    int (*proc)(void *context, char **path);
    void *context;
};

static int give_directory(void *context, char **path)
{
    *path = context;
    return 0;
}

/* Makes Cyrus SASL's database of users, as saslpasswd2 does. False: it is not there. */
static bool make_users(char *conf)
{
    enum { GETCONFPATH = 5, CREATE = 1 };
    void *library = dlopen("libsasl2.so.2", RTLD_NOW), *connection = NULL;
    int (*init)(const struct sasl_callback *, const char *);
    int (*new_connection)(const char *, const char *, const char *, const char *, const char *,
                          const struct sasl_callback *, unsigned, void **);
    int (*set)(void *, const char *, const char *, unsigned, const char *, unsigned, unsigned);
    void (*dispose)(void **);
    struct sasl_callback callbacks[] = {{GETCONFPATH, give_directory, conf}, {0, NULL, NULL}};
    if (!library)
        return false;
    *(void **)&init = dlsym(library, "sasl_server_init");
    *(void **)&new_connection = dlsym(library, "sasl_server_new");
    *(void **)&set = dlsym(library, "sasl_setpass");
    *(void **)&dispose = dlsym(library, "sasl_dispose");
    bool good = init && new_connection && set && dispose && init(callbacks, "memcached") == 0 &&
                new_connection("memcached", NULL, NULL, NULL, NULL, NULL, 0, &connection) == 0 &&
                set(connection, "me", "secret", 6, NULL, 0, CREATE) == 0;
    if (connection)
        dispose(&connection);
    return good;
}

/* By SASL, where memcached and Cyrus SASL can do it. */
static void test_sasl(void **state)
{
    (void)state;
    struct server server = {0};
    struct pst_error err;
    unsigned answers[3];
    char conf[64], path[128], text[256];
    snprintf(conf, sizeof conf, "%s/sasl", directory);
    assert_int_equal(mkdir(conf, 0700), 0);
    snprintf(path, sizeof path, "%s/memcached.conf", conf);
    snprintf(text, sizeof text,
             "mech_list: plain\npwcheck_method: auxprop\nauxprop_plugin: sasldb\n"
             "sasldb_path: %s/users\n",
             conf);
    write_text(path, text);
    if (!make_users(conf) || system("memcached -h | grep -q enable-sasl") != 0) {
        print_message("no SASL here: not tested\n");
        return;
    }
    setenv("SASL_CONF_PATH", conf, 1);
    snprintf(text, sizeof text, "%u", free_port());
    start_server(&server, text, 64, "-S", (char *)NULL);
    for (int wrong = 0; wrong < 2; wrong++) {
        write_text(at("login"), wrong ? "me:other\n" : "me:secret\n");
        const struct pst_fleet_options options = {.struct_size = sizeof options,
                                                  .servers = server.path,
                                                  .timeout_seconds = 10,
                                                  .auth_file = at("login"),
                                                  .auth = PST_FLEET_AUTH_SASL};
        pst_fleet *fleet;
        assert_ok(pst_fleet_open(&options, &fleet, &err));
        struct psti_fleet_set *set = open_set(fleet, &shape);
        if (!wrong) {
            await_servers(fleet, 1);
            assert_int_equal(offer(set, 3, length_of(3), 0), PSTI_FLEET_TAKEN);
            settle(set);
        }
        ask(set, 3, 1, 0, 0, answers);
        assert_int_equal(answers[wrong ? PSTI_FLEET_DECLINED : PSTI_FLEET_HIT], 1);
        assert_int_equal(fleet_use(fleet).n_servers_up, !wrong);
        psti_fleet_set_close(&set);
        pst_fleet_close(&fleet);
    }
    unsetenv("SASL_CONF_PATH");
    end_server(&server, SIGTERM);
}

/* Nobody listens; then somebody does. */
static void test_absent(void **state)
{
    (void)state;
    struct server server = {0};
    unsigned answers[3];
    const char *path = at("n");
    pst_fleet *fleet = open_fleet(path, 10, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    ask(set, 0, 20, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_DECLINED], 20);
    assert_int_equal(offer(set, 0, 100, 0), PSTI_FLEET_REFUSED);
    start_server(&server, path, 64, (char *)NULL);
    psti_fleet_retry(set);
    await_servers(fleet, 1);
    ask(set, 0, 20, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_MISS], 20);
    /* It is started again, and has nothing then. */
    assert_int_equal(offer(set, 0, length_of(0), 0), PSTI_FLEET_TAKEN);
    settle(set);
    end_server(&server, SIGKILL);
    ask(set, 0, 1, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_DECLINED], 1);
    start_server(&server, path, 64, (char *)NULL);
    await_servers(fleet, 1);
    ask(set, 0, 1, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_MISS], 1);
    assert_true(fleet_use(fleet).n_found >= 2 && fleet_use(fleet).n_lost >= 2);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGTERM);
}

/* A stopped server holds nobody up for longer than its timeout, nor the fleet's end. */
static void test_stopped(void **state)
{
    (void)state;
    struct server server = {0};
    unsigned answers[3];
    start_server(&server, at("s"), 64, (char *)NULL);
    pst_fleet *fleet = open_fleet(server.path, 0.2, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    await_servers(fleet, 1);
    signal_server(&server, SIGSTOP);
    ask(set, 0, 100, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_DECLINED], 100);
    signal_server(&server, SIGCONT);
    ask_until(set, 100, PSTI_FLEET_MISS);
    signal_server(&server, SIGSTOP);
    for (uint64_t i = 0; i < 10; i++)
        (void)offer(set, i, 1000, 0);
    settle(set);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGKILL);
}

/* Whatever a server says, a hit has the right bytes, and each request ends. */
static void test_lies(void **state)
{
    (void)state;
    struct liar *liar = start_liar(at("liar"));
    unsigned answers[3];
    pst_fleet *fleet = open_fleet(at("liar"), 1, 4096);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    await_servers(fleet, 1);
    for (uint64_t i = 0; i < 40; i++)
        assert_int_equal(offer(set, i, length_of(i), 0), PSTI_FLEET_TAKEN);
    settle(set);
    ask_until(set, 40, PSTI_FLEET_HIT);
    for (int lie = LIE_NONE + 1; lie < N_LIES; lie++) {
        set_lie(liar, (enum lie)lie);
        for (int round = 0; round < 2; round++) {
            ask(set, 0, 40, 0, 0, answers);
            assert_int_equal(answers[PSTI_FLEET_HIT], 0);
            psti_fleet_retry(set);
        }
        set_lie(liar, LIE_NONE);
        ask_until(set, 40, PSTI_FLEET_HIT);
    }
    assert_true(fleet_use(fleet).n_bad_values > 0);
    ask_until(set, 40, PSTI_FLEET_HIT);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_liar(liar);
}

/* A fleet that is closed while a server drips does not wait for the last drop. */
static void test_close_while_stuck(void **state)
{
    (void)state;
    struct liar *liar = start_liar(at("drip"));
    unsigned answers[3];
    pst_fleet *fleet = open_fleet(at("drip"), 0.2, 0);
    struct psti_fleet_set *set = open_set(fleet, &shape);
    await_servers(fleet, 1);
    assert_int_equal(offer(set, 60, length_of(60), 0), PSTI_FLEET_TAKEN);
    settle(set);
    set_lie(liar, LIE_DRIP);
    ask(set, 60, 1, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], 0);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    set_lie(liar, LIE_NONE); /* the rest comes at once */
    end_liar(liar);
}

/* Copies that find no room are dropped; the ring is whole again after them. */
static void test_ring(void **state)
{
    (void)state;
    struct server server = {0};
    start_server(&server, at("r"), 64, (char *)NULL);
    pst_fleet *fleet = open_fleet(server.path, 10, 0);
    struct psti_fleet_set *set = NULL;
    struct pst_error err;
    unsigned answers[3], n_taken = 0, n_busy = 0;
    assert_ok(psti_fleet_set_open(fleet, &shape, 12000, &set, &err));
    await_servers(fleet, 1);
    assert_int_equal(offer(set, 199, 13000, 0), PSTI_FLEET_BUSY); /* it never fits */
    for (int round = 0; round < 20; round++)
        for (uint64_t i = 0; i < N - 1; i++) {
            enum psti_fleet_taken taken = offer(set, i, length_of(i), 0);
            n_taken += taken == PSTI_FLEET_TAKEN;
            n_busy += taken == PSTI_FLEET_BUSY;
        }
    settle(set);
    assert_int_equal(n_taken + n_busy, 20 * (N - 1));
    struct pst_fleet_stats use = fleet_use(fleet);
    assert_int_equal(use.n_added + use.n_present, n_taken);
    assert_int_equal(use.n_dropped, n_busy + 1);
    for (uint64_t i = 0; i < N - 1; i++) { /* one at a time each finds room */
        assert_int_equal(offer(set, i, length_of(i), 0), PSTI_FLEET_TAKEN);
        settle(set);
    }
    ask(set, 0, N - 1, 0, 0, answers);
    assert_int_equal(answers[PSTI_FLEET_HIT], N - 1);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    end_server(&server, SIGTERM);
}

int main(void)
{
    const struct CMUnitTest pure[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_choice)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_library),
                                       cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_full),
                                       cmocka_unit_test(test_login),
                                       cmocka_unit_test(test_sasl),
                                       cmocka_unit_test(test_absent),
                                       cmocka_unit_test(test_stopped),
                                       cmocka_unit_test(test_lies),
                                       cmocka_unit_test(test_ring),
                                       cmocka_unit_test(test_close_while_stuck)};
    if (!mkdtemp(directory))
        return 1;
    int failed = cmocka_run_group_tests(pure, NULL, NULL);
    char command[128];
    if (!failed && fleet_is_here())
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    else if (!failed)
        failed = 77;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) == 0 ? failed : 1;
}
