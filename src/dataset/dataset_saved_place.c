/* dataset_saved_place.c - the two places where saved indexes lie, and which owners are trusted
 * there.
 *
 * In: the folder of the data. Out: open folders and files. No link within a place is followed. One
 * thread uses a handle. */
#include "dataset/dataset_saved_int.h"

#include "base/fail.h"
#include "base/fault.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds the folder for caches. False: no environment variable names one. */
static bool cache_folder(char path[PATH_MAX])
{
    static const struct {
        const char *variable, *below;
    } ways[] = {
        {"PENSTOCK_CACHE_DIR", ""}, {"XDG_CACHE_HOME", "/penstock"}, {"HOME", "/.cache/penstock"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *value = getenv(ways[i].variable);
        if (value == NULL || value[0] == '\0')
            continue;
        int n = snprintf(path, PATH_MAX, "%s%s", value, ways[i].below);
        return n > 0 && n < PATH_MAX;
    }
    return false;
}

enum pst_status psti_dataset_saved_set_places(struct psti_saved *saved, struct pst_error *err)
{
    char cache[PATH_MAX], key[33];
    struct psti_hash_pair hash;
    struct stat st;
    uint8_t id[16];
    int n = snprintf(saved->places[0].path, PATH_MAX, "%s/" PSTI_SAVED_FOLDER, saved->folder);
    if (n < 0 || n >= PATH_MAX)
        return psti_fail_at(err, PST_ERROR_LIMIT, "dataset", saved->folder, -1,
                            "the path is too long for an index beside the data");
    saved->has_owner = stat(saved->folder, &st) == 0;
    saved->owner = saved->has_owner ? st.st_uid : 0;
    /* A path below /proc leads to an open folder of this process, and would name another folder in
     * the next process. */
    if (strncmp(saved->folder, "/proc/", 6) == 0 || !cache_folder(cache))
        return PST_OK;
    psti_hash_pair_begin(&hash);
    psti_hash_pair_update(&hash, saved->folder, strlen(saved->folder));
    psti_hash_pair_end(&hash, id);
    for (int i = 0; i < 16; i++)
        snprintf(key + 2 * (size_t)i, 3, "%02x", id[i]);
    n = snprintf(saved->places[1].path, PATH_MAX, "%s/index/%s", cache, key);
    if (n < 0 || n >= PATH_MAX)
        saved->places[1].path[0] = '\0';
    return PST_OK;
}

bool psti_dataset_saved_owner_counts(const struct stat *st, const uid_t *data_owner)
{
    return st->st_uid == 0 || st->st_uid == geteuid() ||
           (data_owner != NULL && st->st_uid == *data_owner);
}

bool psti_dataset_saved_trusts(const struct psti_saved *saved, unsigned i_place,
                               const struct stat *st)
{
    if ((st->st_mode & S_IWOTH) != 0)
        return false;
    return psti_dataset_saved_owner_counts(st,
                                           i_place == 0 && saved->has_owner ? &saved->owner : NULL);
}

static int make_folder(const char *path, mode_t mode)
{
    return psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : mkdir(path, mode);
}

/* Makes the index folder below the cache folder, with its parents. */
static int make_cache_folder(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        struct stat st;
        *slash = '\0';
        if (stat(part, &st) != 0 && make_folder(part, 0700) != 0 && errno != EEXIST)
            return -1;
        *slash = '/';
    }
    return make_folder(path, 0700);
}

int psti_dataset_saved_open_place(struct psti_saved *saved, unsigned i_place, bool *made)
{
    const struct psti_saved_place *place = &saved->places[i_place];
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    struct stat st;
    if (place->path[0] == '\0') {
        errno = ENOENT;
        return -1;
    }
    int fd = open(place->path, flags);
    if (fd < 0 && errno == ENOENT && made != NULL) {
        int failed = i_place == 0 ? make_folder(place->path, 0777) : make_cache_folder(place->path);
        if (failed != 0 && errno != EEXIST)
            return -1;
        *made = failed == 0;
        fd = open(place->path, flags);
    }
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && psti_dataset_saved_trusts(saved, i_place, &st))
        return fd;
    close(fd);
    errno = EACCES;
    return -1;
}

int psti_dataset_saved_open_index(struct psti_saved *saved, unsigned i_place, struct stat *st,
                                  struct psti_saved_seen *seen)
{
    int dir = psti_dataset_saved_open_place(saved, i_place, NULL);
    memset(seen, 0, sizeof *seen);
    if (dir < 0)
        return -1;
    int fd = openat(dir, saved->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    close(dir);
    if (fd < 0)
        return -1;
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode) ||
        !psti_dataset_saved_trusts(saved, i_place, st)) {
        close(fd);
        return -1;
    }
    *seen = (struct psti_saved_seen){.device = (uint64_t)st->st_dev,
                                     .inode = (uint64_t)st->st_ino,
                                     .nbytes = (uint64_t)st->st_size,
                                     .mtime_s = st->st_mtim.tv_sec,
                                     .mtime_ns = st->st_mtim.tv_nsec};
    return fd;
}

bool psti_dataset_saved_changed(struct psti_saved *saved)
{
    for (unsigned i = 0; i < PSTI_SAVED_N_PLACES; i++) {
        struct psti_saved_seen now;
        struct stat st;
        int fd = psti_dataset_saved_open_index(saved, i, &st, &now);
        if (fd >= 0)
            close(fd);
        if (fd >= 0 && memcmp(&now, &saved->places[i].seen, sizeof now) != 0)
            return true;
    }
    return false;
}

const char *psti_dataset_saved_show(struct psti_saved *saved, unsigned i_place, const char *name)
{
    snprintf(saved->shown, sizeof saved->shown, "%s/%s", saved->places[i_place].path, name);
    return saved->shown;
}
