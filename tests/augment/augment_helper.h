/* augment_helper.h - shared by the tests of src/augment: functions that make pictures and run
 * chains. */
#ifndef PST_TEST_AUGMENT_HELPER_H
#define PST_TEST_AUGMENT_HELPER_H

#include "base/test_input.h"

#include "augment/augment_int.h"
#include "base/alloc.h"
#include "base/machine/cpu.h"

/* A source picture, tightly packed. */
struct test_image {
    uint32_t height, width, channels, bits;
    struct guarded memory;
};

static inline struct test_image image_make(struct test_random *random, uint32_t height,
                                           uint32_t width, uint32_t channels, uint32_t bits)
{
    struct test_image image = {height, width, channels, bits, {0}};
    size_t nbytes = (size_t)height * width * channels * bits / 8;
    image.memory = guarded_make(nbytes, 0);
    uint32_t kind = test_below(random, 3);
    for (size_t i = 0; i < nbytes; i++) {
        uint32_t v = test_below(random, 256);
        image.memory.data[i] = (unsigned char)(kind == 0   ? v
                                               : kind == 1 ? (v & 1) * 255
                                                           : v / 16 + i / 8);
    }
    return image;
}

static inline void image_free(struct test_image *image) { guarded_free(&image->memory); }

/* The way in which a chain is run. */
struct how {
    uint32_t features;
    /* if not NULL: used instead of the kernels for `features` */
    const struct psti_augment_ops *kernels;
    bool unfused;
    uint32_t band;   /* rows per call of the chain; 0: all rows at once */
    size_t row_gap;  /* bytes between the target's rows */
    size_t misalign; /* bytes in front of the target, which misalign it */
};

/* The pixels that a chain made, in packed rows. */
struct output {
    unsigned char *data;
    size_t nbytes;
    uint32_t height, width;
    struct psti_draw draw;
};

static inline void output_free(struct output *output) { free(output->data); }

static inline void feed(struct psti_run *run, const struct test_image *image,
                        const struct psti_draw *draw, uint32_t band)
{
    size_t pixel = (size_t)image->channels * image->bits / 8;
    uint32_t y = 0;
    while (y < draw->region_height) {
        uint32_t n = draw->region_height - y;
        if (band != 0 && n > band)
            n = band;
        size_t at = ((size_t)(draw->region_y + y) * image->width + draw->region_x) * pixel;
        assert_int_equal(
            psti_augment_run_rows(run, image->memory.data + at, image->width * pixel, y, n),
            PST_OK);
        y += n;
    }
}

/* Runs `ops` over `image` into memory with gaps and guard pages. Checks that nothing was written
 * outside of the output. */
static inline struct output run_chain(const struct pst_op *ops, size_t n_ops,
                                      const struct psti_chain_output *format,
                                      const struct test_image *image, uint64_t seed,
                                      uint64_t sample, const struct how *how)
{
    struct pst_error err;
    struct psti_chain *chain;
    struct psti_run *run;
    struct output out = {0};
    assert_ok(psti_augment_compile(ops, n_ops, format, how->features, how->unfused, &chain, &err));
    if (how->kernels != NULL)
        chain->kernels = how->kernels;
    assert_ok(psti_augment_chain_draw(
        chain, &(struct psti_draw_key){.seed = seed, .epoch = 0, .sample = sample}, image->height,
        image->width, &out.draw, &err));
    out.height = out.draw.out_height;
    out.width = out.draw.out_width;
    out.nbytes = psti_augment_chain_output_nbytes(chain, &out.draw);
    out.data = malloc(out.nbytes);
    size_t element = pst_dtype_nbytes(psti_augment_chain_dtype(chain));
    bool planar = format->layout == PST_LAYOUT_CHW;
    size_t used = out.width * element * (planar ? 1 : format->channels);
    size_t rows = (size_t)out.height * (planar ? format->channels : 1);
    size_t step = used + how->row_gap;
    struct guarded slot = guarded_make(rows * step - how->row_gap + how->misalign, 64);
    struct psti_target target = {slot.data, step};
    assert_ok(psti_augment_run_open(&run, &err));
    assert_ok(psti_augment_run_begin(run, chain, &out.draw, &target, &err));
    feed(run, image, &out.draw, how->band);
    assert_ok(psti_augment_run_end(run, &err));
    for (size_t y = 0; y < rows; y++) {
        memcpy(out.data + y * used, slot.data + y * step, used);
        for (size_t i = used; i < step && y + 1 < rows; i++)
            assert_int_equal(slot.data[y * step + i], 0xa5);
    }
    for (size_t i = 0; i < how->misalign; i++)
        assert_int_equal(slot.data[(rows - 1) * step + used + i], 0xa5);
    guarded_free(&slot);
    psti_augment_run_close(&run);
    psti_augment_chain_free(&chain);
    return out;
}

static inline void assert_same_output(const struct output *a, const struct output *b)
{
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->nbytes, b->nbytes);
    assert_memory_equal(a->data, b->data, a->nbytes);
}

static inline struct pst_op make_op(enum pst_op_kind kind, uint32_t height, uint32_t width)
{
    struct pst_op op;
    pst_op_init(&op, sizeof op, kind);
    op.height = height;
    op.width = width;
    return op;
}

#endif
