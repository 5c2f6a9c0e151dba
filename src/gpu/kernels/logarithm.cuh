/* logarithm.cuh - the natural logarithm of base/numbers/logarithm.c, operation by operation, so the
 * bits are the same. */
#ifndef PST_GPU_LOGARITHM_CUH
#define PST_GPU_LOGARITHM_CUH

#include "base/numbers/logarithm.h"
#include "gpu/kernels/warp.cuh"

namespace psti
{

/* Returns the logarithm of m * 2^k, for 1 <= m < 2 and a whole number k. */
PSTI_LANES lane_f64 logarithm_of(lane_f64 m, lane_f64 k)
{
    const double terms[PSTI_LOG_N_TERMS] = PSTI_LOG_TERMS;
    const lane_f64 one = lane_f64(1.0), minus_one = lane_f64(-1.0);
    const lane_bool is_large = m > lane_f64(PSTI_LOG_SQRT2);
    m = select(is_large, mul_f64(m, lane_f64(0.5)), m);
    k = add_f64(k, select(is_large, one, lane_f64(0.0)));
    const lane_f64 s = div_f64(add_f64(m, minus_one), add_f64(m, one)), z = mul_f64(s, s);
    lane_f64 sum = lane_f64(0.0);
    PSTI_UNROLL
    for (uint32_t i = 0; i < PSTI_LOG_N_TERMS; i++)
        sum = add_f64(mul_f64(sum, z), lane_f64(terms[i]));
    const lane_f64 series = mul_f64(mul_f64(lane_f64(2.0), s), sum);
    const lane_f64 low = add_f64(series, mul_f64(k, lane_f64(PSTI_LN2_LOW)));
    return add_f64(mul_f64(k, lane_f64(PSTI_LN2_HIGH)), low);
}

} // namespace psti

#endif
