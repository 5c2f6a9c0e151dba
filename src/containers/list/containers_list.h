/* containers_list.h - finds the shards that a user names, and what other programs' indexes say of
 * them.
 *
 * The user gives texts. Each text is one of these, or several of them joined by "::":
 *   - the path of a shard, a file of one of the kinds in containers_kinds.c;
 *   - a folder with shards of one kind, which are taken in the byte order of their names, or with
 *     such folders named train, val, validation, test and the like (see "Splits"). If it has an
 *     index.json of MosaicML, that states the shards and their order. A folder that also has
 *     pictures or sounds, even in subfolders, is a plain folder, and its tars are ignored;
 *   - a pattern with wildcards or brace lists (containers_pattern.h);
 *   - the path of an index of the package wids, which ends in ".json";
 *   - a folder that Megatron-Energon prepared, which contains .nv-meta. It must be the only text.
 * A path that exists is used as it is, even if it has special characters. "~" is not expanded.
 *
 * Splits. The words of a shard are the runs of letters in its file name, without the ending. A
 * shard belongs to the split whose word occurs in its name: train, training; val, valid,
 * validation; dev; test, testing; trainval. If there is none, the name of its folder is used. Case
 * is ignored. The user may ask for a split by another word of the same group if no shard has the
 * word itself, and by any other word that occurs in names of shards. "all" takes every shard.
 * Energon's folders have their own splits. If a folder has several splits, the user must choose
 * one, so that nobody trains on validation data by accident.
 *
 * Order. Texts in the order given; brace lists in the order of bash; matches of wildcards and
 * contents of folders by bytes; indexes as they are written. A shard named twice is an error.
 *
 * Other programs' indexes are not trusted. The files they name must lie below the index's folder,
 * by name and after links are followed. Their numbers are only compared with what a walk finds.
 *
 * One thread makes a list; any thread may read it. */
#ifndef PST_CONTAINERS_CONTAINERS_LIST_H
#define PST_CONTAINERS_CONTAINERS_LIST_H

#include "containers/list/containers_paths.h"

enum { PSTI_CONTAINERS_MAX_SHARDS = 1 << 20 };

/* A shard. Its texts belong to the list. */
struct psti_container_shard {
    char *path;        /* relative to the list's base, without ".." */
    char *index;       /* path of another program's index of its samples (containers_foreign.h),
                        * relative to the base; NULL: none */
    int64_t n_samples; /* number of samples, as another program's index states; -1: unknown */
    int32_t i_split;   /* index in the list's `splits`; -1: none */
};

/* A sample that the data set excludes. */
struct psti_container_excluded {
    uint32_t i_shard;
    char *key;
};

/* A field of Energon's field_map. `source` is a suffix, or a suffix with a JSON entry:
 * "json[caption]". */
struct psti_container_mapping {
    char *name, *source;
};

struct psti_container_list {
    /* The folder that all paths are relative to; "" is the current one. It may itself be
     * relative. */
    char *base;
    enum psti_container_kind kind;
    struct psti_container_shard *shards;
    size_t n_shards, shard_capacity;
    struct psti_container_names splits; /* splits that were found, in the order of the shards or of
                                         * split.yaml */
    char *split;                        /* name of the split that was taken; NULL: all */
    bool is_energon;
    struct psti_container_excluded *excluded; /* sorted by shard and key */
    size_t n_excluded, excluded_capacity;
    struct psti_container_mapping *fields;
    size_t n_fields, field_capacity;
};

/* Lists the shards that n texts name. split: NULL if the user asks for none. After a failure the
 * list is empty.
 *
 * PST_ERROR_NOT_FOUND: a path, a match of a pattern, or the split does not exist; the message names
 *     it and the splits that exist.
 * PST_ERROR_ARGUMENT: the split is ambiguous, a shard is named twice, or a pattern is malformed.
 * PST_ERROR_UNSUPPORTED: a URL, a command, a compressed tar, or an index that needs foreign code.
 * PST_ERROR_CORRUPT: another program's index is wrong.
 * PST_ERROR_LIMIT: more than PSTI_CONTAINERS_MAX_SHARDS shards. */
enum pst_status psti_containers_list_open(const char *const *texts, size_t n, const char *split,
                                          struct psti_container_list *list, struct pst_error *err);
/* Frees the list's contents; the list is then empty. A list whose members are all zero is fine. */
void psti_containers_list_close(struct psti_container_list *list);

/* Looks beside each tar for an index of its samples: "a.tar.idx" (Energon) or "a.idx" (DALI's
 * wds2idx), and stores its path. */
enum pst_status psti_containers_list_indexes(struct psti_container_list *list,
                                             struct pst_error *err);
/* True if the sample with this key is excluded from this shard. */
bool psti_containers_list_excludes(const struct psti_container_list *list, uint32_t i_shard,
                                   const char *key);
/* True if a text names shards, and not a data set of Penstock or a plain folder. Only names are
 * looked at. A text may still be faulty; psti_containers_list_open reports that. */
bool psti_containers_list_is_meant(const char *text);

#endif
