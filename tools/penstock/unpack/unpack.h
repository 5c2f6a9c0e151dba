/* unpack.h - declarations that the files of the verb unpack share. */
#ifndef PENSTOCK_UNPACK_H
#define PENSTOCK_UNPACK_H

#include "cli.h"

#include <limits.h>

#define UNPACK_LABELS "labels.jsonl"
#define UNPACK_MASKS "masks/"
/* Names of unfinished files: of worker %u, and of the label file. */
#define UNPACK_TEMPORARY ".penstock-%u.tmp"
#define UNPACK_LABELS_TEMPORARY ".penstock-labels.tmp"

/* Data for all workers. Constant while they run. */
struct unpack_plan {
    const pst_dataset *dataset;
    const char *folder;
    int fd;              /* the open folder; links in it are never followed */
    int i_image, i_mask; /* fields whose items become files; -1 if none */
    bool resume;         /* existing files stay */
};

/* The file made from a sample's image or mask. */
struct unpack_file {
    struct pst_item item;
    uint32_t variant;
    bool restores, encodes; /* restore a JPEG from its PLI; encode raw pixels as PNG */
    bool is_original;       /* true: the file is the one that was packed */
    char path[PATH_MAX];    /* relative to the folder */
};
enum pst_status unpack_find(const struct unpack_plan *plan, uint64_t sample, bool mask,
                            struct unpack_file *file, struct pst_error *err);

/* The set of file names that samples use. Initially all zero. */
struct unpack_names {
    struct unpack_name *slots;
    uint64_t n, capacity;
    char folder[PATH_MAX]; /* folder of the last file that was looked at */
};
/* Reserves `path` for the sample's image or mask. PST_ERROR_EXISTS if an earlier sample uses it. */
enum pst_status unpack_claim(const struct unpack_plan *plan, struct unpack_names *names,
                             uint64_t sample, bool mask, const char *path, struct pst_error *err);
void unpack_names_free(struct unpack_names *names);

/* Finds out whether there is a regular file at `path` in the folder, and its length.
 * PST_ERROR_EXISTS if something else is there, or a part of the path is a link or a file. */
enum pst_status unpack_look(const struct unpack_plan *plan, const char *path, bool *there,
                            uint64_t *nbytes, struct pst_error *err);
/* Reads the file at `path`; the caller frees the bytes. */
enum pst_status unpack_read(const struct unpack_plan *plan, const char *path, void **bytes,
                            size_t *nbytes, struct pst_error *err);

/* Writes bytes to `path` in the folder: completely and durably, or not at all. `temporary` is a
 * name in the folder that only this caller uses. PST_ERROR_EXISTS if `path` exists, or a part of it
 * is a link or a file. PST_ERROR_LIMIT if a name is too long for the file system. */
enum pst_status unpack_write(const struct unpack_plan *plan, const char *temporary,
                             const char *path, const void *bytes, size_t nbytes,
                             struct pst_error *err);

/* Makes all names in the folder durable. */
enum pst_status unpack_sync(const struct unpack_plan *plan, struct pst_error *err);

/* A field whose values are stored neither as files nor as labels, with the reason. */
struct unpack_lost {
    const char *name, *why;
};
struct unpack_labels {
    bool needed; /* false if the folders' names are enough as labels */
    bool holds[PST_MAX_FIELDS];
    uint32_t n_lost;
    struct unpack_lost lost[PST_MAX_FIELDS];
};
enum pst_status unpack_plan_labels(const struct unpack_plan *plan, struct unpack_labels *labels,
                                   struct pst_error *err);
/* Writes one line for each sample that is not marked in `skipped`. When resuming, `*nbytes` is 0 if
 * an identical file already exists. PST_ERROR_EXISTS if another file has its name. */
enum pst_status unpack_write_labels(const struct unpack_plan *plan,
                                    const struct unpack_labels *labels, const char *skipped,
                                    size_t *nbytes, struct pst_error *err);
#endif
