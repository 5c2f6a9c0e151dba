/* units.cuh - functions that the kernels for units share: they find a warp's entry in the list of
 * units, and report a corrupt unit. */
#ifndef PST_GPU_UNITS_CUH
#define PST_GPU_UNITS_CUH

#include "gpu/kernels/warp.cuh"
#include "gpu/work/gpu_units.h"

namespace psti
{

/* Finds the list entry that this warp decodes. Returns false if there is none for it. */
PSTI_LANES bool take_unit(const block &b, const struct psti_gpu_units_args &args,
                          struct psti_gpu_unit &unit)
{
    uint32_t i = b.index * b.n_warps + b.warp;
    if (i >= args.n_units)
        return false;
    unit = reinterpret_cast<const struct psti_gpu_unit *>(args.units)[i];
    return unit.image != PSTI_GPU_NO_IMAGE;
}

PSTI_LANES const struct psti_gpu_image &image_of(const struct psti_gpu_units_args &args,
                                                 const struct psti_gpu_unit &unit)
{
    return reinterpret_cast<const struct psti_gpu_image *>(args.images)[unit.image];
}

/* Reports a corrupt unit. The image's status keeps the lowest number of such a unit. */
PSTI_LANES void report(const struct psti_gpu_units_args &args, const struct psti_gpu_image &image,
                       const struct psti_gpu_unit &unit)
{
    uint32_t columns = (image.width + (1u << image.unit_log2) - 1) >> image.unit_log2;
    uint32_t number = unit.unit_y * columns + unit.unit_x;
    atomic_max(reinterpret_cast<uint32_t *>(args.statuses), lane_u32(image.status),
               lane_u32(PSTI_GPU_CORRUPT(number)), lane_id() == lane_u32(0));
}

} // namespace psti

#endif
