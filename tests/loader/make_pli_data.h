/* make_pli_data.h - data sets of PLI images of several sizes, good and damaged ones, for tests of
 * batches on a GPU. */
#ifndef PST_TESTS_MAKE_PLI_DATA_H
#define PST_TESTS_MAKE_PLI_DATA_H

#include <penstock/penstock.h>

#include <stdbool.h>

/* Writes n PLI images of each tier and pli-jpeg images, some hundred pixels on a side, so that a
 * crop needs few units of each, with 0 to 4 boxes. `checksums`: units have checksums. */
void make_pli(const char *path, uint32_t n, bool checksums);
/* Damages the units of three of four images among the first n of the data set. Headers stay good.
 */
void spoil_units(const pst_dataset *dataset, uint64_t n);

#endif
