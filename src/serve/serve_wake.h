/* serve_wake.h - wakes the loop: watched sockets, posts of other threads, and the order to stop
 * (pst_service_stop). */
#ifndef PST_SERVE_SERVE_WAKE_H
#define PST_SERVE_SERVE_WAKE_H

#include <penstock/service.h>

#include <stdbool.h>

/* Work for the loop's thread. */
struct psti_post {
    struct psti_post *next;
    void (*run)(struct psti_post *post); /* the function takes ownership of `post` */
};

/* Runs post->run(post) on the loop's thread, soon. Any thread. Posts made after the end of the loop
 * are run by pst_service_close. */
void psti_serve_post(pst_service *service, struct psti_post *post);
void psti_serve_run_posts(pst_service *service);
/* Makes the loop watch a socket. Its events carry `pointer`. */
enum pst_status psti_serve_watch(pst_service *service, int fd, void *pointer,
                                 struct pst_error *err);
void psti_serve_watch_room(pst_service *service, int fd, void *pointer, bool room);

#endif
