/* containers_zip.c - reads a zip's directory, entry after entry, and the members' local headers.
 *
 * In: entries and local headers, each through a window of its own. Out: names, offsets and sizes of
 * members.
 *
 * Only the local header tells where the content begins, because its extra fields may be longer or
 * shorter than those of the entry. Everything else in the local header must agree with the entry,
 * or be left open (bit 3 of the flags: the writer did not know the sizes yet). */
#include "containers/containers_zip_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/inflate.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define ROOM "containers"
#define ENTRY_MAGIC UINT32_C(0x02014b50)
#define HEADER_MAGIC UINT32_C(0x04034b50)
#define SIGNATURE_MAGIC UINT32_C(0x05054b50)

enum {
    EXTRA_ZIP64 = 0x0001,
    EXTRA_TIME = 0x5455,
    FLAG_ENCRYPTED = 1 << 0,
    FLAG_SIZES_FOLLOW = 1 << 3,
    FLAG_PATCH = 1 << 5,
    FLAG_UTF8 = 1 << 11,
    FLAG_DIRECTORY_ENCRYPTED = 1 << 13,
    METHOD_STORED = 0,
    METHOD_DEFLATE = 8,
    HOST_MSDOS = 0,
    HOST_UNIX = 3,
    HOST_DARWIN = 19,
    MSDOS_FOLDER = 0x10,
    HEAD_SPARE = 64 << 10, /* bytes of the file that are read first to inflate the first bytes of a
                            * member */
};

/* An entry of the zip's directory. */
struct entry {
    struct psti_zip_text text;
    uint64_t at; /* offset of this entry in the file */
    uint16_t flags, method;
    uint8_t host;
    uint32_t check, attributes;
    uint64_t nbytes, decoded_nbytes, header;
    int64_t mtime;
};

static enum pst_status corrupt(const struct psti_zip_walk *walk, uint64_t offset, const char *what,
                               struct pst_error *err)
{
    const char *path = walk->entries.source->path;
    if (walk->n_members == 0)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, path, (int64_t)offset, "%s", what);
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, path, (int64_t)offset,
                        "%s; member %" PRIu64 " of the zip is the last whole one", what,
                        walk->n_members - 1);
}

enum pst_status psti_containers_zip_open(struct psti_zip_walk *walk,
                                         const struct psti_walk_source *source,
                                         struct pst_error *err)
{
    memset(walk, 0, sizeof *walk);
    enum pst_status status = psti_containers_window_open(&walk->entries, source, err);
    if (status == PST_OK)
        status = psti_containers_window_open(&walk->headers, source, err);
    if (status == PST_OK)
        status = psti_containers_zip_find(walk, err);
    if (status != PST_OK)
        psti_containers_zip_close(walk);
    return status;
}

void psti_containers_zip_close(struct psti_zip_walk *walk)
{
    psti_containers_window_close(&walk->entries);
    psti_containers_window_close(&walk->headers);
    psti_inflate_close(&walk->inflater);
    psti_free(walk->spans.list);
    walk->spans = (struct psti_zip_spans){0};
}

/* Reads a 64-bit number from a zip64 extra field, if the entry marks its own as missing. False: the
 * extra field is too short. */
static bool take_u64(const uint8_t **at, uint16_t *left, uint64_t *number)
{
    if (*number != UINT32_MAX)
        return true;
    if (*left < 8)
        return false;
    *number = psti_load_u64(*at);
    *at += 8;
    *left -= 8;
    return true;
}

/* Reads the sizes, and the offset of the header if `header` is not NULL, from the zip64 extra
 * field. */
static bool take_zip64(const struct psti_zip_text *text, uint64_t *decoded_nbytes, uint64_t *nbytes,
                       uint64_t *header)
{
    uint16_t left = 0;
    const uint8_t *at =
        psti_containers_zip_extra(text->extra, text->n_extra, EXTRA_ZIP64, &left);
    left = at != NULL ? left : 0;
    return take_u64(&at, &left, decoded_nbytes) && take_u64(&at, &left, nbytes) &&
           (header == NULL || take_u64(&at, &left, header));
}

static int64_t time_of(const uint8_t *bytes, const struct psti_zip_text *text)
{
    uint16_t n = 0;
    const uint8_t *stated = psti_containers_zip_extra(text->extra, text->n_extra, EXTRA_TIME, &n);
    if (stated != NULL && n >= 5 && (stated[0] & 1))
        return (int32_t)psti_load_u32(stated + 1);
    return psti_containers_zip_time(psti_load_u16(bytes + 14), psti_load_u16(bytes + 12));
}

/* Reads the entry at walk->at, and moves walk->at to the next one. */
static enum pst_status read_entry(struct psti_zip_walk *walk, struct entry *entry,
                                  struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    uint64_t at = walk->at, left = walk->end - at;
    if (left < PSTI_ZIP_ENTRY)
        return corrupt(walk, at, "the zip's directory ends within an entry", err);
    enum pst_status status =
        psti_containers_window_get(&walk->entries, at, PSTI_ZIP_ENTRY, &bytes, err);
    if (status != PST_OK)
        return status;
    if (psti_load_u32(bytes) != ENTRY_MAGIC)
        return corrupt(walk, at, "this is no entry of a zip's directory", err);
    size_t nbytes = PSTI_ZIP_ENTRY + (size_t)psti_load_u16(bytes + 28) +
                    psti_load_u16(bytes + 30) + psti_load_u16(bytes + 32);
    if (nbytes > left)
        return corrupt(walk, at, "the zip's directory ends within an entry", err);
    status = psti_containers_window_get(&walk->entries, at, nbytes, &bytes, err);
    if (status != PST_OK)
        return status;
    *entry = (struct entry){.at = at,
                            .host = bytes[5],
                            .flags = psti_load_u16(bytes + 8),
                            .method = psti_load_u16(bytes + 10),
                            .check = psti_load_u32(bytes + 16),
                            .nbytes = psti_load_u32(bytes + 20),
                            .decoded_nbytes = psti_load_u32(bytes + 24),
                            .attributes = psti_load_u32(bytes + 38),
                            .header = psti_load_u32(bytes + 42)};
    entry->text.name = bytes + PSTI_ZIP_ENTRY;
    entry->text.n_name = psti_load_u16(bytes + 28);
    entry->text.extra = entry->text.name + entry->text.n_name;
    entry->text.n_extra = psti_load_u16(bytes + 30);
    entry->mtime = time_of(bytes, &entry->text);
    uint16_t disk = psti_load_u16(bytes + 34);
    if (disk != 0 && disk != UINT16_MAX)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, walk->entries.source->path,
                            (int64_t)at, "a member lies in another volume of a split zip");
    if (!take_zip64(&entry->text, &entry->decoded_nbytes, &entry->nbytes, &entry->header))
        return corrupt(walk, at, "an entry needs sizes of zip64, and has none", err);
    walk->at = at + nbytes;
    return PST_OK;
}

static enum psti_zip_kind kind_of(const struct entry *entry, const char *name)
{
    uint32_t mode = entry->host == HOST_UNIX || entry->host == HOST_DARWIN
                        ? entry->attributes >> 16 & S_IFMT
                        : 0;
    if (mode == S_IFLNK)
        return PSTI_ZIP_LINK;
    if (mode == S_IFDIR || name[strlen(name) - 1] == '/' ||
        (entry->host == HOST_MSDOS && (entry->attributes & MSDOS_FOLDER)))
        return PSTI_ZIP_FOLDER;
    return mode == 0 || mode == S_IFREG ? PSTI_ZIP_FILE : PSTI_ZIP_OTHER;
}

static const char *method_name(uint16_t method)
{
    static const struct {
        uint16_t method;
        const char *name;
    } names[] = {{1, "shrink"}, {2, "reduce"}, {3, "reduce"}, {4, "reduce"},   {5, "reduce"},
                 {6, "implode"}, {9, "deflate64"}, {12, "bzip2"}, {14, "lzma"}, {20, "zstd"},
                 {93, "zstd"},  {94, "mp3"},    {95, "xz"},    {96, "jpeg"},   {97, "wavpack"},
                 {98, "ppmd"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].method == method)
            return names[i].name;
    return NULL;
}

/* Checks that a member's method is supported, and that its sizes are possible. */
static enum pst_status check_file(const struct psti_zip_walk *walk, const struct entry *entry,
                                  struct pst_error *err)
{
    const char *path = walk->entries.source->path, *name = method_name(entry->method);
    if (entry->flags & (FLAG_ENCRYPTED | FLAG_DIRECTORY_ENCRYPTED | FLAG_PATCH))
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, path, (int64_t)entry->at,
                            "member '%.200s' is %s: make the zip anew without that", walk->name,
                            entry->flags & FLAG_PATCH ? "a patch" : "encrypted");
    if (entry->method != METHOD_STORED && entry->method != METHOD_DEFLATE)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, path, (int64_t)entry->at,
                            "member '%.200s' has method %u (%s): make the zip anew, stored "
                            "(zip -0) or deflated",
                            walk->name, entry->method, name != NULL ? name : "unknown");
    if (entry->method == METHOD_STORED && entry->nbytes != entry->decoded_nbytes)
        return corrupt(walk, entry->at, "a stored member has two sizes", err);
    if (entry->decoded_nbytes / PSTI_INFLATE_FACTOR_MAX > entry->nbytes)
        return corrupt(walk, entry->at, "a deflated member cannot hold as many bytes as stated",
                       err);
    return PST_OK;
}

/* True if the sizes in the local header agree with those of the entry. */
static bool sizes_agree(const uint8_t *header, const struct psti_zip_text *local,
                        const struct entry *entry)
{
    if ((psti_load_u16(header + 6) | entry->flags) & FLAG_SIZES_FOLLOW)
        return true;
    uint64_t nbytes = psti_load_u32(header + 18), decoded_nbytes = psti_load_u32(header + 22);
    return psti_load_u32(header + 14) == entry->check &&
           take_zip64(local, &decoded_nbytes, &nbytes, NULL) && nbytes == entry->nbytes &&
           decoded_nbytes == entry->decoded_nbytes;
}

/* Reads a member's local header. *begin: offset of the header; *content: offset of the content. */
static enum pst_status read_header(struct psti_zip_walk *walk, const struct entry *entry,
                                   uint64_t *begin, uint64_t *content, struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    size_t nbytes = PSTI_ZIP_HEADER + (size_t)entry->text.n_name;
    if (!psti_add_u64(walk->base, entry->header, begin) ||
        !psti_range_fits(*begin, nbytes, walk->first))
        return corrupt(walk, entry->at, "an entry's local header is not before the directory", err);
    enum pst_status status =
        psti_containers_window_get(&walk->headers, *begin, nbytes, &bytes, err);
    if (status != PST_OK)
        return status;
    if (psti_load_u32(bytes) != HEADER_MAGIC)
        return corrupt(walk, *begin, "no local header is where an entry says", err);
    if (psti_load_u16(bytes + 26) != entry->text.n_name ||
        memcmp(bytes + PSTI_ZIP_HEADER, entry->text.name, entry->text.n_name) != 0)
        return corrupt(walk, *begin, "a local header has another name than its entry", err);
    if (psti_load_u16(bytes + 8) != entry->method ||
        ((psti_load_u16(bytes + 6) ^ entry->flags) & FLAG_ENCRYPTED))
        return corrupt(walk, *begin, "a local header has another method than its entry", err);
    struct psti_zip_text local = {.n_extra = psti_load_u16(bytes + 28)};
    nbytes += local.n_extra;
    if (!psti_range_fits(*begin, nbytes, walk->first))
        return corrupt(walk, *begin, "a local header ends in the directory", err);
    bool is_long =
        psti_load_u32(bytes + 18) == UINT32_MAX || psti_load_u32(bytes + 22) == UINT32_MAX;
    if (is_long)
        status = psti_containers_window_get(&walk->headers, *begin, nbytes, &bytes, err);
    if (status != PST_OK)
        return status;
    local.extra = bytes + nbytes - local.n_extra;
    local.n_extra = is_long ? local.n_extra : 0; /* the extra field was not read */
    if (!sizes_agree(bytes, &local, entry))
        return corrupt(walk, *begin, "a local header has other sizes than its entry", err);
    *content = *begin + nbytes;
    if (!psti_range_fits(*content, entry->nbytes, walk->first))
        return corrupt(walk, *begin, "a member's content ends in the zip's directory", err);
    return PST_OK;
}

/* Fills in the error for members that share the bytes between these offsets. */
static enum pst_status fail_shared(const struct psti_zip_walk *walk, struct psti_zip_span a,
                                   struct psti_zip_span b, struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, walk->entries.source->path,
                        (int64_t)(a.begin > b.begin ? a.begin : b.begin),
                        "members share bytes: some take %" PRIu64 " to %" PRIu64
                        ", others %" PRIu64 " to %" PRIu64,
                        a.begin, a.end, b.begin, b.end);
}

static enum pst_status take_span(struct psti_zip_walk *walk, uint64_t begin, uint64_t end,
                                 struct pst_error *err)
{
    bool shared = false;
    if (!psti_containers_zip_spans_add(&walk->spans, begin, end, &shared))
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for the members of %s",
                         walk->entries.source->path);
    if (shared)
        return fail_shared(walk, walk->spans.list[walk->spans.n - 1],
                           (struct psti_zip_span){begin, end}, err);
    return PST_OK;
}

/* Finds whether the rest of the directory is a digital signature (APPNOTE 4.3.13). */
static enum pst_status is_signature(struct psti_zip_walk *walk, bool *is, struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    uint64_t left = walk->end - walk->at;
    *is = false;
    if (left < 6)
        return PST_OK;
    enum pst_status status = psti_containers_window_get(&walk->entries, walk->at, 6, &bytes, err);
    *is = status == PST_OK && psti_load_u32(bytes) == SIGNATURE_MAGIC &&
          left == 6 + (uint64_t)psti_load_u16(bytes + 4);
    return status;
}

/* Checks the walk after the last entry. Some programs count entries with 16 bits even if there are
 * more. */
static enum pst_status finish(struct psti_zip_walk *walk, struct pst_error *err)
{
    struct psti_zip_span first = {0}, second = {0};
    uint64_t n = walk->n_members;
    walk->at = walk->end;
    if (n != walk->n_entries && (walk->is_zip64 || (n & UINT16_MAX) != walk->n_entries))
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, walk->entries.source->path,
                            (int64_t)walk->end,
                            "the zip's directory has %" PRIu64 " entries, and not %" PRIu64
                            " as it says",
                            n, walk->n_entries);
    if (psti_containers_zip_spans_share(&walk->spans, &first, &second))
        return fail_shared(walk, first, second, err);
    return PST_OK;
}

static enum pst_status take_name(struct psti_zip_walk *walk, const struct entry *entry,
                                 struct pst_error *err)
{
    const char *what = "";
    enum pst_status status =
        psti_containers_zip_name(&entry->text, entry->flags & FLAG_UTF8, walk->name, &what);
    if (status == PST_OK)
        return PST_OK;
    return psti_fail_at(err, status, ROOM, walk->entries.source->path, (int64_t)entry->at,
                        "a member's name %s", what);
}

enum pst_status psti_containers_zip_next(struct psti_zip_walk *walk, struct psti_zip_member *member,
                                         bool *has, struct pst_error *err)
{
    struct entry entry = {0};
    bool ends = walk->at == walk->end;
    *member = (struct psti_zip_member){0};
    *has = false;
    enum pst_status status = ends ? PST_OK : is_signature(walk, &ends, err);
    if (status != PST_OK || ends)
        return status == PST_OK ? finish(walk, err) : status;
    status = read_entry(walk, &entry, err);
    if (status == PST_OK)
        status = take_name(walk, &entry, err);
    if (status != PST_OK)
        return status;
    *member = (struct psti_zip_member){.name = walk->name,
                                       .mtime = entry.mtime,
                                       .check = entry.check,
                                       .kind = kind_of(&entry, walk->name)};
    if (member->kind == PSTI_ZIP_FILE)
        status = check_file(walk, &entry, err);
    if (status == PST_OK)
        status = read_header(walk, &entry, &member->header, &member->offset, err);
    if (status == PST_OK)
        status = take_span(walk, member->header, member->offset + entry.nbytes, err);
    if (status != PST_OK)
        return status;
    if (member->kind == PSTI_ZIP_FILE) {
        member->nbytes = entry.nbytes;
        member->decoded_nbytes = entry.decoded_nbytes;
        member->coding =
            entry.method == METHOD_DEFLATE ? PSTI_CODING_DEFLATE : PSTI_CODING_STORED;
    }
    walk->n_members++;
    *has = true;
    return PST_OK;
}

/* Inflates the first n bytes of a member's content, or all of it, into walk->head. */
static enum pst_status inflate_head(struct psti_zip_walk *walk,
                                    const struct psti_zip_member *member, size_t n,
                                    struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    size_t n_got = 0;
    enum pst_status status = PST_OK;
    if (walk->inflater == NULL)
        status = psti_inflate_open(&walk->inflater, ROOM, err);
    for (uint64_t most = HEAD_SPARE; status == PST_OK; most = PSTI_WINDOW_NBYTES) {
        size_t n_in = (size_t)(member->nbytes < most ? member->nbytes : most);
        status = psti_containers_window_get(&walk->headers, member->offset, n_in, &bytes, err);
        if (status != PST_OK)
            break;
        if (n == member->decoded_nbytes && n_in == member->nbytes)
            return psti_inflate_raw(walk->inflater, bytes, n_in, walk->head, n, err);
        status = psti_inflate_head(walk->inflater, bytes, n_in, walk->head, n, &n_got, err);
        if (status != PST_OK || (n_got == n && n < member->decoded_nbytes))
            break;
        if (n_in == member->nbytes)
            return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                             "the deflated bytes hold fewer than are stated");
        if (most == PSTI_WINDOW_NBYTES)
            return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                             "the first %zu bytes of the content lie in more than %d deflated ones",
                             n, PSTI_WINDOW_NBYTES);
    }
    return status;
}

enum pst_status psti_containers_zip_head(struct psti_zip_walk *walk,
                                         const struct psti_zip_member *member, size_t n,
                                         const uint8_t **bytes, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    n = n < PSTI_HEAD_MAX ? n : PSTI_HEAD_MAX;
    n = n < member->decoded_nbytes ? n : (size_t)member->decoded_nbytes;
    *bytes = walk->head;
    if (member->coding == PSTI_CODING_STORED)
        status = psti_containers_window_get(&walk->headers, member->offset, n, bytes, err);
    else
        status = inflate_head(walk, member, n, err);
    if (status == PST_OK && n == member->decoded_nbytes &&
        psti_crc32(0, *bytes, n) != member->check)
        status = psti_fail(err, PST_ERROR_CHECKSUM, ROOM,
                           "the content has not the CRC-32 that the zip states");
    if (status != PST_OK && err != NULL && err->file[0] == '\0') {
        psti_error_set_file(err, walk->entries.source->path);
        err->offset = (int64_t)member->offset;
    }
    return status;
}
