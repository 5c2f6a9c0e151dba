/* gpu_pad.c - makes the work of psti_gpu_pad_rows for finished rows that differ in size. It only
 * computes sizes and addresses. Any thread. */
#include "gpu/work/gpu_block.h"

#include <string.h>

void psti_gpu_pad_set(const struct psti_gpu_field *field, const uint32_t size[2], uint64_t from,
                      const uint32_t to_size[2], uint64_t to, struct psti_gpu_pad *pad)
{
    bool planar = field->finish.is_chw;
    size_t element = pst_dtype_nbytes(field->output.dtype);
    size_t pixel = planar ? element : element * field->output.channels;
    *pad = (struct psti_gpu_pad){.from = from,
                                 .to = to,
                                 .line_nbytes = (uint32_t)(size[1] * pixel),
                                 .to_line_nbytes = (uint32_t)(to_size[1] * pixel),
                                 .n_lines = size[0],
                                 .to_n_lines = to_size[0],
                                 .n_planes = planar ? field->output.channels : 1};
}

bool psti_gpu_pad_launch(const struct psti_gpu_field *field, const struct psti_gpu_pad *pads,
                         uint32_t n_pads, uint64_t at, const unsigned char fill[8],
                         struct psti_gpu_pad_args *args, struct psti_gpu_launch *launch)
{
    size_t element = pst_dtype_nbytes(field->output.dtype);
    uint32_t n_parts = 0;
    *args = (struct psti_gpu_pad_args){.pads = at, .n_pads = n_pads};
    for (size_t i = 0; i < sizeof args->fill; i += element)
        memcpy((char *)&args->fill + i, fill, element);
    for (uint32_t i = 0; i < n_pads; i++) {
        uint32_t n = (pads[i].n_planes * pads[i].to_n_lines - 1) / PSTI_GPU_PAD_LINES + 1;
        n_parts = n > n_parts ? n : n_parts;
    }
    args->n_parts = n_parts;
    *launch = (struct psti_gpu_launch){.kernel = PSTI_GPU_KERNEL_PAD,
                                       .n_blocks = n_pads * n_parts,
                                       .n_warps = PSTI_GPU_PAD_WARPS,
                                       .args = args,
                                       .args_nbytes = sizeof *args};
    return n_pads > 0 && (uint64_t)n_pads * n_parts <= INT32_MAX;
}
