/* format_container.c - prints and parses the index of containers. */
#include "format/format_container.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"

#include <inttypes.h>
#include <string.h>

static const char magic[8] = {'P', 'S', 'T', 'C', 'O', 'N', 'T', '\n'};

/* Offsets in an item's row: offset, length, form. The checksum is the last 8 bytes of the row, and
 * the form takes the bytes between. FIELD_ROW: offset of row_nbytes in a field's entry. */
enum { ITEM_OFFSET = 0, ITEM_NBYTES = 6, ITEM_FORM = 11, FIELD_ROW = 249 };
/* Values of a 40-bit form. */
#define IN_INDEX (((uint64_t)1 << 40) - 1)
#define IN_PAGE ((uint64_t)1 << 39)
#define PLAIN_IN_INDEX 255 /* value of an 8-bit form, in short rows */
enum { CODING_SHIFT = 36 };

bool psti_format_container_layout(struct psti_container_header *header,
                                  struct psti_container_field *fields)
{
    uint64_t end = PSTI_INDEX_HEADER_NBYTES;
    bool fits = psti_format_place_section(&end, header->n_fields, PSTI_INDEX_FIELD_NBYTES,
                                          &header->fields_offset) &&
                psti_format_place_section(&end, header->n_files, PSTI_CONTAINER_FILE_NBYTES,
                                          &header->files_offset) &&
                psti_format_place_section(&end, header->paths_nbytes, 1, &header->paths_offset);
    for (uint32_t i = 0; i < header->n_fields && fits; i++) {
        fields[i].classes_offset = fields[i].shapes_offset = 0;
        if (fields[i].classes_nbytes > 0)
            fits = psti_format_place_section(&end, fields[i].classes_nbytes, 1,
                                             &fields[i].classes_offset);
    }
    fits = fits && psti_format_place_section(&end, header->n_pages, PSTI_CONTAINER_PAGE_NBYTES,
                                             &header->pages_offset);
    for (uint32_t i = 0; i < header->n_fields && fits; i++) {
        fits = psti_format_place_section(&end, header->n_samples, fields[i].row_nbytes,
                                         &fields[i].column_offset);
        if (fits && fields[i].n_dims > 0)
            fits = psti_format_place_section(
                &end, header->n_samples, 4 * (uint64_t)fields[i].n_dims, &fields[i].shapes_offset);
    }
    fits = fits &&
           psti_format_place_section(&end, psti_format_container_n_groups(header->n_samples),
                                     PSTI_CONTAINER_GROUP_NBYTES, &header->groups_offset) &&
           psti_format_place_section(&end, header->names_nbytes, 1, &header->names_offset) &&
           psti_format_place_section(&end, header->values_nbytes, 1, &header->values_offset) &&
           psti_format_place_section(&end, header->n_notices, PSTI_NOTICE_NBYTES,
                                     &header->notices_offset);
    return fits && psti_format_frame(end, &header->frame);
}

void psti_format_print_container_header(const struct psti_container_header *header,
                                        uint8_t out[PSTI_INDEX_HEADER_NBYTES])
{
    memset(out, 0, PSTI_INDEX_HEADER_NBYTES);
    memcpy(out, magic, sizeof magic);
    psti_store_u16(out + 8, PSTI_CONTAINER_MAJOR);
    psti_store_u16(out + 10, PSTI_CONTAINER_MINOR);
    psti_store_u32(out + 12, PSTI_INDEX_HEADER_NBYTES);
    psti_store_u32(out + 16, header->law);
    psti_store_u32(out + 20, header->kind);
    psti_store_u64(out + 24, header->n_samples);
    psti_store_u32(out + 32, header->n_fields);
    psti_store_u32(out + 36, header->n_files);
    memcpy(out + 40, header->options, 16);
    memcpy(out + 56, header->bytes, 16);
    memcpy(out + 72, header->samples, 16);
    psti_store_u64(out + 88, header->fields_offset);
    psti_store_u64(out + 96, header->files_offset);
    psti_store_u64(out + 104, header->paths_offset);
    psti_store_u64(out + 112, header->paths_nbytes);
    psti_store_u64(out + 120, header->groups_offset);
    psti_store_u64(out + 128, header->names_offset);
    psti_store_u64(out + 136, header->names_nbytes);
    psti_store_u64(out + 144, header->values_offset);
    psti_store_u64(out + 152, header->values_nbytes);
    psti_store_u64(out + 160, header->frame.blocks_offset);
    psti_store_u64(out + 168, header->frame.n_blocks);
    psti_store_u64(out + 176, header->frame.blocks_checksum);
    psti_store_u64(out + 184, header->frame.file_nbytes);
    out[192] = header->has_sums;
    psti_store_u32(out + 196, header->codings);
    psti_store_u64(out + 200, header->pages_offset);
    psti_store_u64(out + 208, header->n_pages);
    psti_store_u64(out + 216, header->notices_offset);
    psti_store_u64(out + 224, header->n_notices);
    psti_store_u64(out + PSTI_INDEX_HEADER_NBYTES - 8,
                   psti_hash64(out, PSTI_INDEX_HEADER_NBYTES - 8));
}

static const char *header_problem(const struct psti_container_header *header)
{
    const char *problem = psti_format_frame_problem(&header->frame);
    if (problem != NULL)
        return problem;
    if (header->n_samples > INT64_MAX - 1 || header->n_fields > PST_MAX_FIELDS ||
        header->n_fields == 0 || header->n_files >= PST_FILE_NONE || header->n_files == 0 ||
        header->n_notices > PSTI_NOTICES_MAX)
        return "the index's header has an impossible number of samples, fields, files or notices";
    if (!psti_format_section_fits(&header->frame, header->fields_offset, header->n_fields,
                                  PSTI_INDEX_FIELD_NBYTES) ||
        !psti_format_section_fits(&header->frame, header->files_offset, header->n_files,
                                  PSTI_CONTAINER_FILE_NBYTES) ||
        !psti_format_section_fits(&header->frame, header->paths_offset, header->paths_nbytes, 1) ||
        !psti_format_section_fits(&header->frame, header->pages_offset, header->n_pages,
                                  PSTI_CONTAINER_PAGE_NBYTES) ||
        !psti_format_section_fits(&header->frame, header->groups_offset,
                                  psti_format_container_n_groups(header->n_samples),
                                  PSTI_CONTAINER_GROUP_NBYTES) ||
        !psti_format_section_fits(&header->frame, header->names_offset, header->names_nbytes, 1) ||
        !psti_format_section_fits(&header->frame, header->values_offset, header->values_nbytes,
                                  1) ||
        !psti_format_section_fits(&header->frame, header->notices_offset, header->n_notices,
                                  PSTI_NOTICE_NBYTES))
        return "the index's header puts a table outside of the file";
    return NULL;
}

static enum pst_status fail_at(struct pst_error *err, enum pst_status status, int64_t offset,
                               const char *what)
{
    return psti_fail_at(err, status, "format", NULL, offset, "%s", what);
}

static void load_header(const uint8_t *bytes, struct psti_container_header *header)
{
    header->major = psti_load_u16(bytes + 8);
    header->minor = psti_load_u16(bytes + 10);
    header->law = psti_load_u32(bytes + 16);
    header->kind = psti_load_u32(bytes + 20);
    header->n_samples = psti_load_u64(bytes + 24);
    header->n_fields = psti_load_u32(bytes + 32);
    header->n_files = psti_load_u32(bytes + 36);
    memcpy(header->options, bytes + 40, 16);
    memcpy(header->bytes, bytes + 56, 16);
    memcpy(header->samples, bytes + 72, 16);
    header->fields_offset = psti_load_u64(bytes + 88);
    header->files_offset = psti_load_u64(bytes + 96);
    header->paths_offset = psti_load_u64(bytes + 104);
    header->paths_nbytes = psti_load_u64(bytes + 112);
    header->groups_offset = psti_load_u64(bytes + 120);
    header->names_offset = psti_load_u64(bytes + 128);
    header->names_nbytes = psti_load_u64(bytes + 136);
    header->values_offset = psti_load_u64(bytes + 144);
    header->values_nbytes = psti_load_u64(bytes + 152);
    header->frame.blocks_offset = psti_load_u64(bytes + 160);
    header->frame.n_blocks = psti_load_u64(bytes + 168);
    header->frame.blocks_checksum = psti_load_u64(bytes + 176);
    header->frame.file_nbytes = psti_load_u64(bytes + 184);
    header->has_sums = bytes[192] != 0;
    header->codings = psti_load_u32(bytes + 196);
    header->pages_offset = psti_load_u64(bytes + 200);
    header->n_pages = psti_load_u64(bytes + 208);
    header->notices_offset = psti_load_u64(bytes + 216);
    header->n_notices = psti_load_u64(bytes + 224);
}

enum pst_status psti_format_parse_container_header(const uint8_t *bytes, size_t nbytes,
                                                   uint64_t file_nbytes,
                                                   struct psti_container_header *header,
                                                   struct pst_error *err)
{
    memset(header, 0, sizeof *header);
    if (nbytes < PSTI_INDEX_HEADER_NBYTES)
        return fail_at(err, PST_ERROR_TRUNCATED, (int64_t)nbytes,
                       "the index ends within its header");
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return fail_at(err, PST_ERROR_CORRUPT, 0, "this is no index of containers");
    if (psti_load_u16(bytes + 8) != PSTI_CONTAINER_MAJOR)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, "format", NULL, 8,
                            "the index has version %u, this library reads %d",
                            psti_load_u16(bytes + 8), PSTI_CONTAINER_MAJOR);
    if (psti_load_u64(bytes + PSTI_INDEX_HEADER_NBYTES - 8) !=
        psti_hash64(bytes, PSTI_INDEX_HEADER_NBYTES - 8))
        return fail_at(err, PST_ERROR_CHECKSUM, 0, "the header of the index was altered");
    load_header(bytes, header);
    const char *problem = header_problem(header);
    if (problem != NULL)
        return fail_at(err, PST_ERROR_CORRUPT, 0, problem);
    return psti_format_check_length(&header->frame, file_nbytes, err);
}

void psti_format_print_container_field(const struct psti_container_field *field,
                                       uint8_t out[PSTI_INDEX_FIELD_NBYTES])
{
    psti_format_print_field(&field->field, out);
    psti_store_u64(out + 112, field->max_item_nbytes);
    psti_store_u64(out + 120, field->max_decoded_nbytes);
    psti_store_u64(out + 128, field->column_offset);
    psti_store_u64(out + 192, field->classes_offset);
    psti_store_u64(out + 200, field->classes_nbytes);
    psti_store_u64(out + 208, field->shapes_offset);
    psti_store_u32(out + 216, field->n_dims);
    out[PSTI_CONTAINER_FIELD_SUMS] = (uint8_t)field->sums;
    out[FIELD_ROW] = (uint8_t)field->row_nbytes;
}

static bool is_row(const struct psti_container_field *field)
{
    return psti_format_has_items(field->field.type)
               ? field->row_nbytes == PSTI_CONTAINER_ITEM_NBYTES ||
                     field->row_nbytes == PSTI_CONTAINER_PLAIN_NBYTES
               : field->row_nbytes == 8;
}

enum pst_status psti_format_parse_container_field(const uint8_t bytes[PSTI_INDEX_FIELD_NBYTES],
                                                  const struct psti_container_header *header,
                                                  struct psti_container_field *field,
                                                  struct pst_error *err)
{
    enum pst_status status = psti_format_parse_field(bytes, &field->field, err);
    if (status != PST_OK)
        return status;
    field->max_item_nbytes = psti_load_u64(bytes + 112);
    field->max_decoded_nbytes = psti_load_u64(bytes + 120);
    field->column_offset = psti_load_u64(bytes + 128);
    field->classes_offset = psti_load_u64(bytes + 192);
    field->classes_nbytes = psti_load_u64(bytes + 200);
    field->shapes_offset = psti_load_u64(bytes + 208);
    field->n_dims = psti_load_u32(bytes + 216);
    field->sums = (enum psti_container_sums)bytes[PSTI_CONTAINER_FIELD_SUMS];
    if (header->has_sums)
        field->sums = PSTI_CONTAINER_SUMS_ALL;
    field->row_nbytes = bytes[FIELD_ROW];
    bool has_classes = field->classes_nbytes > 0;
    if (!is_row(field) || field->field.n_variants != 1 || field->n_dims > PST_MAX_NDIM ||
        bytes[PSTI_CONTAINER_FIELD_SUMS] > PSTI_CONTAINER_SUMS_CRC ||
        (field->n_dims > 0 && field->field.type != PST_FIELD_ARRAY) ||
        (has_classes && (field->field.type != PST_FIELD_INT || field->field.n_classes == 0)))
        return psti_fail_at(err, PST_ERROR_CORRUPT, "format", NULL, 0,
                            "field \"%s\" of the index contradicts itself", field->field.name);
    if (!psti_format_section_fits(&header->frame, field->column_offset, header->n_samples,
                                  field->row_nbytes) ||
        (has_classes && !psti_format_section_fits(&header->frame, field->classes_offset,
                                                  field->classes_nbytes, 1)) ||
        (field->n_dims > 0 && !psti_format_section_fits(&header->frame, field->shapes_offset,
                                                        header->n_samples, 4 * field->n_dims)))
        return psti_fail_at(err, PST_ERROR_CORRUPT, "format", NULL, 0,
                            "the column of field \"%s\" lies outside of the index",
                            field->field.name);
    return PST_OK;
}

void psti_format_print_container_file(const struct psti_container_file *file,
                                      uint8_t out[PSTI_CONTAINER_FILE_NBYTES])
{
    memset(out, 0, PSTI_CONTAINER_FILE_NBYTES);
    psti_store_u64(out, file->nbytes);
    psti_store_u64(out + 8, file->stamp);
    psti_store_u64(out + 16, file->first_sample);
    psti_store_u64(out + 24, file->sampled);
    psti_store_u64(out + 32, file->path);
}

enum pst_status psti_format_parse_container_file(const uint8_t bytes[PSTI_CONTAINER_FILE_NBYTES],
                                                 const struct psti_container_header *header,
                                                 struct psti_container_file *file,
                                                 struct pst_error *err)
{
    file->nbytes = psti_load_u64(bytes);
    file->stamp = psti_load_u64(bytes + 8);
    file->first_sample = psti_load_u64(bytes + 16);
    file->sampled = psti_load_u64(bytes + 24);
    file->path = psti_load_u64(bytes + 32);
    if (file->nbytes > INT64_MAX || file->first_sample > header->n_samples ||
        file->path >= header->paths_nbytes)
        return fail_at(err, PST_ERROR_CORRUPT, 0, "the index states an impossible file");
    return PST_OK;
}

static void store_low(uint8_t *out, uint64_t value, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t load_low(const uint8_t *bytes, size_t nbytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < nbytes; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* Returns the bytes of the form in a row of row_nbytes. */
static size_t form_nbytes(uint32_t row_nbytes) { return row_nbytes - 8 - ITEM_FORM; }

void psti_format_print_container_item(const struct psti_container_item *item, uint8_t *out,
                                      uint32_t row_nbytes)
{
    uint64_t form = 0;
    memset(out, 0, row_nbytes);
    if (item->place == PSTI_CONTAINER_MISSING)
        return;
    if (item->place == PSTI_CONTAINER_IN_INDEX)
        form = IN_INDEX;
    else if (item->place == PSTI_CONTAINER_IN_PAGE)
        form = IN_PAGE | item->offset;
    else if (item->coding != PST_CODING_STORED)
        form = (uint64_t)item->coding << CODING_SHIFT | item->decoded_nbytes;
    store_low(out + ITEM_OFFSET,
              item->place == PSTI_CONTAINER_IN_PAGE ? item->i_page : item->offset, 6);
    store_low(out + ITEM_NBYTES, item->nbytes, 5);
    store_low(out + ITEM_FORM, form, form_nbytes(row_nbytes));
    psti_store_u64(out + row_nbytes - 8, item->sum);
}

void psti_format_parse_container_item(const uint8_t *bytes, uint32_t row_nbytes,
                                      struct psti_container_item *item)
{
    uint64_t form = load_low(bytes + ITEM_FORM, form_nbytes(row_nbytes));
    if (row_nbytes == PSTI_CONTAINER_PLAIN_NBYTES && form == PLAIN_IN_INDEX)
        form = IN_INDEX;
    *item = (struct psti_container_item){.place = PSTI_CONTAINER_IN_FILE,
                                         .offset = load_low(bytes + ITEM_OFFSET, 6),
                                         .nbytes = load_low(bytes + ITEM_NBYTES, 5),
                                         .sum = psti_load_u64(bytes + row_nbytes - 8)};
    item->decoded_nbytes = item->nbytes;
    if (form == IN_INDEX) {
        item->place = PSTI_CONTAINER_IN_INDEX;
    } else if (form & IN_PAGE) {
        item->place = PSTI_CONTAINER_IN_PAGE;
        item->i_page = item->offset;
        item->offset = form & ~IN_PAGE;
    } else if (form != 0) {
        item->coding = (enum pst_coding)(form >> CODING_SHIFT);
        item->decoded_nbytes = form & (((uint64_t)1 << CODING_SHIFT) - 1);
    } else if (item->offset == 0 && item->nbytes == 0) {
        item->place = PSTI_CONTAINER_MISSING;
    }
}

void psti_format_shorten_container_items(uint8_t *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t *to = rows + i * PSTI_CONTAINER_PLAIN_NBYTES;
        const uint8_t *from = rows + i * PSTI_CONTAINER_ITEM_NBYTES;
        memmove(to, from, ITEM_FORM + 1);
        memmove(to + PSTI_CONTAINER_PLAIN_NBYTES - 8, from + PSTI_CONTAINER_ITEM_NBYTES - 8, 8);
    }
}

uint64_t psti_format_container_n_groups(uint64_t n_samples)
{
    return n_samples / PSTI_CONTAINER_GROUP_NAMES + (n_samples % PSTI_CONTAINER_GROUP_NAMES != 0);
}

void psti_format_put_container_name(uint8_t group[PSTI_CONTAINER_GROUP_NBYTES], uint64_t sample,
                                    uint64_t start, uint64_t end)
{
    size_t i = (size_t)(sample % PSTI_CONTAINER_GROUP_NAMES);
    if (i == 0) {
        memset(group, 0, PSTI_CONTAINER_GROUP_NBYTES);
        psti_store_u64(group, start);
    }
    psti_store_u16(group + 8 + 2 * i, (uint16_t)(end - psti_load_u64(group)));
}

bool psti_format_container_name(const uint8_t group[PSTI_CONTAINER_GROUP_NBYTES], uint64_t sample,
                                uint64_t names_nbytes, uint64_t *start, size_t *nbytes)
{
    size_t i = (size_t)(sample % PSTI_CONTAINER_GROUP_NAMES);
    uint16_t before = i == 0 ? 0 : psti_load_u16(group + 6 + 2 * i);
    uint16_t end = psti_load_u16(group + 8 + 2 * i);
    if (end <= before || end - before >= PSTI_NAME_LIMIT ||
        !psti_add_u64(psti_load_u64(group), before, start) ||
        !psti_range_fits(*start, (uint64_t)(end - before), names_nbytes))
        return false;
    *nbytes = (size_t)(end - before);
    return true;
}

bool psti_format_is_coding(uint32_t coding)
{
    return coding >= PST_CODING_DEFLATE && coding <= PST_CODING_PIECES;
}

void psti_format_print_container_page(const struct psti_container_page_entry *page,
                                      uint8_t out[PSTI_CONTAINER_PAGE_NBYTES])
{
    memset(out, 0, PSTI_CONTAINER_PAGE_NBYTES);
    psti_store_u64(out, page->offset);
    psti_store_u32(out + 8, page->nbytes);
    psti_store_u32(out + 12, page->decoded_nbytes);
    psti_store_u32(out + 16, page->i_file);
    psti_store_u32(out + 20, (uint32_t)page->coding);
}

enum pst_status psti_format_parse_container_page(const uint8_t bytes[PSTI_CONTAINER_PAGE_NBYTES],
                                                 struct psti_container_page_entry *page,
                                                 struct pst_error *err)
{
    uint32_t coding = psti_load_u32(bytes + 20);
    page->offset = psti_load_u64(bytes);
    page->nbytes = psti_load_u32(bytes + 8);
    page->decoded_nbytes = psti_load_u32(bytes + 12);
    page->i_file = psti_load_u32(bytes + 16);
    page->coding = PST_CODING_STORED;
    if (page->nbytes >= PSTI_CONTAINER_PAGE_LIMIT ||
        page->decoded_nbytes >= PSTI_CONTAINER_PAGE_LIMIT || !psti_format_is_coding(coding))
        return fail_at(err, PST_ERROR_CORRUPT, 0, "the index states an impossible page");
    page->coding = (enum pst_coding)coding;
    return PST_OK;
}

bool psti_format_path_is_below(const char *path)
{
    for (const char *part = path;; part++) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += n;
        if (*part == '\0')
            return true;
    }
}
