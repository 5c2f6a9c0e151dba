/* cores.h - how many cores this process may use, and how many of them are its own among the ranks
 * of one machine. */
#ifndef PST_BASE_CORES_H
#define PST_BASE_CORES_H

/* By affinity and the CPU quotas of the process's control groups, at least 1. */
unsigned psti_cores(void);
/* psti_cores divided among the processes that a launcher (torchrun, Open MPI, srun) started on this
 * machine, at least 1. */
unsigned psti_cores_of_rank(void);

/* Parts of the above, for tests. */
/* The smallest CPU quota in whole cores (rounded up) of the process's control groups and their
 * parents, version 1 and 2; 0: there is none. `root` goes before /proc and /sys. */
unsigned psti_cores_quota(const char *root);
/* The share of one rank in `cores`, by the environment. */
unsigned psti_cores_share(unsigned cores);

#endif
