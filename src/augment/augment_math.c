/* augment_math.c - logarithm, exponential, sine and cosine that give the same bits on every
 * machine.
 *
 * In: a double. Out: a double. Pure functions, any thread. log and exp differ between C libraries
 * and versions, but a random crop must be the same everywhere. These functions use only operations
 * whose results IEEE 754 fixes (+ - * / and exact scaling by powers of two), in a fixed order. The
 * compiler does not fuse them, because the build sets -ffp-contract=off. The relative error of log
 * and exp is < 4e-15 over the ranges stated at their declarations. The error of sine and cosine is
 * < 1e-15. Both are far below half a pixel. */
#include "augment/augment_int.h"

#include "base/bits.h"

/* LN2_HIGH has 40 bits, so k * LN2_HIGH is exact for |k| < 4096. */
#define LN2_HIGH 0x1.62e42fefa0000p-1
#define LN2_LOW 0x1.cf79abc9e3b3ap-40

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Computes log x = k log 2 + 2 artanh((m - 1) / (m + 1)), where x = m 2^k and m lies in [sqrt 1/2,
 * sqrt 2). With s = (m - 1) / (m + 1), s^2 is at most 0.0295. The series in s^2 is cut off where
 * its terms fall below 2^-56. */
double psti_augment_log(double x)
{
    uint64_t bits = bits_of(x);
    int k = (int)(bits >> 52) - 1023;
    double m = from_bits((bits & ((1ULL << 52) - 1)) | 1023ULL << 52);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        k += 1;
    }
    double s = (m - 1) / (m + 1);
    double z = s * s;
    double sum = 0;
    for (int n = 23; n >= 1; n -= 2)
        sum = sum * z + 1.0 / n;
    return k * LN2_HIGH + (2 * s * sum + k * LN2_LOW);
}

/* Computes exp x = 2^k exp r with |r| <= log(2) / 2, by the Taylor series up to r^14. */
double psti_augment_exp(double x)
{
    double scaled = x * 0x1.71547652b82fep+0;
    int k = (int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    double sum = 1;
    for (int n = 14; n >= 1; n--)
        sum = 1 + sum * r / n;
    return sum * from_bits((uint64_t)(k + 1023) << 52);
}

#define DEGREE 0x1.1df46a2529d39p-6 /* pi / 180 */

/* Taylor series of the sine for |x| <= pi / 4, up to x^17 (the cosine: up to x^16). */
static double sine_of(double x)
{
    double sum = 1;
    for (int n = 16; n >= 2; n -= 2)
        sum = 1 - sum * x * x / (n * (n + 1.0));
    return sum * x;
}

static double cosine_of(double x)
{
    double sum = 1;
    for (int n = 16; n >= 2; n -= 2)
        sum = 1 - sum * x * x / (n * (n - 1.0));
    return sum;
}

/* Subtracts the quadrant first, in degrees, because that is exact. */
void psti_augment_sincos(double degrees, double *sine, double *cosine)
{
    double quadrants = degrees / 90;
    int64_t q = (int64_t)(quadrants < 0 ? quadrants - 0.5 : quadrants + 0.5);
    double x = (degrees - 90 * (double)q) * DEGREE;
    double s = sine_of(x), c = cosine_of(x);
    bool swaps = (q & 1) != 0;
    *sine = swaps ? c : s;
    *cosine = swaps ? s : c;
    if ((q & 2) != 0)
        *sine = -*sine;
    if (((q + 1) & 2) != 0)
        *cosine = -*cosine;
}
