/* kernels_check.c - implements kernels_check.h. */
#include "kernels_check.h"

#include "base/bits.h"
#include "gpu/work/gpu_units.h"
#include "pli/pli.h"

#include <stdlib.h>

static enum pst_status decode(const struct cuda_outcome *o, struct pst_pli_info *info,
                              struct pst_pixels *pixels, struct pst_error *err)
{
    enum pst_status status = pst_pli_info(o->bytes, o->nbytes, info, sizeof *info, err);
    if (status != PST_OK)
        return status;
    int64_t sample = info->bits / 8;
    *pixels = (struct pst_pixels){.height = o->region.height,
                                  .width = o->region.width,
                                  .channels = info->channels,
                                  .bits = info->bits,
                                  .row_nbytes = sample * info->channels * o->region.width,
                                  .pixel_nbytes = sample * info->channels,
                                  .channel_nbytes = sample};
    size_t nbytes = psti_round_up(pst_pli_scratch_nbytes(info, sizeof *info), 64);
    void *scratch = aligned_alloc(64, nbytes);
    pixels->data = malloc((size_t)pixels->row_nbytes * pixels->height);
    status =
        psti_pli_decode_on(0, o->bytes, o->nbytes, &o->region, -1, pixels, scratch, nbytes, err);
    free(scratch);
    return status;
}

bool cuda_check(const struct cuda_outcome *o)
{
    struct pst_error err;
    struct pst_pli_info info = {0};
    struct pst_pixels pixels = {.data = NULL};
    uint32_t row = 0, column = 0;
    enum pst_status status = decode(o, &info, &pixels, &err);
    if (status == PST_OK) {
        assert_int_equal(o->status, PST_OK);
        assert_int_equal(o->code, 0);
        if (o->pixels)
            assert_memory_equal(o->pixels, pixels.data, (size_t)pixels.row_nbytes * pixels.height);
    } else if (o->status != PST_OK) { /* the plan may have found a later corrupt unit */
        assert_true(o->status == status || o->status == PST_ERROR_CHECKSUM ||
                    o->status == PST_ERROR_CORRUPT || o->status == PST_ERROR_TRUNCATED);
        assert_true(o->err->text[0] != 0);
    } else {
        assert_int_equal(status, PST_ERROR_CORRUPT);
        assert_int_equal(sscanf(err.text, "unit in row %u, column %u", &row, &column), 2);
        assert_int_equal(o->code, PSTI_GPU_CORRUPT(row * info.unit_columns + column));
    }
    free(pixels.data);
    return status == PST_OK;
}
