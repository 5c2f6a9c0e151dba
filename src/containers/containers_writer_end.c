/* containers_writer_end.c - joins the columns of a writer to one index file (format_container.h).
 *
 * In: columns in unnamed temporary files. Out: one file with all checksums. The columns are copied
 * one after the other. Both identities are hashed during the copy. */
#include "containers/containers_writer_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/files/blocks.h"
#include "base/files/read.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define ROOM "containers"
/* Bytes of one copied piece, a multiple of the size of an item row. */
enum { COPY_NBYTES = PSTI_CONTAINER_ITEM_NBYTES << 13 };

/* Changes a piece of a column before it is written. Returns the bytes that are left. */
typedef size_t change_piece(uint8_t *piece, size_t nbytes);

/* Copies the first `nbytes` of a column; parts that were never written read as zeros. hash: gets
 * the bytes of the column; change: called on each piece after it was hashed. Both may be NULL. */
static enum pst_status copy_changed(struct psti_output *from, uint64_t nbytes,
                                    struct psti_hash_pair *hash, change_piece *change,
                                    struct psti_block_output *to, uint8_t *piece,
                                    struct pst_error *err)
{
    enum pst_status status = from->fd < 0 ? PST_OK : psti_output_flush(from, err);
    for (uint64_t at = 0; status == PST_OK && at < nbytes;) {
        size_t n = nbytes - at < COPY_NBYTES ? (size_t)(nbytes - at) : COPY_NBYTES;
        ssize_t got = from->fd < 0 ? 0 : psti_read_at(from->fd, piece, n, at);
        if (got < 0)
            return psti_fail_os(err, errno, ROOM, from->path, (int64_t)at,
                                "cannot read a column of the index back");
        memset(piece + got, 0, n - (size_t)got);
        if (hash != NULL)
            psti_hash_pair_update(hash, piece, n);
        status = psti_blocks_put(to, piece, change != NULL ? change(piece, n) : n, err);
        at += n;
    }
    return status;
}

static enum pst_status copy(struct psti_output *from, uint64_t nbytes, struct psti_block_output *to,
                            uint8_t *piece, struct pst_error *err)
{
    return copy_changed(from, nbytes, NULL, NULL, to, piece, err);
}

/* Removes the NULs between names. */
static size_t join_names(uint8_t *piece, size_t nbytes)
{
    size_t n = 0;
    for (size_t i = 0; i < nbytes; i++) {
        piece[n] = piece[i];
        n += piece[i] != 0;
    }
    return n;
}

static size_t shorten(uint8_t *piece, size_t nbytes)
{
    size_t n = nbytes / PSTI_CONTAINER_ITEM_NBYTES;
    psti_format_shorten_container_items(piece, n);
    return n * PSTI_CONTAINER_PLAIN_NBYTES;
}

static bool lacks_values(const struct psti_containers_writer *writer,
                         const struct psti_writer_column *column)
{
    return !psti_format_has_items(column->field.type) && column->n_values < writer->n_samples;
}

/* Drops each optional field that has no value in some sample. */
static void leave_out(struct psti_containers_writer *writer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        struct psti_writer_column *column = &writer->columns[i];
        if (!column->is_optional || !lacks_values(writer, column)) {
            if (n < i) {
                writer->columns[n] = *column;
                memcpy(writer->without_name[n], writer->without_name[i],
                       sizeof writer->without_name[n]);
                *column = (struct psti_writer_column){.rows.fd = -1, .shapes.fd = -1};
            }
            n++;
            continue;
        }
        psti_log(PST_LOG_WARNING, ROOM,
                 "the field \"%s\" is left out: it has no value in %" PRIu64 " of %" PRIu64
                 " samples, the first of them \"%s\"",
                 column->field.name, writer->n_samples - column->n_values, writer->n_samples,
                 writer->without_name[i]);
        psti_format_notices_add(&writer->notices, PST_NOTICE_COLUMN, column->field.name,
                                "some samples have no value of it",
                                writer->n_samples - column->n_values, writer->without_name[i]);
        psti_output_close(&column->rows);
        psti_output_close(&column->shapes);
        psti_free(column->classes);
        *column = (struct psti_writer_column){.rows.fd = -1, .shapes.fd = -1};
    }
    writer->n_fields = n;
}

/* Checks that each int and float field has a value in every sample. */
static enum pst_status check_values(const struct psti_containers_writer *writer,
                                    struct pst_error *err)
{
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        const struct psti_writer_column *column = &writer->columns[i];
        if (!lacks_values(writer, column))
            continue;
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                         "sample %" PRIu64 " (\"%s\") has no value of field \"%s\", others have: "
                         "leave the field out by `fields`, or take it as text",
                         column->first_without, writer->without_name[i], column->field.name);
    }
    return PST_OK;
}

static void state_fields(struct psti_containers_writer *writer, struct psti_container_field *fields)
{
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        struct psti_writer_column *column = &writer->columns[i];
        fields[i] = (struct psti_container_field){
            .field = column->field,
            .row_nbytes = psti_format_has_items(column->field.type) && !column->has_forms
                              ? PSTI_CONTAINER_PLAIN_NBYTES
                              : (uint32_t)psti_containers_row_nbytes(&column->field),
            .max_item_nbytes = column->max_item_nbytes,
            .max_decoded_nbytes = column->max_decoded_nbytes,
            .sums = column->has_crcs ? PSTI_CONTAINER_SUMS_CRC : PSTI_CONTAINER_SUMS_SOME};
        if (column->classes != NULL && column->field.n_classes > 0)
            fields[i].classes_nbytes =
                8 * ((uint64_t)column->field.n_classes + 1) + column->classes_nbytes;
        if (column->field.type != PST_FIELD_ARRAY || column->n_dims == 0)
            continue;
        bool is_fixed = !column->shapes_differ && column->n_values == writer->n_samples;
        for (uint32_t d = 0; d < column->n_dims; d++)
            is_fixed = is_fixed && column->shape[d] > 0;
        if (!is_fixed) {
            fields[i].n_dims = column->n_dims;
            continue;
        }
        fields[i].field.ndim = (uint8_t)column->n_dims;
        memcpy(fields[i].field.shape, column->shape, 4 * (size_t)column->n_dims);
    }
}

/* Writes all columns. Hashes those that belong to the identity of the samples while they are
 * copied. */
static enum pst_status put_columns(struct psti_containers_writer *writer,
                                   const struct psti_container_header *header,
                                   const struct psti_container_field *fields,
                                   struct psti_block_output *to, struct psti_hash_pair *samples,
                                   uint8_t *piece, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < writer->n_fields && status == PST_OK; i++) {
        struct psti_writer_column *column = &writer->columns[i];
        bool has_items = psti_format_has_items(column->field.type);
        bool is_short = fields[i].row_nbytes == PSTI_CONTAINER_PLAIN_NBYTES;
        status = psti_blocks_pad_to(to, fields[i].column_offset, err);
        if (!has_items) {
            bool is_named = fields[i].classes_nbytes > 0;
            psti_format_samples_field(samples, &column->field,
                                      is_named ? column->field.n_classes : 0);
            psti_hash_pair_update(samples, column->classes, is_named ? column->classes_nbytes : 0);
        }
        if (status == PST_OK)
            status = copy_changed(
                &column->rows, writer->n_samples * psti_containers_row_nbytes(&column->field),
                has_items ? NULL : samples, is_short ? shorten : NULL, to, piece, err);
        if (status == PST_OK && fields[i].n_dims > 0)
            status = psti_blocks_pad_to(to, fields[i].shapes_offset, err);
        if (status == PST_OK && fields[i].n_dims > 0)
            status =
                copy(&column->shapes, writer->n_samples * 4 * fields[i].n_dims, to, piece, err);
    }
    if (status == PST_OK)
        status = psti_blocks_pad_to(to, header->groups_offset, err);
    return status;
}

/* Writes the class names in the same layout as a packed data set: offsets, then the names. */
static enum pst_status put_classes(struct psti_containers_writer *writer,
                                   const struct psti_container_field *fields,
                                   struct psti_block_output *to, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < writer->n_fields && status == PST_OK; i++) {
        const struct psti_writer_column *column = &writer->columns[i];
        uint8_t offset[8] = {0};
        uint64_t end = 0;
        if (fields[i].classes_nbytes == 0)
            continue;
        status = psti_blocks_pad_to(to, fields[i].classes_offset, err);
        for (int64_t k = 0; k <= column->field.n_classes && status == PST_OK; k++) {
            psti_store_u64(offset, end);
            status = psti_blocks_put(to, offset, sizeof offset, err);
            if (k < column->field.n_classes)
                end += strlen(column->classes + end) + 1;
        }
        if (status == PST_OK)
            status = psti_blocks_put(to, column->classes, column->classes_nbytes, err);
    }
    return status;
}

/* Writes the names of the samples, and the offset where each ends. The NULs between names are
 * hashed into the identity of the samples, but not written. */
static enum pst_status put_names(struct psti_containers_writer *writer,
                                 const struct psti_container_header *header,
                                 struct psti_block_output *to, struct psti_hash_pair *samples,
                                 uint8_t *piece, struct pst_error *err)
{
    uint64_t n_full = writer->n_samples / PSTI_CONTAINER_GROUP_NAMES;
    enum pst_status status =
        copy(&writer->groups, n_full * PSTI_CONTAINER_GROUP_NBYTES, to, piece, err);
    if (status == PST_OK && n_full < psti_format_container_n_groups(writer->n_samples))
        status = psti_blocks_put(to, writer->group, sizeof writer->group, err);
    if (status == PST_OK)
        status = psti_blocks_pad_to(to, header->names_offset, err);
    psti_format_samples_names(samples);
    return status == PST_OK ? copy_changed(&writer->names, writer->names_nbytes + writer->n_samples,
                                           samples, join_names, to, piece, err)
                            : status;
}

static enum pst_status put_notices(const struct psti_containers_writer *writer,
                                   const struct psti_container_header *header,
                                   struct psti_block_output *to, struct pst_error *err)
{
    uint8_t printed[PSTI_NOTICE_NBYTES];
    enum pst_status status = psti_blocks_pad_to(to, header->notices_offset, err);
    for (uint32_t i = 0; i < writer->notices.n && status == PST_OK; i++) {
        psti_format_print_notice(&writer->notices.list[i], printed);
        status = psti_blocks_put(to, printed, sizeof printed, err);
    }
    return status;
}

static enum pst_status put_payload(struct psti_containers_writer *writer,
                                   struct psti_container_header *header,
                                   const struct psti_container_field *fields,
                                   struct psti_block_output *to, uint8_t *piece,
                                   struct pst_error *err)
{
    struct psti_hash_pair samples;
    uint8_t printed[PSTI_INDEX_FIELD_NBYTES];
    enum pst_status status = PST_OK;
    psti_format_samples_begin(&samples, writer->n_samples);
    for (uint32_t i = 0; i < writer->n_fields && status == PST_OK; i++) {
        psti_format_print_container_field(&fields[i], printed);
        status = psti_blocks_put(to, printed, sizeof printed, err);
    }
    if (status == PST_OK)
        status = psti_blocks_pad_to(to, header->files_offset, err);
    if (status == PST_OK)
        status = copy(&writer->files, (uint64_t)writer->n_files * PSTI_CONTAINER_FILE_NBYTES, to,
                      piece, err);
    if (status == PST_OK)
        status = psti_blocks_pad_to(to, header->paths_offset, err);
    if (status == PST_OK)
        status = copy(&writer->paths, writer->paths_nbytes, to, piece, err);
    if (status == PST_OK)
        status = put_classes(writer, fields, to, err);
    if (status == PST_OK)
        status = psti_blocks_pad_to(to, header->pages_offset, err);
    if (status == PST_OK)
        status = copy(&writer->pages, writer->n_pages * PSTI_CONTAINER_PAGE_NBYTES, to, piece, err);
    if (status == PST_OK)
        status = put_columns(writer, header, fields, to, &samples, piece, err);
    if (status == PST_OK)
        status = put_names(writer, header, to, &samples, piece, err);
    psti_hash_pair_end(&samples, header->samples);
    if (status == PST_OK)
        status = psti_blocks_pad_to(to, header->values_offset, err);
    if (status == PST_OK)
        status = copy(&writer->values, writer->values_nbytes, to, piece, err);
    if (status == PST_OK)
        status = put_notices(writer, header, to, err);
    return status == PST_OK ? psti_blocks_pad_to(to, header->frame.blocks_offset, err) : status;
}

static enum pst_status write_file(struct psti_containers_writer *writer,
                                  struct psti_container_header *header,
                                  const struct psti_container_field *fields,
                                  struct psti_output *file, struct pst_error *err)
{
    uint8_t printed[PSTI_INDEX_HEADER_NBYTES];
    struct psti_block_output to = {0};
    uint8_t *piece = psti_alloc(COPY_NBYTES);
    enum pst_status status =
        piece == NULL ? psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to write an index")
                      : psti_blocks_open(&to, file, PSTI_INDEX_HEADER_NBYTES,
                                         PSTI_INDEX_BLOCK_NBYTES, header->frame.n_blocks, err);
    if (status == PST_OK)
        status = put_payload(writer, header, fields, &to, piece, err);
    if (status == PST_OK)
        status = psti_blocks_end(&to, &header->frame.blocks_checksum, err);
    psti_blocks_close(&to);
    psti_free(piece);
    if (status != PST_OK)
        return status;
    psti_format_print_container_header(header, printed);
    status = psti_output_patch(file, 0, printed, sizeof printed, err);
    return status == PST_OK ? psti_output_sync(file, err) : status;
}

static void hash_fields(struct psti_containers_writer *writer)
{
    uint8_t printed[PSTI_INDEX_FIELD_NBYTES];
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        psti_format_print_field(&writer->columns[i].field, printed);
        psti_hash_pair_update(&writer->bytes, printed, sizeof printed);
        if (writer->columns[i].classes != NULL)
            psti_hash_pair_update(&writer->bytes, writer->columns[i].classes,
                                  writer->columns[i].classes_nbytes);
    }
}

enum pst_status psti_containers_writer_finish(struct psti_containers_writer *writer,
                                              enum psti_container_kind kind,
                                              const uint8_t options[16], struct pst_error *err)
{
    struct psti_container_field fields[PST_MAX_FIELDS];
    struct psti_output file = {.fd = -1};
    leave_out(writer);
    struct psti_container_header header = {.law = PSTI_CONTAINER_LAW,
                                           .kind = (uint32_t)kind,
                                           .n_samples = writer->n_samples,
                                           .n_fields = writer->n_fields,
                                           .n_files = writer->n_files,
                                           .paths_nbytes = writer->paths_nbytes,
                                           .names_nbytes = writer->names_nbytes,
                                           .values_nbytes = writer->values_nbytes,
                                           .codings = writer->codings,
                                           .n_pages = writer->n_pages,
                                           .n_notices = writer->notices.n};
    if (writer->n_samples == 0 || writer->n_fields == 0)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "there is no sample in these files");
    enum pst_status status = check_values(writer, err);
    if (status != PST_OK)
        return status;
    memcpy(header.options, options, sizeof header.options);
    state_fields(writer, fields);
    hash_fields(writer);
    psti_hash_pair_end(&writer->bytes, header.bytes);
    if (!psti_format_container_layout(&header, fields))
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "the index would be larger than 2^63 bytes");
    status = psti_output_prepare(&file, ROOM, writer->path, 0, 1 << 20, err);
    if (status != PST_OK)
        return status;
    file.fd = psti_fault(PSTI_FAULT_WRITE)
                  ? (errno = ENOSPC, -1)
                  : open(writer->path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
    writer->is_made = file.fd >= 0;
    status = file.fd < 0 ? psti_fail_os(err, errno, ROOM, writer->path, -1, "cannot make the index")
                         : write_file(writer, &header, fields, &file, err);
    writer->is_finished = status == PST_OK;
    psti_output_close(&file);
    return status;
}
