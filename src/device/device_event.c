/* device_event.c - events, which mark places in the work of our own and foreign streams. An event
 * records the time by the GPU's clock. Threads that wait for an event sleep. A stream of another
 * context or GPU may await an event; only a stream of the event's GPU may record it. */
#include "device/device_int.h"

#include "base/alloc.h"
#include "base/fail.h"

enum pst_status psti_device_event_open(struct psti_device *device, struct psti_event **out,
                                       struct pst_error *err)
{
    *out = NULL;
    struct psti_event *event = psti_calloc(1, sizeof *event);
    if (!event)
        return psti_fail(err, PST_ERROR_MEMORY, "device", "no memory for an event");
    event->device = device;
    enum pst_status status;
    PSTI_DRIVER_RUN(status, device, PSTI_CU_OUT_OF_MEMORY,
                    event_create(&event->handle, PSTI_CU_EVENT_BLOCKING_SYNC), err,
                    "making an event");
    if (status != PST_OK)
        psti_free(event);
    else
        *out = event;
    return status;
}

void psti_device_event_close(struct psti_event **event)
{
    struct psti_event *closed = *event;
    *event = NULL;
    if (!closed)
        return;
    if (psti_device_enter_to_close(closed->device)) {
        (void)closed->device->driver.event_destroy(closed->handle);
        psti_device_leave(closed->device);
    }
    psti_free(closed);
}

static enum pst_status record(struct psti_event *event, psti_cu_stream stream,
                              struct pst_error *err)
{
    enum pst_status status;
    PSTI_DRIVER_RUN(status, event->device, PSTI_CU_UNKNOWN, event_record(event->handle, stream),
                    err, "recording an event");
    return status;
}

/* Makes a stream wait for an event. `device` is the stream's device. */
static enum pst_status await(const struct psti_device *device, psti_cu_stream stream,
                             const struct psti_event *event, struct pst_error *err)
{
    enum pst_status status;
    PSTI_DRIVER_RUN(status, device, PSTI_CU_UNKNOWN, stream_await(stream, event->handle, 0), err,
                    "letting a stream wait for an event");
    return status;
}

enum pst_status psti_device_event_record(struct psti_event *event, struct psti_stream *stream,
                                         struct pst_error *err)
{
    return record(event, stream->handle, err);
}

enum pst_status psti_device_event_await(struct psti_event *event, struct psti_stream *stream,
                                        struct pst_error *err)
{
    return await(stream->device, stream->handle, event, err);
}

enum pst_status psti_device_event_record_foreign(struct psti_event *event, uint64_t stream,
                                                 struct pst_error *err)
{
    return record(event, (psti_cu_stream)(uintptr_t)stream, err);
}

enum pst_status psti_device_event_await_foreign(struct psti_event *event, uint64_t stream,
                                                struct pst_error *err)
{
    return await(event->device, (psti_cu_stream)(uintptr_t)stream, event, err);
}

enum pst_status psti_device_event_is_done(struct psti_event *event, bool *done,
                                          struct pst_error *err)
{
    const struct psti_device *device = event->device;
    *done = false;
    enum pst_status status = psti_device_enter(device, err);
    if (status != PST_OK)
        return status;
    unsigned result = PSTI_DRIVER_CALL(device, PSTI_CU_UNKNOWN, event_query(event->handle));
    *done = result == PSTI_CU_SUCCESS;
    if (result == PSTI_CU_NOT_READY)
        result = PSTI_CU_SUCCESS;
    status = psti_device_check(device, result, err, "querying an event");
    psti_device_leave(device);
    return status;
}

enum pst_status psti_device_event_sync(struct psti_event *event, struct pst_error *err)
{
    enum pst_status status;
    PSTI_DRIVER_RUN(status, event->device, PSTI_CU_UNKNOWN, event_sync(event->handle), err,
                    "waiting for an event");
    return status;
}

uint64_t psti_device_event_elapsed_ns(struct psti_event *begin, struct psti_event *end)
{
    const struct psti_device *device = begin->device;
    float ms = 0;
    if (psti_device_enter(device, NULL) != PST_OK)
        return 0;
    unsigned result = PSTI_DRIVER_CALL(device, PSTI_CU_UNKNOWN,
                                       event_elapsed(&ms, begin->handle, end->handle));
    psti_device_leave(device);
    return result == PSTI_CU_SUCCESS && ms > 0 ? (uint64_t)(ms * 1e6) : 0;
}
