/* writer_parts.c - the plan of shards, and packing planned shards separately (writer.h).
 *
 * No lock is held, because a file system that several machines share may have none. Unique names
 * keep processes apart. A plan is written completely under a temporary name, and then gets its own
 * name by a hard link, which fails if there is a plan already. All shards of a plan lie in a folder
 * named after its token. A shard is written there under a random name, and a rename puts it in
 * place, which fails if the shard is there already. A process that continues after the merge, or
 * after the data set was removed and begun again, does not find the folder of its token, and fails.
 */
#include "writer/writer_int.h"
#include "writer/writer_parts_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/files/output.h"
#include "base/files/read.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLAN_BUFFER_NBYTES = 1 << 16 };

/* Returns a number that no other call returns, on this or another machine. It is part of the names
 * of files that a merge removes, and appears in no finished data set. */
static uint64_t make_token(void)
{
    uint64_t parts[8] = {(uint64_t)getpid(), (uint64_t)psti_clock_ns(), (uintptr_t)parts};
    int fd = open("/dev/urandom", PSTI_OPEN_FLAGS);
    if (fd >= 0 && read(fd, parts + 3, 5 * sizeof parts[0]) < 0)
        parts[3] = 0;
    if (fd >= 0)
        close(fd);
    return psti_hash64(parts, sizeof parts);
}

/* Plan ---------------------------------------------------------------------- */

static enum pst_status write_plan(const struct psti_writer_dir *dir, const char *name,
                                  const struct psti_parts *plan, const uint64_t *first,
                                  struct pst_error *err)
{
    size_t nbytes = psti_format_parts_nbytes(plan->n_shards);
    struct psti_output file = {.fd = -1};
    uint8_t *bytes = psti_alloc(nbytes);
    if (bytes == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for a plan of shards");
    psti_format_print_parts(plan, first, bytes);
    enum pst_status status =
        psti_writer_file_open(&file, dir, name, true, 0, PLAN_BUFFER_NBYTES, err);
    if (status == PST_OK)
        status = psti_output_append(&file, bytes, nbytes, err);
    if (status == PST_OK)
        status = psti_output_sync(&file, err);
    psti_output_close(&file);
    psti_free(bytes);
    return status;
}

/* Creates the folder for the shards, then the plan that names it. If several processes do so at
 * once, only one plan gets into place. */
static enum pst_status make_plan(const struct psti_writer_dir *dir, const struct psti_parts *wanted,
                                 const uint64_t *first, struct pst_error *err)
{
    char folder[PSTI_PARTS_NAME_CAP], name[PSTI_PARTS_NAME_CAP];
    struct psti_parts plan = *wanted;
    bool taken = false;
    plan.token = make_token();
    psti_format_parts_name(PSTI_PARTS_FOLDER_PREFIX, plan.token, folder);
    psti_format_parts_name(PSTI_PARTS_TMP_PREFIX, plan.token, name);
    enum pst_status status = psti_writer_make_folder(dir, folder, err);
    if (status == PST_OK)
        status = write_plan(dir, name, &plan, first, err);
    if (status == PST_OK)
        status = psti_writer_sync_directory(dir, err);
    if (status == PST_OK)
        status = psti_writer_link(dir, name, PSTI_PARTS_NAME, &taken, err);
    if (status != PST_OK || taken)
        (void)!psti_writer_remove_folder(dir, folder, NULL);
    enum pst_status removed = psti_writer_unlink(dir, name, status == PST_OK ? err : NULL);
    if (status == PST_OK)
        status = removed == PST_OK ? psti_writer_sync_directory(dir, err) : removed;
    return status == PST_OK ? psti_writer_sync_parent(dir, err) : status;
}

/* Reads the bytes of the plan of shards into memory. */
static enum pst_status read_plan(struct psti_writer_parts *parts, struct pst_error *err)
{
    struct stat st;
    char path[PATH_MAX];
    psti_writer_dir_path(&parts->dir, PSTI_PARTS_NAME, path);
    int fd = psti_writer_open_read(&parts->dir, PSTI_PARTS_NAME, &st);
    if (fd < 0)
        return psti_fail_os(err, errno, "writer", path, -1, "cannot open the plan of shards");
    if ((uint64_t)st.st_size > psti_format_parts_nbytes(PSTI_PARTS_SHARDS_MAX)) {
        close(fd);
        return psti_fail_at(err, PST_ERROR_CORRUPT, "writer", path, -1,
                            "the plan of shards is longer than any plan may be");
    }
    size_t nbytes = (size_t)st.st_size;
    parts->plan_bytes = psti_alloc(nbytes > 0 ? nbytes : 1);
    ssize_t n = parts->plan_bytes != NULL ? psti_read_at(fd, parts->plan_bytes, nbytes, 0) : 0;
    int failed = errno;
    close(fd);
    if (parts->plan_bytes == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for a plan of shards");
    if (n < 0)
        return psti_fail_os(err, failed, "writer", path, 0, "cannot read the plan of shards");
    enum pst_status status =
        psti_format_parse_parts(parts->plan_bytes, (size_t)n, &parts->plan, err);
    if (status != PST_OK)
        psti_error_set_file(err, path);
    return status;
}

enum pst_status psti_writer_parts_load(struct psti_writer_parts *parts, struct pst_error *err)
{
    enum pst_status status = read_plan(parts, err);
    if (status != PST_OK)
        return status;
    psti_format_parts_name(PSTI_PARTS_FOLDER_PREFIX, parts->plan.token, parts->folder_name);
    psti_writer_dir_path(&parts->dir, parts->folder_name, parts->folder_path);
    parts->folder.path = parts->folder_path;
    parts->folder.fd = openat(parts->dir.fd, parts->folder_name,
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return parts->folder.fd >= 0
               ? PST_OK
               : psti_fail_os(err, errno, "writer", parts->folder_path, -1,
                              "the plan of shards has no folder of shards: it was just merged, or "
                              "the folder was removed");
}

/* Checks that the plan on disk equals the one that the caller would make. */
static enum pst_status compare(const struct psti_writer_parts *parts,
                               const struct psti_parts *wanted, const uint64_t *first,
                               struct pst_error *err)
{
    const struct psti_parts *held = &parts->plan;
    const char *what = held->n_samples != wanted->n_samples ||
                               memcmp(held->source, wanted->source, sizeof held->source) != 0
                           ? "of another source, or the source changed since"
                       : held->mark != wanted->mark
                           ? "with other options, or by another version of Penstock"
                       : held->n_shards != wanted->n_shards ? "with shards of another size"
                                                            : NULL;
    for (uint32_t i = 0; what == NULL && i < held->n_shards; i++)
        if (psti_format_parts_first(parts->plan_bytes, held, i) != first[i])
            what = "with other shards";
    return what == NULL ? PST_OK
                        : psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                                    "the plan of shards there was made %s: take the same again, or "
                                    "remove the destination and begin anew",
                                    what);
}

/* Creates the directory if it does not exist, and opens it. */
static enum pst_status enter(struct psti_writer_parts *parts, bool *made, struct pst_error *err)
{
    struct stat st;
    *made = stat(parts->path, &st) != 0 && errno == ENOENT;
    if (*made) {
        enum pst_status status = psti_writer_make_directory(parts->path, err);
        if (status != PST_OK && stat(parts->path, &st) != 0)
            return status;
        *made = status == PST_OK;
    }
    parts->dir.fd = open(parts->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return parts->dir.fd >= 0
               ? PST_OK
               : psti_fail_os(err, errno, "writer", parts->path, -1, "cannot open the directory");
}

static enum pst_status open_plan(struct psti_writer_parts *parts, const struct psti_parts *wanted,
                                 const uint64_t *first, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (psti_writer_exists(&parts->dir, PSTI_INDEX_NAME))
        return psti_fail(err, PST_ERROR_EXISTS, "writer",
                         "a finished data set is there already: remove it first");
    if (!psti_writer_exists(&parts->dir, PSTI_PARTS_NAME)) {
        if (psti_writer_exists(&parts->dir, PSTI_JOURNAL_NAME))
            return psti_fail(err, PST_ERROR_INCOMPLETE, "writer",
                             "an unfinished data set is there: resume it, or remove it first");
        status = psti_writer_check_empty(&parts->dir, true, err);
        if (status == PST_OK)
            status = make_plan(&parts->dir, wanted, first, err);
    }
    if (status == PST_OK)
        status = psti_writer_parts_load(parts, err);
    return status == PST_OK ? compare(parts, wanted, first, err) : status;
}

enum pst_status psti_writer_parts_new(const char *path, struct psti_writer_parts **out,
                                      struct pst_error *err)
{
    size_t n;
    enum pst_status status = psti_writer_check_path(path, 4 * PSTI_PARTS_NAME_CAP, &n, err);
    if (status != PST_OK)
        return status;
    struct psti_writer_parts *parts = psti_calloc(1, sizeof *parts);
    if (parts == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for a plan of shards");
    memcpy(parts->path, path, n);
    parts->dir = (struct psti_writer_dir){.fd = -1, .path = parts->path};
    parts->folder = (struct psti_writer_dir){.fd = -1, .path = parts->folder_path};
    *out = parts;
    return PST_OK;
}

enum pst_status psti_writer_parts_open(const char *path, const struct psti_parts *wanted,
                                       const uint64_t *first, struct psti_writer_parts **out,
                                       struct pst_error *err)
{
    struct psti_writer_parts *parts = NULL;
    bool made = false;
    *out = NULL;
    if (wanted->n_shards > PSTI_PARTS_SHARDS_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "writer",
                         "the plan would have %" PRIu32 " shards, and %d are the most: make them "
                         "larger (--shard-size)",
                         wanted->n_shards, PSTI_PARTS_SHARDS_MAX);
    enum pst_status status = psti_writer_parts_new(path, &parts, err);
    if (status == PST_OK)
        status = enter(parts, &made, err);
    if (status == PST_OK)
        status = open_plan(parts, wanted, first, err);
    if (status == PST_OK) {
        *out = parts;
        return PST_OK;
    }
    psti_error_set_dataset(err, path);
    if (made)
        rmdir(path); /* fails unless it is empty */
    psti_writer_parts_close(&parts);
    return status;
}

void psti_writer_parts_close(struct psti_writer_parts **parts)
{
    struct psti_writer_parts *closed = *parts;
    *parts = NULL;
    if (closed == NULL)
        return;
    if (closed->folder.fd >= 0)
        close(closed->folder.fd);
    if (closed->dir.fd >= 0)
        close(closed->dir.fd);
    psti_free(closed->plan_bytes);
    psti_free(closed);
}

/* Shards -------------------------------------------------------------------- */

void psti_writer_parts_name(uint32_t i_shard, char out[PSTI_PARTS_NAME_CAP])
{
    snprintf(out, PSTI_PARTS_NAME_CAP, "shard-%05" PRIu32, i_shard);
}

enum pst_status psti_writer_parts_look(const struct psti_writer_parts *parts, uint32_t i_shard,
                                       int64_t *n_samples, struct pst_error *err)
{
    char name[PSTI_PARTS_NAME_CAP], path[PATH_MAX];
    pst_dataset *shard = NULL;
    *n_samples = -1;
    psti_writer_parts_name(i_shard, name);
    if (!psti_writer_exists(&parts->folder, name))
        return PST_OK;
    psti_writer_dir_path(&parts->folder, name, path);
    enum pst_status status = pst_dataset_open(path, NULL, &shard, err);
    if (status == PST_OK)
        *n_samples = (int64_t)pst_dataset_count(shard);
    pst_dataset_close(&shard);
    return status;
}

enum pst_status psti_writer_parts_begin(struct psti_writer_parts *parts, uint32_t i_shard,
                                        const struct pst_field *fields, uint32_t n_fields,
                                        const struct pst_writer_options *options, pst_writer **out,
                                        struct pst_error *err)
{
    char path[PATH_MAX];
    struct pst_writer_options create = *options;
    create.mode = PST_WRITER_CREATE;
    snprintf(parts->attempt, sizeof parts->attempt, "try-%05" PRIu32 "-%016" PRIx64, i_shard,
             make_token());
    psti_writer_dir_path(&parts->folder, parts->attempt, path);
    enum pst_status status = pst_writer_open(path, fields, n_fields, &create, out, err);
    if (status == PST_OK)
        (*out)->first_sample = psti_format_parts_first(parts->plan_bytes, &parts->plan, i_shard);
    return status;
}

enum pst_status psti_writer_parts_end(struct psti_writer_parts *parts, uint32_t i_shard,
                                      pst_writer **writer, struct pst_error *err)
{
    char name[PSTI_PARTS_NAME_CAP];
    psti_writer_parts_name(i_shard, name);
    enum pst_status status = pst_writer_finish(*writer, err);
    if (status != PST_OK)
        return status;
    pst_writer_close(writer);
    status = psti_writer_rename(&parts->folder, parts->attempt, name, err);
    if (status != PST_OK && psti_writer_exists(&parts->folder, name)) {
        pst_error_clear(err);
        status = psti_writer_remove_folder(&parts->folder, parts->attempt, err);
    }
    return status == PST_OK ? psti_writer_sync_directory(&parts->folder, err) : status;
}

void psti_writer_parts_undo(struct psti_writer_parts *parts, pst_writer **writer)
{
    pst_writer_close(writer);
    (void)!psti_writer_remove_folder(&parts->folder, parts->attempt, NULL);
}
