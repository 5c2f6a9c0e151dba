/* cores.c - finds how many threads to use, from the CPU affinity, control groups and the
 * environment variables of launchers. */
#include "base/machine/cores.h"

#include "base/machine/cgroup.h"

#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* From this number on, Slurm's step numbers stand for batch scripts and the like. */
#define SLURM_STEPS_END 0xFFFFFFF0u

static unsigned whole_cores(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0; /* "max" and -1 mean that there is no quota */
    long long cores = quota / period + (quota % period != 0);
    return cores > 65536 ? 0 : (unsigned)cores;
}

/* Returns the CPU quota of one control group in cores, or 0 if there is no quota or no such
 * group. */
static unsigned quota_of(const char *directory)
{
    char quota[64], period[64];
    if (psti_cgroup_read(directory, "cpu.max", quota)) {
        char *end;
        long long granted = strtoll(quota, &end, 10);
        return whole_cores(granted, strtoll(end, NULL, 10));
    }
    if (psti_cgroup_read(directory, "cpu.cfs_quota_us", quota) &&
        psti_cgroup_read(directory, "cpu.cfs_period_us", period))
        return whole_cores(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
    return 0;
}

static unsigned lower_quota(unsigned a, unsigned b) { return !a || (b && b < a) ? b : a; }

static void lower_by_group(void *ctx, const char *directory)
{
    unsigned *quota = ctx;
    *quota = lower_quota(*quota, quota_of(directory));
}

unsigned psti_cores_quota(const char *root)
{
    unsigned quota = 0;
    psti_cgroup_walk(root, "cpu", lower_by_group, &quota);
    return quota;
}

unsigned psti_cores(void)
{
    cpu_set_t set;
    unsigned cores = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
    cores = lower_quota(cores, psti_cores_quota(""));
    return cores ? cores : 1;
}

/* Returns the positive integer at the start of `text`, or 0 if there is none. *end points behind
 * the number. */
static unsigned number_at(const char *text, const char **end)
{
    char *after = NULL;
    unsigned long number = text && *text >= '0' && *text <= '9' ? strtoul(text, &after, 10) : 0;
    *end = after;
    return number <= 1u << 20 ? (unsigned)number : 0;
}

static unsigned number_of(const char *name)
{
    const char *end;
    unsigned number = number_at(getenv(name), &end);
    return end && *end == '\0' ? number : 0;
}

/* Returns how many tasks of a Slurm step run on node number `node`, or 0 if the list does not say.
 * A list is, for example, "4(x2),1": 4 tasks on each of two nodes, then 1. */
static unsigned tasks_on(const char *text, unsigned node)
{
    while (text && *text) {
        unsigned n_nodes = 1, n_tasks = number_at(text, &text);
        if (!text)
            return 0;
        if (strncmp(text, "(x", 2) == 0) {
            n_nodes = number_at(text + 2, &text);
            if (!text || *text != ')')
                return 0;
            text++;
        }
        if (node < n_nodes)
            return n_tasks;
        node -= n_nodes;
        if (*text == ',')
            text++;
        else if (*text)
            return 0;
    }
    return 0;
}

static bool in_slurm_step(void)
{
    const char *step = getenv("SLURM_STEP_ID"), *end;
    step = step ? step : getenv("SLURM_STEPID");
    if (!step || *step < '0' || *step > '9')
        return false;
    unsigned long number = strtoul(step, (char **)(void *)&end, 10);
    return *end == '\0' && number < SLURM_STEPS_END;
}

/* Returns how many ranks of this Slurm step run on this node, or 0 if unknown. */
static unsigned slurm_ranks(void)
{
    unsigned node = number_of("SLURM_NODEID");
    unsigned n = tasks_on(getenv("SLURM_STEP_TASKS_PER_NODE"), node);
    n = n ? n : tasks_on(getenv("SLURM_TASKS_PER_NODE"), node);
    return n ? n : number_of("SLURM_NTASKS_PER_NODE");
}

/* Returns how many ranks torchrun or Open MPI started on this machine, or 0 if neither did. */
static unsigned started_ranks(void)
{
    unsigned ranks = number_of("LOCAL_WORLD_SIZE");
    return ranks ? ranks : number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
}

unsigned psti_local_ranks(void)
{
    unsigned ranks = started_ranks();
    if (!ranks && in_slurm_step())
        ranks = slurm_ranks();
    return ranks ? ranks : 1;
}

unsigned psti_cores_share(unsigned cores)
{
    unsigned ranks = psti_local_ranks(), all = cores;
    if (!started_ranks() && in_slurm_step()) {
        /* srun may already have bound each task to its share of the cores. So the cores of the
         * whole job on this node are divided, not the cores of this task. */
        all = number_of("SLURM_CPUS_ON_NODE");
        all = all ? all : cores;
    }
    unsigned share = all / ranks;
    share = share < cores ? share : cores;
    return share ? share : 1;
}

unsigned psti_cores_of_rank(void) { return psti_cores_share(psti_cores()); }
