/* dataset_container.h - data sets whose samples lie in other programs' containers, read through an
 * index. */
#ifndef PST_DATASET_DATASET_CONTAINER_H
#define PST_DATASET_DATASET_CONTAINER_H

#include "dataset/dataset_int.h"

/* Opens the index in `fd`, which it takes over, even after failure. The containers lie in the
 * folder `base`; index_path is for messages, `path` is the name of the data set. options NULL: any.
 * *fits: false, with PST_OK and no data set, if the index is for other options or other rules, or
 * if a file changed; `why` then says which, in a few words.
 *
 * PST_ERROR_CORRUPT, TRUNCATED, CHECKSUM, UNSUPPORTED: the index cannot be used. */
enum pst_status psti_dataset_open_container_index(const char *path, const char *base,
                                                  const char *index_path, int fd,
                                                  const uint8_t options[16], bool *fits,
                                                  char why[PST_ERROR_PATH_CAP], pst_dataset **out,
                                                  struct pst_error *err);

/* Work on an index besides finding or making it. */
struct psti_container_work {
    bool check, merge;               /* input: the members of pst_index_options with these names */
    uint32_t part, n_parts;          /* in: likewise */
    bool was_made, was_wrong;        /* output: the members of pst_index_report with these names */
    uint64_t n_files, n_made_before; /* out: likewise */
};

/* Opens the shards that a text names (containers_list.h) through their index. Makes the index if
 * none fits. options: a copy of full size. work: NULL: none. *out stays NULL if only a part of the
 * index was asked for. */
enum pst_status psti_dataset_open_container(const char *text,
                                            const struct pst_dataset_options *options,
                                            struct psti_container_work *work, pst_dataset **out,
                                            struct pst_error *err);

/* Compares a file with what it was when it was indexed. PST_ERROR_CORRUPT: it changed. */
enum pst_status psti_dataset_container_compare_file(const pst_dataset *dataset, uint32_t i_file,
                                                    struct pst_error *err);
/* Return the index's header and the description of a field. Both live as long as the data set. */
struct psti_container_header;
struct psti_container_field;
const struct psti_container_header *psti_dataset_container_header(const pst_dataset *dataset);
const struct psti_container_field *psti_dataset_container_field(const pst_dataset *dataset,
                                                                uint32_t i_field);
/* Copies bytes of the index's payload, after its blocks were verified. */
enum pst_status psti_dataset_container_read(const pst_dataset *dataset, uint64_t offset,
                                            uint64_t nbytes, void *out, struct pst_error *err);
/* Returns the absolute path of the files' folder, which lives as long as the data set. */
const char *psti_dataset_container_folder(const pst_dataset *dataset);
uint64_t psti_dataset_container_first_sample(const pst_dataset *dataset, uint32_t i_file);

/* Known checksums: [PST_MAX_FIELDS] columns of [n_samples] each; NULL: the field gets none. */
struct psti_container_known {
    _Atomic uint64_t *columns[PST_MAX_FIELDS];
};
/* Writes the checksums of all items into the index at `index_path`, which nobody else may use yet.
 * The items' files lie in the folder `base`. The items are read unless `known` has the checksums.
 * in_rows: items whose rows have a checksum keep it and are not read. The identities do not change.
 * saved: receives the progress.
 *
 * PST_ERROR_STATE: a file changed during the call. */
struct psti_saved;
enum pst_status psti_dataset_container_add_sums(const char *base, const char *index_path,
                                                struct psti_saved *saved,
                                                const struct psti_container_known *known,
                                                bool in_rows, struct pst_error *err);
/* Returns the path of the index, which lives as long as the data set. */
const char *psti_dataset_container_index_path(const pst_dataset *dataset);
/* Returns the path of file i_file relative to dir_fd. It lives as long as the data set. */
const char *psti_dataset_container_file_name(const pst_dataset *dataset, uint32_t i_file);

#endif
