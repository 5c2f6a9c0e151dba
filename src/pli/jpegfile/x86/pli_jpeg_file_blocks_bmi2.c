/* pli_jpeg_file_blocks_bmi2.c - reads the blocks of a sequential scan with BMI2, whose shifts take
 * their count from any register. The results are those of pli_jpeg_file_blocks.c. Pure; any
 * thread. */
#include "pli/jpegfile/pli_jpeg_file_read_mcus.h"

#if defined(__x86_64__)
__attribute__((target("avx2,bmi,bmi2"))) enum psti_jpeg_trouble psti_pli_jpeg_read_sequential_bmi2(
    struct psti_jpeg_reader *r, uint32_t row, uint32_t column, uint32_t n)
{
    return psti_pli_jpeg_read_mcus(r, row, column, n);
}
#endif
