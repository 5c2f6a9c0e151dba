/* device_nvjpeg.c - nvJPEG for one GPU: its handles, its memory, the meaning of its results.
 *
 * There are at most two handles: one for lanes, whose Huffman codes the host decodes, and one for
 * the GPU's JPEG engines, if it has some. nvJPEG requests memory block by block from the device's
 * budgets, and again only for larger files, in units of PADDING_NBYTES. A list keeps all blocks. So
 * the budgets get back what was taken, whatever sizes nvJPEG reports, and nothing is leaked. Any
 * thread; a lock guards the list and is never held while the driver is called. */
#include "device/device_nvjpeg_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

#define PADDING_NBYTES ((size_t)1 << 20)
/* First version with the flag for interpolation. */
#define MAJOR_INTERPOLATES 12

static const char *name_of(unsigned result)
{
    switch (result) {
    case PSTI_NVJ_NOT_INITIALIZED:
        return "not initialized";
    case PSTI_NVJ_INVALID_PARAMETER:
        return "invalid parameter";
    case PSTI_NVJ_BAD_JPEG:
        return "bad JPEG";
    case PSTI_NVJ_JPEG_NOT_SUPPORTED:
        return "JPEG not supported";
    case PSTI_NVJ_ALLOCATOR_FAILURE:
        return "allocator failure";
    case PSTI_NVJ_EXECUTION_FAILED:
        return "execution failed";
    case PSTI_NVJ_ARCH_MISMATCH:
        return "not for this GPU";
    case PSTI_NVJ_INTERNAL_ERROR:
        return "internal error";
    case PSTI_NVJ_IMPLEMENTATION_NOT_SUPPORTED:
        return "not implemented";
    case PSTI_NVJ_INCOMPLETE_BITSTREAM:
        return "incomplete bitstream";
    default:
        return "unknown";
    }
}

static enum pst_status status_of(unsigned result)
{
    switch (result) {
    case PSTI_NVJ_SUCCESS:
        return PST_OK;
    case PSTI_NVJ_BAD_JPEG:
        return PST_ERROR_CORRUPT;
    case PSTI_NVJ_INCOMPLETE_BITSTREAM:
        return PST_ERROR_TRUNCATED;
    case PSTI_NVJ_INVALID_PARAMETER:
    case PSTI_NVJ_JPEG_NOT_SUPPORTED:
    case PSTI_NVJ_ARCH_MISMATCH:
    case PSTI_NVJ_IMPLEMENTATION_NOT_SUPPORTED:
        return PST_ERROR_UNSUPPORTED;
    case PSTI_NVJ_ALLOCATOR_FAILURE:
        return PST_ERROR_MEMORY;
    default:
        return PST_ERROR_DEVICE;
    }
}

enum pst_status psti_device_nvjpeg_check(struct psti_nvjpeg *nvjpeg, unsigned result,
                                         const char *doing, struct pst_error *err)
{
    enum pst_status status = status_of(result);
    struct pst_error refusal;
    if (status == PST_OK)
        return PST_OK;
    pthread_mutex_lock(&nvjpeg->lock);
    refusal = nvjpeg->refusal;
    pthread_mutex_unlock(&nvjpeg->lock);
    if (result == PSTI_NVJ_ALLOCATOR_FAILURE && refusal.status != PST_OK)
        return psti_fail(err, refusal.status, "device", "no memory for nvJPEG: %.400s",
                         refusal.text);
    return psti_fail(err, status, "device", "GPU %u: nvJPEG, %s: %s (%u)",
                     nvjpeg->device->info.ordinal, doing, name_of(result), result);
}

/* Memory
 * ------------------------------------------------------------------------------------------------
 */

static enum pst_status take_memory(struct psti_nvjpeg *nvjpeg, struct psti_nvjpeg_block *block,
                                   struct pst_error *err)
{
    const struct psti_nvjpeg_options *options = &nvjpeg->options;
    uint64_t address = 0;
    if (!block->pinned) {
        enum pst_status status = psti_device_alloc(nvjpeg->device, block->nbytes, &address, err);
        block->memory = (void *)(uintptr_t)address;
        return status;
    }
    if (options->claim && !options->claim(options->ctx, block->nbytes))
        return psti_fail(err, PST_ERROR_LIMIT, "device", "host_memory cannot hold %llu more bytes",
                         (unsigned long long)block->nbytes);
    enum pst_status status =
        psti_device_alloc_pinned(nvjpeg->device, block->nbytes, &block->memory, err);
    if (status != PST_OK && options->claim)
        options->give_back(options->ctx, block->nbytes);
    return status;
}

static void return_memory(struct psti_nvjpeg *nvjpeg, struct psti_nvjpeg_block *block)
{
    const struct psti_nvjpeg_options *options = &nvjpeg->options;
    if (!block->pinned) {
        psti_device_free(nvjpeg->device, (uint64_t)(uintptr_t)block->memory, block->nbytes);
    } else {
        psti_device_free_pinned(nvjpeg->device, block->memory, block->nbytes);
        if (options->claim)
            options->give_back(options->ctx, block->nbytes);
    }
    psti_free(block);
}

static int allocate(struct psti_nvjpeg *nvjpeg, void **memory, size_t nbytes, bool pinned)
{
    struct pst_error err;
    struct psti_nvjpeg_block *block = psti_calloc(1, sizeof *block);
    pst_error_clear(&err);
    *memory = NULL;
    enum pst_status status =
        block ? PST_OK : psti_fail(&err, PST_ERROR_MEMORY, "device", "no memory to note a block");
    if (status == PST_OK) {
        block->nbytes = nbytes ? nbytes : 1;
        block->pinned = pinned;
        status = take_memory(nvjpeg, block, &err);
    }
    pthread_mutex_lock(&nvjpeg->lock);
    if (status != PST_OK) {
        nvjpeg->refusal = err;
    } else {
        block->next = nvjpeg->blocks;
        nvjpeg->blocks = block;
        nvjpeg->nbytes[pinned] += block->nbytes;
        nvjpeg->n_allocations++;
        *memory = block->memory;
    }
    pthread_mutex_unlock(&nvjpeg->lock);
    if (status != PST_OK)
        psti_free(block);
    return status == PST_OK ? 0 : 1;
}

static int release(struct psti_nvjpeg *nvjpeg, const void *memory)
{
    struct psti_nvjpeg_block *found = NULL;
    if (!memory)
        return 0;
    pthread_mutex_lock(&nvjpeg->lock);
    for (struct psti_nvjpeg_block **at = &nvjpeg->blocks; *at; at = &(*at)->next)
        if ((*at)->memory == memory) {
            found = *at;
            *at = found->next;
            nvjpeg->nbytes[found->pinned] -= found->nbytes;
            break;
        }
    pthread_mutex_unlock(&nvjpeg->lock);
    if (found)
        return_memory(nvjpeg, found);
    return found ? 0 : 1;
}

static int alloc_device(void *ctx, void **memory, size_t nbytes, psti_cu_stream stream)
{
    (void)stream;
    return allocate(ctx, memory, nbytes, false);
}

static int alloc_pinned(void *ctx, void **memory, size_t nbytes, psti_cu_stream stream)
{
    (void)stream;
    return allocate(ctx, memory, nbytes, true);
}

/* Frees at once, as cudaFree and cudaFreeHost do, which nvJPEG uses by default. */
static int free_any(void *ctx, void *memory, size_t nbytes, psti_cu_stream stream)
{
    (void)nbytes, (void)stream;
    return release(ctx, memory);
}

/* Handles
 * ------------------------------------------------------------------------------------------------
 */

/* Creates a handle, with interpolation if this version has the flag. The context is current. */
static unsigned create(struct psti_nvjpeg *nvjpeg, unsigned backend, psti_nvj_handle *handle)
{
    psti_nvj_device_allocator *device = &nvjpeg->device_allocator;
    psti_nvj_pinned_allocator *pinned = &nvjpeg->pinned_allocator;
    unsigned flags = PSTI_NVJ_BITSTREAM_STRICT;
    bool interpolates = nvjpeg->library.major >= MAJOR_INTERPOLATES;
    unsigned result = PSTI_NVJ_INVALID_PARAMETER;
    if (interpolates)
        result = PSTI_NVJPEG_CALL(nvjpeg, create(backend, device, pinned,
                                                 flags | (unsigned)PSTI_NVJ_INTERPOLATION, handle));
    if (result == PSTI_NVJ_INVALID_PARAMETER) {
        interpolates = false;
        result = PSTI_NVJPEG_CALL(nvjpeg, create(backend, device, pinned, flags, handle));
    }
    if (result != PSTI_NVJ_SUCCESS) {
        *handle = NULL;
        return result;
    }
    nvjpeg->interpolates = interpolates;
    result = PSTI_NVJPEG_CALL(nvjpeg, pad_device(PADDING_NBYTES, *handle));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, pad_pinned(PADDING_NBYTES, *handle));
    return result;
}

/* Creates the handle for engines. Without engines, or without libnvcuvid, the part of the driver
 * that has them, there is none, and lanes do all the work. Errors of the GPU itself are left to the
 * other handle. */
static unsigned create_engines(struct psti_nvjpeg *nvjpeg)
{
    unsigned n_engines = 0, n_cores = 0;
    if (nvjpeg->options.no_engines)
        return PSTI_NVJ_SUCCESS;
    unsigned result = create(nvjpeg, PSTI_NVJ_BACKEND_HARDWARE, &nvjpeg->engines);
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, engines(nvjpeg->engines, &n_engines, &n_cores));
    if (result == PSTI_NVJ_SUCCESS && n_engines > 0) {
        nvjpeg->n_engines = n_engines;
        return result;
    }
    if (nvjpeg->engines)
        (void)nvjpeg->api.destroy(nvjpeg->engines);
    nvjpeg->engines = NULL;
    return result == PSTI_NVJ_ALLOCATOR_FAILURE ? result : PSTI_NVJ_SUCCESS;
}

static enum pst_status open_handles(struct psti_nvjpeg *nvjpeg, struct pst_error *err)
{
    enum pst_status status = psti_device_enter(nvjpeg->device, err);
    if (status != PST_OK)
        return status;
    unsigned result = create_engines(nvjpeg);
    if (result == PSTI_NVJ_SUCCESS) /* created last, so that `interpolates` is that of the handle
                                       that always exists */
        result = create(nvjpeg, PSTI_NVJ_BACKEND_HYBRID, &nvjpeg->handle);
    psti_device_leave(nvjpeg->device);
    return psti_device_nvjpeg_check(nvjpeg, result, "starting", err);
}

enum pst_status psti_device_nvjpeg_open(struct psti_device *device,
                                        const struct psti_nvjpeg_options *options,
                                        struct psti_nvjpeg **out, struct pst_error *err)
{
    *out = NULL;
    struct psti_nvjpeg *nvjpeg = psti_calloc(1, sizeof *nvjpeg);
    if (!nvjpeg)
        return psti_fail(err, PST_ERROR_MEMORY, "device", "no memory for nvJPEG");
    nvjpeg->device = device;
    nvjpeg->options = *options;
    nvjpeg->device_allocator = (psti_nvj_device_allocator){alloc_device, free_any, nvjpeg};
    nvjpeg->pinned_allocator = (psti_nvj_pinned_allocator){alloc_pinned, free_any, nvjpeg};
    pthread_mutex_init(&nvjpeg->lock, NULL);
    pst_error_clear(&nvjpeg->refusal);
    enum pst_status status =
        psti_device_nvjpeg_find(device->info.driver_version, &nvjpeg->library, &nvjpeg->api, err);
    if (status == PST_OK)
        status = open_handles(nvjpeg, err);
    if (status != PST_OK)
        psti_device_nvjpeg_close(&nvjpeg);
    *out = nvjpeg;
    return status;
}

void psti_device_nvjpeg_close(struct psti_nvjpeg **nvjpeg_ptr)
{
    struct psti_nvjpeg *nvjpeg = *nvjpeg_ptr;
    *nvjpeg_ptr = NULL;
    if (!nvjpeg)
        return;
    if ((nvjpeg->handle || nvjpeg->engines) && psti_device_enter_to_close(nvjpeg->device)) {
        if (nvjpeg->handle)
            (void)nvjpeg->api.destroy(nvjpeg->handle);
        if (nvjpeg->engines)
            (void)nvjpeg->api.destroy(nvjpeg->engines);
        psti_device_leave(nvjpeg->device);
    }
    while (nvjpeg->blocks) { /* blocks of a GPU that is gone, or of a parent process */
        struct psti_nvjpeg_block *block = nvjpeg->blocks;
        nvjpeg->blocks = block->next;
        return_memory(nvjpeg, block);
    }
    pthread_mutex_destroy(&nvjpeg->lock);
    psti_free(nvjpeg);
}

void psti_device_nvjpeg_info(struct psti_nvjpeg *nvjpeg, struct psti_device_nvjpeg_info *info)
{
    pthread_mutex_lock(&nvjpeg->lock);
    *info = (struct psti_device_nvjpeg_info){.library = nvjpeg->library,
                                             .n_engines = nvjpeg->n_engines,
                                             .interpolates = nvjpeg->interpolates,
                                             .n_allocations = nvjpeg->n_allocations,
                                             .memory_nbytes = nvjpeg->nbytes[0],
                                             .host_memory_nbytes = nvjpeg->nbytes[1]};
    pthread_mutex_unlock(&nvjpeg->lock);
}
