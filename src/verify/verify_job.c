/* verify_job.c - the jobs of pst_verify: one shard, or a run of samples. A job runs in a worker
 * with its own decoder and buffer.
 *
 * A shard is read record by record. If nothing is wrong, the shard's items are as the index says,
 * and are not read again unless their pixels are to be decoded. All findings are added to the job,
 * which does not stop at the first one. */
#include "verify/verify_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "dataset/dataset.h"
#include "decode/decode_audio.h"
#include "pli/pli.h"
#include "format/format_dataset.h"

#include <string.h>

static void note(struct psti_verify_job *job, int64_t sample, const struct pst_error *err)
{
    if (err->status == PST_ERROR_MEMORY || err->status == PST_ERROR_INTERNAL ||
        err->status == PST_ERROR_FORKED) {
        job->fatal = err->status;
        job->fatal_err = *err;
        return;
    }
    if (job->n_findings == job->capacity) {
        size_t capacity = job->capacity * 2 + 4;
        struct psti_verify_finding *grown = psti_realloc(job->findings, capacity * sizeof *grown);
        if (grown == NULL) {
            job->fatal = psti_fail(&job->fatal_err, PST_ERROR_MEMORY, "verify",
                                   "out of memory for findings");
            return;
        }
        job->findings = grown;
        job->capacity = capacity;
    }
    job->findings[job->n_findings++] = (struct psti_verify_finding){sample, *err};
}

bool psti_verify_has_shard(const struct psti_verify_context *context, uint64_t i_shard)
{
    return i_shard % context->n_parts == context->part;
}

/* Finds the first file that holds an item of the sample. PST_FILE_NONE: there is none, or the index
 * is damaged there; the part that gets the sample reports that. */
static uint32_t first_file(const pst_dataset *dataset, uint64_t sample)
{
    for (uint32_t f = 0; f < pst_dataset_n_fields(dataset); f++) {
        const struct pst_field *field = pst_dataset_field(dataset, f);
        for (uint32_t v = 0; psti_format_has_items(field->type) && v < field->n_variants; v++) {
            struct pst_item item = {.i_file = PST_FILE_NONE};
            if (pst_dataset_item(dataset, sample, f, v, &item, sizeof item, NULL) == PST_OK &&
                item.i_file != PST_FILE_NONE)
                return item.i_file;
        }
    }
    return PST_FILE_NONE;
}

/* True if the sample belongs to this part. A sample belongs to the part that has its shard, so each
 * file is read by one part. In a plain folder, where files are small, each run of
 * PSTI_VERIFY_RUN_COUNT samples belongs to one part. */
static bool has_sample(const struct psti_verify_context *context, uint64_t sample)
{
    if (context->n_parts == 1)
        return true;
    uint32_t i_file = pst_dataset_is_folder(context->dataset)
                          ? PST_FILE_NONE
                          : first_file(context->dataset, sample);
    return psti_verify_has_shard(context, i_file != PST_FILE_NONE ? i_file
                                                                  : sample / PSTI_VERIFY_RUN_COUNT);
}

void psti_verify_shard(const struct psti_verify_context *context, struct psti_verify_job *job)
{
    struct pst_error err;
    char path[8192];
    struct psti_index_shard shard = {0};
    uint64_t n_items = 0;
    if (!psti_verify_has_shard(context, job->i_shard)) {
        job->shard_bad = true;
        return;
    }
    pst_error_clear(&err);
    enum pst_status status = psti_dataset_shard(context->dataset, job->i_shard, &shard, &err);
    if (status == PST_OK)
        status = psti_dataset_check_shard(context->dataset, job->i_shard, &err);
    if (status == PST_OK)
        status = psti_dataset_scan_shard(context->dataset, job->i_shard, &n_items, &err);
    if (status == PST_OK && n_items != shard.n_items)
        status = psti_fail(&err, PST_ERROR_CORRUPT, "verify",
                           "the shard holds %llu items, the index says %llu",
                           (unsigned long long)n_items, (unsigned long long)shard.n_items);
    if (status == PST_OK) {
        job->nbytes = shard.nbytes;
        return;
    }
    if (err.dataset[0] == '\0')
        psti_error_set_dataset(&err, pst_dataset_path(context->dataset));
    if (err.file[0] == '\0' &&
        pst_dataset_file_path(context->dataset, job->i_shard, path, sizeof path, NULL) == PST_OK)
        psti_error_set_file(&err, path);
    job->shard_bad = true;
    note(job, -1, &err);
}

/* Compares a PLI's length and pixel checksum with those in its head. */
static enum pst_status check_pli(const void *bytes, size_t nbytes, uint64_t pixel_checksum,
                                 struct pst_error *err)
{
    struct pst_pli_info info = {0};
    enum pst_status status = pst_pli_info(bytes, nbytes, &info, sizeof info, err);
    if (status != PST_OK)
        return status;
    if (info.nbytes != nbytes)
        return psti_fail(err, PST_ERROR_CORRUPT, "verify", "the last unit ends at byte %llu of %zu",
                         (unsigned long long)info.nbytes, nbytes);
    if (info.pixel_checksum != pixel_checksum)
        return psti_fail(err, PST_ERROR_CHECKSUM, "verify",
                         "the decoded pixels do not match the checksum in the header");
    return PST_OK;
}

enum pst_status psti_verify_pixels(struct psti_decoder *decoder, enum pst_field_type type,
                                   const void *bytes, struct pst_item *item, struct pst_error *err)
{
    struct pst_decode_options options;
    struct pst_image_info info = {0};
    uint64_t hash;
    psti_verify_decode_options(type, &options);
    options.orientation = item->orientation;
    if (item->form == PST_FORM_RAW) {
        info.form = item->form;
        info.height = item->height;
        info.width = item->width;
        info.channels = item->channels;
        info.bits = item->bits;
        info.orientation = 1;
    }
    enum pst_status status =
        psti_decode_probe(decoder, bytes, (size_t)item->nbytes, item->form, &options, &info, err);
    if (status != PST_OK)
        return status;
    item->form = info.form;
    if (item->height != 0 && (item->height != info.height || item->width != info.width))
        return psti_fail(err, PST_ERROR_CORRUPT, "verify",
                         "the image is %ux%u, the index says %ux%u", info.width, info.height,
                         item->width, item->height);
    status =
        psti_decode_hash_pixels(decoder, bytes, (size_t)item->nbytes, &info, &options, &hash, err);
    if (status == PST_OK && item->has_pixel_checksum && item->pixel_checksum != hash)
        return psti_fail(err, PST_ERROR_CHECKSUM, "verify",
                         "the decoded pixels do not match their checksum");
    if (status == PST_OK && (info.form == PST_FORM_PLI || info.form == PST_FORM_PLI_JPEG))
        status = check_pli(bytes, (size_t)item->nbytes, hash, err);
    return status;
}

enum pst_status psti_verify_restore(struct psti_pli_keep *jpeg, const void *bytes, size_t nbytes,
                                    struct pst_error *err)
{
    struct psti_pli_header header;
    struct psti_jpeg_frame frame;
    size_t n;
    if (psti_pli_parse_header(bytes, nbytes, &header, NULL) != PST_OK ||
        header.content != PST_PLI_CONTENT_JPEG)
        return PST_OK;
    enum pst_status status = psti_pli_jpeg_frame(bytes, nbytes, &frame, err);
    if (status != PST_OK)
        return status;
    void *file = psti_alloc((size_t)frame.jpeg_nbytes + 1);
    if (file == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "verify", "out of memory for a JPEG of %u bytes",
                         frame.jpeg_nbytes);
    status = psti_pli_keep_restore(jpeg, bytes, nbytes, file, frame.jpeg_nbytes, &n, err);
    psti_free(file);
    return status;
}

struct one {
    const struct psti_verify_context *context;
    struct psti_decoder *decoder;
    struct psti_pli_keep *jpeg;
    struct psti_buffer *blob;
    struct psti_verify_job *job;
    uint64_t sample;
};

/* True if the item's shard was read without a finding, so the item is as the index says. */
static bool known_good(const struct psti_verify_context *context, const struct pst_item *item)
{
    return context->shard_bad != NULL && item->i_file < pst_dataset_n_files(context->dataset) &&
           !context->shard_bad[item->i_file];
}

/* Records the largest item and image of each field. verify.c compares them with the index, because
 * loaders allocate memory by these numbers. */
static void compare_largest(struct psti_verify_job *job, uint32_t i_field,
                            const struct pst_item *item)
{
    uint64_t pixels = (uint64_t)item->height * item->width * item->channels * (item->bits / 8);
    uint64_t kept = psti_dataset_item_kept_nbytes(item);
    uint64_t nbytes = kept > item->nbytes ? kept : item->nbytes;
    if (nbytes > job->largest_item[i_field])
        job->largest_item[i_field] = nbytes;
    if (pixels > job->largest_pixels[i_field])
        job->largest_pixels[i_field] = pixels;
}

/* Compares the labels of an array with the field's classes. */
static enum pst_status check_labels(const struct pst_field *field, const void *bytes,
                                    uint64_t nbytes, struct pst_error *err)
{
    int64_t label;
    uint64_t i = psti_format_find_stranger(field, bytes, nbytes, &label);
    if (i == nbytes / pst_dtype_nbytes(field->dtype))
        return PST_OK;
    return psti_fail(err, PST_ERROR_CORRUPT, "verify",
                     "element %llu of %s, %lld, is outside 0..%lld", (unsigned long long)i,
                     field->name, (long long)label, (long long)field->n_classes - 1);
}

static void check_item(struct one *one, uint32_t i_field, uint32_t variant)
{
    const struct psti_verify_context *context = one->context;
    pst_dataset *dataset = context->dataset;
    enum pst_field_type type = pst_dataset_field(dataset, i_field)->type;
    bool is_image = type == PST_FIELD_IMAGE || type == PST_FIELD_MASK;
    struct pst_error err;
    struct pst_item item = {.i_file = PST_FILE_NONE};
    pst_error_clear(&err);
    enum pst_status status =
        pst_dataset_item(dataset, one->sample, i_field, variant, &item, sizeof item, &err);
    if (status != PST_OK)
        goto out;
    if (item.form == PST_FORM_NONE &&
        (pst_dataset_is_packed(dataset) || item.i_file == PST_FILE_NONE))
        return;
    compare_largest(one->job, i_field, &item);
    one->job->n_items++;
    one->job->nbytes += psti_dataset_item_kept_nbytes(&item);
    psti_dataset_item_decoded(&item);
    bool decode = is_image && context->decode;
    bool hear = type == PST_FIELD_AUDIO && context->decode;
    bool restore = is_image && context->restore &&
                   (item.form == PST_FORM_PLI_JPEG || item.form == PST_FORM_NONE);
    bool is_text = type == PST_FIELD_TEXT || type == PST_FIELD_JSON;
    const struct pst_field *field = pst_dataset_field(dataset, i_field);
    bool has_labels = type == PST_FIELD_ARRAY && field->n_classes > 0;
    if (!decode && !hear && !restore && !is_text && !has_labels && known_good(context, &item))
        return;
    status = psti_buffer_reserve(one->blob, item.nbytes, "verify", "of an item", &err);
    if (status == PST_OK)
        status = pst_dataset_read(dataset, one->sample, i_field, variant, 0, item.nbytes,
                                  one->blob->bytes, &err);
    if (status == PST_OK && decode)
        status = psti_verify_pixels(one->decoder, type, one->blob->bytes, &item, &err);
    if (status == PST_OK && hear)
        status = psti_decode_audio_check(one->blob->bytes, (size_t)item.nbytes, &err);
    if (status == PST_OK && has_labels)
        status = check_labels(field, one->blob->bytes, item.nbytes, &err);
    if (status == PST_OK && restore)
        status = psti_verify_restore(one->jpeg, one->blob->bytes, (size_t)item.nbytes, &err);
out:
    if (status != PST_OK) {
        psti_verify_locate(&err, dataset, one->sample, &item);
        note(one->job, (int64_t)one->sample, &err);
    }
}

static void check_number(struct one *one, uint32_t i_field)
{
    pst_dataset *dataset = one->context->dataset;
    const struct pst_field *field = pst_dataset_field(dataset, i_field);
    struct pst_error err;
    int64_t number = 0;
    double real;
    pst_error_clear(&err);
    enum pst_status status = field->type == PST_FIELD_INT
                                 ? pst_dataset_int(dataset, one->sample, i_field, &number, &err)
                                 : pst_dataset_float(dataset, one->sample, i_field, &real, &err);
    if (status == PST_OK && field->n_classes > 0 && (number < 0 || number >= field->n_classes))
        status = psti_fail(&err, PST_ERROR_CORRUPT, "verify", "%s %lld is outside 0..%lld",
                           field->name, (long long)number, (long long)field->n_classes - 1);
    if (status != PST_OK) {
        psti_verify_locate(&err, dataset, one->sample, NULL);
        note(one->job, (int64_t)one->sample, &err);
    }
}

void psti_verify_samples(const struct psti_verify_context *context, struct psti_decoder *decoder,
                         struct psti_pli_keep *jpeg, struct psti_buffer *blob,
                         struct psti_verify_job *job)
{
    struct one one = {
        .context = context, .decoder = decoder, .jpeg = jpeg, .blob = blob, .job = job};
    for (uint64_t i = 0; i < job->n && job->fatal == PST_OK; i++) {
        struct pst_error err;
        char name[PST_NAME_CAP];
        one.sample = job->first + i;
        if (!has_sample(context, one.sample))
            continue;
        job->n_samples++;
        pst_error_clear(&err);
        if (pst_dataset_sample_name(context->dataset, one.sample, name, &err) != PST_OK) {
            psti_verify_locate(&err, context->dataset, one.sample, NULL);
            note(job, -1, &err);
        }
        for (uint32_t f = 0; f < pst_dataset_n_fields(context->dataset); f++) {
            const struct pst_field *field = pst_dataset_field(context->dataset, f);
            if (field->type == PST_FIELD_INT || field->type == PST_FIELD_FLOAT) {
                check_number(&one, f);
                continue;
            }
            for (uint32_t v = 0; v < field->n_variants; v++)
                check_item(&one, f, v);
        }
    }
}
