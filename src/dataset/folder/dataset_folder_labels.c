/* dataset_folder_labels.c - makes rows and columns of a plain folder from a label file.
 *
 * The file is read whole and parsed twice. The first pass finds the columns and their types and
 * counts the rows. The second pass fills arrays of the right size. Samples are the files that the
 * label file names, sorted by path. Each must exist and be a regular file. Every error names the
 * label file and the line. */
#include "dataset/folder/dataset_folder_rows.h"
#include "dataset/folder/dataset_listing.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/files/read.h"
#include "format/format_dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS_TOLD = 1024 }; /* rows between two progress reports */

/* What the first pass has found of a column. */
struct guess {
    char name[64];
    unsigned kinds;                               /* bit k: a cell of kind k was seen */
    uint64_t first_line[PSTI_DATASET_CELL_KINDS]; /* line of the first cell of each kind */
    int64_t max_int;
    struct psti_folder_column *column; /* second pass */
};

struct labels {
    struct psti_row_sink sink; /* first member, because the callbacks convert its address to that of
                                * this struct */
    struct psti_folder *folder;
    struct guess guesses[PST_MAX_FIELDS];
    uint32_t n_guesses, next_guess;
    uint64_t n_rows; /* number of rows, from the first pass */
    int root_fd;
    uint64_t *lines; /* [n_rows] line of each row in the label file */
    uint64_t seen;   /* bit i: the current row has a cell for guess i */
    char file[PSTI_DATASET_FOLDER_NAME_CAP];
};

static const char *const cell_names[PSTI_DATASET_CELL_KINDS] = {
    "nothing", "an integer", "a number with a fraction", "a text", "boxes", "keypoints",
    "a mask",  "JSON"};

/* First pass
 * -------------------------------------------------------------------------------------------- */

/* Finds the guess of a column by its name, or NULL. Starts behind the last one found, because most
 * lines have the same order. */
static struct guess *find_guess(struct labels *labels, const char *name)
{
    for (uint32_t i = 0; i < labels->n_guesses; i++) {
        uint32_t k = (labels->next_guess + i) % labels->n_guesses;
        if (strcmp(labels->guesses[k].name, name) == 0) {
            labels->next_guess = k + 1;
            return &labels->guesses[k];
        }
    }
    return NULL;
}

/* Checks a column's name, which becomes the name of a field. */
static enum pst_status check_field_name(const struct labels *labels, const char *name)
{
    char shown[160];
    psti_format_escape(name, strlen(name), shown, sizeof shown);
    if (strcmp(name, "image") == 0 || strcmp(name, "index") == 0)
        return psti_dataset_folder_bad_line(&labels->sink, PST_ERROR_ARGUMENT,
                                            "the field name \"%s\" is taken: rename it", name);
    if (name[0] == '\0')
        return psti_dataset_folder_bad_line(
            &labels->sink, PST_ERROR_ARGUMENT,
            "a field has no name: name it, or remove it (pandas: to_csv(index=False))");
    if (psti_format_field_name_problem(name, sizeof labels->guesses->name) != NULL)
        return psti_dataset_folder_bad_line(
            &labels->sink, PST_ERROR_ARGUMENT,
            "\"%s\" cannot name a field: letters, digits, _ . - (at most 63, the first a "
            "letter or _)",
            shown);
    if (labels->n_guesses == PST_MAX_FIELDS - 1)
        return psti_dataset_folder_bad_line(&labels->sink, PST_ERROR_LIMIT, "more than %d fields",
                                            PST_MAX_FIELDS - 1);
    return PST_OK;
}

static enum pst_status add_guess(struct labels *labels, const char *name, struct guess **guess)
{
    uint64_t line = labels->sink.line;
    if (labels->sink.is_csv) /* the names are in the first line, whatever row is read now */
        labels->sink.line = 1;
    enum pst_status status = check_field_name(labels, name);
    labels->sink.line = line;
    if (status != PST_OK)
        return status;
    *guess = &labels->guesses[labels->n_guesses++];
    memcpy((*guess)->name, name, strlen(name) + 1);
    (*guess)->max_int = -1;
    return PST_OK;
}

/* True if a column may have cells of both kinds. */
static bool kinds_agree(bool is_csv, enum psti_cell_kind a, enum psti_cell_kind b)
{
    const unsigned numbers = 1u << PSTI_DATASET_CELL_INT | 1u << PSTI_DATASET_CELL_FLOAT;
    const unsigned texts = numbers | 1u << PSTI_DATASET_CELL_TEXT;
    unsigned both = 1u << a | 1u << b;
    return a == b || (both & ~(is_csv ? texts : numbers)) == 0;
}

static enum pst_status guess_cell(struct psti_row_sink *sink, const char *field,
                                  const struct psti_cell *cell)
{
    struct labels *labels = (struct labels *)sink;
    struct guess *guess = find_guess(labels, field);
    if (guess == NULL) {
        enum pst_status status = add_guess(labels, field, &guess);
        if (status != PST_OK)
            return status;
    }
    uint64_t bit = UINT64_C(1) << (guess - labels->guesses);
    if (labels->seen & bit)
        return psti_dataset_folder_bad_line(sink, PST_ERROR_CORRUPT,
                                            "\"%s\" appears twice in the line", field);
    labels->seen |= bit;
    if (cell->kind == PSTI_DATASET_CELL_ABSENT)
        return PST_OK;
    for (unsigned kind = 1; kind < PSTI_DATASET_CELL_KINDS; kind++)
        if ((guess->kinds >> kind & 1) &&
            !kinds_agree(sink->is_csv, (enum psti_cell_kind)kind, cell->kind))
            return psti_dataset_folder_bad_line(sink, PST_ERROR_CORRUPT,
                                                "\"%s\" is %s here, but %s in line %llu", field,
                                                cell_names[cell->kind], cell_names[kind],
                                                (unsigned long long)guess->first_line[kind]);
    if (!(guess->kinds >> cell->kind & 1)) {
        guess->kinds |= 1u << cell->kind;
        guess->first_line[cell->kind] = sink->line;
    }
    if (cell->kind == PSTI_DATASET_CELL_INT && cell->i > guess->max_int)
        guess->max_int = cell->i;
    return PST_OK;
}

static enum pst_status guess_begin(struct psti_row_sink *sink, const char *file, size_t nbytes)
{
    struct labels *labels = (struct labels *)sink;
    (void)file;
    (void)nbytes;
    labels->seen = 0;
    labels->next_guess = 0;
    return PST_OK;
}

static enum pst_status guess_end(struct psti_row_sink *sink)
{
    struct labels *labels = (struct labels *)sink;
    if (labels->n_rows >= UINT32_MAX / 2)
        return psti_dataset_folder_bad_line(sink, PST_ERROR_LIMIT, "more than 2147483647 lines");
    labels->n_rows++;
    return PST_OK;
}

/* Columns
 * -----------------------------------------------------------------------------------------------
 */

static enum pst_field_type guess_type(const struct guess *guess)
{
    static const enum pst_field_type types[PSTI_DATASET_CELL_KINDS] = {
        PST_FIELD_JSON,  PST_FIELD_INT,       PST_FIELD_FLOAT, PST_FIELD_TEXT,
        PST_FIELD_BOXES, PST_FIELD_KEYPOINTS, PST_FIELD_MASK,  PST_FIELD_JSON};
    unsigned kind = PSTI_DATASET_CELL_KINDS - 1;
    /* Kinds are numbered so that the largest number seen decides: int < float < text. */
    while (kind > 0 && !(guess->kinds >> kind & 1))
        kind--;
    return types[kind];
}

/* Checks the column "label": its cells must be numbers or class names. */
static enum pst_status check_label(struct labels *labels, const struct guess *guess)
{
    for (unsigned kind = PSTI_DATASET_CELL_FLOAT; kind < PSTI_DATASET_CELL_KINDS; kind++) {
        if (kind == PSTI_DATASET_CELL_TEXT || !(guess->kinds >> kind & 1) ||
            (kind == PSTI_DATASET_CELL_FLOAT && (guess->kinds >> PSTI_DATASET_CELL_TEXT & 1)))
            continue;
        labels->sink.line = guess->first_line[kind];
        return psti_dataset_folder_bad_line(
            &labels->sink, PST_ERROR_CORRUPT,
            "label is %s: it must be an integer from 0 on, or the name of a class",
            cell_names[kind]);
    }
    return PST_OK;
}

static enum pst_status make_column(struct labels *labels, struct guess *guess)
{
    struct psti_folder *folder = labels->folder;
    enum pst_field_type type = guess_type(guess);
    bool is_label = strcmp(guess->name, "label") == 0;
    enum pst_status status = is_label ? check_label(labels, guess) : PST_OK;
    if (status != PST_OK)
        return status;
    bool by_name = is_label && type == PST_FIELD_TEXT;
    if (by_name)
        type = PST_FIELD_INT;
    status =
        psti_dataset_folder_add_column(folder, guess->name, type, &guess->column, labels->sink.err);
    if (status != PST_OK)
        return status;
    struct psti_folder_column *column = guess->column;
    size_t n = (size_t)labels->n_rows;
    if (is_label && !by_name) /* at least 1, because 0 means "by name"; numbers out of range are
                               * refused later */
        column->field.n_classes = guess->max_int < 0 ? 1
                                  : guess->max_int > PSTI_DATASET_FOLDER_MAX_LABEL
                                      ? PSTI_DATASET_FOLDER_MAX_LABEL
                                      : guess->max_int + 1;
    if (type == PST_FIELD_INT)
        column->ints = psti_alloc_array(n, sizeof *column->ints);
    else if (type == PST_FIELD_FLOAT)
        column->floats = psti_alloc_array(n, sizeof *column->floats);
    else
        column->starts = psti_calloc(n + 1, sizeof *column->starts);
    if (type == PST_FIELD_MASK)
        column->masks = psti_calloc(n, sizeof *column->masks);
    if ((column->ints == NULL && column->floats == NULL && column->starts == NULL) ||
        (type == PST_FIELD_MASK && column->masks == NULL))
        return psti_fail(labels->sink.err, PST_ERROR_MEMORY, "dataset",
                         "out of memory for %zu values of %s", n, guess->name);
    return PST_OK;
}

/* Second pass
 * ------------------------------------------------------------------------------------------- */

/* Normalises a path, to give each sample one name: removes "./" and double slashes. False: the path
 * leaves the folder. */
static bool tidy_path(const char *path, size_t nbytes, char out[PSTI_DATASET_FOLDER_NAME_CAP])
{
    size_t used = 0;
    if (path[0] == '/')
        return false;
    for (size_t i = 0; i < nbytes;) {
        const char *slash = memchr(path + i, '/', nbytes - i);
        size_t n = slash == NULL ? nbytes - i : (size_t)(slash - (path + i));
        if (n == 2 && path[i] == '.' && path[i + 1] == '.')
            return false;
        if (n > 0 && !(n == 1 && path[i] == '.')) {
            if (used > 0)
                out[used++] = '/';
            memcpy(out + used, path + i, n);
            used += n;
        }
        i += n + 1;
    }
    out[used] = '\0';
    return used > 0;
}

/* Finds the file that a line names. Sets labels->file to its normalised path, and *facts to its
 * size, place on the disk and stamp. *absent: true if the file cannot be read and allow_unreadable
 * leaves it out. */
static enum pst_status look_up(struct labels *labels, const char *path, size_t nbytes,
                               struct psti_file_facts *facts, bool *absent)
{
    struct psti_folder *folder = labels->folder;
    struct stat st;
    char shown[PST_ERROR_PATH_CAP], text[128];
    psti_format_escape(path, nbytes, shown, sizeof shown);
    *absent = false;
    if (!psti_dataset_folder_name_ok(path, nbytes) || !tidy_path(path, nbytes, labels->file))
        return psti_dataset_folder_bad_line(
            &labels->sink, PST_ERROR_ARGUMENT,
            "\"%s\" is no path relative to the folder, within it, shorter than 4096 bytes and "
            "without control characters",
            shown);
    int os_error = 0;
    const char *what = "";
    if (fstatat(labels->root_fd, labels->file, &st, 0) != 0 ||
        faccessat(labels->root_fd, labels->file, R_OK, AT_EACCESS) != 0)
        os_error = errno;
    else if (!S_ISREG(st.st_mode))
        what = "not a regular file";
    if (os_error == 0 && what[0] == '\0') {
        *facts = psti_dataset_folder_see(folder, labels->file, &st);
        return PST_OK;
    }
    if (os_error != 0)
        what = os_error == ENOENT || os_error == ENOTDIR ? "there is no such file in the folder"
                                                         : strerror_r(os_error, text, sizeof text);
    if (folder->allow_unreadable) {
        *absent = true;
        folder->n_skipped++;
        psti_log(PST_LOG_WARNING, "dataset", "%s: line %llu: skipped %s: %s", labels->sink.labels,
                 (unsigned long long)labels->sink.line, shown, what);
        return psti_dataset_folder_note(folder, PST_NOTICE_UNREADABLE, what, 1, labels->file,
                                        labels->sink.err);
    }
    enum pst_status status = os_error == ENOENT || os_error == ENOTDIR ? PST_ERROR_NOT_FOUND
                             : os_error != 0                           ? PST_ERROR_IO
                                                                       : PST_ERROR_UNSUPPORTED;
    psti_dataset_folder_bad_line(&labels->sink, status, "%s: %s", shown, what);
    if (labels->sink.err != NULL)
        labels->sink.err->os_error = os_error;
    return status;
}

static enum pst_status fill_begin(struct psti_row_sink *sink, const char *file, size_t nbytes)
{
    struct labels *labels = (struct labels *)sink;
    struct psti_dataset_files *files = &labels->folder->files;
    struct psti_file_facts facts = {0};
    labels->seen = 0;
    labels->next_guess = 0;
    enum pst_status status =
        files->n % ROWS_TOLD == 0
            ? psti_dataset_listing_tell(labels->folder->listing, files->n, sink->err)
            : PST_OK;
    if (status == PST_OK)
        status = look_up(labels, file, nbytes, &facts, &sink->skip_row);
    if (status != PST_OK || sink->skip_row)
        return status;
    labels->lines[files->n] = sink->line;
    return psti_dataset_files_add(files, labels->file, &facts, sink->err);
}

static enum pst_status fill_label(struct labels *labels, struct psti_folder_column *column,
                                  size_t row, const struct psti_cell *cell)
{
    if (column->field.n_classes == 0) {
        uint32_t number;
        if (!psti_dataset_folder_name_ok(cell->bytes, cell->nbytes))
            return psti_dataset_folder_bad_line(
                &labels->sink, PST_ERROR_ARGUMENT,
                "the name of the class is empty, too long or has control characters");
        enum pst_status status = psti_dataset_names_intern(&labels->folder->classes, cell->bytes,
                                                           cell->nbytes, &number, labels->sink.err);
        column->ints[row] = number;
        return status;
    }
    if (cell->i < 0 || cell->i > PSTI_DATASET_FOLDER_MAX_LABEL)
        return psti_dataset_folder_bad_line(&labels->sink, PST_ERROR_ARGUMENT,
                                            "label %lld is outside 0..%d", (long long)cell->i,
                                            PSTI_DATASET_FOLDER_MAX_LABEL);
    column->ints[row] = cell->i;
    return PST_OK;
}

static enum pst_status fill_value(struct labels *labels, struct psti_folder_column *column,
                                  size_t row, const struct psti_cell *cell)
{
    const char *bytes = cell->bytes;
    size_t nbytes = cell->nbytes;
    if (column->field.type == PST_FIELD_MASK) {
        bool absent;
        struct psti_file_facts *mask = &column->masks[row];
        enum pst_status status = look_up(labels, bytes, nbytes, mask, &absent);
        if (status != PST_OK)
            return status;
        bytes = labels->file;
        nbytes = absent ? 0 : strlen(bytes);
        column->max_nbytes = mask->nbytes > column->max_nbytes ? mask->nbytes : column->max_nbytes;
    } else if (nbytes > column->max_nbytes) {
        column->max_nbytes = nbytes;
    }
    enum pst_status status =
        psti_dataset_arena_add(&column->values, bytes, nbytes, labels->sink.err);
    column->starts[row + 1] = column->values.nbytes;
    return status;
}

static enum pst_status fill_cell(struct psti_row_sink *sink, const char *field,
                                 const struct psti_cell *cell)
{
    struct labels *labels = (struct labels *)sink;
    struct guess *guess = find_guess(labels, field);
    if (guess == NULL)
        return psti_dataset_folder_bad_line(sink, PST_ERROR_INTERNAL,
                                            "field \"%s\" came up in the second pass", field);
    struct psti_folder_column *column = guess->column;
    size_t row = labels->folder->files.n - 1;
    if (cell->kind == PSTI_DATASET_CELL_ABSENT)
        return PST_OK;
    labels->seen |= UINT64_C(1) << (guess - labels->guesses);
    if (column->field.type == PST_FIELD_INT && strcmp(field, "label") == 0)
        return fill_label(labels, column, row, cell);
    if (column->field.type == PST_FIELD_INT)
        column->ints[row] = cell->i;
    else if (column->field.type == PST_FIELD_FLOAT)
        column->floats[row] = cell->d;
    else
        return fill_value(labels, column, row, cell);
    return PST_OK;
}

/* Fills fields that the row does not have: with an empty value if the type has one, else fails. */
static enum pst_status fill_end(struct psti_row_sink *sink)
{
    struct labels *labels = (struct labels *)sink;
    size_t row = labels->folder->files.n - 1;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < labels->n_guesses; i++) {
        struct psti_folder_column *column = labels->guesses[i].column;
        struct psti_cell cell = {.bytes = ""};
        if (labels->seen >> i & 1)
            continue;
        if (column->starts == NULL || column->field.type == PST_FIELD_MASK)
            return psti_dataset_folder_bad_line(sink, PST_ERROR_CORRUPT,
                                                "the line has no \"%s\", which other lines have",
                                                column->field.name);
        if (column->field.type == PST_FIELD_JSON) {
            cell.bytes = "null";
            cell.nbytes = 4;
        }
        status = fill_value(labels, column, row, &cell);
    }
    return status;
}

/* Afterwards
 * -------------------------------------------------------------------------------------------- */

static bool row_less(const void *ctx, uint32_t a, uint32_t b)
{
    const struct psti_dataset_files *files = ctx;
    return strcmp(psti_dataset_files_name(files, a), psti_dataset_files_name(files, b)) < 0;
}

/* Sorts the samples by path. Fails if a file is named twice. */
static enum pst_status sort_samples(struct labels *labels)
{
    struct psti_folder *folder = labels->folder;
    struct psti_dataset_files *files = &folder->files;
    uint32_t *order = psti_alloc_array(files->n + 1, sizeof *order);
    if (order == NULL)
        return psti_fail(labels->sink.err, PST_ERROR_MEMORY, "dataset",
                         "out of memory to sort %zu names", files->n);
    folder->row_of_sample = order;
    for (size_t i = 0; i < files->n; i++)
        order[i] = (uint32_t)i;
    enum pst_status status =
        psti_dataset_folder_sort(order, files->n, row_less, files, labels->sink.err);
    for (size_t i = 1; status == PST_OK && i < files->n; i++) {
        const char *name = psti_dataset_files_name(files, order[i]);
        if (strcmp(psti_dataset_files_name(files, order[i - 1]), name) != 0)
            continue;
        labels->sink.line =
            labels->lines[order[i]]; /* the later line, because the sort is stable */
        status = psti_dataset_folder_bad_line(&labels->sink, PST_ERROR_EXISTS,
                                              "%s is named twice, first in line %llu", name,
                                              (unsigned long long)labels->lines[order[i - 1]]);
    }
    return status;
}

static enum pst_status number_classes(struct labels *labels)
{
    struct psti_folder *folder = labels->folder;
    uint32_t *rank = NULL;
    enum pst_status status = PST_OK;
    if (folder->classes.n == 0)
        return PST_OK;
    status = psti_dataset_names_sort(&folder->classes, &rank, labels->sink.err);
    if (status != PST_OK)
        return status;
    for (uint32_t c = 0; c < folder->n_columns; c++) {
        struct psti_folder_column *column = &folder->columns[c];
        if (strcmp(column->field.name, "label") != 0)
            continue;
        column->field.n_classes = (int64_t)folder->classes.n;
        for (size_t i = 0; i < folder->files.n; i++)
            column->ints[i] = rank[column->ints[i]];
    }
    psti_free(rank);
    return PST_OK;
}

/* Checks that the columns exist that the caller has declared as masks. */
static enum pst_status check_masks(struct labels *labels)
{
    const struct psti_folder *folder = labels->folder;
    for (size_t i = 0; i < folder->n_masks; i++) {
        uint32_t k = 0;
        while (k < folder->n_columns && strcmp(folder->columns[k].field.name, folder->masks[i]))
            k++;
        if (k == folder->n_columns)
            return psti_fail_at(
                labels->sink.err, PST_ERROR_ARGUMENT, "dataset", labels->sink.labels, -1,
                "the label file has no column \"%.64s\", which was named as one of masks",
                folder->masks[i]);
    }
    return PST_OK;
}

/* Adds a notice about a text column whose values all look like image files, if the first of these
 * files exists: the user may have meant masks. */
static enum pst_status note_paths(struct labels *labels, const struct psti_folder_column *column)
{
    struct psti_folder *folder = labels->folder;
    struct stat st;
    char path[PSTI_DATASET_FOLDER_NAME_CAP], first[PSTI_DATASET_FOLDER_NAME_CAP] = "";
    uint64_t n = 0;
    if (column->field.type != PST_FIELD_TEXT)
        return PST_OK;
    for (size_t row = 0; row < folder->files.n; row++) {
        size_t nbytes = (size_t)(column->starts[row + 1] - column->starts[row]);
        if (nbytes == 0)
            continue;
        if (nbytes >= sizeof path)
            return PST_OK;
        memcpy(path, column->values.bytes + column->starts[row], nbytes);
        path[nbytes] = '\0';
        if (!psti_dataset_folder_is_image_name(path))
            return PST_OK;
        if (n++ == 0 && (!tidy_path(path, nbytes, first) ||
                         fstatat(labels->root_fd, first, &st, 0) != 0 || !S_ISREG(st.st_mode)))
            return PST_OK;
    }
    return n == 0 ? PST_OK
                  : psti_dataset_folder_note(folder, PST_NOTICE_TEXT_IS_PATH, column->field.name, n,
                                             first, labels->sink.err);
}

static enum pst_status read_whole(const char *path, char **text, size_t *nbytes,
                                  struct pst_error *err)
{
    struct stat st;
    char *bytes = NULL;
    ssize_t n = 0;
    int fd;
    enum pst_status status = psti_open_data(path, "dataset", "the label file", &fd, &st, err);
    if (status != PST_OK)
        return status;
    bytes = psti_alloc((size_t)st.st_size + 1);
    if (bytes == NULL) {
        status = psti_fail(err, PST_ERROR_MEMORY, "dataset",
                           "out of memory for a label file of %lld bytes", (long long)st.st_size);
        goto out;
    }
    n = psti_read_at(fd, bytes, (size_t)st.st_size, 0);
    if (n < 0) {
        status = psti_fail_os(err, errno, "dataset", path, 0, "the label file cannot be read");
        goto out;
    }
    *text = bytes;
    *nbytes = (size_t)n;
    bytes = NULL;
out:
    if (status != PST_OK)
        psti_error_set_file(err, path);
    psti_free(bytes);
    close(fd);
    return status;
}

static enum pst_status check_utf8(struct labels *labels, const char *text, size_t nbytes)
{
    size_t valid = psti_format_utf8_valid(text, nbytes);
    labels->sink.line = 1;
    for (size_t i = 0; i < valid; i++)
        labels->sink.line += text[i] == '\n';
    if (valid < nbytes)
        return psti_fail_at(labels->sink.err, PST_ERROR_CORRUPT, "dataset", labels->sink.labels,
                            (int64_t)valid, "line %llu: byte \\x%02X is not UTF-8",
                            (unsigned long long)labels->sink.line,
                            (unsigned)(unsigned char)text[valid]);
    return PST_OK;
}

static enum pst_status two_passes(struct labels *labels, const char *text, size_t nbytes)
{
    struct psti_row_sink *sink = &labels->sink;
    if (nbytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        nbytes -= 3;
    }
    size_t i = 0;
    while (i < nbytes && strchr(" \t\r\n", text[i]) != NULL && text[i] != '\0')
        i++;
    bool is_json = i < nbytes && (text[i] == '{' || text[i] == '[');
    bool is_list = !is_json && psti_dataset_folder_is_list(sink->labels, text, nbytes);
    enum pst_status (*read)(struct psti_row_sink *, const char *, size_t) =
        is_json   ? psti_dataset_folder_read_json
        : is_list ? psti_dataset_folder_read_list
                  : psti_dataset_folder_read_csv;
    sink->begin_row = guess_begin;
    sink->cell = guess_cell;
    sink->end_row = guess_end;
    enum pst_status status = check_utf8(labels, text, nbytes);
    if (status == PST_OK)
        status = read(sink, text, nbytes);
    if (status == PST_OK && labels->n_rows == 0)
        status =
            psti_dataset_folder_bad_line(sink, PST_ERROR_NOT_FOUND, "the label file names no file");
    if (status != PST_OK)
        return status;
    labels->lines = psti_alloc_array((size_t)labels->n_rows, sizeof *labels->lines);
    if (labels->lines == NULL)
        return psti_fail(sink->err, PST_ERROR_MEMORY, "dataset", "out of memory for %llu lines",
                         (unsigned long long)labels->n_rows);
    for (uint32_t k = 0; status == PST_OK && k < labels->n_guesses; k++)
        status = make_column(labels, &labels->guesses[k]);
    if (status != PST_OK)
        return status;
    sink->begin_row = fill_begin;
    sink->cell = fill_cell;
    sink->end_row = fill_end;
    return read(sink, text, nbytes);
}

enum pst_status psti_dataset_folder_labels(struct psti_folder *folder, const char *path,
                                           struct pst_error *err)
{
    char *text = NULL;
    size_t nbytes = 0;
    enum pst_status status = PST_OK;
    struct labels *labels = psti_calloc(1, sizeof *labels);
    if (labels == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory to read labels");
    labels->folder = folder;
    labels->sink.labels = path;
    labels->sink.folder = folder;
    labels->sink.err = err;
    labels->root_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (labels->root_fd < 0) {
        status = psti_fail_os(err, errno, "dataset", NULL, -1, "the folder cannot be opened");
        goto out;
    }
    status = read_whole(path, &text, &nbytes, err);
    if (status == PST_OK)
        status = two_passes(labels, text, nbytes);
    if (status == PST_OK && folder->files.n == 0)
        status = psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                           "none of the %llu files that %s names can be read",
                           (unsigned long long)labels->n_rows, path);
    if (status == PST_OK)
        status = sort_samples(labels);
    if (status == PST_OK)
        status = number_classes(labels);
    if (status == PST_OK)
        status = check_masks(labels);
    for (uint32_t i = 0; status == PST_OK && i < folder->n_columns; i++)
        status = note_paths(labels, &folder->columns[i]);
    close(labels->root_fd);
out:
    psti_free(text);
    psti_free(labels->lines);
    psti_free(labels);
    return status;
}
