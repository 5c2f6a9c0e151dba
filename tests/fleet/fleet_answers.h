/* fleet_answers.h - a client that has requested a fixed set of items from a server, and receives
 * any bytes as the answer. For the fuzz target and for tests; it aborts if the client behaves
 * wrongly. */
#ifndef PST_TESTS_FLEET_ANSWERS_H
#define PST_TESTS_FLEET_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ANSWERS_CAP = 8192, ANSWERS_MAX = 32, ANSWERS_HITS = 4 };

/* Correct answers, one after another. */
struct answers {
    uint8_t bytes[ANSWERS_CAP];
    size_t starts[ANSWERS_MAX + 1]; /* offset of each answer, and the end of the last */
    size_t n;
};
void make_answers(struct answers *answers);
/* Gives the client the bytes, `chunk` at a time (0: all at once), and then closes the connection.
 * Aborts if a request does not end, ends twice, or, with `exact`, is a hit with other bytes than
 * the item's. Returns the number of hits. */
unsigned feed_answers(const uint8_t *bytes, size_t nbytes, size_t chunk, bool exact);
/* Requests an item with more parts than may be in flight, and answers all of those at once. Aborts
 * if the client forgets the other parts. */
void feed_long_item(void);

#endif
