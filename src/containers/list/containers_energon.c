/* containers_energon.c - reads the folder .nv-meta of a Megatron-Energon data set.
 *
 * In: three small untrusted files. Out: shards with their sample counts, excluded samples, fields.
 * Names are looked up in shard_counts by binary search. */
#include "containers/list/containers_energon.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "containers/list/containers_pattern.h"
#include "containers/list/containers_shards.h"
#include "containers/list/containers_tree.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define ROOM "containers"
enum {
    MAX_EXCLUDED = 1 << 18,
    MAX_WORK = 1 << 28, /* limit of `work` for patterns of split.yaml; real files have only a few
                         * patterns */
};

/* A shard that shard_counts lists. */
struct counted {
    const char *name; /* the tree's */
    int64_t n_samples;
    size_t i; /* position in shard_counts */
    bool is_excluded, is_taken;
};

struct energon {
    struct psti_container_list *list;
    const char *folder;
    struct psti_container_home home;
    uint64_t work; /* names that were compared or expanded so far */
    char info_path[PATH_MAX], split_path[PATH_MAX];
    struct psti_tree info, splits;
    struct counted *counted; /* sorted by name */
    size_t *order;           /* indices into `counted`, in the order of shard_counts */
    size_t n;
    struct psti_container_names excluded; /* "SHARD/KEY" */
    struct pst_error *err;
};

static bool has_file(const char *folder, const char *name, char path[PATH_MAX])
{
    struct stat st;
    return psti_containers_join(folder, name, path, NULL) == PST_OK && stat(path, &st) == 0 &&
           S_ISREG(st.st_mode);
}

static bool find_info(const char *folder, char path[PATH_MAX])
{
    return has_file(folder, ".nv-meta/.info.json", path) ||
           has_file(folder, ".nv-meta/.info.yaml", path);
}

bool psti_containers_energon_is(const char *folder)
{
    char path[PATH_MAX];
    return find_info(folder, path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct counted *)a)->name, ((const struct counted *)b)->name);
}

/* Reads the shards and sample counts of shard_counts. */
static enum pst_status read_counts(struct energon *energon)
{
    const struct psti_tree *tree = &energon->info;
    const struct psti_tree_node *counts = NULL, *node;
    enum pst_status status = psti_containers_tree_file(&energon->info, energon->info_path,
                                                       "Energon's list of shards", energon->err);
    if (status == PST_OK)
        status =
            psti_containers_tree_entry(tree, tree->nodes, "shard_counts", &counts, energon->err);
    if (status != PST_OK)
        return status;
    if (counts == NULL || counts->kind != PSTI_TREE_MAP)
        return psti_containers_tree_bad(tree, counts == NULL ? tree->nodes : counts, energon->err,
                                        "\"shard_counts\" must be a map of shards");
    energon->counted = psti_alloc_array(tree->n, sizeof *energon->counted);
    energon->order = psti_alloc_array(tree->n, sizeof *energon->order);
    if (energon->counted == NULL || energon->order == NULL)
        return psti_fail(energon->err, PST_ERROR_MEMORY, ROOM, "out of memory for %zu shards",
                         tree->n);
    for (node = psti_containers_tree_first(tree, counts); node != NULL;
         node = psti_containers_tree_next(tree, node)) {
        struct counted counted = {.name = node->key, .i = energon->n};
        if (!psti_containers_tree_number(node, &counted.n_samples))
            return psti_containers_tree_bad(tree, node, energon->err,
                                            "the number of samples of '%.200s' must be a whole "
                                            "number",
                                            node->key);
        energon->counted[energon->n++] = counted;
    }
    if (energon->n > 1)
        qsort(energon->counted, energon->n, sizeof *energon->counted, by_name);
    for (size_t i = 0; i < energon->n; i++) {
        energon->order[energon->counted[i].i] = i;
        if (i > 0 && strcmp(energon->counted[i - 1].name, energon->counted[i].name) == 0)
            return psti_containers_tree_bad(tree, counts, energon->err,
                                            "'%.200s' stands twice in \"shard_counts\"",
                                            energon->counted[i].name);
    }
    return PST_OK;
}

static struct counted *find(struct energon *energon, const char *name)
{
    struct counted key = {.name = name};
    return energon->n == 0 ? NULL
                           : bsearch(&key, energon->counted, energon->n, sizeof key, by_name);
}

/* Adds to the work that patterns cause. Fails if it exceeds MAX_WORK. */
static enum pst_status spend(struct energon *energon, uint64_t work)
{
    energon->work += work;
    return energon->work <= MAX_WORK
               ? PST_OK
               : psti_fail_at(energon->err, PST_ERROR_LIMIT, ROOM, energon->split_path, -1,
                              "the patterns of the file mean too many names");
}

/* Adds a shard to the list. */
static enum pst_status take(struct energon *energon, struct counted *counted, int32_t i_split)
{
    char path[PATH_MAX];
    if (counted->is_excluded || counted->is_taken)
        return PST_OK;
    counted->is_taken = true;
    if (psti_containers_is_packed_name(counted->name))
        return psti_containers_refuse_packed(counted->name, energon->err);
    enum pst_status status =
        psti_containers_shards_below(&energon->home, counted->name, path, energon->err);
    return status == PST_OK ? psti_containers_shards_add(energon->list, path, counted->n_samples,
                                                         i_split, energon->err)
                            : status;
}

/* Adds the shards that one name or pattern of split.yaml matches. */
static enum pst_status take_named(struct energon *energon, const struct psti_tree_node *node,
                                  const char *name, int32_t i_split)
{
    enum pst_status status = PST_OK;
    struct counted *counted = find(energon, name);
    size_t n = 0;
    if (counted != NULL) {
        if (counted->is_taken)
            return psti_containers_tree_bad(&energon->splits, node, energon->err,
                                            "'%.200s' stands twice in its split", name);
        return take(energon, counted, i_split);
    }
    bool is_pattern = psti_containers_has_wildcard(name);
    if (is_pattern)
        status = spend(energon, energon->n);
    for (size_t i = 0; i < energon->n && is_pattern && status == PST_OK; i++) {
        counted = &energon->counted[energon->order[i]];
        if (!psti_containers_matches(name, counted->name))
            continue;
        status = take(energon, counted, i_split);
        n++;
    }
    return status != PST_OK || n > 0
               ? status
               : psti_containers_tree_bad(&energon->splits, node, energon->err,
                                          "'%.200s' is no shard of \"shard_counts\"", name);
}

/* Adds the shards of a split, which is a list of names and patterns. */
static enum pst_status take_split(struct energon *energon, const struct psti_tree_node *part,
                                  int32_t i_split)
{
    const struct psti_tree *tree = &energon->splits;
    enum pst_status status = PST_OK;
    if (part->kind != PSTI_TREE_LIST && !psti_containers_tree_is_null(part))
        return psti_containers_tree_bad(tree, part, energon->err,
                                        "split '%.100s' must be a list of shards", part->key);
    for (const struct psti_tree_node *node = psti_containers_tree_first(tree, part);
         node != NULL && status == PST_OK; node = psti_containers_tree_next(tree, node)) {
        struct psti_container_names names = {0};
        if (node->kind != PSTI_TREE_SCALAR)
            return psti_containers_tree_bad(tree, node, energon->err, "a name is expected");
        status = psti_containers_braces(node->text, energon->n + 1, &names, energon->err);
        for (size_t i = 0; i < names.n && status == PST_OK; i++)
            status = take_named(energon, node, names.at[i], i_split);
        psti_containers_paths_free(&names);
    }
    return status;
}

/* Reads the list of excluded shards and samples. Names that match no shard are ignored, as Energon
 * does. */
static enum pst_status read_excluded(struct energon *energon)
{
    const struct psti_tree *tree = &energon->splits;
    const struct psti_tree_node *list = NULL, *node;
    struct psti_container_names names = {0};
    enum pst_status status =
        psti_containers_tree_entry(tree, tree->nodes, "exclude", &list, energon->err);
    if (status != PST_OK || list == NULL || psti_containers_tree_is_null(list))
        return status;
    if (list->kind != PSTI_TREE_LIST)
        return psti_containers_tree_bad(tree, list, energon->err, "\"exclude\" must be a list");
    for (node = psti_containers_tree_first(tree, list); node != NULL && status == PST_OK;
         node = psti_containers_tree_next(tree, node)) {
        if (node->kind != PSTI_TREE_SCALAR)
            return psti_containers_tree_bad(tree, node, energon->err, "a name is expected");
        status = psti_containers_braces(node->text, MAX_EXCLUDED, &names, energon->err);
        if (status == PST_OK)
            status = spend(energon, 64 * names.n);
        for (size_t i = 0; i < names.n && status == PST_OK; i++) {
            struct counted *counted = find(energon, names.at[i]);
            if (counted != NULL)
                counted->is_excluded = true;
            else if (strchr(names.at[i], '/') != NULL && energon->excluded.n < MAX_EXCLUDED)
                status = psti_containers_paths_add(&energon->excluded, names.at[i],
                                                   strlen(names.at[i]), energon->err);
            else if (energon->excluded.n == MAX_EXCLUDED)
                status = psti_fail_at(energon->err, PST_ERROR_LIMIT, ROOM, energon->split_path, -1,
                                      "more than %d samples are left out", MAX_EXCLUDED);
        }
        psti_containers_paths_free(&names);
    }
    return status;
}

static int by_shard_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A shard of the list, sorted by its name for look-ups. */
struct listed {
    const char *name;
    uint32_t i_shard;
};

/* Splits "SHARD/KEY" at a slash, so that the part before it is the longest that names a shard.
 * Returns the slash, or NULL if no part names a shard. */
static char *split_sample(struct energon *energon, char *name)
{
    char *slash = strrchr(name, '/'), *next;
    for (; slash != NULL; slash = next) {
        *slash = '\0';
        if (find(energon, name) != NULL)
            return slash;
        next = strrchr(name, '/');
        *slash = '/';
    }
    return NULL;
}

/* Finds the shard of each excluded sample. */
static enum pst_status place_excluded(struct energon *energon)
{
    const struct psti_container_list *list = energon->list;
    enum pst_status status = PST_OK;
    char path[PATH_MAX];
    if (energon->excluded.n == 0)
        return PST_OK;
    struct listed *listed = psti_alloc_array(list->n_shards + 1, sizeof *listed);
    if (listed == NULL)
        return psti_fail(energon->err, PST_ERROR_MEMORY, ROOM, "out of memory for %zu shards",
                         list->n_shards);
    for (size_t i = 0; i < list->n_shards; i++)
        listed[i] = (struct listed){list->shards[i].path, (uint32_t)i};
    if (list->n_shards > 1)
        qsort(listed, list->n_shards, sizeof *listed, by_shard_name);
    for (size_t i = 0; i < energon->excluded.n && status == PST_OK; i++) {
        char *name = energon->excluded.at[i];
        const struct listed *found = NULL;
        char *slash = split_sample(energon, name);
        if (slash == NULL || psti_containers_join(energon->folder, name, path, NULL) != PST_OK)
            continue;
        psti_containers_shards_normalise(path, path);
        struct listed key = {path, 0};
        found = bsearch(&key, listed, list->n_shards, sizeof key, by_shard_name);
        if (found != NULL)
            status = psti_containers_shards_exclude(energon->list, found->i_shard, slash + 1,
                                                    energon->err);
    }
    psti_free(listed);
    return status;
}

/* Chooses the split: the one the user asked for, or the only one that has shards. */
static enum pst_status choose(struct energon *energon, const struct psti_tree_node *parts,
                              const char *split, int32_t *i_split, bool *is_all)
{
    const struct psti_tree *tree = &energon->splits;
    struct psti_container_list *list = energon->list;
    size_t n = 0;
    *i_split = PSTI_SPLIT_NONE;
    *is_all = false;
    for (const struct psti_tree_node *part = psti_containers_tree_first(tree, parts); part != NULL;
         part = psti_containers_tree_next(tree, part)) {
        enum pst_status status =
            psti_containers_paths_add(&list->splits, part->key, strlen(part->key), energon->err);
        if (status != PST_OK)
            return status;
        if (part->kind != PSTI_TREE_SCALAR ? part->first == 0 : psti_containers_tree_is_null(part))
            continue;
        *i_split = (int32_t)list->splits.n - 1;
        n++;
    }
    if (split == NULL)
        return n == 1 ? PST_OK
                      : psti_containers_splits_fail(
                            &list->splits, PST_ERROR_ARGUMENT,
                            "the data set of Energon has several splits, or none with shards: "
                            "choose one",
                            energon->err);
    enum pst_status status =
        psti_containers_splits_choose(&list->splits, split, i_split, energon->err);
    *is_all = *i_split == PSTI_SPLIT_NONE && strcasecmp(split, "all") == 0;
    if (status == PST_OK && *i_split == PSTI_SPLIT_NONE && !*is_all) {
        char what[256];
        struct psti_text text = {what, sizeof what, 0};
        psti_text_add(&text, "the data set of Energon has no split '%.100s'", split);
        status =
            psti_containers_splits_fail(&list->splits, PST_ERROR_NOT_FOUND, what, energon->err);
    }
    return status;
}

/* Adds the shards of the requested split, as split.yaml names them. */
static enum pst_status take_shards(struct energon *energon, const char *split, bool *done)
{
    static const char *const names[] = {".nv-meta/split.yaml", ".nv-meta/split.json"};
    const struct psti_tree *tree = &energon->splits;
    const struct psti_tree_node *parts = NULL, *part;
    bool is_all = true, has = has_file(energon->folder, names[0], energon->split_path) ||
                              has_file(energon->folder, names[1], energon->split_path);
    int32_t i_split = PSTI_SPLIT_NONE;
    enum pst_status status = PST_OK;
    if (has) {
        status = psti_containers_tree_file(&energon->splits, energon->split_path,
                                           "Energon's list of splits", energon->err);
        if (status == PST_OK)
            status =
                psti_containers_tree_entry(tree, tree->nodes, "split_parts", &parts, energon->err);
        if (status == PST_OK && (parts == NULL || parts->kind != PSTI_TREE_MAP))
            status =
                psti_containers_tree_bad(tree, parts == NULL ? tree->nodes : parts, energon->err,
                                         "\"split_parts\" must be a map of splits");
        if (status == PST_OK)
            status = read_excluded(energon);
        if (status == PST_OK)
            status = choose(energon, parts, split, &i_split, &is_all);
    }
    if (status == PST_OK && !is_all) {
        const char *name = energon->list->splits.at[i_split];
        status = psti_containers_tree_entry(tree, parts, name, &part, energon->err);
        if (status == PST_OK)
            status = take_split(energon, part, i_split);
        energon->list->split = status == PST_OK ? psti_strdup(name) : NULL;
        if (status == PST_OK && energon->list->split == NULL)
            status = psti_fail(energon->err, PST_ERROR_MEMORY, ROOM, "out of memory for a name");
    }
    for (size_t i = 0; i < energon->n && is_all && status == PST_OK; i++)
        status = take(energon, &energon->counted[energon->order[i]], PSTI_SPLIT_NONE);
    *done = has;
    return status;
}

/* Reads the fields of dataset.yaml. */
static enum pst_status read_fields(struct energon *energon)
{
    static const char *const functions[] = {"sample_loader", "part_filter"};
    char path[PATH_MAX];
    struct psti_tree tree;
    const struct psti_tree_node *node = NULL, *map = NULL;
    if (!has_file(energon->folder, ".nv-meta/dataset.yaml", path))
        return PST_OK;
    enum pst_status status =
        psti_containers_tree_file(&tree, path, "Energon's description", energon->err);
    for (size_t i = 0; i < 2 && status == PST_OK; i++) {
        status = psti_containers_tree_entry(&tree, tree.nodes, functions[i], &node, energon->err);
        if (status == PST_OK && node != NULL && !psti_containers_tree_is_null(node))
            status = psti_fail_at(energon->err, PST_ERROR_UNSUPPORTED, ROOM, path, -1,
                                  "\"%s\" names a Python function, '%.100s', which is not run: "
                                  "name the shards by a pattern to read their parts as they are",
                                  functions[i], node->text);
    }
    if (status == PST_OK)
        status = psti_containers_tree_entry(&tree, tree.nodes, "field_map", &map, energon->err);
    if (status == PST_OK && map != NULL && !psti_containers_tree_is_null(map)) {
        if (map->kind != PSTI_TREE_MAP)
            status = psti_containers_tree_bad(&tree, map, energon->err,
                                              "\"field_map\" must be a map of fields");
        for (node = psti_containers_tree_first(&tree, map); node != NULL && status == PST_OK;
             node = psti_containers_tree_next(&tree, node))
            status = node->kind == PSTI_TREE_SCALAR
                         ? psti_containers_shards_field(energon->list, node->key, node->text,
                                                        energon->err)
                         : psti_containers_tree_bad(&tree, node, energon->err,
                                                    "a field must be one suffix");
    }
    psti_containers_tree_free(&tree);
    return status;
}

enum pst_status psti_containers_energon_add(struct psti_container_list *list, const char *folder,
                                            const char *split, bool *done, struct pst_error *err)
{
    struct energon *energon = psti_calloc(1, sizeof *energon);
    if (energon == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a list of shards");
    energon->list = list;
    energon->folder = folder;
    energon->home.folder = folder;
    energon->home.index = energon->info_path;
    energon->err = err;
    list->is_energon = true;
    enum pst_status status = find_info(folder, energon->info_path)
                                 ? PST_OK
                                 : psti_fail_at(err, PST_ERROR_NOT_FOUND, ROOM, folder, -1,
                                                "Energon's list of shards is gone");
    if (status == PST_OK)
        status = psti_containers_shards_home(&energon->home, err);
    if (status == PST_OK)
        status = read_counts(energon);
    if (status == PST_OK)
        status = read_fields(energon);
    if (status == PST_OK)
        status = take_shards(energon, split, done);
    if (status == PST_OK)
        status = place_excluded(energon);
    psti_containers_tree_free(&energon->info);
    psti_containers_tree_free(&energon->splits);
    psti_free(energon->counted);
    psti_free(energon->order);
    psti_containers_paths_free(&energon->excluded);
    psti_free(energon);
    return status;
}
