/* decode_jpeg.h - libjpeg's object with what we hang on it; shared by decode_jpeg*.c only. */
#ifndef PST_DECODE_DECODE_JPEG_H
#define PST_DECODE_DECODE_JPEG_H

#include "decode/decode_int.h"

/* jpeglib.h needs FILE and size_t before it. */
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

struct psti_jpeg {
    struct jpeg_decompress_struct cinfo; /* its client_data is this struct */
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct jpeg_memory_mgr memory;
    struct jpeg_memory_mgr *memory_of_libjpeg; /* holds what jpeg_create_decompress made */
    struct jvirt_sarray_control *samples;      /* lists of this image's virtual arrays */
    struct jvirt_barray_control *blocks;
    bool created;
    bool ended;                  /* the source ran out and an EOI was made up */
    struct psti_decode_job *job; /* the image at hand */
    enum pst_status status;      /* of the error that escaped */
    jmp_buf escape;
};

/* Has libjpeg's memory come from the arena of the job at hand. */
void psti_decode_jpeg_install_memory(struct psti_jpeg *jpeg);
/* Leaves libjpeg with `status`; err is filled already. */
_Noreturn void psti_decode_jpeg_escape(struct psti_jpeg *jpeg, enum pst_status status);

#endif
