/* bench_augment.c - nanoseconds per output pixel of chains, and images per second of
 * RandomResizedCrop, per CPU level.
 *
 *     bench_augment [--json FILE]
 *     bench_augment --crops [SECONDS [LINE]]
 *
 * It calls internal functions of src/augment to choose CPU levels within one process. It checks
 * first that all levels give the same bytes. Source pixels are in the CPU's cache, as they are when
 * a decoder has just written them. Outputs cycle through 256 MiB of batch memory, as in a loader.
 * Figures are medians of 9 runs.
 *
 * --crops makes the second table alone, one line for each source size, dtype and level:
 *
 *     SOURCE DTYPE LEVEL IMAGES/S MICROSECONDS/IMAGE CHECKSUM
 *
 * Each line takes SECONDS (0.4 by default). LINE, such as "500x375 u8 avx2", chooses one.
 * bench/second_half.py runs two builds in turns. */
#include <augment/augment_int.h>
#include <base/machine/cpu.h>

#include <penstock/penstock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 9, BAND = 8, N_CASES = 8, N_LEVELS = 3 };
#define SLOTS_NBYTES ((size_t)256 << 20)

static const char *const names[N_LEVELS] = {"c", "avx2", "avx512"};
static const uint32_t levels[N_LEVELS] = {0, PSTI_CPU_AVX2,
                                          PSTI_CPU_AVX2 | PSTI_CPU_AVX512 | PSTI_CPU_AVX512_ICL};

struct bench_case {
    const char *name;
    uint32_t height, width;
    struct pst_op ops[4];
    size_t n_ops;
    struct psti_chain_output format;
};

static struct pst_op make_op(enum pst_op_kind kind, uint32_t height, uint32_t width)
{
    struct pst_op op;
    pst_op_init(&op, sizeof op, kind);
    op.height = height;
    op.width = width;
    op.p = 1;
    for (int c = 0; c < 3; c++) {
        op.mean[c] = 0.45f;
        op.std[c] = 0.225f;
    }
    return op;
}

/* Makes a ColorJitter whose factors are fixed, to make all runs do the same work. */
static struct pst_op make_jitter(float brightness, float contrast, float saturation, float hue)
{
    struct pst_op op = make_op(PST_OP_COLOR_JITTER, 0, 0);
    op.brightness[0] = op.brightness[1] = brightness;
    op.contrast[0] = op.contrast[1] = contrast;
    op.saturation[0] = op.saturation[1] = saturation;
    op.hue[0] = op.hue[1] = hue;
    return op;
}

static void make_cases(struct bench_case cases[N_CASES])
{
    const struct psti_chain_output planar = {PST_DTYPE_F32, PST_LAYOUT_CHW, 3, 8, false};
    const struct psti_chain_output bytes = {PST_DTYPE_U8, PST_LAYOUT_HWC, 3, 8, false};
    struct psti_chain_output half = planar;
    half.dtype = PST_DTYPE_F16;
    struct pst_op flip = make_op(PST_OP_HORIZONTAL_FLIP, 0, 0);
    struct pst_op normalize = make_op(PST_OP_NORMALIZE, 0, 0);
    struct pst_op resize = make_op(PST_OP_RESIZE, 224, 224);
    struct pst_op cubic = resize;
    cubic.interpolation = PST_INTERPOLATION_BICUBIC;
    cases[0] = (struct bench_case){"crop 400x350, bilinear 224, flip, normalise, f32 CHW",
                                   350,
                                   400,
                                   {resize, flip, normalize},
                                   3,
                                   planar};
    cases[1] =
        (struct bench_case){"the same, f16 CHW", 350, 400, {resize, flip, normalize}, 3, half};
    cases[2] = (struct bench_case){"the same, bicubic, f32 CHW", 350, 400,
                                   {cubic, flip, normalize},     3,   planar};
    cases[3] =
        (struct bench_case){"crop 400x350, bilinear 224, u8 HWC", 350, 400, {resize}, 1, bytes};
    cases[4] = (struct bench_case){
        "crop 768x768, flip, normalise, f32 CHW", 768, 768, {flip, normalize}, 2, planar};
    cases[5] = (struct bench_case){"768x768 as it is, u8 HWC", 768, 768, {flip}, 0, bytes};
    cases[6] = (struct bench_case){"300x300, hue, u8 HWC",        300, 300,
                                   {make_jitter(1, 1, 1, 0.05f)}, 1,   bytes};
    cases[7] = (struct bench_case){"300x300, ColorJitter of all four, u8 HWC", 300, 300,
                                   {make_jitter(1.1f, 1.3f, 0.8f, 0.05f)},     1,   bytes};
}

struct stage {
    struct psti_chain *chain;
    struct psti_run *run;
    struct psti_draw draw;
    size_t slot_nbytes, row_nbytes;
};

static void die(const struct pst_error *err)
{
    fprintf(stderr, "bench_augment: %s\n", err->text);
    exit(1);
}

static void stage_open(struct stage *s, const struct bench_case *c, uint32_t features)
{
    struct pst_error err;
    pst_error_clear(&err);
    if (psti_augment_compile(c->ops, c->n_ops, &c->format, features, false, &s->chain, &err) !=
            PST_OK ||
        psti_augment_run_open(&s->run, &err) != PST_OK ||
        psti_augment_chain_draw(s->chain, &(struct psti_draw_key){.seed = 1, .sample = 0},
                                c->height, c->width, &s->draw, &err) != PST_OK)
        die(&err);
    s->slot_nbytes = psti_augment_chain_output_nbytes(s->chain, &s->draw);
    s->row_nbytes = (size_t)s->draw.out_width *
                    pst_dtype_nbytes(psti_augment_chain_dtype(s->chain)) *
                    (c->format.layout == PST_LAYOUT_CHW ? 1 : c->format.channels);
}

/* Augments one sample. Each sample has new random numbers, as in a loader. */
static void stage_run(struct stage *s, const struct bench_case *c, const unsigned char *source,
                      unsigned char *slot)
{
    struct pst_error err;
    struct psti_target target = {slot, s->row_nbytes};
    size_t row = (size_t)c->width * 3;
    pst_error_clear(&err);
    if (psti_augment_chain_draw(s->chain, &(struct psti_draw_key){.seed = 1, .sample = 0},
                                c->height, c->width, &s->draw, &err) != PST_OK ||
        psti_augment_run_begin(s->run, s->chain, &s->draw, &target, &err) != PST_OK)
        die(&err);
    for (uint32_t y = 0; y < c->height; y += BAND) {
        uint32_t n = c->height - y < BAND ? c->height - y : BAND;
        (void)psti_augment_run_rows(s->run, source + y * row, row, y, n);
    }
    if (psti_augment_run_end(s->run, &err) != PST_OK)
        die(&err);
}

/* Returns the CPU seconds of this thread: wall time would include the time of other programs. */
static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}

/* Returns milliseconds per sample. */
static double measure(struct stage *s, const struct bench_case *c, const unsigned char *source,
                      unsigned char *slots)
{
    double times[RUNS];
    size_t n_slots = SLOTS_NBYTES / s->slot_nbytes, at = 0;
    for (int i = 0; i < RUNS; i++) {
        uint32_t n = 0;
        int64_t start = cpu_ns(), now;
        do {
            stage_run(s, c, source, slots + at * s->slot_nbytes);
            at = (at + 1) % n_slots;
            n++;
            now = cpu_ns();
        } while (now - start < 100000000);
        times[i] = (double)(now - start) / 1e6 / n;
    }
    qsort(times, RUNS, sizeof times[0], compare);
    return times[RUNS / 2];
}

/* Random crops
 * ---------------------------------------------------------------------------------------- */

enum { N_SIZES = 2, N_DTYPES = 3, N_DRAWS = 64, CROP_BAND = 16 };

static const uint32_t sizes[N_SIZES][2] = {{375, 500}, {1365, 2048}};

/* Makes the chain of the second table: RandomResizedCrop(224), a flip of every second image, and
 * Normalize if the output is floats. */
static struct bench_case crop_case(uint32_t i_size, uint32_t i_dtype)
{
    const enum pst_dtype dtypes[N_DTYPES] = {PST_DTYPE_U8, PST_DTYPE_F16, PST_DTYPE_F32};
    struct bench_case c = {
        .height = sizes[i_size][0],
        .width = sizes[i_size][1],
        .ops = {make_op(PST_OP_RANDOM_RESIZED_CROP, 224, 224),
                make_op(PST_OP_HORIZONTAL_FLIP, 0, 0), make_op(PST_OP_NORMALIZE, 0, 0)},
        .n_ops = i_dtype == 0 ? 2 : 3,
        .format = {dtypes[i_dtype], i_dtype == 0 ? PST_LAYOUT_HWC : PST_LAYOUT_CHW, 3, 8, false}};
    c.ops[1].p = 0.5f;
    return c;
}

/* Augments sample number `sample`. The rows of its region come in bands. All bands use the same
 * memory one after another, as those of a decoder do. */
static void crop_run(struct stage *s, const struct bench_case *c, uint64_t sample,
                     const unsigned char *source, unsigned char *slot)
{
    struct pst_error err;
    struct psti_target target = {slot, s->row_nbytes};
    pst_error_clear(&err);
    if (psti_augment_chain_draw(s->chain, &(struct psti_draw_key){.seed = 1, .sample = sample},
                                c->height, c->width, &s->draw, &err) != PST_OK ||
        psti_augment_run_begin(s->run, s->chain, &s->draw, &target, &err) != PST_OK)
        die(&err);
    size_t row = (size_t)s->draw.region_width * 3;
    for (uint32_t y = 0; y < s->draw.region_height; y += CROP_BAND) {
        uint32_t left = s->draw.region_height - y;
        (void)psti_augment_run_rows(s->run, source, row, y, left < CROP_BAND ? left : CROP_BAND);
    }
    if (psti_augment_run_end(s->run, &err) != PST_OK)
        die(&err);
}

/* Returns the seconds per image. It measures whole rounds of N_DRAWS samples. */
static double measure_crops(struct stage *s, const struct bench_case *c,
                            const unsigned char *source, unsigned char *slots, double seconds)
{
    double times[RUNS];
    size_t n_slots = SLOTS_NBYTES / s->slot_nbytes, at = 0;
    for (int i = 0; i < RUNS; i++) {
        uint32_t n = 0;
        int64_t start = cpu_ns(), now;
        do {
            for (uint64_t sample = 0; sample < N_DRAWS; sample++, n++) {
                crop_run(s, c, sample, source, slots + at * s->slot_nbytes);
                at = (at + 1) % n_slots;
            }
            now = cpu_ns();
        } while ((double)(now - start) < seconds / RUNS * 1e9);
        times[i] = (double)(now - start) / 1e9 / n;
    }
    qsort(times, RUNS, sizeof times[0], compare);
    return times[RUNS / 2];
}

static uint64_t checksum_of_crops(struct stage *s, const struct bench_case *c,
                                  const unsigned char *source, unsigned char *slot)
{
    uint64_t sum = 14695981039346656037ULL;
    for (uint64_t sample = 0; sample < N_DRAWS; sample++) {
        crop_run(s, c, sample, source, slot);
        for (size_t i = 0; i < s->slot_nbytes; i++)
            sum = (sum ^ slot[i]) * 1099511628211ULL;
    }
    return sum;
}

static int crops(const unsigned char *source, unsigned char *slots, double seconds,
                 const char *only)
{
    static const char *const dtypes[N_DTYPES] = {"u8", "f16", "f32"};
    for (uint32_t i = 0; i < N_SIZES * N_DTYPES; i++) {
        struct bench_case c = crop_case(i / N_DTYPES, i % N_DTYPES);
        uint64_t reference = 0;
        for (int k = 0; k < N_LEVELS; k++) {
            if ((levels[k] & ~psti_cpu_detected()) != 0)
                continue;
            struct stage s;
            stage_open(&s, &c, levels[k]);
            char line[64];
            snprintf(line, sizeof line, "%ux%u %s %s", c.width, c.height, dtypes[i % N_DTYPES],
                     names[k]);
            bool wanted = only == NULL ? k > 0 : strcmp(only, line) == 0;
            uint64_t sum =
                only == NULL || wanted ? checksum_of_crops(&s, &c, source, slots) : reference;
            reference = k == 0 ? sum : reference;
            if (only == NULL && sum != reference) {
                fprintf(stderr, "bench_augment: %s differs from plain C\n", names[k]);
                return 1;
            }
            double each = wanted ? measure_crops(&s, &c, source, slots, seconds) : 0;
            if (wanted)
                printf("%s %.1f %.3f %016llx\n", line, 1 / each, each * 1e6,
                       (unsigned long long)sum);
            fflush(stdout);
            psti_augment_run_close(&s.run);
            psti_augment_chain_free(&s.chain);
        }
    }
    return 0;
}

/* Returns the milliseconds of a plain memcpy of as many bytes into the batch memory. */
static double measure_copy(size_t nbytes, const unsigned char *source, unsigned char *slots)
{
    double times[RUNS];
    size_t n_slots = SLOTS_NBYTES / nbytes, at = 0;
    for (int i = 0; i < RUNS; i++) {
        uint32_t n = 0;
        int64_t start = cpu_ns(), now;
        do {
            memcpy(slots + at * nbytes, source, nbytes);
            at = (at + 1) % n_slots;
            n++;
            now = cpu_ns();
        } while (now - start < 50000000);
        times[i] = (double)(now - start) / 1e6 / n;
    }
    qsort(times, RUNS, sizeof times[0], compare);
    return times[RUNS / 2];
}

int main(int argc, char **argv)
{
    struct bench_case cases[N_CASES];
    make_cases(cases);
    unsigned char *source = malloc((size_t)768 * 768 * 12);
    unsigned char *slots = aligned_alloc(4096, SLOTS_NBYTES);
    bool only_crops = argc >= 2 && argc <= 4 && strcmp(argv[1], "--crops") == 0;
    FILE *json = argc == 3 && strcmp(argv[1], "--json") == 0 ? fopen(argv[2], "w") : NULL;
    if (source == NULL || slots == NULL || (argc > 1 && json == NULL && !only_crops)) {
        fprintf(stderr, "usage: bench_augment [--json FILE | --crops [SECONDS]]\n");
        return 2;
    }
    memset(slots, 1, SLOTS_NBYTES);
    for (size_t i = 0, v = 1; i < (size_t)768 * 768 * 12; i++) {
        v = v * 6364136223846793005ULL + 1442695040888963407ULL;
        source[i] = (unsigned char)((v >> 60) + (i / 7) % 240);
    }
    if (only_crops)
        return crops(source, slots, argc >= 3 ? atof(argv[2]) : 0.4, argc == 4 ? argv[3] : NULL);
    printf("%-56s %-7s %9s %8s %8s\n", "chain (u8 RGB in)", "level", "ms/image", "ns/pixel",
           "x memcpy");
    if (json != NULL)
        fprintf(json, "{\"benchmark\": \"bench_augment\", \"version\": \"%s\", \"rows\": [",
                pst_version());
    bool first = true;
    for (int i = 0; i < N_CASES; i++) {
        unsigned char *reference = NULL;
        for (int k = 0; k < N_LEVELS; k++) {
            if ((levels[k] & ~psti_cpu_detected()) != 0)
                continue;
            struct stage s;
            stage_open(&s, &cases[i], levels[k]);
            stage_run(&s, &cases[i], source, slots);
            if (reference == NULL) {
                reference = malloc(s.slot_nbytes);
                if (reference == NULL)
                    return 1;
                memcpy(reference, slots, s.slot_nbytes);
            } else if (memcmp(reference, slots, s.slot_nbytes) != 0) {
                fprintf(stderr, "bench_augment: %s differs from plain C\n", names[k]);
                return 1;
            }
            double ms = measure(&s, &cases[i], source, slots);
            double copy = measure_copy(s.slot_nbytes, source, slots);
            double pixels = (double)s.draw.out_height * s.draw.out_width;
            if (only_crops)
                return crops(source, slots, argc >= 3 ? atof(argv[2]) : 0.4,
                             argc == 4 ? argv[3] : NULL);
            printf("%-56s %-7s %9.4f %8.3f %8.2f\n", cases[i].name, names[k], ms, ms * 1e6 / pixels,
                   ms / copy);
            if (json != NULL)
                fprintf(json,
                        "%s\n{\"chain\": \"%s\", \"level\": \"%s\", \"ms_per_image\": %.5f, "
                        "\"ns_per_pixel\": %.4f, \"memcpy_ms\": %.5f}",
                        first ? "" : ",", cases[i].name, names[k], ms, ms * 1e6 / pixels, copy);
            first = false;
            psti_augment_run_close(&s.run);
            psti_augment_chain_free(&s.chain);
        }
        free(reference);
    }
    if (json != NULL) {
        fprintf(json, "\n]}\n");
        fclose(json);
    }
    free(source);
    free(slots);
    return 0;
}
