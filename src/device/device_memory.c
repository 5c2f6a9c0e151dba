/* device_memory.c - memory on the GPU and pinned host memory, each with a budget. Bytes are taken
 * from the budget by compare-and-exchange before the driver is called, so the limit holds for any
 * number of threads. Any thread. */
#include "device/device_int.h"

#include "base/fail.h"

#include <inttypes.h>
#include <unistd.h>

/* Takes bytes from a budget. Returns false if it has fewer left. */
static bool claim(struct psti_budget *budget, uint64_t nbytes)
{
    uint64_t used = atomic_load(&budget->used), peak;
    do {
        if (nbytes > budget->limit || used > budget->limit - nbytes)
            return false;
    } while (!atomic_compare_exchange_weak(&budget->used, &used, used + nbytes));
    peak = atomic_load(&budget->peak);
    while (peak < used + nbytes &&
           !atomic_compare_exchange_weak(&budget->peak, &peak, used + nbytes)) {
    }
    return true;
}

static void give_back(struct psti_budget *budget, uint64_t nbytes)
{
    atomic_fetch_sub(&budget->used, nbytes);
}

static enum pst_status fail_budget(const struct psti_device *device,
                                   const struct psti_budget *budget, uint64_t nbytes,
                                   const char *what, struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_LIMIT, "device",
                     "GPU %u: %" PRIu64 " bytes of %s memory are wanted, %" PRIu64 " of %" PRIu64
                     " are in use",
                     device->info.ordinal, nbytes, what, atomic_load(&budget->used), budget->limit);
}

enum pst_status psti_device_alloc(struct psti_device *device, uint64_t nbytes, uint64_t *address,
                                  struct pst_error *err)
{
    psti_cu_address found = 0;
    *address = 0;
    if (nbytes == 0)
        return PST_OK;
    if (!claim(&device->device_memory, nbytes))
        return fail_budget(device, &device->device_memory, nbytes, "device", err);
    enum pst_status status;
    PSTI_DRIVER_RUN(status, device, PSTI_CU_OUT_OF_MEMORY, alloc(&found, nbytes), err,
                    "allocating %" PRIu64 " bytes", nbytes);
    if (status != PST_OK)
        give_back(&device->device_memory, nbytes);
    else
        *address = found;
    return status;
}

void psti_device_free(struct psti_device *device, uint64_t address, uint64_t nbytes)
{
    if (!address)
        return;
    give_back(&device->device_memory, nbytes);
    if (psti_device_enter_to_close(device)) {
        (void)device->driver.free(address);
        psti_device_leave(device);
    }
}

enum pst_status psti_device_alloc_pinned(struct psti_device *device, uint64_t nbytes, void **memory,
                                         struct pst_error *err)
{
    void *found = NULL;
    *memory = NULL;
    if (nbytes == 0)
        return PST_OK;
    if (!claim(&device->pinned_memory, nbytes))
        return fail_budget(device, &device->pinned_memory, nbytes, "pinned", err);
    enum pst_status status;
    PSTI_DRIVER_RUN(status, device, PSTI_CU_OUT_OF_MEMORY,
                    host_alloc(&found, nbytes, PSTI_CU_HOST_PORTABLE), err,
                    "pinning %" PRIu64 " bytes of the host", nbytes);
    if (status != PST_OK)
        give_back(&device->pinned_memory, nbytes);
    else
        *memory = found;
    return status;
}

void psti_device_free_pinned(struct psti_device *device, void *memory, uint64_t nbytes)
{
    if (!memory)
        return;
    give_back(&device->pinned_memory, nbytes);
    if (psti_device_enter_to_close(device)) {
        (void)device->driver.host_free(memory);
        psti_device_leave(device);
    }
}

enum pst_status psti_device_lock(struct psti_device *device, const void *memory, size_t nbytes,
                                 struct pst_error *err)
{
    enum pst_status status;
    PSTI_DRIVER_RUN(status, device, PSTI_CU_OUT_OF_MEMORY,
                    host_register((void *)(uintptr_t)memory, nbytes,
                                  PSTI_CU_HOST_REGISTER_PORTABLE | PSTI_CU_HOST_REGISTER_READ_ONLY),
                    err, "page-locking %zu bytes of the host", nbytes);
    return status;
}

void psti_device_unlock(struct psti_device *device, const void *memory)
{
    if (psti_device_enter_to_close(device)) {
        (void)device->driver.host_unregister((void *)(uintptr_t)memory);
        psti_device_leave(device);
    }
}
