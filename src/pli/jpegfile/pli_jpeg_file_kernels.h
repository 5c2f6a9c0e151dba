/* pli_jpeg_file_kernels.h - the kernels of the reader and printer of JPEG files, one table per CPU
 * level. All levels read and write the same. */
#ifndef PST_PLI_JPEG_FILE_KERNELS_H
#define PST_PLI_JPEG_FILE_KERNELS_H

#include "pli/jpegfile/pli_jpeg_file_print.h"
#include "pli/jpegfile/pli_jpeg_file_scan.h"

struct psti_jpeg_file_kernels {
    /* Reads MCUs of a sequential scan. */
    psti_jpeg_mcus_reader *read_sequential;
    /* Prints MCUs of a sequential scan. */
    psti_jpeg_mcus_printer *print_sequential;
};

/* Returns the table of the highest level that `cpu` (PSTI_CPU_*) allows. */
const struct psti_jpeg_file_kernels *psti_pli_jpeg_file_kernels_of(uint32_t cpu);

#endif
