/* pack_mix.c - reads a plan file (docs/format-plan.md): classes of samples, and how shares of them
 * are stored.
 *
 * In: untrusted JSON. Out: checked classes and ways. src/format first proves that the whole text is
 * JSON, so a later search for values cannot run beyond its end. Members that are not about storing
 * are ignored. Any thread. */
#include "pack/pack_mix.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/files/read.h"
#include "format/format_dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LIMIT_NBYTES ((size_t)16 << 20)
#define SHARES_TOLERANCE 1e-6
#define PIXELS_LIMIT 9007199254740992.0 /* 2^53: JSON numbers are exact up to here */

enum { PLAN_VERSION = 1, WHERE_CAP = 64, SIDE_MAX = 65535 };

/* A value within the JSON text: [at, end). */
struct value {
    const char *at, *end;
};

/* Where the parser is, for messages such as: class 2, way 1: "share" ... */
struct parse {
    struct psti_pack_mix *mix;
    uint32_t i_class, i_way;
    bool in_class, in_way;
    struct pst_error *err;
};

static enum pst_status fail(const struct parse *parse, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static enum pst_status fail(const struct parse *parse, const char *format, ...)
{
    char text[PST_ERROR_TEXT_CAP], where[WHERE_CAP] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (parse->in_way)
        snprintf(where, sizeof where, "class %" PRIu32 ", way %" PRIu32 ": ", parse->i_class,
                 parse->i_way);
    else if (parse->in_class)
        snprintf(where, sizeof where, "class %" PRIu32 ": ", parse->i_class);
    return psti_fail(parse->err, PST_ERROR_ARGUMENT, "pack", "the plan: %s%.160s", where, text);
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
        at++;
    return at;
}

/* Returns the JSON value at `at`, without white space around it. */
static struct value value_at(const char *at, const char *end)
{
    struct value value = {skip_space(at, end), end};
    const char *behind = value.at;
    (void)psti_format_json_skip(&behind, end); /* cannot fail: the text was proved to be JSON */
    value.end = behind;
    return value;
}

/* Moves *at to the next element of a list, or member of an object. *at must be behind the opening
 * bracket or the previous element. Returns false at the end. */
static bool next_element(const char **at, const char *end)
{
    *at = skip_space(*at, end);
    if (*at < end && **at == ',')
        *at = skip_space(*at + 1, end);
    return *at < end && **at != ']' && **at != '}';
}

static bool is_kind(struct value value, char first)
{
    return value.at < value.end && *value.at == first;
}

/* Finds a member of an object; if several have the name, the last. Returns false if `object` is no
 * object, there is no such member, or it is null. */
static bool find_member(struct value object, const char *name, struct value *found)
{
    const char *at = object.at + 1;
    size_t n = strlen(name);
    bool is_there = false;
    while (next_element(&at, object.end)) {
        struct value key = value_at(at, object.end);
        at = skip_space(key.end, object.end);
        struct value value = value_at(at + 1, object.end); /* behind the colon */
        at = value.end;
        if ((size_t)(key.end - key.at) == n + 2 && memcmp(key.at + 1, name, n) == 0) {
            *found = value;
            is_there = *value.at != 'n';
        }
    }
    return is_there;
}

/* Copies a JSON string without escapes. Returns false if it is no string, has an escape or does not
 * fit. */
static bool take_text(struct value value, char *out, size_t capacity)
{
    size_t n = (size_t)(value.end - value.at);
    if (!is_kind(value, '"') || n - 2 >= capacity || memchr(value.at, '\\', n) != NULL)
        return false;
    memcpy(out, value.at + 1, n - 2);
    out[n - 2] = '\0';
    return true;
}

/* Parses in the C locale, because the host program may have set a locale that writes 1.5 as 1,5. */
static bool take_number(struct value value, double *number)
{
    char text[64];
    size_t n = (size_t)(value.end - value.at);
    if (n == 0 || n >= sizeof text || strchr("-0123456789", *value.at) == NULL)
        return false;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return false;
    memcpy(text, value.at, n);
    text[n] = '\0';
    *number = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    return isfinite(*number);
}

/* Reads an integer of 0 or more. */
static bool take_count(struct value value, uint64_t *count)
{
    double number;
    if (!take_number(value, &number) || number < 0 || number > PIXELS_LIMIT ||
        number != (double)(uint64_t)number)
        return false;
    *count = (uint64_t)number;
    return true;
}

/* Reads "resize" of a form. All forms of a way must have the same "resize". */
static enum pst_status read_resize(struct parse *parse, struct value item,
                                   struct psti_pack_way *way)
{
    uint64_t side = 0;
    struct value member;
    if (find_member(item, "resize", &member) &&
        (!take_count(member, &side) || side == 0 || side > SIDE_MAX))
        return fail(parse, "\"resize\" must be a whole number from 1 to %d", SIDE_MAX);
    if (way->store.n > 0 && way->resize != side)
        return fail(parse, "the forms of \"store\" must have the same \"resize\"");
    way->resize = (uint32_t)side;
    return PST_OK;
}

static enum pst_status read_store(struct parse *parse, struct value item,
                                  struct psti_pack_forms *store)
{
    static const char *const tiers[] = {"fast", "small", "dense"};
    char form[32], tier[32];
    struct value member;
    if (!is_kind(item, '{') || !find_member(item, "form", &member) ||
        !take_text(member, form, sizeof form))
        return fail(parse, "\"store\" has an element without a text \"form\"");
    enum pst_form found = pst_form_from_name(form);
    bool is_original = strcmp(form, "original") == 0;
    if (!is_original && (found == PST_FORM_NONE || found == PST_FORM_BYTES))
        return fail(parse,
                    "\"store\" asks for the form \"%s\": pli-jpeg, original, raw, pli, jpeg, png "
                    "and webp are possible",
                    form);
    for (uint32_t i = 0; i < store->n; i++)
        if (store->forms[i] == found)
            return fail(parse, "\"store\" asks for the form \"%s\" twice", form);
    enum pst_pli_tier wanted = 0;
    if (find_member(item, "tier", &member)) {
        bool is_text = take_text(member, tier, sizeof tier);
        for (unsigned i = 0; is_text && i < sizeof tiers / sizeof tiers[0]; i++)
            if (strcmp(tier, tiers[i]) == 0)
                wanted = (enum pst_pli_tier)(i + 1);
        if (wanted == 0)
            return fail(parse, "\"tier\" of the form \"%s\" must be fast, small or dense", form);
        if (found != PST_FORM_PLI)
            return fail(parse, "\"tier\" goes with the form pli, not with \"%s\"", form);
    }
    uint64_t max_error = 0;
    if (find_member(item, "max_error", &member) &&
        (!take_count(member, &max_error) || max_error > 127 || found != PST_FORM_PLI))
        return fail(parse, "\"max_error\" must be 0 to 127, of the form pli");
    if (store->n == PST_MAX_VARIANTS)
        return fail(parse, "\"store\" has more than %d forms", PST_MAX_VARIANTS);
    store->forms[store->n] = found;
    store->max_errors[store->n] = (uint32_t)max_error;
    store->tiers[store->n++] = wanted;
    return PST_OK;
}

static enum pst_status read_way(struct parse *parse, struct value way, struct psti_pack_way *out)
{
    struct value member;
    memset(out, 0, sizeof *out);
    if (!is_kind(way, '{'))
        return fail(parse, "a way must be an object");
    if (!find_member(way, "share", &member) || !take_number(member, &out->share) ||
        out->share < 0 || out->share > 1)
        return fail(parse, "\"share\" must be a number from 0 to 1");
    if (!find_member(way, "store", &member) || !is_kind(member, '['))
        return fail(parse, "\"store\" must be a list of forms");
    enum pst_status status = PST_OK;
    for (const char *at = member.at + 1; status == PST_OK && next_element(&at, member.end);) {
        struct value item = value_at(at, member.end);
        status = is_kind(item, '{') ? read_resize(parse, item, out) : PST_OK;
        if (status == PST_OK)
            status = read_store(parse, item, &out->store);
        at = item.end;
    }
    if (status == PST_OK && out->store.n == 0)
        status = fail(parse, "\"store\" is empty: every sample needs a form");
    return status;
}

static uint32_t count_elements(struct value list, uint32_t most)
{
    uint32_t n = 0;
    for (const char *at = list.at + 1; n <= most && next_element(&at, list.end); n++)
        at = value_at(at, list.end).end;
    return n;
}

static enum pst_status read_ways(struct parse *parse, struct value list,
                                 struct psti_pack_class *class_)
{
    struct psti_pack_mix *mix = parse->mix;
    uint32_t n = count_elements(list, PSTI_PACK_WAYS_MAX);
    double sum = 0;
    if (n == 0 || n > PSTI_PACK_WAYS_MAX)
        return fail(parse, "\"ways\" must have 1 to %d elements", PSTI_PACK_WAYS_MAX);
    struct psti_pack_way *ways =
        psti_realloc(mix->ways, (size_t)(mix->n_ways + n) * sizeof *mix->ways);
    if (ways == NULL)
        return psti_fail(parse->err, PST_ERROR_MEMORY, "pack", "out of memory for a plan");
    mix->ways = ways;
    class_->first_way = mix->n_ways;
    class_->n_ways = n;
    mix->n_ways += n;
    const char *at = list.at + 1;
    for (uint32_t i = 0; i < n && next_element(&at, list.end); i++) {
        struct value way = value_at(at, list.end);
        parse->i_way = i;
        parse->in_way = true;
        enum pst_status status = read_way(parse, way, &ways[class_->first_way + i]);
        if (status != PST_OK)
            return status;
        sum += ways[class_->first_way + i].share;
        at = way.end;
    }
    parse->in_way = false;
    return fabs(sum - 1) <= SHARES_TOLERANCE
               ? PST_OK
               : fail(parse, "the \"share\" of its \"ways\" add up to %.9g, not to 1", sum);
}

static enum pst_status read_pixels(struct parse *parse, struct value list,
                                   struct psti_pack_class *class_)
{
    const char *at = list.at + 1;
    struct value bounds[2];
    bool ok = count_elements(list, 3) == 2;
    for (int i = 0; ok && i < 2 && next_element(&at, list.end); i++) {
        bounds[i] = value_at(at, list.end);
        at = bounds[i].end;
    }
    ok = ok && take_count(bounds[0], &class_->least);
    class_->end = UINT64_MAX;
    if (ok && *bounds[1].at != 'n')
        ok = take_count(bounds[1], &class_->end);
    return ok && class_->least < class_->end
               ? PST_OK
               : fail(parse, "\"pixels\" must be [least, end] with whole numbers, 0 <= least < "
                             "end, or null for no end");
}

static bool overlaps(const struct psti_pack_class *a, const struct psti_pack_class *b)
{
    return a->form == b->form && a->least < b->end && b->least < a->end;
}

static enum pst_status read_class(struct parse *parse, struct value of,
                                  struct psti_pack_class *class_)
{
    struct value member;
    char form[32];
    if (!is_kind(of, '{'))
        return fail(parse, "a class must be an object");
    if (!find_member(of, "form", &member) || !take_text(member, form, sizeof form))
        return fail(parse, "\"form\" must be a text");
    class_->form = pst_form_from_name(form);
    if (class_->form == PST_FORM_NONE || class_->form == PST_FORM_BYTES)
        return fail(
            parse, "\"form\" is \"%s\": jpeg, png, webp, pli-jpeg, pli and raw are possible", form);
    if (!find_member(of, "pixels", &member) || !is_kind(member, '['))
        return fail(parse, "\"pixels\" must be a list of two numbers");
    enum pst_status status = read_pixels(parse, member, class_);
    if (status != PST_OK)
        return status;
    for (uint32_t i = 0; i < parse->i_class; i++)
        if (overlaps(&parse->mix->classes[i], class_))
            return fail(parse,
                        "its \"pixels\" overlap those of class %" PRIu32
                        ", which is of the same \"form\"",
                        i);
    if (!find_member(of, "ways", &member) || !is_kind(member, '['))
        return fail(parse, "\"ways\" must be a list");
    return read_ways(parse, member, class_);
}

static enum pst_status read_classes(struct parse *parse, struct value list)
{
    struct psti_pack_mix *mix = parse->mix;
    uint32_t n = count_elements(list, PSTI_PACK_CLASSES_MAX);
    if (n > PSTI_PACK_CLASSES_MAX)
        return fail(parse, "\"classes\" has more than %d elements", PSTI_PACK_CLASSES_MAX);
    mix->classes = psti_calloc(n > 0 ? n : 1, sizeof *mix->classes);
    if (mix->classes == NULL)
        return psti_fail(parse->err, PST_ERROR_MEMORY, "pack", "out of memory for a plan");
    enum pst_status status = PST_OK;
    const char *at = list.at + 1;
    for (uint32_t i = 0; status == PST_OK && i < n && next_element(&at, list.end); i++) {
        struct value of = value_at(at, list.end);
        parse->i_class = i;
        parse->in_class = true;
        status = read_class(parse, of, &mix->classes[i]);
        mix->n_classes = i + 1;
        at = of.end;
    }
    parse->in_class = parse->in_class && status != PST_OK;
    return status;
}

static enum pst_status read_plan(struct parse *parse, struct value root)
{
    struct value member;
    char kind[32];
    double version;
    if (!is_kind(root, '{') || !find_member(root, "kind", &member) ||
        !take_text(member, kind, sizeof kind) || strcmp(kind, "penstock plan") != 0)
        return fail(parse, "\"kind\" is not \"penstock plan\": this is no plan file");
    if (!find_member(root, "version", &member) || !take_number(member, &version) || version < 1 ||
        version > 1e6 || version != (double)(uint64_t)version)
        return fail(parse, "\"version\" must be a whole number from 1 on");
    if (version > PLAN_VERSION)
        return psti_fail(parse->err, PST_ERROR_VERSION, "pack",
                         "the plan has version %.0f, this library reads up to %d", version,
                         PLAN_VERSION);
    if (find_member(root, "field", &member) &&
        !take_text(member, parse->mix->field, sizeof parse->mix->field))
        return fail(parse, "\"field\" must be the name of a field");
    if (!find_member(root, "classes", &member) || !is_kind(member, '['))
        return fail(parse, "\"classes\" must be a list");
    return read_classes(parse, member);
}

enum pst_status psti_pack_mix_parse(const char *text, size_t nbytes, struct psti_pack_mix *mix,
                                    struct pst_error *err)
{
    struct parse parse = {.mix = mix, .err = err};
    memset(mix, 0, sizeof *mix);
    snprintf(mix->field, sizeof mix->field, "image");
    const char *problem = psti_format_json_problem(text, nbytes);
    enum pst_status status = problem != NULL ? fail(&parse, "it is not JSON: the text %s", problem)
                                             : read_plan(&parse, value_at(text, text + nbytes));
    if (status != PST_OK)
        psti_pack_mix_free(mix);
    return status;
}

enum pst_status psti_pack_mix_read(const char *path, struct psti_pack_mix *mix,
                                   struct pst_error *err)
{
    struct stat st;
    char *text = NULL;
    memset(mix, 0, sizeof *mix);
    int fd;
    enum pst_status status = psti_open_data(path, "pack", "the plan", &fd, &st, err);
    if (status != PST_OK)
        return status;
    if ((uint64_t)st.st_size > FILE_LIMIT_NBYTES)
        status = psti_fail(err, PST_ERROR_LIMIT, "pack", "the plan is larger than 16 MiB");
    if (status == PST_OK && (text = psti_alloc((size_t)st.st_size + 1)) == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for a plan");
    if (status == PST_OK) {
        ssize_t n = psti_read_at(fd, text, (size_t)st.st_size, 0);
        status = n < 0 ? psti_fail_os(err, errno, "pack", path, 0, "cannot read the plan")
                       : psti_pack_mix_parse(text, (size_t)n, mix, err);
    }
    psti_error_set_file(status == PST_OK ? NULL : err, path);
    psti_free(text);
    close(fd);
    return status;
}

void psti_pack_mix_free(struct psti_pack_mix *mix)
{
    psti_free(mix->classes);
    psti_free(mix->ways);
    mix->classes = NULL;
    mix->ways = NULL;
    mix->n_classes = mix->n_ways = 0;
}

uint64_t psti_pack_mix_hash(const struct psti_pack_mix *mix)
{
    struct psti_hash_state state;
    psti_hash_begin(&state);
    psti_hash_update(&state, mix->field, strlen(mix->field) + 1);
    for (uint32_t i = 0; i < mix->n_classes; i++) {
        const struct psti_pack_class *class_ = &mix->classes[i];
        const uint64_t numbers[] = {(uint64_t)class_->form, class_->least, class_->end,
                                    class_->n_ways};
        psti_hash_update(&state, numbers, sizeof numbers);
    }
    for (uint32_t i = 0; i < mix->n_ways; i++) {
        const struct psti_pack_way *way = &mix->ways[i];
        psti_hash_update(&state, &way->share, sizeof way->share);
        if (way->resize > 0)
            psti_hash_update(&state, &way->resize, sizeof way->resize);
        psti_hash_update(&state, &way->store.n, sizeof way->store.n);
        psti_hash_update(&state, way->store.forms, sizeof way->store.forms);
        psti_hash_update(&state, way->store.tiers, sizeof way->store.tiers);
        psti_hash_update(&state, way->store.max_errors, sizeof way->store.max_errors);
    }
    return psti_hash_end(&state);
}
