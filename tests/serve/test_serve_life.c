/* test_serve_life.c - whether the service finds out that its control group belongs to a job, on
 * trees that stand for /proc. */
#include "test.h"

#include "serve/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *with_group(const char *text)
{
    char root[] = "/tmp/pst-life-XXXXXX", path[96], directory[3][64];
    assert_non_null(mkdtemp(root));
    snprintf(directory[0], sizeof directory[0], "%s/proc", root);
    snprintf(directory[1], sizeof directory[1], "%s/proc/self", root);
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    assert_int_equal(mkdir(directory[0], 0700) | mkdir(directory[1], 0700), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    const char *found = psti_serve_ends_with(root);
    unlink(path);
    rmdir(directory[1]);
    rmdir(directory[0]);
    rmdir(root);
    return found;
}

static void groups_of_jobs_are_known(void **state)
{
    (void)state;
    assert_string_equal(with_group("0::/system.slice/slurmstepd.scope/job_17/step_0/user\n"),
                        "a Slurm job");
    assert_string_equal(with_group("4:memory:/slurm/uid_1000/job_17\n0::/\n"), "a Slurm job");
    assert_string_equal(with_group("0::/kubepods.slice/kubepods-pod1.slice/cri-1.scope\n"),
                        "a Kubernetes pod");
    assert_string_equal(with_group("12:cpu:/docker/0123\n"), "a container");
    assert_non_null(
        strstr(with_group("0::/user.slice/user-1000.slice/session-3.scope\n"), "systemd scope"));
}

static void other_groups_are_not(void **state)
{
    (void)state;
    assert_null(with_group("0::/user.slice/user-1000.slice/user@1000.service/penstock.service\n"));
    assert_null(with_group("0::/\n"));
    assert_null(with_group(""));
    assert_null(psti_serve_ends_with("/no/such/root"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_jobs_are_known),
        cmocka_unit_test(other_groups_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
