/* containers_arrow_schema.c - parses the table Schema (Schema.fbs) into a list of fields.
 *
 * In: a message from an untrusted file. Out: fields in pre-order; their texts lie in the message.
 *
 * A message may refer to the same table many times, so a few bytes can describe many fields. Number
 * and depth of the fields are limited for that reason. */
#include "containers/arrow/containers_arrow_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "containers"
#define SHORTER "; leave such columns out when the file is written, or write Parquet"

/* Member numbers in the table Schema. */
enum { SCHEMA_ENDIANNESS = 0, SCHEMA_FIELDS = 1, SCHEMA_METADATA = 2 };
enum {
    FIELD_NAME = 0,
    FIELD_TYPE_KIND = 2,
    FIELD_TYPE = 3,
    FIELD_DICTIONARY = 4,
    FIELD_CHILDREN = 5,
    FIELD_METADATA = 6,
};
enum { DICTIONARY_ID = 0, DICTIONARY_INDEX = 1, DICTIONARY_IS_ORDERED = 2 };
enum { INT_BITS = 0, INT_IS_SIGNED = 1, TIME_BITS = 1 };
enum { PAIR_KEY = 0, PAIR_VALUE = 1 };

/* Most key-value pairs that are read in all. Fields may share pairs, so a small file could have
 * many. */
enum { PAIRS_MAX = 1 << 20 };

struct reader {
    struct psti_arrow_schema *schema;
    const char *path;
    size_t *n_pairs; /* pairs that may still be read */
    struct pst_error *err;
};

static enum pst_status corrupt(const struct reader *reader, const char *what)
{
    return psti_fail_at(reader->err, PST_ERROR_CORRUPT, ROOM, reader->path, -1,
                        "the schema of the file %s", what);
}

static enum pst_status bad_field(const struct reader *reader, const struct psti_arrow_field *field,
                                 enum pst_status status, const char *what)
{
    return psti_fail_at(reader->err, status, ROOM, reader->path, -1, "the column '%.100s' %s",
                        field->name, what);
}

static bool is_int_width(int32_t bits)
{
    return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}

/* Reads the parameters of a field's type, such as bit width or list size. */
static enum pst_status read_type(const struct reader *reader, const struct psti_flat_table *type,
                                 struct psti_arrow_field *field)
{
    static const uint8_t float_bits[] = {16, 32, 64};
    int32_t number = 0;
    switch (field->type) {
    case PSTI_ARROW_INT:
        number = psti_containers_flat_i32(type, INT_BITS, 0);
        field->is_signed = psti_containers_flat_u8(type, INT_IS_SIGNED, 0) != 0;
        if (!is_int_width(number))
            return bad_field(reader, field, PST_ERROR_CORRUPT, "has integers of no known width");
        field->bits = (uint8_t)number;
        break;
    case PSTI_ARROW_FLOAT:
        number = psti_containers_flat_i16(type, 0, 0);
        if (number < 0 || number > 2)
            return bad_field(reader, field, PST_ERROR_CORRUPT, "has floats of no known width");
        field->bits = float_bits[number];
        break;
    case PSTI_ARROW_FIXED_BINARY:
    case PSTI_ARROW_FIXED_LIST:
        number = psti_containers_flat_i32(type, 0, 0);
        if (number < 0)
            return bad_field(reader, field, PST_ERROR_CORRUPT, "has values of a negative size");
        field->size = (uint32_t)number;
        break;
    case PSTI_ARROW_UNION:
        field->is_dense = psti_containers_flat_i16(type, 0, 0) != 0;
        break;
    case PSTI_ARROW_DATE: /* days, or milliseconds since 1970 */
        field->bits = psti_containers_flat_i16(type, 0, 1) == 0 ? 32 : 64;
        field->is_signed = true;
        break;
    case PSTI_ARROW_TIME:
        number = psti_containers_flat_i32(type, TIME_BITS, 32);
        if (number != 32 && number != 64)
            return bad_field(reader, field, PST_ERROR_CORRUPT, "has times of no known width");
        field->bits = (uint8_t)number;
        field->is_signed = true;
        break;
    case PSTI_ARROW_TIMESTAMP:
    case PSTI_ARROW_DURATION:
        field->bits = 64;
        field->is_signed = true;
        break;
    default:
        break;
    }
    return PST_OK;
}

static enum pst_status read_dictionary(const struct reader *reader,
                                       const struct psti_flat_table *table,
                                       struct psti_arrow_field *field)
{
    struct psti_flat_table index = psti_containers_flat_table(table, DICTIONARY_INDEX);
    int32_t bits = 32;
    field->has_dictionary = true;
    field->dictionary = psti_containers_flat_i64(table, DICTIONARY_ID, 0);
    field->is_ordered = psti_containers_flat_u8(table, DICTIONARY_IS_ORDERED, 0) != 0;
    field->index_is_signed = true;
    if (index.flat != NULL) {
        bits = psti_containers_flat_i32(&index, INT_BITS, 0);
        field->index_is_signed = psti_containers_flat_u8(&index, INT_IS_SIGNED, 0) != 0;
    }
    if (!is_int_width(bits))
        return bad_field(reader, field, PST_ERROR_CORRUPT,
                         "has a dictionary whose indices have no known width");
    field->index_bits = (uint8_t)bits;
    return PST_OK;
}

/* Finds the value of a key in a list of key-value pairs. */
static struct psti_flat_vector find_pair(const struct reader *reader,
                                         const struct psti_flat_table *table, uint32_t i_member,
                                         const char *key)
{
    struct psti_flat_vector pairs = psti_containers_flat_vector(table, i_member, 4);
    for (size_t i = 0; i<pairs.n && * reader->n_pairs> 0; i++, (*reader->n_pairs)--) {
        struct psti_flat_table pair = psti_containers_flat_element(&pairs, i);
        struct psti_flat_vector found = psti_containers_flat_vector(&pair, PAIR_KEY, 1);
        if (found.n == strlen(key) && memcmp(found.bytes, key, found.n) == 0)
            return psti_containers_flat_vector(&pair, PAIR_VALUE, 1);
    }
    return (struct psti_flat_vector){0};
}

/* Reads name and metadata of a field's extension type. Some extension types change what a value
 * is. */
static void read_extension(const struct reader *reader, const struct psti_flat_table *table,
                           struct psti_arrow_field *field)
{
    static const char *const known[] = {"arrow.json", "arrow.fixed_shape_tensor"};
    static const char datasets[] = "datasets.features.features.Array";
    struct psti_flat_vector name = find_pair(reader, table, FIELD_METADATA, "ARROW:extension:name");
    struct psti_flat_vector json =
        find_pair(reader, table, FIELD_METADATA, "ARROW:extension:metadata");
    field->extension = "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (name.n == strlen(known[i]) && memcmp(name.bytes, known[i], name.n) == 0)
            field->extension = known[i];
    if (name.n > sizeof datasets && memcmp(name.bytes, datasets, sizeof datasets - 1) == 0)
        field->extension = "datasets";
    field->extension_json = (const char *)json.bytes;
    field->extension_nbytes = json.n;
}

/* Makes room for one more field. */
static enum pst_status grow(const struct reader *reader)
{
    struct psti_arrow_schema *schema = reader->schema;
    if (schema->n == PSTI_ARROW_MAX_FIELDS)
        return psti_fail_at(reader->err, PST_ERROR_LIMIT, ROOM, reader->path, -1,
                            "the file has more than %d columns, with those within others",
                            PSTI_ARROW_MAX_FIELDS);
    if (schema->n < schema->capacity)
        return PST_OK;
    uint32_t capacity = 2 * schema->capacity + 16;
    struct psti_arrow_field *fields =
        psti_realloc(schema->fields, capacity * sizeof *schema->fields);
    if (fields == NULL)
        return psti_fail(reader->err, PST_ERROR_MEMORY, ROOM, "out of memory for %u columns",
                         capacity);
    schema->fields = fields;
    schema->capacity = capacity;
    return PST_OK;
}

/* Returns how many children a type must have; -1: any number. */
static int children_of(enum psti_arrow_type type)
{
    switch (type) {
    case PSTI_ARROW_STRUCT:
    case PSTI_ARROW_UNION:
        return -1;
    case PSTI_ARROW_LIST:
    case PSTI_ARROW_LARGE_LIST:
    case PSTI_ARROW_LIST_VIEW:
    case PSTI_ARROW_LARGE_LIST_VIEW:
    case PSTI_ARROW_FIXED_LIST:
    case PSTI_ARROW_MAP:
        return 1;
    case PSTI_ARROW_RUN_END:
        return 2;
    default:
        return 0;
    }
}

static enum pst_status read_fields(const struct reader *reader,
                                   const struct psti_flat_vector *tables, int depth);

static enum pst_status read_field(const struct reader *reader, const struct psti_flat_table *table,
                                  int depth)
{
    struct psti_arrow_schema *schema = reader->schema;
    const char *name = psti_containers_flat_text(table, FIELD_NAME);
    uint8_t type = psti_containers_flat_u8(table, FIELD_TYPE_KIND, 0);
    struct psti_flat_table about = psti_containers_flat_table(table, FIELD_TYPE);
    struct psti_flat_table dictionary = psti_containers_flat_table(table, FIELD_DICTIONARY);
    struct psti_flat_vector children = psti_containers_flat_vector(table, FIELD_CHILDREN, 4);
    struct psti_arrow_field field = {.name = name == NULL ? "" : name,
                                     .type = (enum psti_arrow_type)type};
    uint32_t self = schema->n;
    read_extension(reader, table, &field);
    enum pst_status status = grow(reader);
    if (status == PST_OK && (type == 0 || type > PSTI_ARROW_LARGE_LIST_VIEW))
        status = bad_field(reader, &field, PST_ERROR_UNSUPPORTED,
                           "has a type that is newer than this program" SHORTER);
    if (status == PST_OK)
        status = read_type(reader, &about, &field);
    if (status == PST_OK && dictionary.flat != NULL)
        status = read_dictionary(reader, &dictionary, &field);
    if (status == PST_OK && children_of(field.type) >= 0 &&
        children.n != (size_t)children_of(field.type))
        status = bad_field(reader, &field, PST_ERROR_CORRUPT,
                           "has another number of parts than its type");
    if (status != PST_OK)
        return status;
    field.n_inside = (uint32_t)children.n; /* no overflow: a schema with that many fields fails
                                            * below */
    schema->fields[schema->n++] = field;
    status = read_fields(reader, &children, depth + 1);
    schema->fields[self].end = schema->n;
    return status;
}

static enum pst_status read_fields(const struct reader *reader,
                                   const struct psti_flat_vector *tables, int depth)
{
    enum pst_status status = PST_OK;
    if (tables->n > 0 && depth > PSTI_ARROW_MAX_DEPTH)
        return psti_fail_at(reader->err, PST_ERROR_LIMIT, ROOM, reader->path, -1,
                            "a column has more than %d types within each other",
                            PSTI_ARROW_MAX_DEPTH);
    for (size_t i = 0; i < tables->n && status == PST_OK; i++) {
        struct psti_flat_table table = psti_containers_flat_element(tables, i);
        if (tables->flat->is_bad)
            return corrupt(reader, "leads out of its message");
        status = read_field(reader, &table, depth);
    }
    return status;
}

enum pst_status psti_containers_arrow_schema(const struct psti_flat_table *table, int version,
                                             const char *path, struct psti_arrow_schema *schema,
                                             struct pst_error *err)
{
    size_t n_pairs = PAIRS_MAX;
    struct reader reader = {schema, path, &n_pairs, err};
    schema->version = version;
    if (psti_containers_flat_i16(table, SCHEMA_ENDIANNESS, 0) != 0)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, path, -1,
                            "the file has big-endian data: write it anew on another machine");
    struct psti_flat_vector hub = find_pair(&reader, table, SCHEMA_METADATA, "huggingface");
    struct psti_flat_vector fields = psti_containers_flat_vector(table, SCHEMA_FIELDS, 4);
    schema->hub = hub.n > 0 ? (const char *)hub.bytes : NULL;
    schema->hub_nbytes = hub.n;
    enum pst_status status = read_fields(&reader, &fields, 0);
    if (status == PST_OK && (table->flat == NULL || table->flat->is_bad))
        status = corrupt(&reader, "leads out of its message");
    if (status == PST_OK && n_pairs == 0)
        status =
            psti_fail_at(err, PST_ERROR_LIMIT, ROOM, path, -1,
                         "the schema of the file has more than %d pairs of metadata", PAIRS_MAX);
    return status;
}

void psti_containers_arrow_schema_free(struct psti_arrow_schema *schema)
{
    psti_free(schema->fields);
    memset(schema, 0, sizeof *schema);
}

const char *psti_containers_arrow_type_name(const struct psti_arrow_field *field)
{
    static const char *const names[] = {
        "unknown",
        "null",
        "int",
        "float",
        "binary",
        "string",
        "bool",
        "decimal",
        "date",
        "time",
        "timestamp",
        "interval",
        "list",
        "struct",
        "union",
        "fixed-size binary",
        "fixed-size list",
        "map",
        "duration",
        "large binary",
        "large string",
        "large list",
        "run-end encoded",
        "binary view",
        "string view",
        "list view",
        "large list view",
    };
    return field->has_dictionary ? "dictionary" : names[field->type];
}
