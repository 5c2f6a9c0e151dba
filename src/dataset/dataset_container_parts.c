/* dataset_container_parts.c - joins the checksums that several ranks collected, through files
 * beside the index.
 *
 * In: the checksums that this process knows. Out: a file with them, and the checksums in the files
 * of others. Ranks play no role here: a file has checksums of some items of one index, whoever read
 * them. So it stays useful if the number of ranks changes, and if its writer is dead.
 *
 * A file is written once, under a unique name, and appears only when complete. A process removes
 * only files whose checksums are in its own newest file. So no checksum is lost, in whatever order
 * processes write and remove files. One thread. */
#include "dataset/dataset_container_parts.h"

#include "dataset/dataset_saved_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/files/output.h"
#include "base/files/read.h"
#include "base/hash.h"
#include "base/log.h"
#include "format/format_container.h"
#include "format/format_sums.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOM "dataset"
enum { PIECE_NBYTES = 1 << 17 };

struct part_name {
    char text[PSTI_SAVED_FILE_CAP];
};

struct psti_sums_parts {
    const pst_dataset *dataset;
    struct psti_sums head; /* what the header of a checksum file must state to belong to this index:
                            * key, n_samples, fields */
    struct part_name own;  /* name of this process's file; "": not written yet */
    uint64_t n_written;    /* number of checksums in this process's file */
    struct part_name *joined;
    size_t n_joined, capacity; /* number of files of other processes that were read; capacity of
                                * their list */
    uint64_t sums[PSTI_SUMS_CHUNK];
    uint8_t piece[PIECE_NBYTES]; /* buffer for a chunk of a file */
};

enum pst_status psti_dataset_parts_open(const pst_dataset *dataset, uint64_t fields,
                                        struct psti_sums_parts **out, struct pst_error *err)
{
    uint8_t header[PSTI_INDEX_HEADER_NBYTES];
    struct psti_hash_pair hash;
    struct psti_sums_parts *parts = *out = psti_calloc(1, sizeof *parts);
    if (parts == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for the sums of other processes");
    parts->dataset = dataset;
    parts->head = (struct psti_sums){.n_samples = dataset->n_samples, .fields = fields};
    psti_format_print_container_header(psti_dataset_container_header(dataset), header);
    psti_hash_pair_begin(&hash);
    psti_hash_pair_update(&hash, header, sizeof header);
    psti_hash_pair_end(&hash, parts->head.key);
    return PST_OK;
}

void psti_dataset_parts_close(struct psti_sums_parts **parts)
{
    if (*parts != NULL)
        psti_free((*parts)->joined);
    psti_free(*parts);
    *parts = NULL;
}

/* Writing ------------------------------------------------------------------------------------- */

static bool has_column(const struct psti_sums_parts *parts, uint32_t f)
{
    return (parts->head.fields >> f & 1) != 0;
}

static size_t chunk_size(const struct psti_sums_parts *parts, uint64_t first)
{
    uint64_t left = parts->head.n_samples - first;
    return left < PSTI_SUMS_CHUNK ? (size_t)left : PSTI_SUMS_CHUNK;
}

static enum pst_status append(struct psti_output *out, struct psti_hash_state *hash,
                              const uint8_t *bytes, size_t nbytes, struct pst_error *err)
{
    psti_hash_update(hash, bytes, nbytes);
    return psti_output_append(out, bytes, nbytes, err);
}

static enum pst_status write_columns(struct psti_sums_parts *parts,
                                     const struct psti_container_known *known,
                                     struct psti_output *out, struct pst_error *err)
{
    struct psti_hash_state hash;
    uint8_t end[PSTI_SUMS_END_NBYTES];
    enum pst_status status = PST_OK;
    psti_hash_begin(&hash);
    for (uint32_t f = 0; f < PST_MAX_FIELDS; f++)
        for (uint64_t first = 0; status == PST_OK && has_column(parts, f) &&
                                 first < parts->head.n_samples;
             first += PSTI_SUMS_CHUNK) {
            size_t n = chunk_size(parts, first);
            for (size_t i = 0; i < n; i++)
                parts->sums[i] =
                    atomic_load_explicit(&known->columns[f][first + i], memory_order_relaxed);
            size_t nbytes = psti_format_print_sums_chunk(parts->sums, n, parts->piece);
            status = append(out, &hash, parts->piece, nbytes, err);
        }
    psti_store_u64(end, psti_hash_end(&hash));
    if (status == PST_OK)
        status = psti_output_append(out, end, sizeof end, err);
    return status == PST_OK ? psti_output_sync(out, err) : status;
}

/* Writes a file under a temporary name, and renames it once it is complete. */
static enum pst_status write_file(struct psti_sums_parts *parts, int dir, const char *temporary,
                                  const char *name, const struct psti_container_known *known,
                                  uint64_t n, struct pst_error *err)
{
    struct psti_output out = {.fd = -1};
    struct psti_sums head = parts->head;
    uint8_t header[PSTI_SUMS_HEADER_NBYTES];
    head.n = n;
    psti_format_print_sums(&head, header);
    enum pst_status status = psti_output_prepare(&out, ROOM, name, 0, 1 << 16, err);
    if (status != PST_OK)
        return status;
    out.fd = psti_fault(PSTI_FAULT_WRITE)
                 ? (errno = ENOSPC, -1)
                 : openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                          0666);
    if (out.fd < 0)
        status = psti_fail_os(err, errno, ROOM, name, -1, "cannot make a file for sums");
    if (status == PST_OK)
        status = psti_output_append(&out, header, sizeof header, err);
    if (status == PST_OK)
        status = write_columns(parts, known, &out, err);
    psti_output_close(&out);
    if (status == PST_OK && (psti_fault(PSTI_FAULT_WRITE)
                                 ? (errno = ENOSPC, -1)
                                 : renameat(dir, temporary, dir, name)) != 0)
        status = psti_fail_os(err, errno, ROOM, name, -1, "cannot name a file of sums");
    if (status != PST_OK)
        unlinkat(dir, temporary, 0);
    else
        psti_sync_directory(dir, ".");
    return status;
}

enum pst_status psti_dataset_parts_write(struct psti_sums_parts *parts, struct psti_saved *saved,
                                         unsigned place, const struct psti_container_known *known,
                                         uint64_t n, struct pst_error *err)
{
    struct part_name name, temporary;
    struct stat st;
    int dir = psti_dataset_saved_open_place(saved, place, NULL);
    if (dir < 0)
        return psti_fail_os(err, errno, ROOM, saved->folder, -1,
                            "the folder of the index does not open");
    bool is_there = n == 0 || (parts->own.text[0] != '\0' &&
                               fstatat(dir, parts->own.text, &st, AT_SYMLINK_NOFOLLOW) == 0);
    if (is_there && n == parts->n_written) {
        close(dir);
        return PST_OK;
    }
    psti_dataset_saved_name_maker(saved); /* sets a new token, which makes the file's name unique */
    snprintf(name.text, sizeof name.text, "%s" PSTI_SUMS_SUFFIX "%016" PRIx64, saved->name,
             saved->note.token);
    snprintf(temporary.text, sizeof temporary.text, "%s.tmp-%016" PRIx64, saved->name,
             saved->note.token);
    enum pst_status status = write_file(parts, dir, temporary.text, name.text, known, n, err);
    if (status == PST_OK) {
        if (parts->own.text[0] != '\0')
            unlinkat(dir, parts->own.text, 0);
        for (size_t i = 0; i < parts->n_joined; i++)
            unlinkat(dir, parts->joined[i].text, 0);
        parts->n_joined = 0;
        parts->own = name;
        parts->n_written = n;
    }
    close(dir);
    return status;
}

void psti_dataset_parts_remove(struct psti_sums_parts *parts, struct psti_saved *saved,
                               unsigned place)
{
    int dir = psti_dataset_saved_open_place(saved, place, NULL);
    if (dir >= 0 && parts->own.text[0] != '\0')
        unlinkat(dir, parts->own.text, 0);
    if (dir >= 0)
        close(dir);
}

/* Joining ------------------------------------------------------------------------------------- */

static bool was_joined(const struct psti_sums_parts *parts, const char *name)
{
    for (size_t i = 0; i < parts->n_joined; i++)
        if (strcmp(parts->joined[i].text, name) == 0)
            return true;
    return strcmp(parts->own.text, name) == 0;
}

/* Opens another process's file of checksums. Returns -1 if it is for another index or its owner is
 * not trusted. */
static int open_part(const struct psti_sums_parts *parts, const struct psti_saved *saved,
                     unsigned place, int dir, const char *name, struct psti_sums *head)
{
    uint8_t header[PSTI_SUMS_HEADER_NBYTES];
    uint64_t nbytes;
    struct stat st;
    int fd = openat(dir, name, PSTI_OPEN_FLAGS | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        psti_dataset_saved_trusts(saved, place, &st) &&
        psti_read_at(fd, header, sizeof header, 0) == (ssize_t)sizeof header &&
        psti_format_parse_sums(header, head, NULL) == PST_OK &&
        memcmp(head->key, parts->head.key, sizeof head->key) == 0 &&
        head->n_samples == parts->head.n_samples && head->fields == parts->head.fields &&
        psti_format_sums_nbytes(head, &nbytes) && nbytes == (uint64_t)st.st_size)
        return fd;
    close(fd);
    return -1;
}

/* True if the bytes behind the header match their checksum. */
static bool is_whole(struct psti_sums_parts *parts, int fd, uint64_t nbytes)
{
    struct psti_hash_state hash;
    uint8_t end[PSTI_SUMS_END_NBYTES];
    uint64_t at = PSTI_SUMS_HEADER_NBYTES, last = nbytes - PSTI_SUMS_END_NBYTES;
    psti_hash_begin(&hash);
    while (at < last) {
        size_t n = last - at < PIECE_NBYTES ? (size_t)(last - at) : PIECE_NBYTES;
        if (psti_read_at(fd, parts->piece, n, at) != (ssize_t)n)
            return false;
        psti_hash_update(&hash, parts->piece, n);
        at += n;
    }
    return psti_read_at(fd, end, sizeof end, last) == (ssize_t)sizeof end &&
           psti_load_u64(end) == psti_hash_end(&hash);
}

/* Reads the next chunk of a column, and moves *at behind it. False: the chunk is not valid. */
static bool read_chunk(struct psti_sums_parts *parts, int fd, size_t n, uint64_t *at)
{
    size_t n_bits = psti_format_sums_bits(n);
    uint8_t *stored = parts->piece + n_bits;
    if (psti_read_at(fd, parts->piece, n_bits, *at) != (ssize_t)n_bits)
        return false;
    size_t n_sums = psti_format_sums_in_chunk(parts->piece, n);
    if (n_sums == SIZE_MAX ||
        psti_read_at(fd, stored, n_sums * 8, *at + n_bits) != (ssize_t)(n_sums * 8))
        return false;
    *at += n_bits + n_sums * 8;
    return psti_format_parse_sums_chunk(parts->piece, stored, n, parts->sums);
}

static enum pst_status add_chunk(const struct psti_sums_parts *parts, uint32_t i_field,
                                 uint64_t first, size_t n, _Atomic uint64_t *column,
                                 _Atomic uint64_t *n_known, struct pst_error *err)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t old = atomic_load_explicit(&column[first + i], memory_order_relaxed);
        if (parts->sums[i] == 0 || parts->sums[i] == old)
            continue;
        if (old != 0) {
            psti_fail(err, PST_ERROR_CHECKSUM, ROOM,
                      "two processes have read different bytes of field \"%s\" of the sample",
                      pst_dataset_field(parts->dataset, i_field)->name);
            psti_dataset_name_error(parts->dataset, (int64_t)(first + i), err);
            return PST_ERROR_CHECKSUM;
        }
        atomic_store_explicit(&column[first + i], parts->sums[i], memory_order_relaxed);
        atomic_fetch_add_explicit(n_known, 1, memory_order_relaxed);
    }
    return PST_OK;
}

/* Adds the checksums of a file. *is_good: false, with PST_OK, if the file is damaged. */
static enum pst_status add_part(struct psti_sums_parts *parts, int fd, const struct psti_sums *head,
                                struct psti_container_known *known, _Atomic uint64_t *n_known,
                                bool *is_good, struct pst_error *err)
{
    uint64_t at = PSTI_SUMS_HEADER_NBYTES, nbytes;
    *is_good = psti_format_sums_nbytes(head, &nbytes) && is_whole(parts, fd, nbytes);
    for (uint32_t f = 0; f < PST_MAX_FIELDS; f++)
        for (uint64_t first = 0;
             *is_good && has_column(parts, f) && first < parts->head.n_samples;
             first += PSTI_SUMS_CHUNK) {
            size_t n = chunk_size(parts, first);
            *is_good = read_chunk(parts, fd, n, &at);
            enum pst_status status =
                *is_good ? add_chunk(parts, f, first, n, known->columns[f], n_known, err) : PST_OK;
            if (status != PST_OK)
                return status;
        }
    *is_good = *is_good && at + PSTI_SUMS_END_NBYTES == nbytes;
    return PST_OK;
}

static bool remember(struct psti_sums_parts *parts, const char *name)
{
    if (parts->n_joined == parts->capacity) {
        size_t capacity = parts->capacity * 2 + 16;
        struct part_name *joined = psti_realloc(parts->joined, capacity * sizeof *joined);
        if (joined == NULL)
            return false;
        parts->joined = joined;
        parts->capacity = capacity;
    }
    snprintf(parts->joined[parts->n_joined++].text, PSTI_SAVED_FILE_CAP, "%s", name);
    return true;
}

/* Returns the next file of checksums in a folder that was not joined yet; NULL: there is none. */
static const char *next_name(const struct psti_sums_parts *parts, const struct psti_saved *saved,
                             DIR *folder)
{
    const struct dirent *entry;
    size_t n = strlen(saved->name), n_suffix = strlen(PSTI_SUMS_SUFFIX);
    while ((entry = readdir(folder)) != NULL)
        if (strncmp(entry->d_name, saved->name, n) == 0 &&
            strncmp(entry->d_name + n, PSTI_SUMS_SUFFIX, n_suffix) == 0 &&
            strlen(entry->d_name) < PSTI_SAVED_FILE_CAP && !was_joined(parts, entry->d_name))
            return entry->d_name;
    return NULL;
}

/* Reads one file and adds its checksums, if it is for this index and its owner is trusted. */
static enum pst_status join_one(struct psti_sums_parts *parts, struct psti_saved *saved,
                                unsigned place, int dir, const char *name,
                                struct psti_container_known *known, _Atomic uint64_t *n,
                                struct pst_error *err)
{
    struct psti_sums head;
    bool is_good;
    int fd = open_part(parts, saved, place, dir, name, &head);
    if (fd < 0)
        return PST_OK;
    enum pst_status status = add_part(parts, fd, &head, known, n, &is_good, err);
    close(fd);
    if (status == PST_OK && !is_good)
        psti_log(PST_LOG_WARNING, ROOM, "%s: the file of sums is damaged, and is not used",
                 psti_dataset_saved_show(saved, place, name));
    if (status == PST_OK && is_good)
        (void)remember(parts, name); /* without memory for its name, the file is not removed
                                      * later */
    return status;
}

enum pst_status psti_dataset_parts_join(struct psti_sums_parts *parts, struct psti_saved *saved,
                                        unsigned place, struct psti_container_known *known,
                                        _Atomic uint64_t *n, uint64_t n_wanted,
                                        struct pst_error *err)
{
    enum pst_status status = PST_OK;
    int dir = psti_dataset_saved_open_place(saved, place, NULL);
    DIR *folder = dir < 0 ? NULL : fdopendir(dir);
    const char *name;
    if (folder == NULL) {
        status = psti_fail_os(err, errno, ROOM, saved->folder, -1,
                              "the folder of the index does not open");
        if (dir >= 0)
            close(dir);
        return status;
    }
    uint64_t n_there = atomic_load(n);
    while (n_there < n_wanted && (name = next_name(parts, saved, folder)) != NULL) {
        struct psti_sums head = {.n = 0};
        int fd = open_part(parts, saved, place, dir, name, &head);
        if (fd >= 0)
            close(fd);
        n_there += fd >= 0 ? head.n : 0;
    }
    rewinddir(folder);
    while (status == PST_OK && n_there >= n_wanted && atomic_load(n) < n_wanted &&
           (name = next_name(parts, saved, folder)) != NULL)
        status = join_one(parts, saved, place, dir, name, known, n, err);
    closedir(folder);
    return status;
}
