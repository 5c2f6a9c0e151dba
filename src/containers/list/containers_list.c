/* containers_list.c - makes the list of shards from what the user names.
 *
 * In: the user's texts, folders and small index files. Out: paths below one folder, in order.
 *
 * First each text adds its shards, with paths relative to the current folder. Then the shards of
 * one split are kept, paths are made relative to the shards' common folder, and the first bytes of
 * the first shard tell the kind of all. */
#include "containers/list/containers_list.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "containers/list/containers_energon.h"
#include "containers/list/containers_hub_folder.h"
#include "containers/list/containers_mds_index.h"
#include "containers/list/containers_meant.h"
#include "containers/list/containers_pattern.h"
#include "containers/containers_kinds.h"
#include "containers/list/containers_shards.h"
#include "containers/list/containers_wids.h"
#include "format/format_dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM "containers"

struct gather {
    struct psti_container_list *list;
    const char *split;
    bool is_alone;      /* the user gave one text, and it is one path */
    bool has_own_split; /* Energon's files determined the split */
    bool needs_split;   /* a folder was given, so a split must be named if it has several */
    struct pst_error *err;
};

void psti_containers_list_close(struct psti_container_list *list)
{
    for (size_t i = 0; i < list->n_shards; i++) {
        psti_free(list->shards[i].path);
        psti_free(list->shards[i].index);
    }
    for (size_t i = 0; i < list->n_excluded; i++)
        psti_free(list->excluded[i].key);
    for (size_t i = 0; i < list->n_fields; i++) {
        psti_free(list->fields[i].name);
        psti_free(list->fields[i].source);
    }
    psti_free(list->base);
    psti_free(list->shards);
    psti_free(list->split);
    psti_free(list->excluded);
    psti_free(list->fields);
    psti_containers_paths_free(&list->splits);
    memset(list, 0, sizeof *list);
}

/* True if a text begins with the scheme of a URL: "s3://", "file://". */
static bool has_scheme(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return n > 1 && strncmp(text + n, "://", 3) == 0;
}

static enum pst_status refuse_remote(const char *text, struct pst_error *err)
{
    if (strncmp(text, "pipe:", 5) == 0)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM,
                         "'%.200s' is a command, which is not run: copy the shards to a file "
                         "system, and name them there",
                         text);
    if (has_scheme(text))
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM,
                         "'%.200s' is a URL: copy the shards to a file system, or mount them, and "
                         "name them there",
                         text);
    return PST_OK;
}

/* Sets the folder that all paths are relative to, if one path is all that the user gave. */
static enum pst_status set_base(struct gather *gather, const char *path, size_t nbytes)
{
    struct psti_container_list *list = gather->list;
    if (!gather->is_alone)
        return PST_OK;
    list->base = psti_alloc(nbytes + 1);
    if (list->base == NULL)
        return psti_fail(gather->err, PST_ERROR_MEMORY, ROOM, "out of memory for a path");
    memcpy(list->base, path, nbytes);
    list->base[nbytes] = '\0';
    psti_containers_shards_normalise(list->base, list->base);
    return PST_OK;
}

/* Refuses a compressed tar, unless the same tar lies beside it uncompressed. */
static enum pst_status check_packed(struct gather *gather, const char *folder,
                                    const struct psti_container_names *names, const char *name)
{
    char plain[PATH_MAX];
    const char *dot = strrchr(name, '.');
    struct psti_text text = {plain, sizeof plain, 0};
    psti_text_add(&text, "%.*s", (int)(dot - name), name);
    if (!psti_containers_ends_with(plain, ".tar"))
        psti_text_add(&text, ".tar");
    if (psti_containers_paths_has(names, plain))
        return PST_OK;
    enum pst_status status = psti_containers_join(folder, name, plain, gather->err);
    return status == PST_OK ? psti_containers_refuse_packed(plain, gather->err) : status;
}

static enum pst_status fail_kinds(const char *folder, enum psti_container_kind a,
                                  enum psti_container_kind b, struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_ARGUMENT, ROOM, folder, -1,
                        "the folder holds both *%s and *%s: name those that are meant by a pattern",
                        psti_containers_kind(a)->ends[0], psti_containers_kind(b)->ends[0]);
}

/* Adds the shards that lie directly in a folder. *kind: kind of all of them. */
static enum pst_status add_named(struct gather *gather, const char *folder,
                                 const struct psti_container_names *names, int32_t i_split,
                                 enum psti_container_kind *kind)
{
    enum pst_status status = PST_OK;
    char path[PATH_MAX];
    for (size_t i = 0; i < names->n && status == PST_OK; i++) {
        enum psti_container_kind other = psti_containers_kind_of_name(names->at[i]);
        if (psti_containers_is_packed_name(names->at[i]))
            status = check_packed(gather, folder, names, names->at[i]);
        if (status != PST_OK || other == PSTI_CONTAINER_NONE)
            continue;
        if (*kind != PSTI_CONTAINER_NONE && other != *kind)
            return fail_kinds(folder, *kind < other ? *kind : other, *kind < other ? other : *kind,
                              gather->err);
        *kind = other;
        status = psti_containers_join(folder, names->at[i], path, gather->err);
        if (status == PST_OK)
            status = psti_containers_shards_add(gather->list, path, -1, i_split, gather->err);
    }
    return status;
}

/* Adds the shards that lie directly in a folder. `names` may include folders of splits too. If the
 * folder has an index of MosaicML, that states order and sample counts, and shards in folders
 * below. */
static enum pst_status add_files(struct gather *gather, const char *folder,
                                 const struct psti_container_names *names, int32_t i_split)
{
    enum psti_container_kind kind = PSTI_CONTAINER_NONE;
    size_t n_before = gather->list->n_shards;
    bool is_index = false;
    if (psti_containers_paths_has(names, PSTI_INDEX_NAME))
        return psti_fail_at(gather->err, PST_ERROR_ARGUMENT, ROOM, folder, -1,
                            "this is a data set of Penstock: open it as it is");
    enum pst_status status = add_named(gather, folder, names, i_split, &kind);
    if (status != PST_OK || (kind != PSTI_CONTAINER_NONE && kind != PSTI_CONTAINER_MDS) ||
        !psti_containers_paths_has(names, PSTI_MDS_INDEX_NAME))
        return status;
    psti_containers_shards_cut(gather->list, n_before);
    status = psti_containers_mds_index_add(gather->list, folder, i_split,
                                           kind == PSTI_CONTAINER_NONE, &is_index, gather->err);
    return status == PST_OK && !is_index && kind != PSTI_CONTAINER_NONE
               ? add_named(gather, folder, names, i_split, &kind)
               : status;
}

/* Lists a folder and adds its shards. *names: the entries that were found. */
static enum pst_status add_level(struct gather *gather, const char *folder, int32_t i_split,
                                 struct psti_container_names *names)
{
    enum pst_status status =
        psti_containers_folder(folder, psti_containers_takes_shards, NULL, names, gather->err);
    psti_containers_paths_sort(names);
    return status == PST_OK ? add_files(gather, folder, names, i_split) : status;
}

/* Adds the shards that lie in a folder's subfolders for splits. */
static enum pst_status add_split_folders(struct gather *gather, const char *folder,
                                         const struct psti_container_names *names)
{
    enum pst_status status = PST_OK;
    for (size_t i = 0; i < names->n && status == PST_OK; i++) {
        char path[PATH_MAX];
        struct psti_container_names inner = {0};
        struct stat st;
        int32_t i_split;
        size_t n_before = gather->list->n_shards;
        if (!psti_containers_is_split_name(names->at[i]))
            continue;
        status = psti_containers_join(folder, names->at[i], path, gather->err);
        if (status != PST_OK || stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
            continue;
        status = add_level(gather, path, PSTI_SPLIT_NONE, &inner);
        psti_containers_paths_free(&inner);
        if (status == PST_OK && gather->list->n_shards > n_before)
            status =
                psti_containers_splits_intern(gather->list, names->at[i], &i_split, gather->err);
        for (size_t k = n_before; k < gather->list->n_shards && status == PST_OK; k++)
            gather->list->shards[k].i_split = i_split;
    }
    return status;
}

static enum pst_status add_folder(struct gather *gather, const char *path)
{
    struct psti_container_names names = {0};
    size_t n_before = gather->list->n_shards;
    enum pst_status status = set_base(gather, path, strlen(path));
    if (status != PST_OK)
        return status;
    if (psti_containers_energon_is(path)) {
        if (!gather->is_alone)
            return psti_fail_at(gather->err, PST_ERROR_UNSUPPORTED, ROOM, path, -1,
                                "a folder of Energon must be named alone: it has splits and "
                                "excluded samples of its own");
        return psti_containers_energon_add(gather->list, path, gather->split,
                                           &gather->has_own_split, gather->err);
    }
    gather->needs_split = gather->is_alone;
    if (psti_containers_hub_is(path))
        return psti_containers_hub_add(gather->list, path, gather->split, gather->err);
    status = add_level(gather, path, PSTI_SPLIT_NONE, &names);
    if (status == PST_OK && gather->list->n_shards == n_before)
        status = add_split_folders(gather, path, &names);
    if (status == PST_OK && gather->list->n_shards == n_before) {
        char ends[160];
        struct psti_text text = {ends, sizeof ends, 0};
        psti_containers_kinds_say(&text, "no *", " and ");
        status = psti_fail_at(gather->err, PST_ERROR_NOT_FOUND, ROOM, path, -1,
                              "the folder holds %s", ends);
    }
    psti_containers_paths_free(&names);
    return status;
}

/* Adds the shards that an index of another program lists. The file's name tells whether it is
 * MosaicML's index or one of wids. */
static enum pst_status add_index(struct gather *gather, const char *path, size_t n_folder)
{
    char folder[PATH_MAX];
    bool is_mds = false;
    enum pst_status status = PST_OK;
    if (psti_containers_kind(PSTI_CONTAINER_MDS) != NULL && n_folder < sizeof folder &&
        strcmp(path + n_folder, PSTI_MDS_INDEX_NAME) == 0) {
        memcpy(folder, path, n_folder);
        folder[n_folder] = '\0';
        status = psti_containers_mds_index_add(gather->list, folder, PSTI_SPLIT_NONE, false,
                                               &is_mds, gather->err);
    }
    return status != PST_OK || is_mds ? status
                                      : psti_containers_wids_add(gather->list, path, gather->err);
}

/* Adds the shards for a path that exists. */
static enum pst_status add_path(struct gather *gather, const char *path, const struct stat *st)
{
    size_t n_folder = (size_t)(psti_containers_base_name(path) - path);
    if (S_ISDIR(st->st_mode))
        return add_folder(gather, path);
    if (!S_ISREG(st->st_mode))
        return psti_fail_at(gather->err, PST_ERROR_UNSUPPORTED, ROOM, path, -1,
                            "this is neither a file nor a folder");
    if (psti_containers_is_packed_name(path))
        return psti_containers_refuse_packed(path, gather->err);
    if (psti_containers_ends_with(path, ".yaml") || psti_containers_ends_with(path, ".yml"))
        return psti_fail_at(gather->err, PST_ERROR_UNSUPPORTED, ROOM, path, -1,
                            "mixtures of data sets in YAML are not read: open each data set by "
                            "itself");
    enum pst_status status = set_base(gather, path, n_folder);
    if (status != PST_OK)
        return status;
    return psti_containers_ends_with(path, ".json")
               ? add_index(gather, path, n_folder)
               : psti_containers_shards_add(gather->list, path, -1, PSTI_SPLIT_NONE, gather->err);
}

/* Adds the files of known kinds that a pattern with wildcards matches. */
static enum pst_status add_matches(struct gather *gather, const char *pattern)
{
    struct psti_container_names found = {0};
    size_t n = 0;
    enum pst_status status = psti_containers_glob(pattern, &found, gather->err);
    for (size_t i = 0; i < found.n && status == PST_OK; i++) {
        struct stat st;
        bool is_packed = psti_containers_is_packed_name(found.at[i]);
        if ((!is_packed && psti_containers_kind_of_name(found.at[i]) == PSTI_CONTAINER_NONE) ||
            stat(found.at[i], &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        status = add_path(gather, found.at[i], &st);
        n++;
    }
    if (status == PST_OK && n == 0) {
        char ends[160];
        struct psti_text text = {ends, sizeof ends, 0};
        psti_containers_kinds_say(&text, "", " or ");
        status = psti_fail(gather->err, PST_ERROR_NOT_FOUND, ROOM,
                           "'%.200s' matches no file that ends in %s", pattern, ends);
    }
    psti_containers_paths_free(&found);
    return status;
}

/* Adds the shards of one piece of a text, which is split at "::". */
static enum pst_status add_piece(struct gather *gather, const char *piece)
{
    struct psti_container_names names = {0};
    struct stat st;
    enum pst_status status = refuse_remote(piece, gather->err);
    if (status == PST_OK && stat(piece, &st) == 0)
        return add_path(gather, piece, &st);
    gather->is_alone = false;
    if (status == PST_OK)
        status = psti_containers_braces(piece, PSTI_CONTAINERS_MAX_SHARDS, &names, gather->err);
    for (size_t i = 0; i < names.n && status == PST_OK; i++) {
        const char *name = names.at[i];
        status = refuse_remote(name, gather->err);
        if (status == PST_OK && stat(name, &st) == 0)
            status = add_path(gather, name, &st);
        else if (status == PST_OK && psti_containers_has_wildcard(name))
            status = add_matches(gather, name);
        else if (status == PST_OK)
            status = psti_fail_os(gather->err, errno, ROOM, name, -1,
                                  names.n > 1 ? "cannot examine a shard of '%.200s'"
                                              : "cannot examine '%.200s'",
                                  piece);
    }
    psti_containers_paths_free(&names);
    return status;
}

static enum pst_status add_text(struct gather *gather, const char *text)
{
    struct stat st;
    enum pst_status status = refuse_remote(text, gather->err);
    if (status != PST_OK)
        return status;
    if (strstr(text, "::") == NULL || stat(text, &st) == 0)
        return add_piece(gather, text);
    gather->is_alone = false;
    for (const char *at = text; at != NULL && status == PST_OK;) {
        const char *end = strstr(at, "::");
        struct psti_container_names piece = {0};
        size_t n = end == NULL ? strlen(at) : (size_t)(end - at);
        if (n == 0)
            return psti_fail(gather->err, PST_ERROR_ARGUMENT, ROOM,
                             "a path is missing beside the :: of '%.200s'", text);
        status = psti_containers_paths_add(&piece, at, n, gather->err);
        if (status == PST_OK)
            status = add_piece(gather, piece.at[0]);
        psti_containers_paths_free(&piece);
        at = end == NULL ? NULL : end + 2;
    }
    return status;
}

/* Returns the length of a path's folder, without the last slash unless it is the root. */
static size_t folder_length(const char *path)
{
    size_t n = (size_t)(psti_containers_base_name(path) - path);
    return n > 1 ? n - 1 : n;
}

/* True if the first n bytes of `path` name a folder above `other`. */
static bool is_above(const char *path, size_t n, const char *other)
{
    return strncmp(path, other, n) == 0 &&
           (n == 0 ? other[0] != '/' : (path[n - 1] == '/' || other[n] == '/'));
}

/* Returns the length of the common folder of all shards, within the first one's path; -1: there is
 * none. */
static int64_t common_length(const struct psti_container_list *list)
{
    const char *first = list->shards[0].path;
    size_t n = folder_length(first);
    for (size_t i = 0; i < list->n_shards; i++) {
        const char *path = list->shards[i].path;
        while (!is_above(first, n, path)) {
            if (n == 0 || (n == 1 && first[0] == '/'))
                return -1;
            do
                n--;
            while (n > 0 && first[n] != '/');
            n += n == 0 && first[0] == '/';
        }
    }
    for (size_t i = 0; i < list->n_shards; i++) {
        const char *rest = list->shards[i].path + n;
        if (strncmp(rest, "../", 3) == 0 || strstr(rest, "/../") != NULL)
            return -1;
    }
    return (int64_t)n;
}

/* Replaces the folder in each path by its real path, without links. */
static enum pst_status resolve(struct psti_container_list *list, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (size_t i = 0; i < list->n_shards && status == PST_OK; i++) {
        char real[PATH_MAX], joined[PATH_MAX], *path = list->shards[i].path;
        const char *name = psti_containers_base_name(path);
        size_t n = (size_t)(name - path);
        memcpy(joined, path, n);
        joined[n] = '\0';
        if (realpath(n == 0 ? "." : joined, real) == NULL)
            return psti_fail_os(err, errno, ROOM, path, -1, "cannot examine the folder");
        status = psti_containers_join(real, name, joined, err);
        char *resolved = status == PST_OK ? psti_strdup(joined) : NULL;
        if (status == PST_OK && resolved == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a path");
        if (status == PST_OK) {
            psti_free(path);
            list->shards[i].path = resolved;
        }
    }
    return status;
}

/* Makes all paths relative to the list's base folder. */
static enum pst_status cut_base(struct psti_container_list *list, struct pst_error *err)
{
    const char *first = list->shards[0].path;
    int64_t n = list->base != NULL ? (int64_t)strlen(list->base) : common_length(list);
    if (n < 0) {
        enum pst_status status = resolve(list, err);
        if (status != PST_OK)
            return status;
        first = list->shards[0].path;
        n = common_length(list);
    }
    if (n < 0)
        return psti_fail_at(err, PST_ERROR_INTERNAL, ROOM, first, -1, "shards without a folder");
    if (list->base == NULL) {
        list->base = psti_alloc((size_t)n + 2);
        if (list->base == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a path");
        memcpy(list->base, first, (size_t)n);
        list->base[n] = '\0';
    }
    for (size_t i = 0; i < list->n_shards; i++) {
        char *path = list->shards[i].path, *rest = path + n;
        rest += *rest == '/';
        memmove(path, rest, strlen(rest) + 1);
    }
    return PST_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum pst_status refuse_twice(const struct psti_container_list *list, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    const char **paths = psti_alloc_array(list->n_shards, sizeof *paths);
    if (paths == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for %zu paths",
                         list->n_shards);
    for (size_t i = 0; i < list->n_shards; i++)
        paths[i] = list->shards[i].path;
    qsort(paths, list->n_shards, sizeof *paths, by_path);
    for (size_t i = 1; i < list->n_shards && status == PST_OK; i++)
        if (strcmp(paths[i - 1], paths[i]) == 0)
            status = psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "the shard '%.200s' is meant twice",
                               paths[i]);
    psti_free(paths);
    return status;
}

/* Finds by the first bytes of a file whether it is a zip or a tar. */
static enum pst_status look_at_bytes(struct psti_container_list *list, struct pst_error *err)
{
    char path[PATH_MAX], bytes[4] = "";
    struct stat st;
    int fd;
    enum pst_status status = psti_containers_join(list->base, list->shards[0].path, path, err);
    if (status == PST_OK)
        status = psti_open_data(path, ROOM, "the shard", &fd, &st, err);
    if (status != PST_OK)
        return status;
    if (psti_read_at(fd, bytes, sizeof bytes, 0) < 0)
        status = psti_fail_os(err, errno, ROOM, path, 0, "cannot read the shard");
    close(fd);
    bool is_zip = memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "PK\5\6", 4) == 0;
    list->kind = is_zip ? PSTI_CONTAINER_ZIP : PSTI_CONTAINER_TAR;
    return status;
}

/* Finds the kind of all shards from the first one: a table by its name, a tar or zip by its first
 * bytes. */
static enum pst_status find_kind(struct psti_container_list *list, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    list->kind = psti_containers_kind_of_name(list->shards[0].path);
    if (list->kind == PSTI_CONTAINER_NONE || psti_containers_kind(list->kind)->has_members)
        status = look_at_bytes(list, err);
    for (size_t i = 1; i < list->n_shards && status == PST_OK; i++) {
        enum psti_container_kind kind = psti_containers_kind_of_name(list->shards[i].path);
        if (kind != PSTI_CONTAINER_NONE && kind != list->kind)
            status = psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                               "'%.100s' is a %s, and '%.100s' is not: open them by themselves",
                               list->shards[0].path, psti_containers_kind(list->kind)->name,
                               list->shards[i].path);
    }
    return status;
}

static int by_sample(const void *a, const void *b)
{
    const struct psti_container_excluded *x = a, *y = b;
    return x->i_shard != y->i_shard ? (x->i_shard < y->i_shard ? -1 : 1) : strcmp(x->key, y->key);
}

static enum pst_status finish(struct gather *gather)
{
    struct psti_container_list *list = gather->list;
    enum pst_status status = PST_OK;
    if (!gather->has_own_split)
        status =
            psti_containers_splits_apply(list, gather->split, gather->needs_split, gather->err);
    if (status == PST_OK && list->n_shards == 0)
        return psti_fail(gather->err, PST_ERROR_NOT_FOUND, ROOM, "no shard is meant");
    if (status == PST_OK)
        status = cut_base(list, gather->err);
    if (status == PST_OK)
        status = refuse_twice(list, gather->err);
    if (status == PST_OK)
        status = find_kind(list, gather->err);
    if (status == PST_OK && list->n_excluded > 1)
        qsort(list->excluded, list->n_excluded, sizeof *list->excluded, by_sample);
    return status;
}

enum pst_status psti_containers_list_open(const char *const *texts, size_t n, const char *split,
                                          struct psti_container_list *list, struct pst_error *err)
{
    struct gather gather = {.list = list, .split = split, .is_alone = n == 1, .err = err};
    enum pst_status status = PST_OK;
    memset(list, 0, sizeof *list);
    for (size_t i = 0; i < n && status == PST_OK; i++)
        status = add_text(&gather, texts[i]);
    if (status == PST_OK)
        status = finish(&gather);
    if (status != PST_OK)
        psti_containers_list_close(list);
    return status;
}

enum pst_status psti_containers_list_indexes(struct psti_container_list *list,
                                             struct pst_error *err)
{
    for (size_t i = 0; i < list->n_shards; i++) {
        struct psti_container_shard *shard = &list->shards[i];
        char name[PATH_MAX], path[PATH_MAX];
        size_t n = strlen(shard->path);
        if (shard->index != NULL || !psti_containers_ends_with(shard->path, ".tar"))
            continue;
        for (size_t n_kept = n; n_kept + 4 >= n; n_kept -= 4) { /* first "a.tar.idx", then
                                                                 * "a.idx" */
            struct psti_text text = {name, sizeof name, 0};
            struct stat st;
            psti_text_add(&text, "%.*s.idx", (int)n_kept, shard->path);
            if (text.length >= sizeof name ||
                psti_containers_join(list->base, name, path, NULL) != PST_OK ||
                stat(path, &st) != 0 || !S_ISREG(st.st_mode))
                continue;
            shard->index = psti_strdup(name);
            if (shard->index == NULL)
                return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a path");
            break;
        }
    }
    return PST_OK;
}

bool psti_containers_list_excludes(const struct psti_container_list *list, uint32_t i_shard,
                                   const char *key)
{
    struct psti_container_excluded wanted = {i_shard, NULL};
    size_t low = 0, high = list->n_excluded;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct psti_container_excluded *excluded = &list->excluded[middle];
        int order = excluded->i_shard != wanted.i_shard
                        ? (excluded->i_shard < wanted.i_shard ? -1 : 1)
                        : strcmp(excluded->key, key);
        if (order == 0)
            return true;
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}
