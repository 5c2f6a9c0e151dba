/* buffer.h - memory that grows to the largest size asked for and is used again. */
#ifndef PST_BASE_BUFFER_H
#define PST_BASE_BUFFER_H

#include <penstock/status.h>

#include <stddef.h>
#include <stdint.h>

/* All zero is an empty buffer. It has one owner; threads have buffers of their own. */
struct psti_buffer {
    void *bytes; /* aligned to PSTI_CACHE_LINE */
    size_t capacity;
};

/* Makes room for `nbytes`, 0 included: `bytes` is not NULL then. Contents are lost where the buffer
 * has to grow. PST_ERROR_MEMORY leaves it empty; its text is "out of memory for <nbytes> bytes
 * <purpose>", its room the caller's. */
enum pst_status psti_buffer_reserve(struct psti_buffer *buffer, uint64_t nbytes, const char *room,
                                    const char *purpose, struct pst_error *err);
/* Frees the memory; the buffer is empty and may be used again. */
void psti_buffer_free(struct psti_buffer *buffer);

#endif
