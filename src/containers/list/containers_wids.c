/* containers_wids.c - reads the index of the package wids (webdataset, wids/wids_specs.py). */
#include "containers/list/containers_wids.h"

#include "base/fail.h"
#include "containers/list/containers_shards.h"

#include <string.h>

#define ROOM "containers"

/* Reads one entry of the shardlist, and passes it to `take`. */
static enum pst_status read_shard(const struct psti_tree *tree, const struct psti_tree_node *node,
                                  psti_wids_take take, void *context, struct pst_error *err)
{
    const struct psti_tree_node *url = NULL, *count = NULL;
    int64_t n_samples = -1;
    enum pst_status status = psti_containers_tree_entry(tree, node, "url", &url, err);
    if (status == PST_OK)
        status = psti_containers_tree_entry(tree, node, "nsamples", &count, err);
    if (status != PST_OK)
        return status;
    if (url == NULL || url->kind != PSTI_TREE_SCALAR || url->is_plain)
        return psti_containers_tree_bad(tree, node, err, "\"url\" must be the path of a shard");
    if (count != NULL && !psti_containers_tree_is_null(count) &&
        !psti_containers_tree_number(count, &n_samples))
        return psti_containers_tree_bad(tree, count, err, "\"nsamples\" must be a whole number");
    return take(context, url->text, n_samples, err);
}

enum pst_status psti_containers_wids_read(const struct psti_tree *tree, psti_wids_take take,
                                          void *context, struct pst_error *err)
{
    static const char *const elsewhere[] = {"datasets", "base"};
    const struct psti_tree_node *root = tree->nodes, *version = NULL, *shards = NULL, *other;
    int64_t number = 0;
    if (root->kind != PSTI_TREE_MAP)
        return psti_containers_tree_bad(tree, root, err, "this is no index of wids");
    enum pst_status status = psti_containers_tree_entry(tree, root, "wids_version", &version, err);
    if (status == PST_OK)
        status = psti_containers_tree_entry(tree, root, "shardlist", &shards, err);
    for (size_t i = 0; i < 2 && status == PST_OK; i++) {
        status = psti_containers_tree_entry(tree, root, elsewhere[i], &other, err);
        if (status == PST_OK && other != NULL)
            return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, tree->path, -1,
                                "\"%s\" leads to other indexes or places, which is not followed: "
                                "name the shards themselves",
                                elsewhere[i]);
    }
    if (status != PST_OK)
        return status;
    if (version == NULL || !psti_containers_tree_number(version, &number) || number != 1)
        return psti_containers_tree_bad(tree, root, err,
                                        "this is no index of wids: \"wids_version\" is not 1");
    if (shards == NULL || shards->kind != PSTI_TREE_LIST)
        return psti_containers_tree_bad(tree, root, err, "\"shardlist\" must be a list");
    for (const struct psti_tree_node *node = psti_containers_tree_first(tree, shards);
         node != NULL && status == PST_OK; node = psti_containers_tree_next(tree, node))
        status = read_shard(tree, node, take, context, err);
    return status;
}

struct target {
    struct psti_container_list *list;
    struct psti_container_home home;
};

static enum pst_status take_shard(void *context, const char *url, int64_t n_samples,
                                  struct pst_error *err)
{
    const struct target *target = context;
    char path[PATH_MAX];
    if (strstr(url, "://") != NULL || strncmp(url, "pipe:", 5) == 0)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, target->home.index, -1,
                            "'%.200s' is not a path: copy the shards to a file system, and name "
                            "them there",
                            url);
    if (psti_containers_is_packed_name(url))
        return psti_containers_refuse_packed(url, err);
    enum pst_status status = psti_containers_shards_below(&target->home, url, path, err);
    return status == PST_OK
               ? psti_containers_shards_add(target->list, path, n_samples, PSTI_SPLIT_NONE, err)
               : status;
}

enum pst_status psti_containers_wids_add(struct psti_container_list *list, const char *path,
                                         struct pst_error *err)
{
    char folder[PATH_MAX];
    size_t n = (size_t)(psti_containers_base_name(path) - path);
    struct target target = {list, {.folder = folder, .index = path}};
    struct psti_tree tree;
    if (n >= sizeof folder)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "'%.200s...' has more than %d bytes", path,
                         PATH_MAX - 1);
    memcpy(folder, path, n);
    folder[n] = '\0';
    size_t n_before = list->n_shards;
    enum pst_status status = psti_containers_tree_file(&tree, path, "the index of wids", err);
    if (status == PST_OK)
        status = psti_containers_shards_home(&target.home, err);
    if (status == PST_OK)
        status = psti_containers_wids_read(&tree, take_shard, &target, err);
    if (status == PST_OK && list->n_shards == n_before)
        status = psti_fail_at(err, PST_ERROR_NOT_FOUND, ROOM, path, -1, "the index names no shard");
    psti_containers_tree_free(&tree);
    return status;
}
