/* format_geometry.h - how masks, boxes and keypoints fit an image that has an EXIF orientation.
 *
 * Pure functions, any thread. An orientation is EXIF's number 1 to 8: the rotation or flip that
 * makes the stored picture upright. */
#ifndef PST_FORMAT_FORMAT_GEOMETRY_H
#define PST_FORMAT_FORMAT_GEOMETRY_H

#include <penstock/dataset.h>

/* Returns whether fields of that type lie on an image and move with it: masks, boxes and keypoints
 * do. */
bool psti_format_lies_on_image(enum pst_field_type type);

/* The size of an image as it is shown. */
struct psti_picture_size {
    uint32_t height, width; /* size of the picture as it is shown */
    uint8_t orientation;    /* EXIF orientation of the image's file; 0 and 1: none */
    bool is_stored;         /* true if the picture is shown as stored, without its orientation */
};

/* Returns the orientation by which values made for `made_for` must be rotated or flipped to fit the
 * shown picture. 1: they fit as they are. 0: not known. */
uint8_t psti_format_turn_of(const struct psti_picture_size *picture, enum pst_made_for made_for);
/* Does as psti_format_turn_of for a mask of that size, which may decide an unknown orientation.
 * Sets *fits to whether the rotated mask has the picture's size. */
uint8_t psti_format_turn_of_mask(const struct psti_picture_size *picture,
                                 enum pst_made_for made_for, uint32_t height, uint32_t width,
                                 bool *fits);
/* Rotates or flips boxes, f32 (n,4), or keypoints, f32 (n,3), that were made for the picture before
 * the turn. `height` and `width` are those of the shown picture, after the turn. */
void psti_format_turn_boxes(uint8_t turn, uint32_t height, uint32_t width, float *boxes, size_t n);
void psti_format_turn_keypoints(uint8_t turn, uint32_t height, uint32_t width, float *points,
                                size_t n);

/* Which keypoints are left and right: pairs, u32 (n,2), of points of an instance of n_points
 * points. If n_points is 0, all points of a sample are one instance. */
struct psti_pairs {
    const uint32_t *pairs;
    size_t n;
    uint32_t n_points;
};

/* Returns what is wrong with pairs, or NULL: a point may be in two pairs, or not exist. */
const char *psti_format_pairs_problem(const struct psti_pairs *pairs);
/* Returns what is wrong with a sample of n keypoints, or NULL: they may not be whole instances. */
const char *psti_format_points_problem(const struct psti_pairs *pairs, uint64_t n);
/* Swaps the points of each pair, with their visibility, in keypoints f32 (n,3) that are whole
 * instances. */
void psti_format_swap_pairs(const struct psti_pairs *pairs, float *points, size_t n);
/* Returns the number of the point that takes the place of point i then. */
size_t psti_format_paired_with(const struct psti_pairs *pairs, size_t i);

/* Returns what is wrong with a box on a picture of that size (0: of any size), or NULL. A box may
 * reach beyond the picture, but must not lie outside of it. */
const char *psti_format_box_problem(const float box[4], uint32_t height, uint32_t width);
/* Returns what is wrong with a keypoint, or NULL. It may lie anywhere, at finite coordinates. */
const char *psti_format_keypoint_problem(const float point[3]);

#endif
