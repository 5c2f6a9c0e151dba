/* test_share_life.c - do service and clients detect that the service's control group belongs to a
 * batch job? The tests use directory trees that replace /proc. */
#include "base/tree_fixture.h"

#include "share/share_life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERVICE 77

static char text[512];

static const char *with_group(const char *groups)
{
    put("/proc/self/cgroup", groups);
    return psti_share_ends_with(root, 0);
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
    assert_null(psti_share_ends_with("/no/such/root", 0));
    assert_null(psti_share_ends_with(root, SERVICE));
}

static bool warns(pid_t service, bool started)
{
    return psti_share_life_warning(root, service, started, text, sizeof text);
}

static void a_client_warns_of_what_it_starts(void **state)
{
    (void)state;
    assert_false(warns(0, true));
    put("/proc/self/cgroup", "0::/slurm/uid_1000/job_17\n");
    assert_true(warns(0, true)); /* the service is in another PID namespace */
    assert_non_null(strstr(text, "a Slurm job"));
    assert_non_null(strstr(text, "this process has started"));
    put("/proc/77/cgroup", "0::/slurm/uid_1000/job_17\n");
    assert_true(warns(SERVICE, true));
    put("/proc/77/cgroup", "0::/user.slice/user-1000.slice/user@1000.service/penstock.service\n");
    assert_false(warns(SERVICE, true)); /* PENSTOCK_SERVE may place it elsewhere */
}

static void a_client_warns_of_another_jobs_service(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/slurm/uid_1000/job_18\n");
    assert_false(warns(0, false));
    assert_false(warns(SERVICE, false)); /* the process of the service is unknown */
    put("/proc/77/cgroup", "0::/slurm/uid_1000/job_17\n");
    assert_true(warns(SERVICE, false));
    assert_non_null(strstr(text, "process 77"));
    assert_non_null(strstr(text, "a Slurm job"));
    put("/proc/self/cgroup", "0::/slurm/uid_1000/job_17\n");
    assert_false(warns(SERVICE, false)); /* the service runs in the same job */
    put("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-3.scope\n");
    put("/proc/77/cgroup", "0::/user.slice/user-1000.slice/user@1000.service/penstock.service\n");
    assert_false(warns(SERVICE, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(groups_of_jobs_are_known),
        TREE_TEST(other_groups_are_not),
        TREE_TEST(a_client_warns_of_what_it_starts),
        TREE_TEST(a_client_warns_of_another_jobs_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
