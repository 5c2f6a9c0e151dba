/* writer_pairs.c - the pairs of left and right points of a keypoint field.
 *
 * In: pairs from the caller, from the data set that is appended to, or from the journal. Out: an
 * array that the writer keeps until it writes the index, and checks of samples against it. One
 * thread. The schema states the number of pairs, so an index without them is invalid. */
#include "writer/writer_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

static struct psti_pairs pairs_of(const pst_writer *writer, uint32_t i_field, const uint32_t *pairs)
{
    const struct pst_field *field = &writer->fields[i_field];
    return (struct psti_pairs){pairs, psti_format_n_pairs(field), (uint32_t)field->n_classes};
}

enum pst_status psti_writer_keep_pairs(pst_writer *writer, uint32_t i_field, const uint32_t *pairs,
                                       bool *is_new, struct pst_error *err)
{
    const struct psti_pairs given = pairs_of(writer, i_field, pairs);
    const char *problem = psti_format_pairs_problem(&given);
    size_t nbytes = given.n * 2 * sizeof *pairs;
    if (problem != NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "field \"%s\" %s",
                         writer->fields[i_field].name, problem);
    uint32_t *held = writer->pairs[i_field];
    *is_new = held == NULL || memcmp(held, pairs, nbytes) != 0;
    if (held == NULL)
        held = writer->pairs[i_field] = psti_alloc(nbytes);
    if (held == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for pairs of points");
    memcpy(held, pairs, nbytes);
    return PST_OK;
}

enum pst_status psti_writer_load_base_pairs(pst_writer *writer, uint32_t i_field,
                                            struct pst_error *err)
{
    const uint32_t *pairs = pst_dataset_point_pairs(writer->base, i_field);
    bool is_new;
    return pairs != NULL ? psti_writer_keep_pairs(writer, i_field, pairs, &is_new, err) : PST_OK;
}

size_t psti_writer_print_pairs(const pst_writer *writer, uint32_t i_field, uint8_t *out)
{
    size_t n = 2 * (size_t)psti_format_n_pairs(&writer->fields[i_field]);
    for (size_t i = 0; i < n; i++)
        psti_store_u32(out + 4 * i, writer->pairs[i_field][i]);
    return 4 * n;
}

const char *psti_writer_apply_pairs(pst_writer *writer, const uint8_t *body, uint64_t nbytes)
{
    uint32_t pairs[PST_MAX_POINTS];
    uint32_t i_field = nbytes >= 8 ? psti_load_u32(body) : UINT32_MAX;
    bool is_new;
    if (i_field >= writer->n_fields)
        return "holds pairs of a field that there is not";
    size_t n = 2 * (size_t)psti_format_n_pairs(&writer->fields[i_field]);
    if (n == 0 || n > PST_MAX_POINTS || nbytes != 8 + 4 * n)
        return "holds the wrong number of pairs";
    for (size_t i = 0; i < n; i++)
        pairs[i] = psti_load_u32(body + 8 + 4 * i);
    if (psti_writer_keep_pairs(writer, i_field, pairs, &is_new, NULL) != PST_OK)
        return "holds impossible pairs";
    return NULL;
}

enum pst_status psti_writer_check_points(const pst_writer *writer, uint32_t i_field,
                                         const struct pst_item *item, struct pst_error *err)
{
    const struct psti_pairs pairs = pairs_of(writer, i_field, writer->pairs[i_field]);
    if (pairs.n > 0 && pairs.pairs == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer",
                         "the pairs of the field are not set (pst_writer_set_point_pairs)");
    const char *problem = psti_format_points_problem(&pairs, item->shape[0]);
    if (problem == NULL)
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "%u keypoints %s%s", item->shape[0],
                     problem,
                     pairs.n_points > 0 ? " of the number of points that the field has" : "");
}
