/* dataset_summer.c - reads items of a file and computes their checksums.
 *
 * In: an open file, and locations of items in it, nearly in rising order. Out: XXH3. For each
 * field, the page of its last item stays decoded. */
#include "dataset/walk/dataset_summer.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "base/hash.h"

#include <errno.h>

#define ROOM "dataset"
enum { PIECE_NBYTES = 1 << 20 };

void psti_dataset_summer_free(struct psti_summer *summer)
{
    psti_codings_close(&summer->codings);
    psti_buffer_free(&summer->piece);
    psti_buffer_free(&summer->stored);
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        psti_buffer_free(&summer->pages[i].bytes);
}

void psti_dataset_summer_file(struct psti_summer *summer, int fd)
{
    summer->fd = fd;
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        summer->pages[i].is_there = false;
}

static enum pst_status read_file(struct psti_summer *summer, const char *field, uint64_t offset,
                                 void *bytes, size_t nbytes, struct pst_error *err)
{
    ssize_t got = psti_read_at(summer->fd, bytes, nbytes, offset);
    if (got >= 0 && (size_t)got == nbytes) {
        summer->nbytes += nbytes;
        return PST_OK;
    }
    if (got < 0)
        return psti_fail_os(err, errno, ROOM, NULL, (int64_t)offset,
                            "cannot read field \"%s\" of the sample", field);
    return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)(offset + (uint64_t)got),
                        "the file was cut short, within field \"%s\" of a sample", field);
}

/* Replaces a checksum of 0, because 0 means "not known". */
static uint64_t known(uint64_t sum) { return sum + (sum == 0); }

enum pst_status psti_dataset_summer_stored(struct psti_summer *summer, const char *field,
                                           uint64_t offset, uint64_t nbytes, uint64_t *sum,
                                           struct pst_error *err)
{
    struct psti_hash_state hash;
    enum pst_status status =
        psti_buffer_reserve(&summer->piece, PIECE_NBYTES, ROOM, "to sum items", err);
    psti_hash_begin(&hash);
    for (uint64_t at = 0; status == PST_OK && at < nbytes;) {
        size_t n = nbytes - at < PIECE_NBYTES ? (size_t)(nbytes - at) : PIECE_NBYTES;
        status = read_file(summer, field, offset + at, summer->piece.bytes, n, err);
        if (status == PST_OK)
            psti_hash_update(&hash, summer->piece.bytes, n);
        at += n;
    }
    *sum = known(psti_hash_end(&hash));
    return status;
}

bool psti_dataset_summer_has(const struct psti_summer *summer, uint32_t i_field, uint64_t i_page)
{
    return summer->pages[i_field].is_there && summer->pages[i_field].i_page == i_page;
}

enum pst_status psti_dataset_summer_page(struct psti_summer *summer, uint32_t i_field,
                                         const char *field, uint64_t i_page,
                                         const struct psti_container_page_entry *page,
                                         struct pst_error *err)
{
    struct psti_kept_page *kept = &summer->pages[i_field];
    kept->is_there = false;
    enum pst_status status =
        psti_buffer_reserve(&summer->stored, page->nbytes, ROOM, "of a page", err);
    if (status == PST_OK)
        status = psti_buffer_reserve(&kept->bytes, page->decoded_nbytes, ROOM, "of a page", err);
    if (status == PST_OK && summer->codings == NULL)
        status = psti_codings_open(&summer->codings, 0, ROOM, err);
    if (status == PST_OK)
        status = read_file(summer, field, page->offset, summer->stored.bytes, page->nbytes, err);
    if (status != PST_OK)
        return status;
    status = psti_codings_decode(summer->codings, page->coding, summer->stored.bytes, page->nbytes,
                                 kept->bytes.bytes, page->decoded_nbytes, err);
    if (status != PST_OK && err != NULL)
        err->offset = (int64_t)page->offset;
    kept->is_there = status == PST_OK;
    kept->i_page = i_page;
    kept->nbytes = page->decoded_nbytes;
    return status;
}

enum pst_status psti_dataset_summer_paged(const struct psti_summer *summer, uint32_t i_field,
                                          uint64_t offset, uint64_t nbytes, uint64_t *sum,
                                          struct pst_error *err)
{
    const struct psti_kept_page *kept = &summer->pages[i_field];
    if (!psti_range_fits(offset, nbytes, kept->nbytes))
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "an item lies outside of its page");
    *sum = known(psti_hash64((const uint8_t *)kept->bytes.bytes + offset, (size_t)nbytes));
    return PST_OK;
}
