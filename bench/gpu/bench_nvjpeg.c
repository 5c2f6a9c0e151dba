/* bench_nvjpeg.c - JPEG files by nvJPEG: how far its pixels are from the CPU's, and its rates.
 *
 *     bench_nvjpeg [--ordinal N] [--threads 8] [--seconds 2] [--each] [--most-mean LEVELS]
 *                  [--json FILE] FOLDER
 *
 * In: the .jpg and .jpeg files of FOLDER. Out: for either way of nvJPEG (lanes: Huffman codes by
 * the host; engines: all by the GPU's JPEG engines, where it has some) the greatest and the mean
 * difference of samples from libjpeg-turbo's, over all files and, with --each, of each; how many
 * files it takes; images/s of `threads` threads with two lanes each, and of the engines with
 * batches of all files; and of the CPU's decoder with as many threads. With --most-mean the exit
 * status is 1 if a mean over all files is greater.
 *
 * It sees rooms besides the front door, because it times what lies inside a loader. */
#include "gpu_support.h"

#include "base/clock.h"
#include "decode/decode.h"
#include "device/device.h"
#include "device/device_nvjpeg.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_FILES = 4096, MAX_THREADS = 64, N_LANES = 2 };

struct file {
    char *name;
    unsigned char *bytes, *pixels; /* the CPU's pixels, as stored */
    size_t nbytes, pixels_nbytes;
    struct psti_nvjpeg_file header;
    bool taken, suits_engines;
};

/* Differences over files, of lanes or of engines. */
struct parity {
    uint32_t n_files, worst;
    double n_samples, sum, n_equal;
    char worst_file[256];
};

struct bench {
    struct psti_device *device;
    struct psti_nvjpeg *nvjpeg;
    struct psti_stream *stream; /* guarded by lock */
    pthread_mutex_t lock;
    struct file files[MAX_FILES];
    uint32_t n_files, n_threads;
    double seconds, most_mean;
    bool each;
    uint64_t room; /* memory on the GPU for the largest picture, per lane of each thread */
    size_t picture_nbytes;
    atomic_uint next;
    atomic_bool stop;
};

static const struct psti_nvjpeg_options no_options;
static const struct pst_decode_options as_stored = {.struct_size = sizeof as_stored,
                                                    .ignore_orientation = true};

/* Files
 * ------------------------------------------------------------------------------------------------
 */

/* Decodes into `pixels`, of the size that the file says. False: the CPU's decoder rejects the file.
 */
static bool decode_here(struct psti_decoder *decoder, const struct file *file, void *pixels)
{
    struct pst_image_info info = {0};
    if (psti_decode_probe(decoder, file->bytes, file->nbytes, PST_FORM_JPEG, &as_stored, &info,
                          NULL) != PST_OK)
        return false;
    const struct psti_rect whole = {0, 0, info.height, info.width};
    return psti_decode_region(decoder, file->bytes, file->nbytes, &info, &as_stored, &whole, pixels,
                              (size_t)info.width * info.channels, NULL) == PST_OK;
}

static void look_at(struct bench *bench, struct psti_decoder *decoder,
                    struct psti_nvjpeg_lane *lane, struct file *file)
{
    struct pst_error err;
    const char *why;
    file->taken = psti_device_nvjpeg_takes(file->bytes, file->nbytes, &file->header, &why);
    if (!file->taken) {
        if (bench->each)
            printf("%-40s not taken: %s\n", file->name, why);
        return;
    }
    file->pixels_nbytes = (size_t)file->header.height * file->header.width * file->header.channels;
    file->pixels = claim(file->pixels_nbytes);
    file->taken = decode_here(decoder, file, file->pixels);
    check(psti_device_nvjpeg_lane_suits_engines(lane, file->bytes, file->nbytes, &file->header,
                                                &file->suits_engines, &err),
          file->name, &err);
    if (file->taken && file->pixels_nbytes > bench->picture_nbytes)
        bench->picture_nbytes = file->pixels_nbytes;
}

static void add_file(struct bench *bench, const char *folder, const char *name)
{
    struct file *file = &bench->files[bench->n_files++];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file->name = strdup(name);
    file->bytes = read_file(path, &file->nbytes);
}

static void read_folder(struct bench *bench, const char *path)
{
    DIR *folder = opendir(path);
    if (!folder)
        fail(path, NULL);
    for (struct dirent *entry; bench->n_files < MAX_FILES && (entry = readdir(folder)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0))
            add_file(bench, path, entry->d_name);
    }
    closedir(folder);
    if (bench->n_files == 0)
        fail("no .jpg files", NULL);
}

/* Parity
 * ------------------------------------------------------------------------------------------------
 */

static void compare(const struct bench *bench, const struct file *file, const unsigned char *found,
                    const char *way, struct parity *parity)
{
    uint32_t worst = 0;
    double sum = 0, n_equal = 0;
    for (size_t i = 0; i < file->pixels_nbytes; i++) {
        uint32_t difference = (uint32_t)abs((int)found[i] - (int)file->pixels[i]);
        worst = difference > worst ? difference : worst;
        sum += difference;
        n_equal += difference == 0;
    }
    double n = (double)file->pixels_nbytes;
    if (bench->each)
        printf("%-40s %-8s greatest %3u, mean %.4f, equal %.2f %%\n", file->name, way, worst,
               sum / n, 100 * n_equal / n);
    if (parity->n_files == 0 || worst > parity->worst)
        snprintf(parity->worst_file, sizeof parity->worst_file, "%s", file->name);
    parity->worst = worst > parity->worst ? worst : parity->worst;
    parity->n_files++;
    parity->n_samples += n;
    parity->sum += sum;
    parity->n_equal += n_equal;
}

static void download(struct bench *bench, void *to, uint64_t from, size_t nbytes)
{
    struct pst_error err;
    check(psti_device_stream_download(bench->stream, to, from, nbytes, &err), "download", &err);
    check(psti_device_stream_sync(bench->stream, &err), "the GPU", &err);
}

static enum pst_status decode_in_batch(struct bench *bench, struct psti_nvjpeg_batch *batch,
                                       const struct file *file, struct pst_error *err)
{
    const struct psti_nvjpeg_item item = {file->bytes, file->nbytes, bench->room,
                                          (size_t)file->header.width * file->header.channels};
    return psti_device_nvjpeg_batch_submit(batch, bench->stream, &item, 1, file->header.channels,
                                           err);
}

static enum pst_status decode_in_lane(struct bench *bench, struct psti_nvjpeg_lane *lane,
                                      const struct file *file, uint64_t to, struct pst_error *err)
{
    enum pst_status status =
        psti_device_nvjpeg_lane_begin(lane, file->bytes, file->nbytes, &file->header, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_lock(&bench->lock);
    status = psti_device_nvjpeg_lane_submit(
        lane, bench->stream, to, (size_t)file->header.width * file->header.channels, err);
    pthread_mutex_unlock(&bench->lock);
    return status;
}

static void measure_parity(struct bench *bench, struct psti_nvjpeg_lane *lane,
                           struct psti_nvjpeg_batch *batch, struct parity parities[2])
{
    struct pst_error err;
    void *found;
    check(psti_device_alloc_pinned(bench->device, bench->picture_nbytes, &found, &err),
          "pinned memory", &err);
    for (uint32_t i = 0; i < bench->n_files; i++) {
        struct file *file = &bench->files[i];
        for (int way = 0; way < 2 && file->taken; way++) {
            if (way == 1 && (!batch || !file->suits_engines))
                continue;
            check(psti_device_stream_clear(bench->stream, bench->room, file->pixels_nbytes, &err),
                  "clear", &err);
            enum pst_status status = way == 0 ? decode_in_lane(bench, lane, file, bench->room, &err)
                                              : decode_in_batch(bench, batch, file, &err);
            if (status != PST_OK) {
                printf("%-40s refused: %s\n", file->name, err.text);
                file->taken = file->taken && way == 1;
                file->suits_engines = false;
                continue;
            }
            download(bench, found, bench->room, file->pixels_nbytes);
            compare(bench, file, found, way ? "engines" : "lanes", &parities[way]);
        }
    }
    psti_device_free_pinned(bench->device, found, bench->picture_nbytes);
}

/* Rates
 * ------------------------------------------------------------------------------------------------
 */

struct worker {
    struct bench *bench;
    pthread_t thread;
    uint32_t number;
    bool by_cpu;
    uint64_t n;
};

static struct file *next_file(struct bench *bench)
{
    for (;;) {
        struct file *file = &bench->files[atomic_fetch_add(&bench->next, 1) % bench->n_files];
        if (file->taken)
            return file;
    }
}

static void *work_by_cpu(void *arg)
{
    struct worker *worker = arg;
    struct bench *bench = worker->bench;
    struct psti_decoder *decoder;
    struct pst_error err;
    void *pixels = claim(bench->picture_nbytes);
    check(psti_decode_open(&decoder, &err), "decoder", &err);
    for (; !atomic_load(&bench->stop); worker->n++)
        (void)decode_here(decoder, next_file(bench), pixels);
    psti_decode_close(&decoder);
    free(pixels);
    return NULL;
}

static void *work_by_lanes(void *arg)
{
    struct worker *worker = arg;
    struct bench *bench = worker->bench;
    struct psti_nvjpeg_lane *lanes[N_LANES];
    struct pst_error err;
    uint64_t to = bench->room + (uint64_t)worker->number * N_LANES * bench->picture_nbytes;
    for (int i = 0; i < N_LANES; i++)
        check(psti_device_nvjpeg_lane_open(bench->nvjpeg, &lanes[i], &err), "lane", &err);
    for (; !atomic_load(&bench->stop); worker->n++) {
        uint32_t i = worker->n % N_LANES;
        check(
            decode_in_lane(bench, lanes[i], next_file(bench), to + i * bench->picture_nbytes, &err),
            "decoding", &err);
    }
    for (int i = 0; i < N_LANES; i++)
        psti_device_nvjpeg_lane_close(&lanes[i]);
    return NULL;
}

/* Images/s of all threads together. */
static double time_threads(struct bench *bench, void *(*body)(void *))
{
    struct worker workers[MAX_THREADS];
    uint64_t n = 0;
    atomic_store(&bench->stop, false);
    int64_t start = psti_clock_ns();
    for (uint32_t i = 0; i < bench->n_threads; i++) {
        workers[i] = (struct worker){.bench = bench, .number = i};
        if (pthread_create(&workers[i].thread, NULL, body, &workers[i]) != 0)
            fail("no thread", NULL);
    }
    psti_clock_sleep_until(start + (int64_t)(bench->seconds * 1e9));
    atomic_store(&bench->stop, true);
    for (uint32_t i = 0; i < bench->n_threads; i++) {
        pthread_join(workers[i].thread, NULL);
        n += workers[i].n;
    }
    return (double)n / ((double)(psti_clock_ns() - start) / 1e9);
}

/* Images/s of batches of all files of three channels that the engines take; 0: there are none. */
static double time_engines(struct bench *bench, struct psti_nvjpeg_batch *batch)
{
    struct psti_nvjpeg_item *items = claim(bench->n_files * sizeof *items);
    struct pst_error err;
    uint64_t nbytes = 0, at = 0, n_done = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < bench->n_files; i++)
        nbytes += bench->files[i].pixels_nbytes;
    check(psti_device_alloc(bench->device, nbytes + 1, &at, &err), "memory", &err);
    uint64_t to = at;
    for (uint32_t i = 0; i < bench->n_files; i++) {
        const struct file *file = &bench->files[i];
        if (!file->taken || !file->suits_engines || file->header.channels != 3)
            continue;
        items[n++] = (struct psti_nvjpeg_item){file->bytes, file->nbytes, to,
                                               3 * (size_t)file->header.width};
        to += file->pixels_nbytes;
    }
    int64_t start = psti_clock_ns(), end = start;
    while (n > 0 && (double)(end - start) < bench->seconds * 1e9) {
        check(psti_device_nvjpeg_batch_submit(batch, bench->stream, items, n, 3, &err), "engines",
              &err);
        check(psti_device_stream_sync(bench->stream, &err), "the GPU", &err);
        n_done += n;
        end = psti_clock_ns();
    }
    psti_device_free(bench->device, at, nbytes + 1);
    free(items);
    return n > 0 ? (double)n_done / ((double)(end - start) / 1e9) : 0;
}

/* The program
 * ------------------------------------------------------------------------------------------------
 */

static void say(FILE *json, const char *way, const struct parity *p, double rate)
{
    double n = p->n_samples > 0 ? p->n_samples : 1;
    printf(
        "%-8s %4u files: greatest difference %3u (%s), mean %.4f, equal %.2f %%; %.0f images/s\n",
        way, p->n_files, p->worst, p->worst_file, p->sum / n, 100 * p->n_equal / n, rate);
    if (json)
        fprintf(json,
                ", \"%s\": {\"files\": %u, \"greatest\": %u, \"mean\": %.6f, \"equal\": %.6f, "
                "\"images_per_s\": %.1f}",
                way, p->n_files, p->worst, p->sum / n, p->n_equal / n, rate);
}

static bool run(struct bench *bench, const char *folder, FILE *json)
{
    struct psti_device_nvjpeg_info info;
    struct psti_device_info gpu;
    struct psti_nvjpeg_lane *lane;
    struct psti_nvjpeg_batch *batch = NULL;
    struct psti_decoder *decoder;
    struct parity parities[2] = {0};
    struct pst_error err;
    psti_device_nvjpeg_info(bench->nvjpeg, &info);
    psti_device_info(bench->device, &gpu);
    check(psti_decode_open(&decoder, &err), "decoder", &err);
    check(psti_device_nvjpeg_lane_open(bench->nvjpeg, &lane, &err), "lane", &err);
    read_folder(bench, folder);
    for (uint32_t i = 0; i < bench->n_files; i++)
        look_at(bench, decoder, lane, &bench->files[i]);
    if (bench->picture_nbytes == 0)
        fail("no file that both decoders take", NULL);
    size_t room = (size_t)bench->n_threads * N_LANES * bench->picture_nbytes;
    check(psti_device_alloc(bench->device, room, &bench->room, &err), "memory", &err);
    if (info.n_engines)
        check(psti_device_nvjpeg_batch_open(bench->nvjpeg, bench->n_files, &batch, &err), "batch",
              &err);
    printf("%s; nvJPEG %u.%u.%u, %u engines, chroma %s; %u files\n", gpu.name, info.library.major,
           info.library.minor, info.library.patch, info.n_engines,
           info.interpolates ? "interpolated" : "repeated", bench->n_files);
    if (json)
        fprintf(json,
                "{\"what\": \"nvjpeg\", \"gpu\": \"%s\", \"version\": \"%u.%u.%u\", "
                "\"engines\": %u, \"interpolates\": %s, \"files\": %u, \"threads\": %u",
                gpu.name, info.library.major, info.library.minor, info.library.patch,
                info.n_engines, info.interpolates ? "true" : "false", bench->n_files,
                bench->n_threads);
    measure_parity(bench, lane, batch, parities);
    if (parities[0].n_files == 0)
        fail("nvJPEG took no file", NULL);
    say(json, "lanes", &parities[0], time_threads(bench, work_by_lanes));
    psti_device_nvjpeg_info(bench->nvjpeg, &info);
    printf("         nvJPEG has %.1f MB on the GPU and %.1f MB pinned, by %" PRIu64
           " allocations\n",
           (double)info.memory_nbytes / 1e6, (double)info.host_memory_nbytes / 1e6,
           info.n_allocations);
    if (batch)
        say(json, "engines", &parities[1], time_engines(bench, batch));
    double cpu = time_threads(bench, work_by_cpu);
    printf("CPU      %u threads: %.0f images/s\n", bench->n_threads, cpu);
    if (json)
        fprintf(json, ", \"cpu_images_per_s\": %.1f}\n", cpu);
    psti_device_nvjpeg_batch_close(&batch);
    psti_device_nvjpeg_lane_close(&lane);
    psti_decode_close(&decoder);
    psti_device_free(bench->device, bench->room, room);
    bool good = true;
    for (int i = 0; i < 2; i++)
        good &= bench->most_mean <= 0 || parities[i].n_samples <= 0 ||
                parities[i].sum / parities[i].n_samples <= bench->most_mean;
    return good;
}

int main(int argc, char **argv)
{
    static struct bench bench = {.n_threads = 8, .seconds = 2};
    struct psti_device_options options = {0};
    const char *json = NULL, *folder = NULL;
    struct pst_error err;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--each") == 0)
            bench.each = true;
        else if (more && strcmp(argv[i], "--ordinal") == 0)
            options.ordinal = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--threads") == 0)
            bench.n_threads = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--seconds") == 0)
            bench.seconds = strtod(argv[++i], NULL);
        else if (more && strcmp(argv[i], "--most-mean") == 0)
            bench.most_mean = strtod(argv[++i], NULL);
        else if (more && strcmp(argv[i], "--json") == 0)
            json = argv[++i];
        else
            folder = argv[i];
    }
    if (!folder || bench.n_threads == 0 || bench.n_threads > MAX_THREADS)
        fail("bench_nvjpeg [--ordinal N] [--threads N] [--seconds S] [--each] "
             "[--most-mean LEVELS] [--json FILE] FOLDER",
             NULL);
    pthread_mutex_init(&bench.lock, NULL);
    check(psti_device_open(&options, &bench.device, &err), "no GPU", &err);
    check(psti_device_stream_open(bench.device, false, &bench.stream, &err), "stream", &err);
    check(psti_device_nvjpeg_open(bench.device, &no_options, &bench.nvjpeg, &err), "no nvJPEG",
          &err);
    FILE *out = json ? fopen(json, "w") : NULL;
    if (json && !out)
        fail(json, NULL);
    bool good = run(&bench, folder, out);
    if (out && fclose(out) != 0)
        fail(json, NULL);
    for (uint32_t i = 0; i < bench.n_files; i++) {
        free(bench.files[i].name);
        free(bench.files[i].bytes);
        free(bench.files[i].pixels);
    }
    psti_device_nvjpeg_close(&bench.nvjpeg);
    psti_device_stream_close(&bench.stream);
    psti_device_close(&bench.device);
    return good ? 0 : 1;
}
