/* device_driver.c - opens the CUDA driver at run time and looks up the functions that this library
 * uses. It keeps no state: each caller gets its own table, and the system's dynamic loader counts
 * references to the driver. Any thread. */
#include "device/device_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void psti_device_driver_describe(const struct psti_driver *driver, unsigned result, char *out,
                                 size_t out_nbytes)
{
    const char *name = NULL, *text = NULL;
    if (driver->error_name(result, &name) != PSTI_CU_SUCCESS || !name) {
        snprintf(out, out_nbytes, "CUDA error %u", result);
        return;
    }
    if (driver->error_text(result, &text) != PSTI_CU_SUCCESS || !text)
        text = "no description";
    snprintf(out, out_nbytes, "%s (%s)", name, text);
}

/* Looks up all driver functions in use. Returns false if one is missing; `reason` names it. */
static bool look_up(void *library, const char *path, struct psti_driver *driver, char *reason,
                    size_t reason_nbytes)
{
#define LOOK_UP(member, symbol, arguments)                                                         \
    *(void **)&driver->member = dlsym(library, #symbol);                                           \
    if (!driver->member) {                                                                         \
        snprintf(reason, reason_nbytes, "%s has no %s: the driver is too old", path, #symbol);     \
        return false;                                                                              \
    }
    PSTI_DRIVER_LIST(LOOK_UP)
#undef LOOK_UP
    return true;
}

bool psti_device_driver_open(struct psti_driver *driver, char *reason, size_t reason_nbytes)
{
    const char *allowed = getenv("PENSTOCK_CUDA"), *path = getenv("PENSTOCK_CUDA_DRIVER");
    if (allowed && strcmp(allowed, "0") == 0) {
        snprintf(reason, reason_nbytes, "PENSTOCK_CUDA=0 hides all GPUs");
        return false;
    }
    if (!path || !*path)
        path = "libcuda.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *why = dlerror();
        snprintf(reason, reason_nbytes, "no CUDA driver: %s", why ? why : path);
        return false;
    }
    if (!look_up(library, path, driver, reason, reason_nbytes))
        return false;
    unsigned result = driver->init(0);
    if (result == PSTI_CU_SUCCESS)
        return true;
    char text[160];
    psti_device_driver_describe(driver, result, text, sizeof text);
    snprintf(reason, reason_nbytes, "cuInit: %s%s", text,
             result == PSTI_CU_NOT_INITIALIZED
                 ? "; CUDA does not work in a process forked from one that used it"
                 : "");
    return false;
}
