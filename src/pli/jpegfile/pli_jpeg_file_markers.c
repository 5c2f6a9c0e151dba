/* pli_jpeg_file_markers.c - the walk through the segments of a JPEG file or of its skeleton.
 *
 * The input bytes are not trusted. The output is the walk, which holds the tables and values that
 * the next scan needs. Nothing is allocated, and there are no threads. Stray bytes between segments
 * are accepted, as by libjpeg. Where libjpeg gives up or invents pixels, this walk fails, because
 * content 2 must not contain guesses. */
#include "pli/jpegfile/pli_jpeg_file_int.h"

#include "base/fail.h"
#include "base/jpeg_marker.h"
#include "base/orientation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    M_TEM = 0x01,
    M_SOF0 = 0xC0,
    M_SOF1 = 0xC1,
    M_SOF2 = 0xC2,
    M_DHT = 0xC4,
    M_JPG = 0xC8,
    M_SOF9 = 0xC9,
    M_SOF10 = 0xCA,
    M_DAC = 0xCC,
    M_SOF15 = 0xCF,
    M_RST0 = 0xD0,
    M_RST7 = 0xD7,
    M_SOI = 0xD8,
    M_EOI = 0xD9,
    M_SOS = 0xDA,
    M_DQT = 0xDB,
    M_DNL = 0xDC,
    M_DRI = 0xDD,
    M_APP0 = 0xE0,
    M_APP1 = 0xE1,
    M_APP14 = 0xEE,
    M_APP15 = 0xEF,
    M_COM = 0xFE
};
enum { SIDE_MAX = 65500 }; /* maximum height and width in pixels, as in libjpeg */

enum pst_status psti_pli_jpeg_file_fail(struct pst_error *err, enum pst_status status,
                                        int64_t offset, const char *format, ...)
{
    char text[PST_ERROR_TEXT_CAP];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)psti_fail(err, status, PSTI_JPEG_ROOM, "%s", text);
    psti_error_set_codec(err, "jpeg");
    if (err)
        err->offset = offset;
    return status;
}

#define FAIL(walk, status, ...)                                                                    \
    psti_pli_jpeg_file_fail(err, status, (int64_t)(walk)->at, __VA_ARGS__)

/* The content of a segment: the bytes after its length. */
struct segment {
    const uint8_t *bytes;
    size_t nbytes;
};

static enum pst_status truncated(const struct psti_jpeg_walk *w, struct pst_error *err)
{
    return psti_pli_jpeg_file_fail(err, PST_ERROR_TRUNCATED, (int64_t)w->nbytes,
                                   "the file ends after %zu bytes, within a segment", w->nbytes);
}

/* -- Segments -- */

static enum pst_status read_components(struct psti_jpeg_walk *w, const uint8_t *p,
                                       struct pst_error *err)
{
    for (uint32_t i = 0; i < w->n_components; i++, p += 3) {
        w->ids[i] = p[0];
        w->components[i] =
            (struct psti_jpeg_component){.h = p[1] >> 4, .v = p[1] & 15, .quant = p[2]};
        for (uint32_t j = 0; j < i; j++)
            if (w->ids[j] == p[0])
                return FAIL(w, PST_ERROR_UNSUPPORTED, "two components have the id %u", p[0]);
        if (p[2] >= PSTI_JPEG_N_QUANTS)
            return FAIL(w, PST_ERROR_CORRUPT, "quantisation table number %u", p[2]);
    }
    memset(w->bits, -1, sizeof w->bits);
    return PST_OK;
}

static enum pst_status read_frame(struct psti_jpeg_walk *w, uint8_t marker, struct segment s,
                                  struct pst_error *err)
{
    if (marker == M_SOF9 || marker == M_SOF10)
        return FAIL(w, PST_ERROR_UNSUPPORTED, "arithmetic coding");
    if (marker > M_SOF2)
        return FAIL(w, PST_ERROR_UNSUPPORTED, "JPEG of kind SOF%u (lossless or hierarchical)",
                    marker - M_SOF0);
    if (w->framed)
        return FAIL(w, PST_ERROR_CORRUPT, "two frame headers");
    if (s.nbytes < 6)
        return FAIL(w, PST_ERROR_CORRUPT, "frame header of %zu bytes", s.nbytes);
    w->height = (uint32_t)s.bytes[1] << 8 | s.bytes[2];
    w->width = (uint32_t)s.bytes[3] << 8 | s.bytes[4];
    w->n_components = s.bytes[5];
    w->progressive = marker == M_SOF2;
    if (s.bytes[0] != 8)
        return FAIL(w, PST_ERROR_UNSUPPORTED, "%u bits per sample", s.bytes[0]);
    if (w->n_components != 1 && w->n_components != 3)
        return FAIL(w, PST_ERROR_UNSUPPORTED, "%u components", w->n_components);
    if (s.nbytes != 6 + 3u * w->n_components)
        return FAIL(w, PST_ERROR_CORRUPT, "frame header of %zu bytes for %u components", s.nbytes,
                    w->n_components);
    if (w->height == 0)
        return FAIL(w, PST_ERROR_UNSUPPORTED, "the height is given after the scan, or is 0");
    if (w->width == 0)
        return FAIL(w, PST_ERROR_CORRUPT, "the width is 0");
    if (w->width > SIDE_MAX || w->height > SIDE_MAX)
        return FAIL(w, PST_ERROR_UNSUPPORTED, "%u x %u pixels", w->width, w->height);
    w->framed = true;
    return read_components(w, s.bytes + 6, err);
}

static enum pst_status read_huffman(struct psti_jpeg_walk *w, struct segment s,
                                    struct pst_error *err)
{
    for (size_t at = 0; at < s.nbytes;) {
        const uint8_t *p = s.bytes + at;
        size_t n = 0;
        if (s.nbytes - at < 17)
            return FAIL(w, PST_ERROR_CORRUPT, "a Huffman table is cut short");
        for (int i = 1; i <= 16; i++)
            n += p[i];
        if (n > 256 || n > s.nbytes - at - 17)
            return FAIL(w, PST_ERROR_CORRUPT, "a Huffman table of %zu codes", n);
        if ((p[0] & 15) > 3 || p[0] >> 4 > 1)
            return FAIL(w, PST_ERROR_CORRUPT, "Huffman table number %u", p[0]);
        struct psti_jpeg_huffman *table = p[0] >> 4 ? &w->ac[p[0] & 15] : &w->dc[p[0] & 15];
        *table = (struct psti_jpeg_huffman){.defined = true, .fresh = true, .n = (uint16_t)n};
        memcpy(table->counts, p + 1, 16);
        memcpy(table->symbols, p + 17, n);
        at += 17 + n;
    }
    return PST_OK;
}

static bool is_named(const struct psti_jpeg_frame *frame, uint32_t quant)
{
    for (uint32_t i = 0; frame && i < frame->n_components; i++)
        if (frame->components[i].quant == quant)
            return true;
    return false;
}

/* Reads a DQT segment of `nbytes` bytes. w->at is after the segment's length. A skeleton may have
 * fewer bytes. */
static enum pst_status read_quants(struct psti_jpeg_walk *w, size_t nbytes, struct pst_error *err)
{
    while (nbytes > 0) {
        if (w->at >= w->nbytes)
            return truncated(w, err);
        uint8_t head = w->bytes[w->at++], quant = head & 15;
        bool wide = head >> 4;
        size_t n = wide ? 128 : 64;
        if (quant >= PSTI_JPEG_N_QUANTS || nbytes - 1 < n)
            return FAIL(w, PST_ERROR_CORRUPT, "quantisation table %u of %zu bytes", quant,
                        nbytes - 1);
        nbytes -= 1 + n;
        if (w->n_cuts < PSTI_JPEG_CUTS_MAX)
            w->cuts[w->n_cuts] = (struct psti_jpeg_cut){w->at, quant, wide};
        if (is_named(w->cut_frame, quant)) {
            w->n_cuts++;
            continue;
        }
        if (w->nbytes - w->at < n)
            return truncated(w, err);
        const uint8_t *p = w->bytes + w->at;
        for (int k = 0; k < 64; k++)
            w->quants[quant][k] = wide ? (uint16_t)(p[2 * k] << 8 | p[2 * k + 1]) : p[k];
        w->quant_defined[quant] = true;
        w->n_cuts += !w->cut_frame;
        w->at += n;
    }
    return PST_OK;
}

static void read_app(struct psti_jpeg_walk *w, uint8_t marker, struct segment s)
{
    if (marker == M_APP0 && s.nbytes >= 14 && memcmp(s.bytes, "JFIF", 5) == 0) {
        w->has_jfif = true;
    } else if (marker == M_APP14 && s.nbytes >= 12 && memcmp(s.bytes, "Adobe", 5) == 0) {
        w->has_adobe = true;
        w->adobe_transform = s.bytes[11];
    } else if (marker == M_APP1 && w->n_scans == 0) { /* only EXIF before the first scan counts */
        psti_orientation_take_app1(&w->marks, s.bytes, s.nbytes);
        w->orientation = psti_orientation_of(&w->marks);
    }
}

static uint32_t mcu_blocks(const struct psti_jpeg_component *c) { return (uint32_t)c->h * c->v; }

/* Counts scans and passes and checks their limits. Each scan costs time for all blocks of its
 * components, even if its data are a few bytes. */
static enum pst_status limit_scans(struct psti_jpeg_walk *w, struct pst_error *err)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < w->n_components; i++)
        all += mcu_blocks(&w->components[i]);
    for (uint32_t i = 0; i < w->scan.n_components; i++)
        w->n_passed += mcu_blocks(&w->components[w->scan.component[i]]);
    if (++w->n_scans > PSTI_JPEG_SCANS_MAX)
        return FAIL(w, PST_ERROR_LIMIT, "more than %d scans", PSTI_JPEG_SCANS_MAX);
    if (w->n_passed > PSTI_JPEG_PASSES_MAX * all)
        return FAIL(w, PST_ERROR_LIMIT, "scans that go over all coefficients more than %d times",
                    PSTI_JPEG_PASSES_MAX);
    return PST_OK;
}

static enum pst_status read_scan(struct psti_jpeg_walk *w, struct segment s, struct pst_error *err)
{
    struct psti_jpeg_scan *scan = &w->scan;
    uint32_t n = s.nbytes > 0 ? s.bytes[0] : 0;
    if (!w->framed)
        return FAIL(w, PST_ERROR_CORRUPT, "a scan before the frame header");
    if (n < 1 || n > w->n_components || s.nbytes != 4 + 2 * n)
        return FAIL(w, PST_ERROR_CORRUPT, "scan header of %zu bytes for %u components", s.nbytes,
                    n);
    *scan = (struct psti_jpeg_scan){.n_components = (uint8_t)n};
    for (uint32_t i = 0; i < n; i++) {
        uint8_t id = s.bytes[1 + 2 * i], tables = s.bytes[2 + 2 * i], c = 0;
        while (c < w->n_components && w->ids[c] != id)
            c++;
        for (uint32_t j = 0; j < i; j++)
            if (scan->component[j] == c)
                c = w->n_components;
        if (c == w->n_components)
            return FAIL(w, PST_ERROR_CORRUPT, "component %u of a scan", id);
        if ((tables >> 4) > 3 || (tables & 15) > 3)
            return FAIL(w, PST_ERROR_CORRUPT, "Huffman tables %02X of a scan", tables);
        scan->component[i] = c;
        scan->dc[i] = tables >> 4;
        scan->ac[i] = tables & 15;
    }
    scan->first = s.bytes[1 + 2 * n];
    scan->last = s.bytes[2 + 2 * n];
    scan->high = s.bytes[3 + 2 * n] >> 4;
    scan->low = s.bytes[3 + 2 * n] & 15;
    return limit_scans(w, err);
}

/* Checks that every bit of every coefficient comes once and in order. Otherwise the scans could not
 * be made again from the coefficients. */
static enum pst_status check_progress(struct psti_jpeg_walk *w, struct pst_error *err)
{
    struct psti_jpeg_scan *s = &w->scan;
    if (!w->progressive)
        s->first = 0, s->last = 63, s->high = s->low = 0; /* libjpeg ignores these values, too */
    else if (s->first > s->last || s->last > 63 || (s->first == 0 && s->last != 0) ||
             (s->first > 0 && s->n_components != 1) || s->low > 13 ||
             (s->high != 0 && s->low != s->high - 1))
        return FAIL(w, PST_ERROR_CORRUPT, "a scan of coefficients %u to %u, bits %u to %u",
                    s->first, s->last, s->high, s->low);
    for (uint32_t i = 0; i < s->n_components; i++) {
        int8_t *bits = w->bits[s->component[i]];
        if (s->first > 0 && bits[0] < 0)
            return FAIL(w, PST_ERROR_UNSUPPORTED, "a scan of AC before that of DC");
        for (uint32_t k = s->first; k <= s->last; k++) {
            if (bits[k] != (s->high ? s->high : -1))
                return FAIL(w, PST_ERROR_UNSUPPORTED, "scans that repeat or leave out bits");
            bits[k] = (int8_t)s->low;
        }
    }
    return PST_OK;
}

/* -- The walk through the segments -- */

enum pst_status psti_pli_jpeg_walk_begin(struct psti_jpeg_walk *w, const uint8_t *bytes,
                                         size_t nbytes, const struct psti_jpeg_frame *cut_frame,
                                         struct pst_error *err)
{
    memset(w, 0, sizeof *w);
    w->bytes = bytes;
    w->nbytes = nbytes;
    w->cut_frame = cut_frame;
    w->orientation = 1;
    if (nbytes < 2 || bytes[0] != 0xFF || bytes[1] != M_SOI)
        return FAIL(w, PST_ERROR_CORRUPT, "not a JPEG: it begins otherwise");
    w->at = 2;
    return PST_OK;
}

/* Reads the segment of `marker`, whose content has `nbytes` bytes. Moves w->at past it. */
static enum pst_status read_segment(struct psti_jpeg_walk *w, uint8_t marker, size_t nbytes,
                                    struct pst_error *err)
{
    if (marker == M_DQT)
        return read_quants(w, nbytes, err);
    if (nbytes > w->nbytes - w->at)
        return truncated(w, err);
    struct segment s = {w->bytes + w->at, nbytes};
    enum pst_status status = PST_OK;
    if (marker == M_DHT)
        status = read_huffman(w, s, err);
    else if (marker >= M_SOF0 && marker <= M_SOF15 && marker != M_JPG && marker != M_DAC)
        status = read_frame(w, marker, s, err);
    else if (marker >= M_APP0 && marker <= M_APP15)
        read_app(w, marker, s);
    else if (marker == M_DRI && nbytes != 2)
        status = FAIL(w, PST_ERROR_CORRUPT, "restart interval of %zu bytes", nbytes);
    else if (marker == M_DRI)
        w->restart_interval = (uint32_t)s.bytes[0] << 8 | s.bytes[1];
    else if (marker == M_SOS)
        status = read_scan(w, s, err);
    else if (marker != M_COM && marker != M_DAC && marker != M_DNL)
        status = FAIL(w, PST_ERROR_UNSUPPORTED, "a segment %02X", marker);
    w->at += nbytes;
    return status;
}

enum pst_status psti_pli_jpeg_walk_next(struct psti_jpeg_walk *w, struct pst_error *err)
{
    w->n_cuts = 0;
    for (;;) {
        w->at = psti_jpeg_next_marker(w->bytes, w->nbytes, w->at);
        if (w->at >= w->nbytes || w->bytes[w->at] == M_EOI) {
            w->has_end = w->at < w->nbytes;
            w->at += w->has_end;
            w->ended = true;
            return PST_OK;
        }
        uint8_t marker = w->bytes[w->at++];
        if ((marker >= M_RST0 && marker <= M_RST7) || marker == M_TEM)
            continue;
        if (marker == M_SOI)
            return FAIL(w, PST_ERROR_UNSUPPORTED, "a second beginning before the end");
        if (w->nbytes - w->at < 2)
            return truncated(w, err);
        size_t length = (size_t)w->bytes[w->at] << 8 | w->bytes[w->at + 1];
        if (length < 2)
            return FAIL(w, PST_ERROR_CORRUPT, "segment %02X of %zu bytes", marker, length);
        w->at += 2;
        enum pst_status status = read_segment(w, marker, length - 2, err);
        if (status == PST_OK && marker == M_SOS)
            return check_progress(w, err);
        if (status != PST_OK)
            return status;
    }
}

enum pst_status psti_pli_jpeg_walk_check_end(const struct psti_jpeg_walk *w, struct pst_error *err)
{
    if (!w->framed)
        return FAIL(w, PST_ERROR_CORRUPT, "no frame header in the file");
    for (uint32_t c = 0; c < w->n_components; c++)
        for (uint32_t k = 0; k < 64; k++)
            if (w->bits[c][k] != 0)
                return FAIL(w, PST_ERROR_UNSUPPORTED,
                            "the file ends before all bits of component %u were told", c);
    return PST_OK;
}

/* -- The frame of the file -- */

/* Returns 1 if the three components are YCbCr by libjpeg's rules, else 0. */
static uint8_t transform_of(const struct psti_jpeg_walk *w)
{
    if (w->n_components != 3)
        return 0;
    if (w->has_jfif)
        return 1;
    if (w->has_adobe)
        return w->adobe_transform != 0;
    return !(w->ids[0] == 'R' && w->ids[1] == 'G' && w->ids[2] == 'B');
}

enum pst_status psti_pli_jpeg_walk_frame(const struct psti_jpeg_walk *w,
                                         struct psti_jpeg_frame *frame, struct pst_error *err)
{
    if (!w->framed)
        return FAIL(w, PST_ERROR_CORRUPT, "no frame header in the file");
    *frame = (struct psti_jpeg_frame){.width = w->width,
                                      .height = w->height,
                                      .n_components = w->n_components,
                                      .transform = transform_of(w),
                                      .orientation = w->orientation};
    memcpy(frame->components, w->components, sizeof frame->components);
    if (w->n_components == 1) /* with one component an MCU is a block, whatever the factors are */
        frame->components[0].h = frame->components[0].v = 1;
    if (!psti_pli_jpeg_frame_measure(frame))
        return FAIL(w, PST_ERROR_UNSUPPORTED, "sampling factors %ux%u, %ux%u, %ux%u",
                    w->components[0].h, w->components[0].v, w->components[1].h, w->components[1].v,
                    w->components[2].h, w->components[2].v);
    return PST_OK;
}

bool psti_pli_jpeg_walk_fits(const struct psti_jpeg_walk *w, const struct psti_jpeg_frame *frame)
{
    if (!w->framed || w->width != frame->width || w->height != frame->height ||
        w->n_components != frame->n_components)
        return false;
    for (uint32_t i = 0; i < w->n_components; i++) {
        const struct psti_jpeg_component *a = &w->components[i], *b = &frame->components[i];
        if (a->quant != b->quant || (w->n_components > 1 && (a->h != b->h || a->v != b->v)))
            return false;
    }
    return true;
}

bool psti_pli_jpeg_layout_of(const struct psti_jpeg_frame *frame, const struct psti_jpeg_scan *scan,
                             struct psti_jpeg_layout *layout)
{
    layout->n_blocks = 0;
    if (scan->n_components == 1) {
        const struct psti_jpeg_component *c = &frame->components[scan->component[0]];
        layout->mcu_columns = (c->width + 7) / 8;
        layout->mcu_rows = (c->height + 7) / 8;
        layout->n_blocks = 1;
        layout->places[0] =
            (struct psti_jpeg_place){.component = scan->component[0], .h = 1, .v = 1};
        return true;
    }
    layout->mcu_columns = (frame->width + 8u * frame->h - 1) / (8u * frame->h);
    layout->mcu_rows = (frame->height + 8u * frame->v - 1) / (8u * frame->v);
    for (uint8_t slot = 0; slot < scan->n_components; slot++) {
        uint8_t component = scan->component[slot];
        const struct psti_jpeg_component *c = &frame->components[component];
        for (uint8_t y = 0; y < c->v; y++)
            for (uint8_t x = 0; x < c->h; x++) {
                if (layout->n_blocks == PSTI_JPEG_MCU_BLOCKS_MAX)
                    return false;
                layout->places[layout->n_blocks++] =
                    (struct psti_jpeg_place){slot, component, x, y, c->h, c->v};
            }
    }
    return true;
}

bool psti_pli_jpeg_huffman_codes(const struct psti_jpeg_huffman *table, uint16_t codes[256],
                                 uint8_t lengths[256])
{
    uint32_t code = 0, i = 0;
    for (uint8_t length = 1; length <= 16; length++, code <<= 1) {
        for (uint32_t n = table->counts[length - 1]; n > 0; n--) {
            lengths[i] = length;
            codes[i++] = (uint16_t)code++;
        }
        if (code >> length) /* a code of only ones is not allowed */
            return false;
    }
    return true;
}
