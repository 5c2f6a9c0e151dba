/* fuzz_dataset_container.c - opens any bytes as an index of containers, and reads everything about
 * up to 64 samples. The input is tried unchanged and with corrected checksums, files and lengths,
 * so that the code after those checks is reached. */
#include "base/bits.h"
#include "base/files/stamp.h"
#include "base/hash.h"
#include "dataset/dataset.h"
#include "dataset/dataset_container.h"
#include "format/format_container.h"

#include <penstock/index.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_NBYTES = 1 << 16, READ_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void use_item(const pst_dataset *ds, uint64_t s, uint32_t f)
{
    struct pst_error err;
    struct pst_item item;
    if (pst_dataset_item(ds, s, f, 0, &item, sizeof item, &err) != PST_OK)
        return;
    check(item.nbytes <= pst_dataset_max_item_nbytes(ds, f));
    check(psti_dataset_item_scratch_nbytes(&item) <= psti_dataset_max_decoded_nbytes(ds, f));
    if (psti_dataset_item_is_paged(&item))
        check(item.page_offset <= item.page_nbytes &&
              item.decoded_nbytes <= item.page_nbytes - item.page_offset);
    uint64_t n = psti_dataset_item_nbytes(&item);
    if (n > READ_MAX || psti_dataset_item_scratch_nbytes(&item) > READ_MAX)
        return;
    void *out = malloc(n > 0 ? (size_t)n : 1);
    check(out != NULL);
    (void)!pst_dataset_read(ds, s, f, 0, 0, n, out, &err);
    if (n > 1)
        (void)!pst_dataset_read(ds, s, f, 0, 1, n - 1, out, &err);
    free(out);
}

static void use(const pst_dataset *ds)
{
    struct pst_error err;
    uint64_t n = pst_dataset_count(ds) < 64 ? pst_dataset_count(ds) : 64;
    char name[PST_NAME_CAP];
    (void)pst_dataset_kind_name(pst_dataset_kind_of(ds));
    for (uint64_t s = 0; s < n; s++) {
        (void)!pst_dataset_sample_name(ds, s, name, &err);
        for (uint32_t f = 0; f < pst_dataset_n_fields(ds); f++) {
            enum pst_field_type type = pst_dataset_field(ds, f)->type;
            int64_t number;
            double real;
            if (type == PST_FIELD_INT)
                (void)!pst_dataset_int(ds, s, f, &number, &err);
            else if (type == PST_FIELD_FLOAT)
                (void)!pst_dataset_float(ds, s, f, &real, &err);
            else
                use_item(ds, s, f);
        }
    }
    for (uint32_t f = 0; f < pst_dataset_n_fields(ds); f++)
        for (int64_t label = -1; label < 8; label++) {
            const char *found = pst_dataset_class_name(ds, f, label);
            check(found == NULL || strlen(found) < PSTI_NAME_LIMIT);
        }
    (void)!psti_dataset_check_index(ds, &err);
}

static void try_bytes(const char *folder, const uint8_t *bytes, size_t nbytes)
{
    char path[128], why[PST_ERROR_PATH_CAP];
    struct pst_error err;
    pst_dataset *ds = NULL;
    bool fits = false;
    snprintf(path, sizeof path, "%s/index", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    check(fd >= 0 && write(fd, bytes, nbytes) == (ssize_t)nbytes);
    close(fd);
    if (psti_dataset_open_container_index(folder, folder, path, open(path, O_RDONLY), NULL, &fits,
                                          why, &ds, &err) == PST_OK &&
        fits)
        use(ds);
    pst_dataset_close(&ds);
    unlink(path);
}

/* Replaces every file of the index by the existing one. */
static void mend_files(uint8_t *bytes, size_t nbytes, const struct stat *st)
{
    uint64_t at = psti_load_u64(bytes + 96), paths = psti_load_u64(bytes + 104);
    uint32_t n = psti_load_u32(bytes + 36);
    for (uint32_t i = 0; i < n && at < nbytes && nbytes - at >= PSTI_CONTAINER_FILE_NBYTES; i++) {
        psti_store_u64(bytes + at, (uint64_t)st->st_size);
        psti_store_u64(bytes + at + 8, psti_stamp_make(st, false));
        psti_store_u64(bytes + at + 32, 0);
        at += PSTI_CONTAINER_FILE_NBYTES;
    }
    if (paths < nbytes && nbytes - paths >= 2)
        memcpy(bytes + paths, "a", 2);
}

/* Corrects lengths and checksums to fit the bytes. The contents of sections remain the fuzzer's. */
static size_t seal(uint8_t *bytes, size_t nbytes)
{
    uint64_t room = nbytes - PSTI_INDEX_HEADER_NBYTES,
             n_blocks = room / (PSTI_INDEX_BLOCK_NBYTES + 8) + 1;
    uint64_t payload = room > 8 * n_blocks ? (room - 8 * n_blocks) & ~(uint64_t)63 : 0;
    n_blocks = (payload + PSTI_INDEX_BLOCK_NBYTES - 1) / PSTI_INDEX_BLOCK_NBYTES;
    uint64_t blocks = PSTI_INDEX_HEADER_NBYTES + payload;
    memcpy(bytes, "PSTCONT\n\3\0\0\0", 12);
    psti_store_u32(bytes + 12, PSTI_INDEX_HEADER_NBYTES);
    psti_store_u32(bytes + 16, PSTI_CONTAINER_LAW);
    psti_store_u64(bytes + 160, blocks);
    psti_store_u64(bytes + 168, n_blocks);
    psti_store_u64(bytes + 184, blocks + 8 * n_blocks);
    for (uint64_t i = 0; i < n_blocks; i++) {
        uint64_t at = PSTI_INDEX_HEADER_NBYTES + i * PSTI_INDEX_BLOCK_NBYTES, left = blocks - at;
        size_t n = left < PSTI_INDEX_BLOCK_NBYTES ? (size_t)left : PSTI_INDEX_BLOCK_NBYTES;
        psti_store_u64(bytes + blocks + 8 * i, psti_hash64(bytes + at, n));
    }
    psti_store_u64(bytes + 176, psti_hash64(bytes + blocks, 8 * n_blocks));
    psti_store_u64(bytes + PSTI_INDEX_HEADER_NBYTES - 8,
                   psti_hash64(bytes, PSTI_INDEX_HEADER_NBYTES - 8));
    return (size_t)(blocks + 8 * n_blocks);
}

/* Makes the file that all items lie in, once. */
static const char *make_folder(struct stat *st)
{
    static char folder[64];
    static struct stat made;
    char path[96];
    if (folder[0] == '\0') {
        uint8_t byte = 0;
        memcpy(folder, "/dev/shm/pst-fuzz-XXXXXX", sizeof "/dev/shm/pst-fuzz-XXXXXX");
        check(mkdtemp(folder) != NULL);
        snprintf(path, sizeof path, "%s/a", folder);
        FILE *file = fopen(path, "wb");
        check(file != NULL);
        for (int i = 0; i < FILE_NBYTES; i++, byte = (uint8_t)(byte * 5 + 1))
            check(fputc(byte, file) >= 0);
        check(fclose(file) == 0 && stat(path, &made) == 0);
    }
    *st = made;
    return folder;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct stat st;
    const char *folder = make_folder(&st);
    try_bytes(folder, bytes, nbytes);
    if (nbytes < PSTI_INDEX_HEADER_NBYTES + 8)
        return 0;
    uint8_t *copy = malloc(nbytes + 64);
    check(copy != NULL);
    memcpy(copy, bytes, nbytes);
    mend_files(copy, nbytes, &st);
    try_bytes(folder, copy, seal(copy, nbytes));
    free(copy);
    return 0;
}

/* Removes the folder when the process exits normally. */
static __attribute__((destructor)) void tidy(void)
{
    struct stat st;
    char path[96];
    const char *folder = make_folder(&st);
    snprintf(path, sizeof path, "%s/a", folder);
    unlink(path);
    rmdir(folder);
}
