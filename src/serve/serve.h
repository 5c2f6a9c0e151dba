/* serve.h - the service and its sessions. Each kind of session is a table of operations in a file
 * of its own.
 *
 * One thread, which runs pst_service_run (the loop), owns all sessions: only it receives, sends,
 * opens and closes them, so sessions need no locks. It never waits for a client, for storage, or
 * for another thread that may wait for these. Other threads hand it their results by
 * psti_serve_post. */
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
    PSTI_SERVE_KINDS = 4,               /* length of arrays by enum psti_session_kind, which
                                           begins at 1 */
    PSTI_SERVE_OUTBOX_NBYTES = 1 << 20, /* bytes that may wait for a client that does not receive */
    PSTI_SERVE_OUTBOX_FDS = 64,         /* number of descriptors that may wait for a client that
                                           does not receive */
    PSTI_SERVE_SESSIONS_MAX = 1024,
    PSTI_SERVE_LANE_MAX = 16384, /* pieces of work that may wait in one lane */
    PSTI_SERVE_CLOSING_LANES = 16
};

struct psti_packet;
struct psti_decoder;

struct psti_session {
    struct psti_session *next;
    pst_service *service;
    const struct psti_session_ops *ops; /* NULL until the client has greeted */
    void *state;                        /* data of the kind of session */
    int fd;
    pid_t pid; /* process of the client; 0: it is in another PID namespace */
    /* Becomes readable when the client's process ends, even if a forked child still has a copy of
     * the socket. -1: the kernel lacks this (before Linux 5.3), or the process is not known. */
    int process_fd;
    uint64_t number;
    int64_t since_ns; /* time at which the session began */
    /* Time at which something was sent last. A waiting client gets a message about every second. */
    int64_t sent_ns;
    bool ending; /* the loop closes the session soon */
    bool served; /* work that the client waits for is running (struct psti_work) */
    bool gone;   /* the client's process has ended */
    bool left;   /* the client has ended the session, or its process did */
    /* Packets that the socket had no space for, the oldest first. */
    struct psti_packet *outbox, *outbox_last;
    size_t outbox_nbytes;
    uint32_t outbox_fds;
    int64_t outbox_ns; /* time at which the first packet began to wait, or one was last sent */
};

/* Operations of a kind of session. All except `begin` and `end` run on the loop's thread. */
struct psti_session_ops {
    enum psti_session_kind kind;
    const char *name;
    /* Create and free what all sessions of the kind share: service->parts[kind]. NULL: nothing is
     * shared. `end` is called when no session is left, also if `begin` failed or was never
     * called. */
    enum pst_status (*begin)(pst_service *service, struct pst_error *err);
    void (*end)(pst_service *service);
    /* Called when the client has greeted. */
    enum pst_status (*open)(struct psti_session *session, struct pst_error *err);
    /* Called for each message. Descriptors that it leaves in the message are closed afterwards. An
     * error is sent to the client and ends the session. To report a failed request without ending
     * the session, use psti_serve_session_send_error. */
    enum pst_status (*message)(struct psti_session *session, struct psti_message *message,
                               struct pst_error *err);
    /* True while the client waits for work of the service. It then gets messages that the service
     * lives. */
    bool (*works)(const struct psti_session *session);
    /* Called once a second, for all sessions of the kind together. NULL: nothing to do. */
    void (*tick)(pst_service *service);
    /* Called when the session ends for any reason: gives back all that it holds. Also called after
     * a failed `open`. */
    void (*close)(struct psti_session *session);
};
extern const struct psti_session_ops *const psti_serve_ops[]; /* all kinds of sessions; the list
                                                                 ends with NULL (serve_kinds.c) */
extern const struct psti_session_ops psti_serve_control, psti_serve_cache, psti_serve_share;

/* A thread of the service, for work that may take long (serve_work.c). */
struct psti_worker {
    struct psti_worker *next;
    pst_service *service;
    pthread_t thread;
    struct psti_buffer bytes, decoded, recoded;
    struct psti_decoder *decoder; /* opened when it is first needed; NULL before */
    struct psti_codings *codings; /* opened when they are first needed; NULL before */
    /* The service's lock guards these members: */
    struct psti_work *work; /* the work that it does now; NULL: none */
    int64_t began_ns;
    bool ended;
};
struct psti_work {
    struct psti_work *next;
    struct psti_lane *lane;
    void (*run)(struct psti_work *work, struct psti_worker *worker);
    /* Called once a second on the loop's thread while the work runs: marks the sessions that wait
     * for it as served. */
    void (*touch)(struct psti_work *work, int64_t age_ns);
    struct psti_post post; /* handed to the loop's thread after the work */
};

/* A queue of work. Each data set has its own lane. So storage that does not respond blocks only
 * some of the threads, and work for other data sets does not wait behind it. A lane needs no
 * closing: it may be freed when it is empty. */
struct psti_lane {
    struct psti_lane *next; /* next lane in the list of lanes with work that may begin */
    struct psti_work *first, **last;
    uint32_t n_waiting, n_running;
    bool listed;
    int64_t moved_ns; /* time when work in the lane last began or ended, or arrived in the empty
                         lane */
};

/* A data set whose descriptors a client has sent to the service. */
struct psti_serve_data {
    struct psti_work closing;
    pst_dataset *dataset; /* NULL: the data set is not open */
    int fds[PSTI_MESSAGE_FDS];
    uint32_t n_fds;
};

struct pst_service {
    struct pst_service_options options; /* complete, but socket and numa are NULL */
    char path[PSTI_SOCKET_PATH_CAP];
    bool path_is_given;
    int lock_fd, listen_fd, epoll_fd, event_fd;
    int spare_fd; /* closed for a moment to accept and refuse a client if no other descriptor is
                     free */
    uint64_t socket_inode, socket_device;
    int64_t start_ns;
    struct psti_numa_place numa;
    bool numa_memory;                            /* memory is allocated on the node of `numa` */
    const struct psti_session_ops *const *kinds; /* kinds of sessions; the list ends with NULL */
    atomic_bool stopping;

    /* Members that only the loop's thread uses: */
    struct psti_session *sessions;
    uint32_t n_sessions;
    uint64_t n_sessions_ever;
    int64_t idle_ns; /* time since which there has been no client */
    struct psti_message message;
    uint8_t out[PSTI_MESSAGE_NBYTES]; /* buffer for answers */
    void *parts[PSTI_SERVE_KINDS];

    struct psti_worker *workers;
    struct psti_lane control;                           /* requests of control sessions */
    struct psti_lane closing[PSTI_SERVE_CLOSING_LANES]; /* lanes for closing data sets */

    pthread_mutex_t lock; /* guards the lists of posts and lanes, and the members below */
    struct psti_post *posts, **posts_end;
    struct psti_lane *lanes, **lanes_end; /* lanes whose first work may begin */
    pthread_cond_t has_work;              /* signalled if there is work, `ending` is set or there
                                             are too many workers */
    bool ending;                          /* workers run the remaining work, and then end */
    uint32_t n_workers, n_workers_wanted;
    uint32_t n_more, n_long; /* workers in n_workers_wanted: n_more for re-coding, n_long in
                                place of busy ones; only the loop's thread uses them */
};

/* serve.c: like pst_service_open. For tests, `root` is put before the paths below /proc and /sys
 * where the machine's NUMA nodes and control groups are looked up. */
enum pst_status psti_serve_open_below(const char *root, const struct pst_service_options *options,
                                      pst_service **out, struct pst_error *err);

/* True if the client has greeted, and its session is of that kind. */
static inline bool psti_serve_session_is(const struct psti_session *session,
                                         enum psti_session_kind kind)
{
    return session->ops && session->ops->kind == kind;
}

/* serve_session.c */
/* Begins a session on an accepted socket, which it owns from then on. */
enum pst_status psti_serve_session_begin(pst_service *service, int fd, struct pst_error *err);
/* Called when the session's socket can be read or written. */
void psti_serve_session_wake(struct psti_session *session, uint32_t events);
/* Convert between a session and the pointer under which epoll watches its process_fd. */
void *psti_serve_session_process(struct psti_session *session);
struct psti_session *psti_serve_session_of_process(void *pointer);
/* Ends the session and frees it. */
void psti_serve_session_end(struct psti_session *session);
/* Begins an answer to the client in service->out. */
struct psti_wire_out psti_serve_session_answer(struct psti_session *session);
/* Sends a message begun by psti_serve_session_answer, with copies of the descriptors. If the client
 * does not receive now, the message waits. A client for which too much waits is dropped: its
 * session ends soon. */
void psti_serve_session_send(struct psti_session *session, struct psti_wire_out *out,
                             enum psti_message_kind kind, uint64_t id, const int *fds,
                             uint32_t n_fds);
void psti_serve_session_send_error(struct psti_session *session, uint64_t id,
                                   const struct pst_error *err);
/* Tells a client that the service has no free descriptor for its session, and closes `fd`. */
void psti_serve_session_refuse(pst_service *service, int fd);
/* Called once a second: drops a client that does not greet or does not receive. */
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
/* Runs work->run(work, worker) on a worker, after the lane's earlier work has begun, and then
 * work->post on the loop's thread. False: too much work waits in the lane. Called on the loop's
 * thread. */
bool psti_serve_submit(pst_service *service, struct psti_lane *lane, struct psti_work *work);
/* Adds workers for a lane of work besides reads (re-coding), as many as cores the service may use.
 * Called on the loop's thread; further calls do nothing. */
void psti_serve_work_widen(pst_service *service);
/* Returns the ns since the lane's work last began or ended; 0 if it has no work. */
int64_t psti_serve_lane_still_ns(pst_service *service, const struct psti_lane *lane, int64_t now);
/* Time that opening a data set may take. Large folders take long. */
#define PSTI_SERVE_OPENING_NS ((int64_t)60 * 1000 * 1000 * 1000)
/* Fills in the error for a data set whose opening takes longer. */
enum pst_status psti_serve_fail_opening(struct pst_error *err);
/* Called once a second: calls `touch` for all running work, and starts workers in place of those
 * that have been busy for long. */
void psti_serve_work_tick(pst_service *service, int64_t now);

/* serve_data.c: these functions run on the loop's thread. Only data->dataset is opened on a
 * worker. */
/* Makes an object that owns the message's descriptors from number `first` on. NULL: out of memory;
 * the message still owns them. */
struct psti_serve_data *psti_serve_data_new(struct psti_message *message, uint32_t first);
/* Lets a worker close the data set and the descriptors, and frees *data. *data may be NULL.
 * identity: of the data set, which chooses the lane; NULL: unknown. */
void psti_serve_data_close(pst_service *service, struct psti_serve_data **data,
                           const uint8_t *identity);
/* Lets a worker close the descriptors that are still in the message. */
void psti_serve_message_close(pst_service *service, struct psti_message *message);

/* serve_socket.c */
/* Takes the service's file lock and makes the socket. */
enum pst_status psti_serve_bind(pst_service *service, struct pst_error *err);
/* Makes the socket again if its name is no longer there. */
enum pst_status psti_serve_bind_again(pst_service *service, struct pst_error *err);
void psti_serve_unbind(pst_service *service);

/* serve_cache.c: returns the host cache for loaders of the service, or NULL. Sessions keep it
 * open. */
pst_cache *psti_serve_host_cache(const pst_service *service);

#endif
