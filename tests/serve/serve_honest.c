/* serve_honest.c - runs two correct loaders side by side. */
#include "serve/serve_honest.h"

#include <string.h>

static struct pst_loader_options options_of(struct serve_honest *honest, bool shares)
{
    struct pst_loader_options options = augmented_options(&honest->kept, 48, 48);
    options.n_fields = 1;
    options.storage = SERVE_STORAGE;
    options.batch_size = SERVE_HONEST_BATCH;
    options.seed = shares ? 7 : 8;
    return options;
}

void serve_honest_open(struct serve_honest *honest, uint32_t n)
{
    memset(honest, 0, sizeof *honest);
    honest->dataset = open_made(directory, "honest.pst",
                                &(struct make_options){.n_samples = n, .images = MAKE_RAW_SAME});
    assert_true(n <= SERVE_HONEST_BATCH * SERVE_HONEST_BATCHES_MAX);
    for (int i = 0; i < 2; i++)
        honest->n_batches =
            drain_alone(honest->dataset, options_of(honest, i), 0, honest->wanted[i]);
}

void serve_honest_close(struct serve_honest *honest)
{
    serve_honest_leave(honest);
    pst_dataset_close(&honest->dataset);
}

void serve_honest_join(struct serve_honest *honest)
{
    struct pst_loader_options options = options_of(honest, false);
    options.cache = honest->cache = serve_fixture_open_host();
    honest->cached = open_loader(honest->dataset, &options);
    options = options_of(honest, true);
    options.socket = fixture.socket;
    options.share = "honest";
    honest->shared = open_loader(honest->dataset, &options);
    assert_true(stats_of(honest->shared).is_sharing);
}

void serve_honest_leave(struct serve_honest *honest)
{
    pst_loader_close(&honest->cached);
    pst_loader_close(&honest->shared);
    pst_cache_close(&honest->cache);
}

static void check_next(pst_loader *loader, uint64_t wanted)
{
    pst_batch *batch;
    struct pst_error err;
    assert_ok(pst_loader_next(loader, &batch, &err));
    assert_true(hash_batch(batch) == wanted);
    pst_batch_release(batch);
}

void serve_honest_run(struct serve_honest *honest, void (*act)(void *ctx, size_t i), void *ctx)
{
    pst_loader *loaders[2] = {honest->cached, honest->shared};
    pst_batch *batch;
    struct pst_error err;
    for (int k = 0; k < 2; k++)
        assert_ok(pst_loader_begin(loaders[k], 0, &err));
    for (size_t i = 0; i < honest->n_batches; i++) {
        if (act)
            act(ctx, i);
        for (int k = 0; k < 2; k++)
            check_next(loaders[k], honest->wanted[k][i]);
    }
    for (int k = 0; k < 2; k++)
        assert_int_equal(pst_loader_next(loaders[k], &batch, &err), PST_END);
}
