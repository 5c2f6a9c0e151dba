/* dataset_container_open.c - finds or makes the index of other programs' containers, and opens it.
 *
 * In: the text by which the user names shards, a split, rules for fields. Out: a data set. The
 * index is searched beside the data and in the cache folder (dataset_saved.h). If there is none, or
 * if a file changed since, one process walks over all files (walk/dataset_walk_index.c) and the
 * others wait. Alternatively several processes have each walked over a part. */
#include "dataset/dataset_container.h"

#include "dataset/walk/dataset_walk_index.h"
#include "dataset/walk/dataset_walk_record.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "base/log.h"
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
enum { TRIES = 3 }; /* attempts to make an index while files keep changing */

static void close_making(struct psti_making *making)
{
    psti_dataset_saved_close(&making->saved);
    psti_containers_list_close(&making->list);
    psti_dataset_notes_free(&making->notes);
    psti_free(making->rules);
    psti_free(making->starts);
}

/* What is asked for ---------------------------------------------------------- */

static bool has_rule(const struct psti_making *making, const char *suffix)
{
    for (uint32_t i = 0; i < making->n_rules; i++)
        if (strcasecmp(making->rules[i].suffix, suffix) == 0)
            return true;
    return false;
}

/* Joins the rules for fields: the user's rules first, then Energon's field_map for fields that the
 * user's rules do not mention. */
static enum pst_status take_rules(struct psti_making *making, struct pst_error *err)
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

/* Hashes all files beside the shards that the walks depend on. Each folder's file is hashed once,
 * because shards of one folder are adjacent in the list. */
static enum pst_status hash_notes(struct psti_making *making, struct psti_hash_pair *hash,
                                  struct pst_error *err)
{
    uint64_t n_before = 0;
    enum pst_status status = PST_OK;
    if (!psti_dataset_walk_has_notes(making))
        return PST_OK;
    for (size_t i = 0; status == PST_OK && i < making->list.n_shards; i++) {
        status = psti_dataset_walk_find_notes(making, i, err);
        if (status != PST_OK || making->notes.n_folders == n_before)
            continue;
        n_before = making->notes.n_folders;
        psti_dataset_walk_hash_number(hash, making->notes.notes.nbytes);
        psti_hash_pair_update(hash, making->notes.notes.bytes, making->notes.notes.nbytes);
    }
    return status;
}

/* Makes the index's name from a hash of what the user asked for. So two ways to open a folder have
 * two indexes, and a folder that grew keeps one. The digest hashes the shards found now. */
static enum pst_status name_index(struct psti_making *making, struct pst_error *err)
{
    const struct psti_container_list *list = &making->list;
    struct psti_hash_pair asked, found;
    uint8_t id[16];
    size_t n = strlen(list->base);
    const char *text = making->text;
    if (strncmp(text, list->base, n) == 0 && (text[n] == '/' || text[n] == 0))
        text += n + (text[n] == '/'); /* leave out the folder's path, because the folder may be
                                       * moved */
    psti_hash_pair_begin(&asked);
    psti_hash_pair_begin(&found);
    psti_dataset_walk_hash_text(&asked, text);
    psti_dataset_walk_hash_text(&asked, list->split);
    psti_dataset_walk_hash_rules(making, &asked);
    psti_dataset_walk_hash_rules(making, &found);
    for (size_t i = 0; i < list->n_shards; i++)
        psti_dataset_walk_hash_text(&found, list->shards[i].path);
    for (size_t i = 0; i < list->n_excluded; i++) {
        psti_dataset_walk_hash_number(&found, list->excluded[i].i_shard);
        psti_dataset_walk_hash_text(&found, list->excluded[i].key);
    }
    enum pst_status status = hash_notes(making, &found, err);
    psti_hash_pair_end(&asked, id);
    psti_hash_pair_end(&found, making->digest);
    snprintf(making->name, sizeof making->name, "%s-%016" PRIx64 ".index",
             psti_dataset_walk_kind(making)->name, psti_load_u64(id));
    return status;
}

/* Sets the data set's path: the resolved path if `text` is an existing path. Otherwise `text` names
 * several files, and the path is their folder followed by the rest of `text`. */
static void call_itself(struct psti_making *making)
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

static enum pst_status prepare(struct psti_making *making, struct pst_error *err)
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

static enum pst_status make(struct psti_making *making, struct pst_error *err)
{
    enum pst_status status = psti_dataset_walk_index(making, err);
    if (status == PST_OK)
        status = psti_dataset_saved_publish(making->saved, err);
    making->was_made = making->was_made || status == PST_OK;
    return status;
}

/* Finding ----------------------------------------------------------------------- */

/* Searches both places for an index that fits. *out stays NULL if there is none. An index that
 * cannot be read is ignored and made again. */
static enum pst_status look(struct psti_making *making, pst_dataset **out, struct pst_error *err)
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

/* Makes the index, at the second place if the first one has no room. */
static enum pst_status make_somewhere(struct psti_making *making, struct pst_error *err)
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

static enum pst_status find_or_make(struct psti_making *making, pst_dataset **out,
                                    struct pst_error *err)
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
        /* BUSY while this process was the maker: another process took over and has made the
         * index. */
        if (status != PST_OK && (status != PST_ERROR_BUSY || turn != PSTI_SAVED_MAKE))
            return status;
    }
}

/* Checking ---------------------------------------------------------------------- */

/* Opens the temporary file as an index. *out: NULL if a container changed in the meantime. */
static enum pst_status open_temporary(const struct psti_making *making, pst_dataset **out,
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

/* Walks over all files again, and replaces the index if the new one differs. */
static enum pst_status check(struct psti_making *making, struct psti_container_work *work,
                             pst_dataset **dataset, struct pst_error *err)
{
    enum psti_saved_turn turn = PSTI_SAVED_LOOK;
    pst_dataset *again = NULL;
    enum pst_status status = psti_dataset_saved_begin(making->saved, &turn, err);
    if (status == PST_OK && turn == PSTI_SAVED_LOOK)
        return psti_fail(err, PST_ERROR_STATE, ROOM,
                         "another process made the index anew meanwhile: check again");
    if (status == PST_OK)
        status = psti_dataset_walk_index(making, err);
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

/* Makes the records of walks for a part of the files, unless an index exists already. */
static enum pst_status make_part(struct psti_making *making, struct psti_container_work *work,
                                 struct pst_error *err)
{
    pst_dataset *there = NULL;
    enum pst_status status = look(making, &there, err);
    bool is_there = there != NULL;
    pst_dataset_close(&there);
    return status == PST_OK ? psti_dataset_walk_part(making, is_there, work, err) : status;
}

static enum pst_status find_and_check(struct psti_making *making, struct psti_container_work *work,
                                      pst_dataset **out, struct pst_error *err)
{
    enum pst_status status = find_or_make(making, out, err);
    if (status != PST_OK || work == NULL)
        return status;
    work->was_made = making->was_made;
    if (work->merge)
        psti_dataset_walk_remove_records(making);
    return work->check && !making->was_made ? check(making, work, out, err) : PST_OK;
}

enum pst_status psti_dataset_open_container(const char *text,
                                            const struct pst_dataset_options *options,
                                            struct psti_container_work *work, pst_dataset **out,
                                            struct pst_error *err)
{
    struct psti_making making = {
        .text = text, .options = options, .merges = work != NULL && work->merge};
    *out = NULL;
    enum pst_status status = prepare(&making, err);
    if (status == PST_OK)
        status = work != NULL && work->n_parts > 0 ? make_part(&making, work, err)
                                                   : find_and_check(&making, work, out, err);
    if (status != PST_OK)
        pst_dataset_close(out);
    close_making(&making);
    return status;
}
