/* containers_mds_config.c - parses the JSON of an MDS shard, and the shard's entry in index.json.
 *
 * In: untrusted texts. Out: columns, or an error that says what contradicts what. An index.json may
 * have entries for thousands of shards and is given with each of them. So the entry is found by
 * searching the shard's name, and only the text around it is parsed. */
#include "containers/mds/containers_mds_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "containers/list/containers_paths.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROOM "containers"
enum {
    MAX_COLUMNS = 1024,
    ENTRY_MAX_NBYTES = 1 << 20, /* maximum number of bytes of an entry of index.json before the
                                 * shard's name */
};

static const char *const list_names[] = {"column_names", "column_encodings", "column_sizes"};

const char *psti_containers_mds_packer(const char *path)
{
    static const char *const packers[] = {"zstd", "zst", "gz", "br", "bz2", "snappy"};
    const char *name = psti_containers_base_name(path), *dot = strrchr(name, '.');
    size_t n = dot == NULL ? 0 : (size_t)(dot - name);
    for (size_t i = 0; i < sizeof packers / sizeof *packers; i++)
        if (n >= 4 && memcmp(dot - 4, ".mds", 4) == 0 && strcmp(dot + 1, packers[i]) == 0)
            return packers[i];
    return NULL;
}

enum pst_status psti_containers_mds_is_packed(const char *path, const char *packer,
                                              struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, path, 0,
                        "the shard is compressed as a whole (%s), so its samples cannot be read by "
                        "themselves: unpack all shards once, or write them anew without "
                        "`compression` (docs/guide/from-mosaic.md)",
                        packer);
}

/* Finds a list in the shard's JSON. A missing list is an error. */
static enum pst_status find_list(const struct psti_tree *tree, const struct psti_tree_node *map,
                                 const char *key, const struct psti_tree_node **list,
                                 struct pst_error *err)
{
    enum pst_status status = psti_containers_tree_entry(tree, map, key, list, err);
    if (status == PST_OK && (*list == NULL || (*list)->kind != PSTI_TREE_LIST))
        status =
            psti_containers_tree_bad(tree, *list == NULL ? map : *list, err,
                                     "this is no configuration of MDS: \"%s\" must be a list", key);
    return status;
}

/* Checks that version and format are those of MDS, version 2. */
static enum pst_status check_kind(const struct psti_tree *tree, const struct psti_tree_node *map,
                                  struct pst_error *err)
{
    const struct psti_tree_node *version = NULL, *format = NULL;
    int64_t number = 0;
    enum pst_status status = psti_containers_tree_entry(tree, map, "version", &version, err);
    if (status == PST_OK)
        status = psti_containers_tree_entry(tree, map, "format", &format, err);
    if (status != PST_OK)
        return status;
    if (version == NULL || !psti_containers_tree_number(version, &number))
        return psti_containers_tree_bad(tree, map, err, "\"version\" must be a number");
    if (number != 2)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, tree->path, -1,
                            "the shard has version %" PRId64 " of MDS; version 2 is known", number);
    return format != NULL && strcmp(format->text, "mds") == 0
               ? PST_OK
               : psti_containers_tree_bad(tree, map, err, "\"format\" must be \"mds\"");
}

/* Adds one column: its name, encoding and size are the next entries of the three lists. */
static enum pst_status read_column(struct psti_mds_config *config,
                                   const struct psti_tree_node *const nodes[3],
                                   struct pst_error *err)
{
    struct psti_mds_column *column = &config->columns[config->n];
    int64_t nbytes = 0;
    for (int i = 0; i < 2; i++)
        if (nodes[i]->kind != PSTI_TREE_SCALAR || nodes[i]->is_plain)
            return psti_containers_tree_bad(&config->tree, nodes[i], err,
                                            "\"%s\" must have texts only", list_names[i]);
    *column = (struct psti_mds_column){.name = nodes[0]->text, .encoding = nodes[1]->text};
    if (!psti_containers_tree_is_null(nodes[2]) &&
        (!psti_containers_tree_number(nodes[2], &nbytes) || nbytes < 1 || nbytes > UINT32_MAX))
        return psti_containers_tree_bad(&config->tree, nodes[2], err,
                                        "the size of column \"%.100s\" must be null or a number of "
                                        "1 to 2^32 - 1 bytes",
                                        column->name);
    column->nbytes = (uint32_t)nbytes;
    config->n++;
    config->n_sized += nbytes == 0;
    return psti_containers_mds_encoding(config->tree.path, column, err);
}

/* Reads the columns from the parsed JSON. */
static enum pst_status read_columns(struct psti_mds_config *config, struct pst_error *err)
{
    const struct psti_tree *tree = &config->tree;
    const struct psti_tree_node *lists[3], *nodes[3];
    enum pst_status status = check_kind(tree, tree->nodes, err);
    for (int i = 0; i < 3 && status == PST_OK; i++) {
        status = find_list(tree, tree->nodes, list_names[i], &lists[i], err);
        nodes[i] = status == PST_OK ? psti_containers_tree_first(tree, lists[i]) : NULL;
    }
    if (status != PST_OK)
        return status;
    config->columns = psti_alloc_array(MAX_COLUMNS, sizeof *config->columns);
    if (config->columns == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for columns");
    while (nodes[0] != NULL && nodes[1] != NULL && nodes[2] != NULL && status == PST_OK) {
        if (config->n == MAX_COLUMNS)
            return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, tree->path, -1,
                                "the shard has more than %d columns", MAX_COLUMNS);
        status = read_column(config, nodes, err);
        for (int i = 0; i < 3; i++)
            nodes[i] = psti_containers_tree_next(tree, nodes[i]);
    }
    if (status == PST_OK && (nodes[0] != NULL || nodes[1] != NULL || nodes[2] != NULL))
        status = psti_containers_tree_bad(tree, tree->nodes, err,
                                          "names, encodings and sizes of columns differ in number");
    if (status == PST_OK && config->n == 0)
        status = psti_containers_tree_bad(tree, tree->nodes, err, "the shard has no columns");
    return status;
}

enum pst_status psti_containers_mds_config(struct psti_mds_config *config, const char *path,
                                           const char *json, size_t nbytes, struct pst_error *err)
{
    enum pst_status status = psti_containers_tree_json(&config->tree, path, json, nbytes, err);
    return status == PST_OK ? read_columns(config, err) : status;
}

void psti_containers_mds_config_free(struct psti_mds_config *config)
{
    psti_containers_tree_free(&config->tree);
    psti_free(config->columns);
    *config = (struct psti_mds_config){0};
}

/* True if a path is equal to `name`, or ends with a slash and `name`. */
static bool is_named(const char *path, const char *name)
{
    size_t n_path = strlen(path), n = strlen(name);
    return n > 0 && n <= n_path && strcmp(path + n_path - n, name) == 0 &&
           (n == n_path || path[n_path - n - 1] == '/');
}

/* Returns the file name in an entry of index.json; key: "raw_data" or "zip_data". NULL: none. */
static const char *file_of(const struct psti_tree *tree, const char *key,
                           const struct psti_tree_node **file)
{
    const struct psti_tree_node *name = NULL;
    *file = NULL;
    if (tree->nodes->kind != PSTI_TREE_MAP ||
        psti_containers_tree_entry(tree, tree->nodes, key, file, NULL) != PST_OK || *file == NULL ||
        (*file)->kind != PSTI_TREE_MAP ||
        psti_containers_tree_entry(tree, *file, "basename", &name, NULL) != PST_OK || name == NULL)
        return NULL;
    return name->text;
}

/* Parses the JSON object around the file name at `at`. False: it is no entry for the shard. */
static bool parse_entry(struct psti_tree *tree, const struct psti_table_notes *notes,
                        const char *at, const char *path)
{
    const char *stop = at - notes->bytes > ENTRY_MAX_NBYTES ? at - ENTRY_MAX_NBYTES : notes->bytes;
    int n_tries = 8; /* nested objects that may open before the name: hashes, raw_data, zip_data,
                      * the entry */
    for (const char *begin = at; begin > stop && n_tries > 0;) {
        const struct psti_tree_node *file;
        if (*--begin != '{')
            continue;
        n_tries--;
        const char *end = begin;
        if (psti_format_json_skip(&end, notes->bytes + notes->nbytes) != NULL || end <= at ||
            psti_containers_tree_json(tree, notes->path, begin, (size_t)(end - begin), NULL) !=
                PST_OK)
            continue;
        const char *raw = file_of(tree, "raw_data", &file);
        if (raw != NULL && is_named(path, raw))
            return true;
        const char *zip = file_of(tree, "zip_data", &file);
        if (zip != NULL && is_named(path, zip))
            return true;
        psti_containers_tree_free(tree);
    }
    return false;
}

/* Finds the entry of a shard in index.json. If several names match the end of the shard's path, the
 * longest is taken, because merged indexes have names with folders. *tree is empty if there is no
 * entry. */
static void find_entry(struct psti_tree *tree, const struct psti_table_notes *notes,
                       const char *path)
{
    char wanted[512];
    size_t n_best = 0;
    int n = snprintf(wanted, sizeof wanted, "%s\"", psti_containers_base_name(path));
    *tree = (struct psti_tree){0};
    if (n < 2 || (size_t)n >= sizeof wanted)
        return;
    const char *at = notes->bytes, *end = notes->bytes + notes->nbytes;
    for (int n_found = 0; n_found < 64; n_found++) {
        struct psti_tree found;
        const struct psti_tree_node *file;
        at = memmem(at, (size_t)(end - at), wanted, (size_t)n);
        if (at == NULL)
            return;
        if (parse_entry(&found, notes, at, path)) {
            const char *raw = file_of(&found, "raw_data", &file);
            size_t n_name = raw == NULL ? 1 : strlen(raw);
            if (n_name > n_best) {
                psti_containers_tree_free(tree);
                *tree = found;
                n_best = n_name;
            } else {
                psti_containers_tree_free(&found);
            }
        }
        at += n;
    }
}

/* Fills in the error that a number of index.json and the shard differ. */
static enum pst_status differs(const struct psti_table_notes *notes, const char *path,
                               const char *what, uint64_t theirs, uint64_t ours,
                               struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, path, -1,
                        "the shard has %" PRIu64 " %s, and %.200s says %" PRIu64
                        ": one of them is damaged or of another version",
                        ours, what, notes->path, theirs);
}

/* Compares a number of the shard with the one in its entry, or in the file object of the entry. */
static enum pst_status compare_number(const struct psti_tree *tree,
                                      const struct psti_tree_node *map, const char *key,
                                      const char *what, uint64_t ours,
                                      const struct psti_table_notes *notes, const char *path,
                                      struct pst_error *err)
{
    const struct psti_tree_node *node = NULL;
    int64_t theirs = 0;
    enum pst_status status = psti_containers_tree_entry(tree, map, key, &node, err);
    if (status != PST_OK || node == NULL)
        return status;
    if (!psti_containers_tree_number(node, &theirs))
        return psti_containers_tree_bad(tree, node, err, "\"%s\" must be a number", key);
    return (uint64_t)theirs == ours ? PST_OK
                                    : differs(notes, path, what, (uint64_t)theirs, ours, err);
}

static enum pst_status compare_columns(const struct psti_mds_config *config,
                                       const struct psti_tree *tree,
                                       const struct psti_table_notes *notes, const char *path,
                                       struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (int i = 0; i < 3 && status == PST_OK; i++) {
        const struct psti_tree_node *theirs = NULL, *ours = NULL;
        status = find_list(tree, tree->nodes, list_names[i], &theirs, err);
        if (status == PST_OK)
            status = find_list(&config->tree, config->tree.nodes, list_names[i], &ours, err);
        if (status != PST_OK)
            return status;
        theirs = psti_containers_tree_first(tree, theirs);
        ours = psti_containers_tree_first(&config->tree, ours);
        while (theirs != NULL && ours != NULL && strcmp(theirs->text, ours->text) == 0) {
            theirs = psti_containers_tree_next(tree, theirs);
            ours = psti_containers_tree_next(&config->tree, ours);
        }
        if (theirs != NULL || ours != NULL)
            status = psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, path, -1,
                                  "\"%s\" has '%.100s' in the shard and '%.100s' in %.200s: one of "
                                  "them is damaged or of another version",
                                  list_names[i], ours == NULL ? "no more" : ours->text,
                                  theirs == NULL ? "no more" : theirs->text, notes->path);
    }
    return status;
}

enum pst_status psti_containers_mds_compare(const struct psti_mds_config *config,
                                            const struct psti_table_notes *notes, const char *path,
                                            uint64_t n_samples, uint64_t nbytes,
                                            struct pst_error *err)
{
    struct psti_tree tree;
    const struct psti_tree_node *file = NULL, *zip = NULL;
    if (notes == NULL || notes->nbytes == 0)
        return PST_OK;
    find_entry(&tree, notes, path);
    if (tree.n == 0)
        return PST_OK;
    const char *packed = file_of(&tree, "zip_data", &zip);
    const char *raw = file_of(&tree, "raw_data", &file);
    enum pst_status status = PST_OK;
    if (packed != NULL && is_named(path, packed) && (raw == NULL || !is_named(path, raw)))
        status = psti_containers_mds_is_packed(path, "index.json says so", err);
    if (status == PST_OK)
        status =
            compare_number(&tree, tree.nodes, "samples", "samples", n_samples, notes, path, err);
    if (status == PST_OK && file != NULL)
        status = compare_number(&tree, file, "bytes", "bytes", nbytes, notes, path, err);
    if (status == PST_OK)
        status = compare_columns(config, &tree, notes, path, err);
    psti_containers_tree_free(&tree);
    return status;
}
