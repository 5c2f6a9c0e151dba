/* native_stall.c - the what-if model for Python: converts dicts to its structs, and its results to
 * dicts. */
#include "native.h"

#include "stall/stall_predict.h"

#include <stddef.h>
#include <string.h>

#define MEMBER(name, kind, count)                                                                  \
    {                                                                                              \
#name, kind, offsetof(struct psti_stall_setup, name), count                                \
    }
#define NUMBER(name) MEMBER(name, NATIVE_DOUBLE, 0)

static const struct native_member members[] = {
    NUMBER(cpu_seconds),
    NUMBER(cpu_sd_seconds),
    NUMBER(hit_cpu_seconds),
    NUMBER(wait_seconds),
    NUMBER(nbytes),
    NUMBER(nbytes_sd),
    NUMBER(reads),
    NUMBER(item_nbytes),
    NUMBER(link_nbytes),
    NUMBER(gpu_seconds),
    NUMBER(batch_size),
    NUMBER(prefetch),
    NUMBER(step_seconds),
    NUMBER(step_sd_seconds),
    NUMBER(step_cpu_seconds),
    NUMBER(batch_cpu_seconds),
    NUMBER(ranks),
    NUMBER(jobs),
    NUMBER(hosts),
    NUMBER(batches_per_epoch),
    NUMBER(epoch_pause_seconds),
    NUMBER(cores),
    NUMBER(workers),
    NUMBER(storage_nbytes_per_second),
    NUMBER(reads_per_second),
    NUMBER(network_nbytes_per_second),
    NUMBER(link_nbytes_per_second),
    NUMBER(copy_nbytes_per_second),
    NUMBER(gpu_free),
    NUMBER(dataset_nbytes),
    NUMBER(cache_nbytes),
    NUMBER(page_cache_nbytes),
    MEMBER(policy, NATIVE_ENUM, 0),
    MEMBER(page_policy, NATIVE_ENUM, 0),
    MEMBER(shared_preparation, NATIVE_BOOL, 0),
    MEMBER(shared_cache, NATIVE_BOOL, 0),
    NUMBER(gpu_interference),
    NUMBER(cpu_band),
    NUMBER(storage_band),
    NUMBER(step_band),
    NUMBER(nbytes_band),
    NUMBER(copy_band),
    MEMBER(measured_low, NATIVE_DOUBLE, PSTI_STALL_N_RESOURCES),
    MEMBER(measured_high, NATIVE_DOUBLE, PSTI_STALL_N_RESOURCES),
    MEMBER(reads_ahead, NATIVE_BOOL, 0),
};

static int read_setup(PyObject *dict, struct psti_stall_setup *setup)
{
    memset(setup, 0, sizeof(*setup));
    setup->struct_size = sizeof(*setup);
    return native_dict_read(dict, members, sizeof(members) / sizeof(members[0]), setup, "stall");
}

static PyObject *bounds_of(const struct psti_stall_answer *answer)
{
    PyObject *bounds = PyDict_New();
    for (uint32_t i = 0; bounds != NULL && i < PSTI_STALL_N_RESOURCES; i++)
        if (native_dict_put(bounds, psti_stall_resource_name(i),
                            PyFloat_FromDouble(answer->bounds[i])) < 0)
            Py_CLEAR(bounds);
    return bounds;
}

static PyObject *outside_of(const struct psti_stall_answer *answer)
{
    PyObject *names = PyList_New(0);
    for (uint32_t i = 0; names != NULL && i < PSTI_STALL_N_RESOURCES; i++) {
        if ((answer->extrapolated >> i & 1) == 0)
            continue;
        PyObject *name = PyUnicode_FromString(psti_stall_resource_name(i));
        if (name == NULL || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

PyObject *native_stall_predict(PyObject *module, PyObject *dict)
{
    (void)module;
    struct psti_stall_setup setup;
    struct psti_stall_answer answer;
    struct pst_error err;
    if (read_setup(dict, &setup) < 0)
        return NULL;
    memset(&answer, 0, sizeof(answer));
    pst_error_clear(&err);
    enum pst_status status = psti_stall_predict(&setup, &answer, sizeof answer, &err);
    if (status != PST_OK)
        return native_raise(status, &err);
    PyObject *bounds = bounds_of(&answer), *outside = outside_of(&answer), *result = NULL;
    if (bounds != NULL && outside != NULL)
        result = Py_BuildValue(
            "{s:d,s:d,s:d,s:O,s:s,s:s,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:O}",
            "samples_per_second", answer.samples_per_second, "low", answer.low, "high", answer.high,
            "bounds", bounds, "binding", psti_stall_resource_name((uint32_t)answer.binding), "next",
            psti_stall_resource_name((uint32_t)answer.next), "utilisation", answer.utilisation,
            "prep_stall", answer.prep_stall, "fetch_stall", answer.fetch_stall, "start_stall",
            answer.start_stall, "hits", answer.hits, "page_hits", answer.page_hits, "misses",
            answer.misses, "storage_nbytes_per_second", answer.storage_nbytes_per_second,
            "cores_used", answer.cores_used, "extrapolated", outside);
    Py_XDECREF(bounds);
    Py_XDECREF(outside);
    return result;
}

PyObject *native_stall_need(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *dict;
    unsigned int resource;
    double utilisation, need;
    struct psti_stall_setup setup;
    struct pst_error err;
    if (!PyArg_ParseTuple(args, "OId:stall_need", &dict, &resource, &utilisation) ||
        read_setup(dict, &setup) < 0)
        return NULL;
    pst_error_clear(&err);
    enum pst_status status =
        psti_stall_need(&setup, (enum psti_stall_resource)resource, utilisation, &need, &err);
    if (status != PST_OK)
        return native_raise(status, &err);
    return PyFloat_FromDouble(need);
}

PyObject *native_stall_hit_ratio(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned int policy;
    double part;
    if (!PyArg_ParseTuple(args, "Id:stall_hit_ratio", &policy, &part))
        return NULL;
    return PyFloat_FromDouble(psti_stall_hit_ratio((enum psti_stall_policy)policy, part));
}
