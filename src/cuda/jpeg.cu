/* jpeg.cu - the kernels for JPEGs kept as PLI. */
#include "cuda/jpeg_pixels.cuh"
#include "cuda/jpeg_units.cuh"

static_assert(offsetof(struct psti_cuda_jpeg_image, quants) % 16 == 0 &&
                  sizeof(struct psti_cuda_jpeg_image) % 16 == 0 &&
                  sizeof(struct psti_cuda_jpeg_tables) % 16 == 0,
              "what is read 16 bytes at a time is aligned");

PSTI_KERNEL(psti_cuda_coefs, psti::coefs_kernel, struct psti_cuda_jpeg_args,
            PSTI_CUDA_COEFS_WARPS_MAX, 5)
PSTI_KERNEL(psti_cuda_jpeg, psti::jpeg_kernel, struct psti_cuda_jpeg_args, PSTI_CUDA_JPEG_WARPS_MAX,
            3)
