/* plan_highs.c - loads the library HiGHS at run time and solves a linear programme with it.
 *
 * HiGHS (MIT licence, https://highs.dev) has a stable C interface, of which this file uses a few
 * functions. Each call makes its own solver with one thread and no output, so nothing is shared.
 * Any thread. */
#include "plan/plan.h"

#include "base/fail.h"

#include <dlfcn.h>
#include <stdlib.h>

#define ROOM "plan"
#define INSTALL                                                                                    \
    "from Python, pip install 'penstock[plan]' brings it; for C programs install the system's "    \
    "libhighs, or name its library by PENSTOCK_HIGHS"

enum { MATRIX_BY_ROWS = 2, SENSE_MINIMISE = 1, MODEL_OPTIMAL = 7, MODEL_INFEASIBLE = 8 };
enum { MODEL_INFEASIBLE_OR_UNBOUNDED = 9, MODEL_UNBOUNDED = 10, MODEL_TIME_LIMIT = 13 };
enum { STATUS_ERROR = -1 };
enum { LEAST_MAJOR = 1, LEAST_MINOR = 15 }; /* version */

/* The functions of HiGHS in use: its name, our member, result and arguments. */
#define HIGHS_LIST(F)                                                                              \
    F(Highs_create, create, void *, (void))                                                        \
    F(Highs_destroy, destroy, void, (void *))                                                      \
    F(Highs_versionMajor, major, int32_t, (void))                                                  \
    F(Highs_versionMinor, minor, int32_t, (void))                                                  \
    F(Highs_getSizeofHighsInt, sizeof_int, int32_t, (const void *))                                \
    F(Highs_setBoolOptionValue, set_bool, int32_t, (void *, const char *, int32_t))                \
    F(Highs_setIntOptionValue, set_int, int32_t, (void *, const char *, int32_t))                  \
    F(Highs_setDoubleOptionValue, set_double, int32_t, (void *, const char *, double))             \
    F(Highs_setStringOptionValue, set_string, int32_t, (void *, const char *, const char *))       \
    F(Highs_passLp, pass_lp, int32_t,                                                              \
      (void *, int32_t, int32_t, int32_t, int32_t, int32_t, double, const double *,                \
       const double *, const double *, const double *, const double *, const int32_t *,            \
       const int32_t *, const double *))                                                           \
    F(Highs_run, run, int32_t, (void *))                                                           \
    F(Highs_getModelStatus, model_status, int32_t, (const void *))                                 \
    F(Highs_getObjectiveValue, objective, double, (const void *))                                  \
    F(Highs_getSolution, solution, int32_t,                                                        \
      (const void *, double *, double *, double *, double *))                                      \
    F(Highs_getRanging, ranging, int32_t,                                                          \
      (void *, double *, double *, int32_t *, int32_t *, double *, double *, int32_t *, int32_t *, \
       double *, double *, int32_t *, int32_t *, double *, double *, int32_t *, int32_t *,         \
       double *, double *, int32_t *, int32_t *, double *, double *, int32_t *, int32_t *))

struct highs {
#define MEMBER(symbol, member, result, arguments) result(*member) arguments;
    HIGHS_LIST(MEMBER)
#undef MEMBER
};

/* Opens the library that the caller or the environment names, or else the system's. */
static void *open_one_of(const char *given, const char **name, struct pst_error *err)
{
    static const char *const names[] = {"libhighs.so.1", "libhighs.so"};
    const char *environment = getenv("PENSTOCK_HIGHS"), *named = given;
    void *library = NULL;
    if (!named && environment && *environment)
        named = environment;
    for (int i = 0; i < (named ? 1 : 2) && !library; i++) {
        *name = named ? named : names[i];
        library = dlopen(*name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    const char *why = library ? NULL : dlerror();
    if (!library)
        (void)psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM,
                        named ? "the library of HiGHS that PENSTOCK_HIGHS or the caller names "
                                "cannot be loaded: %s; name none, and pip install "
                                "'penstock[plan]' brings one for Python"
                              : "a plan needs HiGHS: " INSTALL " (%s)",
                        why ? why : *name);
    return library;
}

static enum pst_status open_library(const char *given, struct highs *highs, struct pst_error *err)
{
    const char *name = NULL;
    void *library = open_one_of(given, &name, err);
    if (!library)
        return PST_ERROR_UNSUPPORTED;
#define LOOK_UP(symbol, member, result, arguments)                                                 \
    *(void **)&highs->member = dlsym(library, #symbol);                                            \
    if (!highs->member)                                                                            \
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM, "%s has no %s: " INSTALL, name, #symbol);
    HIGHS_LIST(LOOK_UP)
#undef LOOK_UP
    int32_t major = highs->major(), minor = highs->minor();
    if (major < LEAST_MAJOR || (major == LEAST_MAJOR && minor < LEAST_MINOR))
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM,
                         "HiGHS %d.%d (%s) is too old, %d.%d or later is needed: " INSTALL, major,
                         minor, name, LEAST_MAJOR, LEAST_MINOR);
    return PST_OK;
}

static enum pst_status pass(const struct highs *highs, void *solver, const struct psti_plan_lp *lp,
                            struct pst_error *err)
{
    if (highs->sizeof_int(solver) != (int32_t)sizeof(int32_t))
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM,
                         "this HiGHS was built with integers of %d bytes, 4 are expected: " INSTALL,
                         highs->sizeof_int(solver));
    int32_t worst = highs->set_bool(solver, "output_flag", 0);
    worst |= highs->set_int(solver, "threads", 1);
    worst |= highs->set_string(solver, "solver", "simplex"); /* the simplex method, because ranges
                                                              * need a solution with a basis */
    worst |= highs->set_double(solver, "time_limit", lp->seconds_most);
    worst |= highs->pass_lp(solver, (int32_t)lp->n_columns, (int32_t)lp->n_rows,
                            lp->row_begin[lp->n_rows], MATRIX_BY_ROWS, SENSE_MINIMISE, 0, lp->cost,
                            lp->low, lp->high, lp->row_low, lp->row_high, lp->row_begin,
                            lp->columns, lp->entries);
    return worst < 0 ? psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                                 "HiGHS refused the programme: its numbers are too far apart")
                     : PST_OK;
}

static enum pst_status run(const struct highs *highs, void *solver, struct pst_error *err)
{
    /* If the program itself has used HiGHS in this thread, HiGHS refuses another number of threads;
     * 0 accepts the number already set. */
    if (highs->run(solver) == STATUS_ERROR &&
        (highs->set_int(solver, "threads", 0) == STATUS_ERROR ||
         highs->run(solver) == STATUS_ERROR))
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "HiGHS failed");
    int32_t status = highs->model_status(solver);
    if (status == MODEL_INFEASIBLE || status == MODEL_INFEASIBLE_OR_UNBOUNDED)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                         "HiGHS found that nothing satisfies the limits");
    if (status == MODEL_TIME_LIMIT)
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "HiGHS did not end within its time");
    if (status != MODEL_OPTIMAL)
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "HiGHS ended with model status %d%s",
                         status, status == MODEL_UNBOUNDED ? ": nothing limits the goal" : "");
    return PST_OK;
}

/* Fills in the ranges of the rows' limits. Ranges of costs and of columns' bounds are not needed.
 */
static enum pst_status range(const struct highs *highs, void *solver,
                             struct psti_plan_lp_solution *solution, struct pst_error *err)
{
    if (highs->ranging(solver, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                       NULL, NULL, NULL, NULL, NULL, solution->up, solution->up_objective, NULL,
                       NULL, solution->down, solution->down_objective, NULL, NULL) == STATUS_ERROR)
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "HiGHS found no ranges");
    return PST_OK;
}

enum pst_status psti_plan_highs_solve(const struct psti_plan_lp *lp, const char *library,
                                      struct psti_plan_lp_solution *solution, struct pst_error *err)
{
    struct highs highs = {0};
    enum pst_status status = open_library(library, &highs, err);
    if (status != PST_OK)
        return status;
    void *solver = highs.create();
    if (!solver)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "HiGHS has no memory for a solver");
    status = pass(&highs, solver, lp, err);
    if (status == PST_OK)
        status = run(&highs, solver, err);
    if (status == PST_OK && highs.solution(solver, solution->values, NULL, solution->rows,
                                           solution->duals) == STATUS_ERROR)
        status = psti_fail(err, PST_ERROR_INTERNAL, ROOM, "HiGHS gave no solution");
    if (status == PST_OK)
        solution->objective = highs.objective(solver);
    if (status == PST_OK && solution->up)
        status = range(&highs, solver, solution, err);
    highs.destroy(solver);
    return status;
}
