/* test_share_life.c - whether service and clients find out that the service's control group belongs
 * to a job, on trees that stand for /proc. */
#include "test.h"

#include "share/share_life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERVICE 77

static char root[64], text[512];

static int set_up(void **state)
{
    char path[96];
    (void)state;
    snprintf(root, sizeof root, "/tmp/pst-life-XXXXXX");
    assert_non_null(mkdtemp(root));
    static const char *const parts[] = {"/proc", "/proc/self", "/proc/77"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", root, parts[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    return 0;
}

static int tear_down(void **state)
{
    char path[96];
    (void)state;
    static const char *const parts[] = {"/proc/self/cgroup", "/proc/77/cgroup", "/proc/self",
                                        "/proc/77",          "/proc",           ""};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s%s", root, parts[i]);
        (void)remove(path);
    }
    return access(root, F_OK) == 0;
}

static void put(const char *process, const char *groups)
{
    char path[96];
    snprintf(path, sizeof path, "%s/proc/%s/cgroup", root, process);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(groups, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char *with_group(const char *groups)
{
    put("self", groups);
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
    put("self", "0::/slurm/uid_1000/job_17\n");
    assert_true(warns(0, true)); /* the service is in another PID namespace */
    assert_non_null(strstr(text, "a Slurm job"));
    assert_non_null(strstr(text, "this process has started"));
    put("77", "0::/slurm/uid_1000/job_17\n");
    assert_true(warns(SERVICE, true));
    put("77", "0::/user.slice/user-1000.slice/user@1000.service/penstock.service\n");
    assert_false(warns(SERVICE, true)); /* PENSTOCK_SERVE may put it elsewhere */
}

static void a_client_warns_of_another_jobs_service(void **state)
{
    (void)state;
    put("self", "0::/slurm/uid_1000/job_18\n");
    assert_false(warns(0, false));
    assert_false(warns(SERVICE, false)); /* nothing is known of it */
    put("77", "0::/slurm/uid_1000/job_17\n");
    assert_true(warns(SERVICE, false));
    assert_non_null(strstr(text, "process 77"));
    assert_non_null(strstr(text, "a Slurm job"));
    put("self", "0::/slurm/uid_1000/job_17\n");
    assert_false(warns(SERVICE, false)); /* the same job */
    put("self", "0::/user.slice/user-1000.slice/session-3.scope\n");
    put("77", "0::/user.slice/user-1000.slice/user@1000.service/penstock.service\n");
    assert_false(warns(SERVICE, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(groups_of_jobs_are_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_groups_are_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_client_warns_of_what_it_starts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_client_warns_of_another_jobs_service, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
