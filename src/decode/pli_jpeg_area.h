/* pli_jpeg_area.h - the kitchen's third door for PLI's content 2 (docs/format-pli.md, sections 7 to
 * 9): which samples, blocks and units of a JPEG's components a region takes. For who decodes them
 * elsewhere. Pure. */
#ifndef PST_DECODE_PLI_JPEG_AREA_H
#define PST_DECODE_PLI_JPEG_AREA_H

#include "decode/pli_int.h"
#include "format/format_pli_jpeg.h"

/* Of a component. */
struct psti_pli_jpeg_need {
    uint8_t across_log2, down_log2;        /* of pixels to a sample: 0, 1 or 2 */
    bool sideways, upright;                /* samples are interpolated, else repeated */
    uint32_t x0, x1, y0, y1;               /* samples, with the margin that interpolation needs */
    uint32_t column0, column1, row0, row1; /* blocks */
};
/* `block`: samples of one each way. */
void psti_pli_jpeg_find_needs(const struct psti_jpeg_frame *frame, uint32_t block,
                              const struct pst_pli_region *region,
                              struct psti_pli_jpeg_need needs[PSTI_JPEG_COMPONENTS_MAX]);
/* The units that these blocks lie in. */
struct psti_pli_span psti_pli_jpeg_find_span(const struct psti_jpeg_frame *frame,
                                             uint32_t unit_log2,
                                             const struct psti_pli_jpeg_need *needs);

#endif
