/* containers_splits.c - finds the splits of shards by their names, and selects the split that the
 * user asks for.
 *
 * In: paths of shards. Out: the list keeps the shards of one split. */
#include "containers/list/containers_shards.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>
#include <strings.h>

#define ROOM "containers"
#define ALL "all"

/* Words for splits. Words with the same number mean the same split. */
static const struct {
    const char *word;
    int meaning;
} words[] = {
    {"train", 0}, {"training", 0}, {"val", 1},     {"valid", 1},    {"validation", 1},
    {"dev", 2},   {"test", 3},     {"testing", 3}, {"trainval", 4},
};

static bool is_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

/* Returns the number of a word in the table; -1 if it is not there. */
static int find_word(const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == n && strncasecmp(words[i].word, word, n) == 0)
            return (int)i;
    return -1;
}

bool psti_containers_is_split_name(const char *name)
{
    int i = find_word(name, strlen(name));
    return i >= 0 && strcmp(words[i].word, name) == 0;
}

/* Returns the next run of letters of a name and moves *at behind it. *n: its length; 0 at the
 * end. */
static const char *next_word(const char **at, const char *end, size_t *n)
{
    while (*at < end && !is_letter(**at))
        (*at)++;
    const char *start = *at;
    while (*at < end && is_letter(**at))
        (*at)++;
    *n = (size_t)(*at - start);
    return start;
}

/* Returns the end of a file's name without its ending. */
static const char *stem_end(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && dot > name ? dot : name + strlen(name);
}

static bool has_word(const char *path, const char *word)
{
    const char *at = psti_containers_base_name(path), *end = stem_end(at);
    size_t n = 1, n_word = strlen(word);
    while (n > 0) {
        const char *found = next_word(&at, end, &n);
        if (n == n_word && strncasecmp(found, word, n) == 0)
            return n > 0;
    }
    return false;
}

/* Finds the word of a split in a path. Returns its number, -1 if there is none, -2 if there are
 * words of two splits. */
static int word_of_path(const char *path)
{
    const char *name = psti_containers_base_name(path), *at = name, *end = stem_end(name);
    int found = PSTI_SPLIT_NONE;
    for (size_t n = 1; n > 0;) {
        const char *word = next_word(&at, end, &n);
        int i = find_word(word, n);
        if (i >= 0 && found >= 0 && words[i].meaning != words[found].meaning)
            return PSTI_SPLIT_TWO;
        found = i >= 0 ? i : found;
    }
    if (found >= 0 || name == path)
        return found;
    const char *folder = name - 1;
    while (folder > path && folder[-1] != '/')
        folder--;
    return find_word(folder, (size_t)(name - 1 - folder));
}

enum pst_status psti_containers_splits_intern(struct psti_container_list *list, const char *name,
                                              int32_t *i_split, struct pst_error *err)
{
    for (size_t i = 0; i < list->splits.n; i++)
        if (strcmp(list->splits.at[i], name) == 0) {
            *i_split = (int32_t)i;
            return PST_OK;
        }
    *i_split = (int32_t)list->splits.n;
    return psti_containers_paths_add(&list->splits, name, strlen(name), err);
}

enum pst_status psti_containers_splits_fail(const struct psti_container_names *splits,
                                            enum pst_status status, const char *what,
                                            struct pst_error *err)
{
    char choices[PST_ERROR_TEXT_CAP] = "";
    struct psti_text text = {choices, sizeof choices, 0};
    for (size_t i = 0; i < splits->n && text.length < 200; i++)
        psti_text_add(&text, "%s%.60s", i > 0 ? ", " : "", splits->at[i]);
    if (splits->n == 0)
        psti_text_add(&text, "none");
    return psti_fail(err, status, ROOM,
                     "%s; splits that are here: %s ('" ALL "' takes every shard)", what, choices);
}

enum pst_status psti_containers_splits_choose(const struct psti_container_names *splits,
                                              const char *split, int32_t *i_split,
                                              struct pst_error *err)
{
    char what[256];
    struct psti_text text = {what, sizeof what, 0};
    int asked = find_word(split, strlen(split)), n = 0;
    *i_split = PSTI_SPLIT_NONE;
    for (size_t i = 0; i < splits->n; i++)
        if (strcasecmp(splits->at[i], split) == 0) {
            *i_split = (int32_t)i;
            return PST_OK;
        }
    for (size_t i = 0; i < splits->n && asked >= 0; i++) {
        int other = find_word(splits->at[i], strlen(splits->at[i]));
        if (other < 0 || words[other].meaning != words[asked].meaning)
            continue;
        *i_split = (int32_t)i;
        n++;
    }
    if (n < 2)
        return PST_OK;
    psti_text_add(&text, "split '%.100s' may mean several", split);
    return psti_containers_splits_fail(splits, PST_ERROR_ARGUMENT, what, err);
}

/* Gives each shard that has no split the one that its name tells. */
static enum pst_status assign(struct psti_container_list *list, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (size_t i = 0; i < list->n_shards && status == PST_OK; i++) {
        struct psti_container_shard *shard = &list->shards[i];
        if (shard->i_split != PSTI_SPLIT_NONE)
            continue;
        int i_word = word_of_path(shard->path);
        if (i_word < 0)
            shard->i_split = i_word;
        else
            status = psti_containers_splits_intern(list, words[i_word].word, &shard->i_split, err);
    }
    return status;
}

static bool has_several(const struct psti_container_list *list)
{
    for (size_t i = 1; i < list->n_shards; i++)
        if (list->shards[i].i_split != list->shards[0].i_split)
            return true;
    return false;
}

/* Keeps the shards of split i_split. If that is PSTI_SPLIT_NONE, keeps the shards whose names have
 * the word `split`. */
static enum pst_status keep(struct psti_container_list *list, const char *split, int32_t i_split,
                            struct pst_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < list->n_shards; i++) {
        struct psti_container_shard *shard = &list->shards[i];
        if (i_split != PSTI_SPLIT_NONE && shard->i_split == PSTI_SPLIT_TWO)
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                             "the name '%.200s' has words of two splits: name the shards that are "
                             "meant, by paths or a pattern",
                             shard->path);
    }
    for (size_t i = 0; i < list->n_shards; i++) {
        struct psti_container_shard *shard = &list->shards[i];
        bool is_kept =
            i_split == PSTI_SPLIT_NONE ? has_word(shard->path, split) : shard->i_split == i_split;
        if (is_kept)
            list->shards[n++] = *shard;
        else
            psti_free(shard->path);
    }
    list->n_shards = n;
    return PST_OK;
}

enum pst_status psti_containers_splits_apply(struct psti_container_list *list, const char *split,
                                             bool needs_one, struct pst_error *err)
{
    char what[256];
    struct psti_text text = {what, sizeof what, 0};
    enum pst_status status = assign(list, err);
    if (status != PST_OK)
        return status;
    if (split == NULL && needs_one && has_several(list))
        return psti_containers_splits_fail(&list->splits, PST_ERROR_ARGUMENT,
                                           "the folder has shards of several splits: choose one",
                                           err);
    int32_t i_split = PSTI_SPLIT_NONE;
    if (split != NULL)
        status = psti_containers_splits_choose(&list->splits, split, &i_split, err);
    bool is_all = split == NULL || (i_split == PSTI_SPLIT_NONE && strcasecmp(split, ALL) == 0);
    if (status == PST_OK && !is_all) {
        status = keep(list, split, i_split, err);
        psti_text_add(&text, "no shard has the split '%.100s'", split);
        if (status == PST_OK && list->n_shards == 0)
            return psti_containers_splits_fail(&list->splits, PST_ERROR_NOT_FOUND, what, err);
        list->split = status == PST_OK ? psti_strdup(split) : NULL;
        if (status == PST_OK && list->split == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a name");
    }
    for (size_t i = 0; i < list->n_shards; i++)
        if (list->shards[i].i_split == PSTI_SPLIT_TWO)
            list->shards[i].i_split = PSTI_SPLIT_NONE;
    return status;
}
