/* dataset_listing.c - decides whether a folder's listing is read from a file, and collects what a
 * scan finds in the directories that it lists.
 *
 * Not used on file systems that invent inode numbers (FUSE, SMB, 9p), because the times of their
 * directories are not reliable. One thread, at open. */
#include "dataset/folder/dataset_listing_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/files/stamp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORTH_DEFAULT = 20000, AGAIN_MAX = 3 };

static size_t worth_of_environment(void)
{
    const char *text = getenv("PENSTOCK_LISTING_FILES");
    char *end;
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return WORTH_DEFAULT;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? (size_t)n : WORTH_DEFAULT;
}

enum pst_status psti_dataset_listing_open_teller(const char *path,
                                                 const struct psti_saved_wait *wait,
                                                 struct psti_listing_state **out,
                                                 struct pst_error *err)
{
    struct psti_listing_state *state = psti_calloc(1, sizeof *state);
    *out = state;
    if (state == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory to look for a listing");
    state->reader.fd = state->written.fd = state->output.fd = -1;
    state->mode = PSTI_LISTING_OFF;
    state->path = psti_strdup(path);
    enum pst_status status =
        state->path != NULL
            ? psti_dataset_saved_open(path, PSTI_LISTING_NAME, wait, &state->saved, err)
            : psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory to look for a listing");
    if (status == PST_ERROR_LIMIT) /* the path is too long for an index, so no listing is used */
        status = PST_OK;
    if (status != PST_OK)
        psti_dataset_listing_close(out);
    return status;
}

enum pst_status psti_dataset_listing_open(const char *path, const struct psti_saved_wait *wait,
                                          bool check, struct psti_listing_state **out,
                                          struct pst_error *err)
{
    enum pst_status status = psti_dataset_listing_open_teller(path, wait, out, err);
    struct psti_listing_state *state = *out;
    if (status != PST_OK)
        return status;
    state->mode = PSTI_LISTING_WAITS;
    state->check = check;
    state->worth = state->saved != NULL && psti_stamp_has_inodes(path) ? worth_of_environment() : 0;
    if (state->worth > 0)
        state->payload = psti_alloc(PSTI_LISTING_PAYLOAD_MAX);
    if (state->worth > 0 && state->payload == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory to look for a listing");
    if (status == PST_OK && state->worth > 0)
        status = psti_dataset_reader_open(state, err);
    if (status != PST_OK)
        psti_dataset_listing_close(out);
    return status;
}

void psti_dataset_listing_close(struct psti_listing_state **state)
{
    struct psti_listing_state *closed = *state;
    *state = NULL;
    if (closed == NULL)
        return;
    if (closed->saved != NULL)
        psti_dataset_listing_drop(closed);
    psti_dataset_reader_close(&closed->reader);
    psti_dataset_reader_close(&closed->written);
    psti_dataset_saved_close(&closed->saved);
    psti_free(closed->payload);
    psti_free(closed->path);
    psti_free(closed);
}

void psti_dataset_listing_pass(struct psti_listing_state *state, bool is_audio)
{
    if (state == NULL)
        return;
    psti_dataset_listing_drop(state);
    state->is_audio = is_audio;
    state->device = 0;
    psti_dataset_reader_close(&state->written);
    psti_dataset_reader_rewind(&state->reader);
    bool is_other = state->reader.fd >= 0 && state->reader.header.is_audio && !is_audio;
    if (state->worth > 0 && !is_other)
        state->mode = PSTI_LISTING_WAITS;
}

void psti_dataset_listing_pairs(struct psti_listing_state *state)
{
    if (state != NULL)
        psti_dataset_listing_drop(state);
}

bool psti_dataset_listing_again(struct psti_listing_state *state)
{
    if (state == NULL || !state->again)
        return false;
    struct pst_error err;
    bool reload = state->reload;
    state->again = state->reload = false;
    psti_dataset_listing_drop(state);
    if (++state->n_again > AGAIN_MAX) {
        psti_dataset_reader_close(&state->reader);
        state->worth = 0;
    } else if (reload && psti_dataset_reader_open(state, &err) != PST_OK) {
        psti_dataset_reader_close(&state->reader);
    }
    return true;
}

void psti_dataset_listing_begin(struct psti_listing_state *state,
                                const struct psti_listing_counts *before)
{
    struct timespec now;
    if (state == NULL)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    state->met.before = *before;
    state->met.listed_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    state->met.list_again = false;
    state->met.n = 0;
}

void psti_dataset_listing_note(struct psti_listing_state *state, const char *kind,
                               const char *first)
{
    uint32_t i = 0;
    if (state == NULL)
        return;
    struct psti_listing_met *met = &state->met;
    while (i < met->n && strcmp(met->notices[i].kind, kind) != 0)
        i++;
    if (i == met->n) {
        if (i == PSTI_LISTING_NOTICES_MAX || strlen(first) > PSTI_LISTING_NAME_MAX ||
            strlen(kind) >= sizeof met->notices[0].kind) {
            met->list_again = true;
            return;
        }
        met->n++;
        met->notices[i].count = 0;
        memcpy(met->notices[i].kind, kind, strlen(kind) + 1);
        memcpy(met->notices[i].first, first, strlen(first) + 1);
    }
    met->notices[i].count++;
}

void psti_dataset_listing_doubt(struct psti_listing_state *state)
{
    if (state != NULL)
        state->met.list_again = true;
}

size_t psti_dataset_listing_worth(const struct psti_listing_state *state)
{
    return state == NULL || state->mode != PSTI_LISTING_WAITS ? 0 : state->worth;
}

enum pst_status psti_dataset_listing_expect(struct psti_listing_state *state, size_t n,
                                            bool *changed, struct pst_error *err)
{
    *changed = false;
    if (psti_dataset_listing_worth(state) == 0 || n < state->worth)
        return PST_OK;
    char folder[PATH_MAX];
    struct stat st;
    int length = snprintf(folder, sizeof folder, "%s/" PSTI_SAVED_FOLDER, state->path);
    bool was_there = length >= (int)sizeof folder || lstat(folder, &st) == 0;
    enum pst_status status = psti_dataset_listing_start(state, err);
    if (status == PST_OK && !was_there && lstat(folder, &st) == 0) {
        *changed = true;
        /* Wait for some ticks of the file system's clock. Else the top would count as changed just
         * now, and its times could not be trusted. */
        psti_clock_sleep_until(psti_clock_ns() + 250000000);
    }
    return status;
}

enum pst_status psti_dataset_listing_tell(struct psti_listing_state *state, size_t n_files,
                                          struct pst_error *err)
{
    if (state == NULL || state->saved == NULL)
        return PST_OK;
    bool has_total = state->reader.fd >= 0 && state->reader.header.is_audio == state->is_audio;
    const struct pst_progress progress = {.n_done = n_files,
                                          .n_total = has_total ? state->reader.end.n_files : 0};
    return psti_dataset_saved_tell(state->saved, &progress, err);
}

bool psti_dataset_listing_identities(const struct psti_listing_state *state, uint8_t id[16],
                                     uint8_t files_identity[16])
{
    if (state == NULL || state->reader.fd < 0 || !state->reader.is_whole ||
        state->reader.header.is_audio != state->is_audio ||
        state->reader.at != state->reader.nbytes - PSTI_LISTING_END_NBYTES)
        return false;
    memcpy(id, state->reader.end.id, 16);
    memcpy(files_identity, state->reader.end.files_identity, 16);
    return true;
}
