/* device_int.h - what the files of device share. */
#ifndef PST_DEVICE_INT_H
#define PST_DEVICE_INT_H

#include "device/device.h"
#include "device/device_driver.h"
#include "device/device_library.h"

#include "base/fault.h"

#include <stdatomic.h>
#include <sys/types.h>

/* Bytes taken of what may be taken. */
struct psti_budget {
    uint64_t limit; /* UINT64_MAX: none */
    _Atomic uint64_t used, peak;
};

struct psti_device {
    struct psti_driver driver;
    struct psti_device_info info; /* the counters come from the budgets */
    int handle;
    int priority_low, priority_normal;
    psti_cu_context context; /* primary; retained */
    psti_cu_module modules[PSTI_LIBRARY_IMAGES_MAX];
    uint32_t n_modules; /* 0: no kernels were loaded yet */
    psti_cu_function *kernels;
    uint32_t n_kernels;
    struct psti_budget device_memory, pinned_memory;
    pid_t owner;
};

struct psti_stream {
    struct psti_device *device;
    psti_cu_stream handle;
    psti_cu_event waiter; /* of psti_device_stream_sync: threads sleep on it, streams are spun on */
};

struct psti_event {
    struct psti_device *device;
    psti_cu_event handle;
};

/* PST_OK or PST_ERROR_FORKED. */
enum pst_status psti_device_check_process(const struct psti_device *device, struct pst_error *err);
/* Makes the device's context current in this thread, until psti_device_leave. Not PST_OK: it is
 * not, and nothing is to be left. */
enum pst_status psti_device_enter(const struct psti_device *device, struct pst_error *err);
void psti_device_leave(const struct psti_device *device);
/* The same for what gives back: no test makes it fail. False: there is nothing to call (a forked
 * child, or a driver that is shutting down with its process). */
bool psti_device_enter_to_close(const struct psti_device *device);
/* A driver's result as status; `format`: what was tried. */
enum pst_status psti_device_judge(const struct psti_device *device, unsigned result,
                                  struct pst_error *err, const char *format, ...) PST_PRINTF(4, 5);
/* As psti_device_load_kernels, of images at hand (fatbins, or what a test's driver takes for them):
 * each kernel is in one of them. */
enum pst_status psti_device_load_images(struct psti_device *device, const void *const *images,
                                        uint32_t n_images, const char *const *names,
                                        uint32_t n_names, struct pst_error *err);

/* The folder of the library or program that this code is in; false: not known. */
bool psti_device_own_folder(char *folder, size_t capacity);
/* The first file that matches `folder`/`pattern` goes into `path`; false: there is none. */
bool psti_device_find_file(const char *folder, const char *pattern, char *path, size_t capacity);

/* Calls the driver, or, in tests, fails with `otherwise` instead. */
#define PSTI_DRIVER_CALL(device, otherwise, call)                                                  \
    (psti_fault(PSTI_FAULT_DEVICE) ? (unsigned)(otherwise) : (device)->driver.call)
/* One call of the driver with the device's context current. `...`: what was tried, as of judge. */
#define PSTI_DRIVER_RUN(status, device, otherwise, call, err, ...)                                 \
    do {                                                                                           \
        (status) = psti_device_enter(device, err);                                                 \
        if ((status) == PST_OK) {                                                                  \
            unsigned result_of_call = PSTI_DRIVER_CALL(device, otherwise, call);                   \
            (status) = psti_device_judge(device, result_of_call, err, __VA_ARGS__);                \
            psti_device_leave(device);                                                             \
        }                                                                                          \
    } while (0)

#endif
