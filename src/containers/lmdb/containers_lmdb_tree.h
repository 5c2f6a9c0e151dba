/* containers_lmdb_tree.h - reads the entries of an LMDB data file ("data.mdb") in the order of
 * their keys, in the layout of liblmdb 0.9 (mdb.c, "MDB_page", "MDB_node", "MDB_meta").
 *
 * The file is a B+tree of pages. Pages 0 and 1 are meta pages that state the root; each commit
 * writes one of them, so the newer one is valid. Small values lie in the leaf pages, long ones in
 * contiguous overflow pages, so each value is a range of the file.
 *
 * Pages are read without a memory map, a lock or a lock file. The walk sees the tree of one commit.
 * The next commit leaves its pages alone, but the one after that may overwrite them
 * (psti_containers_lmdb_moved). No byte is trusted: a page outside of the file, a cycle, a wrong
 * depth, and keys that do not rise are errors. One thread. */
#ifndef PST_CONTAINERS_LMDB_CONTAINERS_LMDB_TREE_H
#define PST_CONTAINERS_LMDB_CONTAINERS_LMDB_TREE_H

#include "containers/containers_window.h"

#include <penstock/dataset.h>

enum { PSTI_LMDB_MAX_DEPTH = 32 }; /* liblmdb's own */

/* Contents of the newer meta page. */
struct psti_lmdb_meta {
    uint32_t page_nbytes;
    uint16_t flags, depth; /* flags of the database, and depth of the tree */
    uint64_t n_entries;
    uint64_t root; /* page number of the root; UINT64_MAX: the tree is empty */
    uint64_t last_page;
    uint64_t commit; /* number of the transaction that wrote the meta page */
};

/* A page on the path from the root to the current entry. */
struct psti_lmdb_level {
    uint8_t *page;
    uint64_t number;
    uint32_t n, i; /* number of nodes, and index of the next node */
};

struct psti_lmdb_tree {
    struct psti_window window; /* window through which pages and values are read */
    struct psti_lmdb_meta meta;
    struct psti_lmdb_level levels[PSTI_LMDB_MAX_DEPTH];
    uint32_t n_levels; /* 0 before the first entry and after the last */
    bool is_begun;
    uint64_t n_pages, n_entries; /* pages and entries read so far */
    uint8_t *key;                /* key of the last entry */
    uint32_t key_nbytes;
};

struct psti_lmdb_entry {
    const uint8_t *key; /* owned by the tree, valid until the next call */
    uint32_t key_nbytes;
    bool is_database;        /* the value describes a sub-database whose name is the key */
    uint64_t page;           /* number of the entry's leaf page, for messages */
    uint64_t offset, nbytes; /* location of the value in the file */
};

/* Reads the meta pages. The source must outlive the tree.
 *
 * PST_ERROR_CORRUPT: the file is no LMDB data file, or both meta pages are damaged.
 * PST_ERROR_UNSUPPORTED: the layout of LMDB 1.0, of 32 bits or of the other byte order; or keys
 *     with several values. */
enum pst_status psti_containers_lmdb_open(struct psti_lmdb_tree *tree,
                                          const struct psti_walk_source *source,
                                          struct pst_error *err);
/* Frees the tree's memory. A tree whose members are all zero is fine. */
void psti_containers_lmdb_close(struct psti_lmdb_tree *tree);

/* Returns the next entry. *has: false at the end. No call may follow an error.
 *
 * PST_ERROR_CORRUPT: the tree contradicts itself.
 * PST_ERROR_TRUNCATED: the file ends before a page; the message has the last whole key.
 * PST_ERROR_UNSUPPORTED: keys with several values. */
enum pst_status psti_containers_lmdb_next(struct psti_lmdb_tree *tree,
                                          struct psti_lmdb_entry *entry, bool *has,
                                          struct pst_error *err);

/* Sets *n_commits to the number of commits since the tree was opened. If there were two or more,
 * pages of the tree may have been overwritten. */
enum pst_status psti_containers_lmdb_moved(struct psti_lmdb_tree *tree, uint64_t *n_commits,
                                           struct pst_error *err);

/* Makes a sample's name of a key: the key itself, or "hex:" and the key in hexadecimal digits if
 * the key is no valid name or begins with "hex:". False: the name would be too long. */
bool psti_containers_lmdb_name(const uint8_t *key, uint32_t nbytes, char name[PST_NAME_CAP]);

#endif
