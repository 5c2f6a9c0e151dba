/* dataset_walk.c - the walk over one container file, and the files beside it that it depends on.
 *
 * In: a struct psti_making with the number of a shard. Out: its samples or rows, to their taker.
 * Progress is reported when the walk reads. */
#include "dataset/walk/dataset_walk.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "base/files/stamp.h"
#include "base/log.h"
#include "containers/list/containers_foreign.h"
#include "containers/record/containers_record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOM "dataset"
enum {
    SAMPLED_PIECES = 16, /* pieces of a file that are hashed for the identity of the bytes */
    SAMPLED_NBYTES = 4096,
    READS_TOLD = 16, /* number of reads of a walk between two progress reports */
};

const struct psti_kind *psti_dataset_walk_kind(const struct psti_making *making)
{
    return psti_containers_kind(making->list.kind);
}

/* Names and digests ------------------------------------------------------------- */

void psti_dataset_walk_hash_text(struct psti_hash_pair *hash, const char *text)
{
    uint8_t is_there = text != NULL;
    psti_hash_pair_update(hash, &is_there, 1);
    if (text != NULL)
        psti_hash_pair_update(hash, text, strlen(text) + 1);
}

void psti_dataset_walk_hash_number(struct psti_hash_pair *hash, uint64_t number)
{
    uint8_t bytes[8];
    psti_store_u64(bytes, number);
    psti_hash_pair_update(hash, bytes, sizeof bytes);
}

void psti_dataset_walk_hash_rules(const struct psti_making *making, struct psti_hash_pair *hash)
{
    psti_dataset_walk_hash_number(hash, making->n_rules);
    for (uint32_t i = 0; i < making->n_rules; i++) {
        const struct psti_field_rule *rule = &making->rules[i];
        psti_dataset_walk_hash_text(hash, rule->suffix);
        psti_dataset_walk_hash_text(hash, rule->field);
        psti_dataset_walk_hash_number(hash, (uint64_t)rule->type);
        psti_dataset_walk_hash_number(hash, rule->is_left_out);
        psti_dataset_walk_hash_number(hash, (uint64_t)rule->n_classes);
    }
}

/* True if `notes` are an ending: each shard has its own file with that ending. NULL: no notes. */
static bool is_of_shard(const char *notes) { return notes != NULL && notes[0] == '.'; }

bool psti_dataset_walk_has_notes(const struct psti_making *making)
{
    const char *notes = psti_dataset_walk_kind(making)->notes[0];
    return notes != NULL && !is_of_shard(notes);
}

enum pst_status psti_dataset_walk_find_notes(struct psti_making *making, size_t i_shard,
                                             struct pst_error *err)
{
    const struct psti_kind *kind = psti_dataset_walk_kind(making);
    const char *shard = making->list.shards[i_shard].path;
    if (!is_of_shard(kind->notes[0]))
        return psti_dataset_notes_find(&making->notes, kind->notes, making->base, shard, err);
    psti_dataset_notes_beside(&making->notes, kind->notes[0], making->base, shard);
    return PST_OK;
}

/* The walk ------------------------------------------------------ */

static uint32_t wants(void *context, const char *suffix, uint64_t decoded_nbytes)
{
    const struct psti_making *making = context;
    return making->inner.wants(making->inner.context, suffix, decoded_nbytes);
}

enum pst_status psti_dataset_walk_count(void *context, struct pst_error *err)
{
    struct psti_making *making = context;
    making->progress.n_done++;
    return making->progress.n_done % 4096 == 0
               ? psti_dataset_saved_tell(making->saved, &making->progress, err)
               : PST_OK;
}

/* Stores where a sample begins, to compare it later with another program's index. */
static enum pst_status note_start(struct psti_making *making, uint64_t start, struct pst_error *err)
{
    if (making->n_starts == making->starts_capacity) {
        size_t capacity = making->starts_capacity == 0 ? 1024 : 2 * making->starts_capacity;
        uint64_t *starts = psti_realloc(making->starts, capacity * sizeof *starts);
        if (starts == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to look at an index");
        making->starts = starts;
        making->starts_capacity = capacity;
    }
    making->starts[making->n_starts++] = start;
    return PST_OK;
}

static enum pst_status take(void *context, const struct psti_sample *sample, struct pst_error *err)
{
    struct psti_making *making = context;
    if (making->record != NULL)
        psti_containers_record_writer_sample(making->record, sample);
    if (making->list.shards[making->i_shard].index != NULL) {
        enum pst_status status = note_start(making, sample->parts[0].header, err);
        if (status != PST_OK)
            return status;
    }
    if (psti_containers_list_excludes(&making->list, making->i_shard, sample->key))
        return PST_OK;
    enum pst_status status = psti_dataset_walk_count(making, err);
    return status == PST_OK ? making->inner.take(making->inner.context, sample, err) : status;
}

/* Hashes pieces that are spread evenly over the file, with XXH3. */
static enum pst_status sample_bytes(int fd, uint64_t nbytes, const char *path, uint64_t *hash,
                                    struct pst_error *err)
{
    struct psti_hash_state state;
    uint8_t piece[SAMPLED_NBYTES];
    psti_hash_begin(&state);
    for (uint64_t i = 0; i < SAMPLED_PIECES; i++) {
        uint64_t last = nbytes > SAMPLED_NBYTES ? nbytes - SAMPLED_NBYTES : 0;
        uint64_t at = last / (SAMPLED_PIECES - 1) * i;
        ssize_t n = psti_read_at(fd, piece, sizeof piece, i + 1 == SAMPLED_PIECES ? last : at);
        if (n < 0)
            return psti_fail_os(err, errno, ROOM, path, (int64_t)at, "cannot read the file");
        psti_hash_update(&state, piece, (size_t)n);
    }
    *hash = psti_hash_end(&state);
    return PST_OK;
}

/* Logs how other programs' indexes differ from what the walk over the file has found. */
static void compare_foreign(const struct psti_making *making, const char *path,
                            const struct psti_walk_counts *counts)
{
    const struct psti_container_shard *shard = &making->list.shards[making->i_shard];
    char index[PATH_MAX];
    struct pst_error notice;
    if (shard->n_samples >= 0 && (uint64_t)shard->n_samples != counts->n_samples)
        psti_log(PST_LOG_WARNING, ROOM,
                 "%s has %" PRIu64 " samples, the index of another software states %" PRId64, path,
                 counts->n_samples, shard->n_samples);
    if (shard->index == NULL)
        return;
    int n = snprintf(index, sizeof index, "%s/%s", making->base, shard->index);
    pst_error_clear(&notice);
    if (n > 0 && (size_t)n < sizeof index &&
        !psti_containers_foreign_check(index, making->starts, making->n_starts, &notice))
        psti_log(PST_LOG_WARNING, ROOM, "%s, beside %s: %s", index, shard->path, notice.text);
}

/* A file that reports progress when it is read. Samples are known only at the end of a walk, so the
 * bytes read measure the progress. */
struct told_file {
    int fd; /* first member, because the source holds its address */
    uint32_t n_reads;
    struct psti_making *making;
    uint64_t nbytes_before; /* bytes of the files before this one */
    enum pst_status status; /* result of the last report: PST_ERROR_CANCELLED ends the walk */
    struct pst_error why;
};

static ssize_t read_and_tell(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    struct told_file *file = context;
    struct psti_making *making = file->making;
    if (file->status == PST_OK && file->n_reads++ % READS_TOLD == 0) {
        making->progress.nbytes_in = file->nbytes_before + offset;
        file->status = psti_dataset_saved_tell(making->saved, &making->progress, &file->why);
    }
    if (file->status == PST_OK)
        return psti_read_at(file->fd, bytes, nbytes, offset);
    errno = ECANCELED;
    return -1;
}

/* Walks over a file with the function of its kind. */
static enum pst_status walk_told(struct psti_making *making, const char *path, int fd,
                                 uint64_t nbytes, struct psti_walk_counts *counts,
                                 struct pst_error *err)
{
    const struct psti_kind *kind = psti_dataset_walk_kind(making);
    struct psti_sample_taker taker = {.wants = wants, .take = take, .context = making};
    struct told_file file = {
        .fd = fd, .making = making, .nbytes_before = making->progress.nbytes_in};
    struct psti_walk_source source = psti_containers_source_file(&file.fd, nbytes, path);
    source.read = read_and_tell;
    source.context = &file;
    enum pst_status status =
        kind->has_members
            ? psti_containers_walk(&source, kind->kind, &taker, counts, err)
            : kind->walk(&source, &making->notes.notes, making->table.columns, counts, err);
    making->progress.nbytes_in = file.nbytes_before + nbytes;
    if (status != PST_OK && file.status != PST_OK) {
        status = file.status;
        if (err != NULL)
            *err = file.why;
    }
    if (status != PST_OK && err != NULL && err->file[0] == '\0')
        psti_error_set_file(err, path);
    return status;
}

struct psti_sample_taker psti_dataset_walk_taker(struct psti_making *making)
{
    return (struct psti_sample_taker){.wants = wants, .take = take, .context = making};
}

void psti_dataset_walk_judge(const struct psti_making *making, const char *path,
                             const struct psti_walk_counts *counts)
{
    if (counts->has_no_end)
        psti_log(PST_LOG_WARNING, ROOM,
                 "%s ends without the blocks that end a tar: it may have been cut between two "
                 "members",
                 path);
    compare_foreign(making, path, counts);
}

enum pst_status psti_dataset_walk_open(struct psti_making *making, struct psti_walk_shard *shard,
                                       struct pst_error *err)
{
    shard->counts = (struct psti_walk_counts){0};
    int n = snprintf(shard->path, sizeof shard->path, "%s/%s", making->base,
                     making->list.shards[making->i_shard].path);
    if (n < 0 || (size_t)n >= sizeof shard->path)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "the path of a file is too long");
    enum pst_status status =
        psti_open_data(shard->path, ROOM, "the file", &shard->fd, &shard->st, err);
    if (status != PST_OK)
        return status;
    shard->stamp = psti_stamp_make(&shard->st, psti_stamp_has_inodes(shard->path));
    status = sample_bytes(shard->fd, (uint64_t)shard->st.st_size, shard->path, &shard->sampled_hash,
                          err);
    if (status != PST_OK)
        close(shard->fd);
    return status;
}

enum pst_status psti_dataset_walk_over(struct psti_making *making, struct psti_walk_shard *shard,
                                       struct pst_error *err)
{
    enum pst_status status = PST_OK;
    making->n_starts = 0;
    if (!psti_dataset_walk_kind(making)->has_members)
        status = psti_dataset_walk_find_notes(making, making->i_shard, err);
    if (status == PST_OK)
        status = walk_told(making, shard->path, shard->fd, (uint64_t)shard->st.st_size,
                           &shard->counts, err);
    if (status == PST_OK)
        psti_dataset_walk_judge(making, shard->path, &shard->counts);
    return status;
}

enum pst_status psti_dataset_walk_close(struct psti_making *making, struct psti_walk_shard *shard,
                                        enum pst_status status, struct pst_error *err)
{
    struct stat after;
    if (status == PST_OK && (fstat(shard->fd, &after) != 0 ||
                             !psti_stamp_is(psti_stamp_make(&shard->st, false), &after)))
        status = psti_fail_at(err, PST_ERROR_STATE, ROOM, shard->path, -1,
                              "the file changed while its index was made");
    close(shard->fd);
    return status == PST_OK ? psti_dataset_saved_tell(making->saved, &making->progress, err)
                            : status;
}
