/* format_json.c - checks JSON and texts. Pure functions: writers check values before they store
 * them, readers check values that they find.
 *
 * JSON that passes is accepted by Python's json.loads with any usual recursion limit. The rules are
 * RFC 8259, plus the words NaN, Infinity and -Infinity (which json.dumps writes) and escapes of
 * single surrogates. Nesting is limited. Integers have at most 4,300 digits, because Python refuses
 * longer ones. Returned texts are static and complete a sentence that begins with "the JSON
 * ...". */
#include "format/format_dataset.h"

#include <string.h>

enum { MAX_INT_DIGITS = 4300 };

struct text {
    const char *at, *end;
};

static void skip_space(struct text *text)
{
    while (text->at < text->end && *text->at != '\0' && strchr(" \t\n\r", *text->at) != NULL)
        text->at++;
}

/* If `c` is the next character, steps over it and returns true. */
static bool take(struct text *text, char c)
{
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

static bool take_word(struct text *text, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(text->end - text->at) < n || memcmp(text->at, word, n) != 0)
        return false;
    text->at += n;
    return true;
}

static size_t take_digits(struct text *text)
{
    const char *start = text->at;
    while (text->at < text->end && *text->at >= '0' && *text->at <= '9')
        text->at++;
    return (size_t)(text->at - start);
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static const char *skip_string(struct text *text)
{
    if (!take(text, '"'))
        return "lacks a string where one must be";
    while (text->at < text->end) {
        unsigned char c = (unsigned char)*text->at++;
        if (c == '"')
            return NULL;
        if (c < 0x20)
            return "has a control character in a string";
        if (c != '\\')
            continue;
        if (text->at == text->end)
            break;
        c = (unsigned char)*text->at++;
        if (c == 'u') {
            for (int i = 0; i < 4; i++)
                if (text->at == text->end || !is_hex(*text->at++))
                    return "has an unknown escape in a string";
        } else if (c == '\0' || strchr("\"\\/bfnrt", c) == NULL) {
            return "has an unknown escape in a string";
        }
    }
    return "ends within a string";
}

static const char *skip_number(struct text *text)
{
    const char *problem = "lacks a value where one must be";
    take(text, '-');
    const char *start = text->at;
    size_t n_digits = take_digits(text);
    if (n_digits == 0)
        return take_word(text, "Infinity") ? NULL : problem;
    if (n_digits > 1 && *start == '0')
        return "has a number that begins with 0";
    bool is_int = true;
    if (take(text, '.')) {
        is_int = false;
        if (take_digits(text) == 0)
            return "has a number without digits behind its point";
    }
    if (take(text, 'e') || take(text, 'E')) {
        is_int = false;
        if (!take(text, '+'))
            take(text, '-');
        if (take_digits(text) == 0)
            return "has a number without digits in its exponent";
    }
    return is_int && n_digits > MAX_INT_DIGITS ? "has an integer of more than 4300 digits" : NULL;
}

static const char *skip_scalar(struct text *text)
{
    if (text->at < text->end && *text->at == '"')
        return skip_string(text);
    if (take_word(text, "null") || take_word(text, "true") || take_word(text, "false") ||
        take_word(text, "NaN"))
        return NULL;
    return skip_number(text);
}

/* Skips a member's key and the colon. */
static const char *skip_key(struct text *text)
{
    const char *problem = skip_string(text);
    skip_space(text);
    if (problem == NULL && !take(text, ':'))
        problem = "lacks a colon behind a name";
    skip_space(text);
    return problem;
}

/* Skips the closing brackets after a value, until another value must follow. Sets *depth to 0 if
 * none must follow. */
static const char *skip_closing(struct text *text, const char *brackets, unsigned *depth)
{
    while (*depth > 0) {
        skip_space(text);
        if (take(text, ',')) {
            skip_space(text);
            return brackets[*depth - 1] == '}' ? skip_key(text) : NULL;
        }
        if (!take(text, brackets[*depth - 1]))
            return "lacks a comma or a closing bracket";
        --*depth;
    }
    return NULL;
}

const char *psti_format_json_skip(const char **at, const char *end)
{
    struct text text = {*at, end};
    char brackets[PSTI_JSON_MAX_DEPTH]; /* stack of open brackets: for each, the character that
                                         * closes it */
    unsigned depth = 0;
    const char *problem = NULL;
    do {
        skip_space(&text);
        bool is_object = take(&text, '{');
        if (is_object || take(&text, '[')) {
            if (depth == PSTI_JSON_MAX_DEPTH) {
                problem = "is nested deeper than 64";
                break;
            }
            brackets[depth++] = is_object ? '}' : ']';
            skip_space(&text);
            if (!take(&text, brackets[depth - 1])) {
                problem = is_object ? skip_key(&text) : NULL;
                continue;
            }
            depth--;
        } else {
            problem = skip_scalar(&text);
        }
        if (problem == NULL)
            problem = skip_closing(&text, brackets, &depth);
    } while (problem == NULL && depth > 0);
    *at = text.at;
    return problem;
}

const char *psti_format_json_problem(const void *bytes, size_t nbytes)
{
    const char *at = bytes, *end = at + nbytes;
    if (!psti_format_is_utf8(bytes, nbytes))
        return "is not UTF-8";
    const char *problem = psti_format_json_skip(&at, end);
    if (problem != NULL)
        return problem;
    struct text rest = {at, end};
    skip_space(&rest);
    return rest.at == rest.end ? NULL : "goes on behind its end";
}

const char *psti_format_text_problem(enum pst_field_type type, const void *bytes, size_t nbytes)
{
    if (type == PST_FIELD_JSON)
        return nbytes == 0 ? NULL : psti_format_json_problem(bytes, nbytes);
    return type == PST_FIELD_TEXT && !psti_format_is_utf8(bytes, nbytes) ? "is not UTF-8" : NULL;
}
