/* containers_hub_int.h - what the readers of the folders of `datasets` share. */
#ifndef PST_CONTAINERS_CONTAINERS_HUB_INT_H
#define PST_CONTAINERS_CONTAINERS_HUB_INT_H

#include "containers/list/containers_shards.h"

struct psti_hub_folder {
    struct psti_container_list *list;
    const char *split;               /* that is asked for; NULL: all */
    struct psti_container_home home; /* the folder; `index` is the file that is read */
    bool only_counts;                /* shards are counted, and not added */
    size_t n_shards;
    struct pst_error *err;
};

/* Writes the path of a file in a folder. False: there is no such file. */
bool psti_containers_hub_has(const char *folder, const char *name, char path[PATH_MAX]);
/* Adds a file that lies below the folder. */
enum pst_status psti_containers_hub_shard(struct psti_hub_folder *hub, const char *name,
                                          int32_t i_split);
/* Is this the split that is asked for, or is none? */
bool psti_containers_hub_wants(const struct psti_hub_folder *hub, const char *name);
/* Tells how much of a name stands before "-00000-of-00002", or else before the ending. *total: the
 * last number; 0 if there is none. */
void psti_containers_hub_stem(const char *name, size_t *n, uint32_t *total);

/* Is this a repository with files that are read? */
bool psti_containers_hub_is_repository(const char *folder);
/* Adds its shards. The home may become wider (containers_hub_folder.h). */
enum pst_status psti_containers_hub_repository(struct psti_hub_folder *hub);

#endif
