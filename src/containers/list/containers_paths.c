/* containers_paths.c - lists of names, contents of folders, and helpers for file names.
 *
 * In: folders of the file system. Out: names in memory. Only folders are opened, no files. */
#include "containers/list/containers_paths.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fault.h"
#include "containers/containers_tar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define ROOM "containers"

enum pst_status psti_containers_paths_add(struct psti_container_names *names, const char *text,
                                          size_t nbytes, struct pst_error *err)
{
    if (names->n == names->capacity) {
        size_t capacity = names->capacity == 0 ? 16 : 2 * names->capacity;
        char **at = psti_realloc(names->at, capacity * sizeof *at);
        if (at == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for %zu names", capacity);
        names->at = at;
        names->capacity = capacity;
    }
    char *copy = psti_alloc(nbytes + 1);
    if (copy == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a name of %zu bytes",
                         nbytes);
    memcpy(copy, text, nbytes);
    copy[nbytes] = '\0';
    names->at[names->n++] = copy;
    return PST_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void psti_containers_paths_sort(struct psti_container_names *names)
{
    if (names->n > 1)
        qsort(names->at, names->n, sizeof *names->at, by_bytes);
}

bool psti_containers_paths_has(const struct psti_container_names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->at[i], name) == 0)
            return true;
    return false;
}

void psti_containers_paths_free(struct psti_container_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        psti_free(names->at[i]);
    psti_free(names->at);
    memset(names, 0, sizeof *names);
}

/* Finds whether an entry is a folder or a file. False: it is neither. */
static bool look_at(int fd, const struct dirent *entry, bool *is_folder)
{
    struct stat st;
    *is_folder = entry->d_type == DT_DIR;
    if (entry->d_type == DT_DIR || entry->d_type == DT_REG)
        return true;
    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
        return false;
    if (fstatat(fd, entry->d_name, &st, 0) != 0)
        return false;
    *is_folder = S_ISDIR(st.st_mode);
    return *is_folder || S_ISREG(st.st_mode);
}

enum pst_status psti_containers_folder(
    const char *path, bool (*takes)(void *context, const char *name, bool is_folder), void *context,
    struct psti_container_names *names, struct pst_error *err)
{
    DIR *dir = opendir(path[0] == '\0' ? "." : path);
    if (dir == NULL)
        return psti_fail_os(err, errno, ROOM, path, -1, "cannot open the folder");
    enum pst_status status = PST_OK;
    while (status == PST_OK) {
        errno = psti_fault(PSTI_FAULT_READ) ? EIO : 0;
        const struct dirent *entry = errno != 0 ? NULL : readdir(dir);
        if (entry == NULL) {
            if (errno != 0)
                status = psti_fail_os(err, errno, ROOM, path, -1, "cannot list the folder");
            break;
        }
        bool is_folder;
        if (entry->d_name[0] != '.' && look_at(dirfd(dir), entry, &is_folder) &&
            takes(context, entry->d_name, is_folder))
            status = psti_containers_paths_add(names, entry->d_name, strlen(entry->d_name), err);
    }
    closedir(dir);
    return status;
}

enum pst_status psti_containers_join(const char *folder, const char *name, char out[PATH_MAX],
                                     struct pst_error *err)
{
    struct psti_text text = {out, PATH_MAX, 0};
    bool has_slash = folder[0] == '\0' || folder[strlen(folder) - 1] == '/';
    psti_text_add(&text, "%s%s%s", folder, has_slash ? "" : "/", name);
    return text.length < PATH_MAX
               ? PST_OK
               : psti_fail_at(err, PST_ERROR_LIMIT, ROOM, folder, -1,
                              "a path below this folder has more than %d bytes", PATH_MAX - 1);
}

const char *psti_containers_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool psti_containers_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcasecmp(text + n - n_end, end) == 0;
}

static const struct {
    const char *long_end, *short_end, *name, *how;
} packers[] = {
    {".tar.gz", ".tgz", "gzip", "gunzip"},    {".tar.zst", ".tzst", "zstd", "unzstd"},
    {".tar.xz", ".txz", "xz", "unxz"},        {".tar.bz2", ".tbz2", "bzip2", "bunzip2"},
    {".tar.lz4", ".tar.lz4", "lz4", "unlz4"},
};

static size_t i_packer(const char *path)
{
    size_t i = 0;
    while (i < sizeof packers / sizeof *packers &&
           !psti_containers_ends_with(path, packers[i].long_end) &&
           !psti_containers_ends_with(path, packers[i].short_end))
        i++;
    return i;
}

bool psti_containers_is_packed_name(const char *path)
{
    return i_packer(path) < sizeof packers / sizeof *packers;
}

enum pst_status psti_containers_refuse_packed(const char *path, struct pst_error *err)
{
    size_t i = i_packer(path);
    return psti_containers_tar_is_packed(path, packers[i].name, packers[i].how, err);
}
