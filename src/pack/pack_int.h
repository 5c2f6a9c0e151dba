/* pack_int.h - what the files of pst_pack share. */
#ifndef PST_PACK_PACK_INT_H
#define PST_PACK_PACK_INT_H

#include "base/buffer.h"
#include "decode/decode.h"
#include "pli/pli.h"

#include <penstock/writer.h>

/* The plan (pack_plan.c)
 * ---------------------------------------------------------------------------------- */

struct psti_pack_forms {
    enum pst_form forms[PST_MAX_VARIANTS];
    uint32_t n; /* 0: all variants of the source, as they are */
};
/* How PLI is made, or was. */
struct psti_pack_pli {
    enum pst_pli_tier tier;
    uint32_t effort, max_error;
    bool given; /* the caller asked for it, even where the source is PLI */
};

/* Which field of the source becomes which of the destination. Constant while workers run. */
struct psti_pack_plan {
    pst_dataset *source;
    bool verify_pixels;
    bool appends;      /* to a finished data set: its fields and classes stay as they are */
    uint32_t n_fields; /* of the destination */
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t source_field[PST_MAX_FIELDS];
    int64_t *class_map[PST_MAX_FIELDS]; /* [source n_classes], NULL: labels stay as they are */
    struct psti_pack_forms images, masks;
    bool keeps_variants; /* no forms were asked of a data set: images keep their variants, but JPEGs
                            become PLI */
    struct psti_pack_pli pli;
    bool pli_of_lossy;
};
enum pst_status psti_pack_plan_make(struct psti_pack_plan *plan, pst_dataset *source,
                                    const char *destination, const struct pst_pack_options *options,
                                    struct pst_error *err);
/* The forms that fields of this type are stored in; NULL: values are copied as they are. */
const struct psti_pack_forms *psti_pack_plan_forms(const struct psti_pack_plan *plan,
                                                   enum pst_field_type type);
/* True if JPEGs among the `n` variants of an image of the source, which all stay, become PLI: there
 * is none of that kind yet. */
bool psti_pack_plan_takes_jpegs(const struct psti_pack_plan *plan, enum pst_field_type type,
                                const struct pst_item *items, uint32_t n);
/* The variant that `form` is made from, of an image's `n`: that which has it already, else of a
 * JPEG and its PLI the other, for PLI one of the mask `lossless`, where files are wanted one that
 * is one, else the first. n: all are absent (form NONE). */
uint32_t psti_pack_choose(const struct pst_item *items, uint32_t n, uint32_t lossless,
                          enum pst_form form);
/* Gives the source's class names to a new data set. */
enum pst_status psti_pack_plan_classes(const struct psti_pack_plan *plan, pst_writer *writer,
                                       struct pst_error *err);
void psti_pack_plan_free(struct psti_pack_plan *plan);

/* PLI (pack_pli.c)
 * --------------------------------------------------------------------------------------- */

enum pst_status psti_pack_pli_options(const struct pst_pack_options *options,
                                      struct psti_pack_pli *pli, struct pst_error *err);
/* What the first 40 bytes of a PLI say. False: they are not of a PLI of pixels. */
bool psti_pack_pli_read(const void *head, size_t nbytes, struct psti_pack_pli *pli);
/* As the plan wants fields of this type. */
struct psti_pack_pli psti_pack_pli_of(const struct psti_pack_plan *plan, enum pst_field_type type);
bool psti_pack_pli_equal(const struct psti_pack_pli *a, const struct psti_pack_pli *b);
void psti_pack_pli_text(const struct psti_pack_pli *pli, char out[64]);
/* Encodes into `blob`, which `value` then points to; its pixel checksum is set. */
enum pst_status psti_pack_pli_encode(const struct psti_pack_pli *pli, struct psti_decoder *decoder,
                                     const struct pst_pixels *pixels, struct psti_buffer *blob,
                                     struct pst_value *value, struct pst_error *err);

/* JPEG as PLI (pack_pli_jpeg.c)
 * ----------------------------------------------------------------------------- */

/* The JPEG decoder of decode/ as the reference of psti_pli_keep_jpeg(). `decoder` stays the
 * caller's. */
struct psti_pli_reference psti_pack_jpeg_reference(struct psti_decoder *decoder);

/* Going on (pack_resume.c)
 * ----------------------------------------------------------------------------- */

/* Compares what an interrupted pack stored with what source and plan would give now: names in the
 * source's order, forms, lengths, numbers, class names. PST_ERROR_ARGUMENT: they differ. *n_passed:
 * samples of the source before the end of what is stored. */
enum pst_status psti_pack_resume_check(const struct psti_pack_plan *plan, const pst_writer *writer,
                                       uint64_t *n_passed, struct pst_error *err);
/* A sample of those that were passed although they are not stored: they were bad ones. If this one
 * is good, PST_ERROR_ARGUMENT and *is_new: its place is taken. Else what is wrong with it. */
enum pst_status psti_pack_resume_passed(pst_writer *writer, const struct pst_sample *sample,
                                        bool *is_new, struct pst_error *err);

/* One sample (pack_prepare.c)
 * ----------------------------------------------------------------------------- */

/* A sample on its way from the source to the writer. Owned by the worker between dispatch and done,
 * else by the calling thread. */
struct psti_pack_slot {
    uint64_t sample;
    char name[PST_NAME_CAP];
    bool done; /* guarded by the lock of pack.c */
    enum pst_status status;
    struct pst_error err;
    uint64_t nbytes_in, nbytes_out;
    uint64_t n_pli_jpeg, jpeg_nbytes, pli_jpeg_nbytes; /* JPEGs that became PLI; before, after */
    uint64_t n_kept_jpeg, kept_jpeg_nbytes;            /* those that stay as they are */
    struct pst_error why_kept;                         /* the first of these */
    uint64_t n_restored_jpeg, restored_pli_jpeg_nbytes, restored_jpeg_nbytes; /* and back */
    uint64_t n_not_original;        /* whose file was asked for and is not there */
    struct pst_value *values;       /* [n_fields][PST_MAX_VARIANTS] */
    const struct pst_value **lists; /* [n_fields] */
    struct psti_buffer *blobs; /* [n_fields][PST_MAX_VARIANTS + 3]: source variants, raw pixels,
                                     PLI, PLI of a JPEG or the JPEG restored */
    int64_t *ints;             /* [n_fields] */
    double *floats;            /* [n_fields] */
};
enum pst_status psti_pack_slot_init(struct psti_pack_slot *slot, uint32_t n_fields,
                                    struct pst_error *err);
void psti_pack_slot_free(struct psti_pack_slot *slot, uint32_t n_fields);
/* Lets go of buffers that are larger than most need. */
void psti_pack_slot_trim(struct psti_pack_slot *slot, uint32_t n_fields);
/* Reads, and where needed decodes, slot->sample; sets everything but `done`. */
void psti_pack_prepare(const struct psti_pack_plan *plan, struct psti_decoder *decoder,
                       struct psti_pli_keep *jpeg, struct psti_pack_slot *slot);

#endif
