/* augment_kernels_avx512.c - the inner loops with AVX-512 (F, BW, DQ, VL). It includes
 * augment_kernels_template.h and augment_kernels_x86_template.h.
 *
 * In and out: see augment_kernels.h. The bits are the same as those of plain C. Pure functions, any
 * thread. Tests compile this file against SIMDe (base/machine/avx512.h), to run it on machines
 * without AVX-512 too. */
#include "augment/kernels/augment_kernels.h"

#if defined(__x86_64__)
#include "base/machine/avx512.h"
#include "base/bits.h"

#define NAME "avx512"
#define OPS psti_augment_ops_avx512
#define PICK_X NULL
#define QUAD_X NULL
#define TARGET PSTI_AVX512_TARGET
#define INLINE PSTI_AVX512_INLINE

INLINE __m512i multiply_add(__m512i sums, __m512i a, __m512i b)
{
    return _mm512_add_epi32(sums, _mm512_madd_epi16(a, b));
}

#include "augment/kernels/augment_kernels_avx512_template.h"
#include "augment/kernels/augment_kernels_x86_template.h"

#include "augment/kernels/augment_kernels_template.h"
#endif
