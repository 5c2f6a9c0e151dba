/* dataset_folder_rows.h - the interface between the readers of label files (CSV, JSON lines, lists)
 * and the sink that makes rows of their lines. */
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
/* One value of one line. Its pointers are valid during the call that passes it. */
struct psti_cell {
    enum psti_cell_kind kind;
    int64_t i;         /* INT */
    double d;          /* INT, FLOAT */
    const char *bytes; /* TEXT, MASK (a path), JSON: the text; BOXES, KEYPOINTS: f32. CSV: always
                        * the text */
    size_t nbytes;
};
/* Callbacks that receive a reader's results: begin_row, then its cells, then end_row. */
struct psti_row_sink {
    enum pst_status (*begin_row)(struct psti_row_sink *sink, const char *file, size_t nbytes);
    enum pst_status (*cell)(struct psti_row_sink *sink, const char *field,
                            const struct psti_cell *cell);
    enum pst_status (*end_row)(struct psti_row_sink *sink);
    bool skip_row;      /* set by begin_row: the reader gives no cells and no end_row for this
                         * row */
    bool is_csv;        /* in CSV, a cell that is a number may belong to a column of texts */
    const char *labels; /* path of the label file, for messages */
    const struct psti_folder *folder;
    uint64_t line; /* line of the file on which the row begins, from 1 */
    struct pst_error *err;
};
enum pst_status psti_dataset_folder_read_csv(struct psti_row_sink *sink, const char *text,
                                             size_t nbytes);
enum pst_status psti_dataset_folder_read_json(struct psti_row_sink *sink, const char *text,
                                              size_t nbytes);
enum pst_status psti_dataset_folder_read_list(struct psti_row_sink *sink, const char *text,
                                              size_t nbytes);
/* True if the label file is a list of paths and labels, by the ending of its name and because its
 * first line has no column names. `text` has no byte order mark. */
bool psti_dataset_folder_is_list(const char *path, const char *text, size_t nbytes);
/* True if the cells of a column are paths of masks. */
bool psti_dataset_folder_is_mask(const struct psti_row_sink *sink, const char *column);
/* Fills in an error that names the label file and sink->line. Returns the status. */
enum pst_status psti_dataset_folder_bad_line(const struct psti_row_sink *sink,
                                             enum pst_status status, const char *format, ...)
    PST_PRINTF(3, 4);
/* Parses a whole text as a decimal number in JSON's grammar; in CSV it may also begin with + or a
 * point. Sets cell to INT, FLOAT, or ABSENT if the text is no number or does not fit. Does not
 * depend on the locale. */
void psti_dataset_folder_number(const char *text, size_t nbytes, struct psti_cell *cell);
/* True if the text is an integer, even if it is too large for a cell. */
bool psti_dataset_folder_is_integer(const char *text, size_t nbytes);

#endif
