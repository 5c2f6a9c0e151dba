/* bench_loader_raw.c - the cost of the loader itself: raw pixels from memory into batches,
 * against a plain memcpy of the same bytes by as many threads.
 *
 *     bench_loader_raw [--json FILE] [--samples N] [--seconds S]
 *
 * Samples are 224x224x3 raw, all in memory, shuffled; batches of 64, 128 and 256; 1 and 2 workers.
 * Loader and memcpy take the same samples in random order, and both cycle through the same number
 * of batch buffers. The loader's output is compared first. The two take turns, and the figures are
 * medians of their rounds. */
#include <penstock/penstock.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIDE 224
#define SAMPLE_NBYTES ((size_t)SIDE * SIDE * 3)
#define PREFETCH 2
#define ROUNDS 7

struct setting {
    uint32_t batch_size, n_workers;
    double loader, copy; /* bytes per second */
};

static struct pst_error err;

static void die(const char *what)
{
    char line[2048];
    pst_error_format(&err, line, sizeof line);
    fprintf(stderr, "bench_loader_raw: %s: %s\n", what, line);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(uint32_t i, uint8_t *pixels)
{
    uint32_t x = i * 2654435761u + 1;
    for (size_t k = 0; k < SAMPLE_NBYTES; k++) {
        x = x * 1664525u + 1013904223u;
        pixels[k] = (uint8_t)(x >> 24);
    }
}

static void write_data(const char *path, uint32_t n, uint8_t *all)
{
    struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    pst_writer *writer;
    if (pst_writer_open(path, &field, 1, NULL, &writer, &err) != PST_OK)
        die("writer");
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        uint8_t *pixels = all + i * SAMPLE_NBYTES;
        fill(i, pixels);
        struct pst_value value = {.bytes = pixels,
                                  .nbytes = SAMPLE_NBYTES,
                                  .form = PST_FORM_RAW,
                                  .height = SIDE,
                                  .width = SIDE,
                                  .channels = 3,
                                  .bits = 8};
        const struct pst_value *values[1] = {&value};
        snprintf(name, sizeof name, "%u", i);
        if (pst_writer_add(writer,
                           &(struct pst_sample){.struct_size = sizeof(struct pst_sample),
                                                .value_nbytes = sizeof(struct pst_value),
                                                .name = name,
                                                .values = values},
                           &err) != PST_OK)
            die("add");
    }
    if (pst_writer_finish(writer, &err) != PST_OK)
        die("finish");
    pst_writer_close(&writer);
}

static pst_loader *open_loader(pst_dataset *dataset, const struct setting *setting)
{
    const struct pst_loader_options options = {.struct_size = sizeof options,
                                               .batch_size = setting->batch_size,
                                               .order = PST_ORDER_SHUFFLED,
                                               .num_workers = setting->n_workers,
                                               .prefetch = PREFETCH,
                                               .storage = PST_STORAGE_MEMORY};
    pst_loader *loader;
    if (pst_loader_open(dataset, &options, &loader, &err) != PST_OK)
        die("open");
    return loader;
}

/* Runs one epoch. If `all` is set, compares every byte. Returns the number of bytes delivered. */
static size_t run_epoch(pst_loader *loader, uint64_t epoch, const uint8_t *all)
{
    pst_batch *batch;
    size_t nbytes = 0;
    enum pst_status status;
    if (pst_loader_begin(loader, epoch, &err) != PST_OK)
        die("begin");
    while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK) {
        struct pst_tensor tensor;
        if (pst_batch_tensor(batch, 0, &tensor, sizeof tensor, NULL) != PST_OK)
            die("the batch is not one tensor");
        for (uint32_t i = 0; all && i < pst_batch_count(batch); i++)
            if (memcmp((uint8_t *)tensor.data + i * SAMPLE_NBYTES,
                       all + (size_t)pst_batch_index(batch)[i] * SAMPLE_NBYTES, SAMPLE_NBYTES)) {
                fprintf(stderr, "bench_loader_raw: sample %lld is wrong\n",
                        (long long)pst_batch_index(batch)[i]);
                exit(1);
            }
        nbytes += pst_batch_count(batch) * SAMPLE_NBYTES;
        pst_batch_release(batch);
    }
    if (status != PST_END)
        die("next");
    return nbytes;
}

static double time_loader(pst_loader *loader, double seconds)
{
    double start = now(), end;
    size_t nbytes = 0;
    uint64_t epoch = 0;
    do {
        nbytes += run_epoch(loader, epoch++, NULL);
        end = now();
    } while (end - start < seconds);
    return (double)nbytes / (end - start);
}

/* A thread of the plain copy: copies its rows of each batch. */
struct copier {
    const uint8_t *all;
    uint8_t **slots;
    const uint32_t *order;
    uint32_t n, batch_size, first, stride, n_slots;
    double seconds;
    size_t nbytes;
};

static void *copy(void *arg)
{
    struct copier *c = arg;
    double start = now();
    do {
        for (uint32_t i = c->first; i < c->n; i += c->stride) {
            uint32_t slot = i / c->batch_size % c->n_slots;
            memcpy(c->slots[slot] + (size_t)(i % c->batch_size) * SAMPLE_NBYTES,
                   c->all + c->order[i] * SAMPLE_NBYTES, SAMPLE_NBYTES);
            c->nbytes += SAMPLE_NBYTES;
        }
    } while (now() - start < c->seconds);
    return NULL;
}

static double time_copy(const struct setting *setting, const uint8_t *all, uint8_t **slots,
                        uint32_t n_slots, const uint32_t *order, uint32_t n, double seconds)
{
    struct copier copiers[8];
    pthread_t threads[8];
    double start = now();
    size_t nbytes = 0;
    for (uint32_t t = 0; t < setting->n_workers; t++) {
        copiers[t] = (struct copier){.all = all,
                                     .slots = slots,
                                     .n_slots = n_slots,
                                     .order = order,
                                     .n = n,
                                     .batch_size = setting->batch_size,
                                     .first = t,
                                     .stride = setting->n_workers,
                                     .seconds = seconds};
        if (pthread_create(&threads[t], NULL, copy, &copiers[t]) != 0)
            exit(1);
    }
    for (uint32_t t = 0; t < setting->n_workers; t++) {
        pthread_join(threads[t], NULL);
        nbytes += copiers[t].nbytes;
    }
    return (double)nbytes / (now() - start);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static void measure(pst_dataset *dataset, struct setting *setting, const uint8_t *all,
                    const uint32_t *order, uint32_t n, double seconds)
{
    uint8_t *slots[PREFETCH + 1];
    double loads[ROUNDS], copies[ROUNDS];
    pst_loader *loader = open_loader(dataset, setting);
    run_epoch(loader, 1000, all); /* the first epoch compares the output, and warms up */
    for (int i = 0; i <= PREFETCH; i++) {
        slots[i] = aligned_alloc(4096, (setting->batch_size * SAMPLE_NBYTES + 4095) / 4096 * 4096);
        memset(slots[i], 0, setting->batch_size * SAMPLE_NBYTES);
    }
    for (int round = 0; round < ROUNDS; round++) {
        double a = time_loader(loader, seconds / ROUNDS);
        double b = time_copy(setting, all, slots, 1, order, n, seconds / ROUNDS);
        double c = time_copy(setting, all, slots, PREFETCH + 1, order, n, seconds / ROUNDS);
        loads[round] = a;
        copies[round] = b > c ? b : c;
    }
    setting->loader = median(loads);
    setting->copy = median(copies);
    for (int i = 0; i <= PREFETCH; i++)
        free(slots[i]);
    pst_loader_close(&loader);
}

static void write_json(const char *path, const struct setting *settings, size_t n, uint32_t samples)
{
    char environment[4096], commit[64] = "";
    FILE *git = popen("git rev-parse --short HEAD 2>/dev/null", "r");
    if (git) {
        if (!fgets(commit, sizeof commit, git))
            commit[0] = '\0';
        commit[strcspn(commit, "\n")] = '\0';
        pclose(git);
    }
    pst_environment_json(environment, sizeof environment);
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        exit(1);
    }
    fprintf(file, "{\"bench\": \"loader_raw\", \"commit\": \"%s\", \"environment\": %s,\n", commit,
            environment);
    fprintf(file, " \"samples\": %u, \"sample_nbytes\": %zu, \"results\": [", samples,
            SAMPLE_NBYTES);
    for (size_t i = 0; i < n; i++)
        fprintf(
            file,
            "%s\n  {\"batch_size\": %u, \"num_workers\": %u, \"loader_bytes_per_second\": %.0f, "
            "\"memcpy_bytes_per_second\": %.0f, \"ratio\": %.4f}",
            i ? "," : "", settings[i].batch_size, settings[i].n_workers, settings[i].loader,
            settings[i].copy, settings[i].loader / settings[i].copy);
    fprintf(file, "]}\n");
    fclose(file);
}

int main(int argc, char **argv)
{
    struct setting settings[] = {{64, 1, 0, 0}, {128, 1, 0, 0}, {256, 1, 0, 0},
                                 {64, 2, 0, 0}, {128, 2, 0, 0}, {256, 2, 0, 0}};
    const char *json = NULL;
    uint32_t n = 1024;
    double seconds = 2;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--json") == 0)
            json = argv[i + 1];
        else if (strcmp(argv[i], "--samples") == 0)
            n = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
    }
    char directory[] = "/tmp/pst-bench-XXXXXX", path[64], command[96];
    if (n == 0 || !mkdtemp(directory))
        return 1;
    snprintf(path, sizeof path, "%s/data", directory);
    uint8_t *all = malloc(n * SAMPLE_NBYTES);
    uint32_t *order = malloc(n * sizeof *order);
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i-- > 1;) {
        uint32_t k = (uint32_t)random() % (i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    write_data(path, n, all);
    pst_dataset *dataset;
    if (pst_dataset_open(path, NULL, &dataset, &err) != PST_OK)
        die("data set");
    printf("raw 224x224x3 from memory, %u samples, shuffled; output checked\n", n);
    printf("%6s %8s %14s %14s %7s\n", "batch", "workers", "loader GB/s", "memcpy GB/s", "ratio");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct setting *s = &settings[i];
        measure(dataset, s, all, order, n, seconds);
        printf("%6u %8u %14.2f %14.2f %7.3f\n", s->batch_size, s->n_workers, s->loader / 1e9,
               s->copy / 1e9, s->loader / s->copy);
        fflush(stdout);
    }
    if (json)
        write_json(json, settings, sizeof settings / sizeof *settings, n);
    pst_dataset_close(&dataset);
    free(all);
    free(order);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) == 0 ? 0 : 1;
}
