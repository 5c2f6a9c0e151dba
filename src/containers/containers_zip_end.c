/* containers_zip_end.c - finds the directory of a zip from the end of the file.
 *
 * In: the last 64 KiB. Out: offset of the directory, number of entries, and number of bytes before
 * the zip.
 *
 * The end record states the offset and the length of the directory. If other bytes stand before the
 * zip, the directory still ends at the end record, but begins later than stated. A file that could
 * be read in two ways is refused, because programs would see different members in it. */
#include "containers/containers_zip_int.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <inttypes.h>

#define ROOM "containers"

enum {
    END = 22,         /* bytes of the end record, without its comment */
    LOCATOR = 20,     /* zip64: bytes of the locator, which states the offset of the zip64 record */
    RECORD = 56,      /* zip64: bytes of the record */
    RECORD_HEAD = 12, /* zip64: first bytes of the record that its size field does not count */
    COMMENT_MAX = UINT16_MAX,
};

#define END_MAGIC UINT32_C(0x06054b50)
#define LOCATOR_MAGIC UINT32_C(0x07064b50)
#define RECORD_MAGIC UINT32_C(0x06064b50)
#define ENTRY_MAGIC UINT32_C(0x02014b50)
#define HEADER_MAGIC UINT32_C(0x04034b50)

/* What the end record and the zip64 record state. */
struct end {
    uint64_t at;     /* offset of the end record */
    uint64_t behind; /* offset of the first record; the directory must end before it */
    uint64_t base;   /* zip64: bytes before the zip */
    uint64_t disk, disk_of_directory, n_here, n, nbytes, offset;
    bool is_zip64;
};

static enum pst_status fail(const struct psti_zip_walk *walk, enum pst_status status,
                            uint64_t offset, const char *what, struct pst_error *err)
{
    return psti_fail_at(err, status, ROOM, walk->entries.source->path, (int64_t)offset, "%s", what);
}

static enum pst_status get(struct psti_zip_walk *walk, uint64_t offset, size_t nbytes,
                           const uint8_t **bytes, struct pst_error *err)
{
    return psti_containers_window_get(&walk->entries, offset, nbytes, bytes, err);
}

/* Fills in the error for a zip whose end record is not at the end of the file. `behind`: offset
 * behind an end record that lies earlier; 0: there is none. */
static enum pst_status fail_no_end(struct psti_zip_walk *walk, uint64_t behind, bool is_cut,
                                   struct pst_error *err)
{
    uint64_t nbytes = walk->entries.source->nbytes;
    const uint8_t *bytes = NULL;
    if (is_cut)
        return fail(walk, PST_ERROR_TRUNCATED, nbytes, "the file ends within the zip's comment",
                    err);
    if (behind > 0)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, walk->entries.source->path,
                            (int64_t)behind, "%" PRIu64 " bytes follow the end of the zip",
                            nbytes - behind);
    if (nbytes >= 4) {
        enum pst_status status = get(walk, 0, 4, &bytes, err);
        if (status != PST_OK)
            return status;
        if (psti_load_u32(bytes) == HEADER_MAGIC)
            return fail(walk, PST_ERROR_TRUNCATED, nbytes,
                        "the zip's directory is missing: the file ends early", err);
    }
    return fail(walk, PST_ERROR_CORRUPT, 0, "the file is no zip: it has no directory at its end",
                err);
}

/* Finds the end record: the one whose comment reaches exactly to the end of the file. */
static enum pst_status find_end(struct psti_zip_walk *walk, struct end *end, struct pst_error *err)
{
    uint64_t nbytes = walk->entries.source->nbytes, behind = 0;
    size_t n = nbytes < END + COMMENT_MAX ? (size_t)nbytes : END + COMMENT_MAX;
    const uint8_t *bytes = NULL, *found = NULL;
    bool is_cut = false;
    enum pst_status status = get(walk, nbytes - n, n, &bytes, err);
    if (status != PST_OK)
        return status;
    for (size_t i = n < END ? 0 : n - END + 1; i-- > 0;) {
        if (bytes[i] != 'P' || psti_load_u32(bytes + i) != END_MAGIC)
            continue;
        size_t last = i + END + psti_load_u16(bytes + i + 20);
        if (last == n && found != NULL)
            return fail(walk, PST_ERROR_CORRUPT, nbytes - n + i,
                        "the zip could end at two places, with two directories", err);
        if (last == n)
            found = bytes + i;
        else if (last < n && behind == 0)
            behind = nbytes - n + last;
        is_cut |= last > n;
    }
    if (found == NULL)
        return fail_no_end(walk, behind, is_cut, err);
    *end = (struct end){.at = nbytes - n + (uint64_t)(found - bytes),
                        .disk = psti_load_u16(found + 4),
                        .disk_of_directory = psti_load_u16(found + 6),
                        .n_here = psti_load_u16(found + 8),
                        .n = psti_load_u16(found + 10),
                        .nbytes = psti_load_u32(found + 12),
                        .offset = psti_load_u32(found + 16)};
    end->behind = end->at;
    return PST_OK;
}

/* Finds whether a zip64 record begins at `at` and ends at `behind`. */
static enum pst_status is_record(struct psti_zip_walk *walk, uint64_t at, uint64_t behind,
                                 bool *is, struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    *is = false;
    if (!psti_range_fits(at, RECORD, behind))
        return PST_OK;
    enum pst_status status = get(walk, at, RECORD, &bytes, err);
    *is = status == PST_OK && psti_load_u32(bytes) == RECORD_MAGIC &&
          psti_load_u64(bytes + 4) == behind - at - RECORD_HEAD;
    return status;
}

/* Finds the zip64 record. It lies where the locator says or, if bytes stand before the zip, right
 * before the locator. */
static enum pst_status find_record(struct psti_zip_walk *walk, uint64_t locator, uint64_t stated,
                                   uint64_t *at, struct pst_error *err)
{
    bool is_there = false, is_later = false;
    uint64_t later = locator >= RECORD ? locator - RECORD : 0;
    enum pst_status status = is_record(walk, stated, locator, &is_there, err);
    if (status == PST_OK && later > stated)
        status = is_record(walk, later, locator, &is_later, err);
    if (status != PST_OK)
        return status;
    if (is_there == is_later)
        return fail(walk, PST_ERROR_CORRUPT, locator,
                    is_there ? "the zip could have two directories"
                             : "the zip64 record is not where the locator says",
                    err);
    *at = is_there ? stated : later;
    return PST_OK;
}

/* Replaces a number of the end record by the one of the zip64 record. False: the end record has
 * another number, and does not mark it as unknown. */
static bool merge(uint64_t *number, uint64_t unknown, uint64_t given)
{
    bool agrees = *number == unknown || *number == given;
    *number = given;
    return agrees;
}

/* Reads the zip64 record, if a locator stands before the end record. */
static enum pst_status read_zip64(struct psti_zip_walk *walk, struct end *end,
                                  struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    if (end->at < LOCATOR)
        return PST_OK;
    uint64_t locator = end->at - LOCATOR, record = 0;
    enum pst_status status = get(walk, locator, LOCATOR, &bytes, err);
    if (status != PST_OK || psti_load_u32(bytes) != LOCATOR_MAGIC)
        return status;
    uint64_t stated = psti_load_u64(bytes + 8);
    if (psti_load_u32(bytes + 4) != 0 || psti_load_u32(bytes + 16) > 1)
        return fail(walk, PST_ERROR_UNSUPPORTED, locator,
                    "the zip is a part of one of several volumes: join them first (zip -s 0)", err);
    status = find_record(walk, locator, stated, &record, err);
    if (status == PST_OK)
        status = get(walk, record, RECORD, &bytes, err);
    if (status != PST_OK)
        return status;
    if (!merge(&end->disk, UINT16_MAX, psti_load_u32(bytes + 16)) ||
        !merge(&end->disk_of_directory, UINT16_MAX, psti_load_u32(bytes + 20)) ||
        !merge(&end->n_here, UINT16_MAX, psti_load_u64(bytes + 24)) ||
        !merge(&end->n, UINT16_MAX, psti_load_u64(bytes + 32)) ||
        !merge(&end->nbytes, UINT32_MAX, psti_load_u64(bytes + 40)) ||
        !merge(&end->offset, UINT32_MAX, psti_load_u64(bytes + 48)))
        return fail(walk, PST_ERROR_CORRUPT, record,
                    "the zip64 record and the end of the zip contradict each other", err);
    end->is_zip64 = true;
    end->behind = record;
    end->base = record - stated;
    return PST_OK;
}

/* Finds whether the directory can begin at `at`: an entry begins there. */
static enum pst_status is_directory(struct psti_zip_walk *walk, const struct end *end, uint64_t at,
                                    bool *is, struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    *is = false;
    if (!psti_range_fits(at, end->nbytes, end->behind) || end->nbytes < PSTI_ZIP_ENTRY ||
        (end->is_zip64 && at - end->offset != end->base))
        return PST_OK;
    enum pst_status status = get(walk, at, 4, &bytes, err);
    *is = status == PST_OK && psti_load_u32(bytes) == ENTRY_MAGIC;
    return status;
}

/* Finds the offset of the directory: the stated one or, if bytes stand before the zip, the one from
 * which the directory's length reaches exactly to the first record. */
static enum pst_status place(struct psti_zip_walk *walk, const struct end *end,
                             struct pst_error *err)
{
    uint64_t at = end->offset;
    if (end->nbytes > end->behind)
        return fail(walk, PST_ERROR_CORRUPT, end->at,
                    "the zip's directory is longer than the file", err);
    uint64_t later = end->behind - end->nbytes;
    bool is_there = false, is_later = false;
    enum pst_status status = is_directory(walk, end, at, &is_there, err);
    if (status == PST_OK && later > at)
        status = is_directory(walk, end, later, &is_later, err);
    if (status != PST_OK)
        return status;
    if (end->n > 0 && is_there == is_later)
        return fail(walk, PST_ERROR_CORRUPT, end->at,
                    is_there ? "the zip's directory could begin at two places"
                             : "the zip's directory is not where the end of the zip says",
                    err);
    if (end->n == 0 && end->nbytes > 0)
        return fail(walk, PST_ERROR_CORRUPT, end->at,
                    "the zip's directory has bytes, and no entries", err);
    walk->first = walk->at = is_there ? at : later;
    walk->end = walk->first + end->nbytes;
    walk->base = is_later ? later - at : 0;
    walk->n_entries = end->n;
    walk->is_zip64 = end->is_zip64;
    return PST_OK;
}

enum pst_status psti_containers_zip_find(struct psti_zip_walk *walk, struct pst_error *err)
{
    struct end end = {0};
    if (walk->entries.source->nbytes == 0)
        return fail(walk, PST_ERROR_CORRUPT, 0, "the file is empty", err);
    enum pst_status status = find_end(walk, &end, err);
    if (status == PST_OK)
        status = read_zip64(walk, &end, err);
    if (status != PST_OK)
        return status;
    if (end.disk != 0 || end.disk_of_directory != 0 || end.n_here != end.n)
        return fail(walk, PST_ERROR_UNSUPPORTED, end.at,
                    "the zip is a part of one of several volumes: join them first (zip -s 0)", err);
    if (end.n > end.nbytes / PSTI_ZIP_ENTRY)
        return fail(walk, PST_ERROR_CORRUPT, end.at,
                    "the zip's directory is too short for its entries", err);
    return place(walk, &end, err);
}
