/* writer_check.c - compares a journal with the shards that it refers to.
 *
 * In: a writer that has read its base and journal, before anything is changed. Out: OK, or where
 * the two differ. One thread. Checksums reveal damage but not forgery, because a forger can
 * recompute them. So every item in the journal must begin where the previous item ended, after a
 * record that agrees with the journal, and the commits must count the items found. Then pst_verify
 * accepts a data set that is finished from this journal. Items themselves are not read: their
 * checksums are in the records, and pst_verify compares them. */
#include "writer/writer_int.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "dataset/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Size of a page of a shard. Small items lie close together; for large ones a larger window would
 * not help. */
enum { WINDOW_NBYTES = 4096 };

struct check {
    const pst_writer *writer;
    uint32_t n_shards;          /* number of shards with items so far, or those of the base */
    uint64_t position, n_items; /* in the last of these shards: end and number of items so far */
    int fd;                     /* descriptor of the last of these shards, or -1 */
    char path[PATH_MAX];
    uint64_t start; /* `window` has the file's bytes [start, start + n) */
    size_t n;
    uint8_t window[WINDOW_NBYTES];
};

static enum pst_status contradict(const struct check *check, const char *what,
                                  struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_CORRUPT, "writer", check->path, (int64_t)check->position,
                        "journal and shard contradict each other: %s", what);
}

static enum pst_status open_shard(struct check *check, struct pst_error *err)
{
    const char *name = check->writer->shards[check->n_shards - 1].name;
    struct stat st;
    psti_writer_dir_path(&check->writer->dir, name, check->path);
    if (check->fd >= 0)
        close(check->fd);
    check->n = 0;
    check->fd = psti_writer_open_read(&check->writer->dir, name, &st);
    return check->fd >= 0
               ? PST_OK
               : psti_fail_os(err, errno, "writer", check->path, -1, "cannot open a shard");
}

/* Checks that the shard that was read last holds as much as the last commit says. */
static enum pst_status check_totals(const struct check *check, struct pst_error *err)
{
    if (check->n_shards == 0)
        return PST_OK;
    const struct psti_writer_shard *shard = &check->writer->shards[check->n_shards - 1];
    if (shard->nbytes != check->position)
        return contradict(check, "the commits give it another length than its items have", err);
    if (shard->n_items != check->n_items)
        return contradict(check, "the commits count its items wrongly", err);
    return PST_OK;
}

static enum pst_status next_shard(struct check *check, struct pst_error *err)
{
    enum pst_status status = check_totals(check, err);
    if (status == PST_OK && check->n_shards == check->writer->n_shards)
        status = contradict(check, "an item lies in a shard that no commit names", err);
    if (status != PST_OK)
        return status;
    check->n_shards++;
    check->position = PSTI_SHARD_HEADER_NBYTES;
    check->n_items = 0;
    return open_shard(check, err);
}

/* Reads the record header at check->position. Bytes beyond the shard's end count as zero. */
static enum pst_status read_record(struct check *check, uint64_t n_left, struct psti_record *record,
                                   struct pst_error *err)
{
    uint64_t at = check->position;
    if (at < check->start || at + PSTI_RECORD_NBYTES > check->start + check->n) {
        ssize_t n = psti_read_at(check->fd, check->window, sizeof check->window, at);
        if (n < 0)
            return psti_fail_os(err, errno, "writer", check->path, (int64_t)at,
                                "cannot read a shard that was committed");
        check->start = at;
        check->n = (size_t)n;
    }
    enum pst_status status =
        psti_format_parse_record(check->window + (at - check->start),
                                 check->n - (size_t)(at - check->start), n_left, record, err);
    if (status != PST_OK) {
        psti_error_set_file(err, check->path);
        if (err != NULL)
            err->offset = (int64_t)at;
    }
    return status;
}

static enum pst_status check_item(struct check *check, uint64_t sample, uint32_t i_field,
                                  uint32_t variant, const struct pst_item *item,
                                  struct pst_error *err)
{
    struct psti_record record;
    enum pst_status status = check->fd < 0 ? open_shard(check, err) : PST_OK;
    if (status != PST_OK)
        return status;
    uint64_t end = check->writer->shards[check->n_shards - 1].nbytes;
    status = read_record(check, end > check->position ? end - check->position : 0, &record, err);
    if (status != PST_OK)
        return status;
    if (record.sample != sample || record.i_field != i_field || record.variant != variant)
        return contradict(check, "another item lies here", err);
    if (record.nbytes != item->nbytes || record.checksum != item->checksum ||
        record.form != item->form)
        return contradict(check, "the item has another length, form or checksum", err);
    if (item->offset != check->position + record.data_offset)
        return contradict(check, "the item begins elsewhere", err);
    /* The record lies within the shard, so rounding its end up to 8 cannot overflow. */
    check->position = (item->offset + item->nbytes + 7) & ~(uint64_t)7;
    check->n_items++;
    return PST_OK;
}

/* Checks the items of one field. *i_shard is the sample's shard, or PST_FILE_NONE before its first
 * item. */
static enum pst_status check_field(struct check *check, uint64_t sample, uint32_t i_field,
                                   const uint8_t *row, uint32_t *i_shard, struct pst_error *err)
{
    const struct pst_field *field = &check->writer->fields[i_field];
    uint32_t n_present = 0;
    for (uint32_t v = 0; v < field->n_variants; v++) {
        struct pst_item item;
        enum pst_status status =
            psti_format_parse_item(row + (size_t)v * PSTI_ITEM_NBYTES, field->type, &item, err);
        if (status != PST_OK)
            return status;
        if (item.form == PST_FORM_NONE)
            continue;
        n_present++;
        if (!psti_dataset_item_fits(field, &item))
            return contradict(check, "an item's shape does not account for its bytes", err);
        if (*i_shard == PST_FILE_NONE && item.i_file == check->n_shards)
            status = next_shard(check, err);
        if (status == PST_OK && (check->n_shards == 0 || item.i_file != check->n_shards - 1))
            status = contradict(check, "an item lies in a shard out of order", err);
        if (status == PST_OK)
            status = check_item(check, sample, i_field, v, &item, err);
        if (status != PST_OK)
            return status;
        *i_shard = item.i_file;
    }
    return n_present > 0 ? PST_OK : contradict(check, "a value is absent in every variant", err);
}

static enum pst_status check_sample(void *ctx, const struct psti_journal_sample *sample,
                                    struct pst_error *err)
{
    struct check *check = ctx;
    const uint8_t *row = sample->rows;
    uint32_t i_shard = PST_FILE_NONE;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < check->writer->n_fields && status == PST_OK; i++) {
        const struct pst_field *field = &check->writer->fields[i];
        if (psti_format_has_items(field->type))
            status = check_field(check, sample->sample, i, row, &i_shard, err);
        else if (field->type == PST_FIELD_INT && field->n_classes > 0 &&
                 psti_load_u64(row) >= (uint64_t)field->n_classes)
            status = contradict(check, "a label is none of its field's classes", err);
        row += psti_format_row_nbytes(field);
    }
    if (status != PST_OK && err != NULL)
        err->sample = (int64_t)sample->sample;
    return status;
}

/* Checks that the commits agree with the base about the base's shards. Only the last of them may
 * have grown. */
static enum pst_status begin_at_base(struct check *check, struct pst_error *err)
{
    const pst_dataset *base = check->writer->rewrites ? NULL : check->writer->base;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; base != NULL && i < pst_dataset_n_files(base) && status == PST_OK; i++) {
        struct psti_index_shard shard = {0};
        status = check_totals(check, err);
        if (status == PST_OK)
            status = psti_dataset_shard(base, i, &shard, err);
        check->position = shard.nbytes;
        check->n_items = shard.n_items;
        check->n_shards++;
    }
    return status;
}

enum pst_status psti_writer_check_records(const pst_writer *writer, struct pst_error *err)
{
    struct check check = {.writer = writer, .fd = -1};
    psti_writer_dir_path(&writer->dir, PSTI_JOURNAL_NAME, check.path);
    enum pst_status status = begin_at_base(&check, err);
    if (status == PST_OK)
        status = psti_writer_walk_journal(writer, check_sample, &check, err);
    if (status == PST_OK)
        status = check_totals(&check, err);
    if (status == PST_OK && check.n_shards != writer->n_shards)
        status = contradict(&check, "a commit names a shard without items", err);
    if (check.fd >= 0)
        close(check.fd);
    return status;
}
