/* containers_picture.c - compares first bytes with those of the forms that images can have. */
#include "containers/table/containers_picture.h"

#include <string.h>

static bool begins(const uint8_t *head, size_t n, const char *magic, size_t n_magic)
{
    return n >= n_magic && memcmp(head, magic, n_magic) == 0;
}

bool psti_containers_is_picture(const uint8_t *head, size_t n)
{
    if (begins(head, n, "\xff\xd8\xff", 3) || begins(head, n, "\x89PNG\r\n\x1a\n", 8) ||
        begins(head, n, "\x89PLI", 4))
        return true;
    return begins(head, n, "RIFF", 4) && n >= 12 && memcmp(head + 8, "WEBP", 4) == 0;
}
