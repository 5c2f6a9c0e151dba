/* NUMA nodes: which node is chosen in generated directory trees, and that a thread and the threads
 * it starts are moved and moved back. */
#include "base/tree_fixture.h"

#include "base/machine/numa.h"
#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODE(n) "/sys/devices/system/node/node" #n "/cpulist"
#define DEVICE(address) "/sys/bus/pci/drivers/nvidia/" address "/numa_node"

/* Makes two nodes: one with the first core that this process may use, one with all others. */
static int put_two_nodes(void)
{
    cpu_set_t allowed;
    char first[16];
    int core = 0;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    while (!CPU_ISSET(core, &allowed))
        core++;
    snprintf(first, sizeof first, "%d\n", core);
    put(NODE(0), first);
    put(NODE(1), "0-1023\n");
    return core;
}

static int choose(const char *choice, struct psti_numa_place *place)
{
    struct pst_error err;
    pst_error_clear(&err);
    if (psti_numa_choose(root, choice, place, &err) != PST_OK) {
        assert_int_equal(err.status, PST_ERROR_ARGUMENT);
        assert_true(err.text[0] != '\0');
        return -2;
    }
    return place->node;
}

static void a_node_is_chosen_by_its_number(void **state)
{
    struct psti_numa_place place;
    (void)state;
    assert_int_equal(choose("0", &place), -1); /* a machine without information on nodes */
    assert_int_equal(choose("1", &place), -2);
    put(NODE(0), "0-1023\n");
    assert_int_equal(choose("0", &place), -1); /* a single node: nothing has to be done */
    assert_int_equal(choose("1", &place), -2);
    int core = put_two_nodes();
    assert_int_equal(choose("0", &place), 0);
    assert_int_equal(CPU_COUNT(&place.cores), 1);
    assert_true(CPU_ISSET(core, &place.cores));
    assert_int_equal(choose("1", &place), 1);
    assert_true(CPU_COUNT(&place.cores) >= 1);
    assert_int_equal(choose("none", &place), -1);
    static const char *const senseless[] = {"", "-1", "node0", "0x", "2", "99999999999999999999"};
    for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++)
        assert_int_equal(choose(senseless[i], &place), -2);
    put(NODE(1), "\n"); /* a node with memory but without cores */
    assert_int_equal(choose("1", &place), -2);
    put(NODE(1), "0-\xff\n");
    assert_int_equal(choose("1", &place), -2);
}

static void auto_is_the_node_of_the_devices(void **state)
{
    struct psti_numa_place place;
    (void)state;
    assert_int_equal(choose("auto", &place), -1);
    put_two_nodes();
    assert_int_equal(choose("auto", &place), -1); /* no driver */
    put("/sys/bus/pci/drivers/nvidia/bind", "");
    assert_int_equal(choose("auto", &place), -1); /* no device */
    put(DEVICE("0000:3b:00.0"), "0\n");
    assert_int_equal(choose("auto", &place), 0);
    put(DEVICE("0000:5e:00.0"), "0\n");
    assert_int_equal(choose("auto", &place), 0);
    put(DEVICE("0000:af:00.0"), "1\n");
    assert_int_equal(choose("auto", &place), -1); /* two nodes */
    put(DEVICE("0000:3b:00.0"), "1\n");
    put(DEVICE("0000:5e:00.0"), "1\n");
    assert_int_equal(choose("auto", &place), 1);
    put(DEVICE("0000:5e:00.0"), "-1\n"); /* the firmware does not state a node */
    assert_int_equal(choose("auto", &place), -1);
    put(DEVICE("0000:3b:00.0"), "7\n");
    put(DEVICE("0000:5e:00.0"), "7\n");
    put(DEVICE("0000:af:00.0"), "7\n");
    assert_int_equal(choose("auto", &place), -1); /* a node that the machine does not have */
}

static void look(void *cores) { (void)sched_getaffinity(0, sizeof(cpu_set_t), cores); }

static void a_thread_is_moved_and_comes_back(void **state)
{
    struct psti_numa_place place;
    struct psti_numa_before before;
    cpu_set_t at_first, inside, after;
    pthread_t thread;
    struct pst_error err;
    (void)state;
    put_two_nodes();
    look(&at_first);
    assert_int_equal(choose("0", &place), 0);
    psti_numa_enter(&place, &before);
    assert_ok(psti_thread_start(&thread, "look", look, &inside, &err));
    psti_thread_join(thread);
    assert_true(CPU_EQUAL(&inside, &place.cores));
    psti_numa_leave(&before);
    look(&after);
    assert_true(CPU_EQUAL(&after, &at_first));
    place.node = -1;
    psti_numa_enter(&place, &before);
    look(&after);
    assert_true(CPU_EQUAL(&after, &at_first));
    assert_false(before.has_memory);
    psti_numa_leave(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(a_node_is_chosen_by_its_number),
        TREE_TEST(auto_is_the_node_of_the_devices),
        TREE_TEST(a_thread_is_moved_and_comes_back),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
