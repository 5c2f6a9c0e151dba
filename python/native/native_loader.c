/* native_loader.c - penstock._native.Loader: the loader's handle and the locks that guard it.
 *
 * Only one thread at a time may use the C handle. `run_lock` guards begin, resume, next and close;
 * `fetch_lock` guards fetch and replay; close takes both. next() waits in short slices without the
 * GIL, and checks for signals in between; fetch and replay check between rows. `handle` changes
 * only while the GIL and both locks are held. In a forked child the handle is neither used nor
 * freed.
 *
 * A batch that the C library has delivered stays in `front` until take() is called with it. If an
 * exception came in between, next() returns the same batch again. */
#include "native.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLICE_NS INT64_C(50000000)

struct native_loader {
    PyObject_HEAD pst_loader *handle; /* NULL once closed */
    PyThread_type_lock run_lock, fetch_lock;
    struct pst_loader_state
        state;       /* state after the newest batch; read and written under the GIL */
    PyObject *front; /* the newest batch until it is taken, else NULL; under the GIL */
    pid_t pid;
    uint32_t n_sources; /* number of sources of its mixture; 0: no mixture */
    uint32_t n_weights; /* number of weights; 0: each sample comes once */
    bool closing;       /* true: waiting calls give up; under the GIL */
    bool changing;      /* set() runs, with both locks held: no other call may use the handle */
    _Atomic int64_t asked_ns; /* time when a call last checked for signals */
};

/* Interrupt callback. Calls run without the GIL; those that may last long call this from time to
 * time. It takes the GIL and checks for signals. Returns 1 to end the call, with an exception set
 * or because the loader is being closed. */
static int interrupt(void *ctx)
{
    struct native_loader *self = ctx;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (now_ns - self->asked_ns < SLICE_NS)
        return 0;
    self->asked_ns = now_ns;
    PyGILState_STATE gil = PyGILState_Ensure();
    int stops = self->closing || PyErr_Occurred() || PyErr_CheckSignals() < 0;
    PyGILState_Release(gil);
    return stops;
}

/* Closes the handle and frees the locks, each of which may be NULL. The GIL is held on entry and on
 * return. */
static void shut(struct native_loader *self)
{
    pst_loader *handle = self->handle;
    self->handle = NULL;
    if (handle == NULL || self->pid != getpid())
        return;
    Py_BEGIN_ALLOW_THREADS pst_loader_close(&handle);
    Py_END_ALLOW_THREADS
}

static void loader_dealloc(PyObject *object)
{
    struct native_loader *self = (struct native_loader *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_CLEAR(self->front);
    shut(self);
    /* In a forked child, a lock may be held by a thread that does not exist there, so locks are not
     * touched. */
    if (self->pid == getpid()) {
        if (self->run_lock != NULL)
            PyThread_free_lock(self->run_lock);
        if (self->fetch_lock != NULL)
            PyThread_free_lock(self->fetch_lock);
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static enum pst_status open_handle(pst_dataset *dataset, const struct native_options *options,
                                   struct native_loader *self, struct pst_error *err)
{
    enum pst_status status;
    pst_dataset_retain(dataset);
    Py_BEGIN_ALLOW_THREADS status = pst_loader_open(dataset, &options->loader, &self->handle, err);
    pst_dataset_close(&dataset);
    Py_END_ALLOW_THREADS return status;
}

static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *dataset, *dict;
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Loader takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OO:Loader", &dataset, &dict))
        return NULL;
    struct native_state *state = PyType_GetModuleState(type);
    if (state == NULL)
        return NULL;
    if (!PyObject_TypeCheck(dataset, state->dataset_type)) {
        PyErr_SetString(PyExc_TypeError, "a _native.Dataset is wanted");
        return NULL;
    }
    pst_dataset *source = ((struct native_dataset *)dataset)->handle;
    if (source == NULL)
        return native_raise_text(PST_ERROR_STATE, "the data set is closed");
    struct native_loader *self = (struct native_loader *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->pid = getpid();
    self->n_sources = pst_dataset_n_sources(source);
    self->run_lock = PyThread_allocate_lock();
    self->fetch_lock = PyThread_allocate_lock();
    if (self->run_lock == NULL || self->fetch_lock == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    struct pst_error err;
    pst_error_clear(&err);
    struct native_options options;
    enum pst_status status = PST_OK;
    if (native_options_read(&options, dict, state) == 0) {
        options.loader.interrupt = native_interrupt;
        self->n_weights = options.loader.n_source_weights;
        status = open_handle(source, &options, self, &err);
    }
    native_options_free(&options);
    if (status == PST_OK && !PyErr_Occurred()) {
        pst_loader_set_interrupt(self->handle, interrupt, self);
        pst_loader_state(self->handle, &self->state);
        return (PyObject *)self;
    }
    Py_DECREF(self);
    return PyErr_Occurred() ? NULL : native_raise(status, &err);
}

/* Takes `lock` and checks that the handle may be used. Returns 0, or -1 with an exception set. */
static int enter(struct native_loader *self, PyThread_type_lock lock)
{
    if (self->pid != getpid()) {
        native_raise_text(PST_ERROR_FORKED, "the loader belongs to the parent process");
        return -1;
    }
    if (native_lock_take(lock) < 0)
        return -1;
    if (self->handle != NULL && !self->closing)
        return 0;
    PyThread_release_lock(lock);
    native_raise_text(PST_ERROR_STATE, "the loader is closed");
    return -1;
}

static PyObject *loader_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_loader *self = (struct native_loader *)object;
    if (self->pid != getpid() || self->handle == NULL)
        Py_RETURN_NONE;
    self->closing = true;
    if (native_lock_take(self->run_lock) < 0)
        return NULL;
    if (native_lock_take(self->fetch_lock) < 0) {
        PyThread_release_lock(self->run_lock);
        return NULL;
    }
    Py_CLEAR(self->front);
    shut(self);
    PyThread_release_lock(self->fetch_lock);
    PyThread_release_lock(self->run_lock);
    Py_RETURN_NONE;
}

/* Called when the loader's place may have changed: drops `front` and reads the new state. */
static void moved(struct native_loader *self)
{
    pst_loader_state(self->handle, &self->state);
    Py_CLEAR(self->front);
}

/* Returns None, or raises the error of a call. A signal may have come while the call looked for the
 * host service. */
static PyObject *none_or_raise(enum pst_status status, const struct pst_error *err)
{
    if (status != PST_OK)
        return native_raise(status, err);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *loader_begin(PyObject *object, PyObject *args)
{
    struct native_loader *self = (struct native_loader *)object;
    unsigned long long epoch;
    if (!PyArg_ParseTuple(args, "K:begin", &epoch) || enter(self, self->run_lock) < 0)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = pst_loader_begin(self->handle, epoch, &err);
    Py_END_ALLOW_THREADS if (status == PST_OK) moved(self);
    PyThread_release_lock(self->run_lock);
    return none_or_raise(status, &err);
}

static PyObject *loader_resume(PyObject *object, PyObject *args)
{
    struct native_loader *self = (struct native_loader *)object;
    unsigned long long part[7];
    if (!PyArg_ParseTuple(args, "(KKKKKKK):resume", &part[0], &part[1], &part[2], &part[3],
                          &part[4], &part[5], &part[6]) ||
        enter(self, self->run_lock) < 0)
        return NULL;
    struct pst_loader_state state = {.epoch = part[0],
                                     .position = part[1],
                                     .seed = part[2],
                                     .n_samples = part[3],
                                     .order_version = part[4],
                                     .order_hash = part[5],
                                     .augment_version = part[6]};
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = pst_loader_resume(self->handle, &state, &err);
    Py_END_ALLOW_THREADS if (status == PST_OK) moved(self);
    PyThread_release_lock(self->run_lock);
    return none_or_raise(status, &err);
}

static PyObject *loader_set_ranks(PyObject *object, PyObject *args)
{
    struct native_loader *self = (struct native_loader *)object;
    unsigned int rank, world_size;
    if (!PyArg_ParseTuple(args, "II:set_ranks", &rank, &world_size) ||
        enter(self, self->run_lock) < 0)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = pst_loader_set_ranks(self->handle, rank, world_size, &err);
    Py_END_ALLOW_THREADS PyThread_release_lock(self->run_lock);
    if (status != PST_OK)
        return native_raise(status, &err);
    Py_RETURN_NONE;
}

static PyObject *loader_set_world(PyObject *object, PyObject *args)
{
    struct native_loader *self = (struct native_loader *)object;
    unsigned int rank, world_size;
    if (!PyArg_ParseTuple(args, "II:set_world", &rank, &world_size) ||
        enter(self, self->run_lock) < 0)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = pst_loader_set_world(self->handle, rank, world_size, &err);
    Py_END_ALLOW_THREADS if (status == PST_OK) moved(self);
    PyThread_release_lock(self->run_lock);
    return none_or_raise(status, &err);
}

/* Takes both locks, for a call that excludes all others. Returns 0, or -1 with an exception set. */
static int enter_alone(struct native_loader *self)
{
    if (enter(self, self->run_lock) < 0)
        return -1;
    if (enter(self, self->fetch_lock) == 0)
        return 0;
    PyThread_release_lock(self->run_lock);
    return -1;
}

static PyObject *loader_set(PyObject *object, PyObject *args)
{
    struct native_loader *self = (struct native_loader *)object;
    struct pst_loader_settings settings = {.struct_size = sizeof settings};
    unsigned int batch_size, height, width;
    if (!PyArg_ParseTuple(args, "III:set", &batch_size, &height, &width) || enter_alone(self) < 0)
        return NULL;
    settings.batch_size = batch_size;
    settings.height = height;
    settings.width = width;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status;
    self->changing = true;
    Py_BEGIN_ALLOW_THREADS status = pst_loader_set(self->handle, &settings, &err);
    Py_END_ALLOW_THREADS self->changing = false;
    moved(self);
    PyThread_release_lock(self->fetch_lock);
    PyThread_release_lock(self->run_lock);
    return none_or_raise(status, &err);
}

static PyObject *loader_set_source_weights(PyObject *object, PyObject *args)
{
    struct native_loader *self = (struct native_loader *)object;
    Py_buffer places, weights;
    unsigned int n;
    if (!PyArg_ParseTuple(args, "y*y*I:set_source_weights", &places, &weights, &n))
        return NULL;
    PyObject *result = NULL;
    if ((size_t)places.len != n * 2 * sizeof(uint64_t) ||
        (size_t)weights.len != (size_t)n * self->n_weights * sizeof(double)) {
        PyErr_SetString(PyExc_ValueError, "places or weights have not the length that n says");
    } else if (enter_alone(self) == 0) {
        struct pst_error err;
        pst_error_clear(&err);
        enum pst_status status;
        self->changing = true;
        Py_BEGIN_ALLOW_THREADS status =
            pst_loader_set_source_weights(self->handle, places.buf, weights.buf, n, &err);
        Py_END_ALLOW_THREADS self->changing = false;
        moved(self);
        PyThread_release_lock(self->fetch_lock);
        PyThread_release_lock(self->run_lock);
        result = none_or_raise(status, &err);
    }
    PyBuffer_Release(&places);
    PyBuffer_Release(&weights);
    return result;
}

static PyObject *loader_state(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct pst_loader_state *state = &((struct native_loader *)object)->state;
    return Py_BuildValue(
        "(KKKKKKK)", (unsigned long long)state->epoch, (unsigned long long)state->position,
        (unsigned long long)state->seed, (unsigned long long)state->n_samples,
        (unsigned long long)state->order_version, (unsigned long long)state->order_hash,
        (unsigned long long)state->augment_version);
}

static PyObject *loader_step_place(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_loader *self = (struct native_loader *)object;
    uint64_t place[2];
    if (enter(self, self->run_lock) < 0)
        return NULL;
    pst_loader_step_place(self->handle, place);
    PyThread_release_lock(self->run_lock);
    return Py_BuildValue("(KK)", (unsigned long long)place[0], (unsigned long long)place[1]);
}

/* Waits up to timeout_ns for the next batch, and stores it in `front` by means of the empty Batch
 * object `*empty`. Returns PST_OK, PST_END or PST_ERROR_BUSY, or -1 with an exception set. */
static int fill_front(struct native_loader *self, PyObject **empty, int64_t timeout_ns)
{
    struct pst_error err;
    pst_batch *batch = NULL;
    enum pst_status status = PST_OK;
    if (enter(self, self->run_lock) < 0)
        return -1;
    pst_error_clear(&err);
    if (self->front == NULL) {
        Py_BEGIN_ALLOW_THREADS status =
            pst_loader_next_timed(self->handle, timeout_ns, &batch, &err);
        Py_END_ALLOW_THREADS
    }
    if (batch != NULL) {
        ((struct native_batch *)*empty)->handle = batch;
        self->front = *empty;
        *empty = NULL;
    }
    if (batch != NULL || status == PST_END)
        pst_loader_state(self->handle, &self->state);
    PyThread_release_lock(self->run_lock);
    if (status == PST_OK || status == PST_END || status == PST_ERROR_BUSY)
        return (int)status;
    native_raise(status, &err);
    return -1;
}

static PyObject *front_of(struct native_loader *self)
{
    Py_XINCREF(self->front);
    return self->front;
}

static PyObject *loader_next(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_loader *self = (struct native_loader *)object;
    PyObject *empty = native_batch_empty(native_state_of(object));
    if (empty == NULL)
        return NULL;
    int status = PST_ERROR_BUSY;
    while (status == PST_ERROR_BUSY) {
        status = fill_front(self, &empty, SLICE_NS);
        if (status == PST_ERROR_BUSY && (PyErr_Occurred() || PyErr_CheckSignals() < 0))
            status = -1;
    }
    Py_XDECREF(empty);
    if (status == PST_END)
        Py_RETURN_NONE;
    return status == PST_OK ? front_of(self) : NULL;
}

static PyObject *loader_next_ready(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct native_loader *self = (struct native_loader *)object;
    PyObject *empty = native_batch_empty(native_state_of(object));
    if (empty == NULL)
        return NULL;
    int status = fill_front(self, &empty, 0);
    Py_XDECREF(empty);
    if (status == PST_ERROR_BUSY && PyErr_Occurred()) /* a signal came while it joined a group */
        return NULL;
    if (status == PST_ERROR_BUSY)
        Py_RETURN_FALSE;
    if (status == PST_END)
        Py_RETURN_NONE;
    return status == PST_OK ? front_of(self) : NULL;
}

static PyObject *loader_take(PyObject *object, PyObject *batch)
{
    struct native_loader *self = (struct native_loader *)object;
    if (batch == self->front)
        Py_CLEAR(self->front);
    Py_RETURN_NONE;
}

/* Returns the batch of fetch or replay, or raises their error. A signal may have come while the
 * last row was made. */
static PyObject *batch_or_raise(PyObject *object, enum pst_status status, pst_batch *batch,
                                const struct pst_error *err)
{
    if (status == PST_OK && !PyErr_Occurred())
        return native_batch_new(native_state_of(object), batch);
    pst_batch_release(batch);
    return PyErr_Occurred() ? NULL : native_raise(status, err);
}

static PyObject *loader_fetch(PyObject *object, PyObject *args)
{
    struct native_loader *self = (struct native_loader *)object;
    unsigned long long epoch;
    Py_buffer samples;
    if (!PyArg_ParseTuple(args, "Ky*:fetch", &epoch, &samples))
        return NULL;
    if (enter(self, self->fetch_lock) < 0) {
        PyBuffer_Release(&samples);
        return NULL;
    }
    struct pst_error err;
    pst_error_clear(&err);
    pst_batch *batch = NULL;
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status =
        pst_loader_fetch(self->handle, epoch, samples.buf, (size_t)samples.len / 8, &batch, &err);
    Py_END_ALLOW_THREADS PyThread_release_lock(self->fetch_lock);
    PyBuffer_Release(&samples);
    return batch_or_raise(object, status, batch, &err);
}

static PyObject *loader_replay(PyObject *object, PyObject *args)
{
    struct native_loader *self = (struct native_loader *)object;
    unsigned long long epoch, step;
    if (!PyArg_ParseTuple(args, "KK:replay", &epoch, &step) || enter(self, self->fetch_lock) < 0)
        return NULL;
    struct pst_error err;
    pst_error_clear(&err);
    pst_batch *batch = NULL;
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = pst_loader_replay(self->handle, epoch, step, &batch, &err);
    Py_END_ALLOW_THREADS PyThread_release_lock(self->fetch_lock);
    return batch_or_raise(object, status, batch, &err);
}

/* Returns the handle for a short call with the GIL held, during which close() cannot run. Waits for
 * a running set(), which releases the GIL. */
static pst_loader *peek(struct native_loader *self)
{
    while (self->pid == getpid() && self->changing) {
        if (native_lock_take(self->run_lock) < 0)
            return NULL;
        PyThread_release_lock(self->run_lock);
    }
    if (self->pid == getpid() && self->handle != NULL)
        return self->handle;
    native_raise_text(PST_ERROR_STATE, "the loader is closed");
    return NULL;
}

/* Only computes with constants, so a forked child may call it, too. */
static PyObject *loader_n_batches(PyObject *object, PyObject *args)
{
    struct native_loader *self = (struct native_loader *)object;
    unsigned long long position;
    unsigned int rank, world_size;
    if (!PyArg_ParseTuple(args, "KII:n_batches", &position, &rank, &world_size))
        return NULL;
    pst_loader *handle = self->pid == getpid() ? peek(self) : self->handle;
    if (handle == NULL)
        return PyErr_Occurred() ? NULL : native_raise_text(PST_ERROR_STATE, "the loader is closed");
    return PyLong_FromUnsignedLongLong(
        pst_loader_n_batches_from(handle, position, rank, world_size));
}

static PyObject *loader_settings(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct pst_loader_settings settings;
    pst_loader *handle = peek((struct native_loader *)object);
    if (handle == NULL)
        return NULL;
    pst_loader_settings(handle, &settings, sizeof settings);
    return Py_BuildValue("(III)", settings.batch_size, settings.height, settings.width);
}

static PyObject *loader_quarantine(PyObject *object, PyObject *unused)
{
    (void)unused;
    pst_loader *handle = peek((struct native_loader *)object);
    if (handle == NULL)
        return NULL;
    PyObject *list = PyList_New(0);
    uint64_t n = pst_loader_n_quarantined(handle);
    for (uint64_t i = 0; list != NULL && i < n; i++) {
        struct pst_error what;
        pst_error_clear(&what);
        if (pst_loader_quarantined(handle, i, &what, NULL) != PST_OK)
            break;
        PyObject *item = native_error_dict(&what);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* Returns a list of (share, rows), one for each form in form_parts. */
static PyObject *form_stats(const struct pst_loader_stats *stats)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < PST_MAX_VARIANTS; i++) {
        PyObject *pair =
            Py_BuildValue("(dK)", stats->form_parts[i], (unsigned long long)stats->form_rows[i]);
        if (pair == NULL || PyList_Append(list, pair) < 0)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

/* Adds the statistics of a GPU and of a cache to `dict`. If `dict` is NULL, an exception is set
 * already, and is kept. */
static PyObject *add_part_stats(PyObject *dict, const struct pst_loader_stats *stats)
{
#define NUMBER(name)                                                                               \
    {                                                                                              \
#name, stats->name                                                                         \
    }
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        NUMBER(n_cpu_samples),      NUMBER(n_gpu_samples),        NUMBER(n_gpu_fallback),
        NUMBER(n_gpu_again),        NUMBER(nbytes_upload),        NUMBER(device_memory),
        NUMBER(device_memory_used), NUMBER(device_memory_peak),   NUMBER(n_cache_hits),
        NUMBER(nbytes_cache_hit),   NUMBER(n_cache_misses),       NUMBER(cache_nbytes),
        NUMBER(cache_nbytes_used),  NUMBER(n_cache_items),        NUMBER(n_cache_recoded),
        NUMBER(nbytes_cache_saved), NUMBER(n_cache_not_recoded),  NUMBER(n_shared),
        NUMBER(n_shared_copied),    NUMBER(share_epoch),          NUMBER(share_samples),
        NUMBER(is_sharing),         NUMBER(n_cache_fetched),      NUMBER(nbytes_cache_fetched),
        NUMBER(share_decoded),      NUMBER(share_decoded_shared), NUMBER(share_decoded_apart),
        NUMBER(share_read),         NUMBER(share_nbytes_read),    NUMBER(share_read_shared),
        NUMBER(share_cached),       NUMBER(share_given_up),       NUMBER(share_nbytes_read_shared),
        NUMBER(n_form_rows_other),  NUMBER(n_form_corrections),   NUMBER(n_cache_training_hits),
        NUMBER(n_merged_reads),     NUMBER(nbytes_gap),           NUMBER(n_ordered_reads),
        NUMBER(n_unchecked),        NUMBER(n_page_hits),          NUMBER(n_pages_decoded),
        NUMBER(pages_nbytes),       NUMBER(n_cache_to_recode),    NUMBER(cache_recode_ns)};
#undef NUMBER
    int status = dict == NULL ? -1 : 0;
    for (size_t i = 0; status == 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        status =
            native_dict_put(dict, numbers[i].key, PyLong_FromUnsignedLongLong(numbers[i].value));
    if (status == 0)
        status = native_dict_put(dict, "forms", form_stats(stats));
    if (status == 0)
        status = native_dict_put(dict, "gpu_fallback_reason",
                                 PyUnicode_FromString(stats->gpu_fallback_reason));
    if (status == 0)
        status = native_dict_put(dict, "share_reason",
                                 PyUnicode_DecodeUTF8(stats->share_reason,
                                                      (Py_ssize_t)strlen(stats->share_reason),
                                                      "replace"));
    if (status == 0)
        status = native_dict_put(dict, "host_reason",
                                 PyUnicode_DecodeUTF8(stats->host_reason,
                                                      (Py_ssize_t)strlen(stats->host_reason),
                                                      "replace"));
    if (status == 0)
        status = native_dict_put(dict, "device", PyLong_FromLong(stats->device));
    if (status < 0)
        Py_CLEAR(dict);
    return dict;
}

/* Returns {name: (count, meaning)} for the fall-backs that were taken. */
static PyObject *fallbacks_of(const struct pst_loader_stats *stats)
{
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict != NULL && pst_fallback_name(i) != NULL; i++) {
        if (stats->fallbacks[i] == 0)
            continue;
        PyObject *item =
            Py_BuildValue("(Ks)", (unsigned long long)stats->fallbacks[i], pst_fallback_text(i));
        if (native_dict_put(dict, pst_fallback_name(i), item) < 0)
            Py_CLEAR(dict);
    }
    return dict;
}

/* Returns {name: (hits, bytes, mean ns, p99 ns, bytes per second)} for the tiers of the cache. */
static PyObject *tiers_of(const struct pst_loader_stats *stats)
{
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict != NULL && pst_tier_name(i) != NULL; i++) {
        const struct pst_tier_stats *tier = &stats->tiers[i];
        PyObject *item =
            Py_BuildValue("(KKKKd)", (unsigned long long)tier->n_hits,
                          (unsigned long long)tier->nbytes, (unsigned long long)tier->mean_ns,
                          (unsigned long long)tier->p99_ns, tier->bytes_per_second);
        if (native_dict_put(dict, pst_tier_name(i), item) < 0)
            Py_CLEAR(dict);
    }
    return dict;
}

/* Adds to `dict` the counts of fall-backs and of the cache's tiers, the CPU levels, and the times
 * of workers. Returns `dict`. If it is NULL, an exception is set already, and is kept. */
static PyObject *add_other_stats(PyObject *dict, const struct pst_loader_stats *stats)
{
    int status = dict == NULL ? -1 : native_dict_put(dict, "fallbacks", fallbacks_of(stats));
    if (status == 0)
        status = native_dict_put(dict, "tiers", tiers_of(stats));
    if (status == 0)
        status = native_dict_put(dict, "cpu_rooms", PyUnicode_FromString(stats->cpu_rooms));
    if (status == 0)
        status = native_dict_put(dict, "worker_read_wait_ns",
                                 PyLong_FromUnsignedLongLong(stats->worker_read_wait_ns));
    if (status == 0)
        status = native_dict_put(dict, "worker_idle_ns",
                                 PyLong_FromUnsignedLongLong(stats->worker_idle_ns));
    if (status < 0)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *loader_stats(PyObject *object, PyObject *unused)
{
    (void)unused;
    pst_loader *handle = peek((struct native_loader *)object);
    if (handle == NULL)
        return NULL;
    struct pst_loader_stats stats;
    memset(&stats, 0, sizeof(stats));
    pst_loader_stats(handle, &stats, sizeof stats);
#define NUMBER(name) #name, (unsigned long long)stats.name
    PyObject *dict = Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:s,s:K,s:K,s:K,s:s,"
        "s:K,s:K,s:K,s:K,s:K}",
        NUMBER(n_batches), NUMBER(n_samples), NUMBER(n_bad), NUMBER(n_replaced), NUMBER(n_padded),
        NUMBER(nbytes_read), NUMBER(n_reads), NUMBER(read_ns), NUMBER(decode_ns),
        NUMBER(caller_wait_ns), NUMBER(host_memory), NUMBER(host_memory_used),
        NUMBER(host_memory_peak), NUMBER(n_slots), NUMBER(n_slots_held), NUMBER(n_workers),
        NUMBER(storage), "storage_reason", stats.storage_reason, NUMBER(n_fallback_direct),
        NUMBER(n_fallback_region), NUMBER(nbytes_decoded), "cpu_level", stats.cpu_level,
        NUMBER(n_units_decoded), NUMBER(n_units_whole), NUMBER(n_partial_reads), NUMBER(n_scaled),
        NUMBER(n_boxes_dropped));
#undef NUMBER
    dict = add_part_stats(add_other_stats(dict, &stats), &stats);
    uint32_t n_sources = ((struct native_loader *)object)->n_sources;
    if (dict != NULL &&
        native_dict_put(dict, "source_rows", native_mixture_rows(handle, n_sources)) < 0)
        Py_CLEAR(dict);
    if (dict != NULL &&
        native_dict_put(dict, "meter", native_meter_new(handle, stats.n_workers)) < 0)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *loader_peers_waited(PyObject *object, PyObject *args)
{
    unsigned long long ns;
    if (!PyArg_ParseTuple(args, "K:peers_waited", &ns))
        return NULL;
    pst_loader *handle = peek((struct native_loader *)object);
    if (handle == NULL)
        return NULL;
    pst_loader_peers_waited(handle, ns);
    Py_RETURN_NONE;
}

static PyObject *loader_pid(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong((long)((struct native_loader *)object)->pid);
}

static PyMethodDef methods[] = {
    {"close", loader_close, METH_NOARGS, "Stops the threads; batches stay valid."},
    {"begin", loader_begin, METH_VARARGS, "begin(epoch)"},
    {"resume", loader_resume, METH_VARARGS, "resume((epoch, position, seed, ...))"},
    {"state", loader_state, METH_NOARGS, "The state after the batch that next() gave last."},
    {"step_place", loader_step_place, METH_NOARGS,
     "Epoch and position of the next step of all ranks."},
    {"next", loader_next, METH_NOARGS,
     "The next Batch, the same one until it is taken; None after the last one."},
    {"next_ready", loader_next_ready, METH_NOARGS,
     "As next() if the batch is whole; False: not yet."},
    {"take", loader_take, METH_O, "take(batch): next() goes on behind it."},
    {"fetch", loader_fetch, METH_VARARGS, "fetch(epoch, samples as uint64 buffer): Batch."},
    {"replay", loader_replay, METH_VARARGS, "replay(epoch, step): Batch."},
    {"set", loader_set, METH_VARARGS, "set(batch_size, height, width); 0: as it is."},
    {"set_source_weights", loader_set_source_weights, METH_VARARGS,
     "set_source_weights(places as uint64 buffer, weights as float64 buffer, n)."},
    {"settings", loader_settings, METH_NOARGS, "(batch_size, height, width) now."},
    {"set_ranks", loader_set_ranks, METH_VARARGS, "set_ranks(rank, world_size)"},
    {"set_world", loader_set_world, METH_VARARGS, "set_world(rank, world_size)"},
    {"n_batches", loader_n_batches, METH_VARARGS,
     "n_batches(position, rank, world_size): batches from there to the epoch's end."},
    {"quarantine", loader_quarantine, METH_NOARGS, "A dict per bad sample."},
    {"stats", loader_stats, METH_NOARGS, "Counters, and the meter."},
    {"peers_waited", loader_peers_waited, METH_VARARGS,
     "peers_waited(ns): time of this step spent waiting for other ranks."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getset[] = {{"pid", loader_pid, NULL, "The process that made it.", NULL},
                               {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, loader_new},
                              {Py_tp_dealloc, loader_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getset},
                              {Py_tp_doc, "A loader: threads, slots, order."},
                              {0, NULL}};

PyType_Spec native_loader_spec = {"penstock._native.Loader", sizeof(struct native_loader), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
