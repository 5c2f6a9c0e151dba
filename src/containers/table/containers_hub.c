/* containers_hub.c - parses the features that `datasets` of Hugging Face writes as JSON.
 *
 * In: untrusted JSON. Out: one feature for each column, sorted by column name, and the features
 * inside them.
 *
 * Each feature comes from one map or list of the JSON, and class names are texts of it. So the
 * JSON's size gives the memory for both before they are read. */
#include "containers/table/containers_hub.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/log.h"
#include "containers/list/containers_tree.h"
#include "format/format_dataset.h"

#include <stdlib.h>
#include <string.h>

#define ROOM "containers"

struct named {
    const char *name;
    const struct psti_hub_feature *feature;
};

struct psti_hub_features {
    struct psti_tree tree;
    struct psti_hub_feature *features;
    size_t n;
    struct named *columns; /* sorted by name */
    size_t n_columns;
    char *names; /* texts of all class names */
    size_t n_names;
};

/* State of the parser. */
struct reader {
    struct psti_hub_features *all;
    const struct psti_tree *tree;
    struct pst_error *err;
};

static const struct psti_hub_feature other = {.kind = PSTI_HUB_OTHER, .dtype = ""};

static enum pst_status bad(const struct reader *reader, const struct psti_tree_node *node,
                           const char *what)
{
    return psti_containers_tree_bad(reader->tree, node, reader->err, "%s", what);
}

/* Finds an entry of a map. *out: NULL if it is missing or null. */
static enum pst_status find(const struct reader *reader, const struct psti_tree_node *map,
                            const char *key, const struct psti_tree_node **out)
{
    enum pst_status status = psti_containers_tree_entry(reader->tree, map, key, out, reader->err);
    if (status == PST_OK && *out != NULL && psti_containers_tree_is_null(*out))
        *out = NULL;
    return status;
}

/* Reads a dimension or a length. Null means any length. */
static enum pst_status read_length(const struct reader *reader, const struct psti_tree_node *node,
                                   uint32_t *out)
{
    int64_t length = 0;
    if (psti_containers_tree_is_null(node)) {
        *out = 0;
        return PST_OK;
    }
    if (!psti_containers_tree_number(node, &length) || length > UINT32_MAX)
        return bad(reader, node, "a length must be a whole number of 32 bits");
    *out = (uint32_t)length;
    return PST_OK;
}

static enum pst_status read_dtype(const struct reader *reader, const struct psti_tree_node *map,
                                  struct psti_hub_feature *feature)
{
    const struct psti_tree_node *node = NULL;
    enum pst_status status = find(reader, map, "dtype", &node);
    if (status == PST_OK && (node == NULL || node->kind != PSTI_TREE_SCALAR))
        return bad(reader, map, "\"dtype\" must be the name of a type");
    if (status == PST_OK)
        feature->dtype = node->text;
    return status;
}

/* Copies class names one after the other. If one of them is not valid, the feature has no names. */
static enum pst_status read_names(const struct reader *reader, const struct psti_tree_node *list,
                                  struct psti_hub_feature *feature)
{
    struct psti_hub_features *all = reader->all;
    const char *problem = NULL;
    size_t begun = all->n_names;
    if (list->kind != PSTI_TREE_LIST)
        return bad(reader, list, "\"names\" must be a list of classes");
    for (const struct psti_tree_node *node = psti_containers_tree_first(reader->tree, list);
         node != NULL; node = psti_containers_tree_next(reader->tree, node)) {
        size_t nbytes = strlen(node->text) + 1;
        if (node->kind != PSTI_TREE_SCALAR)
            return bad(reader, node, "the name of a class must be a text");
        if (problem == NULL)
            problem = psti_format_name_problem(node->text, nbytes - 1);
        memcpy(all->names + all->n_names, node->text, nbytes);
        all->n_names += nbytes;
        feature->n_classes++;
    }
    if (problem != NULL) {
        psti_log(PST_LOG_WARNING, ROOM,
                 "%s: line %u: the name of a class %s: the classes go without names",
                 reader->tree->path, list->line, problem);
    } else if (feature->n_classes > 0) {
        feature->class_names = all->names + begun;
        feature->class_names_nbytes = all->n_names - begun;
    }
    return PST_OK;
}

static enum pst_status read_classes(const struct reader *reader, const struct psti_tree_node *map,
                                    struct psti_hub_feature *feature)
{
    const struct psti_tree_node *names = NULL, *count = NULL;
    int64_t n_classes = 0;
    enum pst_status status = find(reader, map, "names", &names);
    if (status == PST_OK)
        status = find(reader, map, "num_classes", &count);
    if (status == PST_OK && names != NULL)
        status = read_names(reader, names, feature);
    if (status != PST_OK || count == NULL)
        return status;
    if (!psti_containers_tree_number(count, &n_classes))
        return bad(reader, count, "\"num_classes\" must be a whole number");
    if (names != NULL && n_classes != feature->n_classes)
        return bad(reader, count, "there are not as many names of classes as \"num_classes\"");
    feature->n_classes = n_classes;
    return PST_OK;
}

static enum pst_status read_shape(const struct reader *reader, const struct psti_tree_node *map,
                                  struct psti_hub_feature *feature)
{
    const struct psti_tree_node *shape = NULL;
    enum pst_status status = read_dtype(reader, map, feature);
    if (status == PST_OK)
        status = find(reader, map, "shape", &shape);
    if (status == PST_OK && (shape == NULL || shape->kind != PSTI_TREE_LIST))
        return bad(reader, map, "\"shape\" must be a list of lengths");
    if (status != PST_OK)
        return status;
    for (const struct psti_tree_node *node = psti_containers_tree_first(reader->tree, shape);
         node != NULL && status == PST_OK; node = psti_containers_tree_next(reader->tree, node)) {
        if (feature->ndim == PST_MAX_NDIM)
            return bad(reader, node, "an array has more than 8 dimensions");
        if (feature->ndim > 0 && psti_containers_tree_is_null(node))
            return bad(reader, node, "only the first dimension of an array may vary");
        status = read_length(reader, node, &feature->shape[feature->ndim++]);
    }
    return status;
}

static enum pst_status read_feature(const struct reader *reader, const struct psti_tree_node *node,
                                    const struct psti_hub_feature **out);

static enum pst_status read_sequence(const struct reader *reader, const struct psti_tree_node *map,
                                     struct psti_hub_feature *feature)
{
    const struct psti_tree_node *inner = NULL, *length = NULL;
    enum pst_status status = find(reader, map, "feature", &inner);
    if (status == PST_OK)
        status = find(reader, map, "length", &length);
    if (status != PST_OK)
        return status;
    if (inner == NULL)
        return bad(reader, map, "a list has no \"feature\"");
    if (length != NULL && (length->kind != PSTI_TREE_SCALAR || strcmp(length->text, "-1") != 0)) {
        feature->ndim = 1;
        status = read_length(reader, length, &feature->shape[0]);
    }
    return status == PST_OK ? read_feature(reader, inner, &feature->inner) : status;
}

/* Reads a map that has a "_type". */
static enum pst_status read_typed(const struct reader *reader, const struct psti_tree_node *map,
                                  const char *type, struct psti_hub_feature *feature)
{
    static const struct {
        const char *type;
        enum psti_hub_kind kind;
    } kinds[] = {
        {"Value", PSTI_HUB_VALUE},        {"Image", PSTI_HUB_IMAGE},
        {"Audio", PSTI_HUB_AUDIO},        {"ClassLabel", PSTI_HUB_CLASS_LABEL},
        {"Sequence", PSTI_HUB_SEQUENCE},  {"List", PSTI_HUB_SEQUENCE},
        {"LargeList", PSTI_HUB_SEQUENCE}, {"Array2D", PSTI_HUB_ARRAY},
        {"Array3D", PSTI_HUB_ARRAY},      {"Array4D", PSTI_HUB_ARRAY},
        {"Array5D", PSTI_HUB_ARRAY},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].type, type) == 0)
            feature->kind = kinds[i].kind;
    switch (feature->kind) {
    case PSTI_HUB_VALUE:
        return read_dtype(reader, map, feature);
    case PSTI_HUB_CLASS_LABEL:
        return read_classes(reader, map, feature);
    case PSTI_HUB_SEQUENCE:
        return read_sequence(reader, map, feature);
    case PSTI_HUB_ARRAY:
        return read_shape(reader, map, feature);
    default:
        break;
    }
    if (strcmp(type, "Json") == 0) {
        feature->kind = PSTI_HUB_VALUE;
        feature->dtype = "json";
    }
    return PST_OK;
}

static enum pst_status read_feature(const struct reader *reader, const struct psti_tree_node *node,
                                    const struct psti_hub_feature **out)
{
    const struct psti_tree *tree = reader->tree;
    const struct psti_tree_node *type = NULL, *first = psti_containers_tree_first(tree, node);
    *out = &other;
    if (node->kind == PSTI_TREE_SCALAR)
        return PST_OK;
    struct psti_hub_feature *feature = &reader->all->features[reader->all->n++];
    *feature = other;
    *out = feature;
    if (node->kind == PSTI_TREE_LIST) {
        if (first == NULL || psti_containers_tree_next(tree, first) != NULL)
            return bad(reader, node, "a list of features must have one entry");
        feature->kind = PSTI_HUB_SEQUENCE;
        return read_feature(reader, first, &feature->inner);
    }
    enum pst_status status = find(reader, node, "_type", &type);
    /* A column may itself have the name "_type"; then its value is no scalar. */
    if (status != PST_OK || type == NULL || type->kind != PSTI_TREE_SCALAR)
        return status;
    return read_typed(reader, node, type->text, feature);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* Reads the map of all columns. */
static enum pst_status read_columns(const struct reader *reader, const struct psti_tree_node *map)
{
    struct psti_hub_features *all = reader->all;
    enum pst_status status = PST_OK;
    if (map->kind != PSTI_TREE_MAP)
        return bad(reader, map, "\"features\" must be a map of columns");
    for (const struct psti_tree_node *node = psti_containers_tree_first(reader->tree, map);
         node != NULL && status == PST_OK; node = psti_containers_tree_next(reader->tree, node)) {
        struct named *column = &all->columns[all->n_columns++];
        column->name = node->key;
        status = read_feature(reader, node, &column->feature);
    }
    if (status != PST_OK)
        return status;
    if (all->n_columns > 1)
        qsort(all->columns, all->n_columns, sizeof *all->columns, by_name);
    for (size_t i = 1; i < all->n_columns; i++)
        if (strcmp(all->columns[i - 1].name, all->columns[i].name) == 0)
            return psti_containers_tree_bad(reader->tree, map, reader->err,
                                            "the column '%.100s' has two features",
                                            all->columns[i].name);
    return PST_OK;
}

/* Allocates room for the most features and names that the tree can hold. */
static enum pst_status make_room(struct psti_hub_features *all, struct pst_error *err)
{
    size_t n = 1;
    for (size_t i = 0; i < all->tree.n; i++)
        n += all->tree.nodes[i].kind != PSTI_TREE_SCALAR;
    all->features = psti_alloc_array(n, sizeof *all->features);
    all->columns = psti_alloc_array(all->tree.n, sizeof *all->columns);
    all->names = psti_alloc(all->tree.n_text + 1);
    return all->features != NULL && all->columns != NULL && all->names != NULL
               ? PST_OK
               : psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for %zu features", n);
}

static enum pst_status read_all(struct psti_hub_features *all, struct pst_error *err)
{
    struct reader reader = {all, &all->tree, err};
    const struct psti_tree_node *root = all->tree.nodes, *info = NULL, *map = NULL;
    enum pst_status status = make_room(all, err);
    if (status == PST_OK)
        status = find(&reader, root, "info", &info);
    if (status == PST_OK)
        status = find(&reader, info == NULL ? root : info, "features", &map);
    return status != PST_OK || map == NULL ? status : read_columns(&reader, map);
}

enum pst_status psti_containers_hub_open(const char *json, size_t nbytes, const char *path,
                                         struct psti_hub_features **out, struct pst_error *err)
{
    *out = psti_calloc(1, sizeof **out);
    if (*out == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for features");
    enum pst_status status = psti_containers_tree_json(&(*out)->tree, path, json, nbytes, err);
    if (status == PST_OK)
        status = read_all(*out, err);
    (*out)->tree.path = NULL;
    if (status != PST_OK)
        psti_containers_hub_close(out);
    return status;
}

void psti_containers_hub_close(struct psti_hub_features **features)
{
    if (*features == NULL)
        return;
    psti_containers_tree_free(&(*features)->tree);
    psti_free((*features)->features);
    psti_free((*features)->columns);
    psti_free((*features)->names);
    psti_free(*features);
    *features = NULL;
}

const struct psti_hub_feature *psti_containers_hub_find(const struct psti_hub_features *features,
                                                        const char *column)
{
    struct named key = {column, NULL};
    if (features == NULL || features->n_columns == 0)
        return NULL;
    const struct named *found =
        bsearch(&key, features->columns, features->n_columns, sizeof key, by_name);
    return found == NULL ? NULL : found->feature;
}
