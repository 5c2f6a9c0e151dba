/* format_dataset.c - prints and parses the index and shards of a packed data set
 * (docs/format-dataset.md, sections 3 and 4). Pure functions; any thread. Every length and offset
 * from a file is checked here once, so readers may access the sections of a parsed header without
 * further checks. */
#include "format/format_dataset.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint8_t index_magic[8] = {0x89, 'P', 'S', 'T', 'I', 0x0D, 0x0A, 0x1A};
static const uint8_t shard_magic[8] = {0x89, 'P', 'S', 'T', 'S', 0x0D, 0x0A, 0x1A};
static const uint8_t record_magic[4] = {'P', 'S', 'T', 'R'};

enum { ITEM_HAS_PIXEL_CHECKSUM = 1, ITEM_WAS_PLI = 1 };

static bool is_pli(enum pst_form form) { return form == PST_FORM_PLI || form == PST_FORM_PLI_JPEG; }

static enum pst_status fail_at(struct pst_error *err, enum pst_status status, int64_t offset,
                               const char *text)
{
    return psti_fail_at(err, status, "format", NULL, offset, "%s", text);
}

/* Checks magic and version, whose offsets are the same in all versions of the format. */
static enum pst_status check_start(const uint8_t *bytes, size_t nbytes, size_t header_nbytes,
                                   const uint8_t magic[8], const char *what, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    size_t at = 8; /* offset of the version */
    if (memcmp(bytes, magic, nbytes < 8 ? nbytes : 8) != 0) {
        at = 0;
        status = psti_fail(err, PST_ERROR_CORRUPT, "format", "this is no %s of a Penstock data set",
                           what);
    } else if (nbytes >= 12 && psti_load_u16(bytes + 8) > PSTI_DATASET_MAJOR) {
        status = psti_fail(err, PST_ERROR_VERSION, "format",
                           "the %s has format version %u.%u, this library reads up to %d.x", what,
                           psti_load_u16(bytes + 8), psti_load_u16(bytes + 10), PSTI_DATASET_MAJOR);
    } else if (nbytes < header_nbytes) {
        at = nbytes;
        status = psti_fail(err, PST_ERROR_TRUNCATED, "format",
                           "the %s ends after %zu bytes, within its header of %zu", what, nbytes,
                           header_nbytes);
    } else if (psti_load_u16(bytes + 8) == 0) {
        status = psti_fail(err, PST_ERROR_CORRUPT, "format", "the %s has format version 0", what);
    }
    if (status != PST_OK && err != NULL)
        err->offset = (int64_t)at;
    return status;
}

static enum pst_status check_sum(const uint8_t *bytes, size_t header_nbytes, const char *what,
                                 struct pst_error *err)
{
    size_t at = header_nbytes - 8;
    if (psti_load_u64(bytes + at) == psti_hash64(bytes, at))
        return PST_OK;
    return psti_fail_at(err, PST_ERROR_CHECKSUM, "format", NULL, 0, "the %s's header was altered",
                        what);
}

static void print_start(const uint8_t magic[8], uint16_t minor, uint8_t *out)
{
    memcpy(out, magic, 8);
    psti_store_u16(out + 8, PSTI_DATASET_MAJOR);
    psti_store_u16(out + 10, minor);
}

/* Index --------------------------------------------------------------------- */

bool psti_format_index_layout(struct psti_index_header *header, struct psti_index_field *fields)
{
    uint64_t end = PSTI_INDEX_HEADER_NBYTES;
    if (header->n_samples > INT64_MAX)
        return false;
    if (!psti_format_place_section(&end, header->n_fields, PSTI_INDEX_FIELD_NBYTES,
                                   &header->fields_offset) ||
        !psti_format_place_section(&end, header->n_shards, PSTI_INDEX_SHARD_NBYTES,
                                   &header->shards_offset))
        return false;
    for (uint32_t i = 0; i < header->n_fields; i++) {
        fields[i].classes_offset = 0;
        if (fields[i].classes_nbytes > 0 &&
            !psti_format_place_section(&end, fields[i].classes_nbytes, 1,
                                       &fields[i].classes_offset))
            return false;
        uint32_t n_pairs = psti_format_n_pairs(&fields[i].field);
        fields[i].pairs_offset = 0;
        if (n_pairs > 0 && !psti_format_place_section(&end, n_pairs, 8, &fields[i].pairs_offset))
            return false;
    }
    for (uint32_t i = 0; i < header->n_fields; i++)
        if (!psti_format_place_section(&end, header->n_samples,
                                       psti_format_row_nbytes(&fields[i].field),
                                       &fields[i].column_offset))
            return false;
    if (!psti_format_place_section(&end, header->n_samples + 1, 8, &header->name_offsets_offset) ||
        !psti_format_place_section(&end, header->names_nbytes, 1, &header->names_offset))
        return false;
    return psti_format_frame(end, &header->frame);
}

void psti_format_print_index_header(const struct psti_index_header *header,
                                    uint8_t out[PSTI_INDEX_HEADER_NBYTES])
{
    memset(out, 0, PSTI_INDEX_HEADER_NBYTES);
    print_start(index_magic,
                header->minor > PSTI_DATASET_MINOR_PLAIN ? header->minor : PSTI_DATASET_MINOR_PLAIN,
                out);
    psti_store_u32(out + 12, PSTI_INDEX_HEADER_NBYTES);
    memcpy(out + 16, header->id, 16);
    psti_store_u64(out + 32, header->generation);
    psti_store_u64(out + 40, header->n_samples);
    psti_store_u32(out + 48, header->n_fields);
    psti_store_u32(out + 52, header->n_shards);
    psti_store_u64(out + 56, header->fields_offset);
    psti_store_u64(out + 64, header->shards_offset);
    psti_store_u64(out + 72, header->name_offsets_offset);
    psti_store_u64(out + 80, header->names_offset);
    psti_store_u64(out + 88, header->names_nbytes);
    psti_store_u64(out + 96, header->frame.blocks_offset);
    psti_store_u64(out + 104, header->frame.n_blocks);
    psti_store_u64(out + 112, header->frame.blocks_checksum);
    psti_store_u64(out + 120, header->frame.file_nbytes);
    psti_store_u64(out + 128, header->mark);
    memcpy(out + 136, header->samples, sizeof header->samples);
    memcpy(out + 152, header->files, sizeof header->files);
    psti_store_u64(out + PSTI_INDEX_HEADER_NBYTES - 8,
                   psti_hash64(out, PSTI_INDEX_HEADER_NBYTES - 8));
}

static const char *header_problem(const struct psti_index_header *header)
{
    const char *problem = psti_format_frame_problem(&header->frame);
    if (problem != NULL)
        return problem;
    if (header->n_samples > INT64_MAX - 1 || header->n_fields > PST_MAX_FIELDS ||
        header->n_fields == 0)
        return "the index's header has an impossible number of samples or fields";
    if (!psti_format_section_fits(&header->frame, header->fields_offset, header->n_fields,
                                  PSTI_INDEX_FIELD_NBYTES) ||
        !psti_format_section_fits(&header->frame, header->shards_offset, header->n_shards,
                                  PSTI_INDEX_SHARD_NBYTES) ||
        !psti_format_section_fits(&header->frame, header->name_offsets_offset,
                                  header->n_samples + 1, 8) ||
        !psti_format_section_fits(&header->frame, header->names_offset, header->names_nbytes, 1))
        return "the index's header puts a table outside of the file";
    return NULL;
}

enum pst_status psti_format_parse_index_header(const uint8_t *bytes, size_t nbytes,
                                               uint64_t file_nbytes,
                                               struct psti_index_header *header,
                                               struct pst_error *err)
{
    enum pst_status status =
        check_start(bytes, nbytes, PSTI_INDEX_HEADER_NBYTES, index_magic, "index", err);
    if (status == PST_OK)
        status = check_sum(bytes, PSTI_INDEX_HEADER_NBYTES, "index", err);
    if (status != PST_OK)
        return status;
    header->major = psti_load_u16(bytes + 8);
    header->minor = psti_load_u16(bytes + 10);
    memcpy(header->id, bytes + 16, 16);
    header->generation = psti_load_u64(bytes + 32);
    header->n_samples = psti_load_u64(bytes + 40);
    header->n_fields = psti_load_u32(bytes + 48);
    header->n_shards = psti_load_u32(bytes + 52);
    header->fields_offset = psti_load_u64(bytes + 56);
    header->shards_offset = psti_load_u64(bytes + 64);
    header->name_offsets_offset = psti_load_u64(bytes + 72);
    header->names_offset = psti_load_u64(bytes + 80);
    header->names_nbytes = psti_load_u64(bytes + 88);
    header->frame.blocks_offset = psti_load_u64(bytes + 96);
    header->frame.n_blocks = psti_load_u64(bytes + 104);
    header->frame.blocks_checksum = psti_load_u64(bytes + 112);
    header->frame.file_nbytes = psti_load_u64(bytes + 120);
    header->mark = header->minor >= 2 ? psti_load_u64(bytes + 128) : 0;
    memcpy(header->samples, bytes + 136, sizeof header->samples);
    memcpy(header->files, bytes + 152, sizeof header->files);
    const char *problem = header_problem(header);
    if (problem != NULL)
        return fail_at(err, PST_ERROR_CORRUPT, 0, problem);
    return psti_format_check_length(&header->frame, file_nbytes, err);
}

bool psti_format_name_is_taken(const struct pst_field *fields, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0)
            return true;
    return false;
}

/* Returns whether fields of that type store their number of classes at an offset where versions
 * before 1.3 had zeros. */
static bool has_later_classes(enum pst_field_type type)
{
    return type == PST_FIELD_ARRAY || type == PST_FIELD_KEYPOINTS;
}

void psti_format_print_field(const struct pst_field *field, uint8_t out[PSTI_INDEX_FIELD_NBYTES])
{
    memset(out, 0, PSTI_INDEX_FIELD_NBYTES);
    memcpy(out, field->name, strnlen(field->name, sizeof field->name - 1));
    out[64] = (uint8_t)field->type;
    out[65] = (uint8_t)field->dtype;
    out[66] = field->ndim;
    out[67] = field->n_variants;
    out[68] = (uint8_t)field->made_for;
    for (int i = 0; i < field->ndim && i < PST_MAX_NDIM; i++)
        psti_store_u32(out + 72 + 4 * i, field->shape[i]);
    /* Software before version 1.3 refuses a number of classes at offset 104, and ignores one at
     * 152. */
    psti_store_u64(out + (has_later_classes(field->type) ? 152 : 104), (uint64_t)field->n_classes);
    psti_store_u64(out + 176, field->n_pairs_plus_1);
}

enum pst_status psti_format_parse_field(const uint8_t bytes[PSTI_INDEX_FIELD_NBYTES],
                                        struct pst_field *field, struct pst_error *err)
{
    memset(field, 0, sizeof *field);
    memcpy(field->name, bytes, sizeof field->name);
    field->type = (enum pst_field_type)bytes[64];
    field->dtype = (enum pst_dtype)bytes[65];
    field->ndim = bytes[66];
    field->n_variants = bytes[67];
    field->made_for = (enum pst_made_for)bytes[68];
    for (int i = 0; i < PST_MAX_NDIM; i++)
        field->shape[i] = psti_load_u32(bytes + 72 + 4 * i);
    field->n_classes = (int64_t)psti_load_u64(bytes + 104);
    if (has_later_classes(field->type) && field->n_classes == 0)
        field->n_classes = (int64_t)psti_load_u64(bytes + 152);
    else if (has_later_classes(field->type))
        field->n_classes = -1; /* invalid, so that the check of the field fails */
    if (field->type == PST_FIELD_KEYPOINTS)
        field->n_pairs_plus_1 = psti_load_u64(bytes + 176);
    const char *problem = psti_format_field_problem(field);
    if (problem != NULL)
        return psti_fail(err, PST_ERROR_CORRUPT, "format", "field \"%.63s\" of the schema %s",
                         bytes[0] != 0 &&
                                 psti_format_is_utf8(bytes, strnlen((const char *)bytes, 63))
                             ? (const char *)bytes
                             : "?",
                         problem);
    return PST_OK;
}

void psti_format_print_index_field(const struct psti_index_field *field,
                                   uint8_t out[PSTI_INDEX_FIELD_NBYTES])
{
    psti_format_print_field(&field->field, out);
    psti_store_u64(out + 112, field->max_item_nbytes);
    psti_store_u64(out + 120, field->max_pixels_nbytes);
    psti_store_u64(out + 128, field->column_offset);
    size_t at = has_later_classes(field->field.type) ? 160 : 136;
    psti_store_u64(out + at, field->classes_offset);
    psti_store_u64(out + at + 8, field->classes_nbytes);
    psti_store_u64(out + 184, field->pairs_offset);
}

enum pst_status psti_format_parse_index_field(const uint8_t bytes[PSTI_INDEX_FIELD_NBYTES],
                                              const struct psti_index_header *header,
                                              struct psti_index_field *field, struct pst_error *err)
{
    enum pst_status status = psti_format_parse_field(bytes, &field->field, err);
    if (status != PST_OK)
        return status;
    field->max_item_nbytes = psti_load_u64(bytes + 112);
    field->max_pixels_nbytes = psti_load_u64(bytes + 120);
    field->column_offset = psti_load_u64(bytes + 128);
    size_t at = has_later_classes(field->field.type) ? 160 : 136;
    field->classes_offset = psti_load_u64(bytes + at);
    field->classes_nbytes = psti_load_u64(bytes + at + 8);
    uint32_t n_pairs = psti_format_n_pairs(&field->field);
    field->pairs_offset = n_pairs > 0 ? psti_load_u64(bytes + 184) : 0;
    bool no_classes = field->classes_offset == 0 && field->classes_nbytes == 0;
    if (!psti_format_section_fits(&header->frame, field->column_offset, header->n_samples,
                                  psti_format_row_nbytes(&field->field)) ||
        !(no_classes || (field->field.n_classes > 0 && field->classes_nbytes >= 8 &&
                         psti_format_section_fits(&header->frame, field->classes_offset,
                                                  field->classes_nbytes, 1))))
        return psti_fail(err, PST_ERROR_CORRUPT, "format",
                         "the column of field \"%s\" lies outside of the index", field->field.name);
    if (n_pairs > 0 && !psti_format_section_fits(&header->frame, field->pairs_offset, n_pairs, 8))
        return psti_fail(err, PST_ERROR_CORRUPT, "format",
                         "the pairs of field \"%s\" lie outside of the index", field->field.name);
    return PST_OK;
}

void psti_format_print_index_shard(const struct psti_index_shard *shard,
                                   uint8_t out[PSTI_INDEX_SHARD_NBYTES])
{
    memset(out, 0, PSTI_INDEX_SHARD_NBYTES);
    memcpy(out, shard->name, strnlen(shard->name, PSTI_SHARD_NAME_CAP - 1));
    psti_store_u64(out + 32, shard->nbytes);
    psti_store_u64(out + 40, shard->header_checksum);
    psti_store_u64(out + 48, shard->n_items);
}

enum pst_status psti_format_parse_index_shard(const uint8_t bytes[PSTI_INDEX_SHARD_NBYTES],
                                              struct psti_index_shard *shard, struct pst_error *err)
{
    memcpy(shard->name, bytes, PSTI_SHARD_NAME_CAP);
    size_t n = strnlen(shard->name, PSTI_SHARD_NAME_CAP);
    /* A name with a slash could lead out of the data set's directory, so it is refused. */
    if (n == 0 || n == PSTI_SHARD_NAME_CAP || memchr(shard->name, '/', n) != NULL ||
        psti_format_name_problem(shard->name, n) != NULL)
        return fail_at(err, PST_ERROR_CORRUPT, 0, "the index names a shard in an impossible way");
    shard->nbytes = psti_load_u64(bytes + 32);
    shard->header_checksum = psti_load_u64(bytes + 40);
    shard->n_items = psti_load_u64(bytes + 48);
    if (shard->nbytes < PSTI_SHARD_HEADER_NBYTES || shard->nbytes > INT64_MAX)
        return fail_at(err, PST_ERROR_CORRUPT, 32, "the index states an impossible shard length");
    return PST_OK;
}

void psti_format_print_item(enum pst_field_type type, const struct pst_item *item,
                            uint8_t out[PSTI_ITEM_NBYTES])
{
    memset(out, 0, PSTI_ITEM_NBYTES);
    if (item->form == PST_FORM_NONE)
        return;
    psti_store_u64(out, item->offset);
    psti_store_u64(out + 8, item->nbytes);
    psti_store_u64(out + 16, item->checksum);
    psti_store_u32(out + 24, item->i_file);
    out[28] = (uint8_t)item->form;
    if (psti_format_is_image(type)) {
        out[30] = item->has_pixel_checksum ? ITEM_HAS_PIXEL_CHECKSUM : 0;
        psti_store_u32(out + 32, item->height);
        psti_store_u32(out + 36, item->width);
        out[40] = item->channels;
        out[41] = item->bits;
        out[42] = item->orientation;
        out[43] = item->was_pli && is_pli(item->form) ? ITEM_WAS_PLI : 0;
        psti_store_u64(out + 48, item->has_pixel_checksum ? item->pixel_checksum : 0);
        psti_store_u64(out + 56, item->form == PST_FORM_PLI_JPEG ? item->jpeg_nbytes : 0);
        return;
    }
    out[29] = item->ndim;
    for (int i = 0; i < item->ndim && i < PST_MAX_NDIM; i++)
        psti_store_u32(out + 32 + 4 * i, item->shape[i]);
}

/* Returns what is wrong with the index entry of an image or mask, or NULL. */
static const char *image_problem(enum pst_field_type type, const struct pst_item *item)
{
    uint64_t nbytes;
    if (item->form < PST_FORM_RAW || item->form > PST_FORM_PLI_JPEG)
        return "an image has an unknown form";
    if (item->height == 0 || item->width == 0 || item->height > INT32_MAX ||
        item->width > INT32_MAX || item->nbytes == 0)
        return "an image has an impossible size";
    if (item->channels < 1 || item->channels > 4 || (type == PST_FIELD_MASK && item->channels != 1))
        return "an image has an impossible number of channels";
    bool only_8 = item->form == PST_FORM_JPEG || item->form == PST_FORM_WEBP ||
                  item->form == PST_FORM_PLI_JPEG;
    if (item->bits != 8 && (item->bits != 16 || only_8))
        return "an image has an impossible number of bits";
    if (item->orientation < 1 || item->orientation > 8)
        return "an image has an impossible orientation";
    nbytes = (uint64_t)item->height * item->width;
    if (item->form == PST_FORM_RAW &&
        (!psti_mul_u64(nbytes, item->channels * (item->bits / 8u), &nbytes) ||
         nbytes != item->nbytes))
        return "raw pixels do not have the size that the index states";
    return NULL;
}

enum pst_status psti_format_parse_item(const uint8_t bytes[PSTI_ITEM_NBYTES],
                                       enum pst_field_type type, struct pst_item *item,
                                       struct pst_error *err)
{
    memset(item, 0, sizeof *item);
    item->form = (enum pst_form)bytes[28];
    if (item->form == PST_FORM_NONE)
        return PST_OK;
    item->offset = psti_load_u64(bytes);
    item->nbytes = psti_load_u64(bytes + 8);
    item->has_checksum = true;
    item->checksum = psti_load_u64(bytes + 16);
    item->i_file = psti_load_u32(bytes + 24);
    if (psti_format_is_image(type)) {
        item->has_pixel_checksum = (bytes[30] & ITEM_HAS_PIXEL_CHECKSUM) != 0;
        item->height = psti_load_u32(bytes + 32);
        item->width = psti_load_u32(bytes + 36);
        item->channels = bytes[40];
        item->bits = bytes[41];
        item->orientation = bytes[42];
        item->was_pli = is_pli(item->form) && (bytes[43] & ITEM_WAS_PLI) != 0;
        item->pixel_checksum = psti_load_u64(bytes + 48);
        if (item->form == PST_FORM_PLI_JPEG)
            item->jpeg_nbytes = psti_load_u64(bytes + 56);
        const char *problem = image_problem(type, item);
        return problem == NULL ? PST_OK : fail_at(err, PST_ERROR_CORRUPT, 28, problem);
    }
    if (item->form != PST_FORM_BYTES)
        return fail_at(err, PST_ERROR_CORRUPT, 28, "an item that is no image has a form of one");
    item->ndim = bytes[29];
    if (item->ndim > PST_MAX_NDIM)
        return fail_at(err, PST_ERROR_CORRUPT, 29, "an item has more than 8 dimensions");
    for (int i = 0; i < item->ndim; i++)
        item->shape[i] = psti_load_u32(bytes + 32 + 4 * i);
    return PST_OK;
}

/* Shards -------------------------------------------------------------------- */

void psti_format_shard_name(uint32_t number, char out[PSTI_SHARD_NAME_CAP])
{
    snprintf(out, PSTI_SHARD_NAME_CAP, "shard-%06" PRIu32 ".pst", number);
}

void psti_format_rewritten_name(uint32_t number, uint64_t generation, char out[PSTI_SHARD_NAME_CAP])
{
    snprintf(out, PSTI_SHARD_NAME_CAP, "shard-%06" PRIu32 ".%08" PRIx32 ".pst", number,
             (uint32_t)generation);
}

void psti_format_print_shard_header(struct psti_shard_header *header,
                                    uint8_t out[PSTI_SHARD_HEADER_NBYTES])
{
    memset(out, 0, PSTI_SHARD_HEADER_NBYTES);
    print_start(shard_magic, PSTI_DATASET_MINOR_PLAIN, out);
    psti_store_u32(out + 12, PSTI_SHARD_HEADER_NBYTES);
    memcpy(out + 16, header->id, 16);
    psti_store_u32(out + 32, header->number);
    header->checksum = psti_hash64(out, PSTI_SHARD_HEADER_NBYTES - 8);
    psti_store_u64(out + PSTI_SHARD_HEADER_NBYTES - 8, header->checksum);
}

enum pst_status psti_format_parse_shard_header(const uint8_t *bytes, size_t nbytes,
                                               struct psti_shard_header *header,
                                               struct pst_error *err)
{
    enum pst_status status =
        check_start(bytes, nbytes, PSTI_SHARD_HEADER_NBYTES, shard_magic, "shard", err);
    if (status == PST_OK)
        status = check_sum(bytes, PSTI_SHARD_HEADER_NBYTES, "shard", err);
    if (status != PST_OK)
        return status;
    header->major = psti_load_u16(bytes + 8);
    header->minor = psti_load_u16(bytes + 10);
    memcpy(header->id, bytes + 16, 16);
    header->number = psti_load_u32(bytes + 32);
    header->checksum = psti_load_u64(bytes + PSTI_SHARD_HEADER_NBYTES - 8);
    return PST_OK;
}

void psti_format_place_record(uint64_t position, size_t alignment, struct psti_record *record)
{
    uint64_t data = position + PSTI_RECORD_NBYTES;
    uint64_t aligned = (data + alignment - 1) & ~(uint64_t)(alignment - 1);
    record->data_offset = (uint16_t)(aligned - position);
}

void psti_format_print_record(const struct psti_record *record, uint8_t out[PSTI_RECORD_NBYTES])
{
    memset(out, 0, PSTI_RECORD_NBYTES);
    memcpy(out, record_magic, 4);
    psti_store_u16(out + 4, record->data_offset);
    psti_store_u16(out + 6, record->i_field);
    out[8] = record->variant;
    out[9] = record->form;
    psti_store_u64(out + 16, record->sample);
    psti_store_u64(out + 24, record->nbytes);
    psti_store_u64(out + 32, record->checksum);
    psti_store_u64(out + 40, psti_hash64(out, 40));
}

enum pst_status psti_format_parse_record(const uint8_t *bytes, size_t nbytes, uint64_t n_left,
                                         struct psti_record *record, struct pst_error *err)
{
    if (nbytes < PSTI_RECORD_NBYTES || n_left < PSTI_RECORD_NBYTES)
        return fail_at(err, PST_ERROR_TRUNCATED, (int64_t)nbytes, "the shard ends within a record");
    if (memcmp(bytes, record_magic, 4) != 0)
        return fail_at(err, PST_ERROR_CORRUPT, 0, "there is no record where one must begin");
    if (psti_load_u64(bytes + 40) != psti_hash64(bytes, 40))
        return fail_at(err, PST_ERROR_CHECKSUM, 0, "a record's header was altered");
    record->data_offset = psti_load_u16(bytes + 4);
    record->i_field = psti_load_u16(bytes + 6);
    record->variant = bytes[8];
    record->form = bytes[9];
    record->sample = psti_load_u64(bytes + 16);
    record->nbytes = psti_load_u64(bytes + 24);
    record->checksum = psti_load_u64(bytes + 32);
    if (record->data_offset < PSTI_RECORD_NBYTES)
        return fail_at(err, PST_ERROR_CORRUPT, 4, "a record claims to overlap its item");
    if (!psti_range_fits(record->data_offset, record->nbytes, n_left))
        return fail_at(err, PST_ERROR_TRUNCATED, (int64_t)(n_left > INT64_MAX ? 0 : n_left),
                       "the shard ends within an item");
    return PST_OK;
}
