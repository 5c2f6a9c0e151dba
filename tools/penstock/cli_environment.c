/* cli_environment.c - the library's description of build and machine, for env and doctor. */
#include "cli.h"

#include <stdlib.h>

char *cli_environment(size_t *nbytes)
{
    size_t n = pst_environment_json(NULL, 0);
    char *text = malloc(n + 1);
    if (text == NULL)
        return NULL;
    pst_environment_json(text, n + 1);
    *nbytes = n;
    return text;
}
