/* dataset_container.h - data sets whose samples lie in other people's files, by an index of ours.
 */
#ifndef PST_DATASET_DATASET_CONTAINER_H
#define PST_DATASET_DATASET_CONTAINER_H

#include "dataset/dataset_int.h"

/* Opens the index in `fd`, which it takes over, also after failure. Its files lie in the folder
 * `base`; index_path is for messages. `path` is what the data set calls itself. options NULL: any.
 * *fits: false, with PST_OK and without a data set, if the index is of other options, of other
 * rules, or if a file changed; *why then says what, in a few words.
 *
 * PST_ERROR_CORRUPT, TRUNCATED, CHECKSUM, UNSUPPORTED: the index cannot be used. */
enum pst_status psti_dataset_open_container_index(const char *path, const char *base,
                                                  const char *index_path, int fd,
                                                  const uint8_t options[16], bool *fits,
                                                  char why[PST_ERROR_PATH_CAP], pst_dataset **out,
                                                  struct pst_error *err);

/* Work on an index beyond finding it. */
struct psti_container_work {
    bool check, merge;               /* in: as in pst_index_options */
    uint32_t part, n_parts;          /* in: likewise */
    bool was_made, was_wrong;        /* out: as in pst_index_report */
    uint64_t n_files, n_made_before; /* out: likewise */
};

/* Opens the shards that the text means (containers_list.h), by their index, which is made if there
 * is none that fits. options: a copy of full size. work: NULL: none. *out stays NULL if a part was
 * asked for. */
enum pst_status psti_dataset_open_container(const char *text,
                                            const struct pst_dataset_options *options,
                                            struct psti_container_work *work, pst_dataset **out,
                                            struct pst_error *err);

/* Compares the file with what it was when it was walked. PST_ERROR_CORRUPT: it changed. */
enum pst_status psti_dataset_container_compare_file(const pst_dataset *dataset, uint32_t i_file,
                                                    struct pst_error *err);
/* The index's header, and what it says of a field. They live as long as the data set. */
struct psti_container_header;
struct psti_container_field;
const struct psti_container_header *psti_dataset_container_header(const pst_dataset *dataset);
const struct psti_container_field *psti_dataset_container_field(const pst_dataset *dataset,
                                                                uint32_t i_field);
/* Copies bytes of the index's payload, whose blocks are verified. */
enum pst_status psti_dataset_container_read(const pst_dataset *dataset, uint64_t offset,
                                            uint64_t nbytes, void *out, struct pst_error *err);
/* The folder of the files, absolute; lives as long as the data set. */
const char *psti_dataset_container_folder(const pst_dataset *dataset);
uint64_t psti_dataset_container_first_sample(const pst_dataset *dataset, uint32_t i_file);

/* Sums that are known already: [PST_MAX_FIELDS] columns, each [n_samples]; NULL: the field gets
 * none. */
struct psti_container_known {
    _Atomic uint64_t *columns[PST_MAX_FIELDS];
};
/* Writes the sums of all items into the index at `index_path`, which no one else uses yet and whose
 * files lie in the folder `base`. The bytes of the items are read, or, if known is not NULL, its
 * sums are taken. in_rows: items whose rows have a sum keep it, and are not read. The identities
 * stay as they are. saved: it is told the progress.
 *
 * PST_ERROR_STATE: a file changed meanwhile. */
struct psti_saved;
enum pst_status psti_dataset_container_add_sums(const char *base, const char *index_path,
                                                struct psti_saved *saved,
                                                const struct psti_container_known *known,
                                                bool in_rows, struct pst_error *err);
/* The path of the index; lives as long as the data set. */
const char *psti_dataset_container_index_path(const pst_dataset *dataset);
/* The path of file i_file, relative to dir_fd; lives as long as the data set. */
const char *psti_dataset_container_file_name(const pst_dataset *dataset, uint32_t i_file);

#endif
