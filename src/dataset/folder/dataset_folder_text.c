/* dataset_folder_text.c - strings for the plain-folder data set: an arena, numbered names, sorting,
 * messages.
 *
 * In: untrusted bytes from directories and label files. Out: offsets into memory that grows,
 * because a pointer would become invalid when it moves. One thread at a time. */
#include "dataset/folder/dataset_folder_rows.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"
#include "format/format_dataset.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void psti_dataset_arena_free(struct psti_dataset_arena *arena)
{
    psti_free(arena->bytes);
    memset(arena, 0, sizeof *arena);
}

enum pst_status psti_dataset_arena_add(struct psti_dataset_arena *arena, const void *bytes,
                                       size_t nbytes, struct pst_error *err)
{
    size_t end;
    if (!psti_add_size(arena->nbytes, nbytes, &end) || end > SIZE_MAX / 2)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for names and labels");
    if (end > arena->capacity) {
        /* Grows by half instead of doubling, because millions of names would leave too much
         * unused. */
        size_t capacity = end + end / 2 + 256;
        char *grown = psti_realloc(arena->bytes, capacity);
        if (grown == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, "dataset",
                             "out of memory for %zu bytes of names and labels", capacity);
        arena->bytes = grown;
        arena->capacity = capacity;
    }
    if (nbytes > 0)
        memcpy(arena->bytes + arena->nbytes, bytes, nbytes);
    arena->nbytes = end;
    return PST_OK;
}

void psti_dataset_names_free(struct psti_names *names)
{
    psti_dataset_arena_free(&names->text);
    psti_free(names->at);
    psti_free(names->slots);
    memset(names, 0, sizeof *names);
}

const char *psti_dataset_names_get(const struct psti_names *names, size_t number)
{
    return names->text.bytes + names->at[number];
}

/* Returns the slot that holds the text, or the free slot for it. n_slots is a power of two, and at
 * least one slot is free. */
static uint32_t *names_slot(const struct psti_names *names, const char *text, size_t nbytes)
{
    size_t i = (size_t)psti_hash64(text, nbytes) & (names->n_slots - 1);
    while (names->slots[i] != 0) {
        const char *held = psti_dataset_names_get(names, names->slots[i] - 1);
        if (strlen(held) == nbytes && memcmp(held, text, nbytes) == 0)
            break;
        i = (i + 1) & (names->n_slots - 1);
    }
    return &names->slots[i];
}

static enum pst_status names_grow(struct psti_names *names, struct pst_error *err)
{
    size_t capacity = names->capacity == 0 ? 64 : names->capacity * 2;
    uint32_t *slots = psti_calloc(capacity * 2, sizeof *slots);
    uint64_t *at = psti_realloc(names->at, capacity * sizeof *at);
    if (at != NULL)
        names->at = at;
    if (slots == NULL || at == NULL) {
        psti_free(slots);
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for %zu class names",
                         capacity);
    }
    psti_free(names->slots);
    names->slots = slots;
    names->n_slots = capacity * 2;
    names->capacity = capacity;
    for (size_t i = 0; i < names->n; i++) {
        const char *text = psti_dataset_names_get(names, i);
        *names_slot(names, text, strlen(text)) = (uint32_t)i + 1;
    }
    return PST_OK;
}

enum pst_status psti_dataset_names_intern(struct psti_names *names, const char *text, size_t nbytes,
                                          uint32_t *number, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (names->n == names->capacity) {
        if (names->n >= PSTI_DATASET_FOLDER_MAX_LABEL / 2)
            return psti_fail(err, PST_ERROR_LIMIT, "dataset", "more than %zu classes", names->n);
        status = names_grow(names, err);
        if (status != PST_OK)
            return status;
    }
    uint32_t *slot = names_slot(names, text, nbytes);
    if (*slot == 0) {
        uint64_t at = names->text.nbytes;
        status = psti_dataset_arena_add(&names->text, text, nbytes, err);
        if (status == PST_OK)
            status = psti_dataset_arena_add(&names->text, "", 1, err);
        if (status != PST_OK)
            return status;
        names->at[names->n++] = at;
        *slot = (uint32_t)names->n;
    }
    *number = *slot - 1;
    return PST_OK;
}

static bool names_less(const void *ctx, uint32_t a, uint32_t b)
{
    const struct psti_names *names = ctx;
    return strcmp(psti_dataset_names_get(names, a), psti_dataset_names_get(names, b)) < 0;
}

enum pst_status psti_dataset_names_sort(struct psti_names *names, uint32_t **rank,
                                        struct pst_error *err)
{
    enum pst_status status = PST_ERROR_MEMORY;
    uint32_t *order = psti_alloc_array(names->n + 1, sizeof *order);
    uint32_t *ranks = psti_alloc_array(names->n + 1, sizeof *ranks);
    uint64_t *at = psti_alloc_array(names->n + 1, sizeof *at);
    if (order == NULL || ranks == NULL || at == NULL) {
        psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for %zu class names", names->n);
        goto out;
    }
    for (size_t i = 0; i < names->n; i++)
        order[i] = (uint32_t)i;
    status = psti_dataset_folder_sort(order, names->n, names_less, names, err);
    if (status != PST_OK)
        goto out;
    for (size_t i = 0; i < names->n; i++) {
        at[i] = names->at[order[i]];
        ranks[order[i]] = (uint32_t)i;
    }
    psti_free(names->at);
    names->at = at;
    at = NULL;
    /* The slots hold old numbers. They are freed, so no name may be added any more. */
    psti_free(names->slots);
    names->slots = NULL;
    *rank = ranks;
    ranks = NULL;
out:
    psti_free(at);
    psti_free(ranks);
    psti_free(order);
    return status;
}

static void merge_runs(const uint32_t *from, uint32_t *to, size_t begin, size_t middle, size_t end,
                       psti_less less, const void *ctx)
{
    size_t a = begin, b = middle;
    for (size_t i = begin; i < end; i++) {
        bool take_b = a == middle || (b < end && less(ctx, from[b], from[a]));
        to[i] = take_b ? from[b++] : from[a++];
    }
}

enum pst_status psti_dataset_folder_sort(uint32_t *order, size_t n, psti_less less, const void *ctx,
                                         struct pst_error *err)
{
    size_t i = 1;
    /* Finds a run that is in order already, as most folders and label files are. */
    while (i < n && !less(ctx, order[i], order[i - 1]))
        i++;
    if (i >= n)
        return PST_OK;
    uint32_t *scratch = psti_alloc_array(n, sizeof *scratch);
    if (scratch == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory to sort %zu names", n);
    uint32_t *from = order, *to = scratch;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = n - begin < width ? n : begin + width;
            size_t end = n - middle < width ? n : middle + width;
            merge_runs(from, to, begin, middle, end, less, ctx);
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order)
        memcpy(order, from, n * sizeof *order);
    psti_free(scratch);
    return PST_OK;
}

bool psti_dataset_folder_name_ok(const char *name, size_t nbytes)
{
    if (nbytes == 0 || nbytes >= PSTI_DATASET_FOLDER_NAME_CAP || !psti_format_is_utf8(name, nbytes))
        return false;
    for (size_t i = 0; i < nbytes; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return false;
    return true;
}

/* True if the text is a decimal number. *is_int: it has neither fraction nor exponent. */
static bool number_shape(const char *s, size_t n, bool *is_int)
{
    size_t i = 0, digits = 0;
    *is_int = true;
    if (i < n && (s[i] == '-' || s[i] == '+'))
        i++;
    for (; i < n && s[i] >= '0' && s[i] <= '9'; i++)
        digits++;
    if (i < n && s[i] == '.') {
        *is_int = false;
        for (i++; i < n && s[i] >= '0' && s[i] <= '9'; i++)
            digits++;
    }
    if (digits == 0)
        return false;
    if (i < n && (s[i] == 'e' || s[i] == 'E')) {
        *is_int = false;
        i++;
        if (i < n && (s[i] == '-' || s[i] == '+'))
            i++;
        size_t start = i;
        while (i < n && s[i] >= '0' && s[i] <= '9')
            i++;
        if (i == start)
            return false;
    }
    return i == n;
}

static bool integer_value(const char *s, size_t n, int64_t *value)
{
    bool negative = s[0] == '-';
    int64_t v = 0;
    for (size_t i = s[0] == '-' || s[0] == '+'; i < n; i++) {
        /* Accumulates a negative number, because the lowest int64 has no positive counterpart. */
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, s[i] - '0', &v))
            return false;
    }
    if (!negative && __builtin_sub_overflow(0, v, &v))
        return false;
    *value = v;
    return true;
}

bool psti_dataset_folder_is_integer(const char *text, size_t nbytes)
{
    bool is_int;
    return number_shape(text, nbytes, &is_int) && is_int;
}

void psti_dataset_folder_number(const char *text, size_t nbytes, struct psti_cell *cell)
{
    char terminated[512];
    bool is_int;
    cell->kind = PSTI_DATASET_CELL_ABSENT;
    if (nbytes >= sizeof terminated || !number_shape(text, nbytes, &is_int))
        return;
    if (is_int) {
        if (!integer_value(text, nbytes, &cell->i))
            return;
        cell->kind = PSTI_DATASET_CELL_INT;
        cell->d = (double)cell->i;
        return;
    }
    /* The program that uses the library may have set a locale that writes 1.5 as 1,5. For "C",
     * glibc's newlocale returns a static object. */
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return;
    memcpy(terminated, text, nbytes);
    terminated[nbytes] = '\0';
    cell->d = strtod_l(terminated, NULL, c_locale);
    freelocale(c_locale);
    if (isfinite(cell->d))
        cell->kind = PSTI_DATASET_CELL_FLOAT;
}
