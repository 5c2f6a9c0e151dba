/* cli_service.c - prints the host service's report about itself, as JSON and as text. */
#include "cli.h"

#include <inttypes.h>

enum pst_status cli_ask_service(const char *socket, pst_service_report **report,
                                struct pst_service_status *status, struct pst_error *err)
{
    enum pst_status result = pst_service_report_open(socket, report, err);
    if (result == PST_OK)
        pst_service_report_status(*report, status, sizeof *status);
    return result;
}

/* Returns the percentage of lookups that found their item, or -1 if there were no lookups. */
static double hit_rate(const struct pst_service_session *session)
{
    uint64_t n = session->n_hits + session->n_fetched + session->n_missed;
    return n ? 100.0 * (double)session->n_hits / (double)n : -1;
}

static void set_json(struct cli_json *json, const struct pst_service_set *set)
{
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "dataset", set->path);
    cli_json_bool(json, "recoded_form", set->forms != 0);
    cli_json_uint(json, "samples", set->n_samples);
    cli_json_uint(json, "items", set->n_items);
    cli_json_uint(json, "nbytes", set->nbytes);
    cli_json_uint(json, "reads", set->n_reads);
    cli_json_uint(json, "nbytes_read", set->nbytes_read);
    cli_json_uint(json, "recoded", set->n_recoded);
    cli_json_uint(json, "nbytes_saved", set->nbytes_saved);
    cli_json_uint(json, "to_recode", set->n_to_recode);
    cli_json_uint(json, "failed", set->n_failed);
    cli_json_uint(json, "loaders", set->n_loaders);
    cli_json_bool(json, "full", set->is_full);
    cli_json_close(json, '}');
}

static void session_json(struct cli_json *json, const struct pst_service_session *session)
{
    cli_json_open(json, NULL, '{');
    cli_json_uint(json, "number", session->number);
    cli_json_uint(json, "pid", session->pid);
    cli_json_text(json, "kind", session->kind);
    cli_json_text(json, "dataset", session->dataset);
    cli_json_float(json, "age_seconds", (double)session->age_ns / 1e9);
    cli_json_uint(json, "hits", session->n_hits);
    cli_json_uint(json, "fetched", session->n_fetched);
    cli_json_uint(json, "missed", session->n_missed);
    cli_json_uint(json, "waiting", session->n_waiting);
    cli_json_close(json, '}');
}

void cli_service_json(struct cli_json *json, const pst_service_report *report)
{
    struct pst_service_status status;
    struct pst_service_set set;
    struct pst_service_session session;
    pst_service_report_status(report, &status, sizeof status);
    cli_json_uint(json, "pid", status.pid);
    cli_json_text(json, "version", status.version);
    cli_json_float(json, "uptime_seconds", (double)status.uptime_ns / 1e9);
    cli_json_uint(json, "threads", status.n_threads);
    cli_json_uint(json, "linger_seconds", status.linger_s);
    cli_json_bool(json, "keep", status.keep);
    if (status.numa_node >= 0)
        cli_json_uint(json, "numa_node", (uint64_t)status.numa_node);
    else
        cli_json_null(json, "numa_node");
    cli_json_bool(json, "numa_memory", status.numa_memory);
    cli_json_uint(json, "limit", status.cache_nbytes);
    cli_json_uint(json, "used", status.cache_nbytes_used);
    cli_json_uint(json, "items", status.n_items);
    cli_json_uint(json, "refused", status.n_refused);
    cli_json_uint(json, "reads", status.n_reads);
    cli_json_uint(json, "nbytes_read", status.nbytes_read);
    cli_json_open(json, "sets", '[');
    for (uint32_t i = 0; i < status.n_sets; i++)
        if (pst_service_report_set(report, i, &set, sizeof set, NULL) == PST_OK)
            set_json(json, &set);
    cli_json_close(json, ']');
    cli_json_open(json, "sessions", '[');
    for (uint32_t i = 0; i < status.n_sessions; i++)
        if (pst_service_report_session(report, i, &session, sizeof session, NULL) == PST_OK)
            session_json(json, &session);
    cli_json_close(json, ']');
}

static void set_text(const struct pst_service_set *set)
{
    char nbytes[32], read[32];
    cli_size_text(set->nbytes, nbytes);
    cli_size_text(set->nbytes_read, read);
    fputs("  ", stdout);
    cli_print_name(stdout, set->path);
    printf("%s\n    %" PRIu64 " items, %s; read %s; ", set->forms ? " (re-coded)" : "",
           set->n_items, nbytes, read);
    cli_print_count(set->n_loaders, "loader", "loaders");
    if (set->n_to_recode > 0)
        printf("; %" PRIu64 " to re-code", set->n_to_recode);
    puts(set->is_full ? "; full" : "");
}

static void session_text(const struct pst_service_session *session)
{
    double rate = hit_rate(session);
    printf("  pid %-8" PRIu64 " %-7s ", session->pid, session->kind);
    if (rate >= 0)
        printf("%5.1f %% hits, %" PRIu64 " fetched, %" PRIu64 " missed, %" PRIu64 " waiting  ",
               rate, session->n_fetched, session->n_missed, session->n_waiting);
    cli_print_name(stdout, session->dataset);
    putchar('\n');
}

void cli_service_text(const pst_service_report *report)
{
    struct pst_service_status status;
    struct pst_service_set set;
    struct pst_service_session session;
    char used[32], limit[32], read[32];
    pst_service_report_status(report, &status, sizeof status);
    cli_size_text(status.cache_nbytes_used, used);
    cli_size_text(status.cache_nbytes, limit);
    cli_size_text(status.nbytes_read, read);
    printf("host service %s, process %" PRIu64 ", %u threads, up for %.0f s\n", status.version,
           status.pid, status.n_threads, (double)status.uptime_ns / 1e9);
    if (status.keep)
        puts("it stays until it is ended");
    else
        printf("it ends %u s after its last client\n", status.linger_s);
    if (status.numa_node >= 0)
        printf("NUMA node %d: %s\n", status.numa_node,
               status.numa_memory ? "threads and memory" : "threads alone");
    printf("cache: %s of %s, %" PRIu64 " items; read from storage: %s\n", used, limit,
           status.n_items, read);
    printf("data sets: %u\n", status.n_sets);
    for (uint32_t i = 0; i < status.n_sets; i++)
        if (pst_service_report_set(report, i, &set, sizeof set, NULL) == PST_OK)
            set_text(&set);
    printf("sessions: %u\n", status.n_sessions);
    for (uint32_t i = 0; i < status.n_sessions; i++)
        if (pst_service_report_session(report, i, &session, sizeof session, NULL) == PST_OK)
            session_text(&session);
}
