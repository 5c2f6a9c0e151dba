/* orientation.h - reads the orientation of a picture from its metadata: EXIF and XMP.
 *
 * The rules are those of Pillow's exif_transpose (docs/format-images.md has a table of them). */
#ifndef PST_BASE_ORIENTATION_H
#define PST_BASE_ORIENTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSTI_EXIF_PREFIX "Exif\0" /* with the string's own NUL: 6 bytes */
#define PSTI_EXIF_PREFIX_NBYTES ((size_t)6)

/* The orientations that the metadata of one file state. Zero-initialise, then call the functions
 * below for the blocks that the file has. */
struct psti_orientation_marks {
    bool has_exif; /* true if the file has an EXIF block */
    uint8_t exif;  /* orientation 1..8 of that block; 0: the block has none */
    uint8_t xmp;   /* orientation 1..8 of the XMP; 0: it has none */
};

/* Reads an EXIF block, which is a small TIFF file with or without the prefix "Exif\0\0" in front of
 * it. Returns its orientation, 1..8, or 0 if it has none. Returns 1 if the block is no TIFF file or
 * the value is not one of 1 to 8. */
uint8_t psti_exif_orientation(const uint8_t *block, size_t nbytes);

/* A search through XMP text that comes in pieces. Zero-initialise. */
struct psti_xmp_search {
    uint8_t n_matched;   /* characters of the text that match the last bytes */
    uint8_t orientation; /* 0 until the orientation, 1..8, was found */
};
void psti_xmp_search(struct psti_xmp_search *search, const uint8_t *text, size_t nbytes);
/* Returns the orientation, 1..8, in an XMP text that is in one piece, or 0 if it has none. */
uint8_t psti_xmp_orientation(const uint8_t *text, size_t nbytes);

/* Reads the EXIF or XMP of an APP1 segment of a JPEG. Of several EXIF segments the first counts, of
 * several XMP segments the last. `segment` begins after the segment's length. */
void psti_orientation_take_app1(struct psti_orientation_marks *marks, const uint8_t *segment,
                                size_t nbytes);

/* Returns the orientation, 1..8. XMP counts only if no EXIF block has an orientation. */
uint8_t psti_orientation_of(const struct psti_orientation_marks *marks);

#endif
