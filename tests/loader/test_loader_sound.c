/* test_loader_sound.c - tests audio fields: rows are the same with any threads and from files, a
 * cache or memory; features are the same from a GPU; of a long WAV only a clip's bytes are read;
 * on_error decides about bad sounds. */
#include "loader/loader_fixture.h"
#include "test.h"

#include "base/bits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_SAMPLES = 12, RATE = 44100, SECONDS = 5, CLIP = 4000, N_HASHES = 64 };

static pst_dataset *folder, *packed;

static void write_file(const char *path, const void *bytes, size_t nbytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    assert_int_equal(fclose(file), 0);
}

/* Makes a stereo WAV. The caller frees it. */
static uint8_t *make_wav(uint32_t i, uint32_t seconds, size_t *nbytes)
{
    uint32_t n = RATE * seconds + 17 * i, data = n * 4;
    uint8_t *file = malloc(44 + (size_t)data);
    memcpy(file, "RIFF....WAVEfmt ", 16);
    psti_store_u32(file + 4, 36 + data);
    psti_store_u32(file + 16, 16);
    psti_store_u16(file + 20, 1);
    psti_store_u16(file + 22, 2);
    psti_store_u32(file + 24, RATE);
    psti_store_u32(file + 28, RATE * 4);
    psti_store_u16(file + 32, 4);
    psti_store_u16(file + 34, 16);
    memcpy(file + 36, "data", 4);
    psti_store_u32(file + 40, data);
    for (uint32_t k = 0; k < 2 * n; k++)
        psti_store_u16(file + 44 + 2 * (size_t)k, (uint16_t)(k * (2 * i + 3) * 40503u >> 7));
    *nbytes = 44 + (size_t)data;
    return file;
}

static int make_data(void **state)
{
    (void)state;
    struct pst_error err;
    char path[256];
    make_directory(directory);
    snprintf(path, sizeof path, "%s/sounds", directory);
    assert_int_equal(mkdir(path, 0755), 0);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        size_t nbytes;
        uint8_t *file = make_wav(i, SECONDS, &nbytes);
        snprintf(path, sizeof path, "%s/sounds/%02u.wav", directory, i);
        write_file(path, file, nbytes);
        free(file);
    }
    snprintf(path, sizeof path, "%s/sounds", directory);
    assert_ok(pst_dataset_open(path, NULL, &folder, &err));
    assert_int_equal(pst_dataset_field(folder, 0)->type, PST_FIELD_AUDIO);
    assert_string_equal(pst_dataset_field(folder, 0)->name, "audio");
    char to[256];
    snprintf(to, sizeof to, "%s/packed.pst", directory);
    const struct pst_pack_options options = {.struct_size = sizeof options};
    assert_ok(pst_pack(path, to, &options, NULL, 0, &err));
    assert_ok(pst_dataset_open(to, NULL, &packed, &err));
    assert_int_equal(pst_dataset_field(packed, 0)->type, PST_FIELD_AUDIO);
    return 0;
}

static int remove_data(void **state)
{
    (void)state;
    pst_dataset_close(&folder);
    pst_dataset_close(&packed);
    remove_tree(directory);
    return 0;
}

/* Holds what the loader's options point to. */
struct wish {
    struct pst_audio_op ops[8];
    struct pst_field_output output;
};

static struct pst_loader_options options_of(struct wish *wish, uint32_t num_workers)
{
    pst_audio_op_init(&wish->ops[0], sizeof wish->ops[0], PST_AUDIO_OP_MONO);
    pst_audio_op_init(&wish->ops[1], sizeof wish->ops[1], PST_AUDIO_OP_RESAMPLE);
    wish->ops[1].rate = 8000;
    pst_audio_op_init(&wish->ops[2], sizeof wish->ops[2], PST_AUDIO_OP_RANDOM_CLIP);
    wish->ops[2].n_samples = CLIP;
    pst_audio_op_init(&wish->ops[3], sizeof wish->ops[3], PST_AUDIO_OP_GAIN);
    wish->ops[3].range[0] = -6;
    wish->ops[3].range[1] = 6;
    wish->output = (struct pst_field_output){
        .name = "audio", .decode_audio = true, .audio_ops = wish->ops, .n_audio_ops = 4};
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 4,
                                       .order = PST_ORDER_SHUFFLED,
                                       .seed = 3,
                                       .num_workers = num_workers,
                                       .storage = PST_STORAGE_THREADS,
                                       .fields = &wish->output,
                                       .n_fields = 1,
                                       .only_listed = true,
                                       TEST_ELEMENT_SIZES,
                                       .audio_op_nbytes = sizeof(struct pst_audio_op)};
}

static void look_at_shape(pst_loader *loader, const pst_batch *batch)
{
    struct pst_tensor tensor;
    struct pst_error err;
    (void)loader;
    assert_ok(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, &err));
    assert_int_equal(tensor.dtype, PST_DTYPE_F32);
    assert_true(tensor.ndim == 3 && tensor.shape[1] == 1 && tensor.shape[2] == CLIP);
}

/* Hashes two epochs. `stats` counts the reads and partial reads of the second epoch. */
static void run_epochs(pst_dataset *dataset, const struct pst_loader_options *options,
                       uint64_t hashes[N_HASHES], struct pst_loader_stats *stats)
{
    pst_loader *loader = open_loader(dataset, options);
    size_t n = 0;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        begin_epoch(loader, epoch);
        n += drain_epoch(loader, look_at_shape, hashes + n);
    }
    assert_int_equal(n, 2 * N_SAMPLES / 4);
    *stats = stats_of(loader);
    pst_loader_close(&loader);
}

static void same_rows(void **state)
{
    (void)state;
    struct pst_error err;
    struct wish wish;
    struct pst_loader_stats stats;
    uint64_t wanted[N_HASHES] = {0}, found[N_HASHES];
    struct pst_loader_options options = options_of(&wish, 0);
    options.storage = PST_STORAGE_MEMORY;
    run_epochs(folder, &options, wanted, &stats);
    assert_int_equal(stats.n_partial_reads, 0);
    for (uint32_t workers = 0; workers < 4; workers += 3)
        for (int kind = 0; kind < 6; kind++) {
            options = options_of(&wish, workers);
            pst_cache *cache = NULL;
            const struct pst_cache_options limits = {.struct_size = sizeof limits,
                                                     .nbytes = (uint64_t)64 << 20};
            if (kind == 1) {
                assert_ok(pst_cache_open(&limits, &cache, &err));
                options.cache = cache;
            }
            options.placement = kind == 5 ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
            options.no_verify = kind == 3;
            options.page_cache = kind == 4 ? PST_PAGE_CACHE_DIRECT : PST_PAGE_CACHE_KEEP;
            memset(found, 0, sizeof found);
            run_epochs(kind == 2 || kind == 3 ? packed : folder, &options, found, &stats);
            assert_memory_equal(found, wanted, sizeof found);
            /* a cache and checksums need all bytes of the file */
            bool partial = kind != 1 && kind != 2;
            assert_int_equal(stats.n_partial_reads, partial ? 2 * N_SAMPLES : 0);
            if (partial) /* half a second of a file of 5 s is read */
                assert_true(stats.nbytes_read < 2 * N_SAMPLES * (uint64_t)RATE * 4);
            pst_cache_close(&cache);
        }
}

static void put_be32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Makes the audio samples of make_wav as an AU file, with big-endian numbers. libsndfile decodes
 * it. */
static uint8_t *make_au(uint32_t i, size_t *nbytes)
{
    uint8_t *file = make_wav(i, SECONDS, nbytes);
    memmove(file + 24, file + 44, *nbytes - 44);
    *nbytes -= 20;
    memcpy(file, ".snd", 4);
    const uint32_t head[] = {24, (uint32_t)*nbytes - 24, 3, RATE, 2};
    for (int k = 0; k < 5; k++)
        put_be32(file + 4 + 4 * k, head[k]);
    for (size_t k = 24; k + 1 < *nbytes; k += 2) {
        uint8_t low = file[k];
        file[k] = file[k + 1];
        file[k + 1] = low;
    }
    return file;
}

/* Files that libsndfile decodes are read on demand: only the bytes that the library asks for. */
static void on_demand(void **state)
{
    (void)state;
    struct pst_error err;
    char path[256];
    if (!pst_audio_has_sndfile(NULL, 0))
        skip();
    snprintf(path, sizeof path, "%s/others", directory);
    assert_int_equal(mkdir(path, 0755), 0);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        size_t nbytes;
        uint8_t *file = make_au(i, &nbytes);
        snprintf(path, sizeof path, "%s/others/%02u.aiff", directory, i);
        write_file(path, file, nbytes);
        free(file);
    }
    pst_dataset *dataset;
    snprintf(path, sizeof path, "%s/others", directory);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    struct wish wish;
    struct pst_loader_stats stats;
    uint64_t wanted[N_HASHES] = {0}, found[N_HASHES] = {0};
    struct pst_loader_options options = options_of(&wish, 0);
    options.storage = PST_STORAGE_MEMORY;
    run_epochs(folder, &options, wanted, &stats); /* WAV files of the same audio samples */
    for (uint32_t workers = 0; workers < 4; workers += 3)
        for (int direct = 0; direct < 2; direct++) {
            options = options_of(&wish, workers);
            options.page_cache = direct ? PST_PAGE_CACHE_DIRECT : PST_PAGE_CACHE_KEEP;
            run_epochs(dataset, &options, found, &stats);
            assert_memory_equal(found, wanted, sizeof found);
            assert_int_equal(stats.n_partial_reads, 2 * N_SAMPLES);
            assert_true(stats.nbytes_read < 2 * N_SAMPLES * (uint64_t)RATE * 4);
        }
    /* A file was truncated after it was listed: the error is that of reading the file. */
    snprintf(path, sizeof path, "%s/others/%02u.aiff", directory, 5);
    assert_int_equal(truncate(path, 400000), 0);
    options.order = PST_ORDER_SEQUENTIAL;
    pst_loader *loader = open_loader(dataset, &options);
    size_t n;
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_int_equal(drain_until(loader, NULL, found, &n, &err), PST_ERROR_CORRUPT);
    assert_int_equal(err.sample, 5);
    pst_loader_close(&loader);
    pst_dataset_close(&dataset);
}

/* Makes a folder with a clip that is too short, a damaged file, and two good ones. */
static pst_dataset *open_bad(const char *name)
{
    struct pst_error err;
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0755), 0);
    for (uint32_t i = 0; i < 4; i++) {
        size_t nbytes;
        uint8_t *file = make_wav(i, i == 1 ? 0 : SECONDS, &nbytes);
        snprintf(path, sizeof path, "%s/%s/%u.wav", directory, name, i);
        write_file(path, file, i == 2 ? nbytes / 2 : nbytes);
        free(file);
    }
    pst_dataset *dataset;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    return dataset;
}

static void bad_sounds(void **state)
{
    (void)state;
    struct pst_error err;
    pst_dataset *dataset = open_bad("bad");
    struct wish wish;
    struct pst_loader_options options = options_of(&wish, 2);
    wish.ops[2].if_short = PST_AUDIO_SHORT_ERROR;
    options.order = PST_ORDER_SEQUENTIAL;
    uint64_t hashes[N_HASHES];
    size_t n;
    pst_loader *loader = open_loader(dataset, &options);
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_int_equal(drain_until(loader, NULL, hashes, &n, &err), PST_ERROR_UNSUPPORTED);
    assert_int_equal(err.sample, 1);
    assert_string_equal(err.codec, "wav");
    assert_non_null(strstr(err.file, "/bad/1.wav"));
    pst_loader_close(&loader);
    options.on_error = PST_ON_ERROR_SKIP;
    loader = open_loader(dataset, &options);
    assert_int_equal(run_epoch(loader, 0, hashes), 1);
    assert_int_equal(stats_of(loader).n_bad, 2);
    pst_loader_close(&loader);
    pst_dataset_close(&dataset);
}

/* Features, by a host and by a GPU
 * ------------------------------------------------------------------------------------------------
 */

/* Waveforms as in options_of(), and decibels of mel bands with masks. */
static struct pst_loader_options feature_options(struct wish *wish, uint32_t num_workers,
                                                 uint32_t n_fft)
{
    struct pst_loader_options options = options_of(wish, num_workers);
    static const enum pst_audio_op_kind kinds[] = {PST_AUDIO_OP_SPECTROGRAM, PST_AUDIO_OP_MEL,
                                                   PST_AUDIO_OP_DECIBEL, PST_AUDIO_OP_TIME_MASK};
    for (int i = 0; i < 4; i++)
        pst_audio_op_init(&wish->ops[4 + i], sizeof wish->ops[0], kinds[i]);
    wish->ops[4].n_fft = n_fft;
    wish->ops[4].hop_length = 80;
    wish->ops[5].rate = 8000;
    wish->ops[5].n_mels = 23;
    wish->ops[6].top_db = 60;
    wish->ops[7].mask_max = 20;
    wish->output.n_audio_ops = 8;
    return options;
}

/* Checks where the features lie: if a GPU makes them, they lie on the GPU alone. */
static void look_at_place(pst_loader *loader, const pst_batch *batch)
{
    const bool on_gpu = stats_of(loader).device >= 0;
    struct pst_tensor tensor, host;
    struct pst_error err;
    assert_ok(pst_batch_tensor(batch, 0, &tensor, sizeof tensor, &err));
    assert_int_equal(tensor.device, on_gpu ? 0 : -1);
    assert_true(tensor.ndim == 4 && tensor.shape[2] == 23 && tensor.shape[3] == CLIP / 80 + 1);
    enum pst_status status = pst_batch_host_tensor(batch, 0, &host, sizeof host, &err);
    assert_true(status == PST_OK || on_gpu);
    if (status == PST_OK)
        assert_memory_equal(host.data, tensor.data, (size_t)(tensor.shape[0] * tensor.strides[0]));
}

static size_t features_epoch(pst_dataset *dataset, const struct pst_loader_options *options,
                             uint64_t hashes[N_HASHES], struct pst_loader_stats *stats)
{
    pst_loader *loader = open_loader(dataset, options);
    begin_epoch(loader, 1);
    size_t n = drain_epoch(loader, look_at_place, hashes);
    *stats = stats_of(loader);
    pst_loader_close(&loader);
    return n;
}

static void features_on_a_gpu(void **state)
{
    static const double parts[] = {0, 0.5, 0.25};
    struct pst_loader_stats stats;
    struct wish wish;
    uint64_t wanted[N_HASHES], found[N_HASHES];
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct pst_loader_options options = feature_options(&wish, i % 2 ? 3 : 0, 400);
        wish.output.dtype = i / 2 % 2 ? PST_DTYPE_F16 : PST_DTYPE_F32;
        size_t n = features_epoch(folder, &options, wanted, &stats);
        options.placement = PST_PLACEMENT_DEVICE;
        options.gpu_part = parts[i / 4];
        assert_int_equal(features_epoch(packed, &options, found, &stats), n);
        assert_memory_equal(found, wanted, n * sizeof *found);
        assert_int_equal(stats.n_gpu_fallback, 0);
        assert_true(stats.nbytes_upload >= N_SAMPLES * CLIP * sizeof(float) * parts[i / 4]);
        options.decode = PST_DECODE_CPU;
        options.gpu_part = 0;
        assert_int_equal(features_epoch(packed, &options, found, &stats), n);
        assert_memory_equal(found, wanted, n * sizeof *found);
        assert_int_equal(stats.nbytes_upload, 0);
    }
}

/* Frames that do not fit into shared memory are made by the CPU, which is counted. */
static void features_too_large_for_a_gpu(void **state)
{
    struct pst_loader_stats stats;
    struct wish wish;
    uint64_t wanted[N_HASHES], found[N_HASHES];
    struct pst_loader_options options = feature_options(&wish, 0, 32768);
    (void)state;
    wish.ops[4].pad_mode = PST_AUDIO_PAD_CONSTANT;
    size_t n = features_epoch(packed, &options, wanted, &stats);
    options.placement = PST_PLACEMENT_DEVICE;
    assert_int_equal(features_epoch(packed, &options, found, &stats), n);
    assert_memory_equal(found, wanted, n * sizeof *found);
    assert_int_equal(stats.n_gpu_fallback, N_SAMPLES);
    assert_non_null(strstr(stats.gpu_fallback_reason, "shared memory"));
}

/* More samples than a batch holds are fetched; a batch is made again; batches outlive their
 * loader. */
static void fetched_features(void **state)
{
    const uint64_t samples[6] = {9, 9, 0, 11, 3, 2};
    uint64_t hashes[2][3];
    struct pst_error err;
    struct wish wish;
    (void)state;
    for (int device = 0; device < 2; device++) {
        pst_batch *running, *batch;
        struct pst_loader_options options = feature_options(&wish, 2, 441);
        options.placement = device ? PST_PLACEMENT_DEVICE : PST_PLACEMENT_HOST;
        pst_loader *loader = open_loader(packed, &options);
        assert_ok(pst_loader_begin(loader, 3, &err));
        assert_ok(pst_loader_next(loader, &running, &err));
        assert_ok(pst_loader_fetch(loader, 3, samples, 6, &batch, &err));
        assert_int_equal(pst_batch_count(batch), 6);
        hashes[device][0] = hash_batch(batch);
        pst_batch_release(batch);
        assert_ok(pst_loader_replay(loader, 3, 0, &batch, &err));
        hashes[device][1] = hash_batch(batch);
        assert_int_equal(hashes[device][1], hash_batch(running));
        pst_loader_close(&loader);
        hashes[device][2] = hash_batch(running);
        assert_int_equal(hashes[device][1], hashes[device][2]);
        pst_batch_release(running);
        pst_batch_release(batch);
    }
    assert_memory_equal(hashes[0], hashes[1], sizeof hashes[0]);
}

/* Rows that are left out or replaced: those behind them move up on the GPU. */
static void bad_features(void **state)
{
    static const enum pst_on_error policies[] = {PST_ON_ERROR_SKIP, PST_ON_ERROR_REPLACE};
    pst_dataset *dataset = open_bad("bad_features");
    struct pst_loader_stats stats[2];
    struct wish wish;
    uint64_t wanted[N_HASHES], found[N_HASHES];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pst_loader_options options = feature_options(&wish, 0, 256);
        wish.ops[2].if_short = PST_AUDIO_SHORT_ERROR;
        options.order = PST_ORDER_SEQUENTIAL;
        options.on_error = policies[i];
        size_t n = features_epoch(dataset, &options, wanted, &stats[0]);
        options.placement = PST_PLACEMENT_DEVICE;
        assert_int_equal(features_epoch(dataset, &options, found, &stats[1]), n);
        assert_memory_equal(found, wanted, n * sizeof *found);
        assert_true(stats[0].n_bad >= 2);
        assert_int_equal(stats[1].n_bad, stats[0].n_bad);
        assert_int_equal(stats[1].n_replaced, stats[0].n_replaced);
        assert_int_equal(stats[1].n_gpu_fallback, 0);
    }
    pst_dataset_close(&dataset);
}

static void refusals(void **state)
{
    (void)state;
    struct pst_error err;
    struct wish wish;
    pst_loader *loader;
    struct pst_loader_options options = options_of(&wish, 0);
    wish.output.decode_audio = false;
    assert_int_equal(pst_loader_open(folder, &options, &loader, &err), PST_ERROR_ARGUMENT);
    wish.output.decode_audio = true;
    wish.output.dtype = PST_DTYPE_U8;
    assert_int_equal(pst_loader_open(folder, &options, &loader, &err), PST_ERROR_ARGUMENT);
    wish.output.dtype = PST_DTYPE_F16;
    wish.output.bits = 8;
    assert_int_equal(pst_loader_open(folder, &options, &loader, &err), PST_ERROR_ARGUMENT);
    wish.output.bits = 0;
    options.audio_op_nbytes = 0;
    assert_int_equal(pst_loader_open(folder, &options, &loader, &err), PST_ERROR_ARGUMENT);
}

/* All memory is reserved before it is used, and the steady state allocates nothing. */
static void steady(void **state)
{
    (void)state;
    struct wish wish;
    uint64_t hashes[N_HASHES];
    struct pst_memory_stats before, after;
    struct pst_loader_options options = options_of(&wish, 0);
    options.host_memory = (uint64_t)64 << 20;
    pst_loader *loader = open_loader(folder, &options);
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        if (epoch == 4)
            pst_memory_stats(&before, sizeof before);
        begin_epoch(loader, epoch);
        (void)drain_epoch(loader, look_at_shape, hashes);
    }
    pst_memory_stats(&after, sizeof after);
    assert_true(after.n_alloc - before.n_alloc <= 4);
    pst_loader_close(&loader);
}

int main(void)
{
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    unsetenv("PENSTOCK_CUDA");
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_rows),
                                       cmocka_unit_test(on_demand),
                                       cmocka_unit_test(bad_sounds),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(steady),
                                       cmocka_unit_test(features_on_a_gpu),
                                       cmocka_unit_test(features_too_large_for_a_gpu),
                                       cmocka_unit_test(fetched_features),
                                       cmocka_unit_test(bad_features)};
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
