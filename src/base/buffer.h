/* buffer.h - a buffer that grows to the largest requested size and is reused. */
#ifndef PST_BASE_BUFFER_H
#define PST_BASE_BUFFER_H

#include <penstock/status.h>

#include <stddef.h>
#include <stdint.h>

/* An empty buffer is all zero. A buffer belongs to one thread at a time. */
struct psti_buffer {
    void *bytes; /* aligned to PSTI_CACHE_LINE */
    size_t capacity;
};

/* Makes sure that the buffer holds at least `nbytes`. `bytes` is not NULL afterwards, even for 0.
 * If the buffer has to grow, its contents are lost. After PST_ERROR_MEMORY the buffer is empty; the
 * error's text is "out of memory for <nbytes> bytes <purpose>", and `room` is the module that it
 * names. */
enum pst_status psti_buffer_reserve(struct psti_buffer *buffer, uint64_t nbytes, const char *room,
                                    const char *purpose, struct pst_error *err);
/* Frees the memory. The buffer is empty then and may be used again. */
void psti_buffer_free(struct psti_buffer *buffer);

#endif
