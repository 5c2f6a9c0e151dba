/* device_int.h - declarations that the files of src/device share. */
#ifndef PST_DEVICE_INT_H
#define PST_DEVICE_INT_H

#include "device/device.h"
#include "device/device_driver.h"
#include "device/device_library.h"

#include "base/fault.h"

#include <stdatomic.h>
#include <sys/types.h>

/* A budget: the bytes in use, and their limit. */
struct psti_budget {
    uint64_t limit; /* UINT64_MAX: no limit */
    _Atomic uint64_t used, peak;
};

struct psti_device {
    struct psti_driver driver;
    struct psti_device_info info; /* its counters are copied from the budgets */
    int handle;
    int priority_low, priority_normal;
    psti_cu_context context; /* the retained primary context */
    psti_cu_module modules[PSTI_DEVICE_LIBRARY_IMAGES_MAX];
    uint32_t n_modules; /* 0 until kernels are loaded */
    psti_cu_function *kernels;
    uint32_t n_kernels;
    struct psti_budget device_memory, pinned_memory;
    pid_t owner;
};

struct psti_stream {
    struct psti_device *device;
    psti_cu_stream handle;
    /* An event on which psti_device_stream_sync waits: threads sleep on events, but spin on
     * streams. */
    psti_cu_event waiter;
};

struct psti_event {
    struct psti_device *device;
    psti_cu_event handle;
};

/* Returns PST_ERROR_FORKED in a forked child of the process that opened the device, else PST_OK. */
enum pst_status psti_device_check_process(const struct psti_device *device, struct pst_error *err);
/* Makes the device's context current in this thread until psti_device_leave. After a failure it is
 * not current, and psti_device_leave must not be called. */
enum pst_status psti_device_enter(const struct psti_device *device, struct pst_error *err);
void psti_device_leave(const struct psti_device *device);
/* Like psti_device_enter, for closing and freeing, where tests inject no faults. Returns false if
 * the driver must not be called: in a forked child, or while the driver shuts down at exit. */
bool psti_device_enter_to_close(const struct psti_device *device);
/* Turns a driver's result into a status. `format` says what was tried. */
enum pst_status psti_device_check(const struct psti_device *device, unsigned result,
                                  struct pst_error *err, const char *format, ...) PST_PRINTF(4, 5);
/* Loads kernels like psti_device_load_kernels, but from images in memory: fatbins, or stand-ins for
 * a test's driver. Each kernel is in one of the images. */
enum pst_status psti_device_load_images(struct psti_device *device, const void *const *images,
                                        uint32_t n_images, const char *const *names,
                                        uint32_t n_names, struct pst_error *err);

/* Calls the driver. In tests, fault injection can return `otherwise` instead. */
#define PSTI_DRIVER_CALL(device, otherwise, call)                                                  \
    (psti_fault(PSTI_FAULT_DEVICE) ? (unsigned)(otherwise) : (device)->driver.call)
/* Calls the driver with the device's context current. `...` says what was tried, as in
 * psti_device_check. */
#define PSTI_DRIVER_RUN(status, device, otherwise, call, err, ...)                                 \
    do {                                                                                           \
        (status) = psti_device_enter(device, err);                                                 \
        if ((status) == PST_OK) {                                                                  \
            unsigned result_of_call = PSTI_DRIVER_CALL(device, otherwise, call);                   \
            (status) = psti_device_check(device, result_of_call, err, __VA_ARGS__);                \
            psti_device_leave(device);                                                             \
        }                                                                                          \
    } while (0)

#endif
