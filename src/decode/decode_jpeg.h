/* decode_jpeg.h - libjpeg's object and the state that this module attaches to it. Only
 * decode_jpeg*.c include this file. */
#ifndef PST_DECODE_DECODE_JPEG_H
#define PST_DECODE_DECODE_JPEG_H

#include "decode/decode_int.h"

/* jpeglib.h needs the types FILE and size_t, so their headers come first. */
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
    /* libjpeg's own memory manager. It owns the memory that jpeg_create_decompress has
     * allocated. */
    struct jpeg_memory_mgr *memory_of_libjpeg;
    /* two lists: the virtual arrays of samples and of blocks that libjpeg uses for this image */
    struct jvirt_sarray_control *samples;
    struct jvirt_barray_control *blocks;
    bool created;
    bool ended; /* true after all bytes were read and a made-up EOI marker was given to libjpeg */
    struct psti_decode_job *job; /* the job of the image that is being decoded */
    enum pst_status status;      /* status of the error that psti_decode_jpeg_escape reported */
    jmp_buf escape;
};

/* Makes libjpeg allocate its memory from the arena of the current job. */
void psti_decode_jpeg_install_memory(struct psti_jpeg *jpeg);
/* Jumps out of libjpeg to run_guarded(), which returns `status`. The caller must have filled the
 * job's err. */
_Noreturn static inline void psti_decode_jpeg_escape(struct psti_jpeg *jpeg, enum pst_status status)
{
    jpeg->status = status;
    longjmp(jpeg->escape, 1);
}

/* Decodes rows of the job's region without libjpeg's decoder, after libjpeg has read the header.
 * Sets *n_rows to their number. It is 0 if the file is none that this function decodes, and less
 * than the region's height if something is not regular; libjpeg's decoder must decode the other
 * rows. *begun: `emit` was begun, with the file's components as channels. */
enum pst_status psti_decode_jpeg_direct(struct psti_jpeg *jpeg, struct psti_emit *emit, bool *begun,
                                        uint32_t *n_rows);

#endif
