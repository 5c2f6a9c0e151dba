/* dataset_classes.c - checks the names of classes of a field, and finds one.
 *
 * In: the bytes of an index that hold them. Out: a name within these bytes. Pure. */
#include "dataset/dataset_classes.h"

#include "base/bits.h"
#include "base/checked.h"
#include "format/format_dataset.h"

#include <stddef.h>

const char *psti_dataset_classes_problem(const char *classes, uint64_t n_classes, uint64_t nbytes)
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

const char *psti_dataset_classes_name(const char *classes, uint64_t n_classes, int64_t label)
{
    if (classes == NULL || label < 0 || (uint64_t)label >= n_classes)
        return NULL;
    return classes + 8 * (n_classes + 1) + psti_load_u64(classes + 8 * (uint64_t)label);
}
