/* decode_jpeg_header.c - reads the markers before the first scan: size, kind and orientation.
 *
 * Goes from segment to segment by their lengths. Reads the frame header (SOFn), the first EXIF
 * block and the last XMP block (both in APP1), without libjpeg and without allocating. Like
 * libjpeg, it accepts stray bytes between segments and segment lengths below 2. All other errors
 * are found later by the decode itself. */
#include "decode/decode_int.h"

#include "base/jpeg_marker.h"
#include "base/orientation.h"

enum { M_SOF0 = 0xC0, M_DHT = 0xC4, M_JPG = 0xC8, M_DAC = 0xCC, M_SOF15 = 0xCF };
enum { M_RST0 = 0xD0, M_SOI = 0xD8, M_EOI = 0xD9, M_SOS = 0xDA, M_APP1 = 0xE1, M_TEM = 0x01 };

static bool is_frame(uint8_t marker)
{
    return marker >= M_SOF0 && marker <= M_SOF15 && marker != M_DHT && marker != M_JPG &&
           marker != M_DAC;
}

static enum pst_status truncated(struct pst_error *err, size_t nbytes)
{
    return psti_decode_fail(err, PST_ERROR_TRUNCATED, "jpeg", (int64_t)nbytes,
                            "the file ends after %zu bytes, within its header", nbytes);
}

/* Reads a frame header (SOFn). `segment` begins after the segment's length. */
static enum pst_status read_frame(const uint8_t *segment, size_t nbytes, uint8_t marker,
                                  size_t offset, struct pst_image_info *info, struct pst_error *err)
{
    if (marker != 0xC0 && marker != 0xC1 && marker != 0xC2 && marker != 0xC9 && marker != 0xCA)
        return psti_decode_fail(err, PST_ERROR_UNSUPPORTED, "jpeg", (int64_t)offset,
                                "JPEG of kind SOF%u (lossless or hierarchical)", marker - M_SOF0);
    if (nbytes < 6)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "jpeg", (int64_t)offset,
                                "frame header of %zu bytes", nbytes);
    uint8_t n_components = segment[5];
    if (segment[0] != 8)
        return psti_decode_fail(err, PST_ERROR_UNSUPPORTED, "jpeg", (int64_t)offset,
                                "JPEG with %u bits per sample, only 8 are supported", segment[0]);
    if (n_components != 1 && n_components != 3 && n_components != 4)
        return psti_decode_fail(err, PST_ERROR_UNSUPPORTED, "jpeg", (int64_t)offset,
                                "JPEG with %u components", n_components);
    info->height = (uint32_t)segment[1] << 8 | segment[2];
    info->width = (uint32_t)segment[3] << 8 | segment[4];
    info->channels = n_components == 1 ? 1 : 3;
    info->bits = 8;
    info->progressive = marker == 0xC2 || marker == 0xCA;
    if (info->height == 0)
        return psti_decode_fail(err, PST_ERROR_UNSUPPORTED, "jpeg", (int64_t)offset,
                                "JPEG whose height is given after the scan, or is 0");
    return PST_OK;
}

enum pst_status psti_decode_jpeg_probe(const uint8_t *bytes, size_t nbytes,
                                       struct pst_image_info *info, struct pst_error *err)
{
    struct psti_orientation_marks marks = {0};
    bool framed = false;
    for (size_t at = psti_jpeg_next_marker(bytes, nbytes, 2);;
         at = psti_jpeg_next_marker(bytes, nbytes, at)) {
        if (at >= nbytes)
            return truncated(err, nbytes);
        uint8_t marker = bytes[at++];
        if ((marker >= M_RST0 && marker <= M_SOI) || marker == M_TEM)
            continue;
        if (marker == M_EOI || marker == M_SOS)
            break;
        if (nbytes - at < 2)
            return truncated(err, nbytes);
        size_t length = (size_t)bytes[at] << 8 | bytes[at + 1];
        /* A length of 0 or 1 is invalid. libjpeg treats such a segment as an empty one when it
         * skips it, so this parser does too. */
        length = length < 2 ? 2 : length;
        if (length > nbytes - at)
            return truncated(err, nbytes);
        const uint8_t *segment = bytes + at + 2;
        if (is_frame(marker) && !framed) {
            enum pst_status status = read_frame(segment, length - 2, marker, at, info, err);
            if (status != PST_OK)
                return status;
            framed = true;
        } else if (marker == M_APP1) {
            psti_orientation_take_app1(&marks, segment, length - 2);
        }
        at += length;
    }
    if (!framed)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "jpeg", -1, "no frame header in the file");
    info->orientation = psti_orientation_of(&marks);
    return PST_OK;
}
