/* containers_tree.c - the tree of a JSON or YAML text, and the reader of JSON.
 *
 * In: bytes of an untrusted file. Out: nodes, and the texts of keys and scalars.
 *
 * A key or scalar with its NUL is never longer in the tree than in the file, where a delimiter
 * follows it. So memory of the file's size holds all texts, and pointers into it stay valid. */
#include "containers/list/containers_tree.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "format/format_dataset.h"

#include <stdio.h>
#include <string.h>

#define ROOM "containers"

void psti_containers_tree_free(struct psti_tree *tree)
{
    psti_free(tree->nodes);
    psti_free(tree->text);
    memset(tree, 0, sizeof *tree);
}

enum pst_status psti_containers_tree_begin(struct psti_tree *tree, const char *path, size_t nbytes,
                                           struct pst_error *err)
{
    memset(tree, 0, sizeof *tree);
    tree->path = path;
    tree->text_capacity = nbytes + 1;
    tree->text = psti_alloc(tree->text_capacity);
    return tree->text != NULL ? PST_OK
                              : psti_fail_at(err, PST_ERROR_MEMORY, ROOM, path, -1,
                                             "out of memory for a text of %zu bytes", nbytes);
}

void psti_containers_tree_put(struct psti_tree *tree, const char *bytes, size_t nbytes)
{
    size_t room = tree->text_capacity - tree->n_text;
    if (nbytes > room) /* cannot happen: the texts are no longer than the file */
        nbytes = room;
    memcpy(tree->text + tree->n_text, bytes, nbytes);
    tree->n_text += nbytes;
}

static enum pst_status grow(struct psti_tree *tree, struct pst_error *err)
{
    size_t capacity = tree->capacity == 0 ? 64 : 2 * tree->capacity;
    if (tree->n == PSTI_TREE_MAX_NODES)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, tree->path, -1,
                            "the file has more than %d values", PSTI_TREE_MAX_NODES);
    struct psti_tree_node *nodes = psti_realloc(tree->nodes, capacity * sizeof *nodes);
    if (nodes == NULL)
        return psti_fail_at(err, PST_ERROR_MEMORY, ROOM, tree->path, -1,
                            "out of memory for %zu values", capacity);
    tree->nodes = nodes;
    tree->capacity = capacity;
    return PST_OK;
}

enum pst_status psti_containers_tree_add(struct psti_tree *tree, uint32_t parent,
                                         const struct psti_tree_node *node, uint32_t *i_node,
                                         struct pst_error *err)
{
    enum pst_status status = tree->n == tree->capacity ? grow(tree, err) : PST_OK;
    if (status != PST_OK)
        return status;
    *i_node = (uint32_t)tree->n++;
    tree->nodes[*i_node] = *node;
    if (*i_node == 0)
        return PST_OK;
    struct psti_tree_node *above = &tree->nodes[parent];
    if (above->first == 0)
        above->first = *i_node;
    else
        tree->nodes[above->last].next = *i_node;
    above->last = *i_node;
    return PST_OK;
}

const struct psti_tree_node *psti_containers_tree_first(const struct psti_tree *tree,
                                                        const struct psti_tree_node *node)
{
    return node->first == 0 ? NULL : &tree->nodes[node->first];
}

const struct psti_tree_node *psti_containers_tree_next(const struct psti_tree *tree,
                                                       const struct psti_tree_node *node)
{
    return node->next == 0 ? NULL : &tree->nodes[node->next];
}

enum pst_status psti_containers_tree_bad(const struct psti_tree *tree,
                                         const struct psti_tree_node *node, struct pst_error *err,
                                         const char *format, ...)
{
    char text[PST_ERROR_TEXT_CAP] = "";
    struct psti_text cause = {text, sizeof text, 0};
    psti_text_add(&cause, "line %u: ", node->line);
    va_list args;
    va_start(args, format);
    if (cause.length < sizeof text)
        vsnprintf(text + cause.length, sizeof text - cause.length, format, args);
    va_end(args);
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, tree->path, -1, "%s", text);
}

enum pst_status psti_containers_tree_entry(const struct psti_tree *tree,
                                           const struct psti_tree_node *map, const char *key,
                                           const struct psti_tree_node **out, struct pst_error *err)
{
    *out = NULL;
    if (map->kind != PSTI_TREE_MAP)
        return psti_containers_tree_bad(tree, map, err,
                                        "a map is expected, in which \"%s\" is looked for", key);
    for (const struct psti_tree_node *node = psti_containers_tree_first(tree, map); node != NULL;
         node = psti_containers_tree_next(tree, node)) {
        if (strcmp(node->key, key) != 0)
            continue;
        if (*out != NULL)
            return psti_containers_tree_bad(tree, node, err, "\"%s\" stands twice in its map", key);
        *out = node;
    }
    return PST_OK;
}

bool psti_containers_tree_is_null(const struct psti_tree_node *node)
{
    return node->kind == PSTI_TREE_SCALAR && node->is_plain &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}

bool psti_containers_tree_number(const struct psti_tree_node *node, int64_t *out)
{
    int64_t value = 0;
    if (node->kind != PSTI_TREE_SCALAR || !node->is_plain || node->text[0] == '\0')
        return false;
    for (const char *c = node->text; *c != '\0'; c++)
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)(*c - '0'), &value))
            return false;
    *out = value;
    return true;
}

size_t psti_containers_utf8(uint32_t code, char out[4])
{
    if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return 0;
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(leads[n] | code);
    return n;
}

/* State of the JSON reader. The grammar was checked before, so brackets are balanced. */
struct json {
    struct psti_tree *tree;
    const char *at, *end;
    uint32_t line;
    struct pst_error *err;
};

static void skip_space(struct json *json)
{
    for (; json->at < json->end && strchr(" \t\n\r", *json->at) != NULL; json->at++)
        json->line += *json->at == '\n';
}

static enum pst_status bad_json(const struct json *json, const char *what)
{
    return psti_fail_at(json->err, PST_ERROR_CORRUPT, ROOM, json->tree->path, -1, "line %u: %s",
                        json->line, what);
}

static uint32_t hex4(const char *at)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 4 | (uint32_t)(at[i] <= '9' ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10);
    return value;
}

/* Reads the hex digits of \u, and of the second \u of a surrogate pair. */
static enum pst_status read_code(struct json *json)
{
    char utf8[4];
    uint32_t code = hex4(json->at);
    json->at += 4;
    if (code >= 0xD800 && code < 0xDC00 && json->end - json->at >= 6 && json->at[0] == '\\' &&
        json->at[1] == 'u') {
        uint32_t low = hex4(json->at + 2);
        if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            json->at += 6;
        }
    }
    size_t n = psti_containers_utf8(code, utf8);
    if (n == 0)
        return bad_json(json, code == 0 ? "a text holds NUL" : "half a surrogate pair");
    psti_containers_tree_put(json->tree, utf8, n);
    return PST_OK;
}

static enum pst_status read_string(struct json *json, const char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    *out = json->tree->text + json->tree->n_text;
    enum pst_status status = PST_OK;
    for (json->at++; *json->at != '"' && status == PST_OK;) {
        const char *start = json->at;
        while (*json->at != '"' && *json->at != '\\')
            json->at++;
        psti_containers_tree_put(json->tree, start, (size_t)(json->at - start));
        if (*json->at == '"')
            break;
        char c = json->at[1];
        json->at += 2;
        if (c == 'u')
            status = read_code(json);
        else
            psti_containers_tree_put(json->tree, &to[strchr(from, c) - from], 1);
    }
    json->at++;
    psti_containers_tree_put(json->tree, "", 1);
    return status;
}

static enum pst_status read_value(struct json *json, uint32_t parent, const char *key);

static enum pst_status read_entries(struct json *json, uint32_t self, bool is_map)
{
    char closing = is_map ? '}' : ']';
    enum pst_status status = PST_OK;
    json->at++;
    skip_space(json);
    while (status == PST_OK && *json->at != closing) {
        const char *key = NULL;
        if (is_map) {
            status = read_string(json, &key);
            skip_space(json);
            json->at++; /* the colon */
            skip_space(json);
        }
        if (status == PST_OK)
            status = read_value(json, self, key);
        skip_space(json);
        json->at += *json->at == ',';
        skip_space(json);
    }
    json->at++;
    return status;
}

static enum pst_status read_value(struct json *json, uint32_t parent, const char *key)
{
    struct psti_tree_node node = {.key = key, .text = "", .line = json->line};
    uint32_t self;
    enum pst_status status = PST_OK;
    if (*json->at == '{' || *json->at == '[') {
        node.kind = *json->at == '{' ? PSTI_TREE_MAP : PSTI_TREE_LIST;
        status = psti_containers_tree_add(json->tree, parent, &node, &self, json->err);
        return status == PST_OK ? read_entries(json, self, node.kind == PSTI_TREE_MAP) : status;
    }
    if (*json->at == '"') {
        status = read_string(json, &node.text);
    } else {
        const char *start = json->at;
        node.is_plain = true;
        node.text = json->tree->text + json->tree->n_text;
        while (json->at < json->end && strchr(" \t\n\r,]}", *json->at) == NULL)
            json->at++;
        psti_containers_tree_put(json->tree, start, (size_t)(json->at - start));
        psti_containers_tree_put(json->tree, "", 1);
    }
    return status == PST_OK ? psti_containers_tree_add(json->tree, parent, &node, &self, json->err)
                            : status;
}

enum pst_status psti_containers_tree_json(struct psti_tree *tree, const char *path,
                                          const char *bytes, size_t nbytes, struct pst_error *err)
{
    memset(tree, 0, sizeof *tree);
    const char *problem = psti_format_json_problem(bytes, nbytes);
    if (problem != NULL)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, path, -1, "the JSON %s", problem);
    enum pst_status status = psti_containers_tree_begin(tree, path, nbytes, err);
    struct json json = {tree, bytes, bytes + nbytes, 1, err};
    skip_space(&json);
    if (status == PST_OK)
        status = read_value(&json, 0, NULL);
    if (status != PST_OK)
        psti_containers_tree_free(tree);
    return status;
}
