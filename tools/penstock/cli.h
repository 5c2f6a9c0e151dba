/* cli.h - functions that the verbs of the command line share: options, output as text or JSON,
 * errors, progress. */
#ifndef PENSTOCK_CLI_H
#define PENSTOCK_CLI_H

#include <penstock/penstock.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

enum cli_exit { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130, CLI_PIPE = 141 };

struct cli_verb;
struct cli_json;
/* State of a progress display between two calls. */
struct cli_meter {
    double next_s;         /* no terminal: time of the next line; 0 before the first */
    double mark_s[2];      /* earlier moments in seconds, the older one first */
    uint64_t mark_done[2]; /* samples done at these times */
};
struct cli {
    const struct cli_verb *verb; /* NULL before the verb is known */
    bool json, quiet;
    bool bar;   /* draw a progress bar on stderr */
    bool lines; /* print lines of progress; for a stderr that is no terminal */
    bool color;
    struct cli_meter *meter;
    struct cli_json *describes; /* if not NULL, cli_parse writes the verb's options into it */
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

/* Runs the verb in the Python package (cli_python.c), which parses the words after the verb.
 * Returns only if the interpreter cannot be started: prints why and returns the exit status. */
int cli_python(struct cli *cli, int argc, char **argv);
/* Finds the Python interpreter: PENSTOCK_PYTHON, else python3 or python beside this program.
 * Returns false if there is none. */
bool cli_find_python(char path[PATH_MAX]);

/* True if pip installs this program, so the user has no checkout to build from. Defined in each
 * program that is built (CMakeLists.txt). */
extern const bool cli_is_of_wheel;

/* Options (cli_options.c)
 * ---------------------------------------------------------------------------------- */

enum cli_kind {
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char * */
    CLI_COUNT,  /* uint64_t */
    CLI_SIZE,   /* uint64_t, bytes; with units: 512MiB, 1GB, 4096 */
    CLI_HEADING /* no option: a heading for the options below it; see CLI_GROUP */
};
struct cli_option {
    const char *name; /* name without dashes; NULL ends a table */
    char letter;      /* 0 if none */
    enum cli_kind kind;
    void *target;
    const char *argument; /* "N", "FILE", "stop|skip" (one of two); NULL for a flag */
    const char *standard; /* the default, in words; NULL if off or none */
    const char *help;     /* NULL: an old name, which the help does not show */
};
struct cli_command {
    const char *usage; /* "pack SRC DST [options]" */
    const char *about; /* paragraphs, separated by empty lines; single line ends count as spaces */
    const char *example; /* example commands, one per line */
    const struct cli_option *options;
    int n_min, n_max; /* operands */
};
/* A heading within a table of options. */
#define CLI_GROUP(title)                                                                           \
    {                                                                                              \
        "", 0, CLI_HEADING, NULL, NULL, NULL, title                                                \
    }

/* Sets the targets of options, and operands: [command->n_max]; operands that are not given are left
 * unchanged. Returns -1 to continue, or the exit status after --help or wrong use. */
int cli_parse(struct cli *cli, const struct cli_command *command, int argc, char **argv,
              const char *operands[]);
/* Prints a message and returns the exit status CLI_USAGE. */
int cli_usage(const struct cli *cli, const char *format, ...) PST_PRINTF(2, 3);
bool cli_size(const char *text, uint64_t *nbytes);
bool cli_count(const char *text, uint64_t *count);
/* Returns the candidate most similar to `word`, or NULL if none is similar. Candidates are names
 * that lie `stride` bytes apart; NULL ends them. */
const char *cli_nearest(const char *word, const void *first, size_t stride);
void cli_size_text(uint64_t nbytes, char out[32]); /* "1.5 MiB" */

/* Parts (cli_part.c)
 * ------------------------------------------------------------------------------------ */

/* A part of the work: part number `part` (from 1) of n_parts; n_parts 0: the whole work. */
struct cli_part {
    uint32_t part, n_parts;
};
/* Reads the value of --part: "I/N"; or "auto" or "auto/N", where the environment gives the part.
 * text NULL: the whole work. Returns -1 to continue, or the exit status after wrong use. */
int cli_take_part(const struct cli *cli, const char *text, struct cli_part *part);
/* The option --part; its target is a string. */
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
/* Returns the columns of the terminal `fd`, else the value of COLUMNS, else `otherwise`. */
size_t cli_columns(int fd, size_t otherwise);
/* Returns the number of columns in which help is written to stdout. */
size_t cli_help_columns(void);
/* Prints a text in lines of at most `columns`, broken at spaces. The first line begins at column
 * `at`; the others are indented by `indent`. */
void cli_print_wrapped(const char *text, size_t at, size_t indent, size_t columns);

/* Tables of options as JSON, and scripts of completion (cli_describe.c)
 * ---------------------------------------------------------------------------------- */

/* Prints the tables of all verbs as JSON; verbs of the Python package have only name and summary.
 */
int cli_describe(struct cli *cli);
/* Writes what a verb's table says as members of the JSON object. */
void cli_describe_command(struct cli_json *json, const struct cli_command *command);
/* Prints the completion script for this shell; NULL: no shell was named. */
int cli_completion(const struct cli *cli, const char *shell);
/* Completion scripts, which the build makes of the files in made/. */
extern const unsigned char cli_script_bash[], cli_script_zsh[], cli_script_fish[];

/* Output (cli_output.c)
 * ------------------------------------------------------------------------------------ */

/* Writes JSON to stdout piece by piece without storing it. Keys are NULL inside lists. */
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
/* Prints a JSON text with line ends and indentation. */
void cli_json_pretty(const char *text);

/* Prints a name so that it cannot confuse a terminal: control characters become \xNN. */
void cli_print_name(FILE *file, const char *name);
/* Prints an argument for a POSIX shell, in single quotes if necessary. */
void cli_print_word(FILE *file, const char *word);
/* Prints "1 sample" or "2 samples". */
void cli_print_count(uint64_t n, const char *one, const char *many);
/* Reports a failure; returns CLI_FAILED, or CLI_INTERRUPTED for PST_ERROR_CANCELLED. */
int cli_fail(const struct cli *cli, const struct pst_error *err);
/* Prints a note on stderr, unless --quiet. */
void cli_note(const struct cli *cli, const char *format, ...) PST_PRINTF(2, 3);
/* Prints the error of a bad sample on stderr. */
void cli_complain(const struct cli *cli, const struct pst_error *err);

/* Shows progress (cli_progress.c); to be called by a pst_progress_fn. Returns 1 after the user has
 * interrupted. */
int cli_progress(const struct cli *cli, const char *what, const struct pst_progress *progress);
/* Shows a line of ASCII text; on a terminal it replaces the previous line and is cut to fit. */
void cli_progress_line(const struct cli *cli, const char *text);
void cli_progress_end(const struct cli *cli);
/* Returns the seconds of a clock that never runs backwards. */
double cli_seconds(void);
/* Returns the seconds between two lines of progress if stderr is no terminal. */
double cli_line_seconds(void);
/* From now on SIGINT and SIGTERM set a flag instead; a second signal ends the process. */
void cli_catch_interrupt(void);
/* Like cli_catch_interrupt, but only if SIGINT would end the process. Returns false if it would
 * not. */
bool cli_catch_default(void);
/* From now on SIGINT and SIGTERM end the process again. */
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
/* Adds one sample to its reason. Returns false if there is no memory for its name, which is then
 * left out. */
bool cli_reasons_add(struct cli_reasons *reasons, const char *text, const char *name);
void cli_reasons_json(const struct cli_reasons *reasons, struct cli_json *json, const char *key);
void cli_reasons_text(const struct cli_reasons *reasons); /* prints one line per reason, indented */
void cli_reasons_free(struct cli_reasons *reasons);

/* Opening and reading data sets (cli_data.c)
 * ----------------------------------------------------------------------------------- */

enum { CLI_MEMBERS_CAP = 128 };

/* What is shown while a data set is being opened (cli_opening.c). */
struct cli_opening {
    const struct cli *cli;
    double next_s; /* time of the next line of progress; 0 before the first call */
    bool is_shown;
};

/* Options that say how to read a plain folder, or tars, zips and tables. */
struct cli_source {
    const char *labels, *masks;  /* masks: column names, separated by commas */
    const char *split, *members; /* members: rules, comma-separated */
    bool allow_unreadable, ignore_labels;
    char *words; /* copies of the names with their NULs; freed by cli_source_free */
    char *rule_words;
    const char *names[PST_MAX_FIELDS];
    struct pst_member_rule rules[CLI_MEMBERS_CAP];
    struct cli_opening opening;
};
/* Options that say how to read tars, zips and tables. */
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
/* Options that set the members of `source`. letter: short form of --labels; 0 for none. */
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
/* Converts the given options to `options`, whose pointers point into `source`. Opening with them
 * shows progress, and ends with PST_ERROR_CANCELLED after a caught interrupt. */
enum pst_status cli_source_options(const struct cli *cli, struct cli_source *source,
                                   struct pst_dataset_options *options, struct pst_error *err);
void cli_opening_begin(struct cli_opening *opening, const struct cli *cli,
                       struct pst_dataset_options *options);
/* Clears the line. */
void cli_opening_end(struct cli_opening *opening);
void cli_source_free(struct cli_source *source);
/* Opens a data set, a folder, or a tar, zip or table. With `source` NULL, the defaults apply. An
 * interrupt ends it with PST_ERROR_CANCELLED. */
enum pst_status cli_open(const struct cli *cli, const char *path, struct cli_source *source,
                         pst_dataset **out, struct pst_error *err);
/* Prints the notices of a data set: on stderr, or as a JSON list "notices". */
void cli_notices(const struct cli *cli, const pst_dataset *dataset);
void cli_notices_json(struct cli_json *json, const pst_dataset *dataset);
/* Sets item->nbytes to the number of bytes that cli_read_item reads, after decompression. */
void cli_item_decoded(struct pst_item *item);
/* Returns the bytes that the item takes in its file. An item in a compressed page counts with its
 * own bytes, because it shares the page. */
uint64_t cli_item_nbytes(const struct pst_item *item);
/* Reads a whole item into memory, which the caller must free. */
enum pst_status cli_read_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                              uint32_t variant, const struct pst_item *item, void **bytes,
                              struct pst_error *err);
/* If the index lacks the form, size and orientation of an image item, reads its header and sets
 * them. */
enum pst_status cli_complete_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  uint32_t variant, struct pst_item *item, struct pst_error *err);
/* Adds data set, sample and file to an error. */
void cli_locate(struct pst_error *err, const pst_dataset *dataset, uint64_t sample,
                const struct pst_item *item);
/* Parses "a:b", "a:", ":b" or "a". b is exclusive; both are limited to `count`, except a `begin`
 * that is larger than it. */
bool cli_range(const char *text, uint64_t count, uint64_t *begin, uint64_t *end);
/* Finds a sample by its number, or by its name if the text is no number or `by_name` is set. */
enum pst_status cli_find_sample(const pst_dataset *dataset, const char *text, bool by_name,
                                uint64_t *sample, struct pst_error *err);
/* Writes head and bytes to stdout (`output` NULL or "-"), or to the file `output`, which gets its
 * name only when it is complete (cli_file.c). */
enum pst_status cli_put(const char *output, const void *head, size_t head_nbytes, const void *bytes,
                        size_t nbytes, struct pst_error *err);
/* Asks the user whether an existing file may be overwritten, unless `force`. Devices and pipes are
 * written to without asking. Returns -1 to continue, or the exit status if the answer was no or
 * there is no terminal to ask on (cli_file.c). */
int cli_may_write(const struct cli *cli, const char *output, bool force);
/* Reads a whole file and appends a NUL; the caller frees `bytes`. */
enum pst_status cli_read_file(const char *path, void **bytes, size_t *nbytes,
                              struct pst_error *err);

/* Returns the JSON of pst_environment_json, which the caller must free; NULL: no memory
 * (cli_describe.c). */
char *cli_environment(size_t *nbytes);

/* Images (cli_image.c)
 * ------------------------------------------------------------------------------------- */

enum cli_as { CLI_AS_STORED, CLI_AS_PNG, CLI_AS_PLI, CLI_AS_PLI_JPEG, CLI_AS_PNM, CLI_AS_RAW };
struct cli_image_form {
    const char *name;
    enum cli_as as;
};
extern const struct cli_image_form cli_image_forms[]; /* ends with a NULL name */

/* Values of --tier, --effort and --max-error as given. */
struct cli_pli {
    const char *tier;
    uint64_t effort, max_error;
};
/* Converts the options. Returns -1, or the exit status after wrong use. */
int cli_take_pli(const struct cli *cli, const struct cli_pli *pli,
                 struct pst_pli_encode_options *options);
bool cli_gives_pli(const struct cli_pli *pli);

/* A decoded image (H,W,C) without padding; its data is allocated by malloc. */
struct cli_image {
    struct pst_pixels pixels;
    size_t nbytes;
};
enum { CLI_HEAD_CAP = 128 };
/* Decodes an item. `item` must have form, nbytes, and for raw pixels their size. The caller frees
 * image->pixels.data, also after failure. */
enum pst_status cli_decode(const struct pst_item *item, const void *bytes, bool indices,
                           struct cli_image *image, struct pst_error *err);
/* Encodes the image as a file: the text `head`, then `*bytes`, which the caller frees. It may
 * consume the image's data. */
enum pst_status cli_encode(struct cli_image *image, enum cli_as as,
                           const struct pst_pli_encode_options *pli, char head[CLI_HEAD_CAP],
                           void **bytes, size_t *nbytes, struct pst_error *err);

/* Trial of the form pli on some images (pack_trial.c)
 * ------------------------------------------------------------------------------------- */

/* Encodes some of the source's lossless images as PLI for a trial. If PLI would save space or time,
 * prints a comparison of bytes and decoding time, as a note or as the JSON member "pli_trial". */
void pack_try_pli(const struct cli *cli, struct cli_json *json, const pst_dataset *source);

/* Finding and restoring original files (cli_original.c)
 * ----------------------------------------------------------------------------- */

/* True if the name ends with the suffix, ignoring case. */
bool cli_ends_with(const char *name, const char *suffix);
/* Finds the first variant from which the packed file can be restored. *found is false if there is
 * none. */
enum pst_status cli_find_original(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  uint32_t *variant, struct pst_item *item, bool *found,
                                  struct pst_error *err);
/* Restores the JPEG from a PLI of it, and replaces `*bytes`, which malloc allocated. */
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
/* Asks the service for its state. The caller closes the report. */
enum pst_status cli_ask_service(const char *socket, pst_service_report **report,
                                struct pst_service_status *status, struct pst_error *err);
/* Print the report: as members of the JSON object, or as text. */
void cli_service_json(struct cli_json *json, const pst_service_report *report);
void cli_service_text(const pst_service_report *report);

#endif
