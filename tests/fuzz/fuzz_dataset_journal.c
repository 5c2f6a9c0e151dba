/* fuzz_dataset_journal.c - uses any bytes as the journal of an unfinished data set and as its
 * shard: a writer resumes from them. If the writer can finish the data set, it must pass
 * verification.
 *
 * Input: u32 length of the journal, the journal, the shard. It is tried unchanged and with the
 * journal's checksums corrected. Mutations alter a number or an entry of the journal;
 * tests/fuzz/make_journal_corpus.c makes the corpus. */
#include "base/bits.h"
#include "writer/journal_forge.h"

#include <penstock/writer.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t max_nbytes, unsigned seed);
/* libFuzzer's own mutator; missing when the corpus is replayed. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *bytes, size_t nbytes, size_t max_nbytes);

static void put_file(const char *directory, const char *name, const uint8_t *bytes, size_t nbytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, bytes, nbytes) != (ssize_t)nbytes)
        abort();
    close(fd);
}

static void try_bytes(const char *directory, const uint8_t *journal, size_t journal_nbytes,
                      const uint8_t *shard, size_t shard_nbytes)
{
    static const char *const names[] = {"journal.pst",      "index.pst",   "index.pst.tmp",
                                        "shard-000000.pst", "writer.lock", "journal.pst.tmp"};
    struct pst_error err;
    pst_writer *writer = NULL;
    const struct pst_writer_options options = {.struct_size = sizeof options,
                                               .mode = PST_WRITER_RESUME};
    const struct pst_verify_options verify = {.struct_size = sizeof verify, .num_workers = 1};
    put_file(directory, "journal.pst", journal, journal_nbytes);
    put_file(directory, "shard-000000.pst", shard, shard_nbytes);
    enum pst_status status = pst_writer_open(directory, NULL, 0, &options, &writer, &err);
    if (status == PST_OK)
        status = pst_writer_finish(writer, &err);
    pst_writer_close(&writer);
    /* The journal says nothing about items' bytes, so a wrong checksum of an item is allowed. */
    if (status == PST_OK && pst_verify(directory, &verify, NULL, 0, &err) != PST_OK &&
        err.status != PST_ERROR_CHECKSUM)
        abort();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    char directory[] = "/dev/shm/pst-fuzz-XXXXXX";
    size_t n = nbytes >= 4 ? psti_load_u32(bytes) : 0;
    if (nbytes < 4 || n > nbytes - 4 || mkdtemp(directory) == NULL)
        return 0;
    const uint8_t *journal = bytes + 4, *shard = journal + n;
    size_t shard_nbytes = nbytes - 4 - n;
    try_bytes(directory, journal, n, shard, shard_nbytes);
    uint8_t *copy = malloc(n + 1);
    memcpy(copy, journal, n);
    journal_seal(copy, n);
    try_bytes(directory, copy, n, shard, shard_nbytes);
    free(copy);
    rmdir(directory);
    return 0;
}

/* Alters one number, or duplicates, drops or swaps entries, if the journal has space for that. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t max_nbytes, unsigned seed)
{
    struct journal_map map = {0};
    size_t n = nbytes >= 4 ? psti_load_u32(bytes) : 0, result = 0;
    if (seed % 4 != 0 && nbytes > 4 && n <= nbytes - 4 && journal_map_make(bytes + 4, n, &map)) {
        unsigned choice = seed / 4;
        if (choice % 4 == 0 && map.n_entries >= 2) {
            size_t i = choice / 4 % (map.n_entries - 1);
            size_t at = 4 + map.entries[i], next = 4 + map.entries[i + 1];
            memmove(bytes + at, bytes + next, nbytes - next);
            result = nbytes - (next - at);
            psti_store_u32(bytes, (uint32_t)(n - (next - at)));
        } else if (map.n_numbers > 0) {
            (void)journal_alter(bytes + 4, &map.numbers[choice / 4 % map.n_numbers],
                                choice / 64 % JOURNAL_WAYS);
            result = nbytes;
        }
        if (result > 0)
            journal_seal(bytes + 4, psti_load_u32(bytes));
    }
    journal_map_free(&map);
    if (result == 0 && LLVMFuzzerMutate != NULL)
        result = LLVMFuzzerMutate(bytes, nbytes, max_nbytes);
    return result > 0 ? result : nbytes;
}
