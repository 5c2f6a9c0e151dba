/* Compares XXH3-64 with the vectors of xxHash, and hashes data in pieces. */
#include "test.h"

#include "base/machine/cpu.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* Makes the input of xxHash's own sanity check. */
static void fill(unsigned char *bytes, size_t nbytes)
{
    uint64_t x = 2654435761u;
    for (size_t i = 0; i < nbytes; i++) {
        bytes[i] = (unsigned char)(x >> 56);
        x *= 11400714785074694797u;
    }
}

static void published_vectors(void **state)
{
    (void)state;
    static const struct {
        size_t nbytes;
        uint64_t expected;
    } vectors[] = {
        {0, 0x2D06800538D394C2},   {1, 0xC44BDFF4074EECDB},    {6, 0x27B56A84CD2D7325},
        {12, 0xA713DAF0DFBB77E7},  {24, 0xA3FE70BF9D3510EB},   {48, 0x397DA259ECBA1F11},
        {80, 0xBCDEFBBB2C47C90A},  {195, 0xCD94217EE362EC3A},  {403, 0xCDEB804D65C6DEA4},
        {512, 0x617E49599013CB6B}, {2048, 0xDD59E2C3A5F038E0}, {2240, 0x6E73A90539CF2948},
    };
    unsigned char bytes[2240];
    fill(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        assert_int_equal(psti_hash64(bytes, vectors[i].nbytes), vectors[i].expected);
}

static void pieces_give_the_same(void **state)
{
    (void)state;
    enum { NBYTES = 5000 };
    unsigned char *bytes = malloc(NBYTES);
    fill(bytes, NBYTES);
    static const size_t steps[] = {1, 3, 63, 64, 65, 255, 256, 257, 1024, 4999, 5000};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct psti_hash_state hash;
        memset(&hash, 0xEE, sizeof hash); /* psti_hash_begin must not rely on zeroed memory */
        psti_hash_begin(&hash);
        psti_hash_update(&hash, NULL, 0);
        for (size_t at = 0; at < NBYTES; at += steps[i]) {
            size_t n = NBYTES - at < steps[i] ? NBYTES - at : steps[i];
            psti_hash_update(&hash, bytes + at, n);
            assert_int_equal(psti_hash_end(&hash), psti_hash64(bytes, at + n));
        }
    }
    free(bytes);
}

static void any_alignment(void **state)
{
    (void)state;
    unsigned char bytes[1100];
    unsigned char moved[1100 + 16];
    fill(bytes, sizeof bytes);
    for (size_t shift = 0; shift < 16; shift++) {
        memcpy(moved + shift, bytes, sizeof bytes);
        assert_int_equal(psti_hash64(moved + shift, sizeof bytes),
                         psti_hash64(bytes, sizeof bytes));
    }
}

#if defined(__x86_64__)
/* Tries every length at which one of xxHash's loops begins or ends, and states that alternate
 * between the AVX2 and the plain function. */
static void avx2_gives_the_same(void **state)
{
    (void)state;
    enum { NBYTES = 1 << 14, STEP = 700 };
    if (!(psti_cpu_detected() & PSTI_CPU_AVX2))
        skip();
    unsigned char *bytes = malloc(NBYTES);
    fill(bytes, NBYTES);
    for (size_t n = 0; n <= NBYTES; n += n < 2200 ? 1 : 509) {
        struct psti_hash_state hash, wide;
        psti_hash_begin(&hash);
        psti_hash_begin(&wide);
        for (size_t at = 0; at < n; at += STEP) {
            size_t some = n - at < STEP ? n - at : STEP, few = some < 100 ? some : 100;
            for (size_t k = 0; k < some; k += few) /* hashes pieces that are too short for AVX2 */
                psti_hash_update(&hash, bytes + at + k, some - k < few ? some - k : few);
            if (at / STEP % 3 == 2)
                psti_hash_update(&wide, bytes + at, some);
            else
                psti_hash_update_avx2(&wide, bytes + at, some);
        }
        assert_int_equal(psti_hash_end(&wide), psti_hash_end(&hash));
        assert_int_equal(psti_hash64_avx2(bytes, n), psti_hash_end(&hash));
    }
    free(bytes);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(pieces_give_the_same),
        cmocka_unit_test(any_alignment),
#if defined(__x86_64__)
        cmocka_unit_test(avx2_gives_the_same),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
