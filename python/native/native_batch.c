/* native_batch.c - penstock._native.Batch: holds one reference to a batch of the loader.
 *
 * The object is dropped as soon as its fields are wrapped as arrays, which hold references of their
 * own. Small arrays (labels, indices, boxes) are copied out of the batch's slot, so that keeping
 * such an array does not keep the memory of the batch's images. */
#include "native.h"

#include <unistd.h>

/* Copying an array of up to this size costs less than making its Python object. */
#define COPIED_NBYTES_MAX ((size_t)64 << 10)

static pst_batch *handle_of(PyObject *self) { return ((struct native_batch *)self)->handle; }

PyObject *native_batch_empty(struct native_state *state)
{
    struct native_batch *self = (struct native_batch *)PyType_GenericAlloc(state->batch_type, 0);
    if (self != NULL)
        self->pid = getpid();
    return (PyObject *)self;
}

PyObject *native_batch_new(struct native_state *state, pst_batch *handle)
{
    PyObject *batch = native_batch_empty(state);
    if (batch == NULL)
        pst_batch_release(handle);
    else
        ((struct native_batch *)batch)->handle = handle;
    return batch;
}

static void batch_dealloc(PyObject *object)
{
    struct native_batch *self = (struct native_batch *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->handle != NULL && self->pid == getpid())
        pst_batch_release(self->handle);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* Returns 0 with *i_field set, or -1 with an exception set. */
static int field_argument(PyObject *self, PyObject *argument, uint32_t *i_field)
{
    unsigned long number = PyLong_AsUnsignedLong(argument);
    if (PyErr_Occurred())
        return -1;
    if (number >= pst_batch_n_fields(handle_of(self))) {
        PyErr_SetString(PyExc_IndexError, "no such field in the batch");
        return -1;
    }
    *i_field = (uint32_t)number;
    return 0;
}

static PyObject *batch_fields(PyObject *self, PyObject *unused)
{
    (void)unused;
    pst_batch *batch = handle_of(self);
    uint32_t n = pst_batch_n_fields(batch);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (uint32_t i = 0; list != NULL && i < n; i++) {
        PyObject *item = Py_BuildValue("(ssO)", pst_batch_field_name(batch, i),
                                       pst_field_type_name(pst_batch_field_type(batch, i)),
                                       pst_batch_is_ragged(batch, i) ? Py_True : Py_False);
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *failed(enum pst_status status)
{
    struct pst_error err;
    pst_error_clear(&err);
    return native_raise(status, &err);
}

/* Wraps a tensor of the batch. If `pixels` is false, a small array in host memory is copied; pixels
 * and large arrays stay in place. Strides are in C order. */
static PyObject *wrap(PyObject *self, const struct pst_tensor *tensor, bool pixels)
{
    size_t nbytes = pst_dtype_nbytes(tensor->dtype);
    bool small = !pixels && tensor->device < 0;
    for (uint32_t i = 0; i < tensor->ndim; i++)
        small &= !__builtin_mul_overflow(nbytes, (size_t)tensor->shape[i], &nbytes);
    if (small && nbytes <= COPIED_NBYTES_MAX)
        return native_tensor_copy(native_state_of(self), tensor);
    return native_tensor_new(native_state_of(self), self, tensor);
}

static bool is_pixels(PyObject *self, uint32_t i_field)
{
    enum pst_field_type type = pst_batch_field_type(handle_of(self), i_field);
    return type == PST_FIELD_IMAGE || type == PST_FIELD_MASK;
}

static PyObject *batch_tensor(PyObject *self, PyObject *argument)
{
    uint32_t i_field;
    if (field_argument(self, argument, &i_field) < 0)
        return NULL;
    struct pst_tensor tensor = {0};
    enum pst_status status =
        pst_batch_tensor(handle_of(self), i_field, &tensor, sizeof tensor, NULL);
    if (status != PST_OK)
        return failed(status);
    return wrap(self, &tensor, is_pixels(self, i_field));
}

static PyObject *batch_host_tensor(PyObject *self, PyObject *argument)
{
    uint32_t i_field;
    if (field_argument(self, argument, &i_field) < 0)
        return NULL;
    struct pst_tensor tensor = {0};
    if (pst_batch_host_tensor(handle_of(self), i_field, &tensor, sizeof tensor, NULL) != PST_OK)
        Py_RETURN_NONE;
    return wrap(self, &tensor, is_pixels(self, i_field));
}

/* Converts one row to a Python object. */
typedef PyObject *(*row_fn)(PyObject *self, const struct pst_tensor *tensor);

static PyObject *row_pixels(PyObject *self, const struct pst_tensor *tensor)
{
    return wrap(self, tensor, true);
}

static PyObject *row_numbers(PyObject *self, const struct pst_tensor *tensor)
{
    return wrap(self, tensor, false);
}

static PyObject *row_bytes(PyObject *self, const struct pst_tensor *tensor)
{
    (void)self;
    return PyBytes_FromStringAndSize(tensor->data, (Py_ssize_t)tensor->shape[0]);
}

static PyObject *row_text(PyObject *self, const struct pst_tensor *tensor)
{
    (void)self;
    if (tensor->shape[0] == 0)
        return PyUnicode_FromString("");
    return PyUnicode_DecodeUTF8(tensor->data, (Py_ssize_t)tensor->shape[0], "strict");
}

/* Makes a list of the rows of field `argument`, converted by `fn`. If `bytes_only`, rows must be u8
 * (n). */
static PyObject *each_row(PyObject *self, PyObject *argument, row_fn fn, bool bytes_only)
{
    uint32_t i_field;
    if (field_argument(self, argument, &i_field) < 0)
        return NULL;
    pst_batch *batch = handle_of(self);
    uint32_t n = pst_batch_count(batch);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (uint32_t row = 0; list != NULL && row < n; row++) {
        struct pst_tensor tensor = {0};
        enum pst_status status = pst_batch_row(batch, i_field, row, &tensor, sizeof tensor, NULL);
        if (status == PST_OK && bytes_only && (tensor.ndim != 1 || tensor.dtype != PST_DTYPE_U8))
            status = PST_ERROR_ARGUMENT;
        PyObject *item = status == PST_OK ? fn(self, &tensor) : failed(status);
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)row, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *batch_rows(PyObject *self, PyObject *argument)
{
    uint32_t i_field;
    if (field_argument(self, argument, &i_field) < 0)
        return NULL;
    return each_row(self, argument, is_pixels(self, i_field) ? row_pixels : row_numbers, false);
}

static PyObject *batch_bytes(PyObject *self, PyObject *argument)
{
    return each_row(self, argument, row_bytes, true);
}

static PyObject *batch_text(PyObject *self, PyObject *argument)
{
    return each_row(self, argument, row_text, true);
}

static PyObject *batch_index(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct pst_tensor tensor = {0};
    pst_batch_index_tensor(handle_of(self), &tensor, sizeof tensor);
    return wrap(self, &tensor, false);
}

static PyObject *batch_draws(PyObject *self, PyObject *unused)
{
    (void)unused;
    const uint64_t *draws = pst_batch_draws(handle_of(self));
    return PyBytes_FromStringAndSize(
        (const char *)draws, (Py_ssize_t)(pst_batch_count(handle_of(self)) * sizeof *draws));
}

static PyObject *batch_samples(PyObject *self, PyObject *unused)
{
    (void)unused;
    const int64_t *samples = pst_batch_index(handle_of(self));
    Py_ssize_t n = (Py_ssize_t)pst_batch_count(handle_of(self));
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(samples[i]);
        if (number == NULL || PyList_SetItem(list, i, number) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *batch_place(PyObject *self, PyObject *unused)
{
    (void)unused;
    uint64_t epoch, step;
    pst_batch_place(handle_of(self), &epoch, &step);
    return Py_BuildValue("(KK)", (unsigned long long)epoch, (unsigned long long)step);
}

static Py_ssize_t batch_length(PyObject *self)
{
    return (Py_ssize_t)pst_batch_count(handle_of(self));
}

static PyObject *batch_mix(PyObject *self, PyObject *ignored)
{
    struct pst_batch_mix mix;
    (void)ignored;
    if (!pst_batch_mix(handle_of(self), &mix, sizeof mix))
        Py_RETURN_NONE;
    return Py_BuildValue("(idIIIIO)", (int)mix.kind, (double)mix.lambda, mix.y, mix.x, mix.height,
                         mix.width, mix.is_applied ? Py_True : Py_False);
}

/* Returns the collated arrays of a field: a list of (suffix of the name, array). */
static PyObject *batch_collated(PyObject *self, PyObject *argument)
{
    static const char *const suffixes[] = {"", "_counts", "_sizes", "_offsets", "_shapes"};
    uint32_t i_field;
    if (field_argument(self, argument, &i_field) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    for (int part = 0; list != NULL && part <= PST_COLLATED_SHAPES; part++) {
        struct pst_tensor tensor = {0};
        if (!pst_batch_collated(handle_of(self), i_field, (enum pst_collated)part, &tensor,
                                sizeof tensor))
            continue;
        bool pixels = part == PST_COLLATED_VALUES && is_pixels(self, i_field);
        PyObject *array = wrap(self, &tensor, pixels);
        PyObject *pair = array == NULL ? NULL : Py_BuildValue("(sN)", suffixes[part], array);
        if (pair == NULL || PyList_Append(list, pair) < 0)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"fields", batch_fields, METH_NOARGS, "[(name, type, ragged), ...]"},
    {"tensor", batch_tensor, METH_O, "The whole field as one Tensor, (N, ...)."},
    {"host_tensor", batch_host_tensor, METH_O, "The same in host memory; None: it is not there."},
    {"rows", batch_rows, METH_O, "A list of Tensors, one per sample."},
    {"collated", batch_collated, METH_O,
     "[(suffix of the name, Tensor), ...] of rows put together; []: they are not."},
    {"bytes", batch_bytes, METH_O, "A list of bytes objects, one per sample."},
    {"text", batch_text, METH_O, "A list of str, one per sample."},
    {"index", batch_index, METH_NOARGS, "Sample numbers, int64 (N)."},
    {"samples", batch_samples, METH_NOARGS, "A list of the sample numbers."},
    {"draws", batch_draws, METH_NOARGS, "The rows' draws, uint64, as bytes."},
    {"place", batch_place, METH_NOARGS, "(epoch, step)"},
    {"mix", batch_mix, METH_NOARGS,
     "(kind, lambda, y, x, height, width, is_applied) of mixed images, or None"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_dealloc, batch_dealloc},
                              {Py_tp_methods, methods},
                              {Py_sq_length, batch_length},
                              {Py_tp_doc, "A batch in its slot."},
                              {0, NULL}};

PyType_Spec native_batch_spec = {
    "penstock._native.Batch", sizeof(struct native_batch), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};
