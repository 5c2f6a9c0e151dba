/* serve_life.c - whether the control group that the service is in will be ended with a job.
 *
 * Slurm, Kubernetes and systemd end all processes of a group. A service that a job has started on
 * first use is in the job's group, and ends with it, whatever other jobs use it. */
#include "serve/serve.h"

#include <stdio.h>
#include <string.h>

/* The parts of a group's path that tell, the most telling first. */
static const struct {
    const char *part, *what;
} kinds[] = {
    {"/slurm", "a Slurm job"},        {"/job_", "a batch job"},
    {"kubepods", "a Kubernetes pod"}, {"/docker", "a container"},
    {"/lxc", "a container"},          {".scope", "a systemd scope, such as a login session"}};

const char *psti_serve_ends_with(const char *root)
{
    char path[4096], line[4096];
    size_t found = sizeof kinds / sizeof *kinds;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        for (size_t i = 0; i < found; i++)
            if (strstr(line, kinds[i].part))
                found = i;
    if (file)
        fclose(file);
    return found < sizeof kinds / sizeof *kinds ? kinds[found].what : NULL;
}
