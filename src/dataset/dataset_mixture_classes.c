/* dataset_mixture_classes.c - makes one table of classes from those of a mixture's sources.
 *
 * In: a field of labels. Out: its classes in the mixture, and for each source with other class
 * numbers the mixture's number of each label. Equal tables are kept. Different tables are merged by
 * class names, in the order of their first appearance. Runs on the calling thread. */
#include "dataset/dataset_mixture.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "dataset"
/* Maximum number of classes of a merged table, whose names are all in memory. */
#define CLASSES_LIMIT ((int64_t)1 << 24)

/* The merged table while it grows: names by number, and a hash table of numbers by name. */
struct table {
    char **names;
    int64_t n, capacity;
    int64_t *slots; /* 1 + a number; 0: free. n_slots is a power of two, at least 2 * n */
    size_t n_slots;
};

static void table_free(struct table *table)
{
    for (int64_t i = 0; i < table->n; i++)
        psti_free(table->names[i]);
    psti_free(table->names);
    psti_free(table->slots);
    *table = (struct table){0};
}

/* Returns the slot that holds the name, or the free slot for it. */
static int64_t *slot_of(const struct table *table, const char *name)
{
    size_t at = (size_t)psti_hash64(name, strlen(name)) & (table->n_slots - 1);
    while (table->slots[at] != 0 && strcmp(table->names[table->slots[at] - 1], name) != 0)
        at = (at + 1) & (table->n_slots - 1);
    return &table->slots[at];
}

/* Makes room for one more name. False: there is no memory. */
static bool table_grow(struct table *table)
{
    if (table->n < table->capacity)
        return true;
    int64_t capacity = table->capacity > 0 ? 2 * table->capacity : 64;
    char **names = psti_realloc(table->names, (size_t)capacity * sizeof *names);
    if (names == NULL)
        return false;
    table->names = names;
    int64_t *slots = psti_calloc((size_t)capacity * 2, sizeof *slots);
    if (slots == NULL)
        return false;
    psti_free(table->slots);
    table->slots = slots;
    table->n_slots = (size_t)capacity * 2;
    table->capacity = capacity;
    for (int64_t i = 0; i < table->n; i++)
        *slot_of(table, table->names[i]) = i + 1;
    return true;
}

/* Finds a name, or adds it. *number: -1 if there is no memory. */
static void table_add(struct table *table, const char *name, int64_t *number)
{
    *number = -1;
    if (!table_grow(table))
        return;
    int64_t *slot = slot_of(table, name);
    if (*slot == 0) {
        char *copy = psti_strdup(name);
        if (copy == NULL)
            return;
        table->names[table->n] = copy;
        *slot = ++table->n;
    }
    *number = *slot - 1;
}

static bool has_names(const pst_dataset *dataset, uint32_t i_field)
{
    return dataset->fields[i_field].n_classes > 0 &&
           pst_dataset_class_name(dataset, i_field, 0) != NULL;
}

static bool are_equal(const pst_dataset *a, uint32_t i, const pst_dataset *b, uint32_t k)
{
    int64_t n = a->fields[i].n_classes;
    if (n != b->fields[k].n_classes || has_names(a, i) != has_names(b, k))
        return false;
    for (int64_t label = 0; has_names(a, i) && label < n; label++)
        if (strcmp(pst_dataset_class_name(a, i, label), pst_dataset_class_name(b, k, label)) != 0)
            return false;
    return true;
}

static enum pst_status fail_nameless(const struct psti_mixture *self, uint32_t i_field,
                                     uint32_t i_source, struct pst_error *err)
{
    char first[PSTI_MIXTURE_SOURCE_CAP], second[PSTI_MIXTURE_SOURCE_CAP];
    const struct psti_mixture_source *a = self->sources, *b = &self->sources[i_source];
    bool named = has_names(a->dataset, a->fields[i_field]);
    bool other_named = has_names(b->dataset, b->fields[i_field]);
    return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                     "the labels of the field \"%s\" do not fit together: %s has %" PRId64
                     " classes %s names, %s has %" PRId64
                     " %s (0: any number), and only tables of which all have names are joined: "
                     "rename the field in one of them, or name the fields to take (fields)",
                     self->base.fields[i_field].name, psti_dataset_mixture_call(self, 0, first),
                     a->dataset->fields[a->fields[i_field]].n_classes, named ? "with" : "without",
                     psti_dataset_mixture_call(self, i_source, second),
                     b->dataset->fields[b->fields[i_field]].n_classes,
                     other_named ? "with" : "without");
}

static enum pst_status fail_twice(const struct psti_mixture *self, uint32_t i_field,
                                  uint32_t i_source, const char *name, struct pst_error *err)
{
    char text[PSTI_MIXTURE_SOURCE_CAP];
    return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                     "the field \"%s\" of %s has two classes \"%.80s\", so its table cannot be "
                     "joined with another one by names: rename the field, or name the fields to "
                     "take (fields)",
                     self->base.fields[i_field].name,
                     psti_dataset_mixture_call(self, i_source, text), name);
}

/* Adds the classes of one source, and stores their numbers in the mixture. */
static enum pst_status add_classes(struct psti_mixture *self, uint32_t i_field, uint32_t i_source,
                                   struct table *table, struct pst_error *err)
{
    struct psti_mixture_source *source = &self->sources[i_source];
    uint32_t i = source->fields[i_field];
    int64_t n = source->dataset->fields[i].n_classes;
    bool moves = false;
    int64_t *labels = psti_alloc_array((size_t)n, sizeof *labels);
    /* One byte for each class of the table: set if this source has the class. */
    unsigned char *seen = psti_calloc((size_t)(table->n + n), 1);
    enum pst_status status = PST_OK;
    if (labels == NULL || seen == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for %" PRId64 " classes", n);
    for (int64_t label = 0; status == PST_OK && label < n; label++) {
        const char *name = pst_dataset_class_name(source->dataset, i, label);
        table_add(table, name, &labels[label]);
        if (labels[label] < 0)
            status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for classes");
        else if (seen[labels[label]]++)
            status = fail_twice(self, i_field, i_source, name, err);
        moves |= labels[label] != label;
    }
    psti_free(seen);
    if (status == PST_OK && moves)
        source->labels[i_field] = labels;
    else
        psti_free(labels);
    return status;
}

/* True if the element type of an array of labels can hold this label. */
static bool fits(const struct pst_field *field, int64_t label)
{
    uint8_t element[8] = {0};
    return field->type != PST_FIELD_ARRAY ||
           psti_format_map_labels(field, element, pst_dtype_nbytes(field->dtype), &label, 1);
}

enum pst_status psti_dataset_mixture_join_classes(struct psti_mixture *self, uint32_t i_field,
                                                  struct pst_error *err)
{
    const struct psti_mixture_source *first = self->sources;
    struct table table = {0};
    enum pst_status status = PST_OK;
    uint32_t i_other = 0;
    int64_t n = 0;
    for (uint32_t i = 1; i_other == 0 && i < self->n_sources; i++)
        if (!are_equal(first->dataset, first->fields[i_field], self->sources[i].dataset,
                       self->sources[i].fields[i_field]))
            i_other = i;
    if (i_other == 0)
        return PST_OK;
    for (uint32_t i = 0; i < self->n_sources; i++) {
        const struct psti_mixture_source *source = &self->sources[i];
        if (!has_names(source->dataset, source->fields[i_field]))
            return fail_nameless(self, i_field, i > 0 ? i : i_other, err);
        int64_t own = source->dataset->fields[source->fields[i_field]].n_classes;
        n = own > CLASSES_LIMIT ? own : n + own;
        if (n > CLASSES_LIMIT)
            return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                             "the sources have more than %" PRId64 " classes in the field \"%s\"",
                             CLASSES_LIMIT, self->base.fields[i_field].name);
    }
    for (uint32_t i = 0; status == PST_OK && i < self->n_sources; i++)
        status = add_classes(self, i_field, i, &table, err);
    if (status == PST_OK && !fits(&self->base.fields[i_field], table.n - 1))
        status = psti_fail(err, PST_ERROR_LIMIT, ROOM,
                           "the field \"%s\" has %" PRId64
                           " classes when those of all sources are joined, which its dtype does "
                           "not hold",
                           self->base.fields[i_field].name, table.n);
    if (status == PST_OK) {
        self->base.fields[i_field].n_classes = table.n;
        self->classes[i_field] = table.names;
        psti_free(table.slots);
    } else {
        table_free(&table);
    }
    return status;
}
