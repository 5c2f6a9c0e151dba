/* loader_follow.h - aligns masks, boxes and keypoints with the image that they belong to. */
#ifndef PST_LOADER_LOADER_FOLLOW_H
#define PST_LOADER_LOADER_FOLLOW_H

#include <penstock/penstock.h>

struct psti_loader_worker;

/* Called after the image's header was read into `info`. Remembers `info` of the leading image. For
 * a mask, sets the orientation in `info` so that the mask is decoded aligned with that image. Fails
 * if the sizes do not fit. */
enum pst_status psti_loader_follow_image(struct psti_loader_worker *worker, uint32_t i_plan,
                                         struct pst_image_info *info, struct pst_error *err);
/* Checks boxes or keypoints and rotates or mirrors them to match the leading image. */
enum pst_status psti_loader_follow_points(struct psti_loader_worker *worker, uint32_t i_plan,
                                          float *points, size_t n, struct pst_error *err);

#endif
