/* native_error.c - raises a Python exception for a status and its struct pst_error.
 *
 * The exception classes are in Python (penstock/errors.py). This file passes them the parts of the
 * error. Called with the GIL held. */
#include "native.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Converts a text that may contain file names in invalid UTF-8. Invalid bytes become escapes. */
static PyObject *text_of(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

static PyObject *text_or_none(const char *text)
{
    if (text[0] == '\0')
        Py_RETURN_NONE;
    return text_of(text);
}

static PyObject *number_or_none(int64_t number)
{
    if (number < 0)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(number);
}

PyObject *native_error_dict(const struct pst_error *err)
{
    char line[PST_ERROR_TEXT_CAP + 3 * PST_ERROR_PATH_CAP];
    pst_error_format(err, line, sizeof(line));
    PyObject *dict = PyDict_New();
    if (dict == NULL)
        return NULL;
    const char *status = pst_status_name(err->status);
    if (native_dict_put(dict, "message", text_of(line)) < 0 ||
        native_dict_put(dict, "status", text_of(status)) < 0 ||
        native_dict_put(dict, "text", text_of(err->text)) < 0 ||
        native_dict_put(dict, "room", text_or_none(err->room)) < 0 ||
        native_dict_put(dict, "codec", text_or_none(err->codec)) < 0 ||
        native_dict_put(dict, "dataset", text_or_none(err->dataset)) < 0 ||
        native_dict_put(dict, "file", text_or_none(err->file)) < 0 ||
        native_dict_put(dict, "sample", number_or_none(err->sample)) < 0 ||
        native_dict_put(dict, "source_sample",
                        number_or_none((int64_t)err->source_sample_plus_1 - 1)) < 0 ||
        native_dict_put(dict, "offset", number_or_none(err->offset)) < 0 ||
        native_dict_put(dict, "os_error",
                        err->os_error != 0 ? PyLong_FromLong(err->os_error) : Py_NewRef(Py_None)) <
            0) {
        Py_DECREF(dict);
        return NULL;
    }
    return dict;
}

int native_interrupt(void *ctx)
{
    (void)ctx;
    PyGILState_STATE gil = PyGILState_Ensure();
    int stops = PyErr_CheckSignals() < 0;
    PyGILState_Release(gil);
    return stops;
}

PyObject *native_raise(enum pst_status status, const struct pst_error *err)
{
    if (status == PST_ERROR_CANCELLED && PyErr_Occurred())
        return NULL;
    struct pst_error known = *err;
    if (known.status == PST_OK)
        known.status = status;
    PyObject *parts = NULL, *errors = NULL, *method = NULL, *exception = NULL;
    parts = native_error_dict(&known);
    if (parts == NULL)
        goto out;
    errors = PyImport_ImportModule("penstock.errors");
    if (errors == NULL)
        goto out;
    /* Interned, because CPython's cache of attribute names would otherwise keep a new string for
     * each call. */
    method = PyUnicode_InternFromString("from_parts");
    if (method == NULL)
        goto out;
    exception = PyObject_CallMethodObjArgs(errors, method, parts, NULL);
    if (exception == NULL)
        goto out;
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
out:
    Py_XDECREF(exception);
    Py_XDECREF(method);
    Py_XDECREF(errors);
    Py_XDECREF(parts);
    return NULL;
}

PyObject *native_raise_text(enum pst_status status, const char *format, ...)
{
    struct pst_error err;
    pst_error_clear(&err);
    err.status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(err.text, sizeof(err.text), format, args);
    va_end(args);
    return native_raise(status, &err);
}
