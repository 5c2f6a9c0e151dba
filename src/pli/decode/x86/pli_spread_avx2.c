/* pli_spread_avx2.c - the table of pli_spread_avx2.h, made by the compiler. */
#include "pli/decode/x86/pli_spread_avx2.h"

#if defined(__x86_64__)
#define TAKES(m, i) (((m) >> (i)) & 1)
#define WORD(m, i) __builtin_popcount((m) & ((1u << (i)) - 1))
#define INDEX(m, i) TAKES(m, i) ? 2 * WORD(m, i) : 128, TAKES(m, i) ? 2 * WORD(m, i) + 1 : 128
#define ROW(m)                                                                                     \
    {                                                                                              \
        INDEX(m, 0), INDEX(m, 1), INDEX(m, 2), INDEX(m, 3), INDEX(m, 4), INDEX(m, 5), INDEX(m, 6), \
            INDEX(m, 7)                                                                            \
    }
#define ROWS_4(m) ROW(m), ROW((m) + 1), ROW((m) + 2), ROW((m) + 3)
#define ROWS_16(m) ROWS_4(m), ROWS_4((m) + 4), ROWS_4((m) + 8), ROWS_4((m) + 12)
#define ROWS_64(m) ROWS_16(m), ROWS_16((m) + 16), ROWS_16((m) + 32), ROWS_16((m) + 48)
const struct psti_pli_spread psti_pli_spread = {
    {ROWS_64(0), ROWS_64(64), ROWS_64(128), ROWS_64(192)}};
#else
/* C does not allow an empty file. */
typedef int psti_pli_no_spread;
#endif
