/* test_decode_webp_memory.c - libwebp never holds more memory than a decoder keeps free for it.
 *
 * libwebp calls malloc itself. So the test replaces malloc and its kin in the whole program and
 * counts. */
#include "decode_fixture.h"

#include "decode/decode_int.h"

#include "sanitizer.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined(PST_HAVE_WEBP) && !TEST_SANITIZED
#include <webp/encode.h>

static atomic_long live, peak;

extern void *__libc_malloc(size_t nbytes);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t nbytes);
extern void *__libc_memalign(size_t alignment, size_t nbytes);
extern void __libc_free(void *memory);
static void *count(void *memory)
{
    long now = memory ? (long)malloc_usable_size(memory) : 0;
    now += atomic_fetch_add(&live, now);
    if (now > atomic_load(&peak)) /* safe, because there is only one thread */
        atomic_store(&peak, now);
    return memory;
}
__attribute__((visibility("default"))) void *malloc(size_t nbytes)
{
    return count(__libc_malloc(nbytes));
}
__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
    return count(__libc_calloc(n, size));
}
__attribute__((visibility("default"))) void *realloc(void *memory, size_t nbytes)
{
    atomic_fetch_sub(&live, memory ? (long)malloc_usable_size(memory) : 0);
    return count(__libc_realloc(memory, nbytes));
}
__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t nbytes)
{
    return count(__libc_memalign(alignment, nbytes));
}
__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t nbytes)
{
    return count(__libc_memalign(alignment, nbytes));
}
__attribute__((visibility("default"))) int posix_memalign(void **memory, size_t alignment,
                                                          size_t nbytes)
{
    *memory = count(__libc_memalign(alignment, nbytes));
    return *memory ? 0 : 12;
}
__attribute__((visibility("default"))) void free(void *memory)
{
    atomic_fetch_sub(&live, memory ? (long)malloc_usable_size(memory) : 0);
    __libc_free(memory);
}

enum picture { NOISE, WAVES, FLAT, PATCHES, PICTURES };

static uint8_t *make(enum picture kind, uint32_t height, uint32_t width)
{
    uint8_t *pixels = malloc((size_t)height * width * 4);
    uint64_t seed = height * 77 + width;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < 4; c++) {
                uint32_t patch = (y / 24 * 7 + x / 24 * 13) % 29, noise = random_below(&seed, 256);
                uint8_t *p = &pixels[((size_t)y * width + x) * 4 + c];
                if (kind == NOISE)
                    *p = (uint8_t)noise;
                else if (kind == WAVES)
                    *p = (uint8_t)(x * (c + 1) + y + noise % 5);
                else if (kind == PATCHES) /* patches have different statistics */
                    *p = (uint8_t)(patch * 8 + (patch % 3 ? noise % (1 + patch * 3) : x * patch));
                else
                    *p = 90;
            }
    return pixels;
}

struct kind {
    bool lossless, alpha;
    int method, filter;
    float quality;
};

static struct bytes encode(const uint8_t *pixels, uint32_t height, uint32_t width,
                           const struct kind *kind)
{
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriter writer;
    assert_true(WebPConfigInit(&config) && WebPPictureInit(&picture));
    config.lossless = kind->lossless;
    config.quality = kind->quality;
    config.method = kind->method;
    config.filter_type = kind->filter;
    config.filter_strength = 60;
    config.exact = 1;
    picture.use_argb = kind->lossless;
    picture.width = (int)width;
    picture.height = (int)height;
    WebPMemoryWriterInit(&writer);
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    assert_true(kind->alpha ? WebPPictureImportRGBA(&picture, pixels, (int)width * 4)
                            : WebPPictureImportRGBX(&picture, pixels, (int)width * 4));
    assert_true(WebPEncode(&config, &picture));
    WebPPictureFree(&picture);
    return (struct bytes){writer.mem, writer.size};
}

static enum pst_status drop_rows(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                 uint32_t n_rows)
{
    (void)ctx;
    (void)rows;
    (void)row_nbytes;
    (void)y;
    (void)n_rows;
    return PST_OK;
}

/* Returns the peak of libwebp's memory for `region`, besides the decoder's own scratch. */
static uint64_t taken(const struct bytes *file, const struct pst_image_info *info,
                      const struct psti_rect *region)
{
    struct pst_error err;
    for (int i = 0;; i++) { /* by the third decode the scratch exists, in one piece */
        atomic_store(&peak, atomic_load(&live));
        long before = atomic_load(&live);
        assert_ok(psti_decode_rows(decoder, file->data, file->nbytes, info, NULL, region, drop_rows,
                                   NULL, &err));
        if (i == 2) {
            assert_true(atomic_load(&live) == before);
            return (uint64_t)(atomic_load(&peak) - before);
        }
    }
}

static void check(const struct bytes *file, uint32_t height, uint32_t width,
                  const struct kind *kind, enum picture picture)
{
    struct pst_image_info info;
    struct pst_error err;
    assert_ok(
        psti_decode_probe(decoder, file->data, file->nbytes, PST_FORM_NONE, NULL, &info, &err));
    assert_true(info.height == height && info.width == width);
    const struct psti_rect regions[2] = {
        {0, 0, height, width}, {height / 3, width / 3, (height + 1) / 2, (width + 1) / 2}};
    for (int i = 0; i < 2; i++) {
        uint64_t had = taken(file, &info, &regions[i]), bound;
        bound = psti_decode_webp_work_nbytes(kind->lossless, info.channels == 4, height, width);
        assert_true(had > 0); /* proves that the counting works */
        if (had > bound)
            print_message("%u x %u, lossless %d, picture %d, region %d: %llu bytes, bound %llu\n",
                          height, width, kind->lossless, picture, i, (unsigned long long)had,
                          (unsigned long long)bound);
        assert_true(had <= bound);
    }
}

static void test_libwebp_stays_below_its_bound(void **state)
{
    static const struct {
        uint32_t height, width;
    } sizes[] = {{1, 1}, {16, 16}, {97, 61}, {5, 3000}, {3000, 5}, {240, 400}, {700, 600}};
    static const struct kind kinds[] = {
        {false, false, 0, 0, 20}, {false, false, 2, 1, 100}, {false, true, 2, 1, 60},
        {false, true, 0, 0, 100}, {true, false, 0, 0, 0},    {true, false, 2, 0, 60},
        {true, true, 4, 0, 90},
    };
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (enum picture p = 0; p < PICTURES; p++) {
            uint8_t *pixels = make(p, sizes[s].height, sizes[s].width);
            for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
                struct bytes file = encode(pixels, sizes[s].height, sizes[s].width, &kinds[k]);
                check(&file, sizes[s].height, sizes[s].width, &kinds[k], p);
                WebPFree(file.data);
            }
            free(pixels);
        }
}

#else

static void test_libwebp_stays_below_its_bound(void **state)
{
    (void)state;
    skip(); /* a sanitizer's malloc cannot be counted, or libwebp is missing */
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_libwebp_stays_below_its_bound)};
    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
