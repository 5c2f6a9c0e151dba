/* loader_fixture.h - what tests of the loader open and run: made data sets, a chain with every kind
 * of randomness, epochs as hashes of their batches. Failures are failures of the test. */
#ifndef PST_TESTS_LOADER_FIXTURE_H
#define PST_TESTS_LOADER_FIXTURE_H

#include "loader/make_data.h"

/* A data set made at directory/name, open. */
pst_dataset *open_made(const char *directory, const char *name, const struct make_options *made);
/* The same of a plain folder: see make_folder(). */
pst_dataset *open_made_folder(const char *directory, const char *name, uint32_t n_classes,
                              uint32_t n_each);

/* What options of a loader point to. */
struct augmented {
    struct pst_op chain[4], mask_chain[2];
    struct pst_field_output outputs[2];
};
/* Crop, flip, jitter and normalise of "image" as CHW, the same crop and flip of "mask"; shuffled
 * batches of 4 by 2 workers. `kept` outlives the loader's opening. */
struct pst_loader_options augmented_options(struct augmented *kept, uint32_t height,
                                            uint32_t width);

pst_loader *open_loader(pst_dataset *dataset, const struct pst_loader_options *options);
struct pst_loader_stats stats_of(const pst_loader *loader);

/* Hashes of the epoch's remaining batches, each shown to `look` first where there is one; `n` says
 * how many. Returns PST_END, or why it came to an end before. */
enum pst_status drain_until(pst_loader *loader, void (*look)(pst_loader *, const pst_batch *),
                            uint64_t *hashes, size_t *n, struct pst_error *err);
/* The same where nothing but PST_END will do; returns how many. */
size_t drain_epoch(pst_loader *loader, void (*look)(pst_loader *, const pst_batch *),
                   uint64_t *hashes);

#endif
