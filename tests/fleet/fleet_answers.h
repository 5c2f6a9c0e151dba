/* fleet_answers.h - a client that has asked a server for a fixed set of items, and gets any bytes
 * as the answer. For the fuzz target and for tests; it aborts where the client does wrong. */
#ifndef PST_TESTS_FLEET_ANSWERS_H
#define PST_TESTS_FLEET_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ANSWERS_CAP = 8192, ANSWERS_MAX = 32, ANSWERS_HITS = 4 };

/* Right answers, one after another. */
struct answers {
    uint8_t bytes[ANSWERS_CAP];
    size_t starts[ANSWERS_MAX + 1]; /* of each, and the end of the last */
    size_t n;
};
void make_answers(struct answers *answers);
/* Gives the client the bytes, `chunk` at a time (0: all at once), and then the end of the
 * connection. Aborts if a request does not end, ends twice, or, where `exact` is set, is a hit with
 * other bytes than the item's. Returns the number of hits. */
unsigned feed_answers(const uint8_t *bytes, size_t nbytes, size_t chunk, bool exact);
/* Gives right answers for an item of more parts than may be in flight, all of those at once. Aborts
 * if the client forgets the others. */
void feed_long_item(void);

#endif
