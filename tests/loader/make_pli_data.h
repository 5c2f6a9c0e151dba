/* make_pli_data.h - data sets of PLI images of several sizes, good and damaged ones, for tests of
 * batches on a GPU. */
#ifndef PST_TESTS_MAKE_PLI_DATA_H
#define PST_TESTS_MAKE_PLI_DATA_H

#include <penstock/penstock.h>

#include <stdbool.h>

/* Writes n samples: PLI images of several tiers, and pli-jpeg images. Their sides have several
 * hundred pixels, so a crop needs few of an image's units. A sample has 0 to 4 boxes. `checksums`:
 * units have checksums. */
void make_pli(const char *path, uint32_t n, bool checksums);
/* Damages the units of three of four images among the first n of the data set. Headers stay good.
 */
void spoil_units(const pst_dataset *dataset, uint64_t n);

#endif
