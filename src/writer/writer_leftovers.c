/* writer_leftovers.c - removes files that no index names: those of interrupted changes in place,
 * and old indexes and shards that nobody reads any more.
 *
 * One thread, which holds the lock. Every reader holds a shared lock on the index that it has open.
 * The old index keeps a second name until nobody holds it, and its shards stay as long. Appends
 * give the old index a second name, too, because the next change in place removes shards that their
 * readers may have open. */
#include "writer/writer_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "dataset/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Parses the file name of a shard that a change in place wrote. */
static bool is_rewritten(const char *name, uint32_t *number, uint32_t *generation)
{
    char again[PSTI_SHARD_NAME_CAP];
    if (sscanf(name, "shard-%" SCNu32 ".%8" SCNx32 ".pst", number, generation) != 2)
        return false;
    psti_format_rewritten_name(*number, *generation, again);
    return strcmp(again, name) == 0;
}

static bool is_plain(const char *name, uint32_t *number)
{
    char again[PSTI_SHARD_NAME_CAP];
    if (sscanf(name, "shard-%" SCNu32 ".pst", number) != 1)
        return false;
    psti_format_shard_name(*number, again);
    return strcmp(again, name) == 0;
}

/* True if a reader still has the old index with this name open, or if that is unknown. */
static bool is_read(const struct psti_writer_dir *dir, const char *name)
{
    struct stat ours, st;
    int fd = psti_writer_open_read(dir, name, &st);
    if (fd < 0)
        return errno != ENOENT;
    /* A crash before the rename leaves a second name of the current index. */
    bool in_force = fstatat(dir->fd, PSTI_INDEX_NAME, &ours, AT_SYMLINK_NOFOLLOW) == 0 &&
                    ours.st_ino == st.st_ino && ours.st_dev == st.st_dev;
    bool read = !in_force && flock(fd, LOCK_EX | LOCK_NB) != 0;
    close(fd);
    return read;
}

/* Removes the names of old indexes that nobody reads. *waits: some are still read. */
static enum pst_status drop_indexes(const struct psti_writer_dir *dir, bool *waits,
                                    struct pst_error *err)
{
    char *names = NULL;
    *waits = false;
    enum pst_status status = psti_writer_list(dir, &names, err);
    for (const char *name = names; status == PST_OK && name[0] != '\0';
         name = psti_writer_list_next(name)) {
        if (strncmp(name, PSTI_OLD_INDEX_PREFIX, strlen(PSTI_OLD_INDEX_PREFIX)) != 0)
            continue;
        if (is_read(dir, name))
            *waits = true;
        else
            status = psti_writer_unlink(dir, name, err);
    }
    psti_free(names);
    return status;
}

/* Removes shards that the current index (of `base`) does not name. Shards of an unfinished change
 * that the writer continues are kept: those of generation `kept` with numbers below n_kept. */
static enum pst_status drop_shards(const struct psti_writer_dir *dir, const pst_dataset *base,
                                   uint32_t kept, uint32_t n_kept, struct pst_error *err)
{
    char *names = NULL;
    enum pst_status status = psti_writer_list(dir, &names, err);
    for (const char *name = names; status == PST_OK && name[0] != '\0';
         name = psti_writer_list_next(name)) {
        struct psti_index_shard shard = {.nbytes = 0};
        uint32_t number, generation = 0;
        bool rewritten = is_rewritten(name, &number, &generation);
        if (!rewritten && !is_plain(name, &number))
            continue;
        if (rewritten && generation == kept && number < n_kept)
            continue;
        /* Shards with numbers after the last one belong to an append. */
        if (!rewritten && number >= pst_dataset_n_files(base))
            continue;
        if (number < pst_dataset_n_files(base)) {
            status = psti_dataset_shard(base, number, &shard, err);
            if (status == PST_OK && strcmp(shard.name, name) == 0)
                continue;
        }
        if (status == PST_OK)
            status = psti_writer_unlink(dir, name, err);
    }
    psti_free(names);
    return status;
}

/* True if the index that `base` was opened from lies in the writer's directory. The path of a data
 * set may lead elsewhere by now, and shards are removed according to its index. */
static bool lies_here(const pst_writer *writer, const pst_dataset *base)
{
    char path[PATH_MAX];
    struct stat ours, its;
    int n = snprintf(path, sizeof path, "%s/" PSTI_INDEX_NAME, pst_dataset_path(base));
    return n > 0 && (size_t)n < sizeof path && stat(path, &its) == 0 &&
           fstatat(writer->dir.fd, PSTI_INDEX_NAME, &ours, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_ino == its.st_ino && ours.st_dev == its.st_dev &&
           memcmp(pst_dataset_id(base), writer->id, sizeof writer->id) == 0;
}

enum pst_status psti_writer_tidy(pst_writer *writer, const pst_dataset *base, uint32_t kept,
                                 uint32_t n_kept, struct pst_error *err)
{
    if (!lies_here(writer, base))
        return PST_OK;
    enum pst_status status = drop_indexes(&writer->dir, &writer->waits, err);
    if (status == PST_OK && !writer->waits)
        status = drop_shards(&writer->dir, base, kept, n_kept, err);
    return status;
}

static enum pst_status read_header(const pst_writer *writer, struct psti_journal_header *header,
                                   struct pst_field fields[PST_MAX_FIELDS], struct pst_error *err)
{
    memset(header, 0, sizeof *header);
    return psti_writer_read_journal_header(&writer->dir, PSTI_REPACK_NAME, header, fields, err);
}

/* True if the journal belongs to a change of the current state, so the change can continue.
 * Otherwise it is merged, or older software has appended since, and the journal is not needed. */
static bool is_unfinished(const pst_writer *writer, const struct psti_journal_header *header)
{
    return memcmp(header->id, writer->id, sizeof header->id) == 0 &&
           header->base_generation == writer->base_generation;
}

enum pst_status psti_writer_settle(pst_writer *writer, struct pst_error *err)
{
    struct pst_field fields[PST_MAX_FIELDS];
    struct psti_journal_header header;
    if (psti_writer_exists(&writer->dir, PSTI_REPACK_NAME)) {
        enum pst_status status = read_header(writer, &header, fields, err);
        if (status != PST_OK)
            return status;
        if (is_unfinished(writer, &header))
            return psti_fail(err, PST_ERROR_INCOMPLETE, "writer",
                             "a change in place was interrupted: finish it (the same `penstock "
                             "repack` again), or remove " PSTI_REPACK_NAME " to give it up");
        status = psti_writer_sync_directory(&writer->dir, err);
        if (status == PST_OK)
            status = psti_writer_unlink(&writer->dir, PSTI_REPACK_NAME, err);
        if (status != PST_OK)
            return status;
    }
    /* Ignores failures, because unneeded files that cannot be removed are no reason to refuse. */
    (void)!psti_writer_tidy(writer, writer->base, 0, 0, NULL);
    return PST_OK;
}

void psti_writer_drop_old(pst_writer *writer)
{
    pst_dataset *now = NULL;
    pst_dataset_close(&writer->base); /* the lock of `base` would keep the old shards in use */
    if (pst_dataset_open(writer->path, NULL, &now, NULL) == PST_OK)
        (void)!psti_writer_tidy(writer, now, 0, 0, NULL);
    pst_dataset_close(&now);
}

void psti_writer_abandon(pst_writer *writer)
{
    pst_dataset *now = NULL;
    psti_output_close(&writer->shard);
    psti_output_close(&writer->journal);
    /* The new index may be in place but not durable. Then the next writer completes the change. */
    if (pst_dataset_open(writer->path, NULL, &now, NULL) != PST_OK ||
        psti_dataset_generation(now) != writer->base_generation) {
        pst_dataset_close(&now);
        return;
    }
    /* The journal is removed first: without it, any writer treats the shards as leftovers. */
    (void)!psti_writer_unlink(&writer->dir, PSTI_REPACK_NAME, NULL);
    (void)!psti_writer_unlink(&writer->dir, PSTI_REPACK_TMP_NAME, NULL);
    (void)!psti_writer_unlink(&writer->dir, PSTI_INDEX_TMP_NAME, NULL);
    (void)!psti_writer_tidy(writer, now, 0, 0, NULL);
    pst_dataset_close(&now);
}

enum pst_status psti_writer_keep_old_index(pst_writer *writer, struct pst_error *err)
{
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, PSTI_OLD_INDEX_PREFIX "%" PRIu64, writer->base_generation);
    enum pst_status status = psti_writer_unlink(&writer->dir, name, err);
    if (status != PST_OK)
        return status;
    /* A file system without hard links (EPERM, EOPNOTSUPP) cannot show who reads the old index,
     * which is accepted. */
    if (linkat(writer->dir.fd, PSTI_INDEX_NAME, writer->dir.fd, name, 0) == 0 || errno == EPERM ||
        errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK)
        return PST_OK;
    psti_writer_dir_path(&writer->dir, name, path);
    return psti_fail_os(err, errno, "writer", path, -1, "cannot give the old index a second name");
}
