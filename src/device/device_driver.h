/* device_driver.h - declarations of the part of the CUDA driver API that this library uses, so
 * neither cuda.h nor linking against the driver is needed. Handle types have the tags of cuda.h, so
 * a test can compare every declaration with that header where it is installed
 * (tests/device/test_device_declarations.c). */
#ifndef PST_DEVICE_DRIVER_H
#define PST_DEVICE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct CUctx_st *psti_cu_context;
typedef struct CUmod_st *psti_cu_module;
typedef struct CUfunc_st *psti_cu_function;
typedef struct CUstream_st *psti_cu_stream;
typedef struct CUevent_st *psti_cu_event;
typedef unsigned long long psti_cu_address;

/* Values of enumerations in cuda.h, under shorter names. */
enum psti_cu_result {
    PSTI_CU_SUCCESS = 0,
    PSTI_CU_INVALID_VALUE = 1,
    PSTI_CU_OUT_OF_MEMORY = 2,
    PSTI_CU_NOT_INITIALIZED = 3,
    PSTI_CU_STUB_LIBRARY = 34,
    PSTI_CU_NO_DEVICE = 100,
    PSTI_CU_INVALID_DEVICE = 101,
    PSTI_CU_NO_BINARY_FOR_GPU = 209,
    PSTI_CU_UNSUPPORTED_PTX_VERSION = 222,
    PSTI_CU_NOT_FOUND = 500,
    PSTI_CU_NOT_READY = 600,
    PSTI_CU_NOT_SUPPORTED = 801,
    PSTI_CU_SYSTEM_DRIVER_MISMATCH = 803,
    PSTI_CU_COMPAT_NOT_SUPPORTED = 804,
    PSTI_CU_UNKNOWN = 999
};
enum psti_cu_number {
    PSTI_CU_DEVICE_PROCESSORS = 16,
    PSTI_CU_DEVICE_CAPABILITY_MAJOR = 75,
    PSTI_CU_DEVICE_CAPABILITY_MINOR = 76,
    PSTI_CU_DEVICE_SHARED_OPTIN = 97, /* maximum length of the shared memory that a block may
                                       * request */
    PSTI_CU_FUNCTION_SHARED_STATIC = 1,
    PSTI_CU_FUNCTION_SHARED_DYNAMIC_MAX = 8,
    PSTI_CU_STREAM_NON_BLOCKING = 1, /* the stream does not wait for the legacy default stream */
    PSTI_CU_EVENT_BLOCKING_SYNC = 1,
    PSTI_CU_EVENT_DISABLE_TIMING = 2,
    PSTI_CU_HOST_PORTABLE = 1, /* memory is pinned for every context */
    PSTI_CU_HOST_REGISTER_PORTABLE = 1,
    PSTI_CU_HOST_REGISTER_READ_ONLY = 8, /* the GPU only reads it; since CUDA 11.1 */
    /* Markers in the `extra` argument of cuLaunchKernel, an array of pointers. */
    PSTI_CU_LAUNCH_END = 0,
    PSTI_CU_LAUNCH_BUFFER = 1,
    PSTI_CU_LAUNCH_NBYTES = 2
};
/* X(member, symbol, arguments) for every driver function in use. Each returns enum psti_cu_result.
 */
#define PSTI_DRIVER_LIST(X)                                                                        \
    X(init, cuInit, (unsigned flags))                                                              \
    X(error_name, cuGetErrorName, (unsigned result, const char **name))                            \
    X(error_text, cuGetErrorString, (unsigned result, const char **text))                          \
    X(version, cuDriverGetVersion, (int *version))                                                 \
    X(device_count, cuDeviceGetCount, (int *n))                                                    \
    X(device_get, cuDeviceGet, (int *device, int ordinal))                                         \
    X(device_name, cuDeviceGetName, (char *name, int capacity, int device))                        \
    X(device_memory, cuDeviceTotalMem_v2, (size_t * nbytes, int device))                           \
    X(device_number, cuDeviceGetAttribute, (int *value, unsigned number, int device))              \
    X(context_retain, cuDevicePrimaryCtxRetain, (psti_cu_context * context, int device))           \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (int device))                                 \
    X(context_push, cuCtxPushCurrent_v2, (psti_cu_context context))                                \
    X(context_pop, cuCtxPopCurrent_v2, (psti_cu_context * context))                                \
    X(context_device, cuCtxGetDevice, (int *device))                                               \
    X(priorities, cuCtxGetStreamPriorityRange, (int *least, int *greatest))                        \
    X(stream_create, cuStreamCreateWithPriority,                                                   \
      (psti_cu_stream * stream, unsigned flags, int priority))                                     \
    X(stream_destroy, cuStreamDestroy_v2, (psti_cu_stream stream))                                 \
    X(stream_await, cuStreamWaitEvent,                                                             \
      (psti_cu_stream stream, psti_cu_event event, unsigned flags))                                \
    X(event_create, cuEventCreate, (psti_cu_event * event, unsigned flags))                        \
    X(event_destroy, cuEventDestroy_v2, (psti_cu_event event))                                     \
    X(event_record, cuEventRecord, (psti_cu_event event, psti_cu_stream stream))                   \
    X(event_query, cuEventQuery, (psti_cu_event event))                                            \
    X(event_sync, cuEventSynchronize, (psti_cu_event event))                                       \
    X(event_elapsed, cuEventElapsedTime, (float *ms, psti_cu_event begin, psti_cu_event end))      \
    X(alloc, cuMemAlloc_v2, (psti_cu_address * address, size_t nbytes))                            \
    X(free, cuMemFree_v2, (psti_cu_address address))                                               \
    X(host_alloc, cuMemHostAlloc, (void **memory, size_t nbytes, unsigned flags))                  \
    X(host_free, cuMemFreeHost, (void *memory))                                                    \
    X(host_register, cuMemHostRegister_v2, (void *memory, size_t nbytes, unsigned flags))          \
    X(host_unregister, cuMemHostUnregister, (void *memory))                                        \
    X(upload, cuMemcpyHtoDAsync_v2,                                                                \
      (psti_cu_address to, const void *from, size_t nbytes, psti_cu_stream stream))                \
    X(download, cuMemcpyDtoHAsync_v2,                                                              \
      (void *to, psti_cu_address from, size_t nbytes, psti_cu_stream stream))                      \
    X(copy, cuMemcpyDtoDAsync_v2,                                                                  \
      (psti_cu_address to, psti_cu_address from, size_t nbytes, psti_cu_stream stream))            \
    X(clear, cuMemsetD8Async,                                                                      \
      (psti_cu_address at, unsigned char value, size_t nbytes, psti_cu_stream stream))             \
    X(module_load, cuModuleLoadData, (psti_cu_module * module, const void *image))                 \
    X(module_unload, cuModuleUnload, (psti_cu_module module))                                      \
    X(module_function, cuModuleGetFunction,                                                        \
      (psti_cu_function * function, psti_cu_module module, const char *name))                      \
    X(function_number, cuFuncGetAttribute,                                                         \
      (int *value, unsigned number, psti_cu_function function))                                    \
    X(function_set, cuFuncSetAttribute, (psti_cu_function function, unsigned number, int value))   \
    X(launch, cuLaunchKernel,                                                                      \
      (psti_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,               \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_nbytes,               \
       psti_cu_stream stream, void **params, void **extra))

struct psti_driver {
#define PSTI_DRIVER_MEMBER(member, symbol, arguments) unsigned(*member) arguments;
    PSTI_DRIVER_LIST(PSTI_DRIVER_MEMBER)
#undef PSTI_DRIVER_MEMBER
};

/* Opens the driver (libcuda.so.1, or the file in PENSTOCK_CUDA_DRIVER) and initialises it. Returns
 * false if there is no working driver; `reason` says why. The driver is never closed, because it
 * has threads and exit handlers. */
bool psti_device_driver_open(struct psti_driver *driver, char *reason, size_t reason_nbytes);
/* Describes a result, as in "CUDA_ERROR_OUT_OF_MEMORY (out of memory)". */
void psti_device_driver_describe(const struct psti_driver *driver, unsigned result, char *out,
                                 size_t out_nbytes);

#endif
