/* serve_stream_answer.c - sends answers to jobs that share preparation.
 *
 * Everything runs on the loop's thread. */
#include "serve/serve_stream_answer.h"

#include "serve/serve_stream_int.h"

/* Returns the newest epoch that a job of the group or of a sibling works on; UINT64_MAX: none. */
static uint64_t newest_epoch(const struct psti_group *group)
{
    uint64_t newest = group->newest_epoch;
    for (const struct psti_group *at = psti_serve_groups(group->service)->first; at; at = at->next)
        if (!at->ending && at->shelf && at->shelf == group->shelf &&
            at->newest_epoch != UINT64_MAX && (newest == UINT64_MAX || at->newest_epoch > newest))
            newest = at->newest_epoch;
    return newest;
}

static struct psti_stream_counts counts_of(const struct psti_group *group)
{
    struct psti_shelf_counts counts = {0};
    if (group->shelf)
        psti_loader_shelf_counts(group->shelf, &counts);
    return (struct psti_stream_counts){.n_decoded = counts.n_decoded,
                                       .n_decoded_shared = counts.n_decoded_shared,
                                       .n_apart = counts.n_apart,
                                       .n_read = counts.n_read,
                                       .nbytes_read = counts.nbytes_read,
                                       .n_read_shared = counts.n_read_shared,
                                       .nbytes_read_shared = counts.nbytes_read_shared,
                                       .n_cached = counts.n_cached,
                                       .n_given_up = counts.n_given_up};
}

void psti_serve_job_opened(struct psti_job *job)
{
    struct psti_stream_layout layout = job->group->layout;
    layout.hold_max = job->hold_max;
    layout.group_epoch = newest_epoch(job->group);
    layout.group_samples = job->group->n_samples;
    layout.counts = counts_of(job->group);
    struct psti_wire_out out = psti_serve_session_answer(job->session);
    psti_share_put_layout(&out, &layout);
    psti_serve_session_send(job->session, &out, (enum psti_message_kind)PSTI_STREAM_OPENED,
                            job->open_id, NULL, 0);
}

void psti_serve_job_refused(struct psti_job *job, const struct pst_error *err)
{
    psti_serve_session_send_error(job->session, job->open_id, err);
    job->session->ending = true;
}

void psti_serve_job_ready(struct psti_job *job, struct psti_serve_extent *const *extents,
                          uint32_t n)
{
    struct psti_stream_ready ready = {.group_epoch = newest_epoch(job->group),
                                      .group_samples = job->group->n_samples,
                                      .counts = counts_of(job->group),
                                      .n_extents = n};
    const struct psti_serve_stream *stream = extents[0]->stream;
    int fds[PSTI_STREAM_ARENAS];
    if (job->sent[stream->index] != stream->generation) {
        job->sent[stream->index] = stream->generation;
        fds[ready.n_arenas] = stream->arena.fd;
        ready.arenas[ready.n_arenas++] = stream->index;
    }
    for (uint32_t i = 0; i < n; i++)
        ready.extents[i] = (struct psti_stream_extent){.number = extents[i]->number,
                                                       .arena = stream->index,
                                                       .slot = extents[i]->slot,
                                                       .n_rows = extents[i]->n_rows,
                                                       .own_nbytes = extents[i]->own_nbytes};
    struct psti_wire_out out = psti_serve_session_answer(job->session);
    psti_share_put_ready(&out, &ready);
    psti_serve_session_send(job->session, &out, (enum psti_message_kind)PSTI_STREAM_READY,
                            job->want_id, fds, ready.n_arenas);
}

void psti_serve_job_alone(struct psti_job *job, enum psti_stream_alone reason)
{
    struct psti_wire_out out = psti_serve_session_answer(job->session);
    psti_share_put_alone(&out, reason);
    psti_serve_session_send(job->session, &out, (enum psti_message_kind)PSTI_STREAM_ALONE,
                            job->want_id, NULL, 0);
}
