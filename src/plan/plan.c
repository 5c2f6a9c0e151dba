/* plan.c - psti_plan_solve and psti_plan_need: make linear programmes, have them solved, and read
 * the solutions.
 *
 * A plan is found in steps: first the goal is optimised; then, with the goal held at that value,
 * the fewest stored bytes and the highest samples/s. Prices are the dual values of the first step.
 * No state; calls the solver and allocates memory. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"
#include "plan/plan_model.h"

#include <math.h>

#define ROOM "plan"
/* SLACK: how far later steps may deviate from the goal's optimum. FULL: a capacity counts as fully
 * used if at least this share of it is used. The solver's own tolerance is 1e-7. */
#define SLACK 1e-7
#define FULL (1 - 1e-5)
#define NOTHING 1e-9 /* smaller shares are rounding errors */

static const struct psti_plan_limits as_given = {.form = UINT32_MAX};

/* Arrays for the solution of a linear programme. */
struct memory {
    double *values, *duals, *rows, *down, *down_objective, *up, *up_objective;
};

static void free_memory(struct memory *memory) { psti_free(memory->values); }

static enum pst_status take_memory(struct memory *memory, const struct psti_lp *lp,
                                   struct pst_error *err)
{
    size_t n_rows = (size_t)lp->n_rows + PSTI_PLAN_KEPT_MAX;
    double *at = psti_calloc(lp->n_columns + 6 * n_rows, sizeof *at);
    *memory = (struct memory){.values = at};
    if (!at)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for a result");
    double **const arrays[] = {&memory->duals,          &memory->rows, &memory->down,
                               &memory->down_objective, &memory->up,   &memory->up_objective};
    at += lp->n_columns;
    for (int i = 0; i < 6; i++, at += n_rows)
        *arrays[i] = at;
    return PST_OK;
}

/* Reading a solution
 * ------------------------------------------------------------------------------------------------
 */

/* Reads the share of each way in its class's samples, without rounding errors. */
static void read_shares(const struct psti_plan_model *m, const double *values, double *shares)
{
    const struct psti_plan_setup *s = m->setup;
    double *sums = m->of_class;
    for (uint32_t c = 0; c < s->n_classes; c++)
        sums[c] = 0;
    for (uint32_t i = 0; i < s->n_ways; i++) {
        uint32_t c = psti_plan_way_at(s, i).i_class;
        double share = values[i] * m->n_samples / s->class_samples[c];
        shares[i] = share > NOTHING ? share : 0;
        sums[c] += shares[i];
    }
    for (uint32_t i = 0; i < s->n_ways; i++)
        shares[i] /= sums[psti_plan_way_at(s, i).i_class];
}

/* Returns the demand of resource r per sample, as a mean over all samples. */
static double demand_of(const struct psti_plan_model *m, const double *shares, int r)
{
    double sum = 0;
    for (uint32_t i = 0; i < m->setup->n_ways; i++) {
        struct psti_plan_way way = psti_plan_way_at(m->setup, i);
        sum += shares[i] * m->setup->class_samples[way.i_class] / m->n_samples * way.demands[r];
    }
    return sum;
}

static double stored_of(const struct psti_plan_model *m, const double *shares)
{
    double sum = 0;
    for (uint32_t i = 0; i < m->setup->n_ways; i++) {
        struct psti_plan_way way = psti_plan_way_at(m->setup, i);
        sum += shares[i] * m->setup->class_samples[way.i_class] * way.stored_nbytes;
    }
    return sum;
}

/* Returns the capacity of a resource in the plan: the given one, or, if it can be chosen, the least
 * that allows the solution's rate. */
static double capacity_of(const struct psti_plan_model *m, const double *values, int r,
                          double demand)
{
    double low = m->setup->capacities[r], time = values[m->i_time] * m->time_scale;
    if (m->i_chosen[r] == PSTI_PLAN_NO_ROW)
        return low;
    double most = psti_plan_capacity(m->setup, r);
    return time > 0 ? fmin(fmax(demand / time, low), most) : most;
}

/* Returns the seconds that a sample takes on a resource; the largest of these is the answer's time.
 */
static double seconds_of(const struct psti_plan_model *m, const struct psti_plan_answer *a, int r,
                         double demand, double gpu_demand)
{
    if (r == PSTI_STALL_ACCELERATOR)
        return a->capacities[r] > 0 ? 1 / a->capacities[r] + m->setup->gpu_interference * gpu_demand
                                    : 0;
    return a->capacities[r] > 0 ? demand / a->capacities[r] : 0;
}

static double cost_of(const struct psti_plan_model *m, const struct psti_plan_answer *a)
{
    const struct psti_plan_setup *s = m->setup;
    double price = s->price;
    for (int r = 0; r < PSTI_STALL_N_RESOURCES; r++)
        price += s->unit_prices[r] * fmax(a->capacities[r] - s->capacities[r], 0);
    return price * m->n_samples / a->samples_per_second;
}

/* Fills the answer from the shares, except prices and the single-form plan. */
static enum pst_status read_plan(const struct psti_plan_model *m, const double *values,
                                 const double *shares, struct psti_plan_answer *a,
                                 struct pst_error *err)
{
    double demands[PSTI_STALL_N_RESOURCES], seconds[PSTI_STALL_N_RESOURCES], time = 0;
    for (int r = 0; r < PSTI_STALL_N_RESOURCES; r++) {
        demands[r] = demand_of(m, shares, r);
        a->capacities[r] = capacity_of(m, values, r, demands[r]);
    }
    for (int r = 0; r < PSTI_STALL_CACHE_MEMORY; r++) {
        seconds[r] = seconds_of(m, a, r, demands[r], demands[PSTI_STALL_GPU]);
        time = fmax(time, seconds[r]);
    }
    if (!(time > 0))
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "nothing limits the rate: no demand has a capacity");
    a->samples_per_second = 1 / time;
    for (int r = 0; r < PSTI_STALL_CACHE_MEMORY; r++) {
        a->used[r] = r == PSTI_STALL_ACCELERATOR ? 1 / time : demands[r] / time;
        a->binding |= seconds[r] >= time * FULL ? 1u << r : 0;
    }
    double kept = demands[PSTI_STALL_CACHE_MEMORY] * m->n_samples;
    a->used[PSTI_STALL_CACHE_MEMORY] = kept;
    if (a->capacities[PSTI_STALL_CACHE_MEMORY] > 0 &&
        kept >= a->capacities[PSTI_STALL_CACHE_MEMORY] * FULL)
        a->binding |= 1u << PSTI_STALL_CACHE_MEMORY;
    a->stored_nbytes = stored_of(m, shares);
    a->quota_binds =
        m->quota_row != PSTI_PLAN_NO_ROW && a->stored_nbytes >= m->setup->stored_nbytes * FULL;
    a->cost = cost_of(m, a);
    return PST_OK;
}

/* Prices
 * ------------------------------------------------------------------------------------------------
 */

/* Returns the capacity at the end of a row's range, where the row's limit is `limit` and a sample
 * takes `time` seconds. */
static double end_of_range(const struct psti_plan_model *m, int r, double limit, double time)
{
    double capacity = m->setup->capacities[r];
    if (isinf(limit))
        return limit > 0 && r != PSTI_STALL_ACCELERATOR ? INFINITY : 0;
    if (r == PSTI_STALL_ACCELERATOR)
        return limit > 0 ? 1 / (limit * m->time_scale) : INFINITY;
    if (r == PSTI_STALL_CACHE_MEMORY)
        return fmax(capacity * limit, 0);
    return time > 0 ? fmax(capacity * (1 + limit / time), 0) : INFINITY;
}

/* Returns how much of a resource a plan uses, from the value of the resource's row. With less than
 * that, the resource would limit the rate. */
static double used_of(const struct psti_plan_model *m, int r, double row, double time)
{
    if (r == PSTI_STALL_ACCELERATOR)
        return row > 0 ? 1 / (row * m->time_scale) : INFINITY;
    double part = r == PSTI_STALL_CACHE_MEMORY ? row : time > 0 ? 1 + row / time : 0;
    return m->setup->capacities[r] * fmax(part, 0);
}

/* Reads the dual values and ranges of the first step. Changing the limit of the row "demands /
 * capacity - time <= 0" from 0 to b equals the capacity * (1 + b / time), so one more unit of
 * capacity is b = time / capacity. */
static void read_prices(const struct psti_plan_model *m, const struct psti_plan_lp_solution *result,
                        struct psti_plan_answer *a)
{
    const struct psti_plan_setup *s = m->setup;
    double time = result->values[m->i_time], goal = result->objective;
    for (int r = 0; r < PSTI_STALL_N_RESOURCES; r++) {
        uint32_t row = m->rows[r];
        a->price_high[r] = INFINITY;
        if (row == PSTI_PLAN_NO_ROW || m->i_chosen[r] != PSTI_PLAN_NO_ROW || !(goal > 0))
            continue;
        double capacity = s->capacities[r], dual = result->duals[row], per_unit;
        if (r == PSTI_STALL_ACCELERATOR)
            per_unit = -1 / (capacity * capacity * m->time_scale);
        else if (r == PSTI_STALL_CACHE_MEMORY)
            per_unit = 1 / capacity;
        else
            per_unit = time / capacity;
        a->prices[r] = fmax(-dual * per_unit / goal, 0);
        a->price_low[r] = used_of(m, r, result->rows[row], time);
        if (a->price_low[r] < capacity * FULL)
            continue;
        a->price_low[r] = a->price_high[r] = capacity;
        if (s->goal == PSTI_PLAN_COST && m->lp.n_columns > s->n_ways + 1)
            continue; /* the time of a sample at the ends of the range is unknown */
        double of_time = s->goal == PSTI_PLAN_STORAGE ? 0 : time / goal;
        double ends[] = {end_of_range(m, r, result->down[row],
                                      of_time > 0 ? result->down_objective[row] * of_time : time),
                         end_of_range(m, r, result->up[row],
                                      of_time > 0 ? result->up_objective[row] * of_time : time)};
        a->price_low[r] = fmin(fmin(ends[0], ends[1]), capacity);
        a->price_high[r] = fmax(fmax(ends[0], ends[1]), capacity);
    }
    if (m->quota_row != PSTI_PLAN_NO_ROW && goal > 0)
        a->quota_price = fmax(-result->duals[m->quota_row] / s->stored_nbytes / goal, 0);
}

/* Solving
 * ------------------------------------------------------------------------------------------------
 */

/* Optimises the goal, and then, with the goal held, the stored bytes and the rate. */
static enum pst_status solve_steps(struct psti_plan_model *m, struct memory *memory, double *shares,
                                   struct psti_plan_answer *a, struct pst_error *err)
{
    static const int aims[][PSTI_PLAN_KEPT_MAX + 1] = {
        [PSTI_PLAN_RATE] = {PSTI_PLAN_RATE, PSTI_PLAN_STORAGE, -1},
        [PSTI_PLAN_STORAGE] = {PSTI_PLAN_STORAGE, PSTI_PLAN_RATE, -1},
        [PSTI_PLAN_COST] = {PSTI_PLAN_COST, PSTI_PLAN_STORAGE, PSTI_PLAN_RATE}};
    const int *aim = aims[m->setup->goal];
    struct psti_plan_lp_solution result = {.values = memory->values,
                                           .duals = memory->duals,
                                           .rows = memory->rows,
                                           .down = memory->down,
                                           .down_objective = memory->down_objective,
                                           .up = memory->up,
                                           .up_objective = memory->up_objective};
    for (int step = 0; step <= PSTI_PLAN_KEPT_MAX && aim[step] >= 0; step++) {
        if (step > 0)
            psti_plan_model_keep_objective(m, result.objective +
                                                  SLACK * fmax(result.objective, SLACK));
        psti_plan_model_aim(m, (enum psti_plan_goal)aim[step]);
        enum pst_status status = psti_plan_lp_solve(&m->lp, m->setup, &result, err);
        if (status != PST_OK)
            return status;
        if (step == 0)
            read_prices(m, &result, a);
        result.up = NULL;
    }
    read_shares(m, result.values, shares);
    return read_plan(m, result.values, shares, a, err);
}

static enum pst_status solve(const struct psti_plan_setup *setup,
                             const struct psti_plan_limits *limits, double *shares,
                             struct psti_plan_answer *a, struct pst_error *err)
{
    struct psti_plan_model model;
    struct memory memory = {0};
    *a = (struct psti_plan_answer){0};
    enum pst_status status = psti_plan_model_open(&model, setup, limits, err);
    if (status != PST_OK)
        return status;
    status = take_memory(&memory, &model.lp, err);
    if (status == PST_OK)
        status = solve_steps(&model, &memory, shares, a, err);
    free_memory(&memory);
    psti_plan_model_close(&model);
    return status;
}

/* Returns the name of the first resource that limits the rate. */
static const char *limiting(const struct psti_plan_answer *a)
{
    for (uint32_t r = PSTI_STALL_N_RESOURCES; r-- > 0;)
        if (a->binding >> r & 1 && r != PSTI_STALL_CACHE_MEMORY)
            return psti_stall_resource_name(r);
    return "nothing";
}

/* If one limit alone prevents a plan, names it in the error. */
static enum pst_status explain(const struct psti_plan_setup *setup, double *shares,
                               struct pst_error *err)
{
    const struct {
        struct psti_plan_limits limits;
        const char *what;
    } tries[] = {
        {{.form = UINT32_MAX, .no_quota = true}, "the bytes on storage that are allowed"},
        {{.form = UINT32_MAX, .no_least_rate = true}, "the rate that must be reached"},
        {{.form = UINT32_MAX, .no_limit = 1u << PSTI_STALL_CACHE_MEMORY}, "the cache's memory"},
    };
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        struct psti_plan_answer answer;
        enum pst_status status = solve(setup, &tries[i].limits, shares, &answer, err);
        if (status != PST_OK && status != PST_ERROR_LIMIT)
            return status;
        if (status == PST_OK)
            return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                             "no plan keeps within the limits: without that of %s there is one "
                             "(%.4g samples/s, limited by %s; %.4g bytes stored)",
                             tries[i].what, answer.samples_per_second, limiting(&answer),
                             answer.stored_nbytes);
    }
    return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                     "no plan keeps within the limits of rate, bytes on storage and cache");
}

static bool is_better(enum psti_plan_goal goal, const struct psti_plan_answer *a,
                      const struct psti_plan_answer *b)
{
    double goals[][2] = {{b->samples_per_second, a->samples_per_second},
                         {a->stored_nbytes, b->stored_nbytes},
                         {a->cost, b->cost}};
    if (fabs(goals[goal][0] - goals[goal][1]) > SLACK * goals[goal][1])
        return goals[goal][0] < goals[goal][1];
    return goal == PSTI_PLAN_STORAGE ? a->samples_per_second > b->samples_per_second
                                     : a->stored_nbytes < b->stored_nbytes;
}

/* Finds the best plan that stores one form only, by trying each form. */
static enum pst_status find_single(const struct psti_plan_setup *setup, double *shares,
                                   struct psti_plan_answer *best, struct pst_error *err)
{
    uint64_t forms = 0;
    struct psti_plan_answer single = {0};
    for (uint32_t i = 0; i < setup->n_ways; i++)
        forms |= (uint64_t)1 << psti_plan_way_at(setup, i).form;
    for (uint32_t form = 0; form < PSTI_PLAN_FORMS_MAX; form++) {
        struct psti_plan_answer answer;
        const struct psti_plan_limits limits = {.form = form};
        if (!(forms >> form & 1))
            continue;
        enum pst_status status = solve(setup, &limits, shares, &answer, err);
        if (status == PST_ERROR_LIMIT)
            continue;
        if (status != PST_OK)
            return status;
        if (best->has_single && !is_better(setup->goal, &answer, &single))
            continue;
        single = answer;
        best->has_single = true;
        best->single_form = form;
    }
    best->single_samples_per_second = single.samples_per_second;
    best->single_stored_nbytes = single.stored_nbytes;
    best->single_cost = single.cost;
    return PST_OK;
}

enum pst_status psti_plan_solve(const struct psti_plan_setup *setup, double *shares,
                                struct psti_plan_answer *answer, size_t answer_nbytes,
                                struct pst_error *err)
{
    struct psti_plan_setup s;
    struct psti_plan_answer a = {0};
    enum pst_status status = psti_plan_setup_read(setup, &s, err);
    if (status != PST_OK)
        return status;
    double *found = psti_calloc(2 * (size_t)s.n_ways, sizeof *found);
    if (!found)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for %u shares", s.n_ways);
    status = solve(&s, &as_given, found, &a, err);
    if (status == PST_ERROR_LIMIT)
        status = explain(&s, found, err);
    if (status == PST_OK)
        status = find_single(&s, found + s.n_ways, &a, err);
    if (status == PST_OK) {
        for (uint32_t i = 0; i < s.n_ways; i++)
            shares[i] = found[i];
        psti_struct_write(answer, answer_nbytes, &a, sizeof a);
    }
    psti_free(found);
    return status;
}

static bool has_form(const struct psti_plan_setup *setup, uint32_t form)
{
    for (uint32_t i = 0; i < setup->n_ways; i++)
        if (psti_plan_way_at(setup, i).form == form)
            return true;
    return false;
}

enum pst_status psti_plan_need(const struct psti_plan_setup *setup, uint32_t form,
                               enum psti_stall_resource resource, double rate, double *out,
                               struct pst_error *err)
{
    struct psti_plan_setup s;
    struct psti_plan_model model;
    struct memory memory = {0};
    enum pst_status status = psti_plan_setup_read(setup, &s, err);
    if (status != PST_OK)
        return status;
    if ((unsigned)resource >= PSTI_STALL_N_RESOURCES || resource == PSTI_STALL_ACCELERATOR)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "there is no resource %d to ask for",
                         (int)resource);
    if (form != UINT32_MAX && !has_form(&s, form))
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "no way has form %u", form);
    if (!isfinite(rate) || rate <= 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "rate is %g: more than 0 is expected",
                         rate);
    const struct psti_plan_limits limits = {.form = form, .no_limit = 1u << resource, .rate = rate};
    status = psti_plan_model_open(&model, &s, &limits, err);
    if (status != PST_OK)
        return status;
    status = take_memory(&memory, &model.lp, err);
    struct psti_plan_lp_solution result = {
        .values = memory.values, .duals = memory.duals, .rows = memory.rows};
    psti_plan_model_aim_at_demand(&model, resource);
    if (status == PST_OK)
        status = psti_plan_lp_solve(&model.lp, &s, &result, err);
    if (status == PST_ERROR_LIMIT)
        status = psti_fail(err, PST_ERROR_LIMIT, ROOM,
                           "no amount of %s gives %.4g samples/s: another limit is in the way",
                           psti_stall_resource_name((uint32_t)resource), rate);
    if (status == PST_OK) {
        double demand = 0;
        for (uint32_t i = 0; i < s.n_ways; i++)
            demand += memory.values[i] * psti_plan_way_at(&s, i).demands[resource];
        *out = demand * (resource == PSTI_STALL_CACHE_MEMORY ? model.n_samples : rate);
    }
    free_memory(&memory);
    psti_plan_model_close(&model);
    return status;
}
