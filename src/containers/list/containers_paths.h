/* containers_paths.h - lists of names and paths, folders, and what the name of a shard tells.
 *
 * Any thread; one uses a list at a time. */
#ifndef PST_CONTAINERS_CONTAINERS_PATHS_H
#define PST_CONTAINERS_CONTAINERS_PATHS_H

#include "containers/containers.h"

#include <limits.h>

/* All zero is an empty list. */
struct psti_container_names {
    char **at; /* owned, NUL-terminated */
    size_t n, capacity;
};

enum pst_status psti_containers_paths_add(struct psti_container_names *names, const char *text,
                                          size_t nbytes, struct pst_error *err);
/* Sorts by the bytes of the names. */
void psti_containers_paths_sort(struct psti_container_names *names);
bool psti_containers_paths_has(const struct psti_container_names *names, const char *name);
void psti_containers_paths_free(struct psti_container_names *names);

/* Adds the names in a folder that `takes` takes, in no order. Names that begin with a dot are
 * passed over. Links are what they lead to; those that lead nowhere are passed over. */
enum pst_status psti_containers_folder(
    const char *path, bool (*takes)(void *context, const char *name, bool is_folder), void *context,
    struct psti_container_names *names, struct pst_error *err);
/* Writes "folder/name" to `out`; only the name if the folder is "". PST_ERROR_LIMIT: it is too long
 * for a path. */
enum pst_status psti_containers_join(const char *folder, const char *name, char out[PATH_MAX],
                                     struct pst_error *err);

/* The last part of a path. */
const char *psti_containers_base_name(const char *path);
bool psti_containers_ends_with(const char *text, const char *end);
/* True for the name of a compressed tar: ".tar.gz", ".tgz" and their like. */
bool psti_containers_is_packed_name(const char *path);
/* Refuses a file with such a name, with the advice of psti_containers_tar_open. */
enum pst_status psti_containers_refuse_packed(const char *path, struct pst_error *err);

#endif
