/* pli_packed_rebuild_template.h - a coded plane's rows, 16 at a time under one predictor.
 *
 * A level includes this file once, behind definitions of these:
 *
 *     TARGET               attributes of functions
 *     rebuild8(unit, p, work)                            a plane of 8 bits
 *     struct row16, row16_of(value)                      a row of 64 samples, all of one value
 *     rows16(unit, p, work, begin, end, u, predictor)    rows begin .. end - 1 behind row u;
 * returns the last; inlined for each predictor
 *
 * It defines rebuild(), which struct psti_packed_kernels has. */

TARGET static void rebuild16(const struct psti_packed *unit, uint32_t p,
                             struct psti_packed_work *work)
{
    struct row16 u = rows16(unit, p, work, 0, 1, row16_of(unit->planes[p].start), PSTI_PACKED_LEFT);
    for (uint32_t y = 0; y < unit->height; y += 16) {
        uint32_t begin = y ? y : 1, end = unit->height - y < 16 ? unit->height : y + 16;
        switch ((enum psti_packed_predictor)unit->planes[p].predictor[y >> 4]) {
        case PSTI_PACKED_CONSTANT: /* not among those of coded planes */
        case PSTI_PACKED_LEFT:
            u = rows16(unit, p, work, begin, end, u, PSTI_PACKED_LEFT);
            break;
        case PSTI_PACKED_UP:
            u = rows16(unit, p, work, begin, end, u, PSTI_PACKED_UP);
            break;
        case PSTI_PACKED_GRADIENT:
            u = rows16(unit, p, work, begin, end, u, PSTI_PACKED_GRADIENT);
            break;
        case PSTI_PACKED_SMOOTH:
            u = rows16(unit, p, work, begin, end, u, PSTI_PACKED_SMOOTH);
            break;
        case PSTI_PACKED_SMOOTH_GRADIENT:
            u = rows16(unit, p, work, begin, end, u, PSTI_PACKED_SMOOTH_GRADIENT);
            break;
        }
    }
}

static void rebuild(const struct psti_packed *unit, uint32_t p, struct psti_packed_work *work)
{
    if (unit->bits == 8)
        rebuild8(unit, p, work);
    else
        rebuild16(unit, p, work);
}
