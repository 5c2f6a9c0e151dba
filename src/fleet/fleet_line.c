/* fleet_line.c - parses one line of a server's answer: a two-letter code, the length if a value
 * follows, and flags with the key (k) and the request's number (O). */
#include "fleet/fleet_line.h"

#include <string.h>

/* Finds the next word of the line; words are separated by blanks. Returns its length; 0: there is
 * none. */
static size_t next_word(const char **at, const char *end, const char **word)
{
    while (*at < end && **at == ' ')
        ++*at;
    *word = *at;
    while (*at < end && **at != ' ')
        ++*at;
    return (size_t)(*at - *word);
}

static bool is_word(const char *word, size_t nbytes, const char *text)
{
    return nbytes == strlen(text) && memcmp(word, text, nbytes) == 0;
}

/* Reads a decimal number of at most PSTI_FLEET_SIZE_DIGITS digits, which fits in 64 bits. */
static bool read_size(const char *word, size_t nbytes, uint64_t *value)
{
    *value = 0;
    if (nbytes == 0 || nbytes > PSTI_FLEET_SIZE_DIGITS)
        return false;
    for (size_t i = 0; i < nbytes; i++) {
        if (word[i] < '0' || word[i] > '9')
            return false;
        *value = *value * 10 + (uint64_t)(word[i] - '0');
    }
    return true;
}

/* Reads a hexadecimal number as this client writes it: 1 to 16 digits, with small letters. */
static bool read_opaque(const char *word, size_t nbytes, uint64_t *value)
{
    *value = 0;
    if (nbytes == 0 || nbytes > 16)
        return false;
    for (size_t i = 0; i < nbytes; i++) {
        char c = word[i];
        bool is_digit = c >= '0' && c <= '9';
        if (!is_digit && !(c >= 'a' && c <= 'f'))
            return false;
        *value = *value << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
    }
    return true;
}

static bool read_flag(const char *word, size_t nbytes, struct psti_fleet_line *line)
{
    if (word[0] == 'k' && !line->key && nbytes > 1) {
        line->key = word + 1;
        line->key_nbytes = nbytes - 1;
        return true;
    }
    if (word[0] != 'O' || line->has_opaque)
        return false;
    line->has_opaque = true;
    return read_opaque(word + 1, nbytes - 1, &line->opaque);
}

static enum psti_fleet_said read_code(const char *word, size_t nbytes)
{
    static const struct {
        char text[13];
        uint8_t said;
    } codes[] = {{"VA", PSTI_FLEET_SAID_VALUE},
                 {"EN", PSTI_FLEET_SAID_MISS},
                 {"HD", PSTI_FLEET_SAID_DONE},
                 {"NF", PSTI_FLEET_SAID_ABSENT},
                 {"NS", PSTI_FLEET_SAID_PRESENT},
                 {"STORED", PSTI_FLEET_SAID_STORED},
                 {"SERVER_ERROR", PSTI_FLEET_SAID_NO_ROOM}};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (is_word(word, nbytes, codes[i].text))
            return (enum psti_fleet_said)codes[i].said;
    return PSTI_FLEET_SAID_NONSENSE;
}

void psti_fleet_line_read(const char *text, size_t nbytes, struct psti_fleet_line *line)
{
    const char *at = text, *end = text + nbytes, *word;
    size_t n = next_word(&at, end, &word);
    bool good = true;
    *line = (struct psti_fleet_line){.said = read_code(word, n)};
    if (line->said == PSTI_FLEET_SAID_NONSENSE || line->said == PSTI_FLEET_SAID_NO_ROOM)
        return; /* a text for people follows */
    if (line->said == PSTI_FLEET_SAID_VALUE) {
        n = next_word(&at, end, &word);
        good = read_size(word, n, &line->nbytes);
    }
    while (good && (n = next_word(&at, end, &word)) > 0)
        good = read_flag(word, n, line);
    if (!good)
        *line = (struct psti_fleet_line){.said = PSTI_FLEET_SAID_NONSENSE};
}

char *psti_fleet_line_number(char *at, uint64_t number, unsigned base)
{
    char digits[20];
    size_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

size_t psti_fleet_line_of_value(char *text, uint64_t nbytes, const char *key, size_t key_nbytes,
                                uint64_t opaque)
{
    char *at = text;
    memcpy(at, "VA ", 3);
    at = psti_fleet_line_number(at + 3, nbytes, 10);
    memcpy(at, " k", 2);
    memcpy(at + 2, key, key_nbytes);
    at += 2 + key_nbytes;
    memcpy(at, " O", 2);
    at = psti_fleet_line_number(at + 2, opaque, 16);
    memcpy(at, "\r\n", 2);
    return (size_t)(at + 2 - text);
}
