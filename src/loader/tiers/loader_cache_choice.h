/* loader_cache_choice.h - what caches keep of a data set, and in which form. */
#ifndef PST_LOADER_LOADER_CACHE_CHOICE_H
#define PST_LOADER_LOADER_CACHE_CHOICE_H

#include <penstock/penstock.h>

/* Chooses the fields that the cache re-codes. The plan must be made already. */
enum pst_status psti_loader_cache_choose(pst_loader *loader, struct pst_error *err);
/* Returns the fields that the cache re-codes with that form, one bit each: images and, except with
 * pli-jpeg, masks. */
uint64_t psti_loader_cache_recodable(const pst_dataset *dataset, enum pst_cache_form form);
/* Copies options.cache_plan. */
enum pst_status psti_loader_cache_take_plan(pst_loader *loader, struct pst_error *err);
/* Reserves the part of host_memory that re-coding may use. Workers and slots must have their parts
 * already. */
void psti_loader_cache_claim(pst_loader *loader);

#endif
