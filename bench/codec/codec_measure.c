/* codec_measure.c - encodes, compares, and decodes in loops: on one core, and on all.
 *
 * Everything is in memory and every buffer is reused. One core: the thread is pinned and makes
 * whole passes over the group until the time is up. The figure is bytes of pixels divided by the
 * thread's CPU time, which other programs do not add to. The share of the wall time in which the
 * thread had the core is kept beside the figure. CPU time does not show whether the core's other
 * hardware thread was busy with other work, so the shortest time of each image is kept as well. All
 * cores: every thread is pinned, has its own copy of the coded bytes and its own output, and starts
 * at a different image; the figure uses wall time. */
#include "codec.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_codec: %s: %s\n", what, why);
    exit(1);
}

void *claim(size_t nbytes)
{
    void *p = calloc(1, nbytes ? nbytes : 1);
    if (!p)
        die("memory", "none left");
    return p;
}

void bytes_reserve(struct bytes *bytes, size_t cap)
{
    if (cap <= bytes->cap)
        return;
    bytes->at = realloc(bytes->at, cap);
    if (!bytes->at)
        die("memory", "none left");
    bytes->cap = cap;
}

void bytes_put(struct bytes *bytes, const void *from, size_t nbytes)
{
    if (bytes->nbytes + nbytes > bytes->cap)
        bytes_reserve(bytes, bytes->cap * 2 + nbytes);
    memcpy(bytes->at + bytes->nbytes, from, nbytes);
    bytes->nbytes += nbytes;
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->at);
    *bytes = (struct bytes){0};
}

static double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double wall_seconds(void) { return clock_seconds(CLOCK_MONOTONIC); }

double thread_cpu_seconds(void) { return clock_seconds(CLOCK_THREAD_CPUTIME_ID); }

/* Finds the cores that this process was started on. It is called before any pinning, which changes
 * what the kernel reports. */
static cpu_set_t allowed_cores;
static pthread_once_t allowed_once = PTHREAD_ONCE_INIT;

static void find_allowed(void)
{
    if (sched_getaffinity(0, sizeof allowed_cores, &allowed_cores) != 0)
        die("cores", "cannot be counted");
}

uint32_t cores_allowed(void)
{
    pthread_once(&allowed_once, find_allowed);
    return (uint32_t)CPU_COUNT(&allowed_cores);
}

void pin_to_core(uint32_t i)
{
    i %= cores_allowed();
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &allowed_cores) && i-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            pthread_setaffinity_np(pthread_self(), sizeof one, &one);
            return;
        }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(const double *values, size_t n)
{
    double sorted[64];
    n = n < 64 ? n : 64;
    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, by_value);
    return n == 0 ? 0 : n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static void decode_one(const struct measurement *m, void *state, const struct bytes *coded,
                       const struct image *image, uint8_t *pixels)
{
    if (!m->codec->decode(state, m->codec, coded, image, pixels)) {
        fprintf(stderr, "bench_codec: %s does not decode its own %s\n", m->codec->name,
                image->name);
        exit(1);
    }
}

static void encode_pass(struct measurement *m, const struct group *group)
{
    for (size_t i = 0; i < group->n; i++) {
        m->coded[i].nbytes = 0;
        if (!m->codec->encode(m->state, m->codec, &group->images[i], &m->coded[i])) {
            fprintf(stderr, "bench_codec: %s does not encode %s\n", m->codec->name,
                    group->images[i].name);
            exit(1);
        }
    }
}

/* Decodes every image and compares its pixels. The output buffer is filled with other bytes before,
 * so an image that is not written is found. */
static void check(const struct measurement *m, const struct group *group)
{
    uint8_t *pixels = claim(group->largest_nbytes + CODEC_SLACK_NBYTES);
    for (size_t i = 0; i < group->n; i++) {
        const struct image *image = &group->images[i];
        for (size_t k = 0; k < image->nbytes; k++)
            pixels[k] = (uint8_t)~image->pixels[k];
        decode_one(m, m->state, &m->coded[i], image, pixels);
        if (memcmp(pixels, image->pixels, image->nbytes) != 0) {
            fprintf(stderr, "bench_codec: %s: %s/%s comes back changed\n", m->codec->name,
                    group->name, image->name);
            exit(1);
        }
    }
    free(pixels);
}

/* Returns the median rate of passes over the group. The first pass touches new memory, which later
 * passes find mapped, as in a program that encodes many images. It is counted only if it takes so
 * long that no other pass fits into the time. */
static double encode_rate(struct measurement *m, const struct group *group, double seconds)
{
    double rates[64], spent = 0;
    size_t n = 0;
    for (bool first = true; first || (spent < seconds && n < 64); first = false) {
        double start = thread_cpu_seconds();
        encode_pass(m, group);
        double took = thread_cpu_seconds() - start;
        if (first && took < seconds)
            continue;
        spent += took;
        rates[n++] = (double)group->nbytes / took;
    }
    return median_of(rates, n);
}

void measure_encode(struct measurement *m, const struct group *group,
                    const struct measurement *lender, const struct settings *settings)
{
    m->state = m->family->open ? m->family->open() : NULL;
    m->decode = claim(settings->repeats * sizeof *m->decode);
    m->decode_all = claim(settings->repeats * sizeof *m->decode_all);
    m->shortest = claim(group->n * sizeof *m->shortest);
    m->cpu_share = 1;
    if (lender) {
        m->coded = lender->coded;
    } else {
        m->coded = claim(group->n * sizeof *m->coded);
        m->owns_coded = true;
        m->encode = encode_rate(m, group, settings->sizes_only ? 0 : settings->encode_seconds);
    }
    for (size_t i = 0; i < group->n; i++)
        m->nbytes += m->coded[i].nbytes;
    check(m, group);
}

struct worker {
    const struct measurement *m;
    const struct group *group;
    pthread_barrier_t *start;
    uint32_t i, n;
    double seconds, rate;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    const struct group *group = w->group;
    struct bytes *coded = claim(group->n * sizeof *coded);
    uint8_t *pixels = claim(group->largest_nbytes + CODEC_SLACK_NBYTES);
    void *state = w->m->family->open ? w->m->family->open() : NULL;
    size_t first = group->n * w->i / w->n, nbytes = 0;
    pin_to_core(w->i);
    for (size_t i = 0; i < group->n; i++)
        bytes_put(&coded[i], w->m->coded[i].at, w->m->coded[i].nbytes);
    decode_one(w->m, state, &coded[first], &group->images[first], pixels);
    pthread_barrier_wait(w->start);
    double start = wall_seconds(), now;
    do {
        for (size_t k = 0; k < group->n; k++) {
            size_t i = (first + k) % group->n;
            decode_one(w->m, state, &coded[i], &group->images[i], pixels);
        }
        nbytes += group->nbytes;
        now = wall_seconds();
    } while (now - start < w->seconds);
    w->rate = (double)nbytes / (now - start);
    if (w->m->family->close)
        w->m->family->close(state);
    for (size_t i = 0; i < group->n; i++)
        bytes_free(&coded[i]);
    free(coded);
    free(pixels);
    return NULL;
}

static double decode_on_all(const struct measurement *m, const struct group *group,
                            const struct settings *settings)
{
    uint32_t n = settings->threads;
    struct worker *workers = claim(n * sizeof *workers);
    pthread_t *threads = claim(n * sizeof *threads);
    pthread_barrier_t start;
    double rate = 0;
    pthread_barrier_init(&start, NULL, n);
    for (uint32_t i = 0; i < n; i++) {
        workers[i] = (struct worker){m, group, &start, i, n, settings->seconds, 0};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            die("threads", "cannot be started");
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        rate += workers[i].rate;
    }
    pthread_barrier_destroy(&start);
    free(workers);
    free(threads);
    return rate;
}

static void decode_pass(struct measurement *m, const struct group *group, uint8_t *pixels)
{
    double start = wall_seconds();
    for (size_t i = 0; i < group->n; i++) {
        decode_one(m, m->state, &m->coded[i], &group->images[i], pixels);
        double now = wall_seconds();
        if (m->shortest[i] == 0 || now - start < m->shortest[i])
            m->shortest[i] = now - start;
        start = now;
    }
}

void measure_decode(struct measurement *m, const struct group *group, uint32_t repeat,
                    const struct settings *settings)
{
    uint8_t *pixels = claim(group->largest_nbytes + CODEC_SLACK_NBYTES);
    memset(pixels, 1, group->largest_nbytes);
    size_t nbytes = 0;
    decode_one(m, m->state, &m->coded[0], &group->images[0], pixels);
    double wall = wall_seconds(), start = thread_cpu_seconds(), now;
    do {
        decode_pass(m, group, pixels);
        nbytes += group->nbytes;
        now = thread_cpu_seconds();
    } while (now - start < settings->seconds);
    m->decode[repeat] = (double)nbytes / (now - start);
    double share = (now - start) / (wall_seconds() - wall);
    if (share < m->cpu_share)
        m->cpu_share = share;
    free(pixels);
    if (settings->threads > 0)
        m->decode_all[repeat] = decode_on_all(m, group, settings);
}

double undisturbed_rate(const struct measurement *m, const struct group *group)
{
    double seconds = 0;
    for (size_t i = 0; i < group->n; i++)
        seconds += m->shortest[i];
    return (double)group->nbytes / seconds;
}

void measurement_close(struct measurement *m, size_t n_images)
{
    if (m->family->close)
        m->family->close(m->state);
    for (size_t i = 0; m->owns_coded && i < n_images; i++)
        bytes_free(&m->coded[i]);
    if (m->owns_coded)
        free(m->coded);
    free(m->decode);
    free(m->decode_all);
    free(m->shortest);
}
