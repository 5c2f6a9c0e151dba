/* dataset_folder.h - inside of the plain-folder data set: its tables, and the functions that fill
 * them.
 *
 * Rows are in the order in which they were found: sorted by relative path if the folder was
 * scanned, in the label file's order if there is one. Everything is column-wise: some tens of bytes
 * per sample and its name. One thread writes it at open; it is immutable after. */
#ifndef PST_DATASET_DATASET_FOLDER_H
#define PST_DATASET_DATASET_FOLDER_H

#include "dataset/dataset_int.h"

#include <limits.h>
#include <sys/types.h>

#define PSTI_DATASET_FOLDER_NAME_CAP 4096  /* relative path and its NUL */
#define PSTI_DATASET_FOLDER_MAX_DEPTH 128  /* nested folders */
#define PSTI_DATASET_FOLDER_DEVICES_MAX 16 /* told apart by places */
#define PSTI_DATASET_FOLDER_MAX_LABEL                                                              \
    2147483646 /* labels fit a signed 32-bit number; a count of them fits, too */

/* Bytes one after the other; offsets stay valid while it grows. */
struct psti_dataset_arena {
    char *bytes;
    size_t nbytes, capacity;
};
void psti_dataset_arena_free(struct psti_dataset_arena *arena);
enum pst_status psti_dataset_arena_add(struct psti_dataset_arena *arena, const void *bytes,
                                       size_t nbytes, struct pst_error *err);

/* Blocks that never move, so that what grows to millions is neither copied nor held twice. */
struct psti_dataset_store {
    struct psti_dataset_block {
        char *bytes;
        uint32_t nbytes, capacity;
    } * blocks; /* [n] */
    size_t n, capacity;
};
enum { PSTI_DATASET_BLOCK_NBYTES = 1 << 20 }; /* of the largest one */
void psti_dataset_store_free(struct psti_dataset_store *store);
/* Makes sure that the last block has room for nbytes, at most PSTI_DATASET_BLOCK_NBYTES. If it has
 * not, another block becomes the last one. */
enum pst_status psti_dataset_store_room(struct psti_dataset_store *store, size_t nbytes,
                                        struct pst_error *err);
/* Gives back what the last block has left over. */
void psti_dataset_store_trim(struct psti_dataset_store *store);

/* Different strings, numbered as they come. */
struct psti_names {
    struct psti_dataset_arena text; /* NUL-terminated */
    uint64_t *at;                   /* [n] offsets in text */
    uint32_t *slots;                /* [n_slots] hash table of number + 1; 0 free */
    size_t n, capacity, n_slots;
};
void psti_dataset_names_free(struct psti_names *names);
enum pst_status psti_dataset_names_intern(struct psti_names *names, const char *text, size_t nbytes,
                                          uint32_t *number, struct pst_error *err);
const char *psti_dataset_names_get(const struct psti_names *names, size_t number);
/* Renumbers by byte order. *rank gets the new number of each old one: [n], freed by the caller. */
enum pst_status psti_dataset_names_sort(struct psti_names *names, uint32_t **rank,
                                        struct pst_error *err);

/* Stable merge sort of the numbers `order[0..n-1]` by less(ctx, a, b). */
typedef bool (*psti_less)(const void *ctx, uint32_t a, uint32_t b);
enum pst_status psti_dataset_folder_sort(uint32_t *order, size_t n, psti_less less, const void *ctx,
                                         struct pst_error *err);

/* True if a name may name a sample: UTF-8, not empty, no control characters, short enough. */
bool psti_dataset_folder_name_ok(const char *name, size_t nbytes);

/* What the file system said of a file when it was listed. */
struct psti_file_facts {
    uint64_t nbytes;
    uint32_t place; /* psti_dataset_file_place */
    uint32_t stamp; /* psti_dataset_file_stamp */
};

/* What memory holds of it. */
struct psti_file_brief {
    uint32_t nbytes; /* UINT32_MAX: in the table of long files */
    uint32_t place, stamp;
};

/* Files by relative path. */
struct psti_dataset_files {
    /* Places are kept of each (1 << spacing)-th name: a name is found by steps over those before
     * it, which lie in the same block. 0 where names are compared all the time, as in a sort. */
    unsigned spacing;
    struct psti_dataset_store names; /* NUL-terminated relative paths */
    struct psti_files_part {
        uint64_t *at;                   /* block << 32 | offset; the part's memory begins here */
        struct psti_file_brief *briefs; /* [PSTI_DATASET_FILES_PART]; fewer in the last, trimmed */
    } * parts;                          /* [n_parts] */
    struct psti_long_file {
        uint64_t i, nbytes;
    } * longs; /* [n_longs] files of 4 GiB and more, by number */
    size_t n, n_parts, parts_capacity, n_longs;
};
enum {
    PSTI_DATASET_FILES_SPACING = 5, /* of files that are many */
    PSTI_DATASET_FILES_PART = 1024, /* files of a part */
};
void psti_dataset_files_free(struct psti_dataset_files *files);
enum pst_status psti_dataset_files_add(struct psti_dataset_files *files, const char *name,
                                       const struct psti_file_facts *facts, struct pst_error *err);
/* Gives back what growing left over. No file is added afterwards. */
void psti_dataset_files_trim(struct psti_dataset_files *files);
const char *psti_dataset_files_name(const struct psti_dataset_files *files, size_t i);
/* The name of file i, from that of the file before it. before: NULL if i is 0. */
static inline const char *psti_dataset_files_next(const struct psti_dataset_files *files, size_t i,
                                                  const char *before)
{
    return (i & (((size_t)1 << files->spacing) - 1)) == 0 ? psti_dataset_files_name(files, i)
                                                          : before + __builtin_strlen(before) + 1;
}
uint64_t psti_dataset_files_nbytes(const struct psti_dataset_files *files, size_t i);
struct psti_file_facts psti_dataset_files_facts(const struct psti_dataset_files *files, size_t i);

/* Consecutive rows of one number. */
struct psti_label_run {
    uint32_t first; /* row */
    uint32_t number;
};

/* A field that is not the image. */
struct psti_folder_column {
    struct pst_field field;
    int64_t *ints;               /* PST_FIELD_INT: [n_rows], or */
    struct psti_label_run *runs; /* [n_runs] by first row; the first begins at row 0 */
    size_t n_runs;
    double *floats;   /* PST_FIELD_FLOAT: [n_rows] */
    uint64_t *starts; /* other types: [n_rows + 1] offsets in values; masks: paths, empty = none */
    struct psti_dataset_arena values;
    struct psti_file_facts *masks; /* PST_FIELD_MASK: [n_rows] the files */
    uint64_t max_nbytes;           /* largest item */
};

struct psti_folder {
    const char *path; /* the folder, for messages and for opening */
    bool allow_unreadable;
    bool ignore_labels;       /* no classes of sub-folders; texts beside the images may be lost */
    bool is_audio;            /* its files are audio, not images */
    const char *const *masks; /* [n_masks] columns that are masks; the caller's, during open */
    size_t n_masks;
    uint64_t n_skipped;
    struct {
        dev_t device;
        bool has_inodes;                        /* psti_stamp_has_inodes */
    } devices[PSTI_DATASET_FOLDER_DEVICES_MAX]; /* of its files, as they came up */
    uint32_t n_devices;
    uint64_t stamps;                 /* sum over all files, of their paths and stamps */
    struct psti_notices *notices;    /* NULL while there are none */
    struct psti_dataset_files files; /* rows */
    struct psti_folder_column *columns;
    uint32_t n_columns;
    struct psti_listing_state *listing; /* while the folder is scanned; may be NULL */
    struct psti_names classes;          /* classes of the column "label" */
    uint32_t *row_of_sample;            /* NULL: samples are rows */
};
void psti_dataset_folder_free(struct psti_folder *folder);

/* The value of an int column. */
int64_t psti_dataset_column_int(const struct psti_folder_column *column, size_t row);

/* Takes down what `st` says of the file at `path`, relative to the folder, and adds the file to
 * folder->stamps. A file that was written anew, or changed in place, changes the sum. The order in
 * which files are found does not. */
struct stat;
struct psti_file_facts psti_dataset_folder_see(struct psti_folder *folder, const char *path,
                                               const struct stat *st);

/* Finds the images of folder->path. Fills rows, classes and column "label"; or, if images and masks
 * lie in folders of their own, rows and the masks' columns. */
enum pst_status psti_dataset_folder_scan(struct psti_folder *folder, struct pst_error *err);
/* Takes the n files as rows, in this order: names relative to folder->path. */
enum pst_status psti_dataset_folder_take_files(struct psti_folder *folder, const char *const *files,
                                               size_t n, struct pst_error *err);
/* Adds the files below `folder` (relative, with a slash at its end) to `files`, sorted by path. */
enum pst_status psti_dataset_folder_list(struct psti_folder *folder, const char *below,
                                         struct psti_dataset_files *files, struct pst_error *err);
/* dataset_folder_kind.c. True if the extension is that of an image. */
bool psti_dataset_folder_is_image_name(const char *name);
/* True if a file of that name is one of the folder's samples. */
bool psti_dataset_folder_takes(const struct psti_folder *folder, const char *name);
/* After rows and columns are known: sets is_audio if all rows are audio files. */
enum pst_status psti_dataset_folder_settle(struct psti_folder *folder, struct pst_error *err);
/* dataset_folder_yolo.c. After rows are known: an error if texts beside the images hold boxes. */
enum pst_status psti_dataset_folder_check_yolo(const struct psti_folder *folder,
                                               struct pst_error *err);
/* Reads the first bytes of a file, and puts a NUL behind them. Returns their number; 0: it is
 * empty, not there, or no regular file. text: char (nbytes + 1). dataset_folder_yolo.c. */
size_t psti_dataset_folder_head(const char *path, char *text, size_t nbytes);
/* dataset_folder_drawn.c. After rows are known: an error if annotations of others lie there. */
enum pst_status psti_dataset_folder_check_drawn(const struct psti_folder *folder,
                                                struct pst_error *err);
/* dataset_folder_colors.c. After columns are known: notes masks that are pictures in colours. */
enum pst_status psti_dataset_folder_check_colors(struct psti_folder *folder, struct pst_error *err);
/* What to do about them. */
#define PSTI_DATASET_MASKS_HELP                                                                    \
    "convert them to the numbers of classes (docs/guide/masks-in-colours.md)"
/* Reads the label file: rows, columns, classes, row_of_sample. */
enum pst_status psti_dataset_folder_labels(struct psti_folder *folder, const char *labels,
                                           struct pst_error *err);
/* Appends a column named `name`; its arrays are still empty. */
enum pst_status psti_dataset_folder_add_column(struct psti_folder *folder, const char *name,
                                               enum pst_field_type type,
                                               struct psti_folder_column **column,
                                               struct pst_error *err);

/* Adds `n` to the notice of that kind and name. `path`, relative to the folder, is the first of
 * these files. It is escaped, and cut if it is too long. */
enum pst_status psti_dataset_folder_note(struct psti_folder *folder, enum pst_notice_kind kind,
                                         const char *name, uint64_t n, const char *path,
                                         struct pst_error *err);
/* The name of the notice of a file that is left out because of its name. */
enum { PSTI_DATASET_LEFT_OUT_CAP = 17 };
void psti_dataset_folder_left_out_kind(const char *path, char kind[PSTI_DATASET_LEFT_OUT_CAP]);

/* Images and masks in folders of their own (dataset_folder_pairs.c). `images` is the folder of the
 * images, with a slash at its end. Masks are in `n` others, whose names give the fields' names. */
struct psti_folder_layout {
    char images[NAME_MAX + 2];
    const char *image_end; /* ending before the extension that images have; NULL: none */
    bool is_cityscapes;
    uint32_t n;
    struct {
        char folder[NAME_MAX + 2]; /* fields of one folder follow each other */
        char field[64];
        const char *end; /* ending before the extension of this field's masks; NULL: none */
    } masks[PST_MAX_FIELDS - 1];
};
/* Adds a folder of the top to the layout. False: it has neither images nor masks. */
bool psti_dataset_folder_layout_take(struct psti_folder_layout *layout, const char *name);
/* Sets the layout of Cityscapes: leftImg8bit/ beside gtFine/. */
void psti_dataset_folder_layout_cityscapes(struct psti_folder_layout *layout);
/* Fills rows and columns. */
enum pst_status psti_dataset_folder_pairs(struct psti_folder *folder,
                                          const struct psti_folder_layout *layout,
                                          struct pst_error *err);

#endif
