/* prepare_helper.c - implements prepare_helper.h. */
#include "kernels/prepare_helper.h"

#include "base/bits.h"

void psti_gpu_resize(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);
void psti_gpu_point(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);
void psti_gpu_map(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);
void psti_gpu_filter(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);
void psti_gpu_tones(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);
void psti_gpu_noise(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);

/* Makes the row from the region on the CPU. */
static void run_on_cpu(const struct prepare_batch *batch, struct prepare_row *row)
{
    struct pst_error err;
    struct psti_run *run;
    const struct psti_chain_output *output = &batch->output;
    uint32_t width = row->draw.region_width, height = row->draw.region_height;
    size_t n = (size_t)width * output->channels, element = output->bits / 8u;
    unsigned char *packed = malloc(n * element);
    bool planar = output->layout == PST_LAYOUT_CHW;
    row->nbytes = psti_augment_chain_output_nbytes(batch->chain, &row->draw);
    row->expected = malloc(row->nbytes);
    struct psti_target target = {row->expected,
                                 (size_t)row->draw.out_width *
                                     pst_dtype_nbytes(psti_augment_chain_dtype(batch->chain)) *
                                     (planar ? 1 : output->channels)};
    assert_ok(psti_augment_run_open(&run, &err));
    assert_ok(psti_augment_run_begin(run, batch->chain, &row->draw, &target, &err));
    for (uint32_t y = 0; y < height; y++) {
        for (size_t i = 0; i < n; i++) {
            uint16_t v = row->samples[y * n + i];
            if (element == 1)
                packed[i] = (unsigned char)v;
            else
                psti_store_u16(packed + 2 * i, v);
        }
        assert_int_equal(psti_augment_run_rows(run, packed, n * element, y, 1), PST_OK);
    }
    assert_ok(psti_augment_run_end(run, &err));
    psti_augment_run_close(&run);
    free(packed);
}

/* Stores the region as a picture, as code other than the decoders' would. */
static void put_picture(const struct prepare_batch *batch, struct prepare_row *row)
{
    size_t n = (size_t)row->draw.region_height * row->draw.region_width * batch->output.channels;
    for (size_t i = 0; i < n; i++) {
        if (batch->output.bits == 8)
            row->picture[i] = (unsigned char)row->samples[i];
        else
            psti_store_u16(row->picture + 2 * i, row->samples[i]);
    }
}

static void set_up_row(struct test_random *random, struct prepare_batch *batch,
                       struct prepare_row *row)
{
    struct pst_error err;
    const struct psti_chain_output *output = &batch->output;
    size_t n = (size_t)row->draw.region_height * row->draw.region_width * output->channels;
    uint32_t kind = test_below(random, 3), most = output->bits == 8 ? 255 : 65535;
    row->samples = malloc(n * sizeof *row->samples);
    for (size_t i = 0; i < n; i++) {
        uint32_t v = test_below(random, most + 1);
        row->samples[i] = (uint16_t)(kind == 0   ? v
                                     : kind == 1 ? (v & 1) * most
                                                 : v / 16 + i % most / 2);
    }
    row->is_picture = batch->put_region == NULL || test_below(random, 4) == 0;
    assert_ok(
        psti_gpu_prepare_plan(batch->chain, &row->draw, row->is_picture, &row->prepare, &err));
    struct psti_gpu_prepare *prepare = &row->prepare;
    assert_int_equal(prepare->tables_nbytes % 64 + prepare->scratch_nbytes % 64, 0);
    size_t picture_nbytes = psti_round_up(n * output->bits / 8 + PSTI_GPU_SLACK, 64);
    row->tables = aligned_alloc(64, prepare->tables_nbytes + 64);
    row->scratch = aligned_alloc(64, prepare->scratch_nbytes + 64);
    row->picture = aligned_alloc(64, picture_nbytes);
    memset(row->tables + prepare->tables_nbytes, 0x5a, 64);
    memset(row->scratch, 0xa5, prepare->scratch_nbytes + 64);
    memset(row->picture, 0xa5, picture_nbytes);
    row->nbytes = psti_augment_chain_output_nbytes(batch->chain, &row->draw);
    row->slot = guarded_make(row->nbytes, 64);
    psti_gpu_prepare_write(batch->chain, &row->draw, prepare, row->tables, (uintptr_t)row->tables,
                           (uintptr_t)row->scratch, (uintptr_t)row->picture);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(row->tables[prepare->tables_nbytes + i], 0x5a);
    if (batch->put_region != NULL)
        batch->put_region(batch, row);
    else
        put_picture(batch, row);
    run_on_cpu(batch, row);
}

/* Launches the passes of a turn that use that kernel, for all rows. */
static void launch(struct prepare_batch *batch, uint32_t turn, enum psti_gpu_pass_kernel kernel)
{
    static void (*const kernels[])(uint32_t, uint32_t, uint32_t, const void *) = {
        [PSTI_GPU_PASS_RESIZE] = psti_gpu_resize, [PSTI_GPU_PASS_POINT] = psti_gpu_point,
        [PSTI_GPU_PASS_MAP] = psti_gpu_map,       [PSTI_GPU_PASS_FILTER] = psti_gpu_filter,
        [PSTI_GPU_PASS_TONES] = psti_gpu_tones,   [PSTI_GPU_PASS_NOISE] = psti_gpu_noise,
    };
    static struct psti_gpu_pass passes[PREPARE_ROWS_MAX * PSTI_GPU_MAX_PASSES];
    struct psti_gpu_prepare_args args = {.passes = (uintptr_t)passes, .finish = batch->finish};
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        struct prepare_row *row = &batch->rows[r];
        for (uint32_t i = 0; i < row->prepare.n_passes; i++) {
            const struct psti_gpu_pass *from = &row->prepare.passes[i];
            if (from->turn != turn || psti_gpu_pass_kernel(from) != kernel)
                continue;
            struct psti_gpu_pass *pass = &passes[args.n_passes++];
            *pass = *from;
            batch->n_kinds[pass->kind]++;
            if (pass->finished)
                pass->to = (uintptr_t)row->slot.data;
            uint32_t n_tiles = psti_gpu_pass_tiles(pass);
            args.n_tiles = n_tiles > args.n_tiles ? n_tiles : args.n_tiles;
        }
    }
    if (args.n_passes == 0)
        return;
    uint32_t n_blocks, n_warps, shared_nbytes;
    psti_gpu_prepare_shape(&args, kernel, &n_blocks, &n_warps, &shared_nbytes);
    kernels[kernel](n_blocks, n_warps, shared_nbytes, &args);
    batch->n_launches[kernel]++;
}

/* Checks the order of a row's passes. Returns their number of turns. */
static uint32_t count_turns(const struct psti_gpu_prepare *prepare)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < prepare->n_passes; i++) {
        uint32_t turn = prepare->passes[i].turn;
        assert_true(turn == n || (n > 0 && turn == n - 1));
        n = turn + 1;
    }
    assert_true(n == 0 || prepare->passes[prepare->n_passes - 1].finished);
    return n;
}

static void run_batch(struct test_random *random, struct prepare_batch *batch)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        set_up_row(random, batch, &batch->rows[r]);
        uint32_t n = count_turns(&batch->rows[r].prepare);
        most = n > most ? n : most;
        batch->n_direct += batch->rows[r].prepare.sink_finishes;
    }
    for (uint32_t i = 0; i < most; i++)
        for (int k = 0; k < PSTI_GPU_N_PASS_KERNELS; k++)
            launch(batch, i, (enum psti_gpu_pass_kernel)k);
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        struct prepare_row *row = &batch->rows[r];
        assert_memory_equal(row->slot.data, row->expected, row->nbytes);
        for (size_t i = 0; i < 64; i++)
            assert_int_equal(row->scratch[row->prepare.scratch_nbytes + i], 0xa5);
        guarded_free(&row->slot);
        free(row->expected);
        free(row->samples);
        free(row->tables);
        free(row->scratch);
        free(row->picture);
    }
}

/* Makes draws for the rows. Returns false if one of the rows does not suit the chain. */
static bool draw_rows(struct test_random *random, struct prepare_batch *batch)
{
    struct pst_error err;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        struct prepare_row *row = &batch->rows[r];
        if (psti_augment_chain_draw(
                batch->chain,
                &(struct psti_draw_key){.seed = random->seed, .epoch = 1, .sample = random->n},
                row->height, row->width, &row->draw, &err) != PST_OK)
            return false;
        if (batch->may_refuse &&
            psti_gpu_prepare_plan(batch->chain, &row->draw, true, &row->prepare, &err) != PST_OK)
            return false;
        random->n++;
        uint64_t area = (uint64_t)row->draw.out_height * row->draw.out_width;
        if (area > 1u << 18)
            return false;
    }
    psti_gpu_prepare_finish(batch->chain, batch->rows[0].draw.out_height,
                            batch->rows[0].draw.out_width, &batch->finish);
    return true;
}

bool prepare_run_chain(struct test_random *random, struct prepare_batch *batch,
                       const struct pst_op *ops, size_t n_ops)
{
    struct pst_error err;
    if (psti_augment_chain_compile(ops, n_ops, &batch->output, &batch->chain, &err) != PST_OK)
        return false;
    bool runs = draw_rows(random, batch);
    if (runs)
        run_batch(random, batch);
    psti_augment_chain_free(&batch->chain);
    return runs;
}
