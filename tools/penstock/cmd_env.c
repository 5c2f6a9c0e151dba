/* cmd_env.c - the verb env: describes this build and this machine, for bug reports. */
#include "cli.h"

#include <stdio.h>
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

int cmd_env(struct cli *cli, int argc, char **argv)
{
    const struct cli_option options[] = {{NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL}};
    const struct cli_command command = {
        .usage = "env [options]",
        .about = "Prints version, compiler, codecs, CPU features found and used, whether io_uring "
                 "works here,\n"
                 "GPUs and their JPEG engines, the kernels for them, and nvJPEG. Paste it into "
                 "bug reports. Always\n"
                 "JSON.",
        .example = "penstock env",
        .options = options,
    };
    const char *operands[4] = {0};
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status >= 0)
        return status;
    size_t nbytes = pst_environment_json(NULL, 0);
    uint32_t n_gpus = pst_cuda_count();
    size_t capacity = nbytes + sizeof ENGINES_NAME + n_gpus * (size_t)ENGINES_NBYTES + 4;
    char *text = malloc(capacity);
    if (text == NULL) {
        struct pst_error err;
        cli_error(&err, PST_ERROR_MEMORY, "out of memory");
        return cli_fail(cli, &err);
    }
    pst_environment_json(text, nbytes + 1);
    add_engines(text, capacity, n_gpus);
    cli_json_pretty(text);
    free(text);
    return CLI_OK;
}
