/* make_tars.h - tars of small samples, and a packed data set of the same samples. */
#ifndef PST_TESTS_MAKE_TARS_H
#define PST_TESTS_MAKE_TARS_H

#include <stdint.h>

/* Writes a tar at `path` with the samples first to first + n - 1, each as three files: "0007.jpg",
 * "0007.cls" and "0007.txt". The text has at least 100 bytes, so it stays in the tar and is not
 * copied into the index. */
void make_tar(const char *path, uint32_t first, uint32_t n);
/* Writes a packed data set of the samples 0 to n - 1 with the fields image, label and text. */
void make_packed(const char *path, uint32_t n);

#endif
