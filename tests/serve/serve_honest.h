/* serve_honest.h - two correct loaders that use a service while something else goes wrong: one uses
 * the host cache, the other shares preparation. Both must give the batches of a loader without a
 * service, whatever happens. A failure in a helper fails the test. */
#ifndef PST_TESTS_SERVE_HONEST_H
#define PST_TESTS_SERVE_HONEST_H

#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

enum { SERVE_HONEST_BATCH = 8, SERVE_HONEST_BATCHES_MAX = 128 };

struct serve_honest {
    pst_dataset *dataset;
    struct augmented kept;
    /* [cached, shared]: expected batches of epoch 0 */
    uint64_t wanted[2][SERVE_HONEST_BATCHES_MAX];
    size_t n_batches;
    pst_cache *cache;
    pst_loader *cached, *shared;
};

/* Makes a data set of n samples, and computes the expected batches. */
void serve_honest_open(struct serve_honest *honest, uint32_t n);
void serve_honest_close(struct serve_honest *honest);
/* Opens both loaders with the service of `fixture`, which must be running. */
void serve_honest_join(struct serve_honest *honest);
void serve_honest_leave(struct serve_honest *honest);
/* Runs epoch 0 of both loaders, batch by batch. `act` (may be NULL) is called before each batch
 * i. */
void serve_honest_run(struct serve_honest *honest, void (*act)(void *ctx, size_t i), void *ctx);

#endif
