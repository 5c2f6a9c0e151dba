/* dataset_folder.h - inside of the plain-folder data set: its tables, and the functions that fill
 * them.
 *
 * Rows are in the order in which they were found: sorted by relative path if the folder was
 * scanned, or in the order of the label file. Tables are stored by columns and take some tens of
 * bytes per sample plus its name. One thread fills them at open; they do not change afterwards. */
#ifndef PST_DATASET_DATASET_FOLDER_H
#define PST_DATASET_DATASET_FOLDER_H

#include "dataset/dataset_int.h"

#include <limits.h>
#include <sys/types.h>

#define PSTI_DATASET_FOLDER_NAME_CAP 4096  /* longest relative path, with its NUL */
#define PSTI_DATASET_FOLDER_MAX_DEPTH 128  /* nested folders */
#define PSTI_DATASET_FOLDER_DEVICES_MAX 16 /* devices whose files psti_dataset_file_place can tell
                                            * apart */
#define PSTI_DATASET_FOLDER_MAX_LABEL                                                              \
    2147483646 /* labels fit a signed 32-bit number, and so does their count */

/* Memory for bytes one after the other. It may move when it grows, so offsets are kept instead of
 * pointers. */
struct psti_dataset_arena {
    char *bytes;
    size_t nbytes, capacity;
};
void psti_dataset_arena_free(struct psti_dataset_arena *arena);
enum pst_status psti_dataset_arena_add(struct psti_dataset_arena *arena, const void *bytes,
                                       size_t nbytes, struct pst_error *err);

/* Memory in blocks that never move. Growing to millions of entries copies nothing, and pointers
 * stay valid. */
struct psti_dataset_store {
    struct psti_dataset_block {
        char *bytes;
        uint32_t nbytes, capacity;
    } * blocks; /* [n] */
    size_t n, capacity;
};
enum { PSTI_DATASET_BLOCK_NBYTES = 1 << 20 }; /* bytes of the largest block */
void psti_dataset_store_free(struct psti_dataset_store *store);
/* Makes room for nbytes in the last block, at most PSTI_DATASET_BLOCK_NBYTES. Adds a block if the
 * last one has no room. */
enum pst_status psti_dataset_store_room(struct psti_dataset_store *store, size_t nbytes,
                                        struct pst_error *err);
/* Frees the unused end of the last block. */
void psti_dataset_store_trim(struct psti_dataset_store *store);

/* Distinct strings, numbered in the order in which they were added. */
struct psti_names {
    struct psti_dataset_arena text; /* NUL-terminated */
    uint64_t *at;                   /* [n] offsets in `text` */
    uint32_t *slots;                /* [n_slots] hash table: 1 + number; 0: free */
    size_t n, capacity, n_slots;
};
void psti_dataset_names_free(struct psti_names *names);
enum pst_status psti_dataset_names_intern(struct psti_names *names, const char *text, size_t nbytes,
                                          uint32_t *number, struct pst_error *err);
const char *psti_dataset_names_get(const struct psti_names *names, size_t number);
/* Renumbers the names in byte order. *rank: [n] new number of each old one, freed by the caller. */
enum pst_status psti_dataset_names_sort(struct psti_names *names, uint32_t **rank,
                                        struct pst_error *err);

/* Sorts the numbers `order[0..n-1]` by less(ctx, a, b), with a stable merge sort. */
typedef bool (*psti_less)(const void *ctx, uint32_t a, uint32_t b);
enum pst_status psti_dataset_folder_sort(uint32_t *order, size_t n, psti_less less, const void *ctx,
                                         struct pst_error *err);

/* True if a name is valid for a sample: UTF-8, not empty, no control characters, short enough. */
bool psti_dataset_folder_name_ok(const char *name, size_t nbytes);

/* Facts that stat said of a file when it was listed. */
struct psti_file_facts {
    uint64_t nbytes;
    uint32_t place; /* psti_dataset_file_place */
    uint32_t stamp; /* psti_dataset_file_stamp */
};

/* Facts that the tables store of a file. */
struct psti_file_brief {
    uint32_t nbytes; /* UINT32_MAX: the size is in `longs` */
    uint32_t place, stamp;
};

/* Files with their relative paths. */
struct psti_dataset_files {
    /* The offset of each (1 << spacing)-th name is stored. Other names are found by stepping over
     * the names before them, which lie in the same block. 0 if names are looked up often, as in a
     * sort. */
    unsigned spacing;
    struct psti_dataset_store names; /* relative paths, NUL-terminated */
    struct psti_files_part {
        uint64_t *at;                   /* address of each stored name: its block in the high 32
                                         * bits, its offset in the low ones; also the start of the
                                         * part's memory */
        struct psti_file_brief *briefs; /* [PSTI_DATASET_FILES_PART]; fewer in the last part after a
                                         * trim */
    } * parts;                          /* [n_parts] */
    struct psti_long_file {
        uint64_t i, nbytes;
    } * longs; /* [n_longs]: files of 4 GiB and more, sorted by number */
    size_t n, n_parts, parts_capacity, n_longs;
};
enum {
    PSTI_DATASET_FILES_SPACING = 5, /* value of `spacing` for long lists of files */
    PSTI_DATASET_FILES_PART = 1024, /* files in one part */
};
void psti_dataset_files_free(struct psti_dataset_files *files);
enum pst_status psti_dataset_files_add(struct psti_dataset_files *files, const char *name,
                                       const struct psti_file_facts *facts, struct pst_error *err);
/* Frees the unused memory at the end. No file may be added afterwards. */
void psti_dataset_files_trim(struct psti_dataset_files *files);
const char *psti_dataset_files_name(const struct psti_dataset_files *files, size_t i);
/* Returns the name of file i, given that of file i - 1. before: NULL if i is 0. */
static inline const char *psti_dataset_files_next(const struct psti_dataset_files *files, size_t i,
                                                  const char *before)
{
    return (i & (((size_t)1 << files->spacing) - 1)) == 0 ? psti_dataset_files_name(files, i)
                                                          : before + __builtin_strlen(before) + 1;
}
uint64_t psti_dataset_files_nbytes(const struct psti_dataset_files *files, size_t i);
struct psti_file_facts psti_dataset_files_facts(const struct psti_dataset_files *files, size_t i);

/* Consecutive rows that have the same label. */
struct psti_label_run {
    uint32_t first; /* row */
    uint32_t number;
};

/* A field other than the image. */
struct psti_folder_column {
    struct pst_field field;
    int64_t *ints;               /* PST_FIELD_INT: [n_rows] values, or NULL if `runs` has them */
    struct psti_label_run *runs; /* [n_runs], sorted by first row; the first run begins at row 0 */
    size_t n_runs;
    double *floats;   /* PST_FIELD_FLOAT: [n_rows] */
    uint64_t *starts; /* other types: [n_rows + 1] offsets in `values`; for masks the values are
                       * paths, "" if none */
    struct psti_dataset_arena values;
    struct psti_file_facts *masks; /* PST_FIELD_MASK: [n_rows] facts of the files */
    uint64_t max_nbytes;           /* largest item */
};

struct psti_folder {
    const char *path; /* absolute path of the folder, also for messages */
    bool allow_unreadable;
    bool ignore_labels;       /* subfolders make no classes, and text files with boxes may be
                               * ignored */
    bool is_audio;            /* the samples are audio files, not images */
    const char *const *masks; /* [n_masks] names of the columns that are masks; owned by the caller,
                               * used during open */
    size_t n_masks;
    uint64_t n_skipped;
    struct {
        dev_t device;
        bool has_inodes;                        /* psti_stamp_has_inodes */
    } devices[PSTI_DATASET_FOLDER_DEVICES_MAX]; /* devices that the files lie on, in the order in
                                                 * which they were found */
    uint32_t n_devices;
    uint64_t stamps;                 /* sum of a hash of path and stamp over all files */
    struct psti_notices *notices;    /* NULL while there are no notices */
    struct psti_dataset_files files; /* rows */
    struct psti_folder_column *columns;
    uint32_t n_columns;
    struct psti_listing_state *listing; /* used while the folder is scanned; may be NULL */
    struct psti_names classes;          /* class names of the column "label" */
    uint32_t *row_of_sample;            /* [n] row of each sample; NULL: sample s is row s */
};
void psti_dataset_folder_free(struct psti_folder *folder);

/* Returns the value of an int column in a row. */
int64_t psti_dataset_column_int(const struct psti_folder_column *column, size_t row);

/* Stores what `st` says of the file at `path`, relative to the folder, and adds a hash of path and
 * stamp to folder->stamps. If a file is replaced or changed, the sum changes. It does not depend on
 * the order in which files are found. */
struct stat;
struct psti_file_facts psti_dataset_folder_see(struct psti_folder *folder, const char *path,
                                               const struct stat *st);

/* Scans folder->path for images. Fills rows, classes and the column "label"; or, if images and
 * masks lie in separate folders, rows and the mask columns. */
enum pst_status psti_dataset_folder_scan(struct psti_folder *folder, struct pst_error *err);
/* Takes n named files as rows, in this order. Names are relative to folder->path. */
enum pst_status psti_dataset_folder_take_files(struct psti_folder *folder, const char *const *files,
                                               size_t n, struct pst_error *err);
/* Adds the files below the subfolder `below` (relative, with a slash at its end) to `files`, sorted
 * by path. */
enum pst_status psti_dataset_folder_list(struct psti_folder *folder, const char *below,
                                         struct psti_dataset_files *files, struct pst_error *err);
/* True if the name has an image's extension. Defined in dataset_folder_kind.c. */
bool psti_dataset_folder_is_image_name(const char *name);
/* True if a file of that name is a sample of the folder: an image, or an audio file if is_audio. */
bool psti_dataset_folder_takes(const struct psti_folder *folder, const char *name);
/* Sets is_audio if all rows are audio files. Called once rows and columns are known. */
enum pst_status psti_dataset_folder_settle(struct psti_folder *folder, struct pst_error *err);
/* Fails if text files beside the images hold boxes. Called once rows are known. Defined in
 * dataset_folder_yolo.c. */
enum pst_status psti_dataset_folder_check_yolo(const struct psti_folder *folder,
                                               struct pst_error *err);
/* Reads the first bytes of a file and adds a NUL. Returns their number; 0: the file is empty,
 * missing, or no regular file. text: has room for nbytes + 1. Defined in dataset_folder_yolo.c. */
size_t psti_dataset_folder_head(const char *path, char *text, size_t nbytes);
/* Fails if annotation files of other tools lie beside the images. Called once rows are known.
 * Defined in dataset_folder_drawn.c. */
enum pst_status psti_dataset_folder_check_drawn(const struct psti_folder *folder,
                                                struct pst_error *err);
/* Adds a notice if masks are colour pictures. Called once columns are known. Defined in
 * dataset_folder_colors.c. */
enum pst_status psti_dataset_folder_check_colors(struct psti_folder *folder, struct pst_error *err);
/* Advice for masks that are colour pictures. */
#define PSTI_DATASET_MASKS_HELP                                                                    \
    "convert them to the numbers of classes (docs/guide/masks-in-colours.md)"
/* Reads the label file. Sets rows, columns, classes and row_of_sample. */
enum pst_status psti_dataset_folder_labels(struct psti_folder *folder, const char *labels,
                                           struct pst_error *err);
/* Appends a column named `name` whose arrays are still empty. */
enum pst_status psti_dataset_folder_add_column(struct psti_folder *folder, const char *name,
                                               enum pst_field_type type,
                                               struct psti_folder_column **column,
                                               struct pst_error *err);

/* Adds `n` to the count of a notice, given by kind and name. `path`, relative to the folder, is the
 * first of these files; it is escaped, and cut if it is too long. */
enum pst_status psti_dataset_folder_note(struct psti_folder *folder, enum pst_notice_kind kind,
                                         const char *name, uint64_t n, const char *path,
                                         struct pst_error *err);
/* Longest name of a notice about files that are left out because of their names. */
enum { PSTI_DATASET_LEFT_OUT_CAP = 17 };
void psti_dataset_folder_left_out_kind(const char *path, char kind[PSTI_DATASET_LEFT_OUT_CAP]);

/* A folder with images and masks in separate subfolders (dataset_folder_pairs.c). `images` is the
 * images' subfolder, with a slash at its end. The `n` others hold masks, and their names give the
 * fields' names. */
struct psti_folder_layout {
    char images[NAME_MAX + 2];
    const char *image_end; /* ending of image names before the extension; NULL: none */
    bool is_cityscapes;
    uint32_t n;
    struct {
        char folder[NAME_MAX + 2]; /* subfolder of the masks; fields with the same one are
                                    * adjacent */
        char field[64];
        const char *end; /* ending of this field's mask names before the extension; NULL: none */
    } masks[PST_MAX_FIELDS - 1];
};
/* Adds a subfolder to the layout. False: its name is neither that of an images' nor of a masks'
 * folder. */
bool psti_dataset_folder_layout_take(struct psti_folder_layout *layout, const char *name);
/* Sets the layout of Cityscapes: leftImg8bit/ beside gtFine/. */
void psti_dataset_folder_layout_cityscapes(struct psti_folder_layout *layout);
/* Fills rows and columns from the layout's subfolders. */
enum pst_status psti_dataset_folder_pairs(struct psti_folder *folder,
                                          const struct psti_folder_layout *layout,
                                          struct pst_error *err);

#endif
