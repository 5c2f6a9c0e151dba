/* loader_mix.h - MixUp and CutMix over whole batches (loader_mix.c). */
#ifndef PST_LOADER_LOADER_MIX_H
#define PST_LOADER_LOADER_MIX_H

#include <penstock/loader.h>

struct psti_loader_job;

struct psti_loader_mix {
    struct pst_mix ways[PST_MAX_MIXES];
    uint32_t n_ways; /* 0: nothing is mixed */
    int i_field;     /* the image, in the loader's plan */
};

/* Reads the options. The plan is made already. */
enum pst_status psti_loader_mix_open(pst_loader *loader, struct pst_error *err);
/* Mixes a job's batch and sets job->mixed. The job is whole and belongs to this thread. */
void psti_loader_mix_job(const pst_loader *loader, struct psti_loader_job *job);

#endif
