/* jpeg_units.cuh - the kernel psti_gpu_coefs: turns units of coefficients into samples. Each warp
 * decodes one unit after another until none is left. */
#ifndef PST_GPU_JPEG_UNITS_CUH
#define PST_GPU_JPEG_UNITS_CUH

#include "gpu/kernels/jpeg_idct.cuh"
#include "gpu/work/gpu_units.h"

namespace psti
{

/* Decodes the bytes of a unit to quantised coefficients. Returns false if the unit is corrupt. */
PSTI_LANES bool decode_coefs(coefs_unit &u, const struct psti_gpu_jpeg_constants *constants,
                             const struct psti_gpu_jpeg_unit &unit)
{
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(u.image->bytes) + unit.offset;
    place_unit(u, unit.unit_y, unit.unit_x);
    warp_sync();
    if (!read_head(bytes, unit.nbytes, u.states, u.bits))
        return false;
    read_classes(u);
    warp_sync();
    bool ends = read_ends(u);
    if (!ends || u.states.at > u.states.n || u.bits.at > u.bits.end)
        return false;
    warp_sync();
    sort_blocks(u);
    read_dc(u);
    warp_sync(); /* the history overwrites the memory of classes and ends */
    read_ac(u, constants);
    bool all = every((u.states.x >> lane_u32(16)) == lane_u32(1));
    if (!all || u.states.at != u.states.n)
        return false;
    add_payload(u.bits, u.states.x);
    place_dc(u);
    place_ac(u);
    if (u.bits.at > u.bits.end)
        return false;
    warp_sync(); /* transform() reads coefficients that other lanes wrote, and overwrites the
                  * history */
    transform(u, constants);
    return true;
}

PSTI_LANES void load_tables(const coefs_unit &u)
{
    for (uint32_t i = 0; i < 128; i += PSTI_WARP)
        store(u.bounds, lane_u32(i) + lane_id(),
              load(&u.tables->ac_bounds[0][0], lane_u32(i) + lane_id()));
    for (uint32_t i = 0; i < 256; i += PSTI_WARP)
        store(u.ac, lane_u32(i) + lane_id(), load(&u.tables->ac[0][0], lane_u32(i) + lane_id()));
}

/* A warp's place among the warps of psti_gpu_coefs. */
struct coefs_place {
    uint16_t *scratch;
    bool takes_wide; /* the warp has scratch for wide units, and there may be some left */
};

/* Gives each warp its number. Wide warps, those that decode units of more than 128 pixels, have the
 * lowest numbers. The numbers are given so that these warps are spread over all multiprocessors,
 * and over all schedulers of each. */
PSTI_LANES coefs_place place_warp(const block &b, const struct psti_gpu_jpeg_args &args)
{
    uint32_t number = (b.warp + b.index) % b.n_warps * b.n_blocks + b.index;
    coefs_place place;
    place.takes_wide = number < args.n_wide_warps;
    uint64_t n_wide = place.takes_wide ? number : args.n_wide_warps, n_narrow = number - n_wide;
    place.scratch = reinterpret_cast<uint16_t *>(args.scratch + n_wide * args.wide_nbytes +
                                                 n_narrow * args.narrow_nbytes);
    return place;
}

/* Returns the number of the unit that the warp decodes next, or a number of at least n_units if
 * none is left. */
PSTI_LANES uint32_t take_unit(coefs_place &place, const struct psti_gpu_jpeg_args &args)
{
    uint32_t *counters = reinterpret_cast<uint32_t *>(args.counters);
    if (place.takes_wide) {
        uint32_t i = atomic_next(counters);
        if (i < args.n_wide)
            return i;
        place.takes_wide = false;
    }
    return args.n_wide + atomic_next(counters + 1);
}

struct coefs_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_jpeg_args &args)
    {
        const struct psti_gpu_jpeg_constants *constants =
            reinterpret_cast<const struct psti_gpu_jpeg_constants *>(args.constants);
        const struct psti_gpu_jpeg_image *images =
            reinterpret_cast<const struct psti_gpu_jpeg_image *>(args.images);
        const struct psti_gpu_jpeg_unit *units =
            reinterpret_cast<const struct psti_gpu_jpeg_unit *>(args.units);
        uint32_t *statuses = reinterpret_cast<uint32_t *>(args.statuses);
        coefs_place place = place_warp(b, args);
        coefs_unit u;
        u.memory = b.memory + b.warp * args.warp_nbytes;
        u.planes = place.scratch;
        u.bounds = shared_cast<uint32_t>(u.memory, PSTI_GPU_COEFS_BOUNDS);
        u.ac = shared_cast<uint32_t>(u.memory, PSTI_GPU_COEFS_AC);
        u.buckets = u.memory + PSTI_GPU_COEFS_BUCKETS;
        u.counts = shared_cast<uint32_t>(u.memory, PSTI_GPU_COEFS_COUNTS);
        u.squares = shared_cast<uint32_t>(u.memory, PSTI_GPU_COEFS_SQUARES);
        u.tables = nullptr;
        store(shared_cast<uint32_t>(u.memory, PSTI_GPU_COEFS_BUCKETS), lane_id(),
              load(constants->buckets, lane_id()));
        for (uint32_t i; (i = take_unit(place, args)) < args.n_units;) {
            const struct psti_gpu_jpeg_unit unit = units[i];
            u.image = images + unit.image;
            const struct psti_gpu_jpeg_tables *tables =
                u.image->tables
                    ? reinterpret_cast<const struct psti_gpu_jpeg_tables *>(u.image->tables)
                    : &constants->tables;
            warp_sync(); /* all lanes must be done with the unit before */
            if (tables != u.tables) {
                u.tables = tables;
                load_tables(u);
            }
            if (!decode_coefs(u, constants, unit))
                atomic_max(
                    statuses, lane_u32(u.image->status),
                    lane_u32(PSTI_GPU_CORRUPT(unit.unit_y * u.image->units_across + unit.unit_x)),
                    lane_id() == lane_u32(0));
        }
    }
};

} // namespace psti

#endif
