/* pli_jpeg_keep.c - converts JPEG files to PLI of their coefficients and back, and proves that
 * nothing is lost.
 *
 * The input is the bytes of a JPEG. The output is a PLI for which two things were proven: its
 * pixels are those that libjpeg-turbo makes of the JPEG (the caller's reference decoder gives their
 * checksum), and the file comes back from it byte for byte. Otherwise the result is an error that
 * says why this JPEG cannot be kept. Any thread may call these functions with its own buffers.
 * Buffers grow to the size that images need and are kept, except very large ones. */
#include "pli/pli.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/options.h"
#include "pli/encode/coefs/pli_jpeg_encode.h"
#include "pli/jpegfile/pli_jpeg_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of bytes of coefficients: enough for 90 Mpixel with 4:4:4. */
#define COEFS_MAX_NBYTES ((uint64_t)512 << 20)
#define KEEP_NBYTES ((size_t)32 << 20)
/* Memory for the allocator's headers of all buffers, in bytes. */
#define HEADERS_NBYTES 4096
/* Number of bytes by which a PLI may exceed the JPEG while it is made. For a JPEG of a few pixels
 * the headers of the PLI take more than is saved. */
#define BOUND_EXTRA_NBYTES ((size_t)64 << 10)

/* Fills memory in which no coefficient was stored yet: the number 0x7f7f is larger than any
 * coefficient. */
#define NO_COEF_BYTE 0x7f

typedef int16_t *coefs_of[PSTI_JPEG_COMPONENTS_MAX];

static enum pst_status reserve(struct psti_buffer *buffer, uint64_t nbytes, struct pst_error *err)
{
    return psti_buffer_reserve(buffer, nbytes, "pli", "to convert a JPEG", err);
}

static void release(struct psti_buffer *buffer, size_t most)
{
    if (buffer->capacity > most)
        psti_buffer_free(buffer);
}

static void trim(struct psti_pli_keep *keep, size_t most)
{
    release(&keep->coefs, most);
    release(&keep->restoration, most);
    release(&keep->scratch, most);
    release(&keep->file, most);
    release(&keep->pixels, most);
}

void psti_pli_keep_free(struct psti_pli_keep *keep)
{
    psti_buffer_free(&keep->coefs);
    psti_buffer_free(&keep->restoration);
    psti_buffer_free(&keep->scratch);
    psti_buffer_free(&keep->file);
    psti_buffer_free(&keep->pixels);
    psti_buffer_free(&keep->work);
}

/* Allocates the coefficients of all components, each aligned to 64. A block takes at least one bit
 * of the file. So if the header states more blocks than the file has bits, the file is corrupt, and
 * no memory is allocated. */
static enum pst_status reserve_coefs(struct psti_pli_keep *keep,
                                     const struct psti_jpeg_frame *frame, uint64_t jpeg_nbytes,
                                     coefs_of coefs, struct pst_error *err)
{
    enum { BLOCK_NBYTES = 64 * sizeof(int16_t) };
    uint64_t total = 0, at[PSTI_JPEG_COMPONENTS_MAX] = {0};
    for (uint32_t c = 0; c < frame->n_components; c++) {
        at[c] = total;
        total += (uint64_t)psti_pli_jpeg_n_coefs(frame, c) * sizeof(int16_t);
    }
    if (total / BLOCK_NBYTES > 8 * jpeg_nbytes)
        return psti_fail(err, PST_ERROR_CORRUPT, "pli", "the JPEG is too short for its pixels");
    if (total > COEFS_MAX_NBYTES)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "pli", "the JPEG has too many pixels");
    enum pst_status status = reserve(&keep->coefs, total, err);
    for (uint32_t c = 0; status == PST_OK && c < frame->n_components; c++)
        coefs[c] = (int16_t *)((char *)keep->coefs.bytes + at[c]);
    return status;
}

static enum pst_status reserve_work(struct psti_pli_keep *keep, struct pst_error *err)
{
    return reserve(&keep->work, psti_pli_jpeg_work_nbytes(), err);
}

/* Probes a JPEG, and allocates the buffers to read it. */
static enum pst_status reserve_reading(struct psti_pli_keep *keep, const void *jpeg, size_t nbytes,
                                       struct psti_jpeg_frame *frame, coefs_of coefs,
                                       struct pst_error *err)
{
    memset(frame, 0, sizeof *frame);
    enum pst_status status = psti_pli_jpeg_probe(jpeg, nbytes, frame, err);
    if (status == PST_OK)
        status = reserve_coefs(keep, frame, nbytes, coefs, err);
    if (status == PST_OK)
        status = reserve(&keep->restoration, psti_pli_jpeg_restoration_bound(nbytes), err);
    return status == PST_OK ? reserve_work(keep, err) : status;
}

/* Reads a JPEG into frame, coefficients and restoration, in the buffers of `keep`. */
static enum pst_status read_jpeg(struct psti_pli_keep *keep, const void *jpeg, size_t nbytes,
                                 struct psti_jpeg_frame *frame, coefs_of coefs,
                                 struct pst_error *err)
{
    enum pst_status status = reserve_reading(keep, jpeg, nbytes, frame, coefs, err);
    if (status == PST_OK)
        status = psti_pli_jpeg_read(jpeg, nbytes, frame, coefs, keep->restoration.bytes,
                                    keep->restoration.capacity, keep->work.bytes, err);
    return status;
}

/* Finds the restoration, which lies after the units, and checks it. */
static enum pst_status find_restoration(const void *pli, size_t nbytes,
                                        const struct psti_jpeg_frame *frame,
                                        struct pst_pli_info *info, const uint8_t **restoration,
                                        struct pst_error *err)
{
    if (frame->restoration_nbytes == 0)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "pli",
                         "the PLI was made without what gives its JPEG back");
    enum pst_status status = pst_pli_info(pli, nbytes, info, sizeof *info, err);
    if (status != PST_OK)
        return status;
    if (info->nbytes != nbytes || frame->restoration_nbytes > nbytes - info->head_nbytes)
        return psti_fail(err, nbytes < info->nbytes ? PST_ERROR_TRUNCATED : PST_ERROR_CORRUPT,
                         "pli", "the PLI has %" PRIu64 " bytes, here are %zu", info->nbytes,
                         nbytes);
    *restoration = (const uint8_t *)pli + nbytes - frame->restoration_nbytes;
    if ((uint32_t)psti_hash64(*restoration, frame->restoration_nbytes) !=
        frame->restoration_checksum)
        return psti_fail(err, PST_ERROR_CHECKSUM, "pli",
                         "the checksum of what gives the JPEG back does not match");
    return PST_OK;
}

/* Allocates the buffers to decode a PLI's coefficients and to write its JPEG. */
static enum pst_status reserve_back(struct psti_pli_keep *keep, const struct psti_jpeg_frame *frame,
                                    const struct pst_pli_info *info, coefs_of coefs,
                                    struct pst_error *err)
{
    enum pst_status status = reserve_coefs(keep, frame, frame->jpeg_nbytes, coefs, err);
    if (status == PST_OK)
        status = reserve(&keep->scratch, pst_pli_scratch_nbytes(info, sizeof *info), err);
    return status == PST_OK ? reserve_work(keep, err) : status;
}

/* Writes the JPEG, frame->jpeg_nbytes bytes, from coefficients and restoration. */
static enum pst_status write_jpeg(struct psti_pli_keep *keep, const struct psti_jpeg_frame *frame,
                                  int16_t *const coefs[], const uint8_t *restoration, void *jpeg,
                                  size_t capacity, struct pst_error *err)
{
    const int16_t *const fixed[PSTI_JPEG_COMPONENTS_MAX] = {
        coefs[0], frame->n_components > 1 ? coefs[1] : NULL,
        frame->n_components > 1 ? coefs[2] : NULL};
    return psti_pli_jpeg_write(frame, fixed, restoration, jpeg, capacity, keep->work.bytes, err);
}

static enum pst_status restore(struct psti_pli_keep *keep, const void *pli, size_t nbytes,
                               const struct psti_jpeg_frame *frame, void *jpeg, size_t capacity,
                               struct pst_error *err)
{
    struct pst_pli_info info = {0};
    const uint8_t *restoration;
    coefs_of coefs;
    enum pst_status status = find_restoration(pli, nbytes, frame, &info, &restoration, err);
    if (status == PST_OK)
        status = reserve_back(keep, frame, &info, coefs, err);
    if (status == PST_OK)
        status = psti_pli_jpeg_coefs(pli, nbytes, frame, coefs, keep->scratch.bytes,
                                     keep->scratch.capacity, err);
    return status == PST_OK ? write_jpeg(keep, frame, coefs, restoration, jpeg, capacity, err)
                            : status;
}

/* The pixels of a band and the state of their checksum. */
struct hash_band {
    struct psti_hash_state state;
    const uint8_t *pixels;
    size_t row_nbytes;
};

static enum pst_status hash_band(void *ctx, uint32_t y, uint32_t n_rows)
{
    struct hash_band *band = ctx;
    (void)y;
    psti_hash_update(&band->state, band->pixels, n_rows * band->row_nbytes);
    return PST_OK;
}

/* Decodes the PLI as readers do. The results are its coefficients and the checksum of its
 * pixels. */
static enum pst_status decode_back(struct psti_pli_keep *keep, const void *pli, size_t nbytes,
                                   const struct psti_jpeg_frame *frame,
                                   const struct pst_pli_info *info, int16_t *const coefs[],
                                   uint64_t *hash, struct pst_error *err)
{
    const uint32_t most = psti_pli_band_rows(info->content, info->unit_edge);
    const uint32_t height = info->height < most ? info->height : most;
    struct hash_band band = {.row_nbytes = (size_t)info->width * info->channels};
    enum pst_status status = reserve(&keep->pixels, band.row_nbytes * height, err);
    if (status != PST_OK)
        return status;
    const struct pst_pixels pixels = {.data = keep->pixels.bytes,
                                      .height = height,
                                      .width = info->width,
                                      .channels = info->channels,
                                      .bits = info->bits,
                                      .row_nbytes = (int64_t)band.row_nbytes,
                                      .pixel_nbytes = info->channels,
                                      .channel_nbytes = 1};
    band.pixels = keep->pixels.bytes;
    psti_hash_begin(&band.state);
    status = psti_pli_jpeg_decode_both(pli, nbytes, frame, coefs, &pixels, keep->scratch.bytes,
                                       keep->scratch.capacity, hash_band, &band, err);
    *hash = psti_hash_end(&band.state);
    return status;
}

/* Returns the sum of the block's dequantised magnitudes. With tables of 8 bits, which are usual, it
 * fits 32 bits. */
static uint64_t sum_of_block(const int16_t *block, const uint16_t *quants, bool is_small)
{
    uint32_t small = 0;
    uint64_t sum = 0;
    if (is_small) {
        for (size_t k = 0; k < 64; k++)
            small += (uint32_t)abs(block[k]) * quants[k];
        return small;
    }
    for (size_t k = 0; k < 64; k++)
        sum += (uint64_t)abs(block[k]) * quants[k];
    return sum;
}

/* Limits of the sum of a block's magnitudes. A quarter of it is the largest sample, and plain
 * kernels are exact up to 512. Kernels of vectors saturate beyond; their sums of two values after
 * the columns, each up to 5.55 times as large as what it is made of, fit 16 bits. */
enum { SUM_MAX = 2048, SATURATING_SUM_MAX = 5800 };

uint32_t psti_pli_jpeg_sum_max(bool saturates) { return saturates ? SATURATING_SUM_MAX : SUM_MAX; }

/* Returns true if a block has larger coefficients than samples of 8 bits make. libjpeg-turbo's
 * kernels then wrap or saturate, each in its own way, and give different pixels. Within the limits
 * all of them are exact. */
static bool is_beyond(const struct psti_jpeg_frame *frame, int16_t *const coefs[], uint64_t most)
{
    enum { SMALL_QUANT_MAX = 255 };
    for (uint32_t c = 0; c < frame->n_components; c++) {
        const uint16_t *quants = frame->quants[frame->components[c].quant];
        const size_t n = psti_pli_jpeg_n_coefs(frame, c);
        bool is_small = true;
        for (size_t k = 0; k < 64; k++)
            is_small = is_small && quants[k] <= SMALL_QUANT_MAX;
        for (size_t block = 0; block < n; block += 64)
            if (sum_of_block(coefs[c] + block, quants, is_small) > most)
                return true;
    }
    return false;
}

/* Proves that the pixels are those of libjpeg-turbo, and that the file comes back byte for byte. */
static enum pst_status prove(struct psti_pli_keep *keep, const void *jpeg, size_t jpeg_nbytes,
                             const void *pli, size_t nbytes, uint64_t wanted, struct pst_error *err)
{
    struct psti_jpeg_frame frame;
    struct pst_pli_info info = {0};
    const uint8_t *restoration = NULL;
    uint64_t found = 0;
    coefs_of coefs;
    enum pst_status status = psti_pli_jpeg_frame(pli, nbytes, &frame, err);
    if (status == PST_OK && frame.jpeg_nbytes != jpeg_nbytes)
        status = psti_fail(err, PST_ERROR_INTERNAL, "pli", "its length would come back otherwise");
    if (status == PST_OK)
        status = find_restoration(pli, nbytes, &frame, &info, &restoration, err);
    if (status == PST_OK)
        status = reserve_back(keep, &frame, &info, coefs, err);
    if (status == PST_OK)
        status = decode_back(keep, pli, nbytes, &frame, &info, coefs, &found, err);
    if (status == PST_OK && found != wanted)
        status =
            is_beyond(&frame, coefs, SUM_MAX)
                ? psti_fail(err, PST_ERROR_UNSUPPORTED, "pli",
                            "coefficients beyond what samples of 8 bits make")
                : psti_fail(err, PST_ERROR_INTERNAL, "pli", "its pixels would come out otherwise");
    if (status == PST_OK)
        status = reserve(&keep->file, jpeg_nbytes, err);
    if (status == PST_OK)
        status = write_jpeg(keep, &frame, coefs, restoration, keep->file.bytes, keep->file.capacity,
                            err);
    if (status == PST_OK && memcmp(keep->file.bytes, jpeg, jpeg_nbytes) != 0)
        status = psti_fail(err, PST_ERROR_INTERNAL, "pli", "its bytes would come back otherwise");
    return status;
}

static uint64_t hash_coefs(const struct psti_jpeg_frame *frame, int16_t *const coefs[])
{
    struct psti_hash_state state;
    psti_hash_begin(&state);
    for (uint32_t c = 0; c < frame->n_components; c++)
        psti_hash_update(&state, coefs[c], psti_pli_jpeg_n_coefs(frame, c) * sizeof *coefs[c]);
    return psti_hash_end(&state);
}

/* Returns whether both frames agree in everything that affects the pixels. */
static bool are_alike(const struct psti_jpeg_frame *a, const struct psti_jpeg_frame *b)
{
    bool same = a->width == b->width && a->height == b->height &&
                a->n_components == b->n_components && a->transform == b->transform &&
                a->orientation == b->orientation;
    for (uint32_t c = 0; same && c < a->n_components; c++) {
        const struct psti_jpeg_component *one = &a->components[c], *other = &b->components[c];
        same = one->h == other->h && one->v == other->v &&
               memcmp(a->quants[one->quant], b->quants[other->quant], sizeof a->quants[0]) == 0;
    }
    return same;
}

/* Proves that the PLI has the frame and the coefficients with this checksum. */
static enum pst_status prove_coefs(struct psti_pli_keep *keep, const void *pli, size_t nbytes,
                                   const struct psti_jpeg_frame *wanted, uint64_t wanted_hash,
                                   struct pst_error *err)
{
    struct psti_jpeg_frame frame;
    struct pst_pli_info info = {0};
    coefs_of coefs;
    enum pst_status status = psti_pli_jpeg_frame(pli, nbytes, &frame, err);
    if (status == PST_OK)
        status = pst_pli_info(pli, nbytes, &info, sizeof info, err);
    if (status == PST_OK && (info.nbytes != nbytes || !are_alike(&frame, wanted)))
        status = psti_fail(err, PST_ERROR_INTERNAL, "pli", "its frame would come out otherwise");
    if (status == PST_OK)
        status = reserve_back(keep, &frame, &info, coefs, err);
    /* This memory still holds the JPEG's coefficients. They are overwritten, because otherwise the
     * proof might compare them with themselves. */
    for (uint32_t c = 0; status == PST_OK && c < frame.n_components; c++)
        memset(coefs[c], NO_COEF_BYTE, psti_pli_jpeg_n_coefs(&frame, c) * sizeof *coefs[c]);
    if (status == PST_OK)
        status = psti_pli_jpeg_coefs(pli, nbytes, &frame, coefs, keep->scratch.bytes,
                                     keep->scratch.capacity, err);
    if (status == PST_OK && hash_coefs(&frame, coefs) != wanted_hash)
        status = psti_fail(err, PST_ERROR_INTERNAL, "pli", "its coefficients would be others");
    return status;
}

static enum pst_status convert_pixels(struct psti_pli_keep *keep, const void *jpeg,
                                      size_t jpeg_nbytes, bool saturates, void *pli,
                                      size_t capacity, size_t *nbytes, bool *is_exact,
                                      struct pst_error *err)
{
    static const struct psti_jpeg_encode_options options = {0};
    struct psti_jpeg_frame frame;
    coefs_of coefs;
    bool is_regular = false;
    enum pst_status status = reserve_reading(keep, jpeg, jpeg_nbytes, &frame, coefs, err);
    if (status == PST_OK)
        status = psti_pli_jpeg_read_coefs(jpeg, jpeg_nbytes, &frame, coefs, keep->restoration.bytes,
                                          keep->restoration.capacity, keep->work.bytes, &is_regular,
                                          err);
    if (status != PST_OK)
        return status;
    /* The installed libjpeg-turbo decides how chroma is upsampled. */
    *is_exact = is_regular && frame.h == 1 && frame.v == 1 &&
                !is_beyond(&frame, coefs, psti_pli_jpeg_sum_max(saturates));
    const uint64_t hash = hash_coefs(&frame, coefs);
    const int16_t *const fixed[PSTI_JPEG_COMPONENTS_MAX] = {
        coefs[0], frame.n_components > 1 ? coefs[1] : NULL,
        frame.n_components > 1 ? coefs[2] : NULL};
    status = psti_pli_jpeg_encode(&frame, fixed, NULL, &options, pli, capacity, nbytes, err);
    return status == PST_OK ? prove_coefs(keep, pli, *nbytes, &frame, hash, err) : status;
}

enum pst_status psti_pli_keep_pixels(struct psti_pli_keep *keep, const void *jpeg,
                                     size_t jpeg_nbytes, bool saturates, void *pli, size_t capacity,
                                     size_t *nbytes, bool *is_exact, struct pst_error *err)
{
    enum pst_status status =
        convert_pixels(keep, jpeg, jpeg_nbytes, saturates, pli, capacity, nbytes, is_exact, err);
    trim(keep, KEEP_NBYTES);
    return status;
}

static enum pst_status convert(struct psti_pli_keep *keep,
                               const struct psti_pli_reference *reference, const void *jpeg,
                               size_t jpeg_nbytes, const struct pst_pli_from_jpeg_options *options,
                               void *pli, size_t capacity, size_t *nbytes, struct pst_error *err)
{
    struct psti_jpeg_encode_options encode = {.no_checksum = options->no_checksum};
    struct psti_jpeg_frame frame;
    coefs_of coefs;
    if (options->unit_edge != 0)
        encode.unit_log2 = (uint8_t)__builtin_ctz(options->unit_edge);
    enum pst_status status = read_jpeg(keep, jpeg, jpeg_nbytes, &frame, coefs, err);
    if (status == PST_OK)
        status = reference->hash(reference->ctx, jpeg, jpeg_nbytes, &encode.pixel_checksum, err);
    if (status != PST_OK)
        return status;
    const int16_t *const fixed[PSTI_JPEG_COMPONENTS_MAX] = {
        coefs[0], frame.n_components > 1 ? coefs[1] : NULL,
        frame.n_components > 1 ? coefs[2] : NULL};
    status = psti_pli_jpeg_encode(&frame, fixed, keep->restoration.bytes, &encode, pli, capacity,
                                  nbytes, err);
    if (status == PST_OK)
        status = prove(keep, jpeg, jpeg_nbytes, pli, *nbytes, encode.pixel_checksum, err);
    return status;
}

/* If the JPEG or its proof failed, extends the error's text: it then says that the JPEG cannot be
 * kept, and why. */
static enum pst_status tell(enum pst_status status, struct pst_error *err)
{
    char cause[PST_ERROR_TEXT_CAP];
    if (err == NULL || !psti_pli_keep_stays(status))
        return status;
    memcpy(cause, err->text, sizeof cause);
    snprintf(err->text, sizeof err->text, "cannot be kept as PLI: %.480s", cause);
    return status;
}

enum pst_status psti_pli_keep_jpeg(struct psti_pli_keep *keep,
                                   const struct psti_pli_reference *reference, const void *jpeg,
                                   size_t jpeg_nbytes,
                                   const struct pst_pli_from_jpeg_options *options, void *pli,
                                   size_t capacity, size_t *nbytes, struct pst_error *err)
{
    enum pst_status status =
        convert(keep, reference, jpeg, jpeg_nbytes, options, pli, capacity, nbytes, err);
    trim(keep, KEEP_NBYTES);
    return tell(status, err);
}

enum pst_status psti_pli_from_jpeg(const struct psti_pli_reference *reference, const void *jpeg,
                                   size_t jpeg_nbytes,
                                   const struct pst_pli_from_jpeg_options *options, void *pli,
                                   size_t capacity, size_t *nbytes, struct pst_error *err)
{
    struct pst_pli_from_jpeg_options filled;
    struct psti_pli_keep keep = {0};
    /* The file is read four times. It is copied first, because the caller's bytes might change
     * between the reads. */
    struct psti_buffer own = {0};
    if (jpeg == NULL || pli == NULL || nbytes == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pli", "jpeg, pli or nbytes is NULL");
    enum pst_status status = psti_options_copy(&filled, sizeof filled, options, "pli", err);
    if (status == PST_OK && filled.unit_edge != 0 && filled.unit_edge != 64 &&
        filled.unit_edge != 128 && filled.unit_edge != 256)
        status =
            psti_fail(err, PST_ERROR_ARGUMENT, "pli",
                      "unit_edge is %" PRIu32 ": 64, 128, 256 or 0 are possible", filled.unit_edge);
    if (status == PST_OK)
        status = reserve(&own, jpeg_nbytes, err);
    if (status == PST_OK) {
        memcpy(own.bytes, jpeg, jpeg_nbytes);
        status = psti_pli_keep_jpeg(&keep, reference, own.bytes, jpeg_nbytes, &filled, pli,
                                    capacity, nbytes, err);
    }
    psti_pli_keep_free(&keep);
    psti_buffer_free(&own);
    return status;
}

/* Returns an upper bound of the scratch for decoding a PLI of content 2; see
 * pst_pli_scratch_nbytes. */
static uint64_t scratch_most(const struct psti_jpeg_frame *frame)
{
    enum { UNIT_EDGE_MAX = 256 };
    return ((uint64_t)3 << 20) +
           (uint64_t)frame->n_components * (UNIT_EDGE_MAX + 2) * ((uint64_t)frame->width + 256);
}

enum pst_status psti_pli_keep_nbytes(const void *jpeg, size_t nbytes, uint64_t *most,
                                     struct pst_error *err)
{
    struct psti_jpeg_frame frame = {0};
    uint64_t coefs = 0;
    enum pst_status status = psti_pli_jpeg_probe(jpeg, nbytes, &frame, err);
    if (status != PST_OK)
        return tell(status, err);
    for (uint32_t c = 0; c < frame.n_components; c++)
        coefs += (uint64_t)psti_pli_jpeg_n_coefs(&frame, c) * sizeof(int16_t);
    *most = coefs + psti_pli_jpeg_restoration_bound(nbytes) + scratch_most(&frame) + nbytes +
            (uint64_t)frame.width * frame.n_components * PSTI_PLI_JPEG_BAND_ROWS +
            psti_pli_jpeg_work_nbytes() + psti_pli_jpeg_encode_work_nbytes(&frame, nbytes) +
            HEADERS_NBYTES;
    return PST_OK;
}

enum pst_status psti_pli_keep_restore(struct psti_pli_keep *keep, const void *pli,
                                      size_t pli_nbytes, void *jpeg, size_t capacity,
                                      size_t *nbytes, struct pst_error *err)
{
    struct psti_jpeg_frame frame;
    enum pst_status status = psti_pli_jpeg_frame(pli, pli_nbytes, &frame, err);
    if (status == PST_OK && capacity < frame.jpeg_nbytes)
        status = psti_fail(err, PST_ERROR_ARGUMENT, "pli",
                           "the JPEG has %" PRIu32 " bytes, there is room for %zu",
                           frame.jpeg_nbytes, capacity);
    if (status == PST_OK)
        status = restore(keep, pli, pli_nbytes, &frame, jpeg, capacity, err);
    if (status == PST_OK)
        *nbytes = frame.jpeg_nbytes;
    else if (err != NULL && err->codec[0] == '\0')
        psti_error_set_codec(err, "pli");
    trim(keep, KEEP_NBYTES);
    return status;
}

bool psti_pli_keep_stays(enum pst_status status)
{
    switch (status) {
    case PST_ERROR_UNSUPPORTED: /* content 2 does not allow this kind of JPEG */
    case PST_ERROR_LIMIT:       /* the PLI is not smaller, or exceeds a limit of the decoder */
    case PST_ERROR_CORRUPT:
    case PST_ERROR_TRUNCATED:
    case PST_ERROR_CHECKSUM:
    case PST_ERROR_INTERNAL: /* the proof failed; keeping the JPEG loses nothing */
        return true;
    default:
        return false;
    }
}

size_t pst_pli_from_jpeg_bound(size_t jpeg_nbytes)
{
    size_t half = jpeg_nbytes / 2 + BOUND_EXTRA_NBYTES;
    return jpeg_nbytes > SIZE_MAX - half ? 0 : jpeg_nbytes + half;
}

enum pst_status pst_pli_to_jpeg(const void *pli, size_t pli_nbytes, void *jpeg, size_t capacity,
                                size_t *nbytes, struct pst_error *err)
{
    struct psti_pli_keep keep = {0};
    if (pli == NULL || jpeg == NULL || nbytes == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pli", "pli, jpeg or nbytes is NULL");
    enum pst_status status =
        psti_pli_keep_restore(&keep, pli, pli_nbytes, jpeg, capacity, nbytes, err);
    psti_pli_keep_free(&keep);
    return status;
}

static enum pst_status restore_head(struct psti_pli_keep *keep, const void *pli, size_t pli_nbytes,
                                    void *jpeg, size_t capacity, size_t *nbytes,
                                    struct pst_error *err)
{
    struct psti_jpeg_frame frame;
    struct pst_pli_info info = {0};
    const uint8_t *restoration;
    enum pst_status status = psti_pli_jpeg_frame(pli, pli_nbytes, &frame, err);
    if (status == PST_OK)
        status = find_restoration(pli, pli_nbytes, &frame, &info, &restoration, err);
    if (status == PST_OK)
        status = reserve_work(keep, err);
    if (status == PST_OK)
        status = psti_pli_jpeg_write_head(&frame, restoration, jpeg, capacity, nbytes,
                                          keep->work.bytes, err);
    if (status != PST_OK && err != NULL && err->codec[0] == '\0')
        psti_error_set_codec(err, "pli");
    return status;
}

enum pst_status pst_pli_to_jpeg_head(const void *pli, size_t pli_nbytes, void *jpeg,
                                     size_t capacity, size_t *nbytes, struct pst_error *err)
{
    struct psti_pli_keep keep = {0};
    if (pli == NULL || jpeg == NULL || nbytes == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pli", "pli, jpeg or nbytes is NULL");
    enum pst_status status = restore_head(&keep, pli, pli_nbytes, jpeg, capacity, nbytes, err);
    psti_pli_keep_free(&keep);
    return status;
}
