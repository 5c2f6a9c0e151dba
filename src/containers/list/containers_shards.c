/* containers_shards.c - adds shards to a list, and checks the paths that other programs' indexes
 * state. */
#include "containers/list/containers_shards.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "format/format_dataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM "containers"

/* Makes room in *things for one more element of `size` bytes. */
static enum pst_status reserve(void *things, size_t n, size_t *capacity, size_t size,
                               struct pst_error *err)
{
    void *memory;
    if (n < *capacity)
        return PST_OK;
    size_t wanted = *capacity == 0 ? 64 : 2 * *capacity;
    memcpy(&memory, things, sizeof memory);
    memory = psti_realloc(memory, wanted * size);
    if (memory == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a list of %zu", wanted);
    memcpy(things, &memory, sizeof memory);
    *capacity = wanted;
    return PST_OK;
}

static enum pst_status copy(const char *text, char **out, struct pst_error *err)
{
    *out = psti_strdup(text);
    return *out != NULL ? PST_OK
                        : psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a name");
}

void psti_containers_shards_normalise(const char *path, char *out)
{
    char *to = out;
    if (*path == '/')
        *to++ = '/';
    const char *start = to;
    while (*(path += strspn(path, "/")) != '\0') {
        size_t n = strcspn(path, "/");
        if (n != 1 || *path != '.') {
            if (to > start)
                *to++ = '/';
            memmove(to, path, n);
            to += n;
        }
        path += n;
    }
    *to = '\0';
}

enum pst_status psti_containers_shards_add(struct psti_container_list *list, const char *path,
                                           int64_t n_samples, int32_t i_split,
                                           struct pst_error *err)
{
    if (list->n_shards == PSTI_CONTAINERS_MAX_SHARDS)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "there are more than %d shards",
                         PSTI_CONTAINERS_MAX_SHARDS);
    enum pst_status status =
        reserve(&list->shards, list->n_shards, &list->shard_capacity, sizeof *list->shards, err);
    struct psti_container_shard shard = {.n_samples = n_samples, .i_split = i_split};
    if (status == PST_OK)
        status = copy(path, &shard.path, err);
    if (status != PST_OK)
        return status;
    psti_containers_shards_normalise(path, shard.path);
    list->shards[list->n_shards++] = shard;
    return PST_OK;
}

void psti_containers_shards_cut(struct psti_container_list *list, size_t n)
{
    while (list->n_shards > n) {
        struct psti_container_shard *shard = &list->shards[--list->n_shards];
        psti_free(shard->path);
        psti_free(shard->index);
    }
}

enum pst_status psti_containers_shards_exclude(struct psti_container_list *list, uint32_t i_shard,
                                               const char *key, struct pst_error *err)
{
    enum pst_status status = reserve(&list->excluded, list->n_excluded, &list->excluded_capacity,
                                     sizeof *list->excluded, err);
    struct psti_container_excluded excluded = {.i_shard = i_shard};
    if (status == PST_OK)
        status = copy(key, &excluded.key, err);
    if (status == PST_OK)
        list->excluded[list->n_excluded++] = excluded;
    return status;
}

enum pst_status psti_containers_shards_field(struct psti_container_list *list, const char *name,
                                             const char *source, struct pst_error *err)
{
    struct psti_container_mapping field = {NULL, NULL};
    enum pst_status status =
        reserve(&list->fields, list->n_fields, &list->field_capacity, sizeof *list->fields, err);
    if (status == PST_OK)
        status = copy(name, &field.name, err);
    if (status == PST_OK)
        status = copy(source, &field.source, err);
    if (status == PST_OK)
        list->fields[list->n_fields++] = field;
    else
        psti_free(field.name);
    return status;
}

/* True for a relative path without "..". */
static bool leads_down(const char *name)
{
    if (*name == '\0' || *name == '/')
        return false;
    while (*name != '\0') {
        size_t n = strcspn(name, "/");
        if (n == 2 && memcmp(name, "..", 2) == 0)
            return false;
        name += n;
        name += strspn(name, "/");
    }
    return true;
}

enum pst_status psti_containers_shards_home(struct psti_container_home *home, struct pst_error *err)
{
    const char *folder = home->folder[0] == '\0' ? "." : home->folder;
    return realpath(folder, home->real) != NULL
               ? PST_OK
               : psti_fail_os(err, errno, ROOM, folder, -1, "cannot examine the folder");
}

enum pst_status psti_containers_shards_below(const struct psti_container_home *home,
                                             const char *name, char out[PATH_MAX],
                                             struct pst_error *err)
{
    char real[PATH_MAX];
    const char *problem = psti_format_name_problem(name, strlen(name));
    if (problem != NULL)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, home->index, -1, "the name of a shard %s",
                            problem);
    if (!leads_down(name))
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, home->index, -1,
                            "'%.200s' does not lie below the folder of this index: only files "
                            "below it are read",
                            name);
    enum pst_status status = psti_containers_join(home->folder, name, out, err);
    if (status != PST_OK)
        return status;
    if (realpath(out, real) == NULL)
        return psti_fail_os(err, errno, ROOM, home->index, -1,
                            "cannot examine '%.200s', which it names", name);
    size_t n = strlen(home->real);
    bool is_below = strncmp(real, home->real, n) == 0 && (n == 1 || real[n] == '/');
    return is_below ? PST_OK
                    : psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, home->index, -1,
                                   "'%.200s' is a link that leads out of the folder of this "
                                   "index: only files below it are read",
                                   name);
}
