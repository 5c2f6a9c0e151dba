/* _native_tensor.c - penstock._native.Tensor: an array over the memory of a batch.
 *
 * It is read through the buffer protocol (numpy) or DLPack (torch); both without a copy and
 * writable: the slot is the caller's until the last reader has let go. */
#include "_native.h"

#include <string.h>

struct native_tensor {
    PyObject_HEAD PyObject *batch; /* a struct native_batch */
    struct pst_tensor tensor;
    Py_ssize_t shape[PST_MAX_NDIM + 1], strides[PST_MAX_NDIM + 1];
    Py_ssize_t nbytes;
    bool contiguous;
    char nothing[16]; /* the address of arrays without elements */
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

PyObject *native_tensor_new(struct native_state *state, PyObject *batch,
                            const struct pst_tensor *tensor)
{
    struct native_tensor *self = (struct native_tensor *)PyType_GenericAlloc(state->tensor_type, 0);
    if (self == NULL)
        return NULL;
    self->batch = Py_NewRef(batch);
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

static void tensor_dealloc(PyObject *object)
{
    struct native_tensor *self = (struct native_tensor *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->batch);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static int tensor_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct native_tensor *self = (struct native_tensor *)object;
    const char *format = native_dtype_format(self->tensor.dtype);
    view->obj = NULL;
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

/* True if `max_version`, a tuple (major, minor) or None, allows capsules of DLPack 1. -1: error. */
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
        if (type != 1) {
            PyErr_SetString(PyExc_BufferError, "the array is in host memory");
            return NULL;
        }
    }
    if (copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "arrays of a batch are handed over without a copy");
        return NULL;
    }
    struct native_tensor *self = (struct native_tensor *)object;
    return native_dlpack_export((struct native_batch *)self->batch, &self->tensor, versioned);
}

static PyObject *tensor_dlpack_device(PyObject *object, PyObject *unused)
{
    (void)object;
    (void)unused;
    return Py_BuildValue("(ii)", 1, 0);
}

static PyObject *tensor_shape(PyObject *object, void *unused)
{
    (void)unused;
    struct native_tensor *self = (struct native_tensor *)object;
    PyObject *shape = PyTuple_New((Py_ssize_t)self->tensor.ndim);
    for (uint32_t i = 0; shape != NULL && i < self->tensor.ndim; i++) {
        PyObject *number = PyLong_FromSsize_t(self->shape[i]);
        if (number == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, number) < 0)
            Py_CLEAR(shape);
    }
    return shape;
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
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "(1, 0): host memory."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getset[] = {{"shape", tensor_shape, NULL, "Elements per axis.", NULL},
                               {"dtype", tensor_dtype, NULL, "Name of the element type.", NULL},
                               {"nbytes", tensor_nbytes, NULL, "Bytes of all elements.", NULL},
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
