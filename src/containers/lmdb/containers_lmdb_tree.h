/* containers_lmdb_tree.h - the entries of an LMDB data file ("data.mdb"), in the order of their
 * keys, by the layout that liblmdb 0.9 has (mdb.c, "MDB_page", "MDB_node", "MDB_meta").
 *
 * The file is a B+tree of pages. Pages 0 and 1 say where its root is: a commit writes one of them
 * and leaves the other, so the newer one counts. Values that fit lie in the leaf pages; longer ones
 * lie in overflow pages, one piece each. So each value is a range of the file.
 *
 * The tree is read by pages, without a map, a lock or a lock file. It is that of one moment: a
 * commit does not touch its pages, but the second one after that may use them again
 * (psti_containers_lmdb_moved). No byte is trusted: a page outside of the file, a circle of pages,
 * a wrong depth, keys that do not rise are errors. One thread. */
#ifndef PST_CONTAINERS_LMDB_CONTAINERS_LMDB_TREE_H
#define PST_CONTAINERS_LMDB_CONTAINERS_LMDB_TREE_H

#include "containers/containers_window.h"

#include <penstock/dataset.h>

enum { PSTI_LMDB_MAX_DEPTH = 32 }; /* liblmdb's own */

/* What the newer one of the two first pages says. */
struct psti_lmdb_meta {
    uint32_t page_nbytes;
    uint16_t flags, depth; /* of the tree */
    uint64_t n_entries;
    uint64_t root; /* number of a page; UINT64_MAX: the tree is empty */
    uint64_t last_page;
    uint64_t commit; /* the number of the transaction that wrote it */
};

/* A page of the way to the entry. */
struct psti_lmdb_level {
    uint8_t *page;
    uint64_t number;
    uint32_t n, i; /* nodes, and the next one */
};

struct psti_lmdb_tree {
    struct psti_window window; /* for values too */
    struct psti_lmdb_meta meta;
    struct psti_lmdb_level levels[PSTI_LMDB_MAX_DEPTH];
    uint32_t n_levels; /* 0: at the beginning, or at the end */
    bool is_begun;
    uint64_t n_pages, n_entries; /* read so far */
    uint8_t *key;                /* of the last entry */
    uint32_t key_nbytes;
};

struct psti_lmdb_entry {
    const uint8_t *key; /* the tree's, until the next call */
    uint32_t key_nbytes;
    bool is_database;        /* the value is about a database with a name, which the key is */
    uint64_t page;           /* number of the leaf page, for messages */
    uint64_t offset, nbytes; /* of the value in the file */
};

/* Reads the two first pages. The source must outlive the tree.
 *
 * PST_ERROR_CORRUPT: it is no LMDB data file, or both pages are damaged.
 * PST_ERROR_UNSUPPORTED: the layout of LMDB 1.0, of 32 bits or of the other byte order; keys with
 *     several values. */
enum pst_status psti_containers_lmdb_open(struct psti_lmdb_tree *tree,
                                          const struct psti_walk_source *source,
                                          struct pst_error *err);
/* A tree of zeros may be closed. */
void psti_containers_lmdb_close(struct psti_lmdb_tree *tree);

/* Gives the next entry. *has: false at the end. After an error the tree is over.
 *
 * PST_ERROR_CORRUPT: the tree contradicts itself. PST_ERROR_TRUNCATED: the file ends before a page;
 * the text has the last whole key. PST_ERROR_UNSUPPORTED: keys with several values. */
enum pst_status psti_containers_lmdb_next(struct psti_lmdb_tree *tree,
                                          struct psti_lmdb_entry *entry, bool *has,
                                          struct pst_error *err);

/* Tells how many commits there were since the tree was opened. Pages of the tree may have been
 * written over if there were two or more. */
enum pst_status psti_containers_lmdb_moved(struct psti_lmdb_tree *tree, uint64_t *n_commits,
                                           struct pst_error *err);

/* Makes the name of a sample of a key: the key itself, or "hex:" and its bytes in hexadecimal
 * digits where it cannot be a name, or begins with "hex:" itself. False: it would be too long. */
bool psti_containers_lmdb_name(const uint8_t *key, uint32_t nbytes, char name[PST_NAME_CAP]);

#endif
