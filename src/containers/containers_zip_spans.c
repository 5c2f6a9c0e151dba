/* containers_zip_spans.c - finds members of a zip that share bytes.
 *
 * In: the byte range of each member, in the order of the directory. In nearly all zips the members
 * lie in that order and without gaps, so one span grows to cover them all. A gap that is too small
 * for another member counts as a part of the span. */
#include "containers/containers_zip_int.h"

#include "base/alloc.h"

#include <stdlib.h>

bool psti_containers_zip_spans_add(struct psti_zip_spans *spans, uint64_t begin, uint64_t end,
                                   bool *shared)
{
    struct psti_zip_span *last = spans->n > 0 ? &spans->list[spans->n - 1] : NULL;
    *shared = last != NULL && begin < last->end && end > last->begin;
    if (*shared)
        return true;
    if (last != NULL && begin >= last->end && begin - last->end <= PSTI_ZIP_HEADER) {
        last->end = end;
        return true;
    }
    if (spans->n == spans->capacity) {
        uint64_t capacity = 2 * spans->capacity + 64;
        struct psti_zip_span *list =
            capacity > SIZE_MAX / sizeof *list
                ? NULL
                : psti_realloc(spans->list, (size_t)capacity * sizeof *list);
        if (list == NULL)
            return false;
        spans->list = list;
        spans->capacity = capacity;
    }
    spans->list[spans->n++] = (struct psti_zip_span){begin, end};
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct psti_zip_span *left = a, *right = b;
    return left->begin < right->begin ? -1 : left->begin > right->begin;
}

bool psti_containers_zip_spans_share(struct psti_zip_spans *spans, struct psti_zip_span *first,
                                     struct psti_zip_span *second)
{
    if (spans->n > 1)
        qsort(spans->list, (size_t)spans->n, sizeof *spans->list, compare);
    for (uint64_t i = 1; i < spans->n; i++)
        if (spans->list[i].begin < spans->list[i - 1].end) {
            *first = spans->list[i - 1];
            *second = spans->list[i];
            return true;
        }
    return false;
}
