/* zip_list.c - prints each member of a zip that the walk finds, one a line, with the CRC-32 of its
 * decoded content, and how the walk ends. test_containers_zip_python.py runs it. */
#include "base/inflate.h"
#include "containers/containers_zip.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads a whole member. Returns the CRC-32 of its decoded content. */
static uint32_t read_member(int fd, struct psti_inflater *inflater,
                            const struct psti_zip_member *member)
{
    uint8_t *stored = malloc(member->nbytes + 1), *decoded = malloc(member->decoded_nbytes + 1);
    struct pst_error err;
    if (stored == NULL || decoded == NULL ||
        pread(fd, stored, member->nbytes, (off_t)member->offset) != (ssize_t)member->nbytes)
        abort();
    const uint8_t *content = stored;
    if (member->coding == PSTI_CODING_DEFLATE) {
        if (psti_inflate_raw(inflater, stored, member->nbytes, decoded, member->decoded_nbytes,
                             &err) != PST_OK)
            abort();
        content = decoded;
    }
    uint32_t check = psti_crc32(0, content, member->decoded_nbytes);
    free(stored);
    free(decoded);
    return check;
}

int main(int argc, char **argv)
{
    static struct psti_zip_walk walk;
    struct psti_inflater *inflater = NULL;
    struct psti_zip_member member;
    struct pst_error err = {0};
    struct stat st;
    int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) != 0 || psti_inflate_open(&inflater, "test", &err) != PST_OK)
        return 2;
    struct psti_walk_source source =
        psti_containers_source_file(&fd, (uint64_t)st.st_size, argv[1]);
    bool has = true;
    enum pst_status status = psti_containers_zip_open(&walk, &source, &err);
    while (status == PST_OK) {
        status = psti_containers_zip_next(&walk, &member, &has, &err);
        if (status != PST_OK || !has)
            break;
        bool is_file = member.kind == PSTI_ZIP_FILE;
        printf("%d %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %08" PRIx32 " %08" PRIx32 " %" PRId64
               " %s\n",
               (int)member.kind, (int)member.coding, member.header, member.nbytes,
               member.decoded_nbytes, member.check,
               is_file ? read_member(fd, inflater, &member) : member.check, member.mtime,
               member.name);
    }
    printf("%s\n", status == PST_OK ? "end" : err.text);
    psti_containers_zip_close(&walk);
    psti_inflate_close(&inflater);
    close(fd);
    return status == PST_OK ? 0 : 1;
}
