/* serve.h - the service, its sessions, and how kinds of sessions are added.
 *
 * One thread, that of pst_service_run, owns all sessions: only it receives, sends, opens and closes
 * them, so sessions need no locks. It never waits for a client, for storage, or for another thread
 * that may. Other threads hand it their results by psti_serve_post. Each kind of session is a table
 * of operations in a file of its own. */
#ifndef PST_SERVE_SERVE_H
#define PST_SERVE_SERVE_H

#include "base/buffer.h"
#include "base/machine/numa.h"
#include "serve/serve_wake.h"
#include "share/share_link.h"

#include <penstock/cache.h>
#include <penstock/dataset.h>
#include <penstock/service.h>

#include <pthread.h>
#include <stdatomic.h>

enum {
    PSTI_SERVE_KINDS = 4,               /* enum psti_session_kind, and 0 */
    PSTI_SERVE_OUTBOX_NBYTES = 1 << 20, /* what may wait for a client that does not receive, */
    PSTI_SERVE_OUTBOX_FDS = 64,         /* and descriptors with it */
    PSTI_SERVE_SESSIONS_MAX = 1024,
    PSTI_SERVE_LANE_MAX = 16384, /* work that may wait in one lane */
    PSTI_SERVE_CLOSING_LANES = 16
};

struct psti_packet;
struct psti_decoder;

struct psti_session {
    struct psti_session *next;
    pst_service *service;
    const struct psti_session_ops *ops; /* NULL before the greeting */
    void *state;                        /* of the kind of session */
    int fd;
    pid_t pid; /* of the client; 0 if it is in another PID namespace */
    /* Becomes readable when the client's process ends, though a forked child of it may have a copy
     * of the socket. -1: the kernel has none (before Linux 5.3), or the process is not known. */
    int process_fd;
    uint64_t number;
    int64_t since_ns; /* when it began */
    /* When something was sent last. A client whose wait goes on hears from the service every
     * second or so. */
    int64_t sent_ns;
    bool ending; /* it is closed as soon as the loop comes back to it */
    bool served; /* work that it waits for runs (struct psti_work) */
    bool gone;   /* the client's process has ended */
    bool left;   /* the client has ended the session, or its process did */
    /* Packets that the socket had no room for, the oldest first. */
    struct psti_packet *outbox, *outbox_last;
    size_t outbox_nbytes;
    uint32_t outbox_fds;
    int64_t outbox_ns; /* when the first one came to wait, or one went out */
};

/* A kind of session. All but `begin`, `end` run on the loop's thread. */
struct psti_session_ops {
    enum psti_session_kind kind;
    const char *name;
    /* Makes and frees what all sessions of the kind share: service->parts[kind]. NULL: nothing.
     * `end` is called when no session is left, also if `begin` failed or was never called. */
    enum pst_status (*begin)(pst_service *service, struct pst_error *err);
    void (*end)(pst_service *service);
    /* The client has greeted. */
    enum pst_status (*open)(struct psti_session *session, struct pst_error *err);
    /* A message came. What is left of its descriptors is closed afterwards. An error is sent to the
     * client and ends the session. A request that fails without that is answered by
     * psti_serve_session_send_error. */
    enum pst_status (*message)(struct psti_session *session, struct psti_message *message,
                               struct pst_error *err);
    /* True while the client waits for work of the service: it is told that the service lives. */
    bool (*works)(const struct psti_session *session);
    /* Once a second, for all sessions of the kind. NULL: nothing. */
    void (*tick)(pst_service *service);
    /* The session ends, for whatever reason: gives back all that it holds. Also called after a
     * failed `open`. */
    void (*close)(struct psti_session *session);
};
extern const struct psti_session_ops *const psti_serve_ops[]; /* ends with NULL (serve_kinds.c) */
extern const struct psti_session_ops psti_serve_control, psti_serve_cache, psti_serve_share;

/* Work that may take long, for the service's threads (serve_work.c). */
struct psti_worker {
    struct psti_worker *next;
    pst_service *service;
    pthread_t thread;
    struct psti_buffer bytes, decoded, recoded;
    struct psti_decoder *decoder; /* NULL until it is needed */
    struct psti_codings *codings; /* NULL until it is needed */
    /* Guarded by the service's lock: */
    struct psti_work *work; /* what it does; NULL: nothing */
    int64_t began_ns;
    bool ended;
};
struct psti_work {
    struct psti_work *next;
    struct psti_lane *lane;
    void (*run)(struct psti_work *work, struct psti_worker *worker);
    /* Called once a second while it runs, on the loop's thread: who waits for it is marked as
     * served. */
    void (*touch)(struct psti_work *work, int64_t age_ns);
    struct psti_post post; /* run on the loop's thread afterwards */
};

/* A queue of work. Each data set has its own, so that storage which stands still holds no more than
 * a part of the threads, and nobody else's work waits behind. It ends when it is empty. */
struct psti_lane {
    struct psti_lane *next; /* lanes with work that may begin */
    struct psti_work *first, **last;
    uint32_t n_waiting, n_running;
    bool listed;
    int64_t moved_ns; /* when work of it began or ended last, or came while it had none */
};

/* A data set that clients have sent to the service. */
struct psti_serve_data {
    struct psti_work closing;
    pst_dataset *dataset; /* NULL: it is not open */
    int fds[PSTI_MESSAGE_FDS];
    uint32_t n_fds;
};

struct pst_service {
    struct pst_service_options options; /* complete; socket and numa are NULL */
    char path[PSTI_SOCKET_PATH_CAP];
    bool path_is_given;
    int lock_fd, listen_fd, epoll_fd, event_fd;
    int spare_fd; /* given up for a moment, to tell a client that there is no other */
    uint64_t socket_inode, socket_device;
    int64_t start_ns;
    struct psti_numa_place numa;
    bool numa_memory;                            /* memory comes from its node */
    const struct psti_session_ops *const *kinds; /* of sessions; ends with NULL */
    atomic_bool stopping;

    /* Of the loop's thread: */
    struct psti_session *sessions;
    uint32_t n_sessions;
    uint64_t n_sessions_ever;
    int64_t idle_ns; /* since when there has been no client */
    struct psti_message message;
    uint8_t out[PSTI_MESSAGE_NBYTES]; /* for answers */
    void *parts[PSTI_SERVE_KINDS];

    struct psti_worker *workers;
    struct psti_lane control;                           /* requests of sessions of control */
    struct psti_lane closing[PSTI_SERVE_CLOSING_LANES]; /* data sets that are closed */

    pthread_mutex_t lock; /* guards the lists of posts and of lanes, and the rest */
    struct psti_post *posts, **posts_end;
    struct psti_lane *lanes, **lanes_end; /* those whose first work may begin */
    pthread_cond_t has_work;              /* or `ending`, or there are too many workers */
    bool ending;                          /* work that is left is run, and then the workers end */
    uint32_t n_workers, n_workers_wanted;
    uint32_t n_more, n_long; /* of these: for re-coding; for busy ones. Of the loop's thread */
};

/* serve.c: as pst_service_open; `root` goes before /proc and /sys where the machine's NUMA nodes
 * and control groups are looked for, for tests. */
enum pst_status psti_serve_open_below(const char *root, const struct pst_service_options *options,
                                      pst_service **out, struct pst_error *err);

/* True if the client has greeted, for a session of that kind. */
static inline bool psti_serve_session_is(const struct psti_session *session,
                                         enum psti_session_kind kind)
{
    return session->ops && session->ops->kind == kind;
}

/* serve_session.c */
/* Begins a session on an accepted socket, which it owns from then on. */
enum pst_status psti_serve_session_begin(pst_service *service, int fd, struct pst_error *err);
/* Called when the session's socket has data to read, or room to write. */
void psti_serve_session_wake(struct psti_session *session, uint32_t events);
/* Converts between a session and the pointer with which its process_fd is watched. */
void *psti_serve_session_process(struct psti_session *session);
struct psti_session *psti_serve_session_of_process(void *pointer);
/* Ends the session and frees it. */
void psti_serve_session_end(struct psti_session *session);
/* Begins an answer in service->out. */
struct psti_wire_out psti_serve_session_answer(struct psti_session *session);
/* Sends a message begun by psti_serve_session_answer, with copies of the descriptors. It goes out
 * now, or when the client receives again. A client that lets too much wait is dropped: the session
 * ends soon. */
void psti_serve_session_send(struct psti_session *session, struct psti_wire_out *out,
                             enum psti_message_kind kind, uint64_t id, const int *fds,
                             uint32_t n_fds);
void psti_serve_session_send_error(struct psti_session *session, uint64_t id,
                                   const struct pst_error *err);
/* Tells the client that the service has no descriptor for its session, and closes `fd`. */
void psti_serve_session_refuse(pst_service *service, int fd);
/* Once a second: drops a client that does not greet, or does not receive. */
void psti_serve_session_check(struct psti_session *session, int64_t now_ns);
/* Sends PSTI_MESSAGE_ALIVE if the client waits and has heard nothing for a second. */
void psti_serve_session_keep_alive(struct psti_session *session, int64_t now_ns);
/* True if clients of this kind keep the service from ending. */
bool psti_serve_session_is_client(const struct psti_session *session);

/* serve_work.c */
enum pst_status psti_serve_work_open(pst_service *service, struct pst_error *err);
/* Waits for all work that was submitted. */
void psti_serve_work_close(pst_service *service);
void psti_serve_lane_open(struct psti_lane *lane);
/* Runs work->run(work, worker) on one of the workers, after the lane's earlier work has begun, and
 * then work->post on the loop's thread. False: too much waits in the lane. The loop's thread. */
bool psti_serve_submit(pst_service *service, struct psti_lane *lane, struct psti_work *work);
/* There is a lane of work beside reads now, which gets workers of its own, as many as the service
 * may use cores. The loop's thread; may be called again. */
void psti_serve_work_widen(pst_service *service);
/* For how long nothing of the lane's work has begun or ended; 0 if it has none. */
int64_t psti_serve_lane_still_ns(pst_service *service, const struct psti_lane *lane, int64_t now);
/* A data set may take so long to open: large folders do. */
#define PSTI_SERVE_OPENING_NS ((int64_t)60 * 1000 * 1000 * 1000)
/* The error of a data set that takes longer. */
enum pst_status psti_serve_fail_opening(struct pst_error *err);
/* Once a second: calls `touch` of all work that runs, and replaces workers that have been busy for
 * long. */
void psti_serve_work_tick(pst_service *service, int64_t now);

/* serve_data.c: on the loop's thread, but for opening data->dataset. */
/* Makes an object that owns the message's descriptors from number `first` on. NULL: there is no
 * memory, and the message keeps them. */
struct psti_serve_data *psti_serve_data_new(struct psti_message *message, uint32_t first);
/* Lets a worker close the data set and the descriptors, and frees *data; NULL: nothing. identity:
 * that of the data set, which chooses a lane; NULL: it is not known. */
void psti_serve_data_close(pst_service *service, struct psti_serve_data **data,
                           const uint8_t *identity);
/* Lets a worker close the descriptors that nobody has taken out of the message. */
void psti_serve_message_close(pst_service *service, struct psti_message *message);

/* serve_socket.c */
/* Takes the lock, and makes the socket. */
enum pst_status psti_serve_bind(pst_service *service, struct pst_error *err);
/* Makes the socket again if its name is no longer there. */
enum pst_status psti_serve_bind_again(pst_service *service, struct pst_error *err);
void psti_serve_unbind(pst_service *service);

/* serve_cache.c: the cache itself, for loaders of the service; sessions keep it. May be NULL. */
pst_cache *psti_serve_host_cache(const pst_service *service);

#endif
