/* fleet_server.c - one server: its queues, its state, its thread, and which thread talks to it.
 *
 * In: requests and copies of items, from any thread. Out: calls of their `done`. While no thread
 * talks, the server's thread waits for the condition variable. A thread that talks waits for the
 * connection and wake_fd, so that new requests are sent at once. A server that fails is given up:
 * everything waiting or under way ends at once, nothing more is queued, and the thread tries the
 * server again after a delay that doubles each time. While the resolver blocks, the fleet's watcher
 * ends requests that have waited too long. A thread that takes a request from a list, with the lock
 * held, ends it after releasing the lock. */
#include "fleet/fleet_int.h"
#include "fleet/fleet_item.h"
#include "fleet/fleet_ring.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BACKOFF_MAX_NS ((int64_t)15000000000)
#define FULL_AFTER 8 /* number of refusals in a row after which a server counts as full */
#define FULL_ASK_EACH                                                                              \
    16 /* of this many items one is still offered to a full server */

/* Ends all requests of a list that no other thread uses. The lock is not held. */
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
        psti_fleet_fill_end(fill, PSTI_FLEET_LOST);
        fill = next;
    }
}

/* Ends all waiting requests and copies. The lock is held, and released meanwhile. */
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

/* Wakes the thread that talks, or else the server's thread. The lock is held. */
static void wake(struct psti_fleet_server *server)
{
    static const uint64_t one = 1;
    if (!server->talking)
        pthread_cond_broadcast(&server->changed);
    else if (!server->woken)
        server->woken = write(server->wake_fd, &one, sizeof one) == (ssize_t)sizeof one;
}

/* Gives the server up until it answers again. Called by the thread that talks. The lock is held,
 * and released meanwhile. */
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

static bool has_work(const struct psti_fleet_server *server)
{
    return server->gets || server->fills || psti_fleet_talk_is_busy(server);
}

/* Talks to the server as long as waits(ctx) is true. Afterwards the server's thread does the
 * remaining work. The lock is held, and released meanwhile. */
static void talk(struct psti_fleet_server *server, bool (*waits)(void *ctx), void *ctx)
{
    bool good = true;
    server->talking = true;
    while (good && waits(ctx)) {
        pthread_mutex_unlock(&server->lock);
        good = psti_fleet_talk_round(server);
        pthread_mutex_lock(&server->lock);
    }
    if (!good)
        give_up(server);
    server->talking = false;
    if (!good || server->closing || has_work(server))
        pthread_cond_broadcast(&server->changed);
}

static bool thread_waits(void *ctx)
{
    const struct psti_fleet_server *server = ctx;
    return has_work(server) && !server->closing;
}

/* Tries to connect to the server. The lock is held, and released meanwhile. */
static void probe(struct psti_fleet_server *server)
{
    server->probing_ns = psti_clock_ns();
    server->talking = true;
    pthread_mutex_unlock(&server->lock);
    bool local = psti_fleet_address_is_local(&server->address);
    bool found = psti_fleet_talk_connect(server);
    pthread_mutex_lock(&server->lock);
    server->probing_ns = 0;
    server->stuck = false;
    server->is_local = local;
    if (found) {
        server->health = PSTI_FLEET_UP;
        server->counters.n_found++;
        server->n_full_in_row = server->n_skipped = 0; /* the server may have been restarted */
    } else {
        give_up(server);
    }
    server->talking = false;
}

static void let_go(struct psti_fleet_server *server)
{
    if (atomic_fetch_sub(&server->n_holds, 1) != 1)
        return;
    if (server->wake_fd >= 0)
        close(server->wake_fd);
    psti_fleet_wire_free(&server->talk.wire);
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
        if (server->talking)
            pthread_cond_wait(&server->changed, &server->lock);
        else if (!is_up && psti_clock_ns() >= server->probe_ns)
            probe(server);
        else if (!is_up)
            psti_cond_wait_until(&server->changed, &server->lock, server->probe_ns);
        else if (has_work(server))
            talk(server, thread_waits, server);
        else
            pthread_cond_wait(&server->changed, &server->lock);
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

enum pst_status psti_fleet_server_open(const struct pst_fleet *fleet,
                                       const struct psti_fleet_address *address,
                                       const struct psti_fleet_login *login,
                                       struct psti_latency *latency, struct psti_fleet_server **out,
                                       struct pst_error *err)
{
    struct psti_fleet_server *server = psti_calloc(1, sizeof *server);
    enum pst_status status = PST_OK;
    if (!server)
        return psti_fail(err, PST_ERROR_MEMORY, "fleet", "no memory for a server");
    server->address = *address;
    server->login = *login;
    server->latency = latency;
    server->timeout_ns = fleet->timeout_ns;
    server->part_nbytes = fleet->part_nbytes;
    server->hash = psti_hash64(address->name, strlen(address->name));
    server->backoff_ns = PSTI_FLEET_BACKOFF_MIN_NS;
    atomic_init(&server->n_holds, 2);
    pthread_mutex_init(&server->lock, NULL);
    psti_cond_init(&server->changed);
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake_fd < 0)
        status = psti_fail_os(err, errno, "fleet", NULL, -1, "cannot open an eventfd");
    psti_fleet_talk_open(server);
    if (status == PST_OK)
        status = psti_thread_start(&server->thread, "fleet", run, server, err);
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
    wake(server);
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
        pthread_detach(server->thread); /* the thread frees the server when the resolver returns */
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
        wake(server);
    }
    pthread_mutex_unlock(&server->lock);
    return takes;
}

bool psti_fleet_server_get_here(struct psti_fleet_server *server, struct psti_fleet_get **gets,
                                size_t n, bool (*waits)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&server->lock);
    bool takes = server->health == PSTI_FLEET_UP && !server->talking && !server->closing &&
                 !has_work(server);
    for (size_t i = 0; takes && i < n; i++) {
        struct psti_fleet_get *get = gets[i];
        get->is_local = server->is_local;
        get->state.next = NULL;
        *(server->last_get ? &server->last_get->state.next : &server->gets) = get;
        server->last_get = get;
    }
    if (takes)
        talk(server, waits, ctx);
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
        wake(server);
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

/* Moves late requests from the queue to a list, and returns that. */
static struct psti_fleet_get *take_late(struct psti_fleet_server *server, int64_t before_ns)
{
    struct psti_fleet_get *late = NULL, *get;
    while ((get = server->gets) != NULL && get->state.start_ns < before_ns) {
        server->gets = get->state.next;
        get->state.next = late;
        late = get;
        server->counters.n_late++;
        server->counters.n_declined++;
    }
    if (!server->gets)
        server->last_get = NULL;
    return late;
}

bool psti_fleet_server_watch(struct psti_fleet_server *server)
{
    int64_t now = psti_clock_ns();
    struct psti_fleet_fill *fills = NULL;
    pthread_mutex_lock(&server->lock);
    struct psti_fleet_get *late = take_late(server, now - server->timeout_ns);
    if (server->probing_ns && now - server->probing_ns > 2 * server->timeout_ns) {
        server->stuck = true;
        fills = server->fills;
        server->fills = server->last_fill = NULL;
        for (const struct psti_fleet_fill *fill = fills; fill; fill = fill->next)
            server->counters.n_dropped++;
    }
    bool waits = server->gets || server->fills;
    pthread_mutex_unlock(&server->lock);
    end_gets(server, late);
    end_fills(fills);
    return waits;
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
