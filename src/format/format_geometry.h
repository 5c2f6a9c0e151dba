/* format_geometry.h - how masks, boxes and keypoints fit an image that has an EXIF orientation.
 *
 * Pure functions, any thread. An orientation is 1 to 8 as EXIF numbers them: what turns the stored
 * picture upright. */
#ifndef PST_FORMAT_FORMAT_GEOMETRY_H
#define PST_FORMAT_FORMAT_GEOMETRY_H

#include <penstock/dataset.h>

/* True for fields that lie on an image and move with it: masks, boxes, keypoints. */
bool psti_format_lies_on_image(enum pst_field_type type);

/* An image as somebody sees it. */
struct psti_picture_size {
    uint32_t height, width; /* of the picture as shown */
    uint8_t orientation;    /* of its file; 0 and 1: none */
    bool is_stored;         /* shown as stored: the orientation is not applied */
};

/* The orientation that turns what was made for `made_for` into the picture as shown; 1: it fits as
 * it is; 0: nobody can know. */
uint8_t psti_format_turn_of(const struct psti_picture_size *picture, enum pst_made_for made_for);
/* psti_format_turn_of for a mask of that size, which may decide what is unknown. *fits: its size is
 * the picture's, turned so. */
uint8_t psti_format_turn_of_mask(const struct psti_picture_size *picture,
                                 enum pst_made_for made_for, uint32_t height, uint32_t width,
                                 bool *fits);
/* Turns boxes, f32 (n,4), or keypoints, f32 (n,3), that were made for the picture before the turn;
 * `height` and `width` are the shown one's, after it. */
void psti_format_turn_boxes(uint8_t turn, uint32_t height, uint32_t width, float *boxes, size_t n);
void psti_format_turn_keypoints(uint8_t turn, uint32_t height, uint32_t width, float *points,
                                size_t n);

/* What is wrong with a box on a picture of that size (0: of any size), NULL: nothing. It may reach
 * beyond the picture, but not lie outside of it. */
const char *psti_format_box_problem(const float box[4], uint32_t height, uint32_t width);
/* Keypoints may lie anywhere, at finite places. */
const char *psti_format_keypoint_problem(const float point[3]);

#endif
