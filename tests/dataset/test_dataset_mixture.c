/* test_dataset_mixture.c - tests several data sets opened as one: samples, names, files and
 * values; fields and class tables that fit together or do not; its identities; errors that name
 * the source. */
#include "containers/tar_helper.h"
#include "folder_test.h"

#include "base/alloc.h"
#include "base/fault.h"
#include "dataset/dataset.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct pst_error err; /* error of the last call */

/* Makes the data sets of the tests
 * --------------------------------------------------------------- */

enum { MOST_CLASSES = 4, MOST = 64 };

/* A packed data set: sample i of n has the label i % n_classes, an array of the labels i and i + 1,
 * the score i + first, and the text "text i". */
struct set {
    const char *classes[MOST_CLASSES]; /* classes of label and tags; none: any number */
    int n_classes;
    bool nameless;
    enum pst_dtype dtype; /* dtype of tags; 0: i64 */
    const char *score;    /* name of the field; NULL: "score" */
};

static int fields_of(const struct set *set, struct pst_field fields[4])
{
    memset(fields, 0, 4 * sizeof *fields);
    fields[0] = (struct pst_field){
        .name = "label", .type = PST_FIELD_INT, .n_variants = 1, .n_classes = set->n_classes};
    fields[1] = (struct pst_field){.name = "tags",
                                   .type = PST_FIELD_ARRAY,
                                   .dtype = set->dtype ? set->dtype : PST_DTYPE_I64,
                                   .n_variants = 1,
                                   .n_classes = set->n_classes};
    fields[2] = (struct pst_field){.type = PST_FIELD_FLOAT, .n_variants = 1};
    snprintf(fields[2].name, sizeof fields[2].name, "%s", set->score ? set->score : "score");
    fields[3] = (struct pst_field){.name = "text", .type = PST_FIELD_TEXT, .n_variants = 1};
    return 4;
}

static void add(pst_writer *writer, const struct set *set, int i, int first)
{
    char name[32], text[32];
    int n = set->n_classes ? set->n_classes : 1000;
    int64_t label = i % n, tags[2] = {i % n, (i + 1) % n};
    uint8_t narrow[2] = {(uint8_t)tags[0], (uint8_t)tags[1]};
    double score = i + first;
    bool is_narrow = set->dtype == PST_DTYPE_U8;
    snprintf(name, sizeof name, "s%d", i);
    snprintf(text, sizeof text, "text %d", i);
    const struct pst_value values[] = {{.bytes = &label, .nbytes = 8},
                                       {.bytes = is_narrow ? (void *)narrow : (void *)tags,
                                        .nbytes = is_narrow ? 2 : 16,
                                        .ndim = 1,
                                        .shape = {2}},
                                       {.bytes = &score, .nbytes = 8},
                                       {.bytes = text, .nbytes = strlen(text)}};
    const struct pst_value *const of[] = {&values[0], &values[1], &values[2], &values[3]};
    const struct pst_sample sample = {
        .struct_size = sizeof sample, .value_nbytes = sizeof *values, .name = name, .values = of};
    assert_ok(pst_writer_add(writer, &sample, &err));
}

static pst_dataset *open_path(const char *path)
{
    pst_dataset *dataset = NULL;
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    return dataset;
}

static pst_dataset *pack(void **state, const char *name, const struct set *set, int n, int first)
{
    struct pst_field fields[4];
    const struct pst_writer_options options = {.struct_size = sizeof options, .shard_nbytes = 400};
    pst_writer *writer = NULL;
    int n_fields = fields_of(set, fields);
    assert_ok(pst_writer_open(folder_path(state, name), fields, (uint32_t)n_fields, &options,
                              &writer, &err));
    for (uint32_t i = 0; set->n_classes > 0 && !set->nameless && i < 2; i++)
        assert_ok(
            pst_writer_set_class_names(writer, i, set->classes, (size_t)set->n_classes, &err));
    for (int i = 0; i < n; i++)
        add(writer, set, i, first);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    return open_path(folder_path(state, name));
}

static const struct set animals = {.classes = {"cat", "dog", "hen"}, .n_classes = 3};
static const struct set others = {.classes = {"dog", "fox"}, .n_classes = 2};

/* Opens a mixture of n data sets, then closes the data sets. */
static pst_dataset *mix(pst_dataset **sets, size_t n)
{
    struct pst_mixture_source sources[MOST] = {0};
    pst_dataset *mixture = NULL;
    for (size_t i = 0; i < n; i++)
        sources[i].dataset = sets[i];
    assert_ok(pst_dataset_open_many(sources, n, NULL, &mixture, &err));
    for (size_t i = 0; i < n; i++)
        pst_dataset_close(&sets[i]);
    return mixture;
}

/* Expects that opening a mixture fails, and checks the words of the error. */
static void refuses(const struct pst_mixture_source *sources, size_t n,
                    const struct pst_mixture_options *options, enum pst_status status,
                    const char *words)
{
    pst_dataset *mixture = NULL;
    assert_int_equal(pst_dataset_open_many(sources, n, options, &mixture, &err), status);
    if (strstr(err.text, words) == NULL)
        print_error("not \"%s\": %s\n", words, err.text);
    assert_non_null(strstr(err.text, words));
    assert_null(mixture);
}

/* Expects that two sources do not fit together. */
static void refuses_two(pst_dataset *a, pst_dataset *b, const char *words)
{
    const struct pst_mixture_source sources[] = {{.dataset = a}, {.dataset = b}};
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, words);
}

static uint32_t place_of(const pst_dataset *dataset, const char *name)
{
    int place = pst_dataset_find_field(dataset, name);
    assert_true(place >= 0);
    return (uint32_t)place;
}

static int64_t label_of(const pst_dataset *dataset, uint64_t sample)
{
    int64_t label = -1;
    assert_ok(pst_dataset_int(dataset, sample, place_of(dataset, "label"), &label, &err));
    return label;
}

static void assert_name(const pst_dataset *dataset, uint64_t sample, const char *name)
{
    char found[PST_NAME_CAP];
    uint64_t number;
    assert_ok(pst_dataset_sample_name(dataset, sample, found, &err));
    assert_string_equal(found, name);
    assert_ok(pst_dataset_find_sample(dataset, name, &number, &err));
    assert_int_equal(number, sample);
}

/* Tests ---------------------------------------------------------------------------------------- */

static void samples_follow_one_another(void **state)
{
    pst_dataset *sets[] = {pack(state, "a", &animals, 7, 0), pack(state, "b", &animals, 0, 0),
                           pack(state, "c", &animals, 5, 100)};
    pst_dataset *mixture = mix(sets, 3);
    char text[32], want[32], path[4096];
    double scores[12];
    struct pst_item item;
    uint32_t i_source;
    uint64_t own, nbytes, sum = 0;
    assert_int_equal(pst_dataset_count(mixture), 12);
    assert_int_equal(pst_dataset_n_sources(mixture), 3);
    assert_int_equal(pst_dataset_source_first(mixture, 1), 7);
    assert_int_equal(pst_dataset_source_first(mixture, 2), 7);
    assert_int_equal(pst_dataset_source_first(mixture, 3), 12);
    assert_null(pst_dataset_source(mixture, 3));
    assert_null(pst_dataset_source_name(mixture, 3));
    assert_string_equal(pst_dataset_source_name(mixture, 2), "2");
    assert_int_equal(pst_dataset_kind_of(mixture), PST_DATASET_MIXTURE);
    assert_string_equal(pst_dataset_kind_name(PST_DATASET_MIXTURE), "mixture");
    assert_true(pst_dataset_is_packed(mixture));
    assert_false(pst_dataset_is_folder(mixture));
    assert_name(mixture, 6, "0/s6");
    assert_name(mixture, 7, "2/s0");
    for (uint64_t i = 0; i < 12; i++) {
        uint64_t in_set = i < 7 ? i : i - 7;
        uint32_t i_text = place_of(mixture, "text");
        assert_ok(pst_dataset_source_of(mixture, i, &i_source, &own, &err));
        assert_int_equal(i_source, i < 7 ? 0 : 2);
        assert_int_equal(own, in_set);
        assert_int_equal(label_of(mixture, i), in_set % 3);
        assert_ok(pst_dataset_item(mixture, i, i_text, 0, &item, sizeof item, &err));
        assert_true(item.i_file < pst_dataset_n_files(mixture));
        assert_ok(pst_dataset_file_path(mixture, item.i_file, path, sizeof path, &err));
        assert_non_null(strstr(path, i < 7 ? "/a/" : "/c/"));
        snprintf(want, sizeof want, "text %d", (int)in_set);
        assert_ok(pst_dataset_read(mixture, i, i_text, 0, 0, item.nbytes, text, &err));
        assert_int_equal(item.nbytes, strlen(want));
        assert_memory_equal(text, want, item.nbytes);
    }
    assert_ok(pst_dataset_column(mixture, place_of(mixture, "score"), 5, 4, scores, &err));
    assert_true(scores[0] == 5 && scores[1] == 6 && scores[2] == 100 && scores[3] == 101);
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(pst_dataset_nbytes(pst_dataset_source(mixture, i), &nbytes, &err));
        sum += nbytes;
    }
    assert_ok(pst_dataset_nbytes(mixture, &nbytes, &err));
    assert_int_equal(nbytes, sum);
    assert_ok(psti_dataset_check_index(mixture, &err));
    for (uint32_t i = 0; i < pst_dataset_n_files(mixture); i++)
        assert_ok(psti_dataset_check_shard(mixture, i, &err));
    pst_dataset_close(&mixture);
}

static void bad_numbers_are_errors(void **state)
{
    pst_dataset *sets[] = {pack(state, "a", &animals, 3, 0), pack(state, "b", &animals, 3, 0)};
    pst_dataset *mixture = mix(sets, 2), *alone = open_path(folder_path(state, "a"));
    int64_t label;
    uint32_t i_source;
    char path[4096];
    assert_int_equal(pst_dataset_int(mixture, 6, 0, &label, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.dataset, " + "));
    assert_int_equal(pst_dataset_int(mixture, UINT64_MAX, 0, &label, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_file_path(mixture, UINT32_MAX - 1, path, sizeof path, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(psti_dataset_check_shard(mixture, pst_dataset_n_files(mixture), &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_source_of(mixture, 6, &i_source, NULL, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_source_of(alone, 0, &i_source, NULL, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_dataset_n_sources(alone), 0);
    assert_int_equal(pst_dataset_source_first(alone, 0), 3);
    pst_dataset_close(&alone);
    pst_dataset_close(&mixture);
}

/* Sources with different class tables get one table, joined by the names of classes. */
static void classes_are_joined(void **state)
{
    static const char *const joined[] = {"cat", "dog", "hen", "fox"};
    static const int64_t numbers[] = {1, 3}; /* numbers of dog and fox in the joined table */
    pst_dataset *sets[] = {pack(state, "a", &animals, 6, 0), pack(state, "b", &others, 4, 0)};
    pst_dataset *mixture = mix(sets, 2);
    uint32_t i_label = place_of(mixture, "label"), i_tags = place_of(mixture, "tags");
    int64_t labels[10], tags[2], part = 0;
    struct pst_item item;
    for (uint32_t f = 0; f < 2; f++) {
        assert_int_equal(pst_dataset_field(mixture, f ? i_tags : i_label)->n_classes, 4);
        for (int64_t i = 0; i < 4; i++)
            assert_string_equal(pst_dataset_class_name(mixture, f ? i_tags : i_label, i),
                                joined[i]);
        assert_null(pst_dataset_class_name(mixture, f ? i_tags : i_label, 4));
        assert_null(pst_dataset_class_name(mixture, f ? i_tags : i_label, -1));
    }
    assert_ok(pst_dataset_column(mixture, i_label, 0, 10, labels, &err));
    for (uint64_t i = 0; i < 10; i++) {
        int64_t want = i < 6 ? (int64_t)i % 3 : numbers[(i - 6) % 2];
        assert_int_equal(label_of(mixture, i), want);
        assert_int_equal(labels[i], want);
        assert_ok(pst_dataset_item(mixture, i, i_tags, 0, &item, sizeof item, &err));
        assert_ok(pst_dataset_read(mixture, i, i_tags, 0, 0, 16, tags, &err));
        assert_int_equal(tags[0], want);
        assert_int_equal(tags[1], i < 6 ? (int64_t)(i + 1) % 3 : numbers[(i - 5) % 2]);
        /* Reads a part of the second element, of which only the first byte is not 0. */
        assert_ok(pst_dataset_read(mixture, i, i_tags, 0, 8, 3, &part, &err));
        assert_int_equal(part, tags[1]);
        assert_int_equal(pst_dataset_read(mixture, i, i_tags, 0, 8, 9, tags, &err),
                         PST_ERROR_ARGUMENT);
    }
    pst_dataset_close(&mixture);
}

static void tables_that_do_not_fit(void **state)
{
    const struct set bare = {.n_classes = 3, .nameless = true},
                     more = {.n_classes = 4, .nameless = true};
    const struct set twice = {.classes = {"crane", "crane"}, .n_classes = 2}, any = {0};
    const struct set narrow = {.classes = {"x"}, .n_classes = 1, .dtype = PST_DTYPE_U8};
    pst_dataset *a = pack(state, "a", &animals, 3, 0), *b = pack(state, "b", &bare, 3, 0);
    pst_dataset *c = pack(state, "c", &more, 3, 0), *d = pack(state, "d", &twice, 3, 0);
    pst_dataset *e = pack(state, "e", &any, 3, 0), *f = pack(state, "f", &narrow, 3, 0);
    refuses_two(a, b, "3 classes with names");
    assert_non_null(strstr(err.text, "/a)"));
    assert_non_null(strstr(err.text, "rename"));
    refuses_two(b, c, "do not fit together");
    refuses_two(a, e, "do not fit together");
    refuses_two(a, d, "two classes \"crane\"");
    refuses_two(a, f, "another dtype");
    pst_dataset *same[] = {b, open_path(folder_path(state, "b"))};
    pst_dataset *mixture = mix(same, 2); /* tables without names fit if they are equal */
    assert_int_equal(pst_dataset_field(mixture, 0)->n_classes, 3);
    pst_dataset_close(&mixture);
    same[0] = d; /* tables with a repeated name fit if they are equal */
    same[1] = open_path(folder_path(state, "d"));
    mixture = mix(same, 2);
    assert_int_equal(pst_dataset_field(mixture, 0)->n_classes, 2);
    pst_dataset_close(&mixture);
    pst_dataset_close(&a);
    pst_dataset_close(&c);
    pst_dataset_close(&e);
    pst_dataset_close(&f);
}

static void fields_may_be_lacking_or_renamed(void **state)
{
    const struct set points = {.classes = {"cat", "dog", "hen"}, .n_classes = 3, .score = "points"};
    const char *const renames[] = {"points", "score"}, *const unknown[] = {"pts", "score"};
    const char *const clash[] = {"points", "text"}, *const bad[] = {"points", "a b"};
    const char *const wanted[] = {"score", "label"}, *const lacking[] = {"points"},
                      *const nowhere[] = {"label", "size"};
    struct pst_mixture_source sources[] = {{.dataset = pack(state, "a", &animals, 3, 0)},
                                           {.dataset = pack(state, "b", &points, 3, 7)}};
    struct pst_mixture_options options = {.struct_size = sizeof options};
    pst_dataset *mixture = NULL;
    double score;
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "source 1 (1: ");
    assert_non_null(strstr(err.text, "lacks the field \"score\""));
    options.lacking = PST_LACKING_LEAVE_OUT;
    assert_ok(pst_dataset_open_many(sources, 2, &options, &mixture, &err));
    assert_int_equal(pst_dataset_n_fields(mixture), 3);
    pst_dataset_close(&mixture);
    options.fields = lacking; /* a field that the caller names must exist */
    options.n_fields = 1;
    refuses(sources, 2, &options, PST_ERROR_ARGUMENT, "lacks the field \"points\"");
    sources[1].renames = renames;
    sources[1].n_renames = 1;
    options.fields = wanted;
    options.n_fields = 2;
    assert_ok(pst_dataset_open_many(sources, 2, &options, &mixture, &err));
    assert_int_equal(pst_dataset_n_fields(mixture), 2); /* fields have the order of the data sets */
    assert_string_equal(pst_dataset_field(mixture, 0)->name, "label");
    assert_ok(pst_dataset_float(mixture, 3, 1, &score, &err));
    assert_true(score == 7);
    pst_dataset_close(&mixture);
    options.fields = nowhere;
    refuses(sources, 2, &options, PST_ERROR_ARGUMENT, "no source has a field \"size\"");
    sources[1].renames = unknown;
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "no field \"pts\"");
    sources[1].renames = clash;
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "would be called \"text\"");
    sources[1].renames = bad;
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "which has a name that is not");
    sources[1].renames = NULL;
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "renames of source 1");
    pst_dataset_close(&sources[0].dataset);
    pst_dataset_close(&sources[1].dataset);
}

static void two_fields_can_change_their_names(void **state)
{
    const char *const swap[] = {"label", "score", "score", "label"};
    const char *const only[] = {"text"};
    struct pst_mixture_source sources[] = {
        {.dataset = pack(state, "a", &animals, 2, 0)},
        {.dataset = pack(state, "b", &animals, 2, 0), .renames = swap, .n_renames = 2}};
    struct pst_mixture_options options = {
        .struct_size = sizeof options, .fields = only, .n_fields = 1};
    pst_dataset *mixture = NULL;
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "another type");
    assert_non_null(strstr(err.text, "float"));
    assert_ok(pst_dataset_open_many(sources, 2, &options, &mixture, &err));
    pst_dataset_close(&mixture);
    pst_dataset_close(&sources[0].dataset);
    pst_dataset_close(&sources[1].dataset);
}

static void names_of_sources(void **state)
{
    char longest[80];
    pst_dataset *first = pack(state, "a", &animals, 2, 0);
    struct pst_mixture_source sources[] = {
        {.dataset = first, .name = "web"},
        {.dataset = pack(state, "b", &animals, 2, 0), .name = "web"}};
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "sources 0 and 1 have the same name \"web\"");
    sources[1].name = "";
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "is empty");
    sources[1].name = "a/b";
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "has a \"/\"");
    sources[1].name = "\xff";
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "is not UTF-8");
    memset(longest, 'x', sizeof longest);
    longest[64] = 0;
    sources[1].name = longest;
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "longer than 63");
    sources[1].name = NULL;
    sources[0].name = "1";
    refuses(sources, 2, NULL, PST_ERROR_ARGUMENT, "the same name \"1\"");
    sources[0].dataset = NULL;
    refuses(sources, 1, NULL, PST_ERROR_ARGUMENT, "the data set of source 0 is NULL");
    refuses(sources, 0, NULL, PST_ERROR_ARGUMENT, "one source or more");
    refuses(sources, PST_MAX_SOURCES + 1, NULL, PST_ERROR_LIMIT, "at most 4096");
    struct pst_mixture_options options = {.struct_size = sizeof options, .lacking = 2};
    refuses(sources, 1, &options, PST_ERROR_ARGUMENT, "lacking");
    options.struct_size = 0;
    refuses(sources, 1, &options, PST_ERROR_ARGUMENT, "struct_size");
    pst_dataset_close(&first);
    pst_dataset_close(&sources[1].dataset);
}

static void mixtures_in_mixtures_are_flat(void **state)
{
    pst_dataset *inner[] = {pack(state, "a", &animals, 2, 0), pack(state, "b", &others, 3, 0)};
    pst_dataset *outer[] = {mix(inner, 2), pack(state, "c", &others, 2, 0)};
    pst_dataset *flat[] = {open_path(folder_path(state, "a")), open_path(folder_path(state, "b")),
                           open_path(folder_path(state, "c"))};
    pst_dataset *nested = mix(outer, 2), *mixture = mix(flat, 3);
    uint8_t a[16], b[16];
    assert_int_equal(pst_dataset_n_sources(nested), 3);
    assert_string_equal(pst_dataset_source_name(nested, 1), "0/1");
    assert_name(nested, 4, "0/1/s2");
    assert_name(nested, 5, "1/s0");
    for (uint64_t i = 0; i < 7; i++)
        assert_int_equal(label_of(nested, i), label_of(mixture, i));
    for (int kind = PST_IDENTITY_BYTES; kind <= PST_IDENTITY_LISTED; kind++) {
        assert_ok(pst_dataset_identity(nested, (enum pst_identity)kind, a, &err));
        assert_ok(pst_dataset_identity(mixture, (enum pst_identity)kind, b, &err));
        assert_memory_equal(a, b, 16);
    }
    pst_dataset_close(&nested);
    pst_dataset_close(&mixture);
}

static void many_sources(void **state)
{
    enum { N = PST_MAX_SOURCES };
    struct pst_mixture_source *sources = calloc(N + 1, sizeof *sources);
    pst_dataset *set = pack(state, "a", &animals, 2, 0), *mixture = NULL;
    assert_non_null(sources);
    for (size_t i = 0; i < N; i++)
        sources[i].dataset = set; /* all sources are the same data set */
    assert_ok(pst_dataset_open_many(sources, N, NULL, &mixture, &err));
    assert_int_equal(pst_dataset_count(mixture), 2 * N);
    assert_int_equal(label_of(mixture, 2 * N - 1), 1);
    assert_name(mixture, 2 * 100 + 1, "100/s1");
    sources[0].dataset = mixture;
    refuses(sources, 2, NULL, PST_ERROR_LIMIT, "counted");
    pst_dataset_close(&mixture);
    pst_dataset_close(&set);
    free(sources);
}

static void identity_of(pst_dataset *mixture, enum pst_identity kind, uint8_t identity[16])
{
    assert_ok(pst_dataset_identity(mixture, kind, identity, &err));
    pst_dataset_close(&mixture);
}

static pst_dataset *pair(void **state, const char *a, const char *b, const char *name)
{
    struct pst_mixture_source sources[] = {
        {.dataset = open_path(folder_path(state, a)), .name = name},
        {.dataset = open_path(folder_path(state, b))}};
    pst_dataset *mixture = NULL;
    assert_ok(pst_dataset_open_many(sources, 2, NULL, &mixture, &err));
    pst_dataset_close(&sources[0].dataset);
    pst_dataset_close(&sources[1].dataset);
    return mixture;
}

static void identities(void **state)
{
    pst_dataset *sets[] = {pack(state, "a", &animals, 3, 0), pack(state, "b", &animals, 3, 9),
                           pack(state, "c", &animals, 3, 9)};
    uint8_t first[16], other[16];
    for (int i = 0; i < 3; i++)
        pst_dataset_close(&sets[i]);
    for (int kind = PST_IDENTITY_BYTES; kind <= PST_IDENTITY_LISTED; kind++) {
        identity_of(pair(state, "a", "b", NULL), (enum pst_identity)kind, first);
        identity_of(pair(state, "a", "b", "web"), (enum pst_identity)kind, other);
        assert_memory_equal(first, other, 16); /* names of sources do not change the identity */
        identity_of(pair(state, "a", "c", NULL), (enum pst_identity)kind, other);
        /* the path of the data does not change the identity */
        assert_memory_equal(first, other, 16);
        identity_of(pair(state, "b", "a", NULL), (enum pst_identity)kind, other);
        assert_memory_not_equal(first, other, 16); /* the order of sources changes the identity */
        identity_of(pair(state, "a", "a", NULL), (enum pst_identity)kind, other);
        assert_memory_not_equal(first, other, 16);
        identity_of(open_path(folder_path(state, "a")), (enum pst_identity)kind, other);
        assert_memory_not_equal(first, other, 16);
    }
    pst_dataset *mixture = pair(state, "a", "b", NULL);
    assert_int_equal(pst_dataset_identity(mixture, PST_IDENTITY_FILES, other, &err),
                     PST_ERROR_NOT_FOUND);
    assert_ok(psti_dataset_check_identity(mixture, &err));
    pst_dataset_close(&mixture);
}

/* Tests of folders and tars
 * ---------------------------------------------------------------------- */

static void write_tar(void **state, const char *name)
{
    struct tar tar = {0};
    char member[64];
    for (int i = 0; i < 4; i++) {
        snprintf(member, sizeof member, "t%d.jpg", i);
        tar_file(&tar, member, "tarred!!", (size_t)(4 + i));
    }
    tar_zeros(&tar, 1024);
    folder_file(state, name, tar.bytes, tar.nbytes);
    tar_free(&tar);
}

static void kinds_are_mixed(void **state)
{
    char path[4096], bytes[16];
    struct pst_item item;
    setenv("PENSTOCK_CACHE_DIR", folder_path(state, "cache"), 1);
    folder_text(state, "f/a.jpg", "one");
    folder_text(state, "f/b.jpg", "three");
    folder_text(state, "g/c.jpg", "seven77");
    write_tar(state, "t/x.tar");
    pst_dataset *sets[] = {open_path(folder_path(state, "f")),
                           open_path(folder_path(state, "t/x.tar")),
                           open_path(folder_path(state, "g"))};
    pst_dataset *mixture = mix(sets, 3);
    assert_int_equal(pst_dataset_count(mixture), 7);
    assert_false(pst_dataset_is_packed(mixture));
    assert_int_equal(pst_dataset_n_files(mixture), 4);
    /* files of the tar come before those of the folder */
    assert_int_equal(psti_dataset_n_shared_files(mixture), 1);
    assert_true(psti_dataset_has_lone_files(mixture));
    assert_int_equal(pst_dataset_max_item_nbytes(mixture, 0), 7);
    static const struct {
        const char *path, *bytes;
        uint32_t i_file;
    } wanted[] = {{"f/a.jpg", "one", 1},    {"f/b.jpg", "three", 2},  {"t/x.tar", "tarr", 0},
                  {"t/x.tar", "tarre", 0},  {"t/x.tar", "tarred", 0}, {"t/x.tar", "tarred!", 0},
                  {"g/c.jpg", "seven77", 3}};
    for (uint64_t i = 0; i < 7; i++) {
        size_t n = strlen(wanted[i].bytes);
        assert_ok(pst_dataset_item(mixture, i, 0, 0, &item, sizeof item, &err));
        assert_int_equal(item.i_file, wanted[i].i_file);
        assert_int_equal(item.nbytes, n);
        assert_ok(pst_dataset_file_path(mixture, item.i_file, path, sizeof path, &err));
        assert_string_equal(path, folder_path(state, wanted[i].path));
        assert_ok(pst_dataset_read(mixture, i, 0, 0, 0, n, bytes, &err));
        assert_memory_equal(bytes, wanted[i].bytes, n);
    }
    pst_dataset_close(&mixture);
}

static void errors_name_the_source(void **state)
{
    char line[2048], bytes[16];
    folder_text(state, "f/a.jpg", "one");
    folder_text(state, "g/b.jpg", "two");
    folder_text(state, "g/c.jpg", "three");
    pst_dataset *sets[] = {open_path(folder_path(state, "f")), open_path(folder_path(state, "g"))};
    pst_dataset *mixture = mix(sets, 2);
    assert_int_equal(unlink(folder_path(state, "g/c.jpg")), 0);
    assert_int_equal(pst_dataset_read(mixture, 2, 0, 0, 0, 5, bytes, &err), PST_ERROR_NOT_FOUND);
    assert_string_equal(err.dataset, folder_path(state, "g"));
    assert_int_equal(err.sample, 2);
    assert_int_equal(err.source_sample_plus_1, 2);
    pst_error_format(&err, line, sizeof line);
    assert_non_null(strstr(line, "/g', sample 1 (2 of the mixture), file '"));
    pst_dataset_close(&mixture);
}

static void order_by_path(void **state)
{
    static const uint32_t wanted[] = {0, 2, 1, 3, 4};
    static const char *const files[] = {"c.jpg", "b.jpg"};
    const struct pst_dataset_options listed = {
        .struct_size = sizeof listed, .files = files, .n_files = 2};
    uint32_t *samples = NULL;
    folder_text(state, "f/a.jpg", "one");
    folder_text(state, "g/b.jpg", "two");
    folder_text(state, "g/c.jpg", "three");
    folder_text(state, "h/d.jpg", "four");
    folder_text(state, "h/e.jpg", "five");
    pst_dataset *sets[] = {open_path(folder_path(state, "f")), NULL,
                           open_path(folder_path(state, "h"))};
    assert_ok(pst_dataset_open(folder_path(state, "g"), &listed, &sets[1], &err));
    pst_dataset *mixture = mix(sets, 3);
    assert_ok(psti_dataset_by_path(mixture, &samples, &err));
    assert_non_null(samples);
    assert_memory_equal(samples, wanted, sizeof wanted);
    psti_free(samples);
    pst_dataset_close(&mixture);
}

/* If an allocation fails, opening fails and leaves nothing behind. */
static void no_memory(void **state)
{
#ifndef PST_FAULTS
    (void)state;
    skip();
#else
    const char *const renames[] = {"score", "points"};
    struct pst_mixture_source sources[] = {
        {.dataset = pack(state, "a", &animals, 3, 0), .renames = renames, .n_renames = 1},
        {.dataset = pack(state, "b", &others, 3, 0), .renames = renames, .n_renames = 1}};
    struct pst_memory_stats before, after;
    pst_dataset *mixture = NULL;
    uint64_t n = 0;
    pst_memory_stats(&before, sizeof before);
    while (mixture == NULL) {
        psti_fault_arm(PSTI_FAULT_ALLOC, ++n, false);
        enum pst_status status = pst_dataset_open_many(sources, 2, NULL, &mixture, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        pst_memory_stats(&after, sizeof after);
        assert_int_equal(status, mixture == NULL ? PST_ERROR_MEMORY : PST_OK);
        assert_true(mixture != NULL || after.live_nbytes == before.live_nbytes);
        assert_true(n < 1000);
    }
    assert_true(n > 10);
    pst_dataset_close(&mixture);
    pst_dataset_close(&sources[0].dataset);
    pst_dataset_close(&sources[1].dataset);
#endif
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(samples_follow_one_another),
        TEST(bad_numbers_are_errors),
        TEST(classes_are_joined),
        TEST(tables_that_do_not_fit),
        TEST(fields_may_be_lacking_or_renamed),
        TEST(two_fields_can_change_their_names),
        TEST(names_of_sources),
        TEST(mixtures_in_mixtures_are_flat),
        TEST(many_sources),
        TEST(identities),
        TEST(kinds_are_mixed),
        TEST(errors_name_the_source),
        TEST(order_by_path),
        TEST(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
