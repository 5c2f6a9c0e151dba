/* pli_jpeg_file_events.c - events, which record what the coefficients of a JPEG file do not tell,
 * as bytes of a restoration (docs/format-pli.md, section 10.2). The reader of a JPEG file writes
 * them, and the writer that makes the JPEG file again reads them. Any thread may call these
 * functions. */
#include "pli/jpegfile/pli_jpeg_file_events.h"

#include "pli/jpegfile/pli_jpeg_file_print.h"

bool psti_pli_jpeg_add_event(struct psti_jpeg_events *events, uint64_t position, uint8_t code)
{
    uint64_t step = position - events->position;
    if (step > PSTI_JPEG_POSITION_STEP_MAX || events->capacity - events->nbytes < 5)
        return false;
    for (; step > 127; step >>= 7)
        events->bytes[events->nbytes++] = (uint8_t)(step | 128);
    events->bytes[events->nbytes++] = (uint8_t)step;
    events->bytes[events->nbytes++] = code;
    events->position = position;
    return true;
}

bool psti_pli_jpeg_read_event(struct psti_jpeg_unpacker *unpacker, struct psti_jpeg_event *event)
{
    uint64_t step = 0;
    int byte = psti_pli_jpeg_unpack_byte(unpacker);
    if (byte < 0) {
        *event = (struct psti_jpeg_event){.position = UINT64_MAX};
        return true;
    }
    for (uint32_t shift = 0; byte >= 0; shift += 7) {
        step |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
        byte = shift < 21 ? psti_pli_jpeg_unpack_byte(unpacker) : -1;
    }
    int code = byte < 0 ? -1 : psti_pli_jpeg_unpack_byte(unpacker);
    event->position += step;
    event->code = (uint8_t)code;
    return code >= 0;
}
