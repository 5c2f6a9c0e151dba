/* fleet_server.c - one server: its queues, its health, and the thread that talks to it.
 *
 * In: requests and copies of items, from any thread. Out: their ends. The thread asks for as many
 * items at once as are waiting, up to a bound, and adds copies when nobody asks. A server that
 * fails is given up: all that waits for it ends at once, nothing more is queued, and the thread
 * tries it again after a while that doubles. The fleet's watcher ends requests that are late,
 * whatever the thread does. Whoever takes a request out of a list or of the batch, with the lock,
 * ends it, without the lock. */
#include "fleet/fleet_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/thread.h"

#include <stdio.h>
#include <string.h>

#define BACKOFF_MIN_NS ((int64_t)250000000)
#define BACKOFF_MAX_NS ((int64_t)15000000000)
#define TURNS_MAX 4  /* requests before a copy has its turn */
#define FULL_AFTER 8 /* refusals in a row after which a server counts as full */
#define FULL_ASK_EACH                                                                              \
    16 /* of the items for a full server, one in so many is offered all the same */

/* Ends requests of a list that nobody else has. The lock is not held. */
static void end_gets(struct psti_fleet_server *server, struct psti_fleet_get *get)
{
    while (get) {
        struct psti_fleet_get *next = get->state.next;
        psti_fleet_get_end(server, get, PSTI_FLEET_DECLINED);
        get = next;
    }
}

static void end_fills(struct psti_fleet_fill *fill)
{
    while (fill) {
        struct psti_fleet_fill *next = fill->next;
        psti_fleet_fill_end(fill, false, PSTI_FLEET_LOST);
        fill = next;
    }
}

/* Ends all that waits. The lock is held, and released meanwhile. */
static void end_queues(struct psti_fleet_server *server)
{
    struct psti_fleet_get *gets = server->gets;
    struct psti_fleet_fill *fills = server->fills;
    server->gets = server->last_get = NULL;
    server->fills = server->last_fill = NULL;
    for (const struct psti_fleet_get *get = gets; get; get = get->state.next)
        server->counters.n_declined++;
    for (const struct psti_fleet_fill *fill = fills; fill; fill = fill->next)
        server->counters.n_dropped++;
    pthread_mutex_unlock(&server->lock);
    end_gets(server, gets);
    end_fills(fills);
    pthread_mutex_lock(&server->lock);
}

/* The thread gives its server up until it answers again. The lock is held, and released meanwhile.
 */
static void give_up(struct psti_fleet_server *server)
{
    server->health = PSTI_FLEET_DOWN;
    server->counters.n_lost++;
    server->probe_ns = psti_clock_ns() + server->backoff_ns;
    server->backoff_ns =
        2 * server->backoff_ns < BACKOFF_MAX_NS ? 2 * server->backoff_ns : BACKOFF_MAX_NS;
    end_queues(server);
    pthread_mutex_unlock(&server->lock);
    psti_fleet_talk_close(server);
    pthread_mutex_lock(&server->lock);
}

static void begin_talk(struct psti_fleet_server *server)
{
    server->busy_ns = psti_clock_ns();
    pthread_mutex_unlock(&server->lock);
}

static void end_talk(struct psti_fleet_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->busy_ns = 0;
    server->stuck = false;
}

static void probe(struct psti_fleet_server *server)
{
    begin_talk(server);
    bool local = psti_fleet_address_is_local(&server->address);
    bool found = psti_fleet_talk_connect(server);
    end_talk(server);
    server->is_local = local;
    if (!found) {
        give_up(server);
        return;
    }
    server->health = PSTI_FLEET_UP;
    server->counters.n_found++;
    server->n_full_in_row = server->n_skipped = 0; /* it may have been started anew */
}

/* Moves requests to the batch: one at least, and as many more as the bounds allow. */
static void take_batch(struct psti_fleet_server *server)
{
    uint64_t nbytes = 0;
    server->n_batch = 0;
    while (server->gets && server->n_batch < PSTI_FLEET_BATCH_GETS) {
        struct psti_fleet_get *get = server->gets;
        if (server->n_batch > 0 && nbytes + get->nbytes > PSTI_FLEET_BATCH_NBYTES)
            break;
        nbytes += get->nbytes;
        server->gets = get->state.next;
        server->batch[server->n_batch++] = get;
    }
    if (!server->gets)
        server->last_get = NULL;
}

/* Ends what is left of the batch. The lock is held, and released meanwhile. */
static void end_batch(struct psti_fleet_server *server, bool good)
{
    for (uint32_t i = 0; i < server->n_batch; i++) {
        struct psti_fleet_get *get = server->batch[i];
        if (!get)
            continue;
        bool missing = good && !get->state.bad;
        server->batch[i] = NULL;
        server->counters.n_misses += missing;
        server->counters.n_declined += !missing;
        pthread_mutex_unlock(&server->lock);
        psti_fleet_get_end(server, get, missing ? PSTI_FLEET_MISS : PSTI_FLEET_DECLINED);
        pthread_mutex_lock(&server->lock);
    }
    server->n_batch = 0;
}

static void do_gets(struct psti_fleet_server *server)
{
    uint64_t n_bad = server->counters.n_bad_values;
    take_batch(server);
    begin_talk(server);
    bool good = psti_fleet_talk_get(server);
    end_talk(server);
    end_batch(server, good);
    if (!good) {
        give_up(server);
    } else if (n_bad == server->counters.n_bad_values) {
        server->n_bad_in_row = 0;
        server->backoff_ns = BACKOFF_MIN_NS;
    }
}

static void count_outcome(struct psti_fleet_server *server, const struct psti_fleet_fill *fill,
                          enum psti_fleet_outcome outcome)
{
    struct psti_fleet_counters *n = &server->counters;
    n->n_added += outcome == PSTI_FLEET_ADDED;
    n->nbytes_added += outcome == PSTI_FLEET_ADDED ? fill->offer.nbytes : 0;
    n->n_present += outcome == PSTI_FLEET_PRESENT;
    n->n_full += outcome == PSTI_FLEET_FULL;
    n->n_dropped += outcome == PSTI_FLEET_LOST;
    server->n_full_in_row = outcome == PSTI_FLEET_FULL ? server->n_full_in_row + 1 : 0;
}

static void do_fill(struct psti_fleet_server *server)
{
    struct psti_fleet_fill *fill = server->fills;
    enum psti_fleet_outcome outcome;
    server->fills = fill->next;
    if (!server->fills)
        server->last_fill = NULL;
    server->filling = fill;
    begin_talk(server);
    bool good = psti_fleet_talk_add(server, fill, &outcome);
    end_talk(server);
    bool abandoned = server->filling != fill;
    server->filling = NULL;
    count_outcome(server, fill, outcome);
    pthread_mutex_unlock(&server->lock);
    psti_fleet_fill_end(fill, abandoned, outcome);
    pthread_mutex_lock(&server->lock);
    if (!good)
        give_up(server);
}

static void let_go(struct psti_fleet_server *server)
{
    if (atomic_fetch_sub(&server->n_holds, 1) != 1)
        return;
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    psti_free(server);
}

static void run(void *arg)
{
    struct psti_fleet_server *server = arg;
    pthread_mutex_lock(&server->lock);
    while (!server->closing) {
        bool is_up = server->health == PSTI_FLEET_UP;
        if (!is_up && psti_clock_ns() >= server->probe_ns) {
            probe(server);
        } else if (!is_up) {
            psti_cond_wait_until(&server->changed, &server->lock, server->probe_ns);
        } else if (server->gets && (!server->fills || server->n_turns < TURNS_MAX)) {
            server->n_turns++;
            do_gets(server);
        } else if (server->fills) {
            server->n_turns = 0;
            do_fill(server);
        } else {
            pthread_cond_wait(&server->changed, &server->lock);
        }
    }
    end_queues(server);
    pthread_mutex_unlock(&server->lock);
    psti_fleet_talk_close(server);
    pthread_mutex_lock(&server->lock);
    server->ended = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    let_go(server);
}

enum pst_status psti_fleet_server_open(const struct pst_fleet *fleet, const struct psti_mc *mc,
                                       const struct psti_fleet_address *address,
                                       const struct psti_fleet_login *login,
                                       struct psti_latency *latency, struct psti_fleet_server **out,
                                       struct pst_error *err)
{
    struct psti_fleet_server *server = psti_alloc_aligned(PSTI_CACHE_LINE, sizeof *server);
    if (!server)
        return psti_fail(err, PST_ERROR_MEMORY, "fleet", "no memory for a server");
    memset(server, 0, sizeof *server);
    server->mc = *mc;
    server->address = *address;
    server->login = *login;
    server->latency = latency;
    server->timeout_ns = fleet->timeout_ns;
    server->part_nbytes = fleet->part_nbytes;
    server->hash = psti_hash64(address->name, strlen(address->name));
    server->backoff_ns = BACKOFF_MIN_NS;
    server->copying = -1;
    atomic_init(&server->n_holds, 2);
    pthread_mutex_init(&server->lock, NULL);
    psti_cond_init(&server->changed);
    enum pst_status status = psti_thread_start(&server->thread, "fleet", run, server, err);
    server->started = status == PST_OK;
    if (status == PST_OK) {
        *out = server;
        return PST_OK;
    }
    atomic_store(&server->n_holds, 1);
    let_go(server);
    return status;
}

void psti_fleet_server_stop(struct psti_fleet_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->closing = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

void psti_fleet_server_close(struct psti_fleet_server *server, int64_t deadline_ns)
{
    int late = 0;
    pthread_mutex_lock(&server->lock);
    while (!server->ended && !late)
        late = psti_cond_wait_until(&server->changed, &server->lock, deadline_ns);
    bool ended = server->ended;
    pthread_mutex_unlock(&server->lock);
    if (ended)
        psti_thread_join(server->thread);
    else
        pthread_detach(server->thread); /* it frees the server when it comes back */
    let_go(server);
}

bool psti_fleet_server_get(struct psti_fleet_server *server, struct psti_fleet_get *get)
{
    get->state.next = NULL;
    pthread_mutex_lock(&server->lock);
    bool takes = server->health != PSTI_FLEET_DOWN && !server->stuck && !server->closing;
    get->is_local = server->is_local;
    server->counters.n_declined += !takes;
    if (takes) {
        *(server->last_get ? &server->last_get->state.next : &server->gets) = get;
        server->last_get = get;
        pthread_cond_broadcast(&server->changed);
    }
    pthread_mutex_unlock(&server->lock);
    return takes;
}

bool psti_fleet_server_takes(struct psti_fleet_server *server, bool *is_local)
{
    pthread_mutex_lock(&server->lock);
    bool takes = server->health != PSTI_FLEET_DOWN && !server->stuck;
    *is_local = server->is_local;
    server->counters.n_declined += !takes;
    pthread_mutex_unlock(&server->lock);
    return takes;
}

bool psti_fleet_server_wants(struct psti_fleet_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool wants = server->health != PSTI_FLEET_DOWN && !server->stuck;
    if (!wants) {
        server->counters.n_dropped++;
    } else if (server->n_full_in_row >= FULL_AFTER && ++server->n_skipped % FULL_ASK_EACH != 0) {
        server->counters.n_full++;
        wants = false;
    }
    pthread_mutex_unlock(&server->lock);
    return wants;
}

void psti_fleet_server_fill(struct psti_fleet_server *server, struct psti_fleet_fill *fill)
{
    fill->next = NULL;
    pthread_mutex_lock(&server->lock);
    bool takes = server->health != PSTI_FLEET_DOWN && !server->closing;
    server->counters.n_dropped += !takes;
    if (takes) {
        *(server->last_fill ? &server->last_fill->next : &server->fills) = fill;
        server->last_fill = fill;
        pthread_cond_broadcast(&server->changed);
    }
    pthread_mutex_unlock(&server->lock);
    if (!takes)
        end_fills(fill);
}

void psti_fleet_server_retry(struct psti_fleet_server *server)
{
    pthread_mutex_lock(&server->lock);
    if (server->health == PSTI_FLEET_DOWN && !server->stuck) {
        server->probe_ns = 0;
        pthread_cond_broadcast(&server->changed);
    }
    pthread_mutex_unlock(&server->lock);
}

/* Moves late requests to a list, also from the batch, but not the one that is being written. */
static struct psti_fleet_get *take_late(struct psti_fleet_server *server, int64_t before_ns)
{
    struct psti_fleet_get *late = NULL, *get;
    while ((get = server->gets) != NULL && get->state.start_ns < before_ns) {
        server->gets = get->state.next;
        get->state.next = late;
        late = get;
        server->counters.n_late++;
    }
    if (!server->gets)
        server->last_get = NULL;
    for (uint32_t i = 0; i < server->n_batch; i++) {
        get = server->batch[i];
        if (!get || (int)i == server->copying || get->state.start_ns >= before_ns)
            continue;
        server->batch[i] = NULL;
        get->state.next = late;
        late = get;
        server->counters.n_late++;
    }
    return late;
}

bool psti_fleet_server_watch(struct psti_fleet_server *server)
{
    int64_t now = psti_clock_ns();
    struct psti_fleet_fill *filling = NULL, *fills = NULL;
    pthread_mutex_lock(&server->lock);
    struct psti_fleet_get *late = take_late(server, now - server->timeout_ns);
    for (const struct psti_fleet_get *get = late; get; get = get->state.next)
        server->counters.n_declined++;
    if (server->busy_ns && now - server->busy_ns > 2 * server->timeout_ns) {
        server->stuck = true;
        filling = server->filling;
        server->filling = NULL;
        fills = server->fills;
        server->fills = server->last_fill = NULL;
    }
    bool has_work = server->gets || server->fills || server->n_batch || server->filling;
    pthread_mutex_unlock(&server->lock);
    end_gets(server, late);
    if (filling)
        psti_fleet_fill_abandon(filling);
    end_fills(fills);
    return has_work;
}

void psti_fleet_server_drop(struct psti_fleet_server *server, const struct psti_fleet_set *set)
{
    struct psti_fleet_fill *dropped = NULL, *last = NULL;
    pthread_mutex_lock(&server->lock);
    for (struct psti_fleet_fill **at = &server->fills, *fill; (fill = *at) != NULL;) {
        if (fill->set != set) {
            last = fill;
            at = &fill->next;
            continue;
        }
        *at = fill->next;
        fill->next = dropped;
        dropped = fill;
        server->counters.n_dropped++;
    }
    server->last_fill = last;
    pthread_mutex_unlock(&server->lock);
    end_fills(dropped);
}
