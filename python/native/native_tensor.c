/* native_tensor.c - penstock._native.Tensor: an array in the memory of a batch or, if it is small,
 * in its own memory.
 *
 * It is read through the buffer protocol (numpy) or DLPack (torch). Both need no copy, and the
 * array is writable: the batch's slot belongs to the caller until the last reader has released it.
 * An array on a GPU is read through DLPack, whose consumer names the stream that will read it, or
 * through the CUDA array interface, which uses the legacy default stream. */
#include "native.h"

#include <string.h>

struct native_tensor {
    PyObject_HEAD PyObject *batch; /* a struct native_batch; NULL: the memory is the block's */
    struct native_block *block;
    struct pst_tensor tensor;
    Py_ssize_t shape[PST_MAX_NDIM + 1], strides[PST_MAX_NDIM + 1];
    Py_ssize_t nbytes;
    bool contiguous;
    char nothing[16]; /* address for arrays without elements */
};

const char *native_dtype_format(enum pst_dtype dtype)
{
    switch (dtype) {
    case PST_DTYPE_U8:
        return "B";
    case PST_DTYPE_U16:
        return "H";
    case PST_DTYPE_I32:
        return "i";
    case PST_DTYPE_I64:
        return "q";
    case PST_DTYPE_F16:
        return "e";
    case PST_DTYPE_F32:
        return "f";
    case PST_DTYPE_F64:
        return "d";
    case PST_DTYPE_I8:
        return "b";
    case PST_DTYPE_I16:
        return "h";
    case PST_DTYPE_U32:
        return "I";
    case PST_DTYPE_U64:
        return "Q";
    case PST_DTYPE_BOOL:
        return "?";
    default:
        return NULL;
    }
}

/* Either `batch` or `block` is NULL. The tensor takes a new reference to the other. */
static PyObject *new_tensor(struct native_state *state, PyObject *batch, struct native_block *block,
                            const struct pst_tensor *tensor)
{
    struct native_tensor *self = (struct native_tensor *)PyType_GenericAlloc(state->tensor_type, 0);
    if (self == NULL)
        return NULL;
    self->batch = Py_XNewRef(batch);
    self->block = block;
    if (block != NULL)
        native_block_retain(block);
    self->tensor = *tensor;
    self->contiguous = true;
    self->nbytes = (Py_ssize_t)pst_dtype_nbytes(tensor->dtype);
    for (uint32_t i = tensor->ndim; i-- > 0;) {
        self->shape[i] = (Py_ssize_t)tensor->shape[i];
        self->strides[i] = (Py_ssize_t)tensor->strides[i];
        self->contiguous &= tensor->shape[i] == 1 || tensor->strides[i] == self->nbytes;
        self->nbytes *= self->shape[i];
    }
    self->contiguous |= self->nbytes == 0;
    if (self->tensor.data == NULL)
        self->tensor.data = self->nothing;
    return (PyObject *)self;
}

PyObject *native_tensor_new(struct native_state *state, PyObject *batch,
                            const struct pst_tensor *tensor)
{
    return new_tensor(state, batch, NULL, tensor);
}

PyObject *native_tensor_copy(struct native_state *state, const struct pst_tensor *tensor)
{
    size_t nbytes = pst_dtype_nbytes(tensor->dtype);
    for (uint32_t i = 0; i < tensor->ndim; i++)
        nbytes *= (size_t)tensor->shape[i];
    struct native_block *block = native_block_new(nbytes);
    if (block == NULL)
        return PyErr_NoMemory();
    struct pst_tensor copy = *tensor;
    copy.data = native_block_data(block);
    if (nbytes > 0)
        memcpy(copy.data, tensor->data, nbytes);
    PyObject *result = new_tensor(state, NULL, block, &copy);
    native_block_release(block);
    return result;
}

static void tensor_dealloc(PyObject *object)
{
    struct native_tensor *self = (struct native_tensor *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->batch);
    native_block_release(self->block);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static int tensor_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct native_tensor *self = (struct native_tensor *)object;
    const char *format = native_dtype_format(self->tensor.dtype);
    view->obj = NULL;
    if (self->tensor.device >= 0) {
        PyErr_SetString(PyExc_BufferError, "the array lies on a GPU: it is read through DLPack");
        return -1;
    }
    if (format == NULL) {
        PyErr_Format(PyExc_BufferError, "numpy has no %s: ask for output=\"torch\"",
                     pst_dtype_name(self->tensor.dtype));
        return -1;
    }
    bool wants_strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    bool wants_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || !wants_strides;
    bool wants_f = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
    if ((wants_c && !self->contiguous) ||
        (wants_f && !(self->contiguous && self->tensor.ndim <= 1))) {
        PyErr_SetString(PyExc_BufferError, "the array does not lie in memory that way");
        return -1;
    }
    view->buf = self->tensor.data;
    view->len = self->nbytes;
    view->itemsize = (Py_ssize_t)pst_dtype_nbytes(self->tensor.dtype);
    view->readonly = 0;
    view->ndim = (int)self->tensor.ndim;
    view->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? (char *)(uintptr_t)format : NULL;
    view->shape = (flags & PyBUF_ND) == PyBUF_ND ? self->shape : NULL;
    view->strides = wants_strides ? self->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    view->obj = Py_NewRef(object);
    return 0;
}

/* Returns 1 if `max_version`, a tuple (major, minor) or None, allows capsules of DLPack 1, else 0;
 * -1: error. */
static int allows_versioned(PyObject *max_version)
{
    if (max_version == NULL || max_version == Py_None)
        return 0;
    PyObject *first = PySequence_GetItem(max_version, 0);
    if (first == NULL)
        return -1;
    long major = PyLong_AsLong(first);
    Py_DECREF(first);
    if (major == -1 && PyErr_Occurred())
        return -1;
    return major >= 1;
}

/* Converts DLPack's stream argument. None means the legacy default stream. -1 asks for no waiting;
 * it is treated as the default stream, too: a delivered batch is ready, and later writes stay safe.
 * Returns 0, or -1 with an exception set. */
static int stream_argument(PyObject *argument, uint64_t *stream)
{
    *stream = 1;
    if (argument == Py_None)
        return 0;
    long long number = PyLong_AsLongLong(argument);
    if (number == -1 && PyErr_Occurred())
        return -1;
    if (number == 0 || number < -1) {
        PyErr_SetString(PyExc_ValueError,
                        "stream is None, -1, 1 (legacy default stream), 2 (per-thread default "
                        "stream) or a stream's handle");
        return -1;
    }
    if (number > 0)
        *stream = (uint64_t)number;
    return 0;
}

/* Makes `stream` wait until the batch is ready. Returns 0, or -1 with an exception set. */
static int await_stream(struct native_tensor *self, uint64_t stream)
{
    struct native_batch *batch = (struct native_batch *)self->batch;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = pst_batch_await(batch->handle, stream, &err);
    if (status == PST_OK)
        return 0;
    native_raise(status, &err);
    return -1;
}

static PyObject *tensor_dlpack(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream,
                                     &max_version, &device, &copy))
        return NULL;
    int versioned = allows_versioned(max_version);
    if (versioned < 0)
        return NULL;
    if (device != Py_None) {
        int type, id;
        if (!PyArg_Parse(device, "(ii)", &type, &id))
            return NULL;
        int32_t own = ((struct native_tensor *)object)->tensor.device;
        if (own < 0 ? type != 1 : type != 2 || id != own) {
            PyErr_SetString(PyExc_BufferError,
                            own < 0 ? "the array is in host memory" : "the array is on a GPU");
            return NULL;
        }
    }
    if (copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "arrays of a batch are handed over without a copy");
        return NULL;
    }
    struct native_tensor *self = (struct native_tensor *)object;
    if (self->tensor.device >= 0) {
        uint64_t number;
        if (stream_argument(stream, &number) < 0 || await_stream(self, number) < 0)
            return NULL;
    }
    return native_dlpack_export((struct native_batch *)self->batch, self->block, &self->tensor,
                                versioned);
}

static PyObject *tensor_dlpack_device(PyObject *object, PyObject *unused)
{
    (void)unused;
    int32_t device = ((struct native_tensor *)object)->tensor.device;
    return device < 0 ? Py_BuildValue("(ii)", 1, 0) : Py_BuildValue("(ii)", 2, (int)device);
}

/* Makes a tuple of the `n` numbers: elements per axis, or strides in bytes. */
static PyObject *tuple_of(const Py_ssize_t *numbers, uint32_t n)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (uint32_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *number = PyLong_FromSsize_t(numbers[i]);
        if (number == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, number) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *tensor_cuda_interface(PyObject *object, void *unused)
{
    (void)unused;
    struct native_tensor *self = (struct native_tensor *)object;
    enum pst_dtype dtype = self->tensor.dtype;
    size_t nbytes = pst_dtype_nbytes(dtype);
    const char *format = native_dtype_format(dtype);
    if (self->tensor.device < 0 || format == NULL) {
        PyErr_SetString(PyExc_AttributeError, "__cuda_array_interface__");
        return NULL;
    }
    char kind = *format == '?' ? 'b' : strchr("efd", *format) ? 'f' : *format < 'a' ? 'u' : 'i';
    if (await_stream(self, 1) < 0)
        return NULL;
    PyObject *shape = tuple_of(self->shape, self->tensor.ndim);
    PyObject *strides = tuple_of(self->strides, self->tensor.ndim);
    PyObject *typestr = PyUnicode_FromFormat("%s%c%d", nbytes == 1 ? "|" : "<", kind, (int)nbytes);
    PyObject *result = NULL;
    if (shape != NULL && strides != NULL && typestr != NULL)
        result = Py_BuildValue("{s:O,s:O,s:O,s:(KO),s:i,s:O}", "shape", shape, "strides", strides,
                               "typestr", typestr, "data",
                               (unsigned long long)(uintptr_t)self->tensor.data, Py_False,
                               "version", 3, "stream", Py_None);
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    Py_XDECREF(typestr);
    return result;
}

/* Returns a tensor over the same memory, with its axes in another order. */
static PyObject *tensor_permute(PyObject *object, PyObject *axes)
{
    struct native_tensor *self = (struct native_tensor *)object;
    struct pst_tensor view = self->tensor;
    uint32_t seen = 0;
    if (PySequence_Size(axes) != (Py_ssize_t)view.ndim) {
        PyErr_SetString(PyExc_ValueError, "permute: one number per axis");
        return NULL;
    }
    for (uint32_t i = 0; i < view.ndim; i++) {
        PyObject *number = PySequence_GetItem(axes, (Py_ssize_t)i);
        long axis = number == NULL ? -1 : PyLong_AsLong(number);
        Py_XDECREF(number);
        if (axis < 0 || axis >= (long)view.ndim || (seen & (1u << axis))) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "permute: each axis once");
            return NULL;
        }
        seen |= 1u << axis;
        view.shape[i] = self->tensor.shape[axis];
        view.strides[i] = self->tensor.strides[axis];
    }
    return new_tensor(native_state_of(object), self->batch, self->block, &view);
}

/* Returns a tensor without the last axis: takes its first element. */
static PyObject *tensor_first_of_last(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_tensor *self = (struct native_tensor *)object;
    struct pst_tensor view = self->tensor;
    if (view.ndim == 0 || view.shape[view.ndim - 1] == 0) {
        PyErr_SetString(PyExc_ValueError, "there is no last axis to leave out");
        return NULL;
    }
    view.ndim--;
    return new_tensor(native_state_of(object), self->batch, self->block, &view);
}

static PyObject *tensor_shape(PyObject *object, void *unused)
{
    (void)unused;
    struct native_tensor *self = (struct native_tensor *)object;
    return tuple_of(self->shape, self->tensor.ndim);
}

static PyObject *tensor_device(PyObject *object, void *unused)
{
    (void)unused;
    int32_t device = ((struct native_tensor *)object)->tensor.device;
    return device < 0 ? PyUnicode_FromString("cpu") : PyUnicode_FromFormat("cuda:%d", (int)device);
}

static PyObject *tensor_dtype(PyObject *object, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(pst_dtype_name(((struct native_tensor *)object)->tensor.dtype));
}

static PyObject *tensor_nbytes(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromSsize_t(((struct native_tensor *)object)->nbytes);
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "A DLPack capsule over the same memory."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "(1, 0): host memory; (2, k): GPU k."},
    {"permute", tensor_permute, METH_O, "The same memory with its axes in another order."},
    {"first_of_last", tensor_first_of_last, METH_NOARGS, "Element 0 of the last axis."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getset[] = {
    {"shape", tensor_shape, NULL, "Elements per axis.", NULL},
    {"dtype", tensor_dtype, NULL, "Name of the element type.", NULL},
    {"nbytes", tensor_nbytes, NULL, "Bytes of all elements.", NULL},
    {"device", tensor_device, NULL, "cpu, or cuda:k.", NULL},
    {"__cuda_array_interface__", tensor_cuda_interface, NULL, "Version 3; on a GPU only.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_dealloc, tensor_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getset},
                              {Py_bf_getbuffer, tensor_getbuffer},
                              {Py_tp_doc, "An array in the memory of a batch."},
                              {0, NULL}};

PyType_Spec native_tensor_spec = {
    "penstock._native.Tensor", sizeof(struct native_tensor), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};
