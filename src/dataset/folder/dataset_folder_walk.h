/* dataset_folder_walk.h - a walk through a folder and the folders below it. */
#ifndef PST_DATASET_DATASET_FOLDER_WALK_H
#define PST_DATASET_DATASET_FOLDER_WALK_H

#include "dataset/folder/dataset_folder_entries.h"
#include "dataset/folder/dataset_listing.h"

struct psti_walk {
    struct psti_folder *folder;
    struct psti_dataset_files *files; /* receives the images */
    int root_fd;
    char path[PSTI_DATASET_FOLDER_NAME_CAP]; /* path of the current directory, relative, with a
                                              * slash at its end */
    size_t path_nbytes;
    dev_t devices[PSTI_DATASET_FOLDER_MAX_DEPTH]; /* device of each directory on the path, to detect
                                                   * cycles */
    ino_t inodes[PSTI_DATASET_FOLDER_MAX_DEPTH];
    unsigned depth;
    struct psti_dataset_arena labels; /* struct psti_label_run with numbers of classes before
                                       * sorting */
    uint32_t i_class;                 /* class of the current top-level subfolder */
    const char *class_name;           /* name of the current top-level subfolder, ends with a
                                       * slash */
    size_t n_hidden, n_seen;          /* entries in the current top-level subfolder: hidden ones;
                                       * others except folders */
    size_t n_top_images;              /* number of images directly in the folder */
    char empty_class[PST_ERROR_PATH_CAP]; /* first class without images; "": none */
    char lost_class[PST_ERROR_PATH_CAP];  /* first broken link that may have been a class; "":
                                           * none */
    struct psti_listing_state *listing;   /* NULL: no saved listing is used or made */
    struct stat opened; /* stat of the last opened directory, taken before it was read */
    size_t n_told;      /* number of files that was last reported; it never falls */
    struct pst_error *err;
};

/* Walks the top folder if the saved listing has it (*done); else lists and sorts it. Entries that
 * are no samples are left out. The caller frees the entries, after a failure too. */
enum pst_status psti_dataset_walk_top(struct psti_walk *walk, struct psti_dataset_entries *entries,
                                      bool *done);
/* Takes the files among the entries of the last listed directory, and walks its subfolders. If
 * there are many entries, they are freed first and read again from the listing that is being
 * saved. */
enum pst_status psti_dataset_walk_entries(struct psti_walk *walk,
                                          struct psti_dataset_entries *entries);
/* Adds a notice about an entry that is no image. kind NULL: the name decides the kind. */
enum pst_status psti_dataset_walk_leave_out(struct psti_walk *walk, const char *name,
                                            const char *kind);
/* Walks the folder `below` from its top and calls `take` for it. Images are added to `files`. */
enum pst_status psti_dataset_walk_run(struct psti_folder *folder, const char *below,
                                      struct psti_dataset_files *files,
                                      enum pst_status (*take)(struct psti_walk *),
                                      struct pst_error *err);

#endif
