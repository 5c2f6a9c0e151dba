/* dataset.h - a data set, opened for reading: its samples and the places of their bytes.
 *
 * A data set is a directory that pst_writer made (docs/format-dataset.md), or data that others
 * made and that needs no conversion: a plain folder of image files, or tars, zips or tables
 * (index.h). Sample numbers run from 0 to pst_dataset_count() - 1 and never change. A handle is
 * immutable after open: any thread may call all functions but open and close. */
#ifndef PENSTOCK_DATASET_H
#define PENSTOCK_DATASET_H

#include <penstock/image.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* An open data set, of any kind. Immutable; any thread. */
typedef struct pst_dataset pst_dataset;

/* The types of fields. Numbers are part of the data set format. */
enum pst_field_type {
    PST_FIELD_IMAGE = 1,
    /* Label or instance map: one channel, never interpolated. */
    PST_FIELD_MASK = 2,
    /* f32 (n,4): x0, y0, x1, y1 in pixels; n varies. */
    PST_FIELD_BOXES = 3,
    /* f32 (n,3): x, y, visibility; n varies. */
    PST_FIELD_KEYPOINTS = 4,
    PST_FIELD_AUDIO = 5, /* an audio file as it is */
    PST_FIELD_INT = 6,   /* one i64 */
    PST_FIELD_FLOAT = 7, /* one f64 */
    PST_FIELD_BYTES = 8,
    PST_FIELD_TEXT = 9,  /* UTF-8 */
    PST_FIELD_JSON = 10, /* UTF-8 */
    /* N-d array; dtype fixed, shape fixed or ragged. */
    PST_FIELD_ARRAY = 11
};

/* Name of a field type as data sets spell it: "image", "mask", "int" and so on.
 *
 * Returns a static string, "none" for numbers outside the list. Any thread. */
const char *pst_field_type_name(enum pst_field_type type);

/* The field type of this name.
 *
 * name: a NUL-terminated string.
 *
 * Returns 0 if there is none. Any thread. */
enum pst_field_type pst_field_type_from_name(const char *name);

/* Limits of a data set: fields, dimensions of an array, variants of a field. */
#define PST_MAX_FIELDS 64
#define PST_MAX_NDIM 8
#define PST_MAX_VARIANTS 8
/* Limit of the points of one instance of keypoints. */
#define PST_MAX_POINTS 4096

/* The picture for which masks, boxes or keypoints of an image with an EXIF orientation were made.
 */
enum pst_made_for {
    /* Not stated. It is an error with a rotated image, unless a mask's size decides. */
    PST_MADE_FOR_UNKNOWN = 0,
    /* The picture as shown, after its orientation is applied. */
    PST_MADE_FOR_UPRIGHT = 1,
    /* The picture as its file stores it. */
    PST_MADE_FOR_STORED = 2
};

/* One column of a data set. */
struct pst_field {
    /* [A-Za-z_][A-Za-z0-9_.-]*, unique; "index" is reserved. */
    char name[64];
    enum pst_field_type type;
    /* PST_FIELD_ARRAY: type of the elements; else 0. */
    enum pst_dtype dtype;
    /* PST_FIELD_ARRAY: 0 = any shape (ragged); else shape[0..ndim-1] is fixed. */
    uint8_t ndim;
    /* 1..PST_MAX_VARIANTS: forms in which each sample's item may be stored. */
    uint8_t n_variants;
    uint32_t shape[PST_MAX_NDIM];
    /* PST_FIELD_INT, and PST_FIELD_ARRAY of whole numbers (labels of boxes): labels are
     * 0..n_classes-1; 0 = any number. PST_FIELD_KEYPOINTS: number of points of one instance, say 17
     * of a person, at most PST_MAX_POINTS; 0 = not stated, a sample has one instance. Their class
     * names are the names of the points. */
    int64_t n_classes;
    /* Masks, boxes, keypoints; else 0. */
    enum pst_made_for made_for;
    /* PST_FIELD_KEYPOINTS: 1 + the number of pairs of left and right points, which
     * pst_dataset_point_pairs gives; 0 = not stated. A loader swaps the points of each pair where
     * it mirrors the picture. */
    uint64_t n_pairs_plus_1;
    /* Zero. Reserved for members of later versions. */
    uint64_t reserved[7];
};

/* How the bytes of an item lie in its file. */
enum pst_coding {
    PST_CODING_STORED = 0,  /* as they are */
    PST_CODING_DEFLATE = 1, /* deflated (RFC 1951), as a zip has them */
    PST_CODING_SNAPPY = 2,  /* Snappy, without frames */
    PST_CODING_ZSTD = 3,    /* frames of Zstandard (RFC 8878); decoding needs libzstd */
    PST_CODING_LZ4 = 4,     /* frames of LZ4; decoding needs liblz4 */
    PST_CODING_PIECES = 5   /* parts of a record of MXNet's RecordIO */
};

/* pst_item.i_file of an item that lies in no file. */
#define PST_FILE_NONE UINT32_MAX

/* One stored item: variant v of field f of sample s. */
struct pst_item {
    /* PST_FORM_NONE: this sample has no such variant. */
    enum pst_form form;
    /* Number of its shard (data set) or file (folder), for pst_dataset_file_path. */
    uint32_t i_file;
    uint64_t offset;   /* Offset in that file, in bytes. */
    uint64_t nbytes;   /* Bytes in that file; see coding and page_nbytes. */
    bool has_checksum; /* False in a plain folder. */
    bool has_pixel_checksum;
    /* PLI, PLI_JPEG: true if the file that was packed was this PLI. False: the PLI was made from
     * another file or from pixels. */
    bool was_pli;
    /* XXH3-64 of the stored bytes. Of an item in a page: of its own decoded bytes. */
    uint64_t checksum;
    /* XXH3-64 of the decoded pixels (H,W,C), u8 or u16 LE, as stored. PST_FORM_PLI_JPEG: before the
     * orientation is applied. */
    uint64_t pixel_checksum;
    /* Size of an image or mask, as shown; 0: unknown (plain folder). */
    uint32_t height, width;
    uint8_t channels, bits; /* 0 unknown */
    uint8_t orientation;    /* EXIF, 1 none, 0 unknown */
    /* PST_FIELD_ARRAY, BOXES, KEYPOINTS. */
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    /* PST_FORM_PLI_JPEG: size of the JPEG file that it was made from; else 0. */
    uint64_t jpeg_nbytes;
    /* Unless coding is PST_CODING_STORED: how many bytes the item has when it is decoded, which is
     * what pst_dataset_read gives. 0 with PST_CODING_STORED: nbytes is that number. */
    uint64_t decoded_nbytes;
    enum pst_coding coding;
    /* An item in a page, that is, in a piece of the file that holds many items and is compressed as
     * one: `offset`, `nbytes` and `coding` are those of the page, which has page_nbytes when it is
     * decoded. The item is decoded_nbytes of these, from page_offset on. Else both are 0. */
    uint64_t page_nbytes, page_offset;
    /* CRC-32 of the decoded bytes, as a zip states it. False where the item has a checksum of its
     * stored bytes, which says more. */
    bool has_crc32;
    uint32_t crc32;
};

/* Progress of pst_dataset_open, pst_pack or pst_verify. */
struct pst_progress {
    uint64_t n_done, n_total; /* In samples; n_total 0: not known. */
    uint64_t nbytes_in, nbytes_out;
    /* Zero: room for members of later versions. */
    uint64_t reserved[4];
};
/* Called from time to time by the calling thread. A return other than 0 cancels
 * (PST_ERROR_CANCELLED). */
typedef int (*pst_progress_fn)(void *ctx, const struct pst_progress *progress);

/* A rule for members of samples, in files of others: all members with one suffix are of this field
 * and type. In tables the rule is for a column. Zero-initialise. */
struct pst_member_rule {
    /* "jpg", "seg.png"; letters of either case. In tables the name of a column, as it is. */
    const char *suffix;
    const char *field; /* name of the field; NULL: by the suffix */
    /* 0: by the suffix. A type makes a suffix of code (pkl, pt and others) admissible; its bytes
     * are never run. */
    enum pst_field_type type;
    bool is_left_out;  /* members with the suffix are passed over */
    int64_t n_classes; /* of type PST_FIELD_INT: values are 0 to n_classes - 1; 0: any number */
    uint64_t reserved[3];
};

/* Options of pst_dataset_open. Zero-initialise, then set struct_size. */
struct pst_dataset_options {
    size_t struct_size;
    /* Plain folders only. Path of a label file: CSV (header: file,label[,...]), JSON lines,
     * or a list (.txt, .list) of lines "path label". It names files relative to the folder and
     * gives their fields. NULL: there is one class per
     * sub-folder, in byte order of the names, or no label if the folder is flat. A sub-folder
     * "images" beside "masks" (or "image", "mask", "mask_x", "x_masks") is no class: each image
     * gets the masks of the same name. "leftImg8bit" beside "gtFine" is Cityscapes: the fields
     * "mask", "instances" and "mask_train" hold its label maps, "split" and "city" the names of its
     * folders. */
    const char *labels;
    /* Unreadable files and folders are skipped and counted. False: they are an error. */
    bool allow_unreadable;
    /* A plain folder is PST_ERROR_ARGUMENT. It is refused before it is listed. */
    bool no_folder;
    /* Names of columns of the label file whose cells are paths of mask files. The columns "mask",
     * "mask_..." and "..._mask" need not be named. Read during open only. */
    const char *const *masks;
    size_t n_masks;
    /* The images, in this order, instead of all that are in the folder: paths relative to it, of
     * files with any ending. The path given to pst_dataset_open may be that of any folder, "/" too.
     * Samples have these names, which must differ. There are no labels. Read during open only.
     * PST_ERROR_ARGUMENT with `labels`. */
    const char *const *files;
    size_t n_files;
    /* Plain folders: images without labels. Sub-folders are no classes, and texts with boxes beside
     * the images (as YOLO's tools keep them) are left out. False: such texts are
     * PST_ERROR_ARGUMENT, if neither `labels` nor `files` is given. PST_ERROR_ARGUMENT with
     * `labels`. */
    bool ignore_labels;
    /* Files of others only (tars, zips, tables). The split to open, such as "train". NULL: all that
     * the path means; it is an error if that is several splits. */
    const char *split;
    /* Files of others only. Rules for members of samples, by suffix, or for columns, by name; the
     * others follow docs/tar-fields.md and docs/table-fields.md. */
    const struct pst_member_rule *members;
    size_t n_members;
    /* Files of others only. The index must have a checksum of each item; if it has none, all files
     * are read once. False: items are not checked unless the index, or the directory of a zip, has
     * their checksums. */
    bool sums;
    /* Plain folders: every file is looked at, also where a saved listing of the folder says that
     * nothing has changed. False: files that were rewritten in place since the listing was made are
     * noticed when they are first read. */
    bool check_files;
    /* Called some times a second by the calling thread while a folder is listed or an index of
     * files of others is made, and while another process is waited for that does so. NULL: not
     * called; the log gets a line every few seconds. Used during open only. */
    pst_progress_fn progress;
    void *progress_ctx;
};

/* Notices
 * ------------------------------------------------------------------------------------------- */

/* Kinds of things in a plain folder, or in tables, that the data set does not show. */
enum pst_notice_kind {
    /* Entries that are no image. `name` is their extension (".tiff"), "hidden", "no extension",
     * "data set", "folder", or "others". */
    PST_NOTICE_LEFT_OUT = 1,
    /* Entries that allow_unreadable left out. `name` says what was wrong with them. */
    PST_NOTICE_UNREADABLE = 2,
    /* Masks without an image. `name` is the field. */
    PST_NOTICE_NO_IMAGE = 3,
    /* Images without a mask, with allow_unreadable. `name` is the mask's field. */
    PST_NOTICE_NO_MASK = 4,
    /* Texts that are paths of image files. `name` is the field; see `masks`. */
    PST_NOTICE_TEXT_IS_PATH = 5,
    /* Masks that are pictures in colours, where a mask has the number of a class in each pixel:
     * such a sample cannot be delivered or packed. `name` is the field. Some masks of each field
     * are looked at. */
    PST_NOTICE_MASK_IN_COLORS = 6,
    /* A column of tables that did not become a field, though no rule leaves it out. `name` is the
     * column, or the field that it would be. `why` is the reason. `count` is the number of files
     * with such a column. If an int column is left out because values are missing, `count` is the
     * number of samples without a value, and `first` is the first of them. */
    PST_NOTICE_COLUMN = 7,
    /* Rows of tables that did not become samples. `name` says what they are. */
    PST_NOTICE_ROWS = 8,
    /* A field of labels in which some labels are hidden (-1), so it is an int field without
     * classes. `name` is the field, `first` the first sample with a hidden label, `count` 1. */
    PST_NOTICE_LABELS = 9
};

/* Name of a kind of notice: "left_out", "unreadable", "mask_without_image", "image_without_mask",
 * "text_names_files", "mask_in_colours", "column_left_out", "rows_left_out" or "labels_hidden".
 *
 * Returns a static string, "none" for numbers outside the list. Any thread. */
const char *pst_notice_kind_name(enum pst_notice_kind kind);

/* One notice: its kind, the number of cases, and the first case. */
struct pst_notice {
    enum pst_notice_kind kind;
    char name[64];
    uint64_t count;
    /* Path of the first case in the folder. Only its end if it is longer. */
    char first[256];
    char why[160]; /* the reason, where the kind alone does not tell it; else empty */
};

/* Says what a path is that pst_dataset_open does not take: a compressed tar, an HDF5 file,
 * an address such as s3://bucket/train, and which page of the guide helps. A file is told by its
 * first bytes, which are read, and by its name. A tar, zip or table whose name says what it is can
 * be opened, so nothing is said of it.
 *
 * path: a NUL-terminated string.
 *
 * Returns a static sentence; NULL: nothing of that kind is known of it. Any thread. */
const char *pst_path_advice(const char *path);

/* True if the path is one that pst_dataset_open takes for a file with many samples, by its name: a
 * tar, a zip, a table, or a JSON index of these. Whether it can be read, opening it tells. False
 * for folders and NULL. Any thread. */
bool pst_path_holds_samples(const char *path);

/* Opens a packed data set, a plain folder, or tars, zips or tables of others for reading. A folder
 * is one of images, field "image"; or, if it has none, or if a list of files names nothing else, of
 * audio files, field "audio". Of files of others an index is made when they are opened for the
 * first time (index.h). Shards are opened when they are first read.
 *
 * path: NUL-terminated. Copied. The directory of a packed data set; a plain folder; a tar, zip or
 *     table, a folder of them, a pattern such as "train-{0000..0099}.tar" or "train-*.parquet", a
 *     list of such paths with "::" between them, or an index of tars that others made
 *     (docs/tar-fields.md, docs/table-fields.md).
 * options: NULL for the defaults. Read during the call only, with all that it points to.
 * out: receives the handle, to be closed by pst_dataset_close; NULL after failure.
 *
 * PST_ERROR_NOT_FOUND: there is nothing at the path, or no sample in it.
 * PST_ERROR_UNSUPPORTED: it is something that pst_path_advice knows, or a folder of such files; or
 *     a member of a tar that no rule takes, or what a table has and this library cannot read.
 * PST_ERROR_INCOMPLETE: a writer was interrupted and no finished state exists; the text says how
 *     to resume.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_CHECKSUM: the index is damaged.
 * PST_ERROR_VERSION: the data set, or the options, are of a newer version.
 * PST_ERROR_ARGUMENT: the path is a plain folder and no_folder is set, the label file does not fit
 *     the folder, an option is for another kind of data, files of others have several splits and
 *     none is named, or PENSTOCK_CPU_MASK has an unknown value.
 * PST_ERROR_BUSY: another process makes the index, and has told no progress for ten minutes.
 * PST_ERROR_CANCELLED: progress said so.
 * PST_ERROR_IO: a file or folder cannot be read. PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_open(const char *path,
                                                 const struct pst_dataset_options *options,
                                                 pst_dataset **out, struct pst_error *err);

/* Adds an owner. Each owner closes once, and the last close frees.
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

/* The absolute path of the data set, with links resolved when it was opened. A change of the
 * process's directory, or of a link, does not change which data set is read. A path below /proc
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

/* 16 bytes that all files of a packed data set carry, made of its schema (random numbers in data
 * sets of version 0.1 and before); for a folder a hash of names and sizes. Two data sets may have
 * the same: pst_dataset_identity tells them apart.
 *
 * Returns a pointer that lives as long as the data set. Any thread. */
const uint8_t *pst_dataset_id(const pst_dataset *dataset);

/* Kinds of identity: each names what two data sets must have alike to count as one. */
enum pst_identity {
    /* All stored bytes. Caches, host services and fleets know a data set by it. Copies of a packed
     * data set that were then appended to, or repacked, in different ways differ; the same files
     * packed twice with the same options do not. For a plain folder it is made of names and sizes,
     * and of each file's inode number and times of modification and status change, so it holds on
     * this machine and on others that see the same file system. On file systems that make up inode
     * numbers (FUSE, SMB, 9p) only of names, sizes and times of modification. */
    PST_IDENTITY_BYTES = 1,
    /* The samples as training sees them: their number, order and names, the values of int and float
     * fields, and the names of classes; not form, pixels or path. A folder and what `penstock pack`
     * makes of it have the same, and so has what `penstock repack` makes of that. States of a
     * loader carry it. */
    PST_IDENTITY_SAMPLES = 2,
    /* For a plain folder all that is known without the files' inodes and times: names, sizes and
     * the values of the label file, the same on each machine. For a packed data set as BYTES. */
    PST_IDENTITY_LISTED = 3,
    /* The lengths of the files that the first image field, or else the first sound, was made from:
     * a folder's files, JPEGs, PNGs and WebPs as they are stored, and JPEGs kept as PLI. With it,
     * states tell data sets apart whose samples have the same names and labels. */
    PST_IDENTITY_FILES = 4
};

/* Length of an identity. */
#define PST_IDENTITY_NBYTES 16

/* An identity of an open data set: as it was when it was opened.
 *
 * dataset: an open handle.
 * kind: one of enum pst_identity.
 * identity: receives 16 bytes.
 *
 * PST_IDENTITY_SAMPLES of a plain folder, or of a data set that older software wrote, takes a pass
 * over all names and labels when it is first asked for: about a second for 10 million. It may fail:
 * PST_ERROR_CHECKSUM, PST_ERROR_CORRUPT: the index is damaged. PST_ERROR_IO.
 * PST_ERROR_NOT_FOUND: PST_IDENTITY_FILES of a data set that does not tell it for each sample, as
 *     where pixels alone were kept, or that older software wrote.
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

/* Number of notices about a plain folder or tables, 0 to 32. If there were more, the last of the 32
 * counts all the others. A packed data set has none.
 *
 * Any thread. */
uint32_t pst_dataset_n_notices(const pst_dataset *dataset);

/* Gives one notice. Notices are in the order in which opening met them.
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

/* The number of the field that has this name.
 *
 * name: a NUL-terminated string.
 *
 * Returns -1 if there is none. Any thread. */
int pst_dataset_find_field(const pst_dataset *dataset, const char *name);

/* The name of a class of a field of labels: int, or an array of them. In a folder that is the name
 * of the sub-folder. Of keypoints: the name of a point of an instance.
 *
 * i_field: number of a field.
 * label: a value of that field.
 *
 * Returns a string (UTF-8) that lives as long as the data set. NULL: the field has no class names,
 * or no such class. Any thread. */
const char *pst_dataset_class_name(const pst_dataset *dataset, uint32_t i_field, int64_t label);

/* The pairs of left and right points of a field of keypoints, u32 (n_pairs,2): numbers of points
 * within an instance. n_pairs is n_pairs_plus_1 - 1 of the field.
 *
 * i_field: number of a field.
 *
 * Returns an array that lives as long as the data set. NULL: there are no pairs. Any thread. */
const uint32_t *pst_dataset_point_pairs(const pst_dataset *dataset, uint32_t i_field);

/* Size of the largest stored item of a field over all samples and variants, in bytes. It is exact.
 *
 * i_field: number of a field.
 *
 * Returns 0 for a field that does not exist or has no items (int, float). Any thread. */
uint64_t pst_dataset_max_item_nbytes(const pst_dataset *dataset, uint32_t i_field);

/* Size of the largest decoded image of a field: height * width * channels * bytes of one sample.
 *
 * i_field: number of a field of type image or mask.
 *
 * Returns 0 if it is unknown, as in a plain folder. Any thread. */
uint64_t pst_dataset_max_pixels_nbytes(const pst_dataset *dataset, uint32_t i_field);

/* Bytes that a sample's name takes at most, with its NUL. */
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

/* Says where the bytes of an item lie and what they are. Form, channels, bits, orientation and
 * shape of an item are checked to be possible ones, and raw pixels to have the size that these
 * say.
 *
 * sample: 0 to pst_dataset_count() - 1.
 * i_field: number of a field that has items. Fields of type int and float have values instead.
 * variant: 0 to n_variants - 1 of the field. Where the sample has no such variant, item->form is
 *     PST_FORM_NONE and the call succeeds.
 * item: the caller's struct, written after success only.
 * item_nbytes: sizeof *item.
 *
 * PST_ERROR_ARGUMENT: there is no such sample, item or variant.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM: a block of the index was altered on disk; it is checked
 *     when it is first used.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_item(const pst_dataset *dataset, uint64_t sample,
                                                 uint32_t i_field, uint32_t variant,
                                                 struct pst_item *item, size_t item_nbytes,
                                                 struct pst_error *err);

/* True if the item of an image gives back the file that was packed. False: its pixels alone were
 * kept.
 *
 * item: as pst_dataset_item gave it.
 *
 * Any thread. */
bool pst_item_is_original(const struct pst_item *item);

/* True if the file that was packed is a JPEG and the item is its PLI. pst_pli_to_jpeg gives the
 * file back.
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

/* Number of files that hold items: shards of a packed data set, images of a folder, files of
 * others. Any thread. */
uint32_t pst_dataset_n_files(const pst_dataset *dataset);

/* Counts the bytes of all files that items lie in.
 *
 * nbytes: receives the sum after success.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_IO: the index cannot be read.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_nbytes(const pst_dataset *dataset, uint64_t *nbytes,
                                                   struct pst_error *err);

/* Writes the path of one file. It is relative to the current directory, or absolute, as the path
 * of the data set is.
 *
 * i_file: 0 to pst_dataset_n_files() - 1, as pst_item.i_file.
 * buffer: receives the path and a NUL.
 * capacity: bytes of buffer.
 *
 * PST_ERROR_ARGUMENT: there is no such file.
 * PST_ERROR_LIMIT: the path does not fit; nothing useful was written.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_dataset_file_path(const pst_dataset *dataset, uint32_t i_file,
                                                      char *buffer, size_t capacity,
                                                      struct pst_error *err);

/* Reads bytes of an item with plain, synchronous reads. It is for tools; loaders read ahead by
 * themselves. When the whole item is read its checksum is compared, and text and JSON are checked:
 * JSON is what json.loads of Python takes, nested at most 64 deep. No bytes at all are JSON
 * without a value.
 *
 * sample, i_field, variant: as in pst_dataset_item.
 * start: first byte to read, counted from the start of the item.
 * nbytes: how many. start + nbytes is at most the size of the item. Both count decoded bytes where
 *     the item has a coding; it is decoded as a whole, whatever part is asked for.
 * buffer: room for nbytes bytes. What it holds after failure is not defined.
 *
 * PST_ERROR_ARGUMENT: there is no such item, or the bytes are not all within it.
 * PST_ERROR_CHECKSUM: the stored bytes are not those that were written.
 * PST_ERROR_CORRUPT: a text is not UTF-8, JSON is not valid, or the item cannot be decoded.
 * PST_ERROR_TRUNCATED: the file ends too early. PST_ERROR_IO, PST_ERROR_NOT_FOUND: it cannot be
 *     read. PST_ERROR_MEMORY.
 * PST_ERROR_LIMIT: the item is stated to decode to more bytes than this machine has available. No
 *     memory was taken.
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
