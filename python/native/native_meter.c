/* native_meter.c - returns the meter of a loader as a dict of numbers: {"stages": {name: {...}},
 * "epoch": {...}, "window": {...}, "workers": [...], ...}. Times are integers in nanoseconds, but
 * means are floats. Called with the GIL held. */
#include "native.h"

#include <penstock/meter.h>

#include <string.h>

struct number {
    const char *key;
    uint64_t value;
};

/* Adds numbers to `dict` and returns it. If `dict` is NULL, returns NULL and keeps the
 * exception. */
static PyObject *with_numbers(PyObject *dict, const struct number *numbers, size_t n)
{
    for (size_t i = 0; dict != NULL && i < n; i++)
        if (native_dict_put(dict, numbers[i].key, PyLong_FromUnsignedLongLong(numbers[i].value)) <
            0)
            Py_CLEAR(dict);
    return dict;
}

#define N_OF(table) (sizeof(table) / sizeof((table)[0]))

static PyObject *stage(const struct pst_stage_clock *clock)
{
    const struct number numbers[] = {{"work_ns", clock->work_ns},
                                     {"wait_in_ns", clock->wait_in_ns},
                                     {"wait_out_ns", clock->wait_out_ns},
                                     {"n", clock->n},
                                     {"nbytes", clock->nbytes},
                                     {"link_ns", clock->link_ns},
                                     {"gpu_ns", clock->gpu_ns}};
    return with_numbers(PyDict_New(), numbers, N_OF(numbers));
}

static PyObject *stages(const struct pst_loader_meter *meter)
{
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict != NULL && pst_stage_name(i) != NULL; i++)
        if (native_dict_put(dict, pst_stage_name(i), stage(&meter->stages[i])) < 0)
            Py_CLEAR(dict);
    return dict;
}

static PyObject *causes(const struct pst_step_times *times)
{
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict != NULL && pst_stage_name(i) != NULL; i++)
        if (native_dict_put(dict, pst_stage_name(i),
                            PyLong_FromUnsignedLongLong(times->cause_ns[i])) < 0)
            Py_CLEAR(dict);
    return dict;
}

static PyObject *steps(const struct pst_step_times *times)
{
    const struct number numbers[] = {{"n", times->n},
                                     {"total_ns", times->total_ns},
                                     {"wait_ns", times->wait_ns},
                                     {"peers_ns", times->peers_ns},
                                     {"max_ns", times->max_ns},
                                     {"wait_max_ns", times->wait_max_ns}};
    const struct {
        const char *key;
        double value;
    } means[] = {{"mean_ns", times->mean_ns},
                 {"sd_ns", times->sd_ns},
                 {"p50_ns", times->p50_ns},
                 {"p99_ns", times->p99_ns}};
    PyObject *dict = with_numbers(PyDict_New(), numbers, N_OF(numbers));
    for (size_t i = 0; dict != NULL && i < N_OF(means); i++)
        if (native_dict_put(dict, means[i].key, PyFloat_FromDouble(means[i].value)) < 0)
            Py_CLEAR(dict);
    if (dict != NULL && native_dict_put(dict, "causes", causes(times)) < 0)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *workers(const pst_loader *loader, uint32_t n)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < n; i++) {
        struct pst_worker_clock clock;
        pst_loader_worker_clock(loader, i, &clock, sizeof clock);
        const struct number numbers[] = {
            {"busy_ns", clock.busy_ns},         {"wait_in_ns", clock.wait_in_ns},
            {"wait_out_ns", clock.wait_out_ns}, {"n_rows", clock.n_rows},
            {"fetch_ns", clock.fetch_ns},       {"decode_ns", clock.decode_ns},
            {"augment_ns", clock.augment_ns},   {"batch_ns", clock.batch_ns},
            {"keep_ns", clock.keep_ns}};
        PyObject *item = with_numbers(PyDict_New(), numbers, N_OF(numbers));
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

PyObject *native_meter_new(const pst_loader *loader, uint32_t n_workers)
{
    struct pst_loader_meter meter;
    pst_loader_meter(loader, &meter, sizeof meter);
    const struct number numbers[] = {{"first_wait_ns", meter.first_wait_ns},
                                     {"n_rows_reading", meter.n_rows_reading},
                                     {"n_rows_ready", meter.n_rows_ready},
                                     {"n_batches_running", meter.n_batches_running},
                                     {"n_batches_ready", meter.n_batches_ready},
                                     {"n_asked", meter.n_asked},
                                     {"sum_rows_reading", meter.sum_rows_reading},
                                     {"sum_rows_ready", meter.sum_rows_ready},
                                     {"sum_batches_running", meter.sum_batches_running},
                                     {"sum_batches_ready", meter.sum_batches_ready},
                                     {"traces", meter.traces}};
    PyObject *dict = with_numbers(PyDict_New(), numbers, N_OF(numbers));
    if (dict == NULL)
        return NULL;
    int status = native_dict_put(dict, "stages", stages(&meter));
    if (status == 0)
        status = native_dict_put(dict, "epoch", steps(&meter.epoch));
    if (status == 0)
        status = native_dict_put(dict, "window", steps(&meter.window));
    if (status == 0)
        status = native_dict_put(dict, "workers", workers(loader, n_workers ? n_workers : 1));
    if (status == 0)
        status = native_dict_put(dict, "workers_busy", PyFloat_FromDouble(meter.workers_busy));
    if (status < 0)
        Py_CLEAR(dict);
    return dict;
}
