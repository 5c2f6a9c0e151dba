/* loader_fixture.h - helpers that the loader's tests share: they make data sets, build a chain of
 * operations with every kind of randomness, and hash the batches of epochs. A failure in a helper
 * fails the test. */
#ifndef PST_TESTS_LOADER_FIXTURE_H
#define PST_TESTS_LOADER_FIXTURE_H

#include "loader/make_data.h"

/* The directory that holds the data sets of this test program. */
extern char directory[64];
/* Set-up and tear-down functions for cmocka: the first makes `directory`, the second removes it. */
int directory_set_up(void **state);
int directory_tear_down(void **state);
/* Closes the n data sets and removes `directory`. Returns 0. */
int directory_close(pst_dataset **const *sets, size_t n);
/* Defines a function tear_down that closes the data sets (&name, ...) and removes `directory`. */
#define TEAR_DOWN(...)                                                                             \
    static int tear_down(void **state)                                                             \
    {                                                                                              \
        pst_dataset **const sets[] = {__VA_ARGS__};                                                \
        (void)state;                                                                               \
        return directory_close(sets, sizeof sets / sizeof *sets);                                  \
    }

/* Makes a data set at parent/name and opens it. */
pst_dataset *open_made(const char *parent, const char *name, const struct make_options *made);
/* Makes a plain folder of images with make_folder() and opens it. */
pst_dataset *open_made_folder(const char *parent, const char *name, uint32_t n_classes,
                              uint32_t n_each);

/* Opens directory/name. */
pst_dataset *open_there(const char *name);

/* Holds the arrays that the loader's options point to. */
struct augmented {
    struct pst_op chain[4], mask_chain[2];
    struct pst_field_output outputs[2];
};
/* Returns options for batches of 4 in shuffled order with 2 workers. The field "image" is cropped,
 * flipped, jittered and normalised, as CHW; "mask" gets the same crop and flip. The options point
 * into `kept`, which must live until the loader is open. */
struct pst_loader_options augmented_options(struct augmented *kept, uint32_t height,
                                            uint32_t width);

pst_loader *open_loader(pst_dataset *dataset, const struct pst_loader_options *options);
/* Begins an epoch as a resume does: no batch of this epoch was prepared during the epoch before, so
 * the counts at its end are exact. */
void begin_epoch(pst_loader *loader, uint64_t epoch);
struct pst_loader_stats stats_of(const pst_loader *loader);

/* Hashes the remaining batches of the epoch and sets `n` to their number. `look` (may be NULL) is
 * called with each batch first. Returns PST_END, or the error that ended the epoch. */
enum pst_status drain_until(pst_loader *loader, void (*look)(pst_loader *, const pst_batch *),
                            uint64_t *hashes, size_t *n, struct pst_error *err);
/* Hashes the remaining batches of an epoch, which must end with PST_END. `look` (may be NULL) is
 * called with each batch first. Returns the number of batches. */
size_t drain_epoch(pst_loader *loader, void (*look)(pst_loader *, const pst_batch *),
                   uint64_t *hashes);
/* Begins the epoch and hashes all its batches. It must end with PST_END. Returns their number. */
size_t run_epoch(pst_loader *loader, uint64_t epoch, uint64_t *hashes);
/* Opens a new loader with these options that shares with no other loader, and hashes the batches of
 * one epoch. Returns their number. */
size_t drain_alone(pst_dataset *dataset, struct pst_loader_options options, uint64_t epoch,
                   uint64_t *hashes);

#endif
