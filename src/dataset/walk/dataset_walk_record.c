/* dataset_walk_record.c - makes, finds and plays records of walks over containers.
 *
 * In: a struct psti_making. Out: when a part is made: a record of each of its files, with checksums
 * of items if asked for. When parts are merged: what the walks gave, as if they were done now.
 *
 * Records lie where the index will lie. Each is written under a temporary name and renamed when
 * complete. If a process is killed, its temporary file is removed together with the records. */
#include "dataset/walk/dataset_walk_record.h"

#include "dataset/dataset_container.h"
#include "dataset/dataset_saved_int.h"
#include "dataset/walk/dataset_walk_sink.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/files/output.h"
#include "base/files/read.h"
#include "base/files/stamp.h"
#include "base/log.h"
#include "format/format_container.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOM "dataset"
#define AGAIN "run `penstock index` with --part again"
enum { NAME_CAP = PSTI_SAVED_FILE_CAP + 32 };

/* The record of one file. */
struct record_file {
    char name[NAME_CAP];
    char path[PATH_MAX + NAME_CAP];  /* for messages */
    int fd;                          /* -1: there is no record */
    struct psti_walk_record *record; /* NULL: the record was not opened */
    struct psti_walk_record_head head;
};

static uint64_t path_hash(const struct psti_making *making)
{
    const char *path = making->list.shards[making->i_shard].path;
    return psti_hash64(path, strlen(path));
}

static void name_record(const struct psti_making *making, char name[NAME_CAP])
{
    snprintf(name, NAME_CAP, "%s.walk-%016" PRIx64, making->name, path_hash(making));
}

/* Hashes everything that the walk over making->i_shard depends on, except the file itself. */
static enum pst_status make_key(struct psti_making *making, uint8_t key[16], struct pst_error *err)
{
    struct psti_hash_pair hash;
    enum pst_status status = PST_OK;
    psti_hash_pair_begin(&hash);
    psti_dataset_walk_hash_number(&hash, PSTI_CONTAINER_LAW);
    psti_dataset_walk_hash_rules(making, &hash);
    if (psti_dataset_walk_has_notes(making)) {
        status = psti_dataset_walk_find_notes(making, making->i_shard, err);
        const struct psti_table_notes *notes = &making->notes.notes;
        psti_dataset_walk_hash_number(&hash, notes->nbytes);
        if (status == PST_OK && notes->nbytes > 0)
            psti_hash_pair_update(&hash, notes->bytes, notes->nbytes);
    }
    psti_hash_pair_end(&hash, key);
    return status;
}

/* Finding ------------------------------------------------------------------------------------ */

static void close_file(struct record_file *file)
{
    psti_containers_record_close(&file->record);
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* Refuses a record whose owner is not trusted. */
static enum pst_status check_owner(const struct psti_making *making, unsigned i_place,
                                   const struct record_file *file, struct pst_error *err)
{
    struct stat st;
    const char *what = NULL;
    if (fstat(file->fd, &st) != 0)
        return psti_fail_os(err, errno, ROOM, file->path, -1, "cannot examine a part of an index");
    if (!S_ISREG(st.st_mode))
        what = "it is no file";
    else if (!psti_dataset_saved_trusts(making->saved, i_place, &st))
        what = (st.st_mode & S_IWOTH) != 0
                   ? "everybody may write it"
                   : "it belongs to a user who is neither root, nor this process's user, nor the "
                     "owner of the data";
    return what == NULL ? PST_OK
                        : psti_fail_at(err, PST_ERROR_STATE, ROOM, file->path, -1,
                                       "a part of an index does not count, because %s: remove it, "
                                       "and " AGAIN,
                                       what);
}

/* Opens the record of making->i_shard at a place. If there is none, file->fd stays -1, with
 * PST_OK. */
static enum pst_status open_at(struct psti_making *making, unsigned i_place,
                               struct record_file *file, struct pst_error *err)
{
    int dir = psti_dataset_saved_open_place(making->saved, i_place, NULL);
    if (dir < 0)
        return PST_OK;
    snprintf(file->path, sizeof file->path, "%s",
             psti_dataset_saved_show(making->saved, i_place, file->name));
    file->fd = openat(dir, file->name, PSTI_OPEN_FLAGS | O_NOFOLLOW);
    int failed = file->fd < 0 ? errno : 0;
    close(dir);
    if (failed == ENOENT)
        return PST_OK;
    if (failed == ELOOP)
        return psti_fail_at(err, PST_ERROR_STATE, ROOM, file->path, -1,
                            "a part of an index does not count, because it is a link: remove it, "
                            "and " AGAIN);
    if (failed != 0)
        return psti_fail_os(err, failed, ROOM, file->path, -1, "cannot open a part of an index");
    enum pst_status status = check_owner(making, i_place, file, err);
    return status == PST_OK
               ? psti_containers_record_open(file->fd, file->path, &file->record, &file->head, err)
               : status;
}

/* Compares the record with the file's size and stamp, and with the options of this index. */
static enum pst_status compare(struct psti_making *making, const struct record_file *file,
                               const struct stat *st, struct pst_error *err)
{
    const struct psti_walk_record_head *head = &file->head;
    const char *shard = making->list.shards[making->i_shard].path, *why = NULL;
    uint8_t key[16];
    enum pst_status status = make_key(making, key, err);
    if (status != PST_OK)
        return status;
    if (head->path_hash != path_hash(making) || head->kind != making->list.kind)
        why = "it is of another file";
    else if (head->file_nbytes != (uint64_t)st->st_size || !psti_stamp_is(head->stamp, st))
        why = "the file changed since";
    else if (memcmp(head->key, key, sizeof key) != 0)
        why = "it was made with other options, or by another version of Penstock";
    else if (making->options->sums && !head->has_sums)
        why = "it has no sums, and --sums asks for them";
    return why == NULL ? PST_OK
                       : psti_fail_at(err, PST_ERROR_STATE, ROOM, file->path, -1,
                                      "the part of the index for %.200s cannot be used: %s: " AGAIN,
                                      shard, why);
}

/* Finds the record of making->i_shard; st: stat of the shard. If there is none, file->fd is -1,
 * with PST_OK. After a failure it is closed too. */
static enum pst_status find(struct psti_making *making, const struct stat *st,
                            struct record_file *file, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    *file = (struct record_file){.fd = -1};
    name_record(making, file->name);
    for (unsigned i = 0; status == PST_OK && file->fd < 0 && i < PSTI_SAVED_N_PLACES; i++)
        status = open_at(making, i, file, err);
    if (status == PST_OK && file->fd >= 0)
        status = compare(making, file, st, err);
    if (status != PST_OK)
        close_file(file);
    return status;
}

/* Making ------------------------------------------------------------------------------------- */

/* Opens the folder for records: beside the data, or else below the cache folder. */
static enum pst_status open_folder(struct psti_making *making, int *dir, unsigned *i_place,
                                   struct pst_error *err)
{
    int failed = ENOENT;
    *dir = -1;
    for (unsigned i = 0; *dir < 0 && i < PSTI_SAVED_N_PLACES; i++) {
        bool made = false;
        *i_place = i;
        *dir = psti_dataset_saved_open_place(making->saved, i, &made);
        if (*dir < 0 && errno != ENOENT)
            failed = errno;
        if (*dir >= 0 && faccessat(*dir, ".", W_OK, AT_EACCESS) != 0) {
            failed = errno;
            close(*dir);
            *dir = -1;
        }
    }
    return *dir >= 0 ? PST_OK
                     : psti_fail_os(err, failed, ROOM, making->base, -1,
                                    "parts of an index can be saved neither beside the data nor "
                                    "below PENSTOCK_CACHE_DIR");
}

/* Walks over the file with new fields or columns that know nothing of other files. */
static enum pst_status walk_alone(struct psti_making *making, struct psti_walk_shard *shard,
                                  struct psti_walk_sink *sink, struct pst_error *err)
{
    struct psti_field_sink fields_sink = psti_dataset_walk_sink(sink);
    struct psti_containers_fields *fields = NULL;
    enum pst_status status;
    if (psti_dataset_walk_kind(making)->has_members) {
        status =
            psti_containers_fields_open(making->rules, making->n_rules, &fields_sink, &fields, err);
        if (status == PST_OK)
            making->inner = psti_containers_fields_taker(fields);
    } else {
        status = psti_dataset_table_open(&making->table, making->rules, making->n_rules,
                                         &fields_sink, psti_dataset_walk_count, making, err);
        if (status == PST_OK)
            psti_containers_columns_listen(making->table.columns,
                                           psti_containers_record_writer_call, making->record);
    }
    if (status == PST_OK)
        status = psti_dataset_walk_over(making, shard, err);
    psti_containers_fields_close(&fields);
    psti_dataset_table_close(&making->table);
    return status;
}

/* Writes the record of the walk over an open shard. */
static enum pst_status record_walk(struct psti_making *making, struct psti_walk_shard *shard,
                                   struct psti_output *out, struct pst_error *err)
{
    const bool sums = making->options->sums;
    struct psti_walk_sink sink = {.n_fields = 0};
    struct psti_walk_record_head head = {.kind = making->list.kind,
                                         .path_hash = path_hash(making),
                                         .file_nbytes = (uint64_t)shard->st.st_size,
                                         .stamp = shard->stamp,
                                         .sampled_hash = shard->sampled_hash,
                                         .has_sums = sums};
    enum pst_status status = make_key(making, head.key, err);
    if (status == PST_OK)
        status = psti_containers_record_writer_open(out, &making->record, err);
    if (status != PST_OK)
        return status;
    psti_dataset_summer_file(&sink.summer, shard->fd);
    sink.record = sums ? making->record : NULL;
    status = walk_alone(making, shard, &sink, err);
    if (status != PST_OK && err != NULL && err->file[0] == '\0')
        psti_error_set_file(err, shard->path);
    head.n_samples = shard->counts.n_samples;
    head.has_no_end = shard->counts.has_no_end;
    if (status == PST_OK)
        status = psti_containers_record_writer_end(making->record, &head, err);
    psti_containers_record_writer_close(&making->record);
    psti_dataset_walk_sink_free(&sink);
    return status;
}

/* Renames the complete record to its final name. */
static enum pst_status put_in_place(struct psti_making *making, int dir, const char *temporary,
                                    const struct record_file *file, struct pst_error *err)
{
    int failed = (psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1)
                                               : renameat(dir, temporary, dir, file->name)) != 0
                     ? errno
                     : psti_sync_directory(dir, ".");
    return failed == 0
               ? psti_dataset_saved_tell(making->saved, &making->progress, err)
               : psti_fail_os(err, failed, ROOM, file->path, -1, "cannot save a part of an index");
}

/* Makes the record of an open shard. */
static enum pst_status make_record(struct psti_making *making, struct psti_walk_shard *shard,
                                   struct pst_error *err)
{
    struct record_file file;
    struct psti_output out = {.fd = -1};
    char temporary[NAME_CAP];
    unsigned i_place;
    int dir;
    enum pst_status status = open_folder(making, &dir, &i_place, err);
    if (status != PST_OK)
        return status;
    name_record(making, file.name);
    psti_dataset_saved_name_maker(making->saved); /* sets a new token, which makes the temporary
                                                   * name unique */
    snprintf(temporary, sizeof temporary, "%.*s.new-%016" PRIx64, PSTI_SAVED_FILE_CAP, file.name,
             making->saved->note.token);
    snprintf(file.path, sizeof file.path, "%s",
             psti_dataset_saved_show(making->saved, i_place, file.name));
    status = psti_output_prepare(&out, ROOM, file.path, 0, 1 << 18, err);
    if (status == PST_OK) {
        out.fd = psti_fault(PSTI_FAULT_WRITE)
                     ? (errno = ENOSPC, -1)
                     : openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                              0666);
        status = out.fd < 0 ? psti_fail_os(err, errno, ROOM, file.path, -1,
                                           "cannot make a part of an index")
                            : record_walk(making, shard, &out, err);
        if (status == PST_OK)
            status = put_in_place(making, dir, temporary, &file, err);
        if (status != PST_OK && out.fd >= 0)
            unlinkat(dir, temporary, 0);
        psti_output_close(&out);
    }
    close(dir);
    return status;
}

/* True if an open shard has a record that fits and is undamaged. */
static bool is_recorded(struct psti_making *making, const struct psti_walk_shard *shard)
{
    struct record_file file;
    struct pst_error why;
    pst_error_clear(&why);
    enum pst_status status = find(making, &shard->st, &file, &why);
    bool is_there = status == PST_OK && file.fd >= 0;
    if (is_there)
        status = psti_containers_record_verify(file.record, &why);
    if (status != PST_OK)
        psti_log(PST_LOG_INFO, ROOM, "a part of an index is made anew: %s", why.text);
    close_file(&file);
    return is_there && status == PST_OK;
}

enum pst_status psti_dataset_walk_part(struct psti_making *making, bool is_there,
                                       struct psti_container_work *work, struct pst_error *err)
{
    enum pst_status status = psti_containers_list_indexes(&making->list, err);
    for (size_t i = work->part - 1; status == PST_OK && i < making->list.n_shards;
         i += work->n_parts) {
        struct psti_walk_shard shard;
        work->n_files++;
        if (is_there) {
            work->n_made_before++;
            continue;
        }
        making->i_shard = (uint32_t)i;
        status = psti_dataset_walk_open(making, &shard, err);
        if (status != PST_OK)
            break;
        if (is_recorded(making, &shard))
            work->n_made_before++;
        else
            status = make_record(making, &shard, err);
        status = psti_dataset_walk_close(making, &shard, status, err);
    }
    return status;
}

/* Merging ------------------------------------------------------------------------------------ */

/* Calls stat on the file of making->i_shard, and finds its record. */
static enum pst_status find_for(struct psti_making *making, char path[PATH_MAX],
                                struct record_file *file, struct pst_error *err)
{
    struct stat st;
    int n =
        snprintf(path, PATH_MAX, "%s/%s", making->base, making->list.shards[making->i_shard].path);
    if (n < 0 || n >= PATH_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "the path of a file is too long");
    if (stat(path, &st) != 0)
        return psti_fail_os(err, errno, ROOM, path, -1, "cannot open the file");
    return find(making, &st, file, err);
}

enum pst_status psti_dataset_walk_check_records(struct psti_making *making, struct pst_error *err)
{
    const struct psti_container_list *list = &making->list;
    size_t n_missing = 0, first = 0;
    enum pst_status status = PST_OK;
    for (size_t i = 0; status == PST_OK && i < list->n_shards; i++) {
        struct record_file file;
        char path[PATH_MAX];
        making->i_shard = (uint32_t)i;
        status = find_for(making, path, &file, err);
        if (status == PST_OK && file.fd < 0 && n_missing++ == 0)
            first = i;
        if (status == PST_OK)
            close_file(&file);
        if (status == PST_OK)
            status = psti_dataset_saved_tell(making->saved, &making->progress, err);
    }
    return status == PST_OK && n_missing > 0
               ? psti_fail(err, PST_ERROR_INCOMPLETE, ROOM,
                           "%zu of %zu files are in no part of the index yet, the first is "
                           "%.200s: " AGAIN " for what is missing, here or elsewhere",
                           n_missing, list->n_shards, list->shards[first].path)
               : status;
}

/* Repeats for the writer what an open record holds of its walk. */
static enum pst_status play(struct psti_making *making, struct psti_containers_writer *writer,
                            const char *path, struct record_file *file, bool *deviates,
                            struct pst_error *err)
{
    const struct psti_walk_record_head *head = &file->head;
    const struct psti_walk_counts counts = {.n_samples = head->n_samples,
                                            .has_no_end = head->has_no_end};
    const struct psti_sample_taker taker = psti_dataset_walk_taker(making);
    enum pst_status status = psti_containers_record_verify(file->record, err);
    if (status == PST_OK)
        status =
            psti_containers_writer_file(writer, making->list.shards[making->i_shard].path,
                                        head->file_nbytes, head->stamp, head->sampled_hash, err);
    if (status != PST_OK)
        return status;
    making->n_starts = 0;
    if (making->options->sums)
        psti_containers_writer_know_sums(writer, psti_containers_record_find_sum, file->record);
    status = psti_dataset_walk_kind(making)->has_members
                 ? psti_containers_record_play_samples(file->record, &taker, err)
                 : psti_containers_record_play_columns(file->record, path, making->table.columns,
                                                       deviates, err);
    psti_containers_writer_know_sums(writer, NULL, NULL);
    making->progress.nbytes_in += head->file_nbytes;
    if (status != PST_OK && err != NULL && err->file[0] == '\0')
        psti_error_set_file(err, path);
    if (status == PST_OK && !*deviates)
        psti_dataset_walk_judge(making, path, &counts);
    return status;
}

enum pst_status psti_dataset_walk_play(struct psti_making *making,
                                       struct psti_containers_writer *writer, bool *deviates,
                                       struct pst_error *err)
{
    struct record_file file;
    char path[PATH_MAX];
    *deviates = false;
    enum pst_status status = find_for(making, path, &file, err);
    if (status == PST_OK && file.fd < 0)
        return psti_fail_at(err, PST_ERROR_STATE, ROOM, path, -1,
                            "the part of the index for this file was removed meanwhile: " AGAIN);
    if (status == PST_OK)
        status = play(making, writer, path, &file, deviates, err);
    close_file(&file);
    return status == PST_OK ? psti_dataset_saved_tell(making->saved, &making->progress, err)
                            : status;
}

void psti_dataset_walk_remove_records(struct psti_making *making)
{
    char begin[NAME_CAP];
    snprintf(begin, sizeof begin, "%s.walk-", making->name);
    for (unsigned i = 0; i < PSTI_SAVED_N_PLACES; i++) {
        int dir = psti_dataset_saved_open_place(making->saved, i, NULL);
        DIR *folder = dir < 0 ? NULL : fdopendir(dir);
        const struct dirent *entry;
        while (folder != NULL && (entry = readdir(folder)) != NULL)
            if (strncmp(entry->d_name, begin, strlen(begin)) == 0)
                unlinkat(dir, entry->d_name, 0);
        if (folder != NULL)
            closedir(folder);
        else if (dir >= 0)
            close(dir);
    }
}
