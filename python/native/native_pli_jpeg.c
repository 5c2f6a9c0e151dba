/* native_pli_jpeg.c - penstock.pli: converts JPEG files to PLI of their coefficients and back,
 * without the GIL. */
#include "native.h"

/* Returns the first `nbytes` bytes of the buffer `room`, and frees it. After a failure, raises the
 * error instead. */
static PyObject *finish(enum pst_status status, const struct pst_error *err, void *room,
                        size_t nbytes)
{
    PyObject *result = NULL;
    if (room == NULL)
        PyErr_NoMemory();
    else if (status != PST_OK)
        native_raise(status, err);
    else
        result = PyBytes_FromStringAndSize(room, (Py_ssize_t)nbytes);
    PyMem_Free(room);
    return result;
}

/* pli_from_jpeg(jpeg, unit_edge, checksums, smaller=False) -> bytes. `smaller`: raise an error if
 * the PLI would not be smaller than the JPEG */
PyObject *native_pli_from_jpeg(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer jpeg;
    unsigned int unit_edge;
    int checksums, smaller = 0;
    struct pst_error err;
    pst_error_clear(&err);
    if (!PyArg_ParseTuple(args, "y*Ip|p:pli_from_jpeg", &jpeg, &unit_edge, &checksums, &smaller))
        return NULL;
    const struct pst_pli_from_jpeg_options options = {
        .struct_size = sizeof options, .unit_edge = unit_edge, .no_checksum = !checksums};
    size_t bound = pst_pli_from_jpeg_bound((size_t)jpeg.len), nbytes = 0;
    enum pst_status status = PST_ERROR_MEMORY;
    if (smaller && jpeg.len > 1)
        bound = (size_t)jpeg.len - 1;
    void *room = bound > 0 ? PyMem_Malloc(bound) : NULL;
    if (room != NULL) {
        Py_BEGIN_ALLOW_THREADS status =
            pst_pli_from_jpeg(jpeg.buf, (size_t)jpeg.len, &options, room, bound, &nbytes, &err);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&jpeg);
    return finish(status, &err, room, nbytes);
}

/* pli_to_jpeg(pli, head=False) -> bytes. `head`: only the beginning, up to the data of the first
 * scan */
PyObject *native_pli_to_jpeg(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer pli;
    int head = 0;
    struct pst_pli_info info = {0};
    struct pst_error err;
    pst_error_clear(&err);
    if (!PyArg_ParseTuple(args, "y*|p:pli_to_jpeg", &pli, &head))
        return NULL;
    enum pst_status status = pst_pli_info(pli.buf, (size_t)pli.len, &info, sizeof info, &err);
    if (status != PST_OK) {
        PyBuffer_Release(&pli);
        return native_raise(status, &err);
    }
    size_t nbytes = 0;
    void *room = PyMem_Malloc((size_t)info.jpeg_nbytes + 1);
    if (room != NULL) {
        Py_BEGIN_ALLOW_THREADS status = (head ? pst_pli_to_jpeg_head : pst_pli_to_jpeg)(
            pli.buf, (size_t)pli.len, room, info.jpeg_nbytes, &nbytes, &err);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&pli);
    return finish(status, &err, room, nbytes);
}
