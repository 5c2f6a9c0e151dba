/* dataset_members.h - files of others, with many samples in each: for rooms that must know of them.
 */
#ifndef PST_DATASET_DATASET_MEMBERS_H
#define PST_DATASET_DATASET_MEMBERS_H

#include <penstock/dataset.h>

/* True if the path means such files, such as a tar, by names alone. An index, a journal or shards
 * of Penstock in a folder say that it does not. */
bool psti_dataset_means_containers(const char *path);

/* The descriptors of the folder of the files and of their index. They are the data set's. False: it
 * has none, because it is packed or a plain folder. */
bool psti_dataset_container_fds(const pst_dataset *dataset, int *folder, int *index);

/* Opens such files by the descriptors of their folder and of their index, which stay the caller's;
 * that of the folder must stay open as long as the data set.
 *
 * PST_ERROR_STATE: the index does not fit the files, or who owns it is neither root, nor this user,
 * nor the owner of the folder. PST_ERROR_CORRUPT, TRUNCATED, CHECKSUM: it is damaged. */
enum pst_status psti_dataset_open_by_fds(int folder, int index, pst_dataset **out,
                                         struct pst_error *err);

#endif
