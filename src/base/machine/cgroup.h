/* cgroup.h - the control groups of this process, version 1 and 2. */
#ifndef PST_BASE_CGROUP_H
#define PST_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Calls visit(ctx, directory) for the directory of each control group of `controller` ("cpu",
 * "memory") that the process is in, and for each parent, because the limit of a group also holds
 * for those below it. The top of the mount is visited in any case, because in a container the path
 * in /proc/self/cgroup may be the host's. `root` goes before /proc and /sys: it is "", or a tree
 * that a test has made. */
void psti_cgroup_walk(const char *root, const char *controller,
                      void (*visit)(void *ctx, const char *directory), void *ctx);

/* Reads the first line of a file of a group. Returns false if there is no such file. */
bool psti_cgroup_read(const char *directory, const char *name, char line[64]);
/* Reads the number after `key` and a space, from a file of a group that has one such pair in each
 * line ("memory.stat"). Returns 0 if there is no such file or key. */
uint64_t psti_cgroup_read_key(const char *directory, const char *name, const char *key);

#endif
