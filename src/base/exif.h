/* exif.h - the one thing that is read of EXIF data. */
#ifndef PST_BASE_EXIF_H
#define PST_BASE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Which way up a picture is to be shown: 1..8; 1 if the block, a small TIFF file, does not say or
 * is broken. */
uint8_t psti_exif_orientation(const uint8_t *tiff, size_t nbytes);

#endif
