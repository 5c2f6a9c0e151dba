/* writer.c - the main functions of a writer: add samples to shards, commit, finish, close.
 *
 * One thread at a time. The disk is always in one of three states (docs/format-dataset.md, section
 * 6). Absent: no index, no journal. Resumable: a journal. Whole: an index. A journal beside an
 * index belongs to an unfinished append, or was already merged into the index; its generation tells
 * which. Files are written in this order: shards, journal with its commit record, index. Each is
 * durable before the next one refers to it. After a failed write the writer is FAILED: only close
 * is allowed, and the last commit counts. */
#include "writer/writer_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"

#include <string.h>
#include <unistd.h>

enum { SHARD_BUFFER_NBYTES = 4 << 20, RAW_ALIGNMENT = 64, ITEM_ALIGNMENT = 8 };

/* Adds the data set to an error, and the sample if it is known. */
static enum pst_status complete(const pst_writer *writer, enum pst_status status,
                                struct pst_error *err)
{
    psti_error_set_dataset(err, writer->path);
    return status;
}

uint32_t pst_writer_n_fields(const pst_writer *writer) { return writer->n_fields; }

const struct pst_field *pst_writer_field(const pst_writer *writer, uint32_t i_field)
{
    return i_field < writer->n_fields ? &writer->fields[i_field] : NULL;
}

uint64_t pst_writer_count(const pst_writer *writer) { return writer->n_samples; }

bool pst_writer_has(const pst_writer *writer, const char *name)
{
    return psti_writer_names_has(&writer->names, name, strlen(name));
}

/* Add ----------------------------------------------------------------------- */

static enum pst_status check_usable(pst_writer *writer, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (writer->pid != getpid())
        status = psti_fail(err, PST_ERROR_FORKED, "writer",
                           "the writer was opened by the parent of this process");
    else if (writer->state == PSTI_WRITER_FINISHED)
        status = psti_fail(err, PST_ERROR_STATE, "writer", "the data set is finished");
    else if (writer->state == PSTI_WRITER_FAILED)
        status = psti_fail(err, PST_ERROR_STATE, "writer",
                           "an earlier write failed: close the writer and resume");
    return status == PST_OK ? PST_OK : complete(writer, status, err);
}

/* Makes the shard durable now, so that a commit must sync at most one shard. */
enum pst_status psti_writer_leave_shard(pst_writer *writer, struct pst_error *err)
{
    if (writer->shard.fd < 0)
        return PST_OK;
    enum pst_status status = psti_output_sync(&writer->shard, err);
    psti_output_close(&writer->shard);
    return status;
}

/* Sets writer->shard to a shard for `nbytes` more: the last shard if they fit, else a new one. */
static enum pst_status ready_shard(pst_writer *writer, uint64_t nbytes, struct pst_error *err)
{
    uint8_t bytes[PSTI_SHARD_HEADER_NBYTES];
    uint32_t last = writer->n_shards - 1; /* only used if there is a shard */
    bool fits = writer->n_shards > 0 && !writer->last_is_linked &&
                (writer->shards[last].nbytes <= PSTI_SHARD_HEADER_NBYTES ||
                 writer->shards[last].nbytes + nbytes <= writer->shard_nbytes);
    if (fits && writer->shard.fd >= 0)
        return PST_OK;
    if (fits) {
        return psti_writer_file_open(&writer->shard, &writer->dir, writer->shards[last].name, false,
                                     writer->shards[last].nbytes, SHARD_BUFFER_NBYTES, err);
    }
    enum pst_status status = psti_writer_leave_shard(writer, err);
    if (status != PST_OK)
        return status;
    struct psti_shard_header header = {.number = writer->n_shards};
    memcpy(header.id, writer->id, 16);
    if (!psti_writer_push_shard(writer, PSTI_SHARD_HEADER_NBYTES, 0))
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for the list of shards");
    psti_format_print_shard_header(&header, bytes);
    writer->shards[header.number].header_checksum = header.checksum;
    writer->directory_changed = true;
    writer->last_is_linked = false;
    status = psti_writer_file_open(&writer->shard, &writer->dir, writer->shards[header.number].name,
                                   true, 0, SHARD_BUFFER_NBYTES, err);
    return status == PST_OK ? psti_output_append(&writer->shard, bytes, sizeof bytes, err) : status;
}

static enum pst_status put_item(pst_writer *writer, uint32_t i_field, uint8_t variant,
                                const void *bytes, struct pst_error *err)
{
    static const uint8_t zeros[RAW_ALIGNMENT] = {0};
    struct pst_item *item = &writer->items[i_field][variant];
    struct psti_writer_shard *shard = &writer->shards[writer->n_shards - 1];
    struct psti_record record = {.i_field = (uint16_t)i_field,
                                 .variant = variant,
                                 .form = (uint8_t)item->form,
                                 .sample = writer->first_sample + writer->n_samples,
                                 .nbytes = item->nbytes,
                                 .checksum = item->checksum};
    uint8_t head[PSTI_RECORD_NBYTES];
    psti_format_place_record(shard->nbytes,
                             item->form == PST_FORM_RAW ? RAW_ALIGNMENT : ITEM_ALIGNMENT, &record);
    psti_format_print_record(&record, head);
    size_t before = record.data_offset - sizeof head;
    size_t after = (size_t)((8 - item->nbytes % 8) % 8);
    enum pst_status status = psti_output_append(&writer->shard, head, sizeof head, err);
    if (status == PST_OK)
        status = psti_output_append(&writer->shard, zeros, before, err);
    if (status == PST_OK)
        status = psti_output_append(&writer->shard, bytes, (size_t)item->nbytes, err);
    if (status == PST_OK)
        status = psti_output_append(&writer->shard, zeros, after, err);
    item->i_file = writer->n_shards - 1;
    item->offset = shard->nbytes + record.data_offset;
    shard->nbytes = item->offset + item->nbytes + after;
    shard->n_items++;
    return status;
}

static enum pst_status put_items(pst_writer *writer, const struct pst_sample *sample,
                                 uint64_t nbytes, struct pst_error *err)
{
    if (nbytes == 0)
        return PST_OK; /* the sample has only numbers, which need no shard */
    enum pst_status status = ready_shard(writer, nbytes, err);
    if (status == PST_OK && writer->n_shards - 1 < writer->first_changed)
        writer->first_changed = writer->n_shards - 1;
    for (uint32_t i = 0; i < writer->n_fields && status == PST_OK; i++)
        for (uint8_t v = 0; v < writer->fields[i].n_variants && status == PST_OK; v++)
            if (writer->items[i][v].form != PST_FORM_NONE)
                status = put_item(writer, i, v, sample->values[i][v].bytes, err);
    return status;
}

enum pst_status psti_writer_put_journal(pst_writer *writer, const struct pst_sample *sample,
                                        size_t name_nbytes, struct pst_error *err)
{
    uint8_t *row = writer->body + PSTI_JOURNAL_SAMPLE_NBYTES;
    psti_format_print_journal_sample_head(writer->n_samples, (uint32_t)name_nbytes, writer->body);
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        const struct pst_field *field = &writer->fields[i];
        if (!psti_format_has_items(field->type))
            memcpy(row, sample->values[i][0].bytes, 8);
        else
            for (uint32_t v = 0; v < field->n_variants; v++)
                psti_format_print_item(field->type, &writer->items[i][v],
                                       row + (size_t)v * PSTI_ITEM_NBYTES);
        row += psti_format_row_nbytes(field);
    }
    memcpy(row, sample->name, name_nbytes + 1);
    return psti_writer_journal_append(
        writer, PSTI_JOURNAL_SAMPLE, writer->body,
        PSTI_JOURNAL_SAMPLE_NBYTES + writer->rows_nbytes + name_nbytes + 1, err);
}

enum pst_status pst_writer_add(pst_writer *writer, const struct pst_sample *given,
                               struct pst_error *err)
{
    struct pst_sample full;
    const struct pst_sample *sample = &full;
    uint64_t nbytes;
    enum pst_status status = check_usable(writer, err);
    if (status != PST_OK)
        return status;
    status = psti_writer_take_sample(writer, given, &full, err);
    if (status == PST_OK)
        status = psti_writer_check_sample(writer, sample, &nbytes, err);
    size_t name_nbytes = status == PST_OK ? strlen(sample->name) : 0;
    /* Allocates all memory first, so that running out of memory changes nothing. */
    if (status == PST_OK &&
        (!psti_writer_names_reserve(&writer->names) ||
         !psti_writer_body_reserve(writer, PSTI_JOURNAL_SAMPLE_NBYTES + writer->rows_nbytes +
                                               name_nbytes + 1)))
        status = psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory to add a sample");
    if (status != PST_OK) {
        if (err != NULL)
            err->sample = (int64_t)writer->n_samples;
        return complete(writer, status, err);
    }
    status = put_items(writer, sample, nbytes, err);
    if (status == PST_OK)
        status = psti_writer_put_journal(writer, sample, name_nbytes, err);
    if (status != PST_OK)
        return psti_writer_give_up(writer, status, err);
    psti_writer_names_add(&writer->names, sample->name, name_nbytes);
    for (uint32_t i = 0; i < writer->n_fields; i++)
        for (uint32_t v = 0; v < writer->fields[i].n_variants; v++)
            psti_writer_count_item(writer, i, &writer->items[i][v]);
    writer->names_nbytes += name_nbytes + 1;
    writer->n_samples++;
    writer->index_changed = true;
    writer->uncommitted_nbytes += nbytes + writer->rows_nbytes + name_nbytes;
    return writer->uncommitted_nbytes >= writer->commit_nbytes ? pst_writer_commit(writer, err)
                                                               : PST_OK;
}

/* Commit, finish, close ----------------------------------------------------- */

enum pst_status pst_writer_commit(pst_writer *writer, struct pst_error *err)
{
    enum pst_status status = check_usable(writer, err);
    if (status != PST_OK)
        return status;
    if (writer->n_samples == writer->n_committed && !writer->classes_changed)
        return PST_OK;
    if (writer->shard.fd >= 0)
        status = psti_output_sync(&writer->shard, err);
    if (status == PST_OK && writer->directory_changed)
        status = psti_writer_sync_directory(&writer->dir, err);
    if (status == PST_OK)
        status = psti_writer_journal_commit(writer, err);
    if (status != PST_OK)
        return psti_writer_give_up(writer, status, err);
    writer->directory_changed = false;
    writer->classes_changed = false;
    writer->n_committed = writer->n_samples;
    writer->first_changed = writer->n_shards;
    writer->uncommitted_nbytes = 0;
    return PST_OK;
}

/* Checks that the first names equal those of the field's existing classes, if these have names. */
static enum pst_status check_known_names(const pst_writer *writer, uint32_t i_field,
                                         const char *const *names, struct pst_error *err)
{
    const char *held = writer->classes[i_field].text;
    for (int64_t i = 0; held != NULL && i < writer->fields[i_field].n_classes; i++) {
        if (names[i] == NULL || strcmp(names[i], held) != 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                             "class %lld of field \"%s\" is \"%s\": new classes come behind those "
                             "that the data set has",
                             (long long)i, writer->fields[i_field].name, held);
        held += strlen(held) + 1;
    }
    return PST_OK;
}

static enum pst_status check_class_names(const pst_writer *writer, uint32_t i_field,
                                         const char *const *names, size_t n_names, size_t *nbytes,
                                         struct pst_error *err)
{
    int64_t n_classes = i_field < writer->n_fields ? writer->fields[i_field].n_classes : 0;
    bool adds = writer->base != NULL && n_classes > 0 && n_names > (uint64_t)n_classes &&
                writer->fields[i_field].type != PST_FIELD_KEYPOINTS;
    if (n_classes == 0 || n_names > INT32_MAX || (!adds && (uint64_t)n_classes != n_names))
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "class names belong to a field with classes and are as many as these, or "
                         "more where a data set is appended to");
    enum pst_status status = adds ? check_known_names(writer, i_field, names, err) : PST_OK;
    if (status != PST_OK)
        return status;
    *nbytes = 0;
    for (size_t i = 0; i < n_names; i++) {
        size_t length = names[i] != NULL ? strnlen(names[i], PSTI_NAME_LIMIT) : 0;
        const char *problem = psti_format_name_problem(names[i] != NULL ? names[i] : "", length);
        if (problem != NULL)
            return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                             "the name of class %zu of field \"%s\" %s", i,
                             writer->fields[i_field].name, problem);
        *nbytes += length + 1;
    }
    return PST_OK;
}

enum pst_status pst_writer_set_class_names(pst_writer *writer, uint32_t i_field,
                                           const char *const *names, size_t n_names,
                                           struct pst_error *err)
{
    size_t nbytes = 0, at = 8;
    enum pst_status status = check_usable(writer, err);
    if (status != PST_OK)
        return status;
    status = check_class_names(writer, i_field, names, n_names, &nbytes, err);
    if (status != PST_OK)
        return complete(writer, status, err);
    char *text = psti_alloc(nbytes);
    if (text == NULL || !psti_writer_body_reserve(writer, nbytes + 8)) {
        psti_free(text);
        return complete(
            writer, psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for class names"), err);
    }
    psti_store_u32(writer->body, i_field);
    psti_store_u32(writer->body + 4, 0);
    for (size_t i = 0; i < n_names; i++) {
        size_t length = strlen(names[i]) + 1;
        memcpy(writer->body + at, names[i], length);
        at += length;
    }
    memcpy(text, writer->body + 8, nbytes);
    struct psti_writer_classes *classes = &writer->classes[i_field];
    bool same = classes->nbytes == nbytes && memcmp(classes->text, text, nbytes) == 0;
    psti_free(same ? text : classes->text);
    if (same)
        return PST_OK; /* a resumed job sets the same names again */
    *classes = (struct psti_writer_classes){text, nbytes};
    writer->fields[i_field].n_classes = (int64_t)n_names;
    status =
        psti_writer_journal_append(writer, PSTI_JOURNAL_CLASSES, writer->body, nbytes + 8, err);
    writer->classes_changed = true;
    writer->index_changed = true;
    return status == PST_OK ? PST_OK : psti_writer_give_up(writer, status, err);
}

enum pst_status pst_writer_set_point_pairs(pst_writer *writer, uint32_t i_field,
                                           const uint32_t *pairs, size_t n_pairs,
                                           struct pst_error *err)
{
    bool is_new = false;
    enum pst_status status = check_usable(writer, err);
    if (status != PST_OK)
        return status;
    uint64_t stated = i_field < writer->n_fields ? writer->fields[i_field].n_pairs_plus_1 : 0;
    if (stated == 0 || stated - 1 != n_pairs || (n_pairs > 0 && pairs == NULL))
        return complete(writer,
                        psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                                  "pairs of points belong to a field of keypoints, and are as many "
                                  "as it states (n_pairs_plus_1)"),
                        err);
    if (n_pairs == 0)
        return PST_OK;
    if (!psti_writer_body_reserve(writer, 8 + 8 * n_pairs))
        return complete(writer,
                        psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for pairs of points"),
                        err);
    const uint32_t *held = writer->pairs[i_field];
    if (writer->base != NULL && held != NULL && memcmp(held, pairs, 8 * n_pairs) != 0)
        return complete(writer,
                        psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                                  "field \"%s\" has other pairs of points in the data set",
                                  writer->fields[i_field].name),
                        err);
    status = psti_writer_keep_pairs(writer, i_field, pairs, &is_new, err);
    if (status != PST_OK || !is_new) /* a resumed job sets the same pairs again */
        return status == PST_OK ? status : complete(writer, status, err);
    psti_store_u32(writer->body, i_field);
    psti_store_u32(writer->body + 4, 0);
    size_t nbytes = 8 + psti_writer_print_pairs(writer, i_field, writer->body + 8);
    status = psti_writer_journal_append(writer, PSTI_JOURNAL_PAIRS, writer->body, nbytes, err);
    writer->classes_changed = true;
    writer->index_changed = true;
    return status == PST_OK ? PST_OK : psti_writer_give_up(writer, status, err);
}

const uint32_t *psti_writer_point_pairs(const pst_writer *writer, uint32_t i_field)
{
    return writer->pairs[i_field];
}

enum pst_status pst_writer_finish(pst_writer *writer, struct pst_error *err)
{
    enum pst_status status = pst_writer_commit(writer, err);
    if (status != PST_OK)
        return status;
    if (writer->rewrites)
        writer->index_changed = psti_writer_rewrite_n_adopted(writer) < writer->n_shards;
    if (writer->base != NULL && writer->index_changed)
        status = psti_writer_keep_old_index(writer, err);
    if (status == PST_OK && (writer->base == NULL || writer->index_changed))
        status = psti_writer_write_index(writer, err);
    if (status == PST_OK)
        status = psti_writer_unlink(&writer->dir, writer->journal_name, err);
    if (status != PST_OK)
        return psti_writer_give_up(writer, status, err);
    writer->state = PSTI_WRITER_FINISHED;
    if (writer->base != NULL)
        psti_writer_drop_old(writer);
    return PST_OK;
}

/* Removes a data set without samples: first the shards that a failed first write left, then the
 * journal. Until the journal is gone, the data set can be resumed. */
static void leave_nothing(pst_writer *writer)
{
    psti_output_close(&writer->shard);
    for (uint32_t i = 0; i < writer->n_shards; i++)
        if (psti_writer_unlink(&writer->dir, writer->shards[i].name, NULL) != PST_OK)
            return;
    if (writer->n_shards > 0 && psti_writer_sync_directory(&writer->dir, NULL) != PST_OK)
        return;
    if (psti_writer_unlink(&writer->dir, PSTI_JOURNAL_NAME, NULL) == PST_OK)
        psti_writer_undo_directory(writer);
}

void pst_writer_close(pst_writer **writer)
{
    pst_writer *closed = writer != NULL ? *writer : NULL;
    if (closed == NULL)
        return;
    *writer = NULL;
    if (closed->pid != getpid() || closed->state == PSTI_WRITER_FINISHED) {
        /* Nothing to do: this is a forked child, whose files belong to the parent, or the writer
         * has finished. */
    } else if (closed->rewrites &&
               (closed->state == PSTI_WRITER_FAILED || closed->n_samples == 0)) {
        psti_writer_abandon(closed);
    } else if (closed->base == NULL && closed->n_samples == 0) {
        leave_nothing(closed);
    } else if (closed->state == PSTI_WRITER_OPEN) {
        enum pst_status status = pst_writer_commit(closed, NULL);
        /* An append that added nothing leaves the data set whole, so its journal is removed. */
        if (status == PST_OK && closed->base != NULL && !closed->index_changed)
            status = psti_writer_unlink(&closed->dir, PSTI_JOURNAL_NAME, NULL);
    }
    psti_writer_destroy(closed);
}

bool psti_writer_is_committed(const pst_writer *writer)
{
    return writer->n_committed == writer->n_samples;
}

const char *psti_writer_path(const pst_writer *writer) { return writer->path; }

const char *psti_writer_class_names(const pst_writer *writer, uint32_t i_field)
{
    return writer->classes[i_field].text;
}
