/* units.cuh - what the kernels of units share: a warp's entry of the list, and the report of a unit
 * that is corrupt. */
#ifndef PST_CUDA_UNITS_CUH
#define PST_CUDA_UNITS_CUH

#include "cuda/cuda_units.h"
#include "cuda/warp.cuh"

namespace psti
{

/* This warp's entry; false: there is none. */
PSTI_LANES bool take_unit(const block &b, const struct psti_cuda_units_args &args,
                          struct psti_cuda_unit &unit)
{
    uint32_t i = b.index * b.n_warps + b.warp;
    if (i >= args.n_units)
        return false;
    unit = reinterpret_cast<const struct psti_cuda_unit *>(args.units)[i];
    return unit.image != PSTI_CUDA_NO_IMAGE;
}

PSTI_LANES const struct psti_cuda_image &image_of(const struct psti_cuda_units_args &args,
                                                  const struct psti_cuda_unit &unit)
{
    return reinterpret_cast<const struct psti_cuda_image *>(args.images)[unit.image];
}

/* The first corrupt unit's number is the one that stays. */
PSTI_LANES void report(const struct psti_cuda_units_args &args, const struct psti_cuda_image &image,
                       const struct psti_cuda_unit &unit)
{
    uint32_t columns = (image.width + (1u << image.unit_log2) - 1) >> image.unit_log2;
    uint32_t number = unit.unit_y * columns + unit.unit_x;
    atomic_max(reinterpret_cast<uint32_t *>(args.statuses), lane_u32(image.status),
               lane_u32(PSTI_CUDA_CORRUPT(number)), lane_id() == lane_u32(0));
}

} // namespace psti

#endif
