/* numa.h - finds the NUMA nodes of the machine, and keeps threads and their memory on one node.
 *
 * A place applies to the calling thread. Threads that it starts afterwards inherit it. Any
 * thread. */
#ifndef PST_BASE_NUMA_H
#define PST_BASE_NUMA_H

#include <penstock/status.h>

#include <sched.h>
#include <stdbool.h>

/* The cores on which threads shall run, and the node from which their memory comes if possible. */
struct psti_numa_place {
    int node; /* -1: no node was chosen, and threads are not moved */
    cpu_set_t cores;
};

/* Chooses a place. `choice` is "none", the number of a node, or "auto". "auto" means the node of
 * the machine's CUDA devices, as the driver and /sys state it. No node is chosen if there is no
 * device, if the devices belong to several nodes, if the system does not tell, or if the machine
 * has only one node. The place includes only cores that this thread may use. `root` is a prefix of
 * /sys: "", or a directory tree made by a test. Returns PST_ERROR_ARGUMENT if `choice` is invalid,
 * if there is no such node, or if this thread may use none of its cores. */
enum pst_status psti_numa_choose(const char *root, const char *choice,
                                 struct psti_numa_place *place, struct pst_error *err);

/* The cores and the memory policy of a thread before psti_numa_enter. */
struct psti_numa_before {
    bool has_cores, has_memory;
    cpu_set_t cores;
    int mode;
    unsigned long nodes[16];
};
/* Moves the calling thread to the place. New memory comes from the place's node while that has free
 * memory, otherwise from other nodes. Fills *before for psti_numa_leave. before->has_memory is
 * false if the system does not let the process choose. */
void psti_numa_enter(const struct psti_numa_place *place, struct psti_numa_before *before);
void psti_numa_leave(const struct psti_numa_before *before);

#endif
