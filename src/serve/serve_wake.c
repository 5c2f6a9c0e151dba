/* serve_wake.c - wakes the loop: watched sockets, posts of other threads, and the order to stop. */
#include "serve/serve_wake.h"

#include "serve/serve.h"

#include "base/fail.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

enum pst_status psti_serve_watch(pst_service *service, int fd, void *pointer, struct pst_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = pointer}};
    if (epoll_ctl(service->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return psti_fail_os(err, errno, "serve", NULL, -1, "cannot wait for a socket");
    return PST_OK;
}

void psti_serve_watch_room(pst_service *service, int fd, void *pointer, bool room)
{
    struct epoll_event event = {.events = EPOLLIN | (room ? EPOLLOUT : 0u),
                                .data = {.ptr = pointer}};
    (void)epoll_ctl(service->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

static void wake_loop(pst_service *service)
{
    const uint64_t one = 1;
    ssize_t n = write(service->event_fd, &one, sizeof one);
    (void)n; /* a write fails only if many wake-ups are pending already */
}

void psti_serve_post(pst_service *service, struct psti_post *post)
{
    post->next = NULL;
    pthread_mutex_lock(&service->lock);
    *service->posts_end = post;
    service->posts_end = &post->next;
    pthread_mutex_unlock(&service->lock);
    wake_loop(service);
}

void psti_serve_run_posts(pst_service *service)
{
    pthread_mutex_lock(&service->lock);
    struct psti_post *posts = service->posts;
    service->posts = NULL;
    service->posts_end = &service->posts;
    pthread_mutex_unlock(&service->lock);
    while (posts) {
        struct psti_post *post = posts;
        posts = post->next;
        post->run(post);
    }
}

void pst_service_stop(pst_service *service)
{
    atomic_store(&service->stopping, true);
    wake_loop(service);
}
