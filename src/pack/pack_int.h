/* pack_int.h - shared by the files of pst_pack. */
#ifndef PST_PACK_PACK_INT_H
#define PST_PACK_PACK_INT_H

#include "base/buffer.h"
#include "format/format_geometry.h"
#include "decode/decode.h"
#include "pack/pack_mix.h"
#include "pli/pli.h"

#include <penstock/writer.h>

struct psti_run;

/* The plan (pack_plan.c)
 * ---------------------------------------------------------------------------------- */

/* How PLI is encoded, or was. */
struct psti_pack_pli {
    enum pst_pli_tier tier;
    uint32_t effort, max_error;
    bool given;      /* the caller asked for it, even if the source is PLI */
    bool tier_given; /* the plan asks for this tier and error; the rest may be as it is */
};

/* Maps the source's fields to the destination's. Constant while workers run. */
struct psti_pack_plan {
    pst_dataset *source;
    bool verify_pixels;
    bool appends;      /* appends to a finished data set, whose fields stay as they are */
    uint32_t n_fields; /* of the destination */
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t source_field[PST_MAX_FIELDS];
    int64_t *class_map[PST_MAX_FIELDS]; /* [source n_classes]; NULL: labels stay as they are */
    bool add_classes;
    uint32_t *new_classes[PST_MAX_FIELDS]; /* source's classes that an append adds, in order */
    uint32_t n_new_classes[PST_MAX_FIELDS];
    struct psti_pack_forms images, masks;
    bool keeps_variants; /* no forms were requested and the source is a data set: images keep their
                            variants, but JPEGs become PLI */
    struct psti_pack_pli pli;
    bool pli_of_lossy;
    uint32_t resize; /* shorter side that images are stored with at most; 0: as they are */
    bool resizes;    /* some samples are: by `resize`, or by their way of the plan file */
    /* A plan file (pack_assign.c): which samples get which variants of one field. */
    bool has_mix;
    struct psti_pack_mix mix;
    uint32_t mix_field; /* of the destination */
    uint32_t *way_of;   /* [samples of the source]: number of the way in `mix`, plus 1; 0: none */
    /* For a change in place, and for a new data set whose shards are planned (pack_cut.c). */
    bool in_place;
    uint8_t *stays;         /* [samples], in place: 1 if the sample stays as it is */
    uint64_t *first_sample; /* [n_shards + 1]: of each shard; the last entry is their number */
    uint32_t n_shards;      /* 0: shards end where the writer's options say */
};
/* PST_ERROR_ARGUMENT: the path means files of others, such as tars, into which nothing is written.
 * It is found by names alone. */
enum pst_status psti_pack_refuse_others(const char *path, struct pst_error *err);
enum pst_status psti_pack_plan_make(struct psti_pack_plan *plan, pst_dataset *source,
                                    const char *destination, const struct pst_pack_options *options,
                                    struct pst_error *err);
/* Gives the source's class names to a new data set, or adds those that are new to an old one. */
enum pst_status psti_pack_plan_classes(const struct psti_pack_plan *plan, pst_writer *writer,
                                       struct pst_error *err);
void psti_pack_plan_free(struct psti_pack_plan *plan);

/* Forms of a sample (pack_forms.c)
 * ----------------------------------------------------------------------------- */

/* Returns the forms of a field of the destination for a sample of the source; NULL if values are
 * copied as they are. */
const struct psti_pack_forms *psti_pack_plan_forms(const struct psti_pack_plan *plan,
                                                   uint32_t i_field, uint64_t sample);
/* Returns the shorter side that a sample's images are stored with at most; 0: as they are. */
uint32_t psti_pack_plan_side(const struct psti_pack_plan *plan, uint64_t sample);
/* True if JPEGs among the source's `n` variants of an image become PLI. All other variants stay.
 * False if one of them is a pli-jpeg already. */
bool psti_pack_plan_takes_jpegs(const struct psti_pack_plan *plan, enum pst_field_type type,
                                const struct pst_item *items, uint32_t n);
/* Chooses the variant, of an image's `n`, from which `form` is made. The first choice is a
 * variant in that form. Then: a JPEG is made from its PLI and the reverse; PLI from a variant in
 * the mask `lossless`; a file from a variant that is a file; else the first variant. Returns n
 * if all are absent (form NONE). */
uint32_t psti_pack_choose(const struct pst_item *items, uint32_t n, uint32_t lossless,
                          enum pst_form form);

/* Plan files and changes in place (pack_assign.c)
 * ----------------------------------------------------------------------------- */

/* Reads the plan file that the options name and gives each sample of the source its way. Sets
 * n_variants of the field. `num_workers` threads read the headers of a folder's files. */
enum pst_status psti_pack_assign(struct psti_pack_plan *plan,
                                 const struct pst_pack_options *options, struct pst_error *err);
/* For a change in place: finds the samples that stay as they are, the samples of each shard, and
 * the number of variants that the fields need. */
enum pst_status psti_pack_assign_in_place(struct psti_pack_plan *plan, struct pst_error *err);
/* Returns a number that names what the plan and the options do; never 0. */
uint64_t psti_pack_assign_mark(const struct psti_pack_plan *plan);

/* The plan of shards (pack_cut.c)
 * ----------------------------------------------------------------------------- */

/* Cuts the source into planned shards of at most `shard_nbytes`, by the bytes that its items would
 * take. A planned shard has at least one sample. For a source without samples one empty shard is
 * planned. */
enum pst_status psti_pack_cut(struct psti_pack_plan *plan, uint64_t shard_nbytes,
                              struct pst_error *err);
/* Fills in *parts, the plan in the form in which a file holds it, without a token. */
struct psti_parts;
enum pst_status psti_pack_cut_describe(const struct psti_pack_plan *plan, uint64_t shard_nbytes,
                                       struct psti_parts *parts, struct pst_error *err);

/* PLI (pack_pli.c)
 * --------------------------------------------------------------------------------------- */

void psti_pack_pli_options(const struct pst_pack_options *options, struct psti_pack_pli *pli);
/* Reads the first 40 bytes of a PLI. False if they are not of a PLI of pixels. */
bool psti_pack_pli_read(const void *head, size_t nbytes, struct psti_pack_pli *pli);
/* Returns the settings for form k of `forms`, in fields of this type. */
struct psti_pack_pli psti_pack_pli_of(const struct psti_pack_plan *plan, enum pst_field_type type,
                                      const struct psti_pack_forms *forms, uint32_t k);
/* True if a PLI that was encoded as `held` need not be encoded anew. */
bool psti_pack_pli_fits(const struct psti_pack_pli *held, const struct psti_pack_pli *wanted);
bool psti_pack_pli_equal(const struct psti_pack_pli *a, const struct psti_pack_pli *b);
void psti_pack_pli_text(const struct psti_pack_pli *pli, char out[64]);
/* Encodes into `blob`. `value` then points to its bytes and has the pixel checksum. */
enum pst_status psti_pack_pli_encode(const struct psti_pack_pli *pli, struct psti_decoder *decoder,
                                     const struct pst_pixels *pixels, struct psti_buffer *blob,
                                     struct pst_value *value, struct pst_error *err);

/* Going on (pack_resume.c)
 * ----------------------------------------------------------------------------- */

/* Compares the samples that an interrupted pack stored with the result that source and plan
 * would give now: names in the source's order, forms, lengths, numbers, class names.
 * PST_ERROR_ARGUMENT if they differ. *n_passed counts the source's samples before the end of the
 * stored ones. */
enum pst_status psti_pack_resume_check(const struct psti_pack_plan *plan, const pst_writer *writer,
                                       uint64_t *n_passed, struct pst_error *err);
/* Checks a sample that was passed and not stored, so it was bad then. If it is good now,
 * PST_ERROR_ARGUMENT and *is_new, because its position is past. Else returns the problem with
 * it. */
enum pst_status psti_pack_resume_passed(pst_writer *writer, const struct pst_sample *sample,
                                        bool *is_new, struct pst_error *err);

/* One sample (pack_prepare.c)
 * ----------------------------------------------------------------------------- */

#define PSTI_PACK_BLOBS (PST_MAX_VARIANTS + 3)

/* A sample on its way from the source to the writer. The worker owns it from dispatch until it
 * is done, the calling thread at any other time. */
struct psti_pack_slot {
    uint64_t sample;
    uint64_t n_adopted; /* in place: so many samples, from this one on, stay with their shard */
    bool begins_shard, ends_shard; /* in place */
    char name[PST_NAME_CAP];
    bool done; /* guarded by the lock of pack.c */
    enum pst_status status;
    struct pst_error err;
    uint64_t nbytes_in, nbytes_out;
    uint64_t n_pli_jpeg, jpeg_nbytes, pli_jpeg_nbytes; /* JPEGs that became PLI: before, after */
    uint64_t n_kept_jpeg, kept_jpeg_nbytes;            /* JPEGs that stay as they are */
    struct pst_error why_kept; /* the reason for the first JPEG that stayed */
    uint64_t n_restored_jpeg, restored_pli_jpeg_nbytes, restored_jpeg_nbytes; /* from PLI */
    bool is_resized;                /* its images became smaller */
    uint64_t n_not_original;        /* images whose original was requested and does not exist */
    struct pst_value *values;       /* [n_fields][PST_MAX_VARIANTS] */
    const struct pst_value **lists; /* [n_fields] */
    struct psti_buffer *blobs;      /* [n_fields][PSTI_PACK_BLOBS]: source variants, raw pixels,
                                          PLI, PLI of a JPEG or the JPEG restored */
    int64_t *ints;                  /* [n_fields] */
    double *floats;                 /* [n_fields] */
};
enum pst_status psti_pack_slot_init(struct psti_pack_slot *slot, uint32_t n_fields,
                                    struct pst_error *err);
void psti_pack_slot_free(struct psti_pack_slot *slot, uint32_t n_fields);
/* Frees buffers that are larger than most samples need. */
void psti_pack_slot_trim(struct psti_pack_slot *slot, uint32_t n_fields);
/* Reads slot->sample, and decodes it if needed. Sets everything but `done`. */
/* run: for plan->resizes; NULL without. */
void psti_pack_prepare(const struct psti_pack_plan *plan, struct psti_decoder *decoder,
                       struct psti_pli_keep *jpeg, struct psti_run *run,
                       struct psti_pack_slot *slot);

/* Smaller images (pack_resize.c)
 * ----------------------------------------------------------------------------- */

/* A sample whose images are to have a shorter side of `side`. */
struct psti_pack_resize {
    const struct psti_pack_plan *plan;
    uint32_t side; /* above 0 */
    struct psti_decoder *decoder;
    struct psti_run *run;
    struct psti_pack_slot *slot;
    struct pst_item item; /* the item read last, for error messages */
    uint32_t i_field;
    bool is_larger; /* the sample's first image is; masks, boxes and keypoints move with it */
    struct psti_picture_size leader; /* size and orientation of the first image */
};
/* Looks at the first image. `plan` to `slot` are set, all else is zero. */
enum pst_status psti_pack_resize_begin(struct psti_pack_resize *work);
/* Makes the values of a field. *done: they are there; else the field is stored as ever. */
enum pst_status psti_pack_resize_field(struct psti_pack_resize *work, uint32_t i_field,
                                       struct pst_value *values, bool *done);

#endif
