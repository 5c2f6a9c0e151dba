/* pli_jpeg_file_kernels.c - the kernels of the reader and printer of JPEG files by CPU level.
 * Only psti_pli_jpeg_file_kernels_of chooses a level. The tables are constant; any thread may
 * use them. */
#include "pli/jpegfile/pli_jpeg_file_kernels.h"

#include "base/machine/cpu.h"

const struct psti_jpeg_file_kernels *psti_pli_jpeg_file_kernels_of(uint32_t cpu)
{
    static const struct psti_jpeg_file_kernels plain = {
        .read_sequential = psti_pli_jpeg_read_sequential,
        .print_sequential = psti_pli_jpeg_print_sequential,
        .direct_read = psti_pli_jpeg_direct_read,
        .direct_skip = psti_pli_jpeg_direct_skip,
        .is_beyond = psti_pli_jpeg_is_beyond_c,
    };
#if defined(__x86_64__)
    static const struct psti_jpeg_file_kernels avx2 = {
        .read_sequential = psti_pli_jpeg_read_sequential_bmi2,
        .print_sequential = psti_pli_jpeg_print_sequential_avx2,
        .direct_read = psti_pli_jpeg_direct_read_bmi2,
        .direct_skip = psti_pli_jpeg_direct_skip_bmi2,
        .is_beyond = psti_pli_jpeg_is_beyond_avx2,
    };
    if (cpu & PSTI_CPU_AVX2)
        return &avx2;
#endif
    (void)cpu;
    return &plain;
}
