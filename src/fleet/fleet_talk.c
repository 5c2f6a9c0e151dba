/* fleet_talk.c - talks to a server: a greeting, then requests for items and their answers.
 *
 * In: queues of the server. Out: calls of the requests' `done`. The thread that talks owns
 * everything under way, and only it writes the requests' buffers meanwhile. A part is valid if its
 * header is that of the requested part and its checksum matches. An invalid value fails only its
 * item, because number and key of the answer were right. Many invalid values in a row, or a wrong
 * answer, end the connection. */
#include "fleet/fleet_int.h"
#include "fleet/fleet_item.h"
#include "fleet/fleet_ring.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WINDOW_NBYTES ((uint64_t)4 << 20) /* limit of the bytes of all requests in flight */
#define FILL_WINDOW_NBYTES                                                                         \
    ((uint64_t)512 << 10) /* with more bytes in flight no item is added, because requests would
                             be delayed */
#define GETS_PER_FILL 32  /* number of requests between two added items, while there are requests */
#define BAD_MAX 8         /* number of invalid values in a row that end the connection */
#define STRANGE "it wants a login, or is no memcached of version 1.6.10 or later: "

static void note_error(struct psti_fleet_server *server, const char *what, const char *why)
{
    pthread_mutex_lock(&server->lock);
    snprintf(server->error, sizeof server->error, "%s%.120s", what, why);
    pthread_mutex_unlock(&server->lock);
}

static uint32_t n_parts_of(const struct psti_fleet_server *server, uint64_t nbytes)
{
    return (uint32_t)psti_format_fleet_n_parts(nbytes, server->part_nbytes);
}

/* True if more parts must be asked for. Until the item's length is known, as many are asked for as
 * it may have. */
static bool wants_part(const struct psti_fleet_server *server, const struct psti_fleet_get *get)
{
    const struct psti_fleet_get_state *state = &get->state;
    uint32_t n = state->n_needed ? state->n_needed : n_parts_of(server, get->nbytes);
    return !state->bad && !state->missing && state->n_asked < n;
}

static void ask_part(struct psti_fleet_server *server, struct psti_fleet_get *get)
{
    struct psti_fleet_talk *talk = &server->talk;
    const struct psti_fleet_name name =
        psti_fleet_set_name(get->state.set, get->i_shape, get->sample, get->i_item);
    char key[PSTI_FLEET_KEY_CAP];
    uint32_t part = get->state.n_asked++;
    uint64_t left = get->nbytes - part * server->part_nbytes;
    const struct psti_fleet_request request = {
        .command = PSTI_FLEET_GET,
        .part = part,
        .user = get,
        .key = key,
        .key_nbytes = psti_format_fleet_key(&name, part, key),
        .room =
            PSTI_FLEET_HEADER_NBYTES + (left < server->part_nbytes ? left : server->part_nbytes)};
    get->state.n_open++;
    psti_fleet_wire_ask(&talk->wire, &request);
    if (!wants_part(server, get))
        talk->asking = NULL;
}

static void unlink_get(struct psti_fleet_talk *talk, const struct psti_fleet_get *get)
{
    struct psti_fleet_get *last = NULL;
    for (struct psti_fleet_get *at = talk->gets; at != get; at = at->state.next)
        last = at;
    *(last ? &last->state.next : &talk->gets) = get->state.next;
    if (talk->last_get == get)
        talk->last_get = last;
    if (talk->asking == get)
        talk->asking = NULL;
}

/* Ends a request if all parts that were asked for are answered. */
static void end_answered(struct psti_fleet_server *server, struct psti_fleet_get *get)
{
    const struct psti_fleet_get_state *state = &get->state;
    enum psti_fleet_answer answer = state->bad       ? PSTI_FLEET_DECLINED
                                    : state->missing ? PSTI_FLEET_MISS
                                                     : PSTI_FLEET_HIT;
    struct psti_fleet_counters *n = &server->counters;
    unlink_get(&server->talk, get);
    pthread_mutex_lock(&server->lock);
    n->n_hits += answer == PSTI_FLEET_HIT;
    n->nbytes_hit += answer == PSTI_FLEET_HIT ? get->got_nbytes : 0;
    n->n_misses += answer == PSTI_FLEET_MISS;
    n->n_declined += answer == PSTI_FLEET_DECLINED;
    if (answer != PSTI_FLEET_DECLINED)
        server->backoff_ns = PSTI_FLEET_BACKOFF_MIN_NS;
    pthread_mutex_unlock(&server->lock);
    psti_fleet_get_end(server, get, answer);
}

/* True if the part lies after the end of the item, which is shorter than it might have been. */
static bool is_beyond(const struct psti_fleet_get *get, uint32_t part)
{
    return get->state.n_needed && part >= get->state.n_needed;
}

/* True if the part can belong to the requested item, and agrees with the parts received before. */
static bool fits(const struct psti_fleet_get *get, const struct psti_fleet_part *part)
{
    bool is_length = part->form ? part->nbytes < get->nbytes : part->nbytes == get->nbytes;
    bool is_same = get->form == part->form && get->got_nbytes == part->nbytes;
    return is_length && (get->state.n_needed == 0 || is_same);
}

/* Parses the header of the part that the slot asked for. False: it is another part's header. */
static bool read_head(const struct psti_fleet_server *server, const struct psti_fleet_slot *slot,
                      const struct psti_fleet_value *value, struct psti_fleet_part *part)
{
    const struct psti_fleet_get *get = slot->user;
    return value->head_nbytes == PSTI_FLEET_HEADER_NBYTES &&
           psti_format_fleet_parse(value->head, value->nbytes, get->state.key_hash, slot->part,
                                   server->part_nbytes, part) &&
           fits(get, part);
}

static uint8_t *place(void *ctx, const struct psti_fleet_slot *slot,
                      const struct psti_fleet_value *value)
{
    const struct psti_fleet_get *get = slot->user;
    struct psti_fleet_part part;
    if (is_beyond(get, slot->part) || !read_head(ctx, slot, value, &part))
        return NULL;
    return (uint8_t *)get->buffer + part.offset;
}

static uint8_t *expect(void *ctx, const struct psti_fleet_slot *slot)
{
    const struct psti_fleet_server *server = ctx;
    const struct psti_fleet_get *get = slot->user;
    return is_beyond(get, slot->part) ? NULL
                                      : (uint8_t *)get->buffer + slot->part * server->part_nbytes;
}

/* Checks a part whose bytes are in the buffer, and counts it. False: it is invalid. */
static bool take_part(const struct psti_fleet_server *server, const struct psti_fleet_slot *slot,
                      const struct psti_fleet_value *value)
{
    struct psti_fleet_get *get = slot->user;
    struct psti_fleet_part part;
    if (!value->bytes || !read_head(server, slot, value, &part) ||
        !psti_format_fleet_is_whole(value->head, value->bytes, part.part_nbytes))
        return false;
    get->got_nbytes = part.nbytes;
    get->form = part.form;
    get->state.n_needed = n_parts_of(server, part.nbytes);
    get->state.n_got++;
    return true;
}

static void note_bad(struct psti_fleet_server *server, const char *why)
{
    pthread_mutex_lock(&server->lock);
    server->counters.n_bad_values++;
    snprintf(server->error, sizeof server->error, "%s", why);
    pthread_mutex_unlock(&server->lock);
}

static void get_answered(struct psti_fleet_server *server, const struct psti_fleet_slot *slot,
                         enum psti_fleet_said said, const struct psti_fleet_value *value)
{
    struct psti_fleet_get *get = slot->user;
    get->state.n_open--;
    if (is_beyond(get, slot->part)) {
        /* the item is shorter, so this part is not needed */
    } else if (said == PSTI_FLEET_SAID_MISS) {
        get->state.missing = true;
    } else if (take_part(server, slot, value)) {
        server->talk.n_bad_in_row = 0;
    } else {
        get->state.bad = true;
        server->talk.n_bad_in_row++;
        note_bad(server, "its values are not those that were added");
    }
    if (get->state.n_open == 0 && !wants_part(server, get))
        end_answered(server, get);
}

static void answered(void *ctx, const struct psti_fleet_slot *slot, enum psti_fleet_said said,
                     const struct psti_fleet_value *value)
{
    if (!slot->user)
        return;
    if (slot->command == PSTI_FLEET_GET)
        get_answered(ctx, slot, said, value);
    else
        psti_fleet_add_answered(ctx, slot, said);
}

void psti_fleet_talk_open(struct psti_fleet_server *server)
{
    struct psti_fleet_wire *wire = &server->talk.wire;
    wire->fd = -1;
    wire->wake_fd = server->wake_fd;
    wire->patience_ns = server->timeout_ns;
    wire->ctx = server;
    wire->place = place;
    wire->expect = expect;
    wire->answered = answered;
}

/* Checks the server with the commands that are used later, for a key that no item has. Servers that
 * are too old, want a login or are no memcached give another answer. */
static void greet(struct psti_fleet_server *server)
{
    static const char key[] = "pst1:probe";
    const struct psti_fleet_login *login = &server->login;
    struct psti_fleet_request request = {.command = PSTI_FLEET_LOGIN,
                                         .key = key,
                                         .key_nbytes = sizeof key - 1,
                                         .bytes = (const uint8_t *)login->text,
                                         .nbytes = strlen(login->text)};
    if (login->text[0])
        psti_fleet_wire_ask(&server->talk.wire, &request);
    request.nbytes = 0;
    request.command = PSTI_FLEET_GET;
    psti_fleet_wire_ask(&server->talk.wire, &request);
    request.command = PSTI_FLEET_REPLACE;
    psti_fleet_wire_ask(&server->talk.wire, &request);
}

bool psti_fleet_talk_connect(struct psti_fleet_server *server)
{
    struct psti_fleet_wire *wire = &server->talk.wire;
    int64_t deadline = psti_clock_ns() + server->timeout_ns;
    bool lied, good = true;
    server->talk.n_bad_in_row = 0;
    int fd = psti_fleet_link_open(&server->address, deadline, wire->why, sizeof wire->why);
    if (fd < 0 || !psti_fleet_wire_open(wire, fd)) {
        note_error(server, "", wire->why);
        return false;
    }
    wire->wake_fd = -1; /* a thread that wakes this one waits until greeting has ended */
    greet(server);
    while (good && wire->n > 0) {
        good = psti_fleet_wire_run(wire, deadline, &lied);
        if (good && wire->n > 0 && psti_clock_ns() >= deadline)
            good = psti_fleet_wire_fail(wire, "it gave no answer in time");
    }
    wire->wake_fd = server->wake_fd;
    if (good)
        return true;
    note_error(server, lied ? STRANGE : "", wire->why);
    psti_fleet_wire_close(wire);
    return false;
}

void psti_fleet_talk_close(struct psti_fleet_server *server)
{
    struct psti_fleet_talk *talk = &server->talk;
    struct psti_fleet_get *get = talk->gets;
    psti_fleet_wire_close(&talk->wire);
    talk->gets = talk->last_get = talk->asking = NULL;
    while (get) {
        struct psti_fleet_get *next = get->state.next;
        pthread_mutex_lock(&server->lock);
        server->counters.n_declined++;
        pthread_mutex_unlock(&server->lock);
        psti_fleet_get_end(server, get, PSTI_FLEET_DECLINED);
        get = next;
    }
    psti_fleet_add_end_all(server);
}

/* Takes the next request, or the next item to add, from its queue. False: there is none. */
static bool take_next(struct psti_fleet_server *server)
{
    struct psti_fleet_talk *talk = &server->talk;
    struct psti_fleet_fill *fill = NULL;
    struct psti_fleet_get *get = NULL;
    pthread_mutex_lock(&server->lock);
    bool may_add = server->fills && talk->wire.nbytes < FILL_WINDOW_NBYTES;
    if (may_add && (!server->gets || talk->n_in_row >= GETS_PER_FILL)) {
        fill = server->fills;
        server->fills = fill->next;
        server->last_fill = server->fills ? server->last_fill : NULL;
    } else if (server->gets) {
        get = server->gets;
        server->gets = get->state.next;
        server->last_get = server->gets ? server->last_get : NULL;
    }
    pthread_mutex_unlock(&server->lock);
    if (fill) {
        talk->n_in_row = 0;
        psti_fleet_add_begin(server, fill);
    } else if (get) {
        talk->n_in_row++;
        get->state.next = NULL;
        *(talk->last_get ? &talk->last_get->state.next : &talk->gets) = get;
        talk->last_get = talk->asking = get;
    }
    return fill || get;
}

/* Makes requests as long as the limits allow more. */
static void fill_window(struct psti_fleet_server *server)
{
    struct psti_fleet_talk *talk = &server->talk;
    while (!psti_fleet_wire_is_full(&talk->wire) && talk->wire.nbytes < WINDOW_NBYTES) {
        if (talk->asking)
            ask_part(server, talk->asking);
        else if (!psti_fleet_add_part(server) && !take_next(server))
            return;
    }
}

/* Ends requests that are late. Answers that arrive for them later are discarded. */
static void end_late(struct psti_fleet_server *server)
{
    struct psti_fleet_talk *talk = &server->talk;
    struct psti_fleet_get *get;
    int64_t before = psti_clock_ns() - server->timeout_ns;
    while ((get = talk->gets) != NULL && get->state.start_ns <= before) {
        psti_fleet_wire_forget(&talk->wire, get);
        unlink_get(talk, get);
        pthread_mutex_lock(&server->lock);
        server->counters.n_late++;
        server->counters.n_declined++;
        pthread_mutex_unlock(&server->lock);
        psti_fleet_get_end(server, get, PSTI_FLEET_DECLINED);
    }
}

bool psti_fleet_talk_is_busy(const struct psti_fleet_server *server)
{
    const struct psti_fleet_talk *talk = &server->talk;
    return talk->gets || talk->fills || talk->wire.n > 0;
}

static void take_wake(struct psti_fleet_server *server)
{
    uint64_t count;
    pthread_mutex_lock(&server->lock);
    if (server->woken)
        server->woken = read(server->wake_fd, &count, sizeof count) != (ssize_t)sizeof count;
    pthread_mutex_unlock(&server->lock);
}

bool psti_fleet_talk_round(struct psti_fleet_server *server)
{
    struct psti_fleet_talk *talk = &server->talk;
    bool lied;
    take_wake(server); /* a wake-up after this point makes the next wait end */
    fill_window(server);
    if (talk->wire.n == 0)
        return true;
    int64_t until = talk->gets ? talk->gets->state.start_ns + server->timeout_ns : INT64_MAX;
    bool good = psti_fleet_wire_run(&talk->wire, until, &lied);
    end_late(server);
    if (lied)
        note_bad(server, talk->wire.why);
    else if (!good)
        note_error(server, "", talk->wire.why);
    return good && talk->n_bad_in_row < BAD_MAX;
}
