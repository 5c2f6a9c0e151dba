/* fuzz_kernels_pli.c - decodes any bytes as a PLI with the CPU build of the GPU kernels: they must
 * give the CPU decoder's status and pixels, and touch only their own memory. Checksums are
 * corrected, so that hostile units reach the kernels. The input is that of fuzz_pli_head. */
#include "kernels/kernels_check.h"
#include "kernels/jpeg_helper.h"
#include "kernels/units_helper.h"
#include "fuzz/fuzz_pli.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

enum { MAX_PIXELS = 1 << 16, N_REGIONS = 2 };

/* The helpers are those of tests: an error that they detect ends the program. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return setenv("CMOCKA_TEST_ABORT", "1", 1);
}

/* Corrects the checksum of each unit that lies within the bytes. */
static void set_unit_checksums(uint8_t *bytes, size_t nbytes)
{
    struct psti_pli_header header;
    if (psti_pli_parse_header(bytes, nbytes, &header, NULL) != PST_OK || !header.has_checksums ||
        psti_pli_head_nbytes(&header) > nbytes)
        return;
    uint64_t offset = psti_pli_head_nbytes(&header);
    uint32_t n = psti_pli_unit_rows(&header) * psti_pli_unit_columns(&header);
    for (uint32_t u = 0; u < n; u++) {
        struct psti_pli_entry entry = psti_pli_parse_entry(bytes, &header, u);
        if (entry.nbytes > nbytes - offset)
            return;
        entry.checksum = (uint32_t)psti_hash64(bytes + offset, entry.nbytes);
        psti_pli_print_entry(bytes, &header, u, entry);
        offset += entry.nbytes;
    }
}

static void check_units(const uint8_t *bytes, size_t nbytes, const struct pst_pli_region *regions)
{
    struct units_case cases[N_REGIONS];
    for (int i = 0; i < N_REGIONS; i++)
        cases[i] = (struct units_case){.bytes = bytes, .nbytes = nbytes, .region = regions[i]};
    (void)units_check(cases, N_REGIONS);
}

static void check_jpeg(const uint8_t *bytes, size_t nbytes, const struct pst_pli_region *regions)
{
    struct jpeg_case cases[N_REGIONS];
    for (int i = 0; i < N_REGIONS; i++)
        cases[i] = (struct jpeg_case){.bytes = bytes, .nbytes = nbytes, .region = regions[i]};
    (void)jpeg_check(cases, N_REGIONS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct pst_pli_info info = {0};
    /* exact size, so a sanitizer detects over-reads */
    uint8_t *bytes = malloc(nbytes ? nbytes : 1);
    memcpy(bytes, data, nbytes);
    set_unit_checksums(bytes, nbytes);
    fuzz_pli_set_checksum(bytes, nbytes);
    if (pst_pli_info(bytes, nbytes, &info, sizeof info, NULL) == PST_OK &&
        (uint64_t)info.height * info.width <= MAX_PIXELS) {
        const struct pst_pli_region regions[N_REGIONS] = {
            {0, 0, info.height, info.width},
            {info.height / 3, info.width / 3, (info.height + 2) / 3, (info.width + 2) / 3}};
        (info.content == PST_PLI_CONTENT_JPEG ? check_jpeg : check_units)(bytes, nbytes, regions);
    }
    free(bytes);
    return 0;
}
