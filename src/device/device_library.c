/* device_library.c - finds libpenstock_cuda.so and loads its kernels into GPUs.
 *
 * PENSTOCK_CUDA_KERNELS names the library. Otherwise it is searched for in this order: the folder
 * of the library, extension module or program that contains this code; the Python packages penstock
 * and penstock_cuda near that folder or in a command line's prefix; the system's library path. The
 * library is opened each time and never closed, because GPUs may still read from it. Whether it
 * fits this version is checked: see device_library.h. Any thread. */
#include "device/device_library.h"

#include "device/device_int.h"

#include "base/fail.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_CAP 1024

/* Opens a kernel library. Returns NULL if it does not exist or does not fit this version; `why`
 * then receives the reason, at most `why_nbytes`. */
static const struct psti_device_library *open_one(const char *path, char *why, size_t why_nbytes)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        const char *text = dlerror();
        snprintf(why, why_nbytes, "%s", text ? text : path);
        return NULL;
    }
    const struct psti_device_library *library = dlsym(handle, PSTI_DEVICE_LIBRARY_SYMBOL);
    if (!library) {
        snprintf(why, why_nbytes, "%s has no kernels of Penstock", path);
        return NULL;
    }
    if (library->struct_nbytes < sizeof *library || strcmp(library->abi, PST_CUDA_ABI) != 0 ||
        library->n_images > PSTI_DEVICE_LIBRARY_IMAGES_MAX) {
        snprintf(why, why_nbytes, "%s was built for Penstock %s, this is %s", path, library->abi,
                 PST_CUDA_ABI);
        return NULL;
    }
    return library;
}

/* Finds the folder of the library or program that contains this code. Returns false if it is
 * unknown. */
static bool own_folder(char *folder, size_t capacity)
{
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)&own_folder, &info) || !info.dli_fname)
        return false;
    char resolved[PATH_MAX];
    const char *path = realpath(info.dli_fname, resolved) ? resolved : info.dli_fname;
    const char *slash = strrchr(path, '/');
    int length = slash ? snprintf(folder, capacity, "%.*s", (int)(slash - path), path) : -1;
    return length >= 0 && (size_t)length < capacity;
}

/* Finds the first file that matches `folder`/`pattern` and copies its name to `path`. Returns false
 * if there is none. */
static bool find_file(const char *folder, const char *pattern, char *path, size_t capacity)
{
    char wanted[PATH_CAP];
    glob_t found;
    int length = snprintf(wanted, sizeof wanted, "%s/%s", folder, pattern);
    if (length < 0 || (size_t)length >= sizeof wanted || glob(wanted, 0, NULL, &found) != 0)
        return false;
    length = snprintf(path, capacity, "%s", found.gl_pathv[0]);
    globfree(&found);
    return (size_t)length < capacity;
}

static const struct psti_device_library *find_library(char *path, size_t capacity,
                                                      struct pst_error *err)
{
    static const char *const places[] = {
        PSTI_DEVICE_LIBRARY_FILE, "../penstock_cuda/" PSTI_DEVICE_LIBRARY_FILE,
        "../lib/" PSTI_DEVICE_LIBRARY_FILE,
        "../lib/python3*/site-packages/penstock/" PSTI_DEVICE_LIBRARY_FILE,
        "../lib/python3*/site-packages/penstock_cuda/" PSTI_DEVICE_LIBRARY_FILE};
    char folder[PATH_CAP], why[400] = "";
    const char *named = getenv("PENSTOCK_CUDA_KERNELS");
    const struct psti_device_library *library = NULL;
    if (named && *named) {
        snprintf(path, capacity, "%s", named);
        library = open_one(named, why, sizeof why);
        if (!library)
            psti_fail(err, PST_ERROR_UNSUPPORTED, "device", "PENSTOCK_CUDA_KERNELS: %s", why);
        return library;
    }
    bool is_there = false;
    if (own_folder(folder, sizeof folder))
        for (size_t i = 0; !is_there && i < sizeof places / sizeof places[0]; i++)
            is_there = find_file(folder, places[i], path, capacity);
    if (!is_there)
        snprintf(path, capacity, "%s", PSTI_DEVICE_LIBRARY_FILE);
    library = open_one(path, why, sizeof why);
    if (!library)
        psti_fail(err, PST_ERROR_UNSUPPORTED, "device",
                  is_there ? "the kernels' library does not fit: %s"
                           : "this Penstock was installed without kernels for GPUs: %s",
                  why);
    return library;
}

enum pst_status psti_device_kernels(struct psti_device_kernels *kernels, struct pst_error *err)
{
    memset(kernels, 0, sizeof *kernels);
    const struct psti_device_library *library =
        find_library(kernels->path, sizeof kernels->path, err);
    if (!library)
        return PST_ERROR_UNSUPPORTED;
    snprintf(kernels->targets, sizeof kernels->targets, "%s", library->targets);
    kernels->cuda_version = library->cuda_version;
    return PST_OK;
}

enum pst_status psti_device_load_kernels(struct psti_device *device, const char *const *names,
                                         uint32_t n_names, struct pst_error *err)
{
    char path[PATH_CAP];
    const struct psti_device_library *library = find_library(path, sizeof path, err);
    if (!library)
        return PST_ERROR_UNSUPPORTED;
    enum pst_status status =
        psti_device_load_images(device, library->images, library->n_images, names, n_names, err);
    /* A driver can load code of compilers up to its own major version. */
    uint32_t driver = device->info.driver_version;
    if (status == PST_ERROR_DEVICE || status == PST_ERROR_UNSUPPORTED) {
        if (driver / 1000 < library->cuda_version / 1000) {
            status = psti_fail(err, PST_ERROR_UNSUPPORTED, "device",
                               "GPU %u: the driver knows CUDA %u.%u, the kernels in %s were built "
                               "with %u.%u: a newer driver, or kernels built with an older CUDA, "
                               "are needed",
                               device->info.ordinal, driver / 1000, driver % 1000 / 10, path,
                               library->cuda_version / 1000, library->cuda_version % 1000 / 10);
        }
    }
    return status;
}
