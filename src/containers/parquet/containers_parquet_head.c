/* containers_parquet_head.c - reads the header of a page.
 *
 * In: bytes at an offset of the file. Out: the kind of the page, and where its bytes lie.
 * Statistics can make a header long, so a growing number of bytes is tried. */
#include "containers/parquet/containers_parquet_cursor.h"

#include "base/checked.h"

static enum pst_status corrupt(const struct psti_parquet_cursor *cursor,
                               const struct psti_parquet_head *head, const char *what,
                               struct pst_error *err)
{
    return psti_containers_cursor_fail(cursor, PST_ERROR_CORRUPT, head->header, err, "%s", what);
}

/* Reads the header of a data page or a dictionary page: both begin with the same two fields. */
static void read_data(struct psti_thrift *thrift, struct psti_parquet_head *head)
{
    struct psti_thrift_field field = {0};
    while (psti_containers_thrift_field(thrift, &field)) {
        if (field.id == 1)
            head->n_values = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 2)
            head->encoding = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 3 && head->has_data)
            head->def_encoding = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 4 && head->has_data)
            head->rep_encoding = psti_containers_thrift_count(thrift, field.type);
        else
            psti_containers_thrift_skip(thrift, field.type);
    }
}

static void read_data_2(struct psti_thrift *thrift, struct psti_parquet_head *head)
{
    struct psti_thrift_field field = {0};
    while (psti_containers_thrift_field(thrift, &field)) {
        if (field.id == 1)
            head->n_values = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 4)
            head->encoding = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 5)
            head->def_nbytes = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 6)
            head->rep_nbytes = psti_containers_thrift_count(thrift, field.type);
        else if (field.id == 7)
            head->is_stored = !psti_containers_thrift_bool(thrift, field.type);
        else
            psti_containers_thrift_skip(thrift, field.type);
    }
}

static void read_header(struct psti_thrift *thrift, struct psti_parquet_head *head)
{
    struct psti_thrift_field field = {0};
    while (psti_containers_thrift_field(thrift, &field)) {
        bool is_struct = field.type == PSTI_THRIFT_STRUCT;
        if (field.id == 1) {
            head->kind = psti_containers_thrift_count(thrift, field.type);
        } else if (field.id == 2) {
            head->decoded_nbytes = psti_containers_thrift_count(thrift, field.type);
        } else if (field.id == 3) {
            head->nbytes = psti_containers_thrift_count(thrift, field.type);
        } else if (field.id == 4) {
            head->has_crc = true;
            head->crc = (uint32_t)psti_containers_thrift_int(thrift, field.type);
        } else if ((field.id == 5 || field.id == 7) && is_struct) {
            head->has_data = field.id == 5;
            head->has_dictionary = field.id == 7;
            read_data(thrift, head);
        } else if (field.id == 8 && is_struct) {
            head->has_data_2 = true;
            read_data_2(thrift, head);
        } else {
            psti_containers_thrift_skip(thrift, field.type);
        }
    }
}

enum pst_status psti_containers_cursor_head(struct psti_parquet_cursor *cursor,
                                            struct psti_parquet_head *head, struct pst_error *err)
{
    uint64_t limit = cursor->file->meta->offset;
    uint64_t left = cursor->at < limit ? limit - cursor->at : 0;
    for (size_t want = 128;; want *= 8) {
        size_t n = want < PSTI_WINDOW_NBYTES ? want : PSTI_WINDOW_NBYTES;
        n = n < left ? n : (size_t)left;
        *head = (struct psti_parquet_head){.kind = UINT32_MAX, .header = cursor->at};
        struct psti_thrift thrift = {.nbytes = n};
        enum pst_status status =
            psti_containers_window_get(&cursor->window, cursor->at, n, &thrift.bytes, err);
        if (status != PST_OK)
            return status;
        read_header(&thrift, head);
        head->body = cursor->at + thrift.at;
        if (!thrift.is_bad)
            break;
        if (!thrift.is_short || n == left)
            return corrupt(cursor, head, "the header of a page is damaged, or the column ends here",
                           err);
        if (n == PSTI_WINDOW_NBYTES)
            return psti_containers_cursor_fail(cursor, PST_ERROR_LIMIT, head->header, err,
                                               "the header of a page has more than %d bytes",
                                               PSTI_WINDOW_NBYTES);
    }
    if (!psti_range_fits(head->body, head->nbytes, limit))
        return corrupt(cursor, head, "a page goes on behind the end of the columns", err);
    if ((head->kind == PSTI_PAGE_DATA && !head->has_data) ||
        (head->kind == PSTI_PAGE_DATA_2 && !head->has_data_2) ||
        (head->kind == PSTI_PAGE_DICTIONARY && !head->has_dictionary))
        return corrupt(cursor, head, "the header of a page lacks its second part", err);
    return PST_OK;
}
