/* Golden PLI files, which every later library must decode alike: on every CPU level, whole, by
 * regions and by channels, they give the pixels of the manifest, and a JPEG kept as PLI restores
 * the JPEG file of the manifest. Encoding the decoded pixels gives the same bytes each time, on one
 * thread and on many, and these decode to the same pixels. */
#include "test.h"

#include "golden/golden_sha256.h"

#include <penstock/pli.h>

#include "base/machine/cpu.h"
#include "pli/decode/pli_decode_int.h"

#include <pthread.h>
#include <stdlib.h>

enum { NAME_NBYTES = 100, PATH_NBYTES = 4096 };

struct golden {
    char name[NAME_NBYTES], sum[SHA256_TEXT_NBYTES];
    char jpeg_sum[SHA256_TEXT_NBYTES]; /* SHA-256 of the JPEG file that it restores; "": no JPEG */
    uint8_t *bytes;
    size_t nbytes;
    struct pst_pli_info info;
    uint8_t *pixels; /* pixels as plain C decodes them */
    size_t pixels_nbytes;
};

static const char *folder;
static struct golden *goldens;
static size_t n_goldens;
static void *scratch;
static size_t scratch_nbytes; /* scratch that the largest file needs */

static struct pst_pixels layout(const struct golden *g, uint32_t height, uint32_t width,
                                uint8_t channels, void *data)
{
    int64_t sample = g->info.bits / 8;
    return (struct pst_pixels){.data = data,
                               .height = height,
                               .width = width,
                               .channels = channels,
                               .bits = g->info.bits,
                               .row_nbytes = sample * width * channels,
                               .pixel_nbytes = sample * channels,
                               .channel_nbytes = sample};
}

static void load(struct golden *g)
{
    char path[PATH_NBYTES];
    struct pst_error err;
    snprintf(path, sizeof path, "%s/%s", folder, g->name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s: cannot be read", path);
    fseek(file, 0, SEEK_END);
    g->nbytes = (size_t)ftell(file);
    rewind(file);
    g->bytes = malloc(g->nbytes); /* exact size, so a sanitizer detects over-reads */
    assert_int_equal(fread(g->bytes, 1, g->nbytes, file), g->nbytes);
    fclose(file);
    g->info = (struct pst_pli_info){0};
    assert_ok(pst_pli_info(g->bytes, g->nbytes, &g->info, sizeof g->info, &err));
    assert_int_equal(g->info.nbytes, g->nbytes);
    g->pixels_nbytes =
        (size_t)g->info.height * g->info.width * g->info.channels * (g->info.bits / 8u);
    g->pixels = malloc(g->pixels_nbytes);
    size_t needs = (pst_pli_scratch_nbytes(&g->info, sizeof g->info) + 63) / 64 * 64;
    scratch_nbytes = needs > scratch_nbytes ? needs : scratch_nbytes;
}

static int setup(void **state)
{
    (void)state;
    char path[PATH_NBYTES], line[256];
    snprintf(path, sizeof path, "%s/MANIFEST", folder);
    FILE *manifest = fopen(path, "r");
    if (!manifest)
        return -1;
    goldens = calloc(1000, sizeof *goldens);
    while (fgets(line, sizeof line, manifest)) {
        struct golden *g = goldens + n_goldens;
        if (line[0] == '#' || n_goldens == 1000)
            continue;
        if (sscanf(line, "%99s %64s %64s", g->name, g->sum, g->jpeg_sum) < 2)
            return -1;
        n_goldens++;
    }
    fclose(manifest);
    for (size_t i = 0; i < n_goldens; i++)
        load(goldens + i);
    scratch = aligned_alloc(64, scratch_nbytes);
    return n_goldens > 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_goldens; i++) {
        free(goldens[i].bytes);
        free(goldens[i].pixels);
    }
    free(goldens);
    free(scratch);
    return 0;
}

static void test_levels(void **state)
{
    (void)state;
    uint32_t has = psti_cpu_detected();
    for (size_t i = 0; i < n_goldens; i++) {
        struct golden *g = goldens + i;
        struct pst_pixels out =
            layout(g, g->info.height, g->info.width, g->info.channels, g->pixels);
        for (uint32_t mask = 0; mask < 2 * PSTI_CPU_AVX512_ICL; mask = 2 * mask + 1) {
            uint32_t level = has & mask; /* each round allows one more level */
            char sum[SHA256_TEXT_NBYTES];
            struct pst_error err;
            memset(g->pixels, 0x5A, g->pixels_nbytes);
            assert_ok(psti_pli_decode_on(level, g->bytes, g->nbytes, NULL, -1, &out, scratch,
                                         scratch_nbytes, &err));
            sha256_text(g->pixels, g->pixels_nbytes, sum);
            if (strcmp(sum, g->sum) != 0)
                fail_msg("%s on CPU level %#x: pixels are %s", g->name, level, sum);
        }
    }
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % n);
}

/* Compares a region of one channel or of all channels with the whole image. */
static void check_region(const struct golden *g, const struct pst_pli_region *r, int channel,
                         uint8_t *memory)
{
    struct pst_error err;
    size_t sample = g->info.bits / 8u, pixel = sample * g->info.channels;
    uint8_t channels = channel < 0 ? g->info.channels : 1;
    size_t first = channel < 0 ? 0 : (size_t)channel, n = sample * channels;
    struct pst_pixels out = layout(g, r->height, r->width, channels, memory);
    assert_ok(pst_pli_decode(g->bytes, g->nbytes, r, channel, &out, scratch, scratch_nbytes, &err));
    for (uint32_t y = 0; y < r->height; y++)
        for (uint32_t x = 0; x < r->width; x++) {
            size_t at = ((size_t)(r->y + y) * g->info.width + r->x + x) * pixel + first * sample;
            if (memcmp(memory + ((size_t)y * r->width + x) * n, g->pixels + at, n) != 0)
                fail_msg("%s: region %ux%u at (%u, %u), channel %d: pixel (%u, %u) differs",
                         g->name, r->height, r->width, r->y, r->x, channel, y, x);
        }
}

static void test_regions(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (size_t i = 0; i < n_goldens; i++) {
        const struct golden *g = goldens + i;
        uint8_t *memory = malloc(g->pixels_nbytes);
        for (int k = 0; k < 12; k++) {
            struct pst_pli_region r = {.y = below(&seed, g->info.height),
                                       .x = below(&seed, g->info.width)};
            r.height = 1 + below(&seed, g->info.height - r.y);
            r.width = 1 + below(&seed, g->info.width - r.x);
            check_region(g, &r, k % 3 ? -1 : k / 3 % g->info.channels, memory);
        }
        free(memory);
    }
}

/* Some of n jobs: every third one from `first` on, in descending order. */
struct jobs {
    void (*job)(void *arg, size_t i);
    void *arg;
    size_t first, n;
};

static void *run_share(void *ctx)
{
    const struct jobs *jobs = ctx;
    for (size_t i = jobs->n; i-- > 0;)
        if (i % 3 == jobs->first)
            jobs->job(jobs->arg, i);
    return NULL;
}

static void run_threads(void *ctx, void (*job)(void *arg, size_t i), void *arg, size_t n_jobs)
{
    pthread_t threads[3];
    struct jobs shares[3];
    (void)ctx;
    for (size_t i = 0; i < 3; i++) {
        shares[i] = (struct jobs){job, arg, i, n_jobs};
        assert_int_equal(pthread_create(&threads[i], NULL, run_share, &shares[i]), 0);
    }
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

/* Decodes bytes that were encoded again, perhaps with other units, and compares with the golden
 * file's pixels. */
static void check_again(const struct golden *g, const uint8_t *bytes, size_t nbytes)
{
    struct pst_error err;
    struct pst_pli_info info = {0};
    uint8_t *back = malloc(g->pixels_nbytes);
    struct pst_pixels out = layout(g, g->info.height, g->info.width, g->info.channels, back);
    assert_ok(pst_pli_info(bytes, nbytes, &info, sizeof info, &err));
    size_t needs = (pst_pli_scratch_nbytes(&info, sizeof info) + 63) / 64 * 64;
    void *work = aligned_alloc(64, needs);
    assert_ok(pst_pli_decode(bytes, nbytes, NULL, -1, &out, work, needs, &err));
    assert_memory_equal(back, g->pixels, g->pixels_nbytes);
    free(work);
    free(back);
}

/* Encodes twice, on one thread and on three. */
static void check_pixels(const struct golden *g)
{
    struct pst_error err;
    struct pst_pixels in = layout(g, g->info.height, g->info.width, g->info.channels, g->pixels);
    size_t bound =
        pst_pli_encode_bound(g->info.height, g->info.width, g->info.channels, g->info.bits);
    uint8_t *out[2] = {malloc(bound), malloc(bound)};
    size_t n[2];
    for (int k = 0; k < 2; k++) {
        struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                 .tier = g->info.tier,
                                                 .effort = 2,
                                                 .no_checksum = !g->info.has_checksums,
                                                 .run = k ? run_threads : NULL};
        memset(out[k], 0x11 << k, bound);
        assert_ok(pst_pli_encode(&in, &options, out[k], bound, &n[k], &err));
    }
    if (n[0] != n[1] || memcmp(out[0], out[1], n[0]) != 0)
        fail_msg("%s: threads change the bytes", g->name);
    check_again(g, out[0], n[0]);
    free(out[0]);
    free(out[1]);
}

/* Restores the JPEG file, encodes it again, and compares the pixels. */
static void check_jpeg(const struct golden *g)
{
    struct pst_error err;
    char sum[SHA256_TEXT_NBYTES];
    uint8_t *jpeg = malloc(g->info.jpeg_nbytes + 1u);
    size_t n = 0, bound = pst_pli_from_jpeg_bound(g->info.jpeg_nbytes), n_out[2];
    uint8_t *out[2] = {malloc(bound), malloc(bound)};
    if (g->jpeg_sum[0] == 0) {
        assert_int_equal(g->info.restoration_nbytes, 0);
        assert_int_not_equal(
            pst_pli_to_jpeg(g->bytes, g->nbytes, jpeg, g->info.jpeg_nbytes, &n, &err), PST_OK);
        goto out;
    }
    assert_ok(pst_pli_to_jpeg(g->bytes, g->nbytes, jpeg, g->info.jpeg_nbytes, &n, &err));
    assert_int_equal(n, g->info.jpeg_nbytes);
    sha256_text(jpeg, n, sum);
    assert_string_equal(sum, g->jpeg_sum);
    for (int k = 0; k < 2; k++)
        assert_ok(pst_pli_from_jpeg(jpeg, n, NULL, out[k], bound, &n_out[k], &err));
    assert_int_equal(n_out[0], n_out[1]);
    assert_memory_equal(out[0], out[1], n_out[0]);
    check_again(g, out[0], n_out[0]);
out:
    free(out[0]);
    free(out[1]);
    free(jpeg);
}

static void test_determinism(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_goldens; i++)
        if (goldens[i].info.content == PST_PLI_CONTENT_JPEG)
            check_jpeg(&goldens[i]);
        else
            check_pixels(&goldens[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels),
                                       cmocka_unit_test(test_regions),
                                       cmocka_unit_test(test_determinism)};
    if (argc < 2)
        return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, setup, teardown);
}
