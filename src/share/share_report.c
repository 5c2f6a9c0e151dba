/* share_report.c - asks the service for its status, and sends it commands. */
#include "share/share_control_wire.h"
#include "share/share_host.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"
#include "base/files/sealed.h"

struct pst_service_report {
    struct pst_service_status status;
    struct pst_service_set *sets;
    struct pst_service_session *sessions;
};

static enum pst_status parse(pst_service_report *report, const void *bytes, size_t nbytes,
                             struct pst_error *err)
{
    struct psti_wire_in in = {.bytes = bytes, .nbytes = nbytes};
    psti_share_get_status(&in, &report->status);
    enum pst_status status = in.bad ? psti_share_end(&in, "status_is", err) : PST_OK;
    if (status != PST_OK)
        return status;
    report->sets = psti_calloc(report->status.n_sets + 1, sizeof *report->sets);
    report->sessions = psti_calloc(report->status.n_sessions + 1, sizeof *report->sessions);
    if (!report->sets || !report->sessions)
        return psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for a report");
    for (uint32_t i = 0; i < report->status.n_sets; i++)
        psti_share_get_status_set(&in, &report->sets[i]);
    for (uint32_t i = 0; i < report->status.n_sessions; i++)
        psti_share_get_status_session(&in, &report->sessions[i]);
    return psti_share_end(&in, "status_is", err);
}

static enum pst_status fetch(pst_service_report *report, const char *path,
                             struct psti_message *message, struct pst_error *err)
{
    const void *bytes = NULL;
    size_t nbytes = 0;
    enum pst_status status = psti_share_request(path, PSTI_MESSAGE_STATUS, NULL, NULL,
                                                PSTI_MESSAGE_STATUS_IS, NULL, message, err);
    if (status != PST_OK)
        return status;
    if (message->n_fds != 1)
        status = psti_fail(err, PST_ERROR_CORRUPT, "share", "a report came with %u descriptors",
                           message->n_fds);
    if (status == PST_OK)
        status =
            psti_sealed_blob_map(message->fds[0], PSTI_STATUS_NBYTES_MAX, &bytes, &nbytes, err);
    if (status == PST_OK)
        status = parse(report, bytes, nbytes, err);
    psti_sealed_unmap(bytes, nbytes);
    psti_share_message_close(message);
    return status;
}

enum pst_status pst_service_report_open(const char *socket, pst_service_report **out,
                                        struct pst_error *err)
{
    char path[PSTI_SOCKET_PATH_CAP];
    if (!out)
        return psti_fail(err, PST_ERROR_ARGUMENT, "share", "out is NULL");
    *out = psti_calloc(1, sizeof **out);
    struct psti_message *message = psti_alloc(sizeof *message);
    enum pst_status status =
        *out && message ? psti_share_socket_path(socket, path, err)
                        : psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for a report");
    if (status == PST_OK)
        status = fetch(*out, path, message, err);
    psti_free(message);
    if (status != PST_OK)
        pst_service_report_close(out);
    return status;
}

void pst_service_report_close(pst_service_report **report_ptr)
{
    pst_service_report *report = report_ptr ? *report_ptr : NULL;
    if (!report)
        return;
    *report_ptr = NULL;
    psti_free(report->sets);
    psti_free(report->sessions);
    psti_free(report);
}

void pst_service_report_status(const pst_service_report *report, struct pst_service_status *status,
                               size_t status_nbytes)
{
    psti_struct_write(status, status_nbytes, &report->status, sizeof report->status);
}

enum pst_status pst_service_report_set(const pst_service_report *report, uint32_t i_set,
                                       struct pst_service_set *set, size_t set_nbytes,
                                       struct pst_error *err)
{
    if (i_set >= report->status.n_sets || !set)
        return psti_fail(err, PST_ERROR_ARGUMENT, "share", "there is no data set %u", i_set);
    psti_struct_write(set, set_nbytes, &report->sets[i_set], sizeof *report->sets);
    return PST_OK;
}

enum pst_status pst_service_report_session(const pst_service_report *report, uint32_t i_session,
                                           struct pst_service_session *session,
                                           size_t session_nbytes, struct pst_error *err)
{
    if (i_session >= report->status.n_sessions || !session)
        return psti_fail(err, PST_ERROR_ARGUMENT, "share", "there is no session %u", i_session);
    psti_struct_write(session, session_nbytes, &report->sessions[i_session],
                      sizeof *report->sessions);
    return PST_OK;
}

/* Sends a command and returns the number in the answer. */
static enum pst_status order(const char *socket, enum psti_message_kind kind, uint64_t *value,
                             struct pst_error *err)
{
    char path[PSTI_SOCKET_PATH_CAP];
    struct psti_message *message = psti_alloc(sizeof *message);
    enum pst_status status =
        message ? psti_share_socket_path(socket, path, err)
                : psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for a message");
    if (status == PST_OK)
        status = psti_share_request(path, kind, NULL, NULL, PSTI_MESSAGE_DONE, NULL, message, err);
    if (status == PST_OK) {
        struct psti_wire_in in = psti_share_message_body(message);
        *value = psti_share_get_u64(&in);
        status = psti_share_end(&in, "done", err);
        psti_share_message_close(message);
    }
    psti_free(message);
    return status;
}

enum pst_status pst_service_end(const char *socket, struct pst_error *err)
{
    uint64_t value;
    return order(socket, PSTI_MESSAGE_STOP, &value, err);
}

enum pst_status pst_service_clear(const char *socket, uint64_t *nbytes, struct pst_error *err)
{
    uint64_t freed = 0;
    enum pst_status status = order(socket, PSTI_MESSAGE_CLEAR, &freed, err);
    if (status == PST_OK && nbytes)
        *nbytes = freed;
    return status;
}
