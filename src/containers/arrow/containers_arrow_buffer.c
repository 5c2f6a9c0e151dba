/* containers_arrow_buffer.c - gives the bytes of one buffer of a batch, read in parts or decoded.
 *
 * In: offsets in a file. Out: bytes.
 *
 * Each buffer of a compressed batch begins with its decoded length in 8 bytes; -1 means that the
 * rest is stored without compression. An empty buffer has no such length. */
#include "containers/arrow/containers_arrow_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <errno.h>
#include <string.h>

#define ROOM "containers"
enum {
    LENGTH_NBYTES = 8,
    /* Maximum number of decoded bytes that one compressed byte can give. zstd at best encodes 128
     * KiB as a block of 4 bytes. */
    GAIN_MAX = 32 << 10,
};
#define CODED_MAX (UINT64_C(1) << 31)

static enum pst_status corrupt(struct psti_arrow_file *file, const struct psti_arrow_buffer *buffer,
                               const char *what, struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, file->source->path, (int64_t)buffer->at, "%s",
                        what);
}

/* Reads exactly nbytes of the file. */
static enum pst_status read_all(struct psti_arrow_file *file, void *bytes, size_t nbytes,
                                uint64_t offset, struct pst_error *err)
{
    for (size_t n = 0; n < nbytes;) {
        ssize_t got =
            file->source->read(file->source->context, (uint8_t *)bytes + n, nbytes - n, offset + n);
        if (got < 0)
            return psti_fail_os(err, errno, ROOM, file->source->path, (int64_t)offset,
                                "cannot read %zu bytes", nbytes);
        if (got == 0)
            return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, file->source->path, (int64_t)offset,
                                "the file became shorter while it was read");
        n += (size_t)got;
    }
    return PST_OK;
}

/* Grows the buffer's memory to exactly nbytes, because a batch may have many buffers. */
static enum pst_status reserve(struct psti_arrow_buffer *buffer, size_t nbytes,
                               struct pst_error *err)
{
    if (nbytes <= buffer->capacity && buffer->memory != NULL)
        return PST_OK;
    psti_free(buffer->memory);
    buffer->memory = psti_alloc(nbytes > 0 ? nbytes : 1);
    buffer->capacity = buffer->memory == NULL ? 0 : nbytes;
    return buffer->memory != NULL ? PST_OK
                                  : psti_fail(err, PST_ERROR_MEMORY, ROOM,
                                              "out of memory for %zu bytes of a batch", nbytes);
}

enum pst_status psti_containers_arrow_settle(struct psti_arrow_file *file,
                                             struct psti_arrow_buffer *buffer,
                                             struct pst_error *err)
{
    uint8_t bytes[LENGTH_NBYTES];
    if (buffer->is_settled)
        return PST_OK;
    buffer->is_settled = true;
    buffer->decoded_nbytes = buffer->nbytes;
    if (buffer->nbytes == 0 || buffer->coding == PSTI_CODING_STORED) {
        buffer->coding = PSTI_CODING_STORED;
        return PST_OK;
    }
    if (buffer->nbytes < LENGTH_NBYTES)
        return corrupt(file, buffer, "a compressed buffer lacks its length", err);
    enum pst_status status = read_all(file, bytes, LENGTH_NBYTES, buffer->at, err);
    if (status != PST_OK)
        return status;
    uint64_t decoded = psti_load_u64(bytes);
    buffer->at += LENGTH_NBYTES;
    buffer->nbytes -= LENGTH_NBYTES;
    if (decoded == UINT64_MAX || decoded == 0) {
        buffer->coding = PSTI_CODING_STORED;
        buffer->decoded_nbytes = decoded == 0 ? 0 : buffer->nbytes;
        return PST_OK;
    }
    if (decoded / GAIN_MAX > buffer->nbytes)
        return corrupt(file, buffer,
                       "a compressed buffer states more bytes than it can have, or less than none",
                       err);
    if (decoded >= CODED_MAX || buffer->nbytes >= CODED_MAX)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, file->source->path, (int64_t)buffer->at,
                            "a compressed buffer has 2 GiB or more: write the file with smaller "
                            "batches, or without compression");
    buffer->decoded_nbytes = decoded;
    return PST_OK;
}

static enum pst_status decode(struct psti_arrow_file *file, struct psti_arrow_buffer *buffer,
                              const uint8_t *coded, struct pst_error *err)
{
    enum pst_coding coding = (enum pst_coding)buffer->coding; /* both enums have the same numbers */
    enum pst_status status = PST_OK;
    if (file->codings == NULL)
        status = psti_codings_open(&file->codings, psti_codings_of(coding), ROOM, err);
    if (status == PST_OK)
        status = psti_codings_decode(file->codings, coding, coded, (size_t)buffer->nbytes,
                                     buffer->memory, (size_t)buffer->decoded_nbytes, err);
    if (status != PST_OK && err != NULL) {
        psti_error_set_file(err, file->source->path);
        err->offset = (int64_t)buffer->at;
    }
    return status;
}

/* Reads or decodes a whole buffer into its memory. */
enum pst_status psti_containers_arrow_load(struct psti_arrow_file *file,
                                           struct psti_arrow_buffer *buffer, struct pst_error *err)
{
    uint8_t *coded = NULL;
    if (buffer->memory != NULL && buffer->n == buffer->decoded_nbytes && buffer->from == 0)
        return PST_OK;
    buffer->n = 0;
    if (buffer->decoded_nbytes > SIZE_MAX / 2)
        return corrupt(file, buffer, "a buffer is too long", err);
    enum pst_status status = reserve(buffer, (size_t)buffer->decoded_nbytes, err);
    if (status != PST_OK)
        return status;
    if (buffer->coding == PSTI_CODING_STORED) {
        status = read_all(file, buffer->memory, (size_t)buffer->decoded_nbytes, buffer->at, err);
    } else {
        coded = psti_alloc((size_t)buffer->nbytes);
        if (coded == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for a buffer of %zu bytes",
                             (size_t)buffer->nbytes);
        status = read_all(file, coded, (size_t)buffer->nbytes, buffer->at, err);
        if (status == PST_OK)
            status = decode(file, buffer, coded, err);
        psti_free(coded);
    }
    buffer->from = 0;
    buffer->n = status == PST_OK ? (size_t)buffer->decoded_nbytes : 0;
    return status;
}

/* Reads the part of an uncompressed buffer that begins at `offset`. */
static enum pst_status read_part(struct psti_arrow_file *file, struct psti_arrow_buffer *buffer,
                                 uint64_t offset, struct pst_error *err)
{
    uint64_t left = buffer->decoded_nbytes - offset;
    size_t nbytes = left < PSTI_ARROW_PART_NBYTES ? (size_t)left : PSTI_ARROW_PART_NBYTES;
    enum pst_status status = reserve(buffer, nbytes, err);
    buffer->n = 0;
    if (status == PST_OK)
        status = read_all(file, buffer->memory, nbytes, buffer->at + offset, err);
    buffer->from = offset;
    buffer->n = status == PST_OK ? nbytes : 0;
    return status;
}

enum pst_status psti_containers_arrow_get(struct psti_arrow_file *file,
                                          struct psti_arrow_buffer *buffer, uint64_t offset,
                                          size_t n, const uint8_t **bytes, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (!psti_range_fits(offset, n, buffer->decoded_nbytes))
        return corrupt(file, buffer, "a buffer of the batch is shorter than its values need", err);
    if (offset < buffer->from || !psti_range_fits(offset - buffer->from, n, buffer->n))
        status = buffer->coding == PSTI_CODING_STORED
                     ? read_part(file, buffer, offset, err)
                     : psti_containers_arrow_load(file, buffer, err);
    if (status == PST_OK)
        *bytes = buffer->memory + (offset - buffer->from);
    return status;
}

void psti_containers_arrow_buffer_free(struct psti_arrow_buffer *buffer)
{
    psti_free(buffer->memory);
    memset(buffer, 0, sizeof *buffer);
}
