/* writer_merge.c - makes one data set of the planned shards that were packed separately.
 *
 * One thread, which holds the lock of the data set if its file system has locks. Each planned shard
 * is a small data set (writer_parts.c). Its files get second names in the directory of the data
 * set, and its samples are added to a journal. Only numbers differ from a pack by one process: the
 * number of a file in its header, and the sample numbers in the records of files, if earlier
 * samples were left out as bad. These numbers are written first, by writes that can be repeated.
 * Then the journal is compared with all records, and the index is written. A second name for the
 * index, which fails if there is an index, commits everything; then plan and folder are removed.
 * Journal and unfinished index lie in that folder, so a merge that runs too late no longer finds
 * them. */
#include "writer/writer_int.h"
#include "writer/writer_parts_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/files/read.h"
#include "base/options.h"
#include "dataset/dataset.h"
#include "options/options_members.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct merge {
    pst_writer *writer;
    struct psti_writer_parts *parts;
    struct pst_pack_report report;
    char journal[2 * PSTI_PARTS_NAME_CAP], journal_tmp[2 * PSTI_PARTS_NAME_CAP];
    char index_tmp[2 * PSTI_PARTS_NAME_CAP];
    struct psti_writer_adopted adopted;
    /* The planned shard that is being merged. */
    pst_dataset *shard;
    uint32_t i_shard;
    struct psti_writer_dir dir;
    char path[PATH_MAX];
};

static enum pst_status open_shard(struct merge *merge, uint32_t i_shard, struct pst_error *err)
{
    char name[PSTI_PARTS_NAME_CAP];
    merge->i_shard = i_shard;
    psti_writer_parts_name(i_shard, name);
    psti_writer_dir_path(&merge->parts->folder, name, merge->path);
    merge->dir = (struct psti_writer_dir){.path = merge->path};
    merge->dir.fd = openat(merge->parts->folder.fd, name,
                           O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (merge->dir.fd < 0)
        return psti_fail_os(err, errno, "writer", merge->path, -1, "cannot open a planned shard");
    enum pst_status status = pst_dataset_open(merge->path, NULL, &merge->shard, err);
    if (status == PST_OK && !pst_dataset_is_packed(merge->shard))
        status = psti_fail(err, PST_ERROR_CORRUPT, "writer", "a planned shard has no index");
    return status == PST_OK ? psti_dataset_check_index(merge->shard, err) : status;
}

static void close_shard(struct merge *merge)
{
    pst_dataset_close(&merge->shard);
    if (merge->dir.fd >= 0)
        close(merge->dir.fd);
    merge->dir.fd = -1;
}

/* Writing final numbers into files ------------------------------------------ */

static enum pst_status write_at(const struct merge *merge, const char *name, int fd,
                                const void *bytes, size_t nbytes, uint64_t at,
                                struct pst_error *err)
{
    char path[PATH_MAX];
    errno = ENOSPC; /* error to report if a write is cut short */
    if (!psti_fault(PSTI_FAULT_WRITE) && pwrite(fd, bytes, nbytes, (off_t)at) == (ssize_t)nbytes)
        return PST_OK;
    psti_writer_dir_path(&merge->dir, name, path);
    return psti_fail_os(err, errno, "writer", path, (int64_t)at, "cannot number a shard");
}

/* The bytes of a header or record in a file: with the numbers of the planned shard, and with those
 * wanted in the data set. */
struct renumbered {
    const char *name;
    int fd;
    uint64_t at;
    size_t nbytes;
    const uint8_t *planned, *wanted;
};

/* Replaces the planned bytes by the wanted bytes. An earlier merge may have been killed during this
 * write, so each byte may be the planned or the wanted one; any other byte is damage. It may also
 * have been killed before the write was durable, so *changed is set whenever planned and wanted
 * bytes differ. */
static enum pst_status renumber(const struct merge *merge, const struct renumbered *place,
                                bool *changed, struct pst_error *err)
{
    uint8_t is[PSTI_SHARD_HEADER_NBYTES]; /* large enough for a record, which is shorter */
    char path[PATH_MAX];
    psti_writer_dir_path(&merge->dir, place->name, path);
    ssize_t n = psti_read_at(place->fd, is, place->nbytes, place->at);
    if (n < 0)
        return psti_fail_os(err, errno, "writer", path, (int64_t)place->at,
                            "cannot read a planned shard");
    bool ours = n == (ssize_t)place->nbytes;
    bool done = ours && memcmp(is, place->wanted, place->nbytes) == 0;
    for (size_t i = 0; ours && i < place->nbytes; i++)
        ours = is[i] == place->planned[i] || is[i] == place->wanted[i];
    *changed |= memcmp(place->planned, place->wanted, place->nbytes) != 0;
    if (done)
        return PST_OK;
    if (ours)
        return write_at(merge, place->name, place->fd, place->wanted, place->nbytes, place->at,
                        err);
    return psti_fail_at(err, PST_ERROR_CORRUPT, "writer", path, (int64_t)place->at,
                        "a planned shard was altered: remove its folder, and pack it again");
}

/* Writes the file's number within the data set into its header. */
static enum pst_status number_file(const struct merge *merge, const char *name, int fd,
                                   uint32_t i_file, uint32_t number, bool *changed,
                                   struct pst_error *err)
{
    uint8_t planned[PSTI_SHARD_HEADER_NBYTES], wanted[PSTI_SHARD_HEADER_NBYTES];
    struct psti_shard_header header = {.number = i_file};
    const struct renumbered place = {
        .name = name, .fd = fd, .nbytes = sizeof planned, .planned = planned, .wanted = wanted};
    memcpy(header.id, merge->writer->id, sizeof header.id);
    psti_format_print_shard_header(&header, planned);
    header.number = number;
    psti_format_print_shard_header(&header, wanted);
    return renumber(merge, &place, changed, err);
}

/* Position in the records of one file, which are read in the order of its items. */
struct records {
    const char *name;
    int fd;
    uint32_t i_file;
    uint64_t position, planned; /* `planned`: first sample number in the planned shard's records */
    bool changed;
};

/* Writes the sample's number into the next record, which must be that of `item`. */
static enum pst_status number_record(const struct merge *merge, struct records *records,
                                     const struct pst_item *item, uint32_t i_field,
                                     uint32_t variant, uint64_t sample, struct pst_error *err)
{
    uint8_t planned[PSTI_RECORD_NBYTES], wanted[PSTI_RECORD_NBYTES];
    struct psti_record record = {.data_offset = (uint16_t)(item->offset - records->position),
                                 .i_field = (uint16_t)i_field,
                                 .variant = (uint8_t)variant,
                                 .form = (uint8_t)item->form,
                                 .sample = records->planned + sample,
                                 .nbytes = item->nbytes,
                                 .checksum = item->checksum};
    const struct renumbered place = {.name = records->name,
                                     .fd = records->fd,
                                     .at = records->position,
                                     .nbytes = sizeof planned,
                                     .planned = planned,
                                     .wanted = wanted};
    psti_format_print_record(&record, planned);
    record.sample = merge->writer->n_samples + sample;
    psti_format_print_record(&record, wanted);
    records->position = (item->offset + item->nbytes + 7) & ~(uint64_t)7;
    return renumber(merge, &place, &records->changed, err);
}

/* Writes the sample numbers into the records of one file. */
static enum pst_status number_records(const struct merge *merge, struct records *records,
                                      struct pst_error *err)
{
    const pst_writer *writer = merge->writer;
    enum pst_status status = PST_OK;
    for (uint64_t s = 0; status == PST_OK && s < pst_dataset_count(merge->shard); s++)
        for (uint32_t i = 0; status == PST_OK && i < writer->n_fields; i++)
            for (uint32_t v = 0; status == PST_OK && v < writer->fields[i].n_variants &&
                                 psti_format_has_items(writer->fields[i].type);
                 v++) {
                struct pst_item item;
                status = pst_dataset_item(merge->shard, s, i, v, &item, sizeof item, err);
                if (status == PST_OK && item.form != PST_FORM_NONE &&
                    item.i_file == records->i_file)
                    status = number_record(merge, records, &item, i, v, s, err);
            }
    return status;
}

/* Writes the file number and the sample numbers into a file of the planned shard. `number`: its
 * number within the data set. *gone: an earlier merge has renamed the file. */
static enum pst_status number_all(const struct merge *merge, const struct psti_index_shard *file,
                                  uint32_t i_file, uint32_t number, bool *gone,
                                  struct pst_error *err)
{
    struct stat st;
    char path[PATH_MAX];
    struct records records = {
        .name = file->name, .i_file = i_file, .position = PSTI_SHARD_HEADER_NBYTES};
    records.planned =
        psti_format_parts_first(merge->parts->plan_bytes, &merge->parts->plan, merge->i_shard);
    psti_writer_dir_path(&merge->dir, file->name, path);
    records.fd = openat(merge->dir.fd, file->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    *gone = records.fd < 0 && errno == ENOENT;
    if (*gone)
        return PST_OK;
    if (records.fd < 0 || fstat(records.fd, &st) != 0) {
        int failed = errno;
        if (records.fd >= 0)
            close(records.fd);
        return psti_fail_os(err, failed, "writer", path, -1, "cannot open a planned shard");
    }
    enum pst_status status = PST_OK;
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != file->nbytes)
        status = psti_fail_at(err, PST_ERROR_TRUNCATED, "writer", path, -1,
                              "a planned shard has another length than its index says");
    if (status == PST_OK)
        status = number_file(merge, file->name, records.fd, i_file, number, &records.changed,
                             err);
    if (status == PST_OK && merge->writer->n_samples != records.planned)
        status = number_records(merge, &records, err);
    if (status == PST_OK && records.changed &&
        (psti_fault(PSTI_FAULT_WRITE) ? (errno = EIO, -1) : fsync(records.fd)) != 0)
        status = psti_fail_os(err, errno, "writer", path, -1, "cannot make a shard durable");
    close(records.fd);
    return status;
}

/* Shards -------------------------------------------------------------------- */

/* True if there is a regular file of this length. */
static bool has_length(const struct psti_writer_dir *dir, const char *name, uint64_t nbytes)
{
    struct stat st;
    return fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size == nbytes;
}

/* Adds a file of the planned shard to the data set, as its next shard. */
static enum pst_status take_file(struct merge *merge, uint32_t i_file, struct pst_error *err)
{
    pst_writer *writer = merge->writer;
    char from[3 * PSTI_PARTS_NAME_CAP], folder[PSTI_PARTS_NAME_CAP];
    struct psti_index_shard file = {.nbytes = 0};
    uint32_t number = writer->n_shards;
    bool gone = false, taken = false;
    enum pst_status status = psti_dataset_shard(merge->shard, i_file, &file, err);
    if (status == PST_OK && !psti_writer_push_shard(writer, file.nbytes, file.n_items))
        status = psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for the list of shards");
    if (status == PST_OK)
        status = number_all(merge, &file, i_file, number, &gone, err);
    if (status != PST_OK)
        return status;
    const char *to = writer->shards[number].name;
    psti_writer_parts_name(merge->i_shard, folder);
    snprintf(from, sizeof from, "%s/%s/%s", merge->parts->folder_name, folder, file.name);
    if (gone && psti_writer_exists(&writer->dir, to))
        return PST_OK; /* checked below, too */
    status = psti_writer_link(&writer->dir, from, to, &taken, err);
    /* If the name is taken, an earlier merge may have given it to this file. If the directory was
     * copied since then, it is another file with the same content. So only the length is compared
     * here; header and records are checked later with all others. */
    if (status == PST_OK && taken && !has_length(&writer->dir, to, file.nbytes)) {
        char path[PATH_MAX];
        psti_writer_dir_path(&writer->dir, to, path);
        status = psti_fail_at(err, PST_ERROR_EXISTS, "writer", path, -1,
                              "another file has the name of a shard: remove it, and merge again");
    }
    return status;
}

/* Takes the schema from the first planned shard, and starts the journal. */
static enum pst_status take_schema(struct merge *merge, struct pst_error *err)
{
    pst_writer *writer = merge->writer;
    enum pst_status status = PST_OK;
    writer->n_fields = pst_dataset_n_fields(merge->shard);
    memcpy(writer->fields, pst_dataset_field(merge->shard, 0),
           writer->n_fields * sizeof writer->fields[0]);
    writer->rows_nbytes = psti_format_rows_nbytes(writer->fields, writer->n_fields);
    memcpy(writer->id, pst_dataset_id(merge->shard), sizeof writer->id);
    writer->mark = psti_dataset_mark(merge->shard);
    writer->base = merge->shard; /* the two calls below read from `base` */
    for (uint32_t i = 0; status == PST_OK && i < writer->n_fields; i++)
        status = psti_writer_load_base_classes(writer, i, err);
    for (uint32_t i = 0; status == PST_OK && i < writer->n_fields; i++)
        status = psti_writer_load_base_pairs(writer, i, err);
    writer->base = NULL;
    return status == PST_OK ? psti_writer_journal_create(writer, err) : status;
}

/* Checks that a planned shard belongs to the plan: it has the id, mark and schema of the first one,
 * and no more samples than planned. */
static enum pst_status check_shard(const struct merge *merge, struct pst_error *err)
{
    const pst_writer *writer = merge->writer;
    const struct psti_writer_parts *parts = merge->parts;
    uint64_t most =
        psti_format_parts_first(parts->plan_bytes, &parts->plan, merge->i_shard + 1) -
        psti_format_parts_first(parts->plan_bytes, &parts->plan, merge->i_shard);
    bool same = memcmp(writer->id, pst_dataset_id(merge->shard), sizeof writer->id) == 0 &&
                writer->n_fields == pst_dataset_n_fields(merge->shard) &&
                writer->mark == psti_dataset_mark(merge->shard) &&
                pst_dataset_count(merge->shard) <= most;
    for (uint32_t i = 0; same && i < writer->n_fields; i++) {
        uint8_t ours[PSTI_INDEX_FIELD_NBYTES], its[PSTI_INDEX_FIELD_NBYTES];
        psti_format_print_field(&writer->fields[i], ours);
        psti_format_print_field(pst_dataset_field(merge->shard, i), its);
        same = memcmp(ours, its, sizeof ours) == 0;
    }
    return same ? PST_OK
                : psti_fail_at(err, PST_ERROR_CORRUPT, "writer", merge->path, -1,
                               "a planned shard does not belong to this plan: remove its folder, "
                               "and pack it again");
}

static enum pst_status take_shard(struct merge *merge, struct pst_error *err)
{
    pst_writer *writer = merge->writer;
    uint32_t first = writer->n_shards;
    enum pst_status status = merge->i_shard == 0 ? take_schema(merge, err) : PST_OK;
    if (status == PST_OK)
        status = check_shard(merge, err);
    for (uint32_t i = 0; status == PST_OK && i < pst_dataset_n_files(merge->shard); i++)
        status = take_file(merge, i, err);
    for (uint64_t s = 0; status == PST_OK && s < pst_dataset_count(merge->shard); s++)
        status = psti_writer_adopt_sample(writer, merge->shard, s, first, &merge->adopted, err);
    return status;
}

/* Fails if planned shards are not packed yet. The text gives their number and names the first. */
static enum pst_status check_all_there(const struct merge *merge, struct pst_error *err)
{
    const struct psti_writer_parts *parts = merge->parts;
    uint32_t n_missing = 0, first = 0;
    for (uint32_t i = 0; i < parts->plan.n_shards; i++) {
        char name[PSTI_PARTS_NAME_CAP];
        psti_writer_parts_name(i, name);
        if (psti_writer_exists(&parts->folder, name))
            continue;
        first = n_missing == 0 ? i : first;
        n_missing++;
    }
    return n_missing == 0
               ? PST_OK
               : psti_fail(err, PST_ERROR_INCOMPLETE, "writer",
                           "%" PRIu32 " of %" PRIu32 " planned shards are not packed yet, the "
                           "first of them is number %" PRIu32 ": run the parts again that did not "
                           "end, or one for all that is missing (--part 1/1)",
                           n_missing, parts->plan.n_shards, first);
}

/* Whole --------------------------------------------------------------------- */

/* Removes what packing in parts has left beside a finished data set. The plan is removed last. */
static enum pst_status clean(const struct psti_writer_dir *dir, struct pst_error *err)
{
    char *names = NULL;
    enum pst_status status = psti_writer_list(dir, &names, err);
    for (const char *name = names; status == PST_OK && name[0] != '\0';
         name = psti_writer_list_next(name)) {
        if (psti_format_parts_is_name(PSTI_PARTS_FOLDER_PREFIX, name))
            status = psti_writer_remove_folder(dir, name, err);
        else if (psti_format_parts_is_name(PSTI_PARTS_TMP_PREFIX, name))
            status = psti_writer_unlink(dir, name, err);
    }
    psti_free(names);
    if (status == PST_OK)
        status = psti_writer_sync_directory(dir, err);
    if (status == PST_OK)
        status = psti_writer_unlink(dir, PSTI_PARTS_NAME, err);
    return status == PST_OK ? psti_writer_sync_directory(dir, err) : status;
}

/* Opens plan and folder, and lets the writer's journal and index have names in that folder. */
static enum pst_status open_parts(struct merge *merge, struct pst_error *err)
{
    pst_writer *writer = merge->writer;
    if (!psti_writer_exists(&writer->dir, PSTI_PARTS_NAME))
        return psti_writer_exists(&writer->dir, PSTI_JOURNAL_NAME)
                   ? psti_fail(err, PST_ERROR_INCOMPLETE, "writer",
                               "an unfinished data set is there, which was not packed in parts: "
                               "resume it")
                   : psti_fail(err, PST_ERROR_NOT_FOUND, "writer",
                               "there is no plan of shards: nothing was packed in parts here");
    enum pst_status status = psti_writer_parts_new(writer->path, &merge->parts, err);
    if (status != PST_OK)
        return status;
    merge->parts->dir.fd = fcntl(writer->dir.fd, F_DUPFD_CLOEXEC, 0);
    if (merge->parts->dir.fd < 0)
        return psti_fail_os(err, errno, "writer", writer->path, -1, "cannot open the directory");
    status = psti_writer_parts_load(merge->parts, err);
    const char *folder = merge->parts->folder_name;
    snprintf(merge->journal, sizeof merge->journal, "%s/" PSTI_JOURNAL_NAME, folder);
    snprintf(merge->journal_tmp, sizeof merge->journal_tmp, "%s/" PSTI_JOURNAL_TMP_NAME, folder);
    snprintf(merge->index_tmp, sizeof merge->index_tmp, "%s/" PSTI_INDEX_TMP_NAME, folder);
    writer->journal_name = merge->journal;
    writer->journal_tmp_name = merge->journal_tmp;
    writer->index_tmp_name = merge->index_tmp;
    writer->merges = true;
    return status == PST_OK ? check_all_there(merge, err) : status;
}

static enum pst_status show(const struct merge *merge, pst_progress_fn progress, void *ctx,
                            struct pst_error *err)
{
    const struct pst_progress p = {.n_done = merge->writer->n_samples,
                                   .n_total = merge->parts->plan.n_samples};
    return progress == NULL || progress(ctx, &p) == 0
               ? PST_OK
               : psti_fail(err, PST_ERROR_CANCELLED, "writer",
                           "cancelled: nothing is lost, and the merge can be run again");
}

static enum pst_status merge_all(struct merge *merge, pst_progress_fn progress, void *ctx,
                                 struct pst_error *err)
{
    pst_writer *writer = merge->writer;
    enum pst_status status = open_parts(merge, err);
    for (uint32_t i = 0; status == PST_OK && i < merge->parts->plan.n_shards; i++) {
        status = open_shard(merge, i, err);
        if (status == PST_OK)
            status = take_shard(merge, err);
        close_shard(merge);
        if (status == PST_OK)
            status = show(merge, progress, ctx, err);
    }
    if (status == PST_OK)
        status = psti_writer_sync_directory(&writer->dir, err);
    if (status == PST_OK)
        status = pst_writer_commit(writer, err);
    if (status == PST_OK)
        status = psti_writer_check_shards(writer, 0, err);
    if (status == PST_OK)
        status = psti_writer_check_records(writer, err);
    return status == PST_OK ? pst_writer_finish(writer, err) : status;
}

/* Merges the planned shards. If that was done before, only removes leftovers. */
static enum pst_status merge_or_clean(struct merge *merge, pst_progress_fn progress, void *ctx,
                                      struct pst_error *err)
{
    const struct psti_writer_dir *dir = &merge->writer->dir;
    pst_dataset *whole = NULL;
    bool done = psti_writer_exists(dir, PSTI_INDEX_NAME);
    enum pst_status status = done ? PST_OK : merge_all(merge, progress, ctx, err);
    if (status == PST_OK && (!done || psti_writer_exists(dir, PSTI_PARTS_NAME)))
        status = clean(dir, err);
    if (status == PST_OK)
        status = pst_dataset_open(merge->writer->path, NULL, &whole, err);
    if (status == PST_OK) {
        merge->report.n_samples = pst_dataset_count(whole);
        merge->report.n_resumed = done ? merge->report.n_samples : 0;
        merge->report.n_files = pst_dataset_n_files(whole);
    }
    pst_dataset_close(&whole);
    return status;
}

enum pst_status pst_merge(const char *path, pst_progress_fn progress, void *ctx,
                          struct pst_pack_report *report, size_t report_nbytes,
                          struct pst_error *err)
{
    struct merge merge = {.dir.fd = -1};
    struct pst_writer_options options = {.struct_size = sizeof options};
    if (path == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "the path of the data set is NULL");
    enum pst_status status =
        psti_options_complete(PST_STRUCT_WRITER_OPTIONS, &options, "writer", err);
    if (status == PST_OK)
        status = psti_writer_new(path, &options, &merge.writer, err);
    if (status == PST_OK)
        status = psti_writer_enter(merge.writer, PST_WRITER_APPEND, err);
    if (status == PST_OK)
        status = merge_or_clean(&merge, progress, ctx, err);
    if (status != PST_OK && err != NULL && err->dataset[0] == '\0')
        psti_error_set_dataset(err, path);
    if (report != NULL)
        psti_struct_write(report, report_nbytes, &merge.report, sizeof merge.report);
    psti_writer_parts_close(&merge.parts);
    if (merge.writer != NULL)
        psti_writer_destroy(merge.writer);
    return status;
}
