/* sound.cu - the kernels that make features of sound: psti_gpu_sound_frames runs the first step of
 * a field, psti_gpu_sound_values each other one.
 *
 * Args: struct psti_gpu_sound_args. A launch has n_blocks blocks for each row, with the warps and
 * the shared memory that psti_gpu_sound_shape computes. A warp makes one frame, or 32 values of a
 * bin. */
#include "gpu/kernels/sound.cuh"

PSTI_KERNEL(psti_gpu_sound_frames, psti::sound_frames_kernel, struct psti_gpu_sound_args,
            PSTI_GPU_SOUND_WARPS, 1)
PSTI_KERNEL(psti_gpu_sound_values, psti::sound_values_kernel, struct psti_gpu_sound_args,
            PSTI_GPU_SOUND_WARPS, 1)
