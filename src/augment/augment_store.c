/* augment_store.c - stores a finished row of pixels in the sample's slot of the batch, in the
 * slot's dtype and layout.
 *
 * In: a row, HWC, 8 or 16 bits. Out: bytes of the slot. Nothing outside of the row's own bytes is
 * written. It runs on the thread of the run. Images become 0..1 or normalised floats by one
 * multiplication and one addition. Integer dtypes are scaled as in the decoder (8 to 16 bits: v *
 * 257, 16 to 8 bits: (v * 255 + 32895) >> 16). Masks keep their numbers. */
#include "augment/augment_int.h"

#include "base/bits.h"

/* Samples whose floats take at least this many bytes are stored with non-temporal stores. A batch
 * of such samples would not stay in the cache until it is read, and a non-temporal store need not
 * load the cache line first. */
#define STREAM_NBYTES ((size_t)256 << 10)

void psti_augment_store_end(const struct psti_run *run)
{
    if (run->streams && run->chain->kernels->settle != NULL)
        run->chain->kernels->settle();
}

enum pst_status psti_augment_store_begin(struct psti_run *run, uint32_t width,
                                         struct pst_error *err)
{
    size_t nbytes = psti_round_up((size_t)width * run->pixel_nbytes, 64) + PSTI_SLACK;
    size_t slot_nbytes = run->target.row_nbytes * run->plan.out_height *
                         (run->chain->output.layout == PST_LAYOUT_CHW ? 3 : 1);
    run->streams = slot_nbytes >= STREAM_NBYTES;
    enum pst_status status = psti_augment_run_reserve(run, PSTI_BUFFER_FLIPPED, nbytes, err);
    if (status == PST_OK && run->chain->output.layout == PST_LAYOUT_CHW)
        status = psti_augment_run_reserve(run, PSTI_BUFFER_PLANES, nbytes + PSTI_SLACK, err);
    return status;
}

static void reverse_wide(unsigned char *to, const unsigned char *from, uint32_t width,
                         uint32_t nbytes)
{
    for (uint32_t x = 0; x < width; x++)
        memcpy(to + (size_t)x * nbytes, from + (size_t)(width - 1 - x) * nbytes, nbytes);
}

void psti_augment_reverse_row(const struct psti_run *run, unsigned char *to,
                              const unsigned char *from, uint32_t width)
{
    const struct psti_chain *chain = run->chain;
    if (chain->output.bits == 8)
        chain->kernels->reverse[chain->output.channels](to, from, width);
    else
        reverse_wide(to, from, width, run->pixel_nbytes);
}

/* Converts n consecutive 8-bit samples to the chain's dtype. */
static void convert(const struct psti_chain *chain, void *to, const uint8_t *from, size_t n,
                    const float *scale, const float *offset)
{
    uint32_t factor = chain->output.is_mask ? 1 : 257;
    switch (chain->output.dtype) {
    case PST_DTYPE_U16:
        for (size_t i = 0; i < n; i++)
            psti_store_u16((char *)to + 2 * i, (uint16_t)(from[i] * factor));
        return;
    case PST_DTYPE_I32:
        for (size_t i = 0; i < n; i++)
            psti_store_u32((char *)to + 4 * i, from[i]);
        return;
    case PST_DTYPE_I64:
        for (size_t i = 0; i < n; i++)
            psti_store_u64((char *)to + 8 * i, from[i]);
        return;
    case PST_DTYPE_F32:
        chain->kernels->to_f32(to, from, n, scale, offset);
        return;
    case PST_DTYPE_F16:
        chain->kernels->to_f16(to, from, n, scale, offset);
        return;
    case PST_DTYPE_BF16:
        chain->kernels->to_bf16(to, from, n, scale, offset);
        return;
    default:
        memcpy(to, from, n);
        return;
    }
}

/* Returns the kernel that splits and converts a row in one pass, or NULL if there is none. */
static psti_planes *planes_kernel(const struct psti_chain *chain, uint32_t width)
{
    if (chain->output.channels != 3 || width < 16)
        return NULL;
    switch (chain->output.dtype) {
    case PST_DTYPE_F32:
        return chain->kernels->planes_f32;
    case PST_DTYPE_F16:
        return chain->kernels->planes_f16;
    case PST_DTYPE_BF16:
        return chain->kernels->planes_bf16;
    default:
        return NULL;
    }
}

static void store_planes(struct psti_run *run, unsigned char *first, size_t plane_nbytes,
                         const uint8_t *row, uint32_t width)
{
    const struct psti_chain *chain = run->chain;
    uint32_t channels = chain->output.channels;
    bool direct = chain->output.dtype == PST_DTYPE_U8;
    psti_planes *kernel = planes_kernel(chain, width);
    if (kernel != NULL) {
        unsigned char *const to[3] = {first, first + plane_nbytes, first + 2 * plane_nbytes};
        bool aligned = (((uintptr_t)first | plane_nbytes) & 63) == 0;
        kernel(to, row, width, chain->plane_scale, chain->plane_offset, run->streams && aligned);
        return;
    }
    uint8_t *planes[4];
    for (uint32_t c = 0; c < channels; c++) {
        planes[c] = direct ? first + c * plane_nbytes
                           : run->buffers[PSTI_BUFFER_PLANES].data + (size_t)c * width;
    }
    chain->kernels->split[channels](planes, row, width);
    for (uint32_t c = 0; c < channels && !direct; c++) {
        convert(chain, first + c * plane_nbytes, planes[c], width, chain->plane_scale[c],
                chain->plane_offset[c]);
    }
}

static void store_wide_sample(const struct psti_chain *chain, unsigned char *to, uint16_t v,
                              uint32_t channel)
{
    float value = (float)v * chain->scale[channel];
    value = value + chain->offset[channel];
    switch (chain->output.dtype) {
    case PST_DTYPE_U8:
        *to = (unsigned char)((v * 255u + 32895u) >> 16);
        return;
    case PST_DTYPE_U16:
        psti_store_u16(to, v);
        return;
    case PST_DTYPE_I32:
        psti_store_u32(to, v);
        return;
    case PST_DTYPE_I64:
        psti_store_u64(to, v);
        return;
    case PST_DTYPE_F16:
        psti_store_u16(to, psti_augment_f16_from_f32(value));
        return;
    case PST_DTYPE_BF16:
        psti_store_u16(to, psti_augment_bf16_from_f32(value));
        return;
    default:
        memcpy(to, &value, sizeof value);
        return;
    }
}

static void store_wide(const struct psti_chain *chain, unsigned char *first, size_t pixel_step,
                       size_t channel_step, const unsigned char *row, uint32_t width)
{
    uint32_t channels = chain->output.channels;
    for (uint32_t x = 0; x < width; x++) {
        for (uint32_t c = 0; c < channels; c++) {
            store_wide_sample(chain, first + x * pixel_step + c * channel_step,
                              psti_load_u16(row + 2 * ((size_t)x * channels + c)), c);
        }
    }
}

void psti_augment_store_row(struct psti_run *run, uint32_t i, const unsigned char *row, bool flip)
{
    const struct psti_chain *chain = run->chain;
    uint32_t width = run->plan.out_width, channels = chain->output.channels;
    unsigned char *to = (unsigned char *)run->target.data + i * run->target.row_nbytes;
    size_t plane_nbytes = run->target.row_nbytes * run->plan.out_height;
    bool planar = chain->output.layout == PST_LAYOUT_CHW && channels > 1;
    if (flip) {
        psti_augment_reverse_row(run, run->buffers[PSTI_BUFFER_FLIPPED].data, row, width);
        row = run->buffers[PSTI_BUFFER_FLIPPED].data;
    }
    if (chain->output.bits == 16) {
        size_t nbytes = pst_dtype_nbytes(chain->output.dtype);
        store_wide(chain, to, planar ? nbytes : nbytes * channels, planar ? plane_nbytes : nbytes,
                   row, width);
    } else if (planar) {
        store_planes(run, to, plane_nbytes, row, width);
    } else {
        convert(chain, to, row, (size_t)width * channels, chain->scale, chain->offset);
    }
}
