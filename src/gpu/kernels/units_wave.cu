/* units_wave.cu - the kernels of wave units, of 8 and of 16 bits (see units.cu). Tables belong to
 * the block, which is as large as shared memory allows; then many warps share them. */
#include "gpu/kernels/pli_wave.cuh"
#include "gpu/kernels/units.cuh"

namespace psti
{

/* The kernel for wave units. In phase 0 all warps of a block build the decoding tables of the image
 * to which the block's first unit belongs. Then each warp decodes its own unit. */
template <int bits> struct wave_kernel {
    static const int n_phases = 2;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_units_args &args)
    {
        struct psti_gpu_unit unit;
        if (phase == 0) {
            const uint32_t first = b.index * b.n_warps;
            unit = reinterpret_cast<const struct psti_gpu_unit *>(args.units)[first];
            wave_load_tables<bits>(b, b.memory, args.constants, image_of(args, unit).tables);
            return;
        }
        if (!take_unit(b, args, unit))
            return;
        const struct psti_gpu_image &image = image_of(args, unit);
        shared<uint8_t> scratch =
            b.memory + (wave_layout<bits>::tables_nbytes + b.warp * args.warp_nbytes);
        if (!wave_decode<bits>(b.memory, scratch, image, unit, args.finish))
            report(args, image, unit);
    }
};

} // namespace psti

PSTI_KERNEL(psti_gpu_units_wave_u8, psti::wave_kernel<8>, struct psti_gpu_units_args,
            PSTI_GPU_WAVE_WARPS, 1)
PSTI_KERNEL(psti_gpu_units_wave_u16, psti::wave_kernel<16>, struct psti_gpu_units_args,
            PSTI_GPU_WAVE_WARPS, 1)
