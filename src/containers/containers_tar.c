/* containers_tar.c - reads the headers of a tar, one member after the other.
 *
 * In: header blocks, through a window. Out: names, offsets and sizes of members.
 *
 * A member is its header and the extra headers before it that describe it alone: pax records ("x"),
 * a long name ("L") or a long link ("K"). A global header ("g") describes all members after it. */
#include "containers/containers_tar.h"

#include "base/fail.h"

#include <stddef.h>
#include <string.h>

#define ROOM "containers"
enum {
    ZEROS_MAX = 1 << 20, /* bytes of zeros after which the search for another tar ends */
    RECORDS_MAX = PSTI_WINDOW_NBYTES, /* maximum number of bytes of pax records that one member may
                                       * have */
};

/* Offsets in a header. */
enum {
    NAME = 0,
    NAME_END = 100,
    SIZE = 124,
    SIZE_END = 136,
    MTIME = 136,
    MTIME_END = 148,
    CHECKSUM = 148,
    CHECKSUM_END = 156,
    KIND = 156,
    MAGIC = 257,
    PREFIX = 345,
    PREFIX_END = 500,
};

static enum pst_status corrupt(const struct psti_tar_walk *walk, uint64_t offset, const char *what,
                               struct pst_error *err)
{
    const char *path = walk->window.source->path;
    if (walk->n_members == 0)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, path, (int64_t)offset, "%s", what);
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, path, (int64_t)offset,
                        "%s; the last whole member is '%.200s'", what, walk->name);
}

enum pst_status psti_containers_tar_is_packed(const char *path, const char *packer, const char *how,
                                              struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, path, 0,
                        "the tar is compressed as a whole by %s, so its members cannot be read by "
                        "themselves: unpack it once (%s), or make it anew without compression "
                        "(docs/guide/from-webdataset.md)",
                        packer, how);
}

enum pst_status psti_containers_tar_open(struct psti_tar_walk *walk,
                                         const struct psti_walk_source *source,
                                         struct pst_error *err)
{
    static const struct {
        const char *magic, *name, *how;
        uint8_t nbytes;
    } packers[] = {
        {"\x1f\x8b", "gzip", "gunzip", 2},
        {"\x28\xb5\x2f\xfd", "zstd", "unzstd", 4},
        {"\xfd"
         "7zXZ",
         "xz", "unxz", 5},
        {"BZh", "bzip2", "bunzip2", 3},
        {"\x04\x22\x4d\x18", "lz4", "unlz4", 4},
    };
    memset(walk, 0, sizeof *walk);
    enum pst_status status = psti_containers_window_open(&walk->window, source, err);
    const uint8_t *bytes = NULL;
    size_t nbytes = source->nbytes < 8 ? (size_t)source->nbytes : 8;
    if (status == PST_OK)
        status = psti_containers_window_get(&walk->window, 0, nbytes, &bytes, err);
    if (status == PST_OK && nbytes == 0)
        status = psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, source->path, 0, "the file is empty");
    for (size_t i = 0; status == PST_OK && i < sizeof packers / sizeof *packers; i++)
        if (nbytes >= packers[i].nbytes && memcmp(bytes, packers[i].magic, packers[i].nbytes) == 0)
            status =
                psti_containers_tar_is_packed(source->path, packers[i].name, packers[i].how, err);
    if (status != PST_OK)
        psti_containers_tar_close(walk);
    return status;
}

void psti_containers_tar_close(struct psti_tar_walk *walk)
{
    psti_containers_window_close(&walk->window);
}

/* Reads a number of a header: octal digits between spaces, or GNU's binary form. False: the field
 * holds neither, or the number does not fit. */
static bool read_number(const uint8_t *field, size_t nbytes, int64_t *out)
{
    uint64_t value = 0;
    if (field[0] & 0x80) {
        /* GNU's binary form is big-endian; 0x80 begins a positive number, 0xff a negative one. */
        bool is_negative = field[0] == 0xff;
        if (field[0] != 0x80 && !is_negative)
            return false;
        uint64_t sign = is_negative ? UINT64_MAX : 0;
        for (size_t i = 1; i < nbytes; i++) {
            if (i + 8 < nbytes && field[i] != (uint8_t)sign)
                return false;
            value = (i + 8 == nbytes ? sign << 8 : value << 8) | field[i];
        }
        *out = (int64_t)value;
        return (*out < 0) == is_negative;
    }
    size_t i = 0;
    while (i < nbytes && field[i] == ' ')
        i++;
    for (; i < nbytes && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0'); /* at most 12 digits, so it fits */
    *out = (int64_t)value;
    return i == nbytes || field[i] == ' ' || field[i] == '\0';
}

/* Sums a header's bytes, eight at a time: each 16-bit lane adds up 64 bytes. */
static uint32_t sum_bytes(const uint8_t *header)
{
    const uint64_t bytes = UINT64_C(0x00FF00FF00FF00FF), lanes = UINT64_C(0x0000FFFF0000FFFF);
    uint64_t even = 0, odd = 0;
    for (int i = 0; i < PSTI_TAR_BLOCK; i += 8) {
        uint64_t word;
        memcpy(&word, header + i, sizeof word);
        even += word & bytes;
        odd += word >> 8 & bytes;
    }
    uint64_t pairs = (even & lanes) + (even >> 16 & lanes) + (odd & lanes) + (odd >> 16 & lanes);
    return (uint32_t)pairs + (uint32_t)(pairs >> 32);
}

/* True if the checksum in a header is right. Some programs summed the bytes as signed numbers. */
static bool checksum_fits(const uint8_t *header, uint32_t *checksum)
{
    int64_t stated = 0;
    if (!read_number(header + CHECKSUM, CHECKSUM_END - CHECKSUM, &stated))
        return false;
    uint32_t sum = sum_bytes(header) + ' ' * (CHECKSUM_END - CHECKSUM), high = 0;
    for (int i = CHECKSUM; i < CHECKSUM_END; i++)
        sum -= header[i];
    *checksum = (uint32_t)stated;
    if (stated == sum)
        return true;
    for (int i = 0; i < PSTI_TAR_BLOCK; i++)
        high += i < CHECKSUM || i >= CHECKSUM_END ? header[i] >> 7 : 0;
    return stated == (int64_t)sum - 256 * (int64_t)high;
}

static bool is_zero(const uint8_t *block)
{
    return block[0] == 0 && memcmp(block, block + 1, PSTI_TAR_BLOCK - 1) == 0;
}

/* Skips blocks of zeros. *has: true if another header follows, at walk->at. */
static enum pst_status pass_zeros(struct psti_tar_walk *walk, bool *has, struct pst_error *err)
{
    uint64_t first = walk->at, nbytes = walk->window.source->nbytes;
    const uint8_t *block = NULL;
    *has = false;
    for (uint64_t at = first; nbytes - at >= PSTI_TAR_BLOCK && at - first < ZEROS_MAX;
         at += PSTI_TAR_BLOCK) {
        enum pst_status status =
            psti_containers_window_get(&walk->window, at, PSTI_TAR_BLOCK, &block, err);
        if (status != PST_OK)
            return status;
        if (is_zero(block))
            continue;
        uint32_t checksum = 0;
        if (checksum_fits(block, &checksum)) {
            walk->n_joins++;
            walk->at = at;
            *has = true;
        } else if (at - first < 2 * PSTI_TAR_BLOCK) {
            return corrupt(walk, at, "neither a header nor the end of the tar is here", err);
        }
        return PST_OK; /* two blocks of zeros end a tar, whatever comes after them */
    }
    return PST_OK;
}

/* Reads the header at walk->at. *header is NULL at the end of the tar. */
static enum pst_status next_header(struct psti_tar_walk *walk, const uint8_t **header,
                                   uint32_t *checksum, struct pst_error *err)
{
    uint64_t left = walk->window.source->nbytes - walk->at;
    *header = NULL;
    walk->has_end = false;
    if (left == 0)
        return PST_OK;
    if (left < PSTI_TAR_BLOCK)
        return corrupt(walk, walk->at, "the file ends within a header", err);
    enum pst_status status =
        psti_containers_window_get(&walk->window, walk->at, PSTI_TAR_BLOCK, header, err);
    if (status == PST_OK && is_zero(*header)) {
        bool has = false;
        *header = NULL;
        walk->has_end = true;
        status = pass_zeros(walk, &has, err);
        if (status != PST_OK || !has)
            return status;
        status = psti_containers_window_get(&walk->window, walk->at, PSTI_TAR_BLOCK, header, err);
    }
    if (status == PST_OK && !checksum_fits(*header, checksum))
        status = corrupt(walk, walk->at, "this is no header of a tar", err);
    return status;
}

/* Stores a name of `nbytes` bytes, without its NUL, in `name`. */
static enum pst_status keep_name(const struct psti_tar_walk *walk, const uint8_t *bytes,
                                 size_t nbytes, char name[PSTI_TAR_NAME_CAP], struct pst_error *err)
{
    if (nbytes >= PSTI_TAR_NAME_CAP)
        return psti_fail_at(err, PST_ERROR_LIMIT, ROOM, walk->window.source->path,
                            (int64_t)walk->at, "a member's name has %zu bytes; %d are the most",
                            nbytes, PSTI_TAR_NAME_CAP - 1);
    if (nbytes == 0 || memchr(bytes, '\0', nbytes) != NULL)
        return corrupt(walk, walk->at, "a member's name is empty, or has a NUL", err);
    memcpy(name, bytes, nbytes);
    name[nbytes] = '\0';
    return PST_OK;
}

/* Reads a decimal number that fills the text up to `end`. A fraction is allowed and dropped. */
static bool read_decimal(const uint8_t *text, const uint8_t *end, int64_t *out)
{
    bool is_negative = text < end && *text == '-';
    uint64_t value = 0;
    const uint8_t *first = text += is_negative;
    for (; text < end && *text >= '0' && *text <= '9'; text++) {
        if (value > (uint64_t)(INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
    }
    *out = is_negative ? -(int64_t)value : (int64_t)value;
    return text > first && (text == end || *text == '.');
}

/* Stores one pax record, given as keyword and value, in *extra. */
static enum pst_status take_record(const struct psti_tar_walk *walk, const uint8_t *key,
                                   size_t key_nbytes, const uint8_t *value, const uint8_t *end,
                                   struct psti_tar_extra *extra, struct pst_error *err)
{
    int64_t number = 0;
    if (key_nbytes >= 10 && memcmp(key, "GNU.sparse", 10) == 0)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, walk->window.source->path,
                            (int64_t)walk->at,
                            "a member is a sparse file: make the tar anew "
                            "without --sparse");
    if (key_nbytes == 4 && memcmp(key, "path", 4) == 0) {
        extra->has_name = true;
        return keep_name(walk, value, (size_t)(end - value), extra->name, err);
    }
    if (key_nbytes == 4 && memcmp(key, "size", 4) == 0) {
        extra->has_nbytes = read_decimal(value, end, &number) && number >= 0;
        extra->nbytes = (uint64_t)number;
        return extra->has_nbytes ? PST_OK
                                 : corrupt(walk, walk->at, "a pax record's size is no number", err);
    }
    if (key_nbytes == 5 && memcmp(key, "mtime", 5) == 0)
        extra->has_mtime = read_decimal(value, end, &extra->mtime);
    return PST_OK;
}

/* Parses pax records: "LENGTH KEYWORD=VALUE\n". LENGTH counts the whole record. */
static enum pst_status take_records(const struct psti_tar_walk *walk, const uint8_t *bytes,
                                    size_t nbytes, struct psti_tar_extra *extra,
                                    struct pst_error *err)
{
    const uint8_t *end = bytes + nbytes;
    while (bytes < end && *bytes != '\0') {
        const uint8_t *digit = bytes;
        size_t length = 0;
        for (; digit < end && *digit >= '0' && *digit <= '9' && length <= nbytes; digit++)
            length = length * 10 + (size_t)(*digit - '0');
        size_t begun = (size_t)(digit - bytes);
        if (digit == end || *digit != ' ' || begun == 0 || length > (size_t)(end - bytes) ||
            length < begun + 3 || bytes[length - 1] != '\n')
            return corrupt(walk, walk->at, "a pax record's length is wrong", err);
        const uint8_t *key = digit + 1, *last = bytes + length - 1;
        const uint8_t *equal = memchr(key, '=', (size_t)(last - key));
        if (equal == NULL)
            return corrupt(walk, walk->at, "a pax record has no value", err);
        enum pst_status status =
            take_record(walk, key, (size_t)(equal - key), equal + 1, last, extra, err);
        if (status != PST_OK)
            return status;
        bytes += length;
    }
    return PST_OK;
}

/* Sets *next to the offset of the header that follows a content of `nbytes` bytes at `offset`. */
static enum pst_status behind(const struct psti_tar_walk *walk, uint64_t offset, uint64_t nbytes,
                              uint64_t *next, struct pst_error *err)
{
    uint64_t end = walk->window.source->nbytes;
    uint64_t padding = (PSTI_TAR_BLOCK - nbytes % PSTI_TAR_BLOCK) % PSTI_TAR_BLOCK;
    if (nbytes > end - offset || padding > end - offset - nbytes) {
        const char *path = walk->window.source->path;
        if (walk->n_members == 0)
            return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, path, (int64_t)end,
                                "the file ends within its first member");
        return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, path, (int64_t)end,
                            "the file ends within a member; the last whole one is '%.200s'",
                            walk->name);
    }
    *next = offset + nbytes + padding;
    return PST_OK;
}

/* Reads an extra header, such as pax records or a long name, which describes other members. */
static enum pst_status take_extra(struct psti_tar_walk *walk, uint8_t kind, uint64_t nbytes,
                                  struct pst_error *err)
{
    uint64_t offset = walk->at + PSTI_TAR_BLOCK, next = 0;
    const uint8_t *bytes = NULL;
    enum pst_status status = behind(walk, offset, nbytes, &next, err);
    if (status == PST_OK && nbytes > RECORDS_MAX)
        status =
            psti_fail_at(err, PST_ERROR_LIMIT, ROOM, walk->window.source->path, (int64_t)walk->at,
                         "what a header says of a member has more than %d bytes", RECORDS_MAX);
    if (status == PST_OK)
        status = psti_containers_window_get(&walk->window, offset, (size_t)nbytes, &bytes, err);
    if (status != PST_OK)
        return status;
    if (kind == 'L') {
        const uint8_t *nul = nbytes > 0 ? memchr(bytes, '\0', (size_t)nbytes) : NULL;
        size_t length = nul != NULL ? (size_t)(nul - bytes) : (size_t)nbytes;
        walk->next.has_name = true;
        status = keep_name(walk, bytes, length, walk->next.name, err);
    } else if (kind != 'K') {
        status =
            take_records(walk, bytes, (size_t)nbytes, kind == 'g' ? &walk->all : &walk->next, err);
    }
    walk->at = next;
    return status;
}

/* Sets walk->name from the header and the extra headers before it. */
static enum pst_status set_name(struct psti_tar_walk *walk, const uint8_t *header,
                                struct pst_error *err)
{
    const struct psti_tar_extra *extra = walk->next.has_name ? &walk->next : &walk->all;
    if (extra->has_name) {
        memcpy(walk->name, extra->name, PSTI_TAR_NAME_CAP);
        return PST_OK;
    }
    const char *text = (const char *)header;
    uint8_t name[PREFIX_END - PREFIX + 1 + NAME_END];
    size_t n = 0, length = strnlen(text + NAME, NAME_END - NAME);
    /* GNU's header keeps other data where ustar has the prefix. */
    if (memcmp(text + MAGIC, "ustar", 6) == 0 && text[PREFIX] != '\0') {
        n = strnlen(text + PREFIX, PREFIX_END - PREFIX);
        memcpy(name, text + PREFIX, n);
        name[n++] = '/';
    }
    memcpy(name + n, text + NAME, length);
    return keep_name(walk, name, length == 0 ? 0 : n + length, walk->name, err);
}

static enum psti_tar_kind kind_of(uint8_t kind, const char *name)
{
    if (kind == '\0' || kind == '0' || kind == '7') {
        size_t length = strlen(name);
        return kind == '\0' && length > 0 && name[length - 1] == '/' ? PSTI_TAR_FOLDER
                                                                     : PSTI_TAR_FILE;
    }
    return kind == '1' || kind == '2' ? PSTI_TAR_LINK
           : kind == '5'              ? PSTI_TAR_FOLDER
                                      : PSTI_TAR_OTHER;
}

/* Finds whether content follows a header of a kind that should have none, such as a hard link. Some
 * programs write the content there; others state only the size. */
static enum pst_status has_content(struct psti_tar_walk *walk, uint8_t kind, uint64_t nbytes,
                                   bool *has, struct pst_error *err)
{
    *has = !(kind >= '1' && kind <= '6');
    uint64_t offset = walk->at + PSTI_TAR_BLOCK;
    if (kind != '1' || nbytes == 0 || walk->window.source->nbytes - offset < PSTI_TAR_BLOCK)
        return PST_OK;
    const uint8_t *block = NULL;
    uint32_t checksum = 0;
    enum pst_status status =
        psti_containers_window_get(&walk->window, offset, PSTI_TAR_BLOCK, &block, err);
    *has = status == PST_OK && !is_zero(block) && !checksum_fits(block, &checksum);
    return status;
}

/* Fills in the member whose header is at walk->at. */
static enum pst_status take_member(struct psti_tar_walk *walk, const uint8_t *header,
                                   struct psti_tar_member *member, struct pst_error *err)
{
    uint8_t kind = header[KIND];
    const struct psti_tar_extra *sized = walk->next.has_nbytes ? &walk->next : &walk->all;
    const struct psti_tar_extra *timed = walk->next.has_mtime ? &walk->next : &walk->all;
    int64_t nbytes = 0;
    if (kind == 'S' || kind == 'M')
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, walk->window.source->path,
                            (int64_t)walk->at, "%s: make the tar anew without it",
                            kind == 'S' ? "a member is a sparse file"
                                        : "the tar is a part of one of several volumes");
    if (!read_number(header + SIZE, SIZE_END - SIZE, &nbytes) || nbytes < 0)
        return corrupt(walk, walk->at, "a member's size is no number", err);
    if (!read_number(header + MTIME, MTIME_END - MTIME, &member->mtime))
        member->mtime = 0;
    if (timed->has_mtime)
        member->mtime = timed->mtime;
    member->nbytes = sized->has_nbytes ? sized->nbytes : (uint64_t)nbytes;
    member->offset = walk->at + PSTI_TAR_BLOCK;
    bool has = false;
    enum pst_status status = has_content(walk, kind, member->nbytes, &has, err);
    if (status == PST_OK)
        status = behind(walk, member->offset, has ? member->nbytes : 0, &member->next, err);
    return status;
}

enum pst_status psti_containers_tar_next(struct psti_tar_walk *walk, struct psti_tar_member *member,
                                         bool *has, struct pst_error *err)
{
    *member = (struct psti_tar_member){.header = walk->at};
    *has = false;
    walk->next.has_name = walk->next.has_nbytes = walk->next.has_mtime = false;
    for (bool is_first = true;; is_first = false) {
        const uint8_t *block = NULL;
        enum pst_status status = next_header(walk, &block, &member->checksum, err);
        if (status != PST_OK || (block == NULL && is_first))
            return status;
        if (block == NULL)
            return corrupt(walk, walk->at, "the tar ends behind what speaks of its next member",
                           err);
        if (is_first)
            member->header = walk->at;
        uint8_t header[PSTI_TAR_BLOCK]; /* a copy, because the window may be filled anew */
        memcpy(header, block, sizeof header);
        uint8_t kind = header[KIND];
        if (kind == 'x' || kind == 'X' || kind == 'g' || kind == 'L' || kind == 'K') {
            int64_t nbytes = 0;
            if (!read_number(header + SIZE, SIZE_END - SIZE, &nbytes) || nbytes < 0)
                return corrupt(walk, walk->at, "a header's size is no number", err);
            status = take_extra(walk, kind, (uint64_t)nbytes, err);
            if (status != PST_OK)
                return status;
            continue;
        }
        status = take_member(walk, header, member, err);
        if (status == PST_OK)
            status = set_name(walk, header, err);
        if (status != PST_OK)
            return status;
        member->kind = kind_of(kind, walk->name);
        if (member->kind != PSTI_TAR_FILE)
            member->nbytes = 0;
        member->name = walk->name;
        walk->at = member->next;
        walk->n_members++;
        *has = true;
        return PST_OK;
    }
}
