/* dataset.h - a data set opened for reading: its samples, and where their bytes lie.
 *
 * A data set is a directory that pst_writer made (docs/format-dataset.md), or data of other
 * software that needs no conversion: a plain folder of image files, or tars, zips or tables
 * (index.h). Samples are numbered from 0 to pst_dataset_count() - 1; numbers never change. A handle
 * is immutable after open, so any thread may call all functions except open and close. */
#ifndef PENSTOCK_DATASET_H
#define PENSTOCK_DATASET_H

#include <penstock/image.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* An open data set of any kind. It is immutable; any thread may use it. */
typedef struct pst_dataset pst_dataset;

/* The types of fields. Numbers are part of the data set format. */
enum pst_field_type {
    PST_FIELD_IMAGE = 1,
    /* A mask: label or instance map with one channel, never interpolated. */
    PST_FIELD_MASK = 2,
    /* Boxes: f32 (n,4), x0, y0, x1, y1 in pixels; n differs between samples. */
    PST_FIELD_BOXES = 3,
    /* Keypoints: f32 (n,3), x, y, visibility; n differs between samples. */
    PST_FIELD_KEYPOINTS = 4,
    PST_FIELD_AUDIO = 5, /* the bytes of an audio file */
    PST_FIELD_INT = 6,   /* one i64 */
    PST_FIELD_FLOAT = 7, /* one f64 */
    PST_FIELD_BYTES = 8,
    PST_FIELD_TEXT = 9,  /* UTF-8 */
    PST_FIELD_JSON = 10, /* UTF-8 */
    /* N-d array with a fixed dtype; the shape is fixed, or differs between samples (ragged). */
    PST_FIELD_ARRAY = 11
};

/* Name of a field type as data sets spell it: "image", "mask", "int" and so on.
 *
 * Returns a static string, "none" for numbers outside the list. Any thread. */
const char *pst_field_type_name(enum pst_field_type type);

/* Finds the field type with this name, as pst_field_type_name writes it.
 *
 * name: a NUL-terminated string.
 *
 * Returns 0 if there is no such type. Any thread. */
enum pst_field_type pst_field_type_from_name(const char *name);

/* Largest numbers in a data set: of fields, of axes of an array, of variants of a field. */
#define PST_MAX_FIELDS 64
#define PST_MAX_NDIM 8
#define PST_MAX_VARIANTS 8
/* Largest number of points of one keypoint instance. */
#define PST_MAX_POINTS 4096

/* The picture that masks, boxes or keypoints of an image refer to if EXIF rotates the image. */
enum pst_made_for {
    /* Not stated. A sample with a rotated image is then an error, unless the mask's size shows
     * which picture is meant. */
    PST_MADE_FOR_UNKNOWN = 0,
    /* The picture as shown, after its orientation is applied. */
    PST_MADE_FOR_UPRIGHT = 1,
    /* The picture as its file stores it. */
    PST_MADE_FOR_STORED = 2
};

/* Describes one field (column) of a data set. */
struct pst_field {
    /* Name: [A-Za-z_][A-Za-z0-9_.-]*, unique in the data set; "index" is reserved. */
    char name[64];
    enum pst_field_type type;
    /* PST_FIELD_ARRAY: dtype of the elements; other types: 0. */
    enum pst_dtype dtype;
    /* PST_FIELD_ARRAY: number of axes of the fixed shape in `shape`; 0: samples differ in shape
     * (ragged). */
    uint8_t ndim;
    /* Number of variants, the forms in which an item may be stored: 1..PST_MAX_VARIANTS. */
    uint8_t n_variants;
    uint32_t shape[PST_MAX_NDIM];
    /* PST_FIELD_INT, and PST_FIELD_ARRAY of integers (labels of boxes): number of classes, labels
     * are 0..n_classes-1; 0 = any number. PST_FIELD_KEYPOINTS: number of points of one instance,
     * such as 17 for a person, at most PST_MAX_POINTS; 0 = not stated, a sample has one instance.
     * Class names of a keypoint field are the names of the points. */
    int64_t n_classes;
    /* Masks, boxes and keypoints: which picture they refer to; other types: 0. */
    enum pst_made_for made_for;
    /* PST_FIELD_KEYPOINTS: 1 + the number of left-right pairs of points, which
     * pst_dataset_point_pairs gives; 0 = not stated. When a loader mirrors the picture, it swaps
     * the points of each pair. */
    uint64_t n_pairs_plus_1;
    /* Zero. Reserved for later versions. */
    uint64_t reserved[7];
};

/* How an item's bytes are compressed in its file. */
enum pst_coding {
    PST_CODING_STORED = 0,  /* not compressed */
    PST_CODING_DEFLATE = 1, /* Deflate (RFC 1951), as in a zip */
    PST_CODING_SNAPPY = 2,  /* Snappy without framing */
    PST_CODING_ZSTD = 3,    /* Zstandard frames (RFC 8878); needs libzstd */
    PST_CODING_LZ4 = 4,     /* LZ4 frames; needs liblz4 */
    PST_CODING_PIECES = 5   /* pieces of a record in MXNet's RecordIO */
};

/* Value of pst_item.i_file for an item that lies in no file. */
#define PST_FILE_NONE UINT32_MAX

/* One stored item: a variant of a field's value for one sample. */
struct pst_item {
    /* The item's form. PST_FORM_NONE: this sample has no such variant. */
    enum pst_form form;
    /* Index of the shard or file that holds the item, for pst_dataset_file_path. */
    uint32_t i_file;
    uint64_t offset;   /* Offset in that file, in bytes. */
    uint64_t nbytes;   /* Bytes in that file; see coding and page_nbytes. */
    bool has_checksum; /* checksum is set; false in a plain folder */
    bool has_pixel_checksum;
    /* PLI, PLI_JPEG: true if the packed file was itself this PLI; false if the PLI was made from
     * another file or from pixels. */
    bool was_pli;
    /* XXH3-64 of the stored bytes. For an item in a page: of its own decoded bytes. */
    uint64_t checksum;
    /* XXH3-64 of the decoded pixels (H,W,C), u8 or little-endian u16, in the stored orientation. */
    uint64_t pixel_checksum;
    /* Size of an image or mask in pixels after its EXIF orientation is applied; 0: unknown, as in a
     * plain folder. */
    uint32_t height, width;
    uint8_t channels, bits; /* 0 unknown */
    uint8_t orientation;    /* EXIF orientation 1..8; 1 none, 0 unknown */
    /* Shape of an ARRAY, BOXES or KEYPOINTS item: number of axes. */
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    /* PST_FORM_PLI_JPEG: bytes of the JPEG file that the PLI was made from; else 0. */
    uint64_t jpeg_nbytes;
    /* Bytes of the item after decompression, which pst_dataset_read gives. With PST_CODING_STORED
     * it is 0 and `nbytes` is that number. */
    uint64_t decoded_nbytes;
    enum pst_coding coding;
    /* For an item in a page (a compressed piece of the file that holds many items): `offset`,
     * `nbytes` and `coding` describe the page, which has page_nbytes bytes after decompression. The
     * item is the decoded_nbytes bytes from page_offset on. Else both are 0. */
    uint64_t page_nbytes, page_offset;
    /* True: crc32 is the CRC-32 of the decompressed bytes, from a zip. False if the item has a
     * checksum of its stored bytes, which detects more. */
    bool has_crc32;
    uint32_t crc32;
};

/* Progress of pst_dataset_open, pst_pack or pst_verify. */
struct pst_progress {
    uint64_t n_done, n_total; /* in samples; n_total 0: unknown */
    uint64_t nbytes_in, nbytes_out;
    /* Zero. Reserved for later versions. */
    uint64_t reserved[4];
};
/* Function that the calling thread calls from time to time. A result other than 0 cancels the call
 * with PST_ERROR_CANCELLED. */
typedef int (*pst_progress_fn)(void *ctx, const struct pst_progress *progress);

/* A rule for data of other software: all members of samples with one suffix, or the table column
 * with this name, become one field of one type. Zero-initialise. */
struct pst_member_rule {
    /* Suffix such as "jpg" or "seg.png", case-insensitive. In tables the exact name of a column. */
    const char *suffix;
    const char *field; /* name of the field; NULL: derived from the suffix */
    /* Type of the field; 0: derived from the suffix. Suffixes of serialised code (pkl, pt and
     * others) are accepted only with a type; their bytes are never run. */
    enum pst_field_type type;
    bool is_left_out; /* true: ignore members with this suffix */
    /* PST_FIELD_INT: number of classes, values are 0 to n_classes - 1; 0: any number. */
    int64_t n_classes;
    uint64_t reserved[3];
};

/* Options of pst_dataset_open. Zero-initialise, then set struct_size. */
struct pst_dataset_options {
    size_t struct_size;
    /* Plain folders only. Path of a label file: CSV (header: file,label[,...]), JSON lines, or a
     * list (.txt, .list) of lines "path label". It names files relative to the folder and gives
     * their fields. NULL: each sub-folder is a class, in byte order of the names; a flat folder has
     * no labels. A sub-folder "images" beside "masks" (or "image", "mask", "mask_x", "x_masks") is
     * no class: each image gets the masks with its name. "leftImg8bit" beside "gtFine" is
     * Cityscapes: the fields "mask", "instances" and "mask_train" hold its label maps, "split" and
     * "city" the names of its folders. */
    const char *labels;
    /* True: unreadable files and folders are skipped and counted. False: they are an error. */
    bool allow_unreadable;
    /* True: a plain folder is refused with PST_ERROR_ARGUMENT before it is listed. */
    bool no_folder;
    /* Names of label file columns whose cells are paths of mask files. The columns "mask",
     * "mask_..." and "..._mask" are known without this. Read during open only. */
    const char *const *masks;
    size_t n_masks;
    /* List of image files to open instead of all images in the folder, in this order: paths
     * relative to it, with any ending, all different. They are the samples' names. The path given
     * to pst_dataset_open may be any folder, even "/". There are no labels. Read during open only.
     * PST_ERROR_ARGUMENT together with `labels`. */
    const char *const *files;
    size_t n_files;
    /* Plain folders: true opens the images without labels: sub-folders are no classes, and texts
     * with boxes beside the images (as YOLO's tools write them) are ignored. False: such texts are
     * PST_ERROR_ARGUMENT unless `labels` or `files` is given. PST_ERROR_ARGUMENT together with
     * `labels`. */
    bool ignore_labels;
    /* Tars, zips and tables only: name of the split to open, such as "train". NULL: everything at
     * the path, which must then be a single split. */
    const char *split;
    /* Tars, zips and tables only: rules for members by suffix, or for columns by name. Members
     * without a rule follow docs/tar-fields.md and docs/table-fields.md. */
    const struct pst_member_rule *members;
    size_t n_members;
    /* Tars, zips and tables only. True: the index must have a checksum for each item; if it has
     * none, all files are read once to make them. False: items are verified only if the index, or
     * the directory of a zip, has their checksums. */
    bool sums;
    /* Plain folders: true checks every file even if a saved listing of the folder says that nothing
     * changed. False: a file that was rewritten in place after the listing was made is noticed only
     * when it is first read. */
    bool check_files;
    /* Function that the calling thread calls some times a second while it lists a folder, makes an
     * index of tars, zips or tables, or waits for another process that does so. NULL: none; the log
     * gets a line every few seconds. Used during open only. */
    pst_progress_fn progress;
    void *progress_ctx;
};

/* Notices
 * ------------------------------------------------------------------------------------------- */

/* The kinds of things that opening a plain folder or tables left out or found doubtful. */
enum pst_notice_kind {
    /* Folder entries that are no images. `name` is their extension (".tiff"), "hidden", "no
     * extension", "data set", "folder", or "others". */
    PST_NOTICE_LEFT_OUT = 1,
    /* Entries that allow_unreadable left out. `name` says what was wrong with them. */
    PST_NOTICE_UNREADABLE = 2,
    /* Masks that belong to no image. `name` is the mask's field. */
    PST_NOTICE_NO_IMAGE = 3,
    /* Images without a mask, with allow_unreadable. `name` is the mask's field. */
    PST_NOTICE_NO_MASK = 4,
    /* Texts that are paths of image files. `name` is the field; see pst_dataset_options.masks. */
    PST_NOTICE_TEXT_IS_PATH = 5,
    /* Masks that are colour pictures instead of a class number per pixel: such a sample cannot be
     * delivered or packed. `name` is the field. Only some masks of each field are checked. */
    PST_NOTICE_MASK_IN_COLORS = 6,
    /* A table column that became no field, though no rule leaves it out. `name` is the column, or
     * the field that it would have become. `why` is the reason. `count` is the number of files with
     * the column. If an int column is left out because values are missing, `count` is the number of
     * samples without a value, and `first` the first of these samples. */
    PST_NOTICE_COLUMN = 7,
    /* Table rows that did not become samples. `name` says which rows these are. */
    PST_NOTICE_ROWS = 8,
    /* A label field in which some labels are hidden (-1), so it became an int field without
     * classes. `name` is the field, `first` the first sample with a hidden label, `count` is 1. */
    PST_NOTICE_LABELS = 9
};

/* Gives the name of a kind of notice: "left_out", "unreadable", "mask_without_image",
 * "image_without_mask",
 * "text_names_files", "mask_in_colours", "column_left_out", "rows_left_out" or "labels_hidden".
 *
 * Returns a static string, "none" for numbers outside the list. Any thread. */
const char *pst_notice_kind_name(enum pst_notice_kind kind);

/* One notice: its kind, the number of cases, and the first case. */
struct pst_notice {
    enum pst_notice_kind kind;
    char name[64];
    uint64_t count;
    /* Path of the first case, relative to the folder. A longer path is cut at its start. */
    char first[256];
    char why[160]; /* the reason, where the kind alone does not say it; else "" */
};

/* Explains what a path is that pst_dataset_open does not take, such as a compressed tar, an HDF5
 * file or an address like s3://bucket/train, and names the page of the guide that helps. It looks
 * at the name and reads the file's first bytes. It says nothing about a tar, zip or table that can
 * be opened.
 *
 * path: a NUL-terminated string.
 *
 * Returns a static sentence, or NULL if there is no advice for this path. Any thread. */
const char *pst_path_advice(const char *path);

/* True if the name of the path is one that pst_dataset_open takes for a file of many samples: a
 * tar, a zip, a table, or a JSON index of these. Only opening tells whether it can be read. False
 * for folders and NULL. Any thread. */
bool pst_path_holds_samples(const char *path);

/* Opens a packed data set, a plain folder, or tars, zips or tables for reading. A folder has a
 * field "image", or a field "audio" if it holds only audio files or `files` lists only those. Tars,
 * zips and tables get an index when they are opened for the first time (index.h). Shards are opened
 * when they are first read.
 *
 * path: NUL-terminated. Copied. The directory of a packed data set; a plain folder; a tar, zip or
 *     table, a folder of them, a pattern such as "train-{0000..0099}.tar" or "train-*.parquet", a
 *     list of such paths with "::" between them, or an index of tars that others made
 *     (docs/tar-fields.md, docs/table-fields.md).
 * options: NULL for the defaults. Read during the call only, with all that it points to.
 * out: receives the handle, to be closed by pst_dataset_close; NULL after failure.
 *
 * PST_ERROR_NOT_FOUND: there is nothing at the path, or no sample in it.
 * PST_ERROR_UNSUPPORTED: pst_path_advice knows the path's kind, or the folder holds such files; or
 *     a tar has a member that no rule covers, or a table has something that this library cannot
 *     read.
 * PST_ERROR_INCOMPLETE: a writer was interrupted and no finished state exists; the text says how
 *     to resume.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_CHECKSUM: the index is damaged.
 * PST_ERROR_VERSION: the data set, or the options, are of a newer version.
 * PST_ERROR_ARGUMENT: the path is a plain folder and no_folder is set, the label file does not fit
 *     the folder, an option is for another kind of data, the path has several splits and none is
 *     chosen, or PENSTOCK_CPU_MASK has an unknown value.
 * PST_ERROR_BUSY: another process makes the index, and has reported no progress for ten minutes.
 * PST_ERROR_CANCELLED: the progress function cancelled the call.
 * PST_ERROR_IO: a file or folder cannot be read. PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_open(const char *path,
                                                 const struct pst_dataset_options *options,
                                                 pst_dataset **out, struct pst_error *err);

/* Adds an owner. Each owner must call pst_dataset_close once; the last call frees the handle.
 *
 * dataset: an open handle.
 *
 * Any thread. */
void pst_dataset_retain(pst_dataset *dataset);

/* Gives up one owner's share of the handle. The last one closes the files and frees the memory.
 *
 * dataset: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * Any thread, as long as no other thread uses the same owner's handle. */
void pst_dataset_close(pst_dataset **dataset);

/* Gives the absolute path of the data set, with symbolic links resolved at open. A later change of
 * the working directory or of a link does not change which data set is read. A path below /proc
 * stays as it was given.
 *
 * Returns a string that lives as long as the data set. Any thread. */
const char *pst_dataset_path(const pst_dataset *dataset);

/* True for a plain folder of images, false for any other data set. Any thread. */
bool pst_dataset_is_folder(const pst_dataset *dataset);

/* True for a packed data set, whose index knows form, size and checksum of each item. False for a
 * plain folder, and for files that others made, such as tars and tables: there the form of an image
 * is PST_FORM_NONE until its bytes are read. Any thread. */
bool pst_dataset_is_packed(const pst_dataset *dataset);

/* Number of samples. It does not change while the data set is open. Any thread. */
uint64_t pst_dataset_count(const pst_dataset *dataset);

/* Gives 16 bytes that all files of a packed data set carry. They are derived from its schema
 * (random in data sets of version 0.1 and before); for a folder they are a hash of names and sizes.
 * Different data sets may have equal bytes: pst_dataset_identity tells them apart.
 *
 * Returns a pointer that lives as long as the data set. Any thread. */
const uint8_t *pst_dataset_id(const pst_dataset *dataset);

/* Kinds of identity. Each says what two data sets must have in common to count as the same. */
enum pst_identity {
    /* Identity of all stored bytes, by which caches, host services and fleets recognise a data set.
     * Copies of a packed data set that were appended to or repacked in different ways differ; the
     * same files packed twice with the same options do not. For a plain folder it is derived from
     * names and sizes, and from each file's inode number and times of modification and status
     * change, so it is the same on all machines that see the same file system. On file systems that
     * make up inode numbers (FUSE, SMB, 9p) it uses names, sizes and times of modification only. */
    PST_IDENTITY_BYTES = 1,
    /* Identity of the samples as training sees them: their number, order and names, the values of
     * int and float fields, and the class names; not form, pixels or path. A folder and the data
     * set that `penstock pack` makes of it have the same identity, and so has a repacked copy.
     * States of a loader carry it. */
    PST_IDENTITY_SAMPLES = 2,
    /* Identity of a plain folder without inodes and times: names, sizes and the values of the label
     * file, so it is the same on every machine. For a packed data set it equals BYTES. */
    PST_IDENTITY_LISTED = 3,
    /* Identity made of the lengths of the original files of the first image field, or else of the
     * first sound: a folder's files; JPEGs, PNGs and WebPs as stored; JPEGs kept as PLI. States use
     * it to tell data sets apart whose samples have the same names and labels. */
    PST_IDENTITY_FILES = 4
};

/* Length of an identity in bytes. */
#define PST_IDENTITY_NBYTES 16

/* Computes an identity of an open data set, in the state in which it was opened.
 *
 * dataset: an open handle.
 * kind: one of enum pst_identity.
 * identity: receives 16 bytes.
 *
 * For PST_IDENTITY_SAMPLES of a plain folder, or of a data set of an older version, the first call
 * reads all names and labels: about a second for 10 million. It may fail with
 * PST_ERROR_CHECKSUM, PST_ERROR_CORRUPT: the index is damaged. PST_ERROR_IO.
 * PST_ERROR_NOT_FOUND: PST_IDENTITY_FILES is unknown because the data set does not hold the length
 *     of each original: only pixels were kept, or an older version wrote it.
 * PST_ERROR_ARGUMENT: there is no such kind.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_identity(const pst_dataset *dataset,
                                                     enum pst_identity kind,
                                                     uint8_t identity[PST_IDENTITY_NBYTES],
                                                     struct pst_error *err);

/* Number of samples or files that opening left out because of allow_unreadable; 0 without it. Any
 * thread. */
uint64_t pst_dataset_n_skipped(const pst_dataset *dataset);

/* Number of notices about a plain folder or tables, 0 to 32. If there are more, the last notice
 * counts all that did not fit. A packed data set has none.
 *
 * Any thread. */
uint32_t pst_dataset_n_notices(const pst_dataset *dataset);

/* Gives one notice. Notices are in the order in which opening the data set found them.
 *
 * i_notice: 0 to pst_dataset_n_notices() - 1.
 * notice: the caller's struct, written after success only.
 * notice_nbytes: sizeof *notice.
 *
 * PST_ERROR_ARGUMENT: there is no notice of that number, or notice is NULL.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_notice(const pst_dataset *dataset, uint32_t i_notice,
                                                   struct pst_notice *notice, size_t notice_nbytes,
                                                   struct pst_error *err);

/* Number of fields, 1 to PST_MAX_FIELDS. Any thread. */
uint32_t pst_dataset_n_fields(const pst_dataset *dataset);

/* Describes one field.
 *
 * i_field: 0 to pst_dataset_n_fields() - 1.
 *
 * Returns a struct that lives as long as the data set, or NULL if there is no such field. Any
 * thread. */
const struct pst_field *pst_dataset_field(const pst_dataset *dataset, uint32_t i_field);

/* Finds the index of the field that has this name.
 *
 * name: a NUL-terminated string.
 *
 * Returns -1 if there is none. Any thread. */
int pst_dataset_find_field(const pst_dataset *dataset, const char *name);

/* Gives the name of a class of a label field (int, or array of ints). In a folder it is the name of
 * the sub-folder. For keypoints it is the name of a point of an instance.
 *
 * i_field: number of a field.
 * label: a value of that field.
 *
 * Returns a UTF-8 string that lives as long as the data set. NULL: the field has no class names, or
 * there is no such class. Any thread. */
const char *pst_dataset_class_name(const pst_dataset *dataset, uint32_t i_field, int64_t label);

/* Gives the pairs of left and right points of a keypoint field, u32 (n_pairs,2): indices of points
 * within an instance. n_pairs is the field's n_pairs_plus_1 - 1.
 *
 * i_field: number of a field.
 *
 * Returns an array that lives as long as the data set. NULL: there are no pairs. Any thread. */
const uint32_t *pst_dataset_point_pairs(const pst_dataset *dataset, uint32_t i_field);

/* Gives the exact size in bytes of the largest stored item of a field over all samples and
 * variants.
 *
 * i_field: number of a field.
 *
 * Returns 0 for a field that does not exist or has no items (int, float). Any thread. */
uint64_t pst_dataset_max_item_nbytes(const pst_dataset *dataset, uint32_t i_field);

/* Gives the bytes of the largest decoded image of a field: height * width * channels * bytes of a
 * channel.
 *
 * i_field: number of a field of type image or mask.
 *
 * Returns 0 if it is unknown, as in a plain folder. Any thread. */
uint64_t pst_dataset_max_pixels_nbytes(const pst_dataset *dataset, uint32_t i_field);

/* Largest size of a sample's name in bytes, with its NUL. */
#define PST_NAME_CAP 4096

/* Writes the unique name of a sample: the relative path of its file, or the key that was given to
 * the writer.
 *
 * sample: 0 to pst_dataset_count() - 1.
 * name: room for PST_NAME_CAP bytes. Receives at most 4,095 bytes of UTF-8 and a NUL.
 *
 * PST_ERROR_ARGUMENT: there is no such sample.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_IO: the block of the index that holds the name
 *     cannot be read.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_sample_name(const pst_dataset *dataset, uint64_t sample,
                                                        char *name, struct pst_error *err);

/* Says where the bytes of an item lie and what they are. The form, channels, bits, orientation and
 * shape are checked to be possible, and the length of raw pixels to agree with them.
 *
 * sample: 0 to pst_dataset_count() - 1.
 * i_field: number of a field that has items. Fields of type int and float have values instead.
 * variant: 0 to n_variants - 1 of the field. Where the sample has no such variant, item->form is
 *     PST_FORM_NONE and the call succeeds.
 * item: the caller's struct, written after success only.
 * item_nbytes: sizeof *item.
 *
 * PST_ERROR_ARGUMENT: there is no such sample, item or variant.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM: a block of the index is damaged. Blocks are checked when
 *     they are first used.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_item(const pst_dataset *dataset, uint64_t sample,
                                                 uint32_t i_field, uint32_t variant,
                                                 struct pst_item *item, size_t item_nbytes,
                                                 struct pst_error *err);

/* True if the packed file can be restored from this item of an image. False: only its pixels were
 * kept.
 *
 * item: as pst_dataset_item gave it.
 *
 * Any thread. */
bool pst_item_is_original(const struct pst_item *item);

/* True if the packed file is a JPEG and the item is a PLI of it. pst_pli_to_jpeg restores the file.
 *
 * item: as pst_dataset_item gave it.
 *
 * Any thread. */
bool pst_item_was_jpeg(const struct pst_item *item);

/* Reads the value of a field of type int.
 *
 * sample: 0 to pst_dataset_count() - 1.
 * i_field: number of a field of type int.
 * value: receives the value after success.
 *
 * PST_ERROR_ARGUMENT: there is no such sample, or the field has no int values.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_IO: the index cannot be read, or the label is
 *     outside of its classes.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_int(const pst_dataset *dataset, uint64_t sample,
                                                uint32_t i_field, int64_t *value,
                                                struct pst_error *err);

/* Reads the value of a field of type float.
 *
 * sample: 0 to pst_dataset_count() - 1.
 * i_field: number of a field of type float.
 * value: receives the value after success.
 *
 * PST_ERROR_ARGUMENT: there is no such sample, or the field has no float values.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_IO: the index cannot be read.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_float(const pst_dataset *dataset, uint64_t sample,
                                                  uint32_t i_field, double *value,
                                                  struct pst_error *err);

/* Reads the values of neighbouring samples of an int or float field in one call.
 *
 * i_field: number of a field of type int or float.
 * first: number of the first sample.
 * n: how many samples. first + n is at most pst_dataset_count().
 * values: room for n values, int64_t for int fields and double for float fields. What it holds
 *     after failure is not defined.
 *
 * PST_ERROR_ARGUMENT: the samples or the field do not exist, or the field has no numbers.
 * PST_ERROR_CORRUPT: a label lies outside of its classes, or the index is damaged.
 *     PST_ERROR_CHECKSUM, PST_ERROR_IO.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_column(const pst_dataset *dataset, uint32_t i_field,
                                                   uint64_t first, uint64_t n, void *values,
                                                   struct pst_error *err);

/* Finds a sample by its name. Names are read from the first on, so the time grows with the data
 * set.
 *
 * name: a NUL-terminated string.
 * sample: receives the number after success.
 *
 * PST_ERROR_NOT_FOUND: no sample has that name.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_IO: the index cannot be read.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_find_sample(const pst_dataset *dataset,
                                                        const char *name, uint64_t *sample,
                                                        struct pst_error *err);

/* Number of files that hold items: shards, image files of a folder, or tars, zips and tables. Any
 * thread. */
uint32_t pst_dataset_n_files(const pst_dataset *dataset);

/* Sums up the bytes of all files that items lie in.
 *
 * nbytes: receives the sum after success.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_IO: the index cannot be read.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_nbytes(const pst_dataset *dataset, uint64_t *nbytes,
                                                   struct pst_error *err);

/* Writes the path of one file. It is relative or absolute like the path of the data set.
 *
 * i_file: 0 to pst_dataset_n_files() - 1, as pst_item.i_file.
 * buffer: receives the path and a NUL.
 * capacity: bytes of buffer.
 *
 * PST_ERROR_ARGUMENT: there is no such file.
 * PST_ERROR_LIMIT: the path does not fit; the buffer's contents are undefined.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_file_path(const pst_dataset *dataset, uint32_t i_file,
                                                      char *buffer, size_t capacity,
                                                      struct pst_error *err);

/* Reads bytes of an item with plain, synchronous reads, for tools; loaders have their own
 * read-ahead. If the whole item is read, its checksum is compared, and text and JSON are validated:
 * JSON as Python's json.loads takes it, nested at most 64 deep. An empty item is JSON without a
 * value.
 *
 * sample, i_field, variant: as in pst_dataset_item.
 * start: first byte to read, counted from the start of the item.
 * nbytes: how many. start + nbytes is at most the size of the item. Both count decompressed bytes
 *     if the item has a coding; the whole item is then decompressed, whatever part is requested.
 * buffer: room for nbytes bytes. What it holds after failure is not defined.
 *
 * PST_ERROR_ARGUMENT: there is no such item, or the bytes are not all within it.
 * PST_ERROR_CHECKSUM: the stored bytes are not those that were written.
 * PST_ERROR_CORRUPT: a text is not UTF-8, JSON is not valid, or the item cannot be decoded.
 * PST_ERROR_TRUNCATED: the file ends too early. PST_ERROR_IO, PST_ERROR_NOT_FOUND: it cannot be
 *     read. PST_ERROR_MEMORY.
 * PST_ERROR_LIMIT: the item claims to decompress to more bytes than this machine has available. No
 *     memory was allocated.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_read(const pst_dataset *dataset, uint64_t sample,
                                                 uint32_t i_field, uint32_t variant, uint64_t start,
                                                 uint64_t nbytes, void *buffer,
                                                 struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
