/* loader_draw.h - the random parameters of one image of a row. */
#ifndef PST_LOADER_LOADER_DRAW_H
#define PST_LOADER_LOADER_DRAW_H

#include "augment/augment.h"
#include "loader/loader_plan.h"
#include "loader/loader_source.h"

/* Draws by psti_augment_chain_draw. If the field uses scaled decode and the source may be scaled,
 * also calls psti_augment_chain_scale. PST_ERROR_STATE: the draw depends on the row's boxes, and
 * they are not loaded yet. */
enum pst_status psti_loader_draw(const pst_loader *loader,
                                 const struct psti_loader_plan_field *plan,
                                 const struct psti_loader_source *source,
                                 const struct psti_draw_key *key, const struct pst_image_info *info,
                                 struct psti_draw *draw, struct pst_error *err);
/* True if scaled_decode affects the image. JPEGs are never scaled. So a JPEG that the cache keeps
 * re-coded is not scaled either, and a batch does not depend on what the cache holds. */
bool psti_loader_draw_may_scale(const pst_loader *loader, const struct psti_loader_source *source,
                                const struct pst_image_info *info);

#endif
