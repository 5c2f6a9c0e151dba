/* containers_npy.h - parses the header of a numpy file (.npy), after numpy's description of the
 * format (numpy.lib.format, "NPY format", versions 1.0, 2.0 and 3.0). Pure functions. */
#ifndef PST_CONTAINERS_CONTAINERS_NPY_H
#define PST_CONTAINERS_CONTAINERS_NPY_H

#include <penstock/dataset.h>

enum { PSTI_NPY_HEAD_NBYTES = 256 }; /* first bytes of a file that hold the header for up to 8
                                      * dimensions */

/* The array that a .npy header describes. */
struct psti_npy {
    enum pst_dtype dtype;
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    uint64_t offset; /* offset in the file of the first element; the elements end with the file */
};

/* Parses the header of a .npy file of `nbytes` bytes. `head` holds its first n_head bytes: the
 * whole file, or at least PSTI_NPY_HEAD_NBYTES.
 *
 * *problem: after a failure, a static text that completes a sentence whose subject is the file.
 * PST_ERROR_CORRUPT: the file is no .npy file, contradicts itself, or its size does not fit its
 *     shape.
 * PST_ERROR_UNSUPPORTED: elements in column-major (Fortran) order, in big-endian order or of a type
 *     that Penstock lacks (Python objects too, because they are code), more than 8 dimensions, a
 *     later version of the format, or a longer header. */
enum pst_status psti_containers_npy_parse(const uint8_t *head, size_t n_head, uint64_t nbytes,
                                          struct psti_npy *npy, const char **problem);

/* Finds the element type of a description as numpy writes it: "<f4", "|u1". *problem and the errors
 * are those of psti_containers_npy_parse. */
enum pst_status psti_containers_npy_dtype(const char *text, enum pst_dtype *dtype,
                                          const char **problem);

#endif
