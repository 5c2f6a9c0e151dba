/* containers_mds.c - reads an MDS shard sample by sample.
 *
 * In: a file through a window, on one thread. Out: columns and rows. Offsets are read in blocks
 * into a separate buffer, so that the window stays at the samples. */
#include "containers/mds/containers_mds_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define ROOM "containers"
enum { BLOCK = 4096 }; /* offsets that are read at a time */

struct mds {
    const struct psti_walk_source *source;
    struct psti_containers_columns *columns;
    struct psti_window window;
    struct psti_mds_config config;
    uint64_t n;         /* number of samples */
    uint64_t first;     /* number of the sample that offsets[0] belongs to */
    uint32_t n_offsets; /* offsets that the buffer holds */
    uint8_t offsets[4 * (BLOCK + 1)];
    uint64_t at, end; /* range in the file of the current sample */
    struct psti_container_value *values;
    struct pst_error *err;
};

static enum pst_status corrupt(const struct mds *mds, uint64_t offset, const char *what)
{
    return psti_fail_at(mds->err, PST_ERROR_CORRUPT, ROOM, mds->source->path, (int64_t)offset, "%s",
                        what);
}

/* Refuses files that are compressed as a whole, by their names and first bytes. */
static enum pst_status check_packed(struct mds *mds)
{
    static const struct {
        const char *magic, *name;
        uint8_t nbytes;
    } packers[] = {
        {"\x28\xb5\x2f\xfd", "zstd", 4},
        {"\x1f\x8b\x08", "gz", 3},
        {"BZh", "bz2", 3},
    };
    const uint8_t *bytes = NULL;
    const char *path = mds->source->path, *packer = psti_containers_mds_packer(path);
    if (packer != NULL)
        return psti_containers_mds_is_packed(path, packer, mds->err);
    if (mds->source->nbytes < 4)
        return corrupt(mds, 0, "the file is too short to be a shard of MDS");
    enum pst_status status = psti_containers_window_get(&mds->window, 0, 4, &bytes, mds->err);
    for (size_t i = 0; status == PST_OK && i < sizeof packers / sizeof *packers; i++)
        if (memcmp(bytes, packers[i].magic, packers[i].nbytes) == 0)
            status = psti_containers_mds_is_packed(path, packers[i].name, mds->err);
    if (status == PST_OK)
        mds->n = psti_load_u32(bytes);
    return status;
}

/* Loads the offsets of sample i's begin and end into the buffer. */
static enum pst_status load_offsets(struct mds *mds, uint64_t i)
{
    if (i >= mds->first && i - mds->first + 1 < mds->n_offsets)
        return PST_OK;
    uint64_t n = mds->n + 1 - i, offset = 4 + 4 * i;
    if (n > BLOCK + 1)
        n = BLOCK + 1;
    size_t nbytes = 4 * (size_t)n;
    ssize_t got = mds->source->read(mds->source->context, mds->offsets, nbytes, offset);
    if (got < 0)
        return psti_fail_os(mds->err, errno, ROOM, mds->source->path, (int64_t)offset,
                            "cannot read the offsets of samples");
    if ((size_t)got < nbytes)
        return psti_fail_at(mds->err, PST_ERROR_TRUNCATED, ROOM, mds->source->path, (int64_t)offset,
                            "the file became shorter while it was read");
    mds->first = i;
    mds->n_offsets = (uint32_t)n;
    return PST_OK;
}

static uint64_t offset_at(const struct mds *mds, uint64_t i)
{
    return psti_load_u32(mds->offsets + 4 * (i - mds->first));
}

/* Fills in the error for a file that ends within sample i. */
static enum pst_status ends_early(const struct mds *mds, uint64_t i)
{
    const char *path = mds->source->path;
    int64_t nbytes = (int64_t)mds->source->nbytes;
    if (i == 0)
        return psti_fail_at(mds->err, PST_ERROR_TRUNCATED, ROOM, path, nbytes,
                            "the file ends within its first sample, of %" PRIu64, mds->n);
    return psti_fail_at(mds->err, PST_ERROR_TRUNCATED, ROOM, path, nbytes,
                        "the file ends within sample %" PRIu64 " of %" PRIu64
                        "; the last whole one is sample %" PRIu64,
                        i, mds->n, i - 1);
}

/* Checks that the offsets rise, from the header's end to the end of the file. */
static enum pst_status check_offsets(struct mds *mds, uint64_t header_end)
{
    const struct psti_walk_source *source = mds->source;
    enum pst_status status = load_offsets(mds, 0);
    if (status != PST_OK)
        return status;
    uint64_t begin = offset_at(mds, 0);
    if (begin < header_end)
        return corrupt(mds, 4, "the first sample begins within the header of the shard");
    for (uint64_t i = 0; i < mds->n; i++) {
        status = load_offsets(mds, i);
        if (status != PST_OK)
            return status;
        uint64_t end = offset_at(mds, i + 1);
        if (end < begin)
            return psti_fail_at(
                mds->err, PST_ERROR_CORRUPT, ROOM, source->path, (int64_t)(8 + 4 * i),
                "sample %" PRIu64 " would end at byte %" PRIu64 ", before it begins at %" PRIu64
                ": the offsets overflowed, or the shard is damaged; write it anew",
                i, end, begin);
        if (end > source->nbytes)
            return ends_early(mds, i);
        begin = end;
    }
    if (begin > source->nbytes)
        return psti_fail_at(mds->err, PST_ERROR_TRUNCATED, ROOM, source->path,
                            (int64_t)source->nbytes, "the file ends within its header");
    if (begin < source->nbytes)
        return psti_fail_at(mds->err, PST_ERROR_CORRUPT, ROOM, source->path, (int64_t)begin,
                            "the last sample ends here, and the file has %" PRIu64
                            " bytes more: samples were lost, or the shard is damaged",
                            source->nbytes - begin);
    return PST_OK;
}

/* Reads the header: number of samples, offsets, and the JSON with the columns. */
static enum pst_status read_header(struct mds *mds)
{
    const struct psti_walk_source *source = mds->source;
    const uint8_t *json = NULL;
    enum pst_status status = check_packed(mds);
    if (status != PST_OK)
        return status;
    if (source->nbytes > UINT32_MAX)
        return psti_fail_at(mds->err, PST_ERROR_CORRUPT, ROOM, source->path, -1,
                            "the shard has %" PRIu64
                            " bytes: offsets of MDS have 32 bits and overflow at 4 GiB, so its "
                            "samples cannot be told apart; write it anew with a size_limit below "
                            "4 GiB",
                            source->nbytes);
    uint64_t header_end = 4 + 4 * (mds->n + 1);
    if (header_end > source->nbytes)
        return psti_fail_at(mds->err, PST_ERROR_CORRUPT, ROOM, source->path, 0,
                            "this is no shard of MDS, or it ends within its header: it would have "
                            "%" PRIu64 " samples",
                            mds->n);
    status = check_offsets(mds, header_end);
    if (status == PST_OK)
        status = load_offsets(mds, 0);
    uint64_t end = status == PST_OK ? offset_at(mds, 0) : header_end;
    if (status == PST_OK && end - header_end > PSTI_WINDOW_NBYTES)
        status = psti_fail_at(mds->err, PST_ERROR_LIMIT, ROOM, source->path, (int64_t)header_end,
                              "the configuration of the shard has %" PRIu64 " bytes; %d are the "
                              "limit",
                              end - header_end, PSTI_WINDOW_NBYTES);
    if (status == PST_OK)
        status = psti_containers_window_get(&mds->window, header_end, (size_t)(end - header_end),
                                            &json, mds->err);
    return status == PST_OK
               ? psti_containers_mds_config(&mds->config, source->path, (const char *)json,
                                            (size_t)(end - header_end), mds->err)
               : status;
}

/* Finds the values of all columns in sample i. */
static enum pst_status read_sample(struct mds *mds, uint64_t i)
{
    struct psti_mds_config *config = &mds->config;
    const uint8_t *sizes = NULL;
    enum pst_status status = load_offsets(mds, i);
    if (status != PST_OK)
        return status;
    uint64_t begin = offset_at(mds, i), end = offset_at(mds, i + 1);
    uint64_t at = begin + 4 * (uint64_t)config->n_sized;
    if (at <= end)
        status = psti_containers_window_get(&mds->window, begin, 4 * (size_t)config->n_sized,
                                            &sizes, mds->err);
    for (uint32_t k = 0; k < config->n && at <= end && status == PST_OK; k++) {
        struct psti_mds_column *column = &config->columns[k];
        column->offset = at;
        column->length = column->nbytes;
        if (column->nbytes == 0) {
            column->length = psti_load_u32(sizes);
            sizes += 4;
        }
        at += column->length; /* no overflow: at most 2^10 columns of less than 2^32 bytes */
    }
    if (status == PST_OK && at != end)
        status = psti_fail_at(mds->err, PST_ERROR_CORRUPT, ROOM, mds->source->path, (int64_t)begin,
                              "the columns of sample %" PRIu64
                              " do not have the sample's size of %" PRIu64 " bytes",
                              i, end - begin);
    return status;
}

/* Gives the row of sample i. */
static enum pst_status give_sample(struct mds *mds, uint64_t i)
{
    struct psti_mds_config *config = &mds->config;
    uint32_t n = 0;
    enum pst_status status = read_sample(mds, i);
    for (uint32_t k = 0; k < config->n && status == PST_OK; k++)
        if (config->columns[k].i_field != PSTI_COLUMN_LEFT_OUT)
            status = psti_containers_mds_value(&config->columns[k], &mds->window, i,
                                               &mds->values[n++], mds->err);
    return status == PST_OK
               ? psti_containers_columns_row(mds->columns, NULL, mds->values, n, mds->err)
               : status;
}

static enum pst_status walk(struct mds *mds, const struct psti_table_notes *notes)
{
    struct psti_mds_config *config = &mds->config;
    enum pst_status status = read_header(mds);
    if (status == PST_OK)
        status = psti_containers_mds_compare(config, notes, mds->source->path, mds->n,
                                             mds->source->nbytes, mds->err);
    if (status != PST_OK || mds->n == 0)
        return status; /* an empty shard declares no columns, so it lacks none that others have */
    status = psti_containers_columns_file(mds->columns, mds->source->path, mds->err);
    if (status == PST_OK)
        status = read_sample(mds, 0);
    for (uint32_t k = 0; k < config->n && status == PST_OK; k++)
        status =
            psti_containers_mds_declare(&config->columns[k], &mds->window, mds->columns, mds->err);
    if (status != PST_OK)
        return status;
    mds->values = psti_alloc_array(config->n + 1, sizeof *mds->values);
    if (mds->values == NULL)
        return psti_fail(mds->err, PST_ERROR_MEMORY, ROOM, "out of memory for a sample");
    for (uint64_t i = 0; i < mds->n && status == PST_OK; i++)
        status = give_sample(mds, i);
    return status;
}

enum pst_status psti_containers_mds_walk(const struct psti_walk_source *source,
                                         const struct psti_table_notes *notes,
                                         struct psti_containers_columns *columns,
                                         struct psti_walk_counts *counts, struct pst_error *err)
{
    struct mds *mds = psti_calloc(1, sizeof *mds);
    if (mds == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory to read %s", source->path);
    mds->source = source;
    mds->columns = columns;
    mds->err = err;
    enum pst_status status = psti_containers_window_open(&mds->window, source, err);
    if (status == PST_OK)
        status = walk(mds, notes);
    if (status == PST_OK)
        *counts = (struct psti_walk_counts){.n_members = mds->n, .n_samples = mds->n};
    psti_free(mds->values);
    psti_containers_mds_config_free(&mds->config);
    psti_containers_window_close(&mds->window);
    psti_free(mds);
    return status;
}
