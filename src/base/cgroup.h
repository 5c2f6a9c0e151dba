/* cgroup.h - the control groups of this process, version 1 and 2. */
#ifndef PST_BASE_CGROUP_H
#define PST_BASE_CGROUP_H

#include <stdbool.h>

/* Calls visit(ctx, directory) for the directory of each control group of `controller` ("cpu",
 * "memory") that the process is in, and for each parent: a limit holds for a group with all that is
 * below it. The top of the mount is visited in any case, because in a container the path in
 * /proc/self/cgroup may be that of the host. `root` goes before /proc and /sys: "", or a tree that
 * a test has made. */
void psti_cgroup_walk(const char *root, const char *controller,
                      void (*visit)(void *ctx, const char *directory), void *ctx);

/* The first line of a file of a group. False: there is no such file. */
bool psti_cgroup_read(const char *directory, const char *name, char line[64]);

#endif
