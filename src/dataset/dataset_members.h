/* dataset_members.h - functions about containers, for other folders of src/ that need them. */
#ifndef PST_DATASET_DATASET_MEMBERS_H
#define PST_DATASET_DATASET_MEMBERS_H

#include <penstock/dataset.h>

/* True if the path names containers, such as a tar. Only names are looked at. False for a folder
 * that has an index, a journal or shards of Penstock. */
bool psti_dataset_means_containers(const char *path);

/* Returns the descriptors of the containers' folder and of their index, which belong to the data
 * set. False: the data set is packed or a plain folder. */
bool psti_dataset_container_fds(const pst_dataset *dataset, int *folder, int *index);

/* Opens containers by the descriptors of their folder and of their index. The caller keeps both,
 * and must keep the folder open as long as the data set.
 *
 * PST_ERROR_STATE: the index does not fit the files, or its owner is neither root, nor this user,
 *     nor the owner of the folder.
 * PST_ERROR_CORRUPT, TRUNCATED, CHECKSUM: the index is damaged. */
enum pst_status psti_dataset_open_by_fds(int folder, int index, pst_dataset **out,
                                         struct pst_error *err);

#endif
