/* format_geometry.h - how masks, boxes and keypoints fit an image that has an EXIF orientation.
 *
 * Pure functions, any thread. An orientation is EXIF's number 1 to 8: the rotation or flip that
 * makes the stored picture upright. */
#ifndef PST_FORMAT_FORMAT_GEOMETRY_H
#define PST_FORMAT_FORMAT_GEOMETRY_H

#include <penstock/dataset.h>

/* Returns whether values of that type are positions on an image and must be rotated with it: masks,
 * boxes and keypoints. */
bool psti_format_lies_on_image(enum pst_field_type type);

/* The size of an image as it is shown. */
struct psti_picture_size {
    uint32_t height, width; /* size of the picture as it is shown */
    uint8_t orientation;    /* EXIF orientation of the image's file; 0 and 1: none */
    bool is_stored;         /* true if the picture is shown as stored, without its orientation */
};

/* Returns the orientation by which values made for `made_for` must be rotated or flipped to fit the
 * shown picture. 1: they fit already. 0: not known. */
uint8_t psti_format_turn_of(const struct psti_picture_size *picture, enum pst_made_for made_for);
/* Does the same as psti_format_turn_of for a mask of height x width, whose size may decide an
 * unknown orientation. *fits: whether the rotated mask has the picture's size. */
uint8_t psti_format_turn_of_mask(const struct psti_picture_size *picture,
                                 enum pst_made_for made_for, uint32_t height, uint32_t width,
                                 bool *fits);
/* Rotates or flips boxes, f32 (n,4), or keypoints, f32 (n,3), in place. `height` and `width` are
 * the size of the shown picture, after the rotation. */
void psti_format_turn_boxes(uint8_t turn, uint32_t height, uint32_t width, float *boxes, size_t n);
void psti_format_turn_keypoints(uint8_t turn, uint32_t height, uint32_t width, float *points,
                                size_t n);

/* States which keypoints are left and right: `pairs`, u32 (n,2), holds indices of points of an
 * instance. An instance has n_points points; 0: all points of a sample are one instance. */
struct psti_pairs {
    const uint32_t *pairs;
    size_t n;
    uint32_t n_points;
};

/* Returns what is wrong with pairs, or NULL. A point must exist and be in one pair only. */
const char *psti_format_pairs_problem(const struct psti_pairs *pairs);
/* Returns what is wrong with the n keypoints of a sample, or NULL. They must form whole
 * instances. */
const char *psti_format_points_problem(const struct psti_pairs *pairs, uint64_t n);
/* Swaps the points of each pair, with their visibility. Keypoints, f32 (n,3), must form whole
 * instances. */
void psti_format_swap_pairs(const struct psti_pairs *pairs, float *points, size_t n);
/* Returns the index of the point that psti_format_swap_pairs puts in the place of point i. */
size_t psti_format_paired_with(const struct psti_pairs *pairs, size_t i);

/* Returns what is wrong with a box on a picture of that size (0: unknown), or NULL. A box may reach
 * beyond the picture, but must overlap it. */
const char *psti_format_box_problem(const float box[4], uint32_t height, uint32_t width);
/* Returns what is wrong with a keypoint, or NULL. Any finite coordinates are allowed. */
const char *psti_format_keypoint_problem(const float point[3]);

#endif
