/* dataset_folder_walk.h - a walk through a folder and the folders below it. */
#ifndef PST_DATASET_DATASET_FOLDER_WALK_H
#define PST_DATASET_DATASET_FOLDER_WALK_H

#include "dataset/folder/dataset_folder.h"
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
    struct pst_error *err;
};

/* The relevant entries of one directory. */
struct psti_listing {
    struct psti_dataset_files entries; /* names of folders end with a slash */
    uint32_t *order;
};

static inline const char *psti_dataset_listing_name(const struct psti_listing *listing, uint32_t i)
{
    return psti_dataset_files_name(&listing->entries, i);
}

/* Walks the top if the saved listing has it (*done), or lists and sorts it. What is no sample is
 * left out. The caller frees the listing, also after a failure. */
enum pst_status psti_dataset_walk_top(struct psti_walk *walk, struct psti_listing *listing,
                                      bool *done);
void psti_dataset_listing_free(struct psti_listing *listing);
/* Takes the files of the listing, and enters its folders. */
enum pst_status psti_dataset_walk_listing(struct psti_walk *walk,
                                          const struct psti_listing *listing);
/* Notes an entry that is no image. kind NULL: its name tells the kind. */
enum pst_status psti_dataset_walk_leave_out(struct psti_walk *walk, const char *name,
                                            const char *kind);
/* Walks the folder from its root and calls `take` for each file. Images go to `files`. */
enum pst_status psti_dataset_walk_run(struct psti_folder *folder, const char *below,
                                      struct psti_dataset_files *files,
                                      enum pst_status (*take)(struct psti_walk *),
                                      struct pst_error *err);

#endif
