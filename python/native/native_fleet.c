/* native_fleet.c - penstock._native.Fleet: one reference to a fleet of memcached servers.
 *
 * The C library does the locking. Opening reads files and closing waits for threads, so both
 * release the GIL. In a forked child the fleet is never touched, because its threads exist only in
 * the parent. */
#include "native.h"

#include <string.h>
#include <unistd.h>

static PyObject *fleet_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct pst_fleet_options options = {.struct_size = sizeof(options)};
    unsigned long long max_item;
    int auth;
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Fleet takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "zdKzi:Fleet", &options.servers, &options.timeout_seconds,
                          &max_item, &options.auth_file, &auth))
        return NULL;
    struct native_fleet *self = (struct native_fleet *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    struct pst_error err;
    enum pst_status status;
    options.max_item_nbytes = max_item;
    options.auth = (enum pst_fleet_auth)auth;
    pst_error_clear(&err);
    self->pid = getpid();
    Py_BEGIN_ALLOW_THREADS status = pst_fleet_open(&options, &self->handle, &err);
    Py_END_ALLOW_THREADS if (status == PST_OK) return (PyObject *)self;
    Py_DECREF(self);
    return native_raise(status, &err);
}

static void fleet_dealloc(PyObject *object)
{
    struct native_fleet *self = (struct native_fleet *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->pid == getpid()) {
        Py_BEGIN_ALLOW_THREADS pst_fleet_close(&self->handle);
        Py_END_ALLOW_THREADS
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* True, with an exception set, in a forked child of the process that opened the fleet. */
static int is_parents(const struct native_fleet *self)
{
    if (self->pid == getpid())
        return 0;
    native_raise_text(PST_ERROR_FORKED, "the fleet belongs to the parent process");
    return 1;
}

static PyObject *fleet_stats(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_fleet *self = (struct native_fleet *)object;
    struct pst_fleet_stats s;
    if (is_parents(self))
        return NULL;
    memset(&s, 0, sizeof(s));
    pst_fleet_stats(self->handle, &s, sizeof s);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"servers", s.n_servers},
                   {"servers_up", s.n_servers_up},
                   {"hits", s.n_hits},
                   {"misses", s.n_misses},
                   {"declined", s.n_declined},
                   {"nbytes_hit", s.nbytes_hit},
                   {"added", s.n_added},
                   {"present", s.n_present},
                   {"full", s.n_full},
                   {"dropped", s.n_dropped},
                   {"nbytes_added", s.nbytes_added},
                   {"bad_values", s.n_bad_values},
                   {"late", s.n_late},
                   {"lost", s.n_lost},
                   {"found", s.n_found}};
    PyObject *dict = PyDict_New();
    int status = dict == NULL ? -1 : 0;
    for (size_t i = 0; status == 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        status =
            native_dict_put(dict, numbers[i].key, PyLong_FromUnsignedLongLong(numbers[i].value));
    if (status == 0)
        status = native_dict_put(dict, "mean_seconds", PyFloat_FromDouble((double)s.mean_ns / 1e9));
    if (status == 0)
        status = native_dict_put(dict, "p99_seconds", PyFloat_FromDouble((double)s.p99_ns / 1e9));
    if (status == 0)
        status = native_dict_put(dict, "bytes_per_second", PyFloat_FromDouble(s.bytes_per_second));
    if (status < 0)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *describe(const struct pst_fleet_server *s)
{
    return Py_BuildValue(
        "{s:s,s:O,s:O,s:s,s:K,s:K,s:K,s:K,s:K,s:K}", "name", s->name, "up",
        s->is_up ? Py_True : Py_False, "local", s->is_local ? Py_True : Py_False, "error", s->error,
        "hits", (unsigned long long)s->n_hits, "misses", (unsigned long long)s->n_misses,
        "declined", (unsigned long long)s->n_declined, "added", (unsigned long long)s->n_added,
        "full", (unsigned long long)s->n_full, "lost", (unsigned long long)s->n_lost);
}

static PyObject *fleet_servers(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_fleet *self = (struct native_fleet *)object;
    struct pst_fleet_stats stats;
    struct pst_fleet_server server;
    if (is_parents(self))
        return NULL;
    pst_fleet_stats(self->handle, &stats, sizeof stats);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < stats.n_servers; i++) {
        if (pst_fleet_server(self->handle, i, &server, sizeof server, NULL) != PST_OK)
            break;
        PyObject *item = describe(&server);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *fleet_pid(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong((long)((struct native_fleet *)object)->pid);
}

static PyMethodDef methods[] = {
    {"stats", fleet_stats, METH_NOARGS, "Counters since it was opened."},
    {"servers", fleet_servers, METH_NOARGS, "A dict for each server."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getset[] = {{"pid", fleet_pid, NULL, "The process that opened it.", NULL},
                               {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, fleet_new},
                              {Py_tp_dealloc, fleet_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getset},
                              {0, NULL}};

PyType_Spec native_fleet_spec = {
    .name = "penstock._native.Fleet",
    .basicsize = sizeof(struct native_fleet),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
