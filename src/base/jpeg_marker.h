/* jpeg_marker.h - finds the next marker of a JPEG file. */
#ifndef PST_BASE_JPEG_MARKER_H
#define PST_BASE_JPEG_MARKER_H

#include <stddef.h>
#include <stdint.h>

/* Returns the offset of the second byte of the next marker at or after `at`, or nbytes if there is
 * none. Skips bytes between segments, fill bytes 0xFF, and 0xFF 0x00, which is data. */
size_t psti_jpeg_next_marker(const uint8_t *bytes, size_t nbytes, size_t at);

#endif
