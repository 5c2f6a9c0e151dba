/* writer.h - creating, extending, packing, repacking and verifying data sets. */
#ifndef PENSTOCK_WRITER_H
#define PENSTOCK_WRITER_H

#include <penstock/dataset.h>
#include <penstock/pli.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A data set that is being written. One thread at a time may use it. */
typedef struct pst_writer pst_writer;

/* The ways in which a writer treats a data set that already exists at the path. */
enum pst_writer_mode {
    /* The path must not exist, or must be an empty directory. */
    PST_WRITER_CREATE = 0,
    /* Continues after an interrupted writer, or creates the data set if there is none. */
    PST_WRITER_RESUME = 1,
    /* Adds samples to a finished data set, or continues an interrupted append. */
    PST_WRITER_APPEND = 2
};

/* Options of writing. Zero-initialise, then set struct_size; 0 takes the default. */
struct pst_writer_options {
    size_t struct_size;
    enum pst_writer_mode mode;
    /* Size in bytes at which a shard is closed and a new one is started; 0 = 1 GiB. */
    uint64_t shard_nbytes;
    /* The writer commits (fsync) each time this many bytes were added; 0 = 256 MiB. */
    uint64_t commit_nbytes;
};

/* One value to be stored: one variant of one field of a sample. */
struct pst_value {
    /* The bytes of the value. The caller owns them; pst_writer_add copies them. INT: an int64_t,
     * FLOAT: a double. */
    const void *bytes;
    size_t nbytes;
    /* Form of an image or mask: jpeg, png, webp, pli, pli-jpeg, raw; else 0. */
    enum pst_form form;
    uint32_t height, width; /* For PST_FORM_RAW. */
    uint8_t channels, bits; /* For PST_FORM_RAW. */
    /* Shape of a PST_FIELD_ARRAY value. For boxes and keypoints it is derived from nbytes. */
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    /* True: pixel_checksum is set, because the caller has already decoded a lossless image. */
    bool has_pixel_checksum;
    /* PST_FORM_PLI, PLI_JPEG: true if the source file is this PLI; false if the PLI was made for
     * this data set. */
    bool was_pli;
    uint64_t pixel_checksum;
    /* Encoded images: EXIF orientation 1..8 to record instead of that in the metadata. 0: that in
     * the metadata. */
    uint8_t orientation;
};

/* All values of one sample. values[i] is the array of the variants of field i: fields[i].n_variants
 * values, in which form NONE means absent. */
struct pst_sample {
    size_t struct_size;
    /* sizeof(struct pst_value): the size of an element of the arrays. */
    size_t value_nbytes;
    /* Name of the sample: UTF-8, unique in the data set, not empty, without control characters,
     * below 4096 bytes. */
    const char *name;
    /* For each of n_fields fields, a pointer to its n_variants values. */
    const struct pst_value *const *values;
};

/* Opens a writer at a directory. The directory may be a symbolic link; links inside it are not
 * followed. A shard with a second hard link is not modified.
 *
 * path: directory of the data set, NUL-terminated. It need not exist. Copied.
 * fields: the schema, n_fields elements, copied. For RESUME and APPEND it must equal the schema on
 *     disk. When a finished data set is extended, a field with classes may have more classes, which
 *     pst_writer_set_class_names adds.
 * n_fields: 1 to PST_MAX_FIELDS; 0 with RESUME and APPEND uses the schema on disk.
 * options: NULL for the defaults. Read during the call only.
 * out: receives the writer, to be closed by pst_writer_close; NULL after failure.
 *
 * PST_ERROR_EXISTS: CREATE, but there is a finished data set or other files.
 * PST_ERROR_INCOMPLETE: CREATE or APPEND, but there is an unfinished data set: resume it.
 * PST_ERROR_NOT_FOUND: APPEND, but there is no data set.
 * PST_ERROR_BUSY: another writer is open. PST_ERROR_UNSUPPORTED: the path is an address such as
 * s3://.
 * PST_ERROR_ARGUMENT: a field is invalid, or differs from the schema on disk.
 * PST_ERROR_VERSION: a field, an option or the data set comes from a newer version.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_TRUNCATED: the files of an unfinished data set
 *     contradict each other.
 * PST_ERROR_IO: for example, the lock, the journal or the last shard is a link or no regular file.
 *     PST_ERROR_NO_SPACE, PST_ERROR_MEMORY.
 *
 * Any thread. Only one thread at a time may use the writer, in the process that opened it. */
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

/* Number of samples so far: those of the interrupted or finished data set plus those added since.
 * Right after open it is the number of the sample with which a resumed job continues.
 *
 * One thread at a time for each writer. */
uint64_t pst_writer_count(const pst_writer *writer);

/* True if the data set already has a sample with this name.
 *
 * name: a NUL-terminated string.
 *
 * One thread at a time for each writer. */
bool pst_writer_has(const pst_writer *writer, const char *name);

/* Checks and appends one sample. It reads image headers and records size and orientation. A mask
 * must have the size of an image of its sample. Boxes must be finite, have an area (x0 < x1, y0 <
 * y1) and lie at least partly on the sample's image. Keypoints must be finite. If an image has an
 * EXIF orientation, it must be known which picture masks, boxes and keypoints refer to
 * (pst_field.made_for).
 *
 * sample: the caller's struct. Read during the call only.
 *
 * PST_ERROR_ARGUMENT, PST_ERROR_EXISTS, PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_CHECKSUM,
 *     PST_ERROR_UNSUPPORTED, PST_ERROR_LIMIT, PST_ERROR_VERSION: this sample is invalid. Nothing of
 *     it is stored, and the writer can continue.
 * PST_ERROR_IO, PST_ERROR_NO_SPACE: only pst_writer_close may be called from now on; committed
 *     samples are kept and can be resumed.
 * PST_ERROR_MEMORY: nothing of the sample is stored.
 * PST_ERROR_STATE: the writer has failed or finished before. PST_ERROR_FORKED.
 *
 * One thread at a time for each writer. */
PST_WARN_UNUSED enum pst_status pst_writer_add(pst_writer *writer, const struct pst_sample *sample,
                                               struct pst_error *err);

/* Commits: makes all added samples durable and resumable (fsync).
 *
 * PST_ERROR_IO, PST_ERROR_NO_SPACE: only pst_writer_close may be called from now on.
 * PST_ERROR_STATE, PST_ERROR_FORKED, PST_ERROR_MEMORY.
 *
 * One thread at a time for each writer. */
PST_WARN_UNUSED enum pst_status pst_writer_commit(pst_writer *writer, struct pst_error *err);

/* Sets the class names of a field. When a finished data set is extended, more names than classes
 * add classes: labels may then be up to n_names - 1, and pst_writer_field gives the new number.
 *
 * i_field: number of a field that has n_classes: an int, an array of integers, or keypoints. For
 *     keypoints the names are those of the points, and no points can be added.
 * names: n_names UTF-8 strings, copied. If there are more than n_classes, the first names must be
 *     those of the existing classes.
 * n_names: n_classes of the field; when a data set is extended also more, at most 2^31 - 1.
 *
 * PST_ERROR_ARGUMENT: the field has no classes, the number of names or the first names do not fit,
 *     or a name is not UTF-8.
 * PST_ERROR_MEMORY, PST_ERROR_STATE, PST_ERROR_FORKED.
 *
 * One thread at a time for each writer. */
PST_WARN_UNUSED enum pst_status pst_writer_set_class_names(pst_writer *writer, uint32_t i_field,
                                                           const char *const *names, size_t n_names,
                                                           struct pst_error *err);

/* Sets the pairs of left and right points of a keypoint field. Required before the first sample if
 * the field states pairs (n_pairs_plus_1 above 1); a data set that is extended already has them.
 *
 * i_field: number of a keypoint field.
 * pairs: u32 (n_pairs,2), copied: indices of points within an instance, each point at most once.
 *     NULL if there are no pairs.
 * n_pairs: number of pairs, which must be the field's n_pairs_plus_1 - 1.
 *
 * PST_ERROR_ARGUMENT: the field or the number is wrong, a point is in two pairs, or an instance has
 *     no such point.
 * PST_ERROR_MEMORY, PST_ERROR_STATE, PST_ERROR_FORKED.
 *
 * One thread at a time for each writer. */
PST_WARN_UNUSED enum pst_status pst_writer_set_point_pairs(pst_writer *writer, uint32_t i_field,
                                                           const uint32_t *pairs, size_t n_pairs,
                                                           struct pst_error *err);

/* Writes the index and completes the data set atomically. After success only pst_writer_close may
 * be called.
 *
 * PST_ERROR_IO, PST_ERROR_NO_SPACE: the data set can be resumed from the last commit.
 * PST_ERROR_STATE, PST_ERROR_FORKED, PST_ERROR_MEMORY.
 *
 * One thread at a time for each writer. */
PST_WARN_UNUSED enum pst_status pst_writer_finish(pst_writer *writer, struct pst_error *err);

/* Frees the writer. Without pst_writer_finish it commits if it can, and the data set can be resumed
 * from the last commit. A new data set without any sample is removed.
 *
 * writer: the caller's pointer, which becomes NULL. NULL, or a pointer to NULL, is allowed.
 *
 * One thread at a time for each writer. */
void pst_writer_close(pst_writer **writer);

/* Packing folders and data sets
 * ---------------------------------------------------------------------------------- */

/* Function that is called for a sample that cannot be used; `err` says why. Return 0 to continue,
 * another value to stop with that error. */
typedef int (*pst_bad_sample_fn)(void *ctx, const char *name, const struct pst_error *err);

/* Options of packing. Zero-initialise, then set struct_size. Pointers are read during pst_pack
 * only. */
struct pst_pack_options {
    size_t struct_size;
    const struct pst_writer_options *writer; /* Options of the writer; NULL: the defaults. */
    /* Options of opening the source; NULL: the defaults. */
    const struct pst_dataset_options *source;
    /* Forms to store images in, preferred form first; each becomes a variant. With n_forms 0, JPEGs
     * become PLI_JPEG and all else stays as it is; an image of a data set keeps all its variants,
     * and a JPEG beside a PLI_JPEG stays a JPEG; an append uses the forms of the data set.
     * PST_FORM_NONE: the original file's bytes. If the source is a data set, these are the file
     * that was once packed (a JPEG kept as PLI becomes the JPEG again), or the stored item if only
     * pixels were kept. RAW and PLI are made from the decoded pixels. JPEG is also made from
     * PLI_JPEG. Other forms are kept if the source has them. */
    const enum pst_form *forms;
    uint32_t n_forms;
    /* Number of threads; 0: as many as the cores that this process may use. */
    uint32_t num_workers;
    /* True: decodes every image and sound once, so bad ones are found while packing, and lossless
     * images get a pixel checksum. False: only headers are read, except that lossless forms are
     * always decoded for their checksum. */
    bool verify_pixels;
    pst_progress_fn progress;
    /* Called for each bad sample; NULL: the first bad sample stops the pack. */
    pst_bad_sample_fn bad_sample;
    void *ctx;
    /* Forms to store masks in, like `forms`. Default: the forms of the source. */
    const enum pst_form *mask_forms;
    uint32_t n_mask_forms;
    /* Options of PST_FORM_PLI. Images that already are PLI are kept, unless tier, effort or
     * max_error is set and theirs differs. Each encoded image is decoded for comparison before it
     * is stored. */
    enum pst_pli_tier pli_tier; /* default: small */
    uint32_t pli_effort;        /* 1..5; 0 = 3; see pst_pli_encode_options.effort */
    /* 0: lossless; 1..127: near-lossless. Masks are always lossless. */
    uint32_t pli_max_error;
    /* True: JPEG and lossy WebP are encoded as lossless PLI, too, which makes them larger. False:
     * they are bad samples (PST_ERROR_UNSUPPORTED). */
    bool pli_of_lossy;
    /* PST_FORM_PLI_JPEG: called for each JPEG that stays a JPEG; `err` says why. */
    pst_bad_sample_fn kept_jpeg;
    /* Called once with the opened source before anything is written, so a program can report its
     * notices (pst_dataset_notice) before hours of work. The packer owns the source. A result other
     * than 0 cancels (PST_ERROR_CANCELLED). NULL: not called. */
    int (*source_opened)(void *ctx, pst_dataset *source);
    /* Which picture masks, boxes and keypoints refer to if the source does not say. Not when
     * appending. */
    enum pst_made_for made_for;
    /* Appending: true adds classes of the source that the data set lacks, in the source's order.
     * False: such classes are an error. */
    bool add_classes;
    /* Path of a plan file. For classes of samples it says which share is stored in which forms and
     * in which size (like `resize`; sizes not in place, not when resuming, and only for samples of
     * one image). Samples outside of all classes stay as they are. It excludes forms, pli_tier and
     * appending. NULL: no plan. */
    const char *plan;
    /* Images whose shorter side is longer than this many pixels are stored after a Resize to it
     * (augment.h: bilinear, antialiased), upright, together with masks (nearest), boxes and
     * keypoints that belong to the first image; only the first variant of each image is used.
     * Smaller images stay as they are. Resized images are stored as raw pixels if `forms` says RAW,
     * and else as PLI with the PLI options; a second form that would also be PLI is left out.
     *
     * A loader whose chain begins with the same Resize delivers the same bits as from whole images,
     * if it delivers the images' own channels (or gray as RGB, or RGBA without alpha) and their own
     * bits; other channels or bits may differ by rounding. Other chains get smaller images than
     * before. Not with a plan, in place, or when resuming. 0: no resize. */
    uint32_t resize;
    /* Packing by several processes that share a file system: this call packs part number `part` of
     * n_parts, counted from 1; 0: everything. The source is divided into planned shards by the
     * lengths of its items, and the part packs every n_parts-th planned shard that is not packed
     * yet. The plan lies in the destination; the first process makes it, and it is refused if it is
     * for another source or other options. n_parts may differ from that of earlier calls. When no
     * planned shard is missing, pst_merge makes the data set, which is byte for byte the one that a
     * single process makes. writer.mode must be CREATE. */
    uint32_t part, n_parts;
    /* True: only makes the plan of shards. */
    bool prepare;
};

/* Counts of what pst_pack, pst_repack or pst_merge did. Bytes are those of stored items. */
struct pst_pack_report {
    /* Samples in the destination (after a failure: those that it keeps); bad samples; samples that
     * were there before. */
    uint64_t n_samples, n_bad, n_resumed;
    uint64_t nbytes_in, nbytes_out;
    /* Files of the source that source.allow_unreadable left out. */
    uint64_t n_skipped;
    /* PST_FORM_PLI_JPEG: JPEGs that became PLI, with their bytes before and after; JPEGs that did
     * not, with their bytes. */
    uint64_t n_pli_jpeg, jpeg_nbytes, pli_jpeg_nbytes;
    uint64_t n_kept_jpeg, kept_jpeg_nbytes;
    /* JPEGs that were restored from PLI_JPEG, with their bytes before and after. */
    uint64_t n_restored_jpeg, restored_pli_jpeg_nbytes, restored_jpeg_nbytes;
    /* PST_FORM_NONE: images whose original is lost because only their pixels were kept. */
    uint64_t n_not_original;
    uint64_t n_changed; /* pst_repack: samples that this call stored in other forms */
    /* pst_repack, after success: files of the data set that were kept, and all its files. */
    uint32_t n_kept_files, n_files;
    /* pst_repack: true if old files were not removed because other handles still read them. */
    bool waits;
    uint64_t n_resized; /* samples whose images were resized (options.resize) */
    /* In parts: planned shards of this part (with `prepare` of all parts), and how many of them had
     * been packed before. */
    uint32_t n_shards, n_shards_before;
};

/* Packs a folder, or a data set, into a data set. The order of samples is that of the source and
 * does not depend on num_workers. Fields, names, class names and values other than images are those
 * of the source, too. An interrupted pack is continued with mode PST_WRITER_RESUME. Source, forms
 * and PLI options must then be the same as before; a file that was replaced by one of the same
 * length is not noticed.
 *
 * source: path of a folder or data set.
 * destination: path of the data set. It must not lie inside a data set that is the source.
 * options: NULL for the defaults. Read during the call only.
 * report: receives what was done, even after failure. May be NULL.
 * report_nbytes: sizeof *report; 0 with NULL.
 *
 * PST_ERROR_ARGUMENT: an option is invalid. When resuming: names, forms, PLI options, lengths or
 *     numbers of stored samples differ from those of the source; the text names the first such
 *     sample, and nothing is changed.
 * PST_ERROR_CANCELLED: a callback cancelled the call.
 * If options.bad_sample is NULL or ends the call, the error of a bad sample. Other errors: see
 * pst_dataset_open, pst_writer_open and pst_writer_finish.
 *
 * The calling thread calls the callbacks. Any thread. */
PST_WARN_UNUSED enum pst_status pst_pack(const char *source, const char *destination,
                                         const struct pst_pack_options *options,
                                         struct pst_pack_report *report, size_t report_nbytes,
                                         struct pst_error *err);

/* Makes one data set of what the parts of a pack have packed (pst_pack_options.n_parts), and
 * removes the plan. It verifies the checksums of plan, indexes and records, and that no planned
 * shard is missing; it does not read the items' bytes (pst_verify does). It may be interrupted at
 * any time and run again. If the data set was merged before, it does nothing.
 *
 * path: the destination of the parts.
 * progress: called after each planned shard; a result other than 0 cancels. May be NULL.
 * ctx: passed to progress.
 * report: receives n_samples, n_files, and n_resumed, the samples that were merged before. May be
 *     NULL.
 * report_nbytes: sizeof *report; 0 with NULL.
 *
 * PST_ERROR_INCOMPLETE: planned shards are missing; the text says how many.
 * PST_ERROR_NOT_FOUND: the path has no packed parts.
 * PST_ERROR_BUSY: another writer is open.
 * PST_ERROR_CORRUPT, PST_ERROR_CHECKSUM, PST_ERROR_TRUNCATED, PST_ERROR_VERSION: plan or shards are
 *     damaged or do not belong together.
 * PST_ERROR_EXISTS: a shard's name is taken by another file, or another process merged meanwhile.
 * PST_ERROR_CANCELLED, PST_ERROR_IO, PST_ERROR_NO_SPACE, PST_ERROR_MEMORY.
 *
 * The calling thread calls progress. Any thread. */
PST_WARN_UNUSED enum pst_status pst_merge(const char *path, pst_progress_fn progress, void *ctx,
                                          struct pst_pack_report *report, size_t report_nbytes,
                                          struct pst_error *err);

/* Changes the forms in which a finished data set stores its images, in place. Only samples that
 * must change are rewritten, and only files with such samples; other files are not touched. Order,
 * names, labels and other fields stay. The data set is valid at any time: it has the old content
 * until the last step, which replaces the index. After an interruption the same call continues;
 * with other options it starts again and removes what was left. If the last change was made with
 * the same options, there is nothing to do. Handles that are open keep reading the old state; its
 * files are removed when no handle reads them any more, at the end or by the next pst_repack or
 * append. Id and order stay, but the identity of the bytes changes, so caches do not serve old
 * items.
 *
 * path: a data set.
 * options: see pst_pack. A plan, forms or mask_forms must be given. Of `writer` only commit_nbytes
 *     is used; bad_sample, made_for and add_classes are ignored: a bad sample ends the call. Read
 *     during the call only.
 * report: receives what was done, even after failure. May be NULL.
 * report_nbytes: sizeof *report; 0 with NULL.
 *
 * PST_ERROR_ARGUMENT: an option is invalid, or the path is a plain folder.
 * PST_ERROR_BUSY: another writer is open.
 * PST_ERROR_INCOMPLETE: an append was interrupted.
 * PST_ERROR_NO_SPACE, PST_ERROR_IO: the disk is full or failed; what was written is removed, and
 *     the data set is unchanged.
 * PST_ERROR_CANCELLED: a callback cancelled the call. The same call continues the work.
 * Errors of a bad sample, and of pst_dataset_open. PST_ERROR_MEMORY.
 *
 * The calling thread calls the callbacks. Any thread. */
PST_WARN_UNUSED enum pst_status pst_repack(const char *path, const struct pst_pack_options *options,
                                           struct pst_pack_report *report, size_t report_nbytes,
                                           struct pst_error *err);

/* Verifying data sets
 * -------------------------------------------------------------------------------- */

/* Options of checking. Zero-initialise, then set struct_size. */
struct pst_verify_options {
    size_t struct_size;
    /* True: also decodes images and sounds, and compares pixel checksums. */
    bool decode;
    /* Number of threads; 0: as many as the cores that this process may use. */
    uint32_t num_workers;
    pst_progress_fn progress;
    /* Called for each finding. NULL: the first finding ends the run. */
    pst_bad_sample_fn bad_sample;
    void *ctx;
    /* True: also restores the files of JPEGs kept as PLI, and compares their checksums. */
    bool restore;
    /* Options of opening a plain folder; NULL: the defaults. */
    const struct pst_dataset_options *source;
    /* Verifying by several processes: this call verifies part number `part` of n_parts, counted
     * from 1; 0: everything. A part has some shards (or files of other kinds), with the samples
     * whose first item lies in them; in a plain folder it has runs of 32 samples. Each sample and
     * each shard is in exactly one part. Part 1 also verifies the index as a whole. */
    uint32_t part, n_parts;
};
/* The result of pst_verify. n_items counts variants, n_bad findings, nbytes the bytes of the items
 * that were read. */
struct pst_verify_report {
    uint64_t n_samples, n_items, n_bad;
    uint64_t nbytes;
    /* In parts: PST_IDENTITY_BYTES of the data set, which must be equal for all parts. Zeros if the
     * data set could not be opened, and for a single file. */
    uint8_t identity[PST_IDENTITY_NBYTES];
    /* In parts: the number of samples in all parts together. */
    uint64_t n_samples_total;
    /* In parts of a packed data set: bit i is set if no item of field i in this part has the
     * largest length that the index states for the field (or no image the largest number of pixel
     * bytes). If all parts have the bit set, that is a finding: the index states a size that no
     * item has. */
    uint64_t unreached_items, unreached_pixels;
};

/* Reads everything and compares every checksum: index, shards, items, pixels. It also works on
 * plain folders and on single image or audio files, which it always decodes. PLI files are also
 * compared with their internal checksums.
 *
 * path: a data set, a folder, an image file or an audio file.
 * options: NULL for the defaults. Read during the call only.
 * report: receives what was read and found, even after failure. May be NULL.
 * report_nbytes: sizeof *report; 0 with NULL.
 *
 * Returns PST_OK when nothing is wrong, else the status of the first finding.
 * PST_ERROR_CANCELLED: the progress function cancelled the call. Others: see pst_dataset_open.
 * PST_ERROR_MEMORY.
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
