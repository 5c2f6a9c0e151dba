/* stall_model_need.c - computes how much of one resource is enough, so that the accelerator becomes
 * the limit. A larger capacity never lowers the rate, so bisection finds the least amount that is
 * enough. Pure; any thread. */
#include "stall/stall_model.h"

#include "base/fail.h"

#include <math.h>
#include <stdbool.h>

#define ROOM "stall"
/* Largest amount to try: far beyond any machine. */
#define MOST 1e15

static void set(struct psti_stall_setup *s, enum psti_stall_resource resource, double value)
{
    switch (resource) {
    case PSTI_STALL_CORES:
        s->cores = value;
        break;
    case PSTI_STALL_WORKERS:
        s->workers = value;
        break;
    case PSTI_STALL_STORAGE:
        s->storage_nbytes_per_second = value;
        break;
    case PSTI_STALL_READS:
        s->reads_per_second = value;
        break;
    case PSTI_STALL_NETWORK:
        s->network_nbytes_per_second = value;
        break;
    case PSTI_STALL_LINK:
        s->link_nbytes_per_second = value;
        break;
    case PSTI_STALL_GPU:
        s->gpu_free = value;
        break;
    case PSTI_STALL_COPYING:
        s->copy_nbytes_per_second = value;
        break;
    default:
        s->cache_nbytes = value;
    }
}

/* Returns the least amount to try. It is not 0 for resources where 0 means "no limit". */
static double least_of(enum psti_stall_resource resource)
{
    return resource == PSTI_STALL_CACHE_MEMORY ? 0 : resource == PSTI_STALL_WORKERS ? 1 : 1e-6;
}

static double most_of(const struct psti_stall_setup *s, enum psti_stall_resource resource)
{
    switch (resource) {
    case PSTI_STALL_CACHE_MEMORY:
        return s->dataset_nbytes * s->ranks * s->jobs;
    case PSTI_STALL_GPU:
        return 1;
    case PSTI_STALL_WORKERS:
        return 100000;
    default:
        return MOST;
    }
}

static double rate_with(const struct psti_stall_setup *s, enum psti_stall_resource resource,
                        double value, struct psti_stall_answer *answer)
{
    struct psti_stall_setup changed = *s;
    set(&changed, resource, value);
    psti_stall_rate(&changed, answer);
    return answer->samples_per_second;
}

enum pst_status psti_stall_need(const struct psti_stall_setup *setup,
                                enum psti_stall_resource resource, double utilisation, double *out,
                                struct pst_error *err)
{
    struct psti_stall_setup s;
    struct psti_stall_answer answer;
    enum pst_status status = psti_stall_setup_read(setup, &s, err);
    if (status != PST_OK)
        return status;
    if (!(s.step_seconds > 0) || !(utilisation > 0) || !(utilisation < 1) ||
        resource == PSTI_STALL_ACCELERATOR || (unsigned)resource >= PSTI_STALL_N_RESOURCES)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "step_seconds above 0, a utilisation between 0 and 1 and a resource other "
                         "than the accelerator are expected");
    double wanted = psti_stall_rate_at(&s, utilisation);
    double low = least_of(resource), high = most_of(&s, resource);
    if (rate_with(&s, resource, high, &answer) < wanted)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                         "no amount of %s is enough: %s allows %.4g samples/s, and %.4g are needed",
                         psti_stall_resource_name(resource),
                         psti_stall_resource_name(answer.binding), answer.samples_per_second,
                         wanted);
    bool by_ratio = low > 0;
    for (int i = 0; i < 200 && high - low > 1e-9 * high; i++) {
        double middle = by_ratio ? sqrt(low * high) : (low + high) / 2;
        if (rate_with(&s, resource, middle, &answer) < wanted)
            low = middle;
        else
            high = middle;
    }
    *out = resource == PSTI_STALL_WORKERS ? ceil(high - 1e-6) : high;
    return PST_OK;
}
