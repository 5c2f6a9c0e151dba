/* fleet.c - a fleet: opens it, chooses the server of each item, asks for items, ends late requests,
 * and counts. */
#include "fleet/fleet_int.h"
#include "fleet/fleet_item.h"
#include "options/options_members.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/thread.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t psti_fleet_choose(const pst_fleet *fleet, uint64_t key_hash)
{
    uint32_t best = 0;
    uint64_t highest = 0;
    for (uint32_t i = 0; i < fleet->n_servers; i++) {
        const uint64_t both[2] = {fleet->servers[i]->hash, key_hash};
        uint64_t hash = psti_hash64(both, sizeof both);
        if (i == 0 || hash > highest) {
            best = i;
            highest = hash;
        }
    }
    return best;
}

static struct psti_fleet_server *server_of(const struct psti_fleet_set *set, uint32_t i_shape,
                                           uint64_t sample, uint32_t i_item, uint64_t *key_hash)
{
    const struct psti_fleet_name name = psti_fleet_set_name(set, i_shape, sample, i_item);
    *key_hash = psti_format_fleet_hash(&name);
    return set->fleet->servers[psti_fleet_choose(set->fleet, *key_hash)];
}

bool psti_fleet_has_server(struct psti_fleet_set *set, uint32_t i_shape, uint64_t sample,
                           uint32_t i_item, bool *is_local)
{
    uint64_t key_hash;
    return psti_fleet_server_takes(server_of(set, i_shape, sample, i_item, &key_hash),
                                   is_local);
}

void psti_fleet_watch(pst_fleet *fleet)
{
    if (atomic_exchange(&fleet->watched, true))
        return;
    pthread_mutex_lock(&fleet->lock);
    pthread_cond_signal(&fleet->changed);
    pthread_mutex_unlock(&fleet->lock);
}

/* Sets get->state and clears the results. Returns the item's server. */
static struct psti_fleet_server *begin(struct psti_fleet_set *set, struct psti_fleet_get *get)
{
    get->got_nbytes = 0;
    get->form = 0;
    get->state = (struct psti_fleet_get_state){.set = set, .start_ns = psti_clock_ns()};
    return server_of(set, get->i_shape, get->sample, get->i_item, &get->state.key_hash);
}

static void queue(struct psti_fleet_server *server, struct psti_fleet_get *get)
{
    if (!psti_fleet_server_get(server, get))
        psti_fleet_get_end(server, get, PSTI_FLEET_DECLINED);
}

void psti_fleet_ask(struct psti_fleet_set *set, struct psti_fleet_get **gets, size_t n)
{
    psti_latency_begin(&set->fleet->latency, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        queue(begin(set, gets[i]), gets[i]);
    psti_fleet_watch(set->fleet);
}

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t n_left;
};

static void one_is_done(struct psti_fleet_get *get)
{
    struct waiting *waiting = get->user;
    pthread_mutex_lock(&waiting->lock);
    if (--waiting->n_left == 0)
        pthread_cond_signal(&waiting->changed);
    pthread_mutex_unlock(&waiting->lock);
}

static bool waits(void *ctx)
{
    struct waiting *waiting = ctx;
    pthread_mutex_lock(&waiting->lock);
    bool some = waiting->n_left > 0;
    pthread_mutex_unlock(&waiting->lock);
    return some;
}

/* Asks for the items. If one server has all of them and no other thread talks to it, this thread
 * talks to it until the answers have come. */
static void ask_here(struct psti_fleet_set *set, struct psti_fleet_get **gets, size_t n,
                     struct waiting *waiting)
{
    struct psti_fleet_server *one = NULL;
    bool is_one = true;
    psti_latency_begin(&set->fleet->latency, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        struct psti_fleet_server *server = begin(set, gets[i]);
        is_one &= i == 0 || server == one;
        one = server;
    }
    psti_fleet_watch(set->fleet);
    if (n > 0 && is_one && psti_fleet_server_get_here(one, gets, n, waits, waiting))
        return;
    for (size_t i = 0; i < n; i++)
        queue(set->fleet->servers[psti_fleet_choose(set->fleet, gets[i]->state.key_hash)], gets[i]);
    /* The fleet's thread may have gone to sleep because it saw the queues before they were
     * filled. */
    psti_fleet_watch(set->fleet);
}

void psti_fleet_ask_and_wait(struct psti_fleet_set *set, struct psti_fleet_get **gets, size_t n)
{
    struct waiting waiting = {.n_left = n};
    pthread_mutex_init(&waiting.lock, NULL);
    pthread_cond_init(&waiting.changed, NULL);
    for (size_t i = 0; i < n; i++) {
        gets[i]->done = one_is_done;
        gets[i]->user = &waiting;
    }
    ask_here(set, gets, n, &waiting);
    pthread_mutex_lock(&waiting.lock);
    while (waiting.n_left > 0) /* ends, because each request has a deadline */
        pthread_cond_wait(&waiting.changed, &waiting.lock);
    pthread_mutex_unlock(&waiting.lock);
    pthread_cond_destroy(&waiting.changed);
    pthread_mutex_destroy(&waiting.lock);
}

void psti_fleet_retry(struct psti_fleet_set *set)
{
    for (uint32_t i = 0; i < set->fleet->n_servers; i++)
        psti_fleet_server_retry(set->fleet->servers[i]);
}

int64_t psti_fleet_timeout_ns(const struct psti_fleet_set *set) { return set->fleet->timeout_ns; }

/* The watcher's thread. While servers have work, it checks them four times within a timeout. */
static void run_watcher(void *arg)
{
    pst_fleet *fleet = arg;
    pthread_mutex_lock(&fleet->lock);
    while (!fleet->closing) {
        if (!atomic_load(&fleet->watched)) {
            pthread_cond_wait(&fleet->changed, &fleet->lock);
            continue;
        }
        psti_cond_wait_until(&fleet->changed, &fleet->lock,
                             psti_clock_ns() + fleet->timeout_ns / 4);
        pthread_mutex_unlock(&fleet->lock);
        /* The flag is cleared first, because work that arrives during the check sets it again. */
        atomic_store(&fleet->watched, false);
        bool has_work = false;
        for (uint32_t i = 0; i < fleet->n_servers; i++)
            has_work |= psti_fleet_server_watch(fleet->servers[i]);
        if (has_work)
            atomic_store(&fleet->watched, true);
        pthread_mutex_lock(&fleet->lock);
    }
    pthread_mutex_unlock(&fleet->lock);
}

static enum pst_status take_options(const struct pst_fleet_options *options,
                                    struct pst_fleet_options *full, struct pst_error *err)
{
    enum pst_status status = psti_options_copy(full, sizeof *full, options, "fleet", err);
    if (status == PST_OK)
        status = psti_options_complete(PST_STRUCT_FLEET_OPTIONS, full, "fleet", err);
    if (status != PST_OK)
        return status;
    full->servers = full->servers ? full->servers : getenv("PENSTOCK_FLEET");
    full->auth_file = full->auth_file ? full->auth_file : getenv("PENSTOCK_FLEET_AUTH");
    if (full->auth == PST_FLEET_AUTH_SASL)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "fleet",
                         "SASL needs memcached's binary protocol, which this client does not "
                         "speak: give the servers a file of users (memcached -Y), and auth ASCII");
    if (!full->servers || !*full->servers)
        return psti_fail(err, PST_ERROR_ARGUMENT, "fleet",
                         "no servers: give `servers`, or set PENSTOCK_FLEET");
    return PST_OK;
}

static enum pst_status open_servers(pst_fleet *fleet, const struct pst_fleet_options *options,
                                    struct pst_error *err)
{
    struct psti_fleet_login login = {0};
    struct psti_fleet_address *addresses = NULL;
    uint32_t n = 0;
    enum pst_status status = psti_fleet_servers_read(options->servers, &addresses, &n, err);
    if (status == PST_OK && options->auth_file && *options->auth_file)
        status = psti_fleet_login_read(options->auth_file, &login, err);
    if (status == PST_OK) {
        fleet->servers = psti_calloc(n, sizeof(struct psti_fleet_server *));
        if (!fleet->servers)
            status = psti_fail(err, PST_ERROR_MEMORY, "fleet", "no memory for %u servers", n);
    }
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        status = psti_fleet_server_open(fleet, &addresses[i], &login, &fleet->latency,
                                        &fleet->servers[i], err);
        fleet->n_servers += status == PST_OK;
    }
    psti_free(addresses);
    return status;
}

enum pst_status pst_fleet_open(const struct pst_fleet_options *options, pst_fleet **out,
                               struct pst_error *err)
{
    struct pst_fleet_options full;
    if (!out)
        return psti_fail(err, PST_ERROR_ARGUMENT, "fleet", "out is NULL");
    *out = NULL;
    enum pst_status status = take_options(options, &full, err);
    if (status != PST_OK)
        return status;
    pst_fleet *fleet = psti_calloc(1, sizeof *fleet);
    if (!fleet)
        return psti_fail(err, PST_ERROR_MEMORY, "fleet", "no memory for a fleet");
    fleet->pid = getpid();
    fleet->timeout_ns = (int64_t)(full.timeout_seconds * 1e9);
    fleet->part_nbytes = full.max_item_nbytes - PSTI_FLEET_OVERHEAD_NBYTES;
    atomic_init(&fleet->n_owners, 1);
    pthread_mutex_init(&fleet->lock, NULL);
    psti_cond_init(&fleet->changed);
    psti_latency_open(&fleet->latency);
    status = open_servers(fleet, &full, err);
    if (status == PST_OK)
        status = psti_thread_start(&fleet->watcher, "fleet-w", run_watcher, fleet, err);
    fleet->watcher_started = status == PST_OK;
    if (status == PST_OK)
        *out = fleet;
    else
        pst_fleet_close(&fleet);
    return status;
}

static void close_watcher(pst_fleet *fleet)
{
    pthread_mutex_lock(&fleet->lock);
    fleet->closing = true;
    pthread_cond_broadcast(&fleet->changed);
    pthread_mutex_unlock(&fleet->lock);
    if (fleet->watcher_started)
        psti_thread_join(fleet->watcher);
}

void pst_fleet_close(pst_fleet **fleet_ptr)
{
    pst_fleet *fleet = fleet_ptr ? *fleet_ptr : NULL;
    if (!fleet)
        return;
    *fleet_ptr = NULL;
    if (fleet->pid != getpid()) /* a forked process lacks the fleet's threads */
        return;
    if (atomic_fetch_sub(&fleet->n_owners, 1) != 1)
        return;
    close_watcher(fleet);
    for (uint32_t i = 0; i < fleet->n_servers; i++)
        psti_fleet_server_stop(fleet->servers[i]);
    int64_t deadline = psti_clock_ns() + 2 * fleet->timeout_ns;
    for (uint32_t i = 0; i < fleet->n_servers; i++)
        psti_fleet_server_close(fleet->servers[i], deadline);
    psti_free(fleet->servers);
    psti_latency_close(&fleet->latency);
    pthread_cond_destroy(&fleet->changed);
    pthread_mutex_destroy(&fleet->lock);
    psti_free(fleet);
}

static void add_server(struct psti_fleet_server *server, struct pst_fleet_stats *stats)
{
    pthread_mutex_lock(&server->lock);
    const struct psti_fleet_counters *n = &server->counters;
    stats->n_servers_up += server->health == PSTI_FLEET_UP && !server->stuck;
    stats->n_hits += n->n_hits;
    stats->n_misses += n->n_misses;
    stats->n_declined += n->n_declined;
    stats->nbytes_hit += n->nbytes_hit;
    stats->n_added += n->n_added;
    stats->n_present += n->n_present;
    stats->n_full += n->n_full;
    stats->n_dropped += n->n_dropped;
    stats->nbytes_added += n->nbytes_added;
    stats->n_bad_values += n->n_bad_values;
    stats->n_late += n->n_late;
    stats->n_lost += n->n_lost;
    stats->n_found += n->n_found;
    pthread_mutex_unlock(&server->lock);
}

void pst_fleet_stats(pst_fleet *fleet, struct pst_fleet_stats *stats, size_t stats_nbytes)
{
    struct pst_fleet_stats all = {0};
    if (fleet->pid == getpid()) {
        struct psti_latency_figures figures;
        all.n_servers = fleet->n_servers;
        all.n_dropped = atomic_load(&fleet->n_dropped);
        for (uint32_t i = 0; i < fleet->n_servers; i++)
            add_server(fleet->servers[i], &all);
        psti_latency_read(&fleet->latency, &figures);
        all.mean_ns = figures.mean_ns;
        all.p99_ns = figures.p99_ns;
        all.bytes_per_second = figures.bytes_per_second;
    }
    psti_struct_write(stats, stats_nbytes, &all, sizeof all);
}

enum pst_status pst_fleet_server(pst_fleet *fleet, uint32_t i_server, struct pst_fleet_server *out,
                                 size_t server_nbytes, struct pst_error *err)
{
    if (fleet->pid != getpid())
        return psti_fail(err, PST_ERROR_FORKED, "fleet", "the fleet belongs to another process");
    if (i_server >= fleet->n_servers)
        return psti_fail(err, PST_ERROR_ARGUMENT, "fleet", "there is no server %u of %u", i_server,
                         fleet->n_servers);
    struct psti_fleet_server *server = fleet->servers[i_server];
    pthread_mutex_lock(&server->lock);
    const struct psti_fleet_counters *n = &server->counters;
    struct pst_fleet_server all = {.is_up = server->health == PSTI_FLEET_UP && !server->stuck,
                                   .is_local = server->is_local,
                                   .n_hits = n->n_hits,
                                   .n_misses = n->n_misses,
                                   .n_declined = n->n_declined,
                                   .n_added = n->n_added,
                                   .n_full = n->n_full,
                                   .n_lost = n->n_lost};
    snprintf(all.name, sizeof all.name, "%s", server->address.name);
    snprintf(all.error, sizeof all.error, "%s", server->error);
    pthread_mutex_unlock(&server->lock);
    psti_struct_write(out, server_nbytes, &all, sizeof all);
    return PST_OK;
}
