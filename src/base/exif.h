/* exif.h - reads the orientation from EXIF data. */
#ifndef PST_BASE_EXIF_H
#define PST_BASE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Returns the orientation, 1..8, of an EXIF block, which is a small TIFF file. 1 if the block
 * has none or is broken. */
uint8_t psti_exif_orientation(const uint8_t *tiff, size_t nbytes);

#endif
