/* containers_mds_index.c - reads the index of MosaicML Streaming.
 *
 * In: an untrusted JSON file. Out: paths of shards below its folder. The columns it states are
 * checked later, by the walk over the shards. */
#include "containers/list/containers_mds_index.h"

#include "base/fail.h"
#include "containers/list/containers_shards.h"
#include "containers/list/containers_tree.h"

#include <string.h>
#include <sys/stat.h>

#define ROOM "containers"

struct mds_index {
    struct psti_container_list *list;
    struct psti_container_home home;
    int32_t i_split;
    struct psti_tree tree;
    struct pst_error *err;
};

/* Finds "version" and "shards", which each such index has. */
static bool find_parts(const struct psti_tree *tree, const struct psti_tree_node **version,
                       const struct psti_tree_node **shards)
{
    const struct psti_tree_node *root = tree->nodes;
    return root->kind == PSTI_TREE_MAP &&
           psti_containers_tree_entry(tree, root, "version", version, NULL) == PST_OK &&
           psti_containers_tree_entry(tree, root, "shards", shards, NULL) == PST_OK &&
           *version != NULL && *shards != NULL && (*shards)->kind == PSTI_TREE_LIST;
}

bool psti_containers_mds_index_is(const char *folder)
{
    char path[PATH_MAX];
    struct psti_tree tree;
    const struct psti_tree_node *version, *shards;
    if (psti_containers_join(folder, PSTI_MDS_INDEX_NAME, path, NULL) != PST_OK ||
        psti_containers_tree_file(&tree, path, "the index", NULL) != PST_OK)
        return false;
    bool is = find_parts(&tree, &version, &shards);
    psti_containers_tree_free(&tree);
    return is;
}

/* Finds a member of a shard's entry that must be a text or null. *text: NULL if it is null or
 * absent. */
static enum pst_status find_text(const struct mds_index *index, const struct psti_tree_node *map,
                                 const char *key, const char **text)
{
    const struct psti_tree_node *node = NULL;
    *text = NULL;
    enum pst_status status = psti_containers_tree_entry(&index->tree, map, key, &node, index->err);
    if (status != PST_OK || node == NULL || psti_containers_tree_is_null(node))
        return status;
    if (node->kind != PSTI_TREE_SCALAR || node->is_plain)
        return psti_containers_tree_bad(&index->tree, node, index->err, "\"%s\" must be a text",
                                        key);
    *text = node->text;
    return PST_OK;
}

static enum pst_status find_number(const struct mds_index *index, const struct psti_tree_node *map,
                                   const char *key, int64_t *number)
{
    const struct psti_tree_node *node = NULL;
    enum pst_status status = psti_containers_tree_entry(&index->tree, map, key, &node, index->err);
    if (status == PST_OK && (node == NULL || !psti_containers_tree_number(node, number)))
        return psti_containers_tree_bad(&index->tree, node != NULL ? node : map, index->err,
                                        "\"%s\" must be a whole number", key);
    return status;
}

/* Adds a shard, or reports why its file is missing. compression: as the index states; NULL:
 * none. */
static enum pst_status add_there(const struct mds_index *index, const char *name,
                                 const char *compression, int64_t n_samples)
{
    char path[PATH_MAX], joined[PATH_MAX];
    struct stat st;
    enum pst_status status = psti_containers_join(index->home.folder, name, joined, index->err);
    if (status == PST_OK && compression != NULL && stat(joined, &st) != 0)
        return psti_fail_at(index->err, PST_ERROR_UNSUPPORTED, ROOM, index->home.index, -1,
                            "the shard '%.150s' lies there only compressed as a whole (%.60s): "
                            "decompress it beside itself, and leave the index as it is",
                            name, compression);
    if (status == PST_OK)
        status = psti_containers_shards_below(&index->home, name, path, index->err);
    return status == PST_OK ? psti_containers_shards_add(index->list, path, n_samples,
                                                         index->i_split, index->err)
                            : status;
}

static enum pst_status add_shard(const struct mds_index *index, const struct psti_tree_node *entry)
{
    const char *format, *compression, *name = NULL;
    const struct psti_tree_node *raw = NULL;
    int64_t n_samples = -1;
    if (entry->kind != PSTI_TREE_MAP)
        return psti_containers_tree_bad(&index->tree, entry, index->err,
                                        "\"shards\" must be a list of maps");
    enum pst_status status = find_text(index, entry, "format", &format);
    if (status == PST_OK && (format == NULL || strcmp(format, "mds") != 0))
        return psti_fail_at(index->err, PST_ERROR_UNSUPPORTED, ROOM, index->home.index, -1,
                            "a shard has the format '%.60s', and only MDS is read in place: pack "
                            "the data set",
                            format != NULL ? format : "none");
    if (status == PST_OK)
        status = find_text(index, entry, "compression", &compression);
    if (status == PST_OK)
        status = find_number(index, entry, "samples", &n_samples);
    if (status == PST_OK)
        status = psti_containers_tree_entry(&index->tree, entry, "raw_data", &raw, index->err);
    if (status == PST_OK && (raw == NULL || raw->kind != PSTI_TREE_MAP))
        return psti_containers_tree_bad(&index->tree, entry, index->err,
                                        "\"raw_data\" must be a map");
    if (status == PST_OK)
        status = find_text(index, raw, "basename", &name);
    if (status == PST_OK && name == NULL)
        return psti_containers_tree_bad(&index->tree, raw, index->err, "\"basename\" is missing");
    return status == PST_OK ? add_there(index, name, compression, n_samples) : status;
}

static enum pst_status add_shards(struct mds_index *index, bool *is_index)
{
    const struct psti_tree_node *version, *shards;
    int64_t number = 0;
    *is_index = find_parts(&index->tree, &version, &shards);
    if (!*is_index)
        return PST_OK;
    if (!psti_containers_tree_number(version, &number) || number != 2)
        return psti_fail_at(index->err, PST_ERROR_UNSUPPORTED, ROOM, index->home.index, -1,
                            "the index has version %.40s, and 2 is read", version->text);
    enum pst_status status = psti_containers_shards_home(&index->home, index->err);
    for (const struct psti_tree_node *node = psti_containers_tree_first(&index->tree, shards);
         node != NULL && status == PST_OK; node = psti_containers_tree_next(&index->tree, node))
        status = add_shard(index, node);
    return status;
}

enum pst_status psti_containers_mds_index_add(struct psti_container_list *list, const char *folder,
                                              int32_t i_split, bool may_be_other, bool *is_index,
                                              struct pst_error *err)
{
    char path[PATH_MAX];
    struct mds_index index = {
        .list = list, .home = {.folder = folder, .index = path}, .i_split = i_split, .err = err};
    *is_index = false;
    enum pst_status status = psti_containers_join(folder, PSTI_MDS_INDEX_NAME, path, err);
    if (status != PST_OK)
        return status;
    status = psti_containers_tree_file(&index.tree, path, "the index", may_be_other ? NULL : err);
    if (status == PST_OK)
        status = add_shards(&index, is_index);
    else if (may_be_other)
        status = PST_OK;
    psti_containers_tree_free(&index.tree);
    return status;
}
