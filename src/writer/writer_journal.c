/* writer_journal.c - the journal, from which an unfinished data set is resumed.
 *
 * One thread at a time uses a journal. Records are written through the file's buffer. The reader
 * ignores all records after the last commit record. To commit, the writer makes the shards durable,
 * writes a commit record, and makes it durable. A crash may cut off a record, so the reader stops
 * at the first invalid record (magic, length, checksum). */
#include "writer/writer_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JOURNAL_BUFFER_NBYTES = 1 << 20 };

bool psti_writer_body_reserve(pst_writer *writer, size_t nbytes)
{
    if (nbytes <= writer->body_cap)
        return true;
    uint8_t *larger = psti_realloc(writer->body, nbytes);
    if (larger == NULL)
        return false;
    writer->body = larger;
    writer->body_cap = nbytes;
    return true;
}

enum pst_status psti_writer_journal_create(pst_writer *writer, struct pst_error *err)
{
    const struct psti_writer_dir *dir = &writer->dir;
    struct psti_output file = {.fd = -1};
    struct psti_journal_header header = {.base_generation = writer->base_generation,
                                         .base_n_samples = writer->base_n_samples,
                                         .n_fields = writer->n_fields,
                                         .mark = writer->rewrites ? writer->mark : 0};
    size_t nbytes = psti_format_journal_header_nbytes(writer->n_fields);
    memcpy(header.id, writer->id, 16);
    if (!psti_writer_body_reserve(writer, nbytes))
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for the journal's header");
    psti_format_print_journal_header(&header, writer->fields, writer->body);

    enum pst_status status = psti_writer_file_open(&file, dir, writer->journal_tmp_name, true, 0,
                                                   JOURNAL_BUFFER_NBYTES, err);
    if (status == PST_OK)
        status = psti_output_append(&file, writer->body, nbytes, err);
    if (status == PST_OK)
        status = psti_output_sync(&file, err);
    if (status == PST_OK)
        status = psti_writer_rename(dir, writer->journal_tmp_name, writer->journal_name, err);
    psti_output_close(&file);
    if (status == PST_OK)
        status = psti_writer_sync_directory(dir, err);
    if (status != PST_OK)
        return status;
    writer->journal_start = writer->journal_end = nbytes;
    return psti_writer_file_open(&writer->journal, dir, writer->journal_name, false, nbytes,
                                 JOURNAL_BUFFER_NBYTES, err);
}

enum pst_status psti_writer_journal_append(pst_writer *writer, enum psti_journal_kind kind,
                                           const uint8_t *body, size_t nbytes,
                                           struct pst_error *err)
{
    static const uint8_t zeros[8] = {0};
    uint8_t head[PSTI_JOURNAL_RECORD_NBYTES];
    psti_format_print_journal_record(kind, body, nbytes, head);
    enum pst_status status = psti_output_append(&writer->journal, head, sizeof head, err);
    if (status == PST_OK)
        status = psti_output_append(&writer->journal, body, nbytes, err);
    if (status == PST_OK)
        status = psti_output_append(&writer->journal, zeros, (8 - nbytes % 8) % 8, err);
    return status;
}

enum pst_status psti_writer_journal_commit(pst_writer *writer, struct pst_error *err)
{
    uint32_t n_changed =
        writer->n_shards > writer->first_changed ? writer->n_shards - writer->first_changed : 0;
    size_t nbytes = PSTI_JOURNAL_COMMIT_NBYTES + (size_t)n_changed * PSTI_JOURNAL_SHARD_NBYTES;
    if (!psti_writer_body_reserve(writer, nbytes))
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory to commit");
    psti_format_print_journal_commit_head(writer->n_samples, n_changed, writer->body);
    for (uint32_t i = 0; i < n_changed; i++) {
        uint32_t number = writer->first_changed + i;
        struct psti_journal_shard shard = {number, writer->shards[number].nbytes,
                                           writer->shards[number].n_items};
        psti_format_print_journal_shard(&shard, writer->body + PSTI_JOURNAL_COMMIT_NBYTES +
                                                    (size_t)i * PSTI_JOURNAL_SHARD_NBYTES);
    }
    enum pst_status status =
        psti_writer_journal_append(writer, PSTI_JOURNAL_COMMIT, writer->body, nbytes, err);
    if (status == PST_OK)
        status = psti_output_sync(&writer->journal, err);
    if (status == PST_OK)
        writer->journal_end = writer->journal.offset;
    return status;
}

enum pst_status psti_writer_journal_reader_open(struct psti_writer_journal_reader *reader,
                                                const struct psti_writer_dir *dir, const char *name,
                                                struct pst_error *err)
{
    struct stat st;
    memset(reader, 0, sizeof *reader);
    psti_writer_dir_path(dir, name, reader->path);
    reader->fd = psti_writer_open_read(dir, name, &st);
    if (reader->fd < 0)
        return psti_fail_os(err, errno, "writer", reader->path, -1, "cannot open the file%s",
                            errno == ELOOP ? ": it is a symbolic link, and none is followed" : "");
    reader->end = (uint64_t)st.st_size;
    reader->capacity = JOURNAL_BUFFER_NBYTES;
    reader->buffer = psti_alloc(reader->capacity);
    if (reader->buffer == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory to read the journal");
    return PST_OK;
}

void psti_writer_journal_reader_close(struct psti_writer_journal_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    psti_free(reader->buffer);
    reader->buffer = NULL;
    reader->fd = -1;
}

/* Reads the journal's bytes from `offset` on into the reader's buffer. */
static enum pst_status reader_fill(struct psti_writer_journal_reader *reader, uint64_t offset,
                                   struct pst_error *err)
{
    uint64_t left = reader->end - offset;
    ssize_t n = psti_read_at(reader->fd, reader->buffer,
                             left < reader->capacity ? (size_t)left : reader->capacity, offset);
    reader->start = offset;
    reader->n = n < 0 ? 0 : (size_t)n;
    return n >= 0 ? PST_OK
                  : psti_fail_os(err, errno, "writer", reader->path, (int64_t)offset,
                                 "cannot read the journal");
}

enum pst_status psti_writer_journal_reader_bytes(struct psti_writer_journal_reader *reader,
                                                 uint64_t offset, uint64_t nbytes,
                                                 const uint8_t **bytes, struct pst_error *err)
{
    *bytes = NULL;
    if (offset > reader->end || nbytes > reader->end - offset)
        return PST_OK;
    if (nbytes > reader->capacity) {
        uint8_t *larger = psti_realloc(reader->buffer, (size_t)nbytes);
        if (larger == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory to read the journal");
        reader->buffer = larger;
        reader->capacity = (size_t)nbytes;
    }
    if (offset < reader->start || offset + nbytes > reader->start + reader->n) {
        enum pst_status status = reader_fill(reader, offset, err);
        if (status != PST_OK)
            return status;
    }
    if (nbytes <= reader->n && offset + nbytes <= reader->start + reader->n)
        *bytes = reader->buffer + (offset - reader->start);
    return PST_OK;
}

enum pst_status psti_writer_journal_reader_next(struct psti_writer_journal_reader *reader,
                                                struct psti_journal_record *record,
                                                const uint8_t **body, struct pst_error *err)
{
    const uint8_t *bytes;
    uint64_t at = reader->position;
    *body = NULL;
    enum pst_status status =
        psti_writer_journal_reader_bytes(reader, at, PSTI_JOURNAL_RECORD_NBYTES, &bytes, err);
    if (status != PST_OK || bytes == NULL || !psti_format_parse_journal_record(bytes, record))
        return status;
    uint64_t padded = (record->nbytes + 7) & ~(uint64_t)7;
    status = psti_writer_journal_reader_bytes(reader, at + PSTI_JOURNAL_RECORD_NBYTES, padded,
                                              &bytes, err);
    if (status != PST_OK || bytes == NULL || !psti_format_journal_body_ok(record, bytes))
        return status;
    reader->position = at + PSTI_JOURNAL_RECORD_NBYTES + padded;
    *body = bytes;
    return PST_OK;
}
