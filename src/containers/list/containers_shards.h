/* containers_shards.h - what the readers of texts and of other people's indexes add to a list. */
#ifndef PST_CONTAINERS_CONTAINERS_SHARDS_H
#define PST_CONTAINERS_CONTAINERS_SHARDS_H

#include "containers/list/containers_list.h"

enum {
    PSTI_SPLIT_NONE = -1,
    PSTI_SPLIT_TWO = -2, /* the name has words of two splits */
};

/* Copies a path without empty parts and ".". `out` has room for the path, and may be it. */
void psti_containers_shards_normalise(const char *path, char *out);
/* Adds a shard. `path` is the way to it from here; it becomes relative to the base at the end. */
enum pst_status psti_containers_shards_add(struct psti_container_list *list, const char *path,
                                           int64_t n_samples, int32_t i_split,
                                           struct pst_error *err);
/* Takes the shards from number n on out of the list. */
void psti_containers_shards_cut(struct psti_container_list *list, size_t n);
/* Adds a sample that is left out, a field. */
enum pst_status psti_containers_shards_exclude(struct psti_container_list *list, uint32_t i_shard,
                                               const char *key, struct pst_error *err);
enum pst_status psti_containers_shards_field(struct psti_container_list *list, const char *name,
                                             const char *source, struct pst_error *err);

/* A folder in which an index of others lies. */
struct psti_container_home {
    const char *folder;  /* the way to it from here; "" is the current one */
    const char *index;   /* path of the index, for messages */
    char real[PATH_MAX]; /* without links */
};

/* Fills `real`. */
enum pst_status psti_containers_shards_home(struct psti_container_home *home,
                                            struct pst_error *err);
/* Makes the path of a shard that the index names, and refuses it if it leads out of the folder: by
 * its name, or by links. */
enum pst_status psti_containers_shards_below(const struct psti_container_home *home,
                                             const char *name, char out[PATH_MAX],
                                             struct pst_error *err);

/* Is this the name of a known split, in lower case? */
bool psti_containers_is_split_name(const char *name);
/* Finds or adds a split. */
enum pst_status psti_containers_splits_intern(struct psti_container_list *list, const char *name,
                                              int32_t *i_split, struct pst_error *err);
/* Finds the split that a user means: the one of this name, else the one that has another word for
 * the same. *i_split: PSTI_SPLIT_NONE if there is none. PST_ERROR_ARGUMENT: there are two. */
enum pst_status psti_containers_splits_choose(const struct psti_container_names *splits,
                                              const char *split, int32_t *i_split,
                                              struct pst_error *err);
/* Fills an error that names the splits that exist. Returns `status`. */
enum pst_status psti_containers_splits_fail(const struct psti_container_names *splits,
                                            enum pst_status status, const char *what,
                                            struct pst_error *err);
/* Gives each shard its split, by its name, and keeps those of `split` (NULL: all).
 * needs_one: it is an error if no split is asked for and there are several. */
enum pst_status psti_containers_splits_apply(struct psti_container_list *list, const char *split,
                                             bool needs_one, struct pst_error *err);

#endif
