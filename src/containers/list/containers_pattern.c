/* containers_pattern.c - expands brace lists, and finds the files that wildcards match.
 *
 * In: a pattern of the user or of an untrusted index. Out: names.
 *
 * Each brace list multiplies the number of names, so the number is checked at each step. A pattern
 * is expanded from left to right: the names so far are combined with each alternative of the next
 * group. */
#include "containers/list/containers_pattern.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ROOM "containers"
enum { MAX_DEPTH = 32, MAX_DIGITS = 18 };

struct braces {
    const char *pattern;
    size_t n_max;
    struct pst_error *err;
};

static enum pst_status too_many(const struct braces *braces)
{
    return psti_fail(braces->err, PST_ERROR_LIMIT, ROOM, "'%.200s' means more than %zu names",
                     braces->pattern, braces->n_max);
}

static enum pst_status unbalanced(const struct braces *braces)
{
    return psti_fail(braces->err, PST_ERROR_ARGUMENT, ROOM,
                     "a brace of '%.200s' lacks its counterpart: write \\{ if a name has one",
                     braces->pattern);
}

/* Adds the concatenation of a, b and c to `names`. */
static enum pst_status add_joined(const struct braces *braces, struct psti_container_names *names,
                                  const char *a, const char *b, size_t n_b, const char *c)
{
    char joined[PATH_MAX];
    size_t n_a = strlen(a), n_c = strlen(c);
    if (names->n == braces->n_max)
        return too_many(braces);
    if (n_a + n_b + n_c >= sizeof joined)
        return psti_fail(braces->err, PST_ERROR_LIMIT, ROOM,
                         "a name of '%.200s' has more than %d bytes", braces->pattern,
                         PATH_MAX - 1);
    memcpy(joined, a, n_a);
    memcpy(joined + n_a, b, n_b);
    memcpy(joined + n_a + n_b, c, n_c);
    return psti_containers_paths_add(names, joined, n_a + n_b + n_c, braces->err);
}

/* Replaces each name in *done by that name plus the literal plus each of the options. */
static enum pst_status multiply(const struct braces *braces, struct psti_container_names *done,
                                const char *literal, size_t n_literal,
                                const struct psti_container_names *options)
{
    struct psti_container_names product = {0};
    enum pst_status status = PST_OK;
    for (size_t i = 0; i < done->n && status == PST_OK; i++)
        for (size_t k = 0; k < options->n && status == PST_OK; k++)
            status = add_joined(braces, &product, done->at[i], literal, n_literal, options->at[k]);
    psti_containers_paths_free(done);
    *done = product;
    return status;
}

/* Parses a number of a range, such as "-7" or "007", and moves *at behind it. */
static bool take_number(const char **at, const char *end, int64_t *value, size_t *length)
{
    const char *start = *at;
    bool is_negative = *at < end && **at == '-';
    *at += is_negative;
    const char *digits = *at;
    for (*value = 0; *at < end && **at >= '0' && **at <= '9' && *at - digits < MAX_DIGITS; (*at)++)
        *value = 10 * *value + (**at - '0');
    *length = (size_t)(*at - start);
    *value = is_negative ? -*value : *value;
    return *at > digits;
}

static bool take_dots(const char **at, const char *end)
{
    bool has = end - *at >= 2 && (*at)[0] == '.' && (*at)[1] == '.';
    *at += has ? 2 : 0;
    return has;
}

/* Parses an optional "..STEP" at the end of a range. */
static bool take_step(const char *at, const char *end, int64_t *step)
{
    size_t length;
    *step = 1;
    if (at == end)
        return true;
    if (!take_dots(&at, end) || !take_number(&at, end, step, &length) || at != end)
        return false;
    *step = *step < 0 ? -*step : *step == 0 ? 1 : *step;
    return true;
}

static bool has_leading_zero(const char *number, size_t length)
{
    size_t i = number[0] == '-';
    return number[i] == '0' && length > i + 1;
}

/* Adds the numbers of a range such as 0..9. *is_range: false if the text is no such range. */
static enum pst_status add_numbers(const struct braces *braces, const char *at, const char *end,
                                   struct psti_container_names *options, bool *is_range)
{
    int64_t first, last, step;
    size_t n_first, n_last;
    const char *left = at;
    *is_range = false;
    if (!take_number(&at, end, &first, &n_first) || !take_dots(&at, end))
        return PST_OK;
    const char *right = at;
    if (!take_number(&at, end, &last, &n_last) || !take_step(at, end, &step))
        return PST_OK;
    *is_range = true;
    int width = 0;
    if (has_leading_zero(left, n_first) || has_leading_zero(right, n_last))
        width = (int)(n_first > n_last ? n_first : n_last);
    uint64_t n = (uint64_t)(first < last ? last - first : first - last) / (uint64_t)step;
    enum pst_status status = n >= braces->n_max ? too_many(braces) : PST_OK;
    for (uint64_t i = 0; i <= n && status == PST_OK; i++) {
        char number[32];
        int64_t value = first < last ? first + (int64_t)i * step : first - (int64_t)i * step;
        snprintf(number, sizeof number, "%0*lld", width, (long long)value);
        status = psti_containers_paths_add(options, number, strlen(number), braces->err);
    }
    return status;
}

/* Adds the letters of a range such as a..e. *is_range: false if the text is no such range. */
static enum pst_status add_letters(const struct braces *braces, const char *at, const char *end,
                                   struct psti_container_names *options, bool *is_range)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    int64_t step;
    *is_range = false;
    if (end - at < 4)
        return PST_OK;
    const char *first = memchr(alphabet, at[0], 52), *last = memchr(alphabet, at[3], 52);
    const char *behind = at + 1;
    if (first == NULL || last == NULL || !take_dots(&behind, end) || !take_step(at + 4, end, &step))
        return PST_OK;
    *is_range = true;
    int64_t n = (first < last ? last - first : first - last) / step;
    enum pst_status status = PST_OK;
    for (int64_t i = 0; i <= n && status == PST_OK; i++)
        status = psti_containers_paths_add(
            options, first < last ? first + i * step : first - i * step, 1, braces->err);
    return status;
}

/* Returns the closing brace of the group whose opening brace is at `at`, or NULL. */
static const char *group_end(const char *at, const char *end)
{
    int depth = 0;
    for (; at < end; at++) {
        if (*at == '\\')
            at++;
        else if (*at == '{')
            depth++;
        else if (*at == '}' && --depth == 0)
            return at;
    }
    return NULL;
}

static enum pst_status expand(const struct braces *braces, const char *at, const char *end,
                              int depth, struct psti_container_names *names);

/* Adds the alternatives of a comma-separated list. *is_list: false if there is no comma outside of
 * inner braces. */
static enum pst_status add_list(const struct braces *braces, const char *at, const char *end,
                                int depth, struct psti_container_names *options, bool *is_list)
{
    const char *start = at;
    enum pst_status status = PST_OK;
    *is_list = false;
    for (int inner = 0; at < end && status == PST_OK; at++) {
        if (*at == '\\') {
            at++;
            continue;
        }
        inner += *at == '{' ? 1 : *at == '}' ? -1 : 0;
        if (*at != ',' || inner != 0)
            continue;
        *is_list = true;
        status = expand(braces, start, at, depth + 1, options);
        start = at + 1;
    }
    if (status == PST_OK && *is_list)
        status = expand(braces, start, end, depth + 1, options);
    return status;
}

/* Adds the alternatives of a group. Its text between the braces is [at, end). */
static enum pst_status add_group(const struct braces *braces, const char *at, const char *end,
                                 int depth, struct psti_container_names *options)
{
    bool is_done;
    enum pst_status status = add_numbers(braces, at, end, options, &is_done);
    if (status == PST_OK && !is_done)
        status = add_letters(braces, at, end, options, &is_done);
    if (status == PST_OK && !is_done)
        status = add_list(braces, at, end, depth, options, &is_done);
    if (status != PST_OK || is_done)
        return status;
    /* The group is neither a range nor a list, so its braces are literal. */
    struct psti_container_names inner = {0};
    status = expand(braces, at, end, depth + 1, &inner);
    for (size_t i = 0; i < inner.n && status == PST_OK; i++)
        status = add_joined(braces, options, "{", inner.at[i], strlen(inner.at[i]), "}");
    psti_containers_paths_free(&inner);
    return status;
}

/* Adds all names that a part of the pattern expands to. Backslashes are kept. */
static enum pst_status expand(const struct braces *braces, const char *at, const char *end,
                              int depth, struct psti_container_names *names)
{
    struct psti_container_names done = {0}, options = {0};
    const char *start = at;
    enum pst_status status = psti_containers_paths_add(&done, "", 0, braces->err);
    if (status == PST_OK && depth == MAX_DEPTH)
        status = psti_fail(braces->err, PST_ERROR_LIMIT, ROOM,
                           "the braces of '%.200s' are nested deeper than %d", braces->pattern,
                           MAX_DEPTH);
    while (at < end && status == PST_OK) {
        if (*at == '\\') {
            at += end - at > 1 ? 2 : 1;
        } else if (*at == '{') {
            const char *close = group_end(at, end);
            status = close == NULL ? unbalanced(braces)
                                   : add_group(braces, at + 1, close, depth, &options);
            if (status == PST_OK)
                status = multiply(braces, &done, start, (size_t)(at - start), &options);
            psti_containers_paths_free(&options);
            start = at = close == NULL ? end : close + 1;
        } else if (*at++ == '}') {
            status = unbalanced(braces);
        }
    }
    for (size_t i = 0; i < done.n && status == PST_OK; i++)
        status = add_joined(braces, names, done.at[i], start, (size_t)(end - start), "");
    psti_containers_paths_free(&done);
    return status;
}

static void remove_backslashes(char *name)
{
    char *to = name;
    for (const char *from = name; *from != '\0'; from++) {
        from += *from == '\\' && from[1] != '\0';
        *to++ = *from;
    }
    *to = '\0';
}

enum pst_status psti_containers_braces(const char *pattern, size_t n_max,
                                       struct psti_container_names *names, struct pst_error *err)
{
    struct braces braces = {pattern, n_max, err};
    struct psti_container_names found = {0};
    size_t n = strlen(pattern);
    if (n >= PATH_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "'%.200s...' has more than %d bytes", pattern,
                         PATH_MAX - 1);
    enum pst_status status = expand(&braces, pattern, pattern + n, 0, &found);
    for (size_t i = 0; i < found.n && status == PST_OK; i++) {
        remove_backslashes(found.at[i]);
        status = psti_containers_paths_add(names, found.at[i], strlen(found.at[i]), err);
    }
    psti_containers_paths_free(&found);
    return status;
}

bool psti_containers_has_wildcard(const char *text) { return strpbrk(text, "*?[") != NULL; }

/* Matches c against a set such as [a-z]. *pattern points behind the opening bracket, and is moved
 * behind the closing one. *is_set: false if there is none, so the bracket is literal. */
static bool matches_set(const char **pattern, unsigned char c, bool *is_set)
{
    const char *at = *pattern;
    bool is_inverse = *at == '!' || *at == '^', has = false;
    at += is_inverse;
    for (bool is_first = true; *at != '\0' && (*at != ']' || is_first); is_first = false) {
        unsigned char low = (unsigned char)*at++, high = low;
        if (at[0] == '-' && at[1] != '\0' && at[1] != ']') {
            high = (unsigned char)at[1];
            at += 2;
        }
        has = has || (low <= c && c <= high);
    }
    *is_set = *at == ']';
    if (*is_set)
        *pattern = at + 1;
    return has != is_inverse;
}

/* Matches one character that is not NUL, and moves *pattern behind the element that it was compared
 * with. */
static bool matches_one(const char **pattern, char c)
{
    char p = *(*pattern)++;
    if (p == '?')
        return c != '/';
    if (p == '[') {
        bool is_set, has = matches_set(pattern, (unsigned char)c, &is_set);
        if (is_set)
            return has && c != '/';
    }
    return p == c;
}

bool psti_containers_matches(const char *pattern, const char *path)
{
    const char *star = NULL, *retry = NULL; /* pattern behind the last star; next end in the path to
                                             * try for that star's match */
    while (*path != '\0') {
        const char *next = pattern;
        if (*pattern == '*') {
            star = ++pattern;
            retry = path;
        } else if (*pattern != '\0' && matches_one(&next, *path)) {
            pattern = next;
            path++;
        } else if (star != NULL && *retry != '/') {
            pattern = star;
            path = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* State of the search for the entries of one folder that match a part of a pattern. */
struct search {
    char part[NAME_MAX + 1]; /* part of the pattern between two slashes */
    bool wants_folder;
};

static bool takes(void *context, const char *name, bool is_folder)
{
    const struct search *search = context;
    return (is_folder || !search->wants_folder) && psti_containers_matches(search->part, name);
}

/* Adds the paths that `rest` of the pattern matches below `path`, which is "" or ends with a
 * slash. */
static enum pst_status descend(const char *path, const char *rest,
                               struct psti_container_names *names, struct pst_error *err)
{
    char joined[PATH_MAX];
    struct stat st;
    size_t n = strcspn(rest, "/"), n_slashes = strspn(rest + n, "/");
    const char *next = rest + n + n_slashes;
    struct search search = {.wants_folder = n_slashes > 0};
    if (n >= sizeof search.part)
        return PST_OK; /* longer than any file name, so nothing can match */
    memcpy(search.part, rest, n);
    struct psti_container_names found = {0};
    enum pst_status status;
    if (psti_containers_has_wildcard(search.part)) {
        status = psti_containers_folder(path, takes, &search, &found, err);
        if (status == PST_ERROR_NOT_FOUND)
            status = PST_OK;
        psti_containers_paths_sort(&found);
    } else {
        status = psti_containers_paths_add(&found, search.part, n, err);
    }
    for (size_t i = 0; i < found.n && status == PST_OK; i++) {
        struct psti_text text = {joined, sizeof joined, 0};
        psti_text_add(&text, "%s%s%s", path, found.at[i], n_slashes > 0 ? "/" : "");
        if (text.length >= sizeof joined)
            continue; /* longer than any path, so nothing can be there */
        if (*next != '\0')
            status = descend(joined, next, names, err);
        else if (stat(joined, &st) == 0)
            status = psti_containers_paths_add(names, joined, strlen(joined), err);
    }
    psti_containers_paths_free(&found);
    return status;
}

enum pst_status psti_containers_glob(const char *pattern, struct psti_container_names *names,
                                     struct pst_error *err)
{
    if (strstr(pattern, "**") != NULL)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM,
                         "'%.200s': ** is not read: write one * for each folder", pattern);
    if (strlen(pattern) >= PATH_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "'%.200s...' has more than %d bytes", pattern,
                         PATH_MAX - 1);
    size_t n_before = names->n;
    const char *rest = pattern + strspn(pattern, "/");
    enum pst_status status = descend(rest > pattern ? "/" : "", rest, names, err);
    if (status == PST_OK && names->n == n_before)
        status = psti_fail(err, PST_ERROR_NOT_FOUND, ROOM, "no file matches '%.200s'", pattern);
    return status;
}
