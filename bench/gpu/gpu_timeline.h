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
/* Runs the batch alone, several times, and writes a JSON object with medians of microseconds by the
 * GPU's clock. Each part (the upload, each launch, the download of statuses) has two numbers: of
 * batches one right after another ("busy"), and of batches that each follow a pause in which a GPU
 * may lower its clock ("rested"). "whole" is the time from the first launch to the end as a loader
 * takes it, without events in between; "submit" is the time of this thread for the calls. */
void gpu_timeline(const struct gpu_timeline_batch *batch, FILE *json);

#endif
