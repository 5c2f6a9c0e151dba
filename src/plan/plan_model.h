/* plan_model.h - a setup as a linear programme.
 *
 * Columns: for each way the part of all samples that goes it; the time of a sample; and for each
 * resource that can be chosen its capacity times that time. All are scaled to be near 1, because
 * the solver's tolerances are absolute. docs/internals/plan-model.md has the formulas. */
#ifndef PST_PLAN_PLAN_MODEL_H
#define PST_PLAN_PLAN_MODEL_H

#include "plan/plan.h"

#define PSTI_PLAN_NO_ROW UINT32_MAX

/* Which limits a programme has, beside those of the setup's resources. */
struct psti_plan_limits {
    uint32_t form;     /* only ways with this form, where a class has one; UINT32_MAX: all */
    uint32_t no_limit; /* bit r: resource r is without limit */
    bool no_quota, no_least_rate;
    double rate; /* above 0: exactly this rate */
};

struct psti_plan_model {
    const struct psti_plan_setup *setup;
    double n_samples;    /* of all classes */
    double time_scale;   /* seconds in one unit of the variable of time */
    double stored_scale; /* bytes of a sample that count as 1 */
    double cost_scale;   /* cost of a sample that counts as 1 */
    uint32_t i_time;
    uint32_t i_chosen[PSTI_STALL_RESOURCES_MAX]; /* columns of chosen capacities, or NO_ROW */
    uint32_t rows[PSTI_STALL_RESOURCES_MAX];     /* of limits, or NO_ROW */
    uint32_t quota_row;
    struct psti_lp lp;
    uint32_t n_entries;
    double *of_class; /* [n_classes] scratch */
};

/* Checks a setup of the caller and completes it. */
enum pst_status psti_plan_setup_read(const struct psti_plan_setup *given,
                                     struct psti_plan_setup *full, struct pst_error *err);

/* Way i of a setup that was read; it may be shorter than today's struct. */
struct psti_plan_way psti_plan_way_at(const struct psti_plan_setup *setup, uint32_t i);

/* Makes the programme. Its objective is all zero. */
enum pst_status psti_plan_model_open(struct psti_plan_model *model,
                                     const struct psti_plan_setup *setup,
                                     const struct psti_plan_limits *limits, struct pst_error *err);
void psti_plan_model_close(struct psti_plan_model *model);

/* Sets the objective of a goal, of the stored bytes, or of the demand of a resource. */
void psti_plan_model_aim(struct psti_plan_model *model, enum psti_plan_goal goal);
void psti_plan_model_aim_at_demand(struct psti_plan_model *model, enum psti_stall_resource r);

/* Adds the row "objective <= most"; afterwards another objective can be set. Twice for a model. */
enum { PSTI_PLAN_KEPT_MAX = 2 };
void psti_plan_model_keep_objective(struct psti_plan_model *model, double most);

/* Returns how much of a resource can be used; 0: it has no limit. */
double psti_plan_capacity(const struct psti_plan_setup *setup, int r);

#endif
