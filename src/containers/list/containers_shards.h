/* containers_shards.h - functions that fill a list of shards, for the readers of texts and of other
 * programs' indexes. */
#ifndef PST_CONTAINERS_CONTAINERS_SHARDS_H
#define PST_CONTAINERS_CONTAINERS_SHARDS_H

#include "containers/list/containers_list.h"

enum {
    PSTI_SPLIT_NONE = -1,
    PSTI_SPLIT_TWO = -2, /* the name has words of two different splits */
};

/* Copies a path without empty parts and without ".". `out` needs as much room as the path, and may
 * be the same buffer. */
void psti_containers_shards_normalise(const char *path, char *out);
/* Adds a shard. `path` is relative to the current folder; it is made relative to the base later. */
enum pst_status psti_containers_shards_add(struct psti_container_list *list, const char *path,
                                           int64_t n_samples, int32_t i_split,
                                           struct pst_error *err);
/* Removes the shards from number n on. */
void psti_containers_shards_cut(struct psti_container_list *list, size_t n);
/* Adds an excluded sample. psti_containers_shards_field adds a field of Energon. */
enum pst_status psti_containers_shards_exclude(struct psti_container_list *list, uint32_t i_shard,
                                               const char *key, struct pst_error *err);
enum pst_status psti_containers_shards_field(struct psti_container_list *list, const char *name,
                                             const char *source, struct pst_error *err);

/* A folder that holds another program's index. */
struct psti_container_home {
    const char *folder;  /* the folder, relative to the current one; "" is the current one */
    const char *index;   /* path of the index, for messages */
    char real[PATH_MAX]; /* path with all symbolic links resolved */
};

/* Sets home->real, the folder's path without links. */
enum pst_status psti_containers_shards_home(struct psti_container_home *home,
                                            struct pst_error *err);
/* Makes the path of a shard that an index names. Refuses it if it lies outside of the folder, by
 * its name or through links. */
enum pst_status psti_containers_shards_below(const struct psti_container_home *home,
                                             const char *name, char out[PATH_MAX],
                                             struct pst_error *err);

/* True for the lower-case name of a known split. */
bool psti_containers_is_split_name(const char *name);
/* Finds a split by its name, or adds it. */
enum pst_status psti_containers_splits_intern(struct psti_container_list *list, const char *name,
                                              int32_t *i_split, struct pst_error *err);
/* Finds the split that the user means: the one of this name, or else one whose name is another word
 * for the same split. *i_split: PSTI_SPLIT_NONE if there is none. PST_ERROR_ARGUMENT: several
 * splits fit. */
enum pst_status psti_containers_splits_choose(const struct psti_container_names *splits,
                                              const char *split, int32_t *i_split,
                                              struct pst_error *err);
/* Fills in an error that lists the splits that exist. Returns `status`. */
enum pst_status psti_containers_splits_fail(const struct psti_container_names *splits,
                                            enum pst_status status, const char *what,
                                            struct pst_error *err);
/* Gives each shard without a split the one that its name tells, and keeps the shards of `split`
 * (NULL: all). needs_one: fail if there are several splits and the user named none. */
enum pst_status psti_containers_splits_apply(struct psti_container_list *list, const char *split,
                                             bool needs_one, struct pst_error *err);

#endif
