/* Cores and memory: limits of control groups in generated directory trees, and a rank's share of
 * them. */
#include "base/tree_fixture.h"

#include "base/machine/cores.h"
#include "base/machine/memory_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void quotas_of_version_2(void **state)
{
    (void)state;
    assert_int_equal(psti_cores_quota(root), 0); /* there are no files of control groups */
    put("/proc/self/cgroup", "0::/kube/pod/one\n");
    assert_int_equal(psti_cores_quota(root), 0);
    put("/sys/fs/cgroup/kube/pod/one/cpu.max", "max 100000\n");
    assert_int_equal(psti_cores_quota(root), 0);
    put("/sys/fs/cgroup/kube/cpu.max", "600000 100000\n"); /* quota of a parent group */
    assert_int_equal(psti_cores_quota(root), 6);
    put("/sys/fs/cgroup/kube/pod/cpu.max", "250000 100000\n"); /* 2.5 */
    assert_int_equal(psti_cores_quota(root), 3);
    put("/sys/fs/cgroup/kube/pod/one/cpu.max", "50000 100000\n");
    assert_int_equal(psti_cores_quota(root), 1);
    put("/proc/self/cgroup", "0::/\n");
    assert_int_equal(psti_cores_quota(root), 0);
    put("/sys/fs/cgroup/cpu.max", "400000 100000\n"); /* quota of a container */
    assert_int_equal(psti_cores_quota(root), 4);
    put("/proc/self/cgroup", "0::/../../host/path\n");
    assert_int_equal(psti_cores_quota(root), 4);
    put("/proc/self/cgroup", "0::/not/mounted/here\n");
    assert_int_equal(psti_cores_quota(root), 4);
    static const char *const senseless[] = {
        "", "\n", "many 100000\n", "-5 100000\n", "100 0\n", "99999999999999999999 1\n"};
    for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++) {
        put("/sys/fs/cgroup/cpu.max", senseless[i]);
        assert_int_equal(psti_cores_quota(root), 0);
    }
}

static void quotas_of_version_1(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "9:cpuset:/job\n5:devices:/job\n4:cpu,cpuacct:/slurm/job/step\n"
                             "3:memory:/job\nnonsense\n1:name=systemd:/x\n0::/x\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/job/step/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/job/step/cpu.cfs_period_us", "100000\n");
    assert_int_equal(psti_cores_quota(root), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/job/cpu.cfs_quota_us", "450000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(psti_cores_quota(root), 5);
    /* another mount, the top of a container */
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "20000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "10000\n");
    assert_int_equal(psti_cores_quota(root), 2);
    put("/proc/self/cgroup", "4:cpuset,cpuacct:/slurm/job/step\n");
    assert_int_equal(psti_cores_quota(root), 0);
}

static void memory_of_version_2(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/kube/pod\n");
    assert_true(psti_memory_limit_below(root) == UINT64_MAX); /* no limit is known */
    put("/proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n");
    assert_true(psti_memory_limit_below(root) == 16384 * 1024);
    put("/sys/fs/cgroup/kube/pod/memory.max", "max\n");
    assert_true(psti_memory_limit_below(root) == 16384 * 1024);
    put("/sys/fs/cgroup/kube/memory.max", "8388608\n"); /* limit of a parent group */
    assert_true(psti_memory_limit_below(root) == 8388608);
    put("/sys/fs/cgroup/kube/pod/memory.max", "4194304\n");
    assert_true(psti_memory_limit_below(root) == 4194304);
    /* a limit above the machine's memory */
    put("/sys/fs/cgroup/kube/pod/memory.max", "99999999999999\n");
    assert_true(psti_memory_limit_below(root) == 8388608);
    static const char *const senseless[] = {"", "\n", "much\n", "-5\n"};
    put("/sys/fs/cgroup/kube/memory.max", "max\n");
    for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++) {
        put("/sys/fs/cgroup/kube/pod/memory.max", senseless[i]);
        assert_true(psti_memory_limit_below(root) == 16384 * 1024);
    }
    assert_true(psti_memory_limit() > 0);
}

static void memory_of_version_1(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemTotal: 16384 kB\n");
    put("/proc/self/cgroup", "5:memory:/slurm/job\n4:cpu,cpuacct:/slurm/job\n0::/\n");
    put("/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes",
        "9223372036854771712\n"); /* none */
    assert_true(psti_memory_limit_below(root) == 16384 * 1024);
    put("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "2097152\n");
    assert_true(psti_memory_limit_below(root) == 2097152);
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/job/memory.limit_in_bytes",
        "1\n"); /* another controller's file */
    assert_true(psti_memory_limit_below(root) == 2097152);
}

static void available_memory_of_version_2(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/kube/pod\n");
    assert_true(psti_memory_available_below(root) == UINT64_MAX); /* nothing is known */
    put("/proc/meminfo", "MemTotal: 16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n");
    assert_true(psti_memory_available_below(root) == 8192 * 1024);
    put("/sys/fs/cgroup/kube/pod/memory.max", "max\n");
    put("/sys/fs/cgroup/kube/pod/memory.current", "5000000\n");
    assert_true(psti_memory_available_below(root) == 8192 * 1024);
    put("/sys/fs/cgroup/kube/pod/memory.max", "6000000\n");
    assert_true(psti_memory_available_below(root) == 1000000);
    /* The kernel can drop pages of files, but not pages of tmpfs, which the count "file"
     * includes. */
    put("/sys/fs/cgroup/kube/pod/memory.stat",
        "anon 1000000\nfile 4000000\ninactive_anon 7\ninactive_file 1500000\nactive_file 500000\n");
    assert_true(psti_memory_available_below(root) == 3000000);
    put("/sys/fs/cgroup/kube/memory.max", "2500000\n"); /* limit of a parent group */
    assert_true(psti_memory_available_below(root) == 2500000);
    put("/sys/fs/cgroup/kube/memory.current", "2600000\n"); /* more memory in use than the limit */
    assert_true(psti_memory_available_below(root) == 0);
    assert_true(psti_memory_available() > 0);
    assert_true(psti_memory_available() <= psti_memory_limit());
}

static void available_memory_of_version_1(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemAvailable: 16384 kB\n");
    put("/proc/self/cgroup", "5:memory:/slurm/job\n0::/\n");
    put("/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/slurm/job/memory.usage_in_bytes", "123\n");
    assert_true(psti_memory_available_below(root) == 16384 * 1024);
    put("/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "2000000\n");
    put("/sys/fs/cgroup/memory/slurm/job/memory.usage_in_bytes", "1500000\n");
    assert_true(psti_memory_available_below(root) == 500000);
    put("/sys/fs/cgroup/memory/slurm/job/memory.stat",
        "cache 9\ntotal_cache 900000\ntotal_inactive_file 100000\ntotal_active_file 200000\n");
    assert_true(psti_memory_available_below(root) == 800000);
}

static void clear_launchers(void)
{
    static const char *const names[] = {"LOCAL_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "SLURM_STEP_ID",
                                        "SLURM_STEPID",
                                        "SLURM_NODEID",
                                        "SLURM_CPUS_ON_NODE",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "SLURM_TASKS_PER_NODE",
                                        "SLURM_NTASKS_PER_NODE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static void shares(void **state)
{
    (void)state;
    static const struct {
        const char *variables[4][2];
        unsigned cores, want;
    } cases[] = {
        {{{0}}, 8, 8},
        {{{"LOCAL_WORLD_SIZE", "4"}}, 8, 2},
        {{{"LOCAL_WORLD_SIZE", "3"}}, 8, 2},
        {{{"LOCAL_WORLD_SIZE", "16"}}, 8, 1},
        {{{"LOCAL_WORLD_SIZE", "0"}}, 8, 8},
        {{{"LOCAL_WORLD_SIZE", "two"}}, 8, 8},
        {{{"LOCAL_WORLD_SIZE", "-2"}}, 8, 8},
        {{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}, 8, 4},
        {{{"SLURM_NTASKS_PER_NODE", "4"}}, 8, 8}, /* a batch script */
        {{{"SLURM_NTASKS_PER_NODE", "4"}, {"SLURM_STEP_ID", "4294967291"}}, 8, 8},
        {{{"SLURM_NTASKS_PER_NODE", "4"}, {"SLURM_STEP_ID", "0"}}, 8, 2},
        {{{"SLURM_TASKS_PER_NODE", "2(x3),1"}, {"SLURM_STEPID", "1"}}, 8, 4},
        {{{"SLURM_TASKS_PER_NODE", "2(x3),1"}, {"SLURM_STEPID", "1"}, {"SLURM_NODEID", "3"}}, 8, 8},
        {{{"SLURM_TASKS_PER_NODE", "1,4(x2)"}, {"SLURM_STEPID", "1"}, {"SLURM_NODEID", "2"}}, 8, 2},
        {{{"SLURM_TASKS_PER_NODE", "8"},
          {"SLURM_STEP_TASKS_PER_NODE", "2"},
          {"SLURM_STEP_ID", "0"}},
         8,
         4},
        {{{"SLURM_TASKS_PER_NODE", "(x4"}, {"SLURM_STEP_ID", "0"}}, 8, 8},
        /* With 8 of 64 cores bound by srun; and without binding. */
        {{{"SLURM_TASKS_PER_NODE", "8"}, {"SLURM_STEP_ID", "0"}, {"SLURM_CPUS_ON_NODE", "64"}},
         8,
         8},
        {{{"SLURM_TASKS_PER_NODE", "8"}, {"SLURM_STEP_ID", "0"}, {"SLURM_CPUS_ON_NODE", "64"}},
         64,
         8},
        {{{"LOCAL_WORLD_SIZE", "2"}, {"SLURM_TASKS_PER_NODE", "1"}, {"SLURM_STEP_ID", "0"}}, 8, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clear_launchers();
        for (int v = 0; v < 4 && cases[i].variables[v][0]; v++)
            setenv(cases[i].variables[v][0], cases[i].variables[v][1], 1);
        assert_int_equal(psti_cores_share(cases[i].cores), cases[i].want);
    }
    clear_launchers();
    assert_true(psti_cores() >= 1 && psti_cores() <= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
    assert_int_equal(psti_cores_of_rank(), psti_cores());
    setenv("LOCAL_WORLD_SIZE", "1000000", 1);
    assert_int_equal(psti_cores_of_rank(), 1);
    assert_int_equal(psti_local_ranks(), 1000000);
    clear_launchers();
    assert_int_equal(psti_local_ranks(), 1);
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_TASKS_PER_NODE", "4", 1);
    assert_int_equal(psti_local_ranks(), 4);
    clear_launchers();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(quotas_of_version_2),
        TREE_TEST(quotas_of_version_1),
        TREE_TEST(memory_of_version_2),
        TREE_TEST(memory_of_version_1),
        TREE_TEST(available_memory_of_version_2),
        TREE_TEST(available_memory_of_version_1),
        cmocka_unit_test(shares),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
