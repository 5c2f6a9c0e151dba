/* test_plan_lies.c - the caller's solver may fail or lie: its statuses and causes are passed on,
 * and wrong solutions are detected. HiGHS gives the right solutions. */
#include "test.h"

#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CORES = PSTI_STALL_CORES, STORAGE = PSTI_STALL_STORAGE };
enum lie {
    TRUTH,
    NAN_VALUE,
    VALUE_BELOW,
    VALUES_SWAPPED,
    ROW_LIMIT,
    ROW_SAID,
    OBJECTIVE_SAID,
    NAN_DUAL,
    DUAL_SIGN,
    NO_DUALS,
    SLOWER,
    NAN_RANGE,
    N_LIES
};
static const char *const texts[N_LIES] = {
    [NAN_VALUE] = "value 0 is ",          [VALUE_BELOW] = "value 1 is -1",
    [VALUES_SWAPPED] = "of row ",         [ROW_LIMIT] = "the sum of row 1",
    [ROW_SAID] = "what it says of row 1", [OBJECTIVE_SAID] = "objective",
    [NAN_DUAL] = "the dual of row 0 is ", [DUAL_SIGN] = "the dual of row",
    [NO_DUALS] = "do not prove",          [SLOWER] = "do not prove",
    [NAN_RANGE] = "range of row 1",
};

/* Context of the callbacks. */
struct solver {
    enum lie lie;
    enum pst_status status;
    const char *text;
    uint32_t n_calls;
};

static const double one_class[] = {1000};
static const struct psti_plan_way frames[2] = {
    {.form = 0, .demands = {[CORES] = 1 / 22.0, [STORAGE] = 2.32e6}, .stored_nbytes = 2.32e6},
    {.form = 1, .demands = {[STORAGE] = 3.72e6}, .stored_nbytes = 3.72e6},
};

static struct psti_plan_setup worked(psti_plan_lp_fn solve, struct solver *solver)
{
    struct psti_plan_setup s = {.struct_size = sizeof s,
                                .n_classes = 1,
                                .n_ways = 2,
                                .class_samples = one_class,
                                .ways = frames,
                                .way_nbytes = sizeof frames[0],
                                .solve_lp = solve,
                                .solve_lp_ctx = solver};
    s.capacities[CORES] = 16;
    s.capacities[STORAGE] = 1e9;
    return s;
}

/* Returns feasible values that are not the best: twice the time. */
static void tell_slower(const struct psti_plan_lp *lp, struct psti_plan_lp_solution *s)
{
    const uint32_t i_time = lp->n_columns - 1;
    for (uint32_t r = 0; r < lp->n_rows; r++)
        for (int32_t i = lp->row_begin[r]; i < lp->row_begin[r + 1]; i++)
            if (lp->columns[i] == (int32_t)i_time)
                s->rows[r] += lp->entries[i] * s->values[i_time];
    s->objective += lp->cost[i_time] * s->values[i_time];
    s->values[i_time] *= 2;
}

static void tell(enum lie lie, const struct psti_plan_lp *lp, struct psti_plan_lp_solution *s)
{
    switch (lie) {
    case NAN_VALUE:
        s->values[0] = NAN;
        break;
    case VALUE_BELOW:
        s->values[1] = -1;
        break;
    case VALUES_SWAPPED: {
        double first = s->values[0];
        s->values[0] = s->values[1];
        s->values[1] = first;
        break;
    }
    case ROW_LIMIT:
        s->values[2] *= 0.9;
        break;
    case ROW_SAID:
        s->rows[1] += 0.1;
        break;
    case OBJECTIVE_SAID:
        s->objective *= 0.9;
        break;
    case NAN_DUAL:
        s->duals[0] = NAN;
        break;
    case DUAL_SIGN:
        for (uint32_t r = 0; r < lp->n_rows; r++)
            s->duals[r] = -s->duals[r];
        break;
    case NO_DUALS:
        memset(s->duals, 0, lp->n_rows * sizeof *s->duals);
        break;
    case SLOWER:
        tell_slower(lp, s);
        break;
    case NAN_RANGE:
        s->up[1] = NAN;
        break;
    default:
        break;
    }
}

static enum pst_status lies(void *ctx, const struct psti_plan_lp *lp,
                            struct psti_plan_lp_solution *solution, struct pst_error *err)
{
    struct solver *solver = ctx;
    enum pst_status status = psti_plan_highs_solve(lp, NULL, solution, err);
    if (status == PST_OK && solver->n_calls++ == 0)
        tell(solver->lie, lp, solution);
    return status;
}

static enum pst_status fails(void *ctx, const struct psti_plan_lp *lp,
                             struct psti_plan_lp_solution *solution, struct pst_error *err)
{
    struct solver *solver = ctx;
    (void)solution;
    assert_true(lp->n_columns == 3 && lp->n_rows > 1 && lp->seconds_most > 0);
    assert_true(err->status == PST_OK && err->text[0] == '\0');
    solver->n_calls++;
    if (solver->text != NULL)
        (void)snprintf(err->text, sizeof err->text, "%s", solver->text);
    return solver->status;
}

static bool is_missing; /* HiGHS */

static bool has_highs(void)
{
    struct solver solver = {.lie = TRUTH};
    struct psti_plan_setup s = worked(lies, &solver);
    struct psti_plan_answer answer;
    struct pst_error err;
    double shares[2];
    enum pst_status status = psti_plan_solve(&s, shares, &answer, sizeof answer, &err);
    is_missing = status == PST_ERROR_UNSUPPORTED && getenv("PENSTOCK_HIGHS") == NULL;
    if (is_missing)
        return false;
    assert_ok(status);
    assert_true(solver.n_calls >= 4); /* the goal and a second step, for the mix and two forms */
    assert_true(fabs(answer.samples_per_second / (352 + (1000 - 2.32 * 352) / 3.72) - 1) < 1e-6);
    return true;
}

static void test_lies(void **state)
{
    (void)state;
    if (!has_highs())
        skip();
    for (enum lie lie = NAN_VALUE; lie < N_LIES; lie++) {
        struct solver solver = {.lie = lie};
        struct psti_plan_setup s = worked(lies, &solver);
        struct psti_plan_answer answer = {.samples_per_second = 7};
        struct pst_error err;
        double shares[2] = {3, 3};
        enum pst_status status = psti_plan_solve(&s, shares, &answer, sizeof answer, &err);
        if (status != PST_ERROR_INTERNAL || strstr(err.text, texts[lie]) == NULL)
            print_error("lie %d: status %d, \"%s\"\n", lie, status, err.text);
        assert_int_equal(status, PST_ERROR_INTERNAL);
        assert_non_null(strstr(err.text, texts[lie]));
        assert_non_null(strstr(err.text, "another version of HiGHS"));
        assert_true(answer.samples_per_second == 7 && shares[0] == 3);
    }
}

static void test_statuses(void **state)
{
    (void)state;
    const struct {
        enum pst_status status;
        const char *text, *says;
    } cases[] = {
        {PST_ERROR_MEMORY, "no memory for it", "no memory for it"},
        {PST_ERROR_CANCELLED, NULL, "the caller's solver"},
        {PST_ERROR_LIMIT, NULL, "no plan keeps within the limits"},
        {PST_ERROR_LIMIT, "nothing fits", "no plan keeps within the limits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct solver solver = {.status = cases[i].status, .text = cases[i].text};
        struct psti_plan_setup s = worked(fails, &solver);
        s.library = "/nonexistent"; /* not used */
        struct psti_plan_answer answer;
        struct pst_error err;
        double shares[2], need;
        assert_int_equal(psti_plan_solve(&s, shares, &answer, sizeof answer, &err), solver.status);
        assert_int_equal(err.status, solver.status);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_true(solver.n_calls == (solver.status == PST_ERROR_LIMIT ? 4 : 1));
        assert_int_equal(psti_plan_solve(&s, shares, &answer, sizeof answer, NULL), solver.status);
        assert_int_equal(psti_plan_need(&s, UINT32_MAX, PSTI_STALL_CORES, 100, &need, &err),
                         solver.status);
        assert_int_equal(err.status, solver.status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lies),
                                       cmocka_unit_test(test_statuses)};
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (n_failed > 0 || !is_missing)
        return n_failed;
    printf(
        "no HiGHS, which tells the truth: scripts/setup_venv.sh check, or PENSTOCK_HIGHS=FILE\n");
    return 77;
}
