/* units.cu - the kernels that decode PLI of pixels: one for each list of cuda_units.h.
 *
 * A warp takes one entry of the list; blocks are no more than warps that share memory. Whatever a
 * unit's bytes are, a warp ends, touches nothing that is not its own, and reports a unit that the
 * CPU's decoder would not take. */
#include "cuda/cuda_units.h"
#include "cuda/pli_lz.cuh"
#include "cuda/pli_packed.cuh"
#include "cuda/pli_plain.cuh"

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

struct plain_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_cuda_units_args &args)
    {
        struct psti_cuda_unit unit;
        if (take_unit(b, args, unit))
            plain_decode(image_of(args, unit), unit, args.finish);
    }
};

struct lz_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_cuda_units_args &args)
    {
        struct psti_cuda_unit unit;
        if (!take_unit(b, args, unit))
            return;
        const struct psti_cuda_image &image = image_of(args, unit);
        if (!lz_decode(b.memory + b.warp * args.warp_nbytes, image, unit, args.lz_constants))
            report(args, image, unit);
    }
};

struct packed_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_cuda_units_args &args)
    {
        struct psti_cuda_unit unit;
        if (!take_unit(b, args, unit))
            return;
        const struct psti_cuda_image &image = image_of(args, unit);
        if (!packed_decode(b.memory + b.warp * args.warp_nbytes, image, unit, args.finish))
            report(args, image, unit);
    }
};

} // namespace psti

PSTI_KERNEL(psti_cuda_units_plain, psti::plain_kernel, struct psti_cuda_units_args,
            PSTI_CUDA_PLAIN_WARPS, 4)
PSTI_KERNEL(psti_cuda_units_packed, psti::packed_kernel, struct psti_cuda_units_args,
            PSTI_CUDA_PACKED_WARPS, 5)
PSTI_KERNEL(psti_cuda_units_lz, psti::lz_kernel, struct psti_cuda_units_args, 1, 16)
