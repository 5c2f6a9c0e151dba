/* pli_rans_avx2.c - the table of pli_rans_avx2.h, which the compiler computes. */
#include "pli/encode/x86/pli_rans_avx2.h"

#if defined(__x86_64__)
/* LANE is the lane of mask m that has exactly n lanes of m above it; 0 if there is no such lane. */
#define IS(m, n, i) (((m) >> (i)) % 2 == 1 && __builtin_popcount((m) >> (i) >> 1) == (n))
#define LANE(m, n)                                                                                 \
    (IS(m, n, 1) + 2 * IS(m, n, 2) + 3 * IS(m, n, 3) + 4 * IS(m, n, 4) + 5 * IS(m, n, 5) +         \
     6 * IS(m, n, 6) + 7 * IS(m, n, 7))
#define WORD(m, n)                                                                                 \
    __builtin_popcount(m) > (n) ? 2 * LANE(m, n) : 128,                                            \
        __builtin_popcount(m) > (n) ? 2 * LANE(m, n) + 1 : 128
#define ROW(m)                                                                                     \
    {                                                                                              \
        WORD(m, 7), WORD(m, 6), WORD(m, 5), WORD(m, 4), WORD(m, 3), WORD(m, 2), WORD(m, 1),        \
            WORD(m, 0)                                                                             \
    }
#define ROWS_4(m) ROW(m), ROW((m) + 1), ROW((m) + 2), ROW((m) + 3)
#define ROWS_16(m) ROWS_4(m), ROWS_4((m) + 4), ROWS_4((m) + 8), ROWS_4((m) + 12)
#define ROWS_64(m) ROWS_16(m), ROWS_16((m) + 16), ROWS_16((m) + 32), ROWS_16((m) + 48)
const struct psti_rans_picks psti_rans_picks = {
    {ROWS_64(0), ROWS_64(64), ROWS_64(128), ROWS_64(192)}};
#endif
