/* loader_mix.h - work on whole batches: MixUp, CutMix and mosaics (loader_mix.c, loader_mosaic.c),
 * and collation of rows (loader_collate.c). */
#ifndef PST_LOADER_LOADER_MIX_H
#define PST_LOADER_LOADER_MIX_H

#include <penstock/loader.h>

struct psti_chain;
struct psti_loader_job;
struct psti_loader_plan_field;
struct psti_loader_workspaces;
struct psti_slot_field;

struct psti_loader_mix {
    struct pst_mix ways[PST_MAX_MIXES];
    uint32_t n_ways; /* number of ways in `ways`; 0: batches are not mixed */
    int i_field;     /* plan field of the image that is mixed */
    /* Chains of the operations that follow mosaics, by plan field; NULL: none. They work for any
     * size of picture. */
    struct psti_chain *behind[PST_MAX_FIELDS];
    /* Memory for mosaics (loader_workspaces.c); NULL: none are made. */
    struct psti_loader_workspaces *workspaces;
};

/* Reads the options for mixing. The plan must be made already. */
enum pst_status psti_loader_mix_open(pst_loader *loader, struct pst_error *err);
/* Mixes a job's batch by MixUp or CutMix, not by mosaics, and sets job->mixed. The job must be
 * finished and belong to this thread. */
void psti_loader_mix_job(const pst_loader *loader, struct psti_loader_job *job);

/* loader_mosaic.c */
/* Refuses loaders whose batches mosaics cannot be made of. mix.ways must be set already. */
enum pst_status psti_loader_mosaic_open(pst_loader *loader, struct pst_error *err);
/* Returns the bytes of host_memory that a workspace takes in which mosaics of a batch are made. 0:
 * no mosaics are made. UINT64_MAX: no memory is enough. *block: of these, those for copies. */
uint64_t psti_loader_mosaic_nbytes(const pst_loader *loader, size_t *block);
/* Makes mosaics of all rows of a job. PST_ERROR_LIMIT: host_memory is too small for the boxes or
 * points of this batch. */
enum pst_status psti_loader_mosaic(const pst_loader *loader, struct psti_loader_job *job,
                                   struct pst_error *err);

/* loader_collate.c */
/* Fills slot->ragged: how rows of different sizes are collated. The field's plan must be made
 * already. */
enum pst_status psti_loader_collate_plan(const struct pst_field_output *wish,
                                         const struct psti_loader_plan_field *plan,
                                         struct psti_slot_field *slot, struct pst_error *err);
/* Mixes and then collates a finished job, which belongs to this thread. The job may be failed or
 * starved afterwards; job->failure says why. */
void psti_loader_complete_job(pst_loader *loader, struct psti_loader_job *job);
/* Collates a finished batch, and brings its rows to where it lies. PST_ERROR_LIMIT: there is no
 * memory now. No lock is held. */
enum pst_status psti_loader_collate(pst_loader *loader, pst_batch *batch, struct pst_error *err);

#endif
