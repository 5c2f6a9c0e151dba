/* fuzz_dataset_journal.c - any bytes as the journal of an unfinished data set: a writer resumes
 * from it. The input is tried as it is, and with the checksums of header and entries made right. */
#include "base/bits.h"
#include "base/hash.h"
#include "format/format_dataset.h"

#include <penstock/writer.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static void try_bytes(const char *directory, const uint8_t *bytes, size_t nbytes)
{
    char path[128];
    struct pst_error err;
    pst_writer *writer = NULL;
    const struct pst_writer_options options = {.struct_size = sizeof options,
                                               .mode = PST_WRITER_RESUME};
    snprintf(path, sizeof path, "%s/journal.pst", directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, bytes, nbytes) != (ssize_t)nbytes)
        abort();
    close(fd);
    if (pst_writer_open(directory, NULL, 0, &options, &writer, &err) == PST_OK)
        (void)!pst_writer_finish(writer, &err);
    pst_writer_close(&writer);
    static const char *const names[] = {"journal.pst", "index.pst", "index.pst.tmp", "writer.lock"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
}

static void seal(uint8_t *bytes, size_t nbytes)
{
    uint32_t n_fields = nbytes >= PSTI_JOURNAL_HEADER_NBYTES ? psti_load_u32(bytes + 48) : 0;
    size_t at = psti_format_journal_header_nbytes(n_fields % (PST_MAX_FIELDS + 1));
    if (n_fields > PST_MAX_FIELDS || at > nbytes)
        return;
    psti_store_u64(bytes + at - 8, psti_hash64(bytes, at - 8));
    while (at + PSTI_JOURNAL_RECORD_NBYTES <= nbytes) {
        uint64_t body = psti_load_u64(bytes + at + 8),
                 left = nbytes - at - PSTI_JOURNAL_RECORD_NBYTES;
        if (body > left)
            return;
        uint32_t kind = psti_load_u32(bytes + at + 4);
        psti_format_print_journal_record((enum psti_journal_kind)kind,
                                         bytes + at + PSTI_JOURNAL_RECORD_NBYTES, body, bytes + at);
        at += PSTI_JOURNAL_RECORD_NBYTES + (size_t)((body + 7) & ~(uint64_t)7);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    char directory[] = "/dev/shm/pst-fuzz-XXXXXX";
    if (mkdtemp(directory) == NULL)
        return 0;
    try_bytes(directory, bytes, nbytes);
    uint8_t *copy = malloc(nbytes + 1);
    memcpy(copy, bytes, nbytes);
    seal(copy, nbytes);
    try_bytes(directory, copy, nbytes);
    free(copy);
    rmdir(directory);
    return 0;
}
