/* native_pack.c - pack() and verify(), which call back into Python.
 *
 * The C functions call back on the thread that called them. Each callback takes the GIL while it
 * runs and checks for signals, so Ctrl-C ends the run at the next sample. The run can be resumed
 * from the committed samples. */
#include "native.h"

#include <string.h>

/* State of the callbacks. `thread` is set while the GIL is released. */
struct watch {
    PyThreadState *thread;
    PyObject *progress, *bad_sample, *kept_jpeg; /* callables or None; borrowed */
    PyObject *opening;                           /* called while the source is opened; borrowed */
    bool tells_opening;                          /* opening was called, but not yet with its end */
    PyObject *notices;                           /* notices of the source; NULL: it was not
                                                  * opened */
};

/* Evaluates and releases the result of a callback. Returns 1, to stop, if it is true or NULL (an
 * exception), and 0 if it is false or None. */
static int stop_if(PyObject *answer)
{
    if (answer == NULL)
        return 1;
    int truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return truth != 0;
}

/* Calls `opening` with the number of files or samples found so far. 0 means that opening is
 * over. */
static int tell_opening(struct watch *watch, uint64_t n_found, uint64_t nbytes)
{
    if (watch->opening == NULL || watch->opening == Py_None)
        return 0;
    watch->tells_opening = n_found > 0;
    PyObject *answer = PyObject_CallFunction(watch->opening, "KK", (unsigned long long)n_found,
                                             (unsigned long long)nbytes);
    Py_XDECREF(answer);
    return answer == NULL;
}

/* Progress callback while the source is opened, which lists a folder or indexes tars. */
static int on_opening(void *ctx, const struct pst_progress *progress)
{
    struct watch *watch = ctx;
    PyEval_RestoreThread(watch->thread);
    int stop = PyErr_CheckSignals() < 0;
    if (!stop)
        stop = tell_opening(watch, progress->n_done, progress->nbytes_in);
    watch->thread = PyEval_SaveThread();
    return stop;
}

static int on_progress(void *ctx, const struct pst_progress *progress)
{
    struct watch *watch = ctx;
    PyEval_RestoreThread(watch->thread);
    int stop = PyErr_CheckSignals() < 0;
    if (!stop && watch->tells_opening)
        stop = tell_opening(watch, 0, 0);
    if (!stop && watch->progress != Py_None)
        stop = stop_if(PyObject_CallFunction(
            watch->progress, "KKKK", (unsigned long long)progress->n_done,
            (unsigned long long)progress->n_total, (unsigned long long)progress->nbytes_in,
            (unsigned long long)progress->nbytes_out));
    watch->thread = PyEval_SaveThread();
    return stop;
}

static int tell(struct watch *watch, PyObject *whom, const char *name, const struct pst_error *err)
{
    PyEval_RestoreThread(watch->thread);
    int stop = 1;
    PyObject *text = PyUnicode_DecodeFSDefault(name != NULL ? name : "");
    PyObject *what = text != NULL ? native_error_dict(err) : NULL;
    if (what != NULL)
        stop = stop_if(PyObject_CallFunction(whom, "OO", text, what));
    Py_XDECREF(what);
    Py_XDECREF(text);
    watch->thread = PyEval_SaveThread();
    return stop;
}

static int on_bad_sample(void *ctx, const char *name, const struct pst_error *err)
{
    struct watch *watch = ctx;
    return tell(watch, watch->bad_sample, name, err);
}

static int on_kept_jpeg(void *ctx, const char *name, const struct pst_error *why)
{
    struct watch *watch = ctx;
    return tell(watch, watch->kept_jpeg, name, why);
}

static int on_source_opened(void *ctx, pst_dataset *source)
{
    struct watch *watch = ctx;
    PyEval_RestoreThread(watch->thread);
    watch->notices = native_notices(source);
    watch->thread = PyEval_SaveThread();
    return watch->notices == NULL;
}

/* The options of a pack, and the structs that they point to. */
struct native_pack {
    struct pst_pack_options options;
    struct pst_writer_options writer;
    struct pst_dataset_options source;
};

static int read_forms(PyObject *sequence, enum pst_form *forms, uint32_t *n_forms)
{
    Py_ssize_t n = PySequence_Size(sequence);
    if (n < 0)
        return -1;
    if (n > PST_MAX_VARIANTS) {
        native_raise_text(PST_ERROR_ARGUMENT, "at most %d forms", PST_MAX_VARIANTS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        long number = item != NULL ? PyLong_AsLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return -1;
        forms[i] = (enum pst_form)number;
    }
    *n_forms = (uint32_t)n;
    return 0;
}

static PyObject *report_dict(const struct pst_pack_report *report)
{
    const struct {
        const char *key;
        uint64_t value;
    } entries[] = {
        {"n_samples", report->n_samples},
        {"n_bad", report->n_bad},
        {"n_resumed", report->n_resumed},
        {"n_skipped", report->n_skipped},
        {"nbytes_in", report->nbytes_in},
        {"nbytes_out", report->nbytes_out},
        {"n_pli_jpeg", report->n_pli_jpeg},
        {"jpeg_nbytes", report->jpeg_nbytes},
        {"n_kept_jpeg", report->n_kept_jpeg},
        {"kept_jpeg_nbytes", report->kept_jpeg_nbytes},
        {"pli_jpeg_nbytes", report->pli_jpeg_nbytes},
        {"n_restored_jpeg", report->n_restored_jpeg},
        {"restored_pli_jpeg_nbytes", report->restored_pli_jpeg_nbytes},
        {"restored_jpeg_nbytes", report->restored_jpeg_nbytes},
        {"n_not_original", report->n_not_original},
        {"n_changed", report->n_changed},
        {"n_kept_files", report->n_kept_files},
        {"n_files", report->n_files},
        {"n_resized", report->n_resized},
        {"n_shards", report->n_shards},
        {"n_shards_before", report->n_shards_before},
    };
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < sizeof(entries) / sizeof(entries[0]); i++)
        if (native_dict_put(dict, entries[i].key, PyLong_FromUnsignedLongLong(entries[i].value)) <
            0)
            Py_CLEAR(dict);
    if (dict != NULL && native_dict_put(dict, "waits", PyBool_FromLong(report->waits)) < 0)
        Py_CLEAR(dict);
    return dict;
}

/* pack(source, destination, labels, masks, forms, mask_forms, options, writer, opening, progress,
 * bad_sample, kept_jpeg, plan, split, rules, opening_told) -> dict. Options, writer and opening are
 * dicts of members of pst_pack_options, pst_writer_options and pst_dataset_options. The source is
 * changed in place if the destination is None. */
PyObject *native_pack(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *source = NULL, *destination = NULL, *given, *columns, *forms_list, *masks_list;
    PyObject *dict, *writer, *opening, *rules;
    const char *labels, *plan, *split, *mask_names[PST_MAX_FIELDS];
    struct pst_member_rule *members = NULL;
    struct watch watch = {0};
    if (!PyArg_ParseTuple(args, "O&OzO!OOOOOOOOzzO!O:pack", PyUnicode_FSConverter, &source, &given,
                          &labels, &PyTuple_Type, &columns, &forms_list, &masks_list, &dict,
                          &writer, &opening, &watch.progress, &watch.bad_sample, &watch.kept_jpeg,
                          &plan, &split, &PyTuple_Type, &rules, &watch.opening))
        return NULL; /* ParseTuple has already released the converter's object */
    if (given != Py_None && !PyUnicode_FSConverter(given, &destination)) {
        Py_DECREF(source);
        return NULL;
    }
    PyObject *result = NULL;
    enum pst_form forms[PST_MAX_VARIANTS], mask_forms[PST_MAX_VARIANTS];
    struct native_pack pack;
    struct pst_pack_options *options = &pack.options;
    memset(&pack, 0, sizeof(pack));
    options->struct_size = sizeof(*options);
    options->source = &pack.source;
    options->writer = &pack.writer;
    pack.source.struct_size = sizeof(pack.source);
    pack.source.labels = labels;
    pack.source.split = split;
    pack.writer.struct_size = sizeof(pack.writer);
    options->forms = forms;
    options->mask_forms = mask_forms;
    options->plan = plan;
    if (native_mask_names(columns, mask_names, &pack.source) < 0 ||
        native_member_rules(rules, &members, &pack.source) < 0 ||
        read_forms(forms_list, forms, &options->n_forms) < 0 ||
        read_forms(masks_list, mask_forms, &options->n_mask_forms) < 0 ||
        native_struct_read(dict, PST_STRUCT_PACK_OPTIONS, options, "pack") < 0 ||
        native_struct_read(writer, PST_STRUCT_WRITER_OPTIONS, &pack.writer, "writer") < 0 ||
        native_struct_read(opening, PST_STRUCT_DATASET_OPTIONS, &pack.source, "dataset") < 0)
        goto out;
    pack.source.progress = on_opening;
    pack.source.progress_ctx = &watch;
    options->progress = on_progress;
    options->bad_sample = watch.bad_sample != Py_None ? on_bad_sample : NULL;
    options->kept_jpeg = watch.kept_jpeg != Py_None ? on_kept_jpeg : NULL;
    options->source_opened = on_source_opened;
    options->ctx = &watch;
    const char *from = PyBytes_AsString(source);
    const char *to = destination != NULL ? PyBytes_AsString(destination) : NULL;
    struct pst_pack_report report;
    memset(&report, 0, sizeof(report));
    struct pst_error err;
    pst_error_clear(&err);
    watch.thread = PyEval_SaveThread();
    enum pst_status status = to != NULL ? pst_pack(from, to, options, &report, sizeof report, &err)
                                        : pst_repack(from, options, &report, sizeof report, &err);
    PyEval_RestoreThread(watch.thread);
    if (PyErr_Occurred())
        goto out;
    if (status != PST_OK)
        native_raise(status, &err);
    else
        result = report_dict(&report);
    if (result != NULL && native_dict_put(result, "notices", Py_NewRef(watch.notices)) < 0)
        Py_CLEAR(result);
out:
    PyMem_Free(members);
    Py_XDECREF(watch.notices);
    Py_DECREF(source);
    Py_XDECREF(destination);
    return result;
}

/* merge(path) -> dict: joins the parts of a pack to one data set. */
PyObject *native_merge(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "O&:merge", PyUnicode_FSConverter, &path))
        return NULL;
    struct pst_pack_report report;
    memset(&report, 0, sizeof(report));
    struct pst_error err;
    pst_error_clear(&err);
    const char *text = PyBytes_AsString(path);
    PyThreadState *thread = PyEval_SaveThread();
    enum pst_status status = pst_merge(text, NULL, NULL, &report, sizeof report, &err);
    PyEval_RestoreThread(thread);
    Py_DECREF(path);
    if (status != PST_OK) {
        native_raise(status, &err);
        return NULL;
    }
    return report_dict(&report);
}

/* index(path, split, rules, sums, check, part, n_parts, merge, opening) -> dict: makes or checks
 * the index of containers of other programs, or a part of it. */
PyObject *native_index(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path = NULL, *rules;
    const char *split;
    struct pst_member_rule *members = NULL;
    int sums, check, merge;
    unsigned int part, n_parts;
    struct watch watch = {0};
    if (!PyArg_ParseTuple(args, "O&zO!ppIIpO:index", PyUnicode_FSConverter, &path, &split,
                          &PyTuple_Type, &rules, &sums, &check, &part, &n_parts, &merge,
                          &watch.opening))
        return NULL;
    struct pst_dataset_options source = {
        .struct_size = sizeof(source),
        .split = split,
        .sums = sums != 0,
        .progress = on_opening,
        .progress_ctx = &watch,
    };
    if (native_member_rules(rules, &members, &source) < 0) {
        Py_DECREF(path);
        return NULL;
    }
    const struct pst_index_options options = {.struct_size = sizeof(options),
                                              .source = &source,
                                              .check = check != 0,
                                              .part = part,
                                              .n_parts = n_parts,
                                              .merge = merge != 0};
    struct pst_index_report report;
    memset(&report, 0, sizeof(report));
    struct pst_error err;
    pst_error_clear(&err);
    pst_dataset *dataset = NULL;
    const char *text = PyBytes_AsString(path);
    watch.thread = PyEval_SaveThread();
    enum pst_status status =
        pst_dataset_index_make(text, &options, &report, sizeof report, &dataset, &err);
    PyEval_RestoreThread(watch.thread);
    Py_DECREF(path);
    PyMem_Free(members);
    PyObject *result = NULL;
    if (!PyErr_Occurred() && status != PST_OK)
        native_raise(status, &err);
    else if (!PyErr_Occurred())
        result = Py_BuildValue(
            "{s:O,s:O,s:K,s:K,s:K,s:z,s:K}", "was_made", report.was_made ? Py_True : Py_False,
            "was_wrong", report.was_wrong ? Py_True : Py_False, "nbytes",
            (unsigned long long)report.index_nbytes, "n_files",
            (unsigned long long)(dataset != NULL ? pst_dataset_n_files(dataset) : report.n_files),
            "n_files_before", (unsigned long long)report.n_made_before, "path",
            dataset != NULL ? pst_dataset_index_path(dataset) : NULL, "n_samples",
            (unsigned long long)(dataset != NULL ? pst_dataset_count(dataset) : 0));
    pst_dataset_close(&dataset);
    return result;
}

/* verify(path, labels, masks, allow_unreadable, ignore_labels, split, rules, decode, restore,
 * num_workers, part, n_parts, progress, bad_sample, opening)
 * -> (error dict or None, report dict) */
PyObject *native_verify(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path = NULL, *columns, *rules;
    const char *labels, *split, *mask_names[PST_MAX_FIELDS];
    struct pst_member_rule *members = NULL;
    int decode, restore, allow_unreadable, ignore_labels;
    unsigned int num_workers, part, n_parts;
    struct watch watch = {0};
    if (!PyArg_ParseTuple(args, "O&zO!ppzO!ppIIIOOO:verify", PyUnicode_FSConverter, &path, &labels,
                          &PyTuple_Type, &columns, &allow_unreadable, &ignore_labels, &split,
                          &PyTuple_Type, &rules, &decode, &restore, &num_workers, &part, &n_parts,
                          &watch.progress, &watch.bad_sample, &watch.opening))
        return NULL;
    struct pst_dataset_options source = {
        .struct_size = sizeof(source),
        .labels = labels,
        .allow_unreadable = allow_unreadable != 0,
        .ignore_labels = ignore_labels != 0,
        .split = split,
        .progress = on_opening,
        .progress_ctx = &watch,
    };
    if (native_mask_names(columns, mask_names, &source) < 0 ||
        native_member_rules(rules, &members, &source) < 0) {
        Py_DECREF(path);
        return NULL;
    }
    struct pst_verify_options options = {.struct_size = sizeof(options),
                                         .decode = decode != 0,
                                         .restore = restore != 0,
                                         .num_workers = num_workers,
                                         .progress = on_progress,
                                         .ctx = &watch,
                                         .source = &source,
                                         .part = part,
                                         .n_parts = n_parts};
    options.bad_sample = watch.bad_sample != Py_None ? on_bad_sample : NULL;
    struct pst_verify_report report;
    memset(&report, 0, sizeof(report));
    struct pst_error err;
    pst_error_clear(&err);
    const char *text = PyBytes_AsString(path);
    watch.thread = PyEval_SaveThread();
    enum pst_status status = pst_verify(text, &options, &report, sizeof report, &err);
    PyEval_RestoreThread(watch.thread);
    Py_DECREF(path);
    PyMem_Free(members);
    if (PyErr_Occurred())
        return NULL;
    if (status != PST_OK && err.status == PST_OK)
        err.status = status;
    PyObject *what = status != PST_OK ? native_error_dict(&err) : Py_NewRef(Py_None);
    if (what == NULL)
        return NULL;
    return Py_BuildValue(
        "(N{s:K,s:K,s:K,s:K,s:K,s:y#,s:K,s:K})", what, "n_samples",
        (unsigned long long)report.n_samples, "n_items", (unsigned long long)report.n_items,
        "n_bad", (unsigned long long)report.n_bad, "nbytes", (unsigned long long)report.nbytes,
        "n_samples_total", (unsigned long long)report.n_samples_total, "identity",
        (const char *)report.identity, (Py_ssize_t)(n_parts > 0 ? sizeof report.identity : 0),
        "unreached_items", (unsigned long long)report.unreached_items, "unreached_pixels",
        (unsigned long long)report.unreached_pixels);
}
