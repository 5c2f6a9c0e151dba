/* writer.h - making, extending and checking data sets. */
#ifndef PENSTOCK_WRITER_H
#define PENSTOCK_WRITER_H

#include <penstock/dataset.h>
#include <penstock/pli.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct pst_writer pst_writer;

enum pst_writer_mode {
    PST_WRITER_CREATE = 0, /* the path must not exist, or be an empty directory */
    PST_WRITER_RESUME = 1, /* go on with an interrupted writer; create if absent */
    PST_WRITER_APPEND =
        2 /* add samples to a finished data set (or go on with an interrupted append) */
};

/* Zero-initialise, then set struct_size; 0 takes the default. */
struct pst_writer_options {
    size_t struct_size;
    enum pst_writer_mode mode;
    uint64_t shard_nbytes;  /* start a new shard beyond this; default 1 GiB */
    uint64_t commit_nbytes; /* make what was added durable (fsync) each time so many bytes were
                               added; default 256 MiB */
};

/* One variant of one item to be stored. */
struct pst_value {
    const void
        *bytes; /* the caller's; copied by pst_writer_add. INT: an int64_t, FLOAT: a double */
    size_t nbytes;
    enum pst_form form;     /* images and masks: jpeg, png, webp, pli, pli-jpeg, raw; else 0 */
    uint32_t height, width; /* PST_FORM_RAW */
    uint8_t channels, bits; /* PST_FORM_RAW */
    uint8_t ndim;           /* PST_FIELD_ARRAY: its shape (boxes, keypoints: derived from nbytes) */
    uint32_t shape[PST_MAX_NDIM];
    bool has_pixel_checksum; /* the caller decoded a lossless image already */
    bool was_pli; /* PST_FORM_PLI, PLI_JPEG: not made for this, but a file that was one */
    uint64_t pixel_checksum;
};

/* All values of one sample. values[i] belongs to field i of the schema; a field with several
 * variants takes its values from `variants[i]`, an array of fields[i].n_variants values (form NONE:
 * absent). */
struct pst_sample {
    size_t struct_size;
    size_t value_nbytes; /* sizeof(struct pst_value): the size of each value */
    const char *name;    /* unique, UTF-8, not empty, no control characters, < 4096 bytes */
    const struct pst_value *const *values; /* [n_fields] -> [n_variants] */
};

/* Opens a writer at directory `path` with `n_fields` fields. For RESUME and APPEND the fields must
 * equal those on disk; n_fields 0 takes them from there. PST_ERROR_BUSY: another writer holds the
 * data set. PST_ERROR_CORRUPT, CHECKSUM or TRUNCATED: an unfinished data set contradicts itself.
 * PST_ERROR_IO, among other causes: the lock, the journal or the last shard is a link or no plain
 * file. `path` itself may be a link to a directory; no link in it is followed, and a shard that has
 * a second hard link is left as it is. A writer is used by one thread at a time. */
PST_WARN_UNUSED enum pst_status pst_writer_open(const char *path, const struct pst_field *fields,
                                                uint32_t n_fields,
                                                const struct pst_writer_options *options,
                                                pst_writer **out, struct pst_error *err);
uint32_t pst_writer_n_fields(const pst_writer *writer);
const struct pst_field *pst_writer_field(const pst_writer *writer, uint32_t i_field);

/* Samples in the data set so far: committed ones of the interrupted or finished state and those
 * added. Right after open, a resumed job goes on with sample number pst_writer_count(). */
uint64_t pst_writer_count(const pst_writer *writer);
/* True if a sample of that name is in the data set already. */
bool pst_writer_has(const pst_writer *writer, const char *name);

/* Checks and appends one sample. Image headers are read, dimensions and orientation recorded.
 * A mask has the size of an image of its sample, boxes are finite, have an area (x0 < x1, y0 < y1)
 * and lie at least in part on the sample's image, keypoints are finite; and of an image with an
 * EXIF orientation it is known for which picture they were made (pst_field.made_for), else
 * PST_ERROR_ARGUMENT.
 * After an error that is the sample's own fault (CORRUPT, TRUNCATED, ARGUMENT, EXISTS, UNSUPPORTED,
 * LIMIT) nothing of it is kept and the writer goes on; after I/O errors and NO_SPACE only
 * pst_writer_close is allowed, and what was committed can be resumed. */
PST_WARN_UNUSED enum pst_status pst_writer_add(pst_writer *writer, const struct pst_sample *sample,
                                               struct pst_error *err);
/* Makes all that was added durable and resumable. */
PST_WARN_UNUSED enum pst_status pst_writer_commit(pst_writer *writer, struct pst_error *err);
/* Names of the classes of int field i (n_classes of them). */
PST_WARN_UNUSED enum pst_status pst_writer_set_class_names(pst_writer *writer, uint32_t i_field,
                                                           const char *const *names, size_t n_names,
                                                           struct pst_error *err);
/* Writes the index and makes the data set whole, atomically. After it only close is allowed. */
PST_WARN_UNUSED enum pst_status pst_writer_finish(pst_writer *writer, struct pst_error *err);
/* Frees. Without finish, the data set stays resumable at the last commit (close commits if it can);
 * one that was begun and got no sample leaves nothing behind. */
void pst_writer_close(pst_writer **writer);

/* Packing a folder
 * ---------------------------------------------------------------------------------- */

struct pst_progress {
    uint64_t n_done, n_total; /* samples */
    uint64_t nbytes_in, nbytes_out;
    uint64_t reserved[4]; /* zero: room for members of later versions */
};
/* Called now and then by the calling thread; a return other than 0 cancels (PST_ERROR_CANCELLED).
 */
typedef int (*pst_progress_fn)(void *ctx, const struct pst_progress *progress);
/* A sample that could not be used: `err` says why. Return 0 to go on, other to stop with that
 * error. */
typedef int (*pst_bad_sample_fn)(void *ctx, const char *name, const struct pst_error *err);

/* Zero-initialise, then set struct_size. */
struct pst_pack_options {
    size_t struct_size;
    const struct pst_writer_options *writer;  /* NULL: the defaults */
    const struct pst_dataset_options *source; /* how the source is opened; NULL: the defaults */
    const enum pst_form *forms; /* forms of the image, first = preferred; each becomes a variant.
                                   PST_FORM_NONE = the file's own bytes; of a data set those of the
                                   file that was packed (a JPEG that is kept as PLI becomes the JPEG
                                   again) or, where only pixels were kept, what it has. RAW and PLI
                                   are made from the decoded pixels, JPEG out of PLI_JPEG too,
                                   others are kept where the source has them. Default: JPEGs become
                                   PLI_JPEG, all else stays as it is; an image of a data set keeps
                                   all its variants, and a JPEG beside a PLI_JPEG stays one. When
                                   appending: as the data set has them */
    uint32_t n_forms;
    uint32_t num_workers; /* threads; 0: as many as the process may use */
    bool verify_pixels;   /* decode every image once: bad ones are found now; lossless ones get
                             a pixel checksum. Default off: only headers are read, but lossless
                             forms are always decoded for their checksum */
    pst_progress_fn progress;
    pst_bad_sample_fn bad_sample; /* NULL: the first bad sample stops the pack */
    void *ctx;
    const enum pst_form *mask_forms; /* the same for masks. Default: as the source has them */
    uint32_t n_mask_forms;
    /* PST_FORM_PLI. Images that are PLI already are kept as they are, unless tier, effort or
     * max_error is given and theirs are others. Each image is decoded again before it is stored. */
    enum pst_pli_tier pli_tier;  /* default: small */
    uint32_t pli_effort;         /* 1..5; 0 = 3 */
    uint32_t pli_max_error;      /* 0 lossless; 1..127 near-lossless. Masks are always lossless */
    bool pli_of_lossy;           /* encode JPEG and lossy WebP losslessly too, which makes them
                                    larger; else they are bad samples (PST_ERROR_UNSUPPORTED) */
    pst_bad_sample_fn kept_jpeg; /* PST_FORM_PLI_JPEG: a JPEG that stays as it is, and why */
    /* Called once, before anything is written, with the source, which stays the packer's: what it
     * leaves out (pst_dataset_notice) can be said before hours of work. Another return than 0
     * cancels (PST_ERROR_CANCELLED). NULL: nothing. */
    int (*source_opened)(void *ctx, pst_dataset *source);
    /* Of masks, boxes and keypoints of which the source does not say it; not when appending. */
    enum pst_made_for made_for;
};

struct pst_pack_report {
    /* Samples in the destination (after a failure: those that it keeps), bad ones, those that were
     * there before. */
    uint64_t n_samples, n_bad, n_resumed;
    uint64_t nbytes_in, nbytes_out;
    uint64_t n_skipped; /* files of the source left out by source.allow_unreadable */
    /* PST_FORM_PLI_JPEG: JPEGs that became PLI, their bytes before and after; JPEGs that did not.
     */
    uint64_t n_pli_jpeg, jpeg_nbytes, pli_jpeg_nbytes;
    uint64_t n_kept_jpeg, kept_jpeg_nbytes;
    /* JPEGs made again out of PLI_JPEG, their bytes before and after. */
    uint64_t n_restored_jpeg, restored_pli_jpeg_nbytes, restored_jpeg_nbytes;
    uint64_t n_not_original; /* PST_FORM_NONE: images of which only pixels were kept */
};

/* Packs folder (or data set) `source` into the data set `destination`, which must not lie in a data
 * set that is the source. The order of samples is the source's and does not depend on num_workers;
 * fields, names, class names and all that is no image are the source's too. Interrupted, it resumes
 * with mode PST_WRITER_RESUME.
 * Then source, forms and PLI options must be the same as before: where names, forms, PLI's tier,
 * effort or max_error, lengths or numbers of the samples that are stored differ from those of the
 * source now, PST_ERROR_ARGUMENT names the first such sample and nothing is changed. A file
 * replaced by another one of the same length is not noticed. */
PST_WARN_UNUSED enum pst_status pst_pack(const char *source, const char *destination,
                                         const struct pst_pack_options *options,
                                         struct pst_pack_report *report, size_t report_nbytes,
                                         struct pst_error *err);

/* Checking a data set
 * -------------------------------------------------------------------------------- */

/* Zero-initialise, then set struct_size. */
struct pst_verify_options {
    size_t struct_size;
    bool decode;          /* decode images too and compare pixel checksums */
    uint32_t num_workers; /* 0: as many as the process may use */
    pst_progress_fn progress;
    pst_bad_sample_fn bad_sample; /* each finding; NULL: the first one ends the run */
    void *ctx;
    bool restore; /* of JPEGs kept as PLI make the files again and compare their checksums */
    const struct pst_dataset_options *source; /* how a plain folder is opened; NULL: by default */
};
struct pst_verify_report {
    uint64_t n_samples, n_items, n_bad;
    uint64_t nbytes;
};
/* Reads everything and checks every checksum: index, shards, items, pixels. Returns PST_OK when
 * nothing is wrong, else the status of the first finding. Works on plain folders and on single
 * image files too (decode is then implied); PLI are also held against the checksums that they have
 * in themselves. */
PST_WARN_UNUSED enum pst_status pst_verify(const char *path,
                                           const struct pst_verify_options *options,
                                           struct pst_verify_report *report, size_t report_nbytes,
                                           struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
