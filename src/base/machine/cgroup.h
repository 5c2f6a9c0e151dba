/* cgroup.h - finds and reads the control groups of this process, version 1 and 2. */
#ifndef PST_BASE_CGROUP_H
#define PST_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Calls visit(ctx, directory) for the directory of each control group of `controller` ("cpu",
 * "memory") that the process belongs to, and for each parent group, because its limit applies too.
 * The mount point is always visited, because in a container the path in /proc/self/cgroup may be
 * the host's. `root` is a prefix of /proc and /sys: "", or a directory tree made by a test. */
void psti_cgroup_walk(const char *root, const char *controller,
                      void (*visit)(void *ctx, const char *directory), void *ctx);

/* Reads the first line of a file in a group's directory. Returns false if there is no such file. */
bool psti_cgroup_read(const char *directory, const char *name, char line[64]);
/* Reads a file in a group's directory that has a key and a number in each line ("memory.stat").
 * Returns the number after `key`, or 0 if there is no such file or key. */
uint64_t psti_cgroup_read_key(const char *directory, const char *name, const char *key);

#endif
