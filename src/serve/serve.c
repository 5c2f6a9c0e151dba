/* serve.c - opens and closes a service. */
#include "serve/serve.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/machine/memory_limit.h"
#include "base/options.h"
#include "base/thread.h"
#include "share/share_life.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LINGER_S 600
#define CACHE_NBYTES_DEFAULT ((uint64_t)1 << 30) /* used if the amount of free memory is not
                                                    known */

static void complete(struct pst_service_options *options)
{
    uint64_t available = psti_memory_available();
    if (options->cache_nbytes == 0)
        options->cache_nbytes = available == UINT64_MAX ? CACHE_NBYTES_DEFAULT : available / 2;
    if (options->n_threads == 0)
        options->n_threads = psti_thread_cores();
    if (options->linger_s == 0)
        options->linger_s = LINGER_S;
}

static enum pst_status open_loop(pst_service *service, struct pst_error *err)
{
    service->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    service->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    service->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (service->epoll_fd < 0 || service->event_fd < 0 || service->spare_fd < 0)
        return psti_fail_os(err, errno, "serve", NULL, -1, "no descriptors for the service");
    return psti_serve_watch(service, service->event_fd, service, err);
}

static enum pst_status begin_kinds(pst_service *service, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (const struct psti_session_ops *const *at = service->kinds; *at && status == PST_OK; at++)
        if ((*at)->begin)
            status = (*at)->begin(service, err);
    return status;
}

/* Ends the kinds of sessions in reverse order, because groups of jobs use the cache. */
static void end_kinds(pst_service *service)
{
    const struct psti_session_ops *const *at = service->kinds;
    while (*at)
        at++;
    while (at-- != service->kinds)
        if ((*at)->end)
            (*at)->end(service);
}

/* Opens everything except the socket. The calling thread runs on the service's NUMA node meanwhile,
 * so that the threads that it starts inherit the node. */
static enum pst_status open_parts(pst_service *service, struct pst_error *err)
{
    struct psti_numa_before before;
    psti_numa_enter(&service->numa, &before);
    service->numa_memory = before.has_memory;
    complete(&service->options);
    enum pst_status status = open_loop(service, err);
    if (status == PST_OK)
        status = begin_kinds(service, err);
    if (status == PST_OK)
        status = psti_serve_work_open(service, err);
    psti_numa_leave(&before);
    return status;
}

static void tell_place(const pst_service *service)
{
    if (service->numa.node >= 0 && !service->numa_memory)
        psti_log(PST_LOG_WARNING, "serve",
                 "the system does not let the service choose where its memory comes from: only its "
                 "threads are on NUMA node %d",
                 service->numa.node);
}

static void tell_life(const char *root)
{
    const char *ends_with = psti_share_ends_with(root, 0);
    if (ends_with)
        psti_log(PST_LOG_WARNING, "serve",
                 "the service is in the control group of %s, and will be ended with it: start it "
                 "by systemd, or outside, if it is to outlive that",
                 ends_with);
}

enum pst_status psti_serve_open_below(const char *root, const struct pst_service_options *options,
                                      pst_service **out, struct pst_error *err)
{
    *out = NULL;
    pst_service *service = psti_calloc(1, sizeof *service);
    if (!service)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a service");
    service->kinds = psti_serve_ops;
    service->lock_fd = service->listen_fd = service->epoll_fd = service->event_fd = -1;
    service->spare_fd = -1;
    service->posts_end = &service->posts;
    service->lanes_end = &service->lanes;
    psti_serve_lane_open(&service->control);
    for (uint32_t i = 0; i < PSTI_SERVE_CLOSING_LANES; i++)
        psti_serve_lane_open(&service->closing[i]);
    service->numa.node = -1;
    pthread_mutex_init(&service->lock, NULL);
    pthread_cond_init(&service->has_work, NULL);
    enum pst_status status =
        psti_options_copy(&service->options, sizeof service->options, options, "serve", err);
    if (status == PST_OK)
        status = psti_share_socket_path(service->options.socket, service->path, err);
    /* A client that starts the service also passes the standard path. Its directory is created. */
    service->path_is_given = !psti_share_is_standard_path(service->path);
    if (status == PST_OK && service->options.numa)
        status = psti_numa_choose(root, service->options.numa, &service->numa, err);
    service->options.socket = service->options.numa = NULL;
    if (status == PST_OK)
        status = open_parts(service, err);
    if (status == PST_OK)
        status = psti_serve_bind(service, err);
    service->start_ns = psti_clock_ns();
    if (status != PST_OK) {
        pst_service_close(&service);
        return status;
    }
    tell_place(service);
    tell_life(root);
    *out = service;
    return PST_OK;
}

enum pst_status pst_service_open(const struct pst_service_options *options, pst_service **out,
                                 struct pst_error *err)
{
    if (!out)
        return psti_fail(err, PST_ERROR_ARGUMENT, "serve", "out is NULL");
    return psti_serve_open_below("", options, out, err);
}

const char *pst_service_socket(const pst_service *service) { return service->path; }

void pst_service_close(pst_service **service_ptr)
{
    pst_service *service = service_ptr ? *service_ptr : NULL;
    if (!service)
        return;
    *service_ptr = NULL;
    atomic_store(&service->stopping, true);
    psti_serve_unbind(service); /* first, to avoid new connections */
    while (service->sessions)
        psti_serve_session_end(service->sessions);
    psti_serve_work_close(service);
    psti_serve_run_posts(service);
    end_kinds(service);
    if (service->spare_fd >= 0)
        close(service->spare_fd);
    if (service->event_fd >= 0)
        close(service->event_fd);
    if (service->epoll_fd >= 0)
        close(service->epoll_fd);
    pthread_cond_destroy(&service->has_work);
    pthread_mutex_destroy(&service->lock);
    psti_free(service);
}
