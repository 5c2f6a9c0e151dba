/* cli_python.c - starts the Python package for the verbs that it implements.
 *
 * The words are passed unchanged: the package parses them, and prints help and errors of use. The
 * interpreter replaces this process (exec), so signals and the exit status are its own. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_find_python(char path[PATH_MAX])
{
    static const char *const names[] = {"python3", "python"};
    const char *given = getenv("PENSTOCK_PYTHON");
    if (given != NULL && given[0] != '\0') {
        int n = snprintf(path, PATH_MAX, "%s", given);
        return n > 0 && n < PATH_MAX;
    }
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return false;
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int n = snprintf(path, PATH_MAX, "%s/%s", self, names[i]);
        if (n > 0 && n < PATH_MAX && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

int cli_python(struct cli *cli, int argc, char **argv)
{
    struct pst_error err;
    char path[PATH_MAX];
    if (!cli_find_python(path)) {
        cli_error(
            &err, PST_ERROR_NOT_FOUND,
            "this verb needs Python with the package penstock: there is no interpreter beside "
            "this program; name one by PENSTOCK_PYTHON");
        return cli_fail(cli, &err);
    }
    /* -P keeps a folder named penstock in the working directory from being imported instead of the
     * package. */
    static char flag[] = "-P", module_flag[] = "-m", module[] = "penstock.cli.main";
    static char json[] = "--json", quiet[] = "--quiet"; /* may stand before the verb */
    char **words = calloc((size_t)argc + 8, sizeof *words);
    if (words == NULL) {
        cli_error(&err, PST_ERROR_MEMORY, "out of memory");
        return cli_fail(cli, &err);
    }
    char verb[32];
    snprintf(verb, sizeof verb, "%s", cli->verb->name);
    char *const first[] = {path, flag, module_flag, module, verb};
    size_t n = sizeof first / sizeof *first;
    memcpy(words, first, sizeof first);
    if (cli->json)
        words[n++] = json;
    if (cli->quiet)
        words[n++] = quiet;
    memcpy(words + n, argv, (size_t)argc * sizeof *argv);
    fflush(stdout);
    execvp(path, words);
    cli_error(&err, PST_ERROR_NOT_FOUND, "%s cannot be started: %s", path, strerror(errno));
    free(words);
    return cli_fail(cli, &err);
}
