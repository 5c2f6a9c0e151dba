/* share_life.h - tells whether the host service will be ended together with a job.
 *
 * Slurm, Kubernetes and systemd end all processes of a control group. A service that a job starts
 * on first use belongs to the job's group, and ends with it, even if other jobs use it. Any
 * thread. */
#ifndef PST_SHARE_SHARE_LIFE_H
#define PST_SHARE_SHARE_LIFE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Returns a description of the job or session together with which the process will be ended,
 * according to its control group. NULL: there is no such job, or it is unknown. pid 0: this
 * process. For tests, `root` is put before /proc. */
const char *psti_share_ends_with(const char *root, pid_t pid);

/* Writes the warning that a client gives about the service that it has started or found. service:
 * its process; 0: unknown. For a service that was found, there is a warning only if its group is
 * not this process's, because jobs of one group end together. False: there is nothing to warn
 * of. */
bool psti_share_life_warning(const char *root, pid_t service, bool started, char *text,
                             size_t text_nbytes);

#endif
