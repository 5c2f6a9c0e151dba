/* containers_hub_int.h - declarations that the readers of Hugging Face folders share. */
#ifndef PST_CONTAINERS_CONTAINERS_HUB_INT_H
#define PST_CONTAINERS_CONTAINERS_HUB_INT_H

#include "containers/list/containers_shards.h"

struct psti_hub_folder {
    struct psti_container_list *list;
    const char *split;               /* split that the user asked for; NULL: all */
    struct psti_container_home home; /* the folder; `index` is the path of the file that is being
                                      * read */
    bool only_counts;                /* shards are only counted, not added to the list */
    size_t n_shards;
    struct pst_error *err;
};

/* Writes the path of a file in a folder to `path`. False: the file does not exist. */
bool psti_containers_hub_has(const char *folder, const char *name, char path[PATH_MAX]);
/* Adds a shard, which must lie below the folder. */
enum pst_status psti_containers_hub_shard(struct psti_hub_folder *hub, const char *name,
                                          int32_t i_split);
/* True if the user asked for this split, or for no split. */
bool psti_containers_hub_wants(const struct psti_hub_folder *hub, const char *name);
/* Sets *n to the length of a file's name before "-00000-of-00002", or before the ending if it has
 * no such number. *total: the second number; 0 if there is none. */
void psti_containers_hub_stem(const char *name, size_t *n, uint32_t *total);

/* True if the folder is a Hub repository whose data files can be read. */
bool psti_containers_hub_is_repository(const char *folder);
/* Adds the shards of a Hub repository. May replace hub->home.real by a folder above it, as
 * containers_hub_folder.h explains. */
enum pst_status psti_containers_hub_repository(struct psti_hub_folder *hub);

#endif
