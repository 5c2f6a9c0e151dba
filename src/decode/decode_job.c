/* decode_job.c - helpers for codecs during a decode: memory from the decoder's arena, and errors
 * that name the codec. They run on the decoder's thread; psti_decode_fail may run on any. */
#include "decode/decode_job.h"

#include <stdarg.h>

enum pst_status psti_decode_fail(struct pst_error *err, enum pst_status status, const char *codec,
                                 int64_t offset, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    psti_fail_args(err, status, PSTI_ROOM, NULL, offset, format, args);
    va_end(args);
    psti_error_set_codec(err, codec);
    return status;
}

void *psti_decode_alloc(struct psti_decode_job *job, size_t nbytes, enum pst_status *status)
{
    struct psti_decode_arena *arena = &job->decoder->arena;
    void *memory = psti_decode_arena_alloc(arena, nbytes, status);
    if (!memory)
        psti_decode_fail(job->err, *status, pst_form_name(job->info->form), -1,
                         *status == PST_ERROR_LIMIT
                             ? "%zu bytes more would exceed the scratch limit of %llu bytes"
                             : "no memory for %zu bytes of scratch (limit %llu)",
                         nbytes, (unsigned long long)arena->limit);
    return memory;
}
