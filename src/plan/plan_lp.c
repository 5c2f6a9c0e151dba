/* plan_lp.c - has a linear programme solved by the caller's function or by HiGHS, and checks the
 * solution.
 *
 * The solver is foreign code of any version, so its answer is verified: the values must keep the
 * limits, and the dual values must prove that no other values are better. By duality, the objective
 * exceeds the optimum by at most the sum over rows of dual * (value - limit) plus the sum over
 * columns of reduced cost * (value - bound); the sign of the dual or reduced cost says whether the
 * lower or the upper limit or bound counts. Pure; any thread that may call the solver. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>

#define ROOM "plan"
#define SECONDS_MOST 300
/* Solvers keep limits to 1e-7, for columns and rows that are scaled to be near 1. */
#define TOLERANCE 1e-6
#define ADVICE ": try another version of HiGHS"

/* A sum over one row or one column. */
struct sum {
    double value, size; /* sum of the terms; sum of their absolute values */
};

static void sum_add(struct sum *sum, double term)
{
    sum->value += term;
    sum->size += fabs(term);
}

static enum pst_status wrong(struct pst_error *err, const char *what, uint32_t i, double value)
{
    return psti_fail(err, PST_ERROR_INTERNAL, ROOM,
                     "the solver of linear programmes gave a wrong solution: %s %u is %g" ADVICE,
                     what, i, value);
}

static bool is_within(double value, double low, double high, double size)
{
    double slack = TOLERANCE * (1 + size);
    return value >= low - slack && value <= high + slack; /* false for NaN */
}

static struct sum row_of(const struct psti_plan_lp *lp, const double *values, uint32_t r)
{
    struct sum row = {0};
    for (int32_t i = lp->row_begin[r]; i < lp->row_begin[r + 1]; i++)
        sum_add(&row, lp->entries[i] * values[lp->columns[i]]);
    return row;
}

/* Checks that values and rows are finite and within limits, and that the objective fits the values.
 */
static enum pst_status check_values(const struct psti_plan_lp *lp,
                                    const struct psti_plan_lp_solution *s, struct pst_error *err)
{
    struct sum objective = {0};
    for (uint32_t i = 0; i < lp->n_columns; i++) {
        if (!isfinite(s->values[i]) || !is_within(s->values[i], lp->low[i], lp->high[i], 0))
            return wrong(err, "value", i, s->values[i]);
        sum_add(&objective, lp->cost[i] * s->values[i]);
    }
    for (uint32_t r = 0; r < lp->n_rows; r++) {
        struct sum row = row_of(lp, s->values, r);
        if (!is_within(row.value, lp->row_low[r], lp->row_high[r], row.size))
            return wrong(err, "the sum of row", r, row.value);
        if (!is_within(s->rows[r], row.value, row.value, row.size))
            return wrong(err, "what it says of row", r, s->rows[r]);
    }
    return is_within(s->objective, objective.value, objective.value, objective.size)
               ? PST_OK
               : psti_fail(err, PST_ERROR_INTERNAL, ROOM,
                           "the solver of linear programmes says that its solution has the "
                           "objective %g, but that is %g" ADVICE,
                           s->objective, objective.value);
}

/* Adds multiplier * (value - limit), for the limit that the multiplier's sign selects. A multiplier
 * that is a rounding error of numbers of `size` adds nothing. Returns false if the limit is
 * infinite, which cannot have a multiplier. */
static bool add_gap(struct sum *gap, double multiplier, double size, double value, double low,
                    double high)
{
    double limit = multiplier > 0 ? low : high;
    if (fabs(multiplier) <= TOLERANCE * (1 + size))
        return true;
    if (isinf(limit))
        return false;
    sum_add(gap, multiplier * (value - limit));
    return true;
}

/* Computes the reduced cost of each column: its cost minus the sum of its entries times the rows'
 * duals. `reduced` must be zero. */
static void reduce(const struct psti_plan_lp *lp, const double *duals, struct sum *reduced)
{
    for (uint32_t i = 0; i < lp->n_columns; i++)
        sum_add(&reduced[i], lp->cost[i]);
    for (uint32_t r = 0; r < lp->n_rows; r++)
        for (int32_t i = lp->row_begin[r]; i < lp->row_begin[r + 1]; i++)
            sum_add(&reduced[lp->columns[i]], -lp->entries[i] * duals[r]);
}

/* Checks that the dual values prove the values to be optimal. */
static enum pst_status check_duals(const struct psti_plan_lp *lp,
                                   const struct psti_plan_lp_solution *s, struct sum *reduced,
                                   struct pst_error *err)
{
    struct sum gap = {0};
    double size = fabs(s->objective);
    for (uint32_t r = 0; r < lp->n_rows; r++) {
        struct sum row = row_of(lp, s->values, r);
        if (!isfinite(s->duals[r]) ||
            !add_gap(&gap, s->duals[r], 0, row.value, lp->row_low[r], lp->row_high[r]))
            return wrong(err, "the dual of row", r, s->duals[r]);
        size += fabs(s->duals[r]) * row.size;
    }
    reduce(lp, s->duals, reduced);
    for (uint32_t i = 0; i < lp->n_columns; i++)
        if (!add_gap(&gap, reduced[i].value, reduced[i].size, s->values[i], lp->low[i],
                     lp->high[i]))
            return wrong(err, "the reduced cost of column", i, reduced[i].value);
    if (gap.size <= TOLERANCE * (1 + size))
        return PST_OK;
    return psti_fail(
        err, PST_ERROR_INTERNAL, ROOM,
        "the solver of linear programmes gave a wrong solution: its duals do not prove "
        "that %g is the least objective, which may be smaller by %g" ADVICE,
        s->objective, gap.size);
}

/* Checks that no end of a range is NaN. Ends may be infinite. */
static enum pst_status check_ranges(const struct psti_plan_lp *lp,
                                    const struct psti_plan_lp_solution *s, struct pst_error *err)
{
    const double *const ends[] = {s->down, s->up, s->down_objective, s->up_objective};
    for (int e = 0; e < 4; e++)
        for (uint32_t r = 0; r < lp->n_rows; r++)
            if (isnan(ends[e][r]))
                return wrong(err, "an end of the range of row", r, ends[e][r]);
    return PST_OK;
}

static enum pst_status check(const struct psti_plan_lp *lp, const struct psti_plan_lp_solution *s,
                             struct pst_error *err)
{
    struct sum *reduced = psti_calloc(lp->n_columns, sizeof *reduced);
    if (!reduced)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to check a solution");
    enum pst_status status = check_values(lp, s, err);
    if (status == PST_OK)
        status = check_duals(lp, s, reduced, err);
    if (status == PST_OK && s->up)
        status = check_ranges(lp, s, err);
    psti_free(reduced);
    return status;
}

/* Calls the setup's solver, and completes an error that it returns. */
static enum pst_status call(const struct psti_plan_setup *setup, const struct psti_plan_lp *lp,
                            struct psti_plan_lp_solution *solution, struct pst_error *err)
{
    struct pst_error own;
    pst_error_clear(&own);
    enum pst_status status = setup->solve_lp(setup->solve_lp_ctx, lp, solution, &own);
    if (status == PST_OK)
        return PST_OK;
    if (own.text[0] == '\0')
        return psti_fail(err, status, ROOM, "the caller's solver of linear programmes failed");
    own.status = status;
    if (err)
        *err = own;
    return status;
}

enum pst_status psti_plan_lp_solve(const struct psti_lp *lp, const struct psti_plan_setup *setup,
                                   struct psti_plan_lp_solution *solution, struct pst_error *err)
{
    const struct psti_plan_lp given = {.n_columns = lp->n_columns,
                                       .n_rows = lp->n_rows,
                                       .cost = lp->cost,
                                       .low = lp->low,
                                       .high = lp->high,
                                       .row_low = lp->row_low,
                                       .row_high = lp->row_high,
                                       .row_begin = lp->row_begin,
                                       .columns = lp->columns,
                                       .entries = lp->entries,
                                       .seconds_most = SECONDS_MOST};
    enum pst_status status = setup->solve_lp
                                 ? call(setup, &given, solution, err)
                                 : psti_plan_highs_solve(&given, setup->library, solution, err);
    return status == PST_OK ? check(&given, solution, err) : status;
}
