/* fuzz_fleet_value.c - reads any bytes as the value of an item in a memcached server: what is
 * accepted must lie within the value and fit its item and part. Also reads them as a list of
 * servers. */
#include "base/alloc.h"
#include "fleet/fleet_int.h"
#include "format/format_fleet.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static void parse(const uint8_t *value, size_t nbytes, uint64_t hash, uint32_t i_part)
{
    static const uint64_t part_nbytes[] = {0, 1, 5, 100, 3840, (1 << 20) - 256};
    for (size_t i = 0; i < sizeof part_nbytes / sizeof part_nbytes[0]; i++) {
        struct psti_fleet_part part;
        if (nbytes < PSTI_FLEET_HEADER_NBYTES ||
            !psti_format_fleet_parse(value, nbytes, hash, i_part, part_nbytes[i], &part))
            continue;
        if (part.key_hash != hash || part.part != i_part ||
            part.part_nbytes + (size_t)PSTI_FLEET_HEADER_NBYTES != nbytes ||
            part.part_nbytes > part_nbytes[i] || part.offset > part.nbytes ||
            part.part_nbytes > part.nbytes - part.offset ||
            part.offset != part.part * part_nbytes[i])
            abort();
        (void)psti_format_fleet_is_whole(value, value + PSTI_FLEET_HEADER_NBYTES, part.part_nbytes);
    }
}

static void read_servers(const uint8_t *bytes, size_t nbytes)
{
    struct psti_fleet_address *servers;
    struct pst_error err;
    uint32_t n;
    char *text = malloc(nbytes + 1);
    if (!text)
        abort();
    memcpy(text, bytes, nbytes);
    text[nbytes] = 0;
    if (text[strspn(text, " \t\r\n\v\f,")] == '@') { /* no file name, so no file is read */
        free(text);
        return;
    }
    if (psti_fleet_servers_read(text, &servers, &n, &err) == PST_OK) {
        for (uint32_t i = 0; i < n; i++)
            if (!servers[i].name[0] || !servers[i].host[0])
                abort();
        psti_free(servers);
    } else if (!err.text[0] || servers) {
        abort();
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    uint64_t hash = 0;
    uint32_t i_part = 0;
    if (nbytes >= PSTI_FLEET_HEADER_NBYTES) {
        memcpy(&hash, bytes + 8, sizeof hash);
        memcpy(&i_part, bytes + 32, sizeof i_part);
    }
    parse(bytes, nbytes, hash, i_part);
    parse(bytes, nbytes, hash + 1, i_part);
    parse(bytes, nbytes, hash, i_part + 1);
    read_servers(bytes, nbytes);
    return 0;
}
