/* cores.h - how many cores this process may use, and its share of them among the ranks on this
 * machine. */
#ifndef PST_BASE_CORES_H
#define PST_BASE_CORES_H

/* Returns the number of cores that affinity and the CPU quotas of the process's control groups
 * allow, at least 1. */
unsigned psti_cores(void);
/* Returns psti_cores() divided by the number of processes that a launcher (torchrun, Open MPI,
 * srun) started on this machine, at least 1. */
unsigned psti_cores_of_rank(void);

/* Returns how many processes a launcher (torchrun, Open MPI, srun) started on this machine; 1 if
 * the environment names none. */
unsigned psti_local_ranks(void);

/* The functions below are parts of those above, for tests. */
/* Returns the smallest CPU quota of the process's control groups and their parents, version 1 and
 * 2, in whole cores, rounded up; 0 if there is none. `root` goes before /proc and /sys. */
unsigned psti_cores_quota(const char *root);
/* Returns one rank's share of `cores`, as the environment variables of launchers tell it. */
unsigned psti_cores_share(unsigned cores);

#endif
