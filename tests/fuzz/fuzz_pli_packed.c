/* fuzz_pli_packed.c - decodes a hostile unit of mode packed: the kernels of this machine must give
 * the same result as plain C. Input: 3 bytes of geometry, unit without its mode byte. */
#include "pli/decode/pli_kernels.h"

#include "base/machine/cpu.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

enum { GEOMETRY_NBYTES = 3 };

static const uint8_t *row_at(const struct psti_pli_planes *planes, uint32_t p, uint32_t y)
{
    return planes->base + p * planes->plane_step + (y >> 5) * planes->band_step +
           (y & 31) * planes->row_step;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes < GEOMETRY_NBYTES)
        return 0;
    struct psti_pli_unit unit = {
        .height = 1 + (data[0] & 63),
        .width = 1 + (data[1] & 63),
        .channels = (uint8_t)(1 + (data[2] & 3)),
        .bits = data[2] & 4 ? 16 : 8,
        .transform = data[2] & 8 && data[2] & 2 ? PSTI_PLI_SUBTRACT_GREEN : 0,
        .nbytes = nbytes - GEOMETRY_NBYTES,
        .kernels = psti_pli_kernels_of(psti_cpu_features()),
    };
    /* memory of its own, so a sanitizer detects reads after it */
    uint8_t *bytes = malloc(unit.nbytes + 1);
    uint8_t *work[2] = {aligned_alloc(64, PSTI_PLI_WORK_NBYTES),
                        aligned_alloc(64, PSTI_PLI_WORK_NBYTES)};
    struct psti_pli_planes planes[2];
    unit.bytes = bytes + 1;
    memcpy(bytes + 1, data + GEOMETRY_NBYTES, unit.nbytes);
    enum pst_status c =
        psti_pli_packed_decode_with(&psti_packed_kernels_c, &unit, work[0], NULL, &planes[0], NULL);
    enum pst_status here = psti_pli_packed_decode(&unit, work[1], NULL, &planes[1], NULL);
    if (c != here)
        __builtin_trap();
    for (uint32_t p = 0; p < unit.channels && c == PST_OK; p++)
        for (uint32_t y = 0; y < unit.height; y++)
            if (memcmp(row_at(&planes[0], p, y), row_at(&planes[1], p, y),
                       unit.width * (unit.bits / 8u)) != 0)
                __builtin_trap();
    free(work[0]);
    free(work[1]);
    free(bytes);
    return 0;
}
