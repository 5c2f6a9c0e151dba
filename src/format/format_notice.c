/* format_notice.c - collects, prints and parses notices.
 *
 * In: untrusted names and paths of other programs' files. Out: texts in UTF-8 without control
 * characters. */
#include "format/format_notice.h"

#include "base/bits.h"
#include "format/format_dataset.h"

#include <stdio.h>
#include <string.h>

/* Offsets of the parts of a printed notice. */
enum { AT_KIND = 0, AT_COUNT = 8, AT_NAME = 16, AT_WHY = 80, AT_FIRST = 240 };
/* Bytes for an escaped text. Each byte may become four. */
enum { ESCAPED_CAP = 4096 };

const char *pst_notice_kind_name(enum pst_notice_kind kind)
{
    static const char *const names[] = {
        [PST_NOTICE_LEFT_OUT] = "left_out",
        [PST_NOTICE_UNREADABLE] = "unreadable",
        [PST_NOTICE_NO_IMAGE] = "mask_without_image",
        [PST_NOTICE_NO_MASK] = "image_without_mask",
        [PST_NOTICE_TEXT_IS_PATH] = "text_names_files",
        [PST_NOTICE_MASK_IN_COLORS] = "mask_in_colours",
        [PST_NOTICE_COLUMN] = "column_left_out",
        [PST_NOTICE_ROWS] = "rows_left_out",
        [PST_NOTICE_LABELS] = "labels_hidden",
    };
    return kind >= PST_NOTICE_LEFT_OUT && kind <= PST_NOTICE_LABELS ? names[kind] : "none";
}

void psti_format_escape(const char *text, size_t nbytes, char *out, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; i < nbytes && used + 5 < capacity;) {
        uint32_t code;
        unsigned char c = (unsigned char)text[i];
        size_t n = psti_format_utf8_sequence(text + i, nbytes - i, &code);
        if (n == 0 || c < 0x20 || c == 0x7F) {
            used += (size_t)snprintf(out + used, capacity - used, "\\x%02X", c);
            i++;
        } else {
            memcpy(out + used, text + i, n);
            used += n;
            i += n;
        }
    }
    out[used] = '\0';
}

static bool is_within_character(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* Escapes a text and copies as much of its beginning as fits. */
static void copy_begin(const char *text, char *out, size_t capacity)
{
    char shown[ESCAPED_CAP];
    psti_format_escape(text, strlen(text), shown, sizeof shown);
    size_t n = strlen(shown);
    if (n >= capacity)
        for (n = capacity - 1; n > 0 && is_within_character(shown[n]);)
            n--;
    memcpy(out, shown, n);
    out[n] = '\0';
}

/* Escapes a text and copies as much of its end as fits. */
static void copy_end(const char *text, char *out, size_t capacity)
{
    char shown[ESCAPED_CAP];
    size_t nbytes = strlen(text), most = sizeof shown / 4 - 8;
    const char *from = nbytes > most ? text + (nbytes - most) : text;
    while (from > text && is_within_character(*from))
        from++;
    psti_format_escape(from, strlen(from), shown, sizeof shown);
    size_t n = strlen(shown) + 1;
    const char *kept = n <= capacity ? shown : shown + (n - capacity);
    while (kept > shown && is_within_character(*kept))
        kept++;
    memcpy(out, kept, strlen(kept) + 1);
}

static struct pst_notice *find(struct psti_notices *notices, enum pst_notice_kind kind,
                               const char *name)
{
    for (uint32_t i = 0; i < notices->n; i++)
        if (notices->list[i].kind == kind && strcmp(notices->list[i].name, name) == 0)
            return &notices->list[i];
    return NULL;
}

void psti_format_notices_add(struct psti_notices *notices, enum pst_notice_kind kind,
                             const char *name, const char *why, uint64_t n, const char *first)
{
    char shown[sizeof notices->list->name];
    copy_begin(name, shown, sizeof shown);
    struct pst_notice *notice = find(notices, kind, shown);
    if (notice == NULL && notices->n == PSTI_NOTICES_MAX)
        notice = &notices->list[PSTI_NOTICES_MAX - 1];
    if (notice == NULL) {
        notice = &notices->list[notices->n++];
        bool is_last = notices->n == PSTI_NOTICES_MAX;
        *notice = (struct pst_notice){.kind = is_last ? PST_NOTICE_LEFT_OUT : kind};
        snprintf(notice->name, sizeof notice->name, "%s", is_last ? "others" : shown);
        copy_begin(is_last || why == NULL ? "" : why, notice->why, sizeof notice->why);
        copy_end(first, notice->first, sizeof notice->first);
    }
    notice->count += n;
}

void psti_format_notices_remove(struct psti_notices *notices, enum pst_notice_kind kind,
                                const char *name)
{
    char shown[sizeof notices->list->name];
    copy_begin(name, shown, sizeof shown);
    struct pst_notice *notice = find(notices, kind, shown);
    if (notice == NULL || notices->n == PSTI_NOTICES_MAX)
        return;
    size_t i = (size_t)(notice - notices->list);
    notices->n--;
    memmove(notice, notice + 1, (notices->n - i) * sizeof *notice);
}

void psti_format_print_notice(const struct pst_notice *notice, uint8_t out[PSTI_NOTICE_NBYTES])
{
    memset(out, 0, PSTI_NOTICE_NBYTES);
    psti_store_u32(out + AT_KIND, (uint32_t)notice->kind);
    psti_store_u64(out + AT_COUNT, notice->count);
    memcpy(out + AT_NAME, notice->name, strlen(notice->name));
    memcpy(out + AT_WHY, notice->why, strlen(notice->why));
    memcpy(out + AT_FIRST, notice->first, strlen(notice->first));
}

/* Copies a text. Returns false if it has no NUL within its bytes, or has bytes that cannot be
 * shown. */
static bool parse_text(const uint8_t *bytes, char *out, size_t capacity)
{
    const uint8_t *end = memchr(bytes, 0, capacity);
    size_t n = end == NULL ? 0 : (size_t)(end - bytes);
    if (end == NULL || !psti_format_is_utf8((const char *)bytes, n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (bytes[i] < 0x20 || bytes[i] == 0x7F)
            return false;
    memcpy(out, bytes, n + 1);
    return true;
}

bool psti_format_parse_notice(const uint8_t bytes[PSTI_NOTICE_NBYTES], struct pst_notice *notice)
{
    uint32_t kind = psti_load_u32(bytes + AT_KIND);
    *notice = (struct pst_notice){.count = psti_load_u64(bytes + AT_COUNT)};
    if (kind < PST_NOTICE_LEFT_OUT || kind > PST_NOTICE_LABELS)
        return false;
    notice->kind = (enum pst_notice_kind)kind;
    return parse_text(bytes + AT_NAME, notice->name, sizeof notice->name) &&
           parse_text(bytes + AT_WHY, notice->why, sizeof notice->why) &&
           parse_text(bytes + AT_FIRST, notice->first, sizeof notice->first);
}
