/* sealed.h - memory that processes share without trusting each other: memfds with seals.
 *
 * There are two kinds. A blob is written once, then sealed: nobody can change or resize it any
 * more. A store is written only by the process that made it, which holds the only writable mapping.
 * A store may grow but not shrink. Processes that receive its descriptor can map it only for
 * reading. The kernel frees the memory when the last descriptor and the last mapping are gone, so
 * no memory is left over if a process is killed. Any thread. */
#ifndef PST_BASE_SEALED_H
#define PST_BASE_SEALED_H

#include <penstock/status.h>

#include <stdbool.h>

/* Creates a blob with a copy of `nbytes` >= 1 bytes. The caller closes *fd. */
enum pst_status psti_sealed_blob_make(const char *name, const void *bytes, size_t nbytes, int *fd,
                                      struct pst_error *err);
/* Maps a received blob for reading. Returns PST_ERROR_CORRUPT if the descriptor is no sealed memfd,
 * is empty, or has more than nbytes_max bytes. The caller unmaps it by psti_sealed_unmap. */
enum pst_status psti_sealed_blob_map(int fd, size_t nbytes_max, const void **bytes, size_t *nbytes,
                                     struct pst_error *err);

/* Creates an empty store, and maps `capacity` bytes of address space for it, readable and writable.
 * Access to bytes that psti_sealed_store_grow has not allocated yet kills the process (SIGBUS).
 * Returns PST_ERROR_UNSUPPORTED if the kernel is older than 5.1, which cannot keep other processes
 * from writing. */
enum pst_status psti_sealed_store_make(const char *name, size_t capacity, int *fd, void **bytes,
                                       struct pst_error *err);
/* Allocates memory for the bytes [from, to) of a store, where `from` is its current length. Returns
 * false if the system has no more memory. */
bool psti_sealed_store_grow(int fd, size_t from, size_t to);
/* Maps `capacity` bytes of address space for a received store, for reading. The store may be
 * shorter: only bytes below psti_sealed_nbytes may be read. Returns PST_ERROR_CORRUPT if the
 * descriptor is no store. */
enum pst_status psti_sealed_store_map(int fd, size_t capacity, const void **bytes,
                                      struct pst_error *err);
/* Returns the current length of a store or blob, or 0 if the kernel does not tell it. */
size_t psti_sealed_nbytes(int fd);
/* Removes a mapping made by a function above. NULL is allowed. */
void psti_sealed_unmap(const void *bytes, size_t nbytes);

#endif
