/* dataset_int.h - the common handle of all kinds of data sets.
 *
 * Four kinds exist: written data sets (dataset_index.c), plain folders (dataset_folder.c), other
 * people's files with an index of ours (dataset_container.c), and several of these as one
 * (dataset_mixture.c). Each embeds `struct
 * pst_dataset` as its FIRST member in a structure of its own, allocated by psti_calloc, and fills
 * in the common part at open. After open nothing in the common part changes,
 * so it is read without locks. dataset_query.c checks arguments (ranges of sample, field, variant;
 * kind of field) before it calls an operation. It adds data set path and sample number to errors of
 * a failed one. */
#ifndef PST_DATASET_DATASET_INT_H
#define PST_DATASET_DATASET_INT_H

#include "dataset/dataset.h"

#include "format/format_notice.h"

#include <stdatomic.h>

/* dataset_foreign.c: as pst_path_advice, by the name of a file alone. */
const char *psti_dataset_foreign_name(const char *path);

struct psti_dataset_ops {
    /* Frees what the kind owns besides the common part, but not the structure itself. Also called
     * for a partly opened data set, in which missing parts are zero. */
    void (*close)(pst_dataset *dataset);
    enum pst_status (*sample_name)(const pst_dataset *dataset, uint64_t sample, char *name,
                                   struct pst_error *err); /* PST_NAME_CAP bytes */
    /* *item is zeroed by the caller. */
    enum pst_status (*item)(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                            uint32_t variant, struct pst_item *item, struct pst_error *err);
    enum pst_status (*int_value)(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                 int64_t *value, struct pst_error *err);
    enum pst_status (*float_value)(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                   double *value, struct pst_error *err);
    /* Reads the 8-byte values of samples first..first + n - 1 of an int or float field.
     * dataset_query.c has checked the range and checks the values. NULL: it reads them one by
     * one. */
    enum pst_status (*values)(const pst_dataset *dataset, uint32_t i_field, uint64_t first,
                              uint64_t n, void *values, struct pst_error *err);
    /* NULL: no name. `label` may be anything. */
    const char *(*class_name)(const pst_dataset *dataset, uint32_t i_field, int64_t label);
    /* NULL: fields have no pairs of points */
    const uint32_t *(*pairs)(const pst_dataset *dataset, uint32_t i_field);
    /* Writes the path; PST_ERROR_LIMIT if it does not fit. i_file < n_files. */
    enum pst_status (*file_path)(const pst_dataset *dataset, uint32_t i_file, char *buffer,
                                 size_t capacity, struct pst_error *err);
    /* psti_dataset_file_place. i_file < n_files. NULL: 0. */
    uint64_t (*file_place)(const pst_dataset *dataset, uint32_t i_file);
    /* psti_dataset_file_stamp. i_file < n_files. NULL: 0. */
    uint64_t (*file_stamp)(const pst_dataset *dataset, uint32_t i_file);
    /* psti_dataset_by_path. NULL: samples are in the order of their files. */
    enum pst_status (*by_path)(const pst_dataset *dataset, uint32_t **samples,
                               struct pst_error *err);
    /* psti_dataset_check_shard, psti_dataset_check_index. NULL: there is nothing to check. */
    enum pst_status (*check_file)(const pst_dataset *dataset, uint32_t i_file,
                                  struct pst_error *err);
    enum pst_status (*check_index)(const pst_dataset *dataset, struct pst_error *err);
    /* Copies bytes of an item whose i_file is PST_FILE_NONE. The range was checked. NULL: the kind
     * has no such items. */
    enum pst_status (*read_memory)(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                   uint64_t start, uint64_t nbytes, void *buffer,
                                   struct pst_error *err);
    /* pst_dataset_read, with arguments that were checked but for the range. NULL: dataset.c reads
     * the item in its file. */
    enum pst_status (*read)(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                            uint32_t variant, uint64_t start, uint64_t nbytes, void *buffer,
                            struct pst_error *err);
    /* pst_dataset_nbytes. NULL: the common part and the shards say it. */
    enum pst_status (*nbytes)(const pst_dataset *dataset, uint64_t *nbytes, struct pst_error *err);
    /* Makes the identity of the samples. NULL: it is made of names and labels. */
    enum pst_status (*samples)(const pst_dataset *dataset, uint8_t identity[16],
                               struct pst_error *err);
};

enum psti_dataset_kind {
    PSTI_DATASET_PACKED = 0,
    PSTI_DATASET_FOLDER = 1,    /* each item is a file of its own */
    PSTI_DATASET_CONTAINER = 2, /* items are parts of files that others made */
    PSTI_DATASET_MIXTURE = 3,   /* several data sets of the other kinds */
};

struct pst_dataset {
    const struct psti_dataset_ops *ops;
    atomic_uint n_owners;
    char *path; /* absolute, with links resolved when it was opened */
    int dir_fd; /* the directory of the shards or containers; -1 in a folder */
    uint8_t id[16];
    uint8_t bytes_identity[16], listed_identity[16];
    uint8_t files_identity[16];
    bool has_files_identity;
    /* The identity of the samples, once it is known: the only part that may change after open. */
    _Atomic uint64_t samples[2];
    atomic_bool has_samples;
    enum psti_dataset_kind kind;
    uint64_t n_samples;
    uint64_t nbytes;    /* folders: of all files */
    uint64_t n_skipped; /* folders: files left out by allow_unreadable */
    uint32_t n_files;
    uint32_t n_fields;
    struct pst_field fields[PST_MAX_FIELDS];
    uint64_t max_item_nbytes[PST_MAX_FIELDS];
    uint64_t max_pixels_nbytes[PST_MAX_FIELDS];
    uint64_t max_decoded_nbytes[PST_MAX_FIELDS]; /* of items with a coding */
    const struct psti_notices *notices;          /* about what it does not show; or NULL */
    struct pst_dataset_options options;          /* with copies of all that it points to */
    void *options_memory;                        /* these copies; NULL: none */
};

/* dataset_handle.c: allocates `nbytes` zeroed (>= sizeof(struct pst_dataset)) and sets ops, path
 * and one owner. *out is closed by pst_dataset_close also when the rest of an open fails. */
enum pst_status psti_dataset_new(const char *path, size_t nbytes,
                                 const struct psti_dataset_ops *ops, pst_dataset **out,
                                 struct pst_error *err);

/* dataset_identity.c: remembers the identity of the samples. */
void psti_dataset_keep_samples_identity(pst_dataset *dataset, const uint8_t identity[16]);

/* True if all sources of a mixture are packed (dataset_mixture.c). */
bool psti_dataset_mixture_is_packed(const pst_dataset *dataset);

/* dataset_options.c: copies the options into the handle. */
enum pst_status psti_dataset_keep_options(pst_dataset *dataset,
                                          const struct pst_dataset_options *options,
                                          struct pst_error *err);

/* The two ways to open. pst_dataset_open chooses: a directory with an index or a journal is a
 * written data set, any other is a folder. `options` is a copy of full size, never NULL. */
enum pst_status psti_dataset_open_index(const char *path, pst_dataset **out, struct pst_error *err);
enum pst_status psti_dataset_open_folder(const char *path,
                                         const struct pst_dataset_options *options,
                                         pst_dataset **out, struct pst_error *err);

#endif
