/* dataset_shard.c - checks that a shard file is the one that the index means: its header and first
 * record once before use, and any record on request.
 *
 * In: the file of a shard. Out: PST_OK, or what is wrong with it. Any thread; the handle remembers
 * which shards were checked. */
#include "dataset/dataset_index.h"

#include "base/fail.h"
#include "base/files/read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum pst_status psti_dataset_check_record(const struct psti_dataset_index *index, uint32_t i_file,
                                          uint64_t position, const struct psti_record *record,
                                          struct pst_error *err)
{
    const pst_dataset *dataset = &index->base;
    struct pst_item item;
    if (record->sample >= dataset->n_samples || record->i_field >= dataset->n_fields ||
        !psti_format_has_items(dataset->fields[record->i_field].type) ||
        record->variant >= dataset->fields[record->i_field].n_variants)
        return psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                         "a record claims to be an item that the data set does not have");
    enum pst_status status = pst_dataset_item(dataset, record->sample, record->i_field,
                                              record->variant, &item, sizeof item, err);
    if (status != PST_OK)
        return status;
    if (item.form != (enum pst_form)record->form || item.i_file != i_file ||
        item.offset != position + record->data_offset || item.nbytes != record->nbytes ||
        item.checksum != record->checksum)
        return psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                         "record and index contradict each other on sample %" PRIu64
                         ", field \"%s\", variant %u",
                         record->sample, dataset->fields[record->i_field].name, record->variant);
    return PST_OK;
}

/* Compares the shard's first record with the index. Data sets with the same schema have the same
 * id, so the header alone does not show which data set a shard belongs to. Damage of the record is
 * left to its readers. */
static enum pst_status check_first_record(const struct psti_dataset_index *index, uint32_t i_file,
                                          const uint8_t *bytes, size_t nbytes,
                                          const struct psti_index_shard *shard,
                                          struct pst_error *err)
{
    struct psti_record record;
    if (shard->n_items == 0 ||
        psti_format_parse_record(bytes, nbytes, shard->nbytes - PSTI_SHARD_HEADER_NBYTES, &record,
                                 NULL) != PST_OK)
        return PST_OK;
    return psti_dataset_check_record(index, i_file, PSTI_SHARD_HEADER_NBYTES, &record, err) ==
                   PST_OK
               ? PST_OK
               : psti_fail(
                     err, PST_ERROR_CORRUPT, "dataset",
                     "the shard belongs to another data set, or to another state of this one");
}

static enum pst_status check_shard_file(const struct psti_dataset_index *index, uint32_t i_file,
                                        int fd, const struct psti_index_shard *shard,
                                        struct pst_error *err)
{
    uint8_t bytes[PSTI_SHARD_HEADER_NBYTES + PSTI_RECORD_NBYTES];
    struct psti_shard_header header;
    struct stat st;
    ssize_t n = fstat(fd, &st) == 0 ? psti_read_at(fd, bytes, sizeof bytes, 0) : -1;
    if (n < 0)
        return psti_fail_os(err, errno, "dataset", NULL, 0, "cannot read the shard");
    enum pst_status status = psti_format_parse_shard_header(bytes, (size_t)n, &header, err);
    if (status != PST_OK)
        return status;
    if (memcmp(header.id, index->header.id, 16) != 0)
        return psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                         "the shard belongs to another data set");
    if (header.number != i_file || header.checksum != shard->header_checksum)
        return psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                         "this is shard %" PRIu32
                         " of the data set, under the name of shard %" PRIu32,
                         header.number, i_file);
    if ((uint64_t)st.st_size < shard->nbytes)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, "dataset", NULL, (int64_t)st.st_size,
                            "the shard was cut short to %" PRIu64 " bytes, it had %" PRIu64,
                            (uint64_t)st.st_size, shard->nbytes);
    if ((size_t)n < sizeof bytes)
        return PST_OK;
    return check_first_record(index, i_file, bytes + PSTI_SHARD_HEADER_NBYTES, PSTI_RECORD_NBYTES,
                              shard, err);
}

enum pst_status psti_dataset_index_check_shard(const pst_dataset *dataset, uint32_t i_file,
                                               struct pst_error *err)
{
    const struct psti_dataset_index *index = psti_dataset_index_of(dataset);
    struct psti_index_shard shard;
    char path[PATH_MAX + 64];
    if (i_file >= dataset->n_files)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "there is no shard %" PRIu32, i_file);
    if (atomic_load_explicit(&index->shards_checked[i_file / 64], memory_order_relaxed) >>
            (i_file % 64) &
        1)
        return PST_OK;
    enum pst_status status = psti_dataset_index_shard(index, i_file, &shard, err);
    if (status != PST_OK)
        return status;
    snprintf(path, sizeof path, "%s/%s", dataset->path, shard.name);
    struct stat st;
    int fd;
    status =
        psti_open_data_at(dataset->dir_fd, shard.name, path, "dataset", "a shard", &fd, &st, err);
    if (status == PST_OK) {
        status = check_shard_file(index, i_file, fd, &shard, err);
        close(fd);
    }
    if (status == PST_OK) {
        atomic_fetch_or_explicit(&index->shards_checked[i_file / 64], (uint64_t)1 << (i_file % 64),
                                 memory_order_relaxed);
    } else {
        psti_error_set_file(err, path);
        psti_error_set_dataset(err, dataset->path);
    }
    return status;
}
