/* make_pli_crafted.h - golden PLI files of wave units that no encoder would write.
 */
#ifndef PST_GOLDEN_MAKE_PLI_CRAFTED_H
#define PST_GOLDEN_MAKE_PLI_CRAFTED_H

#include <stdio.h>

/* Writes the files into `folder` and their lines into `manifest`. Returns 0 if all were made. */
int make_pli_crafted(const char *folder, FILE *manifest);

#endif
