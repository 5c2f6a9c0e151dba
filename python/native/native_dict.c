/* native_dict.c - converts Python dicts to members of C structs, by tables of members. Called with
 * the GIL held. */
#include "native.h"

#include <string.h>

static int range_error(const char *what, const char *key)
{
    native_raise_text(PST_ERROR_ARGUMENT, "%s: %s is out of range", what, key);
    return -1;
}

static int read_unsigned(PyObject *value, uint64_t max, uint64_t *out, const char *what,
                         const char *key)
{
    PyObject *number = PyNumber_Index(value);
    if (number == NULL)
        return -1;
    unsigned long long wide = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
        return range_error(what, key);
    }
    if (wide > max)
        return range_error(what, key);
    *out = wide;
    return 0;
}

static uint64_t max_of(enum native_kind kind)
{
    switch (kind) {
    case NATIVE_U8:
        return UINT8_MAX;
    case NATIVE_U16:
        return UINT16_MAX;
    case NATIVE_ENUM:
        return INT32_MAX;
    case NATIVE_U32:
        return UINT32_MAX;
    default:
        return UINT64_MAX;
    }
}

static size_t size_of(enum native_kind kind)
{
    switch (kind) {
    case NATIVE_U8:
        return sizeof(uint8_t);
    case NATIVE_U16:
        return sizeof(uint16_t);
    case NATIVE_BOOL:
        return sizeof(bool);
    case NATIVE_U32:
    case NATIVE_ENUM:
        return sizeof(uint32_t);
    case NATIVE_FLOAT:
        return sizeof(float);
    default:
        return sizeof(uint64_t);
    }
}

static int read_one(PyObject *value, enum native_kind kind, void *target, const char *what,
                    const char *key)
{
    if (kind == NATIVE_FLOAT || kind == NATIVE_DOUBLE) {
        double number = PyFloat_AsDouble(value);
        if (number == -1.0 && PyErr_Occurred())
            return -1;
        float narrow = (float)number;
        if (kind == NATIVE_FLOAT)
            memcpy(target, &narrow, sizeof(narrow));
        else
            memcpy(target, &number, sizeof(number));
        return 0;
    }
    if (kind == NATIVE_BOOL) {
        int truth = PyObject_IsTrue(value);
        if (truth < 0)
            return -1;
        *(bool *)target = truth != 0;
        return 0;
    }
    uint64_t number;
    if (read_unsigned(value, max_of(kind), &number, what, key) < 0)
        return -1;
    uint8_t narrow = (uint8_t)number;
    uint16_t narrow_16 = (uint16_t)number;
    uint32_t middle = (uint32_t)number;
    if (kind == NATIVE_U8)
        memcpy(target, &narrow, sizeof(narrow));
    else if (kind == NATIVE_U16)
        memcpy(target, &narrow_16, sizeof(narrow_16));
    else if (kind == NATIVE_U64)
        memcpy(target, &number, sizeof(number));
    else
        memcpy(target, &middle, sizeof(middle));
    return 0;
}

static int read_sequence(PyObject *value, const struct native_member *member, char *target,
                         const char *what)
{
    Py_ssize_t n = PySequence_Size(value);
    if (n < 0)
        return -1;
    if (n > member->count)
        return range_error(what, member->key);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        if (item == NULL)
            return -1;
        int status = read_one(item, member->kind, target + (size_t)i * size_of(member->kind), what,
                              member->key);
        Py_DECREF(item);
        if (status < 0)
            return -1;
    }
    return 0;
}

/* Reads the member if `dict` has its key, and then increments *n_seen. */
static int read_member(PyObject *dict, const struct native_member *member, void *target,
                       const char *what, Py_ssize_t *n_seen)
{
    PyObject *value = PyDict_GetItemString(dict, member->key);
    if (value == NULL)
        return 0;
    (*n_seen)++;
    char *place = (char *)target + member->offset;
    return member->count > 0 ? read_sequence(value, member, place, what)
                             : read_one(value, member->kind, place, what, member->key);
}

static int check_seen(PyObject *dict, Py_ssize_t n_seen, const char *what)
{
    if (n_seen == PyDict_Size(dict))
        return 0;
    native_raise_text(PST_ERROR_ARGUMENT, "%s: a key is not known to this build", what);
    return -1;
}

static int check_dict(PyObject *dict, const char *what)
{
    if (PyDict_Check(dict))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s: a dict is wanted", what);
    return -1;
}

int native_dict_read(PyObject *dict, const struct native_member *members, size_t n_members,
                     void *target, const char *what)
{
    Py_ssize_t n_seen = 0;
    if (check_dict(dict, what) < 0)
        return -1;
    for (size_t m = 0; m < n_members; m++)
        if (read_member(dict, &members[m], target, what, &n_seen) < 0)
            return -1;
    return check_seen(dict, n_seen, what);
}

static enum native_kind kind_of(const struct pst_member *member)
{
    switch (member->kind) {
    case PST_MEMBER_BOOL:
        return NATIVE_BOOL;
    case PST_MEMBER_FLOAT:
        return member->nbytes == sizeof(float) ? NATIVE_FLOAT : NATIVE_DOUBLE;
    case PST_MEMBER_SIGNED: /* no option is negative */
    case PST_MEMBER_ENUM:
        return NATIVE_ENUM;
    default:
        break;
    }
    switch (member->nbytes) {
    case 1:
        return NATIVE_U8;
    case 2:
        return NATIVE_U16;
    case 4:
        return NATIVE_U32;
    default:
        return NATIVE_U64;
    }
}

int native_struct_read(PyObject *dict, enum pst_struct which, void *target, const char *what)
{
    struct pst_member member;
    Py_ssize_t n_seen = 0;
    if (check_dict(dict, what) < 0)
        return -1;
    for (size_t i = 0; pst_describe(which, i, &member, sizeof(member)) == PST_OK; i++) {
        if (member.kind == PST_MEMBER_POINTER || member.kind == PST_MEMBER_COUNT ||
            member.use == PST_USE_LAYOUT)
            continue;
        const struct native_member native = {member.name, kind_of(&member), member.offset,
                                             member.count > 1 ? (Py_ssize_t)member.count : 0};
        if (read_member(dict, &native, target, what, &n_seen) < 0)
            return -1;
    }
    return check_seen(dict, n_seen, what);
}

int native_dict_put(PyObject *dict, const char *key, PyObject *value)
{
    if (value == NULL)
        return -1;
    int status = PyDict_SetItemString(dict, key, value);
    Py_DECREF(value);
    return status;
}

const char **native_strings(PyObject *sequence, Py_ssize_t *n, PyObject **owner)
{
    *owner = PySequence_Tuple(sequence);
    if (*owner == NULL)
        return NULL;
    *n = PyTuple_Size(*owner);
    const char **strings = PyMem_Calloc((size_t)*n + 1, sizeof(*strings));
    if (strings == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    for (Py_ssize_t i = 0; i < *n; i++) {
        Py_ssize_t length;
        strings[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(*owner, i), &length);
        if (strings[i] == NULL)
            goto fail;
        if (strlen(strings[i]) != (size_t)length) {
            PyErr_SetString(PyExc_ValueError, "embedded null character");
            goto fail;
        }
    }
    return strings;
fail:
    PyMem_Free((void *)strings);
    Py_CLEAR(*owner);
    return NULL;
}
