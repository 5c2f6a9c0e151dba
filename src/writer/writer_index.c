/* writer_index.c - writes the index from the base index and the journal, column by column.
 *
 * One thread, when the writer finishes. The journal on disk is read once for each column, so memory
 * does not grow with the number of samples. The payload is written in blocks that are hashed on the
 * way. The header, which makes the file valid, is written last. After an fsync, a rename makes the
 * file the data set's index. */
#include "writer/writer_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/files/blocks.h"
#include "base/hash.h"

#include <string.h>

enum { INDEX_BUFFER_NBYTES = 1 << 20 };

/* Columns ------------------------------------------------------------------- */

/* Hash of the lengths of the original files of the samples, as long as all lengths are known. */
struct files {
    struct psti_hash_pair hash;
    bool known;
};

/* Adds the length of a sample's original file, from the items in `row`. */
static void add_file(struct files *files, const struct pst_field *field, const uint8_t *row)
{
    struct pst_item item;
    uint64_t nbytes;
    uint8_t bytes[8];
    for (uint32_t v = 0; v < field->n_variants; v++) {
        if (psti_format_parse_item(row + (size_t)v * PSTI_ITEM_NBYTES, field->type, &item, NULL) !=
                PST_OK ||
            !psti_format_file_nbytes(field->type, &item, &nbytes))
            continue;
        psti_store_u64(bytes, nbytes);
        psti_hash_pair_update(&files->hash, bytes, sizeof bytes);
        return;
    }
    files->known = false;
}

/* The kinds of passes over base and journal. Each writes one part of every sample. */
enum pass_kind { PASS_FIELD, PASS_NAME_OFFSETS, PASS_NAMES };
struct pass {
    enum pass_kind kind;
    struct files *files;   /* PASS_FIELD: set if this field's files are hashed; else NULL */
    uint32_t i_field;      /* PASS_FIELD */
    size_t row_offset;     /* PASS_FIELD: offset of the field in a sample's journal record */
    uint64_t names_nbytes; /* PASS_NAME_OFFSETS: bytes of the names so far */
};

static enum pst_status put_name(struct psti_block_output *sink, struct pass *pass, const char *name,
                                size_t nbytes, struct pst_error *err)
{
    if (pass->kind == PASS_NAMES)
        return psti_blocks_put(sink, name, nbytes + 1, err);
    pass->names_nbytes += nbytes + 1;
    uint8_t out[8];
    psti_store_u64(out, pass->names_nbytes);
    return psti_blocks_put(sink, out, 8, err);
}

static enum pst_status put_base_sample(const pst_writer *writer, struct psti_block_output *sink,
                                       struct pass *pass, uint64_t sample, struct pst_error *err)
{
    uint8_t row[PSTI_ITEM_NBYTES * PST_MAX_VARIANTS];
    const pst_dataset *base = writer->base;
    const struct pst_field *field = &writer->fields[pass->i_field];
    enum pst_status status = PST_OK;
    if (pass->kind != PASS_FIELD) {
        char name[PST_NAME_CAP];
        status = pst_dataset_sample_name(base, sample, name, err);
        return status == PST_OK ? put_name(sink, pass, name, strlen(name), err) : status;
    }
    if (field->type == PST_FIELD_INT) {
        int64_t value;
        status = pst_dataset_int(base, sample, pass->i_field, &value, err);
        memcpy(row, &value, status == PST_OK ? 8 : 0);
    } else if (field->type == PST_FIELD_FLOAT) {
        double value;
        status = pst_dataset_float(base, sample, pass->i_field, &value, err);
        memcpy(row, &value, status == PST_OK ? 8 : 0);
    } else {
        for (uint32_t v = 0; v < field->n_variants && status == PST_OK; v++) {
            struct pst_item item;
            status = pst_dataset_item(base, sample, pass->i_field, v, &item, sizeof item, err);
            if (status == PST_OK)
                psti_format_print_item(field->type, &item, row + (size_t)v * PSTI_ITEM_NBYTES);
        }
    }
    if (status == PST_OK && pass->files != NULL)
        add_file(pass->files, field, row);
    return status == PST_OK ? psti_blocks_put(sink, row, psti_format_row_nbytes(field), err)
                            : status;
}

static enum pst_status put_journal(const pst_writer *writer, struct psti_block_output *sink,
                                   struct pass *pass, struct psti_writer_journal_reader *reader,
                                   struct pst_error *err)
{
    size_t row_nbytes = psti_format_row_nbytes(&writer->fields[pass->i_field]);
    reader->position = writer->journal_start;
    while (reader->position < writer->journal_end) {
        struct psti_journal_record record;
        struct psti_journal_sample sample;
        const uint8_t *body;
        enum pst_status status = psti_writer_journal_reader_next(reader, &record, &body, err);
        if (status == PST_OK && body == NULL)
            return psti_fail_at(err, PST_ERROR_CORRUPT, "writer", reader->path, -1,
                                "the journal was altered while it was in use");
        if (status != PST_OK)
            return status;
        if (record.kind != PSTI_JOURNAL_SAMPLE ||
            !psti_format_parse_journal_sample(body, record.nbytes, writer->rows_nbytes, &sample))
            continue;
        if (pass->files != NULL)
            add_file(pass->files, &writer->fields[pass->i_field], sample.rows + pass->row_offset);
        status = pass->kind == PASS_FIELD
                     ? psti_blocks_put(sink, sample.rows + pass->row_offset, row_nbytes, err)
                     : put_name(sink, pass, sample.name, sample.name_nbytes, err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

static enum pst_status put_pass(const pst_writer *writer, struct psti_block_output *sink,
                                struct pass *pass, struct psti_writer_journal_reader *reader,
                                struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint64_t s = 0; s < writer->base_n_samples && status == PST_OK; s++)
        status = put_base_sample(writer, sink, pass, s, err);
    return status == PST_OK ? put_journal(writer, sink, pass, reader, err) : status;
}

static enum pst_status put_classes(const struct psti_writer_classes *classes, int64_t n_classes,
                                   struct psti_block_output *sink, struct pst_error *err)
{
    uint8_t out[8] = {0};
    uint64_t end = 0;
    enum pst_status status = psti_blocks_put(sink, out, 8, err);
    for (int64_t i = 0; i < n_classes && status == PST_OK; i++) {
        end += strlen(classes->text + end) + 1;
        psti_store_u64(out, end);
        status = psti_blocks_put(sink, out, 8, err);
    }
    return status == PST_OK ? psti_blocks_put(sink, classes->text, classes->nbytes, err) : status;
}

static enum pst_status put_pairs(const pst_writer *writer, const struct psti_index_field *field,
                                 uint32_t i_field, struct psti_block_output *sink,
                                 struct pst_error *err)
{
    uint8_t out[4 * PST_MAX_POINTS];
    enum pst_status status = psti_blocks_pad_to(sink, field->pairs_offset, err);
    size_t nbytes = status == PST_OK ? psti_writer_print_pairs(writer, i_field, out) : 0;
    return status == PST_OK ? psti_blocks_put(sink, out, nbytes, err) : status;
}

static enum pst_status put_shards(const pst_writer *writer, struct psti_block_output *sink,
                                  struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < writer->n_shards && status == PST_OK; i++) {
        uint8_t out[PSTI_INDEX_SHARD_NBYTES];
        struct psti_index_shard shard = {.nbytes = writer->shards[i].nbytes,
                                         .n_items = writer->shards[i].n_items,
                                         .header_checksum = writer->shards[i].header_checksum};
        memcpy(shard.name, writer->shards[i].name, sizeof shard.name);
        psti_format_print_index_shard(&shard, out);
        status = psti_blocks_put(sink, out, sizeof out, err);
    }
    return status;
}

/* Writes the column of a field. Values of int and float fields also go into the identity of the
 * samples. */
static enum pst_status put_column(const pst_writer *writer, struct psti_block_output *sink,
                                  struct pass *pass, struct psti_hash_pair *samples,
                                  struct psti_writer_journal_reader *reader, struct pst_error *err)
{
    const struct pst_field *field = &writer->fields[pass->i_field];
    const struct psti_writer_classes *classes = &writer->classes[pass->i_field];
    if (!psti_format_has_items(field->type)) {
        psti_format_samples_field(samples, field, classes->text != NULL ? field->n_classes : 0);
        psti_hash_pair_update(samples, classes->text, classes->text != NULL ? classes->nbytes : 0);
        sink->hash = samples;
    }
    enum pst_status status = put_pass(writer, sink, pass, reader, err);
    sink->hash = NULL;
    return status;
}

static enum pst_status put_names(const pst_writer *writer, const struct psti_index_header *header,
                                 struct psti_block_output *sink, struct psti_hash_pair *samples,
                                 struct psti_writer_journal_reader *reader, struct pst_error *err)
{
    static const uint8_t start[8] = {0};
    struct pass pass = {.kind = PASS_NAME_OFFSETS};
    enum pst_status status = psti_blocks_pad_to(sink, header->name_offsets_offset, err);
    if (status == PST_OK)
        status = psti_blocks_put(sink, start, sizeof start, err);
    if (status == PST_OK)
        status = put_pass(writer, sink, &pass, reader, err);
    pass.kind = PASS_NAMES;
    if (status == PST_OK)
        status = psti_blocks_pad_to(sink, header->names_offset, err);
    psti_format_samples_names(samples);
    sink->hash = samples;
    if (status == PST_OK)
        status = put_pass(writer, sink, &pass, reader, err);
    sink->hash = NULL;
    return status;
}

/* Returns the index of the first image field, or else of the first audio field; n_fields if there
 * is none. */
static uint32_t files_field(const pst_writer *writer)
{
    static const enum pst_field_type types[] = {PST_FIELD_IMAGE, PST_FIELD_AUDIO};
    for (int t = 0; t < 2; t++)
        for (uint32_t i = 0; i < writer->n_fields; i++)
            if (writer->fields[i].type == types[t])
                return i;
    return writer->n_fields;
}

/* Writes everything except header and block table, and sets the identities in the header. */
static enum pst_status put_payload(const pst_writer *writer, struct psti_index_header *header,
                                   const struct psti_index_field *fields,
                                   struct psti_block_output *sink,
                                   struct psti_writer_journal_reader *reader, struct pst_error *err)
{
    struct psti_hash_pair samples;
    struct files files = {.known = true};
    uint32_t i_files = files_field(writer);
    uint8_t out[PSTI_INDEX_FIELD_NBYTES] = {0};
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < writer->n_fields && status == PST_OK; i++) {
        psti_format_print_index_field(&fields[i], out);
        status = psti_blocks_put(sink, out, sizeof out, err);
    }
    if (status == PST_OK)
        status = put_shards(writer, sink, err);
    for (uint32_t i = 0; i < writer->n_fields && status == PST_OK; i++) {
        if (fields[i].classes_nbytes > 0)
            status = psti_blocks_pad_to(sink, fields[i].classes_offset, err);
        if (status == PST_OK && fields[i].classes_nbytes > 0)
            status = put_classes(&writer->classes[i], writer->fields[i].n_classes, sink, err);
        if (status == PST_OK && fields[i].pairs_offset > 0)
            status = put_pairs(writer, &fields[i], i, sink, err);
    }
    psti_format_samples_begin(&samples, writer->n_samples);
    psti_hash_pair_begin(&files.hash);
    struct pass pass = {.kind = PASS_FIELD};
    for (; pass.i_field < writer->n_fields && status == PST_OK; pass.i_field++) {
        status = psti_blocks_pad_to(sink, fields[pass.i_field].column_offset, err);
        pass.files = pass.i_field == i_files ? &files : NULL;
        if (status == PST_OK)
            status = put_column(writer, sink, &pass, &samples, reader, err);
        pass.row_offset += psti_format_row_nbytes(&writer->fields[pass.i_field]);
    }
    if (status == PST_OK)
        status = put_names(writer, header, sink, &samples, reader, err);
    psti_hash_pair_end(&samples, header->samples);
    if (i_files < writer->n_fields && files.known)
        psti_hash_pair_end(&files.hash, header->files);
    if (status == PST_OK)
        status = psti_blocks_pad_to(sink, header->frame.blocks_offset, err);
    return status == PST_OK ? psti_blocks_end(sink, &header->frame.blocks_checksum, err) : status;
}

static enum pst_status plan_index(const pst_writer *writer, struct psti_index_header *header,
                                  struct psti_index_field *fields, struct pst_error *err)
{
    *header = (struct psti_index_header){.generation = writer->base_generation + 1,
                                         .n_samples = writer->n_samples,
                                         .n_fields = writer->n_fields,
                                         .n_shards = writer->n_shards,
                                         .names_nbytes = writer->names_nbytes};
    memcpy(header->id, writer->id, 16);
    header->mark = writer->mark;
    /* Software older than format version 1.2 knows neither marks nor the names of rewritten shards,
     * so such an index needs that version. */
    header->minor = psti_format_fields_minor(writer->fields, writer->n_fields);
    if (writer->mark != 0 && header->minor < PSTI_DATASET_MINOR_REPACK)
        header->minor = PSTI_DATASET_MINOR_REPACK;
    for (uint32_t i = 0; i < writer->n_shards; i++) {
        char plain[PSTI_SHARD_NAME_CAP];
        psti_format_shard_name(i, plain);
        if (strcmp(plain, writer->shards[i].name) != 0 && header->minor < PSTI_DATASET_MINOR_REPACK)
            header->minor = PSTI_DATASET_MINOR_REPACK;
    }
    for (uint32_t i = 0; i < writer->n_fields; i++) {
        fields[i] = (struct psti_index_field){.field = writer->fields[i],
                                              .max_item_nbytes = writer->max_item_nbytes[i],
                                              .max_pixels_nbytes = writer->max_pixels_nbytes[i]};
        if (writer->pairs[i] == NULL && psti_format_n_pairs(&writer->fields[i]) > 0)
            return psti_fail(err, PST_ERROR_STATE, "writer",
                             "the pairs of field \"%s\" were never set", writer->fields[i].name);
        if (writer->classes[i].text != NULL)
            fields[i].classes_nbytes =
                8 * ((uint64_t)writer->fields[i].n_classes + 1) + writer->classes[i].nbytes;
    }
    if (!psti_format_index_layout(header, fields))
        return psti_fail(err, PST_ERROR_LIMIT, "writer",
                         "the index would be larger than 2^63 bytes");
    return PST_OK;
}

static enum pst_status write_file(const pst_writer *writer, struct psti_index_header *header,
                                  const struct psti_index_field *fields, struct psti_output *file,
                                  struct psti_writer_journal_reader *reader, struct pst_error *err)
{
    uint8_t printed[PSTI_INDEX_HEADER_NBYTES];
    struct psti_block_output sink = {0};
    enum pst_status status = psti_blocks_open(&sink, file, PSTI_INDEX_HEADER_NBYTES,
                                              PSTI_INDEX_BLOCK_NBYTES, header->frame.n_blocks, err);
    if (status == PST_OK)
        status = put_payload(writer, header, fields, &sink, reader, err);
    psti_blocks_close(&sink);
    if (status != PST_OK)
        return status;
    psti_format_print_index_header(header, printed);
    status = psti_output_patch(file, 0, printed, sizeof printed, err);
    return status == PST_OK ? psti_output_sync(file, err) : status;
}

static enum pst_status put_in_place(const pst_writer *writer, struct pst_error *err)
{
    bool taken = false;
    if (!writer->merges)
        return psti_writer_rename(&writer->dir, writer->index_tmp_name, PSTI_INDEX_NAME, err);
    enum pst_status status =
        psti_writer_link(&writer->dir, writer->index_tmp_name, PSTI_INDEX_NAME, &taken, err);
    return !taken ? status
                  : psti_fail(err, PST_ERROR_EXISTS, "writer",
                              "another process merged the data set meanwhile");
}

enum pst_status psti_writer_write_index(pst_writer *writer, struct pst_error *err)
{
    struct psti_index_header header;
    struct psti_index_field fields[PST_MAX_FIELDS];
    struct psti_writer_journal_reader reader = {.fd = -1};
    struct psti_output file = {.fd = -1};
    const struct psti_writer_dir *dir = &writer->dir;
    enum pst_status status = plan_index(writer, &header, fields, err);
    if (status == PST_OK)
        status = psti_writer_journal_reader_open(&reader, dir, writer->journal_name, err);
    if (status == PST_OK)
        status = psti_writer_file_open(&file, dir, writer->index_tmp_name, true, 0,
                                       INDEX_BUFFER_NBYTES, err);
    if (status == PST_OK)
        status = write_file(writer, &header, fields, &file, &reader, err);
    if (status == PST_OK)
        status = put_in_place(writer, err);
    if (status == PST_OK)
        status = psti_writer_sync_directory(dir, err);
    psti_writer_journal_reader_close(&reader);
    psti_output_close(&file);
    return status;
}
