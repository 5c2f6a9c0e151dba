/* loader_pin.c - slots in page-locked memory, allocated by the CUDA driver.
 *
 * In: options.pin_memory. Out: functions that the pool calls to make, free and reuse slots. The
 * driver, and the GPU whose context is used, stay open as long as the pool, because the last batch
 * may be released after the loader was closed.
 *
 * Copies to a GPU are asynchronous, so a batch may be released before the GPU has read it. At the
 * release an event is recorded in the GPU's legacy default stream. The slot is not written before
 * that event is done. */
#include "loader/placement/loader_pin.h"

#include "device/device.h"
#include "loader/loader_handle.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>

#define STREAM_LEGACY 1

struct psti_loader_pins {
    struct psti_device *device; /* NULL: there is no GPU, and slots lie in plain memory */
    bool may_be_plain;
    struct pst_error refusal; /* why page-locking failed; status PST_OK: it did not fail. Guarded by
                                 the pool's lock */
    atomic_uint_fast64_t n_plain;
};

struct pin {
    void *memory;
    size_t nbytes;
    struct psti_event *last_read;
    bool read_pending; /* `last_read` was recorded at the last release, and the GPU may not have
                          reached it */
};

static void free_pin(struct psti_loader_pins *pins, struct pin *pin)
{
    if (!pin)
        return;
    if (pin->read_pending) /* waiting fails only if the GPU is lost */
        (void)psti_device_event_sync(pin->last_read, NULL);
    psti_device_event_close(&pin->last_read);
    psti_device_free_pinned(pins->device, pin->memory, pin->nbytes);
    psti_free(pin);
}

static enum pst_status make_pin(struct psti_loader_pins *pins, size_t nbytes, struct pin **out)
{
    struct pst_error *err = &pins->refusal;
    struct pin *pin = *out = psti_calloc(1, sizeof *pin);
    if (!pin)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a batch");
    enum pst_status status = psti_device_event_open(pins->device, &pin->last_read, err);
    if (status == PST_OK)
        status = psti_device_alloc_pinned(pins->device, nbytes, &pin->memory, err);
    pin->nbytes = nbytes;
    return status;
}

static enum pst_status make(void *ctx, size_t nbytes, struct psti_slot_part *part)
{
    struct psti_loader_pins *pins = ctx;
    struct pin *pin = NULL;
    enum pst_status status = PST_ERROR_UNSUPPORTED; /* stays so without a device, which only
                                                       may_be_plain allows */
    *part = (struct psti_slot_part){0};
    if (pins->device)
        status = make_pin(pins, nbytes, &pin);
    if (status == PST_OK) {
        part->numbers = pin->memory;
        part->own = pin;
        return PST_OK;
    }
    free_pin(pins, pin);
    if (!pins->may_be_plain)
        return status;
    pins->refusal.status = PST_OK;
    atomic_fetch_add_explicit(&pins->n_plain, 1, memory_order_relaxed);
    return PST_OK;
}

static void unmake(void *ctx, struct psti_slot_part *part) { free_pin(ctx, part->own); }

static bool released(void *ctx, struct psti_slot_part *part)
{
    struct pin *pin = part->own;
    (void)ctx;
    pin->read_pending =
        psti_device_event_record_foreign(pin->last_read, STREAM_LEGACY, NULL) == PST_OK;
    return pin->read_pending;
}

static bool is_writable(void *ctx, struct psti_slot_part *part, bool wait)
{
    struct pin *pin = part->own;
    bool done = true;
    (void)ctx;
    /* If waiting fails, the GPU is lost and reads no more, so the slot is free. */
    if (pin->read_pending && wait)
        (void)psti_device_event_sync(pin->last_read, NULL);
    else if (pin->read_pending && psti_device_event_is_done(pin->last_read, &done, NULL) != PST_OK)
        done = true;
    pin->read_pending = !done;
    return done;
}

static void close_pins(void *ctx)
{
    struct psti_loader_pins *pins = ctx;
    psti_device_close(&pins->device);
    psti_free(pins);
}

enum pst_status psti_loader_pins_open(pst_loader *loader, struct psti_loader_pins **out,
                                      struct pst_error *err)
{
    struct psti_loader_pins *pins = psti_calloc(1, sizeof *pins);
    if (!pins)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a GPU");
    pins->may_be_plain = loader->options.pin_memory == PST_PIN_AUTO;
    const struct psti_device_options options = {.ordinal = psti_device_current()};
    struct pst_error cause;
    enum pst_status status = psti_device_open(&options, &pins->device, &cause);
    if (status != PST_OK && !pins->may_be_plain) {
        psti_free(pins);
        return psti_fail(err, status, "loader",
                         "pin_memory needs the CUDA driver and a GPU: %.300s", cause.text);
    }
    psti_batch_pool_set_host(loader->pool, &(struct psti_slot_host){.ctx = pins,
                                                                    .make = make,
                                                                    .unmake = unmake,
                                                                    .released = released,
                                                                    .is_writable = is_writable,
                                                                    .close = close_pins});
    *out = pins;
    return PST_OK;
}

void psti_loader_pins_begin(struct psti_loader_pins *pins) { pins->refusal.status = PST_OK; }

bool psti_loader_pins_refused(const struct psti_loader_pins *pins,
                              const struct psti_batch_pool_stats *stats, struct pst_error *err)
{
    if (pins->refusal.status == PST_OK)
        return false;
    if (!err)
        return true;
    char cause[PST_ERROR_TEXT_CAP];
    snprintf(cause, sizeof cause, "%s", pins->refusal.text);
    psti_fail(err, pins->refusal.status, "loader",
              "no page-locked memory for another batch (%u exist, you hold %u): %.300s",
              stats->n_slots, stats->n_held, cause);
    return true;
}

uint64_t psti_loader_pins_n_plain(const struct psti_loader_pins *pins)
{
    return atomic_load_explicit(&pins->n_plain, memory_order_relaxed);
}
