/* device_nvjpeg_decode.c - lanes and batches turn files into pixels, by nvJPEG.
 *
 * A lane has a decoder, its state and its buffers to itself, so that any number of lanes work at a
 * time. nvJPEG keeps the host's results in the state, data to copy in the pinned buffer, and the
 * kernels' input in the device buffer. All three belong to a file until the stream has finished
 * with it. The lane's event tells when, and the next file waits for it. Buffers grow with the
 * files, also only while nothing is under way.
 *
 * A batch is a state of the handle for engines. Its owner makes sure that its work is done. */
#include "device/device_nvjpeg_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <limits.h>

struct psti_nvjpeg_lane {
    struct psti_nvjpeg *nvjpeg;
    psti_nvj_decoder decoder;
    psti_nvj_state state;
    psti_nvj_pinned pinned;
    psti_nvj_buffer buffer;
    psti_nvj_file file;
    psti_nvj_file header; /* for psti_device_nvjpeg_lane_suits_engines */
    psti_nvj_params params;
    struct psti_event *done; /* recorded after the last file */
};

struct psti_nvjpeg_batch {
    struct psti_nvjpeg *nvjpeg;
    psti_nvj_state state;
    uint32_t n_max;
    const unsigned char **files; /* [n_max], by file, like the arrays below */
    size_t *nbytes;
    psti_nvj_image *to;
};

static unsigned format_of(uint8_t channels)
{
    return channels == 1 ? PSTI_NVJ_OUTPUT_Y : PSTI_NVJ_OUTPUT_RGBI;
}

/* Lanes
 * ------------------------------------------------------------------------------------------------
 */

/* The context is current. */
static unsigned create_lane(struct psti_nvjpeg_lane *lane)
{
    struct psti_nvjpeg *nvjpeg = lane->nvjpeg;
    psti_nvj_handle handle = nvjpeg->handle;
    unsigned result =
        PSTI_NVJPEG_CALL(nvjpeg, decoder_create(handle, PSTI_NVJ_BACKEND_HYBRID, &lane->decoder));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, decoder_state(handle, lane->decoder, &lane->state));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg,
                                  pinned_create(handle, &nvjpeg->pinned_allocator, &lane->pinned));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg,
                                  buffer_create(handle, &nvjpeg->device_allocator, &lane->buffer));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, attach_pinned(lane->state, lane->pinned));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, attach_buffer(lane->state, lane->buffer));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, file_create(handle, &lane->file));
    if (result == PSTI_NVJ_SUCCESS && nvjpeg->engines)
        result = PSTI_NVJPEG_CALL(nvjpeg, file_create(nvjpeg->engines, &lane->header));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, params_create(handle, &lane->params));
    if (result == PSTI_NVJ_SUCCESS) /* as stored; the caller rotates the picture */
        result =
            PSTI_NVJPEG_CALL(nvjpeg, params_orientation(lane->params, PSTI_NVJ_ORIENTATION_NORMAL));
    return result;
}

enum pst_status psti_device_nvjpeg_lane_open(struct psti_nvjpeg *nvjpeg,
                                             struct psti_nvjpeg_lane **out, struct pst_error *err)
{
    *out = NULL;
    struct psti_nvjpeg_lane *lane = psti_calloc(1, sizeof *lane);
    if (!lane)
        return psti_fail(err, PST_ERROR_MEMORY, "device", "no memory for a lane of nvJPEG");
    lane->nvjpeg = nvjpeg;
    enum pst_status status = psti_device_event_open(nvjpeg->device, &lane->done, err);
    if (status == PST_OK)
        status = psti_device_enter(nvjpeg->device, err);
    if (status == PST_OK) {
        unsigned result = create_lane(lane);
        psti_device_leave(nvjpeg->device);
        status = psti_device_nvjpeg_check(nvjpeg, result, "making a lane", err);
    }
    if (status != PST_OK)
        psti_device_nvjpeg_lane_close(&lane);
    *out = lane;
    return status;
}

/* The context is current. */
static void destroy_lane(struct psti_nvjpeg_lane *lane)
{
    const struct psti_nvjpeg_api *api = &lane->nvjpeg->api;
    if (lane->params)
        (void)api->params_destroy(lane->params);
    if (lane->header)
        (void)api->file_destroy(lane->header);
    if (lane->file)
        (void)api->file_destroy(lane->file);
    if (lane->state)
        (void)api->state_destroy(lane->state);
    if (lane->buffer)
        (void)api->buffer_destroy(lane->buffer);
    if (lane->pinned)
        (void)api->pinned_destroy(lane->pinned);
    if (lane->decoder)
        (void)api->decoder_destroy(lane->decoder);
}

void psti_device_nvjpeg_lane_close(struct psti_nvjpeg_lane **lane_ptr)
{
    struct psti_nvjpeg_lane *lane = *lane_ptr;
    *lane_ptr = NULL;
    if (!lane)
        return;
    if (lane->done)
        (void)psti_device_event_sync(lane->done, NULL); /* an error means that the GPU is gone */
    if (psti_device_enter_to_close(lane->nvjpeg->device)) {
        destroy_lane(lane);
        psti_device_leave(lane->nvjpeg->device);
    }
    psti_device_event_close(&lane->done);
    psti_free(lane);
}

/* Parses the header, which must be that of the file that was checked, because the pixels' memory
 * fits no other. The context is current. */
static unsigned parse(struct psti_nvjpeg *nvjpeg, psti_nvj_handle handle, const void *bytes,
                      size_t nbytes, const struct psti_nvjpeg_file *file, psti_nvj_file parsed)
{
    unsigned width = 0, height = 0;
    unsigned result = PSTI_NVJPEG_CALL(nvjpeg, file_parse(handle, bytes, nbytes, 0, 0, parsed));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, file_size(parsed, &width, &height));
    if (result == PSTI_NVJ_SUCCESS && (width != file->width || height != file->height))
        result = PSTI_NVJ_JPEG_NOT_SUPPORTED;
    return result;
}

/* The context is current. */
static unsigned decode_host(struct psti_nvjpeg_lane *lane, const void *bytes, size_t nbytes,
                            const struct psti_nvjpeg_file *file)
{
    struct psti_nvjpeg *nvjpeg = lane->nvjpeg;
    psti_nvj_handle handle = nvjpeg->handle;
    int refused = 0;
    unsigned result = parse(nvjpeg, handle, bytes, nbytes, file, lane->file);
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, params_format(lane->params, format_of(file->channels)));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(
            nvjpeg, decoder_supports(lane->decoder, lane->file, lane->params, &refused));
    if (result == PSTI_NVJ_SUCCESS && refused)
        result = PSTI_NVJ_JPEG_NOT_SUPPORTED;
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(
            nvjpeg, decode_host(handle, lane->decoder, lane->state, lane->params, lane->file));
    /* No GPU took part yet, so this error of nvJPEG is caused by the file. */
    return result == PSTI_NVJ_INTERNAL_ERROR ? PSTI_NVJ_JPEG_NOT_SUPPORTED : result;
}

enum pst_status psti_device_nvjpeg_lane_begin(struct psti_nvjpeg_lane *lane, const void *bytes,
                                              size_t nbytes, const struct psti_nvjpeg_file *file,
                                              struct pst_error *err)
{
    enum pst_status status = psti_device_event_sync(lane->done, err);
    if (status == PST_OK)
        status = psti_device_enter(lane->nvjpeg->device, err);
    if (status != PST_OK)
        return status;
    unsigned result = decode_host(lane, bytes, nbytes, file);
    psti_device_leave(lane->nvjpeg->device);
    return psti_device_nvjpeg_check(lane->nvjpeg, result, "decoding a file", err);
}

enum pst_status psti_device_nvjpeg_lane_submit(struct psti_nvjpeg_lane *lane,
                                               struct psti_stream *stream, uint64_t to,
                                               size_t row_nbytes, struct pst_error *err)
{
    struct psti_nvjpeg *nvjpeg = lane->nvjpeg;
    psti_nvj_image image = {.channel = {(unsigned char *)(uintptr_t)to}, .pitch = {row_nbytes}};
    enum pst_status status = psti_device_enter(nvjpeg->device, err);
    if (status != PST_OK)
        return status;
    unsigned result =
        PSTI_NVJPEG_CALL(nvjpeg, decode_transfer(nvjpeg->handle, lane->decoder, lane->state,
                                                 lane->file, stream->handle));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, decode_device(nvjpeg->handle, lane->decoder, lane->state,
                                                        &image, stream->handle));
    psti_device_leave(nvjpeg->device);
    /* The event is recorded also after a failure, because part of the work may be under way. */
    enum pst_status recorded = psti_device_event_record(lane->done, stream, NULL);
    status = psti_device_nvjpeg_check(nvjpeg, result, "giving a file to the GPU", err);
    if (status == PST_OK && recorded != PST_OK)
        status = psti_fail(err, recorded, "device", "recording an event behind a file");
    if (recorded != PST_OK)
        (void)psti_device_stream_sync(stream, NULL);
    return status;
}

enum pst_status psti_device_nvjpeg_lane_suits_engines(struct psti_nvjpeg_lane *lane,
                                                      const void *bytes, size_t nbytes,
                                                      const struct psti_nvjpeg_file *file,
                                                      bool *suits, struct pst_error *err)
{
    struct psti_nvjpeg *nvjpeg = lane->nvjpeg;
    int refused = 1;
    *suits = false;
    if (!nvjpeg->engines)
        return PST_OK;
    enum pst_status status = psti_device_enter(nvjpeg->device, err);
    if (status != PST_OK)
        return status;
    unsigned result = parse(nvjpeg, nvjpeg->engines, bytes, nbytes, file, lane->header);
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, batch_supported(nvjpeg->engines, lane->header, &refused));
    psti_device_leave(nvjpeg->device);
    *suits = result == PSTI_NVJ_SUCCESS && !refused;
    status = psti_device_nvjpeg_check(nvjpeg, result, "examining a file", err);
    return status == PST_ERROR_LIMIT || status == PST_ERROR_MEMORY ? status : PST_OK;
}

/* Batches
 * ------------------------------------------------------------------------------------------------
 */

enum pst_status psti_device_nvjpeg_batch_open(struct psti_nvjpeg *nvjpeg, uint32_t n_files_max,
                                              struct psti_nvjpeg_batch **out, struct pst_error *err)
{
    *out = NULL;
    if (!nvjpeg->engines)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "device", "GPU %u has no JPEG engines",
                         nvjpeg->device->info.ordinal);
    struct psti_nvjpeg_batch *batch = psti_calloc(1, sizeof *batch);
    if (!batch)
        return psti_fail(err, PST_ERROR_MEMORY, "device", "no memory for files of nvJPEG");
    batch->nvjpeg = nvjpeg;
    batch->n_max = n_files_max;
    batch->files = psti_alloc_array(n_files_max, sizeof *batch->files);
    batch->nbytes = psti_alloc_array(n_files_max, sizeof *batch->nbytes);
    batch->to = psti_calloc(n_files_max, sizeof *batch->to);
    enum pst_status status =
        batch->files && batch->nbytes && batch->to
            ? psti_device_enter(nvjpeg->device, err)
            : psti_fail(err, PST_ERROR_MEMORY, "device", "no memory for files of nvJPEG");
    if (status == PST_OK) {
        unsigned result = PSTI_NVJPEG_CALL(nvjpeg, state_create(nvjpeg->engines, &batch->state));
        psti_device_leave(nvjpeg->device);
        status = psti_device_nvjpeg_check(nvjpeg, result, "making a batch", err);
    }
    if (status != PST_OK)
        psti_device_nvjpeg_batch_close(&batch);
    *out = batch;
    return status;
}

void psti_device_nvjpeg_batch_close(struct psti_nvjpeg_batch **batch_ptr)
{
    struct psti_nvjpeg_batch *batch = *batch_ptr;
    *batch_ptr = NULL;
    if (!batch)
        return;
    if (batch->state && psti_device_enter_to_close(batch->nvjpeg->device)) {
        (void)batch->nvjpeg->api.state_destroy(batch->state);
        psti_device_leave(batch->nvjpeg->device);
    }
    psti_free(batch->files);
    psti_free(batch->nbytes);
    psti_free(batch->to);
    psti_free(batch);
}

enum pst_status psti_device_nvjpeg_batch_submit(struct psti_nvjpeg_batch *batch,
                                                struct psti_stream *stream,
                                                const struct psti_nvjpeg_item *items, uint32_t n,
                                                uint8_t channels, struct pst_error *err)
{
    struct psti_nvjpeg *nvjpeg = batch->nvjpeg;
    if (n == 0 || n > batch->n_max || n > INT_MAX)
        return psti_fail(err, PST_ERROR_ARGUMENT, "device", "%u files for a batch of %u", n,
                         batch->n_max);
    for (uint32_t i = 0; i < n; i++) {
        batch->files[i] = items[i].bytes;
        batch->nbytes[i] = items[i].nbytes;
        batch->to[i].channel[0] = (unsigned char *)(uintptr_t)items[i].to;
        batch->to[i].pitch[0] = items[i].row_nbytes;
    }
    enum pst_status status = psti_device_enter(nvjpeg->device, err);
    if (status != PST_OK)
        return status;
    unsigned result = PSTI_NVJPEG_CALL(
        nvjpeg, batch_begin(nvjpeg->engines, batch->state, (int)n, 1, format_of(channels)));
    if (result == PSTI_NVJ_SUCCESS)
        result = PSTI_NVJPEG_CALL(nvjpeg, batch_decode(nvjpeg->engines, batch->state, batch->files,
                                                       batch->nbytes, batch->to, stream->handle));
    psti_device_leave(nvjpeg->device);
    return psti_device_nvjpeg_check(nvjpeg, result, "giving files to the GPU's engines", err);
}
