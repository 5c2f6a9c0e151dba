/* native_pli.c - penstock.pli: converts arrays of any strides to PLI bytes and back, without the
 * GIL. */
#include "native.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Reads an array's buffer as pixels: (H, W) or (H, W, C) of uint8 or uint16. If it returns 0, the
 * caller must release the view; else an exception is set. */
static int read_pixels(PyObject *array, int flags, Py_buffer *view, struct pst_pixels *pixels)
{
    if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_STRIDES | flags) < 0)
        return -1;
    const char *format = view->format ? view->format : "B";
    format += *format == '=' || *format == '<' || *format == '@';
    int bits = strcmp(format, "B") == 0 ? 8 : strcmp(format, "H") == 0 ? 16 : 0;
    Py_ssize_t channels = view->ndim == 3 ? view->shape[2] : 1;
    if (bits == 0 || view->ndim < 2 || view->ndim > 3 || channels < 1 || channels > 4 ||
        view->shape[0] < 1 || view->shape[0] > 65535 || view->shape[1] < 1 ||
        view->shape[1] > 65535) {
        PyBuffer_Release(view);
        native_raise_text(PST_ERROR_ARGUMENT,
                          "pixels are uint8 or uint16 (H, W) or (H, W, C), C 1 to 4, H and W 1 to "
                          "65535");
        return -1;
    }
    *pixels = (struct pst_pixels){
        .data = view->buf,
        .height = (uint32_t)view->shape[0],
        .width = (uint32_t)view->shape[1],
        .channels = (uint8_t)channels,
        .bits = (uint8_t)bits,
        .row_nbytes = view->strides[0],
        .pixel_nbytes = view->strides[1],
        .channel_nbytes = view->ndim == 3 ? view->strides[2] : view->itemsize,
    };
    return 0;
}

/* The jobs of the encoder, which new threads and the calling thread work on. */
struct crew {
    unsigned int n_threads;
    void (*job)(void *arg, size_t i);
    void *arg;
    size_t n_jobs;
    atomic_size_t next;
};

static void *work(void *ctx)
{
    struct crew *crew = ctx;
    for (size_t i; (i = atomic_fetch_add(&crew->next, 1)) < crew->n_jobs;)
        crew->job(crew->arg, i);
    return NULL;
}

static void run_jobs(void *ctx, void (*job)(void *arg, size_t i), void *arg, size_t n_jobs)
{
    enum { MAX_THREADS = 256 };
    pthread_t threads[MAX_THREADS];
    struct crew *crew = ctx;
    size_t wanted = crew->n_threads < n_jobs ? crew->n_threads : n_jobs, started = 0;
    crew->job = job;
    crew->arg = arg;
    crew->n_jobs = n_jobs;
    atomic_store(&crew->next, 0);
    /* If a thread cannot be started, the other threads do its work. */
    while (started + 1 < wanted && started < MAX_THREADS &&
           pthread_create(&threads[started], NULL, work, crew) == 0)
        started++;
    work(crew);
    while (started > 0)
        pthread_join(threads[--started], NULL);
}

/* pli_encode(pixels, tier, effort, max_error, checksums, num_threads) -> bytes */
PyObject *native_pli_encode(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *array;
    unsigned int tier, effort, max_error, n_threads;
    int checksums;
    Py_buffer view;
    struct pst_pixels pixels;
    struct pst_error err;
    pst_error_clear(&err);
    if (!PyArg_ParseTuple(args, "OIIIpI:pli_encode", &array, &tier, &effort, &max_error, &checksums,
                          &n_threads) ||
        read_pixels(array, 0, &view, &pixels) < 0)
        return NULL;
    struct crew crew = {.n_threads = n_threads};
    struct pst_pli_encode_options options = {
        .struct_size = sizeof options,
        .tier = (enum pst_pli_tier)tier,
        .effort = effort,
        .max_error = max_error,
        .no_checksum = !checksums,
        .run = n_threads > 1 ? run_jobs : NULL,
        .run_ctx = &crew,
    };
    size_t bound = pst_pli_encode_bound(pixels.height, pixels.width, pixels.channels, pixels.bits);
    size_t nbytes = 0;
    enum pst_status status = PST_ERROR_MEMORY;
    void *room = PyMem_Malloc(bound);
    if (room != NULL) {
        Py_BEGIN_ALLOW_THREADS status =
            pst_pli_encode(&pixels, &options, room, bound, &nbytes, &err);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    PyObject *result = NULL;
    if (room == NULL)
        PyErr_NoMemory();
    else if (status != PST_OK)
        native_raise(status, &err);
    else
        result = PyBytes_FromStringAndSize(room, (Py_ssize_t)nbytes);
    PyMem_Free(room);
    return result;
}

/* pli_info(bytes) -> dict */
PyObject *native_pli_info(PyObject *module, PyObject *args)
{
    static const char *const modes[] = {"raw", "constant", "packed", "wave", "lz", "coefficients"};
    (void)module;
    Py_buffer bytes;
    struct pst_pli_info info = {0};
    struct pst_error err;
    pst_error_clear(&err);
    if (!PyArg_ParseTuple(args, "y*:pli_info", &bytes))
        return NULL;
    enum pst_status status = pst_pli_info(bytes.buf, (size_t)bytes.len, &info, sizeof info, &err);
    PyBuffer_Release(&bytes);
    if (status != PST_OK)
        return native_raise(status, &err);
    PyObject *units = PyDict_New();
    if (units == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (native_dict_put(units, modes[i], PyLong_FromUnsignedLongLong(info.n_units[i])) < 0) {
            Py_DECREF(units);
            return NULL;
        }
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"height", info.height},
        {"width", info.width},
        {"channels", info.channels},
        {"bits", info.bits},
        {"version", info.version},
        {"unit_edge", info.unit_edge},
        {"unit_rows", info.unit_rows},
        {"unit_columns", info.unit_columns},
        {"tier", info.tier},
        {"effort", info.effort},
        {"max_error", info.max_error},
        {"pixel_checksum", info.pixel_checksum},
        {"head_nbytes", info.head_nbytes},
        {"nbytes", info.nbytes},
        {"orientation", info.orientation},
        {"jpeg_nbytes", info.jpeg_nbytes},
        {"restoration_nbytes", info.restoration_nbytes},
    };
    PyObject *dict = Py_BuildValue(
        "{s:s,s:O,s:y#,s:N}", "content", info.content == PST_PLI_CONTENT_JPEG ? "jpeg" : "pixels",
        "checksums", info.has_checksums ? Py_True : Py_False, "samplings",
        (const char *)info.samplings, (Py_ssize_t)(info.channels < 4 ? info.channels : 4), "units",
        units);
    for (size_t i = 0; dict != NULL && i < sizeof numbers / sizeof *numbers; i++)
        if (native_dict_put(dict, numbers[i].key, PyLong_FromUnsignedLongLong(numbers[i].value)) <
            0)
            Py_CLEAR(dict);
    return dict;
}

/* Decodes, and releases the GIL meanwhile. `verify`: the pixels are the whole image's; compare
 * their checksum. */
static enum pst_status decode(const Py_buffer *bytes, const struct pst_pli_region *region,
                              int channel, const struct pst_pixels *pixels, bool verify,
                              struct pst_error *err)
{
    enum { ALIGNMENT = 64 };
    struct pst_pli_info info = {0};
    enum pst_status status = pst_pli_info(bytes->buf, (size_t)bytes->len, &info, sizeof info, err);
    if (status != PST_OK)
        return status;
    size_t nbytes = pst_pli_scratch_nbytes(&info, sizeof info);
    void *memory = PyMem_Malloc(nbytes + ALIGNMENT);
    if (memory == NULL)
        return PST_ERROR_MEMORY;
    void *scratch = (void *)(((uintptr_t)memory + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    Py_BEGIN_ALLOW_THREADS status = pst_pli_decode(bytes->buf, (size_t)bytes->len, region, channel,
                                                   pixels, scratch, nbytes, err);
    if (status == PST_OK && verify)
        status = pst_pli_check_pixels(bytes->buf, (size_t)bytes->len, pixels, err);
    Py_END_ALLOW_THREADS PyMem_Free(memory);
    return status;
}

/* pli_decode(bytes, y, x, channel, out, verify=False): fills the writable array `out` with the
 * region at (y, x) that has the size of `out` */
PyObject *native_pli_decode(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer bytes, view;
    unsigned int y, x;
    int channel, verify = 0;
    PyObject *out;
    struct pst_pixels pixels;
    struct pst_error err;
    pst_error_clear(&err);
    if (!PyArg_ParseTuple(args, "y*IIiO|p:pli_decode", &bytes, &y, &x, &channel, &out, &verify))
        return NULL;
    if (read_pixels(out, PyBUF_WRITABLE, &view, &pixels) < 0) {
        PyBuffer_Release(&bytes);
        return NULL;
    }
    struct pst_pli_region region = {y, x, pixels.height, pixels.width};
    enum pst_status status = decode(&bytes, &region, channel, &pixels, verify != 0, &err);
    PyBuffer_Release(&view);
    PyBuffer_Release(&bytes);
    if (status == PST_ERROR_MEMORY && err.status == PST_OK)
        return PyErr_NoMemory();
    if (status != PST_OK)
        return native_raise(status, &err);
    Py_RETURN_NONE;
}
