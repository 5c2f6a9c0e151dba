/* plan.h - solving linear programmes. In: a programme as plain arrays. Out: values, dual values,
 * and the range of each row's limit in which its dual holds. HiGHS, which is opened at run time, or
 * a function of the caller solves the programme; the solution is then checked. No other part of the
 * library uses this. */
#ifndef PST_PLAN_PLAN_H
#define PST_PLAN_PLAN_H

#include "plan/plan_solve.h"

/* Like struct psti_plan_lp, with arrays that belong to this library and may be changed. */
struct psti_lp {
    uint32_t n_columns, n_rows;
    double *cost, *low, *high;  /* [n_columns] */
    double *row_low, *row_high; /* [n_rows] */
    int32_t *row_begin;         /* [n_rows + 1] */
    int32_t *columns;           /* column of each entry */
    double *entries;
};

/* Solves a programme by the setup's function, or by HiGHS, and checks the solution. After failure
 * the solution is undefined. PST_ERROR_LIMIT: no x satisfies the limits. Any thread. */
enum pst_status psti_plan_lp_solve(const struct psti_lp *lp, const struct psti_plan_setup *setup,
                                   struct psti_plan_lp_solution *solution, struct pst_error *err);

/* Solves a programme with HiGHS. `library`: its path, or NULL as in struct psti_plan_setup. Any
 * thread. */
enum pst_status psti_plan_highs_solve(const struct psti_plan_lp *lp, const char *library,
                                      struct psti_plan_lp_solution *solution,
                                      struct pst_error *err);

#endif
