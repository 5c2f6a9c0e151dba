/* containers_arrow_decide.c - decides what each column becomes, by its type and its features.
 *
 * In: fields of the schema, features of `datasets`. Out: columns. docs/table-fields.md has the same
 * rules in tables. A column that is left out gets a reason; it is no error. */
#include "containers/arrow/containers_arrow_column.h"

#include "base/checked.h"
#include "containers/list/containers_tree.h"

#include <string.h>

enum { EXTENSION_MAX_NBYTES = 4096, ARRAY_MAX_BITS = 40 };

static enum pst_dtype dtype_of(const struct psti_arrow_field *field)
{
    static const enum pst_dtype ints[2][4] = {
        {PST_DTYPE_U8, PST_DTYPE_U16, PST_DTYPE_U32, PST_DTYPE_U64},
        {PST_DTYPE_I8, PST_DTYPE_I16, PST_DTYPE_I32, PST_DTYPE_I64},
    };
    int i = field->bits == 8 ? 0 : field->bits == 16 ? 1 : field->bits == 32 ? 2 : 3;
    if (field->type == PSTI_ARROW_INT)
        return ints[field->is_signed][i];
    return i == 1 ? PST_DTYPE_F16 : i == 2 ? PST_DTYPE_F32 : PST_DTYPE_F64;
}

static bool is_list(enum psti_arrow_type type)
{
    return type == PSTI_ARROW_LIST || type == PSTI_ARROW_LARGE_LIST ||
           type == PSTI_ARROW_FIXED_LIST;
}

static bool is_json(const struct psti_arrow_field *field, const struct psti_hub_feature *hub)
{
    return strcmp(field->extension, "arrow.json") == 0 ||
           (hub != NULL && hub->kind == PSTI_HUB_VALUE && strcmp(hub->dtype, "json") == 0);
}

/* Decides what a field of bytes or text becomes. */
static void decide_bytes(const struct psti_arrow_field *field, const struct psti_hub_feature *hub,
                         struct psti_arrow_column *column)
{
    if (psti_containers_arrow_is_text(field->type)) {
        column->column.type = is_json(field, hub) ? PST_FIELD_JSON : PST_FIELD_TEXT;
        return;
    }
    column->column.type = PST_FIELD_BYTES;
    column->wants_head = !field->has_dictionary;
    column->column.is_guess = true;
    if (hub == NULL || (hub->kind != PSTI_HUB_IMAGE && hub->kind != PSTI_HUB_AUDIO))
        return;
    column->column.type = hub->kind == PSTI_HUB_IMAGE ? PST_FIELD_IMAGE : PST_FIELD_AUDIO;
    column->column.is_guess = false;
    column->wants_head = false;
}

static void decide_int(const struct psti_hub_feature *hub, struct psti_arrow_column *column)
{
    column->column.type = PST_FIELD_INT;
    if (hub == NULL || hub->kind != PSTI_HUB_CLASS_LABEL)
        return;
    column->column.n_classes = hub->n_classes;
    column->column.class_names = hub->class_names;
    column->column.class_names_nbytes = hub->class_names_nbytes;
}

/* Finds the members `bytes` and `path` in the struct of an image or a sound. */
static const char *decide_struct(struct psti_arrow_decider *decider, uint32_t i_struct,
                                 const struct psti_hub_feature *hub,
                                 struct psti_arrow_column *column)
{
    const struct psti_arrow_field *fields = decider->schema->fields, *root = &fields[i_struct];
    column->i_struct = i_struct;
    column->i_value = PSTI_ARROW_NO_FIELD;
    for (uint32_t i = i_struct + 1; i < root->end; i = fields[i].end) {
        bool is_bytes = psti_containers_arrow_is_bytes(fields[i].type);
        if (strcmp(fields[i].name, "bytes") == 0 && is_bytes && !fields[i].has_dictionary &&
            !psti_containers_arrow_is_text(fields[i].type))
            column->i_value = i;
        else if (strcmp(fields[i].name, "path") == 0 && is_bytes)
            column->i_path = i;
        else
            return "has columns within it";
    }
    if (column->i_value == PSTI_ARROW_NO_FIELD)
        return "has columns within it";
    const struct psti_arrow_field *field = &fields[column->i_value];
    if (field->type == PSTI_ARROW_FIXED_BINARY && field->size == 0)
        return "has values of no bytes";
    decide_bytes(field, hub, column);
    return NULL;
}

/* Decides what a list becomes whose elements may be images or sounds: structs, or plain bytes. */
static const char *decide_list(struct psti_arrow_decider *decider, uint32_t i_root,
                               const struct psti_hub_feature *hub, struct psti_arrow_column *column)
{
    const struct psti_arrow_field *field = &decider->schema->fields[i_root + 1];
    const struct psti_hub_feature *inner = hub == NULL ? NULL : hub->inner;
    bool is_struct = field->type == PSTI_ARROW_STRUCT;
    bool is_bytes = psti_containers_arrow_is_bytes(field->type) &&
                    !psti_containers_arrow_is_text(field->type) &&
                    (field->type != PSTI_ARROW_FIXED_BINARY || field->size > 0);
    column->n_levels = 0;
    column->is_list = column->wants_count = true;
    column->i_value = i_root + 1;
    if (field->has_dictionary || (!is_struct && !is_bytes))
        return "has lists of other things than numbers, images and sounds";
    if (is_struct)
        return decide_struct(decider, i_root + 1, inner, column);
    decide_bytes(field, inner, column);
    return NULL;
}

/* Reads a shape from a JSON list. Lengths are not 0; the first may be null, which means any. */
static bool read_shape(const struct psti_tree *tree, const struct psti_tree_node *list,
                       uint8_t *ndim, uint32_t shape[PST_MAX_NDIM])
{
    *ndim = 0;
    if (list == NULL || list->kind != PSTI_TREE_LIST)
        return false;
    for (const struct psti_tree_node *node = psti_containers_tree_first(tree, list); node != NULL;
         node = psti_containers_tree_next(tree, node)) {
        int64_t length = 0;
        bool is_any = *ndim == 0 && psti_containers_tree_is_null(node);
        if (*ndim == PST_MAX_NDIM)
            return false;
        if (!is_any &&
            (!psti_containers_tree_number(node, &length) || length == 0 || length > UINT32_MAX))
            return false;
        shape[(*ndim)++] = (uint32_t)length;
    }
    return *ndim > 0;
}

/* True if the tensor's metadata permutes its dimensions. */
static bool is_permuted(const struct psti_tree *tree, const struct psti_tree_node *list)
{
    int64_t i = 0, at = 0;
    if (list == NULL || psti_containers_tree_is_null(list))
        return false;
    for (const struct psti_tree_node *node = psti_containers_tree_first(tree, list); node != NULL;
         node = psti_containers_tree_next(tree, node))
        if (!psti_containers_tree_number(node, &at) || at != i++)
            return true;
    return false;
}

/* Reads the shape that an extension type states: [[2, 3], "float32"] of `datasets`, {"shape": [2,
 * 3]} of Arrow's tensors. False: the text has another form, and the column is left out. */
static bool read_extension(struct psti_arrow_decider *decider, const struct psti_arrow_field *field,
                           uint8_t *ndim, uint32_t shape[PST_MAX_NDIM])
{
    struct psti_tree tree;
    const struct psti_tree_node *list = NULL, *order = NULL;
    bool is_tensor = strcmp(field->extension, "arrow.fixed_shape_tensor") == 0, has = false;
    if (field->extension_nbytes == 0 || field->extension_nbytes > EXTENSION_MAX_NBYTES)
        return false;
    enum pst_status status = psti_containers_tree_json(&tree, "the schema", field->extension_json,
                                                       field->extension_nbytes, decider->err);
    if (status == PST_ERROR_MEMORY)
        decider->status = status;
    if (status != PST_OK)
        return false;
    if (is_tensor)
        has =
            psti_containers_tree_entry(&tree, tree.nodes, "shape", &list, NULL) == PST_OK &&
            psti_containers_tree_entry(&tree, tree.nodes, "permutation", &order, NULL) == PST_OK &&
            !is_permuted(&tree, order);
    else if (tree.nodes->kind == PSTI_TREE_LIST)
        list = psti_containers_tree_first(&tree, tree.nodes);
    has = (has || !is_tensor) && read_shape(&tree, list, ndim, shape);
    psti_containers_tree_free(&tree);
    return has;
}

/* Sets the array's shape and the lengths of its lists. `stated`: n_stated dimensions from the
 * features or the extension type. */
static const char *set_shape(struct psti_arrow_decider *decider, uint8_t n_stated,
                             const uint32_t stated[PST_MAX_NDIM], struct psti_arrow_column *column)
{
    const struct psti_arrow_field *fields = &decider->schema->fields[column->i_root];
    uint64_t product = 1, listed = 1;
    for (uint32_t i = 0; i < column->n_levels; i++) {
        bool is_fixed = fields[i].type == PSTI_ARROW_FIXED_LIST;
        uint32_t size = is_fixed ? fields[i].size : n_stated == column->n_levels ? stated[i] : 0;
        if (is_fixed && size == 0)
            return "has lists without elements";
        if (size == 0 && i > 0)
            return "has lists of any length within lists";
        column->level_size[i] = column->shape[i] = size;
        listed = size == 0 ? listed : psti_mul_u64(listed, size, &listed) ? listed : UINT64_MAX;
    }
    column->ndim = (uint8_t)column->n_levels;
    if (strcmp(fields[0].extension, "arrow.fixed_shape_tensor") == 0) {
        for (uint8_t i = 0; i < n_stated; i++)
            product = psti_mul_u64(product, stated[i], &product) ? product : UINT64_MAX;
        if (column->n_levels != 1 || product != listed || n_stated == 0)
            return "is a tensor of another shape than its lists, or in another order";
        column->ndim = n_stated;
        memcpy(column->shape, stated, sizeof column->shape);
    }
    return listed >> ARRAY_MAX_BITS == 0 ? NULL : "has arrays that are too large";
}

static const char *decide_array(struct psti_arrow_decider *decider, uint32_t i_root,
                                const struct psti_hub_feature *hub,
                                struct psti_arrow_column *column)
{
    const struct psti_arrow_field *field = &decider->schema->fields[i_root];
    uint32_t stated[PST_MAX_NDIM] = {0};
    uint8_t n_stated = 0;
    for (; is_list(field->type); field++) {
        if (column->n_levels == PST_MAX_NDIM)
            return "has more lists within each other than arrays have dimensions";
        if (field->has_dictionary)
            return "has lists of indices";
        column->n_levels++;
    }
    if (column->n_levels == 1 && field->type != PSTI_ARROW_INT && field->type != PSTI_ARROW_FLOAT)
        return decide_list(decider, i_root, hub, column);
    if ((field->type != PSTI_ARROW_INT && field->type != PSTI_ARROW_FLOAT) || field->has_dictionary)
        return "has lists of other things than numbers within lists";
    column->i_value = i_root + column->n_levels;
    field = &decider->schema->fields[i_root];
    if (hub != NULL && hub->kind == PSTI_HUB_ARRAY) {
        n_stated = hub->ndim;
        memcpy(stated, hub->shape, sizeof stated);
    } else if (field->extension[0] != '\0' && !read_extension(decider, field, &n_stated, stated)) {
        return "has an extension that states no shape that is read";
    }
    const char *problem = set_shape(decider, n_stated, stated, column);
    column->column.type = PST_FIELD_ARRAY;
    column->column.dtype = dtype_of(&decider->schema->fields[column->i_value]);
    if (column->shape[0] > 0) {
        column->column.ndim = column->ndim;
        memcpy(column->column.shape, column->shape, sizeof column->shape);
    }
    return problem;
}

/* Decides what a column becomes by the type of its values. */
static const char *decide(struct psti_arrow_decider *decider, uint32_t i_root,
                          const struct psti_hub_feature *hub, struct psti_arrow_column *column)
{
    const struct psti_arrow_field *field = &decider->schema->fields[i_root];
    switch (field->type) {
    case PSTI_ARROW_BOOL:
    case PSTI_ARROW_INT:
    case PSTI_ARROW_DATE:
    case PSTI_ARROW_TIME:
    case PSTI_ARROW_TIMESTAMP:
    case PSTI_ARROW_DURATION:
        decide_int(hub, column);
        return NULL;
    case PSTI_ARROW_FLOAT:
        column->column.type = PST_FIELD_FLOAT;
        return NULL;
    case PSTI_ARROW_FIXED_BINARY:
        if (field->size == 0)
            return "has values of no bytes";
        break;
    case PSTI_ARROW_STRUCT:
        return field->has_dictionary ? "is not read" : decide_struct(decider, i_root, hub, column);
    default:
        if (is_list(field->type))
            return decide_array(decider, i_root, hub, column);
        if (!psti_containers_arrow_is_bytes(field->type))
            return "is not read";
        break;
    }
    decide_bytes(field, hub, column);
    return NULL;
}

const char *psti_containers_arrow_decide(struct psti_arrow_decider *decider, uint32_t i_root,
                                         struct psti_arrow_column *column)
{
    const struct psti_arrow_field *field = &decider->schema->fields[i_root];
    const struct psti_hub_feature *hub = psti_containers_hub_find(decider->hub, field->name);
    memset(column, 0, sizeof *column);
    column->column.name = field->name;
    column->i_root = column->i_value = i_root;
    column->i_struct = column->i_path = PSTI_ARROW_NO_FIELD;
    return decide(decider, i_root, hub, column);
}
