/* writer_open.c - opens a writer in one of three modes: looks at the disk, takes the lock, and
 * brings the writer into the state that the mode requires.
 *
 * One thread. Nothing on disk except the lock changes before the given schema was compared with the
 * one on disk. A failed open leaves the disk as it was, except that uncommitted bytes may be gone.
 */
#include "writer/writer_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/options.h"
#include "dataset/dataset.h"
#include "options/options_members.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* True for names of files that packing in parts may leave if it is killed before its plan is in
 * place. */
static bool is_of_parts(const char *name)
{
    return strcmp(name, PSTI_PARTS_NAME) == 0 ||
           psti_format_parts_is_name(PSTI_PARTS_TMP_PREFIX, name) ||
           psti_format_parts_is_name(PSTI_PARTS_FOLDER_PREFIX, name);
}

enum pst_status psti_writer_check_empty(const struct psti_writer_dir *directory, bool takes_parts,
                                        struct pst_error *err)
{
    static const char *const ours[] = {PSTI_LOCK_NAME, PSTI_JOURNAL_TMP_NAME, PSTI_INDEX_TMP_NAME};
    char *names = NULL;
    enum pst_status status = psti_writer_list(directory, &names, err);
    for (const char *name = names; status == PST_OK && name[0] != '\0';
         name = psti_writer_list_next(name)) {
        bool is_ours = takes_parts && is_of_parts(name);
        for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
            is_ours = is_ours || strcmp(name, ours[i]) == 0;
        if (!is_ours)
            status = psti_fail(err, PST_ERROR_EXISTS, "writer",
                               "the directory is not empty and holds no data set of Penstock");
    }
    psti_free(names);
    return status;
}

static enum pst_status check_fields(const struct pst_field *fields, uint32_t n_fields,
                                    struct pst_error *err)
{
    if (n_fields > PST_MAX_FIELDS || (n_fields > 0 && fields == NULL))
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "a data set has 1 to %d fields",
                         PST_MAX_FIELDS);
    for (uint32_t i = 0; i < n_fields; i++) {
        static const uint64_t zeros[sizeof fields->reserved / sizeof fields->reserved[0]];
        const char *problem = psti_format_field_problem(&fields[i]);
        if (problem != NULL)
            return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "field %" PRIu32 " %s", i, problem);
        if (memcmp(fields[i].reserved, zeros, sizeof zeros) != 0)
            return psti_fail(err, PST_ERROR_VERSION, "writer",
                             "field %" PRIu32 " has members that this library does not know", i);
        if (psti_format_name_is_taken(fields, i, fields[i].name))
            return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "two fields are named \"%s\"",
                             fields[i].name);
    }
    return PST_OK;
}

/* Copies `fields` as the schema. If `given` has fields, they must be equal to them. */
static enum pst_status take_fields(pst_writer *writer, const struct pst_field *fields,
                                   uint32_t n_fields, const struct pst_field *given,
                                   uint32_t n_given, struct pst_error *err)
{
    bool equal = n_given == 0 || n_given == n_fields;
    for (uint32_t i = 0; i < n_given && equal; i++) {
        uint8_t ours[PSTI_INDEX_FIELD_NBYTES], theirs[PSTI_INDEX_FIELD_NBYTES];
        if (strcmp(fields[i].name, given[i].name) == 0 &&
            fields[i].n_variants != given[i].n_variants)
            return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                             "field \"%s\" has %u forms on disk, %u are asked for", given[i].name,
                             fields[i].n_variants, given[i].n_variants);
        psti_format_print_field(&fields[i], ours);
        struct pst_field wish = given[i];
        if (writer->base != NULL && fields[i].n_classes > 0 &&
            wish.n_classes > fields[i].n_classes) /* pst_writer_set_class_names adds them */
            wish.n_classes = fields[i].n_classes;
        if (wish.type == PST_FIELD_KEYPOINTS && wish.n_classes == 0 && wish.n_pairs_plus_1 == 0) {
            wish.n_classes = fields[i].n_classes; /* not stated again */
            wish.n_pairs_plus_1 = fields[i].n_pairs_plus_1;
        }
        psti_format_print_field(&wish, theirs);
        equal = memcmp(ours, theirs, sizeof ours) == 0;
    }
    if (!equal)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "the fields differ from those that the data set has on disk");
    memcpy(writer->fields, fields, n_fields * sizeof *fields);
    writer->n_fields = n_fields;
    writer->rows_nbytes = psti_format_rows_nbytes(fields, n_fields);
    return PST_OK;
}

enum pst_status psti_writer_open_base(pst_writer *writer, struct pst_error *err)
{
    enum pst_status status = pst_dataset_open(writer->path, NULL, &writer->base, err);
    if (status == PST_OK && psti_dataset_minor_version(writer->base) > PSTI_DATASET_MINOR)
        status = psti_fail(err, PST_ERROR_VERSION, "writer",
                           "the index has format version %d.%u, this library can read it but adds "
                           "only to %d.%d and older",
                           PSTI_DATASET_MAJOR, psti_dataset_minor_version(writer->base),
                           PSTI_DATASET_MAJOR, PSTI_DATASET_MINOR);
    if (status == PST_OK)
        status = psti_dataset_check_index(writer->base, err);
    if (status != PST_OK)
        return status;
    writer->base_generation = psti_dataset_generation(writer->base);
    writer->base_n_samples = pst_dataset_count(writer->base);
    memcpy(writer->id, pst_dataset_id(writer->base), 16);
    return PST_OK;
}

/* Reads the journal's header. If the index already contains the journal's samples, completes the
 * interrupted finish and sets *has to false. The index's name must be durable before the journal is
 * removed. */
enum pst_status psti_writer_open_journal(pst_writer *writer,
                                         struct pst_field fields[PST_MAX_FIELDS],
                                         uint32_t *n_fields, bool *has, struct pst_error *err)
{
    struct psti_journal_header header = {0};
    enum pst_status status =
        psti_writer_read_journal_header(&writer->dir, PSTI_JOURNAL_NAME, &header, fields, err);
    if (status != PST_OK)
        return status;
    *n_fields = header.n_fields;
    if (writer->base == NULL) {
        memcpy(writer->id, header.id, 16);
        if (header.base_generation != 0)
            return psti_fail(err, PST_ERROR_CORRUPT, "writer",
                             "the journal adds to an index that is not there: " PSTI_INDEX_NAME
                             " was removed");
        return PST_OK;
    }
    if (memcmp(header.id, writer->id, 16) != 0)
        return psti_fail(err, PST_ERROR_CORRUPT, "writer",
                         "the journal belongs to another data set");
    if (header.base_generation + 1 == writer->base_generation) {
        *has = false;
        status = psti_writer_sync_directory(&writer->dir, err);
        return status == PST_OK ? psti_writer_unlink(&writer->dir, PSTI_JOURNAL_NAME, err) : status;
    }
    if (header.base_generation != writer->base_generation ||
        header.base_n_samples != writer->base_n_samples)
        return psti_fail(err, PST_ERROR_CORRUPT, "writer",
                         "the journal adds to another state of the index");
    return PST_OK;
}

/* Derives the id from the schema, so that the same samples give the same bytes. The id only shows
 * that files belong together; identities, which tell data sets apart, are made of all checksums. */
static void make_id(pst_writer *writer)
{
    struct psti_hash_pair hash;
    uint8_t printed[PSTI_INDEX_FIELD_NBYTES];
    psti_hash_pair_begin(&hash);
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        psti_format_print_field(&writer->fields[i], printed);
        psti_hash_pair_update(&hash, printed, sizeof printed);
    }
    psti_hash_pair_end(&hash, writer->id);
}

/* Checks that the mode fits what is on the disk. */
static enum pst_status check_mode(const pst_writer *writer, enum pst_writer_mode mode,
                                  bool has_journal, uint32_t n_given, struct pst_error *err)
{
    if (mode == PST_WRITER_CREATE && writer->base != NULL)
        return psti_fail(err, PST_ERROR_EXISTS, "writer",
                         "a finished data set is there already: append to it, or remove it first");
    if (mode == PST_WRITER_CREATE && has_journal)
        return psti_fail(err, PST_ERROR_INCOMPLETE, "writer",
                         "an unfinished data set is there: resume it, or remove it first");
    if (mode == PST_WRITER_APPEND && writer->base == NULL && has_journal)
        return psti_fail(err, PST_ERROR_INCOMPLETE, "writer",
                         "the data set was never finished: resume it before anything is appended");
    if (writer->base != NULL || has_journal)
        return PST_OK;
    if (mode == PST_WRITER_APPEND)
        return psti_fail(err, PST_ERROR_NOT_FOUND, "writer", "there is no data set to append to");
    if (n_given == 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "a new data set needs at least one field");
    return psti_writer_check_empty(&writer->dir, false, err);
}

enum pst_status psti_writer_check_whole(const pst_writer *writer, struct pst_error *err)
{
    return !psti_writer_exists(&writer->dir, PSTI_PARTS_NAME)
               ? PST_OK
               : psti_fail(err, PST_ERROR_INCOMPLETE, "writer",
                           "the data set is packed in parts: end that by `penstock merge`, or "
                           "remove it first");
}

static enum pst_status open_locked(pst_writer *writer, enum pst_writer_mode mode,
                                   const struct pst_field *given, uint32_t n_given,
                                   struct pst_error *err)
{
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields = 0;
    bool has_journal = psti_writer_exists(&writer->dir, PSTI_JOURNAL_NAME);
    enum pst_status status = psti_writer_check_whole(writer, err);
    if (status == PST_OK && psti_writer_exists(&writer->dir, PSTI_INDEX_NAME))
        status = psti_writer_open_base(writer, err);
    if (status == PST_OK && writer->base != NULL)
        status = psti_writer_settle(writer, err);
    if (status == PST_OK && has_journal)
        status = psti_writer_open_journal(writer, fields, &n_fields, &has_journal, err);
    if (status == PST_OK)
        status = check_mode(writer, mode, has_journal, n_given, err);
    if (status != PST_OK)
        return status;
    if (writer->base != NULL)
        status = take_fields(writer, pst_dataset_field(writer->base, 0),
                             pst_dataset_n_fields(writer->base), given, n_given, err);
    else if (has_journal)
        status = take_fields(writer, fields, n_fields, given, n_given, err);
    else
        status = take_fields(writer, given, n_given, NULL, 0, err);
    if (status == PST_OK && writer->base == NULL && !has_journal)
        make_id(writer);
    if (status == PST_OK && writer->base != NULL)
        status = psti_writer_load_base(writer, err);
    uint32_t first_grown = writer->n_shards > 0 ? writer->n_shards - 1 : 0;
    if (status == PST_OK && has_journal)
        status = psti_writer_load_journal(writer, err);
    writer->first_changed = writer->n_shards;
    if (status == PST_OK)
        status = psti_writer_check_shards(writer, first_grown, err);
    if (status == PST_OK && has_journal)
        status = psti_writer_check_records(writer, err);
    if (status == PST_OK)
        status = psti_writer_trim_shards(writer, first_grown, err);
    /* An earlier writer may have been killed between a rename or mkdir and the following sync. */
    if (status == PST_OK && writer->base == NULL)
        status = psti_writer_sync_parent(&writer->dir, err);
    if (status == PST_OK && has_journal)
        status = psti_writer_sync_directory(&writer->dir, err);
    if (status == PST_OK)
        status = has_journal ? psti_writer_reopen_journal(writer, err)
                             : psti_writer_journal_create(writer, err);
    return status;
}

/* Creates the directory if the mode permits it, and takes the lock. */
enum pst_status psti_writer_enter(pst_writer *writer, enum pst_writer_mode mode,
                                  struct pst_error *err)
{
    struct stat st;
    int no_link = 0; /* the caller may pass a link to an existing directory */
    if (stat(writer->path, &st) != 0) {
        if (errno != ENOENT || mode == PST_WRITER_APPEND)
            return psti_fail_os(err, errno, "writer", writer->path, -1, "cannot open the data set");
        enum pst_status status = psti_writer_make_directory(writer->path, err);
        if (status != PST_OK)
            return status;
        writer->made_directory = true;
        no_link = O_NOFOLLOW;
    } else if (!S_ISDIR(st.st_mode)) {
        return psti_fail(err, PST_ERROR_EXISTS, "writer", "there is a file of that name");
    }
    writer->dir.path = writer->path;
    writer->dir.fd = open(writer->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | no_link);
    if (writer->dir.fd < 0)
        return psti_fail_os(err, errno, "writer", writer->path, -1, "cannot open the directory");
    return psti_writer_lock(&writer->dir, PSTI_LOCK_NAME, &writer->lock_fd, err);
}

enum pst_status psti_writer_new(const char *path, const struct pst_writer_options *options,
                                pst_writer **out, struct pst_error *err)
{
    size_t n;
    enum pst_status status = psti_writer_check_path(path, PSTI_SHARD_NAME_CAP + 2, &n, err);
    if (status != PST_OK)
        return status;
    pst_writer *writer = psti_calloc(1, sizeof *writer);
    if (writer == NULL || (writer->path = psti_strdup(path)) == NULL) {
        psti_free(writer);
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for a writer");
    }
    writer->path[n] = 0;
    writer->pid = getpid();
    writer->journal_name = PSTI_JOURNAL_NAME;
    writer->journal_tmp_name = PSTI_JOURNAL_TMP_NAME;
    writer->index_tmp_name = PSTI_INDEX_TMP_NAME;
    writer->lock_fd = writer->dir.fd = writer->shard.fd = writer->journal.fd = -1;
    writer->shard_nbytes = options->shard_nbytes;
    writer->commit_nbytes = options->commit_nbytes;
    *out = writer;
    return PST_OK;
}

enum pst_status pst_writer_open(const char *path, const struct pst_field *fields, uint32_t n_fields,
                                const struct pst_writer_options *options, pst_writer **out,
                                struct pst_error *err)
{
    struct pst_writer_options full;
    pst_writer *writer = NULL;
    *out = NULL;
    if (path == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "the path of the data set is NULL");
    enum pst_status status = psti_options_copy(&full, sizeof full, options, "writer", err);
    if (status == PST_OK)
        status = psti_options_complete(PST_STRUCT_WRITER_OPTIONS, &full, "writer", err);
    if (status != PST_OK)
        return status;
    status = check_fields(fields, n_fields, err);
    if (status == PST_OK)
        status = psti_writer_new(path, &full, &writer, err);
    if (status == PST_OK)
        status = psti_writer_enter(writer, full.mode, err);
    if (status == PST_OK)
        status = open_locked(writer, full.mode, fields, n_fields, err);
    if (status != PST_OK) {
        psti_error_set_dataset(err, path);
        if (writer != NULL) {
            psti_writer_undo_directory(writer);
            psti_writer_destroy(writer);
        }
        return status;
    }
    *out = writer;
    return PST_OK;
}
