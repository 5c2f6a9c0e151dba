/* serve_stream.h - shared preparation: groups of jobs, and the streams of extents that jobs take.
 *
 * A group is a name, a data set and options. A job is one loader of a client, with a session. A
 * stream is a loader of the service in a thread of its own, which makes extents (rows of
 * neighbouring positions) one after the other. The stream's window holds the extents that a job
 * still needs or may need soon. A job joins the stream whose window has its position, or will have
 * it soon. If a job's stream reaches the position of another stream, the job joins that one. Only
 * the stream's thread makes extents; everything else runs on the loop's thread. */
#ifndef PST_SERVE_SERVE_STREAM_H
#define PST_SERVE_SERVE_STREAM_H

#include "serve/serve.h"

#include "loader/loader.h"
#include "share/share.h"

enum {
    PSTI_STREAM_PREFETCH = 4,      /* extents under way in a stream's loader, at least, */
    PSTI_STREAM_PREFETCH_MAX = 12, /* and at most: about two rows for each thread */
    PSTI_STREAM_SLOTS_MIN = 24     /* minimum number of slots of an arena; with fewer slots nothing
                                      is shared */
};

struct psti_group;
struct psti_serve_stream;

/* The memory for one extent in an arena. */
struct psti_arena_slot {
    struct psti_arena_slot *next_free;
    uint32_t number;
    uint64_t own_claimed; /* bytes of memory claimed after the arrays */
};

/* The memory of a stream's extents (serve_stream_arena.c). */
struct psti_arena {
    int fd; /* descriptor of the arena's memory; -1: not made yet */
    char *bytes;
    uint64_t nbytes;          /* most of `claimed` */
    uint64_t stride, own;     /* see share_stream_wire.h */
    uint64_t own_max;         /* maximum number of bytes of rows of own shape in an extent */
    struct pst_error failure; /* why memory could not be had; PST_OK: it could */
    uint32_t n_slots;         /* with addresses */
    /* With memory: all, unless own rows need much. The thread of the stream writes it. */
    atomic_uint n_used_max;
    atomic_uint_fast64_t claimed; /* bytes of memory taken; those for rows of different sizes
                                     count twice */
    /* Guarded by the lock of the loader's pool: */
    uint32_t n_made, next; /* next: slot to take next, if it is free */
    struct psti_arena_slot *slots, *free;
};
/* Opens an arena of nbytes for all slots. When the loader makes its first slot, the size of slots
 * and so their number is known. All other members must be zero. */
enum pst_status psti_serve_arena_open(struct psti_arena *arena, uint64_t nbytes,
                                      struct pst_error *err);
/* Returns slots for a loader. The arena must outlive the loader and its batches. */
struct psti_loader_slots psti_serve_arena_slots(struct psti_arena *arena);
void psti_serve_arena_close(struct psti_arena *arena);
/* Writes table and values of the batch's own rows behind its arrays. Returns the bytes that it
 * took, or UINT64_MAX if they are too many. */
uint64_t psti_serve_arena_add_own(struct psti_arena *arena, pst_batch *batch,
                                  const struct psti_slot_field *fields, uint32_t n_fields,
                                  uint32_t extent_rows);

struct psti_serve_extent {
    struct psti_serve_extent *next; /* in the window */
    struct psti_serve_stream *stream;
    uint64_t number, epoch, index; /* index: first position / extent_rows */
    uint32_t n_rows;
    bool bad; /* the extent cannot be shared, and has no batch */
    pst_batch *batch;
    uint32_t slot;
    uint64_t own_nbytes;
    uint32_t n_slots; /* number of slots that the arena uses since this extent */
    uint32_t n_held;  /* number of jobs that hold the extent */
    bool in_window;
};

struct psti_serve_stream {
    struct psti_group *group;
    uint32_t index;      /* index of the stream in its group */
    uint64_t generation; /* number that identifies the stream within its group */
    struct psti_arena arena;
    bool is_open, failed;
    uint32_t n_slots;     /* number of slots that the arena used when the newest extent was made */
    uint64_t epoch, next; /* epoch and index of the extent that is made next */
    uint64_t run;         /* how often the stream began at another position */
    uint64_t n_received;  /* number of extents received from the thread, in all runs */
    int64_t moved_ns;     /* time when the thread last made an extent, or a job last took an
                             extent */
    struct psti_serve_extent *window, *window_last;
    uint32_t n_window, n_alive; /* n_alive: in the window or held */
    pthread_t thread;
    bool joined; /* the thread has been joined */
    bool over;   /* the thread's last post was handled, too */
    struct psti_post ended;
    pst_loader *loader; /* used by the stream's thread only */
    /* Orders for the thread, guarded by `lock`: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closing, restart;
    void *spare; /* a result object, allocated early for use when memory is lacking */
    bool spare_is_out;
    uint64_t target_run, target_epoch, target_index;
    uint64_t made_max;  /* limit of the number of extents made, in all runs */
    uint64_t index_max; /* index of the first extent that must not be made in the present run */
};

struct psti_job {
    struct psti_job *next;
    struct psti_session *session;
    struct psti_group *group;
    struct psti_serve_stream *stream;       /* stream that the job takes extents from; NULL: none */
    const struct psti_serve_stream *awaits; /* stream of a sibling group that the job waits for;
                                               NULL: none */
    bool opened;
    bool fresh;     /* the job has had no answer yet */
    bool impatient; /* the job is fresh, but no longer waits for other jobs */
    uint64_t open_id;
    uint32_t batch_size, step_rows, hold_max, n_lent;
    uint64_t epoch, cursor; /* epoch and first position that the job needs, while it takes
                               extents */
    uint64_t end;
    bool wants, left;
    uint64_t left_epoch; /* if `left`: epoch in which the job was too slow */
    uint64_t want_id;
    int64_t want_ns; /* time when the job first asked for its present batch */
    uint32_t n_rows;
    uint64_t sent[PSTI_STREAM_ARENAS]; /* generations of the arenas that were sent to the job */
    struct psti_serve_extent **held;   /* [held_cap] */
    uint32_t n_held, held_cap;
};

/* Extents that a client may still have mapped after its session ended. */
struct psti_kept {
    struct psti_kept *next;
    uint32_t n;
    struct psti_serve_extent *extents[];
};

/* Functions of a group that handle a stream's posts: its thread has opened, made an extent, failed,
 * or ended. All run on the loop's thread. */
struct psti_stream_events {
    void (*opened)(struct psti_serve_stream *stream, enum pst_status status,
                   const struct psti_stream_layout *layout, const struct pst_error *err);
    void (*made)(struct psti_serve_stream *stream, uint64_t run, struct psti_serve_extent *extent);
    void (*failed)(struct psti_serve_stream *stream, uint64_t run, const struct pst_error *err);
    /* Called when the thread has ended and posts nothing more. Frees the stream, and the group if
     * it is ending and this was its last stream. */
    void (*ended)(struct psti_serve_stream *stream);
};

struct psti_group {
    struct psti_group *next;
    pst_service *service;
    const struct psti_stream_events *events;
    char name[PSTI_GROUP_NAME_CAP];
    struct psti_share_dataset place; /* describes the data set */
    struct psti_share_options options;
    uint32_t extent_rows;
    uint32_t n_threads, prefetch; /* number of threads and prefetch of a stream's loader */
    /* The data set. Until `opened` it belongs to the thread of the first stream. */
    struct psti_serve_data *data;
    /* Hash of the label file's inode, size and times, or of all that describes a mixture; 0: there
     * are no such files. */
    uint64_t labels;
    bool opened, failed;
    int64_t since_ns;  /* time when the group was made */
    bool ending;       /* its last job has left, and threads of streams still run */
    int64_t ending_ns; /* time since which it is ending */
    struct psti_stream_layout layout;
    struct psti_serve_stream *streams[PSTI_STREAM_ARENAS];
    struct psti_gate *gate;   /* limits the threads that make rows; shared by all groups */
    pst_cache *cache;         /* the service's host cache; NULL: none */
    struct psti_shelf *shelf; /* shared by this group and its siblings; NULL: out of memory */
    struct psti_job *jobs;
    struct psti_kept *kept;
    uint64_t n_numbers, n_generations, n_samples, newest_epoch;
};

/* serve_stream_make.c: functions for the thread of a stream. */
enum pst_status psti_serve_stream_start(struct psti_serve_stream *stream, struct pst_error *err);
/* Tells the thread to end. It posts its end as soon as its storage responds. */
void psti_serve_stream_close(struct psti_serve_stream *stream);
/* Waits for the thread's end. The loop calls it only after the thread has posted its end. */
void psti_serve_stream_join(struct psti_serve_stream *stream);

/* serve_stream_group.c */
/* The message of a job that joins. */
struct psti_joining {
    struct psti_stream_open open;
    struct psti_share_dataset place;
    struct psti_share_options options;
    struct psti_serve_data *data;
    uint64_t labels;
};
/* Finds or makes the group. A new group takes options and descriptors out of `joining`. */
enum pst_status psti_serve_group_get(pst_service *service, struct psti_joining *joining,
                                     struct psti_group **out, struct pst_error *err);
void psti_serve_group_add(struct psti_group *group, struct psti_job *job);
/* Removes the job from the group. The job gives back everything; with `kept`, the memory that it
 * holds is not written again. A group without jobs ends: no job can join it any more, and it is
 * freed when the threads of its streams have ended. */
void psti_serve_group_remove(struct psti_group *group, struct psti_job *job, bool kept);
enum pst_status psti_serve_groups_open(pst_service *service, struct pst_error *err);
/* Ends all groups, and waits for their threads. */
void psti_serve_groups_close(pst_service *service);

/* serve_stream_settle.c */
/* Makes jobs stop waiting for a stream that makes no progress. */
void psti_serve_groups_tick(pst_service *service);
/* Decides what to do next for the whole group. Called after any change. */
void psti_serve_group_settle(struct psti_group *group);

/* serve_stream_window.c */
/* Notes that the job is between two epochs. */
void psti_serve_job_leave(struct psti_job *job);
/* The job gives back the extents with these numbers. */
void psti_serve_job_give(struct psti_job *job, const uint64_t *numbers, uint32_t n);

#endif
