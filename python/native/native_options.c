/* native_options.c - converts the dict of penstock.Loader to struct pst_loader_options.
 *
 * In: {"fields": [{"name": str, "ops": [{...}, ...], ...}, ...], "indices": u64 buffer, "weights":
 * f64 buffer, "cache_plan": u8 buffer, "source_weights": f64 buffer, "source_firsts": u64 buffer,
 * and numbers}. Out: a struct and the memory that it points to. Free it with native_options_free.
 * Called with the GIL held. */
#include "native.h"

#include <string.h>

/* Removes `key` from `dict` and returns its value as a new reference. Returns NULL if there is
 * none; an exception is set only after an error. */
static PyObject *take(PyObject *dict, const char *key)
{
    PyObject *value = PyDict_GetItemString(dict, key);
    if (value == NULL)
        return NULL;
    Py_INCREF(value);
    if (PyDict_DelItemString(dict, key) < 0) {
        Py_DECREF(value);
        return NULL;
    }
    return value;
}

/* Reads the table of MapLabels: bytes of u16, which stay alive as long as `source`. */
static int read_labels(PyObject *labels, struct pst_op *op)
{
    char *bytes;
    Py_ssize_t n;
    if (labels == NULL)
        return 0;
    if (PyBytes_AsStringAndSize(labels, &bytes, &n) < 0)
        return -1;
    op->labels = (const uint16_t *)(const void *)bytes;
    op->n_labels = (uint32_t)(n / 2);
    return 0;
}

static int read_op(PyObject *source, struct pst_op *op)
{
    int status = -1;
    PyObject *kind = NULL, *labels = NULL;
    PyObject *dict = PyDict_Copy(source);
    if (dict == NULL)
        return -1;
    kind = take(dict, "kind");
    labels = take(dict, "labels");
    if (kind == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "an operation without a kind");
        goto out;
    }
    long number = PyLong_AsLong(kind);
    if (number == -1 && PyErr_Occurred())
        goto out;
    pst_op_init(op, sizeof *op, (enum pst_op_kind)number);
    if (read_labels(labels, op) < 0)
        goto out;
    status = native_struct_read(dict, PST_STRUCT_OP, op, "transforms");
out:
    Py_XDECREF(labels);
    Py_XDECREF(kind);
    Py_DECREF(dict);
    return status;
}

static int read_ops(PyObject *list, struct pst_op **ops, size_t *n_ops)
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

static int read_field(PyObject *source, struct pst_field_output *field, struct pst_op **ops,
                      struct pst_audio_op **audio_ops)
{
    int status = -1;
    PyObject *name = NULL, *list = NULL, *boxes = NULL, *audio = NULL, *as = NULL, *pairs = NULL;
    PyObject *dict = PyDict_Copy(source);
    if (dict == NULL)
        return -1;
    name = take(dict, "name");
    list = take(dict, "ops");
    boxes = take(dict, "per_box_of");
    audio = take(dict, "audio_ops");
    as = take(dict, "as");
    pairs = take(dict, "point_pairs");
    if (PyErr_Occurred())
        goto out;
    if (name == NULL) {
        PyErr_SetString(PyExc_TypeError, "a field without a name");
        goto out;
    }
    field->name = PyUnicode_AsUTF8AndSize(name, NULL); /* `source` keeps the text alive */
    if (field->name == NULL)
        goto out;
    if (boxes != NULL && (field->per_box_of = PyUnicode_AsUTF8AndSize(boxes, NULL)) == NULL)
        goto out;
    if (as != NULL && (field->as = PyUnicode_AsUTF8AndSize(as, NULL)) == NULL)
        goto out;
    if (list != NULL && read_ops(list, ops, &field->n_ops) < 0)
        goto out;
    field->ops = *ops;
    if (audio != NULL && native_audio_ops_read(audio, audio_ops, &field->n_audio_ops) < 0)
        goto out;
    field->audio_ops = *audio_ops;
    if (pairs != NULL) { /* bytes of u32 (n,2), alive as long as `source` */
        field->says_pairs = true;
        field->point_pairs = (const void *)PyBytes_AsString(pairs);
        field->n_point_pairs = (size_t)PyBytes_Size(pairs) / (2 * sizeof(uint32_t));
        if (PyErr_Occurred())
            goto out;
    }
    status = native_struct_read(dict, PST_STRUCT_FIELD_OUTPUT, field, "fields");
out:
    Py_XDECREF(pairs);
    Py_XDECREF(as);
    Py_XDECREF(audio);
    Py_XDECREF(boxes);
    Py_XDECREF(list);
    Py_XDECREF(name);
    Py_DECREF(dict);
    return status;
}

static int read_fields(PyObject *list, struct native_options *options)
{
    Py_ssize_t n = PySequence_Size(list);
    if (n <= 0)
        return (int)n;
    options->fields = PyMem_Calloc((size_t)n, sizeof(*options->fields));
    options->ops = PyMem_Calloc((size_t)n, sizeof(*options->ops));
    options->audio_ops = PyMem_Calloc((size_t)n, sizeof(*options->audio_ops));
    if (options->fields == NULL || options->ops == NULL || options->audio_ops == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    options->loader.fields = options->fields;
    options->loader.n_fields = (size_t)n;
    options->loader.field_nbytes = sizeof(*options->fields);
    options->loader.op_nbytes = sizeof(**options->ops);
    options->loader.audio_op_nbytes = sizeof(**options->audio_ops);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        if (item == NULL)
            return -1;
        int status =
            read_field(item, &options->fields[i], &options->ops[i], &options->audio_ops[i]);
        Py_DECREF(item);
        if (status < 0)
            return -1;
    }
    return 0;
}

static int read_buffer(PyObject *object, Py_buffer *buffer, const void **data, uint64_t *n)
{
    if (PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE) < 0)
        return -1;
    if (buffer->len % 8 != 0) {
        PyErr_SetString(PyExc_ValueError, "8-byte elements are wanted");
        return -1;
    }
    *data = buffer->buf;
    *n = (uint64_t)buffer->len / 8;
    return 0;
}

/* Sets the cache to a _native.Cache of this process. It stays alive as long as `source`. */
static int read_cache(PyObject *object, PyTypeObject *type, struct pst_loader_options *loader)
{
    if (!PyObject_TypeCheck(object, type)) {
        PyErr_SetString(PyExc_TypeError, "cache: a _native.Cache is wanted");
        return -1;
    }
    loader->cache = ((struct native_cache *)object)->handle;
    return 0;
}

/* Reads a text that stays alive as long as `source`. */
static int read_text(PyObject *object, const char *key, const char **out)
{
    Py_ssize_t n;
    *out = PyUnicode_AsUTF8AndSize(object, &n);
    if (*out != NULL && strlen(*out) != (size_t)n) {
        PyErr_Format(PyExc_ValueError, "%s: a text without NUL is wanted", key);
        *out = NULL;
    }
    return *out == NULL ? -1 : 0;
}

/* Sets the fleet to a _native.Fleet of this process. It stays alive as long as `source`. */
static int read_fleet(PyObject *object, PyTypeObject *type, struct pst_loader_options *loader)
{
    if (!PyObject_TypeCheck(object, type)) {
        PyErr_SetString(PyExc_TypeError, "fleet: a _native.Fleet is wanted");
        return -1;
    }
    loader->fleet = ((struct native_fleet *)object)->handle;
    return 0;
}

/* Reads a list of (kind, alpha, p, centre from, centre to, operations after the mix). Missing
 * elements are 0. */
static int read_mixes(PyObject *list, struct native_options *options)
{
    Py_ssize_t n = PyList_Size(list);
    if (n < 0 || n > PST_MAX_MIXES) {
        native_raise_text(PST_ERROR_ARGUMENT, "mix has at most %d ways", PST_MAX_MIXES);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int kind;
        PyObject *ops = NULL;
        struct pst_mix *mix = &options->mixes[i];
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "if|fffO", &kind, &mix->alpha, &mix->p,
                              &mix->centre[0], &mix->centre[1], &ops))
            return -1;
        mix->kind = (enum pst_mix_kind)kind;
        if (ops != NULL && read_ops(ops, &options->mix_ops[i], &mix->n_ops) < 0)
            return -1;
        mix->ops = options->mix_ops[i];
        mix->op_nbytes = sizeof(*mix->ops);
    }
    options->loader.mixes = options->mixes;
    options->loader.n_mixes = (uint32_t)n;
    options->loader.mix_nbytes = sizeof(options->mixes[0]);
    return 0;
}

static int read_form_parts(PyObject *list, struct native_options *options)
{
    Py_ssize_t n = PyList_Size(list);
    if (n < 0 || n > PST_MAX_VARIANTS) {
        native_raise_text(PST_ERROR_ARGUMENT, "forms has at most %d forms", PST_MAX_VARIANTS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned int form, variant;
        double part;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "IId", &form, &variant, &part))
            return -1;
        options->form_parts[i] =
            (struct pst_form_part){.form = (enum pst_form)form, .variant = variant, .part = part};
    }
    options->loader.form_parts = options->form_parts;
    options->loader.n_form_parts = (uint32_t)n;
    options->loader.form_part_nbytes = sizeof(options->form_parts[0]);
    return 0;
}

/* Reads the weights of a mixture's sources, and the number of the first sample of each. */
static int read_sources(PyObject *weights, PyObject *firsts, struct native_options *options)
{
    const void *data;
    uint64_t n, n_firsts;
    if (read_buffer(weights, &options->source_weights, &data, &n) < 0)
        return -1;
    options->loader.source_weights = data;
    if (read_buffer(firsts, &options->source_firsts, &data, &n_firsts) < 0)
        return -1;
    options->loader.source_firsts = data;
    if (n != n_firsts || n > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "source_weights and source_firsts differ in length");
        return -1;
    }
    options->loader.n_source_weights = (uint32_t)n;
    return 0;
}

int native_options_read(struct native_options *options, PyObject *source,
                        const struct native_state *state)
{
    memset(options, 0, sizeof(*options));
    options->loader.struct_size = sizeof(options->loader);
    int status = -1;
    PyObject *fields = NULL, *indices = NULL, *weights = NULL, *cache = NULL, *trace = NULL;
    PyObject *plan = NULL, *share = NULL, *service = NULL, *fleet = NULL, *forms = NULL;
    PyObject *mixes = NULL, *source_weights = NULL, *source_firsts = NULL;
    if (!PyDict_Check(source)) {
        PyErr_SetString(PyExc_TypeError, "options: a dict is wanted");
        return -1;
    }
    options->owner = Py_NewRef(source);
    PyObject *dict = PyDict_Copy(source);
    if (dict == NULL)
        return -1;
    fields = take(dict, "fields");
    indices = take(dict, "indices");
    weights = take(dict, "weights");
    cache = take(dict, "cache");
    trace = take(dict, "trace");
    plan = take(dict, "cache_plan");
    share = take(dict, "share");
    service = take(dict, "service");
    fleet = take(dict, "fleet");
    forms = take(dict, "form_parts");
    mixes = take(dict, "mixes");
    source_weights = take(dict, "source_weights");
    source_firsts = take(dict, "source_firsts");
    if (PyErr_Occurred())
        goto out;
    uint64_t n_weights = 0;
    const void *data = NULL;
    if (fields != NULL && read_fields(fields, options) < 0)
        goto out;
    /* The text stays alive as long as `source`. */
    if (trace != NULL && (options->loader.trace = PyUnicode_AsUTF8AndSize(trace, NULL)) == NULL)
        goto out;
    if (cache != NULL && read_cache(cache, state->cache_type, &options->loader) < 0)
        goto out;
    if (fleet != NULL && read_fleet(fleet, state->fleet_type, &options->loader) < 0)
        goto out;
    if (forms != NULL && read_form_parts(forms, options) < 0)
        goto out;
    if (mixes != NULL && read_mixes(mixes, options) < 0)
        goto out;
    if (share != NULL && read_text(share, "share", &options->loader.share) < 0)
        goto out;
    if (service != NULL && read_text(service, "service", &options->loader.service) < 0)
        goto out;
    if (indices != NULL) {
        if (read_buffer(indices, &options->indices, &data, &options->loader.n_indices) < 0)
            goto out;
        options->loader.indices = data;
    }
    if (weights != NULL) {
        if (read_buffer(weights, &options->weights, &data, &n_weights) < 0)
            goto out;
        options->loader.weights = data;
    }
    if (source_weights != NULL && source_firsts != NULL &&
        read_sources(source_weights, source_firsts, options) < 0)
        goto out;
    if (plan != NULL) {
        if (PyObject_GetBuffer(plan, &options->cache_plan, PyBUF_SIMPLE) < 0)
            goto out;
        options->loader.cache_plan = options->cache_plan.buf;
        options->loader.n_cache_plan = (uint64_t)options->cache_plan.len;
    }
    status = native_struct_read(dict, PST_STRUCT_LOADER_OPTIONS, &options->loader, "options");
out:
    Py_XDECREF(trace);
    Py_XDECREF(plan);
    Py_XDECREF(service);
    Py_XDECREF(share);
    Py_XDECREF(fleet);
    Py_XDECREF(forms);
    Py_XDECREF(mixes);
    Py_XDECREF(source_weights);
    Py_XDECREF(source_firsts);
    Py_XDECREF(cache);
    Py_XDECREF(weights);
    Py_XDECREF(indices);
    Py_XDECREF(fields);
    Py_DECREF(dict);
    return status;
}

void native_options_free(struct native_options *options)
{
    for (size_t i = 0; options->ops != NULL && i < options->loader.n_fields; i++)
        PyMem_Free(options->ops[i]);
    for (size_t i = 0; options->audio_ops != NULL && i < options->loader.n_fields; i++)
        PyMem_Free(options->audio_ops[i]);
    for (size_t i = 0; i < PST_MAX_MIXES; i++)
        PyMem_Free(options->mix_ops[i]);
    PyMem_Free(options->audio_ops);
    PyMem_Free(options->ops);
    PyMem_Free(options->fields);
    PyBuffer_Release(&options->indices);
    PyBuffer_Release(&options->weights);
    PyBuffer_Release(&options->cache_plan);
    PyBuffer_Release(&options->source_weights);
    PyBuffer_Release(&options->source_firsts);
    Py_CLEAR(options->owner);
}
