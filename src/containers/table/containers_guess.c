/* containers_guess.c - recognises images, sounds, texts and masks by first bytes or names, and
 * declares columns whose type is guessed. */
#include "containers/table/containers_guess.h"

#include "format/format_dataset.h"

#include <string.h>
#include <strings.h>

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

enum pst_field_type psti_containers_guess(const uint8_t *bytes, size_t n)
{
    static const struct {
        const char *magic;
        uint8_t nbytes, image; /* image: true for an image, false for a sound */
    } kinds[] = {
        {"\xFF\xD8\xFF", 3, true}, {"\x89PNG\r\n\x1A\n", 8, true},
        {"\x89PLI", 4, true},      {"fLaC", 4, false},
        {"OggS", 4, false},        {"ID3", 3, false},
        {"\xFF\xFB", 2, false}, /* MPEG 1 and 2, layer III, without a CRC */
        {"\xFF\xF3", 2, false},    {"\xFF\xF2", 2, false},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= kinds[i].nbytes && memcmp(bytes, kinds[i].magic, kinds[i].nbytes) == 0)
            return kinds[i].image ? PST_FIELD_IMAGE : PST_FIELD_AUDIO;
    if (n < PSTI_GUESS_NBYTES)
        return PST_FIELD_BYTES;
    if (memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
        return PST_FIELD_IMAGE;
    bool is_wave = memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WAVE", 4) == 0;
    bool is_aiff = memcmp(bytes, "FORM", 4) == 0 && memcmp(bytes + 8, "AIF", 3) == 0;
    return is_wave || is_aiff ? PST_FIELD_AUDIO : PST_FIELD_BYTES;
}

bool psti_containers_guess_text(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((bytes[i] < 0x20 && bytes[i] != '\t' && bytes[i] != '\n' && bytes[i] != '\r') ||
            bytes[i] == 0x7F)
            return false;
    return psti_format_is_utf8(bytes, n);
}

bool psti_containers_guess_mask(const char *name)
{
    static const char *const words[] = {"mask",     "masks",    "seg",      "segmentation",
                                        "semantic", "instance", "instances"};
    while (*name != '\0') {
        size_t n = 0;
        while (is_letter(name[n]))
            n++;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i]) == n && strncasecmp(name, words[i], n) == 0)
                return true;
        name += n > 0 ? n : 1;
    }
    return false;
}

enum pst_status psti_containers_guess_add(struct psti_containers_columns *columns,
                                          const struct psti_column *column,
                                          const enum pst_field_type *others, uint32_t n,
                                          uint32_t *i_field, struct pst_error *err)
{
    enum pst_status first = psti_containers_columns_add(columns, column, i_field, err);
    enum pst_status status = first;
    for (uint32_t i = 0; i < n; i++) {
        struct psti_column other = *column;
        other.type = others[i];
        if (status != PST_ERROR_ARGUMENT && status != PST_ERROR_CORRUPT)
            break;
        if (other.type != column->type)
            status = psti_containers_columns_add(columns, &other, i_field, NULL);
    }
    if (first != PST_OK && status == PST_OK)
        pst_error_clear(err);
    return status == PST_OK ? PST_OK : first;
}
