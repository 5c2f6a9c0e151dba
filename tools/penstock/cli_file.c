/* cli_file.c - writes a result to stdout, or to a file that gets its name only when it is complete;
 * asks before a file is overwritten. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes a temporary name beside `output`. The name is empty if `output` is a device, a link or the
 * like, which is written directly. */
static void name_part(const char *output, char part[PATH_MAX])
{
    struct stat st;
    bool exists = lstat(output, &st) == 0;
    if ((exists && !S_ISREG(st.st_mode)) ||
        snprintf(part, PATH_MAX, "%s.penstock-%ld.tmp", output, (long)getpid()) >= PATH_MAX)
        part[0] = '\0';
}

/* Writes head and bytes and flushes them. Returns false with errno after failure. */
static bool write_both(FILE *file, const void *head, size_t head_nbytes, const void *bytes,
                       size_t nbytes)
{
    return fwrite(head, 1, head_nbytes, file) == head_nbytes &&
           fwrite(bytes, 1, nbytes, file) == nbytes && fflush(file) == 0;
}

static enum pst_status fail_put(const char *name, int os_error, struct pst_error *err)
{
    cli_error(err, os_error == ENOSPC ? PST_ERROR_NO_SPACE : PST_ERROR_IO, "cannot be written");
    err->os_error = os_error;
    snprintf(err->file, sizeof err->file, "%s", name);
    return err->status;
}

enum pst_status cli_put(const char *output, const void *head, size_t head_nbytes, const void *bytes,
                        size_t nbytes, struct pst_error *err)
{
    char part[PATH_MAX];
    if (output == NULL || strcmp(output, "-") == 0) {
        if (write_both(stdout, head, head_nbytes, bytes, nbytes) || errno == EPIPE)
            return PST_OK; /* if the reader closed the pipe, main ends the program quietly */
        return fail_put("stdout", errno, err);
    }
    name_part(output, part);
    FILE *file = fopen(part[0] ? part : output, "wb");
    if (file == NULL)
        return fail_put(output, errno, err);
    bool ok = write_both(file, head, head_nbytes, bytes, nbytes);
    int os_error = errno;
    if (fclose(file) != 0 && ok) {
        ok = false;
        os_error = errno;
    }
    if (ok && part[0] && rename(part, output) != 0) {
        ok = false;
        os_error = errno;
    }
    if (ok)
        return PST_OK;
    if (part[0])
        (void)unlink(part);
    return fail_put(output, os_error, err);
}

int cli_may_write(const struct cli *cli, const char *output, bool force)
{
    struct stat st;
    if (output == NULL || strcmp(output, "-") == 0 || force || stat(output, &st) != 0 ||
        !S_ISREG(st.st_mode))
        return -1;
    if (cli->json || isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1)
        return cli_usage(cli,
                         "%s is there already, and there is no terminal to ask on: --force writes "
                         "over it",
                         output);
    fprintf(stderr, "penstock %s: ", cli->verb->name);
    cli_print_name(stderr, output);
    fputs(" is there already: write over it? [y/N] ", stderr);
    char answer[16] = "";
    bool yes = fgets(answer, sizeof answer, stdin) != NULL;
    answer[strcspn(answer, "\n")] = '\0';
    if (yes && (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0))
        return -1;
    if (!yes)
        fputc('\n', stderr);
    cli_note(cli, "nothing was written");
    return CLI_FAILED;
}
