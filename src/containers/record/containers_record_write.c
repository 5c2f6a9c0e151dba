/* containers_record_write.c - writes the record of a walk.
 *
 * In: samples or calls to columns, as the walk makes them, and checksums of the latest one's items.
 * Out: a file of events in order, with a checksum.
 *
 * A sample or row is held in memory until its checksums are known, because they are written before
 * it. The first failure is stored and reported at the end, because a listener of columns cannot
 * stop their walk. */
#include "containers/record/containers_record_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

#define ROOM "containers"

/* A byte buffer that grows. */
struct growing {
    uint8_t *bytes;
    size_t n, capacity;
};

struct psti_walk_record_writer {
    struct psti_output *out;
    struct psti_hash_state hash; /* hash of all events */
    uint64_t nbytes, n_given;    /* bytes of all events; number of samples and rows among them */
    struct growing event;        /* the event that is being made, or that waits for its checksums */
    struct growing sums;         /* checksums of the waiting event */
    bool waits;
    struct pst_error failure; /* the first failure; its status is PST_OK while there is none */
};

enum pst_status psti_containers_record_writer_open(struct psti_output *out,
                                                   struct psti_walk_record_writer **writer,
                                                   struct pst_error *err)
{
    static const uint8_t zeros[PSTI_RECORD_HEADER_NBYTES] = {0};
    /* The hash state inside needs a larger alignment than malloc gives. */
    *writer = psti_alloc_aligned(_Alignof(struct psti_walk_record_writer), sizeof **writer);
    if (*writer == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to record a walk");
    memset(*writer, 0, sizeof **writer);
    (*writer)->out = out;
    psti_hash_begin(&(*writer)->hash);
    enum pst_status status = psti_output_append(out, zeros, sizeof zeros, err);
    if (status != PST_OK)
        psti_containers_record_writer_close(writer);
    return status;
}

void psti_containers_record_writer_close(struct psti_walk_record_writer **writer)
{
    if (*writer == NULL)
        return;
    psti_free((*writer)->event.bytes);
    psti_free((*writer)->sums.bytes);
    psti_free(*writer);
    *writer = NULL;
}

static bool has_failed(const struct psti_walk_record_writer *writer)
{
    return writer->failure.status != PST_OK;
}

/* Encoding of events ------------------------------------------------------------------------- */

static void put(struct psti_walk_record_writer *writer, struct growing *to, const void *bytes,
                size_t nbytes)
{
    if (has_failed(writer) || nbytes == 0)
        return;
    if (nbytes > PSTI_RECORD_EVENT_MAX - to->n) {
        psti_fail(&writer->failure, PST_ERROR_LIMIT, ROOM,
                  "a sample or column is too long for the record of a walk");
        return;
    }
    if (to->n + nbytes > to->capacity) {
        size_t capacity = 2 * (to->n + nbytes) + 256;
        uint8_t *more = psti_realloc(to->bytes, capacity);
        if (more == NULL) {
            psti_fail(&writer->failure, PST_ERROR_MEMORY, ROOM, "no memory to record a walk");
            return;
        }
        to->bytes = more;
        to->capacity = capacity;
    }
    memcpy(to->bytes + to->n, bytes, nbytes);
    to->n += nbytes;
}

static void put_u8(struct psti_walk_record_writer *writer, uint8_t value)
{
    put(writer, &writer->event, &value, 1);
}

static void put_u32(struct psti_walk_record_writer *writer, uint32_t value)
{
    uint8_t bytes[4];
    psti_store_u32(bytes, value);
    put(writer, &writer->event, bytes, sizeof bytes);
}

static void put_u64(struct psti_walk_record_writer *writer, uint64_t value)
{
    uint8_t bytes[8];
    psti_store_u64(bytes, value);
    put(writer, &writer->event, bytes, sizeof bytes);
}

/* Appends bytes with their length. NULL and an empty array are stored differently. */
static void put_bytes(struct psti_walk_record_writer *writer, const void *bytes, size_t nbytes)
{
    put_u8(writer, bytes != NULL);
    if (bytes == NULL)
        return;
    put_u32(writer, nbytes < UINT32_MAX ? (uint32_t)nbytes : UINT32_MAX);
    put(writer, &writer->event, bytes, nbytes);
}

static void put_text(struct psti_walk_record_writer *writer, const char *text)
{
    put_bytes(writer, text, text != NULL ? strlen(text) + 1 : 0);
}

static void put_shape(struct psti_walk_record_writer *writer, uint8_t ndim,
                      const uint32_t shape[PST_MAX_NDIM])
{
    put_u8(writer, ndim);
    for (int i = 0; i < PST_MAX_NDIM; i++)
        put_u32(writer, shape[i]);
}

/* Events ------------------------------------------------------------------------------------- */

static void write_event(struct psti_walk_record_writer *writer, enum psti_walk_record_event kind,
                        const uint8_t *bytes, size_t nbytes)
{
    uint8_t head[PSTI_RECORD_EVENT_NBYTES];
    psti_store_u32(head, (uint32_t)nbytes);
    head[4] = (uint8_t)kind;
    psti_hash_update(&writer->hash, head, sizeof head);
    if (nbytes > 0)
        psti_hash_update(&writer->hash, bytes, nbytes);
    writer->nbytes += sizeof head + nbytes;
    if (psti_output_append(writer->out, head, sizeof head, &writer->failure) == PST_OK &&
        nbytes > 0)
        (void)psti_output_append(writer->out, bytes, nbytes, &writer->failure);
}

/* Writes the event in `event`, whose first byte is its kind. */
static void write_made(struct psti_walk_record_writer *writer)
{
    if (has_failed(writer))
        return;
    write_event(writer, (enum psti_walk_record_event)writer->event.bytes[0],
                writer->event.bytes + 1, writer->event.n - 1);
}

/* Writes the waiting event, with its checksums before it. */
static void flush(struct psti_walk_record_writer *writer)
{
    if (!writer->waits || has_failed(writer))
        return;
    writer->waits = false;
    writer->n_given++;
    if (writer->sums.n > 0)
        write_event(writer, PSTI_RECORD_SUMS, writer->sums.bytes, writer->sums.n);
    write_made(writer);
}

static void begin(struct psti_walk_record_writer *writer, enum psti_walk_record_event kind)
{
    flush(writer);
    writer->event.n = writer->sums.n = 0;
    put_u8(writer, (uint8_t)kind);
}

void psti_containers_record_writer_sample(struct psti_walk_record_writer *writer,
                                          const struct psti_sample *sample)
{
    begin(writer, PSTI_RECORD_SAMPLE);
    put_text(writer, sample->key);
    put_u32(writer, sample->n_parts);
    for (uint32_t i = 0; i < sample->n_parts; i++) {
        const struct psti_part *part = &sample->parts[i];
        put_text(writer, part->suffix);
        put_u64(writer, part->header);
        put_u64(writer, part->offset);
        put_u64(writer, part->nbytes);
        put_u64(writer, part->decoded_nbytes);
        put_u32(writer, (uint32_t)part->coding);
        put_u64(writer, (uint64_t)part->mtime);
        put_u32(writer, part->check);
        put_u8(writer, part->has_crc32);
        put_bytes(writer, part->head, part->n_head);
    }
    writer->waits = true;
}

static void put_column(struct psti_walk_record_writer *writer, const struct psti_columns_call *call)
{
    const struct psti_column *column = call->column;
    put_text(writer, column->name);
    put_u32(writer, (uint32_t)column->type);
    put_u32(writer, (uint32_t)column->dtype);
    put_shape(writer, column->ndim, column->shape);
    put_u64(writer, (uint64_t)column->n_classes);
    put_bytes(writer, column->class_names, column->class_names_nbytes);
    put_u8(writer, column->is_guess);
    put_u8(writer, column->is_unseen);
    put_u32(writer, (uint32_t)call->answer);
    put_u32(writer, call->i_field);
    put_u32(writer, (uint32_t)call->type);
}

static void put_row(struct psti_walk_record_writer *writer, const struct psti_columns_call *call)
{
    put_text(writer, call->name);
    put_u32(writer, call->n_values);
    for (uint32_t i = 0; i < call->n_values; i++) {
        const struct psti_container_value *value = &call->values[i];
        uint64_t bits;
        memcpy(&bits, &value->float_value, sizeof bits);
        put_u32(writer, value->i_field);
        put_bytes(writer, value->bytes, value->bytes != NULL ? (size_t)value->nbytes : 0);
        put_u8(writer, value->is_in_page);
        put_u64(writer, value->i_page);
        put_u64(writer, value->offset);
        put_u64(writer, value->nbytes);
        put_u64(writer, value->decoded_nbytes);
        put_u32(writer, (uint32_t)value->coding);
        put_shape(writer, value->ndim, value->shape);
        put_u64(writer, (uint64_t)value->int_value);
        put_u64(writer, bits);
        put_u64(writer, value->facts);
        put_u8(writer, value->has_crc32);
        put_u32(writer, value->crc32);
    }
    writer->waits = true;
}

void psti_containers_record_writer_call(void *context, const struct psti_columns_call *call)
{
    static const enum psti_walk_record_event events[] = {
        [PSTI_COLUMNS_FILE] = PSTI_RECORD_FILE,
        [PSTI_COLUMNS_ADD] = PSTI_RECORD_COLUMN,
        [PSTI_COLUMNS_EMPTY] = PSTI_RECORD_EMPTY,
        [PSTI_COLUMNS_LEAVE_OUT] = PSTI_RECORD_LEFT_OUT,
        [PSTI_COLUMNS_NOTE_ROWS] = PSTI_RECORD_NOTE_ROWS,
        [PSTI_COLUMNS_PAGE] = PSTI_RECORD_PAGE,
        [PSTI_COLUMNS_ROW] = PSTI_RECORD_ROW,
    };
    struct psti_walk_record_writer *writer = context;
    begin(writer, events[call->kind]);
    switch (call->kind) {
    case PSTI_COLUMNS_FILE:
        break;
    case PSTI_COLUMNS_ADD:
        put_column(writer, call);
        break;
    case PSTI_COLUMNS_EMPTY:
        put_text(writer, call->name);
        break;
    case PSTI_COLUMNS_LEAVE_OUT:
    case PSTI_COLUMNS_NOTE_ROWS:
        put_text(writer, call->name);
        put_text(writer, call->text);
        put_u64(writer, call->n);
        break;
    case PSTI_COLUMNS_PAGE:
        put_u64(writer, call->page->offset);
        put_u64(writer, call->page->nbytes);
        put_u64(writer, call->page->decoded_nbytes);
        put_u32(writer, (uint32_t)call->page->coding);
        break;
    case PSTI_COLUMNS_ROW:
        put_row(writer, call);
        break;
    }
    if (!writer->waits)
        write_made(writer);
}

void psti_containers_record_writer_sum(struct psti_walk_record_writer *writer,
                                       const struct psti_walk_record_sum *sum)
{
    uint8_t bytes[PSTI_RECORD_SUM_NBYTES];
    bytes[0] = sum->is_in_page;
    psti_store_u64(bytes + 1, sum->i_page);
    psti_store_u64(bytes + 9, sum->offset);
    psti_store_u64(bytes + 17, sum->nbytes);
    psti_store_u64(bytes + 25, sum->sum);
    put(writer, &writer->sums, bytes, sizeof bytes);
}

/* The end ------------------------------------------------------------------------------------ */

static void print_head(const struct psti_walk_record_writer *writer,
                       const struct psti_walk_record_head *head,
                       uint8_t out[PSTI_RECORD_HEADER_NBYTES])
{
    memset(out, 0, PSTI_RECORD_HEADER_NBYTES);
    memcpy(out, PSTI_RECORD_MAGIC, 8);
    psti_store_u32(out + PSTI_RECORD_AT_VERSION, PSTI_RECORD_VERSION);
    psti_store_u32(out + PSTI_RECORD_AT_KIND, (uint32_t)head->kind);
    memcpy(out + PSTI_RECORD_AT_KEY, head->key, sizeof head->key);
    psti_store_u64(out + PSTI_RECORD_AT_PATH, head->path_hash);
    psti_store_u64(out + PSTI_RECORD_AT_FILE, head->file_nbytes);
    psti_store_u64(out + PSTI_RECORD_AT_STAMP, head->stamp);
    psti_store_u64(out + PSTI_RECORD_AT_SAMPLED, head->sampled_hash);
    psti_store_u64(out + PSTI_RECORD_AT_SAMPLES, head->n_samples);
    psti_store_u64(out + PSTI_RECORD_AT_NBYTES, writer->nbytes);
    psti_store_u64(out + PSTI_RECORD_AT_CHECKSUM, psti_hash_end(&writer->hash));
    psti_store_u32(out + PSTI_RECORD_AT_FLAGS, (head->has_sums ? PSTI_RECORD_HAS_SUMS : 0) |
                                                   (head->has_no_end ? PSTI_RECORD_HAS_NO_END : 0));
    psti_store_u64(out + PSTI_RECORD_AT_GIVEN, writer->n_given);
    psti_store_u64(out + PSTI_RECORD_AT_SUM, psti_hash64(out, PSTI_RECORD_AT_SUM));
}

enum pst_status psti_containers_record_writer_end(struct psti_walk_record_writer *writer,
                                                  const struct psti_walk_record_head *head,
                                                  struct pst_error *err)
{
    uint8_t printed[PSTI_RECORD_HEADER_NBYTES];
    flush(writer);
    if (has_failed(writer)) {
        if (err != NULL)
            *err = writer->failure;
        return writer->failure.status;
    }
    print_head(writer, head, printed);
    enum pst_status status = psti_output_flush(writer->out, err);
    if (status == PST_OK)
        status = psti_output_patch(writer->out, 0, printed, sizeof printed, err);
    return status == PST_OK ? psti_output_sync(writer->out, err) : status;
}
