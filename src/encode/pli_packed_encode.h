/* pli_packed_encode.h - inside the encoder of mode packed: planes between choosing and writing. */
#ifndef PST_ENCODE_PLI_PACKED_ENCODE_H
#define PST_ENCODE_PLI_PACKED_ENCODE_H

#include "encode/pli_encode_int.h"
#include "format/format_pli_packed.h"

/* A plane's residuals with all that their decoder needs. */
struct psti_packed_coded {
    bool is_constant; /* `start` is the sample; nothing else counts */
    uint8_t predictor[4], first_width;
    int8_t tap[2];
    uint16_t start;
    int16_t residuals[PSTI_PACKED_EDGE][PSTI_PACKED_EDGE];
    uint8_t widths[PSTI_PACKED_EDGE][PSTI_PACKED_ROW_GROUPS];
};

/* pli_packed_write.c: the unit's bytes, mode first; 0 if they do not fit. */
size_t psti_pli_packed_write(const struct psti_pli_source *source,
                             const struct psti_packed_coded *coded, uint8_t *out, size_t capacity);

#endif
