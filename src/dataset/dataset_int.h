/* dataset_int.h - the handle that all kinds of data sets share.
 *
 * Four kinds exist: packed data sets (dataset_index.c), plain folders (dataset_folder.c),
 * containers with an index (dataset_container.c), and mixtures (dataset_mixture.c). Each kind has
 * its own structure with `struct pst_dataset` as the FIRST member, allocates it by psti_calloc, and
 * fills in the common members at open. The common members do not change after open, so they are
 * read without locks. dataset_query.c checks arguments (ranges of sample, field, variant; kind of
 * field) before it calls an operation, and adds the data set's path and the sample number to
 * errors. */
#ifndef PST_DATASET_DATASET_INT_H
#define PST_DATASET_DATASET_INT_H

#include "dataset/dataset.h"

#include "format/format_notice.h"

#include <stdatomic.h>

/* Returns advice as pst_path_advice does, by a file's name alone. Defined in dataset_foreign.c. */
const char *psti_dataset_foreign_name(const char *path);

struct psti_dataset_ops {
    /* Frees what the kind owns besides the common part, but not the structure itself. Also called
     * for a partly opened data set, whose missing parts are zero. */
    void (*close)(pst_dataset *dataset);
    enum pst_status (*sample_name)(const pst_dataset *dataset, uint64_t sample, char *name,
                                   struct pst_error *err); /* PST_NAME_CAP bytes */
    /* Describes an item. The caller has zeroed *item. */
    enum pst_status (*item)(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                            uint32_t variant, struct pst_item *item, struct pst_error *err);
    enum pst_status (*int_value)(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                 int64_t *value, struct pst_error *err);
    enum pst_status (*float_value)(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                   double *value, struct pst_error *err);
    /* Reads the 8-byte values of samples first..first + n - 1 of an int or float field.
     * dataset_query.c checks the range before and the values after. NULL: dataset_query.c reads one
     * value at a time. */
    enum pst_status (*values)(const pst_dataset *dataset, uint32_t i_field, uint64_t first,
                              uint64_t n, void *values, struct pst_error *err);
    /* Returns the name of a class, or NULL if it has none. `label` may be any number. */
    const char *(*class_name)(const pst_dataset *dataset, uint32_t i_field, int64_t label);
    /* Returns a field's pairs of keypoints. NULL: no field has pairs. */
    const uint32_t *(*pairs)(const pst_dataset *dataset, uint32_t i_field);
    /* Writes the path; PST_ERROR_LIMIT if it does not fit. i_file < n_files. */
    enum pst_status (*file_path)(const pst_dataset *dataset, uint32_t i_file, char *buffer,
                                 size_t capacity, struct pst_error *err);
    /* Implements psti_dataset_file_place; i_file < n_files. NULL: always 0. */
    uint64_t (*file_place)(const pst_dataset *dataset, uint32_t i_file);
    /* Implements psti_dataset_file_stamp; i_file < n_files. NULL: always 0. */
    uint64_t (*file_stamp)(const pst_dataset *dataset, uint32_t i_file);
    /* Implements psti_dataset_by_path. NULL: samples are in the order of their files. */
    enum pst_status (*by_path)(const pst_dataset *dataset, uint32_t **samples,
                               struct pst_error *err);
    /* Implement psti_dataset_check_shard and psti_dataset_check_index. NULL: nothing to check. */
    enum pst_status (*check_file)(const pst_dataset *dataset, uint32_t i_file,
                                  struct pst_error *err);
    enum pst_status (*check_index)(const pst_dataset *dataset, struct pst_error *err);
    /* Copies bytes of an item that lies in no file (i_file is PST_FILE_NONE). The range was
     * checked. NULL: the kind has no such items. */
    enum pst_status (*read_memory)(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                   uint64_t start, uint64_t nbytes, void *buffer,
                                   struct pst_error *err);
    /* Implements pst_dataset_read. Arguments except the range were checked. NULL: dataset.c reads
     * the item from its file. */
    enum pst_status (*read)(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                            uint32_t variant, uint64_t start, uint64_t nbytes, void *buffer,
                            struct pst_error *err);
    /* Implements pst_dataset_nbytes. NULL: the result follows from the common members and the
     * shards. */
    enum pst_status (*nbytes)(const pst_dataset *dataset, uint64_t *nbytes, struct pst_error *err);
    /* Computes the identity of the samples. NULL: it is hashed from names and labels. */
    enum pst_status (*samples)(const pst_dataset *dataset, uint8_t identity[16],
                               struct pst_error *err);
};

enum psti_dataset_kind {
    PSTI_DATASET_PACKED = 0,
    PSTI_DATASET_FOLDER = 1,    /* each item is a separate file */
    PSTI_DATASET_CONTAINER = 2, /* items are parts of files that other programs made */
    PSTI_DATASET_MIXTURE = 3,   /* several data sets of the other kinds, as one */
};

struct pst_dataset {
    const struct psti_dataset_ops *ops;
    atomic_uint n_owners;
    char *path; /* absolute path without links, resolved at open */
    int dir_fd; /* directory of the shards or containers; -1 for a folder */
    uint8_t id[16];
    uint8_t bytes_identity[16], listed_identity[16];
    uint8_t files_identity[16];
    bool has_files_identity;
    /* The identity of the samples, once it is known. The only member that may change after open. */
    _Atomic uint64_t samples[2];
    atomic_bool has_samples;
    enum psti_dataset_kind kind;
    uint64_t n_samples;
    uint64_t nbytes;    /* for folders: length of all files together */
    uint64_t n_skipped; /* for folders: number of files left out because of allow_unreadable */
    uint32_t n_files;
    uint32_t n_fields;
    struct pst_field fields[PST_MAX_FIELDS];
    uint64_t max_item_nbytes[PST_MAX_FIELDS];
    uint64_t max_pixels_nbytes[PST_MAX_FIELDS];
    uint64_t max_decoded_nbytes[PST_MAX_FIELDS]; /* maximum number of bytes that an item with a
                                                  * coding decodes to */
    const struct psti_notices *notices;          /* what the data set does not show; or NULL */
    struct pst_dataset_options options;          /* options at open; all they point to is copied */
    void *options_memory;                        /* memory of these copies; NULL: none */
};

/* Allocates a zeroed handle of `nbytes` (>= sizeof(struct pst_dataset)) and sets ops, path and one
 * owner. *out is closed by pst_dataset_close, even if the rest of an open fails. Defined in
 * dataset_handle.c. */
enum pst_status psti_dataset_new(const char *path, size_t nbytes,
                                 const struct psti_dataset_ops *ops, pst_dataset **out,
                                 struct pst_error *err);

/* Stores the identity of the samples in the handle. Defined in dataset_identity.c. */
void psti_dataset_keep_samples_identity(pst_dataset *dataset, const uint8_t identity[16]);

/* True if all sources of a mixture are packed (dataset_mixture.c). */
bool psti_dataset_mixture_is_packed(const pst_dataset *dataset);

/* Copies the options into the handle. Defined in dataset_options.c. */
enum pst_status psti_dataset_keep_options(pst_dataset *dataset,
                                          const struct pst_dataset_options *options,
                                          struct pst_error *err);

/* Open a packed data set or a plain folder. pst_dataset_open chooses: a directory with an index or
 * a journal is packed, any other is a plain folder. `options` is a copy of full size, never
 * NULL. */
enum pst_status psti_dataset_open_index(const char *path, pst_dataset **out, struct pst_error *err);
enum pst_status psti_dataset_open_folder(const char *path,
                                         const struct pst_dataset_options *options,
                                         pst_dataset **out, struct pst_error *err);

#endif
