/* pli_jpeg_blocks.c - turns planes of coefficients into blocks, in plain C: the reference
 * implementation. The functions are pure; any thread may call them. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#include <string.h>

void psti_pli_jpeg_to_blocks_c(const int16_t *planes, size_t stride, uint32_t last,
                               int16_t *const blocks[PSTI_PLI_JPEG_GROUP])
{
    for (uint32_t i = 0; i < PSTI_PLI_JPEG_GROUP; i++) {
        for (uint32_t k = 0; k <= last; k++)
            blocks[i][k] = planes[k * stride + i];
        memset(blocks[i] + last + 1, 0, (63 - last) * sizeof **blocks);
    }
}
