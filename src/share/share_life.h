/* share_life.h - whether the host service will be ended with a job.
 *
 * Slurm, Kubernetes and systemd end all processes of a control group. A service that a job has
 * started on first use is in the job's group, and ends with it, whatever other jobs use it. Any
 * thread. */
#ifndef PST_SHARE_SHARE_LIFE_H
#define PST_SHARE_SHARE_LIFE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Returns in words the job or session with whose end the process will be ended, by its control
 * group. NULL: there is none, or it is not known. pid 0: this process. `root` is put before /proc,
 * for tests. */
const char *psti_share_ends_with(const char *root, pid_t pid);

/* What a client has to say about the service that it has started, or found. `service`: its process;
 * 0: not known. A found one is worth a word only if its group is not this process's: jobs of one
 * group end together. False: there is nothing to say. */
bool psti_share_life_warning(const char *root, pid_t service, bool started, char *text,
                             size_t text_nbytes);

#endif
