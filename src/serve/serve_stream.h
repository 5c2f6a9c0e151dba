/* serve_stream.h - shared preparation: groups of jobs, and the streams of extents that they take.
 *
 * A group is a name, a data set and options. A job is one loader of a client: a session. A stream
 * is a loader of the service in a thread of its own, which makes extents one after the other, in
 * the order of positions. Its window has those that a job still needs or may need soon. Jobs join
 * the stream whose window has their place, or will soon; a job whose own stream comes to where
 * another one is joins that one. Everything but the making belongs to the loop's thread. */
#ifndef PST_SERVE_SERVE_STREAM_H
#define PST_SERVE_SERVE_STREAM_H

#include "serve/serve.h"

#include "loader/loader.h"
#include "share/share.h"

enum {
    PSTI_STREAM_PREFETCH = 4,      /* extents under way in a stream's loader, at least, */
    PSTI_STREAM_PREFETCH_MAX = 12, /* and at most: about two rows for each thread */
    PSTI_STREAM_SLOTS_MIN = 24     /* of an arena; with less, nothing is shared */
};

struct psti_group;
struct psti_serve_stream;

/* A place in an arena. */
struct psti_arena_slot {
    struct psti_arena_slot *next_free;
    uint32_t number;
    uint64_t own_claimed; /* bytes of memory after the arrays */
};

/* The memory of a stream's extents (serve_stream_arena.c). */
struct psti_arena {
    int fd; /* -1: not made yet */
    char *bytes;
    uint64_t nbytes;          /* most of `claimed` */
    uint64_t stride, own;     /* see share_stream_wire.h */
    uint64_t own_max;         /* most bytes of rows of own shape in an extent */
    struct pst_error failure; /* why memory could not be had; PST_OK: it could */
    uint32_t n_slots;         /* with addresses */
    /* With memory: all, unless own rows need much. The thread of the stream writes it. */
    atomic_uint n_used_max;
    atomic_uint_fast64_t claimed; /* bytes of memory, those of own rows twice */
    /* Guarded by the lock of the loader's pool: */
    uint32_t n_made, next; /* next: the slot that is to be taken if it is free */
    struct psti_arena_slot *slots, *free;
};
/* nbytes: for all slots. The loader's first slot then says how many there are. The rest of the
 * arena is zero. */
enum pst_status psti_serve_arena_open(struct psti_arena *arena, uint64_t nbytes,
                                      struct pst_error *err);
/* Slots for a loader, which they outlive. */
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
    bool bad; /* it cannot be shared; there is no batch */
    pst_batch *batch;
    uint32_t slot;
    uint64_t own_nbytes;
    uint32_t n_slots; /* that the arena uses now */
    uint32_t n_held;  /* by jobs */
    bool in_window;
};

struct psti_serve_stream {
    struct psti_group *group;
    uint32_t index;      /* in the group */
    uint64_t generation; /* tells it from others of the group */
    struct psti_arena arena;
    bool is_open, failed;
    uint32_t n_slots;     /* that the arena uses, as of the newest extent */
    uint64_t epoch, next; /* of the extent that comes next */
    uint64_t run;         /* counts beginnings at another place */
    uint64_t n_received;  /* extents, of all runs */
    int64_t moved_ns;     /* when it made an extent last, or a job took one */
    struct psti_serve_extent *window, *window_last;
    uint32_t n_window, n_alive; /* n_alive: in the window or held */
    pthread_t thread;
    bool joined; /* the thread is no more */
    bool over;   /* and its last post was taken: */
    struct psti_post ended;
    pst_loader *loader; /* of the thread */
    /* Orders for the thread, guarded by the lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closing, restart;
    void *spare; /* a result, for when there is no memory for another one */
    bool spare_is_out;
    uint64_t target_run, target_epoch, target_index;
    uint64_t made_max;  /* how many extents may have been made, of all runs */
    uint64_t index_max; /* of the run: first index that must not be made */
};

struct psti_job {
    struct psti_job *next;
    struct psti_session *session;
    struct psti_group *group;
    struct psti_serve_stream *stream;       /* NULL: it takes from none */
    const struct psti_serve_stream *awaits; /* a sibling's, while it wants; NULL: none */
    bool opened;
    bool fresh;     /* it has not had an answer yet */
    bool impatient; /* fresh, and no longer waits for other jobs */
    uint64_t open_id;
    uint32_t batch_size, step_rows, hold_max, n_lent;
    uint64_t epoch, cursor; /* while it takes extents: the first that it needs */
    uint64_t end;
    bool wants, left;
    uint64_t left_epoch; /* if `left`: the epoch in which it was too slow */
    uint64_t want_id;
    int64_t want_ns; /* when it first asked for its present batch */
    uint32_t n_rows;
    uint64_t sent[PSTI_STREAM_ARENAS]; /* generations of the arenas that it has */
    struct psti_serve_extent **held;   /* [held_cap] */
    uint32_t n_held, held_cap;
};

/* Extents that a client may still have mapped, although its session has ended. */
struct psti_kept {
    struct psti_kept *next;
    uint32_t n;
    struct psti_serve_extent *extents[];
};

/* A group's answers to its streams: a stream's thread is open, has made an extent, has failed,
 * or has ended. The loop's thread runs all of them. */
struct psti_stream_events {
    void (*opened)(struct psti_serve_stream *stream, enum pst_status status,
                   const struct psti_stream_layout *layout, const struct pst_error *err);
    void (*made)(struct psti_serve_stream *stream, uint64_t run, struct psti_serve_extent *extent);
    void (*failed)(struct psti_serve_stream *stream, uint64_t run, const struct pst_error *err);
    /* The thread has ended and posts nothing more. Frees the stream, and the group if that was the
     * last one of an ending group. */
    void (*ended)(struct psti_serve_stream *stream);
};

struct psti_group {
    struct psti_group *next;
    pst_service *service;
    const struct psti_stream_events *events;
    char name[PSTI_GROUP_NAME_CAP];
    struct psti_share_dataset place; /* of the data set */
    struct psti_share_options options;
    uint32_t extent_rows;
    uint32_t n_threads, prefetch; /* of a stream's loader */
    /* Until `opened`, its data set belongs to the thread of the first stream. */
    struct psti_serve_data *data;
    /* Hash of the label file's inode, size and times, or of all that a mixture is described by; 0:
     * there is none. */
    uint64_t labels;
    bool opened, failed;
    int64_t since_ns;  /* when it was made */
    bool ending;       /* its last job has gone, and threads of streams still run */
    int64_t ending_ns; /* since then */
    struct psti_stream_layout layout;
    struct psti_serve_stream *streams[PSTI_STREAM_ARENAS];
    struct psti_gate *gate;   /* of all groups */
    pst_cache *cache;         /* the service's; NULL: none */
    struct psti_shelf *shelf; /* of this group and its siblings; NULL: no memory */
    struct psti_job *jobs;
    struct psti_kept *kept;
    uint64_t n_numbers, n_generations, n_samples, newest_epoch;
};

/* serve_stream_make.c: the thread of a stream. */
enum pst_status psti_serve_stream_start(struct psti_serve_stream *stream, struct pst_error *err);
/* Tells the thread to end. It posts that it has, when its storage lets it go. */
void psti_serve_stream_close(struct psti_serve_stream *stream);
/* Waits for the thread's end. The loop calls it only after the thread has posted its end. */
void psti_serve_stream_join(struct psti_serve_stream *stream);

/* serve_stream_group.c */
/* What a job that joins has sent. */
struct psti_joining {
    struct psti_stream_open open;
    struct psti_share_dataset place;
    struct psti_share_options options;
    struct psti_serve_data *data;
    uint64_t labels;
};
/* Finds the group, or makes it, which takes options and descriptors out of `joining`. */
enum pst_status psti_serve_group_get(pst_service *service, struct psti_joining *joining,
                                     struct psti_group **out, struct pst_error *err);
void psti_serve_group_add(struct psti_group *group, struct psti_job *job);
/* Takes the job out, which gives everything back. `kept`: but for the memory that it holds, which
 * is not written again. A group without jobs ends: nobody joins it any more, and it is freed when
 * the threads of its streams have ended. */
void psti_serve_group_remove(struct psti_group *group, struct psti_job *job, bool kept);
enum pst_status psti_serve_groups_open(pst_service *service, struct pst_error *err);
/* Ends all groups, and waits for their threads. */
void psti_serve_groups_close(pst_service *service);

/* serve_stream_settle.c */
/* Ends the patience of jobs that wait for a stream which stands still. */
void psti_serve_groups_tick(pst_service *service);
/* Looks what can be done, after anything has changed. */
void psti_serve_group_settle(struct psti_group *group);

/* serve_stream_window.c */
/* The job is between two epochs. */
void psti_serve_job_leave(struct psti_job *job);
/* The job gives back the extents with these numbers. */
void psti_serve_job_give(struct psti_job *job, const uint64_t *numbers, uint32_t n);

#endif
