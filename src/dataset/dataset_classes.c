/* dataset_classes.c - reads and checks a field's class names, and finds one.
 *
 * In: the part of an index that holds them. Out: a pointer to a name in memory. Any thread. */
#include "dataset/dataset_classes.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <stddef.h>

/* Maximum number of bytes of the class names of one field. */
#define CLASSES_LIMIT ((uint64_t)1 << 30)

/* Returns NULL, or what is wrong with the class names. */
static const char *problem_with(const char *classes, uint64_t n_classes, uint64_t nbytes)
{
    uint64_t table_nbytes;
    if (!psti_mul_u64(n_classes + 1, 8, &table_nbytes) || table_nbytes >= nbytes)
        return "the index has fewer class names than classes";
    const char *names = classes + table_nbytes;
    for (uint64_t i = 0; i < n_classes; i++) {
        uint64_t start = psti_load_u64(classes + 8 * i), end = psti_load_u64(classes + 8 * i + 8);
        if (end > nbytes - table_nbytes || start >= end || end - start > PSTI_NAME_LIMIT)
            return "the index places a class name outside of its class names";
        size_t length = (size_t)(end - start - 1);
        if (names[end - 1] != 0 || psti_format_name_problem(names + start, length) != NULL)
            return "the index holds an impossible class name";
    }
    return NULL;
}

enum pst_status psti_dataset_classes_read(struct psti_blocks *blocks,
                                          const struct psti_dataset_classes *place, char **classes,
                                          struct pst_error *err)
{
    if (place->nbytes == 0)
        return PST_OK;
    if (place->nbytes > CLASSES_LIMIT)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset",
                         "the class names of field \"%s\" take %" PRIu64
                         " bytes, this library reads up to 1 GiB",
                         place->field, place->nbytes);
    *classes = psti_alloc((size_t)place->nbytes);
    if (*classes == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for class names");
    enum pst_status status =
        psti_dataset_blocks_read(blocks, place->offset, place->nbytes, *classes, err);
    if (status != PST_OK)
        return status;
    const char *problem = problem_with(*classes, place->n_classes, place->nbytes);
    return problem == NULL ? PST_OK
                           : psti_fail_at(err, PST_ERROR_CORRUPT, "dataset", NULL,
                                          (int64_t)place->offset, "%s", problem);
}

const char *psti_dataset_classes_name(const char *classes, uint64_t n_classes, int64_t label)
{
    if (classes == NULL || label < 0 || (uint64_t)label >= n_classes)
        return NULL;
    return classes + 8 * (n_classes + 1) + psti_load_u64(classes + 8 * (uint64_t)label);
}
