/* stall_trace_nvtx.c - ranges for NVIDIA's profilers. The library libnvToolsExt is loaded at run
 * time, and nothing fails without it. Any thread. */
#include "stall/stall_trace.h"

#include "base/fail.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libnvToolsExt.so.1"

enum pst_status psti_stall_trace_nvtx_open(const char *library, struct psti_trace_nvtx *nvtx,
                                           struct pst_error *err)
{
    const char *name = strcmp(library, "1") == 0 ? LIBRARY : library;
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        const char *text = dlerror();
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "stall", "PENSTOCK_NVTX: %s",
                         text ? text : name);
    }
    *(void **)(&nvtx->push) = dlsym(handle, "nvtxRangePushA");
    *(void **)(&nvtx->pop) = dlsym(handle, "nvtxRangePop");
    if (nvtx->push && nvtx->pop)
        return PST_OK;
    return psti_fail(err, PST_ERROR_UNSUPPORTED, "stall",
                     "PENSTOCK_NVTX: %s has no nvtxRangePushA and nvtxRangePop", name);
}
