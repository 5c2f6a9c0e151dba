/* native_dataset.c - penstock._native.Dataset: one reference to a data set that is open for
 * reading.
 *
 * The handle is immutable, so any thread may call. Calls that may read from disk release the GIL
 * and hold a reference of their own, so close() in another thread is safe. */
#include "native.h"

#include <string.h>

int native_mask_names(PyObject *names, const char *out[PST_MAX_FIELDS],
                      struct pst_dataset_options *options)
{
    Py_ssize_t n = names == NULL ? 0 : PyTuple_Size(names);
    if (n < 0)
        return -1;
    if (n > PST_MAX_FIELDS) {
        native_raise_text(PST_ERROR_ARGUMENT, "at most %d columns of masks", PST_MAX_FIELDS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
        if (out[i] == NULL)
            return -1;
    }
    options->masks = out;
    options->n_masks = (size_t)n;
    return 0;
}

/* Reads one rule, a tuple of five: suffix, name or None, type or None, whether it is left out,
 * number of classes. Its texts live as long as `entry`. */
static int read_rule(PyObject *entry, struct pst_member_rule *rule)
{
    const char *type;
    int is_left_out;
    long long n_classes;
    memset(rule, 0, sizeof(*rule));
    if (!PyArg_ParseTuple(entry, "szzpL", &rule->suffix, &rule->field, &type, &is_left_out,
                          &n_classes))
        return -1;
    rule->is_left_out = is_left_out != 0;
    rule->n_classes = n_classes;
    rule->type = type == NULL ? (enum pst_field_type)0 : pst_field_type_from_name(type);
    if (type == NULL || rule->type != 0)
        return 0;
    native_raise_text(PST_ERROR_ARGUMENT, "fields: there is no type %s", type);
    return -1;
}

int native_member_rules(PyObject *rules, struct pst_member_rule **out,
                        struct pst_dataset_options *options)
{
    *out = NULL;
    Py_ssize_t n = rules == NULL ? 0 : PyTuple_Size(rules);
    if (n <= 0)
        return n < 0 ? -1 : 0;
    *out = PyMem_Calloc((size_t)n, sizeof(**out));
    if (*out == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (read_rule(PyTuple_GetItem(rules, i), *out + i) < 0) {
            PyMem_Free(*out);
            *out = NULL;
            return -1;
        }
    options->members = *out;
    options->n_members = (size_t)n;
    return 0;
}

PyObject *native_notices(const pst_dataset *dataset)
{
    PyObject *list = PyList_New(0);
    struct pst_notice notice;
    for (uint32_t i = 0; list != NULL && i < pst_dataset_n_notices(dataset); i++) {
        PyObject *entry =
            pst_dataset_notice(dataset, i, &notice, sizeof notice, NULL) != PST_OK
                ? NULL
                : Py_BuildValue("{s:s,s:s,s:K,s:s}", "kind", pst_notice_kind_name(notice.kind),
                                "name", notice.name, "count", (unsigned long long)notice.count,
                                "first", notice.first);
        bool fails = entry == NULL;
        if (!fails && notice.why[0] != '\0')
            fails = native_dict_put(entry, "why", PyUnicode_FromString(notice.why)) < 0;
        if (fails || PyList_Append(list, entry) < 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

/* State of a call that opens a data set and reports progress. `thread` is set while the GIL is
 * released. */
struct opening {
    PyThreadState *thread;
    PyObject *progress; /* a callable or None; borrowed */
};

/* Progress callback of the C library. Returns non-zero, which ends the work, after Ctrl-C or an
 * exception of the callable. */
static int on_progress(void *ctx, const struct pst_progress *progress)
{
    struct opening *opening = ctx;
    PyEval_RestoreThread(opening->thread);
    int stop = PyErr_CheckSignals() < 0;
    if (!stop && opening->progress != NULL && opening->progress != Py_None) {
        PyObject *answer =
            PyObject_CallFunction(opening->progress, "KK", (unsigned long long)progress->n_done,
                                  (unsigned long long)progress->nbytes_in);
        stop = answer == NULL;
        Py_XDECREF(answer);
    }
    opening->thread = PyEval_SaveThread();
    return stop;
}

/* Opens the data set without the GIL. */
static pst_dataset *open_path(const char *path, struct pst_dataset_options *options,
                              PyObject *progress)
{
    struct opening opening = {.progress = progress};
    struct pst_error err;
    pst_dataset *handle = NULL;
    pst_error_clear(&err);
    options->progress = on_progress;
    options->progress_ctx = &opening;
    opening.thread = PyEval_SaveThread();
    enum pst_status status = pst_dataset_open(path, options, &handle, &err);
    PyEval_RestoreThread(opening.thread);
    if (PyErr_Occurred()) {
        pst_dataset_close(&handle);
        return NULL;
    }
    if (status != PST_OK)
        native_raise(status, &err);
    return status == PST_OK ? handle : NULL;
}

static PyObject *dataset_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "path",  "labels", "allow_unreadable", "masks", "files", "ignore_labels",
        "split", "rules",  "progress",         NULL};
    PyObject *path = NULL, *masks = NULL, *files = NULL, *file_owner = NULL, *rules = NULL;
    PyObject *progress = NULL;
    const char **file_names = NULL;
    Py_ssize_t n_files = 0;
    const char *mask_names[PST_MAX_FIELDS];
    struct pst_member_rule *members = NULL;
    int allow_unreadable = 0, ignore_labels = 0;
    struct pst_dataset_options options = {.struct_size = sizeof(options)};
    pst_dataset *handle = NULL;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O&|zpO!O!pzO!O:Dataset", names, PyUnicode_FSConverter, &path,
            &options.labels, &allow_unreadable, &PyTuple_Type, &masks, &PyTuple_Type, &files,
            &ignore_labels, &options.split, &PyTuple_Type, &rules, &progress))
        return NULL;
    if (files != NULL)
        file_names = native_strings(files, &n_files, &file_owner);
    options.files = file_names;
    options.n_files = (size_t)n_files;
    options.allow_unreadable = allow_unreadable != 0;
    options.ignore_labels = ignore_labels != 0;
    if ((files == NULL || file_names != NULL) &&
        native_mask_names(masks, mask_names, &options) == 0 &&
        native_member_rules(rules, &members, &options) == 0)
        handle = open_path(PyBytes_AsString(path), &options, progress);
    PyMem_Free((void *)file_names);
    PyMem_Free(members);
    Py_XDECREF(file_owner);
    Py_DECREF(path);
    if (handle == NULL)
        return NULL;
    struct native_dataset *self = (struct native_dataset *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        pst_dataset_close(&handle);
        return NULL;
    }
    self->handle = handle;
    return (PyObject *)self;
}

static void dataset_dealloc(PyObject *object)
{
    struct native_dataset *self = (struct native_dataset *)object;
    PyTypeObject *type = Py_TYPE(object);
    pst_dataset_close(&self->handle);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static pst_dataset *open_handle(PyObject *self)
{
    pst_dataset *handle = ((struct native_dataset *)self)->handle;
    if (handle == NULL)
        native_raise_text(PST_ERROR_STATE, "the data set is closed");
    return handle;
}

static PyObject *dataset_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    pst_dataset *handle = ((struct native_dataset *)self)->handle;
    ((struct native_dataset *)self)->handle = NULL;
    Py_BEGIN_ALLOW_THREADS pst_dataset_close(&handle);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *dataset_info(PyObject *self, PyObject *unused)
{
    (void)unused;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    return Py_BuildValue(
        "{s:N,s:s,s:K,s:y#,s:K,s:I}", "path", PyUnicode_DecodeFSDefault(pst_dataset_path(handle)),
        "kind", pst_dataset_kind_name(pst_dataset_kind_of(handle)), "count",
        (unsigned long long)pst_dataset_count(handle), "id", pst_dataset_id(handle), (Py_ssize_t)16,
        "n_skipped", (unsigned long long)pst_dataset_n_skipped(handle), "n_files",
        (unsigned int)pst_dataset_n_files(handle));
}

static PyObject *dataset_nbytes(PyObject *self, PyObject *unused)
{
    (void)unused;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    uint64_t nbytes = 0;
    enum pst_status status;
    pst_dataset_retain(handle);
    Py_BEGIN_ALLOW_THREADS status = pst_dataset_nbytes(handle, &nbytes, &err);
    pst_dataset_close(&handle);
    Py_END_ALLOW_THREADS return status == PST_OK ? PyLong_FromUnsignedLongLong(nbytes)
                                                 : native_raise(status, &err);
}

/* Returns another object for the same open data set. Closing this one does not close the other. */
static PyObject *dataset_again(PyObject *self, PyObject *unused)
{
    (void)unused;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    struct native_dataset *other = (struct native_dataset *)PyType_GenericAlloc(Py_TYPE(self), 0);
    if (other == NULL)
        return NULL;
    pst_dataset_retain(handle);
    other->handle = handle;
    return (PyObject *)other;
}

static PyObject *dataset_identity(PyObject *self, PyObject *args)
{
    int kind;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL || !PyArg_ParseTuple(args, "i", &kind))
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    uint8_t identity[PST_IDENTITY_NBYTES];
    enum pst_status status;
    pst_dataset_retain(handle);
    Py_BEGIN_ALLOW_THREADS status =
        pst_dataset_identity(handle, (enum pst_identity)kind, identity, &err);
    pst_dataset_close(&handle);
    Py_END_ALLOW_THREADS return status == PST_OK
        ? PyBytes_FromStringAndSize((const char *)identity, sizeof identity)
        : native_raise(status, &err);
}

static PyObject *dataset_notices(PyObject *self, PyObject *unused)
{
    (void)unused;
    pst_dataset *handle = open_handle(self);
    return handle == NULL ? NULL : native_notices(handle);
}

static PyObject *dataset_sources(PyObject *self, PyObject *unused)
{
    (void)unused;
    pst_dataset *handle = open_handle(self);
    return handle == NULL ? NULL : native_mixture_sources(handle);
}

static PyObject *shape_tuple(const uint32_t *shape, uint8_t ndim)
{
    PyObject *tuple = PyTuple_New(ndim);
    for (uint8_t i = 0; tuple != NULL && i < ndim; i++) {
        PyObject *number = PyLong_FromUnsignedLong(shape[i]);
        if (number == NULL || PyTuple_SetItem(tuple, i, number) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* Returns the pairs of points, ((left, right), ...), or None if they are not stated. */
static PyObject *pairs_tuple(const pst_dataset *handle, uint32_t i, const struct pst_field *field)
{
    const uint32_t *pairs = pst_dataset_point_pairs(handle, i);
    if (field->n_pairs_plus_1 == 0)
        Py_RETURN_NONE;
    Py_ssize_t n = (Py_ssize_t)field->n_pairs_plus_1 - 1;
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t k = 0; tuple != NULL && k < n; k++) {
        PyObject *pair = Py_BuildValue("(II)", pairs[2 * k], pairs[2 * k + 1]);
        if (pair == NULL || PyTuple_SetItem(tuple, k, pair) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *field_dict(const pst_dataset *handle, uint32_t i, const struct pst_field *field)
{
    return Py_BuildValue(
        "{s:s,s:s,s:s,s:N,s:I,s:L,s:K,s:K,s:i,s:N}", "name", field->name, "type",
        pst_field_type_name(field->type), "dtype",
        field->dtype != 0 ? pst_dtype_name(field->dtype) : "", "shape",
        shape_tuple(field->shape, field->ndim), "n_variants", (unsigned int)field->n_variants,
        "n_classes", (long long)field->n_classes, "max_item_nbytes",
        (unsigned long long)pst_dataset_max_item_nbytes(handle, i), "max_pixels_nbytes",
        (unsigned long long)pst_dataset_max_pixels_nbytes(handle, i), "made_for",
        (int)field->made_for, "pairs", pairs_tuple(handle, i, field));
}

static PyObject *dataset_fields(PyObject *self, PyObject *unused)
{
    (void)unused;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    uint32_t n = pst_dataset_n_fields(handle);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (uint32_t i = 0; list != NULL && i < n; i++) {
        PyObject *item = field_dict(handle, i, pst_dataset_field(handle, i));
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *dataset_class_name(PyObject *self, PyObject *args)
{
    unsigned int i_field;
    long long label;
    if (!PyArg_ParseTuple(args, "IL:class_name", &i_field, &label))
        return NULL;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    const char *name = pst_dataset_class_name(handle, i_field, label);
    if (name == NULL)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(name);
}

static PyObject *dataset_name(PyObject *self, PyObject *args)
{
    unsigned long long sample;
    if (!PyArg_ParseTuple(args, "K:name", &sample))
        return NULL;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    char name[PST_NAME_CAP];
    enum pst_status status = pst_dataset_sample_name(handle, sample, name, &err);
    if (status != PST_OK)
        return native_raise(status, &err);
    return PyUnicode_DecodeFSDefault(name);
}

/* True if the item exists. The forms of a folder's images are unknown until a file is read, but its
 * files are known. */
static bool is_present(const pst_dataset *handle, const struct pst_item *item)
{
    if (item->form != PST_FORM_NONE)
        return true;
    return !pst_dataset_is_packed(handle) && item->i_file != PST_FILE_NONE;
}

static PyObject *item_dict(const pst_dataset *handle, const struct pst_item *item)
{
    PyObject *form = item->form == PST_FORM_NONE ? Py_NewRef(Py_None)
                                                 : PyUnicode_FromString(pst_form_name(item->form));
    PyObject *file =
        item->i_file == PST_FILE_NONE ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(item->i_file);
    uint64_t decoded = item->coding == PST_CODING_STORED ? item->nbytes : item->decoded_nbytes;
    return Py_BuildValue(
        "{s:O,s:N,s:N,s:K,s:K,s:K,s:K,s:O,s:O,s:O,s:K,s:K,s:K,s:I,s:I,s:I,s:I,s:I,s:N}", "present",
        is_present(handle, item) ? Py_True : Py_False, "form", form, "i_file", file, "offset",
        (unsigned long long)item->offset, "nbytes", (unsigned long long)item->nbytes,
        "decoded_nbytes", (unsigned long long)decoded, "page_nbytes",
        (unsigned long long)item->page_nbytes, "has_checksum",
        item->has_checksum ? Py_True : Py_False, "has_pixel_checksum",
        item->has_pixel_checksum ? Py_True : Py_False, "was_pli",
        item->was_pli ? Py_True : Py_False, "checksum", (unsigned long long)item->checksum,
        "pixel_checksum", (unsigned long long)item->pixel_checksum, "jpeg_nbytes",
        (unsigned long long)item->jpeg_nbytes, "height", (unsigned int)item->height, "width",
        (unsigned int)item->width, "channels", (unsigned int)item->channels, "bits",
        (unsigned int)item->bits, "orientation", (unsigned int)item->orientation, "shape",
        shape_tuple(item->shape, item->ndim));
}

static PyObject *dataset_item(PyObject *self, PyObject *args)
{
    unsigned long long sample;
    unsigned int i_field, variant;
    if (!PyArg_ParseTuple(args, "KII:item", &sample, &i_field, &variant))
        return NULL;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    struct pst_item item = {0};
    enum pst_status status =
        pst_dataset_item(handle, sample, i_field, variant, &item, sizeof item, &err);
    if (status != PST_OK)
        return native_raise(status, &err);
    return item_dict(handle, &item);
}

static PyObject *dataset_value(PyObject *self, PyObject *args)
{
    unsigned long long sample;
    unsigned int i_field;
    if (!PyArg_ParseTuple(args, "KI:value", &sample, &i_field))
        return NULL;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    const struct pst_field *field = pst_dataset_field(handle, i_field);
    int64_t integer = 0;
    double real = 0;
    bool is_int = field == NULL || field->type == PST_FIELD_INT;
    enum pst_status status = is_int ? pst_dataset_int(handle, sample, i_field, &integer, &err)
                                    : pst_dataset_float(handle, sample, i_field, &real, &err);
    if (status != PST_OK)
        return native_raise(status, &err);
    return is_int ? PyLong_FromLongLong(integer) : PyFloat_FromDouble(real);
}

static PyObject *dataset_column(PyObject *self, PyObject *args)
{
    unsigned int i_field;
    unsigned long long first, n;
    if (!PyArg_ParseTuple(args, "IKK:column", &i_field, &first, &n))
        return NULL;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    if (n > PY_SSIZE_T_MAX / 8)
        return PyErr_NoMemory();
    PyObject *values = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)n * 8);
    if (values == NULL)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    char *buffer = PyByteArray_AsString(values);
    enum pst_status status;
    pst_dataset_retain(handle);
    Py_BEGIN_ALLOW_THREADS status = pst_dataset_column(handle, i_field, first, n, buffer, &err);
    pst_dataset_close(&handle);
    Py_END_ALLOW_THREADS if (status != PST_OK)
    {
        Py_DECREF(values);
        return native_raise(status, &err);
    }
    return values;
}

static PyObject *dataset_find(PyObject *self, PyObject *args)
{
    PyObject *name;
    if (!PyArg_ParseTuple(args, "O&:find", PyUnicode_FSConverter, &name))
        return NULL;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL) {
        Py_DECREF(name);
        return NULL;
    }
    struct pst_error err;
    pst_error_clear(&err);
    const char *wanted = PyBytes_AsString(name);
    uint64_t sample = 0;
    enum pst_status status;
    pst_dataset_retain(handle);
    Py_BEGIN_ALLOW_THREADS status = pst_dataset_find_sample(handle, wanted, &sample, &err);
    pst_dataset_close(&handle);
    Py_END_ALLOW_THREADS Py_DECREF(name);
    if (status != PST_OK)
        return native_raise(status, &err);
    return PyLong_FromUnsignedLongLong(sample);
}

/* Raises the error for an item that there is no memory for. A container may state any size. The
 * library's error names the item and the size, and reading any byte of the item produces it. */
static PyObject *no_memory_for(pst_dataset *handle, uint64_t sample, uint32_t i_field,
                               uint32_t variant)
{
    struct pst_error err;
    char byte;
    PyErr_Clear();
    pst_error_clear(&err);
    enum pst_status status =
        pst_dataset_read(handle, sample, i_field, variant, 0, 1, &byte, &err);
    return status == PST_OK ? PyErr_NoMemory() : native_raise(status, &err);
}

static PyObject *dataset_read(PyObject *self, PyObject *args)
{
    unsigned long long sample, start, nbytes;
    unsigned int i_field, variant;
    if (!PyArg_ParseTuple(args, "KIIKK:read", &sample, &i_field, &variant, &start, &nbytes))
        return NULL;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    if (nbytes > PY_SSIZE_T_MAX)
        return PyErr_NoMemory();
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)nbytes);
    if (bytes == NULL)
        return no_memory_for(handle, sample, i_field, variant);
    struct pst_error err;
    pst_error_clear(&err);
    char *buffer = PyBytes_AsString(bytes);
    enum pst_status status;
    pst_dataset_retain(handle);
    Py_BEGIN_ALLOW_THREADS status =
        pst_dataset_read(handle, sample, i_field, variant, start, nbytes, buffer, &err);
    pst_dataset_close(&handle);
    Py_END_ALLOW_THREADS if (status != PST_OK)
    {
        Py_DECREF(bytes);
        return native_raise(status, &err);
    }
    return bytes;
}

static PyObject *dataset_file_path(PyObject *self, PyObject *args)
{
    unsigned int i_file;
    if (!PyArg_ParseTuple(args, "I:file_path", &i_file))
        return NULL;
    pst_dataset *handle = open_handle(self);
    if (handle == NULL)
        return NULL;
    char buffer[8192];
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = pst_dataset_file_path(handle, i_file, buffer, sizeof(buffer), &err);
    if (status != PST_OK)
        return native_raise(status, &err);
    return PyUnicode_DecodeFSDefault(buffer);
}

static PyMethodDef methods[] = {
    {"close", dataset_close, METH_NOARGS, "Gives the share back."},
    {"notices", dataset_notices, METH_NOARGS, "A dict per notice of a plain folder."},
    {"mixture", native_mixture_open, METH_VARARGS | METH_CLASS,
     "mixture(sources, fields, leaves_out): several data sets as one."},
    {"sources", dataset_sources, METH_NOARGS,
     "(name, path, kind, first, count) of each source of a mixture."},
    {"again", dataset_again, METH_NOARGS, "Another object for the same open data set."},
    {"identity", dataset_identity, METH_VARARGS, "identity(kind) -> 16 bytes"},
    {"nbytes", dataset_nbytes, METH_NOARGS, "Bytes of all files that items lie in."},
    {"info", dataset_info, METH_NOARGS, "What is known of the whole."},
    {"fields", dataset_fields, METH_NOARGS, "A dict per field."},
    {"class_name", dataset_class_name, METH_VARARGS, "class_name(i_field, label): str or None."},
    {"name", dataset_name, METH_VARARGS, "name(sample): str."},
    {"item", dataset_item, METH_VARARGS, "item(sample, i_field, variant): a dict."},
    {"value", dataset_value, METH_VARARGS, "value(sample, i_field): int or float."},
    {"column", dataset_column, METH_VARARGS, "column(i_field, first, n): 8 bytes for each sample."},
    {"find", dataset_find, METH_VARARGS, "find(name): the number of that sample."},
    {"read", dataset_read, METH_VARARGS, "read(sample, i_field, variant, start, nbytes): bytes."},
    {"file_path", dataset_file_path, METH_VARARGS, "file_path(i_file): str."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, dataset_new},
                              {Py_tp_dealloc, dataset_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "A data set that is open for reading."},
                              {0, NULL}};

PyType_Spec native_dataset_spec = {"penstock._native.Dataset", sizeof(struct native_dataset), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
