/* fuzz_containers_arrow.c - reads any bytes as an Arrow file, down to the values of its rows: they
 * must lie in the file or in a page of it, and suit their field. */
#include "containers/arrow/containers_arrow.h"
#include "format/format_dataset.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

/* Imitates the writer of the index. */
struct fake {
    const uint8_t *data;
    size_t nbytes;
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    uint64_t page_nbytes[256]; /* decoded size of each of the first pages */
    uint64_t n_pages, n_samples, sum;
};

enum { SAMPLES_MAX = 20000 };

static ssize_t memory_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    const struct fake *fake = context;
    CHECK(offset <= fake->nbytes && nbytes <= fake->nbytes - offset);
    memcpy(bytes, fake->data + offset, nbytes);
    return (ssize_t)nbytes;
}

static struct fake *fake_of(struct psti_containers_writer *writer)
{
    return (struct fake *)(void *)writer;
}

static enum pst_status fake_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct fake *fake = fake_of(writer);
    (void)err;
    CHECK(psti_format_field_problem(field) == NULL && fake->n_fields < PST_MAX_FIELDS);
    fake->fields[fake->n_fields] = *field;
    *i_field = fake->n_fields++;
    return PST_OK;
}

static void fake_restate(struct psti_containers_writer *writer, uint32_t i_field,
                         const struct pst_field *field)
{
    struct fake *fake = fake_of(writer);
    CHECK(i_field < fake->n_fields && psti_format_field_problem(field) == NULL);
    fake->fields[i_field] = *field;
}

static enum pst_status fake_classes(struct psti_containers_writer *writer, uint32_t i_field,
                                    const char *names, size_t nbytes, uint32_t n,
                                    struct pst_error *err)
{
    const struct fake *fake = fake_of(writer);
    (void)err;
    CHECK(i_field < fake->n_fields && fake->fields[i_field].n_classes == n);
    for (size_t at = 0; at < nbytes; at += strlen(names + at) + 1, n--)
        CHECK(n > 0 && strlen(names + at) < nbytes - at);
    CHECK(n == 0);
    return PST_OK;
}

static enum pst_status fake_page(struct psti_containers_writer *writer,
                                 const struct psti_container_page *page, uint64_t *i_page,
                                 struct pst_error *err)
{
    struct fake *fake = fake_of(writer);
    (void)err;
    CHECK(page->offset <= fake->nbytes && page->nbytes <= fake->nbytes - page->offset);
    CHECK(page->coding != PSTI_CODING_STORED && page->decoded_nbytes < UINT64_C(1) << 31);
    if (fake->n_pages < 256)
        fake->page_nbytes[fake->n_pages] = page->decoded_nbytes;
    *i_page = fake->n_pages++;
    return PST_OK;
}

static void check_value(struct fake *fake, const struct psti_container_value *value)
{
    CHECK(value->i_field < fake->n_fields);
    const struct pst_field *field = &fake->fields[value->i_field];
    if (field->type == PST_FIELD_INT || field->type == PST_FIELD_FLOAT)
        return;
    CHECK(value->decoded_nbytes == value->nbytes && value->coding == PSTI_CODING_STORED);
    if (value->bytes != NULL) {
        CHECK(value->nbytes <= 64);
        for (uint64_t i = 0; i < value->nbytes; i++)
            fake->sum += ((const uint8_t *)value->bytes)[i];
    } else if (value->is_in_page) {
        CHECK(value->i_page < fake->n_pages);
        if (value->i_page < 256)
            CHECK(value->offset <= fake->page_nbytes[value->i_page] &&
                  value->nbytes <= fake->page_nbytes[value->i_page] - value->offset);
    } else {
        CHECK(value->offset <= fake->nbytes && value->nbytes <= fake->nbytes - value->offset);
    }
    if (field->type != PST_FIELD_ARRAY)
        return;
    uint64_t product = pst_dtype_nbytes(field->dtype);
    for (int i = 0; i < value->ndim; i++)
        product *= value->shape[i];
    CHECK(value->ndim > 0 && product == value->nbytes);
}

static enum pst_status fake_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct fake *fake = fake_of(writer);
    CHECK(psti_format_name_problem(name, strlen(name)) == NULL && n <= fake->n_fields);
    for (uint32_t i = 0; i < n; i++)
        check_value(fake, &values[i]);
    if (++fake->n_samples < SAMPLES_MAX)
        return PST_OK;
    strcpy(err->text, "enough");
    strcpy(err->file, "a.arrow");
    return err->status = PST_ERROR_CANCELLED;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const struct psti_field_rule rules[] = {
        {.suffix = "text", .field = "caption"},
        {.suffix = "raw", .type = PST_FIELD_IMAGE},
        {.suffix = "list", .is_left_out = true},
    };
    if (nbytes == 0)
        return 0;
    static struct fake fake;
    fake = (struct fake){.data = data + 1, .nbytes = nbytes - 1};
    struct psti_walk_source source = {
        .read = memory_read, .context = &fake, .nbytes = nbytes - 1, .path = "a.arrow"};
    struct psti_field_sink sink = {.field = fake_field,
                                   .restate = fake_restate,
                                   .classes = fake_classes,
                                   .page = fake_page,
                                   .sample = fake_sample,
                                   .writer = (struct psti_containers_writer *)(void *)&fake};
    struct psti_containers_columns *columns = NULL;
    struct psti_walk_counts counts = {0};
    struct pst_error err = {0};
    CHECK(psti_containers_columns_open(rules, data[0] % 4, &sink, &columns, &err) == PST_OK);
    enum pst_status status = psti_containers_arrow_walk(&source, NULL, columns, &counts, &err);
    CHECK(status == PST_OK || (err.text[0] != '\0' && err.status == status));
    CHECK(status != PST_OK || counts.n_samples == fake.n_samples);
    psti_containers_columns_close(&columns);
    return 0;
}
