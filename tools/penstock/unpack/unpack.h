/* unpack.h - shared by the files of the verb unpack. */
#ifndef PENSTOCK_UNPACK_H
#define PENSTOCK_UNPACK_H

#include "cli.h"

#include <limits.h>

#define UNPACK_LABELS "labels.jsonl"
#define UNPACK_MASKS "masks/"
/* Names of unfinished files: that of worker %u, and the label file's. */
#define UNPACK_TEMPORARY ".penstock-%u.tmp"
#define UNPACK_LABELS_TEMPORARY ".penstock-labels.tmp"

/* Constant while workers run. */
struct unpack_plan {
    const pst_dataset *dataset;
    const char *folder;
    int fd;              /* the open folder; no link in it is followed */
    int i_image, i_mask; /* fields whose items become files; -1 if none */
    bool resume;         /* existing files stay */
};

/* The file made from a sample's image or mask. */
struct unpack_file {
    struct pst_item item;
    uint32_t variant;
    bool restores, encodes; /* restores a JPEG from its PLI; encodes raw pixels as PNG */
    bool is_original;       /* the file is the original */
    char path[PATH_MAX];    /* relative to the folder */
};
enum pst_status unpack_find(const struct unpack_plan *plan, uint64_t sample, bool mask,
                            struct unpack_file *file, struct pst_error *err);

/* Names that samples have taken. All zero at first. */
struct unpack_names {
    struct unpack_name *slots;
    uint64_t n, capacity;
    char folder[PATH_MAX]; /* of the last file */
};
/* Gives `path` to the sample's image or mask. PST_ERROR_EXISTS if an earlier sample has it. */
enum pst_status unpack_claim(const struct unpack_plan *plan, struct unpack_names *names,
                             uint64_t sample, bool mask, const char *path, struct pst_error *err);
void unpack_names_free(struct unpack_names *names);

/* Finds out whether there is a plain file at `path` in the folder, and its length.
 * PST_ERROR_EXISTS if there is something else, or a link or file in the place of a folder. */
enum pst_status unpack_look(const struct unpack_plan *plan, const char *path, bool *there,
                            uint64_t *nbytes, struct pst_error *err);
/* Reads the file at `path`; the caller frees the bytes. */
enum pst_status unpack_read(const struct unpack_plan *plan, const char *path, void **bytes,
                            size_t *nbytes, struct pst_error *err);

/* Writes bytes to `path` in the folder: whole and durably, or not at all. `temporary` is the
 * caller's own name in the folder. PST_ERROR_EXISTS if `path` exists, or a link or file is in
 * the place of a folder. PST_ERROR_LIMIT if a name is too long for the file system. */
enum pst_status unpack_write(const struct unpack_plan *plan, const char *temporary,
                             const char *path, const void *bytes, size_t nbytes,
                             struct pst_error *err);

/* Makes all names in the folder durable. */
enum pst_status unpack_sync(const struct unpack_plan *plan, struct pst_error *err);

/* Fields that become neither files nor labels, with the reasons. */
struct unpack_lost {
    const char *name, *why;
};
struct unpack_labels {
    bool needed; /* false if names of folders are enough */
    bool holds[PST_MAX_FIELDS];
    uint32_t n_lost;
    struct unpack_lost lost[PST_MAX_FIELDS];
};
enum pst_status unpack_plan_labels(const struct unpack_plan *plan, struct unpack_labels *labels,
                                   struct pst_error *err);
/* Writes one line for each sample without a mark in `skipped`. When resuming, `*nbytes` is 0 if
 * the same file exists already. PST_ERROR_EXISTS if another file has its name. */
enum pst_status unpack_write_labels(const struct unpack_plan *plan,
                                    const struct unpack_labels *labels, const char *skipped,
                                    size_t *nbytes, struct pst_error *err);
#endif
