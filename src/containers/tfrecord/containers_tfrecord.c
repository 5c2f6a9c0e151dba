/* containers_tfrecord.c - iterates over the records of a file, twice.
 *
 * In: a file through a window, on one thread. Out: rows. The first pass collects what the keys of
 * the Examples hold (containers_tfrecord_keys.c), the second makes rows
 * (containers_tfrecord_rows.c). */
#include "containers/tfrecord/containers_tfrecord_int.h"

#include "containers/containers_kinds.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/crc32c.h"
#include "base/fail.h"
#include "base/hash.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"
enum { HEADER_NBYTES = 12, FOOTER_NBYTES = 4 };

/* Masks a CRC as TFRecord stores it. The mask avoids CRCs of data that contains CRCs. */
static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8; }

bool psti_containers_tfrecord_is(const uint8_t *head, size_t nbytes)
{
    return nbytes >= HEADER_NBYTES && psti_load_u32(head + 8) == masked(psti_crc32c(0, head, 8));
}

static enum pst_status truncated(const struct psti_tf *tf, const char *where)
{
    const char *path = tf->source->path;
    int64_t nbytes = (int64_t)tf->source->nbytes;
    if (tf->i == 0)
        return psti_fail_at(tf->err, PST_ERROR_TRUNCATED, ROOM, path, nbytes,
                            "the file ends within %s its first record", where);
    return psti_fail_at(tf->err, PST_ERROR_TRUNCATED, ROOM, path, nbytes,
                        "the file ends within %s record %" PRIu64
                        "; the last whole one is record %" PRIu64,
                        where, tf->i, tf->i - 1);
}

/* Fills in the error for a header whose checksum is wrong. */
static enum pst_status bad_header(const struct psti_tf *tf, const uint8_t *header)
{
    const char *path = tf->source->path, *packer = NULL;
    bool is_zlib = header[0] == 0x78 && (header[0] << 8 | header[1]) % 31 == 0; /* RFC 1950 */
    if (header[0] == 0x1F && header[1] == 0x8B)
        packer = "GZIP";
    else if (is_zlib)
        packer = "ZLIB";
    if (tf->i == 0 && packer != NULL)
        return psti_fail_at(tf->err, PST_ERROR_UNSUPPORTED, ROOM, path, 0,
                            "the file is compressed as a whole (%s), so its records cannot be read "
                            "by themselves: write it anew without compression "
                            "(docs/guide/from-tfdata.md)",
                            packer);
    if (tf->i == 0)
        return psti_fail_at(tf->err, PST_ERROR_CORRUPT, ROOM, path, 0,
                            "this is no TFRecord file: the checksum of its first length is wrong");
    return psti_fail_at(tf->err, PST_ERROR_CORRUPT, ROOM, path, (int64_t)tf->header,
                        "the checksum of the length of record %" PRIu64
                        " is wrong: the file is damaged from here on",
                        tf->i);
}

/* Reads the record header at tf->header. */
static enum pst_status read_header(struct psti_tf *tf)
{
    const uint8_t *header = NULL;
    uint64_t left = tf->source->nbytes - tf->header;
    if (left < HEADER_NBYTES) {
        /* A compressed file may be shorter than a header, so its first bytes are looked at. */
        enum pst_status status =
            psti_containers_window_get(&tf->window, tf->header, (size_t)left, &header, tf->err);
        if (status != PST_OK)
            return status;
        return tf->i == 0 && left >= 2 && (header[0] == 0x1F || header[0] == 0x78)
                   ? bad_header(tf, header)
                   : truncated(tf, "the length of");
    }
    enum pst_status status =
        psti_containers_window_get(&tf->window, tf->header, HEADER_NBYTES, &header, tf->err);
    if (status != PST_OK)
        return status;
    if (!psti_containers_tfrecord_is(header, HEADER_NBYTES))
        return bad_header(tf, header);
    uint64_t length = psti_load_u64(header), rest = left - HEADER_NBYTES;
    if (length > rest || rest - length < FOOTER_NBYTES)
        return truncated(tf, "the data of");
    tf->data.begin = tf->header + HEADER_NBYTES;
    tf->data.end = tf->data.begin + length;
    return PST_OK;
}

/* Prepares tf->wire, the reader of the record's bytes. Verifies the checksum of a small record. */
static enum pst_status begin_data(struct psti_tf *tf)
{
    const uint8_t *bytes = NULL;
    uint64_t nbytes = tf->data.end - tf->data.begin;
    tf->wire = (struct psti_wire){
        .window = &tf->window, .at = tf->data.begin, .end = tf->data.end, .err = tf->err};
    if (nbytes > PSTI_TFRECORD_SMALL_NBYTES)
        return PST_OK;
    enum pst_status status = psti_containers_window_get(
        &tf->window, tf->data.begin, (size_t)nbytes + FOOTER_NBYTES, &bytes, tf->err);
    if (status != PST_OK)
        return status;
    tf->wire.bytes = bytes;
    tf->wire.n = nbytes;
    tf->crc = psti_load_u32(bytes + nbytes);
    if (!tf->gives_rows && tf->crc != masked(psti_crc32c(0, bytes, (size_t)nbytes)))
        return psti_fail_at(tf->err, PST_ERROR_CORRUPT, ROOM, tf->source->path,
                            (int64_t)tf->data.begin,
                            "the checksum of the data of record %" PRIu64 " is wrong", tf->i);
    return PST_OK;
}

static enum pst_status take_nothing(void *context, const char *key, struct psti_span value)
{
    struct psti_tf *tf = context;
    struct psti_feature feature;
    (void)key;
    return psti_containers_feature_read(&tf->wire, value, NULL, &feature);
}

/* Decides by the first non-empty record whether the records are Examples. */
static enum pst_status decide(struct psti_tf *tf)
{
    struct pst_error ignored = {0};
    struct psti_example_facts facts;
    tf->wire.err = &ignored;
    enum pst_status status =
        psti_containers_example_read(&tf->wire, tf->data, take_nothing, tf, &facts);
    tf->wire.err = tf->err;
    if (status == PST_OK)
        tf->is_example = facts.has_features && !facts.is_sequence;
    if (status != PST_OK && status != PST_ERROR_CORRUPT && status != PST_ERROR_LIMIT) {
        if (tf->err != NULL)
            *tf->err = ignored;
        return status;
    }
    tf->is_known = true;
    return PST_OK;
}

static enum pst_status take_first(void *context, const char *name, struct psti_span value)
{
    struct psti_tf *tf = context;
    struct psti_tf_key *key = NULL;
    enum pst_status status = psti_containers_tf_key(tf, name, &key);
    return status == PST_OK ? psti_containers_feature_read(&tf->wire, value, NULL, &key->now)
                            : status;
}

/* Adds the number of the current record to an error. Returns the status. */
static enum pst_status in_record(const struct psti_tf *tf, enum pst_status status)
{
    char text[PST_ERROR_TEXT_CAP];
    if (status != PST_ERROR_CORRUPT || tf->err == NULL)
        return status;
    memcpy(text, tf->err->text, sizeof text);
    return psti_fail_at(tf->err, status, ROOM, tf->source->path, tf->err->offset,
                        "record %" PRIu64 ": %s", tf->i, text);
}

/* Reads the checksum behind a large record's data. It goes into the facts of the row. */
static enum pst_status read_footer(struct psti_tf *tf)
{
    const uint8_t *footer = NULL;
    if (tf->data.end - tf->data.begin <= PSTI_TFRECORD_SMALL_NBYTES)
        return PST_OK; /* begin_data has read it already */
    enum pst_status status =
        psti_containers_window_get(&tf->window, tf->data.end, FOOTER_NBYTES, &footer, tf->err);
    if (status == PST_OK)
        tf->crc = psti_load_u32(footer);
    return status;
}

/* Reads an Example, either for the first pass or to make a row. */
static enum pst_status read_example(struct psti_tf *tf)
{
    struct psti_example_facts facts;
    tf->n_here = 0;
    tf->n_arena = 0;
    enum pst_status status = psti_containers_example_read(
        &tf->wire, tf->data, tf->gives_rows ? psti_containers_tf_take : take_first, tf, &facts);
    if (status != PST_OK)
        return in_record(tf, status);
    if (!tf->gives_rows)
        return psti_containers_tf_learn(tf);
    status = read_footer(tf);
    return status == PST_OK ? psti_containers_tf_give(tf) : status;
}

/* Gives the whole record as one value. */
static enum pst_status give_whole(struct psti_tf *tf)
{
    uint64_t nbytes = tf->data.end - tf->data.begin;
    uint8_t facts[4];
    enum pst_status status = read_footer(tf);
    if (status != PST_OK)
        return status;
    psti_store_u32(facts, tf->crc);
    struct psti_container_value value = {.i_field = tf->i_field,
                                         .offset = tf->data.begin,
                                         .nbytes = nbytes,
                                         .decoded_nbytes = nbytes,
                                         .facts = psti_hash64(facts, sizeof facts)};
    bool is_text = tf->type == PST_FIELD_TEXT || tf->type == PST_FIELD_JSON;
    if (is_text && nbytes <= PSTI_TEXT_IN_INDEX_NBYTES) {
        const uint8_t *bytes = NULL;
        status = psti_containers_wire_get(&tf->wire, tf->data.begin, (size_t)nbytes, &bytes);
        if (status != PST_OK)
            return status;
        value.bytes = bytes;
    }
    uint32_t n = tf->i_field != PSTI_COLUMN_LEFT_OUT;
    return psti_containers_columns_row(tf->columns, NULL, &value, n, tf->err);
}

/* Makes one pass over all records. */
static enum pst_status pass(struct psti_tf *tf)
{
    tf->i = 0;
    for (tf->header = 0; tf->header < tf->source->nbytes;
         tf->header = tf->data.end + FOOTER_NBYTES) {
        enum pst_status status = read_header(tf);
        if (status == PST_OK)
            status = begin_data(tf);
        if (status == PST_OK && !tf->is_known && tf->data.end > tf->data.begin)
            status = decide(tf);
        if (status == PST_OK && tf->is_known && tf->is_example)
            status = read_example(tf);
        else if (status == PST_OK && tf->gives_rows)
            status = give_whole(tf);
        if (status != PST_OK)
            return status;
        tf->i++;
    }
    tf->n_records = tf->i;
    return PST_OK;
}

/* Declares the column "record", whose type is guessed from the first record's first bytes. */
static enum pst_status declare_whole(struct psti_tf *tf)
{
    static const enum pst_field_type others[] = {PST_FIELD_IMAGE, PST_FIELD_AUDIO, PST_FIELD_BYTES,
                                                 PST_FIELD_MASK};
    struct psti_column column = {.name = "record", .type = PST_FIELD_BYTES, .is_guess = true};
    const uint8_t *bytes = NULL;
    tf->header = tf->i = 0;
    enum pst_status status = read_header(tf);
    if (status == PST_OK)
        status = begin_data(tf);
    size_t n = PSTI_GUESS_NBYTES;
    if (status == PST_OK && tf->data.end - tf->data.begin < n)
        n = (size_t)(tf->data.end - tf->data.begin);
    if (status == PST_OK)
        status = psti_containers_wire_get(&tf->wire, tf->data.begin, n, &bytes);
    if (status != PST_OK)
        return status;
    column.type = psti_containers_guess(bytes, n);
    status = psti_containers_guess_add(tf->columns, &column, others, sizeof others / sizeof *others,
                                       &tf->i_field, tf->err);
    if (status == PST_OK && tf->i_field != PSTI_COLUMN_LEFT_OUT)
        tf->type = psti_containers_columns_type(tf->columns, tf->i_field);
    return status;
}

static enum pst_status walk(struct psti_tf *tf, const struct psti_table_notes *notes)
{
    enum pst_status status = pass(tf);
    if (status != PST_OK || tf->n_records == 0)
        return status; /* an empty file declares no keys, so it lacks none that others have */
    if (notes != NULL && notes->nbytes > 0)
        status = psti_containers_tree_json(&tf->notes, notes->path, notes->bytes, notes->nbytes,
                                           tf->err);
    if (status == PST_OK)
        status = psti_containers_columns_file(tf->columns, tf->source->path, tf->err);
    if (status == PST_OK)
        status = tf->is_example ? psti_containers_tf_declare(tf) : declare_whole(tf);
    tf->gives_rows = true;
    return status == PST_OK ? pass(tf) : status;
}

enum pst_status psti_containers_tfrecord_walk(const struct psti_walk_source *source,
                                              const struct psti_table_notes *notes,
                                              struct psti_containers_columns *columns,
                                              struct psti_walk_counts *counts,
                                              struct pst_error *err)
{
    struct psti_tf *tf = psti_calloc(1, sizeof *tf);
    if (tf == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory to read %s", source->path);
    tf->source = source;
    tf->columns = columns;
    tf->err = err;
    enum pst_status status = psti_containers_window_open(&tf->window, source, err);
    if (status == PST_OK)
        status = walk(tf, notes);
    if (status == PST_OK)
        *counts = (struct psti_walk_counts){.n_members = tf->n_records, .n_samples = tf->n_records};
    psti_containers_tree_free(&tf->notes);
    psti_free(tf->values);
    psti_free(tf->arena);
    psti_free(tf->room.bytes);
    psti_free(tf->here);
    psti_free(tf->keys);
    psti_containers_names_free(&tf->names);
    psti_containers_window_close(&tf->window);
    psti_free(tf);
    return status;
}
