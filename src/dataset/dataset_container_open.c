/* dataset_container_open.c - finds or makes the index of other people's files, and opens it.
 *
 * In: the text by which a user means shards, a split, rules of fields. Out: a data set. The index
 * is looked for beside the data and in the cache folder (dataset_saved.h). If there is none, or a
 * file changed since, one process walks over all files, and the others wait for it. */
#include "dataset/dataset_container.h"

#include "dataset/dataset_saved.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "base/files/stamp.h"
#include "base/hash.h"
#include "base/log.h"
#include "containers/containers_kinds.h"
#include "containers/containers_walk.h"
#include "containers/containers_writer.h"
#include "containers/list/containers_foreign.h"
#include "containers/list/containers_list.h"
#include "dataset/dataset_table.h"
#include "format/format_container.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM "dataset"
enum {
    SAMPLED_PIECES = 16, /* of a file, that enter the identity of the bytes */
    SAMPLED_NBYTES = 4096,
    TRIES = 3,       /* to make an index of files that change meanwhile */
    READS_TOLD = 16, /* reads of a walk between two tellings of progress */
};

/* All that it takes to find or make one index. */
struct making {
    const char *text; /* what the user means */
    const struct pst_dataset_options *options;
    struct psti_container_list list;
    struct psti_field_rule *rules; /* [n_rules]: the user's, and those of the list */
    uint32_t n_rules;
    char base[PATH_MAX];            /* the absolute folder of the files */
    char path[PATH_MAX];            /* what the data set calls itself */
    char name[PSTI_SAVED_NAME_CAP]; /* of the index */
    uint8_t digest[16];             /* of shards, rules and exclusions */
    struct psti_saved *saved;
    uint32_t i_shard; /* that is walked */
    uint64_t *starts; /* [n_starts]: where its samples begin, if others made an index of it */
    size_t n_starts, starts_capacity;
    struct psti_sample_taker inner;  /* takes the samples that are not left out */
    struct psti_dataset_table table; /* of kinds that are tables */
    struct psti_dataset_notes notes; /* beside the shard */
    struct pst_progress progress;    /* in bytes: the number of samples is not known before */
    bool was_made;
};

static void close_making(struct making *making)
{
    psti_dataset_saved_close(&making->saved);
    psti_containers_list_close(&making->list);
    psti_dataset_notes_free(&making->notes);
    psti_free(making->rules);
    psti_free(making->starts);
}

/* The kind of all shards, which the list has found. */
static const struct psti_kind *kind_of(const struct making *making)
{
    return psti_containers_kind(making->list.kind);
}

/* What is asked for ---------------------------------------------------------- */

static bool has_rule(const struct making *making, const char *suffix)
{
    for (uint32_t i = 0; i < making->n_rules; i++)
        if (strcasecmp(making->rules[i].suffix, suffix) == 0)
            return true;
    return false;
}

/* The user's rules come first; Energon's field_map gives names to what they do not speak of. */
static enum pst_status take_rules(struct making *making, struct pst_error *err)
{
    const struct pst_dataset_options *options = making->options;
    const struct psti_container_list *list = &making->list;
    making->rules = psti_calloc(options->n_members + list->n_fields + 1, sizeof *making->rules);
    if (making->rules == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for rules of fields");
    for (size_t i = 0; i < options->n_members; i++) {
        const struct pst_member_rule *rule = &options->members[i];
        making->rules[making->n_rules++] =
            (struct psti_field_rule){.suffix = rule->suffix,
                                     .field = rule->field,
                                     .type = rule->type,
                                     .is_left_out = rule->is_left_out,
                                     .n_classes = rule->n_classes};
    }
    for (size_t i = 0; i < list->n_fields; i++) {
        const char *source = list->fields[i].source;
        if (strchr(source, '[') == NULL && !has_rule(making, source))
            making->rules[making->n_rules++] =
                (struct psti_field_rule){.suffix = source, .field = list->fields[i].name};
    }
    return PST_OK;
}

static void hash_text(struct psti_hash_pair *hash, const char *text)
{
    uint8_t is_there = text != NULL;
    psti_hash_pair_update(hash, &is_there, 1);
    if (text != NULL)
        psti_hash_pair_update(hash, text, strlen(text) + 1);
}

static void hash_number(struct psti_hash_pair *hash, uint64_t number)
{
    uint8_t bytes[8];
    psti_store_u64(bytes, number);
    psti_hash_pair_update(hash, bytes, sizeof bytes);
}

static void hash_rules(const struct making *making, struct psti_hash_pair *hash)
{
    hash_number(hash, making->n_rules);
    for (uint32_t i = 0; i < making->n_rules; i++) {
        const struct psti_field_rule *rule = &making->rules[i];
        hash_text(hash, rule->suffix);
        hash_text(hash, rule->field);
        hash_number(hash, (uint64_t)rule->type);
        hash_number(hash, rule->is_left_out);
        hash_number(hash, (uint64_t)rule->n_classes);
    }
}

/* True if such a file is one for each shard, with its name. NULL: there are none. */
static bool is_of_shard(const char *notes) { return notes != NULL && notes[0] == '.'; }

/* Reads what lies beside the shard for its walk. */
static enum pst_status find_notes(struct making *making, size_t i_shard, struct pst_error *err)
{
    const struct psti_kind *kind = kind_of(making);
    const char *shard = making->list.shards[i_shard].path;
    if (!is_of_shard(kind->notes[0]))
        return psti_dataset_notes_find(&making->notes, kind->notes, making->base, shard, err);
    psti_dataset_notes_beside(&making->notes, kind->notes[0], making->base, shard);
    return PST_OK;
}

/* Adds the bytes of all files beside the shards that the walks depend on. Shards of one folder are
 * neighbours. */
static enum pst_status hash_notes(struct making *making, struct psti_hash_pair *hash,
                                  struct pst_error *err)
{
    const char *const *names = kind_of(making)->notes;
    uint64_t n_before = 0;
    enum pst_status status = PST_OK;
    if (names[0] == NULL || is_of_shard(names[0]))
        return PST_OK;
    for (size_t i = 0; status == PST_OK && i < making->list.n_shards; i++) {
        status = find_notes(making, i, err);
        if (status != PST_OK || making->notes.n_folders == n_before)
            continue;
        n_before = making->notes.n_folders;
        hash_number(hash, making->notes.notes.nbytes);
        psti_hash_pair_update(hash, making->notes.notes.bytes, making->notes.notes.nbytes);
    }
    return status;
}

/* The index has the name of what was asked for, so that two ways to see a folder have two indexes,
 * and a folder that grew has one. The digest is of what the list makes of it now. */
static enum pst_status name_index(struct making *making, struct pst_error *err)
{
    const struct psti_container_list *list = &making->list;
    struct psti_hash_pair asked, found;
    uint8_t id[16];
    size_t n = strlen(list->base);
    const char *text = making->text;
    if (strncmp(text, list->base, n) == 0 && (text[n] == '/' || text[n] == 0))
        text += n + (text[n] == '/'); /* the folder may move */
    psti_hash_pair_begin(&asked);
    psti_hash_pair_begin(&found);
    hash_text(&asked, text);
    hash_text(&asked, list->split);
    hash_rules(making, &asked);
    hash_rules(making, &found);
    for (size_t i = 0; i < list->n_shards; i++)
        hash_text(&found, list->shards[i].path);
    for (size_t i = 0; i < list->n_excluded; i++) {
        hash_number(&found, list->excluded[i].i_shard);
        hash_text(&found, list->excluded[i].key);
    }
    enum pst_status status = hash_notes(making, &found, err);
    psti_hash_pair_end(&asked, id);
    psti_hash_pair_end(&found, making->digest);
    snprintf(making->name, sizeof making->name, "%s-%016" PRIx64 ".index", kind_of(making)->name,
             psti_load_u64(id));
    return status;
}

/* A path that exists is the data set's path; what means several files lies in their folder. */
static void call_itself(struct making *making)
{
    const char *text = making->text;
    size_t n = strlen(making->list.base);
    if (realpath(text, making->path) != NULL)
        return;
    bool is_below = strstr(text, "::") == NULL && n > 0 &&
                    strncmp(text, making->list.base, n) == 0 && text[n] == '/';
    snprintf(making->path, sizeof making->path, "%.*s%s%s", PATH_MAX / 2, making->base,
             is_below ? "/" : "", is_below ? text + n + 1 : "");
}

static enum pst_status prepare(struct making *making, struct pst_error *err)
{
    struct psti_saved_wait wait = {.progress = making->options->progress,
                                   .ctx = making->options->progress_ctx};
    enum pst_status status =
        psti_containers_list_open(&making->text, 1, making->options->split, &making->list, err);
    if (status == PST_OK)
        status = take_rules(making, err);
    if (status != PST_OK)
        return status;
    if (realpath(making->list.base[0] != 0 ? making->list.base : ".", making->base) == NULL)
        return psti_fail_os(err, errno, ROOM, making->list.base, -1, "cannot open the folder");
    status = name_index(making, err);
    if (status != PST_OK)
        return status;
    call_itself(making);
    return psti_dataset_saved_open(making->base, making->name, &wait, &making->saved, err);
}

/* The walk over all files ------------------------------------------------------ */

static uint32_t wants(void *context, const char *suffix, uint64_t decoded_nbytes)
{
    const struct making *making = context;
    return making->inner.wants(making->inner.context, suffix, decoded_nbytes);
}

/* Tells of one more sample, now and then. */
static enum pst_status count_sample(void *context, struct pst_error *err)
{
    struct making *making = context;
    making->progress.n_done++;
    return making->progress.n_done % 4096 == 0
               ? psti_dataset_saved_tell(making->saved, &making->progress, err)
               : PST_OK;
}

/* Remembers where a sample begins, for the comparison with the index of others. */
static enum pst_status note_start(struct making *making, uint64_t start, struct pst_error *err)
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
    struct making *making = context;
    if (making->list.shards[making->i_shard].index != NULL) {
        enum pst_status status = note_start(making, sample->parts[0].header, err);
        if (status != PST_OK)
            return status;
    }
    if (psti_containers_list_excludes(&making->list, making->i_shard, sample->key))
        return PST_OK;
    enum pst_status status = count_sample(making, err);
    return status == PST_OK ? making->inner.take(making->inner.context, sample, err) : status;
}

/* XXH3 of pieces of the file, spread over it. */
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

/* Says what the indexes of others state otherwise than the walk over the file has found. */
static void compare_foreign(const struct making *making, const char *path,
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

/* A file that is walked over. Samples are known at its end only, so its reads tell how far the walk
 * is. */
struct told_file {
    int fd; /* the first member, whose address a source of a file is */
    uint32_t n_reads;
    struct making *making;
    uint64_t nbytes_before; /* of the files before */
    enum pst_status status; /* of telling: PST_ERROR_CANCELLED ends the walk */
    struct pst_error why;
};

static ssize_t read_and_tell(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    struct told_file *file = context;
    struct making *making = file->making;
    if (file->status == PST_OK && file->n_reads++ % READS_TOLD == 0) {
        making->progress.nbytes_in = file->nbytes_before + offset;
        file->status = psti_dataset_saved_tell(making->saved, &making->progress, &file->why);
    }
    if (file->status == PST_OK)
        return psti_read_at(file->fd, bytes, nbytes, offset);
    errno = ECANCELED;
    return -1;
}

/* Walks over a file by the way of its kind. */
static enum pst_status walk_told(struct making *making, const char *path, int fd, uint64_t nbytes,
                                 struct psti_walk_counts *counts, struct pst_error *err)
{
    const struct psti_kind *kind = kind_of(making);
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

static enum pst_status walk_file(struct making *making, struct psti_containers_writer *writer,
                                 const char *path, int fd, const struct stat *st,
                                 struct pst_error *err)
{
    const struct psti_container_shard *shard = &making->list.shards[making->i_shard];
    struct psti_walk_counts counts = {0};
    uint64_t sampled = 0, nbytes = (uint64_t)st->st_size;
    making->n_starts = 0;
    enum pst_status status = sample_bytes(fd, nbytes, path, &sampled, err);
    if (status == PST_OK)
        status = psti_containers_writer_file(writer, shard->path, nbytes,
                                             psti_stamp_make(st, psti_stamp_has_inodes(path)),
                                             sampled, err);
    if (status == PST_OK && !kind_of(making)->has_members)
        status = find_notes(making, making->i_shard, err);
    if (status == PST_OK)
        status = walk_told(making, path, fd, nbytes, &counts, err);
    if (status == PST_OK && counts.has_no_end)
        psti_log(PST_LOG_WARNING, ROOM,
                 "%s ends without the blocks that end a tar: it may have been cut between two "
                 "members",
                 path);
    if (status == PST_OK)
        compare_foreign(making, path, &counts);
    return status;
}

static enum pst_status walk_shard(struct making *making, struct psti_containers_writer *writer,
                                  struct pst_error *err)
{
    char path[PATH_MAX];
    struct stat st, after;
    int fd;
    int n = snprintf(path, sizeof path, "%s/%s", making->base,
                     making->list.shards[making->i_shard].path);
    if (n < 0 || (size_t)n >= sizeof path)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "the path of a file is too long");
    enum pst_status status = psti_open_data(path, ROOM, "the file", &fd, &st, err);
    if (status != PST_OK)
        return status;
    status = walk_file(making, writer, path, fd, &st, err);
    if (status == PST_OK &&
        (fstat(fd, &after) != 0 || !psti_stamp_is(psti_stamp_make(&st, false), &after)))
        status = psti_fail_at(err, PST_ERROR_STATE, ROOM, path, -1,
                              "the file changed while its index was made");
    close(fd);
    if (status == PST_OK)
        status = psti_dataset_saved_tell(making->saved, &making->progress, err);
    return status;
}

static enum pst_status walk_shards(struct making *making, struct psti_containers_writer *writer,
                                   struct pst_error *err)
{
    enum pst_status status = psti_containers_list_indexes(&making->list, err);
    making->progress = (struct pst_progress){0};
    for (size_t i = 0; status == PST_OK && i < making->list.n_shards; i++) {
        making->i_shard = (uint32_t)i;
        status = walk_shard(making, writer, err);
    }
    return status;
}

/* Walks over files whose samples have members. */
static enum pst_status walk_members(struct making *making, struct psti_containers_writer *writer,
                                    struct pst_error *err)
{
    struct psti_field_sink sink = psti_containers_writer_sink(writer);
    struct psti_containers_fields *fields = NULL;
    enum pst_status status =
        psti_containers_fields_open(making->rules, making->n_rules, &sink, &fields, err);
    if (status == PST_OK) {
        making->inner = psti_containers_fields_taker(fields);
        status = walk_shards(making, writer, err);
    }
    if (status == PST_OK)
        status = psti_containers_fields_finish(fields, err);
    psti_containers_fields_close(&fields);
    return status;
}

/* Walks over files of rows. */
static enum pst_status walk_tables(struct making *making, struct psti_containers_writer *writer,
                                   struct pst_error *err)
{
    enum pst_status status = psti_dataset_table_open(&making->table, making->rules, making->n_rules,
                                                     writer, count_sample, making, err);
    if (status == PST_OK)
        status = walk_shards(making, writer, err);
    if (status == PST_OK)
        status = psti_containers_columns_finish(making->table.columns, err);
    psti_dataset_table_close(&making->table);
    return status;
}

/* Writes the temporary file, which is not yet the index. */
static enum pst_status write_index(struct making *making, struct pst_error *err)
{
    struct psti_containers_writer *writer = NULL;
    enum pst_status status =
        psti_containers_writer_open(psti_dataset_saved_temporary(making->saved), &writer, err);
    if (status == PST_OK)
        status = kind_of(making)->has_members ? walk_members(making, writer, err)
                                              : walk_tables(making, writer, err);
    if (status == PST_OK)
        status = psti_containers_writer_finish(writer, making->list.kind, making->digest, err);
    psti_containers_writer_close(&writer);
    if (status == PST_OK && making->options->sums)
        status = psti_dataset_container_add_sums(
            making->base, psti_dataset_saved_temporary(making->saved), making->saved, NULL, err);
    return status;
}

static enum pst_status make(struct making *making, struct pst_error *err)
{
    enum pst_status status = write_index(making, err);
    if (status == PST_OK)
        status = psti_dataset_saved_publish(making->saved, err);
    making->was_made = making->was_made || status == PST_OK;
    return status;
}

/* Finding ----------------------------------------------------------------------- */

/* Looks at both places. *out stays NULL if there is no index that fits. One that cannot be read is
 * none: it is made anew. */
static enum pst_status look(struct making *making, pst_dataset **out, struct pst_error *err)
{
    for (unsigned i = 0; i < PSTI_SAVED_N_PLACES && *out == NULL; i++) {
        char why[PST_ERROR_PATH_CAP];
        struct pst_error problem;
        struct stat st;
        bool fits = false;
        const char *path;
        int fd = psti_dataset_saved_find(making->saved, i, &st, &path);
        if (fd < 0)
            continue;
        enum pst_status status = psti_dataset_open_container_index(
            making->path, making->base, path, fd, making->digest, &fits, why, out, &problem);
        if (status == PST_ERROR_MEMORY) {
            if (err != NULL)
                *err = problem;
            return status;
        }
        if (status == PST_OK && fits && making->options->sums &&
            !psti_dataset_container_header(*out)->has_sums) {
            pst_dataset_close(out);
            fits = false;
            snprintf(why, sizeof why, "it has no sums of items");
        }
        if (status != PST_OK)
            psti_log(status == PST_ERROR_UNSUPPORTED ? PST_LOG_INFO : PST_LOG_WARNING, ROOM,
                     "the index %s cannot be used, it is made anew: %s", path, problem.text);
        else if (!fits)
            psti_log(PST_LOG_INFO, ROOM, "the index %s is made anew: %s", path, why);
    }
    return PST_OK;
}

/* Makes the index, at the other place if there is no room at the first. */
static enum pst_status make_somewhere(struct making *making, struct pst_error *err)
{
    enum pst_status status = make(making, err);
    while (status == PST_ERROR_NO_SPACE && psti_dataset_saved_elsewhere(making->saved)) {
        enum psti_saved_turn turn;
        status = psti_dataset_saved_begin(making->saved, &turn, err);
        if (status != PST_OK || turn == PSTI_SAVED_LOOK)
            return status;
        status = make(making, err);
    }
    if (status != PST_OK)
        psti_dataset_saved_end(making->saved);
    return status;
}

static enum pst_status find_or_make(struct making *making, pst_dataset **out, struct pst_error *err)
{
    for (int n = 0;; n++) {
        enum psti_saved_turn turn = PSTI_SAVED_LOOK;
        enum pst_status status = look(making, out, err);
        if (status != PST_OK || *out != NULL)
            return status;
        if (n == TRIES)
            return psti_fail(err, PST_ERROR_STATE, ROOM,
                             "the files change while their index is made");
        status = psti_dataset_saved_begin(making->saved, &turn, err);
        if (status == PST_OK && turn == PSTI_SAVED_MAKE)
            status = make_somewhere(making, err);
        /* Another process took over: it has made one. */
        if (status != PST_OK && (status != PST_ERROR_BUSY || turn != PSTI_SAVED_MAKE))
            return status;
    }
}

/* Checking ---------------------------------------------------------------------- */

/* Opens the temporary file as an index. *out: NULL if a file changed meanwhile. */
static enum pst_status open_temporary(const struct making *making, pst_dataset **out,
                                      struct pst_error *err)
{
    const char *path = psti_dataset_saved_temporary(making->saved);
    char why[PST_ERROR_PATH_CAP];
    struct stat st;
    bool fits;
    int fd;
    enum pst_status status = psti_open_data(path, ROOM, "the new index", &fd, &st, err);
    if (status != PST_OK)
        return status;
    status = psti_dataset_open_container_index(making->path, making->base, path, fd, making->digest,
                                               &fits, why, out, err);
    if (status == PST_OK && !fits)
        return psti_fail(err, PST_ERROR_STATE, ROOM, "while the index was checked, %s", why);
    return status;
}

static bool is_same(const pst_dataset *a, const pst_dataset *b)
{
    return memcmp(a->bytes_identity, b->bytes_identity, sizeof a->bytes_identity) == 0 &&
           memcmp(a->id, b->id, sizeof a->id) == 0 && a->n_samples == b->n_samples &&
           a->samples[0] == b->samples[0] && a->samples[1] == b->samples[1];
}

/* Walks over all files again, and puts the new index in force if it says something else. */
static enum pst_status check(struct making *making, struct psti_container_work *work,
                             pst_dataset **dataset, struct pst_error *err)
{
    enum psti_saved_turn turn = PSTI_SAVED_LOOK;
    pst_dataset *again = NULL;
    enum pst_status status = psti_dataset_saved_begin(making->saved, &turn, err);
    if (status == PST_OK && turn == PSTI_SAVED_LOOK)
        return psti_fail(err, PST_ERROR_STATE, ROOM,
                         "another process made the index anew meanwhile: check again");
    if (status == PST_OK)
        status = write_index(making, err);
    if (status == PST_OK)
        status = open_temporary(making, &again, err);
    if (status == PST_OK && !is_same(*dataset, again)) {
        work->was_wrong = true;
        status = psti_dataset_saved_publish(making->saved, err);
        pst_dataset_close(dataset);
        if (status == PST_OK)
            status = look(making, dataset, err);
        if (status == PST_OK && *dataset == NULL)
            status = psti_fail(err, PST_ERROR_STATE, ROOM, "the files change while they are read");
    }
    pst_dataset_close(&again);
    psti_dataset_saved_end(making->saved);
    return status;
}

enum pst_status psti_dataset_open_container(const char *text,
                                            const struct pst_dataset_options *options,
                                            struct psti_container_work *work, pst_dataset **out,
                                            struct pst_error *err)
{
    struct making making = {.text = text, .options = options};
    *out = NULL;
    enum pst_status status = prepare(&making, err);
    if (status == PST_OK)
        status = find_or_make(&making, out, err);
    if (status == PST_OK && work != NULL) {
        work->was_made = making.was_made;
        if (work->check && !making.was_made)
            status = check(&making, work, out, err);
    }
    if (status != PST_OK)
        pst_dataset_close(out);
    close_making(&making);
    return status;
}
