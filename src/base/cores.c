/* cores.c - the number of threads to use, from affinity, control groups and launchers' variables.
 *
 * The quota of a control group holds for all groups below it. So the process's own group and
 * each of its parents are read. /proc/self/cgroup names the groups: "0::/path" of version 2,
 * "4:cpu,cpuacct:/path" of version 1. In a container the path may be the host's, which is not
 * mounted. The top of the mount is then the container's group; it is read in any case. */
#include "base/cores.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS "/sys/fs/cgroup"
#define PATH_NBYTES 4096
/* Batch scripts and the like have step numbers from here on. */
#define SLURM_STEPS_END 0xFFFFFFF0u

static unsigned whole_cores(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0; /* "max" and -1 mean no quota */
    long long cores = quota / period + (quota % period != 0);
    return cores > 65536 ? 0 : (unsigned)cores;
}

static bool read_line(const char *directory, const char *name, char line[64])
{
    char path[PATH_NBYTES + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    bool found = file && fgets(line, 64, file);
    if (file)
        fclose(file);
    return found;
}

/* Returns the quota of one group. 0 if there is no quota or no such group. */
static unsigned quota_of(const char *directory)
{
    char quota[64], period[64];
    if (read_line(directory, "cpu.max", quota)) {
        char *end;
        long long granted = strtoll(quota, &end, 10);
        return whole_cores(granted, strtoll(end, NULL, 10));
    }
    if (read_line(directory, "cpu.cfs_quota_us", quota) &&
        read_line(directory, "cpu.cfs_period_us", period))
        return whole_cores(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
    return 0;
}

static unsigned lower_quota(unsigned a, unsigned b) { return !a || (b && b < a) ? b : a; }

/* Returns the smallest quota of the group `path` below `mount` and of its parents, including the
 * mount. */
static unsigned quota_upwards(const char *mount, const char *path)
{
    char directory[PATH_NBYTES];
    int length = snprintf(directory, sizeof directory, "%s%s", mount, path);
    size_t top = strlen(mount);
    unsigned quota = 0;
    if (length < 0 || (size_t)length >= sizeof directory || strstr(path, "/.."))
        return quota_of(mount);
    for (;;) {
        quota = lower_quota(quota, quota_of(directory));
        char *slash = strrchr(directory + top, '/');
        if (!slash)
            return quota;
        *slash = '\0';
    }
}

static bool has_cpu(const char *controllers)
{
    for (const char *at = controllers; at; at = strchr(at, ',')) {
        at += *at == ',';
        size_t length = strcspn(at, ",");
        if (length == 3 && memcmp(at, "cpu", 3) == 0)
            return true;
    }
    return false;
}

/* Returns the smallest quota of the group that a line of /proc/self/cgroup names, and of its
 * parents; 0 if there is none. Cuts the line into its parts. */
static unsigned quota_of_line(const char *root, char *line)
{
    char mount[PATH_NBYTES];
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path || strlen(root) > PATH_NBYTES / 2)
        return 0;
    *controllers++ = *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    if (strcmp(path, "/") == 0)
        *path = '\0';
    if (!*controllers) {
        snprintf(mount, sizeof mount, "%s%s", root, GROUPS);
        return quota_upwards(mount, path);
    }
    if (!has_cpu(controllers))
        return 0;
    snprintf(mount, sizeof mount, "%s%s/%.200s", root, GROUPS, controllers);
    unsigned quota = quota_upwards(mount, path);
    snprintf(mount, sizeof mount, "%s%s/cpu", root, GROUPS);
    return lower_quota(quota, quota_upwards(mount, path));
}

unsigned psti_cores_quota(const char *root)
{
    char line[PATH_NBYTES];
    unsigned quota = 0;
    snprintf(line, sizeof line, "%.2000s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file))
        quota = lower_quota(quota, quota_of_line(root, line));
    if (file)
        fclose(file);
    return quota;
}

unsigned psti_cores(void)
{
    cpu_set_t set;
    unsigned cores = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
    cores = lower_quota(cores, psti_cores_quota(""));
    return cores ? cores : 1;
}

/* Returns the whole number above 0 at the start of `text`, else 0. *end points behind it. */
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

/* Returns the tasks on node number `node` of a step, from a list such as "4(x2),1": 4 on each of
 * two nodes, then 1. 0 if the list does not say. */
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

/* Returns the ranks of a Slurm step on this node. */
static unsigned slurm_ranks(void)
{
    unsigned node = number_of("SLURM_NODEID");
    unsigned n = tasks_on(getenv("SLURM_STEP_TASKS_PER_NODE"), node);
    n = n ? n : tasks_on(getenv("SLURM_TASKS_PER_NODE"), node);
    return n ? n : number_of("SLURM_NTASKS_PER_NODE");
}

unsigned psti_cores_share(unsigned cores)
{
    unsigned ranks = number_of("LOCAL_WORLD_SIZE"), all = cores;
    ranks = ranks ? ranks : number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (!ranks && in_slurm_step()) {
        /* srun may have bound each task to its part already. So the node's part of the job is
         * divided. */
        ranks = slurm_ranks();
        all = number_of("SLURM_CPUS_ON_NODE");
        all = all ? all : cores;
    }
    unsigned share = ranks ? all / ranks : cores;
    share = share < cores ? share : cores;
    return share ? share : 1;
}

unsigned psti_cores_of_rank(void) { return psti_cores_share(psti_cores()); }
