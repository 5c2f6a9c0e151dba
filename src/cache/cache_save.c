/* cache_save.c - saves the items of a cache to a file (docs/format-cache.md).
 *
 * The file is written front to back under a temporary name in the target's directory, synced, and
 * then renamed. So the target is either the old file or the complete new one. Loaders go on
 * meanwhile: each set is held while its items are written, and items are never moved. An item that
 * is added after its table entry was passed is not in the file. Memory does not depend on the
 * number of items: blocks of up to PSTI_CACHE_BLOCK_ITEMS are written. Sets without checksums are
 * left out. */
#include "cache/cache_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/options.h"
#include "base/files/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_NBYTES = 4 << 20, N_NAMES_TRIED = 100 };

/* The items of the block that is being written, and its table. */
struct block {
    uint64_t n;
    const struct psti_cache_item *items[PSTI_CACHE_BLOCK_ITEMS];
    uint8_t table[PSTI_CACHE_TABLE_NBYTES];
};

struct save {
    const char *path; /* path of the target, as the caller gave it */
    const char *name; /* the part of `path` after the last slash */
    int dir;          /* the open directory of the target, or -1 */
    char temporary[NAME_MAX + 1];
    bool has_temporary;
    struct psti_output output;
    struct block *block;
    struct pst_cache_file_report report;
};

static enum pst_status fail_at_target(const struct save *save, int os_error, const char *what,
                                      struct pst_error *err)
{
    return psti_fail_os(err, os_error, "cache", save->path, -1, "%s", what);
}

static enum pst_status open_directory(struct save *save, struct pst_error *err)
{
    char directory[PATH_MAX] = ".";
    const char *slash = strrchr(save->path, '/');
    save->name = slash ? slash + 1 : save->path;
    if (!save->name[0] || strcmp(save->name, ".") == 0 || strcmp(save->name, "..") == 0)
        return psti_fail_at(err, PST_ERROR_ARGUMENT, "cache", save->path, -1,
                            "the path names no file");
    if (slash) {
        size_t n = slash == save->path ? 1 : (size_t)(slash - save->path);
        if (n >= sizeof directory)
            return fail_at_target(save, ENAMETOOLONG, "cannot save the cache", err);
        memcpy(directory, save->path, n);
        directory[n] = 0;
    }
    save->dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return save->dir >= 0 ? PST_OK
                          : fail_at_target(save, errno, "cannot open the file's directory", err);
}

/* Refuses a target that exists and is no regular file, because the rename would replace a symbolic
 * link or a device. */
static enum pst_status check_target(const struct save *save, struct pst_error *err)
{
    struct stat st;
    if (fstatat(save->dir, save->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? PST_OK : fail_at_target(save, errno, "cannot save the cache", err);
    if (S_ISREG(st.st_mode))
        return PST_OK;
    return psti_fail_at(err, PST_ERROR_IO, "cache", save->path, -1,
                        S_ISLNK(st.st_mode) ? "it is a symbolic link, and none is followed"
                                            : "this is no plain file");
}

static enum pst_status open_temporary(struct save *save, struct pst_error *err)
{
    struct psti_output *output = &save->output;
    enum pst_status status =
        psti_output_prepare(output, "cache", save->path, 0, BUFFER_NBYTES, err);
    if (status != PST_OK)
        return status;
    errno = EEXIST;
    for (int i = 0; i < N_NAMES_TRIED && output->fd < 0 && errno == EEXIST; i++) {
        if (snprintf(save->temporary, sizeof save->temporary, "%s.tmp-%ld-%d", save->name,
                     (long)getpid(), i) >= (int)sizeof save->temporary)
            errno = ENAMETOOLONG;
        else
            output->fd = psti_fault(PSTI_FAULT_WRITE)
                             ? (errno = ENOSPC, -1)
                             : openat(save->dir, save->temporary,
                                      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    save->has_temporary = output->fd >= 0;
    return save->has_temporary
               ? PST_OK
               : fail_at_target(save, errno, "cannot create a temporary file beside it", err);
}

static enum pst_status append_record(struct save *save, const struct psti_cache_record *record,
                                     struct pst_error *err)
{
    uint8_t bytes[PSTI_CACHE_RECORD_NBYTES];
    psti_format_print_cache_record(record, bytes);
    return psti_output_append(&save->output, bytes, sizeof bytes, err);
}

/* Adds items from number *next on to the block, as many as it can hold. */
static void gather(struct save *save, struct psti_cache_set *set, uint64_t n_numbers,
                   uint64_t *next, struct psti_cache_block *head)
{
    struct block *block = save->block;
    *head = (struct psti_cache_block){0};
    for (block->n = 0; *next < n_numbers && block->n < PSTI_CACHE_BLOCK_ITEMS; ++*next) {
        const struct psti_cache_item *item = psti_cache_set_item(set, *next);
        uint64_t room = 0;
        if (!item)
            continue;
        psti_format_cache_room(item->nbytes, &room);
        const struct psti_cache_entry entry = {*next, item->nbytes, psti_hash64(item, room)};
        psti_format_print_cache_entry(&entry, block->table + block->n * PSTI_CACHE_ENTRY_NBYTES);
        block->items[block->n++] = item;
        head->nbytes += room;
    }
    head->n_items = block->n;
    head->table_checksum = psti_hash64(block->table, block->n * PSTI_CACHE_ENTRY_NBYTES);
}

static enum pst_status append_block(struct save *save, const struct psti_cache_block *head,
                                    struct pst_error *err)
{
    const struct block *block = save->block;
    const struct psti_cache_record record = {PSTI_CACHE_RECORD_BLOCK, .block = *head};
    enum pst_status status = append_record(save, &record, err);
    if (status == PST_OK)
        status = psti_output_append(&save->output, block->table, block->n * PSTI_CACHE_ENTRY_NBYTES,
                                    err);
    for (uint64_t i = 0; i < block->n && status == PST_OK; i++) {
        uint64_t room = 0;
        psti_format_cache_room(block->items[i]->nbytes, &room);
        save->report.n_items++;
        save->report.nbytes += block->items[i]->nbytes;
        status = psti_output_append(&save->output, block->items[i], room, err);
    }
    return status;
}

static enum pst_status append_set(struct save *save, struct psti_cache_set *set,
                                  struct pst_error *err)
{
    const struct psti_cache_record record = {PSTI_CACHE_RECORD_SET, .set = set->shape};
    struct psti_cache_block head;
    uint64_t n_numbers = 0, next = 0;
    enum pst_status status = PST_OK;
    unsigned reader = psti_cache_enter(set);
    psti_format_cache_numbers(&set->shape, &n_numbers);
    for (bool first = true; status == PST_OK; first = false) {
        gather(save, set, n_numbers, &next, &head);
        if (head.n_items == 0)
            break;
        if (first) {
            save->report.n_datasets++;
            status = append_record(save, &record, err);
        }
        if (status == PST_OK)
            status = append_block(save, &head, err);
    }
    psti_cache_leave(set, reader);
    return status;
}

static enum pst_status append_sets(struct save *save, pst_cache *cache, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    struct psti_cache_set *set = psti_cache_set_next(cache, NULL);
    while (set && status == PST_OK) {
        if (set->shape.lacks_sums)
            save->report.n_unsaved += atomic_load(&set->n_items);
        else
            status = append_set(save, set, err);
        struct psti_cache_set *next = status == PST_OK ? psti_cache_set_next(cache, set) : NULL;
        psti_cache_set_drop(set);
        set = next;
    }
    if (status == PST_OK && save->report.n_unsaved > 0)
        psti_log(PST_LOG_WARNING, "cache",
                 "%s: %" PRIu64 " items are not saved, because the index of their data set has no "
                 "checksums of items to check them by later: make them (penstock index PATH "
                 "--sums), or open the data set anew after an epoch",
                 save->path, save->report.n_unsaved);
    return status;
}

static enum pst_status append_end(struct save *save, struct pst_error *err)
{
    struct pst_cache_file_report *report = &save->report;
    report->file_nbytes = save->output.offset + save->output.n + PSTI_CACHE_RECORD_NBYTES;
    const struct psti_cache_record record = {
        PSTI_CACHE_RECORD_END, .end = {report->n_datasets, report->n_items, report->file_nbytes}};
    return append_record(save, &record, err);
}

static enum pst_status write_all(struct save *save, pst_cache *cache, struct pst_error *err)
{
    uint8_t header[PSTI_CACHE_HEADER_NBYTES];
    psti_format_print_cache_header(header);
    enum pst_status status = psti_output_append(&save->output, header, sizeof header, err);
    if (status == PST_OK)
        status = append_sets(save, cache, err);
    if (status == PST_OK)
        status = append_end(save, err);
    if (status == PST_OK)
        status = psti_output_sync(&save->output, err);
    /* The file's pages in the page cache would take as much memory again as the cache. */
    if (status == PST_OK && !psti_fault(PSTI_FAULT_ADVICE))
        (void)!posix_fadvise(save->output.fd, 0, 0, POSIX_FADV_DONTNEED);
    return status;
}

static enum pst_status put_in_place(struct save *save, struct pst_error *err)
{
    if ((psti_fault(PSTI_FAULT_WRITE)
             ? (errno = ENOSPC, -1)
             : renameat(save->dir, save->temporary, save->dir, save->name)) != 0)
        return fail_at_target(save, errno, "cannot put the file in place", err);
    save->has_temporary = false;
    int failed = psti_sync_directory(save->dir, ".");
    return failed == 0
               ? PST_OK
               : fail_at_target(save, failed, "cannot make the file's directory durable", err);
}

enum pst_status pst_cache_save(pst_cache *cache, const char *path,
                               struct pst_cache_file_report *report, size_t report_nbytes,
                               struct pst_error *err)
{
    struct save save = {.path = path, .dir = -1, .output = {.fd = -1}};
    if (cache->remote) {
        enum pst_status done = cache->remote->save(cache->remote_ctx, path, &save.report, err);
        if (done == PST_OK && report)
            psti_struct_write(report, report_nbytes, &save.report, sizeof save.report);
        return done;
    }
    enum pst_status status = open_directory(&save, err);
    if (status == PST_OK)
        status = check_target(&save, err);
    if (status == PST_OK && !(save.block = psti_alloc(sizeof *save.block)))
        status = psti_fail(err, PST_ERROR_MEMORY, "cache", "no memory for a block of items");
    if (status == PST_OK)
        status = open_temporary(&save, err);
    if (status == PST_OK)
        status = write_all(&save, cache, err);
    if (status == PST_OK)
        status = put_in_place(&save, err);
    psti_output_close(&save.output);
    if (save.has_temporary)
        (void)!unlinkat(save.dir, save.temporary, 0);
    if (save.dir >= 0)
        close(save.dir);
    psti_free(save.block);
    if (status == PST_OK && report)
        psti_struct_write(report, report_nbytes, &save.report, sizeof save.report);
    return status;
}
