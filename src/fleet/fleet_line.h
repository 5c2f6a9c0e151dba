/* fleet_line.h - lines of a memcached server's answers: the meta protocol, and the text protocol's
 * words for a login and for errors.
 *
 * Pure functions that trust no byte. The protocol is specified in memcached's doc/protocol.txt. */
#ifndef PST_FLEET_FLEET_LINE_H
#define PST_FLEET_FLEET_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PSTI_FLEET_LINE_MAX = 400,  /* bytes of a line with its end; lines for this client have less
                                   than 200 */
    PSTI_FLEET_SIZE_DIGITS = 10 /* digits of a value's length, which is at most 1 GiB */
};

enum psti_fleet_said {
    PSTI_FLEET_SAID_VALUE,   /* VA: a value follows */
    PSTI_FLEET_SAID_MISS,    /* EN: the server has no such item */
    PSTI_FLEET_SAID_DONE,    /* HD: the command was executed */
    PSTI_FLEET_SAID_ABSENT,  /* NF: there is no such item to remove */
    PSTI_FLEET_SAID_PRESENT, /* NS: not stored, because the server has such an item */
    PSTI_FLEET_SAID_STORED,  /* STORED: the login was right */
    PSTI_FLEET_SAID_NO_ROOM, /* SERVER_ERROR: the server is out of memory, or the value is too
                                large */
    PSTI_FLEET_SAID_NONSENSE /* any other answer */
};

/* The contents of one line. `key` lies in the line. */
struct psti_fleet_line {
    enum psti_fleet_said said;
    uint64_t nbytes; /* VALUE: length of the value that follows */
    const char *key; /* NULL: the line names no key */
    size_t key_nbytes;
    bool has_opaque;
    uint64_t opaque;
};

/* Parses a line without its end. The result is NONSENSE if the line has a flag that was not asked
 * for, a flag twice, or an invalid number. */
void psti_fleet_line_read(const char *text, size_t nbytes, struct psti_fleet_line *line);
/* Writes a number in base 10 or 16. Returns the end of the text. printf would take a tenth of a
 * request's time. */
char *psti_fleet_line_number(char *at, uint64_t number, unsigned base);
/* Writes the line, with its end, with which a server starts a value of nbytes bytes after a request
 * with the flags `v k O<opaque>`. Returns the line's length. */
size_t psti_fleet_line_of_value(char *text, uint64_t nbytes, const char *key, size_t key_nbytes,
                                uint64_t opaque);

#endif
