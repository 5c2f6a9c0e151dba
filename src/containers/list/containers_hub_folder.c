/* containers_hub_folder.c - reads the small JSON files of saved and cached data sets of `datasets`.
 *
 * In: state.json, dataset_dict.json, dataset_info.json, all untrusted. Out: shards with their
 * splits. */
#include "containers/list/containers_hub_folder.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "containers/list/containers_hub_int.h"
#include "containers/list/containers_tree.h"

#include <string.h>

#define ROOM "containers"
#define STATE "state.json"
#define DICT "dataset_dict.json"
#define INFO "dataset_info.json"

/* Parses a JSON file of the folder. Messages name that file from now on. path must outlive the
 * tree. */
static enum pst_status read_tree(struct psti_hub_folder *hub, const char *folder, const char *name,
                                 char path[PATH_MAX], struct psti_tree *tree)
{
    memset(tree, 0, sizeof *tree);
    enum pst_status status = psti_containers_join(folder, name, path, hub->err);
    hub->home.index = path;
    if (status == PST_OK)
        status = psti_containers_tree_file(tree, path, "the description of the data set", hub->err);
    return status;
}

/* True for a JSON value that is neither null nor empty. */
static bool has_any(const struct psti_tree_node *node)
{
    return node != NULL && !psti_containers_tree_is_null(node) &&
           (node->kind == PSTI_TREE_SCALAR || node->first != 0);
}

/* Refuses a data set whose rows are selected and ordered by a list of indices. */
static enum pst_status refuse_indices(const struct psti_hub_folder *hub,
                                      const struct psti_tree *tree)
{
    static const char *const keys[] = {"_indices_files", "_indices_data_files"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct psti_tree_node *node = NULL;
        enum pst_status status =
            psti_containers_tree_entry(tree, tree->nodes, keys[i], &node, hub->err);
        if (status != PST_OK)
            return status;
        if (has_any(node))
            return psti_fail_at(hub->err, PST_ERROR_UNSUPPORTED, ROOM, tree->path, -1,
                                "the rows are chosen by a list of indices, which is not read: save "
                                "the data set anew by ds.flatten_indices().save_to_disk(path)");
    }
    return PST_OK;
}

/* Adds the files that state.json lists. prefix: folder below the home that their names are relative
 * to: "" or "NAME/". */
static enum pst_status add_files(struct psti_hub_folder *hub, const struct psti_tree *tree,
                                 const char *prefix, int32_t i_split)
{
    const struct psti_tree_node *files = NULL, *name = NULL;
    enum pst_status status =
        psti_containers_tree_entry(tree, tree->nodes, "_data_files", &files, hub->err);
    if (status == PST_OK && (files == NULL || files->kind != PSTI_TREE_LIST))
        return psti_containers_tree_bad(tree, tree->nodes, hub->err,
                                        "\"_data_files\" must be a list of files");
    if (status == PST_OK && files->first == 0)
        return psti_fail_at(hub->err, PST_ERROR_NOT_FOUND, ROOM, tree->path, -1,
                            "the data set has no file");
    if (status != PST_OK)
        return status;
    for (const struct psti_tree_node *node = psti_containers_tree_first(tree, files);
         node != NULL && status == PST_OK; node = psti_containers_tree_next(tree, node)) {
        char joined[PATH_MAX];
        status = psti_containers_tree_entry(tree, node, "filename", &name, hub->err);
        if (status == PST_OK && (name == NULL || name->kind != PSTI_TREE_SCALAR || name->is_plain ||
                                 name->text[0] == '\0'))
            return psti_containers_tree_bad(tree, node, hub->err,
                                            "\"filename\" must be the name of a file");
        /* A prefix would turn an absolute path into one below the folder, so absolute paths keep
         * their form and are refused later. */
        bool is_absolute = status == PST_OK && name->text[0] == '/';
        if (status == PST_OK && !is_absolute)
            status = psti_containers_join(prefix, name->text, joined, hub->err);
        if (status == PST_OK)
            status = psti_containers_hub_shard(hub, is_absolute ? name->text : joined, i_split);
    }
    return status;
}

/* Adds a saved data set. name: its folder below the home; "" for the home itself. split: the split
 * that dataset_dict.json states; NULL: the data set's own. */
static enum pst_status add_saved(struct psti_hub_folder *hub, const char *name, const char *split)
{
    char folder[PATH_MAX], path[PATH_MAX];
    struct psti_tree tree = {0};
    const struct psti_tree_node *own = NULL;
    int32_t i_split = PSTI_SPLIT_NONE;
    enum pst_status status = psti_containers_join(hub->home.folder, name, folder, hub->err);
    if (status == PST_OK)
        status = read_tree(hub, folder, STATE, path, &tree);
    if (status == PST_OK)
        status = psti_containers_tree_entry(&tree, tree.nodes, "_split", &own, hub->err);
    if (status == PST_OK)
        status = refuse_indices(hub, &tree);
    if (split == NULL && own != NULL && own->kind == PSTI_TREE_SCALAR && !own->is_plain)
        split = own->text;
    if (status == PST_OK && split != NULL && split[0] != '\0')
        status = psti_containers_splits_intern(hub->list, split, &i_split, hub->err);
    if (status == PST_OK)
        status = add_files(hub, &tree, name, i_split);
    psti_containers_tree_free(&tree);
    return status;
}

/* Adds the shards of all data sets (one for each split) of a saved DatasetDict. */
static enum pst_status add_dict(struct psti_hub_folder *hub)
{
    char path[PATH_MAX];
    struct psti_tree tree = {0};
    const struct psti_tree_node *splits = NULL, *node;
    int32_t i_split;
    enum pst_status status = read_tree(hub, hub->home.folder, DICT, path, &tree);
    if (status == PST_OK)
        status = psti_containers_tree_entry(&tree, tree.nodes, "splits", &splits, hub->err);
    if (status == PST_OK && (splits == NULL || splits->kind != PSTI_TREE_LIST))
        status = psti_containers_tree_bad(&tree, tree.nodes, hub->err,
                                          "\"splits\" must be a list of names");
    if (status == PST_OK && splits->first == 0)
        status = psti_fail_at(hub->err, PST_ERROR_NOT_FOUND, ROOM, path, -1,
                              "the data set has no split");
    for (node = status == PST_OK ? psti_containers_tree_first(&tree, splits) : NULL;
         node != NULL && status == PST_OK; node = psti_containers_tree_next(&tree, node)) {
        if (node->kind != PSTI_TREE_SCALAR || node->text[0] == '\0' ||
            strchr(node->text, '/') != NULL || strcmp(node->text, "..") == 0)
            status =
                psti_containers_tree_bad(&tree, node, hub->err, "the name of a split is expected");
        else
            status = psti_containers_splits_intern(hub->list, node->text, &i_split, hub->err);
    }
    for (node = status == PST_OK ? psti_containers_tree_first(&tree, splits) : NULL;
         node != NULL && status == PST_OK; node = psti_containers_tree_next(&tree, node))
        if (psti_containers_hub_wants(hub, node->text))
            status = add_saved(hub, node->text, node->text);
    psti_containers_tree_free(&tree);
    return status;
}

static bool takes_arrow(void *context, const char *name, bool is_folder)
{
    (void)context;
    return !is_folder && psti_containers_ends_with(name, ".arrow") &&
           strncmp(name, "cache-", 6) != 0;
}

/* True if the folder has Arrow files of the cache of `datasets`. */
static bool has_arrow(const char *folder)
{
    struct psti_container_names names = {0};
    bool has =
        psti_containers_folder(folder, takes_arrow, NULL, &names, NULL) == PST_OK && names.n > 0;
    psti_containers_paths_free(&names);
    return has;
}

/* True if a file's name without its ending ends with "-SPLIT". */
static bool is_of_split(const char *name, size_t n, const char *split)
{
    size_t n_split = strlen(split);
    return n > n_split && name[n - n_split - 1] == '-' &&
           strncmp(name + n - n_split, split, n_split) == 0;
}

/* Adds the files of one split of a cached data set. All of its numbered files must exist. */
static enum pst_status add_cached_split(struct psti_hub_folder *hub,
                                        const struct psti_container_names *names, const char *split)
{
    int32_t i_split = PSTI_SPLIT_NONE;
    uint32_t n_found = 0, n_wanted = 0;
    enum pst_status status = psti_containers_splits_intern(hub->list, split, &i_split, hub->err);
    for (size_t k = 0; k < names->n && status == PST_OK; k++) {
        size_t n;
        uint32_t total;
        psti_containers_hub_stem(names->at[k], &n, &total);
        if (!is_of_split(names->at[k], n, split))
            continue;
        n_wanted = total > n_wanted ? total : n_wanted;
        n_found++;
        if (psti_containers_hub_wants(hub, split))
            status = psti_containers_hub_shard(hub, names->at[k], i_split);
    }
    if (status == PST_OK && n_found > 0 && n_wanted > 0 && n_found != n_wanted)
        status = psti_fail_at(hub->err, PST_ERROR_NOT_FOUND, ROOM, hub->home.index, -1,
                              "the split '%.60s' has %u files of %u: make the cache anew", split,
                              n_found, n_wanted);
    return status;
}

/* Adds the files of a folder in the cache of `datasets`. */
static enum pst_status add_cache(struct psti_hub_folder *hub)
{
    char path[PATH_MAX];
    struct psti_tree tree = {0};
    struct psti_container_names names = {0};
    const struct psti_tree_node *splits = NULL, *node = NULL;
    int32_t i_split;
    size_t n_before = hub->list->n_shards;
    enum pst_status status = read_tree(hub, hub->home.folder, INFO, path, &tree);
    if (status == PST_OK)
        status = psti_containers_tree_entry(&tree, tree.nodes, "splits", &splits, hub->err);
    if (status == PST_OK)
        status = psti_containers_folder(hub->home.folder, takes_arrow, NULL, &names, hub->err);
    psti_containers_paths_sort(&names);
    bool has_splits = status == PST_OK && splits != NULL && splits->kind == PSTI_TREE_MAP;
    /* The first pass collects the names of all splits, because the user's word for a split is
     * compared with all of them. The second pass adds files. */
    for (int pass = 0; pass < 2; pass++)
        for (node = has_splits ? psti_containers_tree_first(&tree, splits) : NULL;
             node != NULL && status == PST_OK; node = psti_containers_tree_next(&tree, node))
            status = pass == 0
                         ? psti_containers_splits_intern(hub->list, node->key, &i_split, hub->err)
                         : add_cached_split(hub, &names, node->key);
    for (size_t i = 0; i < names.n && !has_splits && status == PST_OK; i++)
        status = psti_containers_hub_shard(hub, names.at[i], PSTI_SPLIT_NONE);
    if (status == PST_OK && hub->list->n_shards == n_before)
        status = psti_fail_at(hub->err, PST_ERROR_NOT_FOUND, ROOM, path, -1,
                              "no *.arrow beside this file is of a split that it names");
    psti_containers_tree_free(&tree);
    psti_containers_paths_free(&names);
    return status;
}

bool psti_containers_hub_is(const char *folder)
{
    char path[PATH_MAX];
    if (psti_containers_hub_has(folder, DICT, path))
        return true;
    if (psti_containers_hub_has(folder, INFO, path) &&
        (psti_containers_hub_has(folder, STATE, path) || has_arrow(folder)))
        return true;
    return psti_containers_hub_is_repository(folder);
}

enum pst_status psti_containers_hub_add(struct psti_container_list *list, const char *folder,
                                        const char *split, struct pst_error *err)
{
    char path[PATH_MAX];
    struct psti_hub_folder *hub = psti_calloc(1, sizeof *hub);
    if (hub == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a list of shards");
    hub->list = list;
    hub->split = split;
    hub->home.folder = hub->home.index = folder;
    hub->err = err;
    enum pst_status status = psti_containers_shards_home(&hub->home, err);
    if (status == PST_OK && psti_containers_hub_has(folder, DICT, path))
        status = add_dict(hub);
    else if (status == PST_OK && psti_containers_hub_has(folder, STATE, path))
        status = add_saved(hub, "", NULL);
    else if (status == PST_OK && psti_containers_hub_has(folder, INFO, path) && has_arrow(folder))
        status = add_cache(hub);
    else if (status == PST_OK)
        status = psti_containers_hub_repository(hub);
    psti_free(hub);
    return status;
}
