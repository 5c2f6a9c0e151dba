/* native_dlpack.h - the structs of DLPack 1.0 (https://dmlc.github.io/dlpack) for CPU and CUDA. */
#ifndef PENSTOCK_NATIVE_DLPACK_H
#define PENSTOCK_NATIVE_DLPACK_H

#include <stdint.h>

enum { DLPACK_CPU = 1, DLPACK_CUDA = 2 };
enum { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4, DLPACK_BOOL = 6 };

struct dlpack_device {
    int32_t type, id;
};

struct dlpack_dtype {
    uint8_t code, bits;
    uint16_t lanes;
};

struct dlpack_tensor {
    void *data;
    struct dlpack_device device;
    int32_t ndim;
    struct dlpack_dtype dtype;
    int64_t *shape, *strides; /* strides in elements */
    uint64_t byte_offset;
};

/* For capsules named "dltensor", which a consumer renames to "used_dltensor" when it takes them. */
struct dlpack_managed {
    struct dlpack_tensor tensor;
    void *ctx;
    void (*deleter)(struct dlpack_managed *self);
};

/* For capsules named "dltensor_versioned". */
struct dlpack_managed_versioned {
    uint32_t major, minor;
    void *ctx;
    void (*deleter)(struct dlpack_managed_versioned *self);
    uint64_t flags;
    struct dlpack_tensor tensor;
};

#endif
