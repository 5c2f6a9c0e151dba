/* containers_beton_head.c - reads the header and the fields of an FFCV file.
 *
 * In: the file's beginning. Out: the fields, and where the tables lie.
 *
 * The types of all fields determine the layout of a record: numpy aligns each 8-byte number to 8
 * bytes, and does not align members that are structs themselves (an image, bytes). */
#include "containers/beton/containers_beton_int.h"

#include "containers/containers_npy.h"
#include "containers/list/containers_tree.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"

enum {
    VERSION = 2,
    N_DIMENSIONS = 32, /* number of dimensions that fit into the arguments of an array field */
    DESCRIPTION = 8 * N_DIMENSIONS + 8,
    ARGUMENTS = PSTI_BETON_FIELD - 1 - PSTI_BETON_NAME,
};

static enum pst_status bad(const struct psti_beton *beton, enum pst_status status, const char *what,
                           struct pst_error *err)
{
    return psti_fail_at(err, status, ROOM, beton->path, 0, "%s", what);
}

static enum pst_status bad_field(const struct psti_beton *beton,
                                 const struct psti_beton_field *field, enum pst_status status,
                                 const char *what, struct pst_error *err)
{
    uint64_t i = (uint64_t)(field - beton->fields);
    return psti_fail_at(err, status, ROOM, beton->path,
                        (int64_t)(PSTI_BETON_HEADER + i * PSTI_BETON_FIELD), "the field \"%s\" %s",
                        field->name, what);
}

/* Reads the header. */
static enum pst_status read_header(struct psti_beton *beton, struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    uint64_t nbytes = beton->window.source->nbytes;
    if (nbytes < PSTI_BETON_HEADER)
        return bad(beton, PST_ERROR_CORRUPT, "the file is too short for a file of FFCV", err);
    enum pst_status status =
        psti_containers_window_get(&beton->window, 0, PSTI_BETON_HEADER, &bytes, err);
    if (status != PST_OK)
        return status;
    unsigned version = psti_load_u16(bytes);
    beton->n_fields = psti_load_u16(bytes + 2);
    beton->n_samples = psti_load_u64(bytes + 8);
    beton->allocations = psti_load_u64(bytes + 16);
    if (version != VERSION)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, beton->path, 0,
                            "this is no file of FFCV, or one of version %u; version %d is read",
                            version, VERSION);
    if (beton->n_fields == 0)
        return bad(beton, PST_ERROR_CORRUPT, "the file has no fields", err);
    if (beton->allocations == 0)
        return bad(beton, PST_ERROR_TRUNCATED,
                   "the writer of FFCV did not finish the file: its table of allocations is not "
                   "there; write it again",
                   err);
    if (beton->allocations > nbytes)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, beton->path, (int64_t)nbytes,
                            "the file was cut: its table of allocations begins at byte %" PRIu64,
                            beton->allocations);
    if ((nbytes - beton->allocations) % PSTI_BETON_ALLOCATION != 0)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, beton->path, (int64_t)nbytes,
                            "the file was cut within its table of allocations");
    if (beton->n_samples > UINT32_MAX)
        return bad(beton, PST_ERROR_LIMIT, "the file has more than 4294967295 samples", err);
    return PST_OK;
}

/* Finds the element type in a numpy description such as [["", "<f4"]]. Returns NULL if it is not
 * one plain type. */
static const char *find_description(const struct psti_tree *tree)
{
    const struct psti_tree_node *root = tree->nodes, *pair = NULL, *name = NULL, *type = NULL;
    if (root->kind == PSTI_TREE_LIST)
        pair = psti_containers_tree_first(tree, root);
    if (pair == NULL || pair->kind != PSTI_TREE_LIST ||
        psti_containers_tree_next(tree, pair) != NULL)
        return NULL;
    name = psti_containers_tree_first(tree, pair);
    if (name != NULL)
        type = psti_containers_tree_next(tree, name);
    /* A third entry means that each element is itself an array, which is not supported. */
    if (type == NULL || type->kind != PSTI_TREE_SCALAR ||
        psti_containers_tree_next(tree, type) != NULL)
        return NULL;
    return type->text;
}

/* Parses the element type of an array. */
static enum pst_status read_dtype(const struct psti_beton *beton, struct psti_beton_field *field,
                                  const uint8_t *arguments, struct pst_error *err)
{
    uint64_t n = psti_load_u64(arguments + DESCRIPTION - 8);
    const char *text = NULL, *problem = NULL;
    struct psti_tree tree = {0};
    if (n > ARGUMENTS - DESCRIPTION)
        return bad_field(beton, field, PST_ERROR_CORRUPT, "has an element type that is too long",
                         err);
    enum pst_status status = psti_containers_tree_json(
        &tree, beton->path, (const char *)arguments + DESCRIPTION, (size_t)n, err);
    if (status == PST_ERROR_CORRUPT)
        return bad_field(beton, field, status, "has an element type that cannot be read", err);
    if (status != PST_OK)
        return status;
    text = find_description(&tree);
    if (text == NULL)
        status = bad_field(beton, field, PST_ERROR_UNSUPPORTED,
                           "holds arrays of records of several members: leave it out by None, "
                           "or pack the data set (penstock pack --from)",
                           err);
    if (status == PST_OK)
        status = psti_containers_npy_dtype(text, &field->dtype, &problem);
    if (problem != NULL)
        status = bad_field(beton, field, status, problem, err);
    psti_containers_tree_free(&tree);
    return status;
}

/* Parses the shape of an array: its dimensions, followed by zeros. */
static enum pst_status read_shape(const struct psti_beton *beton, struct psti_beton_field *field,
                                  const uint8_t *arguments, struct pst_error *err)
{
    int n = N_DIMENSIONS;
    while (n > 0 && psti_load_u64(arguments + 8 * (size_t)(n - 1)) == 0)
        n--;
    if (n > PST_MAX_NDIM)
        return bad_field(beton, field, PST_ERROR_UNSUPPORTED, "has more than 8 dimensions", err);
    field->ndim = (uint8_t)n;
    field->nbytes = pst_dtype_nbytes(field->dtype);
    for (int i = 0; i < n; i++) {
        uint64_t length = psti_load_u64(arguments + 8 * (size_t)i);
        if (length > UINT32_MAX || !psti_mul_u64(field->nbytes, length, &field->nbytes))
            return bad_field(beton, field, PST_ERROR_CORRUPT, "has an impossible shape", err);
        field->shape[i] = (uint32_t)length;
    }
    return PST_OK;
}

/* Reads a field's description, and computes its offset in a record. */
static enum pst_status read_field(struct psti_beton *beton, struct psti_beton_field *field,
                                  const uint8_t *bytes, struct pst_error *err)
{
    uint64_t *end = &beton->record_nbytes;
    field->type = (enum psti_beton_type)bytes[0];
    memcpy(field->name, bytes + 1, PSTI_BETON_NAME);
    if (field->name[0] == '\0')
        return bad_field(beton, field, PST_ERROR_CORRUPT, "has no name", err);
    bool is_struct = field->type == PSTI_BETON_IMAGE || field->type == PSTI_BETON_BYTES ||
                     field->type == PSTI_BETON_JSON;
    if (field->type == PSTI_BETON_CUSTOM)
        return bad_field(beton, field, PST_ERROR_UNSUPPORTED,
                         "is of a class of its writer's own, so that nobody else knows how long "
                         "the records of the file are: pack the data set by FFCV's reader "
                         "(penstock pack --from)",
                         err);
    if (field->type > PSTI_BETON_TENSOR)
        return bad_field(beton, field, PST_ERROR_CORRUPT, "is of an unknown type", err);
    field->offset = is_struct ? *end : (*end + 7) / 8 * 8;
    *end = field->offset + (field->type == PSTI_BETON_IMAGE ? 13 : is_struct ? 16 : 8);
    if (field->type != PSTI_BETON_ARRAY && field->type != PSTI_BETON_TENSOR)
        return PST_OK;
    const uint8_t *arguments = bytes + 1 + PSTI_BETON_NAME;
    enum pst_status status = read_dtype(beton, field, arguments, err);
    return status == PST_OK ? read_shape(beton, field, arguments, err) : status;
}

static enum pst_status read_fields(struct psti_beton *beton, struct pst_error *err)
{
    bool is_aligned = false;
    for (uint32_t i = 0; i < beton->n_fields; i++) {
        struct psti_beton_field *field = &beton->fields[i];
        const uint8_t *bytes = NULL;
        enum pst_status status = psti_containers_window_get(
            &beton->window, PSTI_BETON_HEADER + (uint64_t)i * PSTI_BETON_FIELD, PSTI_BETON_FIELD,
            &bytes, err);
        if (status == PST_OK)
            status = read_field(beton, field, bytes, err);
        if (status != PST_OK)
            return status;
        is_aligned =
            is_aligned || (field->type != PSTI_BETON_IMAGE && field->type != PSTI_BETON_BYTES &&
                           field->type != PSTI_BETON_JSON);
    }
    if (is_aligned)
        beton->record_nbytes = (beton->record_nbytes + 7) / 8 * 8;
    return PST_OK;
}

enum pst_status psti_containers_beton_head(struct psti_beton *beton, struct pst_error *err)
{
    uint64_t nbytes = 0;
    enum pst_status status = read_header(beton, err);
    if (status != PST_OK)
        return status;
    beton->fields = psti_calloc(beton->n_fields, sizeof *beton->fields);
    if (beton->fields == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory to read %s", beton->path);
    beton->records = PSTI_BETON_HEADER + (uint64_t)beton->n_fields * PSTI_BETON_FIELD;
    if (beton->records > beton->allocations)
        return bad(beton, PST_ERROR_CORRUPT,
                   "the table of allocations begins before the fields end", err);
    status = read_fields(beton, err);
    if (status != PST_OK)
        return status;
    if (!psti_mul_u64(beton->n_samples, beton->record_nbytes, &nbytes) ||
        nbytes > beton->allocations - beton->records)
        return bad(beton, PST_ERROR_CORRUPT,
                   "the table of allocations begins before the samples' records end", err);
    beton->data = beton->records + nbytes;
    return PST_OK;
}

enum pst_status psti_containers_beton_record(struct psti_beton *beton, uint64_t i,
                                             const uint8_t **record, struct pst_error *err)
{
    return psti_containers_window_get(&beton->window, beton->records + i * beton->record_nbytes,
                                      (size_t)beton->record_nbytes, record, err);
}

bool psti_containers_beton_image(const uint8_t *bytes, struct psti_beton_image *image)
{
    *image = (struct psti_beton_image){
        .is_jpeg = bytes[0] == 0,
        .width = psti_load_u16(bytes + 1),
        .height = psti_load_u16(bytes + 3),
        .at = psti_load_u64(bytes + 5),
    };
    return bytes[0] <= 1;
}

enum pst_status psti_containers_beton_bad(const struct psti_beton *beton,
                                          const struct psti_beton_field *field, uint64_t i,
                                          enum pst_status status, const char *what,
                                          struct pst_error *err)
{
    return psti_fail_at(err, status, ROOM, beton->path,
                        (int64_t)(beton->records + i * beton->record_nbytes + field->offset),
                        "field \"%s\" of sample %" PRIu64 " %s", field->name, i, what);
}
