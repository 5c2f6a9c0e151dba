/* native_plan.c - the solver of plans for Python: takes a dict for the setup and a dict for each
 * way.
 *
 * Linear programmes are solved by HiGHS's library or by a Python callable. The solver runs without
 * the GIL, and takes it only to call the callable, on the same thread. */
#include "native.h"

#include "plan/plan_solve.h"

#include <stddef.h>
#include <string.h>

#define MEMBER(type, name, kind, count)                                                            \
    {                                                                                              \
#name, kind, offsetof(struct type, name), count                                            \
    }

static const struct native_member setup_members[] = {
    MEMBER(psti_plan_setup, goal, NATIVE_ENUM, 0),
    MEMBER(psti_plan_setup, capacities, NATIVE_DOUBLE, PSTI_STALL_N_RESOURCES),
    MEMBER(psti_plan_setup, capacities_most, NATIVE_DOUBLE, PSTI_STALL_N_RESOURCES),
    MEMBER(psti_plan_setup, unit_prices, NATIVE_DOUBLE, PSTI_STALL_N_RESOURCES),
    MEMBER(psti_plan_setup, price, NATIVE_DOUBLE, 0),
    MEMBER(psti_plan_setup, stored_nbytes, NATIVE_DOUBLE, 0),
    MEMBER(psti_plan_setup, least_rate, NATIVE_DOUBLE, 0),
    MEMBER(psti_plan_setup, allow_lossy, NATIVE_BOOL, 0),
    MEMBER(psti_plan_setup, gpu_interference, NATIVE_DOUBLE, 0),
};

static const struct native_member way_members[] = {
    MEMBER(psti_plan_way, i_class, NATIVE_U32, 0),
    MEMBER(psti_plan_way, form, NATIVE_U32, 0),
    MEMBER(psti_plan_way, demands, NATIVE_DOUBLE, PSTI_STALL_N_RESOURCES),
    MEMBER(psti_plan_way, stored_nbytes, NATIVE_DOUBLE, 0),
    MEMBER(psti_plan_way, is_lossy, NATIVE_BOOL, 0),
};

#define COUNT(members) (sizeof(members) / sizeof((members)[0]))

/* A setup, and the memory that it points to. */
struct problem {
    struct psti_plan_setup setup;
    double *class_samples;
    struct psti_plan_way *ways;
    PyObject *solver;     /* borrowed callable; NULL: HiGHS's library solves */
    PyThreadState *state; /* the thread that solves, while it has released the GIL */
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

static PyObject *bytes_of(const void *array, size_t nbytes)
{
    return PyBytes_FromStringAndSize(array, (Py_ssize_t)nbytes);
}

/* Returns the arguments of the callable: the arrays of a programme as bytes, in the order of its
 * members, and whether ranges are wanted. */
static PyObject *lp_arguments(const struct psti_plan_lp *lp, int ranges)
{
    size_t n = (size_t)lp->row_begin[lp->n_rows], columns = lp->n_columns * sizeof(double),
           rows = lp->n_rows * sizeof(double);
    return Py_BuildValue("(NNNNNNNNdi)", bytes_of(lp->cost, columns), bytes_of(lp->low, columns),
                         bytes_of(lp->high, columns), bytes_of(lp->row_low, rows),
                         bytes_of(lp->row_high, rows),
                         bytes_of(lp->row_begin, (lp->n_rows + 1) * sizeof(int32_t)),
                         bytes_of(lp->columns, n * sizeof(int32_t)),
                         bytes_of(lp->entries, n * sizeof(double)), lp->seconds_most, ranges);
}

/* Copies the result of the callable: doubles in the order of the solution's members, the objective
 * first. */
static int read_solution(PyObject *found, const struct psti_plan_lp *lp,
                         struct psti_plan_lp_solution *solution)
{
    const size_t n_rows = lp->n_rows;
    const struct {
        double *array;
        size_t n;
    } parts[] = {{&solution->objective, 1}, {solution->values, lp->n_columns},
                 {solution->duals, n_rows}, {solution->rows, n_rows},
                 {solution->down, n_rows},  {solution->down_objective, n_rows},
                 {solution->up, n_rows},    {solution->up_objective, n_rows}};
    const size_t n_parts = solution->up != NULL ? COUNT(parts) : 4;
    size_t nbytes = 0;
    char *bytes;
    Py_ssize_t length;
    for (size_t i = 0; i < n_parts; i++)
        nbytes += parts[i].n * sizeof(double);
    if (PyBytes_AsStringAndSize(found, &bytes, &length) < 0)
        return -1;
    if ((size_t)length != nbytes) {
        PyErr_Format(PyExc_ValueError, "the solver returned %zd bytes, %zu are expected", length,
                     nbytes);
        return -1;
    }
    for (size_t i = 0; i < n_parts; i++) {
        memcpy(parts[i].array, bytes, parts[i].n * sizeof(double));
        bytes += parts[i].n * sizeof(double);
    }
    return 0;
}

/* A psti_plan_lp_fn that calls the Python callable. The callable returns bytes, or None if nothing
 * meets the limits. An exception stays set, and ends the plan. */
static enum pst_status call_solver(void *ctx, const struct psti_plan_lp *lp,
                                   struct psti_plan_lp_solution *solution, struct pst_error *err)
{
    struct problem *problem = ctx;
    enum pst_status status = PST_ERROR_CANCELLED;
    (void)err;
    PyEval_RestoreThread(problem->state);
    PyObject *arguments = lp_arguments(lp, solution->up != NULL);
    PyObject *found = arguments != NULL ? PyObject_CallObject(problem->solver, arguments) : NULL;
    if (found == Py_None)
        status = PST_ERROR_LIMIT;
    else if (found != NULL && read_solution(found, lp, solution) == 0)
        status = PST_OK;
    Py_XDECREF(found);
    Py_XDECREF(arguments);
    problem->state = PyEval_SaveThread();
    return status;
}

/* Reads the solver that Python passes: None, the path of a library, or a callable. */
static int read_solver(PyObject *solver, struct problem *problem)
{
    if (solver == Py_None)
        return 0;
    if (PyUnicode_Check(solver)) {
        problem->setup.library = PyUnicode_AsUTF8AndSize(solver, NULL);
        return problem->setup.library == NULL ? -1 : 0;
    }
    if (!PyCallable_Check(solver)) {
        PyErr_SetString(PyExc_TypeError, "the solver is None, a path or a callable");
        return -1;
    }
    problem->solver = solver;
    problem->setup.solve_lp = call_solver;
    problem->setup.solve_lp_ctx = problem;
    return 0;
}

/* Returns 0, or -1 with an exception set. The caller calls problem_free in both cases. */
static int read_problem(PyObject *setup, PyObject *classes, PyObject *ways, PyObject *solver,
                        struct problem *problem)
{
    memset(problem, 0, sizeof(*problem));
    problem->setup.struct_size = sizeof(problem->setup);
    if (native_dict_read(setup, setup_members, COUNT(setup_members), &problem->setup, "plan") < 0 ||
        read_solver(solver, problem) < 0)
        return -1;
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
    return native_dict_put(dict, key, numbers(values, PSTI_STALL_N_RESOURCES));
}

static int put_number(PyObject *dict, const char *key, double value)
{
    return native_dict_put(dict, key, PyFloat_FromDouble(value));
}

/* Returns the best plan with a single form, or None if there is none. */
static PyObject *single_of(const struct psti_plan_answer *a)
{
    if (!a->has_single)
        return Py_NewRef(Py_None);
    return Py_BuildValue("{s:I,s:d,s:d,s:d}", "form", (unsigned int)a->single_form,
                         "samples_per_second", a->single_samples_per_second, "stored_nbytes",
                         a->single_stored_nbytes, "cost", a->single_cost);
}

static PyObject *answer_dict(const struct psti_plan_answer *a, const double *shares,
                             uint32_t n_ways)
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

/* Raises the error of a failed plan. If the callable raised an exception, that one is kept. */
static PyObject *failed(enum pst_status status, const struct pst_error *err)
{
    return PyErr_Occurred() ? NULL : native_raise(status, err);
}

static PyObject *solve(struct problem *problem)
{
    struct psti_plan_answer answer;
    struct pst_error err;
    PyObject *result;
    double *shares = PyMem_Calloc((size_t)problem->setup.n_ways + 1, sizeof(double));
    memset(&answer, 0, sizeof(answer));
    pst_error_clear(&err);
    if (shares == NULL)
        return PyErr_NoMemory();
    problem->state = PyEval_SaveThread();
    enum pst_status status = psti_plan_solve(&problem->setup, shares, &answer, sizeof answer, &err);
    PyEval_RestoreThread(problem->state);
    result = status == PST_OK ? answer_dict(&answer, shares, problem->setup.n_ways)
                              : failed(status, &err);
    PyMem_Free(shares);
    return result;
}

PyObject *native_plan_solve(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *setup, *classes, *ways, *solver, *result = NULL;
    struct problem problem;
    if (!PyArg_ParseTuple(args, "O!O!O!O:plan_solve", &PyDict_Type, &setup, &PyList_Type, &classes,
                          &PyList_Type, &ways, &solver))
        return NULL;
    if (read_problem(setup, classes, ways, solver, &problem) == 0)
        result = solve(&problem);
    problem_free(&problem);
    return result;
}

PyObject *native_plan_need(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *setup, *classes, *ways, *solver, *result = NULL;
    unsigned int form, resource;
    double rate, need = 0;
    struct problem problem;
    if (!PyArg_ParseTuple(args, "O!O!O!OIId:plan_need", &PyDict_Type, &setup, &PyList_Type,
                          &classes, &PyList_Type, &ways, &solver, &form, &resource, &rate))
        return NULL;
    if (read_problem(setup, classes, ways, solver, &problem) == 0) {
        struct pst_error err;
        pst_error_clear(&err);
        problem.state = PyEval_SaveThread();
        enum pst_status status = psti_plan_need(
            &problem.setup, form, (enum psti_stall_resource)resource, rate, &need, &err);
        PyEval_RestoreThread(problem.state);
        result = status == PST_OK ? PyFloat_FromDouble(need) : failed(status, &err);
    }
    problem_free(&problem);
    return result;
}
