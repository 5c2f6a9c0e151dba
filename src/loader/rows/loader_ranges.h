/* loader_ranges.h - reads of an item in two rounds: its head, and then the parts that its row
 * needs.
 */
#ifndef PST_LOADER_LOADER_RANGES_H
#define PST_LOADER_LOADER_RANGES_H

#include "loader/loader_plan.h"
#include "loader/loader_source.h"

/* Marks the located item as sparse if a two-round read is likely to save enough. */
void psti_loader_ranges_consider(const pst_loader *loader, const struct psti_draw_key *key,
                                 const struct psti_loader_plan_field *field,
                                 struct psti_loader_source *source);
/* Fills `reads` with those of the second round, of items that have one, and returns how many. The
 * first round has been taken. */
uint32_t psti_loader_ranges_reads(pst_loader *loader, struct psti_loader_source *sources,
                                  struct psti_read *reads);
/* The reads of the second round have completed. Returns PST_OK, or the first one's error. */
enum pst_status psti_loader_ranges_take(const pst_loader *loader, uint64_t sample,
                                        const struct psti_loader_source *sources,
                                        const struct psti_read *reads, struct pst_error *err);

#endif
