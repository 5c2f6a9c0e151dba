/* jpeg_marker.h - where the next marker of a JPEG file is. */
#ifndef PST_BASE_JPEG_MARKER_H
#define PST_BASE_JPEG_MARKER_H

#include <stddef.h>
#include <stdint.h>

/* Offset of the second byte of the next marker from `at` on, or nbytes. Bytes between segments, and
 * 0xFF that only fill, are passed over; so is 0xFF 0x00, which is data. */
size_t psti_jpeg_next_marker(const uint8_t *bytes, size_t nbytes, size_t at);

#endif
