/* dataset_listing_read.c - reads a saved listing, directory by directory.
 *
 * In: a file that may be cut or altered. Out: directories and their entries. If anything does not
 * fit, the listing is dropped and the folder is scanned. Directories are stored in the order of the
 * walk, which is the byte order of their paths, so one pass over the file serves a walk. */
#include "dataset/folder/dataset_listing_int.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/files/read.h"

#include <string.h>
#include <unistd.h>

enum { WINDOW_NBYTES = 1 << 19 };
_Static_assert((int)PSTI_LISTING_PAYLOAD_MAX <= (int)WINDOW_NBYTES, "a chunk fits");

void psti_dataset_reader_close(struct psti_listing_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    psti_free(reader->window);
    psti_free(reader->text);
    *reader = (struct psti_listing_reader){.fd = -1};
}

const uint8_t *psti_dataset_reader_get(struct psti_listing_reader *reader, uint64_t at,
                                       size_t nbytes)
{
    if (!psti_range_fits(at, nbytes, reader->nbytes) || nbytes > WINDOW_NBYTES)
        return NULL;
    if (at < reader->window_at || at + nbytes > reader->window_at + reader->window_n) {
        ssize_t n = psti_read_at(reader->fd, reader->window, WINDOW_NBYTES, at);
        reader->window_at = at;
        reader->window_n = n > 0 ? (size_t)n : 0;
    }
    if (reader->window_n < at - reader->window_at + nbytes)
        return NULL;
    return reader->window + (at - reader->window_at);
}

bool psti_dataset_listing_reads(const struct psti_listing_state *state)
{
    return state != NULL && state->reader.fd >= 0;
}

void psti_dataset_reader_rewind(struct psti_listing_reader *reader)
{
    reader->at = PSTI_LISTING_HEADER_NBYTES;
    reader->has_next = false;
    reader->is_whole = reader->fd >= 0;
}

/* Takes over a file's descriptor if the header and the end of the file are valid. */
static bool open_file(struct psti_listing_reader *reader, int fd, uint64_t nbytes,
                      struct pst_error *err)
{
    reader->fd = fd;
    reader->nbytes = nbytes;
    reader->window_n = 0;
    if (nbytes < PSTI_LISTING_HEADER_NBYTES + PSTI_LISTING_END_NBYTES) {
        psti_fail(err, PST_ERROR_TRUNCATED, "dataset", "the saved listing is cut");
        return false;
    }
    uint64_t end = nbytes - PSTI_LISTING_END_NBYTES;
    const uint8_t *bytes = psti_dataset_reader_get(reader, end, PSTI_LISTING_END_NBYTES);
    if (bytes == NULL || psti_format_parse_listing_end(bytes, &reader->end, err) != PST_OK ||
        reader->end.file_nbytes != nbytes)
        return false;
    bytes = psti_dataset_reader_get(reader, 0, PSTI_LISTING_HEADER_NBYTES);
    return bytes != NULL && psti_format_parse_listing_header(bytes, &reader->header, err) == PST_OK;
}

enum pst_status psti_dataset_reader_prepare(struct psti_listing_reader *reader,
                                            struct pst_error *err)
{
    psti_dataset_reader_close(reader);
    reader->window = psti_alloc(WINDOW_NBYTES);
    reader->text = psti_alloc(PSTI_LISTING_TEXT_MAX);
    if (reader->window != NULL && reader->text != NULL)
        return PST_OK;
    psti_dataset_reader_close(reader);
    return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory to read a listing");
}

enum pst_status psti_dataset_reader_open(struct psti_listing_state *state, struct pst_error *err)
{
    struct psti_listing_reader *reader = &state->reader;
    struct timespec newest = {0};
    enum pst_status status = psti_dataset_reader_prepare(reader, err);
    if (status != PST_OK)
        return status;
    for (unsigned i = 0; i < PSTI_SAVED_N_PLACES; i++) {
        const char *path;
        struct stat st;
        struct pst_error why = {.text = "it cannot be read"};
        struct psti_listing_reader found = *reader;
        int fd = psti_dataset_saved_find(state->saved, i, &st, &path);
        if (fd < 0)
            continue;
        bool is_newer = reader->fd < 0 || st.st_mtim.tv_sec > newest.tv_sec ||
                        (st.st_mtim.tv_sec == newest.tv_sec && st.st_mtim.tv_nsec > newest.tv_nsec);
        if (state->check || !is_newer || !open_file(&found, fd, (uint64_t)st.st_size, &why)) {
            if (!state->check && is_newer)
                psti_log(PST_LOG_INFO, "dataset", "%s is not used: %s", path, why.text);
            close(fd);
            continue;
        }
        if (reader->fd >= 0)
            close(reader->fd);
        *reader = found;
        reader->window_n = 0;
        newest = st.st_mtim;
    }
    if (reader->fd < 0)
        psti_dataset_reader_close(reader);
    psti_dataset_reader_rewind(reader);
    return PST_OK;
}

enum pst_status psti_dataset_listing_reject(struct psti_listing_state *state, struct pst_error *err)
{
    psti_dataset_reader_close(&state->reader);
    state->again = true;
    psti_log(PST_LOG_WARNING, "dataset", "%s: the saved listing is wrong, and is not used",
             state->path);
    return psti_fail(err, PST_ERROR_CORRUPT, "dataset", "the saved listing is wrong");
}

/* Returns the bytes of the directory at reader->at, with its text and chunks. */
static uint64_t length_of(const struct psti_listing_directory *directory)
{
    return PSTI_LISTING_DIRECTORY_NBYTES + directory->text_nbytes + directory->chunks_nbytes;
}

bool psti_dataset_reader_peek(struct psti_listing_reader *reader)
{
    uint64_t end = reader->nbytes - PSTI_LISTING_END_NBYTES;
    if (reader->has_next || reader->at == end)
        return true;
    const uint8_t *bytes =
        psti_dataset_reader_get(reader, reader->at, PSTI_LISTING_DIRECTORY_NBYTES);
    struct psti_listing_directory *next = &reader->next;
    if (bytes == NULL || psti_format_parse_listing_directory(bytes, next, NULL) != PST_OK ||
        next->chunks_nbytes > reader->nbytes || !psti_range_fits(reader->at, length_of(next), end))
        return false;
    bytes = psti_dataset_reader_get(reader, reader->at + PSTI_LISTING_DIRECTORY_NBYTES,
                                    next->text_nbytes);
    if (bytes == NULL || !psti_format_listing_text_fits(next, bytes))
        return false;
    memcpy(reader->text, bytes, next->text_nbytes);
    reader->has_next = true;
    return true;
}

static void skip(struct psti_listing_reader *reader)
{
    reader->at += length_of(&reader->next);
    reader->has_next = false;
}

/* True if the directory's times show that it has not changed since it was listed. A change within
 * one tick of the file system's clock would not show, so a directory that was listed right after a
 * change does not count as unchanged. */
static bool is_same(const struct psti_listing_reader *reader, const struct stat *st)
{
    const struct psti_listing_directory *directory = &reader->next;
    const struct psti_listing_header *header = &reader->header;
    __int128 mtime = (__int128)directory->mtime_s * 1000000000 + directory->mtime_ns;
    __int128 ctime = (__int128)directory->ctime_s * 1000000000 + directory->ctime_ns;
    __int128 changed = mtime > ctime ? mtime : ctime;
    if (directory->list_again || directory->inode != (uint64_t)st->st_ino ||
        directory->mtime_s != st->st_mtim.tv_sec || directory->ctime_s != st->st_ctim.tv_sec ||
        directory->mtime_ns != (uint32_t)st->st_mtim.tv_nsec ||
        directory->ctime_ns != (uint32_t)st->st_ctim.tv_nsec)
        return false;
    return changed + header->margin_ns <= (__int128)directory->listed_ns + header->skew_ns;
}

enum pst_status psti_dataset_reader_cursor(struct psti_listing_reader *reader,
                                           struct psti_listing_cursor *cursor,
                                           struct pst_error *err)
{
    const struct psti_listing_directory *next = &reader->next;
    memset(cursor, 0, sizeof *cursor);
    cursor->reader = reader;
    cursor->directory = *next;
    cursor->n_chunks_left = next->n_chunks;
    cursor->begin = reader->at;
    cursor->end = reader->at + length_of(next);
    cursor->at = cursor->end - next->chunks_nbytes;
    cursor->text = psti_alloc(next->text_nbytes);
    if (cursor->text == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory to read a listing");
    memcpy(cursor->text, reader->text, next->text_nbytes);
    return PST_OK;
}

enum pst_status psti_dataset_listing_take(struct psti_listing_state *state, const char *path,
                                          const struct stat *st, struct psti_listing_cursor *cursor,
                                          bool *taken, struct pst_error *err)
{
    *taken = false;
    if (state == NULL)
        return PST_OK;
    struct psti_listing_reader *reader = &state->reader;
    if (path[0] == '\0')
        state->device = (uint64_t)st->st_dev;
    if (reader->fd < 0 || (state->is_audio && !reader->header.is_audio))
        return PST_OK;
    for (;;) {
        if (!psti_dataset_reader_peek(reader))
            return psti_dataset_listing_reject(state, err);
        int order = reader->has_next ? strcmp((const char *)reader->text, path) : 1;
        if (order == 0 && (uint64_t)st->st_dev == state->device && is_same(reader, st))
            break;
        reader->is_whole = false;
        if (order > 0)
            return PST_OK;
        skip(reader);
        if (order == 0)
            return PST_OK;
    }
    enum pst_status status = psti_dataset_reader_cursor(reader, cursor, err);
    if (status != PST_OK)
        return status;
    skip(reader);
    *taken = true;
    return PST_OK;
}

/* Reads the next chunk. False: it is damaged, or there is no memory. */
static bool next_chunk(struct psti_listing_reader *reader, struct psti_listing_cursor *cursor)
{
    const uint8_t *bytes = psti_dataset_reader_get(reader, cursor->at, PSTI_LISTING_CHUNK_NBYTES);
    if (bytes == NULL || psti_format_parse_listing_chunk(bytes, &cursor->chunk, NULL) != PST_OK ||
        !psti_range_fits(cursor->at, PSTI_LISTING_CHUNK_NBYTES + cursor->chunk.payload_nbytes,
                         cursor->end))
        return false;
    size_t n = cursor->chunk.payload_nbytes;
    bytes = psti_dataset_reader_get(reader, cursor->at + PSTI_LISTING_CHUNK_NBYTES, n);
    if (bytes == NULL || !psti_format_listing_payload_fits(&cursor->chunk, bytes, cursor->last))
        return false;
    uint8_t *payload = psti_realloc(cursor->payload, n);
    if (payload == NULL)
        return false;
    memcpy(payload, bytes, n);
    cursor->payload = payload;
    cursor->name = (const char *)payload + psti_format_listing_names(&cursor->chunk);
    cursor->at += PSTI_LISTING_CHUNK_NBYTES + n;
    cursor->n_chunks_left--;
    cursor->i = cursor->i_long = 0;
    return true;
}

enum pst_status psti_dataset_listing_next(struct psti_listing_state *state,
                                          struct psti_listing_cursor *cursor, const char **name,
                                          struct psti_file_facts *facts, struct pst_error *err)
{
    for (;;) {
        *name = NULL;
        if (cursor->payload == NULL || cursor->i == cursor->chunk.n_entries) {
            if (cursor->n_chunks_left == 0)
                return PST_OK;
            if (cursor->reader->fd < 0 || !next_chunk(cursor->reader, cursor))
                return psti_dataset_listing_reject(state, err);
        }
        struct psti_listing_entry entry = psti_format_listing_entry(&cursor->chunk, cursor->payload,
                                                                    cursor->i++, &cursor->i_long);
        *name = cursor->name;
        size_t n = strlen(cursor->name);
        cursor->name += n + 1;
        if (cursor->i == cursor->chunk.n_entries)
            memcpy(cursor->last, *name, n + 1);
        bool is_folder = (*name)[n - 1] == '/';
        if (!is_folder && state->is_audio != cursor->reader->header.is_audio)
            continue; /* skip audio files of the listing, because this walk is for images */
        *facts = (struct psti_file_facts){
            .nbytes = entry.nbytes, .place = entry.place, .stamp = entry.stamp};
        return PST_OK;
    }
}

void psti_dataset_listing_done(struct psti_listing_cursor *cursor)
{
    psti_free(cursor->payload);
    psti_free(cursor->text);
    cursor->payload = cursor->text = NULL;
}
