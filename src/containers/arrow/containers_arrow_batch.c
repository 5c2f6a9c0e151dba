/* containers_arrow_batch.c - finds which buffers of a batch belong to which field.
 *
 * In: the table RecordBatch (Message.fbs) of a message. Out: arrays and buffers.
 *
 * A batch lists its nodes and buffers in the order of the fields, each field before its children.
 * The number of a field's buffers follows from its type; for views, the batch has a list of
 * numbers. Children of a dictionary's type occur only in the batches of that dictionary. */
#include "containers/arrow/containers_arrow_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "containers"

enum {
    RECORD_LENGTH = 0,
    RECORD_NODES = 1,
    RECORD_BUFFERS = 2,
    RECORD_COMPRESSION = 3,
    RECORD_VIEWS = 4
};
enum { COMPRESSION_CODEC = 0, COMPRESSION_METHOD = 1 };
enum { NODE_NBYTES = 16, BUFFER_NBYTES = 16, VIEWS_MAX = 1 << 20 };

struct reader {
    const char *path;
    const struct psti_arrow_schema *schema;
    const struct psti_arrow_frame *frame;
    struct psti_arrow_batch *batch;
    struct psti_flat_vector nodes, buffers, views;
    size_t i_node, i_buffer, i_view;
    struct pst_error *err;
};

static enum pst_status corrupt(const struct reader *reader, const char *what)
{
    return psti_fail_at(reader->err, PST_ERROR_CORRUPT, ROOM, reader->path,
                        (int64_t)reader->frame->at, "a batch of the file %s", what);
}

/* Sets *n to the number of buffers that a field has. */
static enum pst_status count_buffers(struct reader *reader, const struct psti_arrow_field *field,
                                     bool is_dictionary, uint32_t *n)
{
    *n = 2;
    if (field->has_dictionary && !is_dictionary)
        return PST_OK;
    switch (field->type) {
    case PSTI_ARROW_NULL:
    case PSTI_ARROW_RUN_END:
        *n = 0;
        break;
    case PSTI_ARROW_STRUCT:
    case PSTI_ARROW_FIXED_LIST:
        *n = 1;
        break;
    case PSTI_ARROW_UNION:
        *n = (field->is_dense ? 2 : 1) + (reader->schema->version < PSTI_ARROW_V5);
        break;
    case PSTI_ARROW_BINARY:
    case PSTI_ARROW_UTF8:
    case PSTI_ARROW_LARGE_BINARY:
    case PSTI_ARROW_LARGE_UTF8:
    case PSTI_ARROW_LIST_VIEW:
    case PSTI_ARROW_LARGE_LIST_VIEW:
        *n = 3;
        break;
    case PSTI_ARROW_BINARY_VIEW:
    case PSTI_ARROW_UTF8_VIEW:
        if (reader->i_view == reader->views.n)
            return corrupt(reader, "does not say how many buffers its views have");
        uint64_t n_views = psti_load_u64(reader->views.bytes + 8 * reader->i_view++);
        if (n_views > VIEWS_MAX)
            return corrupt(reader, "states a wrong number of buffers of views");
        *n += (uint32_t)n_views;
        break;
    default:
        break;
    }
    return PST_OK;
}

/* Assigns a node and buffers to a field, then to its children. */
static enum pst_status take_field(struct reader *reader, uint32_t i_field, bool is_dictionary)
{
    const struct psti_arrow_field *field = &reader->schema->fields[i_field];
    struct psti_arrow_array *array = &reader->batch->arrays[i_field - reader->batch->first];
    uint32_t n_buffers = 0;
    if (reader->i_node == reader->nodes.n)
        return corrupt(reader, "has fewer columns than the schema");
    const uint8_t *node = reader->nodes.bytes + NODE_NBYTES * reader->i_node++;
    enum pst_status status = count_buffers(reader, field, is_dictionary, &n_buffers);
    if (status != PST_OK)
        return status;
    if (n_buffers > reader->buffers.n - reader->i_buffer)
        return corrupt(reader, "has fewer buffers than its columns need");
    *array = (struct psti_arrow_array){
        .n = psti_load_u64(node),
        .has_nulls = psti_load_u64(node + 8) != 0,
        .first = (uint32_t)reader->i_buffer,
        .n_buffers = n_buffers,
    };
    if (array->n > INT64_MAX)
        return corrupt(reader, "has a column of a negative length");
    reader->i_buffer += n_buffers;
    if (field->has_dictionary && !is_dictionary)
        return PST_OK;
    for (uint32_t i = i_field + 1; i < field->end && status == PST_OK;
         i = reader->schema->fields[i].end)
        status = take_field(reader, i, false);
    return status;
}

/* Sets offset, size and coding of all buffers from the batch's list. */
static enum pst_status place_buffers(struct reader *reader, enum psti_coding coding)
{
    const struct psti_arrow_frame *frame = reader->frame;
    for (size_t i = 0; i < reader->buffers.n; i++) {
        const uint8_t *bytes = reader->buffers.bytes + BUFFER_NBYTES * i;
        uint64_t offset = psti_load_u64(bytes), nbytes = psti_load_u64(bytes + 8);
        if (!psti_range_fits(offset, nbytes, frame->body_nbytes))
            return corrupt(reader, "has a buffer that leads out of it");
        struct psti_arrow_buffer *buffer = &reader->batch->buffers[i];
        if (buffer->capacity > PSTI_ARROW_PART_NBYTES) /* large memory, left from a buffer that was
                                                        * decoded: free it */
            psti_containers_arrow_buffer_free(buffer);
        *buffer = (struct psti_arrow_buffer){
            .at = frame->body + offset,
            .nbytes = nbytes,
            .coding = coding,
            .memory = buffer->memory,
            .capacity = buffer->capacity,
        };
    }
    return PST_OK;
}

/* Allocates the arrays of the fields [first, end), and all buffers. */
static enum pst_status reserve(struct reader *reader, uint32_t first, uint32_t end)
{
    struct psti_arrow_batch *batch = reader->batch;
    if (batch->n_arrays < end - first) {
        psti_free(batch->arrays);
        batch->arrays = psti_calloc(end - first, sizeof *batch->arrays);
        batch->n_arrays = batch->arrays == NULL ? 0 : end - first;
        if (batch->arrays == NULL)
            return psti_fail(reader->err, PST_ERROR_MEMORY, ROOM, "out of memory for %u columns",
                             end - first);
    }
    batch->first = first;
    size_t n = reader->buffers.n; /* 16 bytes each in a message below 4 GiB, so 32 bits suffice */
    if (n > batch->capacity) {
        struct psti_arrow_buffer *buffers = psti_realloc(batch->buffers, n * sizeof *buffers);
        if (buffers == NULL)
            return psti_fail(reader->err, PST_ERROR_MEMORY, ROOM, "out of memory for %zu buffers",
                             n);
        memset(buffers + batch->capacity, 0, (n - batch->capacity) * sizeof *buffers);
        batch->buffers = buffers;
        batch->capacity = (uint32_t)n;
    }
    batch->n_buffers = (uint32_t)n;
    return PST_OK;
}

/* Finds how the batch's buffers are compressed. */
static enum pst_status find_coding(const struct reader *reader,
                                   const struct psti_flat_table *record, enum psti_coding *coding)
{
    struct psti_flat_table how = psti_containers_flat_table(record, RECORD_COMPRESSION);
    uint8_t codec = psti_containers_flat_u8(&how, COMPRESSION_CODEC, 0);
    *coding = PSTI_CODING_STORED;
    if (how.flat == NULL)
        return PST_OK;
    if (codec > 1 || psti_containers_flat_u8(&how, COMPRESSION_METHOD, 0) != 0)
        return psti_fail_at(reader->err, PST_ERROR_UNSUPPORTED, ROOM, reader->path,
                            (int64_t)reader->frame->at,
                            "a batch is compressed in a way that is newer than this program: write "
                            "the file with lz4 or zstd, or without compression");
    *coding = codec == 0 ? PSTI_CODING_LZ4 : PSTI_CODING_ZSTD;
    return PST_OK;
}

enum pst_status psti_containers_arrow_batch(const char *path,
                                            const struct psti_arrow_schema *schema,
                                            const struct psti_flat_table *record,
                                            const struct psti_arrow_frame *frame, uint32_t i_field,
                                            bool is_dictionary, struct psti_arrow_batch *batch,
                                            struct pst_error *err)
{
    struct reader reader = {
        .path = path,
        .schema = schema,
        .frame = frame,
        .batch = batch,
        .nodes = psti_containers_flat_vector(record, RECORD_NODES, NODE_NBYTES),
        .buffers = psti_containers_flat_vector(record, RECORD_BUFFERS, BUFFER_NBYTES),
        .views = psti_containers_flat_vector(record, RECORD_VIEWS, 8),
        .err = err,
    };
    uint32_t end = is_dictionary ? schema->fields[i_field].end : schema->n;
    enum psti_coding coding = PSTI_CODING_STORED;
    enum pst_status status = reserve(&reader, i_field, end);
    if (status == PST_OK)
        status = find_coding(&reader, record, &coding);
    if (status == PST_OK && record->flat->is_bad)
        status = corrupt(&reader, "leads out of its message");
    batch->n_rows = frame->n_rows;
    for (uint32_t i = i_field; i < end && status == PST_OK; i = schema->fields[i].end) {
        status = take_field(&reader, i, is_dictionary);
        if (status == PST_OK && batch->arrays[i - i_field].n != batch->n_rows)
            status = corrupt(&reader, "has a column of another length than its rows");
    }
    if (status == PST_OK && reader.i_node != reader.nodes.n)
        status = corrupt(&reader, "has more columns than the schema");
    return status == PST_OK ? place_buffers(&reader, coding) : status;
}

void psti_containers_arrow_batch_free(struct psti_arrow_batch *batch)
{
    for (uint32_t i = 0; i < batch->capacity; i++)
        psti_containers_arrow_buffer_free(&batch->buffers[i]);
    psti_free(batch->buffers);
    psti_free(batch->arrays);
    memset(batch, 0, sizeof *batch);
}
