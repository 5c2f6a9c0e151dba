/* fleet_line.h - the lines by which a memcached server answers: its meta protocol, and the text
 * protocol's words for a login and for errors.
 *
 * Pure functions that trust no byte. The protocol is that of memcached's doc/protocol.txt. */
#ifndef PST_FLEET_FLEET_LINE_H
#define PST_FLEET_FLEET_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PSTI_FLEET_LINE_MAX = 400,  /* bytes of a line with its end; ours have less than 200 */
    PSTI_FLEET_SIZE_DIGITS = 10 /* of a value's length: 1 GiB has as many */
};

enum psti_fleet_said {
    PSTI_FLEET_SAID_VALUE,   /* VA: a value follows */
    PSTI_FLEET_SAID_MISS,    /* EN: there is no such item */
    PSTI_FLEET_SAID_DONE,    /* HD: done as asked */
    PSTI_FLEET_SAID_ABSENT,  /* NF: there is nothing to remove */
    PSTI_FLEET_SAID_PRESENT, /* NS: not stored, because of what is there */
    PSTI_FLEET_SAID_STORED,  /* STORED: the login was right */
    PSTI_FLEET_SAID_NO_ROOM, /* SERVER_ERROR: out of memory, or too large */
    PSTI_FLEET_SAID_NONSENSE /* all else */
};

/* The contents of one line. `key` lies in the line. */
struct psti_fleet_line {
    enum psti_fleet_said said;
    uint64_t nbytes; /* VALUE: of the value */
    const char *key; /* NULL: it names none */
    size_t key_nbytes;
    bool has_opaque;
    uint64_t opaque;
};

/* Reads a line without its end. What has a flag that is not asked for, two of one kind or a number
 * that is none is NONSENSE. */
void psti_fleet_line_read(const char *text, size_t nbytes, struct psti_fleet_line *line);
/* Writes a number to the base 10 or 16. Returns its end. printf would take a tenth of a request's
 * time. */
char *psti_fleet_line_number(char *at, uint64_t number, unsigned base);
/* Writes the line, with its end, by which a server begins a value of nbytes if it was asked by `v k
 * O<opaque>`. Returns its length. */
size_t psti_fleet_line_of_value(char *text, uint64_t nbytes, const char *key, size_t key_nbytes,
                                uint64_t opaque);

#endif
