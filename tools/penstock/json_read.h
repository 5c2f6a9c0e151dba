/* json_read.h - parses JSON (RFC 8259) into a tree of nodes over a text that the caller owns. */
#ifndef PENSTOCK_JSON_READ_H
#define PENSTOCK_JSON_READ_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT };

struct json_node {
    enum json_kind kind;
    const char *key;                      /* name of an object's member; else NULL */
    const char *text;                     /* unescaped string of a JSON_TEXT; else NULL */
    double number;                        /* value of a JSON_NUMBER; of a JSON_BOOL 0 or 1 */
    uint32_t n;                           /* number of children of a list or object */
    const struct json_node *first, *next; /* first child of this node; next sibling */
};

/* Number of nodes that is enough for any text of this length: a value takes two bytes with its
 * comma or bracket, and at most 34 lists are open where a text ends too early. */
#define JSON_NODES(nbytes) ((nbytes) / 2 + 36)

/* Parses `text`, nbytes of UTF-8 followed by a NUL. It modifies the text: strings are unescaped in
 * place, and nodes point into it. `nodes` must have JSON_NODES(nbytes) elements; nodes[0] is the
 * root. Values may be nested at most 32 deep. Strings must not contain U+0000, and an object's keys
 * must be unique. PST_ERROR_ARGUMENT: err->text says line, column and what was expected. */
enum pst_status json_read(char *text, size_t nbytes, struct json_node *nodes,
                          struct pst_error *err);

/* Returns the member of an object with this name, or NULL. */
const struct json_node *json_member(const struct json_node *object, const char *key);

#endif
