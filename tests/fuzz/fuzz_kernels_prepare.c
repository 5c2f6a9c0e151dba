/* fuzz_kernels_prepare.c - uses any bytes as a chain of operations: it is refused, or the CPU
 * build of the GPU kernels prepares images bit-identically to the CPU's chain, and touches only
 * its own memory.
 *
 * Input: dtype, layout and channels, bits, height, width, then OP_NBYTES for each operation. */
#include "kernels/prepare_helper.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

enum { HEAD_NBYTES = 5, OP_NBYTES = 24, MOST_OPS = 6, MOST_SIDE = 48 };

/* The helper is that of a test: an error that it detects ends the program. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return setenv("CMOCKA_TEST_ABORT", "1", 1);
}

/* Returns a number of either sign, small or large; 1e30 for byte 255. */
static float number_of(uint8_t byte)
{
    static const float scales[] = {0.01f, 0.1f, 1, 20};
    return byte == 255 ? 1e30f : (float)((int)(byte & 63) - 16) * scales[byte >> 6];
}

/* Makes an operation. Its numbers may be anything; its sizes are small, because large pictures are
 * slow. */
static struct pst_op op_of(const uint8_t *b)
{
    struct pst_op op;
    pst_op_init(&op, sizeof op, (enum pst_op_kind)(b[0] % (PST_OP_AUGMIX + 2)));
    op.height = b[1] % MOST_SIDE;
    op.width = b[2] % MOST_SIDE;
    op.interpolation = (enum pst_interpolation)(b[3] % 6);
    op.no_antialias = (b[4] & 1) != 0;
    op.pad_if_needed = (b[4] & 2) != 0;
    op.no_blend = (b[4] & 4) != 0;
    op.noise = (b[4] & 8) != 0;
    op.pad_mode = (enum pst_pad_mode)(b[4] >> 4);
    op.p = number_of(b[5]);
    op.bits = b[6];
    op.n_inner = b[7] % 4;
    op.threshold = number_of(b[8]);
    op.factor = number_of(b[9]);
    op.distortion = number_of(b[10]);
    op.magnitude = b[11];
    op.n_magnitudes = 31;
    op.policy = (enum pst_auto_policy)(b[12] % 4);
    for (uint32_t i = 0; i < 4; i++) {
        op.pad[i] = b[13] >> (2 * i) & 3;
        op.fill[i] = number_of(b[14]) + (float)i;
        op.shear[i] = number_of(b[15]) + (float)i;
    }
    for (uint32_t i = 0; i < 2; i++) {
        op.sigma[i] = number_of(b[16 + i]);
        op.degrees[i] = number_of(b[18 + i]);
        op.translate[i] = number_of(b[20]);
        op.scale[i] = number_of(b[21 + i]);
        op.contrast[i] = op.brightness[i] = op.hue[i] = number_of(b[23]);
    }
    return op;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const enum pst_dtype dtypes[] = {PST_DTYPE_U8, PST_DTYPE_U16, PST_DTYPE_F16,
                                            PST_DTYPE_BF16, PST_DTYPE_F32};
    struct pst_op ops[MOST_OPS];
    if (nbytes < HEAD_NBYTES)
        return 0;
    size_t n = (nbytes - HEAD_NBYTES) / OP_NBYTES;
    struct test_random random = {data[0] + data[3], 0};
    struct prepare_batch *batch = calloc(1, sizeof *batch);
    batch->output = (struct psti_chain_output){
        .dtype = dtypes[data[0] % 5],
        .layout = (data[1] & 1) != 0 ? PST_LAYOUT_CHW : PST_LAYOUT_HWC,
        .channels = (uint8_t)(1 + (data[1] >> 1) % 4),
        .bits = (data[2] & 1) != 0 ? 16 : 8,
    };
    batch->may_refuse = true;
    batch->n_rows = 2;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        batch->rows[r].height = 1 + data[3] % MOST_SIDE;
        batch->rows[r].width = 1 + data[4] % MOST_SIDE;
    }
    n = n > MOST_OPS ? MOST_OPS : n;
    for (size_t i = 0; i < n; i++)
        ops[i] = op_of(data + HEAD_NBYTES + i * OP_NBYTES);
    (void)prepare_run_chain(&random, batch, ops, n);
    free(batch);
    return 0;
}
