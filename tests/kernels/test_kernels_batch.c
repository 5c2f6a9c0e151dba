/* Guards against hazards: a row that went through a block, its launches and the GPU kernels differs
 * from the row of the CPU's decoder and chain; or it depends on the thread that adds it, on the
 * order, on other rows, or on its destination; or corrupt bytes are accepted, or damage other rows.
 * The kernels are those of the CPU build; tests/gpu builds the same test for a GPU. */
#ifdef PST_TEST_ON_GPU
#include "gpu/gpu_exec.h"
#else
#include "kernels/kernels_exec.h"
#endif
#include "kernels/kernels_make.h"

#include "base/alloc.h"
#include "base/fault.h"
#include "gpu/work/gpu_block.h"

#include <pthread.h>

/* SPARE_NBYTES: scratch with which all warps of a GPU can decode coefficients. */
enum { ROWS_MAX = 12, FIELDS_MAX = 2, SPARE_NBYTES = 112 << 20 };

static const char *golden; /* folder of golden files */

/* The function that adds a row to the block. */
enum way { WAY_ROW, WAY_PIXELS, WAY_FINISHED, WAY_NONE };

struct row {
    struct source source;
    struct pst_image_info info;
    struct psti_draw draw;
    enum way way;           /* the way to try first, then the one that worked */
    enum pst_status status; /* status of adding the row */
    enum pst_status cpu;    /* status of the CPU's decoder and chain */
    uint8_t *expected;      /* the row that the CPU made */
};

struct batch {
    uint32_t n_fields, n_rows;
    bool checks; /* whether checksums of items must still be compared */
    struct field fields[FIELDS_MAX];
    struct psti_gpu_field *gpus[FIELDS_MAX];
    struct row rows[FIELDS_MAX][ROWS_MAX];
    uint8_t *outs[FIELDS_MAX];
    struct psti_gpu_block_size size;
    struct exec exec;
    struct psti_gpu_block *block;
    struct psti_gpu_work work;
};

static size_t row_nbytes(const struct batch *b, uint32_t f)
{
    return psti_gpu_field_row_nbytes(b->gpus[f]);
}

static void open_field(struct batch *b, uint32_t f)
{
    struct pst_error err;
    const struct field *field = &b->fields[f];
    const struct psti_gpu_field_options options = {.chain = field->chain,
                                                   .decode = field->decode,
                                                   .output = field->output,
                                                   .height = field->height,
                                                   .width = field->width};
    assert_ok(psti_gpu_field_open(&options, &b->gpus[f], &err));
    assert_int_equal(row_nbytes(b, f), (size_t)field->height * field->width *
                                           field->output.channels *
                                           pst_dtype_nbytes(field->output.dtype));
    b->outs[f] = exec_alloc_out(b->n_rows * row_nbytes(b, f));
}

/* Makes the row on the CPU. Sets WAY_NONE if that fails. */
static void expect_row(struct batch *b, uint32_t f, uint32_t r, uint64_t sample)
{
    struct pst_error err;
    struct row *row = &b->rows[f][r];
    const struct field *field = &b->fields[f];
    row->expected = malloc(row_nbytes(b, f));
    row->cpu = source_probe(&row->source, field, &row->info, &err);
    if (row->cpu == PST_OK)
        row->cpu = psti_augment_chain_draw(
            field->chain, &(struct psti_draw_key){.seed = 11, .epoch = 3, .sample = sample},
            row->info.height, row->info.width, &row->draw, &err);
    if (row->cpu != PST_OK) {
        row->way = WAY_NONE;
        return;
    }
    row->cpu = cpu_row(&row->source, field, &row->info, &row->draw, row->expected, &err);
}

/* Opens a block with memory for all rows, each like the largest, and some more. */
static void open_block(struct batch *b)
{
    struct pst_error err;
    struct psti_gpu_item_size items[FIELDS_MAX];
    for (uint32_t f = 0; f < b->n_fields; f++) {
        items[f] = (struct psti_gpu_item_size){.form = PST_FORM_PLI_JPEG,
                                               .nbytes = 4096,
                                               .height = 200,
                                               .width = 200,
                                               .channels = 4,
                                               .bits = 16};
        for (uint32_t r = 0; r < b->n_rows; r++) {
            const struct row *row = &b->rows[f][r];
            size_t nbytes = row->source.nbytes + row_nbytes(b, f);
            if (row->way == WAY_NONE || row->cpu != PST_OK) /* a damaged header may give any size */
                continue;
            items[f].nbytes = nbytes > items[f].nbytes ? nbytes : items[f].nbytes;
            if (row->info.height > items[f].height)
                items[f].height = row->info.height;
            if (row->info.width > items[f].width)
                items[f].width = row->info.width;
        }
    }
    psti_gpu_block_size((const struct psti_gpu_field *const *)b->gpus, items, b->n_fields,
                        2 * b->n_rows + 4, &b->size);
    b->size.scratch_nbytes -= SPARE_NBYTES;
    exec_open(&b->exec, &b->size);
    assert_ok(psti_gpu_block_open((const struct psti_gpu_field *const *)b->gpus, b->n_fields,
                                  b->n_rows, &b->exec.memory, &b->block, &err));
}

static void close_batch(struct batch *b)
{
    psti_gpu_block_close(&b->block);
    exec_close(&b->exec);
    for (uint32_t f = 0; f < b->n_fields; f++) {
        for (uint32_t r = 0; r < b->n_rows; r++) {
            source_free(&b->rows[f][r].source);
            free(b->rows[f][r].expected);
        }
        exec_free_out(b->outs[f], b->n_rows * row_nbytes(b, f));
        psti_gpu_field_close(&b->gpus[f]);
        field_free(&b->fields[f]);
    }
}

static enum pst_status put_pixels(struct batch *b, uint32_t f, uint32_t r)
{
    struct row *row = &b->rows[f][r];
    const struct field *field = &b->fields[f];
    const struct psti_draw *d = &row->draw;
    const struct psti_rect region = {d->region_y, d->region_x, d->region_height, d->region_width};
    size_t step = (size_t)region.width * field->output.channels * (field->output.bits / 8u);
    struct psti_decoder *decoder;
    void *pixels;
    enum pst_status status = psti_gpu_block_pixels(b->block, f, r, d, &pixels, NULL);
    if (status != PST_OK)
        return status;
    assert_int_equal(psti_decode_open(&decoder, NULL), PST_OK);
    status = psti_decode_region(decoder, row->source.bytes, row->source.nbytes, &row->info,
                                &field->decode, &region, pixels, step, NULL);
    psti_decode_close(&decoder);
    if (status == PST_OK)
        psti_gpu_block_done(b->block, f, r);
    return status;
}

static enum pst_status put_finished(struct batch *b, uint32_t f, uint32_t r)
{
    void *data;
    enum pst_status status =
        psti_gpu_block_finished(b->block, f, r, &b->rows[f][r].draw, &data, NULL);
    if (status != PST_OK || b->rows[f][r].cpu != PST_OK)
        return status == PST_OK ? b->rows[f][r].cpu : status;
    memcpy(data, b->rows[f][r].expected, row_nbytes(b, f));
    psti_gpu_block_done(b->block, f, r);
    return PST_OK;
}

/* Adds a row as a loader would: for the GPU if it can, otherwise decoded by the CPU with or without
 * preparation. */
static void put_row(struct batch *b, uint32_t f, uint32_t r)
{
    struct row *row = &b->rows[f][r];
    struct pst_error err;
    struct psti_gpu_row_stats stats = {0};
    const struct psti_gpu_item item = {.bytes = row->source.bytes,
                                       .nbytes = row->source.nbytes,
                                       .info = &row->info,
                                       .is_verified = !b->checks && (r & 1) == 0};
    if (row->way == WAY_ROW) {
        row->status = psti_gpu_block_row(b->block, f, r, &item, &row->draw, &stats, &err);
        if (row->status != PST_ERROR_UNSUPPORTED) {
            assert_true(row->status != PST_OK || stats.nbytes_upload > 0);
            return;
        }
        row->way = WAY_PIXELS;
    }
    if (row->way == WAY_PIXELS)
        row->status = put_pixels(b, f, r);
    else if (row->way == WAY_FINISHED)
        row->status = put_finished(b, f, r);
}

static void run_block(struct batch *b, const uint32_t *places)
{
    struct pst_error err;
    uint64_t outs[FIELDS_MAX];
    for (uint32_t f = 0; f < b->n_fields; f++) {
        memset(b->outs[f], 0xa5, b->n_rows * row_nbytes(b, f));
        outs[f] = (uintptr_t)b->outs[f];
    }
    assert_ok(psti_gpu_block_work(b->block, outs, places, &b->work, &err));
    exec_run(&b->exec, &b->work);
}

static void say_row(const struct batch *b, uint32_t f, uint32_t r)
{
    const struct row *row = &b->rows[f][r];
    const struct psti_chain_output *o = &b->fields[f].output;
    print_error("field %u of %u, row %u of %u: %s %ux%ux%u of %u bits, orientation %u, way %d -> "
                "%ux%ux%u %s %s of %u bits; region %u %u %u %u\n",
                f, b->n_fields, r, b->n_rows, pst_form_name(row->source.form), row->info.height,
                row->info.width, row->info.channels, row->info.bits, row->info.orientation,
                (int)row->way, b->fields[f].height, b->fields[f].width, o->channels,
                pst_dtype_name(o->dtype), o->layout == PST_LAYOUT_CHW ? "chw" : "hwc", o->bits,
                row->draw.region_y, row->draw.region_x, row->draw.region_height,
                row->draw.region_width);
}

/* Checks each row of the batch: it equals the CPU's row, or failed as on the CPU. Bytes between
 * rows must be unchanged. Returns how many rows were compared. */
static uint32_t check_rows(struct batch *b, const uint32_t *places)
{
    uint32_t n_same = 0;
    for (uint32_t f = 0; f < b->n_fields; f++) {
        size_t nbytes = row_nbytes(b, f);
        for (uint32_t r = 0; r < b->n_rows; r++) {
            struct row *row = &b->rows[f][r];
            uint32_t place = places ? places[r] : r;
            if (place == PSTI_GPU_NOWHERE || row->way == WAY_NONE)
                continue;
            bool failed = row->status != PST_OK || psti_gpu_block_failed(b->block, f, r);
            bool is_right = failed == (row->cpu != PST_OK);
            if (is_right && !failed)
                is_right = memcmp(b->outs[f] + place * nbytes, row->expected, nbytes) == 0;
            if (!is_right) {
                size_t i = 0;
                while (!failed && i + 1 < nbytes &&
                       b->outs[f][place * nbytes + i] == row->expected[i])
                    i++;
                say_row(b, f, r);
                print_error("put: %s, GPU: %s, CPU: %s; byte %zu of %zu\n",
                            pst_status_name(row->status),
                            psti_gpu_block_failed(b->block, f, r) ? "failed" : "good",
                            pst_status_name(row->cpu), i, nbytes);
            }
            assert_true(is_right);
            n_same += !failed;
        }
    }
    return n_same;
}

/* Makes sources and fields of a random batch. */
static void make_batch(struct test_random *random, struct batch *b, bool plain)
{
    *b = (struct batch){.n_fields = 1 + (test_below(random, 4) == 0),
                        .n_rows = 1 + test_below(random, ROWS_MAX / 2)};
    for (uint32_t f = 0; f < b->n_fields; f++) {
        bool is_mask = f > 0 || test_below(random, 8) == 0;
        if (plain)
            field_make_plain(random, is_mask, &b->fields[f]);
        else
            field_make(random, is_mask, &b->fields[f]);
        open_field(b, f);
        for (uint32_t r = 0; r < b->n_rows; r++) {
            static const enum source_kind kinds[] = {SOURCE_PLI, SOURCE_PLI, SOURCE_PLI_JPEG,
                                                     SOURCE_RAW, SOURCE_JPEG};
            struct row *row = &b->rows[f][r];
            uint32_t most = test_below(random, 6) == 0 ? 300 : 120;
            row->source = source_make(random, kinds[test_below(random, 5)], most, is_mask);
            row->way = test_below(random, 8) == 0   ? WAY_PIXELS
                       : test_below(random, 8) == 0 ? WAY_FINISHED
                                                    : WAY_ROW;
        }
    }
}

static void expect_all(struct batch *b, uint64_t sample)
{
    for (uint32_t f = 0; f < b->n_fields; f++)
        for (uint32_t r = 0; r < b->n_rows; r++)
            expect_row(b, f, r, sample + r);
}

static void put_all(struct batch *b)
{
    for (uint32_t f = 0; f < b->n_fields; f++)
        for (uint32_t r = 0; r < b->n_rows; r++)
            put_row(b, f, r);
}

static void test_random_batches(void **state)
{
    (void)state;
    struct test_random random = {.seed = 91};
    uint32_t n_same = 0, n_rows = 0;
    for (uint32_t i = 0; i < 60; i++) {
        struct batch b;
        uint32_t places[ROWS_MAX];
        make_batch(&random, &b, i % 2 == 0);
        expect_all(&b, 1000 * i);
        open_block(&b);
        put_all(&b);
        /* Adds the rows in reverse order and leaves some out. */
        uint32_t n_left = b.n_rows;
        for (uint32_t r = 0; r < b.n_rows; r++)
            places[r] = test_below(&random, 5) == 0 ? PSTI_GPU_NOWHERE : --n_left;
        const uint32_t *given = test_below(&random, 2) ? places : NULL;
        run_block(&b, given);
        n_same += check_rows(&b, given);
        n_rows += b.n_fields * b.n_rows;
        close_batch(&b);
    }
    /* Most images suit their field, but not all. */
    assert_true(2 * n_same > n_rows);
}

/* Checks that the warps of psti_gpu_coefs have no more scratch than `left`, which is enough for
 * one. Returns whether the launch has both kinds of units. */
static bool check_coefs(const struct psti_gpu_launch *launch, uint64_t left)
{
    const struct psti_gpu_jpeg_args *args = launch->args;
    uint32_t n_warps = launch->n_blocks * launch->n_warps;
    assert_in_range(args->n_wide_warps, args->n_wide > 0, n_warps);
    assert_true((uint64_t)args->n_wide_warps * args->wide_nbytes +
                    (uint64_t)(n_warps - args->n_wide_warps) * args->narrow_nbytes <=
                left);
    return args->n_wide > 0 && args->n_wide < args->n_units;
}

/* With little scratch, fewer warps decode wide and narrow units of coefficients. */
static void test_little_scratch(void **state)
{
    (void)state;
    struct test_random random = {.seed = 94};
    uint32_t n_mixed = 0;
    for (uint32_t i = 0; i < 25; i++) {
        struct batch b;
        make_batch(&random, &b, true);
        for (uint32_t r = 0; r < b.n_rows; r++) {
            source_free(&b.rows[0][r].source);
            b.rows[0][r].source = source_make(&random, SOURCE_PLI_JPEG, 450, false);
            b.rows[0][r].way = WAY_ROW;
        }
        expect_all(&b, 100 * i);
        open_block(&b);
        put_all(&b);
        uint64_t left = b.block->coefs_nbytes * (1 + test_below(&random, 8));
        b.block->memory.scratch_nbytes = b.block->scratch_used + left;
        run_block(&b, NULL);
        check_rows(&b, NULL);
        for (uint32_t k = 0; k < b.work.n_launches; k++)
            if (b.work.launches[k].kernel == PSTI_GPU_KERNEL_COEFS)
                n_mixed += check_coefs(&b.work.launches[k], left);
        close_batch(&b);
    }
    assert_true(n_mixed > 2);
}

/* Corrupt rows fail as on the CPU, and the other rows are correct. */
static void test_damaged_rows(void **state)
{
    (void)state;
    struct test_random random = {.seed = 92};
    uint32_t n_failed = 0, n_noticed = 0;
    for (uint32_t i = 0; i < 80; i++) {
        struct batch b;
        make_batch(&random, &b, i % 2 == 0);
        b.checks = true;
        for (uint32_t f = 0; f < b.n_fields; f++)
            for (uint32_t r = 0; r < b.n_rows; r++) {
                struct row *row = &b.rows[f][r];
                if (row->source.form == PST_FORM_RAW || test_below(&random, 3) == 0)
                    continue;
                struct source damaged = source_damage(&random, &row->source);
                source_free(&row->source);
                row->source = damaged;
            }
        expect_all(&b, i);
        open_block(&b);
        put_all(&b);
        run_block(&b, NULL);
        check_rows(&b, NULL);
        for (uint32_t r = 0; r < b.n_rows; r++) {
            n_failed += b.rows[0][r].way == WAY_ROW && b.rows[0][r].cpu != PST_OK;
            n_noticed += psti_gpu_block_failed(b.block, 0, r);
        }
        close_batch(&b);
    }
    assert_true(n_failed > 20); /* the host detects some before the upload */
    assert_true(n_noticed > 0 && n_noticed < n_failed);
}

/* Golden files, which every version must decode alike, in one batch after another. */
static void test_golden_files(void **state)
{
    (void)state;
    static const char *const folders[] = {"pli", "pli_jpeg"};
    struct test_random random = {.seed = 93};
    uint32_t n_same = 0, n_files = 0;
    for (int k = 0; k < 2; k++) {
        char path[4096], line[256], name[128];
        snprintf(path, sizeof path, "%s/%s/MANIFEST", golden, folders[k]);
        FILE *manifest = fopen(path, "r");
        assert_non_null(manifest);
        for (bool more = true; more;) {
            struct batch b = {.n_fields = 1, .checks = true};
            while (b.n_rows < ROWS_MAX && (more = fgets(line, sizeof line, manifest) != NULL)) {
                snprintf(name, sizeof name, "%s/", folders[k]);
                if (line[0] == '#' || sscanf(line, "%99s", name + strlen(name)) != 1)
                    continue;
                b.rows[0][b.n_rows++].source = source_read(golden, name);
            }
            if (b.n_rows == 0)
                break;
            field_make_plain(&random, false, &b.fields[0]);
            open_field(&b, 0);
            expect_all(&b, 7);
            open_block(&b);
            put_all(&b);
            run_block(&b, NULL);
            n_same += check_rows(&b, NULL);
            n_files += b.n_rows;
            close_batch(&b);
        }
        fclose(manifest);
    }
    assert_true(n_files > 150 && 2 * n_same > n_files); /* a crop may be larger than its image */
}

/* Tests of rows that several threads add
 * ------------------------------------------------------------------------------------------------
 */

struct putter {
    struct batch *batch;
    uint32_t first, step;
};

static void *put_some(void *arg)
{
    const struct putter *p = arg;
    for (uint32_t r = p->first; r < p->batch->n_rows; r += p->step)
        for (uint32_t f = 0; f < p->batch->n_fields; f++)
            put_row(p->batch, f, r);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct test_random random = {.seed = 94};
    for (uint32_t i = 0; i < 8; i++) {
        struct batch b;
        pthread_t threads[THREADS];
        struct putter putters[THREADS];
        make_batch(&random, &b, i % 2 == 0);
        expect_all(&b, i);
        open_block(&b);
        for (uint32_t round = 0; round < 2; round++) {
            psti_gpu_block_begin(b.block);
            for (uint32_t t = 0; t < THREADS; t++) {
                putters[t] = (struct putter){&b, t, THREADS};
                assert_int_equal(pthread_create(&threads[t], NULL, put_some, &putters[t]), 0);
            }
            for (uint32_t t = 0; t < THREADS; t++)
                pthread_join(threads[t], NULL);
            run_block(&b, NULL);
            check_rows(&b, NULL);
        }
        close_batch(&b);
    }
}

/* A block without memory for all rows takes them in rounds. Each round finds the slot as the last
 * one left it. */
static void test_rounds(void **state)
{
    enum { ROUND_BATCHES = 20 };
    (void)state;
    struct test_random random = {.seed = 95};
    uint32_t n_rounds = 0;
    for (uint32_t i = 0; i < ROUND_BATCHES; i++) {
        struct batch b;
        bool in[FIELDS_MAX][ROWS_MAX] = {{false}};
        make_batch(&random, &b, i % 2 == 0);
        expect_all(&b, i);
        open_block(&b);
        psti_gpu_block_close(&b.block);
        size_t whole = b.exec.memory.upload_nbytes, scratch = b.exec.memory.scratch_nbytes;
        b.exec.memory.upload_nbytes = 32768 + row_nbytes(&b, 0) + row_nbytes(&b, b.n_fields - 1);
        b.exec.memory.scratch_nbytes = i % 3 == 0 ? scratch / 16 : scratch;
        assert_int_equal(psti_gpu_block_open((const struct psti_gpu_field *const *)b.gpus,
                                             b.n_fields, b.n_rows, &b.exec.memory, &b.block, NULL),
                         PST_OK);
        uint64_t outs[FIELDS_MAX];
        for (uint32_t f = 0; f < b.n_fields; f++)
            outs[f] = (uintptr_t)b.outs[f];
        for (bool more = true; more; n_rounds++) {
            uint32_t n_in = 0;
            more = false;
            psti_gpu_block_begin(b.block);
            for (uint32_t f = 0; f < b.n_fields; f++)
                for (uint32_t r = 0; r < b.n_rows; r++) {
                    if (in[f][r] || b.rows[f][r].way == WAY_NONE)
                        continue;
                    put_row(&b, f, r);
                    in[f][r] = b.rows[f][r].status != PST_ERROR_LIMIT;
                    more |= !in[f][r];
                    n_in += in[f][r];
                    if (n_in == 0 && !in[f][r]) /* a row that fits in no round is made by the CPU */
                        b.rows[f][r].way = WAY_FINISHED;
                }
            assert_int_equal(psti_gpu_block_work(b.block, outs, NULL, &b.work, NULL), PST_OK);
            exec_run(&b.exec, &b.work);
            assert_true(n_rounds < 1000);
        }
        check_rows(&b, NULL);
        b.exec.memory.upload_nbytes = whole;
        b.exec.memory.scratch_nbytes = scratch;
        close_batch(&b);
    }
    assert_true(n_rounds > ROUND_BATCHES + 4);
}

/* A block has space for all its rows if each has an elastic warp, AugMix or a blur, or several of
 * them, before or after the crop. */
static void test_sizes_of_blocks(void **state)
{
    (void)state;
    enum { N_ROWS = 8 };
    struct test_random random = {.seed = 98};
    for (uint32_t i = 0; i < 24; i++) {
        struct batch b = {.n_fields = 1, .n_rows = N_ROWS};
        struct psti_gpu_item_size item = {.form = PST_FORM_RAW, .channels = 3, .bits = 8};
        field_make_heavy(&random, &b.fields[0]);
        open_field(&b, 0);
        for (uint32_t r = 0; r < N_ROWS; r++) {
            struct row *row = &b.rows[0][r];
            do {
                source_free(&row->source);
                free(row->expected);
                row->source = source_make(&random, SOURCE_RAW, 150, false);
                row->way = WAY_ROW;
                expect_row(&b, 0, r, 100 * i + r);
            } while (row->cpu != PST_OK || row->info.orientation > 1 || row->info.channels != 3 ||
                     row->info.bits != 8);
            item.nbytes = row->source.nbytes > item.nbytes ? row->source.nbytes : item.nbytes;
            item.height = row->info.height > item.height ? row->info.height : item.height;
            item.width = row->info.width > item.width ? row->info.width : item.width;
        }
        psti_gpu_block_size((const struct psti_gpu_field *const *)b.gpus, &item, 1, N_ROWS,
                            &b.size);
        exec_open(&b.exec, &b.size);
        assert_int_equal(psti_gpu_block_open((const struct psti_gpu_field *const *)b.gpus, 1,
                                             N_ROWS, &b.exec.memory, &b.block, NULL),
                         PST_OK);
        put_all(&b);
        for (uint32_t r = 0; r < N_ROWS; r++) {
            assert_int_equal(b.rows[0][r].status, PST_OK);
            assert_int_equal(b.rows[0][r].way, WAY_ROW);
        }
        run_block(&b, NULL);
        assert_int_equal(check_rows(&b, NULL), N_ROWS);
        close_batch(&b);
    }
}

#ifndef PST_TEST_ON_GPU
/* Compares a padded row with its row: the same elements, and the fill beside and below them. */
static void check_padded(const struct psti_gpu_pad *pad, const uint8_t *fill, size_t element)
{
    const uint8_t *from = (const uint8_t *)(uintptr_t)pad->from;
    const uint8_t *to = (const uint8_t *)(uintptr_t)pad->to;
    for (uint32_t plane = 0; plane < pad->n_planes; plane++)
        for (uint32_t y = 0; y < pad->to_n_lines; y++)
            for (uint32_t x = 0; x < pad->to_line_nbytes; x++) {
                bool in = y < pad->n_lines && x < pad->line_nbytes;
                size_t line = (size_t)plane * pad->n_lines + y;
                uint8_t expected = in ? from[line * pad->line_nbytes + x] : fill[x % element];
                assert_int_equal(*to++, expected);
            }
}

/* Finished rows of several sizes become one padded array, whatever their element and layout. */
static void test_padding(void **state)
{
    enum { PADS = 5, MOST = 90 };
    (void)state;
    struct test_random random = {.seed = 98};
    for (uint32_t i = 0; i < 200; i++) {
        struct batch b = {.n_fields = 1, .n_rows = 1};
        struct psti_gpu_pad pads[PADS];
        struct psti_gpu_pad_args args;
        struct psti_gpu_launch launch;
        uint8_t fill[8];
        field_make_plain(&random, i % 4 == 0, &b.fields[0]);
        open_field(&b, 0);
        size_t element = pst_dtype_nbytes(b.fields[0].output.dtype);
        uint32_t to_size[2] = {1 + test_below(&random, MOST), 1 + test_below(&random, MOST)};
        uint32_t n = 1 + test_below(&random, PADS);
        size_t to_nbytes = psti_gpu_field_size_nbytes(b.gpus[0], to_size);
        uint8_t *from[PADS], *to = malloc(n * to_nbytes);
        for (int k = 0; k < 8; k++)
            fill[k] = (uint8_t)test_below(&random, 256);
        for (uint32_t r = 0; r < n; r++) {
            const uint32_t size[2] = {1 + test_below(&random, to_size[0]),
                                      1 + test_below(&random, to_size[1])};
            size_t nbytes = psti_gpu_field_size_nbytes(b.gpus[0], size);
            from[r] = malloc(nbytes); /* of its exact length, for AddressSanitizer */
            for (size_t k = 0; k < nbytes; k++)
                from[r][k] = (uint8_t)test_below(&random, 256);
            psti_gpu_pad_set(b.gpus[0], size, (uintptr_t)from[r], to_size,
                             (uintptr_t)to + r * to_nbytes, &pads[r]);
        }
        assert_true(psti_gpu_pad_launch(b.gpus[0], pads, n, (uintptr_t)pads, fill, &args, &launch));
        exec_find(launch.kernel)(launch.n_blocks, launch.n_warps, launch.shared_nbytes,
                                 launch.args);
        for (uint32_t r = 0; r < n; r++) {
            check_padded(&pads[r], fill, element);
            free(from[r]);
        }
        free(to);
        exec_free_out(b.outs[0], row_nbytes(&b, 0));
        psti_gpu_field_close(&b.gpus[0]);
        field_free(&b.fields[0]);
    }
}
#endif

/* Fields and blocks refuse wrong arguments. */
static void test_refusals(void **state)
{
    (void)state;
    struct test_random random = {.seed = 96};
    struct batch b = {.n_fields = 1, .n_rows = 1};
    struct pst_error err;
    field_make_plain(&random, false, &b.fields[0]);
    open_field(&b, 0);
    do {
        source_free(&b.rows[0][0].source);
        free(b.rows[0][0].expected);
        b.rows[0][0].source = source_make(&random, SOURCE_PLI, 200, false);
        expect_row(&b, 0, 0, 1);
    } while (b.rows[0][0].cpu != PST_OK);
    b.rows[0][0].way = WAY_ROW;
    open_block(&b);
    const struct row *row = &b.rows[0][0];
    struct psti_gpu_item item = {row->source.bytes, row->source.nbytes, &row->info, false, NULL};
    struct psti_draw draw = row->draw;
    draw.out_height++;
    assert_int_equal(psti_gpu_block_row(b.block, 0, 0, &item, &draw, NULL, &err),
                     PST_ERROR_UNSUPPORTED);
    struct pst_image_info info = row->info;
    info.form = PST_FORM_WEBP;
    item.info = &info;
    assert_int_equal(psti_gpu_block_row(b.block, 0, 0, &item, &row->draw, NULL, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_string_equal(err.text, "webp is decoded on the CPU");
    info = row->info;
    info.height += row->draw.region_height;
    assert_int_equal(psti_gpu_block_row(b.block, 0, 0, &item, &row->draw, NULL, &err),
                     PST_ERROR_ARGUMENT);
    /* None of the rows was added. */
    uint64_t outs[1] = {(uintptr_t)b.outs[0]};
    assert_ok(psti_gpu_block_work(b.block, outs, NULL, &b.work, &err));
    assert_int_equal(b.work.n_launches, 0);
    assert_int_equal(b.work.upload_nbytes, 0);
    assert_int_equal(b.work.statuses_nbytes, 0);
    struct psti_gpu_block *block;
    struct psti_gpu_memory memory = b.exec.memory;
    memory.upload += 64;
    assert_int_equal(psti_gpu_block_open((const struct psti_gpu_field *const *)b.gpus, 1, 1,
                                         &memory, &block, &err),
                     PST_ERROR_ARGUMENT);
    memory = b.exec.memory;
    memory.upload_nbytes = 256;
    assert_int_equal(psti_gpu_block_open((const struct psti_gpu_field *const *)b.gpus, 1, 1,
                                         &memory, &block, &err),
                     PST_ERROR_LIMIT);
    assert_null(block);
    close_batch(&b);
}

#ifdef PST_FAULTS
/* Opening fails cleanly at each allocation. After opening nothing is allocated. */
static void test_memory(void **state)
{
    (void)state;
    struct test_random random = {.seed = 97};
    struct batch b;
    struct pst_error err;
    make_batch(&random, &b, false);
    expect_all(&b, 1);
    open_block(&b);
    uint32_t n_failures = 0;
    for (uint64_t n = 1;; n++) {
        struct psti_gpu_block *block;
        psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
        enum pst_status status =
            psti_gpu_block_open((const struct psti_gpu_field *const *)b.gpus, b.n_fields, b.n_rows,
                                &b.exec.memory, &block, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        psti_gpu_block_close(&block);
        if (status == PST_OK)
            break;
        assert_int_equal(status, PST_ERROR_MEMORY);
        n_failures++;
    }
    assert_true(n_failures >= 5);
    struct psti_gpu_field *field;
    const struct psti_gpu_field_options options = {
        .chain = b.fields[0].chain, .output = b.fields[0].output, .height = 1, .width = 1};
    psti_fault_arm(PSTI_FAULT_ALLOC, 1, false);
    assert_int_equal(psti_gpu_field_open(&options, &field, &err), PST_ERROR_MEMORY);
    psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
    psti_gpu_block_begin(b.block);
    for (uint32_t r = 0; r < b.n_rows; r++) {
        const struct row *row = &b.rows[0][r];
        const struct psti_gpu_item item = {row->source.bytes, row->source.nbytes, &row->info, false,
                                           NULL};
        if (row->way != WAY_NONE)
            (void)psti_gpu_block_row(b.block, 0, r, &item, &row->draw, NULL, NULL);
    }
    run_block(&b, NULL);
    assert_int_equal(psti_fault_count(PSTI_FAULT_ALLOC), 0);
    close_batch(&b);
}
#endif

int main(int argc, char **argv)
{
    golden = argc > 1 ? argv[1] : "tests/golden";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_batches), cmocka_unit_test(test_little_scratch),
        cmocka_unit_test(test_damaged_rows),   cmocka_unit_test(test_golden_files),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_sizes_of_blocks),

        cmocka_unit_test(test_refusals),
#ifndef PST_TEST_ON_GPU
        cmocka_unit_test(test_padding),
#endif
#ifdef PST_FAULTS
        cmocka_unit_test(test_memory),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, exec_end);
}
