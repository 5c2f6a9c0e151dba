/* writer_resume.c - restores a writer's state from the disk: from a finished index, a journal, or
 * both.
 *
 * One thread, before anything is added. The journal is read twice: to find its last commit, and to
 * apply everything before it. All committed bytes must exist: a shard that is too short is an
 * error, so nothing is lost silently. If everything agrees, journal and shards are truncated to
 * that commit, which removes the uncommitted bytes of a crash before new bytes are added. */
#include "writer/writer_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "dataset/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JOURNAL_REOPEN_NBYTES = 1 << 20 };

enum pst_status psti_writer_take_name(pst_writer *writer, const char *name, size_t nbytes,
                                      struct pst_error *err)
{
    if (!psti_writer_names_reserve(&writer->names))
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for the names of the samples");
    if (!psti_writer_names_add(&writer->names, name, nbytes))
        return psti_fail(err, PST_ERROR_CORRUPT, "writer", "two samples have one name");
    writer->names_nbytes += nbytes + 1;
    return PST_OK;
}

enum pst_status psti_writer_load_base_classes(pst_writer *writer, uint32_t i_field,
                                              struct pst_error *err)
{
    int64_t n = writer->fields[i_field].n_classes;
    struct psti_writer_classes *classes = &writer->classes[i_field];
    size_t nbytes = 0;
    if (n == 0 || pst_dataset_class_name(writer->base, i_field, 0) == NULL)
        return PST_OK;
    for (int pass = 0; pass < 2; pass++) {
        nbytes = 0;
        for (int64_t label = 0; label < n; label++) {
            const char *name = pst_dataset_class_name(writer->base, i_field, label);
            size_t length = strlen(name) + 1;
            if (pass == 1)
                memcpy(classes->text + nbytes, name, length);
            nbytes += length;
        }
        if (pass == 0 && (classes->text = psti_alloc(nbytes)) == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for class names");
    }
    classes->nbytes = nbytes;
    return PST_OK;
}

enum pst_status psti_writer_load_base(pst_writer *writer, struct pst_error *err)
{
    const pst_dataset *base = writer->base;
    enum pst_status status = PST_OK;
    writer->n_samples = writer->n_committed = pst_dataset_count(base);
    for (uint64_t s = 0; s < writer->n_samples && status == PST_OK; s++) {
        char name[PST_NAME_CAP];
        status = pst_dataset_sample_name(base, s, name, err);
        if (status == PST_OK)
            status = psti_writer_take_name(writer, name, strlen(name), err);
    }
    for (uint32_t i = 0; i < pst_dataset_n_files(base) && status == PST_OK; i++) {
        struct psti_index_shard shard;
        status = psti_dataset_shard(base, i, &shard, err);
        if (status == PST_OK && !psti_writer_push_shard(writer, shard.nbytes, shard.n_items))
            status = psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for the list of shards");
        if (status == PST_OK) {
            writer->shards[i].header_checksum = shard.header_checksum;
            memcpy(writer->shards[i].name, shard.name, sizeof shard.name);
        }
    }
    for (uint32_t i = 0; i < writer->n_fields && status == PST_OK; i++) {
        writer->max_item_nbytes[i] = pst_dataset_max_item_nbytes(base, i);
        writer->max_pixels_nbytes[i] = pst_dataset_max_pixels_nbytes(base, i);
        status = psti_writer_load_base_classes(writer, i, err);
        if (status == PST_OK)
            status = psti_writer_load_base_pairs(writer, i, err);
    }
    writer->first_changed = writer->n_shards;
    return status;
}

enum pst_status psti_writer_read_journal_header(const struct psti_writer_dir *dir, const char *name,
                                                struct psti_journal_header *header,
                                                struct pst_field fields[PST_MAX_FIELDS],
                                                struct pst_error *err)
{
    struct psti_writer_journal_reader reader;
    const uint8_t *bytes = NULL;
    enum pst_status status = psti_writer_journal_reader_open(&reader, dir, name, err);
    uint64_t most = psti_format_journal_header_nbytes(PST_MAX_FIELDS);
    uint64_t nbytes = status == PST_OK && reader.end < most ? reader.end : most;
    if (status == PST_OK)
        status = psti_writer_journal_reader_bytes(&reader, 0, nbytes, &bytes, err);
    if (status == PST_OK && bytes == NULL)
        status =
            psti_fail(err, PST_ERROR_TRUNCATED, "writer", "the journal ends within its header");
    if (status == PST_OK)
        status = psti_format_parse_journal_header(bytes, (size_t)nbytes, header, fields, err);
    if (status == PST_OK && header->minor > PSTI_DATASET_MINOR)
        status =
            psti_fail(err, PST_ERROR_VERSION, "writer",
                      "the journal has format version %u.%u, this library continues up to %d.%d",
                      header->major, header->minor, PSTI_DATASET_MAJOR, PSTI_DATASET_MINOR);
    if (status != PST_OK)
        psti_error_set_file(err, reader.path);
    psti_writer_journal_reader_close(&reader);
    return status;
}

static enum pst_status corrupt(const char *what, struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_CORRUPT, "writer", "the journal %s", what);
}

static enum pst_status apply_sample(pst_writer *writer, const uint8_t *body, uint64_t nbytes,
                                    struct pst_error *err)
{
    struct psti_journal_sample sample;
    if (!psti_format_parse_journal_sample(body, nbytes, writer->rows_nbytes, &sample))
        return corrupt("holds a sample that does not fit the schema", err);
    if (sample.sample != writer->n_samples)
        return corrupt("leaves out a sample", err);
    enum pst_status status = psti_writer_take_name(writer, sample.name, sample.name_nbytes, err);
    const uint8_t *row = sample.rows;
    for (uint32_t i = 0; i < writer->n_fields && status == PST_OK; i++) {
        const struct pst_field *field = &writer->fields[i];
        for (uint32_t v = 0; v < field->n_variants && psti_format_has_items(field->type); v++) {
            struct pst_item item;
            status =
                psti_format_parse_item(row + (size_t)v * PSTI_ITEM_NBYTES, field->type, &item, err);
            if (status != PST_OK)
                return status;
            psti_writer_count_item(writer, i, &item);
        }
        row += psti_format_row_nbytes(field);
    }
    writer->n_samples++;
    return status;
}

static enum pst_status apply_commit(pst_writer *writer, const uint8_t *body, uint64_t nbytes,
                                    struct pst_error *err)
{
    struct psti_journal_commit commit;
    if (!psti_format_parse_journal_commit(body, nbytes, &commit) ||
        commit.n_samples != writer->n_samples)
        return corrupt("holds a commit that contradicts its samples", err);
    for (uint32_t i = 0; i < commit.n_shards; i++) {
        struct psti_journal_shard shard;
        psti_format_parse_journal_shard(commit.shards + (size_t)i * PSTI_JOURNAL_SHARD_NBYTES,
                                        &shard);
        if (shard.number > writer->n_shards || shard.nbytes < PSTI_SHARD_HEADER_NBYTES ||
            shard.nbytes > INT64_MAX)
            return corrupt("holds a commit with impossible shards", err);
        if (shard.number == writer->n_shards && !psti_writer_push_shard(writer, 0, 0))
            return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for the list of shards");
        if (shard.nbytes < writer->shards[shard.number].nbytes)
            return corrupt("holds a commit that makes a shard shorter", err);
        writer->shards[shard.number].nbytes = shard.nbytes;
        writer->shards[shard.number].n_items = shard.n_items;
    }
    writer->n_committed = writer->n_samples;
    return PST_OK;
}

/* Reads a journal record of type PSTI_JOURNAL_CLASSES: u32 field, u32 zero, then the field's class
 * names with their NULs. In an append there may be more names than the index has; then the first
 * names must be those of the index. */
static enum pst_status apply_classes(pst_writer *writer, const uint8_t *body, uint64_t nbytes,
                                     struct pst_error *err)
{
    uint32_t i_field = nbytes >= 8 ? psti_load_u32(body) : UINT32_MAX;
    if (i_field >= writer->n_fields || nbytes == 8 || body[nbytes - 1] != 0)
        return corrupt("holds impossible class names", err);
    const uint8_t *text = body + 8, *end = body + nbytes;
    int64_t n_names = 0;
    for (; text < end; n_names++) {
        size_t length = strlen((const char *)text);
        if (psti_format_name_problem((const char *)text, length) != NULL)
            return corrupt("holds an impossible class name", err);
        text += length + 1;
    }
    struct psti_writer_classes *classes = &writer->classes[i_field];
    int64_t n_classes = writer->fields[i_field].n_classes;
    bool adds = writer->base != NULL && n_classes > 0 && n_names > n_classes &&
                writer->fields[i_field].type != PST_FIELD_KEYPOINTS &&
                classes->nbytes < nbytes - 8 &&
                (classes->text == NULL || memcmp(classes->text, body + 8, classes->nbytes) == 0);
    if (n_names != n_classes && !adds)
        return corrupt("holds the wrong number of class names", err);
    writer->fields[i_field].n_classes = n_names;
    psti_free(classes->text);
    classes->nbytes = (size_t)nbytes - 8;
    classes->text = psti_alloc(classes->nbytes);
    if (classes->text == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for class names");
    memcpy(classes->text, body + 8, classes->nbytes);
    return PST_OK;
}

static enum pst_status apply_pairs(pst_writer *writer, const uint8_t *body, uint64_t nbytes,
                                   struct pst_error *err)
{
    const char *problem = psti_writer_apply_pairs(writer, body, nbytes);
    return problem == NULL ? PST_OK : corrupt(problem, err);
}

/* Finds the offset after the last commit record, or that of the first record if there is no commit.
 */
static enum pst_status find_last_commit(struct psti_writer_journal_reader *reader, uint64_t *end,
                                        struct pst_error *err)
{
    struct psti_journal_record record;
    const uint8_t *body;
    enum pst_status status;
    *end = reader->position;
    while ((status = psti_writer_journal_reader_next(reader, &record, &body, err)) == PST_OK &&
           body != NULL)
        if (record.kind == PSTI_JOURNAL_COMMIT)
            *end = reader->position;
    return status;
}

static enum pst_status apply_journal(pst_writer *writer, struct psti_writer_journal_reader *reader,
                                     uint64_t end, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    while (reader->position < end && status == PST_OK) {
        struct psti_journal_record record;
        const uint8_t *body;
        uint64_t at = reader->position;
        status = psti_writer_journal_reader_next(reader, &record, &body, err);
        if (status == PST_OK && body == NULL)
            status = corrupt("changed while it was read", err);
        else if (status == PST_OK && record.kind == PSTI_JOURNAL_SAMPLE)
            status = apply_sample(writer, body, record.nbytes, err);
        else if (status == PST_OK && record.kind == PSTI_JOURNAL_COMMIT)
            status = apply_commit(writer, body, record.nbytes, err);
        else if (status == PST_OK && record.kind == PSTI_JOURNAL_CLASSES)
            status = apply_classes(writer, body, record.nbytes, err);
        else if (status == PST_OK && record.kind == PSTI_JOURNAL_PAIRS)
            status = apply_pairs(writer, body, record.nbytes, err);
        else if (status == PST_OK)
            status = corrupt("holds a record of an unknown kind", err);
        if (status != PST_OK && err != NULL)
            err->offset = (int64_t)at;
    }
    return status;
}

enum pst_status psti_writer_load_journal(pst_writer *writer, struct pst_error *err)
{
    struct psti_writer_journal_reader reader;
    uint64_t end = 0;
    writer->journal_start = psti_format_journal_header_nbytes(writer->n_fields);
    enum pst_status status =
        psti_writer_journal_reader_open(&reader, &writer->dir, writer->journal_name, err);
    reader.position = writer->journal_start;
    if (status == PST_OK)
        status = find_last_commit(&reader, &end, err);
    reader.position = writer->journal_start;
    if (status == PST_OK)
        status = apply_journal(writer, &reader, end, err);
    if (status != PST_OK)
        psti_error_set_file(err, reader.path);
    psti_writer_journal_reader_close(&reader);
    writer->journal_end = end;
    writer->index_changed = end > writer->journal_start;
    return status;
}

enum pst_status psti_writer_reopen_journal(pst_writer *writer, struct pst_error *err)
{
    const struct psti_writer_dir *dir = &writer->dir;
    enum pst_status status =
        psti_writer_truncate(dir, writer->journal_name, writer->journal_end, err);
    return status == PST_OK
               ? psti_writer_file_open(&writer->journal, dir, writer->journal_name, false,
                                       writer->journal_end, JOURNAL_REOPEN_NBYTES, err)
               : status;
}

enum pst_status psti_writer_walk_journal(const pst_writer *writer, psti_writer_visit visit,
                                         void *ctx, struct pst_error *err)
{
    struct psti_writer_journal_reader reader;
    enum pst_status status =
        psti_writer_journal_reader_open(&reader, &writer->dir, writer->journal_name, err);
    reader.position = writer->journal_start;
    while (status == PST_OK && reader.position < writer->journal_end) {
        struct psti_journal_record record;
        struct psti_journal_sample sample;
        const uint8_t *body;
        status = psti_writer_journal_reader_next(&reader, &record, &body, err);
        if (status == PST_OK && body == NULL)
            status = corrupt("changed while it was read", err);
        if (status == PST_OK && record.kind == PSTI_JOURNAL_SAMPLE) {
            if (psti_format_parse_journal_sample(body, record.nbytes, writer->rows_nbytes, &sample))
                status = visit(ctx, &sample, err);
            else
                status = corrupt("changed while it was read", err);
        }
    }
    psti_writer_journal_reader_close(&reader);
    return status;
}

/* Reads and checks the header of shard `number`, and keeps its checksum. *st receives the result of
 * fstat. */
static enum pst_status look_at_shard(pst_writer *writer, uint32_t number, const char *name,
                                     struct stat *st, struct pst_error *err)
{
    uint8_t bytes[PSTI_SHARD_HEADER_NBYTES];
    struct psti_shard_header header;
    char path[PATH_MAX];
    ssize_t n = -1;
    int fd = psti_writer_open_read(&writer->dir, name, st);
    if (fd >= 0)
        n = psti_read_at(fd, bytes, sizeof bytes, 0);
    int failed = errno;
    if (fd >= 0)
        close(fd);
    psti_writer_dir_path(&writer->dir, name, path);
    if (n < 0)
        return psti_fail_os(err, failed, "writer", path, 0,
                            "cannot read a shard that was committed%s",
                            failed == ELOOP ? ": it is a symbolic link, and none is followed" : "");
    enum pst_status status = psti_format_parse_shard_header(bytes, (size_t)n, &header, err);
    if (status == PST_OK && memcmp(header.id, writer->id, 16) != 0)
        status =
            psti_fail(err, PST_ERROR_CORRUPT, "writer", "the shard belongs to another data set");
    if (status == PST_OK && header.number != number)
        status = psti_fail(err, PST_ERROR_CORRUPT, "writer",
                           "this is shard %" PRIu32 ", under the name of shard %" PRIu32,
                           header.number, number);
    if (status != PST_OK)
        psti_error_set_file(err, path);
    else
        writer->shards[number].header_checksum = header.checksum;
    return status;
}

enum pst_status psti_writer_check_shards(pst_writer *writer, uint32_t first, struct pst_error *err)
{
    char path[PATH_MAX];
    for (uint32_t i = first; i < writer->n_shards; i++) {
        struct stat st;
        const char *name = writer->shards[i].name;
        uint64_t committed = writer->shards[i].nbytes;
        enum pst_status status = look_at_shard(writer, i, name, &st, err);
        if (status == PST_OK && (uint64_t)st.st_size < committed) {
            psti_writer_dir_path(&writer->dir, name, path);
            status = psti_fail_at(err, PST_ERROR_TRUNCATED, "writer", path, (int64_t)st.st_size,
                                  "the shard has %" PRIu64 " bytes, %" PRIu64 " were committed",
                                  (uint64_t)st.st_size, committed);
        }
        if (status != PST_OK)
            return status;
        writer->last_is_linked = st.st_nlink > 1;
    }
    return PST_OK;
}

/* Removes shards that were never committed. After a power loss only some of them may exist, with
 * gaps in their numbers. */
static enum pst_status remove_strays(const pst_writer *writer, struct pst_error *err)
{
    char *names = NULL;
    enum pst_status status = psti_writer_list(&writer->dir, &names, err);
    for (const char *is = names; status == PST_OK && is[0] != '\0';
         is = psti_writer_list_next(is)) {
        char name[PSTI_SHARD_NAME_CAP];
        if (strncmp(is, "shard-", 6) != 0)
            continue;
        unsigned long number = strtoul(is + 6, NULL, 10);
        if (number < writer->n_shards || number > UINT32_MAX)
            continue;
        psti_format_shard_name((uint32_t)number, name);
        if (strcmp(name, is) == 0)
            status = psti_writer_unlink(&writer->dir, name, err);
    }
    psti_free(names);
    return status;
}

enum pst_status psti_writer_trim_shards(pst_writer *writer, uint32_t first, struct pst_error *err)
{
    for (uint32_t i = first; i < writer->n_shards; i++) {
        struct stat st;
        const char *name = writer->shards[i].name;
        enum pst_status status = PST_OK;
        /* A shard with a second hard link is not truncated; uncommitted bytes at its end are
         * harmless. */
        if (fstatat(writer->dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_nlink == 1 &&
            (uint64_t)st.st_size > writer->shards[i].nbytes)
            status = psti_writer_truncate(&writer->dir, name, writer->shards[i].nbytes, err);
        if (status != PST_OK)
            return status;
    }
    return remove_strays(writer, err);
}

enum pst_status psti_writer_read_item(const pst_writer *writer, const struct pst_item *item,
                                      size_t nbytes, void *out, bool *found, struct pst_error *err)
{
    struct psti_writer_journal_reader reader;
    const uint8_t *bytes = NULL;
    *found = false;
    enum pst_status status = psti_writer_journal_reader_open(
        &reader, &writer->dir, writer->shards[item->i_file].name, err);
    if (status == PST_OK)
        status = psti_writer_journal_reader_bytes(&reader, item->offset, nbytes, &bytes, err);
    if (status == PST_OK && bytes != NULL) {
        memcpy(out, bytes, nbytes);
        *found = true;
    }
    psti_writer_journal_reader_close(&reader);
    return status;
}
