/* crops_draw.c - rectangles as RandomCrop and RandomResizedCrop draw them, the same in every run.
 */
#include "crops.h"

#include <math.h>

/* SplitMix64. It is seeded, so every run draws the same numbers. */
static double uniform(uint64_t *state, double low, double high)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return low + (high - low) * ((double)(x >> 11) * 0x1p-53);
}

static uint32_t below(uint64_t *state, uint32_t n)
{
    uint32_t i = (uint32_t)uniform(state, 0, n);
    return i < n ? i : n - 1;
}

static struct pst_pli_region place(uint64_t *random, const struct image *image, uint32_t height,
                                   uint32_t width)
{
    return (struct pst_pli_region){.y = below(random, image->height - height + 1),
                                   .x = below(random, image->width - width + 1),
                                   .height = height,
                                   .width = width};
}

/* Draws by torchvision's rule: ten tries, then the largest centred crop of an allowed ratio. */
static struct pst_pli_region draw_resized(uint64_t *random, const struct image *image)
{
    const double area = (double)image->height * image->width, low = 3.0 / 4, high = 4.0 / 3;
    for (int i = 0; i < 10; i++) {
        double target = area * uniform(random, 0.08, 1);
        double ratio = exp(uniform(random, log(low), log(high)));
        uint32_t width = (uint32_t)lround(sqrt(target * ratio));
        uint32_t height = (uint32_t)lround(sqrt(target / ratio));
        if (width > 0 && height > 0 && width <= image->width && height <= image->height)
            return place(random, image, height, width);
    }
    double ratio = (double)image->width / image->height;
    uint32_t height = image->height, width = image->width;
    if (ratio < low)
        height = (uint32_t)lround(width / low);
    else if (ratio > high)
        width = (uint32_t)lround(height * high);
    return (struct pst_pli_region){(image->height - height) / 2, (image->width - width) / 2, height,
                                   width};
}

struct pst_pli_region crop_draw(uint64_t *random, const struct crop_case *what,
                                const struct image *image)
{
    if (what->op == PST_OP_RANDOM_RESIZED_CROP)
        return draw_resized(random, image);
    if (image->height < what->size || image->width < what->size)
        die(image->name, "smaller than the crop");
    return place(random, image, what->size, what->size);
}
