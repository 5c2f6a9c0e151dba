/* device.h - the gate's door: one card of this process, through the CUDA driver, which is opened at
 * run time (libcuda.so.1) and never needed to build, to link or to import.
 *
 * A device has its primary context (the one that frameworks use too), the kernels that were loaded
 * into it, and two budgets: device memory and pinned host memory. Addresses on the card are plain
 * 64-bit numbers. Nothing here waits for a whole device or allocates behind the caller's back; the
 * functions marked (waits) block the thread until work on the card is done: it sleeps, so that its
 * core is free meanwhile.
 *
 * Threads: any thread may call any function; the context is made current for the duration of the
 * call. A stream takes work from one thread at a time.
 *
 * Errors: PST_ERROR_UNSUPPORTED there is no driver, no such card, or it is too old; PST_ERROR_LIMIT
 * a budget is used up; PST_ERROR_MEMORY the card's memory is; PST_ERROR_DEVICE anything else that
 * the driver reports, with its name; PST_ERROR_FORKED the handle belongs to the parent process.
 * Closing and freeing are safe there, and after the card has failed. */
#ifndef PST_DEVICE_DEVICE_H
#define PST_DEVICE_DEVICE_H

#include <penstock/image.h>

struct psti_device;
struct psti_stream;
struct psti_event;

/* Whether there is a driver and how many cards; `reason` (may be NULL): why there is none. Never
 * fails, starts no context. PENSTOCK_CUDA=0 hides all cards. */
uint32_t psti_device_count(char *reason, size_t reason_nbytes);
/* The card whose context is current in this thread; 0 where none is, or where there is no driver.
 * Never fails, starts no context. */
uint32_t psti_device_current(void);

struct psti_device_options {
    uint32_t ordinal;
    uint64_t device_memory; /* bytes that may be allocated on the card; 0 = no limit */
    uint64_t pinned_memory; /* bytes of pinned host memory; 0 = no limit */
};
enum pst_status psti_device_open(const struct psti_device_options *options,
                                 struct psti_device **out, struct pst_error *err);
/* All streams, events and memory of it must have been given back. NULL-safe. */
void psti_device_close(struct psti_device **device);

struct psti_device_info {
    uint32_t ordinal;
    char name[64];
    uint32_t capability_major, capability_minor, n_processors;
    uint32_t shared_nbytes_max; /* dynamic shared memory that a block may ask for, of any kernel
                                   once they are loaded */
    uint64_t memory_nbytes;
    uint32_t driver_version; /* 1000 * major + 10 * minor of the CUDA that it knows */
    uint64_t device_memory_used, device_memory_peak, pinned_memory_used;
};
void psti_device_info(const struct psti_device *device, struct psti_device_info *info);
/* The facts alone, of a card that need not be open: starts no context. `info` has what is known
 * also where the card is too old (PST_ERROR_UNSUPPORTED). */
enum pst_status psti_device_look(uint32_t ordinal, struct psti_device_info *info,
                                 struct pst_error *err);

/* The kernels: kernel k of psti_device_stream_launch is names[k]. Once per device. They come from
 * the kernels' library, libpenstock_cuda.so, which lies beside the library that this code is in or
 * is named by PENSTOCK_CUDA_KERNELS; PST_ERROR_UNSUPPORTED: it is not there, or was built for
 * another Penstock, or the driver is too old for it. */
enum pst_status psti_device_load_kernels(struct psti_device *device, const char *const *names,
                                         uint32_t n_names, struct pst_error *err);
/* What would be loaded. On failure `path` is what was tried last. */
struct psti_device_kernels {
    char path[256];
    char targets[128];     /* "sm_90 compute_75 ..." */
    uint32_t cuda_version; /* of the compiler; as driver_version */
};
enum pst_status psti_device_kernels(struct psti_device_kernels *kernels, struct pst_error *err);

/* Memory. Aligned to 256 on the card, to 4096 if pinned; contents are anything. 0 bytes are no
 * memory: address 0, NULL, which may be freed. Freeing waits for nothing: the caller knows that no
 * work under way uses it. */
enum pst_status psti_device_alloc(struct psti_device *device, uint64_t nbytes, uint64_t *address,
                                  struct pst_error *err);
void psti_device_free(struct psti_device *device, uint64_t address, uint64_t nbytes);
enum pst_status psti_device_alloc_pinned(struct psti_device *device, uint64_t nbytes, void **memory,
                                         struct pst_error *err);
void psti_device_free_pinned(struct psti_device *device, void *memory, uint64_t nbytes);

/* Streams of our own; they do not synchronise with the default stream. low_priority: the lowest
 * that the card has, so that kernels of a model on a stream of higher priority go first (CUDA's
 * lowest is its standard: a model on a standard stream shares). Closing waits for what is under
 * way on it. */
enum pst_status psti_device_stream_open(struct psti_device *device, bool low_priority,
                                        struct psti_stream **out, struct pst_error *err);
void psti_device_stream_close(struct psti_stream **stream);
enum pst_status psti_device_stream_upload(struct psti_stream *stream, uint64_t to, const void *from,
                                          size_t nbytes,
                                          struct pst_error *err); /* from pinned memory */
enum pst_status psti_device_stream_download(struct psti_stream *stream, void *to, uint64_t from,
                                            size_t nbytes,
                                            struct pst_error *err); /* to pinned memory */
enum pst_status psti_device_stream_copy(struct psti_stream *stream, uint64_t to, uint64_t from,
                                        size_t nbytes, struct pst_error *err);
enum pst_status psti_device_stream_clear(struct psti_stream *stream, uint64_t at, size_t nbytes,
                                         struct pst_error *err);
/* `args` (at most 4000 bytes) is copied by the call: the kernel's only parameter, by value. */
enum pst_status psti_device_stream_launch(struct psti_stream *stream, uint32_t kernel,
                                          uint32_t n_blocks, uint32_t n_warps,
                                          uint32_t shared_nbytes, const void *args,
                                          size_t args_nbytes, struct pst_error *err);
enum pst_status psti_device_stream_sync(struct psti_stream *stream,
                                        struct pst_error *err); /* waits */

/* A place in a stream's work. An event that was never recorded is done. */
enum pst_status psti_device_event_open(struct psti_device *device, struct psti_event **out,
                                       struct pst_error *err);
void psti_device_event_close(struct psti_event **event);
enum pst_status psti_device_event_record(struct psti_event *event, struct psti_stream *stream,
                                         struct pst_error *err);
enum pst_status psti_device_event_await(
    struct psti_event *event, struct psti_stream *stream,
    struct pst_error *err); /* the stream waits, not the thread */
enum pst_status psti_device_event_is_done(struct psti_event *event, bool *done,
                                          struct pst_error *err);
enum pst_status psti_device_event_sync(struct psti_event *event, struct pst_error *err); /* waits */

/* The same with a stream of somebody else's, by its handle as CUDA, DLPack and torch give it
 * (0 or 1: the legacy default stream, 2: the default stream of the calling thread). It must be a
 * stream of the event's card. */
enum pst_status psti_device_event_record_foreign(struct psti_event *event, uint64_t stream,
                                                 struct pst_error *err);
enum pst_status psti_device_event_await_foreign(struct psti_event *event, uint64_t stream,
                                                struct pst_error *err);

#endif
