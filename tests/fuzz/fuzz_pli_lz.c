/* fuzz_pli_lz.c - executes hostile sequences of an lz unit on every CPU level, in memory of exactly
 * the promised size. Tokens and raw bits go directly to the executing loop, because a fuzzer hardly
 * gets past the rANS states. All levels must agree on errors and pixels. Input: 6 bytes of
 * geometry, 3 bytes for each sequence, then raw bits. */
#include "base/machine/cpu.h"
#include "pli/decode/pli_kernels.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

enum { GEOMETRY_NBYTES = 6, SEQUENCE_NBYTES = 3, SLACK = 64 };

struct input {
    uint32_t P, width, n_pixels, n_literals, n_sequences, n_lanes;
    uint32_t *tokens;
    uint8_t *raw;
    size_t raw_nbytes;
};

/* Returns the samples after execution, or NULL with the error in `*what`. */
static uint8_t *run(const struct input *in, uint32_t cpu, const char **what)
{
    size_t n = (size_t)in->n_pixels * in->P;
    uint8_t *samples = malloc(n + SLACK);
    for (size_t i = 0; i < n + SLACK; i++)
        samples[i] = (uint8_t)(i * 7 >> 2);
    struct psti_lz_execution e = {
        .tokens = in->tokens,
        .n_sequences = in->n_sequences,
        .n_lanes = in->n_lanes,
        .width = in->width,
        .samples = samples,
        .literals = samples + (size_t)(in->n_pixels - in->n_literals) * in->P,
        .n_literals = in->n_literals,
        .n_pixels = in->n_pixels,
    };
    psti_pli_lz_bits_begin(&e.raw, in->raw, in->raw_nbytes);
    *what = psti_pli_kernels_of(cpu)->lz->execute(&e, in->P);
    return samples;
}

static void compare(const struct input *in)
{
    const char *what[2];
    uint8_t *samples[2] = {run(in, 0, &what[0]), run(in, psti_cpu_features(), &what[1])};
    if (what[0] && what[1] ? strcmp(what[0], what[1]) != 0 : what[0] != what[1])
        __builtin_trap();
    if (!what[0] && memcmp(samples[0], samples[1], (size_t)in->n_pixels * in->P) != 0)
        __builtin_trap();
    free(samples[0]);
    free(samples[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const uint8_t sizes[8] = {1, 2, 3, 4, 6, 8, 1, 4};
    if (nbytes < GEOMETRY_NBYTES)
        return 0;
    struct input in = {
        .P = sizes[data[0] & 7],
        .width = 1 + data[1],
        .n_lanes = 1u << (data[0] >> 3) % (PSTI_PLI_LZ_LANES_LOG2_MAX + 1),
    };
    in.n_pixels = in.width * (1 + data[2] % 64u);
    in.n_literals = (data[3] | (uint32_t)data[4] << 8) % (in.n_pixels + 1);
    in.n_sequences = data[5];
    data += GEOMETRY_NBYTES;
    nbytes -= GEOMETRY_NBYTES;
    if (in.n_sequences > nbytes / SEQUENCE_NBYTES)
        in.n_sequences = (uint32_t)(nbytes / SEQUENCE_NBYTES);
    uint32_t steps = (in.n_sequences + in.n_lanes - 1) / in.n_lanes;
    in.tokens = calloc((size_t)steps * in.n_lanes + 1, sizeof *in.tokens);
    for (uint32_t i = 0; i < in.n_sequences; i++, data += SEQUENCE_NBYTES)
        in.tokens[i % steps * in.n_lanes + i / steps] =
            data[0] % PSTI_PLI_LZ_N_RUNS | (uint32_t)(data[1] % PSTI_PLI_LZ_N_OFFSETS) << 8 |
            (uint32_t)(data[2] % PSTI_PLI_LZ_N_LENGTHS) << 16;
    in.raw_nbytes = nbytes - (size_t)in.n_sequences * SEQUENCE_NBYTES;
    in.raw = malloc(in.raw_nbytes > 0 ? in.raw_nbytes : 1);
    memcpy(in.raw, data, in.raw_nbytes);
    compare(&in);
    free(in.raw);
    free(in.tokens);
    return 0;
}
