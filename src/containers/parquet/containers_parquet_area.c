/* containers_parquet_area.c - gives bytes and locations of values in a page, and makes errors that
 * name a column.
 *
 * In: entries whose ranges were checked against their areas. Out: their bytes, from memory or
 * through the cursor's window, or their locations for the index. */
#include "containers/parquet/containers_parquet_cursor.h"

#include "base/fail.h"

#include <stdio.h>

#define ROOM "containers"

enum pst_status psti_containers_cursor_fail(const struct psti_parquet_cursor *cursor,
                                            enum pst_status status, uint64_t offset,
                                            struct pst_error *err, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return psti_fail_at(err, status, ROOM, cursor->file->meta->source->path, (int64_t)offset,
                        "column \"%.60s\": %s", cursor->name, text);
}

enum pst_status psti_containers_cursor_bytes(struct psti_parquet_cursor *cursor,
                                             const struct psti_parquet_entry *entry, size_t nbytes,
                                             const uint8_t **bytes, struct pst_error *err)
{
    const struct psti_parquet_area *area = entry->area;
    if (entry->at + nbytes > area->n_loaded)
        return psti_containers_window_get(&cursor->window, area->offset + entry->at, nbytes, bytes,
                                          err);
    *bytes = area->bytes + entry->at;
    return PST_OK;
}

enum pst_status psti_containers_cursor_place(struct psti_parquet_cursor *cursor,
                                             const struct psti_parquet_entry *entry,
                                             uint64_t nbytes, struct psti_container_value *value,
                                             struct pst_error *err)
{
    bool is_dictionary = entry->area == &cursor->dictionary;
    struct psti_parquet_area *area = is_dictionary ? &cursor->dictionary : &cursor->area;
    enum pst_status status = PST_OK;
    value->nbytes = value->decoded_nbytes = nbytes;
    value->coding = PSTI_CODING_STORED;
    value->facts = area->crc;
    value->offset = entry->at;
    value->is_in_page = area->is_decoded;
    if (!area->is_decoded) {
        value->offset += area->offset;
        return PST_OK;
    }
    if (area->i_page == PSTI_PAGE_NONE)
        status =
            psti_containers_columns_page(cursor->file->columns, &area->page, &area->i_page, err);
    value->i_page = area->i_page;
    return status;
}
