/* cmd_bench.c - the verb bench: loads a data set as a training run would, and reports the speed and
 * where the time went. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bench {
    struct cli *cli;
    uint64_t batch_size, workers, epochs, seed, host_memory;
    const char *operation, *device, *on_error;
    enum pst_placement placement; /* placement that `device` selects */
    int32_t ordinal;
    struct cli_source source;
    pst_dataset *dataset;
    pst_loader *loader;
    double *rates; /* images/s of each epoch after the warm-up */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void normalize(struct pst_op *op)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    pst_op_init(op, sizeof *op, PST_OP_NORMALIZE);
    memcpy(op->mean, mean, sizeof mean);
    memcpy(op->std, std, sizeof std);
}

/* Makes the operations of a usual training: crop, flip, normalise, f32 NCHW. Returns their number.
 */
static size_t make_chain(const char *name, struct pst_op ops[3], struct pst_field_output *output)
{
    if (strcmp(name, "none") == 0)
        return 0;
    if (strcmp(name, "rrc224") == 0) {
        pst_op_init(&ops[0], sizeof ops[0], PST_OP_RANDOM_RESIZED_CROP);
        ops[0].height = ops[0].width = 224;
    } else {
        pst_op_init(&ops[0], sizeof ops[0], PST_OP_RANDOM_CROP);
        ops[0].height = ops[0].width = 768;
        ops[0].pad_if_needed = true;
    }
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
    normalize(&ops[2]);
    output->dtype = PST_DTYPE_F32;
    output->layout = PST_LAYOUT_CHW;
    return 3;
}

/* Parses "cpu", "cuda" or "cuda:N". False for other texts. The library checks that the GPU
 * exists. */
static bool read_device(const char *name, enum pst_placement *placement, int32_t *device)
{
    uint64_t ordinal = 0;
    *placement = strcmp(name, "cpu") == 0 ? PST_PLACEMENT_HOST : PST_PLACEMENT_DEVICE;
    if (*placement == PST_PLACEMENT_DEVICE && strcmp(name, "cuda") != 0 &&
        (strncmp(name, "cuda:", 5) != 0 || !cli_count(name + 5, &ordinal) || ordinal > 9999))
        return false;
    *device = (int32_t)ordinal;
    return true;
}

static enum pst_status open_loader(struct bench *bench, struct pst_error *err)
{
    struct pst_op ops[3];
    struct pst_field_output output = {0};
    int i_image = cli_field_of_type(bench->dataset, PST_FIELD_IMAGE);
    if (i_image < 0)
        return cli_error(err, PST_ERROR_ARGUMENT, "the data set has no image field");
    output.name = pst_dataset_field(bench->dataset, (uint32_t)i_image)->name;
    output.n_ops = make_chain(bench->operation, ops, &output);
    output.ops = ops;
    struct pst_loader_options options = {
        .struct_size = sizeof options,
        .batch_size = (uint32_t)bench->batch_size,
        .order = PST_ORDER_SHUFFLED,
        .seed = bench->seed,
        .num_workers = (uint32_t)bench->workers,
        .host_memory = bench->host_memory,
        .on_error = strcmp(bench->on_error, "skip") == 0 ? PST_ON_ERROR_SKIP : PST_ON_ERROR_RAISE,
        .fields = &output,
        .n_fields = 1,
        .field_nbytes = sizeof(struct pst_field_output),
        .op_nbytes = sizeof(struct pst_op),
        .placement = bench->placement,
        .device = bench->ordinal,
    };
    return pst_loader_open(bench->dataset, &options, &bench->loader, err);
}

static enum pst_status run_epoch(struct bench *bench, uint64_t epoch, double *images_per_second,
                                 struct pst_error *err)
{
    uint64_t n_images = 0, n_batches = pst_loader_n_batches(bench->loader);
    struct pst_progress progress = {.n_total = n_batches};
    double start = now();
    enum pst_status status = pst_loader_begin(bench->loader, epoch, err);
    while (status == PST_OK) {
        pst_batch *batch = NULL;
        status = pst_loader_next(bench->loader, &batch, err);
        if (status != PST_OK)
            break;
        n_images += pst_batch_count(batch);
        pst_batch_release(batch);
        progress.n_done++;
        if (cli_progress(bench->cli, epoch == 0 ? "warm-up" : "bench", &progress) != 0)
            status = cli_error(err, PST_ERROR_CANCELLED, "interrupted");
    }
    *images_per_second = (double)n_images / (now() - start);
    return status == PST_END ? PST_OK : status;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Names the stage that the other stages waited for. */
static const char *bound_by(const struct pst_loader_stats *s, double seconds)
{
    if (1e-9 * (double)s->caller_wait_ns < 0.1 * seconds)
        return "the caller";
    return s->worker_read_wait_ns > s->decode_ns ? "storage" : "decoding";
}

static void print_json(const struct bench *bench, const struct pst_loader_stats *s, double median,
                       double seconds)
{
    struct cli_json json = {0};
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "path", pst_dataset_path(bench->dataset));
    cli_json_text(&json, "op", bench->operation);
    cli_json_text(&json, "device", bench->device);
    cli_json_uint(&json, "batch_size", bench->batch_size);
    cli_json_uint(&json, "workers", s->n_workers);
    cli_json_float(&json, "images_per_second", median);
    cli_json_float(&json, "worst", bench->rates[0]);
    cli_json_float(&json, "best", bench->rates[bench->epochs - 1]);
    cli_json_uint(&json, "epochs", bench->epochs);
    cli_json_uint(&json, "images", s->n_samples);
    cli_json_uint(&json, "bad", s->n_bad);
    cli_json_float(&json, "seconds", seconds);
    cli_json_float(&json, "read_bytes_per_second", (double)s->nbytes_read / seconds);
    cli_json_float(&json, "decoded_bytes_per_second", (double)s->nbytes_decoded / seconds);
    cli_json_float(&json, "read_seconds", 1e-9 * (double)s->read_ns);
    cli_json_float(&json, "decode_seconds", 1e-9 * (double)s->decode_ns);
    cli_json_float(&json, "worker_read_wait_seconds", 1e-9 * (double)s->worker_read_wait_ns);
    cli_json_float(&json, "worker_idle_seconds", 1e-9 * (double)s->worker_idle_ns);
    cli_json_text(&json, "bound_by", bound_by(s, seconds));
    cli_json_float(&json, "caller_wait_seconds", 1e-9 * (double)s->caller_wait_ns);
    cli_json_uint(&json, "host_memory_peak", s->host_memory_peak);
    cli_json_text(&json, "storage",
                  s->storage == PST_STORAGE_URING    ? "io_uring"
                  : s->storage == PST_STORAGE_MEMORY ? "memory"
                                                     : "threads");
    cli_json_text(&json, "storage_reason", s->storage_reason[0] == '\0' ? NULL : s->storage_reason);
    cli_json_text(&json, "cpu_level", s->cpu_level);
    cli_json_text(&json, "cpu_rooms", s->cpu_rooms);
    cli_json_open(&json, "fallbacks", '{');
    for (uint32_t i = 0; pst_fallback_name(i) != NULL; i++)
        if (s->fallbacks[i] > 0)
            cli_json_uint(&json, pst_fallback_name(i), s->fallbacks[i]);
    cli_json_close(&json, '}');
    cli_json_uint(&json, "units_decoded", s->n_units_decoded);
    cli_json_uint(&json, "units_whole", s->n_units_whole);
    cli_json_uint(&json, "partial_reads", s->n_partial_reads);
    cli_json_uint(&json, "unchecked", s->n_unchecked);
    cli_json_close(&json, '}');
}

static void print_times(const struct pst_loader_stats *s, double seconds)
{
    double busy = (double)s->decode_ns, reading = (double)s->worker_read_wait_ns;
    double all = busy + reading + (double)s->worker_idle_ns;
    double percent = all > 0 ? 100 / all : 0;
    printf(
        "  bound by %s: workers were busy %.0f %% of their time, waited %.0f %% for storage, had "
        "nothing to do %.0f %%\n",
        bound_by(s, seconds), percent * busy, percent * reading,
        percent * (double)s->worker_idle_ns);
    printf("  the caller waited %.0f %% of the time for a batch; a read was under way %.0f %%\n",
           1e-7 * (double)s->caller_wait_ns / seconds, 1e-7 * (double)s->read_ns / seconds);
}

static void print_text(const struct bench *bench, const struct pst_loader_stats *s, double median,
                       double seconds)
{
    char peak[32];
    cli_size_text(s->host_memory_peak, peak);
    cli_print_name(stdout, pst_dataset_path(bench->dataset));
    printf(": %.0f images/s (median of %llu epochs after a warm-up; %.0f..%.0f)\n", median,
           (unsigned long long)bench->epochs, bench->rates[0], bench->rates[bench->epochs - 1]);
    printf("  %s, batches of %llu, %u workers, %s, cpu level %s\n", bench->operation,
           (unsigned long long)bench->batch_size, s->n_workers,
           s->storage == PST_STORAGE_URING    ? "io_uring"
           : s->storage == PST_STORAGE_MEMORY ? "from memory"
                                              : "read by threads",
           s->cpu_level);
    printf("  %.1f MB/s read, %.1f MB/s of pixels decoded, over %.2f s with the warm-up\n",
           1e-6 * (double)s->nbytes_read / seconds, 1e-6 * (double)s->nbytes_decoded / seconds,
           seconds);
    print_times(s, seconds);
    printf("  host memory at most %s", peak);
    if (s->n_bad > 0) {
        fputs("; ", stdout);
        cli_print_count(s->n_bad, "BAD sample", "BAD samples");
    }
    if (s->n_units_whole > 0)
        printf("; %.0f %% of PLI units decoded, %llu images read in part",
               100 * (double)s->n_units_decoded / (double)s->n_units_whole,
               (unsigned long long)s->n_partial_reads);
    if (s->n_unchecked > 0)
        printf("; %llu items had no checksum to compare", (unsigned long long)s->n_unchecked);
    putchar('\n');
    for (uint32_t i = 0; pst_fallback_name(i) != NULL; i++)
        if (s->fallbacks[i] > 0)
            printf("  fall-back %s, %llu times: %s\n", pst_fallback_name(i),
                   (unsigned long long)s->fallbacks[i], pst_fallback_text(i));
}

static int run_bench(struct bench *bench)
{
    struct pst_error err;
    struct pst_loader_stats stats = {0};
    double ignored;
    pst_error_clear(&err);
    bench->rates = calloc((size_t)bench->epochs, sizeof *bench->rates);
    if (bench->rates == NULL) {
        cli_error(&err, PST_ERROR_MEMORY, "out of memory for %llu epochs",
                  (unsigned long long)bench->epochs);
        return cli_fail(bench->cli, &err);
    }
    double start = now();
    enum pst_status status = open_loader(bench, &err);
    if (status == PST_OK)
        status = run_epoch(bench, 0, &ignored, &err);
    for (uint64_t i = 0; status == PST_OK && i < bench->epochs; i++)
        status = run_epoch(bench, i + 1, &bench->rates[i], &err);
    double seconds = now() - start;
    cli_progress_end(bench->cli);
    if (status != PST_OK)
        return cli_fail(bench->cli, &err);
    qsort(bench->rates, (size_t)bench->epochs, sizeof *bench->rates, compare);
    double median = (bench->rates[(bench->epochs - 1) / 2] + bench->rates[bench->epochs / 2]) / 2;
    pst_loader_stats(bench->loader, &stats, sizeof stats);
    if (bench->cli->json)
        print_json(bench, &stats, median, seconds);
    else
        print_text(bench, &stats, median, seconds);
    return stats.n_bad > 0 ? CLI_FAILED : CLI_OK;
}

static int check(struct bench *bench)
{
    static const char *const operations[] = {"rrc224", "crop768", "none", NULL};
    bool known = false;
    for (size_t i = 0; operations[i] != NULL; i++)
        known = known || strcmp(operations[i], bench->operation) == 0;
    if (!known) {
        const char *near = cli_nearest(bench->operation, &operations[0], sizeof operations[0]);
        return cli_usage(bench->cli, "--op is \"%s\": rrc224, crop768 or none is expected%s%s%s",
                         bench->operation, near == NULL ? "" : "; did you mean ",
                         near == NULL ? "" : near, near == NULL ? "" : "?");
    }
    if (!read_device(bench->device, &bench->placement, &bench->ordinal))
        return cli_usage(bench->cli, "--device is \"%s\": cpu, cuda or cuda:N is expected",
                         bench->device);
    if (strcmp(bench->on_error, "stop") != 0 && strcmp(bench->on_error, "skip") != 0)
        return cli_usage(bench->cli, "--on-error is \"%s\": stop or skip is expected",
                         bench->on_error);
    if (bench->batch_size == 0 || bench->batch_size > 1u << 20)
        return cli_usage(bench->cli, "--batch-size is %llu: 1 to 1048576 is expected",
                         (unsigned long long)bench->batch_size);
    if (bench->epochs == 0 || bench->epochs > 100000)
        return cli_usage(bench->cli, "--epochs is %llu: 1 to 100000 is expected",
                         (unsigned long long)bench->epochs);
    if (bench->workers > 4096)
        return cli_usage(bench->cli, "--workers is %llu: at most 4096",
                         (unsigned long long)bench->workers);
    return -1;
}

int cmd_bench(struct cli *cli, int argc, char **argv)
{
    struct bench bench = {.cli = cli,
                          .batch_size = 64,
                          .workers = 2,
                          .epochs = 3,
                          .operation = "rrc224",
                          .device = "cpu",
                          .on_error = "stop"};
    const struct cli_option options[] = {
        CLI_GROUP("what is measured"),
        {"batch-size", 'b', CLI_COUNT, &bench.batch_size, "N", "64", "samples per batch"},
        {"workers", 'w', CLI_COUNT, &bench.workers, "N", "2",
         "decoding threads; 0: the calling thread does it all"},
        {"epochs", 'e', CLI_COUNT, &bench.epochs, "N", "3",
         "epochs measured, after one that is not"},
        {"op", 0, CLI_TEXT, &bench.operation, "rrc224|crop768|none", "rrc224",
         "rrc224: RandomResizedCrop(224), crop768: RandomCrop(768), each with flip, normalise, f32 "
         "NCHW; none: whole images"},
        {"device", 0, CLI_TEXT, &bench.device, "cpu|cuda|cuda:N", "cpu", "where batches go"},
        {"seed", 0, CLI_COUNT, &bench.seed, "N", "0", "of order and augmentation"},
        {"host-memory", 0, CLI_SIZE, &bench.host_memory, "SIZE", "4GiB", "limit of the loader"},
        {"on-error", 0, CLI_TEXT, &bench.on_error, "stop|skip", "stop",
         "what a bad image does; skip: leave it out"},
        CLI_SOURCE_OPTIONS(bench.source, 0),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "bench PATH [options]",
        .about = "Loads the data set in shuffled order with the usual chain of operations, batch "
                 "after batch, as a\n"
                 "training run with a model that costs nothing would.",
        .example = "penstock bench photos.pst --workers 8 --op rrc224\n"
                   "penstock bench photos.pst --device cuda --batch-size 256",
        .options = options,
        .n_min = 1,
        .n_max = 1,
    };
    const char *operands[4] = {0};
    struct pst_error err;
    int exit_status = cli_parse(cli, &command, argc, argv, operands);
    if (exit_status < 0)
        exit_status = check(&bench);
    if (exit_status >= 0)
        return exit_status;
    cli_catch_interrupt();
    pst_error_clear(&err);
    if (cli_open(cli, operands[0], &bench.source, &bench.dataset, &err) != PST_OK)
        return cli_fail(cli, &err);
    exit_status = run_bench(&bench);
    pst_loader_close(&bench.loader);
    pst_dataset_close(&bench.dataset);
    free(bench.rates);
    return exit_status;
}
