/* native_cache.c - penstock._native.Cache: one reference to a cache of this process or to the host
 * cache.
 *
 * The C library does the locking. In a forked child the cache is never touched: its memory is the
 * parent's, and its locks may be held by threads that do not exist in the child. */
#include "native.h"

#include <string.h>
#include <unistd.h>

/* Implements Cache(socket, program, strict, later): opens the host cache. The first two are None or
 * bytes; the others are members of struct pst_cache_host_options. */
static enum pst_status open_host(PyObject *args, pst_cache **handle, struct pst_error *err)
{
    const char *socket, *program;
    int strict, later;
    if (!PyArg_ParseTuple(args, "zzpp:Cache", &socket, &program, &strict, &later))
        return PST_END;
    const struct pst_cache_host_options options = {.struct_size = sizeof(options),
                                                   .socket = socket,
                                                   .program = program,
                                                   .interrupt = native_interrupt,
                                                   .strict = strict,
                                                   .later = later};
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = pst_cache_open_host(&options, handle, err);
    Py_END_ALLOW_THREADS return status;
}

/* Implements Cache(nbytes): makes a cache of this process. */
static enum pst_status open_own(PyObject *args, pst_cache **handle, struct pst_error *err)
{
    unsigned long long nbytes;
    if (!PyArg_ParseTuple(args, "K:Cache", &nbytes))
        return PST_END;
    const struct pst_cache_options options = {.struct_size = sizeof(options), .nbytes = nbytes};
    return pst_cache_open(&options, handle, err);
}

static PyObject *cache_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Cache takes no keyword arguments");
        return NULL;
    }
    struct native_cache *self = (struct native_cache *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    self->pid = getpid();
    enum pst_status status = PyTuple_Size(args) == 4 ? open_host(args, &self->handle, &err)
                                                     : open_own(args, &self->handle, &err);
    if (status == PST_OK)
        return (PyObject *)self;
    Py_DECREF(self);
    return status == PST_END ? NULL : native_raise(status, &err); /* END: invalid arguments */
}

static void cache_dealloc(PyObject *object)
{
    struct native_cache *self = (struct native_cache *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->pid == getpid())
        pst_cache_close(&self->handle);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* True, with an exception set, in a forked child of the process that made the cache. */
static int is_parents(const struct native_cache *self)
{
    if (self->pid == getpid())
        return 0;
    native_raise_text(PST_ERROR_FORKED, "the cache belongs to the parent process");
    return 1;
}

static PyObject *cache_stats(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_cache *self = (struct native_cache *)object;
    if (is_parents(self))
        return NULL;
    struct pst_cache_stats stats;
    memset(&stats, 0, sizeof(stats));
    Py_BEGIN_ALLOW_THREADS pst_cache_stats(self->handle, &stats,
                                           sizeof stats); /* may ask the host service */
    Py_END_ALLOW_THREADS return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K}", "limit", (unsigned long long)stats.nbytes, "used",
        (unsigned long long)stats.nbytes_used, "items", (unsigned long long)stats.n_items,
        "datasets", (unsigned long long)stats.n_datasets, "refused",
        (unsigned long long)stats.n_refused);
}

PyObject *native_cache_advise(PyObject *module, PyObject *argument)
{
    (void)module;
    unsigned long long nbytes = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    struct pst_cache_advice advice;
    memset(&advice, 0, sizeof(advice));
    pst_cache_advise(nbytes, &advice, sizeof advice);
    return Py_BuildValue("(Ks)", (unsigned long long)advice.nbytes, advice.reason);
}

/* Copies the bytes and seconds of all samples to an array of costs. Returns -1 with an exception
 * set on failure. */
static int read_costs(const Py_buffer *nbytes, const Py_buffer *seconds,
                      struct pst_cache_cost **costs, uint64_t *n)
{
    if (nbytes->len % 8 != 0 || nbytes->len != seconds->len) {
        PyErr_SetString(PyExc_ValueError, "as many u64 bytes as f64 seconds are wanted");
        return -1;
    }
    *n = (uint64_t)nbytes->len / 8;
    *costs = PyMem_Calloc((size_t)*n + 1, sizeof(**costs));
    if (*costs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint64_t i = 0; i < *n; i++) {
        memcpy(&(*costs)[i].nbytes, (const char *)nbytes->buf + 8 * i, 8);
        memcpy(&(*costs)[i].seconds, (const char *)seconds->buf + 8 * i, 8);
    }
    return 0;
}

PyObject *native_cache_plan(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer nbytes, seconds, plan;
    unsigned long long limit;
    struct pst_cache_cost *costs = NULL;
    uint64_t n = 0;
    if (!PyArg_ParseTuple(args, "y*y*Kw*:cache_plan", &nbytes, &seconds, &limit, &plan))
        return NULL;
    struct pst_cache_plan_report report;
    memset(&report, 0, sizeof(report));
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = PST_OK;
    if (read_costs(&nbytes, &seconds, &costs, &n) == 0) {
        if ((uint64_t)plan.len != n)
            PyErr_SetString(PyExc_ValueError, "the plan has a byte for each sample");
        else
            status = pst_cache_plan(costs, sizeof *costs, n, limit, plan.buf, &report,
                                    sizeof report, &err);
    }
    PyMem_Free(costs);
    PyBuffer_Release(&plan);
    PyBuffer_Release(&seconds);
    PyBuffer_Release(&nbytes);
    if (PyErr_Occurred())
        return NULL;
    if (status != PST_OK)
        return native_raise(status, &err);
    return Py_BuildValue("(KKdd)", (unsigned long long)report.n_samples,
                         (unsigned long long)report.nbytes, report.seconds, report.seconds_bound);
}

/* Calls pst_cache_save or pst_cache_load without the GIL; returns the report as a dict. */
static PyObject *with_file(PyObject *object, PyObject *name,
                           enum pst_status (*call)(pst_cache *, const char *,
                                                   struct pst_cache_file_report *, size_t,
                                                   struct pst_error *))
{
    struct native_cache *self = (struct native_cache *)object;
    PyObject *path;
    if (is_parents(self) || !PyUnicode_FSConverter(name, &path))
        return NULL;
    struct pst_cache_file_report report;
    memset(&report, 0, sizeof(report));
    struct pst_error err;
    pst_error_clear(&err);
    const char *text = PyBytes_AsString(path);
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = call(self->handle, text, &report, sizeof report, &err);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    if (status != PST_OK)
        return native_raise(status, &err);
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "items", (unsigned long long)report.n_items, "nbytes",
        (unsigned long long)report.nbytes, "datasets", (unsigned long long)report.n_datasets,
        "file_nbytes", (unsigned long long)report.file_nbytes, "present",
        (unsigned long long)report.n_present, "refused", (unsigned long long)report.n_refused,
        "unsaved", (unsigned long long)report.n_unsaved);
}

static PyObject *cache_save(PyObject *object, PyObject *path)
{
    return with_file(object, path, pst_cache_save);
}

static PyObject *cache_load(PyObject *object, PyObject *path)
{
    return with_file(object, path, pst_cache_load);
}

static PyObject *cache_pid(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong((long)((struct native_cache *)object)->pid);
}

static PyMethodDef methods[] = {{"stats", cache_stats, METH_NOARGS, "What it holds now."},
                                {"save", cache_save, METH_O, "Writes its items to a file."},
                                {"load", cache_load, METH_O, "Takes items from a file."},
                                {NULL, NULL, 0, NULL}};

static PyGetSetDef getset[] = {{"pid", cache_pid, NULL, "The process that made it.", NULL},
                               {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, cache_new},
                              {Py_tp_dealloc, cache_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getset},
                              {Py_tp_doc, "Stored bytes kept in memory."},
                              {0, NULL}};

PyType_Spec native_cache_spec = {
    .name = "penstock._native.Cache",
    .basicsize = sizeof(struct native_cache),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
