/* format_lock.h - the text of a lock file: which process is making an index, and its progress
 * (docs/internals/saved-indexes.md).
 *
 * Pure functions, like those of format_dataset.h. The text consists of lines "name: value", so
 * people can read it. Parsers trust nothing in it. */
#ifndef PST_FORMAT_FORMAT_LOCK_H
#define PST_FORMAT_FORMAT_LOCK_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PSTI_LOCK_NBYTES = 512,  /* bytes of each lock file; spaces follow the lines */
    PSTI_LOCK_HOST_CAP = 65, /* Linux's HOST_NAME_MAX is 64 */
    PSTI_LOCK_BOOT_CAP = 37, /* a UUID as text, with its NUL */
};

struct psti_lock_note {
    char host[PSTI_LOCK_HOST_CAP]; /* letters, digits and .-_ ; other characters become "?" */
    char boot[PSTI_LOCK_BOOT_CAP]; /* identifies the running kernel; "": not known */
    uint64_t space;                /* identifies the namespace of process numbers; 0: not known */
    uint64_t pid;
    uint64_t start; /* start of the process, in ticks since the kernel's start; 0: not known */
    uint64_t token; /* a number that differs between any two locks */
    uint64_t n_done, n_total;
};

void psti_format_print_lock(const struct psti_lock_note *note, char out[PSTI_LOCK_NBYTES]);
/* Parses a lock file. Returns false if the bytes are no such text; *note is then all zero. */
bool psti_format_parse_lock(const char *bytes, size_t nbytes, struct psti_lock_note *note);

#endif
