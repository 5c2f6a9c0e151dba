/* dataset_table.c - connects the columns of a walk to the writer of an index, and reads files
 * beside shards.
 *
 * In: rows of a walk, on one thread. Out: samples to the writer; each is also counted. A sink
 * passes only its writer to its functions, so the sink given to the columns has the table as its
 * writer. */
#include "dataset/dataset_table.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM "dataset"
enum { NOTES_LIMIT_NBYTES = 256 << 20 };

static struct psti_dataset_table *table_of(struct psti_containers_writer *writer)
{
    return (struct psti_dataset_table *)(void *)writer;
}

static enum pst_status put_field(struct psti_containers_writer *writer,
                                 const struct pst_field *field, uint32_t *i_field,
                                 struct pst_error *err)
{
    const struct psti_field_sink *inner = &table_of(writer)->inner;
    return inner->field(inner->writer, field, i_field, err);
}

static void restate(struct psti_containers_writer *writer, uint32_t i_field,
                    const struct pst_field *field)
{
    const struct psti_field_sink *inner = &table_of(writer)->inner;
    inner->restate(inner->writer, i_field, field);
}

static enum pst_status put_classes(struct psti_containers_writer *writer, uint32_t i_field,
                                   const char *names, size_t nbytes, uint32_t n,
                                   struct pst_error *err)
{
    const struct psti_field_sink *inner = &table_of(writer)->inner;
    return inner->classes(inner->writer, i_field, names, nbytes, n, err);
}

static void make_optional(struct psti_containers_writer *writer, uint32_t i_field)
{
    const struct psti_field_sink *inner = &table_of(writer)->inner;
    if (inner->optional != NULL)
        inner->optional(inner->writer, i_field);
}

static void put_note(struct psti_containers_writer *writer, enum pst_notice_kind kind,
                     const char *name, const char *why, uint64_t n, const char *first)
{
    const struct psti_field_sink *inner = &table_of(writer)->inner;
    if (inner->note != NULL)
        inner->note(inner->writer, kind, name, why, n, first);
}

static enum pst_status put_page(struct psti_containers_writer *writer,
                                const struct psti_container_page *page, uint64_t *i_page,
                                struct pst_error *err)
{
    const struct psti_field_sink *inner = &table_of(writer)->inner;
    return inner->page(inner->writer, page, i_page, err);
}

static enum pst_status put_sample(struct psti_containers_writer *writer, const char *name,
                                  const struct psti_container_value *values, uint32_t n,
                                  struct pst_error *err)
{
    const struct psti_dataset_table *table = table_of(writer);
    enum pst_status status = table->count(table->context, err);
    return status == PST_OK ? table->inner.sample(table->inner.writer, name, values, n, err)
                            : status;
}

enum pst_status psti_dataset_table_open(struct psti_dataset_table *table,
                                        const struct psti_field_rule *rules, uint32_t n_rules,
                                        const struct psti_field_sink *inner,
                                        enum pst_status (*count)(void *, struct pst_error *),
                                        void *context, struct pst_error *err)
{
    const struct psti_field_sink sink = {.field = put_field,
                                         .restate = restate,
                                         .classes = put_classes,
                                         .optional = make_optional,
                                         .note = put_note,
                                         .page = put_page,
                                         .sample = put_sample,
                                         .writer = (struct psti_containers_writer *)(void *)table};
    *table = (struct psti_dataset_table){.inner = *inner, .count = count, .context = context};
    return psti_containers_columns_open(rules, n_rules, &sink, &table->columns, err);
}

void psti_dataset_table_close(struct psti_dataset_table *table)
{
    psti_containers_columns_close(&table->columns);
}

/* Reads the whole file beside the shards into memory. */
static enum pst_status read_notes(struct psti_dataset_notes *notes, struct pst_error *err)
{
    struct stat st;
    int fd;
    enum pst_status status = psti_open_data(notes->path, ROOM, "the file", &fd, &st, err);
    if (status != PST_OK)
        return status;
    size_t nbytes = (size_t)st.st_size;
    if (st.st_size > NOTES_LIMIT_NBYTES)
        status = psti_fail_at(err, PST_ERROR_LIMIT, ROOM, notes->path, -1,
                              "the file has %lld bytes, %d are the limit", (long long)st.st_size,
                              NOTES_LIMIT_NBYTES);
    else if ((notes->bytes = psti_alloc(nbytes + 1)) == NULL)
        status =
            psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for a file of %zu bytes", nbytes);
    ssize_t n = status == PST_OK ? psti_read_at(fd, notes->bytes, nbytes, 0) : 0;
    if (n < 0)
        status = psti_fail_os(err, errno, ROOM, notes->path, 0, "cannot read the file");
    close(fd);
    if (status == PST_OK)
        notes->notes = (struct psti_table_notes){
            .bytes = notes->bytes, .nbytes = (size_t)n, .path = notes->path};
    return status;
}

void psti_dataset_notes_free(struct psti_dataset_notes *notes)
{
    psti_free(notes->folder);
    psti_free(notes->bytes);
    psti_free(notes->path);
    *notes = (struct psti_dataset_notes){.n_folders = notes->n_folders};
}

enum pst_status psti_dataset_notes_find(struct psti_dataset_notes *notes, const char *const *names,
                                        const char *base, const char *shard, struct pst_error *err)
{
    const char *slash = strrchr(shard, '/');
    size_t n_folder = slash == NULL ? 0 : (size_t)(slash - shard) + 1;
    char path[PATH_MAX];
    struct stat st;
    if (notes->folder != NULL && strlen(notes->folder) == n_folder &&
        memcmp(notes->folder, shard, n_folder) == 0)
        return PST_OK;
    psti_dataset_notes_free(notes);
    notes->n_folders++;
    notes->folder = psti_alloc(n_folder + 1);
    if (notes->folder == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for a path");
    memcpy(notes->folder, shard, n_folder);
    notes->folder[n_folder] = '\0';
    for (size_t i = 0; names[i] != NULL; i++) {
        int n = snprintf(path, sizeof path, "%s/%s%s", base, notes->folder, names[i]);
        if (n < 0 || (size_t)n >= sizeof path)
            return psti_fail(err, PST_ERROR_LIMIT, ROOM, "the path of a file is too long");
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        notes->path = psti_strdup(path);
        return notes->path != NULL ? read_notes(notes, err)
                                   : psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for a path");
    }
    return PST_OK;
}

void psti_dataset_notes_beside(struct psti_dataset_notes *notes, const char *ending,
                               const char *base, const char *shard)
{
    const char *dot = strrchr(shard, '.'), *slash = strrchr(shard, '/');
    size_t n_name =
        dot != NULL && (slash == NULL || dot > slash) ? (size_t)(dot - shard) : strlen(shard);
    char path[PATH_MAX];
    struct pst_error why;
    struct stat st;
    psti_dataset_notes_free(notes);
    int n = snprintf(path, sizeof path, "%s/%.*s%s", base, (int)n_name, shard, ending);
    if (n < 0 || (size_t)n >= sizeof path || stat(path, &st) != 0)
        return;
    pst_error_clear(&why);
    notes->path = psti_strdup(path);
    if (notes->path == NULL || read_notes(notes, &why) != PST_OK) {
        psti_log(PST_LOG_WARNING, ROOM, "%s, beside %s, is not compared with it: %s", path, shard,
                 notes->path != NULL ? why.text : "out of memory");
        psti_dataset_notes_free(notes);
    }
}
