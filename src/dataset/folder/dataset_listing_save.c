/* dataset_listing_save.c - writes a new listing while a folder is scanned.
 *
 * In: directories as they are listed, or as the old listing has them. Out: a file, which appears
 * under its name when the scan is over. Until enough files were listed to save a listing, its new
 * bytes are kept in memory; those from the old listing are only referred to. */
#include "dataset/folder/dataset_listing_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_NBYTES = 1 << 18 };

#define MS INT64_C(1000000)
/* Shortest time between a directory's last change and its listing. File systems with fine times
 * take them from a clock with ticks of 10 ms or less; others store whole seconds, or every second
 * one. */
#define MARGIN_FINE_NS (200 * MS)
#define MARGIN_COARSE_NS (2100 * MS)
/* The shortest time if the clock of the folder's file system could not be compared. */
#define MARGIN_UNSEEN_NS (60000 * MS)

void psti_dataset_listing_drop(struct psti_listing_state *state)
{
    if (state->mode == PSTI_LISTING_SAVES)
        psti_dataset_saved_end(state->saved);
    psti_output_close(&state->output);
    psti_dataset_arena_free(&state->pending);
    psti_dataset_arena_free(&state->pieces);
    state->n_listed = 0;
    state->n_directories = 0;
    state->mode = PSTI_LISTING_OFF;
}

/* Handles a failure to write at this place: the walk begins again and saves at the other place, or
 * nothing is saved. */
static enum pst_status fail_to_save(struct psti_listing_state *state, struct pst_error *why,
                                    struct pst_error *err)
{
    if (why->status == PST_ERROR_CANCELLED || why->status == PST_ERROR_MEMORY) {
        psti_dataset_listing_drop(state);
        if (err != NULL)
            *err = *why;
        return why->status;
    }
    psti_log(PST_LOG_WARNING, "dataset", "%s: the listing is not saved: %s", state->path,
             why->text);
    bool was_saving = state->mode == PSTI_LISTING_SAVES;
    psti_dataset_listing_drop(state);
    if (!was_saving || !psti_dataset_saved_elsewhere(state->saved))
        return PST_OK;
    state->again = true;
    return psti_fail(err, PST_ERROR_IO, "dataset", "the listing is saved elsewhere");
}

static enum pst_status append(struct psti_listing_state *state, const void *bytes, size_t nbytes,
                              struct pst_error *err)
{
    struct pst_error why;
    if (psti_output_append(&state->output, bytes, nbytes, &why) == PST_OK)
        return PST_OK;
    return fail_to_save(state, &why, err);
}

/* Copies bytes of the old listing to the new one. */
static enum pst_status append_old(struct psti_listing_state *state, uint64_t at, uint64_t nbytes,
                                  struct pst_error *err)
{
    enum pst_status status = PST_OK;
    while (status == PST_OK && nbytes > 0 && state->mode == PSTI_LISTING_SAVES) {
        size_t n = nbytes < 1 << 18 ? (size_t)nbytes : 1 << 18;
        const uint8_t *bytes = psti_dataset_reader_get(&state->reader, at, n);
        struct pst_error why;
        if (bytes == NULL) {
            psti_fail(&why, PST_ERROR_IO, "dataset", "the old listing cannot be read");
            return fail_to_save(state, &why, err);
        }
        status = append(state, bytes, n, err);
        at += n;
        nbytes -= n;
    }
    return status;
}

/* Adds a range of bytes to be saved later. Merges it with the last range if they are adjacent. */
static enum pst_status add_piece(struct psti_listing_state *state, bool is_old, uint64_t at,
                                 uint64_t nbytes, struct pst_error *err)
{
    struct psti_listing_piece piece = {.at = at, .nbytes = nbytes, .is_old = is_old}, last;
    if (state->pieces.nbytes > 0) {
        char *place = state->pieces.bytes + state->pieces.nbytes - sizeof last;
        memcpy(&last, place, sizeof last);
        if (last.is_old == is_old && last.at + last.nbytes == at) {
            last.nbytes += nbytes;
            memcpy(place, &last, sizeof last);
            return PST_OK;
        }
    }
    return psti_dataset_arena_add(&state->pieces, &piece, sizeof piece, err);
}

static enum pst_status put(struct psti_listing_state *state, const void *bytes, size_t nbytes,
                           struct pst_error *err)
{
    if (state->mode == PSTI_LISTING_SAVES)
        return append(state, bytes, nbytes, err);
    if (state->mode == PSTI_LISTING_OFF)
        return PST_OK;
    uint64_t at = state->pending.nbytes;
    enum pst_status status = psti_dataset_arena_add(&state->pending, bytes, nbytes, err);
    return status == PST_OK ? add_piece(state, false, at, nbytes, err) : status;
}

enum pst_status psti_dataset_listing_keep(struct psti_listing_state *state,
                                          const struct psti_listing_cursor *cursor,
                                          struct pst_error *err)
{
    uint64_t nbytes = cursor->end - cursor->begin;
    state->n_directories++;
    if (state->mode == PSTI_LISTING_SAVES)
        return append_old(state, cursor->begin, nbytes, err);
    return state->mode == PSTI_LISTING_WAITS ? add_piece(state, true, cursor->begin, nbytes, err)
                                             : PST_OK;
}

/* Writes the header and all bytes that were kept until now. */
static enum pst_status flush_pending(struct psti_listing_state *state, struct pst_error *err)
{
    bool beside = psti_dataset_saved_is_beside(state->saved);
    bool fine = psti_dataset_saved_has_fine_times(state->saved);
    const struct psti_listing_header header = {
        .is_audio = state->is_audio,
        .skew_ns = beside ? psti_dataset_saved_skew_ns(state->saved) : 0,
        .margin_ns = !beside ? MARGIN_UNSEEN_NS
                     : fine  ? MARGIN_FINE_NS
                             : MARGIN_COARSE_NS};
    uint8_t bytes[PSTI_LISTING_HEADER_NBYTES];
    psti_format_print_listing_header(&header, bytes);
    enum pst_status status = append(state, bytes, sizeof bytes, err);
    for (size_t i = 0; status == PST_OK && i < state->pieces.nbytes && state->pieces.bytes != NULL;
         i += sizeof(struct psti_listing_piece)) {
        struct psti_listing_piece piece;
        memcpy(&piece, state->pieces.bytes + i, sizeof piece);
        status = piece.is_old
                     ? append_old(state, piece.at, piece.nbytes, err)
                     : append(state, state->pending.bytes + piece.at, (size_t)piece.nbytes, err);
    }
    psti_dataset_arena_free(&state->pending);
    psti_dataset_arena_free(&state->pieces);
    return status;
}

enum pst_status psti_dataset_listing_start(struct psti_listing_state *state, struct pst_error *err)
{
    enum psti_saved_turn turn;
    struct pst_error why;
    if (psti_dataset_saved_begin(state->saved, &turn, &why) != PST_OK)
        return fail_to_save(state, &why, err);
    if (turn == PSTI_SAVED_LOOK) {
        psti_dataset_listing_drop(state);
        if (state->check)
            return PST_OK; /* a check accepts no listing of other processes */
        state->again = state->reload = true;
        return psti_fail(err, PST_ERROR_BUSY, "dataset", "another process has saved a listing");
    }
    state->mode = PSTI_LISTING_SAVES;
    enum pst_status status =
        psti_output_prepare(&state->output, "dataset", psti_dataset_saved_temporary(state->saved),
                            0, BUFFER_NBYTES, &why);
    if (status == PST_OK)
        status = psti_dataset_saved_create(state->saved, &state->output.fd, &why);
    return status == PST_OK ? flush_pending(state, err) : fail_to_save(state, &why, err);
}

/* The n-th entries of a listed directory, as chunks
 * -------------------------------------------------------------------------------------------- */

static struct psti_listing_chunk measure(const struct psti_dataset_entries *entries, size_t first,
                                         size_t n)
{
    struct psti_listing_chunk chunk = {.n_entries = (uint32_t)n};
    size_t names = 0;
    for (size_t i = first; i < first + n; i++) {
        names += strlen(psti_dataset_entries_name(entries, i)) + 1;
        chunk.n_longs += psti_dataset_entries_facts(entries, i).nbytes >= UINT32_MAX;
    }
    chunk.payload_nbytes = (uint32_t)(psti_format_listing_names(&chunk) + names);
    return chunk;
}

static enum pst_status put_chunk(struct psti_listing_state *state,
                                 const struct psti_dataset_entries *entries, size_t first, size_t n,
                                 struct pst_error *err)
{
    struct psti_listing_chunk chunk = measure(entries, first, n);
    uint8_t head[PSTI_LISTING_CHUNK_NBYTES], *brief = state->payload;
    uint8_t *longs = brief + n * PSTI_LISTING_ENTRY_NBYTES;
    uint8_t *names = brief + psti_format_listing_names(&chunk);
    for (size_t i = first; i < first + n; i++, brief += PSTI_LISTING_ENTRY_NBYTES) {
        const struct psti_file_facts entry = psti_dataset_entries_facts(entries, i);
        const char *name = psti_dataset_entries_name(entries, i);
        size_t nbytes = strlen(name) + 1;
        bool is_long = entry.nbytes >= UINT32_MAX;
        psti_store_u32(brief, is_long ? UINT32_MAX : (uint32_t)entry.nbytes);
        psti_store_u32(brief + 4, entry.place);
        psti_store_u32(brief + 8, entry.stamp);
        if (is_long) {
            psti_store_u64(longs, entry.nbytes);
            longs += 8;
        }
        memcpy(names, name, nbytes);
        names += nbytes;
    }
    chunk.checksum = psti_hash64(state->payload, chunk.payload_nbytes);
    psti_format_print_listing_chunk(&chunk, head);
    enum pst_status status = put(state, head, sizeof head, err);
    return status == PST_OK ? put(state, state->payload, chunk.payload_nbytes, err) : status;
}

/* Writes path and notices to state->payload. Returns their length; 0 if they are too long. */
static size_t print_text(struct psti_listing_state *state, const char *path)
{
    const struct psti_listing_met *met = &state->met;
    size_t n = strlen(path) + 1;
    memcpy(state->payload, path, n);
    for (uint32_t i = 0; i < met->n; i++) {
        size_t kind = strlen(met->notices[i].kind) + 1, first = strlen(met->notices[i].first) + 1;
        psti_store_u64(state->payload + n, met->notices[i].count);
        memcpy(state->payload + n + 8, met->notices[i].kind, kind);
        memcpy(state->payload + n + 8 + kind, met->notices[i].first, first);
        n += 8 + kind + first;
    }
    return n;
}
_Static_assert((int)PSTI_DATASET_FOLDER_NAME_CAP +
                       (int)PSTI_LISTING_NOTICES_MAX * (8 + 64 + PSTI_LISTING_NAME_MAX + 1) <=
                   (int)PSTI_LISTING_TEXT_MAX,
               "a text has room for a path and all notices");

static enum pst_status put_directory(struct psti_listing_state *state, const char *path,
                                     const struct stat *st,
                                     const struct psti_dataset_entries *entries,
                                     const struct psti_listing_counts *after, struct pst_error *err)
{
    const struct psti_listing_met *met = &state->met;
    struct psti_listing_directory directory = {.n_notices = met->n,
                                               .n_entries = entries->n,
                                               .inode = (uint64_t)st->st_ino,
                                               .mtime_s = st->st_mtim.tv_sec,
                                               .ctime_s = st->st_ctim.tv_sec,
                                               .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
                                               .ctime_ns = (uint32_t)st->st_ctim.tv_nsec,
                                               .listed_ns = met->listed_ns,
                                               .stamps = after->stamps - met->before.stamps,
                                               .n_hidden = after->n_hidden - met->before.n_hidden,
                                               .n_seen = after->n_seen - met->before.n_seen,
                                               .list_again = met->list_again ||
                                                             (uint64_t)st->st_dev != state->device};
    uint8_t head[PSTI_LISTING_DIRECTORY_NBYTES];
    size_t most = PSTI_LISTING_CHUNK_ENTRIES;
    for (size_t i = 0; i < entries->n; i += most) {
        size_t n = entries->n - i < most ? entries->n - i : most;
        struct psti_listing_chunk chunk = measure(entries, i, n);
        directory.n_chunks++;
        directory.chunks_nbytes += PSTI_LISTING_CHUNK_NBYTES + chunk.payload_nbytes;
    }
    directory.text_nbytes = (uint32_t)print_text(state, path);
    directory.text_checksum = psti_hash64(state->payload, directory.text_nbytes);
    psti_format_print_listing_directory(&directory, head);
    state->put_at = state->output.offset + state->output.n;
    enum pst_status status = put(state, head, sizeof head, err);
    if (status == PST_OK)
        status = put(state, state->payload, directory.text_nbytes, err);
    for (size_t i = 0; status == PST_OK && i < entries->n; i += most)
        status = put_chunk(state, entries, i, entries->n - i < most ? entries->n - i : most, err);
    state->n_directories++;
    return status;
}

enum pst_status psti_dataset_listing_add(struct psti_listing_state *state, const char *path,
                                         const struct stat *st,
                                         const struct psti_dataset_entries *entries,
                                         const struct psti_listing_counts *after,
                                         struct pst_error *err)
{
    size_t n_files = 0;
    if (state == NULL)
        return PST_OK;
    for (size_t i = 0; i < entries->n; i++) {
        const char *name = psti_dataset_entries_name(entries, i);
        n_files += name[strlen(name) - 1] != '/';
    }
    if (n_files > 0 && state->reader.fd >= 0 && state->reader.header.is_audio && !state->is_audio) {
        /* The listing has only audio files, but the folder has an image now. */
        psti_dataset_reader_close(&state->reader);
        state->again = true;
        return psti_fail(err, PST_ERROR_BUSY, "dataset", "the folder has images now");
    }
    if (state->mode == PSTI_LISTING_OFF)
        return PST_OK;
    state->n_listed += state->met.list_again ? 0 : n_files;
    enum pst_status status = PST_OK;
    if (state->mode == PSTI_LISTING_WAITS && state->n_listed >= state->worth)
        status = psti_dataset_listing_start(state, err);
    if (status == PST_OK && state->mode != PSTI_LISTING_OFF)
        status = put_directory(state, path, st, entries, after, err);
    return status;
}

enum pst_status psti_dataset_listing_reread(struct psti_listing_state *state,
                                            struct psti_listing_cursor *cursor, bool *opened,
                                            struct pst_error *err)
{
    struct pst_error why;
    *opened = false;
    if (state == NULL || state->mode != PSTI_LISTING_SAVES)
        return PST_OK;
    struct psti_listing_reader *written = &state->written;
    if (psti_output_flush(&state->output, &why) != PST_OK)
        return fail_to_save(state, &why, err);
    enum pst_status status = written->fd < 0 ? psti_dataset_reader_prepare(written, err) : PST_OK;
    if (status != PST_OK)
        return status;
    /* Duplicate the descriptor, because the output may be closed while entries are read. */
    if (written->fd < 0)
        written->fd = fcntl(state->output.fd, F_DUPFD_CLOEXEC, 0);
    if (written->fd < 0)
        return PST_OK;
    written->header.is_audio = state->is_audio;
    written->nbytes = state->output.offset + PSTI_LISTING_END_NBYTES; /* pretend that the file's end
                                                                       * is written, as the reader
                                                                       * expects it */
    written->at = state->put_at;
    written->has_next = false;
    if (!psti_dataset_reader_peek(written) || !written->has_next)
        return PST_OK;
    status = psti_dataset_reader_cursor(written, cursor, err);
    *opened = status == PST_OK;
    return status;
}

void psti_dataset_listing_finish(struct psti_listing_state *state, uint64_t n_files,
                                 const uint8_t id[16], const uint8_t files_identity[16])
{
    struct pst_error why;
    uint8_t bytes[PSTI_LISTING_END_NBYTES];
    if (state == NULL || state->mode != PSTI_LISTING_SAVES)
        return;
    struct psti_listing_end end = {.n_directories = state->n_directories, .n_files = n_files};
    end.file_nbytes = state->output.offset + state->output.n + sizeof bytes;
    memcpy(end.id, id, 16);
    memcpy(end.files_identity, files_identity, 16);
    psti_format_print_listing_end(&end, bytes);
    enum pst_status status = psti_output_append(&state->output, bytes, sizeof bytes, &why);
    if (status == PST_OK)
        status = psti_output_flush(&state->output, &why);
    psti_output_close(&state->output);
    if (status == PST_OK)
        status = psti_dataset_saved_publish(state->saved, &why);
    if (status != PST_OK)
        psti_log(PST_LOG_WARNING, "dataset", "%s: the listing is not saved: %s", state->path,
                 why.text);
    psti_dataset_listing_drop(state);
}
