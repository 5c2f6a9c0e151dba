/* containers_parquet_cursor.c - reads the entries of a leaf, one after the other.
 *
 * In: pages that containers_parquet_page.c opened. Out: levels, numbers and locations of values.
 *
 * Each location is checked against the page's end before it is returned. */
#include "containers/parquet/containers_parquet_cursor.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "containers"

enum pst_status psti_containers_cursor_open(struct psti_parquet_cursor *cursor,
                                            struct psti_parquet_file *file,
                                            const struct psti_parquet_node *leaf, const char *name,
                                            struct pst_error *err)
{
    *cursor = (struct psti_parquet_cursor){.file = file, .leaf = leaf, .name = name};
    return psti_containers_window_open(&cursor->window, file->meta->source, err);
}

void psti_containers_cursor_close(struct psti_parquet_cursor *cursor)
{
    psti_buffer_free(&cursor->lengths);
    psti_buffer_free(&cursor->levels);
    psti_buffer_free(&cursor->area.buffer);
    psti_buffer_free(&cursor->spans);
    psti_buffer_free(&cursor->dictionary.buffer);
    psti_containers_window_close(&cursor->window);
    *cursor = (struct psti_parquet_cursor){0};
}

enum pst_status psti_containers_cursor_check(const struct psti_parquet_file *file,
                                             const struct psti_parquet_chunk *chunk,
                                             const char *name, struct pst_error *err)
{
    static const char *const codecs[] = {NULL,     NULL,  "GZIP", "LZO",
                                         "BROTLI", "LZ4", NULL,   "LZ4_RAW"};
    const char *path = file->meta->source->path, *codec = "a codec of a newer kind";
    if (chunk->is_encrypted)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, path, -1,
                            "column \"%.60s\" is encrypted: write the file anew without encryption",
                            name);
    if (chunk->is_elsewhere)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, path, -1,
                            "column \"%.60s\" lies in another file: this is the index of others, "
                            "leave it out of the folder",
                            name);
    if (chunk->codec < sizeof codecs / sizeof *codecs) {
        codec = codecs[chunk->codec];
        if (codec == NULL)
            return PST_OK;
    }
    return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, path, (int64_t)chunk->offset,
                        "column \"%.60s\" is compressed by %s, which is not read in place: write "
                        "the file anew with zstd, snappy or none, pack it (penstock pack), or "
                        "leave the column out",
                        name, codec);
}

void psti_containers_cursor_begin(struct psti_parquet_cursor *cursor,
                                  const struct psti_parquet_chunk *chunk)
{
    cursor->coding = chunk->codec == PSTI_PARQUET_SNAPPY ? PSTI_CODING_SNAPPY
                     : chunk->codec == PSTI_PARQUET_ZSTD ? PSTI_CODING_ZSTD
                                                         : PSTI_CODING_STORED;
    cursor->at = chunk->offset;
    cursor->n_left = chunk->n_values;
    cursor->n_page_left = 0;
    cursor->has_dictionary = false;
    cursor->n_dictionary = 0;
    cursor->has_levels = false;
}

static enum pst_status corrupt(const struct psti_parquet_cursor *cursor, const char *what,
                               struct pst_error *err)
{
    return psti_containers_cursor_fail(cursor, PST_ERROR_CORRUPT, cursor->area.header, err,
                                       "%s in the page that begins here", what);
}

enum pst_status psti_containers_cursor_peek(struct psti_parquet_cursor *cursor, bool *has,
                                            struct pst_error *err)
{
    *has = true;
    if (cursor->has_levels)
        return PST_OK;
    while (*has && cursor->n_page_left == 0) {
        enum pst_status status = psti_containers_cursor_page(cursor, has, err);
        if (status != PST_OK)
            return status;
    }
    if (!*has)
        return PST_OK;
    cursor->rep = cursor->def = 0;
    uint32_t most_rep = cursor->leaf->n_rep, most_def = cursor->leaf->n_def;
    if ((most_rep > 0 && !psti_containers_runs_next(&cursor->reps, &cursor->rep)) ||
        (most_def > 0 && !psti_containers_runs_next(&cursor->defs, &cursor->def)) ||
        cursor->rep > most_rep || cursor->def > most_def)
        return corrupt(cursor, "levels are damaged", err);
    cursor->n_page_left--;
    cursor->has_levels = true;
    return PST_OK;
}

/* Returns the bytes of each value, if all have the same number. 0: it varies, or values are
 * bits. */
static uint32_t width_of(const struct psti_parquet_node *leaf)
{
    switch (leaf->type) {
    case PSTI_PARQUET_INT32:
    case PSTI_PARQUET_FLOAT:
        return 4;
    case PSTI_PARQUET_INT64:
    case PSTI_PARQUET_DOUBLE:
        return 8;
    case PSTI_PARQUET_INT96:
        return 12;
    case PSTI_PARQUET_FIXED:
        return leaf->width;
    default:
        return 0;
    }
}

static enum pst_status take_plain(struct psti_parquet_cursor *cursor,
                                  struct psti_parquet_entry *entry, struct pst_error *err)
{
    const struct psti_parquet_area *area = &cursor->area;
    size_t left = area->nbytes - cursor->value_at;
    if (cursor->leaf->type == PSTI_PARQUET_BOOLEAN) {
        uint64_t i = cursor->i_value++;
        if (i / 8 >= left)
            return corrupt(cursor, "values end too early", err);
        entry->has_number = true;
        entry->number = area->bytes[cursor->value_at + i / 8] >> (i % 8) & 1;
        return PST_OK;
    }
    uint32_t nbytes = width_of(cursor->leaf), head = 0;
    if (cursor->leaf->type == PSTI_PARQUET_BYTE_ARRAY) {
        const uint8_t *bytes = NULL;
        struct psti_parquet_entry length = {.area = area, .at = cursor->value_at, .nbytes = 4};
        if (left < 4)
            return corrupt(cursor, "values end too early", err);
        enum pst_status status = psti_containers_cursor_bytes(cursor, &length, 4, &bytes, err);
        if (status != PST_OK)
            return status;
        nbytes = psti_load_u32(bytes);
        head = 4;
    }
    if (nbytes > left - head)
        return corrupt(cursor, "a value is longer than what is left", err);
    entry->area = area;
    entry->at = cursor->value_at + head;
    entry->nbytes = nbytes;
    entry->is_plain = true;
    cursor->value_at = entry->at + nbytes;
    return PST_OK;
}

static enum pst_status take_from_dictionary(struct psti_parquet_cursor *cursor,
                                            struct psti_parquet_entry *entry, struct pst_error *err)
{
    uint32_t i = 0;
    if (!psti_containers_runs_next(&cursor->numbers, &i))
        return corrupt(cursor, "places in the dictionary end too early", err);
    if (i >= cursor->n_dictionary)
        return corrupt(cursor, "a place is outside of the dictionary", err);
    entry->area = &cursor->dictionary;
    if (cursor->leaf->type == PSTI_PARQUET_BYTE_ARRAY) {
        const struct psti_parquet_span *span =
            (const struct psti_parquet_span *)cursor->spans.bytes + i;
        entry->at = span->at;
        entry->nbytes = span->nbytes;
        return PST_OK;
    }
    uint64_t width = width_of(cursor->leaf);
    if ((i + UINT64_C(1)) * width > cursor->dictionary.nbytes)
        return corrupt(cursor, "a dictionary is shorter than its values", err);
    entry->at = (size_t)(i * width);
    entry->nbytes = (uint32_t)width;
    return PST_OK;
}

/* Reads a number in the encoding BYTE_STREAM_SPLIT: the page has the first bytes of all numbers,
 * then all second bytes, and so on. */
static enum pst_status take_split(struct psti_parquet_cursor *cursor,
                                  struct psti_parquet_entry *entry, struct pst_error *err)
{
    size_t width = width_of(cursor->leaf);
    size_t n = (cursor->area.nbytes - cursor->first_at) / width;
    if (cursor->i_value >= n)
        return corrupt(cursor, "values end too early", err);
    const uint8_t *bytes = cursor->area.bytes + cursor->first_at + cursor->i_value++;
    entry->has_number = true;
    for (size_t i = 0; i < width; i++)
        entry->number |= (uint64_t)bytes[i * n] << 8 * i;
    return PST_OK;
}

static enum pst_status take_value(struct psti_parquet_cursor *cursor,
                                  struct psti_parquet_entry *entry, struct pst_error *err)
{
    int64_t number = 0;
    uint32_t bit = 0;
    switch (cursor->encoding) {
    case PSTI_ENCODING_PLAIN:
        return take_plain(cursor, entry, err);
    case PSTI_ENCODING_BYTE_STREAM_SPLIT:
        return take_split(cursor, entry, err);
    case PSTI_ENCODING_RLE:
        if (!psti_containers_runs_next(&cursor->numbers, &bit))
            return corrupt(cursor, "values end too early", err);
        entry->has_number = true;
        entry->number = bit;
        return PST_OK;
    case PSTI_ENCODING_DELTA_BINARY_PACKED:
        if (!psti_containers_deltas_next(&cursor->deltas, &number))
            return corrupt(cursor, "values end too early, or are damaged", err);
        entry->has_number = true;
        entry->number = (uint64_t)number;
        return PST_OK;
    case PSTI_ENCODING_DELTA_LENGTH_BYTE_ARRAY:
        if (cursor->i_value >= cursor->n_lengths)
            return corrupt(cursor, "values end too early", err);
        entry->nbytes = ((const uint32_t *)cursor->lengths.bytes)[cursor->i_value++];
        if (entry->nbytes > cursor->area.nbytes - cursor->value_at)
            return corrupt(cursor, "a value is longer than what is left", err);
        entry->area = &cursor->area;
        entry->at = cursor->value_at;
        cursor->value_at += entry->nbytes;
        return PST_OK;
    default:
        return take_from_dictionary(cursor, entry, err);
    }
}

enum pst_status psti_containers_cursor_take(struct psti_parquet_cursor *cursor,
                                            struct psti_parquet_entry *entry, struct pst_error *err)
{
    bool has = false;
    enum pst_status status = psti_containers_cursor_peek(cursor, &has, err);
    if (status != PST_OK)
        return status;
    if (!has)
        return psti_containers_cursor_fail(cursor, PST_ERROR_CORRUPT, cursor->at, err,
                                           "it has fewer values than the row group has rows");
    *entry = (struct psti_parquet_entry){.rep = cursor->rep, .def = cursor->def};
    cursor->has_levels = false;
    entry->is_null = cursor->def < cursor->leaf->n_def;
    return entry->is_null ? PST_OK : take_value(cursor, entry, err);
}

enum pst_status psti_containers_cursor_number(struct psti_parquet_cursor *cursor,
                                              const struct psti_parquet_entry *entry,
                                              uint64_t *number, struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    *number = entry->number;
    if (entry->has_number)
        return PST_OK;
    enum pst_status status =
        psti_containers_cursor_bytes(cursor, entry, entry->nbytes, &bytes, err);
    *number = 0;
    if (status == PST_OK)
        memcpy(number, bytes, entry->nbytes < 8 ? entry->nbytes : 8);
    return status;
}
