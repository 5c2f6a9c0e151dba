/* unpack.h - what the files of the verb unpack share. */
#ifndef PENSTOCK_UNPACK_H
#define PENSTOCK_UNPACK_H

#include "cli.h"

#include <limits.h>

#define UNPACK_LABELS "labels.jsonl"
#define UNPACK_MASKS "masks/"
/* Unfinished files: of worker %u, and the label file. */
#define UNPACK_TEMPORARY ".penstock-%u.tmp"
#define UNPACK_LABELS_TEMPORARY ".penstock-labels.tmp"

/* Constant while workers run. */
struct unpack_plan {
    const pst_dataset *dataset;
    const char *folder;
    int fd;              /* the folder, open: no link below it is followed */
    int i_image, i_mask; /* fields whose items become files; -1: none */
    bool resume;         /* files that are there already stay */
};

/* The file that a sample's image or mask becomes. */
struct unpack_file {
    struct pst_item item;
    uint32_t variant;
    bool restores, encodes; /* a JPEG out of its PLI; raw pixels as PNG */
    bool is_original;       /* the file that was packed */
    char path[PATH_MAX];    /* relative to the folder */
};
enum pst_status unpack_find(const struct unpack_plan *plan, uint64_t sample, bool mask,
                            struct unpack_file *file, struct pst_error *err);

/* Names that samples have taken, zeros to begin with. */
struct unpack_names {
    struct unpack_name *slots;
    uint64_t n, capacity;
    char folder[PATH_MAX]; /* of the last file */
};
/* Gives `path` to the sample's image or mask. PST_ERROR_EXISTS: an earlier sample has it. */
enum pst_status unpack_claim(const struct unpack_plan *plan, struct unpack_names *names,
                             uint64_t sample, bool mask, const char *path, struct pst_error *err);
void unpack_names_free(struct unpack_names *names);

/* Whether there is a plain file at `path` in the folder, and its length. PST_ERROR_EXISTS: there is
 * something else, or a link or file where a folder must be. */
enum pst_status unpack_look(const struct unpack_plan *plan, const char *path, bool *there,
                            uint64_t *nbytes, struct pst_error *err);
/* That file in memory, to be freed. */
enum pst_status unpack_read(const struct unpack_plan *plan, const char *path, void **bytes,
                            size_t *nbytes, struct pst_error *err);

/* Writes bytes to `path` in the folder: whole, and on the disk, or not at all. `temporary` is the
 * caller's own name in the folder. PST_ERROR_EXISTS: something is there, or a link or file where a
 * folder must be; PST_ERROR_LIMIT: a name is too long for the file system. */
enum pst_status unpack_write(const struct unpack_plan *plan, const char *temporary,
                             const char *path, const void *bytes, size_t nbytes,
                             struct pst_error *err);

/* All names in the folder are on the disk, too. */
enum pst_status unpack_sync(const struct unpack_plan *plan, struct pst_error *err);

/* Fields that become neither files nor labels: their names, and why. */
struct unpack_lost {
    const char *name, *why;
};
struct unpack_labels {
    bool needed; /* false: names of folders say it all */
    bool holds[PST_MAX_FIELDS];
    uint32_t n_lost;
    struct unpack_lost lost[PST_MAX_FIELDS];
};
enum pst_status unpack_plan_labels(const struct unpack_plan *plan, struct unpack_labels *labels,
                                   struct pst_error *err);
/* One line for each sample that has no mark in `skipped`. Resuming, `*nbytes` is 0 if that file is
 * there already; another of its name is PST_ERROR_EXISTS. */
enum pst_status unpack_write_labels(const struct unpack_plan *plan,
                                    const struct unpack_labels *labels, const char *skipped,
                                    size_t *nbytes, struct pst_error *err);
#endif
