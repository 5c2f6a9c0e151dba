/* containers_tree.h - reads a JSON text, or a simple YAML text, as maps, lists and scalars.
 *
 * Other programs keep small files in these languages beside their containers. A tree holds one
 * whole file. Scalars are kept as texts, and the caller decides which type a scalar must have.
 *
 * JSON is RFC 8259, checked by format/. Of YAML 1.2, the reader knows what Python's yaml.dump
 * writes and what people write by hand: one document with block maps and block lists, flow lists
 * and flow maps, plain and quoted scalars of one line, and comments. Anchors, aliases, tags, block
 * scalars, multi-line keys and tabs are errors that name the line. Nothing is ever run or looked
 * up.
 *
 * One thread changes a tree; several may read it. */
#ifndef PST_CONTAINERS_CONTAINERS_TREE_H
#define PST_CONTAINERS_CONTAINERS_TREE_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The Python package calls four of these functions (src/penstock.map), so they are exported. */
#pragma GCC visibility push(default)

enum {
    PSTI_TREE_MAX_NODES = 1 << 22,
    PSTI_TREE_MAX_DEPTH = 64,
};

enum psti_tree_kind { PSTI_TREE_SCALAR = 0, PSTI_TREE_LIST = 1, PSTI_TREE_MAP = 2 };

struct psti_tree_node {
    const char *key;  /* key in the parent map, NUL-terminated; NULL in lists and for the root */
    const char *text; /* text of a scalar, NUL-terminated; "" for maps and lists */
    uint32_t first;   /* index of the first entry of a map or list; 0: none */
    uint32_t last;    /* index of the last entry */
    uint32_t next;    /* index of the next entry of the same map or list; 0: none */
    uint32_t line;    /* line of the file where the value begins, from 1 */
    enum psti_tree_kind kind;
    bool is_plain; /* a scalar without quotes, such as a number, a word or null */
};

/* A parsed text. All members zero is an empty tree. Node 0 is the root. */
struct psti_tree {
    struct psti_tree_node *nodes;
    size_t n, capacity;
    char *text; /* texts of keys and scalars, one after another */
    size_t n_text, text_capacity;
    const char *path; /* for messages; owned by the caller */
};

/* Parses a text. `path` must outlive the tree. After a failure the tree is empty.
 *
 * PST_ERROR_CORRUPT: the text is no JSON, or not in the supported part of YAML; the message says
 *     where.
 * PST_ERROR_LIMIT: it has more than PSTI_TREE_MAX_NODES values. */
enum pst_status psti_containers_tree_json(struct psti_tree *tree, const char *path,
                                          const char *bytes, size_t nbytes, struct pst_error *err);
enum pst_status psti_containers_tree_yaml(struct psti_tree *tree, const char *path,
                                          const char *bytes, size_t nbytes, struct pst_error *err);
/* Parses a file as JSON if its name ends in ".json", else as YAML. `what`: see psti_open_data.
 *
 * PST_ERROR_LIMIT: the file has more than 256 MiB. */
enum pst_status psti_containers_tree_file(struct psti_tree *tree, const char *path,
                                          const char *what, struct pst_error *err);
/* Frees the tree's memory; it is then empty and may be used again. */
void psti_containers_tree_free(struct psti_tree *tree);

/* Return the entries of a map or list in order; NULL after the last one. */
const struct psti_tree_node *psti_containers_tree_first(const struct psti_tree *tree,
                                                        const struct psti_tree_node *node);
const struct psti_tree_node *psti_containers_tree_next(const struct psti_tree *tree,
                                                       const struct psti_tree_node *node);
/* Finds an entry of a map. *out: NULL if there is none.
 *
 * PST_ERROR_CORRUPT: `map` is no map, or has the key twice. */
enum pst_status psti_containers_tree_entry(const struct psti_tree *tree,
                                           const struct psti_tree_node *map, const char *key,
                                           const struct psti_tree_node **out,
                                           struct pst_error *err);
/* True for a scalar without a value: null, ~ or an empty one. */
bool psti_containers_tree_is_null(const struct psti_tree_node *node);
/* Parses an unquoted scalar as a number from 0 to 2^63 - 1. False: it is none. */
bool psti_containers_tree_number(const struct psti_tree_node *node, int64_t *out);
/* Fills in an error that names the file and the line of a node. Returns PST_ERROR_CORRUPT. */
enum pst_status psti_containers_tree_bad(const struct psti_tree *tree,
                                         const struct psti_tree_node *node, struct pst_error *err,
                                         const char *format, ...) PST_PRINTF(4, 5);

/* For the readers of JSON and YAML: begin makes a tree ready for a text of nbytes; add appends a
 * node to the entries of `parent` (the root is its own parent); put appends bytes to the current
 * text. */
enum pst_status psti_containers_tree_begin(struct psti_tree *tree, const char *path, size_t nbytes,
                                           struct pst_error *err);
enum pst_status psti_containers_tree_add(struct psti_tree *tree, uint32_t parent,
                                         const struct psti_tree_node *node, uint32_t *i_node,
                                         struct pst_error *err);
void psti_containers_tree_put(struct psti_tree *tree, const char *bytes, size_t nbytes);
/* Encodes a code point in UTF-8. Returns its bytes; 0 if it is NUL, a surrogate or invalid. */
size_t psti_containers_utf8(uint32_t code, char out[4]);

#pragma GCC visibility pop

#endif
