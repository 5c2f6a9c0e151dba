/* augment_iou.c - RandomIoUCrop, the crop of SSD, whose draw depends on the boxes of the sample.
 *
 * In: the boxes of the source, mapped by the operations before the crop, and random numbers. Out:
 * the crop, as words of the draw; no crop if the picture stays as it is. Pure functions, any
 * thread.
 *
 * The rule is torchvision's RandomIoUCrop, after Liu et al., "SSD: Single Shot MultiBox Detector",
 * ECCV 2016. It differs in cases where torchvision's loop might not end: without boxes there is no
 * crop, at most ROUNDS overlaps are drawn, and at most TESTS_MAX boxes are compared. */
#include "augment/augment_int.h"

#include "base/fail.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 100, TRIALS_MAX = 1000 };
/* The most comparisons of a box with a crop in one draw. They take less than a second. */
#define TESTS_MAX (UINT64_C(1) << 28)

const char *psti_augment_iou_problem(const struct pst_op *op)
{
    if (!(op->scale[0] > 0 && op->scale[0] <= op->scale[1] && op->scale[1] <= 1))
        return "scale must be 0 < low <= high <= 1";
    if (!(op->ratio[0] > 0 && op->ratio[0] <= op->ratio[1] && op->ratio[1] <= 1e6f))
        return "ratio must be 0 < low <= high";
    if (op->n_overlaps < 1 || op->n_overlaps > PST_MAX_OVERLAPS)
        return "1 to 16 overlaps are possible";
    for (uint32_t i = 0; i < op->n_overlaps; i++) {
        if (!(op->overlaps[i] >= 0 && isfinite(op->overlaps[i])))
            return "overlaps must be 0 or more";
    }
    if (op->trials < 1 || op->trials > TRIALS_MAX)
        return "trials must be 1..1000";
    return NULL;
}

/* A crop as a rectangle in pixels. */
struct crop {
    uint32_t y, x, height, width;
};

/* Returns the intersection over union of a crop and a box whose area is not 0. */
static double overlap_of(const float box[4], const struct crop *crop)
{
    double right = (double)crop->x + crop->width, bottom = (double)crop->y + crop->height;
    double width = fmin(box[2], right) - fmax(box[0], crop->x);
    double height = fmin(box[3], bottom) - fmax(box[1], crop->y);
    double common = width > 0 && height > 0 ? width * height : 0;
    double area = ((double)box[2] - box[0]) * ((double)box[3] - box[1]);
    return common / (area + (double)crop->width * crop->height - common);
}

static bool has_area(const float box[4]) { return box[2] > box[0] && box[3] > box[1]; }

/* Returns whether the crop contains the centre of at least one box, and overlaps enough with such a
 * box. */
static bool suits(const float *boxes, size_t n, const struct crop *crop, float overlap)
{
    for (size_t i = 0; i < n; i++) {
        const float *box = boxes + 4 * i;
        if (has_area(box) &&
            psti_augment_iou_holds(box, crop->y, crop->x, crop->height, crop->width) &&
            overlap_of(box, crop) >= overlap)
            return true;
    }
    return false;
}

static float roll01(struct psti_dice *dice) { return psti_uniform01(psti_augment_dice_roll(dice)); }

/* Draws a crop of a picture of height x width. Returns false if its aspect ratio or size is not
 * allowed. */
static bool draw_crop(const struct pst_op *op, struct psti_dice *dice, uint32_t height,
                      uint32_t width, struct crop *crop)
{
    float range = op->scale[1] - op->scale[0];
    float share_x = op->scale[0] + range * roll01(dice);
    float share_y = op->scale[0] + range * roll01(dice);
    crop->width = (uint32_t)((float)width * share_x);
    crop->height = (uint32_t)((float)height * share_y);
    if (crop->width < 1 || crop->height < 1 || crop->width > width || crop->height > height)
        return false;
    double ratio = (double)crop->width / crop->height;
    if (!(op->ratio[0] <= ratio && ratio <= op->ratio[1]))
        return false;
    crop->x = (uint32_t)((float)(width - crop->width) * roll01(dice));
    crop->y = (uint32_t)((float)(height - crop->height) * roll01(dice));
    return true;
}

/* Draws a random crop that is allowed for the picture's boxes. Returns false if the picture is not
 * cropped. */
static bool draw_by_boxes(const struct pst_op *op, struct psti_dice *dice, const float *boxes,
                          size_t n, uint32_t height, uint32_t width, struct crop *crop)
{
    bool any = false;
    uint64_t n_trials = TESTS_MAX / (n + 1) + 1;
    for (size_t i = 0; i < n; i++)
        any = any || has_area(boxes + 4 * i);
    for (uint32_t round = 0; any && round < ROUNDS; round++) {
        uint32_t choice = psti_uniform_below(psti_augment_dice_roll(dice), op->n_overlaps);
        float overlap = op->overlaps[choice];
        if (overlap >= 1)
            return false;
        for (uint32_t trial = 0; trial < op->trials; trial++) {
            if (n_trials-- == 0)
                return false;
            if (draw_crop(op, dice, height, width, crop) && suits(boxes, n, crop, overlap))
                return true;
        }
    }
    return false;
}

enum pst_status psti_augment_iou_draw(const struct psti_chain *chain, uint32_t i_op,
                                      const struct psti_draw_boxes *boxes, uint32_t height,
                                      uint32_t width, struct psti_draw *draw, struct pst_error *err)
{
    struct psti_dice dice = {.stream = psti_augment_stream(chain, draw, i_op)};
    struct crop crop;
    if (boxes == NULL)
        return psti_fail(err, PST_ERROR_STATE, "augment",
                         "operation %u (RandomIoUCrop): the boxes of the sample are not known",
                         i_op);
    if (boxes->n > 0)
        memcpy(boxes->scratch, boxes->boxes, boxes->n * 4 * sizeof(float));
    psti_augment_boxes_before(chain, draw, i_op, boxes->scratch, boxes->n);
    if (!draw_by_boxes(&chain->ops[i_op], &dice, boxes->scratch, boxes->n, height, width, &crop))
        return PST_OK;
    draw->opaque[4 * (size_t)i_op] = psti_augment_draw_pair(crop.y, crop.x);
    draw->opaque[4 * (size_t)i_op + 1] = psti_augment_draw_pair(crop.height, crop.width);
    return PST_OK;
}
