/* device_nvjpeg_library.c - finds nvJPEG at run time and looks up the functions that are used.
 *
 * PENSTOCK_NVJPEG names it. Otherwise its versions are tried, beginning with the newest that the
 * driver supports: each where the system looks (LD_LIBRARY_PATH, loaded libraries, ld.so.conf),
 * then in the folders of NVIDIA's Python packages beside this one. It is never closed, because it
 * has handlers of its own. Nothing is kept; any thread. */
#include "device/device_nvjpeg_int.h"

#include "base/fail.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAJOR_OLDEST 11
#define MAJOR_NEWEST 13
#define PATH_CAP 1024

/* Opens a file. NULL: it is not there, and `why` says so. */
static void *open_path(const char *path, char *why, size_t why_nbytes)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *text = handle ? NULL : dlerror();
    if (!handle)
        snprintf(why, why_nbytes, "%s", text ? text : path);
    return handle;
}

/* Opens one version, searching all places. */
static void *open_version(uint32_t major, char *path, size_t capacity)
{
    static const char *const places[] = {"../nvidia/cu%u/lib/%s", "../nvidia/nvjpeg/lib/%s"};
    char folder[PATH_CAP], file[32], place[64], why[400];
    snprintf(file, sizeof file, "libnvjpeg.so.%u", major);
    snprintf(path, capacity, "%s", file);
    void *handle = open_path(path, why, sizeof why);
    if (handle || !psti_device_own_folder(folder, sizeof folder))
        return handle;
    for (int i = 0; !handle && i < 2; i++) {
        if (i == 0)
            snprintf(place, sizeof place, places[0], major, file);
        else
            snprintf(place, sizeof place, places[1], file);
        if (psti_device_find_file(folder, place, path, capacity))
            handle = open_path(path, why, sizeof why);
    }
    return handle;
}

static enum pst_status not_found(uint32_t newest, struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_UNSUPPORTED, "device",
                     "nvJPEG is not there: libnvjpeg.so.%u to .%u were looked for where the system "
                     "looks and beside the package; pip install nvidia-nvjpeg%s, or name the "
                     "library by PENSTOCK_NVJPEG",
                     newest, MAJOR_OLDEST,
                     newest >= 13   ? ""
                     : newest == 12 ? "-cu12"
                                    : "-cu11");
}

static enum pst_status open_library(uint32_t driver_version, void **handle, char *path,
                                    size_t capacity, struct pst_error *err)
{
    const char *named = getenv("PENSTOCK_NVJPEG");
    char why[400];
    if (named && *named) {
        snprintf(path, capacity, "%s", named);
        *handle = open_path(named, why, sizeof why);
        return *handle
                   ? PST_OK
                   : psti_fail(err, PST_ERROR_UNSUPPORTED, "device", "PENSTOCK_NVJPEG: %s", why);
    }
    uint32_t newest = driver_version ? driver_version / 1000 : MAJOR_NEWEST;
    newest = newest < MAJOR_NEWEST ? newest : MAJOR_NEWEST;
    *handle = NULL;
    for (uint32_t major = newest; !*handle && major >= MAJOR_OLDEST; major--)
        *handle = open_version(major, path, capacity);
    return *handle ? PST_OK : not_found(newest, err);
}

static enum pst_status read_version(const struct psti_nvjpeg_api *api,
                                    struct psti_nvjpeg_library *library, struct pst_error *err)
{
    int numbers[3] = {0};
    for (unsigned i = PSTI_NVJ_PROPERTY_MAJOR; i <= PSTI_NVJ_PROPERTY_PATCH; i++)
        if (api->property(i, &numbers[i]) != PSTI_NVJ_SUCCESS || numbers[i] < 0)
            return psti_fail(err, PST_ERROR_UNSUPPORTED, "device", "%s does not tell its version",
                             library->path);
    library->major = (uint32_t)numbers[0];
    library->minor = (uint32_t)numbers[1];
    library->patch = (uint32_t)numbers[2];
    /* A later version may have other structs, so it is not used. */
    if (library->major >= MAJOR_OLDEST && library->major <= MAJOR_NEWEST)
        return PST_OK;
    return psti_fail(err, PST_ERROR_UNSUPPORTED, "device",
                     "%s is nvJPEG %u.%u.%u, this needs %d to %d", library->path, library->major,
                     library->minor, library->patch, MAJOR_OLDEST, MAJOR_NEWEST);
}

enum pst_status psti_device_nvjpeg_find(uint32_t driver_version,
                                        struct psti_nvjpeg_library *library,
                                        struct psti_nvjpeg_api *api, struct pst_error *err)
{
    char path[PATH_CAP] = "";
    void *handle;
    memset(library, 0, sizeof *library);
    enum pst_status status = open_library(driver_version, &handle, path, sizeof path, err);
    snprintf(library->path, sizeof library->path, "%.*s", (int)sizeof library->path - 1, path);
    if (status != PST_OK)
        return status;
#define LOOK_UP(member, symbol, arguments)                                                         \
    *(void **)&api->member = dlsym(handle, #symbol);                                               \
    if (!api->member)                                                                              \
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "device",                                     \
                         "%s has no %s: it is too old, or no nvJPEG", library->path, #symbol);
    PSTI_NVJPEG_LIST(LOOK_UP)
#undef LOOK_UP
    return read_version(api, library, err);
}

enum pst_status psti_device_nvjpeg_look(uint32_t driver_version,
                                        struct psti_nvjpeg_library *library, struct pst_error *err)
{
    struct psti_nvjpeg_api api;
    return psti_device_nvjpeg_find(driver_version, library, &api, err);
}
