/* logarithm.h - a natural logarithm that gives the same bits with every compiler, on every CPU and
 * on a GPU. It uses only operations whose results IEEE 754 fixes (+ - * / and exact scaling by
 * powers of two), in a fixed order. The constants are macros, because vector code and kernels for
 * GPUs repeat these operations. */
#ifndef PST_BASE_LOGARITHM_H
#define PST_BASE_LOGARITHM_H

/* The logarithm of 2 as a sum. PSTI_LN2_HIGH has 40 bits, so k * PSTI_LN2_HIGH is exact for
 * |k| < 4096. */
#define PSTI_LN2_HIGH 0x1.62e42fefa0000p-1
#define PSTI_LN2_LOW 0x1.cf79abc9e3b3ap-40
#define PSTI_LOG10_OF_E 0.43429448190325182765 /* log10(x) is this times log(x) */
#define PSTI_LOG_SQRT2 0x1.6a09e667f3bcdp+0
/* Factors of the series in s^2, those of the highest powers first. */
#define PSTI_LOG_N_TERMS 12
#define PSTI_LOG_TERMS                                                                             \
    {                                                                                              \
        1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7,    \
            1.0 / 5, 1.0 / 3, 1.0                                                                  \
    }

/* Returns the natural logarithm of x > 0, finite and normal. The relative error is < 4e-15. A pure
 * function. */
double psti_logarithm(double x);

#endif
