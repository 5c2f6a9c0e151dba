/* loader_boxes.h - the boxes of a row: boxes that random crops depend on, and boxes that are
 * dropped. */
#ifndef PST_LOADER_LOADER_BOXES_H
#define PST_LOADER_LOADER_BOXES_H

#include "loader/loader_plan.h"
#include "loader/loader_source.h"

struct psti_loader_worker;

/* Checks at open that fields go with their boxes. PST_ERROR_ARGUMENT: a field seems to have a row
 * for each box, boxes may be dropped, and the caller has not said whether the field's rows go with
 * them. */
enum pst_status psti_loader_boxes_check(pst_dataset *dataset, const struct psti_loader_plan *plan,
                                        struct pst_error *err);
/* Copies the stored boxes of plan.i_crop_boxes to worker->boxes, for the row's draws. */
enum pst_status psti_loader_boxes_take(struct psti_loader_worker *worker, const void *boxes,
                                       uint64_t nbytes, struct pst_error *err);
/* Aligns worker->boxes with the leading image, whose header must have been read, and checks
 * them. */
enum pst_status psti_loader_boxes_follow(struct psti_loader_worker *worker, struct pst_error *err);
/* Drops boxes of the row, and the rows that belong to them. Called after all fields of the row were
 * filled. */
enum pst_status psti_loader_boxes_drop(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint32_t row, const struct psti_loader_source *sources,
                                       struct pst_error *err);

#endif
