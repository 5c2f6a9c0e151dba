/* gpu_timeline.c - where the time of one batch goes on a GPU: an event stands before and behind
 * each part of its work. One thread; the stream is idle before and afterwards. */
#include "gpu_timeline.h"

#include "gpu_support.h"

#include "base/clock.h"

#include <stdlib.h>

enum { ROUNDS = 21, WARM_UP = 4, PAUSE_NS = 5000000, N_PACES = 2 };

struct timeline {
    const struct gpu_timeline_batch *batch;
    struct psti_event **events; /* [n_parts + 1], before the first part and behind each one */
    uint32_t n_parts;           /* the upload, the launches, and the download of statuses */
    /* The times of one round in microseconds: first each part, then the whole batch, then the CPU's
     * time to submit it. */
    double *rounds[N_PACES][ROUNDS];
};

static void record(const struct timeline *t, uint32_t i)
{
    struct pst_error err = {0};
    check(psti_device_event_record(t->events[i], t->batch->stream, &err), "event", &err);
}

static void upload(const struct gpu_timeline_batch *b)
{
    struct pst_error err = {0};
    check(psti_device_stream_upload(b->stream, b->upload, b->pinned, b->work->upload_nbytes, &err),
          "upload", &err);
}

static void launch(const struct gpu_timeline_batch *b, uint32_t i)
{
    const struct psti_gpu_launch *l = &b->work->launches[i];
    struct pst_error err = {0};
    check(psti_device_stream_launch(b->stream, l->kernel, l->n_blocks, l->n_warps, l->shared_nbytes,
                                    l->args, l->args_nbytes, &err),
          "launch", &err);
}

static void download(const struct gpu_timeline_batch *b)
{
    struct pst_error err = {0};
    size_t at = b->work->statuses_offset;
    if (b->work->statuses_nbytes)
        check(psti_device_stream_download(b->stream, (char *)b->pinned + at, b->upload + at,
                                          b->work->statuses_nbytes, &err),
              "download", &err);
}

static void wait_for(const struct gpu_timeline_batch *b)
{
    struct pst_error err = {0};
    check(psti_device_stream_sync(b->stream, &err), "the GPU", &err);
}

static double elapsed_us(const struct timeline *t, uint32_t from, uint32_t to)
{
    return (double)psti_device_event_elapsed_ns(t->events[from], t->events[to]) / 1e3;
}

/* Runs the batch and records an event after each part. A run writes its statuses into the uploaded
 * bytes. They are 0 before it and after it, so the same bytes serve the next run. */
static void run_parts(const struct timeline *t, double *us)
{
    const struct gpu_timeline_batch *b = t->batch;
    record(t, 0);
    upload(b);
    record(t, 1);
    for (uint32_t i = 0; i < b->work->n_launches; i++) {
        launch(b, i);
        record(t, i + 2);
    }
    download(b);
    record(t, t->n_parts);
    wait_for(b);
    for (uint32_t i = 0; i < t->n_parts; i++)
        us[i] = elapsed_us(t, i, i + 1);
}

/* Runs the batch as a loader does. */
static void run_whole(const struct timeline *t, double *us)
{
    const struct gpu_timeline_batch *b = t->batch;
    int64_t begin = psti_clock_ns();
    upload(b);
    record(t, 0);
    for (uint32_t i = 0; i < b->work->n_launches; i++)
        launch(b, i);
    download(b);
    record(t, 1);
    us[1] = (double)(psti_clock_ns() - begin) / 1e3;
    wait_for(b);
    us[0] = elapsed_us(t, 0, 1);
}

static void pause_for(uint32_t pace)
{
    if (pace > 0)
        psti_clock_sleep_until(psti_clock_ns() + PAUSE_NS);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const struct timeline *t, uint32_t pace, uint32_t i)
{
    double values[ROUNDS];
    for (uint32_t r = 0; r < ROUNDS; r++)
        values[r] = t->rounds[pace][r][i];
    qsort(values, ROUNDS, sizeof values[0], by_value);
    return values[ROUNDS / 2];
}

static void print_pair(const struct timeline *t, uint32_t i, FILE *json)
{
    fprintf(json, "\"busy_us\": %.2f, \"rested_us\": %.2f}", median(t, 0, i), median(t, 1, i));
}

static void print(const struct timeline *t, FILE *json)
{
    const struct gpu_timeline_batch *b = t->batch;
    fprintf(json, "{\"rounds\": %d, \"pause_us\": %d, \"whole\": {", ROUNDS, PAUSE_NS / 1000);
    print_pair(t, t->n_parts, json);
    fprintf(json, ", \"submit\": {");
    print_pair(t, t->n_parts + 1, json);
    fprintf(json, ", \"upload\": {");
    print_pair(t, 0, json);
    fprintf(json, ", \"statuses\": {");
    print_pair(t, t->n_parts - 1, json);
    fprintf(json, ", \"launches\": [");
    for (uint32_t i = 0; i < b->work->n_launches; i++) {
        const struct psti_gpu_launch *l = &b->work->launches[i];
        fprintf(
            json, "%s{\"kernel\": \"%s\", \"blocks\": %u, \"warps\": %u, \"shared_nbytes\": %u, ",
            i > 0 ? ", " : "", b->kernels[l->kernel], l->n_blocks, l->n_warps, l->shared_nbytes);
        print_pair(t, i + 1, json);
    }
    fprintf(json, "]}");
}

void gpu_timeline(const struct gpu_timeline_batch *batch, FILE *json)
{
    struct timeline t = {.batch = batch, .n_parts = batch->work->n_launches + 2};
    struct pst_error err = {0};
    double *us = claim((size_t)N_PACES * ROUNDS * (t.n_parts + 2) * sizeof *us);
    t.events = claim((t.n_parts + 1) * sizeof(struct psti_event *));
    for (uint32_t i = 0; i <= t.n_parts; i++)
        check(psti_device_event_open(batch->device, &t.events[i], &err), "event", &err);
    for (uint32_t pace = 0; pace < N_PACES; pace++)
        for (uint32_t r = 0; r < ROUNDS; r++)
            t.rounds[pace][r] = us + (size_t)(pace * ROUNDS + r) * (t.n_parts + 2);
    for (uint32_t r = 0; r < WARM_UP; r++)
        run_parts(&t, t.rounds[0][0]);
    for (uint32_t pace = 0; pace < N_PACES; pace++)
        for (uint32_t r = 0; r < ROUNDS; r++) {
            pause_for(pace);
            run_parts(&t, t.rounds[pace][r]);
            pause_for(pace);
            run_whole(&t, t.rounds[pace][r] + t.n_parts);
        }
    print(&t, json);
    for (uint32_t i = 0; i <= t.n_parts; i++)
        psti_device_event_close(&t.events[i]);
    free(t.events);
    free(us);
}
