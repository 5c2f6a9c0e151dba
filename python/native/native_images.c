/* native_images.c - penstock._native.Images: decoded images by number; and Picture: the pixels of
 * one image, which numpy reads through the buffer protocol.
 *
 * The C calls need no lock, and any thread may call. In a forked child the handle keeps using what
 * its cache held at the fork. */
#include "native.h"

#include <string.h>

struct native_images {
    PyObject_HEAD pst_images *handle; /* never NULL after construction */
};

struct native_picture {
    PyObject_HEAD struct pst_pixels pixels;
    Py_ssize_t shape[3], strides[3];
};

/* Images(dataset, field, cache, plan, options). plan: one byte for each sample, or None */
static PyObject *images_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct native_state *state = PyType_GetModuleState(type);
    PyObject *dataset, *cache, *plan, *dict;
    const char *field;
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Images takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!zOOO!:Images", state->dataset_type, &dataset, &field, &cache,
                          &plan, &PyDict_Type, &dict))
        return NULL;
    if (cache != Py_None && !PyObject_TypeCheck(cache, state->cache_type)) {
        PyErr_SetString(PyExc_TypeError, "cache is a Cache or None");
        return NULL;
    }
    struct pst_images_options options = {
        .struct_size = sizeof(options), .field = field, .interrupt = native_interrupt};
    if (native_struct_read(dict, PST_STRUCT_IMAGES_OPTIONS, &options, "images") < 0)
        return NULL;
    pst_dataset *source = ((struct native_dataset *)dataset)->handle;
    if (source == NULL)
        return native_raise_text(PST_ERROR_STATE, "the data set is closed");
    if (cache != Py_None)
        options.cache = ((struct native_cache *)cache)->handle;
    Py_buffer admit = {0};
    if (plan != Py_None && PyObject_GetBuffer(plan, &admit, PyBUF_SIMPLE) < 0)
        return NULL;
    options.cache_plan = admit.buf;
    options.n_cache_plan = (uint64_t)admit.len;
    struct native_images *self = (struct native_images *)PyType_GenericAlloc(type, 0);
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = PST_OK;
    if (self != NULL) {
        pst_dataset_retain(source); /* another thread may close the data set during the call */
        Py_BEGIN_ALLOW_THREADS status = pst_images_open(source, &options, &self->handle, &err);
        pst_dataset_close(&source);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&admit);
    if (self == NULL)
        return NULL;
    if (status == PST_OK)
        return (PyObject *)self;
    Py_DECREF(self);
    return native_raise(status, &err);
}

static void images_dealloc(PyObject *object)
{
    struct native_images *self = (struct native_images *)object;
    PyTypeObject *type = Py_TYPE(object);
    pst_images_close(&self->handle);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* Makes a Picture that owns the pixels. If it fails, it frees them. */
static PyObject *new_picture(PyTypeObject *type, const struct pst_pixels *pixels)
{
    struct native_picture *self = (struct native_picture *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        pst_images_release(pixels->data);
        return NULL;
    }
    self->pixels = *pixels;
    self->shape[0] = (Py_ssize_t)pixels->height;
    self->shape[1] = (Py_ssize_t)pixels->width;
    self->shape[2] = (Py_ssize_t)pixels->channels;
    self->strides[0] = (Py_ssize_t)pixels->row_nbytes;
    self->strides[1] = (Py_ssize_t)pixels->pixel_nbytes;
    self->strides[2] = (Py_ssize_t)pixels->channel_nbytes;
    return (PyObject *)self;
}

/* get(sample) -> Picture */
static PyObject *images_get(PyObject *object, PyObject *argument)
{
    unsigned long long sample = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    pst_images *handle = ((struct native_images *)object)->handle;
    struct pst_pixels pixels;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = pst_images_get(handle, sample, &pixels, &err);
    Py_END_ALLOW_THREADS if (status != PST_OK) return native_raise(status, &err);
    return new_picture(native_state_of(object)->picture_type, &pixels);
}

/* load(sample) -> bool: True if the cache has the image now */
static PyObject *images_load(PyObject *object, PyObject *argument)
{
    unsigned long long sample = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    pst_images *handle = ((struct native_images *)object)->handle;
    bool kept = false;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = pst_images_load(handle, sample, &kept, &err);
    Py_END_ALLOW_THREADS if (status != PST_OK) return native_raise(status, &err);
    return PyBool_FromLong(kept);
}

static PyObject *images_stats(PyObject *object, PyObject *unused)
{
    struct pst_images_stats stats;
    (void)unused;
    memset(&stats, 0, sizeof(stats));
    pst_images_stats(((struct native_images *)object)->handle, &stats, sizeof stats);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"hits", stats.n_hits},
                   {"nbytes_hit", stats.nbytes_hit},
                   {"misses", stats.n_misses},
                   {"nbytes_read", stats.nbytes_read},
                   {"recoded", stats.n_recoded},
                   {"not_recoded", stats.n_not_recoded},
                   {"refused", stats.n_refused},
                   {"limit", stats.cache_nbytes},
                   {"used", stats.cache_nbytes_used},
                   {"items", stats.n_cache_items},
                   {"fetched", stats.n_fetched},
                   {"lost", stats.n_lost},
                   {"renewed", stats.n_renewed}};
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (native_dict_put(dict, numbers[i].key, PyLong_FromUnsignedLongLong(numbers[i].value)) <
            0)
            Py_CLEAR(dict);
    if (dict != NULL &&
        native_dict_put(dict, "host_reason",
                        PyUnicode_DecodeUTF8(stats.host_reason,
                                             (Py_ssize_t)strlen(stats.host_reason), "replace")) < 0)
        Py_CLEAR(dict);
    if (dict != NULL && native_dict_put(dict, "forked", PyBool_FromLong(stats.is_forked)) < 0)
        Py_CLEAR(dict);
    return dict;
}

static PyMethodDef images_methods[] = {
    {"get", images_get, METH_O, "get(sample): Picture"},
    {"load", images_load, METH_O, "load(sample): True if the cache has it now"},
    {"stats", images_stats, METH_NOARGS, "Counters of this process."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot images_slots[] = {{Py_tp_new, images_new},
                                     {Py_tp_dealloc, images_dealloc},
                                     {Py_tp_methods, images_methods},
                                     {Py_tp_doc, "Decoded images by number."},
                                     {0, NULL}};

PyType_Spec native_images_spec = {
    .name = "penstock._native.Images",
    .basicsize = sizeof(struct native_images),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = images_slots,
};

static void picture_dealloc(PyObject *object)
{
    struct native_picture *self = (struct native_picture *)object;
    PyTypeObject *type = Py_TYPE(object);
    pst_images_release(self->pixels.data);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static int picture_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct native_picture *self = (struct native_picture *)object;
    view->obj = NULL;
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
        PyErr_SetString(PyExc_BufferError, "the pixels do not lie in memory that way");
        return -1;
    }
    view->buf = self->pixels.data;
    view->len = self->shape[0] * self->strides[0];
    view->itemsize = self->strides[2];
    view->readonly = 0;
    view->ndim = 3;
    view->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT
                       ? (char *)(uintptr_t)(self->pixels.bits == 16 ? "H" : "B")
                       : NULL;
    view->shape = (flags & PyBUF_ND) == PyBUF_ND ? self->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    view->obj = Py_NewRef(object);
    return 0;
}

static PyType_Slot picture_slots[] = {{Py_tp_dealloc, picture_dealloc},
                                      {Py_bf_getbuffer, picture_getbuffer},
                                      {Py_tp_doc, "The pixels of one image, (H,W,C)."},
                                      {0, NULL}};

PyType_Spec native_picture_spec = {"penstock._native.Picture", sizeof(struct native_picture), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                       Py_TPFLAGS_IMMUTABLETYPE,
                                   picture_slots};
