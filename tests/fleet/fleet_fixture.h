/* fleet_fixture.h - memcached servers of a test on Unix sockets, and a server that lies. A failure
 * in a helper fails the test. */
#ifndef PST_TESTS_FLEET_FIXTURE_H
#define PST_TESTS_FLEET_FIXTURE_H

#include "test.h"

#include <penstock/fleet.h>

#include <sys/types.h>

/* Returns true if memcached is installed; otherwise prints why the test is skipped. */
bool fleet_is_here(void);

/* A server process. */
struct server {
    pid_t pid;
    char path[128]; /* path of its socket, or 127.0.0.1 and its port */
};

/* Starts `memcached -M` at that socket, or, if the path is a number, at that port of 127.0.0.1,
 * with `-m megabytes` and further arguments up to a NULL. Waits until it answers. */
void start_server(struct server *server, const char *path, unsigned megabytes, ...);
/* Sends a signal to the server, if it runs. */
void signal_server(const struct server *server, int signal);
/* Returns a port that is unused now. */
unsigned free_port(void);
/* Ends the server with that signal and waits for it. The socket is removed. */
void end_server(struct server *server, int signal);

/* Returns a list of n servers' sockets for pst_fleet_options.servers. */
const char *list_of(const struct server *servers, int n, char list[1024]);
pst_fleet *open_fleet(const char *servers, double timeout_seconds, uint64_t max_item_nbytes);
struct pst_fleet_stats fleet_use(pst_fleet *fleet);
/* Waits until that many servers answer. Fails after 60 s. */
void await_servers(pst_fleet *fleet, uint32_t n_up);

/* How a lying server answers `mg`. */
enum lie {
    LIE_NONE,
    LIE_OTHER_KEY,           /* the right value under another key */
    LIE_OTHER_VALUE,         /* the value that was added before this one */
    LIE_OTHER_PART,          /* the value of another part of the item, if there is one */
    LIE_FLIPPED,             /* the value with one wrong bit */
    LIE_SHORT,               /* a truncated value, with its new length */
    LIE_LONG,                /* the value with bytes appended, with its new length */
    LIE_CUT,                 /* a truncated value, then the connection is closed */
    LIE_LESS,                /* a length smaller than the value that follows */
    LIE_HUGE,                /* a length larger than any item's */
    LIE_NO_END,              /* wrong bytes where the value should end */
    LIE_WRONG_NUMBER,        /* an answer to another request */
    LIE_NO_NUMBER,           /* an answer without the request's number */
    LIE_ODD_FLAG,            /* a flag that was not requested */
    LIE_EXTRA_MISS,          /* a miss, followed by the value */
    LIE_GARBAGE,             /* bytes that are no answer */
    LIE_OTHER_WORDS,         /* an answer of the text protocol */
    LIE_ENDLESS_LINE,        /* a line without an end */
    LIE_DRIP,                /* the answer byte by byte, too slowly */
    LIE_LATE,                /* the answer after the deadline */
    LIE_SILENCE,             /* no answer */
    N_SURE_LIES,             /* the lies above never give a hit */
    LIE_TWICE = N_SURE_LIES, /* the answer twice */
    LIE_STALE,               /* the line of the previous answer, and the answer */
    N_LIES,
    LIE_CUT_AT = N_LIES, /* the first bytes of the answer: see set_cut */
    LIE_SLOW,            /* the answer after a quarter of a second */
    LIE_FORGED           /* a valid value with other bytes for the item: no client can detect it */
};
struct liar;
struct liar *start_liar(const char *path);
void set_lie(struct liar *liar, enum lie lie);
/* Makes LIE_CUT_AT send that many bytes, then close the connection. */
void set_cut(struct liar *liar, unsigned nbytes);
void end_liar(struct liar *liar);

#endif
