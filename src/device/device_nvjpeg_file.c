/* device_nvjpeg_file.c - selects the JPEG files that nvJPEG may decode.
 *
 * Both decoders must make the same picture of such a file, apart from rounding, so that the decoder
 * does not change the meaning. Markers tell the colours as libjpeg-turbo reads them; both
 * interpolate the subsampled chroma; nothing is missing at the end. A pure function of the bytes;
 * any thread. The contents of scans are not read. */
#include "device/device_nvjpeg.h"

#include "base/jpeg_marker.h"

#include <string.h>

enum { M_SOF0 = 0xC0, M_SOF1 = 0xC1, M_SOF2 = 0xC2, M_SOF15 = 0xCF };
enum { M_DHT = 0xC4, M_JPG = 0xC8, M_DAC = 0xCC, M_RST0 = 0xD0, M_SOI = 0xD8, M_EOI = 0xD9 };
enum { M_SOS = 0xDA, M_APP0 = 0xE0, M_APP14 = 0xEE, M_TEM = 0x01 };

/* Bytes that some cameras add past the end marker. */
#define END_WITHIN 32
/* The CPU's decoder has the same limit. A small file can name thousands of scans over millions of
 * pixels. */
#define SCANS_MAX 500

struct header {
    struct psti_nvjpeg_file *file;
    uint8_t marker;           /* marker of the frame; 0: none yet */
    uint8_t components[3][3]; /* id, sampling, table */
    bool has_jfif, has_adobe;
    uint8_t adobe_transform;
};

static const char *read_frame(struct header *h, uint8_t marker, const uint8_t *segment,
                              size_t nbytes)
{
    if (h->marker)
        return "more than one frame";
    if (marker > M_SOF2)
        return "arithmetic, lossless or hierarchical coding";
    if (nbytes < 6 || nbytes < 6 + 3u * segment[5])
        return "a frame header that ends early";
    if (segment[0] != 8)
        return "samples that do not have 8 bits";
    if (segment[5] != 1 && segment[5] != 3)
        return "neither one component nor three";
    h->marker = marker;
    h->file->height = (uint32_t)segment[1] << 8 | segment[2];
    h->file->width = (uint32_t)segment[3] << 8 | segment[4];
    h->file->channels = segment[5];
    memcpy(h->components, segment + 6, 3u * segment[5]);
    return h->file->height && h->file->width ? NULL : "a height that its frame does not tell";
}

static const char *read_segment(struct header *h, uint8_t marker, const uint8_t *segment,
                                size_t nbytes)
{
    if (marker >= M_SOF0 && marker <= M_SOF15 && marker != M_DHT && marker != M_JPG &&
        marker != M_DAC)
        return read_frame(h, marker, segment, nbytes);
    if (marker == M_APP0 && nbytes >= 5 && memcmp(segment, "JFIF", 5) == 0)
        h->has_jfif = true;
    if (marker == M_APP14 && nbytes >= 12 && memcmp(segment, "Adobe", 5) == 0) {
        h->has_adobe = true;
        h->adobe_transform = segment[11];
    }
    return NULL;
}

/* Reads all segments before the first scan. *at is the place after the scan's marker. */
static const char *read_header(struct header *h, const uint8_t *bytes, size_t nbytes, size_t *at)
{
    for (*at = psti_jpeg_next_marker(bytes, nbytes, 2);;
         *at = psti_jpeg_next_marker(bytes, nbytes, *at)) {
        if (*at >= nbytes)
            return "no scan";
        uint8_t marker = bytes[(*at)++];
        if ((marker >= M_RST0 && marker <= M_SOI) || marker == M_TEM)
            continue;
        if (marker == M_SOS)
            return h->marker ? NULL : "no frame before its scan";
        size_t length = nbytes - *at < 2 ? 0 : (size_t)bytes[*at] << 8 | bytes[*at + 1];
        if (marker == M_EOI || length < 2 || length > nbytes - *at)
            return "a header that ends early";
        const char *why = read_segment(h, marker, bytes + *at + 2, length - 2);
        if (why)
            return why;
        *at += length;
    }
}

/* True if three components are YCbCr by libjpeg's rules. */
static bool is_ycbcr(const struct header *h)
{
    if (h->has_jfif)
        return true;
    if (h->has_adobe)
        return h->adobe_transform == 1;
    const uint8_t ids[3] = {h->components[0][0], h->components[1][0], h->components[2][0]};
    return memcmp(ids, "RGB", 3) != 0;
}

static const char *check_components(const struct header *h)
{
    uint8_t luma = h->components[0][1];
    if (h->file->channels == 1)
        return luma == 0x11 ? NULL : "one component that is subsampled";
    if (!is_ycbcr(h))
        return "three components that are not YCbCr";
    bool usual = luma == 0x11 || luma == 0x21 || luma == 0x12 || luma == 0x22;
    return usual && h->components[1][1] == 0x11 && h->components[2][1] == 0x11
               ? NULL
               : "an unusual subsampling of chroma";
}

static bool ends_well(const uint8_t *bytes, size_t nbytes)
{
    size_t first = nbytes > END_WITHIN + 2 ? nbytes - END_WITHIN - 2 : 0;
    for (size_t at = nbytes - 1; at-- > first;)
        if (bytes[at] == 0xFF && bytes[at + 1] == M_EOI)
            return true;
    return false;
}

/* True if there are at most SCANS_MAX scans from `at` on. */
static bool has_few_scans(const uint8_t *bytes, size_t nbytes, size_t at)
{
    uint32_t n = 1;
    while (n <= SCANS_MAX) {
        const uint8_t *found = memchr(bytes + at, M_SOS, nbytes - at);
        if (!found)
            return true;
        at = (size_t)(found - bytes) + 1;
        n += found[-1] == 0xFF;
    }
    return false;
}

bool psti_device_nvjpeg_takes(const void *bytes, size_t nbytes, struct psti_nvjpeg_file *file,
                              const char **why)
{
    const uint8_t *at_bytes = bytes;
    struct header header = {.file = file};
    size_t at = 0;
    memset(file, 0, sizeof *file);
    *why = nbytes < 4 || at_bytes[0] != 0xFF || at_bytes[1] != M_SOI || at_bytes[2] != 0xFF
               ? "no JPEG"
               : read_header(&header, bytes, nbytes, &at);
    if (!*why)
        *why = check_components(&header);
    if (!*why && !ends_well(bytes, nbytes))
        *why = "no end";
    if (!*why && header.marker == M_SOF2 && !has_few_scans(bytes, nbytes, at))
        *why = "a very large number of scans";
    return !*why;
}
