/* penstock.h - includes all public headers, and has the functions for the library itself. */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include <penstock/audio.h>
#include <penstock/augment.h>
#include <penstock/cache.h>
#include <penstock/collate.h>
#include <penstock/cuda.h>
#include <penstock/dataset.h>
#include <penstock/describe.h>
#include <penstock/fleet.h>
#include <penstock/image.h>
#include <penstock/images.h>
#include <penstock/index.h>
#include <penstock/loader.h>
#include <penstock/meter.h>
#include <penstock/mixture.h>
#include <penstock/output.h>
#include <penstock/pli.h>
#include <penstock/service.h>
#include <penstock/fallback.h>
#include <penstock/settings.h>
#include <penstock/status.h>
#include <penstock/writer.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Version of the headers. */
#define PST_VERSION_MAJOR 0
#define PST_VERSION_MINOR 1
#define PST_VERSION_PATCH 0

/* The version of the library that runs, "0.1.0". The macros above are the version of the headers
 * that the program was compiled with.
 *
 * Returns a static string. Any thread. */
const char *pst_version(void);

/* Memory hooks. All memory of the library comes from them; the codecs libjpeg-turbo and libpng
 * allocate through them too; libwebp does not (it has no hook), nor does libdeflate (about 11 KiB
 * for each thread that decodes PNG). `alloc` gets the alignment wanted, a power of two >= 16. */
struct pst_allocator {
    /* NULL when there is no memory. */
    void *(*alloc)(void *ctx, size_t alignment, size_t nbytes);
    void (*free)(void *ctx, void *memory, size_t nbytes); /* `memory` is never NULL. */
    void *ctx;
};

/* Sets the hooks that provide all memory of the library, for the whole process.
 *
 * allocator: copied. NULL restores the C library's functions.
 *
 * PST_ERROR_STATE: memory of the library is in use. PST_ERROR_ARGUMENT: a hook is NULL.
 *
 * Not thread-safe: call it before anything else. Any thread may call the hooks. */
PST_WARN_UNUSED enum pst_status pst_set_allocator(const struct pst_allocator *allocator,
                                                  struct pst_error *err);

/* Bytes that the library holds now, and calls of the allocator so far. Thread-safe. */
struct pst_memory_stats {
    /* Bytes that the library holds now. */
    uint64_t live_nbytes;
    /* Calls of the allocator since the process began. */
    uint64_t n_alloc;
};

/* Says how much memory the library holds now and how often it called the allocator.
 *
 * stats: the caller's struct, written as a whole.
 * stats_nbytes: sizeof *stats.
 *
 * Cannot fail. Any thread. */
void pst_memory_stats(struct pst_memory_stats *stats, size_t stats_nbytes);

/* Importance of a message, the most important first. */
enum pst_log_level { PST_LOG_ERROR = 0, PST_LOG_WARNING = 1, PST_LOG_INFO = 2, PST_LOG_DEBUG = 3 };

/* Receives a message. `room` names the part of the library that sends it; `text` is one line. Both
 * are valid during the call only. The thread that has the message makes the call and waits for its
 * return. */
typedef void (*pst_log_fn)(void *ctx, enum pst_log_level level, const char *room, const char *text);

/* Sets where messages go, for the whole process. Without it they go nowhere.
 *
 * fn: called with each message, by any thread, perhaps by several at once. NULL: messages go
 *     nowhere again.
 * ctx: given to fn as it is. It belongs to the caller and must live as long as fn is set.
 * level: an enum pst_log_level: less important messages are dropped. Negative:
 *     PENSTOCK_LOG_LEVEL=error|warning|info|debug in the environment says it, warning where that
 *     is not set.
 *
 * Call it before other threads use the library. */
void pst_set_log(pst_log_fn fn, void *ctx, int level);

/* Describes this build and this machine for bug reports, as one JSON object: version, compiler,
 * codecs and their versions, CPU features found and used, io_uring and why not, page size, cores
 * allowed.
 *
 * buffer: receives UTF-8 and a NUL, cut to fit. May be NULL where capacity is 0.
 * capacity: bytes of buffer.
 *
 * Returns the length of the whole text in bytes without its NUL, as snprintf does. Any thread. */
size_t pst_environment_json(char *buffer, size_t capacity);

/* Number of cores for this process, at least 1: a good num_workers of a loader. Affinity and the
 * CPU quotas of the control groups (version 1 and 2, with their parents) limit it. It is divided
 * among the processes that a launcher started on this machine. Launchers are known by
 * LOCAL_WORLD_SIZE (torchrun), OMPI_COMM_WORLD_LOCAL_SIZE and the steps of srun.
 *
 * Any thread, unless another thread changes the environment. */
uint32_t pst_cores(void);

/* Checks PENSTOCK_CPU_MASK=c|avx2|avx512|neon, which lowers the level of SIMD that is used.
 * pst_dataset_open and pst_loader_open check it, too.
 *
 * PST_ERROR_ARGUMENT: the variable has another value.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_environment_check(struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
