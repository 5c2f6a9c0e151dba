/* fuzz_pli_coefs.c - decodes a hostile unit of JPEG coefficients with hostile tables: the kernels
 * of this machine must give the same result as plain C. Input: geometry (8 bytes: sampling and unit
 * size, last plane wanted (bit 7: not all blocks are wanted), u16 width - 1, u16 height - 1, u16
 * length of the tables), tables, unit without its mode byte. */
#include "base/bits.h"
#include "base/machine/cpu.h"
#include "pli/decode/pli_kernels.h"
#include "pli/coefs/pli_coefs_one.h"
#include "pli/coefs/pli_kept.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

enum { GEOMETRY_NBYTES = 8, EDGE_MAX = 300, N_SAMPLINGS = 16 };

static const uint8_t samplings[N_SAMPLINGS][3] = {
    /* sampling factors 16 h + v of each component; 0: no such component */
    {0x11, 0, 0},       {0x11, 0x11, 0x11}, {0x22, 0x11, 0x11}, {0x21, 0x11, 0x11},
    {0x12, 0x11, 0x11}, {0x41, 0x11, 0x11}, {0x44, 0x11, 0x22}, {0x11, 0x22, 0x41},
    {0x24, 0x12, 0x21}, {0x22, 0x22, 0x22}, {0x42, 0x11, 0x11}, {0x14, 0x11, 0x11},
    {0x11, 0x44, 0x44}, {0x12, 0x21, 0x44}, {0x44, 0x44, 0x11}, {0x22, 0x21, 0x12},
};

static bool make_frame(const uint8_t *data, struct psti_jpeg_frame *frame)
{
    const uint8_t *sampling = samplings[data[0] % N_SAMPLINGS];
    *frame = (struct psti_jpeg_frame){.width = 1 + psti_load_u16(data + 2) % EDGE_MAX,
                                      .height = 1 + psti_load_u16(data + 4) % EDGE_MAX,
                                      .n_components = sampling[1] ? 3 : 1};
    frame->transform = frame->n_components == 3 && (data[1] & 64) == 0;
    for (uint32_t c = 0; c < frame->n_components; c++) {
        frame->components[c].h = sampling[c] >> 4;
        frame->components[c].v = sampling[c] & 15;
    }
    return psti_pli_jpeg_frame_measure(frame);
}

/* Returns whether both decoded the same, as far as the planes may be read. */
static bool agree(const struct psti_pli_coefs *a, const struct psti_pli_coefs *b, uint32_t k_last)
{
    if (a->n != b->n || a->last != b->last || memcmp(a->n_k, b->n_k, sizeof a->n_k) != 0 ||
        memcmp(a->order, b->order, a->n * sizeof *a->order) != 0)
        return false;
    for (uint32_t k = 0; k <= k_last && k <= a->last; k++)
        if (memcmp(a->planes + k * a->stride, b->planes + k * b->stride,
                   psti_round_up(a->n_k[k], 64) * sizeof(int16_t)) != 0)
            return false;
    return true;
}

/* Decodes at both levels, each with its own tables and working memory. Traps if they differ. */
static void decode(const struct psti_jpeg_frame *frame, uint32_t unit_log2, uint32_t row,
                   uint32_t column, uint32_t k_last, const uint64_t *wanted, const uint8_t *block,
                   size_t n_block, const uint8_t *unit, size_t n_unit)
{
    const uint32_t levels[2] = {0, psti_cpu_detected()};
    size_t n_tables = psti_round_up(psti_pli_coefs_tables_nbytes(), 64);
    size_t n_work = psti_round_up(psti_pli_coefs_work_nbytes(unit_log2, frame->n_components), 64);
    struct psti_pli_coefs_tables *tables[2];
    uint8_t *work[2];
    struct psti_pli_coefs out[2];
    enum pst_status status[2];
    for (int i = 0; i < 2; i++) {
        tables[i] = aligned_alloc(64, n_tables);
        work[i] = aligned_alloc(64, n_work);
        memset(work[i], 0x33 << i, n_work);
        status[i] = psti_pli_coefs_prepare(psti_pli_kernels_of(levels[i])->coefs, block, n_block,
                                           tables[i], NULL);
        if (status[i] == PST_OK) {
            psti_pli_coefs_open(frame, unit_log2, row, column, &out[i]);
            status[i] = pli_coefs_decode(tables[i], unit, n_unit, k_last, i == 0 ? NULL : wanted,
                                         work[i], &out[i], NULL);
        }
    }
    if (status[0] != status[1])
        __builtin_trap();
    if (status[0] == PST_OK) {
        struct psti_pli_coefs kept;
        void *memory = out[1].kept ? pli_keep(&out[0], wanted, k_last, &kept) : NULL;
        if (!agree(out[1].kept ? &kept : &out[0], &out[1], k_last))
            __builtin_trap();
        free(memory);
    }
    for (int i = 0; i < 2; i++) {
        free(tables[i]);
        free(work[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct psti_jpeg_frame frame;
    if (nbytes < GEOMETRY_NBYTES || !make_frame(data, &frame))
        return 0;
    uint32_t unit_log2 = 6 + data[0] / N_SAMPLINGS % 3, k_last = data[1] & 63;
    uint32_t row = (frame.height - 1) >> unit_log2, column = (frame.width - 1) >> unit_log2;
    size_t left = nbytes - GEOMETRY_NBYTES, n_block = psti_load_u16(data + 6);
    n_block = n_block <= left ? n_block : 0;
    /* In memory of their own, so a sanitizer detects reads after them. */
    uint8_t *block = malloc(n_block + 1), *unit = malloc(left - n_block + 1);
    const uint8_t *in = data + GEOMETRY_NBYTES;
    memcpy(block + 1, in, n_block);
    memcpy(unit + 1, in + n_block, left - n_block);
    uint64_t wanted[PSTI_JPEG_SQUARES_MAX], any = psti_load_u32(data + 2);
    for (uint32_t s = 0; s < PSTI_JPEG_SQUARES_MAX; s++)
        wanted[s] = any = any * UINT64_C(6364136223846793005) + 1442695040888963407;
    decode(&frame, unit_log2, row, column, k_last, data[1] >> 7 ? wanted : NULL,
           n_block ? block + 1 : NULL, n_block, unit + 1, left - n_block);
    free(block);
    free(unit);
    return 0;
}
