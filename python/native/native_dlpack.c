/* native_dlpack.c - exports an array of a batch as a DLPack capsule.
 *
 * The export holds its own reference to the batch (or block), so the consumer (torch, for example)
 * may keep it longer than all Python objects of this module. Deleters do not take the GIL: they may
 * run on any thread, also while the interpreter shuts down. In a forked child they do not touch the
 * parent's batch. */
#include "native.h"

#include "native_dlpack.h"

#include <stdlib.h>
#include <unistd.h>

/* One export: the struct that the consumer sees, and the memory that the struct points to. */
struct export
{
    union {
        struct dlpack_managed plain;
        struct dlpack_managed_versioned versioned;
    } managed;
    int64_t shape[PST_MAX_NDIM + 1], strides[PST_MAX_NDIM + 1];
    pst_batch *batch; /* NULL: the memory belongs to the block */
    struct native_block *block;
    pid_t pid;
};

static void export_free(struct export *export)
{
    if (export->batch != NULL && export->pid == getpid())
        pst_batch_release(export->batch);
    native_block_release(export->block);
    free(export);
}

static void delete_plain(struct dlpack_managed *self) { export_free(self->ctx); }

static void delete_versioned(struct dlpack_managed_versioned *self) { export_free(self->ctx); }

/* Destructor of a capsule. If no consumer took it, it still owns its export and frees it. */
static void capsule_free(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct dlpack_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
        managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        struct dlpack_managed_versioned *managed =
            PyCapsule_GetPointer(capsule, "dltensor_versioned");
        managed->deleter(managed);
    }
}

/* Returns false for a dtype that DLPack does not have. */
static bool dtype_of(enum pst_dtype dtype, struct dlpack_dtype *out)
{
    out->lanes = 1;
    out->bits = (uint8_t)(8 * pst_dtype_nbytes(dtype));
    switch (dtype) {
    case PST_DTYPE_U8:
    case PST_DTYPE_U16:
    case PST_DTYPE_U32:
    case PST_DTYPE_U64:
        out->code = DLPACK_UINT;
        return true;
    case PST_DTYPE_I8:
    case PST_DTYPE_I16:
    case PST_DTYPE_I32:
    case PST_DTYPE_I64:
        out->code = DLPACK_INT;
        return true;
    case PST_DTYPE_F16:
    case PST_DTYPE_F32:
    case PST_DTYPE_F64:
        out->code = DLPACK_FLOAT;
        return true;
    case PST_DTYPE_BF16:
        out->code = DLPACK_BFLOAT;
        return true;
    case PST_DTYPE_BOOL:
        out->code = DLPACK_BOOL;
        return true;
    default:
        return false;
    }
}

static bool fill(struct export *export, struct dlpack_tensor *target,
                 const struct pst_tensor *tensor)
{
    target->data = tensor->data;
    target->device.type = tensor->device < 0 ? DLPACK_CPU : DLPACK_CUDA;
    target->device.id = tensor->device < 0 ? 0 : tensor->device;
    target->ndim = (int32_t)tensor->ndim;
    target->shape = export->shape;
    target->strides = export->strides;
    int64_t nbytes = (int64_t)pst_dtype_nbytes(tensor->dtype);
    if (!dtype_of(tensor->dtype, &target->dtype))
        return false;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->strides[i] % nbytes != 0)
            return false;
        export->shape[i] = tensor->shape[i];
        export->strides[i] = tensor->strides[i] / nbytes;
    }
    return true;
}

PyObject *native_dlpack_export(struct native_batch *batch, struct native_block *block,
                               const struct pst_tensor *tensor, int versioned)
{
    struct export *export = calloc(1, sizeof(*export));
    if (export == NULL)
        return PyErr_NoMemory();
    struct dlpack_tensor *target =
        versioned ? &export->managed.versioned.tensor : &export->managed.plain.tensor;
    if (!fill(export, target, tensor)) {
        free(export);
        PyErr_SetString(PyExc_BufferError, "DLPack cannot describe this array");
        return NULL;
    }
    if (block != NULL) {
        native_block_retain(block);
        export->block = block;
    } else {
        pst_batch_retain(batch->handle);
        export->batch = batch->handle;
        export->pid = batch->pid;
    }
    if (versioned) {
        export->managed.versioned.major = 1;
        export->managed.versioned.ctx = export;
        export->managed.versioned.deleter = delete_versioned;
    } else {
        export->managed.plain.ctx = export;
        export->managed.plain.deleter = delete_plain;
    }
    PyObject *capsule = PyCapsule_New(&export->managed,
                                      versioned ? "dltensor_versioned" : "dltensor", capsule_free);
    if (capsule == NULL)
        export_free(export);
    return capsule;
}
