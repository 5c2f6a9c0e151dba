/* fuzz_share_files.c - reads any bytes as a data set that a client sends to the host service: its
 * description, and a list of files, a label file, or the description of a mixture. The first two
 * bytes are the length of the description. The directory has three files. Seeds:
 * make_share_corpus.py. */
#include "share/share_dataset_options.h"

#include "base/files/sealed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static char directory[] = "/dev/shm/pst-fuzz-files-XXXXXX";

static void remove_directory(void)
{
    char path[64];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%c.png", directory, 'a' + i);
        unlink(path);
    }
    rmdir(directory);
}

static int open_directory(void)
{
    char path[64];
    if (!mkdtemp(directory) || atexit(remove_directory) != 0)
        abort();
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%c.png", directory, 'a' + i);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        if (fd < 0 || write(fd, "bytes", (size_t)i + 1) != i + 1 || close(fd) != 0)
            abort();
    }
    return open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    static struct psti_share_dataset described;
    static int directory_fd = -1;
    pst_dataset *dataset = NULL;
    struct pst_error err;
    if (directory_fd < 0 && (directory_fd = open_directory()) < 0)
        abort();
    if (nbytes < 2)
        return 0;
    size_t n = (size_t)bytes[0] | (size_t)bytes[1] << 8;
    n = n < nbytes - 2 ? n : nbytes - 2;
    struct psti_wire_in in = {.bytes = bytes + 2, .nbytes = n};
    psti_share_get_dataset(&in, &described);
    if (psti_share_end(&in, "data set", NULL) != PST_OK)
        return 0;
    int fds[2] = {directory_fd, -1}, mixed[] = {-1, directory_fd, directory_fd};
    uint32_t n_fds = 1, n_stamped, stamped[PSTI_SHARE_DATASET_FDS];
    uint64_t digest;
    if (n + 2 < nbytes) {
        if (psti_sealed_blob_make("list", bytes + 2 + n, nbytes - 2 - n, &fds[1], NULL) != PST_OK)
            abort();
        n_fds = 2;
    }
    pst_error_clear(&err);
    bool is_mixed = described.is_mixture && n_fds == 2;
    mixed[0] = fds[1];
    if (is_mixed)
        (void)psti_share_mixture_digest(mixed, 3, &digest, stamped, &n_stamped, &err);
    if (psti_share_open_dataset(&described, is_mixed ? mixed : fds, is_mixed ? 3 : n_fds, &dataset,
                                &err) == PST_OK)
        pst_dataset_close(&dataset);
    else if (!err.text[0] || dataset)
        abort();
    if (fds[1] >= 0)
        close(fds[1]);
    return 0;
}
