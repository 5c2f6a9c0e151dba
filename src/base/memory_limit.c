/* memory_limit.c - MemTotal of /proc/meminfo and the limits of control groups -> bytes. */
#include "base/memory_limit.h"

#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>

/* Returns the limit of one group; UINT64_MAX if it has none. Version 1 writes a number near 2^63
 * for "none". */
static uint64_t limit_of(const char *directory)
{
    char line[64];
    if (!psti_cgroup_read(directory, "memory.max", line) &&
        !psti_cgroup_read(directory, "memory.limit_in_bytes", line))
        return UINT64_MAX;
    if (line[0] < '0' || line[0] > '9')
        return UINT64_MAX; /* "max" */
    return strtoull(line, NULL, 10);
}

static void lower_by_group(void *ctx, const char *directory)
{
    uint64_t *limit = ctx, found = limit_of(directory);
    if (found < *limit)
        *limit = found;
}

static uint64_t machine_nbytes(const char *root)
{
    char line[128];
    unsigned long long kib;
    uint64_t nbytes = UINT64_MAX;
    snprintf(line, sizeof line, "%.100s/proc/meminfo", root);
    FILE *file = fopen(line, "re");
    while (file && nbytes == UINT64_MAX && fgets(line, sizeof line, file))
        if (sscanf(line, "MemTotal: %llu kB", &kib) == 1 && kib <= UINT64_MAX / 1024)
            nbytes = kib * 1024;
    if (file)
        fclose(file);
    return nbytes;
}

uint64_t psti_memory_limit_below(const char *root)
{
    uint64_t limit = machine_nbytes(root);
    psti_cgroup_walk(root, "memory", lower_by_group, &limit);
    return limit;
}

uint64_t psti_memory_limit(void) { return psti_memory_limit_below(""); }
