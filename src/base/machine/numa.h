/* numa.h - NUMA nodes of the machine, and keeping threads and their memory on one of them.
 *
 * What is set belongs to the calling thread, and threads that it starts afterwards inherit it. Any
 * thread. */
#ifndef PST_BASE_NUMA_H
#define PST_BASE_NUMA_H

#include <penstock/status.h>

#include <sched.h>
#include <stdbool.h>

/* Where threads are to run, and which node their memory comes from if it has some. */
struct psti_numa_place {
    int node; /* -1: no node was chosen, and nothing is to be done */
    cpu_set_t cores;
};

/* Chooses a place. `choice`: "none"; the number of a node; or "auto": the node of the machine's
 * CUDA devices as the driver and /sys tell it, none if there is no device, if they lie on several
 * nodes, or if nobody knows. On a machine with one node nothing is chosen. Only cores that this
 * thread may use become part of the place. `root` goes before /sys: "", or a tree that a test has
 * made. PST_ERROR_ARGUMENT: `choice` is none of these, the machine has no such node, or this
 * thread may use none of its cores. */
enum pst_status psti_numa_choose(const char *root, const char *choice,
                                 struct psti_numa_place *place, struct pst_error *err);

/* What the thread had before. */
struct psti_numa_before {
    bool has_cores, has_memory;
    cpu_set_t cores;
    int mode;
    unsigned long nodes[16];
};
/* Moves the calling thread to the place. New memory comes from its node while that has free memory,
 * else from others. Fills *before for psti_numa_leave; before->has_memory is false if the system
 * does not let the process choose. */
void psti_numa_enter(const struct psti_numa_place *place, struct psti_numa_before *before);
void psti_numa_leave(const struct psti_numa_before *before);

#endif
