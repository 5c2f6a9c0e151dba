/* share_dataset_options.h - a data set on its way to the host service: what was opened, with which
 * options, and the version that the client has.
 *
 * The client sends descriptors of the directory, and of the label file or the index of tars. So the
 * service opens what the client has opened, also where both see other paths, as in containers. It
 * compares versions after that: a client cannot make it read one data set for another. */
#ifndef PST_SHARE_SHARE_DATASET_OPTIONS_H
#define PST_SHARE_SHARE_DATASET_OPTIONS_H

#include "cache/cache.h"
#include "share/share_wire.h"

#include <penstock/dataset.h>

enum {
    PSTI_SHARE_ONE_FDS = 2, /* most of one data set: directory, and label file, names or index */
    PSTI_SHARE_DATASET_FDS = PSTI_MESSAGE_FDS - 1 /* most of a mixture; a blob is the first */
};

struct psti_share_dataset {
    char path[PSTI_TEXT_CAP]; /* as the client calls it, for messages */
    uint8_t version[16];      /* PST_IDENTITY_BYTES */
    bool allow_unreadable, ignore_labels;
    bool has_labels;
    bool has_files;    /* a list of files, whose names come as a blob (base/files/sealed.h) */
    bool is_container; /* files of others: the descriptors are of their folder and their index */
    bool is_mixture;   /* the first descriptor is a blob that describes all its data sets */
    uint32_t n_masks;
    char masks[PST_MAX_FIELDS][PST_MAX_FIELDS]; /* names of fields, shorter than 64 bytes */
};

/* Writes the data set, and opens the descriptors to send with it: *n_fds are written to `fds`,
 * which the caller closes. PST_ERROR_LIMIT: a mixture has more data sets than a message can bring.
 */
enum pst_status psti_share_put_dataset(struct psti_wire_out *out, const pst_dataset *dataset,
                                       int fds[PSTI_SHARE_DATASET_FDS], uint32_t *n_fds,
                                       struct pst_error *err);
/* Reads it. Values that cannot be make in->bad true. */
void psti_share_get_dataset(struct psti_wire_in *in, struct psti_share_dataset *dataset);
/* Opens the data set by the descriptors, which must stay open as long as it is: 1, or 2 with a
 * label file, a list of files or an index; of a mixture the blob, and those of its data sets in
 * their order. PST_ERROR_STATE: it has another version than the
 * client's, or the index may lie. Errors name the client's path. */
enum pst_status psti_share_open_dataset(const struct psti_share_dataset *dataset, const int *fds,
                                        uint32_t n_fds, pst_dataset **out, struct pst_error *err);

/* share_dataset_one.c: the same of one data set that is no mixture. */
enum pst_status psti_share_put_one(struct psti_wire_out *out, const pst_dataset *dataset,
                                   int fds[PSTI_SHARE_ONE_FDS], uint32_t *n_fds,
                                   struct pst_error *err);
enum pst_status psti_share_open_one(const struct psti_share_dataset *dataset, const int *fds,
                                    uint32_t n_fds, pst_dataset **out, struct pst_error *err);
/* Compares an open data set with the version that the client has, closes it if it is another one,
 * and completes errors. `status` is that of opening it. */
enum pst_status psti_share_check_version(const struct psti_share_dataset *dataset,
                                         enum pst_status status, pst_dataset **out,
                                         struct pst_error *err);
uint32_t psti_share_one_fds(const struct psti_share_dataset *dataset); /* how many it comes with */
/* What stands for a mixture in the message. */
void psti_share_put_mixture_head(struct psti_wire_out *out, const pst_dataset *dataset);

/* share_dataset_mixture.c: mixtures. */
enum pst_status psti_share_put_mixture(const pst_dataset *dataset, int fds[PSTI_SHARE_DATASET_FDS],
                                       uint32_t *n_fds, struct pst_error *err);
enum pst_status psti_share_open_mixture(const int *fds, uint32_t n_fds, pst_dataset **out,
                                        struct pst_error *err);
/* Says what tells the mixture from others with the same identity, as options of its data sets do.
 * stamped: receives the numbers of those *n descriptors that lead to a label file or an index,
 * which may be another one with other labels. Reads no storage. PST_ERROR_CORRUPT. */
enum pst_status psti_share_mixture_digest(const int *fds, uint32_t n_fds, uint64_t *digest,
                                          uint32_t stamped[PSTI_SHARE_DATASET_FDS], uint32_t *n,
                                          struct pst_error *err);

/* The shape of a data set's items in a cache: n_samples, n_items, identity; lacks_sums, if a field
 * has no checksums. `items` receives the number of each field's first variant among the items of a
 * sample. */
void psti_share_cache_shape(const pst_dataset *dataset, struct psti_cache_shape *shape,
                            uint32_t items[PST_MAX_FIELDS]);
/* Finds field and variant of item i_item of a sample, by the numbers of the function above. */
void psti_share_cache_field(const pst_dataset *dataset, const uint32_t *items, uint32_t i_item,
                            uint32_t *i_field, uint32_t *variant);

#endif
