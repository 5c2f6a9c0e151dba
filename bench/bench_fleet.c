/* bench_fleet.c - what the fleet's client adds to memcached on the same host.
 *
 *     bench_fleet [--json FILE]
 *
 * A memcached with one thread listens on a Unix socket. It has 256 items of 110,000 bytes as the
 * fleet keeps them, in parts of 32 KiB with headers, and once more as one value each. A raw
 * socket does the least work possible: it sends `get` for the same parts, or for the whole
 * value, and receives until the expected number of bytes has come. The fleet's client also finds
 * the server of the item, parses and compares the answers, and checks each part. Each side receives
 * every item into a buffer of its own. Both sides take turns, round by round, and each round
 * requests all items in a random order, so other work on the machine slows both. Figures are
 * medians of rounds; a ratio compares two neighbouring rounds. First one item is requested at a
 * time; then 16 are always in flight. The bytes of all items are compared in the end. */
#include "fleet/fleet.h"
#include "format/format_fleet.h"

#include <penstock/penstock.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    N_ITEMS = 256,
    ITEM_NBYTES = 110000,
    ROUNDS = 41,
    IN_FLIGHT = 16,
    LINE_NBYTES = 64,
    KEYS_NBYTES = 1024, /* bytes that are enough for the memcached keys of an item */
    PART_NBYTES = 32768 - PSTI_FLEET_OVERHEAD_NBYTES,
    N_PARTS = (ITEM_NBYTES + PART_NBYTES - 1) / PART_NBYTES
};

static const struct psti_cache_shape shape = {{1}, N_ITEMS, 1, 0, false};

static char directory[] = "/tmp/pst-bench-fleet-XXXXXX", path[64];
static pid_t server;
static int raw_fd;
static pst_fleet *fleet;
static struct psti_fleet_set *set;
static uint8_t *buffers[N_ITEMS], *raw_buffers[N_ITEMS]; /* each item's buffers for received
                                                          * bytes */
static uint32_t order[N_ITEMS];

static void fail(const char *what)
{
    fprintf(stderr, "bench_fleet: %s\n", what);
    if (server > 0)
        kill(server, SIGKILL);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void make_item(uint32_t item, uint8_t *bytes)
{
    uint64_t state = item + 1;
    for (size_t i = 0; i < ITEM_NBYTES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(state >> 56);
    }
}

static void shuffle(uint64_t seed)
{
    uint64_t state = seed * 2654435761u + 1;
    for (uint32_t i = 0; i < N_ITEMS; i++)
        order[i] = i;
    for (uint32_t i = N_ITEMS - 1; i > 0; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t k = (uint32_t)((state >> 33) % (i + 1)), other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
}

static void start_server(void)
{
    if (!mkdtemp(directory))
        fail("cannot make a directory");
    snprintf(path, sizeof path, "%s/socket", directory);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("memcached", "memcached", "-M", "-m", "256", "-t", "1", "-s", path,
               geteuid() == 0 ? "-u" : NULL, "root", (char *)NULL);
        _exit(127);
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    raw_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; connect(raw_fd, (struct sockaddr *)&address, sizeof address) != 0; i++) {
        if (i == 1000 || waitpid(server, NULL, WNOHANG) != 0)
            fail("memcached does not start: is it installed?");
        usleep(10000);
    }
}

static void raw_send(const void *bytes, size_t nbytes)
{
    for (size_t at = 0; at < nbytes;) {
        ssize_t n = send(raw_fd, (const char *)bytes + at, nbytes - at, MSG_NOSIGNAL);
        if (n <= 0)
            fail("cannot send");
        at += (size_t)n;
    }
}

static void raw_receive(uint8_t *bytes, size_t nbytes)
{
    for (size_t at = 0; at < nbytes;) {
        ssize_t n = recv(raw_fd, bytes + at, nbytes - at, 0);
        if (n <= 0)
            fail("cannot receive");
        at += (size_t)n;
    }
}

/* A `get` request of the raw socket, and the length of its answer in bytes. */
struct question {
    char text[KEYS_NBYTES];
    size_t n_text, n_answer;
};
static struct question wholes[N_ITEMS], parts[N_ITEMS];

static void ask_for(struct question *question, const char *key, size_t nbytes)
{
    char line[LINE_NBYTES];
    bool first = question->n_text == 0;
    question->n_text +=
        (size_t)snprintf(question->text + question->n_text, KEYS_NBYTES - question->n_text, "%s %s",
                         first ? "get" : "", key);
    question->n_answer += strlen(key) + nbytes + sizeof "VALUE  0 \r\n\r\n" - 1 +
                          (size_t)snprintf(line, sizeof line, "%zu", nbytes) +
                          (first ? sizeof "END\r\n" - 1 : 0);
}

static void make_questions(void)
{
    for (uint32_t i = 0; i < N_ITEMS; i++) {
        const struct psti_fleet_name name = {
            .identity = {1}, .number = i, .part_nbytes = PART_NBYTES};
        char key[PSTI_FLEET_KEY_CAP];
        snprintf(key, sizeof key, "raw%05u", i);
        ask_for(&wholes[i], key, ITEM_NBYTES);
        for (uint32_t part = 0; part < N_PARTS; part++) {
            size_t left = ITEM_NBYTES - part * (size_t)PART_NBYTES;
            psti_format_fleet_key(&name, part, key);
            ask_for(&parts[i], key,
                    PSTI_FLEET_HEADER_NBYTES + (left < PART_NBYTES ? left : PART_NBYTES));
        }
        wholes[i].n_text += (size_t)snprintf(wholes[i].text + wholes[i].n_text, 3, "\r\n");
        parts[i].n_text += (size_t)snprintf(parts[i].text + parts[i].n_text, 3, "\r\n");
    }
}

static void raw_store(uint32_t item, const uint8_t *bytes)
{
    char line[LINE_NBYTES];
    int n = snprintf(line, sizeof line, "set raw%05u 0 0 %d noreply\r\n", item, ITEM_NBYTES);
    raw_send(line, (size_t)n);
    raw_send(bytes, ITEM_NBYTES);
    raw_send("\r\n", 2);
}

static void offered(const struct psti_fleet_offer *offer, enum psti_fleet_outcome outcome)
{
    (void)offer;
    if (outcome != PSTI_FLEET_ADDED)
        fail("an item was not added");
}

static void open_fleet(void)
{
    const struct pst_fleet_options options = {
        .struct_size = sizeof options, .servers = path, .timeout_seconds = 30};
    struct pst_fleet_stats stats = {0};
    if (pst_fleet_open(&options, &fleet, NULL) != PST_OK ||
        psti_fleet_set_open(fleet, &shape, 1, (uint64_t)64 << 20, &set, NULL) != PST_OK)
        fail("cannot open a fleet");
    while (stats.n_servers_up == 0) {
        usleep(1000);
        pst_fleet_stats(fleet, &stats, sizeof stats);
    }
}

static void store_all(void)
{
    uint8_t *bytes = malloc(ITEM_NBYTES);
    for (uint32_t i = 0; i < N_ITEMS; i++) {
        buffers[i] = calloc(1, ITEM_NBYTES);
        raw_buffers[i] = calloc(1, ITEM_NBYTES + 2 * KEYS_NBYTES);
        if (!bytes || !raw_buffers[i] || !buffers[i])
            fail("no memory");
        make_item(i, bytes);
        raw_store(i, bytes);
        const struct psti_fleet_offer offer = {.sample = i,
                                               .stored_nbytes = ITEM_NBYTES,
                                               .bytes = bytes,
                                               .nbytes = ITEM_NBYTES,
                                               .done = offered};
        if (psti_fleet_offer(set, &offer) != PSTI_FLEET_TAKEN)
            fail("an item was not taken");
    }
    free(bytes);
    (void)psti_fleet_settle(set, INT64_MAX);
}

/* Returns the seconds for all items, requested one at a time. */
static double raw_one(const struct question *questions)
{
    double start = now();
    for (uint32_t i = 0; i < N_ITEMS; i++) {
        const struct question *question = &questions[order[i]];
        raw_send(question->text, question->n_text);
        raw_receive(raw_buffers[order[i]], question->n_answer);
    }
    return now() - start;
}

static struct psti_fleet_get get_of(uint32_t item)
{
    return (struct psti_fleet_get){.sample = item, .nbytes = ITEM_NBYTES, .buffer = buffers[item]};
}

static double fleet_one(void)
{
    double start = now();
    for (uint32_t i = 0; i < N_ITEMS; i++) {
        struct psti_fleet_get get = get_of(order[i]), *list[] = {&get};
        psti_fleet_ask_and_wait(set, list, 1);
        if (get.answer != PSTI_FLEET_HIT)
            fail("an item is not there");
    }
    return now() - start;
}

/* Returns the seconds for all items. IN_FLIGHT items are requested before the first is received. */
static double raw_many(const struct question *questions)
{
    double start = now();
    for (uint32_t i = 0; i < N_ITEMS + IN_FLIGHT; i++) {
        if (i < N_ITEMS)
            raw_send(questions[order[i]].text, questions[order[i]].n_text);
        if (i >= IN_FLIGHT)
            raw_receive(raw_buffers[order[i - IN_FLIGHT]],
                        questions[order[i - IN_FLIGHT]].n_answer);
    }
    return now() - start;
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t n_asked, n_done;
    bool missed;
} flight = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static struct psti_fleet_get gets[N_ITEMS];

/* Called when an item has arrived. Requests the next item, as a loader does that reads ahead. */
static void one_is_done(struct psti_fleet_get *get)
{
    pthread_mutex_lock(&flight.lock);
    flight.missed |= get->answer != PSTI_FLEET_HIT;
    uint32_t next = flight.n_asked < N_ITEMS ? flight.n_asked++ : N_ITEMS;
    if (++flight.n_done == N_ITEMS)
        pthread_cond_signal(&flight.changed);
    pthread_mutex_unlock(&flight.lock);
    struct psti_fleet_get *list[] = {&gets[next < N_ITEMS ? next : 0]};
    if (next < N_ITEMS)
        psti_fleet_ask(set, list, 1);
}

static double fleet_many(void)
{
    struct psti_fleet_get *list[IN_FLIGHT];
    for (uint32_t i = 0; i < N_ITEMS; i++) {
        gets[i] = get_of(order[i]);
        gets[i].done = one_is_done;
    }
    for (uint32_t i = 0; i < IN_FLIGHT; i++)
        list[i] = &gets[i];
    double start = now();
    flight.n_asked = IN_FLIGHT;
    flight.n_done = 0;
    psti_fleet_ask(set, list, IN_FLIGHT);
    pthread_mutex_lock(&flight.lock);
    while (flight.n_done < N_ITEMS)
        pthread_cond_wait(&flight.changed, &flight.lock);
    pthread_mutex_unlock(&flight.lock);
    if (flight.missed)
        fail("an item is not there");
    return now() - start;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, compare);
    return values[ROUNDS / 2];
}

/* The seconds of a round, and the fleet client's time divided by that of the raw socket. */
struct result {
    double whole, parts, fleet, ratio_whole, ratio_parts;
};

static struct result measure(double (*raw)(const struct question *), double (*ours)(void))
{
    double whole[ROUNDS], part[ROUNDS], fleets[ROUNDS], by_whole[ROUNDS], by_part[ROUNDS];
    for (int round = -1; round < ROUNDS; round++) { /* the first only warms up */
        shuffle((uint64_t)round + 7);
        double a = raw(wholes), b = raw(parts), c = ours();
        if (round < 0)
            continue;
        whole[round] = a;
        part[round] = b;
        fleets[round] = c;
        by_whole[round] = c / a;
        by_part[round] = c / b;
    }
    return (struct result){median(whole), median(part), median(fleets), median(by_whole),
                           median(by_part)};
}

static void check_bytes(void)
{
    uint8_t *bytes = malloc(ITEM_NBYTES);
    for (uint32_t i = 0; bytes && i < N_ITEMS; i++) {
        make_item(i, bytes);
        if (memcmp(bytes, buffers[i], ITEM_NBYTES) != 0)
            fail("wrong bytes");
        free(buffers[i]);
        free(raw_buffers[i]);
    }
    free(bytes);
}

static void write_json(const char *file, const struct result *one, const struct result *many)
{
    FILE *out = fopen(file, "w");
    const double nbytes = (double)N_ITEMS * ITEM_NBYTES;
    if (!out)
        fail("cannot write the figures");
    fprintf(out,
            "{\"item_nbytes\": %d, \"parts\": %d, \"items\": %d, \"rounds\": %d, "
            "\"in_flight\": %d,\n"
            " \"one\": {\"raw_us\": %.2f, \"raw_whole_us\": %.2f, \"fleet_us\": %.2f, "
            "\"ratio\": %.3f, \"ratio_whole\": %.3f},\n"
            " \"many\": {\"raw_bytes_per_second\": %.0f, \"raw_whole_bytes_per_second\": %.0f, "
            "\"fleet_bytes_per_second\": %.0f, \"ratio\": %.3f, \"ratio_whole\": %.3f}}\n",
            ITEM_NBYTES, N_PARTS, N_ITEMS, ROUNDS, IN_FLIGHT, 1e6 * one->parts / N_ITEMS,
            1e6 * one->whole / N_ITEMS, 1e6 * one->fleet / N_ITEMS, one->ratio_parts,
            one->ratio_whole, nbytes / many->parts, nbytes / many->whole, nbytes / many->fleet,
            many->ratio_parts, many->ratio_whole);
    fclose(out);
}

int main(int argc, char **argv)
{
    const double nbytes = (double)N_ITEMS * ITEM_NBYTES;
    make_questions();
    start_server();
    open_fleet();
    store_all();
    struct result one = measure(raw_one, fleet_one), many = measure(raw_many, fleet_many);
    check_bytes();
    printf(
        "one item of %d bytes at a time: raw socket %.1f us (whole values %.1f us), fleet %.1f us, "
        "ratio %.2f (%.2f)\n",
        ITEM_NBYTES, 1e6 * one.parts / N_ITEMS, 1e6 * one.whole / N_ITEMS,
        1e6 * one.fleet / N_ITEMS, one.ratio_parts, one.ratio_whole);
    printf("%d in flight: raw socket %.2f GB/s (whole values %.2f GB/s), fleet %.2f GB/s, ratio of "
           "times %.2f (%.2f)\n",
           IN_FLIGHT, nbytes / many.parts / 1e9, nbytes / many.whole / 1e9,
           nbytes / many.fleet / 1e9, many.ratio_parts, many.ratio_whole);
    if (argc == 3 && strcmp(argv[1], "--json") == 0)
        write_json(argv[2], &one, &many);
    psti_fleet_set_close(&set);
    pst_fleet_close(&fleet);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    unlink(path);
    rmdir(directory);
    return 0;
}
