/* dataset_folder_csv.c - reads a label file of comma-separated values (RFC 4180).
 *
 * In: the whole text, valid UTF-8. Out: rows and cells, to a sink. The first record has the
 * names of the columns; one of them must be "file". Quotes, doubled quotes, line ends inside
 * quotes, and line ends CR LF and LF are supported. Every record must have as many cells as the
 * first one. The sink decides by the column whether a cell is a number, a class or something
 * else. */
#include "dataset/folder/dataset_folder_rows.h"

#include "base/fail.h"

#include <string.h>

#define CSV_MAX_COLUMNS (PST_MAX_FIELDS + 1)

struct csv {
    struct psti_row_sink *sink;
    const char *at, *end;
    uint64_t next_line;
    struct psti_dataset_arena cells;    /* cells of the current record, without quotes, each
                                         * NUL-terminated */
    size_t starts[CSV_MAX_COLUMNS + 1]; /* offset of each cell in `cells` */
    size_t n_cells;
    struct psti_dataset_arena header;
    size_t names[CSV_MAX_COLUMNS]; /* offset of each column's name in `header` */
    size_t n_columns, i_file;
};

static enum pst_status add_bytes(struct csv *csv, const char *bytes, size_t nbytes)
{
    return psti_dataset_arena_add(&csv->cells, bytes, nbytes, csv->sink->err);
}

/* Reads the inside of a quoted cell. csv->at is behind the opening quote. */
static enum pst_status read_quoted(struct csv *csv)
{
    enum pst_status status = PST_OK;
    while (status == PST_OK && csv->at < csv->end) {
        const char *quote = memchr(csv->at, '"', (size_t)(csv->end - csv->at));
        const char *stop = quote == NULL ? csv->end : quote;
        for (const char *p = csv->at; p < stop; p++)
            csv->next_line += *p == '\n';
        status = add_bytes(csv, csv->at, (size_t)(stop - csv->at));
        csv->at = stop;
        if (quote == NULL)
            break;
        csv->at++;
        if (csv->at == csv->end || *csv->at != '"')
            return status;
        if (status == PST_OK)
            status = add_bytes(csv, "\"", 1);
        csv->at++;
    }
    if (status != PST_OK)
        return status;
    return psti_dataset_folder_bad_line(csv->sink, PST_ERROR_CORRUPT,
                                        "a quote is opened and never closed");
}

static enum pst_status read_plain(struct csv *csv)
{
    const char *start = csv->at;
    while (csv->at < csv->end && *csv->at != ',' && *csv->at != '\n' && *csv->at != '"')
        csv->at++;
    if (csv->at < csv->end && *csv->at == '"')
        return psti_dataset_folder_bad_line(csv->sink, PST_ERROR_CORRUPT,
                                            "a quote inside a cell that does not begin with one");
    size_t n = (size_t)(csv->at - start);
    if (n > 0 && start[n - 1] == '\r' && (csv->at == csv->end || *csv->at == '\n'))
        n--;
    return add_bytes(csv, start, n);
}

/* Reads the next record into csv->cells. */
static enum pst_status read_record(struct csv *csv)
{
    csv->cells.nbytes = 0;
    csv->n_cells = 0;
    csv->sink->line = csv->next_line;
    for (;;) {
        if (csv->n_cells == CSV_MAX_COLUMNS)
            return psti_dataset_folder_bad_line(csv->sink, PST_ERROR_LIMIT, "more than %d columns",
                                                CSV_MAX_COLUMNS);
        csv->starts[csv->n_cells++] = csv->cells.nbytes;
        enum pst_status status;
        if (csv->at < csv->end && *csv->at == '"') {
            csv->at++;
            status = read_quoted(csv);
            if (csv->at < csv->end && *csv->at == '\r' && csv->end - csv->at >= 2 &&
                csv->at[1] == '\n')
                csv->at++;
            if (status == PST_OK && csv->at < csv->end && *csv->at != ',' && *csv->at != '\n')
                return psti_dataset_folder_bad_line(csv->sink, PST_ERROR_CORRUPT,
                                                    "text behind a closing quote");
        } else {
            status = read_plain(csv);
        }
        if (status == PST_OK)
            status = add_bytes(csv, "", 1);
        if (status != PST_OK)
            return status;
        if (csv->at == csv->end)
            break;
        if (*csv->at++ == '\n') {
            csv->next_line++;
            break;
        }
    }
    csv->starts[csv->n_cells] = csv->cells.nbytes;
    return PST_OK;
}

static const char *cell_text(const struct csv *csv, size_t i, size_t *nbytes)
{
    *nbytes = csv->starts[i + 1] - csv->starts[i] - 1;
    return csv->cells.bytes + csv->starts[i];
}

static enum pst_status read_header(struct csv *csv)
{
    enum pst_status status = read_record(csv);
    if (status != PST_OK)
        return status;
    status =
        psti_dataset_arena_add(&csv->header, csv->cells.bytes, csv->cells.nbytes, csv->sink->err);
    if (status != PST_OK)
        return status;
    csv->n_columns = csv->n_cells;
    csv->i_file = SIZE_MAX;
    for (size_t i = 0; i < csv->n_columns; i++) {
        const char *name = csv->header.bytes + csv->starts[i];
        csv->names[i] = csv->starts[i];
        if (strlen(name) != csv->starts[i + 1] - csv->starts[i] - 1)
            return psti_dataset_folder_bad_line(
                csv->sink, PST_ERROR_CORRUPT, "the name of column %zu contains a NUL byte", i + 1);
        for (size_t k = 0; k < i; k++)
            if (strcmp(csv->header.bytes + csv->names[k], name) == 0)
                return psti_dataset_folder_bad_line(csv->sink, PST_ERROR_CORRUPT,
                                                    "two columns are named \"%.64s\"", name);
        if (strcmp(name, "file") == 0)
            csv->i_file = i;
    }
    if (csv->i_file == SIZE_MAX)
        return psti_dataset_folder_bad_line(
            csv->sink, PST_ERROR_CORRUPT,
            "the first line must name the columns, one of them file; it begins with "
            "\"%.64s\" (lists of a path and a label in a line are called .txt or .list)",
            csv->header.bytes);
    return PST_OK;
}

/* True for a number with leading zeros, such as 007. It stays a text, to keep the zeros. */
static bool is_code(const char *s, size_t n)
{
    size_t i = n > 0 && (s[0] == '-' || s[0] == '+');
    return i + 1 < n && s[i] == '0' && s[i + 1] >= '0' && s[i + 1] <= '9';
}

static enum pst_status deliver(struct csv *csv)
{
    struct psti_row_sink *sink = csv->sink;
    size_t nbytes;
    const char *text = cell_text(csv, csv->i_file, &nbytes);
    enum pst_status status = sink->begin_row(sink, text, nbytes);
    if (status != PST_OK || sink->skip_row)
        return status;
    for (size_t i = 0; status == PST_OK && i < csv->n_columns; i++) {
        struct psti_cell cell = {0};
        if (i == csv->i_file)
            continue;
        const char *name = csv->header.bytes + csv->names[i];
        cell.bytes = cell_text(csv, i, &cell.nbytes);
        psti_dataset_folder_number(cell.bytes, cell.nbytes, &cell);
        if (psti_dataset_folder_is_mask(sink, name))
            cell.kind = cell.nbytes == 0 ? PSTI_DATASET_CELL_ABSENT : PSTI_DATASET_CELL_MASK;
        else if (cell.kind == PSTI_DATASET_CELL_ABSENT && strcmp(name, "label") == 0 &&
                 psti_dataset_folder_is_integer(cell.bytes, cell.nbytes))
            return psti_dataset_folder_bad_line(
                sink, PST_ERROR_ARGUMENT, "label %.*s is beyond 64 bits: it is no class number",
                cell.nbytes < 100 ? (int)cell.nbytes : 100, cell.bytes);
        else if (cell.kind == PSTI_DATASET_CELL_ABSENT ||
                 (strcmp(name, "label") != 0 && is_code(cell.bytes, cell.nbytes)))
            cell.kind = PSTI_DATASET_CELL_TEXT;
        status = sink->cell(sink, name, &cell);
    }
    return status == PST_OK ? sink->end_row(sink) : status;
}

enum pst_status psti_dataset_folder_read_csv(struct psti_row_sink *sink, const char *text,
                                             size_t nbytes)
{
    struct csv csv = {.sink = sink, .at = text, .end = text + nbytes, .next_line = 1};
    sink->is_csv = true;
    enum pst_status status = read_header(&csv);
    while (status == PST_OK && csv.at < csv.end) {
        status = read_record(&csv);
        if (status != PST_OK)
            break;
        if (csv.n_cells == 1 && csv.cells.nbytes == 1)
            continue; /* skip an empty line */
        if (csv.n_cells != csv.n_columns)
            status = psti_dataset_folder_bad_line(sink, PST_ERROR_CORRUPT,
                                                  "%zu cells where the header names %zu columns",
                                                  csv.n_cells, csv.n_columns);
        else
            status = deliver(&csv);
    }
    psti_dataset_arena_free(&csv.cells);
    psti_dataset_arena_free(&csv.header);
    return status;
}
