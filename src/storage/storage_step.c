/* storage_step.c - the stages of one read, which are the same for every engine, and their execution
 * by system calls of this thread.
 *
 * In: a struct psti_read filled by its owner, and the results of opens and reads. Out: its status,
 * error and data pointer. Only the thread that carries out the current stage touches a read.
 *
 * O_DIRECT: the blocks that contain the range are read to the start of the buffer, so the data
 * begins inside the buffer. If a file system refuses O_DIRECT, one call per file fails. Then the
 * same descriptor is used without O_DIRECT. */
#include "storage/storage_int.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/files/read.h"
#include "base/files/stamp.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path_of(const struct psti_read *read)
{
    return read->file != NULL ? read->file->path : read->path;
}

/* Ends a read with that status. Returns false, because no stage follows. */
static bool ends_with(struct psti_read *read, enum pst_status status)
{
    read->status = status;
    return false;
}

static bool fail_truncated(struct psti_read *read, size_t n_got)
{
    int64_t offset = read->offset <= INT64_MAX ? (int64_t)read->offset : -1;
    return ends_with(
        read, psti_fail_at(&read->error, PST_ERROR_TRUNCATED, "storage", path_of(read), offset,
                           "the file ends after %zu of the %zu bytes that should lie here", n_got,
                           read->nbytes));
}

/* Computes the range that the first system call requests through engine.fd. */
static void plan(struct psti_read *read)
{
    struct psti_read_engine *e = &read->engine;
    uint64_t skip = e->direct ? read->offset % PSTI_STORAGE_BLOCK : 0;
    e->base = read->offset - skip;
    e->need = (size_t)skip + read->nbytes;
    e->length = e->need;
    if (e->direct) {
        assert((uintptr_t)read->buffer % PSTI_STORAGE_BLOCK == 0);
        e->length += (PSTI_STORAGE_BLOCK - e->need % PSTI_STORAGE_BLOCK) % PSTI_STORAGE_BLOCK;
    }
    e->n_got = 0;
    e->again = false;
}

/* Copies the bytes of a file that is in memory. */
static bool copy(struct psti_read *read)
{
    const struct psti_file *file = read->file;
    if (!psti_range_fits(read->offset, read->nbytes, file->nbytes)) {
        uint64_t left = read->offset < file->nbytes ? file->nbytes - read->offset : 0;
        return fail_truncated(read, (size_t)left);
    }
    if (psti_fault(PSTI_FAULT_READ))
        return ends_with(read, psti_fail_os(&read->error, EIO, "storage", file->path,
                                            (int64_t)read->offset, "cannot read"));
    memcpy(read->buffer, file->memory + read->offset, read->nbytes);
    return ends_with(read, PST_OK);
}

bool psti_storage_step_begin(struct psti_storage *storage, struct psti_read *read)
{
    struct psti_read_engine *e = &read->engine;
    e->start_ns = psti_clock_ns();
    e->fd = -1;
    e->opening = false;
    e->direct = false;
    read->data = read->buffer;
    read->status = PST_OK;
    /* No file is that long, and the check prevents an overflow of the buffer size for O_DIRECT. */
    if (!psti_range_fits(read->offset, read->nbytes, INT64_MAX - 2 * PSTI_STORAGE_BLOCK))
        return fail_truncated(read, 0);
    if (read->file == NULL) {
        e->opening = true;
        e->direct = storage->options.page_cache == PST_PAGE_CACHE_DIRECT;
        return true;
    }
    if (read->nbytes == 0)
        return ends_with(read, PST_OK);
    if (read->file->memory != NULL)
        return copy(read);
    e->fd = read->file->fd;
    e->direct = atomic_load_explicit(&read->file->direct, memory_order_relaxed);
    plan(read);
    return true;
}

int psti_storage_open_flags(bool direct) { return PSTI_OPEN_FLAGS | (direct ? O_DIRECT : 0); }

enum pst_status psti_storage_check_fd(int fd, bool direct, const char *path, struct stat *info,
                                      struct pst_error *err)
{
    return psti_check_data(fd, direct ? O_DIRECT : 0, path, "storage", "the file", info, err);
}

void psti_storage_count_fallback(struct psti_storage *storage)
{
    atomic_fetch_add_explicit(&storage->n_fallback_direct, 1, memory_order_relaxed);
}

void psti_storage_advise(struct psti_storage *storage, int fd, uint64_t offset, uint64_t nbytes,
                         int advice)
{
    if (psti_fault(PSTI_FAULT_ADVICE) ||
        posix_fadvise(fd, (off_t)offset, (off_t)nbytes, advice) != 0)
        atomic_fetch_add_explicit(&storage->n_fallback_advice, 1, memory_order_relaxed);
}

bool psti_storage_step_opened(struct psti_storage *storage, struct psti_read *read, int result)
{
    struct psti_read_engine *e = &read->engine;
    if (result == -EINTR)
        return true;
    if (result == -EINVAL && e->direct) {
        psti_storage_count_fallback(storage);
        e->direct = false;
        return true;
    }
    e->opening = false;
    if (result < 0)
        return ends_with(read, psti_fail_os(&read->error, -result, "storage", read->path, -1,
                                            "cannot open the file"));
    e->fd = result;
    struct stat info;
    enum pst_status status =
        psti_storage_check_fd(e->fd, e->direct, read->path, &info, &read->error);
    if (status != PST_OK)
        return ends_with(read, status);
    uint64_t nbytes = (uint64_t)info.st_size;
    uint64_t wanted = read->file_nbytes ? read->file_nbytes : read->nbytes;
    if (nbytes != wanted || (read->offset != 0 && !read->file_nbytes))
        return ends_with(read,
                         psti_fail_at(&read->error, PST_ERROR_CORRUPT, "storage", read->path, -1,
                                      "the file has %" PRIu64 " bytes now, but had %" PRIu64
                                      " when it was listed",
                                      nbytes, wanted));
    if (!psti_stamp_fits(read->stamp, &info))
        return ends_with(read, psti_fail_at(&read->error, PST_ERROR_CORRUPT, "storage", read->path,
                                            -1, PSTI_STAMP_CHANGED));
    if (nbytes == 0)
        return ends_with(read, PST_OK);
    plan(read);
    return true;
}

/* Clears O_DIRECT: the file system accepted it at open, but refuses this read. */
static void leave_direct(struct psti_storage *storage, struct psti_read *read)
{
    struct psti_read_engine *e = &read->engine;
    (void)fcntl(e->fd, F_SETFL, 0);
    if (read->file == NULL ||
        atomic_exchange_explicit(&read->file->direct, false, memory_order_relaxed))
        psti_storage_count_fallback(storage);
    e->direct = false;
}

size_t psti_storage_step_nbytes(const struct psti_read *read)
{
    size_t left = read->engine.length - read->engine.n_got;
    return left < PSTI_STORAGE_CALL_MAX ? left : PSTI_STORAGE_CALL_MAX;
}

bool psti_storage_step_read(struct psti_storage *storage, struct psti_read *read, int64_t result)
{
    struct psti_read_engine *e = &read->engine;
    if (psti_fault(PSTI_FAULT_READ))
        result = -EIO;
    e->again = result == -EAGAIN;
    if (e->again || result == -EINTR)
        return true;
    if (result == -EINVAL && e->direct) {
        leave_direct(storage, read);
        plan(read);
        return true;
    }
    if (result < 0)
        return ends_with(read, psti_fail_os(&read->error, (int)-result, "storage", path_of(read),
                                            (int64_t)read->offset, "cannot read %zu bytes",
                                            read->nbytes));
    size_t n_got = e->n_got + (size_t)result;
    if (n_got >= e->need) {
        read->data = (unsigned char *)read->buffer + (read->offset - e->base);
        return ends_with(read, PST_OK);
    }
    /* O_DIRECT can only continue at a block boundary, so the partial block at the end of a short
     * read is read again. */
    size_t next = e->direct ? n_got - n_got % PSTI_STORAGE_BLOCK : n_got;
    if (next == e->n_got) {
        size_t skip = e->need - read->nbytes;
        return fail_truncated(read, n_got > skip ? n_got - skip : 0);
    }
    e->n_got = next;
    return true;
}

/* Drops the pages that only this read needed. Drops the first page even if the item before shares
 * it; leaves the last page to the read of the item behind. In sequential order, no page stays and
 * none is read twice. */
static void drop_pages(struct psti_storage *storage, const struct psti_read *read)
{
    if (read->file == NULL) {
        psti_storage_advise(storage, read->engine.fd, 0, 0, POSIX_FADV_DONTNEED);
        return;
    }
    uint64_t skip = read->offset % PSTI_STORAGE_BLOCK;
    psti_storage_advise(storage, read->engine.fd, read->offset - skip, read->nbytes + skip,
                        POSIX_FADV_DONTNEED);
}

void psti_storage_finish(struct psti_storage *storage, struct psti_read *read)
{
    struct psti_read_engine *e = &read->engine;
    if (e->fd >= 0) {
        bool drop = read->drop || storage->options.page_cache != PST_PAGE_CACHE_KEEP;
        if (drop && !e->direct)
            drop_pages(storage, read);
        if (read->file == NULL)
            close(e->fd);
    }
    atomic_fetch_add_explicit(&storage->n_reads, 1, memory_order_relaxed);
    if (e->ordered)
        atomic_fetch_add_explicit(&storage->n_ordered, 1, memory_order_relaxed);
    if (read->status == PST_OK)
        atomic_fetch_add_explicit(&storage->nbytes_read, read->nbytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&storage->read_ns, (uint64_t)(psti_clock_ns() - e->start_ns),
                              memory_order_relaxed);
}

void psti_storage_execute_rest(struct psti_storage *storage, struct psti_read *read)
{
    struct psti_read_engine *e = &read->engine;
    bool more = true;
    while (more) {
        if (e->opening) {
            int fd = open(read->path, psti_storage_open_flags(e->direct));
            more = psti_storage_step_opened(storage, read, fd >= 0 ? fd : -errno);
        } else {
            ssize_t n = pread(e->fd, (unsigned char *)read->buffer + e->n_got,
                              psti_storage_step_nbytes(read), (off_t)(e->base + e->n_got));
            more = psti_storage_step_read(storage, read, n >= 0 ? n : -errno);
        }
    }
    psti_storage_finish(storage, read);
}

void psti_storage_execute(struct psti_storage *storage, struct psti_read *read)
{
    if (psti_storage_step_begin(storage, read))
        psti_storage_execute_rest(storage, read);
    else
        psti_storage_finish(storage, read);
}
