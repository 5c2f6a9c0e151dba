/* containers_arrow_dictionary.c - keeps the values that dictionary messages hold.
 *
 * In: batches of one column. Out: values by their index. Indices come in any order, so all buffers
 * that are not large are read whole. */
#include "containers/arrow/containers_arrow_dictionary.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"
enum { PARTS_MAX = 1 << 16 };

static void empty(struct psti_arrow_dictionary *dictionary)
{
    for (size_t i = 0; i < dictionary->n_parts; i++)
        psti_containers_arrow_batch_free(&dictionary->parts[i].batch);
    dictionary->n_parts = 0;
    dictionary->n = 0;
}

/* Makes room for the values of one more message. */
static enum pst_status grow(struct psti_arrow_dictionary *dictionary, const char *path,
                            struct pst_error *err)
{
    if (dictionary->n_parts == PARTS_MAX)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, path, -1,
                            "a dictionary has more than %d parts: write the file anew", PARTS_MAX);
    if (dictionary->n_parts < dictionary->capacity)
        return PST_OK;
    size_t capacity = 2 * dictionary->capacity + 1;
    struct psti_arrow_part *parts = psti_realloc(dictionary->parts, capacity * sizeof *parts);
    if (parts == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a dictionary");
    dictionary->parts = parts;
    dictionary->capacity = capacity;
    return PST_OK;
}

/* Reads the buffers of a part into memory, except large ones. */
static enum pst_status load(struct psti_arrow_part *part, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < part->leaf.n_buffers && status == PST_OK; i++) {
        struct psti_arrow_buffer *buffer = &part->leaf.buffers[i];
        if (buffer->decoded_nbytes > 0 && buffer->decoded_nbytes <= PSTI_ARROW_LOAD_NBYTES)
            status = psti_containers_arrow_load(part->leaf.file, buffer, err);
    }
    return status;
}

enum pst_status psti_containers_arrow_dictionary_take(struct psti_arrow_dictionary *dictionary,
                                                      struct psti_arrow_file *file,
                                                      const struct psti_arrow_schema *schema,
                                                      const struct psti_flat_table *record,
                                                      const struct psti_arrow_frame *frame,
                                                      struct pst_error *err)
{
    if (!frame->is_delta)
        empty(dictionary);
    enum pst_status status = grow(dictionary, file->source->path, err);
    if (status != PST_OK)
        return status;
    struct psti_arrow_part *part = &dictionary->parts[dictionary->n_parts++];
    *part = (struct psti_arrow_part){.first = dictionary->n};
    status = psti_containers_arrow_batch(file->source->path, schema, record, frame,
                                         dictionary->i_field, true, &part->batch, err);
    if (status == PST_OK)
        status = psti_containers_arrow_leaf(file, schema, &part->batch, dictionary->i_field, true,
                                            &part->leaf, err);
    if (status == PST_OK)
        status = load(part, err);
    if (status == PST_OK && !psti_add_u64(dictionary->n, frame->n_rows, &dictionary->n))
        status = psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, file->source->path, (int64_t)frame->at,
                              "a dictionary has too many values");
    return status;
}

enum pst_status psti_containers_arrow_dictionary_find(struct psti_arrow_dictionary *dictionary,
                                                      const char *path, int64_t i,
                                                      struct psti_arrow_leaf **leaf,
                                                      uint64_t *i_leaf, struct pst_error *err)
{
    size_t low = 0, high = dictionary->n_parts;
    if (i < 0 || (uint64_t)i >= dictionary->n)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, path, -1,
                            "value %" PRId64 " of a dictionary is asked for, which has %" PRIu64, i,
                            dictionary->n);
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (dictionary->parts[middle].first <= (uint64_t)i)
            low = middle;
        else
            high = middle;
    }
    *leaf = &dictionary->parts[low].leaf;
    *i_leaf = (uint64_t)i - dictionary->parts[low].first;
    return PST_OK;
}

void psti_containers_arrow_dictionary_free(struct psti_arrow_dictionary *dictionary)
{
    empty(dictionary);
    psti_free(dictionary->parts);
    dictionary->parts = NULL;
    dictionary->capacity = 0;
}
