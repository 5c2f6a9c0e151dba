/* pack_int.h - declarations that the files of pst_pack share. */
#ifndef PST_PACK_PACK_INT_H
#define PST_PACK_PACK_INT_H

#include "base/buffer.h"
#include "format/format_geometry.h"
#include "decode/decode.h"
#include "pack/pack_mix.h"
#include "pli/pli.h"

#include <penstock/writer.h>

struct psti_run;

/* Plan of what a pack will do (pack_plan.c)
 * ---------------------------------------------------------------------------------- */

/* Settings with which PLI is encoded, or was encoded. */
struct psti_pack_pli {
    enum pst_pli_tier tier;
    uint32_t effort, max_error;
    bool given;      /* the caller set them, so PLI of the source are re-encoded */
    bool tier_given; /* a plan file sets tier and max_error; effort may differ */
};

/* Maps the source's fields to the destination's. Constant while workers run. */
struct psti_pack_plan {
    pst_dataset *source;
    bool verify_pixels;
    bool appends;      /* true: appends to a finished data set and keeps its fields */
    uint32_t n_fields; /* of the destination */
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t source_field[PST_MAX_FIELDS];
    int64_t *class_map[PST_MAX_FIELDS]; /* [source n_classes] new labels; NULL: labels are kept */
    bool add_classes;
    uint32_t *new_classes[PST_MAX_FIELDS]; /* classes of the source that an append adds, in order */
    uint32_t n_new_classes[PST_MAX_FIELDS];
    struct psti_pack_forms images, masks;
    bool keeps_variants; /* true: no forms were requested and the source is a data
                          * set: images keep their variants, but JPEGs become PLI */
    struct psti_pack_pli pli;
    bool pli_of_lossy;
    /* Images are resized if their shorter side is longer than this many pixels; 0: never. */
    uint32_t resize;
    bool resizes; /* some samples are resized: by `resize`, or by a plan file */
    /* A plan file (pack_assign.c): says which samples get which variants of one field. */
    bool has_mix;
    struct psti_pack_mix mix;
    uint32_t mix_field; /* of the destination */
    uint32_t *way_of;   /* [samples of the source] 1 + index of the way in `mix`; 0: none */
    /* Used for a change in place, and for a new data set with planned shards (pack_cut.c). */
    bool in_place;
    uint8_t *stays;         /* [samples], in place: 1 if the sample stays unchanged */
    uint64_t *first_sample; /* [n_shards + 1], the last entry is the sample count */
    uint32_t n_shards;      /* 0: the writer's shard_nbytes decides where shards end */
};
/* Returns PST_ERROR_ARGUMENT if the path, by its name, means a tar, zip or table of other software,
 * into which nothing is written. */
enum pst_status psti_pack_refuse_others(const char *path, struct pst_error *err);
enum pst_status psti_pack_plan_make(struct psti_pack_plan *plan, pst_dataset *source,
                                    const char *destination, const struct pst_pack_options *options,
                                    struct pst_error *err);
/* Gives the source's class names to a new data set, or adds new classes to an existing one. */
enum pst_status psti_pack_plan_classes(const struct psti_pack_plan *plan, pst_writer *writer,
                                       struct pst_error *err);
void psti_pack_plan_free(struct psti_pack_plan *plan);

/* The forms that a sample is stored in (pack_forms.c)
 * ----------------------------------------------------------------------------- */

/* Returns the forms in which a field of the destination is stored for a sample of the source; NULL
 * if values are copied unchanged. */
const struct psti_pack_forms *psti_pack_plan_forms(const struct psti_pack_plan *plan,
                                                   uint32_t i_field, uint64_t sample);
/* Returns the length of the shorter side to which the sample's images are resized; 0: they are not.
 */
uint32_t psti_pack_plan_side(const struct psti_pack_plan *plan, uint64_t sample);
/* True if JPEGs among the source's `n` variants of an image become PLI, while all other variants
 * stay. False if one of them already is a pli-jpeg. */
bool psti_pack_plan_takes_jpegs(const struct psti_pack_plan *plan, enum pst_field_type type,
                                const struct pst_item *items, uint32_t n);
/* Chooses the variant, of the `n` of an image, from which `form` is made. The first choice is a
 * variant in that form. The next choices are: for a JPEG its PLI, and the reverse; for PLI a
 * variant in the mask `lossless`; for a file a variant that is a file; else the first variant.
 * Returns n if all are absent (form NONE). */
uint32_t psti_pack_choose(const struct pst_item *items, uint32_t n, uint32_t lossless,
                          enum pst_form form);

/* Plan files and changes in place (pack_assign.c)
 * ----------------------------------------------------------------------------- */

/* Reads the plan file that the options name, and gives each sample of the source its way. Sets
 * n_variants of the field. `num_workers` threads read the headers of a folder's files. */
enum pst_status psti_pack_assign(struct psti_pack_plan *plan,
                                 const struct pst_pack_options *options, struct pst_error *err);
/* For a change in place: finds the samples that stay unchanged, the samples of each shard, and the
 * number of variants that the fields need. */
enum pst_status psti_pack_assign_in_place(struct psti_pack_plan *plan, struct pst_error *err);
/* Returns a hash of what the plan and the options do; never 0. */
uint64_t psti_pack_assign_mark(const struct psti_pack_plan *plan);

/* Dividing the source into planned shards (pack_cut.c)
 * ----------------------------------------------------------------------------- */

/* Divides the source into planned shards of at most `shard_nbytes`, by the estimated bytes of its
 * items. Each planned shard has at least one sample; a source without samples gets one empty
 * planned shard. */
enum pst_status psti_pack_cut(struct psti_pack_plan *plan, uint64_t shard_nbytes,
                              struct pst_error *err);
/* Fills in *parts, the plan of shards as its file stores it, without a token. */
struct psti_parts;
enum pst_status psti_pack_cut_describe(const struct psti_pack_plan *plan, uint64_t shard_nbytes,
                                       struct psti_parts *parts, struct pst_error *err);

/* PLI (pack_pli.c)
 * --------------------------------------------------------------------------------------- */

void psti_pack_pli_options(const struct pst_pack_options *options, struct psti_pack_pli *pli);
/* Reads the first 40 bytes of a PLI. Returns false if they are not from a PLI of pixels. */
bool psti_pack_pli_read(const void *head, size_t nbytes, struct psti_pack_pli *pli);
/* Returns the PLI settings for form k of `forms`, in fields of this type. */
struct psti_pack_pli psti_pack_pli_of(const struct psti_pack_plan *plan, enum pst_field_type type,
                                      const struct psti_pack_forms *forms, uint32_t k);
/* True if a PLI with the settings `held` need not be re-encoded. */
bool psti_pack_pli_fits(const struct psti_pack_pli *held, const struct psti_pack_pli *wanted);
bool psti_pack_pli_equal(const struct psti_pack_pli *a, const struct psti_pack_pli *b);
void psti_pack_pli_text(const struct psti_pack_pli *pli, char out[64]);
/* Encodes the image into `blob`. `value` then points to these bytes and has the pixel checksum. */
enum pst_status psti_pack_pli_encode(const struct psti_pack_pli *pli, struct psti_decoder *decoder,
                                     const struct pst_pixels *pixels, struct psti_buffer *blob,
                                     struct pst_value *value, struct pst_error *err);

/* Resuming an interrupted pack (pack_resume.c)
 * ----------------------------------------------------------------------------- */

/* Compares the samples that an interrupted pack stored with what source and plan would give now:
 * names in the source's order, forms, lengths, numbers, class names. PST_ERROR_ARGUMENT if they
 * differ. *n_passed receives the number of source samples up to the last stored one. */
enum pst_status psti_pack_resume_check(const struct psti_pack_plan *plan, const pst_writer *writer,
                                       uint64_t *n_passed, struct pst_error *err);
/* Checks a sample that the interrupted pack skipped because it was bad. If it is good now, returns
 * PST_ERROR_ARGUMENT and sets *is_new, because it can no longer be stored in order. Otherwise
 * returns what is wrong with it. */
enum pst_status psti_pack_resume_passed(pst_writer *writer, const struct pst_sample *sample,
                                        bool *is_new, struct pst_error *err);

/* Preparing one sample for the writer (pack_prepare.c)
 * ----------------------------------------------------------------------------- */

#define PSTI_PACK_BLOBS (PST_MAX_VARIANTS + 3)

/* A sample on its way from the source to the writer. A worker owns it from its start until `done`;
 * the calling thread owns it at all other times. */
struct psti_pack_slot {
    uint64_t sample;
    uint64_t n_adopted; /* for a change in place: number of samples from this one on that are
                         * adopted (kept as they are stored) */
    bool begins_shard, ends_shard; /* for a change in place: the sample is the first, or the last,
                                    * of its shard */
    char name[PST_NAME_CAP];
    bool done; /* guarded by the lock of pack.c */
    enum pst_status status;
    struct pst_error err;
    uint64_t nbytes_in, nbytes_out;
    uint64_t n_pli_jpeg, jpeg_nbytes, pli_jpeg_nbytes; /* JPEGs that became PLI; bytes before, after
                                                        */
    uint64_t n_kept_jpeg, kept_jpeg_nbytes;            /* JPEGs that stayed JPEGs, and their bytes
                                                        */
    struct pst_error why_kept;                         /* why the first of these JPEGs stayed */
    uint64_t n_restored_jpeg, restored_pli_jpeg_nbytes, restored_jpeg_nbytes; /* from PLI */
    bool is_resized;                /* images of the sample were resized */
    uint64_t n_not_original;        /* number of images whose original was wanted but is not
                                     * stored */
    struct pst_value *values;       /* [n_fields][PST_MAX_VARIANTS] */
    const struct pst_value **lists; /* [n_fields] */
    struct psti_buffer *blobs;      /* [n_fields][PSTI_PACK_BLOBS]: source variants, raw pixels,
                                     * PLI, PLI of a JPEG or the restored JPEG */
    int64_t *ints;                  /* [n_fields] */
    double *floats;                 /* [n_fields] */
};
enum pst_status psti_pack_slot_init(struct psti_pack_slot *slot, uint32_t n_fields,
                                    struct pst_error *err);
void psti_pack_slot_free(struct psti_pack_slot *slot, uint32_t n_fields);
/* Frees buffers that are larger than most samples need, to limit memory. */
void psti_pack_slot_trim(struct psti_pack_slot *slot, uint32_t n_fields);
/* Reads slot->sample, and decodes it if necessary. Sets all members except `done`. */
/* run: needed if plan->resizes; otherwise NULL. */
void psti_pack_prepare(const struct psti_pack_plan *plan, struct psti_decoder *decoder,
                       struct psti_pli_keep *jpeg, struct psti_run *run,
                       struct psti_pack_slot *slot);

/* Storing images at a smaller size (pack_resize.c)
 * ----------------------------------------------------------------------------- */

/* The state of resizing one sample's images to a shorter side of `side` pixels. */
struct psti_pack_resize {
    const struct psti_pack_plan *plan;
    uint32_t side; /* above 0 */
    struct psti_decoder *decoder;
    struct psti_run *run;
    struct psti_pack_slot *slot;
    struct pst_item item; /* the item read last, for error messages */
    uint32_t i_field;
    bool is_larger; /* the first image is larger than `side`, so the sample is resized */
    struct psti_picture_size leader; /* size and orientation of the first image */
};
/* Looks at the first image. The caller has set `plan` to `slot`; the other members are zero. */
enum pst_status psti_pack_resize_begin(struct psti_pack_resize *work);
/* Makes the values of a field. *done: true if they were made, false if the field is stored
 * unresized. */
enum pst_status psti_pack_resize_field(struct psti_pack_resize *work, uint32_t i_field,
                                       struct pst_value *values, bool *done);

#endif
