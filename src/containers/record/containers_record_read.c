/* containers_record_read.c - reads the record of a walk, and repeats what the walk output.
 *
 * In: a file of events. Out: samples for a taker, or calls to columns. No byte is trusted, because
 * a matching checksum does not show who wrote the file.
 *
 * Each event is read whole into memory. What it outputs points there and is valid until the next
 * event. */
#include "containers/record/containers_record_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/buffer.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "base/hash.h"
#include "format/format_container.h"

#include <errno.h>
#include <string.h>

#define ROOM "containers"
enum { PIECE_NBYTES = 1 << 20 };

struct psti_walk_record {
    int fd;
    const char *path;
    struct psti_walk_record_head head;
    uint64_t nbytes, checksum; /* size and checksum of all events */
    uint64_t n_given;          /* number of samples or rows in the events */
    uint64_t at;               /* offset of the next event, counted from the first event */
    struct psti_buffer buffer; /* bytes of events that were read ahead */
    uint64_t buffered_at;      /* offset of the buffer's first byte */
    size_t n_buffered;
    struct psti_part *parts; /* [PSTI_SAMPLE_PARTS_MAX] */
    struct psti_walk_record_sum
        *sums; /* [PST_MAX_FIELDS]: the n_sums checksums of the current sample or row */
    size_t n_sums;
    uint64_t first_page, n_pages;      /* pages of the file: number of the first, and count */
    uint32_t of_field[PST_MAX_FIELDS]; /* maps a field number of the record to that of the
                                        * columns */
};

static enum pst_status corrupt(const struct psti_walk_record *record, const char *what,
                               struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, record->path,
                        (int64_t)(PSTI_RECORD_HEADER_NBYTES + record->at),
                        "the part of an index %s: remove the file, and run the part again", what);
}

/* The head ----------------------------------------------------------------------------------- */

static enum pst_status parse_head(struct psti_walk_record *record,
                                  const uint8_t bytes[PSTI_RECORD_HEADER_NBYTES],
                                  struct pst_error *err)
{
    struct psti_walk_record_head *head = &record->head;
    uint32_t flags = psti_load_u32(bytes + PSTI_RECORD_AT_FLAGS);
    if (memcmp(bytes, PSTI_RECORD_MAGIC, 8) != 0)
        return corrupt(record, "is none", err);
    if (psti_load_u64(bytes + PSTI_RECORD_AT_SUM) != psti_hash64(bytes, PSTI_RECORD_AT_SUM))
        return corrupt(record, "has a damaged header", err);
    if (psti_load_u32(bytes + PSTI_RECORD_AT_VERSION) != PSTI_RECORD_VERSION)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, record->path, -1,
                            "another version of Penstock made this part of an index: remove the "
                            "file, and run the part again");
    head->kind = (enum psti_container_kind)psti_load_u32(bytes + PSTI_RECORD_AT_KIND);
    memcpy(head->key, bytes + PSTI_RECORD_AT_KEY, sizeof head->key);
    head->path_hash = psti_load_u64(bytes + PSTI_RECORD_AT_PATH);
    head->file_nbytes = psti_load_u64(bytes + PSTI_RECORD_AT_FILE);
    head->stamp = psti_load_u64(bytes + PSTI_RECORD_AT_STAMP);
    head->sampled_hash = psti_load_u64(bytes + PSTI_RECORD_AT_SAMPLED);
    head->n_samples = psti_load_u64(bytes + PSTI_RECORD_AT_SAMPLES);
    head->has_sums = (flags & PSTI_RECORD_HAS_SUMS) != 0;
    head->has_no_end = (flags & PSTI_RECORD_HAS_NO_END) != 0;
    record->nbytes = psti_load_u64(bytes + PSTI_RECORD_AT_NBYTES);
    record->checksum = psti_load_u64(bytes + PSTI_RECORD_AT_CHECKSUM);
    record->n_given = psti_load_u64(bytes + PSTI_RECORD_AT_GIVEN);
    return PST_OK;
}

enum pst_status psti_containers_record_open(int fd, const char *path,
                                            struct psti_walk_record **record,
                                            struct psti_walk_record_head *head,
                                            struct pst_error *err)
{
    uint8_t bytes[PSTI_RECORD_HEADER_NBYTES];
    struct stat st;
    struct psti_walk_record *opened = *record = psti_calloc(1, sizeof *opened);
    if (opened == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for a part of an index");
    opened->fd = fd;
    opened->path = path;
    ssize_t n = psti_read_at(fd, bytes, sizeof bytes, 0);
    enum pst_status status = PST_OK;
    if (n < 0 || fstat(fd, &st) != 0)
        status = psti_fail_os(err, errno, ROOM, path, 0, "cannot read a part of an index");
    else if (n < (ssize_t)sizeof bytes)
        status = corrupt(opened, "is cut short", err);
    if (status == PST_OK)
        status = parse_head(opened, bytes, err);
    if (status == PST_OK && opened->nbytes != (uint64_t)st.st_size - PSTI_RECORD_HEADER_NBYTES)
        status = corrupt(opened, "does not have the length that it states", err);
    if (status == PST_OK)
        *head = opened->head;
    else
        psti_containers_record_close(record);
    return status;
}

void psti_containers_record_close(struct psti_walk_record **record)
{
    if (*record == NULL)
        return;
    psti_buffer_free(&(*record)->buffer);
    psti_free((*record)->parts);
    psti_free((*record)->sums);
    psti_free(*record);
    *record = NULL;
}

/* Events ------------------------------------------------------------------------------------- */

/* Returns the next nbytes bytes of the events, valid until the next call. The caller has checked
 * that they exist. */
static enum pst_status take(struct psti_walk_record *record, size_t nbytes, const uint8_t **bytes,
                            struct pst_error *err)
{
    if (nbytes > record->nbytes - record->at)
        return corrupt(record, "ends within an event", err);
    bool is_there = record->at >= record->buffered_at &&
                    psti_range_fits(record->at - record->buffered_at, nbytes, record->n_buffered);
    if (!is_there) {
        uint64_t left = record->nbytes - record->at;
        size_t n = nbytes > PIECE_NBYTES ? nbytes
                   : left < PIECE_NBYTES ? (size_t)left
                                         : PIECE_NBYTES;
        enum pst_status status =
            psti_buffer_reserve(&record->buffer, n, ROOM, "of a part of an index", err);
        if (status != PST_OK)
            return status;
        ssize_t got = psti_read_at(record->fd, record->buffer.bytes, n,
                                   PSTI_RECORD_HEADER_NBYTES + record->at);
        if (got < 0)
            return psti_fail_os(err, errno, ROOM, record->path, -1,
                                "cannot read a part of an index");
        record->buffered_at = record->at;
        record->n_buffered = (size_t)got;
        if ((size_t)got < n)
            return corrupt(record, "became shorter", err);
    }
    *bytes = (const uint8_t *)record->buffer.bytes + (record->at - record->buffered_at);
    record->at += nbytes;
    return PST_OK;
}

enum pst_status psti_containers_record_verify(struct psti_walk_record *record,
                                              struct pst_error *err)
{
    struct psti_hash_state hash;
    const uint8_t *bytes;
    enum pst_status status = PST_OK;
    psti_hash_begin(&hash);
    record->at = 0;
    while (status == PST_OK && record->at < record->nbytes) {
        uint64_t left = record->nbytes - record->at;
        size_t n = left < PIECE_NBYTES ? (size_t)left : PIECE_NBYTES;
        status = take(record, n, &bytes, err);
        if (status == PST_OK)
            psti_hash_update(&hash, bytes, n);
    }
    if (status == PST_OK && psti_hash_end(&hash) != record->checksum) {
        (void)corrupt(record, "is damaged", err);
        status = PST_ERROR_CHECKSUM;
        if (err != NULL)
            err->status = status;
    }
    record->at = 0;
    return status;
}

/* The rest of an event. Reading beyond its end marks it as bad and gives zeros. */
struct cursor {
    const uint8_t *at, *end;
    bool is_bad;
};

static const uint8_t *get(struct cursor *cursor, size_t nbytes)
{
    static const uint8_t zeros[8] = {0};
    if (nbytes > (size_t)(cursor->end - cursor->at)) {
        cursor->is_bad = true;
        cursor->at = cursor->end;
        return nbytes <= sizeof zeros ? zeros : NULL;
    }
    const uint8_t *bytes = cursor->at;
    cursor->at += nbytes;
    return bytes;
}

static uint8_t get_u8(struct cursor *cursor) { return *get(cursor, 1); }
static uint32_t get_u32(struct cursor *cursor) { return psti_load_u32(get(cursor, 4)); }
static uint64_t get_u64(struct cursor *cursor) { return psti_load_u64(get(cursor, 8)); }

static bool get_bool(struct cursor *cursor)
{
    uint8_t value = get_u8(cursor);
    cursor->is_bad |= value > 1;
    return value == 1;
}

/* Reads bytes with their length. NULL: the writer put NULL, or the event is bad. */
static const uint8_t *get_bytes(struct cursor *cursor, size_t *nbytes)
{
    *nbytes = 0;
    if (!get_bool(cursor))
        return NULL;
    size_t n = get_u32(cursor);
    const uint8_t *bytes = get(cursor, n);
    if (cursor->is_bad)
        return NULL;
    *nbytes = n;
    return bytes;
}

/* Reads a text; "" if the event is bad. is_needed: a NULL marks the event as bad. */
static const char *get_text(struct cursor *cursor, bool is_needed)
{
    size_t nbytes;
    const uint8_t *text = get_bytes(cursor, &nbytes);
    if (text == NULL && !is_needed)
        return NULL;
    if (text == NULL || nbytes == 0 || memchr(text, 0, nbytes) != text + nbytes - 1) {
        cursor->is_bad = true;
        return "";
    }
    return (const char *)text;
}

static uint8_t get_shape(struct cursor *cursor, uint32_t shape[PST_MAX_NDIM])
{
    uint8_t ndim = get_u8(cursor);
    cursor->is_bad |= ndim > PST_MAX_NDIM;
    for (int i = 0; i < PST_MAX_NDIM; i++)
        shape[i] = get_u32(cursor);
    return ndim <= PST_MAX_NDIM ? ndim : 0;
}

static enum psti_coding get_coding(struct cursor *cursor)
{
    uint32_t coding = get_u32(cursor);
    bool is_one = coding == PSTI_CODING_STORED || psti_format_is_coding(coding);
    cursor->is_bad |= !is_one;
    return is_one ? (enum psti_coding)coding : PSTI_CODING_STORED;
}

static bool is_done(const struct cursor *cursor)
{
    return !cursor->is_bad && cursor->at == cursor->end;
}

/* Reads the next event. *kind: 0 at the end. */
static enum pst_status next_event(struct psti_walk_record *record, uint8_t *kind,
                                  struct cursor *cursor, struct pst_error *err)
{
    const uint8_t *bytes;
    *kind = 0;
    *cursor = (struct cursor){0};
    if (record->at == record->nbytes)
        return PST_OK;
    enum pst_status status = take(record, PSTI_RECORD_EVENT_NBYTES, &bytes, err);
    if (status != PST_OK)
        return status;
    size_t nbytes = psti_load_u32(bytes);
    *kind = bytes[4];
    if (nbytes > PSTI_RECORD_EVENT_MAX || *kind == 0)
        return corrupt(record, "has an impossible event", err);
    status = take(record, nbytes, &bytes, err);
    *cursor = (struct cursor){.at = bytes, .end = status == PST_OK ? bytes + nbytes : bytes};
    return status;
}

/* Sums --------------------------------------------------------------------------------------- */

static enum pst_status take_sums(struct psti_walk_record *record, struct cursor *cursor,
                                 struct pst_error *err)
{
    size_t nbytes = (size_t)(cursor->end - cursor->at), n = nbytes / PSTI_RECORD_SUM_NBYTES;
    if (n * PSTI_RECORD_SUM_NBYTES != nbytes || n == 0 || n > PST_MAX_FIELDS)
        return corrupt(record, "has no sums where it says so", err);
    if (record->sums == NULL)
        record->sums = psti_calloc(PST_MAX_FIELDS, sizeof *record->sums);
    if (record->sums == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for sums");
    for (size_t i = 0; i < n; i++) {
        struct psti_walk_record_sum *sum = &record->sums[i];
        sum->is_in_page = get_bool(cursor);
        sum->i_page = get_u64(cursor);
        sum->offset = get_u64(cursor);
        sum->nbytes = get_u64(cursor);
        sum->sum = get_u64(cursor);
        cursor->is_bad |= sum->sum == 0;
    }
    record->n_sums = n;
    return is_done(cursor) ? PST_OK : corrupt(record, "has an impossible sum", err);
}

uint64_t psti_containers_record_find_sum(void *context, const struct psti_container_value *value)
{
    const struct psti_walk_record *record = context;
    for (size_t i = 0; i < record->n_sums; i++) {
        const struct psti_walk_record_sum *sum = &record->sums[i];
        if (sum->is_in_page == value->is_in_page && sum->offset == value->offset &&
            sum->nbytes == value->nbytes &&
            (!sum->is_in_page || sum->i_page == value->i_page - record->first_page))
            return sum->sum;
    }
    return 0;
}

/* Samples ------------------------------------------------------------------------------------ */

static void get_part(const struct psti_walk_record *record, struct cursor *cursor,
                     struct psti_part *part)
{
    size_t n_head;
    *part = (struct psti_part){.suffix = get_text(cursor, true)};
    part->header = get_u64(cursor);
    part->offset = get_u64(cursor);
    part->nbytes = get_u64(cursor);
    part->decoded_nbytes = get_u64(cursor);
    part->coding = get_coding(cursor);
    part->mtime = (int64_t)get_u64(cursor);
    part->check = get_u32(cursor);
    part->has_crc32 = get_bool(cursor);
    part->head = get_bytes(cursor, &n_head);
    part->n_head = (uint32_t)n_head;
    cursor->is_bad |=
        !psti_range_fits(part->offset, part->nbytes, record->head.file_nbytes) ||
        (part->coding == PSTI_CODING_STORED && part->nbytes != part->decoded_nbytes) ||
        n_head > PSTI_HEAD_MAX || n_head > part->decoded_nbytes;
}

static enum pst_status play_sample(struct psti_walk_record *record, struct cursor *cursor,
                                   const struct psti_sample_taker *taker, struct pst_error *err)
{
    struct psti_sample sample = {.key = get_text(cursor, true), .parts = record->parts};
    sample.n_parts = get_u32(cursor);
    if (cursor->is_bad || sample.n_parts == 0 || sample.n_parts > PSTI_SAMPLE_PARTS_MAX)
        return corrupt(record, "has an impossible sample", err);
    for (uint32_t i = 0; i < sample.n_parts; i++)
        get_part(record, cursor, &record->parts[i]);
    if (!is_done(cursor))
        return corrupt(record, "has an impossible sample", err);
    enum pst_status status = taker->take(taker->context, &sample, err);
    record->n_sums = 0;
    return status;
}

enum pst_status psti_containers_record_play_samples(struct psti_walk_record *record,
                                                    const struct psti_sample_taker *taker,
                                                    struct pst_error *err)
{
    struct cursor cursor;
    uint8_t kind;
    uint64_t n = 0;
    record->at = record->n_sums = 0;
    if (record->parts == NULL)
        record->parts = psti_alloc_array(PSTI_SAMPLE_PARTS_MAX, sizeof *record->parts);
    if (record->parts == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for members of samples");
    enum pst_status status = next_event(record, &kind, &cursor, err);
    for (; status == PST_OK && kind != 0; status = next_event(record, &kind, &cursor, err)) {
        if (kind == PSTI_RECORD_SUMS)
            status = take_sums(record, &cursor, err);
        else if (kind == PSTI_RECORD_SAMPLE)
            status = play_sample(record, &cursor, taker, err);
        else
            status = corrupt(record, "has an event of a table", err);
        n += kind == PSTI_RECORD_SAMPLE;
        if (status != PST_OK)
            return status;
    }
    return status == PST_OK && n != record->n_given
               ? corrupt(record, "does not have the samples that it states", err)
               : status;
}

/* Calls of columns --------------------------------------------------------------------------- */

/* The columns, and the record whose calls to them are repeated. */
struct playing {
    struct psti_walk_record *record;
    struct psti_containers_columns *columns;
    const char *path;
    bool deviates;
    uint64_t n_rows;
};

static enum pst_status play_column(struct playing *playing, struct cursor *cursor,
                                   struct pst_error *err)
{
    struct psti_walk_record *record = playing->record;
    struct psti_column column = {.name = get_text(cursor, true)};
    column.type = (enum pst_field_type)get_u32(cursor);
    column.dtype = (enum pst_dtype)get_u32(cursor);
    column.ndim = get_shape(cursor, column.shape);
    column.n_classes = (int64_t)get_u64(cursor);
    column.class_names = (const char *)get_bytes(cursor, &column.class_names_nbytes);
    column.is_guess = get_bool(cursor);
    column.is_unseen = get_bool(cursor);
    uint32_t answer = get_u32(cursor), recorded = get_u32(cursor), type = get_u32(cursor), i_field;
    bool was_taken = answer == PST_OK && recorded != PSTI_COLUMN_LEFT_OUT;
    bool is_known = column.type >= PST_FIELD_IMAGE && column.type <= PST_FIELD_ARRAY;
    if (!is_done(cursor) || !is_known || (was_taken && recorded >= PST_MAX_FIELDS))
        return corrupt(record, "has an impossible column", err);
    enum pst_status status = psti_containers_columns_add(playing->columns, &column, &i_field, err);
    if (status == PST_ERROR_MEMORY)
        return status;
    bool is_taken = status == PST_OK && i_field != PSTI_COLUMN_LEFT_OUT;
    playing->deviates =
        (uint32_t)status != answer || is_taken != was_taken ||
        (is_taken && (uint32_t)psti_containers_columns_type(playing->columns, i_field) != type);
    if (is_taken && !playing->deviates)
        record->of_field[recorded] = i_field;
    pst_error_clear(err);
    return PST_OK;
}

static enum pst_status play_page(struct playing *playing, struct cursor *cursor,
                                 struct pst_error *err)
{
    struct psti_walk_record *record = playing->record;
    struct psti_container_page page = {.offset = get_u64(cursor)};
    uint64_t i_page;
    page.nbytes = get_u64(cursor);
    page.decoded_nbytes = get_u64(cursor);
    page.coding = get_coding(cursor);
    if (!is_done(cursor) || page.coding == PSTI_CODING_STORED)
        return corrupt(record, "has an impossible page", err);
    enum pst_status status = psti_containers_columns_page(playing->columns, &page, &i_page, err);
    if (status == PST_OK && record->n_pages++ == 0)
        record->first_page = i_page;
    return status;
}

static void get_value(const struct psti_walk_record *record, struct cursor *cursor,
                      struct psti_container_value *value)
{
    size_t nbytes;
    uint32_t i_field = get_u32(cursor);
    *value = (struct psti_container_value){.bytes = get_bytes(cursor, &nbytes)};
    value->is_in_page = get_bool(cursor);
    uint64_t i_page = get_u64(cursor), bits;
    value->i_page = value->is_in_page ? record->first_page + i_page : i_page;
    value->offset = get_u64(cursor);
    value->nbytes = get_u64(cursor);
    value->decoded_nbytes = get_u64(cursor);
    value->coding = get_coding(cursor);
    value->ndim = get_shape(cursor, value->shape);
    value->int_value = (int64_t)get_u64(cursor);
    bits = get_u64(cursor);
    memcpy(&value->float_value, &bits, sizeof bits);
    value->facts = get_u64(cursor);
    value->has_crc32 = get_bool(cursor);
    value->crc32 = get_u32(cursor);
    bool is_known = i_field < PST_MAX_FIELDS && record->of_field[i_field] < PST_MAX_FIELDS;
    value->i_field = is_known ? record->of_field[i_field] : 0;
    cursor->is_bad |= !is_known || (value->bytes != NULL && nbytes != value->nbytes) ||
                      (value->is_in_page && i_page >= record->n_pages);
    if (value->bytes == NULL && !value->is_in_page && value->coding == PSTI_CODING_STORED)
        cursor->is_bad |= value->decoded_nbytes != 0 && value->nbytes != value->decoded_nbytes;
    if (value->bytes == NULL && !value->is_in_page && value->nbytes > 0)
        cursor->is_bad |= !psti_range_fits(value->offset, value->nbytes, record->head.file_nbytes);
}

static enum pst_status play_row(struct playing *playing, struct cursor *cursor,
                                struct pst_error *err)
{
    struct psti_container_value values[PST_MAX_FIELDS];
    struct psti_walk_record *record = playing->record;
    const char *name = get_text(cursor, false);
    uint32_t n = get_u32(cursor);
    uint64_t seen = 0;
    if (cursor->is_bad || n > PST_MAX_FIELDS)
        return corrupt(record, "has an impossible row", err);
    for (uint32_t i = 0; i < n; i++) {
        get_value(record, cursor, &values[i]);
        uint64_t bit = UINT64_C(1) << values[i].i_field;
        cursor->is_bad |= (seen & bit) != 0;
        seen |= bit;
    }
    if (!is_done(cursor))
        return corrupt(record, "has an impossible row", err);
    playing->n_rows++;
    enum pst_status status = psti_containers_columns_row(playing->columns, name, values, n, err);
    record->n_sums = 0;
    return status;
}

/* Repeats a call that reports a column left out, or rows that are no samples. */
static enum pst_status play_notice(struct playing *playing, uint8_t kind, struct cursor *cursor,
                                   struct pst_error *err)
{
    const char *name = get_text(cursor, true);
    const char *text = get_text(cursor, kind == PSTI_RECORD_LEFT_OUT);
    uint64_t n = get_u64(cursor);
    if (!is_done(cursor))
        return corrupt(playing->record, "has an impossible notice", err);
    if (kind == PSTI_RECORD_LEFT_OUT)
        psti_containers_columns_leave_out(playing->columns, playing->path, name, text);
    else
        psti_containers_columns_note_rows(playing->columns, name, n, text);
    return PST_OK;
}

static enum pst_status play_call(struct playing *playing, uint8_t kind, struct cursor *cursor,
                                 struct pst_error *err)
{
    const char *name;
    switch (kind) {
    case PSTI_RECORD_FILE:
        return psti_containers_columns_file(playing->columns, playing->path, err);
    case PSTI_RECORD_COLUMN:
        return play_column(playing, cursor, err);
    case PSTI_RECORD_EMPTY:
        name = get_text(cursor, true);
        return is_done(cursor)
                   ? psti_containers_columns_empty(playing->columns, playing->path, name, err)
                   : corrupt(playing->record, "has an impossible column", err);
    case PSTI_RECORD_LEFT_OUT:
    case PSTI_RECORD_NOTE_ROWS:
        return play_notice(playing, kind, cursor, err);
    case PSTI_RECORD_PAGE:
        return play_page(playing, cursor, err);
    case PSTI_RECORD_ROW:
        return play_row(playing, cursor, err);
    case PSTI_RECORD_SUMS:
        return take_sums(playing->record, cursor, err);
    default:
        return corrupt(playing->record, "has an impossible event", err);
    }
}

enum pst_status psti_containers_record_play_columns(struct psti_walk_record *record,
                                                    const char *path,
                                                    struct psti_containers_columns *columns,
                                                    bool *deviates, struct pst_error *err)
{
    struct playing playing = {.record = record, .columns = columns, .path = path};
    struct cursor cursor;
    uint8_t kind;
    record->at = record->n_sums = 0;
    record->first_page = record->n_pages = 0;
    memset(record->of_field, 0xff, sizeof record->of_field);
    enum pst_status status = next_event(record, &kind, &cursor, err);
    while (status == PST_OK && kind != 0 && !playing.deviates) {
        status = play_call(&playing, kind, &cursor, err);
        if (status == PST_OK && !playing.deviates)
            status = next_event(record, &kind, &cursor, err);
    }
    *deviates = playing.deviates;
    return status == PST_OK && !playing.deviates && playing.n_rows != record->n_given
               ? corrupt(record, "does not have the rows that it states", err)
               : status;
}
