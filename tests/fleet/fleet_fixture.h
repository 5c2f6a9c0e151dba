/* fleet_fixture.h - memcached servers of a test's own on Unix sockets, and a server that lies. A
 * failure here fails the test. */
#ifndef PST_TESTS_FLEET_FIXTURE_H
#define PST_TESTS_FLEET_FIXTURE_H

#include "test.h"

#include <penstock/fleet.h>

#include <sys/types.h>

/* True if memcached is here; else says on stdout why the test is skipped. */
bool fleet_is_here(void);

/* A server process. */
struct server {
    pid_t pid;
    char path[128]; /* of its socket, or 127.0.0.1 and its port */
};

/* Starts `memcached -M` at that socket, or at that port of 127.0.0.1 if it is a number, with `-m
 * megabytes`, and more arguments, up to a NULL. Waits until it answers. */
void start_server(struct server *server, const char *path, unsigned megabytes, ...);
/* Sends a signal to it, if it runs. */
void signal_server(const struct server *server, int signal);
/* A port that nobody uses now. */
unsigned free_port(void);
/* Ends it by that signal and waits for it. The socket is removed. */
void end_server(struct server *server, int signal);

/* A list of n servers' sockets for pst_fleet_options.servers. */
const char *list_of(const struct server *servers, int n, char list[1024]);
pst_fleet *open_fleet(const char *servers, double timeout_seconds, uint64_t max_item_nbytes);
struct pst_fleet_stats fleet_use(pst_fleet *fleet);
/* Waits until so many servers answer; fails after 60 s. */
void await_servers(pst_fleet *fleet, uint32_t n_up);

/* How a lying server answers `mg`. */
enum lie {
    LIE_NONE,
    LIE_OTHER_KEY,           /* the right value under another key */
    LIE_OTHER_VALUE,         /* the value that was added before it */
    LIE_OTHER_PART,          /* the value of another part of the item, if it has another */
    LIE_FLIPPED,             /* one bit of the value is wrong */
    LIE_SHORT,               /* a value cut short, with the length that it has then */
    LIE_LONG,                /* bytes after the value, with the length that it has then */
    LIE_CUT,                 /* a value cut short, and the connection closed */
    LIE_LESS,                /* the length is less than the bytes that come */
    LIE_HUGE,                /* the length is more than anything has */
    LIE_NO_END,              /* other bytes where the value's end should be */
    LIE_WRONG_NUMBER,        /* the answer to another request */
    LIE_NO_NUMBER,           /* it does not say to which */
    LIE_ODD_FLAG,            /* a flag that was not asked for */
    LIE_EXTRA_MISS,          /* a miss, and the value all the same */
    LIE_GARBAGE,             /* bytes that are no answer */
    LIE_OTHER_WORDS,         /* the text protocol's answer */
    LIE_ENDLESS_LINE,        /* a line that never ends */
    LIE_DRIP,                /* the answer, byte by byte, too slowly */
    LIE_LATE,                /* the answer, after the deadline */
    LIE_SILENCE,             /* no answer */
    N_SURE_LIES,             /* with those above no item is a hit */
    LIE_TWICE = N_SURE_LIES, /* the answer, and again */
    LIE_STALE,               /* the line of the answer before, and the answer */
    N_LIES,
    LIE_CUT_AT = N_LIES, /* the first bytes of the answer: set_cut */
    LIE_SLOW,            /* the answer, after a quarter of a second */
    LIE_FORGED           /* a value that is right but for the item's bytes: no client can tell */
};
struct liar;
struct liar *start_liar(const char *path);
void set_lie(struct liar *liar, enum lie lie);
/* LIE_CUT_AT with so many bytes; then the connection is closed. */
void set_cut(struct liar *liar, unsigned nbytes);
void end_liar(struct liar *liar);

#endif
