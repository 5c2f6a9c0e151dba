/* cores.h - how many cores this process may use, and its share of them if several ranks run on this
 * machine. */
#ifndef PST_BASE_CORES_H
#define PST_BASE_CORES_H

/* Returns how many cores the CPU affinity and the CPU quotas of the process's control groups allow,
 * at least 1. */
unsigned psti_cores(void);
/* Returns the share of one rank: the cores divided by the number of processes that a launcher
 * (torchrun, Open MPI, srun) started on this machine, at least 1. */
unsigned psti_cores_of_rank(void);

/* Returns how many processes a launcher (torchrun, Open MPI, srun) started on this machine; 1 if
 * the environment names none. */
unsigned psti_local_ranks(void);

/* The functions below are parts of those above, declared for tests. */
/* Returns the smallest CPU quota of the process's control groups and their parents, version 1 and
 * 2, in cores, rounded up; 0 if there is no quota. `root` is a prefix of /proc and /sys. */
unsigned psti_cores_quota(const char *root);
/* Returns one rank's share of `cores`, by the environment variables of launchers. */
unsigned psti_cores_share(unsigned cores);

#endif
