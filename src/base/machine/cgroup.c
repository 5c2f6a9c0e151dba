/* cgroup.c - finds the directories of this process's control groups.
 *
 * /proc/self/cgroup names the groups. A line of version 2 is "0::/path". A line of version 1 is
 * "4:cpu,cpuacct:/path". The hierarchy of such a line is mounted in a directory that is named after
 * all its controllers or after one of them. */
#include "base/machine/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOUNT "/sys/fs/cgroup"
#define PATH_NBYTES 4096

struct walk {
    const char *root, *controller;
    void (*visit)(void *ctx, const char *directory);
    void *ctx;
};

bool psti_cgroup_read(const char *directory, const char *name, char line[64])
{
    char path[PATH_NBYTES + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    bool found = file && fgets(line, 64, file);
    if (file)
        fclose(file);
    return found;
}

uint64_t psti_cgroup_read_key(const char *directory, const char *name, const char *key)
{
    char path[PATH_NBYTES + 64], line[128];
    uint64_t value = 0;
    size_t length = strlen(key);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            value = strtoull(line + length + 1, NULL, 10);
            break;
        }
    if (file)
        fclose(file);
    return value;
}

/* Visits the group `path` below `mount` and all its parents up to the mount point. */
static void walk_upwards(const struct walk *walk, const char *mount, const char *path)
{
    char directory[PATH_NBYTES];
    int length = snprintf(directory, sizeof directory, "%s%s", mount, path);
    size_t top = strlen(mount);
    if (length < 0 || (size_t)length >= sizeof directory || strstr(path, "/..")) {
        walk->visit(walk->ctx, mount);
        return;
    }
    for (;;) {
        walk->visit(walk->ctx, directory);
        char *slash = strrchr(directory + top, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* Returns true if a list such as "cpu,cpuacct" contains the controller. */
static bool has_controller(const char *list, const char *controller)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        size_t length = strcspn(at, ",");
        if (length == strlen(controller) && memcmp(at, controller, length) == 0)
            return true;
    }
    return false;
}

/* Visits the groups that one line of /proc/self/cgroup names. Splits the line in place. */
static void walk_line(const struct walk *walk, char *line)
{
    char mount[PATH_NBYTES];
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path || strlen(walk->root) > PATH_NBYTES / 2)
        return;
    *controllers++ = *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    if (strcmp(path, "/") == 0)
        *path = '\0';
    if (!*controllers) {
        snprintf(mount, sizeof mount, "%s%s", walk->root, MOUNT);
        walk_upwards(walk, mount, path);
        return;
    }
    if (!has_controller(controllers, walk->controller))
        return;
    snprintf(mount, sizeof mount, "%s%s/%.200s", walk->root, MOUNT, controllers);
    walk_upwards(walk, mount, path);
    snprintf(mount, sizeof mount, "%s%s/%s", walk->root, MOUNT, walk->controller);
    walk_upwards(walk, mount, path);
}

void psti_cgroup_walk(const char *root, const char *controller,
                      void (*visit)(void *ctx, const char *directory), void *ctx)
{
    const struct walk walk = {root, controller, visit, ctx};
    char line[PATH_NBYTES];
    snprintf(line, sizeof line, "%.2000s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file))
        walk_line(&walk, line);
    if (file)
        fclose(file);
}
