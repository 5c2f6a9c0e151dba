/* loader_sound.h - rows of audio fields: plans, partial reads, decoding. */
#ifndef PST_LOADER_LOADER_SOUND_H
#define PST_LOADER_LOADER_SOUND_H

#include "loader/loader_plan.h"
#include "loader/loader_source.h"

struct psti_loader_worker;

/* Compiles the chain of an audio field and describes its slot. */
enum pst_status psti_loader_sound_plan(pst_dataset *dataset,
                                       const struct pst_loader_options *options,
                                       const struct pst_field_output *wish,
                                       struct psti_loader_plan_field *plan,
                                       struct psti_slot_field *slot, struct pst_error *err);
/* Marks a located item as sparse if its clip probably needs only a small part of it. */
void psti_loader_sound_consider(const pst_loader *loader, const struct psti_draw_key *key,
                                const struct psti_loader_plan_field *field,
                                struct psti_loader_source *source);
/* Called when the head of a sparse item was read. Returns the range that must still be read: the
 * clip's range for a WAV (sets source->partial), otherwise all other bytes. */
struct pst_pli_range psti_loader_sound_range(const pst_loader *loader,
                                             const struct psti_loader_plan_field *field,
                                             struct psti_loader_source *source);
/* Decodes one sound into its row of the batch. */
enum pst_status psti_loader_row_sound(struct psti_loader_worker *worker, pst_batch *batch,
                                      uint32_t i_plan, uint32_t row,
                                      const struct psti_draw_key *key,
                                      const struct psti_loader_source *source,
                                      struct pst_error *err);

#endif
