/* fuzz_containers_walk.c - reads any bytes as a tar, down to the values of its samples: they must
 * lie in the file, and fields and names must be legal. The first byte chooses the user's rules. */
#include "containers/containers_fields.h"
#include "containers/containers_walk.h"
#include "format/format_dataset.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

struct memory {
    const uint8_t *data;
    size_t nbytes;
};

static ssize_t memory_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    const struct memory *memory = context;
    CHECK(offset <= memory->nbytes && nbytes <= memory->nbytes - offset);
    memcpy(bytes, memory->data + offset, nbytes);
    return (ssize_t)nbytes;
}

/* Imitates the writer of the index. */
struct fake {
    struct memory file;
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    uint64_t n_samples, sum;
};

static enum pst_status fake_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct fake *fake = (struct fake *)(void *)writer;
    (void)err;
    CHECK(psti_format_field_problem(field) == NULL && fake->n_fields < PST_MAX_FIELDS);
    CHECK(!psti_format_name_is_taken(fake->fields, fake->n_fields, field->name));
    fake->fields[fake->n_fields] = *field;
    *i_field = fake->n_fields++;
    return PST_OK;
}

static void fake_restate(struct psti_containers_writer *writer, uint32_t i_field,
                         const struct pst_field *field)
{
    struct fake *fake = (struct fake *)(void *)writer;
    CHECK(i_field < fake->n_fields && psti_format_field_problem(field) == NULL);
    CHECK(field->type == fake->fields[i_field].type && field->dtype == fake->fields[i_field].dtype);
    fake->fields[i_field] = *field;
}

static void check_value(struct fake *fake, const struct psti_container_value *value)
{
    CHECK(value->i_field < fake->n_fields);
    const struct pst_field *field = &fake->fields[value->i_field];
    if (field->type == PST_FIELD_INT) {
        CHECK(field->n_classes == 0 ||
              (value->int_value >= 0 && value->int_value < field->n_classes));
        return;
    }
    const uint8_t *bytes = value->bytes;
    if (bytes == NULL) {
        CHECK(value->offset <= fake->file.nbytes &&
              value->nbytes <= fake->file.nbytes - value->offset);
        bytes = fake->file.data + value->offset;
    } else {
        CHECK(value->nbytes <= PSTI_TEXT_IN_INDEX_NBYTES);
    }
    CHECK(value->decoded_nbytes == value->nbytes && value->coding == PSTI_CODING_STORED);
    for (uint64_t i = 0; i < value->nbytes && i < 64; i++)
        fake->sum += bytes[i];
    if (field->type != PST_FIELD_ARRAY)
        return;
    uint64_t product = pst_dtype_nbytes(field->dtype);
    for (int i = 0; i < value->ndim; i++)
        if (value->shape[i] == 0)
            product = 0;
    for (int i = 0; i < value->ndim; i++)
        product *= value->shape[i];
    CHECK(product == value->nbytes && (field->ndim == 0 || field->ndim == value->ndim));
}

static enum pst_status fake_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct fake *fake = (struct fake *)(void *)writer;
    (void)err;
    CHECK(psti_format_name_problem(name, strlen(name)) == NULL);
    CHECK(n >= 1 && n <= fake->n_fields);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        check_value(fake, &values[i]);
        CHECK((seen >> values[i].i_field & 1) == 0);
        seen |= UINT64_C(1) << values[i].i_field;
    }
    fake->n_samples++;
    return PST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const struct psti_field_rule rules[] = {
        {.suffix = "pkl", .is_left_out = true},
        {.suffix = "cls", .field = "class", .type = PST_FIELD_INT, .n_classes = 10},
        {.suffix = "png", .field = "depth"},
        {.suffix = "bin", .field = "number", .type = PST_FIELD_INT},
    };
    if (nbytes == 0)
        return 0;
    static struct fake fake;
    fake = (struct fake){.file = {data + 1, nbytes - 1}};
    struct psti_walk_source source = {
        .read = memory_read, .context = &fake.file, .nbytes = nbytes - 1, .path = "a.tar"};
    struct psti_field_sink sink = {.field = fake_field,
                                   .restate = fake_restate,
                                   .sample = fake_sample,
                                   .writer = (struct psti_containers_writer *)(void *)&fake};
    struct psti_containers_fields *fields = NULL;
    struct psti_walk_counts counts = {0};
    struct pst_error err = {0};
    CHECK(psti_containers_fields_open(rules, data[0] % 5, &sink, &fields, &err) == PST_OK);
    struct psti_sample_taker taker = psti_containers_fields_taker(fields);
    enum pst_status status =
        psti_containers_walk(&source, PSTI_CONTAINER_TAR, &taker, &counts, &err);
    CHECK(status == PST_OK ||
          (err.text[0] != '\0' && err.status == status && strcmp(err.file, "a.tar") == 0));
    if (status == PST_OK) {
        CHECK(counts.n_samples >= fake.n_samples);
        CHECK(counts.n_members >= counts.n_passed + counts.n_links + counts.n_others);
        (void)psti_containers_fields_finish(fields, &err);
    }
    psti_containers_fields_close(&fields);
    return 0;
}
