/* containers_lmdb_tree.c - traverses the pages of a B+tree.
 *
 * In: pages, through a window. Out: keys, and the locations of their values.
 *
 * Copies of all pages from the root to the current entry are kept, because the window holds one
 * piece only. The walk ends for any file, because keys must rise and the number of pages is
 * limited. */
#include "containers/lmdb/containers_lmdb_tree.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"
#define MAGIC 0xbeefc0deu

/* Offsets of a page's members. */
enum {
    PAGE_NUMBER = 0,
    PAGE_FLAGS = 10,
    PAGE_LOWER = 12, /* end of the list of nodes; in an overflow page, the number of its pages */
    PAGE_UPPER = 14, /* offset of the lowest node */
    PAGE_HEAD = 16,
    META_VERSION = 20,
    META_PAGE_NBYTES = 40,
    META_FLAGS = 92, /* flags of the main database */
    META_DEPTH = 94,
    META_ENTRIES = 120,
    META_ROOT = 128,
    META_LAST_PAGE = 136,
    META_COMMIT = 144,
    META_NBYTES = 152,
};

enum {
    IS_BRANCH = 0x01,
    IS_LEAF = 0x02,
    IS_OVERFLOW = 0x04,
    IS_META = 0x08,
    IS_LEAF2 = 0x20, /* a page of fixed-size values of one key */
    KINDS = IS_BRANCH | IS_LEAF | IS_OVERFLOW | IS_META | IS_LEAF2,
    NODE_HEAD = 8,
    NODE_IS_BIG = 0x01, /* the value lies in overflow pages */
    NODE_IS_DATABASE = 0x02,
    NODE_IS_SEVERAL = 0x04,
    FLAG_REVERSE_KEY = 0x02, /* keys are compared from their last byte to the first */
    FLAG_DUPSORT = 0x04,
    FLAG_INTEGER_KEY = 0x08,
    PAGE_MIN = 256,
    PAGE_MAX = 1 << 16,
};

/* Fills in an error that names the number of a page. Returns the status. */
static enum pst_status bad_page(const struct psti_lmdb_tree *tree, uint64_t number,
                                const char *what, struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, tree->window.source->path,
                        (int64_t)(number * tree->meta.page_nbytes),
                        "the database is damaged: page %" PRIu64 " %s", number, what);
}

static enum pst_status refuse(const struct psti_lmdb_tree *tree, const char *what,
                              struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, tree->window.source->path, -1, "%s",
                        what);
}

/* If the error says that the file ends early, adds the name of the last whole entry. Leaves other
 * errors as they are. */
static enum pst_status blame(const struct psti_lmdb_tree *tree, enum pst_status status,
                             struct pst_error *err)
{
    char name[PST_NAME_CAP];
    if (status != PST_ERROR_TRUNCATED)
        return status;
    int64_t end = (int64_t)tree->window.source->nbytes;
    const char *path = tree->window.source->path;
    if (tree->n_entries == 0 || !psti_containers_lmdb_name(tree->key, tree->key_nbytes, name))
        return psti_fail_at(err, status, ROOM, path, end,
                            "the file ends before its first entry: it was cut");
    return psti_fail_at(err, status, ROOM, path, end,
                        "the file ends within the database, so it was cut; the last whole entry "
                        "is '%.200s'",
                        name);
}

/* Parses a meta page, page 0 or 1. False: it is not valid. */
static bool parse_meta(const uint8_t *page, uint64_t number, struct psti_lmdb_meta *meta)
{
    *meta = (struct psti_lmdb_meta){
        .page_nbytes = psti_load_u32(page + META_PAGE_NBYTES),
        .flags = psti_load_u16(page + META_FLAGS),
        .depth = psti_load_u16(page + META_DEPTH),
        .n_entries = psti_load_u64(page + META_ENTRIES),
        .root = psti_load_u64(page + META_ROOT),
        .last_page = psti_load_u64(page + META_LAST_PAGE),
        .commit = psti_load_u64(page + META_COMMIT),
    };
    uint32_t nbytes = meta->page_nbytes;
    bool is_size = nbytes >= PAGE_MIN && nbytes <= PAGE_MAX && (nbytes & (nbytes - 1)) == 0;
    bool is_tree =
        meta->root == UINT64_MAX || (meta->root >= 2 && meta->root <= meta->last_page &&
                                     meta->depth >= 1 && meta->depth <= PSTI_LMDB_MAX_DEPTH);
    return psti_load_u64(page + PAGE_NUMBER) == number &&
           (psti_load_u16(page + PAGE_FLAGS) & IS_META) != 0 &&
           psti_load_u32(page + PAGE_HEAD) == MAGIC && psti_load_u32(page + META_VERSION) == 1 &&
           is_size && is_tree && meta->last_page < (uint64_t)INT64_MAX / PAGE_MAX;
}

/* Fills in the error for a file that is not one of 64-bit liblmdb 0.9, and says why. */
static enum pst_status refuse_file(const struct psti_lmdb_tree *tree, const uint8_t *page,
                                   struct pst_error *err)
{
    const char *path = tree->window.source->path;
    uint32_t magic = psti_load_u32(page + PAGE_HEAD);
    bool is_swapped = magic == __builtin_bswap32(MAGIC);
    if (psti_load_u32(page + 24) == MAGIC ||
        (magic == MAGIC && psti_load_u32(page + META_VERSION) != 1))
        return refuse(tree,
                      "the database has the layout of LMDB 1.0 or of another later version, which "
                      "is not read in place: write it with the mdb_dump of its version into the "
                      "mdb_load of LMDB 0.9, or pack it (penstock pack --from)",
                      err);
    if (psti_load_u32(page + 12) == MAGIC)
        return refuse(tree, "the database was made by a program of 32 bits: pack it there", err);
    if (is_swapped)
        return refuse(tree, "the database was made on a big-endian machine: pack it there", err);
    if (magic == MAGIC)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, path, 0,
                            "the first page of the database is damaged");
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, path, 0,
                        "this is no data file of LMDB, which is called data.mdb as a rule");
}

/* Reads both meta pages and returns the newer one. */
static enum pst_status read_meta(struct psti_lmdb_tree *tree, struct psti_lmdb_meta *meta,
                                 struct pst_error *err)
{
    const uint8_t *page = NULL;
    struct psti_lmdb_meta other;
    if (tree->window.source->nbytes < META_NBYTES)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, tree->window.source->path, 0,
                            "the file is too short for a data file of LMDB");
    enum pst_status status = psti_containers_window_get(&tree->window, 0, META_NBYTES, &page, err);
    if (status != PST_OK)
        return status;
    bool is_first = parse_meta(page, 0, meta);
    if (!is_first &&
        (psti_load_u32(page + PAGE_HEAD) != MAGIC || psti_load_u32(page + META_VERSION) != 1))
        return refuse_file(tree, page, err);
    uint64_t nbytes = psti_load_u32(page + META_PAGE_NBYTES);
    if (nbytes < PAGE_MIN || nbytes > PAGE_MAX)
        return refuse_file(tree, page, err);
    status = psti_containers_window_get(&tree->window, nbytes, META_NBYTES, &page, err);
    if (status != PST_OK)
        return blame(tree, status, err);
    bool is_second = parse_meta(page, 1, &other) && other.page_nbytes == nbytes;
    if (!is_first && !is_second)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, tree->window.source->path, 0,
                            "both first pages of the database are damaged");
    if (is_second && (!is_first || other.commit > meta->commit))
        *meta = other;
    return PST_OK;
}

enum pst_status psti_containers_lmdb_open(struct psti_lmdb_tree *tree,
                                          const struct psti_walk_source *source,
                                          struct pst_error *err)
{
    memset(tree, 0, sizeof *tree);
    enum pst_status status = psti_containers_window_open(&tree->window, source, err);
    if (status == PST_OK)
        status = read_meta(tree, &tree->meta, err);
    if (status == PST_OK && (tree->meta.flags & FLAG_DUPSORT) != 0)
        status = refuse(tree,
                        "keys of the database may have several values (MDB_DUPSORT), which cannot "
                        "be samples: pack it (penstock pack --from)",
                        err);
    if (status == PST_OK && (tree->key = psti_alloc(tree->meta.page_nbytes)) == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory to read %s", source->path);
    if (status != PST_OK)
        psti_containers_lmdb_close(tree);
    return status;
}

void psti_containers_lmdb_close(struct psti_lmdb_tree *tree)
{
    for (int i = 0; i < PSTI_LMDB_MAX_DEPTH; i++)
        psti_free(tree->levels[i].page);
    psti_free(tree->key);
    psti_containers_window_close(&tree->window);
    memset(tree, 0, sizeof *tree);
}

enum pst_status psti_containers_lmdb_moved(struct psti_lmdb_tree *tree, uint64_t *n_commits,
                                           struct pst_error *err)
{
    struct psti_lmdb_meta now = {0};
    tree->window.n = 0; /* drop the cached bytes, because pages may have changed */
    enum pst_status status = read_meta(tree, &now, err);
    if (status == PST_OK)
        *n_commits = now.commit - tree->meta.commit;
    return status;
}

/* Checks the header of a page that has nodes. */
static enum pst_status check_page(const struct psti_lmdb_tree *tree, uint64_t number,
                                  const uint8_t *page, bool is_leaf, struct pst_error *err)
{
    uint16_t kind = psti_load_u16(page + PAGE_FLAGS) & KINDS;
    uint32_t lower = psti_load_u16(page + PAGE_LOWER), upper = psti_load_u16(page + PAGE_UPPER);
    if (psti_load_u64(page + PAGE_NUMBER) != number)
        return bad_page(tree, number, "has another number", err);
    if ((kind & IS_LEAF2) != 0)
        return refuse(tree,
                      "the database has keys with several values (MDB_DUPFIXED), which cannot be "
                      "samples: pack it (penstock pack --from)",
                      err);
    if (kind != (is_leaf ? IS_LEAF : IS_BRANCH))
        return bad_page(tree, number, is_leaf ? "is no leaf page" : "is no branch page", err);
    if (lower < PAGE_HEAD + 2 || lower % 2 != 0 || lower > upper || upper > tree->meta.page_nbytes)
        return bad_page(tree, number, "has a wrong list of nodes", err);
    return PST_OK;
}

/* Reads a page one level down from the current one. */
static enum pst_status go_down(struct psti_lmdb_tree *tree, uint64_t number, struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    uint32_t nbytes = tree->meta.page_nbytes;
    struct psti_lmdb_level *level = &tree->levels[tree->n_levels];
    if (number < 2 || number > tree->meta.last_page)
        return bad_page(tree, number, "is none that the database has", err);
    if (++tree->n_pages > tree->meta.last_page)
        return bad_page(tree, number, "is reached in a circle", err);
    if (level->page == NULL && (level->page = psti_alloc(nbytes)) == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory to read %s",
                         tree->window.source->path);
    enum pst_status status =
        psti_containers_window_get(&tree->window, number * nbytes, nbytes, &bytes, err);
    if (status != PST_OK)
        return blame(tree, status, err);
    memcpy(level->page, bytes, nbytes);
    status = check_page(tree, number, level->page, tree->n_levels + 1 == tree->meta.depth, err);
    if (status != PST_OK)
        return status;
    level->number = number;
    level->i = 0;
    level->n = (psti_load_u16(level->page + PAGE_LOWER) - PAGE_HEAD) / 2u;
    tree->n_levels++;
    return PST_OK;
}

/* Finds node i of a page, and checks that its header and key lie within the page. */
static enum pst_status find_node(const struct psti_lmdb_tree *tree,
                                 const struct psti_lmdb_level *level, uint32_t i, uint32_t *at,
                                 struct pst_error *err)
{
    uint32_t nbytes = tree->meta.page_nbytes;
    *at = psti_load_u16(level->page + PAGE_HEAD + (size_t)2 * i);
    if (*at < PAGE_HEAD + 2 * level->n || *at > nbytes - NODE_HEAD ||
        psti_load_u16(level->page + *at + 6) > nbytes - NODE_HEAD - *at)
        return bad_page(tree, level->number, "has a node that lies outside of it", err);
    return PST_OK;
}

/* Compares two keys in the order of the database. */
static int compare(const struct psti_lmdb_tree *tree, const uint8_t *a, uint32_t n_a,
                   const uint8_t *b, uint32_t n_b)
{
    uint32_t n = n_a < n_b ? n_a : n_b;
    uint16_t flags = tree->meta.flags;
    bool is_integer = (flags & FLAG_INTEGER_KEY) != 0 && n_a == n_b;
    if (is_integer || (flags & FLAG_REVERSE_KEY) != 0) {
        /* Integer keys are little-endian, so they too are compared from the last byte on. */
        for (uint32_t i = 1; i <= n; i++)
            if (a[n_a - i] != b[n_b - i])
                return a[n_a - i] < b[n_b - i] ? -1 : 1;
    } else {
        int order = memcmp(a, b, n);
        if (order != 0)
            return order;
    }
    return n_a < n_b ? -1 : n_a > n_b;
}

/* Finds the overflow pages that hold a value. */
static enum pst_status find_big(struct psti_lmdb_tree *tree, const uint8_t *node_value,
                                struct psti_lmdb_entry *entry, struct pst_error *err)
{
    uint64_t number = psti_load_u64(node_value), last = tree->meta.last_page;
    uint32_t nbytes = tree->meta.page_nbytes;
    const uint8_t *head = NULL;
    if (number < 2 || number > last)
        return bad_page(tree, entry->page, "has a value in a page that there is not", err);
    enum pst_status status =
        psti_containers_window_get(&tree->window, number * nbytes, PAGE_HEAD, &head, err);
    if (status != PST_OK)
        return blame(tree, status, err);
    uint64_t n_pages = psti_load_u32(head + PAGE_LOWER);
    if (psti_load_u64(head + PAGE_NUMBER) != number ||
        (psti_load_u16(head + PAGE_FLAGS) & KINDS) != IS_OVERFLOW)
        return bad_page(tree, number, "is no overflow page", err);
    if (n_pages < (PAGE_HEAD - 1 + entry->nbytes) / nbytes + 1 || n_pages > last - number + 1)
        return bad_page(tree, number, "has not as many pages as its value needs", err);
    entry->offset = number * nbytes + PAGE_HEAD;
    if (!psti_range_fits(entry->offset, entry->nbytes, tree->window.source->nbytes))
        return blame(tree, PST_ERROR_TRUNCATED, err);
    return PST_OK;
}

/* Reads the next node of a leaf page as an entry. */
static enum pst_status take_leaf(struct psti_lmdb_tree *tree, struct psti_lmdb_level *level,
                                 struct psti_lmdb_entry *entry, struct pst_error *err)
{
    uint32_t at = 0;
    enum pst_status status = find_node(tree, level, level->i++, &at, err);
    if (status != PST_OK)
        return status;
    const uint8_t *node = level->page + at;
    uint16_t flags = psti_load_u16(node + 4);
    *entry = (struct psti_lmdb_entry){
        .key = node + NODE_HEAD,
        .key_nbytes = psti_load_u16(node + 6),
        .is_database = (flags & NODE_IS_DATABASE) != 0,
        .page = level->number,
        .nbytes = psti_load_u32(node),
    };
    uint32_t value = at + NODE_HEAD + entry->key_nbytes; /* the key lies within the page, so this is
                                                          * at most the page's end */
    bool is_big = (flags & NODE_IS_BIG) != 0;
    if ((flags & NODE_IS_SEVERAL) != 0)
        return refuse(tree, "the database has keys with several values, which cannot be samples",
                      err);
    if (entry->key_nbytes == 0)
        return bad_page(tree, level->number, "has an entry without a key", err);
    if ((is_big ? 8 : entry->nbytes) > tree->meta.page_nbytes - value)
        return bad_page(tree, level->number, "has a value that lies outside of it", err);
    if (tree->n_entries > 0 &&
        compare(tree, tree->key, tree->key_nbytes, entry->key, entry->key_nbytes) >= 0)
        return bad_page(tree, level->number,
                        "has keys that are not in order, or are in an order of the program that "
                        "made them",
                        err);
    entry->offset = level->number * tree->meta.page_nbytes + value;
    status = is_big ? find_big(tree, level->page + value, entry, err) : PST_OK;
    if (status == PST_OK) {
        memcpy(tree->key, entry->key, entry->key_nbytes);
        tree->key_nbytes = entry->key_nbytes;
        tree->n_entries++;
    }
    return status;
}

/* Goes down to the child page of the next node of a branch page. */
static enum pst_status take_branch(struct psti_lmdb_tree *tree, struct psti_lmdb_level *level,
                                   struct pst_error *err)
{
    uint32_t at = 0;
    enum pst_status status = find_node(tree, level, level->i++, &at, err);
    if (status != PST_OK)
        return status;
    /* In a branch node, the page number has 48 bits. */
    return go_down(tree, psti_load_u64(level->page + at) & ((UINT64_C(1) << 48) - 1), err);
}

enum pst_status psti_containers_lmdb_next(struct psti_lmdb_tree *tree,
                                          struct psti_lmdb_entry *entry, bool *has,
                                          struct pst_error *err)
{
    enum pst_status status = PST_OK;
    *has = false;
    if (!tree->is_begun && tree->meta.root != UINT64_MAX)
        status = go_down(tree, tree->meta.root, err);
    tree->is_begun = true;
    while (status == PST_OK && tree->n_levels > 0) {
        struct psti_lmdb_level *level = &tree->levels[tree->n_levels - 1];
        if (level->i == level->n) {
            tree->n_levels--;
        } else if (tree->n_levels == tree->meta.depth) {
            status = take_leaf(tree, level, entry, err);
            *has = status == PST_OK;
            return status;
        } else {
            status = take_branch(tree, level, err);
        }
    }
    if (status == PST_OK && tree->n_entries != tree->meta.n_entries)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, tree->window.source->path, 0,
                            "the database is damaged: it has %" PRIu64 " entries, and its first "
                            "pages say %" PRIu64,
                            tree->n_entries, tree->meta.n_entries);
    return status;
}

bool psti_containers_lmdb_name(const uint8_t *key, uint32_t nbytes, char name[PST_NAME_CAP])
{
    static const char digits[] = "0123456789abcdef";
    bool is_hex = nbytes >= 4 && memcmp(key, "hex:", 4) == 0;
    if (!is_hex && psti_format_name_problem((const char *)key, nbytes) == NULL) {
        memcpy(name, key, nbytes);
        name[nbytes] = '\0';
        return true;
    }
    if (nbytes > (PST_NAME_CAP - 5) / 2)
        return false;
    memcpy(name, "hex:", 4);
    for (uint32_t i = 0; i < nbytes; i++) {
        name[4 + 2 * i] = digits[key[i] >> 4];
        name[5 + 2 * i] = digits[key[i] & 15];
    }
    name[4 + 2 * nbytes] = '\0';
    return true;
}
