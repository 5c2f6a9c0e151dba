/* Hazard: our declarations of nvJPEG differ from its header. The assignments only compile if types
 * agree. Our structs are declared as nvJPEG's, which are compared member by member; numbers are
 * compared, too. Nothing of this is run. */
#include "device/device_nvjpeg_api.h"

#include <nvjpeg.h>

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #theirs)
SAME(sizeof(psti_nvj_image), sizeof(nvjpegImage_t));
SAME(offsetof(psti_nvj_image, pitch), offsetof(nvjpegImage_t, pitch));
SAME(sizeof(psti_nvj_device_allocator), sizeof(nvjpegDevAllocatorV2_t));
SAME(offsetof(psti_nvj_device_allocator, free), offsetof(nvjpegDevAllocatorV2_t, dev_free));
SAME(offsetof(psti_nvj_device_allocator, ctx), offsetof(nvjpegDevAllocatorV2_t, dev_ctx));
SAME(sizeof(psti_nvj_pinned_allocator), sizeof(nvjpegPinnedAllocatorV2_t));
SAME(offsetof(psti_nvj_pinned_allocator, free), offsetof(nvjpegPinnedAllocatorV2_t, pinned_free));
SAME(offsetof(psti_nvj_pinned_allocator, ctx), offsetof(nvjpegPinnedAllocatorV2_t, pinned_ctx));

void psti_test_nvjpeg_declarations(psti_nvj_alloc_fn alloc, psti_nvj_free_fn release);
void psti_test_nvjpeg_declarations(psti_nvj_alloc_fn alloc, psti_nvj_free_fn release)
{
    const nvjpegDevAllocatorV2_t device = {alloc, release, NULL};
    const nvjpegPinnedAllocatorV2_t pinned = {alloc, release, NULL};
    (void)device, (void)pinned;
#define psti_nvj_image nvjpegImage_t
#define psti_nvj_device_allocator nvjpegDevAllocatorV2_t
#define psti_nvj_pinned_allocator nvjpegPinnedAllocatorV2_t
#define ASSIGN(member, symbol, arguments)                                                          \
    unsigned(*member) arguments = symbol;                                                          \
    (void)member;
    PSTI_NVJPEG_LIST(ASSIGN)
#undef ASSIGN
}

SAME(PSTI_NVJ_SUCCESS, NVJPEG_STATUS_SUCCESS);
SAME(PSTI_NVJ_NOT_INITIALIZED, NVJPEG_STATUS_NOT_INITIALIZED);
SAME(PSTI_NVJ_INVALID_PARAMETER, NVJPEG_STATUS_INVALID_PARAMETER);
SAME(PSTI_NVJ_BAD_JPEG, NVJPEG_STATUS_BAD_JPEG);
SAME(PSTI_NVJ_JPEG_NOT_SUPPORTED, NVJPEG_STATUS_JPEG_NOT_SUPPORTED);
SAME(PSTI_NVJ_ALLOCATOR_FAILURE, NVJPEG_STATUS_ALLOCATOR_FAILURE);
SAME(PSTI_NVJ_EXECUTION_FAILED, NVJPEG_STATUS_EXECUTION_FAILED);
SAME(PSTI_NVJ_ARCH_MISMATCH, NVJPEG_STATUS_ARCH_MISMATCH);
SAME(PSTI_NVJ_INTERNAL_ERROR, NVJPEG_STATUS_INTERNAL_ERROR);
SAME(PSTI_NVJ_IMPLEMENTATION_NOT_SUPPORTED, NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED);
SAME(PSTI_NVJ_INCOMPLETE_BITSTREAM, NVJPEG_STATUS_INCOMPLETE_BITSTREAM);
SAME(PSTI_NVJ_PROPERTY_MAJOR, MAJOR_VERSION);
SAME(PSTI_NVJ_PROPERTY_MINOR, MINOR_VERSION);
SAME(PSTI_NVJ_PROPERTY_PATCH, PATCH_LEVEL);
SAME(PSTI_NVJ_BACKEND_HYBRID, NVJPEG_BACKEND_HYBRID);
SAME(PSTI_NVJ_BACKEND_HARDWARE, NVJPEG_BACKEND_HARDWARE);
SAME(PSTI_NVJ_OUTPUT_Y, NVJPEG_OUTPUT_Y);
SAME(PSTI_NVJ_OUTPUT_RGBI, NVJPEG_OUTPUT_RGBI);
SAME(PSTI_NVJ_BITSTREAM_STRICT, NVJPEG_FLAGS_BITSTREAM_STRICT);
#ifdef NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION /* exists since version 12 */
SAME(PSTI_NVJ_INTERPOLATION, NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION);
#endif
SAME(PSTI_NVJ_ORIENTATION_NORMAL, NVJPEG_ORIENTATION_NORMAL);
SAME(PSTI_NVJ_CHANNELS_MAX, NVJPEG_MAX_COMPONENT);
