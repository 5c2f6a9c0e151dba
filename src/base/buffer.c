/* buffer.c - a buffer that grows to the largest requested size and is reused.
 *
 * A buffer frees its memory before it allocates a larger one, so it never holds two allocations. */
#include "base/buffer.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <inttypes.h>

enum pst_status psti_buffer_reserve(struct psti_buffer *buffer, uint64_t nbytes, const char *room,
                                    const char *purpose, struct pst_error *err)
{
    if (buffer->bytes != NULL && buffer->capacity >= nbytes)
        return PST_OK;
    psti_buffer_free(buffer);
    if (nbytes <= SIZE_MAX / 2)
        buffer->bytes = psti_alloc_aligned(PSTI_CACHE_LINE, (size_t)nbytes);
    if (buffer->bytes == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, room, "out of memory for %" PRIu64 " bytes %s",
                         nbytes, purpose);
    buffer->capacity = (size_t)nbytes;
    return PST_OK;
}

void psti_buffer_free(struct psti_buffer *buffer)
{
    psti_free(buffer->bytes);
    *buffer = (struct psti_buffer){0};
}
