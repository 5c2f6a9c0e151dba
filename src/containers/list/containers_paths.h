/* containers_paths.h - lists of names, contents of folders, and helpers for file names.
 *
 * Any thread; each list is used by one thread at a time. */
#ifndef PST_CONTAINERS_CONTAINERS_PATHS_H
#define PST_CONTAINERS_CONTAINERS_PATHS_H

#include "containers/containers.h"

#include <limits.h>

/* A list of names. All members zero is an empty list. */
struct psti_container_names {
    char **at; /* owned, NUL-terminated */
    size_t n, capacity;
};

enum pst_status psti_containers_paths_add(struct psti_container_names *names, const char *text,
                                          size_t nbytes, struct pst_error *err);
/* Sorts the names by their bytes. */
void psti_containers_paths_sort(struct psti_container_names *names);
bool psti_containers_paths_has(const struct psti_container_names *names, const char *name);
void psti_containers_paths_free(struct psti_container_names *names);

/* Adds the names in a folder for which `takes` returns true, in no particular order. Skips names
 * that begin with a dot. Links are followed; links to nowhere are skipped. */
enum pst_status psti_containers_folder(
    const char *path, bool (*takes)(void *context, const char *name, bool is_folder), void *context,
    struct psti_container_names *names, struct pst_error *err);
/* Writes "folder/name" to `out`, or only the name if the folder is "". PST_ERROR_LIMIT: the path is
 * too long. */
enum pst_status psti_containers_join(const char *folder, const char *name, char out[PATH_MAX],
                                     struct pst_error *err);

/* Returns the part of a path behind its last slash. */
const char *psti_containers_base_name(const char *path);
bool psti_containers_ends_with(const char *text, const char *end);
/* True if the name ends like a compressed tar: ".tar.gz", ".tgz" and the like. */
bool psti_containers_is_packed_name(const char *path);
/* Fills in the error for a file with such a name; it gives the advice of
 * psti_containers_tar_open. */
enum pst_status psti_containers_refuse_packed(const char *path, struct pst_error *err);

#endif
