/* serve_work.c - the service's threads, and the work that they do in the order in which it came. */
#include "serve/serve.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/thread.h"
#include "decode/decode.h"

static struct psti_work *take(pst_service *service)
{
    pthread_mutex_lock(&service->lock);
    while (!service->work && !service->ending)
        pthread_cond_wait(&service->has_work, &service->lock);
    struct psti_work *work = service->work;
    if (work) {
        service->work = work->next;
        if (!service->work)
            service->work_end = &service->work;
    }
    pthread_mutex_unlock(&service->lock);
    return work;
}

static void run(void *arg)
{
    struct psti_worker *worker = arg;
    struct psti_work *work;
    while ((work = take(worker->service)) != NULL)
        work->run(work, worker);
    psti_buffer_free(&worker->bytes);
    psti_buffer_free(&worker->recoded);
    psti_decode_close(&worker->decoder);
}

enum pst_status psti_serve_work_open(pst_service *service, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    service->workers = psti_calloc(service->options.n_threads, sizeof *service->workers);
    if (!service->workers)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for %u threads",
                         service->options.n_threads);
    while (status == PST_OK && service->n_workers < service->options.n_threads) {
        struct psti_worker *worker = &service->workers[service->n_workers];
        worker->service = service;
        status = psti_thread_start(&worker->thread, "serve", run, worker, err);
        service->n_workers += status == PST_OK;
    }
    return status;
}

void psti_serve_work_close(pst_service *service)
{
    pthread_mutex_lock(&service->lock);
    service->ending = true;
    pthread_cond_broadcast(&service->has_work);
    pthread_mutex_unlock(&service->lock);
    for (uint32_t i = 0; i < service->n_workers; i++)
        psti_thread_join(service->workers[i].thread);
    psti_free(service->workers);
    service->workers = NULL;
    service->n_workers = 0;
}

void psti_serve_submit(pst_service *service, struct psti_work *work)
{
    work->next = NULL;
    pthread_mutex_lock(&service->lock);
    *service->work_end = work;
    service->work_end = &work->next;
    pthread_cond_signal(&service->has_work);
    pthread_mutex_unlock(&service->lock);
}
