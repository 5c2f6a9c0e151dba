/* dataset_container_sums.c - adds the checksum of each item to an index of containers.
 *
 * In: a finished index that nobody uses yet. The items are read in the order of the samples, which
 * is that of the files. Or their checksums are known (dataset_container_note.c) or already in the
 * rows (walk/dataset_walk_record.c). First the rows are written, then the checksums of the index's
 * blocks, and last the header. If writing stops in between, the index fails its own checksums.
 *
 * Rows and pages are read directly from the file, not through the data set, whose blocks change
 * here. */
#include "dataset/dataset_container.h"

#include "dataset/dataset_saved.h"
#include "dataset/walk/dataset_summer.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/files/read.h"
#include "base/hash.h"
#include "format/format_container.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM "dataset"
enum { CHUNK_SAMPLES = 1024 };

struct adding {
    pst_dataset *dataset;
    struct psti_saved *saved;
    const struct psti_container_known *known; /* NULL: items are read to compute their checksums */
    bool in_rows;                             /* checksums that are already in the rows are kept */
    const char *index_path;
    int index_fd;
    int file_fd;
    uint32_t i_file; /* number of the file that file_fd is; UINT32_MAX: none */
    uint8_t *rows;   /* rows of CHUNK_SAMPLES samples of one field */
    uint8_t *piece;  /* one block of the index */
    struct psti_summer summer;
    struct pst_progress progress;
};

static enum pst_status write_index(const struct adding *adding, uint64_t offset, const void *bytes,
                                   size_t nbytes, struct pst_error *err)
{
    const uint8_t *from = bytes;
    while (nbytes > 0) {
        ssize_t n = psti_fault(PSTI_FAULT_WRITE)
                        ? (errno = ENOSPC, -1)
                        : pwrite(adding->index_fd, from, nbytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return psti_fail_os(err, n < 0 ? errno : EIO, ROOM, adding->index_path, (int64_t)offset,
                                "cannot write the index");
        from += n;
        offset += (uint64_t)n;
        nbytes -= (size_t)n;
    }
    return PST_OK;
}

static enum pst_status read_index(const struct adding *adding, uint64_t offset, void *bytes,
                                  size_t nbytes, struct pst_error *err)
{
    ssize_t n = psti_read_at(adding->index_fd, bytes, nbytes, offset);
    if (n < 0)
        return psti_fail_os(err, errno, ROOM, adding->index_path, (int64_t)offset,
                            "cannot read the index");
    return (size_t)n == nbytes ? PST_OK
                               : psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, adding->index_path,
                                              (int64_t)offset, "the index was cut short");
}

/* Closes the current file, and checks that it is still what was indexed. begin_file makes the same
 * check before the first item is read. */
static enum pst_status end_file(struct adding *adding, struct pst_error *err)
{
    if (adding->file_fd < 0)
        return PST_OK;
    close(adding->file_fd);
    adding->file_fd = -1;
    enum pst_status status =
        psti_dataset_container_compare_file(adding->dataset, adding->i_file, err);
    return status == PST_ERROR_CORRUPT
               ? psti_fail(err, PST_ERROR_STATE, ROOM, "a file changed while its sums were made")
               : status;
}

static enum pst_status begin_file(struct adding *adding, uint32_t i_file, struct pst_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    enum pst_status status = end_file(adding, err);
    if (status == PST_OK)
        status = psti_dataset_container_compare_file(adding->dataset, i_file, err);
    if (status == PST_OK)
        status = pst_dataset_file_path(adding->dataset, i_file, path, sizeof path, err);
    if (status == PST_OK)
        status = psti_open_data(path, ROOM, "the file", &adding->file_fd, &st, err);
    adding->i_file = i_file;
    psti_dataset_summer_file(&adding->summer, adding->file_fd);
    return status;
}

/* Adds the file and the sample to an error. Returns the status. */
static enum pst_status locate(const struct adding *adding, uint64_t sample, enum pst_status status,
                              struct pst_error *err)
{
    if (status == PST_OK || err == NULL)
        return status;
    psti_error_set_file(err, psti_dataset_container_file_name(adding->dataset, adding->i_file));
    err->sample = (int64_t)sample;
    return status;
}

/* Reads the index entry of a page of the current file. */
static enum pst_status find_page(const struct adding *adding, uint64_t i_page,
                                 struct psti_container_page_entry *page, struct pst_error *err)
{
    const struct psti_container_header *header = psti_dataset_container_header(adding->dataset);
    uint8_t bytes[PSTI_CONTAINER_PAGE_NBYTES];
    if (i_page >= header->n_pages)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "an item lies in no page of the index");
    enum pst_status status =
        read_index(adding, header->pages_offset + i_page * PSTI_CONTAINER_PAGE_NBYTES, bytes,
                   sizeof bytes, err);
    if (status == PST_OK)
        status = psti_format_parse_container_page(bytes, page, err);
    if (status == PST_OK && page->i_file != adding->i_file)
        status = psti_fail(err, PST_ERROR_CORRUPT, ROOM, "an item lies in a page of another file");
    return status;
}

/* Computes the checksum of an item in a page; it covers the item's decoded bytes only. */
static enum pst_status sum_paged(struct adding *adding, uint32_t i_field,
                                 struct psti_container_item *item, struct pst_error *err)
{
    struct psti_container_page_entry page;
    enum pst_status status = PST_OK;
    if (!psti_dataset_summer_has(&adding->summer, i_field, item->i_page)) {
        status = find_page(adding, item->i_page, &page, err);
        if (status == PST_OK)
            status = psti_dataset_summer_page(&adding->summer, i_field,
                                              pst_dataset_field(adding->dataset, i_field)->name,
                                              item->i_page, &page, err);
    }
    return status == PST_OK ? psti_dataset_summer_paged(&adding->summer, i_field, item->offset,
                                                        item->nbytes, &item->sum, err)
                            : status;
}

/* True if the field gets checksums. */
static bool takes(const struct adding *adding, uint32_t i_field)
{
    return psti_format_has_items(pst_dataset_field(adding->dataset, i_field)->type) &&
           (adding->known == NULL || adding->known->columns[i_field] != NULL);
}

static enum pst_status sum_item(struct adding *adding, uint64_t sample, uint32_t i_field,
                                uint8_t *row, uint32_t row_nbytes, struct pst_error *err)
{
    struct psti_container_item item;
    psti_format_parse_container_item(row, row_nbytes, &item);
    if (item.place != PSTI_CONTAINER_IN_FILE && item.place != PSTI_CONTAINER_IN_PAGE)
        return PST_OK;
    if (adding->known != NULL) {
        item.sum =
            atomic_load_explicit(&adding->known->columns[i_field][sample], memory_order_relaxed);
        psti_format_print_container_item(&item, row, row_nbytes);
        return PST_OK;
    }
    if (adding->in_rows && item.sum != 0 && item.sum >> 32 != PSTI_CONTAINER_CRC >> 32)
        return PST_OK;
    enum pst_status status =
        item.place == PSTI_CONTAINER_IN_PAGE
            ? sum_paged(adding, i_field, &item, err)
            : psti_dataset_summer_stored(&adding->summer,
                                         pst_dataset_field(adding->dataset, i_field)->name,
                                         item.offset, item.nbytes, &item.sum, err);
    adding->progress.nbytes_in = adding->summer.nbytes;
    if (status == PST_OK)
        psti_format_print_container_item(&item, row, row_nbytes);
    return locate(adding, sample, status, err);
}

/* Computes the checksums of the items of n samples that lie in one file. */
static enum pst_status sum_samples(struct adding *adding, uint64_t first, uint64_t n,
                                   struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t f = 0; status == PST_OK && f < pst_dataset_n_fields(adding->dataset); f++) {
        const struct psti_container_field *field = psti_dataset_container_field(adding->dataset, f);
        uint32_t row_nbytes = field->row_nbytes;
        uint64_t at = field->column_offset + first * row_nbytes;
        size_t nbytes = (size_t)n * row_nbytes;
        if (!takes(adding, f))
            continue;
        status = read_index(adding, at, adding->rows, nbytes, err);
        for (uint64_t i = 0; status == PST_OK && i < n; i++)
            status = sum_item(adding, first + i, f, adding->rows + i * row_nbytes, row_nbytes, err);
        if (status == PST_OK)
            status = write_index(adding, at, adding->rows, nbytes, err);
    }
    adding->progress.n_done += n;
    return status == PST_OK ? psti_dataset_saved_tell(adding->saved, &adding->progress, err)
                            : status;
}

static enum pst_status sum_all(struct adding *adding, struct pst_error *err)
{
    uint32_t n_files = pst_dataset_n_files(adding->dataset);
    uint64_t n_samples = pst_dataset_count(adding->dataset);
    enum pst_status status = PST_OK;
    adding->progress.n_total = n_samples;
    for (uint32_t i = 0; status == PST_OK && i < n_files; i++) {
        uint64_t first = psti_dataset_container_first_sample(adding->dataset, i);
        uint64_t end = i + 1 < n_files ? psti_dataset_container_first_sample(adding->dataset, i + 1)
                                       : n_samples;
        status = adding->known == NULL ? begin_file(adding, i, err) : PST_OK;
        for (uint64_t n; status == PST_OK && first < end; first += n) {
            n = end - first < CHUNK_SAMPLES ? end - first : CHUNK_SAMPLES;
            status = sum_samples(adding, first, n, err);
        }
    }
    return status == PST_OK ? end_file(adding, err) : status;
}

/* Marks the fields in the index that have all checksums. *all: true if all fields have. */
static enum pst_status mark_fields(struct adding *adding,
                                   const struct psti_container_header *header, bool *all,
                                   struct pst_error *err)
{
    const uint8_t mark = PSTI_CONTAINER_SUMS_ALL;
    enum pst_status status = PST_OK;
    *all = true;
    for (uint32_t f = 0; status == PST_OK && f < header->n_fields; f++) {
        uint64_t at = header->fields_offset + (uint64_t)f * PSTI_INDEX_FIELD_NBYTES;
        if (takes(adding, f))
            status = write_index(adding, at + PSTI_CONTAINER_FIELD_SUMS, &mark, 1, err);
        else
            *all = *all && psti_dataset_can_check_field(adding->dataset, f);
    }
    return status;
}

/* Writes the checksums of all blocks again, then the header. */
static enum pst_status seal(struct adding *adding, struct pst_error *err)
{
    struct psti_container_header header = *psti_dataset_container_header(adding->dataset);
    struct psti_hash_state table;
    uint8_t printed[PSTI_INDEX_HEADER_NBYTES], sum[8];
    enum pst_status status = mark_fields(adding, &header, &header.has_sums, err);
    psti_hash_begin(&table);
    for (uint64_t i = 0; status == PST_OK && i < header.frame.n_blocks; i++) {
        uint64_t at = PSTI_INDEX_HEADER_NBYTES + i * PSTI_INDEX_BLOCK_NBYTES;
        uint64_t left = header.frame.blocks_offset - at;
        size_t n = left < PSTI_INDEX_BLOCK_NBYTES ? (size_t)left : PSTI_INDEX_BLOCK_NBYTES;
        status = read_index(adding, at, adding->piece, n, err);
        psti_store_u64(sum, psti_hash64(adding->piece, n));
        psti_hash_update(&table, sum, sizeof sum);
        if (status == PST_OK)
            status = write_index(adding, header.frame.blocks_offset + 8 * i, sum, sizeof sum, err);
    }
    header.frame.blocks_checksum = psti_hash_end(&table);
    psti_format_print_container_header(&header, printed);
    if (status == PST_OK)
        status = write_index(adding, 0, printed, sizeof printed, err);
    if (status == PST_OK && fsync(adding->index_fd) != 0)
        status =
            psti_fail_os(err, errno, ROOM, adding->index_path, -1, "cannot make the index durable");
    return status;
}

enum pst_status psti_dataset_container_add_sums(const char *base, const char *index_path,
                                                struct psti_saved *saved,
                                                const struct psti_container_known *known,
                                                bool in_rows, struct pst_error *err)
{
    struct adding adding = {.saved = saved,
                            .known = known,
                            .in_rows = in_rows,
                            .index_path = index_path,
                            .index_fd = -1,
                            .file_fd = -1,
                            .i_file = UINT32_MAX};
    char why[PST_ERROR_PATH_CAP];
    bool fits = false;
    struct stat st;
    int fd = -1;
    enum pst_status status = psti_open_data(index_path, ROOM, "the index", &fd, &st, err);
    if (status == PST_OK)
        status = psti_dataset_open_container_index(base, base, index_path, fd, NULL, &fits, why,
                                                   &adding.dataset, err);
    if (status == PST_OK && !fits)
        status = psti_fail(err, PST_ERROR_STATE, ROOM, "while its index was made, %s", why);
    if (status == PST_OK) {
        adding.rows = psti_alloc_array(CHUNK_SAMPLES, PSTI_CONTAINER_ITEM_NBYTES);
        adding.piece = psti_alloc(PSTI_INDEX_BLOCK_NBYTES);
        adding.index_fd = open(index_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (adding.rows == NULL || adding.piece == NULL)
            status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to sum items");
        else if (adding.index_fd < 0)
            status = psti_fail_os(err, errno, ROOM, index_path, -1, "cannot open the index");
    }
    if (status == PST_OK)
        status = sum_all(&adding, err);
    if (status == PST_OK)
        status = seal(&adding, err);
    if (adding.file_fd >= 0)
        close(adding.file_fd);
    if (adding.index_fd >= 0)
        close(adding.index_fd);
    psti_free(adding.rows);
    psti_free(adding.piece);
    psti_dataset_summer_free(&adding.summer);
    pst_dataset_close(&adding.dataset);
    return status;
}
