/* format_lock.h - the text of a lock file: who makes an index, and how far it is
 * (docs/internals/saved-indexes.md).
 *
 * Pure functions, as those of format_dataset.h. The text is for people, too: lines "name: value".
 * Nothing in a text that was read is trusted. */
#ifndef PST_FORMAT_FORMAT_LOCK_H
#define PST_FORMAT_FORMAT_LOCK_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PSTI_LOCK_NBYTES = 512,  /* of each lock file: spaces follow the lines */
    PSTI_LOCK_HOST_CAP = 65, /* Linux: HOST_NAME_MAX is 64 */
    PSTI_LOCK_BOOT_CAP = 37, /* a UUID in text */
};

struct psti_lock_note {
    char host[PSTI_LOCK_HOST_CAP]; /* letters, digits and .-_ ; others become "?" */
    char boot[PSTI_LOCK_BOOT_CAP]; /* names the running kernel; "": not known */
    uint64_t space;                /* names the space of process numbers; 0: not known */
    uint64_t pid;
    uint64_t start; /* when the process started, in ticks since the kernel did; 0: not known */
    uint64_t token; /* differs between two locks */
    uint64_t n_done, n_total;
};

void psti_format_print_lock(const struct psti_lock_note *note, char out[PSTI_LOCK_NBYTES]);
/* False: the bytes are no such text. *note is all zero then. */
bool psti_format_parse_lock(const char *bytes, size_t nbytes, struct psti_lock_note *note);

#endif
