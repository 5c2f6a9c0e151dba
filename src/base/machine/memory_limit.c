/* memory_limit.c - finds memory limits in bytes, from /proc/meminfo and the files of control
 * groups. */
#include "base/machine/memory_limit.h"

#include "base/machine/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the memory limit of one control group, or UINT64_MAX if it has none. Version 1 writes a
 * number near 2^63 for "none". */
static uint64_t limit_of(const char *directory)
{
    char line[64];
    if (!psti_cgroup_read(directory, "memory.max", line) &&
        !psti_cgroup_read(directory, "memory.limit_in_bytes", line))
        return UINT64_MAX;
    if (line[0] < '0' || line[0] > '9')
        return UINT64_MAX; /* the file says "max" */
    return strtoull(line, NULL, 10);
}

static void lower_by_group(void *ctx, const char *directory)
{
    uint64_t *limit = ctx, found = limit_of(directory);
    if (found < *limit)
        *limit = found;
}

/* Returns a number of /proc/meminfo in bytes, or UINT64_MAX if the file lacks it. */
static uint64_t machine_nbytes(const char *root, const char *key)
{
    char line[128];
    unsigned long long kib;
    uint64_t nbytes = UINT64_MAX;
    size_t length = strlen(key);
    snprintf(line, sizeof line, "%.100s/proc/meminfo", root);
    FILE *file = fopen(line, "re");
    while (file && nbytes == UINT64_MAX && fgets(line, sizeof line, file))
        if (strncmp(line, key, length) == 0 && sscanf(line + length, ": %llu kB", &kib) == 1 &&
            kib <= UINT64_MAX / 1024)
            nbytes = kib * 1024;
    if (file)
        fclose(file);
    return nbytes;
}

uint64_t psti_memory_limit_below(const char *root)
{
    uint64_t limit = machine_nbytes(root, "MemTotal");
    psti_cgroup_walk(root, "memory", lower_by_group, &limit);
    return limit;
}

uint64_t psti_memory_limit(void) { return psti_memory_limit_below(""); }

/* Returns the bytes that a control group uses, without file pages that the kernel can drop. */
static uint64_t used_by(const char *directory)
{
    static const struct {
        const char *usage, *inactive, *active; /* file and keys, for cgroups of version 2 and 1 */
    } names[] = {{"memory.current", "inactive_file", "active_file"},
                 {"memory.usage_in_bytes", "total_inactive_file", "total_active_file"}};
    char line[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (psti_cgroup_read(directory, names[i].usage, line)) {
            uint64_t usage = strtoull(line, NULL, 10);
            uint64_t files = psti_cgroup_read_key(directory, "memory.stat", names[i].inactive) +
                             psti_cgroup_read_key(directory, "memory.stat", names[i].active);
            return usage > files ? usage - files : 0;
        }
    return 0;
}

static void lower_by_rest_of_group(void *ctx, const char *directory)
{
    uint64_t *available = ctx, limit = limit_of(directory), used;
    if (limit == UINT64_MAX)
        return;
    used = used_by(directory);
    uint64_t rest = limit > used ? limit - used : 0;
    if (rest < *available)
        *available = rest;
}

uint64_t psti_memory_available_below(const char *root)
{
    uint64_t available = machine_nbytes(root, "MemAvailable");
    psti_cgroup_walk(root, "memory", lower_by_rest_of_group, &available);
    return available;
}

uint64_t psti_memory_available(void) { return psti_memory_available_below(""); }
