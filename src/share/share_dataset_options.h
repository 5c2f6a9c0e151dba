/* share_dataset_options.h - how a data set is sent to the host service: as path, options, the
 * client's version, and descriptors.
 *
 * The client sends descriptors of the directory, and of the label file or the index of tars. So the
 * service opens the same files as the client, even if the two see different paths, as in
 * containers. The service then compares versions, so a client cannot make it take one data set for
 * another. */
#ifndef PST_SHARE_SHARE_DATASET_OPTIONS_H
#define PST_SHARE_SHARE_DATASET_OPTIONS_H

#include "cache/cache.h"
#include "share/share_wire.h"

#include <penstock/dataset.h>

enum {
    PSTI_SHARE_ONE_FDS = 2, /* maximum number of descriptors for one data set: its directory, and a
                               label file, a list of files or an index */
    PSTI_SHARE_DATASET_FDS = PSTI_MESSAGE_FDS - 1 /* maximum number of descriptors for a mixture: a
                                                     blob, then those of its data sets */
};

struct psti_share_dataset {
    char path[PSTI_TEXT_CAP]; /* the client's path, for messages */
    uint8_t version[16];      /* PST_IDENTITY_BYTES */
    bool allow_unreadable, ignore_labels;
    bool has_labels;
    bool has_files;    /* true if the data set was opened from a list of files, whose names come as
                          a blob (base/files/sealed.h) */
    bool is_container; /* true for containers; the descriptors are those of their folder and of
                          their index */
    bool is_mixture;   /* true for a mixture; the first descriptor is a blob that describes all its
                          data sets */
    uint32_t n_masks;
    char masks[PST_MAX_FIELDS][PST_MAX_FIELDS]; /* names of fields, shorter than 64 bytes */
};

/* Writes the data set, and opens the descriptors to send with it. *n_fds of them are written to
 * `fds`, and the caller closes them. PST_ERROR_LIMIT: a mixture has more data sets than fit into a
 * message. */
enum pst_status psti_share_put_dataset(struct psti_wire_out *out, const pst_dataset *dataset,
                                       int fds[PSTI_SHARE_DATASET_FDS], uint32_t *n_fds,
                                       struct pst_error *err);
/* Reads the description of a data set. Impossible values set in->bad. */
void psti_share_get_dataset(struct psti_wire_in *in, struct psti_share_dataset *dataset);
/* Opens the data set from descriptors, which must stay open as long as the data set: 1, or 2 with a
 * label file, a list of files or an index; for a mixture the blob, then those of its data sets in
 * their order. PST_ERROR_STATE: it has another version than the client's, or its index may be
 * wrong. Errors name the client's path. */
enum pst_status psti_share_open_dataset(const struct psti_share_dataset *dataset, const int *fds,
                                        uint32_t n_fds, pst_dataset **out, struct pst_error *err);

/* share_dataset_one.c: like psti_share_put_dataset and psti_share_open_dataset, for one data set
 * that is no mixture. */
enum pst_status psti_share_put_one(struct psti_wire_out *out, const pst_dataset *dataset,
                                   int fds[PSTI_SHARE_ONE_FDS], uint32_t *n_fds,
                                   struct pst_error *err);
enum pst_status psti_share_open_one(const struct psti_share_dataset *dataset, const int *fds,
                                    uint32_t n_fds, pst_dataset **out, struct pst_error *err);
/* Compares the version of an open data set with the client's, and closes it if they differ. Also
 * completes errors. status: result of opening it. */
enum pst_status psti_share_check_version(const struct psti_share_dataset *dataset,
                                         enum pst_status status, pst_dataset **out,
                                         struct pst_error *err);
uint32_t psti_share_one_fds(const struct psti_share_dataset *dataset); /* number of descriptors */
/* Writes the entry that represents a mixture in the message. */
void psti_share_put_mixture_head(struct psti_wire_out *out, const pst_dataset *dataset);

/* share_dataset_mixture.c: functions for mixtures. */
enum pst_status psti_share_put_mixture(const pst_dataset *dataset, int fds[PSTI_SHARE_DATASET_FDS],
                                       uint32_t *n_fds, struct pst_error *err);
enum pst_status psti_share_open_mixture(const int *fds, uint32_t n_fds, pst_dataset **out,
                                        struct pst_error *err);
/* Computes a hash of what the identity does not cover, such as the options of the mixture's data
 * sets. stamped: receives the numbers of the *n descriptors of label files or indexes, which may
 * change without changing the identity. Reads no storage. PST_ERROR_CORRUPT: the blob is
 * invalid. */
enum pst_status psti_share_mixture_digest(const int *fds, uint32_t n_fds, uint64_t *digest,
                                          uint32_t stamped[PSTI_SHARE_DATASET_FDS], uint32_t *n,
                                          struct pst_error *err);

/* Describes a data set as a cache stores it: n_samples, n_items, identity, and lacks_sums if a
 * field has no checksums. items: receives for each field the number of its first variant among the
 * items of a sample. */
void psti_share_cache_shape(const pst_dataset *dataset, struct psti_cache_shape *shape,
                            uint32_t items[PST_MAX_FIELDS]);
/* Finds field and variant of item i_item of a sample. items: set by psti_share_cache_shape. */
void psti_share_cache_field(const pst_dataset *dataset, const uint32_t *items, uint32_t i_item,
                            uint32_t *i_field, uint32_t *variant);

#endif
