/* share_control_wire.c - converts the messages of a control session to bytes, and back. */
#include "share/share_control_wire.h"

#include <string.h>

void psti_share_put_status(struct psti_wire_out *out, const struct pst_service_status *status)
{
    psti_share_put_u64(out, status->pid);
    psti_share_put_text(out, status->version);
    psti_share_put_u64(out, status->uptime_ns);
    psti_share_put_u64(out, status->cache_nbytes);
    psti_share_put_u64(out, status->cache_nbytes_used);
    psti_share_put_u64(out, status->n_items);
    psti_share_put_u64(out, status->n_refused);
    psti_share_put_u64(out, status->n_reads);
    psti_share_put_u64(out, status->nbytes_read);
    psti_share_put_u32(out, status->n_threads);
    psti_share_put_u32(out, status->linger_s);
    psti_share_put_u32(out, status->keep);
    psti_share_put_u32(out, status->n_sets);
    psti_share_put_u32(out, status->n_sessions);
    psti_share_put_u32(out, (uint32_t)status->numa_node);
    psti_share_put_u32(out, status->numa_memory);
}

void psti_share_get_status(struct psti_wire_in *in, struct pst_service_status *status)
{
    memset(status, 0, sizeof *status);
    status->pid = psti_share_get_u64(in);
    psti_share_get_text(in, status->version, sizeof status->version);
    status->uptime_ns = psti_share_get_u64(in);
    status->cache_nbytes = psti_share_get_u64(in);
    status->cache_nbytes_used = psti_share_get_u64(in);
    status->n_items = psti_share_get_u64(in);
    status->n_refused = psti_share_get_u64(in);
    status->n_reads = psti_share_get_u64(in);
    status->nbytes_read = psti_share_get_u64(in);
    status->n_threads = psti_share_get_u32(in);
    status->linger_s = psti_share_get_u32(in);
    status->keep = psti_share_get_u32(in) != 0;
    status->n_sets = psti_share_get_u32(in);
    status->n_sessions = psti_share_get_u32(in);
    status->numa_node = (int32_t)psti_share_get_u32(in);
    status->numa_memory = psti_share_get_u32(in) != 0;
    if (status->n_sets > PSTI_STATUS_SETS_MAX || status->n_sessions > PSTI_STATUS_SESSIONS_MAX)
        in->bad = true;
}

void psti_share_put_status_set(struct psti_wire_out *out, const struct pst_service_set *set)
{
    psti_share_put_text(out, set->path);
    psti_share_put_bytes(out, set->version, sizeof set->version);
    psti_share_put_u64(out, set->forms);
    psti_share_put_u64(out, set->n_samples);
    psti_share_put_u64(out, set->n_items);
    psti_share_put_u64(out, set->nbytes);
    psti_share_put_u64(out, set->n_reads);
    psti_share_put_u64(out, set->nbytes_read);
    psti_share_put_u64(out, set->n_recoded);
    psti_share_put_u64(out, set->n_failed);
    psti_share_put_u32(out, set->n_loaders);
    psti_share_put_u32(out, set->is_full);
    psti_share_put_u64(out, set->nbytes_saved);
    psti_share_put_u64(out, set->n_to_recode);
}

void psti_share_get_status_set(struct psti_wire_in *in, struct pst_service_set *set)
{
    memset(set, 0, sizeof *set);
    psti_share_get_text(in, set->path, sizeof set->path);
    psti_share_get_bytes(in, set->version, sizeof set->version);
    set->forms = psti_share_get_u64(in);
    set->n_samples = psti_share_get_u64(in);
    set->n_items = psti_share_get_u64(in);
    set->nbytes = psti_share_get_u64(in);
    set->n_reads = psti_share_get_u64(in);
    set->nbytes_read = psti_share_get_u64(in);
    set->n_recoded = psti_share_get_u64(in);
    set->n_failed = psti_share_get_u64(in);
    set->n_loaders = psti_share_get_u32(in);
    set->is_full = psti_share_get_u32(in) != 0;
    set->nbytes_saved = psti_share_get_u64(in);
    set->n_to_recode = psti_share_get_u64(in);
}

void psti_share_put_status_session(struct psti_wire_out *out,
                                   const struct pst_service_session *session)
{
    psti_share_put_u64(out, session->number);
    psti_share_put_u64(out, session->pid);
    psti_share_put_text(out, session->kind);
    psti_share_put_text(out, session->dataset);
    psti_share_put_u64(out, session->age_ns);
    psti_share_put_u64(out, session->n_hits);
    psti_share_put_u64(out, session->n_fetched);
    psti_share_put_u64(out, session->n_missed);
    psti_share_put_u64(out, session->n_waiting);
}

void psti_share_get_status_session(struct psti_wire_in *in, struct pst_service_session *session)
{
    memset(session, 0, sizeof *session);
    session->number = psti_share_get_u64(in);
    session->pid = psti_share_get_u64(in);
    psti_share_get_text(in, session->kind, sizeof session->kind);
    psti_share_get_text(in, session->dataset, sizeof session->dataset);
    session->age_ns = psti_share_get_u64(in);
    session->n_hits = psti_share_get_u64(in);
    session->n_fetched = psti_share_get_u64(in);
    session->n_missed = psti_share_get_u64(in);
    session->n_waiting = psti_share_get_u64(in);
}

void psti_share_put_file_report(struct psti_wire_out *out,
                                const struct pst_cache_file_report *report)
{
    psti_share_put_u64(out, report->n_items);
    psti_share_put_u64(out, report->nbytes);
    psti_share_put_u64(out, report->n_datasets);
    psti_share_put_u64(out, report->file_nbytes);
    psti_share_put_u64(out, report->n_present);
    psti_share_put_u64(out, report->n_refused);
    psti_share_put_u64(out, report->n_unsaved);
}

void psti_share_get_file_report(struct psti_wire_in *in, struct pst_cache_file_report *report)
{
    report->n_items = psti_share_get_u64(in);
    report->nbytes = psti_share_get_u64(in);
    report->n_datasets = psti_share_get_u64(in);
    report->file_nbytes = psti_share_get_u64(in);
    report->n_present = psti_share_get_u64(in);
    report->n_refused = psti_share_get_u64(in);
    report->n_unsaved = psti_share_get_u64(in);
}
