/* containers_meant.c - decides by names whether a text of the user names shards.
 *
 * In: the text, folders of the file system. Out: yes or no. The only file that may be read is an
 * index.json, to see whether it is MosaicML's. Any thread. */
#include "containers/list/containers_meant.h"

#include "containers/containers_kinds.h"
#include "containers/containers_rules.h"
#include "containers/list/containers_energon.h"
#include "containers/list/containers_hub_folder.h"
#include "containers/list/containers_list.h"
#include "containers/list/containers_mds_index.h"
#include "containers/list/containers_shards.h"
#include "format/format_dataset.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool psti_containers_takes_shards(void *context, const char *name, bool is_folder)
{
    (void)context;
    if (is_folder)
        return psti_containers_is_split_name(name);
    if (strcmp(name, PSTI_INDEX_NAME) == 0 || psti_containers_is_packed_name(name))
        return true;
    return psti_containers_kind_of_name(name) != PSTI_CONTAINER_NONE
               ? !psti_containers_is_beside(name)
               : strcmp(name, PSTI_MDS_INDEX_NAME) == 0 &&
                     psti_containers_kind(PSTI_CONTAINER_MDS) != NULL;
}

/* True for the name of a shard, or of an index.json that is MosaicML's. */
static bool says_shard(const char *folder, const char *name)
{
    if (psti_containers_is_split_name(name))
        return false;
    return strcmp(name, PSTI_MDS_INDEX_NAME) != 0 || psti_containers_mds_index_is(folder);
}

/* True if a folder holds shards and no index of Penstock. */
static bool holds_shards(const char *folder, bool looks_below)
{
    struct psti_container_names names = {0};
    char path[PATH_MAX];
    bool has = psti_containers_energon_is(folder) || psti_containers_hub_is(folder);
    if (!has &&
        psti_containers_folder(folder, psti_containers_takes_shards, NULL, &names, NULL) ==
            PST_OK &&
        !psti_containers_paths_has(&names, PSTI_INDEX_NAME)) {
        for (size_t i = 0; i < names.n && !has; i++)
            has = says_shard(folder, names.at[i]);
        for (size_t i = 0; i < names.n && !has && looks_below; i++)
            has = psti_containers_join(folder, names.at[i], path, NULL) == PST_OK &&
                  holds_shards(path, false);
    }
    psti_containers_paths_free(&names);
    return has;
}

static bool is_plain_folder(const char *folder, int n_below);

/* Finds the field type of a file by the end of its name. */
static enum pst_field_type type_of(const char *name)
{
    char suffix[16];
    struct psti_suffix_rule rule;
    const char *dot = strrchr(name, '.');
    size_t n = dot == NULL ? 0 : strlen(dot + 1);
    if (n == 0 || n >= sizeof suffix)
        return PST_FIELD_BYTES;
    for (size_t i = 0; i <= n; i++)
        suffix[i] = dot[1 + i] >= 'A' && dot[1 + i] <= 'Z' ? (char)(dot[1 + i] | 0x20) : dot[1 + i];
    psti_containers_rule(suffix, &rule);
    return rule.type;
}

/* True for an entry that shows a plain folder: a picture, a sound, or a folder with such entries.
 * n_below: how many levels of folders are searched. */
static bool is_plain_entry(const char *folder, const struct dirent *entry, int n_below)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (entry->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof path)
        return false;
    bool is_folder = entry->d_type == DT_DIR;
    if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN)
        is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (!is_folder) {
        enum pst_field_type type = type_of(entry->d_name);
        return type == PST_FIELD_IMAGE || type == PST_FIELD_AUDIO;
    }
    return n_below > 0 && is_plain_folder(path, n_below - 1);
}

/* True if a folder holds pictures or sounds as files; shards beside them do not matter, since users
 * keep a tar that they unpacked. Stops at the first picture or sound. */
static bool is_plain_folder(const char *folder, int n_below)
{
    bool is_plain = false;
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    while (directory != NULL && !is_plain && (entry = readdir(directory)) != NULL)
        is_plain = is_plain_entry(folder, entry, n_below);
    if (directory != NULL)
        closedir(directory);
    return is_plain;
}

static bool is_shard_name(const char *text)
{
    return psti_containers_kind_of_name(text) != PSTI_CONTAINER_NONE ||
           psti_containers_is_packed_name(text);
}

/* True if one of the pieces before a "::" ends like a shard's name. */
static bool has_shard_before(const char *text)
{
    char piece[PATH_MAX];
    const char *end;
    for (; (end = strstr(text, "::")) != NULL; text = end + 2) {
        size_t n = (size_t)(end - text);
        if (n >= sizeof piece)
            continue;
        memcpy(piece, text, n);
        piece[n] = '\0';
        if (psti_containers_kind_of_name(piece) != PSTI_CONTAINER_NONE)
            return true;
    }
    return false;
}

bool psti_containers_list_is_meant(const char *text)
{
    struct stat st;
    if (strstr(text, "://") != NULL)
        return false; /* the function that opens data sets refuses URLs */
    if (stat(text, &st) != 0)
        return strncmp(text, "pipe:", 5) == 0 || is_shard_name(text) || has_shard_before(text) ||
               (strpbrk(text, "*?[{") != NULL && psti_containers_kind_is_in(text));
    if (S_ISDIR(st.st_mode))
        return (psti_containers_energon_is(text) || psti_containers_hub_is(text) ||
                !is_plain_folder(text, 2)) &&
               holds_shards(text, true);
    return psti_containers_kind_of_name(text) != PSTI_CONTAINER_NONE ||
           psti_containers_ends_with(text, ".json");
}
