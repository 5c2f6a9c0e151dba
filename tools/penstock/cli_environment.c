/* cli_environment.c - the library's description of build and machine, for env and doctor. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define ENGINES_NBYTES 16 /* room for one GPU's number of engines */
#define ENGINES_NAME ", \"jpeg_engines\": ["

/* Adds the nvJPEG engines of each GPU past the last member of the object in `text`. This
 * starts contexts on the GPUs, which a process of its own may do. */
static void add_engines(char *text, size_t capacity, uint32_t n_gpus)
{
    size_t at = strlen(text) - 1; /* the closing brace */
    at += (size_t)snprintf(text + at, capacity - at, ENGINES_NAME);
    for (uint32_t i = 0; i < n_gpus; i++) {
        struct pst_cuda_nvjpeg_info info = {0};
        const char *comma = i ? ", " : "";
        if (pst_cuda_nvjpeg(i, &info, sizeof info, NULL) == PST_OK)
            at += (size_t)snprintf(text + at, capacity - at, "%s%u", comma, info.n_engines);
        else
            at += (size_t)snprintf(text + at, capacity - at, "%snull", comma);
    }
    snprintf(text + at, capacity - at, "]}");
}

char *cli_environment(bool engines, size_t *nbytes)
{
    size_t n = pst_environment_json(NULL, 0);
    uint32_t n_gpus = engines ? pst_cuda_count() : 0;
    size_t capacity = n + sizeof ENGINES_NAME + n_gpus * (size_t)ENGINES_NBYTES + 4;
    char *text = malloc(capacity);
    if (text == NULL)
        return NULL;
    pst_environment_json(text, n + 1);
    if (engines)
        add_engines(text, capacity, n_gpus);
    *nbytes = strlen(text);
    return text;
}
