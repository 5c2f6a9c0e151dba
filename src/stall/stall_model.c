/* stall_model.c - the what-if model: computes the rate of a training run, its limit and its stalls
 * from demands and capacities.
 *
 * In: a setup, checked and with defaults set. Out: an answer. Pure; any thread; no memory. The
 * bounds of all resources are samples/s of the whole machine, so they can be compared. */
#include "stall/stall_model.h"

#include "base/fail.h"
#include "base/options.h"

#include <math.h>
#include <stddef.h>

#define ROOM "stall"
/* Rows that a loader reads ahead in addition to two for each worker; at most the rows of the
 * batches that it prepares (loader_shape.c). */
#define ROWS_AHEAD 32
/* Relative growth of the error band for each doubling beyond the measured range. */
#define BAND_PER_DOUBLING 0.05
/* The model's own relative error when every cost is known: assumed to be two standard deviations.
 */
#define BAND_OF_MODEL 0.05

static const char *const names[PSTI_STALL_N_RESOURCES] = {
    "accelerator", "cores", "workers", "storage", "reads",
    "network",     "link",  "gpu",     "cache",   "copying"};

const char *psti_stall_resource_name(uint32_t i)
{
    return i < PSTI_STALL_N_RESOURCES ? names[i] : NULL;
}

/* The numeric members of a setup, with the smallest allowed value of each. */
static const struct {
    const char *name;
    size_t offset;
    double least;
} numbers[] = {
#define NUMBER(name, least)                                                                        \
    {                                                                                              \
#name, offsetof(struct psti_stall_setup, name), least                                      \
    }
    NUMBER(cpu_seconds, 0),
    NUMBER(cpu_sd_seconds, 0),
    NUMBER(hit_cpu_seconds, 0),
    NUMBER(wait_seconds, 0),
    NUMBER(nbytes, 0),
    NUMBER(nbytes_sd, 0),
    NUMBER(reads, 0),
    NUMBER(item_nbytes, 0),
    NUMBER(link_nbytes, 0),
    NUMBER(gpu_seconds, 0),
    NUMBER(batch_size, 1),
    NUMBER(prefetch, 1),
    NUMBER(step_seconds, 0),
    NUMBER(step_sd_seconds, 0),
    NUMBER(step_cpu_seconds, 0),
    NUMBER(batch_cpu_seconds, 0),
    NUMBER(ranks, 1),
    NUMBER(jobs, 1),
    NUMBER(hosts, 1),
    NUMBER(batches_per_epoch, 0),
    NUMBER(epoch_pause_seconds, 0),
    NUMBER(cores, 1e-6),
    NUMBER(workers, 0),
    NUMBER(storage_nbytes_per_second, 0),
    NUMBER(reads_per_second, 0),
    NUMBER(network_nbytes_per_second, 0),
    NUMBER(link_nbytes_per_second, 0),
    NUMBER(copy_nbytes_per_second, 0),
    NUMBER(gpu_free, 0),
    NUMBER(dataset_nbytes, 0),
    NUMBER(cache_nbytes, 0),
    NUMBER(page_cache_nbytes, 0),
    NUMBER(gpu_interference, 0),
    NUMBER(cpu_band, 0),
    NUMBER(storage_band, 0),
    NUMBER(step_band, 0),
    NUMBER(nbytes_band, 0),
    NUMBER(copy_band, 0),
#undef NUMBER
};

static void fill_in(struct psti_stall_setup *s)
{
    if (s->reads == 0 && s->nbytes > 0)
        s->reads = 1;
    if (s->item_nbytes == 0)
        s->item_nbytes = s->nbytes;
    if (s->hit_cpu_seconds == 0)
        s->hit_cpu_seconds = s->cpu_seconds;
    if (s->policy == PSTI_STALL_USUAL)
        s->policy = PSTI_STALL_MINIO;
    if (s->page_policy == PSTI_STALL_USUAL)
        s->page_policy = PSTI_STALL_RANDOM;
}

enum pst_status psti_stall_setup_read(const struct psti_stall_setup *given,
                                      struct psti_stall_setup *full, struct pst_error *err)
{
    enum pst_status status = psti_options_copy(full, sizeof *full, given, ROOM, err);
    if (status != PST_OK)
        return status;
    fill_in(full);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        double value = *(const double *)((const char *)full + numbers[i].offset);
        if (!isfinite(value) || value < numbers[i].least)
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "%s must be %g or more, not %g",
                             numbers[i].name, numbers[i].least, value);
    }
    if (full->batches_per_epoch > 0 && full->batches_per_epoch < 1)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "batches_per_epoch must be 0 (no end), or 1 or more, not %g",
                         full->batches_per_epoch);
    if (full->gpu_free > 1 || full->gpu_interference > 1)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "gpu_free and gpu_interference are 0 to 1, not %g and %g", full->gpu_free,
                         full->gpu_interference);
    if ((unsigned)full->policy > PSTI_STALL_LRU_SEQUENTIAL ||
        (unsigned)full->page_policy > PSTI_STALL_LRU_SEQUENTIAL)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "there is no such policy of a cache");
    return PST_OK;
}

static double quotient(double capacity, double demand)
{
    return capacity > 0 && demand > 0 ? capacity / demand : INFINITY;
}

/* Returns the CPU seconds for preparing a sample: the mean over cache hits and misses. */
static double preparation(const struct psti_stall_setup *s, double hits)
{
    return hits * s->hit_cpu_seconds + (1 - hits) * s->cpu_seconds;
}

/* Returns the seconds between two steps of a rank if batches are always ready. */
static double cycle(const struct psti_stall_setup *s, double cpu, double misses)
{
    double step = s->step_seconds + psti_stall_largest_of(s->ranks) * s->step_sd_seconds;
    double seconds =
        step + s->batch_cpu_seconds + s->batch_size * s->gpu_seconds * s->gpu_interference;
    if (s->workers > 0)
        return seconds;
    /* Without workers the training thread prepares, so nothing overlaps with its steps. */
    double read = s->storage_nbytes_per_second > 0 ? s->nbytes / s->storage_nbytes_per_second : 0;
    if (s->reads_per_second > 0 && s->reads / s->reads_per_second > read)
        read = s->reads / s->reads_per_second;
    double alone = s->batch_size * (cpu + s->wait_seconds + misses * read);
    return seconds + alone;
}

/* Returns the samples/s that the reading threads allow. They copy data from the kernel's page
 * cache, and each copy keeps a thread busy. Workers sleep while they wait for a copy; the worker
 * that wakes last finds all cores busy, and runs its part of the rows on the core of the thread
 * that woke it. The part is limited to a half, where the effect is largest, so that more cores
 * never lower the rate. */
static double copying(const struct psti_stall_setup *s, double cpu, double hits)
{
    double consumers = s->ranks * s->jobs;
    double loaders = s->shared_preparation ? s->ranks : consumers;
    double seconds = (1 - hits) * s->nbytes / s->copy_nbytes_per_second;
    if (!(s->copy_nbytes_per_second > 0) || !(seconds > 0) || !(s->workers > 0))
        return INFINITY;
    double cores = fmin(s->cores / loaders, s->workers);
    double part = fmin(fmax(cpu / seconds - 1, 0) / cores, 0.5); /* share of other work on each
                                                                  * core, 0 to 0.5 */
    return consumers / (seconds * (1 + part * (1 - part)));
}

static void find_bounds(const struct psti_stall_setup *s, struct psti_stall_answer *a)
{
    double consumers = s->ranks * s->jobs;
    double once = s->shared_preparation ? s->jobs : 1; /* number of jobs that use each prepared
                                                        * sample */
    double cpu = preparation(s, a->hits);
    double taken = (s->step_cpu_seconds + s->batch_cpu_seconds) / s->batch_size;
    double workers = s->workers * consumers / once;
    double seconds = cycle(s, cpu, a->misses);
    double *b = a->bounds;
    b[PSTI_STALL_ACCELERATOR] = quotient(consumers * s->batch_size, seconds);
    b[PSTI_STALL_CORES] = quotient(s->cores, cpu / once + taken);
    b[PSTI_STALL_WORKERS] =
        s->workers > 0 && (cpu > 0 || s->wait_seconds > 0)
            ? once * psti_stall_workers_rate(workers, s->wait_seconds, cpu, s->cores)
            : INFINITY;
    b[PSTI_STALL_STORAGE] = once * quotient(s->storage_nbytes_per_second, a->misses * s->nbytes);
    b[PSTI_STALL_READS] = once * quotient(s->reads_per_second, a->misses * s->reads);
    b[PSTI_STALL_NETWORK] = once * quotient(s->network_nbytes_per_second,
                                            a->hits * (1 - 1 / s->hosts) * s->item_nbytes);
    b[PSTI_STALL_LINK] = consumers * quotient(s->link_nbytes_per_second, s->link_nbytes);
    b[PSTI_STALL_GPU] =
        s->gpu_seconds > 0 ? consumers * s->gpu_free / s->gpu_seconds : INFINITY; /* 0: none */
    b[PSTI_STALL_CACHE_MEMORY] = INFINITY;
    b[PSTI_STALL_COPYING] = copying(s, cpu, a->hits);
}

static void find_binding(struct psti_stall_answer *a)
{
    a->binding = a->next = PSTI_STALL_ACCELERATOR;
    for (int i = 1; i < PSTI_STALL_N_RESOURCES; i++)
        if (a->bounds[i] < a->bounds[a->binding])
            a->binding = (enum psti_stall_resource)i;
    a->next = a->binding == PSTI_STALL_ACCELERATOR ? PSTI_STALL_CORES : PSTI_STALL_ACCELERATOR;
    for (int i = 0; i < PSTI_STALL_N_RESOURCES; i++)
        if (i != (int)a->binding && a->bounds[i] < a->bounds[a->next])
            a->next = (enum psti_stall_resource)i;
}

static double square(double x) { return x * x; }

/* Returns the squared coefficient of variation of the time that a resource needs for a sample. */
static double sample_cv2(const struct psti_stall_setup *s, enum psti_stall_resource resource)
{
    if ((resource == PSTI_STALL_CORES || resource == PSTI_STALL_WORKERS) && s->cpu_seconds > 0)
        return square(s->cpu_sd_seconds / (s->cpu_seconds + s->wait_seconds));
    if (resource == PSTI_STALL_STORAGE && s->nbytes > 0)
        return square(s->nbytes_sd / s->nbytes);
    return 0;
}

static enum psti_stall_resource slower_of(const struct psti_stall_answer *a,
                                          enum psti_stall_resource i, enum psti_stall_resource k)
{
    return a->bounds[i] <= a->bounds[k] ? i : k;
}

/* Returns the samples/s of storage and cores together, as two stations: what storage has read waits
 * for the workers in a buffer of some rows. A cache hit takes no time of the storage. */
static double fetched_and_prepared(const struct psti_stall_setup *s,
                                   const struct psti_stall_answer *a)
{
    enum psti_stall_resource fetch = slower_of(a, PSTI_STALL_STORAGE, PSTI_STALL_READS);
    enum psti_stall_resource work = slower_of(a, PSTI_STALL_CORES, PSTI_STALL_WORKERS);
    double room = fmin(s->prefetch * s->batch_size, ROWS_AHEAD + 2 * s->workers);
    if (!s->reads_ahead || !(s->workers > 0) || !(a->misses > 0))
        return fmin(a->bounds[fetch], a->bounds[work]);
    double fetch_cv2 = (1 + sample_cv2(s, fetch)) / a->misses - 1;
    return psti_stall_coupled_rate(a->bounds[fetch], fetch_cv2, a->bounds[work],
                                   sample_cv2(s, work), room);
}

void psti_stall_rate(const struct psti_stall_setup *s, struct psti_stall_answer *a)
{
    struct psti_stall_hits hits = psti_stall_hits(s);
    a->hits = hits.cache;
    a->page_hits = hits.page;
    a->misses = hits.misses;
    find_bounds(s, a);
    find_binding(a);
    double demand = a->bounds[PSTI_STALL_ACCELERATOR];
    enum psti_stall_resource slowest = PSTI_STALL_CORES;
    for (int i = 1; i < PSTI_STALL_N_RESOURCES; i++)
        slowest = slower_of(a, slowest, (enum psti_stall_resource)i);
    double supply = fmin(a->bounds[slowest], fetched_and_prepared(s, a));
    double per_batch = s->ranks * s->jobs * s->batch_size;
    double step_cv2 = s->step_seconds > 0 ? square(s->step_sd_seconds / s->step_seconds) : 0;
    /* The work of a batch is a sum over its samples. One batch more than `prefetch` is ready at
     * most: the one that is being finished. */
    double batches =
        psti_stall_coupled_rate(supply / per_batch, sample_cv2(s, slowest) / s->batch_size,
                                demand / per_batch, step_cv2, s->prefetch + 1);
    a->samples_per_second = batches * per_batch;
    a->start_stall = 0;
    if (s->batches_per_epoch > 0 && batches > 0) {
        /* Without workers the step's thread prepares, so `demand` already includes preparation. */
        double first = s->workers > 0 ? per_batch / fmax(supply, demand) : 0;
        double training = s->batches_per_epoch / batches + first;
        a->start_stall = training > 0 ? first / training : 0;
        a->samples_per_second =
            s->batches_per_epoch * per_batch / (training + s->epoch_pause_seconds);
    }
}

/* Returns the seconds per sample that are pauses between epochs. */
static double pause_of(const struct psti_stall_setup *s)
{
    double samples = s->batches_per_epoch * s->ranks * s->jobs * s->batch_size;
    return samples > 0 ? s->epoch_pause_seconds / samples : 0;
}

double psti_stall_rate_at(const struct psti_stall_setup *s, double utilisation)
{
    double per_step = s->ranks * s->jobs * s->batch_size;
    return 1 / (s->step_seconds / (utilisation * per_step) + pause_of(s));
}

/* Splits the time of a sample, without pauses between epochs, into compute, fetch stall and
 * preparation stall. The fetch stall is what a setup without any fetching would save. The
 * preparation stall is the rest that is not compute. */
static void find_stalls(const struct psti_stall_setup *s, struct psti_stall_answer *a)
{
    struct psti_stall_setup local = *s;
    local.nbytes = local.nbytes_sd = local.reads = 0;
    local.network_nbytes_per_second = 0;
    struct psti_stall_answer prepared;
    psti_stall_rate(&local, &prepared);
    if (!(a->samples_per_second > 0)) { /* true if the run stands still */
        a->fetch_stall = prepared.samples_per_second > 0 ? 1 : 0;
        a->prep_stall = 1 - a->fetch_stall;
        return;
    }
    double pause = pause_of(s), whole = 1 / a->samples_per_second - pause;
    double step = quotient(s->ranks * s->jobs * s->batch_size, s->step_seconds);
    double compute = isinf(step) ? 0 : 1 / step;
    double without_fetch = quotient(1, prepared.samples_per_second) - pause;
    if (without_fetch > whole)
        without_fetch = whole;
    a->utilisation = compute < whole ? compute / whole : 1;
    a->fetch_stall = (whole - without_fetch) / whole;
    a->prep_stall = 1 - a->utilisation - a->fetch_stall;
    if (a->prep_stall < 0)
        a->prep_stall = 0;
}

static double value_of(const struct psti_stall_setup *s, int resource)
{
    switch (resource) {
    case PSTI_STALL_ACCELERATOR:
        return s->step_seconds;
    case PSTI_STALL_CORES:
        return s->cores;
    case PSTI_STALL_WORKERS:
        return s->workers;
    case PSTI_STALL_STORAGE:
        return s->storage_nbytes_per_second;
    case PSTI_STALL_READS:
        return s->reads_per_second;
    case PSTI_STALL_NETWORK:
        return s->network_nbytes_per_second;
    case PSTI_STALL_LINK:
        return s->link_nbytes_per_second;
    case PSTI_STALL_GPU:
        return s->gpu_free;
    case PSTI_STALL_COPYING:
        return s->copy_nbytes_per_second;
    default:
        return s->cache_nbytes;
    }
}

/* True if the resource is near enough to the limit that a bound wrong by half would change the
 * rate. */
static bool matters(const struct psti_stall_answer *a, int resource)
{
    int bound = resource == PSTI_STALL_CACHE_MEMORY ? PSTI_STALL_STORAGE : resource;
    return a->bounds[bound] < 1.5 * a->samples_per_second;
}

/* Returns how many doublings a setup lies outside of the measured ranges, summed over the resources
 * that matter. */
static double doublings_outside(const struct psti_stall_setup *s, const struct psti_stall_answer *a,
                                uint32_t *which)
{
    double sum = 0;
    for (int i = 0; i < PSTI_STALL_N_RESOURCES; i++) {
        double value = value_of(s, i), low = s->measured_low[i], high = s->measured_high[i];
        if (!(high > 0) || !(value > 0))
            continue;
        double beyond = value > high ? value / high : low > 0 && value < low ? low / value : 1;
        if (beyond > 1.001) {
            *which |= 1u << i;
            sum += matters(a, i) ? log2(beyond) : 0;
        }
    }
    return sum;
}

enum measured { CPU, STORAGE, STEP, NBYTES, COPY, N_MEASURED };

/* Increases one of the measured costs by a relative amount `part`; decreases it if part < 0. */
static void make_dearer(struct psti_stall_setup *s, int what, double part)
{
    double more = fmax(1 + part, 0.1), less = fmax(1 - part, 0.1);
    switch (what) {
    case CPU:
        s->cpu_seconds *= more;
        s->hit_cpu_seconds *= more;
        s->batch_cpu_seconds *= more;
        return;
    case STORAGE:
        s->storage_nbytes_per_second *= less;
        s->reads_per_second *= less;
        s->network_nbytes_per_second *= less;
        return;
    case STEP:
        s->step_seconds *= more;
        s->step_cpu_seconds *= more;
        return;
    case NBYTES:
        s->nbytes *= more;
        s->item_nbytes *= more;
        s->dataset_nbytes *= more;
        return;
    default:
        s->copy_nbytes_per_second *= less;
    }
}

static double square_beyond_1(double ratio) { return ratio > 1 ? square(ratio - 1) : 0; }

/* Errors of measurements are independent, so their squares are added. Each side of the band has its
 * own sum, because a cost has more effect while its resource is the slowest. */
static void find_band(const struct psti_stall_setup *s, struct psti_stall_answer *a)
{
    const double parts[N_MEASURED] = {[CPU] = s->cpu_band,
                                      [STORAGE] = s->storage_band,
                                      [STEP] = s->step_band,
                                      [NBYTES] = s->nbytes_band,
                                      [COPY] = s->copy_band};
    double rate = a->samples_per_second, below = square(BAND_OF_MODEL), above = below;
    for (int i = 0; i < 2 * N_MEASURED; i++) {
        double part = i % 2 == 0 ? parts[i / 2] : -parts[i / 2];
        struct psti_stall_setup other = *s;
        struct psti_stall_answer answer;
        if (part == 0 || rate == 0)
            continue;
        make_dearer(&other, i / 2, part);
        psti_stall_rate(&other, &answer);
        below += square_beyond_1(quotient(rate, answer.samples_per_second));
        above += square_beyond_1(quotient(answer.samples_per_second, rate));
    }
    double extra = BAND_PER_DOUBLING * doublings_outside(s, a, &a->extrapolated);
    a->low = rate / (1 + sqrt(below) + extra);
    a->high = rate * (1 + sqrt(above) + extra);
}

enum pst_status psti_stall_predict(const struct psti_stall_setup *setup,
                                   struct psti_stall_answer *answer, size_t answer_nbytes,
                                   struct pst_error *err)
{
    struct psti_stall_setup s;
    enum pst_status status = psti_stall_setup_read(setup, &s, err);
    if (status != PST_OK)
        return status;
    struct psti_stall_answer a = {0};
    psti_stall_rate(&s, &a);
    if (isinf(a.samples_per_second))
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "nothing limits the rate: no demand has a capacity");
    find_stalls(&s, &a);
    find_band(&s, &a);
    double once = s.shared_preparation ? s.jobs : 1;
    a.storage_nbytes_per_second = a.samples_per_second / once * a.misses * s.nbytes;
    a.cores_used =
        a.samples_per_second * (preparation(&s, a.hits) / once +
                                (s.step_cpu_seconds + s.batch_cpu_seconds) / s.batch_size);
    psti_struct_write(answer, answer_nbytes, &a, sizeof a);
    return PST_OK;
}
