/* fleet_ask.h - items of a made-up data set, offered to a fleet and asked for, whose bytes are
 * compared. A failure here fails the test. */
#ifndef PST_TESTS_FLEET_ASK_H
#define PST_TESTS_FLEET_ASK_H

#include "test.h"

#include "fleet/fleet.h"

#include <stdatomic.h>

enum { N = 200, MIB = 1 << 20 };

/* A directory of the program's own. */
void make_own_directory(void);
bool remove_own_directory(void);
/* The path of a file in it. 16 of them are valid at a time. */
const char *at(const char *name);
void write_text(const char *path, const char *text);

extern const struct psti_cache_shape shape; /* N samples of two items */
struct psti_fleet_set *open_set(pst_fleet *fleet, const struct psti_cache_shape *of);
/* Length of a sample's item. */
uint64_t length_of(uint64_t sample);
extern atomic_uint n_outcomes[PSTI_FLEET_LOST + 1];
enum psti_fleet_taken offer(struct psti_fleet_set *set, uint64_t sample, uint64_t nbytes,
                            uint8_t form);
/* Waits for the ends of all offers. */
void settle(struct psti_fleet_set *set);
/* Asks for n samples from `first` on, whose items have `nbytes` bytes (0: length_of). Counts the
 * answers, and compares the bytes of hits. */
void ask(struct psti_fleet_set *set, uint64_t first, uint32_t n, uint64_t nbytes, uint8_t form,
         unsigned answers[3]);
/* Asks for samples 0 to n - 1 until all have that answer. */
void ask_until(struct psti_fleet_set *set, uint32_t n, enum psti_fleet_answer answer);

#endif
