/* fleet_ask.c - implements fleet_ask.h: offers items of an invented data set to a fleet and
 * requests them. */
#include "fleet/fleet_ask.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[] = "/tmp/pst-fleet-XXXXXX";

const char *at(const char *name)
{
    static char paths[16][128];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, 128, "%s/%s", directory, name);
    return path;
}

void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

const struct psti_cache_shape shape = {{1, 2, 3}, N, 2, 0, false};

struct psti_fleet_set *open_set(pst_fleet *fleet, const struct psti_cache_shape *of)
{
    struct psti_fleet_set *set = NULL;
    struct pst_error err;
    assert_ok(psti_fleet_set_open(fleet, of, 1, 8 * MIB, &set, &err));
    return set;
}

/* Returns the length of a sample's item. */
uint64_t length_of(uint64_t sample) { return 1 + sample * 97 % 5000; }

static void make(uint64_t sample, uint64_t nbytes, uint8_t *bytes)
{
    for (uint64_t i = 0; i < nbytes; i++)
        bytes[i] = (uint8_t)((sample + 1) * 131 + i * 7 + (i >> 8));
}

atomic_uint n_outcomes[PSTI_FLEET_LOST + 1];

static void note(const struct psti_fleet_offer *offer, enum psti_fleet_outcome outcome)
{
    uint8_t *wanted = malloc(offer->nbytes);
    make(offer->sample, offer->nbytes, wanted);
    assert_true(offer->user == n_outcomes);
    assert_true(!offer->bytes || memcmp(offer->bytes, wanted, offer->nbytes) == 0);
    free(wanted);
    atomic_fetch_add(&n_outcomes[outcome], 1);
}

enum psti_fleet_taken offer(struct psti_fleet_set *set, uint64_t sample, uint64_t nbytes,
                            uint8_t form)
{
    uint8_t *bytes = malloc(nbytes);
    make(sample, nbytes, bytes);
    const struct psti_fleet_offer offered = {.sample = sample,
                                             .i_item = 1,
                                             .stored_nbytes = nbytes,
                                             .bytes = bytes,
                                             .nbytes = nbytes,
                                             .form = form,
                                             .done = note,
                                             .user = n_outcomes};
    enum psti_fleet_taken taken = psti_fleet_offer(set, &offered);
    memset(bytes, 0, nbytes); /* the client has copied the bytes */
    free(bytes);
    return taken;
}

void settle(struct psti_fleet_set *set)
{
    assert_true(psti_fleet_settle(set, psti_clock_ns() + (int64_t)60 * 1000000000));
}

static void one_is_done(struct psti_fleet_get *get)
{
    atomic_fetch_sub((atomic_uint *)get->user, 1);
}

/* Requests items and waits, by turns in this thread and in the server's thread. */
static void ask_and_wait(struct psti_fleet_set *set, struct psti_fleet_get **list, uint32_t n)
{
    static atomic_uint turn;
    atomic_uint n_left = n;
    if (atomic_fetch_add(&turn, 1) % 2) {
        psti_fleet_ask_and_wait(set, list, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        list[i]->done = one_is_done;
        list[i]->user = &n_left;
    }
    psti_fleet_ask(set, list, n);
    while (atomic_load(&n_left) > 0)
        usleep(100);
}

/* Requests n samples from `first` on, whose items have `nbytes` bytes (0: length_of). Counts the
 * answers, and compares the bytes of hits. Returns the longest time. */
void ask(struct psti_fleet_set *set, uint64_t first, uint32_t n, uint64_t nbytes, uint8_t form,
         unsigned answers[3])
{
    struct psti_fleet_get *gets = calloc(n, sizeof *gets), **list = calloc(n, sizeof *list);
    memset(answers, 0, 3 * sizeof *answers);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t length = nbytes ? nbytes : length_of(first + i);
        gets[i] = (struct psti_fleet_get){.sample = first + i,
                                          .i_item = 1,
                                          .nbytes = length + (form ? 10 : 0),
                                          .buffer = malloc(length + 10)};
        list[i] = &gets[i];
    }
    ask_and_wait(set, list, n);
    for (uint32_t i = 0; i < n; i++) {
        answers[gets[i].answer]++;
        if (gets[i].answer == PSTI_FLEET_HIT) {
            uint64_t length = nbytes ? nbytes : length_of(first + i);
            uint8_t *wanted = malloc(length);
            make(first + i, length, wanted);
            assert_int_equal(gets[i].got_nbytes, length);
            assert_int_equal(gets[i].form, form);
            assert_memory_equal(gets[i].buffer, wanted, length);
            free(wanted);
        }
        free(gets[i].buffer);
    }
    free(gets);
    free(list);
}

/* Requests samples 0 to n - 1 until all get that answer. With a short timeout a busy machine may
 * answer late at first. */
void ask_until(struct psti_fleet_set *set, uint32_t n, enum psti_fleet_answer answer)
{
    int64_t end = psti_clock_ns() + (int64_t)60 * 1000000000;
    unsigned answers[3];
    do {
        assert_true(psti_clock_ns() < end);
        psti_fleet_retry(set);
        ask(set, 0, n, 0, 0, answers);
    } while (answers[answer] != n);
}

void make_own_directory(void) { assert_non_null(mkdtemp(directory)); }

bool remove_own_directory(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) == 0;
}
