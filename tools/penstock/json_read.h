/* json_read.h - reads JSON (RFC 8259) for verbs: a tree of nodes over a text that the caller owns.
 */
#ifndef PENSTOCK_JSON_READ_H
#define PENSTOCK_JSON_READ_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT };

struct json_node {
    enum json_kind kind;
    const char *key;                      /* member of an object; else NULL */
    const char *text;                     /* JSON_TEXT, unescaped, with a NUL; else NULL */
    double number;                        /* JSON_NUMBER; JSON_BOOL: 0 or 1 */
    uint32_t n;                           /* children of a list or object */
    const struct json_node *first, *next; /* first child; next sibling */
};

/* Room for the nodes of any text of so many bytes: a value takes two with its comma or bracket, and
 * at most 34 lists are open where the text ends too early. */
#define JSON_NODES(nbytes) ((nbytes) / 2 + 36)

/* Parses `text`, nbytes of UTF-8 with a NUL behind them. It is changed: texts are unescaped in
 * place, and nodes point into it. `nodes` has room for JSON_NODES(nbytes); nodes[0] is the root.
 * Values are nested at most 32 deep. Texts without U+0000 are accepted, and keys of an object are
 * unique.
 *
 * PST_ERROR_ARGUMENT: err->text says line, column and what was expected. */
enum pst_status json_read(char *text, size_t nbytes, struct json_node *nodes,
                          struct pst_error *err);

/* The member of an object with this name, or NULL. */
const struct json_node *json_member(const struct json_node *object, const char *key);

#endif
