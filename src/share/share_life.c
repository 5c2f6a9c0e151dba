/* share_life.c - finds the job together with which the system will end the service, from the
 * service's control groups in /proc/PID/cgroup. */
#include "share/share_life.h"

#include <stdio.h>
#include <string.h>

#define GROUPS_NBYTES 16384

/* Parts of a control group's path that identify a job, the most specific first. */
static const struct {
    const char *part, *what;
} kinds[] = {
    {"/slurm", "a Slurm job"},        {"/job_", "a batch job"},
    {"kubepods", "a Kubernetes pod"}, {"/docker", "a container"},
    {"/lxc", "a container"},          {".scope", "a systemd scope, such as a login session"}};

/* Reads /proc/<pid>/cgroup, the control groups of a process. The text is empty if that fails. */
static void read_groups(const char *root, pid_t pid, char groups[GROUPS_NBYTES])
{
    char path[4096];
    size_t n = 0;
    if (pid > 0)
        snprintf(path, sizeof path, "%s/proc/%ld/cgroup", root, (long)pid);
    else
        snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file) {
        n = fread(groups, 1, GROUPS_NBYTES - 1, file);
        fclose(file);
    }
    groups[n] = '\0';
}

static const char *end_of(const char *groups)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(groups, kinds[i].part))
            return kinds[i].what;
    return NULL;
}

const char *psti_share_ends_with(const char *root, pid_t pid)
{
    char groups[GROUPS_NBYTES];
    read_groups(root, pid, groups);
    return end_of(groups);
}

bool psti_share_life_warning(const char *root, pid_t service, bool started, char *text,
                             size_t text_nbytes)
{
    char mine[GROUPS_NBYTES], theirs[GROUPS_NBYTES];
    read_groups(root, 0, mine);
    if (service > 0)
        read_groups(root, service, theirs);
    else
        snprintf(theirs, sizeof theirs, "%s", started ? mine : "");
    const char *what = end_of(theirs);
    if (!what || (!started && strcmp(mine, theirs) == 0))
        return false;
    if (started)
        snprintf(text, text_nbytes,
                 "the host service that this process has started is in the control group of %s, "
                 "and will be ended with it: start one by systemd, or outside, if it is to outlive "
                 "that",
                 what);
    else
        snprintf(text, text_nbytes,
                 "the host service (process %ld) is in the control group of %s, to which this "
                 "process does not belong, and will be ended with it: this process then goes on "
                 "without it",
                 (long)service, what);
    return true;
}
