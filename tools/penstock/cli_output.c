/* cli_output.c - output of the verbs: JSON and errors; and the flag that a signal handler sets
 * after an interrupt. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Returns the length of the UTF-8 sequence at `s`, or 0 if it is invalid. */
static size_t sequence(const unsigned char *s)
{
    static const struct {
        unsigned char low, high, second_low, second_high, n;
    } leads[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    if (s[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        if (s[0] < leads[i].low || s[0] > leads[i].high || s[1] < leads[i].second_low ||
            s[1] > leads[i].second_high)
            continue;
        for (size_t k = 2; k < leads[i].n; k++)
            if ((s[k] & 0xC0) != 0x80)
                return 0;
        return leads[i].n;
    }
    return 0;
}

static void print_string(const char *text)
{
    putchar('"');
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        size_t n = sequence(s);
        if (n == 0) {
            fputs("\\ufffd", stdout);
            s++;
            continue;
        }
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if (*s < 0x20 || *s == 0x7F)
            printf("\\u%04x", *s);
        else
            fwrite(s, 1, n, stdout);
        s += n;
    }
    putchar('"');
}

static void begin_value(struct cli_json *json, const char *key)
{
    if (json->filled[json->depth])
        putchar(',');
    if (json->depth > 0)
        printf("\n%*s", 2 * (int)json->depth, "");
    json->filled[json->depth] = true;
    if (key != NULL) {
        print_string(key);
        fputs(": ", stdout);
    }
}

void cli_json_open(struct cli_json *json, const char *key, char bracket)
{
    begin_value(json, key);
    putchar(bracket);
    json->filled[++json->depth] = false;
}

void cli_json_close(struct cli_json *json, char bracket)
{
    if (json->filled[json->depth--])
        printf("\n%*s", 2 * (int)json->depth, "");
    putchar(bracket);
    if (json->depth == 0)
        putchar('\n');
}

void cli_json_text(struct cli_json *json, const char *key, const char *value)
{
    begin_value(json, key);
    if (value == NULL)
        fputs("null", stdout);
    else
        print_string(value);
}

void cli_json_int(struct cli_json *json, const char *key, int64_t value)
{
    begin_value(json, key);
    printf("%lld", (long long)value);
}

void cli_json_uint(struct cli_json *json, const char *key, uint64_t value)
{
    begin_value(json, key);
    printf("%llu", (unsigned long long)value);
}

void cli_json_float(struct cli_json *json, const char *key, double value)
{
    begin_value(json, key);
    if (isfinite(value))
        printf("%.17g", value);
    else
        fputs("null", stdout);
}

void cli_json_bool(struct cli_json *json, const char *key, bool value)
{
    begin_value(json, key);
    fputs(value ? "true" : "false", stdout);
}

void cli_json_null(struct cli_json *json, const char *key) { cli_json_text(json, key, NULL); }

void cli_json_error(struct cli_json *json, const char *key, const struct pst_error *err)
{
    cli_json_open(json, key, '{');
    /* "PST_ERROR_IO" -> "IO" */
    const char *name = pst_status_name(err->status);
    cli_json_text(json, "status", strncmp(name, "PST_ERROR_", 10) == 0 ? name + 10 : name);
    cli_json_text(json, "text", err->text);
    cli_json_text(json, "room", err->room);
    cli_json_text(json, "dataset", err->dataset[0] == '\0' ? NULL : err->dataset);
    if (err->sample >= 0)
        cli_json_int(json, "sample", err->sample);
    else
        cli_json_null(json, "sample");
    cli_json_text(json, "file", err->file[0] == '\0' ? NULL : err->file);
    if (err->offset >= 0)
        cli_json_int(json, "offset", err->offset);
    else
        cli_json_null(json, "offset");
    cli_json_text(json, "codec", err->codec[0] == '\0' ? NULL : err->codec);
    cli_json_text(json, "os_error", err->os_error == 0 ? NULL : strerror(err->os_error));
    cli_json_close(json, '}');
}

void cli_json_pretty(const char *text)
{
    int depth = 0;
    bool quoted = false;
    for (const char *s = text; *s != '\0'; s++) {
        if (quoted || *s == '"') {
            putchar(*s);
            if (*s == '\\' && s[1] != '\0')
                putchar(*++s);
            else if (*s == '"')
                quoted = !quoted;
            continue;
        }
        if (*s == ' ' || *s == '\n' || *s == '\t' || *s == '\r')
            continue;
        if (*s == '}' || *s == ']')
            printf("\n%*s", 2 * --depth, "");
        putchar(*s);
        bool opens = *s == '{' || *s == '[';
        if (opens && (s[1] == '}' || s[1] == ']')) { /* empty: "[]" */
            putchar(*++s);
            continue;
        }
        if (opens)
            depth++;
        if (opens || *s == ',')
            printf("\n%*s", 2 * depth, "");
        if (*s == ':')
            putchar(' ');
    }
    putchar('\n');
}

void cli_print_count(uint64_t n, const char *one, const char *many)
{
    printf("%llu %s", (unsigned long long)n, n == 1 ? one : many);
}

/* Prints a text in which `quote` replaces each single quote. */
static void print_text(FILE *file, const char *text, const char *quote)
{
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        size_t n = sequence(s);
        if (n == 0 || *s < 0x20 || *s == 0x7F) {
            fprintf(file, "\\x%02X", *s++);
            continue;
        }
        if (*s == '\'')
            fputs(quote, file);
        else
            fwrite(s, 1, n, file);
        s += n;
    }
}

void cli_print_name(FILE *file, const char *name) { print_text(file, name, "'"); }

void cli_print_word(FILE *file, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "_-+=@%:,./";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, file);
        return;
    }
    fputc('\'', file);
    print_text(file, word, "'\\''");
    fputc('\'', file);
}

static void print_error(const struct cli *cli, const char *severity, const struct pst_error *err)
{
    char line[2048];
    pst_error_format(err, line, sizeof line);
    cli_progress_end(cli);
    fputs(cli->color ? "\033[31mpenstock" : "penstock", stderr);
    if (cli->verb != NULL)
        fprintf(stderr, " %s", cli->verb->name);
    fprintf(stderr, ": %s%s", severity, cli->color ? "\033[0m" : "");
    cli_print_name(stderr, line);
    fputc('\n', stderr);
}

int cli_fail(const struct cli *cli, const struct pst_error *err)
{
    if (cli->json) {
        struct cli_json json = {0};
        cli_json_open(&json, NULL, '{');
        cli_json_error(&json, "error", err);
        cli_json_close(&json, '}');
    }
    print_error(cli, "", err);
    return err->status == PST_ERROR_CANCELLED ? CLI_INTERRUPTED : CLI_FAILED;
}

void cli_complain(const struct cli *cli, const struct pst_error *err)
{
    print_error(cli, "bad sample: ", err);
}

void cli_note(const struct cli *cli, const char *format, ...)
{
    if (cli->quiet)
        return;
    va_list arguments;
    cli_progress_end(cli);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* The one variable that a signal handler may touch. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    interrupted = 1;
    signal(signal_number, SIG_DFL);
}

void cli_catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool cli_catch_default(void)
{
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 ||
        now.sa_handler != SIG_DFL)
        return false;
    cli_catch_interrupt();
    return true;
}

void cli_let_interrupt(void)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

bool cli_interrupted(void) { return interrupted != 0; }
