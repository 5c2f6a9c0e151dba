/* gpu_support.c - error exits, memory and files of the GPU benchmarks. After a failure no function
 * returns.
 */
#include "gpu_support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void fail(const char *what, const struct pst_error *err)
{
    fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, what, err ? ": " : "",
            err ? err->text : "");
    exit(1);
}

void check(enum pst_status status, const char *what, const struct pst_error *err)
{
    if (status != PST_OK)
        fail(what, err);
}

void *claim(size_t nbytes)
{
    void *memory = malloc(nbytes ? nbytes : 1);
    if (!memory)
        fail("out of memory", NULL);
    return memory;
}

unsigned char *read_file(const char *path, size_t *nbytes)
{
    FILE *in = fopen(path, "rb");
    long end = in && fseek(in, 0, SEEK_END) == 0 ? ftell(in) : -1;
    if (end < 0)
        fail(path, NULL);
    *nbytes = (size_t)end;
    unsigned char *bytes = claim(*nbytes);
    rewind(in);
    if (fread(bytes, 1, *nbytes, in) != *nbytes)
        fail(path, NULL);
    fclose(in);
    return bytes;
}
