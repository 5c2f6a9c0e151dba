/* containers_recordio_parts.c - reads the headers of a record's parts, and joins the parts.
 *
 * In: pieces of a file, through a window. Out: offsets and sizes of records. */
#include "containers/recordio/containers_recordio_parts.h"

#include "base/bits.h"
#include "base/fail.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"

enum { WHOLE = 0, FIRST = 1, MIDDLE = 2, LAST = 3 };

struct record_part {
    uint64_t data, nbytes, next; /* location of the part's data, and offset of the next part */
    uint32_t flag;
};

/* Fills in an error whose message names the last whole record. */
static enum pst_status bad_record(const struct psti_record_walk *walk, enum pst_status status,
                                  uint64_t offset, const char *what, struct pst_error *err)
{
    const char *path = walk->window.source->path;
    if (walk->n_records == 0)
        return psti_fail_at(err, status, ROOM, path, (int64_t)offset, "%s", what);
    return psti_fail_at(err, status, ROOM, path, (int64_t)offset,
                        "%s; the last whole record is number %" PRIu64 ", at byte %" PRIu64, what,
                        walk->n_records - 1, walk->last);
}

/* Reads the header of the part at `at`. *is_part: false if no part begins there. */
static enum pst_status read_part(struct psti_window *window, uint64_t at, struct record_part *part,
                                 bool *is_part, struct pst_error *err)
{
    const uint8_t *head = NULL;
    enum pst_status status =
        psti_containers_window_get(window, at, PSTI_RECORDIO_PART_HEAD, &head, err);
    if (status != PST_OK)
        return status;
    uint32_t word = psti_load_u32(head + 4);
    part->flag = word >> 29;
    part->data = at + PSTI_RECORDIO_PART_HEAD;
    part->nbytes = word & ((1u << 29) - 1);
    part->next = part->data + (part->nbytes + 3) / 4 * 4;
    *is_part = psti_load_u32(head) == PSTI_RECORDIO_MAGIC;
    return PST_OK;
}

/* Reads the header of the part at `at`; it is an error if no part begins there. */
static enum pst_status next_part(struct psti_record_walk *walk, uint64_t at,
                                 struct record_part *part, struct pst_error *err)
{
    uint64_t left = walk->window.source->nbytes - at;
    bool is_part = false;
    if (left < PSTI_RECORDIO_PART_HEAD)
        return bad_record(walk, PST_ERROR_TRUNCATED, walk->window.source->nbytes,
                          "the file ends within a record", err);
    enum pst_status status = read_part(&walk->window, at, part, &is_part, err);
    if (status != PST_OK)
        return status;
    if (!is_part && walk->n_records == 0 && at == 0)
        return bad_record(walk, PST_ERROR_CORRUPT, 0, "this is no RecordIO file of MXNet", err);
    if (!is_part)
        return bad_record(walk, PST_ERROR_CORRUPT, at, "no record begins here", err);
    if (part->next > walk->window.source->nbytes)
        return bad_record(walk, PST_ERROR_TRUNCATED, walk->window.source->nbytes,
                          "the file ends within a record", err);
    return PST_OK;
}

enum pst_status psti_containers_record_next(struct psti_record_walk *walk,
                                            struct psti_recordio_record *record, bool *has,
                                            struct pst_error *err)
{
    struct record_part part;
    *has = walk->at < walk->window.source->nbytes;
    if (!*has)
        return PST_OK;
    *has = false;
    enum pst_status status = next_part(walk, walk->at, &part, err);
    if (status != PST_OK)
        return status;
    if (part.flag != WHOLE && part.flag != FIRST)
        return bad_record(walk, PST_ERROR_CORRUPT, walk->at,
                          "here is a later part of a record without its first one", err);
    *record = (struct psti_recordio_record){
        .at = walk->at, .nbytes = part.nbytes, .is_joined = part.flag == FIRST};
    while (part.flag != WHOLE && part.flag != LAST) {
        uint64_t at = part.next;
        status = next_part(walk, at, &part, err);
        if (status != PST_OK)
            return status;
        if (part.flag != MIDDLE && part.flag != LAST)
            return bad_record(walk, PST_ERROR_CORRUPT, at,
                              "here a record begins before the parts of the one before it end",
                              err);
        record->nbytes += 4 + part.nbytes;
        if (record->nbytes > INT32_MAX || part.next - walk->at > INT32_MAX)
            return bad_record(walk, PST_ERROR_LIMIT, at, "a record has 2 GiB or more", err);
    }
    record->stored = part.next - walk->at;
    walk->last = walk->at;
    walk->at = part.next;
    walk->n_records++;
    *has = true;
    return PST_OK;
}

/* Copies the bytes [from, from + n) of the joined data, as far as they lie in this part, whose data
 * begins at `begin` of the joined data. */
static enum pst_status copy_piece(struct psti_window *window, const struct record_part *part,
                                  uint64_t begin, uint64_t from, size_t n, uint8_t *out,
                                  struct pst_error *err)
{
    uint64_t first = from > begin ? from : begin, end = begin + part->nbytes;
    if (end > from + n)
        end = from + n;
    const uint8_t *bytes = NULL;
    if (first >= end)
        return PST_OK;
    enum pst_status status = psti_containers_window_get(window, part->data + (first - begin),
                                                        (size_t)(end - first), &bytes, err);
    if (status == PST_OK)
        memcpy(out + (first - from), bytes, (size_t)(end - first));
    return status;
}

enum pst_status psti_containers_record_copy(struct psti_window *window,
                                            const struct psti_recordio_record *record,
                                            uint64_t from, size_t n, uint8_t *out,
                                            struct pst_error *err)
{
    uint64_t at = record->at, begin = 0; /* beginning of the part: in the file, and in the joined
                                          * data */
    uint8_t magic[4];
    psti_store_u32(magic, PSTI_RECORDIO_MAGIC);
    while (begin < from + n) {
        struct record_part part;
        bool is_part = false;
        enum pst_status status = read_part(window, at, &part, &is_part, err);
        if (status == PST_OK && (!is_part || part.next > record->at + record->stored))
            status = psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, window->source->path, (int64_t)at,
                                  "the file changed while it was read");
        if (status == PST_OK)
            status = copy_piece(window, &part, begin, from, n, out, err);
        if (status != PST_OK)
            return status;
        begin += part.nbytes;
        for (uint64_t i = 0; i < 4; i++) /* the magic number that was left out between two parts */
            if (begin + i >= from && begin + i < from + n)
                out[begin + i - from] = magic[i];
        begin += 4;
        at = part.next;
    }
    return PST_OK;
}
