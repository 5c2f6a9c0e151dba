/* loader_mix.h - what happens to whole batches: MixUp and CutMix (loader_mix.c), and rows put
 * together (loader_collate.c). */
#ifndef PST_LOADER_LOADER_MIX_H
#define PST_LOADER_LOADER_MIX_H

#include <penstock/loader.h>

struct psti_chain;
struct psti_loader_job;
struct psti_loader_plan_field;
struct psti_slot_field;

struct psti_loader_mix {
    struct pst_mix ways[PST_MAX_MIXES];
    uint32_t n_ways; /* 0: nothing is mixed */
    int i_field;     /* the image, in the loader's plan */
    /* Operations behind mosaics, by field of the plan; NULL: none. They hold for any size. */
    struct psti_chain *behind[PST_MAX_FIELDS];
};

/* Reads the options. The plan is made already. */
enum pst_status psti_loader_mix_open(pst_loader *loader, struct pst_error *err);
/* Mixes a job's batch, but for mosaics, and sets job->mixed. The job is whole and belongs to this
 * thread. */
void psti_loader_mix_job(const pst_loader *loader, struct psti_loader_job *job);

/* loader_mosaic.c */
/* Refuses what mosaics cannot be made of. The way is read already. */
enum pst_status psti_loader_mosaic_open(pst_loader *loader, struct pst_error *err);
/* Makes mosaics of all rows of a job. PST_ERROR_LIMIT: host_memory is too small. */
enum pst_status psti_loader_mosaic(const pst_loader *loader, struct psti_loader_job *job,
                                   struct pst_error *err);

/* loader_collate.c */
/* How rows that may differ are put together: fills slot->ragged. The field's plan is made. */
enum pst_status psti_loader_collate_plan(const struct pst_field_output *wish,
                                         const struct psti_loader_plan_field *plan,
                                         struct psti_slot_field *slot, struct pst_error *err);
/* Mixes and then collates a whole job, which belongs to this thread. It may be failed or starved
 * after that; job->failure says why. */
void psti_loader_complete_job(const pst_loader *loader, struct psti_loader_job *job);

#endif
