/* serve_work.c - the service's worker threads, and the work that they do.
 *
 * Work waits in lanes, one for each data set. Workers take the first work of each lane in turn.
 * There is one worker more than the service may use cores, and a lane may use all workers but one.
 * So one data set can use all cores, and one whose storage does not respond leaves a worker to the
 * others. A worker that has been busy for some seconds is not counted: another one is started in
 * its place, and ends when there are too many. When items are re-coded later, workers are added for
 * that lane, so that reads always find free ones. */
#include "serve/serve.h"

#include "base/alloc.h"
#include "base/codings/codings.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"
#include "decode/decode.h"

#include <errno.h>

#define LONG_NS ((int64_t)2 * 1000 * 1000 * 1000)
#define SPARE_MAX 64u /* maximum number of workers that replace blocked workers */

void psti_serve_lane_open(struct psti_lane *lane)
{
    *lane = (struct psti_lane){.last = &lane->first};
}

/* Adds the lane to the list for workers, if it has work that may begin. The lock is held. */
static void list(pst_service *service, struct psti_lane *lane)
{
    if (lane->listed || !lane->first || lane->n_running >= service->options.n_threads)
        return;
    lane->listed = true;
    lane->next = NULL;
    *service->lanes_end = lane;
    service->lanes_end = &lane->next;
    pthread_cond_signal(&service->has_work);
}

/* Takes the first work of the first lane, or returns NULL. The lock is held. */
static struct psti_work *take_first(pst_service *service)
{
    struct psti_lane *lane = service->lanes;
    if (!lane)
        return NULL;
    struct psti_work *work = lane->first;
    service->lanes = lane->next;
    if (!service->lanes)
        service->lanes_end = &service->lanes;
    lane->listed = false;
    lane->first = work->next;
    if (!lane->first)
        lane->last = &lane->first;
    lane->n_waiting--;
    lane->n_running++;
    lane->moved_ns = psti_clock_ns();
    list(service, lane); /* after the other lanes, so that they take turns */
    return work;
}

/* Waits for the worker's next work. NULL: the worker must end. */
static struct psti_work *take(struct psti_worker *worker)
{
    pst_service *service = worker->service;
    struct psti_work *work = NULL;
    pthread_mutex_lock(&service->lock);
    while (service->n_workers <= service->n_workers_wanted && !(work = take_first(service)) &&
           !service->ending)
        pthread_cond_wait(&service->has_work, &service->lock);
    worker->work = work;
    worker->began_ns = psti_clock_ns();
    if (!work) {
        worker->ended = true;
        service->n_workers--;
    }
    pthread_mutex_unlock(&service->lock);
    return work;
}

/* Hands the finished work to the loop, which may free the lane at once, so the lane is updated
 * first. */
static void give_back(struct psti_worker *worker, struct psti_work *work)
{
    pst_service *service = worker->service;
    pthread_mutex_lock(&service->lock);
    worker->work = NULL;
    work->lane->n_running--;
    work->lane->moved_ns = psti_clock_ns();
    list(service, work->lane);
    pthread_mutex_unlock(&service->lock);
    psti_serve_post(service, &work->post);
}

static void run(void *arg)
{
    struct psti_worker *worker = arg;
    struct psti_work *work;
    while ((work = take(worker)) != NULL) {
        work->run(work, worker);
        give_back(worker, work);
    }
    psti_buffer_free(&worker->bytes);
    psti_buffer_free(&worker->decoded);
    psti_buffer_free(&worker->recoded);
    psti_decode_close(&worker->decoder);
    psti_codings_close(&worker->codings);
}

static enum pst_status start_worker(pst_service *service, struct pst_error *err)
{
    struct psti_worker *worker = psti_calloc(1, sizeof *worker);
    if (!worker)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a thread");
    worker->service = service;
    pthread_mutex_lock(&service->lock);
    service->n_workers++;
    pthread_mutex_unlock(&service->lock);
    enum pst_status status = psti_thread_start(&worker->thread, "serve", run, worker, err);
    if (status != PST_OK) {
        pthread_mutex_lock(&service->lock);
        service->n_workers--;
        pthread_mutex_unlock(&service->lock);
        psti_free(worker);
        return status;
    }
    worker->next = service->workers;
    service->workers = worker;
    return PST_OK;
}

enum pst_status psti_serve_work_open(pst_service *service, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    service->n_workers_wanted = service->options.n_threads + 1;
    for (uint32_t i = 0; status == PST_OK && i <= service->options.n_threads; i++)
        status = start_worker(service, err);
    return status;
}

void psti_serve_work_close(pst_service *service)
{
    pthread_mutex_lock(&service->lock);
    service->ending = true;
    pthread_cond_broadcast(&service->has_work);
    pthread_mutex_unlock(&service->lock);
    while (service->workers) {
        struct psti_worker *worker = service->workers;
        service->workers = worker->next;
        psti_thread_join(worker->thread);
        psti_free(worker);
    }
}

bool psti_serve_submit(pst_service *service, struct psti_lane *lane, struct psti_work *work)
{
    pthread_mutex_lock(&service->lock);
    bool fits = lane->n_waiting < PSTI_SERVE_LANE_MAX;
    if (fits) {
        if (lane->n_waiting + lane->n_running == 0)
            lane->moved_ns = psti_clock_ns();
        work->next = NULL;
        work->lane = lane;
        *lane->last = work;
        lane->last = &work->next;
        lane->n_waiting++;
        list(service, lane);
    }
    pthread_mutex_unlock(&service->lock);
    return fits;
}

enum pst_status psti_serve_fail_opening(struct pst_error *err)
{
    return psti_fail_os(err, ETIMEDOUT, "serve", NULL, -1,
                        "the host service has tried to open the data set for %d seconds: its "
                        "storage may stand still",
                        (int)(PSTI_SERVE_OPENING_NS / 1000000000));
}

int64_t psti_serve_lane_still_ns(pst_service *service, const struct psti_lane *lane, int64_t now)
{
    pthread_mutex_lock(&service->lock);
    int64_t still = lane->n_waiting + lane->n_running > 0 ? now - lane->moved_ns : 0;
    pthread_mutex_unlock(&service->lock);
    return still;
}

/* Joins the threads of workers that have ended, or are about to. */
static void join_ended(pst_service *service)
{
    for (struct psti_worker **at = &service->workers; *at;) {
        struct psti_worker *worker = *at;
        pthread_mutex_lock(&service->lock);
        bool ended = worker->ended;
        pthread_mutex_unlock(&service->lock);
        if (!ended) {
            at = &worker->next;
            continue;
        }
        *at = worker->next;
        psti_thread_join(worker->thread);
        psti_free(worker);
    }
}

/* Starts missing workers, and makes surplus ones end. */
static void adjust(pst_service *service)
{
    uint32_t n_missing = 0;
    pthread_mutex_lock(&service->lock);
    service->n_workers_wanted = service->options.n_threads + 1 + service->n_more + service->n_long;
    if (service->n_workers < service->n_workers_wanted)
        n_missing = service->n_workers_wanted - service->n_workers;
    else if (service->n_workers > service->n_workers_wanted)
        pthread_cond_broadcast(&service->has_work);
    pthread_mutex_unlock(&service->lock);
    while (n_missing > 0 && start_worker(service, NULL) == PST_OK)
        n_missing--;
}

void psti_serve_work_widen(pst_service *service)
{
    if (service->n_more > 0)
        return;
    service->n_more = service->options.n_threads;
    adjust(service);
}

void psti_serve_work_tick(pst_service *service, int64_t now)
{
    uint32_t n_long = 0;
    for (struct psti_worker *worker = service->workers; worker; worker = worker->next) {
        pthread_mutex_lock(&service->lock);
        struct psti_work *work = worker->work; /* stays valid until the loop runs its post */
        int64_t age_ns = now - worker->began_ns;
        pthread_mutex_unlock(&service->lock);
        n_long += work && age_ns > LONG_NS;
        if (work && work->touch)
            work->touch(work, age_ns);
    }
    service->n_long = n_long < SPARE_MAX ? n_long : SPARE_MAX;
    adjust(service);
    join_ended(service);
}
