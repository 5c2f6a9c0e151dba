/* fake_nvjpeg.c - the functions of nvJPEG that Penstock uses, for tests on machines without a GPU.
 *
 * It detects use that nvJPEG leaves undefined: calls without a current context, two threads in one
 * state, a phase before the one that must come first. Buffers come from the allocators that
 * Penstock gives. The work of streams is that of the fake driver, which detects memory that was
 * freed or never existed. ThreadSanitizer detects writes before a stream has read. */
#include "fake_nvjpeg.h"

#include "device/device_nvjpeg_api.h"
#include "fake_driver.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#define DECLARE(member, symbol, arguments) unsigned symbol arguments;
PSTI_NVJPEG_LIST(DECLARE)
#undef DECLARE
/* Functions of the fake driver, with which this is linked. */
#define DECLARE(member, symbol, arguments) unsigned symbol arguments;
PSTI_DRIVER_LIST(DECLARE)
#undef DECLARE

struct nvjpegHandle {
    unsigned backend;
    bool interpolates;
    psti_nvj_device_allocator device, pinned;
    size_t device_padding, pinned_padding;
    psti_cu_module module; /* for engines, whose work is a launch */
    psti_cu_function decode;
};
struct nvjpegJpegStream {
    const unsigned char *bytes;
    size_t nbytes;
    uint32_t height, width, channels;
    bool is_simple; /* the engines take the file */
};
struct nvjpegJpegDecoder {
    psti_nvj_handle handle;
};
struct nvjpegDecodeParams {
    unsigned format, orientation;
};
struct buffer {
    psti_nvj_device_allocator allocator;
    void *memory;
    size_t nbytes;
};
struct nvjpegBufferPinned {
    struct buffer buffer;
};
struct nvjpegBufferDevice {
    struct buffer buffer;
};
struct nvjpegJpegState {
    psti_nvj_handle handle;
    struct buffer *pinned, *device;
    uint32_t height, width, channels;
    int phase;        /* next phase: 0 host, 1 transfer, 2 device */
    atomic_bool busy; /* a thread uses the state */
    int n_batch;
    unsigned format;
    psti_cu_event done; /* recorded after a batch */
};

static _Atomic uint64_t n_of[FAKE_NVJPEG_KINDS], n_batch_files, n_live;
static struct {
    _Atomic uint64_t left;
    atomic_uint result;
} faults[FAKE_NVJPEG_KINDS];

static unsigned count(enum fake_nvjpeg_what what)
{
    atomic_fetch_add_explicit(&n_of[what], 1, memory_order_relaxed);
    uint64_t left = atomic_load_explicit(&faults[what].left, memory_order_relaxed);
    if (left && atomic_fetch_sub_explicit(&faults[what].left, 1, memory_order_relaxed) == 1)
        return atomic_load_explicit(&faults[what].result, memory_order_relaxed);
    return fake_context_depth() > 0 ? PSTI_NVJ_SUCCESS : PSTI_NVJ_EXECUTION_FAILED;
}

static int number_from(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

static void *make(size_t nbytes)
{
    void *made = calloc(1, nbytes);
    if (!made)
        abort();
    atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return made;
}

static unsigned drop(void *made)
{
    free(made);
    atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    return PSTI_NVJ_SUCCESS;
}

/* libjpeg-turbo, as the CPU's decoder uses it
 * ------------------------------------------------------------------------------------------------
 */

struct jpeg {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
};

static void give_up(j_common_ptr cinfo) { longjmp(((struct jpeg *)cinfo)->escape, 1); }

static void warn(j_common_ptr cinfo, int level)
{
    if (level < 0)
        give_up(cinfo);
}

/* Decodes into `to`, rows packed. `to` NULL: the header alone. */
static bool decode(const unsigned char *bytes, size_t nbytes, bool interpolates,
                   struct nvjpegJpegStream *info, unsigned char *to)
{
    struct jpeg jpeg;
    jpeg.cinfo.err = jpeg_std_error(&jpeg.errors);
    jpeg.errors.error_exit = give_up;
    jpeg.errors.emit_message = warn;
    if (setjmp(jpeg.escape)) {
        jpeg_destroy_decompress(&jpeg.cinfo);
        return false;
    }
    jpeg_create_decompress(&jpeg.cinfo);
    jpeg_mem_src(&jpeg.cinfo, bytes, nbytes);
    jpeg_read_header(&jpeg.cinfo, TRUE);
    info->height = jpeg.cinfo.image_height;
    info->width = jpeg.cinfo.image_width;
    info->channels = (uint32_t)jpeg.cinfo.num_components;
    info->is_simple = !jpeg.cinfo.progressive_mode && !jpeg_has_multiple_scans(&jpeg.cinfo);
    if (to) {
        jpeg.cinfo.dct_method = JDCT_ISLOW;
        jpeg.cinfo.do_fancy_upsampling = interpolates;
        jpeg.cinfo.out_color_space = info->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        jpeg_start_decompress(&jpeg.cinfo);
        while (jpeg.cinfo.output_scanline < jpeg.cinfo.output_height) {
            JSAMPROW row = to + (size_t)jpeg.cinfo.output_scanline * info->width * info->channels;
            jpeg_read_scanlines(&jpeg.cinfo, &row, 1);
        }
        jpeg_finish_decompress(&jpeg.cinfo);
    }
    jpeg_destroy_decompress(&jpeg.cinfo);
    return true;
}

/* Handles
 * ------------------------------------------------------------------------------------------------
 */

unsigned nvjpegGetProperty(unsigned which, int *value)
{
    *value = which == PSTI_NVJ_PROPERTY_MAJOR ? number_from("PENSTOCK_FAKE_NVJPEG_VERSION", 13) : 1;
    return which <= PSTI_NVJ_PROPERTY_PATCH ? PSTI_NVJ_SUCCESS : PSTI_NVJ_INVALID_PARAMETER;
}

/* Arguments of a launch for engines. */
struct decode_args {
    uint64_t bytes, nbytes, to, pitch;
    uint32_t interpolates, reserved;
};

static void decode_kernel(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                          const void *args)
{
    const struct decode_args *a = args;
    struct nvjpegJpegStream info;
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)a->bytes;
    unsigned char *to = (unsigned char *)(uintptr_t)a->to;
    (void)n_blocks, (void)n_warps, (void)shared_nbytes;
    if (!decode(bytes, a->nbytes, a->interpolates, &info, NULL))
        return;
    size_t row = (size_t)info.width * info.channels;
    unsigned char *pixels = malloc(row * info.height);
    if (!pixels)
        abort();
    bool good = decode(bytes, a->nbytes, a->interpolates, &info, pixels);
    for (uint32_t y = 0; good && y < info.height; y++)
        memcpy(to + y * a->pitch, pixels + y * row, row);
    free(pixels);
}

static const struct fake_kernel kernels[] = {{"decode", decode_kernel}};
static const struct fake_image engine_image = {FAKE_IMAGE_MAGIC, 1, kernels, NULL};

unsigned nvjpegCreateExV2(unsigned backend, psti_nvj_device_allocator *device,
                          psti_nvj_pinned_allocator *pinned, unsigned flags,
                          psti_nvj_handle *handle)
{
    unsigned result = count(FAKE_NVJPEG_CREATE);
    bool engines = backend == PSTI_NVJ_BACKEND_HARDWARE;
    if (result != PSTI_NVJ_SUCCESS)
        return result;
    if (engines && number_from("PENSTOCK_FAKE_NVJPEG_ENGINES", 0) == 0)
        return PSTI_NVJ_ARCH_MISMATCH;
    if (!device || !pinned || !(flags & PSTI_NVJ_BITSTREAM_STRICT) ||
        ((flags & PSTI_NVJ_INTERPOLATION) && number_from("PENSTOCK_FAKE_NVJPEG_PLAIN", 0)))
        return PSTI_NVJ_INVALID_PARAMETER;
    struct nvjpegHandle *made = make(sizeof *made);
    made->backend = backend;
    made->interpolates = flags & PSTI_NVJ_INTERPOLATION;
    made->device = *device;
    made->pinned = *pinned;
    made->device_padding = made->pinned_padding = 1;
    if (engines && (cuModuleLoadData(&made->module, &engine_image) != PSTI_CU_SUCCESS ||
                    cuModuleGetFunction(&made->decode, made->module, "decode") != PSTI_CU_SUCCESS))
        abort();
    *handle = made;
    return PSTI_NVJ_SUCCESS;
}

unsigned nvjpegDestroy(psti_nvj_handle handle)
{
    if (handle->module)
        (void)cuModuleUnload(handle->module);
    return drop(handle);
}

unsigned nvjpegSetDeviceMemoryPadding(size_t nbytes, psti_nvj_handle handle)
{
    handle->device_padding = nbytes;
    return PSTI_NVJ_SUCCESS;
}

unsigned nvjpegSetPinnedMemoryPadding(size_t nbytes, psti_nvj_handle handle)
{
    handle->pinned_padding = nbytes;
    return PSTI_NVJ_SUCCESS;
}

unsigned nvjpegGetHardwareDecoderInfo(psti_nvj_handle handle, unsigned *n_engines,
                                      unsigned *n_cores)
{
    *n_engines = handle->backend == PSTI_NVJ_BACKEND_HARDWARE
                     ? (unsigned)number_from("PENSTOCK_FAKE_NVJPEG_ENGINES", 0)
                     : 0;
    *n_cores = 1;
    return PSTI_NVJ_SUCCESS;
}

/* Buffers
 * ------------------------------------------------------------------------------------------------
 */

static unsigned create_buffer(struct buffer *made, const psti_nvj_device_allocator *allocator)
{
    made->allocator = *allocator;
    return PSTI_NVJ_SUCCESS;
}

static void free_buffer(struct buffer *buffer)
{
    if (buffer->memory &&
        buffer->allocator.free(buffer->allocator.ctx, buffer->memory, buffer->nbytes, NULL) != 0)
        abort();
    buffer->memory = NULL;
    buffer->nbytes = 0;
}

static unsigned need(struct buffer *buffer, size_t nbytes, size_t padding)
{
    if (nbytes <= buffer->nbytes)
        return PSTI_NVJ_SUCCESS;
    free_buffer(buffer);
    nbytes = (nbytes + padding - 1) / padding * padding;
    if (buffer->allocator.alloc(buffer->allocator.ctx, &buffer->memory, nbytes, NULL) != 0)
        return PSTI_NVJ_ALLOCATOR_FAILURE;
    buffer->nbytes = nbytes;
    return PSTI_NVJ_SUCCESS;
}

unsigned nvjpegBufferPinnedCreateV2(psti_nvj_handle handle, psti_nvj_device_allocator *allocator,
                                    psti_nvj_pinned *buffer)
{
    unsigned result = count(FAKE_NVJPEG_CREATE);
    (void)handle;
    if (result != PSTI_NVJ_SUCCESS)
        return result;
    *buffer = make(sizeof **buffer);
    return create_buffer(&(*buffer)->buffer, allocator);
}

unsigned nvjpegBufferPinnedDestroy(psti_nvj_pinned buffer)
{
    free_buffer(&buffer->buffer);
    return drop(buffer);
}

unsigned nvjpegBufferDeviceCreateV2(psti_nvj_handle handle, psti_nvj_device_allocator *allocator,
                                    psti_nvj_buffer *buffer)
{
    unsigned result = count(FAKE_NVJPEG_CREATE);
    (void)handle;
    if (result != PSTI_NVJ_SUCCESS)
        return result;
    *buffer = make(sizeof **buffer);
    return create_buffer(&(*buffer)->buffer, allocator);
}

unsigned nvjpegBufferDeviceDestroy(psti_nvj_buffer buffer)
{
    free_buffer(&buffer->buffer);
    return drop(buffer);
}

unsigned nvjpegStateAttachPinnedBuffer(psti_nvj_state state, psti_nvj_pinned buffer)
{
    state->pinned = &buffer->buffer;
    return PSTI_NVJ_SUCCESS;
}

unsigned nvjpegStateAttachDeviceBuffer(psti_nvj_state state, psti_nvj_buffer buffer)
{
    state->device = &buffer->buffer;
    return PSTI_NVJ_SUCCESS;
}

/* Files and parameters
 * ------------------------------------------------------------------------------------------------
 */

unsigned nvjpegJpegStreamCreate(psti_nvj_handle handle, psti_nvj_file *file)
{
    unsigned result = count(FAKE_NVJPEG_CREATE);
    (void)handle;
    if (result == PSTI_NVJ_SUCCESS)
        *file = make(sizeof **file);
    return result;
}

unsigned nvjpegJpegStreamDestroy(psti_nvj_file file) { return drop(file); }

unsigned nvjpegJpegStreamParse(psti_nvj_handle handle, const unsigned char *bytes, size_t nbytes,
                               int saves_metadata, int saves_bytes, psti_nvj_file file)
{
    (void)handle;
    if (saves_metadata || saves_bytes)
        return PSTI_NVJ_INVALID_PARAMETER;
    if (!decode(bytes, nbytes, true, file, NULL))
        return PSTI_NVJ_BAD_JPEG;
    file->bytes = bytes;
    file->nbytes = nbytes;
    return PSTI_NVJ_SUCCESS;
}

unsigned nvjpegJpegStreamGetFrameDimensions(psti_nvj_file file, unsigned *width, unsigned *height)
{
    *width = file->width;
    *height = file->height;
    return PSTI_NVJ_SUCCESS;
}

unsigned nvjpegDecodeParamsCreate(psti_nvj_handle handle, psti_nvj_params *params)
{
    unsigned result = count(FAKE_NVJPEG_CREATE);
    (void)handle;
    if (result == PSTI_NVJ_SUCCESS)
        *params = make(sizeof **params);
    return result;
}

unsigned nvjpegDecodeParamsDestroy(psti_nvj_params params) { return drop(params); }

unsigned nvjpegDecodeParamsSetOutputFormat(psti_nvj_params params, unsigned format)
{
    params->format = format;
    return PSTI_NVJ_SUCCESS;
}

unsigned nvjpegDecodeParamsSetExifOrientation(psti_nvj_params params, unsigned orientation)
{
    params->orientation = orientation;
    return PSTI_NVJ_SUCCESS;
}

static bool suits(unsigned format, const struct nvjpegJpegStream *file)
{
    return format == (file->channels == 1 ? PSTI_NVJ_OUTPUT_Y : PSTI_NVJ_OUTPUT_RGBI);
}

/* One file at a time
 * ------------------------------------------------------------------------------------------------
 */

unsigned nvjpegDecoderCreate(psti_nvj_handle handle, unsigned backend, psti_nvj_decoder *decoder)
{
    unsigned result = count(FAKE_NVJPEG_CREATE);
    if (result == PSTI_NVJ_SUCCESS && backend != PSTI_NVJ_BACKEND_HYBRID)
        result = PSTI_NVJ_INVALID_PARAMETER;
    if (result != PSTI_NVJ_SUCCESS)
        return result;
    *decoder = make(sizeof **decoder);
    (*decoder)->handle = handle;
    return PSTI_NVJ_SUCCESS;
}

unsigned nvjpegDecoderDestroy(psti_nvj_decoder decoder) { return drop(decoder); }

unsigned nvjpegDecoderJpegSupported(psti_nvj_decoder decoder, psti_nvj_file file,
                                    psti_nvj_params params, int *refused)
{
    (void)decoder;
    *refused = !suits(params->format, file);
    return PSTI_NVJ_SUCCESS;
}

static unsigned create_state(psti_nvj_handle handle, psti_nvj_state *state)
{
    unsigned result = count(FAKE_NVJPEG_CREATE);
    if (result != PSTI_NVJ_SUCCESS)
        return result;
    *state = make(sizeof **state);
    (*state)->handle = handle;
    return PSTI_NVJ_SUCCESS;
}

unsigned nvjpegDecoderStateCreate(psti_nvj_handle handle, psti_nvj_decoder decoder,
                                  psti_nvj_state *state)
{
    (void)decoder;
    return create_state(handle, state);
}

unsigned nvjpegJpegStateCreate(psti_nvj_handle handle, psti_nvj_state *state)
{
    return create_state(handle, state);
}

unsigned nvjpegJpegStateDestroy(psti_nvj_state state)
{
    if (state->done)
        (void)cuEventDestroy_v2(state->done);
    return drop(state);
}

/* Enters the state. False: another thread uses it. */
static bool enter(psti_nvj_state state)
{
    bool free = !atomic_exchange_explicit(&state->busy, true, memory_order_relaxed);
    if (!free)
        fprintf(stderr, "fake nvJPEG: two threads in one state\n");
    return free;
}

static unsigned leave(psti_nvj_state state, unsigned result)
{
    atomic_store_explicit(&state->busy, false, memory_order_relaxed);
    return result;
}

unsigned nvjpegDecodeJpegHost(psti_nvj_handle handle, psti_nvj_decoder decoder,
                              psti_nvj_state state, psti_nvj_params params, psti_nvj_file file)
{
    unsigned result = count(FAKE_NVJPEG_HOST);
    (void)decoder;
    if (!enter(state))
        return PSTI_NVJ_INTERNAL_ERROR;
    state->phase = 0;
    if (result == PSTI_NVJ_SUCCESS &&
        (!state->pinned || !state->device || !suits(params->format, file) ||
         params->orientation != PSTI_NVJ_ORIENTATION_NORMAL))
        result = PSTI_NVJ_INVALID_PARAMETER;
    if (result == PSTI_NVJ_SUCCESS)
        result = need(state->pinned, (size_t)file->height * file->width * file->channels,
                      handle->pinned_padding);
    if (result == PSTI_NVJ_SUCCESS &&
        !decode(file->bytes, file->nbytes, handle->interpolates, file, state->pinned->memory))
        result = PSTI_NVJ_BAD_JPEG;
    if (result == PSTI_NVJ_SUCCESS)
        state->phase = 1;
    state->height = file->height;
    state->width = file->width;
    state->channels = file->channels;
    return leave(state, result);
}

static unsigned of_driver(unsigned result)
{
    return result == PSTI_CU_SUCCESS ? PSTI_NVJ_SUCCESS : PSTI_NVJ_EXECUTION_FAILED;
}

unsigned nvjpegDecodeJpegTransferToDevice(psti_nvj_handle handle, psti_nvj_decoder decoder,
                                          psti_nvj_state state, psti_nvj_file file,
                                          psti_cu_stream stream)
{
    unsigned result = count(FAKE_NVJPEG_TRANSFER);
    size_t nbytes = (size_t)state->height * state->width * state->channels;
    (void)decoder;
    if (!enter(state))
        return PSTI_NVJ_INTERNAL_ERROR;
    if (result == PSTI_NVJ_SUCCESS && (state->phase != 1 || file->bytes[0] != 0xFF))
        result = PSTI_NVJ_INVALID_PARAMETER;
    if (result == PSTI_NVJ_SUCCESS)
        result = need(state->device, nbytes, handle->device_padding);
    if (result == PSTI_NVJ_SUCCESS)
        result = of_driver(cuMemcpyHtoDAsync_v2((uintptr_t)state->device->memory,
                                                state->pinned->memory, nbytes, stream));
    state->phase = result == PSTI_NVJ_SUCCESS ? 2 : 0;
    return leave(state, result);
}

unsigned nvjpegDecodeJpegDevice(psti_nvj_handle handle, psti_nvj_decoder decoder,
                                psti_nvj_state state, psti_nvj_image *to, psti_cu_stream stream)
{
    unsigned result = count(FAKE_NVJPEG_DEVICE);
    size_t row = (size_t)state->width * state->channels;
    (void)handle, (void)decoder;
    if (!enter(state))
        return PSTI_NVJ_INTERNAL_ERROR;
    if (result == PSTI_NVJ_SUCCESS && (state->phase != 2 || to->pitch[0] < row))
        result = PSTI_NVJ_INVALID_PARAMETER;
    bool packed = to->pitch[0] == row;
    uint32_t n = packed ? 1 : state->height;
    size_t nbytes = packed ? row * state->height : row;
    for (uint32_t y = 0; result == PSTI_NVJ_SUCCESS && y < n; y++)
        result = of_driver(cuMemcpyDtoDAsync_v2((uintptr_t)to->channel[0] + y * to->pitch[0],
                                                (uintptr_t)state->device->memory + y * row, nbytes,
                                                stream));
    state->phase = 0;
    return leave(state, result);
}

/* Batches
 * ------------------------------------------------------------------------------------------------
 */

#ifndef FAKE_NVJPEG_OLD
unsigned nvjpegDecodeBatchedSupported(psti_nvj_handle handle, psti_nvj_file file, int *refused)
{
    *refused = handle->backend != PSTI_NVJ_BACKEND_HARDWARE || !file->is_simple;
    return PSTI_NVJ_SUCCESS;
}
#endif

unsigned nvjpegDecodeBatchedInitialize(psti_nvj_handle handle, psti_nvj_state state, int n,
                                       int n_threads, unsigned format)
{
    if (handle->backend != PSTI_NVJ_BACKEND_HARDWARE || n < 1 || n_threads != 1)
        return PSTI_NVJ_INVALID_PARAMETER;
    if (state->done && cuEventQuery(state->done) == PSTI_CU_NOT_READY) {
        fprintf(stderr, "fake nvJPEG: a batch begins while the one before is under way\n");
        return PSTI_NVJ_INTERNAL_ERROR;
    }
    state->n_batch = n;
    state->format = format;
    return PSTI_NVJ_SUCCESS;
}

/* True if all files are good. Engines report on a batch as a whole. */
static bool are_good(psti_nvj_state state, const unsigned char *const *files, const size_t *nbytes)
{
    bool good = true;
    for (int i = 0; good && i < state->n_batch; i++) {
        struct nvjpegJpegStream info;
        good = decode(files[i], nbytes[i], true, &info, NULL) && suits(state->format, &info);
        unsigned char *pixels =
            good ? malloc((size_t)info.height * info.width * info.channels) : NULL;
        good = pixels && decode(files[i], nbytes[i], true, &info, pixels);
        free(pixels);
    }
    return good;
}

unsigned nvjpegDecodeBatched(psti_nvj_handle handle, psti_nvj_state state,
                             const unsigned char *const *files, const size_t *nbytes,
                             psti_nvj_image *to, psti_cu_stream stream)
{
    unsigned result = count(FAKE_NVJPEG_BATCH);
    if (!enter(state))
        return PSTI_NVJ_INTERNAL_ERROR;
    if (result == PSTI_NVJ_SUCCESS && state->n_batch == 0)
        result = PSTI_NVJ_NOT_INITIALIZED;
    if (result == PSTI_NVJ_SUCCESS && !are_good(state, files, nbytes))
        result = PSTI_NVJ_BAD_JPEG;
    if (result == PSTI_NVJ_SUCCESS && !state->done)
        result = of_driver(cuEventCreate(&state->done, PSTI_CU_EVENT_BLOCKING_SYNC |
                                                           PSTI_CU_EVENT_DISABLE_TIMING));
    bool works = result == PSTI_NVJ_SUCCESS;
    for (int i = 0; result == PSTI_NVJ_SUCCESS && i < state->n_batch; i++) {
        struct decode_args args = {(uintptr_t)files[i],         nbytes[i],
                                   (uintptr_t)to[i].channel[0], to[i].pitch[0],
                                   handle->interpolates,        0};
        size_t args_nbytes = sizeof args;
        void *extra[] = {(void *)(uintptr_t)PSTI_CU_LAUNCH_BUFFER, &args,
                         (void *)(uintptr_t)PSTI_CU_LAUNCH_NBYTES, &args_nbytes,
                         (void *)(uintptr_t)PSTI_CU_LAUNCH_END};
        result =
            of_driver(cuLaunchKernel(handle->decode, 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra));
    }
    if (works)
        (void)cuEventRecord(state->done, stream);
    if (result == PSTI_NVJ_SUCCESS)
        atomic_fetch_add_explicit(&n_batch_files, (uint64_t)state->n_batch, memory_order_relaxed);
    state->n_batch = result == PSTI_NVJ_SUCCESS ? state->n_batch : 0;
    return leave(state, result);
}

/* Functions for tests
 * -------------------------------------------------------------------------------------- */

void fake_nvjpeg_counts(struct fake_nvjpeg_counts *counts)
{
    for (int i = 0; i < FAKE_NVJPEG_KINDS; i++)
        counts->n[i] = atomic_load(&n_of[i]);
    counts->n_batch_files = atomic_load(&n_batch_files);
    counts->n_live = atomic_load(&n_live);
}

void fake_nvjpeg_reset(void)
{
    for (int i = 0; i < FAKE_NVJPEG_KINDS; i++)
        atomic_store(&n_of[i], 0);
    atomic_store(&n_batch_files, 0);
}

void fake_nvjpeg_fail(enum fake_nvjpeg_what what, uint64_t n, unsigned result)
{
    atomic_store(&faults[what].result, result);
    atomic_store(&faults[what].left, n);
}
