/* fuzz_replay.c - main() of a fuzz target that runs as an ordinary test.
 *
 * The arguments are files and folders. Every regular file below them is passed to
 * LLVMFuzzerTestOneInput once, in a heap block of exactly its size, so that a sanitizer detects
 * a read past its end. Without any input the test fails, because it would not test anything. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Targets that need to prepare something once define this function, too. */
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static int replay_file(const char *path, size_t nbytes)
{
    int result = -1;
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(nbytes > 0 ? nbytes : 1);
    if (!file || !bytes || fread(bytes, 1, nbytes, file) != nbytes) {
        fprintf(stderr, "%s: cannot be read: %s\n", path, strerror(errno));
        goto out;
    }
    /* If the input causes a crash, its name has been printed. */
    fprintf(stderr, "%s (%zu bytes)\n", path, nbytes);
    LLVMFuzzerTestOneInput(bytes, nbytes);
    result = 0;
out:
    free(bytes);
    if (file)
        fclose(file);
    return result;
}

/* Replays the files at or below `path`. Adds their number to *n_files. */
static int replay(const char *path, size_t *n_files)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(info.st_mode)) {
        ++*n_files;
        return replay_file(path, (size_t)info.st_size);
    }
    struct dirent **entries = NULL;
    int n_entries = scandir(path, &entries, NULL, alphasort);
    int result = n_entries < 0 ? -1 : 0;
    for (int i = 0; i < n_entries; i++) {
        char below[4096];
        int length = snprintf(below, sizeof below, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && (size_t)length < sizeof below &&
            replay(below, n_files) != 0)
            result = -1;
        free(entries[i]);
    }
    free(entries);
    return result;
}

int main(int argc, char **argv)
{
    size_t n_files = 0;
    int result = 0;
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        if (replay(argv[i], &n_files) != 0)
            result = 1;
    printf("%zu inputs replayed\n", n_files);
    return n_files > 0 ? result : 1;
}
