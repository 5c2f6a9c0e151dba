/* gpu_timeline.h - the time of each part of one batch on a GPU, for bench_gpu. */
#ifndef PST_BENCH_GPU_TIMELINE_H
#define PST_BENCH_GPU_TIMELINE_H

#include "device/device.h"
#include "gpu/gpu.h"

#include <stdio.h>

/* A batch that is planned. Its launches may be run again and again. */
struct gpu_timeline_batch {
    struct psti_device *device;
    struct psti_stream *stream;
    void *pinned;    /* the bytes to upload */
    uint64_t upload; /* where they lie on the GPU */
    const struct psti_gpu_work *work;
    const char *const *kernels; /* names of the kernels by number */
};
/* Runs the batch alone, several times, and writes a JSON object of median times, in microseconds by
 * the GPU's clock. The parts are the upload, each launch, and the download of statuses. Each has
 * two values: "busy" if batches follow one another at once, and "rested" if a pause comes before
 * each batch, in which a GPU may lower its clock. "whole" is the time from the first launch to the
 * end; like a loader, it records no events in between. "submit" is the time that this thread spends
 * in the calls. */
void gpu_timeline(const struct gpu_timeline_batch *batch, FILE *json);

#endif
