/* make_pli_coefs_corpus.c - writes the seed corpus of fuzz_pli_coefs: small units with each kind of
 * coefficients, of several samplings. Run it by hand, no test does: make_pli_coefs_corpus
 * tests/fuzz/corpus/pli_coefs */
#include "base/bits.h"
#include "pli/encode/coefs/pli_jpeg_encode.h"
#include "pli/coefs/pli_coefs_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 1 << 20, GEOMETRY_NBYTES = 8 };

static bool write_one(const char *folder, uint32_t i, uint64_t *random, uint8_t *bytes)
{
    uint32_t sampling = i % COEFS_N_SAMPLINGS;
    enum coefs_kind kind = (enum coefs_kind)(i % COEFS_N_KINDS);
    uint8_t unit_log2 = kind == COEFS_EXTREME ? 6 : (uint8_t)(6 + i % 2), geometry[GEOMETRY_NBYTES];
    uint32_t edge = kind == COEFS_EXTREME || kind == COEFS_DENSE ? 24 : 1u << unit_log2;
    struct psti_jpeg_encode_options options = {.unit_log2 = unit_log2};
    struct psti_pli_header header;
    struct coefs_image image;
    const uint8_t *block;
    size_t nbytes, n_block;
    char path[1024];
    coefs_make(&image, 1 + coefs_draw(random) % edge, 1 + coefs_draw(random) % edge, sampling, kind,
               random);
    if (psti_pli_jpeg_encode(&image.frame, (const int16_t *const *)image.coefs, NULL, &options,
                             bytes, CAPACITY, &nbytes, NULL) != PST_OK ||
        psti_pli_parse_header(bytes, nbytes, &header, NULL) != PST_OK ||
        psti_pli_find_model(bytes, &header, PSTI_PLI_MODEL_COEFS, &block, &n_block, NULL) != PST_OK)
        return false;
    geometry[0] = (uint8_t)(sampling + 16 * (unit_log2 - 6u));
    geometry[1] = (uint8_t)((i % 3 ? 63 : 9) | (image.frame.transform ? 0 : 64));
    psti_store_u16(geometry + 2, (uint16_t)(image.frame.width - 1));
    psti_store_u16(geometry + 4, (uint16_t)(image.frame.height - 1));
    psti_store_u16(geometry + 6, (uint16_t)n_block);
    size_t head = psti_pli_head_nbytes(&header);
    snprintf(path, sizeof path, "%s/kind%d_sampling%u_%u", folder, (int)kind, sampling, unit_log2);
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(geometry, 1, sizeof geometry, file) == sizeof geometry &&
                fwrite(block, 1, n_block, file) == n_block &&
                fwrite(bytes + head + 1, 1, nbytes - head - 1, file) == nbytes - head - 1;
    if (file && fclose(file) != 0)
        good = false;
    coefs_free(&image);
    return good;
}

int main(int argc, char **argv)
{
    uint64_t random = 1;
    uint8_t *bytes = malloc(CAPACITY);
    bool good = argc == 2 && bytes;
    for (uint32_t i = 0; i < 35 && good; i++)
        good = write_one(argv[1], i, &random, bytes);
    free(bytes);
    return good ? 0 : 1;
}
