/* loader_follow.h - aligns what belongs to an image with it. */
#ifndef PST_LOADER_LOADER_FOLLOW_H
#define PST_LOADER_LOADER_FOLLOW_H

#include <penstock/penstock.h>

struct psti_loader_worker;

/* Called after `info` was probed. Keeps that of the leading image. Rotates a mask's so that the
 * mask decodes aligned with the image. An error if sizes do not fit. */
enum pst_status psti_loader_follow_image(struct psti_loader_worker *worker, uint32_t i_plan,
                                         struct pst_image_info *info, struct pst_error *err);
/* Aligns boxes or keypoints with the leading image, and checks them. */
enum pst_status psti_loader_follow_points(struct psti_loader_worker *worker, uint32_t i_plan,
                                          float *points, size_t n, struct pst_error *err);

#endif
