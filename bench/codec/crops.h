/* crops.h - the cropped groups and the cost of their crops. */
#ifndef PST_BENCH_CROPS_H
#define PST_BENCH_CROPS_H

#include "codec.h"

#include <penstock/augment.h>
#include <penstock/pli.h>

struct crop_case {
    const char *name, *group;
    enum pst_op_kind op;
    uint32_t size;
};

struct crop_tier {
    const char *name;
    enum pst_pli_tier tier;
};

/* Means over samples: shares, units, and seconds of CPU. */
struct crop_result {
    size_t n_images;
    double pixel_share;
    double units_touched, units_whole; /* by geometry, over the drawn rectangles */
    double units;                      /* decoded by the loader, from its counters */
    double whole_seconds, crop_seconds;
    double loader_whole_seconds, loader_crop_seconds;
};

/* Draws a rectangle as the operation does. */
struct pst_pli_region crop_draw(uint64_t *random, const struct crop_case *what,
                                const struct image *image);
void crop_measure(const struct crop_case *what, const struct crop_tier *tier,
                  const struct group *group, const struct settings *settings,
                  struct crop_result *result);

#endif
