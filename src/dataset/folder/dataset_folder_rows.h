/* dataset_folder_rows.h - what the readers of label files (CSV, JSON lines, lists) give to the one
 * who makes rows of it. */
#ifndef PST_DATASET_DATASET_FOLDER_ROWS_H
#define PST_DATASET_DATASET_FOLDER_ROWS_H

#include "dataset/folder/dataset_folder.h"

enum psti_cell_kind {
    PSTI_DATASET_CELL_ABSENT,
    PSTI_DATASET_CELL_INT,
    PSTI_DATASET_CELL_FLOAT,
    PSTI_DATASET_CELL_TEXT,
    PSTI_DATASET_CELL_BOXES,
    PSTI_DATASET_CELL_KEYPOINTS,
    PSTI_DATASET_CELL_MASK,
    PSTI_DATASET_CELL_JSON,
    PSTI_DATASET_CELL_KINDS
};
/* One value of one line. Pointers are valid during the call that delivers it. */
struct psti_cell {
    enum psti_cell_kind kind;
    int64_t i;         /* INT */
    double d;          /* INT, FLOAT */
    const char *bytes; /* TEXT, MASK (a path), JSON; BOXES, KEYPOINTS: f32. CSV: always the text */
    size_t nbytes;
};
/* Receives a reader's results: begin_row, its cells, end_row. */
struct psti_row_sink {
    enum pst_status (*begin_row)(struct psti_row_sink *sink, const char *file, size_t nbytes);
    enum pst_status (*cell)(struct psti_row_sink *sink, const char *field,
                            const struct psti_cell *cell);
    enum pst_status (*end_row)(struct psti_row_sink *sink);
    bool skip_row;      /* set by begin_row: this row gets no cells and no end_row */
    bool is_csv;        /* a number may turn out to be text */
    const char *labels; /* path of the label file */
    const struct psti_folder *folder;
    uint64_t line; /* line on which the row begins, from 1 */
    struct pst_error *err;
};
enum pst_status psti_dataset_folder_read_csv(struct psti_row_sink *sink, const char *text,
                                             size_t nbytes);
enum pst_status psti_dataset_folder_read_json(struct psti_row_sink *sink, const char *text,
                                              size_t nbytes);
enum pst_status psti_dataset_folder_read_list(struct psti_row_sink *sink, const char *text,
                                              size_t nbytes);
/* True for a list of paths and labels: by the ending of the label file's name, and because its
 * first line names no columns. `text` has no byte order mark. */
bool psti_dataset_folder_is_list(const char *path, const char *text, size_t nbytes);
/* True if cells of that column are paths of masks. */
bool psti_dataset_folder_is_mask(const struct psti_row_sink *sink, const char *column);
/* Reports an error of the label file at sink->line. */
enum pst_status psti_dataset_folder_bad_line(const struct psti_row_sink *sink,
                                             enum pst_status status, const char *format, ...)
    PST_PRINTF(3, 4);
/* Reads a whole text as a decimal number as JSON writes it; in CSV it may also begin with + or a
 * point. The result is INT, FLOAT, or ABSENT if it is no number or does not fit. Independent of the
 * locale. */
void psti_dataset_folder_number(const char *text, size_t nbytes, struct psti_cell *cell);
/* True if the text is an integer, even one too large for a cell. */
bool psti_dataset_folder_is_integer(const char *text, size_t nbytes);

#endif
