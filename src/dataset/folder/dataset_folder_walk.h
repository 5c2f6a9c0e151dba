/* dataset_folder_walk.h - a walk through a folder and the folders below it. */
#ifndef PST_DATASET_DATASET_FOLDER_WALK_H
#define PST_DATASET_DATASET_FOLDER_WALK_H

#include "dataset/folder/dataset_folder_entries.h"
#include "dataset/folder/dataset_listing.h"

struct psti_walk {
    struct psti_folder *folder;
    struct psti_dataset_files *files; /* destination of images */
    int root_fd;
    char path[PSTI_DATASET_FOLDER_NAME_CAP]; /* path of the directory being read, relative, with a
                                                slash at its end */
    size_t path_nbytes;
    dev_t devices[PSTI_DATASET_FOLDER_MAX_DEPTH]; /* identity of the directories on the path */
    ino_t inodes[PSTI_DATASET_FOLDER_MAX_DEPTH];
    unsigned depth;
    struct psti_dataset_arena labels; /* struct psti_label_run: classes, before these are sorted */
    uint32_t i_class;                 /* class of the sub-folder of the top being walked */
    const char *class_name;           /* its name, which ends with a slash */
    size_t n_hidden, n_seen;          /* entries in it: hidden ones, and others but folders */
    size_t n_top_images;              /* number of images directly in the folder */
    char empty_class[PST_ERROR_PATH_CAP]; /* first class folder without images; "": none */
    char lost_class[PST_ERROR_PATH_CAP];  /* first link that may have been a class; "": none */
    struct psti_listing_state *listing;   /* NULL: none is used or made */
    struct stat opened; /* the directory that was opened last, before it was read */
    size_t n_told;      /* files that progress was told of; the number does not fall */
    struct pst_error *err;
};

/* Walks the top if the saved listing has it (*done), or lists and sorts it. What is no sample is
 * left out. The caller frees the entries, also after a failure. */
enum pst_status psti_dataset_walk_top(struct psti_walk *walk, struct psti_dataset_entries *entries,
                                      bool *done);
/* Takes the files among the entries of the directory that was listed last, and enters its folders.
 * Many entries are freed first, if they can be read from the listing that is being saved. */
enum pst_status psti_dataset_walk_entries(struct psti_walk *walk,
                                          struct psti_dataset_entries *entries);
/* Notes an entry that is no image. kind NULL: its name tells the kind. */
enum pst_status psti_dataset_walk_leave_out(struct psti_walk *walk, const char *name,
                                            const char *kind);
/* Walks the folder from its root and calls `take` for each file. Images go to `files`. */
enum pst_status psti_dataset_walk_run(struct psti_folder *folder, const char *below,
                                      struct psti_dataset_files *files,
                                      enum pst_status (*take)(struct psti_walk *),
                                      struct pst_error *err);

#endif
