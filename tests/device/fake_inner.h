/* fake_inner.h - shared by the files of the fake driver, which simulates GPUs. */
#ifndef FAKE_INNER_H
#define FAKE_INNER_H

#include "fake_driver.h"

#include "device/device_driver.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#define FAKE_DEVICES_MAX 8
#define FAKE_FUNCTIONS_MAX 64
#define FAKE_SHARED_NBYTES                                                                         \
    (227u * 1024)                        /* most dynamic shared memory of a block, as of an H200   \
                                          */
#define FAKE_SHARED_STATIC 1024u         /* shared memory that each kernel has without a request */
#define FAKE_SHARED_DEFAULT (48u * 1024) /* largest shared memory without an explicit request */

enum {
    FAKE_ILLEGAL_ADDRESS = 700,
    FAKE_INVALID_CONTEXT = 201,
    FAKE_INVALID_HANDLE = 400,
    FAKE_INVALID_IMAGE = 200
};

/* A GPU and its primary context. */
struct CUctx_st {
    int ordinal;
    atomic_uint broken; /* error of a broken GPU; 0: it works */
    atomic_uint n_retained;
    atomic_ullong used; /* bytes */
    pthread_mutex_t lock;
    struct CUstream_st *legacy; /* guarded by lock; made at its first use */
};

/* A position in a stream's work. Recording an event makes it; the event and all threads that wait
 * for it share it. It is the only way in which one thread of the fake learns of another's work, so
 * ThreadSanitizer sees exactly the order that events give. Counting its users would add more order,
 * so marks are never freed. */
struct fake_mark {
    atomic_uint done;       /* a futex */
    int64_t at_ns;          /* time at which the stream reached it; set before `done` */
    struct fake_mark *next; /* next in the list of all marks */
};

enum fake_op_kind {
    FAKE_OP_COPY,
    FAKE_OP_CLEAR,
    FAKE_OP_LAUNCH,
    FAKE_OP_RECORD,
    FAKE_OP_WAIT,
    FAKE_OP_END
};

struct fake_op {
    struct fake_op *_Atomic next;
    enum fake_op_kind kind;
    void *to;
    const void *from;
    bool from_host, to_host;
    uint8_t value;
    size_t nbytes;
    fake_kernel_fn fn;
    uint32_t n_blocks, n_warps, shared_nbytes;
    struct fake_mark *mark;
    _Alignas(16) unsigned char args[4096];
};

struct CUstream_st {
    struct CUctx_st *context;
    int priority;
    pthread_t thread;
    pthread_mutex_t lock; /* held by threads that submit work to the stream */
    struct fake_op *tail; /* guarded by lock */
    struct fake_op *head; /* used only by the stream's thread */
    sem_t n_queued;
    atomic_uint works;        /* an operation accesses memory now */
    struct CUstream_st *next; /* next in the list of all streams; see fake_streams_stop */
};

struct CUevent_st {
    struct CUctx_st *context;
    bool timed;
    pthread_mutex_t lock;
    struct fake_mark *mark; /* guarded by lock; NULL: never recorded */
};

struct CUfunc_st {
    struct CUmod_st *module;
    fake_kernel_fn fn;
    uint32_t shared_max;
};

struct CUmod_st {
    struct CUctx_st *context;
    const struct fake_image *image;
    pthread_mutex_t lock;
    uint32_t n_functions; /* guarded by lock, as are the next members */
    struct CUfunc_st functions[FAKE_FUNCTIONS_MAX];
};

/* fake_driver.c */
extern atomic_uint fake_delay_us;
extern atomic_uint fake_block_ns;
extern atomic_bool fake_launches_held;
extern _Atomic uint64_t fake_n_uploaded;
extern _Atomic uint64_t fake_n_live;
/* Reports wrong use of the driver and breaks the GPU. */
unsigned fake_complain(struct CUctx_st *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* fake_stream.c */
struct CUstream_st *fake_stream_make(struct CUctx_st *context, int priority);
void fake_stream_end(struct CUstream_st *stream); /* waits for the stream's work */
/* Called for a broken context. When it returns, no work of the context accesses memory any more, as
 * on a real GPU. */
void fake_streams_stop(const struct CUctx_st *context);
/* Makes an empty operation, to be filled in and submitted. */
struct fake_op *fake_op_make(enum fake_op_kind kind);
void fake_stream_submit(struct CUstream_st *stream, struct fake_op *op);
struct fake_mark *fake_mark_make(void);
void fake_mark_wait(struct fake_mark *mark);
bool fake_mark_is_done(const struct fake_mark *mark);

/* fake_memory.c: memory blocks of all GPUs (owner = ordinal) and pinned memory (owner = -1). */
#define FAKE_PINNED (-1)
void *fake_memory_make(int owner, size_t nbytes);
/* Removes the block that begins at `memory`. Returns its bytes, or 0 if no block begins there. */
size_t fake_memory_end(int owner, void *memory);
/* Adds memory that exists already as a block. */
bool fake_memory_add(int owner, void *memory, size_t nbytes);
bool fake_memory_remove(int owner, void *memory);
bool fake_memory_has(int owner, const void *at, size_t nbytes);
uint64_t fake_memory_nbytes(bool pinned);

#endif
