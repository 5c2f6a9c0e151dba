/* native_mixture.c - opens several data sets as one: converts the arguments, and describes the
 * sources. */
#include "native.h"

#include <string.h>

/* The sources of a call, and the memory that their members point to. */
struct given {
    struct pst_mixture_source *sources; /* [n] */
    const char ***renames;              /* [n]; an element is NULL or for PyMem_Free */
    PyObject **owners;                  /* [n], the tuples of their texts; NULL: none */
    Py_ssize_t n;
};

/* Frees the references to the data sets, and all memory of `given`. */
static void free_given(struct given *given)
{
    for (Py_ssize_t i = 0; i < given->n && given->sources != NULL; i++)
        pst_dataset_close(&given->sources[i].dataset);
    for (Py_ssize_t i = 0; i < given->n && given->renames != NULL; i++)
        PyMem_Free((void *)given->renames[i]);
    for (Py_ssize_t i = 0; i < given->n && given->owners != NULL; i++)
        Py_XDECREF(given->owners[i]);
    PyMem_Free(given->sources);
    PyMem_Free((void *)given->renames);
    PyMem_Free(given->owners);
}

/* Reads one source, a tuple of three: a data set, its name or None, and a flat list of old and new
 * field names. */
static int read_source(PyObject *type, PyObject *entry, struct given *given, Py_ssize_t i)
{
    struct pst_mixture_source *source = &given->sources[i];
    PyObject *dataset, *renames;
    Py_ssize_t n = 0;
    if (!PyArg_ParseTuple(entry, "O!zO!", (PyTypeObject *)type, &dataset, &source->name,
                          &PyTuple_Type, &renames))
        return -1;
    pst_dataset *handle = ((struct native_dataset *)dataset)->handle;
    if (handle == NULL) {
        native_raise_text(PST_ERROR_STATE, "the data set of source %zd is closed", i);
        return -1;
    }
    pst_dataset_retain(handle);
    source->dataset = handle;
    given->renames[i] = native_strings(renames, &n, &given->owners[i]);
    if (given->renames[i] == NULL)
        return -1;
    source->renames = given->renames[i];
    source->n_renames = (size_t)n / 2;
    return 0;
}

static int read_sources(PyObject *type, PyObject *entries, struct given *given)
{
    Py_ssize_t n = PyTuple_Size(entries);
    size_t room = (size_t)n + 1;
    given->sources = PyMem_Calloc(room, sizeof *given->sources);
    given->renames = PyMem_Calloc(room, sizeof *given->renames);
    given->owners = PyMem_Calloc(room, sizeof(PyObject *));
    given->n = n;
    if (given->sources == NULL || given->renames == NULL || given->owners == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (read_source(type, PyTuple_GetItem(entries, i), given, i) < 0)
            return -1;
    return 0;
}

static PyObject *new_dataset(PyObject *type, pst_dataset *handle)
{
    struct native_dataset *self =
        (struct native_dataset *)PyType_GenericAlloc((PyTypeObject *)type, 0);
    if (self == NULL)
        pst_dataset_close(&handle);
    else
        self->handle = handle;
    return (PyObject *)self;
}

PyObject *native_mixture_open(PyObject *type, PyObject *args)
{
    PyObject *entries, *fields, *owner = NULL, *opened = NULL;
    int leaves_out;
    struct given given = {.n = 0};
    Py_ssize_t n_fields = 0;
    if (!PyArg_ParseTuple(args, "O!O!p:mixture", &PyTuple_Type, &entries, &PyTuple_Type, &fields,
                          &leaves_out))
        return NULL;
    const char **names = native_strings(fields, &n_fields, &owner);
    if (names != NULL && read_sources(type, entries, &given) == 0) {
        const struct pst_mixture_options options = {.struct_size = sizeof options,
                                                    .fields = names,
                                                    .n_fields = (size_t)n_fields,
                                                    .lacking = leaves_out ? PST_LACKING_LEAVE_OUT
                                                                          : PST_LACKING_ERROR};
        struct pst_error err;
        pst_dataset *handle = NULL;
        enum pst_status status;
        pst_error_clear(&err);
        Py_BEGIN_ALLOW_THREADS status =
            pst_dataset_open_many(given.sources, (size_t)given.n, &options, &handle, &err);
        Py_END_ALLOW_THREADS opened =
            status == PST_OK ? new_dataset(type, handle) : native_raise(status, &err);
    }
    free_given(&given);
    PyMem_Free((void *)names);
    Py_XDECREF(owner);
    return opened;
}

PyObject *native_mixture_sources(const pst_dataset *dataset)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < pst_dataset_n_sources(dataset); i++) {
        const pst_dataset *source = pst_dataset_source(dataset, i);
        PyObject *entry = Py_BuildValue("(sNsKK)", pst_dataset_source_name(dataset, i),
                                        PyUnicode_DecodeFSDefault(pst_dataset_path(source)),
                                        pst_dataset_kind_name(pst_dataset_kind_of(source)),
                                        (unsigned long long)pst_dataset_source_first(dataset, i),
                                        (unsigned long long)pst_dataset_count(source));
        if (entry == NULL || PyList_Append(list, entry) < 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

PyObject *native_mixture_rows(const pst_loader *loader, uint32_t n)
{
    uint64_t *rows = PyMem_Calloc((size_t)n + 1, sizeof *rows);
    if (rows == NULL)
        return PyErr_NoMemory();
    pst_loader_source_rows(loader, rows, n);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (uint32_t i = 0; list != NULL && i < n; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(rows[i]);
        if (number == NULL || PyList_SetItem(list, (Py_ssize_t)i, number) < 0)
            Py_CLEAR(list);
    }
    PyMem_Free(rows);
    return list;
}
