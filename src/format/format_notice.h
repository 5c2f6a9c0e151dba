/* format_notice.h - notices: what the files of a data set contain that the data set does not show.
 *
 * Cases of the same kind and name share one notice, with a count and the first case, so notices are
 * few. One thread adds them while it examines the files. An index of containers stores them
 * (docs/format-container.md). */
#ifndef PST_FORMAT_FORMAT_NOTICE_H
#define PST_FORMAT_FORMAT_NOTICE_H

#include <penstock/dataset.h>

#include <stdbool.h>

enum { PSTI_NOTICES_MAX = 32, PSTI_NOTICE_NBYTES = 512 };

struct psti_notices {
    uint32_t n;
    struct pst_notice list[PSTI_NOTICES_MAX];
};

/* Copies a text. A byte below 32, or one that is not part of valid UTF-8, becomes "\x" and two hex
 * digits. A text that does not fit is cut between two characters. */
void psti_format_escape(const char *text, size_t nbytes, char *out, size_t capacity);

/* Adds n cases to the notice of that kind and name, or makes a new notice. When the list is full,
 * the last notice counts all others. Texts may hold any bytes but NUL.
 *
 * `why`: the reason; may be NULL. `first`: the first case; of a long text the end is kept. */
void psti_format_notices_add(struct psti_notices *notices, enum pst_notice_kind kind,
                             const char *name, const char *why, uint64_t n, const char *first);
/* Removes a notice. Does nothing if it is not in the list, or if the last notice counts it among
 * the others. */
void psti_format_notices_remove(struct psti_notices *notices, enum pst_notice_kind kind,
                                const char *name);

void psti_format_print_notice(const struct pst_notice *notice, uint8_t out[PSTI_NOTICE_NBYTES]);
/* Parses a notice. Returns false if the bytes are no notice, or if a newer version made it and its
 * kind is unknown. */
bool psti_format_parse_notice(const uint8_t bytes[PSTI_NOTICE_NBYTES], struct pst_notice *notice);

#endif
