/* device_nvjpeg_int.h - what the files of the nvJPEG door share. */
#ifndef PST_DEVICE_NVJPEG_INT_H
#define PST_DEVICE_NVJPEG_INT_H

#include "device/device_int.h"
#include "device/device_nvjpeg.h"
#include "device/device_nvjpeg_api.h"

#include <pthread.h>

/* Memory that nvJPEG has. */
struct psti_nvjpeg_block {
    struct psti_nvjpeg_block *next;
    void *memory; /* pinned, or an address on the card */
    uint64_t nbytes;
    bool pinned;
};

struct psti_nvjpeg {
    struct psti_device *device;
    struct psti_nvjpeg_options options;
    struct psti_nvjpeg_library library;
    struct psti_nvjpeg_api api;
    /* As long as the handles live: */
    psti_nvj_device_allocator device_allocator;
    psti_nvj_pinned_allocator pinned_allocator;
    psti_nvj_handle handle;
    psti_nvj_handle engines; /* NULL: the card has none */
    uint32_t n_engines;
    bool interpolates;
    pthread_mutex_t lock; /* guards the next lines */
    struct psti_nvjpeg_block *blocks;
    uint64_t n_allocations, nbytes[2]; /* on the card, pinned */
    struct pst_error refusal;          /* of the last memory that was refused */
};

/* device_nvjpeg_library.c: finds the library and looks up what is used of it. */
enum pst_status psti_device_nvjpeg_find(uint32_t driver_version,
                                        struct psti_nvjpeg_library *library,
                                        struct psti_nvjpeg_api *api, struct pst_error *err);

/* device_nvjpeg.c: a result as status; `doing`: what was tried. */
enum pst_status psti_device_nvjpeg_judge(struct psti_nvjpeg *nvjpeg, unsigned result,
                                         const char *doing, struct pst_error *err);

/* Calls nvJPEG, or, in tests, fails as if the card had. */
#define PSTI_NVJPEG_CALL(nvjpeg, call)                                                             \
    (psti_fault(PSTI_FAULT_DEVICE) ? (unsigned)PSTI_NVJ_EXECUTION_FAILED : (nvjpeg)->api.call)

#endif
