/* penstock.h - everything: data sets, the loader, and the library itself. */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include <penstock/augment.h>
#include <penstock/cuda.h>
#include <penstock/dataset.h>
#include <penstock/image.h>
#include <penstock/loader.h>
#include <penstock/pli.h>
#include <penstock/status.h>
#include <penstock/writer.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define PST_VERSION_MAJOR 0
#define PST_VERSION_MINOR 1
#define PST_VERSION_PATCH 0

/* "0.1.0": the version of the library that runs (the macros above: of the header compiled against).
 */
const char *pst_version(void);

/* Memory hooks. All memory of the library comes from them; the codecs libjpeg-turbo and libpng
 * allocate through them too; libwebp does not (it has no hook), nor does libdeflate (about 11 KiB
 * for each thread that decodes PNG). `alloc` gets the alignment wanted, a power of two >= 16. */
struct pst_allocator {
    void *(*alloc)(void *ctx, size_t alignment, size_t nbytes); /* NULL when there is no memory */
    void (*free)(void *ctx, void *memory, size_t nbytes);       /* memory is never NULL */
    void *ctx;
};

/* Sets the process-wide hooks; NULL restores the C library's. PST_ERROR_STATE while any memory of
 * the library is in use. Not thread-safe: call it before anything else. */
PST_WARN_UNUSED enum pst_status pst_set_allocator(const struct pst_allocator *allocator,
                                                  struct pst_error *err);

/* Bytes that the library holds now, and calls of the allocator so far. Thread-safe. */
struct pst_memory_stats {
    uint64_t live_nbytes;
    uint64_t n_alloc;
};
void pst_memory_stats(struct pst_memory_stats *stats, size_t stats_nbytes);

enum pst_log_level { PST_LOG_ERROR = 0, PST_LOG_WARNING = 1, PST_LOG_INFO = 2, PST_LOG_DEBUG = 3 };
typedef void (*pst_log_fn)(void *ctx, enum pst_log_level level, const char *room, const char *text);

/* Where messages go: nowhere until this is called (NULL: nowhere again). Messages above `level` are
 * dropped; PENSTOCK_LOG_LEVEL=error|warning|info|debug in the environment sets the level where
 * `level` is negative. The callback may be called by any thread. Call it before other threads use
 * the library. */
void pst_set_log(pst_log_fn fn, void *ctx, int level);

/* What this build and this machine can do, for bug reports: one JSON object (UTF-8, terminated)
 * with version, compiler, codecs and their versions, cpu features found and used, io_uring and why
 * not, page size, cores allowed. Returns the length, as snprintf does. Thread-safe. */
size_t pst_environment_json(char *buffer, size_t capacity);

/* Cores for this process, at least 1: those that affinity and the CPU quotas of its control groups
 * (version 1 and 2, with their parents) leave it, divided among the processes that a launcher
 * started on this machine (LOCAL_WORLD_SIZE of torchrun, OMPI_COMM_WORLD_LOCAL_SIZE, a step of
 * srun): a good num_workers of a loader. Thread-safe, unless another thread changes the
 * environment. */
uint32_t pst_cores(void);

/* CPU paths: PENSTOCK_CPU_MASK=c|avx2|avx512|neon in the environment lowers the level of SIMD used.
 * Another value is PST_ERROR_ARGUMENT from here, pst_dataset_open and pst_loader_open. Thread-safe.
 */
PST_WARN_UNUSED enum pst_status pst_environment_check(struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
