/* numa.c - finds NUMA nodes in /sys, and binds threads and their memory to a node.
 *
 * /sys/devices/system/node has a directory for each node, with the list of its cores. The NVIDIA
 * driver has a link for each of its devices, named by PCI address, in /sys/bus/pci/drivers/nvidia;
 * the device's directory tells its node. Memory is requested by set_mempolicy, called by its system
 * call number, because the C library has no function for it. The node is only preferred, so a
 * process is not killed when the node's memory is full. */
#include "base/machine/numa.h"

#include "base/fail.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES "/sys/devices/system/node"
#define DEVICES "/sys/bus/pci/drivers/nvidia"
#define NODES_MAX 1024 /* the kernel's own limit */

/* Values from <linux/mempolicy.h>, which old systems lack. */
#define POLICY_PREFERRED 1

static bool read_line(const char *path, char *line, size_t capacity)
{
    FILE *file = fopen(path, "re");
    bool found = file && fgets(line, (int)capacity, file);
    if (file)
        fclose(file);
    return found;
}

/* Parses a list of cores such as "0-7,16-23". Returns false if the text is no such list. */
static bool parse_cores(const char *text, cpu_set_t *cores)
{
    CPU_ZERO(cores);
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long core = first; core <= last && core < CPU_SETSIZE; core++)
            CPU_SET(core, cores);
        text = end + (*end == ',');
    }
    return *text == '\0' || *text == '\n';
}

static bool cores_of(const char *root, int node, cpu_set_t *cores)
{
    char path[512], line[4096];
    snprintf(path, sizeof path, "%.300s" NODES "/node%d/cpulist", root, node);
    return read_line(path, line, sizeof line) && parse_cores(line, cores);
}

static int count_nodes(const char *root)
{
    char path[512];
    int n = 0, node;
    snprintf(path, sizeof path, "%.300s" NODES, root);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;)
        n += sscanf(entry->d_name, "node%d", &node) == 1;
    if (directory)
        closedir(directory);
    return n;
}

/* Returns the node to which all CUDA devices belong. Returns -1 if there is no device, if they
 * belong to several nodes, or if the system does not tell. */
static int node_of_devices(const char *root)
{
    char path[1024], line[64];
    int found = -1;
    snprintf(path, sizeof path, "%.300s" DEVICES, root);
    DIR *directory = opendir(path);
    if (!directory)
        return -1;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (!strchr(entry->d_name, ':'))
            continue; /* "bind" and other entries are no devices */
        snprintf(path, sizeof path, "%.300s" DEVICES "/%.255s/numa_node", root, entry->d_name);
        int node = read_line(path, line, sizeof line) ? (int)strtol(line, NULL, 10) : -1;
        if (node < 0 || (found >= 0 && node != found)) {
            found = -1;
            break;
        }
        found = node;
    }
    closedir(directory);
    return found;
}

static bool parse_node(const char *text, int *node)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long value = strtoul(text, &end, 10);
    *node = value < NODES_MAX ? (int)value : NODES_MAX;
    return *end == '\0';
}

enum pst_status psti_numa_choose(const char *root, const char *choice,
                                 struct psti_numa_place *place, struct pst_error *err)
{
    cpu_set_t allowed;
    int node = -1, n_nodes = count_nodes(root);
    bool automatic = strcmp(choice, "auto") == 0;
    place->node = -1;
    if (strcmp(choice, "none") == 0)
        return PST_OK;
    if (automatic)
        node = node_of_devices(root);
    else if (!parse_node(choice, &node))
        return psti_fail(err, PST_ERROR_ARGUMENT, "base",
                         "a NUMA node is its number, \"auto\" or \"none\", not \"%s\"", choice);
    if (node < 0 || (n_nodes <= 1 && (automatic || node == 0)))
        return PST_OK;
    if (!cores_of(root, node, &place->cores))
        return automatic ? PST_OK
                         : psti_fail(err, PST_ERROR_ARGUMENT, "base",
                                     "this machine has no NUMA node %d", node);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        CPU_AND(&place->cores, &place->cores, &allowed);
    if (CPU_COUNT(&place->cores) > 0)
        place->node = node;
    else if (!automatic)
        return psti_fail(err, PST_ERROR_ARGUMENT, "base",
                         "this process may use no core of NUMA node %d", node);
    return PST_OK;
}

void psti_numa_enter(const struct psti_numa_place *place, struct psti_numa_before *before)
{
    unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
    const size_t bits = 8 * sizeof *nodes;
    memset(before, 0, sizeof *before);
    if (place->node < 0)
        return;
    before->has_cores = sched_getaffinity(0, sizeof before->cores, &before->cores) == 0 &&
                        sched_setaffinity(0, sizeof place->cores, &place->cores) == 0;
    nodes[(size_t)place->node / bits] = 1ul << ((size_t)place->node % bits);
    before->has_memory =
        syscall(SYS_get_mempolicy, &before->mode, before->nodes, (unsigned long)NODES_MAX, NULL,
                0ul) == 0 &&
        syscall(SYS_set_mempolicy, POLICY_PREFERRED, nodes, (unsigned long)NODES_MAX + 1) == 0;
}

void psti_numa_leave(const struct psti_numa_before *before)
{
    if (before->has_cores)
        (void)sched_setaffinity(0, sizeof before->cores, &before->cores);
    /* The default policy must be set with an empty set of nodes. */
    if (before->has_memory)
        (void)syscall(SYS_set_mempolicy, before->mode, before->mode ? before->nodes : NULL,
                      before->mode ? (unsigned long)NODES_MAX + 1 : 0ul);
}
