/* cli_progress.c - shows how far a verb is: on a terminal as a bar that is redrawn, elsewhere as a
 * line now and then.
 *
 * A bar stays in one line of the terminal, whatever its width, which is queried at each drawing,
 * because a window may be resized. The last column stays empty, because some terminals start a new
 * line after it. On a narrow terminal the least important parts are left out first. All parts are
 * ASCII, one column per byte. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Writes "1:02:03", "4:05", or "-" if the time is unknown. */
static void time_text(double seconds, char out[32])
{
    if (!(seconds >= 0 && seconds < 1e8)) {
        snprintf(out, 32, "-");
        return;
    }
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, 32, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 32, "%lu:%02lu", s / 60, s % 60);
}

double cli_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns the samples per second over the last 5 to 10 seconds, or since the start if that is
 * shorter; 0 if unknown. */
static double rate(struct cli_meter *meter, double now, uint64_t n_done)
{
    enum { SPAN_S = 5 };
    if (meter->mark_s[0] == 0 || n_done < meter->mark_done[0]) {
        meter->mark_s[0] = meter->mark_s[1] = now;
        meter->mark_done[0] = meter->mark_done[1] = n_done;
    }
    double passed = now - meter->mark_s[0];
    double result = passed > 0 ? (double)(n_done - meter->mark_done[0]) / passed : 0;
    if (now - meter->mark_s[1] >= SPAN_S) {
        meter->mark_s[0] = meter->mark_s[1];
        meter->mark_done[0] = meter->mark_done[1];
        meter->mark_s[1] = now;
        meter->mark_done[1] = n_done;
    }
    return result;
}

double cli_line_seconds(void)
{
    const char *text = getenv("PENSTOCK_PROGRESS_SECONDS");
    char *end = NULL;
    double seconds = text == NULL ? 30 : strtod(text, &end);
    return text != NULL && (end == text || *end != '\0' || !(seconds >= 0)) ? 30 : seconds;
}

enum { N_PARTS = 4, PART_CAP = 48, LINE_CAP = 256, BAR_MIN = 10, BAR_MAX = 40 };
/* One part of a line of progress, such as the time left. */
struct part {
    char text[PART_CAP];
    int columns; /* maximum number of columns it can take; reserved, to keep the layout steady */
    int goes;    /* 1: the first part that a narrow terminal drops */
};

/* Makes the parts in the order in which they are printed. */
static void make_parts(const struct pst_progress *progress, double per_second,
                       struct part parts[N_PARTS])
{
    char in[32], left[32];
    unsigned long long total = progress->n_total;
    double n_left = (double)progress->n_total - (double)progress->n_done;
    cli_size_text(progress->nbytes_in, in);
    time_text(per_second > 0 ? n_left / per_second : -1, left);
    snprintf(parts[0].text, PART_CAP, "%llu of %llu", (unsigned long long)progress->n_done, total);
    snprintf(parts[1].text, PART_CAP, "%s", in);
    snprintf(parts[2].text, PART_CAP, "%.*f/s", per_second < 10, per_second);
    snprintf(parts[3].text, PART_CAP, "%s left", left);
    parts[0].columns = 2 * snprintf(NULL, 0, "%llu", total) + 4;
    parts[1].columns = (int)sizeof "1023.9 MiB" - 1;
    parts[2].columns = (int)sizeof "99999/s" - 1;
    parts[3].columns = (int)sizeof "9:59:59 left" - 1;
    parts[0].goes = 3;
    parts[1].goes = 1;
    parts[2].goes = 2;
    parts[3].goes = 4;
}

/* Joins the percentage and the parts, without the first `n_lost` to be dropped. Returns the most
 * columns that the text can take. */
static int join_parts(const struct part parts[N_PARTS], int n_lost, double share,
                      char out[LINE_CAP])
{
    int at = snprintf(out, LINE_CAP, "%3.0f%%", 100 * share), columns = at;
    for (int i = 0; i < N_PARTS; i++) {
        if (parts[i].goes <= n_lost)
            continue;
        int n = snprintf(out + at, (size_t)(LINE_CAP - at), "  %s", parts[i].text);
        columns += n > parts[i].columns + 2 ? n : parts[i].columns + 2;
        at += n;
    }
    return columns;
}

/* Draws the line: verb, bar and text. If there is not enough space, the bar is left out. */
static void draw_bar(const char *what, const struct part parts[N_PARTS], double share)
{
    char text[LINE_CAP], bar[BAR_MAX + 1];
    int columns = (int)cli_columns(STDERR_FILENO, 80) - 1;
    int before = (int)strlen(what) + 1, width = 0;
    for (int n_lost = 0; n_lost <= N_PARTS && width < BAR_MIN; n_lost++)
        width = columns - before - 3 - join_parts(parts, n_lost, share, text);
    fputs("\r\033[K", stderr);
    if (width >= BAR_MIN) {
        width = width > BAR_MAX ? BAR_MAX : width;
        memset(bar, '.', sizeof bar);
        memset(bar, '#', (size_t)(share * width));
        fprintf(stderr, "%s [%.*s] %s", what, width, bar, text);
    } else if (before + 4 <= columns) {
        fprintf(stderr, "%s %.*s", what, columns - before, text);
    } else if (columns >= 4) {
        fprintf(stderr, "%.*s", columns, text);
    }
    fflush(stderr);
}

int cli_progress(const struct cli *cli, const char *what, const struct pst_progress *progress)
{
    struct cli_meter *meter = cli->meter;
    if (!cli->quiet && meter != NULL && progress->n_total > 0) {
        double now = cli_seconds(), per_second = rate(meter, now, progress->n_done);
        double share = (double)progress->n_done / (double)progress->n_total;
        struct part parts[N_PARTS];
        make_parts(progress, per_second, parts);
        if (cli->bar) {
            draw_bar(what, parts, share < 1 ? share : 1);
        } else if (cli->lines && meter->next_s > 0 && now >= meter->next_s) {
            char text[LINE_CAP];
            (void)join_parts(parts, 0, share, text);
            fprintf(stderr, "%s: %s\n", what, text + strspn(text, " "));
        }
        if (meter->next_s == 0 || now >= meter->next_s)
            meter->next_s = now + cli_line_seconds();
    }
    return cli_interrupted() ? 1 : 0;
}

void cli_progress_line(const struct cli *cli, const char *text)
{
    int columns = (int)cli_columns(STDERR_FILENO, 80) - 1;
    if (cli->bar)
        fprintf(stderr, "\r\033[K%.*s", columns, text);
    else
        fprintf(stderr, "%s\n", text);
    fflush(stderr);
}

void cli_progress_end(const struct cli *cli)
{
    if (cli->bar)
        fputs("\r\033[K", stderr);
}
