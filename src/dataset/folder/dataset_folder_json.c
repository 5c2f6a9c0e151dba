/* dataset_folder_json.c - reads a label file of JSON lines (one object per line, RFC 8259).
 *
 * In: the whole text, valid UTF-8. Out: rows and cells, to a sink. This parser makes no tree with
 * doubles, because 64-bit integers must stay exact, 1.0 must stay a float, and JSON fields are kept
 * as written. Nesting is limited. No memory is allocated per value. */
#include "dataset/folder/dataset_folder_rows.h"

#include "base/fail.h"
#include "format/format_dataset.h"

#include <math.h>
#include <string.h>

struct json {
    struct psti_row_sink *sink;
    const char *line, *at, *end;      /* start of the line, current position, end of the line */
    struct psti_dataset_arena text;   /* the last string that was read, NUL-terminated */
    struct psti_dataset_arena key;    /* key of the current value */
    struct psti_dataset_arena floats; /* f32 numbers of boxes and keypoints */
};

static enum pst_status bad(const struct json *json, const char *what)
{
    return psti_dataset_folder_bad_line(json->sink, PST_ERROR_CORRUPT,
                                        "not JSON at byte %zu of the line: %s",
                                        (size_t)(json->at - json->line), what);
}

static void skip_space(struct json *json)
{
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\t' || *json->at == '\r'))
        json->at++;
}

/* If `c` is the next character, skips it and returns true. */
static bool take(struct json *json, char c)
{
    skip_space(json);
    if (json->at == json->end || *json->at != c)
        return false;
    json->at++;
    return true;
}

static bool take_word(struct json *json, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(json->end - json->at) < n || memcmp(json->at, word, n) != 0)
        return false;
    json->at += n;
    return true;
}

static bool read_hex4(struct json *json, uint32_t *value)
{
    *value = 0;
    if (json->end - json->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = *json->at++;
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return false;
        *value = *value * 16 + digit;
    }
    return true;
}

static size_t encode_utf8(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Reads an escape; its backslash was read already. */
static enum pst_status read_escape(struct json *json)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    uint32_t code, low;
    char utf8[4];
    if (json->at == json->end)
        return bad(json, "the string does not end");
    char c = *json->at++;
    const char *found = strchr(from, c);
    if (found != NULL && c != '\0')
        return psti_dataset_arena_add(&json->text, &to[found - from], 1, json->sink->err);
    if (c != 'u' || !read_hex4(json, &code))
        return bad(json, "an unknown escape");
    if (code >= 0xD800 && code < 0xDC00) {
        if (!take_word(json, "\\u") || !read_hex4(json, &low) || low < 0xDC00 || low > 0xDFFF)
            return bad(json, "half a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
        return bad(json, "half a surrogate pair");
    }
    return psti_dataset_arena_add(&json->text, utf8, encode_utf8(code, utf8), json->sink->err);
}

/* Reads a string into json->text and adds a NUL, which *nbytes does not count. */
static enum pst_status read_string(struct json *json, size_t *nbytes)
{
    enum pst_status status = PST_OK;
    if (!take(json, '"'))
        return bad(json, "a string is expected");
    json->text.nbytes = 0;
    while (status == PST_OK) {
        const char *start = json->at;
        while (json->at < json->end && *json->at != '"' && *json->at != '\\' &&
               (unsigned char)*json->at >= 0x20)
            json->at++;
        status =
            psti_dataset_arena_add(&json->text, start, (size_t)(json->at - start), json->sink->err);
        if (status != PST_OK)
            break;
        if (json->at == json->end)
            return bad(json, "the string does not end");
        char c = *json->at++;
        if (c == '"')
            break;
        status = c == '\\' ? read_escape(json) : bad(json, "a control character in a string");
    }
    *nbytes = json->text.nbytes;
    return status == PST_OK ? psti_dataset_arena_add(&json->text, "", 1, json->sink->err) : status;
}

/* True if a number follows JSON's grammar: no leading zero, no leading point, and digits on both
 * sides of a point. */
static bool strict_number(const char *s, size_t n)
{
    size_t i = s[0] == '-';
    if (i >= n || s[i] < '0' || s[i] > '9' ||
        (s[i] == '0' && i + 1 < n && s[i + 1] >= '0' && s[i + 1] <= '9'))
        return false;
    const char *point = memchr(s, '.', n);
    return point == NULL || (point + 1 < s + n && point[1] >= '0' && point[1] <= '9');
}

static enum pst_status read_number(struct json *json, struct psti_cell *cell)
{
    const char *start = json->at;
    while (json->at < json->end && *json->at != '\0' &&
           strchr("+-.0123456789eE", *json->at) != NULL)
        json->at++;
    size_t n = (size_t)(json->at - start);
    if (n == 0 || !strict_number(start, n)) {
        json->at = start;
        return bad(json, "a value is expected");
    }
    psti_dataset_folder_number(start, n, cell);
    if (cell->kind == PSTI_DATASET_CELL_ABSENT) {
        json->at = start;
        return bad(json, "a number that is malformed, or beyond 64 bits");
    }
    return PST_OK;
}

/* Skips a value of any type and checks its syntax. */
static enum pst_status skip_value(struct json *json)
{
    const char *problem = psti_format_json_skip(&json->at, json->end);
    return problem == NULL ? PST_OK : bad(json, problem);
}

/* Reads [[a, b, ...], ...] into json->floats; each inner list must have `width` numbers. */
static enum pst_status read_rows(struct json *json, unsigned width, struct psti_cell *cell)
{
    enum pst_status status = PST_OK;
    const char *what = width == 4 ? "boxes must be [[x0, y0, x1, y1], ...]"
                                  : "keypoints must be [[x, y, visibility], ...]";
    json->floats.nbytes = 0;
    bool ok = take(json, '[');
    bool empty = ok && take(json, ']');
    while (ok && !empty) {
        ok = take(json, '[');
        for (unsigned i = 0; ok && i < width; i++) {
            struct psti_cell number = {0};
            ok = i == 0 || take(json, ',');
            skip_space(json);
            if (ok)
                status = read_number(json, &number);
            if (status != PST_OK)
                return psti_dataset_folder_bad_line(json->sink, PST_ERROR_CORRUPT, "%s", what);
            float value = (float)number.d;
            if (ok && !isfinite(value))
                return psti_dataset_folder_bad_line(json->sink, PST_ERROR_CORRUPT,
                                                    "a number beyond 32-bit floats in \"%s\"",
                                                    json->key.bytes);
            if (ok)
                status =
                    psti_dataset_arena_add(&json->floats, &value, sizeof value, json->sink->err);
            if (status != PST_OK)
                return status;
        }
        ok = ok && take(json, ']');
        if (ok && !take(json, ','))
            break;
    }
    if (!ok || (!empty && !take(json, ']')))
        return psti_dataset_folder_bad_line(json->sink, PST_ERROR_CORRUPT, "%s", what);
    cell->kind = width == 4 ? PSTI_DATASET_CELL_BOXES : PSTI_DATASET_CELL_KEYPOINTS;
    cell->bytes = json->floats.bytes;
    cell->nbytes = json->floats.nbytes;
    return PST_OK;
}

static enum pst_status read_cell(struct json *json, struct psti_cell *cell)
{
    enum pst_status status = PST_OK;
    skip_space(json);
    char c = json->at < json->end ? *json->at : '\0';
    if (take_word(json, "null"))
        return PST_OK;
    if (take_word(json, "true") || take_word(json, "false")) {
        cell->kind = PSTI_DATASET_CELL_INT;
        cell->i = c == 't';
        cell->d = (double)cell->i;
        return PST_OK;
    }
    if (strcmp(json->key.bytes, "boxes") == 0)
        return read_rows(json, 4, cell);
    if (strcmp(json->key.bytes, "keypoints") == 0)
        return read_rows(json, 3, cell);
    if (c == '"') {
        status = read_string(json, &cell->nbytes);
        cell->kind = psti_dataset_folder_is_mask(json->sink, json->key.bytes)
                         ? PSTI_DATASET_CELL_MASK
                         : PSTI_DATASET_CELL_TEXT;
        cell->bytes = json->text.bytes;
    } else if (c == '[' || c == '{') {
        cell->bytes = json->at;
        status = skip_value(json);
        cell->kind = PSTI_DATASET_CELL_JSON;
        cell->nbytes = (size_t)(json->at - cell->bytes);
    } else {
        status = read_number(json, cell);
    }
    return status;
}

/* Reads `"key" :` into json->key. */
static enum pst_status read_key(struct json *json)
{
    size_t nbytes;
    enum pst_status status = read_string(json, &nbytes);
    if (status != PST_OK)
        return status;
    if (strlen(json->text.bytes) != nbytes)
        return bad(json, "a NUL character in a key");
    json->key.nbytes = 0;
    status = psti_dataset_arena_add(&json->key, json->text.bytes, nbytes + 1, json->sink->err);
    return status == PST_OK && !take(json, ':') ? bad(json, "a colon is expected") : status;
}

/* Checks the syntax of a line's whole object, and passes its "file" to the sink as a new row. */
static enum pst_status begin_row(struct json *json)
{
    const char *file = NULL;
    size_t nbytes = 0;
    enum pst_status status = PST_OK;
    if (json->at < json->end && *json->at == '[')
        return psti_dataset_folder_bad_line(
            json->sink, PST_ERROR_CORRUPT,
            "a JSON array: JSON lines are expected, an object for each "
            "image on a line of its own, {\"file\": ...}");
    if (!take(json, '{'))
        return bad(json, "each line must be an object: {\"file\": ...}");
    bool empty = take(json, '}');
    while (status == PST_OK && !empty) {
        status = read_key(json);
        if (status == PST_OK && strcmp(json->key.bytes, "file") == 0) {
            if (file != NULL)
                return psti_dataset_folder_bad_line(json->sink, PST_ERROR_CORRUPT,
                                                    "\"file\" appears twice in the line");
            skip_space(json);
            file = json->at;
        }
        if (status == PST_OK)
            status = skip_value(json);
        if (status == PST_OK && !take(json, ','))
            break;
    }
    if (status == PST_OK && !empty && !take(json, '}'))
        status = bad(json, "a comma or the closing bracket is expected");
    skip_space(json);
    if (status == PST_OK && json->at != json->end)
        status = bad(json, "text behind the object");
    if (status != PST_OK)
        return status;
    if (file == NULL || *file != '"')
        return psti_dataset_folder_bad_line(json->sink, PST_ERROR_CORRUPT,
                                            "the line has no \"file\": \"...\"");
    json->at = file;
    status = read_string(json, &nbytes);
    return status == PST_OK ? json->sink->begin_row(json->sink, json->text.bytes, nbytes) : status;
}

/* Passes all other members of the object to the sink. Its syntax was checked by begin_row, so only
 * types and values can be wrong. */
static enum pst_status deliver_cells(struct json *json)
{
    enum pst_status status = PST_OK;
    json->at = json->line;
    take(json, '{');
    do {
        struct psti_cell cell = {0};
        status = read_key(json);
        if (status != PST_OK)
            break;
        if (strcmp(json->key.bytes, "file") == 0) {
            status = skip_value(json);
            continue;
        }
        status = read_cell(json, &cell);
        if (status == PST_OK)
            status = json->sink->cell(json->sink, json->key.bytes, &cell);
    } while (status == PST_OK && take(json, ','));
    return status == PST_OK ? json->sink->end_row(json->sink) : status;
}

static enum pst_status read_line(struct json *json)
{
    json->at = json->line;
    skip_space(json);
    if (json->at == json->end)
        return PST_OK;
    json->at = json->line;
    enum pst_status status = begin_row(json);
    if (status != PST_OK || json->sink->skip_row)
        return status;
    return deliver_cells(json);
}

enum pst_status psti_dataset_folder_read_json(struct psti_row_sink *sink, const char *text,
                                              size_t nbytes)
{
    struct json json = {.sink = sink};
    const char *at = text, *end = text + nbytes;
    enum pst_status status = PST_OK;
    sink->is_csv = false;
    for (sink->line = 1; status == PST_OK && at < end; sink->line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        json.line = at;
        json.end = newline == NULL ? end : newline;
        status = read_line(&json);
        at = newline == NULL ? end : newline + 1;
    }
    psti_dataset_arena_free(&json.text);
    psti_dataset_arena_free(&json.key);
    psti_dataset_arena_free(&json.floats);
    return status;
}
