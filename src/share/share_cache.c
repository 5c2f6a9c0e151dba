/* share_cache.c - the client's side of a session with the host cache.
 *
 * A thread of the session receives answers. A wish (a request for one item) has an entry in a table
 * until it is answered. Its ticket is the number of the entry with a count of the entry's uses, so
 * an answer to a cancelled wish finds nothing. If the table is full, wishes wait in a queue. The
 * thread that submits a wish also sends it, which saves waking another thread. The service counts
 * as lost when it closes the session, breaks the protocol, or says nothing for PSTI_LINK_WAIT_NS
 * while a wish is under way; while it works it says every second that it lives.
 *
 * Before the service reuses the memory of items that were re-coded, it begins a round: it asks each
 * session to report when all its threads that read the set at that time have left the set
 * (cache_view.c). The session's thread answers. It also does so after the session was lost because
 * the service was silent: the service may only have stood still, and rows still read what is
 * mapped. If the service has ended, nobody asks, and mapped memory does not change any more. */
#include "share/share_cache.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/files/sealed.h"
#include "base/thread.h"
#include "share/share_link.h"

#include <penstock/penstock.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS 1000

struct place {
    struct psti_share_wish *wish; /* NULL: the entry is free */
    uint32_t use;
    uint32_t next_free;
};

struct host_set {
    struct psti_cache_view *view; /* NULL: the set is not open */
    uint32_t n_items;             /* number of items of each sample */
    int memory_fd;                /* descriptor of the view's memory */
    uint64_t table_nbytes;
    bool later;              /* the set's items are re-coded when the session asks for it */
    atomic_bool has_asked;   /* the session has asked to re-code items of the set */
    bool has_round;          /* the service waits for the end of a round; only the session's
                                thread uses it */
    uint64_t round;          /* number of the present round */
};

struct psti_share_cache {
    struct host_set *sets; /* [n_sets] */
    uint32_t n_sets;       /* 0: the session was lost from the beginning */
    uint64_t limit;
    int fd;
    pid_t owner;
    int wake[2]; /* a pipe that wakes the session's thread */
    pthread_t thread;
    bool has_thread;
    uint32_t n_rounds;            /* number of sets with has_round; only the session's thread uses
                                     it */
    struct psti_message *message; /* used by the session's thread alone */
    atomic_bool lost;
    atomic_uint_fast64_t n_hits, n_read, n_missed;
    atomic_uint n_later; /* number of requests to re-code that are not answered yet */
    void (*later_done)(void *ctx, const struct psti_cache_ready *ready);
    void *later_ctx;
    uint64_t n_told; /* sum of n_hits, n_read and n_missed that the service was last told */

    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t answered;
    struct place places[PSTI_CACHE_READS_MAX];
    uint32_t first_free; /* first free entry of `places`; PSTI_CACHE_READS_MAX: none */
    uint32_t n_under_way;
    struct psti_share_wish *queue, **queue_end; /* wishes without an entry, or not sent yet */
    int64_t heard_ns;      /* time when the service last sent something, or when the first wish was
                              sent */
    bool closing, is_full; /* is_full: the socket cannot take more now */
    uint8_t out[PSTI_MESSAGE_NBYTES];
};

static void wake_thread(struct psti_share_cache *cache)
{
    ssize_t n = write(cache->wake[1], "", 1);
    (void)n; /* if the pipe is full, its earlier bytes wake the thread */
}

/* Takes all wishes out of the session, and returns them as a list. The lock must be held. */
static struct psti_share_wish *take_all(struct psti_share_cache *cache)
{
    struct psti_share_wish *all = cache->queue;
    cache->queue = NULL;
    cache->queue_end = &cache->queue;
    for (uint32_t i = 0; cache->n_under_way > 0 && i < PSTI_CACHE_READS_MAX; i++) {
        struct place *place = &cache->places[i];
        if (!place->wish)
            continue;
        place->wish->next = all;
        all = place->wish;
        place->wish = NULL;
        place->use++;
        place->next_free = cache->first_free;
        cache->first_free = i;
        cache->n_under_way--;
    }
    return all;
}

static void answer_all(struct psti_share_wish *all)
{
    while (all) {
        struct psti_share_wish *wish = all;
        all = wish->next;
        wish->result = PSTI_CACHE_RESULT_FAILED;
        wish->done(wish);
    }
}

void psti_share_cache_cancel(struct psti_share_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    struct psti_share_wish *all = take_all(cache);
    pthread_mutex_unlock(&cache->lock);
    answer_all(all);
}

/* Marks the session as lost, if it is not yet: from now on every wish (request for an item)
 * fails. */
static void lose(struct psti_share_cache *cache, const char *why)
{
    pthread_mutex_lock(&cache->lock);
    bool says = !cache->closing && !atomic_load(&cache->lost);
    atomic_store(&cache->lost, true);
    atomic_store(&cache->n_later, 0);
    struct psti_share_wish *all = take_all(cache);
    pthread_mutex_unlock(&cache->lock);
    if (says)
        psti_log(PST_LOG_WARNING, "share",
                 "the host service is lost (%s): this process reads for itself until it has found "
                 "the service again",
                 why);
    answer_all(all);
}

/* Sends the wishes in the queue, as far as the table has free entries and the socket takes data.
 * The lock is held. */
static void send_queue(struct psti_share_cache *cache)
{
    while (cache->queue && cache->first_free < PSTI_CACHE_READS_MAX && !cache->is_full) {
        struct psti_wire_out out = psti_share_begin(cache->out);
        uint32_t taken[PSTI_CACHE_READS_AT_ONCE];
        size_t n = 0;
        struct psti_share_wish *wish = cache->queue;
        uint32_t at = cache->first_free;
        struct pst_error err;
        for (; wish && at < PSTI_CACHE_READS_MAX && n < PSTI_CACHE_READS_AT_ONCE;
             wish = wish->next, at = cache->places[at].next_free) {
            const struct psti_cache_want want = {
                wish->number, (uint64_t)cache->places[at].use << 32 | at, wish->i_set};
            psti_share_put_cache_read(&out, &want, 1);
            taken[n++] = at;
        }
        size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_CACHE_READ, 0, 0);
        pst_error_clear(&err);
        enum pst_status status = psti_share_send(cache->fd, cache->out, nbytes, NULL, 0, 0, &err);
        if (status != PST_OK) { /* the socket is full or broken, which the session's thread finds
                                   out */
            cache->is_full = true;
            wake_thread(cache);
            return;
        }
        if (cache->n_under_way == 0)
            cache->heard_ns = psti_clock_ns();
        for (size_t i = 0; i < n; i++) {
            struct place *place = &cache->places[taken[i]];
            place->wish = cache->queue;
            cache->queue = cache->queue->next;
            cache->n_under_way++;
        }
        cache->first_free = at;
        if (!cache->queue)
            cache->queue_end = &cache->queue;
    }
}

void psti_share_cache_submit(struct psti_share_cache *cache, struct psti_share_wish **wishes,
                             size_t n)
{
    struct psti_share_wish *refused = NULL;
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < n; i++) {
        if (atomic_load(&cache->lost)) {
            wishes[i]->next = refused;
            refused = wishes[i];
            continue;
        }
        wishes[i]->next = NULL;
        *cache->queue_end = wishes[i];
        cache->queue_end = &wishes[i]->next;
    }
    send_queue(cache);
    pthread_mutex_unlock(&cache->lock);
    answer_all(refused);
}

/* State of a thread that waits for the answers to its wishes. */
struct waiting {
    struct psti_share_cache *cache;
    size_t n_left;
};

static void wake_waiting(struct psti_share_wish *wish)
{
    struct waiting *waiting = wish->user;
    struct psti_share_cache *cache = waiting->cache;
    pthread_mutex_lock(&cache->lock);
    waiting->n_left--;
    pthread_cond_broadcast(&cache->answered);
    pthread_mutex_unlock(&cache->lock);
}

/* Removes the waiting thread's wishes, except those that are being answered. The lock is held. */
static void forget(struct psti_share_cache *cache, struct waiting *waiting)
{
    struct psti_share_wish **at = &cache->queue;
    while (*at)
        if ((*at)->user == waiting) {
            *at = (*at)->next;
            waiting->n_left--;
        } else {
            at = &(*at)->next;
        }
    cache->queue_end = at;
    for (uint32_t i = 0; i < PSTI_CACHE_READS_MAX; i++) {
        struct place *place = &cache->places[i];
        if (!place->wish || place->wish->user != waiting)
            continue;
        place->wish = NULL;
        place->use++;
        place->next_free = cache->first_free;
        cache->first_free = i;
        cache->n_under_way--;
        waiting->n_left--;
    }
}

bool psti_share_cache_wait(struct psti_share_cache *cache, struct psti_share_wish **wishes,
                           size_t n, const struct psti_share_stop *stop)
{
    bool stopped = false;
    struct waiting waiting = {cache, n};
    for (size_t i = 0; i < n; i++) {
        wishes[i]->done = wake_waiting;
        wishes[i]->user = &waiting;
    }
    psti_share_cache_submit(cache, wishes, n);
    pthread_mutex_lock(&cache->lock);
    while (waiting.n_left > 0 && !stopped) {
        int64_t look = stop && stop->fn ? psti_clock_ns() + PSTI_SHARE_LOOK_NS : INT64_MAX;
        if (psti_cond_wait_until(&cache->answered, &cache->lock, look) == 0 || look == INT64_MAX)
            continue;
        pthread_mutex_unlock(&cache->lock);
        bool stops = psti_share_is_stopped(stop);
        pthread_mutex_lock(&cache->lock);
        stopped = stops && waiting.n_left > 0;
    }
    if (stopped)
        forget(cache, &waiting);
    while (waiting.n_left > 0) /* a short wait, because the remaining answers have arrived
                                  already */
        pthread_cond_wait(&cache->answered, &cache->lock);
    pthread_mutex_unlock(&cache->lock);
    return !stopped;
}

/* Takes the wish of that ticket out of the table. NULL: the ticket is outdated. */
static struct psti_share_wish *take_wish(struct psti_share_cache *cache, uint64_t ticket)
{
    uint32_t i = (uint32_t)ticket, use = (uint32_t)(ticket >> 32);
    struct psti_share_wish *wish = NULL;
    pthread_mutex_lock(&cache->lock);
    cache->heard_ns = psti_clock_ns();
    if (i < PSTI_CACHE_READS_MAX && cache->places[i].use == use && cache->places[i].wish) {
        struct place *place = &cache->places[i];
        wish = place->wish;
        place->wish = NULL;
        place->use++;
        place->next_free = cache->first_free;
        cache->first_free = i;
        cache->n_under_way--;
        send_queue(cache);
    }
    pthread_mutex_unlock(&cache->lock);
    return wish;
}

static void count(struct psti_share_cache *cache, enum psti_cache_result result)
{
    atomic_uint_fast64_t *counter = result == PSTI_CACHE_RESULT_HERE   ? &cache->n_hits
                                    : result == PSTI_CACHE_RESULT_READ ? &cache->n_read
                                                                       : &cache->n_missed;
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Tells the service which rounds have ended. If the socket cannot take a message now, it is sent
 * later. */
static void end_rounds(struct psti_share_cache *cache)
{
    for (uint32_t i = 0; i < cache->n_sets && cache->n_rounds > 0; i++) {
        struct host_set *set = &cache->sets[i];
        if (!set->has_round || !psti_cache_view_go_on(set->view))
            continue;
        pthread_mutex_lock(&cache->lock);
        struct psti_wire_out out = psti_share_begin(cache->out);
        psti_share_put_cache_round(&out, &(struct psti_cache_round){i, set->round});
        size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_CACHE_ROUND_ENDED, 0, 0);
        bool sent = !cache->is_full &&
                    psti_share_send(cache->fd, cache->out, nbytes, NULL, 0, 0, NULL) == PST_OK;
        cache->is_full |= !sent; /* if the socket is broken and not full, the next receive finds the
                                    cause */
        pthread_mutex_unlock(&cache->lock);
        set->has_round = !sent;
        cache->n_rounds -= sent;
    }
}

/* Begins a round that the service asks for. False: the message breaks the protocol. */
static bool take_round(struct psti_share_cache *cache, struct psti_wire_in *in)
{
    struct psti_cache_round round;
    if (psti_share_get_cache_round(in, &round, NULL) != PST_OK || round.i_set >= cache->n_sets ||
        cache->sets[round.i_set].has_round)
        return false;
    struct host_set *set = &cache->sets[round.i_set];
    set->has_round = true;
    set->round = round.number;
    cache->n_rounds++;
    psti_cache_view_begin_round(set->view);
    end_rounds(cache);
    return true;
}

/* Handles the answer to a request to re-code. False: no such request was open. A lost session has
 * forgotten its requests, so it accepts every answer, and does not count it. */
static bool take_later(struct psti_share_cache *cache, const struct psti_cache_ready *ready)
{
    pthread_mutex_lock(&cache->lock);
    bool was_asked = atomic_load(&cache->n_later) > 0;
    atomic_fetch_sub(&cache->n_later, was_asked);
    cache->heard_ns = psti_clock_ns();
    pthread_mutex_unlock(&cache->lock);
    if (was_asked)
        cache->later_done(cache->later_ctx, ready);
    return was_asked || atomic_load(&cache->lost);
}

/* Handles one message. False: the session is over. */
static bool take_message(struct psti_share_cache *cache)
{
    struct psti_message *message = cache->message;
    struct psti_cache_ready ready;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = psti_share_receive(cache->fd, message, 0, &err);
    if (status == PST_ERROR_IO && err.os_error == ETIMEDOUT)
        return true;
    if (status != PST_OK)
        return false;
    struct psti_wire_in in = psti_share_message_body(message);
    uint16_t kind = message->head.kind;
    bool good = message->n_fds == 0;
    psti_share_message_close(message);
    if (good && kind == PSTI_MESSAGE_ALIVE) {
        pthread_mutex_lock(&cache->lock);
        cache->heard_ns = psti_clock_ns();
        pthread_mutex_unlock(&cache->lock);
        return true;
    }
    if (good && kind == PSTI_MESSAGE_CACHE_ROUND)
        return take_round(cache, &in);
    if (!good || kind != PSTI_MESSAGE_CACHE_READY ||
        psti_share_get_cache_ready(&in, &ready, NULL) != PST_OK)
        return false;
    if (ready.ticket == PSTI_CACHE_NUMBER_LATER)
        return take_later(cache, &ready);
    struct psti_share_wish *wish = take_wish(cache, ready.ticket);
    if (wish) {
        count(cache, ready.result);
        wish->result = ready.result;
        wish->recoding = ready.recoding;
        wish->nbytes_saved = ready.nbytes_saved;
        wish->done(wish);
    }
    return true;
}

/* Reports the session's counts of hits, reads and misses to the service, which shows them to
 * users. */
static void tell_use(struct psti_share_cache *cache)
{
    uint64_t n_hits = atomic_load(&cache->n_hits), n_read = atomic_load(&cache->n_read),
             n_missed = atomic_load(&cache->n_missed);
    if (n_hits + n_read + n_missed == cache->n_told)
        return;
    cache->n_told = n_hits + n_read + n_missed;
    pthread_mutex_lock(&cache->lock);
    struct psti_wire_out out = psti_share_begin(cache->out);
    psti_share_put_u64(&out, n_hits);
    psti_share_put_u64(&out, n_read);
    psti_share_put_u64(&out, n_missed);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_CACHE_USE, 0, 0);
    (void)!psti_share_send(cache->fd, cache->out, nbytes, NULL, 0, 0, NULL);
    pthread_mutex_unlock(&cache->lock);
}

static bool is_late(struct psti_share_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    bool late = (cache->n_under_way > 0 || cache->is_full) &&
                psti_clock_ns() - cache->heard_ns > PSTI_LINK_WAIT_NS;
    pthread_mutex_unlock(&cache->lock);
    return late;
}

/* Waits for messages or wake-ups, and handles them. False: the session must end. */
static bool turn(struct psti_share_cache *cache)
{
    char bytes[64];
    pthread_mutex_lock(&cache->lock);
    bool closing = cache->closing;
    struct pollfd polls[2] = {{.fd = cache->fd, .events = POLLIN | (cache->is_full ? POLLOUT : 0)},
                              {.fd = cache->wake[0], .events = POLLIN}};
    pthread_mutex_unlock(&cache->lock);
    if (closing)
        return false;
    int n = poll(polls, 2, TICK_MS);
    if (n > 0 && polls[1].revents)
        (void)!read(cache->wake[0], bytes, sizeof bytes);
    if (n > 0 && (polls[0].revents & POLLOUT)) {
        pthread_mutex_lock(&cache->lock);
        cache->is_full = false;
        send_queue(cache);
        pthread_mutex_unlock(&cache->lock);
    }
    if (n > 0 && (polls[0].revents & (POLLIN | POLLHUP | POLLERR)) && !take_message(cache)) {
        lose(cache, "it has ended");
        return false;
    }
    if (cache->n_rounds > 0)
        end_rounds(cache);
    if (n == 0 && !atomic_load(&cache->lost) && is_late(cache))
        lose(cache, "it does not answer"); /* but rounds are answered as before */
    if (n == 0 && !atomic_load(&cache->lost))
        tell_use(cache);
    return true;
}

static void run(void *arg)
{
    while (turn(arg))
        ;
}

enum psti_cache_answer psti_share_cache_ask(struct psti_share_cache *cache, uint32_t i_set,
                                            uint64_t sample, uint32_t i_item, uint64_t nbytes,
                                            struct psti_cache_span *span)
{
    enum psti_cache_answer answer =
        psti_share_cache_look(cache, i_set, sample, i_item, nbytes, span);
    if (answer == PSTI_CACHE_ADMIT && atomic_load_explicit(&cache->lost, memory_order_relaxed))
        answer = PSTI_CACHE_PASS;
    if (answer == PSTI_CACHE_HIT)
        atomic_fetch_add_explicit(&cache->n_hits, 1, memory_order_relaxed);
    else if (answer == PSTI_CACHE_PASS)
        atomic_fetch_add_explicit(&cache->n_missed, 1, memory_order_relaxed);
    return answer;
}

enum psti_cache_answer psti_share_cache_look(struct psti_share_cache *cache, uint32_t i_set,
                                             uint64_t sample, uint32_t i_item, uint64_t nbytes,
                                             struct psti_cache_span *span)
{
    return i_set < cache->n_sets
               ? psti_cache_view_ask(cache->sets[i_set].view, sample, i_item, nbytes, span)
               : PSTI_CACHE_PASS;
}

unsigned psti_share_cache_enter(struct psti_share_cache *cache, uint32_t i_set)
{
    return i_set < cache->n_sets ? psti_cache_view_enter(cache->sets[i_set].view) : 0;
}

void psti_share_cache_leave(struct psti_share_cache *cache, uint32_t i_set, unsigned reader)
{
    if (reader > 0 && psti_cache_view_leave(cache->sets[i_set].view, reader))
        wake_thread(cache); /* the session's thread waits for the end of a round */
}

void psti_share_cache_on_later(struct psti_share_cache *cache,
                               void (*done)(void *ctx, const struct psti_cache_ready *ready),
                               void *ctx)
{
    cache->later_done = done;
    cache->later_ctx = ctx;
}

bool psti_share_cache_has_later(struct psti_share_cache *cache, uint32_t *i_set)
{
    for (*i_set = 0; *i_set < cache->n_sets && !psti_share_cache_is_lost(cache); ++*i_set) {
        struct host_set *set = &cache->sets[*i_set];
        if (set->later &&
            (!atomic_load(&set->has_asked) || psti_cache_view_waiting(set->view) > 0))
            return true;
    }
    return false;
}

bool psti_share_cache_ask_later(struct psti_share_cache *cache, uint32_t i_set)
{
    const struct psti_cache_want want = {PSTI_CACHE_NUMBER_LATER, PSTI_CACHE_NUMBER_LATER, i_set};
    pthread_mutex_lock(&cache->lock);
    struct psti_wire_out out = psti_share_begin(cache->out);
    psti_share_put_cache_read(&out, &want, 1);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_CACHE_READ, 0, 0);
    bool sent = !atomic_load(&cache->lost) && !cache->is_full &&
                psti_share_send(cache->fd, cache->out, nbytes, NULL, 0, 0, NULL) == PST_OK;
    atomic_fetch_add(&cache->n_later, sent);
    pthread_mutex_unlock(&cache->lock);
    if (sent)
        atomic_store(&cache->sets[i_set].has_asked, true);
    return sent;
}

uint32_t psti_share_cache_n_later(const struct psti_share_cache *cache)
{
    return atomic_load(&cache->n_later);
}

uint64_t psti_share_cache_waiting(const struct psti_share_cache *cache)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < cache->n_sets && !psti_share_cache_is_lost(cache); i++)
        n += cache->sets[i].later ? psti_cache_view_waiting(cache->sets[i].view) : 0;
    return n;
}

uint64_t psti_share_cache_number(const struct psti_share_cache *cache, uint32_t i_set,
                                 uint64_t sample, uint32_t i_item)
{
    return i_set < cache->n_sets ? sample * cache->sets[i_set].n_items + i_item : 0;
}

bool psti_share_cache_is_lost(const struct psti_share_cache *cache)
{
    return atomic_load(&cache->lost);
}

void psti_share_cache_stats(struct psti_share_cache *cache, struct pst_cache_stats *stats)
{
    *stats = (struct pst_cache_stats){.nbytes = cache->limit, .n_datasets = cache->n_sets};
    for (uint32_t i = 0; i < cache->n_sets; i++) {
        const struct host_set *set = &cache->sets[i];
        stats->nbytes_used += psti_sealed_nbytes(set->memory_fd) + set->table_nbytes;
        stats->n_items += psti_cache_view_count(set->view);
    }
}

/* Sends the request to open a data set. n_more: data sets that follow. */
static enum pst_status ask_for_set(struct psti_share_cache *cache, const struct psti_share_set *set,
                                   uint32_t n_more, struct pst_error *err)
{
    int fds[PSTI_SHARE_DATASET_FDS];
    uint32_t n_fds = 0;
    struct psti_wire_out out = psti_share_begin(cache->out);
    enum pst_status status = psti_share_put_cache_open(&out, set, n_more, fds, &n_fds, err);
    size_t nbytes = psti_share_finish(&out, PSTI_MESSAGE_CACHE_OPEN, 1, n_fds);
    if (status == PST_OK && nbytes == 0)
        status = psti_fail(err, PST_ERROR_LIMIT, "share", "the data set's options are too long");
    if (status == PST_OK)
        status = psti_share_send(cache->fd, cache->out, nbytes, fds, n_fds,
                                 psti_clock_ns() + PSTI_LINK_WAIT_NS, err);
    while (n_fds > 0)
        close(fds[--n_fds]);
    return status == PST_END
               ? psti_fail(err, PST_ERROR_IO, "share", "the host service has ended the session")
               : status;
}

/* Receives and maps the memory of the set, and adds the set to the session. */
static enum pst_status take_set(struct psti_share_cache *cache, const struct psti_share_set *given,
                                int64_t wait_ns, const struct psti_share_stop *stop,
                                struct pst_error *err)
{
    struct host_set *set = &cache->sets[cache->n_sets];
    struct psti_cache_opened opened;
    enum pst_status status =
        psti_share_answer(cache->fd, cache->message, PSTI_MESSAGE_CACHE_OPENED, wait_ns, stop, err);
    if (status != PST_OK)
        return status;
    struct psti_wire_in in = psti_share_message_body(cache->message);
    status = psti_share_get_cache_opened(&in, &opened, err);
    if (status == PST_OK && cache->message->n_fds != 2)
        status = psti_fail(err, PST_ERROR_CORRUPT, "share", "a set came with %u descriptors",
                           cache->message->n_fds);
    if (status != PST_OK) {
        psti_share_message_close(cache->message);
        return status;
    }
    const struct psti_cache_export from = {
        .table_fd = psti_share_message_take_fd(cache->message, 0),
        .memory_fd = psti_share_message_take_fd(cache->message, 1),
        .table_nbytes = opened.table_nbytes,
        .capacity = opened.capacity};
    cache->limit = opened.limit;
    *set = (struct host_set){.n_items = given->shape.n_items,
                             .memory_fd = from.memory_fd,
                             .table_nbytes = opened.table_nbytes,
                             .later = given->later};
    status = psti_cache_view_open(&given->shape, &from, &set->view, err);
    cache->n_sets += status == PST_OK;
    return status;
}

static struct psti_share_cache *make(void)
{
    struct psti_share_cache *cache = psti_calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->owner = getpid();
    cache->fd = cache->wake[0] = cache->wake[1] = -1;
    cache->queue_end = &cache->queue;
    for (uint32_t i = 0; i < PSTI_CACHE_READS_MAX; i++)
        cache->places[i].next_free = i + 1;
    pthread_mutex_init(&cache->lock, NULL);
    psti_cond_init(&cache->answered);
    cache->message = psti_alloc(sizeof *cache->message);
    return cache;
}

enum pst_status psti_share_cache_open_lost(struct psti_share_cache **out, struct pst_error *err)
{
    struct psti_share_cache *cache = *out = make();
    if (!cache)
        return psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for the host cache");
    atomic_store(&cache->lost, true);
    return PST_OK;
}

enum pst_status psti_share_cache_open(const char *path, const struct psti_share_set *sets,
                                      uint32_t n_sets, int64_t greet_ns, int64_t wait_ns,
                                      const struct psti_share_stop *stop,
                                      struct psti_share_cache **out, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    struct psti_share_cache *cache = *out = make();
    if (cache)
        cache->sets = psti_calloc(n_sets, sizeof *cache->sets);
    if (!cache || !cache->message || !cache->sets)
        status = psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for the host cache");
    if (status == PST_OK)
        status =
            psti_share_connect(path, PSTI_SESSION_CACHE, greet_ns, stop, &cache->fd, NULL, err);
    for (uint32_t i = 0; status == PST_OK && i < n_sets; i++) {
        status = ask_for_set(cache, &sets[i], n_sets - 1 - i, err);
        if (status == PST_OK)
            status = take_set(cache, &sets[i], wait_ns, stop, err);
    }
    if (status == PST_OK && pipe2(cache->wake, O_CLOEXEC | O_NONBLOCK) != 0)
        status = psti_fail_os(err, errno, "share", NULL, -1, "no descriptors for the host cache");
    if (status == PST_OK) {
        status = psti_thread_start(&cache->thread, "host", run, cache, err);
        cache->has_thread = status == PST_OK;
    }
    if (status != PST_OK)
        psti_share_cache_close(out);
    return status;
}

void psti_share_cache_close(struct psti_share_cache **cache_ptr)
{
    struct psti_share_cache *cache = *cache_ptr;
    if (!cache)
        return;
    *cache_ptr = NULL;
    pthread_mutex_lock(&cache->lock);
    cache->closing = true;
    pthread_mutex_unlock(&cache->lock);
    if (cache->has_thread) {
        wake_thread(cache);
        psti_thread_join(cache->thread);
    }
    psti_share_cache_cancel(cache);
    psti_share_disconnect(cache->fd, cache->owner);
    for (int i = 0; i < 2; i++)
        if (cache->wake[i] >= 0)
            close(cache->wake[i]);
    for (uint32_t i = 0; i < cache->n_sets; i++)
        psti_cache_view_close(&cache->sets[i].view);
    psti_free(cache->sets);
    pthread_cond_destroy(&cache->answered);
    pthread_mutex_destroy(&cache->lock);
    psti_free(cache->message);
    psti_free(cache);
}
