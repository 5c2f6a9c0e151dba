/* images_host.c - images in the host cache, which the host service keeps for all processes of the
 * user.
 *
 * A hit lies in memory that the service shares. The service reads and re-codes a missing item once
 * for all processes, while the caller waits. If the service is lost, callers read items themselves,
 * and a thread looks for the service every few seconds; no caller waits for that. A session belongs
 * to one process: the first call in a forked child opens a new session, and other threads read for
 * themselves meanwhile.
 *
 * No locks are taken. Sessions lie in a fixed array. A call first adds itself to a session's user
 * count and then checks that the session is still the current one. To close a session, a thread
 * first makes another one current and then checks that the old one has no users. */
#include "images/images_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/thread.h"

#include <unistd.h>

#define SECOND ((int64_t)1000 * 1000 * 1000)
#define LOOK_EVERY_NS (2 * SECOND) /* from the start of one search to the next */
#define LOOK_WAIT_NS (1 * SECOND)  /* for an answer */

enum { N_SESSIONS = 4 };

struct psti_images_session {
    struct psti_share_cache *cache; /* NULL: the entry is free, or there is no service */
    atomic_uint n_users;
};

/* The sessions of one process with the host service. */
struct psti_images_host {
    pst_images *images;
    int pid;
    struct psti_images_host *parents; /* after a fork: of the parent; freed with this */
    struct psti_images_session sessions[N_SESSIONS];
    atomic_uint current;
    atomic_int_fast64_t next_look_ns;
    atomic_bool is_closing; /* the handle is being closed: a search must end */
    atomic_bool is_left;    /* an old session lost its last user */
    atomic_bool is_looking; /* the thread that sets this flag may use the members below and idle
                             * entries */
    bool has_thread;
    pthread_t thread;
};

static struct psti_images_session *hold(struct psti_images_host *host)
{
    for (;;) {
        unsigned i = atomic_load(&host->current);
        atomic_fetch_add(&host->sessions[i].n_users, 1);
        if (atomic_load(&host->current) == i)
            return &host->sessions[i];
        atomic_fetch_sub(&host->sessions[i].n_users, 1);
    }
}

/* Closes old sessions that have no users. */
static void sweep(struct psti_images_host *host)
{
    for (unsigned i = 0; i < N_SESSIONS; i++)
        if (i != atomic_load(&host->current) && atomic_load(&host->sessions[i].n_users) == 0)
            psti_share_cache_close(&host->sessions[i].cache);
}

/* Ends a search or a sweep. Also closes sessions whose last user left meanwhile. */
static void end_look(struct psti_images_host *host)
{
    bool no;
    do {
        atomic_store(&host->is_left, false);
        sweep(host);
        atomic_store(&host->is_looking, false);
        no = false;
    } while (atomic_load(&host->is_left) &&
             atomic_compare_exchange_strong(&host->is_looking, &no, true));
}

static void give(struct psti_images_host *host, struct psti_images_session *held)
{
    bool no = false;
    if (atomic_fetch_sub(&held->n_users, 1) != 1 ||
        held == &host->sessions[atomic_load(&host->current)])
        return;
    atomic_store(&host->is_left, true);
    if (atomic_compare_exchange_strong(&host->is_looking, &no, true))
        end_look(host);
}

/* Makes a new session the current one. Returns false if all entries are taken by old sessions that
 * still have users. */
static bool install(struct psti_images_host *host, struct psti_share_cache *found)
{
    unsigned current = atomic_load(&host->current);
    sweep(host);
    for (unsigned i = 0; i < N_SESSIONS; i++) {
        if (i == current || host->sessions[i].cache)
            continue;
        host->sessions[i].cache = found;
        atomic_store(&host->current, i);
        sweep(host);
        return true;
    }
    return false;
}

static int is_closing(void *ctx)
{
    struct psti_images_host *host = ctx;
    return atomic_load(&host->is_closing);
}

/* Thread function that looks for the service once. */
static void look(void *arg)
{
    struct psti_images_host *host = arg;
    const struct psti_share_stop stop = {is_closing, host};
    pst_images *images = host->images;
    struct psti_share_cache *found = NULL;
    const struct psti_share_set set = {.dataset = images->dataset, .shape = images->shape};
    if (psti_share_cache_open(images->host_path, &set, 1, LOOK_WAIT_NS, LOOK_WAIT_NS, &stop, &found,
                              NULL) == PST_OK) {
        if (install(host, found)) {
            atomic_fetch_add(&images->n_renewed, 1);
            psti_log(PST_LOG_INFO, "images", "the host service was found again");
        } else {
            psti_share_cache_close(&found);
        }
    }
    end_look(host);
}

/* Starts a search for the service, unless one is running or began less than LOOK_EVERY_NS ago. */
static void begin_look(struct psti_images_host *host)
{
    bool no = false;
    int64_t now = psti_clock_ns();
    if (now < atomic_load_explicit(&host->next_look_ns, memory_order_relaxed) ||
        !atomic_compare_exchange_strong(&host->is_looking, &no, true))
        return;
    atomic_store(&host->next_look_ns, now + LOOK_EVERY_NS);
    if (host->has_thread)
        psti_thread_join(host->thread); /* it has ended */
    host->has_thread = psti_thread_start(&host->thread, "look", look, host, NULL) == PST_OK;
    if (!host->has_thread)
        atomic_store(&host->is_looking, false);
}

/* Makes the sessions of this process, with or without a running service. */
static enum pst_status open_host(pst_images *images, int64_t greet_ns,
                                 struct psti_images_host **out, struct pst_error *err)
{
    struct psti_images_host *host = *out = psti_calloc(1, sizeof *host);
    if (!host)
        return psti_fail(err, PST_ERROR_MEMORY, "images", "no memory for a session");
    host->images = images;
    host->pid = (int)getpid();
    const struct psti_share_set set = {.dataset = images->dataset, .shape = images->shape};
    return psti_share_cache_open(images->host_path, &set, 1, greet_ns, PSTI_LINK_WAIT_NS,
                                 &images->stop, &host->sessions[0].cache, err);
}

enum pst_status psti_images_host_open(pst_images *images, const pst_cache *cache,
                                      struct pst_error *err)
{
    struct psti_images_host *host;
    const struct psti_share_host *handle = psti_share_host(cache);
    struct pst_error cause;
    pst_error_clear(&cause);
    images->host_path = psti_strdup(handle->path);
    if (!images->host_path)
        return psti_fail(err, PST_ERROR_MEMORY, "images", "no memory for a path");
    atomic_init(&images->opening_pid, (int)getpid());
    enum pst_status status = open_host(images, handle->greet_ns, &host, &cause);
    atomic_init(&images->host, host);
    if (status != PST_OK && host && !handle->strict && psti_share_goes_on(status)) {
        psti_share_say(&cause, images->host_reason, sizeof images->host_reason);
        psti_log(PST_LOG_WARNING, "images", "the host cache is not used: %s", images->host_reason);
        return PST_OK; /* later calls look for the service */
    }
    if (status != PST_OK && err)
        *err = cause;
    return status;
}

void psti_images_host_close(pst_images *images)
{
    struct psti_images_host *host = atomic_load(&images->host);
    if (host && host->pid == (int)getpid()) {
        atomic_store(&host->is_closing, true);
        if (host->has_thread)
            psti_thread_join(host->thread);
        for (unsigned i = 0; i < N_SESSIONS; i++)
            psti_share_cache_close(&host->sessions[i].cache);
    }
    while (host) {
        struct psti_images_host *parents = host->parents;
        psti_free(host);
        host = parents;
    }
    psti_free(images->host_path);
}

/* Returns the sessions of this process, or NULL. */
static struct psti_images_host *find_host(pst_images *images)
{
    struct pst_error err;
    struct psti_images_host *host = atomic_load_explicit(&images->host, memory_order_acquire);
    struct psti_images_host *parents = host;
    int pid = (int)getpid(), opening = atomic_load(&images->opening_pid);
    if (host && host->pid == pid)
        return host;
    if (opening == pid || !atomic_compare_exchange_strong(&images->opening_pid, &opening, pid))
        return NULL; /* another thread is making them */
    pst_error_clear(&err);
    if (open_host(images, PSTI_LINK_WAIT_NS, &host, &err) != PST_OK)
        psti_log(PST_LOG_WARNING, "images", "this process goes without the host service: %s",
                 err.text);
    if (!host)
        return NULL;
    host->parents = parents; /* kept: another thread may be reading its pid */
    atomic_store_explicit(&images->host, host, memory_order_release);
    return host;
}

static bool is_here(const struct psti_share_wish *wish)
{
    return wish->result == PSTI_CACHE_RESULT_HERE || wish->result == PSTI_CACHE_RESULT_READ;
}

/* Looks for the item in the host cache. After HIT the caller must leave as *reader when it no
 * longer uses the span. count: counts the item as wanted, as psti_share_cache_ask does. */
static enum psti_cache_answer look_up(struct psti_share_cache *cache, uint64_t sample,
                                      uint32_t i_item, uint64_t nbytes, bool count,
                                      unsigned *reader, struct psti_cache_span *span)
{
    *reader = psti_share_cache_enter(cache, 0);
    enum psti_cache_answer answer =
        count ? psti_share_cache_ask(cache, 0, sample, i_item, nbytes, span)
              : psti_share_cache_look(cache, 0, sample, i_item, nbytes, span);
    if (answer == PSTI_CACHE_HIT)
        return answer;
    psti_share_cache_leave(cache, 0, *reader);
    *reader = 0;
    return answer;
}

/* Asks an open session for the item. While it waits for the service, it holds no reader number. */
static enum psti_cache_answer ask(const pst_images *images, struct psti_share_cache *cache,
                                  uint64_t sample, uint32_t i_item, uint64_t nbytes, bool wish,
                                  unsigned *reader, bool *fetched, bool *stopped,
                                  struct psti_cache_span *span)
{
    enum psti_cache_answer answer = look_up(cache, sample, i_item, nbytes, wish, reader, span);
    if (answer == PSTI_CACHE_HIT)
        return answer;
    if (!wish || answer != PSTI_CACHE_ADMIT)
        return PSTI_CACHE_PASS;
    struct psti_share_wish item = {.number = psti_share_cache_number(cache, 0, sample, i_item)};
    struct psti_share_wish *items[] = {&item};
    *stopped = !psti_share_cache_wait(cache, items, 1, &images->stop);
    *fetched = !*stopped && is_here(&item) &&
               look_up(cache, sample, i_item, nbytes, false, reader, span) == PSTI_CACHE_HIT;
    return *fetched ? PSTI_CACHE_HIT : PSTI_CACHE_PASS;
}

enum psti_cache_answer psti_images_host_ask(pst_images *images, uint64_t sample, uint32_t i_item,
                                            uint64_t nbytes, bool wish,
                                            struct psti_images_hold *held, bool *fetched,
                                            bool *is_lost, bool *stopped,
                                            struct psti_cache_span *span)
{
    struct psti_images_host *host = find_host(images);
    enum psti_cache_answer answer = PSTI_CACHE_PASS;
    *held = (struct psti_images_hold){0};
    *fetched = *stopped = false;
    *is_lost = true;
    if (!host)
        return answer;
    struct psti_images_session *session = held->session = hold(host);
    if (session->cache) {
        answer = ask(images, session->cache, sample, i_item, nbytes, wish, &held->reader, fetched,
                     stopped, span);
        *is_lost = psti_share_cache_is_lost(session->cache);
    }
    if (*is_lost)
        begin_look(host);
    return answer;
}

void psti_images_host_give(pst_images *images, const struct psti_images_hold *held)
{
    if (!held->session)
        return;
    if (held->session->cache)
        psti_share_cache_leave(held->session->cache, 0, held->reader);
    give(atomic_load_explicit(&images->host, memory_order_acquire), held->session);
}

bool psti_images_host_stats(pst_images *images, struct pst_cache_stats *stats)
{
    struct psti_images_host *host = find_host(images);
    if (!host)
        return false;
    struct psti_images_session *held = hold(host);
    bool has_session = held->cache != NULL;
    if (has_session)
        psti_share_cache_stats(held->cache, stats);
    give(host, held);
    return has_session;
}
