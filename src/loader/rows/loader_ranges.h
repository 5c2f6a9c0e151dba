/* loader_ranges.h - two-round reads of an item: first its head, then the parts that its row
 * needs. */
#ifndef PST_LOADER_LOADER_RANGES_H
#define PST_LOADER_LOADER_RANGES_H

#include "loader/loader_plan.h"
#include "loader/loader_source.h"

/* Marks the located item as sparse if a two-round read is likely to save enough. */
void psti_loader_ranges_consider(const pst_loader *loader, const struct psti_draw_key *key,
                                 const struct psti_loader_plan_field *field,
                                 struct psti_loader_source *source);
/* Fills `reads` with the second-round reads of all items that have one, and returns how many. The
 * first round's reads must have been taken. */
uint32_t psti_loader_ranges_reads(pst_loader *loader, struct psti_loader_source *sources,
                                  struct psti_read *reads);
/* Called when the reads of the second round have ended. Returns PST_OK, or the error of the first
 * read that failed. */
enum pst_status psti_loader_ranges_take(const pst_loader *loader, uint64_t sample,
                                        const struct psti_loader_source *sources,
                                        const struct psti_read *reads, struct pst_error *err);

#endif
