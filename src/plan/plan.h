/* plan.h - linear programmes, and the library that solves them.
 *
 * In: a programme in plain arrays. Out: values, duals, and how far a row's bound may move while
 * they hold. The library is HiGHS, opened at run time; no other room knows it. */
#ifndef PST_PLAN_PLAN_H
#define PST_PLAN_PLAN_H

#include <penstock/plan.h>

/* Minimises cost * x subject to row_low <= matrix * x <= row_high and low <= x <= high. The matrix
 * is stored row by row: entries row_begin[r] up to row_begin[r + 1] are those of row r, and
 * row_begin[n_rows] is their number. Limits may be infinite. */
struct psti_lp {
    uint32_t n_columns, n_rows;
    double *cost, *low, *high;  /* [n_columns] */
    double *row_low, *row_high; /* [n_rows] */
    int32_t *row_begin;         /* [n_rows + 1] */
    int32_t *columns;           /* of the entries */
    double *entries;
};

/* Result of a programme. The arrays are the caller's; those of ranging may be NULL. */
struct psti_lp_result {
    double *values; /* [n_columns] */
    double *duals;  /* [n_rows] change of the objective for one more unit of the row's limit */
    double *rows;   /* [n_rows] matrix * x */
    double objective;
    /* [n_rows] the limit's values down to and up to which the duals hold, and the objective there.
     */
    double *down, *down_objective, *up, *up_objective;
};

/* Solves a programme. `library`: path, or NULL as in struct pst_plan_setup. PST_ERROR_LIMIT: no x
 * satisfies it. Any thread. */
enum pst_status psti_plan_lp_solve(const struct psti_lp *lp, const char *library,
                                   struct psti_lp_result *result, struct pst_error *err);

#endif
