/* wave_kernel.cu - psti_test_wave8 and _wave16: units of images with the same tables, as a kernel
 * of units takes them, warp by warp; for the test of the wave decoder alone. */
#include "cuda/pli_wave.cuh"

namespace psti
{

template <int bits> struct wave_test_kernel {
    static const int n_phases = 2;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_cuda_units_args &args)
    {
        const struct psti_cuda_image *images =
            reinterpret_cast<const struct psti_cuda_image *>(args.images);
        const struct psti_cuda_unit *units =
            reinterpret_cast<const struct psti_cuda_unit *>(args.units);
        const uint32_t first = b.index * b.n_warps, i = first + b.warp;
        if (phase == 0) {
            wave_load_tables<bits>(b, b.memory, args.constants, images[units[first].image].tables);
            return;
        }
        if (i >= args.n_units)
            return;
        const struct psti_cuda_image &image = images[units[i].image];
        shared<uint8_t> scratch = shared_cast<uint8_t>(b.memory, wave_layout<bits>::tables_nbytes +
                                                                     b.warp * args.warp_nbytes);
        if (!wave_decode<bits>(b.memory, scratch, image, units[i], args.finish))
            atomic_max(reinterpret_cast<uint32_t *>(args.statuses), lane_u32(image.status),
                       lane_u32(1), lane_id() == lane_u32(0));
    }
};

} // namespace psti

PSTI_KERNEL(psti_test_wave8, psti::wave_test_kernel<8>, struct psti_cuda_units_args, 16, 1)
PSTI_KERNEL(psti_test_wave16, psti::wave_test_kernel<16>, struct psti_cuda_units_args, 16, 1)
