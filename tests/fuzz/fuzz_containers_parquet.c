/* fuzz_containers_parquet.c - reads any bytes as a Parquet file: all values of a walk must lie in
 * the file or in its pages. */
#include "containers/parquet/containers_parquet.h"

#include "base/fail.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum { ROWS_MAX = 2000, PAGES_MAX = 4096 };

struct memory {
    const uint8_t *data;
    size_t nbytes;
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields, n_pages;
    uint64_t n_rows, pages[PAGES_MAX]; /* decoded bytes */
};

static ssize_t memory_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    const struct memory *memory = context;
    CHECK(offset <= memory->nbytes && nbytes <= memory->nbytes - offset);
    memcpy(bytes, memory->data + offset, nbytes);
    return (ssize_t)nbytes;
}

static struct memory *memory_of(struct psti_containers_writer *writer)
{
    return (struct memory *)(void *)writer;
}

static enum pst_status sink_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct memory *memory = memory_of(writer);
    (void)err;
    CHECK(memory->n_fields < PST_MAX_FIELDS && field->name[0] != '\0');
    *i_field = memory->n_fields++;
    memory->fields[*i_field] = *field;
    return PST_OK;
}

static void sink_restate(struct psti_containers_writer *writer, uint32_t i_field,
                         const struct pst_field *field)
{
    memory_of(writer)->fields[i_field] = *field;
}

static enum pst_status sink_classes(struct psti_containers_writer *writer, uint32_t i_field,
                                    const char *names, size_t nbytes, uint32_t n,
                                    struct pst_error *err)
{
    (void)err;
    CHECK(i_field < memory_of(writer)->n_fields && nbytes >= n && names[nbytes - 1] == '\0');
    return PST_OK;
}

static enum pst_status sink_page(struct psti_containers_writer *writer,
                                 const struct psti_container_page *page, uint64_t *i_page,
                                 struct pst_error *err)
{
    struct memory *memory = memory_of(writer);
    CHECK(page->coding == PSTI_CODING_SNAPPY || page->coding == PSTI_CODING_ZSTD);
    CHECK(page->offset <= memory->nbytes && page->nbytes <= memory->nbytes - page->offset);
    CHECK(page->decoded_nbytes <= INT32_MAX);
    if (memory->n_pages == PAGES_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "fuzz", "enough pages");
    *i_page = memory->n_pages;
    memory->pages[memory->n_pages++] = page->decoded_nbytes;
    return PST_OK;
}

static enum pst_status sink_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct memory *memory = memory_of(writer);
    uint32_t sum = 0;
    CHECK(n <= memory->n_fields && name[0] != '\0');
    for (uint32_t i = 0; i < n; i++) {
        const struct psti_container_value *value = &values[i];
        CHECK(value->i_field < memory->n_fields);
        enum pst_field_type type = memory->fields[value->i_field].type;
        if (type == PST_FIELD_INT || type == PST_FIELD_FLOAT)
            continue;
        CHECK(value->nbytes == value->decoded_nbytes && value->coding == PSTI_CODING_STORED);
        if (value->bytes != NULL) {
            for (uint64_t k = 0; k < value->nbytes; k++)
                sum += ((const uint8_t *)value->bytes)[k]; /* so that a sanitizer checks them */
            continue;
        }
        CHECK(!value->is_in_page || value->i_page < memory->n_pages);
        uint64_t total = value->is_in_page ? memory->pages[value->i_page] : memory->nbytes;
        CHECK(value->offset <= total && value->nbytes <= total - value->offset);
    }
    (void)sum;
    return ++memory->n_rows < ROWS_MAX ? PST_OK
                                       : psti_fail(err, PST_ERROR_LIMIT, "fuzz", "enough rows");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static struct memory memory;
    static const struct psti_table_notes notes;
    memset(&memory, 0, sizeof memory);
    memory.data = data;
    memory.nbytes = nbytes;
    struct psti_walk_source source = {
        .read = memory_read, .context = &memory, .nbytes = nbytes, .path = "a.parquet"};
    struct psti_field_sink sink = {.field = sink_field,
                                   .restate = sink_restate,
                                   .classes = sink_classes,
                                   .page = sink_page,
                                   .sample = sink_sample,
                                   .writer = (struct psti_containers_writer *)(void *)&memory};
    struct psti_containers_columns *columns = NULL;
    struct psti_walk_counts counts;
    struct pst_error err = {0};
    if (psti_containers_columns_open(NULL, 0, &sink, &columns, &err) == PST_OK) {
        enum pst_status status =
            psti_containers_parquet_walk(&source, &notes, columns, &counts, &err);
        CHECK(status == PST_OK || err.text[0] != '\0');
        CHECK(counts.n_samples <= memory.n_rows);
    }
    psti_containers_columns_close(&columns);
    return 0;
}
