/* loader_host.h - items that the host service reads for all processes of the user. */
#ifndef PST_LOADER_LOADER_HOST_H
#define PST_LOADER_LOADER_HOST_H

#include "loader/loader_plan.h"
#include "loader/loader_source.h"

/* Looks for the item in the host cache. Sets what psti_loader_cache_ask sets, or is_asked. */
void psti_loader_host_ask(pst_loader *loader, const struct psti_loader_plan_field *field,
                          struct psti_loader_source *source);
/* Gathers the wishes of a located row. Returns how many there are. */
uint32_t psti_loader_host_wishes(const pst_loader *loader, struct psti_loader_source *sources,
                                 struct psti_share_wish **wishes);
/* The wishes were answered. Points the sources to their bytes; fills `reads` for those that did not
 * come, and returns how many these are. */
uint32_t psti_loader_host_resolve(pst_loader *loader, struct psti_loader_source *sources,
                                  struct psti_read *reads);
/* These reads have completed. Points the sources to their bytes, or returns the first one's error.
 */
enum pst_status psti_loader_host_take(const pst_loader *loader, uint64_t sample,
                                      struct psti_loader_source *sources,
                                      const struct psti_read *reads, struct pst_error *err);

#endif
