/* plan_model.h - a setup as a linear programme. Its columns are: for each way, the share of all
 * samples that use it; the time of a sample; and for each resource that can be chosen, its capacity
 * times that time. All are scaled to be near 1, because the solver's tolerances are absolute.
 * docs/internals/plan-model.md has the formulas. */
#ifndef PST_PLAN_PLAN_MODEL_H
#define PST_PLAN_PLAN_MODEL_H

#include "plan/plan.h"

#define PSTI_PLAN_NO_ROW UINT32_MAX

/* Limits of a linear programme in addition to those of the setup's resources. */
struct psti_plan_limits {
    uint32_t form;     /* use ways with this form in classes that have one; UINT32_MAX: all */
    uint32_t no_limit; /* bit r: resource r has no limit */
    bool no_quota, no_least_rate;
    double rate; /* above 0: the rate must be exactly this */
};

struct psti_plan_model {
    const struct psti_plan_setup *setup;
    double n_samples;    /* number of samples of all classes together */
    double time_scale;   /* seconds in one unit of the time column */
    double stored_scale; /* stored bytes of a sample in one unit */
    double cost_scale;   /* cost of a sample in one unit */
    uint32_t i_time;
    uint32_t i_chosen[PSTI_STALL_RESOURCES_MAX]; /* columns of capacities to choose, or NO_ROW */
    uint32_t rows[PSTI_STALL_RESOURCES_MAX];     /* rows of resources' limits, or NO_ROW */
    uint32_t quota_row;
    struct psti_lp lp;
    uint32_t n_entries;
    double *of_class; /* [n_classes] scratch */
};

/* Checks a setup of the caller and sets defaults in a copy. */
enum pst_status psti_plan_setup_read(const struct psti_plan_setup *given,
                                     struct psti_plan_setup *full, struct pst_error *err);

/* Returns way i of a checked setup. The caller's struct may be shorter than this version's. */
struct psti_plan_way psti_plan_way_at(const struct psti_plan_setup *setup, uint32_t i);

/* Builds the linear programme, with an objective of 0 until psti_plan_model_aim sets one. */
enum pst_status psti_plan_model_open(struct psti_plan_model *model,
                                     const struct psti_plan_setup *setup,
                                     const struct psti_plan_limits *limits, struct pst_error *err);
void psti_plan_model_close(struct psti_plan_model *model);

/* Sets the objective: a goal, the stored bytes, or the demand of a resource. */
void psti_plan_model_aim(struct psti_plan_model *model, enum psti_plan_goal goal);
void psti_plan_model_aim_at_demand(struct psti_plan_model *model, enum psti_stall_resource r);

/* Adds the row "objective <= most", so that another objective can be set. At most twice for a
 * model. */
enum { PSTI_PLAN_KEPT_MAX = 2 };
void psti_plan_model_keep_objective(struct psti_plan_model *model, double most);

/* Returns the usable capacity of a resource; 0: no limit. */
double psti_plan_capacity(const struct psti_plan_setup *setup, int r);

#endif
