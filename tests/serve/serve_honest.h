/* serve_honest.h - two loaders that use a service beside somebody's faults: one has the host cache,
 * the other shares preparation. Both must give a lone loader's batches, whatever happens. A failure
 * here fails the test. */
#ifndef PST_TESTS_SERVE_HONEST_H
#define PST_TESTS_SERVE_HONEST_H

#include "loader/loader_fixture.h"
#include "serve/serve_fixture.h"

enum { SERVE_HONEST_BATCH = 8, SERVE_HONEST_BATCHES_MAX = 128 };

struct serve_honest {
    pst_dataset *dataset;
    struct augmented kept;
    uint64_t wanted[2][SERVE_HONEST_BATCHES_MAX]; /* [cached, shared]: batches of epoch 0 */
    size_t n_batches;
    pst_cache *cache;
    pst_loader *cached, *shared;
};

/* Makes a data set of n samples, and finds out what their batches are. */
void serve_honest_open(struct serve_honest *honest, uint32_t n);
void serve_honest_close(struct serve_honest *honest);
/* Opens both loaders with the service of `fixture`, which runs. */
void serve_honest_join(struct serve_honest *honest);
void serve_honest_leave(struct serve_honest *honest);
/* Runs epoch 0 of both, batch by batch. `act` (may be NULL) is called before each batch i. */
void serve_honest_run(struct serve_honest *honest, void (*act)(void *ctx, size_t i), void *ctx);

#endif
