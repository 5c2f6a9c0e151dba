/* make_pli_jpeg_crafted.h - golden PLI files of coefficients that no JPEG encoder would write.
 */
#ifndef PST_GOLDEN_MAKE_PLI_JPEG_CRAFTED_H
#define PST_GOLDEN_MAKE_PLI_JPEG_CRAFTED_H

#include <stdio.h>

/* Writes the files into `folder` and their lines into `manifest`. Returns 0 if all were made. */
int make_pli_jpeg_crafted(const char *folder, FILE *manifest);

#endif
