/* pli_jpeg_file_kernels.h - the kernels of the reader and printer of JPEG files, one table per CPU
 * level. All levels read and write the same. */
#ifndef PST_PLI_JPEG_FILE_KERNELS_H
#define PST_PLI_JPEG_FILE_KERNELS_H

#include "pli/jpegfile/pli_jpeg_file_direct.h"
#include "pli/jpegfile/pli_jpeg_file_print.h"
#include "pli/jpegfile/pli_jpeg_file_scan.h"

struct psti_jpeg_file_kernels {
    /* Reads MCUs of a sequential scan. */
    psti_jpeg_mcus_reader *read_sequential;
    /* Prints MCUs of a sequential scan. */
    psti_jpeg_mcus_printer *print_sequential;
    /* Read MCUs into planes, or skip them. */
    psti_jpeg_direct_mcus *direct_read, *direct_skip;
    psti_jpeg_is_beyond *is_beyond;
};

/* Returns the table of the highest level that `cpu` (PSTI_CPU_*) allows. */
const struct psti_jpeg_file_kernels *psti_pli_jpeg_file_kernels_of(uint32_t cpu);

#endif
