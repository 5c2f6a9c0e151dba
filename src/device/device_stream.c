/* device_stream.c - our own CUDA streams: copies, kernel launches, and waiting for them. One thread
 * at a time may give work to a stream, which its owner must ensure. Nothing is allocated after
 * psti_device_stream_open. */
#include "device/device_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <unistd.h>

#define LAUNCH_ARGS_MAX 4000
#define LAUNCH_WARPS_MAX 32

enum pst_status psti_device_stream_open(struct psti_device *device, bool low_priority,
                                        struct psti_stream **out, struct pst_error *err)
{
    *out = NULL;
    struct psti_stream *stream = psti_calloc(1, sizeof *stream);
    if (!stream)
        return psti_fail(err, PST_ERROR_MEMORY, "device", "no memory for a stream");
    stream->device = device;
    enum pst_status status = psti_device_enter(device, err);
    if (status != PST_OK)
        goto out;
    unsigned result = PSTI_DRIVER_CALL(
        device, PSTI_CU_OUT_OF_MEMORY,
        stream_create(&stream->handle, PSTI_CU_STREAM_NON_BLOCKING,
                      low_priority ? device->priority_low : device->priority_normal));
    if (result != PSTI_CU_SUCCESS)
        stream->handle = NULL;
    else
        result = PSTI_DRIVER_CALL(device, PSTI_CU_OUT_OF_MEMORY,
                                  event_create(&stream->waiter, PSTI_CU_EVENT_BLOCKING_SYNC |
                                                                    PSTI_CU_EVENT_DISABLE_TIMING));
    status = psti_device_check(device, result, err, "making a stream");
    if (status != PST_OK && stream->handle)
        (void)device->driver.stream_destroy(stream->handle);
    psti_device_leave(device);
out:
    if (status != PST_OK)
        psti_free(stream);
    else
        *out = stream;
    return status;
}

void psti_device_stream_close(struct psti_stream **stream)
{
    struct psti_stream *closed = *stream;
    *stream = NULL;
    if (!closed)
        return;
    const struct psti_device *device = closed->device;
    if (psti_device_enter_to_close(device)) {
        if (device->driver.event_record(closed->waiter, closed->handle) == PSTI_CU_SUCCESS)
            (void)device->driver.event_sync(closed->waiter);
        (void)device->driver.event_destroy(closed->waiter);
        (void)device->driver.stream_destroy(closed->handle);
        psti_device_leave(device);
    }
    psti_free(closed);
}

/* This function and the next three do not call the driver for 0 bytes. */
enum pst_status psti_device_stream_upload(struct psti_stream *stream, uint64_t to, const void *from,
                                          size_t nbytes, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (nbytes > 0)
        PSTI_DRIVER_RUN(status, stream->device, PSTI_CU_UNKNOWN,
                        upload(to, from, nbytes, stream->handle), err, "uploading %zu bytes",
                        nbytes);
    return status;
}

enum pst_status psti_device_stream_download(struct psti_stream *stream, void *to, uint64_t from,
                                            size_t nbytes, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (nbytes > 0)
        PSTI_DRIVER_RUN(status, stream->device, PSTI_CU_UNKNOWN,
                        download(to, from, nbytes, stream->handle), err, "downloading %zu bytes",
                        nbytes);
    return status;
}

enum pst_status psti_device_stream_copy(struct psti_stream *stream, uint64_t to, uint64_t from,
                                        size_t nbytes, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (nbytes > 0)
        PSTI_DRIVER_RUN(status, stream->device, PSTI_CU_UNKNOWN,
                        copy(to, from, nbytes, stream->handle), err, "copying %zu bytes", nbytes);
    return status;
}

enum pst_status psti_device_stream_clear(struct psti_stream *stream, uint64_t at, size_t nbytes,
                                         struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (nbytes > 0)
        PSTI_DRIVER_RUN(status, stream->device, PSTI_CU_UNKNOWN,
                        clear(at, 0, nbytes, stream->handle), err, "clearing %zu bytes", nbytes);
    return status;
}

static enum pst_status check_launch(const struct psti_device *device, uint32_t kernel,
                                    uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                                    size_t args_nbytes, struct pst_error *err)
{
    if (kernel < device->n_kernels && n_blocks > 0 && n_blocks <= INT32_MAX && n_warps > 0 &&
        n_warps <= LAUNCH_WARPS_MAX && shared_nbytes <= device->info.shared_nbytes_max &&
        args_nbytes > 0 && args_nbytes <= LAUNCH_ARGS_MAX)
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, "device",
                     "GPU %u: kernel %u of %u with %u blocks of %u warps, %u bytes of shared "
                     "memory (at most %u) and %zu bytes of arguments cannot be launched",
                     device->info.ordinal, kernel, device->n_kernels, n_blocks, n_warps,
                     shared_nbytes, device->info.shared_nbytes_max, args_nbytes);
}

enum pst_status psti_device_stream_launch(struct psti_stream *stream, uint32_t kernel,
                                          uint32_t n_blocks, uint32_t n_warps,
                                          uint32_t shared_nbytes, const void *args,
                                          size_t args_nbytes, struct pst_error *err)
{
    const struct psti_device *device = stream->device;
    enum pst_status status =
        check_launch(device, kernel, n_blocks, n_warps, shared_nbytes, args_nbytes, err);
    if (status != PST_OK)
        return status;
    /* Passing the arguments as one buffer lets the driver compare its size with that of the
     * kernel's parameter. */
    void *extra[] = {(void *)(uintptr_t)PSTI_CU_LAUNCH_BUFFER, (void *)(uintptr_t)args,
                     (void *)(uintptr_t)PSTI_CU_LAUNCH_NBYTES, &args_nbytes,
                     (void *)(uintptr_t)PSTI_CU_LAUNCH_END};
    PSTI_DRIVER_RUN(status, device, PSTI_CU_UNKNOWN,
                    launch(device->kernels[kernel], n_blocks, 1, 1, n_warps * 32, 1, 1,
                           shared_nbytes, stream->handle, NULL, extra),
                    err, "launching kernel %u on %u blocks of %u warps", kernel, n_blocks, n_warps);
    return status;
}

enum pst_status psti_device_stream_sync(struct psti_stream *stream, struct pst_error *err)
{
    const struct psti_device *device = stream->device;
    enum pst_status status = psti_device_enter(device, err);
    if (status != PST_OK)
        return status;
    unsigned result =
        PSTI_DRIVER_CALL(device, PSTI_CU_UNKNOWN, event_record(stream->waiter, stream->handle));
    if (result == PSTI_CU_SUCCESS)
        result = device->driver.event_sync(stream->waiter);
    status = psti_device_check(device, result, err, "waiting for a stream");
    psti_device_leave(device);
    return status;
}
