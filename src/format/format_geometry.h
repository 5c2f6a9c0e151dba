/* format_geometry.h - how masks, boxes and keypoints fit an image that has an EXIF orientation.
 *
 * Pure functions, any thread. An orientation is EXIF's number 1 to 8: the rotation or flip that
 * makes the stored picture upright. */
#ifndef PST_FORMAT_FORMAT_GEOMETRY_H
#define PST_FORMAT_FORMAT_GEOMETRY_H

#include <penstock/dataset.h>

/* True for fields that lie on an image and move with it: masks, boxes, keypoints. */
bool psti_format_lies_on_image(enum pst_field_type type);

/* The size of an image as it is shown. */
struct psti_picture_size {
    uint32_t height, width; /* of the shown picture */
    uint8_t orientation;    /* EXIF orientation of its file; 0 and 1: none */
    bool is_stored;         /* shown as stored: the orientation is not applied */
};

/* Returns the orientation that rotates or flips values made for `made_for` so that they fit the
 * shown picture. 1: they fit as they are. 0: unknown. */
uint8_t psti_format_turn_of(const struct psti_picture_size *picture, enum pst_made_for made_for);
/* As psti_format_turn_of for a mask of that size. The mask's size may decide an unknown
 * orientation. *fits: after the rotation, the mask has the picture's size. */
uint8_t psti_format_turn_of_mask(const struct psti_picture_size *picture,
                                 enum pst_made_for made_for, uint32_t height, uint32_t width,
                                 bool *fits);
/* Rotates or flips boxes, f32 (n,4), or keypoints, f32 (n,3), that were made for the picture before
 * the turn. `height` and `width` are those of the shown picture, after the turn. */
void psti_format_turn_boxes(uint8_t turn, uint32_t height, uint32_t width, float *boxes, size_t n);
void psti_format_turn_keypoints(uint8_t turn, uint32_t height, uint32_t width, float *points,
                                size_t n);

/* Left and right among keypoints: pairs u32 (n,2) of points of an instance of n_points points.
 * n_points 0: all points of a sample are one instance. */
struct psti_pairs {
    const uint32_t *pairs;
    size_t n;
    uint32_t n_points;
};

/* Returns NULL or the problem with pairs: a point that is in two, or that there is not. */
const char *psti_format_pairs_problem(const struct psti_pairs *pairs);
/* Returns NULL or the problem with a sample of n keypoints: they are not whole instances. */
const char *psti_format_points_problem(const struct psti_pairs *pairs, uint64_t n);
/* Swaps the points of each pair, with their visibility, in keypoints f32 (n,3) that are whole
 * instances. */
void psti_format_swap_pairs(const struct psti_pairs *pairs, float *points, size_t n);
/* Returns the number of the point that takes the place of point i then. */
size_t psti_format_paired_with(const struct psti_pairs *pairs, size_t i);

/* Returns NULL or the problem with a box on a picture of that size (0: of any size). A box may
 * reach beyond the picture, but must not lie outside of it. */
const char *psti_format_box_problem(const float box[4], uint32_t height, uint32_t width);
/* Returns NULL or the problem with a keypoint. It may lie anywhere, at finite coordinates. */
const char *psti_format_keypoint_problem(const float point[3]);

#endif
