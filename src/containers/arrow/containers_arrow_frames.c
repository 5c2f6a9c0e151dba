/* containers_arrow_frames.c - finds the messages of a file: the schema, dictionaries, batches.
 *
 * In: a file in either form. Out: the schema, and the location of each message and its body.
 *
 * A message is its length in 4 bytes, its metadata and its body. Since Arrow 0.15, 4 bytes of ones
 * stand before the length. A stream is a sequence of messages that ends with a length of 0. A file
 * has messages too, and a footer that lists them; only the footer is used. */
#include "containers/arrow/containers_arrow_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROOM "containers"
#define ONES UINT32_MAX
#define MAGIC "ARROW1"

enum {
    MAGIC_NBYTES = 6,
    HEAD_NBYTES = 8, /* bytes of a file's padded magic; also of the ones and the length before a
                      * message */
    TAIL_NBYTES = 4 + MAGIC_NBYTES,
    MESSAGE_MAX_NBYTES = 256 << 20,
    BLOCK_NBYTES = 24,
};
enum {
    MESSAGE_VERSION = 0,
    MESSAGE_KIND = 1,
    MESSAGE_HEADER = 2,
    MESSAGE_BODY_NBYTES = 3,
    MESSAGE_METADATA = 4
};
enum { IS_SCHEMA = 1, IS_DICTIONARY = 2, IS_BATCH = 3 };
enum { DICTIONARY_ID = 0, DICTIONARY_RECORD = 1, DICTIONARY_IS_DELTA = 2 };
enum { FOOTER_VERSION = 0, FOOTER_SCHEMA = 1, FOOTER_DICTIONARIES = 2, FOOTER_BATCHES = 3 };

struct reader {
    const struct psti_walk_source *source;
    struct psti_arrow_frames *frames;
    struct psti_arrow_schema *schema;
    struct pst_error *err;
};

/* A message whose metadata was read. */
struct message {
    struct psti_flat flat;
    struct psti_flat_table header;
    uint8_t kind;
    int version;
    uint64_t body_nbytes;
};

static enum pst_status corrupt(const struct reader *reader, uint64_t offset, const char *what)
{
    return psti_fail_at(reader->err, PST_ERROR_CORRUPT, ROOM, reader->source->path, (int64_t)offset,
                        "%s", what);
}

/* Fills in the error for a stream that ends early. It states how many rows before the end are
 * complete. */
static enum pst_status truncated(const struct reader *reader, uint64_t offset)
{
    const struct psti_arrow_frames *frames = reader->frames;
    return psti_fail_at(
        reader->err, PST_ERROR_TRUNCATED, ROOM, reader->source->path, (int64_t)offset,
        "the file ends within a message; %" PRIu64 " rows before it are whole", frames->n_rows);
}

static enum pst_status read_bytes(const struct reader *reader, uint64_t offset, void *bytes,
                                  size_t nbytes)
{
    const struct psti_walk_source *source = reader->source;
    if (!psti_range_fits(offset, nbytes, source->nbytes))
        return truncated(reader, offset);
    ssize_t got = source->read(source->context, bytes, nbytes, offset);
    if (got < 0)
        return psti_fail_os(reader->err, errno, ROOM, source->path, (int64_t)offset,
                            "cannot read %zu bytes", nbytes);
    return (size_t)got == nbytes
               ? PST_OK
               : psti_fail_at(reader->err, PST_ERROR_TRUNCATED, ROOM, source->path, (int64_t)offset,
                              "the file became shorter while it was read");
}

/* Reads a message's metadata into the shared buffer for messages. */
static enum pst_status read_metadata(const struct reader *reader, uint64_t offset, uint32_t nbytes)
{
    struct psti_arrow_frames *frames = reader->frames;
    if (!psti_range_fits(offset, nbytes, reader->source->nbytes))
        return truncated(reader, offset);
    if (nbytes == 0)
        return corrupt(reader, offset, "this is no message of Arrow");
    if (nbytes > MESSAGE_MAX_NBYTES)
        return psti_fail_at(reader->err, PST_ERROR_LIMIT, ROOM, reader->source->path,
                            (int64_t)offset,
                            "what the file says of itself has %u bytes, %d are "
                            "the limit",
                            nbytes, MESSAGE_MAX_NBYTES);
    if (nbytes > frames->capacity) {
        uint8_t *message = psti_realloc(frames->message, nbytes);
        if (message == NULL)
            return psti_fail(reader->err, PST_ERROR_MEMORY, ROOM,
                             "out of memory for a message of %u bytes", nbytes);
        frames->message = message;
        frames->capacity = nbytes;
    }
    return read_bytes(reader, offset, frames->message, nbytes);
}

static enum pst_status check_version(const struct reader *reader, int version)
{
    if (version == PSTI_ARROW_V4 || version == PSTI_ARROW_V5)
        return PST_OK;
    return psti_fail_at(reader->err, PST_ERROR_UNSUPPORTED, ROOM, reader->source->path, -1,
                        "the file was written by a version of Arrow before 0.8, or by one that is "
                        "newer than this program: write it anew with a present one");
}

/* True for a message of Arrow 0.17 that marks an older, incompatible compression of buffers. */
static bool has_old_compression(const struct psti_flat_table *message)
{
    static const char key[] = "ARROW:experimental_compression";
    struct psti_flat_vector pairs = psti_containers_flat_vector(message, MESSAGE_METADATA, 4);
    for (size_t i = 0; i < pairs.n; i++) {
        struct psti_flat_table pair = psti_containers_flat_element(&pairs, i);
        struct psti_flat_vector found = psti_containers_flat_vector(&pair, 0, 1);
        if (found.n == sizeof key - 1 && memcmp(found.bytes, key, found.n) == 0)
            return true;
    }
    return false;
}

/* Parses the metadata in the shared buffer. */
static enum pst_status parse(const struct reader *reader, uint64_t offset, uint32_t nbytes,
                             struct message *message)
{
    message->flat = (struct psti_flat){reader->frames->message, nbytes, false};
    struct psti_flat_table table = psti_containers_flat_root(&message->flat);
    int64_t body_nbytes = psti_containers_flat_i64(&table, MESSAGE_BODY_NBYTES, 0);
    message->version = psti_containers_flat_i16(&table, MESSAGE_VERSION, 0);
    message->kind = psti_containers_flat_u8(&table, MESSAGE_KIND, 0);
    message->header = psti_containers_flat_table(&table, MESSAGE_HEADER);
    bool is_old = has_old_compression(&table);
    if (message->flat.is_bad || message->header.flat == NULL || body_nbytes < 0)
        return corrupt(reader, offset, "this is no message of Arrow");
    message->body_nbytes = (uint64_t)body_nbytes;
    if (is_old)
        return psti_fail_at(reader->err, PST_ERROR_UNSUPPORTED, ROOM, reader->source->path,
                            (int64_t)offset,
                            "the file is compressed as version 0.17 of Arrow did it: write it anew "
                            "with a present one");
    return check_version(reader, message->version);
}

/* Reads the length before a message. *metadata: offset of the message; *nbytes: its length, 0 at
 * the end of the stream. */
static enum pst_status read_length(const struct reader *reader, uint64_t at, uint64_t *metadata,
                                   uint32_t *nbytes)
{
    uint8_t bytes[4];
    enum pst_status status = read_bytes(reader, at, bytes, 4);
    *metadata = at + 4;
    *nbytes = status == PST_OK ? psti_load_u32(bytes) : 0;
    if (status == PST_OK && *nbytes == ONES) {
        status = read_bytes(reader, at + 4, bytes, 4);
        *metadata = at + HEAD_NBYTES;
        *nbytes = status == PST_OK ? psti_load_u32(bytes) : 0;
    }
    if (status == PST_OK && *nbytes > INT32_MAX)
        return corrupt(reader, at, "the length of a message is negative");
    return status;
}

static enum pst_status keep(const struct reader *reader, const struct psti_arrow_frame *frame)
{
    struct psti_arrow_frames *frames = reader->frames;
    if (frames->n == frames->at_capacity) {
        size_t capacity = 2 * frames->at_capacity + 64;
        struct psti_arrow_frame *at = psti_realloc(frames->at, capacity * sizeof *at);
        if (at == NULL)
            return psti_fail(reader->err, PST_ERROR_MEMORY, ROOM, "out of memory for %zu batches",
                             capacity);
        frames->at = at;
        frames->at_capacity = capacity;
    }
    frames->at[frames->n++] = *frame;
    if (!frame->is_dictionary && !psti_add_u64(frames->n_rows, frame->n_rows, &frames->n_rows))
        return corrupt(reader, frame->at, "the file has too many rows");
    return PST_OK;
}

/* Fills a frame from a dictionary or batch message, and returns its table RecordBatch. */
static enum pst_status fill_frame(const struct reader *reader, const struct message *message,
                                  struct psti_arrow_frame *frame, struct psti_flat_table *record)
{
    frame->is_dictionary = message->kind == IS_DICTIONARY;
    *record = message->header;
    if (frame->is_dictionary) {
        frame->dictionary = psti_containers_flat_i64(&message->header, DICTIONARY_ID, 0);
        frame->is_delta = psti_containers_flat_u8(&message->header, DICTIONARY_IS_DELTA, 0) != 0;
        *record = psti_containers_flat_table(&message->header, DICTIONARY_RECORD);
    }
    int64_t n_rows = psti_containers_flat_i64(record, 0, 0);
    if (record->flat == NULL || record->flat->is_bad || n_rows < 0)
        return corrupt(reader, frame->at, "this is no batch of Arrow");
    frame->n_rows = (uint64_t)n_rows;
    return PST_OK;
}

/* Parses the schema message. The schema takes over the message's memory. */
static enum pst_status take_schema(const struct reader *reader, const struct psti_flat_table *table,
                                   int version)
{
    struct psti_arrow_frames *frames = reader->frames;
    enum pst_status status = psti_containers_arrow_schema(table, version, reader->source->path,
                                                          reader->schema, reader->err);
    frames->schema_message = frames->message;
    frames->message = NULL;
    frames->capacity = 0;
    if (status == PST_OK && reader->schema->n == 0)
        return corrupt(reader, 0, "the file has no column");
    return status;
}

/* Adds a message of a stream to the frames, or takes it as the schema. */
static enum pst_status take_message(const struct reader *reader, const struct message *message,
                                    struct psti_arrow_frame *frame)
{
    struct psti_flat_table record;
    bool has_schema = reader->frames->schema_message != NULL;
    if (message->kind == IS_SCHEMA && !has_schema)
        return take_schema(reader, &message->header, message->version);
    if (!has_schema)
        return corrupt(reader, frame->at, "the file does not begin with a schema of Arrow");
    if (message->kind != IS_DICTIONARY && message->kind != IS_BATCH)
        return corrupt(reader, frame->at,
                       "here is a message that is neither a dictionary nor a batch");
    enum pst_status status = fill_frame(reader, message, frame, &record);
    return status == PST_OK ? keep(reader, frame) : status;
}

/* Reads the messages of a stream, from the offset `at` on. */
static enum pst_status read_stream(const struct reader *reader, uint64_t at)
{
    const struct psti_walk_source *source = reader->source;
    for (;;) {
        struct message message;
        struct psti_arrow_frame frame = {0};
        enum pst_status status = PST_OK;
        if (at == source->nbytes) {
            reader->frames->has_no_end = true;
            break;
        }
        status = read_length(reader, at, &frame.at, &frame.nbytes);
        if (status == PST_OK && frame.nbytes == 0)
            break;
        if (status == PST_OK && reader->frames->schema_message == NULL &&
            !psti_range_fits(frame.at, frame.nbytes, source->nbytes))
            return corrupt(reader, 0, "this is no file of Arrow");
        if (status == PST_OK)
            status = read_metadata(reader, frame.at, frame.nbytes);
        if (status == PST_OK)
            status = parse(reader, frame.at, frame.nbytes, &message);
        if (status != PST_OK)
            return status;
        frame.body = frame.at + frame.nbytes;
        frame.body_nbytes = message.body_nbytes;
        if (!psti_range_fits(frame.body, frame.body_nbytes, source->nbytes))
            return truncated(reader, source->nbytes);
        status = take_message(reader, &message, &frame);
        if (status != PST_OK)
            return status;
        at = frame.body + frame.body_nbytes;
    }
    return reader->frames->schema_message != NULL
               ? PST_OK
               : corrupt(reader, 0, "the file has no schema of Arrow");
}

/* Adds the message that a block of the footer points to. */
static enum pst_status take_block(const struct reader *reader, const uint8_t *block,
                                  bool is_dictionary)
{
    struct message message;
    struct psti_flat_table record;
    struct psti_arrow_frame frame = {0};
    uint64_t at = psti_load_u64(block), nbytes = psti_load_u32(block + 8);
    uint64_t body_nbytes = psti_load_u64(block + 16);
    if (at > INT64_MAX || nbytes > INT32_MAX || body_nbytes > INT64_MAX ||
        !psti_range_fits(at, nbytes, reader->source->nbytes) ||
        !psti_range_fits(at + nbytes, body_nbytes, reader->source->nbytes))
        return corrupt(reader, reader->source->nbytes, "the footer leads out of the file");
    enum pst_status status = read_length(reader, at, &frame.at, &frame.nbytes);
    if (status == PST_OK &&
        (frame.nbytes == 0 || frame.at - at > nbytes || frame.nbytes > nbytes - (frame.at - at)))
        status = corrupt(reader, at, "a message is longer than the footer says");
    if (status == PST_OK)
        status = read_metadata(reader, frame.at, frame.nbytes);
    if (status == PST_OK)
        status = parse(reader, frame.at, frame.nbytes, &message);
    if (status == PST_OK && (message.kind != (is_dictionary ? IS_DICTIONARY : IS_BATCH) ||
                             message.body_nbytes != body_nbytes))
        status = corrupt(reader, at, "a message is not what the footer says");
    if (status != PST_OK)
        return status;
    frame.body = at + nbytes;
    frame.body_nbytes = body_nbytes;
    status = fill_frame(reader, &message, &frame, &record);
    return status == PST_OK ? keep(reader, &frame) : status;
}

static int by_place(const void *a, const void *b)
{
    const struct psti_arrow_frame *const *x = a, *const *y = b;
    return ((*x)->at > (*y)->at) - ((*x)->at < (*y)->at);
}

/* Refuses a footer that lists the same bytes twice, because a small file could then make any number
 * of rows. */
static enum pst_status refuse_overlap(const struct reader *reader)
{
    const struct psti_arrow_frames *frames = reader->frames;
    enum pst_status status = PST_OK;
    if (frames->n < 2)
        return PST_OK;
    const struct psti_arrow_frame **sorted = psti_alloc_array(frames->n, sizeof *sorted);
    if (sorted == NULL)
        return psti_fail(reader->err, PST_ERROR_MEMORY, ROOM, "out of memory for %zu batches",
                         frames->n);
    for (size_t i = 0; i < frames->n; i++)
        sorted[i] = &frames->at[i];
    qsort(sorted, frames->n, sizeof *sorted, by_place);
    for (size_t i = 1; i < frames->n && status == PST_OK; i++)
        if (sorted[i]->at < sorted[i - 1]->body + sorted[i - 1]->body_nbytes)
            status = corrupt(reader, sorted[i]->at, "the footer lists the same bytes twice");
    psti_free(sorted);
    return status;
}

static enum pst_status read_footer(const struct reader *reader)
{
    uint8_t tail[TAIL_NBYTES];
    uint64_t nbytes = reader->source->nbytes;
    if (nbytes < HEAD_NBYTES + TAIL_NBYTES)
        return psti_fail_at(reader->err, PST_ERROR_TRUNCATED, ROOM, reader->source->path,
                            (int64_t)nbytes, "the file ends before its footer");
    enum pst_status status = read_bytes(reader, nbytes - TAIL_NBYTES, tail, TAIL_NBYTES);
    if (status != PST_OK)
        return status;
    uint64_t footer_nbytes = psti_load_u32(tail);
    if (memcmp(tail + 4, MAGIC, MAGIC_NBYTES) != 0)
        return psti_fail_at(reader->err, PST_ERROR_TRUNCATED, ROOM, reader->source->path,
                            (int64_t)nbytes,
                            "the file lacks its footer: it was cut, or is not written to its end");
    if (footer_nbytes > INT32_MAX || footer_nbytes > nbytes - HEAD_NBYTES - TAIL_NBYTES)
        return corrupt(reader, nbytes - TAIL_NBYTES, "the footer is longer than the file");
    status = read_metadata(reader, nbytes - TAIL_NBYTES - footer_nbytes, (uint32_t)footer_nbytes);
    if (status != PST_OK)
        return status;
    struct psti_flat flat = {reader->frames->message, (size_t)footer_nbytes, false};
    struct psti_flat_table footer = psti_containers_flat_root(&flat);
    struct psti_flat_table schema = psti_containers_flat_table(&footer, FOOTER_SCHEMA);
    struct psti_flat_vector lists[] = {
        psti_containers_flat_vector(&footer, FOOTER_DICTIONARIES, BLOCK_NBYTES),
        psti_containers_flat_vector(&footer, FOOTER_BATCHES, BLOCK_NBYTES),
    };
    int version = psti_containers_flat_i16(&footer, FOOTER_VERSION, 0);
    if (flat.is_bad || schema.flat == NULL)
        return corrupt(reader, nbytes - TAIL_NBYTES - footer_nbytes, "this is no footer of Arrow");
    status = check_version(reader, version);
    if (status == PST_OK)
        status = take_schema(reader, &schema, version);
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < lists[i].n && status == PST_OK; k++)
            status = take_block(reader, lists[i].bytes + BLOCK_NBYTES * k, i == 0);
    return status == PST_OK ? refuse_overlap(reader) : status;
}

enum pst_status psti_containers_arrow_frames(const struct psti_walk_source *source,
                                             struct psti_arrow_frames *frames,
                                             struct psti_arrow_schema *schema,
                                             struct pst_error *err)
{
    struct reader reader = {source, frames, schema, err};
    uint8_t head[HEAD_NBYTES] = {0};
    if (source->nbytes == 0)
        return corrupt(&reader, 0, "the file is empty");
    size_t n = source->nbytes < sizeof head ? (size_t)source->nbytes : sizeof head;
    enum pst_status status = read_bytes(&reader, 0, head, n);
    if (status != PST_OK)
        return status;
    if (memcmp(head, "FEA1", 4) == 0)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, source->path, 0,
                            "this is a file of Feather's first version: write it anew, as by "
                            "pyarrow.feather.write_feather(table, path)");
    return memcmp(head, MAGIC, MAGIC_NBYTES) == 0 ? read_footer(&reader) : read_stream(&reader, 0);
}

enum pst_status psti_containers_arrow_frame(const struct psti_walk_source *source,
                                            struct psti_arrow_frames *frames, size_t i,
                                            struct psti_flat *flat, struct psti_flat_table *record,
                                            struct pst_error *err)
{
    struct reader reader = {source, frames, NULL, err};
    struct psti_arrow_frame *frame = &frames->at[i], again = *frame;
    struct message message;
    enum pst_status status = read_metadata(&reader, frame->at, frame->nbytes);
    if (status == PST_OK)
        status = parse(&reader, frame->at, frame->nbytes, &message);
    if (status != PST_OK)
        return status;
    *flat = message.flat;
    message.header.flat = flat;
    status = fill_frame(&reader, &message, &again, record);
    if (status == PST_OK &&
        (again.is_dictionary != frame->is_dictionary || again.n_rows != frame->n_rows))
        status = corrupt(&reader, frame->at, "the file was changed while it was read");
    return status;
}

void psti_containers_arrow_frames_free(struct psti_arrow_frames *frames)
{
    psti_free(frames->message);
    psti_free(frames->at);
    psti_free(frames->schema_message);
    memset(frames, 0, sizeof *frames);
}
