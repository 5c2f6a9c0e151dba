/* pli_refill_neon.c - the table of pli_refill_neon.h, made by the compiler. */
#include "pli/decode/arm/pli_refill_neon.h"

#if defined(PSTI_NEON)
#define TAKES(m, i) ((m) >> (i)&1)
#define WORD(m, i) (16 + 2 * __builtin_popcount((m) & ((1u << (i)) - 1)))
#define STATE(m, i)                                                                                \
    TAKES(m, i) ? WORD(m, i) : 4 * (i), TAKES(m, i) ? WORD(m, i) + 1 : 4 * (i) + 1,                \
        TAKES(m, i) ? 4 * (i) : 4 * (i) + 2, TAKES(m, i) ? 4 * (i) + 1 : 4 * (i) + 3
#define ORDER(m)                                                                                   \
    {                                                                                              \
        STATE(m, 0), STATE(m, 1), STATE(m, 2), STATE(m, 3)                                         \
    }
const struct psti_pli_refill psti_pli_refill = {
    {ORDER(0), ORDER(1), ORDER(2), ORDER(3), ORDER(4), ORDER(5), ORDER(6), ORDER(7), ORDER(8),
     ORDER(9), ORDER(10), ORDER(11), ORDER(12), ORDER(13), ORDER(14), ORDER(15)}};
#else
/* C does not allow an empty file. */
typedef int psti_pli_no_refill;
#endif
