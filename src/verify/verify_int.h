/* verify_int.h - declarations that the files of pst_verify share. */
#ifndef PST_VERIFY_VERIFY_INT_H
#define PST_VERIFY_VERIFY_INT_H

#include "base/buffer.h"
#include "pli/pli.h"
#include "verify/verify.h"

#include <penstock/writer.h>

/* A finding: what is wrong, and where. */
struct psti_verify_finding {
    int64_t sample; /* number of the sample, -1 if it concerns none */
    struct pst_error err;
};

enum { PSTI_VERIFY_RUN_COUNT = 32 }; /* samples in a job */

enum psti_verify_kind { PSTI_VERIFY_SHARD, PSTI_VERIFY_SAMPLES };

/* A piece of work, done by one worker. */
struct psti_verify_job {
    enum psti_verify_kind kind;
    uint32_t i_shard;
    uint64_t first, n; /* samples */
    bool done;         /* guarded by the lock of verify.c */
    /* Results: */
    bool shard_bad;
    uint64_t n_samples, n_items, nbytes; /* counts of this part alone */
    uint64_t largest_item[PST_MAX_FIELDS], largest_pixels[PST_MAX_FIELDS]; /* bytes */
    struct psti_verify_finding *findings;
    size_t n_findings, capacity;
    enum pst_status fatal; /* an error that ends the run, such as a lack of memory */
    struct pst_error fatal_err;
};

/* Data for all jobs. Constant while jobs about samples run. */
struct psti_verify_context {
    pst_dataset *dataset;
    bool decode, restore;
    uint32_t part, n_parts; /* the part to verify, from 0; n_parts 1: everything */
    /* [n_files] of a packed data set: true if the shard had a finding, or belongs to another part,
     * which this part knows nothing about. Items of the other shards are good. */
    bool *shard_bad;
};

/* True if the shard belongs to this part. */
bool psti_verify_has_shard(const struct psti_verify_context *context, uint64_t i_shard);

/* Decodes an image and compares its pixels with the known checksums: that of `item`, and a PLI's
 * own. item->form must be set. */
enum pst_status psti_verify_pixels(struct psti_decoder *decoder, enum pst_field_type type,
                                   const void *bytes, struct pst_item *item, struct pst_error *err);
/* Restores the JPEG file of a PLI into the buffers of `jpeg`. Returns PST_OK for other images. */
enum pst_status psti_verify_restore(struct psti_pli_keep *jpeg, const void *bytes, size_t nbytes,
                                    struct pst_error *err);
bool psti_verify_is_file(const char *path);
enum pst_status psti_verify_file(const char *path, bool restore, uint64_t *nbytes,
                                 struct pst_error *err);
void psti_verify_shard(const struct psti_verify_context *context, struct psti_verify_job *job);
void psti_verify_samples(const struct psti_verify_context *context, struct psti_decoder *decoder,
                         struct psti_pli_keep *jpeg, struct psti_buffer *blob,
                         struct psti_verify_job *job);

#endif
