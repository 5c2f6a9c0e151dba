/* native.c - the extension module: its types, constants and functions.
 *
 * The API that users see is Python (the .py files of penstock/). This module converts arguments for
 * the C library, and the library's memory for Python. One build for the limited API works with all
 * CPython >= 3.11. */
#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(enum pst_form) == sizeof(uint32_t), "native_dict_read writes 4 bytes");

static PyObject *cores(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLong(pst_cores());
}

static PyObject *environment(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    size_t length = pst_environment_json(NULL, 0);
    char *buffer = PyMem_Malloc(length + 1);
    if (buffer == NULL)
        return PyErr_NoMemory();
    size_t again = pst_environment_json(buffer, length + 1);
    if (again > length)
        again = length;
    PyObject *text = PyUnicode_DecodeUTF8(buffer, (Py_ssize_t)again, "replace");
    PyMem_Free(buffer);
    return text;
}

static PyObject *memory_stats(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    struct pst_memory_stats stats;
    pst_memory_stats(&stats, sizeof stats);
    return Py_BuildValue("(KK)", (unsigned long long)stats.live_nbytes,
                         (unsigned long long)stats.n_alloc);
}

static PyObject *form_number(PyObject *module, PyObject *argument)
{
    (void)module;
    const char *name = PyUnicode_AsUTF8AndSize(argument, NULL);
    return name == NULL ? NULL : PyLong_FromLong((long)pst_form_from_name(name));
}

static PyObject *dtype_number(PyObject *module, PyObject *argument)
{
    (void)module;
    const char *name = PyUnicode_AsUTF8AndSize(argument, NULL);
    return name == NULL ? NULL : PyLong_FromLong((long)pst_dtype_from_name(name));
}

static PyObject *field_type_number(PyObject *module, PyObject *argument)
{
    (void)module;
    const char *name = PyUnicode_AsUTF8AndSize(argument, NULL);
    return name == NULL ? NULL : PyLong_FromLong((long)pst_field_type_from_name(name));
}

static PyObject *path_holds_samples(PyObject *module, PyObject *argument)
{
    (void)module;
    const char *path = PyUnicode_AsUTF8AndSize(argument, NULL);
    bool holds;
    if (path == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS holds = pst_path_holds_samples(path);
    Py_END_ALLOW_THREADS return PyBool_FromLong(holds);
}

static PyObject *cuda_count(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    uint32_t n;
    Py_BEGIN_ALLOW_THREADS n = pst_cuda_count();
    Py_END_ALLOW_THREADS return PyLong_FromUnsignedLong(n);
}

static PyObject *cuda_reason(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    char text[512];
    Py_BEGIN_ALLOW_THREADS pst_cuda_reason(text, sizeof(text));
    Py_END_ALLOW_THREADS return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *cuda_info(PyObject *module, PyObject *argument)
{
    (void)module;
    unsigned long ordinal = PyLong_AsUnsignedLong(argument);
    if (PyErr_Occurred())
        return NULL;
    struct pst_cuda_info info;
    struct pst_error err;
    enum pst_status status;
    memset(&info, 0, sizeof(info));
    pst_error_clear(&err);
    Py_BEGIN_ALLOW_THREADS status = pst_cuda_info(
        ordinal < UINT32_MAX ? (uint32_t)ordinal : UINT32_MAX, &info, sizeof info, &err);
    Py_END_ALLOW_THREADS if (status != PST_OK) return native_raise(status, &err);
    return Py_BuildValue("{s:k,s:s,s:(II),s:I,s:I,s:K}", "ordinal", ordinal, "name", info.name,
                         "capability", info.capability_major, info.capability_minor, "processors",
                         info.n_processors, "driver_version", info.driver_version, "memory_nbytes",
                         (unsigned long long)info.memory_nbytes);
}

/* Log callback: prints the library's messages to stderr, one line each, from any thread and without
 * the GIL. A line that cannot be written is lost, because there is no other place to report it. */
static void log_to_stderr(void *ctx, enum pst_log_level level, const char *room, const char *text)
{
    (void)ctx;
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char line[1024];
    int n = snprintf(line, sizeof(line), "penstock: %s: %s: %s\n",
                     (unsigned int)level < 4 ? names[level] : "log", room, text);
    if (n < 0)
        return;
    size_t length = (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1;
    if (write(STDERR_FILENO, line, length) < 0)
        return;
}

static PyMethodDef functions[] = {
    {"cores", cores, METH_NOARGS, "Cores for this process among the ranks of its machine."},
    {"environment", environment, METH_NOARGS, "What this build and machine can do, as JSON."},
    {"memory_stats", memory_stats, METH_NOARGS, "(bytes held by the library, allocations so far)"},
    {"form_number", form_number, METH_O, "Number of a form's name, 0 if there is none."},
    {"dtype_number", dtype_number, METH_O, "Number of a dtype's name, 0 if there is none."},
    {"field_type_number", field_type_number, METH_O, "Number of a field type's name, or 0."},
    {"path_holds_samples", path_holds_samples, METH_O,
     "Whether a path is one of a file with many samples, by its name."},
    {"cache_advise", native_cache_advise, METH_O,
     "cache_advise(dataset_nbytes): (nbytes, reason); 0 bytes: no cache"},
    {"cache_plan", native_cache_plan, METH_VARARGS,
     "cache_plan(nbytes, seconds, limit, plan): (samples, nbytes, seconds, bound); fills the plan"},
    {"cuda_count", cuda_count, METH_NOARGS, "GPUs that a loader can be told to use."},
    {"cuda_reason", cuda_reason, METH_NOARGS, "Why there is none; empty if there is."},
    {"cuda_info", cuda_info, METH_O, "cuda_info(ordinal): dict"},
    {"sndfile", native_sndfile, METH_NOARGS, "(True, version), or (False, why it is not there)"},
    {"yaml_tree", native_yaml_tree, METH_VARARGS, "yaml_tree(bytes, path): (kind, line, value)"},
    {"audio_probe", native_audio_probe, METH_O, "audio_probe(bytes): dict"},
    {"audio_decode", native_audio_decode, METH_VARARGS, "audio_decode(bytes, first, n, out)"},
    {"probe", native_probe, METH_VARARGS, "probe(bytes, form, options): dict"},
    {"decode", native_decode, METH_VARARGS, "decode(bytes, form, options, pixels, row_nbytes)"},
    {"pli_encode", native_pli_encode, METH_VARARGS,
     "pli_encode(pixels, tier, effort, max_error, checksums, num_threads): bytes"},
    {"pli_info", native_pli_info, METH_VARARGS, "pli_info(bytes): dict"},
    {"pli_decode", native_pli_decode, METH_VARARGS,
     "pli_decode(bytes, y, x, channel, out, verify=False)"},
    {"pli_from_jpeg", native_pli_from_jpeg, METH_VARARGS,
     "pli_from_jpeg(jpeg, unit_edge, checksums): bytes"},
    {"pli_to_jpeg", native_pli_to_jpeg, METH_VARARGS, "pli_to_jpeg(pli, head=False): bytes"},
    {"pack", native_pack, METH_VARARGS,
     "pack(source, destination, labels, forms, options, progress, bad_sample): dict"},
    {"merge", native_merge, METH_VARARGS, "merge(path): dict"},
    {"index", native_index, METH_VARARGS,
     "index(path, split, rules, sums, check, part, n_parts, merge, opening): the report"},
    {"verify", native_verify, METH_VARARGS,
     "verify(path, decode, num_workers, progress, bad_sample): (error, report)"},
    {"stall_predict", native_stall_predict, METH_O, "stall_predict(setup): dict"},
    {"stall_need", native_stall_need, METH_VARARGS,
     "stall_need(setup, resource, utilisation): float"},
    {"stall_hit_ratio", native_stall_hit_ratio, METH_VARARGS,
     "stall_hit_ratio(policy, part): float"},
    {"plan_solve", native_plan_solve, METH_VARARGS,
     "plan_solve(setup, class_samples, ways, library): dict"},
    {"plan_need", native_plan_need, METH_VARARGS,
     "plan_need(setup, class_samples, ways, library, form, resource, rate): float"},
    {NULL, NULL, 0, NULL}};

struct native_state *native_state_of(PyObject *self)
{
    return PyType_GetModuleState(Py_TYPE(self));
}

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot)
{
    *slot = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (*slot == NULL)
        return -1;
    return PyModule_AddType(module, *slot);
}

static int exec_module(PyObject *module)
{
    struct native_state *state = PyModule_GetState(module);
    if (add_type(module, &native_dataset_spec, &state->dataset_type) < 0 ||
        add_type(module, &native_loader_spec, &state->loader_type) < 0 ||
        add_type(module, &native_batch_spec, &state->batch_type) < 0 ||
        add_type(module, &native_delivery_spec, &state->delivery_type) < 0 ||
        add_type(module, &native_receipt_spec, &state->receipt_type) < 0 ||
        add_type(module, &native_tensor_spec, &state->tensor_type) < 0 ||
        add_type(module, &native_writer_spec, &state->writer_type) < 0 ||
        add_type(module, &native_cache_spec, &state->cache_type) < 0 ||
        add_type(module, &native_images_spec, &state->images_type) < 0 ||
        add_type(module, &native_picture_spec, &state->picture_type) < 0 ||
        add_type(module, &native_fleet_spec, &state->fleet_type) < 0)
        return -1;
    if (PyModule_AddStringConstant(module, "version", pst_version()) < 0)
        return -1;
    const char *level = getenv("PENSTOCK_LOG_LEVEL");
    if (level != NULL && level[0] != '\0')
        pst_set_log(log_to_stderr, NULL, -1);
    return 0;
}

static int traverse_module(PyObject *module, visitproc visit, void *arg)
{
    struct native_state *state = PyModule_GetState(module);
    if (state == NULL)
        return 0;
    Py_VISIT(state->dataset_type);
    Py_VISIT(state->loader_type);
    Py_VISIT(state->batch_type);
    Py_VISIT(state->delivery_type);
    Py_VISIT(state->receipt_type);
    Py_VISIT(state->tensor_type);
    Py_VISIT(state->writer_type);
    Py_VISIT(state->cache_type);
    Py_VISIT(state->images_type);
    Py_VISIT(state->picture_type);
    Py_VISIT(state->fleet_type);
    return 0;
}

static int clear_module(PyObject *module)
{
    struct native_state *state = PyModule_GetState(module);
    if (state == NULL)
        return 0;
    Py_CLEAR(state->dataset_type);
    Py_CLEAR(state->loader_type);
    Py_CLEAR(state->batch_type);
    Py_CLEAR(state->delivery_type);
    Py_CLEAR(state->receipt_type);
    Py_CLEAR(state->tensor_type);
    Py_CLEAR(state->writer_type);
    Py_CLEAR(state->cache_type);
    Py_CLEAR(state->images_type);
    Py_CLEAR(state->picture_type);
    Py_CLEAR(state->fleet_type);
    return 0;
}

static void free_module(void *module) { clear_module(module); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, exec_module}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "penstock._native",
    .m_doc = "The C library behind penstock.",
    .m_size = sizeof(struct native_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = traverse_module,
    .m_clear = clear_module,
    .m_free = free_module,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
