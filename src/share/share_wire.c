/* share_wire.c - converts values and messages to bytes, and back. All numbers are little-endian. */
#include "share/share_wire.h"

#include "base/bits.h"
#include "base/fail.h"

#include <penstock/penstock.h>

#include <stdio.h>
#include <string.h>

#define MAGIC 0x48545350u /* "PSTH" */
#define NO_TEXT UINT32_MAX

void psti_share_put_bytes(struct psti_wire_out *out, const void *bytes, size_t nbytes)
{
    if (out->full || nbytes > out->capacity - out->nbytes) {
        out->full = true;
        return;
    }
    if (nbytes > 0)
        memcpy(out->bytes + out->nbytes, bytes, nbytes);
    out->nbytes += nbytes;
}

void psti_share_put_u32(struct psti_wire_out *out, uint32_t value)
{
    psti_share_put_bytes(out, &value, sizeof value);
}

void psti_share_put_u64(struct psti_wire_out *out, uint64_t value)
{
    psti_share_put_bytes(out, &value, sizeof value);
}

void psti_share_put_f64(struct psti_wire_out *out, double value)
{
    psti_share_put_bytes(out, &value, sizeof value);
}

void psti_share_put_text(struct psti_wire_out *out, const char *text)
{
    size_t nbytes = text ? strlen(text) : 0;
    if (nbytes >= PSTI_TEXT_CAP) {
        out->full = true;
        return;
    }
    psti_share_put_u32(out, text ? (uint32_t)nbytes : NO_TEXT);
    psti_share_put_bytes(out, text, nbytes);
}

void psti_share_get_bytes(struct psti_wire_in *in, void *bytes, size_t nbytes)
{
    if (in->bad || nbytes > in->nbytes - in->at) {
        in->bad = true;
        memset(bytes, 0, nbytes);
        return;
    }
    if (nbytes > 0)
        memcpy(bytes, in->bytes + in->at, nbytes);
    in->at += nbytes;
}

uint32_t psti_share_get_u32(struct psti_wire_in *in)
{
    uint32_t value;
    psti_share_get_bytes(in, &value, sizeof value);
    return value;
}

uint64_t psti_share_get_u64(struct psti_wire_in *in)
{
    uint64_t value;
    psti_share_get_bytes(in, &value, sizeof value);
    return value;
}

double psti_share_get_f64(struct psti_wire_in *in)
{
    double value;
    psti_share_get_bytes(in, &value, sizeof value);
    return value;
}

bool psti_share_get_text(struct psti_wire_in *in, char *text, size_t capacity)
{
    uint32_t nbytes = psti_share_get_u32(in);
    text[0] = '\0';
    if (in->bad || nbytes == NO_TEXT)
        return false;
    if (nbytes >= capacity || nbytes > in->nbytes - in->at ||
        memchr(in->bytes + in->at, 0, nbytes) != NULL) {
        in->bad = true;
        return false;
    }
    psti_share_get_bytes(in, text, nbytes);
    text[nbytes] = '\0';
    return true;
}

void psti_share_put_error(struct psti_wire_out *out, const struct pst_error *err)
{
    psti_share_put_u32(out, (uint32_t)err->status);
    psti_share_put_u32(out, (uint32_t)err->os_error);
    psti_share_put_u64(out, (uint64_t)err->sample);
    psti_share_put_u64(out, (uint64_t)err->offset);
    psti_share_put_text(out, err->room);
    psti_share_put_text(out, err->codec);
    psti_share_put_text(out, err->dataset);
    psti_share_put_text(out, err->file);
    psti_share_put_text(out, err->text);
}

void psti_share_get_error(struct psti_wire_in *in, struct pst_error *err)
{
    memset(err, 0, sizeof *err);
    uint32_t status = psti_share_get_u32(in);
    err->os_error = (int)psti_share_get_u32(in);
    err->sample = (int64_t)psti_share_get_u64(in);
    err->offset = (int64_t)psti_share_get_u64(in);
    psti_share_get_text(in, err->room, sizeof err->room);
    psti_share_get_text(in, err->codec, sizeof err->codec);
    psti_share_get_text(in, err->dataset, sizeof err->dataset);
    psti_share_get_text(in, err->file, sizeof err->file);
    psti_share_get_text(in, err->text, sizeof err->text);
    if (status <= PST_END || status > PST_ERROR_DEVICE)
        in->bad = true; /* an error status that this library does not know */
    err->status = in->bad ? PST_ERROR_CORRUPT : (enum pst_status)status;
}

enum pst_status psti_share_end(const struct psti_wire_in *in, const char *what,
                               struct pst_error *err)
{
    if (in->bad)
        return psti_fail(err, PST_ERROR_CORRUPT, "share", "a message (%s) has impossible values",
                         what);
    if (in->at != in->nbytes)
        return psti_fail(err, PST_ERROR_CORRUPT, "share", "a message (%s) is too long by %zu bytes",
                         what, in->nbytes - in->at);
    return PST_OK;
}

struct psti_wire_out psti_share_begin(uint8_t *bytes)
{
    return (struct psti_wire_out){
        .bytes = bytes, .capacity = PSTI_MESSAGE_NBYTES, .nbytes = PSTI_MESSAGE_HEAD_NBYTES};
}

size_t psti_share_finish(struct psti_wire_out *out, enum psti_message_kind kind, uint64_t id,
                         uint32_t n_fds)
{
    if (out->full || n_fds > PSTI_MESSAGE_FDS)
        return 0;
    psti_store_u32(out->bytes, MAGIC);
    psti_store_u16(out->bytes + 4, (uint16_t)kind);
    psti_store_u16(out->bytes + 6, (uint16_t)n_fds);
    psti_store_u32(out->bytes + 8, (uint32_t)out->nbytes);
    psti_store_u32(out->bytes + 12, 0);
    psti_store_u64(out->bytes + 16, id);
    return out->nbytes;
}

enum pst_status psti_share_parse_head(const void *bytes, size_t nbytes,
                                      struct psti_message_head *head, struct pst_error *err)
{
    const uint8_t *at = bytes;
    if (nbytes < PSTI_MESSAGE_HEAD_NBYTES || psti_load_u32(at) != MAGIC)
        return psti_fail(err, PST_ERROR_CORRUPT, "share",
                         "%zu bytes came that are no message of Penstock", nbytes);
    *head = (struct psti_message_head){.kind = psti_load_u16(at + 4),
                                       .n_fds = psti_load_u16(at + 6),
                                       .nbytes = psti_load_u32(at + 8),
                                       .id = psti_load_u64(at + 16)};
    if (head->nbytes != nbytes || head->n_fds > PSTI_MESSAGE_FDS || psti_load_u32(at + 12) != 0)
        return psti_fail(err, PST_ERROR_CORRUPT, "share",
                         "a message of kind %u says that it has %u bytes and %u descriptors; %zu "
                         "bytes came",
                         head->kind, head->nbytes, head->n_fds, nbytes);
    return PST_OK;
}

struct psti_wire_in psti_share_body(const void *bytes, size_t nbytes)
{
    return (struct psti_wire_in){.bytes = bytes, .nbytes = nbytes, .at = PSTI_MESSAGE_HEAD_NBYTES};
}

void psti_share_put_hello(struct psti_wire_out *out, const struct psti_hello *hello)
{
    psti_share_put_u32(out, hello->protocol);
    psti_share_put_u32(out, hello->session);
    psti_share_put_bytes(out, hello->version, sizeof hello->version);
}

enum pst_status psti_share_get_hello(struct psti_wire_in *in, struct psti_hello *hello,
                                     struct pst_error *err)
{
    hello->protocol = psti_share_get_u32(in);
    hello->session = psti_share_get_u32(in);
    psti_share_get_bytes(in, hello->version, sizeof hello->version);
    if (in->bad || memchr(hello->version, 0, sizeof hello->version) == NULL)
        return psti_fail(err, PST_ERROR_CORRUPT, "share", "a greeting has impossible values");
    return PST_OK;
}

enum pst_status psti_share_check_protocol(const struct psti_hello *theirs, const char *who,
                                          struct pst_error *err)
{
    if (theirs->protocol == PSTI_HOST_PROTOCOL)
        return PST_OK;
    return psti_fail(err, PST_ERROR_VERSION, "share",
                     "the %s is of Penstock %s and speaks protocol %u; this is Penstock %s with "
                     "protocol %u: use one version for both",
                     who, theirs->version, theirs->protocol, pst_version(), PSTI_HOST_PROTOCOL);
}
