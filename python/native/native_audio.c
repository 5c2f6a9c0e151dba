/* native_audio.c - converts operations on sound for the loader, and reads audio files in memory.
 *
 * In: Python objects. Out: structs of penstock/audio.h. Files are decoded without the GIL.
 */
#include "native.h"

#include <string.h>

static int read_op(PyObject *source, struct pst_audio_op *op)
{
    PyObject *dict = PyDict_Copy(source);
    if (dict == NULL)
        return -1;
    int status = -1;
    PyObject *kind = PyDict_GetItemString(dict, "kind"); /* borrowed */
    long number = kind == NULL ? -1 : PyLong_AsLong(kind);
    if (kind == NULL)
        PyErr_SetString(PyExc_TypeError, "an operation without a kind");
    if (!PyErr_Occurred() && PyDict_DelItemString(dict, "kind") == 0) {
        pst_audio_op_init(op, sizeof(*op), (enum pst_audio_op_kind)number);
        status = native_struct_read(dict, PST_STRUCT_AUDIO_OP, op, "transforms");
    }
    Py_DECREF(dict);
    return status;
}

int native_audio_ops_read(PyObject *list, struct pst_audio_op **ops, size_t *n_ops)
{
    Py_ssize_t n = PySequence_Size(list);
    if (n <= 0)
        return (int)n;
    *ops = PyMem_Calloc((size_t)n, sizeof(**ops));
    if (*ops == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        if (item == NULL)
            return -1;
        int status = read_op(item, &(*ops)[i]);
        Py_DECREF(item);
        if (status < 0)
            return -1;
    }
    *n_ops = (size_t)n;
    return 0;
}

PyObject *native_sndfile(PyObject *module, PyObject *unused)
{
    char text[256];
    (void)module;
    (void)unused;
    bool found = pst_audio_has_sndfile(text, sizeof(text));
    return Py_BuildValue("(Os)", found ? Py_True : Py_False, text);
}

PyObject *native_audio_probe(PyObject *module, PyObject *bytes)
{
    Py_buffer buffer;
    struct pst_audio_info info = {0};
    struct pst_error err;
    enum pst_status status;
    (void)module;
    if (PyObject_GetBuffer(bytes, &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status =
        pst_audio_probe(buffer.buf, (size_t)buffer.len, &info, sizeof(info), &err);
    Py_END_ALLOW_THREADS PyBuffer_Release(&buffer);
    if (status != PST_OK)
        return native_raise(status, &err);
    return Py_BuildValue("{s:I,s:I,s:K,s:s,s:I,s:O}", "rate", info.rate, "channels", info.channels,
                         "samples", (unsigned long long)info.n_samples, "codec", info.codec, "bits",
                         info.bits, "is_float", info.is_float ? Py_True : Py_False);
}

PyObject *native_audio_decode(PyObject *module, PyObject *args)
{
    Py_buffer bytes, out;
    unsigned long long first, n;
    struct pst_audio_info info = {0};
    struct pst_error err;
    enum pst_status status;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*KKw*", &bytes, &first, &n, &out))
        return NULL;
    Py_BEGIN_ALLOW_THREADS status =
        pst_audio_probe(bytes.buf, (size_t)bytes.len, &info, sizeof(info), &err);
    if (status == PST_OK && (n > (unsigned long long)out.len ||
                             n * info.channels * sizeof(float) != (unsigned long long)out.len))
        status = PST_ERROR_ARGUMENT;
    else if (status == PST_OK)
        status = pst_audio_decode(bytes.buf, (size_t)bytes.len, first, (size_t)n, out.buf, &err);
    Py_END_ALLOW_THREADS bool misfit =
        status == PST_ERROR_ARGUMENT &&
        n * info.channels * sizeof(float) != (unsigned long long)out.len;
    PyBuffer_Release(&bytes);
    PyBuffer_Release(&out);
    if (misfit)
        return native_raise_text(status, "the array does not fit %llu samples of %u channels", n,
                                 info.channels);
    if (status != PST_OK)
        return native_raise(status, &err);
    return Py_NewRef(Py_None);
}
