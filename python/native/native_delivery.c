/* native_delivery.c - penstock._native.Delivery, the iterator that hands batches to the caller, and
 * Receipt.
 *
 * Signal handlers and other asynchronous exceptions run between two instructions of Python, and may
 * raise. So a batch is counted as received at a single moment at which no Python code runs.
 * `_make`, a method of the Python subclass, returns the next batch and the place after it, and
 * counts nothing. `_check` does nothing, but its first instruction lets the handlers of pending
 * signals run. Then C code stores the place and returns the batch, with no instruction of Python in
 * between. A `for` loop stores the batch before it checks for signals again.
 *
 * After a call of next(), Python checks for signals once more before it assigns the result. If a
 * handler raises there, the result is dropped while the exception propagates. A Receipt, which only
 * the batch refers to, is then freed. It sees the exception and moves the place back. Local
 * variables do not have this problem, because the exception's traceback keeps them alive.
 *
 * The place is the only element of a list that the loader also holds. Only one thread at a time
 * makes a batch. */
#include "native.h"

#include <unistd.h>

struct native_delivery {
    PyObject_HEAD PyObject *place; /* a list with one element */
    PyThread_type_lock lock;       /* held while a batch is made */
    unsigned long owner;           /* id of the thread that holds the lock, or 0; under the GIL */
    pid_t pid;                     /* process in which the lock was made */
};

static PyObject *delivery_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    PyObject *place = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;
    if (place == NULL || !PyList_Check(place) || PyList_Size(place) != 1) {
        PyErr_SetString(PyExc_TypeError, "a list of one place is wanted");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct native_delivery *self = (struct native_delivery *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(place);
    self->place = place;
    self->pid = getpid();
    self->lock = PyThread_allocate_lock();
    if (self->lock != NULL)
        return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_NoMemory();
}

static void delivery_dealloc(PyObject *object)
{
    struct native_delivery *self = (struct native_delivery *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->place);
    if (self->lock != NULL && self->pid == getpid())
        PyThread_free_lock(self->lock);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* Waits until no other thread makes a batch. Returns 0, or -1 with an exception set. */
static int enter(struct native_delivery *self)
{
    if (self->pid != getpid()) { /* the lock's owner does not exist in a forked child */
        PyThread_type_lock lock = PyThread_allocate_lock();
        if (lock == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->lock = lock;
        self->owner = 0;
        self->pid = getpid();
    }
    if (self->owner == PyThread_get_thread_ident()) {
        native_raise_text(PST_ERROR_STATE, "the iterator was asked for a batch by what it calls to "
                                           "make one");
        return -1;
    }
    if (native_lock_take(self->lock) < 0)
        return -1;
    self->owner = PyThread_get_thread_ident();
    return 0;
}

/* Stores the place of `made`, (batch, place), and returns the batch. NULL if an exception came
 * first. */
static PyObject *receive(PyObject *object, PyObject *made)
{
    PyObject *batch = PyTuple_GetItem(made, 0), *place = PyTuple_GetItem(made, 1);
    if (batch == NULL || place == NULL)
        return NULL;
    PyObject *checked = PyObject_CallMethod(object, "_check", NULL);
    if (checked == NULL)
        return NULL;
    Py_DECREF(checked);
    /* From here on no Python runs. */
    Py_INCREF(place);
    if (PyList_SetItem(((struct native_delivery *)object)->place, 0, place) < 0)
        return NULL;
    Py_INCREF(batch);
    return batch;
}

static PyObject *delivery_next(PyObject *object)
{
    struct native_delivery *self = (struct native_delivery *)object;
    if (enter(self) < 0)
        return NULL;
    PyObject *made = PyObject_CallMethod(object, "_make", NULL);
    PyObject *batch = made == NULL || made == Py_None ? NULL : receive(object, made);
    Py_XDECREF(made);
    self->owner = 0;
    PyThread_release_lock(self->lock);
    return batch;
}

static PyObject *delivery_iter(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

static PyObject *delivery_place(PyObject *object, void *unused)
{
    (void)unused;
    PyObject *place = PyList_GetItem(((struct native_delivery *)object)->place, 0);
    Py_XINCREF(place);
    return place;
}

static PyObject *delivery_is_busy(PyObject *object, void *unused)
{
    const struct native_delivery *self = (struct native_delivery *)object;
    (void)unused;
    return PyBool_FromLong(self->owner != 0 && self->pid == getpid());
}

static PyGetSetDef getset[] = {
    {"is_busy", delivery_is_busy, NULL, "A batch is being made.", NULL},
    {"place", delivery_place, NULL, "The place after the newest batch received.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, delivery_new},
                              {Py_tp_dealloc, delivery_dealloc},
                              {Py_tp_iter, delivery_iter},
                              {Py_tp_iternext, delivery_next},
                              {Py_tp_getset, getset},
                              {Py_tp_doc, "Hands batches to the caller. _make() makes them."},
                              {0, NULL}};

PyType_Spec native_delivery_spec = {"penstock._native.Delivery", sizeof(struct native_delivery), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

/* Receipt(list, before, after): belongs to the batch between two places. */
struct native_receipt {
    PyObject_HEAD PyObject *place, *before, *after;
};

static PyObject *receipt_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    PyObject *place, *before, *after;
    if (!PyArg_ParseTuple(args, "O!OO:Receipt", &PyList_Type, &place, &before, &after))
        return NULL;
    struct native_receipt *self = (struct native_receipt *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(place);
    Py_INCREF(before);
    Py_INCREF(after);
    self->place = place;
    self->before = before;
    self->after = after;
    return (PyObject *)self;
}

static void receipt_dealloc(PyObject *object)
{
    struct native_receipt *self = (struct native_receipt *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->place != NULL && PyErr_Occurred() != NULL && PyList_Size(self->place) == 1 &&
        PyList_GetItem(self->place, 0) == self->after) {
        Py_INCREF(self->before);
        PyList_SetItem(self->place, 0, self->before);
    }
    Py_XDECREF(self->place);
    Py_XDECREF(self->before);
    Py_XDECREF(self->after);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* Pickles a receipt as None: a copy of a batch was not received from this iterator. */
static PyObject *receipt_reduce(PyObject *object, PyObject *unused)
{
    (void)object;
    (void)unused;
    return Py_BuildValue("(O())", (PyObject *)Py_TYPE(Py_None));
}

static PyMethodDef receipt_methods[] = {
    {"__reduce__", receipt_reduce, METH_NOARGS, "Copies and pickles are None."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot receipt_slots[] = {
    {Py_tp_new, receipt_new},
    {Py_tp_dealloc, receipt_dealloc},
    {Py_tp_methods, receipt_methods},
    {Py_tp_doc, "Lies in a batch. Freed while an exception is under way, it takes the place back."},
    {0, NULL}};

PyType_Spec native_receipt_spec = {"penstock._native.Receipt", sizeof(struct native_receipt), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, receipt_slots};
