/* device_nvjpeg_int.h - declarations that the files of nvJPEG share. */
#ifndef PST_DEVICE_NVJPEG_INT_H
#define PST_DEVICE_NVJPEG_INT_H

#include "device/device_int.h"
#include "device/device_nvjpeg.h"
#include "device/device_nvjpeg_api.h"

#include <pthread.h>

/* Memory that nvJPEG has allocated. */
struct psti_nvjpeg_block {
    struct psti_nvjpeg_block *next;
    void *memory; /* pinned, or an address on the GPU */
    uint64_t nbytes;
    bool pinned;
};

struct psti_nvjpeg {
    struct psti_device *device;
    struct psti_nvjpeg_options options;
    struct psti_nvjpeg_library library;
    struct psti_nvjpeg_api api;
    /* Valid as long as the handles live: */
    psti_nvj_device_allocator device_allocator;
    psti_nvj_pinned_allocator pinned_allocator;
    psti_nvj_handle handle;
    psti_nvj_handle engines; /* NULL: the GPU has no engines */
    uint32_t n_engines;
    bool interpolates;
    pthread_mutex_t lock; /* guards the next members */
    struct psti_nvjpeg_block *blocks;
    uint64_t n_allocations, nbytes[2]; /* on the GPU, pinned */
    struct pst_error refusal;          /* error of the last refused allocation */
};

/* device_nvjpeg_library.c: finds the library and looks up the functions that are used. */
enum pst_status psti_device_nvjpeg_find(uint32_t driver_version,
                                        struct psti_nvjpeg_library *library,
                                        struct psti_nvjpeg_api *api, struct pst_error *err);

/* device_nvjpeg.c: turns a result into a status. `doing` says what was tried. */
enum pst_status psti_device_nvjpeg_check(struct psti_nvjpeg *nvjpeg, unsigned result,
                                         const char *doing, struct pst_error *err);

/* Calls nvJPEG. Tests can make it fail as if the GPU had failed. */
#define PSTI_NVJPEG_CALL(nvjpeg, call)                                                             \
    (psti_fault(PSTI_FAULT_DEVICE) ? (unsigned)PSTI_NVJ_EXECUTION_FAILED : (nvjpeg)->api.call)

#endif
