/* dataset.h - a data set, opened for reading: what its samples are and where their bytes lie.
 *
 * A data set is a directory that pst_writer made (docs/format-dataset.md), or a plain folder of
 * image files, which needs no conversion. Sample numbers run from 0 to pst_dataset_count() - 1 and
 * never change. A handle is immutable after open: all functions but open/close may be called by any
 * thread. */
#ifndef PENSTOCK_DATASET_H
#define PENSTOCK_DATASET_H

#include <penstock/image.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct pst_dataset pst_dataset;

enum pst_field_type {
    PST_FIELD_IMAGE = 1,
    PST_FIELD_MASK = 2,      /* label or instance map: one channel, never interpolated */
    PST_FIELD_BOXES = 3,     /* f32 (n,4): x0, y0, x1, y1 in pixels, n varies */
    PST_FIELD_KEYPOINTS = 4, /* f32 (n,3): x, y, visibility, n varies */
    PST_FIELD_AUDIO = 5,     /* an audio file as it is */
    PST_FIELD_INT = 6,       /* one i64 */
    PST_FIELD_FLOAT = 7,     /* one f64 */
    PST_FIELD_BYTES = 8,
    PST_FIELD_TEXT = 9,  /* UTF-8 */
    PST_FIELD_JSON = 10, /* UTF-8 */
    PST_FIELD_ARRAY = 11 /* n-d array; dtype fixed, shape fixed or ragged */
};
const char *pst_field_type_name(enum pst_field_type type);      /* "image", "int", ... */
enum pst_field_type pst_field_type_from_name(const char *name); /* 0 if there is none */

#define PST_MAX_FIELDS 64
#define PST_MAX_NDIM 8
#define PST_MAX_VARIANTS 8

/* One column of a data set. */
/* Masks, boxes, keypoints: for which picture of an image with an EXIF orientation they were made.
 */
enum pst_made_for {
    PST_MADE_FOR_UNKNOWN = 0, /* not stated: with an image that is turned they are an error, unless
                                 a mask's size decides */
    PST_MADE_FOR_UPRIGHT = 1, /* the picture as shown, its orientation applied */
    PST_MADE_FOR_STORED = 2   /* the picture as its file stores it */
};

struct pst_field {
    char name[64]; /* [A-Za-z_][A-Za-z0-9_.-]*, unique; "index" is reserved */
    enum pst_field_type type;
    enum pst_dtype dtype; /* PST_FIELD_ARRAY: of its elements; else 0 */
    uint8_t ndim; /* PST_FIELD_ARRAY: 0 = any shape (ragged); else shape[0..ndim-1] is fixed */
    uint8_t n_variants; /* 1..PST_MAX_VARIANTS: forms in which each sample's item may be stored */
    uint32_t shape[PST_MAX_NDIM];
    int64_t n_classes;          /* PST_FIELD_INT: labels are 0..n_classes-1; 0 = no such rule */
    enum pst_made_for made_for; /* masks, boxes, keypoints; else 0 */
    uint64_t reserved[8];       /* zero: room for members of later versions */
};

#define PST_FILE_NONE UINT32_MAX

/* One stored item: variant v of field f of sample s. */
struct pst_item {
    enum pst_form form; /* PST_FORM_NONE: this sample has no such variant */
    uint32_t i_file;    /* shard (data set) or file (folder), for pst_dataset_file_path */
    uint64_t offset;    /* bytes, in that file */
    uint64_t nbytes;
    bool has_checksum; /* false in a plain folder */
    bool has_pixel_checksum;
    bool was_pli; /* PLI, PLI_JPEG: that PLI is the file that was packed; else it was made of one */
    uint64_t checksum;       /* XXH3-64 of the stored bytes */
    uint64_t pixel_checksum; /* XXH3-64 of the decoded pixels (H,W,C), u8 or u16 LE, as stored;
                                PST_FORM_PLI_JPEG: before the orientation is applied */
    uint32_t height, width;  /* of an image or mask, as shown; 0 unknown (plain folder) */
    uint8_t channels, bits;  /* 0 unknown */
    uint8_t orientation;     /* EXIF, 1 none, 0 unknown */
    uint8_t ndim;            /* PST_FIELD_ARRAY, BOXES, KEYPOINTS */
    uint32_t shape[PST_MAX_NDIM];
    uint64_t jpeg_nbytes; /* PST_FORM_PLI_JPEG: of the file that it was made from; else 0 */
};

/* Zero-initialise, then set struct_size. */
struct pst_dataset_options {
    size_t struct_size;
    /* Plain folders only. Label file: CSV (header: file,label[,...]) or JSON lines; it names files
     * relative to the folder and gives their fields. NULL: one class per sub-folder, in byte order
     * of the names, or no label where the folder is flat. A sub-folder "images" beside "masks" (or
     * "image", "mask", "mask_x", "x_masks") is no class: each image gets the masks that have its
     * name. */
    const char *labels;
    bool allow_unreadable; /* unreadable files and folders are skipped and counted, not an error */
    bool no_folder;        /* a plain folder is PST_ERROR_ARGUMENT, before it is looked through */
    /* Columns of the label file whose cells are paths of mask files, as the columns "mask",
     * "mask_..." and "..._mask" are without being named here. Read during open only. */
    const char *const *masks;
    size_t n_masks;
};

/* A plain folder
 * ------------------------------------------------------------------------------------------- */

/* Something in a plain folder that its data set does not show. */
enum pst_notice_kind {
    /* Entries that are no image. `name` is their extension (".tiff"), "hidden", "no extension",
     * "data set", "folder", or "others". */
    PST_NOTICE_LEFT_OUT = 1,
    /* Entries that allow_unreadable left out. `name` says what was wrong. */
    PST_NOTICE_UNREADABLE = 2,
    /* Masks without an image. `name` is the field. */
    PST_NOTICE_NO_IMAGE = 3,
    /* Images without a mask, with allow_unreadable. `name` is the mask's field. */
    PST_NOTICE_NO_MASK = 4,
    /* Texts that are paths of image files. `name` is the field; see `masks`. */
    PST_NOTICE_TEXT_IS_PATH = 5
};
/* "left_out", "unreadable", "mask_without_image", "image_without_mask", "text_names_files"; "none"
 * for numbers outside the list. */
const char *pst_notice_kind_name(enum pst_notice_kind kind);
struct pst_notice {
    enum pst_notice_kind kind;
    char name[64];
    uint64_t count;
    char first[256]; /* the first one: its path in the folder, its end where it is longer */
};

/* Opens the data set or folder at `path`. *out is NULL after failure. PST_ERROR_INCOMPLETE: a
 * writer was interrupted and no finished state exists; the text says how to resume. */
PST_WARN_UNUSED enum pst_status pst_dataset_open(const char *path,
                                                 const struct pst_dataset_options *options,
                                                 pst_dataset **out, struct pst_error *err);
/* Adds an owner. Each owner closes once; the last close frees. Thread-safe. */
void pst_dataset_retain(pst_dataset *dataset);
void pst_dataset_close(pst_dataset **dataset); /* NULL-safe, clears the pointer */

const char *pst_dataset_path(const pst_dataset *dataset);
bool pst_dataset_is_folder(const pst_dataset *dataset);
uint64_t pst_dataset_count(const pst_dataset *dataset);
/* 16 bytes that name the data set: random for a written one, a hash of names and sizes for a
 * folder. */
const uint8_t *pst_dataset_id(const pst_dataset *dataset);
/* Samples or files left out by allow_unreadable. */
uint64_t pst_dataset_n_skipped(const pst_dataset *dataset);
/* What opening a plain folder noticed, in the order in which it was met: pst_dataset_n_notices of
 * them, at most 32 (the last one counts all other kinds). None for a packed data set.
 * PST_ERROR_ARGUMENT: there is no notice of that number, or `notice` is NULL. */
uint32_t pst_dataset_n_notices(const pst_dataset *dataset);
PST_WARN_UNUSED enum pst_status pst_dataset_notice(const pst_dataset *dataset, uint32_t i_notice,
                                                   struct pst_notice *notice, size_t notice_nbytes,
                                                   struct pst_error *err);

uint32_t pst_dataset_n_fields(const pst_dataset *dataset);
const struct pst_field *pst_dataset_field(const pst_dataset *dataset,
                                          uint32_t i_field);              /* NULL if out of range */
int pst_dataset_find_field(const pst_dataset *dataset, const char *name); /* -1 if there is none */
/* Name of class `label` of an int field (folders: the sub-folder); NULL if there are no names. */
const char *pst_dataset_class_name(const pst_dataset *dataset, uint32_t i_field, int64_t label);

/* Largest stored item of a field over all samples and variants, in bytes; exact. */
uint64_t pst_dataset_max_item_nbytes(const pst_dataset *dataset, uint32_t i_field);
/* Largest height * width * channels * bytes of a field's images over all samples; 0 unknown
 * (folder). */
uint64_t pst_dataset_max_pixels_nbytes(const pst_dataset *dataset, uint32_t i_field);

/* Writes the sample's unique name (relative path of its file, or the key given to the writer), at
 * most 4,095 bytes of UTF-8 and a NUL, to `name`, which has room for PST_NAME_CAP bytes. */
#define PST_NAME_CAP 4096
PST_WARN_UNUSED enum pst_status pst_dataset_sample_name(const pst_dataset *dataset, uint64_t sample,
                                                        char *name, struct pst_error *err);

/* Where the bytes of an item lie. Fields of type int and float have no item: PST_ERROR_ARGUMENT.
 * An index block that was altered on disk is found here, when it is first used. Form, channels,
 * bits, orientation and shape of an item that is given out are possible ones, and raw pixels have
 * the size that these say: PST_ERROR_CORRUPT otherwise. */
PST_WARN_UNUSED enum pst_status pst_dataset_item(const pst_dataset *dataset, uint64_t sample,
                                                 uint32_t i_field, uint32_t variant,
                                                 struct pst_item *item, size_t item_nbytes,
                                                 struct pst_error *err);

/* Whether the item of an image gives back the file that was packed (false: pixels alone were kept);
 * and whether that file is a JPEG, of which the item is the PLI (pst_pli_to_jpeg). */
bool pst_item_is_original(const struct pst_item *item);
bool pst_item_was_jpeg(const struct pst_item *item);

/* The value of an int or float field. */
PST_WARN_UNUSED enum pst_status pst_dataset_int(const pst_dataset *dataset, uint64_t sample,
                                                uint32_t i_field, int64_t *value,
                                                struct pst_error *err);
PST_WARN_UNUSED enum pst_status pst_dataset_float(const pst_dataset *dataset, uint64_t sample,
                                                  uint32_t i_field, double *value,
                                                  struct pst_error *err);

/* The values of samples first..first+n-1 of an int (i64) or float (f64) field, without a call for
 * each: written to `values`, which has room for n of them. PST_ERROR_CORRUPT: a label lies outside
 * of its classes. Thread-safe. */
PST_WARN_UNUSED enum pst_status pst_dataset_column(const pst_dataset *dataset, uint32_t i_field,
                                                   uint64_t first, uint64_t n, void *values,
                                                   struct pst_error *err);
/* The number of the sample named `name`: reads names from the first on. PST_ERROR_NOT_FOUND.
 * Thread-safe. */
PST_WARN_UNUSED enum pst_status pst_dataset_find_sample(const pst_dataset *dataset,
                                                        const char *name, uint64_t *sample,
                                                        struct pst_error *err);

/* Files that items point to. The path (relative to the current directory, or absolute, as the data
 * set's path is) is written to `buffer`; PST_ERROR_LIMIT if it does not fit. */
uint32_t pst_dataset_n_files(const pst_dataset *dataset);
PST_WARN_UNUSED enum pst_status pst_dataset_file_path(const pst_dataset *dataset, uint32_t i_file,
                                                      char *buffer, size_t capacity,
                                                      struct pst_error *err);

/* Reads `nbytes` bytes of an item from `start` (both within the item) into `buffer`: a plain,
 * synchronous read for tools. When the whole item is read its checksum is verified, and text and
 * JSON are checked: PST_ERROR_CORRUPT if text is not UTF-8, or JSON is not such as json.loads of
 * Python takes, nested at most 64 deep (no bytes at all are JSON without a value). Thread-safe. */
PST_WARN_UNUSED enum pst_status pst_dataset_read(const pst_dataset *dataset, uint64_t sample,
                                                 uint32_t i_field, uint32_t variant, uint64_t start,
                                                 uint64_t nbytes, void *buffer,
                                                 struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
