/* fuzz_pli_unit.c - decodes one hostile unit of any mode after a valid head: the unit decoders see
 * every byte of the input, and no checksum stops them. Input: 8 bytes of geometry, model block,
 * unit. */
#include "fuzz/fuzz_pli.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

enum { GEOMETRY_NBYTES = 8, BLOCK_NBYTES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes < GEOMETRY_NBYTES + 2)
        return 0;
    uint32_t log2 = PSTI_PLI_UNIT_LOG2_MIN + (data[0] >> 6);
    size_t model = psti_load_u16(data + 6);
    if (model >= nbytes - GEOMETRY_NBYTES)
        model = 0;
    struct psti_pli_header header = {
        .content = PST_PLI_CONTENT_PIXELS,
        .channels = (uint8_t)(1 + (data[0] & 3)),
        .bits = data[0] & 4 ? 16 : 8,
        .transform = data[0] & 8 && (data[0] & 2) ? PSTI_PLI_SUBTRACT_GREEN : 0,
        .unit_log2 = (uint8_t)log2,
        .max_error = data[1] < PSTI_PLI_MAX_ERROR ? data[1] : 0,
        .tier = PST_PLI_TIER_SMALL,
        .wide_sizes = true,
        .width = (uint16_t)(1 + (data[2] | (data[3] << 8)) % (1u << log2)),
        .height = (uint16_t)(1 + (data[4] | (data[5] << 8)) % (1u << log2)),
        .model_nbytes = model ? (uint32_t)(BLOCK_NBYTES + model) : 0,
    };
    size_t head_nbytes = psti_pli_head_nbytes(&header);
    size_t unit_nbytes = nbytes - GEOMETRY_NBYTES - model;
    uint8_t *bytes = malloc(head_nbytes + unit_nbytes);
    const uint8_t *in = data + GEOMETRY_NBYTES;
    if (model) {
        memcpy(bytes + PSTI_PLI_HEADER_NBYTES + BLOCK_NBYTES, in, model);
        psti_pli_print_block(bytes + PSTI_PLI_HEADER_NBYTES, PSTI_PLI_MODEL_WAVE, model);
    }
    memcpy(bytes + head_nbytes, in + model, unit_nbytes);
    psti_pli_print_entry(bytes, &header, 0, (struct psti_pli_entry){(uint32_t)unit_nbytes, 0});
    psti_pli_print_header(&header, bytes);
    struct pst_pli_info info = {0};
    if (pst_pli_info(bytes, head_nbytes + unit_nbytes, &info, sizeof info, NULL) != PST_OK)
        __builtin_trap();
    (void)fuzz_pli_decode(bytes, head_nbytes + unit_nbytes, &info, NULL, -1);
    free(bytes);
    return 0;
}
