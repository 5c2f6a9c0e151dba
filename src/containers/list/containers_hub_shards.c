/* containers_hub_shards.c - checks file names that Hugging Face's files state, and adds shards.
 *
 * In: untrusted names of files. Out: shards in the list. */
#include "containers/list/containers_hub_int.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { SHARD_DIGITS = 5 };

bool psti_containers_hub_has(const char *folder, const char *name, char path[PATH_MAX])
{
    struct stat st;
    return psti_containers_join(folder, name, path, NULL) == PST_OK && stat(path, &st) == 0 &&
           S_ISREG(st.st_mode);
}

enum pst_status psti_containers_hub_shard(struct psti_hub_folder *hub, const char *name,
                                          int32_t i_split)
{
    char path[PATH_MAX];
    enum pst_status status = psti_containers_shards_below(&hub->home, name, path, hub->err);
    hub->n_shards++;
    if (hub->only_counts)
        return status;
    return status == PST_OK ? psti_containers_shards_add(hub->list, path, -1, i_split, hub->err)
                            : status;
}

bool psti_containers_hub_wants(const struct psti_hub_folder *hub, const char *name)
{
    int32_t i_split = PSTI_SPLIT_NONE;
    if (hub->split == NULL || strcasecmp(hub->split, name) == 0)
        return true;
    /* If no split has the name that the user asked for, all shards are added. The words in their
     * names are compared with it later. */
    return psti_containers_splits_choose(&hub->list->splits, hub->split, &i_split, NULL) !=
               PST_OK ||
           i_split == PSTI_SPLIT_NONE || strcmp(hub->list->splits.at[i_split], name) == 0;
}

static bool read_digits(const char *text, uint32_t *out)
{
    uint32_t value = 0;
    for (size_t i = 0; i < SHARD_DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = 10 * value + (uint32_t)(text[i] - '0');
    }
    *out = value;
    return true;
}

void psti_containers_hub_stem(const char *name, size_t *n, uint32_t *total)
{
    static const char form[] = "-00000-of-00000";
    const char *dot = strrchr(name, '.');
    uint32_t i = 0;
    *n = dot == NULL ? strlen(name) : (size_t)(dot - name);
    for (size_t at = *n; at >= sizeof form - 1; at--) {
        const char *text = name + at - (sizeof form - 1);
        if (text[0] != '-' || memcmp(text + 6, "-of-", 4) != 0 || !read_digits(text + 1, &i) ||
            !read_digits(text + 10, total))
            continue;
        *n = (size_t)(text - name);
        return;
    }
    *total = 0;
}
