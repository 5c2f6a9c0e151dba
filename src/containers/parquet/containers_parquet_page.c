/* containers_parquet_page.c - opens the pages of a chunk, one after the other.
 *
 * In: untrusted bytes of the file from a chunk's beginning on. Out: in the cursor, the levels of a
 * page, the offset of its values, and the locations of the dictionary's values.
 *
 * A page of version 1 is compressed as a whole, with its levels. In a page of version 2 the levels
 * come first and uncompressed, and the values may be uncompressed although the chunk has a
 * codec. */
#include "containers/parquet/containers_parquet_cursor.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/inflate.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"
enum {
    LONG_NBYTES = 2048,     /* values that are longer on average are located without being read */
    LENGTHS_MAX = 1 << 24,  /* maximum number of bytes of lengths that stand before the values of a
                             * page */
    LENGTHS_NBYTES = 4096,  /* usual bytes of the levels and lengths of a page */
    LENGTH_NBYTES = 16,     /* additional bytes of them for each value */
    SNAPPY_FACTOR_MAX = 64, /* maximum number of decoded bytes that one compressed byte can give */
    ZSTD_FACTOR_MAX = 1 << 16,
};

static enum pst_status corrupt(const struct psti_parquet_cursor *cursor,
                               const struct psti_parquet_head *head, const char *what,
                               struct pst_error *err)
{
    return psti_containers_cursor_fail(cursor, PST_ERROR_CORRUPT, head->header, err, "%s", what);
}

/* Bytes -------------------------------------------------------------------- */

static enum pst_status wrong_sum(const struct psti_parquet_cursor *cursor,
                                 const struct psti_parquet_head *head, struct pst_error *err)
{
    return corrupt(cursor, head, "a page's bytes do not have its checksum: the file is damaged",
                   err);
}

/* Compares a page with its checksum, for a page that is read for nothing else. */
static enum pst_status check_sum(struct psti_parquet_cursor *cursor,
                                 const struct psti_parquet_head *head, struct pst_error *err)
{
    uint32_t crc = 0;
    if (!head->has_crc)
        return PST_OK;
    for (uint32_t at = 0, n = 0; at < head->nbytes; at += n) {
        const uint8_t *bytes = NULL;
        n = head->nbytes - at < PSTI_WINDOW_NBYTES ? head->nbytes - at : PSTI_WINDOW_NBYTES;
        enum pst_status status =
            psti_containers_window_get(&cursor->window, head->body + at, n, &bytes, err);
        if (status != PST_OK)
            return status;
        crc = psti_crc32(crc, bytes, n);
    }
    return crc == head->crc ? PST_OK : wrong_sum(cursor, head, err);
}

/* Reads the whole page into `buffer`. */
static enum pst_status load(struct psti_parquet_cursor *cursor,
                            const struct psti_parquet_head *head, struct psti_buffer *buffer,
                            struct pst_error *err)
{
    enum pst_status status =
        psti_buffer_reserve(buffer, head->nbytes, ROOM, "of a page of Parquet", err);
    if (status == PST_OK)
        status = psti_containers_parquet_read(cursor->file->meta->source, buffer->bytes,
                                              head->nbytes, head->body, err);
    if (status == PST_OK && head->has_crc &&
        psti_crc32(0, buffer->bytes, head->nbytes) != head->crc)
        status = wrong_sum(cursor, head, err);
    return status;
}

static void begin_area(struct psti_parquet_area *area, const struct psti_parquet_head *head)
{
    struct psti_buffer buffer = area->buffer;
    *area = (struct psti_parquet_area){
        .buffer = buffer,
        .header = head->header,
        .offset = head->body,
        .nbytes = head->nbytes,
        .i_page = PSTI_PAGE_NONE,
        .crc = head->has_crc ? head->crc : 0,
    };
}

/* Decodes a page whose stored bytes are in file->stored. Its first `skip` bytes are not compressed,
 * and are left out. */
static enum pst_status decode(struct psti_parquet_cursor *cursor,
                              const struct psti_parquet_head *head, uint32_t skip,
                              struct psti_parquet_area *area, struct pst_error *err)
{
    struct psti_parquet_file *file = cursor->file;
    if (skip > head->decoded_nbytes || skip > head->nbytes)
        return corrupt(cursor, head, "the levels of a page are longer than the page", err);
    size_t n_in = head->nbytes - skip, n_out = head->decoded_nbytes - skip;
    uint64_t factor = cursor->coding == PSTI_CODING_SNAPPY ? SNAPPY_FACTOR_MAX : ZSTD_FACTOR_MAX;
    if (n_out > (n_in + 1) * factor)
        return corrupt(cursor, head, "a page is said to have more bytes than its codec can give",
                       err);
    area->is_decoded = true;
    area->nbytes = area->n_loaded = n_out;
    area->page = (struct psti_container_page){.offset = head->body + skip,
                                              .nbytes = n_in,
                                              .decoded_nbytes = n_out,
                                              .coding = cursor->coding};
    enum pst_status status =
        psti_buffer_reserve(&area->buffer, n_out, ROOM, "of a page of Parquet", err);
    area->bytes = area->buffer.bytes;
    if (status != PST_OK || n_out == 0)
        return status;
    struct pst_error inner = {0};
    status = psti_codings_decode(file->codings, (enum pst_coding)cursor->coding,
                                 (const uint8_t *)file->stored.bytes + skip, n_in,
                                 area->buffer.bytes, n_out, &inner);
    if (status == PST_OK)
        return status;
    return psti_containers_cursor_fail(cursor, status, head->header, err,
                                       "a page cannot be decoded: %s", inner.text);
}

static bool is_dictionary(uint32_t encoding)
{
    return encoding == PSTI_ENCODING_PLAIN_DICTIONARY || encoding == PSTI_ENCODING_RLE_DICTIONARY;
}

/* True if the page's values are so long that only their locations are needed. */
static bool is_passed_over(const struct psti_parquet_cursor *cursor,
                           const struct psti_parquet_head *head)
{
    uint64_t n = head->n_values > 0 ? head->n_values : 1;
    bool is_bytes = cursor->leaf->type == PSTI_PARQUET_BYTE_ARRAY;
    return (is_bytes || cursor->leaf->type == PSTI_PARQUET_FIXED) &&
           (head->encoding == PSTI_ENCODING_PLAIN ||
            head->encoding == PSTI_ENCODING_DELTA_LENGTH_BYTE_ARRAY) &&
           head->nbytes / n > LONG_NBYTES;
}

/* Reads the first n bytes of an uncompressed page. */
static enum pst_status load_part(struct psti_parquet_cursor *cursor, size_t n,
                                 struct pst_error *err)
{
    struct psti_parquet_area *area = &cursor->area;
    enum pst_status status =
        psti_buffer_reserve(&area->buffer, n, ROOM, "of a page of Parquet", err);
    area->n_loaded = 0;
    if (status == PST_OK)
        status = psti_containers_parquet_read(cursor->file->meta->source, area->buffer.bytes, n,
                                              area->offset, err);
    if (status != PST_OK)
        return status;
    area->bytes = area->buffer.bytes;
    area->n_loaded = n;
    return PST_OK;
}

/* Dictionary ----------------------------------------------------------------- */

/* Finds where each value of a dictionary of byte arrays lies. */
static enum pst_status find_spans(struct psti_parquet_cursor *cursor,
                                  const struct psti_parquet_head *head, struct pst_error *err)
{
    struct psti_parquet_area *area = &cursor->dictionary;
    size_t at = 0;
    if (head->n_values > area->nbytes / 4)
        return corrupt(cursor, head, "a dictionary has more values than bytes", err);
    enum pst_status status =
        psti_buffer_reserve(&cursor->spans, head->n_values * sizeof(struct psti_parquet_span), ROOM,
                            "of a dictionary of Parquet", err);
    struct psti_parquet_span *spans = cursor->spans.bytes;
    for (uint32_t i = 0; status == PST_OK && i < head->n_values; i++) {
        struct psti_parquet_entry entry = {.area = area, .at = at, .nbytes = 4};
        const uint8_t *bytes = NULL;
        if (area->nbytes - at < 4)
            return corrupt(cursor, head, "a dictionary ends too early", err);
        status = psti_containers_cursor_bytes(cursor, &entry, 4, &bytes, err);
        uint32_t nbytes = status == PST_OK ? psti_load_u32(bytes) : 0;
        if (nbytes > area->nbytes - at - 4)
            return corrupt(cursor, head, "a value of a dictionary is longer than its page", err);
        spans[i] = (struct psti_parquet_span){.at = (uint32_t)at + 4, .nbytes = nbytes};
        at += 4 + (size_t)nbytes;
    }
    return status;
}

static enum pst_status open_dictionary(struct psti_parquet_cursor *cursor,
                                       struct psti_parquet_head *head, struct pst_error *err)
{
    struct psti_parquet_area *area = &cursor->dictionary;
    enum pst_status status = PST_OK;
    if (cursor->has_dictionary)
        return corrupt(cursor, head, "the column has two dictionaries in one row group", err);
    if (head->encoding != PSTI_ENCODING_PLAIN && head->encoding != PSTI_ENCODING_PLAIN_DICTIONARY)
        return corrupt(cursor, head, "the dictionary is not written plainly", err);
    head->encoding = PSTI_ENCODING_PLAIN;
    begin_area(area, head);
    if (cursor->coding != PSTI_CODING_STORED) {
        status = load(cursor, head, &cursor->file->stored, err);
        if (status == PST_OK)
            status = decode(cursor, head, 0, area, err);
    } else if (is_passed_over(cursor, head)) {
        status = check_sum(cursor, head, err);
    } else {
        status = load(cursor, head, &area->buffer, err);
        area->bytes = area->buffer.bytes;
        area->n_loaded = area->nbytes;
    }
    cursor->has_dictionary = true;
    cursor->n_dictionary = head->n_values;
    if (status == PST_OK && cursor->leaf->type == PSTI_PARQUET_BYTE_ARRAY)
        status = find_spans(cursor, head, err);
    return status;
}

/* Levels --------------------------------------------------------------------- */

static uint32_t bits_of(uint32_t level)
{
    return level == 0 ? 0 : 32 - (uint32_t)__builtin_clz(level);
}

/* Begins reading the levels of a page of version 2, which stand before the values. */
static enum pst_status begin_levels_2(struct psti_parquet_cursor *cursor,
                                      const struct psti_parquet_head *head, const uint8_t *bytes,
                                      struct pst_error *err)
{
    if ((uint64_t)head->def_nbytes + head->rep_nbytes > head->nbytes)
        return corrupt(cursor, head, "the levels of a page are longer than the page", err);
    psti_containers_runs_begin(&cursor->reps, bytes, head->rep_nbytes,
                               bits_of(cursor->leaf->n_rep));
    psti_containers_runs_begin(&cursor->defs, bytes + head->rep_nbytes, head->def_nbytes,
                               bits_of(cursor->leaf->n_def));
    return PST_OK;
}

/* Finds one kind of levels of a page of version 1: 4 bytes of length, then the runs. Moves *at
 * behind them. */
static enum pst_status find_level(struct psti_parquet_cursor *cursor,
                                  const struct psti_parquet_head *head, uint32_t most,
                                  uint32_t encoding, const struct psti_parquet_area *area,
                                  size_t *at, uint32_t *nbytes, struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    struct psti_parquet_entry entry = {.area = area, .at = *at, .nbytes = 4};
    *nbytes = 0;
    if (most == 0)
        return PST_OK;
    if (encoding != PSTI_ENCODING_RLE)
        return psti_containers_cursor_fail(
            cursor, PST_ERROR_UNSUPPORTED, head->header, err,
            "its levels have the encoding %" PRIu32
            ", which is too old: write the file anew with a newer library",
            encoding);
    if (area->nbytes - *at < 4)
        return corrupt(cursor, head, "a page ends within its levels", err);
    enum pst_status status = psti_containers_cursor_bytes(cursor, &entry, 4, &bytes, err);
    if (status != PST_OK)
        return status;
    *nbytes = psti_load_u32(bytes);
    if (*nbytes > area->nbytes - *at - 4)
        return corrupt(cursor, head, "the levels of a page are longer than the page", err);
    *at += 4 + (size_t)*nbytes;
    return PST_OK;
}

/* Begins reading both kinds of levels of a page of version 1. */
static enum pst_status begin_levels(struct psti_parquet_cursor *cursor,
                                    const struct psti_parquet_head *head, struct pst_error *err)
{
    const struct psti_parquet_area *area = &cursor->area;
    uint32_t n_reps = 0, n_defs = 0;
    size_t at = 0;
    enum pst_status status =
        find_level(cursor, head, cursor->leaf->n_rep, head->rep_encoding, area, &at, &n_reps, err);
    size_t reps_at = at - n_reps;
    if (status == PST_OK)
        status = find_level(cursor, head, cursor->leaf->n_def, head->def_encoding, area, &at,
                            &n_defs, err);
    if (status != PST_OK)
        return status;
    const uint8_t *bytes = area->bytes;
    if (area->n_loaded < area->nbytes) { /* the values are not read, but the levels must be */
        status = psti_buffer_reserve(&cursor->levels, at, ROOM, "of levels of Parquet", err);
        if (status == PST_OK)
            status = psti_containers_parquet_read(cursor->file->meta->source, cursor->levels.bytes,
                                                  at, area->offset, err);
        if (status != PST_OK)
            return status;
        bytes = cursor->levels.bytes;
    }
    if (at > 0) {
        psti_containers_runs_begin(&cursor->reps, bytes + reps_at, n_reps,
                                   bits_of(cursor->leaf->n_rep));
        psti_containers_runs_begin(&cursor->defs, bytes + at - n_defs, n_defs,
                                   bits_of(cursor->leaf->n_def));
    }
    cursor->first_at = at;
    return PST_OK;
}

/* Values --------------------------------------------------------------------- */

static const char *name_of(uint32_t encoding)
{
    static const char *const names[] = {
        "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
        "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
        "RLE_DICTIONARY", "BYTE_STREAM_SPLIT",
    };
    return encoding < sizeof names / sizeof *names ? names[encoding] : "of a newer kind";
}

static bool is_known(enum psti_parquet_type type, uint32_t encoding)
{
    bool is_int = type == PSTI_PARQUET_INT32 || type == PSTI_PARQUET_INT64;
    switch (encoding) {
    case PSTI_ENCODING_PLAIN:
        return true;
    case PSTI_ENCODING_PLAIN_DICTIONARY:
    case PSTI_ENCODING_RLE_DICTIONARY:
        return type != PSTI_PARQUET_BOOLEAN;
    case PSTI_ENCODING_RLE:
        return type == PSTI_PARQUET_BOOLEAN;
    case PSTI_ENCODING_DELTA_BINARY_PACKED:
        return is_int;
    case PSTI_ENCODING_DELTA_LENGTH_BYTE_ARRAY:
        return type == PSTI_PARQUET_BYTE_ARRAY;
    case PSTI_ENCODING_BYTE_STREAM_SPLIT:
        return is_int || type == PSTI_PARQUET_FLOAT || type == PSTI_PARQUET_DOUBLE;
    default:
        return false;
    }
}

/* Reads the lengths that stand before the values, from the bytes in memory. False: the lengths go
 * on behind these bytes, or are damaged. */
static bool read_lengths(struct psti_parquet_cursor *cursor, struct psti_parquet_deltas *deltas)
{
    uint32_t *lengths = cursor->lengths.bytes;
    int64_t length = 0;
    for (uint32_t i = 0; i < cursor->n_lengths; i++) {
        if (!psti_containers_deltas_next(deltas, &length) || length < 0 || length > INT32_MAX)
            return false;
        lengths[i] = (uint32_t)length;
    }
    cursor->value_at = (size_t)(deltas->at - cursor->area.bytes);
    return true;
}

/* Begins values whose lengths all stand before them. *is_whole: true if all lengths were in
 * memory. */
static enum pst_status try_lengths(struct psti_parquet_cursor *cursor,
                                   const struct psti_parquet_head *head, bool *is_whole,
                                   struct pst_error *err)
{
    const struct psti_parquet_area *area = &cursor->area;
    struct psti_parquet_deltas deltas;
    *is_whole = area->n_loaded > cursor->first_at &&
                psti_containers_deltas_begin(&deltas, area->bytes + cursor->first_at,
                                             area->n_loaded - cursor->first_at);
    if (!*is_whole)
        return PST_OK;
    if (deltas.n_left > head->n_values)
        return corrupt(cursor, head, "a page has more lengths than values", err);
    if (deltas.n_left > LENGTHS_MAX)
        return psti_containers_cursor_fail(cursor, PST_ERROR_LIMIT, head->header, err,
                                           "a page has more than %d values", LENGTHS_MAX);
    cursor->n_lengths = (uint32_t)deltas.n_left;
    enum pst_status status = psti_buffer_reserve(&cursor->lengths, 4 * (uint64_t)cursor->n_lengths,
                                                 ROOM, "of lengths of Parquet", err);
    *is_whole = status == PST_OK && read_lengths(cursor, &deltas);
    return status;
}

static enum pst_status begin_lengths(struct psti_parquet_cursor *cursor,
                                     const struct psti_parquet_head *head, struct pst_error *err)
{
    const struct psti_parquet_area *area = &cursor->area;
    bool is_whole = false;
    cursor->n_lengths = 0;
    if (cursor->first_at == area->nbytes) /* the page has only nulls */
        return PST_OK;
    enum pst_status status = try_lengths(cursor, head, &is_whole, err);
    if (status == PST_OK && !is_whole && area->n_loaded < area->nbytes) {
        status = load_part(cursor, area->nbytes, err);
        if (status == PST_OK)
            status = try_lengths(cursor, head, &is_whole, err);
    }
    if (status == PST_OK && !is_whole)
        status = corrupt(cursor, head, "the lengths of a page's values are damaged", err);
    return status;
}

/* Begins reading the values of the page, from cursor->first_at on. */
static enum pst_status begin_values(struct psti_parquet_cursor *cursor,
                                    const struct psti_parquet_head *head, struct pst_error *err)
{
    const struct psti_parquet_area *area = &cursor->area;
    const uint8_t *bytes = area->bytes;
    size_t at = cursor->first_at, left = area->nbytes - at;
    cursor->value_at = at;
    cursor->i_value = 0;
    if (is_dictionary(cursor->encoding)) {
        if (!cursor->has_dictionary)
            return corrupt(cursor, head, "a page needs a dictionary, and the column has none", err);
        uint32_t width = left > 0 ? bytes[at] : 0;
        if (width > 32)
            return corrupt(cursor, head, "places in the dictionary have too many bits", err);
        psti_containers_runs_begin(&cursor->numbers, bytes + at + (left > 0), left - (left > 0),
                                   width);
    } else if (cursor->encoding == PSTI_ENCODING_RLE) {
        uint32_t nbytes = left >= 4 ? psti_load_u32(bytes + at) : 0;
        if (left >= 4 && nbytes > left - 4)
            return corrupt(cursor, head, "a page ends within its values", err);
        psti_containers_runs_begin(&cursor->numbers, bytes + at + (left >= 4 ? 4 : 0), nbytes, 1);
    } else if (cursor->encoding == PSTI_ENCODING_DELTA_LENGTH_BYTE_ARRAY) {
        return begin_lengths(cursor, head, err);
    } else if (cursor->encoding == PSTI_ENCODING_DELTA_BINARY_PACKED) {
        if (left == 0)
            cursor->deltas = (struct psti_parquet_deltas){0};
        else if (!psti_containers_deltas_begin(&cursor->deltas, bytes + at, left))
            return corrupt(cursor, head, "the numbers of a page are damaged", err);
    }
    return PST_OK;
}

/* Pages ---------------------------------------------------------------------- */

/* Reads the bytes of an uncompressed page: all of them, or only the levels. */
static enum pst_status get_stored(struct psti_parquet_cursor *cursor,
                                  const struct psti_parquet_head *head, struct pst_error *err)
{
    struct psti_parquet_area *area = &cursor->area;
    uint64_t n_levels = (uint64_t)head->rep_nbytes + head->def_nbytes;
    if (!is_passed_over(cursor, head)) {
        area->n_loaded = area->nbytes;
        enum pst_status status = load(cursor, head, &area->buffer, err);
        area->bytes = area->buffer.bytes;
        return status;
    }
    enum pst_status status = check_sum(cursor, head, err);
    if (status != PST_OK)
        return status;
    if (n_levels > 0)
        status = psti_buffer_reserve(&cursor->levels, n_levels, ROOM, "of levels of Parquet", err);
    if (status == PST_OK && n_levels > 0)
        status = psti_containers_parquet_read(cursor->file->meta->source, cursor->levels.bytes,
                                              (size_t)n_levels, head->body, err);
    if (status != PST_OK || head->encoding == PSTI_ENCODING_PLAIN)
        return status;
    uint64_t n = n_levels + LENGTHS_NBYTES + LENGTH_NBYTES * (uint64_t)head->n_values;
    return load_part(cursor, n < area->nbytes ? (size_t)n : area->nbytes, err);
}

static enum pst_status open_data(struct psti_parquet_cursor *cursor, struct psti_parquet_head *head,
                                 struct pst_error *err)
{
    struct psti_parquet_area *area = &cursor->area;
    bool is_second = head->kind == PSTI_PAGE_DATA_2;
    bool is_stored = cursor->coding == PSTI_CODING_STORED || (is_second && head->is_stored);
    uint32_t n_levels = 0;
    if (!is_second)
        head->rep_nbytes = head->def_nbytes = 0;
    else if ((uint64_t)head->rep_nbytes + head->def_nbytes > head->nbytes)
        return corrupt(cursor, head, "the levels of a page are longer than the page", err);
    else
        n_levels = head->rep_nbytes + head->def_nbytes;
    if (!is_known(cursor->leaf->type, head->encoding))
        return psti_containers_cursor_fail(
            cursor, PST_ERROR_UNSUPPORTED, head->header, err,
            "its values have the encoding %s, which is not read in place: write the file anew with "
            "the encoding PLAIN, or pack it (penstock pack)",
            name_of(head->encoding));
    if (head->n_values > cursor->n_left)
        return corrupt(cursor, head, "a page has more values than its column", err);
    cursor->encoding = (enum psti_parquet_encoding)head->encoding;
    begin_area(area, head);
    enum pst_status status = PST_OK;
    const uint8_t *levels = NULL;
    if (is_stored) {
        status = get_stored(cursor, head, err);
        levels = area->n_loaded == area->nbytes ? area->bytes : cursor->levels.bytes;
        cursor->first_at = n_levels;
    } else {
        status = load(cursor, head, &cursor->file->stored, err);
        if (status == PST_OK)
            status = decode(cursor, head, n_levels, area, err);
        cursor->first_at = 0;
        if (status == PST_OK && n_levels > 0) {
            status =
                psti_buffer_reserve(&cursor->levels, n_levels, ROOM, "of levels of Parquet", err);
            if (status == PST_OK)
                memcpy(cursor->levels.bytes, cursor->file->stored.bytes, n_levels);
        }
        levels = cursor->levels.bytes;
    }
    if (status == PST_OK && is_second && n_levels > 0)
        status = begin_levels_2(cursor, head, levels, err);
    else if (status == PST_OK && is_second)
        cursor->reps = cursor->defs = (struct psti_parquet_runs){0};
    else if (status == PST_OK)
        status = begin_levels(cursor, head, err);
    if (status != PST_OK)
        return status;
    cursor->n_page_left = head->n_values;
    cursor->n_left -= head->n_values;
    return begin_values(cursor, head, err);
}

enum pst_status psti_containers_cursor_page(struct psti_parquet_cursor *cursor, bool *has,
                                            struct pst_error *err)
{
    *has = false;
    while (cursor->n_left > 0) {
        struct psti_parquet_head head;
        enum pst_status status = psti_containers_cursor_head(cursor, &head, err);
        if (status != PST_OK)
            return status;
        cursor->at = head.body + head.nbytes;
        *has = head.kind == PSTI_PAGE_DATA || head.kind == PSTI_PAGE_DATA_2;
        if (*has)
            return open_data(cursor, &head, err);
        if (head.kind == PSTI_PAGE_DICTIONARY)
            status = open_dictionary(cursor, &head, err);
        else if (head.kind != PSTI_PAGE_INDEX)
            status = corrupt(cursor, &head, "a page is of a kind that there is not", err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}
