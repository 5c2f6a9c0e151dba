/* native_image.c - probe() and decode(): convert encoded bytes to properties or pixels, without the
 * GIL.
 */
#include "native.h"

#include <string.h>

static int read_options(PyObject *dict, struct pst_decode_options *options)
{
    memset(options, 0, sizeof(*options));
    options->struct_size = sizeof(*options);
    return native_struct_read(dict, PST_STRUCT_DECODE_OPTIONS, options, "decode");
}

/* probe(bytes, form, options) -> dict of the image's properties */
PyObject *native_probe(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer bytes;
    unsigned int form;
    PyObject *dict;
    if (!PyArg_ParseTuple(args, "y*IO:probe", &bytes, &form, &dict))
        return NULL;
    struct pst_decode_options options;
    struct pst_image_info info;
    struct pst_error err;
    pst_error_clear(&err);
    memset(&info, 0, sizeof(info));
    if (read_options(dict, &options) < 0) {
        PyBuffer_Release(&bytes);
        return NULL;
    }
    enum pst_status status;
    Py_BEGIN_ALLOW_THREADS status = pst_image_probe(
        bytes.buf, (size_t)bytes.len, (enum pst_form)form, &options, &info, sizeof info, &err);
    Py_END_ALLOW_THREADS PyBuffer_Release(&bytes);
    if (status != PST_OK)
        return native_raise(status, &err);
    return Py_BuildValue("{s:s,s:I,s:I,s:I,s:I,s:I,s:O,s:O}", "form", pst_form_name(info.form),
                         "height", (unsigned int)info.height, "width", (unsigned int)info.width,
                         "channels", (unsigned int)info.channels, "bits", (unsigned int)info.bits,
                         "orientation", (unsigned int)info.orientation, "palette",
                         info.palette ? Py_True : Py_False, "progressive",
                         info.progressive ? Py_True : Py_False);
}

/* decode(bytes, form, options, pixels, row_nbytes): fills the writable buffer `pixels` */
PyObject *native_decode(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer bytes, pixels;
    unsigned int form;
    unsigned long long row_nbytes;
    PyObject *dict;
    if (!PyArg_ParseTuple(args, "y*IOw*K:decode", &bytes, &form, &dict, &pixels, &row_nbytes))
        return NULL;
    struct pst_decode_options options;
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = PST_OK;
    if (read_options(dict, &options) == 0) {
        Py_BEGIN_ALLOW_THREADS status =
            pst_image_decode(bytes.buf, (size_t)bytes.len, (enum pst_form)form, &options,
                             pixels.buf, (size_t)pixels.len, (size_t)row_nbytes, &err);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&pixels);
    PyBuffer_Release(&bytes);
    if (PyErr_Occurred())
        return NULL;
    if (status != PST_OK)
        return native_raise(status, &err);
    Py_RETURN_NONE;
}
