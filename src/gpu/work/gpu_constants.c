/* gpu_constants.c - the built-in tables of all kernels, one after another, in their layout on a
 * GPU. The tables are constant; any thread may use them. */
#include "gpu/work/gpu_block.h"

#include "base/bits.h"

#include <string.h>

static size_t wave_at(void)
{
    return psti_round_up(sizeof(struct psti_gpu_lz_constants), PSTI_GPU_ALIGN);
}

static size_t jpeg_at(void)
{
    return wave_at() + psti_round_up(sizeof(struct psti_gpu_wave_constants), PSTI_GPU_ALIGN);
}

size_t psti_gpu_constants_nbytes(void)
{
    return jpeg_at() + psti_round_up(sizeof(struct psti_gpu_jpeg_constants), PSTI_GPU_ALIGN);
}

void psti_gpu_constants_write(void *to)
{
    char *at = to;
    memset(to, 0, psti_gpu_constants_nbytes());
    psti_gpu_lz_constants_write((void *)at);
    psti_gpu_wave_constants_write((void *)(at + wave_at()));
    psti_gpu_jpeg_constants_write((void *)(at + jpeg_at()));
}

uint64_t psti_gpu_constants_lz(const struct psti_gpu_block *block)
{
    return block->memory.constants;
}

uint64_t psti_gpu_constants_wave(const struct psti_gpu_block *block)
{
    return block->memory.constants + wave_at();
}

uint64_t psti_gpu_constants_jpeg(const struct psti_gpu_block *block)
{
    return block->memory.constants + jpeg_at();
}
