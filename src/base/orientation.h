/* orientation.h - reads the orientation of a picture from its metadata: EXIF and XMP.
 *
 * The rules are those of Pillow's exif_transpose (table in docs/format-images.md). */
#ifndef PST_BASE_ORIENTATION_H
#define PST_BASE_ORIENTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSTI_EXIF_PREFIX "Exif\0" /* "Exif\0\0": 6 bytes with the string's own NUL */
#define PSTI_EXIF_PREFIX_NBYTES ((size_t)6)

/* The orientations that the metadata of a file state. Zero-initialise it, then call the functions
 * below for each metadata block of the file. */
struct psti_orientation_marks {
    bool has_exif; /* true if the file has an EXIF block */
    uint8_t exif;  /* orientation in that block, 1..8; 0: none */
    uint8_t xmp;   /* orientation in the XMP, 1..8; 0: none */
};

/* Reads an EXIF block: a small TIFF file, with or without the prefix "Exif\0\0". Returns its
 * orientation, 1..8, or 0 if it states none. Returns 1 if the block is no TIFF file or the value is
 * not 1 to 8. */
uint8_t psti_exif_orientation(const uint8_t *block, size_t nbytes);

/* The state of a search in XMP text that comes in pieces. Zero-initialise it. */
struct psti_xmp_search {
    uint8_t n_matched;   /* characters of the pattern that have matched so far */
    uint8_t orientation; /* the orientation, 1..8; 0 until it is found */
};
void psti_xmp_search(struct psti_xmp_search *search, const uint8_t *text, size_t nbytes);
/* Returns the orientation, 1..8, in a complete XMP text, or 0 if it states none. */
uint8_t psti_xmp_orientation(const uint8_t *text, size_t nbytes);

/* Reads the EXIF or XMP in an APP1 segment of a JPEG. If there are several EXIF segments, the first
 * counts; of several XMP segments, the last. `segment` begins after the segment's length. */
void psti_orientation_take_app1(struct psti_orientation_marks *marks, const uint8_t *segment,
                                size_t nbytes);

/* Returns the orientation of the file, 1..8. XMP counts only if no EXIF block states an
 * orientation. */
uint8_t psti_orientation_of(const struct psti_orientation_marks *marks);

#endif
