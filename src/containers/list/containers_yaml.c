/* containers_yaml.c - parses the simple part of YAML (YAML 1.2.2, chapters 7 and 8) into a tree.
 *
 * In: bytes of an untrusted file. Out: nodes, and the texts of keys and scalars.
 *
 * The function that reads a block stops at the first word of the next non-empty line; the column of
 * that word tells which block it belongs to. Unsupported YAML is an error with its line number;
 * nothing is guessed. */
#include "containers/list/containers_tree.h"

#include "base/fail.h"
#include "format/format_dataset.h"

#include <string.h>

#define ROOM "containers"
enum { NO_LINE = -1 }; /* value of `column` at the end of the text */

struct yaml {
    struct psti_tree *tree;
    const char *at, *end;
    const char *line_start;
    int64_t column; /* column of the first word of the current line */
    uint32_t line, depth;
    bool has_begun; /* the document's first word was found, or the "---" before it */
    struct pst_error *err;
};

static enum pst_status bad(const struct yaml *yaml, const char *what)
{
    return psti_fail_at(yaml->err, PST_ERROR_CORRUPT, ROOM, yaml->tree->path, -1, "line %u: %s",
                        yaml->line, what);
}

static char peek(const struct yaml *yaml, size_t i)
{
    return (size_t)(yaml->end - yaml->at) > i ? yaml->at[i] : '\n';
}

static bool is_end_of_line(const char *at, const char *end)
{
    return at >= end || *at == '\n' || (*at == '\r' && (at + 1 == end || at[1] == '\n'));
}

static bool ends_line(const struct yaml *yaml) { return is_end_of_line(yaml->at, yaml->end); }

static void skip_spaces(struct yaml *yaml)
{
    while (yaml->at < yaml->end && *yaml->at == ' ')
        yaml->at++;
}

/* True if `c` can follow an indicator, as in "- " and ": ". */
static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r'; }

static bool is_dash(const struct yaml *yaml)
{
    return peek(yaml, 0) == '-' && yaml->at < yaml->end && is_blank(peek(yaml, 1));
}

/* Moves behind the end of the current line. */
static void end_line(struct yaml *yaml)
{
    while (yaml->at < yaml->end && *yaml->at != '\n')
        yaml->at++;
    if (yaml->at < yaml->end)
        yaml->at++;
    yaml->line++;
    yaml->line_start = yaml->at;
}

/* True if the rest of the line is empty or a comment. */
static bool is_rest_empty(struct yaml *yaml)
{
    skip_spaces(yaml);
    return ends_line(yaml) || (*yaml->at == '#' && yaml->at[-1] == ' ');
}

/* True at "---", which begins a document, or "...", which ends it. */
static bool is_document_mark(const struct yaml *yaml)
{
    return yaml->end - yaml->at >= 3 && is_blank(peek(yaml, 3)) &&
           (memcmp(yaml->at, "---", 3) == 0 || memcmp(yaml->at, "...", 3) == 0);
}

/* Moves to the first word of the next non-empty line. Called at the start of a line. */
static enum pst_status next_line(struct yaml *yaml)
{
    for (yaml->column = NO_LINE; yaml->at < yaml->end; end_line(yaml)) {
        skip_spaces(yaml);
        if (ends_line(yaml) || *yaml->at == '#')
            continue;
        if (*yaml->at == '\t')
            return bad(yaml, "a tab stands where only spaces may");
        int64_t column = yaml->at - yaml->line_start;
        bool is_mark = column == 0 && is_document_mark(yaml);
        if (is_mark && (yaml->has_begun || *yaml->at == '.'))
            return bad(yaml, "the file goes on behind its first document");
        yaml->has_begun = true;
        if (!is_mark) {
            yaml->column = column;
            return PST_OK;
        }
        yaml->at += 3;
        if (!is_rest_empty(yaml))
            return bad(yaml, "text stands behind the three dashes");
    }
    return PST_OK;
}

/* Called behind a value: only a comment may follow in the line. Moves to the next line's first
 * word. */
static enum pst_status finish_line(struct yaml *yaml)
{
    const char *behind = yaml->at;
    skip_spaces(yaml);
    bool is_comment = peek(yaml, 0) == '#' && yaml->at > behind;
    if (!ends_line(yaml) && !is_comment)
        return bad(yaml, "more text stands behind a value: quote it if it belongs to the value");
    end_line(yaml);
    return next_line(yaml);
}

static bool is_flow_mark(char c) { return c != '\0' && strchr(",[]{}", c) != NULL; }

/* Finds the end of an unquoted scalar that begins at `at`. */
static const char *plain_end(const struct yaml *yaml, const char *at, bool in_flow)
{
    for (; !is_end_of_line(at, yaml->end); at++) {
        char next = at + 1 < yaml->end ? at[1] : '\n';
        if (*at == ':' && (is_blank(next) || (in_flow && is_flow_mark(next))))
            break;
        if ((*at == ' ' && next == '#') || (in_flow && is_flow_mark(*at)))
            break;
    }
    return at;
}

static enum pst_status read_plain(struct yaml *yaml, bool in_flow, const char **out)
{
    char first = peek(yaml, 0), next = peek(yaml, 1);
    if (ends_line(yaml))
        return bad(yaml, "the file ends where a value is expected");
    if (strchr("&*!", first) != NULL)
        return bad(yaml, "anchors, aliases and tags are not read");
    if (strchr("|>", first) != NULL)
        return bad(yaml, "texts of several lines are not read");
    if (strchr(",[]{}#%@`'\"", first) != NULL ||
        (strchr("-?:", first) != NULL && (is_blank(next) || (in_flow && is_flow_mark(next)))))
        return bad(yaml, "a value is expected: quote it if it begins with this character");
    const char *start = yaml->at, *end = plain_end(yaml, start, in_flow);
    yaml->at = end;
    while (end > start && end[-1] == ' ')
        end--;
    if (memchr(start, '\t', (size_t)(end - start)) != NULL)
        return bad(yaml, "a tab stands where only spaces may");
    *out = yaml->tree->text + yaml->tree->n_text;
    psti_containers_tree_put(yaml->tree, start, (size_t)(end - start));
    psti_containers_tree_put(yaml->tree, "", 1);
    return PST_OK;
}

/* Reads an escape in double quotes; the current byte is its backslash. */
static enum pst_status read_escape(struct yaml *yaml)
{
    static const char from[] = "abtnvfre \"/\\", to[] = "\a\b\t\n\v\f\r\033 \"/\\";
    char c = peek(yaml, 1), utf8[4];
    const char *found = strchr(from, c);
    if (c != '\0' && found != NULL) {
        psti_containers_tree_put(yaml->tree, &to[found - from], 1);
        yaml->at += 2;
        return PST_OK;
    }
    size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    bool is_good = n_digits > 0;
    for (size_t i = 0; i < n_digits && is_good; i++) {
        char digit = peek(yaml, 2 + i);
        bool is_letter = (digit | 0x20) >= 'a' && (digit | 0x20) <= 'f';
        is_good = is_letter || (digit >= '0' && digit <= '9');
        code = code << 4 | (uint32_t)(is_letter ? (digit | 0x20) - 'a' + 10 : digit - '0');
    }
    size_t n = is_good ? psti_containers_utf8(code, utf8) : 0;
    if (n == 0)
        return bad(yaml, "an unknown escape in a text");
    psti_containers_tree_put(yaml->tree, utf8, n);
    yaml->at += 2 + n_digits;
    return PST_OK;
}

static enum pst_status read_quoted(struct yaml *yaml, const char **out)
{
    char quote = *yaml->at++;
    *out = yaml->tree->text + yaml->tree->n_text;
    while (!ends_line(yaml)) {
        char c = *yaml->at;
        if (c == quote && (quote == '"' || peek(yaml, 1) != '\'')) {
            yaml->at++;
            psti_containers_tree_put(yaml->tree, "", 1);
            return PST_OK;
        }
        if (c == '\\' && quote == '"') {
            enum pst_status status = read_escape(yaml);
            if (status != PST_OK)
                return status;
            continue;
        }
        psti_containers_tree_put(yaml->tree, &c, 1);
        yaml->at += c == quote ? 2 : 1; /* two single quotes stand for one */
    }
    return bad(yaml, "a quoted text does not end in its line");
}

static bool is_quote(char c) { return c == '"' || c == '\''; }

static enum pst_status read_scalar(struct yaml *yaml, bool in_flow, const char **out)
{
    return is_quote(peek(yaml, 0)) ? read_quoted(yaml, out) : read_plain(yaml, in_flow, out);
}

/* Returns the place behind a quoted text that begins at `at`. */
static const char *quoted_end(const struct yaml *yaml, const char *at)
{
    char quote = *at;
    for (at++; !is_end_of_line(at, yaml->end); at++) {
        bool is_pair = at + 1 < yaml->end && ((quote == '"' && *at == '\\') ||
                                              (quote == '\'' && *at == quote && at[1] == quote));
        if (is_pair)
            at++;
        else if (*at == quote)
            return at + 1;
    }
    return at < yaml->end ? at : yaml->end;
}

/* True if a key and its colon begin here. */
static bool is_key(const struct yaml *yaml)
{
    const char *at = yaml->at;
    char quote = peek(yaml, 0);
    if (!is_quote(quote)) {
        at = plain_end(yaml, at, false);
    } else {
        at = quoted_end(yaml, at);
        while (at < yaml->end && *at == ' ')
            at++;
    }
    return at < yaml->end && *at == ':' && is_blank(at + 1 < yaml->end ? at[1] : '\n') &&
           !is_flow_mark(quote);
}

static enum pst_status add(struct yaml *yaml, uint32_t parent, const char *key,
                           enum psti_tree_kind kind, const char *text, bool is_plain,
                           uint32_t *self)
{
    struct psti_tree_node node = {
        .key = key, .text = text, .line = yaml->line, .kind = kind, .is_plain = is_plain};
    return psti_containers_tree_add(yaml->tree, parent, &node, self, yaml->err);
}

static enum pst_status add_null(struct yaml *yaml, uint32_t parent, const char *key)
{
    uint32_t self;
    return add(yaml, parent, key, PSTI_TREE_SCALAR, "", true, &self);
}

static enum pst_status deeper(struct yaml *yaml)
{
    return ++yaml->depth > PSTI_TREE_MAX_DEPTH ? bad(yaml, "it is nested deeper than 64") : PST_OK;
}

/* Skips spaces, line ends and comments within a flow list or map. */
static void skip_flow_space(struct yaml *yaml)
{
    while (yaml->at < yaml->end) {
        if (ends_line(yaml) || (*yaml->at == '#' && is_blank(yaml->at[-1])))
            end_line(yaml);
        else if (*yaml->at == ' ')
            yaml->at++;
        else
            return;
    }
}

static enum pst_status read_inline(struct yaml *yaml, uint32_t parent, const char *key,
                                   bool in_flow);

/* Reads one entry of a flow map or list. */
static enum pst_status read_flow_entry(struct yaml *yaml, uint32_t self, bool is_map)
{
    const char *key = NULL;
    enum pst_status status = PST_OK;
    if (is_map) {
        status = read_scalar(yaml, true, &key);
        skip_flow_space(yaml);
        if (status == PST_OK && peek(yaml, 0) != ':')
            return bad(yaml, "a colon is expected behind a key");
        if (status == PST_OK)
            yaml->at++;
        skip_flow_space(yaml);
        if (status == PST_OK && (peek(yaml, 0) == ',' || peek(yaml, 0) == '}'))
            return add_null(yaml, self, key);
    }
    return status == PST_OK ? read_inline(yaml, self, key, true) : status;
}

static enum pst_status read_flow(struct yaml *yaml, uint32_t parent, const char *key)
{
    bool is_map = *yaml->at == '{';
    char closing = is_map ? '}' : ']';
    uint32_t self;
    enum pst_status status = deeper(yaml);
    if (status == PST_OK)
        status = add(yaml, parent, key, is_map ? PSTI_TREE_MAP : PSTI_TREE_LIST, "", false, &self);
    yaml->at++;
    skip_flow_space(yaml);
    while (status == PST_OK && peek(yaml, 0) != closing) {
        status = read_flow_entry(yaml, self, is_map);
        skip_flow_space(yaml);
        if (status != PST_OK || peek(yaml, 0) == closing)
            break;
        if (peek(yaml, 0) != ',')
            return bad(yaml, "a comma or a closing bracket is expected");
        yaml->at++;
        skip_flow_space(yaml);
    }
    yaml->at++;
    yaml->depth--;
    return status;
}

/* Reads a scalar, or a flow list or map. */
static enum pst_status read_inline(struct yaml *yaml, uint32_t parent, const char *key,
                                   bool in_flow)
{
    char first = peek(yaml, 0);
    const char *text;
    uint32_t self;
    if (first == '[' || first == '{')
        return read_flow(yaml, parent, key);
    enum pst_status status = read_scalar(yaml, in_flow, &text);
    return status == PST_OK
               ? add(yaml, parent, key, PSTI_TREE_SCALAR, text, !is_quote(first), &self)
               : status;
}

static enum pst_status read_block(struct yaml *yaml, uint32_t parent, const char *key);
static enum pst_status read_list(struct yaml *yaml, uint32_t parent, const char *key);

/* Reads the value behind a map key's colon. */
static enum pst_status read_map_value(struct yaml *yaml, uint32_t self, const char *key,
                                      int64_t column)
{
    enum pst_status status;
    if (!is_rest_empty(yaml)) {
        status = read_inline(yaml, self, key, false);
        return status == PST_OK ? finish_line(yaml) : status;
    }
    end_line(yaml);
    status = next_line(yaml);
    if (status != PST_OK)
        return status;
    if (yaml->column > column)
        return read_block(yaml, self, key);
    /* A list may be indented no deeper than its key. */
    if (yaml->column == column && is_dash(yaml))
        return read_list(yaml, self, key);
    return add_null(yaml, self, key);
}

static enum pst_status read_map(struct yaml *yaml, uint32_t parent, const char *map_key)
{
    int64_t column = yaml->column;
    uint32_t self;
    enum pst_status status = add(yaml, parent, map_key, PSTI_TREE_MAP, "", false, &self);
    while (status == PST_OK && yaml->column == column) {
        const char *key = NULL;
        if (is_dash(yaml) || !is_key(yaml))
            return bad(yaml, "a key with a colon behind it is expected");
        status = read_scalar(yaml, false, &key);
        skip_spaces(yaml);
        if (status == PST_OK && peek(yaml, 0) != ':')
            return bad(yaml, "a colon is expected behind a key");
        if (status == PST_OK) {
            yaml->at++;
            status = read_map_value(yaml, self, key, column);
        }
    }
    if (status == PST_OK && yaml->column > column)
        return bad(yaml, "the line is indented deeper than what it follows");
    return status;
}

static enum pst_status read_list(struct yaml *yaml, uint32_t parent, const char *key)
{
    int64_t column = yaml->column;
    uint32_t self;
    enum pst_status status = add(yaml, parent, key, PSTI_TREE_LIST, "", false, &self);
    while (status == PST_OK && yaml->column == column && is_dash(yaml)) {
        yaml->at++;
        if (is_rest_empty(yaml)) {
            end_line(yaml);
            status = next_line(yaml);
            if (status == PST_OK)
                status = yaml->column > column ? read_block(yaml, self, NULL)
                                               : add_null(yaml, self, NULL);
            continue;
        }
        yaml->column = yaml->at - yaml->line_start;
        status = read_block(yaml, self, NULL);
    }
    if (status == PST_OK && yaml->column > column)
        return bad(yaml, "the line is indented deeper than what it follows");
    return status;
}

/* Reads the block that begins at the current word, and moves to the first word behind it. */
static enum pst_status read_block(struct yaml *yaml, uint32_t parent, const char *key)
{
    enum pst_status status = deeper(yaml);
    if (status != PST_OK)
        return status;
    if (is_dash(yaml)) {
        status = read_list(yaml, parent, key);
    } else if (is_key(yaml)) {
        status = read_map(yaml, parent, key);
    } else {
        status = read_inline(yaml, parent, key, false);
        if (status == PST_OK)
            status = finish_line(yaml);
    }
    yaml->depth--;
    return status;
}

static enum pst_status read_document(struct yaml *yaml)
{
    if (yaml->end - yaml->at >= 3 && memcmp(yaml->at, "\xef\xbb\xbf", 3) == 0)
        yaml->at += 3;
    yaml->line_start = yaml->at;
    enum pst_status status = next_line(yaml);
    if (status != PST_OK)
        return status;
    if (yaml->column == NO_LINE)
        return add_null(yaml, 0, NULL);
    if (*yaml->at == '%')
        return bad(yaml, "directives are not read");
    status = read_block(yaml, 0, NULL);
    if (status == PST_OK && yaml->column != NO_LINE)
        return bad(yaml, "the line belongs to nothing before it");
    return status;
}

/* Refuses bytes that cannot occur in a text, such as control characters. */
static enum pst_status check_bytes(struct yaml *yaml)
{
    if (!psti_format_is_utf8(yaml->at, (size_t)(yaml->end - yaml->at)))
        return psti_fail_at(yaml->err, PST_ERROR_CORRUPT, ROOM, yaml->tree->path, -1,
                            "the YAML is not UTF-8");
    for (const char *at = yaml->at; at < yaml->end; at++) {
        if (((unsigned char)*at < 0x20 && strchr("\t\n\r", *at) == NULL) || *at == 0x7F ||
            *at == '\0' || (*at == '\r' && !is_end_of_line(at, yaml->end)))
            return bad(yaml, "the text holds a control character");
        yaml->line += *at == '\n';
    }
    yaml->line = 1;
    return PST_OK;
}

enum pst_status psti_containers_tree_yaml(struct psti_tree *tree, const char *path,
                                          const char *bytes, size_t nbytes, struct pst_error *err)
{
    struct yaml yaml = {.tree = tree,
                        .at = bytes,
                        .end = bytes + nbytes,
                        .line_start = bytes,
                        .line = 1,
                        .err = err};
    enum pst_status status = psti_containers_tree_begin(tree, path, nbytes, err);
    if (status == PST_OK)
        status = check_bytes(&yaml);
    if (status == PST_OK)
        status = read_document(&yaml);
    if (status != PST_OK)
        psti_containers_tree_free(tree);
    return status;
}
