/* zip_helper.c - writes zip headers and entries that follow APPNOTE.TXT or break it, as a test
 * needs. */
#include "zip_helper.h"

#include "base/bits.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

void zip_free(struct zip *zip)
{
    free(zip->file.bytes);
    free(zip->directory.bytes);
    *zip = (struct zip){0};
}

void zip_add(struct zip_bytes *to, const void *bytes, size_t nbytes)
{
    if (to->nbytes + nbytes > to->capacity) {
        to->capacity = 2 * (to->nbytes + nbytes) + 4096;
        to->bytes = realloc(to->bytes, to->capacity);
        if (to->bytes == NULL)
            abort();
    }
    if (nbytes > 0)
        memcpy(to->bytes + to->nbytes, bytes, nbytes);
    to->nbytes += nbytes;
}

void zip_add_u16(struct zip_bytes *to, uint32_t number)
{
    zip_add(to, &(uint16_t){(uint16_t)number}, 2);
}

void zip_add_u32(struct zip_bytes *to, uint64_t number)
{
    zip_add(to, &(uint32_t){(uint32_t)number}, 4);
}

void zip_add_u64(struct zip_bytes *to, uint64_t number) { zip_add(to, &number, 8); }

uint8_t *zip_deflate(const void *bytes, size_t nbytes, int level, size_t *n)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, level, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    size_t capacity = deflateBound(&stream, nbytes) + 64;
    uint8_t *out = malloc(capacity);
    if (out == NULL)
        abort();
    stream.next_in = (Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)nbytes;
    stream.next_out = out;
    stream.avail_out = (uInt)capacity;
    if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
        abort();
    *n = stream.total_out;
    (void)deflateEnd(&stream);
    return out;
}

static void add_extra(struct zip_bytes *to, const void *extra, uint16_t n,
                      const uint64_t *numbers, uint16_t n_numbers)
{
    if (n_numbers > 0) {
        zip_add_u16(to, 1);
        zip_add_u16(to, 8u * n_numbers);
        zip_add(to, numbers, 8 * (size_t)n_numbers);
    }
    zip_add(to, extra, n);
}

/* Writes the fields that a local header and a directory entry share, from "version needed" on. */
static void add_common(struct zip_bytes *to, const struct zip_member *member, uint16_t method,
                       const uint64_t numbers[3], bool has_sizes, uint32_t n_extra)
{
    zip_add_u16(to, member->is_zip64 ? 45 : 20);
    zip_add_u16(to, member->flags | (member->has_descriptor ? 8u : 0));
    zip_add_u16(to, method);
    zip_add_u16(to, member->time);
    zip_add_u16(to, member->date);
    zip_add_u32(to, has_sizes ? crc32(0, member->content, (uInt)member->nbytes) : 0);
    bool is_long = member->is_zip64;
    zip_add_u32(to, !has_sizes ? 0 : is_long ? UINT32_MAX : numbers[1]);
    zip_add_u32(to, !has_sizes ? 0 : is_long ? UINT32_MAX : numbers[0]);
    zip_add_u16(to, (uint32_t)strlen(member->name));
    zip_add_u16(to, n_extra);
}

void zip_member(struct zip *zip, const struct zip_member *member)
{
    struct zip_bytes *file = &zip->file, *directory = &zip->directory;
    uint16_t method = member->method != 0 ? member->method : member->is_deflated ? 8 : 0;
    size_t n_in = member->nbytes;
    uint8_t *deflated =
        member->is_deflated ? zip_deflate(member->content, member->nbytes, 6, &n_in) : NULL;
    uint64_t numbers[3] = {member->nbytes, n_in, file->nbytes - zip->base};
    bool has_long_local = member->is_zip64 && !member->has_descriptor;
    size_t at = file->nbytes;
    zip_add_u32(file, 0x04034b50);
    add_common(file, member, method, numbers, !member->has_descriptor,
               member->n_local_extra + (has_long_local ? 20u : 0));
    zip_add(file, member->name, strlen(member->name));
    add_extra(file, member->local_extra, member->n_local_extra, numbers, has_long_local ? 2 : 0);
    zip_add(file, deflated != NULL ? deflated : member->content, n_in);
    if (member->has_descriptor) {
        zip_add_u32(file, 0x08074b50);
        zip_add_u32(file, crc32(0, member->content, (uInt)member->nbytes));
        zip_add_u32(file, n_in);
        zip_add_u32(file, member->nbytes);
    }
    free(deflated);
    zip->headers[zip->n] = at;
    zip->entries[zip->n++] = directory->nbytes;
    zip_add_u32(directory, 0x02014b50);
    zip_add_u16(directory, 20u | (uint32_t)member->host << 8);
    add_common(directory, member, method, numbers, true,
               member->n_extra + (member->is_zip64 ? 28u : 0));
    zip_add_u16(directory, 0); /* comment */
    zip_add_u16(directory, 0); /* volume */
    zip_add_u16(directory, 0);
    zip_add_u32(directory, member->attributes);
    zip_add_u32(directory, member->is_zip64 ? UINT32_MAX : numbers[2]);
    zip_add(directory, member->name, strlen(member->name));
    add_extra(directory, member->extra, member->n_extra, numbers, member->is_zip64 ? 3 : 0);
}

static void add_zip64(struct zip *zip, uint64_t offset, size_t base)
{
    struct zip_bytes *file = &zip->file;
    uint64_t at = file->nbytes;
    zip_add_u32(file, 0x06064b50);
    zip_add_u64(file, 44);
    zip_add_u16(file, 45);
    zip_add_u16(file, 45);
    zip_add_u32(file, 0);
    zip_add_u32(file, 0);
    zip_add_u64(file, zip->n);
    zip_add_u64(file, zip->n);
    zip_add_u64(file, zip->directory.nbytes);
    zip_add_u64(file, offset);
    zip_add_u32(file, 0x07064b50);
    zip_add_u32(file, 0);
    zip_add_u64(file, at - base);
    zip_add_u32(file, 1);
}

void zip_end(struct zip *zip, const struct zip_end *end)
{
    struct zip_bytes *file = &zip->file;
    size_t base = end->counts_prefix ? 0 : zip->base;
    for (uint32_t i = 0; i < zip->n; i++) {
        uint8_t *offset = zip->directory.bytes + zip->entries[i] + 42;
        if (end->counts_prefix && psti_load_u32(offset) != UINT32_MAX)
            psti_store_u32(offset, (uint32_t)zip->headers[i]);
        zip->entries[i] += file->nbytes;
    }
    zip->first = file->nbytes;
    zip_add(file, zip->directory.bytes, zip->directory.nbytes);
    if (end->is_zip64)
        add_zip64(zip, zip->first - base, base);
    zip->end = file->nbytes;
    zip_add_u32(file, 0x06054b50);
    zip_add_u32(file, 0);
    zip_add_u16(file, end->is_zip64 ? UINT16_MAX : zip->n);
    zip_add_u16(file, end->is_zip64 ? UINT16_MAX : zip->n);
    zip_add_u32(file, end->is_zip64 ? UINT32_MAX : zip->directory.nbytes);
    zip_add_u32(file, end->is_zip64 ? UINT32_MAX : zip->first - base);
    size_t n = end->comment != NULL ? strlen(end->comment) : 0;
    zip_add_u16(file, (uint32_t)n);
    zip_add(file, end->comment, n);
}

static ssize_t memory_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    const struct zip_memory *memory = context;
    if (offset >= memory->given)
        return 0;
    if (nbytes > memory->given - offset)
        nbytes = (size_t)(memory->given - offset);
    memcpy(bytes, memory->bytes + offset, nbytes);
    return (ssize_t)nbytes;
}

struct psti_walk_source zip_source(struct zip_memory *memory, uint64_t nbytes)
{
    return (struct psti_walk_source){
        .read = memory_read, .context = memory, .nbytes = nbytes, .path = "a.zip"};
}
