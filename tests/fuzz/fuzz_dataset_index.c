/* fuzz_dataset_index.c - opens any bytes as an index, and reads every value of up to 64 samples.
 * The input is tried unchanged and with all checksums corrected, so that the code after those
 * checks is reached. */
#include "base/bits.h"
#include "dataset/dataset.h"
#include "format/format_dataset.h"
#include "fuzz/forge_dataset.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static void use(const pst_dataset *ds)
{
    struct pst_error err;
    uint64_t n = pst_dataset_count(ds) < 64 ? pst_dataset_count(ds) : 64;
    for (uint64_t k = 0; k < 2 * n; k++) {
        uint64_t s = k < n ? k : pst_dataset_count(ds) - 1 - (k - n);
        char name[PST_NAME_CAP];
        if (pst_dataset_sample_name(ds, s, name, &err) == PST_OK && strlen(name) >= PSTI_NAME_LIMIT)
            abort();
        for (uint32_t f = 0; f < pst_dataset_n_fields(ds); f++) {
            struct pst_item item;
            int64_t number;
            double real;
            for (uint32_t v = 0; v < pst_dataset_field(ds, f)->n_variants; v++)
                if (pst_dataset_item(ds, s, f, v, &item, sizeof item, &err) == PST_OK &&
                    item.nbytes > pst_dataset_max_item_nbytes(ds, f))
                    abort();
            (void)!pst_dataset_int(ds, s, f, &number, &err);
            (void)!pst_dataset_float(ds, s, f, &real, &err);
        }
    }
    for (uint32_t f = 0; f < pst_dataset_n_fields(ds); f++) {
        int64_t values[64];
        (void)!pst_dataset_column(ds, f, 0, n, values, &err);
    }
    for (uint32_t f = 0; f < pst_dataset_n_fields(ds); f++)
        for (int64_t label = -1; label < 8; label++) {
            const char *name = pst_dataset_class_name(ds, f, label);
            if (name != NULL && strlen(name) >= PSTI_NAME_LIMIT)
                abort();
        }
    for (uint32_t i = 0; i < pst_dataset_n_files(ds) && i < 8; i++) {
        char path[4096];
        (void)!pst_dataset_file_path(ds, i, path, sizeof path, &err);
        (void)!psti_dataset_check_shard(ds, i, &err);
    }
    (void)!psti_dataset_check_index(ds, &err);
}

static void try_bytes(const char *directory, const uint8_t *bytes, size_t nbytes)
{
    char path[128];
    struct pst_error err;
    pst_dataset *ds;
    snprintf(path, sizeof path, "%s/index.pst", directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, bytes, nbytes) != (ssize_t)nbytes)
        abort();
    close(fd);
    if (pst_dataset_open(directory, NULL, &ds, &err) == PST_OK)
        use(ds);
    pst_dataset_close(&ds);
    unlink(path);
}

/* Corrects lengths and checksums to fit the bytes. The contents of sections remain the fuzzer's. */
static void seal(uint8_t *bytes, size_t nbytes)
{
    uint64_t room = nbytes - PSTI_INDEX_HEADER_NBYTES,
             n_blocks = room / (PSTI_INDEX_BLOCK_NBYTES + 8) + 1;
    uint64_t payload = room > 8 * n_blocks ? (room - 8 * n_blocks) & ~(uint64_t)63 : 0;
    n_blocks = (payload + PSTI_INDEX_BLOCK_NBYTES - 1) / PSTI_INDEX_BLOCK_NBYTES;
    uint64_t blocks = PSTI_INDEX_HEADER_NBYTES + payload;
    memcpy(bytes, "\x89PSTI\r\n\x1a\x01\0\0\0", 12);
    psti_store_u64(bytes + 96, blocks);
    psti_store_u64(bytes + 104, n_blocks);
    psti_store_u64(bytes + 120, blocks + 8 * n_blocks);
    forge_seal_index(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    char directory[] = "/dev/shm/pst-fuzz-XXXXXX";
    if (mkdtemp(directory) == NULL)
        return 0;
    try_bytes(directory, bytes, nbytes);
    if (nbytes >= PSTI_INDEX_HEADER_NBYTES) {
        uint8_t *copy = malloc(nbytes);
        memcpy(copy, bytes, nbytes);
        seal(copy, nbytes);
        uint64_t n = psti_load_u64(copy + 120);
        try_bytes(directory, copy, (size_t)n);
        free(copy);
    }
    rmdir(directory);
    return 0;
}

/* libFuzzer's own mutator; missing when a corpus is replayed. */
extern size_t LLVMFuzzerMutate(uint8_t *bytes, size_t nbytes, size_t max_nbytes)
    __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t max_nbytes, unsigned seed);

/* In seven of eight calls changes one member of a structure and corrects all checksums. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t max_nbytes, unsigned seed)
{
    uint64_t state = seed;
    if (seed % 8 != 0 && forge_index(bytes, nbytes, &state))
        return nbytes;
    return LLVMFuzzerMutate != NULL ? LLVMFuzzerMutate(bytes, nbytes, max_nbytes) : nbytes;
}
