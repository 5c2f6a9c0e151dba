/* dataset_walk_sink.c - computes checksums of items while a walk gives them.
 *
 * In: fields, pages and samples of one file. Out: checksums, to the record of the walk. A sink
 * passes only its writer to its functions (containers_sink.h), so this sink sets itself as the
 * writer. */
#include "dataset/walk/dataset_walk_sink.h"

#include "base/alloc.h"
#include "base/fail.h"

#define ROOM "dataset"

static struct psti_walk_sink *self_of(struct psti_containers_writer *writer)
{
    return (struct psti_walk_sink *)(void *)writer;
}

static enum pst_status add_field(struct psti_containers_writer *writer,
                                 const struct pst_field *field, uint32_t *i_field,
                                 struct pst_error *err)
{
    struct psti_walk_sink *self = self_of(writer);
    if (self->n_fields == PST_MAX_FIELDS)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                         "the samples have more than %d fields: choose by `fields`",
                         PST_MAX_FIELDS);
    self->fields[self->n_fields] = *field;
    *i_field = self->n_fields++;
    return PST_OK;
}

static void restate(struct psti_containers_writer *writer, uint32_t i_field,
                    const struct pst_field *field)
{
    self_of(writer)->fields[i_field] = *field;
}

static enum pst_status take_classes(struct psti_containers_writer *writer, uint32_t i_field,
                                    const char *names, size_t nbytes, uint32_t n,
                                    struct pst_error *err)
{
    (void)writer, (void)i_field, (void)names, (void)nbytes, (void)n, (void)err;
    return PST_OK;
}

static enum pst_status add_page(struct psti_containers_writer *writer,
                                const struct psti_container_page *page, uint64_t *i_page,
                                struct pst_error *err)
{
    struct psti_walk_sink *self = self_of(writer);
    if (page->nbytes >= PSTI_CONTAINER_PAGE_LIMIT ||
        page->decoded_nbytes >= PSTI_CONTAINER_PAGE_LIMIT)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "a page has 2 GiB or more");
    if (self->n_pages == self->capacity) {
        size_t capacity = 2 * self->capacity + 64;
        struct psti_container_page_entry *pages =
            psti_realloc(self->pages, capacity * sizeof *pages);
        if (pages == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for %zu pages", capacity);
        self->pages = pages;
        self->capacity = capacity;
    }
    self->pages[self->n_pages] =
        (struct psti_container_page_entry){.offset = page->offset,
                                           .nbytes = (uint32_t)page->nbytes,
                                           .decoded_nbytes = (uint32_t)page->decoded_nbytes,
                                           .coding = (enum pst_coding)page->coding};
    *i_page = self->n_pages++;
    return PST_OK;
}

static enum pst_status sum_paged(struct psti_walk_sink *self,
                                 const struct psti_container_value *value, uint64_t *sum,
                                 struct pst_error *err)
{
    const uint32_t f = value->i_field;
    enum pst_status status = PST_OK;
    if (value->i_page >= self->n_pages)
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "an item lies in no page of its file");
    if (!psti_dataset_summer_has(&self->summer, f, value->i_page))
        status = psti_dataset_summer_page(&self->summer, f, self->fields[f].name, value->i_page,
                                          &self->pages[value->i_page], err);
    return status == PST_OK
               ? psti_dataset_summer_paged(&self->summer, f, value->offset, value->nbytes, sum, err)
               : status;
}

/* Computes the checksum of a value's item, unless the value has none or lies in the index. */
static enum pst_status sum_value(struct psti_walk_sink *self,
                                 const struct psti_container_value *value, struct pst_error *err)
{
    const struct pst_field *field = &self->fields[value->i_field];
    struct psti_walk_record_sum sum = {.is_in_page = value->is_in_page,
                                       .i_page = value->i_page,
                                       .offset = value->offset,
                                       .nbytes = value->nbytes};
    uint64_t own_nbytes = value->is_in_page ? value->nbytes : value->decoded_nbytes;
    if (!psti_format_has_items(field->type) || value->bytes != NULL || own_nbytes == 0)
        return PST_OK;
    enum pst_status status =
        value->is_in_page ? sum_paged(self, value, &sum.sum, err)
                          : psti_dataset_summer_stored(&self->summer, field->name, value->offset,
                                                       value->nbytes, &sum.sum, err);
    if (status == PST_OK)
        psti_containers_record_writer_sum(self->record, &sum);
    return status;
}

static enum pst_status take_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct psti_walk_sink *self = self_of(writer);
    enum pst_status status = PST_OK;
    (void)name;
    for (uint32_t i = 0; status == PST_OK && self->record != NULL && i < n; i++)
        status = sum_value(self, &values[i], err);
    return status;
}

struct psti_field_sink psti_dataset_walk_sink(struct psti_walk_sink *sink)
{
    return (struct psti_field_sink){.field = add_field,
                                    .restate = restate,
                                    .classes = take_classes,
                                    .page = add_page,
                                    .sample = take_sample,
                                    .writer = (struct psti_containers_writer *)(void *)sink};
}

void psti_dataset_walk_sink_free(struct psti_walk_sink *sink)
{
    psti_dataset_summer_free(&sink->summer);
    psti_free(sink->pages);
}
