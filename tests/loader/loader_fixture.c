/* loader_fixture.c - implements loader_fixture.h. */
#include "loader/loader_fixture.h"
#include "test.h"

#include <stdio.h>

char directory[64];

int directory_set_up(void **state)
{
    (void)state;
    make_directory(directory);
    return 0;
}

int directory_close(pst_dataset **const *sets, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pst_dataset_close(sets[i]);
    remove_tree(directory);
    return 0;
}

int directory_tear_down(void **state)
{
    (void)state;
    return directory_close(NULL, 0);
}

static pst_dataset *open_path(const char *path)
{
    struct pst_error err;
    pst_dataset *dataset = NULL;
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    return dataset;
}

pst_dataset *open_made(const char *parent, const char *name, const struct make_options *made)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", parent, name);
    make_dataset(path, made);
    return open_path(path);
}

pst_dataset *open_made_folder(const char *parent, const char *name, uint32_t n_classes,
                              uint32_t n_each)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", parent, name);
    make_folder(path, n_classes, n_each);
    return open_path(path);
}

pst_dataset *open_there(const char *name)
{
    char path[180];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return open_path(path);
}

struct pst_loader_options augmented_options(struct augmented *kept, uint32_t height, uint32_t width)
{
    struct pst_op *chain = kept->chain;
    pst_op_init(&chain[0], sizeof chain[0], PST_OP_RANDOM_RESIZED_CROP);
    chain[0].height = height;
    chain[0].width = width;
    pst_op_init(&chain[1], sizeof chain[1], PST_OP_HORIZONTAL_FLIP);
    pst_op_init(&chain[2], sizeof chain[2], PST_OP_COLOR_JITTER);
    chain[2].brightness[0] = 0.6f;
    chain[2].brightness[1] = 1.4f;
    pst_op_init(&chain[3], sizeof chain[3], PST_OP_NORMALIZE);
    for (int c = 0; c < 4; c++) {
        chain[3].mean[c] = 0.45f;
        chain[3].std[c] = 0.22f;
    }
    kept->mask_chain[0] = chain[0];
    kept->mask_chain[0].interpolation = PST_INTERPOLATION_NEAREST;
    kept->mask_chain[1] = chain[1];
    kept->outputs[0] = (struct pst_field_output){
        .name = "image", .ops = chain, .n_ops = 4, .layout = PST_LAYOUT_CHW};
    kept->outputs[1] =
        (struct pst_field_output){.name = "mask", .ops = kept->mask_chain, .n_ops = 2};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 4,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 17,
                                       .num_workers = 2,
                                       .fields = kept->outputs,
                                       .n_fields = 2,
                                       TEST_ELEMENT_SIZES};
}

pst_loader *open_loader(pst_dataset *dataset, const struct pst_loader_options *options)
{
    struct pst_error err;
    pst_loader *loader = NULL;
    assert_ok(pst_loader_open(dataset, options, &loader, &err));
    return loader;
}

struct pst_loader_stats stats_of(const pst_loader *loader)
{
    struct pst_loader_stats stats = {0};
    pst_loader_stats(loader, &stats, sizeof stats);
    return stats;
}

enum pst_status drain_until(pst_loader *loader, void (*look)(pst_loader *, const pst_batch *),
                            uint64_t *hashes, size_t *n, struct pst_error *err)
{
    pst_batch *batch;
    enum pst_status status;
    *n = 0;
    while ((status = pst_loader_next(loader, &batch, err)) == PST_OK) {
        if (look)
            look(loader, batch);
        hashes[(*n)++] = hash_batch(batch);
        pst_batch_release(batch);
    }
    return status;
}

size_t drain_epoch(pst_loader *loader, void (*look)(pst_loader *, const pst_batch *),
                   uint64_t *hashes)
{
    struct pst_error err;
    size_t n;
    enum pst_status status = drain_until(loader, look, hashes, &n, &err);
    if (status != PST_END)
        assert_ok(status);
    return n;
}

void begin_epoch(pst_loader *loader, uint64_t epoch)
{
    struct pst_error err;
    struct pst_loader_state state;
    pst_loader_state(loader, &state);
    state.epoch = epoch;
    state.position = 0;
    assert_ok(pst_loader_resume(loader, &state, &err));
}

size_t run_epoch(pst_loader *loader, uint64_t epoch, uint64_t *hashes)
{
    begin_epoch(loader, epoch);
    return drain_epoch(loader, NULL, hashes);
}

size_t drain_alone(pst_dataset *dataset, struct pst_loader_options options, uint64_t epoch,
                   uint64_t *hashes)
{
    options.share = NULL;
    pst_loader *loader = open_loader(dataset, &options);
    size_t n = run_epoch(loader, epoch, hashes);
    pst_loader_close(&loader);
    return n;
}
