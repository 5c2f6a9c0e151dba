/* storage_pace.c - the throttle: makes a storage engine as slow as a slower device would be.
 *
 * In: the size of each request when it starts. Out: the earliest time at which it may complete, by
 * a token bucket (rate) plus a constant (latency). If the number of requests at once is limited, a
 * request begins when an earlier one is done, so latencies add up. Completed reads wait in a queue
 * for their time, so no reading thread sleeps for the throttle. The real read runs during that
 * time, which is not added to the throttle's. For submitted reads, one thread calls `done` of the
 * queued reads in the order of their times. After a cancel, the queue is emptied at once and nobody
 * sleeps. */
#include "storage/storage_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"

/* Capacity of the token bucket, as the time (ns) in which it fills. A reader that wakes up late
 * finds the tokens of that time, so the mean rate is still reached. */
#define BURST_NS 2000000
/* The longest time (ns) that the rate makes one read take. The limit keeps sums far from
 * overflow. */
#define COST_MAX_NS ((double)(INT64_MAX / 16))

struct psti_storage_pace {
    double ns_per_byte; /* 0: the rate has no limit */
    int64_t latency_ns;
    unsigned n_lanes; /* number of requests served at once; 0: any number */
    pthread_mutex_t lock;
    pthread_cond_t changed;                         /* signals the throttle's thread */
    pthread_cond_t released;                        /* wakes sleeping threads after a cancel */
    int64_t busy_until_ns;                          /* the rate is used up until this time; this and
                                                     * the members below are guarded by `lock` */
    int64_t lanes_until_ns[PSTI_STORAGE_LANES_MAX]; /* [lane]: time at which its last request is
                                                     * done */
    struct psti_read *head, *tail;                  /* held reads, sorted by deadline */
    bool closed, cancelled;
    bool has_thread;
    pthread_t thread;
};

static void line_main(void *arg)
{
    struct psti_storage_pace *pace = arg;
    pthread_mutex_lock(&pace->lock);
    while (pace->head != NULL || !pace->closed) {
        struct psti_read *read = pace->head;
        if (read == NULL) {
            pthread_cond_wait(&pace->changed, &pace->lock);
        } else if (!pace->cancelled && read->engine.deadline_ns > psti_clock_ns()) {
            (void)psti_cond_wait_until(&pace->changed, &pace->lock, read->engine.deadline_ns);
        } else {
            pace->head = read->next;
            if (pace->head == NULL)
                pace->tail = NULL;
            pthread_mutex_unlock(&pace->lock);
            read->done(read);
            pthread_mutex_lock(&pace->lock);
        }
    }
    pthread_mutex_unlock(&pace->lock);
}

void psti_storage_pace_hold(struct psti_storage_pace *pace, struct psti_read *read)
{
    pthread_mutex_lock(&pace->lock);
    if (pace->tail != NULL && pace->tail->engine.deadline_ns <= read->engine.deadline_ns) {
        /* Deadlines usually rise, so the read usually goes to the end of the queue. */
        read->next = NULL;
        pace->tail->next = read;
        pace->tail = read;
    } else {
        struct psti_read **at = &pace->head;
        while (*at != NULL && (*at)->engine.deadline_ns <= read->engine.deadline_ns)
            at = &(*at)->next;
        read->next = *at;
        *at = read;
        if (read->next == NULL)
            pace->tail = read;
        if (pace->head == read)
            pthread_cond_signal(&pace->changed);
    }
    pthread_mutex_unlock(&pace->lock);
}

void psti_storage_pace_wait(struct psti_storage_pace *pace, int64_t until_ns)
{
    pthread_mutex_lock(&pace->lock);
    while (!pace->cancelled && psti_clock_ns() < until_ns)
        (void)psti_cond_wait_until(&pace->released, &pace->lock, until_ns);
    pthread_mutex_unlock(&pace->lock);
}

void psti_storage_pace_cancel(struct psti_storage_pace *pace, bool cancelled)
{
    pthread_mutex_lock(&pace->lock);
    pace->cancelled = cancelled;
    int64_t now = psti_clock_ns();
    if (pace->busy_until_ns > now)
        pace->busy_until_ns = now;
    for (unsigned i = 0; i < pace->n_lanes; i++)
        if (pace->lanes_until_ns[i] > now)
            pace->lanes_until_ns[i] = now;
    pthread_cond_signal(&pace->changed);
    pthread_cond_broadcast(&pace->released);
    pthread_mutex_unlock(&pace->lock);
}

/* Reserves the rate for nbytes, from `now` on or as soon as it is free. Returns the end of the
 * reserved time. */
static int64_t take_rate(struct psti_storage_pace *pace, int64_t now, uint64_t nbytes)
{
    double cost = (double)nbytes * pace->ns_per_byte;
    int64_t cost_ns = (int64_t)(cost < COST_MAX_NS ? cost : COST_MAX_NS);
    int64_t start = now - BURST_NS;
    if (start < pace->busy_until_ns)
        start = pace->busy_until_ns;
    if (start > INT64_MAX / 4)
        start = INT64_MAX / 4;
    pace->busy_until_ns = start + cost_ns;
    return now < pace->busy_until_ns ? pace->busy_until_ns : now;
}

/* Reserves a lane, which serves one request at a time. The request waits for the lane, then for the
 * latency, then for its bytes; until then the lane is busy. */
static int64_t take_lane(struct psti_storage_pace *pace, int64_t now, uint64_t nbytes)
{
    int64_t *lane = pace->lanes_until_ns;
    for (unsigned i = 1; i < pace->n_lanes; i++)
        if (pace->lanes_until_ns[i] < *lane)
            lane = &pace->lanes_until_ns[i];
    int64_t start = now < *lane ? *lane : now;
    if (start > INT64_MAX / 4)
        start = INT64_MAX / 4;
    start += pace->latency_ns;
    if (pace->ns_per_byte > 0) {
        double cost = (double)nbytes * pace->ns_per_byte;
        int64_t cost_ns = (int64_t)(cost < COST_MAX_NS ? cost : COST_MAX_NS);
        if (start < pace->busy_until_ns)
            start = pace->busy_until_ns;
        start += cost_ns;
        pace->busy_until_ns = start;
    }
    *lane = start;
    return start;
}

int64_t psti_storage_pace_admit(struct psti_storage_pace *pace, int64_t now, uint64_t nbytes)
{
    int64_t until = now + pace->latency_ns;
    pthread_mutex_lock(&pace->lock);
    if (pace->n_lanes > 0)
        until = take_lane(pace, now, nbytes);
    else if (pace->ns_per_byte > 0)
        until = take_rate(pace, now, nbytes) + pace->latency_ns;
    pthread_mutex_unlock(&pace->lock);
    return until;
}

enum pst_status psti_storage_pace_open(double bytes_per_second, double latency_seconds,
                                       unsigned n_at_once, bool with_thread,
                                       struct psti_storage_pace **out, struct pst_error *err)
{
    struct psti_storage_pace *pace = psti_calloc(1, sizeof *pace);
    if (pace == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "storage", "no memory for the throttle");
    if (bytes_per_second > 0)
        pace->ns_per_byte = 1e9 / bytes_per_second;
    double latency_ns = latency_seconds * 1e9;
    pace->latency_ns = (int64_t)(latency_ns < COST_MAX_NS ? latency_ns : COST_MAX_NS);
    pace->n_lanes = n_at_once;
    pthread_mutex_init(&pace->lock, NULL);
    psti_cond_init(&pace->changed);
    psti_cond_init(&pace->released);
    if (with_thread) {
        enum pst_status status = psti_thread_start(&pace->thread, "pace", line_main, pace, err);
        if (status != PST_OK) {
            psti_storage_pace_close(&pace);
            return status;
        }
        pace->has_thread = true;
    }
    *out = pace;
    return PST_OK;
}

void psti_storage_pace_close(struct psti_storage_pace **pace)
{
    struct psti_storage_pace *p = *pace;
    if (p == NULL)
        return;
    *pace = NULL;
    if (p->has_thread) {
        pthread_mutex_lock(&p->lock);
        p->closed = true;
        pthread_cond_signal(&p->changed);
        pthread_mutex_unlock(&p->lock);
        psti_thread_join(p->thread);
    }
    pthread_cond_destroy(&p->released);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    psti_free(p);
}

uint64_t psti_storage_span(const struct psti_read *leader)
{
    const struct psti_read *last = leader;
    while (last->engine.joined != NULL)
        last = last->engine.joined;
    return last->offset + last->nbytes - leader->offset;
}

void psti_storage_admit(struct psti_storage *storage, struct psti_read *read, int64_t owed_ns)
{
    read->next = NULL;
    read->engine.deadline_ns = 0;
    if (storage->pace != NULL)
        read->engine.deadline_ns =
            psti_storage_pace_admit(storage->pace, psti_clock_ns() + owed_ns,
                                    read->engine.joined ? psti_storage_span(read) : read->nbytes);
}

void psti_storage_deliver(struct psti_storage *storage, struct psti_read *read)
{
    if (storage->pace != NULL)
        psti_storage_pace_hold(storage->pace, read);
    else
        read->done(read);
}
