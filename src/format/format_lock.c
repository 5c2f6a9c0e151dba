/* format_lock.c - prints and parses the text of a lock file.
 *
 * In: values, or any bytes. Out: PSTI_LOCK_NBYTES of text, or values. Pure functions; any
 * thread. */
#include "format/format_lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD "penstock lock 1\n"

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == '?';
}

void psti_format_print_lock(const struct psti_lock_note *note, char out[PSTI_LOCK_NBYTES])
{
    char host[PSTI_LOCK_HOST_CAP];
    snprintf(host, sizeof host, "%s", note->host);
    for (char *c = host; *c != '\0'; c++)
        *c = is_plain(*c) ? *c : '?';
    memset(out, ' ', PSTI_LOCK_NBYTES);
    int n =
        snprintf(out, PSTI_LOCK_NBYTES,
                 HEAD "host: %s\nboot: %s\nspace: %" PRIu64 "\npid: %" PRIu64 "\nstart: %" PRIu64
                      "\ntoken: %" PRIu64 "\ndone: %" PRIu64 "\ntotal: %" PRIu64 "\n",
                 host, note->boot, note->space, note->pid, note->start, note->token, note->n_done,
                 note->n_total);
    out[n] = ' '; /* padding behind the lines, which have at most 400 bytes */
    out[PSTI_LOCK_NBYTES - 1] = '\n';
}

struct lines {
    const char *at, *end;
};

/* Parses a line "name: value". Sets *value to the start of its value and returns the value's
 * length, or -1 if the next line has another name. */
static int take_line(struct lines *lines, const char *name, const char **value)
{
    size_t n_name = strlen(name), n_left = (size_t)(lines->end - lines->at);
    if (n_left < n_name + 2 || memcmp(lines->at, name, n_name) != 0 ||
        memcmp(lines->at + n_name, ": ", 2) != 0)
        return -1;
    *value = lines->at + n_name + 2;
    const char *end = memchr(*value, '\n', (size_t)(lines->end - *value));
    if (end == NULL)
        return -1;
    lines->at = end + 1;
    return (int)(end - *value);
}

static bool take_text(struct lines *lines, const char *name, char *out, size_t capacity)
{
    const char *value;
    int n = take_line(lines, name, &value);
    if (n < 0 || (size_t)n >= capacity)
        return false;
    for (int i = 0; i < n; i++)
        if (!is_plain(value[i]))
            return false;
    memcpy(out, value, (size_t)n);
    out[n] = '\0';
    return true;
}

static bool take_number(struct lines *lines, const char *name, uint64_t *number)
{
    const char *value;
    int n = take_line(lines, name, &value);
    *number = 0;
    for (int i = 0; i < n; i++) {
        unsigned digit = (unsigned)(value[i] - '0');
        if (digit > 9 || *number > (UINT64_MAX - digit) / 10)
            return false;
        *number = *number * 10 + digit;
    }
    return n > 0;
}

bool psti_format_parse_lock(const char *bytes, size_t nbytes, struct psti_lock_note *note)
{
    struct lines lines = {bytes, bytes + nbytes};
    size_t n = strlen(HEAD);
    memset(note, 0, sizeof *note);
    if (nbytes >= n && memcmp(bytes, HEAD, n) == 0) {
        lines.at += n;
        if (take_text(&lines, "host", note->host, sizeof note->host) &&
            take_text(&lines, "boot", note->boot, sizeof note->boot) &&
            take_number(&lines, "space", &note->space) && take_number(&lines, "pid", &note->pid) &&
            take_number(&lines, "start", &note->start) &&
            take_number(&lines, "token", &note->token) &&
            take_number(&lines, "done", &note->n_done) &&
            take_number(&lines, "total", &note->n_total))
            return true;
    }
    memset(note, 0, sizeof *note);
    return false;
}
