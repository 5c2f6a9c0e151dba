/* pli_jpeg_file.c - reads a JPEG file into its frame, coefficients and restoration.
 *
 * A walk through the file's segments stops at each scan, whose blocks are then read. The bytes
 * outside the scans' data are compressed at the end, when it is certain that the file can be kept.
 * Until then the memory of the restoration serves as a buffer: it holds the present scan's data
 * without stuffing, followed by the events. Any thread may call these functions. */
#include "pli/jpegfile/pli_jpeg_file.h"

#include "base/hash.h"
#include "pli/jpegfile/pli_jpeg_file_print.h"
#include "pli/jpegfile/pli_jpeg_file_scan.h"

#include <stddef.h>
#include <string.h>

enum { GAPS_MAX = PSTI_JPEG_SCANS_MAX + PSTI_JPEG_CUTS_MAX };

struct read_work {
    struct psti_jpeg_gap gaps[GAPS_MAX];
    size_t n_gaps, n_cuts;
    bool keeps_quants;
    uint32_t latched; /* mask of the components whose quantisation table is known */
    bool quant_latched[PSTI_JPEG_N_QUANTS];
    struct psti_jpeg_reader reader;
};

size_t psti_pli_jpeg_work_nbytes(void)
{
    size_t a = sizeof(struct read_work), b = psti_pli_jpeg_print_work_nbytes();
    return psti_round_up(a > b ? a : b, 64);
}

static size_t stage_capacity(size_t nbytes) { return nbytes + PSTI_JPEG_STAGE_PADDING; }
static size_t events_capacity(size_t nbytes) { return nbytes / 4 + 1024; }

size_t psti_pli_jpeg_restoration_bound(size_t nbytes)
{
    return stage_capacity(nbytes) + events_capacity(nbytes);
}

enum pst_status psti_pli_jpeg_probe(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                    struct pst_error *err)
{
    struct psti_jpeg_walk walk;
    enum pst_status status = psti_pli_jpeg_walk_begin(&walk, bytes, nbytes, NULL, err);
    if (status == PST_OK)
        status = psti_pli_jpeg_walk_next(&walk, err);
    if (status == PST_OK && walk.ended)
        status = walk.has_end
                     ? psti_pli_jpeg_file_fail(err, PST_ERROR_CORRUPT, (int64_t)walk.at,
                                               "the file has no scan")
                     : psti_pli_jpeg_file_fail(err, PST_ERROR_TRUNCATED, (int64_t)walk.at,
                                               "the file ends after %zu bytes, before its scans",
                                               nbytes);
    return status == PST_OK ? psti_pli_jpeg_walk_frame(&walk, frame, err) : status;
}

/* Copies the quantisation tables of the scan's components to the frame. As in libjpeg, a component
 * uses the table that is defined at its first scan. */
static enum pst_status latch_quants(struct read_work *w, struct psti_jpeg_frame *frame,
                                    struct pst_error *err)
{
    const struct psti_jpeg_walk *walk = &w->reader.walk;
    for (uint32_t i = 0; i < walk->scan.n_components; i++) {
        uint32_t c = walk->scan.component[i], q = walk->components[c].quant;
        if (w->latched >> c & 1)
            continue;
        w->latched |= 1u << c;
        if (!walk->quant_defined[q])
            return psti_pli_jpeg_file_fail(err, PST_ERROR_CORRUPT, (int64_t)walk->at,
                                           "component %u has no quantisation table", c);
        for (uint32_t k = 0; k < 64; k++)
            if (walk->quants[q][k] == 0)
                return psti_pli_jpeg_file_fail(err, PST_ERROR_UNSUPPORTED, (int64_t)walk->at,
                                               "a quantisation value is 0");
        if (w->quant_latched[q] && memcmp(frame->quants[q], walk->quants[q], 128) != 0)
            return psti_pli_jpeg_file_fail(err, PST_ERROR_UNSUPPORTED, (int64_t)walk->at,
                                           "quantisation table %u changes between components", q);
        w->quant_latched[q] = true;
        memcpy(frame->quants[q], walk->quants[q], 128);
    }
    return PST_OK;
}

/* Adds gaps for the values of quantisation tables that were read since the last scan, if a
 * component uses the table. */
static void note_cuts(struct read_work *w, const struct psti_jpeg_frame *frame)
{
    const struct psti_jpeg_walk *walk = &w->reader.walk;
    w->keeps_quants |= walk->n_cuts > PSTI_JPEG_CUTS_MAX - w->n_cuts;
    for (uint32_t i = 0; i < walk->n_cuts && !w->keeps_quants; i++) {
        const struct psti_jpeg_cut *cut = &walk->cuts[i];
        for (uint32_t c = 0; c < frame->n_components; c++)
            if (frame->components[c].quant == cut->quant) {
                w->gaps[w->n_gaps++] = (struct psti_jpeg_gap){
                    cut->at, cut->at + (cut->wide ? 128 : 64), true, cut->quant};
                w->n_cuts++;
                break;
            }
    }
}

/* Returns whether the values in all gaps equal those of the frame's tables. */
static bool cuts_are_the_frames(const struct read_work *w, const struct psti_jpeg_frame *frame)
{
    for (size_t i = 0; i < w->n_gaps; i++) {
        const struct psti_jpeg_gap *gap = &w->gaps[i];
        const uint8_t *p = w->reader.walk.bytes + gap->begin;
        for (size_t k = 0; gap->is_quant && k < 64; k++) {
            uint32_t value = gap->end - gap->begin == 64 ? p[k] : p[2 * k] << 8 | p[2 * k + 1];
            if (value != frame->quants[gap->quant][k])
                return false;
        }
    }
    return true;
}

static enum pst_status read_scans(struct read_work *w, struct psti_jpeg_frame *frame,
                                  int16_t *const coefs[], struct pst_error *err)
{
    struct psti_jpeg_walk *walk = &w->reader.walk;
    for (;;) {
        enum pst_status status = psti_pli_jpeg_walk_next(walk, err);
        if (status != PST_OK)
            return status;
        note_cuts(w, frame);
        if (walk->ended)
            return psti_pli_jpeg_walk_check_end(walk, err);
        if (!psti_pli_jpeg_walk_fits(walk, frame))
            return psti_pli_jpeg_file_fail(err, PST_ERROR_ARGUMENT, -1,
                                           "the file is not the one that was probed");
        /* In a sequential file a scan of several components writes all blocks. Other scans may not,
         * so their coefficients are cleared first. */
        const struct psti_jpeg_scan *scan = &walk->scan;
        for (uint32_t c = 0; c < frame->n_components; c++)
            if (walk->progressive ? walk->n_scans == 1
                                  : scan->n_components == 1 && scan->component[0] == c)
                memset(coefs[c], 0, psti_pli_jpeg_n_coefs(frame, c) * sizeof *coefs[c]);
        size_t begin = walk->at;
        status = latch_quants(w, frame, err);
        if (status == PST_OK)
            status = psti_pli_jpeg_read_scan(&w->reader, err);
        if (status != PST_OK)
            return status;
        w->gaps[w->n_gaps++] = (struct psti_jpeg_gap){begin, walk->at, false, 0};
    }
}

static enum pst_status pack(struct read_work *w, struct psti_jpeg_frame *frame,
                            uint8_t *restoration, struct pst_error *err)
{
    const struct psti_jpeg_reader *r = &w->reader;
    size_t nbytes = 0;
    struct psti_jpeg_parts parts = {
        .bytes = r->walk.bytes,
        .nbytes = r->walk.nbytes,
        .extra = r->events.bytes,
        .extra_nbytes = r->events.nbytes,
        .gaps = w->gaps,
        .n_gaps = w->n_gaps,
        .keeps_quants = w->keeps_quants || !cuts_are_the_frames(w, frame),
        .pads_with_0 = r->pads_with_0,
    };
    enum pst_status status =
        psti_pli_jpeg_pack(&parts, restoration, stage_capacity(parts.nbytes), &nbytes, err);
    if (status != PST_OK)
        return status;
    frame->jpeg_nbytes = (uint32_t)parts.nbytes;
    frame->jpeg_checksum = psti_hash64(parts.bytes, parts.nbytes);
    frame->restoration_nbytes = (uint32_t)nbytes;
    frame->restoration_checksum = (uint32_t)psti_hash64(restoration, nbytes);
    if (!psti_pli_jpeg_length_is_kept(frame))
        return psti_pli_jpeg_file_fail(err, PST_ERROR_UNSUPPORTED, -1,
                                       "%zu bytes are too many for so few pixels", parts.nbytes);
    return PST_OK;
}

static enum pst_status read_file(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                 int16_t *const coefs[], uint8_t *stage, size_t capacity,
                                 struct read_work *w, struct pst_error *err)
{
    struct psti_jpeg_reader *r = &w->reader;
    if (nbytes > UINT32_MAX / 2)
        return psti_pli_jpeg_file_fail(err, PST_ERROR_UNSUPPORTED, -1, "a file of %zu bytes",
                                       nbytes);
    if (capacity < psti_pli_jpeg_restoration_bound(nbytes))
        return psti_pli_jpeg_file_fail(err, PST_ERROR_ARGUMENT, -1,
                                       "%zu bytes are too few for the restoration", capacity);
    memset(w, 0, offsetof(struct read_work, reader.dc_tables));
    memset(frame->quants, 0, sizeof frame->quants);
    r->frame = frame;
    r->coefs = coefs;
    r->stage = stage;
    r->events = (struct psti_jpeg_events){.bytes = stage + stage_capacity(nbytes),
                                          .capacity = events_capacity(nbytes)};
    enum pst_status status = psti_pli_jpeg_walk_begin(&r->walk, bytes, nbytes, NULL, err);
    return status == PST_OK ? read_scans(w, frame, coefs, err) : status;
}

enum pst_status psti_pli_jpeg_read(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                   int16_t *const coefs[], uint8_t *restoration, size_t capacity,
                                   void *work, struct pst_error *err)
{
    enum pst_status status =
        read_file(bytes, nbytes, frame, coefs, restoration, capacity, work, err);
    return status == PST_OK ? pack(work, frame, restoration, err) : status;
}

enum pst_status psti_pli_jpeg_read_coefs(const void *bytes, size_t nbytes,
                                         struct psti_jpeg_frame *frame, int16_t *const coefs[],
                                         uint8_t *stage, size_t capacity, void *work,
                                         bool *is_regular, struct pst_error *err)
{
    const struct read_work *w = work;
    const struct psti_jpeg_walk *walk = &w->reader.walk;
    enum pst_status status = read_file(bytes, nbytes, frame, coefs, stage, capacity, work, err);
    if (status != PST_OK)
        return status;
    *is_regular = !walk->progressive && walk->n_scans == 1 &&
                  walk->scan.n_components == frame->n_components &&
                  w->reader.events.nbytes == 0;
    frame->jpeg_nbytes = (uint32_t)nbytes;
    frame->jpeg_checksum = 0;
    frame->restoration_nbytes = frame->restoration_checksum = 0;
    return psti_pli_jpeg_length_is_kept(frame)
               ? PST_OK
               : psti_pli_jpeg_file_fail(err, PST_ERROR_UNSUPPORTED, -1,
                                         "%zu bytes are too many for so few pixels", nbytes);
}
