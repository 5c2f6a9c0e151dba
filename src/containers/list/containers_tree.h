/* containers_tree.h - a text of JSON, or of the simple part of YAML, as maps, lists and scalars.
 *
 * Files that others keep beside their containers are small texts in these languages. A tree holds
 * one of them whole. Scalars keep their texts: whoever takes one decides what it must be.
 *
 * JSON is RFC 8259 as format/ checks it. Of YAML 1.2 it reads what Python's yaml.dump writes, and
 * what people write by hand: one document with block maps and block lists, flow lists and flow
 * maps, plain and quoted scalars of one line, and comments. Anchors, aliases, tags, block scalars,
 * keys of several lines and tabs are errors that name the line. Nothing is ever run or looked up.
 *
 * One thread uses a tree at a time; several may read one. */
#ifndef PST_CONTAINERS_CONTAINERS_TREE_H
#define PST_CONTAINERS_CONTAINERS_TREE_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The Python package calls four of these functions (src/penstock.map). */
#pragma GCC visibility push(default)

enum {
    PSTI_TREE_MAX_NODES = 1 << 22,
    PSTI_TREE_MAX_DEPTH = 64,
};

enum psti_tree_kind { PSTI_TREE_SCALAR = 0, PSTI_TREE_LIST = 1, PSTI_TREE_MAP = 2 };

struct psti_tree_node {
    const char *key;  /* in its map, NUL-terminated; NULL in lists and for the root */
    const char *text; /* of a scalar, NUL-terminated; "" else */
    uint32_t first;   /* number of the first entry; 0: none */
    uint32_t last;    /* of the last one */
    uint32_t next;    /* of the next entry of the same map or list; 0: none */
    uint32_t line;    /* where it begins, from 1 */
    enum psti_tree_kind kind;
    bool is_plain; /* the scalar has no quotes: a number, a word, null */
};

/* All zero is an empty tree. Node 0 is the root. */
struct psti_tree {
    struct psti_tree_node *nodes;
    size_t n, capacity;
    char *text; /* of keys and scalars, one after another */
    size_t n_text, text_capacity;
    const char *path; /* for messages; the caller's */
};

/* Reads a text. `path` must outlive the tree. After a failure the tree is empty.
 *
 * PST_ERROR_CORRUPT: it is not JSON, or not the part of YAML that is read; the text says where.
 * PST_ERROR_LIMIT: it has more than PSTI_TREE_MAX_NODES values. */
enum pst_status psti_containers_tree_json(struct psti_tree *tree, const char *path,
                                          const char *bytes, size_t nbytes, struct pst_error *err);
enum pst_status psti_containers_tree_yaml(struct psti_tree *tree, const char *path,
                                          const char *bytes, size_t nbytes, struct pst_error *err);
/* Reads a file: as JSON if its name ends in ".json", else as YAML. `what`: as in psti_open_data.
 *
 * PST_ERROR_LIMIT: it has more than 256 MiB. */
enum pst_status psti_containers_tree_file(struct psti_tree *tree, const char *path,
                                          const char *what, struct pst_error *err);
/* The tree is empty afterwards, and may be used again. */
void psti_containers_tree_free(struct psti_tree *tree);

/* The entries of a map or list, in order; NULL behind the last one. */
const struct psti_tree_node *psti_containers_tree_first(const struct psti_tree *tree,
                                                        const struct psti_tree_node *node);
const struct psti_tree_node *psti_containers_tree_next(const struct psti_tree *tree,
                                                       const struct psti_tree_node *node);
/* Finds an entry of a map. *out: NULL if there is none.
 *
 * PST_ERROR_CORRUPT: `map` is no map, or the key stands in it twice. */
enum pst_status psti_containers_tree_entry(const struct psti_tree *tree,
                                           const struct psti_tree_node *map, const char *key,
                                           const struct psti_tree_node **out,
                                           struct pst_error *err);
/* True for a scalar without a value: null, ~ or nothing. */
bool psti_containers_tree_is_null(const struct psti_tree_node *node);
/* Reads a scalar without quotes as a number from 0 to 2^63 - 1. */
bool psti_containers_tree_number(const struct psti_tree_node *node, int64_t *out);
/* Fills an error that names file and line. Returns PST_ERROR_CORRUPT. */
enum pst_status psti_containers_tree_bad(const struct psti_tree *tree,
                                         const struct psti_tree_node *node, struct pst_error *err,
                                         const char *format, ...) PST_PRINTF(4, 5);

/* For the readers: makes the tree ready for a text of nbytes. Adds a node behind the last entry of
 * `parent`, which is `own number` for the root. Adds bytes to the text. A text that ends lies at
 * *out. */
enum pst_status psti_containers_tree_begin(struct psti_tree *tree, const char *path, size_t nbytes,
                                           struct pst_error *err);
enum pst_status psti_containers_tree_add(struct psti_tree *tree, uint32_t parent,
                                         const struct psti_tree_node *node, uint32_t *i_node,
                                         struct pst_error *err);
void psti_containers_tree_put(struct psti_tree *tree, const char *bytes, size_t nbytes);
/* Writes a code point in UTF-8. Returns its bytes; 0: it is NUL, a surrogate or none. */
size_t psti_containers_utf8(uint32_t code, char out[4]);

#pragma GCC visibility pop

#endif
