/* containers_npy.h - the header of a numpy file (.npy), by numpy's document of the format
 * (numpy.lib.format, "NPY format", versions 1.0, 2.0 and 3.0). Pure functions. */
#ifndef PST_CONTAINERS_CONTAINERS_NPY_H
#define PST_CONTAINERS_CONTAINERS_NPY_H

#include <penstock/dataset.h>

enum { PSTI_NPY_HEAD_NBYTES = 256 }; /* of a file that are enough for up to 8 dimensions */

/* What the header states. */
struct psti_npy {
    enum pst_dtype dtype;
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    uint64_t offset; /* of the elements, from the file's first byte on; they end with the file */
};

/* Parses the header of a file of `nbytes`. `head` has its first n_head bytes: all of the file, or
 * at least PSTI_NPY_HEAD_NBYTES.
 *
 * *problem: after failure, a static text that completes a sentence that begins with the file.
 *
 * PST_ERROR_CORRUPT: it is no such file, contradicts itself, or has another size than its shape.
 * PST_ERROR_UNSUPPORTED: elements in the order of columns, of the other byte order, of a type that
 *     Penstock does not have (Python objects too: they are code), more than 8 dimensions, a later
 *     version, or a longer header. */
enum pst_status psti_containers_npy_parse(const uint8_t *head, size_t n_head, uint64_t nbytes,
                                          struct psti_npy *npy, const char **problem);

/* Finds the element type of a description as numpy writes it: "<f4", "|u1".
 *
 * *problem, and what is returned: as by psti_containers_npy_parse. */
enum pst_status psti_containers_npy_dtype(const char *text, enum pst_dtype *dtype,
                                          const char **problem);

#endif
