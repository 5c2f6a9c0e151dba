/* format_geometry.c - rotates and flips coordinates by an EXIF orientation, and checks boxes and
 * keypoints.
 *
 * In: sizes, orientations, coordinates. Out: rotated or flipped coordinates, or what is wrong with
 * them. Pure functions; any thread. */
#include "format/format_geometry.h"

#include <math.h>
#include <string.h>

bool psti_format_lies_on_image(enum pst_field_type type)
{
    return type == PST_FIELD_MASK || type == PST_FIELD_BOXES || type == PST_FIELD_KEYPOINTS;
}

static bool swaps(uint8_t turn) { return turn >= 5; }
static bool mirrors_x(uint8_t turn) { return turn == 2 || turn == 3 || turn == 7 || turn == 8; }
static bool mirrors_y(uint8_t turn) { return turn == 3 || turn == 4 || turn == 6 || turn == 7; }

/* Returns the inverse of an orientation. 6 and 8, the quarter turns, are inverse to each other; all
 * others are their own inverse. */
static uint8_t inverse(uint8_t turn) { return turn == 6 ? 8 : turn == 8 ? 6 : turn; }

uint8_t psti_format_turn_of(const struct psti_picture_size *picture, enum pst_made_for made_for)
{
    if (picture->orientation <= 1)
        return 1;
    if (made_for != PST_MADE_FOR_UPRIGHT && made_for != PST_MADE_FOR_STORED)
        return 0;
    if ((made_for == PST_MADE_FOR_STORED) == picture->is_stored)
        return 1;
    return picture->is_stored ? inverse(picture->orientation) : picture->orientation;
}

static bool has_size(const struct psti_picture_size *picture, uint8_t turn, uint32_t height,
                     uint32_t width)
{
    return height == (swaps(turn) ? picture->width : picture->height) &&
           width == (swaps(turn) ? picture->height : picture->width);
}

uint8_t psti_format_turn_of_mask(const struct psti_picture_size *picture,
                                 enum pst_made_for made_for, uint32_t height, uint32_t width,
                                 bool *fits)
{
    uint8_t turn = psti_format_turn_of(picture, made_for);
    if (turn != 0) {
        *fits = has_size(picture, turn, height, width);
        return turn;
    }
    uint8_t of_other = picture->is_stored ? inverse(picture->orientation) : picture->orientation;
    bool as_shown = has_size(picture, 1, height, width);
    bool as_other = has_size(picture, of_other, height, width);
    *fits = as_shown || as_other;
    return as_shown && as_other ? 0 : as_other ? of_other : 1;
}

/* Rotates or flips one point. before_height and before_width are the picture's size before that. */
static void turn_point(uint8_t turn, float before_height, float before_width, float *x, float *y)
{
    float to_x = mirrors_x(turn) ? before_width - *x : *x;
    float to_y = mirrors_y(turn) ? before_height - *y : *y;
    *x = swaps(turn) ? to_y : to_x;
    *y = swaps(turn) ? to_x : to_y;
}

static void sort_two(float *a, float *b)
{
    float low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = low;
    *b = high;
}

void psti_format_turn_boxes(uint8_t turn, uint32_t height, uint32_t width, float *boxes, size_t n)
{
    float before_height = (float)(swaps(turn) ? width : height);
    float before_width = (float)(swaps(turn) ? height : width);
    for (size_t i = 0; i < n && turn > 1; i++) {
        float *box = boxes + 4 * i;
        turn_point(turn, before_height, before_width, &box[0], &box[1]);
        turn_point(turn, before_height, before_width, &box[2], &box[3]);
        sort_two(&box[0], &box[2]);
        sort_two(&box[1], &box[3]);
    }
}

void psti_format_turn_keypoints(uint8_t turn, uint32_t height, uint32_t width, float *points,
                                size_t n)
{
    float before_height = (float)(swaps(turn) ? width : height);
    float before_width = (float)(swaps(turn) ? height : width);
    for (size_t i = 0; i < n && turn > 1; i++)
        turn_point(turn, before_height, before_width, &points[3 * i], &points[3 * i + 1]);
}

const char *psti_format_pairs_problem(const struct psti_pairs *pairs)
{
    uint64_t seen[PST_MAX_POINTS / 64] = {0};
    uint32_t n_points = pairs->n_points > 0 ? pairs->n_points : PST_MAX_POINTS;
    if (n_points > PST_MAX_POINTS)
        return "has more than 4096 points in an instance";
    if (pairs->n > n_points / 2)
        return "has more pairs than an instance has points for";
    for (size_t i = 0; i < 2 * pairs->n; i++) {
        uint32_t point = pairs->pairs[i];
        if (point >= n_points)
            return "has a pair of a point that an instance does not have";
        uint64_t bit = (uint64_t)1 << (point % 64);
        if (seen[point / 64] & bit)
            return "has a point that is in two pairs, or twice in one";
        seen[point / 64] |= bit;
    }
    return NULL;
}

const char *psti_format_points_problem(const struct psti_pairs *pairs, uint64_t n)
{
    uint64_t n_least = 0; /* number of points of an instance that the pairs need at least */
    if (pairs->n_points > 0)
        return n % pairs->n_points == 0 ? NULL : "are not whole instances";
    for (size_t i = 0; i < 2 * pairs->n; i++)
        n_least = pairs->pairs[i] >= n_least ? (uint64_t)pairs->pairs[i] + 1 : n_least;
    if (n == 0 || n_least == 0)
        return NULL;
    if (n < n_least)
        return "are fewer than their pairs name";
    return n < 2 * n_least ? NULL
                           : "may be several instances: say how many points one has (points)";
}

void psti_format_swap_pairs(const struct psti_pairs *pairs, float *points, size_t n)
{
    size_t n_each = pairs->n_points > 0 ? pairs->n_points : n;
    for (size_t first = 0; first < n; first += n_each)
        for (size_t i = 0; i < pairs->n; i++) {
            float *a = points + 3 * (first + pairs->pairs[2 * i]);
            float *b = points + 3 * (first + pairs->pairs[2 * i + 1]);
            float held[3];
            memcpy(held, a, sizeof held);
            memcpy(a, b, sizeof held);
            memcpy(b, held, sizeof held);
        }
}

size_t psti_format_paired_with(const struct psti_pairs *pairs, size_t i)
{
    size_t first = pairs->n_points > 0 ? i / pairs->n_points * pairs->n_points : 0;
    for (size_t k = 0; k < 2 * pairs->n; k++)
        if (first + pairs->pairs[k] == i)
            return first + pairs->pairs[k ^ 1];
    return i;
}

const char *psti_format_box_problem(const float box[4], uint32_t height, uint32_t width)
{
    for (int i = 0; i < 4; i++)
        if (!isfinite(box[i]))
            return "is not finite";
    if (!(box[0] < box[2]) || !(box[1] < box[3]))
        return "has no area: x0 < x1 and y0 < y1 must hold";
    if (height != 0 &&
        (box[2] <= 0 || box[3] <= 0 || box[0] >= (float)width || box[1] >= (float)height))
        return "lies outside of the image";
    return NULL;
}

const char *psti_format_keypoint_problem(const float point[3])
{
    for (int i = 0; i < 3; i++)
        if (!isfinite(point[i]))
            return "is not finite";
    return NULL;
}
