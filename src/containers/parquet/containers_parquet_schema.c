/* containers_parquet_schema.c - tells lists, images and plain values apart by the schema.
 *
 * In: nodes. Out: the shape of a column.
 *
 * A list is a group with one repeated child. In the current form that child is a group whose only
 * child is the element; older writers repeat the element itself. Parquet's document on logical
 * types has the rules that tell these forms apart. */
#include "containers/parquet/containers_parquet_schema.h"

#include <string.h>

static bool has_name(const struct psti_parquet_node *node, const char *name)
{
    return node->name.nbytes == strlen(name) &&
           memcmp(node->name.bytes, name, node->name.nbytes) == 0;
}

enum pst_field_type psti_containers_parquet_value_type(const struct psti_parquet_node *leaf)
{
    bool is_decimal = leaf->meaning == PSTI_MEANING_DECIMAL;
    switch (leaf->type) {
    case PSTI_PARQUET_BOOLEAN:
        return PST_FIELD_INT;
    case PSTI_PARQUET_INT32:
    case PSTI_PARQUET_INT64:
        return is_decimal ? PST_FIELD_FLOAT : PST_FIELD_INT;
    case PSTI_PARQUET_FLOAT:
    case PSTI_PARQUET_DOUBLE:
        return PST_FIELD_FLOAT;
    case PSTI_PARQUET_BYTE_ARRAY:
        return is_decimal                           ? 0
               : leaf->meaning == PSTI_MEANING_TEXT ? PST_FIELD_TEXT
               : leaf->meaning == PSTI_MEANING_JSON ? PST_FIELD_JSON
                                                    : PST_FIELD_BYTES;
    case PSTI_PARQUET_FIXED:
        if (leaf->meaning == PSTI_MEANING_FLOAT16)
            return leaf->width == 2 ? PST_FIELD_FLOAT : 0;
        return is_decimal ? 0 : PST_FIELD_BYTES;
    default:
        return 0;
    }
}

/* Returns the element type of an array of this leaf's values; 0: none. */
static enum pst_dtype dtype_of(const struct psti_parquet_node *leaf)
{
    bool is_unsigned = leaf->meaning == PSTI_MEANING_UNSIGNED;
    if (leaf->meaning == PSTI_MEANING_DECIMAL)
        return 0;
    switch (leaf->type) {
    case PSTI_PARQUET_BOOLEAN:
        return PST_DTYPE_BOOL;
    case PSTI_PARQUET_INT32:
        return is_unsigned ? PST_DTYPE_U32 : PST_DTYPE_I32;
    case PSTI_PARQUET_INT64:
        return is_unsigned ? PST_DTYPE_U64 : PST_DTYPE_I64;
    case PSTI_PARQUET_FLOAT:
        return PST_DTYPE_F32;
    case PSTI_PARQUET_DOUBLE:
        return PST_DTYPE_F64;
    case PSTI_PARQUET_FIXED:
        return leaf->meaning == PSTI_MEANING_FLOAT16 && leaf->width == 2 ? PST_DTYPE_F16 : 0;
    default:
        return 0;
    }
}

static bool is_bytes_leaf(const struct psti_parquet_node *node)
{
    return node->type == PSTI_PARQUET_BYTE_ARRAY && node->repetition != PSTI_PARQUET_REPEATED;
}

/* True for a struct of bytes and path, the form of images and sounds in `datasets`. */
static bool is_file(const struct psti_parquet_meta *meta, uint32_t i_node,
                    struct psti_parquet_column *column)
{
    const struct psti_parquet_node *node = &meta->nodes[i_node];
    column->path = NULL;
    if (node->n_children != 2 || node->end != i_node + 3)
        return false;
    const struct psti_parquet_node *bytes = node + 1, *path = node + 2;
    if (has_name(bytes, "path")) {
        bytes = node + 2;
        path = node + 1;
    }
    if (!is_bytes_leaf(bytes) || !is_bytes_leaf(path) || !has_name(bytes, "bytes") ||
        !has_name(path, "path"))
        return false;
    column->leaf = bytes;
    column->path = path;
    return true;
}

/* True if the repeated node is the element itself, not a group around it. */
static bool is_element(const struct psti_parquet_meta *meta, const struct psti_parquet_node *list,
                       uint32_t i_repeated)
{
    const struct psti_parquet_node *repeated = &meta->nodes[i_repeated];
    if (repeated->n_children != 1 || repeated[1].repetition == PSTI_PARQUET_REPEATED ||
        has_name(repeated, "array"))
        return true;
    size_t n = list->name.nbytes;
    return repeated->name.nbytes == n + 6 &&
           memcmp(repeated->name.bytes, list->name.bytes, n) == 0 &&
           memcmp(repeated->name.bytes + n, "_tuple", 6) == 0;
}

/* Moves *i_node from a list to the list's element. False: the node is no list. */
static bool step_into_list(const struct psti_parquet_meta *meta, uint32_t *i_node,
                           struct psti_parquet_column *column)
{
    const struct psti_parquet_node *node = &meta->nodes[*i_node];
    uint32_t i_repeated = *i_node + 1;
    if (node->repetition == PSTI_PARQUET_REPEATED || node->meaning != PSTI_MEANING_LIST ||
        node->n_children != 1 || meta->nodes[i_repeated].repetition != PSTI_PARQUET_REPEATED)
        return false;
    column->n_inner = meta->nodes[i_repeated].n_def;
    *i_node = i_repeated + (is_element(meta, node, i_repeated) ? 0 : 1);
    return true;
}

static const char *classify_list(const struct psti_parquet_meta *meta, uint32_t i_node,
                                 uint32_t n_dims, struct psti_parquet_column *column)
{
    const struct psti_parquet_node *node = &meta->nodes[i_node];
    uint32_t depth = 0;
    column->n_outer = node->n_def;
    if (node->repetition == PSTI_PARQUET_REPEATED) { /* a repeated element without a list group
                                                      * around it */
        column->n_outer = node->n_def - UINT32_C(1);
        column->n_inner = node->n_def;
        depth = 1;
    } else {
        while (depth < n_dims && step_into_list(meta, &i_node, column))
            depth++;
    }
    node = &meta->nodes[i_node];
    if (depth == 0)
        return "it is a struct or a map";
    if (depth == 1 && is_file(meta, i_node, column)) {
        column->shape = PSTI_SHAPE_FILES;
        return NULL;
    }
    if (node->type == PSTI_PARQUET_GROUP)
        return "it is a list of lists, structs or maps";
    column->leaf = node;
    if (depth == 1 && node->type == PSTI_PARQUET_BYTE_ARRAY &&
        psti_containers_parquet_value_type(node) == PST_FIELD_BYTES) {
        column->shape = PSTI_SHAPE_FILES;
        return NULL;
    }
    column->shape = PSTI_SHAPE_NUMBERS;
    column->ndim = (uint8_t)depth;
    column->dtype = dtype_of(node);
    return column->dtype == 0 ? "it is a list of values that are no numbers" : NULL;
}

const char *psti_containers_parquet_classify(const struct psti_parquet_meta *meta, uint32_t i_node,
                                             uint32_t n_dims, struct psti_parquet_column *column)
{
    const struct psti_parquet_node *node = &meta->nodes[i_node];
    if (node->meaning == PSTI_MEANING_NULL)
        return "it has no values";
    if (node->repetition == PSTI_PARQUET_REPEATED ||
        (node->type == PSTI_PARQUET_GROUP && !is_file(meta, i_node, column)))
        return classify_list(meta, i_node, n_dims, column);
    if (node->type == PSTI_PARQUET_GROUP) {
        column->shape = PSTI_SHAPE_FILE;
        return NULL;
    }
    column->shape = PSTI_SHAPE_VALUE;
    column->leaf = node;
    if (psti_containers_parquet_value_type(node) != 0)
        return NULL;
    column->is_refused = true;
    column->why = node->type == PSTI_PARQUET_INT96 ? "an INT96, the old form of times"
                                                   : "a decimal of many digits";
    return NULL;
}
