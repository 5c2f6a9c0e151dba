/* loader_boxes.h - the boxes of a row: those on which its draws depend, and those that are dropped.
 */
#ifndef PST_LOADER_LOADER_BOXES_H
#define PST_LOADER_LOADER_BOXES_H

#include "loader/loader_plan.h"
#include "loader/loader_source.h"

struct psti_loader_worker;

/* At open. PST_ERROR_ARGUMENT if a field seems to belong to boxes that are dropped,
 * and the caller has not said whether it does. */
enum pst_status psti_loader_boxes_check(pst_dataset *dataset, const struct psti_loader_plan *plan,
                                        struct pst_error *err);
/* Keeps the stored boxes of plan.i_crop_boxes in worker->boxes, for the row's draws. */
enum pst_status psti_loader_boxes_take(struct psti_loader_worker *worker, const void *boxes,
                                       uint64_t nbytes, struct pst_error *err);
/* Aligns them with the leading image, which was probed, and checks them. */
enum pst_status psti_loader_boxes_follow(struct psti_loader_worker *worker, struct pst_error *err);
/* Called after all fields of the row were filled. */
enum pst_status psti_loader_boxes_drop(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint32_t row, const struct psti_loader_source *sources,
                                       struct pst_error *err);

#endif
