/* fuzz_containers_zip.c - reads any bytes as a zip: members must lie before the directory, and if
 * the walk succeeds, they must not overlap. */
#include "containers/containers_zip.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

struct memory {
    const uint8_t *data;
    size_t nbytes;
};

static ssize_t memory_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    const struct memory *memory = context;
    CHECK(offset <= memory->nbytes && nbytes <= memory->nbytes - offset);
    memcpy(bytes, memory->data + offset, nbytes);
    return (ssize_t)nbytes;
}

static void check_member(const struct psti_zip_walk *walk, const struct psti_zip_member *member)
{
    size_t length = strlen(member->name);
    CHECK(length > 0 && length < PSTI_ZIP_NAME_CAP);
    CHECK(member->offset > member->header && member->offset <= walk->first);
    CHECK(member->nbytes <= walk->first - member->offset);
    CHECK(member->kind == PSTI_ZIP_FILE || (member->nbytes == 0 && member->decoded_nbytes == 0));
    CHECK(member->coding == PSTI_CODING_DEFLATE || member->nbytes == member->decoded_nbytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static struct psti_zip_walk walk;
    struct memory memory = {data, nbytes};
    struct psti_walk_source source = {
        .read = memory_read, .context = &memory, .nbytes = nbytes, .path = "a.zip"};
    struct pst_error err = {0};
    if (psti_containers_zip_open(&walk, &source, &err) != PST_OK) {
        CHECK(err.text[0] != '\0');
        return 0;
    }
    CHECK(walk.base <= walk.first && walk.first <= walk.end && walk.end <= nbytes);
    struct psti_zip_member member;
    bool has = true;
    uint64_t n = 0, n_bytes = 0;
    enum pst_status status = PST_OK;
    while ((status = psti_containers_zip_next(&walk, &member, &has, &err)) == PST_OK && has) {
        const uint8_t *head = NULL;
        struct pst_error other = {0};
        check_member(&walk, &member);
        n_bytes += member.nbytes;
        if (member.kind == PSTI_ZIP_FILE && n < 64)
            CHECK(psti_containers_zip_head(&walk, &member, PSTI_HEAD_MAX, &head, &other) ==
                      PST_OK ||
                  other.text[0] != '\0');
        CHECK(++n <= nbytes / 46);
    }
    CHECK(status == PST_OK || err.text[0] != '\0');
    CHECK(status != PST_OK || n_bytes <= walk.first);
    psti_containers_zip_close(&walk);
    return 0;
}
