/* fuzz_containers_record.c - reads any bytes as the record of a walk: a header, and events. The
 * input is tried unchanged and with corrected length and checksums, so that the code after those
 * checks is reached. It is replayed as samples and as calls for columns. */
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"
#include "containers/record/containers_record_int.h"
#include "format/format_dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

/* Collects what is replayed, in place of the writer of an index. */
struct taken {
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    uint64_t n_pages, file_nbytes;
    struct psti_walk_record *record;
};

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static struct taken *self_of(struct psti_containers_writer *writer)
{
    return (struct taken *)(void *)writer;
}

static enum pst_status take_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct taken *self = self_of(writer);
    if (psti_format_field_problem(field) != NULL) /* as the index's writer does */
        return psti_fail(err, PST_ERROR_ARGUMENT, "fuzz", "a field is none");
    check(self->n_fields < PST_MAX_FIELDS);
    self->fields[self->n_fields] = *field;
    *i_field = self->n_fields++;
    return PST_OK;
}

static void restate(struct psti_containers_writer *writer, uint32_t i_field,
                    const struct pst_field *field)
{
    check(i_field < self_of(writer)->n_fields);
    self_of(writer)->fields[i_field] = *field;
}

static enum pst_status take_classes(struct psti_containers_writer *writer, uint32_t i_field,
                                    const char *names, size_t nbytes, uint32_t n,
                                    struct pst_error *err)
{
    (void)err;
    check(i_field < self_of(writer)->n_fields && n > 0 && nbytes >= n && names[nbytes - 1] == '\0');
    return PST_OK;
}

static enum pst_status take_page(struct psti_containers_writer *writer,
                                 const struct psti_container_page *page, uint64_t *i_page,
                                 struct pst_error *err)
{
    (void)err;
    check(page->coding != PSTI_CODING_STORED);
    /* page numbers do not begin at 0, as if earlier files had pages */
    *i_page = 7 + self_of(writer)->n_pages++;
    return PST_OK;
}

static enum pst_status take_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct taken *self = self_of(writer);
    uint64_t seen = 0, sum = strlen(name);
    (void)err;
    for (uint32_t i = 0; i < n; i++) {
        const struct psti_container_value *value = &values[i];
        check(value->i_field < self->n_fields && (seen >> value->i_field & 1) == 0);
        seen |= UINT64_C(1) << value->i_field;
        check(value->ndim <= PST_MAX_NDIM);
        if (!psti_format_has_items(self->fields[value->i_field].type))
            continue;
        if (value->bytes != NULL)
            for (uint64_t k = 0; k < value->nbytes; k++)
                sum += ((const uint8_t *)value->bytes)[k];
        else if (value->is_in_page)
            check(value->i_page >= 7 && value->i_page - 7 < self->n_pages);
        else if (value->nbytes > 0)
            check(value->offset <= self->file_nbytes &&
                  value->nbytes <= self->file_nbytes - value->offset);
        sum += psti_containers_record_find_sum(self->record, value);
    }
    static volatile uint64_t all;
    all = all + sum;
    return PST_OK;
}

static void play(int fd, bool is_sealed)
{
    static const struct psti_field_rule rules[] = {{.suffix = "a", .type = PST_FIELD_BYTES}};
    struct psti_walk_record_head head;
    struct taken taken = {.n_fields = 0};
    const struct psti_field_sink sink = {.field = take_field,
                                         .restate = restate,
                                         .classes = take_classes,
                                         .page = take_page,
                                         .sample = take_sample,
                                         .writer = (struct psti_containers_writer *)(void *)&taken};
    struct psti_containers_columns *columns = NULL;
    struct psti_containers_fields *fields = NULL;
    struct pst_error err = {0};
    bool deviates = false;
    enum pst_status status =
        psti_containers_record_open(fd, "a.record", &taken.record, &head, &err);
    if (status == PST_OK)
        status = psti_containers_record_verify(taken.record, &err);
    check(status == PST_OK || (err.text[0] != '\0' && strcmp(err.file, "a.record") == 0));
    check(status == PST_OK || !is_sealed);
    if (taken.record != NULL) {
        taken.file_nbytes = head.file_nbytes;
        check(psti_containers_fields_open(rules, 1, &sink, &fields, &err) == PST_OK);
        struct psti_sample_taker taker = psti_containers_fields_taker(fields);
        status = psti_containers_record_play_samples(taken.record, &taker, &err);
        check(status == PST_OK || (err.text[0] != '\0' && err.status == status));
        taken.n_fields = 0;
        check(psti_containers_columns_open(rules, 1, &sink, &columns, &err) == PST_OK);
        status =
            psti_containers_record_play_columns(taken.record, "a.file", columns, &deviates, &err);
        check(status == PST_OK || (err.text[0] != '\0' && err.status == status));
    }
    psti_containers_fields_close(&fields);
    psti_containers_columns_close(&columns);
    psti_containers_record_close(&taken.record);
}

int LLVMFuzzerTestOneInput(const uint8_t *given, size_t nbytes)
{
    uint8_t header[PSTI_RECORD_HEADER_NBYTES];
    FILE *file = tmpfile();
    check(file != NULL);
    if (nbytes > 0)
        check(fwrite(given, nbytes, 1, file) == 1);
    check(fflush(file) == 0);
    play(fileno(file), false);
    if (nbytes >= sizeof header) {
        const uint8_t *events = given + sizeof header;
        memcpy(header, given, sizeof header);
        memcpy(header, PSTI_RECORD_MAGIC, 8);
        psti_store_u32(header + PSTI_RECORD_AT_VERSION, PSTI_RECORD_VERSION);
        psti_store_u64(header + PSTI_RECORD_AT_NBYTES, nbytes - sizeof header);
        psti_store_u64(header + PSTI_RECORD_AT_CHECKSUM,
                       psti_hash64(events, nbytes - sizeof header));
        psti_store_u64(header + PSTI_RECORD_AT_SUM, psti_hash64(header, PSTI_RECORD_AT_SUM));
        check(pwrite(fileno(file), header, sizeof header, 0) == (ssize_t)sizeof header);
        play(fileno(file), true);
    }
    fclose(file);
    return 0;
}
