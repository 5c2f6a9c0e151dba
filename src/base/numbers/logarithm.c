/* logarithm.c - the natural logarithm.
 *
 * log x = k log 2 + 2 artanh((m - 1) / (m + 1)), where x = m 2^k and m lies in [sqrt 1/2, sqrt 2).
 * With s = (m - 1) / (m + 1), s^2 is at most 0.0295. The series in s^2 is cut off where its terms
 * fall below 2^-56. The compiler does not fuse operations, because the build sets
 * -ffp-contract=off. A pure function, any thread. */
#include "base/numbers/logarithm.h"

#include <stdint.h>
#include <string.h>

double psti_logarithm(double x)
{
    static const double terms[PSTI_LOG_N_TERMS] = PSTI_LOG_TERMS;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int k = (int)(bits >> 52) - 1023;
    bits = (bits & ((1ULL << 52) - 1)) | 1023ULL << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > PSTI_LOG_SQRT2) {
        m *= 0.5;
        k += 1;
    }
    double s = (m - 1) / (m + 1);
    double z = s * s;
    double sum = 0;
    for (int i = 0; i < PSTI_LOG_N_TERMS; i++)
        sum = sum * z + terms[i];
    return k * PSTI_LN2_HIGH + (2 * s * sum + k * PSTI_LN2_LOW);
}
