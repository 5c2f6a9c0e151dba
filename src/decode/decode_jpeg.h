/* decode_jpeg.h - libjpeg's object and the state that we attach to it. Only decode_jpeg*.c include
 * it. */
#ifndef PST_DECODE_DECODE_JPEG_H
#define PST_DECODE_DECODE_JPEG_H

#include "decode/decode_int.h"

/* jpeglib.h needs FILE and size_t before it. */
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

struct psti_jpeg {
    /* libjpeg's object; its client_data points to this struct */
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct jpeg_memory_mgr memory;
    /* libjpeg's own memory manager, which holds the memory that jpeg_create_decompress took */
    struct jpeg_memory_mgr *memory_of_libjpeg;
    struct jvirt_sarray_control *samples; /* lists of this image's virtual arrays */
    struct jvirt_barray_control *blocks;
    bool created;
    bool ended; /* true if the file's bytes were used up, and an EOI was made up after them */
    struct psti_decode_job *job; /* the job of the image under way */
    enum pst_status status;      /* status of the error that left libjpeg by `escape` */
    jmp_buf escape;
};

/* Makes libjpeg take its memory from the arena of the job under way. */
void psti_decode_jpeg_install_memory(struct psti_jpeg *jpeg);
/* Leaves libjpeg with `status`. The caller has filled the job's err. */
_Noreturn static inline void psti_decode_jpeg_escape(struct psti_jpeg *jpeg, enum pst_status status)
{
    jpeg->status = status;
    longjmp(jpeg->escape, 1);
}

#endif
