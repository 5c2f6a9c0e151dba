/* crops.h - shared by the parts of the crop benchmark: the groups, the drawn rectangles, and the
 * measured cost of crops. */
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

/* Means over samples: shares of units, numbers of units, and CPU seconds. */
struct crop_result {
    size_t n_images;
    double pixel_share;
    double units_touched, units_whole; /* units that the drawn rectangles touch, and units of whole
                                        * images, computed from the geometry */
    double units;                      /* units that the loader decoded, from its counters */
    double whole_seconds, crop_seconds;
    double loader_whole_seconds, loader_crop_seconds;
};

/* Draws a rectangle by the rule of the group's operation. */
struct pst_pli_region crop_draw(uint64_t *random, const struct crop_case *what,
                                const struct image *image);
void crop_measure(const struct crop_case *what, const struct crop_tier *tier,
                  const struct group *group, const struct settings *settings,
                  struct crop_result *result);

#endif
