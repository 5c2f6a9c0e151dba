/* dataset_scan.c - reads a shard from end to end by its own records and compares it with the index.
 *
 * Reads the whole file through one buffer of 1 MiB, on the calling thread. Besides damaged items it
 * finds bytes that belong to no item, missing records, and records that the index places
 * elsewhere. */
#include "dataset/dataset_index.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/files/read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SCAN_BUFFER_NBYTES = 1 << 20 };

struct scan {
    const pst_dataset *dataset;
    uint32_t i_file;
    int fd;
    uint64_t end;    /* end of the shard, as the index states it */
    uint8_t *buffer; /* bytes [start, start + n) of the file */
    uint64_t start;
    size_t n;
};

/* Makes `nbytes` (<= SCAN_BUFFER_NBYTES) bytes at `offset` available. *bytes is valid until the
 * next call. */
static enum pst_status scan_need(struct scan *scan, uint64_t offset, size_t nbytes,
                                 const uint8_t **bytes, struct pst_error *err)
{
    if (offset < scan->start || offset + nbytes > scan->start + scan->n) {
        ssize_t n = psti_read_at(scan->fd, scan->buffer, SCAN_BUFFER_NBYTES, offset);
        if (n < 0)
            return psti_fail_os(err, errno, "dataset", NULL, (int64_t)offset,
                                "cannot read the shard");
        if ((size_t)n < nbytes)
            return psti_fail(err, PST_ERROR_TRUNCATED, "dataset", "the shard was cut short");
        scan->start = offset;
        scan->n = (size_t)n;
    }
    *bytes = scan->buffer + (offset - scan->start);
    return PST_OK;
}

static enum pst_status check_bytes(struct scan *scan, uint64_t offset,
                                   const struct psti_record *record, struct pst_error *err)
{
    struct psti_hash_state state;
    psti_hash_begin(&state);
    for (uint64_t done = 0; done < record->nbytes;) {
        uint64_t left = record->nbytes - done;
        size_t n = left < SCAN_BUFFER_NBYTES ? (size_t)left : SCAN_BUFFER_NBYTES;
        const uint8_t *bytes;
        enum pst_status status = scan_need(scan, offset + done, n, &bytes, err);
        if (status != PST_OK)
            return status;
        psti_hash_update(&state, bytes, n);
        done += n;
    }
    if (psti_hash_end(&state) == record->checksum)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CHECKSUM, "dataset",
                     "the %" PRIu64 " stored bytes of the item were altered", record->nbytes);
}

/* Checks that the bytes [from, to) between two records are zero, so that no bytes of the shard go
 * unchecked. */
static enum pst_status check_gap(struct scan *scan, uint64_t from, uint64_t to,
                                 struct pst_error *err)
{
    const uint8_t *bytes;
    if (from >= to)
        return PST_OK;
    enum pst_status status = scan_need(scan, from, (size_t)(to - from), &bytes, err);
    for (uint64_t i = 0; status == PST_OK && i < to - from; i++)
        if (bytes[i] != 0)
            status = psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                               "the bytes behind the item are not zero");
    return status;
}

/* Checks one record at *position and moves *position past it. */
static enum pst_status scan_record(struct scan *scan, uint64_t *position, struct pst_error *err)
{
    struct psti_record record = {.sample = UINT64_MAX};
    const uint8_t *bytes;
    uint64_t at = *position, left = scan->end - at;
    enum pst_status status = PST_OK;
    if (left < PSTI_RECORD_NBYTES)
        status = psti_fail(err, PST_ERROR_CORRUPT, "dataset", "the shard ends within a record");
    if (status == PST_OK)
        status = scan_need(scan, at, PSTI_RECORD_NBYTES, &bytes, err);
    if (status == PST_OK)
        status = psti_format_parse_record(bytes, PSTI_RECORD_NBYTES, left, &record, err);
    if (status == PST_OK)
        status = psti_dataset_check_record(psti_dataset_index_of(scan->dataset), scan->i_file, at,
                                           &record, err);
    if (status == PST_OK)
        status = check_bytes(scan, at + record.data_offset, &record, err);
    if (status == PST_OK) {
        uint64_t end = at + record.data_offset + record.nbytes, next = (end + 7) & ~(uint64_t)7;
        status = check_gap(scan, end, next < scan->end ? next : scan->end, err);
    }
    if (status != PST_OK && err != NULL) {
        err->offset = (int64_t)at;
        if (record.sample < scan->dataset->n_samples)
            err->sample = (int64_t)record.sample;
    }
    if (status == PST_OK)
        *position = (at + record.data_offset + record.nbytes + 7) & ~(uint64_t)7;
    return status;
}

static enum pst_status scan_all(struct scan *scan, uint64_t n_expected, uint64_t *n_items,
                                struct pst_error *err)
{
    uint64_t position = PSTI_SHARD_HEADER_NBYTES;
    enum pst_status status = PST_OK;
    for (; position < scan->end && status == PST_OK; *n_items += status == PST_OK)
        status = scan_record(scan, &position, err);
    if (status == PST_OK && (position != scan->end || *n_items != n_expected)) {
        psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                  "the shard has %" PRIu64 " items up to byte %" PRIu64 ", the index says %" PRIu64
                  " up to %" PRIu64,
                  *n_items, position, n_expected, scan->end);
        status = PST_ERROR_CORRUPT;
    }
    return status;
}

enum pst_status psti_dataset_scan_shard(const pst_dataset *dataset, uint32_t i_file,
                                        uint64_t *n_items, struct pst_error *err)
{
    struct scan scan = {.dataset = dataset, .i_file = i_file, .fd = -1};
    struct psti_index_shard shard = {.nbytes = 0};
    char path[PATH_MAX + 64] = "";
    *n_items = 0;
    if (dataset->kind != PSTI_DATASET_PACKED)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "a plain folder has no shards");
    struct stat st;
    enum pst_status status = psti_dataset_index_check_shard(dataset, i_file, err);
    if (status != PST_OK)
        return status;
    status = psti_dataset_index_shard(psti_dataset_index_of(dataset), i_file, &shard, err);
    if (status != PST_OK)
        return status;
    snprintf(path, sizeof path, "%s/%s", dataset->path, shard.name);
    scan.end = shard.nbytes;
    scan.buffer = psti_alloc(SCAN_BUFFER_NBYTES);
    if (scan.buffer == NULL) {
        status = psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory to read a shard");
        goto out;
    }
    status = psti_open_data_at(dataset->dir_fd, shard.name, path, "dataset", "a shard", &scan.fd,
                               &st, err);
    if (status == PST_OK)
        status = scan_all(&scan, shard.n_items, n_items, err);
out:
    if (scan.fd >= 0)
        close(scan.fd);
    psti_free(scan.buffer);
    if (status != PST_OK) {
        psti_error_set_file(err, path);
        psti_error_set_dataset(err, dataset->path);
    }
    return status;
}
