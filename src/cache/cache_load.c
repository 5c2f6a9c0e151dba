/* cache_load.c - loads a saved cache (docs/format-cache.md) into a cache.
 *
 * The file is read once, front to back. The items of a data set are read directly into an extent,
 * which is memory of the cache, so nothing is copied; the kernel is told to drop the file's pages.
 * Budget is taken for an item before memory is. No loader sees an item before the whole file has
 * been read and checked. Then the sets adopt the extents. After a failure the extents are freed,
 * and the sets are unchanged.
 *
 * Nothing in the file is trusted. Bytes that passed a check are never read from the file again. */
#include "cache/cache_int.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/files/read.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_NBYTES = 64 << 20 }; /* maximum number of bytes of one read */

/* A data set in the file. */
struct loaded {
    struct loaded *next;
    struct psti_cache_set *set;
    struct psti_cache_extent *extent;
    uint64_t nbytes_taken; /* bytes of the budget taken for items of the extent */
};

struct load {
    pst_cache *cache;
    const char *path;
    int fd; /* -1 if not open */
    uint64_t file_nbytes;
    uint64_t offset;        /* offset of the next byte to read */
    struct loaded *sets;    /* the file's data sets, the last one first */
    struct loaded *current; /* the data set whose blocks follow; NULL if there is no space for
                               its table */
    bool has_set;           /* the file has named a data set */
    uint64_t n_numbers;     /* limit of the numbers of this data set's items */
    uint64_t next_number;   /* smallest number that the data set's next item may have */
    uint64_t n_sets, n_items;
    uint8_t *table; /* u8 (PSTI_CACHE_TABLE_NBYTES): table of the current block */
    struct pst_cache_file_report report;
};

static enum pst_status fail_here(const struct load *load, enum pst_status status, const char *what,
                                 struct pst_error *err)
{
    return psti_fail_at(err, status, "cache", load->path, (int64_t)load->offset, "%s", what);
}

/* Adds the file, and the offset of the parsed bytes in it, to an error from format/. */
static enum pst_status fail_parsed(const struct load *load, uint64_t at, enum pst_status status,
                                   struct pst_error *err)
{
    if (status != PST_OK && err) {
        err->offset = (err->offset < 0 ? 0 : err->offset) + (int64_t)at;
        psti_error_set_file(err, load->path);
    }
    return status;
}

/* Reads the next bytes of the file. PST_ERROR_TRUNCATED: the file ends before. */
static enum pst_status read_next(struct load *load, void *bytes, uint64_t nbytes,
                                 struct pst_error *err)
{
    char *to = bytes;
    while (nbytes > 0) {
        size_t part = nbytes < READ_NBYTES ? (size_t)nbytes : READ_NBYTES;
        ssize_t n = psti_read_at(load->fd, to, part, load->offset);
        if (n < 0)
            return psti_fail_os(err, errno, "cache", load->path, (int64_t)load->offset,
                                "cannot read");
        if (!psti_fault(PSTI_FAULT_ADVICE))
            (void)!posix_fadvise(load->fd, (off_t)load->offset, n, POSIX_FADV_DONTNEED);
        load->offset += (uint64_t)n;
        if ((size_t)n < part)
            return fail_here(load, PST_ERROR_TRUNCATED, "the saved cache ends here, too early",
                             err);
        to += n;
        nbytes -= (uint64_t)n;
    }
    return PST_OK;
}

static enum pst_status open_file(struct load *load, struct pst_error *err)
{
    struct stat st;
    enum pst_status status =
        psti_open_data(load->path, "cache", "the saved cache", &load->fd, &st, err);
    if (status != PST_OK)
        return status;
    load->file_nbytes = (uint64_t)st.st_size;
    (void)!posix_fadvise(load->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return PST_OK;
}

static enum pst_status read_header(struct load *load, struct pst_error *err)
{
    uint8_t bytes[PSTI_CACHE_HEADER_NBYTES];
    size_t nbytes = load->file_nbytes < sizeof bytes ? (size_t)load->file_nbytes : sizeof bytes;
    enum pst_status status = read_next(load, bytes, nbytes, err);
    if (status != PST_OK)
        return status;
    return fail_parsed(load, 0, psti_format_parse_cache_header(bytes, nbytes, err), err);
}

static bool is_known(const struct load *load, const struct psti_cache_set *set)
{
    const struct loaded *loaded = load->sets;
    while (loaded && loaded->set != set)
        loaded = loaded->next;
    return loaded != NULL;
}

/* Opens the set for the data set whose blocks follow, with memory for its items. */
static enum pst_status begin_set(struct load *load, const struct psti_cache_shape *shape,
                                 struct pst_error *err)
{
    struct psti_cache_set *set = NULL;
    uint64_t capacity =
        load->cache->limit < load->file_nbytes ? load->cache->limit : load->file_nbytes;
    load->has_set = true;
    load->current = NULL;
    load->next_number = 0;
    load->n_sets++;
    psti_format_cache_numbers(shape, &load->n_numbers);
    enum pst_status status = psti_cache_set_open_free(load->cache, shape, &set, NULL);
    if (status == PST_ERROR_LIMIT)
        return PST_OK; /* the items of this data set are refused */
    if (status != PST_OK)
        return fail_here(load, status, "no memory for the table of a data set", err);
    struct loaded *loaded = is_known(load, set) ? NULL : psti_calloc(1, sizeof *loaded);
    if (!loaded) {
        bool twice = is_known(load, set);
        psti_cache_set_close(&set);
        return twice ? fail_here(load, PST_ERROR_CORRUPT, "the file has a data set twice", err)
                     : fail_here(load, PST_ERROR_MEMORY, "no memory for a data set", err);
    }
    *loaded = (struct loaded){.next = load->sets, .set = set};
    load->sets = load->current = loaded;
    return psti_cache_extent_open(set, (size_t)capacity, &loaded->extent, err);
}

/* Compares the items first to last - 1 of the block with the block's table. bytes: the items in
 * memory; at: their offset in the file. */
static enum pst_status check_items(const struct load *load, uint64_t first, uint64_t last,
                                   const char *bytes, uint64_t at, struct pst_error *err)
{
    for (uint64_t i = first; i < last; i++) {
        const struct psti_cache_item *item = (const void *)bytes;
        struct psti_cache_entry entry;
        uint64_t room = 0;
        psti_format_parse_cache_entry(load->table + i * PSTI_CACHE_ENTRY_NBYTES, &entry);
        psti_format_cache_room(entry.nbytes, &room);
        if (psti_hash64(bytes, room) != entry.checksum)
            return psti_fail_at(err, PST_ERROR_CHECKSUM, "cache", load->path, (int64_t)at,
                                "an item of the saved cache was altered");
        if (item->nbytes != entry.nbytes || item->number != entry.number)
            return psti_fail_at(err, PST_ERROR_CORRUPT, "cache", load->path, (int64_t)at,
                                "an item's header contradicts the table");
        bytes += room;
        at += room;
    }
    return PST_OK;
}

/* Reads the items first to last - 1 of the block, nbytes in all, into the extent. */
static enum pst_status read_items(struct load *load, uint64_t first, uint64_t last, uint64_t nbytes,
                                  struct pst_error *err)
{
    if (nbytes == 0)
        return PST_OK;
    struct psti_cache_extent *extent = load->current->extent;
    uint64_t at = load->offset;
    char *bytes = psti_cache_extent_room(extent, nbytes);
    if (!bytes || !psti_cache_extent_add(extent, bytes, nbytes))
        return fail_here(load, PST_ERROR_MEMORY, "the system has no more memory for items", err);
    enum pst_status status = read_next(load, bytes, nbytes, err);
    return status == PST_OK ? check_items(load, first, last, bytes, at, err) : status;
}

/* Takes budget for an item, if the cache lacks the item and has space. False: the item is
 * skipped. */
static bool take_item(struct load *load, const struct psti_cache_entry *entry, uint64_t room)
{
    struct loaded *current = load->current;
    if (current && !psti_cache_set_lacks(current->set, entry->number)) {
        load->report.n_present++;
        return false;
    }
    if (!current || !psti_cache_take_free(current->set, room)) {
        load->report.n_refused++;
        return false;
    }
    current->nbytes_taken += room;
    return true;
}

static enum pst_status read_block(struct load *load, const struct psti_cache_block *block,
                                  struct pst_error *err)
{
    uint64_t table_nbytes = block->n_items * PSTI_CACHE_ENTRY_NBYTES, nbytes, first = 0, wanted = 0;
    if (!load->has_set)
        return fail_here(load, PST_ERROR_CORRUPT, "a block comes before any data set", err);
    if (!psti_add_u64(table_nbytes, block->nbytes, &nbytes) ||
        !psti_range_fits(load->offset, nbytes, load->file_nbytes))
        return fail_here(load, PST_ERROR_TRUNCATED, "the saved cache ends within this block", err);
    uint64_t at = load->offset;
    enum pst_status status = read_next(load, load->table, table_nbytes, err);
    if (status == PST_OK)
        status = fail_parsed(load, at,
                             psti_format_check_cache_table(load->table, block, load->n_numbers,
                                                           &load->next_number, err),
                             err);
    for (uint64_t i = 0; i < block->n_items && status == PST_OK; i++) {
        struct psti_cache_entry entry;
        uint64_t room = 0;
        psti_format_parse_cache_entry(load->table + i * PSTI_CACHE_ENTRY_NBYTES, &entry);
        psti_format_cache_room(entry.nbytes, &room);
        if (take_item(load, &entry, room)) {
            wanted += room;
            continue;
        }
        status = read_items(load, first, i, wanted, err);
        load->offset += room; /* the next read begins after this item */
        first = i + 1;
        wanted = 0;
    }
    load->n_items += block->n_items;
    return status == PST_OK ? read_items(load, first, block->n_items, wanted, err) : status;
}

static enum pst_status check_end(const struct load *load, const struct psti_cache_end *end,
                                 struct pst_error *err)
{
    if (end->n_sets != load->n_sets || end->n_items != load->n_items ||
        end->file_nbytes != load->offset)
        return fail_here(load, PST_ERROR_CORRUPT, "the file's end contradicts what is before it",
                         err);
    if (load->file_nbytes != load->offset)
        return fail_here(load, PST_ERROR_CORRUPT, "bytes follow the end of the saved cache", err);
    return PST_OK;
}

static enum pst_status read_records(struct load *load, struct pst_error *err)
{
    for (;;) {
        uint8_t bytes[PSTI_CACHE_RECORD_NBYTES];
        struct psti_cache_record record;
        uint64_t at = load->offset;
        enum pst_status status = read_next(load, bytes, sizeof bytes, err);
        if (status == PST_OK)
            status =
                fail_parsed(load, at, psti_format_parse_cache_record(bytes, &record, err), err);
        if (status == PST_OK && record.kind == PSTI_CACHE_RECORD_SET)
            status = begin_set(load, &record.set, err);
        else if (status == PST_OK && record.kind == PSTI_CACHE_RECORD_BLOCK)
            status = read_block(load, &record.block, err);
        else if (status == PST_OK)
            return check_end(load, &record.end, err);
        if (status != PST_OK)
            return status;
    }
}

/* Makes the items visible if the file is good, otherwise frees them, and closes the sets. The
 * file's first set is closed last, so it will be freed last. */
static void end_sets(struct load *load, bool good)
{
    uint64_t n_read = load->n_items - load->report.n_present - load->report.n_refused;
    while (load->sets) {
        struct loaded *loaded = load->sets;
        uint64_t n = 0;
        load->sets = loaded->next;
        if (good && loaded->extent->n_runs > 0) {
            psti_cache_set_adopt(loaded->set, loaded->extent, &n, &load->report.nbytes);
        } else {
            uint64_t lost = psti_cache_extent_drop(loaded->extent);
            psti_cache_return(loaded->set, loaded->nbytes_taken - lost);
        }
        load->report.n_datasets += n > 0;
        load->report.n_items += n;
        psti_cache_set_close(&loaded->set);
        psti_free(loaded);
    }
    /* Items that loaders have added since they were found missing. */
    load->report.n_present += n_read - load->report.n_items;
}

enum pst_status pst_cache_load(pst_cache *cache, const char *path,
                               struct pst_cache_file_report *report, size_t report_nbytes,
                               struct pst_error *err)
{
    struct load load = {.cache = cache, .path = path, .fd = -1};
    enum pst_status status = PST_OK;
    if (cache->remote) {
        status = cache->remote->load(cache->remote_ctx, path, &load.report, err);
        if (status == PST_OK && report)
            psti_struct_write(report, report_nbytes, &load.report, sizeof load.report);
        return status;
    }
    if (!(load.table = psti_alloc(PSTI_CACHE_TABLE_NBYTES)))
        status = psti_fail(err, PST_ERROR_MEMORY, "cache", "no memory for a table");
    if (status == PST_OK)
        status = open_file(&load, err);
    if (status == PST_OK)
        status = read_header(&load, err);
    if (status == PST_OK)
        status = read_records(&load, err);
    load.report.file_nbytes = load.offset;
    end_sets(&load, status == PST_OK);
    if (load.fd >= 0)
        close(load.fd);
    psti_free(load.table);
    if (status == PST_OK && report)
        psti_struct_write(report, report_nbytes, &load.report, sizeof load.report);
    return status;
}
