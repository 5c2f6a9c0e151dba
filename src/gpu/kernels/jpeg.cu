/* jpeg.cu - the kernels that decode JPEGs kept as PLI. */
#include "gpu/kernels/jpeg_pixels.cuh"
#include "gpu/kernels/jpeg_units.cuh"

static_assert(offsetof(struct psti_gpu_jpeg_image, quants) % 16 == 0 &&
                  sizeof(struct psti_gpu_jpeg_image) % 16 == 0 &&
                  sizeof(struct psti_gpu_jpeg_tables) % 16 == 0,
              "what is read 16 bytes at a time is aligned");

PSTI_KERNEL(psti_gpu_coefs, psti::coefs_kernel, struct psti_gpu_jpeg_args, PSTI_GPU_COEFS_WARPS_MAX,
            5)
PSTI_KERNEL(psti_gpu_jpeg, psti::jpeg_kernel, struct psti_gpu_jpeg_args, PSTI_GPU_JPEG_WARPS_MAX, 3)
