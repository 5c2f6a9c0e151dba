/* _native_plan.c - the solver of plans for Python: a dict for the setup, one for each way. */
#include "_native.h"

#include <penstock/plan.h>

#include <stddef.h>
#include <string.h>

#define MEMBER(type, name, kind, count)                                                            \
    {                                                                                              \
#name, kind, offsetof(struct type, name), count                                            \
    }

static const struct native_member setup_members[] = {
    MEMBER(pst_plan_setup, goal, NATIVE_ENUM, 0),
    MEMBER(pst_plan_setup, capacities, NATIVE_DOUBLE, PST_STALL_N_RESOURCES),
    MEMBER(pst_plan_setup, capacities_most, NATIVE_DOUBLE, PST_STALL_N_RESOURCES),
    MEMBER(pst_plan_setup, unit_prices, NATIVE_DOUBLE, PST_STALL_N_RESOURCES),
    MEMBER(pst_plan_setup, price, NATIVE_DOUBLE, 0),
    MEMBER(pst_plan_setup, stored_nbytes, NATIVE_DOUBLE, 0),
    MEMBER(pst_plan_setup, least_rate, NATIVE_DOUBLE, 0),
    MEMBER(pst_plan_setup, allow_lossy, NATIVE_BOOL, 0),
    MEMBER(pst_plan_setup, gpu_interference, NATIVE_DOUBLE, 0),
};

static const struct native_member way_members[] = {
    MEMBER(pst_plan_way, i_class, NATIVE_U32, 0),
    MEMBER(pst_plan_way, form, NATIVE_U32, 0),
    MEMBER(pst_plan_way, demands, NATIVE_DOUBLE, PST_STALL_N_RESOURCES),
    MEMBER(pst_plan_way, stored_nbytes, NATIVE_DOUBLE, 0),
    MEMBER(pst_plan_way, is_lossy, NATIVE_BOOL, 0),
};

#define COUNT(members) (sizeof(members) / sizeof((members)[0]))

/* A setup, and the arrays that it points to. */
struct problem {
    struct pst_plan_setup setup;
    double *class_samples;
    struct pst_plan_way *ways;
};

static void problem_free(struct problem *problem)
{
    PyMem_Free(problem->class_samples);
    PyMem_Free(problem->ways);
}

static int read_classes(PyObject *list, struct problem *problem)
{
    Py_ssize_t n = PyList_Size(list);
    problem->class_samples = PyMem_Calloc((size_t)n + 1, sizeof(double));
    if (problem->class_samples == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        problem->class_samples[i] = PyFloat_AsDouble(PyList_GetItem(list, i));
        if (problem->class_samples[i] == -1.0 && PyErr_Occurred())
            return -1;
    }
    problem->setup.class_samples = problem->class_samples;
    problem->setup.n_classes = (uint32_t)n;
    return 0;
}

static int read_ways(PyObject *list, struct problem *problem)
{
    Py_ssize_t n = PyList_Size(list);
    problem->ways = PyMem_Calloc((size_t)n + 1, sizeof(*problem->ways));
    if (problem->ways == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (native_dict_read(PyList_GetItem(list, i), way_members, COUNT(way_members),
                             &problem->ways[i], "way") < 0)
            return -1;
    problem->setup.ways = problem->ways;
    problem->setup.n_ways = (uint32_t)n;
    problem->setup.way_nbytes = sizeof(*problem->ways);
    return 0;
}

/* Returns 0, or -1 with an exception set; problem_free is called for both. */
static int read_problem(PyObject *setup, PyObject *classes, PyObject *ways, const char *library,
                        struct problem *problem)
{
    memset(problem, 0, sizeof(*problem));
    problem->setup.struct_size = sizeof(problem->setup);
    if (native_dict_read(setup, setup_members, COUNT(setup_members), &problem->setup, "plan") < 0)
        return -1;
    problem->setup.library = library;
    return read_classes(classes, problem) < 0 ? -1 : read_ways(ways, problem);
}

static PyObject *numbers(const double *values, Py_ssize_t n)
{
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        PyObject *number = PyFloat_FromDouble(values[i]);
        if (number == NULL || PyList_SetItem(list, i, number) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static int put_numbers(PyObject *dict, const char *key, const double *values)
{
    return native_dict_put(dict, key, numbers(values, PST_STALL_N_RESOURCES));
}

static int put_number(PyObject *dict, const char *key, double value)
{
    return native_dict_put(dict, key, PyFloat_FromDouble(value));
}

/* The best plan of one form; None if there is none. */
static PyObject *single_of(const struct pst_plan_answer *a)
{
    if (!a->has_single)
        return Py_NewRef(Py_None);
    return Py_BuildValue("{s:I,s:d,s:d,s:d}", "form", (unsigned int)a->single_form,
                         "samples_per_second", a->single_samples_per_second, "stored_nbytes",
                         a->single_stored_nbytes, "cost", a->single_cost);
}

static PyObject *answer_dict(const struct pst_plan_answer *a, const double *shares, uint32_t n_ways)
{
    PyObject *dict = PyDict_New();
    if (dict == NULL)
        return NULL;
    if (native_dict_put(dict, "shares", numbers(shares, n_ways)) < 0 ||
        put_number(dict, "samples_per_second", a->samples_per_second) < 0 ||
        put_number(dict, "stored_nbytes", a->stored_nbytes) < 0 ||
        put_number(dict, "cost", a->cost) < 0 || put_numbers(dict, "used", a->used) < 0 ||
        put_numbers(dict, "capacities", a->capacities) < 0 ||
        native_dict_put(dict, "binding", PyLong_FromUnsignedLong(a->binding)) < 0 ||
        native_dict_put(dict, "quota_binds", PyBool_FromLong(a->quota_binds)) < 0 ||
        put_numbers(dict, "prices", a->prices) < 0 ||
        put_numbers(dict, "price_low", a->price_low) < 0 ||
        put_numbers(dict, "price_high", a->price_high) < 0 ||
        put_number(dict, "quota_price", a->quota_price) < 0 ||
        native_dict_put(dict, "single", single_of(a)) < 0)
        Py_CLEAR(dict);
    return dict;
}

PyObject *native_plan_solve(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *setup, *classes, *ways, *result = NULL;
    const char *library;
    struct problem problem;
    if (!PyArg_ParseTuple(args, "O!O!O!z:plan_solve", &PyDict_Type, &setup, &PyList_Type, &classes,
                          &PyList_Type, &ways, &library))
        return NULL;
    if (read_problem(setup, classes, ways, library, &problem) == 0) {
        struct pst_plan_answer answer;
        struct pst_error err;
        enum pst_status status;
        double *shares = PyMem_Calloc((size_t)problem.setup.n_ways + 1, sizeof(double));
        memset(&answer, 0, sizeof(answer));
        pst_error_clear(&err);
        if (shares == NULL) {
            PyErr_NoMemory();
        } else {
            Py_BEGIN_ALLOW_THREADS;
            status = pst_plan_solve(&problem.setup, shares, &answer, sizeof answer, &err);
            Py_END_ALLOW_THREADS;
            result = status == PST_OK ? answer_dict(&answer, shares, problem.setup.n_ways)
                                      : native_raise(status, &err);
        }
        PyMem_Free(shares);
    }
    problem_free(&problem);
    return result;
}

PyObject *native_plan_need(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *setup, *classes, *ways, *result = NULL;
    const char *library;
    unsigned int form, resource;
    double rate, need = 0;
    struct problem problem;
    if (!PyArg_ParseTuple(args, "O!O!O!zIId:plan_need", &PyDict_Type, &setup, &PyList_Type,
                          &classes, &PyList_Type, &ways, &library, &form, &resource, &rate))
        return NULL;
    if (read_problem(setup, classes, ways, library, &problem) == 0) {
        struct pst_error err;
        enum pst_status status;
        pst_error_clear(&err);
        Py_BEGIN_ALLOW_THREADS;
        status = pst_plan_need(&problem.setup, form, (enum pst_stall_resource)resource, rate, &need,
                               &err);
        Py_END_ALLOW_THREADS;
        result = status == PST_OK ? PyFloat_FromDouble(need) : native_raise(status, &err);
    }
    problem_free(&problem);
    return result;
}
