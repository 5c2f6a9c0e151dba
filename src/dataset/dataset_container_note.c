/* dataset_container_note.c - collects checksums of items while they are read, and puts them into
 * the index.
 *
 * In: bytes of items, from any thread, in any order, possibly several times. Out: once all items of
 * the wanted fields were read, a copy of the index with their checksums replaces it, by the rules
 * of dataset_saved.h. The checksums hold for the files as the index knows them; if a file has
 * changed, nothing is written. Data sets that are already open keep the old index.
 *
 * With several ranks, each collects the checksums of a part of the items; dataset_container_parts.c
 * joins them. */
#include "dataset/dataset_container.h"

#include "dataset/dataset_container_parts.h"
#include "dataset/dataset_members.h"
#include "dataset/dataset_saved.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/files/output.h"
#include "base/files/read.h"
#include "base/hash.h"
#include "format/format_container.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM "dataset"
enum { CHUNK_SAMPLES = 1024 };

struct psti_noted {
    const pst_dataset *dataset;
    struct psti_container_known known;
    uint64_t nbytes; /* bytes of all columns in `known` */
    _Atomic uint64_t n;
    uint64_t n_looked;             /* value of `n` when count_all last found that checksums are
                                    * missing */
    bool is_maker;                 /* this process is writing the index, so it need not wait for
                                    * another */
    struct psti_sums_parts *parts; /* NULL: this process reads all items itself */
    uint64_t n_wanted;             /* number of items that need a checksum; 0: they were not counted
                                    * yet */
};

uint64_t psti_dataset_noted_nbytes(const pst_dataset *dataset, const bool wanted[PST_MAX_FIELDS])
{
    uint64_t column, nbytes = 0;
    if (dataset->kind != PSTI_DATASET_CONTAINER ||
        strncmp(psti_dataset_container_folder(dataset), "/proc/", 6) == 0)
        return 0; /* the path names an open file of this process, so no index can be saved for it */
    for (uint32_t f = 0; f < dataset->n_fields; f++)
        if (wanted[f] && !psti_dataset_can_check_field(dataset, f) &&
            (!psti_mul_u64(dataset->n_samples, 8, &column) ||
             !psti_add_u64(nbytes, column, &nbytes)))
            return UINT64_MAX;
    return nbytes;
}

enum pst_status psti_dataset_noted_open(const pst_dataset *dataset,
                                        const bool wanted[PST_MAX_FIELDS], bool has_others,
                                        struct psti_noted **out, struct pst_error *err)
{
    struct psti_noted *noted = *out = psti_calloc(1, sizeof *noted);
    uint64_t fields = 0;
    if (noted == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to note sums");
    noted->dataset = dataset;
    for (uint32_t f = 0; f < dataset->n_fields; f++) {
        if (!wanted[f] || psti_dataset_can_check_field(dataset, f))
            continue;
        noted->known.columns[f] =
            psti_calloc((size_t)dataset->n_samples, sizeof *noted->known.columns[f]);
        if (noted->known.columns[f] == NULL) {
            psti_dataset_noted_close(out);
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to note sums");
        }
        fields |= UINT64_C(1) << f;
    }
    enum pst_status status =
        has_others ? psti_dataset_parts_open(dataset, fields, &noted->parts, err) : PST_OK;
    if (status != PST_OK)
        psti_dataset_noted_close(out);
    return status;
}

void psti_dataset_noted_close(struct psti_noted **noted)
{
    if (*noted == NULL)
        return;
    for (uint32_t f = 0; f < PST_MAX_FIELDS; f++)
        psti_free((void *)(*noted)->known.columns[f]);
    psti_dataset_parts_close(&(*noted)->parts);
    psti_free(*noted);
    *noted = NULL;
}

void psti_dataset_noted_add(struct psti_noted *noted, uint64_t sample, uint32_t i_field,
                            const void *bytes, uint64_t nbytes)
{
    _Atomic uint64_t *column = noted->known.columns[i_field];
    if (column == NULL || atomic_load_explicit(&column[sample], memory_order_relaxed) != 0)
        return;
    uint64_t sum = psti_hash64(bytes, (size_t)nbytes);
    sum += sum == 0; /* 0 means "not known", so it is replaced */
    if (atomic_exchange_explicit(&column[sample], sum, memory_order_relaxed) == 0)
        atomic_fetch_add_explicit(&noted->n, 1, memory_order_relaxed);
}

/* Counts of a field's items that are not in the index itself: all of them, and those without a
 * checksum. */
struct item_counts {
    uint64_t n, n_missing;
};

static enum pst_status count_items(const struct psti_noted *noted, uint32_t i_field, uint8_t *rows,
                                   struct item_counts *counts, struct pst_error *err)
{
    _Atomic uint64_t *column = noted->known.columns[i_field];
    uint64_t n_samples = noted->dataset->n_samples;
    const struct psti_container_field *field =
        psti_dataset_container_field(noted->dataset, i_field);
    for (uint64_t first = 0, n; first < n_samples; first += n) {
        n = n_samples - first < CHUNK_SAMPLES ? n_samples - first : CHUNK_SAMPLES;
        enum pst_status status = psti_dataset_container_read(
            noted->dataset, field->column_offset + first * field->row_nbytes, n * field->row_nbytes,
            rows, err);
        if (status != PST_OK)
            return status;
        for (uint64_t i = 0; i < n; i++) {
            struct psti_container_item item;
            psti_format_parse_container_item(rows + i * field->row_nbytes, field->row_nbytes,
                                             &item);
            if (item.place == PSTI_CONTAINER_MISSING || item.place == PSTI_CONTAINER_IN_INDEX)
                continue;
            counts->n++;
            counts->n_missing +=
                atomic_load_explicit(&column[first + i], memory_order_relaxed) == 0;
        }
    }
    return PST_OK;
}

static enum pst_status count_all(const struct psti_noted *noted, struct item_counts *counts,
                                 struct pst_error *err)
{
    *counts = (struct item_counts){0};
    uint8_t *rows = psti_alloc_array(CHUNK_SAMPLES, PSTI_CONTAINER_ITEM_NBYTES);
    enum pst_status status =
        rows != NULL ? PST_OK
                     : psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to look at items");
    for (uint32_t f = 0; status == PST_OK && f < noted->dataset->n_fields; f++)
        if (noted->known.columns[f] != NULL)
            status = count_items(noted, f, rows, counts, err);
    psti_free(rows);
    return status;
}

/* Finds whether all checksums are known. Counting is skipped if nothing was added since the last
 * count. */
static enum pst_status are_whole(struct psti_noted *noted, bool *whole, struct pst_error *err)
{
    uint64_t n = atomic_load(&noted->n);
    struct item_counts counts;
    *whole = false;
    if (n <= noted->n_looked || n < noted->n_wanted)
        return PST_OK;
    noted->n_looked = n;
    enum pst_status status = count_all(noted, &counts, err);
    noted->n_wanted = counts.n;
    *whole = status == PST_OK && counts.n_missing == 0;
    return status;
}

static enum pst_status compare_files(const struct psti_noted *noted, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < noted->dataset->n_files; i++)
        status = psti_dataset_container_compare_file(noted->dataset, i, err);
    return status;
}

/* Returns the place where the data set's index lies and other processes find it;
 * PSTI_SAVED_N_PLACES: it lies at none. */
static unsigned place_of(const struct psti_noted *noted, struct psti_saved *saved)
{
    struct stat mine, st;
    const char *path;
    int folder, index;
    unsigned place = PSTI_SAVED_N_PLACES;
    if (!psti_dataset_container_fds(noted->dataset, &folder, &index) || fstat(index, &mine) != 0)
        return place;
    for (unsigned i = 0; i < PSTI_SAVED_N_PLACES; i++) {
        int fd = psti_dataset_saved_find(saved, i, &st, &path);
        if (fd < 0)
            continue;
        close(fd);
        if (st.st_dev == mine.st_dev && st.st_ino == mine.st_ino)
            place = i;
    }
    return place;
}

/* Copies the header or the table of block checksums. They need no check here, because they are
 * checked when the copy is opened. */
static enum pst_status copy_part(const struct psti_noted *noted, int index, uint64_t offset,
                                 size_t nbytes, uint8_t *piece, struct psti_output *out,
                                 struct pst_error *err)
{
    const char *path = psti_dataset_container_index_path(noted->dataset);
    ssize_t n = psti_read_at(index, piece, nbytes, offset);
    if (n < 0)
        return psti_fail_os(err, errno, ROOM, path, (int64_t)offset, "cannot read the index");
    if ((size_t)n < nbytes)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, path, (int64_t)offset,
                            "the index was cut short");
    return psti_output_append(out, piece, nbytes, err);
}

static enum pst_status copy_all(const struct psti_noted *noted, int index, struct psti_saved *saved,
                                uint8_t *piece, struct psti_output *out, struct pst_error *err)
{
    const struct psti_container_header *header = psti_dataset_container_header(noted->dataset);
    const struct psti_index_frame *frame = &header->frame;
    struct pst_progress progress = {.nbytes_in = 0};
    uint8_t printed[PSTI_INDEX_HEADER_NBYTES];
    enum pst_status status = copy_part(noted, index, 0, PSTI_INDEX_HEADER_NBYTES, piece, out, err);
    psti_format_print_container_header(header, printed);
    if (status == PST_OK && memcmp(printed, piece, sizeof printed) != 0)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM, "a newer version made the index");
    for (uint64_t at = PSTI_INDEX_HEADER_NBYTES, n; status == PST_OK && at < frame->blocks_offset;
         at += n) {
        uint64_t left = frame->blocks_offset - at;
        n = left < PSTI_INDEX_BLOCK_NBYTES ? left : PSTI_INDEX_BLOCK_NBYTES;
        status = psti_dataset_container_read(noted->dataset, at, n, piece, err);
        if (status == PST_OK)
            status = psti_output_append(out, piece, (size_t)n, err);
        progress.nbytes_in = progress.nbytes_out = at;
        if (status == PST_OK)
            status = psti_dataset_saved_tell(saved, &progress, err);
    }
    for (uint64_t at = frame->blocks_offset, n; status == PST_OK && at < frame->file_nbytes;
         at += n) {
        uint64_t left = frame->file_nbytes - at;
        n = left < PSTI_INDEX_BLOCK_NBYTES ? left : PSTI_INDEX_BLOCK_NBYTES;
        status = copy_part(noted, index, at, (size_t)n, piece, out, err);
    }
    return status == PST_OK ? psti_output_flush(out, err) : status;
}

static enum pst_status copy_index(const struct psti_noted *noted, struct psti_saved *saved,
                                  struct pst_error *err)
{
    struct psti_output out = {.fd = -1};
    uint8_t *piece = psti_alloc(PSTI_INDEX_BLOCK_NBYTES);
    int folder, index;
    enum pst_status status =
        piece != NULL ? PST_OK
                      : psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to copy an index");
    if (status == PST_OK)
        status =
            psti_output_prepare(&out, ROOM, psti_dataset_saved_temporary(saved), 0, 1 << 20, err);
    if (status == PST_OK) {
        status = psti_dataset_saved_create(saved, &out.fd, err);
        if (status == PST_OK && psti_dataset_container_fds(noted->dataset, &folder, &index))
            status = copy_all(noted, index, saved, piece, &out, err);
        psti_output_close(&out);
    }
    psti_free(piece);
    return status;
}

/* Progress function that cancels, so that this process does not wait for another maker of the
 * index. */
static int do_not_wait(void *context, const struct pst_progress *progress)
{
    const struct psti_noted *noted = context;
    (void)progress;
    return !noted->is_maker;
}

static enum pst_status is_replaced(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_STATE, ROOM,
                     "another process has put sums into the index meanwhile, or made it anew");
}

/* Replaces the index by a copy that has the checksums. */
static enum pst_status publish(struct psti_noted *noted, struct psti_saved *saved, bool *is_over,
                               struct pst_error *err)
{
    const char *folder = psti_dataset_container_folder(noted->dataset);
    enum psti_saved_turn turn = PSTI_SAVED_LOOK;
    unsigned place = place_of(noted, saved);
    if (place == PSTI_SAVED_N_PLACES)
        return is_replaced(err);
    enum pst_status status = psti_dataset_saved_begin(saved, &turn, err);
    if (status == PST_ERROR_BUSY || status == PST_ERROR_CANCELLED) {
        *is_over =
            false; /* another process makes an index: try again later */
        noted->n_looked = 0;
    }
    if (status != PST_OK)
        return status;
    if (turn == PSTI_SAVED_LOOK)
        return is_replaced(err);
    if (place == 0 && !psti_dataset_saved_is_beside(saved)) { /* an index elsewhere would be
                                                               * ignored */
        psti_dataset_saved_end(saved);
        return psti_fail(err, PST_ERROR_STATE, ROOM, "no file can be made beside the index");
    }
    noted->is_maker = true;
    status = copy_index(noted, saved, err);
    if (status == PST_OK)
        status = psti_dataset_container_add_sums(folder, psti_dataset_saved_temporary(saved), saved,
                                                 &noted->known, false, err);
    if (status == PST_OK)
        status = psti_dataset_saved_publish(saved, err);
    psti_dataset_saved_end(saved);
    noted->is_maker = false;
    return status;
}

/* Writes the checksums of this process for the others, and reads theirs. PST_ERROR_NOT_FOUND: a
 * process that made an index removed the file while it was written; try again later. */
static enum pst_status exchange(struct psti_noted *noted, struct psti_saved *saved,
                                struct pst_error *err)
{
    struct item_counts counts = {.n = noted->n_wanted};
    unsigned place = place_of(noted, saved);
    enum pst_status status =
        place == PSTI_SAVED_N_PLACES ? is_replaced(err) : compare_files(noted, err);
    if (status == PST_OK && counts.n == 0)
        status = count_all(noted, &counts, err);
    noted->n_wanted = counts.n;
    if (status == PST_OK)
        status = psti_dataset_parts_write(noted->parts, saved, place, &noted->known,
                                          atomic_load(&noted->n), err);
    if (status == PST_OK)
        status = psti_dataset_parts_join(noted->parts, saved, place, &noted->known, &noted->n,
                                         counts.n, err);
    /* If the index was replaced in the meantime, nobody would remove this process's file, so it
     * does that itself. */
    if (status == PST_OK && place_of(noted, saved) == PSTI_SAVED_N_PLACES) {
        psti_dataset_parts_remove(noted->parts, saved, place);
        status = is_replaced(err);
    }
    return status;
}

enum pst_status psti_dataset_noted_save(struct psti_noted *noted, bool *is_over,
                                        struct pst_error *err)
{
    const struct psti_saved_wait wait = {.progress = do_not_wait, .ctx = noted, .patience_ns = 1};
    const char *path = psti_dataset_container_index_path(noted->dataset);
    const char *slash = strrchr(path, '/');
    struct psti_saved *saved = NULL;
    bool whole = false;
    *is_over = false;
    enum pst_status status =
        psti_dataset_saved_open(psti_dataset_container_folder(noted->dataset),
                                slash != NULL ? slash + 1 : path, &wait, &saved, err);
    if (status == PST_OK && noted->parts != NULL && atomic_load(&noted->n) > 0)
        status = exchange(noted, saved, err);
    if (status == PST_OK)
        status = are_whole(noted, &whole, err);
    *is_over = whole || (status != PST_OK && status != PST_ERROR_NOT_FOUND);
    if (whole)
        status = compare_files(noted, err);
    if (whole && status == PST_OK)
        status = publish(noted, saved, is_over, err);
    psti_dataset_saved_close(&saved);
    return status;
}
