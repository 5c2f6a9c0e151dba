/* fleet_ask.h - offers items of an invented data set to a fleet, requests them, and compares their
 * bytes. A failure in a helper fails the test. */
#ifndef PST_TESTS_FLEET_ASK_H
#define PST_TESTS_FLEET_ASK_H

#include "test.h"

#include "fleet/fleet.h"

#include <stdatomic.h>

enum { N = 200, MIB = 1 << 20 };

/* Makes a temporary directory for the program. */
void make_own_directory(void);
bool remove_own_directory(void);
/* Returns the path of a file in that directory. The last 16 paths stay valid. */
const char *at(const char *name);
void write_text(const char *path, const char *text);

extern const struct psti_cache_shape shape; /* N samples of two items */
struct psti_fleet_set *open_set(pst_fleet *fleet, const struct psti_cache_shape *of);
/* Returns the length of a sample's item. */
uint64_t length_of(uint64_t sample);
extern atomic_uint n_outcomes[PSTI_FLEET_LOST + 1];
enum psti_fleet_taken offer(struct psti_fleet_set *set, uint64_t sample, uint64_t nbytes,
                            uint8_t form);
/* Waits until all offers have ended. */
void settle(struct psti_fleet_set *set);
/* Requests n samples from `first` on, whose items have `nbytes` bytes (0: length_of). Counts the
 * answers, and compares the bytes of hits. */
void ask(struct psti_fleet_set *set, uint64_t first, uint32_t n, uint64_t nbytes, uint8_t form,
         unsigned answers[3]);
/* Requests samples 0 to n - 1 until all get that answer. */
void ask_until(struct psti_fleet_set *set, uint32_t n, enum psti_fleet_answer answer);

#endif
