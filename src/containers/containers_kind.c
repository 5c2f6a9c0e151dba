/* containers_kind.c - finds the kind of a container file by its name, in the table of kinds. Pure
 * functions. */
#include "containers/containers_kinds.h"

#include <string.h>
#include <strings.h>

static bool is_read(const struct psti_kind *kind)
{
    return kind->has_members || kind->walk != NULL;
}

const struct psti_kind *psti_containers_kind(enum psti_container_kind number)
{
    const struct psti_kind *kind = psti_containers_kinds;
    while (kind->kind != PSTI_CONTAINER_NONE && kind->kind != number)
        kind++;
    return kind->kind != PSTI_CONTAINER_NONE && is_read(kind) ? kind : NULL;
}

/* Returns the length of a file name without a shard number such as "-00000-of-00010" at its end. */
static size_t unnumbered(const char *name)
{
    size_t n = strlen(name), at = n;
    for (int part = 0; part < 2; part++) {
        size_t end = at;
        while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
            at--;
        const char *before = part == 0 ? "-of-" : "-";
        size_t n_before = strlen(before);
        if (at == end || at < n_before || memcmp(name + at - n_before, before, n_before) != 0)
            return n;
        at -= n_before;
    }
    return at;
}

enum psti_container_kind psti_containers_kind_of_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    size_t n = strlen(name), n_short = unnumbered(name);
    for (const struct psti_kind *kind = psti_containers_kinds; kind->kind != PSTI_CONTAINER_NONE;
         kind++) {
        size_t length = kind->kind == PSTI_CONTAINER_TFRECORD ? n_short : n;
        for (size_t i = 0; is_read(kind) && i < 4 && kind->ends[i] != NULL; i++) {
            size_t n_end = strlen(kind->ends[i]);
            if (length >= n_end && strncasecmp(name + length - n_end, kind->ends[i], n_end) == 0)
                return kind->kind;
        }
    }
    return PSTI_CONTAINER_NONE;
}

bool psti_containers_kind_is_in(const char *text)
{
    for (const struct psti_kind *kind = psti_containers_kinds; kind->kind != PSTI_CONTAINER_NONE;
         kind++)
        for (size_t i = 0; is_read(kind) && i < 4 && kind->ends[i] != NULL; i++)
            if (strcasestr(text, kind->ends[i]) != NULL)
                return true;
    return false;
}

bool psti_containers_is_beside(const char *name)
{
    size_t n = strlen(name);
    return strcmp(name, "lock.mdb") == 0 ||
           (strncmp(name, "cache-", 6) == 0 && n > 6 && strcmp(name + n - 6, ".arrow") == 0);
}

void psti_containers_kinds_say(struct psti_text *text, const char *before, const char *last)
{
    size_t n = 0, i = 0;
    for (const struct psti_kind *kind = psti_containers_kinds; kind->kind != PSTI_CONTAINER_NONE;
         kind++)
        n += is_read(kind);
    for (const struct psti_kind *kind = psti_containers_kinds; kind->kind != PSTI_CONTAINER_NONE;
         kind++) {
        if (!is_read(kind))
            continue;
        i++;
        psti_text_add(text, "%s%s%s", i == 1 ? "" : i == n ? last : ", ", before, kind->ends[0]);
    }
}
