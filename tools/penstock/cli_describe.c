/* cli_describe.c - what this program says about itself: the tables of all verbs as JSON, from which
 * scripts/write_cli_pages.py makes manual pages and completion; the completion scripts, which the
 * build embeds in the program; and the build and machine, for env and doctor. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The words of an option whose value is called FORMS, a list separated by commas. */
static const char *const forms[] = {"pli-jpeg", "original", "raw", "pli", "jpeg", "png", "webp"};

static bool takes_forms(const char *argument)
{
    return argument != NULL && strcmp(argument, "FORMS") == 0;
}

/* Writes the values that an option can have: "stop|skip" has two, "NODE|auto|none" also two,
 * because a word in capitals stands for any text and is left out. */
static void put_values(struct cli_json *json, const char *argument)
{
    char word[32];
    cli_json_open(json, "values", '[');
    for (size_t i = 0; takes_forms(argument) && i < sizeof forms / sizeof *forms; i++)
        cli_json_text(json, NULL, forms[i]);
    for (const char *text = argument; text != NULL && strchr(argument, '|') && *text != '\0';) {
        size_t n = strcspn(text, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, text);
        if (word[strcspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0')
            cli_json_text(json, NULL, word);
        text += n;
        text += *text != '\0';
    }
    cli_json_close(json, ']');
}

static void put_option(struct cli_json *json, const char *group, const struct cli_option *option)
{
    char letter[2] = {option->letter, '\0'};
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "group", group);
    cli_json_text(json, "name", option->name);
    cli_json_text(json, "letter", letter[0] == '\0' ? NULL : letter);
    cli_json_text(json, "argument", option->argument);
    put_values(json, option->argument);
    cli_json_bool(json, "several", takes_forms(option->argument));
    cli_json_text(json, "default", option->standard);
    cli_json_text(json, "help", option->help);
    cli_json_close(json, '}');
}

static void put_options(struct cli_json *json, const struct cli_option *options, const char *group)
{
    for (; options->name != NULL; options++) {
        if (options->kind == CLI_HEADING)
            group = options->help;
        else if (options->help != NULL)
            put_option(json, group, options);
    }
}

void cli_describe_command(struct cli_json *json, const struct cli_command *command)
{
    cli_json_text(json, "usage", command->usage);
    cli_json_text(json, "about", command->about);
    cli_json_text(json, "examples", command->example);
    cli_json_open(json, "options", '[');
    put_options(json, command->options, "options");
    put_options(json, cli_common_options, "options of every verb");
    cli_json_close(json, ']');
}

/* Runs a verb so that cli_parse describes its table instead of parsing words. */
static void put_verb(struct cli *cli, const struct cli_verb *verb)
{
    cli_json_open(cli->describes, NULL, '{');
    cli_json_text(cli->describes, "name", verb->name);
    cli_json_text(cli->describes, "summary", verb->summary);
    bool is_python = verb->run == cli_python;
    cli_json_bool(cli->describes, "python", is_python);
    cli->verb = verb;
    if (!is_python)
        (void)verb->run(cli, 0, NULL);
    cli_json_close(cli->describes, '}');
}

int cli_describe(struct cli *cli)
{
    static const struct cli_verb fleet = {
        "cache fleet", "print or run the memcached command of a host of a fleet", cmd_cache_fleet};
    struct cli_json json = {0};
    cli->describes = &json;
    cli_json_open(&json, NULL, '{');
    cli_json_open(&json, "verbs", '[');
    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        put_verb(cli, verb);
        if (verb->run == cmd_cache)
            put_verb(cli, &fleet);
    }
    cli_json_close(&json, ']');
    cli_json_close(&json, '}');
    return CLI_OK;
}

int cli_completion(const struct cli *cli, const char *shell)
{
    static const struct {
        const char *name;
        const unsigned char *script;
    } scripts[] = {{"bash", cli_script_bash},
                   {"zsh", cli_script_zsh},
                   {"fish", cli_script_fish},
                   {NULL, NULL}};
    if (shell == NULL)
        return cli_usage(cli, "--completion wants a value: bash, zsh or fish");
    for (size_t i = 0; scripts[i].name != NULL; i++) {
        if (strcmp(shell, scripts[i].name) != 0)
            continue;
        fputs((const char *)scripts[i].script, stdout);
        return CLI_OK;
    }
    const char *near = cli_nearest(shell, &scripts[0].name, sizeof scripts[0]);
    return cli_usage(cli, "--completion is \"%s\": bash, zsh or fish is expected%s%s%s", shell,
                     near == NULL ? "" : "; did you mean ", near == NULL ? "" : near,
                     near == NULL ? "" : "?");
}

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
