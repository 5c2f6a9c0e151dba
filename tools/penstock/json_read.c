/* json_read.c - a JSON parser that allocates nothing: the caller provides the nodes, and strings
 * are unescaped in place. Recursion is limited by DEPTH_MAX. */
#include "json_read.h"

#include <penstock/status.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 32 };

struct parser {
    char *at, *end;
    const char *line_start;
    uint32_t line;
    struct json_node *nodes;
    size_t n_nodes;
    struct pst_error *err;
};

static uint32_t column(const struct parser *p, const char *at)
{
    return (uint32_t)(at - p->line_start) + 1;
}

/* Reports an error at `at`, which lies in the parser's current line, because strings and numbers
 * contain no line ends. */
static bool fail(const struct parser *p, const char *at, const char *text)
{
    struct pst_error *err = p->err;
    pst_error_clear(err);
    err->status = PST_ERROR_ARGUMENT;
    snprintf(err->text, sizeof err->text, "line %u, column %u: %s", p->line, column(p, at), text);
    snprintf(err->room, sizeof err->room, "cli");
    return false;
}

static void skip_space(struct parser *p)
{
    while (p->at < p->end && *p->at != '\0' && strchr(" \t\r\n", *p->at) != NULL)
        if (*p->at++ == '\n') {
            p->line++;
            p->line_start = p->at;
        }
}

static bool read_hex(const char *at, const char *end, uint32_t *value)
{
    *value = 0;
    if (end - at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return false;
        *value = 16 * *value + digit;
    }
    return true;
}

static char *put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *out++ = (char)(0xE0 | c >> 12);
        } else {
            *out++ = (char)(0xF0 | c >> 18);
            *out++ = (char)(0x80 | (c >> 12 & 63));
        }
        *out++ = (char)(0x80 | (c >> 6 & 63));
    }
    *out++ = (char)(0x80 | (c & 63));
    return out;
}

/* Reads \uXXXX, or a pair of them for characters beyond U+FFFF. p->at must be behind the 'u'. */
static bool read_unicode(struct parser *p, char **out)
{
    uint32_t c, low;
    const char *at = p->at;
    if (!read_hex(p->at, p->end, &c))
        return fail(p, at, "four hexadecimal digits are expected after \\u");
    p->at += 4;
    if (c >= 0xD800 && c < 0xDC00) {
        if (p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u' ||
            !read_hex(p->at + 2, p->end, &low) || low < 0xDC00 || low > 0xDFFF)
            return fail(p, at, "half of a pair of \\u");
        p->at += 6;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    } else if (c >= 0xDC00 && c < 0xE000) {
        return fail(p, at, "half of a pair of \\u");
    }
    if (c == 0)
        return fail(p, at, "U+0000 has no place in a text");
    *out = put_utf8(*out, c);
    return true;
}

/* Reads a string, starting at its opening quote. Unescaping never makes it longer. */
static bool read_text(struct parser *p, const char **text)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *opening = p->at++;
    char *out = p->at;
    *text = out;
    while (p->at < p->end && *p->at != '"') {
        if ((unsigned char)*p->at < 0x20)
            return fail(p, p->at, "a control character in a text");
        if (*p->at != '\\') {
            *out++ = *p->at++;
            continue;
        }
        p->at++;
        const char *letter = p->at < p->end && *p->at != '\0' ? strchr(letters, *p->at) : NULL;
        if (letter != NULL) {
            *out++ = values[letter - letters];
            p->at++;
        } else if (p->at < p->end && *p->at == 'u') {
            p->at++;
            if (!read_unicode(p, &out))
                return false;
        } else {
            return fail(p, p->at, "an escape that JSON does not have");
        }
    }
    if (p->at >= p->end)
        return fail(p, opening, "a text without its closing quote");
    p->at++;
    *out = '\0';
    return true;
}

static size_t skip_digits(const char *at)
{
    size_t n = 0;
    while (at[n] >= '0' && at[n] <= '9')
        n++;
    return n;
}

/* Reads a number. strtod accepts more than JSON does (hexadecimal digits, "inf"), so the number's
 * form is checked first; the NUL after the text ends every scan. */
static bool read_number(struct parser *p, struct json_node *node)
{
    char *at = p->at + (*p->at == '-');
    size_t n = skip_digits(at);
    if (n == 0 || (n > 1 && at[0] == '0'))
        return fail(p, p->at, "a value is expected");
    at += n;
    if (*at == '.') {
        n = skip_digits(++at);
        if (n == 0)
            return fail(p, p->at, "a digit is expected after the point");
        at += n;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        n = skip_digits(at);
        if (n == 0)
            return fail(p, p->at, "a digit is expected in the exponent");
        at += n;
    }
    node->kind = JSON_NUMBER;
    node->number = strtod(p->at, NULL);
    if (!isfinite(node->number))
        return fail(p, p->at, "a number that is too large");
    p->at = at;
    return true;
}

static bool read_word(struct parser *p, struct json_node *node)
{
    static const struct {
        const char *text;
        enum json_kind kind;
        double number;
    } words[] = {{"true", JSON_BOOL, 1}, {"false", JSON_BOOL, 0}, {"null", JSON_NULL, 0}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].text);
        if ((size_t)(p->end - p->at) >= n && memcmp(p->at, words[i].text, n) == 0) {
            node->kind = words[i].kind;
            node->number = words[i].number;
            p->at += n;
            return true;
        }
    }
    return read_number(p, node);
}

static bool read_value(struct parser *p, struct json_node **out, unsigned depth);

/* Reads a key and its colon. */
static bool read_key(struct parser *p, const struct json_node *object, const char **key)
{
    skip_space(p);
    const char *at = p->at;
    if (p->at >= p->end || *p->at != '"')
        return fail(p, at, "a name in double quotes is expected");
    if (!read_text(p, key))
        return false;
    if (json_member(object, *key) != NULL)
        return fail(p, at, "the object has that name already");
    skip_space(p);
    if (p->at >= p->end || *p->at != ':')
        return fail(p, p->at, "a colon is expected");
    p->at++;
    return true;
}

/* Reads a list or an object, starting at its bracket. */
static bool read_children(struct parser *p, struct json_node *node, unsigned depth)
{
    char closing = *p->at++ == '[' ? ']' : '}';
    const struct json_node **link = &node->first;
    node->kind = closing == ']' ? JSON_LIST : JSON_OBJECT;
    skip_space(p);
    if (p->at < p->end && *p->at == closing) {
        p->at++;
        return true;
    }
    for (;;) {
        struct json_node *child;
        const char *key = NULL;
        if ((closing == '}' && !read_key(p, node, &key)) || !read_value(p, &child, depth + 1))
            return false;
        child->key = key;
        *link = child;
        link = &child->next;
        node->n++;
        skip_space(p);
        if (p->at < p->end && *p->at == closing) {
            p->at++;
            return true;
        }
        if (p->at >= p->end || *p->at != ',')
            return fail(p, p->at,
                        closing == ']' ? "a comma or ] is expected" : "a comma or } is expected");
        p->at++;
    }
}

static bool read_value(struct parser *p, struct json_node **out, unsigned depth)
{
    skip_space(p);
    if (p->at >= p->end)
        return fail(p, p->at, "the text ends where a value is expected");
    if (depth > DEPTH_MAX)
        return fail(p, p->at, "nested too deep");
    struct json_node *node = &p->nodes[p->n_nodes++];
    *node = (struct json_node){.kind = JSON_NULL};
    *out = node;
    if (*p->at == '[' || *p->at == '{')
        return read_children(p, node, depth);
    if (*p->at == '"') {
        node->kind = JSON_TEXT;
        return read_text(p, &node->text);
    }
    return read_word(p, node);
}

enum pst_status json_read(char *text, size_t nbytes, struct json_node *nodes, struct pst_error *err)
{
    struct parser p = {.at = text,
                       .end = text + nbytes,
                       .line_start = text,
                       .line = 1,
                       .nodes = nodes,
                       .err = err};
    struct json_node *root;
    if (!read_value(&p, &root, 0))
        return err->status;
    skip_space(&p);
    if (p.at < p.end)
        fail(&p, p.at, "something follows the value");
    else
        pst_error_clear(err);
    return p.at < p.end ? err->status : PST_OK;
}

const struct json_node *json_member(const struct json_node *object, const char *key)
{
    if (object == NULL || object->kind != JSON_OBJECT)
        return NULL;
    for (const struct json_node *child = object->first; child != NULL; child = child->next)
        if (strcmp(child->key, key) == 0)
            return child;
    return NULL;
}
