/* test_kernels_units.c - decodes PLI of pixels with the CPU build of the GPU kernels and compares
 * with the CPU's decoder: all modes, channels, bits, transforms and errors, odd sizes, regions,
 * golden files. */
#include "units_helper.h"

#include "golden/make_pli_picture.h"

#include <penstock/pli.h>

enum { NAME_NBYTES = 100, PATH_NBYTES = 4096 };
/* The first region is the whole picture. */
enum { N_REGIONS = 5 };

static const char *folder;

struct encoded {
    uint8_t *bytes;
    size_t nbytes;
};

static struct encoded encode(const struct picture *p, enum pst_pli_tier tier, uint32_t effort,
                             uint32_t max_error)
{
    struct pst_error err;
    struct encoded e;
    uint32_t n = p->channels;
    int64_t sample = p->bits / 8;
    uint8_t *data = malloc((size_t)p->height * p->width * n * (size_t)sample), *at = data;
    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++)
            for (uint32_t c = 0; c < n; c++, at += sample) {
                uint32_t v = picture_value(p, y, x, c);
                memcpy(at, &v, (size_t)sample);
            }
    struct pst_pixels pixels = {.data = data,
                                .height = p->height,
                                .width = p->width,
                                .channels = p->channels,
                                .bits = p->bits,
                                .row_nbytes = sample * n * p->width,
                                .pixel_nbytes = sample * n,
                                .channel_nbytes = sample};
    struct pst_pli_encode_options options = {
        .struct_size = sizeof options, .tier = tier, .effort = effort, .max_error = max_error};
    size_t bound = pst_pli_encode_bound(p->height, p->width, p->channels, p->bits);
    e.bytes = malloc(bound);
    assert_ok(pst_pli_encode(&pixels, &options, e.bytes, bound, &e.nbytes, &err));
    free(data);
    return e;
}

/* Decodes the whole image and regions of it in one launch. */
static void check_regions(const struct encoded *e, uint32_t height, uint32_t width,
                          uint32_t n_regions, uint32_t *counts)
{
    struct test_random random = {.seed = e->nbytes};
    struct units_case *cases = calloc(n_regions, sizeof *cases);
    for (uint32_t i = 0; i < n_regions; i++) {
        struct pst_pli_region r = {0, 0, height, width};
        if (i > 0) {
            r.y = test_below(&random, height);
            r.x = test_below(&random, width);
            r.height = 1 + test_below(&random, height - r.y);
            r.width = 1 + test_below(&random, width - r.x);
        }
        cases[i] = (struct units_case){.bytes = e->bytes, .nbytes = e->nbytes, .region = r};
    }
    assert_int_equal(units_check(cases, n_regions), n_regions);
    for (uint32_t l = 0; l < PSTI_GPU_N_UNITS_LISTS; l++)
        counts[l] += cases[0].plan.counts[l];
    free(cases);
}

static void test_pictures(void **state)
{
    static const struct {
        uint32_t height, width;
    } sizes[] = {{64, 64}, {130, 75}, {1, 1}, {17, 200}, {70, 3}, {65, 129}};
    uint32_t counts[PSTI_GPU_N_UNITS_LISTS] = {0};
    (void)state;
    for (enum picture_kind kind = PHOTO; kind <= ALPHA; kind++)
        for (uint8_t channels = 1; channels <= 4; channels++)
            for (uint8_t bits = 8; bits <= 16; bits += 8) {
                uint32_t i = (kind * 7u + channels * 3u + bits) % 6;
                struct picture p = {.kind = kind,
                                    .height = sizes[i].height,
                                    .width = sizes[i].width,
                                    .channels = channels,
                                    .bits = bits};
                for (enum pst_pli_tier tier = PST_PLI_TIER_FAST; tier <= PST_PLI_TIER_DENSE;
                     tier++) {
                    struct encoded e = encode(&p, tier, 1 + (i + tier) % 4, i == 3 ? i : 0);
                    check_regions(&e, p.height, p.width, N_REGIONS, counts);
                    free(e.bytes);
                }
            }
    for (uint32_t l = 0; l < PSTI_GPU_N_UNITS_LISTS; l++)
        assert_true(counts[l] > 0);
}

static void test_golden(void **state)
{
    char path[PATH_NBYTES], line[256], name[NAME_NBYTES];
    uint32_t counts[PSTI_GPU_N_UNITS_LISTS] = {0}, n = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/MANIFEST", folder);
    FILE *manifest = fopen(path, "r");
    assert_non_null(manifest);
    while (fgets(line, sizeof line, manifest)) {
        struct encoded e;
        struct pst_error err;
        struct pst_pli_info info = {0};
        if (sscanf(line, "%99s", name) != 1 || name[0] == '#')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        e.bytes = picture_read_file(path, &e.nbytes);
        assert_non_null(e.bytes);
        assert_ok(pst_pli_info(e.bytes, e.nbytes, &info, sizeof info, &err));
        check_regions(&e, info.height, info.width, N_REGIONS, counts);
        free(e.bytes);
        n++;
    }
    fclose(manifest);
    assert_true(n > 90);
    for (uint32_t l = 0; l < PSTI_GPU_N_UNITS_LISTS; l++)
        assert_true(counts[l] > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_golden),
    };
    if (argc != 2)
        return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
