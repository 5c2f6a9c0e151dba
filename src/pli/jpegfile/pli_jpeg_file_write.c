/* pli_jpeg_file_write.c - writes the JPEG file, byte for byte, from frame, coefficients and
 * restoration.
 *
 * The skeleton (all bytes of the file except those that coefficients and tables give) is unpacked
 * to the end of the file's memory. From there its bytes are copied towards the front, and the
 * scans' data and the values of quantisation tables are inserted between them. If written bytes
 * would overwrite skeleton bytes that are not copied yet, the restoration is corrupt. The walk goes
 * through the skeleton like the reader's walk through the file. Any thread may call these
 * functions. */
#include "pli/jpegfile/pli_jpeg_file.h"

#include "base/hash.h"
#include "pli/jpegfile/pli_jpeg_file_print.h"

#include <stddef.h>
#include <string.h>

#define FAIL(status, ...) psti_pli_jpeg_file_fail(err, status, -1, __VA_ARGS__)

struct psti_jpeg_print_work {
    struct psti_jpeg_unpacker unpacker;
    uint8_t *at;     /* address of the next byte of the file */
    size_t n_copied; /* bytes of the skeleton that have been copied to the file */
    struct psti_jpeg_printer printer;
};

size_t psti_pli_jpeg_print_work_nbytes(void) { return sizeof(struct psti_jpeg_print_work); }

/* Copies the skeleton up to `end`. */
static void copy_skeleton(struct psti_jpeg_print_work *w, size_t end)
{
    size_t n = end - w->n_copied;
    memmove(w->at, w->printer.walk.bytes + w->n_copied, n);
    w->at += n;
    w->n_copied = end;
}

static size_t room(const struct psti_jpeg_print_work *w)
{
    return (size_t)(w->printer.walk.bytes + w->n_copied - w->at);
}

/* Copies the skeleton up to the position of the walk, and inserts the values of quantisation tables
 * that were cut out. */
static enum pst_status copy_segments(struct psti_jpeg_print_work *w,
                                     const struct psti_jpeg_frame *frame, struct pst_error *err)
{
    const struct psti_jpeg_walk *walk = &w->printer.walk;
    uint32_t n_cuts = walk->cut_frame ? walk->n_cuts : 0;
    if (n_cuts > PSTI_JPEG_CUTS_MAX)
        return FAIL(PST_ERROR_CORRUPT, "more than %d quantisation tables", PSTI_JPEG_CUTS_MAX);
    for (uint32_t i = 0; i < n_cuts; i++) {
        const struct psti_jpeg_cut *cut = &walk->cuts[i];
        const uint16_t *values = frame->quants[cut->quant];
        copy_skeleton(w, cut->at);
        if (room(w) < (cut->wide ? 128 : 64))
            return FAIL(PST_ERROR_CORRUPT, "the file would be longer than it was");
        for (uint32_t k = 0; k < 64; k++) {
            if (cut->wide)
                *w->at++ = (uint8_t)(values[k] >> 8);
            *w->at++ = (uint8_t)values[k];
        }
    }
    copy_skeleton(w, walk->at);
    return PST_OK;
}

/* Writes all bytes up to the next scan's data. If no scan follows, writes the remaining segments,
 * and the walk has ended. */
static enum pst_status print_segments(struct psti_jpeg_print_work *w, struct pst_error *err)
{
    struct psti_jpeg_printer *p = &w->printer;
    enum pst_status status = psti_pli_jpeg_walk_next(&p->walk, err);
    if (status == PST_OK)
        status = copy_segments(w, p->frame, err);
    if (status == PST_OK && !p->walk.ended && !psti_pli_jpeg_walk_fits(&p->walk, p->frame))
        return FAIL(PST_ERROR_CORRUPT, "the restoration is that of another frame");
    return status;
}

static enum pst_status print_file(struct psti_jpeg_print_work *w, struct pst_error *err)
{
    struct psti_jpeg_printer *p = &w->printer;
    for (;;) {
        enum pst_status status = print_segments(w, err);
        if (status != PST_OK)
            return status;
        if (p->walk.ended)
            break;
        p->sink = (struct psti_jpeg_sink){.at = p->stage};
        p->to = w->at;
        p->end = w->at + room(w);
        status = psti_pli_jpeg_print_scan(p, err);
        if (status != PST_OK)
            return status;
        w->at = p->to;
    }
    copy_skeleton(w, p->walk.nbytes);
    if (room(w) > 0)
        return FAIL(PST_ERROR_CORRUPT, "the file would be %zu bytes shorter than it was", room(w));
    if (p->event.position != UINT64_MAX)
        return FAIL(PST_ERROR_CORRUPT, "the restoration has events that do not occur");
    return psti_pli_jpeg_unpack_check_end(&w->unpacker, err);
}

/* Begins to write a file, and begins the unpacker of `w`. The caller must end the unpacker, even if
 * this function fails. */
static enum pst_status begin(struct psti_jpeg_print_work *w, const struct psti_jpeg_frame *frame,
                             const uint8_t *restoration, uint8_t *bytes, size_t capacity,
                             struct pst_error *err)
{
    struct psti_jpeg_printer *p = &w->printer;
    struct psti_jpeg_unpacker *u = &w->unpacker;
    memset(w, 0, offsetof(struct psti_jpeg_print_work, printer.dc_tables));
    if (frame->restoration_nbytes == 0)
        return FAIL(PST_ERROR_UNSUPPORTED, "kept without what restores the file");
    if (capacity < frame->jpeg_nbytes)
        return FAIL(PST_ERROR_ARGUMENT, "the file has %u bytes, here is room for %zu",
                    frame->jpeg_nbytes, capacity);
    if ((uint32_t)psti_hash64(restoration, frame->restoration_nbytes) !=
        frame->restoration_checksum)
        return FAIL(PST_ERROR_CHECKSUM, "the checksum of the restoration does not match");
    enum pst_status status =
        psti_pli_jpeg_unpack_begin(u, restoration, frame->restoration_nbytes, err);
    if (status == PST_OK && u->skeleton_nbytes > frame->jpeg_nbytes)
        status = FAIL(PST_ERROR_CORRUPT, "a skeleton longer than the file");
    if (status != PST_OK)
        return status;
    uint8_t *skeleton = bytes + (frame->jpeg_nbytes - u->skeleton_nbytes);
    status = psti_pli_jpeg_unpack_skeleton(u, skeleton, err);
    if (status != PST_OK)
        return status;
    p->frame = frame;
    p->pads_with_0 = u->flags & PSTI_JPEG_PADS_WITH_0;
    p->unpacker = u;
    w->at = bytes;
    psti_pli_jpeg_next_event(p);
    return psti_pli_jpeg_walk_begin(&p->walk, skeleton, u->skeleton_nbytes,
                                    u->flags & PSTI_JPEG_QUANTS_CUT ? frame : NULL, err);
}

enum pst_status psti_pli_jpeg_write(const struct psti_jpeg_frame *frame,
                                    const int16_t *const coefs[], const uint8_t *restoration,
                                    void *bytes, size_t capacity, void *work, struct pst_error *err)
{
    struct psti_jpeg_print_work *w = work;
    enum pst_status status = begin(w, frame, restoration, bytes, capacity, err);
    w->printer.coefs = coefs;
    if (status == PST_OK)
        status = print_file(w, err);
    psti_pli_jpeg_unpack_end(&w->unpacker);
    if (status == PST_OK && psti_hash64(bytes, frame->jpeg_nbytes) != frame->jpeg_checksum)
        status = FAIL(PST_ERROR_CHECKSUM, "the checksum of the JPEG file does not match");
    return status;
}

enum pst_status psti_pli_jpeg_write_head(const struct psti_jpeg_frame *frame,
                                         const uint8_t *restoration, void *bytes, size_t capacity,
                                         size_t *nbytes, void *work, struct pst_error *err)
{
    struct psti_jpeg_print_work *w = work;
    enum pst_status status = begin(w, frame, restoration, bytes, capacity, err);
    if (status == PST_OK)
        status = print_segments(w, err);
    psti_pli_jpeg_unpack_end(&w->unpacker);
    if (status == PST_OK && w->printer.walk.ended)
        status = FAIL(PST_ERROR_CORRUPT, "the restoration has no scan");
    *nbytes = status == PST_OK ? (size_t)(w->at - (uint8_t *)bytes) : 0;
    return status;
}
