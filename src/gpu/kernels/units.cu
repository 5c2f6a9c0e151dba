/* units.cu - the kernels that decode PLI of pixels, one for each list of gpu_units.h. Kernels of
 * wave units are in units_wave.cu.
 *
 * A warp takes one entry of the list. The warps of a block only share memory. Whatever bytes a unit
 * has, its warp ends, accesses only its own memory, and reports the unit if the CPU's decoder would
 * reject it. */
#include "gpu/kernels/pli_lz.cuh"
#include "gpu/kernels/pli_packed.cuh"
#include "gpu/kernels/pli_plain.cuh"
#include "gpu/kernels/units.cuh"

namespace psti
{

struct plain_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_units_args &args)
    {
        struct psti_gpu_unit unit;
        if (take_unit(b, args, unit))
            plain_decode(image_of(args, unit), unit, args.finish);
    }
};

struct lz_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_units_args &args)
    {
        struct psti_gpu_unit unit;
        if (!take_unit(b, args, unit))
            return;
        const struct psti_gpu_image &image = image_of(args, unit);
        if (!lz_decode(b.memory + b.warp * args.warp_nbytes, image, unit, args.lz_constants))
            report(args, image, unit);
    }
};

struct packed_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_units_args &args)
    {
        struct psti_gpu_unit unit;
        if (!take_unit(b, args, unit))
            return;
        const struct psti_gpu_image &image = image_of(args, unit);
        if (!packed_decode(b.memory + b.warp * args.warp_nbytes, image, unit, args.finish))
            report(args, image, unit);
    }
};

} // namespace psti

PSTI_KERNEL(psti_gpu_units_plain, psti::plain_kernel, struct psti_gpu_units_args,
            PSTI_GPU_PLAIN_WARPS, 3)
PSTI_KERNEL(psti_gpu_units_packed, psti::packed_kernel, struct psti_gpu_units_args,
            PSTI_GPU_PACKED_WARPS, 4)
PSTI_KERNEL(psti_gpu_units_lz, psti::lz_kernel, struct psti_gpu_units_args, 1, 16)
