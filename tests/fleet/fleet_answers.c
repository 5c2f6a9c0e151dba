/* fleet_answers.c - connects a client to one end of a socket pair, and writes bytes to the
 * other. */
#include "fleet/fleet_answers.h"

#include "base/latency.h"
#include "base/thread.h"
#include "fleet/fleet_int.h"
#include "fleet/fleet_item.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PART = 100, N_GETS = 5, N_FILLS = 2, FORM = 8 };

/* The requested items: the stored length, the length that the server has (0: none), and the
 * form. */
static const struct {
    uint32_t stored, kept;
    uint8_t form;
} items[N_GETS] = {{60, 60, 0}, {250, 250, 0}, {100, 100, 0}, {40, 0, 0}, {250, 150, FORM}};
static const uint32_t added[N_FILLS] = {70, 230};

static struct pst_fleet fleet;
static struct psti_fleet_server server, *servers[] = {&server};
static struct psti_fleet_set *set;
static unsigned n_done[N_GETS], n_offered;

static void check(bool good)
{
    if (!good)
        abort();
}

static uint8_t byte_of(uint32_t item, uint64_t at) { return (uint8_t)((item + 1) * 37 + at * 11); }

static void open_all(void)
{
    static const struct psti_cache_shape shape = {{7, 8, 9}, 100, 1, 0, false};
    if (set)
        return;
    fleet.pid = getpid();
    fleet.servers = servers;
    fleet.n_servers = 1;
    fleet.part_nbytes = PART;
    fleet.timeout_ns = (int64_t)60 * 1000000000;
    atomic_init(&fleet.n_owners, 1);
    atomic_init(&fleet.watched, true); /* nobody watches */
    psti_latency_open(&fleet.latency);
    server.part_nbytes = PART;
    server.timeout_ns = fleet.timeout_ns;
    server.latency = &fleet.latency;
    /* an event that is always set, so the client never waits */
    server.wake_fd = eventfd(1, EFD_CLOEXEC);
    server.health = PSTI_FLEET_UP;
    pthread_mutex_init(&server.lock, NULL);
    psti_cond_init(&server.changed);
    psti_fleet_talk_open(&server);
    check(psti_fleet_set_open(&fleet, &shape, 1, 1 << 16, &set, NULL) == PST_OK);
}

static size_t write_line(uint8_t *out, const char *code, const char *size, uint32_t item,
                         uint32_t part, unsigned number)
{
    char key[PSTI_FLEET_KEY_CAP];
    const struct psti_fleet_name name = psti_fleet_set_name(set, 0, item, 0);
    psti_format_fleet_key(&name, part, key);
    return (size_t)snprintf((char *)out, PSTI_FLEET_LINE_MAX, "%s%s k%s O%x\r\n", code, size, key,
                            number);
}

/* Writes the answer that contains a part of an item of `kept` bytes. */
static size_t write_value(uint8_t *out, uint32_t item, uint32_t kept, uint8_t form, uint32_t part,
                          unsigned number)
{
    const struct psti_fleet_name name = psti_fleet_set_name(set, 0, item, 0);
    uint32_t offset = part * PART, left = kept - offset;
    const struct psti_fleet_part printed = {.key_hash = psti_format_fleet_hash(&name),
                                            .nbytes = kept,
                                            .offset = offset,
                                            .part = part,
                                            .part_nbytes = left < PART ? left : PART,
                                            .form = form};
    char size[24];
    size_t nbytes = PSTI_FLEET_HEADER_NBYTES + printed.part_nbytes;
    snprintf(size, sizeof size, " %zu", nbytes);
    size_t n = write_line(out, "VA", size, item, part, number);
    uint8_t *bytes = out + n + PSTI_FLEET_HEADER_NBYTES;
    for (uint32_t i = 0; i < printed.part_nbytes; i++)
        bytes[i] = byte_of(item, offset + i);
    psti_format_fleet_print(&printed, bytes, out + n);
    memcpy(out + n + nbytes, "\r\n", 2);
    return n + nbytes + 2;
}

/* Returns the place for the next answer. */
static uint8_t *end_of(struct answers *answers)
{
    return answers->bytes + answers->starts[answers->n];
}

static void added_answer(struct answers *answers, size_t nbytes)
{
    answers->starts[answers->n + 1] = answers->starts[answers->n] + nbytes;
    answers->n++;
}

/* Makes the answers in the order of the requests: all parts of each item, then those that are
 * added. */
void make_answers(struct answers *answers)
{
    unsigned number = 0;
    open_all();
    memset(answers, 0, sizeof *answers);
    for (uint32_t i = 0; i < N_GETS; i++)
        for (uint32_t part = 0; part * PART < items[i].stored; part++)
            added_answer(answers, part * PART < items[i].kept
                                      ? write_value(end_of(answers), i, items[i].kept,
                                                    items[i].form, part, ++number)
                                      : write_line(end_of(answers), "EN", "", i, part, ++number));
    for (uint32_t i = 0; i < N_FILLS; i++)
        for (uint32_t part = 0; part * PART < added[i]; part++)
            added_answer(answers, write_line(end_of(answers), part == 1 ? "NS" : "HD", "",
                                             N_GETS + i, part, ++number));
}

static void get_done(struct psti_fleet_get *get) { n_done[get->sample]++; }

static void fill_done(const struct psti_fleet_offer *offer, enum psti_fleet_outcome outcome)
{
    (void)outcome;
    n_offered += offer->bytes != NULL;
}

static void ask(struct psti_fleet_get *gets, uint8_t **buffers)
{
    struct psti_fleet_get *list[N_GETS];
    static const uint8_t bytes[256];
    memset(n_done, 0, sizeof n_done);
    n_offered = 0;
    for (uint32_t i = 0; i < N_GETS; i++) {
        buffers[i] = malloc(items[i].stored);
        check(buffers[i] != NULL);
        gets[i] = (struct psti_fleet_get){
            .sample = i, .nbytes = items[i].stored, .buffer = buffers[i], .done = get_done};
        list[i] = &gets[i];
    }
    psti_fleet_ask(set, list, N_GETS);
    for (uint32_t i = 0; i < N_FILLS; i++) {
        const struct psti_fleet_offer offer = {.sample = N_GETS + i,
                                               .stored_nbytes = added[i],
                                               .bytes = bytes,
                                               .nbytes = added[i],
                                               .done = fill_done};
        check(psti_fleet_offer(set, &offer) == PSTI_FLEET_TAKEN);
    }
}

static void give(int fd, const uint8_t *bytes, size_t nbytes, size_t chunk)
{
    bool good = true;
    for (size_t at = 0; good && at < nbytes;) {
        size_t n = chunk && chunk < nbytes - at ? chunk : nbytes - at;
        check(send(fd, bytes + at, n, MSG_NOSIGNAL) == (ssize_t)n);
        at += n;
        good = psti_fleet_talk_round(&server);
    }
    shutdown(fd, SHUT_WR);
    while (good && server.talk.wire.n > 0)
        good = psti_fleet_talk_round(&server);
}

/* Returns true if the request is a hit, whose bytes may have to be the item's. */
static bool is_hit(const struct psti_fleet_get *get, uint32_t i, bool exact)
{
    if (get->answer != PSTI_FLEET_HIT)
        return false;
    const uint8_t *bytes = get->buffer;
    check(get->got_nbytes > 0 && get->got_nbytes <= get->nbytes);
    check(get->form ? get->got_nbytes < get->nbytes : get->got_nbytes == get->nbytes);
    if (exact)
        check(get->form == items[i].form && get->got_nbytes == items[i].kept);
    for (uint64_t k = 0; exact && k < get->got_nbytes; k++)
        check(bytes[k] == byte_of(i, k));
    return true;
}

/* Connects the client. Returns the other end. */
static int open_link(void)
{
    int pair[2];
    open_all();
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    check(psti_fleet_wire_open(&server.talk.wire, pair[0]));
    server.talk.wire.opaque = 0;
    server.talk.n_bad_in_row = 0;
    server.n_full_in_row = 0; /* a server that refused eight times in a row is offered few items */
    return pair[1];
}

void feed_long_item(void)
{
    enum { PARTS = PSTI_FLEET_SLOTS + 50, NBYTES = PARTS * PART };
    static uint8_t bytes[PARTS * (PART + PSTI_FLEET_LINE_MAX)], buffer[NBYTES];
    struct psti_fleet_get get = {.sample = 1, .nbytes = NBYTES, .buffer = buffer, .done = get_done};
    struct psti_fleet_get *list[] = {&get};
    int fd = open_link();
    memset(n_done, 0, sizeof n_done);
    psti_fleet_ask(set, list, 1);
    for (uint32_t part = 0; part < PARTS;) { /* answers everything in flight at once */
        size_t n = 0;
        check(psti_fleet_talk_round(&server));
        for (uint32_t i = server.talk.wire.n; i > 0; i--, part++)
            n += write_value(bytes + n, 1, NBYTES, 0, part, part + 1);
        check(n > 0 && send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
        do {
            bool lied;
            check(psti_fleet_wire_run(&server.talk.wire, INT64_MAX, &lied));
        } while (server.talk.wire.n > 0);
        check(psti_fleet_talk_is_busy(&server) == (part < PARTS));
    }
    check(n_done[1] == 1 && get.answer == PSTI_FLEET_HIT);
    for (size_t i = 0; i < NBYTES; i++)
        check(buffer[i] == byte_of(1, i));
    psti_fleet_talk_close(&server);
    close(fd);
}

unsigned feed_answers(const uint8_t *bytes, size_t nbytes, size_t chunk, bool exact)
{
    struct psti_fleet_get gets[N_GETS];
    uint8_t *buffers[N_GETS];
    unsigned n_hits = 0;
    int fd = open_link();
    ask(gets, buffers);
    check(psti_fleet_talk_round(&server)); /* sends the requests */
    give(fd, bytes, nbytes, chunk);
    psti_fleet_talk_close(&server);
    close(fd);
    check(n_offered == N_FILLS && psti_fleet_settle(set, 0));
    for (uint32_t i = 0; i < N_GETS; i++) {
        check(n_done[i] == 1);
        n_hits += is_hit(&gets[i], i, exact);
        free(buffers[i]);
    }
    return n_hits;
}
