/* dataset_folder_list.c - reads a list of files: lines of a path and labels, as DALI's file_list.
 *
 * In: the whole text, valid UTF-8. Out: rows and cells, to a sink. A line is a path, blanks, and
 * integers from 0 on. Paths may contain blanks: a path ends behind the last image or audio
 * extension in the line. If a line has no such extension, its last word is the label if it is an
 * integer. The whole file decides the fields: none, `label` if each line has one label, or `labels`
 * (a JSON list in each line) if some line has several. Any thread. */
#include "dataset/folder/dataset_folder_rows.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* One line, without its line end. Its path is line[0..n_path), its labels are the words of
 * line[n_path..n). */
struct list_line {
    const char *at;
    size_t n_path, n;
};

/* Counts over all lines of the list. */
struct list_shape {
    uint64_t n_lines, n_labelled, most;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool has_ending(const char *text, size_t nbytes)
{
    char tail[8];
    size_t n = 0;
    while (n + 1 < sizeof tail && n < nbytes && (n == 0 || text[nbytes - n] != '.'))
        n++;
    memcpy(tail, text + nbytes - n, n);
    tail[n] = '\0';
    return psti_dataset_folder_is_image_name(tail) || psti_dataset_is_audio_name(tail);
}

/* Finds where the path in a line ends. */
static void find_path(struct list_line *line)
{
    const char *s = line->at;
    size_t end = line->n;
    for (; end > 0; end--)
        if ((end == line->n || is_blank(s[end])) && has_ending(s, end))
            break;
    line->n_path = end;
    if (end > 0)
        return;
    size_t word = line->n;
    while (word > 0 && !is_blank(s[word - 1]))
        word--;
    end = word;
    while (end > 0 && is_blank(s[end - 1]))
        end--;
    bool is_label = end > 0 && psti_dataset_folder_is_integer(s + word, line->n - word);
    line->n_path = is_label ? end : line->n;
}

/* Finds the next line that is not empty. False: there is none. *number: number of the line. */
static bool next_line(const char **at, const char *end, uint64_t *number, struct list_line *line)
{
    while (*at < end) {
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        size_t n = (size_t)((stop == NULL ? end : stop) - *at);
        line->at = *at;
        *at = stop == NULL ? end : stop + 1;
        ++*number;
        while (n > 0 && is_blank(line->at[n - 1]))
            n--;
        line->n = n;
        if (n > 0) {
            find_path(line);
            return true;
        }
    }
    return false;
}

/* Returns the next word behind the path, and moves *at behind it. False: there is none. */
static bool next_label(const struct list_line *line, size_t *at, const char **word, size_t *nbytes)
{
    while (*at < line->n && is_blank(line->at[*at]))
        ++*at;
    *word = line->at + *at;
    while (*at < line->n && !is_blank(line->at[*at]))
        ++*at;
    *nbytes = (size_t)(line->at + *at - *word);
    return *nbytes > 0;
}

/* Parses a word as a label, which must be an integer. */
static enum pst_status take_label(const struct psti_row_sink *sink, const char *word, size_t nbytes,
                                  struct psti_cell *cell)
{
    char shown[160];
    psti_dataset_folder_number(word, nbytes, cell);
    if (cell->kind == PSTI_DATASET_CELL_INT && cell->i >= 0)
        return PST_OK;
    psti_format_escape(word, nbytes, shown, sizeof shown);
    if (psti_dataset_folder_is_integer(word, nbytes))
        return psti_dataset_folder_bad_line(sink, PST_ERROR_ARGUMENT,
                                            "label %s is no number of a class: 0 to 2^63 - 1",
                                            shown);
    return psti_dataset_folder_bad_line(
        sink, PST_ERROR_CORRUPT,
        "behind the path stands \"%s\", and labels are whole numbers; names of classes need a CSV "
        "file whose first line is file,label",
        shown);
}

static enum pst_status measure(const struct psti_row_sink *sink, const char *text, size_t nbytes,
                               struct list_shape *shape)
{
    struct list_line line;
    uint64_t number = 0, first_without = 0, first_with = 0;
    for (const char *at = text; next_line(&at, text + nbytes, &number, &line);) {
        const char *word;
        size_t n_word, from = line.n_path;
        uint64_t n = 0;
        while (next_label(&line, &from, &word, &n_word))
            n++;
        shape->n_lines++;
        shape->n_labelled += n > 0;
        shape->most = n > shape->most ? n : shape->most;
        if (n == 0 && first_without == 0)
            first_without = number;
        if (n > 0 && first_with == 0)
            first_with = number;
    }
    if (shape->most != 1 || shape->n_labelled == shape->n_lines)
        return PST_OK;
    struct psti_row_sink place = *sink;
    place.line = first_without;
    return psti_dataset_folder_bad_line(
        &place, PST_ERROR_CORRUPT,
        "the line has no label, and line %llu has one: a label is a whole number behind the path",
        (unsigned long long)first_with);
}

/* Writes the labels of a line as a JSON list to `list`. */
static enum pst_status join_labels(struct psti_row_sink *sink, const struct list_line *line,
                                   struct psti_dataset_arena *list)
{
    const char *word;
    size_t n_word, from = line->n_path;
    list->nbytes = 0;
    enum pst_status status = psti_dataset_arena_add(list, "[", 1, sink->err);
    while (status == PST_OK && next_label(line, &from, &word, &n_word)) {
        struct psti_cell cell = {0};
        char digits[32];
        status = take_label(sink, word, n_word, &cell);
        if (status != PST_OK)
            break;
        int n = snprintf(digits, sizeof digits, "%s%lld", list->nbytes > 1 ? ", " : "",
                         (long long)cell.i);
        status = psti_dataset_arena_add(list, digits, (size_t)n, sink->err);
    }
    return status == PST_OK ? psti_dataset_arena_add(list, "]", 1, sink->err) : status;
}

static enum pst_status deliver(struct psti_row_sink *sink, const struct list_line *line,
                               const struct list_shape *shape, struct psti_dataset_arena *list)
{
    const char *word;
    size_t n_word, from = line->n_path;
    struct psti_cell cell = {0};
    enum pst_status status = sink->begin_row(sink, line->at, line->n_path);
    if (status != PST_OK || sink->skip_row)
        return status;
    if (shape->most == 1 && next_label(line, &from, &word, &n_word)) {
        status = take_label(sink, word, n_word, &cell);
        cell.bytes = word;
        cell.nbytes = n_word;
    } else if (shape->most > 1) {
        status = join_labels(sink, line, list);
        cell.kind = PSTI_DATASET_CELL_JSON;
        cell.bytes = list->bytes;
        cell.nbytes = list->nbytes;
    }
    if (status == PST_OK && shape->most > 0)
        status = sink->cell(sink, shape->most == 1 ? "label" : "labels", &cell);
    return status == PST_OK ? sink->end_row(sink) : status;
}

enum pst_status psti_dataset_folder_read_list(struct psti_row_sink *sink, const char *text,
                                              size_t nbytes)
{
    struct list_shape shape = {0};
    struct psti_dataset_arena list = {0};
    struct list_line line;
    enum pst_status status = measure(sink, text, nbytes, &shape);
    sink->line = 0;
    for (const char *at = text;
         status == PST_OK && next_line(&at, text + nbytes, &sink->line, &line);)
        status = deliver(sink, &line, &shape, &list);
    psti_dataset_arena_free(&list);
    return status;
}

bool psti_dataset_folder_is_list(const char *path, const char *text, size_t nbytes)
{
    const char *dot = strrchr(path, '.');
    if (dot == NULL || (strcasecmp(dot, ".txt") != 0 && strcasecmp(dot, ".list") != 0))
        return false;
    const char *stop = memchr(text, '\n', nbytes);
    size_t n = stop == NULL ? nbytes : (size_t)(stop - text);
    while (n > 0 && is_blank(text[n - 1]))
        n--;
    for (size_t i = 0; i <= n;) { /* a first line with a cell "file" is the header of a CSV */
        const char *comma = memchr(text + i, ',', n - i);
        size_t end = comma == NULL ? n : (size_t)(comma - text);
        if ((end - i == 4 && memcmp(text + i, "file", 4) == 0) ||
            (end - i == 6 && memcmp(text + i, "\"file\"", 6) == 0))
            return false;
        i = end + 1;
    }
    return true;
}
