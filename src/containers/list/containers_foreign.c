/* containers_foreign.c - reads sample indexes that other programs made, only to compare them.
 *
 * In: bytes of an untrusted file, and the offsets that a walk found. Out: whether both agree.
 * Numbers of the file are used for nothing but the comparison. */
#include "containers/list/containers_foreign.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "containers/containers_tar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOM "containers"
enum { INDEX_MAX_NBYTES = 256 << 20 };

struct text {
    const char *at, *end;
    uint64_t line;
};

static bool differs(const char *path, struct pst_error *notice, const char *what, uint64_t theirs,
                    uint64_t ours)
{
    psti_fail_at(notice, PST_ERROR_CORRUPT, ROOM, path, -1,
                 "the index of others is not of this tar, or stale: %s %llu in the index, %llu in "
                 "the tar; the tar counts",
                 what, (unsigned long long)theirs, (unsigned long long)ours);
    return false;
}

/* Fills in a notice that one number of the index differs. what: "begins at byte" or another verb
 * for the sample with the number `sample`. */
static bool sample_differs(const char *path, struct pst_error *notice, uint64_t sample,
                           const char *what, uint64_t theirs, uint64_t ours)
{
    char text[64];
    snprintf(text, sizeof text, "sample %llu %s", (unsigned long long)sample, what);
    return differs(path, notice, text, theirs, ours);
}

static bool is_no_index(const char *path, struct pst_error *notice, uint64_t line)
{
    psti_fail_at(notice, PST_ERROR_CORRUPT, ROOM, path, -1,
                 "line %llu is not what wds2idx writes; the index is not used",
                 (unsigned long long)line);
    return false;
}

static uint64_t read_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

/* Compares an index of Energon: one offset for each sample, and the end of the last one. */
static bool fits_offsets(const char *path, const uint8_t *bytes, size_t nbytes,
                         const uint64_t *offsets, uint64_t n, struct pst_error *notice)
{
    if (nbytes % 8 != 0 || nbytes == 0) {
        psti_fail_at(notice, PST_ERROR_CORRUPT, ROOM, path, -1,
                     "%zu bytes are no index of Energon; the index is not used", nbytes);
        return false;
    }
    uint64_t n_theirs = nbytes / 8 - 1;
    if (n_theirs != n)
        return differs(path, notice, "there are so many samples:", n_theirs, n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t offset = read_u64(bytes + 8 * i);
        if (offset != offsets[i])
            return sample_differs(path, notice, i, "begins at byte", offset, offsets[i]);
    }
    uint64_t last = read_u64(bytes + 8 * n);
    return n == 0 || last > offsets[n - 1] ||
           sample_differs(path, notice, n - 1, "ends behind byte", last, offsets[n - 1]);
}

/* Takes the next word of a line. */
static bool take_word(struct text *text, const char **word, size_t *nbytes)
{
    while (text->at < text->end && *text->at == ' ')
        text->at++;
    *word = text->at;
    while (text->at < text->end && *text->at != ' ' && *text->at != '\n')
        text->at++;
    *nbytes = (size_t)(text->at - *word);
    return *nbytes > 0;
}

static bool take_number(struct text *text, uint64_t *value)
{
    const char *word;
    size_t n;
    if (!take_word(text, &word, &n))
        return false;
    *value = 0;
    for (size_t i = 0; i < n; i++)
        if (word[i] < '0' || word[i] > '9' || __builtin_mul_overflow(*value, (uint64_t)10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(word[i] - '0'), value))
            return false;
    return true;
}

static void end_line(struct text *text)
{
    while (text->at < text->end && *text->at != '\n')
        text->at++;
    text->at += text->at < text->end;
    text->line++;
}

/* Compares an index of wds2idx. The first group of a line has the offset of the content of the
 * sample's first member, which must lie between that sample's first header and the next
 * sample's. */
static bool fits_lines(const char *path, struct text text, const uint64_t *offsets, uint64_t n,
                       struct pst_error *notice)
{
    const char *word;
    size_t n_word;
    uint64_t n_theirs, offset;
    if (!take_word(&text, &word, &n_word) || !take_number(&text, &n_theirs))
        return is_no_index(path, notice, text.line);
    end_line(&text);
    if (n_theirs != n)
        return differs(path, notice, "there are so many samples:", n_theirs, n);
    for (uint64_t i = 0; i < n; i++) {
        if (!take_word(&text, &word, &n_word) || !take_number(&text, &offset))
            return is_no_index(path, notice, text.line);
        end_line(&text);
        bool is_behind = offset > offsets[i] && offset - offsets[i] >= PSTI_TAR_BLOCK;
        if (!is_behind || (i + 1 < n && offset > offsets[i + 1]))
            return sample_differs(path, notice, i, "begins near byte", offset, offsets[i]);
    }
    return text.at == text.end || is_no_index(path, notice, text.line);
}

bool psti_containers_foreign_fits(const char *path, const void *bytes, size_t nbytes,
                                  const uint64_t *offsets, uint64_t n, struct pst_error *notice)
{
    struct text text = {bytes, (const char *)bytes + nbytes, 1};
    return nbytes >= 3 && memcmp(bytes, "v1.", 3) == 0
               ? fits_lines(path, text, offsets, n, notice)
               : fits_offsets(path, bytes, nbytes, offsets, n, notice);
}

bool psti_containers_foreign_check(const char *path, const uint64_t *offsets, uint64_t n,
                                   struct pst_error *notice)
{
    struct stat st;
    int fd;
    bool fits = false;
    if (psti_open_data(path, ROOM, "the index of others", &fd, &st, notice) != PST_OK)
        return false;
    char *bytes = NULL;
    size_t nbytes = (size_t)st.st_size;
    if (st.st_size > INDEX_MAX_NBYTES) {
        psti_fail_at(notice, PST_ERROR_LIMIT, ROOM, path, -1,
                     "the index of others has %zu bytes; from %d on it is not read", nbytes,
                     INDEX_MAX_NBYTES);
        goto out;
    }
    bytes = psti_alloc(nbytes + 1);
    ssize_t n_read = bytes == NULL ? 0 : psti_read_at(fd, bytes, nbytes, 0);
    if (bytes == NULL)
        psti_fail_at(notice, PST_ERROR_MEMORY, ROOM, path, -1, "out of memory for %zu bytes",
                     nbytes);
    else if (n_read < 0)
        psti_fail_os(notice, errno, ROOM, path, -1, "cannot read the index of others");
    else
        fits = psti_containers_foreign_fits(path, bytes, (size_t)n_read, offsets, n, notice);
out:
    psti_free(bytes);
    close(fd);
    return fits;
}
