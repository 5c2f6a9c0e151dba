/* dataset_folder_rows.c - helpers for the readers of label files and their sink: errors that name
 * the line, and which columns are masks. Any thread. */
#include "dataset/folder/dataset_folder_rows.h"

#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum pst_status psti_dataset_folder_bad_line(const struct psti_row_sink *sink,
                                             enum pst_status status, const char *format, ...)
{
    char text[PST_ERROR_TEXT_CAP];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return psti_fail_at(sink->err, status, "dataset", sink->labels, -1, "line %llu: %s",
                        (unsigned long long)sink->line, text);
}

/* True if a name is `text`, or begins or ends with `text` and an underscore between. */
static bool has_part(const char *name, const char *text)
{
    size_t n = strlen(name), k = strlen(text);
    return strcmp(name, text) == 0 || (n > k && strncmp(name, text, k) == 0 && name[k] == '_') ||
           (n > k && strcmp(name + n - k, text) == 0 && name[n - k - 1] == '_');
}

bool psti_dataset_folder_is_mask(const struct psti_row_sink *sink, const char *column)
{
    for (size_t i = 0; i < sink->folder->n_masks; i++)
        if (strcmp(column, sink->folder->masks[i]) == 0)
            return true;
    return has_part(column, "mask");
}
