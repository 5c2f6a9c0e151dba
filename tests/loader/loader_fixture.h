/* loader_fixture.h - shared by tests of the loader: made data sets, a chain with every kind of
 * randomness, epochs as hashes of their batches. A failure here fails the test. */
#ifndef PST_TESTS_LOADER_FIXTURE_H
#define PST_TESTS_LOADER_FIXTURE_H

#include "loader/make_data.h"

/* The folder of this program's data sets. */
extern char directory[64];
/* Makes the folder, and removes it: for cmocka. */
int directory_set_up(void **state);
int directory_tear_down(void **state);
/* Closes data sets and removes the folder. Returns 0. */
int directory_close(pst_dataset **const *sets, size_t n);
/* Defines tear_down, which closes data sets (&name, ...) and removes the folder. */
#define TEAR_DOWN(...)                                                                             \
    static int tear_down(void **state)                                                             \
    {                                                                                              \
        pst_dataset **const sets[] = {__VA_ARGS__};                                                \
        (void)state;                                                                               \
        return directory_close(sets, sizeof sets / sizeof *sets);                                  \
    }

/* Makes a data set at parent/name and opens it. */
pst_dataset *open_made(const char *parent, const char *name, const struct make_options *made);
/* Makes a plain folder and opens it: see make_folder(). */
pst_dataset *open_made_folder(const char *parent, const char *name, uint32_t n_classes,
                              uint32_t n_each);

/* Opens directory/name. */
pst_dataset *open_there(const char *name);

/* Storage of the arrays that options point to. */
struct augmented {
    struct pst_op chain[4], mask_chain[2];
    struct pst_field_output outputs[2];
};
/* Options for crop, flip, jitter and normalise of "image" as CHW, with the same crop and flip of
 * "mask"; shuffled batches of 4 by 2 workers. `kept` outlives the loader's opening. */
struct pst_loader_options augmented_options(struct augmented *kept, uint32_t height,
                                            uint32_t width);

pst_loader *open_loader(pst_dataset *dataset, const struct pst_loader_options *options);
/* Begins an epoch as a resume does: no batch of it was prepared while the one before it ended, so
 * counts at its end are exact. */
void begin_epoch(pst_loader *loader, uint64_t epoch);
struct pst_loader_stats stats_of(const pst_loader *loader);

/* Hashes the epoch's remaining batches. `look` (may be NULL) sees each first. `n` is set to their
 * number. Returns PST_END, or the error that ended the epoch. */
enum pst_status drain_until(pst_loader *loader, void (*look)(pst_loader *, const pst_batch *),
                            uint64_t *hashes, size_t *n, struct pst_error *err);
/* The same for an epoch that must end with PST_END. Returns the number of batches. */
size_t drain_epoch(pst_loader *loader, void (*look)(pst_loader *, const pst_batch *),
                   uint64_t *hashes);
/* Begins the epoch, which must end with PST_END, and hashes its batches. Returns their number. */
size_t run_epoch(pst_loader *loader, uint64_t epoch, uint64_t *hashes);
/* The same of a new loader with these options that shares with nobody. */
size_t drain_alone(pst_dataset *dataset, struct pst_loader_options options, uint64_t epoch,
                   uint64_t *hashes);

#endif
