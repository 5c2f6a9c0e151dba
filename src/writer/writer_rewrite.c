/* writer_rewrite.c - changes a finished data set in place (writer.h).
 *
 * One thread. The new state is written like a new data set, with a journal named repack.pst, into
 * shards whose names contain the new generation. Nothing of the old state is changed before the new
 * index is in place. A crash leaves either the old state with a journal, or the new state with
 * files that no index names. The next writer completes the former or removes the latter
 * (writer_leftovers.c). */
#include "writer/writer_int.h"

#include "base/fail.h"
#include "dataset/dataset.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* Open ---------------------------------------------------------------------- */

/* Checks that the new schema differs from the old one in n_variants only, and uses it. */
static enum pst_status take_schema(pst_writer *writer, const struct pst_field *fields,
                                   uint32_t n_fields, struct pst_error *err)
{
    bool same = n_fields == pst_dataset_n_fields(writer->base);
    for (uint32_t i = 0; same && i < n_fields; i++) {
        struct pst_field old = *pst_dataset_field(writer->base, i);
        uint8_t ours[PSTI_INDEX_FIELD_NBYTES], theirs[PSTI_INDEX_FIELD_NBYTES];
        old.n_variants = fields[i].n_variants;
        psti_format_print_field(&old, ours);
        psti_format_print_field(&fields[i], theirs);
        same = memcmp(ours, theirs, sizeof ours) == 0;
    }
    if (!same)
        return psti_fail(err, PST_ERROR_INTERNAL, "writer",
                         "a change in place keeps the fields of the data set");
    memcpy(writer->fields, fields, n_fields * sizeof *fields);
    writer->n_fields = n_fields;
    writer->rows_nbytes = psti_format_rows_nbytes(fields, n_fields);
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < n_fields; i++)
        status = psti_writer_load_base_classes(writer, i, err);
    for (uint32_t i = 0; status == PST_OK && i < n_fields; i++)
        status = psti_writer_load_base_pairs(writer, i, err);
    return status;
}

/* True if the journal belongs to this change and to this state of the data set. */
static bool goes_on(const pst_writer *writer, const struct psti_journal_header *header,
                    const struct pst_field fields[PST_MAX_FIELDS])
{
    bool same = memcmp(header->id, writer->id, sizeof header->id) == 0 &&
                header->base_generation == writer->base_generation && header->base_n_samples == 0 &&
                header->mark == writer->mark && header->n_fields == writer->n_fields;
    for (uint32_t i = 0; same && i < writer->n_fields; i++) {
        uint8_t ours[PSTI_INDEX_FIELD_NBYTES], theirs[PSTI_INDEX_FIELD_NBYTES];
        psti_format_print_field(&writer->fields[i], ours);
        psti_format_print_field(&fields[i], theirs);
        same = memcmp(ours, theirs, sizeof ours) == 0;
    }
    return same;
}

/* Sets the names of the committed shards to those of the files that they were written to. */
static enum pst_status name_shards(pst_writer *writer, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < writer->n_shards; i++) {
        struct psti_index_shard old = {.nbytes = 0};
        if (psti_writer_exists(&writer->dir, writer->shards[i].name))
            continue;
        status = psti_dataset_shard(writer->base, i, &old, err);
        memcpy(writer->shards[i].name, old.name, sizeof old.name);
    }
    return status;
}

/* Restores the state of the journal's last commit. */
static enum pst_status go_on(pst_writer *writer, struct pst_error *err)
{
    enum pst_status status = psti_writer_load_journal(writer, err);
    if (status == PST_OK)
        status = name_shards(writer, err);
    writer->first_changed = writer->n_shards;
    if (status == PST_OK)
        status = psti_writer_check_shards(writer, 0, err);
    if (status == PST_OK)
        status = psti_writer_check_records(writer, err);
    uint32_t last = writer->n_shards - 1;
    writer->last_is_linked = writer->n_shards == 0 || psti_writer_is_adopted(writer, last);
    if (status == PST_OK && !writer->last_is_linked) {
        struct stat st;
        const struct psti_writer_shard *shard = &writer->shards[last];
        if (fstatat(writer->dir.fd, shard->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            (uint64_t)st.st_size > shard->nbytes)
            status = psti_writer_truncate(&writer->dir, shard->name, shard->nbytes, err);
    }
    writer->differs = true; /* whether earlier samples differ is not known any more */
    if (status == PST_OK)
        status = psti_writer_sync_directory(&writer->dir, err);
    return status == PST_OK ? psti_writer_reopen_journal(writer, err) : status;
}

/* Starts a change or continues an unfinished one. *again: the journal was unusable and removed, so
 * the caller must call this again. */
static enum pst_status begin(pst_writer *writer, bool *again, struct pst_error *err)
{
    struct pst_field fields[PST_MAX_FIELDS];
    struct psti_journal_header header = {0};
    bool has = psti_writer_exists(&writer->dir, PSTI_REPACK_NAME);
    /* A journal whose header cannot be read is not needed. */
    has = has && psti_writer_read_journal_header(&writer->dir, PSTI_REPACK_NAME, &header, fields,
                                                 NULL) == PST_OK;
    has = has && goes_on(writer, &header, fields);
    enum pst_status status = PST_OK;
    if (has) {
        status = go_on(writer, err);
        *again = (status == PST_ERROR_CORRUPT || status == PST_ERROR_CHECKSUM ||
                  status == PST_ERROR_TRUNCATED || status == PST_ERROR_NOT_FOUND) &&
                 psti_writer_unlink(&writer->dir, PSTI_REPACK_NAME, NULL) == PST_OK;
    } else
        status = psti_writer_unlink(&writer->dir, PSTI_REPACK_NAME, err);
    if (status == PST_OK)
        status = psti_writer_tidy(writer, writer->base, (uint32_t)writer->base_generation + 1,
                                  has ? writer->n_shards : 0, err);
    if (status == PST_OK && !has) {
        status = psti_writer_journal_create(writer, err);
        writer->last_is_linked = true;
    }
    return status;
}

static enum pst_status open_locked(pst_writer *writer, const struct pst_field *fields,
                                   uint32_t n_fields, const uint8_t *identity, bool *done,
                                   bool *again, struct pst_error *err)
{
    struct pst_field held[PST_MAX_FIELDS];
    uint32_t n_held;
    bool has_append = psti_writer_exists(&writer->dir, PSTI_JOURNAL_NAME);
    enum pst_status status = psti_writer_check_whole(writer, err);
    if (status == PST_OK)
        status = psti_writer_open_base(writer, err);
    if (status == PST_OK && has_append)
        status = psti_writer_open_journal(writer, held, &n_held, &has_append, err);
    if (status == PST_OK && has_append)
        status = psti_fail(err, PST_ERROR_INCOMPLETE, "writer",
                           "an append was interrupted: resume it before the data set is changed");
    if (status != PST_OK)
        return status;
    writer->base_n_samples = 0;
    if (psti_dataset_mark(writer->base) == writer->mark) {
        *done = true;
        status = psti_writer_sync_directory(&writer->dir, err);
        if (status == PST_OK)
            status = psti_writer_unlink(&writer->dir, PSTI_REPACK_NAME, err);
        return status == PST_OK ? psti_writer_tidy(writer, writer->base, 0, 0, err) : status;
    }
    if (memcmp(identity, psti_dataset_bytes_identity(writer->base), PST_IDENTITY_NBYTES) != 0)
        return psti_fail(err, PST_ERROR_BUSY, "writer",
                         "another writer changed the data set just now: try again");
    status = take_schema(writer, fields, n_fields, err);
    return status == PST_OK ? begin(writer, again, err) : status;
}

static enum pst_status try_open(const char *path, const struct pst_field *fields, uint32_t n_fields,
                                uint64_t mark, const uint8_t *identity,
                                const struct pst_writer_options *options, bool *done, bool *again,
                                pst_writer **out, struct pst_error *err)
{
    pst_writer *writer = NULL;
    *out = NULL;
    *done = *again = false;
    enum pst_status status = psti_writer_new(path, options, &writer, err);
    if (status == PST_OK) {
        writer->rewrites = true;
        writer->mark = mark;
        writer->shard_nbytes = INT64_MAX / 2; /* no shard ends by its size */
        writer->journal_name = PSTI_REPACK_NAME;
        writer->journal_tmp_name = PSTI_REPACK_TMP_NAME;
        status = psti_writer_enter(writer, PST_WRITER_APPEND, err);
    }
    if (status == PST_OK)
        status = open_locked(writer, fields, n_fields, identity, done, again, err);
    if (status == PST_OK && !*done) {
        *out = writer;
        return PST_OK;
    }
    if (status != PST_OK)
        psti_error_set_dataset(err, path);
    if (status != PST_OK && writer != NULL && writer->lock_fd >= 0)
        (void)!psti_writer_unlink(&writer->dir, PSTI_REPACK_TMP_NAME, NULL);
    if (writer != NULL)
        psti_writer_destroy(writer);
    return status;
}

enum pst_status psti_writer_rewrite_open(const char *path, const struct pst_field *fields,
                                         uint32_t n_fields, uint64_t mark, const uint8_t *identity,
                                         const struct pst_writer_options *options, bool *done,
                                         pst_writer **out, struct pst_error *err)
{
    bool again;
    enum pst_status status =
        try_open(path, fields, n_fields, mark, identity, options, done, &again, out, err);
    if (again) {
        pst_error_clear(err);
        status = try_open(path, fields, n_fields, mark, identity, options, done, &again, out, err);
    }
    return status;
}

/* Shards -------------------------------------------------------------------- */

bool psti_writer_rewrite_is_adopting(const pst_writer *writer)
{
    struct psti_index_shard old = {.nbytes = 0};
    uint32_t last = writer->n_shards - 1;
    return writer->n_shards > 0 && psti_writer_is_adopted(writer, last) &&
           psti_dataset_shard(writer->base, last, &old, NULL) == PST_OK &&
           writer->shards[last].n_items < old.n_items;
}

enum pst_status psti_writer_begin_shard(pst_writer *writer, struct pst_error *err)
{
    enum pst_status status = psti_writer_leave_shard(writer, err);
    writer->last_is_linked = true; /* makes the next item begin a new shard */
    writer->differs = false;
    return status == PST_OK ? PST_OK : psti_writer_give_up(writer, status, err);
}

/* True if the sample's items differ from those of the base in their bytes or places. */
static bool sample_differs(const pst_writer *writer, uint64_t sample)
{
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        const struct pst_field *field = &writer->fields[i];
        uint32_t n_old = pst_dataset_field(writer->base, i)->n_variants;
        uint32_t n = n_old > field->n_variants ? n_old : field->n_variants;
        for (uint32_t v = 0; psti_format_has_items(field->type) && v < n; v++) {
            uint8_t was[PSTI_ITEM_NBYTES] = {0}, is[PSTI_ITEM_NBYTES] = {0};
            struct pst_item old = {0};
            if (v < n_old &&
                pst_dataset_item(writer->base, sample, i, v, &old, sizeof old, NULL) != PST_OK)
                return true;
            if (v < n_old)
                psti_format_print_item(field->type, &old, was);
            if (v < field->n_variants)
                psti_format_print_item(field->type, &writer->items[i][v], is);
            if (memcmp(was, is, sizeof was) != 0)
                return true;
        }
    }
    return false;
}

enum pst_status psti_writer_rewrite_add(pst_writer *writer, const struct pst_sample *sample,
                                        struct pst_error *err)
{
    uint64_t number = writer->n_samples;
    enum pst_status status = pst_writer_add(writer, sample, err);
    if (status == PST_OK && !writer->differs)
        writer->differs = sample_differs(writer, number);
    return status;
}

enum pst_status psti_writer_rewrite_end(pst_writer *writer, struct pst_error *err)
{
    uint32_t last = writer->n_shards - 1;
    struct psti_writer_shard *shard = &writer->shards[last];
    struct psti_index_shard old = {.nbytes = 0};
    enum pst_status status = psti_dataset_shard(writer->base, last, &old, err);
    bool changed = writer->differs || old.nbytes != shard->nbytes || old.n_items != shard->n_items;
    if (status == PST_OK && changed)
        status = psti_writer_leave_shard(writer, err);
    else if (status == PST_OK) {
        psti_output_close(&writer->shard);
        status = psti_writer_unlink(&writer->dir, shard->name, err);
        memcpy(shard->name, old.name, sizeof old.name);
        shard->header_checksum = old.header_checksum;
        writer->directory_changed = true;
    }
    writer->last_is_linked = true;
    return status == PST_OK ? PST_OK : psti_writer_give_up(writer, status, err);
}

/* Fills writer->items, and numbers [n_fields], from the sample of `from`. */
static enum pst_status load_sample(pst_writer *writer, const pst_dataset *from, uint64_t sample,
                                   uint32_t first_shard, uint64_t *numbers, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < writer->n_fields; i++) {
        enum pst_field_type type = writer->fields[i].type;
        uint32_t n_old = pst_dataset_field(from, i)->n_variants;
        if (type == PST_FIELD_INT)
            status = pst_dataset_int(from, sample, i, (int64_t *)&numbers[i], err);
        else if (type == PST_FIELD_FLOAT)
            status = pst_dataset_float(from, sample, i, (double *)(void *)&numbers[i], err);
        if (!psti_format_has_items(type))
            continue;
        for (uint32_t v = 0; status == PST_OK && v < PST_MAX_VARIANTS; v++) {
            struct pst_item *item = &writer->items[i][v];
            memset(item, 0, sizeof *item);
            if (v < n_old)
                status = pst_dataset_item(from, sample, i, v, item, sizeof *item, err);
            if (status == PST_OK && item->form != PST_FORM_NONE)
                item->i_file += first_shard;
            if (status == PST_OK && item->form != PST_FORM_NONE &&
                v >= writer->fields[i].n_variants)
                status = psti_fail(err, PST_ERROR_INTERNAL, "writer",
                                   "a sample that stays has more variants than the field");
        }
    }
    return status;
}

enum pst_status psti_writer_adopt_sample(pst_writer *writer, const pst_dataset *from,
                                         uint64_t number, uint32_t first_shard,
                                         struct psti_writer_adopted *adopted, struct pst_error *err)
{
    char name[PST_NAME_CAP];
    enum pst_status status = pst_dataset_sample_name(from, number, name, err);
    size_t n = status == PST_OK ? strlen(name) : 0;
    if (status == PST_OK)
        status = load_sample(writer, from, number, first_shard, adopted->numbers, err);
    if (status == PST_OK &&
        !psti_writer_body_reserve(writer, PSTI_JOURNAL_SAMPLE_NBYTES + writer->rows_nbytes + n + 1))
        status = psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory to add a sample");
    if (status == PST_OK)
        status = psti_writer_take_name(writer, name, n, err);
    if (status != PST_OK)
        return status;
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        adopted->values[i].bytes = &adopted->numbers[i];
        adopted->lists[i] = &adopted->values[i];
        for (uint32_t v = 0; v < writer->fields[i].n_variants; v++)
            if (psti_format_has_items(writer->fields[i].type))
                psti_writer_count_item(writer, i, &writer->items[i][v]);
    }
    const struct pst_sample sample = {
        .struct_size = sizeof sample, .name = name, .values = adopted->lists};
    status = psti_writer_put_journal(writer, &sample, n, err);
    writer->n_samples++;
    writer->index_changed = true;
    writer->uncommitted_nbytes += writer->rows_nbytes + n;
    return status;
}

enum pst_status psti_writer_rewrite_adopt(pst_writer *writer, uint64_t n, struct pst_error *err)
{
    struct psti_writer_adopted adopted = {.numbers = {0}};
    struct psti_index_shard old = {.nbytes = 0};
    bool rest = psti_writer_rewrite_is_adopting(writer);
    uint32_t number = rest ? writer->n_shards - 1 : writer->n_shards;
    enum pst_status status = psti_writer_leave_shard(writer, err);
    if (status == PST_OK)
        status = psti_dataset_shard(writer->base, number, &old, err);
    if (status == PST_OK && !rest && !psti_writer_push_shard(writer, 0, 0))
        status = psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for the list of shards");
    if (status == PST_OK && !rest &&
        psti_writer_exists(&writer->dir, writer->shards[number].name)) {
        /* A killed run may have left a file with the name of a rewritten shard, which would
         * contradict that the shard is adopted. */
        status = psti_writer_unlink(&writer->dir, writer->shards[number].name, err);
        writer->directory_changed = true;
    }
    if (status != PST_OK)
        return psti_writer_give_up(writer, status, err);
    struct psti_writer_shard *shard = &writer->shards[number];
    shard->nbytes = old.nbytes;
    shard->n_items = old.n_items;
    shard->header_checksum = old.header_checksum;
    memcpy(shard->name, old.name, sizeof old.name);
    if (number < writer->first_changed)
        writer->first_changed = number;
    writer->last_is_linked = true;
    for (uint64_t i = 0; status == PST_OK && i < n; i++)
        status =
            psti_writer_adopt_sample(writer, writer->base, writer->n_samples, 0, &adopted, err);
    if (status != PST_OK)
        return psti_writer_give_up(writer, status, err);
    return writer->uncommitted_nbytes >= writer->commit_nbytes ? pst_writer_commit(writer, err)
                                                               : PST_OK;
}

bool psti_writer_rewrite_waits(const pst_writer *writer) { return writer->waits; }

void psti_writer_set_mark(pst_writer *writer, uint64_t mark) { writer->mark = mark; }
