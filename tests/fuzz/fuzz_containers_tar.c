/* fuzz_containers_tar.c - reads any bytes as a tar: members must lie in the file, in order, and
 * must not overlap. */
#include "containers/containers_tar.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static struct psti_tar_walk walk;
    struct memory memory = {data, nbytes};
    struct psti_walk_source source = {
        .read = memory_read, .context = &memory, .nbytes = nbytes, .path = "a.tar"};
    struct pst_error err = {0};
    if (psti_containers_tar_open(&walk, &source, &err) != PST_OK) {
        CHECK(err.text[0] != '\0');
        return 0;
    }
    struct psti_tar_member member;
    bool has = true;
    uint64_t last = 0, n = 0;
    enum pst_status status = PST_OK;
    while ((status = psti_containers_tar_next(&walk, &member, &has, &err)) == PST_OK && has) {
        size_t length = strlen(member.name);
        CHECK(length > 0 && length < PSTI_TAR_NAME_CAP);
        CHECK(member.header >= last && member.offset >= member.header + PSTI_TAR_BLOCK);
        CHECK(member.offset <= nbytes && member.nbytes <= nbytes - member.offset);
        CHECK(member.next >= member.offset + member.nbytes && member.next <= nbytes);
        CHECK(member.kind == PSTI_TAR_FILE || member.nbytes == 0);
        last = member.next;
        CHECK(++n <= nbytes / PSTI_TAR_BLOCK);
    }
    CHECK(status == PST_OK || err.text[0] != '\0');
    psti_containers_tar_close(&walk);
    return 0;
}
