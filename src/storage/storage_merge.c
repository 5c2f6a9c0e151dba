/* storage_merge.c - joins reads that lie close together in a file into one request, and sorts reads
 * by position on the disk.
 *
 * In: the reads of one psti_storage_submit. Out: requests of one or several reads. The first read
 * of a request leads it; the others are linked to it by engine.joined, in the order of their
 * offsets. One vectored read fetches them all, each to its own buffer. The bytes between them go to
 * a sink that nobody reads. After an error or a short read, the reads that are not complete are
 * read again one by one, so that a bad block affects only its own read. Only the thread that has
 * the leader touches its request. */
#include "storage/storage_int.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>

/* The most bytes of a request. Several requests of this size take little longer than one larger
 * one. */
#define REQUEST_NBYTES_MAX ((uint64_t)8 << 20)

/* Returns whether a read may share a request with others. A read with O_DIRECT may not, because it
 * reads whole blocks into its own buffer. */
static bool may_join(const struct psti_read *read)
{
    return read->file != NULL && read->nbytes > 0 && read->file->memory == NULL &&
           !atomic_load_explicit(&read->file->direct, memory_order_relaxed) &&
           psti_range_fits(read->offset, read->nbytes, INT64_MAX);
}

static bool lies_before(const struct psti_read *a, const struct psti_read *b)
{
    uintptr_t file_a = (uintptr_t)a->file, file_b = (uintptr_t)b->file;
    if (!file_a && !file_b)
        return a->place < b->place;
    return file_a != file_b ? file_a < file_b : a->offset < b->offset;
}

static void sift(struct psti_read **reads, size_t at, size_t n)
{
    struct psti_read *read = reads[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && lies_before(reads[child], reads[child + 1]))
            child++;
        if (!lies_before(read, reads[child]))
            break;
        reads[at] = reads[child];
    }
    reads[at] = read;
}

/* Sorts reads by file and offset, or by place. Heap sort needs no extra memory, and its time hardly
 * depends on the initial order. */
void psti_storage_sort(struct psti_read **reads, size_t n)
{
    for (size_t i = n / 2; i > 0; i--)
        sift(reads, i - 1, n);
    for (size_t i = n; i > 1; i--) {
        struct psti_read *last = reads[0];
        reads[0] = reads[i - 1];
        reads[i - 1] = last;
        sift(reads, 0, i - 1);
    }
}

void psti_storage_set_gap(struct psti_storage *storage, uint64_t nbytes)
{
    uint64_t most = storage->options.gap_nbytes;
    atomic_store_explicit(&storage->gap_nbytes_now, nbytes < most ? nbytes : most,
                          memory_order_relaxed);
}

uint64_t psti_storage_gap(const struct psti_storage *storage)
{
    return atomic_load_explicit(&storage->gap_nbytes_now, memory_order_relaxed);
}

size_t psti_storage_merge(const struct psti_storage *storage, struct psti_read **reads, size_t n)
{
    size_t n_alone = 0, n_joined = 0;
    uint64_t gap = psti_storage_gap(storage);
    for (size_t i = 0; i < n; i++)
        if (!may_join(reads[i])) {
            struct psti_read *read = reads[i];
            reads[i] = reads[n_alone];
            reads[n_alone++] = read;
        }
    psti_storage_sort(reads + n_alone, n - n_alone);
    size_t n_requests = n_alone;
    struct psti_read *last = NULL;
    for (size_t i = n_alone; i < n; i++) {
        struct psti_read *read = reads[i], *leader = n_requests ? reads[n_requests - 1] : NULL;
        uint64_t end = last ? last->offset + last->nbytes : 0;
        if (last && last->file == read->file && n_joined < PSTI_STORAGE_JOINED_MAX &&
            read->offset >= end && read->offset - end <= gap &&
            read->offset + read->nbytes - leader->offset <= REQUEST_NBYTES_MAX) {
            last->engine.joined = read;
            n_joined++;
        } else {
            reads[n_requests++] = read;
            n_joined = 1;
        }
        last = read;
    }
    return n_requests;
}

unsigned psti_storage_vectors(const struct psti_read *leader, void *sink, struct iovec *vectors)
{
    unsigned n = 0;
    uint64_t at = leader->offset;
    for (const struct psti_read *read = leader; read != NULL; read = read->engine.joined) {
        while (at < read->offset) {
            uint64_t left = read->offset - at;
            size_t piece = left < PSTI_STORAGE_SINK ? (size_t)left : PSTI_STORAGE_SINK;
            vectors[n++] = (struct iovec){sink, piece};
            at += piece;
        }
        vectors[n++] = (struct iovec){read->buffer, read->nbytes};
        at += read->nbytes;
    }
    return n;
}

static void count(struct psti_storage *storage, const struct psti_read *leader, int64_t result)
{
    uint64_t n_reads = 0, wanted = 0;
    for (const struct psti_read *read = leader; read != NULL; read = read->engine.joined) {
        n_reads++;
        wanted += read->nbytes;
    }
    atomic_fetch_add_explicit(&storage->n_reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&storage->n_merged, n_reads - 1, memory_order_relaxed);
    if (result > 0)
        atomic_fetch_add_explicit(&storage->nbytes_gap, psti_storage_span(leader) - wanted,
                                  memory_order_relaxed);
    atomic_fetch_add_explicit(&storage->read_ns,
                              (uint64_t)(psti_clock_ns() - leader->engine.start_ns),
                              memory_order_relaxed);
}

/* Drops the pages of the whole request, or only those of reads that ask for it. */
static void drop_pages(struct psti_storage *storage, const struct psti_read *leader)
{
    bool all = storage->options.page_cache != PST_PAGE_CACHE_KEEP;
    for (const struct psti_read *read = leader; read != NULL; read = read->engine.joined) {
        uint64_t skip = read->offset % PSTI_STORAGE_BLOCK;
        uint64_t nbytes = all ? psti_storage_span(leader) : read->nbytes;
        if (all || read->drop)
            psti_storage_advise(storage, read->file->fd, read->offset - skip, nbytes + skip,
                                POSIX_FADV_DONTNEED);
        if (all)
            return;
    }
}

struct psti_read *psti_storage_take_joined(struct psti_storage *storage, struct psti_read *leader,
                                           int64_t result)
{
    struct psti_read *again = NULL, **end = &again, *next;
    uint64_t first = leader->offset;
    int64_t deadline_ns = leader->engine.deadline_ns;
    if (psti_fault(PSTI_FAULT_READ))
        result = -EIO;
    count(storage, leader, result);
    drop_pages(storage, leader);
    for (struct psti_read *read = leader; read != NULL; read = next) {
        next = read->engine.joined;
        read->engine.joined = NULL;
        if (result < 0 || read->offset + read->nbytes - first > (uint64_t)result) {
            *end = read;
            end = &read->engine.joined;
            continue;
        }
        read->data = read->buffer;
        read->status = PST_OK;
        read->engine.deadline_ns = deadline_ns;
        atomic_fetch_add_explicit(&storage->nbytes_read, read->nbytes, memory_order_relaxed);
        psti_storage_deliver(storage, read);
    }
    return again;
}

void psti_storage_execute_joined(struct psti_storage *storage, struct psti_read *leader, void *sink)
{
    struct iovec vectors[PSTI_STORAGE_VECTORS_MAX];
    leader->engine.start_ns = psti_clock_ns();
    unsigned n = psti_storage_vectors(leader, sink, vectors);
    ssize_t result = preadv(leader->file->fd, vectors, (int)n, (off_t)leader->offset);
    struct psti_read *read =
        psti_storage_take_joined(storage, leader, result >= 0 ? result : -errno);
    while (read != NULL) {
        struct psti_read *next = read->engine.joined;
        psti_storage_admit(storage, read, 0);
        psti_storage_execute(storage, read);
        psti_storage_deliver(storage, read);
        read = next;
    }
}
