/* cli_opening.c - opens data for a verb: shows progress while a large folder is listed or an index
 * of tars, zips or tables is made, and stops at once if the user interrupts. */
#include "cli.h"

#include <stdio.h>

enum { PATIENCE_S = 1 }; /* seconds without a message; opening is usually faster */

/* Shows the progress of opening: in a line that is redrawn, or in new lines if stderr is no
 * terminal. */
static int show(void *ctx, const struct pst_progress *progress)
{
    struct cli_opening *opening = ctx;
    const struct cli *cli = opening->cli;
    const char *verb = cli->verb == NULL ? "penstock" : cli->verb->name;
    double now = cli_seconds(), every = cli->bar ? 0.2 : cli_line_seconds();
    char total[32] = "", read[64] = "", size[32], line[256];
    if (opening->next_s == 0)
        opening->next_s = now + (cli->bar ? PATIENCE_S : every);
    if (cli_interrupted() || now < opening->next_s || !(cli->bar || cli->lines))
        return cli_interrupted() ? 1 : 0;
    opening->next_s = now + every;
    opening->is_shown = cli->bar;
    if (progress->n_total > 0)
        snprintf(total, sizeof total, " of %llu", (unsigned long long)progress->n_total);
    if (progress->nbytes_in > 0) {
        cli_size_text(progress->nbytes_in, size);
        snprintf(read, sizeof read, ", %s walked over", size);
    }
    snprintf(line, sizeof line, "%s: looking through the data, %llu%s found%s", verb,
             (unsigned long long)progress->n_done, total, read);
    cli_progress_line(cli, line);
    return 0;
}

void cli_opening_begin(struct cli_opening *opening, const struct cli *cli,
                       struct pst_dataset_options *options)
{
    *opening = (struct cli_opening){.cli = cli};
    options->progress = show;
    options->progress_ctx = opening;
}

void cli_opening_end(struct cli_opening *opening)
{
    if (opening->is_shown)
        cli_progress_end(opening->cli);
    opening->is_shown = false;
}

enum pst_status cli_open(const struct cli *cli, const char *path, struct cli_source *source,
                         pst_dataset **out, struct pst_error *err)
{
    struct pst_dataset_options options;
    struct cli_source plain = {0};
    source = source == NULL ? &plain : source;
    enum pst_status status = cli_source_options(cli, source, &options, err);
    bool caught = cli_catch_default();
    if (status == PST_OK)
        status = pst_dataset_open(path, &options, out, err);
    if (caught)
        cli_let_interrupt();
    cli_opening_end(&source->opening);
    cli_source_free(source);
    if (status != PST_OK || !cli_interrupted())
        return status;
    pst_dataset_close(out); /* the signal came after opening last checked */
    return cli_error(err, PST_ERROR_CANCELLED, "cancelled");
}
