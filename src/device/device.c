/* device.c - opens and closes a GPU: its context, its properties, the kernels loaded into it.
 *
 * The context is the device's primary context, which frameworks also use, so addresses and streams
 * can be shared. Each call pushes the context and pops it at the end, so the calling thread keeps
 * its own current context. A handle records its process. In a forked child, which must not call the
 * driver, every function returns PST_ERROR_FORKED, and closing frees host memory only. */
#include "device/device_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The lowest compute capability for which the kernels are compiled, major and minor number. */
#define CAPABILITY_LEAST_MAJOR 7
#define CAPABILITY_LEAST_MINOR 5
#define REASON_CAP 256

enum pst_status psti_device_check_process(const struct psti_device *device, struct pst_error *err)
{
    if (device->owner == getpid())
        return PST_OK;
    return psti_fail(err, PST_ERROR_FORKED, "device",
                     "GPU %u was opened by the parent of this forked process: CUDA does not work "
                     "here, start processes with spawn",
                     device->info.ordinal);
}

enum pst_status psti_device_enter(const struct psti_device *device, struct pst_error *err)
{
    enum pst_status status = psti_device_check_process(device, err);
    if (status != PST_OK)
        return status;
    unsigned result = PSTI_DRIVER_CALL(device, PSTI_CU_UNKNOWN, context_push(device->context));
    return psti_device_check(device, result, err, "making the context current");
}

bool psti_device_enter_to_close(const struct psti_device *device)
{
    return device->owner == getpid() &&
           device->driver.context_push(device->context) == PSTI_CU_SUCCESS;
}

void psti_device_leave(const struct psti_device *device)
{
    psti_cu_context popped;
    (void)device->driver.context_pop(&popped);
}

static enum pst_status status_of(unsigned result)
{
    switch (result) {
    case PSTI_CU_SUCCESS:
        return PST_OK;
    case PSTI_CU_OUT_OF_MEMORY:
        return PST_ERROR_MEMORY;
    case PSTI_CU_STUB_LIBRARY:
    case PSTI_CU_NO_DEVICE:
    case PSTI_CU_INVALID_DEVICE:
    case PSTI_CU_NO_BINARY_FOR_GPU:
    case PSTI_CU_UNSUPPORTED_PTX_VERSION:
    case PSTI_CU_NOT_SUPPORTED:
    case PSTI_CU_SYSTEM_DRIVER_MISMATCH:
    case PSTI_CU_COMPAT_NOT_SUPPORTED:
        return PST_ERROR_UNSUPPORTED;
    default:
        return PST_ERROR_DEVICE;
    }
}

enum pst_status psti_device_check(const struct psti_device *device, unsigned result,
                                  struct pst_error *err, const char *format, ...)
{
    if (result == PSTI_CU_SUCCESS)
        return PST_OK;
    char tried[200], text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(tried, sizeof tried, format, args);
    va_end(args);
    psti_device_driver_describe(&device->driver, result, text, sizeof text);
    return psti_fail(err, status_of(result), "device", "GPU %u: %s: %s", device->info.ordinal,
                     tried, text);
}

/* Returns the number of GPUs of an open driver. If it is 0, `reason` says why. */
static uint32_t count_gpus(const struct psti_driver *driver, char *reason, size_t reason_nbytes)
{
    char text[160];
    int n = 0;
    unsigned result = driver->device_count(&n);
    if (result != PSTI_CU_SUCCESS) {
        psti_device_driver_describe(driver, result, text, sizeof text);
        snprintf(reason, reason_nbytes, "cuDeviceGetCount: %s", text);
        return 0;
    }
    if (n <= 0)
        snprintf(reason, reason_nbytes, "the CUDA driver finds no GPU");
    return n > 0 ? (uint32_t)n : 0;
}

uint32_t psti_device_count(char *reason, size_t reason_nbytes)
{
    char own[REASON_CAP] = "";
    struct psti_driver driver;
    uint32_t n = 0;
    if (psti_device_driver_open(&driver, own, sizeof own))
        n = count_gpus(&driver, own, sizeof own);
    if (reason && reason_nbytes)
        snprintf(reason, reason_nbytes, "%s", own);
    return n;
}

uint32_t psti_device_current(void)
{
    struct psti_driver driver;
    char reason[REASON_CAP];
    int current, handle;
    if (!psti_device_driver_open(&driver, reason, sizeof reason) ||
        driver.context_device(&current) != PSTI_CU_SUCCESS)
        return 0;
    uint32_t n = count_gpus(&driver, reason, sizeof reason);
    for (uint32_t i = 0; i < n; i++)
        if (driver.device_get(&handle, (int)i) == PSTI_CU_SUCCESS && handle == current)
            return i;
    return 0;
}

static enum pst_status read_number(const struct psti_device *device, unsigned number, uint32_t *out,
                                   struct pst_error *err)
{
    int value = 0;
    unsigned result =
        PSTI_DRIVER_CALL(device, PSTI_CU_UNKNOWN, device_number(&value, number, device->handle));
    *out = value > 0 ? (uint32_t)value : 0;
    return psti_device_check(device, result, err, "reading attribute %u", number);
}

/* Fills in device->info. Fails for a GPU that no kernel was compiled for. */
static enum pst_status read_facts(struct psti_device *device, struct pst_error *err)
{
    struct psti_device_info *info = &device->info;
    int version = 0;
    size_t nbytes = 0;
    unsigned result =
        PSTI_DRIVER_CALL(device, PSTI_CU_UNKNOWN, device_get(&device->handle, (int)info->ordinal));
    if (result == PSTI_CU_SUCCESS)
        result = device->driver.device_name(info->name, sizeof info->name, device->handle);
    if (result == PSTI_CU_SUCCESS)
        result = device->driver.device_memory(&nbytes, device->handle);
    if (result == PSTI_CU_SUCCESS)
        result = device->driver.version(&version);
    enum pst_status status =
        psti_device_check(device, result, err, "reading name, memory and version");
    const struct {
        unsigned number;
        uint32_t *out;
    } numbers[] = {
        {PSTI_CU_DEVICE_CAPABILITY_MAJOR, &info->capability_major},
        {PSTI_CU_DEVICE_CAPABILITY_MINOR, &info->capability_minor},
        {PSTI_CU_DEVICE_PROCESSORS, &info->n_processors},
        {PSTI_CU_DEVICE_SHARED_OPTIN, &info->shared_nbytes_max},
    };
    for (size_t i = 0; status == PST_OK && i < sizeof numbers / sizeof numbers[0]; i++)
        status = read_number(device, numbers[i].number, numbers[i].out, err);
    if (status != PST_OK)
        return status;
    info->name[sizeof info->name - 1] = '\0';
    info->memory_nbytes = nbytes;
    info->driver_version = (uint32_t)version;
    if (info->capability_major * 10 + info->capability_minor <
        CAPABILITY_LEAST_MAJOR * 10 + CAPABILITY_LEAST_MINOR)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "device",
                         "GPU %u (%s) has compute capability %u.%u, %d.%d is needed", info->ordinal,
                         info->name, info->capability_major, info->capability_minor,
                         CAPABILITY_LEAST_MAJOR, CAPABILITY_LEAST_MINOR);
    return PST_OK;
}

static enum pst_status read_priorities(struct psti_device *device, struct pst_error *err)
{
    int least = 0, greatest = 0;
    enum pst_status status;
    PSTI_DRIVER_RUN(status, device, PSTI_CU_UNKNOWN, priorities(&least, &greatest), err,
                    "reading the range of priorities");
    device->priority_low = least;
    device->priority_normal = 0;
    return status;
}

/* Opens the driver and reads the GPU's properties, without making a context. */
static enum pst_status meet(struct psti_device *device, uint32_t ordinal, struct pst_error *err)
{
    char reason[REASON_CAP] = "";
    uint32_t n = 0;
    device->owner = getpid();
    device->info.ordinal = ordinal;
    if (psti_device_driver_open(&device->driver, reason, sizeof reason))
        n = count_gpus(&device->driver, reason, sizeof reason);
    if (n == 0)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "device", "%s", reason);
    if (ordinal >= n)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "device",
                         "there is no GPU %u: the CUDA driver finds %u", ordinal, n);
    return read_facts(device, err);
}

enum pst_status psti_device_look(uint32_t ordinal, struct psti_device_info *info,
                                 struct pst_error *err)
{
    struct psti_device device = {0};
    enum pst_status status = meet(&device, ordinal, err);
    *info = device.info;
    return status;
}

enum pst_status psti_device_open(const struct psti_device_options *options,
                                 struct psti_device **out, struct pst_error *err)
{
    *out = NULL;
    struct psti_device *device = psti_calloc(1, sizeof *device);
    if (!device)
        return psti_fail(err, PST_ERROR_MEMORY, "device", "no memory to open a GPU");
    device->device_memory.limit = options->device_memory ? options->device_memory : UINT64_MAX;
    device->pinned_memory.limit = options->pinned_memory ? options->pinned_memory : UINT64_MAX;
    enum pst_status status = meet(device, options->ordinal, err);
    if (status == PST_OK) {
        unsigned result = PSTI_DRIVER_CALL(device, PSTI_CU_UNKNOWN,
                                           context_retain(&device->context, device->handle));
        status = psti_device_check(device, result, err, "starting the context");
        if (status != PST_OK)
            device->context = NULL;
    }
    if (status == PST_OK)
        status = read_priorities(device, err);
    if (status != PST_OK)
        psti_device_close(&device);
    *out = device;
    return status;
}

/* Unloads all kernel images of the device. The context must be current. */
static void unload(struct psti_device *device)
{
    for (uint32_t i = 0; i < device->n_modules; i++)
        (void)device->driver.module_unload(device->modules[i]);
    device->n_modules = 0;
}

void psti_device_close(struct psti_device **device)
{
    struct psti_device *closed = *device;
    *device = NULL;
    if (!closed)
        return;
    if (closed->owner == getpid() && closed->context) {
        if (closed->n_modules && psti_device_enter_to_close(closed)) {
            unload(closed);
            psti_device_leave(closed);
        }
        (void)closed->driver.context_release(closed->handle);
    }
    psti_free(closed->kernels);
    psti_free(closed);
}

void psti_device_info(const struct psti_device *device, struct psti_device_info *info)
{
    *info = device->info;
    info->device_memory_used = atomic_load(&device->device_memory.used);
    info->device_memory_peak = atomic_load(&device->device_memory.peak);
    info->pinned_memory_used = atomic_load(&device->pinned_memory.used);
}

/* Finds a kernel and lets its blocks use all the shared memory of the GPU. *room becomes that
 * memory less the kernel's static shared memory, which on some GPUs is not 0. */
static enum pst_status find_kernel(struct psti_device *device, const char *name,
                                   psti_cu_function *kernel, uint32_t *room, struct pst_error *err)
{
    int nbytes = 0;
    unsigned result = PSTI_CU_NOT_FOUND;
    for (uint32_t i = 0; i < device->n_modules && result == PSTI_CU_NOT_FOUND; i++)
        result = PSTI_DRIVER_CALL(device, PSTI_CU_UNKNOWN,
                                  module_function(kernel, device->modules[i], name));
    enum pst_status status = psti_device_check(device, result, err, "finding kernel %s", name);
    if (status != PST_OK)
        return status;
    result = PSTI_DRIVER_CALL(device, PSTI_CU_UNKNOWN,
                              function_number(&nbytes, PSTI_CU_FUNCTION_SHARED_STATIC, *kernel));
    *room = device->info.shared_nbytes_max - (uint32_t)nbytes;
    if (result == PSTI_CU_SUCCESS)
        result =
            device->driver.function_set(*kernel, PSTI_CU_FUNCTION_SHARED_DYNAMIC_MAX, (int)*room);
    return psti_device_check(device, result, err, "giving shared memory to kernel %s", name);
}

/* Loads all kernel images. The context must be current. */
static enum pst_status load_all(struct psti_device *device, const void *const *images,
                                uint32_t n_images, const char *const *names, uint32_t n_names,
                                psti_cu_function *kernels, struct pst_error *err)
{
    uint32_t room = 0, least = device->info.shared_nbytes_max;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < n_images; i++) {
        unsigned result = PSTI_DRIVER_CALL(device, PSTI_CU_OUT_OF_MEMORY,
                                           module_load(&device->modules[i], images[i]));
        status = psti_device_check(device, result, err, "loading the kernels");
        if (status == PST_OK)
            device->n_modules = i + 1;
    }
    for (uint32_t i = 0; status == PST_OK && i < n_names; i++) {
        status = find_kernel(device, names[i], &kernels[i], &room, err);
        least = room < least ? room : least;
    }
    if (status != PST_OK)
        unload(device);
    else
        device->info.shared_nbytes_max = least;
    return status;
}

enum pst_status psti_device_load_images(struct psti_device *device, const void *const *images,
                                        uint32_t n_images, const char *const *names,
                                        uint32_t n_names, struct pst_error *err)
{
    if (device->n_modules)
        return psti_fail(err, PST_ERROR_STATE, "device", "GPU %u has its kernels already",
                         device->info.ordinal);
    psti_cu_function *kernels = psti_alloc_array(n_names, sizeof *kernels);
    if (!kernels)
        return psti_fail(err, PST_ERROR_MEMORY, "device", "no memory for a list of kernels");
    enum pst_status status = psti_device_enter(device, err);
    if (status == PST_OK) {
        status = load_all(device, images, n_images, names, n_names, kernels, err);
        psti_device_leave(device);
    }
    if (status != PST_OK) {
        psti_free(kernels);
        return status;
    }
    device->kernels = kernels;
    device->n_kernels = n_names;
    return PST_OK;
}
