/* augment_math.c - exponential, sine and cosine that give the same bits on every machine.
 *
 * In: a double. Out: a double. Pure functions, any thread. C libraries differ in such functions,
 * but a random crop must be the same everywhere. These functions use only operations whose results
 * IEEE 754 fixes (+ - * / and exact scaling by powers of two), in a fixed order, like
 * base/numbers/logarithm.c. The compiler does not fuse them, because the build sets
 * -ffp-contract=off. The relative error of exp is < 4e-15 over the range stated at its declaration.
 * The error of sine and cosine is < 1e-15. Both are far below half a pixel. */
#include "augment/augment_int.h"

#include "base/bits.h"
#include "base/numbers/logarithm.h"

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Computes exp x = 2^k exp r with |r| <= log(2) / 2, by the Taylor series up to r^14. */
double psti_augment_exp(double x)
{
    double scaled = x * 0x1.71547652b82fep+0;
    int k = (int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    double r = (x - k * PSTI_LN2_HIGH) - k * PSTI_LN2_LOW;
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
