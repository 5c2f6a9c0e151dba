/* containers_hub_repository.c - finds the data files of a Hub repository, by the rules of
 * `datasets`.
 *
 * In: README.md, whose first lines may be YAML, and names of files. Out: shards with their splits.
 *
 * Only the entry "configs" of the YAML is parsed; the rest may have any form. Patterns are those of
 * `datasets`: "*" matches within one folder or file name, "**" any number of folders. */
#include "containers/list/containers_hub_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "containers/list/containers_pattern.h"
#include "containers/list/containers_tree.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM "containers"
#define README "README.md"
#define CONFIGS "configs:"
#define DEFAULT_SPLIT "train"

enum { README_MAX_NBYTES = 16 << 20, MAX_FOLDERS = 16, MAX_NAMES = 1 << 20 };

/* The entry "configs" of README.md. All members zero if there is none. */
struct card {
    char path[PATH_MAX];
    char *text; /* text of README.md, where all but the entry is blanked; line ends are kept */
    struct psti_tree tree;
    const struct psti_tree_node *configs; /* list of configurations; NULL if there is none */
};

static bool is_data_name(const char *name)
{
    return psti_containers_ends_with(name, ".parquet") || psti_containers_ends_with(name, ".arrow");
}

static bool takes_data(void *context, const char *name, bool is_folder)
{
    (void)context;
    return !is_folder && is_data_name(name);
}

/* Reads README.md. *text: NUL-terminated; NULL if the file does not exist. */
static enum pst_status read_readme(const char *path, char **text, struct pst_error *err)
{
    int fd;
    struct stat st;
    *text = NULL;
    enum pst_status status = psti_open_data(path, ROOM, "the description", &fd, &st, err);
    if (status != PST_OK)
        return status;
    size_t nbytes = st.st_size < README_MAX_NBYTES ? (size_t)st.st_size : README_MAX_NBYTES;
    *text = psti_alloc(nbytes + 1);
    ssize_t n = *text == NULL ? 0 : psti_read_at(fd, *text, nbytes, 0);
    if (*text == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a description");
    else if (n < 0)
        status = psti_fail_os(err, errno, ROOM, path, -1, "cannot read the description");
    else
        (*text)[n] = '\0';
    close(fd);
    return status;
}

static bool is_line(const char *line, size_t n, const char *text)
{
    while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == ' '))
        n--;
    return n == strlen(text) && memcmp(line, text, n) == 0;
}

/* Blanks the whole text except the YAML entry "configs". Line numbers stay right. False: there is
 * no such entry. */
static bool keep_configs(char *text)
{
    bool is_inside = false, has = false, has_ended = false;
    char *to = text;
    size_t i_line = 0;
    for (const char *line = text; *line != '\0'; i_line++) {
        size_t n = strcspn(line, "\n");
        const char *next = line + n + (line[n] == '\n');
        bool is_fence = is_line(line, n, "---");
        if (i_line == 0 && !is_fence)
            return false;
        has_ended = has_ended || (i_line > 0 && is_fence);
        if (has_ended && !is_fence)
            break;
        bool is_key = n > 0 && strchr(" \t-#\r", line[0]) == NULL;
        if (is_key || has_ended)
            is_inside = !has_ended && strncmp(line, CONFIGS, sizeof CONFIGS - 1) == 0;
        if (is_inside && i_line > 0) {
            memmove(to, line, n);
            to += n;
            has = true;
        }
        *to++ = '\n';
        line = next;
    }
    *to = '\0';
    return has && has_ended;
}

static void close_card(struct card *card)
{
    psti_containers_tree_free(&card->tree);
    psti_free(card->text);
    card->text = NULL;
    card->configs = NULL;
}

/* Reads README.md and parses its entry "configs", if it has one. */
static enum pst_status open_card(const char *folder, struct card *card, struct pst_error *err)
{
    memset(card, 0, sizeof *card);
    if (!psti_containers_hub_has(folder, README, card->path))
        return PST_OK;
    enum pst_status status = read_readme(card->path, &card->text, err);
    if (status != PST_OK || !keep_configs(card->text))
        return status;
    status =
        psti_containers_tree_yaml(&card->tree, card->path, card->text, strlen(card->text), err);
    if (status == PST_OK)
        status = psti_containers_tree_entry(&card->tree, card->tree.nodes, "configs",
                                            &card->configs, err);
    if (status == PST_OK && card->configs != NULL && psti_containers_tree_is_null(card->configs))
        card->configs = NULL;
    return status;
}

/* State of the search for the files that match one pattern. */
struct search {
    const struct psti_hub_folder *hub;
    struct psti_container_names *found; /* matching files, relative to the home */
    uint64_t n_names;                   /* number of names that were compared so far */
};

struct chooser {
    const char *part; /* the part of the pattern to match; NULL: any name */
    bool wants_folder;
};

static bool takes_part(void *context, const char *name, bool is_folder)
{
    const struct chooser *chooser = context;
    if (is_folder != chooser->wants_folder || strncmp(name, "__", 2) == 0)
        return false;
    return chooser->part == NULL || psti_containers_matches(chooser->part, name);
}

static enum pst_status search_below(struct search *search, const char *prefix, const char *rest,
                                    int depth);

/* Lists the entries that match one part of the pattern, and matches the rest of the pattern below
 * them. */
static enum pst_status search_part(struct search *search, const char *prefix,
                                   const struct chooser *chooser, const char *rest, int depth)
{
    struct psti_container_names names = {0};
    char path[PATH_MAX];
    struct pst_error *err = search->hub->err;
    enum pst_status status = psti_containers_join(search->hub->home.folder, prefix, path, err);
    if (status == PST_OK)
        status = psti_containers_folder(path, takes_part, (void *)(uintptr_t)chooser, &names, err);
    if (status == PST_ERROR_NOT_FOUND)
        status = PST_OK;
    search->n_names += names.n + 1;
    if (status == PST_OK && search->n_names > MAX_NAMES)
        status = psti_fail_at(err, PST_ERROR_LIMIT, ROOM, search->hub->home.index, -1,
                              "a pattern of this file means more than %d names", MAX_NAMES);
    for (size_t i = 0; i < names.n && status == PST_OK; i++) {
        status = psti_containers_join(prefix, names.at[i], path, err);
        if (status == PST_OK && !chooser->wants_folder)
            status = is_data_name(path)
                         ? psti_containers_paths_add(search->found, path, strlen(path), err)
                         : PST_OK;
        else if (status == PST_OK)
            status = search_below(search, path, rest, depth + 1);
    }
    psti_containers_paths_free(&names);
    return status;
}

/* Finds the files that `rest`, the end of a pattern, matches below the folder `prefix`. */
static enum pst_status search_below(struct search *search, const char *prefix, const char *rest,
                                    int depth)
{
    char part[NAME_MAX + 1];
    size_t n = strcspn(rest, "/");
    const char *next = rest + n + strspn(rest + n, "/");
    bool is_last = *next == '\0', is_any = n == 2 && memcmp(rest, "**", 2) == 0;
    if (depth > MAX_FOLDERS || n >= sizeof part)
        return PST_OK;
    memcpy(part, rest, n);
    part[n] = '\0';
    struct chooser files = {is_any ? NULL : part, false}, folders = {is_any ? NULL : part, true};
    enum pst_status status = PST_OK;
    if (is_any && !is_last)
        status = search_below(search, prefix, next, depth + 1);
    if (status == PST_OK && is_last)
        status = search_part(search, prefix, &files, "", depth);
    if (status == PST_OK && (is_any || !is_last))
        status = search_part(search, prefix, &folders, is_any ? rest : next, depth);
    return status;
}

/* True if the pattern cannot lead out of the folder, such as by "..". */
static bool stays_below(const char *pattern)
{
    if (*pattern == '/' || strstr(pattern, "://") != NULL)
        return false;
    for (const char *at = pattern; *at != '\0'; at += strspn(at, "/")) {
        size_t n = strcspn(at, "/");
        if (n == 2 && memcmp(at, "..", 2) == 0)
            return false;
        at += n;
    }
    return true;
}

/* Adds the files that one pattern of a split matches. */
static enum pst_status add_pattern(struct psti_hub_folder *hub, const char *base,
                                   const char *pattern, int32_t i_split)
{
    struct psti_container_names found = {0};
    struct search search = {.hub = hub, .found = &found};
    enum pst_status status = PST_OK;
    while (strncmp(pattern, "./", 2) == 0)
        pattern += 2;
    if (!stays_below(pattern) || !stays_below(base))
        return psti_fail_at(hub->err, PST_ERROR_UNSUPPORTED, ROOM, hub->home.index, -1,
                            "'%.200s' does not lie below the folder of this file: only files below "
                            "it are read",
                            stays_below(base) ? pattern : base);
    status = search_below(&search, base, pattern, 0);
    psti_containers_paths_sort(&found);
    for (size_t i = 0; i < found.n && status == PST_OK; i++)
        /* With "**" in the pattern, the search may find a file twice; add it once. */
        if (i == 0 || strcmp(found.at[i - 1], found.at[i]) != 0)
            status = psti_containers_hub_shard(hub, found.at[i], i_split);
    if (status == PST_OK && found.n == 0)
        status = psti_fail_at(hub->err, PST_ERROR_NOT_FOUND, ROOM, hub->home.index, -1,
                              "no *.parquet and no *.arrow matches '%.200s'", pattern);
    psti_containers_paths_free(&found);
    return status;
}

/* Adds the files of one split, given by one pattern or a list of patterns. */
static enum pst_status add_split(struct psti_hub_folder *hub, const struct psti_tree *tree,
                                 const char *base, const char *split,
                                 const struct psti_tree_node *paths)
{
    int32_t i_split = PSTI_SPLIT_NONE;
    enum pst_status status = psti_containers_splits_intern(hub->list, split, &i_split, hub->err);
    if (status != PST_OK || !psti_containers_hub_wants(hub, split))
        return status;
    if (paths->kind == PSTI_TREE_SCALAR)
        return add_pattern(hub, base, paths->text, i_split);
    if (paths->kind != PSTI_TREE_LIST || paths->first == 0)
        return psti_containers_tree_bad(tree, paths, hub->err,
                                        "a pattern is expected, or a list of patterns");
    for (const struct psti_tree_node *node = psti_containers_tree_first(tree, paths);
         node != NULL && status == PST_OK; node = psti_containers_tree_next(tree, node))
        status = node->kind == PSTI_TREE_SCALAR
                     ? add_pattern(hub, base, node->text, i_split)
                     : psti_containers_tree_bad(tree, node, hub->err, "a pattern is expected");
    return status;
}

/* Reads an entry {split: NAME, path: PATTERN}. Adds its files, or with only_name just the split. */
static enum pst_status take_entry(struct psti_hub_folder *hub, const struct psti_tree *tree,
                                  const char *base, const struct psti_tree_node *entry,
                                  bool only_name)
{
    const struct psti_tree_node *split = NULL, *path = NULL;
    int32_t i_split;
    enum pst_status status = psti_containers_tree_entry(tree, entry, "split", &split, hub->err);
    if (status == PST_OK)
        status = psti_containers_tree_entry(tree, entry, "path", &path, hub->err);
    if (status == PST_OK && (split == NULL || split->kind != PSTI_TREE_SCALAR || path == NULL ||
                             split->text[0] == '\0'))
        return psti_containers_tree_bad(tree, entry, hub->err,
                                        "\"split\" and \"path\" are expected here");
    if (status != PST_OK)
        return status;
    return only_name ? psti_containers_splits_intern(hub->list, split->text, &i_split, hub->err)
                     : add_split(hub, tree, base, split->text, path);
}

/* Adds the files of "data_files": a pattern, a list of patterns or entries, or a map of splits. All
 * names of splits are collected before any files are searched. */
static enum pst_status add_data_files(struct psti_hub_folder *hub, const struct psti_tree *tree,
                                      const char *base, const struct psti_tree_node *files)
{
    const struct psti_tree_node *first = psti_containers_tree_first(tree, files), *node;
    enum pst_status status = PST_OK;
    int32_t i_split;
    if (files->kind == PSTI_TREE_SCALAR || first == NULL ||
        (files->kind == PSTI_TREE_LIST && first->kind == PSTI_TREE_SCALAR))
        return add_split(hub, tree, base, DEFAULT_SPLIT, files);
    for (int pass = 0; pass < 2; pass++)
        for (node = first; node != NULL && status == PST_OK;
             node = psti_containers_tree_next(tree, node)) {
            if (files->kind == PSTI_TREE_LIST)
                status = take_entry(hub, tree, base, node, pass == 0);
            else if (pass == 0)
                status = psti_containers_splits_intern(hub->list, node->key, &i_split, hub->err);
            else
                status = add_split(hub, tree, base, node->key, node);
        }
    return status;
}

/* Adds the files of a folder by their names: "train-00000-of-00002.parquet" belongs to the split
 * "train". Files with other names get their splits later. */
static enum pst_status add_by_names(struct psti_hub_folder *hub, const char *folder)
{
    struct psti_container_names names = {0};
    char path[PATH_MAX], split[NAME_MAX + 1];
    enum pst_status status = psti_containers_join(hub->home.folder, folder, path, hub->err);
    if (status == PST_OK)
        status = psti_containers_folder(path, takes_data, NULL, &names, hub->err);
    psti_containers_paths_sort(&names);
    for (size_t k = 0; k < names.n && status == PST_OK; k++) {
        int32_t i_split = PSTI_SPLIT_NONE;
        size_t n;
        uint32_t total;
        psti_containers_hub_stem(names.at[k], &n, &total);
        if (total > 0 && n > 0 && n < sizeof split) {
            memcpy(split, names.at[k], n);
            split[n] = '\0';
            status = psti_containers_splits_intern(hub->list, split, &i_split, hub->err);
        }
        if (status == PST_OK)
            status = psti_containers_join(folder, names.at[k], path, hub->err);
        if (status == PST_OK)
            status = psti_containers_hub_shard(hub, path, i_split);
    }
    if (status == PST_OK && names.n == 0)
        status = psti_fail_at(hub->err, PST_ERROR_NOT_FOUND, ROOM, path, -1,
                              "the folder holds no *.parquet and no *.arrow");
    psti_containers_paths_free(&names);
    return status;
}

/* True for the configuration that README.md marks as default. */
static bool is_default(const struct psti_tree *tree, const struct psti_tree_node *config)
{
    const struct psti_tree_node *name = NULL, *mark = NULL;
    if (psti_containers_tree_entry(tree, config, "config_name", &name, NULL) != PST_OK ||
        psti_containers_tree_entry(tree, config, "default", &mark, NULL) != PST_OK)
        return false;
    return (mark != NULL && strcmp(mark->text, "true") == 0) ||
           (name != NULL && strcmp(name->text, "default") == 0);
}

/* Chooses the configuration: the only one, or the one marked as default. */
static enum pst_status choose(const struct psti_hub_folder *hub, const struct card *card,
                              const struct psti_tree_node **out)
{
    const struct psti_tree *tree = &card->tree;
    const struct psti_tree_node *configs = card->configs, *name = NULL;
    char names[200] = "";
    struct psti_text text = {names, sizeof names, 0};
    *out = NULL;
    if (configs->kind == PSTI_TREE_MAP) {
        *out = configs;
        return PST_OK;
    }
    if (configs->kind != PSTI_TREE_LIST)
        return psti_containers_tree_bad(tree, configs, hub->err, "\"configs\" must be a list");
    *out = psti_containers_tree_first(tree, configs);
    for (const struct psti_tree_node *node = *out; node != NULL;
         node = psti_containers_tree_next(tree, node))
        if (is_default(tree, node)) {
            *out = node;
            return PST_OK;
        }
    if (*out == NULL || psti_containers_tree_next(tree, *out) == NULL)
        return PST_OK;
    for (const struct psti_tree_node *node = *out; node != NULL && text.length < sizeof names;
         node = psti_containers_tree_next(tree, node))
        if (node->kind == PSTI_TREE_MAP &&
            psti_containers_tree_entry(tree, node, "config_name", &name, NULL) == PST_OK &&
            name != NULL)
            psti_text_add(&text, "%s%.60s", text.length > 0 ? ", " : "", name->text);
    return psti_fail_at(hub->err, PST_ERROR_ARGUMENT, ROOM, tree->path, -1,
                        "the repository has several configurations (%s): name the files of one by "
                        "a pattern",
                        names);
}

/* Adds the files of the chosen configuration. */
static enum pst_status add_card(struct psti_hub_folder *hub, const struct card *card)
{
    const struct psti_tree *tree = &card->tree;
    const struct psti_tree_node *config = NULL, *files = NULL, *folder = NULL;
    enum pst_status status = choose(hub, card, &config);
    if (status == PST_OK && config != NULL)
        status = psti_containers_tree_entry(tree, config, "data_files", &files, hub->err);
    if (status == PST_OK && config != NULL)
        status = psti_containers_tree_entry(tree, config, "data_dir", &folder, hub->err);
    if (status != PST_OK)
        return status;
    const char *base = folder == NULL || folder->kind != PSTI_TREE_SCALAR ? "" : folder->text;
    if (files != NULL && !psti_containers_tree_is_null(files))
        return add_data_files(hub, tree, base, files);
    if (!stays_below(base))
        return psti_containers_tree_bad(tree, folder, hub->err,
                                        "\"data_dir\" does not lie below the repository");
    return add_by_names(hub, base[0] == '\0' ? "data" : base);
}

/* Sets `real` to the folder that all shards must lie below. In the Hub's cache,
 * ".../NAME/snapshots/REVISION" has links into ".../NAME/blobs", so the folder is ".../NAME". */
static void widen(char real[PATH_MAX])
{
    static const char snapshots[] = "/snapshots";
    char blobs[PATH_MAX];
    struct stat st;
    struct psti_text text = {blobs, sizeof blobs, 0};
    const char *slash = strrchr(real, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - real), n_snapshots = sizeof snapshots - 1;
    if (n <= n_snapshots || strncmp(real + n - n_snapshots, snapshots, n_snapshots) != 0)
        return;
    psti_text_add(&text, "%.*s/blobs", (int)(n - n_snapshots), real);
    if (text.length < sizeof blobs && stat(blobs, &st) == 0 && S_ISDIR(st.st_mode))
        real[n - n_snapshots] = '\0';
}

enum pst_status psti_containers_hub_repository(struct psti_hub_folder *hub)
{
    struct card *card = psti_calloc(1, sizeof *card);
    if (card == NULL)
        return psti_fail(hub->err, PST_ERROR_MEMORY, ROOM, "out of memory for a description");
    widen(hub->home.real);
    enum pst_status status = open_card(hub->home.folder, card, hub->err);
    hub->home.index = card->path[0] != '\0' ? card->path : hub->home.folder;
    if (status == PST_OK)
        status = card->configs != NULL ? add_card(hub, card) : add_by_names(hub, "data");
    hub->home.index = hub->home.folder;
    close_card(card);
    psti_free(card);
    return status;
}

/* True if a folder holds *.parquet or *.arrow. */
static bool holds_data(const char *folder)
{
    struct psti_container_names names = {0};
    bool has =
        psti_containers_folder(folder, takes_data, NULL, &names, NULL) == PST_OK && names.n > 0;
    psti_containers_paths_free(&names);
    return has;
}

static bool takes_tars(void *context, const char *name, bool is_folder)
{
    (void)context;
    return !is_folder &&
           (psti_containers_ends_with(name, ".tar") || psti_containers_ends_with(name, ".zip") ||
            psti_containers_is_packed_name(name));
}

/* True if a folder holds tars or zips. It is then opened as a folder of these, whatever README.md
 * says. */
static bool holds_tars(const char *folder)
{
    struct psti_container_names names = {0};
    bool has =
        psti_containers_folder(folder, takes_tars, NULL, &names, NULL) == PST_OK && names.n > 0;
    psti_containers_paths_free(&names);
    return has;
}

/* True if README.md of a folder names data files that can be read. */
static bool names_data(const char *folder)
{
    char path[PATH_MAX];
    struct psti_container_list list = {0};
    bool has = false;
    if (!psti_containers_hub_has(folder, README, path))
        return false;
    struct psti_hub_folder *hub = psti_calloc(1, sizeof *hub);
    struct card *card = psti_calloc(1, sizeof *card);
    if (hub != NULL && card != NULL && open_card(folder, card, NULL) == PST_OK &&
        card->configs != NULL) {
        hub->list = &list;
        hub->only_counts = true;
        hub->home.folder = hub->home.index = folder;
        enum pst_status status = psti_containers_shards_home(&hub->home, NULL);
        widen(hub->home.real);
        if (status == PST_OK)
            status = add_card(hub, card);
        /* Other errors are ignored here; psti_containers_hub_add reports them. */
        has = hub->n_shards > 0 || status == PST_ERROR_ARGUMENT;
    }
    if (card != NULL)
        close_card(card);
    psti_free(card);
    psti_free(hub);
    psti_containers_paths_free(&list.splits);
    return has;
}

bool psti_containers_hub_is_repository(const char *folder)
{
    char path[PATH_MAX];
    struct stat st;
    bool has_data = psti_containers_join(folder, "data", path, NULL) == PST_OK &&
                    stat(path, &st) == 0 && S_ISDIR(st.st_mode) && holds_data(path);
    /* Plain folders of images are tested too, so the folder is listed only if it has data/ or
     * README.md. */
    if ((!has_data && !psti_containers_hub_has(folder, README, path)) || holds_tars(folder))
        return false;
    return (has_data && !holds_data(folder)) || names_data(folder);
}
