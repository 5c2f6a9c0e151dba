/* cli.h - shared by the verbs of the command line: options, output as text or JSON, errors,
 * progress. */
#ifndef PENSTOCK_CLI_H
#define PENSTOCK_CLI_H

#include <penstock/penstock.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

enum cli_exit { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130, CLI_PIPE = 141 };

struct cli_verb;
struct cli_json;
/* State of a progress display between calls. */
struct cli_meter {
    double next_s;         /* without a terminal: time of the next line; 0 before the first */
    double mark_s[2];      /* two earlier times, the older one first */
    uint64_t mark_done[2]; /* samples done at these times */
};
struct cli {
    const struct cli_verb *verb; /* NULL before the verb is known */
    bool json, quiet;
    bool bar;   /* draw a progress bar on stderr */
    bool lines; /* print a line of progress now and then; for a stderr that is no terminal */
    bool color;
    struct cli_meter *meter;
    struct cli_json *describes; /* not NULL: cli_parse writes the verb's table into it instead */
};

/* Verbs
 * ------------------------------------------------------------------------------------------------
 */

struct cli_verb {
    const char *name;
    const char *summary; /* one line */
    int (*run)(struct cli *cli, int argc,
               char **argv); /* argv: the words after the verb; returns the exit status */
};
extern const struct cli_verb cli_verbs[]; /* ends with a NULL name */

int cmd_pack(struct cli *cli, int argc, char **argv);
int cmd_append(struct cli *cli, int argc, char **argv);
int cmd_repack(struct cli *cli, int argc, char **argv);
int cmd_merge(struct cli *cli, int argc, char **argv);
int cmd_info(struct cli *cli, int argc, char **argv);
int cmd_index(struct cli *cli, int argc, char **argv);
int cmd_ls(struct cli *cli, int argc, char **argv);
int cmd_cat(struct cli *cli, int argc, char **argv);
int cmd_verify(struct cli *cli, int argc, char **argv);
int cmd_unpack(struct cli *cli, int argc, char **argv);
int cmd_bench(struct cli *cli, int argc, char **argv);
int cmd_cache(struct cli *cli, int argc, char **argv);
int cmd_cache_fleet(struct cli *cli, int argc, char **argv);
int cmd_env(struct cli *cli, int argc, char **argv);
int cmd_serve(struct cli *cli, int argc, char **argv);
int cmd_top(struct cli *cli, int argc, char **argv);
int cmd_doctor(struct cli *cli, int argc, char **argv);

/* Runs the verb by the Python package (cli_python.c), which parses the words after the verb. Does
 * not return if the interpreter can be started; else says why and returns the exit status. */
int cli_python(struct cli *cli, int argc, char **argv);
/* Finds the interpreter: PENSTOCK_PYTHON, else python3 or python beside this program. False: there
 * is none. */
bool cli_find_python(char path[PATH_MAX]);

/* True if pip installs this program. Then the user has no checkout to build anything from. Each
 * program has its own (CMakeLists.txt). */
extern const bool cli_is_of_wheel;

/* Options (cli_options.c)
 * ---------------------------------------------------------------------------------- */

enum cli_kind {
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char * */
    CLI_COUNT,  /* uint64_t */
    CLI_SIZE,   /* uint64_t, bytes, with a unit: 512MiB, 1GB, 4096 */
    CLI_HEADING /* no option: the next ones stand below `help` in the help; see CLI_GROUP */
};
struct cli_option {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* 0 if none */
    enum cli_kind kind;
    void *target;
    const char *argument; /* "N", "FILE", "stop|skip" (one of these); NULL for a flag */
    const char *standard; /* the default, in words; NULL if off or none */
    const char *help;     /* NULL: an old name, which the help leaves out */
};
struct cli_command {
    const char *usage; /* "pack SRC DST [options]" */
    const char *about; /* paragraphs, with an empty line between them; other line ends are spaces */
    const char *example; /* commands, one a line */
    const struct cli_option *options;
    int n_min, n_max; /* operands */
};
/* A heading in a table of options. */
#define CLI_GROUP(title)                                                                           \
    {                                                                                              \
        "", 0, CLI_HEADING, NULL, NULL, NULL, title                                                \
    }

/* Sets targets and operands: [command->n_max], of which those that are not given stay as they are.
 * Returns -1 to go on, or the exit status (after --help or wrong use). */
int cli_parse(struct cli *cli, const struct cli_command *command, int argc, char **argv,
              const char *operands[]);
/* Prints a message and returns the exit status CLI_USAGE. */
int cli_usage(const struct cli *cli, const char *format, ...) PST_PRINTF(2, 3);
bool cli_size(const char *text, uint64_t *nbytes);
bool cli_count(const char *text, uint64_t *count);
/* Returns the candidate most like `word`, or NULL if none is near. Candidates are names at a
 * distance of `stride` bytes; NULL ends them. */
const char *cli_nearest(const char *word, const void *first, size_t stride);
void cli_size_text(uint64_t nbytes, char out[32]); /* "1.5 MiB" */

/* Parts (cli_part.c)
 * ------------------------------------------------------------------------------------ */

/* A part of the work: part number `part` (from 1) of n_parts; n_parts 0: the whole work. */
struct cli_part {
    uint32_t part, n_parts;
};
/* Reads the value of --part: "I/N"; or "auto" or "auto/N", where the environment says which part.
 * NULL: the whole work. Returns -1 to go on, or the exit status after wrong use. */
int cli_take_part(const struct cli *cli, const char *text, struct cli_part *part);
/* The option --part; its target is a text. */
#define CLI_PART_OPTION(text)                                                                      \
    {                                                                                              \
        "part", 0, CLI_TEXT, &(text), "I/N", NULL,                                                 \
            "do part I of N, from 1; auto: the part that Slurm, Kubernetes, AWS Batch or "         \
            "torchrun gave this process, auto/N where they do not say N"                           \
    }

/* Help (cli_help.c)
 * -------------------------------------------------------------------------------------- */

extern const struct cli_option cli_common_options[];
void cli_print_help(const struct cli_command *command);
/* Columns of the terminal `fd`, else those that COLUMNS says, else `otherwise`. */
size_t cli_columns(int fd, size_t otherwise);
/* Columns in which help is written to stdout. */
size_t cli_help_columns(void);
/* Prints a text in lines of at most `columns`, broken at spaces. The first begins at column `at`,
 * the others are indented. */
void cli_print_wrapped(const char *text, size_t at, size_t indent, size_t columns);

/* Tables of options as JSON, and scripts of completion (cli_describe.c)
 * ---------------------------------------------------------------------------------- */

/* Prints the tables of all verbs as JSON; those of the Python package have name and summary. */
int cli_describe(struct cli *cli);
/* Writes the members of a verb that its table says. */
void cli_describe_command(struct cli_json *json, const struct cli_command *command);
/* Prints the script that completes words in this shell; NULL: none was named. */
int cli_completion(const struct cli *cli, const char *shell);
/* Made by the build, of the files in made/. */
extern const unsigned char cli_script_bash[], cli_script_zsh[], cli_script_fish[];

/* Output (cli_output.c)
 * ------------------------------------------------------------------------------------ */

/* Writes JSON to stdout piece by piece and keeps no text. Keys are NULL inside lists. */
struct cli_json {
    unsigned depth;
    bool filled[16];
};
void cli_json_open(struct cli_json *json, const char *key, char bracket); /* '{' or '[' */
void cli_json_close(struct cli_json *json, char bracket);                 /* '}' or ']' */
void cli_json_text(struct cli_json *json, const char *key, const char *value);
void cli_json_int(struct cli_json *json, const char *key, int64_t value);
void cli_json_uint(struct cli_json *json, const char *key, uint64_t value);
void cli_json_float(struct cli_json *json, const char *key, double value);
void cli_json_bool(struct cli_json *json, const char *key, bool value);
void cli_json_null(struct cli_json *json, const char *key);
void cli_json_error(struct cli_json *json, const char *key, const struct pst_error *err);
/* Prints JSON text with line ends and indentation. */
void cli_json_pretty(const char *text);

/* Prints a field's name so that it cannot upset a terminal: control characters become \xNN. */
void cli_print_name(FILE *file, const char *name);
/* Prints an argument for a POSIX shell, in single quotes if it needs them. */
void cli_print_word(FILE *file, const char *word);
/* Prints "1 sample" or "2 samples". */
void cli_print_count(uint64_t n, const char *one, const char *many);
/* Reports a failure; returns CLI_FAILED, or CLI_INTERRUPTED for PST_ERROR_CANCELLED. */
int cli_fail(const struct cli *cli, const struct pst_error *err);
/* Prints a note on stderr, unless --quiet. */
void cli_note(const struct cli *cli, const char *format, ...) PST_PRINTF(2, 3);
/* Prints a bad sample on stderr. */
void cli_complain(const struct cli *cli, const struct pst_error *err);

/* Shows progress (cli_progress.c); the body of a pst_progress_fn. Returns 1 once the user has
 * interrupted. */
int cli_progress(const struct cli *cli, const char *what, const struct pst_progress *progress);
/* Shows a line of ASCII: on a terminal in the place of the last one, as far as it fits. */
void cli_progress_line(const struct cli *cli, const char *text);
void cli_progress_end(const struct cli *cli);
/* Seconds of a clock that only runs forward. */
double cli_seconds(void);
/* Seconds between two lines of progress if stderr is no terminal. */
double cli_line_seconds(void);
/* After this call SIGINT and SIGTERM set a flag. The second signal ends the process. */
void cli_catch_interrupt(void);
/* The same, if SIGINT would end the process. False: it would not, and nothing is done. */
bool cli_catch_default(void);
/* SIGINT and SIGTERM end the process again. */
void cli_let_interrupt(void);
bool cli_interrupted(void);

/* Reasons (cli_reasons.c)
 * ------------------------------------------------------------------------------------ */

enum { CLI_REASONS_CAP = 32, CLI_REASON_NAMES = 5 };
struct cli_reason {
    char text[PST_ERROR_TEXT_CAP];
    uint64_t count;
    uint32_t n_names;
    char *names[CLI_REASON_NAMES];
};
struct cli_reasons {
    size_t n;
    struct cli_reason groups[CLI_REASONS_CAP];
};
/* Counts one more sample. False if there is no memory for its name, which is then left out. */
bool cli_reasons_add(struct cli_reasons *reasons, const char *text, const char *name);
void cli_reasons_json(const struct cli_reasons *reasons, struct cli_json *json, const char *key);
void cli_reasons_text(const struct cli_reasons *reasons); /* indented, one line for each reason */
void cli_reasons_free(struct cli_reasons *reasons);

/* Data sets (cli_data.c)
 * ----------------------------------------------------------------------------------- */

enum { CLI_MEMBERS_CAP = 128 };

/* What is shown while data is opened (cli_opening.c). */
struct cli_opening {
    const struct cli *cli;
    double next_s; /* time of the next line; 0 before the first call */
    bool is_shown;
};

/* The options that say how to read a plain folder, or files of others. */
struct cli_source {
    const char *labels, *masks;  /* masks: names of columns, comma-separated */
    const char *split, *members; /* members: rules, comma-separated */
    bool allow_unreadable, ignore_labels;
    char *words; /* the names, each with its NUL; cli_source_free frees them */
    char *rule_words;
    const char *names[PST_MAX_FIELDS];
    struct pst_member_rule rules[CLI_MEMBERS_CAP];
    struct cli_opening opening;
};
/* The entries that say how to read files of others. */
#define CLI_MEMBERS_OPTIONS(source)                                                                \
    CLI_GROUP("files of others"),                                                                  \
        {"split",                                                                                  \
         0,                                                                                        \
         CLI_TEXT,                                                                                 \
         &(source).split,                                                                          \
         "NAME",                                                                                   \
         "all",                                                                                    \
         "of files of others, and of some annotations: the split to read, such as train"},         \
    {                                                                                              \
        "members", 0, CLI_TEXT, &(source).members, "RULES", NULL,                                  \
            "of files of others: what members are, by suffix (docs/tar-fields.md), or columns, "   \
            "by name (docs/table-fields.md): jpg=image,cls=label:int,pkl=-"                        \
    }
/* The entries of a table of options that set `source`. letter: the one of --labels; 0 if none. */
#define CLI_SOURCE_OPTIONS(source, letter)                                                         \
    CLI_GROUP("plain folders"),                                                                    \
        {"labels",                                                                                 \
         letter,                                                                                   \
         CLI_TEXT,                                                                                 \
         &(source).labels,                                                                         \
         "FILE",                                                                                   \
         "one class per sub-folder",                                                               \
         "file of CSV, JSON lines, or lines of path and label that names the images of a plain "   \
         "folder and their fields"},                                                               \
        {"masks",                                                                                  \
         0,                                                                                        \
         CLI_TEXT,                                                                                 \
         &(source).masks,                                                                          \
         "COLUMNS",                                                                                \
         "mask, mask_..., ..._mask",                                                               \
         "other columns of the label file that name mask files, comma-separated"},                 \
        {"ignore-labels",                                                                          \
         0,                                                                                        \
         CLI_FLAG,                                                                                 \
         &(source).ignore_labels,                                                                  \
         NULL,                                                                                     \
         NULL,                                                                                     \
         "the images alone: sub-folders are no classes, and texts with boxes beside the images "   \
         "are left out"},                                                                          \
        {"allow-unreadable",                                                                       \
         0,                                                                                        \
         CLI_FLAG,                                                                                 \
         &(source).allow_unreadable,                                                               \
         NULL,                                                                                     \
         NULL,                                                                                     \
         "leave out files and folders of a plain folder that cannot be read or named"},            \
        CLI_MEMBERS_OPTIONS(source)
/* Fills `options` from the given options. Its pointers are into `source`. Opening with them shows
 * progress, and ends with PST_ERROR_CANCELLED after an interrupt that was caught. */
enum pst_status cli_source_options(const struct cli *cli, struct cli_source *source,
                                   struct pst_dataset_options *options, struct pst_error *err);
void cli_opening_begin(struct cli_opening *opening, const struct cli *cli,
                       struct pst_dataset_options *options);
/* Clears the line. */
void cli_opening_end(struct cli_opening *opening);
void cli_source_free(struct cli_source *source);
/* Opens a data set, a folder, or files of others. With `source` NULL, the defaults apply. An
 * interrupt ends it: PST_ERROR_CANCELLED. */
enum pst_status cli_open(const struct cli *cli, const char *path, struct cli_source *source,
                         pst_dataset **out, struct pst_error *err);
/* Prints the notices of a plain folder: on stderr, or as a JSON list "notices". */
void cli_notices(const struct cli *cli, const pst_dataset *dataset);
void cli_notices_json(struct cli_json *json, const pst_dataset *dataset);
/* Makes item->nbytes what cli_read_item reads: decoded bytes. */
void cli_item_decoded(struct pst_item *item);
/* Bytes that the item takes in its file; of a part of a page its own, because the page is not its
 * alone. */
uint64_t cli_item_nbytes(const struct pst_item *item);
/* Reads a whole item into memory that the caller frees. */
enum pst_status cli_read_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                              uint32_t variant, const struct pst_item *item, void **bytes,
                              struct pst_error *err);
/* Completes form, size and orientation of an image item by reading its header if the index lacks
 * them. */
enum pst_status cli_complete_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  uint32_t variant, struct pst_item *item, struct pst_error *err);
/* Puts data set, sample and file into an error. */
void cli_locate(struct pst_error *err, const pst_dataset *dataset, uint64_t sample,
                const struct pst_item *item);
/* Parses "a:b", "a:", ":b" or "a". b is not included; both are at most `count`, but for a `begin`
 * that lies beyond it. */
bool cli_range(const char *text, uint64_t count, uint64_t *begin, uint64_t *end);
/* Finds a sample by its number, or by its name if the text is no number or `by_name`. */
enum pst_status cli_find_sample(const pst_dataset *dataset, const char *text, bool by_name,
                                uint64_t *sample, struct pst_error *err);
/* Writes head and bytes to stdout (`output` NULL or "-"), or to the file `output`, which gets its
 * name only when it is whole (cli_file.c). */
enum pst_status cli_put(const char *output, const void *head, size_t head_nbytes, const void *bytes,
                        size_t nbytes, struct pst_error *err);
/* Asks whether a file that is there may be written over, unless `force`. What is no regular file is
 * written to as it is. Returns -1 to go on, or the exit status: the answer was no, or there is no
 * terminal to ask on (cli_file.c). */
int cli_may_write(const struct cli *cli, const char *output, bool force);
/* Reads the whole file, with a NUL behind it; the caller frees `bytes`. */
enum pst_status cli_read_file(const char *path, void **bytes, size_t *nbytes,
                              struct pst_error *err);

/* The JSON of pst_environment_json. For free(); NULL: no memory (cli_describe.c). */
char *cli_environment(size_t *nbytes);

/* Images (cli_image.c)
 * ------------------------------------------------------------------------------------- */

enum cli_as { CLI_AS_STORED, CLI_AS_PNG, CLI_AS_PLI, CLI_AS_PLI_JPEG, CLI_AS_PNM, CLI_AS_RAW };
struct cli_image_form {
    const char *name;
    enum cli_as as;
};
extern const struct cli_image_form cli_image_forms[]; /* ends with a NULL name */

/* --tier, --effort and --max-error as given. */
struct cli_pli {
    const char *tier;
    uint64_t effort, max_error;
};
/* Returns -1 and *options, or the exit status of wrong use. */
int cli_take_pli(const struct cli *cli, const struct cli_pli *pli,
                 struct pst_pli_encode_options *options);
bool cli_gives_pli(const struct cli_pli *pli);

/* (H,W,C), no padding; data is malloc's. */
struct cli_image {
    struct pst_pixels pixels;
    size_t nbytes;
};
enum { CLI_HEAD_CAP = 128 };
/* `item` has form, nbytes, and for raw pixels their size. The caller frees image->pixels.data,
 * also after failure. */
enum pst_status cli_decode(const struct pst_item *item, const void *bytes, bool indices,
                           struct cli_image *image, struct pst_error *err);
/* Makes a file: `head`, a text, then `*bytes`, which the caller frees. The image's data may be
 * used up. */
enum pst_status cli_encode(struct cli_image *image, enum cli_as as,
                           const struct pst_pli_encode_options *pli, char head[CLI_HEAD_CAP],
                           void **bytes, size_t *nbytes, struct pst_error *err);

/* Trying PLI (pack_trial.c)
 * ------------------------------------------------------------------------------------- */

/* Encodes some of the source's lossless images as PLI. If that form would pay, compares bytes
 * and decoding time in a note or as the JSON member "pli_trial". */
void pack_try_pli(const struct cli *cli, struct cli_json *json, const pst_dataset *source);

/* Original files (cli_original.c)
 * ----------------------------------------------------------------------------- */

/* True if the name ends with the suffix, in any case of letters. */
bool cli_ends_with(const char *name, const char *suffix);
/* Finds the first variant that can restore the file that was packed. *found is false if there is
 * none. */
enum pst_status cli_find_original(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  uint32_t *variant, struct pst_item *item, bool *found,
                                  struct pst_error *err);
/* Restores the JPEG from a PLI of it, in the place of `*bytes`, which are malloc's. */
enum pst_status cli_restore_jpeg(void **bytes, size_t *nbytes, struct pst_error *err);
/* Makes a PLI of the JPEG. The caller frees *bytes, also after failure. */
enum pst_status cli_keep_jpeg(const void *jpeg, size_t jpeg_nbytes, void **bytes, size_t *nbytes,
                              struct pst_error *err);

/* Returns the first field of this type, or -1. */
int cli_field_of_type(const pst_dataset *dataset, enum pst_field_type type);
enum pst_status cli_error(struct pst_error *err, enum pst_status status, const char *format, ...)
    PST_PRINTF(3, 4);

/* The host service (cli_service.c)
 * ------------------------------------------------------------------------------------------- */

#define CLI_SOCKET_OPTION(target)                                                                  \
    {                                                                                              \
        "socket", 0, CLI_TEXT, &(target), "PATH", "PENSTOCK_SOCKET, or one for each user",         \
            "the service's socket"                                                                 \
    }
/* Asks the service. The caller closes the report. */
enum pst_status cli_ask_service(const char *socket, pst_service_report **report,
                                struct pst_service_status *status, struct pst_error *err);
/* Prints the report: as members of the JSON object, or as text. */
void cli_service_json(struct cli_json *json, const pst_service_report *report);
void cli_service_text(const pst_service_report *report);

#endif
