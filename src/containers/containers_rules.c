/* containers_rules.c - tables of suffixes and their types, and how field names are made of
 * suffixes.
 *
 * In: the part of a member's base name behind the first dot. Out: type and name of the field. */
#include "containers/containers_rules.h"

#include "format/format_dataset.h"

#include <string.h>

_Static_assert(sizeof(((struct pst_field *)NULL)->name) == PSTI_FIELD_NAME_CAP, "a name's room");

/* Field type by the last component of a suffix. Image and audio extensions are those that Penstock
 * decodes. The lists for plain folders (dataset_folder_kind.c) must have the same extensions. */
static const struct {
    const char *extension;
    enum pst_field_type type;
    bool is_code;
} extensions[] = {
    {"jpg", PST_FIELD_IMAGE, false},       {"jpeg", PST_FIELD_IMAGE, false},
    {"png", PST_FIELD_IMAGE, false},       {"webp", PST_FIELD_IMAGE, false},
    {"pli", PST_FIELD_IMAGE, false},       {"wav", PST_FIELD_AUDIO, false},
    {"flac", PST_FIELD_AUDIO, false},      {"mp3", PST_FIELD_AUDIO, false},
    {"ogg", PST_FIELD_AUDIO, false},       {"oga", PST_FIELD_AUDIO, false},
    {"opus", PST_FIELD_AUDIO, false},      {"aiff", PST_FIELD_AUDIO, false},
    {"aif", PST_FIELD_AUDIO, false},       {"cls", PST_FIELD_INT, false},
    {"cls2", PST_FIELD_INT, false},        {"index", PST_FIELD_INT, false},
    {"inx", PST_FIELD_INT, false},         {"id", PST_FIELD_INT, false},
    {"txt", PST_FIELD_TEXT, false},        {"text", PST_FIELD_TEXT, false},
    {"transcript", PST_FIELD_TEXT, false}, {"json", PST_FIELD_JSON, false},
    {"jsn", PST_FIELD_JSON, false},        {"npy", PST_FIELD_ARRAY, false},
    {"pkl", PST_FIELD_BYTES, true},        {"pickle", PST_FIELD_BYTES, true},
    {"pyd", PST_FIELD_BYTES, true},        {"pth", PST_FIELD_BYTES, true},
    {"pt", PST_FIELD_BYTES, true},         {"joblib", PST_FIELD_BYTES, true},
};

/* Suffixes whose field has another name than the suffix. */
static const struct {
    const char *suffix, *name;
} renamed[] = {
    {"cls", "label"},
    {"txt", "text"},
    {"jsn", "json"},
};

/* True if a component of the suffix, such as "seg", says that the image is a mask. */
static bool says_mask(const char *suffix)
{
    static const char *const words[] = {"mask",     "masks",    "seg",      "segmentation",
                                        "semantic", "instance", "instances"};
    for (const char *at = suffix; *at != '\0'; at += strspn(at, ".")) {
        size_t n = strcspn(at, ".");
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i]) == n && memcmp(at, words[i], n) == 0)
                return true;
        at += n;
    }
    return false;
}

bool psti_containers_rule_name(const char *text, size_t nbytes, char name[PSTI_FIELD_NAME_CAP])
{
    size_t n = 0;
    char first = nbytes > 0 ? text[0] : '\0';
    if (!((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_'))
        name[n++] = '_';
    for (size_t i = 0; i < nbytes && n + 1 < PSTI_FIELD_NAME_CAP; i++) {
        char c = text[i];
        bool is_legal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
        name[n++] = (char)(is_legal ? c : '_');
    }
    name[n] = '\0';
    if (strcmp(name, "index") == 0)
        memcpy(name, "index_", sizeof "index_");
    return strlen(name) != nbytes || memcmp(name, text, nbytes) != 0;
}

void psti_containers_rule(const char *suffix, struct psti_suffix_rule *rule)
{
    const char *dot = strrchr(suffix, '.'), *last = dot == NULL ? suffix : dot + 1;
    size_t before = dot == NULL ? 0 : (size_t)(dot - suffix);
    *rule = (struct psti_suffix_rule){.type = PST_FIELD_BYTES};
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
        if (strcmp(last, extensions[i].extension) == 0) {
            rule->type = extensions[i].type;
            rule->is_code = extensions[i].is_code;
        }
    if (rule->type == PST_FIELD_IMAGE && says_mask(suffix))
        rule->type = PST_FIELD_MASK;
    bool is_decoded = psti_format_is_image(rule->type) || rule->type == PST_FIELD_AUDIO;
    if (is_decoded && before > 0) {
        rule->is_changed = psti_containers_rule_name(suffix, before, rule->name);
        return;
    }
    const char *name = !is_decoded ? suffix : rule->type == PST_FIELD_AUDIO ? "audio" : "image";
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(suffix, renamed[i].suffix) == 0)
            name = renamed[i].name;
    rule->is_changed = psti_containers_rule_name(name, strlen(name), rule->name);
}
