/* plan.h - linear programmes, and what solves them.
 *
 * In: a programme in plain arrays. Out: values, duals, and how far a row's bound may move while
 * they hold. HiGHS, opened at run time, or a function of the caller solves it; what they return is
 * checked. No other room knows of either. */
#ifndef PST_PLAN_PLAN_H
#define PST_PLAN_PLAN_H

#include "plan/plan_solve.h"

/* struct psti_plan_lp, whose arrays are ours and may be changed. */
struct psti_lp {
    uint32_t n_columns, n_rows;
    double *cost, *low, *high;  /* [n_columns] */
    double *row_low, *row_high; /* [n_rows] */
    int32_t *row_begin;         /* [n_rows + 1] */
    int32_t *columns;           /* of the entries */
    double *entries;
};

/* Solves a programme by the setup's function, or by HiGHS, and checks the solution, which it leaves
 * undefined after failure. PST_ERROR_LIMIT: no x satisfies it. Any thread. */
enum pst_status psti_plan_lp_solve(const struct psti_lp *lp, const struct psti_plan_setup *setup,
                                   struct psti_plan_lp_solution *solution, struct pst_error *err);

/* Solves a programme by HiGHS. `library`: path, or NULL as in struct psti_plan_setup. Any thread.
 */
enum pst_status psti_plan_highs_solve(const struct psti_plan_lp *lp, const char *library,
                                      struct psti_plan_lp_solution *solution,
                                      struct pst_error *err);

#endif
