/* native_writer.c - penstock._native.Writer: the writer's handle and the lock that guards it.
 *
 * Values come as tuples (buffer, form, height, width, channels, bits, shape). Their memory is only
 * borrowed during the call. Every call that writes releases the GIL. In a forked child the handle
 * is neither used nor freed, because freeing it would commit to the parent's files. */
#include "native.h"

#include <string.h>
#include <unistd.h>

struct native_writer {
    PyObject_HEAD pst_writer *handle; /* NULL once closed */
    PyThread_type_lock lock;
    pid_t pid;
};

static void shut(struct native_writer *self)
{
    pst_writer *handle = self->handle;
    self->handle = NULL;
    if (handle == NULL || self->pid != getpid())
        return;
    Py_BEGIN_ALLOW_THREADS pst_writer_close(&handle);
    Py_END_ALLOW_THREADS
}

static void writer_dealloc(PyObject *object)
{
    struct native_writer *self = (struct native_writer *)object;
    PyTypeObject *type = Py_TYPE(object);
    shut(self);
    if (self->lock != NULL && self->pid == getpid())
        PyThread_free_lock(self->lock);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

#define FIELD(key, kind, count)                                                                    \
    {                                                                                              \
#key, kind, offsetof(struct pst_field, key), count                                         \
    }
static const struct native_member field_members[] = {
    FIELD(type, NATIVE_ENUM, 0),     FIELD(dtype, NATIVE_ENUM, 0),
    FIELD(ndim, NATIVE_U8, 0),       FIELD(n_variants, NATIVE_U8, 0),
    FIELD(n_classes, NATIVE_U64, 0), FIELD(shape, NATIVE_U32, PST_MAX_NDIM),
    FIELD(made_for, NATIVE_ENUM, 0), FIELD(n_pairs_plus_1, NATIVE_U64, 0),
};

static int read_field(PyObject *source, struct pst_field *field)
{
    int status = -1;
    PyObject *dict = PyDict_Copy(source);
    if (dict == NULL)
        return -1;
    PyObject *name = PyDict_GetItemString(dict, "name");
    const char *text = name != NULL ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (text == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a field without a name");
        goto out;
    }
    if (strlen(text) >= sizeof(field->name)) {
        native_raise_text(PST_ERROR_ARGUMENT, "field name '%s' is longer than %zu bytes", text,
                          sizeof(field->name) - 1);
        goto out;
    }
    memcpy(field->name, text, strlen(text) + 1);
    if (PyDict_DelItemString(dict, "name") < 0)
        goto out;
    status = native_dict_read(dict, field_members, sizeof(field_members) / sizeof(field_members[0]),
                              field, "schema");
out:
    Py_DECREF(dict);
    return status;
}

/* Converts the list of dicts `list` to `fields`, which has PST_MAX_FIELDS entries. Returns -1 with
 * an exception set on failure. */
static int read_fields(PyObject *list, struct pst_field *fields, uint32_t *n_fields)
{
    Py_ssize_t n = PySequence_Size(list);
    if (n < 0)
        return -1;
    if (n > PST_MAX_FIELDS) {
        native_raise_text(PST_ERROR_ARGUMENT, "a data set has at most %d fields", PST_MAX_FIELDS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        if (item == NULL)
            return -1;
        int status = read_field(item, &fields[i]);
        Py_DECREF(item);
        if (status < 0)
            return -1;
    }
    *n_fields = (uint32_t)n;
    return 0;
}

static PyObject *wrap(PyTypeObject *type, pst_writer *handle)
{
    struct native_writer *self = (struct native_writer *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        pst_writer_close(&handle);
        return NULL;
    }
    self->handle = handle;
    self->pid = getpid();
    self->lock = PyThread_allocate_lock();
    if (self->lock == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Writer takes no keyword arguments");
        return NULL;
    }
    PyObject *path = NULL, *list;
    unsigned int mode;
    unsigned long long shard_nbytes, commit_nbytes;
    if (!PyArg_ParseTuple(args, "O&OIKK:Writer", PyUnicode_FSConverter, &path, &list, &mode,
                          &shard_nbytes, &commit_nbytes))
        return NULL;
    PyObject *self = NULL;
    uint32_t n_fields = 0;
    const char *text = PyBytes_AsString(path);
    struct pst_field *fields = PyMem_Calloc(PST_MAX_FIELDS, sizeof(*fields));
    if (fields == NULL)
        PyErr_NoMemory();
    if (text == NULL || fields == NULL || read_fields(list, fields, &n_fields) < 0)
        goto out;
    struct pst_writer_options options = {.struct_size = sizeof(options),
                                         .mode = (enum pst_writer_mode)mode,
                                         .shard_nbytes = shard_nbytes,
                                         .commit_nbytes = commit_nbytes};
    struct pst_error err;
    pst_error_clear(&err);
    pst_writer *handle = NULL;
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status =
        pst_writer_open(text, fields, n_fields, &options, &handle, &err);
    Py_END_ALLOW_THREADS self = status == PST_OK ? wrap(type, handle) : native_raise(status, &err);
out:
    PyMem_Free(fields);
    Py_DECREF(path);
    return self;
}

static int enter(struct native_writer *self)
{
    if (self->pid != getpid()) {
        native_raise_text(PST_ERROR_FORKED, "the writer belongs to the parent process");
        return -1;
    }
    if (native_lock_take(self->lock) < 0)
        return -1;
    if (self->handle != NULL)
        return 0;
    PyThread_release_lock(self->lock);
    native_raise_text(PST_ERROR_STATE, "the writer is closed");
    return -1;
}

/* The values of one call of add(), borrowed from Python. */
struct lent {
    struct pst_value values[PST_MAX_FIELDS][PST_MAX_VARIANTS];
    const struct pst_value *rows[PST_MAX_FIELDS];
    Py_buffer buffers[PST_MAX_FIELDS * PST_MAX_VARIANTS];
    size_t n_buffers;
};

static int lend_shape(PyObject *shape, struct pst_value *value)
{
    if (shape == Py_None)
        return 0;
    Py_ssize_t n = PySequence_Size(shape);
    if (n < 0)
        return -1;
    if (n > PST_MAX_NDIM) {
        native_raise_text(PST_ERROR_ARGUMENT, "an array has at most %d axes", PST_MAX_NDIM);
        return -1;
    }
    value->ndim = (uint8_t)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(shape, i);
        unsigned long long number = item != NULL ? PyLong_AsUnsignedLongLong(item) : 0;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return -1;
        if (number > UINT32_MAX) {
            native_raise_text(PST_ERROR_ARGUMENT, "an axis has at most 2**32-1 elements");
            return -1;
        }
        value->shape[i] = (uint32_t)number;
    }
    return 0;
}

/* Converts one variant for add(). `item` is a _Value of data/schema.py, or None if the variant is
 * absent. */
static int lend_value(PyObject *item, struct lent *lent, struct pst_value *value)
{
    if (item == Py_None)
        return 0;
    PyObject *shape;
    unsigned int form, height, width;
    unsigned char channels, bits;
    int was_pli;
    Py_buffer *buffer = &lent->buffers[lent->n_buffers];
    if (!PyArg_ParseTuple(item, "y*IIIbbOp:value", buffer, &form, &height, &width, &channels, &bits,
                          &shape, &was_pli))
        return -1;
    lent->n_buffers++;
    value->bytes = buffer->buf;
    value->nbytes = (size_t)buffer->len;
    value->form = (enum pst_form)form;
    value->height = height;
    value->width = width;
    value->channels = channels;
    value->bits = bits;
    value->was_pli = was_pli != 0;
    return lend_shape(shape, value);
}

static int lend_row(PyObject *row, uint32_t i_field, uint8_t n_variants, struct lent *lent)
{
    if (PySequence_Size(row) != n_variants) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "not one value per variant");
        return -1;
    }
    lent->rows[i_field] = lent->values[i_field];
    for (uint8_t v = 0; v < n_variants; v++) {
        PyObject *item = PySequence_GetItem(row, v);
        if (item == NULL)
            return -1;
        int status = lend_value(item, lent, &lent->values[i_field][v]);
        Py_DECREF(item); /* the buffer keeps the memory alive */
        if (status < 0)
            return -1;
    }
    return 0;
}

static int lend_all(const pst_writer *writer, PyObject *values, struct lent *lent)
{
    uint32_t n = pst_writer_n_fields(writer);
    Py_ssize_t n_given = PySequence_Size(values);
    if (n_given < 0)
        return -1;
    if ((uint64_t)n_given != n) {
        PyErr_SetString(PyExc_ValueError, "not one value per field");
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        PyObject *row = PySequence_GetItem(values, (Py_ssize_t)i);
        if (row == NULL)
            return -1;
        int status = lend_row(row, i, pst_writer_field(writer, i)->n_variants, lent);
        Py_DECREF(row);
        if (status < 0)
            return -1;
    }
    return 0;
}

static PyObject *writer_add(PyObject *object, PyObject *args)
{
    struct native_writer *self = (struct native_writer *)object;
    const char *name;
    PyObject *values;
    if (!PyArg_ParseTuple(args, "sO:add", &name, &values) || enter(self) < 0)
        return NULL;
    enum pst_status status = PST_OK;
    struct pst_error err;
    pst_error_clear(&err);
    struct lent *lent = PyMem_Calloc(1, sizeof(*lent));
    if (lent == NULL) {
        PyErr_NoMemory();
        goto out;
    }
    if (lend_all(self->handle, values, lent) < 0)
        goto out;
    struct pst_sample sample = {.struct_size = sizeof(struct pst_sample),
                                .value_nbytes = sizeof(struct pst_value),
                                .name = name,
                                .values = lent->rows};
    Py_BEGIN_ALLOW_THREADS status = pst_writer_add(self->handle, &sample, &err);
    Py_END_ALLOW_THREADS out : PyThread_release_lock(self->lock);
    for (size_t i = 0; lent != NULL && i < lent->n_buffers; i++)
        PyBuffer_Release(&lent->buffers[i]);
    PyMem_Free(lent);
    if (PyErr_Occurred())
        return NULL;
    if (status != PST_OK)
        return native_raise(status, &err);
    Py_RETURN_NONE;
}

static PyObject *finish_or_commit(struct native_writer *self,
                                  enum pst_status (*call)(pst_writer *, struct pst_error *))
{
    if (enter(self) < 0)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = call(self->handle, &err);
    Py_END_ALLOW_THREADS PyThread_release_lock(self->lock);
    if (status != PST_OK)
        return native_raise(status, &err);
    Py_RETURN_NONE;
}

static PyObject *writer_commit(PyObject *object, PyObject *unused)
{
    (void)unused;
    return finish_or_commit((struct native_writer *)object, pst_writer_commit);
}

static PyObject *writer_finish(PyObject *object, PyObject *unused)
{
    (void)unused;
    return finish_or_commit((struct native_writer *)object, pst_writer_finish);
}

static PyObject *writer_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_writer *self = (struct native_writer *)object;
    if (self->pid != getpid() || self->handle == NULL)
        Py_RETURN_NONE;
    if (native_lock_take(self->lock) < 0)
        return NULL;
    shut(self);
    PyThread_release_lock(self->lock);
    Py_RETURN_NONE;
}

static PyObject *writer_set_class_names(PyObject *object, PyObject *args)
{
    struct native_writer *self = (struct native_writer *)object;
    unsigned int i_field;
    PyObject *sequence, *owner = NULL;
    if (!PyArg_ParseTuple(args, "IO:set_class_names", &i_field, &sequence))
        return NULL;
    Py_ssize_t n;
    const char **names = native_strings(sequence, &n, &owner);
    if (names == NULL)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = PST_OK;
    if (enter(self) == 0) {
        status = pst_writer_set_class_names(self->handle, i_field, names, (size_t)n, &err);
        PyThread_release_lock(self->lock);
    }
    PyMem_Free((void *)names);
    Py_DECREF(owner);
    if (PyErr_Occurred())
        return NULL;
    if (status != PST_OK)
        return native_raise(status, &err);
    Py_RETURN_NONE;
}

static PyObject *writer_set_point_pairs(PyObject *object, PyObject *args)
{
    struct native_writer *self = (struct native_writer *)object;
    unsigned int i_field;
    PyObject *numbers;
    if (!PyArg_ParseTuple(args, "IS:set_point_pairs", &i_field, &numbers))
        return NULL;
    const void *pairs = PyBytes_AsString(numbers);
    size_t n = (size_t)PyBytes_Size(numbers) / (2 * sizeof(uint32_t));
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = PST_OK;
    if (enter(self) < 0)
        return NULL;
    status = pst_writer_set_point_pairs(self->handle, i_field, pairs, n, &err);
    PyThread_release_lock(self->lock);
    if (status != PST_OK)
        return native_raise(status, &err);
    Py_RETURN_NONE;
}

static PyObject *writer_count(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_writer *self = (struct native_writer *)object;
    if (enter(self) < 0)
        return NULL;
    uint64_t count = pst_writer_count(self->handle);
    PyThread_release_lock(self->lock);
    return PyLong_FromUnsignedLongLong(count);
}

static PyObject *writer_has(PyObject *object, PyObject *argument)
{
    struct native_writer *self = (struct native_writer *)object;
    const char *name = PyUnicode_AsUTF8AndSize(argument, NULL);
    if (name == NULL || enter(self) < 0)
        return NULL;
    bool has = pst_writer_has(self->handle, name);
    PyThread_release_lock(self->lock);
    return PyBool_FromLong(has);
}

static PyObject *field_dict(const struct pst_field *field)
{
    PyObject *shape = PyTuple_New(field->ndim);
    for (uint8_t i = 0; shape != NULL && i < field->ndim; i++) {
        PyObject *number = PyLong_FromUnsignedLong(field->shape[i]);
        if (number == NULL || PyTuple_SetItem(shape, i, number) < 0)
            Py_CLEAR(shape);
    }
    return Py_BuildValue("{s:s,s:s,s:s,s:N,s:I,s:L,s:i}", "name", field->name, "type",
                         pst_field_type_name(field->type), "dtype",
                         field->dtype != 0 ? pst_dtype_name(field->dtype) : "", "shape", shape,
                         "n_variants", (unsigned int)field->n_variants, "n_classes",
                         (long long)field->n_classes, "made_for", (int)field->made_for);
}

static PyObject *writer_fields(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_writer *self = (struct native_writer *)object;
    if (enter(self) < 0)
        return NULL;
    uint32_t n = pst_writer_n_fields(self->handle);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (uint32_t i = 0; list != NULL && i < n; i++) {
        PyObject *item = field_dict(pst_writer_field(self->handle, i));
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    PyThread_release_lock(self->lock);
    return list;
}

static PyMethodDef methods[] = {
    {"add", writer_add, METH_VARARGS, "add(name, [[value, ...], ...])"},
    {"commit", writer_commit, METH_NOARGS, "Makes what was added durable."},
    {"finish", writer_finish, METH_NOARGS, "Makes the data set whole."},
    {"close", writer_close, METH_NOARGS, "Frees; without finish() it stays resumable."},
    {"set_class_names", writer_set_class_names, METH_VARARGS, "set_class_names(i_field, names)"},
    {"set_point_pairs", writer_set_point_pairs, METH_VARARGS,
     "set_point_pairs(i_field, pairs): bytes of uint32 (n, 2)."},
    {"count", writer_count, METH_NOARGS, "Samples so far."},
    {"has", writer_has, METH_O, "has(name): bool"},
    {"fields", writer_fields, METH_NOARGS, "A dict per field."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, writer_new},
                              {Py_tp_dealloc, writer_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "A data set that is being written."},
                              {0, NULL}};

PyType_Spec native_writer_spec = {"penstock._native.Writer", sizeof(struct native_writer), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
