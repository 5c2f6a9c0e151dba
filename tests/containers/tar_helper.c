/* tar_helper.c - writes tar headers that follow the standard or break it, as a test needs. */
#include "tar_helper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tar_free(struct tar *tar)
{
    free(tar->bytes);
    *tar = (struct tar){0};
}

void tar_add(struct tar *tar, const void *bytes, size_t nbytes)
{
    if (tar->nbytes + nbytes > tar->capacity) {
        tar->capacity = 2 * (tar->nbytes + nbytes) + 4096;
        tar->bytes = realloc(tar->bytes, tar->capacity);
        if (tar->bytes == NULL)
            abort();
    }
    if (nbytes > 0)
        memcpy(tar->bytes + tar->nbytes, bytes, nbytes);
    tar->nbytes += nbytes;
}

void tar_zeros(struct tar *tar, size_t nbytes)
{
    static const uint8_t zeros[PSTI_TAR_BLOCK];
    for (size_t n; nbytes > 0; nbytes -= n) {
        n = nbytes < sizeof zeros ? nbytes : sizeof zeros;
        tar_add(tar, zeros, n);
    }
}

void tar_seal(uint8_t header[PSTI_TAR_BLOCK], bool is_signed)
{
    memset(header + 148, ' ', 8);
    int64_t sum = 0;
    for (int i = 0; i < PSTI_TAR_BLOCK; i++)
        sum += is_signed ? (int8_t)header[i] : header[i];
    char text[9];
    snprintf(text, sizeof text, "%06" PRIo64, (uint64_t)sum);
    memcpy(header + 148, text, 7); /* six digits and a NUL; the space behind them stays */
}

static void number(uint8_t *field, size_t nbytes, uint64_t value, bool is_binary)
{
    if (is_binary) {
        memset(field, (int64_t)value < 0 ? 0xff : 0, nbytes);
        for (size_t i = 0; i < 8; i++)
            field[nbytes - 1 - i] = (uint8_t)(value >> 8 * i);
        field[0] = (int64_t)value < 0 ? 0xff : 0x80;
        return;
    }
    char text[32];
    snprintf(text, sizeof text, "%0*" PRIo64, (int)nbytes - 1, value);
    memcpy(field, text, nbytes);
}

void tar_member(struct tar *tar, const struct tar_header *header, uint8_t first)
{
    uint8_t block[PSTI_TAR_BLOCK] = {0};
    if (header->name != NULL)
        memcpy(block, header->name, strnlen(header->name, 100));
    if (header->prefix != NULL)
        memcpy(block + 345, header->prefix, strnlen(header->prefix, 155));
    memcpy(block + 100, "0000644", 8);
    number(block + 124, 12, header->nbytes, header->is_binary);
    number(block + 136, 12, (uint64_t)header->mtime, header->is_binary || header->mtime < 0);
    block[156] = header->kind == 0 ? '0' : header->kind;
    memcpy(block + 257,
           header->magic == NULL ? "ustar\0"
                                   "00"
                                 : header->magic,
           8);
    tar_seal(block, header->has_signed_sum);
    tar_add(tar, block, sizeof block);
    if (header->has_no_contents)
        return;
    for (uint64_t i = 0; i < header->nbytes; i++)
        tar_add(tar, &(uint8_t){(uint8_t)(first + i)}, 1);
    tar_zeros(tar, (size_t)(-header->nbytes % PSTI_TAR_BLOCK));
}

void tar_file(struct tar *tar, const char *name, const void *bytes, size_t nbytes)
{
    if (strlen(name) > 100)
        tar_text(tar, 'L', name, true);
    tar_member(tar,
               &(struct tar_header){
                   .name = name, .nbytes = nbytes, .mtime = 1700000000, .has_no_contents = true},
               0);
    tar_add(tar, bytes, nbytes);
    tar_zeros(tar, -nbytes % PSTI_TAR_BLOCK);
}

void tar_text(struct tar *tar, uint8_t kind, const char *text, bool has_nul)
{
    size_t nbytes = strlen(text) + has_nul;
    tar_member(
        tar,
        &(struct tar_header){
            .name = "././@LongLink", .kind = kind, .nbytes = nbytes, .has_no_contents = true},
        0);
    tar_add(tar, text, nbytes);
    tar_zeros(tar, -nbytes % PSTI_TAR_BLOCK);
}

void tar_record(char *records, size_t capacity, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3, length = rest + 1;
    while (length != rest + (size_t)snprintf(NULL, 0, "%zu", length))
        length++;
    size_t at = strlen(records);
    snprintf(records + at, capacity - at, "%zu %s=%s\n", length, key, value);
}

static ssize_t memory_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    struct tar_memory *memory = context;
    memory->n_reads++;
    if (memory->error != 0) {
        errno = memory->error;
        return -1;
    }
    if (offset >= memory->given)
        return 0;
    if (nbytes > memory->given - offset)
        nbytes = (size_t)(memory->given - offset);
    memcpy(bytes, memory->bytes + offset, nbytes);
    return (ssize_t)nbytes;
}

struct psti_walk_source tar_source(struct tar_memory *memory, uint64_t nbytes)
{
    return (struct psti_walk_source){
        .read = memory_read, .context = memory, .nbytes = nbytes, .path = "a.tar"};
}
