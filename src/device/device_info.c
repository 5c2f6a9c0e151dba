/* device_info.c - implements <penstock/cuda.h>, the public functions about GPUs. Any thread. */
#include <penstock/cuda.h>

#include "device/device.h"

#include "base/options.h"

#include <stdio.h>
#include <string.h>

uint32_t pst_cuda_count(void)
{
    struct psti_device_kernels kernels;
    return psti_device_kernels(&kernels, NULL) == PST_OK ? psti_device_count(NULL, 0) : 0;
}

size_t pst_cuda_reason(char *buffer, size_t capacity)
{
    char reason[256] = "";
    struct psti_device_kernels kernels;
    struct pst_error err;
    pst_error_clear(&err);
    if (psti_device_count(reason, sizeof reason) > 0 &&
        psti_device_kernels(&kernels, &err) != PST_OK)
        snprintf(reason, sizeof reason, "%.250s", err.text);
    int length = snprintf(buffer, capacity, "%s", reason);
    return length > 0 ? (size_t)length : 0;
}

enum pst_status pst_cuda_info(uint32_t ordinal, struct pst_cuda_info *info, size_t info_nbytes,
                              struct pst_error *err)
{
    struct psti_device_info found;
    enum pst_status status = psti_device_look(ordinal, &found, err);
    if (status != PST_OK)
        return status;
    struct pst_cuda_info all = {.ordinal = found.ordinal,
                                .capability_major = found.capability_major,
                                .capability_minor = found.capability_minor,
                                .n_processors = found.n_processors,
                                .driver_version = found.driver_version,
                                .memory_nbytes = found.memory_nbytes};
    snprintf(all.name, sizeof all.name, "%s", found.name);
    psti_struct_write(info, info_nbytes, &all, sizeof all);
    return PST_OK;
}
