/* penstock.h - includes all public headers, and declares functions that concern the whole library.
 */
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

/* Version of the library that is running, such as "0.1.0". The macros above are the version of the
 * headers that the program was compiled with.
 *
 * Returns a static string. Any thread. */
const char *pst_version(void);

/* Memory hooks of the program. All memory of the library comes from them, including that of
 * libjpeg-turbo and libpng. Exceptions are libwebp, which has no hook, and libdeflate (about 11 KiB
 * for each thread that decodes PNG). `alloc` gets the required alignment, a power of two >= 16. */
struct pst_allocator {
    /* Returns NULL if there is no memory. */
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

/* Memory that the library holds, and its calls of the allocator. Thread-safe. */
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

/* Importance of a log message, most important first. */
enum pst_log_level { PST_LOG_ERROR = 0, PST_LOG_WARNING = 1, PST_LOG_INFO = 2, PST_LOG_DEBUG = 3 };

/* Function that receives log messages. `room` names the part of the library that sends it; `text`
 * is one line. Both are valid during the call only. The thread that sends the message makes the
 * call and waits for its return. */
typedef void (*pst_log_fn)(void *ctx, enum pst_log_level level, const char *room, const char *text);

/* Sets where log messages go, for the whole process. Initially they are dropped.
 *
 * fn: called with each message, by any thread, perhaps by several at once. NULL: messages are
 *     dropped.
 * ctx: passed to fn. It belongs to the caller and must live as long as fn is set.
 * level: an enum pst_log_level; less important messages are dropped. Negative: the environment
 *     variable PENSTOCK_LOG_LEVEL=error|warning|info|debug decides, or warning if it is not set.
 *
 * Call it before other threads use the library. */
void pst_set_log(pst_log_fn fn, void *ctx, int level);

/* Describes this build and this machine as one JSON object, for bug reports: version, compiler,
 * codecs with versions, CPU features found and used, io_uring or why it is not used, page size,
 * number of usable cores.
 *
 * buffer: receives UTF-8 and a NUL, cut to fit. May be NULL if capacity is 0.
 * capacity: bytes of buffer.
 *
 * Returns the length of the whole text in bytes without its NUL, as snprintf does. Any thread. */
size_t pst_environment_json(char *buffer, size_t capacity);

/* Number of cores for this process, at least 1, which is a good num_workers of a loader. CPU
 * affinity and the CPU quotas of control groups (versions 1 and 2, with parent groups) limit it. If
 * a launcher started several processes on this machine, the cores are divided among them;
 * LOCAL_WORLD_SIZE (torchrun), OMPI_COMM_WORLD_LOCAL_SIZE and the variables of srun's steps tell
 * how many there are.
 *
 * Any thread, as long as no other thread changes the environment. */
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
