/* sealed.h - memory that processes share without trusting each other: memfds with seals.
 *
 * Two kinds exist. A blob is written once, then sealed: nobody can change or resize it. A store is
 * written by its maker alone, who holds the only writable mapping, and it may only grow. Processes
 * that receive its descriptor can map it for reading only, and never find it shorter than before.
 * The kernel frees the memory when the last descriptor and the last mapping are gone, so no memory
 * is left behind if a process is killed. Any thread. */
#ifndef PST_BASE_SEALED_H
#define PST_BASE_SEALED_H

#include <penstock/status.h>

#include <stdbool.h>

/* Makes a blob with a copy of `nbytes` >= 1 bytes. The caller closes *fd. */
enum pst_status psti_sealed_blob_make(const char *name, const void *bytes, size_t nbytes, int *fd,
                                      struct pst_error *err);
/* Maps a received blob for reading. Returns PST_ERROR_CORRUPT if the descriptor is no sealed memfd,
 * is empty or has more than nbytes_max bytes. The caller unmaps the blob by psti_sealed_unmap. */
enum pst_status psti_sealed_blob_map(int fd, size_t nbytes_max, const void **bytes, size_t *nbytes,
                                     struct pst_error *err);

/* Makes an empty store and maps `capacity` bytes of addresses for reading and writing. Access to
 * bytes that psti_sealed_store_grow has not claimed yet ends the process (SIGBUS). Returns
 * PST_ERROR_UNSUPPORTED if the kernel is older than 5.1 and cannot keep others from writing. */
enum pst_status psti_sealed_store_make(const char *name, size_t capacity, int *fd, void **bytes,
                                       struct pst_error *err);
/* Claims memory for the store's bytes [from, to), where `from` is the store's present length.
 * Returns false if the system has no more memory. */
bool psti_sealed_store_grow(int fd, size_t from, size_t to);
/* Maps `capacity` bytes of addresses of a received store for reading. The store may be shorter;
 * only bytes below psti_sealed_nbytes may be read. Returns PST_ERROR_CORRUPT if the descriptor is
 * no store. */
enum pst_status psti_sealed_store_map(int fd, size_t capacity, const void **bytes,
                                      struct pst_error *err);
/* Returns the present length of a store or blob, or 0 if the kernel does not tell it. */
size_t psti_sealed_nbytes(int fd);
/* Undoes any of the mappings above. NULL is allowed. */
void psti_sealed_unmap(const void *bytes, size_t nbytes);

#endif
