/* device.h - the door of the room: one GPU of this process, through the CUDA driver. The driver is
 * opened at run time (libcuda.so.1); it is never needed to build, to link or to import.
 *
 * A device has its primary context (which frameworks use too), the kernels that were loaded into
 * it, and two budgets: device memory and pinned host memory. Addresses on the GPU are plain 64-bit
 * numbers. No function waits for a whole device or allocates without being told to. Functions
 * marked (waits) block the thread until work on the GPU is done. The thread sleeps, so that its
 * core is free meanwhile.
 *
 * Threads: any thread may call any function; the context is made current for the duration of the
 * call. A stream takes work from one thread at a time.
 *
 * Errors: PST_ERROR_UNSUPPORTED there is no driver or no such GPU, or the GPU is too old;
 * PST_ERROR_LIMIT a budget is used up; PST_ERROR_MEMORY the GPU's memory is used up;
 * PST_ERROR_DEVICE the driver reports any other error, which the text names; PST_ERROR_FORKED the
 * handle belongs to the parent process. Closing and freeing are safe in a forked child, and after
 * the GPU has failed. */
#ifndef PST_DEVICE_DEVICE_H
#define PST_DEVICE_DEVICE_H

#include <penstock/image.h>

struct psti_device;
struct psti_stream;
struct psti_event;

/* Returns the number of GPUs, 0 without a driver. `reason` (may be NULL) says why there is none.
 * Never fails, and makes no context. PENSTOCK_CUDA=0 hides all GPUs. */
uint32_t psti_device_count(char *reason, size_t reason_nbytes);
/* Returns the number of the GPU whose context is current in this thread, or 0 if there is none, or
 * no driver. Never fails, and makes no context. */
uint32_t psti_device_current(void);

struct psti_device_options {
    uint32_t ordinal;
    uint64_t device_memory; /* bytes that may be allocated on the GPU; 0 = no limit */
    uint64_t pinned_memory; /* bytes of pinned host memory; 0 = no limit */
};
enum pst_status psti_device_open(const struct psti_device_options *options,
                                 struct psti_device **out, struct pst_error *err);
/* Closes a device. The caller has closed all its streams and events and freed its memory. *device
 * may be NULL. */
void psti_device_close(struct psti_device **device);

struct psti_device_info {
    uint32_t ordinal;
    char name[64];
    uint32_t capability_major, capability_minor, n_processors;
    /* Dynamic shared memory that a block of any loaded kernel may use, in bytes. */
    uint32_t shared_nbytes_max;
    uint64_t memory_nbytes;
    uint32_t driver_version; /* 1000 * major + 10 * minor of the driver's CUDA */
    uint64_t device_memory_used, device_memory_peak, pinned_memory_used;
};
void psti_device_info(const struct psti_device *device, struct psti_device_info *info);
/* Reads the properties of a GPU that need not be open. Makes no context. If the GPU is too old
 * (PST_ERROR_UNSUPPORTED), `info` has what is known. */
enum pst_status psti_device_look(uint32_t ordinal, struct psti_device_info *info,
                                 struct pst_error *err);

/* Loads the kernels, once per device; kernel k of psti_device_stream_launch is names[k]. They come
 * from the library libpenstock_cuda.so, which lies beside the library that this code is in, or is
 * named by PENSTOCK_CUDA_KERNELS. PST_ERROR_UNSUPPORTED: it is not there, or was built for another
 * Penstock, or the driver is too old for it. */
enum pst_status psti_device_load_kernels(struct psti_device *device, const char *const *names,
                                         uint32_t n_names, struct pst_error *err);
/* Finds the library that psti_device_load_kernels would load. On failure `path` is the last file
 * that was tried. */
struct psti_device_kernels {
    char path[256];
    char targets[128];     /* "sm_90 compute_75 ..." */
    uint32_t cuda_version; /* CUDA version of the compiler, as driver_version */
};
enum pst_status psti_device_kernels(struct psti_device_kernels *kernels, struct pst_error *err);

/* These functions allocate and free memory, aligned to 256 on the GPU and to 4096 if pinned. Its
 * contents are undefined. 0 bytes give address 0 or NULL, which may be freed. Freeing does not
 * wait: the caller knows that no work under way uses the memory. */
enum pst_status psti_device_alloc(struct psti_device *device, uint64_t nbytes, uint64_t *address,
                                  struct pst_error *err);
void psti_device_free(struct psti_device *device, uint64_t address, uint64_t nbytes);
enum pst_status psti_device_alloc_pinned(struct psti_device *device, uint64_t nbytes, void **memory,
                                         struct pst_error *err);
void psti_device_free_pinned(struct psti_device *device, void *memory, uint64_t nbytes);
/* Page-locks whole pages of memory that somebody else owns, so that uploads may come from there.
 * The pages may be mapped for reading only. They count for no budget. Not every GPU and driver can
 * do this. */
enum pst_status psti_device_lock(struct psti_device *device, const void *memory, size_t nbytes,
                                 struct pst_error *err);
/* Ends the page-lock. Call it before the memory is unmapped, when no upload from there is under
 * way.
 */
void psti_device_unlock(struct psti_device *device, const void *memory);

/* Opens a stream of our own, which does not synchronise with the default stream. low_priority: the
 * stream gets the lowest priority of the GPU, so that a model's kernels on a stream of higher
 * priority go first. CUDA's lowest priority is its standard one, so a model on a standard stream
 * shares the GPU. Closing a stream waits for its work. */
enum pst_status psti_device_stream_open(struct psti_device *device, bool low_priority,
                                        struct psti_stream **out, struct pst_error *err);
void psti_device_stream_close(struct psti_stream **stream);
enum pst_status psti_device_stream_upload(struct psti_stream *stream, uint64_t to, const void *from,
                                          size_t nbytes,
                                          struct pst_error *err); /* the memory must be pinned */
enum pst_status psti_device_stream_download(struct psti_stream *stream, void *to, uint64_t from,
                                            size_t nbytes,
                                            struct pst_error *err); /* the memory must be pinned */
enum pst_status psti_device_stream_copy(struct psti_stream *stream, uint64_t to, uint64_t from,
                                        size_t nbytes, struct pst_error *err);
enum pst_status psti_device_stream_clear(struct psti_stream *stream, uint64_t at, size_t nbytes,
                                         struct pst_error *err);
/* Launches a kernel. The call copies `args` (at most 4000 bytes), which the kernel gets by value as
 * its only parameter. */
enum pst_status psti_device_stream_launch(struct psti_stream *stream, uint32_t kernel,
                                          uint32_t n_blocks, uint32_t n_warps,
                                          uint32_t shared_nbytes, const void *args,
                                          size_t args_nbytes, struct pst_error *err);
enum pst_status psti_device_stream_sync(struct psti_stream *stream,
                                        struct pst_error *err); /* waits for the stream's work */

/* Events mark a place in a stream's work, and record when the stream came there. An event that was
 * never recorded is done. */
enum pst_status psti_device_event_open(struct psti_device *device, struct psti_event **out,
                                       struct pst_error *err);
void psti_device_event_close(struct psti_event **event);
enum pst_status psti_device_event_record(struct psti_event *event, struct psti_stream *stream,
                                         struct pst_error *err);
enum pst_status psti_device_event_await(
    struct psti_event *event, struct psti_stream *stream,
    struct pst_error *err); /* the stream waits, this thread does not */
enum pst_status psti_device_event_is_done(struct psti_event *event, bool *done,
                                          struct pst_error *err);
enum pst_status psti_device_event_sync(struct psti_event *event, struct pst_error *err); /* waits */
/* Returns the GPU's time from one event to the other in nanoseconds. Both must be recorded and
 * done. Returns 0 if the driver cannot tell it. */
uint64_t psti_device_event_elapsed_ns(struct psti_event *begin, struct psti_event *end);

/* These functions record or await an event in a stream of other code. The stream is given by its
 * handle as CUDA, DLPack and torch have it (0 or 1: the legacy default stream, 2: the default
 * stream of the calling thread). It must belong to the event's GPU. */
enum pst_status psti_device_event_record_foreign(struct psti_event *event, uint64_t stream,
                                                 struct pst_error *err);
enum pst_status psti_device_event_await_foreign(struct psti_event *event, uint64_t stream,
                                                struct pst_error *err);

#endif
