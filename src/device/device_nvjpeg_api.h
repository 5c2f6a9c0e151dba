/* device_nvjpeg_api.h - our own declarations of the part of nvJPEG that is used. Neither its header
 * nor a link against it is needed. Handles have the tags of nvjpeg.h, so that a test can compare
 * every declaration with that header where it is installed
 * (tests/device/test_device_nvjpeg_declarations.c). nvJPEG 11.9, 12 and 13 have all of it. */
#ifndef PST_DEVICE_NVJPEG_API_H
#define PST_DEVICE_NVJPEG_API_H

#include "device/device_driver.h"

typedef struct nvjpegHandle *psti_nvj_handle;
typedef struct nvjpegJpegState *psti_nvj_state;
typedef struct nvjpegJpegStream *psti_nvj_file; /* a parsed file */
typedef struct nvjpegJpegDecoder *psti_nvj_decoder;
typedef struct nvjpegDecodeParams *psti_nvj_params;
typedef struct nvjpegBufferPinned *psti_nvj_pinned;
typedef struct nvjpegBufferDevice *psti_nvj_buffer;

/* Values of nvjpeg.h, under shorter names. */
enum psti_nvj_status {
    PSTI_NVJ_SUCCESS = 0,
    PSTI_NVJ_NOT_INITIALIZED = 1,
    PSTI_NVJ_INVALID_PARAMETER = 2,
    PSTI_NVJ_BAD_JPEG = 3,
    PSTI_NVJ_JPEG_NOT_SUPPORTED = 4,
    PSTI_NVJ_ALLOCATOR_FAILURE = 5,
    PSTI_NVJ_EXECUTION_FAILED = 6,
    PSTI_NVJ_ARCH_MISMATCH = 7,
    PSTI_NVJ_INTERNAL_ERROR = 8,
    PSTI_NVJ_IMPLEMENTATION_NOT_SUPPORTED = 9,
    PSTI_NVJ_INCOMPLETE_BITSTREAM = 10
};
enum psti_nvj_number {
    PSTI_NVJ_PROPERTY_MAJOR = 0,
    PSTI_NVJ_PROPERTY_MINOR = 1,
    PSTI_NVJ_PROPERTY_PATCH = 2,
    PSTI_NVJ_BACKEND_HYBRID = 1, /* the host decodes Huffman codes */
    PSTI_NVJ_BACKEND_HARDWARE = 3,
    PSTI_NVJ_OUTPUT_Y = 2,
    PSTI_NVJ_OUTPUT_RGBI = 5,
    PSTI_NVJ_BITSTREAM_STRICT = 1 << 2,
    PSTI_NVJ_INTERPOLATION = 1 << 5, /* interpolates chroma */
    PSTI_NVJ_ORIENTATION_NORMAL = 1,
    PSTI_NVJ_CHANNELS_MAX = 4
};

typedef struct {
    unsigned char *channel[PSTI_NVJ_CHANNELS_MAX]; /* addresses on the GPU */
    size_t pitch[PSTI_NVJ_CHANNELS_MAX];
} psti_nvj_image;

/* Allocators that nvJPEG calls. Results other than 0 are failures. */
typedef int (*psti_nvj_alloc_fn)(void *ctx, void **memory, size_t nbytes, psti_cu_stream stream);
typedef int (*psti_nvj_free_fn)(void *ctx, void *memory, size_t nbytes, psti_cu_stream stream);
typedef struct {
    psti_nvj_alloc_fn alloc;
    psti_nvj_free_fn free;
    void *ctx;
} psti_nvj_device_allocator, psti_nvj_pinned_allocator;

/* X(member, symbol, arguments) for every function used. Results are enum psti_nvj_status. nvJPEG's
 * enums are unsigned numbers. */
#define PSTI_NVJPEG_LIST(X)                                                                        \
    X(property, nvjpegGetProperty, (unsigned which, int *value))                                   \
    X(create, nvjpegCreateExV2,                                                                    \
      (unsigned backend, psti_nvj_device_allocator *device, psti_nvj_pinned_allocator *pinned,     \
       unsigned flags, psti_nvj_handle *handle))                                                   \
    X(destroy, nvjpegDestroy, (psti_nvj_handle handle))                                            \
    X(pad_device, nvjpegSetDeviceMemoryPadding, (size_t nbytes, psti_nvj_handle handle))           \
    X(pad_pinned, nvjpegSetPinnedMemoryPadding, (size_t nbytes, psti_nvj_handle handle))           \
    X(engines, nvjpegGetHardwareDecoderInfo,                                                       \
      (psti_nvj_handle handle, unsigned *n_engines, unsigned *n_cores))                            \
    X(state_create, nvjpegJpegStateCreate, (psti_nvj_handle handle, psti_nvj_state * state))       \
    X(state_destroy, nvjpegJpegStateDestroy, (psti_nvj_state state))                               \
    X(batch_begin, nvjpegDecodeBatchedInitialize,                                                  \
      (psti_nvj_handle handle, psti_nvj_state state, int n, int n_threads, unsigned format))       \
    X(batch_decode, nvjpegDecodeBatched,                                                           \
      (psti_nvj_handle handle, psti_nvj_state state, const unsigned char *const *files,            \
       const size_t *nbytes, psti_nvj_image *to, psti_cu_stream stream))                           \
    X(batch_supported, nvjpegDecodeBatchedSupported,                                               \
      (psti_nvj_handle handle, psti_nvj_file file, int *refused))                                  \
    X(pinned_create, nvjpegBufferPinnedCreateV2,                                                   \
      (psti_nvj_handle handle, psti_nvj_pinned_allocator * allocator, psti_nvj_pinned * buffer))   \
    X(pinned_destroy, nvjpegBufferPinnedDestroy, (psti_nvj_pinned buffer))                         \
    X(buffer_create, nvjpegBufferDeviceCreateV2,                                                   \
      (psti_nvj_handle handle, psti_nvj_device_allocator * allocator, psti_nvj_buffer * buffer))   \
    X(buffer_destroy, nvjpegBufferDeviceDestroy, (psti_nvj_buffer buffer))                         \
    X(attach_pinned, nvjpegStateAttachPinnedBuffer,                                                \
      (psti_nvj_state state, psti_nvj_pinned buffer))                                              \
    X(attach_buffer, nvjpegStateAttachDeviceBuffer,                                                \
      (psti_nvj_state state, psti_nvj_buffer buffer))                                              \
    X(file_create, nvjpegJpegStreamCreate, (psti_nvj_handle handle, psti_nvj_file * file))         \
    X(file_destroy, nvjpegJpegStreamDestroy, (psti_nvj_file file))                                 \
    X(file_parse, nvjpegJpegStreamParse,                                                           \
      (psti_nvj_handle handle, const unsigned char *bytes, size_t nbytes, int saves_metadata,      \
       int saves_bytes, psti_nvj_file file))                                                       \
    X(file_size, nvjpegJpegStreamGetFrameDimensions,                                               \
      (psti_nvj_file file, unsigned *width, unsigned *height))                                     \
    X(params_create, nvjpegDecodeParamsCreate, (psti_nvj_handle handle, psti_nvj_params * params)) \
    X(params_destroy, nvjpegDecodeParamsDestroy, (psti_nvj_params params))                         \
    X(params_format, nvjpegDecodeParamsSetOutputFormat, (psti_nvj_params params, unsigned format)) \
    X(params_orientation, nvjpegDecodeParamsSetExifOrientation,                                    \
      (psti_nvj_params params, unsigned orientation))                                              \
    X(decoder_create, nvjpegDecoderCreate,                                                         \
      (psti_nvj_handle handle, unsigned backend, psti_nvj_decoder *decoder))                       \
    X(decoder_destroy, nvjpegDecoderDestroy, (psti_nvj_decoder decoder))                           \
    X(decoder_supports, nvjpegDecoderJpegSupported,                                                \
      (psti_nvj_decoder decoder, psti_nvj_file file, psti_nvj_params params, int *refused))        \
    X(decoder_state, nvjpegDecoderStateCreate,                                                     \
      (psti_nvj_handle handle, psti_nvj_decoder decoder, psti_nvj_state * state))                  \
    X(decode_host, nvjpegDecodeJpegHost,                                                           \
      (psti_nvj_handle handle, psti_nvj_decoder decoder, psti_nvj_state state,                     \
       psti_nvj_params params, psti_nvj_file file))                                                \
    X(decode_transfer, nvjpegDecodeJpegTransferToDevice,                                           \
      (psti_nvj_handle handle, psti_nvj_decoder decoder, psti_nvj_state state, psti_nvj_file file, \
       psti_cu_stream stream))                                                                     \
    X(decode_device, nvjpegDecodeJpegDevice,                                                       \
      (psti_nvj_handle handle, psti_nvj_decoder decoder, psti_nvj_state state,                     \
       psti_nvj_image * to, psti_cu_stream stream))

struct psti_nvjpeg_api {
#define PSTI_NVJPEG_MEMBER(member, symbol, arguments) unsigned(*member) arguments;
    PSTI_NVJPEG_LIST(PSTI_NVJPEG_MEMBER)
#undef PSTI_NVJPEG_MEMBER
};

#endif
