/* loader_options.c - completes the caller's options, a struct of any version, to options of this
 * library's version.
 *
 * Fills in defaults and refuses impossible options: single values by the table of members
 * (options/), combinations by the code here. The fields to deliver and their operations are arrays
 * of structs. They are copied, because the caller's structs may have other sizes. */
#include "loader/loader_options.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/options.h"
#include "options/options_members.h"
#include "order/order.h"
#include "share/share.h"

#include <string.h>

enum pst_status psti_loader_check_batch_size(uint32_t batch_size, struct pst_error *err)
{
    if (batch_size <= PSTI_BATCH_SIZE_MAX)
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "batch_size is %u: 1 to %u are possible",
                     batch_size, (unsigned)PSTI_BATCH_SIZE_MAX);
}

static enum pst_status take_numbers(struct pst_loader_options *options, struct pst_error *err)
{
    enum pst_status status =
        psti_options_complete(PST_STRUCT_LOADER_OPTIONS, options, "loader", err);
    if (status != PST_OK)
        return status;
    if (options->no_epoch_padding && options->drop_last)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "no_epoch_padding delivers each sample, drop_last leaves some out: only "
                         "one of them is possible");
    if (options->order == PST_ORDER_PAGES && options->page_samples == 0)
        options->page_samples = PSTI_ORDER_PAGE_SAMPLES;
    if (options->order == PST_ORDER_PAGES && options->window_pages == 0)
        options->window_pages = PSTI_ORDER_WINDOW_PAGES;
    return PST_OK;
}

static enum pst_status take_cache(const struct pst_loader_options *options, struct pst_error *err)
{
    if (options->cache_form && !options->cache && !options->fleet)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "cache_form is given, but no cache or fleet that it is for");
    if (options->cache_resolution && !options->cache)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "cache_resolution is given, but no cache that it is for");
    if (options->cache_resolution && (options->fleet || options->placement == PST_PLACEMENT_DEVICE))
        return psti_fail(
            err, PST_ERROR_ARGUMENT, "loader", "cache_resolution TRAINING is not possible with %s",
            options->fleet ? "a fleet, which has room for no more than the stored bytes"
                           : "batches on a GPU, which decodes whole images");
    if (options->cache_recode) {
        const char *why = !options->cache ? "it needs a cache"
                          : !options->cache_form ? "cache_form is STORED"
                          : options->fleet       ? "a fleet gets items when they are admitted"
                          : options->cache_resolution
                              ? "with cache_resolution TRAINING the row is made of the picture"
                          : options->num_workers == 0 ? "no worker has idle time: num_workers is 0"
                                                      : NULL;
        if (why)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "cache_recode IDLE is not possible: %s", why);
    }
    if ((options->cache_plan || options->n_cache_plan) && !options->cache)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "cache_plan is given, but no cache that it is for");
    return PST_OK;
}

static enum pst_status take_placement(const struct pst_loader_options *options,
                                      struct pst_error *err)
{
    bool on_gpu = options->placement == PST_PLACEMENT_DEVICE;
    if (options->device < (on_gpu ? 0 : -1) || (!on_gpu && options->device > 0))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "device %d is not possible with placement %d", options->device,
                         (int)options->placement);
    if (!on_gpu && (options->decode == PST_DECODE_GPU || options->device_memory))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "decode GPU and device_memory need batches on a GPU (placement)");
    if (options->pin_memory && on_gpu)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "pin_memory %d is not possible: it is for batches in host memory, and "
                         "these lie on a GPU (placement)",
                         (int)options->pin_memory);
    return PST_OK;
}

static enum pst_status take_share(const struct pst_loader_options *options, struct pst_error *err)
{
    if (!options->share)
        return PST_OK;
    size_t n = strlen(options->share);
    if (n == 0 || n >= PSTI_GROUP_NAME_CAP)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "share is a name of 1 to %d bytes; this one has %zu",
                         PSTI_GROUP_NAME_CAP - 1, n);
    if (options->socket && strlen(options->socket) >= PSTI_SOCKET_PATH_CAP)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the path of a socket has at most %d bytes", PSTI_SOCKET_PATH_CAP - 1);
    if (options->n_form_parts)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "share is not possible with form_parts: a group reads each item in one "
                         "form");
    if (options->decode == PST_DECODE_GPU)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "share is not possible with decode GPU: CPUs prepare shared batches, and "
                         "each job only brings them to its GPU");
    return PST_OK;
}

/* Counts the operations of all fields. The caller's structs have the size field_nbytes. */
static enum pst_status count_ops(const struct pst_loader_options *options, size_t *n,
                                 size_t *n_audio, struct pst_error *err)
{
    *n = *n_audio = 0;
    for (size_t i = 0; i < options->n_fields; i++) {
        struct pst_field_output field;
        enum pst_status status = psti_struct_read(
            &field, sizeof field, (const char *)options->fields + i * options->field_nbytes,
            options->field_nbytes, "field_nbytes", "loader", err);
        if (status != PST_OK)
            return status;
        if ((field.n_ops && !field.ops) || !psti_add_size(*n, field.n_ops, n) ||
            (field.n_audio_ops && !field.audio_ops) ||
            !psti_add_size(*n_audio, field.n_audio_ops, n_audio))
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "fields[%zu] has %zu operations at %s, %zu of audio at %s", i,
                             field.n_ops, field.ops ? "an address" : "NULL", field.n_audio_ops,
                             field.audio_ops ? "an address" : "NULL");
    }
    return PST_OK;
}

/* Checks that each copied operation with classes has a table of labels. */
static enum pst_status check_labels(const struct pst_op *ops, size_t n_ops, struct pst_error *err)
{
    for (size_t i = 0; i < n_ops; i++)
        if (ops[i].n_labels > PST_MAX_LABELS || (ops[i].n_labels > 0 && !ops[i].labels))
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "an operation has %u labels at %s; 0 to %u are possible",
                             ops[i].n_labels, ops[i].labels ? "an address" : "NULL",
                             PST_MAX_LABELS);
    return PST_OK;
}

/* Returns the bytes of all texts and tables that fields and operations point to. */
static size_t pointed_nbytes(const struct pst_loader_options *options, const struct pst_op *ops,
                             size_t n_ops)
{
    size_t nbytes = 0;
    for (size_t i = 0; i < options->n_fields; i++) {
        const struct pst_field_output *field = &options->fields[i];
        const char *texts[3] = {field->name, field->as, field->per_box_of};
        for (int k = 0; k < 3; k++)
            nbytes += texts[k] ? strlen(texts[k]) + 1 : 0;
    }
    for (size_t i = 0; i < n_ops; i++)
        nbytes += ops[i].n_labels * sizeof *ops[i].labels;
    return nbytes;
}

static const char *copy_text(const char *text, char **at)
{
    if (!text)
        return NULL;
    size_t n = strlen(text) + 1;
    char *copy = memcpy(*at, text, n);
    *at += n;
    return copy;
}

/* Replaces the block of nbytes bytes by a larger one, with the texts and tables of fields and
 * operations behind the structs. */
static enum pst_status take_pointed(struct pst_loader_options *options, void **block, size_t nbytes,
                                    size_t n_ops, struct pst_error *err)
{
    char *from = *block;
    struct pst_op *ops =
        (struct pst_op *)(void *)((struct pst_field_output *)*block + options->n_fields);
    char *whole = psti_alloc(nbytes + pointed_nbytes(options, ops, n_ops) + 1), *at;
    if (!whole)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for %zu fields",
                         options->n_fields);
    struct pst_field_output *fields = memcpy(whole, from, nbytes);
    ops = (struct pst_op *)(void *)(fields + options->n_fields);
    at = whole + nbytes;
    for (size_t i = 0; i < n_ops; i++) { /* tables first, because they need alignment */
        size_t n = ops[i].n_labels * sizeof *ops[i].labels;
        if (n)
            ops[i].labels = memcpy(at, ops[i].labels, n);
        at += n;
    }
    for (size_t i = 0; i < options->n_fields; i++) {
        struct pst_field_output *field = &fields[i];
        field->ops = (const void *)(whole + ((const char *)field->ops - from));
        field->audio_ops = (const void *)(whole + ((const char *)field->audio_ops - from));
        field->name = copy_text(field->name, &at);
        field->as = copy_text(field->as, &at);
        field->per_box_of = copy_text(field->per_box_of, &at);
    }
    psti_free(from);
    *block = whole;
    options->fields = fields;
    return PST_OK;
}

/* Replaces options->fields by a copy in one block. The caller frees *block. */
static enum pst_status take_fields(struct pst_loader_options *options, void **block,
                                   struct pst_error *err)
{
    size_t n_ops, n_audio, nbytes, ops_nbytes, audio_nbytes;
    if (options->n_fields == 0)
        return PST_OK;
    if (!options->fields)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "n_fields is %zu, fields is NULL",
                         options->n_fields);
    enum pst_status status = count_ops(options, &n_ops, &n_audio, err);
    if (status != PST_OK)
        return status;
    if (!psti_mul_size(options->n_fields, sizeof(struct pst_field_output), &nbytes) ||
        !psti_mul_size(n_ops, sizeof(struct pst_op), &ops_nbytes) ||
        !psti_mul_size(n_audio, sizeof(struct pst_audio_op), &audio_nbytes) ||
        !psti_add_size(nbytes, ops_nbytes, &nbytes) ||
        !psti_add_size(nbytes, audio_nbytes, &nbytes) || !(*block = psti_alloc(nbytes)))
        return psti_fail(err, PST_ERROR_MEMORY, "loader",
                         "no memory for %zu fields, %zu operations", options->n_fields, n_ops);
    struct pst_field_output *fields = *block;
    struct pst_op *ops = (struct pst_op *)(void *)(fields + options->n_fields);
    struct pst_audio_op *audio = (struct pst_audio_op *)(void *)(ops + n_ops);
    for (size_t i = 0; i < options->n_fields; i++) {
        (void)psti_struct_read(&fields[i], sizeof fields[i],
                               (const char *)options->fields + i * options->field_nbytes,
                               options->field_nbytes, "field_nbytes", "loader", NULL);
        const char *from = (const char *)fields[i].ops;
        fields[i].ops = ops;
        for (size_t k = 0; k < fields[i].n_ops; k++) {
            status = psti_struct_read(ops++, sizeof *ops, from + k * options->op_nbytes,
                                      options->op_nbytes, "op_nbytes", "loader", err);
            if (status != PST_OK)
                return status;
        }
        from = (const char *)fields[i].audio_ops;
        fields[i].audio_ops = audio;
        for (size_t k = 0; k < fields[i].n_audio_ops; k++) {
            status = psti_struct_read(audio++, sizeof *audio, from + k * options->audio_op_nbytes,
                                      options->audio_op_nbytes, "audio_op_nbytes", "loader", err);
            if (status != PST_OK)
                return status;
        }
    }
    options->fields = fields;
    status = check_labels(ops - n_ops, n_ops, err);
    return status == PST_OK ? take_pointed(options, block, nbytes, n_ops, err) : status;
}

enum pst_status psti_loader_take_options(const struct pst_loader_options *given,
                                         struct pst_loader_options *options, void **fields,
                                         struct pst_error *err)
{
    enum pst_status status = psti_options_copy(options, sizeof *options, given, "loader", err);
    if (status == PST_OK)
        status = take_numbers(options, err);
    if (status == PST_OK)
        status = take_placement(options, err);
    if (status == PST_OK)
        status = take_cache(options, err);
    if (status == PST_OK)
        status = take_share(options, err);
    if (status == PST_OK)
        status = take_fields(options, fields, err);
    return status;
}
