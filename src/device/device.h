/* device.h - the public interface of src/device: GPUs of this process, through the CUDA driver.
 *
 * The driver is opened at run time (libcuda.so.1); building, linking and importing do not need it.
 * A device has its primary context (which frameworks use too), the kernels loaded into it, and two
 * budgets: device memory and pinned host memory. Addresses on the GPU are plain 64-bit numbers. No
 * function waits for a whole device, or allocates unless its name says so. Functions marked (waits)
 * let the thread sleep until work on the GPU is done.
 *
 * Threads: any thread may call any function, which makes the context current during the call. A
 * stream takes work from one thread at a time.
 *
 * Errors: PST_ERROR_UNSUPPORTED there is no driver or no such GPU, or the GPU is too old;
 * PST_ERROR_LIMIT a budget is exhausted; PST_ERROR_MEMORY the GPU's memory is exhausted;
 * PST_ERROR_DEVICE another error of the driver, which the text names; PST_ERROR_FORKED the handle
 * belongs to the parent process. Closing and freeing are safe in a forked child, and after the GPU
 * has failed. */
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
/* Closes a device. The caller must have closed its streams and events and freed its memory before.
 * *device may be NULL. */
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
/* Reads the properties of a GPU without opening it or making a context. If the GPU is too old
 * (PST_ERROR_UNSUPPORTED), `info` still has what is known. */
enum pst_status psti_device_look(uint32_t ordinal, struct psti_device_info *info,
                                 struct pst_error *err);

/* Loads the kernels, once per device; psti_device_stream_launch calls kernel k, which is names[k].
 * They come from libpenstock_cuda.so in the folder of this library, or from the file in
 * PENSTOCK_CUDA_KERNELS. PST_ERROR_UNSUPPORTED: the file does not exist, belongs to another version
 * of Penstock, or the driver is too old for it. */
enum pst_status psti_device_load_kernels(struct psti_device *device, const char *const *names,
                                         uint32_t n_names, struct pst_error *err);
/* Finds the library that psti_device_load_kernels would load. After failure `path` is the last file
 * tried. */
struct psti_device_kernels {
    char path[256];
    char targets[128];     /* "sm_90 compute_75 ..." */
    uint32_t cuda_version; /* CUDA version of the compiler, numbered like driver_version */
};
enum pst_status psti_device_kernels(struct psti_device_kernels *kernels, struct pst_error *err);

/* Allocate and free memory, aligned to 256 bytes on the GPU and to 4096 if pinned. Its contents are
 * undefined. 0 bytes give address 0 or NULL, which may be freed. Freeing does not wait, so the
 * caller must know that no running work uses the memory. */
enum pst_status psti_device_alloc(struct psti_device *device, uint64_t nbytes, uint64_t *address,
                                  struct pst_error *err);
void psti_device_free(struct psti_device *device, uint64_t address, uint64_t nbytes);
enum pst_status psti_device_alloc_pinned(struct psti_device *device, uint64_t nbytes, void **memory,
                                         struct pst_error *err);
void psti_device_free_pinned(struct psti_device *device, void *memory, uint64_t nbytes);
/* Page-locks whole pages of memory that belongs to somebody else, so uploads can read from it. The
 * pages may be mapped read-only. No budget counts them. Some GPUs and drivers cannot do this. */
enum pst_status psti_device_lock(struct psti_device *device, const void *memory, size_t nbytes,
                                 struct pst_error *err);
/* Ends the page-lock. Call it before the memory is unmapped, when no upload reads from it. */
void psti_device_unlock(struct psti_device *device, const void *memory);

/* Opens a stream that does not synchronise with the default stream.
 * low_priority: the stream gets the lowest priority of the GPU, so kernels of a model on a stream
 * of higher priority go first. CUDA's lowest priority is the default one, so a model on a default
 * stream shares the GPU equally. Closing a stream waits for its work. */
enum pst_status psti_device_stream_open(struct psti_device *device, bool low_priority,
                                        struct psti_stream **out, struct pst_error *err);
void psti_device_stream_close(struct psti_stream **stream);
enum pst_status psti_device_stream_upload(struct psti_stream *stream, uint64_t to, const void *from,
                                          size_t nbytes,
                                          struct pst_error *err); /* `from` must be pinned */
enum pst_status psti_device_stream_download(struct psti_stream *stream, void *to, uint64_t from,
                                            size_t nbytes,
                                            struct pst_error *err); /* `to` must be pinned */
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

/* An event marks a place in a stream's work and records the time when the stream reached it. An
 * event that was never recorded counts as done. */
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
/* Returns the GPU time between two events in nanoseconds. Both must be recorded and done. 0 if the
 * driver cannot tell. */
uint64_t psti_device_event_elapsed_ns(struct psti_event *begin, struct psti_event *end);

/* Record or await an event in a stream of other code, which must belong to the event's GPU.
 * `stream` is the handle that CUDA, DLPack and torch use (0 or 1: the legacy default stream, 2: the
 * default stream of the calling thread). */
enum pst_status psti_device_event_record_foreign(struct psti_event *event, uint64_t stream,
                                                 struct pst_error *err);
enum pst_status psti_device_event_await_foreign(struct psti_event *event, uint64_t stream,
                                                struct pst_error *err);

#endif
