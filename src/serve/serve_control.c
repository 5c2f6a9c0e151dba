/* serve_control.c - sessions that ask about the service, or order it to do something. */
#include "serve/serve.h"

#include "base/fail.h"

static enum pst_status stop(struct psti_session *session, const struct psti_message *message,
                            struct pst_error *err)
{
    struct psti_wire_in in = psti_share_message_body(message);
    enum pst_status status = psti_share_end(&in, "stop", err);
    if (status != PST_OK)
        return status;
    struct psti_wire_out out = psti_serve_session_answer(session);
    psti_serve_session_send(session, &out, PSTI_MESSAGE_DONE, message->head.id, NULL, 0);
    pst_service_stop(session->service);
    return PST_OK;
}

static enum pst_status take_message(struct psti_session *session, struct psti_message *message,
                                    struct pst_error *err)
{
    switch (message->head.kind) {
    case PSTI_MESSAGE_STOP:
        return stop(session, message, err);
    default:
        return psti_fail(err, PST_ERROR_CORRUPT, "serve",
                         "a message of kind %u came in a session of control", message->head.kind);
    }
}

const struct psti_session_ops psti_serve_control = {
    .kind = PSTI_SESSION_CONTROL, .name = "control", .message = take_message};
