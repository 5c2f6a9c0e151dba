/* share_dataset_one.c - converts one data set to bytes and descriptors, and back. */
#include "share/share_dataset_options.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "base/files/sealed.h"
#include "dataset/dataset.h"
#include "dataset/dataset_members.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FLAG_ALLOW_UNREADABLE = 1,
    FLAG_LABELS = 2,
    FLAG_FILES = 4,
    FLAG_IGNORE_LABELS = 8,
    FLAG_CONTAINER = 16,
    FLAGS = 31,
    FLAG_MIXTURE = 32 /* this flag is never combined with others */
};
#define FILES_NBYTES_MAX ((size_t)1 << 30) /* limit for all names in a list of files */
enum { FD_PATH_CAP = 32 };

static enum pst_status add_folder(const char *path, int *fds, uint32_t *n_fds,
                                  struct pst_error *err)
{
    int fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return psti_fail_os(err, errno, "share", path, -1, "cannot open it for the host service");
    fds[(*n_fds)++] = fd;
    return PST_OK;
}

static enum pst_status add_copy(int fd, int *fds, uint32_t *n_fds, struct pst_error *err)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return psti_fail_os(err, errno, "share", NULL, -1, "cannot open it for the host service");
    fds[(*n_fds)++] = copy;
    return PST_OK;
}

static enum pst_status add_labels(const char *path, int *fds, uint32_t *n_fds,
                                  struct pst_error *err)
{
    struct stat st;
    enum pst_status status =
        psti_open_data(path, "share", "the label file", &fds[*n_fds], &st, err);
    *n_fds += status == PST_OK;
    return status;
}

/* Writes the names of all samples, which are files of a list, each ending with a NUL. `names` may
 * be NULL. Returns the bytes needed; 0: a name cannot be read. */
static size_t write_names(const pst_dataset *dataset, char *names)
{
    char name[PST_NAME_CAP];
    size_t nbytes = 0;
    for (uint64_t i = 0; i < pst_dataset_count(dataset); i++) {
        if (pst_dataset_sample_name(dataset, i, name, NULL) != PST_OK)
            return 0;
        size_t n = strlen(name) + 1;
        if (names)
            memcpy(names + nbytes, name, n);
        nbytes += n;
    }
    return nbytes;
}

static enum pst_status add_files(const pst_dataset *dataset, int *fds, uint32_t *n_fds,
                                 struct pst_error *err)
{
    size_t nbytes = write_names(dataset, NULL);
    if (nbytes == 0 || nbytes > FILES_NBYTES_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "share",
                         "%zu bytes of names are too many for the host service", nbytes);
    char *names = psti_alloc(nbytes);
    if (!names)
        return psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for names of files");
    write_names(dataset, names);
    enum pst_status status =
        psti_sealed_blob_make("penstock-files", names, nbytes, &fds[*n_fds], err);
    *n_fds += status == PST_OK;
    psti_free(names);
    return status;
}

enum pst_status psti_share_put_one(struct psti_wire_out *out, const pst_dataset *dataset,
                                   int fds[PSTI_SHARE_ONE_FDS], uint32_t *n_fds,
                                   struct pst_error *err)
{
    const struct pst_dataset_options *options = psti_dataset_options(dataset);
    const char *path = pst_dataset_path(dataset);
    int folder, index;
    *n_fds = 0;
    bool is_container = psti_dataset_container_fds(dataset, &folder, &index);
    enum pst_status status =
        is_container ? add_copy(folder, fds, n_fds, err) : add_folder(path, fds, n_fds, err);
    if (status == PST_OK && is_container)
        status = add_copy(index, fds, n_fds, err);
    if (status == PST_OK && options->labels)
        status = add_labels(options->labels, fds, n_fds, err);
    if (status == PST_OK && options->n_files > 0)
        status = add_files(dataset, fds, n_fds, err);
    if (status == PST_OK && options->n_masks > PST_MAX_FIELDS)
        status =
            psti_fail(err, PST_ERROR_LIMIT, "share", "%zu masks are too many", options->n_masks);
    if (status != PST_OK) {
        while (*n_fds > 0)
            close(fds[--*n_fds]);
        return status;
    }
    psti_share_put_text(out, path);
    psti_share_put_bytes(out, psti_dataset_bytes_identity(dataset), PST_IDENTITY_NBYTES);
    psti_share_put_u32(out, (options->allow_unreadable ? FLAG_ALLOW_UNREADABLE : 0u) |
                                (options->labels ? FLAG_LABELS : 0u) |
                                (options->n_files > 0 ? FLAG_FILES : 0u) |
                                (options->ignore_labels ? FLAG_IGNORE_LABELS : 0u) |
                                (is_container ? FLAG_CONTAINER : 0u));
    psti_share_put_u32(out, (uint32_t)options->n_masks);
    for (size_t i = 0; i < options->n_masks; i++)
        psti_share_put_text(out, options->masks[i]);
    return PST_OK;
}

void psti_share_get_dataset(struct psti_wire_in *in, struct psti_share_dataset *dataset)
{
    memset(dataset, 0, sizeof *dataset);
    psti_share_get_text(in, dataset->path, sizeof dataset->path);
    psti_share_get_bytes(in, dataset->version, sizeof dataset->version);
    uint32_t flags = psti_share_get_u32(in);
    dataset->is_mixture = flags == FLAG_MIXTURE;
    dataset->allow_unreadable = flags & FLAG_ALLOW_UNREADABLE;
    dataset->has_labels = flags & FLAG_LABELS;
    dataset->has_files = flags & FLAG_FILES;
    dataset->ignore_labels = flags & FLAG_IGNORE_LABELS;
    dataset->is_container = flags & FLAG_CONTAINER;
    dataset->n_masks = psti_share_get_u32(in);
    if (dataset->is_container && (dataset->has_labels || dataset->has_files))
        in->bad = true;
    if (((flags & ~(uint32_t)FLAGS) && !dataset->is_mixture) || dataset->n_masks > PST_MAX_FIELDS ||
        (dataset->n_masks > 0 && !dataset->has_labels) ||
        (dataset->has_files && dataset->has_labels) || !dataset->path[0]) {
        in->bad = true;
        dataset->n_masks = 0;
    }
    for (uint32_t i = 0; i < dataset->n_masks; i++)
        if (!psti_share_get_text(in, dataset->masks[i], sizeof dataset->masks[i]))
            in->bad = true;
}

/* Reads the names in the blob, and opens the data set with that list of files. */
static enum pst_status open_files(const char *path, struct pst_dataset_options *options, int fd,
                                  pst_dataset **out, struct pst_error *err)
{
    const void *blob = NULL;
    size_t nbytes = 0;
    enum pst_status status = psti_sealed_blob_map(fd, FILES_NBYTES_MAX, &blob, &nbytes, err);
    if (status != PST_OK)
        return status;
    const char *names = blob, **files = NULL;
    size_t n = 0;
    for (size_t i = 0; i < nbytes; i++)
        n += names[i] == 0;
    if (names[nbytes - 1] != 0)
        status = psti_fail(err, PST_ERROR_CORRUPT, "share", "the list of files has no end");
    else if (!(files = psti_alloc_array(n, sizeof *files)))
        status = psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for %zu names", n);
    for (size_t i = 0; status == PST_OK && i < n; i++, names += strlen(names) + 1)
        files[i] = names;
    options->files = files;
    options->n_files = n;
    if (status == PST_OK)
        status = pst_dataset_open(path, options, out, err);
    psti_free(files);
    psti_sealed_unmap(blob, nbytes);
    return status;
}

static enum pst_status open_by_fds(const struct psti_share_dataset *dataset, const int *fds,
                                   pst_dataset **out, struct pst_error *err)
{
    char path[FD_PATH_CAP], labels[FD_PATH_CAP];
    const char *masks[PST_MAX_FIELDS];
    struct pst_dataset_options options = {.struct_size = sizeof options,
                                          .allow_unreadable = dataset->allow_unreadable,
                                          .ignore_labels = dataset->ignore_labels,
                                          .masks = dataset->n_masks ? masks : NULL,
                                          .n_masks = dataset->n_masks};
    for (uint32_t i = 0; i < dataset->n_masks; i++)
        masks[i] = dataset->masks[i];
    if (dataset->is_container)
        return psti_dataset_open_by_fds(fds[0], fds[1], out, err);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fds[0]);
    if (dataset->has_labels) {
        snprintf(labels, sizeof labels, "/proc/self/fd/%d", fds[1]);
        options.labels = labels;
    }
    if (dataset->has_files)
        return open_files(path, &options, fds[1], out, err);
    return pst_dataset_open(path, &options, out, err);
}

uint32_t psti_share_one_fds(const struct psti_share_dataset *dataset)
{
    return dataset->has_labels || dataset->has_files || dataset->is_container ? 2 : 1;
}

void psti_share_put_mixture_head(struct psti_wire_out *out, const pst_dataset *dataset)
{
    psti_share_put_text(out, pst_dataset_path(dataset));
    psti_share_put_bytes(out, psti_dataset_bytes_identity(dataset), PST_IDENTITY_NBYTES);
    psti_share_put_u32(out, FLAG_MIXTURE);
    psti_share_put_u32(out, 0); /* number of masks */
}

/* True if the descriptor is of that kind. Opening another kind, such as a pipe, could wait
 * forever. */
static bool is_of_kind(int fd, mode_t kind)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

enum pst_status psti_share_check_version(const struct psti_share_dataset *dataset,
                                         enum pst_status status, pst_dataset **out,
                                         struct pst_error *err)
{
    if (status == PST_OK &&
        memcmp(psti_dataset_bytes_identity(*out), dataset->version, sizeof dataset->version) != 0)
        status = psti_fail(err, PST_ERROR_STATE, "share",
                           "the data set has changed since this process opened it: open it again");
    if (status == PST_OK)
        return PST_OK;
    pst_dataset_close(out);
    psti_error_set_dataset(err, dataset->path);
    return status;
}

enum pst_status psti_share_open_one(const struct psti_share_dataset *dataset, const int *fds,
                                    uint32_t n_fds, pst_dataset **out, struct pst_error *err)
{
    *out = NULL;
    if (n_fds != psti_share_one_fds(dataset) || !is_of_kind(fds[0], S_IFDIR) ||
        (n_fds == 2 && !is_of_kind(fds[1], S_IFREG)))
        return psti_fail(err, PST_ERROR_CORRUPT, "share",
                         "a data set came with %u descriptors, or with others than a directory and "
                         "a file",
                         n_fds);
    return psti_share_check_version(dataset, open_by_fds(dataset, fds, out, err), out, err);
}
