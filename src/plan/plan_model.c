/* plan_model.c - checks a setup and makes a linear programme of it. No state; allocates memory. */
#include "plan/plan_model.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"

#include <math.h>
#include <string.h>

#define ROOM "plan"

double psti_plan_capacity(const struct psti_plan_setup *setup, int r)
{
    return fmax(setup->capacities[r], setup->capacities_most[r]);
}

static bool can_be_chosen(const struct psti_plan_setup *setup, int r)
{
    return setup->capacities_most[r] > setup->capacities[r];
}

struct psti_plan_way psti_plan_way_at(const struct psti_plan_setup *setup, uint32_t i)
{
    struct psti_plan_way way = {0};
    size_t nbytes = setup->way_nbytes < sizeof way ? setup->way_nbytes : sizeof way;
    memcpy(&way, (const char *)setup->ways + (size_t)i * setup->way_nbytes, nbytes);
    return way;
}

/* Setup
 * ------------------------------------------------------------------------------------------------
 */

static bool is_good(double value) { return isfinite(value) && value >= 0; }

static enum pst_status check_way(const struct psti_plan_setup *s, uint32_t i, struct pst_error *err)
{
    struct psti_plan_way way;
    enum pst_status status =
        psti_struct_read(&way, sizeof way, (const char *)s->ways + (size_t)i * s->way_nbytes,
                         s->way_nbytes, "struct psti_plan_way", ROOM, err);
    if (status != PST_OK)
        return status;
    if (way.i_class >= s->n_classes)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "way %u: there is no class %u", i,
                         way.i_class);
    if (way.form >= PSTI_PLAN_FORMS_MAX)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "way %u: form %u is not below %d", i,
                         way.form, PSTI_PLAN_FORMS_MAX);
    if (!is_good(way.stored_nbytes))
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "way %u: stored_nbytes is %g: 0 or more is expected", i,
                         way.stored_nbytes);
    for (int r = 0; r < PSTI_STALL_N_RESOURCES; r++)
        if (!is_good(way.demands[r]))
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                             "way %u: its demand of %s is %g: 0 or more is expected", i,
                             psti_stall_resource_name((uint32_t)r), way.demands[r]);
    return PST_OK;
}

static enum pst_status check_resources(const struct psti_plan_setup *s, struct pst_error *err)
{
    const double *const arrays[] = {s->capacities, s->capacities_most, s->unit_prices};
    static const char *const names[] = {"capacities", "capacities_most", "unit_prices"};
    for (int a = 0; a < 3; a++)
        for (int r = 0; r < PSTI_STALL_N_RESOURCES; r++)
            if (!is_good(arrays[a][r]))
                return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                                 "%s of %s is %g: 0 or more is expected", names[a],
                                 psti_stall_resource_name((uint32_t)r), arrays[a][r]);
    if (s->capacities_most[PSTI_STALL_ACCELERATOR] > 0 ||
        s->capacities_most[PSTI_STALL_CACHE_MEMORY] > 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "accelerators and the cache's memory cannot be chosen by the solver");
    const double numbers[] = {s->price, s->stored_nbytes, s->least_rate, s->gpu_interference};
    static const char *const of_numbers[] = {"price", "stored_nbytes", "least_rate",
                                             "gpu_interference"};
    for (int i = 0; i < 4; i++)
        if (!is_good(numbers[i]))
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "%s is %g: 0 or more is expected",
                             of_numbers[i], numbers[i]);
    bool has_price = s->price > 0;
    for (int r = 0; r < PSTI_STALL_N_RESOURCES; r++)
        has_price |= can_be_chosen(s, r) && s->unit_prices[r] > 0;
    if (s->goal == PSTI_PLAN_COST && !has_price)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "the cost is the goal, but nothing has a price");
    return s->gpu_interference > 1
               ? psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "gpu_interference is 0 to 1, not %g",
                           s->gpu_interference)
               : PST_OK;
}

/* Checks that each class has samples and a way that may be used. */
static enum pst_status check_classes(const struct psti_plan_setup *s, struct pst_error *err)
{
    enum { ANY = 1, ALLOWED = 2 };
    unsigned char has[PSTI_PLAN_CLASSES_MAX] = {0};
    for (uint32_t i = 0; i < s->n_ways; i++) {
        struct psti_plan_way way = psti_plan_way_at(s, i);
        has[way.i_class] |= s->allow_lossy || !way.is_lossy ? ANY | ALLOWED : ANY;
    }
    for (uint32_t c = 0; c < s->n_classes; c++) {
        if (!isfinite(s->class_samples[c]) || s->class_samples[c] <= 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                             "class %u has %g samples: more than 0 are expected", c,
                             s->class_samples[c]);
        if (!(has[c] & ANY))
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "class %u has no way", c);
        if (!(has[c] & ALLOWED))
            return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                             "all ways of class %u change its pixels, which is not allowed", c);
    }
    return PST_OK;
}

enum pst_status psti_plan_setup_read(const struct psti_plan_setup *given,
                                     struct psti_plan_setup *full, struct pst_error *err)
{
    enum pst_status status = psti_options_copy(full, sizeof *full, given, ROOM, err);
    if (status != PST_OK)
        return status;
    if ((unsigned)full->goal > PSTI_PLAN_COST)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "there is no goal %d", full->goal);
    if (full->n_classes == 0 || full->n_classes > PSTI_PLAN_CLASSES_MAX || full->n_ways == 0 ||
        full->n_ways > PSTI_PLAN_WAYS_MAX || !full->class_samples || !full->ways)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "1 to %d classes and 1 to %d ways are expected, not %u and %u",
                         PSTI_PLAN_CLASSES_MAX, PSTI_PLAN_WAYS_MAX, full->n_classes, full->n_ways);
    for (uint32_t i = 0; i < full->n_ways && status == PST_OK; i++)
        status = check_way(full, i, err);
    if (status == PST_OK)
        status = check_resources(full, err);
    return status == PST_OK ? check_classes(full, err) : status;
}

/* Scales
 * ------------------------------------------------------------------------------------------------
 */

/* Returns the seconds of one sample on its slowest resource. */
static double slowest(const struct psti_plan_setup *s, const struct psti_plan_way *way)
{
    double most = 0;
    for (int r = 1; r < PSTI_STALL_CACHE_MEMORY; r++)
        if (psti_plan_capacity(s, r) > 0)
            most = fmax(most, way->demands[r] / psti_plan_capacity(s, r));
    return most;
}

/* Returns the mean over samples of the least time, or the fewest stored bytes, of any way of their
 * class, which is near the optimum. Let s be this mean of the times on the slowest of R resources.
 * Taking the best way for each class alone needs a time of at most s. No mix needs less than s / R,
 * because the mean over resources is at least 1 / R of the slowest. Budgets can only increase it.
 */
static double least_mean(const struct psti_plan_model *m, bool of_time)
{
    const struct psti_plan_setup *s = m->setup;
    double sum = 0, most = 0;
    for (uint32_t c = 0; c < s->n_classes; c++)
        m->of_class[c] = INFINITY;
    for (uint32_t i = 0; i < s->n_ways; i++) {
        struct psti_plan_way way = psti_plan_way_at(s, i);
        double value = of_time ? slowest(s, &way) : way.stored_nbytes;
        if (way.is_lossy && !s->allow_lossy)
            continue;
        m->of_class[way.i_class] = fmin(m->of_class[way.i_class], value);
        most = fmax(most, value);
    }
    for (uint32_t c = 0; c < s->n_classes; c++)
        sum += m->of_class[c] * s->class_samples[c] / m->n_samples;
    return sum > 0 ? sum : most;
}

static void set_scales(struct psti_plan_model *m)
{
    const struct psti_plan_setup *s = m->setup;
    double unit = s->price;
    m->time_scale = least_mean(m, true);
    m->stored_scale = least_mean(m, false);
    if (s->capacities[PSTI_STALL_ACCELERATOR] > 0)
        m->time_scale = fmax(m->time_scale, 1 / s->capacities[PSTI_STALL_ACCELERATOR]);
    if (!(m->time_scale > 0))
        m->time_scale = 1;
    if (!(m->stored_scale > 0))
        m->stored_scale = 1;
    for (int r = 0; r < PSTI_STALL_N_RESOURCES; r++)
        if (can_be_chosen(s, r))
            unit += s->unit_prices[r] * psti_plan_capacity(s, r);
    m->cost_scale = unit > 0 ? unit * m->time_scale : 1;
}

/* Rows
 * ------------------------------------------------------------------------------------------------
 */

static void add(struct psti_plan_model *m, uint32_t column, double value)
{
    if (value == 0)
        return;
    m->lp.columns[m->n_entries] = (int32_t)column;
    m->lp.entries[m->n_entries++] = value;
}

/* Ends the row whose entries were just added. Returns the row's number. */
static uint32_t end_row(struct psti_plan_model *m, double low, double high)
{
    uint32_t row = m->lp.n_rows++;
    m->lp.row_low[row] = low;
    m->lp.row_high[row] = high;
    m->lp.row_begin[row + 1] = (int32_t)m->n_entries;
    return row;
}

/* Adds the first rows: row c has a 1 for each way of class c. */
static void add_classes(struct psti_plan_model *m)
{
    const struct psti_plan_setup *s = m->setup;
    int32_t *end = m->lp.row_begin + 1; /* at first the number of ways of each class, then the index
                                         * of its next entry */
    for (uint32_t i = 0; i < s->n_ways; i++)
        end[psti_plan_way_at(s, i).i_class]++;
    int32_t before = 0;
    for (uint32_t c = 0; c < s->n_classes; c++) {
        int32_t n = end[c];
        end[c] = before;
        before += n;
        m->lp.row_low[c] = m->lp.row_high[c] = s->class_samples[c] / m->n_samples;
    }
    for (uint32_t i = 0; i < s->n_ways; i++) {
        int32_t place = end[psti_plan_way_at(s, i).i_class]++;
        m->lp.columns[place] = (int32_t)i;
        m->lp.entries[place] = 1;
    }
    m->lp.n_rows = s->n_classes;
    m->n_entries = s->n_ways;
}

/* Adds the row demands / capacity - time <= 0. If the capacity can be chosen between low and high,
 * adds demands - chosen <= 0 and low * time <= chosen <= high * time. */
static void add_resource(struct psti_plan_model *m, int r)
{
    const struct psti_plan_setup *s = m->setup;
    double most = psti_plan_capacity(s, r);
    for (uint32_t i = 0; i < s->n_ways; i++)
        add(m, i, psti_plan_way_at(s, i).demands[r] / (most * m->time_scale));
    if (!can_be_chosen(s, r)) {
        add(m, m->i_time, -1);
        m->rows[r] = end_row(m, -INFINITY, 0);
        return;
    }
    uint32_t chosen = m->i_chosen[r];
    add(m, chosen, -1);
    m->rows[r] = end_row(m, -INFINITY, 0);
    add(m, m->i_time, -s->capacities[r] / most);
    add(m, chosen, 1);
    end_row(m, 0, INFINITY);
    add(m, m->i_time, -1);
    add(m, chosen, 1);
    end_row(m, -INFINITY, 0);
}

/* Adds the row time - interference * GPU-seconds >= 1 / rate of the accelerators. */
static void add_accelerator(struct psti_plan_model *m)
{
    const struct psti_plan_setup *s = m->setup;
    for (uint32_t i = 0; i < s->n_ways; i++)
        add(m, i,
            -s->gpu_interference * psti_plan_way_at(s, i).demands[PSTI_STALL_GPU] / m->time_scale);
    add(m, m->i_time, 1);
    m->rows[PSTI_STALL_ACCELERATOR] =
        end_row(m, 1 / (s->capacities[PSTI_STALL_ACCELERATOR] * m->time_scale), INFINITY);
}

static void add_budgets(struct psti_plan_model *m, const struct psti_plan_limits *limits)
{
    const struct psti_plan_setup *s = m->setup;
    double memory = s->capacities[PSTI_STALL_CACHE_MEMORY];
    if (memory > 0 && !(limits->no_limit & (1u << PSTI_STALL_CACHE_MEMORY))) {
        for (uint32_t i = 0; i < s->n_ways; i++)
            add(m, i,
                m->n_samples * psti_plan_way_at(s, i).demands[PSTI_STALL_CACHE_MEMORY] / memory);
        m->rows[PSTI_STALL_CACHE_MEMORY] = end_row(m, -INFINITY, 1);
    }
    if (s->stored_nbytes > 0 && !limits->no_quota) {
        for (uint32_t i = 0; i < s->n_ways; i++)
            add(m, i, m->n_samples * psti_plan_way_at(s, i).stored_nbytes / s->stored_nbytes);
        m->quota_row = end_row(m, -INFINITY, 1);
    }
}

/* Columns
 * ------------------------------------------------------------------------------------------------
 */

static void set_columns(struct psti_plan_model *m, const struct psti_plan_limits *limits)
{
    const struct psti_plan_setup *s = m->setup;
    for (uint32_t i = 0; i < m->lp.n_columns; i++) {
        m->lp.low[i] = 0;
        m->lp.high[i] = INFINITY;
    }
    for (uint32_t c = 0; c < s->n_classes; c++)
        m->of_class[c] = 0; /* set to 1 if the class has a way with the form */
    for (uint32_t i = 0; i < s->n_ways; i++) {
        struct psti_plan_way way = psti_plan_way_at(s, i);
        if (way.form == limits->form && (s->allow_lossy || !way.is_lossy))
            m->of_class[way.i_class] = 1;
    }
    for (uint32_t i = 0; i < s->n_ways; i++) {
        struct psti_plan_way way = psti_plan_way_at(s, i);
        bool other = m->of_class[way.i_class] > 0 && way.form != limits->form;
        m->lp.high[i] = other || (way.is_lossy && !s->allow_lossy) ? 0 : 1;
    }
    if (limits->rate > 0)
        m->lp.low[m->i_time] = m->lp.high[m->i_time] = 1 / (limits->rate * m->time_scale);
    else if (s->least_rate > 0 && !limits->no_least_rate)
        m->lp.high[m->i_time] = 1 / (s->least_rate * m->time_scale);
}

static enum pst_status allocate(struct psti_plan_model *m, struct pst_error *err)
{
    struct psti_lp *lp = &m->lp;
    size_t n_columns = lp->n_columns,
           n_rows = m->setup->n_classes + 3 * PSTI_STALL_RESOURCES_MAX + 4,
           n_entries = (size_t)m->setup->n_ways * (PSTI_STALL_RESOURCES_MAX + 5) + 4 * n_rows;
    m->of_class = psti_calloc(m->setup->n_classes, sizeof *m->of_class);
    lp->cost = psti_calloc(n_columns, sizeof *lp->cost);
    lp->low = psti_calloc(n_columns, sizeof *lp->low);
    lp->high = psti_calloc(n_columns, sizeof *lp->high);
    lp->row_low = psti_calloc(n_rows, sizeof *lp->row_low);
    lp->row_high = psti_calloc(n_rows, sizeof *lp->row_high);
    lp->row_begin = psti_calloc(n_rows + 1, sizeof *lp->row_begin);
    lp->columns = psti_calloc(n_entries, sizeof *lp->columns);
    lp->entries = psti_calloc(n_entries, sizeof *lp->entries);
    if (m->of_class && lp->cost && lp->low && lp->high && lp->row_low && lp->row_high &&
        lp->row_begin && lp->columns && lp->entries)
        return PST_OK;
    psti_plan_model_close(m);
    return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for a programme of %zu columns",
                     n_columns);
}

enum pst_status psti_plan_model_open(struct psti_plan_model *model,
                                     const struct psti_plan_setup *setup,
                                     const struct psti_plan_limits *limits, struct pst_error *err)
{
    struct psti_plan_model *m = model;
    *m = (struct psti_plan_model){.setup = setup,
                                  .i_time = setup->n_ways,
                                  .quota_row = PSTI_PLAN_NO_ROW,
                                  .lp = {.n_columns = setup->n_ways + 1}};
    for (uint32_t c = 0; c < setup->n_classes; c++)
        m->n_samples += setup->class_samples[c];
    for (int r = 0; r < PSTI_STALL_RESOURCES_MAX; r++) {
        m->rows[r] = PSTI_PLAN_NO_ROW;
        m->i_chosen[r] = can_be_chosen(setup, r) ? m->lp.n_columns++ : PSTI_PLAN_NO_ROW;
    }
    enum pst_status status = allocate(m, err);
    if (status != PST_OK)
        return status;
    set_scales(m);
    set_columns(m, limits);
    add_classes(m);
    for (int r = 1; r < PSTI_STALL_CACHE_MEMORY; r++)
        if (psti_plan_capacity(setup, r) > 0 && !(limits->no_limit & (1u << r)))
            add_resource(m, r);
    if (setup->capacities[PSTI_STALL_ACCELERATOR] > 0)
        add_accelerator(m);
    add_budgets(m, limits);
    return PST_OK;
}

void psti_plan_model_close(struct psti_plan_model *model)
{
    struct psti_lp *lp = &model->lp;
    psti_free(lp->cost);
    psti_free(lp->low);
    psti_free(lp->high);
    psti_free(lp->row_low);
    psti_free(lp->row_high);
    psti_free(lp->row_begin);
    psti_free(lp->columns);
    psti_free(lp->entries);
    psti_free(model->of_class);
    *lp = (struct psti_lp){0};
    model->of_class = NULL;
}

/* Objectives
 * ------------------------------------------------------------------------------------------------
 */

static void clear(struct psti_plan_model *m)
{
    memset(m->lp.cost, 0, m->lp.n_columns * sizeof *m->lp.cost);
}

void psti_plan_model_aim(struct psti_plan_model *model, enum psti_plan_goal goal)
{
    struct psti_plan_model *m = model;
    const struct psti_plan_setup *s = m->setup;
    clear(m);
    if (goal == PSTI_PLAN_RATE)
        m->lp.cost[m->i_time] = 1;
    for (uint32_t i = 0; i < s->n_ways && goal == PSTI_PLAN_STORAGE; i++)
        m->lp.cost[i] = psti_plan_way_at(s, i).stored_nbytes / m->stored_scale;
    if (goal != PSTI_PLAN_COST)
        return;
    double of_time = s->price * m->time_scale;
    for (int r = 0; r < PSTI_STALL_N_RESOURCES; r++) {
        double price = s->unit_prices[r] * m->time_scale;
        if (!can_be_chosen(s, r))
            continue;
        m->lp.cost[m->i_chosen[r]] = price * psti_plan_capacity(s, r) / m->cost_scale;
        of_time -= price * s->capacities[r];
    }
    m->lp.cost[m->i_time] = of_time / m->cost_scale;
}

void psti_plan_model_aim_at_demand(struct psti_plan_model *model, enum psti_stall_resource r)
{
    const struct psti_plan_setup *s = model->setup;
    double scale = 0;
    clear(model);
    for (uint32_t i = 0; i < s->n_ways; i++)
        scale = fmax(scale, psti_plan_way_at(s, i).demands[r]);
    for (uint32_t i = 0; i < s->n_ways && scale > 0; i++)
        model->lp.cost[i] = psti_plan_way_at(s, i).demands[r] / scale;
}

void psti_plan_model_keep_objective(struct psti_plan_model *model, double most)
{
    double scale = most > 0 ? most : 1; /* divides the row, to keep its numbers near 1 */
    for (uint32_t i = 0; i < model->lp.n_columns; i++)
        add(model, i, model->lp.cost[i] / scale);
    end_row(model, -INFINITY, most / scale);
}
