/* writer.h - making, extending and checking data sets. */
#ifndef PENSTOCK_WRITER_H
#define PENSTOCK_WRITER_H

#include <penstock/dataset.h>
#include <penstock/pli.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A data set that is being written. Used by one thread at a time. */
typedef struct pst_writer pst_writer;

/* The treatment of a data set that is at the path already. */
enum pst_writer_mode {
    /* The path must not exist, or be an empty directory. */
    PST_WRITER_CREATE = 0,
    /* Continue after an interrupted writer; create if absent. */
    PST_WRITER_RESUME = 1,
    /* Add samples to a finished data set (or continue an interrupted append). */
    PST_WRITER_APPEND = 2
};

/* Options of writing. Zero-initialise, then set struct_size; 0 takes the default. */
struct pst_writer_options {
    size_t struct_size;
    enum pst_writer_mode mode;
    /* Bytes of a shard beyond which a new one is started; default 1 GiB. */
    uint64_t shard_nbytes;
    /* Make added samples durable (fsync) each time so many bytes were added; default 256 MiB. */
    uint64_t commit_nbytes;
};

/* One variant of one item to be stored. */
struct pst_value {
    /* The value's bytes, owned by the caller and copied by pst_writer_add. INT: an int64_t, FLOAT:
     * a double. */
    const void *bytes;
    size_t nbytes;
    /* Images and masks: jpeg, png, webp, pli, pli-jpeg, raw; else 0. */
    enum pst_form form;
    uint32_t height, width; /* For PST_FORM_RAW. */
    uint8_t channels, bits; /* For PST_FORM_RAW. */
    /* PST_FIELD_ARRAY: its shape. Boxes and keypoints: derived from nbytes. */
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    /* True: pixel_checksum is set, because the caller has decoded a lossless image already. */
    bool has_pixel_checksum;
    /* PST_FORM_PLI, PLI_JPEG: true if the source file was this PLI. False: it was made for this
     * data set. */
    bool was_pli;
    uint64_t pixel_checksum;
    /* Encoded images: the orientation 1..8 that is recorded, whatever the metadata say. 0: that of
     * the metadata. */
    uint8_t orientation;
};

/* All values of one sample. values[i] belongs to field i of the schema; a field with several
 * variants takes its values from `variants[i]`, an array of fields[i].n_variants values (form NONE:
 * absent). */
struct pst_sample {
    size_t struct_size;
    /* sizeof(struct pst_value): the size of each value. */
    size_t value_nbytes;
    /* UTF-8, unique in the data set, not empty, without control characters, below 4096 bytes. */
    const char *name;
    /* [n_fields] -> [n_variants]. */
    const struct pst_value *const *values;
};

/* Opens a writer at a directory. The directory may be a link; no link in it is followed. A shard
 * that has a second hard link is left as it is.
 *
 * path: where the data set is or will be, NUL-terminated. Copied.
 * fields: the schema, n_fields elements, copied. For RESUME and APPEND it must equal the one on
 *     disk. Where a finished data set is added to, a field with classes may be given more of
 *     them, which pst_writer_set_class_names adds.
 * n_fields: 1 to PST_MAX_FIELDS; 0 with RESUME and APPEND takes the schema from the disk.
 * options: NULL for the defaults. Read during the call only.
 * out: receives the writer, to be closed by pst_writer_close; NULL after failure.
 *
 * PST_ERROR_EXISTS: CREATE, and a finished data set or other files are there.
 * PST_ERROR_INCOMPLETE: CREATE or APPEND, and an unfinished data set is there: resume it.
 * PST_ERROR_NOT_FOUND: APPEND, and there is no data set.
 * PST_ERROR_BUSY: another writer holds the data set. PST_ERROR_UNSUPPORTED: it is an address.
 * PST_ERROR_ARGUMENT: a field is not possible, or not the one on disk.
 * PST_ERROR_VERSION: a field, an option or the data set is of a newer version.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_TRUNCATED: an unfinished data set contradicts
 *     itself.
 * PST_ERROR_IO: among other causes the lock, the journal or the last shard is a link or no plain
 *     file. PST_ERROR_NO_SPACE, PST_ERROR_MEMORY.
 *
 * Any thread. The writer itself is used by one thread at a time, in the process that opened it. */
PST_WARN_UNUSED enum pst_status pst_writer_open(const char *path, const struct pst_field *fields,
                                                uint32_t n_fields,
                                                const struct pst_writer_options *options,
                                                pst_writer **out, struct pst_error *err);

/* Number of fields of the schema. One thread at a time for each writer. */
uint32_t pst_writer_n_fields(const pst_writer *writer);

/* Describes one field of the schema.
 *
 * i_field: 0 to pst_writer_n_fields() - 1.
 *
 * Returns a struct that lives as long as the writer, or NULL if there is no such field. One thread
 * at a time for each writer. */
const struct pst_field *pst_writer_field(const pst_writer *writer, uint32_t i_field);

/* Number of samples so far: those of the interrupted or finished state, and those added since.
 * Right after open it is the sample number at which a resumed job continues.
 *
 * One thread at a time for each writer. */
uint64_t pst_writer_count(const pst_writer *writer);

/* True if a sample of that name is in the data set already.
 *
 * name: a NUL-terminated string.
 *
 * One thread at a time for each writer. */
bool pst_writer_has(const pst_writer *writer, const char *name);

/* Checks and appends one sample. Image headers are read; dimensions and orientation are recorded.
 * A mask has the size of an image of its sample. Boxes are finite, have an area (x0 < x1, y0 < y1)
 * and lie at least in part on the sample's image. Keypoints are finite. With an image that has an
 * EXIF orientation it is known for which picture they were made (pst_field.made_for).
 *
 * sample: the caller's, read during the call only.
 *
 * PST_ERROR_ARGUMENT, PST_ERROR_EXISTS, PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED,
 *     PST_ERROR_CHECKSUM, PST_ERROR_UNSUPPORTED, PST_ERROR_LIMIT, PST_ERROR_VERSION: the sample's
 *     own fault. Nothing of it is kept and the writer goes on.
 * PST_ERROR_IO, PST_ERROR_NO_SPACE: only pst_writer_close is allowed from now on; what was
 *     committed can be resumed.
 * PST_ERROR_MEMORY: nothing of the sample is kept.
 * PST_ERROR_STATE: the writer failed or finished before. PST_ERROR_FORKED.
 *
 * One thread at a time for each writer. */
PST_WARN_UNUSED enum pst_status pst_writer_add(pst_writer *writer, const struct pst_sample *sample,
                                               struct pst_error *err);

/* Makes all that was added durable and resumable (fsync).
 *
 * PST_ERROR_IO, PST_ERROR_NO_SPACE: only pst_writer_close is allowed from now on.
 * PST_ERROR_STATE, PST_ERROR_FORKED, PST_ERROR_MEMORY.
 *
 * One thread at a time for each writer. */
PST_WARN_UNUSED enum pst_status pst_writer_commit(pst_writer *writer, struct pst_error *err);

/* Sets the names of the classes of a field. Where a finished data set is added to, more names
 * than it has classes add classes: labels may then be up to n_names - 1. pst_writer_field gives the
 * new number.
 *
 * i_field: number of a field that has n_classes: an int, an array of whole numbers, or keypoints,
 *     whose points have the names; no points are added to them.
 * names: n_names strings, UTF-8, copied. If there are more than n_classes, they begin with the
 *     names that the classes have.
 * n_names: n_classes of the field, or more, at most 2^31 - 1, where a data set is added to.
 *
 * PST_ERROR_ARGUMENT: the field, the number of names or the first names do not fit, or a name is
 *     not UTF-8.
 * PST_ERROR_MEMORY, PST_ERROR_STATE, PST_ERROR_FORKED.
 *
 * One thread at a time for each writer. */
PST_WARN_UNUSED enum pst_status pst_writer_set_class_names(pst_writer *writer, uint32_t i_field,
                                                           const char *const *names, size_t n_names,
                                                           struct pst_error *err);

/* Sets the pairs of left and right points of a field of keypoints. Needed before the first sample
 * where the field states pairs (n_pairs_plus_1 above 1); a data set that is added to has them.
 *
 * i_field: number of a field of keypoints.
 * pairs: u32 (n_pairs,2), copied: numbers of points within an instance, no point twice. NULL if
 *     there are none.
 * n_pairs: as the field states, n_pairs_plus_1 - 1.
 *
 * PST_ERROR_ARGUMENT: the field or the number does not fit, or a point is in two pairs or not in an
 *     instance.
 * PST_ERROR_MEMORY, PST_ERROR_STATE, PST_ERROR_FORKED.
 *
 * One thread at a time for each writer. */
PST_WARN_UNUSED enum pst_status pst_writer_set_point_pairs(pst_writer *writer, uint32_t i_field,
                                                           const uint32_t *pairs, size_t n_pairs,
                                                           struct pst_error *err);

/* Writes the index and makes the data set whole, atomically. After success only pst_writer_close
 * is allowed.
 *
 * PST_ERROR_IO, PST_ERROR_NO_SPACE: the data set stays resumable at the last commit.
 * PST_ERROR_STATE, PST_ERROR_FORKED, PST_ERROR_MEMORY.
 *
 * One thread at a time for each writer. */
PST_WARN_UNUSED enum pst_status pst_writer_finish(pst_writer *writer, struct pst_error *err);

/* Frees the writer. Without finish the data set stays resumable at the last commit; close commits
 * if it can. A data set that was begun and got no sample leaves nothing behind.
 *
 * writer: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * One thread at a time for each writer. */
void pst_writer_close(pst_writer **writer);

/* Packing a folder
 * ---------------------------------------------------------------------------------- */

/* Called for a sample that could not be used; `err` says why. Return 0 to continue, other to stop
 * with that error. */
typedef int (*pst_bad_sample_fn)(void *ctx, const char *name, const struct pst_error *err);

/* Options of packing. Zero-initialise, then set struct_size. Everything that it points to is read
 * during pst_pack only. */
struct pst_pack_options {
    size_t struct_size;
    const struct pst_writer_options *writer; /* Options of the writer; NULL: the defaults. */
    /* Options of opening the source; NULL: the defaults. */
    const struct pst_dataset_options *source;
    /* Forms of the image, the preferred one first; each becomes a variant. None (n_forms 0): JPEGs
     * become PLI_JPEG and all else stays as it is; an image of a data set keeps all its variants,
     * and a JPEG beside a PLI_JPEG stays one; when appending, the forms of the data set.
     * PST_FORM_NONE: the file's own bytes. From a data set these are the file that was packed (a
     * JPEG that is kept as PLI becomes the JPEG again), or the stored item if only pixels were
     * kept. RAW and PLI are made from the decoded pixels. JPEG is also made from PLI_JPEG. Other
     * forms are kept if the source has them. */
    const enum pst_form *forms;
    uint32_t n_forms;
    /* Number of threads; 0: as many as the process may use. */
    uint32_t num_workers;
    /* Decode every image and every sound once. Bad ones are then found while packing, and lossless
     * images get a pixel checksum. Default: only headers are read, but lossless forms are always
     * decoded for their checksum. */
    bool verify_pixels;
    pst_progress_fn progress;
    /* NULL: the first bad sample stops the pack. */
    pst_bad_sample_fn bad_sample;
    void *ctx;
    /* The forms of masks, given as `forms` are. Default: the forms of the source. */
    const enum pst_form *mask_forms;
    uint32_t n_mask_forms;
    /* PST_FORM_PLI. Images that are PLI already are kept, unless tier, effort or max_error is given
     * and theirs differ. Each image is decoded again before it is stored. */
    enum pst_pli_tier pli_tier; /* default: small */
    uint32_t pli_effort;        /* 1..5; 0 = 3 */
    /* 0: lossless; 1..127: near-lossless. Masks are always lossless. */
    uint32_t pli_max_error;
    /* Encode JPEG and lossy WebP losslessly, too, which makes them larger. False: they are bad
     * samples (PST_ERROR_UNSUPPORTED). */
    bool pli_of_lossy;
    /* PST_FORM_PLI_JPEG: called for each JPEG that stays as it is; `err` says why. */
    pst_bad_sample_fn kept_jpeg;
    /* Called once with the opened source, before anything is written. The packer keeps the source.
     * A program can report its notices (pst_dataset_notice) before hours of work. A return other
     * than 0 cancels (PST_ERROR_CANCELLED). NULL: not called. */
    int (*source_opened)(void *ctx, pst_dataset *source);
    /* For masks, boxes and keypoints whose made_for the source does not state. Not when appending.
     */
    enum pst_made_for made_for;
    /* Appending: classes of the source that the data set does not have are added to it, in the
     * source's order. False: they are an error. */
    bool add_classes;
    /* Path of a plan file, which says for classes of samples what share of them is stored in which
     * forms and, as by `resize`, in which size (not in place, not when resuming, and for samples of
     * one image). Samples of no class stay as they are. Goes without forms and pli_tier; not when
     * appending. NULL: no plan. */
    const char *plan;
    /* Images whose shorter side is longer than this are stored after a Resize to it (augment.h:
     * bilinear, antialiased), upright, with masks (nearest), boxes and keypoints that lie on the
     * first image; of each image the first variant. Images that are not larger stay as they are.
     * Resized images are raw pixels where `forms` says RAW, and PLI by the PLI options where it
     * says anything else; a second form that would be PLI again is left out.
     *
     * A loader whose chain begins with the same Resize delivers the same bits as from the whole
     * images, if it delivers the images' own channels (or gray as RGB, or RGBA without alpha) and
     * their own bits; other channels or bits may differ by rounding. Every other chain sees smaller
     * images than before. Not with a plan, in place, or when resuming. 0: no. */
    uint32_t resize;
    /* Packing by several processes, which see the same file system: part number `part` of n_parts,
     * counted from 1. The source is cut into planned shards by the lengths of its items, and the
     * part packs every n_parts-th of them that is not packed yet. The plan lies in the destination;
     * it is made if there is none, and refused if it is of another source or of other options.
     * n_parts may be any number, and another one than in earlier calls. Once no planned shard is
     * missing, pst_merge makes the data set. It is byte for byte the one that a single process
     * makes. writer.mode: CREATE.
     * 0: not in parts. */
    uint32_t part, n_parts;
    /* Only makes the plan of shards. */
    bool prepare;
};

/* The result of pst_pack. Bytes are those of stored items. */
struct pst_pack_report {
    /* Samples in the destination (after a failure: those that it keeps); bad ones; those that were
     * there before. */
    uint64_t n_samples, n_bad, n_resumed;
    uint64_t nbytes_in, nbytes_out;
    /* Files of the source that source.allow_unreadable left out. */
    uint64_t n_skipped;
    /* PST_FORM_PLI_JPEG: JPEGs that became PLI, their bytes before and after; JPEGs that did not.
     */
    uint64_t n_pli_jpeg, jpeg_nbytes, pli_jpeg_nbytes;
    uint64_t n_kept_jpeg, kept_jpeg_nbytes;
    /* JPEGs made again from PLI_JPEG, their bytes before and after. */
    uint64_t n_restored_jpeg, restored_pli_jpeg_nbytes, restored_jpeg_nbytes;
    /* PST_FORM_NONE: images whose pixels alone were kept. */
    uint64_t n_not_original;
    /* pst_repack: samples that this call stored in other forms; files of the data set that stay as
     * they are (after success), and all; true: old files are left because others read them. */
    uint64_t n_changed;
    uint32_t n_kept_files, n_files;
    bool waits;
    uint64_t n_resized; /* samples whose images became smaller (options.resize) */
    /* In parts: number of planned shards of this part (of all parts with `prepare`), and how many
     * of them had been packed before. */
    uint32_t n_shards, n_shards_before;
};

/* Packs a folder, or a data set, into a data set. The order of samples is the source's and does
 * not depend on num_workers. Fields, names, class names and all that is no image are the source's
 * too. An interrupted pack goes on with mode PST_WRITER_RESUME. Source, forms and PLI options must
 * then be the same as before; a file replaced by another one of the same length is not noticed.
 *
 * source: path of a folder or data set.
 * destination: path of the data set. It must not lie in a data set that is the source.
 * options: NULL for the defaults. Read during the call only.
 * report: receives what was done, after failure too. NULL: nobody wants it.
 * report_nbytes: sizeof *report; 0 with NULL.
 *
 * PST_ERROR_ARGUMENT: an option is not possible. Resuming: names, forms, PLI options, lengths or
 *     numbers of stored samples differ from those of the source now; the text names the first such
 *     sample, and nothing is changed.
 * PST_ERROR_CANCELLED: a callback said so.
 * Errors of a bad sample where options.bad_sample is NULL or says so. Others as of
 * pst_dataset_open, pst_writer_open and pst_writer_finish.
 *
 * Callbacks are called by the calling thread. Any thread. */
PST_WARN_UNUSED enum pst_status pst_pack(const char *source, const char *destination,
                                         const struct pst_pack_options *options,
                                         struct pst_pack_report *report, size_t report_nbytes,
                                         struct pst_error *err);

/* Makes one data set of what the parts of a pack have packed (pst_pack_options, n_parts), and
 * removes the plan. Checks the sums of plan, indexes and records, and that no planned shard is
 * missing; the items' own bytes are not read (pst_verify does that). May be interrupted at any time
 * and run again. If the data set was merged before, nothing is done.
 *
 * path: the destination of the parts.
 * progress: called after each planned shard; a return other than 0 cancels. NULL: nobody wants it.
 * ctx: for progress.
 * report: receives n_samples, n_files, and n_resumed, the samples that were merged before. NULL:
 *     nobody wants it.
 * report_nbytes: sizeof *report; 0 with NULL.
 *
 * PST_ERROR_INCOMPLETE: planned shards are missing; the text says how many.
 * PST_ERROR_NOT_FOUND: nothing was packed in parts there.
 * PST_ERROR_BUSY: another writer is at work.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_TRUNCATED, PST_ERROR_VERSION: plan or shards are
 *     damaged or do not belong together.
 * PST_ERROR_EXISTS: another file has the name of a shard, or another process merged meanwhile.
 * PST_ERROR_CANCELLED, PST_ERROR_IO, PST_ERROR_NO_SPACE, PST_ERROR_MEMORY.
 *
 * progress is called by the calling thread. Any thread. */
PST_WARN_UNUSED enum pst_status pst_merge(const char *path, pst_progress_fn progress, void *ctx,
                                          struct pst_pack_report *report, size_t report_nbytes,
                                          struct pst_error *err);

/* Changes in which forms a finished data set stores its images, in place. Only samples that must
 * change are written anew, and only files that hold one of them; the others are not touched. Order,
 * names, labels and other fields stay. The data set is whole at any time: it has the old content
 * until the last step, which replaces the index. After an interruption the same call goes on; other
 * options begin anew, and remove what was left. Where the change was made before, by the same
 * options and as the last one, there is nothing to do. Handles that have the old state open go on
 * reading it; its files are removed when none is left: at the end, or by the next call of
 * pst_repack or append. Id and order stay, but caches know that the content is another.
 *
 * path: a data set.
 * options: as of pst_pack. A plan, forms or mask_forms must be given. Of `writer` only
 *     commit_nbytes counts; bad_sample, made_for and add_classes are not used: a bad sample ends
 *     the call. Read during the call only.
 * report: receives what was done, after failure too. NULL: nobody wants it.
 * report_nbytes: sizeof *report; 0 with NULL.
 *
 * PST_ERROR_ARGUMENT: an option is not possible, or this is a plain folder.
 * PST_ERROR_BUSY: another writer is at work.
 * PST_ERROR_INCOMPLETE: an append was interrupted.
 * PST_ERROR_NO_SPACE, PST_ERROR_IO: the disk is full or fails; what was written is removed, and the
 *     data set is as it was.
 * PST_ERROR_CANCELLED: a callback said so. The same call goes on.
 * Errors of a bad sample, and of pst_dataset_open. PST_ERROR_MEMORY.
 *
 * Callbacks are called by the calling thread. Any thread. */
PST_WARN_UNUSED enum pst_status pst_repack(const char *path, const struct pst_pack_options *options,
                                           struct pst_pack_report *report, size_t report_nbytes,
                                           struct pst_error *err);

/* Checking a data set
 * -------------------------------------------------------------------------------- */

/* Options of checking. Zero-initialise, then set struct_size. */
struct pst_verify_options {
    size_t struct_size;
    /* Also decode images and compare pixel checksums, and decode sounds. */
    bool decode;
    /* Number of threads; 0: as many as the process may use. */
    uint32_t num_workers;
    pst_progress_fn progress;
    /* Called for each finding. NULL: the first one ends the run. */
    pst_bad_sample_fn bad_sample;
    void *ctx;
    /* Make the files of JPEGs kept as PLI again and compare their checksums. */
    bool restore;
    /* Options of opening a plain folder; NULL: the defaults. */
    const struct pst_dataset_options *source;
    /* Checking by several processes: part number `part` of n_parts, counted from 1. Each part has
     * its shards (files of others likewise) with the samples whose first item lies in them; of a
     * plain folder, runs of 32 samples. Each sample and each shard is in exactly one part. Part 1
     * also checks the index as a whole. 0: not in parts. */
    uint32_t part, n_parts;
};
/* The result of pst_verify. n_items counts variants; n_bad counts findings; nbytes are those of the
 * items that were read. */
struct pst_verify_report {
    uint64_t n_samples, n_items, n_bad;
    uint64_t nbytes;
    /* In parts: PST_IDENTITY_BYTES of the data set, which must be the same for all parts. Zeros if
     * the data set could not be opened, and for a single file. */
    uint8_t identity[PST_IDENTITY_NBYTES];
    /* In parts: the number of samples in all parts together. */
    uint64_t n_samples_total;
    /* In parts, of a packed data set: bit i is set if this part holds no item of field i that has
     * as many bytes as the index states of the largest one; or no image with as many bytes of
     * pixels. A bit that is set for all parts is a finding of all parts together: the index states
     * a size that no item has. */
    uint64_t unreached_items, unreached_pixels;
};

/* Reads everything and compares every checksum: index, shards, items, pixels. It works on plain
 * folders and on single image or audio files too, and decodes these always. PLI are also held
 * against the checksums that they have in themselves.
 *
 * path: a data set, a folder, an image file or an audio file.
 * options: NULL for the defaults. Read during the call only.
 * report: receives what was read and found, after failure too. NULL: nobody wants it.
 * report_nbytes: sizeof *report; 0 with NULL.
 *
 * Returns PST_OK when nothing is wrong, else the status of the first finding.
 * PST_ERROR_CANCELLED: progress said so. Others as of pst_dataset_open. PST_ERROR_MEMORY.
 *
 * Callbacks are called by the calling thread. Any thread. */
PST_WARN_UNUSED enum pst_status pst_verify(const char *path,
                                           const struct pst_verify_options *options,
                                           struct pst_verify_report *report, size_t report_nbytes,
                                           struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
